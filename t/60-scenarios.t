#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The scenarios of t/scenarios with ipu-sim as Kubernetes; t/cluster/20-…, 21-… run them on a real one.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(program_or_skip watchdog);
use Scenario qw(run_scenarios);
use Scenario::Sim;
use Test::More;

watchdog(400);
program_or_skip('kubectl');
run_scenarios(Scenario::Sim->new, 'sim');
done_testing;
