#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How the proxy's cost grows with partitions and with controllers (with jobs: memory.pl; with watchers: viewers.pl). From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/growth.pl [--partitions=10,100,1000] [--controllers=1,4,16,64] [--runs=3] [--json=FILE] [--kubeconfig=FILE]
#
# Of controllers, the first number is what the operator is without any, nearly: how cost grows is judged by those that are more.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s figure finish options partitions resident_kb start_operator start_proxy start_sim wait_ready);
use IpuTest qw(http wait_until);
use Test::More;

my $opt = options(900, partitions => '10,100,1000', controllers => '1,4,16,64');

for my $n (split /,/, $opt->{partitions}) {
	my (@s, @cpu, @mb);
	for (1 .. $opt->{runs}) {
		my $sim = start_sim(controllers => 4, agents => 1 + int($n / 12), create_ms => 1);
		my $proxy = start_proxy($sim, beside => 1);
		my ($daemon, $begin) = ($proxy->{daemon}, Time::HiRes::time());
		my ($cpu, $kb) = (cpu_s($daemon->pid), resident_kb($daemon->pid));
		partitions($proxy, 1 .. $n);
		push @s, Time::HiRes::time() - $begin;
		push @cpu, cpu_s($daemon->pid) - $cpu;
		push @mb, (resident_kb($daemon->pid) - $kb) / 1000;
		$_->stop(status => 0) for $daemon, $sim;
	}
	figure("$n partitions, asked for one after the other: time", 's', \@s, id => "partitions-time-$n", series => 'partitions: time', n => $n);
	figure('… CPU of the operator', 's', \@cpu, id => "partitions-cpu-$n", series => 'partitions: CPU', n => $n);
	figure('… memory', 'MB', \@mb, id => "partitions-memory-$n", series => 'partitions: memory', n => $n);
}
my ($first, $first_cpu, $first_mb);
for my $n (split /,/, $opt->{controllers}) {
	my (@cpu, @mb);
	for (1 .. $opt->{runs}) {
		my $sim = start_sim(controllers => $n);
		my $daemon = start_operator($sim, beside => 1, roles => 'proxy');
		wait_ready($daemon);
		my $ipus = 64 * $n;
		wait_until('all controllers', sub { $ipus == (http('GET', $daemon->url('proxy', '/stats'))->{json}{total}{available} // 0) });
		push @cpu, cpu_s($daemon->pid);
		push @mb, resident_kb($daemon->pid) / 1000;
		$_->stop(status => 0) for $daemon, $sim;
	}
	($first, $first_cpu, $first_mb) = ($n, Bench::median(@cpu), Bench::median(@mb)) if !$first;
	figure("$n controllers: CPU until all are known", 's', \@cpu, id => "controllers-cpu-$n", series => 'more controllers: CPU until known', n => $n - $first, without => $first_cpu);
	figure('… memory', 'MB', \@mb, id => "controllers-memory-$n", series => 'more controllers: memory', n => $n - $first, without => $first_mb);
}
finish();
