#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many requests a second the proxy's open port answers on one core: ipu-operator on ipu-sim, with many partitions, /stats and /query.
# From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/rest.pl [--partitions=1000] [--controllers=16] [--connections=64] [--seconds=3] [--runs=5] [--json=FILE] [--kubeconfig=FILE]
#
# needs two processors: the operator is on the first, the load (t/tools/bench_load.c) on the second, and the simulator, idle by then,
# wherever there is room. What is judged are requests for each second of the operator's processor time, which a busy machine falsifies
# less; by the clock it is as fast as the load on the other core, and what else runs there, let it.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s figure finish on_second options partitions start_proxy start_sim tool_on);
use IpuTest qw(spit test_dir);
use Test::More;

my $opt = options(600, partitions => 1000, controllers => 16, connections => 64, seconds => 3, runs => 5);
my $sim = start_sim(controllers => $opt->{controllers}, agents => 1 + int($opt->{partitions} / $opt->{controllers} / 3), create_ms => 20);
my $proxy = start_proxy($sim);
partitions($proxy, 1 .. $opt->{partitions});

my $query = spit(test_dir() . '/query.json', '{"size":2}');
for my $case ([ '/stats', [], bar => '>= 60000' ], [ '/query', ["--body=$query"] ]) {
	my ($path, $args, @bar) = @$case;
	my (@wall, @cpu);
	for (1 .. $opt->{runs}) {
		my $before = cpu_s($proxy->{daemon}->pid);
		my $said = tool_on([on_second()], 'load', @$args, "--connections=$opt->{connections}", "--seconds=$opt->{seconds}", $proxy->{daemon}->url('proxy', $path));
		# Those of the time in which it warms up are in the processor time too.
		my $all = $said->{requests} * ($said->{seconds} + $said->{warm_seconds}) / $said->{seconds};
		push @wall, $said->{requests} / $said->{seconds};
		push @cpu, $all / (cpu_s($proxy->{daemon}->pid) - $before);
	}
	figure("$path with $opt->{partitions} partitions, for a second of its core", 'requests', \@cpu, @bar, id => 'rest' . $path =~ tr{/}{-}r);
	figure('… by the clock', '/s', \@wall, id => 'rest' . $path =~ tr{/}{-}r . '-wall');
}
finish($proxy->{daemon}, $sim);
