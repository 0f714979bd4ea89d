# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Everything in a Pod template reaches the Pod as the API server shows it, whether the operator has ever
# heard of it or not; and what the operator adds is there beside it.

use v5.36;
use IpuTest qw(spit test_dir);
use Test::More;

my $manifest = <<'END';
apiVersion: graphcore.ai/v1alpha1
kind: IPUJob
metadata:
  name: fidelity
spec:
  jobInstances: 1
  ipusPerJobInstance: "2"
  workers:
    template:
      metadata:
        labels: {app: bert, app.kubernetes.io/component: trainer}
        annotations:
          example.com/unknown: "a\tb"
          k8s.v1.cni.cncf.io/networks: rdma-net
      spec:
        hostIPC: true
        restartPolicy: OnFailure
        terminationGracePeriodSeconds: 7
        activeDeadlineSeconds: 3600
        priority: 0
        nodeSelector:
          test/mine: "yes"
        tolerations:
        - {key: ipu, operator: Exists, effect: NoSchedule}
        affinity:
          nodeAffinity:
            preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 3
              preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}
        hostAliases:
        - {ip: 10.9.8.7, hostnames: [storage]}
        securityContext: {runAsUser: 0, fsGroup: 2000, supplementalGroups: [3000]}
        initContainers:
        - name: fetch
          image: fetcher:1
          command: [fetch, --all]
          volumeMounts: [{name: data, mountPath: /data}]
        containers:
        - name: bert
          image: bert:latest
          imagePullPolicy: Never
          workingDir: /work
          command: ["/bin/bash", "-c"]
          args:
          - |
            set -eu
              indented "$IPUOF_VIPU_API_PARTITION_ID"

            # Ümlaut, 'quotes', \backslash\ and $(NOT_OURS)
            exec run
          env:
          - {name: IPUOF_VIPU_API_TIMEOUT, value: "600"}
          - {name: IPUOF_VIPU_API_HOST, value: wrong.example.com}
          - {name: PLACE, value: "$(IPUOF_VIPU_API_PARTITION_ID)/out"}
          - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
          envFrom:
          - {configMapRef: {name: settings, optional: true}, prefix: S_}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: {add: [IPC_LOCK]}
          resources:
            limits: {cpu: "16", memory: 64Gi}
            requests: {cpu: 500m, memory: 1Gi}
          volumeMounts:
          - {name: shm, mountPath: /dev/shm}
          - {name: data, mountPath: /data, subPath: a/b}
          lifecycle: {preStop: {exec: {command: ["sh", "-c", "sync"]}}}
        - name: sidecar
          image: sidecar:1
          stdin: true
        volumes:
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}
        - {name: data, hostPath: {path: /mnt/data, type: DirectoryOrCreate}}
END

# What must be the same in the Pod as in the manifest. The API server adds fields to objects, and to some
# lists what every Pod has (its account's token, the usual tolerations).
sub is_within ($got, $want, $where) {
	if (ref $want eq 'HASH') {
		return is(ref $got, 'HASH', $where) if ref $got ne 'HASH';
		is_within($got->{$_}, $want->{$_}, "$where.$_") for sort keys %$want;
		return;
	}
	if (ref $want eq 'ARRAY') {
		my $n = ref $got eq 'ARRAY' ? @$got : 'no list';
		$n = @$want if $n =~ /^\d+$/ && $n > @$want && $where =~ /\.(volumes|volumeMounts|tolerations)$/;
		is($n, scalar @$want, "$where: as many");
		is_within($got->[$_], $want->[$_], "$where\[$_]") for 0 .. $#$want;
		return;
	}
	return is_deeply($got, $want, $where);
}

sub ($s) {
	my @nodes = map { $_->{metadata}{name} } $s->start(agents => 2, label => 'ipunode=pod001')->list('nodes');
	my ($mine) = sort @nodes;
	$s->patch('nodes', $mine, { metadata => { labels => { 'test/mine' => 'yes', ipunode => 'pod001' } } });
	$s->create_manifest(spit(test_dir() . '/fidelity.yaml', $manifest));
	my $want = $s->get_job('fidelity')->{spec}{workers}{template};
	my $pod = $s->wait_worker('fidelity', 'Running');

	# What the operator decides, and why the template's word doesn't count.
	my $spec = $want->{spec};
	my $container = $spec->{containers}[0];
	my $environment = delete $container->{env};
	is(delete $spec->{restartPolicy}, 'OnFailure', 'the template was stored as it was written');
	is(delete $container->{securityContext}{allowPrivilegeEscalation}, JSON::PP::false, '… all of it');
	is($pod->{spec}{restartPolicy}, 'Never', 'restartPolicy is the operator\'s');
	like($s->wait_event('fidelity', 'RestartPolicyIgnored')->{message}, qr/OnFailure/, '… and an Event says so');
	my @env = @{ $pod->{spec}{containers}[0]{env} };
	my ($host, $port) = split /:/, ($s->controllers)[0];
	is_deeply([ map { $_->{name} } @env ], [ map({ "IPUOF_VIPU_API_$_" }
		qw(HOST PORT PARTITION_ID GCD_ID)), qw(IPUOF_VIPU_API_TIMEOUT PLACE POD) ],
		'the partition\'s variables come first, so that others can refer to them');
	is($env[0]{value}, $host, '… the template can\'t change where the controller is');
	is($env[4]{value}, '600', '… but for how long to wait for it');
	is_within($env[5], $environment->[2], 'a variable that refers to the partition');
	is_within($env[6], $environment->[3], 'a variable from a field');
	is($pod->{spec}{containers}[1]{env}[2]{name}, 'IPUOF_VIPU_API_PARTITION_ID', 'the second container has them too');
	ok(!(grep { /^IPUOF/ } map { $_->{name} } @{ $pod->{spec}{initContainers}[0]{env} // [] }),
		'an init container hasn\'t');

	is_within($pod->{metadata}{$_}, $want->{metadata}{$_}, $_) for qw(labels annotations);
	is_within($pod->{spec}, $spec, 'spec');
	is_deeply($pod->{spec}{nodeSelector}, { 'test/mine' => 'yes', ipunode => 'pod001' },
		'its own node selector, and that of the controller');
	is($pod->{spec}{nodeName}, $mine, '… which lead to that node');
	is_deeply([ map { $_->{securityContext}{privileged} } @{ $pod->{spec}{containers} } ],
		[ JSON::PP::true, JSON::PP::true ], 'privileged, all of them');
	is($pod->{spec}{hostNetwork}, JSON::PP::true, 'on the host\'s network');
	is($pod->{metadata}{labels}{'graphcore.ai/job'}, 'fidelity', 'the operator\'s labels are there too');
	is($pod->{metadata}{ownerReferences}[0]{uid}, $s->get_job('fidelity')->{metadata}{uid}, 'the job owns it');
	$s->patch('nodes', $mine, { metadata => { labels => { 'test/mine' => undef, ipunode => undef } } });
};
