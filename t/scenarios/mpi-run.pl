# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): mpirun starts processes in containers on other nodes
#
# mpirun without a flag of the user's runs its ranks in the workers, in both generations' spelling; so
# does MPICH's mpiexec. Input, much output and exit statuses come through.

use v5.36;
use Scenario::Mpi qw(create_launcher_job launcher_log is_checked no_rank_is_left);
use Test::More;

# (mpirun mixes what ranks write, and a log of all of it could be rotated away.)
my $much = <<'END';
printf %300000d 1 | mpirun /mpi_check --input --output 640000 >/tmp/out
grep -o 'input [0-9]*' /tmp/out
grep -o 'checked 8 ranks: ring and allreduce are right' /tmp/out
for letter in A B C D E F G H; do
	echo "letter $letter $(tr -cd $letter </tmp/out | wc -c)"
done
END

sub ($s) {
	my $image = $s->back->mpi_image;
	$s->start(agents => 8, set => ['launcher.mpiInterface=eth0']);

	create_launcher_job($s, 'mpirun-new', image => $image, command => [qw(mpirun -np 8 /mpi_check)]);
	my $partition = $s->wait_for('a partition', sub { ($s->partitions)[0] });
	my $job = $s->wait_job('mpirun-new', 'Completed', seconds => 60);
	is_checked(my $log = launcher_log($s, 'mpirun-new'), 8, 'mpirun -np 8 over four workers');
	is($partition->{size}, 8, 'in a partition of eight IPUs');
	my %gcds = reverse $log =~ /^rank (\d+) .* partition \Q$partition->{id}\E gcd (\d)$/mg;
	is_deeply([ sort keys %gcds ], [ 0 .. 3 ], 'the ranks of each worker have its GCD of it');
	is($job->{status}{lastMessage}, 'All instances done', 'the launcher\'s end is the job\'s');
	no_rank_is_left($s, 'success');
	$s->wait_for('its partition to go', sub { !$s->partitions });

	create_launcher_job($s, 'mpirun-old', image => $image, old => 1,
		command => [ 'bash', '-c', $much ]);
	$s->wait_job('mpirun-old', 'Completed', seconds => 60);
	$log = launcher_log($s, 'mpirun-old');
	like($log, qr/^checked 8 ranks/m, 'mpirun in the first generation\'s spelling, with as many ranks as there are slots');
	like($log, qr/^input 300000$/m, 'its input reaches rank 0, and its end');
	my %letters = $log =~ /^letter (\w) (\d+)$/mg;
	is_deeply(\%letters, { map { $_ => 630000 } 'A' .. 'H' }, 'all output of all ranks arrives');

	create_launcher_job($s, 'hydra', image => $image,
		command => [ 'sh', '-c', 'mpiexec.hydra -n 8 hostname | sort | uniq -c; mpiexec.hydra -n 8 sh -c "exit 7"; echo status $?' ]);
	$s->wait_job('hydra', 'Completed', seconds => 60);
	$log = launcher_log($s, 'hydra');
	my %count = map { reverse split } $log =~ m{^ *(\d node\d)$}mg;
	is(eval { my $sum = 0; $sum += $_ for values %count; $sum } // 0, 8, 'mpiexec.hydra starts eight');
	like($log, qr/^status 7$/m, '… and hears how they end');
	no_rank_is_left($s, 'hydra');
};
