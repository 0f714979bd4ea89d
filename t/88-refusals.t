#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What no listener of the daemon takes, nor ipuctl ui's, one table for all of them: smuggled requests, lines that break out,
# tricks with paths, everything oversized, packed bodies, old TLS, and peers that take their time. Then
# V-IPU controllers that flood the daemon by HTTP/2. Who may do what with which token: t/64, 73, 57.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Select ();
use IO::Socket::INET ();
use IPC::Open2 qw(open2);
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Socket qw(SOL_SOCKET SO_SNDBUF);
use Test::More;
use Time::HiRes qw(time);

watchdog(180);
my $python = '/usr/bin/python3';
-x $python && system("$python -c 'import jsonpatch' 2>/dev/null") == 0
	or plan skip_all => 'no jsonpatch for Python on this machine (./setup --tests)';
my $dir = test_dir();
my ($page, $offset_ms) = ("$dir/clock", 0);

# core/clock.h: struct clock_page, which runs on from a later time.
sub later ($ms) {
	$offset_ms += $ms;
	my $text = pack('a8 q< q< q< q< q<3', "\0IPUCLK1", $offset_ms, 0, 0, 0, 0, 0, 0);
	return spit($page, $text) if !-e $page;
	open(my $out, '+<:raw', $page) or die "$page: $!\n";
	syswrite($out, $text) == length $text or die "$page: $!\n";
	return;
}
later(0);

my $sim = start('ipu-sim', env => { IPU_CLOCK_PAGE => $page }, args => ['--dir', "$dir/sim"]);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, @json) {
	my $answer = http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" }, map { (json => $_) } @json);
	die "$method $path: $answer->{status} $answer->{content}\n" if $answer->{status} !~ /^20/;
	return $answer->{json};
}

sub token (@audiences) {
	return api('POST', '/api/v1/namespaces/default/serviceaccounts/asker/token',
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => { audiences => \@audiences } })->{status}{token};
}

sub operator ($roles, @sets) {
	return start('ipu-operator', env => { IPU_CLOCK_PAGE => $page }, args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', $roles,
		map { ('--set', $_) } 'operatorNamespace=default', (map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen webhook.listen health.listen
			metrics.listen scheduler.listen)), @sets]);
}

api('POST', '/api/v1/namespaces/default/serviceaccounts', { apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => 'asker' } });
my $daemon = operator('proxy,webhook', 'metrics.secure=true', 'proxy.page=full', 'proxy.controllerAccounts=system:serviceaccount:default:asker',
	'controllers=127.0.0.1:' . $sim->port('vipu0'));
wait_until('the daemon is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
spit("$dir/ca.pem", decode_base64(api('GET', '/api/v1/namespaces/default/secrets/ipu-operator-certificates')->{data}{'ca.crt'}));

my $client_pid = open2(my $from_client, my $to_client, $python, "$FindBin::Bin/lib/webhook_client.py", '--ca', "$dir/ca.pem");
$to_client->autoflush(1);

sub client (%command) {
	print {$to_client} json_encode(\%command) . "\n";
	my $line = <$from_client> // die "the client has ended\n";
	return json_decode($line);
}

# ---- the listeners, each with a request that it answers with 200 ----

# ipuctl's own, for a browser on this machine.
my $ui = start('ipuctl', ports => 0, env => { IPU_CLOCK_PAGE => $page }, args => [ 'ui', '--no-browser', '--server', $daemon->url('proxy', '') ]);
wait_until("the address of ipuctl's", sub { ($ui->out // '') =~ /\n/ }, while_alive => [$ui]);
my ($ui_port, $ui_key) = $ui->out =~ m{:(\d+)/([0-9a-f]+)/} or die 'its address: ' . $ui->out;

my $review = json_encode({ apiVersion => 'admission.k8s.io/v1', kind => 'AdmissionReview', request => { uid => 'u', operation => 'DELETE',
	resource => { group => '', version => 'v1', resource => 'pods' }, kind => { group => '', version => 'v1', kind => 'Pod' } } });
my %listener = (
	proxy => { path => '/stats', most => 65_536 },
	'proxy-tls' => { path => '/v1/partitions', most => 65_536, secure => 1, fields => 'Authorization: Bearer ' . token('ipu-operator-proxy') . "\r\n" },
	webhook => { path => '/mutate-v1-pod', most => 7 << 20, secure => 1, method => 'POST', body => $review },
	health => { path => '/healthz', most => 65_536 },
	metrics => { path => '/metrics', most => 65_536, secure => 1, fields => 'Authorization: Bearer ' . token() . "\r\n" },
	scheduler => { path => '/scheduler/filter', most => 2 << 20, secure => 1, method => 'POST', body => '{"Pod":{},"NodeNames":[]}' },
	ui => { path => "/$ui_key/page.css", most => 65_536, host => "Host: 127.0.0.1:$ui_port\r\n", port => $ui_port, head => 66_000 },
);

sub port_of ($name) { return 0 + ($listener{$name}{port} // $daemon->port($name)) }
sub long ($name) { return 'x' x ($listener{$name}{head} // 17_000) } # more than a head may have
sub tls ($name) { return $listener{$name}{secure} ? '1.3' : 'none' }

# A request of that listener's, with something else: path, version, host (its whole line), fields, body.
sub request ($name, %other) {
	my $l = $listener{$name};
	my $method = $other{method} // $l->{method} // 'GET';
	my $body = $other{body} // $l->{body} // '';
	my $length = exists $other{body} || $body eq '' ? '' : 'Content-Length: ' . length($body) . "\r\n";
	return "$method " . ($other{path} // $l->{path}) . ' ' . ($other{version} // 'HTTP/1.1') . "\r\n" . ($other{host} // $l->{host} // "Host: localhost\r\n")
		. ($l->{fields} // '') . "Connection: close\r\n" . $length . ($other{fields} // '') . "\r\n$body";
}

my $smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Evil: 1\r\n\r\n";
my $chunked = "Transfer-Encoding: chunked\r\n";

# What, the status, and what is other about the request (a hash, or code that gets the listener's).
my @rows = (
	# Where a request ends.
	[ 'both framings', 400, { fields => "Content-Length: 5\r\n$chunked", body => "0\r\n\r\n$smuggled" } ],
	[ 'both framings, the other way round', 400, { fields => "${chunked}Content-Length: 5\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'two lengths', 400, { fields => "Content-Length: 0\r\nContent-Length: 5\r\n", body => $smuggled } ],
	[ 'the same length twice', 400, { fields => "Content-Length: 0\r\nContent-Length: 0\r\n", body => $smuggled } ],
	[ 'a list of lengths', 400, { fields => "Content-Length: 0, 0\r\n", body => $smuggled } ],
	[ 'a length with a sign', 400, { fields => "Content-Length: +0\r\n", body => $smuggled } ],
	[ 'a length over 64 bits', 400, { fields => "Content-Length: 18446744073709551616\r\n", body => $smuggled } ],
	[ 'a blank before the colon', 400, { fields => "Transfer-Encoding : chunked\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'chunked twice', 400, { fields => $chunked x 2, body => "0\r\n\r\n$smuggled" } ],
	[ 'chunked, but not last', 400, { fields => "Transfer-Encoding: chunked, identity\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'something like chunked', 501, { fields => "Transfer-Encoding: xchunked\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'gzip as a transfer coding', 501, { fields => "Transfer-Encoding: gzip, chunked\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'chunked in HTTP/1.0', 400, { version => 'HTTP/1.0', fields => $chunked, body => "0\r\n\r\n$smuggled" } ],
	[ 'a folded line', 400, { fields => "X: a\r\n b\r\n", body => '' } ],
	[ 'a folded framing', 400, { fields => "Transfer-Encoding:\r\n chunked\r\n", body => "0\r\n\r\n$smuggled" } ],
	[ 'LF alone', 400, sub ($name) { request($name) =~ s/\r\n/\n/gr } ],
	[ 'LF alone behind a field', 400, { fields => "X: a\n", body => '' } ],
	[ 'CR alone in a value', 400, { fields => "X: a\rX-Evil: 1\r\n", body => '' } ],
	[ 'NUL in a value', 400, { fields => "X: a\0b\r\n", body => '' } ],
	[ 'a chunk\'s size that is none', 400, { fields => $chunked, body => "zz\r\n$smuggled" } ],
	[ 'a chunk\'s size with 0x', 400, { fields => $chunked, body => "0x5\r\n$smuggled" } ],
	[ 'LF alone behind a chunk\'s size', 400, { fields => $chunked, body => "0\n\n$smuggled" } ],
	[ 'a chunk that is longer than it says', 400, { fields => $chunked, body => "1\r\nab\r\n0\r\n\r\n$smuggled" } ],

	# Whom and what it is for.
	[ 'no host', 400, { host => '' } ],
	[ 'two hosts', 400, { host => "Host: localhost\r\nHost: evil.example\r\n" } ],
	[ 'a host that is a path', 400, { host => "Host: localhost/x\r\n" } ],
	[ 'HTTP/2', 505, sub ($name) { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" } ],
	[ 'an unknown method', 501, { method => 'FROB' } ],
	[ 'CONNECT', 501, { method => 'CONNECT', path => 'evil.example:443' } ],
	[ 'another expectation', 417, { fields => "Expect: tea\r\n" } ],
	[ 'TLS within', 400, sub ($name) { "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" } ],

	# Paths that would be others if somebody tidied them up.
	(map { my $trick = $_; [ "the path $trick->[0]", qr/^40[045]$/, sub ($name) { request($name, path => $trick->[1]->($listener{$name}{path})) } ] }
		[ 'behind ..', sub ($p) { "/..$p" } ], [ 'out of a folder', sub ($p) { "/x/..$p" } ], [ 'behind escaped dots', sub ($p) { "/%2e%2e$p" } ],
		[ 'behind .', sub ($p) { "/.$p" } ], [ 'behind a second slash', sub ($p) { "/$p" } ], [ 'with a slash at its end', sub ($p) { "$p/" } ],
		[ 'with another at its end', sub ($p) { "$p/.." } ], [ 'with an escaped slash', sub ($p) { '/' . substr($p, 1) =~ s{^(\w)}{%2f$1}r } ],
		[ 'without a slash', sub ($p) { substr $p, 1 } ], [ 'with an escaped slash alone', sub ($p) { '%2f' . substr $p, 1 } ],
		[ 'with a NUL', sub ($p) { "$p%00" } ], [ 'with half an escape', sub ($p) { "$p%2" } ], [ 'with an escape that is none', sub ($p) { "$p%zz" } ],
		[ 'with a parameter', sub ($p) { "$p;x" } ], [ 'with backslashes', sub ($p) { $p =~ tr{/}{\\}r } ], [ 'in capitals', sub ($p) { uc $p } ],
		[ 'with a blank', sub ($p) { "$p%20" } ], [ 'with a fragment', sub ($p) { "$p#x" } ],
		[ 'that would begin a line', sub ($p) { "$p%0d%0aX-Evil:%201" } ], [ 'that would end a head', sub ($p) { "$p%0d%0a%0d%0aHTTP/1.1%20200%20OK" } ]),

	# Too much.
	[ 'a line that is too long', qr/^4(?:14|31)$/, sub ($name) { request($name, path => "$listener{$name}{path}?" . long($name)) } ],
	[ 'a field that is too long', 431, sub ($name) { request($name, fields => 'X: ' . long($name) . "\r\n") } ],
	[ 'a name that is too long', 431, sub ($name) { request($name, fields => long($name) . ": 1\r\n") } ],
	[ 'too many fields', 431, { fields => "X: 1\r\n" x 200 } ],
	[ 'a length that is too large', 413, sub ($name) { request($name, fields => 'Content-Length: ' . ($listener{$name}{most} + 1) . "\r\n", body => '') } ],
	[ 'the same, asking first', 413, sub ($name) { request($name, body => '',
		fields => 'Content-Length: ' . ($listener{$name}{most} + 1) . "\r\nExpect: 100-continue\r\n") } ],
	[ 'chunks that are too much', 413, sub ($name) { request($name, fields => $chunked, body => sprintf("%x\r\n%s", $listener{$name}{most} + 1,
		'x' x ($listener{$name}{most} + 1))) } ],
	[ 'an extension of a chunk without an end', 400, sub ($name) { request($name, fields => $chunked, body => '1;' . long($name)) } ],
	[ 'trailers without an end', 400, sub ($name) { request($name, fields => $chunked, body => "0\r\nX: " . long($name)) } ],

	# Packed.
	(map { [ "Content-Encoding: $_", 415, { fields => "Content-Encoding: $_\r\nContent-Length: 3\r\n", body => "\x1f\x8b\x08" } ] }
		'gzip', 'identity, gzip', 'x', "identity\r\nContent-Encoding: gzip"),
);

for my $name (sort keys %listener) {
	subtest "the listener $name" => sub {
		my $port = port_of($name);
		my $good = client(do => 'talk', port => $port, tls => tls($name), text => request($name))->{text};
		like($good, qr{\AHTTP/1\.1 200 }, 'what it is there for') or diag($good);
		for my $row (@rows) {
			my ($what, $status, $other) = @$row;
			my $text = ref $other eq 'CODE' ? $other->($name) : request($name, body => '', %$other);
			my $got = client(do => 'talk', port => $port, tls => tls($name), text => $text);
			my ($code, @more) = ($got->{text} // '') =~ m{^HTTP/1\.1 (\d+) }mg;
			like($code // 'nothing', ref $status ? $status : qr/^$status$/, $what) or diag($got->{error} // $got->{text});
			ok(!@more && ($got->{text} // '') !~ /^X-Evil/mi, '... and nothing else is said') or diag($got->{text});
		}
		if ($listener{$name}{secure}) {
			my $old = client(do => 'open', as => 'old', port => $port, tls => '1.1');
			like($old->{error} // 'let in', qr/alert protocol version/i, 'TLS 1.1: its own alert');
		}
	};
}

subtest 'deep JSON' => sub {
	for my $row ([ 'proxy', '/query' ], [ 'proxy-tls', '/v1/partitions' ], [ 'scheduler', '/scheduler/filter' ]) {
		my ($name, $path) = @$row;
		my $deep = '[' x 60_000;
		my $got = client(do => 'talk', port => port_of($name), tls => tls($name), text => request($name, method => 'POST', path => $path,
			fields => "Content-Type: application/json\r\nContent-Length: 60000\r\n", body => $deep));
		like($got->{text}, qr{\AHTTP/1\.1 400 }, $name);
	}
};

# Time passes by the clock that the daemon shares with the test: a minute is no minute.
subtest 'peers that take their time' => sub {
	my @slow;
	for my $name (sort keys %listener) {
		my $port = port_of($name);
		my $head = request($name, fields => "Content-Length: 100\r\n", body => '');
		my ($half) = $head =~ /\A(.*?\r\nHost: .)/s; # what is fed to it then belongs to a name
		my @begun = ([ 'says nothing', 'none', '', qr/\A\z/ ], [ 'sends half a head', tls($name), $half, qr{\AHTTP/1\.1 408 } ],
			[ 'sends half a body', tls($name), "${head}x", qr{\AHTTP/1\.1 408 } ]);
		# The first bytes of a ClientHello.
		push @begun, [ 'sends half a handshake', 'none', "\x16\x03\x01\x00\xa5\x01", qr/\A\z/ ] if $listener{$name}{secure};
		for my $row (@begun) {
			my ($what, $tls, $text, $says) = @$row;
			my $as = "$name, who $what";
			client(do => 'open', as => $as, port => $port, tls => $tls);
			client(do => 'send', as => $as, text => $text) if length $text;
			push @slow, { as => $as, says => $says, feeds => scalar($what =~ /head$|body/) };
		}
	}
	for (1 .. 13) {
		later(5_000);
		client(do => 'send', as => $_->{as}, text => 'x') for grep { $_->{feeds} } @slow; # in vain, later on
	}
	for my $peer (@slow) {
		my $rest = client(do => 'rest', as => $peer->{as});
		like($rest->{text} // "it isn't: $rest->{error}", $peer->{says}, "$peer->{as}, is let go");
		client(do => 'close', as => $peer->{as});
	}
	is(http('GET', $daemon->url('health', '/healthz'))->{status}, 200, 'the others are answered');
};

$ui->stop;
$daemon->stop;

# ---- V-IPU controllers that flood who calls them ----

sub frame ($type, $flags, $stream, $payload) {
	return substr(pack('N', length $payload), 1) . pack('CCN', $type, $flags, $stream) . $payload;
}
my $settings = frame(4, 0, 0, '');
my $informational = frame(1, 4, 1, "\x08\x03100");           # HEADERS: ":status: 100", spelt out
my $table_bomb = frame(1, 0, 1, "\x40\x01a\x7f\xa1\x1e" . 'b' x 4000); # one field of 4000 bytes into the table, then …
my @floods = (
	[ 'PING', frame(6, 0, 0, '12345678') ],
	[ 'answers to no PING', frame(6, 1, 0, '12345678') ],
	[ 'SETTINGS', $settings ],
	[ 'resets', frame(3, 0, 1, "\0\0\0\x08") ],
	[ 'empty DATA', frame(0, 0, 1, '') ],
	[ 'PRIORITY', frame(2, 0, 1, "\0\0\0\0\x10") ],
	[ 'windows', frame(8, 0, 0, "\0\0\0\x01") ],
	[ 'an unknown type', frame(0x77, 0, 0, 'x' x 10) ],
	[ 'informational answers', $informational ],
	[ 'CONTINUATION', frame(9, 0, 1, ''), frame(1, 0, 1, '') ],
	[ 'fields out of the table', frame(9, 0, 1, "\xbe" x 16_000), $table_bomb ],
	[ 'promises', frame(5, 4, 1, "\0\0\0\x02\x82") ],
	[ 'a frame without measure', "\xff\xff\xff\0\0\0\0\0\1" . 'x' x 4096 ],
	[ 'another protocol', "HTTP/1.1 400 Bad Request\r\n\r\n" ],
);

# Sends the flood, once there is a call, until the other side ends the connection, or this much has gone. True: it ended it.
sub flood ($peer, $first, $again, $most) {
	my ($in, $sent, $end, $begun) = ('', 0, time + 60, 0);
	my $out = $settings;
	local $SIG{PIPE} = 'IGNORE';
	$peer->blocking(0);
	while (time < $end && $sent < $most) {
		$out .= $again x (1 + 65_536 / length $again) if $begun && length $out < 65_536;
		my ($readable, $writable) = IO::Select->select(IO::Select->new($peer), length $out ? IO::Select->new($peer) : undef, undef, 5);
		if ($readable && @$readable) {
			my $n = sysread($peer, $in, 65_536, length $in);
			return $begun if defined $n ? $n == 0 : !$!{EAGAIN};
			# A call's HEADERS: stream 1 is open, and the flood begins.
			if (!$begun && $in =~ /\0.{2}\x01[\x04\x05\x24\x25]\0\0\0\x01/s) {
				$out .= $first;
				$begun = 1;
			}
		}
		next if !$writable || !@$writable;
		my $n = syswrite($peer, $out);
		return $begun if !defined $n && !$!{EAGAIN};
		substr($out, 0, $n // 0) = '';
		$sent += $n // 0;
	}
	return 0;
}

subtest 'controllers that flood' => sub {
	my @listening = map { IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1:0') // die "listen: $!\n" } @floods;
	my $called = operator('proxy', 'controllers=' . join(',', map { '127.0.0.1:' . $_->sockport } @listening));
	for my $i (0 .. $#floods) {
		my ($what, $again, $first) = @{ $floods[$i] };
		my $peer = wait_until("the daemon's call", sub { IO::Select->new($listening[$i])->can_read(0.1) && $listening[$i]->accept });
		ok(flood($peer, $first // '', $again, 32 << 20), "$what: the daemon hangs up");
		is(http('GET', $called->url('proxy', '/health'))->{status}, 200, '... and answers others');
		close($peer);
	}
	$called->stop;
};

close($to_client);
waitpid($client_pid, 0);
is($?, 0, 'the client ends well');
$sim->stop;
done_testing;
