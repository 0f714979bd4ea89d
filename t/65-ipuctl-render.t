#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl render against what the operator really creates for the same manifests on ipu-sim: the Pods
# and all that belongs to them must be the same but for what stands in angle brackets.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir file_text);
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=16']);
my $token = slurp("$folder/token");
my $config = spit(test_dir() . '/operator.yaml', "launcher:\n  image: example.com/ipu-launcher:1\n  workerTimeoutSeconds: 77\n"
	. "worker:\n  hostNetwork: false\n  rdmaNetwork: fabric/rdma-net\n  rdmaResource: rdma/a\n");
my $address = '127.0.0.1:' . $sim->port('vipu0');
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", '--config', $config,
	'--set', 'operatorNamespace=ipu-operator', '--set', "controllers=$address",
	map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)]);

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

sub render { return run([program('ipuctl'), 'render', @_], env => {HOME => test_dir(), KUBECONFIG => undef}, seconds => 30) }

my %plural = (Pod => 'pods', ConfigMap => 'configmaps', ServiceAccount => 'serviceaccounts', Role => 'roles', RoleBinding => 'rolebindings');
sub path_of {
	my ($object) = @_;
	my $root = $object->{apiVersion} eq 'v1' ? '/api/v1' : "/apis/$object->{apiVersion}";
	return "$root/namespaces/$object->{metadata}{namespace}/$plural{$object->{kind}}/$object->{metadata}{name}";
}

# What the API server has added, or only it knows, made equal on both sides.
sub comparable {
	my ($object) = @_;
	my $text = json_encode($object);
	my ($host, $port) = split /:/, $address;
	$text =~ s/<V-IPU controller>/$host/g;
	$text =~ s/"value":"8090"/"value":"$port"/g;
	my $copy = json_decode($text);
	delete @{$copy->{metadata}}{qw(uid resourceVersion creationTimestamp managedFields generation annotations ownerReferences)};
	delete $copy->{status};
	if ($copy->{kind} eq 'Pod') {
		my %default = (dnsPolicy => 'ClusterFirst', schedulerName => 'default-scheduler', serviceAccountName => 'default',
			terminationGracePeriodSeconds => 30);
		delete @{$copy->{spec}}{qw(nodeName serviceAccount)};
		for my $key (keys %default) { delete $copy->{spec}{$key} if ($copy->{spec}{$key} // '') eq $default{$key} }
	}
	$text = json_encode($copy);
	$text =~ s/"name":"IPUOF_VIPU_API_PARTITION_ID","value":"[^"]*"/"name":"IPUOF_VIPU_API_PARTITION_ID","value":"?"/g;
	return json_decode($text);
}

# Manifests: a name, its text, and how many objects of which kind come from it.
my $small = <<'END';
apiVersion: graphcore.ai/v1alpha1
kind: IPUJob
metadata:
  name: small
  namespace: default
spec:
  jobInstances: 2
  ipusPerJobInstance: "4"
  workers:
    workersPerJobInstance: 2
    template:
      spec:
        containers:
        - name: main
          image: pytorch
          command: [sleep, "1000"]
END
$small =~ s/^    workersPerJobInstance.*\n//m;
$small =~ s/(?=  workers:)/  workersPerJobInstance: "2"\n/;
my @cases = (
	['two instances of two workers', $small, 'ConfigMap 0, IPUJob 1, Pod 4, Role 0, request 2'],
	['a launcher', (file_text('doc/examples/launcher.yaml') =~ s/name: (bert\S*)/name: $1\n  namespace: default/r), 'ConfigMap 1, IPUJob 1, Pod 3, Role 1, request 1'],
	['the first generation', (file_text('doc/examples/launcher-1.0.yaml') =~ s/^  name: (\S+)$/  name: $1\n  namespace: default/mr), undef],
);

for my $case (@cases) {
	my ($what, $text, $counts) = @$case;
	my $file = spit(test_dir() . '/job.yaml', $text);
	my $result = render('-o', 'json', '-f', $file, '--config', $config);
	is("$result->{status} $result->{err}", '0 ', "$what is rendered");
	my $list = json_decode($result->{out});
	my %count = (request => scalar @{$list->{partitionRequests}}, map { $_ => 0 } qw(IPUJob Pod ConfigMap Role));
	$count{$_->{kind}}++ for @{$list->{items}};
	is(join(', ', map { "$_ $count{$_}" } qw(ConfigMap IPUJob Pod Role request)), $counts, '... so many objects') if $counts;
	my ($job) = grep { $_->{kind} eq 'IPUJob' } @{$list->{items}};
	is(api('POST', '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs', json => $job)->{status}, 201, '... the IPUJob with its defaults is taken');
	my $stored = api('GET', "/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs/$job->{metadata}{name}")->{json};
	is_deeply($stored->{spec}, $job->{spec}, '... as it is');
	for my $object (grep { $_->{kind} ne 'IPUJob' } @{$list->{items}}) {
		my $name = "$object->{kind} $object->{metadata}{name}";
		my $there = wait_until("$name to be made", sub { my $answer = api('GET', path_of($object)); $answer->{status} == 200 && $answer->{json} });
		is_deeply(comparable($object), comparable($there), "... $name is what the operator makes");
		my $owner = $there->{metadata}{ownerReferences}[0];
		$owner->{uid} = '<uid>';
		is_deeply($object->{metadata}{ownerReferences}, [$owner], '... of the same owner');
	}
	for my $request (@{$list->{partitionRequests}}) {
		my ($partition) = grep { $_->{owner}{name} eq $job->{metadata}{name} && $_->{instance} == $request->{instance} }
			@{http('GET', $operator->url('proxy', '/partitions'))->{json}{items}};
		is($partition->{ipus}, $request->{ipus}, "... instance $request->{instance} has so many IPUs");
	}
	is(api('DELETE', "/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs/$job->{metadata}{name}")->{status}, 200, '... it goes');
}

my $annotated = <<'END';
apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: team}
spec:
  template:
    metadata:
      annotations: {graphcore.ai/ipus: "2"}
    spec:
      containers:
      - {name: main, image: pytorch}
END

# Manifest, options, and what must be printed.
my $job = spit(test_dir() . '/small.yaml', $small);
my $pods = spit(test_dir() . '/pods.yaml', $annotated);
my $queued = spit(test_dir() . '/queued.yaml', $small =~ s/  namespace: default/  labels: {kueue.x-k8s.io\/queue-name: team}/r);
my $gang = spit(test_dir() . '/gang.yaml', $small =~ s/(?=  workers:)/  schedulingPolicy: {minAvailable: 1}\n/r);
my @looks = (
	['a namespace', [$queued, '-n', 'team'], qr/^  namespace: team$/m],
	['a job in a queue of Kueue', [$queued], qr/^  schedulingGates:\n  - name: graphcore.ai\/partition$/m],
	['... gets its values by keys', [$queued], qr/configMapKeyRef:\n *name: small-ipuof-0/],
	['... which are in a ConfigMap', [$queued], qr/^# The IPUoF configuration of instance 1\n.*?IPUOF_VIPU_API_PARTITION_ID: "<partition>"$/ms],
	['a gang', [$gang], qr/^kind: PodGroup\n/m],
	['a secure controller', [$job, '--controller', 'file'], qr/^kind: ConfigMap\n.*^  ipuof-1\.conf: "<what /ms],
	['... its Pods get a file', [$job, '--controller=file'], qr/name: IPUOF_CONFIG_PATH\n +value: "\/etc\/ipuof\.conf\.d\/<partition>\.conf"\n/],
	['no privileges', [$job, '--config', $config], qr/\A(?!.*privileged)(?!.*hostNetwork: true)/s],
	['the RDMA network, in a namespace of its own', [$job, '--config', $config], qr/^    k8s\.v1\.cni\.cncf\.io\/networks: "?fabric\/rdma-net"?$/m],
	['... in the Pod\'s', [$job, '--config', $config, '-n', 'fabric'], qr/^    k8s\.v1\.cni\.cncf\.io\/networks: "?rdma-net"?$/m],
	['... also in an annotated Pod', [$pods, '--config', $config], qr/networks: "?fabric\/rdma-net"?\n.*- "?IPC_LOCK"?$/ms],
	['... with the device', [$pods, '--config', $config], qr/limits:\n +rdma\/a: 1\n/],
	['... or without IPC_LOCK', [$pods, '--config', spit(test_dir() . '/no-lock.yaml',
		"worker: {hostNetwork: false, rdmaNetwork: n, ipcLock: false}\n")], qr/\A(?!.*IPC_LOCK).*networks: "?default\/n"?$/ms],
	['nothing of it on the host\'s network', [$pods, '--config', spit(test_dir() . '/host.yaml',
		"worker: {rdmaNetwork: n, rdmaResource: rdma\/a, ipcLock: true}\n")], qr/\A(?!.*(?:IPC_LOCK|networks|rdma)).*hostNetwork: true/s],
	['the defaults', [$job], qr/^  hostNetwork: true$/m],
	['a Deployment that asks by annotation', [$pods], qr/^# A Pod of the template as the webhook makes it.*^  generateName: many-\n.*\n    graphcore.ai\/pod: /ms],
	['... behind a gate', [$pods], qr/^  schedulingGates:\n  - name: graphcore.ai\/partition$/m],
	['... with its request', [$pods], qr/^# Partition request: \{"owner":\{"kind":"Pod","namespace":"team",.*"ipus":2/m],
	['... and its ConfigMap', [$pods], qr/^  name: ipuof-0{32}$/m],
	['init mode', [$pods, '--config', spit(test_dir() . '/init.yaml', "pods: {mode: init}\n")], qr/initContainers:\n  - name: ipu-partition$(?!.*^kind: ConfigMap)/ms],
	['without a launcher image', [top_srcdir() . '/doc/examples/launcher.yaml'], qr/launcher\.image isn't configured: it would wait/],
	['as YAML that reads back', [$job], qr/^---\n# Worker 3 of instance 1, |^---\n# Worker 1 of instance 1, /m],
);
for my $look (@looks) {
	my ($what, $args, $want) = @$look;
	my $result = render(@$args);
	like($result->{out}, $want, $what);
	is($result->{status}, 0, '... status 0') or diag($result->{err});
	is($result->{err}, '', '... and nothing is wrong with it') if $args->[0] eq $pods;
}
my $misspelt = render(spit(test_dir() . '/misspelt.yaml', $annotated =~ s/image: pytorch/image: pytorch, imag: x/r));
like($misspelt->{err}, qr/\A\S+:10:\d+: warning: spec\.template\.spec\.containers\[0\]\.imag: [^\n]*did you mean image\?\n\z/, 'but a field that no Pod has');

my $default = render($job)->{out};
is(render($job, '--config', top_srcdir() . '/etc/operator.yaml')->{out}, $default, "the defaults are those of etc/operator.yaml");

my $wrong = spit(test_dir() . '/wrong.yaml', $small =~ s/"4"/"3"/r);
my $result = render('-f', $wrong);
is("$result->{status} $result->{out}", '1 ', 'what is wrong is not rendered');
like($result->{err}, qr/^\Q$wrong\E:8:3: error: spec.ipusPerJobInstance: .*power of two/m, '... and is told with its place');
for my $bad ([2, qr/--controller: must be/, $job, '--controller', 'x'], [2, qr/--config/, $job, '--config', '/nowhere'],
	[2, qr/operator.yaml:2:16: must be a boolean/, $job, '--config', spit(test_dir() . '/bad-operator.yaml', "worker:\n  hostNetwork: 1\n")],
	[2, qr/operator.yaml:1:23: must be \[NAMESPACE\/\]NAME/, $job, '--config', spit(test_dir() . '/bad-network-operator.yaml', "worker: {rdmaNetwork: a.b}\n")],
	[2, qr/operator.yaml:1:24: must be an extended resource/, $job, '--config', spit(test_dir() . '/bad-resource-operator.yaml', "worker: {rdmaResource: cpu}\n")],
	[1, qr/neither an IPUJob nor/, spit(test_dir() . '/none.yaml', "kind: Pod\n")], [2, qr/manifest is needed/]) {
	my ($status, $words, @args) = @$bad;
	$result = render(@args);
	is($result->{status}, $status, "status $status");
	like($result->{err}, $words, '... and why');
}

SKIP: {
	my ($kubectl) = grep { -x } map { "$_/kubectl" } split /:/, $ENV{PATH};
	skip 'no kubectl on this machine (./setup --tests)', 2 if !$kubectl;
	my $yaml = spit(test_dir() . '/rendered.yaml', render(top_srcdir() . '/doc/examples/launcher.yaml', '-n', 'default')->{out});
	$result = run([$kubectl, '--kubeconfig', "$folder/kubeconfig", qw(create --dry-run=client --validate=false -o name -f), $yaml], seconds => 30);
	is($result->{status}, 0, 'kubectl reads it') or diag($result->{err});
	is(scalar(() = $result->{out} =~ /\n/g), 8, '... all of it');
}

$operator->stop(status => 0);
$sim->stop(status => 0);
done_testing();
