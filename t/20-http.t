#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The HTTP server as others see it: by curl, by raw sockets, over TLS; slow, rude and leaving peers;
# its graceful end. The program is a small one of the tests' own.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use IO::Select ();
use IO::Socket::INET ();
use Socket qw(SOL_SOCKET SO_LINGER);
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

my $curl = program_or_skip('curl');
my $openssl = program_or_skip('openssl');
my $dir = test_dir();

my $made = run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2
	-subj /CN=localhost -addext), 'subjectAltName=DNS:localhost,IP:127.0.0.1',
	'-keyout', "$dir/key.pem", '-out', "$dir/cert.pem"]);
is($made->{status}, 0, 'a certificate') or diag($made->{err});

my $server = start('http_server_prog', path => program('t/unit/http_server_prog'),
	args => ["--cert=$dir/cert.pem", "--key=$dir/key.pem", '--header-ms=1500', '--idle-ms=2000']);
my $http = 'http://127.0.0.1:' . $server->port('http');
my $https = 'https://localhost:' . $server->port('https');

sub curl {
	my (@args) = @_;
	return run([$curl, qw(-sS --max-time 20 --noproxy *), @args]);
}

# ---- curl ----

for my $case (
	['plain', $http], ['TLS', $https, '--cacert', "$dir/cert.pem"],
	['HTTP/1.0', $http, '--http1.0'],
	['TLS 1.2', $https, '--cacert', "$dir/cert.pem", '--tls-max', '1.2'],
) {
	my ($name, $base, @args) = @$case;
	is(curl(@args, "$base/hello")->{out}, "hello\n", "$name: GET");
	my $head = curl(@args, '-I', "$base/hello")->{out};
	like($head, qr{\AHTTP/1\.1 200 OK\r\n.*Content-Length: 6\r\n}s, "$name: HEAD");
	like($head, qr{^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r$}m, "$name: with a date");
	is(curl(@args, '-d', 'a=b', "$base/echo")->{out}, 'a=b', "$name: POST");
	my $lines = curl(@args, "$base/stream?lines=20000")->{out};
	is($lines, join('', map { "line $_\n" } 0 .. 19999), "$name: a long stream");
}

my $untrusted = curl("$https/hello");
is($untrusted->{status}, 60, 'without the authority curl refuses the certificate');

spit("$dir/body", 'x' x (1 << 20));
is(curl('--tlsv1.0', '--tls-max', '1.1', '--ciphers', 'ALL:@SECLEVEL=0', '--cacert', "$dir/cert.pem", "$https/hello")->{status}, 35,
	'TLS 1.1 is refused');

my $echoed = curl('--data-binary', "\@$dir/body", "$http/echo");
is(length $echoed->{out}, 1 << 20, 'a body of the largest size');
$echoed = curl('-H', 'Transfer-Encoding: chunked', '--data-binary', "\@$dir/body", "$http/echo");
is(length $echoed->{out}, 1 << 20, 'the same in chunks (with Expect: 100-continue)');
spit("$dir/body", 'x' x ((1 << 20) + 1));
my $problem = curl('-w', "\n%{http_code} %{content_type}", '--data-binary', "\@$dir/body", "$http/echo");
like($problem->{out}, qr{\n413 application/problem\+json\z}, 'one byte more: 413');

my $twice = curl('-w', '%{num_connects} ', "$http/hello", "$http/hello");
is($twice->{out}, "hello\n1 hello\n0 ", 'the connection is kept');

for my $case (
	[404, 'Not Found', "$http/none"], [405, 'Method Not Allowed', '-X', 'DELETE', "$http/hello"],
	[501, 'Not Implemented', '-X', 'FROB', "$http/hello"],
	[431, 'Request Header Fields Too Large', '-H', 'A: ' . 'x' x 70000, "$http/hello"],
	[414, 'URI Too Long', "$http/" . 'x' x 20000],
	[417, 'Expectation Failed', '-H', 'Expect: tea', "$http/hello"],
) {
	my ($status, $title, @args) = @$case;
	my $answer = curl('-w', "\n%{http_code} %{content_type}", @args);
	my ($body, $code) = $answer->{out} =~ /\A(.*)\n([^\n]*)\z/s;
	is($code, "$status application/problem+json", "$title: the status");
	my $json = json_decode($body);
	is("$json->{status} $json->{title}", "$status $title", "$title: the body says so");
}
like(curl('-i', '-X', 'PUT', '-d', '', "$http/echo")->{out}, qr{^Allow: POST, OPTIONS\r$}m, '405 names what is allowed');

# ---- raw sockets ----

sub connect_raw {
	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port('http'), Timeout => 5)
		// die "connect: $!\n";
}

# All that comes until the server closes, or the time is over (then with "(open)" behind it).
sub read_all {
	my ($socket, $seconds) = @_;
	my ($text, $end) = ('', time() + ($seconds // 60));
	while (1) {
		my $left = $end - time();
		return "$text(open)" if $left <= 0 || !IO::Select->new($socket)->can_read($left);
		my $n = sysread($socket, $text, 65536, length $text);
		return "$text(reset)" if !defined $n;
		return $text if $n == 0;
	}
}

sub talk {
	my ($text) = @_;
	my $socket = connect_raw();
	syswrite($socket, $text);
	return read_all($socket);
}

my $close = "Connection: close\r\n";
my $pipelined = talk(join('', map { "GET /stream?lines=$_&ms=5 HTTP/1.1\r\nHost: x\r\n\r\n" } 3, 2, 1)
	. "GET /hello HTTP/1.1\r\nHost: x\r\n$close\r\n");
my @answers = $pipelined =~ m{\r\n\r\n(.*?)(?=HTTP/1\.1|\z)}gs;
is_deeply([map { scalar(() = /^line \d+$/mg) } @answers], [3, 2, 1, 0], 'pipelined answers in order');
like($answers[3], qr/\Ahello\n\z/, 'the last one too');

like(talk("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
	. "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"),
	qr{\AHTTP/1\.1 400 (?!.*HTTP/1\.1)}s, 'a smuggled request gets one 400 and no answer of its own');
like(talk("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), qr{\AHTTP/1\.1 505 }, 'another version: 505');
like(talk("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"), qr{\AHTTP/1\.1 400 }, 'TLS to the plain port');

# ---- slow, rude and leaving peers ----

my $slow = connect_raw();
my $began = time();
my $fed = 0;
while (time() - $began < 60) {
	last if !syswrite($slow, $fed++ ? 'a' : 'GET /');
	last if IO::Select->new($slow)->can_read(0.05);
}
like(read_all($slow), qr{\AHTTP/1\.1 408 Request Timeout\r\n}, 'a slow loris is told 408');
cmp_ok(time() - $began, '<', 50, 'in time, whatever it feeds');

my $mute = connect_raw();
is(read_all($mute), '', 'who says nothing is let go without a word');
my $idle = connect_raw();
syswrite($idle, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
like(read_all($idle), qr{hello\n\z}, 'an idle connection is closed in the end');

# One that leaves in the middle of a stream, by FIN and by RST.
for my $how ('close', 'reset') {
	my $before = json_decode(curl("$http/state")->{out});
	my $watcher = connect_raw();
	syswrite($watcher, "GET /stream?lines=1000000&ms=20 HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_until('the stream to run', sub { json_decode(curl("$http/state")->{out})->{open} == 1 });
	setsockopt($watcher, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) if $how eq 'reset';
	close($watcher);
	ok(wait_until('the abort', sub {
		json_decode(curl("$http/state")->{out})->{aborted} == $before->{aborted} + 1;
	}), "the handler learns of a $how");
}

# Hundreds of connections that do nothing don't keep one from being served.
my @flood = map { connect_raw() } 1 .. 400;
is(curl("$http/hello")->{out}, "hello\n", 'served beside 400 idle connections');
close($_) for @flood;

# ---- the end ----

my $streaming = connect_raw();
syswrite($streaming, "GET /stream?lines=20&ms=50 HTTP/1.1\r\nHost: x\r\n\r\n");
my $begun = '';
while ($begun !~ /line 0/) { sysread($streaming, $begun, 65536, length $begun) or last }
$server->signal('TERM');
like(read_all($streaming), qr{line 19\n\r\n0\r\n\r\n\z}, 'an answer that has begun is finished');
wait_until('the server to end', sub { !$server->is_alive }, while_alive => []);
$server->stop;

done_testing();
