#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The inventory of RDMA devices (node/rdma.h, shown by t/tools/rdma-watch): on a machine of the
# stand-in's, whose devices come, go, fail and send events; with the real libibverbs on a sysfs of the
# test's own; by hot-plug messages that the kernel sends; and with soft-RoCE where the kernel has it.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Path qw(make_path remove_tree);
use IpuTest;
use RdmaStandin;
use Test::More;
use Time::HiRes qw(time);

watchdog(200);
my $dir = test_dir();
my $count = 0;

sub machine ($text) { return RdmaStandin->new("$dir/machine-" . ++$count)->machine($text) }

# What it shows, inventory by inventory.
sub shown ($watch) {
	my ($out, @shown) = ($watch->out // '');
	push @shown, $1 while $out =~ /\G(.*?)\n\.\n/gs;
	return @shown;
}

sub watch ($machine, %option) {
	my $watch = start('rdma-watch', path => program('t/tools/rdma-watch'), ports => 0, %option,
		env => {$machine->env, %{$option{env} // {}}});
	wait_until('the first inventory', sub { shown($watch) });
	return $watch;
}

# Waits until the last one matches; returns it.
sub sees ($watch, $pattern, %option) {
	return wait_until("the inventory to match $pattern", sub { my $last = (shown($watch))[-1]; $last =~ $pattern ? $last : undef }, %option);
}

sub once ($machine, %env) {
	my $result = run([program('t/tools/rdma-watch'), '--once'], env => {$machine->env, %env});
	is($result->{status}, 0, 'it ends well') or diag($result->{err});
	return $result->{out} =~ s/\n\.\n\z//r;
}

# netdevs are looked up by name: lo is on every machine.
my $two_ports = <<'END';
device mlx5_0 guid=0c42:a103:0016:054c firmware=16.35.2000
port 1 state=active layer=ethernet width=2 speed=32 mtu=1024
gid 0 fe80::e42:a1ff:fe16:54c type=v1 netdev=lo
gid 1 fe80::e42:a1ff:fe16:54c type=v2 netdev=lo
gid 3 ::ffff:10.5.212.7 type=v2 netdev=lo
port 2 state=down layer=infiniband width=2 speed=128 mtu=4096
gid 0 fe80::1 type=ib
END

subtest 'what is known of a device' => sub {
	my $machine = machine($two_ports)->sysfs('class/infiniband/mlx5_0/device/driver' => \'../../../bus/pci/drivers/mlx5_core');
	is(once($machine), <<'END' =~ s/\n\z//r, 'all of it');
status ok
device mlx5_0 open guid 0c42:a103:0016:054c firmware 16.35.2000 driver mlx5_core
 port 1 active Ethernet 100000 Mb/s mtu 1024 netdev lo
  gid 0 RoCE v1 fe80::e42:a1ff:fe16:54c lo
  gid 1 RoCE v2 fe80::e42:a1ff:fe16:54c lo
  gid 3 RoCE v2 ::ffff:10.5.212.7 lo
 port 2 down InfiniBand 400000 Mb/s mtu 4096 netdev -
  gid 0 IB fe80::1 -
END
};

# A file of the device's, and its ports' as the kernel writes them.
sub device_files ($device, %file) {
	return map { ("class/infiniband/$device/$_" => ref $file{$_} ? $file{$_} : "$file{$_}\n") } keys %file;
}
my @mlx5_files = device_files('mlx5_0', node_guid => '0c42:a103:0016:054c', fw_ver => '16.35.2000',
	'device/driver' => \'../../../bus/pci/drivers/mlx5_core', 'device/net/enp1s0f0/dev_port' => 0,
	'device/net/aa0/dev_port' => 0, 'device/net/aa0/phys_port_name' => 'pf0vf0', 'device/net/enp1s0f1/dev_port' => 1,
	'ports/1/state' => '4: ACTIVE', 'ports/1/link_layer' => 'Ethernet', 'ports/1/rate' => '100 Gb/sec (4X EDR)',
	'ports/1/gids/0' => 'fe80:0000:0000:0000:0e42:a1ff:fe16:054c', 'ports/1/gid_attrs/types/0' => 'IB/RoCE v1',
	'ports/1/gid_attrs/ndevs/0' => 'enp1s0f0',
	'ports/1/gids/1' => '0000:0000:0000:0000:0000:0000:0000:0000',
	'ports/1/gids/2' => '0000:0000:0000:0000:0000:ffff:0a05:d407', 'ports/1/gid_attrs/types/2' => 'RoCE v2',
	'ports/1/gid_attrs/ndevs/2' => 'enp1s0f0',
	'ports/2/state' => '1: DOWN', 'ports/2/link_layer' => 'Ethernet', 'ports/2/rate' => '2.5 Gb/sec (1X SDR)');
my $mlx5_by_sysfs = <<'END';
 port 1 active Ethernet 100000 Mb/s mtu 0 netdev enp1s0f0
  gid 0 RoCE v1 fe80::e42:a1ff:fe16:54c enp1s0f0
  gid 2 RoCE v2 ::ffff:10.5.212.7 enp1s0f0
 port 2 down Ethernet 2500 Mb/s mtu 0 netdev enp1s0f1
END
my $known = 'guid 0c42:a103:0016:054c firmware 16.35.2000 driver mlx5_core';

subtest 'no device, no driver, no permission' => sub {
	my @uverbs = ('class/infiniband_verbs/abi_version' => "6\n");
	my @uverbs0 = ('class/infiniband_verbs/uverbs0/ibdev' => "mlx5_0\n");
	for my $row (
		['nothing in the kernel', 'fail ibv_get_device_list ENOSYS', [],
			qr/^status no driver: no RDMA driver is loaded: .*modprobe/],
		['a driver without a device', '', \@uverbs, qr/^status no device: this machine has no RDMA device$/],
		['out of memory', 'fail ibv_get_device_list ENOMEM', \@uverbs,
			qr/^status failed: listing RDMA devices: Cannot allocate memory$/],
		['the file mode forbids it', 'device mlx5_0 node=EACCES', \@mlx5_files, qr{^status no permission: mlx5_0: no permission: /dev/infiniband/uverbs0: run as root.*
device mlx5_0 closed $known: no permission: .*\n\Q$mlx5_by_sysfs\E}],
		['the container forbids it', 'device mlx5_0 node=EPERM', [], qr{^status no permission: .*the device rules of this container or service .*RDMA resource.*restart a service}],
		['no node', 'device mlx5_0 node=ENOENT', [], qr{^status no permission: mlx5_0: /dev/infiniband/uverbs0 isn't there: in a container, mount}],
		['not ready', "device mlx5_0\nport 1\nfail ibv_open_device EAGAIN", [], qr{^status failed: mlx5_0: uverbs0: the device isn't ready: }],
		['no answer', "device mlx5_0\nport 1\nfail ibv_query_device EIO", [], qr{^status failed: mlx5_0: asking mlx5_0: Input/output error}],
		['one of two', "device mlx5_0 node=EACCES\ndevice mlx5_1 guid=1:2:3:4 firmware=1\nport 1", [],
			qr{^status ok\ndevice mlx5_0 closed .*: no permission: /dev/infiniband/uverbs0.*\ndevice mlx5_1 open guid 0001:0002:0003:0004 firmware 1 driver -\n}],
		['no ib_uverbs', '', [@uverbs, @mlx5_files], qr{^status no driver: mlx5_0: .*modprobe ib_uverbs
device mlx5_0 closed $known: .*\n\Q$mlx5_by_sysfs\E}],
		['a node that is not given to the container', '', [@uverbs, @uverbs0, @mlx5_files],
			qr{^status no permission: mlx5_0: /dev/infiniband/uverbs0 isn't there: in a container, mount}],
	) {
		my ($what, $text, $files, $pattern) = @$row;
		like(once(machine($text)->sysfs(@$files)) . "\n", $pattern, $what);
	}
};

subtest 'what the verbs do not say comes from sysfs' => sub {
	my $text = "device mlx5_0 guid=0c42:a103:0016:054c firmware=16.35.2000\nport 1 speed=32\nport 2 state=down width=1 speed=1\n";
	my $machine = machine($text)->sysfs(@mlx5_files);
	like(once($machine), qr/^ port 1 active .* netdev enp1s0f0\n port 2 down .* netdev enp1s0f1$/m,
		'the interface of a port without GIDs, and not that of a virtual function');
	$machine->machine("${text}fail ibv_query_gid_table EOPNOTSUPP\n");
	like(once($machine), qr/^ port 1 active Ethernet 100000 Mb.s mtu 4096 netdev enp1s0f0
  gid 0 RoCE v1 fe80::e42:a1ff:fe16:54c enp1s0f0
  gid 2 RoCE v2 ::ffff:10.5.212.7 enp1s0f0
 port 2 /m, 'the GIDs');
	$machine->machine("${text}fail ibv_query_port EINVAL\n");
	like(once($machine), qr/^status ok\n.*\n port 1 active Ethernet 100000 Mb.s mtu 0 .*\n port 2 down Ethernet 2500 Mb.s /, 'a port');
	my $fast = machine("device mlx5_0\nport 1 speed=128\nport 2 width=64 speed=1\nport 3 width=2 speed=128\n")
		->sysfs(device_files('mlx5_0', 'ports/1/rate' => '800 Gb/sec (4X XDR)', 'ports/2/rate' => '12.5 Gb/sec (5X SDR)'));
	like(once($fast), qr/^ port 1 .* 800000 .*\n port 2 .* 12500 .*\n port 3 .* 400000 /m,
		'a speed beyond eight bits, a width that nobody knows');
	my $renamed = machine("device mlx5_0 guid=0c42:a103:0016:054c\nport 1")->sysfs(
		'class/infiniband_verbs/uverbs0/ibdev' => "rocep1s0\n", 'class/infiniband/rocep1s0/fw_ver' => "1\n");
	my $said = once($renamed);
	like(once(machine("device rxe0\nport 1 state=down\n")->sysfs(device_files('rxe0', parent => 'eth3'))), qr/^device rxe0 open .*\n port 1 down .* netdev eth3$/m,
		'soft-RoCE has no card, but a parent');
	like($said, qr/^device rocep1s0 open /m, 'the name that udev gave it, which libibverbs does not hear of');
	unlike($said, qr/mlx5_0/, '... and it is shown once');
};

subtest 'limits' => sub {
	my $machine = machine(join '', (map { "device d$_\n" } 1 .. 70), "device big ports=10\nport 1 table=300\n",
		map { "gid $_ fe80::$_\n" } 1 .. 100);
	my $said = once($machine);
	is(scalar(() = $said =~ /^device /mg), 64, '64 devices of 71');
	like($said, qr/^left out 7$/m, '... and the rest is counted');
	$said = once(machine(join '', "device big ports=10\nport 1 table=300\n", map { "gid $_ fe80::$_\n" } 1 .. 100));
	is(scalar(() = $said =~ /^ port /mg), 8, '8 ports of 10');
	is(scalar(() = $said =~ /^  gid /mg), 64, '64 GIDs of 100');
	like($said, qr/^left out 38$/m, '... and the rest is counted');
	like(once(machine("device d10\ndevice d9\ndevice d1\n")), qr/^device d1 .*\ndevice d9 .*\ndevice d10 /m, 'by name, numbers as numbers');
	like(once(machine("device odd firmware=1\x{1}\xe9x\nport 1")), qr/firmware 1\?\?x driver/, 'odd bytes');
};

subtest 'events' => sub {
	my $machine = machine($two_ports);
	my $watch = watch($machine);
	like((shown($watch))[0], qr/^ port 1 active/m, 'at first');
	my ($took, $rounds) = (1, 0);
	while ($took >= 1 && $rounds++ < 10) { # others may have used the machine
		my $begun = time();
		$machine->machine($two_ports =~ s/port 1 state=active/port 1 state=down/r)->event('mlx5_0', port_err => 1);
		sees($watch, qr/^ port 1 down/m);
		$took = time() - $begun;
		$machine->machine($two_ports)->event('mlx5_0', port_active => 1);
		sees($watch, qr/^ port 1 active/m);
	}
	cmp_ok($took, '<', 1, 'a port that goes down is seen within a second');
	$machine->machine($two_ports . "gid 5 fe80::5 type=ib\n")->event('mlx5_0', gid_change => 2);
	sees($watch, qr/^  gid 5 IB fe80::5 -$/m);
	is(scalar(shown($watch)), 2 + 2 * $rounds, 'each was told once');

	$machine->machine($two_ports)->event('mlx5_0', map { (qw(gid_change port_active lid_change pkey_change sm_change
		client_reregister port_err))[$_ % 7] => 1 + $_ % 2 } 1 .. 500);
	unlike(sees($watch, qr/^  gid 0 IB fe80::1 -\z/m), qr/gid 5/, 'five hundred at once');
	# An event for which nothing changed isn't told: the next change shows that it was taken.
	$machine->event('mlx5_0', port_err => 9, gid_change => 1);
	$machine->machine($two_ports . "gid 6 fe80::6 type=ib\n")->event('mlx5_0', gid_change => 2);
	sees($watch, qr/gid 6/);
	is(scalar(shown($watch)), 4 + 2 * $rounds, 'a burst is told once, nothing new not at all');
	$watch->stop;
};

# core/clock.h: struct clock_page, both clocks moved by an offset, or standing still. Written in place:
# it's mapped.
sub clock_page ($path, $offset_ms, $frozen_ms = 0) {
	my $page = pack('a8q<4x24', "\0IPUCLK1", $offset_ms, $frozen_ms ? 1 : 0, $frozen_ms, $frozen_ms);
	return spit($path, $page) if !-e $path;
	open(my $out, '+<:raw', $path) or die "$path: $!\n";
	syswrite($out, $page) == length $page or die "$path: $!\n";
	return $path;
}

# What the program sees all of or nothing of: it stands still meanwhile. A look that came in between would find the device gone and
# close it, and there would be nobody for its last events.
sub in_one_go ($watch, $do) {
	my $stat = '/proc/' . $watch->pid . '/stat';
	$watch->signal('STOP');
	wait_until('it to stand still', sub { (slurp($stat) // '') =~ /\) T / });
	$do->();
	return $watch->signal('CONT');
}

subtest 'a device that fails, and one that is pulled' => sub {
	my $page = clock_page("$dir/clock-fatal", 0);
	my $machine = machine($two_ports . "device mlx5_1 uverbs=uverbs1\nport 1\n")->sysfs(@mlx5_files);
	my $watch = watch($machine, env => {IPU_CLOCK_PAGE => $page});
	$machine->event('mlx5_0', port_err => 1, device_fatal => 0);
	my $last = sees($watch, qr/^device mlx5_0 closed fatal $known: the device reported a fatal error/m);
	like($last, qr/^ port 1 down Ethernet/m, 'its ports are down, whatever sysfs shows');
	like($last, qr/^status ok\n.*^device mlx5_1 open/ms, 'the other one is not touched');
	ok(!$machine->is_open('mlx5_0') && $machine->is_open('mlx5_1'), 'it was closed');
	clock_page($page, 5500);
	like(sees($watch, qr/^device mlx5_0 open/m), qr/^ port 1 active/m, 'after five seconds it is opened again');
	ok($machine->is_open('mlx5_0'), '... really');

	in_one_go($watch, sub {
		$machine->machine("device mlx5_1 uverbs=uverbs1\nport 1\n");
		remove_tree($machine->sysfs_path('class'));
		$machine->event('mlx5_0', device_fatal => 0, gone => 0);
	});
	unlike(sees($watch, qr/^status ok\ndevice mlx5_1/), qr/mlx5_0/, 'what the kernel says of a card that is pulled');
	$machine->machine("device mlx5_1 uverbs=uverbs1\nport 1\ndevice mlx5_0 uverbs=uverbs0\nport 1");
	$watch->signal('USR1');
	sees($watch, qr/^device mlx5_0 open/m);
	$machine->event('mlx5_1', gone => 0);
	like(sees($watch, qr/^device mlx5_1 closed.*: the device was taken away/m), qr/^device mlx5_0 open/m, 'no events any more');
	sees($watch, qr/^device mlx5_1 open/m);
	pass('... and it is tried again');
	$machine->machine("device mlx5_0 instance=2\nport 1 state=down\n");
	$watch->signal('USR1');
	like(sees($watch, qr/^ port 1 down/m), qr/^device mlx5_0 open/m, 'another device of the same name');
	$machine->machine("device mlx5_0 instance=2\nport 1 state=armed\n")->event('mlx5_0', port_err => 1);
	sees($watch, qr/^ port 1 armed/m);
	pass('... whose events come');
	$machine->machine("device mlx5_0 instance=2\nport 1 state=active\n");
	clock_page($page, 5500 + 31000);
	sees($watch, qr/^ port 1 active/m);
	pass('a change without an event is seen within half a minute');
	$watch->stop;
};

subtest 'any call fails, once' => sub {
	for my $function (qw(get_device_list open_device query_device query_port query_gid_table get_async_event)) {
		for my $nth (1 .. 3) {
			my $machine = machine($two_ports . "fail ibv_$function EIO $nth\n");
			my $watch = watch($machine);
			for my $turn (1 .. 4) {
				wait_until('the device to be open', sub { $machine->is_open('mlx5_0') || !$watch->signal('USR1') }, seconds => 60);
				$machine->machine($two_ports . "gid 1$turn fe80::1$turn type=ib\nfail ibv_$function EIO $nth\n")->event('mlx5_0', gid_change => 2);
				sees($watch, qr/gid 1$turn/, seconds => 60);
			}
			$machine->machine($two_ports);
			$watch->signal('USR1');
			sees($watch, qr/^status ok\ndevice mlx5_0 open (?:(?!fe80::1\d).)*\z/s, seconds => 60);
			$watch->stop;
		}
	}
};

# ---- the real libibverbs ----

# What a machine's RDMA subsystem speaks; libibverbs asks it first, and sysfs only without it.
sub has_rdma_netlink () { return socket(my $s, 16, 3, 20) ? 1 : 0 }

# A mount namespace of its own, where /dev holds infiniband/uverbs0 (a device that takes nothing),
# uverbs1 and 5 to 9 (which may not be opened) and char, where libibverbs waits for udev's links. A user
# has no mknod: there it is a node of root's.
my $own_dev = <<'END';
set -e
new=$1; shift
mount -t tmpfs dev "$new"
mkdir "$new/infiniband" "$new/char"
for node in null zero full random urandom; do : >"$new/$node"; mount --bind /dev/$node "$new/$node"; done
: >"$new/infiniband/uverbs0"; mount --bind /dev/full "$new/infiniband/uverbs0"
ln "$new/full" "$new/infiniband/uverbs2" 2>/dev/null || { : >"$new/infiniband/uverbs2"; mount --bind /dev/full "$new/infiniband/uverbs2"; }
: >"$new/infiniband/uverbs4"; mount --bind /dev/full "$new/infiniband/uverbs4"
for n in 1 5 6 7 8 9; do
	mknod -m 0 "$new/infiniband/uverbs$n" c 5 1 2>/dev/null ||
		{ : >"$new/infiniband/uverbs$n"; mount --bind /dev/console "$new/infiniband/uverbs$n"; }
done
mount --rbind "$new" /dev
exec "$@"
END

sub uverbs_files ($n, $device, %file) {
	return ("class/infiniband_verbs/uverbs$n/ibdev" => "$device\n", "class/infiniband_verbs/uverbs$n/dev" => "$file{dev}\n",
		"class/infiniband_verbs/uverbs$n/abi_version" => "$file{abi}\n", device_files($device, node_type => '1: CA',
			($file{modalias} ? ('device/modalias' => $file{modalias}) : (node_desc => 'x'))));
}

subtest 'the real libibverbs on a sysfs of our own' => sub {
	plan skip_all => 'this kernel has RDMA, by which libibverbs lists real devices alone' if has_rdma_netlink();
	plan skip_all => 'no providers of libibverbs on this machine' if !-e '/etc/libibverbs.d/rxe.driver';
	my @unshare = ('unshare', $> == 0 ? '-m' : '-rm');
	my $new_dev = "$dir/dev";
	mkdir $new_dev;
	my @inside = (@unshare, 'sh', '-c', $own_dev, 'sh', $new_dev);
	# Root too may be forbidden something.
	push @inside, 'setpriv', '--bounding-set=-dac_override,-dac_read_search' if $> == 0;
	my $possible = run([@inside, 'true']);
	plan skip_all => "no mount namespace here: $possible->{err}" if $possible->{status} != 0;
	my $mlx5 = 'pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00';
	my $machine = machine('')->sysfs('class/infiniband_verbs/abi_version' => "6\n",
		uverbs_files(0, 'rxe_0', dev => '1:7', abi => 2), uverbs_files(1, 'mlx5_0', dev => '5:1', abi => 1, modalias => $mlx5),
		@mlx5_files, uverbs_files(2, 'unknown_0', dev => '1:7', abi => 1), uverbs_files(3, 'nonode_0', dev => '231:195', abi => 1),
		uverbs_files(4, 'rxe_4', dev => '231:196', abi => 2), device_files('bare_0', fw_ver => '7.1'),
		map { uverbs_files($_, "rxe_$_", dev => '5:1', abi => 2) } 5 .. 9);
	my ($result, $took);
	for (1 .. 3) { # others may use the machine
		my $begun = time();
		$result = run([@inside, program('t/tools/rdma-watch'), '--once'], env => {SYSFS_PATH => $machine->sysfs_path('')});
		$took = time() - $begun;
		last if $took < 20;
	}
	is($result->{status}, 0, 'it ends well') or diag($result->{err});
	my $said = $result->{out};
	like($said, qr{^status no permission: mlx5_0: no permission: /dev/infiniband/uverbs1: run as root}, 'nothing may be opened');
	like($said, qr{^device mlx5_0 closed $known: no permission: .*\n\Q$mlx5_by_sysfs\E}m, 'what sysfs tells of a device that may not');
	like($said, qr{^device rxe_0 closed .*: uverbs0: No space left on device}m, 'a device that does not answer');
	like($said, qr{^device unknown_0 closed .*: libibverbs has no provider for the driver of this device}m, 'a device that no provider knows');
	like($said, qr{^device nonode_0 closed .*: /dev/infiniband/uverbs3 isn't there}m, 'a device without a node');
	like($said, qr{^device rxe_4 closed .*: /dev/infiniband/uverbs4 isn't the device's node: the kernel's is 231:196}m, "another device's node");
	like($said, qr{^device bare_0 closed guid - firmware 7.1 driver -: the kernel module ib_uverbs isn't loaded}m, 'a device without uverbs');
	is(scalar(() = $said =~ /^device rxe_[5-9] closed .*no permission/mg), 5, 'the others');
	cmp_ok($took, '<', 20, 'libibverbs never waits for udev, five seconds a device');
	is($result->{err}, '', 'and it writes nothing where our log goes');
};

# ---- hot-plug ----

# Sends a message as the kernel's: who may, hands it to the kernel, which passes it on in its own name
# to the listeners of that network namespace (lib/kobject_uevent.c).
my $send_uevent = <<'END';
use Socket;
socket(my $s, 16, SOCK_RAW, 15) or die "socket: $!\n";
for my $event (@ARGV) {
	my ($action, $path, $subsystem) = split / /, $event;
	my $text = join '', map { "$_\0" } "$action\@$path", "ACTION=$action", "DEVPATH=$path", "SUBSYSTEM=$subsystem";
	my $message = pack('LSSLL', 16 + length $text, 16, 1 | 4, 1, 0) . $text;
	send($s, $message, 0, pack('SSLL', 16, 0, 0, 0)) or die "send: $!\n";
	recv($s, my $answer, 1024, 0) // die "recv: $!\n";
	my ($error) = unpack 'x16 l', $answer;
	die "the kernel says $error\n" if $error;
}
END

subtest 'hot-plug messages' => sub {
	my @root = $> == 0 ? () : ('-r');
	my $possible = run(['unshare', @root, '-n', $^X, '-e', $send_uevent, 'change /devices/x infiniband']);
	plan skip_all => "no hot-plug messages of our own here: $possible->{err}" if $possible->{status} != 0;
	my $machine = machine("device mlx5_0 uverbs=uverbs0\nport 1\n");
	# Time stands still, so that no timer does what a message should.
	my $now = 1_000_000;
	my $page = clock_page("$dir/clock-plug", 0, $now);
	my $watch = watch($machine, path => 'unshare', args => [@root, '-n', program('t/tools/rdma-watch')], env => {IPU_CLOCK_PAGE => $page});
	my $shows = sub {
		my $n = shown($watch);
		$watch->signal('USR2');
		return (wait_until('it to show all', sub { my @s = shown($watch); @s > $n ? \@s : undef }))->[-1];
	};
	my $tick = sub ($ms) { clock_page($page, 0, $now += $ms); $shows->() };
	my @enter = ('nsenter', '-t', $watch->pid, (@root ? qw(--user --preserve-credentials) : ()), '-n', $^X, '-e', $send_uevent);
	my $send = sub (@events) { is(run([@enter, @events], env => {LD_PRELOAD => undef})->{status}, 0, "sent: $events[0]") };
	my $device = '/devices/pci0000:00/0000:00:04.0/infiniband_verbs/uverbs1';
	# The looks that follow the start.
	$tick->($_) for 300, 1100, 4100;
	my @two = ("device mlx5_0 uverbs=uverbs0\nport 1\ndevice mlx5_1 uverbs=uverbs1", "\nport 1\n");
	$machine->machine("$two[0] node=EACCES$two[1]");
	$tick->(100);
	unlike($tick->(100), qr/mlx5_1/, 'nobody looks without a reason');
	$send->("add $device infiniband_verbs");
	sees($watch, qr/^device mlx5_1 closed .*no permission/m);
	pass('a device that comes is seen by its message');
	# udev gives the node its owner and mode after that, and no message tells it.
	$machine->machine("$two[0]$two[1]");
	$tick->(300);
	sees($watch, qr/^device mlx5_1 open/m);
	pass('and opened when udev is done with it');

	$tick->(100);
	$machine->event('mlx5_1', device_fatal => 0);
	sees($watch, qr/^device mlx5_1 closed fatal/m);
	$tick->(1000);
	like($tick->(1000), qr/^device mlx5_1 closed fatal/m, 'a device that failed is left alone');
	$machine->machine("$two[0] instance=2$two[1]");
	$send->("remove $device infiniband_verbs", "add $device infiniband_verbs");
	$tick->(100);
	sees($watch, qr/^device mlx5_1 open/m);
	pass('one that its driver made anew is opened at once');

	$machine->machine("device mlx5_0 uverbs=uverbs0\nport 1\n");
	$tick->(100);
	$send->("remove $device infiniband_verbs");
	$tick->(100);
	unlike(sees($watch, qr/\A(?!.*mlx5_1)/s), qr/mlx5_1/, 'a device that goes');
	my $n = shown($watch);
	$send->(map { ("add /devices/virtual/net/x$_ net", "change $device infiniband_verbs") } 1 .. 300);
	$machine->machine("device mlx5_0 uverbs=uverbs0\nport 1 state=down\n");
	$send->("change $device infiniband");
	# It reads them in its own time, and looks a moment after the last one.
	my $ticks = 0;
	wait_until('port 1 to be down', sub {
		return 1 if (shown($watch))[-1] =~ /^ port 1 down/m;
		clock_page($page, 0, $now += 100) if $ticks++ < 20;
		return 0;
	});
	is(scalar(shown($watch)), $n + 1, 'hundreds of messages about nothing tell nothing');

	# A card's interface that comes after the port, or gets another name.
	for my $case (['add', 'down', 'active'], ['move', 'active', 'down']) {
		my ($action, $before, $after) = @$case;
		$tick->($_) for 300, 1100, 4100;
		$machine->machine("device mlx5_0 uverbs=uverbs0\nport 1 state=$after\n");
		like($tick->(100), qr/^ port 1 $before/m, 'nobody has looked');
		$send->("$action /devices/pci0000:00/0000:00:04.0/net/enp4s0 net");
		sees($watch, qr/^ port 1 $after/m);
		pass("$action of a card's interface: looked at again");
	}
	$watch->stop;
};

# ---- soft-RoCE ----

subtest 'soft-RoCE' => sub {
	plan skip_all => 'not as root' if $> != 0;
	my $modprobe = (grep { -x } qw(/usr/sbin/modprobe /sbin/modprobe))[0];
	my $rdma = (grep { -x } qw(/usr/bin/rdma /usr/sbin/rdma /sbin/rdma))[0];
	plan skip_all => 'no modprobe or no rdma command on this machine' if !$modprobe || !$rdma;
	my $loaded = run([$modprobe, 'rdma_rxe']);
	plan skip_all => "this kernel has no soft-RoCE: $loaded->{err}" if $loaded->{status} != 0;
	my $link = "iput$$" =~ s/^(.{15}).*/$1/r;
	my $device = "rxe$$";
	run(['ip', 'link', 'add', $link, 'type', 'dummy'])->{status} == 0 or plan skip_all => 'no dummy links here';
	my $watch = start('rdma-watch', path => program('t/tools/rdma-watch'), ports => 0);
	my $ok = eval {
		run(['ip', 'link', 'set', $link, 'up']);
		is(run([$rdma, 'link', 'add', $device, 'type', 'rxe', 'netdev', $link])->{status}, 0, 'a device comes');
		sees($watch, qr/^device $device open .*\n port 1 active Ethernet \d+ Mb.s mtu \d+ netdev $link\n  gid 0 RoCE v2 /m);
		run(['ip', 'link', 'set', $link, 'down']);
		sees($watch, qr/^device $device open .*\n port 1 down /m);
		pass('its port goes down with the link');
		run(['ip', 'link', 'set', $link, 'up']);
		sees($watch, qr/^device $device open .*\n port 1 active /m);
		run([$rdma, 'link', 'delete', $device]);
		sees($watch, qr/\A(?!.*^device $device )/ms);
		pass('and goes');
		1;
	};
	my $why = $@;
	run([$rdma, 'link', 'delete', $device]);
	run(['ip', 'link', 'delete', $link]);
	ok($ok, 'all was seen') or diag($why);
	$watch->stop;
};

done_testing();
