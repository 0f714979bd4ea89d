# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (split): the simulator has no RBAC, and the roles in processes of their own have accounts of their own
#
# What the operator asks of an API server in rare cases only, so that t/cluster/90-permissions.t sees each of its permissions
# used: replicas that are in each other's way, objects that people have changed or made before it, secure
# controllers, and who reads metrics.

use v5.36;
use Cluster::Rights;
use Test::More;

my ($ns, $list, $secret) = ('ipu-operator', 'rights-controllers', 'ipu-operator-certificates');

sub edit_list ($s, @entries) {
	return $s->patch('configmaps', $list, { data => { 'controllers.yaml' => join('', map { "- $_\n" } @entries) } }, ns => $ns);
}

sub wait_bad ($s, $times) {
	my $path = $s->path('events', $ns) . "?fieldSelector=involvedObject.name%3D$list";
	return $s->wait_for("the Event BadController, $times times", sub {
		my @events = grep { $_->{reason} eq 'BadController' } @{ $s->must('GET', $path)->{items} };
		return ($events[0]{count} // 0) >= $times;
	});
}

# How often these accounts did that: a pattern of a line of Cluster::Rights::uses().
sub count_uses ($s, $pattern) {
	my $uses = Cluster::Rights::uses($s->back->cluster, $ns);
	my $n = 0;
	$n += $uses->{$_} for grep { $_ =~ $pattern } keys %$uses;
	return $n;
}

# Lets things happen again and again, until both accounts have been seen to do that.
sub until_both ($s, $what, $pattern, $happen) {
	return $s->wait_for("both accounts to $what", sub {
		$happen->();
		return 2 == grep { count_uses($s, qr/^$ns:ipu-operator-$_ $pattern/) } qw(controller-manager vipu-proxy);
	}, seconds => 60);
}

sub secret ($s) { return $s->get('secrets', $secret, $ns) }

# Each account's two replicas make and replace the certificates' Secret at the same time; who comes second looks at it.
sub certificates ($s) {
	until_both($s, 'look at a Secret that another has made first', "get /secrets $ns $secret", sub {
		my $uid = secret($s)->{metadata}{uid};
		$s->delete('secrets', $secret, ns => $ns);
		$s->wait_for('another one', sub { (secret($s) // { metadata => { uid => $uid } })->{metadata}{uid} ne $uid });
	});
	pass('a Secret that is removed is made again');
	until_both($s, 'remove one of another type', "delete /secrets $ns $secret", sub {
		$s->delete('secrets', $secret, ns => $ns);
		my $theirs = $s->request('POST', $s->path('secrets', $ns), json => { apiVersion => 'v1', kind => 'Secret', type => 'Opaque',
			metadata => { name => $secret } });
		$s->wait_for('one of the right type', sub { ((secret($s) // {})->{type} // '') eq 'kubernetes.io/tls' });
	});
	is(secret($s)->{type}, 'kubernetes.io/tls', 'one of another type is replaced');
	return;
}

# One is enough that finds its write to be a second too late.
sub leases ($s) {
	my @replicas = map { $s->start_replica("replica-$_") } 1, 2;
	$s->wait_ready($_) for @replicas;
	until_both($s, 'look at a Lease that another has taken', 'get coordination\.k8s\.io/leases', sub {
		for my $name (map { "ipu-operator-$_" } qw(controller partitions)) {
			my $path = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases/$name";
			my $lease = $s->must('GET', $path);
			# As a leader writes it that stops: all others may take it at once.
			$s->must('PATCH', $path, json => { spec => { holderIdentity => '', leaseDurationSeconds => 1 } },
				headers => { 'content-type' => 'application/merge-patch+json' });
		}
	});
	certificates($s);
	$_->stop for @replicas;
	return;
}

sub metrics ($s) {
	my $c = $s->back->cluster;
	$c->kubectl(qw(create serviceaccount scraper));
	my $token = Cluster::Rights::token($c, 'default', 'scraper');
	my $scrape = sub ($part) {
		return $c->command([ 'curl', qw(-sk -o /dev/null -w %{http_code} -H), "Authorization: Bearer $token",
			'https://127.0.0.1:' . $part->port('metrics') . '/metrics' ])->{out};
	};
	is($scrape->($_), 403, 'metrics aren\'t for every account') for $s->operator->parts;
	$c->kubectl(qw(create clusterrolebinding scraper --clusterrole=ipu-operator-metrics-reader --serviceaccount=default:scraper));
	for my $part ($s->operator->parts) {
		$s->wait_for('metrics for who has the role metrics-reader', sub { $scrape->($part) == 200 });
	}
	$c->kubectl(qw(delete clusterrolebinding scraper));
	$c->kubectl(qw(delete serviceaccount scraper));
	return;
}

# Pods and rights that somebody else has made, or changed.
sub others ($s) {
	$s->create('pods', { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'held-worker-0' },
		spec => { containers => [ { name => 'c', image => 'i' } ] } });
	$s->create_job('held', ipus => 1);
	like($s->wait_event('held', 'NameConflict')->{message}, qr/Pod held-worker-0 exists/, 'a Pod of the name of a job\'s');
	$s->delete('pods', 'held-worker-0', options => { gracePeriodSeconds => 0 });
	$s->create_job('brief', ipus => 1, runs => 0, spec => { ttlSecondsAfterFinished => 0 });
	$s->create_job('led', ipus => 1, spec => { launcher => { command => ['mpirun'] }, workersPerJobInstance => '1',
		restartPolicy => { type => 'OnFailure', backOffLimit => 3 } });
	$s->wait_pod('led-launcher', 'Running');
	my $may = sub (@words) {
		return $s->kubectl([ qw(auth can-i --as=system:serviceaccount:default:led-launcher), @words ])->{out} =~ /^yes/ };
	ok($may->(qw(get pod/led-worker-0)) && $may->(qw(create pods/led-worker-0 --subresource=exec)), 'a launcher reaches its worker');
	ok(!$may->(@$_), "… and may not @$_") for [qw(list pods)], [qw(get pod/brief-worker-0)], [qw(create pods/held-worker-0 --subresource=exec)],
		[qw(delete pod/led-worker-0)], [qw(get secrets)], [qw(get configmaps)], [qw(get ipujobs)];
	my $subject = { kind => 'User', apiGroup => 'rbac.authorization.k8s.io', name => 'somebody' };
	my %theirs = (roles => { rules => [] }, rolebindings => { subjects => [$subject] });
	$s->patch($_, 'led-launcher', $theirs{$_}) for sort keys %theirs;
	$s->wait_job('held', 'Running', seconds => 60);
	$s->wait_job_gone('brief');
	pass('a job goes when its time is over');
	return;
}

# Before a launcher is made, a new process looks at what is there for it.
sub mended ($s) {
	$s->finish_pod('led-launcher', 1);
	$s->wait_for('its Role and RoleBinding to be put right', sub {
		my ($role, $binding) = map { $s->get($_, 'led-launcher') } qw(roles rolebindings);
		return @{ $role->{rules} // [] } && $binding->{subjects}[0]{kind} eq 'ServiceAccount';
	});
	pass('a launcher\'s Role and RoleBinding that somebody has changed are put right');
	return;
}

# IPUs of the controllers are shown by Nodes: any, since these have no label.
sub nodes ($s) {
	$s->wait_for('Nodes to show IPUs', sub {
		return !grep { ($_->{status}{allocatable}{'graphcore.ai/ipu'} // '') ne '16' } @{ $s->must('GET', '/api/v1/nodes')->{items} } });
	pass('Nodes show their IPUs');
	return;
}

sub webhooks ($s) {
	for my $kind (qw(mutatingwebhookconfigurations validatingwebhookconfigurations)) {
		my $before = $s->registration($kind);
		$s->must('PATCH', $s->path($kind, undef, $before->{metadata}{name}), headers => { 'content-type' => 'application/json-patch+json' },
			json => [ { op => 'remove', path => '/webhooks/0/clientConfig/caBundle' } ]);
		$s->wait_for("$kind to trust the operator again", sub { $s->registration($kind)->{webhooks}[0]{clientConfig}{caBundle} });
	}
	return;
}

sub ($s) {
	$s->start_controllers(agents => 4);
	my ($good) = $s->controllers;
	# The one that never answers has no Nodes: what is shown of theirs would wait for it.
	my @entries = ($good, '{address: "127.0.0.1:1", selector: no=nodes, secretName: rights-keys}');
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => $list }, data => {} }, $ns);
	edit_list($s, @entries);
	$s->start_operator(webhook => 1, set => [ 'controllers=', "controllersConfigMap=$list", 'metrics.secure=true',
		'advertise.ipus=whole' ]);
	$s->wait_webhook;
	for my $times (1, 2) {
		edit_list($s, @entries, "$good-9");
		wait_bad($s, $times);
		edit_list($s, @entries);
	}
	metrics($s);
	nodes($s);
	webhooks($s);
	others($s);
	# Names that the certificate lacks: each process adds its own.
	$s->{settings}{'certificates.names'} = 'rights.example.com';
	$s->operator->stop;
	$s->restart_operator;
	$s->wait_ready;
	mended($s);
	leases($s);
	$s->delete('configmaps', $list, ns => $ns);
};
