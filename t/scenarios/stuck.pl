# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because times are looked at
#
# A partition that can't be removed: the job that is deleted waits, says so, and goes on by itself when it can.
# Who can't wait says so by an annotation; the partition is removed later.

use v5.36;
use Test::More;

sub refuse ($s) { return $s->tell_vipu('faults', { kind => 'status', method => 'RemovePartition', status => 'INTERNAL', message => 'no link', count => 0 }) }
sub allow ($s) { return $s->tell_sim('/sim/vipu/0/faults', method => 'DELETE') }

sub wait_delayed ($s, $name) {
	like($s->wait_event($name, 'ReleaseDelayed')->{message}, qr/no link/, "$name: an Event says what the controller says");
	return $s->wait_for('its condition', sub {
		my $job = $s->get_job($name);
		return Scenario::is_true($job, 'Stalled') && $job->{status}{lastMessage} =~ /no link/ ? $job : undef;
	});
}

sub ($s) {
	$s->start(agents => 2, set => ['jobs.restartBackoffSeconds=1']);
	$s->create_job($_, ipus => 2) for qw(patient hurried ended);
	$s->wait_job($_, 'Running') for qw(patient hurried ended);
	refuse($s);
	$s->delete_job($_) for qw(patient hurried);
	for my $name (qw(patient hurried)) {
		my $job = wait_delayed($s, $name);
		ok($job->{metadata}{deletionTimestamp} && @{ $job->{metadata}{finalizers} }, '… it waits');
		ok(!$s->get_worker($name), '… its Pods are gone');
	}
	# One that has ended keeps its last word.
	$s->end_pod('ended');
	my $ended = $s->wait_for('the one that has ended to be Stalled', sub {
		my $job = $s->get_job('ended');
		return $job->{status}{launcherStatus} eq 'Completed' && Scenario::is_true($job, 'Stalled') ? $job : undef;
	});
	is($ended->{status}{lastMessage}, 'All instances done', 'one that has ended says how it ended');
	like(Scenario::condition_of($ended, 'Stalled')->{message}, qr/no link/, '… and by its condition what is wrong since');
	is(scalar(my @left = $s->partitions), 3, 'all partitions are there');

	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;
	$s->patch('ipujobs', 'hurried', { metadata => { annotations => { 'graphcore.ai/force-release' => 'true' } } });
	$s->wait_job_gone('hurried');
	is(scalar(@left = $s->partitions), 3, 'graphcore.ai/force-release: the job goes before its partition');
	ok((grep { /^hurried-/ } keys %{ $s->tracker }), '… which isn\'t forgotten');
	ok($s->get_job('patient'), 'the other one waits');
	allow($s);
	$s->wait_job_gone('patient', seconds => 60);
	$s->wait_for('all partitions to go', sub { !$s->partitions && !%{ $s->tracker } }, seconds => 60);
	pass('when the controller can again, all are removed');
	$s->wait_for('the condition to be taken back', sub { !Scenario::is_true($s->get_job('ended'), 'Stalled') });
	ok(Scenario::is_true($s->get_job('ended'), 'Succeeded'), '… and the one that has ended is as it should be');
};
