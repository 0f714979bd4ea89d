# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because an access review that fails refuses, and each answer is looked at
#
# Nobody gets more through an IPUJob than through Pods of his own: the webhook asks the API server
# whether the requester may create Pods, and exec into them, whether the namespace's Pod Security
# level takes the job's Pods, and by a dry run whether it takes them at all.

use v5.36;
use Test::More;

# What a user may do: in a real cluster by RBAC, where nobody may anything; in the simulator by what is
# forbidden, where everybody may all.
sub allow ($s, $user, %may) {
	if (!$s->is_real) {
		$s->tell_sim('/sim/api/deny', method => 'DELETE');
		$s->tell_sim('/sim/api/deny', json => { user => $user, resource => 'pods', verb => 'create' }) if !$may{pods};
		$s->tell_sim('/sim/api/deny', json => { user => $user, resource => 'pods', subresource => 'exec' }) if !$may{exec};
		return;
	}
	my @rules = ({ apiGroups => ['graphcore.ai'], resources => ['ipujobs'], verbs => [ 'create', 'update', 'patch', 'get' ] });
	push @rules, { apiGroups => [''], resources => ['pods'], verbs => ['create'] } if $may{pods};
	push @rules, { apiGroups => [''], resources => ['pods/exec'], verbs => ['create'] } if $may{exec};
	my ($group, $name) = ('rbac.authorization.k8s.io', "access-$user");
	$s->delete('roles', $name);
	$s->create('roles', { apiVersion => "$group/v1", kind => 'Role', metadata => { name => $name }, rules => \@rules });
	$s->create('rolebindings', { apiVersion => "$group/v1", kind => 'RoleBinding', metadata => { name => $name },
		subjects => [ { kind => 'User', apiGroup => $group, name => $user } ],
		roleRef => { kind => 'Role', apiGroup => $group, name => $name } }) if !$s->get('rolebindings', $name);
	return;
}

sub by ($user) { return (headers => { 'impersonate-user' => $user }) }

sub fields ($answer) { return [ map { $_->{field} } @{ $answer->{json}{details}{causes} // [] } ] }

sub ($s) {
	$s->start(webhook => 1, set => ['worker.hostNetwork=false']);
	my $template = 'spec.workers.template.spec';
	my $plain = $s->job('plain');
	my $launcher = $s->job('launched', spec => { launcher => { command => ['mpirun'] } });
	my $session = $s->job('session', spec => { interactive => { ttl => 60 } });

	# An authorizer and the webhook may remember a refusal for some seconds.
	my $becomes = sub ($object, $status, $what, $words = qr//) {
		my $answer;
		$s->wait_for($what, sub {
			$answer = $s->try_create('ipujobs', $object, by('ann'));
			return $answer->{status} == $status && ($answer->{json}{message} // '') =~ $words;
		}, seconds => 60);
		return $answer;
	};
	allow($s, 'ann');
	my $answer = $becomes->($plain, 403, 'a user without Pods to be refused', qr/user "ann" may not create Pods in namespace default/);
	is_deeply(fields($answer), [], 'without rights, nobody learns more');
	allow($s, 'ann', pods => 1);
	$becomes->($plain, 201, 'Pods of his own to be enough for a job of workers');
	$becomes->($launcher, 403, 'a launcher to need more', qr{may not exec into Pods \(create pods/exec\)});
	is($s->try_create('ipujobs', $session, by('ann'))->{status}, 403, 'a session as well');
	allow($s, 'ann', pods => 1, exec => 1);
	$becomes->($launcher, 201, 'the right to exec to be enough');

	# Who may change the job, and nothing else, gets no other Pods by it.
	$s->create_job('kept', ipus => 4);
	$s->wait_job('kept', 'Running');
	allow($s, 'bea');
	my $change = sub ($spec) {
		return $s->request('PATCH', $s->path('ipujobs', 'default', 'kept') . '?dryRun=All', json => { spec => $spec },
			headers => { 'content-type' => 'application/merge-patch+json', 'impersonate-user' => 'bea' });
	};
	$s->wait_for('the right to change it to be known', sub { $change->({})->{success} });
	is($change->({ jobInstances => 2 })->{status}, 200, 'more of the same asks for nothing');
	is($change->({ suspend => \1 })->{status}, 200, 'nor does suspending');
	$answer = $change->({ workers => { template => { spec => { hostname => 'other' } } } });
	is($answer->{status}, 403, 'another template does') or diag(explain($answer));

	# Pod Security: the namespace's level, by the fields of the template.
	my %level = map { $_ => "access-$_" } qw(baseline restricted);
	for my $level (sort keys %level) {
		$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $level{$level},
			labels => { 'pod-security.kubernetes.io/enforce' => $level } } });
	}
	my $bad = $s->job('bad', container => { securityContext => { privileged => \1 } },
		template => { spec => { volumes => [ { name => 'v', hostPath => { path => '/' } } ] } });
	$s->wait_for('the namespaces to be known', sub {
		$answer = $s->try_create('ipujobs', $bad, ns => $level{baseline});
		return $answer->{status} == 422;
	}, seconds => 60);
	is_deeply([ sort @{ fields($answer) } ], [ sort "$template.containers[0].securityContext.privileged", "$template.volumes[0].hostPath" ],
		'baseline: each field that it forbids') or diag(explain($answer->{json}));
	like($answer->{json}{message}, qr/the Pod Security level of namespace access-baseline is baseline/, 'and why');
	is($s->try_create('ipujobs', $plain, ns => $level{baseline})->{status}, 201, 'a plain job is fine there');
	$answer = $s->try_create('ipujobs', $plain, ns => $level{restricted});
	is($answer->{status}, 422, 'but not under restricted');
	is_deeply([ sort @{ fields($answer) } ], [ sort map { "$template.containers[0].securityContext.$_" }
		qw(allowPrivilegeEscalation capabilities.drop runAsNonRoot seccompProfile.type) ], 'by what it doesn\'t say')
		or diag(explain($answer->{json}));
	my $good = $s->job('good', spec => { launcher => { command => ['mpirun'] } },
		container => { securityContext => { allowPrivilegeEscalation => \0, capabilities => { drop => ['ALL'] } } },
		template => { spec => { securityContext => { runAsNonRoot => \1, runAsUser => 1000, seccompProfile => { type => 'RuntimeDefault' } } } });
	$answer = $s->try_create('ipujobs', $good, ns => $level{restricted});
	is($answer->{status}, 201, 'one that says it is taken, with its launcher') or diag(explain($answer->{json}));

	if ($s->is_real) {
		for my $user (qw(ann bea)) {
			$s->delete($_, "access-$user") for qw(rolebindings roles);
		}
	}
	$s->delete('namespaces', $_) for values %level;
};
