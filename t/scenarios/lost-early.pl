# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A worker is removed without grace, before its gang is complete: nobody sees it in deletion. It may have used its IPUs,
# so they are reset, and another run begins; nothing is counted for it.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 1, set => ['launcher.image=localhost/ipu-launcher:test']);
	# The launcher waits for workers that don't become ready, and so the gang isn't complete.
	$s->create_job('early', unready => 1, spec => { workersPerJobInstance => '2', launcher => { command => ['mpirun'] } });
	$s->wait_pod('early-worker-0', 'Running');
	my $pod = $s->wait_pod('early-worker-1', 'Running');
	my $made = $pod->{metadata}{annotations}{'graphcore.ai/partition'};
	# Where its watch has just broken, it would make another one in its place before it learned of this one.
	$s->wait_for('the operator to count both', sub { ($s->get_job('early')->{status}{workersStatus}{active} // 0) == 2 });
	$s->must('DELETE', $s->path('pods', 'default', 'early-worker-1'), json => { gracePeriodSeconds => 0 });
	$s->wait_for('another run', sub { $s->get_job('early')->{status}{instances}[0]{run} });
	$s->wait_for('another one in its place', sub {
		my $now = $s->get('pods', 'early-worker-1') or return 0;
		return $now->{metadata}{uid} ne $pod->{metadata}{uid} && ($now->{status}{phase} // '') eq 'Running';
	});
	is($s->get('pods', 'early-worker-1')->{metadata}{annotations}{'graphcore.ai/partition'}, $made, 'on the same partition');
	my ($memory) = @{ $s->get_job('early')->{status}{instances} };
	is($memory->{run}, 1, '… in another run, for which it was reset');
	is($memory->{restarts} // 0, 0, '… which counts for nothing');
};
