#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many megabytes of Pods a second the operator reads, decodes and keeps of a watch, by its own client and store, without TLS and
# with it, on one core; the server is a process of its own. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/watch.pl [--megabytes=150] [--runs=5] [--json=FILE]

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(figure finish job note options tool);
use IpuTest qw(json_encode spit test_dir);
use Test::More;

my $opt = options(300, megabytes => 150, runs => 5);

# A worker as the operator makes it, scheduled and Running, with what kubelet and API server add; @N@ and @V@ are its number and version.
my $at = '2026-11-21T10:00:00Z';
my $template = job('x', workers => 8)->{spec}{workers}{template};
my $pod = { apiVersion => 'v1', kind => 'Pod',
	metadata => { name => 'training-@N@-worker-0', namespace => 'default', uid => '705ab4f5-6393-11e8-b7cc-@N@', resourceVersion => '@V@', creationTimestamp => $at,
		labels => { app => 'bench', 'graphcore.ai/job' => 'training-@N@', 'graphcore.ai/instance' => '0', 'graphcore.ai/role' => 'worker',
			'app.kubernetes.io/name' => 'ipujob', 'app.kubernetes.io/managed-by' => 'ipu-operator' },
		annotations => { 'graphcore.ai/partition' => 'training-@N@-0123456789', 'graphcore.ai/template' => '0123456789abcdef' },
		ownerReferences => [ { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', name => 'training-@N@', uid => '014fbff9-a07c-@N@', controller => JSON::PP::true,
			blockOwnerDeletion => JSON::PP::true } ],
		managedFields => [ map { { manager => $_, operation => 'Update', apiVersion => 'v1', time => $at, fieldsType => 'FieldsV1',
			fieldsV1 => { 'f:spec' => { 'f:containers' => { 'k:{"name":"main"}' => { map { ("f:$_" => {}) } qw(command env image name resources volumeMounts) } } },
				'f:status' => { map { ("f:$_" => {}) } qw(conditions containerStatuses hostIP phase podIP podIPs startTime) } } } } qw(ipu-operator kubelet) ] },
	spec => { %{ $template->{spec} }, nodeName => 'node-1', restartPolicy => 'Never', serviceAccountName => 'default',
		volumes => [ { name => 'kube-api-access-x2x4z', projected => { defaultMode => 420, sources => [ { serviceAccountToken => { expirationSeconds => 3607, path => 'token' } },
			{ configMap => { name => 'kube-root-ca.crt', items => [ { key => 'ca.crt', path => 'ca.crt' } ] } } ] } } ],
		tolerations => [ map { { key => "node.kubernetes.io/$_", operator => 'Exists', effect => 'NoExecute', tolerationSeconds => 300 } } qw(not-ready unreachable) ] },
	status => { phase => 'Running', podIP => '10.1.2.3', podIPs => [ { ip => '10.1.2.3' } ], hostIP => '10.1.2.1', startTime => $at, qosClass => 'Guaranteed',
		conditions => [ map { { type => $_, status => 'True', lastProbeTime => undef, lastTransitionTime => $at } } qw(PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled) ],
		containerStatuses => [ { name => 'main', image => 'registry.example/ml/mnist:3', imageID => 'registry.example/ml/mnist@sha256:' . '0' x 64, containerID => 'containerd://' . 'a' x 64,
			ready => JSON::PP::true, started => JSON::PP::true, restartCount => 0, state => { running => { startedAt => $at } }, lastState => {} } ] } };
my $file = spit(test_dir() . '/pod.json', json_encode($pod) =~ s/mnist\@sha/mnist:sha/r . "\n");

for my $case ([ 'without TLS', '', bar => '>= 300' ], [ 'with TLS', 'tls' ]) {
	my ($words, $tls, @bar) = @$case;
	my (@cpu, @wall, $said);
	for (1 .. $opt->{runs}) {
		$said = tool('watch', $file, $opt->{megabytes}, $tls || ());
		push @cpu, $said->{bytes} / 1e6 / $said->{cpu};
		push @wall, $said->{bytes} / 1e6 / $said->{seconds};
	}
	note(sprintf '%d events of %d bytes, %d Pods, %.1f MB of memory at most', $said->{events}, $said->{bytes} / $said->{events}, $said->{pods}, $said->{peak_kb} / 1000) if !$tls;
	figure("watch decoded and stored, $words, for a second of its core", 'MB', \@cpu, @bar, id => 'watch' . ($tls && "-$tls"));
	figure('… by the clock', 'MB/s', \@wall, id => 'watch-wall' . ($tls && "-$tls"));
}
finish();
