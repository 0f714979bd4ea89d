# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# V-IPU controllers that fail: none answers, one refuses, lies, loses an answer, or makes a partition
# that is broken. The job waits, says why, and goes on by itself; nothing is made twice.

use v5.36;
use Test::More;

# How many partitions the controllers ever made.
sub made ($s) {
	my $sum = 0;
	$sum += $s->vipu($_)->{created} for 0 .. $s->controllers - 1;
	return $sum;
}

# Makes a job, and waits until it's done; the controller has made one partition for it, no more.
sub run_through ($s, $name, $what, $partitions = 1) {
	my $before = made($s);
	$s->create_job($name, runs => 0);
	$s->wait_job($name, 'Completed', seconds => 60);
	is(made($s) - $before, $partitions, "$what: $partitions made");
	$s->wait_for('its partition to go', sub { !map { $s->partitions($_) } 0 .. $s->controllers - 1 });
	return;
}

sub ($s) {
	$s->start(controllers => 2, agents => 2, set => ['vipu.idleRefreshSeconds=1']);
	$s->wait_ready;

	# One is away: the other one serves.
	$s->tell_vipu('down', undef, 0);
	$s->create_job('elsewhere');
	$s->wait_job('elsewhere', 'Running');
	is(scalar $s->partitions(1), 1, 'one controller is away: the next has the partition');
	is_deeply([ map { Scenario::environment($s->get_worker('elsewhere'))->{$_} }
		qw(IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PORT) ], [ split /:/, ($s->controllers)[1] ],
		'… and its Pod is told of that one');

	# All are away.
	$s->tell_vipu('down', undef, 1);
	$s->create_job('patient', runs => 0);
	my $event = $s->wait_event('patient', 'ControllerUnreachable');
	is($event->{type}, 'Warning', 'no controller answers: a Warning');
	like($event->{message}, qr/no V-IPU controller answers: \S/, '… with what the last one said');
	$s->wait_message('patient', qr/no V-IPU controller answers/);
	is($s->query(1)->{available}, JSON::PP::false, '/query says that nobody answers');
	is($s->get_job('elsewhere')->{status}{launcherStatus}, 'Running', 'what runs goes on');
	is($s->metrics->{'ipu_operator_controller_up{controller="' . ($s->controllers)[1] . '"}'}, 0,
		'a metric says so');
	$s->end_pod('elsewhere');
	$s->wait_job('elsewhere', 'Completed');
	is_deeply([ map { "$_->{owner}{name} $_->{phase}" } values %{ $s->tracker_waits } ],
		['patient waiting'], 'the tracker says who waits');
	is(scalar(grep { !/^ask\./ } keys %{ $s->tracker }), 1, 'a partition that can\'t be removed now stays in the tracker');
	$s->tell_vipu('up', undef, $_) for 0, 1;
	$s->wait_job('patient', 'Completed', seconds => 60);
	$s->wait_for('all partitions to go', sub { !map { $s->partitions($_) } 0, 1 });
	pass('they are back: the job that waited runs, the partition of the one that ended goes');

	# One says no, for reasons of its own: the other is asked.
	$s->tell_vipu('faults', { kind => 'status', method => 'CreatePartition', count => 1,
		status => 'RESOURCE_EXHAUSTED', message => 'agents are being serviced' });
	my $by_other = $s->vipu(1)->{created};
	run_through($s, 'moved-on', 'refused by one', 1);
	is($s->vipu(1)->{created} - $by_other, 1, '… it was the other');

	# There is no other.
	$s->tell_vipu('down', undef, 1);
	$s->wait_for('it to be known as away', sub {
		$s->metrics->{'ipu_operator_controller_up{controller="' . ($s->controllers)[1] . '"}'} == 0;
	});
	$s->tell_vipu('faults', { kind => 'status', method => 'CreatePartition', count => 1,
		status => 'RESOURCE_EXHAUSTED', message => 'agents are being serviced' });
	run_through($s, 'refused', 'refused once', 1);
	if (!$ENV{IPU_FAULTS}) { # else the refusal may be lost on its way
		$event = $s->wait_event('refused', 'PartitionRefused');
		like($event->{message}, qr/agents are being serviced/, '… an Event has the controller\'s words');
	}

	# It did what was asked, and says that it didn't; or says nothing.
	$s->tell_vipu('faults', { kind => 'act-status', method => 'CreatePartition', count => 1,
		status => 'INTERNAL', message => 'oops' });
	run_through($s, 'lied-to', 'an error that wasn\'t one');
	$s->tell_vipu('faults', { kind => 'lose-reply', method => 'CreatePartition', count => 1 });
	run_through($s, 'unanswered', 'an answer that is lost');
	$s->tell_vipu('faults', { kind => 'act-cut', method => 'CreatePartition', count => 1 });
	run_through($s, 'cut-off', 'a connection that breaks');
	$s->tell_vipu('faults', { kind => 'act-status', method => 'RemovePartition', count => 2,
		status => 'UNKNOWN', message => 'perhaps' });
	run_through($s, 'unsure', 'a removal that may have failed');

	# A partition ends in PS_ERROR: it goes, and another one is made.
	$s->tell_vipu('faults', { kind => 'end-in-error', method => 'CreatePartition', count => 1 });
	run_through($s, 'broken', 'a partition in PS_ERROR', 2);
	$event = $s->wait_event('broken', 'PartitionFailed');
	is($event->{type}, 'Warning', '… is a Warning');
	like($event->{message}, qr/IPU-Link training failed/, '… with the controller\'s words');
	my @asked; # behind faults one more may have been asked for that never reached the controller
	$s->wait_for('the Events of both', sub { # an Event that the API server refuses for a while comes late
		@asked = map { $_->{reason} eq 'PartitionRequested' && $_->{message} =~ /^Partition (\S+)/ ? $1 : () } $s->events('broken');
		return @asked > 1;
	});
	my %ids = map { $_ => 1 } @asked;
	is(scalar keys %ids, scalar @asked, '… and the other one has another identifier');

	# It breaks while the Pod runs: the Pod's own end decides.
	$s->create_job('hot');
	$s->wait_job('hot', 'Running');
	my ($partition) = $s->partitions;
	$s->tell_vipu('break', { id => $partition->{id}, message => 'IPU 1 has stopped' });
	$s->wait_message('hot', qr/IPU 1 has stopped/, seconds => 60);
	is($s->get_job('hot')->{status}{launcherStatus}, 'Running', 'broken while in use: told, not stopped');
	$s->end_pod('hot', 1, 'no IPU');
	$s->wait_job('hot', 'Failed');
	$s->wait_for('its partition to go', sub { !$s->partitions });
	pass('its Pod fails, and the partition goes');
	$s->tell_vipu('up', undef, 1);
};
