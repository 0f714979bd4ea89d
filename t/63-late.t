#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A status that was sent, and comes when nobody waits for it any more: held back on its way (t/lib/Faults.pm), and delivered
# when a newer one is stored. The API server refuses it, since each names the version that it was made of.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(watchdog);
use Scenario;
use Scenario::Sim;
use Test::More;

watchdog(200);

# A scenario with the fault proxy between, where nothing goes wrong but what is held back.
sub begin () {
	local $ENV{IPU_FAULTS} = '1';
	my $s = Scenario->new(Scenario::Sim->new);
	$s->start_controllers;
	$s->back->{faults}->calm;
	$s->start_operator;
	$s->wait_ready;
	return $s;
}

sub hold_status ($s, $name) { return $s->back->{faults}->hold_back('PATCH', $s->path('ipujobs', 'default', $name, 'status')) }
sub wait_held ($s) { return $s->wait_for('a status to be sent', sub { $s->back->{faults}->held }) }
sub end_worker ($s, $pod, $code) { return $s->back->end_pod($s, $pod, $code, '') }

subtest 'its sender has gone on' => sub {
	my $s = begin();
	$s->create_job('done', ipus => 2, spec => { workersPerJobInstance => '2', cleanPodPolicy => 'All' });
	$s->wait_job('done', 'Running');
	hold_status($s, 'done');
	end_worker($s, 'done-worker-0', 0);
	wait_held($s);
	end_worker($s, 'done-worker-1', 0);
	$s->wait_job('done', 'Completed');
	$s->wait_for('its Pods and IPUs to be cleared away', sub {
		!$s->list('pods', ns => 'default') && !$s->partitions && !$s->get_job('done')->{status}{iPUPartitionCreated} });
	my $before = $s->get_job('done');
	is($s->back->{faults}->deliver, 409, 'that one worker runs is refused when all have ended');
	is_deeply($s->get_job('done'), $before, 'nothing is undone by it');
	$s->settle;
	is($s->get_job('done')->{status}{launcherStatus}, 'Completed', 'nor does anything follow from it');
	$s->finish(1);
};

subtest 'its sender is dead, and another one has gone on' => sub {
	my $s = begin();
	$s->create_job('again', ipus => 2, spec => { workersPerJobInstance => '2', restartPolicy => { type => 'OnFailure', backOffLimit => 3 } });
	$s->wait_job('again', 'Running');
	hold_status($s, 'again');
	end_worker($s, 'again-worker-0', 1);
	wait_held($s);
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_for('the second run', sub {
		my $status = $s->get_job('again')->{status};
		$status->{restartCount} == 1 && $status->{launcherStatus} eq 'Running' });
	my ($before, $pod) = ($s->get_job('again'), $s->get_worker('again'));
	is($s->back->{faults}->deliver, 409, 'that the first run has ended is refused while the second one runs');
	$s->settle;
	is($s->get_worker('again')->{metadata}{uid}, $pod->{metadata}{uid}, 'that one runs on');
	is_deeply($s->get_job('again')->{status}, $before->{status}, 'and its status says so');
	$s->finish(1);
};
done_testing;
