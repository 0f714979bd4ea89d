#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Two and three replicas of each role, as the chart installs them, while people submit jobs and ask for things all the time: those that
# lead are stopped, killed and cut off from the API server. Somebody else goes on, within a second or when the Lease has run
# out, nothing is made twice, and all replicas answer reviews and statistics throughout.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Install;
use IpuTest;
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(sleep time);

my $i = Cluster::Install->up;
my ($c, $s) = ($i->c, $i->s);
my $ns = $Cluster::Install::ns;
my %lease = (controller => 'ipu-operator-controller', proxy => 'ipu-operator-partitions');
my %deployment = (controller => 'ipu-operator-controller-manager', proxy => 'ipu-operator-vipu-proxy');
my @accidents;

# What is promised after an accident, in seconds: others lead when the Lease has run out, not before its holder has stopped, and work, so
# that a job has its IPUs, soon after. The margin is for what the test itself takes on a loaded machine: between two looks, and to make a job.
my %promise = (stopped => 8, leads => 12, works => 15);
my $margin = 3;

# After a clean stop: each of them within so many seconds on any machine, and all but one within one, from when the old one was last seen to
# lead until the next one does; half of them even until a job has its IPUs.
my $handed_over = 3;
my (@handovers, @idles);

# The time at which processes are killed. Requests may fail from then on until each node's kube-proxy has heard of it: the kubelet looks at
# its containers, writes the Pod's status, and the slices of the Services follow. So long, and no more than this share of all.
my ($unrouted, $most_lost) = (10, 0.05);
sub accident () { push @accidents, time; return $accidents[-1] }
sub is_excused ($answer) {
	return scalar grep { $answer->{at} + $answer->{took} >= $_ && $answer->{at} <= $_ + $unrouted } @accidents;
}

# What a clean stop is judged by: for how long nobody led, and until somebody worked.
sub judge_handover ($role, $gap, $idle) {
	push @handovers, $gap;
	push @idles, $idle;
	cmp_ok($gap, '<', $handed_over, "$role: the next one leads at once, not when the Lease runs out");
	cmp_ok($idle, '<', 2 * $handed_over, '… and works');
	return;
}

sub replicas ($count) { return { controller => { replicas => $count }, vipuProxy => { replicas => $count } } }

sub leader ($role) { return $i->leader($lease{$role}) }

# Those that the Service of the webhooks, or of the proxy, has.
sub served ($service) {
	my $list = $c->get('endpointslices', '-n', $ns, '-l', "kubernetes.io/service-name=ipu-operator-$service");
	return map { $_->{targetRef}{name} } grep { $_->{conditions}{ready} } map { @{ $_->{endpoints} // [] } } @{ $list->{items} };
}

sub wait_served ($count) {
	for my $service (qw(webhook-svc vipu-proxy)) {
		$s->wait_for("$count behind $service", sub { served($service) == $count }, seconds => 60);
	}
	return;
}

# Waits until these Pods are out of their Services; how long that took.
sub wait_dropped ($since, %pod) {
	my %service = (controller => 'webhook-svc', proxy => 'vipu-proxy');
	for my $role (sort keys %pod) {
		$s->wait_for("$pod{$role} to leave $service{$role}", sub { !grep { $_ eq $pod{$role} } served($service{$role}) }, seconds => 60);
	}
	my $took = time - $since;
	diag(sprintf 'out of the Services after %.1f s', $took);
	return $took;
}

# Makes a job; tries again where the API server has asked one that has just died.
sub insist ($name) {
	my $job = $s->job($name, ipus => 4, runs => 0.1);
	my $path = $s->path('ipujobs', 'default');
	$i->count_other;
	$s->wait_for("$name to be made", sub { $s->request('POST', $path, json => $job)->{status} =~ /^(?:201|409)$/ });
	return;
}

# Makes a job and sees it through: the time at which it had its IPUs.
my $probes = 0;

sub run_job () {
	my $name = 'probe-' . ++$probes;
	insist($name);
	$s->wait_for("the partition of $name", sub { grep { $_->{size} == 4 } $s->partitions }, seconds => 60);
	my $acted = time;
	$s->wait_job($name, 'Completed', seconds => 60);
	$s->wait_for("$name to give its IPUs back", sub { !grep { $_->{size} == 4 } $s->partitions });
	return $acted;
}

# Within which time somebody works after an accident, on this machine as loaded as it is now.
sub works_within () {
	my $since = time;
	my $usual = run_job() - $since;
	diag(sprintf 'a job has its IPUs after %.2f s while nothing is wrong', $usual);
	return $promise{works} + $margin + min(3 * $usual, 3);
}

# Waits until others lead than before, by role, and then for the partition of a job that is made at that time: how long the first
# took, from $since on; how long nobody led; how long nobody worked.

sub wait_successor ($what, $since, %before) {
	my %after;
	my $last = $since;
	$s->wait_for("others to lead than $before{$_}", sub {
		my $holder = leader($_);
		$last = time if $holder eq $before{$_};
		return $holder ne '' && $holder ne $before{$_};
	}, seconds => 60) for sort keys %before;
	my $led = time;
	my $acted = run_job();
	diag(sprintf '%s: others lead after %.2f s, %.2f s after it was last seen to lead; a job has its IPUs %.2f s later',
		$what, $led - $since, $led - $last, $acted - $led);
	return ($led - $since, $led - $last, $acted - $last, $acted - $since);
}

# The process of a Pod's container, on this machine.
sub process_of ($pod) {
	my ($pid) = grep { (slurp("/proc/$_/environ") // '') =~ /(?:\A|\0)IPUOPERATOR_LEADER_ELECTION_IDENTITY=\Q$pod\E\0/ }
		$i->back->processes(qr/ipu-operator/);
	return $pid // die "no process of $pod\n";
}

sub pod_of ($name) { return $c->get('pod', $name, '-n', $ns) }

# From here on what the Pod sends to the API server is lost, or not any more.
sub cut ($pod, $how) {
	my $done = $c->command([ 'iptables', $how, 'FORWARD', '-s', $pod->{status}{podIP}, '-d', $c->address, '-p', 'tcp',
		'--dport', '6443', '-j', 'DROP' ], node => $pod->{spec}{nodeName});
	die "iptables: $done->{err}\n" if $done->{status};
	return;
}

$i->install(replicas(2));
wait_served(2);
for my $role (sort keys %deployment) {
	my @pods = $i->pods($deployment{$role});
	is(scalar @pods, 2, "$role: two");
	my %node = map { $_->{spec}{nodeName} => 1 } @pods;
	is(scalar keys %node, 2, '… on two nodes');
}
$i->begin_traffic('two');

subtest 'two, and the one that leads is stopped' => sub {
	for my $role (qw(controller proxy)) {
		my $old = leader($role);
		my $since = time;
		$s->delete('pods', $old, ns => $ns);
		my ($led, $gap, $idle) = wait_successor("$role stopped", $since, $role => $old);
		judge_handover($role, $gap, $idle);
		wait_served(2);
	}
};

subtest 'two, and the one that leads is killed' => sub {
	my $within = works_within();
	for my $role (qw(controller proxy)) {
		my $name = leader($role);
		my $process = process_of($name);
		my $since = accident();
		kill('KILL', $process);
		insist("killed-$role");
		$s->wait_for('the partition of a job', sub { grep { $_->{size} == 4 } $s->partitions }, seconds => 60);
		my $took = time - $since;
		diag(sprintf '%s killed: a job has its IPUs %.2f s later', $role, $took);
		cmp_ok($took, '<', $within, "$role: somebody works");
		$s->wait_job("killed-$role", 'Completed', seconds => 60);
		wait_served(2);
	}
};

subtest 'two, and those that lead are gone for good' => sub {
	my $within = works_within();
	my %old = map { $_ => leader($_) } keys %lease;
	my @processes = map { process_of($_) } values %old;
	my $since = accident();
	kill('KILL', @processes);
	$c->kubectl(qw(-n), $ns, qw(delete pod --force --grace-period=0), values %old);
	my ($led, undef, undef, $worked) = wait_successor('both gone', $since, %old);
	cmp_ok($led, '>', $promise{stopped}, 'not before the Lease has run out');
	cmp_ok($led, '<', $promise{leads} + $margin, '… and soon after');
	cmp_ok($worked, '<', $within, '… and works');
	wait_served(2);
};

$i->end_traffic(excuse => \&is_excused, most => $most_lost);

$i->upgrade(replicas(3));
wait_served(3);
$i->begin_traffic('three');

subtest 'three, and those that lead are cut off' => sub {
	my $within = works_within();
	my %old = map { $_ => leader($_) } keys %lease;
	my %pod = map { $_ => pod_of($old{$_}) } keys %old;
	my $since = time;
	cut($_, '-I') for values %pod;
	my $dropped = wait_dropped($since, %old);
	cmp_ok($dropped, '<', $promise{leads}, 'nobody is sent there any more before the Lease has run out');
	my ($led, undef, undef, $worked) = wait_successor('both cut off', $since, %old);
	cmp_ok($led, '>', $promise{stopped}, 'not before the Lease has run out');
	cmp_ok($led, '<', $promise{leads} + $margin, '… and soon after');
	cmp_ok($worked, '<', $within, '… and works');
	for my $role (sort keys %pod) {
		my $ready = $i->fetch('GET', "http://$pod{$role}{status}{podIP}:8081/readyz");
		is($ready->{status}, 503, "$role: the one that is cut off isn't ready");
		like($ready->{content}, qr/api: no word from the API server/, '… and says why');
	}
	wait_served(2);
	cut($_, '-D') for values %pod;
	wait_served(3);
	isnt(leader($_), $old{$_}, "$_: it follows") for sort keys %old;
};

subtest 'three, and the ones that lead are stopped, one after the other' => sub {
	for my $role (qw(controller proxy)) {
		my $old = leader($role);
		my $since = time;
		$s->delete('pods', $old, ns => $ns);
		my ($led, $gap, $idle) = wait_successor("$role stopped", $since, $role => $old);
		judge_handover($role, $gap, $idle);
	}
	wait_served(3);
};

# Nobody is excused: who has lost the API server sends reviews to those that have it.
$i->end_traffic(within => 10);
@handovers = sort { $a <=> $b } @handovers;
@idles = sort { $a <=> $b } @idles;
cmp_ok($handovers[-2], '<', 1, 'after all clean stops but one, the next one leads within a second');
# Of these the quickest: others on the machine hold up a job's IPUs, too.
cmp_ok($idles[0], '<', 1, '… and after the quickest a job has its IPUs by then');
ok(!$s->vipu->{broken}, 'no IPU was ever in two partitions');
$i->down;
done_testing;
