# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A role node that isn't heard of any more: its Node's condition turns Unknown by the operator's hand, and nothing else of the Node
# changes; when it's back it overwrites. The time for it is short here: a heartbeat comes every five minutes.

use v5.36;
use Test::More;

sub condition_of ($s, $node) {
	return (grep { $_->{type} eq 'IPUFabricReady' } @{ $s->get('nodes', $node)->{status}{conditions} // [] })[0] // { status => '', reason => '' };
}

sub start_role ($s, $node) {
	my %set = ('roles' => 'node', 'node.name' => $node, 'node.rdma' => 'none', 'node.labels' => 'false', 'node.taint' => '', 'node.calmSeconds' => 0,
		'controllers' => ($s->controllers)[0], 'health.listen' => '127.0.0.1:0', 'metrics.listen' => '');
	return $s->back->launch('ipu-operator', args => [ '--kubeconfig', $s->back->kubeconfig, map { ('--set', "$_=$set{$_}") } sort keys %set ]);
}

sub ($s) {
	$s->start(agents => 1, set => ['node.silentSeconds=3']);
	my ($node) = map { $_->{metadata}{name} } $s->list('nodes');
	my $count = sub { $s->metrics->{ipu_operator_fabric_silent_nodes} // -1 };
	my $role = start_role($s, $node);
	$s->wait_for('the role to publish', sub { condition_of($s, $node)->{status} eq 'True' });
	$role->stop(status => 0);
	my $before = $s->get('nodes', $node);
	my $left = condition_of($s, $node);
	my $now = $s->wait_for('the condition to be Unknown', sub {
		my $is = condition_of($s, $node);
		return $is->{status} eq 'Unknown' ? $is : undef;
	});
	is($now->{reason}, 'NodeRoleSilent', 'a role that is gone: Unknown');
	like($now->{message}, qr/hasn't been heard of for \d+ s/, "... says: $now->{message}");
	is($now->{lastHeartbeatTime}, $left->{lastHeartbeatTime}, '... its heartbeat stays as it was');
	my $after = $s->get('nodes', $node);
	is_deeply([ map { @{$_}{qw(labels annotations)} } $after->{metadata} ], [ map { @{$_}{qw(labels annotations)} } $before->{metadata} ], '... so do labels and annotations');
	is_deeply($after->{spec}, $before->{spec}, '... and taints');
	is_deeply([ sort map { $_->{type} } @{ $after->{status}{conditions} } ], [ sort map { $_->{type} } @{ $before->{status}{conditions} } ], "... and others' conditions");
	$s->wait_for('the metric to count it', sub { $count->() == 1 });

	$role = start_role($s, $node);
	$s->wait_for('the role to overwrite it', sub { condition_of($s, $node)->{reason} eq 'FabricReady' });
	$s->wait_for('the metric to know', sub { $count->() == 0 });
	$role->stop(status => 0);
	pass('when it is back, its own word counts');
	$s->must('PATCH', $s->path('nodes', undef, $node, 'status'), json => { status => { conditions => [ { type => 'IPUFabricReady', '$patch' => 'delete' } ] } },
		headers => { 'content-type' => 'application/strategic-merge-patch+json' });
	return;
};
