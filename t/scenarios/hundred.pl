# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): what is measured is the work that a real API server makes
#
# A hundred jobs of eight workers wait for the daemon: how soon all their Pods are made, how soon the status of all is right, what
# that costs the daemon in time and memory, and how soon another daemon goes on where the first was killed.

use v5.36;
use Test::More;
use Time::HiRes qw(time);

my ($jobs, $workers) = (100, 8);

sub count ($s, $metric) { return $s->metrics->{$metric} // 0 }

sub pods_made ($s) {
	my $metrics = $s->metrics;
	my $n = 0;
	$n += $metrics->{$_} for grep { /^ipu_operator_kube_requests_total\{verb="create",resource="pods"/ } keys %$metrics;
	return $n;
}

sub running ($s) { return count($s, 'ipu_operator_jobs{state="Running"}') }
sub memory ($s) { return count($s, 'process_resident_memory_bytes') / 2**20 }

sub ($s) {
	$s->start_controllers(controllers => 16, agents => 16, create_ms => 1, remove_ms => 1);
	$s->create_job(sprintf('hundred-%03d', $_), ipus => $workers,
		spec => { workersPerJobInstance => "$workers" }) for 1 .. $jobs;
	my $begin = time;
	$s->start_operator;
	my ($made, $most) = (undef, 0);
	$s->wait_for('all jobs to be Running', sub {
		my $memory = memory($s);
		$most = $memory if $memory > $most;
		$made //= time - $begin if pods_made($s) == $jobs * $workers;
		return running($s) == $jobs;
	}, seconds => 60);
	my $right = time - $begin;
	my $spent = count($s, 'process_cpu_seconds_total');
	is(pods_made($s), $jobs * $workers, 'each Pod was made once');
	cmp_ok($most, '<', 50, 'the daemon stays small');
	cmp_ok($spent, '<', 4, '… and does little');
	diag(sprintf '%d jobs x %d workers, from the daemon\'s start: all Pods made after %.1f s, all Running '
		. 'after %.1f s; daemon: %.2f s of CPU, %.1f MB at most', $jobs, $workers, $made, $right, $spent,
		$most);

	$s->operator->crash;
	my $crashed = time;
	$s->restart_operator;
	$s->wait_for('the new daemon to know all of them', sub { running($s) == $jobs });
	$s->create_job('next', ipus => 1);
	$s->wait_for('it to work', sub { $s->get_worker('next') });
	my $again = time - $crashed;
	is(pods_made($s), 1, 'after a crash, nothing is made twice');
	diag(sprintf 'killed, it knows all of them and makes the next Pod %.1f s later; %.1f MB', $again, memory($s));
	my $delete = time;
	$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
	$s->wait_for('all jobs to go', sub { !$s->list('ipujobs') }, seconds => 60);
	diag(sprintf 'all deleted, with their Pods and partitions, in %.1f s', time - $delete);
};
