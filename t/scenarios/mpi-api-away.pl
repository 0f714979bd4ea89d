# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): connections to processes in other nodes' containers go through the API server
#
# An API server that ends takes the connections to the ranks along: the run ends, on all nodes, while
# nobody can be asked for anything. When it's back, the gang starts again.

use v5.36;
use Scenario::Mpi qw(create_launcher_job no_rank_is_left wait_ranks);
use Test::More;

sub ($s) {
	my $image = $s->back->mpi_image;
	$s->start(agents => 8, set => ['jobs.restartBackoffSeconds=1']);

	create_launcher_job($s, 'mpi-api-away', image => $image, command => [qw(mpirun -np 8 /mpi_check --run-ms -1)],
		spec => { restartPolicy => { type => 'OnFailure', backOffLimit => 2 } });
	wait_ranks($s, 'mpi-api-away', 8);
	my $first = $s->get('pods', 'mpi-api-away-launcher');
	$s->api_goes;
	no_rank_is_left($s, 'an API server that ends');
	$s->api_comes;
	$s->wait_pod('mpi-api-away-launcher', 'Running', after => $first, seconds => 90, despite_errors => 1);
	wait_ranks($s, 'mpi-api-away', 8);
	is($s->get_job('mpi-api-away')->{status}{restartCount}, 1, 'one restart');
	kill('USR1', $s->back->processes(qr/^mpirun /));
	$s->wait_job('mpi-api-away', 'Completed', seconds => 60);
	no_rank_is_left($s, 'the second run');
};
