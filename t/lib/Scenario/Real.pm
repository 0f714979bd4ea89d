# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Real: the back-end of scenarios where Kubernetes is a real one (t/cluster), brought up once
# for all. Daemon and V-IPU controllers run in the cluster's network; the test asks the API server
# through kubectl's proxy, and the programs' listeners from within that network.
package Scenario::Real;

use v5.36;
use Cluster;
use Cluster::Rights;
use Cluster::Sandbox;
use IpuTest qw(http slurp start wait_until);
use IpuTree qw(top_srcdir);
use JSON::PP ();
use Scenario::Split;

my $operator_ns = 'ipu-operator';
my $clone_newnet = 0x40000000;
my $busybox = 'localhost/busybox:test';
my $mpi = 'localhost/mpi:test';

# Brings the cluster up (or skips the test) and installs the CRD, and the operator's accounts with what the chart grants
# them: by these the daemons run. $shape: nodes or scale. Options: bare, nothing of ours is put there; topology, split or
# combined (the default: all roles in one process); the others are Cluster's.
sub new ($class, $shape, %option) {
	my $is_bare = delete $option{bare};
	my $topology = delete $option{topology} // 'combined';
	my $c = Cluster->up($shape, with => ['helm'], %option);
	my $self = bless { c => $c, shape => $shape }, $class;
	require 'syscall.ph';
	open($self->{home}, '<', '/proc/self/ns/net') or die "/proc/self/ns/net: $!\n";
	my $init = Cluster::Sandbox->new($c->dir)->pid;
	open($self->{net}, '<', "/proc/$init/ns/net") or die "/proc/$init/ns/net: $!\n";
	$self->start_proxy;
	return $self if $is_bare;
	$self->{crd} = '';
	$self->use_crd(undef);
	$c->kubectl(qw(wait --for=condition=Established --timeout=30s crd/ipujobs.graphcore.ai));
	$self->become($topology);
	$self->load_launcher if $shape eq 'nodes';
	$self->{resources} = { 'rdma/rdma_shared_device_a' => '1000' };
	$self->add_resources;
	return $self;
}

sub is_real ($self) { return 1 }
sub patience ($self) { return 2 }
sub poll_s ($self) { return 0.1 }
sub cluster ($self) { return $self->{c} }
sub shape_name ($self) { return $self->{shape} }
sub address ($self) { return $self->{c}->address }
sub kubeconfig ($self) { return $self->{c}->kubeconfig }

# kubectl's proxy: plain HTTP on loopback for the test, whatever becomes of the API server.
sub start_proxy ($self) {
	$self->{proxy} = start('kubectl', path => $self->{c}->programs . '/kubectl', ports => 0,
		args => [ '--kubeconfig', $self->{c}->host_kubeconfig, 'proxy', '--port=0' ]);
	my $port = wait_until('kubectl\'s proxy', sub {
		return ($self->{proxy}->out // '') =~ /Starting to serve on 127\.0\.0\.1:(\d+)/ ? $1 : undef;
	}, while_alive => [ $self->{proxy} ]);
	$self->{url} = "http://127.0.0.1:$port";
	return;
}

# The listing of the guide asks for an RDMA device, which a device plugin would have told the nodes of.
sub add_resources ($self) {
	for my $node (@{ $self->{c}->get('nodes')->{items} }) {
		my $patch = { status => { capacity => $self->{resources},
			allocatable => $self->{resources} } };
		my $path = "/api/v1/nodes/$node->{metadata}{name}/status";
		my $answer = $self->request('PATCH', $path, json => $patch,
			headers => { 'content-type' => 'application/merge-patch+json' });
		die "PATCH $path: $answer->{content}\n" if !$answer->{success};
	}
	return;
}

# What launcher.image names in every scenario: the program and nothing else.
sub load_launcher ($self) {
	my $folder = IpuTest::test_dir() . '/launcher-image';
	mkdir($folder);
	IpuTest::run([ 'cp', IpuTest::program('ipu-launcher'), "$folder/ipu-launcher" ])->{status} == 0
		or die "no ipu-launcher\n";
	$self->{c}->load_image('localhost/ipu-launcher:test', $folder);
	return;
}

# The image with Open MPI, on all nodes: its name. Skips the subtest where its packages can't be had.
sub mpi_image ($self) {
	if (!$self->{has_mpi}) {
		my $made = IpuTest::run([ top_srcdir() . '/t/cluster/mpi-image' ], seconds => 300);
		my ($why) = $made->{err} =~ /([^\n]*)\n*\z/;
		Test::More::plan(skip_all => $why) if $made->{status} == 77 && !$ENV{IPU_REQUIRE_CLUSTER};
		die "mpi-image: $made->{err}\n" if $made->{status};
		chomp(my $folder = $made->{out});
		$self->{c}->load_image($mpi, $folder);
		$self->{has_mpi} = 1;
	}
	return $mpi;
}

# What runs in Pods and daemons with such a command line: process ids of this machine.
sub processes ($self, $pattern) {
	return grep {
		((slurp("/proc/$_/cmdline") // '') =~ tr/\0/ /r) =~ $pattern;
	} sort { $a <=> $b } keys %{ Cluster::Sandbox->new($self->{c}->dir)->processes };
}

# Another CRD from now on; undef: the project's own.
sub use_crd ($self, $text) {
	$text //= slurp(top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml');
	$self->{c}->apply($text) if $text ne $self->{crd};
	$self->{crd} = $text;
	return;
}

# Runs code whose new connections are made in the cluster's network.
sub reach ($self, $code) {
	$self->enter($self->{net});
	my $result = eval { $code->() };
	my $why = $@;
	$self->enter($self->{home});
	die $why if $why;
	return $result;
}

sub enter ($self, $net) {
	syscall(SYS_setns(), fileno($net), $clone_newnet) == 0 or die "setns: $!\n";
	return;
}

# The accounts of that topology, with all permissions that it may be given: webhook.url, which the scenarios have, asks for one
# more, advertised IPUs for others.
sub become ($self, $topology) {
	my $c = $self->{c};
	my %account = (controller => 'ipu-operator-controller-manager',
		proxy => $topology eq 'split' ? 'ipu-operator-vipu-proxy' : 'ipu-operator-controller-manager');
	Cluster::Rights::install($c, ns => $operator_ns, topology => $topology, set => ['operatorConfig.webhook.url=https://any', 'ipuVisibility.advertise=whole']);
	$self->{topology} = $topology;
	$self->{as}{$_} = Cluster::Rights::kubeconfig($c, $operator_ns, $account{$_}) for keys %account;
	$self->{proxy_token} = IpuTest::spit(IpuTest::test_dir() . '/proxy.token',
		Cluster::Rights::token($c, $operator_ns, $account{controller}, 'ipu-operator-proxy'));
	return;
}

sub start_daemon ($self, $settings) {
	my $launch = sub ($as, $with) {
		return $self->launch('ipu-operator',
			args => [ '--kubeconfig', $self->{as}{$as}, map { ('--set', "$_=$with->{$_}") } sort keys %$with ]);
	};
	return $launch->('controller', $settings) if $self->{topology} eq 'combined';
	return Scenario::Split->new($launch, $settings, $self->{proxy_token});
}

# That all of the operator's requests went by its accounts, and none was forbidden.
sub check_rights ($self) {
	my $denied = Cluster::Rights::denied($self->{c}, $operator_ns);
	Test::More::ok(%{ Cluster::Rights::uses($self->{c}, $operator_ns) }, 'the operator asked for something by its account');
	return Test::More::is_deeply([ sort keys %$denied ], [], 'what the chart grants the operator is enough for all that it asked');
}

# In a node's network, whose first interface is that name's.
sub start_on ($self, $node, $name, %option) {
	my ($entrance, @words) = $self->{c}->entrance(node => $node);
	return start($name, %option, ports => 0, path => $entrance, args => [ @words, IpuTest::program($name), @{ $option{args} } ]);
}
sub node_link ($self) { return 'eth0' }

sub shell_env ($self) { return (KUBECONFIG => $self->{c}->host_kubeconfig, PATH => $self->{c}->programs . ":$ENV{PATH}") }

sub launch ($self, $name, %option) { return $self->{c}->start_program($name, %option) }

# They run wherever there are real nodes.
sub run_pods ($self, $on) { return }

sub start_sim ($self, @args) {
	return $self->launch('ipu-sim', args => [ '--vipu-only', '--vipu-listen',
		$self->address . ':0', @args ]);
}

# Nothing stands between the daemon and its peers here.
sub between ($self) { return }
sub calm ($self) { return }
sub controller ($self, $sim, $number) { return $self->address . ':' . $sim->port("vipu$number") }

sub request ($self, $method, $path, %option) {
	$self->keep_scheduler;
	return http($method, "$self->{url}$path", %option);
}

# When the API server has been away, the scheduler may find that it and its own cache don't agree about a Pod; then it ends itself.
sub keep_scheduler ($self) {
	my $now = time;
	return if $now >= ($self->{keep_until} // 0) || $now < ($self->{kept} // 0) + 3;
	$self->{kept} = $now;
	$self->{c}->keep('kube-scheduler');
	return;
}

sub kubectl ($self, $arguments, %option) {
	return $self->{c}->kubectl_result($arguments, %option);
}

# The words of a person's kubectl, for what needs more than its output.
sub kubectl_words ($self) {
	return ($self->{c}->programs . '/kubectl', '--kubeconfig', $self->{c}->host_kubeconfig);
}

# On real nodes a job is a process; KWOK goes by annotations.
sub shape ($self, $job, %option) {
	return $self->shape_template($job->{spec}{workers}{template}, "$job->{metadata}{name}-worker-*", %option);
}

sub shape_template ($self, $template, $name, %option) {
	my ($code, $words) = ($option{exit} // 0, $option{words} // '');
	if ($self->{shape} eq 'scale') {
		my %note = defined $option{runs} ? ('test.kwok/runs-for' => "$option{runs}s",
			'test.kwok/exit-code' => "$code") : ();
		$note{'test.kwok/unready'} = 'true' if $option{unready};
		$template->{metadata}{annotations} = { %note, %{ $template->{metadata}{annotations} // {} } };
		return;
	}
	$template->{spec}{terminationGracePeriodSeconds} //= 1;
	return if $template->{spec}{containers}[0]{command};
	my $wait = defined $option{runs} ? "sleep $option{runs} & wait \$!"
		: 'while [ ! -e /tmp/end ]; do sleep 0.1; done; . /tmp/end';
	$template->{spec}{containers}[0]{command} = [ 'sh', '-c',
		"trap 'exit 143' TERM; code=$code; $wait; printf %s '$words' >>/dev/termination-log; exit \$code" ];
	return;
}

sub end_pod ($self, $s, $name, $code, $words) {
	if ($self->{shape} eq 'scale') {
		$s->patch('pods', $name, { metadata => { annotations => {
			'test.kwok/runs-for' => '0s', 'test.kwok/exit-code' => "$code" } } });
		return;
	}
	my $script = "printf %s '$words' >/dev/termination-log; echo code=$code >/tmp/end.new; "
		. 'mv /tmp/end.new /tmp/end';
	my $result = $self->{c}->kubectl_result([ 'exec', $name, '--', 'sh', '-c', $script ]);
	# 137: the container that it ends may end first, and takes the command along.
	die "kubectl exec $name: $result->{err}\n" if $result->{status} && $result->{status} != 137;
	return;
}

# Nothing but the test says so of a Pod of KWOK's.
sub set_ready ($self, $s, $name, $status) {
	die "only KWOK's Pods are made Ready by the test\n" if $self->{shape} ne 'scale';
	my $pod = $s->get('pods', $name) // die "no Pod $name\n";
	my @conditions = map { $_->{type} =~ /^(?:Ready|ContainersReady)$/ ? { %$_, status => $status } : $_ }
		@{ $pod->{status}{conditions} };
	$s->patch('pods', $name, { status => { conditions => \@conditions } }, sub => 'status');
	return;
}

sub lose_node ($self, $s, $node) {
	return if $self->{silent}{ $self->voice_of($node) }++;
	return $self->{c}->stop($self->voice_of($node));
}

sub return_node ($self, $s, $node) {
	return if !delete $self->{silent}{ $self->voice_of($node) };
	$self->{c}->revive($self->voice_of($node));
	$self->{c}->kubectl(qw(wait --for=condition=Ready node --all --timeout=60s));
	$self->end_pods($s) if $self->{shape} eq 'scale';
	return;
}

# A Pod in deletion that KWOK lists before it has its node's Lease is passed over until something about it changes.
sub end_pods ($self, $s) {
	for my $try (1 .. 30) {
		my @ending = grep { $_->{metadata}{deletionTimestamp} } $s->list('pods', ns => 'default') or return;
		$s->request('PATCH', $s->path('pods', 'default', $_->{metadata}{name}), json => { metadata => { annotations => { 'tests/returned' => "$try" } } },
			headers => { 'content-type' => 'application/merge-patch+json' }) for @ending;
		sleep 1;
	}
	return;
}

# The program that speaks for a node.
sub voice_of ($self, $node) { return $self->{shape} eq 'scale' ? 'kwok' : "$node-kubelet" }

# The webhook's Service leads to these ports of the cluster's own address; none: it goes.
sub serve_webhook ($self, $s, $service, @ports) {
	my $ns = 'ipu-operator';
	$s->create('services', { apiVersion => 'v1', kind => 'Service', metadata => { name => $service },
		spec => { ports => [ { port => 443, targetPort => 8443 } ] } }, $ns) if !$s->get('services', $service, $ns);
	my %wanted = map { ("$service-$_" => $_) } @ports;
	my %there = map { $_->{metadata}{name} => 1 }
		$s->list('endpointslices', ns => $ns, labels => "kubernetes.io/service-name=$service");
	for my $name (grep { !$there{$_} } sort keys %wanted) {
		$s->create('endpointslices', { apiVersion => 'discovery.k8s.io/v1', kind => 'EndpointSlice', addressType => 'IPv4',
			metadata => { name => $name, labels => { 'kubernetes.io/service-name' => $service } },
			ports => [ { port => 0 + $wanted{$name}, protocol => 'TCP' } ],
			endpoints => [ { addresses => [ $self->address ], conditions => { ready => JSON::PP::true } } ] }, $ns);
	}
	$s->delete('endpointslices', $_, ns => $ns) for grep { !$wanted{$_} } sort keys %there;
	$s->delete('services', $service, ns => $ns) if !@ports;
	return;
}

sub api_goes ($self, $s) { return $self->{c}->stop('kube-apiserver') }

sub api_comes ($self, $s) {
	$self->{c}->revive('kube-apiserver');
	wait_until('the API server', sub {
		return $self->request('GET', '/readyz', seconds => 5)->{status} == 200;
	});
	$self->{keep_until} = time + 120;
	return;
}

# Takes away what a scenario that failed has left: jobs with their finalizers, Pods, the tracker.
sub sweep ($self, $s) {
	for my $job ($s->list('ipujobs')) {
		my $name = $job->{metadata}{name};
		eval {
			$s->patch('ipujobs', $name, { metadata => { finalizers => undef } });
			$s->delete('ipujobs', $name);
		};
	}
	my ($name, $ns) = $s->tracker_place;
	$s->delete('configmaps', $name, ns => $ns);
	$s->must('DELETE', $s->path('pods', 'default') . '?gracePeriodSeconds=0', json => {});
	return;
}

# Ends the proxy and the cluster, and judges what the operator asked of it.
sub down ($self) {
	$self->check_rights if $self->{topology};
	$self->{proxy}->stop(status => 143);
	$self->{c}->down;
	return;
}

1;
