#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The role node as a program, on a machine whose RDMA devices are the stand-in's and whose network is a
# namespace of the test's own: what it tells the cluster of itself, a port that goes down and comes
# back under a running job, its list of controllers, and its end; a machine without RDMA; and the
# role in one process with the others. By root, or by whoever may make a user namespace.

use v5.36;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MetricNames qw(covers_metrics);
use RdmaStandin;
use Test::More;
use Time::HiRes qw(sleep time);

my $ip = program_or_skip('ip');
my $unshare = program_or_skip('unshare');

# The whole test runs again within namespaces, and all that it makes goes with them.
if (!$ENV{IPU_NODE_INSIDE}) {
	my @enter = ($unshare, ($> == 0 ? () : qw(--user --map-root-user)), qw(--net --mount));
	run([@enter, 'true'])->{status} == 0
		or plan skip_all => 'no network namespace to be had: neither root nor a user namespace';
	$ENV{IPU_NODE_INSIDE} = 1;
	exec @enter, $^X, $0 or die "$unshare: $!\n";
}

watchdog(240);
my $dir = test_dir();
my $folder = "$dir/sim";

sub ip ($words) {
	my $done = run([$ip, split ' ', $words]);
	return $done->{status} == 0 || die "ip $words: $done->{err}";
}

# r0 and r1 lead to a controller each, e0 is the way to the rest of the world.
ip('link set lo up');
for my $link (['r0', '10.5.212.7/24'], ['r1', '10.5.213.7/24'], ['e0', '10.9.0.7/16']) {
	my ($name, $address) = @$link;
	run([$ip, qw(link add), $name, qw(type dummy)])->{status} == 0 || ip("link add $name type veth peer name ${name}p") && ip("link set ${name}p up");
	ip("link set $name up");
	ip("addr add $address dev $name");
}
ip('route add default via 10.9.0.1');

my $machine = RdmaStandin->new("$dir/machine");

sub ports ($first, $second = 'active') {
	$machine->machine(<<"END");
device mlx5_0
port 1 state=$first layer=ethernet width=2 speed=32
gid 0 fe80::1 type=v2 netdev=r0
device mlx5_1
port 1 state=$second layer=ethernet width=2 speed=32
gid 0 fe80::2 type=v2 netdev=r1
END
	return $machine;
}
ports('active');

# ---- the cluster: a simulated one, with the operator, and jobs on it ----

my $sim = start('ipu-sim', args => ['--dir', $folder, '--nodes=2', '--agents=8', '--pod-run-ms=0']);
my $token = slurp("$folder/token");
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $token" },
		map { (json => $_) } @json);
}
sub object ($path) { my $answer = api('GET', $path); return $answer->{status} == 200 ? $answer->{json} : undef }
sub items ($path) { return @{(object($path) // {})->{items} // []} }

my @both = ('--kubeconfig', "$folder/kubeconfig", map { ('--set', "$_.listen=127.0.0.1:0") } qw(health metrics));
my $operator = start('ipu-operator', args => [@both, '--set', 'operatorNamespace=default', '--set', 'proxy.listen=127.0.0.1:0',
	'--set', 'proxy.tlsListen=127.0.0.1:0', '--set', 'controllers=127.0.0.1:' . $sim->port('vipu0')]);

sub make_job ($name) {
	my $answer = api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob',
		metadata => { name => $name }, spec => { jobInstances => 2, ipusPerJobInstance => '2',
			workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
	return is($answer->{status}, 201, "job $name");
}
sub pods_of ($job) { return items("/api/v1/namespaces/default/pods?labelSelector=graphcore.ai/job%3D$job") }
sub nodes_of ($job) { return map { $_->{spec}{nodeName} // '' } pods_of($job) }
sub runs ($job) {
	return wait_until("job $job to run", sub { 2 == grep { ($_->{status}{phase} // '') eq 'Running' } pods_of($job) }, seconds => 60);
}

# ---- the node ----

my $list = spit("$dir/list", "10.5.212.1:8090:vipu-ctrl=one,10.5.213.1:8090:other-ctrl=two,10.77.0.1:8090:far-ctrl=three\n");
# Another machine's runtimes and limits than this one's.
make_path("$dir/host/proc/1234");
sub may_lock ($bytes) { return spit("$dir/host/proc/1234/limits", "Max locked memory         $bytes  unlimited  bytes\n") }
spit("$dir/host/proc/meminfo", "HugePages_Total:       4\nHugePages_Free:        3\nHugepagesize:       2048 kB\n");
spit("$dir/host/proc/1234/comm", "containerd\n");
spit("$dir/host/proc/1234/cgroup", "0::/system.slice/containerd.service\n");
may_lock('unlimited');
my @node = ('--roles=node', @both, '--set', 'node.name=sim0', '--set', 'node.calmSeconds=2', '--set', "node.root=$dir/host");

sub start_node (@more) {
	return start('ipu-operator', args => [@node, '--set', "controllersFile=$list", @more], env => {$machine->env});
}
sub node ($name = 'sim0') { return object("/api/v1/nodes/$name") // {} }
sub condition ($type = 'IPUFabricReady', @name) { return (grep { $_->{type} eq $type } @{node(@name)->{status}{conditions}})[0] // {status => '', reason => ''} }
sub is_status ($status) { return condition()->{status} eq $status }
sub taints (@name) { return join ' ', sort map { "$_->{key}:$_->{effect}" } @{node(@name)->{spec}{taints} // []} }
sub label ($key) { return node()->{metadata}{labels}{$key} }
sub readyz ($daemon) { return http('GET', $daemon->url('health', '/readyz?verbose')) }
sub events ($reason) {
	return sort map { "$_->{involvedObject}{kind}/$_->{involvedObject}{name}" } grep { $_->{reason} eq $reason } items('/api/v1/events');
}
sub partitions () { return map { $_->{id} } @{ http('GET', $sim->url('admin', '/sim/state'))->{json}{vipu}[0]{partitions} } }
sub metric ($daemon, $series) {
	return http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_\Q$series\E (\S+)$/m ? $1 : undef;
}

make_job('first');
runs('first');
is_deeply([sort(nodes_of('first'))], ['sim0', 'sim1'], 'a job on both nodes');
my ($pod) = grep { $_->{spec}{nodeName} eq 'sim0' } pods_of('first');
my $node = start_node();
my $taint = 'graphcore.ai/fabric-not-ready:NoSchedule';

subtest 'all is well' => sub {
	wait_until('the condition', sub { is_status('True') && label('vipu-ctrl') });
	is(condition()->{reason}, 'FabricReady', 'the reason');
	is(condition()->{message}, 'V-IPU controller 10.5.212.1:8090 is reached by r0, RDMA port mlx5_0/1 is active; 1 other isn\'t reached from here',
		'the message');
	is(condition('Ready')->{status}, 'True', "the kubelet's condition is as it was");
	is(label('graphcore.ai/rdma'), 'true', 'the label for RDMA');
	is(label('vipu-ctrl'), 'one', "the controller's label");
	is(label('other-ctrl'), 'two', '... and that of the other');
	is(label('far-ctrl'), undef, 'but not that of one that the default route leads to, without RDMA');
	is(taints(), '', 'no taint');
	is(node('sim1')->{metadata}{annotations}{'graphcore.ai/node-published'}, undef, 'the other node is left alone');
	my $ready = readyz($node);
	is($ready->{status}, 200, 'ready');
	unlike($ready->{content}, qr/leadership/, '... without a Lease');
	is(scalar(grep { $_->{metadata}{name} =~ /node/ } items('/apis/coordination.k8s.io/v1/leases')), 0, 'it has none');
	is(metric($node, 'fabric_ready'), 1, 'metric: ready');
	is(metric($node, 'fabric_expected'), 1, 'metric: a head node');
	is(metric($node, 'leader{lease="ipu-operator-controller"}'), undef, 'metric: it leads nothing, and is no sign of an operator');
	is(metric($node, 'rdma_ports{state="active"}'), 2, 'metric: ports');
	is(metric($node, 'fabric_controller_reached{controller="10.77.0.1:8090"}'), 0, 'metric: a controller');
	is(metric($node, 'fabric_controller_reached{controller="10.5.212.1:8090"}'), 1, '... and one that is reached');
	wait_until('the host to have been read', sub { defined metric($node, 'memlock_limit_bytes{runtime="containerd"}') });
	is(metric($node, 'memlock_limit_bytes{runtime="containerd"}'), '+Inf', 'metric: no limit of locked memory');
	is(metric($node, 'hugepages_bytes{state="total"}'), 4 * 2 ** 21, 'metric: huge pages');
	is(metric($node, 'hugepages_bytes{state="free"}'), 3 * 2 ** 21, '... and those that are free');
	is(metric($node, 'fabric_turns_total{status="False"}') // 0, 0, 'metric: the fabric was never lost');
	covers_metrics(http('GET', $node->url('metrics', '/metrics'))->{content}, qw(ipu_operator_fabric_ready
		ipu_operator_fabric_expected ipu_operator_fabric_controller_reached ipu_operator_fabric_turns_total ipu_operator_rdma_ports
		ipu_operator_memlock_limit_bytes ipu_operator_hugepages_bytes));
};

# How long it takes until the condition is False, in seconds.
sub down_s ($do) {
	my $at = time;
	$do->();
	wait_until('the condition to be False', sub { is_status('False') });
	return time - $at;
}
sub port_down { ports('down'); return $machine->event('mlx5_0', port_err => 1) }
my $port_took;

# Measured again where it took long: others may use the machine.
sub within_a_second ($took, $down, $up, $what) {
	for (1 .. 10) {
		last if $took < 1;
		$took = down_s($down);
		$up->();
		wait_until('True again', sub { is_status('True') && taints() eq '' });
	}
	return cmp_ok($took, '<', 1, sprintf '%s within a second: %.0f ms', $what, 1000 * $took);
}

subtest 'a port goes down' => sub {
	$port_took = down_s(\&port_down);
	is(condition()->{reason}, 'RDMAPortDown', 'the reason');
	is(condition()->{message}, 'RDMA port mlx5_0/1 (r0), which leads to V-IPU controller 10.5.212.1:8090, is down', 'the message');
	wait_until('the taint', sub { taints() eq $taint });
	my @about = ('IPUJob/first', 'Node/sim0', "Pod/$pod->{metadata}{name}");
	wait_until('the Events', sub { "@{[events('IPUFabricNotReady')]}" eq "@about" });
	is(label('vipu-ctrl'), 'one', 'the label stays');
	is(metric($node, 'fabric_ready'), 0, 'metric: not ready');
	is(metric($node, 'fabric_turns_total{status="False"}'), 1, '... once');
	is(metric($node, 'rdma_ports{state="down"}'), 1, '... by a port that is down');
	is(metric($node, 'rdma_ports{state="active"}'), 1, '... and the other is active');
	is(readyz($node)->{status}, 200, 'the role itself is ready all the same');
	make_job('second');
	runs('second');
	is_deeply([nodes_of('second')], ['sim1', 'sim1'], 'a new job stays away from the node');
	is(scalar(grep { $_->{status}{phase} eq 'Running' } pods_of('first')), 2, 'the job that was there goes on');
};

subtest 'the port is back' => sub {
	ports('active');
	$machine->event('mlx5_0', port_active => 1);
	wait_until('the condition to be True', sub { is_status('True') && taints() eq '' });
	my @about = ('IPUJob/first', 'Node/sim0', "Pod/$pod->{metadata}{name}");
	wait_until('the Events', sub { "@{[events('IPUFabricReady')]}" eq "@about" });
	make_job('third');
	runs('third');
	cmp_ok(scalar(grep { $_ eq 'sim0' } nodes_of('third')), '>', 0, 'new work comes again');
	within_a_second($port_took, \&port_down, sub { ports('active'); $machine->event('mlx5_0', port_active => 1) }, 'it was down');
};

subtest 'a port that flaps' => sub {
	my $before = metric($node, 'kube_requests_total{verb="patch",resource="nodes",code="200"}');
	my $at = time;
	for my $i (1 .. 40) {
		ports($i % 2 ? 'down' : 'active');
		$machine->event('mlx5_0', $i % 2 ? 'port_err' : 'port_active', 1);
		sleep 0.02;
	}
	wait_until('calm', sub { is_status('True') && taints() eq '' });
	my $writes = metric($node, 'kube_requests_total{verb="patch",resource="nodes",code="200"}') - $before;
	# Two and two, and again where this machine was so slow that there was calm in between.
	cmp_ok($writes, '<=', 4 + 2 * (time - $at), "40 events cost $writes writes");
};

subtest 'the other port, and a card that is pulled' => sub {
	ports('active', 'down');
	$machine->event('mlx5_1', port_err => 1);
	wait_until('the condition to be False', sub { is_status('False') });
	like(condition()->{message}, qr{mlx5_1/1 \(r1\).* is down}, 'by the port of the other controller that it belongs to');
	ports('active', 'active');
	$machine->event('mlx5_1', port_active => 1);
	wait_until('True again', sub { is_status('True') });
	$machine->event('mlx5_0', device_fatal => 0);
	wait_until('False by a device that has failed', sub { is_status('False') && condition()->{message} =~ /has failed|is gone|has no RDMA port/ });
};

subtest 'it ends, and begins again' => sub {
	my $was = condition()->{lastTransitionTime};
	$node->stop(status => 0);
	is(taints(), $taint, 'what it has said stays');
	ok(is_status('False'), '... all of it');
	ports('active');
	$node = start_node();
	wait_until('True again', sub { is_status('True') && taints() eq '' });
	$node->crash;
	ports('down');
	$node = start_node();
	wait_until('what changed meanwhile', sub { is_status('False') && taints() eq $taint });
	ports('active');
	$machine->event('mlx5_0', port_active => 1);
	wait_until('and back', sub { is_status('True') && taints() eq '' });
};

subtest 'a link goes down, and its route' => sub {
	my $down = sub { ip('link set r0 down') };
	my $took = down_s($down);
	like(condition()->{reason}, qr/^(?:NoRDMARoute|LinkDown|NoRoute)$/, 'the reason: ' . condition()->{reason});
	ip('link set r0 up');
	wait_until('True again', sub { is_status('True') });
	within_a_second($took, $down, sub { ip('link set r0 up') }, 'by netlink alone,');
};

subtest 'the list changes, and the configuration' => sub {
	spit("$list.new", "10.5.213.1:8090:other-ctrl=two\n");
	rename("$list.new", $list) or die "$list: $!\n";
	wait_until("a label goes with its controller", sub { !defined label('vipu-ctrl') });
	is(label('other-ctrl'), 'two', '... and the other stays');
	$node->stop(status => 0);
	$node = start_node('--set', 'node.labels=false', '--set', 'node.taint=', '--set', 'node.rdma=none');
	wait_until('no label is wanted', sub { !defined label('other-ctrl') && !defined label('graphcore.ai/rdma') });
	is(node()->{metadata}{annotations}{'graphcore.ai/node-published'}, undef, 'nothing is left of them');
	ports('down', 'down');
	$machine->event('mlx5_1', port_err => 1);
	ok(is_status('True'), 'nobody asks for RDMA');
	$node->stop(status => 0);
	spit($list, "10.5.213.1:8090:other-ctrl=two,10.77.0.1:8090:far-ctrl=three\n");
	may_lock(65_536);
	$node = start_node('--set', 'node.rdma=none');
	wait_until('the label of what is on a link of ours', sub { (label('other-ctrl') // '') eq 'two' });
	is(metric($node, 'fabric_controller_reached{controller="10.77.0.1:8090"}'), 1, 'the default route leads to any address');
	wait_until('a limit of locked memory', sub { (metric($node, 'memlock_limit_bytes{runtime="containerd"}') // 0) == 65_536 });
	is(label('far-ctrl'), undef, '... which makes no machine a controller\'s');
	$node->stop(status => 0);
};

subtest 'a machine that only runs other things' => sub {
	$machine->machine('')->sysfs('class/infiniband_verbs/abi_version' => "6\n");
	my $before = () = events('IPUFabricNotReady');
	my $other = start('ipu-operator', args => ['--roles=node', @both, '--set', "node.root=$dir/host", '--set', "controllersFile=$list"],
		env => {$machine->env, NODE_NAME => 'sim1'});
	wait_until('the condition', sub { condition('IPUFabricReady', 'sim1')->{status} eq 'False' });
	is(condition('IPUFabricReady', 'sim1')->{reason}, 'NoRDMADevice', 'the reason');
	wait_until('all to be told', sub { readyz($other)->{status} == 200 });
	is(taints('sim1'), '', 'no taint');
	is(metric($other, 'fabric_ready'), 0, 'metric: not ready');
	is(metric($other, 'fabric_expected'), 0, 'metric: and nobody expects it to be');
	my $edit = sub ($metadata) {
		return http('PATCH', $sim->url('api-plain', '/api/v1/nodes/sim1'), json => { metadata => $metadata },
			headers => { authorization => "Bearer $token", 'content-type' => 'application/merge-patch+json' });
	};
	is($edit->({ labels => { 'other-ctrl' => 'two' } })->{status}, 200, 'a person says that it belongs to a controller');
	wait_until('the taint', sub { taints('sim1') eq $taint });
	is(metric($other, 'fabric_expected'), 1, 'metric: now it is expected');
	is(scalar(() = events('IPUFabricNotReady')), $before, 'no Event: it has lost nothing');
	ports('active');
	$other->stop(status => 0);
	$other = start('ipu-operator', args => ['--roles=node', @both, '--set', "node.root=$dir/host", '--set', "controllersFile=$list", '--set', 'node.calmSeconds=0'],
		env => {$machine->env, NODE_NAME => 'sim1'});
	wait_until('with a card it is well', sub { condition('IPUFabricReady', 'sim1')->{status} eq 'True' && taints('sim1') eq '' });
	$other->stop(status => 0);
	$edit->({ labels => { 'other-ctrl' => undef, 'graphcore.ai/rdma' => undef }, annotations => { 'graphcore.ai/node-published' => undef } });
};

subtest 'what can be wrong' => sub {
	my $stranger = start('ipu-operator', args => ['--roles=node', @both, '--set', 'node.name=nobody', '--set', "controllersFile=$list"],
		env => {$machine->env});
	wait_until('a Node that is not there', sub { readyz($stranger)->{content} =~ /node failed: there is no Node nobody/ });
	$stranger->stop(status => 0);
	my $named = start('ipu-operator', args => ['--roles=node', @both, '--set', "controllersFile=$dir/none"],
		env => {$machine->env, NODE_NAME => 'sim1'});
	wait_until('a list that is not there', sub { readyz($named)->{content} =~ /node failed: controllersFile: / });
	is(node('sim1')->{metadata}{annotations}{'graphcore.ai/node-published'}, undef, '... nothing is published');
	spit("$dir/none", "10.5.213.1:8090:other-ctrl=two\n");
	wait_until('by the name that the environment gives', sub { (node('sim1')->{metadata}{annotations} // {})->{'graphcore.ai/node-published'} });
	$named->stop(status => 0);
};

# As on a head node where the operator is a service: its V-IPU controller runs there, too.
subtest 'all roles in one process' => sub {
	ports('active', 'down');
	may_lock('unlimited');
	$operator->stop(status => 0);
	my $vipu = '127.0.0.1:' . $sim->port('vipu0');
	my $all = start('ipu-operator', args => ['--roles=controller,proxy,node', @both, map { ('--set', $_) } 'operatorNamespace=default',
		'proxy.listen=127.0.0.1:0', 'proxy.tlsListen=127.0.0.1:0', "controllers=$vipu:here-ctrl=one", 'node.name=sim0', 'node.calmSeconds=1', "node.root=$dir/host"],
		env => {$machine->env});
	wait_until('ready', sub { readyz($all)->{status} == 200 });
	like(readyz($all)->{content}, qr/\bnode ok/, '... the role node as well');
	wait_until('the condition, by the list that the role proxy follows', sub {
		label('here-ctrl') && condition()->{message} eq "V-IPU controller $vipu is on this machine, RDMA port mlx5_0/1 is active";
	});
	is(taints(), '', 'no taint');
	make_job('fourth');
	runs('fourth');
	is_deeply([nodes_of('fourth')], ['sim0', 'sim0'], 'a job goes where the role says that its controller is reached');
	ports('down', 'down');
	$machine->event('mlx5_0', port_err => 1);
	wait_until('False', sub { is_status('False') && taints() eq $taint });
	# sim0 is the only one with the controller's label. What the role writes the partition layer hears a moment later.
	wait_until('the partition layer to know', sub { (metric($all, qq(controller_no_ready_node{controller="$vipu"})) // 0) == 1 });
	make_job('fifth');
	wait_until('it to wait', sub { grep { $_ eq 'IPUJob/fifth' } events('NoReadyNode') });
	is(scalar(pods_of('fifth')), 0, 'a new job waits for a node that is ready, without Pods');
	is_deeply([grep { /^fifth/ } partitions()], [], '... and without IPUs');
	is(scalar(grep { /^fourth/ } partitions()), 2, '... and the job that was there keeps its own');
	is(metric($all, 'fabric_ready'), 0, 'metric: not ready');
	is(metric($all, 'leader{lease="ipu-operator-partitions"}'), 1, 'metric: it leads');
	ports('active', 'down');
	$machine->event('mlx5_0', port_active => 1);
	wait_until('and back', sub { is_status('True') && taints() eq '' });
	runs('fifth');
	$all->stop(status => 0);
};

$sim->stop(status => 0);
done_testing();
