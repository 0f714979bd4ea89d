# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (networks): the simulator has no networks
#
# A secondary network without the host's: the workers of a job, its launcher and an annotated Pod have an interface on the
# network that the operator's configuration names, with its address and its routes, and reach each other over it;
# the workers may lock memory, and nobody is privileged.

use v5.36;
use Scenario::Networks qw(define_networks addresses_held $rdma_network);
use Test::More;

my $device = 'rdma/rdma_shared_device_a';
my $http = 8000;
my $size = 300_000;
my %capability = (IPC_LOCK => 14, SYS_ADMIN => 21); # capabilities(7), as bits

# What a script in a Pod's container prints.
sub within ($s, $pod, $script, $container = 'main') {
	my $result = $s->kubectl([ 'exec', $pod, '-c', $container, '--', 'sh', '-c', $script ]);
	die "'$script' in $pod: $result->{err}\n" if $result->{status};
	return $result->{out};
}

# What capabilities a status file of /proc shows.
sub has_capability ($text, $name) {
	my ($bits) = $text =~ /^CapEff:\s+([0-9a-f]{16})$/m or die "no capabilities in: $text\n";
	return (hex($bits) >> $capability{$name}) & 1;
}

# What a Pod has, of its first process and its network; $link is the interface on the network. Returns its address there.
sub check_inside ($s, $pod, $links, $link) {
	my $all = within($s, $pod, "echo links: \$(ls /sys/class/net); ip -o -4 addr show dev $link; ip route; cat /proc/1/status");
	like($all, qr/^links: \Q$links\E$/m, "$pod has these links: $links");
	my ($address, $last) = $all =~ m{ inet (10\.152\.0\.(\d+))/24 } or die "$pod has no address of the range: $all\n";
	cmp_ok($last, '>=', 128, "… $link has an address of the range");
	like($all, qr{^10\.152\.0\.0/24 dev \Q$link\E .*src \Q$address\E\s*$}m, "… the network goes by $link");
	like($all, qr{^10\.153\.0\.0/16 via 10\.152\.0\.1 dev \Q$link\E}m, '… and what is behind it');
	like($all, qr{^default .*dev eth0}m, '… all else by eth0');
	ok(has_capability($all, 'IPC_LOCK'), '… it may lock memory');
	ok(!has_capability($all, 'SYS_ADMIN'), '… and not do what a privileged one may');
	return $address;
}

sub check_spec ($pod, $networks) {
	my $name = $pod->{metadata}{name};
	is($pod->{metadata}{annotations}{'k8s.v1.cni.cncf.io/networks'}, $networks, "$name: its annotation");
	ok(!$pod->{spec}{hostNetwork}, '… without the host\'s network');
	is_deeply([ grep { $_->{securityContext}{privileged} } @{ $pod->{spec}{containers} } ], [], '… and nothing privileged');
	return;
}

# Something large of the other one, by that address: it comes in by that interface.
sub check_reach ($s, $pod, $link, $address) {
	my $count = "cat /sys/class/net/$link/statistics/rx_bytes";
	my ($before, $length, $after) = split ' ', within($s, $pod,
		"$count; timeout 10 wget -q -O - http://$address:$http/what | wc -c; $count");
	is($length, $size, "$pod reaches $address");
	cmp_ok($after - $before, '>=', $size, "… over $link");
	return;
}

# A Pod serves it on one of its addresses, and on no other.
sub serve ($s, $pod, $address) {
	within($s, $pod, "mkdir -p /tmp/srv && head -c $size /dev/zero >/tmp/srv/what && httpd -p $address:$http -h /tmp/srv && "
		. "timeout 20 sh -c 'until wget -q -O /dev/null http://$address:$http/what; do sleep 0.1; done'");
	return;
}

# Two workers on two nodes. Returns the second one's address.
sub check_workers ($s) {
	my %apart = (podAntiAffinity => { requiredDuringSchedulingIgnoredDuringExecution => [ { topologyKey => 'kubernetes.io/hostname',
		labelSelector => { matchLabels => { 'graphcore.ai/job' => 'pair' } } } ] });
	$s->create_job('pair', ipus => 2, spec => { workersPerJobInstance => '2' }, template => { spec => { affinity => \%apart } });
	$s->wait_job('pair', 'Running', seconds => 60);
	my @pods = map { $s->get('pods', "pair-worker-$_") } 0, 1;
	isnt($pods[0]{spec}{nodeName}, $pods[1]{spec}{nodeName}, 'two workers on two nodes');
	my @addresses;
	for my $pod (@pods) {
		my $name = $pod->{metadata}{name};
		check_spec($pod, $rdma_network);
		is($pod->{spec}{containers}[0]{resources}{limits}{$device}, '1', '… it asks for the device');
		push @addresses, check_inside($s, $name, 'eth0 lo net1', 'net1');
	}
	isnt($addresses[0], $addresses[1], 'each has an address of its own');
	serve($s, 'pair-worker-1', $addresses[1]);
	check_reach($s, 'pair-worker-0', 'net1', $addresses[1]);
	return $addresses[1];
}

# It names a network of its own, in the other form.
sub check_annotated ($s, $address) {
	my $own = IpuTest::json_encode([ { name => 'storage-net', interface => 'st0' } ]);
	my $pod = $s->pod('asks', ipus => 2, annotations => { 'graphcore.ai/containers' => 'main', 'k8s.v1.cni.cncf.io/networks' => $own });
	push @{ $pod->{spec}{containers} }, { %{ $pod->{spec}{containers}[0] }, name => 'side' };
	$s->create('pods', $pod);
	$pod = $s->wait_pod('asks', 'Running', seconds => 60);
	check_spec($pod, '[{"interface":"st0","name":"storage-net"},{"name":"rdma-net","namespace":"fabric"}]');
	check_inside($s, 'asks', 'eth0 lo net2 st0', 'net2');
	check_reach($s, 'asks', 'net2', $address);
	ok(!has_capability(within($s, 'asks', 'cat /proc/1/status', 'side'), 'IPC_LOCK'), 'what uses no IPUs may not lock memory');
	return;
}

# What it finds is in its log.
sub check_launcher ($s, $address) {
	my $script = 'ip -o -4 addr show dev net1; cat /proc/1/status; '
		. "timeout 10 wget -q -O - http://$address:$http/what | wc -c; /etc/mpi/kubeexec.sh led-worker-0 'ip -o -4 addr show dev net1'";
	$s->create('ipujobs', $s->job('led', ipus => 2, spec => { launcher => { command => [ 'sh', '-c', $script ] } }));
	$s->wait_job('led', 'Completed', seconds => 60);
	check_spec($s->get('pods', 'led-launcher'), $rdma_network);
	my $log = $s->kubectl([qw(logs led-launcher)])->{out};
	my @own = $log =~ m{ inet (10\.152\.0\.\d+)/24 }g;
	is(scalar @own, 2, 'a launcher and its worker are in the network') or diag($log);
	like($log, qr/^$size$/m, '… where it reaches others');
	ok(!has_capability($log, 'IPC_LOCK'), '… and it may lock none');
	return;
}

sub ($s) {
	define_networks($s);
	$s->start(webhook => 1, agents => 8, set => [ 'worker.hostNetwork=false', "worker.rdmaNetwork=$rdma_network", "worker.rdmaResource=$device" ]);
	my $address = check_workers($s);
	check_annotated($s, $address);
	check_launcher($s, $address);
	$s->delete_job($_) for qw(pair led);
	$s->delete('pods', 'asks');
	$s->wait_for('all addresses to be given back', sub { !addresses_held($s) }, seconds => 60);
};
