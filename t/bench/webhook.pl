#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What a review costs: the webhooks of ipu-operator, over TLS, reviews of an IPUJob and of an annotated Pod on connections that are kept;
# and what memory becomes of it. Only the new job asks the API server: what is kept of its answers for seconds, and with --tried=1 the
# simulator's dry run of two Pods each time. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/webhook.pl [--connections=4] [--seconds=3] [--runs=5] [--soak=1000000] [--tried=1]
#         [--fifo=10] [--pause=0] [--json=FILE] [--kubeconfig=FILE]
#
# needs two processors: the operator is on the first, the load (t/tools/bench_load.c) on the second, and the simulator, idle by then,
# wherever there is room. Reviews for a second of the operator's processor, the rate by the clock, and the 99th percentile of 2,000 a second.
# With --fifo=N (root) both go before everything else on the machine (SCHED_FIFO), so that it's they that are
# measured; whatever else runs there stands still meanwhile.
# With --soak=N, N reviews of all kinds afterwards, --seconds of them at a time with --pause seconds between,
# and its memory on the way. --runs=0: only that.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s figure finish note on_first on_second options resident_kb start_operator start_sim tool_on wait_ready);
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

my $opt = options(3600, connections => 4, seconds => 3, runs => 5, soak => 0, tried => 0, fifo => 0, pause => 0);
my @first = $opt->{fifo} ? (program_or_skip('chrt'), '-f', $opt->{fifo}) : ();
my $dir = test_dir();
my $sim = start_sim();
my $daemon = start_operator($sim, roles => 'webhook', before => \@first, set => { 'webhook.dryRunPods' => $opt->{tried} ? 'true' : 'false' });
wait_ready($daemon);

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

# ---- load ----

sub load ($name, $connections, @more) {
	my ($path, $body) = @{ $case{$name} };
	my $before = cpu_s($daemon->pid);
	my $said = tool_on([ on_second(), @first ], 'load', '--body=' . spit("$dir/review.json", $body), "--connections=$connections",
		"--seconds=$opt->{seconds}", @more, 'https://127.0.0.1:' . $daemon->port('webhook') . "$path?timeout=10s");
	$said->{cpu} = (cpu_s($daemon->pid) - $before) * $said->{seconds} / ($said->{seconds} + $said->{warm_seconds});
	return $said;
}

for my $name ($opt->{runs} ? sort keys %case : ()) {
	note(sprintf '%s: %d bytes', $name, length $case{$name}[1]);
	my $id = 'webhook-' . $name =~ tr/ /-/r;
	my @runs = map { load($name, $opt->{connections}) } 1 .. $opt->{runs};
	figure("reviews, $name: for a second of its core", 'reviews', [ map { $_->{requests} / $_->{cpu} } @runs ], bar => '>= 2000', id => $id);
	figure('… by the clock', '/s', [ map { $_->{requests} / $_->{seconds} } @runs ], id => "$id-wall");
	# 16 connections, each with its beat.
	@runs = map { load($name, 16, '--rate=2000') } 1 .. $opt->{runs};
	figure('… 99th percentile of 2,000 a second', 'ms', [ map { $_->{p99_us} / 1000 } @runs ], bar => '<= 5', id => "$id-p99");
	figure('… and median', 'ms', [ map { $_->{p50_us} / 1000 } @runs ], id => "$id-p50");
}
if ($opt->{soak}) {
	my ($n, $begin) = (0, time);
	my @names = sort keys %case;
	note(sprintf 'memory: %d kB at the beginning', resident_kb($daemon->pid));
	for (my ($i, $next) = (0, 0); $n < $opt->{soak}; $i++) {
		$n += load($names[ $i % @names ], $opt->{connections})->{requests};
		if ($n >= $next || $n >= $opt->{soak}) {
			note(sprintf 'memory: %d kB after %d reviews, %.0f s', resident_kb($daemon->pid), $n, time - $begin);
			$next += $opt->{soak} / 10;
		}
		sleep $opt->{pause};
	}
	figure("memory after $n reviews", 'MB', [ resident_kb($daemon->pid) / 1000 ], id => 'webhook-memory');
}
finish($daemon, $sim);
