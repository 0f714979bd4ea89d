# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Layout: the addresses and names of a test cluster, the same in each (clusters don't meet:
# each has a network of its own), and the kubeconfigs and network devices made from them.
package Cluster::Layout;

use v5.36;
use Cluster::Run qw(fail read_file write_file);
use Exporter 'import';
use MIME::Base64 qw(encode_base64);

our @EXPORT_OK = qw(CONTROL_ADDRESS API_PORT SERVICE_RANGE DNS_ADDRESS POD_RANGE API_SERVICE_ADDRESS
	DOMAIN nodes network_batch write_kubeconfig);

use constant {
	CONTROL_ADDRESS => '10.150.0.1',
	API_PORT => 6443,
	POD_RANGE => '10.151.0.0/16',
	SERVICE_RANGE => '10.96.0.0/16',
	API_SERVICE_ADDRESS => '10.96.0.1',
	DNS_ADDRESS => '10.96.0.10',
	DOMAIN => 'cluster.local',
	FABRIC_LINK => 'rdma0',
};

# The real nodes: name, address, its Pods' subnet.
sub nodes ($count) {
	return map { { name => "node$_", address => '10.150.0.' . (10 + $_), pods => "10.151.$_.0/24" } }
		1 .. $count;
}

# What `ip -batch` must do in the control plane's network, the nodes' namespaces being there already.
# The route for the Service range lets programs there reach ClusterIPs: kube-proxy's rules see a
# packet only once it has somewhere to go.
sub network_batch (@nodes) {
	my @lines = (
		'link add name br0 type bridge',
		'addr add ' . CONTROL_ADDRESS . '/16 dev br0',
		'link set br0 up',
		'route add ' . SERVICE_RANGE . ' dev br0',
	);
	for my $node (@nodes) {
		push @lines,
			"link add name $node->{name} type veth peer name eth0 netns $node->{name}",
			"link set $node->{name} master br0 up",
			"route add $node->{pods} via $node->{address}";
	}
	return join '', map { "$_\n" } @lines;
}

# The same in a node's own namespace.
sub node_batch ($node, @nodes) {
	my @lines = (
		'link set lo up',
		"addr add $node->{address}/16 dev eth0",
		'link set eth0 up',
		'route add default via ' . CONTROL_ADDRESS,
	);
	push @lines, map { "route add $_->{pods} via $_->{address}" }
		grep { $_->{name} ne $node->{name} } @nodes;
	return join '', map { "$_\n" } @lines;
}

# A second network, as RDMA has: a bridge without an address, and a link of each node on it.
sub fabric_batch (@nodes) {
	my @lines = ('link add name fabric type bridge', 'link set fabric up');
	for my $node (@nodes) {
		push @lines, "link add name $node->{name}-rdma type veth peer name " . FABRIC_LINK . " netns $node->{name}",
			"link set $node->{name}-rdma master fabric up";
	}
	return join '', map { "$_\n" } @lines;
}

# A kubeconfig with everything inline, so that it can be copied.
sub write_kubeconfig ($path, %with) {
	my $authority = encode_base64(read_file($with{ca}) // fail("$with{ca}: $!"), '');
	my $server = 'https://' . ($with{address} // CONTROL_ADDRESS) . ':' . ($with{port} // API_PORT);
	my $user = $with{user};
	write_file($path, <<"END", 0600);
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: $server
    certificate-authority-data: $authority
users:
- name: $user
  user:
    token: $with{token}
contexts:
- name: test
  context:
    cluster: test
    user: $user
current-context: test
END
}

1;
