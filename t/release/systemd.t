#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages under a real systemd, in namespaces of its own (t/release/boot): the units start, are told, reload,
# are watched, restart under load and end as doc/design/service.md says; what they can't do; installation to purge.
# ipu-sim, of its own package, is the cluster and the V-IPU controller. What needs another unit is a row in %unit.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use JSON::PP ();
use List::Util qw(sum0);
use Test::More;
use Time::HiRes qw(sleep time);

# Of each service: its sockets, where it listens for probes, its kubeconfig, files that it needs besides, what its status says
# when all is well, how many lines it writes at least, and whether /dev is one of its own (RDMA's devices are in the machine's).
my %unit = (
	'ipu-operator.service' => {sockets => [qw(proxy partitions webhook)], health => 8081, kubeconfig => 'kubeconfig',
		files => {}, status => qr/^leads.*jobs: 0.*; ready$/, lines => 6, own_devices => 1},
	'ipu-operator-node.service' => {sockets => [], health => 8082, kubeconfig => 'node-kubeconfig',
		files => {'node-environment' => "IPUOPERATOR_NODE_NAME=sim0\n"}, status => qr/; ready$|^ready$/, lines => 2, own_devices => 0},
);
my $stop_limit_s = 5;

plan skip_all => 'only root can boot a system' if $> != 0;
program_or_skip($_) for qw(dpkg-buildpackage nsenter unshare setpriv curl);
plan skip_all => 'no control groups of version 2 on this machine' if slurp('/proc/filesystems') !~ /\bcgroup2$/m;
watchdog(1700);
my $build = $ENV{TOP_BUILDDIR};

# ---- the packages, and a Debian for them ----

# What t/release/deb.t has just built, or else built now.
sub packages {
	my ($version) = slurp("$build/config.h") =~ /^#define PACKAGE_VERSION "(.*)"$/m;
	my @files = glob "$build/{ipu-operator,ipuctl,ipu-sim}_$version-1_*.deb";
	my $top = top_srcdir();
	my @newer = @files != 3 ? 'all' : split /\n/, run(['find', (map { "$top/$_" } qw(src include etc Makefile.am configure.ac)),
		'-newer', $files[0], '-type', 'f'])->{out};
	if (@newer) {
		my $made = run([qw(make -s --no-print-directory -C), $build, 'deb'], name => 'make-deb', seconds => 1200,
			env => {MAKEFLAGS => undef, MAKELEVEL => undef, SOURCE_DATE_EPOCH => undef});
		is($made->{status}, 0, 'make deb') or BAIL_OUT($made->{err} . $made->{out});
		@files = map { "$build/$_" } grep { /\.deb$/ } split /\n/, $made->{out};
	}
	return @files;
}

my @packages = packages();
my $depends = join ', ', grep { !/^ipu-/ } map { split /,\s*/, run(['dpkg-deb', '--field', $_, 'Depends'])->{out} =~ s/\n//r } @packages;
my $made = run(["$FindBin::Bin/debian-root", $depends], seconds => 900);
plan skip_all => $made->{err} =~ s/\n.*//sr if $made->{status} == 77;
is($made->{status}, 0, 'a Debian') or BAIL_OUT($made->{err});
my ($root) = $made->{out} =~ /^(\S+)\n\z/;

# ---- the system ----

my $pid_file = test_dir() . '/systemd.pid';
my $booted_s = time();
my $system = start('boot', path => '/usr/bin/setpriv', ports => 0,
	args => ['--pdeathsig', 'TERM', "$FindBin::Bin/boot", $root, $pid_file]);
my $init = wait_until('namespaces', sub { (slurp($pid_file) // '') =~ /^(\d+)\n/ ? $1 : 0 });

# A command in there, as root. Dies unless it ends well, if it isn't asked for its status.
sub inside ($command, %option) {
	my $got = run(['nsenter', '--target', $init, qw(--mount --uts --ipc --net --pid --cgroup --), @$command],
		env => {map { ($_ => undef) } qw(LANG LC_ALL TMPDIR)}, seconds => 60, %option);
	die "@$command: status $got->{status}\n$got->{err}$got->{out}" if !$option{any} && $got->{status};
	return $option{any} ? $got : $got->{out};
}
sub inside_file ($path, $text, $mode = '0644') {
	return inside(['sh', '-c', 'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"', '-', $path, $mode], stdin => $text);
}
sub property ($unit, $name) { return inside(['systemctl', 'show', '--value', '--property', $name, $unit]) =~ s/\n\z//r }
sub is_active ($unit) { return inside(['systemctl', 'is-active', $unit], any => 1)->{out} eq "active\n" }
sub journal ($unit, @more) { return inside(['journalctl', '--no-pager', '--output=cat', '--unit', $unit, @more]) }
sub get ($port, $path = '/', @more) {
	return run(['nsenter', '--target', $init, '--net', 'curl', qw(-sS --noproxy * --max-time 20 -w %{http_code}), @more,
		"http://127.0.0.1:$port$path"])->{out};
}

# What the webhook answers to a review of a Pod: its HTTP status and the answer.
sub review () {
	my $pod = {apiVersion => 'v1', kind => 'Pod', metadata => {name => 'plain', namespace => 'default'},
		spec => {containers => [{name => 'main', image => 'busybox'}]}};
	my $asked = {apiVersion => 'admission.k8s.io/v1', kind => 'AdmissionReview', request => {uid => 'of-the-test', operation => 'CREATE',
		namespace => 'default', kind => {group => '', version => 'v1', kind => 'Pod'}, resource => {group => '', version => 'v1', resource => 'pods'},
		object => $pod}};
	my $got = run(['nsenter', '--target', $init, '--net', 'curl', qw(-sS -k --noproxy * --max-time 20 -w %{http_code}),
		'-H', 'Content-Type: application/json', '--data-binary', '@-', 'https://127.0.0.1:8443/mutate-v1-pod'],
		stdin => JSON::PP->new->canonical->encode($asked));
	my ($answer, $status) = $got->{out} =~ /^(.*)(\d{3})\z/s or return (0, {});
	return ($status, $answer =~ /^\{/ ? json_decode($answer) : {});
}

# CAP_SYS_RESOURCE: without it, a machine's limits are the most that systemd can give.
sub may_raise_limits { return hex(substr +(slurp('/proc/self/status') =~ /^CapBnd:\s+(\S+)/m)[0], -8) >> 24 & 1 }

# What the process has of the kernel's: lines of /proc/PID/FILE.
sub of_process ($unit, $file) {
	my $pid = property($unit, 'MainPID');
	return inside(['cat', "/proc/$pid/$file"]);
}

sub diagnose {
	for my $unit (sort keys %unit) {
		diag(inside(['systemctl', 'status', '--no-pager', '--lines=0', $unit], any => 1)->{out},
			inside(['journalctl', '--no-pager', '--lines=40', '--unit', $unit], any => 1)->{out});
	}
	return;
}

# Clients that connect anew for each request, as fast as they are answered, until end_clients.
sub begin_clients ($port, $count) {
	my $code = <<'END';
use IO::Socket::INET; use POSIX ();
my ($port, $count, $stop) = @ARGV;
for my $n (1 .. $count) {
	next if fork;
	alarm 120; # nobody may be left to end it
	my ($good, @bad) = 0;
	while (!-e $stop) {
		my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 20) or push(@bad, "connect: $!"), select(undef, undef, undef, 0.05), next;
		print {$s} "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
		my $answer = do { local $/; <$s> } // '';
		$answer =~ m{^HTTP/1\.1 200 } ? $good++ : push @bad, 'answer: ' . substr $answer, 0, 60;
		select undef, undef, undef, 0.01;
	}
	open my $out, '>', "$stop.$n"; print {$out} join "\n", $good, @bad; close $out; POSIX::_exit(0);
}
1 while wait != -1;
END
	state $runs = 0;
	my $stop = test_dir() . '/clients-' . ++$runs;
	my $program = start('clients', path => '/usr/bin/nsenter', ports => 0,
		args => ['--target', $init, '--net', $^X, '-e', $code, $port, $count, $stop]);
	return {program => $program, stop => $stop, count => $count};
}
sub end_clients ($clients, $what) {
	spit($clients->{stop}, '');
	wait_until('the clients', sub { !$clients->{program}->is_alive }, while_alive => []);
	$clients->{program}->stop;
	my @of = map { [split /\n/, slurp("$clients->{stop}.$_") // ''] } 1 .. $clients->{count};
	my @bad = map { my ($good, @rest) = @$_; @rest } @of;
	cmp_ok(sum0(map { $_->[0] // 0 } @of), ">", 10, "$what: clients were answered");
	is_deeply(\@bad, [], '... and none refused');
	return;
}

inside_file('/dev/of-the-machine', '');
wait_until('systemd', sub { inside(['systemctl', 'is-system-running'], any => 1)->{out} =~ /^(?:running|degraded)$/ });
note(sprintf 'booted in %.1f s', time() - $booted_s);
is(inside(['systemctl', '--failed', '--plain', '--no-legend']), '', 'a whole system runs');

# ---- installation ----

my $install = sub {
	my @names = map { s{.*/}{}r } @packages;
	for my $file (@packages) {
		inside(['sh', '-c', 'cat >"$1"', '-', "/var/tmp/" . $file =~ s{.*/}{}r], stdin => slurp($file));
	}
	return inside(['dpkg', '--install', map { "/var/tmp/$_" } @names], any => 1);
};
my $installed = $install->();
is($installed->{status}, 0, 'the packages can be installed') or BAIL_OUT($installed->{out} . $installed->{err});
for my $unit (sort keys %unit) {
	is(inside(['systemctl', 'is-enabled', $unit], any => 1)->{out}, "disabled\n", "$unit isn't enabled by that");
	ok(!is_active($unit), '... and doesn\'t run');
	my $start = inside(['systemctl', 'start', $unit], any => 1);
	isnt($start->{status}, 0, '... and can\'t, without a kubeconfig');
	is(property($unit, 'ExecMainStatus'), 243, '... which its status says');
	sleep(2.5); # That nothing comes is the point: RestartSec is 2.
	is(property($unit, 'NRestarts'), 0, '... and isn\'t tried again');
}

# ---- a cluster ----

inside(['systemd-run', '--unit=ipu-sim', '--quiet', 'ipu-sim', '--dir=/var/tmp/sim', '--agents=4', '--pod-run-ms=0',
	'--ports-file=/var/tmp/sim.ports']);
my %port = wait_until('the simulated cluster', sub {
	my $got = inside(['cat', '/var/tmp/sim.ports'], any => 1);
	$got->{status} ? 0 : {$got->{out} =~ /^(\S+) (\d+)$/mg};
})->%*;
my $good = <<"END";
operatorNamespace: ipu-operator
controllers: "127.0.0.1:$port{vipu0}"
roles: controller,proxy,webhook
webhook: {url: "https://127.0.0.1:8443"}
END
for my $of (values %unit) {
	inside_file("/etc/ipu-operator/$of->{kubeconfig}", inside(['cat', '/var/tmp/sim/kubeconfig']), '0600');
	inside_file("/etc/ipu-operator/$_", $of->{files}{$_}) for keys %{ $of->{files} };
}
inside_file('/etc/ipu-operator/operator.yaml', $good);

sub wait_ready ($unit, $seconds = 60) {
	return wait_until("$unit to be ready", sub { is_active($unit) && property($unit, 'StatusText') =~ $unit{$unit}{status} }, seconds => $seconds);
}

my $each = sub ($name, $code) {
	subtest $name => sub {
		for my $unit (sort keys %unit) {
			eval { $code->($unit, $unit{$unit}); 1 } or fail("$unit: $@");
		}
		diagnose() if !Test::More->builder->is_passing;
	};
};
sub sockets_of ($unit) { return map { $unit =~ s/\.service$/-$_.socket/r } @{ $unit{$unit}{sockets} } }

$each->('start' => sub ($unit, $of) {
	my @all = (sockets_of($unit), $unit);
	inside(['systemctl', 'enable', '--now', '--quiet', @all]);
	is(inside(['systemctl', 'is-enabled', $_]), "enabled\n", "$_ is enabled") for @all;
	ok(is_active($_), "$_ is active") for @all;
	is(property($unit, 'Type'), 'notify', 'systemd waits for its word');
	wait_ready($unit);
	like(property($unit, 'StatusText'), $of->{status}, 'the status says what it does');
	is(get($of->{health}, '/healthz'), "ok\n200", 'it answers');
	is(property($unit, 'NRestarts'), 0, 'it was started once');
});

$each->('sockets' => sub ($unit, $of) {
	return pass("$unit has none") if !sockets_of($unit);
	my $inodes = sub ($pid) {
		return {map { $_ => 1 } inside(['sh', '-c', 'for f in /proc/$1/fd/*; do readlink "$f"; done', '-', $pid], any => 1)->{out} =~ /(socket:\[\d+\])/g};
	};
	my ($of_init, $of_daemon) = map { $inodes->($_) } 1, property($unit, 'MainPID');
	is(scalar(grep { $of_init->{$_} } keys %$of_daemon), scalar(sockets_of($unit)), 'it has those that systemd opened');
	inside(['systemctl', 'stop', '--quiet', $unit]);
	ok(!is_active($unit), 'it was stopped');
	like(get(8080, '/health'), qr/200$/, 'a client starts it, and is answered');
	ok(is_active($unit), '... it runs');
	wait_ready($unit);
	inside(['systemctl', 'stop', '--quiet', $unit]);
	for my $which ('a review starts it', 'and the next') {
		my ($status, $answer) = review();
		is($status, 200, "$which, and is answered");
		is($answer->{response}{uid}, 'of-the-test', '... by its own answer');
		ok($answer->{response}{allowed}, '... a Pod that asks for no IPUs is let through');
	}
	wait_ready($unit);
});

$each->('what it may do' => sub ($unit, $of) {
	my $pid = property($unit, 'MainPID');
	my $status = of_process($unit, 'status');
	my ($uid) = $status =~ /^Uid:\s+(\d+)/m;
	cmp_ok($uid, '>', 0, "it isn't root: $uid");
	like($status, qr/^NoNewPrivs:\s+1$/m, 'no new privileges');
	like($status, qr/^Seccomp:\s+2$/m, 'system calls are filtered');
	my ($bounding) = $status =~ /^CapBnd:\s+([0-9a-f]+)$/m;
	is(hex $bounding, 0, 'no capabilities');
	my $limits = of_process($unit, 'limits');
	for my $row (['LimitMEMLOCK', 'Max locked memory', 'infinity', 'unlimited'], ['LimitNOFILE', 'Max open files', 65536, 65536]) {
		my ($key, $words, $wanted, $most) = @$row;
		is(property($unit, $key), $wanted, "$key as the unit says");
		my ($own) = slurp('/proc/self/limits') =~ /^$words +\S+ +(\S+)/m;
		my $least = !may_raise_limits() && $own ne 'unlimited' && ($most eq 'unlimited' || $own < $most) ? $own : $most;
		like($limits, qr/^$words +$least +$least /m, "... the process has $least");
	}
	# As root in its mounts: nobody can there.
	my $there = sub (@command) { inside(['nsenter', '--target', $pid, '--mount', '--', @command], any => 1) };
	for my $folder (qw(/etc /etc/ipu-operator /usr /var /var/lib /boot /sys/fs/cgroup /proc/sys)) {
		my $got = $there->('touch', "$folder/ipu-test");
		like($got->{err}, qr/Read-only file system|Permission denied|No such file/, "it can't write to $folder");
		isnt($got->{status}, 0, '... at all');
	}
	is($there->('ls', '-A', '/home')->{out}, '', 'it sees nobody\'s home');
	inside_file('/tmp/of-others', 'x');
	isnt($there->('test', '-e', '/tmp/of-others')->{status}, 0, '... nor others\' temporary files');
	isnt($there->('test', '-e', '/dev/of-the-machine')->{status}, 0, '... nor devices of the machine') if $of->{own_devices};
	is(property($unit, 'DevicePolicy'), 'closed', '... of which it may use what the unit names') if !$of->{own_devices};
	my $file = '/run/credentials/' . $unit . '/kubeconfig';
	is($there->('cat', $file)->{out}, inside(['cat', "/etc/ipu-operator/$of->{kubeconfig}"]), 'it has the kubeconfig as a credential');
	isnt(inside(['setpriv', '--reuid=65534', '--clear-groups', 'cat', "/etc/ipu-operator/$of->{kubeconfig}"], any => 1)->{status}, 0, '... which is root\'s');
	my $judged = inside(['systemd-analyze', 'security', '--threshold=20', '--no-pager', $unit], any => 1);
	is($judged->{status}, 0, 'an exposure of 2.0 or less') or diag(join "\n", grep { /Overall|✗/ } split /\n/, $judged->{out});
	note($judged->{out} =~ /(Overall.*)/);
});

$each->('journal' => sub ($unit, $of) {
	my @lines = map { json_decode($_) } split /\n/, inside(['journalctl', '--no-pager', '--output=json', '--unit', $unit]);
	my @own = grep { ($_->{_COMM} // '') eq 'ipu-operator' } @lines;
	cmp_ok(scalar @own, '>=', $of->{lines}, 'it has written to the journal');
	is_deeply([grep { $_->{MESSAGE} =~ /^<\d>/ } @own], [], '... no priority is left in the text');
	my %priority = (FATAL => 2, ERROR => 3, WARN => 4, INFO => 6, DEBUG => 7);
	is_deeply([map { "$_->{PRIORITY} $_->{MESSAGE}" } grep { $_->{MESSAGE} =~ /^\S+Z? (\w+) / && defined $priority{$1} && $priority{$1} != $_->{PRIORITY} } @own], [],
		'... each line has its level\'s');
	cmp_ok(2 * grep({ $_->{PRIORITY} == 6 } @own), '>', @own, '... most are informational');
});

$each->('reload' => sub ($unit, $of) {
	my $pid = property($unit, 'MainPID');
	inside_file('/etc/ipu-operator/operator.yaml', $good . "queue: {policy: nonsense}\n");
	inside(['systemctl', 'reload', $unit]);
	wait_until('the status to name what is wrong', sub { property($unit, 'StatusText') =~ /queue\.policy/ });
	ok(is_active($unit), 'a bad configuration leaves it as it is');
	is(property($unit, 'MainPID'), $pid, '... the same process');
	is(get($of->{health}, '/healthz'), "ok\n200", '... which answers');
	inside_file('/etc/ipu-operator/operator.yaml', $good . "log: {level: 5}\n");
	inside(['systemctl', 'reload', $unit]);
	wait_until('the status to say no more of it', sub { property($unit, 'StatusText') !~ /queue\.policy/ });
	is(property($unit, 'MainPID'), $pid, 'a good one is read by the same process');
	inside_file('/etc/ipu-operator/operator.yaml', $good);
	inside(['systemctl', 'reload', $unit]);
	wait_ready($unit);
});

$each->('restart' => sub ($unit, $of) {
	my $clients = sockets_of($unit) ? begin_clients(8080, 3) : undef;
	for my $time (1 .. 3) {
		my $pid = property($unit, 'MainPID');
		inside(['systemctl', 'restart', $unit]);
		isnt(property($unit, 'MainPID'), $pid, "restart $time: another process");
		wait_ready($unit);
	}
	my $before = property($unit, 'MainPID');
	is($install->()->{status}, 0, 'the packages are installed once more, as an upgrade');
	wait_until('another process', sub { property($unit, 'MainPID') !~ /^(?:0|$before)$/ });
	wait_ready($unit);
	end_clients($clients, 'meanwhile') if $clients;
});

# The unit's own patience is 30 s.
$each->('watchdog' => sub ($unit, $of) {
	is(property($unit, 'WatchdogUSec'), '30s', 'systemd wants signs of life');
	inside_file("/run/systemd/system/$unit.d/test.conf", "[Service]\nWatchdogSec=6s\n");
	inside(['systemctl', 'daemon-reload']);
	inside(['systemctl', 'restart', $unit]);
	wait_ready($unit);
	my $from = time();
	my $pid = property($unit, 'MainPID');
	sleep(7); # Longer than the watchdog's time: that it does nothing is the point.
	is(property($unit, 'MainPID'), $pid, 'one that runs is left alone');
	inside(['kill', '-STOP', $pid]);
	wait_until('systemd to start another', sub { my $now = property($unit, 'MainPID'); $now != 0 && $now != $pid }, seconds => 60);
	wait_ready($unit);
	is(property($unit, 'NRestarts'), 1, 'one restart');
	like(inside(['journalctl', '--no-pager', '--output=cat', "UNIT=$unit"]), qr/Watchdog timeout/, '... by the watchdog');
	inside(['rm', "/run/systemd/system/$unit.d/test.conf"]);
	inside(['systemctl', 'daemon-reload']);
});

$each->('failure' => sub ($unit, $of) {
	my $pid = property($unit, 'MainPID');
	inside(['kill', '-KILL', $pid]);
	wait_until('systemd to start another', sub { my $now = property($unit, 'MainPID'); $now != 0 && $now != $pid }, seconds => 60);
	wait_ready($unit);
	pass('one that is killed is started again');
});

$each->('stop' => sub ($unit, $of) {
	my $from = time();
	inside(['systemctl', 'stop', '--quiet', $unit]);
	cmp_ok(time() - $from, '<', $stop_limit_s, "it ends within $stop_limit_s s");
	is(property($unit, 'Result'), 'success', '... well');
	is(property($unit, 'ExecMainStatus'), 0, '... with status 0');
	is(property($unit, 'ActiveState'), 'inactive', '... and is gone');
	inside(['systemctl', 'start', $unit]);
	wait_ready($unit);
});

subtest 'removal' => sub {
	is(inside([qw(dpkg --remove ipu-sim ipu-operator)], any => 1)->{status}, 0, 'the packages can be removed');
	for my $unit (sort keys %unit) {
		for my $name ($unit, sockets_of($unit)) {
			is(property($name, 'LoadState') . ' ' . property($name, 'ActiveState'), 'not-found inactive', "$name is gone");
		}
	}
	unlike(get(8080, '/health'), qr/200$/, 'nobody listens any more');
	is(inside(['pgrep', '-c', '-x', 'ipu-operator'], any => 1)->{out} || "0\n", "0\n", 'no process is left')
		if !inside(['sh', '-c', 'command -v pgrep'], any => 1)->{status};
	is(inside([qw(dpkg --purge ipu-sim ipu-operator ipuctl)], any => 1)->{status}, 0, 'and purged');
	is(inside([qw(find /etc/systemd /var/lib/systemd/deb-systemd-helper-enabled -name), 'ipu-operator*'], any => 1)->{out}, '', '... no unit is enabled any more');
	is(inside(['cat', '/etc/ipu-operator/operator.yaml']), $good, '... what the administrator wrote stays');
	is(inside(['systemctl', '--failed', '--plain', '--no-legend']), '', 'nothing is failed');
	is(inside(['sh', '-c', 'dpkg --list "ipu*" | grep ^i || true']), '', 'no package is left');
};

$system->stop(status => 0);
done_testing();
