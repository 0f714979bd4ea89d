# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A suspended job has no Pods and no IPUs, whenever it was suspended; it goes on with what is written in it then.

use v5.36;
use Test::More;

sub suspend ($s, $name, $yes) {
	return $s->patch('ipujobs', $name, { spec => { suspend => $yes ? JSON::PP::true : JSON::PP::false } });
}

sub has_nothing ($s, $name, $when) {
	$s->wait_for("$name to have nothing", sub {
		return !%{ $s->pods($name) } && !(grep { $_->{id} =~ /^$name-/ } $s->partitions) && !(grep { /^$name-/ } keys %{ $s->tracker });
	});
	my $job = $s->wait_job($name, 'Suspended');
	ok(Scenario::is_true($job, 'Suspended'), "$when: Suspended, without Pods and IPUs");
	ok(!Scenario::is_true($job, $_), "… and not $_") for qw(Pending Running Reconciling);
	is($job->{status}{currentReplicas} // 0, 0, '… nothing runs');
	return $job;
}

sub from_the_start ($s) {
	$s->create_job('asleep', spec => { suspend => JSON::PP::true });
	my $job = has_nothing($s, 'asleep', 'from the start');
	ok(Scenario::is_true($job, 'Created'), 'it was created');
	ok(!$job->{status}{startTime}, 'and has no startTime');
	like($s->wait_event('asleep', 'JobSuspended')->{message}, qr/suspended/, 'an Event says so');
	suspend($s, 'asleep', 0);
	$job = $s->wait_job('asleep', 'Running');
	ok($job->{status}{startTime}, 'it goes on when it may, and has begun then');
	ok(!Scenario::is_true($job, 'Suspended') && Scenario::condition_of($job, 'Suspended'), '… and was suspended');
	return;
}

# Its template is changed meanwhile.
sub while_it_runs ($s) {
	my ($before) = map { $_->{id} } $s->partitions;
	my $pod = $s->get_worker('asleep');
	suspend($s, 'asleep', 1);
	has_nothing($s, 'asleep', 'while it runs');
	is($s->get_job('asleep')->{status}{restartCount} // 0, 0, '… that is no restart');
	my $template = $s->get_job('asleep')->{spec}{workers}{template};
	$template->{spec}{containers}[0]{env} = [ { name => 'LEARNING_RATE', value => '3' } ];
	$s->patch('ipujobs', 'asleep', { spec => { workers => { template => $template } } });
	suspend($s, 'asleep', 0);
	my $next = $s->wait_pod('asleep-worker-0', 'Running', after => $pod);
	is(Scenario::environment($next)->{LEARNING_RATE}, '3', 'what is changed meanwhile counts from the resumption on');
	my $job = $s->wait_job('asleep', 'Running');
	my ($after) = map { $_->{id} } $s->partitions;
	isnt($after, $before, '… on other IPUs');
	return;
}

sub in_the_queue ($s) {
	$s->create_job('dozes');
	$s->wait_message('dozes', qr/waiting for 4 IPUs/);
	suspend($s, 'dozes', 1);
	$s->wait_job('dozes', 'Suspended');
	$s->wait_for('it to leave the queue', sub { !%{ $s->tracker_waits } });
	pass('while it waits: it leaves the queue');
	suspend($s, 'dozes', 0);
	$s->wait_message('dozes', qr/waiting for 4 IPUs, place 1/);
	suspend($s, 'asleep', 1);
	$s->wait_job('dozes', 'Running');
	pass('… and comes back, and gets what others leave');
	has_nothing($s, 'asleep', 'while another one waits');
	$s->end_pod('dozes');
	$s->wait_job('dozes', 'Completed');
	return;
}

# What is on its way out ends before anything begins.
sub too_soon ($s) {
	$s->create_job('hasty', spec => { workersPerJobInstance => '2' });
	$s->wait_job('hasty', 'Running');
	my $before = $s->pods('hasty');
	$s->patch('pods', 'hasty-worker-1', { metadata => { finalizers => ['test/hold'] } });
	suspend($s, 'hasty', 1);
	$s->wait_for('the other Pod to go', sub { !$s->get('pods', 'hasty-worker-0') });
	my ($partition) = map { $_->{id} } grep { $_->{id} =~ /^hasty-/ } $s->partitions;
	suspend($s, 'hasty', 0);
	$s->wait_for('it to hear of that', sub { my $j = $s->get_job('hasty'); $j->{status}{observedGeneration} == $j->{metadata}{generation} });
	is_deeply([ keys %{ $s->pods('hasty') } ], ['hasty-worker-1'], 'resumed while a Pod ends: nothing begins beside it');
	$s->patch('pods', 'hasty-worker-1', { metadata => { finalizers => undef } });
	$s->wait_pod("hasty-worker-$_", 'Running', after => $before->{"hasty-worker-$_"}) for 0, 1;
	$s->wait_job('hasty', 'Running');
	is(scalar(grep { $_->{id} =~ /^hasty-/ } $s->partitions), 1, 'then all of it does, on one partition');
	$s->finish_pod("hasty-worker-$_") for 0, 1;
	$s->wait_job('hasty', 'Completed');
	return;
}

# Suspending defeats no wait: after it, too, a launcher is made when all workers are Ready.
sub with_a_launcher ($s) {
	$s->create_job('choir', ipus => 2, unready => 1, spec => { workersPerJobInstance => '2', launcher => { command => ['mpirun'] } });
	$s->wait_pod("choir-worker-$_", 'Running') for 0, 1;
	$s->set_ready("choir-worker-$_") for 0, 1;
	my $launcher = $s->wait_pod('choir-launcher', 'Running');
	$s->wait_job('choir', 'Running');
	my $before = $s->pods('choir');
	suspend($s, 'choir', 1);
	has_nothing($s, 'choir', 'with a launcher');
	suspend($s, 'choir', 0);
	$s->wait_pod("choir-worker-$_", 'Running', after => $before->{"choir-worker-$_"}) for 0, 1;
	$s->set_ready('choir-worker-1');
	$s->settle;
	ok(!$s->get('pods', 'choir-launcher'), 'resumed: no launcher while a worker isn\'t Ready');
	$s->set_ready('choir-worker-0');
	$s->wait_pod('choir-launcher', 'Running');
	$s->wait_job('choir', 'Running');
	$s->finish_pod('choir-launcher');
	$s->wait_job('choir', 'Completed');
	pass('… one when they all are');
	return;
}

sub ($s) {
	$s->start(agents => 1, set => ['launcher.image=localhost/ipu-launcher:test']);
	from_the_start($s);
	while_it_runs($s);
	in_the_queue($s);
	too_soon($s);
	with_a_launcher($s);
	suspend($s, 'asleep', 1);
	$s->delete_job('asleep');
	$s->wait_job_gone('asleep');
	pass('one that is suspended is deleted like any other');
};
