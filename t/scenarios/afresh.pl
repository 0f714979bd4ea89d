# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because a short moment without Pods has to be seen
#
# The operator is killed after each step of a job with a launcher. What it finds afterwards is enough: no Pod is made
# twice, no run is counted twice, and the status is right.

use v5.36;
use Test::More;

# Each Pod that was ever seen: name => {uid => 1}.
sub watch ($s, $seen) {
	my $now = $s->pods('afresh');
	$seen->{$_}{ $now->{$_}{metadata}{uid} } = 1 for keys %$now;
	return $now;
}

sub reborn ($s, $seen) {
	$s->operator->crash;
	watch($s, $seen);
	$s->restart_operator;
	$s->wait_ready;
	watch($s, $seen);
	return;
}

# Until it is so; looking at the Pods all the time.
sub until_so ($s, $seen, $what, $code) { return $s->wait_for($what, sub { $code->(watch($s, $seen)) }) }

sub ($s) {
	$s->start(agents => 2, create_ms => 300,
		set => [qw(launcher.image=localhost/ipu-launcher:test jobs.restartBackoffSeconds=1 vipu.callTimeoutSeconds=1)]);
	my (%seen, %restarted);
	$s->create_job('afresh', unready => 1, spec => { workersPerJobInstance => '2', launcher => { command => ['mpirun'] },
		restartPolicy => { type => 'OnFailure' } });
	my @workers = map { "afresh-worker-$_" } 0, 1;
	my @steps = (
		[ 'it\'s there', sub ($pods) { $s->get_job('afresh')->{metadata}{finalizers} } ],
		[ 'its partition is asked for', sub ($pods) { $s->partitions } ],
		[ 'its workers run', sub ($pods) { 2 == grep { $_ && $_->{status}{phase} eq 'Running' } @$pods{@workers} },
			sub { $s->set_ready($_) for @workers } ],
		[ 'its launcher is there', sub ($pods) { $pods->{'afresh-launcher'} } ],
		[ 'it runs', sub ($pods) { ($s->get_job('afresh')->{status}{launcherStatus} // '') eq 'Running' },
			sub { $s->finish_pod('afresh-worker-0', 1) } ],
		[ 'its worker has failed', sub ($pods) { ($s->get_job('afresh')->{status}{restartCount} // 0) == 1 } ],
		[ 'its Pods are gone', sub ($pods) { !grep { $seen{$_} && $pods->{$_} } @workers } ],
		[ 'its workers run again', sub ($pods) { 2 == grep { $_ && $_->{status}{phase} eq 'Running' } @$pods{@workers} },
			sub { $s->set_ready($_) for @workers } ],
		[ 'it runs again', sub ($pods) { ($s->get_job('afresh')->{status}{launcherStatus} // '') eq 'Running' },
			sub { $s->finish_pod('afresh-launcher') } ],
	);
	for my $step (@steps) {
		my ($what, $so, $then) = @$step;
		until_so($s, \%seen, $what, $so);
		reborn($s, \%seen);
		$then->() if $then;
	}
	my $job = $s->wait_job('afresh', 'Completed');
	watch($s, \%seen);
	is_deeply({ map { $_ => scalar keys %{ $seen{$_} } } keys %seen }, { map { $_ => 2 } @workers, 'afresh-launcher' },
		'two runs, and one Pod of a name in each');
	is($job->{status}{restartCount}, 1, 'one restart');
	is_deeply([ @{ $job->{status}{workersStatus} }{qw(active succeeded failed)} ], [ 0, 2, 0 ], 'the counts are right');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions });
	reborn($s, \%seen);
	$s->settle;
	is_deeply([ @{ $s->get_job('afresh')->{status} }{qw(launcherStatus completionTime restartCount)} ],
		[ @{ $job->{status} }{qw(launcherStatus completionTime restartCount)} ], 'what has ended stays as it ended');
	is_deeply([ $s->partitions ], [], '… and asks for nothing');
};
