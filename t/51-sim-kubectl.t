#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A real kubectl against ipu-sim with the operator behind it: what people type, and what they see.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

my $kubectl = program_or_skip('kubectl');
watchdog(240);
my $examples = top_srcdir() . '/doc/examples';
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--nodes=2', '--node-label=sim0:ipunode=sim0',
	'--create-ms=50', '--remove-ms=50', '--pod-start-ms=50', '--pod-run-ms=0', '--pod-term-ms=100']);
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig",
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.listen=127.0.0.1:0',
	'proxy.tlsListen=127.0.0.1:0',
	'health.listen=127.0.0.1:0', 'metrics.listen=127.0.0.1:0',
	'controllers=127.0.0.1:' . $sim->port('vipu0') . ':ipunode=sim0']);
my %env = (HOME => test_dir() . '', KUBECONFIG => "$folder/kubeconfig");

sub kubectl {
	my ($arguments, %options) = @_;
	return run([$kubectl, @$arguments], env => \%env, seconds => 30, %options);
}

# Runs kubectl; what it prints must look like this, and nothing may go wrong.
sub shows {
	my ($arguments, $words, %options) = @_;
	my $result = kubectl($arguments, %options);
	my $name = $options{name} // join ' ', @$arguments;
	is($result->{status}, 0, "kubectl $name") or diag($result->{err});
	like($result->{out}, $words, "$name: what it shows");
	return $result->{out};
}

sub refused {
	my ($arguments, $words, %options) = @_;
	my $result = kubectl($arguments, %options);
	my $name = $options{name} // join ' ', @$arguments;
	isnt($result->{status}, 0, "$name is refused");
	like($result->{err}, $words, "$name: why");
	return;
}

sub wait_for {
	my ($arguments, $words) = @_;
	return wait_until("kubectl @$arguments to show $words",
		sub { my $out = kubectl($arguments)->{out}; $out =~ $words ? $out : undef });
}

sub set_pods { is(http('POST', $sim->url('admin', '/sim/pods'), json => $_[0])->{status}, 204, 'how Pods go'); return }

# kubectl with -w, until it has shown this; returns all that it has shown.
sub watch {
	my ($arguments, $act, @words) = @_;
	my $program = start('kubectl', path => $kubectl, ports => 0, env => \%env, args => [@$arguments, '-w']);
	wait_until("kubectl @$arguments -w to begin", sub { length $program->out });
	$act->();
	for my $words (@words) {
		ok(eval { wait_until("kubectl @$arguments -w to show $words", sub { $program->out =~ $words }) },
			"@$arguments -w shows $words") or diag($@);
	}
	my $out = $program->out;
	$program->crash;
	return $out;
}

my $mnist = slurp("$examples/mnist-training.yaml");

subtest 'IPUJobs are created and applied' => sub {
	shows(['create', '-f', "$examples/single-worker-1.0.yaml"], qr{^ipujob\.graphcore\.ai/resnet-single created$});
	refused(['create', '-f', "$examples/single-worker-1.0.yaml"],
		qr/\(AlreadyExists\).*ipujobs\.graphcore\.ai "resnet-single" already exists/);
	shows(['create', '-f', "$examples/script-in-args.yaml"],
		qr{^ipujob\.graphcore\.ai/notebook-check-[a-z0-9]{5} created$});
	shows(['apply', '-f', "$examples/mnist-training.yaml"], qr{^ipujob\.graphcore\.ai/mnist-training created$});
	shows(['apply', '-f', "$examples/mnist-training.yaml"], qr{^ipujob\.graphcore\.ai/mnist-training unchanged$},
		name => 'apply, again');
	shows(['apply', '-f', '-'], qr{^ipujob\.graphcore\.ai/mnist-training configured$},
		stdin => $mnist =~ s/epochs=1/epochs=2/r, name => 'apply, changed');
	shows(['get', 'ipujob', 'mnist-training', '-o', 'jsonpath={.spec.workers.template.spec.containers[0].args[1]}'],
		qr/--epochs=2$/);
	shows(['apply', '--dry-run=server', '-f', '-'], qr/dry-job created \(server dry run\)/,
		stdin => $mnist =~ s/name: mnist-training\nspec/name: dry-job\nspec/r, name => 'apply, dry run');
	refused(['get', 'ipujob', 'dry-job'], qr/\(NotFound\).*ipujobs\.graphcore\.ai "dry-job" not found/);
};

subtest 'IPUJobs are shown' => sub {
	my $out = wait_for(['get', 'ipujobs'], qr/^mnist-training +Running/m);
	like($out, qr/^NAME +STATUS +CURRENT +DESIRED +LASTMESSAGE +AGE\n/, "the CRD's columns");
	like($out, qr/^mnist-training +Running +1 +1 +Running +\d+s$/m, 'a row');
	my @names = $out =~ /^(\S+)/mg;
	is_deeply([@names[1 .. $#names]], [sort @names[1 .. $#names]], 'in the order of names');
	shows(['get', 'ipujobs', '-A'], qr/^NAMESPACE +NAME .*\ndefault +mnist-training /);
	shows(['get', 'ipujob', 'mnist-training', '-o', 'name'], qr{^ipujob\.graphcore\.ai/mnist-training$});
	my $yaml = shows(['get', 'ipujob', 'mnist-training', '-o', 'yaml'], qr/^kind: IPUJob$/m);
	like($yaml, qr/^  - ipu\.finalizers\.graphcore\.ai$/m, 'yaml: the finalizer');
	like($yaml, qr/^  launcherStatus: Running$/m, 'yaml: the status');
	unlike($yaml, qr/managedFields/, 'yaml: no managed fields');
	# One that nobody has changed: another template would be rolled out, if it comes late.
	wait_for(['get', 'ipujobs'], qr/^resnet-single +Running/m);
	$out = shows(['describe', 'ipujob', 'resnet-single'], qr/^Kind: +IPUJob$/m);
	like($out, qr/^Events:\n.*\n.*\n.*PartitionRequested.*\n.*PartitionActive.*\n.*PodCreated.*\n.*JobRunning/m,
		'describe: the Events, in their order');
	shows(['get', 'ipujobs', '--field-selector', 'metadata.name=resnet-single', '-o', 'name'],
		qr{^ipujob\.graphcore\.ai/resnet-single$});
	refused(['get', 'ipujob', 'nobody'], qr/ipujobs\.graphcore\.ai "nobody" not found/);
	shows(['api-resources', '--api-group=graphcore.ai'], qr{^ipujobs +graphcore\.ai/v1alpha1 +true +IPUJob$}m);
	is($sim->status, undef, 'ipu-sim lives');
};

subtest 'Pods, ConfigMaps and Events are shown' => sub {
	my $out = wait_for(['get', 'pods'], qr/^mnist-training-worker-0 +1\/1 +Running/m);
	like($out, qr/^NAME +READY +STATUS +RESTARTS +AGE\n/, "Pods' columns");
	shows(['get', 'pods', '-l', 'graphcore.ai/job=mnist-training', '-o', 'name'], qr{^pod/mnist-training-worker-0$});
	shows(['get', 'pods', '-l', 'graphcore.ai/job in (mnist-training,resnet-single)', '-o', 'name'],
		qr{^pod/mnist-training-worker-0\npod/resnet-single-worker-0$});
	shows(['get', 'pods', '-l', 'graphcore.ai/role!=worker', '-o', 'name'], qr/^$/);
	shows(['get', 'pods', '--field-selector', 'spec.nodeName=sim0', '-o', 'name'], qr{pod/mnist-training-worker-0});
	shows(['get', 'pods', '--field-selector', 'status.phase=Failed', '-o', 'name'], qr/^$/);
	shows(['get', 'pods', '-o', 'wide'], qr/^mnist-training-worker-0 .*Running .* sim0\b/m);
	$out = shows(['describe', 'pod', 'mnist-training-worker-0'], qr{^Node: +sim0/10\.0\.0\.1$}m);
	like($out, qr/^Status: +Running$/m, 'describe: status');
	like($out, qr{^Controlled By: +IPUJob/mnist-training$}m, 'describe: owner');
	like($out, qr/^      IPUOF_VIPU_API_PARTITION_ID: +mnist-training-default-0-[0-9a-f]{10}$/m, 'describe: environment');
	like($out, qr/^    State: +Running\n      Started: /m, 'describe: state of the container');
	like($out, qr/^  PodScheduled +True *$/m, 'describe: conditions');
	like($out, qr/^  Normal +Scheduled .* default-scheduler .*\n.*Pulled.*\n.*Created.*\n.*Started /m,
		'describe: Events of scheduler and kubelet, in their order');
	shows(['get', 'nodes', '-l', 'ipunode=sim0', '-o', 'name'], qr{^node/sim0$});
	shows(['get', 'configmaps', '-n', 'ipu-operator'], qr/^NAME +DATA +AGE\nipu-partitions-tracker +3 +/);
	shows(['describe', 'configmap', '-n', 'ipu-operator', 'ipu-partitions-tracker'],
		qr/^mnist-training-default-0-[0-9a-f]{10}:$/m);
	$out = shows(['get', 'events', '--field-selector', 'involvedObject.name=mnist-training'],
		qr/^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n/);
	like($out, qr{ Normal +PartitionActive +ipujob/mnist-training +Partition }, 'an Event of the job');
	unlike($out, qr/resnet/, 'no Event of another one');
	$out = shows(['events', '--for', 'ipujob/mnist-training'], qr/PartitionActive/);
	shows(['get', 'events', '-A', '--field-selector', 'reason=JobRunning,type=Normal', '-o', 'name'], qr{^event/});
	shows(['describe', 'events'], qr/^Reason: +JobRunning$/m);
};

subtest 'what changes is seen' => sub {
	set_pods({name => 'watched-*', runMs => 300});
	my $job = $mnist =~ s/name: mnist-training\nspec/name: watched\nspec/r;
	my ($jobs, $events);
	my $pods = watch(['get', 'pods'], sub {
		$jobs = watch(['get', 'ipujobs'], sub {
			$events = watch(['get', 'events'], sub {
				shows(['apply', '-f', '-'], qr/created/, stdin => $job, name => 'apply');
			}, qr/PartitionRequested +ipujob\/watched/, qr/PartitionReleased +ipujob\/watched/);
		}, qr/^watched +Completed +0 +1 +All instances done/m);
	}, qr/^watched-worker-0 +0\/1 +Completed/m);
	like($jobs, qr/^watched +Pending.*\n(?:.*\n)*watched +Running +1 +1 +Running.*\n(?:.*\n)*watched +Completed/m,
		'the job: Pending, Running, Completed');
	like($pods, qr/^watched-worker-0 +0\/1 +Pending.*\n(?:.*\n)*.* +0\/1 +ContainerCreating.*\n(?:.*\n)*.* +1\/1 +Running/m,
		'the Pod: Pending, ContainerCreating, Running');
	shows(['wait', 'ipujob/watched', '--for=jsonpath={.status.launcherStatus}=Completed', '--timeout=10s'],
		qr/condition met/);
};

subtest 'IPUJobs are scaled' => sub {
	shows(['scale', 'ipujob', 'watched', '--replicas=2'], qr{^ipujob\.graphcore\.ai/watched scaled$});
	shows(['get', 'ipujob', 'watched', '-o', 'jsonpath={.spec.jobInstances}'], qr/^2$/);
	refused(['scale', 'ipujob', 'watched', '--replicas=1', '--current-replicas=5'],
		qr/[Ee]xpected replicas to be 5, was 2/);
	refused(['scale', 'ipujob', 'watched', '--replicas=0'], qr/spec\.jobInstances: .*must be from 1 to 2000/);
};

subtest 'labels, patches' => sub {
	shows(['label', 'ipujob', 'watched', 'team=a'], qr/labeled/);
	shows(['get', 'ipujobs', '-l', 'team=a', '-o', 'name'], qr{^ipujob\.graphcore\.ai/watched$});
	shows(['annotate', 'ipujob', 'watched', 'note=b'], qr/annotated/);
	shows(['patch', 'ipujob', 'watched', '--type=merge', '-p', '{"spec":{"jobInstances":1}}'], qr/patched/);
	shows(['patch', 'ipujob', 'watched', '--type=json', '-p',
		'[{"op":"test","path":"/spec/jobInstances","value":1},{"op":"remove","path":"/metadata/labels/team"}]'],
		qr/patched/);
	shows(['get', 'ipujobs', '-l', 'team', '-o', 'name'], qr/^$/);
	refused(['apply', '--server-side', '-f', "$examples/mnist-training.yaml"], qr/unknown format|UnsupportedMediaType/);
};

subtest 'bad manifests' => sub {
	for my $case (
		['a size that is no power of two', 's/ipusPerJobInstance: "1"/ipusPerJobInstance: "3"/',
			qr/The IPUJob "mnist-training" is invalid:.*spec\.ipusPerJobInstance: .*must be a power of two/s],
		['a size that is no string', 's/ipusPerJobInstance: "1"/ipusPerJobInstance: 4/',
			qr/spec\.ipusPerJobInstance: .*string/],
		['no instances', 's/jobInstances: 1/jobInstances: 0/', qr/spec\.jobInstances: .*must be from 1 to 2000/],
		['both generations', 's/  jobInstances: 1/  jobInstances: 1\n  modelReplicas: "1"\n  ipusPerModelReplica: "1"/',
			qr/The IPUJob "mnist-training" is invalid: .*modelReplicas/s],
		['no workers', 's/  workers:.*//s', qr/spec\.workers: Required value/],
		['a field that nobody knows', 's/  jobInstances: 1/  jobInstances: 1\n  jobInstanzen: 1/',
			qr/strict decoding error: unknown field "spec\.jobInstanzen"/],
		['another kind', 's/kind: IPUJob/kind: IPUJobs/', qr/no matches for kind "IPUJobs"/],
		['a bad name', 's/name: mnist-training\nspec/name: Mnist_Training\nspec/', qr/metadata\.name/],
	) {
		my ($name, $change, $words) = @$case;
		my $text = $mnist;
		eval "\$text =~ $change; 1" or die $@;
		isnt($text, $mnist, "$name: the manifest has changed");
		refused(['create', '-f', '-'], $words, stdin => $text, name => $name);
		refused(['apply', '-f', '-'], $words, stdin => $text, name => "$name, applied")
			if $change !~ /Mnist_Training/;
	}
	shows(['get', 'ipujob', 'mnist-training', '-o', 'jsonpath={.spec.ipusPerJobInstance}'], qr/^1$/);
};

subtest 'things are deleted' => sub {
	shows(['delete', 'pod', 'resnet-single-worker-0'], qr/^pod "resnet-single-worker-0" deleted/);
	wait_for(['get', 'ipujob', 'resnet-single'], qr/Failed/);
	my $pods = watch(['get', 'pods'], sub {
		shows(['delete', 'ipujob', 'mnist-training', '--timeout=20s'],
			qr/^ipujob\.graphcore\.ai "mnist-training" deleted/);
	}, qr/^mnist-training-worker-0 +1\/1 +Terminating/m);
	refused(['get', 'ipujob', 'mnist-training'], qr/not found/);
	refused(['get', 'pod', 'mnist-training-worker-0'], qr/pods "mnist-training-worker-0" not found/);
	shows(['delete', 'ipujobs', '--all', '--timeout=20s'], qr/"resnet-single" deleted/);
	shows(['get', 'pods', '-o', 'name'], qr/^$/);
	my $state = http('GET', $sim->url('admin', '/sim/state'))->{json};
	is_deeply($state->{vipu}[0]{partitions}, [], 'no partition is left');
	shows(['create', '-f', '-'], qr{^configmap/mine created}, name => 'create configmap',
		stdin => "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\ndata: {a: b}\n");
	shows(['get', 'configmap', 'mine', '-o', 'yaml'], qr/^  a: b$/m);
	shows(['delete', 'configmap', 'mine'], qr/^configmap "mine" deleted/);
	shows(['delete', 'events', '--all'], qr/^event "[^"]+" deleted/m);
	my $result = kubectl(['get', 'events']);
	like($result->{err}, qr/^No resources found/, 'no Event is left');
};

# A Pod by itself: what the simulated scheduler and kubelet make of it.
subtest 'Pods by themselves' => sub {
	shows(['run', 'alone', '--image=busybox', '--restart=Never', '--overrides',
		'{"spec":{"nodeSelector":{"disk":"fast"}}}'], qr{^pod/alone created});
	my $out = wait_for(['describe', 'pod', 'alone'], qr/FailedScheduling/);
	like($out, qr/FailedScheduling .*0\/2 nodes are available: 2 node\(s\) didn't match Pod's node affinity\/selector/,
		'a selector that no node satisfies');
	shows(['label', 'node', 'sim1', 'disk=fast'], qr/labeled/);
	wait_for(['get', 'pod', 'alone'], qr{1/1 +Running});
	shows(['get', 'pod', 'alone', '-o', 'jsonpath={.spec.nodeName}'], qr/^sim1$/);
	shows(['delete', 'pod', 'alone', '--wait=false'], qr/deleted/);
	wait_until('the Pod to go', sub { kubectl(['get', 'pod', 'alone'])->{err} =~ /not found/ });
	set_pods({name => 'bad', startError => 'ErrImagePull'});
	shows(['run', 'bad', '--image=busybox', '--restart=Never'], qr{^pod/bad created});
	wait_for(['get', 'pod', 'bad'], qr{0/1 +ImagePullBackOff});
	shows(['delete', 'pod', 'bad', '--now'], qr/deleted/);
};

subtest 'Leases and tokens' => sub {
	shows(['apply', '-f', '-'], qr{^lease\.coordination\.k8s\.io/mine created}, name => 'apply a Lease',
		stdin => "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: mine}\nspec: {holderIdentity: me}\n");
	shows(['get', 'lease', 'mine'], qr/^NAME +HOLDER +AGE\nmine +me +\d+s$/);
	shows(['delete', 'lease', 'mine'], qr/deleted/);
	like(shows(['create', 'token', 'default', '--audience', 'somebody', '--duration', '20m'], qr/^\S+$/),
		qr/^\S{20}/, 'a token');
	refused(['create', 'token', 'nobody'], qr/serviceaccounts "nobody" not found/);
	shows(['get', 'serviceaccounts'], qr/^default /m);
};

$operator->stop;
$sim->stop;
done_testing();
