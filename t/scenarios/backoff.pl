# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because times are measured
#
# The time between restarts grows, and is remembered by the job, not by the process: an operator that is killed
# meanwhile neither hurries nor begins anew. When the limit is used up, the job fails, and says so.

use v5.36;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

sub ($s) {
	$s->start(agents => 2, set => ['jobs.restartBackoffSeconds=1']);
	$s->create_job('grows', spec => { restartPolicy => { type => 'OnFailure', backOffLimit => 3 } });
	$s->wait_job('grows', 'Running');
	my $besides; # what a restart takes besides the wait, on this machine at this time
	for my $n (1 .. 3) {
		my $pod = $s->get_worker('grows');
		my $failed = time;
		$s->end_pod('grows', 1);
		$s->wait_job('grows', 'Restarting');
		if ($n > 1) {
			# Not in the middle of its reset: what becomes of that must be known first.
			$s->wait_for('its partition to be reset', sub {
				return $s->vipu->{calls}{ResetPartition} == $n && (values %{ $s->tracker })[0]{phase} eq 'active';
			});
			$s->operator->crash;
			$s->restart_operator;
			$s->wait_ready;
		}
		my $back = time - $failed;
		$s->wait_pod('grows-worker-0', 'Running', after => $pod, seconds => 20);
		my ($took, $least) = (time - $failed, 2**($n - 1));
		cmp_ok($took, '>=', $least - 0.1, sprintf('restart %d comes after %.1f s, the operator is there after %.1f', $n, $took, $back));
		$besides //= $took - $least;
		cmp_ok($took, '<', max($least, $back) + 2 * ($s->is_real ? 3 : 1) + 2 * $besides, '… and not much later') if $n > 1;
		is($s->wait_job('grows', 'Running')->{status}{restartCount}, $n, '… and is counted');
	}
	$s->end_pod('grows', 1);
	my $job = $s->wait_job('grows', 'Failed');
	like($job->{status}{lastMessage}, qr/exited with 1.*BackoffLimitExceeded/, 'the limit: the last failure, and that it was the last');
	is($job->{status}{restartCount}, 3, '… how many there were');
	ok($job->{status}{completionTime} && Scenario::is_true($job, 'Failed'), '… and that it\'s over');
	like($s->wait_event('grows', 'JobFailed')->{message}, qr/BackoffLimitExceeded/, '… by an Event, too');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions });
	pass('its IPUs come back');
};
