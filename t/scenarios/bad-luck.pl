# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Whatever ends a Pod counts as its run's failure, and is told in its own words: evicted, out of memory, deleted by hand
# or by a node that is drained. The whole gang is replaced.

use v5.36;
use Test::More;

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

sub ($s) {
	$s->start(agents => 4, set => ['jobs.restartBackoffSeconds=1']);
	my %cases = (
		evicted => [ sub ($pod) { $s->fail_pod($pod, 'evicted') }, qr/Evicted: The node was low on resource/ ],
		oom => [ sub ($pod) { $s->fail_pod($pod, 'oom') }, qr/container main exited with 137 \(OOMKilled\)/ ],
		removed => [ sub ($pod) { $s->delete('pods', $pod) }, qr/deleted before it ended/ ],
		moved => [ sub ($pod) {
			$s->must('POST', $s->path('pods', 'default', $pod, 'eviction'), json => { apiVersion => 'policy/v1',
				kind => 'Eviction', metadata => { name => $pod, namespace => 'default' } });
		}, qr/deleted before it ended/ ],
	);
	for my $what (sort keys %cases) {
		$s->create_job("luck-$what", ipus => 2, spec => { workersPerJobInstance => '2', restartPolicy => { type => 'OnFailure' } });
	}
	$s->wait_job("luck-$_", 'Running') for keys %cases;
	my %before = map { $_ => $s->pods("luck-$_") } keys %cases;
	$cases{$_}[0]->("luck-$_-worker-0") for sort keys %cases;
	my %said;
	$s->wait_for('all of them to restart', sub {
		for my $what (keys %cases) {
			my $status = $s->get_job("luck-$what")->{status};
			$said{$what} = $status->{lastMessage} if $status->{launcherStatus} eq 'Restarting';
		}
		return keys %said == keys %cases;
	});
	for my $what (sort keys %cases) {
		my $words = $cases{$what}[1];
		like($said{$what}, $words, "$what: the status says it");
		$s->wait_for('an Event', sub { grep { $_->{type} eq 'Warning' && $_->{message} =~ $words } $s->events("luck-$what") });
		pass('… and an Event');
		wait_next_gang($s, "luck-$what", $before{$what}, 0);
		is($s->wait_job("luck-$what", 'Running')->{status}{restartCount}, 1, '… it counts');
	}
};
