#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The scenarios of t/scenarios with a real Kubernetes and real nodes, where containers run: one cluster for all of them.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Scenario qw(run_scenarios);
use Scenario::Real;
use Test::More;

my $back = Scenario::Real->new('nodes');
run_scenarios($back, 'nodes');
$back->down;
done_testing;
