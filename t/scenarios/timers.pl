# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because times are measured
#
# What happens to a job when its time has come, and neither earlier nor much later, also when the operator was away:
# activeDeadlineSeconds, ttlSecondsAfterFinished, interactive.ttl.

use v5.36;
use IpuTest ();
use Test::More;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

sub seconds_of ($text) {
	my ($y, $mon, $d, $h, $min, $s) = $text =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):([\d.]+)Z$/ or die "$text: no time\n";
	return timegm(0, $min, $h, $d, $mon - 1, $y) + $s;
}

sub deadline ($s) {
	my $patience = $s->is_real ? 4 : 2;
	# They share the IPUs: while the first has them, the others' time doesn't run.
	$s->create_job('holder', ipus => 8, spec => { activeDeadlineSeconds => 3, restartPolicy => { type => 'OnFailure' } });
	$s->wait_job('holder', 'Running');
	my $began = time;
	$s->create_job('queued', ipus => 8, spec => { activeDeadlineSeconds => 2, workersPerJobInstance => '2' });
	$s->wait_message('queued', qr/waiting for 8 IPUs/);
	$s->operator->crash;
	$s->restart_operator;
	my $job = $s->wait_job('holder', 'Failed');
	my $took = time - $began;
	cmp_ok($took, '>=', 1.9, sprintf('activeDeadlineSeconds 3: over after %.1f s', $took));
	cmp_ok($took, '<', 3 + $patience, '… and not much later, though the operator was killed meanwhile');
	like($job->{status}{lastMessage}, qr/DeadlineExceeded/, '… it says why');
	is($job->{status}{restartCount} // 0, 0, '… and isn\'t restarted');
	ok($job->{status}{completionTime}, '… it\'s over');
	$s->wait_for('its Pod to go', sub { !$s->get_worker('holder') });
	$job = $s->wait_job('queued', 'Running');
	$began = time;
	pass('one whose deadline is shorter than its time in the queue runs nevertheless');
	$s->wait_job('queued', 'Failed');
	$took = time - $began;
	cmp_ok($took, '>=', 0.9, sprintf('… and has its time: %.1f s', $took));
	$s->wait_for('all IPUs to come back', sub { !$s->partitions });
	is_deeply([ keys %{ $s->pods('queued') } ], [], 'none of its Pods is left running');
	return;
}

sub ttl ($s) {
	$s->create_job('brief', runs => 0, spec => { ttlSecondsAfterFinished => 2 });
	$s->create_job('at-once', runs => 0, spec => { ttlSecondsAfterFinished => 0, cleanPodPolicy => 'All' });
	$s->create_job('kept-for-ever', runs => 0, exit => 1);
	my $end = seconds_of($s->wait_job('brief', 'Completed')->{status}{completionTime});
	$s->wait_job_gone('at-once');
	pass('ttlSecondsAfterFinished 0: it\'s gone');
	$s->wait_job('kept-for-ever', 'Failed');
	$s->create_job('meanwhile', runs => 0, exit => 1, spec => { ttlSecondsAfterFinished => 3 });
	my $away = seconds_of($s->wait_job('meanwhile', 'Failed')->{status}{completionTime});
	$s->wait_job_gone('brief');
	my $late = time - $end - 2;
	cmp_ok($late, '>=', 0, sprintf('2: gone %.1f s after that', $late));
	cmp_ok($late, '<', $s->is_real ? 5 : 2.5, '… which isn\'t late');
	$s->operator->crash;
	$s->wait_for('its time to come', sub { time > $away + 3 });
	ok($s->get_job('meanwhile'), '3: its time comes while nobody is there');
	my $back = time;
	$s->restart_operator;
	$s->wait_job_gone('meanwhile');
	cmp_ok(time - $back, '<', $s->is_real ? 6 : 3, '… and it goes as soon as somebody is');
	ok($s->get_job('kept-for-ever'), 'without it, a job stays');
	ok(!$s->get_worker($_), "$_: its Pods went, too") for qw(brief at-once meanwhile);
	return;
}

sub interactive ($s) {
	my $job = $s->job('session', ipus => 2, spec => { interactive => { ttl => 3 }, workersPerJobInstance => '2' });
	$s->create('ipujobs', $job);
	my $launcher = $s->wait_pod('session-launcher', 'Running');
	like(join(' ', @{ $launcher->{spec}{containers}[0]{command} }, @{ $launcher->{spec}{containers}[0]{args} // [] }),
		qr/\binit --for 3\b/, 'interactive: its launcher runs nothing, for so many seconds');
	$s->wait_job('session', 'Running');
	$s->finish_pod('session-launcher');
	my $end = $s->wait_job('session', 'Completed');
	ok($end->{status}{completionTime}, '… then the job is over');
	$s->wait_for('its IPUs to come back', sub { !grep { $_->{id} =~ /^session-/ } $s->partitions });
	pass('… and gives its IPUs back');
	return;
}

sub ($s) {
	$s->start(agents => 2, set => ['launcher.image=localhost/ipu-launcher:test']);
	deadline($s);
	ttl($s);
	interactive($s);
};
