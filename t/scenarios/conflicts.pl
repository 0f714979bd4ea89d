# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Objects of the names that a job with a launcher needs, and that are somebody else's: they are never touched, the
# job says which one is in its way, and goes on when it's gone.

use v5.36;
use Test::More;

my $rbac = 'rbac.authorization.k8s.io';
my %foreign = (
	configmaps => { name => 'config', apiVersion => 'v1', kind => 'ConfigMap', data => { mine => 'yes' } },
	serviceaccounts => { name => 'launcher', apiVersion => 'v1', kind => 'ServiceAccount' },
	roles => { name => 'launcher', apiVersion => "$rbac/v1", kind => 'Role', rules => [] },
	rolebindings => { name => 'launcher', apiVersion => "$rbac/v1", kind => 'RoleBinding', subjects => [],
		roleRef => { apiGroup => $rbac, kind => 'Role', name => 'somebody' } },
	pods => { name => 'launcher', apiVersion => 'v1', kind => 'Pod', spec => { terminationGracePeriodSeconds => 0,
		containers => [ { name => 'mine', image => 'localhost/busybox:test' } ] } },
);

sub ($s) {
	$s->start(agents => 2, set => ['launcher.image=localhost/ipu-launcher:test']);
	my %made;
	for my $kind (sort keys %foreign) {
		my %object = %{ $foreign{$kind} };
		my $name = "taken-$kind-" . delete $object{name};
		$made{$kind} = $s->create($kind, { %object, metadata => { name => $name } });
		$s->create_job("taken-$kind", ipus => 1, spec => { launcher => { command => ['mpirun'] } });
	}
	for my $kind (sort keys %foreign) {
		my ($job, $name) = ("taken-$kind", $made{$kind}{metadata}{name});
		like($s->wait_event($job, 'NameConflict')->{message}, qr/\Q$name\E/, "$kind: an Event names it");
		my $is = $s->wait_message($job, qr/\Q$name\E/);
		is($is->{status}{launcherStatus}, 'Pending', '… the job waits');
		ok(Scenario::is_true($is, 'Stalled'), '… and won\'t go on by itself: Stalled');
		ok(!$s->get('pods', "$job-launcher") || $kind eq 'pods', '… without a launcher');
	}
	$s->settle;
	for my $kind (sort keys %foreign) {
		my ($job, $name) = ("taken-$kind", $made{$kind}{metadata}{name});
		my $now = $s->get($kind, $name);
		is_deeply([ @{ $now->{metadata} }{qw(uid ownerReferences labels annotations deletionTimestamp)}, @$now{qw(data rules subjects)} ],
			[ @{ $made{$kind}{metadata} }{qw(uid ownerReferences labels annotations deletionTimestamp)}, @{ $made{$kind} }{qw(data rules subjects)} ],
			"$name is as it was");
		$s->delete($kind, $name);
	}
	for my $kind (sort keys %foreign) {
		my $job = "taken-$kind";
		$s->wait_job($job, 'Running', seconds => 60);
		my $now = $s->get($kind, $made{$kind}{metadata}{name});
		is($now->{metadata}{ownerReferences}[0]{name}, $job, "$kind: when it's gone, the job makes its own, and runs");
		$s->finish_pod("$job-launcher");
	}
	$s->wait_job("taken-$_", 'Completed') for keys %foreign;
};
