# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because each Event is looked at, and bad luck has more of them
#
# The listing of the MACVLAN guide as it stands: partition, Pod, Running, Completed, partition given
# back; what a person sees of it in between.

use v5.36;
use IpuTree qw(top_srcdir);
use Test::More;

sub ($s) {
	$s->start(agents => 8, create_ms => 300);
	$s->wait_ready;
	is_deeply($s->stats, { total => { used => 0, available => 32 } }, '/stats before');
	is_deeply($s->query(2), { available => JSON::PP::true, numOfPartitions => 16, message => '' },
		'/query before');

	my ($request) = $s->create_manifest(top_srcdir() . '/doc/examples/mnist-training.yaml');
	like($request, qr/mnist-training created/, 'kubectl makes the job');
	my $too_early = 0;
	my $partition = $s->wait_for('a partition that is active', sub {
		my $pod = $s->get_worker('mnist-training');
		my ($now) = $s->partitions;
		$too_early = 1 if $pod && (!$now || $now->{readyState} ne 'PS_ACTIVE');
		return $now && $now->{readyState} eq 'PS_ACTIVE' ? $now : undef;
	});
	ok(!$too_early, 'no Pod before its partition');
	is($partition->{size}, 1, 'of one IPU');
	cmp_ok(length $partition->{id}, '<=', 36, 'its identifier is short enough for Poplar');
	like($partition->{id}, qr/^mnist-training-/, '… and legible');
	ok($partition->{reconfigurable}, 'reconfigurable, as PyTorch needs it');
	is($partition->{gcds}, 1, 'one worker, one GCD');

	my $job = $s->wait_job('mnist-training', 'Running');
	my $pod = $s->get_worker('mnist-training');
	is($pod->{metadata}{annotations}{'graphcore.ai/partition'}, $partition->{id}, 'the Pod is for it');
	my ($host, $port) = split /:/, ($s->controllers)[0];
	is_deeply(Scenario::environment($pod), {
		IPUOF_VIPU_API_HOST => $host, IPUOF_VIPU_API_PORT => $port,
		IPUOF_VIPU_API_PARTITION_ID => $partition->{id}, IPUOF_VIPU_API_GCD_ID => '0',
		IPUOF_VIPU_API_TIMEOUT => '120' }, 'its environment');
	my $container = $pod->{spec}{containers}[0];
	ok($pod->{spec}{hostNetwork}, 'on the host\'s network');
	is($pod->{spec}{dnsPolicy}, 'ClusterFirstWithHostNet', '… with the cluster\'s names');
	is_deeply($container->{securityContext}, { privileged => JSON::PP::true,
		capabilities => { add => ['IPC_LOCK'] } }, 'privileged, and what the template says');
	is($container->{args}[1], 'pip3 install -r requirements.txt && python3 mnist_poptorch.py --epochs=1',
		'the template\'s command');
	is($pod->{metadata}{annotations}{'k8s.v1.cni.cncf.io/networks'}, 'rdma-net', 'its annotation');
	is($container->{resources}{limits}{'rdma/rdma_shared_device_a'}, '1', 'its RDMA device');

	is_deeply($s->stats, { default => { used => 1, available => 31 }, total => { used => 1, available => 31 } },
		'/stats during');
	is($s->query(32)->{numOfPartitions}, 0, '/query knows that IPUs are taken');
	my ($names, $row) = $s->columns('ipujobs', 'mnist-training');
	is_deeply([ map { uc } @$names ], [qw(NAME STATUS CURRENT DESIRED LASTMESSAGE AGE)], 'the columns');
	is_deeply([ @$row{ @$names[ 1 .. 4 ] } ], [ 'Running', 1, 1, 'Running' ], 'what they show');
	is_deeply([ map { [ @$_{qw(type status reason)} ] } @{ $job->{status}{conditions} } ],
		[ [qw(Pending False IPUJobPending)], [qw(Running True IPUJobRunning)],
			[qw(Created True IPUJobCreated)], [qw(Reconciling False IPUJobPending)] ],
		'the conditions');
	is(Scenario::condition($job)->{message}, 'IPUJob default/mnist-training is running.', 'in words');
	ok($job->{status}{iPUPartitionCreated}, 'the status knows of the partition');
	is_deeply($job->{metadata}{finalizers}, ['ipu.finalizers.graphcore.ai'], 'the finalizer');

	$s->end_pod('mnist-training');
	$job = $s->wait_job('mnist-training', 'Completed');
	is($job->{status}{lastMessage}, 'All instances done', 'done');
	ok($job->{status}{completionTime}, '… and when');
	is_deeply($job->{status}{workersStatus}, { active => 0, succeeded => 1, failed => 0 }, 'its workers');
	is(Scenario::condition($job)->{type}, 'Succeeded', 'its condition');
	$s->wait_event('mnist-training', 'PartitionReleased');
	is_deeply([ $s->partitions ], [], 'the partition is gone');
	is_deeply($s->tracker, {}, '… from the tracker too');
	is_deeply($s->stats, { total => { used => 0, available => 32 } }, '/stats after');
	$s->wait_for('iPUPartitionCreated to be false', sub {
		!$s->get_job('mnist-training')->{status}{iPUPartitionCreated};
	});
	is($s->get_worker('mnist-training')->{status}{phase}, 'Succeeded', 'the Pod stays, for its log');
	($names, $row) = $s->columns('ipujobs', 'mnist-training');
	is_deeply([ @$row{ @$names[ 1 .. 4 ] } ], [ 'Completed', 0, 1, 'All instances done' ], 'the columns');

	my @events = $s->events('mnist-training');
	is_deeply([ map { $_->{reason} } @events ],
		[qw(PartitionRequested PartitionActive PodCreated JobRunning JobCompleted PartitionReleased)],
		'Events, in order');
	like($events[0]{message}, qr/^Partition \Q$partition->{id}\E with 1 IPU was asked of \Q$host:$port\E$/,
		'they say what was asked of whom');
	is($events[$_]{type}, 'Normal', "$events[$_]{reason} is no warning") for 0 .. $#events;
};
