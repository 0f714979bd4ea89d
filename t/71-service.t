#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-operator as a service: what it tells the service manager and when, sockets that outlive it, the
# watchdog, its end in time, and the units that are installed.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::INET ();
use IpuTest;
use IpuTree qw(top_srcdir);
use POSIX qw(WNOHANG);
use ServiceManager;
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(180);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--controllers=1', '--agents=4']);
my $kubeconfig = "$folder/kubeconfig";
my @settings = map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.listen=127.0.0.1:0',
	'proxy.tlsListen=127.0.0.1:0', 'health.listen=127.0.0.1:0', 'metrics.listen=127.0.0.1:0',
	'webhook.listen=127.0.0.1:0', 'controllers=127.0.0.1:' . $sim->port('vipu0');
my $stop_limit_s = 5;

sub arguments (@more) { return [@settings, '--kubeconfig', $kubeconfig, @more] }

# Ends it, and how long that took.
sub stop_in_time ($daemon, $what) {
	my $from = time();
	$daemon->stop(status => 0, seconds => 20);
	cmp_ok(time() - $from, '<', $stop_limit_s, "$what: it ends within $stop_limit_s s");
	return;
}

for my $abstract (0, 1) {
	subtest $abstract ? 'an abstract socket' : 'a socket with a path' => sub {
		my $manager = ServiceManager->new(abstract => $abstract);
		my $daemon = $manager->start('ipu-operator', args => arguments(), watchdog_ms => 400);
		my $first = $manager->hear(qr/./);
		is($first, 'READY=1', 'READY=1 comes first');
		like($manager->hear(qr/^STATUS=leads/), qr/jobs: 0/, 'the status counts jobs');
		$manager->hear(qr/^STATUS=leads.*; ready$/);
		my $beats = sub { [map { $_->{at} } grep { $_->{text} eq "WATCHDOG=1\n" } $manager->said] };
		wait_until('signs of life', sub { @{$beats->()} >= 4 });
		$daemon->signal('STOP');
		my $silent_from = time();
		sleep(0.8); # Nothing can be waited for: that nothing comes is the point.
		is(scalar(grep { $_ > $silent_from + 0.2 } @{$beats->()}), 0, 'a process that stands still gives none');
		$daemon->signal('CONT');
		my $before = @{$beats->()};
		wait_until('signs of life once more', sub { @{$beats->()} > $before });
		$manager->forget;
		stop_in_time($daemon, 'idle');
		my @last = grep { !/^WATCHDOG/ } $manager->lines;
		is($last[0], 'STOPPING=1', 'STOPPING=1 when it ends');
		is(scalar(grep { $_ eq 'READY=1' } @last), 0, '... and not READY again');
	};
}

subtest 'a watchdog of somebody else' => sub {
	my $manager = ServiceManager->new;
	my $daemon = $manager->start('ipu-operator', args => arguments(), watchdog_ms => 100, watchdog_pid => 1);
	$manager->hear(qr/^STATUS=leads.*ready/);
	is(scalar(grep { /^WATCHDOG/ } $manager->lines), 0, 'no WATCHDOG=1');
	$daemon->stop(status => 0);
};

subtest 'nobody reachable' => sub {
	my $dead = spit(test_dir() . '/dead', <<'END');
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
	my $manager = ServiceManager->new;
	my $daemon = $manager->start('ipu-operator', ports => 0, args => [@settings, '--kubeconfig', $dead]);
	is($manager->hear(qr/./), 'READY=1', 'it serves what it can, and is READY');
	like($manager->hear(qr/^STATUS=.*not ready: ./), qr/^STATUS=follows nobody yet/, 'the status says what is missing');
	wait_until('the reason', sub { grep { /^STATUS=.*not ready: leadership: .*127\.0\.0\.1/ } $manager->lines });
	stop_in_time($daemon, 'without an API server');
};

# A plugin that tells what it was given.
subtest 'what a credential plugin inherits' => sub {
	my $told = test_dir() . '/plugin.told';
	my $plugin = spit(test_dir() . '/plugin', <<"END");
#!/bin/sh
{ env; for fd in /proc/self/fd/*; do readlink "\$fd"; done; } >$told.new; mv $told.new $told
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
END
	chmod 0755, $plugin;
	my $server = slurp($kubeconfig) =~ /server: "?([^"\s]+)/ ? $1 : die "no server in the simulator's kubeconfig\n";
	my $ca = slurp($kubeconfig) =~ /^(\s+certificate-authority\S*: .*)$/m ? "\n$1" : '';
	my $config = spit(test_dir() . '/exec', <<"END");
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster:
    server: "$server"$ca
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: $plugin, interactiveMode: Never}
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
	my $manager = ServiceManager->new;
	my $port = $manager->listen_for('proxy');
	my $daemon = $manager->start('ipu-operator', ports => 0, watchdog_ms => 60000,
		args => [@settings, '--kubeconfig', $config]);
	wait_until('the plugin to run', sub { -e $told });
	my $text = slurp($told);
	unlike($text, qr/^(?:NOTIFY_SOCKET|LISTEN_\w+|WATCHDOG_\w+)=/m, 'no variable of the service manager');
	my ($inode) = readlink('/proc/self/fd/' . fileno $manager->{listening}{proxy}) =~ /(socket:\[\d+\])/;
	unlike($text, qr/\Q$inode\E/, 'not the listening socket');
	$daemon->stop(status => 0);
};

subtest 'sockets that are no good' => sub {
	for my $row (
		[['proxy'], {names => 'prxoy'}, [], qr/LISTEN_FDNAMES: "prxoy": must be proxy, partitions, webhook, health or metrics/],
		[['proxy', 'webhook'], {}, [], qr/LISTEN_FDNAMES: "webhook": .*roles/],
		[['proxy'], {}, ['--set', 'proxy.listen='], qr/LISTEN_FDNAMES: "proxy": .*proxy\.listen is empty/],
	) {
		my ($listeners, $option, $arguments, $message) = @$row;
		my $manager = ServiceManager->new;
		$manager->listen_for($_) for @$listeners;
		my $daemon = $manager->start('ipu-operator', ports => 0, args => arguments(@$arguments), %$option);
		wait_until('its end', sub { !$daemon->is_alive }, while_alive => []);
		like($daemon->err, $message, "told: $message");
		$daemon->stop(status => 2);
		is(scalar(grep { $_ eq 'READY=1' } $manager->lines), 0, '... and never READY');
	}
	my $manager = ServiceManager->new;
	my $port = $manager->listen_for('proxy');
	shutdown($manager->{listening}{proxy}, 2);
	my $daemon = $manager->start('ipu-operator', ports => 0, args => arguments());
	wait_until('its end', sub { !$daemon->is_alive }, while_alive => []);
	like($daemon->err, qr/LISTEN_FDS: descriptor 3 \("proxy"\) must be a TCP socket that listens/, 'one that does not listen');
	$daemon->stop(status => 2);
};

# Asks from another process, without a pause, until told to stop; what it saw.
sub ask_on ($port, $path) {
	pipe(my $in, my $out) or die "pipe: $!\n";
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		my ($stop, %seen) = (0);
		$SIG{TERM} = sub { $stop = 1 };
		alarm(0);
		until ($stop) {
			my $answer = http(GET => "http://127.0.0.1:$port$path", seconds => 60);
			$seen{$answer->{status} == 599 ? "599 $answer->{content}" : $answer->{status}}++;
		}
		print {$out} json_encode(\%seen);
		close $out;
		POSIX::_exit(0);
	}
	close $out;
	return sub {
		kill 'TERM', $pid;
		my $text = do { local $/; <$in> };
		waitpid $pid, 0;
		return json_decode($text);
	};
}

subtest 'a restart with sockets of the service manager' => sub {
	my $manager = ServiceManager->new;
	my %port = map { $_ => $manager->listen_for($_) } qw(proxy health partitions);
	my $daemon = $manager->start('ipu-operator', args => arguments());
	is($daemon->port('proxy'), $port{proxy}, 'proxy listens on the given socket');
	is($daemon->port('proxy-tls'), $port{partitions}, '... and partitions');
	is(http(GET => "http://127.0.0.1:$port{health}/healthz")->{status}, 200, '... and health');
	my @askers = map { ask_on($port{proxy}, '/stats') } 1 .. 3;
	for my $round (1 .. 3) {
		sleep(0.1);
		stop_in_time($daemon, "round $round");
		$manager->forget;
		$daemon = $manager->start('ipu-operator', args => arguments());
		$manager->hear(qr/^READY=1/);
	}
	for my $asker (@askers) {
		my $seen = $asker->();
		cmp_ok($seen->{200} // 0, '>', 10, "answered ($seen->{200})");
		is_deeply([grep { $_ ne '200' } sort keys %$seen], [], '... and nothing else happened');
	}
	$daemon->stop(status => 0);
};

subtest 'the units' => sub {
	my $build = $ENV{TOP_BUILDDIR};
	my $units = test_dir() . '/units';
	mkdir $units;
	for my $path (glob(top_srcdir() . '/etc/systemd/*.socket'), "$build/etc/systemd/ipu-operator.service") {
		my $text = slurp($path) // die "$path: $!\n";
		$text =~ s{^ExecStart=\S+}{"ExecStart=" . program('ipu-operator')}me;
		spit("$units/" . ($path =~ s{.*/}{}r), $text);
	}
	is(scalar(() = glob "$units/*"), 4, 'a service and three sockets');
	my $code = slurp(top_srcdir() . '/src/daemon/sockets.c');
	for my $path (glob "$units/*.socket") {
		my ($name) = slurp($path) =~ /^FileDescriptorName=(.*)$/m;
		like($code, qr/\{"\Q$name\E", /, "the daemon knows a socket called $name");
	}
	my ($analyze) = grep { -x } '/usr/bin/systemd-analyze', '/bin/systemd-analyze';
SKIP: {
		skip 'no systemd-analyze on this machine (./setup --tests)', 2 if !$analyze;
		my $verified = run([$analyze, 'verify', '--man=no', glob "$units/*"]);
		# Known since systemd 254; older ones leave them out and say so.
		my @words = grep { !/Unknown key.*'Restart(?:Steps|MaxDelaySec)'/ } split /\n/, $verified->{err};
		is_deeply([grep { m{\Q$units\E|ipu-operator} } @words], [], 'systemd-analyze verify finds nothing');
		my $judged = run([$analyze, 'security', '--offline=true', '--threshold=20', '--no-pager',
			"$units/ipu-operator.service"]);
		is($judged->{status}, 0, 'an exposure of 2.0 or less')
			or diag(join "\n", grep { /Overall|✗/ } split /\n/, $judged->{out});
	}
};

$sim->stop(status => 0);
done_testing();
