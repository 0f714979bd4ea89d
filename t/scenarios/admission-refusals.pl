# SPDX-License-Identifier: Apache-2.0
#
# Jobs that can't be right are refused with everything that is wrong with them, as a person sees it: when
# they're made, in a dry run, and when they're changed. What is on its way out passes, and so does what is
# none of the webhook's.
# Runs: both (sim, scale)

use v5.36;
use IpuTest qw(json_encode spit test_dir);
use Test::More;

sub file ($job) { return spit(test_dir() . "/$job->{metadata}{name}.json", json_encode($job)) }

sub refuses ($s, $words, $name, @patterns) {
	my $result = $s->kubectl($words);
	isnt($result->{status}, 0, "$name: refused") or diag($result->{out});
	like($result->{err}, $_, "$name: says $_") for @patterns;
	return;
}

sub ($s) {
	$s->start(webhook => 1);
	my $wrong = $s->job('wrong', ipus => 32, template => { spec => { containers => [
		{ name => 'main', image => 'localhost/busybox:test' }, { name => 'main', image => 'localhost/busybox:test' },
		{ name => 'Bad Name', image => 'localhost/busybox:test' } ] } });
	my @all = (qr/spec\.ipusPerJobInstance: .*has 32 IPUs/, qr/template\.spec\.containers\[1\]\.name: /, qr/template\.spec\.containers\[2\]\.name: /);
	refuses($s, [ 'create', '-f', file($wrong) ], 'a job with three faults', @all);
	refuses($s, [ 'create', '--dry-run=server', '-f', file($wrong) ], 'its dry run', @all);
	my $worse = $s->job('worse', ipus => 3, spec => { cleanPodPolicy => 'Some', interactive => { ttl => -1 }, jobInstances => 'one' },
		template => { spec => { containers => [ { name => 'main' } ] } });
	refuses($s, [ 'create', '-f', file($worse) ], 'what the schema refuses, beside what it knows nothing of', qr/spec\.ipusPerJobInstance: .*power of two/,
		qr/spec\.cleanPodPolicy: /, qr/spec\.interactive\.ttl: /, qr/spec\.jobInstances: /, qr/containers\[0\]\.image: Required/);
	ok(!$s->get_job('wrong') && !$s->get_job('worse'), 'nothing was made');

	my $unwise = $s->kubectl([ 'create', '--dry-run=server', '-f', file($s->job('unwise', template => { spec => { restartPolicy => 'Always' } })) ]);
	is($unwise->{status}, 0, 'what is only unwise is taken');
	like($unwise->{err}, qr/^Warning: .*restartPolicy/m, '… with a warning');
	ok(!$s->get_job('unwise'), 'and a dry run makes nothing');

	$s->create_job('good', ipus => 2, spec => { modelReplicasPerWorker => '2' });
	$s->wait_job('good', 'Running');
	refuses($s, [ 'patch', 'ipujob', 'good', '--type=merge', '-p', '{"spec":{"ipusPerJobInstance":"32","modelReplicasPerWorker":"64"}}' ],
		'a change', qr/spec\.ipusPerJobInstance: .*has 32 IPUs/, qr/spec\.modelReplicasPerWorker: /);
	refuses($s, [ 'patch', 'ipujob', 'good', '--type=merge', '-p', '{"spec":{"workersPerJobInstance":"2"}}' ],
		'a change of what stays', qr/workersPerJobInstance: Forbidden: .*delete the job and make it again/);
	is($s->kubectl([ 'label', 'ipujob', 'good', 'a=b' ])->{status}, 0, 'another change passes');

	# Its finalizers keep it while the controller is away; whoever takes one off it by hand is let.
	$s->patch('ipujobs', 'good', { metadata => { finalizers => [ @{ $s->get_job('good')->{metadata}{finalizers} }, 'test.graphcore.ai/hold' ] } });
	$s->delete_job('good');
	$s->wait_for('job good to be on its way out', sub {
		my $job = $s->get_job('good');
		return $job->{metadata}{deletionTimestamp} && @{ $job->{metadata}{finalizers} } == 1 ? $job : undef;
	});
	$s->patch('ipujobs', 'good', { metadata => { finalizers => undef } });
	$s->wait_job_gone('good');

	# From now on it's asked of one namespace only.
	$s->operator->stop;
	$s->unregister;
	$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'reviewed' } });
	$s->start_operator(webhook => 1, set => [ 'webhook.scope=reviewed' ]);
	$s->wait_webhook(ns => 'reviewed');
	my $unwise_job = $s->job('unwise', template => { spec => { restartPolicy => 'Always' } });
	ok($s->try_create('ipujobs', $unwise_job, ns => 'reviewed')->{headers}{warning}, 'in its scope the webhook is asked');
	ok(!$s->try_create('ipujobs', $unwise_job)->{headers}{warning}, 'elsewhere not');
	$s->delete('namespaces', 'reviewed');
};
