#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl rdma check and rdma macvlan against a real Kubernetes: MacvlanNetworks by a definition of the network operator's
# shape, which a real API server judges; the test Pod on a real node, without the network's plugin (it fails, and says so)
# and with the tests' own (t/cluster/cni/networks); on the node's own network, which has an interface rdma0.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use File::Path qw(make_path);
use IpuTest;
use Test::More;

my $c = Cluster->up('nodes', nodes => 1, networks => 1);
my ($node) = map { $_->{metadata}{name} } @{ $c->get('nodes')->{items} };
my $controllers = '10.152.0.1:8090';
my $image = 'localhost/ipuctl:test';

# The program and the libraries that it loads, as in the operator's image.
sub load_ipuctl () {
	my $folder = test_dir() . '/image';
	my $program = IpuTest::program('ipuctl');
	my %file = ('/usr/bin/ipuctl' => $program, map { m{(/\S+) \(0x} ? ($1 => $1) : () } split /\n/, run([ 'ldd', $program ])->{out});
	for my $path (sort keys %file) {
		make_path("$folder$path" =~ s{/[^/]+$}{}r);
		run([ 'cp', '-L', $file{$path}, "$folder$path" ])->{status} == 0 or die "$path: not copied\n";
	}
	$c->load_image($image, $folder);
	return;
}

sub define ($group, $version, $kind, $plural, $scope, %properties) {
	$c->apply(json_encode({ apiVersion => 'apiextensions.k8s.io/v1', kind => 'CustomResourceDefinition', metadata => { name => "$plural.$group" },
		spec => { group => $group, scope => $scope, names => { plural => $plural, singular => lc $kind, kind => $kind },
			versions => [ { name => $version, served => \1, storage => \1, subresources => { status => {} }, schema => { openAPIV3Schema => {
				type => 'object', properties => { spec => { type => 'object', properties => \%properties },
					status => { type => 'object', properties => { state => { type => 'string' } }, required => ['state'] } } } } } ] } }));
	$c->kubectl(qw(wait --for=condition=Established --timeout=30s), "crd/$plural.$group");
	return;
}

# In the node's network, with the administrator's kubeconfig.
sub ctl (@words) {
	return $c->command([ IpuTest::program('ipuctl'), '--kubeconfig', $c->kubeconfig, @words ], node => $node, seconds => 200,
		env => { HOME => test_dir() . '', IPUCTL_SERVER => undef });
}

# rdma0 is named, since there is no RDMA port here.
sub macvlan (@words) { return ctl('rdma', 'macvlan', "--controller=$controllers", '--interface=rdma0', @words) }

sub check (@words) {
	my $done = ctl('rdma', 'check', "--controller=$controllers", '--node', $node, '-o', 'json', @words);
	my $said = eval { json_decode($done->{out}) } or die "rdma check: $done->{err}$done->{out}";
	my %found;
	$found{ "$_->{check} $_->{subject}" =~ s/ipuctl-rdma-check-[0-9a-f]+//r =~ s/ +$//r } = $_ for @{ $said->{checks} };
	return \%found;
}

sub finds ($found, $what, $finding, $seen = undef) {
	is($found->{$what}{finding}, $finding, "$what: $finding") or diag(explain($found->{$what}), join ', ', sort keys %$found);
	like($found->{$what}{seen} // '', $seen, '… in words') if $seen;
	return;
}

sub pods () { return map { $_->{metadata}{name} } @{ $c->get('pods', '-n', 'default')->{items} } }

load_ipuctl();
$c->command([ qw(ip addr add 10.152.0.200/24 dev rdma0) ], node => $node)->{status} == 0 or die "rdma0 has no address\n";

subtest 'without anything' => sub {
	my $found = check('--test-pod', '--image', $image, '--wait', '60');
	finds($found, 'route 10.152.0.1:8090', 'there', qr{^10\.152\.0\.1 through rdma0, from 10\.152\.0\.200 in 10\.152\.0\.0/24$});
	finds($found, $_->[0], $_->[1]) for [ 'cluster', 'there' ], [ 'multus', 'missing' ], [ 'whereabouts', 'missing' ],
		[ 'attachment default/rdma-net', 'missing' ], [ "node $node", 'there' ], [ 'node-resource', 'none' ], [ "node-taints $node", 'none' ];
	# The tests' plugin finds no such network, as Multus would.
	finds($found, 'pod', 'not-started', qr/network/);
	is_deeply([ pods() ], [], 'the Pod is removed');
	like(macvlan('--apply')->{err}, qr/doesn't know MacvlanNetworks/, 'there is no definition of the network');
};

my %text = map { $_ => { type => 'string' } } qw(networkNamespace master mode ipam);
define('mellanox.com', 'v1alpha1', 'MacvlanNetwork', 'macvlannetworks', 'Cluster', %text, mtu => { type => 'integer', minimum => 0 });
define('k8s.cni.cncf.io', 'v1', 'NetworkAttachmentDefinition', 'network-attachment-definitions', 'Namespaced', config => { type => 'string' });
define('whereabouts.cni.cncf.io', 'v1alpha1', 'IPPool', 'ippools', 'Namespaced', range => { type => 'string' });

subtest 'the manifest is applied' => sub {
	like(ctl('rdma', 'macvlan', "--controller=$controllers", '--apply')->{err}, qr/has no RDMA port: .*--interface/, 'not on any interface unasked');
	my $kind = 'macvlannetwork.mellanox.com/rdma-net';
	is(macvlan('--apply', '--dry-run')->{out}, "$kind created (server dry run)\n", 'a dry run');
	is(macvlan('--apply', @{ $_->[1] })->{out}, "$kind $_->[0]\n", $_->[0])
		for [ 'created', [] ], [ 'unchanged', [] ], [ 'configured', [ '--exclude', '10.152.0.0/26' ] ], [ 'configured', [] ];
	my $made = $c->get('macvlannetworks.mellanox.com', 'rdma-net')->{spec};
	is($made->{master}, 'rdma0', 'it is there');
	is_deeply(json_decode($made->{ipam})->{exclude}, [ '10.152.0.0/25', '10.152.0.200/32' ], '… with what it excludes');
	my $diff = $c->kubectl_result([ 'diff', '-f', spit(test_dir() . '/it.yaml', macvlan()->{out}) ]);
	is($diff->{status}, 0, 'what is printed is what is there') or diag($diff->{out}, $diff->{err});
	is(macvlan('--apply', '--attachment')->{out}, "network-attachment-definition.k8s.cni.cncf.io/rdma-net created\n", 'an attachment');
	my $found = check();
	finds($found, $_->[0], $_->[1]) for [ 'multus', 'no-pods' ], [ 'whereabouts', 'no-pods' ], [ 'macvlan-network rdma-net', 'not-ready' ],
		[ 'attachment default/rdma-net', 'there' ], [ 'attachment-link rdma-net', 'same' ], [ 'attachment-range rdma-net', 'fine' ];
	macvlan('--apply', '--attachment', '--exclude', '');
	finds(check(), 'attachment-range rdma-net', 'in-use');
};

# Whereabouts isn't to be had here: host-local gives addresses of the same range.
$c->apply(json_encode({ apiVersion => 'k8s.cni.cncf.io/v1', kind => 'NetworkAttachmentDefinition', metadata => { name => 'rdma-net', namespace => 'default' },
	spec => { config => json_encode({ cniVersion => '1.0.0', type => 'macvlan', master => 'rdma0', mode => 'bridge', mtu => 1500,
		ipam => { type => 'host-local', dataDir => $c->dir . '/addresses', range => '10.152.0.0/24',
			ranges => [ [ { subnet => '10.152.0.0/24', rangeStart => '10.152.0.224' } ] ] } }) } }));
my $rdma = { 'rdma/rdma_shared_device_a' => '4' };
$c->kubectl('patch', 'node', $node, '--subresource=status', '--type=merge', '-p', json_encode({ status => { capacity => $rdma, allocatable => $rdma } }));

subtest 'a test Pod in the network' => sub {
	my $found = check('--test-pod', '--image', $image);
	finds($found, 'node-resource rdma/rdma_shared_device_a', 'there');
	finds($found, 'whereabouts', 'other', qr/^host-local gives/);
	finds($found, 'pod', 'ran', qr/^on node \Q$node\E$/);
	finds($found, 'pod-net1 net1', 'up', qr/^up, MTU 1500$/);
	finds($found, 'pod-address net1', 'fine', qr{^10\.152\.0\.\d+/24, in 10\.152\.0\.0/24$});
	finds($found, 'pod-route 10.152.0.1:8090', 'net1', qr{10\.152\.0\.0/24 through net1$});
	finds($found, 'pod-default-route', 'other', qr/^through eth0$/);
	finds($found, 'pod-ipc-lock', 'has', qr/^user 0, capabilities in effect 0000000000004000$/);
	like($found->{'pod-memlock'}{finding}, qr/^(?:unlimited|root-only)$/, 'locked memory is judged');
	finds($found, 'pod-device', 'none'); # the resource is one in name only
	is_deeply([ pods() ], [], 'it is removed');

	$found = check('--test-pod', '--image', $image, '--user', '1000');
	finds($found, 'pod-ipc-lock', 'not-root', qr/^user 1000, capabilities in effect 0000000000000000/);
	like($found->{'pod-memlock'}{finding}, qr/^(?:unlimited|limited)$/, 'and its limit counts alone');
};

subtest 'a node that Pods can\'t go to' => sub {
	$c->kubectl('taint', 'node', $node, 'node-role.kubernetes.io/control-plane=:NoSchedule');
	my $found = check('--test-pod', '--image', $image, '--wait', '5');
	finds($found, "node-taints $node", 'control-plane');
	finds($found, 'pod', 'unscheduled', qr/taint/);
	is_deeply([ pods() ], [], 'it is removed');
	$c->kubectl('taint', 'node', $node, 'node-role.kubernetes.io/control-plane-');
	$c->kubectl(qw(label namespace default pod-security.kubernetes.io/enforce=baseline));
	$found = check('--test-pod', '--image', $image);
	finds($found, 'pod-security default', 'forbids');
	finds($found, 'pod', 'refused', qr/PodSecurity/);
};

subtest 'an account without rights' => sub {
	$c->kubectl(qw(create serviceaccount nobody));
	my $token = $c->kubectl(qw(create token nobody)) =~ s/\s+\z//r;
	my $config = $c->command([ $c->programs . '/kubectl', '--kubeconfig', $c->kubeconfig, qw(config view --raw --flatten --minify -o json) ])->{out};
	my $mine = json_decode($config);
	$_->{user} = { token => $token } for @{ $mine->{users} };
	my $path = spit(test_dir() . '/nobody.json', json_encode($mine));
	my $done = $c->command([ IpuTest::program('ipuctl'), '--kubeconfig', $path, 'rdma', 'check', "--controller=$controllers", '-o', 'json' ], node => $node);
	my %found = map { ("$_->{check} $_->{subject}" =~ s/ +$//r => $_) } @{ json_decode($done->{out})->{checks} };
	is($found{$_}{result}, 'skip', "$_ is skipped") for 'multus', 'attachment default/rdma-net', 'pod-security default', 'macvlan-network rdma-net';
	finds(\%found, 'cluster', 'there');
};

$c->down;
done_testing;
