# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): a person's shell in the launcher, and mpirun from there
#
# An interactive job: its launcher runs nothing, a person works in it by kubectl exec with a terminal,
# and when its time is over all is given back.

use v5.36;
use Scenario::Mpi qw(create_launcher_job is_checked no_rank_is_left);
use Test::More;

sub ($s) {
	my $image = $s->back->mpi_image;
	$s->start(agents => 8);
	create_launcher_job($s, 'shell', image => $image, spec => { interactive => { ttl => 20 } });
	$s->wait_job('shell', 'Running', seconds => 60);
	my $pod = $s->wait_pod('shell-launcher', 'Running');
	my @words = map { "'$_'" } $s->back->kubectl_words, qw(exec -it shell-launcher -- bash);
	my $typed = "tty\nmpirun -np 8 /mpi_check; exit 5\n"; # (mpirun reads what is typed while it runs)
	my $result = IpuTest::run([ 'script', '-qec', "@words", '/dev/null' ], stdin => $typed, seconds => 30);
	my $seen = $result->{out} =~ s/\r//gr;
	like($seen, qr{^/dev/pts/\d+$}m, 'kubectl exec -it gives a shell with a terminal');
	is_checked($seen, 8, 'mpirun works there, without a flag');
	is($result->{status}, 5, 'the shell ends as the person wants');
	is($s->get_job('shell')->{status}{launcherStatus}, 'Running', '… and the job goes on');
	my $job = $s->wait_job('shell', 'Completed', seconds => 60);
	ok($job->{status}{completionTime}, 'until its time is over');
	$s->wait_for('its partition to go', sub { !$s->partitions });
	no_rank_is_left($s, 'the end of an interactive job');
};
