#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The scenarios of t/scenarios about further networks, on real nodes with a second one and a CNI plugin that gives Pods the
# networks that they name (t/cluster/cni/networks): one cluster for all of them.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Scenario qw(run_scenarios);
use Scenario::Real;
use Test::More;

my $back = Scenario::Real->new('nodes', nodes => 2, networks => 1);
run_scenarios($back, 'networks');
$back->down;
done_testing;
