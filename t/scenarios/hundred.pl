# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): what is measured is the work that a real API server makes
#
# A hundred jobs of eight workers wait for the daemon: how soon all their Pods are made, how soon the status of all is right, what
# that costs the daemon in time and memory, and how soon another daemon goes on where the first was killed.

use v5.36;
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(time);

my ($jobs, $workers) = (100, 8);

# One look at the metrics: each costs the daemon as much as some Pods do. An answer that came too late is asked for again, and then
# it's there (409).
sub look ($s) {
	my $metrics = $s->metrics;
	return {
		made => sum0(map { $metrics->{qq(ipu_operator_kube_requests_total{verb="create",resource="pods",code="$_"})} // 0 } 201, 409),
		running => $metrics->{'ipu_operator_jobs{state="Running"}'} // 0,
		memory => $metrics->{process_resident_memory_bytes} / 2**20,
		spent => $metrics->{process_cpu_seconds_total},
	};
}

sub ($s) {
	$s->start_controllers(controllers => 16, agents => 16, create_ms => 1, remove_ms => 1);
	$s->create_job(sprintf('hundred-%03d', $_), ipus => $workers,
		spec => { workersPerJobInstance => "$workers" }) for 1 .. $jobs;
	my $begin = time;
	$s->start_operator;
	my ($made, $most, $now) = (undef, 0);
	$s->wait_for('all jobs to be Running', sub {
		$now = look($s);
		$most = $now->{memory} if $now->{memory} > $most;
		$made //= time - $begin if $now->{made} == $jobs * $workers;
		return $now->{running} == $jobs;
	}, seconds => 120, pause => 0.25);
	my $right = time - $begin;
	my $spent = $now->{spent};
	is($now->{made}, $jobs * $workers, 'each Pod was made once');
	cmp_ok($most, '<', 50, 'the daemon stays small');
	cmp_ok($spent, '<', 4, '… and does little');
	diag(sprintf '%d jobs x %d workers, from the daemon\'s start: all Pods made after %.1f s, all Running '
		. 'after %.1f s; daemon: %.2f s of CPU, %.1f MB at most', $jobs, $workers, $made, $right, $spent,
		$most);

	$s->operator->crash;
	my $crashed = time;
	$s->restart_operator;
	$s->wait_for('the new daemon to know all of them', sub { look($s)->{running} == $jobs });
	$s->create_job('next', ipus => 1);
	$s->wait_for('it to work', sub { $s->get_worker('next') });
	my $again = time - $crashed;
	$now = look($s);
	is($now->{made}, 1, 'after a crash, nothing is made twice');
	diag(sprintf 'killed, it knows all of them and makes the next Pod %.1f s later; %.1f MB', $again, $now->{memory});
	my $delete = time;
	$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
	$s->wait_for('all jobs to go', sub { !$s->list('ipujobs') }, seconds => 60);
	diag(sprintf 'all deleted, with their Pods and partitions, in %.1f s', time - $delete);
};
