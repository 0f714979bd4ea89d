# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# The daemon is killed at random moments while annotated Pods come, run, end and are deleted, also while it's dead.
# Whenever it's dead, and at the end, nothing may be lost, doubled or somebody else's. IPU_SEED=N plays the same once more.

use v5.36;
use Scenario::Annotated qw(create_pod partition_of is_gated end_of_all kill_pod);
use Test::More;
use Time::HiRes qw(sleep);

my %size = (sim => { pods => 50, kills => 16, pause => 0.5 }, real => { pods => 60, kills => 5, pause => 3 });

# While nobody works: what the tracker, the controllers and the Pods say must fit.
sub judge ($s, $when) {
	my @wrong;
	my $tracker = $s->tracker;
	my %there = map { map { $_->{id} => $_ } $s->partitions($_) } 0 .. $s->controllers - 1;
	push @wrong, map { "$_ is on a controller, and not in the tracker" } grep { !$tracker->{$_} } sort keys %there;
	my %serving;
	for my $id (grep { $tracker->{$_}{phase} =~ /^(creating|active|resetting)$/ } sort keys %$tracker) {
		my $uid = $tracker->{$id}{owner}{uid};
		push @wrong, "$id and $serving{$uid} are both of $uid" if $serving{$uid};
		$serving{$uid} = $id;
	}
	for my $pod ($s->list('pods', ns => 'default', labels => 'graphcore.ai/pod')) {
		my $id = partition_of($pod);
		next if is_gated($pod) || $pod->{status}{phase} !~ /^(Pending|Running)$/ || $pod->{metadata}{deletionTimestamp};
		push @wrong, "$pod->{metadata}{name} is let go without its partition $id"
			if ($there{$id}{readyState} // '') ne 'PS_ACTIVE' || ($tracker->{$id}{owner}{uid} // '') ne $pod->{metadata}{uid};
	}
	is_deeply(\@wrong, [], "$when: nothing is lost or doubled");
	return;
}

sub ($s) {
	my $seed = $ENV{IPU_SEED} // int(rand 1_000_000);
	my $plan = $size{ $s->is_real ? 'real' : 'sim' };
	srand($seed);
	diag("IPU_SEED=$seed");
	$s->start(controllers => 2, agents => 4, create_ms => 150, remove_ms => 100, set => ['vipu.callTimeoutSeconds=1']);
	my ($made, %deleted) = (0);
	for my $kill (1 .. $plan->{kills}) {
		for (1 .. 1 + $plan->{pods} / $plan->{kills}) {
			create_pod($s, "p-$made", ipus => 2**int(rand 4), runs => int(1 + rand 12) / 10, exit => rand() < 0.2 ? 3 : 0);
			$made++;
		}
		$s->tell_vipu('faults', { kind => (qw(act-cut late lose-reply))[rand 3], method => 'CreatePartition',
			status => 'UNKNOWN', count => 1, delayMs => 700 }, int(rand 2)) if rand() < 0.4;
		sleep(rand $plan->{pause});
		my $victim = 'p-' . int(rand $made);
		$deleted{$victim} = 1 if rand() < 0.5;
		$s->delete('pods', $victim) if $deleted{$victim};
		sleep(rand $plan->{pause});
		$s->operator->crash;
		judge($s, "killed $kill times");
		if (rand() < 0.3) { # while nobody looks
			$victim = 'p-' . int(rand $made);
			$deleted{$victim} = 1;
			kill_pod($s, $victim);
		}
		$s->restart_operator;
	}
	for my $name (grep { !$deleted{$_} } map { "p-$_" } 0 .. $made - 1) {
		$s->wait_for("$name to end", sub {
			($s->get('pods', $name) // {})->{status}{phase} =~ /^(Succeeded|Failed)$/
		}, seconds => 90);
	}
	pass("all $made Pods have run, but for those that were deleted");
	$s->wait_for('all IPUs to come back', sub { !%{ $s->tracker } }, seconds => 60);
	end_of_all($s);
	is_deeply([ map { @{ $s->vipu($_)->{ipus} }{qw(total free)} } 0, 1 ], [ 16, 16, 16, 16 ], 'counted by IPUs');
};
