# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A head node with the role node, which sees an RDMA device that isn't there (RdmaStandin): what it tells the cluster of itself; a port
# that goes down under a running job, new work that stays away, and the port that comes back; the role gone and back;
# and a head node that is one no more.

use v5.36;
use File::Path qw(make_path);
use IpuTest qw(run spit test_dir);
use IpuTree qw(file_text);
use List::Util qw(uniq);
use RdmaStandin;
use Test::More;
use Time::HiRes qw(time);

my $taint = 'graphcore.ai/fabric-not-ready:NoSchedule';

# The node's, and those of others are left alone.
sub condition ($s, $node) {
	return (grep { $_->{type} eq 'IPUFabricReady' } @{ $s->get('nodes', $node)->{status}{conditions} })[0] // { status => '', reason => '' };
}

sub taints ($s, $node) { return join ' ', map { "$_->{key}:$_->{effect}" } @{ $s->get('nodes', $node)->{spec}{taints} // [] } }
sub is_well ($s, $node) { return condition($s, $node)->{status} eq 'True' && taints($s, $node) !~ /fabric/ }
sub is_unwell ($s, $node) { return condition($s, $node)->{status} eq 'False' && taints($s, $node) =~ /\Q$taint\E/ }

# Of what the role tells, about whom.
sub told ($s, $reason) {
	return join ' ', uniq sort map { "$_->{involvedObject}{kind}/$_->{involvedObject}{name}" } grep { $_->{reason} eq $reason } $s->list('events');
}

sub port_is ($s, $machine, $state) {
	my $link = $s->back->node_link;
	return $machine->machine("device mlx5_0\nport 1 state=$state layer=ethernet width=2 speed=32\ngid 0 fe80::1 type=v2 netdev=$link\n");
}

sub goes ($s, $machine, $state) {
	port_is($s, $machine, $state);
	return $machine->event('mlx5_0', $state eq 'down' ? 'port_err' : 'port_active', 1);
}

# Its Pods go there or nowhere.
sub create_there ($s, $name, $node) {
	return $s->create_job($name, ipus => 2, template => { spec => { nodeSelector => { 'kubernetes.io/hostname' => $node } } });
}

sub wait_unscheduled ($s, $name) {
	return $s->wait_for("the scheduler to say why $name waits", sub {
		my $pod = $s->get_worker($name) // return undef;
		return grep { $_->{type} eq 'PodScheduled' && ($_->{message} // '') =~ /untolerated taint/ } @{ $pod->{status}{conditions} // [] };
	});
}

sub check_first ($s, $node, $other) {
	$s->wait_for('the condition', sub { is_well($s, $node) });
	is(condition($s, $node)->{reason}, 'FabricReady', 'all is well: the reason');
	like(condition($s, $node)->{message}, qr{^V-IPU controller \S+ is (?:on this machine|reached by \w+), RDMA port mlx5_0/1 is active$}, 'the message');
	my $labels = $s->get('nodes', $node)->{metadata}{labels};
	is($labels->{'fabric-ctrl'}, 'one', "the controller's label");
	is($labels->{'graphcore.ai/rdma'}, 'true', 'the label for RDMA');
	is(taints($s, $node), '', 'no taint');
	is(condition($s, $other)->{status}, '', 'another node says nothing');
	return;
}

# Until the node says so, in seconds.
sub down_s ($s, $machine, $node) {
	my $took = -time;
	goes($s, $machine, 'down');
	$s->wait_for('the condition to be False', sub { condition($s, $node)->{status} eq 'False' }, pause => 0.01);
	return $took + time;
}

sub check_down ($s, $machine, $node, $other) {
	my $took = down_s($s, $machine, $node);
	# A machine that others keep busy gets two more chances.
	for (1 .. 2) {
		last if $took < 1;
		goes($s, $machine, 'active');
		$s->wait_for('the condition to be True', sub { is_well($s, $node) });
		$took = down_s($s, $machine, $node);
	}
	cmp_ok($took, '<', 1, sprintf 'a port is down: False after %.0f ms', 1000 * $took);
	is(condition($s, $node)->{reason}, 'RDMAPortDown', 'the reason');
	$s->wait_for('the taint', sub { is_unwell($s, $node) });
	my $about = "IPUJob/there Node/$node Pod/there-worker-0";
	$s->wait_for('the Events', sub { told($s, 'IPUFabricNotReady') eq $about });
	pass('the node, its Pod and the job are told');
	is($s->get('nodes', $node)->{metadata}{labels}{'fabric-ctrl'}, 'one', 'the labels stay');
	is(taints($s, $other), '', 'another node has no taint');
	create_there($s, 'later', $node);
	wait_unscheduled($s, 'later');
	is($s->get_worker('there')->{status}{phase}, 'Running', 'a new job stays away, the one that was there goes on');
	return;
}

sub check_back ($s, $machine, $node) {
	goes($s, $machine, 'active');
	$s->wait_for('the condition to be True', sub { is_well($s, $node) });
	$s->wait_for('the Events', sub { told($s, 'IPUFabricReady') =~ m{IPUJob/there .*Node/\Q$node\E .*Pod/there-worker-0} });
	is($s->wait_job('later', 'Running', seconds => 60) && $s->get_worker('later')->{spec}{nodeName}, $node, 'the port is back, and new work comes');
	return;
}

# Ended, killed, and begun anew with the port another way than before.
sub check_role ($s, $machine, $node, $role, $begin) {
	goes($s, $machine, 'down');
	$s->wait_for('the port to be down again', sub { is_unwell($s, $node) });
	$s->end_program($role);
	ok(is_unwell($s, $node), 'the role ends: what it has said stays');
	port_is($s, $machine, 'active');
	$role = $begin->();
	$s->wait_for('what has changed meanwhile', sub { is_well($s, $node) });
	$s->end_program($role, 'KILL');
	port_is($s, $machine, 'down');
	$role = $begin->();
	$s->wait_for('what has changed since it was killed', sub { is_unwell($s, $node) });
	pass('what has changed while there was none is told by the next one');
	$s->end_program($role);
	return;
}

# The guide's command, as an administrator types it, who knows that the role has just gone.
sub check_no_more ($s, $node) {
	my ($command) = file_text('doc/admin-guide.md') =~ /^(ipuctl node clean head-1)\b/m;
	my %env = $s->back->shell_env;
	$env{PATH} = IpuTest::program('ipuctl') =~ s{/[^/]+$}{}r . ':' . ($env{PATH} // $ENV{PATH});
	my $done = run([ 'sh', '-ec', $command =~ s/head-1/$node/r . ' --force' ], env => \%env, seconds => 60);
	is($done->{status}, 0, "no head node any more: the guide's command ends well") or diag($done->{err});
	my $now = $s->get('nodes', $node);
	is(condition($s, $node)->{status}, '', '… no condition is left');
	ok((grep { $_->{type} eq 'Ready' } @{ $now->{status}{conditions} }), "… but the kubelet's");
	is(taints($s, $node), '', '… no taint');
	is_deeply([ grep { /fabric-ctrl|graphcore.ai\/(?:rdma|node-published)/ } map { keys %$_ } @{ $now->{metadata} }{qw(labels annotations)} ], [],
		'… no label and no note');
	return;
}

sub ($s) {
	$s->start(agents => 8);
	my ($node, $other) = map { $_->{metadata}{name} } $s->list('nodes');
	my $dir = test_dir() . '/head-node';
	my $machine = RdmaStandin->new($dir);
	# Another machine's limits of memory than this one's.
	make_path("$dir/host/proc/1");
	spit("$dir/host/proc/1/$_->[0]", "$_->[1]\n") for [ comm => 'containerd' ], [ cgroup => '0::/system.slice/containerd.service' ],
		[ limits => 'Max locked memory         unlimited            unlimited            bytes' ];
	my $begin = sub {
		return $s->start_node_role($node, env => { $machine->env }, set => [ 'node.calmSeconds=1', "node.root=$dir/host", 'metrics.listen=', 'controllers=' . ($s->controllers)[0] . ':fabric-ctrl=one' ]);
	};
	port_is($s, $machine, 'active');
	my $role = $begin->();
	check_first($s, $node, $other);
	create_there($s, 'there', $node);
	$s->wait_job('there', 'Running', seconds => 60);
	check_down($s, $machine, $node, $other);
	check_back($s, $machine, $node);
	check_role($s, $machine, $node, $role, $begin);
	check_no_more($s, $node);
};
