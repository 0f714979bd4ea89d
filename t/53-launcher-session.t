#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The far end of remote execution, `ipu-launcher session`, spoken to frame by frame over pipes; and what
# runs in a Pod beside it: init and install. Remote execution as a whole is in 54-launcher-exec.t.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuWire;
use Config;
use Test::More;
use Time::HiRes qw(sleep time);

my $launcher = program('ipu-launcher');
my $dir = test_dir();

sub rss_kib {
	my ($pid) = @_;
	return (slurp("/proc/$pid/status") // '') =~ /^VmRSS:\s+(\d+)/m ? $1 : 0;
}

sub is_gone { my ($mark) = @_; return wait_until("no process with $mark", sub { !processes_with($mark) }, while_alive => []) }

# ---- commands and their ends ----

for my $row (
	['echo out; echo err >&2', 0, "out\n", "err\n", 'both outputs'],
	['exit 3', 3, '', '', 'an exit status'],
	['kill -KILL $$', 137, '', '', 'a signal that ended it'],
	['kill -TERM $$', 143, '', '', 'another'],
	['exec true', 0, '', '', 'nothing to say'],
	['echo "$MARK:$HOME"', 0, "added:$dir\n", '', 'environment, added and its own'],
	['test -t 0 || echo no terminal', 0, "no terminal\n", '', 'no terminal'],
	['ps -o sid= -o pgid= -p $$ | tr -s " " "\n" | sort -u | grep -c .', 0, "1\n", '', 'a session of its own'],
) {
	my ($command, $status, $out, $err, $what) = @$row;
	my $far = IpuWire->new(env => {HOME => $dir});
	is($far->wait_for('HELLO'), "ipu-session\x01", "$what: the hello");
	$far->shell($command, env => ['MARK=added']);
	$far->end_input;
	is_deeply([$far->finish], [$status, $status], "$what: exit status $status, told and its own");
	is($far->{out}[1], $out, "$what: standard output");
	is($far->{out}[2], $err, "$what: standard error");
	is_deeply([@{$far->{closed}}[1, 2]], [1, 1], "$what: both ended");
	ok(!$far->saw('LEFT'), "$what: nothing left");
	is($far->said, '', "$what: nothing to complain about");
}

for my $row (
	[['/nonexistent/program', 'x'], 127, qr{/nonexistent/program: No such file}, 'no such program'],
	[['/etc/passwd'], 126, qr/Permission denied/, 'no program'],
) {
	my ($args, $status, $message, $what) = @$row;
	my $far = IpuWire->new;
	$far->start_command($args);
	my $why = $far->wait_for('FAILED');
	is(ord $why, $status, "$what: status $status");
	like(substr($why, 1), $message, "$what: says why");
	is($far->wait_end, $status, "$what: its own status");
}

subtest 'input and its half-close' => sub {
	my $far = IpuWire->new;
	$far->start_command(['cat']);
	$far->input("one\n");
	$far->wait_out(1, qr/one/);
	ok(!$far->saw('EXITED'), 'the command waits for more');
	$far->input("two\n");
	$far->end_input;
	is_deeply([$far->finish], [0, 0], 'and ends with its input');
	is($far->{out}[1], "one\ntwo\n", 'all of it');
};

subtest 'input that nobody reads' => sub {
	my $far = IpuWire->new;
	$far->shell('exec 0<&-; echo closed; exec sleep 600');
	$far->wait_out(1, qr/closed/);
	$far->input('x' x 1000);
	is(ord $far->wait_for('CLOSE'), 0, 'the near end is told');
	$far->tell_far('END');
	$far->finish;
};

subtest 'output that nobody wants' => sub {
	my $far = IpuWire->new(auto_credit => 0);
	$far->start_command(['yes']);
	$far->wait_out(1, qr/y/);
	$far->tell_far(CLOSE => pack('C', 1));
	is_deeply([$far->finish], [141, 141], 'the command gets SIGPIPE');
};

# ---- signals ----

for my $row (
	[INT => 130], [TERM => 143], [HUP => 129], [QUIT => 131], [USR1 => 138], [KILL => 137],
) {
	my ($name, $status) = @$row;
	my ($signum) = grep { (split ' ', $Config::Config{sig_name})[$_] eq $name } 0 .. 31;
	my $far = IpuWire->new;
	# Ready is who was made last: a shell's child mustn't come to be while the signal is on its way.
	$far->shell(q{ulimit -c 0; sh -c 'echo ready; exec sleep 600'; exit 9});
	$far->wait_out(1, qr/ready/);
	$far->tell_far(SIGNAL => pack('N', $signum));
	is_deeply([$far->finish], [$status, $status], "SIG$name reaches the whole process group");
}

subtest 'stopping and going on' => sub {
	my $far = IpuWire->new;
	$far->shell('echo ready; read line; echo "got $line"');
	my $pid = unpack('N', $far->wait_for('STARTED'));
	$far->wait_out(1, qr/ready/);
	$far->tell_far(SIGNAL => pack('N', 19));
	wait_until('it to be stopped', sub { (slurp("/proc/$pid/stat") // '') =~ /\) T/ }, while_alive => []);
	$far->input("x\n");
	$far->tell_far(SIGNAL => pack('N', 18));
	$far->finish;
	like($far->{out}[1], qr/got x/, 'it went on');
};

# ---- when the near end goes ----

my %ways = (
	'the end of the input' => sub { close($_[0]{to}) },
	'both ends closed' => sub { $_[0]->go_away },
	'asked to end' => sub { $_[0]->tell_far('END') },
	'TERM to the session' => sub { kill('TERM', $_[0]->pid) },
	'something else than frames' => sub { $_[0]->write_raw("GET / HTTP/1.1\r\n\r\n") },
);
for my $way (sort keys %ways) {
	my $mark = "IPU_TEST_MARK=$$-" . int(time() * 1e6);
	my $far = IpuWire->new;
	# A group, a session and a daemon of its own; one that ignores TERM, one that is stopped.
	$far->shell('sleep 600 & setsid sleep 600 & (setsid sh -c "sleep 600 & exec sleep 600" </dev/null >/dev/null 2>&1 &)
		(trap "" TERM; while :; do sleep 600; done) & sleep 600 & kill -STOP $!; echo ready; wait',
		env => [$mark], grace_ms => 300);
	$far->wait_out(1, qr/ready/);
	wait_until('all to run', sub { processes_with($mark) >= 8 }, while_alive => []);
	$ways{$way}->($far);
	$far->wait_end;
	is_deeply([processes_with($mark)], [], "$way: no process is left behind");
}

subtest 'a session that is killed itself' => sub {
	my $mark = "IPU_TEST_MARK=$$-killed";
	my $far = IpuWire->new;
	$far->shell('exec sleep 600', env => [$mark]);
	$far->wait_for('STARTED');
	kill('KILL', $far->pid);
	is($far->wait_end, 137, 'killed');
	ok(is_gone($mark), 'its command went with it');
};

subtest 'before the start' => sub {
	my $far = IpuWire->new;
	$far->wait_for('HELLO');
	close($far->{to});
	is($far->wait_end, 0, 'a near end that only wanted to know whether somebody is there');
};

subtest 'daemons' => sub {
	my $mark = "IPU_TEST_MARK=$$-daemon";
	my $far = IpuWire->new;
	$far->shell('setsid sh -c "echo daemon; exec sleep 600 >/dev/null 2>&1" </dev/null & sleep 0.1; exit 5', env => [$mark]);
	is(unpack('N', $far->wait_for('EXITED')), 5, 'the command has ended');
	$far->wait_for('LEFT');
	is($far->{out}[1], "daemon\n", 'with what its daemon said before it closed its output');
	ok(!$far->saw('ENDED'), 'but not all of it');
	is(scalar(processes_with($mark)), 1, 'its daemon runs on');
	kill('TERM', processes_with($mark));
	$far->wait_for('ENDED');
	is($far->wait_end, 5, "and when it has ended the session ends, with the command's status");
};

subtest 'daemons whose near end comes back' => sub {
	my $mark = "IPU_TEST_MARK=$$-resumed";
	write_clock(1000);
	my %clock = (env => {IPU_CLOCK_PAGE => "$dir/clock"});
	my $far = IpuWire->new(%clock);
	$far->shell('setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 5', env => [$mark]);
	my $id = $far->wait_for('LEFT');
	like($id, qr/^[0-9a-f]{32}$/, 'the session has a name');
	$far->go_away;
	my $again;
	for my $n (1 .. 2) {
		$again = IpuWire->new(args => ['--resume', $id]);
		is($again->wait_for('HELLO'), "ipu-session\x01", "connection $n: the hello");
		is($again->wait_for('LEFT'), $id, "connection $n: the same session");
		next if $n == 2;
		# It comes back before the first one's end has been seen.
		my $third = IpuWire->new(args => ['--resume', $id]);
		$third->wait_for('LEFT');
		is($again->wait_end, 0, 'one connection at a time');
		$third->go_away;
		is($third->wait_end, 0, 'a connection that is lost needs nobody');
	}
	is(scalar(processes_with($mark)), 1, 'the daemon never noticed');
	$again->tell_far('END');
	$again->wait_for('ENDED');
	is($again->wait_end, 0, 'the connection');
	is($far->wait_end, 5, 'and the session have ended');
	is_deeply([processes_with($mark)], [], 'and the daemon');

	$again = IpuWire->new(args => ['--resume', $id]);
	is($again->wait_end, 1, 'a session that has gone');
	like($again->said, qr/there is no session $id/, 'says so');
};

subtest 'daemons whose near end stays away' => sub {
	my $mark = "IPU_TEST_MARK=$$-forsaken";
	write_clock(1000);
	my $far = IpuWire->new(env => {IPU_CLOCK_PAGE => "$dir/clock"});
	$far->shell('setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 5', env => [$mark]);
	$far->wait_for('LEFT');
	my $open = sub { scalar(() = glob '/proc/' . $far->pid . '/fd/*') };
	my $before = $open->();
	$far->go_away;
	wait_until('the session to close its end', sub { $open->() == $before - 2 }, while_alive => []);
	write_clock(30_999);
	sleep(0.1);
	is(scalar(processes_with($mark)), 1, 'live for half a minute');
	write_clock(31_001);
	is($far->wait_end, 5, 'no longer');
	is_deeply([processes_with($mark)], [], 'none is left');
};

# ---- time ----

sub write_clock {
	my ($mono_ms) = @_;
	spit("$dir/clock", '') if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!\n";
	syswrite($out, pack('a8 q<7', "\0IPUCLK1", 0, 1, $mono_ms, 1_700_000_000_000, 0, 0, 0));
	close($out);
	return;
}

subtest 'silence' => sub {
	my $mark = "IPU_TEST_MARK=$$-silent";
	write_clock(1000);
	my $far = IpuWire->new(env => {IPU_CLOCK_PAGE => "$dir/clock"}, auto_credit => 0);
	$far->shell('exec cat', env => [$mark]);
	$far->wait_for('STARTED');
	write_clock(12_000);
	$far->wait_for('PING');
	$far->input('x');
	$far->wait_out(1, qr/x/);
	for my $ms (31_000, 51_000, 71_000) {
		my $pings = $far->saw('PING');
		write_clock($ms);
		wait_until('another ping', sub { $far->take; $far->saw('PING') > $pings }, while_alive => []);
	}
	is(scalar(processes_with($mark)), 1, 'silence for less than a minute is nothing');
	write_clock(72_001);
	wait_until('the command to be ended', sub { !processes_with($mark) }, while_alive => []);
	is($far->wait_end, 143, 'a minute of it ends the command');
};

# ---- bytes ----

subtest 'large output and a slow reader' => sub {
	my $far = IpuWire->new(auto_credit => 0);
	$far->start_command(['head', '-c', 100_000_000, '/dev/zero']);
	wait_until('the window to be full', sub { $far->take; length $far->{out}[1] >= 262_144 }, while_alive => []);
	my $before = rss_kib($far->pid);
	sleep(0.3);
	$far->take;
	is(length $far->{out}[1], 262_144, 'no more than its credit');
	my ($got, $most, $began) = (0, 0, time());
	while ($got < 100_000_000) {
		my $n = length $far->{out}[1];
		$got += $n;
		$far->{out}[1] = '';
		$far->tell_far(CREDIT => pack('C N', 1, $n)) if $n > 0;
		my $rss = rss_kib($far->pid);
		$most = $rss if $rss > $most;
		$far->take // sleep(0.0005);
	}
	is($got, 100_000_000, 'all of it');
	cmp_ok($most, '<', 6000, "with $most KiB at most") if !sanitized();
	is_deeply([$far->finish], [0, 0], 'and its end');
	note(sprintf '%.2f s', time() - $began);
};

sub sanitized { return slurp("$ENV{TOP_BUILDDIR}/Makefile") =~ /^IPU_SANITIZE_FLAGS = *\S/m }

subtest 'many small pieces' => sub {
	my $far = IpuWire->new;
	$far->start_command(['perl', '-e', '$| = 1; for (1 .. 20000) { syswrite(STDOUT, "x"); syswrite(STDERR, "y") if $_ % 10 == 0 }']);
	$far->finish;
	is_deeply([map { length } @{$far->{out}}[1, 2]], [20_000, 2000], 'arrive all');
};

subtest 'much input' => sub {
	my $far = IpuWire->new;
	$far->shell('wc -c');
	my ($sent, $credit) = (0, 262_144);
	while ($sent < 20_000_000) {
		my $n = $credit < 16_384 ? $credit : 16_384;
		$far->input('z' x $n) if $n > 0;
		$sent += $n;
		$credit -= $n;
		$far->take;
		for my $frame (splice @{$far->{seen}}) {
			$credit += unpack('x N', $frame->[1]) if $frame->[0] eq 'CREDIT';
		}
	}
	$far->end_input;
	$far->finish;
	is($far->{out}[1], "$sent\n", 'arrives all, as fast as credit comes');
};

for my $row (
	[sub { $_[0]->input('x' x 16_384) for 1 .. 24; 1 }, 'more input than there is credit for'],
	[sub { $_[0]->tell_far(CREDIT => pack('C N', 1, 1)) }, 'more credit than there is a window', qr/^ipu-launcher: session: more credit than a stream's window has$/],
	[sub { $_[0]->shell('true') }, 'a second start'],
	[sub { $_[0]->tell_far('EXITED', pack('N', 0)) }, "a frame of the far end's"],
	[sub { $_[0]->write_raw("\x05\xff\xff\xff") }, 'a frame that is too large'],
) {
	my ($do, $what, $words) = @$row;
	my $mark = "IPU_TEST_MARK=$$-" . int(time() * 1e6);
	my $far = IpuWire->new;
	$far->shell('exec sleep 600', env => [$mark]);
	$far->wait_for('STARTED');
	$do->($far);
	is($far->wait_end, 143, "$what ends the session");
	like($far->said, $words // qr/^ipu-launcher: session: /, "$what: says so");
	is_deeply([processes_with($mark)], [], "$what: no process is left behind");
}

# ---- init ----

# Until it catches TERM.
sub wait_for_init {
	my ($pid) = @_;
	wait_until('init to catch signals', sub {
		my ($caught) = (slurp("/proc/$pid/status") // '') =~ /^SigCgt:\s*(\w+)/m or return 0;
		return (slurp("/proc/$pid/comm") // '') =~ /^ipu-launcher/ && hex(substr($caught, -8)) & 1 << 14;
	});
	return;
}

for my $signal (qw(TERM INT)) {
	my $init = start('ipu-launcher', args => ['init'], ports => 0);
	wait_for_init($init->pid);
	$init->stop(signal => $signal, status => 0);
}

subtest 'init for a time' => sub {
	write_clock(1000);
	my $init = start('ipu-launcher', args => [qw(init --for 30)], ports => 0, env => {IPU_CLOCK_PAGE => "$dir/clock"});
	wait_for_init($init->pid);
	write_clock(30_000);
	sleep(0.1);
	ok($init->is_alive, 'waits');
	write_clock(31_001);
	wait_until('init to end', sub { !$init->is_alive }, while_alive => []);
	$init->stop(status => 0);
};

SKIP: {
	my $unshare = '/usr/bin/unshare';
	skip 'no PID namespace here', 6
		if !-x $unshare || run([$unshare, qw(--user --map-root-user --pid --fork --mount-proc true)])->{status} != 0;
	my $mark = "IPU_TEST_MARK=$$-init";
	# PID 1 of a world of its own; others come into it as an exec does.
	my $pod = start('unshare', path => $unshare, ports => 0, env => {split /=/, $mark},
		args => [qw(--user --map-root-user --pid --fork --kill-child --mount-proc), $launcher, qw(init --grace 1)]);
	my ($pid) = wait_until('init to run', sub { (slurp('/proc/' . $pod->pid . '/task/' . $pod->pid . '/children') // '') =~ /(\d+)/ ? $1 : 0 });
	wait_for_init($pid);
	my @enter = ('nsenter', '-t', $pid, qw(--user --preserve-credentials --pid --mount));
	my $done = run([@enter, 'sh', '-c', '(sleep 0.05 &) ; (sleep 600 >/dev/null 2>&1 &)
		(trap "" TERM HUP; while :; do sleep 600; done >/dev/null 2>&1 &) ; echo ready'],
		env => {split /=/, $mark});
	is($done->{out}, "ready\n", 'processes in a Pod');
	my $zombies = sub { grep { (slurp("/proc/$_/stat") // '') =~ /\) Z/ }
		map { m{^/proc/(\d+)$} } grep { (slurp("$_/stat") // '') =~ /\) \S $pid / } glob '/proc/[0-9]*' };
	wait_until('orphans to be reaped', sub { !$zombies->() });
	pass('orphans are reaped');
	cmp_ok(scalar(processes_with($mark)), '>=', 5, 'some live on');
	my $began = time();
	kill('TERM', $pid);
	wait_until('init to end', sub { !$pod->is_alive }, while_alive => []);
	$pod->stop(status => 0);
	cmp_ok(time() - $began, '>=', 0.9, 'who ignores TERM and HUP has its grace period');
	is_deeply([processes_with($mark)], [], 'and nothing is left');
}

# ---- install ----

subtest 'install' => sub {
	my $to = "$dir/ipu-launcher";
	my $old = umask(077);
	is(run([$launcher, 'install', $to])->{status}, 0, 'installs itself');
	umask($old);
	ok(slurp($to) eq slurp($launcher), 'all of it');
	is((stat $to)[2] & 07777, 0755, 'for everyone to run');
	is(run([$to, 'install', $to])->{status}, 0, 'over itself');
	is(run([$to, '--version'])->{status}, 0, 'and it runs');
	is_deeply([glob "$to.*"], [], 'nothing else is there');
	my $done = run([$launcher, 'install', "$dir/none/ipu-launcher"]);
	is($done->{status}, 1, 'where it can not');
	like($done->{err}, qr{install: \Q$dir\E/none/ipu-launcher\.new: No such file}, 'it says so');
};

for my $row (
	[['install'], qr/exactly one PATH/], [['init', '--for', '0'], qr/--for: /], [['init', '--for'], qr/--for needs a value/],
	[['init', 'x'], qr/no operands/], [['init', '--nonsense'], qr/no option --nonsense/], [['session', 'x'], qr/no operands/],
	[['session', '--resume', '../x'], qr/that is no session's name/],
) {
	my ($args, $message) = @$row;
	my $done = run([$launcher, @$args]);
	is($done->{status}, 2, "@$args: exit status 2");
	like($done->{err}, $message, "@$args: says so");
}

done_testing();
