#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The daemon as a client of an API server, and of a V-IPU controller, that offers TLS 1.1 at most, or answers in plain text where TLS was
# asked for: neither is spoken with, and no token or key leaves. TLS 1.2 by the same peer is.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Select ();
use IO::Socket::INET ();
use IpuTest;
use MIME::Base64 qw(encode_base64);
use Test::More;

watchdog(120);
my $python = program_or_skip('python3');
my $openssl = program_or_skip('openssl');
my $dir = test_dir();
my ($token, $key) = map { "$_-that-nobody-may-see" } qw(token key);
my @listeners = map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen);

my $made = run([ $openssl, qw(req -x509 -days 30 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=peer -addext),
	'subjectAltName=IP:127.0.0.1', '-keyout', "$dir/peer.key", '-out', "$dir/peer.pem" ], name => 'openssl');
is($made->{status}, 0, 'a certificate') or BAIL_OUT($made->{err});

sub peer (@options) {
	return start('tls_peer.py', path => $python, args => [ "$FindBin::Bin/lib/tls_peer.py", "--cert=$dir/peer.pem", "--key=$dir/peer.key", @options ]);
}

# Answers whatever comes in plain text, and keeps it.
my $heard = '';
my $plain = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1:0') // die "listen: $!\n";
my $select = IO::Select->new($plain);

sub answer_plainly {
	for my $socket ($select->can_read(0)) {
		if ($socket == $plain) {
			$select->add($plain->accept // next);
		} elsif (sysread $socket, $heard, 65536, length $heard) {
			syswrite $socket, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
		} else {
			$select->remove($socket);
		}
	}
	return;
}

# ---- as the API server ----

sub operator ($port) {
	spit("$dir/kubeconfig", json_encode({ apiVersion => 'v1', kind => 'Config', 'current-context' => 'x',
		clusters => [ { name => 'c', cluster => { server => "https://127.0.0.1:$port", 'certificate-authority' => "$dir/peer.pem" } } ],
		users => [ { name => 'u', user => { token => $token } } ], contexts => [ { name => 'x', context => { cluster => 'c', user => 'u' } } ] }));
	return start('ipu-operator', args => [ '--kubeconfig', "$dir/kubeconfig", '--set', 'operatorNamespace=ops', @listeners ]);
}

subtest 'an API server of TLS 1.2' => sub {
	my $peer = peer('--tls12');
	my $daemon = operator($peer->port('https'));
	wait_until('a request', sub { $peer->out =~ /^GET \/api/m }, while_alive => [$daemon]);
	pass('is asked');
	$_->stop(status => $_ == $peer ? 143 : 0) for $daemon, $peer;
};

subtest 'an API server of TLS 1.1' => sub {
	my $peer = peer('--tls11');
	my $daemon = operator($peer->port('https'));
	wait_until('it to be refused', sub { $daemon->err =~ /TLS|closed/ }, while_alive => [$daemon]);
	like($daemon->err, qr/(?:WARN|ERROR).*(?:protocol version|without TLS's goodbye|during the TLS handshake)/, 'the log says why');
	is($peer->out, '', 'nothing is asked');
	is(http(GET => $daemon->url('health', '/readyz'))->{status}, 503, 'and the daemon not ready');
	$_->stop(status => $_ == $peer ? 143 : 0) for $daemon, $peer;
};

subtest 'an API server in plain text' => sub {
	$heard = '';
	my $daemon = operator($plain->sockport);
	wait_until('it to be refused', sub { answer_plainly(); $daemon->err =~ /doesn't speak TLS/ }, while_alive => [$daemon]);
	like($heard, qr/\A\x16\x03/, "it's greeted by TLS");
	unlike($heard, qr/\Q$token\E|GET |PRI /, '... and not asked, least of all with a token');
	$daemon->stop;
};

# ---- as a V-IPU controller ----

my $sim = start('ipu-sim', args => [ '--dir', "$dir/sim" ]);

sub api ($path, $json) {
	return http(POST => $sim->url('api-plain', "/api/v1$path"), headers => { authorization => 'Bearer ' . slurp("$dir/sim/token") }, json => $json);
}
api('/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'ops' } });
is(api('/namespaces/ops/secrets', { apiVersion => 'v1', kind => 'Secret', metadata => { name => 'pod' }, data => {
	'ca.crt' => encode_base64(slurp("$dir/peer.pem"), ''), userId => encode_base64('user', ''), accessKey => encode_base64($key, '') } })->{status}, 201, 'a Secret');

sub with_controller ($port) {
	spit("$dir/controllers.yaml", "- {address: '127.0.0.1:$port', secretName: pod}\n");
	return start('ipu-operator', args => [ '--kubeconfig', "$dir/sim/kubeconfig", '--set', 'operatorNamespace=ops',
		'--set', "controllersFile=$dir/controllers.yaml", '--set', 'leaderElection.enabled=false', @listeners ]);
}

subtest 'a controller of TLS 1.1' => sub {
	my $peer = peer('--tls11');
	my $daemon = with_controller($peer->port('https'));
	wait_until('it to be refused', sub { $daemon->err =~ /controller doesn't answer/ }, while_alive => [$daemon]);
	like($daemon->err, qr/controller doesn't answer: .*(?:protocol version|without TLS's goodbye|during the TLS handshake)/, 'the log says why');
	is($peer->out, '', 'nothing is asked');
	$_->stop(status => $_ == $peer ? 143 : 0) for $daemon, $peer;
};

subtest 'a controller in plain text' => sub {
	$heard = '';
	my $daemon = with_controller($plain->sockport);
	wait_until('it to be refused', sub { answer_plainly(); $daemon->err =~ /controller doesn't answer: .*doesn't speak TLS/ }, while_alive => [$daemon]);
	like($heard, qr/\A\x16\x03/, "it's greeted by TLS");
	unlike($heard, qr/\Q$key\E|PRI /, '... and not asked, least of all with a key');
	$daemon->stop;
};

$sim->stop;
done_testing();
