# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# The daemon is killed at random moments while many jobs come, run, fail and are deleted, on controllers
# that lose answers, go away and come back, and with an API server that does too. Whenever it's dead, and
# at the end, nothing may be lost, doubled or somebody else's.
# IPU_SEED=N plays the same once more.

use v5.36;
use Test::More;
use Time::HiRes qw(sleep);

my %size = (sim => { jobs => 60, kills => 50, pause => 0.7 }, real => { jobs => 100, kills => 5, pause => 3 });

# A job's fate: how many IPUs, how long, how it ends, and after how many kills it's deleted, if it is.
sub draw_fate ($number, $kills) {
	return { name => sprintf('job-%03d', $number), ipus => 2**int(rand 4), runs => int(1 + rand 12) / 10,
		exit => rand() < 0.2 ? 3 : 0, deleted_after => rand() < 0.15 ? int(rand $kills) : undef };
}

sub owner_of ($entry) { return "$entry->{owner}{uid}/$entry->{instance}" }

# While nobody works: what the tracker, the controllers and the Pods say must fit.
sub judge ($s, $when) {
	my @wrong;
	my %there = map { map { $_->{id} => $_ } $s->partitions($_) } 0 .. $s->controllers - 1;
	my $tracker = $s->tracker;
	push @wrong, map { "$_ is on a controller, and not in the tracker" }
		grep { !$there{$_}{byHand} && !$tracker->{$_} } sort keys %there;
	my %serving;
	for my $id (sort keys %$tracker) {
		my $entry = $tracker->{$id};
		next if $entry->{phase} !~ /^(creating|active|resetting)$/;
		push @wrong, "$id and $serving{ owner_of($entry) } are both of " . owner_of($entry)
			if $serving{ owner_of($entry) };
		$serving{ owner_of($entry) } = $id;
	}
	for my $pod ($s->list('pods', ns => 'default')) {
		my $id = $pod->{metadata}{annotations}{'graphcore.ai/partition'} // next;
		push @wrong, "$pod->{metadata}{name} runs without its partition $id"
			if $pod->{status}{phase} eq 'Running' && ($there{$id}{readyState} // '') ne 'PS_ACTIVE';
	}
	is_deeply(\@wrong, [], "$when: nothing is lost or doubled");
	return;
}

# One bad thing that a controller does next.
sub meddle ($s) {
	my @faults = map { { kind => $_->[0], method => $_->[1], status => 'UNKNOWN', count => 1, delayMs => 700 } }
		[ 'lose-reply', 'CreatePartition' ], [ 'act-cut', 'CreatePartition' ],
		[ 'late', 'CreatePartition' ], [ 'act-status', 'CreatePartition' ], [ 'act-cut', 'RemovePartition' ],
		[ 'status', 'GetPartitionStatus' ], [ 'slow', 'ListPartitions' ], [ 'end-in-error', 'CreatePartition' ];
	$s->tell_vipu('faults', $faults[ rand @faults ], int(rand $s->controllers));
	return;
}

# Away for a part of the daemon's next life.
sub outage ($s) {
	my $what = rand;
	return sub { } if $what > 0.4;
	if ($what < 0.15) {
		$s->api_goes;
		return sub { $s->api_comes };
	}
	my $which = int(rand $s->controllers);
	$s->tell_vipu('down', undef, $which);
	return sub { $s->tell_vipu('up', undef, $which) };
}

sub ($s) {
	my $seed = $ENV{IPU_SEED} // int(rand 1_000_000);
	my $plan = $size{ $s->is_real ? 'real' : 'sim' };
	srand($seed);
	diag("IPU_SEED=$seed");
	$s->start(controllers => 2, agents => 4, create_ms => 200, remove_ms => 150,
		set => [ 'vipu.callTimeoutSeconds=1' ]);
	$s->tell_vipu('partitions', { id => 'by-hand', size => 4 });
	my @fates = map { draw_fate($_, $plan->{kills}) } 1 .. $plan->{jobs};
	my @coming = @fates;

	for my $kill (1 .. $plan->{kills}) {
		for (1 .. 1 + $plan->{jobs} / $plan->{kills}) {
			my $fate = shift @coming // last;
			$s->create_job($fate->{name}, %$fate{qw(ipus runs exit)});
			$fate->{is_there} = 1;
		}
		for my $fate (grep { $_->{is_there} && ($_->{deleted_after} // $kill) < $kill } @fates) {
			$s->delete_job($fate->{name});
		}
		meddle($s) if rand() < 0.6;
		sleep(rand $plan->{pause});
		my $back = outage($s);
		sleep(rand $plan->{pause});
		$back->();
		$s->operator->crash;
		judge($s, "killed $kill times");
		$s->restart_operator;
	}
	my (@ends, @wanted);
	for my $fate (@fates) {
		push @wanted, "$fate->{name}: " . (defined $fate->{deleted_after} ? 'gone'
			: $fate->{exit} ? 'Failed' : 'Completed');
		if (defined $fate->{deleted_after}) {
			$s->delete_job($fate->{name});
			$s->wait_job_gone($fate->{name}, seconds => 60);
			push @ends, "$fate->{name}: gone";
			next;
		}
		my $job = $s->wait_for("the end of $fate->{name}", sub {
			my $job = $s->get_job($fate->{name});
			return $job->{status}{completionTime} ? $job : undef;
		}, seconds => 60);
		push @ends, "$fate->{name}: $job->{status}{launcherStatus}";
	}
	is_deeply(\@ends, \@wanted, 'every job has its right end');
	$s->wait_for('all partitions to go', sub { !%{ $s->tracker } }, seconds => 40);
	is_deeply([ map { map { $_->{id} } $s->partitions($_) } 0, 1 ], ['by-hand'],
		'no IPU is missing, and the hand-made partition is there');
	is_deeply([ map { @{ $s->vipu($_)->{ipus} }{qw(total free)} } 0, 1 ], [ 16, 12, 16, 16 ], 'counted by IPUs');
};
