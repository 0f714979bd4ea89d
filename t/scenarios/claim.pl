# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Somebody empties the tracker while no operator runs. Jobs that have ended say themselves that they have IPUs, and their
# Pods which: one that is deleted meanwhile gives them back, another keeps them until it's deleted. The controller doesn't
# answer before both have been looked at.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 2, set => ['vipu.callTimeoutSeconds=1']);
	my @names = qw(kept deleted);
	$s->create_job($_, ipus => 4, runs => 0.1, spec => { partition => { release => 'OnDeletion' } }) for @names;
	$s->wait_job($_, 'Completed') for @names;
	my %of = map { $_ => $s->get_worker($_)->{metadata}{annotations}{'graphcore.ai/partition'} } @names;
	$s->wait_for('both to say so', sub { 2 == grep { $s->get_job($_)->{status}{iPUPartitionCreated} } @names });
	is(scalar $s->partitions, 2, 'both have their IPUs');

	$s->operator->crash;
	my ($tracker, $ns) = $s->tracker_place;
	$s->patch('configmaps', $tracker, { data => undef }, ns => $ns);
	$s->must('DELETE', $s->path('ipujobs', 'default', 'deleted'), json => {});
	is_deeply($s->tracker, {}, 'nobody knows of them');
	$s->tell_vipu('faults', { kind => 'hang', count => 0 });
	$s->restart_operator;
	$s->wait_message('deleted', qr/hasn't answered yet/);
	is($s->get_job('deleted')->{status}{iPUPartitionCreated}, JSON::PP::true, 'who is deleted waits to hear of its IPUs');
	$s->tell_sim('/sim/vipu/0/faults', method => 'DELETE');
	$s->wait_ready;

	$s->wait_job_gone('deleted');
	$s->wait_for('the tracker to have the other one', sub { join(' ', sort keys %{ $s->tracker }) eq $of{kept} });
	is(join(' ', map { $_->{id} } $s->partitions), $of{kept}, 'which is still there, and the deleted one\'s is gone');
	$s->delete_job('kept');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions });
	$s->wait_for('its entry to go', sub { !keys %{ $s->tracker } });
};
