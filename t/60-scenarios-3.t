#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A third of the scenarios of t/scenarios with ipu-sim as Kubernetes, beside 60-scenarios.t, which has those that
# IPU_SCENARIO names.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(program_or_skip watchdog);
use Scenario qw(run_scenarios);
use Scenario::Sim;
use Test::More;

plan(skip_all => 'the scenarios that IPU_SCENARIO names are in 60-scenarios.t') if $ENV{IPU_SCENARIO};
watchdog(400);
program_or_skip('kubectl');
run_scenarios(Scenario::Sim->new, 'sim', share => [ 3, 3 ]);
done_testing;
