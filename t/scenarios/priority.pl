# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Who comes when: an urgent job goes first, a large one isn't starved by small ones, and a namespace
# with a quota gets no more than that.

use v5.36;
use Test::More;

my $CLASS = 'scenario-urgent';

sub ($s) {
	$s->start(agents => 4);
	$s->delete('priorityclasses', $CLASS);
	$s->create('priorityclasses', { apiVersion => 'scheduling.k8s.io/v1', kind => 'PriorityClass',
		metadata => { name => $CLASS }, value => 1000 });

	# Priority, then arrival.
	$s->create_job('full', ipus => 16);
	$s->wait_job('full', 'Running');
	$s->create_job('early', ipus => 8);
	$s->wait_message('early', qr/waiting for 8 IPUs, place 1 in the queue/); # an API server may answer for one of two before the other
	$s->create_job('later', ipus => 8);
	$s->wait_message('later', qr/waiting for 8 IPUs, place 2 in the queue/);
	$s->create_job('urgent', ipus => 8, template => { spec => { priorityClassName => $CLASS } });
	$s->wait_message('urgent', qr/place 1 in the queue/);
	$s->wait_message('later', qr/place 3 in the queue/);
	pass('an urgent job stands before those that came earlier');
	$s->end_pod('full');
	$s->wait_job($_, 'Running') for qw(urgent early);
	$s->wait_message('later', qr/place 1 in the queue/);
	is($s->get_job('later')->{status}{launcherStatus}, 'Pending', 'it and the earliest run, the next waits');

	# A large job: what comes free is kept for it.
	$s->create_job('large', ipus => 16);
	$s->wait_message('large', qr/place 2 in the queue/);
	$s->create_job('small', ipus => 4);
	$s->wait_message('small', qr/place 3 in the queue/);
	$s->end_pod('urgent');
	$s->wait_job('later', 'Running');
	$s->wait_message('large', qr/place 1 in the queue/);
	$s->end_pod('early');
	$s->wait_job('early', 'Completed');
	$s->wait_for('its IPUs to be free', sub { 8 == $s->vipu->{ipus}{free} });
	$s->wait_message('small', qr/kept for one ahead of it/, seconds => 90);
	is($s->wait_event('small', 'WaitingInQueue')->{type}, 'Normal', 'to wait behind a large one is nothing bad');
	is($s->query(4)->{numOfPartitions}, 0, 'what is kept isn\'t offered');
	ok(!$s->get_worker('small'), 'a small job doesn\'t take what a large one waits for');
	$s->end_pod('later');
	$s->wait_job('large', 'Running');
	$s->end_pod('large');
	$s->wait_job('small', 'Running');
	pass('the large one had its turn, then the small one');
	$s->end_pod('small');
	$s->wait_job('small', 'Completed');

	# A quota, by an annotation.
	my $quota = sub ($value) {
		$s->patch('namespaces', 'default',
			{ metadata => { annotations => { 'graphcore.ai/max-ipus' => $value } } });
	};
	$quota->('4');
	$s->create_job('within', ipus => 4);
	$s->wait_job('within', 'Running');
	$s->create_job('beyond', ipus => 4);
	my $event = $s->wait_event('beyond', 'QuotaExceeded');
	is($event->{type}, 'Warning', 'a namespace that has all it may: a Warning');
	like($event->{message}, qr/namespace default uses 4 of its 4 IPUs, this job wants 4/, '… with the figures');
	$quota->('8');
	$s->wait_job('beyond', 'Running');
	pass('a larger quota counts at once');
	$quota->(undef);
	$s->end_pod($_) for qw(within beyond);
	$s->wait_job($_, 'Completed') for qw(within beyond);
	$s->delete('priorityclasses', $CLASS);
};
