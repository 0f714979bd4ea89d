# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Two replicas that were told to lead without a Lease fight over one tracker and the same jobs. It's a
# mistake in a configuration, and costs time; no partition may be doubled or lost by it.

use v5.36;
use Test::More;

sub ($s) {
	my $jobs = 12;
	$s->start(controllers => 2, agents => 4, create_ms => 200, remove_ms => 150,
		set => [ 'leaderElection.enabled=false' ]);
	my $other = $s->another_operator;
	$s->create_job("job-$_", ipus => 4, runs => 1) for 1 .. $jobs;
	# Behind faults the one may list Pods, the other make one and write that it was there, and the first read that and take the Pod
	# for deleted. Where a Lease says who leads, nobody writes between.
	my $ends = $ENV{IPU_FAULTS} ? qr/Completed|Failed: worker Pod job-\d+-worker-0 was deleted before it ended/ : 'Completed';
	for my $name (map { "job-$_" } 1 .. $jobs) {
		my $status = $s->wait_for("the end of $name", sub {
			my $now = $s->get_job($name)->{status};
			return $now->{completionTime} ? $now : undef;
		}, seconds => 120);
		like($status->{launcherStatus} eq 'Failed' ? "Failed: $status->{lastMessage}" : $status->{launcherStatus}, qr/^(?:$ends)$/, "$name has its end");
	}
	$s->wait_for('all partitions to go', sub { !%{ $s->tracker } && !map { $s->partitions($_) } 0, 1 },
		seconds => 120);
	is_deeply([ map { @{ $s->vipu($_)->{ipus} }{qw(total free)} } 0, 1 ], [ 16, 16, 16, 16 ], 'no IPU is missing');
	$other->stop;
};
