#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-sim by itself: command line, files, end-points, and the life of Pods under a clock that the test
# moves.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(180);
my $folder = test_dir() . '/sim';
my $page = test_dir() . '/clock';
my ($mono, $wall) = (1_000_000, 1_700_000_000_000);

# core/clock.h: struct clock_page, frozen.
sub set_clock {
	my $text = pack('a8 q< q< q< q< q<3', "\0IPUCLK1", 0, 1, $mono, $wall, 0, 0, 0);
	if (-e $page) {
		open(my $out, '+<:raw', $page) or die "$page: $!\n";
		syswrite($out, $text) == length $text or die "$page: $!\n";
	} else {
		spit($page, $text);
	}
	return;
}

sub advance { my ($ms) = @_; $mono += $ms; $wall += $ms; set_clock(); return }

set_clock();
my $sim = start('ipu-sim', env => {IPU_CLOCK_PAGE => $page}, args => ['--dir', $folder, '--nodes=2',
	'--controllers=2', '--agents=1', '--node-label=pool=a', '--node-label=sim1:disk=fast',
	'--pods', '{"name":"rule-at-start","exitCode":7}',
	'--vipu-fault', '{"kind":"hang","method":"GetVersion","count":3}']);
my $token = slurp("$folder/token");

sub api {
	my ($method, $path, %options) = @_;
	return http($method, $sim->url('api-plain', $path),
		headers => {authorization => "Bearer $token", %{delete $options{headers} // {}}}, %options);
}

sub admin { my ($method, $path, @json) = @_; return http($method, $sim->url('admin', $path), map { (json => $_) } @json) }
sub state { return admin('GET', '/sim/state')->{json} }

sub set { my ($settings) = @_; is(admin('POST', '/sim/pods', $settings)->{status}, 204, 'settings are taken'); return }

sub pod_object {
	my ($name, %spec) = @_;
	return {apiVersion => 'v1', kind => 'Pod', metadata => {name => $name}, spec => {restartPolicy => 'Never',
		containers => [{name => 'main', image => 'busybox'}], %spec}};
}

sub make_pod {
	my ($name, %spec) = @_;
	my $answer = api('POST', '/api/v1/namespaces/default/pods', json => pod_object($name, %spec));
	is($answer->{status}, 201, "Pod $name is made") or diag($answer->{content});
	return;
}

sub pod { my ($name) = @_; return api('GET', "/api/v1/namespaces/default/pods/$name")->{json} }
sub phase { my $pod = pod($_[0]); return $pod->{kind} eq 'Pod' ? $pod->{status}{phase} : 'gone' }

sub stage {
	my ($name) = @_;
	my ($pod) = grep { $_->{name} eq $name } @{state()->{kubelet}{pods}};
	return $pod ? $pod->{stage} : 'gone';
}

sub wait_stage {
	my ($name, $stage) = @_;
	return ok(eval { wait_until("$name to be $stage", sub { stage($name) eq $stage }, seconds => 10) },
		"$name: $stage") || diag($@, 'is ' . stage($name));
}

sub reasons {
	my ($name) = @_;
	my $list = api('GET', "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=$name")->{json};
	return map { $_->{reason} } @{$list->{items}};
}

subtest 'files' => sub {
	my $ports = json_decode(slurp("$folder/ports.json"));
	is_deeply($ports, {api => 0 + $sim->port('api'), 'api-plain' => 0 + $sim->port('api-plain'),
		admin => 0 + $sim->port('admin'), vipu => [map { 0 + $sim->port("vipu$_") } 0, 1]},
		'ports.json and the ports file agree');
	is((stat "$folder/$_")[2] & 0777, 0600, "$_ is its owner's only") for qw(kubeconfig token);
	my $kubeconfig = slurp("$folder/kubeconfig");
	my $port = $sim->port('api');
	like($kubeconfig, qr{^    server: https://127\.0\.0\.1:$port$}m, 'kubeconfig: the server');
	like($kubeconfig, qr/^    token: \Q$token\E$/m, 'kubeconfig: the token');
	is(http('GET', $sim->url('api-plain', '/api/v1/nodes'))->{status}, 401, 'without a token: 401');
	my @names = map { $_->{metadata}{name} } @{api('GET', '/api/v1/namespaces')->{json}{items}};
	is_deeply(\@names, [qw(default ipu-operator kube-system)], 'the namespaces');
	my @labels = map { [@{$_->{metadata}{labels}}{qw(pool disk)}] } @{api('GET', '/api/v1/nodes')->{json}{items}};
	is_deeply(\@labels, [['a', undef], ['a', 'fast']], "the Nodes' labels");
};

subtest 'a life on the clock' => sub {
	make_pod('life');
	wait_stage('life', 'New');
	advance(49);
	is(stage('life'), 'New', 'not before its time');
	advance(1);
	wait_stage('life', 'Starting');
	my $status = pod('life')->{status};
	is($status->{phase}, 'Pending', 'Pending');
	is($status->{startTime}, '2023-11-14T22:13:20Z', 'startTime');
	is($status->{containerStatuses}[0]{state}{waiting}{reason}, 'ContainerCreating', 'its container is created');
	advance(500);
	wait_stage('life', 'Running');
	$status = pod('life')->{status};
	is($status->{phase}, 'Running', 'Running');
	ok($status->{containerStatuses}[0]{ready}, 'ready');
	like($status->{podIP}, qr/^10\.244\.\d+\.\d+$/, 'podIP');
	is($status->{hostIP}, '10.0.0.1', 'hostIP');
	my %true = map { ($_->{type} => 1) } grep { $_->{status} eq 'True' } @{$status->{conditions}};
	is_deeply([sort keys %true], [qw(ContainersReady Initialized PodReadyToStartContainers PodScheduled Ready)],
		'conditions');
	advance(2000);
	wait_stage('life', 'Ended');
	$status = pod('life')->{status};
	is($status->{phase}, 'Succeeded', 'Succeeded');
	my $ended = $status->{containerStatuses}[0]{state}{terminated};
	is_deeply([@{$ended}{qw(exitCode reason startedAt finishedAt)}],
		[0, 'Completed', '2023-11-14T22:13:20Z', '2023-11-14T22:13:22Z'], 'terminated');
	is_deeply([reasons('life')], [qw(Scheduled Pulled Created Started)], 'Events');
};

subtest 'ends' => sub {
	set({name => 'fails', exitCode => 3, message => 'out of memory'});
	set({name => 'default/evicted', evict => JSON::PP::true(), count => 1});
	make_pod($_) for qw(fails evicted rule-at-start);
	for my $ms (50, 500, 2000) {
		wait_until('all of them to be seen', sub { !grep { $_->{stage} eq 'gone' } @{state()->{kubelet}{pods}} });
		advance($ms);
		sleep_until_still();
	}
	wait_stage($_, 'Ended') for qw(fails evicted rule-at-start);
	my $ended = pod('fails')->{status}{containerStatuses}[0]{state}{terminated};
	is_deeply([phase('fails'), @{$ended}{qw(exitCode reason message)}], ['Failed', 3, 'Error', 'out of memory'],
		'a Pod that fails');
	my $status = pod('evicted')->{status};
	is_deeply([@{$status}{qw(phase reason)}], ['Failed', 'Evicted'], 'a Pod that is evicted');
	is_deeply([grep { /Evicted/ } reasons('evicted')], ['Evicted'], 'and its Event');
	is(pod('rule-at-start')->{status}{containerStatuses}[0]{state}{terminated}{exitCode}, 7, 'a rule of --pods');
	is_deeply([grep { $_->{name} eq 'default/evicted' } @{state()->{kubelet}{rules}}], [], 'a rule is used up');
};

# Until no Pod's stage changes between two looks: steps are taken in the loop's next turns.
sub sleep_until_still {
	my $last = '';
	wait_until('the Pods to have taken their steps', sub {
		my $now = json_encode(state()->{kubelet}{pods});
		my $still = $now eq $last;
		$last = $now;
		return $still;
	});
	return;
}

subtest 'restarts' => sub {
	set({name => 'again', exitCode => 1});
	make_pod('again', restartPolicy => 'OnFailure');
	wait_stage('again', 'New');
	advance(50);
	wait_stage('again', 'Starting');
	advance(500);
	wait_stage('again', 'Running');
	advance(2000);
	wait_until('the first restart, at once', sub { (pod('again')->{status}{containerStatuses}[0]{restartCount} // 0) == 1 });
	wait_stage('again', 'Running');
	advance(2000);
	wait_stage('again', 'BackingOff');
	my $container = pod('again')->{status}{containerStatuses}[0];
	is($container->{state}{waiting}{reason}, 'CrashLoopBackOff', 'the second one is backed off');
	is($container->{lastState}{terminated}{exitCode}, 1, 'lastState');
	advance(9000);
	is(stage('again'), 'BackingOff', 'for 10 s');
	advance(1000);
	wait_stage('again', 'Running');
	is(pod('again')->{status}{containerStatuses}[0]{restartCount}, 2, 'restartCount');
	is(api('DELETE', '/api/v1/namespaces/default/pods/again?gracePeriodSeconds=0')->{status}, 200, 'deleted at once');
	is(stage('again'), 'gone', 'and gone');
};

subtest 'deletion' => sub {
	set({name => 'slow', termMs => 5000, runMs => 0});
	set({name => 'stubborn', termMs => 60000, runMs => 0});
	make_pod('unbound', nodeSelector => {no => 'where'});
	make_pod($_) for qw(slow stubborn);
	wait_stage($_, 'New') for qw(slow stubborn unbound);
	advance(50);
	wait_stage($_, 'Starting') for qw(slow stubborn);
	wait_stage('unbound', 'Unschedulable');
	advance(500);
	wait_stage($_, 'Running') for qw(slow stubborn);
	advance(1_000_000);
	is(phase('slow'), 'Running', 'runMs 0: it runs until it is deleted');
	api('DELETE', "/api/v1/namespaces/default/pods/$_") for qw(slow stubborn unbound);
	is(phase('unbound'), 'gone', 'a Pod that was never bound goes at once');
	wait_stage($_, 'Ending') for qw(slow stubborn);
	advance(4999);
	is(stage('slow'), 'Ending', 'not before its time');
	advance(1);
	wait_stage('slow', 'gone');
	advance(24_999);
	is(stage('stubborn'), 'Ending', 'one that does not listen has its grace period');
	advance(1);
	wait_stage('stubborn', 'gone');
	is((grep { $_ eq 'Killing' } reasons('slow')), 1, 'Killing');
};

subtest 'a finalizer keeps a Pod' => sub {
	make_pod('kept');
	my $path = '/api/v1/namespaces/default/pods/kept';
	my %merge = (headers => {'content-type' => 'application/merge-patch+json'});
	is(api('PATCH', $path, %merge, json => {metadata => {finalizers => ['test/keep']}})->{status}, 200, 'a finalizer');
	api('DELETE', $path);
	ok(pod('kept')->{metadata}{deletionTimestamp}, 'it is there, in deletion');
	my $again = api('POST', '/api/v1/namespaces/default/pods', json => pod_object('kept'));
	is($again->{json}{message}, 'object is being deleted: pods "kept" already exists', 'and keeps its name');
	is(api('PATCH', $path, %merge, json => {metadata => {finalizers => undef}})->{status}, 200, 'no finalizer');
	wait_stage('kept', 'gone');
};

subtest 'scheduling' => sub {
	make_pod('gated', schedulingGates => [{name => 'test/gate'}]);
	make_pod('bound', nodeName => 'sim1', hostNetwork => JSON::PP::true());
	make_pod('fast', nodeSelector => {disk => 'fast', pool => 'a'});
	make_pod('nowhere', nodeSelector => {disk => 'slow'});
	wait_stage($_, 'New') for qw(gated bound fast nowhere);
	advance(50);
	wait_stage('gated', 'Unschedulable');
	wait_stage('nowhere', 'Unschedulable');
	wait_stage($_, 'Starting') for qw(bound fast);
	my ($condition) = grep { $_->{type} eq 'PodScheduled' } @{pod('gated')->{status}{conditions}};
	is($condition->{reason}, 'SchedulingGated', 'gated');
	is_deeply([reasons('gated')], [], 'without an Event');
	is(pod('fast')->{spec}{nodeName}, 'sim1', 'by labels');
	($condition) = grep { $_->{type} eq 'PodScheduled' } @{pod('nowhere')->{status}{conditions}};
	is($condition->{message}, "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
		. 'preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.', 'unschedulable');
	is_deeply([reasons('nowhere')], ['FailedScheduling'], 'with one Event');
	my %merge = (headers => {'content-type' => 'application/merge-patch+json'});
	is(api('PATCH', '/api/v1/nodes/sim0', %merge, json => {spec => {unschedulable => JSON::PP::true()},
		metadata => {labels => {disk => 'slow'}}})->{status}, 200, 'the label, on a Node that is cordoned');
	wait_until('the message to change', sub { (grep { $_ eq 'FailedScheduling' } reasons('nowhere')) == 2 });
	api('PATCH', '/api/v1/nodes/sim0', %merge, json => {spec => {unschedulable => undef}});
	wait_stage('nowhere', 'Starting');
	is(api('PATCH', '/api/v1/namespaces/default/pods/gated', %merge, json => {spec => {schedulingGates => undef}})->{status},
		200, 'the gate is taken away');
	wait_stage('gated', 'Starting');
	api('PATCH', '/api/v1/nodes/sim0', %merge, json => {metadata => {labels => {disk => undef}}});
};

subtest 'as many Pods as a Node takes' => sub {
	my $room = sub {
		my ($node, $n) = @_;
		my $on = grep { $_->{node} eq $node && $_->{stage} ne 'Ended' } @{state()->{kubelet}{pods}};
		is(api('PATCH', "/api/v1/nodes/$node/status", headers => {'content-type' => 'application/merge-patch+json'},
			json => {status => {allocatable => {pods => defined $n ? '' . ($on + $n) : '110'}}})->{status}, 200, "$node: room");
	};
	$room->('sim0', 2);
	$room->('sim1', 0);
	set({name => 'many-*', runMs => 10_000});
	for my $name (map { "many-$_" } 1 .. 3) { # one after the other: they are taken in no order
		make_pod($name);
		wait_stage($name, 'New');
		advance(50);
		wait_stage($name, $name eq 'many-3' ? 'Unschedulable' : 'Starting');
	}
	is(join(' ', map { pod("many-$_")->{spec}{nodeName} } 1, 2), 'sim0 sim0', 'where there is room');
	my ($condition) = grep { $_->{type} eq 'PodScheduled' } @{pod('many-3')->{status}{conditions}};
	is($condition->{message}, '0/2 nodes are available: 2 Too many pods. '
		. 'preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.', 'then there is none');
	api('DELETE', '/api/v1/namespaces/default/pods/many-1?gracePeriodSeconds=0');
	wait_stage('many-3', 'Starting');
	make_pod('many-4');
	wait_stage('many-4', 'New');
	advance(50);
	wait_stage('many-4', 'Unschedulable');
	advance(500);
	wait_stage($_, 'Running') for qw(many-2 many-3);
	advance(10_000);
	wait_stage($_, 'Ended') for qw(many-2 many-3);
	wait_stage('many-4', 'Starting');
	pass('one that is over takes no room');
	$room->($_) for qw(sim0 sim1);
	api('DELETE', "/api/v1/namespaces/default/pods/many-$_?gracePeriodSeconds=0") for 2 .. 4;
};

subtest 'start errors' => sub {
	set({name => 'mends', startError => 'ErrImagePull', startErrorMs => 3000, message => 'no such tag'});
	make_pod('mends');
	wait_stage('mends', 'New');
	advance(50);
	wait_stage('mends', 'Starting');
	advance(500);
	wait_stage('mends', 'CantStart');
	is_deeply(pod('mends')->{status}{containerStatuses}[0]{state}{waiting},
		{reason => 'ErrImagePull', message => 'no such tag'}, 'ErrImagePull');
	advance(1000);
	wait_until('the back-off', sub { pod('mends')->{status}{containerStatuses}[0]{state}{waiting}{reason} eq 'ImagePullBackOff' });
	advance(2000);
	wait_stage('mends', 'Running');
};

# Moves the clock through a Pod's first steps, to the stage that follows its start.
sub begin {
	my ($name, $stage) = @_;
	wait_stage($name, 'New');
	advance(50);
	wait_stage($name, 'Starting');
	advance(500);
	wait_stage($name, $stage);
	return;
}

sub condition {
	my ($name, $type) = @_;
	my ($found) = grep { $_->{type} eq $type } @{pod($name)->{status}{conditions}};
	return join ' ', grep { defined } @{$found // {}}{qw(status reason message)};
}

sub wait_condition {
	my ($name, $type, $words) = @_;
	return ok(eval { wait_until("$type of $name", sub { condition($name, $type) eq $words }, seconds => 10) },
		"$name: $type $words") || diag('is ' . condition($name, $type));
}

my %patch = (headers => {'content-type' => 'application/merge-patch+json'});

subtest 'readiness' => sub {
	set({name => 'later', readyMs => 3000, runMs => 0});
	set({name => 'never', readyMs => -1, runMs => 5000});
	is_deeply([grep { defined } map { $_->{readyMs} } @{state()->{kubelet}{rules}}], [-1, 3000], 'settings are shown as they were given');
	make_pod('later');
	begin('later', 'Running');
	my $container = pod('later')->{status}{containerStatuses}[0];
	ok(!$container->{ready} && $container->{started}, 'its container runs, and is not ready');
	is(condition('later', 'Ready'), 'False ContainersNotReady containers with unready status: [main]', 'nor is the Pod');
	advance(2999);
	like(condition('later', 'Ready'), qr/^False/, 'not before its time');
	advance(1);
	wait_condition('later', $_, 'True') for qw(Ready ContainersReady);
	ok(pod('later')->{status}{containerStatuses}[0]{ready}, 'its container is ready');

	make_pod('never');
	begin('never', 'Running');
	advance(4999);
	like(condition('never', 'Ready'), qr/^False/, 'one that never is');
	advance(1);
	wait_stage('never', 'Ended');

	set({name => 'waits', runMs => 0});
	make_pod('waits', readinessGates => [{conditionType => 'test/first'}, {conditionType => 'test/second'}]);
	begin('waits', 'Running');
	is(condition('waits', 'Ready'), 'False ReadinessGatesNotReady '
		. 'corresponding condition of pod readiness gate "test/first" does not exist.', 'a readiness gate');
	is(condition('waits', 'ContainersReady'), 'True', 'its containers are ready');
	my $tell = sub {
		my (%status) = @_;
		my @others = grep { $_->{type} !~ m{^test/} } @{pod('waits')->{status}{conditions}};
		my $answer = api('PATCH', '/api/v1/namespaces/default/pods/waits/status', %patch, json => {status => {conditions =>
			[@others, map { {type => "test/$_", status => $status{$_}} } sort keys %status]}});
		is($answer->{status}, 200, 'somebody sets the conditions of the gates');
	};
	$tell->(first => 'True', second => 'False');
	wait_condition('waits', 'Ready', 'False ReadinessGatesNotReady '
		. 'the status of pod readiness gate "test/second" is not "True", but False');
	$tell->(first => 'True', second => 'True');
	wait_condition('waits', 'Ready', 'True');
	$tell->(second => 'True');
	wait_condition('waits', 'Ready', 'False ReadinessGatesNotReady '
		. 'corresponding condition of pod readiness gate "test/first" does not exist.');
};

subtest 'init containers' => sub {
	my @init = map { {name => $_, image => 'busybox'} } qw(one two);
	my $states = sub { join ' ', map { my $s = $_->{state}; "$_->{name} " . ($s->{terminated} ? "ended $s->{terminated}{exitCode}"
		: $s->{running} ? 'runs' : $s->{waiting}{reason}) } map { @{$_ // []} }
		@{pod($_[0])->{status}}{qw(initContainerStatuses containerStatuses)} };
	set({name => 'well', initMs => 1000, runMs => 0});
	make_pod('well', initContainers => \@init);
	begin('well', 'Initializing');
	is($states->('well'), 'one runs two PodInitializing main PodInitializing', 'one after the other');
	is(phase('well'), 'Pending', 'the Pod is Pending');
	is(condition('well', 'Initialized'), 'False ContainersNotInitialized containers with incomplete status: [one two]',
		'Initialized');
	advance(1000);
	wait_until('the second one', sub { $states->('well') =~ /two runs/ });
	is($states->('well'), 'one ended 0 two runs main PodInitializing', 'the second one');
	advance(1000);
	wait_stage('well', 'Running');
	is($states->('well'), 'one ended 0 two ended 0 main runs', 'then the containers');
	is(condition('well', 'Initialized'), 'True', 'Initialized');

	set({name => 'first-fails', initExitCode => 4, initContainer => 'one', message => 'no data'});
	set({name => 'last-fails', initExitCode => 5});
	make_pod('first-fails', initContainers => \@init);
	begin('first-fails', 'Ended');
	is($states->('first-fails'), 'one ended 4 two PodInitializing main PodInitializing', 'the first one fails');
	is(pod('first-fails')->{status}{initContainerStatuses}[0]{state}{terminated}{message}, 'no data', 'its words');
	is(phase('first-fails'), 'Failed', 'the Pod too');
	like(condition('first-fails', 'Initialized'), qr/^False ContainersNotInitialized/, 'never initialized');
	make_pod('last-fails', initContainers => \@init);
	begin('last-fails', 'Ended');
	is($states->('last-fails'), 'one ended 0 two ended 5 main PodInitializing', 'the last one, when none is named');
	make_pod('none', initContainers => []);
	set({name => 'none-fails', initExitCode => 5, runMs => 0});
	make_pod('none-fails');
	begin('none-fails', 'Running');
};

subtest 'ends of single containers' => sub {
	my @two = map { {name => $_, image => 'busybox'} } qw(main side);
	set({name => 'greedy', oom => JSON::PP::true()});
	set({name => 'one-bad', exitCode => 9, container => 'side'});
	make_pod('greedy');
	begin('greedy', 'Running');
	advance(2000);
	wait_stage('greedy', 'Ended');
	my $ended = pod('greedy')->{status}{containerStatuses}[0]{state}{terminated};
	is_deeply([phase('greedy'), @{$ended}{qw(exitCode reason)}], ['Failed', 137, 'OOMKilled'], 'too much memory');
	make_pod('one-bad', containers => \@two);
	begin('one-bad', 'Running');
	advance(2000);
	wait_stage('one-bad', 'Ended');
	is_deeply([phase('one-bad'), map { @{$_->{state}{terminated}}{qw(exitCode reason)} }
		@{pod('one-bad')->{status}{containerStatuses}}], ['Failed', 0, 'Completed', 9, 'Error'], 'one of two fails');
};

subtest 'eviction' => sub {
	set({name => 'moved', runMs => 0, termMs => 1000});
	make_pod('moved');
	begin('moved', 'Running');
	my $path = '/api/v1/namespaces/default/pods/moved/eviction';
	my %eviction = (apiVersion => 'policy/v1', kind => 'Eviction', metadata => {name => 'moved'});
	is(api('POST', "$path?dryRun=All", json => \%eviction)->{status}, 201, 'a dry run');
	is(stage('moved'), 'Running', 'does nothing');
	is(api('POST', $path, json => \%eviction)->{status}, 201, 'an eviction');
	wait_stage('moved', 'Ending');
	is(condition('moved', 'DisruptionTarget'), 'True EvictionByEvictionAPI Eviction API: evicting', 'its condition says why');
	advance(1000);
	wait_stage('moved', 'gone');
	is(api('POST', $path, json => \%eviction)->{status}, 404, 'of nobody: 404');
	is(api('GET', $path)->{status}, 405, 'there is nothing to get');
};

subtest 'a Node that is lost' => sub {
	my $node_is = sub { my ($found) = grep { $_->{type} eq 'Ready' } @{api('GET', "/api/v1/nodes/$_[0]")->{json}{status}{conditions}};
		"$found->{status} $found->{reason}" };
	api('PATCH', '/api/v1/nodes/sim0', %patch, json => {spec => {unschedulable => JSON::PP::true()}});
	set({name => 'on-*', runMs => 20_000});
	make_pod($_) for qw(on-a on-b);
	begin($_, 'Running') for 'on-a';
	wait_stage('on-b', 'Running');
	is(admin('POST', '/sim/nodes/sim1/lose', {notReadyMs => 4000, evictMs => 10_000})->{status}, 204, 'lost');
	is(admin('POST', '/sim/nodes/sim1/lose')->{status}, 409, 'twice: 409');
	is_deeply([map { $_->{lost} ? 1 : 0 } @{state()->{kubelet}{nodes}}], [0, 1], 'the state says so');
	make_pod('on-late');
	wait_stage('on-late', 'New');
	advance(50);
	wait_until('it to be bound', sub { pod('on-late')->{spec}{nodeName} });
	is($node_is->('sim1'), 'True KubeletReady', 'nobody has noticed yet: Pods are still sent there');
	advance(3950);
	wait_until('the node controller', sub { $node_is->('sim1') eq 'Unknown NodeStatusUnknown' });
	wait_condition('on-a', 'Ready', 'False');
	is(phase('on-a'), 'Running', 'its Pods run, as far as anybody knows');
	make_pod('on-no', nodeSelector => {disk => 'fast'});
	wait_stage('on-no', 'New');
	advance(50);
	wait_stage('on-no', 'Unschedulable');
	like(condition('on-no', 'PodScheduled'), qr/had untolerated taint\(s\)/, 'no new ones are sent there');
	make_pod('on-yes', nodeSelector => {disk => 'fast'}, tolerations => [{operator => 'Exists'}]);
	wait_until('it to be bound', sub { advance(1); pod('on-yes')->{spec}{nodeName} });
	pass('but one that tolerates that');
	is(api('DELETE', '/api/v1/namespaces/default/pods/on-b')->{status}, 200, 'one is deleted');
	advance(10_000);
	wait_until('the others to be evicted', sub { pod('on-a')->{metadata}{deletionTimestamp} });
	is(condition('on-a', 'DisruptionTarget'), 'True DeletionByTaintManager Taint manager: deleting due to NoExecute taint',
		'its condition says why');
	advance(1_000_000);
	is(phase('on-b'), 'Running', 'nothing ends there');
	is(api('DELETE', '/api/v1/namespaces/default/pods/on-b?gracePeriodSeconds=0')->{status}, 200, 'but by force');
	is(phase('on-b'), 'gone', 'at once');
	is(admin('POST', '/sim/nodes/sim1/return')->{status}, 204, 'it is back');
	is(admin('POST', '/sim/nodes/sim1/return')->{status}, 404, 'twice: 404');
	is(admin('POST', '/sim/nodes/sim9/lose')->{status}, 404, 'nobody: 404');
	is($node_is->('sim1'), 'True KubeletReady', 'Ready again');
	ok(!api('GET', '/api/v1/nodes/sim1')->{json}{spec}{taints}, 'without taints');
	wait_stage('on-late', 'gone');
	wait_stage('on-a', 'Ending');
	advance(1000);
	wait_stage('on-a', 'gone');
	wait_stage($_, 'Running') for qw(on-no on-yes);
	pass('and who waited for it goes on');
	is(admin('POST', '/sim/nodes/sim1/lose')->{status}, 204, 'lost for no time');
	is(admin('POST', '/sim/nodes/sim1/return')->{status}, 204, 'and back');
	api('PATCH', '/api/v1/nodes/sim0', %patch, json => {spec => {unschedulable => undef}});
	api('DELETE', "/api/v1/namespaces/default/pods/$_?gracePeriodSeconds=0") for qw(on-no on-yes);
};

subtest 'V-IPU controllers' => sub {
	is(scalar @{state()->{vipu}}, 2, 'two of them');
	is_deeply(state()->{vipu}[1]{faults}, [{kind => 'hang', method => 'GetVersion', count => 3}], 'a fault of --vipu-fault');
	is(admin('DELETE', '/sim/vipu/1/faults')->{status}, 204, 'faults are cleared');
	is_deeply(state()->{vipu}[1]{faults}, [], 'and gone');
	is(admin('POST', '/sim/vipu/1/partitions', {id => 'mine', size => 2})->{status}, 204, 'a partition by hand');
	is(state()->{vipu}[1]{ipus}{free}, 2, 'has its IPUs');
	is(admin('POST', '/sim/vipu/1/partitions', {id => 'mine', size => 2})->{status}, 409, 'twice: 409');
	is(admin('POST', '/sim/vipu/1/break', {id => 'mine', message => 'dust'})->{status}, 204, 'it breaks');
	is(state()->{vipu}[1]{partitions}[0]{readyState}, 'PS_ERROR', 'PS_ERROR');
	is(admin('DELETE', '/sim/vipu/1/partitions/mine')->{status}, 204, 'it is removed');
	is(admin('DELETE', '/sim/vipu/1/partitions/mine')->{status}, 404, 'twice: 404');
	is(admin('POST', '/sim/vipu/1/agents', {agents => 2})->{status}, 204, 'another agent');
	is(state()->{vipu}[1]{ipus}{total}, 8, 'more IPUs');
	is(admin('POST', '/sim/vipu/1/down')->{status}, 204, 'down');
	ok(!state()->{vipu}[1]{up}, 'is down');
	is(admin('POST', "/sim/vipu/1/$_")->{status}, 204, $_) for qw(up cut drain);
	ok(state()->{vipu}[1]{up}, 'is up');
	is(admin('POST', '/sim/vipu/1/delays', {createMs => 1, resetMs => 2, removeMs => 3})->{status}, 204, 'delays');
	is(state()->{vipu}[0]{ipus}{total}, 4, 'the other one is as it was');
};

subtest 'faults of the API' => sub {
	is(admin('POST', '/sim/api/faults', {kind => 'status', verb => 'list', resource => 'pods', status => 503,
		message => 'not now', retryAfter => 2})->{status}, 204, 'a fault');
	my $answer = api('GET', '/api/v1/pods');
	is_deeply([$answer->{status}, $answer->{headers}{'retry-after'}, $answer->{json}{message}], [503, 2, 'not now'], 'is met');
	is(api('GET', '/api/v1/pods')->{status}, 200, 'once');
	admin('POST', '/sim/api/faults', {kind => 'cut', count => 0});
	is(api('GET', '/api/v1/pods')->{status}, 599, 'a connection that is cut');
	is(admin('DELETE', '/sim/api/faults')->{status}, 204, 'faults are cleared');
	is(api('GET', '/api/v1/pods')->{status}, 200, 'and gone');
	is(admin('POST', '/sim/api/compact')->{status}, 204, 'the history is forgotten');
	like(api('GET', '/api/v1/pods?watch=true&resourceVersion=2&timeoutSeconds=1')->{content}, qr/"code":410/, 'a watch: 410');
	is(admin('POST', '/sim/api/cut-watches')->{status}, 204, 'watches are cut');
	cmp_ok(state()->{api}{requests}{'list pods'}, '>=', 4, 'requests are counted');
};

subtest 'bad requests' => sub {
	my $before = json_encode([@{state()->{kubelet}}{qw(defaults rules)}, map { $_->{partitions} } @{state()->{vipu}}]);
	for my $case (
		['/sim/pods', {runMs => -1}, 400, qr/^runMs: must be a whole number from 0 to/],
		['/sim/pods', {readyMs => -2}, 400, qr/^readyMs: must be a whole number from -1 to/],
		['/sim/nodes/sim0/lose', {evictMs => 'soon'}, 400, qr/^evictMs: must be a whole number from 0/],
		['/sim/nodes/sim0/lose', {soon => 1}, 400, qr/^soon: there is no such key/],
		['/sim/pods', {runMs => 'soon'}, 400, qr/^runMs: must be a whole number/],
		['/sim/pods', {evict => 1}, 400, qr/^evict: must be true or false/],
		['/sim/pods', {startError => 'x' x 64}, 400, qr/^startError: must be a string of less than 64/],
		['/sim/pods', {runMs => 1, walkMs => 1}, 400, qr/^walkMs: there is no such setting/],
		['/sim/pods', {count => 1}, 400, qr/^count: goes with a name only/],
		['/sim/pods', {name => ''}, 400, qr/^name: must be/],
		['/sim/pods', [], 400, qr/^must be an object/],
		['/sim/vipu/0/faults', {kind => 'flood'}, 400, qr/no kind of fault "flood"/],
		['/sim/vipu/0/faults', {kind => 'hang', methode => 'x'}, 400, qr/^methode: there is no such key/],
		['/sim/vipu/0/faults', {kind => 'hang', method => 'Create'}, 400, qr/no method "Create"/],
		['/sim/vipu/2/faults', {kind => 'hang'}, 404, qr/no controller 2, only 0 to 1/],
		['/sim/vipu/x/cut', {}, 404, qr/no controller x/],
		['/sim/vipu/0/explode', {}, 404, qr/can't be told to "explode"/],
		['/sim/vipu/0/delays', {createMs => 1}, 400, qr/^resetMs: must be a whole number/],
		['/sim/vipu/0/partitions', {size => 2}, 400, qr/^id: must be a string/],
		['/sim/vipu/0/partitions', {id => 'a', size => 3}, 400, qr/power of two/],
		['/sim/vipu/0/partitions', {id => 'a', size => 64}, 429, qr/./],
		['/sim/vipu/0/break', {id => 'nobody'}, 404, qr/nobody/],
		['/sim/vipu/0/in-use', {id => 'nobody', inUse => 3}, 400, qr/^inUse: must be true or false/],
		['/sim/vipu/0/agents', {agents => 0}, 400, qr/^agents: must be a whole number from 1/],
		['/sim/vipu/0/down', {really => 1}, 400, qr/^really: there is no such key/],
		['/sim/api/faults', {kind => 'flood'}, 400, qr/kind/],
		['/sim/api/compact', [1], 400, qr/must be a JSON object, not an array/],
	) {
		my ($path, $json, $status, $words) = @$case;
		my $answer = admin('POST', $path, $json);
		my $problem = eval { json_decode($answer->{content}) } // {};
		is($answer->{status}, $status, "$path " . json_encode($json));
		like($problem->{detail} // '', $words, 'why');
	}
	my $answer = http('POST', $sim->url('admin', '/sim/pods'), content => '{"runMs":');
	is($answer->{status}, 400, 'half a body');
	like($answer->{content}, qr/the body isn't JSON/, 'why');
	is(http('GET', $sim->url('admin', '/sim/pods'))->{status}, 405, 'another method');
	is(http('GET', $sim->url('admin', '/nowhere'))->{status}, 404, 'another path');
	is(json_encode([@{state()->{kubelet}}{qw(defaults rules)}, map { $_->{partitions} } @{state()->{vipu}}]), $before,
		'nothing has changed');
	is(admin('DELETE', '/sim/pods')->{status}, 204, 'the rules are forgotten');
	is_deeply(state()->{kubelet}{rules}, [], 'and gone');
};

$sim->stop;

subtest 'V-IPU only' => sub {
	my $only = start('ipu-sim', args => ['--vipu-only', '--controllers=2']);
	is_deeply([sort keys %{$only->{ports}}], [qw(admin vipu0 vipu1)], 'its ports');
	my $answer = http('POST', $only->url('admin', '/sim/pods'), json => {});
	is($answer->{status}, 404, 'no Pods');
	like($answer->{content}, qr/--vipu-only/, 'and why');
	is_deeply([keys %{http('GET', $only->url('admin', '/sim/state'))->{json}}], ['vipu'], 'its state');
	$only->stop(signal => 'INT');
};

subtest 'command line' => sub {
	like(run([program('ipu-sim'), '--help'])->{out}, qr/^Usage: ipu-sim --dir DIR/, '--help');
	like(run([program('ipu-sim'), '--version'])->{out}, qr/^ipu-sim \d+\.\d+\.\d+\n\z/, '--version');
	for my $case (
		[[], qr/--dir is needed/],
		[['--frob'], qr/--frob: there is no such option/],
		[['--nodes'], qr/--nodes: needs a value/],
		[['word'], qr/word: not an option/],
		[['--dir', 'x', '--nodes', '201'], qr/--nodes: must be a whole number from 0 to 200, not "201"/],
		[['--dir', 'x', '--agents', '0'], qr/--agents: must be a whole number from 1/],
		[['--dir', 'x', '--vipu-only'], qr/don't go together/],
		[['--dir', ''], qr/--dir: must not be empty/],
		[['--dir', 'x', '--node-label', 'a'], qr/--node-label: a: a label is KEY=VALUE/],
		[['--dir', 'x', '--node-label', 'sim1:a=b'], qr/--node-label: .*there is no node sim1/],
		[['--dir', 'x', '--pods', '{"a":1}'], qr/--pods: a: there is no such setting/],
		[['--dir', 'x', '--pods', '{'], qr/--pods: line 1/],
		[['--vipu-only', '--vipu-fault', '{"kind":"x"}'], qr/--vipu-fault: there is no kind of fault "x"/],
		[['--vipu-only', '--vipu-listen', 'nowhere:x'], qr/--vipu-listen/],
		[['--vipu-only', '--vipu-listen', '127.0.0.1:65535', '--controllers', '2'], qr/no 1 ports behind 65535|65535: /],
		[['--dir', 'x', '--api-listen', '999.1.1.1:0'], qr/--api-listen/],
		[['--dir', 'x', '--crd', '/no/such/file'], qr{/no/such/file}],
		[['--dir', 'x', '--crd', '/dev/null'], qr{/dev/null}],
	) {
		my ($arguments, $words) = @$case;
		my $result = run([program('ipu-sim'), @$arguments], cwd => test_dir());
		my @lines = grep { !/ (?:INFO|WARN) / } split /\n/, $result->{err};
		is($result->{status}, 2, "@$arguments: exit status") or diag($result->{err});
		like($lines[0] // '', qr/^ipu-sim: .*$words/, 'why');
		is(scalar @lines, 1, 'in one line');
	}
	ok(!-e test_dir() . '/x', 'nothing half-done stays');
};

done_testing();
