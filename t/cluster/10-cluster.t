#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The cluster of real nodes itself, on which the job's scenarios stand: containers run, fail and see
# their environment, names resolve, Services lead somewhere, our CRD means what it says to a real API
# server, and nothing is left afterwards.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use IpuTest qw(json_decode slurp);
use Test::More;
use Traces;

my $top = "$FindBin::Bin/../..";
my $before = Traces::machine();
my $c = Cluster->up('nodes');

# A Pod of one busybox container that runs a shell script.
sub pod ($name, $script, %more) {
	my %spec = (
		restartPolicy => 'Never',
		terminationGracePeriodSeconds => 1,
		containers => [ {
			name => 'main', image => 'localhost/busybox:test', imagePullPolicy => 'Never',
			command => [ 'sh', '-c', $script ], env => $more{env} // [], ports => $more{ports} // [],
		} ],
		$more{node} ? (nodeSelector => { 'kubernetes.io/hostname' => $more{node} }) : (),
		%{ $more{spec} // {} },
	);
	return IpuTest::json_encode({ apiVersion => 'v1', kind => 'Pod', spec => \%spec,
		metadata => { name => $name, labels => { app => $name } } });
}

sub exit_code ($pod) {
	return $pod->{status}{containerStatuses}[0]{state}{terminated}{exitCode};
}

subtest 'nodes' => sub {
	my @nodes = @{ $c->get('nodes')->{items} };
	is(scalar @nodes, 3, 'three nodes');
	for my $node (@nodes) {
		my ($ready) = grep { $_->{type} eq 'Ready' } @{ $node->{status}{conditions} };
		is($ready->{status}, 'True', "$node->{metadata}{name} is Ready");
		ok(!$node->{spec}{taints}, '… and has no taint');
	}
	like($c->kubectl('version'), qr/^Server Version: v1\.\d+\.\d+$/m,
		'the server knows its version');
};

subtest 'containers run' => sub {
	$c->apply(pod('good', 'echo "$GREETING from $(hostname)"; exit 0',
		env => [ { name => 'GREETING', value => 'hello' } ]));
	$c->apply(pod('bad', 'echo broken >&2; exit 3'));
	my $good = $c->wait_for_phase('good', 'Succeeded');
	is(exit_code($good), 0, 'one that ends well has Succeeded');
	is($c->kubectl('logs', 'good'), "hello from good\n", 'it saw its environment; its log is there');
	my $bad = $c->wait_for_phase('bad', 'Failed');
	is(exit_code($bad), 3, 'one that fails has Failed, with its exit code');
	$c->kubectl('delete', 'pod', 'good', 'bad');
	is($c->get('pod', 'good'), undef, 'a deleted Pod goes');
};

subtest 'a node\'s own network and name' => sub {
	$c->apply(pod('host', 'hostname; ip -o -4 addr show dev eth0', node => 'node2', spec => {
		hostNetwork => JSON::PP::true, hostIPC => JSON::PP::true,
		dnsPolicy => 'ClusterFirstWithHostNet' }));
	$c->wait_for_phase('host', 'Succeeded');
	like($c->kubectl('logs', 'host'), qr{^node2\n.*inet 10\.150\.0\.12/16 }s,
		'hostNetwork is the node\'s, with its address and host name');
};

subtest 'names and Services' => sub {
	for my $node ($c->nodes) {
		$c->apply(pod("web-$node", "echo $node >/tmp/index.html; exec httpd -f -p 8080 -h /tmp",
			node => $node));
	}
	$c->kubectl('label', 'pod', '-l', 'app in (web-node1,web-node2,web-node3)', 'service=web');
	$c->apply(IpuTest::json_encode({ apiVersion => 'v1', kind => 'Service',
		metadata => { name => 'web' },
		spec => { selector => { service => 'web' }, ports => [ { port => 80, targetPort => 8080 } ] },
	}));
	$c->wait_for_phase("web-$_", 'Running') for $c->nodes;
	$c->wait_for('the three addresses of the Service', sub {
		my $slices = $c->get('endpointslices', '-l', 'kubernetes.io/service-name=web');
		return 3 == grep { $_->{conditions}{ready} }
			map { @{ $_->{endpoints} // [] } } @{ $slices->{items} };
	});

	# Every one of the three must answer, from a Pod beside one of them and from the control plane.
	# (Not "wget -T": it crashes in Debian's static busybox.)
	my $script = <<'END';
seen=
for i in $(seq 200); do
	word=$(timeout 2 wget -qO- http://web.default.svc.cluster.local/) && seen="$seen $word"
	for n in node1 node2 node3; do
		case "$seen" in *$n*) ;; *) continue 2;; esac
	done
	echo all
	exit 0
done
echo "only: $seen"
exit 1
END
	$c->apply(pod('client', $script, node => 'node1'));
	$c->wait_for_phase('client', 'Succeeded');
	is($c->kubectl('logs', 'client'), "all\n", 'a Pod reaches the Service by name, on all nodes');
	my $beside = $c->command([ 'sh', '-c', $script =~ s{timeout 2 wget -qO-}{curl -sf -m 2}r ]);
	is($beside->{out}, "all\n", 'so does a program in the control plane\'s network') or diag($beside->{err});
	$c->apply(pod('lost', 'nslookup nosuch.default.svc.cluster.local'));
	$c->wait_for_phase('lost', 'Failed');
	pass('a name that isn\'t there doesn\'t resolve');
};

subtest 'a program in the cluster\'s network serves Pods' => sub {
	my $dir = IpuTest::test_dir();
	IpuTest::spit("$dir/index.html", "from outside\n");
	my $server = $c->start_program('httpd', path => '/bin/busybox', ports => 0,
		args => [ 'httpd', '-f', '-p', $c->address . ':8081', '-h', $dir ]);
	$c->apply(pod('caller', 'for i in $(seq 50); do timeout 2 wget -qO- http://' . $c->address
		. ':8081/ && exit 0; sleep 0.2; done; exit 1'));
	$c->wait_for_phase('caller', 'Succeeded');
	is($c->kubectl('logs', 'caller'), "from outside\n", 'a Pod gets its answer');
	my $token = $c->command([ 'kubectl', 'auth', 'whoami', '-o', 'json' ]);
	is(json_decode($token->{out})->{status}{userInfo}{username}, 'admin',
		'KUBECONFIG is the administrator\'s');
	$server->stop(status => 143);
};

subtest 'exec, attach to its input, and logs' => sub {
	my $result = $c->kubectl_result([ qw(exec web-node2 -- sh -c), 'echo out; echo err >&2; exit 7' ]);
	is($result->{status}, 7, 'the exit status comes back');
	is($result->{out}, "out\n", 'and the output');
	my $echo = $c->kubectl_result([ qw(exec -i web-node3 -- md5sum) ], stdin => 'x' x 5_000_000);
	is($echo->{out}, `printf '%05000000d' 0 | tr 0 x | md5sum`, '5 MB and their end arrive');
};

subtest 'service accounts, init containers, shared memory' => sub {
	my $token = '/var/run/secrets/kubernetes.io/serviceaccount/token';
	my @image = (image => 'localhost/busybox:test', imagePullPolicy => 'Never');
	my @mount = (volumeMounts => [ { name => 'shm', mountPath => '/dev/shm' } ]);
	$c->apply(pod('account', '', spec => {
		volumes => [ { name => 'shm', emptyDir => { medium => 'Memory' } } ],
		initContainers => [ { name => 'first', @image, @mount,
			command => [ 'sh', '-c', 'echo from first >/dev/shm/word' ] } ],
		containers => [ { name => 'main', @image, @mount,
			securityContext => { privileged => JSON::PP::true },
			command => [ 'sh', '-c', "cat /dev/shm/word $token; nc -w 2 10.96.0.1 443 </dev/null && echo; "
				. 'grep -c " /dev/shm tmpfs" /proc/mounts; sed -n "s/^CapEff:\t*//p" /proc/self/status' ] } ],
	}));
	$c->wait_for_phase('account', 'Succeeded');
	my @lines = split /\n/, $c->kubectl('logs', 'account');
	is($lines[0], 'from first', 'an init container runs first');
	my $who = $c->kubectl('auth', 'whoami', "--token=$lines[1]", '-o', 'json');
	is(json_decode($who)->{status}{userInfo}{username}, 'system:serviceaccount:default:default',
		'a Pod has its account\'s token');
	is($lines[2], '1', 'a volume in memory is one; the API server\'s Service can be reached');
	my ($ours) = slurp('/proc/self/status') =~ /^CapEff:\s*(\w+)/m;
	is($lines[3], $ours, 'privileged has all the capabilities that there are');
};

subtest 'the API server goes away' => sub {
	$c->stop('kube-apiserver');
	isnt($c->kubectl_result([ 'get', 'nodes', '--request-timeout=2s' ])->{status}, 0, 'gone');
	$c->revive('kube-apiserver');
	$c->wait_for('the API server', sub {
		return $c->kubectl_result([ 'get', '--raw=/readyz' ])->{status} == 0;
	});
	$c->apply(pod('after', 'true'));
	is(exit_code($c->wait_for_phase('after', 'Succeeded')), 0, 'back, and everything goes on');
};

subtest 'an image made of a folder' => sub {
	my $dir = IpuTest::test_dir() . '/image';
	mkdir($_) for $dir, "$dir/bin";
	system('cp', '-L', '/bin/busybox', "$dir/bin/sh") == 0 or die "cp failed\n";
	IpuTest::spit("$dir/word", "carried\n");
	$c->load_image('localhost/folder:1', $dir);
	$c->apply(pod('folder', 'read word </word; echo $word',
		spec => { containers => [ { name => 'main', image => 'localhost/folder:1',
			imagePullPolicy => 'Never', command => [ '/bin/sh', '-c', 'read w </word; echo $w' ] } ] }));
	$c->wait_for_phase('folder', 'Succeeded');
	is($c->kubectl('logs', 'folder'), "carried\n", 'runs on a node');
};

# --- our own API -----------------------------------------------------------------------------------

sub job ($name, $size, $template = {}, %more) {
	return { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { %$size, %more, workers => { template => {
			spec => { containers => [ { name => 'main', image => 'x' } ] }, %$template } } } };
}

my %sized = (jobInstances => 1, ipusPerJobInstance => '4');

subtest 'the CRD' => sub {
	$c->apply(slurp("$top/crds/graphcore.ai_ipujobs.yaml"));
	$c->kubectl(qw(wait --for=condition=Established --timeout=30s crd/ipujobs.graphcore.ai));
	my $crd = $c->get('crd', 'ipujobs.graphcore.ai');
	ok(!(grep { $_->{type} eq 'NonStructuralSchema' && $_->{status} eq 'True' }
		@{ $crd->{status}{conditions} }), 'its schema is structural');
	$c->wait_for('IPUJobs to be served', sub { eval { $c->get('ipujobs') } });
	for my $example (sort glob "$top/doc/examples/*.yaml") {
		my ($name) = $example =~ m{([^/]+)$};
		my $result = $c->kubectl_result([ 'create', '-f', $example ]);
		is($result->{status}, 0, "it takes $name") or diag($result->{err});
	}
	is($c->get('ipujob', 'mnist-training')->{spec}{workers}{replicas}, 1, 'defaults are filled in');
};

subtest 'the Pod template is kept' => sub {
	my %template = (
		metadata => { labels => { a => 'b' }, annotations => { 'x.y/z' => "one\ntwo" } },
		spec => {
			hostIPC => JSON::PP::true, fieldOfTheFuture => { deep => [ 1, { er => 'x' } ] },
			volumes => [ { name => 'shm', emptyDir => { medium => 'Memory' } } ],
			containers => [ { name => 'main', image => 'x', alsoNew => 'kept',
				securityContext => { capabilities => { add => ['IPC_LOCK'] } },
				args => [ '-c', "line 1\nline 2\n" ] } ],
		},
	);
	$c->apply(IpuTest::json_encode(job('kept', \%sized, \%template)));
	is_deeply($c->get('ipujob', 'kept')->{spec}{workers}{template}, \%template,
		'every field, known or not, comes back as it was');
};

# What must be refused, and a word of the message.
my @refused = (
	[ 'sizes of both generations', job('x', { %sized, modelReplicas => '1', ipusPerModelReplica => '1' }),
		qr/given twice/ ],
	[ 'no size', job('x', {}), qr/no size/ ],
	[ 'half a size', job('x', { jobInstances => 1 }), qr/goes with jobInstances/ ],
	[ 'half a size of 1.0', job('x', { modelReplicas => '2' }), qr/goes with modelReplicas/ ],
	[ 'IPUs that are no power of two', job('x', { jobInstances => 1, ipusPerJobInstance => '3' }),
		qr/power of two/ ],
	[ 'a product that is no power of two', job('x', { modelReplicas => '3', ipusPerModelReplica => '2' }),
		qr/power of two/ ],
	[ 'IPUs that are no string', job('x', { jobInstances => 1, ipusPerJobInstance => 4 }), qr/string/ ],
	[ 'no instances', job('x', { %sized, jobInstances => 0 }), qr/from 1 to 2000/ ],
	[ 'a launcher without a command', job('x', \%sized, {}, launcher => {}), qr/command/ ],
	[ 'a launcher in an interactive job', job('x', \%sized, {}, launcher => { command => ['a'] },
		interactive => { ttl => 1 }), qr/not both/ ],
	[ 'an unknown restart policy', job('x', \%sized, {}, restartPolicy => { type => 'Sometimes' }),
		qr/Unsupported value/ ],
	[ 'exit codes wanted and not given', job('x', \%sized, {}, restartPolicy => { type => 'ExitCode' }),
		qr/which exit codes/ ],
	[ 'exit codes in words', job('x', \%sized, {}, restartPolicy => { type => 'ExitCode',
		exitCodes => 'one' }), qr/exitCodes/ ],
	[ 'a template without containers', job('x', \%sized, { spec => { containers => [] } }),
		qr/containers/ ],
	[ 'a name too long for its Pods', job('x' x 60, \%sized), qr/too long/ ],
);

subtest 'what the API server itself refuses' => sub {
	for my $row (@refused) {
		my ($what, $job, $why) = @$row;
		my $result = $c->try_apply(IpuTest::json_encode($job));
		isnt($result->{status}, 0, $what);
		like($result->{err}, $why, '… with a reason');
	}
};

subtest 'status, scale and columns' => sub {
	my $patch = IpuTest::json_encode({ status => { launcherStatus => 'Running', currentReplicas => 1,
		desiredReplicas => 2, lastMessage => 'two words', selector => 'app=kept' } });
	$c->kubectl('patch', 'ipujob', 'kept', '--subresource=status', '--type=merge', '-p', $patch);
	my @lines = split /\n/, $c->kubectl('get', 'ipujob', 'kept');
	like($lines[0], qr/^NAME +STATUS +CURRENT +DESIRED +LASTMESSAGE +AGE *$/, 'the columns');
	like($lines[1], qr/^kept +Running +1 +2 +two words +\S+ *$/, 'and what they show');
	$c->kubectl('scale', 'ipujob', 'kept', '--replicas=3');
	is($c->get('ipujob', 'kept')->{spec}{jobInstances}, 3, 'kubectl scale sets jobInstances');
	my $scale = json_decode($c->kubectl('get', '--raw',
		'/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs/kept/scale'));
	is_deeply($scale->{status}, { replicas => 2, selector => 'app=kept' },
		'an autoscaler sees replicas and selector');
	my $old = $c->get('ipujob', 'kept');
	$c->kubectl('patch', 'ipujob', 'kept', '--type=merge', '-p', '{"status":{"lastMessage":"no"}}');
	is($c->get('ipujob', 'kept')->{status}{lastMessage}, 'two words', 'status changes by itself only');
};

# --- the end -----------------------------------------------------------------------------------------

my $cluster = Traces::of_cluster($c->dir);
cmp_ok(scalar keys %{ $cluster->{processes} }, '>', 20, 'before the end, much runs');
cmp_ok(scalar @{ $cluster->{containers} }, '>=', 6, '… containers too');
$c->down;
is_deeply([ Traces::left($cluster) ], [], 'afterwards no process, namespace, mount or file is left');
is_deeply([ Traces::changes($before) ], [], 'and the machine is as it was');
done_testing;
