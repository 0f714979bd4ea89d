# SPDX-License-Identifier: Apache-2.0
#
# Traces: what a cluster could leave on the machine, for the tests that see it go. A snapshot of what
# is the machine's own, before; what belongs to the cluster while it is up; then what is left of it.
package Traces;

use v5.36;
use Cluster::Run qw(capture read_file);
use Cluster::Sandbox;

# Where the programs of a cluster write when they are let.
my @places = qw(/var/lib/cni /var/lib/containerd /var/lib/kubelet /var/lib/etcd /run/containerd
	/run/netns /run/utsns /run/nri /run/flannel /var/log/pods /var/log/containers /opt/containerd
	/opt/cni /etc/cni /dev/infiniband /etc/containerd /usr/libexec/kubernetes /run/kubernetes /var/run/kubernetes);
my @settings = qw(/proc/sys/vm/overcommit_memory /proc/sys/vm/panic_on_oom /proc/sys/kernel/panic
	/proc/sys/kernel/panic_on_oops /proc/sys/kernel/keys/root_maxkeys
	/proc/sys/kernel/keys/root_maxbytes /proc/sys/net/ipv4/ip_forward
	/proc/sys/net/netfilter/nf_conntrack_max /proc/sys/kernel/hostname);

sub machine {
	my @links = grep { !/^\s/ } split /\n/, (capture(10, 'ip', '-o', 'link'))[1];
	return {
		interfaces => join(' ', sort map { /^\d+: ([^:@]+)/ } @links),
		addresses => join(' ', sort((capture(10, 'ip', '-o', 'addr'))[1] =~ /inet6? (\S+)/g)),
		routes => (capture(10, 'ip', 'route'))[1],
		rules => scalar((capture(10, 'iptables-save'))[1] =~ tr/\n//),
		places => join(' ', grep { -e } @places),
		map { $_ => read_file($_) } @settings,
	};
}

# What is different from such a snapshot, a line a thing. A setting that wasn't there before has come
# with a module of the kernel: that isn't counted.
sub changes ($before) {
	my $now = machine();
	return map { "$_ was: $before->{$_}, is: " . ($now->{$_} // 'gone') }
		grep { defined $before->{$_} && $before->{$_} ne ($now->{$_} // 'gone') } sort keys %$before;
}

# The namespaces and processes of a cluster that is up.
sub of_cluster ($dir) {
	my $processes = Cluster::Sandbox->new($dir)->processes;
	my (%spaces, %process);
	my %ours = map { $_ => readlink("/proc/self/ns/$_") } qw(net pid mnt ipc uts);
	for my $pid (keys %$processes) {
		$process{$pid} = start_time($pid);
		for my $kind (keys %ours) {
			my $space = readlink("/proc/$pid/ns/$kind") // next;
			$spaces{$space} = 1 if $space ne $ours{$kind};
		}
	}
	my @containers = map { m{([^/]+)$} } glob "$dir/*/state/io.containerd.runtime.v2.task/k8s.io/*";
	return { dir => $dir, processes => \%process, spaces => \%spaces, containers => \@containers };
}

# What is left of it, a line a thing.
sub left ($cluster) {
	my $dir = $cluster->{dir};
	my @left;
	for my $pid (keys %{ $cluster->{processes} }) {
		my $time = start_time($pid) // next;
		push @left, "process $pid" if $time eq ($cluster->{processes}{$pid} // '');
	}
	for my $path (glob '/proc/[0-9]*') {
		next if $path eq "/proc/$$";
		my $command = (read_file("$path/cmdline") // '') =~ tr/\0/ /r;
		push @left, "$path: $command" if index($command, $dir) >= 0;
		for my $link (glob "$path/ns/*") {
			my $space = readlink($link) // next;
			push @left, "$link is $space: $command" if $cluster->{spaces}{$space};
		}
	}
	push @left, map { "mount $_" } grep { index($_, $dir) >= 0 }
		split /\n/, read_file('/proc/self/mountinfo');
	push @left, grep { -e } map { glob "/sys/fs/cgroup/k8s.io/$_ /sys/fs/cgroup/*/k8s.io/$_" }
		@{ $cluster->{containers} };
	push @left, $dir if -e $dir;
	return @left;
}

sub start_time ($pid) {
	my $text = read_file("/proc/$pid/stat") // return undef;
	my @words = split ' ', $text =~ s/^.*\)//sr;
	return $words[19];
}

1;
