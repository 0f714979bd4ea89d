#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-launcher as a program: that it's static and small, and its GET over other people's TLS (Python's
# OpenSSL, s_server), with all that can be wrong with certificates, tokens, servers and options.

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

my $launcher = program('ipu-launcher');
my $openssl = program_or_skip('openssl');
my $python = '/usr/bin/python3';
-x $python or plan skip_all => 'no python3 on this machine (./setup --tests)';
my $dir = test_dir();

sub launcher {
	my ($args, %options) = @_;
	return run([$launcher, @$args], name => 'ipu-launcher', %options);
}

sub fails {
	my ($what, $done, $status, $message) = @_;
	is($done->{status}, $status, "$what: exit status $status");
	like($done->{err}, $message, "$what: says so");
	is(() = $done->{err} =~ /\n/g, 1, "$what: in one line");
	is($done->{out}, '', "$what: prints nothing");
	return;
}

# ---- what it is ----

subtest 'static and small' => sub {
	my ($flags) = slurp("$ENV{TOP_BUILDDIR}/Makefile") =~ /^IPU_STATIC_LDFLAGS = *(\S*)/m;
	plan skip_all => 'this build has a dynamic launcher (sanitizers)' if !$flags;
	my $readelf = program_or_skip('readelf');
	my $strip = program_or_skip('strip');
	my $headers = run([$readelf, '-lW', $launcher])->{out};
	like($headers, qr/LOAD/, 'an ELF program');
	unlike($headers, qr/INTERP/, 'without a dynamic loader');
	unlike(run([$readelf, '-dW', $launcher])->{out}, qr/NEEDED/, 'without libraries');
	is(run([$strip, '-o', "$dir/stripped", $launcher])->{status}, 0, 'stripped');
	cmp_ok(-s "$dir/stripped", '<', 3_000_000, 'under 3 MB');
	# Nothing but itself in its world.
	my $done = run([$launcher, '--version'], env => {map { $_ => undef } grep { !/SAN_OPTIONS/ } keys %ENV});
	like($done->{out}, qr/^ipu-launcher \d/, 'runs without an environment');
};

# ---- certificates ----

sub openssl_run {
	my (@args) = @_;
	my $done = run([$openssl, @args], name => 'openssl');
	$done->{status} == 0 or die "openssl @args: $done->{err}\n";
	return;
}

sub make_cert {
	my ($name, $ca, @names) = @_;
	my @kind = $name eq 'rsa' ? 'rsa:2048' : ('ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1');
	my @key = ('-newkey', @kind, '-nodes', '-subj', "/CN=$name",
		'-keyout', "$dir/$name.key");
	if (!$ca) {
		openssl_run('req', '-x509', '-days', 30, @key, '-out', "$dir/$name.pem");
		return;
	}
	openssl_run('req', @key, '-out', "$dir/$name.csr");
	spit("$dir/$name.ext", 'subjectAltName=' . join(',', @names) . "\n");
	openssl_run(qw(x509 -req -days 30 -CAcreateserial), '-in', "$dir/$name.csr", '-CA', "$dir/$ca.pem",
		'-CAkey', "$dir/$ca.key", '-extfile', "$dir/$name.ext", '-out', "$dir/$name.pem");
	return;
}

make_cert('ca');
make_cert('other-ca');
make_cert('server', 'ca', 'DNS:localhost', 'IP:127.0.0.1');
make_cert('rsa', 'ca', 'DNS:localhost', 'IP:127.0.0.1');
make_cert('elsewhere', 'ca', 'DNS:api.example', 'DNS:www.example');

sub start_peer {
	my ($cert, @options) = @_;
	return start('tls_peer.py', path => $python, args => ["$FindBin::Bin/lib/tls_peer.py",
		"--cert=$dir/$cert.pem", "--key=$dir/$cert.key", @options]);
}

my $peer = start_peer('server');
my $port = $peer->port('https');
my $url = "https://127.0.0.1:$port";
my @get = ('get', '--ca', "$dir/ca.pem");

# ---- what it fetches ----

for my $row (
	['/', "hello\n", 'a body'],
	['/chunked', 'one two three', 'in chunks'],
	['/version', "TLSv1.3\n", 'TLS 1.3'],
	['/token', 'none', 'without a token'],
	['/large', join('', map { chr($_ * 7 % 251) } 0 .. (1 << 20) - 1), 'a megabyte'],
) {
	my ($path, $want, $what) = @$row;
	my $done = launcher([@get, "$url$path"]);
	is($done->{status}, 0, "$what: exit status 0") or diag($done->{err});
	ok($done->{out} eq $want, "$what: as it was sent");
	is($done->{err}, '', "$what: nothing to complain about");
}
is(launcher([@get, "https://localhost:$port/"])->{out}, "hello\n", 'by name, from the hosts file');

spit("$dir/token", "  secret-token\n");
is(launcher([@get, '--token-file', "$dir/token", "$url/token"])->{out}, 'Bearer secret-token', 'a token');

my $tls12 = start_peer('server', '--tls12');
is(launcher([@get, 'https://127.0.0.1:' . $tls12->port('https') . '/version'])->{out}, "TLSv1.2\n", 'TLS 1.2');
$tls12->stop(status => 143);

# Which keys, versions and suites the two agree on; OpenSSL takes a client's order unless it's told to prefer its own, as
# Python does.
my $fast_aes = slurp('/proc/cpuinfo') =~ /^flags\s*:.* aes .*pclmulqdq|^flags\s*:.* pclmulqdq .*aes/m;
my ($rsa12, $rsa13) = map { start_peer('rsa', '--client-order', @$_) } ['--tls12'], [];
my ($ec12, $ec13) = map { start_peer('server', '--client-order', @$_) } ['--tls12'], [];
for my $row (
	[$rsa12, 'RSA, TLS 1.2', 'TLSv1.2', 'ECDHE-RSA-AES128-GCM-SHA256'], [$rsa13, 'RSA, TLS 1.3', 'TLSv1.3', 'TLS_AES_128_GCM_SHA256'],
	[$ec12, 'ECDSA, TLS 1.2', 'TLSv1.2', 'ECDHE-ECDSA-AES128-GCM-SHA256'], [$ec13, 'ECDSA, TLS 1.3', 'TLSv1.3', 'TLS_AES_128_GCM_SHA256'],
) {
	my ($server, $what, $version, $suite) = @$row;
	my $to = 'https://127.0.0.1:' . $server->port('https');
	is(launcher([@get, "$to/version"])->{out}, "$version\n", "$what: reached");
	like(launcher([@get, "$to/cipher"])->{out}, $fast_aes ? qr/^\Q$suite\E$/ : qr/CHACHA20/, '... with the suite that is fast here');
	$server->stop(status => 143);
}
my $own_order = start_peer('rsa', '--tls12');
fails('RSA-PSS in TLS 1.2', launcher([@get, 'https://127.0.0.1:' . $own_order->port('https') . '/']), 1,
	qr/sign with RSA-PSS in TLS 1\.2/);
$own_order->stop(status => 143);
my $old = start_peer('rsa', '--tls11');
fails('TLS 1.1', launcher([@get, 'https://127.0.0.1:' . $old->port('https') . '/']), 1, qr/protocol version|without TLS's goodbye|closed/);
$old->stop(status => 143);

# ---- what can be wrong out there ----

fails('an answer of 404', launcher([@get, "$url/nowhere"]), 1, qr/404 Not Found.*nothing here/);
fails('a Kubernetes Status', launcher([@get, "$url/denied"]), 1, qr/403 Forbidden: pods is forbidden$/);
spit("$dir/long-token", "an-opaque-token-of-ours\n");
fails('one that says our token', launcher([@get, '--token-file', "$dir/long-token", "$url/says"]), 1, qr/^ipu-launcher: 403 Forbidden: not for$/);
fails('a proxy that does', run([$launcher, 'partition', '--ipus', 2, '--ca', "$dir/ca.pem", '--output', "$dir/conf", '--token-file', "$dir/long-token", $url],
	env => {IPU_POD_NAMESPACE => 'default', IPU_POD_NAME => 'p', IPU_POD_UID => 'u'}), 1, qr/^ipu-launcher: 403 Forbidden: not for$/);
fails('an answer cut short', launcher([@get, "$url/cut"]), 1, qr/127\.0\.0\.1:$port/);
fails('another authority', launcher(['get', '--ca', "$dir/other-ca.pem", "$url/"]), 1,
	qr/certificate of 127\.0\.0\.1:$port is signed by an unknown authority \(CN=ca\)/);
fails("the system's authorities", launcher(['get', "$url/"]), 1, qr/unknown authority/) if -e '/etc/ssl/certs/ca-certificates.crt';
fails('nobody there', launcher([@get, 'https://127.0.0.1:1/']), 1, qr/127\.0\.0\.1:1: Connection refused/);

my $elsewhere = start_peer('elsewhere');
fails('a certificate for others', launcher([@get, 'https://localhost:' . $elsewhere->port('https') . '/']), 1,
	qr/is for api\.example, www\.example, not for localhost/);
$elsewhere->stop(status => 143);

my $strict = start_peer('server', "--client-ca=$dir/ca.pem");
fails('a server that wants a certificate', launcher([@get, 'https://127.0.0.1:' . $strict->port('https') . '/']),
	1, qr/TLS alert 116 \(certificate required\)/);
$strict->stop(status => 143);

# ---- time, which the test holds ----

sub write_clock {
	my ($mono_ms, $wall_ms) = @_;
	spit("$dir/clock", '') if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!\n";
	syswrite($out, pack('a8 q<7', "\0IPUCLK1", 0, 1, $mono_ms, $wall_ms, 0, 0, 0));
	close($out);
	return;
}

my $day_ms = 86_400_000;
my $now_ms = time() * 1000;
my %clock = (env => {IPU_CLOCK_PAGE => "$dir/clock"});
write_clock(1000, $now_ms);
is(launcher([@get, "$url/"], %clock)->{out}, "hello\n", 'on a frozen clock');
write_clock(1000, $now_ms + 40 * $day_ms);
fails('a certificate that has expired by then', launcher([@get, "$url/"], %clock), 1, qr/has expired \(\d{4}-/);
write_clock(1000, $now_ms - 40 * $day_ms);
fails('one that is not valid yet', launcher([@get, "$url/"], %clock), 1, qr/isn't valid yet \(from \d{4}-/);

write_clock(1000, $now_ms);
my $waiting = start('ipu-launcher', path => $launcher, args => [@get, '--timeout=20', "$url/silent"],
	ports => 0, %clock);
wait_until('the request to arrive', sub { $peer->out =~ m{GET /silent} });
ok($waiting->is_alive, 'a silent server is waited for');
write_clock(21_001, $now_ms + 20_001);
wait_until('the launcher to give up', sub { !$waiting->is_alive }, while_alive => [$peer]);
like($waiting->err, qr/127\.0\.0\.1:$port/, 'until its time is over, as the message says');
$waiting->stop(status => 1);

# ---- what can be wrong in here ----

spit("$dir/empty", "\n");
spit("$dir/clock-bad", 'x');
for my $row (
	[[], qr/^usage: /m, 'no command'],
	[['nonsense'], qr/there is no command "nonsense"/, 'an unknown command'],
	[['get'], qr/exactly one URL is wanted/, 'no URL'],
	[['get', 'a', 'b'], qr/exactly one URL is wanted/, 'two URLs'],
	[['get', '--nonsense', 'x'], qr/there is no option --nonsense/, 'an unknown option'],
	[['get', '-xy', 'x'], qr/there is no option -x /, '... of one letter, with others'],
	[['get', '--ca'], qr/--ca needs a value/, 'an option without its value'],
	[['get', '--timeout', '0', "$url/"], qr/--timeout: /, 'a timeout of nothing'],
	[['get', 'ftp://example/'], qr/get: .*ftp/, 'no such scheme'],
	[['get', '--ca', "$dir/none", "$url/"], qr{\Q$dir\E/none: No such file or directory}, 'no such CA file'],
	[['get', '--ca', "$dir/empty", "$url/"], qr/no PEM certificate/, 'an empty CA file'],
	[[@get, '--token-file', "$dir/none", "$url/"], qr{--token-file: \Q$dir\E/none: No such file}, 'no such token'],
	[[@get, '--token-file', "$dir/empty", "$url/"], qr/there is no token in it/, 'an empty token'],
	[[@get, '--token-file', "$dir/token", "http://127.0.0.1:$port/"], qr/over https only/, 'a token in the open'],
) {
	my ($args, $message, $what) = @$row;
	my $done = launcher($args);
	is($done->{status}, 2, "$what: exit status 2");
	like($done->{err}, $message, "$what: says so");
	is($done->{out}, '', "$what: prints nothing");
}
is(launcher([@get, "$url/"], env => {IPU_CLOCK_PAGE => "$dir/clock-bad"})->{status}, 2, 'a broken clock page');
like(launcher(['--help'])->{out}, qr/get \[--ca FILE\]/, 'help');
$peer->stop(status => 143);

# ---- s_server, whose page ends with the connection and not with a length ----

my $s_server = start('openssl', path => $openssl, ports => 0, args => ['s_server', '-www', '-accept',
	'127.0.0.1:0', '-cert', "$dir/server.pem", '-key', "$dir/server.key"]);
my $s_port = wait_until('s_server to listen', sub { ($s_server->out // '') =~ /^ACCEPT \S+:(\d+)$/m ? $1 : 0 });
my $page = launcher([@get, "https://127.0.0.1:$s_port/"]);
is($page->{status}, 0, 's_server') or diag($page->{err});
like($page->{out}, qr/Ciphers supported in s_server/, "s_server's page");
$s_server->stop(status => 143);

done_testing();
