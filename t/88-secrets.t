#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Tokens and keys after their use: the daemon's own memory is searched for those that callers came with, and for its own from before
# they were renewed: of a file, a credential plugin (also in the helper that runs it), a V-IPU controller's Secret, and for the proxy; so
# is its log, at its most talkative. And programs that hold them leave no core dump, nor let others read their memory.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use ClockPage;
use IO::Select ();
use IO::Socket::INET ();
use IpuTest;
use MIME::Base64 qw(decode_base64 encode_base64);
use Test::More;

watchdog(120);
program_or_skip('curl');
my $dir = test_dir();

# A page that daemon and test share: its clock is so far ahead of the machine's. Never cut short: it's mapped.
sub move_clock ($ms) {
	my $page = pack('a8 q<7', "\0IPUCLK1", $ms, (0) x 6);
	return spit("$dir/clock", $page) if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!";
	print {$out} $page;
	return close($out);
}

my @access = map { 'access-key-of-a-V-IPU-controller' . $_ x 10 } qw(first second);
my $sim = start('ipu-sim', args => [ '--dir', "$dir/sim", '--pod-run-ms=0', '--vipu-secure',
	'0:' . json_encode({ userId => 'user', accessKey => $access[0] }) ]);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		map { (json => $_) } @json);
}

sub token ($account, @audiences) {
	return api('POST', "/api/v1/namespaces/monitoring/serviceaccounts/$account/token", { apiVersion => 'authentication.k8s.io/v1',
		kind => 'TokenRequest', spec => { @audiences ? (audiences => \@audiences) : () } })->{json}{status}{token};
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $_ } })
	for qw(ipu-operator second monitoring);
api('POST', '/api/v1/namespaces/monitoring/serviceaccounts',
	{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $_ } }) for qw(operator prometheus controller);

my @own = map { token('operator') } 1, 2;
spit("$dir/token", $own[0]);
spit("$dir/kubeconfig", slurp("$dir/sim/kubeconfig") =~ s/^    token: .*/    tokenFile: $dir\/token/mr);
move_clock(0);
my $daemon = start('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/clock" }, args => [ '--kubeconfig', "$dir/kubeconfig",
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'metrics.secure=true', 'log.level=6', 'leaderElection.enabled=false',
	map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen) ]);

# The file with the authority that the operator in that namespace has made.
sub authority ($ns) {
	return spit("$dir/$ns.pem", decode_base64(api('GET', "/api/v1/namespaces/$ns/secrets/ipu-operator-certificates")->{json}{data}{'ca.crt'}));
}
my $ca = authority('ipu-operator');

# Where a token's own part, which none of the others has, stands in all that the process may write.
sub places ($token, $pid = $daemon->pid) {
	my $part = substr($token, -40);
	my @found;
	open(my $mem, '<:raw', "/proc/$pid/mem") or return;
	for my $line (split /\n/, slurp("/proc/$pid/maps")) {
		my ($from, $to, $name) = $line =~ /^([0-9a-f]+)-([0-9a-f]+) rw\S+ \S+ \S+ \S+\s*(.*)$/ or next;
		no warnings 'portable'; # of 64 bits
		my ($at, $size) = (hex $from, hex($to) - hex $from);
		sysseek($mem, $at, 0);
		my $text = '';
		while ($size > length $text) {
			last if !sysread($mem, $text, $size - length $text, length $text);
		}
		for (my $i = -1; ($i = index($text, $part, $i + 1)) >= 0;) {
			push @found, sprintf('%s+%x %s', $from, $i, substr($text, $i > 160 ? $i - 160 : 0, 220) =~ s/[^ -~]/./gr);
		}
	}
	return @found;
}

sub gone ($token, $what, $program = $daemon, $pid = $program->pid) {
	my @left;
	my $over = eval { wait_until("$what to be gone", sub { !(@left = places($token, $pid)) }, seconds => 15); 1 };
	ok($over, "$what isn't in memory any more") or diag(join "\n", @left);
	unlike($program->err, qr/\Q$token\E/, '... and never was in the log');
	return;
}

sub scrape ($token) {
	my $host = 'ipu-operator-controller-manager-metrics.ipu-operator.svc';
	my $answer = run([ 'curl', qw(-sS -o /dev/null -w %{http_code} --max-time 20 --noproxy *), '--cacert', $ca, '--connect-to',
		"$host:443:127.0.0.1:" . $daemon->port('metrics'), '-H', "Authorization: Bearer $token", "https://$host/metrics" ]);
	return $answer->{out};
}

subtest 'memory' => sub {
	plan skip_all => "only root reads another process's memory" if $> != 0;
	plan skip_all => 'this build keeps what was freed (sanitizers)' if slurp("$ENV{TOP_BUILDDIR}/config.status") =~ /-fsanitize=\S*address/;
	ok(scalar places($own[0]), 'what is in use is found');

	my $caller = token('prometheus');
	is(scrape($caller), 200, 'a caller that may');
	gone($caller, 'its token');
	my $stranger = 'x' . join '', map { sprintf '%04x', $_ * 7919 % 65536 } 1 .. 16;
	is(scrape($stranger), 401, 'one that is nobody');
	gone($stranger, "a stranger's token");

	spit("$dir/token", $own[1]);
	# By all that speak to the API server, each when it does: watches, and those that review callers' tokens.
	move_clock(700_000);
	is(scrape(token('prometheus')), 200, 'a scrape');
	run([ 'curl', qw(-ksS -o /dev/null --max-time 20 --noproxy *), '-H', 'Authorization: Bearer ' . token('prometheus'),
		'https://127.0.0.1:' . $daemon->port('proxy-tls') . '/v1/partitions/x/0' ]);
	wait_until('the new token to be read', sub { $daemon->err =~ /credentials changed and were read again/ });
	gone($own[0], "the operator's own token from before");
	ok(scalar places($own[1]), 'the new one is in use');
};

# What another daemon has of its own: of a plugin, of a controller's Secret, and a second one's for the proxy. Over HTTP/1.1.
subtest 'what is renewed' => sub {
	plan skip_all => "only root reads another process's memory" if $> != 0;
	plan skip_all => 'this build keeps what was freed (sanitizers)' if slurp("$ENV{TOP_BUILDDIR}/config.status") =~ /-fsanitize=\S*address/;
	my @given = map { token('operator') } 1, 2;
	my @asking = map { token('controller', 'ipu-operator-proxy') } 1, 2;
	my $secure = $sim->url('admin', '/sim/vipu/0/secure');
	my $vipu_ca = http('GET', $secure)->{json}{ca};
	my $secret = sub ($n) { { apiVersion => 'v1', kind => 'Secret', metadata => { name => 'pod' }, data => {
		'ca.crt' => encode_base64($vipu_ca, ''), userId => encode_base64('user', ''), accessKey => encode_base64($access[$n], '') } } };
	my $secrets = '/api/v1/namespaces/second/secrets';
	is(api('POST', $secrets, $secret->(0))->{status}, 201, "a controller's Secret");
	spit("$dir/controllers.yaml", "- {address: '127.0.0.1:" . $sim->port('vipu0') . "', secretName: pod}\n");
	spit("$dir/given", $given[0]);
	spit("$dir/asking", $asking[0]);
	my $plugin = spit("$dir/plugin", "#!/bin/sh\n" . 'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
		. '"status":{"token":"\'`cat ' . $dir . '/given`\'","expirationTimestamp":"\'`date -u -d "+400 seconds" +%Y-%m-%dT%H:%M:%SZ`\'"}}\'' . "\n");
	chmod 0755, $plugin;
	spit("$dir/by-plugin", slurp("$dir/sim/kubeconfig")
		=~ s/^( +)token: .*/$1exec: {apiVersion: client.authentication.k8s.io\/v1, command: $plugin, interactiveMode: Never}/mr);
	my $start = sub ($kubeconfig, @sets) {
		return start('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/renewed/clock" }, args => [ '--kubeconfig', $kubeconfig, map { ('--set', $_) }
			'operatorNamespace=second', 'log.level=6', 'leaderElection.enabled=false', 'kubernetes.http2=false', @sets,
			map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen) ]);
	};
	mkdir "$dir/renewed";
	my $clock = ClockPage->new("$dir/renewed/clock");
	my $proxy = $start->("$dir/by-plugin", 'roles=proxy', "controllersFile=$dir/controllers.yaml",
		'proxy.controllerAccounts=system:serviceaccount:monitoring:controller');
	my ($helper) = split ' ', slurp('/proc/' . $proxy->pid . '/task/' . $proxy->pid . '/children');
	my $controller = $start->("$dir/sim/kubeconfig", 'roles=controller', 'proxy.url=https://127.0.0.1:' . $proxy->port('proxy-tls'), 'proxy.caFile=' . authority('second'),
		"proxy.tokenFile=$dir/asking");
	# Asks the proxy, which asks the V-IPU controller.
	my $job = sub ($name) {
		my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
		is(api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
			spec => { jobInstances => 1, ipusPerJobInstance => '1', workers => { template => { spec => { containers => [ { name => 'c', image => 'i' } ] } } } } })
			->{status}, 201, "a job: $name");
		wait_until("$name to have its partition", sub { $proxy->err =~ /\Q$name\E-default-0-\w+: active/ }, while_alive => [ $proxy, $controller ]);
	};
	$job->('before');
	ok(scalar places(@$_), 'in use') for [ $given[0], $proxy->pid ], [ $access[0], $proxy->pid ], [ $asking[0], $controller->pid ];
	gone($given[0], 'what the plugin said, in the helper that ran it,', $proxy, $helper);
	gone($asking[0], 'the token that the proxy was asked with', $proxy);

	spit("$dir/given", $given[1]);
	spit("$dir/asking", $asking[1]);
	is(http('POST', $secure, json => { accessKey => $access[1] })->{status}, 204, 'the controller has another key');
	is(api('PUT', "$secrets/pod", $secret->(1))->{status}, 200, '... and all is renewed');
	$clock->set(700_000);
	$job->('behind');
	ok(scalar places(@$_), 'in use') for [ $given[1], $proxy->pid ], [ $access[1], $proxy->pid ], [ $asking[1], $controller->pid ];
	gone($given[0], "the plugin's token from before", $proxy);
	gone($access[0], "the controller's access key from before", $proxy);
	gone($asking[0], 'the token for the proxy from before', $controller);
	gone($given[1], 'what the plugin said at last, in the helper,', $proxy, $helper);
	$controller->stop;
	$proxy->stop;
};

# Starts one that has no more privileges than any user has; and whether another such one of the same user may read its memory.
my @plainly = $> == 0 ? (qw(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace)) : ('env');
sub start_plainly ($path, @args) { return start($path =~ s{.*/}{}r, path => $plainly[0], ports => 0, args => [ @plainly[ 1 .. $#plainly ], $path, @args ]) }

sub is_open ($program) {
	return run([ @plainly, qw(sh -c), 'exec 3< "$0"', '/proc/' . $program->pid . '/mem' ])->{status} == 0;
}

subtest 'dumps' => sub {
	my ($limit) = slurp('/proc/' . $daemon->pid . '/limits') =~ /^Max core file size +(\S+ +\S+)/m;
	is($limit =~ s/ +/ /r, '0 0', 'no core file may be written');
	program_or_skip($plainly[0]);
	my $other = start_plainly(program_or_skip('sleep'), 60);
	my $is_readable = eval { wait_until('its memory to be read', sub { is_open($other) }, seconds => 5) };
	$other->stop(status => 143);
	plan skip_all => 'nobody reads any memory here' if !$is_readable;

	# A peer that answers nothing: who is connected to it has read its credentials.
	my $silent = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1:0') // die "listen: $!\n";
	my $url = 'https://127.0.0.1:' . $silent->sockport;
	spit("$dir/silent", slurp("$dir/sim/kubeconfig") =~ s/server: .*/server: $url/r);
	for my $row ([ 'ipu-operator', '--kubeconfig', "$dir/silent", '--roles=proxy', '--set=operatorNamespace=x', map { "--set=$_=127.0.0.1:0" }
			qw(proxy.listen proxy.tlsListen health.listen metrics.listen) ],
		[ 'ipu-launcher', 'get', '--ca', $ca, '--token-file', "$dir/token", "$url/" ], [ 'ipuctl', '--kubeconfig', "$dir/silent", 'queue' ]) {
		my ($name, @args) = @$row;
		my $program = start_plainly(program($name), @args);
		my $peer = wait_until("$name to connect", sub { IO::Select->new($silent)->can_read(0.1) && $silent->accept }, while_alive => [$program]);
		ok(!is_open($program), "nobody else reads ${name}'s memory");
		$program->crash;
	}
};

$daemon->stop(status => 0);
$sim->stop;
done_testing();
