# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (networks): the simulator has no networks
#
# mpirun over a secondary network: what it says to its daemons in the workers, and ranks to each other, goes by the interface
# that launcher.mpiInterface names, which launcher and workers have by the operator's configuration.

use v5.36;
use Scenario::Mpi qw(create_launcher_job launcher_log);
use Scenario::Networks qw(define_networks addresses_held $rdma_network);
use Test::More;

my $size = 640_000; # what each rank writes, in all
# mpirun may put what one rank says into the middle of another's line.
my $script = "mpirun /mpi_check --output $size >/tmp/out; echo status \$?; grep -o 'checked 4 ranks: ring and allreduce are right' /tmp/out; "
	. 'for link in net1 eth0; do echo $link $(cat /sys/class/net/$link/statistics/rx_bytes); done';

sub ($s) {
	my $image = $s->back->mpi_image;
	define_networks($s);
	$s->start(agents => 8, set => [ 'worker.hostNetwork=false', "worker.rdmaNetwork=$rdma_network", 'launcher.mpiInterface=net1' ]);
	create_launcher_job($s, 'fabric', image => $image, workers => 2, command => [ 'sh', '-c', $script ]);
	$s->wait_job('fabric', 'Completed', seconds => 60);
	my $log = launcher_log($s, 'fabric');
	like($log, qr/^status 0\nchecked 4 ranks: ring and allreduce are right$/m, 'mpirun over two workers') or diag($log);
	my %received = $log =~ /^(net1|eth0) (\d+)$/mg;
	cmp_ok($received{net1} // 0, '>=', 4 * $size, 'all output of all ranks came by net1');
	cmp_ok($received{eth0} // 'inf', '<', $size, '… and nothing of it by eth0');
	$s->delete_job('fabric');
	$s->wait_for('all addresses to be given back', sub { !addresses_held($s) }, seconds => 60);
};
