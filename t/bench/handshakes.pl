#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many new TLS connections a second a listener with the operator's own certificate takes on one core:
# openssl s_time against the webhooks' port, whose settings are those of all TLS listeners, each connection a
# full handshake (there is no resumption) without a request. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/handshakes.pl [--seconds=5] [--runs=5] [--clients=2] [--versions=tls1_2,tls1_3] [--json=FILE] [--kubeconfig=FILE]
#
# needs openssl and taskset: the operator is on the first processor, the clients on the second. Prints for
# TLS 1.2 and 1.3 the median and spread, and handshakes for each second of the operator's processor time,
# which a busy machine falsifies less.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s figure finish on_second options start_operator start_sim wait_ready);
use IpuTest qw(program_or_skip run);
use Test::More;

my $opt = options(900, seconds => 5, runs => 5, clients => 2, versions => 'tls1_2,tls1_3');
my $openssl = program_or_skip('openssl');
my $sim = start_sim();
my $daemon = start_operator($sim, roles => 'webhook');
wait_ready($daemon);

# All clients side by side, each in a process of its own.
sub measure ($version) {
	my $before = cpu_s($daemon->pid);
	my $command = join ' ', on_second(), $openssl, qw(s_time -new -connect), '127.0.0.1:' . $daemon->port('webhook'), '-time', $opt->{seconds}, "-$version";
	my $done = run([ 'sh', '-c', join(' ', map { "$command & " } 1 .. $opt->{clients}) . 'wait' ], seconds => 60 + $opt->{seconds});
	my $cpu = cpu_s($daemon->pid) - $before;
	my ($n, $rate) = (0, 0);
	while ($done->{out} =~ /^(\d+) connections in (\d+) real seconds/mg) {
		$n += $1;
		$rate += $1 / $2;
	}
	$n > 0 or die "$done->{out}$done->{err}\n";
	return ($rate, $n / $cpu);
}

for my $version (split /,/, $opt->{versions}) {
	my (@wall, @cpu);
	for (1 .. $opt->{runs}) {
		my ($rate, $per_cpu) = measure($version);
		push @wall, $rate;
		push @cpu, $per_cpu;
	}
	my $name = $version =~ s/tls(\d)_(\d)/TLS $1.$2/r;
	figure("$name handshakes, for a second of its core", 'handshakes', \@cpu, id => "handshakes-$version");
	figure('… by the clock', '/s', \@wall, id => "handshakes-$version-wall");
}
finish($daemon, $sim);
