# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What people do by hand: delete a job's Pod, hold a name that a job needs, delete the tracker, change
# what isn't theirs. Nothing is lost, and nothing of theirs is touched.

use v5.36;
use Test::More;

sub foreign_pod ($name, %labels) {
	return { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, labels => \%labels },
		spec => { containers => [ { name => 'mine', image => 'x' } ],
			terminationGracePeriodSeconds => 0 } };
}

sub ($s) {
	$s->start(agents => 2);
	my ($tracker, $ns) = $s->tracker_place;

	# A Pod that is deleted while it runs: the job has failed, and its IPUs come back.
	$s->create_job('robbed');
	$s->wait_job('robbed', 'Running');
	$s->delete('pods', 'robbed-worker-0');
	my $job = $s->wait_job('robbed', 'Failed');
	like($job->{status}{lastMessage}, qr/deleted/, 'a Pod deleted by hand fails its job, in words');
	$s->wait_for('its IPUs to come back', sub { $s->vipu->{ipus}{free} == 8 });
	ok(!$s->get_worker('robbed'), '… and isn\'t made again');

	# A name that is taken: told, untouched, and the job goes on when it's free.
	for my $case ([ 'conflict', 'a Pod of a person\'s own' ],
		[ 'labelled', 'a Pod with the job\'s label', 'graphcore.ai/job' => 'labelled' ])
	{
		my ($name, $what, %labels) = @$case;
		my $mine = $s->create('pods', foreign_pod("$name-worker-0", %labels));
		$s->create_job($name);
		my $event = $s->wait_event($name, 'NameConflict');
		like($event->{message}, qr/\Q$name\E-worker-0/, "$what holds the name: the Event says which");
		is($event->{type}, 'Warning', '… it\'s a Warning');
		$s->wait_message($name, qr/\Q$name\E-worker-0/);
		my $now = $s->get_worker($name);
		is($now->{metadata}{uid}, $mine->{metadata}{uid}, '… that Pod is still there');
		ok(!$now->{metadata}{deletionTimestamp} && !$now->{metadata}{ownerReferences}
			&& !$now->{metadata}{annotations}{'graphcore.ai/partition'}, '… and untouched');
		is($s->get_job($name)->{status}{launcherStatus}, 'Pending', '… and the job waits');
		$s->delete('pods', "$name-worker-0");
		$s->wait_job($name, 'Running', seconds => 60);
		pass('it runs when the name is free');
		$s->end_pod($name);
		$s->wait_job($name, 'Completed');
	}

	# The tracker is deleted, and spoilt: it's written again from what is known.
	$s->create_job('watched');
	$s->wait_job('watched', 'Running');
	$s->wait_for('the earlier partitions to go', sub { 1 == $s->partitions });
	my ($partition) = $s->partitions;
	$s->delete('configmaps', $tracker, ns => $ns);
	$s->wait_for('the tracker to be written again', sub { $s->tracker->{ $partition->{id} } });
	is_deeply([ map { $_->{id} } $s->partitions ], [ $partition->{id} ], 'the partition isn\'t touched');
	$s->patch('configmaps', $tracker, { data => { $partition->{id} => undef } }, ns => $ns);
	$s->wait_for('the entry to be written again', sub { $s->tracker->{ $partition->{id} } });
	$s->patch('configmaps', $tracker, { data => { stray => 'no JSON' } }, ns => $ns);
	$s->create_job('after', runs => 0);
	$s->wait_job('after', 'Completed');
	pass('an entry that nobody can read doesn\'t stop the others');
	$s->patch('configmaps', $tracker, { data => { stray => undef } }, ns => $ns);

	# While the operator is away, too.
	$s->operator->crash;
	$s->delete('configmaps', $tracker, ns => $ns);
	$s->restart_operator;
	$s->wait_ready;
	is($s->get_job('watched')->{status}{launcherStatus}, 'Running',
		'the tracker was lost while nobody looked: the Pod goes on');
	like($s->wait_event('watched', 'PartitionAdopted')->{message}, qr/\Q$partition->{id}\E/,
		'its partition is taken over');
	$s->wait_for('it to be in the tracker', sub { $s->tracker->{ $partition->{id} } });
	$s->end_pod('watched');
	$s->wait_job('watched', 'Completed');
	is($s->get_worker('watched')->{status}{phase}, 'Succeeded', '… to its end');
	$s->wait_for('its partition to go', sub { !$s->partitions });
	pass('… and its IPUs come back, since its Pod said which they are');
};
