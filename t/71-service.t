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
use MIME::Base64 qw(decode_base64);
use POSIX qw(WNOHANG);
use ServiceManager;
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(400);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--controllers=2', '--agents=4', '--pod-run-ms=0']);
my $kubeconfig = "$folder/kubeconfig";
my @settings = map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.listen=127.0.0.1:0',
	'proxy.tlsListen=127.0.0.1:0', 'health.listen=127.0.0.1:0', 'metrics.listen=127.0.0.1:0',
	'webhook.listen=127.0.0.1:0', 'controllers=127.0.0.1:' . $sim->port('vipu0');
my $stop_limit_s = 5;

sub arguments (@more) { return [@settings, '--kubeconfig', $kubeconfig, @more] }

# Ends it, and how long that took by its own log.
sub stop_in_time ($daemon, $what) {
	$daemon->stop(status => 0, seconds => 20);
	my ($ms) = $daemon->err =~ /daemon: stopped: ms=(\d+)$/m;
	cmp_ok($ms // 'inf', '<', 1000 * $stop_limit_s, "$what: it ends within $stop_limit_s s");
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
		wait_until('it to stand still', sub { (slurp('/proc/' . $daemon->pid . '/stat') // '') =~ /\) T / });
		my $before = @{$beats->()};
		sleep(0.8); # Nothing can be waited for: that nothing comes is the point.
		is(scalar @{$beats->()}, $before, 'a process that stands still gives none');
		$daemon->signal('CONT');
		wait_until('signs of life once more', sub { @{$beats->()} > $before });
		$manager->forget;
		stop_in_time($daemon, 'idle');
		my @last = grep { !/^WATCHDOG/ } $manager->lines;
		is($last[0], 'STOPPING=1', 'STOPPING=1 when it ends');
		is(scalar(grep { $_ eq 'READY=1' } @last), 0, '... and not READY again');
	};
}

# Nobody takes what it says: a manager that is gone, or that doesn't get round to reading.
subtest 'a manager that is gone' => sub {
	my $manager = ServiceManager->new;
	my $daemon = $manager->start('ipu-operator', args => arguments(), watchdog_ms => 400);
	$manager->hear(qr/^STATUS=leads.*; ready$/);
	my $used_s = sub { my @f = split ' ', slurp('/proc/' . $daemon->pid . '/stat') =~ s/.*\) //r; return ($f[11] + $f[12]) / 100 };
	close $manager->{ear};
	my $before = $used_s->();
	sleep(2); # The measure is of a time.
	cmp_ok($used_s->() - $before, '<', 0.2, 'signs of life that nobody takes cost it nothing');
	stop_in_time($daemon, 'without a manager');
};

# What the status says of who neither leads nor follows.
subtest 'roles without a Lease' => sub {
	for my $row (['webhook', 'answers webhooks'], ['node', 'tells of its node'], ['webhook,node', 'answers webhooks, tells of its node']) {
		my ($roles, $words) = @$row;
		my $manager = ServiceManager->new;
		my $daemon = $manager->start('ipu-operator', ports => 0,
			args => arguments('--roles', $roles, '--set', 'node.name=nobody', '--set', 'webhook.listen='));
		like($manager->hear(qr/^STATUS=/), qr/^STATUS=\Q$words\E; /, $roles);
		$daemon->stop(status => 0);
	}
};

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
		cmp_ok($seen->{200} // 0, '>=', 3, "answered ($seen->{200})");
		is_deeply([grep { $_ ne '200' } sort keys %$seen], [], '... and nothing else happened');
	}
	$daemon->stop(status => 0);
};

my $token = slurp("$folder/token");
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => {authorization => "Bearer $token"},
		map { (json => $_) } @json);
}

sub make_job ($name) {
	my $answer = api(POST => $jobs, {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => $name},
		spec => {jobInstances => 1, ipusPerJobInstance => '4',
			workers => {template => {spec => {containers => [{name => 'w', image => 'x'}]}}}}});
	return is($answer->{status}, 201, "job $name") || diag($answer->{content});
}

sub job_status ($name) { return api(GET => "$jobs/$name")->{json}{status} // {} }

# What it says to a SIGHUP, from RELOADING on.
sub reload ($manager, $daemon) {
	$manager->forget;
	$daemon->signal('HUP');
	$manager->hear(qr/^READY=1/);
	return $manager->lines;
}

subtest 'reloading' => sub {
	my $file = test_dir() . '/operator.yaml';
	my ($first, $second) = map { '127.0.0.1:' . $sim->port($_) } qw(vipu0 vipu1);
	my $write = sub ($text) { spit("$file.new", "operatorNamespace: ipu-operator\n$text"); rename "$file.new", $file };
	$write->("controllers: $first\npolicy: {maxIpus: 0}\n");
	my $manager = ServiceManager->new;
	my $daemon = $manager->start('ipu-operator', args => ['--config', $file, '--kubeconfig', $kubeconfig,
		map { ('--set', $_) } grep { /listen/i } @settings]);
	my $total = sub {
		my $sum = http(GET => $daemon->url('proxy', '/stats'))->{json}{total};
		return ($sum->{available} // -1) + ($sum->{used} // -1);
	};
	wait_until('one controller', sub { $total->() == 16 });
	make_job('held');
	wait_until('the policy to hold it', sub { (job_status('held')->{lastMessage} // '') =~ /of its 0 IPUs|may have 0/ });

	$write->("controllers: $second\npolicy: {maxIpus: 64}\n  log: {level: 6}\n");
	my @said = reload($manager, $daemon);
	is($said[0], 'RELOADING=1', 'a bad file: RELOADING=1 first');
	my ($clock) = ($said[1] // '') =~ /^MONOTONIC_USEC=(\d+)$/;
	ok(defined $clock && abs($clock / 1e6 - Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC())) < 60,
		'... with the time') or diag("@said");
	ok((grep { /^STATUS=.*the configuration stays as it was: .*operator\.yaml:4:/ } @said), '... and the status says where it is bad')
		or diag(join "\n", @said);
	like($daemon->err, qr/ERROR daemon: the configuration stays as it was: .*operator\.yaml:4:\d+: /, '... as does the log');
	is($total->(), 16, '... and it is as it was');

	$write->("controllers: $second\npolicy: {maxIpus: many}\nlog: {level: 9}\nnonsense: 1\n");
	my $before = length $daemon->err;
	@said = reload($manager, $daemon);
	my @told = grep { /ERROR/ } split /\n/, substr($daemon->err, $before);
	is_deeply([map { /ERROR daemon: the configuration stays as it was: .*operator\.yaml:(\d+):/ ? $1 : $_ } @told], [3, 4, 5],
		'a file with three faults: the log tells each, and where') or diag(join "\n", @told);
	ok((grep { /^STATUS=.*the configuration stays as it was for 3 faults, the first: .*operator\.yaml:3:/ } @said),
		'... the status the first, and how many there are') or diag(join "\n", @said);

	# systemd takes no status that isn't UTF-8, wherever a long one is cut.
	for my $shift (0, 1) {
		$write->('x' x $shift . 'ä' x 150 . ": 1\n");
		my ($status) = grep { /^STATUS=.*the configuration stays as it was/ } reload($manager, $daemon);
		ok(defined $status && utf8::decode(my $copy = $status), "a long one is UTF-8, with the cut at another place: $shift");
	}

	$write->("controllers: '$first,$second'\npolicy: {maxIpus: -1}\nworker: {hostNetwork: false, rdmaNetwork: fabric/rdma-net}\nlog: {level: 5, format: json}\nproxy: {details: false}\n");
	@said = reload($manager, $daemon);
	is_deeply([map { /^(RELOADING|READY)/ } @said], [qw(RELOADING READY)], 'a good file: both words, in order');
	ok(!(grep { /former/ } @said), '... and nothing to complain of');
	wait_until('the second controller', sub { $total->() == 32 });
	wait_until('the job that was held', sub { (job_status('held')->{launcherStatus} // '') eq 'Running' });
	my $pod = api(GET => '/api/v1/namespaces/default/pods/held-worker-0')->{json};
	is($pod->{metadata}{annotations}{'k8s.v1.cni.cncf.io/networks'}, 'fabric/rdma-net', 'what its Pod is made by counts too');
	ok(!$pod->{spec}{hostNetwork}, '... all of it');
	my ($what) = grep { /read again/ } split /\n/, $daemon->err;
	like(json_decode($what // '{}')->{msg} // '', qr/changed=controllers, worker\.hostNetwork, worker\.rdmaNetwork, policy\.maxIpus, log\.level, log\.format$/,
		'the log, as JSON from then on, names what has changed');
	like($daemon->err, qr/counts from the next restart: proxy\.details/, '... and what waits for the next restart');
	is(http(GET => $daemon->url('proxy', '/queue'))->{status}, 200, '... which it does');
	unlink $file;
	reload($manager, $daemon);
	like($daemon->err, qr/stays as it was: .*operator\.yaml/, 'a file that has gone is a bad one');
	is($total->(), 32, '... and changes nothing');
	$daemon->stop(status => 0);
	api(DELETE => "$jobs/held");
};

subtest 'authorities that are replaced' => sub {
	my $authority = sub ($name) {
		my $secret = api(GET => "/api/v1/namespaces/ipu-operator/secrets/$name")->{json};
		return decode_base64($secret->{data}{'ca.crt'} // '');
	};
	# Another one under another name, made by another process.
	my $other = start('ipu-operator', args => arguments('--set', 'certificates.secret=other', '--set', 'leaderElection.name=other'));
	my $first = $authority->('ipu-operator-certificates');
	my $second = wait_until('another authority', sub { $authority->('other') });
	$other->stop(status => 0);
	isnt($first, $second, 'two authorities');
	my $file = spit(test_dir() . '/authorities.pem', $first);
	my $daemon = ServiceManager->new->start('ipu-operator', args => arguments('--set', "proxy.caFile=$file"));
	spit("$file.new", $second);
	rename "$file.new", $file;
	unlike($daemon->err, qr/other authorities/, 'not looked at by chance');
	$daemon->signal('HUP');
	wait_until('they count', sub { $daemon->err =~ m{daemon \Q$file\E: other authorities count now} });
	$daemon->stop(status => 0);
};

# core/clock.h: struct clock_page. Programs that map it have the real time, or stand still at this one.
sub clock_page ($path, @times) {
	my $text = pack('a8 q<7', "\0IPUCLK1", 0, scalar(@times) ? 1 : 0, @times ? @times : (0, 0), (0) x 3);
	return spit($path, $text) if !-e $path;
	open(my $out, '+<:raw', $path) or die "$path: $!\n";
	syswrite($out, $text) == length $text or die "$path: $!\n";
	return;
}

subtest 'its end under load' => sub {
	my $manager = ServiceManager->new;
	my $page = test_dir() . '/clock';
	clock_page($page);
	my $daemon = $manager->start('ipu-operator', args => arguments(), env => {IPU_CLOCK_PAGE => $page});
	$manager->hear(qr/^STATUS=leads.*ready/);
	my $port = $daemon->port('proxy');
	my @askers = map { ask_on($port, '/stats') } 1 .. 3;
	my $connect = sub { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!\n" };
	my ($slow, $late, $never, $fresh) = map { $connect->() } 1 .. 4;
	my $body = '{"size":4}';
	syswrite $_, "POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: " . length($body) . "\r\n\r\n{" for $slow, $late;
	syswrite $never, "POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
	is(http(GET => "http://127.0.0.1:$port/stats")->{status}, 200, 'all of these have been accepted');
	# What has to happen within a time of the stop has it, however slow this machine is.
	my @now = map { int(1000 * $_) } Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()), time();
	my $after = sub ($ms) { clock_page($page, map { $_ + $ms } @now) };
	$after->(0);
	# These the kernel takes, and more than the daemon accepts in a turn.
	$daemon->signal('STOP');
	my @waiting = map { $connect->() } 1 .. 100;
	syswrite $_, "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n" for @waiting;
	$daemon->signal('TERM');
	$daemon->signal('CONT');
	$manager->hear(qr/^STOPPING=1/, while_alive => []);
	my @answers = map { my $socket = $_; my $text = do { local $/; <$socket> } // "$!"; $text } @waiting;
	is(scalar(grep { m{^HTTP/1\.1 200} } @answers), 100, 'what the kernel had taken is accepted and answered')
		or diag(explain([grep { !m{^HTTP/1\.1 200} } @answers]));
	syswrite $fresh, "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n";
	like(do { local $/; <$fresh> } // '', qr{^HTTP/1\.1 200}, 'a connection without a request has its first one answered');
	syswrite $slow, substr($body, 1);
	my $answer = do { local $/; <$slow> } // '';
	like($answer, qr{^HTTP/1\.1 200.*\r\nConnection: close\r\n.*numOfPartitions}si, 'a request in work is answered');
	wait_until('the Lease to be given back meanwhile', sub {
		my $is = api(GET => '/apis/coordination.k8s.io/v1/namespaces/ipu-operator/leases/ipu-operator-partitions');
		return $is->{json} && ($is->{json}{spec}{holderIdentity} // '') eq '';
	});
	$after->(3400);
	syswrite $late, substr($body, 1);
	like(do { local $/; <$late> } // '', qr{^HTTP/1\.1 200}, '... until 3.5 s after the signal');
	ok($daemon->is_alive, '... and it still waits for a request that never ends');
	$after->(4000); # stopSeconds of a service; accepted requests are to be answered within 5 s
	$daemon->stop(status => 0, seconds => 20);
	is(do { local $/; <$never> } // '', '', '... which is left without an answer');
	like($daemon->err, qr/ WARN  http: proxy: connections closed at the deadline: 1$/m, '... as the log says');
	like($daemon->err, qr/ INFO  daemon: stopped: ms=4000$/m, '... when it ends, within 4 s of its own clock');
	for my $asker (@askers) {
		my $seen = $asker->();
		is_deeply([grep { !/^200$|refused/ } sort keys %$seen], [], 'all that was accepted was answered, and nothing was reset')
			or diag(explain($seen));
	}
	my $twice = $manager->start('ipu-operator', args => [@{arguments()}, '--set', 'stopSeconds=300']);
	my $hanging = IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . $twice->port('proxy'));
	syswrite $hanging, "POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
	http(GET => $twice->url('proxy', '/stats'));
	$manager->forget;
	$twice->signal('TERM');
	$manager->hear(qr/^STOPPING=1/);
	$twice->stop(status => 0); # by a second signal, long before stopSeconds
};

subtest 'a kubeconfig from LoadCredential=' => sub {
	my $credentials = test_dir() . '/credentials';
	mkdir $credentials;
	spit("$credentials/kubeconfig", slurp($kubeconfig));
	my $manager = ServiceManager->new;
	my $daemon = $manager->start('ipu-operator', args => \@settings,
		env => {CREDENTIALS_DIRECTORY => $credentials, KUBECONFIG => undef, HOME => '/nonexistent'});
	ok($manager->hear(qr/^STATUS=leads.*ready/), 'is found without being named');
	$daemon->stop(status => 0);
};

subtest 'the units' => sub {
	my $build = $ENV{TOP_BUILDDIR};
	my $units = test_dir() . '/units';
	mkdir $units;
	for my $path (glob(top_srcdir() . '/etc/systemd/*.socket'), glob("$build/etc/systemd/ipu-operator*.service")) {
		my $text = slurp($path) // die "$path: $!\n";
		$text =~ s{^ExecStart=\S+}{"ExecStart=" . program('ipu-operator')}me;
		spit("$units/" . ($path =~ s{.*/}{}r), $text);
	}
	is(scalar(() = glob "$units/*"), 5, 'two services and three sockets');
	my $code = slurp(top_srcdir() . '/src/daemon/sockets.c');
	for my $path (glob "$units/*.socket") {
		my ($name) = slurp($path) =~ /^FileDescriptorName=(.*)$/m;
		like($code, qr/\{"\Q$name\E", /, "the daemon knows a socket called $name");
	}
	for my $unit (qw(ipu-operator ipu-operator-node)) {
		like(slurp("$units/$unit.service"), qr/^RestartPreventExitStatus=2 243$/m,
			"$unit: neither a bad configuration nor a kubeconfig that is missing is tried again");
	}
	# Both may run on one machine.
	my ($ports) = slurp("$units/ipu-operator-node.service") =~ /^Environment=(.*)$/m;
	my $shipped = slurp(top_srcdir() . '/etc/operator.yaml');
	# The extender doesn't listen there; its port is the one that the chart and the guide give it.
	my ($extender) = slurp(top_srcdir() . '/doc/scheduler.md') =~ m{CLUSTER_IP:(\d+)/scheduler};
	ok($extender, "the extender's port is known");
	for my $port ($ports =~ /:(\d+)\b/g) {
		unlike($shipped, qr/^ +\w*[lL]isten: .*:$port"?$/m, "no other listener's port: $port");
		isnt($port, $extender, "not the extender's: $port");
	}
	my ($analyze) = grep { -x } '/usr/bin/systemd-analyze', '/bin/systemd-analyze';
SKIP: {
		skip 'no systemd-analyze on this machine (./setup --tests)', 4 if !$analyze;
		my $verified = run([$analyze, 'verify', '--man=no', glob "$units/*"]);
		# Known since systemd 254; older ones leave them out and say so.
		my @words = grep { !/Unknown key.*'Restart(?:Steps|MaxDelaySec)'/ } split /\n/, $verified->{err};
		is_deeply([grep { m{\Q$units\E|ipu-operator} } @words], [], 'systemd-analyze verify finds nothing');
		like(run([$analyze, qw(exit-status --no-pager CREDENTIALS)])->{out}, qr/^CREDENTIALS\s+243\b/m,
			'243 is what systemd ends with for want of a credential');
		for my $unit (qw(ipu-operator ipu-operator-node)) {
			my $judged = run([$analyze, 'security', '--offline=true', '--threshold=20', '--no-pager', "$units/$unit.service"]);
			is($judged->{status}, 0, "$unit: an exposure of 2.0 or less")
				or diag(join "\n", grep { /Overall|✗/ } split /\n/, $judged->{out});
		}
	}
};

$sim->stop(status => 0);
done_testing();
