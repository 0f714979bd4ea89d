#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Two replicas of ipu-operator on one API server: one leads, the other shows the same; on a clean stop
# the other goes on at once, after a kill when the Lease has run out, both by clocks that stand still but for the test.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use List::Util qw(max);
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(clock_gettime sleep time CLOCK_MONOTONIC);

watchdog(240);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4', '--pod-run-ms=0']);
my @listeners = map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen);

# The page of a replica's clock (core/clock.h: struct clock_page): it stands still at that time, or goes on, so far ahead.
sub set_clock ($name, $mono_ms = undef, $ahead_ms = 0) {
	my $page = test_dir() . "/clock-$name";
	my $text = pack('a8 q<7', "\0IPUCLK1", $ahead_ms, defined $mono_ms ? (1, $mono_ms, int(1000 * time)) : (0, 0, 0), 0, 0, 0);
	return spit($page, $text) if !-e $page;
	open(my $out, '+<:raw', $page) or die "$page: $!\n";
	syswrite($out, $text) == length $text or die "$page: $!\n";
	close($out) or die "$page: $!\n";
	return $page;
}
sub now_ms () { return int(1000 * clock_gettime(CLOCK_MONOTONIC)) }

sub operator ($name, @args) {
	return start('ipu-operator', env => { IPU_CLOCK_PAGE => set_clock($name) }, args => ['--kubeconfig', "$folder/kubeconfig",
		'--set', 'operatorNamespace=ipu-operator', '--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'),
		'--set', "leaderElection.identity=$name", @listeners, @args]);
}

sub ready ($daemon) { return http('GET', $daemon->url('health', '/readyz'))->{status} == 200 }
sub stats ($daemon) { return http('GET', $daemon->url('proxy', '/stats'))->{json} }
sub leads ($daemon) { return http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_leader\{[^}]*\} 1$/m }

my $token = slurp("$folder/token");

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $token" },
		map { (json => $_) } @json);
}

my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub make_job ($name) {
	my $answer = api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob',
		metadata => { name => $name }, spec => { jobInstances => 1, ipusPerJobInstance => '4', workers => {
			template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
	return is($answer->{status}, 201, "job $name");
}

sub job_state ($name) { return api('GET', "$jobs/$name")->{json}{status}{launcherStatus} // '' }

sub holder {
	return api('GET', '/apis/coordination.k8s.io/v1/namespaces/ipu-operator/leases/ipu-operator-partitions')
		->{json}{spec}{holderIdentity};
}

my $one = operator('one');
wait_until('the first is ready', sub { ready($one) });
my $two = operator('two');
wait_until('the second is ready', sub { ready($two) });
ok(leads($one), 'the first leads');
ok(!leads($two), 'the second follows');
is(holder(), 'one', '… as the Lease says');

make_job('a');
wait_until('the job to run', sub { job_state('a') eq 'Running' });
is(stats($one)->{default}{used}, 4, 'the leader\'s /stats');
wait_until('the follower to say the same', sub { (stats($two)->{default}{used} // 0) == 4 });
is_deeply(stats($two), stats($one), 'the follower\'s /stats');

subtest 'a clean stop' => sub {
	set_clock('two', now_ms());
	my $began = time;
	$one->stop;
	wait_until('the second to lead', sub { leads($two) });
	diag(sprintf 'a clean stop: the second leads %.2f s after the signal', time - $began);
	pass('the second leads, and no time has passed on its clock');
	set_clock('two');
	is(holder(), 'two', 'the Lease says so');
	is(job_state('a'), 'Running', 'the job has noticed nothing');
	make_job('b');
	wait_until('the next job to run', sub { job_state('b') eq 'Running' });
	is(stats($two)->{default}{used}, 8, 'both hold their IPUs');
};

subtest 'a kill' => sub {
	my $three = operator('three');
	wait_until('a third is ready', sub { ready($three) });
	my $began = my $now = now_ms();
	set_clock('three', $now);
	$two->crash;
	wait_until('the third to lead', sub {
		return 1 if leads($three);
		sleep(0.1); # for what it asks,
		holder();   # which the API server takes up in its turn
		set_clock('three', $now += 250);
		return 0;
	}, seconds => 90);
	my $took = ($now - $began) / 1000;
	diag(sprintf 'a kill: the third leads after %.1f s of its clock', $took);
	# It counts from when it saw the last renewal, up to a retry's time (2 s) before the kill; steps of 0.25 s, and jitter.
	cmp_ok($took, '>', 9, 'not before the Lease of 12 s has run out');
	cmp_ok($took, '<', 15, '… and soon after');
	set_clock('three', undef, max(0, $now - now_ms())); # it never goes back
	is(stats($three)->{default}{used}, 8, 'nothing was lost');
	is(api('DELETE', "$jobs/$_", {})->{status}, 200, "job $_ is deleted") for qw(a b);
	wait_until('their IPUs to come back', sub { stats($three)->{total}{used} == 0 });
	$three->stop;
};

# Who leads no more knows nothing of jobs: what it told would be counted twice.
subtest 'somebody takes the Lease' => sub {
	my $four = operator('four');
	wait_until('a fourth to lead', sub { leads($four) });
	make_job('c');
	wait_until('its job to run', sub { job_state('c') eq 'Running' });
	my $page = sub { http('GET', $four->url('metrics', '/metrics'))->{content} };
	like($page->(), qr/^ipu_operator_jobs\{state="Running"\} 1$/m, 'it counts its job');
	my $lease = '/apis/coordination.k8s.io/v1/namespaces/ipu-operator/leases/ipu-operator-partitions';
	my $taken = http('PATCH', $sim->url('api-plain', $lease),
		headers => { authorization => "Bearer $token", 'content-type' => 'application/merge-patch+json' },
		json => { spec => { holderIdentity => 'nobody', leaseDurationSeconds => 3600,
			renewTime => strftime('%Y-%m-%dT%H:%M:%S.000000Z', gmtime) } });
	is($taken->{status}, 200, 'the Lease is somebody else\'s') or diag($taken->{content});
	wait_until('it to follow', sub { !leads($four) });
	unlike($page->(), qr/^ipu_operator_(?:jobs|annotated_pods)\{/m, 'it counts none');
	$four->stop;
};

$sim->stop;
done_testing;
