# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Gang scheduling: a job with a schedulingPolicy gets a PodGroup for each instance, Volcano's or that of
# scheduler-plugins, before its Pods, which belong to it; where there is neither it is told, and goes on.
# The CRDs have the shape of the two projects' own; nobody here schedules by them.

use v5.36;
use Test::More;

# CRDs with the fields that the two have, and nothing else: what is called otherwise would be lost.
sub crd ($group, $version, $fields, %more) {
	my %int = (type => 'integer', format => 'int32');
	my %resources = (type => 'object', additionalProperties => { 'x-kubernetes-int-or-string' => JSON::PP::true });
	my %type = (minMember => \%int, scheduleTimeoutSeconds => \%int, minResources => \%resources,
		queue => { type => 'string' }, priorityClassName => { type => 'string' });
	return {
		apiVersion => 'apiextensions.k8s.io/v1', kind => 'CustomResourceDefinition',
		metadata => { name => "podgroups.$group", annotations => {
			'api-approved.kubernetes.io' => 'https://github.com/kubernetes-sigs/scheduler-plugins/pull/50' } },
		spec => { group => $group, scope => 'Namespaced',
			names => { kind => 'PodGroup', listKind => 'PodGroupList', plural => 'podgroups', singular => 'podgroup' },
			versions => [ { name => $version, served => JSON::PP::true, storage => JSON::PP::true, %more,
				schema => { openAPIV3Schema => { type => 'object', properties => {
					spec => { type => 'object', properties => { map { $_ => $type{$_} } @$fields } },
					status => { type => 'object', 'x-kubernetes-preserve-unknown-fields' => JSON::PP::true } } } } } ] },
	};
}

my %api = (
	volcano => '/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups',
	plugins => '/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups',
);
my @crds = (
	crd('scheduling.volcano.sh', 'v1beta1', [qw(minMember queue priorityClassName minResources)]),
	crd('scheduling.x-k8s.io', 'v1alpha1', [qw(minMember scheduleTimeoutSeconds minResources)],
		subresources => { status => {} }),
);
my %policy = (queue => 'research', priorityClass => 'high', scheduleTimeoutSeconds => 60,
	minResources => { cpu => 4, memory => '8Gi' });

sub groups ($s, $whose) {
	return @{ $s->must('GET', $api{$whose})->{items} };
}

sub is_group ($group, $job, $instance, $spec, $what) {
	is($group->{metadata}{name}, "$job->{metadata}{name}-$instance", "$what: its name");
	is_deeply($group->{spec}, $spec, '… what it says');
	is($group->{metadata}{ownerReferences}[0]{uid}, $job->{metadata}{uid}, '… the job owns it');
	return;
}

sub make ($s, $name, $policy, %option) {
	my $job = $s->job($name, ipus => 2, %option);
	$job->{spec}{schedulingPolicy} = $policy;
	$job->{spec}{workersPerJobInstance} = '2';
	$job->{spec}{jobInstances} = $option{instances} // 1;
	return $s->create('ipujobs', $job);
}

sub ($s) {
	$s->start(agents => 4);
	make($s, 'alone', \%policy, runs => 0);
	like($s->wait_event('alone', 'NoGangScheduling')->{message}, qr/neither Volcano nor/,
		'a job is told that there is nobody for its schedulingPolicy');
	my $done = $s->wait_job('alone', 'Completed');
	my $pod = $s->get('pods', 'alone-worker-0');
	ok(!$pod->{metadata}{annotations}{'scheduling.k8s.io/group-name'}, '… and runs without');

	$s->create('customresourcedefinitions', $_) for @crds;
	$s->wait_for("the API of $_", sub { $s->request('GET', $api{$_})->{success} }) for sort keys %api;
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;

	# A scheduler that isn't Volcano: scheduler-plugins.
	my $job = make($s, 'gang', { %policy, minAvailable => 1 }, instances => 2,
		template => { spec => { schedulerName => 'default-scheduler' } });
	$s->wait_job('gang', 'Running');
	my @groups = sort { $a->{metadata}{name} cmp $b->{metadata}{name} } groups($s, 'plugins');
	is(scalar @groups, 2, 'a PodGroup for each instance');
	is_group($groups[$_], $job, $_, { minMember => 1, scheduleTimeoutSeconds => 60,
		minResources => { cpu => 4, memory => '8Gi' } }, "instance $_") for 0, 1;
	for my $n (0 .. 3) {
		my $meta = $s->get('pods', "gang-worker-$n")->{metadata};
		is($meta->{labels}{'scheduling.x-k8s.io/pod-group'}, 'gang-' . int($n / 2), "worker $n belongs to its own");
		my ($group) = grep { $_->{metadata}{name} eq 'gang-' . int($n / 2) } @groups;
		cmp_ok($group->{metadata}{creationTimestamp}, 'le', $meta->{creationTimestamp}, '… which was there before');
	}

	# An instance that goes takes its PodGroup along.
	$s->patch('ipujobs', 'gang', { spec => { jobInstances => 1 } });
	$s->wait_for('the PodGroup of the instance that went to go', sub { 1 == groups($s, 'plugins') });
	is((groups($s, 'plugins'))[0]{metadata}{name}, 'gang-0', '… and the other to stay');

	# Without a scheduler's name it is Volcano, where it's there.
	my $other = make($s, 'volcanic', \%policy);
	$pod = $s->wait_for('its Pods', sub { $s->get('pods', 'volcanic-worker-1') });
	is_group((groups($s, 'volcano'))[0], $other, 0, { minMember => 2, queue => 'research', priorityClassName => 'high',
		minResources => { cpu => 4, memory => '8Gi' } }, 'Volcano\'s');
	is($pod->{metadata}{annotations}{'scheduling.k8s.io/group-name'}, 'volcanic-0', 'a Pod belongs to it');
	is($pod->{spec}{schedulerName}, 'volcano', '… and is Volcano\'s to schedule');
	$s->must('POST', $api{volcano}, json => { apiVersion => 'scheduling.volcano.sh/v1beta1', kind => 'PodGroup',
		metadata => { name => 'volcanic-1' }, spec => { minMember => 7 } });
	$s->patch('ipujobs', 'volcanic', { spec => { jobInstances => 2 } });
	$s->wait_message('volcanic', qr/PodGroup volcanic-1 exists and isn't this job's/);
	$s->must('DELETE', "$api{volcano}/volcanic-1");
	$s->wait_for('that of its second instance', sub {
		grep { $_->{metadata}{name} eq 'volcanic-1' && $_->{metadata}{ownerReferences} } groups($s, 'volcano');
	}, seconds => 60);
	$s->patch('ipujobs', 'volcanic', { spec => { jobInstances => 1 } });
	$s->wait_for('it to go with its instance', sub { 1 == groups($s, 'volcano') });

	# Somebody else's.
	$s->must('POST', $api{plugins}, json => { apiVersion => 'scheduling.x-k8s.io/v1alpha1', kind => 'PodGroup',
		metadata => { name => 'taken-0' }, spec => { minMember => 7 } });
	make($s, 'taken', {}, template => { spec => { schedulerName => 'default-scheduler' } });
	$s->wait_message('taken', qr/PodGroup taken-0 exists and isn't this job's/);
	is($s->must('GET', "$api{plugins}/taken-0")->{spec}{minMember}, 7, 'one of another\'s is left alone');
	$s->must('DELETE', "$api{plugins}/taken-0");
	$s->wait_job('taken', 'Running');
	pass('… and made when that has gone');

	# The end: the groups of jobs that are done go, those of deleted ones too.
	$s->end_pod('taken');
	$s->back->end_pod($s, 'taken-worker-1', 0, '');
	$s->wait_job('taken', 'Completed');
	$s->wait_for('the PodGroup of a job that has ended to go', sub {
		!grep { $_->{metadata}{name} eq 'taken-0' } groups($s, 'plugins');
	});
	$s->delete_job($_) for qw(gang volcanic);
	$s->wait_job_gone($_) for qw(gang volcanic);
	$s->wait_for('all PodGroups to go', sub { !groups($s, 'plugins') && !groups($s, 'volcano') });
	pass('with the jobs their PodGroups go');
	$s->delete('customresourcedefinitions', $_->{metadata}{name}) for @crds;
};
