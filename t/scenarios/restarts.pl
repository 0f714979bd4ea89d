# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A run that ends badly is followed by another one, as restartPolicy says: on the same partition, reset first, with
# a new gang, while other instances go on.

use v5.36;
use Test::More;

sub policy ($type, %more) { return (restartPolicy => { type => $type, %more }) }

sub resets ($s) { return $s->vipu->{calls}{ResetPartition} // 0 }

# Waits for the gang that replaces these Pods. Returns it; every one of them must be new, and the partition reset
# before the first.
sub wait_next_gang ($s, $name, $before, $resets) {
	my $early = 0;
	my $pods = $s->wait_for("the next run of job $name", sub {
		my $now = $s->pods($name);
		my @new = grep { my $was = $before->{$_}; !$was || $was->{metadata}{uid} ne $now->{$_}{metadata}{uid} } keys %$now;
		$early = 1 if @new && resets($s) <= $resets;
		return @new == keys %$before && !(grep { $_->{status}{phase} ne 'Running' } values %$now) ? $now : undef;
	});
	ok(!$early, "$name: its partition was reset before the next run's Pods were made");
	return $pods;
}

# Until the operator says that the run after so many restarts is Running: what happens to its Pod before may count for nothing, and
# the status may still be of the run before.
sub wait_run ($s, $name, $restarts) {
	return $s->wait_for("job $name to be Running after $restarts restarts", sub {
		my $status = $s->get_job($name)->{status};
		return $status->{launcherStatus} eq 'Running' && ($status->{restartCount} // 0) == $restarts;
	});
}

sub second_try ($s) {
	$s->create_job('again', spec => { workersPerJobInstance => '2', policy('OnFailure') });
	$s->wait_job('again', 'Running');
	my ($pods, $resets) = ($s->pods('again'), resets($s));
	my ($partition) = map { $_->{metadata}{annotations}{'graphcore.ai/partition'} } values %$pods;
	$s->finish_pod('again-worker-1', 3, 'no data');
	my $job = $s->wait_job('again', 'Restarting');
	like($job->{status}{lastMessage}, qr/again-worker-1 failed: container main exited with 3/, 'OnFailure: it says why');
	ok(Scenario::is_true($job, 'Restarting') && !Scenario::is_true($job, 'Running'), '… by its conditions, too');
	my $next = wait_next_gang($s, 'again', $pods, $resets);
	$job = $s->wait_job('again', 'Running');
	is($job->{status}{restartCount}, 1, 'one restart');
	ok(!Scenario::is_true($job, 'Restarting'), '… which is over');
	is_deeply([ map { $_->{metadata}{annotations}{'graphcore.ai/partition'} } values %$next ], [ ($partition) x 2 ],
		'on the same partition');
	ok((grep { $_ eq 'PartitionReset' } $s->reasons('again')), 'an Event tells of the reset');
	$s->finish_pod("again-worker-$_") for 0, 1;
	$job = $s->wait_job('again', 'Completed');
	is_deeply([ @{ $job->{status}{workersStatus} }{qw(succeeded failed)}, $job->{status}{restartCount} ], [ 2, 0, 1 ],
		'the second run counts');
	return;
}

sub one_of_two ($s) {
	$s->create_job('pair', ipus => 2, spec => { jobInstances => 2, policy('OnFailure') });
	$s->wait_job('pair', 'Running');
	my ($pods, $resets) = ($s->pods('pair'), resets($s));
	$s->finish_pod('pair-worker-0', 1);
	$s->wait_pod('pair-worker-0', 'Running', after => $pods->{'pair-worker-0'});
	ok(wait_run($s, 'pair', 1), 'the sum of all instances\' restarts');
	is($s->get('pods', 'pair-worker-1')->{metadata}{uid}, $pods->{'pair-worker-1'}{metadata}{uid}, 'another instance goes on');
	is(resets($s), $resets + 1, '… and its partition is as it was');
	$s->finish_pod("pair-worker-$_") for 0, 1;
	$s->wait_job('pair', 'Completed');
	return;
}

# exitCodes, in and out of the ranges, of containers and of init containers.
sub by_exit_code ($s) {
	my @init = ({ name => 'prepare', image => 'localhost/busybox:test', imagePullPolicy => 'Never', command => ['true'] });
	$s->create_job('codes', spec => { policy('ExitCode', exitCodes => '3-5,137', backOffLimit => 5) },
		template => { spec => { initContainers => \@init } });
	$s->wait_job('codes', 'Running');
	my $pod = $s->get_worker('codes');
	$s->finish_pod('codes-worker-0', 5);
	$pod = $s->wait_pod('codes-worker-0', 'Running', after => $pod);
	wait_run($s, 'codes', 1);
	$s->fail_pod('codes-worker-0', 'init', 3);
	like($s->wait_job('codes', 'Restarting')->{status}{lastMessage}, qr/init container prepare exited with 3/,
		'ExitCode: an init container\'s code counts');
	$pod = $s->wait_pod('codes-worker-0', 'Running', after => $pod);
	wait_run($s, 'codes', 2);
	$s->delete('pods', 'codes-worker-0');
	$pod = $s->wait_pod('codes-worker-0', 'Running', after => $pod);
	ok(wait_run($s, 'codes', 3), '… what nobody knows the code of counts as 137');
	$s->finish_pod('codes-worker-0', 6);
	my $job = $s->wait_job('codes', 'Failed');
	like($job->{status}{lastMessage}, qr/exited with 6.*exit code 6 isn't one/, '… another code is the end');
	is($job->{status}{restartCount}, 3, '… and no restart');
	ok($job->{status}{completionTime}, '… with its time');
	return;
}

sub always_and_never ($s) {
	$s->create_job('always', spec => { policy('Always', backOffLimit => 1) });
	$s->create_job('never', spec => { policy('Never') });
	$s->wait_job($_, 'Running') for qw(always never);
	my %before = map { $_ => $s->get_worker($_) } qw(always never);
	$s->finish_pod('always-worker-0', 0);
	$s->finish_pod('never-worker-0', 1);
	is($s->wait_job('never', 'Failed')->{status}{restartCount} // 0, 0, 'Never: one run');
	$s->wait_pod('always-worker-0', 'Running', after => $before{always});
	ok(wait_run($s, 'always', 1), 'Always: after a good end, too');
	$s->finish_pod('always-worker-0', 0);
	is($s->wait_job('always', 'Completed')->{status}{restartCount}, 1, '… until the limit');
	is($s->get_worker('never')->{metadata}{uid}, $before{never}{metadata}{uid}, 'Never: its Pod is left as it ended');
	return;
}

sub ($s) {
	$s->start(agents => 4, set => [qw(jobs.restartBackoffSeconds=1 jobs.restartBackoffMaxSeconds=1)]);
	second_try($s);
	one_of_two($s);
	by_exit_code($s);
	always_and_never($s);
};
