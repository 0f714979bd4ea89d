# SPDX-License-Identifier: Apache-2.0
#
# Nobody gets more through an IPUJob than through Pods of their own: who may not create Pods is refused, and
# so is what the namespace's Pod Security level wouldn't take.
# Runs: both (sim, scale)

use v5.36;
use Test::More;

my $rbac = 'rbac.authorization.k8s.io';

# Alice may do everything with jobs, and nothing with Pods; Bob both.
sub give_rights ($s) {
	if (!$s->is_real) {
		$s->tell_sim('/sim/api/deny', json => { user => 'alice', resource => 'pods', verb => 'create' });
		return;
	}
	my %rules = (alice => [ { apiGroups => ['graphcore.ai'], resources => ['ipujobs'], verbs => ['*'] } ]);
	$rules{bob} = [ @{ $rules{alice} }, { apiGroups => [''], resources => ['pods'], verbs => ['*'] } ];
	for my $user (sort keys %rules) {
		$s->create('roles', { apiVersion => "$rbac/v1", kind => 'Role', metadata => { name => $user }, rules => $rules{$user} });
		$s->create('rolebindings', { apiVersion => "$rbac/v1", kind => 'RoleBinding', metadata => { name => $user },
			roleRef => { apiGroup => $rbac, kind => 'Role', name => $user }, subjects => [ { apiGroup => $rbac, kind => 'User', name => $user } ] });
	}
	return;
}

sub create_as ($s, $user, $job) {
	return $s->request('POST', $s->path('ipujobs', 'default'), json => $job, headers => { 'impersonate-user' => $user });
}

sub ($s) {
	$s->start(webhook => 1);
	give_rights($s);
	my $answer = create_as($s, 'alice', $s->job('hers'));
	is($answer->{status}, 403, 'who may not create Pods may not create jobs') or diag($answer->{content});
	like($answer->{json}{message}, qr/admission webhook "vipujob\.graphcore\.ai" denied the request: user "alice" may not create Pods/, '… and is told why');
	$answer = create_as($s, 'bob', $s->job('his', runs => 0.1));
	is($answer->{status}, 201, 'who may create Pods may') or diag($answer->{content});
	$s->wait_job('his', 'Completed');

	$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'strict',
		labels => { 'pod-security.kubernetes.io/enforce' => 'restricted' } } });
	$answer = $s->try_create('ipujobs', $s->job('strict'), ns => 'strict');
	ok(!$answer->{success}, 'a namespace that takes only restricted Pods takes no other job') or diag($answer->{content});
	like($answer->{json}{message}, qr/denied the request: .*restricted/s, '… and the level is named');
	like($answer->{json}{message}, qr/spec\.workers\.template\.spec\S*securityContext/, '… and the fields');
	$s->delete('namespaces', 'strict');
	if ($s->is_real) {
		for my $user (qw(alice bob)) { $s->delete($_, $user) for qw(rolebindings roles) }
	}
};
