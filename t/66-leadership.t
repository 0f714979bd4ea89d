#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Two replicas of ipu-operator on one API server: one leads, the other shows the same; on a clean stop
# the other goes on within a second, after a kill when the Lease has run out.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

watchdog(110);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4']);
my @listeners = map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen);

sub operator ($name, @args) {
	return start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig",
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
	my $began = time;
	$one->stop;
	wait_until('the second to lead', sub { leads($two) });
	my $took = time - $began;
	diag(sprintf 'a clean stop: the second leads %.2f s after the signal', $took);
	cmp_ok($took, '<', 2, 'the second leads in less than 2 s');
	is(holder(), 'two', 'the Lease says so');
	is(job_state('a'), 'Running', 'the job has noticed nothing');
	make_job('b');
	wait_until('the next job to run', sub { job_state('b') eq 'Running' });
	is(stats($two)->{default}{used}, 8, 'both hold their IPUs');
};

subtest 'a kill' => sub {
	my $three = operator('three');
	wait_until('a third is ready', sub { ready($three) });
	my $began = time;
	$two->crash;
	wait_until('the third to lead', sub { leads($three) }, seconds => 30);
	my $took = time - $began;
	diag(sprintf 'a kill: the third leads after %.1f s', $took);
	cmp_ok($took, '>', 10, 'not before the Lease has run out');
	cmp_ok($took, '<', 20, '… and soon after');
	is(stats($three)->{default}{used}, 8, 'nothing was lost');
	is(api('DELETE', "$jobs/$_", {})->{status}, 200, "job $_ is deleted") for qw(a b);
	wait_until('their IPUs to come back', sub { stats($three)->{total}{used} == 0 });
	$three->stop;
};

$sim->stop;
done_testing;
