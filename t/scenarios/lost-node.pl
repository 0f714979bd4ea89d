# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes, scale)
#
# A node that doesn't answer: its Pods can't be ended, only forgotten. First their IPUs are taken from them (the
# partition is removed), then the Pods without their node's word; the job goes on, or goes.

use v5.36;
use Test::More;

# While the Pod is there, is its partition? Until the Pod is gone.
sub wait_forced ($s, $name, $pod) {
	my $id = $pod->{metadata}{annotations}{'graphcore.ai/partition'};
	my $early = 0;
	$s->wait_for("the Pod of $name to be removed", sub {
		my $now = $s->get_worker($name);
		my $gone = !$now || $now->{metadata}{uid} ne $pod->{metadata}{uid};
		$early = 1 if $gone && grep { $_->{id} eq $id } $s->partitions;
		return $gone;
	}, seconds => 40);
	ok(!$early, "$name: its partition is removed before its Pod");
	return;
}

sub ($s) {
	$s->start(agents => 2, set => [qw(jobs.restartBackoffSeconds=1 jobs.unreachableNodeSeconds=2)]);
	my %short = (template => { spec => { terminationGracePeriodSeconds => 1 } });
	$s->create_job('lost-goes-on', %short, spec => { restartPolicy => { type => 'OnFailure' } });
	$s->create_job('lost-fails', %short);
	$s->wait_job($_, 'Running') for qw(lost-goes-on lost-fails);
	my %pod = map { $_ => $s->get_worker("lost-$_") } qw(goes-on fails);
	my %nodes = map { $_->{spec}{nodeName} => 1 } values %pod;
	$s->lose_node($_) for keys %nodes;

	# What the cluster does, after minutes.
	$s->delete('pods', "lost-$_-worker-0") for keys %pod;
	like($s->wait_message('lost-goes-on', qr/in deletion, and its node doesn't answer/)->{status}{launcherStatus}, qr/^Restarting$/,
		'a node that doesn\'t answer counts as a failure, in words');
	wait_forced($s, "lost-$_", $pod{$_}) for keys %pod;
	like($s->wait_job('lost-fails', 'Failed')->{status}{lastMessage}, qr/its node doesn't answer/, 'without restarts, it\'s the end');
	$s->return_node($_) for keys %nodes;
	my $next = $s->wait_pod('lost-goes-on-worker-0', 'Running', after => $pod{'goes-on'}, seconds => 60);
	is($s->wait_job('lost-goes-on', 'Running')->{status}{restartCount}, 1, 'the other one runs again');
	isnt($next->{metadata}{annotations}{'graphcore.ai/partition'}, $pod{'goes-on'}{metadata}{annotations}{'graphcore.ai/partition'},
		'… on another partition');

	# Deleted while its node is away.
	$s->lose_node($next->{spec}{nodeName});
	$s->delete_job('lost-goes-on');
	wait_forced($s, 'lost-goes-on', $next);
	$s->wait_job_gone('lost-goes-on');
	pass('a job on a lost node can be deleted');
	$s->return_node($next->{spec}{nodeName});
};
