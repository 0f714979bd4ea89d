# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes, scale)
#
# A job is deleted at every stage of its life: its Pods go, then its partition, then the job itself.

use v5.36;
use Test::More;

# Deletes the job; its Pod and its partition must be gone when it is.
sub delete_and_look ($s, $name, $when) {
	$s->delete_job($name);
	$s->wait_job_gone($name, seconds => 40);
	ok(!$s->get_worker($name), "$when: no Pod is left when the job is gone");
	my @left = grep { $_->{id} =~ /^$name-/ } $s->partitions;
	is_deeply(\@left, [], '… and no partition');
	is_deeply([ grep { /^$name-/ } keys %{ $s->tracker } ], [], '… nor an entry of the tracker');
	return;
}

sub ($s) {
	$s->start(agents => 1, create_ms => 600);

	$s->create_job('creating');
	$s->wait_for('its partition to be asked for', sub { $s->partitions });
	delete_and_look($s, 'creating', 'while its partition is made');

	my %nowhere = (spec => { nodeSelector => { 'no.such/node' => 'true' } });
	$s->create_job('pending', template => \%nowhere);
	$s->wait_worker('pending', 'Pending');
	delete_and_look($s, 'pending', 'while its Pod is Pending');

	$s->create_job('running');
	$s->wait_job('running', 'Running');
	$s->create_job('waiting');
	$s->wait_event('waiting', 'WaitingForIPUs');
	like($s->wait_message('waiting', qr/waiting for 4 IPUs/)->{status}{lastMessage},
		qr/0 of 4 are free/, 'a job that waits says for what');
	delete_and_look($s, 'waiting', 'while it waits for IPUs');
	is($s->get_job('running')->{status}{launcherStatus}, 'Running', 'the other one isn\'t disturbed');

	my $pod = $s->get_worker('running');
	$s->delete_job('running');
	my $early = 0;
	$s->wait_for('the Pod to go', sub {
		my $holds = $s->partitions;
		my $there = $s->get_worker('running');
		$early = 1 if $there && !$holds;
		return !$there;
	});
	ok(!$early, 'while it runs: its IPUs aren\'t given away before its Pod is gone');
	delete_and_look($s, 'running', 'while it runs');

	$s->create_job('done', runs => 0);
	$s->wait_job('done', 'Completed');
	delete_and_look($s, 'done', 'when it has ended');
	is($s->vipu->{ipus}{free}, 4, 'all IPUs are free');
};
