# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Sandbox: where a cluster lives: namespaces for processes, mounts, network and IPC, held by
# one process, the init. When the init ends, for whatever reason, the kernel ends all the rest, so
# that a cluster can't be taken down by halves. What the kernel leaves: files and control groups.
package Cluster::Sandbox;

use v5.36;
use Cluster::Run qw(fail now read_file write_file run spawn wait_until keep_open);
use Fcntl qw(LOCK_EX LOCK_NB O_RDWR O_CREAT);
use File::Path qw(make_path remove_tree);
use IO::Select;
use IO::Socket::INET;
use POSIX qw(WNOHANG);

# Folders that are the machine's own, and that the programs of a cluster write to without asking:
# they see an empty one.
my @private = qw(/run /var/lib /var/log /dev/shm);

# Settings of the whole machine's kernel that a kubelet insists on and would change: it sees them set.
my %pretended = (
	'/proc/sys/vm/overcommit_memory' => "1\n",
	'/proc/sys/vm/panic_on_oom' => "0\n",
	'/proc/sys/kernel/panic' => "10\n",
	'/proc/sys/kernel/panic_on_oops' => "1\n",
	'/proc/sys/kernel/keys/root_maxkeys' => "1000000\n",
	'/proc/sys/kernel/keys/root_maxbytes' => "25000000\n",
);

my $default_base = '/var/tmp/ipu-operator-cluster';
my $mark = 'ipu-operator-test-cluster';
my $fresh_s = 20;

sub default_dir {
	return $default_base;
}

# A sandbox object for a folder; nothing is started or looked at yet.
sub new ($class, $dir) {
	$dir =~ s{/+$}{};
	fail("the cluster's folder must be an absolute path: '$dir'") unless $dir =~ m{^/[^\s:,]+$};
	for my $folder (@private, '/proc', '/sys', '/dev') {
		fail("the cluster's folder can't be below $folder") if index("$dir/", "$folder/") == 0;
	}
	return bless { dir => $dir }, $class;
}

sub dir ($self) {
	return $self->{dir};
}

# Makes the folder and takes its lock, which the init then holds for its life. Returns false if a
# cluster is up (or coming up) there. A folder with other things in it is refused.
sub claim ($self) {
	my $dir = $self->{dir};
	if (-e $dir && !-e "$dir/$mark") {
		opendir(my $handle, $dir) or fail("$dir: $!");
		fail("$dir isn't empty, and isn't a cluster's folder")
			if grep { !/^\.\.?$/ } readdir($handle);
	}
	make_path($dir);
	sysopen($self->{lock}, "$dir/$mark", O_RDWR | O_CREAT, 0600) or fail("$dir/$mark: $!");
	return wait_until(now() + 1, sub { flock($self->{lock}, LOCK_EX | LOCK_NB) });
}

# Is a cluster up? (Its init holds the lock.)
sub is_up ($self) {
	open(my $lock, '<', "$self->{dir}/$mark") or return 0;
	return !flock($lock, LOCK_EX | LOCK_NB);
}

# The init's process id on the machine, or undef.
sub pid ($self) {
	my $pid = read_file("$self->{dir}/init.pid") // return undef;
	chomp $pid;
	my $command = read_file("/proc/$pid/cmdline") // return undef;
	return index($command, $self->{dir}) >= 0 ? $pid : undef;
}

# Starts the init: `$script init DIR …` in its namespaces. $hold: a descriptor whose other end is
# open as long as the cluster is wanted (or undef); $birth: one where a byte arrives once the cluster
# is complete. An end of file on either is the cluster's end. @needed: folders that must be seen
# inside, also if they are below one that is replaced by an empty one.
sub start ($self, $script, $hold, $birth, @needed) {
	my $dir = $self->{dir};
	make_path("$dir/log");
	unlink("$dir/init.pid");
	my $door = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 64)
		or fail("can't listen on loopback: $!");
	my @arguments = ($dir, join(':', @needed), map { keep_open($_) } $self->{lock}, $door, $birth);
	push @arguments, keep_open($hold) if $hold;
	my $wrapper = spawn("$dir/log/init.log", {}, 'unshare', '--mount', '--pid', '--net', '--ipc',
		'--fork', '--propagation', 'private', $^X, $script, 'init', @arguments);
	close($self->{lock});
	my $pid = wait_until(now() + 10, sub {
		return -1 if waitpid($wrapper, WNOHANG) == $wrapper;
		return $self->pid;
	});
	fail("the namespaces can't be made: " . (read_file("$dir/log/init.log") // ''))
		if !defined $pid || $pid < 0;
	return $door->sockport;
}

# The init itself; doesn't return. Called inside the new namespaces.
sub run_init ($class, $dir, $needed, @descriptors) {
	my ($lock, $door_number, @ends) = @descriptors;
	open(my $life, '+<&=', $lock) or fail("descriptor $lock: $!");
	my $door = IO::Socket::INET->new_from_fd($door_number, '+<') or fail("no socket: $!");
	my ($birth, $hold) = map {
		open(my $handle, '<&=', $_) or fail("descriptor $_: $!");
		$handle;
	} @ends;
	my $pid = readlink('/proc/self');
	chdir('/');
	make_private(split /:/, $needed);
	run('ip', 'link', 'set', 'lo', 'up');
	my $forwarder = start_forwarder($door);
	close($door);
	write_file("$dir/init.pid", "$pid\n");
	$SIG{TERM} = $SIG{INT} = sub { POSIX::_exit(0) };
	my $watched = IO::Select->new(grep { defined } $birth, $hold);
	my $born = 0;
	while (1) {
		for my $handle ($watched->can_read(1)) {
			my $count = sysread($handle, my $byte, 1);
			if (!$count) {
				POSIX::_exit(0) if !$born || $handle != $birth;
			}
			$born = 1 if $handle == $birth;
			$watched->remove($handle) if $handle == $birth;
		}
		sleep(1) unless $watched->count;
		while ((my $ended = waitpid(-1, WNOHANG)) > 0) {
			say 'process ', $ended, ' ended with status ', $? >> 8, ', signal ', $? & 127;
		}
	}
}

sub make_private (@needed) {
	run('mount', '-t', 'proc', 'proc', '/proc');
	my @hidden = grep { my $path = $_; grep { index("$path/", "$_/") == 0 } @private } @needed;
	my @handles = map { opendir(my $handle, $_) or fail("$_: $!"); $handle } @hidden;
	for my $folder (grep { -d } @private) {
		run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', $folder);
	}
	for my $i (0 .. $#hidden) {
		make_path($hidden[$i]);
		run('mount', '--no-canonicalize', '--bind', "/proc/$$/fd/" . fileno($handles[$i]), $hidden[$i]);
	}
	make_path('/run/lock', '/run/netns', '/run/utsns', '/run/pretended');
	run('mount', '--make-rshared', '/');
	for my $path (grep { -e } sort keys %pretended) {
		my $copy = '/run/pretended/' . $path =~ tr{/}{_}r;
		write_file($copy, $pretended{$path});
		run('mount', '--bind', $copy, $path);
	}
}

# A person's kubectl is in the machine's own network, where a port on loopback leads to the API
# server: the socket was made there, and keeps its network when its process changes to ours.
sub start_forwarder ($door) {
	my $pid = fork() // fail("can't fork: $!");
	return $pid if $pid;
	require Cluster::Forward;
	Cluster::Forward::serve($door);
}

# All that runs in the cluster, containers too: process id on the machine => process id inside.
sub processes ($self) {
	my $init = $self->pid // return {};
	my $space = readlink("/proc/$init/ns/pid") // return {};
	my (%parent, %inside);
	for my $path (glob '/proc/[0-9]*') {
		my $text = read_file("$path/status") // next;
		my ($pid, $inner) = $text =~ /^NSpid:\s*(\d+)\s+(\d+)/m or next;
		$inside{$pid} = $inner;
		($parent{$pid}) = $text =~ /^PPid:\s*(\d+)/m;
		$parent{$pid} = $init if $pid != $init && (readlink("$path/ns/pid") // '') eq $space;
	}
	my %found;
	for my $pid (keys %inside) {
		my $above = $pid;
		$above = $parent{$above} while defined $above && $above != $init;
		$found{$pid} = $inside{$pid} if defined $above;
	}
	return \%found;
}

# The command prefix that runs a program in the cluster's network (and nothing else of it), or, with
# $node, in that node's; with $inside, in all its namespaces.
sub enter ($self, $node = undef, $inside = 0) {
	my $init = $self->pid // fail("no cluster is up in $self->{dir}");
	my $net = $node ? "/proc/$init/root/run/netns/$node" : "/proc/$init/ns/net";
	fail("no node '$node'") unless -e $net;
	my @command = ('nsenter', "--net=$net");
	push @command, '-t', $init, '--mount', '--pid', '--ipc', '--wd=/' if $inside;
	return (@command, '--');
}

# Ends everything and removes the folder, also what a dead run left of it. Says what couldn't be
# removed. Harmless when there is nothing.
sub destroy ($self, $keep_logs = 0) {
	my $dir = $self->{dir};
	if (defined(my $pid = $self->pid)) {
		kill('KILL', $pid);
	}
	return unless -e "$dir/$mark";
	wait_until(now() + 30, sub { !$self->is_up }) or fail("processes of $dir don't end");
	my @containers = map { m{([^/]+)$} } glob "$dir/*/state/io.containerd.runtime.v2.task/k8s.io/*";
	wait_until(now() + 10, sub { remove_cgroups(@containers) })
		or fail("control groups below k8s.io can't be removed: @containers");
	remove_files($dir, $keep_logs);
}

sub remove_files ($dir, $keep_logs) {
	opendir(my $handle, $dir) or return;
	for my $name (sort grep { !/^\.\.?$/ } readdir($handle)) {
		next if $name eq $mark || ($keep_logs && $name eq 'log');
		remove_tree("$dir/$name", { error => \my $errors });
		fail("can't remove $dir/$name: " . join(' ', map { values %$_ } @$errors)) if @$errors;
	}
	return if $keep_logs;
	unlink("$dir/$mark");
	rmdir($dir) or fail("can't remove $dir: $!");
}

# Removes the control groups of these containers from every hierarchy, and the one above them if it is
# empty then; true when none is left.
sub remove_cgroups (@containers) {
	my @above = grep { -d } glob('/sys/fs/cgroup/k8s.io /sys/fs/cgroup/*/k8s.io');
	my @tops = grep { -d } map { my $id = $_; map { "$_/$id" } @above } @containers;
	for my $top (@tops) {
		open(my $list, '-|', 'find', $top, '-depth', '-type', 'd') or next;
		while (my $path = <$list>) {
			chomp $path;
			rmdir($path);
		}
		close($list);
	}
	rmdir($_) for @above;
	return !grep { -d } @tops;
}

# Removes what dead runs left in the usual places. (One that was begun a moment ago may be about to
# take its lock.)
sub sweep ($class) {
	for my $path (glob "$default_base $default_base-*") {
		my @about = stat("$path/$mark") or next;
		next if time - $about[9] < $fresh_s;
		my $self = $class->new($path);
		next if $self->is_up;
		$self->destroy;
	}
}

1;
