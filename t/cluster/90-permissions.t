#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What the chart grants, and to whom. The operator runs some scenarios with its roles in processes of their own, each under the
# chart's account for it; the API server's audit log says what these asked for. A permission that none of it needed is one too
# many, a request that was refused is one too few (and so it is in 20- and 21-scenarios-*.t, all of whose daemons run under the
# account of topology combined). The role node does the same beside them, with the stand-in's RDMA devices. Then: what people get by view, edit and admin, what the operator's accounts can't do, and
# whether its Pods are fit for Pod Security level restricted.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Rights;
use IpuTest qw(json_encode program test_dir wait_until);
use IpuTree qw(file_text top_srcdir);
use RdmaStandin;
use Scenario qw(run_scenarios);
use Scenario::Real;
use Test::More;

my $ns = 'ipu-operator';
my ($controller, $proxy) = map { "$ns:ipu-operator-$_" } qw(controller-manager vipu-proxy);
my $heads = 'ipu-node';
my $node = "$heads:ipu-operator-node";
my $back = Scenario::Real->new('scale', nodes => 2, topology => 'split');
my $c = $back->cluster;

sub is_list ($got, $want, $what) { return is_deeply([ sort @$got ], [ sort @$want ], $what) || diag(explain($got)) }

# ---- granted and used ----

# What is needed without a request that is about it: the API server looks whether an account has it when it makes a Role with
# that in it (doc/design/decisions.md's exception: it's never used), or names an owner whose deletion waits.
my %silent = (
	"$controller get /pods/exec * *" => 'role', "$controller create /pods/exec * *" => 'role',
	"$controller update graphcore.ai/ipujobs/finalizers * *" => 'of a job', "$controller update /pods/finalizers * *" => 'of a Pod',
);
$c->apply(file_text('doc/examples/cluster/guard-policy.yaml'));
run_scenarios($back, 'split', only => [qw(groups kueue rights)]);
my @grants = Cluster::Rights::grants($c, $ns);
my $uses = Cluster::Rights::uses($c, $ns);
cmp_ok(scalar @grants, '>', 50, 'permissions are granted');
is_list([ Cluster::Rights::unused($uses, @grants) ], [ keys %silent ], 'all of them are used, but for those that nothing is asked for');

# The chart's account for it, whose DaemonSet no node here could run; a port goes down twice, for the second Event is the first
# one's patch.
my (@node_grants, $node_uses);
subtest 'the role node' => sub {
	my $name = $c->get('nodes')->{items}[0]{metadata}{name};
	$c->kubectl('create', 'namespace', $heads);
	$c->apply(join "---\n", grep { /^kind: (?:ServiceAccount|(?:Cluster)?Role(?:Binding)?)$/m } split /^---\n/m,
		Cluster::Rights::render($c, ['node'], set => [ 'node.enabled=true', "node.namespace=$heads" ]));
	$c->apply(json_encode({ apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => 'ipu-operator-vipu-controllers', namespace => $ns },
		data => { 'controllers.yaml' => $c->address . ":8090:permitted-ctrl=one\n" } })) if !$c->get('configmap', 'ipu-operator-vipu-controllers', '-n', $ns);
	my $machine = RdmaStandin->new(test_dir() . '/machine');
	my $port = sub ($state) { return $machine->machine("device mlx5_0\nport 1 state=$state layer=ethernet width=2 speed=32\n") };
	my $condition = sub { return join ' ', map { $_->{status} } grep { $_->{type} eq 'IPUFabricReady' } @{ $c->get('node', $name)->{status}{conditions} } };
	my $told = sub ($reason) {
		my @events = grep { $_->{reason} eq $reason && $_->{involvedObject}{name} eq $name } @{ $c->get('events', '-A')->{items} };
		return @events ? $events[0]{count} // 1 : 0;
	};
	$port->('active');
	my $daemon = $c->start_program('ipu-operator', ports => 0, env => { $machine->env }, args => [ '--roles=node', '--kubeconfig',
		Cluster::Rights::kubeconfig($c, split /:/, $node), map { ('--set', $_) } "operatorNamespace=$ns", "node.name=$name", 'node.rdma=any',
		'node.calmSeconds=0', 'health.listen=127.0.0.1:0', 'metrics.listen=' ]);
	for my $turn (1, 2) {
		wait_until('True', sub { $condition->() eq 'True' }, seconds => 60);
		$port->('down');
		$machine->event('mlx5_0', port_err => 1);
		wait_until('False', sub { $condition->() eq 'False' && $told->('IPUFabricNotReady') == $turn }, seconds => 60);
		$port->('active');
		$machine->event('mlx5_0', port_active => 1);
	}
	wait_until('all to be taken back', sub { $condition->() eq 'True' && !grep { $_->{key} =~ /fabric/ } @{ $c->get('node', $name)->{spec}{taints} // [] } });
	is($c->get('node', $name)->{metadata}{labels}{'permitted-ctrl'}, 'one', 'by the list of controllers in the ConfigMap');
	$daemon->stop(status => 0);
	@node_grants = Cluster::Rights::grants($c, $heads);
	$node_uses = Cluster::Rights::uses($c, $heads, $ns);
	is(scalar(grep { !/^\Q$node\E / } @node_grants), 0, 'its namespace has one account');
	cmp_ok(scalar @node_grants, '>', 8, 'permissions are granted');
	is_list([ Cluster::Rights::unused($node_uses, @node_grants) ], [], 'all of them are used');
	is_list([ keys %{ Cluster::Rights::denied($c, $heads) } ], [], 'and nothing else was asked for');
	my @more = ("$node get /nodes * *", "$node get /secrets $ns *", "$node list /configmaps $ns other");
	is_list([ Cluster::Rights::unused($node_uses, @node_grants, @more) ], \@more, 'permissions that it does not need are seen');
};

subtest 'doc/reference/permissions.md' => sub {
	my ($account, @told);
	for my $line (split /\n/, file_text('doc/reference/permissions.md')) {
		$account = $line =~ /controller and webhook/ ? $controller : $line =~ /proxy's account/ ? $proxy : $line =~ /head node's account/ ? $node : undef if $line =~ /^## /;
		my (undef, $resources, $verbs, $where) = split /\s*\|\s*/, $line;
		next if !$account || $line !~ /^\| `/;
		my $name = $where =~ /`FULLNAME-([^`]+)`/ ? "ipu-operator-$1" : '*';
		my $place = $where =~ /^NS/ ? $ns : '*';
		for my $resource (map { m{/(?!finalizers|status|exec)} ? $_ : "/$_" } $resources =~ /`([^`]+)`/g) {
			push @told, map { "$account $_ $resource $place $name" } $verbs =~ /`([^`]+)`/g;
		}
	}
	is_list(\@told, [ grep { !/ create admissionregistration/ } @grants, @node_grants ], 'says what is granted');
};

subtest 'who does more, or less, is found out' => sub {
	my @more = ("$controller get /secrets * *", "$controller list /nodes * *", "$proxy get /secrets $ns other");
	is_list([ Cluster::Rights::unused($uses, @grants, @more) ], [ @more, keys %silent ], 'permissions that nothing needs are seen');
	is(Cluster::Rights::denied($c, $ns)->{"$controller list /nodes * *"}, undef, 'the operator asks for no nodes');
	$c->kubectl(qw(create namespace probe));
	$c->kubectl(qw(-n probe create serviceaccount curious));
	my $as = Cluster::Rights::kubeconfig($c, 'probe', 'curious');
	isnt($c->command([ $c->programs . '/kubectl', '--kubeconfig', $as, qw(get nodes) ])->{status}, 0, 'an account without rights is refused');
	is_list([ keys %{ Cluster::Rights::denied($c, 'probe') } ], ['probe:curious list /nodes * *'], '… and that is seen');

	my $create = sub ($name) {
		return $c->command([ $c->programs . '/kubectl', '--kubeconfig', $as, qw(-n probe create configmap), $name ])->{status};
	};
	isnt($create->('one'), 0, 'what it may not create yet is refused');
	ok((grep { $_ eq 'probe:curious create /configmaps probe *' } keys %{ Cluster::Rights::denied($c, 'probe') }), '… and that is seen');
	$c->kubectl(qw(-n probe create role writer --verb=create --resource=configmaps));
	$c->kubectl(qw(-n probe create rolebinding writer --role=writer --serviceaccount=probe:curious));
	wait_until('the role to be known', sub { $create->('two') == 0 }, seconds => 30);
	is_list([ keys %{ Cluster::Rights::denied($c, 'probe') } ], ['probe:curious list /nodes * *'],
		'what was refused only until the role was known is no missing permission');
};

# With what the roles allow, but for objects that aren't the operator's.
subtest 'doc/examples/cluster/guard-policy.yaml' => sub {
	my $who = "system:serviceaccount:$controller";
	my $pod = sub ($in, %labels) {
		return try_as($who, "/api/v1/namespaces/$in/pods", { apiVersion => 'v1', kind => 'Pod', metadata => { generateName => 'x-', labels => \%labels },
			spec => { containers => [ { name => 'c', image => 'i' } ] } });
	};
	my %own = ('app.kubernetes.io/managed-by' => 'ipu-operator');
	$c->kubectl(qw(-n kube-system create serviceaccount default)) if !$c->get(qw(serviceaccount default -n kube-system));
	is($pod->('default', %own)->{status}, 201, 'Pods with its label, it makes');
	for my $case ([ 'other Pods', 'default' ], [ 'Pods in kube-system', 'kube-system', %own ]) {
		my ($what, @words) = @$case;
		my $answer = $pod->(@words);
		is($answer->{status}, 422, "$what, it doesn't") or diag($answer->{content});
		like($answer->{json}{message} // '', qr/ValidatingAdmissionPolicy 'ipu-operator-guard'/, '… by the policy');
	}
	my $delete = sub ($resource, $in, $name) {
		return $back->request('DELETE', "/api/v1/namespaces/$in/$resource/$name?dryRun=All", headers => { 'impersonate-user' => $who })->{status};
	};
	is($delete->('configmaps', 'kube-system', 'extension-apiserver-authentication'), 422, 'a ConfigMap of the cluster\'s stays');
	$c->kubectl(qw(delete -f), top_srcdir() . '/doc/examples/cluster/guard-policy.yaml');
	$c->wait_for('the policy to be gone', sub { $pod->('default')->{status} == 201 });
};

# What topology combined gives its one account is what the two have together.
subtest 'topology combined' => sub {
	my %split = map { s/^\S+ //r => 1 } @grants;
	$c->kubectl('delete', 'role,rolebinding', '-n', $ns, 'ipu-operator-controller-manager');
	$c->kubectl(qw(delete clusterrolebinding ipu-operator-vipu-proxy));
	$c->kubectl('delete', 'rolebinding', '-n', $ns, 'ipu-operator-vipu-proxy');
	Cluster::Rights::install($c, topology => 'combined', set => ['ipuVisibility.advertise=whole']);
	my @combined = Cluster::Rights::grants($c, $ns);
	is_list([ grep { !/^\Q$controller\E / } @combined ], [], 'has one account');
	is_list([ grep { !$split{$_} } map { s/^\S+ //r } @combined ], [], '… with nothing that isn\'t the roles\' own');
	my @lacks = grep { my $one = $_; !grep { s/^\S+ //r eq $one } @combined } keys %split;
	is_list(\@lacks, [ (map { "create admissionregistration.k8s.io/${_}webhookconfigurations * *" } qw(mutating validating)),
		map { "$_ coordination.k8s.io/leases $ns ipu-operator-controller" } qw(get list watch patch) ],
		'… and all of it, but for a Lease; and no webhooks are made without webhook.url');
};

# ---- what nothing asks for ----

# An object made by a dry run as somebody: the answer.
sub try_as ($who, $path, $object) {
	return $back->request('POST', "$path?dryRun=All", json => $object, headers => { 'impersonate-user' => $who });
}

subtest 'permissions that nothing is asked for' => sub {
	my %meta = (name => 'tried', namespace => 'default');
	my $owned = sub ($version, $kind) {
		return { apiVersion => 'v1', kind => 'ConfigMap', metadata => { %meta, ownerReferences => [ { apiVersion => $version, kind => $kind,
			name => 'owner', uid => 'uid-1', controller => \1, blockOwnerDeletion => \1 } ] } };
	};
	my $core = '/api/v1/namespaces/default/configmaps';
	my %object = (
		'role' => [ '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles', { apiVersion => 'rbac.authorization.k8s.io/v1',
			kind => 'Role', metadata => \%meta, rules => [ { apiGroups => [''], resources => ['pods'], verbs => ['get'], resourceNames => ['p'] },
			{ apiGroups => [''], resources => ['pods/exec'], verbs => [ 'get', 'create' ], resourceNames => ['p'] } ] } ],
		'of a job' => [ $core, $owned->('graphcore.ai/v1alpha1', 'IPUJob') ], 'of a Pod' => [ $core, $owned->('v1', 'Pod') ] );
	my $whole = $c->get('clusterrole', 'ipu-operator-controller-manager');
	$c->kubectl(qw(create clusterrolebinding less --clusterrole=less --user=less));
	for my $grant (sort keys %silent) {
		my ($path, $wanted) = @{ $object{ $silent{$grant} } };
		my ($verb, $resource) = $grant =~ m{^\S+ (\S+) [^/]*/(\S+)};
		my @rules = map { { %$_ } } @{ $whole->{rules} };
		for my $rule (grep { grep { $_ eq $resource } @{ $_->{resources} } } @rules) {
			$rule->{verbs} = [ grep { $_ ne $verb } @{ $rule->{verbs} } ];
		}
		$c->apply(json_encode({ apiVersion => 'rbac.authorization.k8s.io/v1', kind => 'ClusterRole', metadata => { name => 'less' },
			rules => [ grep { @{ $_->{verbs} } } @rules ] }));
		my $with = try_as("system:serviceaccount:$controller", $path, $wanted);
		is($with->{status}, 201, "$grant: with it, $silent{$grant} is possible") or diag($with->{content});
		$c->wait_for('it to be refused', sub { try_as('less', $path, $wanted)->{status} == 403 });
		pass('… without it, it isn\'t');
	}
	$c->kubectl(qw(delete clusterrolebinding/less clusterrole/less));
};

# ---- what people and others may do ----

# Whether somebody may: 'VERB GROUP/RESOURCE[/SUBRESOURCE] NAMESPACE [NAME]'.
sub may ($who, $what) {
	my ($verb, $resource, $in, $name) = split / /, $what;
	my ($group, $plural, $sub) = split m{/}, $resource;
	my $answer = $back->request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', json => {
		apiVersion => 'authorization.k8s.io/v1', kind => 'SubjectAccessReview', spec => { user => $who, resourceAttributes => {
			verb => $verb, group => $group, resource => $plural, $in eq '*' ? () : (namespace => $in),
			defined $sub ? (subresource => $sub) : (), defined $name ? (name => $name) : () } } });
	die "$what: $answer->{content}\n" if !$answer->{success};
	return $answer->{json}{status}{allowed};
}

subtest 'people' => sub {
	my $job = 'graphcore.ai/ipujobs';
	my @read = map { ("$_ $job default", "$_ $job/status default") } qw(get);
	push @read, "get $job/scale default", map { "$_ $job default" } qw(list watch);
	my @write = ((map { "$_ $job default" } qw(create update patch delete deletecollection)), map { "$_ $job/scale default" } qw(update patch));
	my @never = ((map { "$_ $job/status default" } qw(update patch)), "update $job/finalizers default", "get $job other", "create $job other",
		map { my $verb = $_; map { "$verb $_ $ns" } '/secrets', '/configmaps', '/pods', '/serviceaccounts/token', 'coordination.k8s.io/leases', $job }
			qw(get create update delete));
	my %people = (view => [ \@read, [ @write, @never ] ], edit => [ [ @read, @write ], \@never ], admin => [ [ @read, @write ], \@never ]);
	for my $role (sort keys %people) {
		my $who = "somebody-$role";
		$c->kubectl(qw(-n default create rolebinding), $who, "--clusterrole=$role", "--user=$who");
		$c->wait_for("$role to be about IPUJobs", sub { may($who, "get $job default") });
		my ($may, $not) = @{ $people{$role} };
		is_list([ grep { !may($who, $_) } @$may ], [], "$role: may all that it should");
		is_list([ grep { may($who, $_) } @$not ], [], '… and nothing more');
	}
	my $as = sub (@words) { return $c->kubectl_result([ '--as=somebody-edit', '-n', 'default', @words ])->{status} };
	my $text = json_encode({ apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => 'edited' }, spec => {
		jobInstances => 1, ipusPerJobInstance => '4', workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
	is($c->kubectl_result([ qw(--as=somebody-edit create -f -) ], stdin => $text)->{status}, 0, 'edit: makes a job');
	is($as->(qw(scale ipujob edited --replicas=2)), 0, '… scales it');
	is($as->(qw(get ipujob edited)), 0, '… sees it');
	is($c->kubectl_result([ qw(--as=somebody-view -n default delete ipujob edited) ])->{status}, 1, 'view: doesn\'t delete it');
	is($as->(qw(delete ipujob edited)), 0, '… but edit does');
};

subtest 'who has the operator\'s token' => sub {
	my @none = ('get /secrets default', 'list /secrets *', 'get /secrets kube-system', 'create /secrets default', 'create /serviceaccounts/token *',
		'impersonate /users *', 'update /serviceaccounts default', 'delete /serviceaccounts default', 'get /nodes *', 'create /pods/ephemeralcontainers default',
		'create /pods/portforward default', 'create /pods/eviction default', 'update /pods default', 'deletecollection /pods default', 'update /namespaces *',
		'create apps/deployments default', "patch apps/deployments $ns", 'create graphcore.ai/ipujobs default',
		(map { "$_ rbac.authorization.k8s.io/clusterroles *" } qw(get create update escalate bind)), 'delete rbac.authorization.k8s.io/roles default',
		(map { "$_ rbac.authorization.k8s.io/roles default" } qw(escalate bind)), 'create rbac.authorization.k8s.io/clusterrolebindings *',
		'update apiextensions.k8s.io/customresourcedefinitions *', 'patch admissionregistration.k8s.io/mutatingwebhookconfigurations * another',
		'create certificates.k8s.io/certificatesigningrequests *');
	my @proxy = ('list /pods *', 'create /pods default', 'get /configmaps default', 'patch graphcore.ai/ipujobs default', "delete /configmaps $ns",
		'create rbac.authorization.k8s.io/roles default', "get /secrets $ns any");
	Cluster::Rights::install($c, topology => 'split', set => [ 'rbac.secretNames={pod001}' ]);
	is_list([ grep { may("system:serviceaccount:$controller", $_) } @none ], [], 'the controller\'s: nothing of all that');
	is_list([ grep { may("system:serviceaccount:$proxy", $_) } @none, @proxy ], [], 'the proxy\'s: even less');
	is_list([ grep { may("system:serviceaccount:$node", $_) } @none, grep { !/list \/pods/ } @proxy ], [], 'the role node\'s: none of that either');
	ok(may("system:serviceaccount:$proxy", "watch /secrets $ns pod001") && !may("system:serviceaccount:$proxy", "watch /secrets $ns pod002"),
		'rbac.secretNames names the credentials that it may read');
	my $path = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles';
	my $role = { apiVersion => 'rbac.authorization.k8s.io/v1', kind => 'Role', metadata => { name => 'more' },
		rules => [ { apiGroups => [''], resources => ['secrets'], verbs => ['get'] } ] };
	is(try_as("system:serviceaccount:$controller", $path, $role)->{status}, 403, 'it gives nobody what it hasn\'t got');
	is(try_as("system:serviceaccount:$controller", $path =~ s/roles$/rolebindings/r, { %$role, kind => 'RoleBinding', rules => undef,
		subjects => [ { kind => 'User', apiGroup => 'rbac.authorization.k8s.io', name => 'ann' } ],
		roleRef => { apiGroup => 'rbac.authorization.k8s.io', kind => 'ClusterRole', name => 'admin' } })->{status}, 403, '… nor a ClusterRole that has more');
};

# ---- the chart ----

# Objects of the whole chart, or of some templates.
sub objects ($templates, %option) {
	my $text = Cluster::Rights::render($c, $templates, %option);
	my $list = $c->kubectl_result([ qw(create --dry-run=client --validate=false -o json -f -) ], stdin => $text);
	return $list->{err} =~ /no objects passed/ ? () : die $list->{err} if $list->{status};
	return map { $_->{kind} eq 'List' ? @{ $_->{items} } : $_ } JSON::PP->new->utf8->incr_parse($list->{out});
}

subtest 'Pod Security: restricted' => sub {
	$c->apply(json_encode({ apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'guarded',
		labels => { 'pod-security.kubernetes.io/enforce' => 'restricted' } } }));
	$c->wait_for('its default account', sub { $c->get('serviceaccount', 'default', '-n', 'guarded') });
	my $pod = sub ($spec) {
		return $back->request('POST', '/api/v1/namespaces/guarded/pods?dryRun=All', json => { apiVersion => 'v1', kind => 'Pod',
			metadata => { name => 'tried' }, spec => { %$spec, serviceAccountName => 'default' } });
	};
	my %seen;
	for my $topology (qw(split combined)) {
		for my $object (grep { $_->{kind} =~ /^(?:Deployment|Job|Pod|DaemonSet)$/ } objects([], topology => $topology, set => [ 'controller.replicas=3' ])) {
			my $name = "$topology: $object->{kind} $object->{metadata}{name}";
			my $answer = $pod->(($object->{spec}{template} // $object)->{spec});
			is($answer->{status}, 201, "$name is fit for it") or diag($answer->{content});
			$seen{ $object->{kind} }++;
			my ($first) = @{ ($object->{spec}{template} // $object)->{spec}{containers} };
			next if $object->{kind} ne 'Deployment';
			$answer = $pod->({ %{ $object->{spec}{template}{spec} }, containers => [ { %$first, securityContext => {} } ] });
			is($answer->{status}, 403, '… as it is, and not without its security context');
		}
	}
	is($seen{Deployment}, 3, 'both topologies\' Deployments');
};

subtest 'switches' => sub {
	my $names = sub (%option) {
		return [ map { "$_->{kind} $_->{metadata}{name}" } grep { $_->{kind} =~ /Role/ && $_->{metadata}{name} !~ /crd-upgrade/ } objects([], %option) ];
	};
	my @proxy = map { ("$_ ipu-operator-vipu-proxy", "${_}Binding ipu-operator-vipu-proxy") } qw(Role ClusterRole);
	my @controller = (map { s/vipu-proxy/controller-manager/r } @proxy);
	my @reader = 'ClusterRole ipu-operator-metrics-reader';
	my @people = map { "ClusterRole ipu-operator-ipujobs-$_" } qw(view edit);
	is_list($names->(), [ @proxy, @controller, @reader, @people ], 'all of it');
	is_list($names->(set => ['rbac.create=false']), \@people, 'rbac.create, as it was called once: none of the operator\'s');
	is_list($names->(set => ['controller.rbac.create=false']), [ @proxy, @people ], 'controller.rbac.create');
	is_list($names->(set => ['vipuProxy.rbac.create=false']), [ @controller, @reader, @people ], 'vipuProxy.rbac.create');
	is_list($names->(set => [ 'rbac.create=false', 'vipuProxy.rbac.create=true' ]), [ @proxy, @people ], 'the newer name wins');
	is_list($names->(topology => 'combined', set => ['controller.rbac.create=false']), \@people, 'combined: the controller\'s is for all of it');
	is_list($names->(set => ['rbac.aggregate=false']), [ @proxy, @controller, @reader ], 'rbac.aggregate: nothing for people');
};

subtest 'NetworkPolicy' => sub {
	is_list([ grep { $_->{kind} eq 'NetworkPolicy' } objects([]) ], [], 'off by default');
	my $policies = sub (%option) {
		return { map { $_->{metadata}{name} => $_->{spec} } objects(['networkpolicy'], %option,
			set => [ 'networkPolicy.enabled=true', @{ $option{set} // [] } ]) };
	};
	# Who may reach a port: undef, if it isn't listed; else "anybody", or the peers.
	my $from = sub ($spec, $port) {
		my ($rule) = grep { grep { $_->{port} eq $port } @{ $_->{ports} } } @{ $spec->{ingress} };
		return $rule ? $rule->{from} // 'anybody' : undef;
	};
	my $split = $policies->();
	is_list([ keys %$split ], [qw(ipu-operator-controller-manager ipu-operator-vipu-proxy)], 'one for each Deployment');
	my ($one, $other) = @$split{qw(ipu-operator-controller-manager ipu-operator-vipu-proxy)};
	is($from->($one, 'webhook'), 'anybody', 'nobody cuts the API server off');
	is($from->($other, 'http'), 'anybody', 'statistics are for all');
	my $ours = [ { podSelector => { matchLabels => { 'app.kubernetes.io/instance' => $ns, 'app.kubernetes.io/name' => 'ipu-operator' } } } ];
	is_deeply($from->($other, 'partitions'), $ours, 'partitions are asked for by the operator itself');
	is_deeply($from->($_, 'metrics'), [ { namespaceSelector => {} } ], 'metrics are read by Pods') for $one, $other;
	is_deeply([ map { $from->($one, $_) } qw(http partitions) ], [ undef, undef ], 'other ports, by nobody');
	my $init = $policies->(set => ['operatorConfig.pods.mode=init']);
	is($from->($init->{'ipu-operator-vipu-proxy'}, 'partitions'), 'anybody', 'in mode init, Pods ask by themselves');
	my $told = $policies->(topology => 'combined', set => [ 'networkPolicy.apiServerCidrs={10.0.0.1/32}',
		'networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b', 'networkPolicy.egress[0].ports[0].port=443' ]);
	is_list([ keys %$told ], ['ipu-operator-controller-manager'], 'combined: one');
	my $spec = $told->{'ipu-operator-controller-manager'};
	is_deeply($from->($spec, 'webhook'), [ { ipBlock => { cidr => '10.0.0.1/32' } } ], 'API servers by their addresses');
	is_deeply($from->($spec, 'metrics'), [ { namespaceSelector => { matchLabels => { a => 'b' } } } ], 'metrics for some');
	is_list($spec->{policyTypes}, [qw(Ingress Egress)], 'what goes out, too');
	for my $name (keys %$split) {
		my $answer = $back->request('POST', "/apis/networking.k8s.io/v1/namespaces/$ns/networkpolicies?dryRun=All", json => {
			apiVersion => 'networking.k8s.io/v1', kind => 'NetworkPolicy', metadata => { name => $name }, spec => $split->{$name} });
		is($answer->{status}, 201, "$name: the API server takes it") or diag($answer->{content});
	}
};

# As their Jobs do it. The CustomResourceDefinition isn't needed any more.
subtest 'accounts for a moment' => sub {
	my $crd = 'ipujobs.graphcore.ai';
	my $hook = sub ($name, $right, @set) {
		my $account = "$ns:ipu-operator-$name";
		my %object = map { $_->{kind} => $_ } objects([$name], set => \@set);
		$c->apply(json_encode($object{$_})) for qw(ServiceAccount ClusterRole ClusterRoleBinding);
		$c->wait_for("$name to have its rights", sub { may("system:serviceaccount:$account", $right) });
		my $as = Cluster::Rights::kubeconfig($c, $ns, "ipu-operator-$name");
		my ($ipuctl, @words) = @{ $object{Job}{spec}{template}{spec}{containers}[0]{command} };
		is($ipuctl, '/usr/bin/ipuctl', "$name: the image's program");
		my $run = sub {
			my $done = $c->command([ program('ipuctl'), '--kubeconfig', $as, @words ], seconds => 120);
			is($done->{status}, 0, "$name: @words") or diag($done->{err});
			return $done->{out};
		};
		my $judge = sub {
			my @all = grep { /^\Q$account\E / } Cluster::Rights::grants($c, $ns);
			my $used = Cluster::Rights::uses($c, $ns);
			cmp_ok(scalar @all, '>', 2, "$name: has permissions");
			is_list([ Cluster::Rights::unused($used, @all) ], [], '... and uses each');
			is_list([ grep { /^\Q$account\E / } keys %{ Cluster::Rights::denied($c, $ns) } ], [], '... and asks for nothing else');
			is_list([ Cluster::Rights::unused($used, @all, "$account list /secrets * *") ], ["$account list /secrets * *"], '... of which one too many is seen');
		};
		return ($run, $judge);
	};
	my ($clean, $judge) = $hook->('clean-nodes', 'patch /nodes/status *', 'node.enabled=true');
	my $told = sub { return grep { $_->{type} eq 'IPUFabricReady' } map { @{ $_->{status}{conditions} } } @{ $c->get('nodes')->{items} } };
	cmp_ok(scalar $told->(), '>', 0, 'the role node has left a condition');
	$clean->();
	is(scalar $told->(), 0, '... which goes');
	$judge->();
	(my $upgrade, $judge) = $hook->('crd-upgrade', "update apiextensions.k8s.io/customresourcedefinitions * $crd");
	$upgrade->();
	$c->kubectl('delete', 'crd', $crd);
	like($upgrade->(), qr/created/, 'one that went between helm\'s look and the Job is made');
	$judge->();
};

$back->down;
done_testing;
