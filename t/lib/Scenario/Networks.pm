# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Networks: NetworkAttachmentDefinitions on the second network of the real nodes (t/cluster/22-networks.t), as the
# network operator makes them of a MacvlanNetwork. Each function gets a Scenario.
package Scenario::Networks;

use v5.36;
use Exporter qw(import);
use IpuTest qw(json_encode);

our @EXPORT_OK = qw(define_networks $rdma_network addresses_held);

# The network that the operator is told of, 10.152.0.0/24 from .128 on, and a route to what is behind it.
our $rdma_network = 'fabric/rdma-net';
my $group = 'k8s.cni.cncf.io';

# Nodes share the folder of the addresses, as they share Whereabouts' objects elsewhere.
sub addresses ($s) { return $s->back->cluster->dir . '/addresses' }

sub apply ($s, $object) { return $s->back->cluster->apply(json_encode($object)) }

# The API with Multus' names, the network, and default/storage-net, 10.154.0.0/24. Once more does nothing.
sub define_networks ($s) {
	my %names = (plural => 'network-attachment-definitions', singular => 'network-attachment-definition',
		kind => 'NetworkAttachmentDefinition', shortNames => ['net-attach-def']);
	my %schema = (type => 'object', properties => { spec => { type => 'object', properties => { config => { type => 'string' } } } });
	my ($ns, $name) = split m{/}, $rdma_network;
	apply($s, { apiVersion => 'apiextensions.k8s.io/v1', kind => 'CustomResourceDefinition',
		metadata => { name => "$names{plural}.$group" }, spec => { group => $group, scope => 'Namespaced', names => \%names,
			versions => [ { name => 'v1', served => \1, storage => \1, schema => { openAPIV3Schema => \%schema } } ] } });
	$s->back->cluster->kubectl(qw(wait --for=condition=Established --timeout=30s), "crd/$names{plural}.$group");
	apply($s, { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns } });
	define($s, $name, $ns, '10.152.0', { dst => '10.153.0.0/16' });
	define($s, 'storage-net', 'default', '10.154.0');
	return;
}

sub define ($s, $name, $ns, $subnet, @routes) {
	my $config = { cniVersion => '1.0.0', type => 'macvlan', master => 'rdma0', mode => 'bridge', mtu => 1500,
		ipam => { type => 'host-local', dataDir => addresses($s), routes => \@routes,
			ranges => [ [ { subnet => "$subnet.0/24", rangeStart => "$subnet.128", gateway => "$subnet.1" } ] ] } };
	apply($s, { apiVersion => "$group/v1", kind => 'NetworkAttachmentDefinition', metadata => { name => $name, namespace => $ns },
		spec => { config => json_encode($config) } });
	return;
}

# The addresses that Pods hold of all these networks.
sub addresses_held ($s) {
	my $folder = addresses($s);
	return grep { /^10\.\d/ } map { s{.*/}{}r } glob "$folder/*/*";
}

1;
