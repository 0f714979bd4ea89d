# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Nodes: real nodes on one machine: each has a network and a host name of its own, a
# containerd, a kubelet and a kube-proxy. Runs inside the cluster's namespaces.
package Cluster::Nodes;

use v5.36;
use Cluster::Layout qw(DNS_ADDRESS DOMAIN);
use Cluster::Run qw(fail capture run socket_open write_file write_json);
use File::Path qw(make_path);
use JSON::PP;

our $pause_image = 'localhost/pause:test';
my $plugins = '/usr/lib/cni';

# $control: the Cluster::Control that starts and watches programs. $networks: the folder of our own CNI plugin; then the nodes
# have one more link, and Pods the networks that they name. Else undef.
sub new ($class, $control, $networks, @nodes) {
	return bless { control => $control, dir => $control->{dir}, networks => $networks, nodes => \@nodes }, $class;
}

sub make_network ($self) {
	my $tmp = "$self->{dir}/tmp";
	for my $node (@{ $self->{nodes} }) {
		run('ip', 'netns', 'add', $node->{name});
		write_file("/run/utsns/$node->{name}", '');
		run('unshare', "--uts=/run/utsns/$node->{name}", 'hostname', $node->{name});
	}
	write_file("$tmp/network", Cluster::Layout::network_batch(@{ $self->{nodes} }));
	run('ip', '-batch', "$tmp/network");
	for my $node (@{ $self->{nodes} }) {
		write_file("$tmp/network", Cluster::Layout::node_batch($node, @{ $self->{nodes} }));
		run('ip', '-n', $node->{name}, '-batch', "$tmp/network");
		run(enter($node), 'sysctl', '-qw', 'net.ipv4.ip_forward=1');
	}
	return if !$self->{networks};
	write_file("$tmp/network", Cluster::Layout::fabric_batch(@{ $self->{nodes} }));
	run('ip', '-batch', "$tmp/network");
	run('ip', '-n', $_->{name}, 'link', 'set', Cluster::Layout::FABRIC_LINK, 'up') for @{ $self->{nodes} };
}

# What follows the plugins of a Pod's first interface.
sub further_plugins ($self) {
	return () if !$self->{networks};
	make_path("$self->{dir}/networks");
	return { type => 'networks', kubectl => "$self->{control}{bin}/kubectl", kubeconfig => "$self->{dir}/inside.kubeconfig",
		stateDir => "$self->{dir}/networks" };
}

# `ip netns exec` would give a program mounts of its own, and containerd must see the kubelet's.
sub enter ($node) {
	return ('nsenter', "--net=/run/netns/$node->{name}", "--uts=/run/utsns/$node->{name}", '--');
}

sub start_containerd ($self, $node) {
	my $home = "$self->{dir}/$node->{name}";
	my $run = "/run/$node->{name}";
	make_path("$home/cni", "$home/cni-data", "$home/log", $run);
	write_json("$home/cni/10-pods.conflist", {
		cniVersion => '1.0.0', name => 'pods', plugins => [
			{ type => 'ptp', ipMasq => JSON::PP::false, ipam => { type => 'host-local',
				dataDir => "$home/cni-data", ranges => [ [ { subnet => $node->{pods} } ] ],
				routes => [ { dst => '0.0.0.0/0' } ] } },
			{ type => 'portmap', capabilities => { portMappings => JSON::PP::true } },
			$self->further_plugins,
		],
	});
	my $snapshotter = $self->snapshotter;
	my $bin_dirs = join ', ', map { "\"$_\"" } $plugins, $self->{networks} // ();
	write_file("$home/containerd.toml", <<"END");
version = 3
root = "$home/containerd"
state = "$home/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
	"io.containerd.snapshotter.v1.zfs"]

[grpc]
address = "$run/containerd.sock"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "$snapshotter"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "$pause_image"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "$self->{dir}/registries"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [$bin_dirs]
conf_dir = "$home/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
END
	$self->{control}->start("$node->{name}-containerd", [ enter($node) ], 'containerd',
		"--config=$home/containerd.toml");
}

# Overlays can't stand on another overlay, where a container's own root is one: then plain copies.
sub snapshotter ($self) {
	return $self->{snapshotter} //= do {
		my $tmp = "$self->{dir}/tmp/overlay";
		make_path(map { "$tmp/$_" } qw(lower upper work merged));
		my ($status) = capture(10, 'mount', '-t', 'overlay', 'overlay', '-o',
			"lowerdir=$tmp/lower,upperdir=$tmp/upper,workdir=$tmp/work", "$tmp/merged");
		run('umount', "$tmp/merged") if $status == 0;
		$status == 0 ? 'overlayfs' : 'native';
	};
}

# Loads image archives on a node.
sub import_images ($self, $node, @archives) {
	my $socket = "/run/$node->{name}/containerd.sock";
	$self->{control}->await("$node->{name}'s containerd", sub { socket_open($socket) });
	for my $archive (@archives) {
		my $text;
		$self->{control}->await("$archive on $node->{name}", sub {
			(my $status, $text) = capture(120, "$self->{control}{bin}/ctr", '-a', $socket, '-n',
				'k8s.io', 'images', 'import', '--snapshotter', $self->snapshotter, $archive);
			return 1 if $status == 0;
			fail("$archive can't be loaded on $node->{name}: $text") unless $text =~ /unavailable/i;
			return 0;
		}, 0.3);
	}
}

sub start_kubelet ($self, $node) {
	my $home = "$self->{dir}/$node->{name}";
	my $socket = "unix:///run/$node->{name}/containerd.sock";
	my ($true, $false) = (JSON::PP::true, JSON::PP::false);
	write_json("$home/kubelet.json", {
		apiVersion => 'kubelet.config.k8s.io/v1beta1',
		kind => 'KubeletConfiguration',
		containerRuntimeEndpoint => $socket,
		imageServiceEndpoint => $socket,
		authentication => { anonymous => { enabled => $true }, webhook => { enabled => $false } },
		authorization => { mode => 'AlwaysAllow' },
		cgroupDriver => 'cgroupfs',
		cgroupsPerQOS => $false,
		enforceNodeAllocatable => [],
		failCgroupV1 => $false,
		failSwapOn => $false,
		localStorageCapacityIsolation => $false,
		evictionHard => { 'memory.available' => '10Mi', 'nodefs.available' => '0.1%',
			'nodefs.inodesFree' => '0.1%', 'imagefs.available' => '0.1%' },
		imageGCHighThresholdPercent => 100,
		oomScoreAdj => 0,
		resolvConf => '',
		clusterDNS => [DNS_ADDRESS],
		clusterDomain => DOMAIN,
		podLogsDir => "$home/log",
		volumePluginDir => "$home/plugins",
		syncFrequency => '10s',
		fileCheckFrequency => '1h',
	});
	$self->{control}->start("$node->{name}-kubelet", [ enter($node) ], 'kubelet',
		"--config=$home/kubelet.json", "--root-dir=$home/kubelet", "--cert-dir=$home/kubelet/pki",
		"--kubeconfig=$self->{dir}/keys/$node->{name}.kubeconfig",
		"--hostname-override=$node->{name}", "--node-ip=$node->{address}");
}

1;
