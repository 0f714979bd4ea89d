# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A V-IPU controller none of whose nodes is on its fabric gets no new partitions: who waits has no IPUs and is told which nodes to look
# at, who has some keeps them, and one node that may be ready is enough. The conditions are written in the role node's place.

use v5.36;
use POSIX qw(strftime);
use Scenario::Annotated qw(wait_waiting end_of_all);
use Test::More;
use Time::HiRes qw(time);

my $label = 'ready-nodes';

# To a node's status, as the role node writes it: lists are merged by their keys.
sub patch_status ($s, $node, $condition) {
	return $s->must('PATCH', $s->path('nodes', undef, $node, 'status'), json => { status => { conditions => [ $condition ] } },
		headers => { 'content-type' => 'application/strategic-merge-patch+json' });
}

# age_s: of the heartbeat.
sub say_that ($s, $node, $status, $age_s = 0) {
	my $then = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time - $age_s));
	return patch_status($s, $node, { type => 'IPUFabricReady', status => $status, reason => 'Scenario', message => 'as the scenario wants it',
		lastHeartbeatTime => $then, lastTransitionTime => $then });
}

sub set_label ($s, $node, $value) { return $s->patch('nodes', $node, { metadata => { labels => { $label => $value } } }) }

# Until the operator knows it.
sub wait_closed ($s, $closed) {
	my $name = 'ipu_operator_controller_no_ready_node{controller="' . ($s->controllers)[0] . '"}';
	return $s->wait_for('the operator to have seen it', sub { ($s->metrics->{$name} // -1) == $closed });
}

# A job that waits because of its nodes, with a Warning and without IPUs.
sub waits_for_a_node ($s, $name, $partitions) {
	$s->create_job($name);
	my $job = $s->wait_message($name, qr/^no node of V-IPU controller \S+ is ready .*kubectl describe node -l $label=a"/);
	is($job->{status}{launcherStatus}, 'Pending', 'a job waits, and is told which nodes to look at');
	is($s->wait_event($name, 'NoReadyNode')->{type}, 'Warning', '... by a Warning');
	$s->settle;
	is(scalar $s->partitions, $partitions, '... without IPUs');
	ok(!$s->get_worker($name), '... and without a Pod');
	return;
}

sub ($s) {
	$s->start(agents => 4, label => "$label=a", sim => $s->is_real ? [] : [qw(--nodes 2)]);
	my ($one, $two) = map { $_->{metadata}{name} } grep { !grep { ($_->{effect} // '') eq 'NoSchedule' } @{ $_->{spec}{taints} // [] } } $s->list('nodes');
	ok($two, 'two nodes take Pods');
	set_label($s, $_, 'a') for $one, $two;
	say_that($s, $_, 'False') for $one, $two;
	wait_closed($s, 1);

	waits_for_a_node($s, 'first', 0);
	Scenario::Annotated::create_pod($s, 'annotated');
	wait_waiting($s, 'annotated', qr/^NoReadyNode: no node of V-IPU controller/);
	is((grep { $_->{reason} eq 'NoReadyNode' } values %{ $s->tracker_waits })[0]{owner}{namespace}, 'default', 'the tracker has the reason');
	is($s->query(4)->{numOfPartitions}, 0, 'nothing is offered meanwhile');

	my $from = time;
	say_that($s, $one, 'True');
	$s->wait_for('a partition', sub { scalar $s->partitions });
	my $took = time - $from;
	cmp_ok($took, '<', 15, sprintf 'one of two nodes is ready: it goes on, after %.0f ms', 1000 * $took);
	$s->wait_job('first', 'Running');
	$s->wait_pod('annotated', 'Running');
	$s->create_job('second');
	$s->wait_job('second', 'Running');
	pass('a node that is False beside one that is True keeps nobody waiting');

	say_that($s, $one, 'False');
	wait_closed($s, 1);
	waits_for_a_node($s, 'third', 3);
	is($s->get_job('first')->{status}{launcherStatus}, 'Running', 'who has IPUs keeps them');
	say_that($s, $two, 'Unknown');
	$s->wait_job('third', 'Running');
	pass('nobody waits for a node of which nothing is known');
	$s->end_pod($_) for qw(first second third);
	$s->wait_job($_, 'Completed') for qw(first second third);

	say_that($s, $_, 'False') for $one, $two;
	wait_closed($s, 1);
	say_that($s, $one, 'False', 1200);
	$s->create_job('fourth');
	$s->wait_job('fourth', 'Running');
	pass('... nor for one of which nothing has been heard for more than a quarter of an hour');
	$s->end_pod('fourth');
	$s->wait_job('fourth', 'Completed');

	say_that($s, $one, 'False');
	wait_closed($s, 1);
	set_label($s, $_, undef) for $one, $two;
	wait_closed($s, 0);
	pass('a label that no node has keeps nobody waiting here');
	$s->finish_pod('annotated');
	end_of_all($s);
	patch_status($s, $_, { type => 'IPUFabricReady', '$patch' => 'delete' }) for $one, $two;
	return;
};
