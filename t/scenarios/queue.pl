# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A pod that is full: who doesn't fit waits, is told why, and goes on by itself. A partition that a
# person made takes room and is never touched. A job that fits nowhere says so.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 1);
	$s->tell_vipu('partitions', { id => 'by-hand', size => 2 });
	my ($by_hand) = $s->partitions;

	$s->create_job('first', ipus => 2);
	$s->wait_job('first', 'Running');
	my ($first) = grep { $_->{id} =~ /^first-/ } $s->partitions;
	is_deeply([ sort map { $_->{firstIpu} } $first, $by_hand ], [ 0, 2 ], 'beside the hand-made one');
	is_deeply($s->stats, { default => { used => 2, available => 2 }, total => { used => 2, available => 2 } },
		'/stats counts what the operator made, and nothing else');
	is($s->query(1)->{numOfPartitions}, 0, '/query knows that nothing more fits');

	$s->create_job('second', ipus => 2);
	my $event = $s->wait_event('second', 'WaitingForIPUs');
	is($event->{type}, 'Normal', 'to wait for IPUs is nothing bad');
	like($event->{message}, qr/waiting for 2 IPUs, place 1 in the queue: 0 of 4 are free/, '… and its Event says for what');
	my $job = $s->wait_message('second', qr/0 of 4 are free/);
	is($job->{status}{launcherStatus}, 'Pending', 'the job is Pending');
	like(Scenario::condition($job)->{message},
		qr{^IPUJob default/second is waiting for resources to be ready: waiting for 2 IPUs},
		'… its condition says so too');
	ok(!$s->get_worker('second'), '… without a Pod');
	is($s->metrics->{ipu_operator_partitions_waiting}, 1, '… and counted');

	$s->create_job('huge', ipus => 8);
	like($s->wait_event('huge', 'TooLarge')->{message}, qr/8 IPUs asked for, the largest .* has 4/,
		'a job that fits nowhere says so');
	$s->wait_message('huge', qr/the largest V-IPU controller has 4/);

	$s->end_pod('first');
	$s->wait_job('first', 'Completed');
	$s->wait_job('second', 'Running');
	my ($second) = grep { $_->{id} =~ /^second-/ } $s->partitions;
	isnt($second->{id}, $first->{id}, 'the one that waited has a partition of its own');
	ok(!(grep { $_->{id} eq $first->{id} } $s->partitions), '… after the first was gone');
	is_deeply([ grep { $_->{byHand} } $s->partitions ], [$by_hand], 'the hand-made one is as it was');
	my @reasons = grep { $_ eq 'WaitingForIPUs' } $s->reasons('second');
	is(scalar @reasons, 1, 'while the cause is the same, one Event counts');

	# A larger controller: what was too large waits no longer.
	$s->tell_vipu('agents', { agents => 4 });
	$s->wait_job('huge', 'Running');
	$s->end_pod($_) for qw(second huge);
	$s->wait_job($_, 'Completed') for qw(second huge);
	$s->wait_for('the operator\'s partitions to go', sub { 1 == $s->partitions });
	is_deeply([ map { $_->{id} } $s->partitions ], ['by-hand'], 'at last, only the hand-made one is there');
	is($s->vipu->{calls}{ResetPartition}, 0, 'nothing was ever reset');
};
