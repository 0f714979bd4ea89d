#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Pods that run in ipu-sim: their containers, volumes and ends, kubectl's exec, attach and logs, and
# what goes over the WebSocket, byte by byte, to a client that is written here.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::SHA qw(sha1_base64);
use IO::Socket::INET;
use IpuTest;
use Test::More;

my $kubectl = program_or_skip('kubectl');
watchdog(240);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', env => {TMPDIR => test_dir() . ''}, args => ['--dir', $folder, '--run-pods', '--pod-schedule-ms=10', '--pod-start-ms=10',
	'--program', '/the-program=/bin/echo']);
my $token = slurp("$folder/token");
my %env = (HOME => test_dir() . '', KUBECONFIG => "$folder/kubeconfig", KUBECTL_REMOTE_COMMAND_WEBSOCKETS => 'true');
my $pods = '/api/v1/namespaces/default/pods';

# Programs may end while it's waited for something else.
sub await { my ($what, $code, %options) = @_; return wait_until($what, $code, while_alive => [], %options) }

sub kubectl { my ($arguments, %options) = @_; return run([$kubectl, @$arguments], env => \%env, seconds => 30, %options) }

sub api {
	my ($method, $path, %options) = @_;
	return http($method, $sim->url('api-plain', $path), %options, headers => {authorization => "Bearer $token"});
}

sub make { my ($path, $object) = @_; my $answer = api('POST', $path, json => $object);
	is($answer->{status}, 201, "$object->{kind} $object->{metadata}{name}") or diag($answer->{content}); return }

sub container { my ($name, @command) = @_; return {name => $name, image => 'none', command => [@command]} }
# A kubelet makes "$" of "$$".
sub sh { my ($script, %more) = @_; $script =~ s/\$\$/\$\$\$\$/g; return {%{container('main', 'sh', '-c', $script)}, %more} }

sub make_pod {
	my ($name, $containers, %spec) = @_;
	make($pods, {apiVersion => 'v1', kind => 'Pod', metadata => {name => $name, labels => {color => 'red'}},
		spec => {restartPolicy => 'Never', containers => $containers, %spec}});
	return;
}

sub pod { my ($name) = @_; return api('GET', "$pods/$name")->{json} }

sub wait_phase {
	my ($name, $phase) = @_;
	ok(eval { await("$name to be $phase", sub { (pod($name)->{status}{phase} // '') eq $phase }, seconds => 20) },
		"$name: $phase") or diag($@, json_encode(pod($name)->{status}));
	return pod($name);
}

sub wait_waiting {
	my ($name, $reason) = @_;
	my $waiting;
	ok(eval { await("$name to wait for $reason", sub {
		$waiting = pod($name)->{status}{containerStatuses}[0]{state}{waiting};
		($waiting->{reason} // '') eq $reason }, seconds => 20) }, "$name: $reason") or diag($@);
	return $waiting->{message} // '';
}

sub lives { my ($pid) = @_; return kill(0, $pid) && (slurp("/proc/$pid/stat") // '') !~ /\) Z / }
sub gone { my ($pid, $what) = @_; $what //= 'it'; ok(eval { await("$what to end", sub { !lives($pid) }, seconds => 20) }, "$what has ended"); return }
sub logs { my ($name, @more) = @_; return kubectl(['logs', $name, @more])->{out} }

# ---- Pods ----

make('/api/v1/namespaces/default/configmaps', {apiVersion => 'v1', kind => 'ConfigMap', metadata => {name => 'texts'},
	data => {'run.sh' => "echo run.sh of /etc/texts/run.sh, \$1\n", word => 'hello'}});

subtest 'what a container finds' => sub {
	my @mounts = ({name => 'data', mountPath => '/data'}, {name => 'texts', mountPath => '/etc/texts'});
	make_pod('finds', [{%{sh(<<'END')}, args => ['arg of $(GREETING)'],
cat /data/file; sh /etc/texts/run.sh "$GREETING"; echo "$HOSTNAME $COLOR $PREFIX_word $DIR $0"; ls -l /etc/texts/run.sh
ls $IPU_SERVICEACCOUNT_DIR; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
$KUBECTL --server=https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT --token=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token) \
	--certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt get pod $HOSTNAME -o name
END
		env => [{name => 'KUBECTL', value => $kubectl}, {name => 'GREETING', valueFrom => {configMapKeyRef => {name => 'texts', key => 'word'}}},
			{name => 'COLOR', valueFrom => {fieldRef => {fieldPath => "metadata.labels['color']"}}},
			{name => 'DIR', value => '/data/$(GREETING)'}],
		envFrom => [{prefix => 'PREFIX_', configMapRef => {name => 'texts'}}], volumeMounts => \@mounts}],
		initContainers => [{%{container('first', 'sh', '-c', 'echo from the first >/data/file')}, volumeMounts => \@mounts},
			container('second', '/the-program', 'a program by another name')],
		volumes => [{name => 'data', emptyDir => {}}, {name => 'texts', configMap => {name => 'texts', defaultMode => 0755}}]);
	my $pod = wait_phase('finds', 'Succeeded');
	my $log = logs('finds');
	like($log, qr/^from the first\n/, 'what an init container wrote');
	like($log, qr{^run\.sh of /\S+/volumes/texts/run\.sh, hello$}m, 'a ConfigMap\'s text, with mount points replaced');
	like($log, qr{^finds red hello /\S+/volumes/data/hello arg of hello$}m, 'its environment and arguments');
	like($log, qr/^-rwxr-xr-x/m, 'a file\'s mode');
	like($log, qr{^ca\.crt\nnamespace\ntoken\ndefault\npod/finds$}m, 'its ServiceAccount, with which it asks the API');
	is($pod->{status}{initContainerStatuses}[1]{state}{terminated}{exitCode}, 0, 'init containers are done');
	is(logs('finds', '-c', 'second'), "a program by another name\n", 'a program by --program');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{reason}, 'Completed', 'and so is it');
	my $again = kubectl(['logs', 'finds', '--tail=1', '-c', 'second', '--limit-bytes=4']);
	is($again->{out}, 'a pr', 'logs: limits');
};

subtest 'ends' => sub {
	make_pod('fails', [sh('echo the last words >/dev/termination-log; exit 3'), {%{sh('true')}, name => 'other'}]);
	my $pod = wait_phase('fails', 'Failed');
	is_deeply([map { $_->{state}{terminated}{exitCode} } @{$pod->{status}{containerStatuses}}], [3, 0], 'each its own');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{message}, "the last words\n", 'with its message');
	make_pod('killed', [sh('echo why; kill -9 $$', terminationMessagePolicy => 'FallbackToLogsOnError')]);
	$pod = wait_phase('killed', 'Failed');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{exitCode}, 137, 'by a signal');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{message}, "why\n", 'the log as the message');
	make_pod('init-fails', [sh('true')], initContainers => [container('first', 'sh', '-c', 'exit 5')]);
	$pod = wait_phase('init-fails', 'Failed');
	is($pod->{status}{initContainerStatuses}[0]{state}{terminated}{exitCode}, 5, 'an init container\'s');
	make_pod('no-program', [container('main', '/no/such')]);
	$pod = wait_phase('no-program', 'Failed');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{reason}, 'StartError', 'a command that isn\'t there');
	is($pod->{status}{containerStatuses}[0]{state}{terminated}{exitCode}, 128, 'its exit code');
};

subtest 'what can\'t start waits, and says why' => sub {
	make_pod('image-only', [{name => 'main', image => 'busybox'}]);
	like(wait_waiting('image-only', 'CreateContainerError'), qr/^no command specified/, 'no command');
	make_pod('wants', [sh('echo $V', env => [{name => 'V', valueFrom => {configMapKeyRef => {name => 'later', key => 'k'}}}])]);
	like(wait_waiting('wants', 'CreateContainerConfigError'), qr/^configmap "later" not found$/, 'no ConfigMap');
	make_pod('mounts', [sh('cat /l/k', volumeMounts => [{name => 'l', mountPath => '/l'}])],
		volumes => [{name => 'l', configMap => {name => 'later'}}]);
	ok(eval { await('FailedMount', sub {
		my $list = api('GET', '/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=mounts')->{json};
		grep { $_->{reason} eq 'FailedMount' && $_->{message} =~ /configmap "later" not found/ } @{$list->{items}} }) }, 'an Event');
	make('/api/v1/namespaces/default/configmaps', {apiVersion => 'v1', kind => 'ConfigMap',
		metadata => {name => 'later'}, data => {k => 'here'}});
	wait_phase($_, 'Succeeded') for qw(wants mounts);
	is(logs('wants'), "here\n", 'then it goes on');
};

subtest 'deletion ends all that was started' => sub {
	my $deaf = 'trap "" TERM; setsid sh -c \'trap "" TERM; echo $$; while :; do sleep 0.1; done\' & echo $$; wait; while :; do sleep 0.1; done';
	make_pod('deaf', [sh($deaf)], terminationGracePeriodSeconds => 1);
	wait_phase('deaf', 'Running');
	my @pids = split ' ', await('both', sub { my $log = logs('deaf'); $log =~ /\n.*\n/ ? $log : undef });
	is(scalar @pids, 2, 'two processes');
	is(kubectl(['delete', 'pod', 'deaf', '--wait=true'])->{status}, 0, 'deleted');
	gone($_, 'a process that ignores SIGTERM') for @pids;
	make_pod('polite', [sh('trap "echo bye; exit 0" TERM; echo $$; while :; do sleep 0.05; done')]);
	wait_phase('polite', 'Running');
	my $pid = await('its pid', sub { my $log = logs('polite'); $log =~ /^(\d+)\n/ ? $1 : undef });
	my $follower = start('kubectl', path => $kubectl, ports => 0, env => \%env, args => ['logs', '-f', 'polite']);
	await('the log', sub { ($follower->out // '') =~ /\d/ });
	is(kubectl(['delete', 'pod', 'polite'])->{status}, 0, 'deleted');
	gone($pid, 'one that handles it');
	await('the follower\'s end', sub { defined $follower->status });
	like($follower->out, qr/^\d+\nbye\n\z/, 'who follows its log sees all of it, and the end');
};

# ---- kubectl ----

my $cwd = 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done';
make_pod('host', [sh($cwd, volumeMounts => [{name => 'data', mountPath => '/data'}]), {%{sh('cat', stdin => JSON::PP::true)}, name => 'reader'}],
	volumes => [{name => 'data', emptyDir => {}}]);
wait_phase('host', 'Running');

subtest 'kubectl exec' => sub {
	my $got = kubectl(['exec', 'host', '-c', 'main', '--', 'sh', '-c', 'echo out; echo err >&2; echo x >/data/x; exit 3']);
	is($got->{out}, "out\n", 'stdout');
	is($got->{err}, "err\ncommand terminated with exit code 3\n", 'stderr');
	is($got->{status}, 3, 'exit code');
	is(kubectl(['exec', 'host', '-c', 'main', '--', 'cat', '/data/x'])->{out}, "x\n", 'its mount points');
	my $text = join '', map { "line $_ of some text\n" } 1 .. 100_000;
	$got = kubectl(['exec', '-i', 'host', '-c', 'main', '--', 'cat'], stdin => $text);
	ok($got->{out} eq $text, 'two megabytes there and back, and the end of input');
	like(kubectl(['exec', 'host', '-c', 'main', '--', 'nosuch'])->{err}, qr/exec: "nosuch": executable file not found in \$PATH/, 'no such command');
	like(kubectl(['exec', 'host', '-c', 'zz', '--', 'true'])->{err}, qr/\(BadRequest\): container zz is not valid for pod host$/, 'no such container');
	like(kubectl(['exec', 'finds', '--', 'true'])->{err}, qr/completed pod; current phase is Succeeded/, 'a Pod that is over');
	like(kubectl(['exec', 'nobody', '--', 'true'])->{err}, qr/pods "nobody" not found/, 'no such Pod');
	like(kubectl(['exec', 'image-only', '--', 'true'])->{err}, qr/unable to upgrade connection: container not found \("main"\)/, 'one that doesn\'t run');
	is(kubectl(['exec', 'host', '-c', 'main', '--', 'sh', '-c', 'kill -9 $$'])->{status}, 137, 'a signal');
};

subtest 'kubectl attach and logs' => sub {
	# attach doesn't end by itself: it's ended when what was written has come back.
	my $echo = test_dir() . '/attached';
	my $come = "n=0; until grep -qx one $echo || [ \$n -ge 250 ]; do n=\$((n + 1)); sleep 0.1; done";
	run(['sh', '-c', "touch $echo; (echo one; $come) | timeout 28 $kubectl attach -i host -c reader >$echo & $come; kill \$!; wait"],
		env => \%env, seconds => 60);
	like(slurp($echo), qr/^one$/m, 'attached: its input and output');
	ok(eval { await('the log', sub { logs('host', '-c', 'reader') eq "one\n" }) }, 'the log has it too');
	like(kubectl(['logs', 'image-only'])->{err}, qr/container "main" in pod "image-only" is waiting to start/, 'no log yet');
	like(kubectl(['logs', 'host', '-c', 'reader', '--timestamps'])->{err}, qr/ipu-sim's logs have no timestamps/, 'what isn\'t there');
};

# ---- the wire ----

# A WebSocket client of RFC 6455; dies when the server breaks it.
sub ws_open {
	my ($path, $protocol, %option) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $sim->port('api-plain')) or die "connect: $@\n";
	my $key = 'dGhlIHNhbXBsZSBub25jZQ==';
	my $method = $option{method} // 'GET';
	$s->print("$method $path HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nConnection: Upgrade\r\n"
		. "Upgrade: " . ($option{upgrade} // 'websocket') . "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: $key\r\n"
		. "Sec-WebSocket-Protocol: $protocol\r\nContent-Length: 0\r\n\r\n");
	my $head = '';
	while ($head !~ /\r\n\r\n\z/) { my $n = sysread($s, $head, 1, length $head); die "the head ends early: $head\n" if !$n }
	return $head if $head !~ m{^HTTP/1\.1 101 };
	my $accept = sha1_base64($key . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11') . '=';
	$head =~ /^Sec-WebSocket-Accept: \Q$accept\E\r$/m or die "wrong accept: $head\n";
	$head =~ /^Sec-WebSocket-Protocol: \Q$protocol\E\r$/m or die "wrong protocol: $head\n";
	return $s;
}

sub ws_send {
	my ($s, $payload, $opcode) = @_;
	my ($mask, $len) = ("\x12\x34\x56\x78", length $payload);
	my $masked = $payload ^ substr($mask x ($len / 4 + 1), 0, $len);
	$s->print(pack('CC', 0x80 | ($opcode // 2), 0x80 | ($len < 126 ? $len : 126)) . ($len < 126 ? '' : pack('n', $len)) . "$mask$masked");
	return;
}

sub ws_bytes {
	my ($s, $len) = @_;
	my $got = '';
	local $SIG{ALRM} = sub { die "nothing came\n" };
	alarm 20;
	while (length $got < $len) { sysread($s, $got, $len - length $got, length $got) or die "ended\n" }
	alarm 0;
	return $got;
}

# (opcode, payload); the server's frames are whole messages.
sub ws_read {
	my ($s) = @_;
	my ($first, $len) = unpack 'CC', ws_bytes($s, 2);
	$first & 0x80 && !($first & 0x70) && !($len & 0x80) or die "a bad frame: $first $len\n";
	$len = unpack 'n', ws_bytes($s, 2) if $len == 126;
	$len = unpack 'Q>', ws_bytes($s, 8) if $len == 127;
	return ($first & 15, ws_bytes($s, $len));
}

sub ws_all {
	my ($s) = @_;
	my %on;
	while (1) {
		my ($opcode, $payload) = ws_read($s);
		return (\%on, unpack 'n', $payload) if $opcode == 8;
		next if $opcode != 2;
		push @{$on{order}}, ord $payload;
		$on{ord $payload} .= substr $payload, 1;
	}
}

my $exec = "$pods/host/exec?container=main&stdout=true&stderr=true";
subtest 'v5.channel.k8s.io' => sub {
	my $s = ws_open("$exec&stdin=true&command=sh&command=-c&command=cat;+echo+err+%3E%262;+exit+3", 'v5.channel.k8s.io');
	is_deeply([ws_read($s)], [2, "\1"], 'the first message: an empty one of stdout');
	ws_send($s, "\0some");
	is_deeply([ws_read($s)], [2, "\1some"], 'input, output');
	ws_send($s, 'ping', 9);
	is_deeply([ws_read($s)], [10, 'ping'], 'a ping is answered');
	ws_send($s, "\0");
	ws_send($s, "\7nobody's channel");
	ws_send($s, "\0 more");
	ws_send($s, "\xff\0");
	ws_send($s, "\0dropped");
	my ($on, $code) = ws_all($s);
	is($on->{1}, ' more', 'output up to the end of input');
	is($on->{2}, "err\n", 'stderr');
	is_deeply(json_decode($on->{3}), {metadata => {}, status => 'Failure', reason => 'NonZeroExitCode',
		message => 'command terminated with non-zero exit code: command terminated with exit code 3',
		details => {causes => [{reason => 'ExitCode', message => '3'}]}}, 'the status');
	is($on->{order}[-1], 3, 'which is last');
	is($code, 1000, 'then a Close');
	($on) = ws_all(ws_open("$pods/host/exec?container=main&stderr=true&command=true", 'v5.channel.k8s.io'));
	is_deeply($on->{order}, [2, 3], 'without stdout the first message is of stderr');
	is_deeply(json_decode($on->{3}), {metadata => {}, status => 'Success'}, 'success');
	($on) = ws_all(ws_open("$pods/image-only/exec?stdout=true&command=true", 'v5.channel.k8s.io'));
	is(json_decode($on->{3})->{message}, 'Internal error occurred: unable to upgrade connection: container not found ("main")',
		'a container that doesn\'t run, behind the upgrade');
};

subtest 'v4.channel.k8s.io' => sub {
	my ($on) = ws_all(ws_open("$exec&command=sh&command=-c&command=exit+3", 'v4.channel.k8s.io'));
	is(json_decode($on->{3})->{message},
		'command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3', 'a kubelet\'s words');
	like(ws_open("$pods/image-only/exec?stdout=true&command=true", 'v4.channel.k8s.io'), qr{^HTTP/1\.1 500 }, 'one that doesn\'t run: no upgrade');
	my $s = ws_open("$exec&stdin=true&command=cat", 'v4.channel.k8s.io');
	ws_send($s, "\xff\0");
	ws_send($s, "\0still");
	ws_read($s);
	is_deeply([ws_read($s)], [2, "\1still"], 'no half close');
};

subtest 'refused before the upgrade' => sub {
	for my $row (['no such Pod', "$pods/nobody/exec?stdout=true&command=x", 404], ['no such container', "$pods/host/exec?container=zz&stdout=true&command=x", 400],
		['which container', "$pods/host/exec?stdout=true&command=x", 400], ['no command', $exec, 400],
		['nothing to see', "$pods/host/exec?container=main&command=x", 400], ['another version', "$exec&command=x", 400, 'v1.other'],
		['SPDY', "$exec&command=x", 400, 'v4.channel.k8s.io', upgrade => 'SPDY/3.1', method => 'POST'],
		['POST', "$exec&command=x", 405, 'v4.channel.k8s.io', method => 'POST']) {
		my ($name, $path, $status, $protocol, %option) = @$row;
		my $head = ws_open($path, $protocol // 'v5.channel.k8s.io', %option);
		like($head, qr{^HTTP/1\.1 $status }, $name);
	}
	my $plain = api('GET', "$exec&command=x");
	is($plain->{json}{message}, 'Upgrade request required', 'without an upgrade');
	is(api('POST', "$exec&command=x", content => '')->{status}, 400, 'POST without one');
};

subtest 'terminals' => sub {
	my $s = ws_open("$exec&stdin=true&tty=true&command=sh", 'v5.channel.k8s.io');
	ws_send($s, "\4" . '{"Width":77,"Height":33}');
	ws_send($s, "\0stty size; tty | sed s/[0-9]*//g; exit 4\n");
	my ($on) = ws_all($s);
	like($on->{1}, qr{\b33 77\r$}m, 'its size');
	like($on->{1}, qr{/dev/pts/\r$}m, 'it is one');
	is(json_decode($on->{3})->{details}{causes}[0]{message}, 4, 'its exit code');
};

subtest 'a command outlives its connection' => sub {
	my $script = 'echo+$$;+cat+%3E/dev/null;+echo+a+line+into+nothing;+while+[+!+-e+/data/go+];+do+sleep+0.05;+done;+echo+went+%3E/data/went';
	my $s = ws_open("$exec&stdin=true&command=sh&command=-c&command=$script", 'v5.channel.k8s.io');
	ws_read($s);
	my ($opcode, $pid) = ws_read($s);
	close $s;
	kubectl(['exec', 'host', '-c', 'main', '--', 'touch', '/data/go']);
	ok(eval { await('it to go on', sub {
		kubectl(['exec', 'host', '-c', 'main', '--', 'cat', '/data/went'])->{out} eq "went\n" }) }, 'with its input ended, to its end');
	gone($pid =~ /(\d+)/, 'it');
};

subtest 'back-pressure' => sub {
	my $s = ws_open("$exec&command=sh&command=-c&command=yes+%7C+head+-c+20000000;+touch+/data/written", 'v5.channel.k8s.io');
	my $is_written = sub { kubectl(['exec', 'host', '-c', 'main', '--', 'test', '-e', '/data/written'])->{status} == 0 };
	ok(!$is_written->(), 'nobody reads: the command waits');
	my ($on) = ws_all($s);
	is(length $on->{1}, 20_000_000, 'all of it comes');
	ok($is_written->(), 'then it\'s done');
};

subtest 'nothing is left' => sub {
	my $got = kubectl(['exec', 'host', '-c', 'main', '--', 'sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 & echo $!']);
	my ($pid) = $got->{out} =~ /(\d+)/;
	ok(lives($pid), 'what an exec has left behind lives on');
	is(kubectl(['delete', 'pod', 'host'])->{status}, 0, 'until the Pod is deleted');
	gone($pid, 'it');
	make_pod('last', [sh('echo $$; setsid sleep 1000 & echo $!; wait')]);
	my @pids = split ' ', await('both', sub { my $log = logs('last'); $log =~ /\n.*\n/ ? $log : undef });
	$sim->signal('KILL');
	gone($_, 'a process, when ipu-sim is killed') for @pids;
	$sim->crash;
};

done_testing();
