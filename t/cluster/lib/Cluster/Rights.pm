# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Rights: the operator's own ServiceAccounts, with the permissions that the chart gives them, for daemons that
# a test starts; and what accounts really asked of the API server, as its audit log has it.
package Cluster::Rights;

use v5.36;
use Cwd qw(abs_path);
use Exporter qw(import);
use IpuTest qw(json_decode json_encode run slurp spit);

our @EXPORT_OK = qw(install kubeconfig token uses denied grants unused);

my $chart = (abs_path(__FILE__) =~ m{^(.*)/t/cluster/lib/Cluster/Rights\.pm$})[0] . '/helm/ipu-operator';
my $rbac = 'rbac.authorization.k8s.io';

# ---- accounts ----

# The text of some of the chart's templates. Options: ns, topology, set, a list of KEY=VALUE; the release has the namespace's name.
sub render ($c, $templates, %option) {
	my $ns = $option{ns} // 'ipu-operator';
	my $result = run([ $c->programs . '/helm', 'template', $ns, $chart, '--namespace', $ns,
		(map { ('--show-only', "templates/$_.yaml") } @$templates), '--set', 'topology=' . ($option{topology} // 'split'),
		'--set', "fullnameOverride=$ns", map { ('--set', $_) } @{ $option{set} // [] } ]);
	die "helm template: $result->{err}" if $result->{status};
	return $result->{out};
}

# Makes the namespace and in it the accounts; options as above.
sub install ($c, %option) {
	my $ns = $option{ns} // 'ipu-operator';
	$c->kubectl('create', 'namespace', $ns) if !$c->get('namespace', $ns);
	$c->apply(render($c, [qw(serviceaccounts rbac-controller rbac-proxy rbac-metrics-reader aggregate-ipujobs)], %option));
	return;
}

# A token of an account. With an audience: one for that, and not for the API server.
sub token ($c, $ns, $account, $audience = undef) {
	my $token = $c->kubectl('-n', $ns, 'create', 'token', $account, '--duration=4h', $audience ? "--audience=$audience" : ());
	return $token =~ s/\s+\z//r;
}

# The path of a kubeconfig for programs in the cluster's network, by which they are that account.
sub kubeconfig ($c, $ns, $account) {
	my $config = json_decode($c->kubectl('config', 'view', '--raw', '--flatten', '-o', 'json', '--kubeconfig', $c->kubeconfig));
	$config->{users}[0]{user} = { token => token($c, $ns, $account) };
	return spit(IpuTest::test_dir() . "/$ns-$account.kubeconfig", json_encode($config));
}

# ---- what was asked ----

# All requests of accounts of these namespaces, those alike together: "ACCOUNT VERB GROUP/RESOURCE WHERE NAME" => how many. ACCOUNT
# is NAMESPACE:NAME; WHERE is the namespace, if it's one of these, "elsewhere", or "*" for all at once and for what has none;
# NAME "*" stands for a request without one, and for names of what is elsewhere. Who creates an object names it in its body, which
# permissions don't go by, and which isn't read where that is forbidden: "*". Requests that were forbidden are not among them.
sub uses ($c, @namespaces) { return read_log($c, 'allow', @namespaces) }

# Those that were forbidden, and never allowed: an API server that has just started forbids everything until it knows the roles.
sub denied ($c, @namespaces) {
	my ($uses, $denied) = (uses($c, @namespaces), read_log($c, 'forbid', @namespaces));
	return { map { $_ => $denied->{$_} } grep { !$uses->{$_} } keys %$denied };
}

sub read_log ($c, $decision, @namespaces) {
	my %ours = map { $_ => 1 } @namespaces;
	my (%seen, %count);
	for my $path (glob $c->dir . '/audit*.log') {
		open(my $in, '<', $path) or die "$path: $!\n";
		while (my $line = <$in>) {
			# Few of many thousands differ: what makes them differ is enough to look at.
			my $key = join ' ', $line =~ /"username":"system:serviceaccount:([^"]*)"/, $line =~ /"verb":"(\w+)"/,
				$line =~ /"objectRef":(\{[^}]*\})/, $line =~ m{"authorization\.k8s\.io/decision":"(\w+)"};
			$key =~ s/"(?:uid|resourceVersion)":"[^"]*",?//g;
			$key =~ s/"name":"[^"]*"// if $key =~ /"namespace":"([^"]*)"/ && !$ours{$1};
			$count{ $seen{$key} //= describe($line, \%ours, $decision) // '' }++;
		}
	}
	delete $count{''};
	return \%count;
}

sub describe ($line, $ours, $decision) {
	my $event = json_decode($line);
	my ($ns, $name) = ($event->{user}{username} // '') =~ /^system:serviceaccount:([^:]+):(.+)$/ or return undef;
	my $object = $event->{objectRef};
	return undef if !$ours->{$ns} || ($event->{annotations}{'authorization.k8s.io/decision'} // '') ne $decision;
	return $decision eq 'forbid' ? "$ns:$name $event->{verb} $event->{requestURI}" : undef if !$object;
	my $where = $object->{namespace} // '*';
	$where = 'elsewhere' if $where ne '*' && !$ours->{$where};
	my $resource = join '/', $object->{apiGroup} // '', $object->{resource}, $object->{subresource} // ();
	my $has_name = $where ne 'elsewhere' && ($event->{verb} ne 'create' || $object->{subresource});
	return join ' ', "$ns:$name", $event->{verb}, $resource, $where, $has_name ? $object->{name} // '*' : '*';
}

# ---- what is allowed ----

# What the chart's roles allow the accounts of these namespaces, one permission each, in the words of uses().
sub grants ($c, @namespaces) {
	my %ours = map { $_ => 1 } @namespaces;
	my @grants;
	for my $binding (map { @{ $c->get($_, '-A')->{items} } } qw(clusterrolebindings rolebindings)) {
		my $ns = $binding->{metadata}{namespace};
		for my $subject (grep { $_->{kind} eq 'ServiceAccount' && $ours{ $_->{namespace} // $ns } } @{ $binding->{subjects} // [] }) {
			my $role = $c->get(lc $binding->{roleRef}{kind}, $binding->{roleRef}{name}, $ns ? ('-n', $ns) : ());
			push @grants, map { allowed("$subject->{namespace}:$subject->{name}", $ns // '*', $_) } @{ $role->{rules} };
		}
	}
	my %unique = map { $_ => 1 } @grants;
	return sort keys %unique;
}

sub allowed ($account, $where, $rule) {
	my @all;
	for my $group (@{ $rule->{apiGroups} // [] }) {
		for my $resource (@{ $rule->{resources} }) {
			for my $verb (@{ $rule->{verbs} }) {
				push @all, map { "$account $verb $group/$resource $where $_" } @{ $rule->{resourceNames} // ['*'] };
			}
		}
	}
	return @all;
}

# Those of the permissions that none of the uses needs. Where several allow one and the same, it needs the narrowest: that with
# the name before that for all names, that for the operator's own namespace before that for all.
sub unused ($uses, @grants) {
	my %granted = map { $_ => 1 } @grants;
	for my $use (keys %$uses) {
		my ($account, $verb, $resource, $where, $name) = split / /, $use;
		my @places = $where =~ /^(?:elsewhere|\*)$/ ? '*' : ($where, '*');
		my @allow = grep { exists $granted{$_} } map { ("$account $verb $resource $_ $name", "$account $verb $resource $_ *") } @places;
		$granted{ $allow[0] } = 0 if @allow;
	}
	return grep { $granted{$_} } @grants;
}

1;
