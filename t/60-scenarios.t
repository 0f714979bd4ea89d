#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The scenarios of t/scenarios with ipu-sim as Kubernetes; t/cluster/20-…, 21-… run them on a real one. They wait more than
# they work: 60-scenarios-2.t and -3.t have a third of them each, to run beside this one.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(program_or_skip watchdog);
use Scenario qw(run_scenarios);
use Scenario::Sim;
use Test::More;

watchdog(400);
program_or_skip('kubectl');
run_scenarios(Scenario::Sim->new, 'sim', share => [ 1, 3 ]);
done_testing;
