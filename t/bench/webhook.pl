#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What a review costs: wrk against the webhooks of ipu-operator, over TLS, reviews of an IPUJob and of an
# annotated Pod on connections that are kept, then with a connection each; and what memory becomes of it.
# Only the new job asks the API server: what is kept of its answers for seconds, and with --tried the
# simulator's dry run of two Pods each time. Not part of make check; from the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/webhook.pl [--connections=4] [--seconds=5] [--runs=5] [--soak=1000000] [--tried=1]
#         [--fifo=10] [--pause=0]
#
# needs wrk, taskset and two processors: the operator is on the first, wrk on the second, and the
# simulator, idle by then, wherever there is room. Prints median and spread of the rates, of the 99th
# percentile as wrk sees it (of all that there can be, then of 2,000 a second), and of the operator's processor time, which a busy machine falsifies less.
# With --fifo=N (root) both go before everything else on the machine (SCHED_FIFO), so that it's they that are
# measured; whatever else runs there stands still meanwhile.
# With --soak=N, N reviews of all kinds afterwards, --seconds of them at a time with --pause seconds between,
# and its memory on the way. --runs=0: only that.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Getopt::Long qw(GetOptions);
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

my %opt = (connections => 4, seconds => 5, runs => 5, soak => 0, tried => 0, fifo => 0, pause => 0);
GetOptions(\%opt, map { "$_=i" } keys %opt) or die "see the beginning of $0\n";
watchdog(120 + 6 * $opt{runs} * ($opt{seconds} + 5) + $opt{soak} / 500 * (1 + $opt{pause}));

my %tool = map { $_ => program_or_skip($_) } qw(wrk taskset chrt);
my @first = $opt{fifo} ? ($tool{chrt}, '-f', $opt{fifo}) : ();
my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim"]);
my $daemon = start('ipu-operator', path => $tool{taskset}, args => [qw(-c 0), @first, program('ipu-operator'), '--roles', 'webhook',
	'--kubeconfig', "$dir/sim/kubeconfig", (map { ('--set', "$_=127.0.0.1:0") }
	qw(webhook.listen health.listen metrics.listen)),
	map { ('--set', $_) } 'operatorNamespace=default', 'webhook.drainSeconds=0', 'webhook.dryRunPods=' . ($opt{tried} ? 'true' : 'false'),
	'launcher.image=registry/launcher']);
wait_until('the operator', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });

# ---- reviews ----

sub review ($group, $version, $resource, $object, $more = {}) {
	my %kind = (group => $group, version => $version);
	return json_encode({ apiVersion => 'admission.k8s.io/v1', kind => 'AdmissionReview', request => {
		uid => '705ab4f5-6393-11e8-b7cc-42010a800002', operation => 'CREATE', namespace => 'default',
		name => $object->{metadata}{name}, kind => { %kind, kind => $object->{kind} },
		requestKind => { %kind, kind => $object->{kind} }, resource => { %kind, resource => $resource },
		requestResource => { %kind, resource => $resource }, dryRun => JSON::PP::false,
		options => { kind => 'CreateOptions', apiVersion => 'meta.k8s.io/v1', fieldManager => 'kubectl' },
		userInfo => { username => 'jane', uid => '014fbff9a07c', groups => ['system:authenticated', 'ml-team'] },
		oldObject => undef, object => $object, %$more } });
}

my $container = { name => 'trainer', image => 'registry.example/ml/mnist:3', command => ['python3', 'train.py'],
	args => [map { "--option-$_=value-$_" } 1 .. 8],
	env => [map { { name => "SETTING_$_", value => "value number $_" } } 1 .. 8],
	resources => { limits => { cpu => '8', memory => '64Gi' } },
	volumeMounts => [ { name => 'shm', mountPath => '/dev/shm' }, { name => 'data', mountPath => '/data' } ] };
my $pod_spec = { containers => [$container], restartPolicy => 'Never', hostIPC => JSON::PP::true,
	volumes => [ { name => 'shm', emptyDir => { medium => 'Memory' } },
		{ name => 'data', persistentVolumeClaim => { claimName => 'mnist' } } ] };
my $job = { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob',
	metadata => { name => 'mnist-training', namespace => 'default', labels => { app => 'mnist', team => 'ml' } },
	spec => { jobInstances => 1, ipusPerJobInstance => '8', workersPerJobInstance => '2',
		launcher => { command => [qw(mpirun --allow-run-as-root python3 train.py)] },
		workers => { template => { metadata => { labels => { app => 'mnist' } }, spec => $pod_spec } } } };
my $pod = { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'mnist', namespace => 'default',
	annotations => { 'graphcore.ai/ipus' => '2' } }, spec => $pod_spec };
my @graphcore = qw(graphcore.ai v1alpha1 ipujobs);
my $old = json_decode(json_encode($job));
my %case = (
	'defaults of a job' => ['/mutate-graphcore-ai-v1alpha1-ipujob', review(@graphcore, $job)],
	# An update that leaves the Pods as they are asks nobody.
	'check of a job' => ['/validate-graphcore-ai-v1alpha1-ipujob',
		review(@graphcore, { %$job, spec => { %{ $job->{spec} }, jobInstances => 2 } },
			{ operation => 'UPDATE', oldObject => $old })],
	'check of a new job' => ['/validate-graphcore-ai-v1alpha1-ipujob', review(@graphcore, $job)],
	'an annotated Pod' => ['/mutate-v1-pod', review('', 'v1', 'pods', $pod)],
);

# ---- wrk ----

sub cpu_ticks { return eval { my @f = split / /, slurp('/proc/' . $daemon->pid . '/stat') =~ s/^.*\) //sr; $f[11] + $f[12] } }
sub resident_kb { return slurp('/proc/' . $daemon->pid . '/status') =~ /^VmRSS:\s+(\d+)/m ? $1 : 0 }
sub load { return (split / /, slurp('/proc/loadavg'))[0] }

sub wrk ($name, $seconds, $connections, %more) {
	my ($path, $body) = @{ $case{$name} };
	my $script = spit("$dir/wrk.lua", qq{wrk.method = "POST"\nwrk.body = [==[$body]==]\n}
		. qq{wrk.headers["Content-Type"] = "application/json"\n} . ($more{delay} ? "function delay() return $more{delay} end\n" : '')
		. ($more{close} ? qq{wrk.headers["Connection"] = "close"\n} : ''));
	my $before = cpu_ticks();
	my $done = run([$tool{taskset}, qw(-c 1), @first, $tool{wrk}, '-t1', "-c$connections", "-d$seconds", '--latency', '-s', $script,
		'https://localhost:' . $daemon->port('webhook') . "$path?timeout=10s"], seconds => 60 + $seconds);
	$done->{status} == 0 or die "wrk: $done->{err}\n";
	my $out = $done->{out};
	die "$name: $out\n" if $out =~ /Non-2xx/ || ($out =~ /Socket errors/ && !$more{close});
	my ($requests) = $out =~ /^\s*(\d+) requests in/m;
	my ($rate) = $out =~ m{^Requests/sec:\s+([\d.]+)}m;
	my ($p99, $unit) = $out =~ /^\s*99%\s+([\d.]+)(us|ms|s)\b/m;
	$p99 *= { us => 0.001, ms => 1, s => 1000 }->{$unit};
	return { rate => $rate, p99 => $p99, cpu => $requests * 100 / ((cpu_ticks() - $before) || 1), n => $requests };
}

sub show ($name, $runs, $key, $unit) {
	my @sorted = sort { $a <=> $b } map { $_->{$key} } @$runs;
	printf "  %-44s median %8.2f, from %8.2f to %8.2f\n", $unit, $sorted[ $#sorted / 2 ], @sorted[ 0, -1 ];
	return;
}

printf "load %s, %d runs of %d s\n", load(), $opt{runs}, $opt{seconds};
for my $name ($opt{runs} ? sort keys %case : ()) {
	printf "%s, %d bytes, %d connections that are kept:\n", $name, length $case{$name}[1], $opt{connections};
	my @runs = map { wrk($name, $opt{seconds}, $opt{connections}) } 1 .. $opt{runs};
	show($name, \@runs, 'rate', 'reviews/s');
	show($name, \@runs, 'p99', '99th percentile, ms');
	show($name, \@runs, 'cpu', 'reviews for a second of its processor');
	# 16 connections, each waits for 7 ms between two.
	@runs = map { wrk($name, $opt{seconds}, 16, delay => 7) } 1 .. $opt{runs};
	show($name, \@runs, 'rate', 'reviews/s, no more');
	show($name, \@runs, 'p99', '99th percentile, ms');
}
if ($opt{runs}) {
	my $name = 'defaults of a job';
	printf "%s, a TLS handshake each:\n", $name;
	my @runs = map { wrk($name, $opt{seconds}, $opt{connections}, close => 1) } 1 .. $opt{runs};
	show($name, \@runs, 'rate', 'handshakes/s');
	show($name, \@runs, 'cpu', 'handshakes for a second of its processor');
}
if ($opt{soak}) {
	my ($n, $begin) = (0, time);
	my @names = sort keys %case;
	printf "memory: %d kB at the beginning\n", resident_kb();
	for (my ($i, $next) = (0, 0); $n < $opt{soak}; $i++) {
		$n += wrk($names[ $i % @names ], $opt{seconds}, $opt{connections})->{n};
		if ($n >= $next || $n >= $opt{soak}) {
			printf "memory: %d kB after %d reviews, %.0f s, load %s\n", resident_kb(), $n, time - $begin, load();
			$next += $opt{soak} / 10;
		}
		sleep $opt{pause};
	}
}
$daemon->stop(status => 0);
$sim->stop(status => 0);
ok(1, 'measured');
done_testing();
