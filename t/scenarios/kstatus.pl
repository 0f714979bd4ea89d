# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What tools that wait for any kind of object make of a job (Argo CD, Flux, `kubectl wait`). Their rule, kstatus, in our
# words: what is being deleted terminates; while observedGeneration is behind, or Reconciling is True, it's on its way;
# Stalled True is a failure; where none of that is said, it's as it should be.

use v5.36;
use Test::More;

sub kstatus ($object) {
	my $status = $object->{status} // {};
	return 'Terminating' if $object->{metadata}{deletionTimestamp};
	return 'InProgress' if ($status->{observedGeneration} // $object->{metadata}{generation}) != $object->{metadata}{generation};
	return 'Failed' if Scenario::is_true($object, 'Stalled');
	return 'InProgress' if Scenario::is_true($object, 'Reconciling');
	return 'Current';
}

# From now on until it is so, it may only be what is named before.
sub becomes ($s, $name, $want, $what, %option) {
	my %seen;
	my $job = $s->wait_for("$name to be $want", sub {
		my $job = $s->get_job($name);
		my $now = kstatus($job);
		$seen{$now} = 1;
		return $now eq $want && ($job->{status}{launcherStatus} // '') =~ ($option{status} // qr/./) ? $job : undef;
	});
	my %may = map { $_ => 1 } $want, @{ $option{by} // ['InProgress'] };
	is_deeply([ grep { !$may{$_} } sort keys %seen ], [], "$what: $want, and nothing wrong before");
	ok(!(Scenario::is_true($job, 'Stalled') && Scenario::is_true($job, 'Reconciling')), '… never both of the pair');
	return $job;
}

sub ($s) {
	$s->start(agents => 1, create_ms => 500, set => ['jobs.restartBackoffSeconds=1']);
	is(kstatus($s->create_job('k-new', spec => { suspend => JSON::PP::true })), 'InProgress', 'one that nobody has looked at');
	$s->create_job('k-runs', spec => { restartPolicy => { type => 'OnFailure' } });
	my $job = becomes($s, 'k-runs', 'Current', 'a job that runs', status => qr/Running/);
	is($job->{status}{observedGeneration}, 1, 'the generation that was looked at');
	$s->create_job('k-waits');
	becomes($s, 'k-waits', 'InProgress', 'one that waits for IPUs', status => qr/Pending/);
	$s->wait_message('k-waits', qr/waiting for 4 IPUs/);
	is(kstatus($s->get_job('k-waits')), 'InProgress', '… however long');

	my $pod = $s->get_worker('k-runs');
	$s->end_pod('k-runs', 1);
	becomes($s, 'k-runs', 'InProgress', 'one that restarts', status => qr/Restarting/, by => ['Current']);
	$s->wait_pod('k-runs-worker-0', 'Running', after => $pod);
	becomes($s, 'k-runs', 'Current', 'when it has', status => qr/Running/);

	$s->patch('ipujobs', 'k-waits', { spec => { suspend => JSON::PP::true } });
	$job = becomes($s, 'k-waits', 'Current', 'one that is suspended', status => qr/Suspended/);
	is($job->{status}{observedGeneration}, 2, '… each change is acknowledged');
	$s->patch('ipujobs', 'k-waits', { metadata => { labels => { any => 'thing' } } });
	$s->settle;
	is($s->get_job('k-waits')->{status}{observedGeneration}, 2, '… a label isn\'t one');

	$s->end_pod('k-runs');
	$job = becomes($s, 'k-runs', 'Current', 'one that is done', status => qr/Completed/, by => [qw(InProgress Current)]);
	$s->create_job('k-fails', exit => 1, runs => 0);
	becomes($s, 'k-fails', 'Failed', 'one that has failed', by => [qw(InProgress Current)]);
	$s->create('pods', { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'k-taken-worker-0' },
		spec => { containers => [ { name => 'mine', image => 'x' } ], terminationGracePeriodSeconds => 0 } });
	$s->create_job('k-taken');
	becomes($s, 'k-taken', 'Failed', 'one whose name is taken');
	$s->delete('pods', 'k-taken-worker-0');
	becomes($s, 'k-taken', 'Current', 'when it\'s free', by => [qw(Failed InProgress)]);
	$s->patch('pods', 'k-taken-worker-0', { metadata => { finalizers => ['test/hold'] } });
	$s->delete_job('k-taken');
	is(kstatus($s->get_job('k-taken')), 'Terminating', 'one that is deleted');
	$s->patch('pods', 'k-taken-worker-0', { metadata => { finalizers => undef } });
	$s->wait_job_gone('k-taken');
};
