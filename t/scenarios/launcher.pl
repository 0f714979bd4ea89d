# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Jobs with a launcher, from the first wait to every kind of end. The launcher comes when all workers are Ready, and
# its end is the job's; a worker that ends before it is a failure of the whole gang.

use v5.36;
use Test::More;
use Time::Local qw(timegm);

my %launcher = (launcher => { command => ['mpirun'] });

sub begin ($s, $name, %spec) {
	$s->create_job($name, ipus => 2, spec => { %launcher, workersPerJobInstance => '2', %spec });
	$s->wait_pod("$name-launcher", 'Running');
	return $s->wait_job($name, 'Running');
}

sub has_ipus ($s, $name) { return scalar grep { $_->{id} =~ /^$name-/ } $s->partitions }

sub waits_for_workers ($s) {
	$s->create_job('waits', ipus => 2, unready => 1, spec => { %launcher, workersPerJobInstance => '2' });
	$s->wait_pod("waits-worker-$_", 'Running') for 0, 1;
	my $job = $s->wait_message('waits', qr/waiting for its workers to be Ready/);
	is($job->{status}{launcherStatus}, 'Pending', 'workers that run and aren\'t Ready: the job waits');
	is($job->{status}{workersStatus}{active}, 2, '… they are counted');
	$s->set_ready('waits-worker-0');
	$s->settle;
	ok(!$s->get('pods', 'waits-launcher'), 'without a launcher, while one of them isn\'t');
	$s->set_ready('waits-worker-0', 0);
	$s->set_ready('waits-worker-1');
	$s->settle;
	ok(!$s->get('pods', 'waits-launcher'), '… and which one that is, is looked at again');
	$s->set_ready('waits-worker-0');
	$s->wait_pod('waits-launcher', 'Running');
	$job = $s->wait_job('waits', 'Running');
	is($job->{status}{restartCount} // 0, 0, 'when they are, it comes');
	$s->finish_pod('waits-launcher');
	$s->wait_job('waits', 'Completed');
	return;
}

# The launcher has succeeded while workers still run: that is how it always is.
sub succeeds ($s) {
	my %left = (None => [qw(launcher worker-0 worker-1)], All => [], Workers => ['launcher']);
	begin($s, lc "ok-$_", cleanPodPolicy => $_) for sort keys %left;
	for my $policy (sort keys %left) {
		my $name = lc "ok-$policy";
		is($s->get('pods', "$name-worker-0")->{status}{phase}, 'Running', "cleanPodPolicy $policy: its workers wait");
		$s->finish_pod("$name-launcher");
		my $job = $s->wait_job($name, 'Completed');
		ok($job->{status}{completionTime}, '… when the launcher has ended, so has the job');
		is_deeply([ @{ $job->{status}{workersStatus} }{qw(active succeeded failed)} ], [ 0, 2, 0 ], '… and its workers have done their part');
		$s->wait_for('its IPUs to come back', sub { !has_ipus($s, $name) });
		my @want = map { "$name-$_" } @{ $left{$policy} };
		$s->wait_for('the Pods that are to go', sub { keys %{ $s->pods($name) } <= @want });
		is_deeply([ sort keys %{ $s->pods($name) } ], \@want, '… the Pods that stay');
	}
	$s->delete('pods', $_) for qw(ok-none-worker-0 ok-none-launcher);
	$s->wait_for('them to go', sub { 1 == keys %{ $s->pods('ok-none') } });
	$s->settle;
	is($s->get_job('ok-none')->{status}{launcherStatus}, 'Completed', 'what becomes of them changes nothing');
	is_deeply([ keys %{ $s->pods('ok-none') } ], ['ok-none-worker-1'], '… and none is made again');
	return;
}

sub fails ($s) {
	begin($s, 'bad-launcher', cleanPodPolicy => 'Workers');
	begin($s, 'bad-worker');
	$s->finish_pod('bad-launcher-launcher', 9);
	$s->fail_pod('bad-worker-worker-1', 'evicted');
	my $job = $s->wait_job('bad-launcher', 'Failed');
	like($job->{status}{lastMessage}, qr/bad-launcher-launcher failed: .*exited with 9/, 'the launcher\'s failure is the job\'s');
	$s->wait_for('the workers to go', sub { 1 == keys %{ $s->pods('bad-launcher') } });
	$job = $s->wait_job('bad-worker', 'Failed');
	like($job->{status}{lastMessage}, qr/bad-worker-worker-1 failed: Evicted/, 'a worker that is evicted fails it, too');
	ok($job->{status}{completionTime}, '… with its time');
	$s->wait_for('its launcher to be ended', sub {
		my $pod = $s->get('pods', 'bad-worker-launcher');
		return !$pod || $pod->{status}{phase} ne 'Running';
	});
	pass('… and its launcher doesn\'t go on');
	$s->wait_for('the IPUs to come back', sub { !has_ipus($s, 'bad-launcher') && !has_ipus($s, 'bad-worker') });
	return;
}

# What a launcher that is killed has started in its workers may take a while to end: where these stay, so do the IPUs.
sub keeps_ipus ($s) {
	begin($s, 'kept');
	$s->finish_pod('kept-launcher', 137);
	my $job = $s->wait_message('kept', qr/exited with 137.*; its IPUs are kept until \d{4}-/);
	is($job->{status}{launcherStatus}, 'Failed', 'a launcher fails, and its workers stay: the job has failed');
	ok(has_ipus($s, 'kept') && $job->{status}{iPUPartitionCreated}, '… and its IPUs are kept');
	my $until = ($job->{status}{instances} // [])->[0]{releaseTime};
	ok($until, '… the status says how long');
	like($s->wait_event('kept', 'ReleaseHeld')->{message}, qr/instance 0 are kept for up to 3 s/, '… so does an Event');
	$s->wait_for('its IPUs to come back', sub { !has_ipus($s, 'kept') });
	my ($y, $mon, $d, $h, $min, $sec) = $until =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)/;
	cmp_ok(time, '>=', timegm($sec, $min, $h, $d, $mon - 1, $y), '… not before');
	$job = $s->wait_for('its status', sub {
		my $now = $s->get_job('kept');
		return $now->{status}{iPUPartitionCreated} ? undef : $now;
	});
	unlike($job->{status}{lastMessage}, qr/IPUs/, 'then its last word is how it failed');
	is_deeply([ sort keys %{ $s->pods('kept') } ], [qw(kept-launcher kept-worker-0 kept-worker-1)], '… and its Pods are there');
	return;
}

# Whoever fails: all of the gang is new, on a partition that was reset; and there is one launcher at a time.
sub restarts ($s) {
	begin($s, 'gang', restartPolicy => { type => 'OnFailure', backOffLimit => 4 });
	my @cases = ([ 'its launcher fails', sub { $s->finish_pod('gang-launcher', 1) }, qr/gang-launcher failed/ ],
		[ 'a worker fails', sub { $s->finish_pod('gang-worker-1', 1) }, qr/gang-worker-1 failed/ ],
		[ 'a worker has ended before its launcher', sub { $s->finish_pod('gang-worker-0', 0) }, qr/gang-worker-0 has ended before/ ],
		[ 'its launcher is deleted', sub { $s->delete('pods', 'gang-launcher') }, qr/launcher Pod .* deleted before it ended/ ]);
	my $n = 0;
	for my $case (@cases) {
		my ($what, $act, $words) = @$case;
		my ($before, $resets) = ($s->pods('gang'), $s->vipu->{calls}{ResetPartition} // 0);
		$act->();
		like($s->wait_job('gang', 'Restarting')->{status}{lastMessage}, $words, "$what: it says so");
		my $early = 0;
		$s->wait_for('the next launcher', sub {
			my $now = $s->pods('gang');
			my $launcher = $now->{'gang-launcher'} // return undef;
			return undef if $launcher->{metadata}{uid} eq ($before->{'gang-launcher'}{metadata}{uid} // '');
			$early = 1 if grep { $before->{$_}{metadata}{uid} eq ($now->{$_}{metadata}{uid} // '') } qw(gang-worker-0 gang-worker-1);
			return $launcher->{status}{phase} eq 'Running';
		});
		ok(!$early, '… its launcher comes after all workers were replaced');
		is($s->wait_job('gang', 'Running')->{status}{restartCount}, ++$n, '… it counts');
		cmp_ok($s->vipu->{calls}{ResetPartition} // 0, '>', $resets, '… and the partition was reset');
	}
	$s->finish_pod('gang-launcher');
	is($s->wait_job('gang', 'Completed')->{status}{restartCount}, 4, 'at last it\'s done');
	return;
}

sub ($s) {
	$s->start(agents => 4, set => [qw(launcher.image=localhost/ipu-launcher:test jobs.restartBackoffSeconds=1 jobs.restartBackoffMaxSeconds=1)]);
	waits_for_workers($s);
	succeeds($s);
	fails($s);
	keeps_ipus($s);
	restarts($s);
};
