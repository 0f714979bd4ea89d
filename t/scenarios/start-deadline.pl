# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A job whose Pods can't start doesn't sit on its IPUs: after startDeadlineSeconds it gives them back, and queues
# again behind others. An image that can't be pulled counts against backOffLimit, a node that isn't there doesn't.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 1, set => ['jobs.restartBackoffSeconds=1']);
	my %no_image = (container => { image => 'localhost/no-such-image:test', imagePullPolicy => 'Never' },
		kubelet => { startError => 'ErrImageNeverPull', message => 'Container image "localhost/no-such-image:test" is not present' });

	$s->create_job('broken', %no_image, spec => { startDeadlineSeconds => 1, restartPolicy => { type => 'OnFailure', backOffLimit => 1 } });
	$s->wait_message('broken', qr/broken-worker-0: container main can't start: ErrImageNeverPull/);
	like($s->wait_event('broken', 'PodNotStarting')->{message}, qr/ErrImageNeverPull/, 'an image that isn\'t there: told at once');
	my ($first) = map { $_->{id} } $s->partitions;
	$s->create_job('behind');
	$s->wait_message('behind', qr/waiting for 4 IPUs/);
	$s->wait_job('behind', 'Running');
	pass('after its time it gives its IPUs to others');
	my $job = $s->wait_message('broken', qr/waiting for 4 IPUs/);
	is($job->{status}{launcherStatus}, 'Restarting', '… and queues again');
	is($job->{status}{restartCount}, 1, '… it counts');
	ok(!$s->get_worker('broken'), '… without a Pod');
	$s->end_pod('behind');
	$s->wait_job('behind', 'Completed');
	$job = $s->wait_job('broken', 'Failed');
	like($job->{status}{lastMessage}, qr/ErrImageNeverPull.*BackoffLimitExceeded/, 'the limit counts here, too');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions });

	# Nobody's fault.
	$s->create_job('nowhere', template => { spec => { nodeSelector => { 'no.such/node' => 'true' } } },
		spec => { startDeadlineSeconds => 1, restartPolicy => { type => 'OnFailure', backOffLimit => 0 } });
	$s->wait_message('nowhere', qr/no node takes it/);
	$s->wait_for('it to try twice more', sub { (($s->get_job('nowhere')->{status}{instances} // [])->[0]{run} // 0) >= 2 });
	$job = $s->get_job('nowhere');
	is($job->{status}{restartCount} // 0, 0, 'no node: it tries again and again, and that doesn\'t count');
	isnt($job->{status}{launcherStatus}, 'Failed', '… and isn\'t the end');
	ok(!(grep { $_ eq 'PartitionReset' } $s->reasons('nowhere')), '… each time with a partition of its own, which nobody reset');
	$s->delete_job('nowhere');
	$s->wait_job_gone('nowhere');

	# An image that takes its time.
	$s->create_job('slow', spec => { startDeadlineSeconds => 1 }, kubelet => { startMs => 2000 });
	$s->wait_job('slow', 'Running');
	is($s->get_job('slow')->{status}{restartCount} // 0, 0, 'an image that is being pulled is no fault');
	is(($s->get_job('slow')->{status}{instances} // [])->[0]{run} // 0, 0, '… nor is it begun again');
	$s->end_pod('slow');
	$s->wait_job('slow', 'Completed');
};
