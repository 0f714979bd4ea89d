#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The role node on real nodes: as the chart's DaemonSet, in a namespace of its own, on a node without RDMA, which is tainted once it's
# said to be a head node; held by the policy to its own Node; and as a service would run it, with the stand-in's RDMA devices, where a
# port goes down and comes back.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Install;
use IpuTest;
use IpuTree qw(file_text);
use JSON::PP ();
use RdmaStandin;
use Test::More;
use Time::HiRes qw(time);
use Traces;

my $before = Traces::machine();
my $i = Cluster::Install->up(nodes => 2);
my $c = $i->c;
my ($head, $other) = $c->nodes;
my $yes = JSON::PP::true();
my $taint = 'graphcore.ai/fabric-not-ready:NoSchedule';

sub node ($name = $head) { return $c->get('node', $name) }
sub condition ($name = $head) { return (grep { $_->{type} eq 'IPUFabricReady' } @{ node($name)->{status}{conditions} })[0] // { status => '', reason => '' } }
sub is_status ($status) { return condition()->{status} eq $status }
sub taints ($name = $head) { return join ' ', map { "$_->{key}:$_->{effect}" } @{ node($name)->{spec}{taints} // [] } }
sub note_of ($name) { return node($name)->{metadata}{annotations}{'graphcore.ai/node-published'} }

# One that needs nothing but a node.
sub make_pod ($name, %spec) {
	$c->apply(json_encode({ apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, namespace => 'default', labels => { 'graphcore.ai/job' => 'j' } },
		spec => { containers => [ { name => 'c', image => 'localhost/none:1', imagePullPolicy => 'Never' } ], %spec } }));
	return;
}
sub pod ($name) { return $c->get('pod', $name, '-n', 'default') }
sub events ($reason) {
	return join ' ', sort map { "$_->{involvedObject}{kind}/$_->{involvedObject}{name}" } grep { $_->{reason} eq $reason } @{ $c->get('events', '-A')->{items} };
}

my %daemons = (vipuControllers => ($i->controllers)[0] . ':pod-ctrl=one', node => { enabled => $yes, namespace => 'ipu-node',
	nodeSelector => { head => 'true' }, policy => $yes, metricsListen => ':8447', healthPort => 9082, priorityClassName => 'system-node-critical' });

subtest 'the DaemonSet, on a node without RDMA' => sub {
	$c->kubectl('create', 'namespace', 'ipu-node');
	$c->kubectl('label', 'namespace', 'ipu-node', 'pod-security.kubernetes.io/enforce=privileged');
	$c->kubectl('label', 'node', $head, 'head=true');
	my $out = $i->install({%daemons});
	like($out, qr/rollout status daemonset ipu-operator-node/, 'the notes say how to look at it');
	wait_until('the condition', sub { is_status('False') }, seconds => 60);
	like(condition()->{reason}, qr/^NoRDMA(?:Driver|Device)$/, 'the node has no RDMA: ' . condition()->{message});
	make_pod('comes', nodeSelector => { head => 'true' });
	wait_until('a Pod to be scheduled there', sub { (pod('comes')->{spec}{nodeName} // '') eq $head }, seconds => 60);
	is(taints(), '', 'it has no taint: it may be any machine');
	is(note_of($head), undef, '... and no label');
	is(note_of($other), undef, 'the other node is left alone');
	my ($entrance, @words) = $c->entrance(node => $head);
	my $metrics;
	wait_until('metrics of the node', sub {
		$metrics = run([ $entrance, @words, qw(curl -s --max-time 5 http://127.0.0.1:8447/metrics) ], seconds => 30);
		return $metrics->{status} == 0;
	}, seconds => 60);
	like($metrics->{out}, qr/^ipu_operator_fabric_ready 0$/m, 'what the alert goes by');
	$c->kubectl('label', 'node', $head, 'pod-ctrl=one');
	wait_until("the taint, now that it has a controller's label", sub { taints() eq $taint });
	make_pod('stays-away', nodeSelector => { head => 'true' });
	wait_until('the scheduler to say why', sub {
		grep { $_->{type} eq 'PodScheduled' && ($_->{message} // '') =~ /untolerated taint/ } @{ pod('stays-away')->{status}{conditions} // [] };
	}, seconds => 60);
	pass('nothing new comes there');
};

subtest 'without RDMA, by the route alone' => sub {
	$i->upgrade({ %daemons, node => { %{ $daemons{node} }, metricsSecure => $yes }, operatorConfig => { node => { rdma => 'none', calmSeconds => 1 } } });
	wait_until('the condition', sub { is_status('True') && taints() eq '' }, seconds => 60);
	like(condition()->{message}, qr/^V-IPU controller \S+ is reached by \w+/, 'by the list of controllers in the ConfigMap: ' . condition()->{message});
	wait_until('the Pod to be scheduled', sub { (pod('stays-away')->{spec}{nodeName} // '') eq $head }, seconds => 60);
};

subtest 'metrics to whom they are for' => sub {
	$c->kubectl('create', 'serviceaccount', $_, '-n', 'ipu-node') for qw(reader somebody);
	$c->kubectl(qw(create clusterrolebinding reads --clusterrole=ipu-operator-metrics-reader --serviceaccount=ipu-node:reader));
	my %token = map { $_ => $c->kubectl('create', 'token', $_, '-n', 'ipu-node') =~ s/\s+//gr } qw(reader somebody);
	my ($entrance, @words) = $c->entrance(node => $head);
	my $get = sub ($account = undef) {
		my $done = run([ $entrance, @words, qw(curl -sk --max-time 5 -w), "\n%{http_code}", ($account ? ('-H', "Authorization: Bearer $token{$account}") : ()),
			'https://127.0.0.1:8447/metrics' ], seconds => 30);
		return $done->{out};
	};
	wait_until('an account that may read them', sub { $get->('reader') =~ /^ipu_operator_fabric_ready 1\n.*\n200\z/ms }, seconds => 60);
	like($get->('somebody'), qr/\n403\z/, 'another one may not');
	like($get->(), qr/\n401\z/, 'nor who shows no token');
};

subtest 'held to its own Node' => sub {
	my @as = ('--as=system:serviceaccount:ipu-node:ipu-operator-node');
	# The chart's node.policy, which is that of examples/cluster/node-policy.yaml; and what kubectl itself needs beside.
	$c->kubectl(qw(create clusterrole looks --verb=get --resource=nodes));
	$c->kubectl(qw(create clusterrolebinding looks --clusterrole=looks --serviceaccount=ipu-node:ipu-operator-node));
	my $refused;
	wait_until('the policy to count', sub {
		$refused = $c->kubectl_result([ 'annotate', '--overwrite', 'node', $other, 'x=' . time, @as ]);
		$refused->{status} != 0;
	}, seconds => 60);
	like($refused->{err}, qr/changes its own Node alone/, 'whose token says nothing of a node changes none');
	# The same for a service's account, which is named for its Node.
	$c->apply(file_text('doc/examples/cluster/head-node-account.yaml') =~ s/\bhead-1\b/$other/gr);
	my $account = "system:serviceaccount:ipu-operator:ipu-node-$other";
	$c->kubectl(qw(create clusterrolebinding looks-too --clusterrole=looks), "--user=$account");
	wait_until('its policy to count', sub {
		$refused = $c->kubectl_result([ 'annotate', '--overwrite', 'node', $head, 'x=' . time, "--as=$account" ]);
		$refused->{status} != 0;
	}, seconds => 60);
	like($refused->{err}, qr/changes its own Node alone/, "a service's account changes no other Node");
	is($c->kubectl_result([ 'annotate', '--overwrite', 'node', $other, 'x=' . time, "--as=$account" ])->{status}, 0, '... but its own');
	$c->kubectl('annotate', 'node', $head, 'graphcore.ai/node-published-');
	$c->kubectl('taint', 'node', $head, 'others=1:PreferNoSchedule');
	$i->upgrade({%daemons}); # RDMA is wanted again
	wait_until('its own Node is changed by it', sub { is_status('False') && taints() =~ /fabric-not-ready/ }, seconds => 60);
	like(taints(), qr/others:PreferNoSchedule/, "others' taints stay");
};

subtest 'with RDMA: a port goes down, and comes back' => sub {
	$i->upgrade;
	like(taints(), qr/fabric-not-ready/, 'the DaemonSet is gone, and what it has said is there');
	my ($commands) = file_text('doc/admin-guide.md') =~ /^### A head node that is one no more\n.*?^```sh[^\n]*\n(.*?)^```$/ms;
	my ($clean) = $commands =~ /^(ipuctl node clean head-1)\b/m or die "no command\n";
	$clean =~ s/head-1/$head/;
	my $guide = sub ($words) {
		return run([ 'sh', '-ec', $words ], seconds => 60,
			env => { PATH => IpuTest::program('ipuctl') =~ s{/[^/]+$}{}r . ":$ENV{PATH}", KUBECONFIG => $c->host_kubeconfig });
	};
	my $done = $guide->($clean);
	is($done->{status}, 1, "the guide's command");
	like($done->{err}, qr/node\/$head: left alone: the role node wrote there \d+ s ago/, '... leaves a node alone that the role has just left');
	$done = $guide->("$clean --force");
	is($done->{status}, 0, '... unless told that it has') or diag($done->{err});
	like($done->{out}, qr{^node/$head cleaned: condition IPUFabricReady, .*taint graphcore\.ai/fabric-not-ready, annotation graphcore\.ai/node-published$},
		'... and says what it took');
	is(condition()->{status}, '', '... no condition is left');
	ok(scalar(@{ node()->{status}{conditions} }), "... but the kubelet's");
	is(taints(), 'others:PreferNoSchedule', "... and of the taints others'");
	is(note_of($head), undef, '... nor a note');
	my ($controller) = ($i->controllers)[0] =~ /^([^:]+:\d+)/;
	my $machine = RdmaStandin->new(test_dir() . '/machine');
	my $port = sub ($state) { return $machine->machine("device mlx5_0\nport 1 state=$state layer=ethernet width=2 speed=32\ngid 0 fe80::1 type=v2 netdev=eth0\n") };
	$port->('active');
	my ($entrance, @words) = $c->entrance(node => $head);
	my $daemon = start('ipu-operator', path => $entrance, ports => 0, env => { $machine->env }, args => [ @words, IpuTest::program('ipu-operator'), '--roles=node',
		'--kubeconfig', $c->kubeconfig, map { ('--set', $_) } "node.name=$head", 'node.calmSeconds=1', "controllers=$controller:fabric-ctrl=one",
		'health.listen=127.0.0.1:0', 'metrics.listen=' ]);
	wait_until('the condition', sub { is_status('True') && taints() !~ /fabric/ }, seconds => 30);
	is(node()->{metadata}{labels}{'fabric-ctrl'}, 'one', "the controller's label");
	my $from = time;
	is_status('True');
	my $look_s = time - $from;
	$port->('down');
	$from = time;
	$machine->event('mlx5_0', port_err => 1);
	wait_until('the condition to be False', sub { is_status('False') });
	my $took = time - $from;
	# What is seen is what there was when kubectl began.
	cmp_ok($took, '<', 1 + 3 * $look_s, sprintf 'False after %.0f ms, of which a look takes %.0f', 1000 * $took, 1000 * $look_s);
	wait_until('the taint', sub { taints() =~ /fabric-not-ready:NoSchedule/ });
	wait_until('the Events', sub { events('IPUFabricNotReady') =~ m{Node/$head.*Pod/stays-away} });
	is(condition($other)->{status}, '', 'the other node says nothing');
	$port->('active');
	$machine->event('mlx5_0', port_active => 1);
	wait_until('all is gone', sub { is_status('True') && taints() !~ /fabric/ && events('IPUFabricReady') =~ m{Pod/stays-away} });
	$daemon->stop(status => 0);
};

subtest 'uninstalled' => sub {
	$i->upgrade({%daemons});
	wait_until('the DaemonSet to speak again', sub { is_status('False') && taints() =~ /fabric-not-ready/ }, seconds => 60);
	$i->uninstall;
	is(condition()->{status}, '', 'no condition is left');
	is(taints(), 'others:PreferNoSchedule', "... of the taints others'");
	is(note_of($head), undef, '... nor a note');
	is(node()->{metadata}{labels}{head}, 'true', "... and of the labels others'");
	is(node()->{metadata}{labels}{'fabric-ctrl'}, undef, '... the role\'s are gone');
	wait_until("a DaemonSet's Pods to be gone", sub { !@{ $c->get("pods", "-n", "ipu-node")->{items} } }, seconds => 60);
	is(condition()->{status}, '', 'nobody has written again');
};

$i->down;
# In memory, and made by the kubelet: node.yaml says why.
rmdir '/dev/infiniband' if $before->{places} !~ /infiniband/;
is_deeply([ Traces::changes($before) ], [], 'the machine is as it was');
done_testing;
