#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks on a real Kubernetes of t/cluster, which it brings up and takes down: those of table.pl that need an API server (KWOK's nodes),
# then remote execution in real Pods. From the build folder, as root:
#
#     TOP_BUILDDIR=$PWD ../t/bench/cluster.pl [OPTIONS OF table.pl]
#
# needs what t/cluster needs.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../cluster/lib";
use Cluster;
use Test::More;

my $cluster = Cluster->up('scale', nodes => 1);
is(system($^X, "$FindBin::Bin/table.pl", '--kubeconfig=' . $cluster->host_kubeconfig, @ARGV), 0, 'the lines of an API server');
$cluster->down;
is(system($^X, "$FindBin::Bin/remote.pl", '--runs=5'), 0, 'remote execution');
done_testing();
