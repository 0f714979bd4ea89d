#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# More scenarios behind the fault proxy, beside 86-faults.t; one of them with controllers that speak TLS. Each kind of fault has come
# in at least one of them.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use Faults ();
use IpuTest qw(program_or_skip watchdog);
use Scenario qw(run_scenarios);
use Scenario::Sim;
use Test::More;

plan(skip_all => 'the scenarios that IPU_SCENARIO names are in 60-scenarios.t') if $ENV{IPU_SCENARIO};
watchdog(600);
program_or_skip('kubectl');

# Scenarios and their seeds: IPU_FAULTS=SEED IPU_SCENARIO=NAME for 60-scenarios.t plays one alone.
my @plays = ([ 'bad-luck', 12 ], [ 'lost-node', 8 ], [ 'launcher-script', 10 ], [ 'template', 11 ], [ 'annotated-init', 7 ], [ 'secure', 13 ]);
for my $play (@plays) {
	my ($name, $seed) = @$play;
	local $ENV{IPU_FAULTS} = $seed;
	run_scenarios(Scenario::Sim->new, 'sim', only => [$name]);
}
is_deeply([Faults::forgotten()], [], 'each kind of fault has come');
done_testing;
