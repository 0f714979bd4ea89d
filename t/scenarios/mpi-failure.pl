# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): ranks of a real mpirun die, on other nodes
#
# A rank that dies fails the launcher, and with it the job, or starts the whole gang again: partition,
# workers, mpirun. Nothing of the run before is left when the next begins.

use v5.36;
use Scenario::Mpi qw(create_launcher_job launcher_log no_rank_is_left wait_ranks);
use Test::More;

sub ($s) {
	my $image = $s->back->mpi_image;
	$s->start(agents => 8, set => ['jobs.restartBackoffSeconds=1']);

	create_launcher_job($s, 'rank-dies', image => $image,
		command => [qw(mpirun -np 8 /mpi_check --die 5 --code 3 --run-ms -1)]);
	my $job = $s->wait_job('rank-dies', 'Failed', seconds => 60);
	like($job->{status}{lastMessage}, qr/rank-dies-launcher.*\b3\b/, 'a rank that dies fails the launcher, with its exit code');
	like(launcher_log($s, 'rank-dies'), qr/,1\],5\]\n *Exit code: +3\n/, '… whose log says which rank it was');
	no_rank_is_left($s, 'a rank died');
	$s->wait_for('its partition to go', sub { !$s->partitions });

	create_launcher_job($s, 'run-again', image => $image, command => [qw(mpirun -np 8 /mpi_check --run-ms -1)],
		spec => { restartPolicy => { type => 'OnFailure', backOffLimit => 2 } });
	my @ranks = wait_ranks($s, 'run-again', 8);
	my $first = $s->get('pods', 'run-again-launcher');
	my $id = ($s->partitions)[0]{id};
	kill('KILL', $ranks[3]);
	$job = $s->wait_for('a restart', sub {
		my $job = $s->get_job('run-again');
		return ($job->{status}{restartCount} // 0) == 1 ? $job : undef;
	});
	my $second = $s->wait_pod('run-again-launcher', 'Running', after => $first, seconds => 60);
	isnt($second->{metadata}{uid}, $first->{metadata}{uid}, 'with OnFailure, there is another launcher');
	my @again = wait_ranks($s, 'run-again', 8);
	my %before = map { $_ => 1 } @ranks;
	is(scalar(grep { $before{$_} } @again), 0, '… and none of the ranks is of the first run');
	is(($s->partitions)[0]{id}, $id, '… in the same partition, reset');
	my ($mpirun) = $s->back->processes(qr/^mpirun /);
	kill('USR1', $mpirun);
	$job = $s->wait_job('run-again', 'Completed', seconds => 60);
	is($job->{status}{restartCount}, 1, 'the second run goes well, and is the last');
	no_rank_is_left($s, 'the second run');
};
