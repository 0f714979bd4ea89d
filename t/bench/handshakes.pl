#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many new TLS connections a second a listener with the operator's own certificate takes on one core:
# openssl s_time against the webhooks' port, whose settings are those of all TLS listeners, each connection a
# full handshake (there is no resumption) without a request. Not part of make check; from the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/handshakes.pl [--seconds=5] [--runs=5] [--clients=2]
#
# needs openssl and taskset: the operator is on the first processor, the clients on the second. Prints for
# TLS 1.2 and 1.3 the median and spread, and handshakes for each second of the operator's processor time,
# which a busy machine falsifies less.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Getopt::Long qw(GetOptions);
use IpuTest;
use Test::More;

my %opt = (seconds => 5, runs => 5, clients => 2);
GetOptions(\%opt, map { "$_=i" } keys %opt) or die "see the beginning of $0\n";
watchdog(60 + 4 * $opt{runs} * ($opt{seconds} + 5));

my %tool = map { $_ => program_or_skip($_) } qw(openssl taskset);
my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim"]);
my $daemon = start('ipu-operator', path => $tool{taskset}, args => [qw(-c 0), program('ipu-operator'), '--roles', 'webhook',
	'--kubeconfig', "$dir/sim/kubeconfig", '--set', 'operatorNamespace=default',
	map { ('--set', "$_=127.0.0.1:0") } qw(webhook.listen health.listen metrics.listen)]);
wait_until('the operator', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });

sub cpu_ticks { my @f = split / /, slurp('/proc/' . $daemon->pid . '/stat') =~ s/^.*\) //sr; return $f[11] + $f[12] }

# All clients side by side, each in a process of its own.
sub measure ($version) {
	my $before = cpu_ticks();
	my $command = join ' ', $tool{taskset}, qw(-c 1), $tool{openssl}, qw(s_time -new -connect),
		'127.0.0.1:' . $daemon->port('webhook'), '-time', $opt{seconds}, "-$version";
	my $done = run([ 'sh', '-c', join(' ', map { "$command & " } 1 .. $opt{clients}) . 'wait' ], seconds => 60 + $opt{seconds});
	my $ticks = cpu_ticks() - $before;
	my ($n, $rate) = (0, 0);
	while ($done->{out} =~ /^(\d+) connections in (\d+) real seconds/mg) {
		$n += $1;
		$rate += $1 / $2;
	}
	$n > 0 or die "$done->{out}$done->{err}\n";
	return ($rate, $n * 100 / ($ticks || 1));
}

my %runs;
for my $run (1 .. $opt{runs}) {
	for my $version (qw(tls1_2 tls1_3)) {
		my ($rate, $per_cpu) = measure($version);
		printf "%s run %d: %5.0f handshakes/s, %5.0f for each second of its processor\n", $version, $run, $rate, $per_cpu;
		push @{ $runs{$version}{wall} }, $rate;
		push @{ $runs{$version}{processor} }, $per_cpu;
	}
}
for my $version (sort keys %runs) {
	for my $kind (qw(wall processor)) {
		my @sorted = sort { $a <=> $b } @{ $runs{$version}{$kind} };
		printf "%s %-9s: median %5.0f, from %5.0f to %5.0f\n", $version, $kind, $sorted[ $#sorted / 2 ], @sorted[ 0, -1 ];
	}
}
$daemon->stop(status => 0);
$sim->stop(status => 0);
done_testing();
