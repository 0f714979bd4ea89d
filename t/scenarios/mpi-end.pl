# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): ranks run on several nodes, and are looked for there
#
# However a run of mpirun is ended, no rank stays on any node: Ctrl-C, the job's deletion, a launcher
# that is killed outright, a worker Pod that goes.

use v5.36;
use Scenario::Mpi qw(create_launcher_job no_rank_is_left wait_ranks);
use Test::More;

# A job whose ranks run for ever, once they do; returns mpirun's process id.
sub running ($s, $name, %option) {
	create_launcher_job($s, $name, image => $s->back->mpi_image,
		command => [qw(mpirun -np 8 /mpi_check --run-ms -1)], %option);
	wait_ranks($s, $name, 8);
	my @mpirun = $s->back->processes(qr/^mpirun /);
	is(scalar @mpirun, 1, "$name: one mpirun");
	return $mpirun[0];
}

sub ($s) {
	my $image = $s->back->mpi_image;
	$s->start(agents => 8, set => ['jobs.restartBackoffSeconds=1']);

	kill('INT', running($s, 'interrupted'));
	no_rank_is_left($s, 'Ctrl-C');
	my $job = $s->wait_job('interrupted', 'Failed');
	like($job->{status}{lastMessage}, qr/interrupted-launcher/, 'the job has failed by its launcher');
	$s->wait_for('its partition to go', sub { !$s->partitions });

	running($s, 'deleted');
	$s->delete_job('deleted');
	no_rank_is_left($s, 'deletion');
	$s->wait_job_gone('deleted', seconds => 60);

	kill('KILL', running($s, 'killed'));
	no_rank_is_left($s, 'a launcher killed outright');
	$job = $s->wait_job('killed', 'Failed');
	like($job->{status}{lastMessage}, qr/killed-launcher.*\b137\b/, 'the status says how it ended');
	$s->wait_for('its partition to go', sub { !$s->partitions });

	running($s, 'loses-one', spec => { restartPolicy => { type => 'OnFailure', backOffLimit => 2 } });
	my $first = $s->get('pods', 'loses-one-launcher');
	$s->delete('pods', 'loses-one-worker-2');
	$s->wait_pod('loses-one-launcher', 'Running', after => $first, seconds => 60);
	my @ranks = wait_ranks($s, 'loses-one', 8);
	is($s->get_job('loses-one')->{status}{restartCount}, 1, 'a worker that goes starts the whole gang again');
	kill('USR1', $s->back->processes(qr/^mpirun /));
	$s->wait_job('loses-one', 'Completed', seconds => 60);
	no_rank_is_left($s, 'the gang\'s second run');
};
