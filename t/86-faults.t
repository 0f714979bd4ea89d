#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Scenarios of t/scenarios with the fault proxy between the daemon and its peers, each by a seed (doc/design/faults.md):
# they end as they do without. 86-faults-2.t has more, to run beside this one.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(program_or_skip watchdog);
use Scenario qw(run_scenarios);
use Scenario::Sim;
use Test::More;

plan(skip_all => 'the scenarios that IPU_SCENARIO names are in 60-scenarios.t') if $ENV{IPU_SCENARIO};
watchdog(600);
program_or_skip('kubectl');

# Scenarios and their seeds: IPU_FAULTS=SEED IPU_SCENARIO=NAME for 60-scenarios.t plays one alone.
my @plays = ([ 'ends', 1 ], [ 'queue', 2 ], [ 'managed', 3 ], [ 'release', 4 ], [ 'list', 5 ], [ 'kueue', 6 ]);
for my $play (@plays) {
	my ($name, $seed) = @$play;
	local $ENV{IPU_FAULTS} = $seed;
	run_scenarios(Scenario::Sim->new, 'sim', only => [$name]);
}
done_testing;
