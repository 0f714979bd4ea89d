#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Remote execution as MPI's launchers see it: `ipu-launcher rsh` and `wait` against an exec that
# lib/exec_peer.py serves. Its Pods are processes of this machine; some of them misbehave by their name.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuWire;
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(300);
my $launcher = program('ipu-launcher');
my $openssl = program_or_skip('openssl');
my $python = '/usr/bin/python3';
-x $python or plan skip_all => 'no python3 on this machine (./setup --tests)';
my $dir = test_dir();
my $account = "$dir/account";
my $is_sanitized = slurp("$ENV{TOP_BUILDDIR}/Makefile") =~ /^IPU_SANITIZE_FLAGS = *\S/m;

mkdir $account;
run([$openssl, qw(req -x509 -days 30 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=api),
	'-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', "$dir/key.pem", '-out', "$account/ca.crt"])->{status} == 0
	or die "no certificate\n";
spit("$account/token", "first\n");
spit("$account/namespace", "team-a\n");

my $peer = start('exec_peer.py', path => $python, args => ["$FindBin::Bin/lib/exec_peer.py",
	"--cert=$account/ca.crt", "--key=$dir/key.pem", "--token=$dir/token-wanted"]);
spit("$dir/token-wanted", 'first');
my %env = (KUBERNETES_SERVICE_HOST => '127.0.0.1', KUBERNETES_SERVICE_PORT => $peer->port('https'),
	IPU_SERVICEACCOUNT_DIR => $account, IPU_LAUNCHER_PATH => $launcher, IPU_WORKER_CONTAINER => undef);

sub rsh {
	my ($args, %options) = @_;
	return run([$launcher, 'rsh', @$args], name => 'rsh', %options, env => {%env, %{$options{env} // {}}});
}

sub said { return $_[0]->out // '' }

sub start_rsh {
	my ($args, %options) = @_;
	return start('rsh', path => $launcher, args => ['rsh', @$args], ports => 0,
		env => {%env, %{$options{env} // {}}});
}

my $marks = 0;
sub new_mark { return "IPU_TEST_MARK=$$-" . $marks++ }
sub is_gone {
	my ($mark, $what) = @_;
	return ok(wait_until("no process with $mark", sub { !processes_with($mark) }, while_alive => [$peer]), $what);
}

# ---- commands ----

for my $row (
	[['w-0', 'echo out; echo err >&2; exit 7'], '', 7, "out\n", "err\n", 'one word'],
	[['w-0', 'echo', '$((1+2))', ';', 'echo', '$POD'], '', 0, "3\nw-0\n", '', 'several words, a shell between'],
	[['-x', 'user@w-0', '"echo"', 'x'], '', 0, "x\n", '', "as MPICH's hydra does"],
	[['w-0', '(', 'test ! -r ./.profile || . ./.profile;', 'echo x', ')'], '', 0, "x\n", '', "as Open MPI does"],
	[[qw(-q -o BatchMode=yes -oStrictHostKeyChecking=no -l user -p 22 -Tx w-0 echo x)], '', 0, "x\n", '', "ssh's options"],
	[['-oSetEnv=MARK=a b', 'w-0', '--', 'echo', '"$MARK"'], '', 0, "a b\n", '', 'environment'],
	[['w-0', '-n', 'cat'], 'not read', 0, '', '', 'no input'],
	[['w-0', 'cat; echo end'], "line\n", 0, "line\nend\n", '', 'input and its end'],
	[['w-0.job.team-a.svc', 'echo', '$POD'], '', 0, "w-0.job.team-a.svc\n", '', 'a name with dots'],
	[['plain.job.team-a.svc', 'echo', '$POD'], '', 0, "plain\n", '', 'then without what is behind the first'],
	[['w-0', 'kill -KILL $$'], '', 137, '', '', 'a signal'],
	[['w-0', '/nonexistent'], '', 127, '', qr{/nonexistent: not found}, 'no such command'],
) {
	my ($args, $in, $status, $out, $err, $what) = @$row;
	my $done = rsh($args, stdin => $in);
	is($done->{status}, $status, "$what: exit status $status") or diag($done->{err});
	is($done->{out}, $out, "$what: output");
	ref $err ? like($done->{err}, $err, "$what: errors") : is($done->{err}, $err, "$what: errors");
}
like($peer->out, qr{^request /api/v1/namespaces/team-a/pods/w-0/exec\?command=\S+&command=session&stdin=true&stdout=true&stderr=true$}m,
	'the request, without a container');
rsh(['w-0', 'true'], env => {IPU_WORKER_CONTAINER => 'main'});
like($peer->out, qr/&container=main$/m, 'with the container that the operator named');

# ---- what can be wrong ----

for my $row (
	['gone', 255, qr{there is no Pod gone in namespace team-a: .*404}],
	['denied', 255, qr{needs get and create on pods/exec of Pod denied: .*403}],
	['unknown', 255, qr{doesn't take this Pod's service account: .*401}],
	['two', 255, qr{IPU_WORKER_CONTAINER must name one of Pod two's containers: .*choose one of: \[a b\]}],
	['strange', 255, qr{Pod strange: what came isn't a frame}],
	['busy-2', 0, qr/^$/], ['broken-1', 0, qr/^$/], ['refused-1', 0, qr/^$/], ['cut-2', 0, qr/^$/], ['late-2', 0, qr/^$/],
	['broken-99', 255, qr{^ipu-launcher: Pod broken-99: .*503 .*the kubelet is away}, '-oConnectTimeout=4'],
	['late-99', 255, qr{^ipu-launcher: Pod late-99: container not found}, '-oConnectTimeout=4'],
) {
	my ($pod, $status, $message, @options) = @$row;
	my $done = rsh([@options, $pod, 'echo', '$POD']);
	is($done->{status}, $status, "$pod: exit status $status");
	is($done->{out}, $status == 0 ? "$pod\n" : '', "$pod: " . ($status == 0 ? 'tried again' : 'given up'));
	like($done->{err}, $message, "$pod: says why");
	cmp_ok(scalar(() = $done->{err} =~ /\n/g), '<=', 1, "$pod: in one line");
}

for my $row (
	[['w-0', 'true'], {IPU_LAUNCHER_PATH => '/none/ipu-launcher'}, qr{Pod w-0 has no /none/ipu-launcher: it isn't an IPUJob's worker}],
	[['w-0', 'true'], {KUBERNETES_SERVICE_HOST => undef}, qr{this isn't a Pod}],
	[['w-0', 'true'], {KUBERNETES_SERVICE_PORT => 'x'}, qr{KUBERNETES_SERVICE_PORT}],
	[['w-0', 'true'], {IPU_SERVICEACCOUNT_DIR => "$dir/none"}, qr{no service account .*OMPI_MCA_plm_rsh_no_tree_spawn=1}],
	[['-oConnectTimeout=4', 'w-0', 'true'], {KUBERNETES_SERVICE_PORT => 1}, qr{Pod w-0: 127\.0\.0\.1:1: Connection refused}],
	[[], {}, qr/HOST is missing/], [['w-0'], {}, qr/COMMAND is missing: .*kubectl exec -it/],
	[['-Z', 'w-0', 'x'], {}, qr/no option -Z/], [['-o'], {}, qr/-o needs a value/], [['user@', 'x'], {}, qr/HOST is empty/],
	[['-oConnectTimeout=x', 'w-0', 'x'], {}, qr/-o ConnectTimeout: /], [['-oSetEnv=x', 'w-0', 'x'], {}, qr/NAME=VALUE is wanted/],
) {
	my ($args, $more, $message) = @$row;
	my $done = rsh($args, env => $more);
	is($done->{status}, 255, "@$args: status 255, as of ssh");
	like($done->{err}, $message, "@$args: says why");
}

subtest 'a token that was renewed' => sub {
	spit("$dir/token-wanted", 'second');
	spit("$account/token", 'second');
	is(rsh(['w-0', 'true'])->{status}, 0, 'is read for each attempt');
};

# ---- signals ----

for my $row ([INT => 130], [TERM => 143], [HUP => 129], [QUIT => 131], [USR1 => 138], [USR2 => 140]) {
	my ($signal, $status) = @$row;
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-0', 'ulimit -c 0; sleep 600; exit 9']);
	# A shell that hears SIGINT just before it forks waits for its child first, which has heard nothing.
	wait_until('the command to run', sub { grep { (slurp("/proc/$_/comm") // '') eq "sleep\n" } processes_with($mark) });
	$rsh->stop(signal => $signal, status => $status);
}

subtest 'a terminal that stops and goes on' => sub {
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-0', 'echo ready; exec sleep 600']);
	my ($pid) = wait_until('the command to run', sub { said($rsh) =~ /ready/ && (processes_with($mark))[0] });
	my $state = sub { (slurp("/proc/$pid/stat") // '') =~ /\) (\S)/ ? $1 : '' };
	$rsh->signal('TSTP');
	wait_until('it to stop', sub { $state->() eq 'T' });
	ok((slurp('/proc/' . $rsh->pid . '/stat') // '') !~ /\) T/, 'the near end goes on listening');
	$rsh->signal('CONT');
	wait_until('it to go on', sub { $state->() ne 'T' });
	$rsh->stop(status => 143);
};

subtest 'before there is anything to signal' => sub {
	my $rsh = start_rsh(['deaf', 'true']);
	wait_until('the request', sub { $peer->out =~ m{pods/deaf/} });
	$rsh->stop(status => 143);
};

subtest 'who ignores TERM, and one who insists' => sub {
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-0', 'trap "" TERM; echo ready; while :; do sleep 1; done']);
	wait_until('the command to run', sub { said($rsh) =~ /ready/ });
	$rsh->signal('TERM');
	sleep(0.2);
	ok($rsh->is_alive, 'goes on');
	$rsh->signal('TERM');
	wait_until('all to be ended', sub { !$rsh->is_alive }, while_alive => [$peer]);
	$rsh->stop(status => 137);
	is_gone($mark, 'until all is ended, ten seconds later');
};

# ---- when one end goes ----

subtest 'the near end is killed' => sub {
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-0', 'setsid sleep 600 & (sleep 600 &) ; echo ready; sleep 600']);
	wait_until('the command to run', sub { said($rsh) =~ /ready/ && processes_with($mark) >= 4 });
	$rsh->crash;
	is_gone($mark, 'nothing of its command is left');
};

subtest 'the far end is killed' => sub {
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-killed', 'echo ready; exec sleep 600']);
	wait_until('the command to run', sub { said($rsh) =~ /ready/ });
	kill('KILL', $peer->out =~ /session w-killed (\d+)/);
	wait_until('the near end to notice', sub { !$rsh->is_alive }, while_alive => [$peer]);
	like($rsh->err, qr/^ipu-launcher: w-killed: the session ended with status 137/, 'says so');
	$rsh->stop(status => 255);
	is_gone($mark, 'nothing of its command is left');
};

subtest 'a reader that goes' => sub {
	my $done = run(['sh', '-c', '"$0" rsh w-0 yes | head -n 2', $launcher], env => \%env);
	is($done->{out}, "y\ny\n", 'the command ends as in a pipeline');
};

sub keepers { return grep { (slurp("/proc/$_/cmdline") // '') =~ /\0rsh\0/ } processes_with($_[0]) }

subtest 'a command that leaves a daemon' => sub {
	my $mark = new_mark();
	# The mark is in the near end's environment and in the daemon's.
	my %marked = (env => {split /=/, $mark});
	my $done = rsh(["-oSetEnv=$mark", 'w-0', 'setsid sleep 600 </dev/null >/dev/null 2>&1 & echo left; exit 4'], %marked);
	is($done->{status}, 4, 'returns with its status');
	is($done->{out}, "left\n", 'and its output');
	my ($keeper) = keepers($mark);
	ok($keeper, 'something stays to keep an eye on the daemon');
	my $runs = sub { scalar grep { (slurp("/proc/$_/comm") // '') eq "sleep\n" } processes_with($mark) };
	for my $fd (0 .. 2) {
		wait_until("it to let go of descriptor $fd", sub { (readlink("/proc/$keeper/fd/$fd") // '') eq '/dev/null' });
	}
	wait_until('the daemon to run', sub { $runs->() == 1 });
	for my $n (1 .. 2) {
		my $asked = () = $peer->out =~ /command=--resume/g;
		$peer->signal('USR1');
		wait_until('another connection', sub { $asked < (() = $peer->out =~ /command=--resume/g) });
	}
	is($runs->(), 1, 'and runs on when connections are lost');
	kill('TERM', $keeper);
	is_gone($mark, 'the way to it is there again: TERM ends both');

	rsh(["-oSetEnv=$mark", 'w-0', 'setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 0'], %marked);
	($keeper) = keepers($mark);
	kill('TERM', $keeper);
	is_gone($mark, 'without that, too');

	rsh(["-oSetEnv=$mark", 'w-0', 'setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 0'], %marked);
	($keeper) = keepers($mark);
	$peer->signal('USR1');
	kill('TERM', $keeper);
	my $told = time();
	is_gone($mark, 'and TERM on the way there is kept until there is one to tell');
	cmp_ok(time() - $told, '<', 20, 'rather than left to the far end, which waits for half a minute');

	rsh(["-oSetEnv=$mark", 'w-0', 'setsid sleep 0.3 </dev/null >/dev/null 2>&1 & exit 0'], %marked);
	is_gone($mark, 'and the daemon\'s end the other');
};

# ---- bytes ----

sub proc_kib { my ($pid, $file, $name) = @_; return (slurp("/proc/$pid/$file") // '') =~ /^$name:\s+(\d+)/m ? $1 : 0 }

subtest 'much output, a slow reader' => sub {
	my $rsh_pid = open(my $from, '-|') // die "fork: $!\n";
	if (!$rsh_pid) {
		$ENV{$_} = $env{$_} for grep { defined $env{$_} } keys %env;
		{ no warnings 'exec'; exec { $launcher } $launcher, qw(rsh w-0 head -c 100000000 /dev/zero); }
		POSIX::_exit(127);
	}
	binmode($from);
	my ($got, $most, $began) = (0, 0, time());
	sleep(0.5);
	while (my $n = sysread($from, my $bytes, 1 << 20)) {
		$got += $n;
		my $rss = proc_kib($rsh_pid, 'status', 'VmRSS');
		$most = $rss if $rss > $most;
	}
	close($from);
	is($?, 0, 'its end');
	is($got, 100_000_000, 'all of it');
	note(sprintf '%.2f s, %d KiB at most', time() - $began - 0.5, $most);
	cmp_ok($most, '<', 6000, 'in little memory') if !$is_sanitized;
};

subtest 'much input' => sub {
	my $done = rsh(['w-0', 'sleep 0.3; cksum'], stdin => join('', map { chr($_ * 7 % 251) } 0 .. 3_999_999));
	is($done->{status}, 0, 'its end');
	is($done->{out}, run(['sh', '-c', 'cksum'], stdin => join('', map { chr($_ * 7 % 251) } 0 .. 3_999_999))->{out}, 'as it was sent');
};

# ---- time ----

sub write_clock {
	my ($mono_ms) = @_;
	spit("$dir/clock", '') if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!\n";
	syswrite($out, pack('a8 q<7', "\0IPUCLK1", 0, 1, $mono_ms, time() * 1000, 0, 0, 0));
	close($out);
	return;
}

subtest 'a far end that falls silent' => sub {
	write_clock(1000);
	my $mark = new_mark();
	my $rsh = start_rsh(["-oSetEnv=$mark", 'w-frozen', 'echo ready; exec sleep 600'], env => {IPU_CLOCK_PAGE => "$dir/clock"});
	wait_until('the command to run', sub { said($rsh) =~ /ready/ });
	my ($session) = $peer->out =~ /session w-frozen (\d+)/;
	kill('STOP', $session);
	write_clock(60_000);
	sleep(0.1);
	ok($rsh->is_alive, 'is waited for');
	write_clock(61_001);
	wait_until('the near end to give up', sub { !$rsh->is_alive }, while_alive => [$peer]);
	like($rsh->err, qr/w-frozen: no sign of life for 60 s/, 'for a minute');
	$rsh->stop(status => 255);
	kill('CONT', $session);
	is_gone($mark, 'and ends what it started when it can');
};

# ---- wait ----

sub wait_for { my ($hosts, @options) = @_; return run([$launcher, 'wait', '--hostfile', spit("$dir/hostfile", $hosts), @options], name => 'wait', env => \%env) }

my $done = wait_for(join '', map { "worker-$_ slots=4\n" } 0 .. 79);
is($done->{status}, 0, 'eighty workers');
like($done->{err}, qr/^ipu-launcher: all 80 workers answer, after \d+\.\d s\n\z/m, 'all answer');
is(() = $peer->out =~ /^session worker-/mg, 80, 'each was asked once');
wait_until('their sessions to end', sub { 80 == (() = $peer->out =~ /^ended worker-\d+ 0$/mg) }, while_alive => [$peer]);
is(wait_for("# comment\n\nw-0:4\nw-0 slots=2\n late-2\nbusy-3 # later\n")->{status}, 0, 'other spellings, and Pods that come late');

$done = wait_for("w-0\ngone\ndenied\nlate-98\n", '--timeout', 8);
is($done->{status}, 1, 'some that never answer');
like($done->{err}, qr/^ipu-launcher: after 8 s only 1 of 4 workers answer$/m, 'how many');
like($done->{err}, qr/^ipu-launcher: $_$/m, 'and who, and why')
	for qr/gone: there is no Pod gone.*/, qr/denied: .*needs get and create.*/, qr/late-98: Pod late-98: container not found/;
unlike($done->{err}, qr/w-0/, 'nobody else');

subtest 'progress' => sub {
	write_clock(1000);
	my $wait = start('wait', path => $launcher, ports => 0, args => ['wait', '--hostfile', spit("$dir/hostfile", "w-0\ngone\ndenied\n")],
		env => {%env, IPU_CLOCK_PAGE => "$dir/clock"});
	my $asked = () = $peer->out =~ m{pods/(?:gone|denied)/}g;
	wait_until('all to be asked', sub { $asked + 2 <= (() = $peer->out =~ m{pods/(?:gone|denied)/}g) });
	# The first words may come before the answers have.
	my ($ms, $wanted, @words) = (1000, 0);
	wait_until('a word of all answers', sub {
		@words = split /\n/, $wait->err;
		if (@words >= $wanted) {
			return 1 if @words && $words[-1] =~ /^ipu-launcher: 1 of 3 workers answer; waiting for gone and others: there is no Pod gone/;
			$wanted = @words + 1;
			write_clock($ms += 5_001);
		}
		return 0;
	});
	pass('every five seconds');
	$wait->stop(status => 143);
};

for my $row (
	[[], 2, qr/--hostfile is missing/], [['--hostfile', "$dir/none"], 2, qr{\Q$dir\E/none: No such file}],
	[['--hostfile', '/dev/null'], 2, qr/there is no host in it/], [['--hostfile', "$dir/hostfile", '--timeout', '0'], 2, qr/--timeout: /],
	[['--hostfile', "$dir/hostfile", 'x'], 2, qr/no operands/], [['--nonsense'], 2, qr/no option --nonsense/],
) {
	my ($args, $status, $message) = @$row;
	my $bad = run([$launcher, 'wait', @$args], env => \%env);
	is($bad->{status}, $status, "wait @$args: exit status $status");
	like($bad->{err}, $message, "wait @$args: says why");
}

# ---- many ----

subtest 'a hundred at once' => sub {
	my ($mark, $many) = (new_mark(), $is_sanitized ? 20 : 100);
	my $began = time();
	my @near = map { start_rsh(["-oSetEnv=$mark", "many-$_", 'echo ready; exec sleep 600']) } 1 .. $many;
	for my $rsh (@near) {
		wait_until('the command to run', sub { said($rsh) =~ /ready/ }, while_alive => [$rsh]);
	}
	note(sprintf 'all run after %.1f s', time() - $began);
	my ($rss, $pss) = (0, 0);
	for my $rsh (@near) {
		$rss += proc_kib($rsh->pid, 'smaps_rollup', 'Rss');
		$pss += proc_kib($rsh->pid, 'smaps_rollup', 'Pss');
	}
	note(sprintf 'a near end: %d KiB resident, %d KiB its share', $rss / $many, $pss / $many);
	cmp_ok($pss / $many, '<', 3072, 'at most 3 MB each') if !$is_sanitized;
	kill('KILL', map { $_->pid } @near);
	$_->crash for @near;
	is_gone($mark, 'and nothing of them is left');
};

$peer->stop(status => 143);
done_testing();
