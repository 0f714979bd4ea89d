# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A job in a queue of Kueue's. The test plays Kueue: the gate and the finalizer that Kueue's webhook would
# add come with the template, and what Kueue does to Pods and Workloads is done here.

use v5.36;
use Test::More;

my $gate = 'kueue.x-k8s.io/admission';
my $finalizer = 'kueue.x-k8s.io/managed';
my $workloads = '/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads';
my $any = { type => 'object', 'x-kubernetes-preserve-unknown-fields' => JSON::PP::true };
my $crd = {
	apiVersion => 'apiextensions.k8s.io/v1', kind => 'CustomResourceDefinition',
	metadata => { name => 'workloads.kueue.x-k8s.io', annotations => {
		'api-approved.kubernetes.io' => 'https://github.com/kubernetes-sigs/kueue/pull/4' } },
	spec => { group => 'kueue.x-k8s.io', scope => 'Namespaced',
		names => { kind => 'Workload', listKind => 'WorkloadList', plural => 'workloads', singular => 'workload' },
		versions => [ { name => 'v1beta1', served => JSON::PP::true, storage => JSON::PP::true,
			subresources => { status => {} },
			schema => { openAPIV3Schema => { type => 'object', properties => { spec => $any, status => $any } } } } ] },
};

sub make ($s, $name, %option) {
	my $job = $s->job($name, ipus => 4, %option, template => {
		metadata => { finalizers => [$finalizer] }, spec => { schedulingGates => [ { name => $gate } ] } });
	$job->{metadata}{labels}{'kueue.x-k8s.io/queue-name'} = 'team';
	$job->{spec}{workersPerJobInstance} = '2';
	$job->{spec}{restartPolicy} = { type => 'OnFailure' };
	return $s->create('ipujobs', $job);
}

sub workers ($s, $name) {
	return grep { defined } map { $s->get('pods', "$name-worker-$_") } 0, 1;
}

sub wait_workers ($s, $name, $what, $is) {
	return @{ $s->wait_for("both Pods of $name $what", sub {
		my @pods = workers($s, $name);
		return @pods == 2 && 2 == grep({ $is->($_) } @pods) ? \@pods : undef;
	}) };
}

# What Kueue does when it lets a group go, and when it lets go of its Pods.
sub let_go ($s, $name) {
	for my $pod (workers($s, $name)) {
		my @gates = grep { $_->{name} ne $gate } @{ $pod->{spec}{schedulingGates} // [] };
		$s->patch('pods', $pod->{metadata}{name}, { spec => { schedulingGates => \@gates } });
	}
	return;
}

sub forget ($s, $name) {
	for my $pod (workers($s, $name)) {
		my $path = $s->path('pods', 'default', $pod->{metadata}{name});
		my $answer = $s->request('PATCH', $path, json => { metadata => { finalizers => undef } },
			headers => { 'content-type' => 'application/merge-patch+json' });
		die "$path: $answer->{content}\n" if !$answer->{success} && $answer->{status} != 404; # it has gone by itself
	}
	return;
}

sub gates ($pod) { return join ' ', sort map { $_->{name} } @{ $pod->{spec}{schedulingGates} // [] } }

sub ($s) {
	$s->start(agents => 1, set => ['jobs.restartBackoffSeconds=1']);
	$s->create('customresourcedefinitions', $crd);
	$s->wait_for('Workloads to be served', sub { $s->request('GET', $workloads)->{success} });

	# Pods first, then Kueue, then IPUs.
	make($s, 'first');
	my @pods = wait_workers($s, 'first', 'to be made', sub ($pod) { gates($pod) eq "graphcore.ai/partition $gate" });
	for my $n (0, 1) {
		my $meta = $pods[$n]{metadata};
		is($meta->{labels}{'kueue.x-k8s.io/queue-name'}, 'team', "worker $n is in the queue");
		is($meta->{labels}{'kueue.x-k8s.io/pod-group-name'}, 'first-0-0', '… with its group');
		is($meta->{annotations}{'kueue.x-k8s.io/pod-group-total-count'}, '2', '… of two');
		ok(!$meta->{annotations}{'graphcore.ai/partition'}, '… and without a partition');
	}
	$s->wait_message('first', qr/waiting for Kueue.*queue team/i);
	like($s->wait_event('first', 'WaitingForKueue')->{message}, qr/team/, 'an Event says for what it waits');
	is($s->vipu->{created}, 0, 'no IPUs are taken for it');
	let_go($s, 'first');
	$s->wait_job('first', 'Running');
	my ($partition) = $s->partitions;
	@pods = workers($s, 'first');
	is($_->{metadata}{annotations}{'graphcore.ai/partition'}, $partition->{id}, 'a worker has the partition') for @pods;
	my $env = Scenario::environment($pods[1]);
	my ($host) = grep { $_->{name} eq 'IPUOF_VIPU_API_HOST' } @{ $pods[1]{spec}{containers}[0]{env} };
	is($host->{valueFrom}{configMapKeyRef}{name}, 'first-ipuof-0', 'its variables are in a ConfigMap');
	is($env->{IPUOF_VIPU_API_GCD_ID}, '1', '… but for the GCD');
	my $data = $s->get('configmaps', 'first-ipuof-0')->{data};
	is($data->{IPUOF_VIPU_API_PARTITION_ID}, $partition->{id}, '… which names the partition');
	is("$data->{IPUOF_VIPU_API_HOST}:$data->{IPUOF_VIPU_API_PORT}", ($s->controllers)[0], '… and its controller');

	# Taken out of the queue before it begins: Kueue holds the Pods until the Workload goes.
	$s->must('POST', $workloads, json => { apiVersion => 'kueue.x-k8s.io/v1beta1', kind => 'Workload',
		metadata => { name => 'second-0-0' }, spec => { queueName => 'team' } });
	make($s, 'second');
	wait_workers($s, 'second', 'to be made', sub ($pod) { 1 });
	$s->delete_job('second');
	$s->wait_for('the Workload to be deleted', sub { $s->request('GET', "$workloads/second-0-0")->{status} == 404 });
	forget($s, 'second');
	$s->wait_job_gone('second');
	pass('a job that is deleted in the queue gives up its place there');

	# A failure: the next run is another group, which queues again, without IPUs.
	$s->end_pod('first', 3);
	$s->wait_for('the first run to be over', sub {
		my @left = workers($s, 'first');
		forget($s, 'first') if @left && !grep { !$_->{metadata}{deletionTimestamp} } @left;
		return 2 == grep { $_->{metadata}{labels}{'kueue.x-k8s.io/pod-group-name'} eq 'first-0-1' } @left;
	}, seconds => 60);
	pass('after a failure there is another group');
	$s->wait_for('its IPUs to be given back', sub { !$s->partitions });
	pass('… without IPUs while Kueue holds it');
	is($s->get_job('first')->{status}{restartCount}, 1, '… which is a restart');
	let_go($s, 'first');
	$s->wait_job('first', 'Running');
	$s->back->end_pod($s, "first-worker-$_", 0, '') for 0, 1;
	$s->wait_job('first', 'Completed');
	forget($s, 'first');
	$s->wait_for('the IPUs to come back', sub { !$s->partitions });
	$s->delete_job('first');
	$s->wait_job_gone('first');
	$s->delete('customresourcedefinitions', $crd->{metadata}{name});
};
