# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A launcher that is no MPI: a shell script that runs commands in each worker by the script in /etc/mpi,
# as frameworks with a start of their own do. Exit statuses, both outputs and input come through.

use v5.36;
use IpuTest qw(program);
use Scenario::Mpi qw(create_launcher_job launcher_log);
use Test::More;

my $script = <<'END';
run=/etc/mpi/kubeexec.sh
cat /etc/mpi/hostfile
for host in $(cut -d' ' -f1 /etc/mpi/hostfile); do
	$run $host 'echo out of gcd $IPUOF_VIPU_API_GCD_ID; echo err >&2' 2>err || echo failed
	echo "stderr $(cat err)"
done
host=$(head -n 1 /etc/mpi/hostfile | cut -d' ' -f1)
$run $host exit 7; echo "status $?"
$run $host 'sh -c "kill -9 \$\$"'; echo "signal $?"
seq 1 5 | $run $host 'wc -l' | sed 's/^ */lines /'
head -c 3000000 /dev/zero | $run $host cat | wc -c | sed 's/^ */bytes /'
$run $host 'sleep 0.1; echo last' </dev/null
for i in 1 2 3 4 5 6 7 8; do $run $host "echo at once" & done; wait
$run nobody true; echo "stranger $?"
END

sub ($s) {
	$s->start(agents => 8, sim => $s->is_real ? [] : [ '--run-pods', '--program', '/ipu-launcher=' . program('ipu-launcher') ]);
	create_launcher_job($s, 'script', workers => 4, slots => 1, command => [ 'sh', '-c', $script ]);
	$s->wait_job('script', 'Completed', seconds => 60);
	my $log = launcher_log($s, 'script');
	like($log, qr/^script-worker-0 slots=1\nscript-worker-1 slots=1\nscript-worker-2 slots=1\nscript-worker-3 slots=1$/m, 'the hostfile');
	my @gcds = $log =~ /^out of gcd (\d)$/mg;
	is_deeply(\@gcds, [ 0 .. 3 ], 'a command in each worker, with that one\'s environment');
	my $errors = () = $log =~ /^stderr err$/mg;
	is($errors, 4, 'standard error is apart');
	like($log, qr/^status 7$/m, 'an exit status comes back');
	like($log, qr/^signal 137$/m, '… also of a process that was killed');
	like($log, qr/^lines 5$/m, 'input and its end arrive');
	like($log, qr/^bytes 3000000$/m, '… and 3 MB go there and back');
	like($log, qr/^last$/m, 'output after the end of the input isn\'t lost');
	my $at_once = () = $log =~ /^at once$/mg;
	is($at_once, 8, 'eight at once');
	like($log, qr/^stranger (?!0)\d+$/m, 'a Pod of someone else\'s can\'t be reached');

	# A restart takes the log of the run before away.
	create_launcher_job($s, 'complains', workers => 1, slots => 1, spec => { restartPolicy => { type => 'OnFailure', backOffLimit => 1 } },
		command => [ 'sh', '-c', 'exec 2>&1; seq 1 500; echo "no such dataset: /data" >&2; exit 4' ]);
	my $event = $s->wait_event('complains', 'JobRestarting');
	like($event->{message}, qr/complains-launcher failed: container main exited with 4 .*no such dataset/,
		'the end of a failed launcher\'s log is in an Event');
	my $job = $s->wait_job('complains', 'Failed');
	like($job->{status}{lastMessage}, qr/exited with 4 \(Error\): .* no such dataset: \/data; BackoffLimitExceeded/, '… and in the status, in one line');
};
