# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Control: the control plane, the same in both shapes: keys and tokens, etcd, the API server,
# controller manager, scheduler, kube-proxy and CoreDNS. Runs inside the cluster's namespaces.
package Cluster::Control;

use v5.36;
use Cluster::Layout qw(:DEFAULT CONTROL_ADDRESS API_PORT SERVICE_RANGE API_SERVICE_ADDRESS POD_RANGE
	DNS_ADDRESS DOMAIN write_kubeconfig);
use Cluster::Run qw(fail now capture port_open spawn tail wait_until write_file write_json);
use File::Path qw(make_path);
use JSON::PP ();
use POSIX qw(WNOHANG);

# $dir: the cluster's folder; $bin: where its programs are; $deadline: when to give up.
sub new ($class, $dir, $bin, $deadline) {
	return bless { dir => $dir, bin => $bin, deadline => $deadline, pid => {} }, $class;
}

# Starts one program, which must stay. Its name is that of its log and its pid file.
sub start ($self, $name, @command) {
	my @enter;
	@enter = @{ shift @command } if ref $command[0];
	my $program = shift @command;
	$self->restart($name, [ @enter, "$self->{bin}/$program", @command ]);
}

# Starts it by its whole command, and writes that down for the next time.
sub restart ($self, $name, $command) {
	my %environment = (PATH => "$self->{bin}:/usr/sbin:/usr/bin:/sbin:/bin", HOME => '/run',
		TMPDIR => $self->{dir} . '/tmp');
	my $pid = spawn("$self->{dir}/log/$name.log", \%environment, @$command);
	$self->{pid}{$name} = $pid;
	write_json("$self->{dir}/pids/$name", { pid => $pid, command => $command });
}

# Waits for a condition; fails at once when a program has ended, or when the deadline has passed.
sub await ($self, $what, $test, $pause = 0.1) {
	my $done = wait_until($self->{deadline}, sub {
		$self->check;
		return $test->();
	}, $pause);
	return $done if $done;
	fail("$what: not within the time allowed (see $self->{dir}/log)");
}

sub check ($self) {
	for my $name (sort keys %{ $self->{pid} }) {
		next unless waitpid($self->{pid}{$name}, WNOHANG) == $self->{pid}{$name};
		my ($status, $signal) = ($? >> 8, $? & 127);
		fail("$name ended with status $status, signal $signal; the end of its log:\n"
			. tail("$self->{dir}/log/$name.log", 8));
	}
}

# kubectl as the administrator, for our own calls: its output, or undef (and why, in list context).
sub kubectl ($self, @arguments) {
	my ($status, $text) = capture(20, "$self->{bin}/kubectl",
		"--kubeconfig=$self->{dir}/inside.kubeconfig", '--request-timeout=10s', @arguments);
	return wantarray ? ($status, $text) : $status == 0 ? $text : undef;
}

sub create ($self, $what, @objects) {
	my $path = "$self->{dir}/tmp/$what.json";
	write_json($path, { apiVersion => 'v1', kind => 'List', items => \@objects });
	my $text;
	my $done = wait_until(now() + 20, sub {
		(my $status, $text) = $self->kubectl('apply', '--server-side', '-f', $path);
		return $status == 0;
	}, 0.3);
	fail("$what can't be made: $text") unless $done;
}

# The certificate authority, the API server's certificate and an administrator's, the key that signs
# service accounts' tokens, and a token for everyone else.
sub make_keys ($self) {
	my $keys = "$self->{dir}/keys";
	make_path($keys, { mode => 0700 });
	write_file("$keys/openssl.cnf", "[req]\ndistinguished_name=dn\n[dn]\n");
	my @new = ('openssl', 'req', '-config', "$keys/openssl.cnf", '-x509', '-nodes', '-days', 30,
		'-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1');
	my @signed = (@new, '-CA', "$keys/ca.crt", '-CAkey', "$keys/ca.key",
		'-addext', 'basicConstraints=critical,CA:FALSE');
	my $names = join ',', 'DNS:kubernetes', 'DNS:kubernetes.default', 'DNS:kubernetes.default.svc',
		'DNS:kubernetes.default.svc.' . DOMAIN, 'DNS:localhost',
		map { "IP:$_" } CONTROL_ADDRESS, API_SERVICE_ADDRESS, '127.0.0.1';
	for my $command (
		[ @new, '-subj', '/CN=test-ca', '-keyout', "$keys/ca.key", '-out', "$keys/ca.crt",
			'-addext', 'basicConstraints=critical,CA:TRUE',
			'-addext', 'keyUsage=critical,keyCertSign,cRLSign' ],
		[ @signed, '-subj', '/CN=kube-apiserver', '-addext', "subjectAltName=$names",
			'-addext', 'extendedKeyUsage=serverAuth',
			'-keyout', "$keys/server.key", '-out', "$keys/server.crt" ],
		[ @signed, '-subj', '/O=system:masters/CN=admin', '-addext', 'extendedKeyUsage=clientAuth',
			'-keyout', "$keys/admin.key", '-out', "$keys/admin.crt" ],
		[ 'openssl', 'genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
			'-out', "$keys/accounts.key" ],
		[ 'openssl', 'pkey', '-in', "$keys/accounts.key", '-pubout', '-out',
			"$keys/accounts.pub" ])
	{
		my ($status, $text) = capture(20, @$command);
		fail("openssl: $text") if $status;
	}
}

# Users: name => [ the name in Kubernetes, its groups ].
sub make_tokens ($self, @nodes) {
	my %user = (
		admin => [ 'admin', 'system:masters' ],
		'controller-manager' => ['system:kube-controller-manager'],
		scheduler => ['system:kube-scheduler'],
		proxy => ['system:kube-proxy'],
	);
	$user{ $_->{name} } = [ "system:node:$_->{name}", 'system:nodes' ] for @nodes;
	open(my $random, '<:raw', '/dev/urandom') or fail("/dev/urandom: $!");
	my ($table, %token) = '';
	for my $name (sort keys %user) {
		my ($login, $groups) = @{ $user{$name} };
		read($random, my $bytes, 24) == 24 or fail('/dev/urandom');
		$token{$name} = unpack 'H*', $bytes;
		$table .= "$token{$name},$login,$login" . ($groups ? qq{,"$groups"} : '') . "\n";
	}
	my $keys = "$self->{dir}/keys";
	write_file("$keys/tokens.csv", $table, 0600);
	for my $name (sort keys %user) {
		write_kubeconfig("$keys/$name.kubeconfig", ca => "$keys/ca.crt", user => $name,
			token => $token{$name});
	}
	return $token{admin};
}

sub start_etcd ($self) {
	$self->start('etcd', 'etcd', "--data-dir=$self->{dir}/etcd", '--unsafe-no-fsync',
		'--listen-client-urls=http://127.0.0.1:2379', '--advertise-client-urls=http://127.0.0.1:2379',
		'--listen-peer-urls=http://127.0.0.1:2380', '--log-level=warn');
}

# What ServiceAccounts ask for, the cluster's own aside, is written down: Cluster::Rights reads it.
sub start_api_server ($self) {
	my $keys = "$self->{dir}/keys";
	write_json("$keys/audit.json", { apiVersion => 'audit.k8s.io/v1', kind => 'Policy', omitStages => ['RequestReceived'],
		omitManagedFields => JSON::PP::true, rules => [
			{ level => 'None', userGroups => ['system:serviceaccounts:kube-system'] },
			{ level => 'Metadata', userGroups => ['system:serviceaccounts'] }, { level => 'None' } ] });
	$self->await('etcd', sub { port_open('127.0.0.1', 2379) });
	$self->start('kube-apiserver', 'kube-apiserver', '--etcd-servers=http://127.0.0.1:2379',
		'--secure-port=' . API_PORT, '--advertise-address=' . CONTROL_ADDRESS,
		"--tls-cert-file=$keys/server.crt", "--tls-private-key-file=$keys/server.key",
		"--client-ca-file=$keys/ca.crt", "--token-auth-file=$keys/tokens.csv",
		'--authorization-mode=Node,RBAC',
		'--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement',
		"--audit-policy-file=$keys/audit.json", "--audit-log-path=$self->{dir}/audit.log", '--audit-log-maxsize=2000',
		"--service-account-key-file=$keys/accounts.pub",
		"--service-account-signing-key-file=$keys/accounts.key",
		'--service-account-issuer=https://kubernetes.default.svc.' . DOMAIN,
		'--service-cluster-ip-range=' . SERVICE_RANGE, '--allow-privileged=true',
		'--kubelet-preferred-address-types=InternalIP', '--profiling=false');
	$self->await('the API server', sub {
		return port_open('127.0.0.1', API_PORT) && defined $self->kubectl('get', '--raw=/readyz');
	});
}

sub start_controllers ($self) {
	my $keys = "$self->{dir}/keys";
	my @unlimited = ('--kube-api-qps=5000', '--kube-api-burst=5000');
	$self->start('kube-controller-manager', 'kube-controller-manager',
		"--kubeconfig=$keys/controller-manager.kubeconfig", '--leader-elect=false',
		'--secure-port=0', '--use-service-account-credentials=true',
		@unlimited, "--flex-volume-plugin-dir=$self->{dir}/tmp/plugins",
		"--service-account-private-key-file=$keys/accounts.key", "--root-ca-file=$keys/ca.crt",
		"--cluster-signing-cert-file=$keys/ca.crt", "--cluster-signing-key-file=$keys/ca.key");
	$self->start('kube-scheduler', 'kube-scheduler', "--kubeconfig=$keys/scheduler.kubeconfig",
		'--leader-elect=false', '--secure-port=0', @unlimited);
}

# $name: of the program; $node: whose name it goes by; $enter: the command that leads to its network.
# The one beside the API server is there so that webhooks can be called by their Service's address.
# A limit on connection tracking is the whole machine's: left alone.
sub start_proxy ($self, $name, $node, $enter = []) {
	my $config = "$self->{dir}/keys/$name.json";
	write_json($config, {
		apiVersion => 'kubeproxy.config.k8s.io/v1alpha1',
		kind => 'KubeProxyConfiguration',
		mode => 'iptables',
		hostnameOverride => $node,
		clusterCIDR => POD_RANGE,
		clientConnection => { kubeconfig => "$self->{dir}/keys/proxy.kubeconfig" },
		conntrack => { maxPerCore => 0, min => 0 },
		iptables => { minSyncPeriod => '100ms' },
		healthzBindAddress => '127.0.0.1:10256',
		metricsBindAddress => '127.0.0.1:10249',
	});
	$self->start($name, $enter, 'kube-proxy', "--config=$config");
}

# CoreDNS runs beside the API server; its Service gets its address by hand.
sub start_dns ($self) {
	my $config = "$self->{dir}/keys/Corefile";
	my $address = CONTROL_ADDRESS;
	my $domain = DOMAIN;
	write_file($config, <<"END");
. {
	bind $address
	errors
	ready 127.0.0.1:8181
	kubernetes $domain in-addr.arpa {
		kubeconfig $self->{dir}/inside.kubeconfig
		pods insecure
		ttl 1
	}
}
END
	$self->start('coredns', 'coredns', "-conf=$config");
	my %meta = (name => 'kube-dns', namespace => 'kube-system');
	$self->create('dns', {
		apiVersion => 'v1', kind => 'Service', metadata => {%meta},
		spec => { clusterIP => DNS_ADDRESS, ports => [ map {
			{ name => lc $_, protocol => $_, port => 53, targetPort => 53 } } qw(UDP TCP) ] },
	}, {
		apiVersion => 'discovery.k8s.io/v1', kind => 'EndpointSlice', addressType => 'IPv4',
		metadata => { %meta, labels => { 'kubernetes.io/service-name' => 'kube-dns' } },
		endpoints => [ { addresses => [$address], conditions => { ready => JSON::PP::true } } ],
		ports => [ map { { name => lc $_, protocol => $_, port => 53 } } qw(UDP TCP) ],
	});
	$self->await('CoreDNS', sub { port_open('127.0.0.1', 8181) && port_open($address, 53) });
}

1;
