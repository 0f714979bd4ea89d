# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because an access review that fails refuses, and what is made here is made once
#
# RDMA without the host's network: jobs' Pods and annotated ones get the network, the device and IPC_LOCK by the
# operator's configuration, what templates say for themselves stays, and nothing is privileged. What Pod Security
# says of it is told when a job is submitted.

use v5.36;
use IpuTree qw(top_srcdir);
use Test::More;

my $networks = 'k8s.v1.cni.cncf.io/networks';
my $device = 'rdma/rdma_shared_device_a';
my %set = ('worker.hostNetwork' => 'false', 'worker.rdmaNetwork' => 'rdma-net', 'worker.rdmaResource' => $device);

sub network_of ($pod) { return $pod->{metadata}{annotations}{$networks} }

sub is_plain ($pod, $what) {
	my @all = (@{ $pod->{spec}{containers} }, @{ $pod->{spec}{initContainers} // [] });
	ok(!$pod->{spec}{hostNetwork} && !grep({ $_->{securityContext}{privileged} } @all),
		"$what has neither its host's network nor its privileges");
	return;
}

# A container has the device and the capability, once.
sub has_rdma ($container, $what, $amount = 1) {
	is_deeply([ map { $container->{resources}{$_}{$device} } qw(limits requests) ], [ $amount, $amount ], "$what: the device");
	is_deeply([ grep { $_ eq 'IPC_LOCK' } @{ $container->{securityContext}{capabilities}{add} // [] } ], ['IPC_LOCK'],
		"$what: the capability, once");
	return;
}

sub has_none ($container, $what) {
	ok(!$container->{resources}{limits}{$device} && !$container->{securityContext}{capabilities}{add}, "$what asks for nothing");
	return;
}

sub try_baseline ($s, $kind, $object) { return $s->try_create($kind, $object, ns => 'rdma-baseline') }

sub check_jobs ($s) {
	$s->create_job('plain', ipus => 2);
	$s->wait_job('plain', 'Running');
	my $pod = $s->get_worker('plain');
	is_plain($pod, 'a worker');
	is(network_of($pod), 'rdma-net', 'a worker in default: the network, by its name alone');
	has_rdma($pod->{spec}{containers}[0], 'a worker');
	$s->delete_job('plain');

	$s->create_manifest(top_srcdir() . '/doc/examples/mnist-training.yaml');
	$s->wait_job('mnist-training', 'Running');
	$pod = $s->get_worker('mnist-training');
	is(network_of($pod), 'rdma-net', 'a template that names the network itself: it\'s there once');
	has_rdma($pod->{spec}{containers}[0], 'a template that asks itself');
	is_plain($pod, 'its Pod');
	$s->delete_job('mnist-training');
	return;
}

# A launcher's Pod is made when its workers are Ready.
sub check_launcher ($s) {
	$s->create('ipujobs', $s->job('led', ipus => 2, spec => { launcher => { command => [ 'sh', '-c', 'sleep 600' ] } },
		template => { metadata => { annotations => { $networks => 'storage@st0' } } }));
	my $launcher = $s->wait_for('the launcher', sub { $s->get('pods', 'led-launcher') }, seconds => 60);
	my $worker = $s->get_worker('led');
	is(network_of($_), 'storage@st0,rdma-net', "$_->{metadata}{name}: beside the template's network") for $worker, $launcher;
	has_rdma($worker->{spec}{containers}[0], 'the worker');
	has_none($_, "$_->{name} of the worker") for @{ $worker->{spec}{initContainers} };
	has_none($_, "$_->{name} of the launcher") for @{ $launcher->{spec}{containers} }, @{ $launcher->{spec}{initContainers} };
	is_plain($launcher, 'the launcher');
	$s->delete_job('led');
	return;
}

sub check_annotated ($s) {
	my $pod = $s->pod('asks', ipus => 2, annotations => { 'graphcore.ai/containers' => 'main' });
	push @{ $pod->{spec}{containers} }, { name => 'side', image => 'localhost/busybox:test' };
	my $answer = $s->try_create('pods', $pod, ns => 'rdma-free');
	is($answer->{status}, 201, 'an annotated Pod') or diag($answer->{content});
	my $made = $answer->{json};
	is(network_of($made), 'default/rdma-net', '… in another namespace: the network of default');
	my %container = map { $_->{name} => $_ } @{ $made->{spec}{containers} };
	has_rdma($container{main}, '… the container that uses IPUs');
	has_none($container{side}, '… the other one');
	is_plain($made, '… and it');
	return;
}

sub check_security ($s) {
	my $answer = try_baseline($s, 'ipujobs', $s->job('secured'));
	is($answer->{status}, 403, 'a job under the level baseline is refused') or diag($answer->{content});
	like($answer->{json}{message}, qr/can't run in namespace rdma-baseline: its Pod Security level is baseline, and the operator is configured to set capabilities\.add in their Pods \(worker\.ipcLock\)/,
		'… and told by which key');
	$answer = try_baseline($s, 'pods', $s->pod('secured', ipus => 2));
	is($answer->{status}, 403, 'an annotated Pod likewise, by the API server');
	like($answer->{json}{message}, qr/violates PodSecurity "baseline:latest": non-default capabilities \(container "main" must not include "IPC_LOCK"/,
		'… in its words');
	return;
}

my %level = ('rdma-free' => 'privileged', 'rdma-baseline' => 'baseline');

sub ($s) {
	my %option = (webhook => 1, set => [ map { "$_=$set{$_}" } sort keys %set ]);
	$s->start(agents => 8, %option);
	for my $ns (sort keys %level) {
		$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns,
			labels => { 'pod-security.kubernetes.io/enforce' => $level{$ns} } } });
	}
	check_jobs($s);
	check_launcher($s);
	check_annotated($s);
	check_security($s);

	$s->operator->stop;
	push @{ $option{set} }, 'worker.ipcLock=false';
	$s->start_operator(%option);
	$s->wait_webhook;
	for my $try ([ 'a job', 'ipujobs', $s->job('unlocked') ], [ 'an annotated Pod', 'pods', $s->pod('unlocked', ipus => 2) ]) {
		my ($what, $kind, $object) = @$try;
		my $answer = try_baseline($s, $kind, $object);
		is($answer->{status}, 201, "with worker.ipcLock=false $what is taken under baseline") or diag($answer->{content});
	}
	$s->delete('namespaces', $_) for sort keys %level;
};
