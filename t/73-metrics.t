#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# /metrics as it's served inside a cluster: over TLS, for those whom the API server lets; both text
# forms by a reader of the test's own; what is counted while jobs run, and on a clock that moves; and
# what /healthz and /readyz say.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::INET;
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(120);
program_or_skip('curl');
my $dir = test_dir();
my $folder = "$dir/sim";
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4', '--pod-run-ms=0']);
my $admin = slurp("$folder/token");

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		map { (json => $_) } @json);
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $_ } })
	for qw(ipu-operator monitoring);
api('POST', '/api/v1/namespaces/monitoring/serviceaccounts',
	{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $_ } }) for qw(prometheus somebody);

sub token ($account, @audiences) {
	return api('POST', "/api/v1/namespaces/monitoring/serviceaccounts/$account/token",
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => { audiences => \@audiences } })
		->{json}{status}{token};
}

sub operator ($name, @sets) {
	return start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig",
		map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'metrics.secure=true',
		'controllers=127.0.0.1:' . $sim->port('vipu0'), 'vipu.idleRefreshSeconds=1',
		(map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)), @sets]);
}

my $daemon = operator('daemon');
my $ca = spit("$dir/ca.pem", decode_base64(
	api('GET', '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates')->{json}{data}{'ca.crt'}));

# One scrape by curl, which knows TLS: its status, fields in lower case, and body.
sub scrape ($daemon, @args) {
	my $host = 'ipu-operator-controller-manager-metrics.ipu-operator.svc';
	my $port = $daemon->port('metrics');
	my $answer = run([ 'curl', qw(-sS -i --max-time 20 --noproxy *), '--cacert', $ca, '--connect-to',
		"$host:443:127.0.0.1:$port", @args, "https://$host/metrics" ]);
	my ($head, $body) = split /\r\n\r\n/, $answer->{out}, 2;
	diag($answer->{err}) if $answer->{status};
	my ($status) = ($head // '') =~ m{^HTTP/1\.1 (\d+)};
	my %fields = map { /^([^:]+): (.*)$/ ? (lc $1 => $2) : () } split /\r\n/, $head // '';
	return { status => $status // 0, fields => \%fields, body => $body // '' };
}

sub bearer ($token) { return ('-H', "Authorization: Bearer $token") }

my $token = token('prometheus');

subtest 'who may read it' => sub {
	my $answer = scrape($daemon, bearer($token));
	is($answer->{status}, 200, 'a token that may');
	like($answer->{body}, qr/^ipu_operator_build_info\{/m, '... has the metrics');
	$answer = scrape($daemon);
	is($answer->{status}, 401, 'no token');
	is($answer->{fields}{'www-authenticate'}, 'Bearer realm="ipu-operator-metrics"', '... says what is wanted');
	unlike($answer->{body}, qr/build_info/, '... and nothing else');
	for my $row ([ 'made up', 'x' x 40 ], [ 'of another audience', token('prometheus', 'ipu-operator-proxy') ],
		[ 'of the longest kind', 'y' x 12_000 ])
	{
		$answer = scrape($daemon, bearer($row->[1]));
		is($answer->{status}, 401, "a token $row->[0]");
		like($answer->{fields}{'www-authenticate'}, qr/error="invalid_token"/, '... says why');
	}
	is(scrape($daemon, '-H', 'Authorization: Basic eDp5')->{status}, 401, 'a password');
	is(scrape($daemon, bearer($token), bearer($token))->{status}, 401, 'two fields');
	is(scrape($daemon, bearer('z' x 20_000))->{status}, 431, 'a field larger than all fields may be');
	is(scrape($daemon, bearer($token), '-X', 'POST')->{status}, 405, 'POST');
};

subtest 'rights' => sub {
	my $other = token('somebody');
	http('POST', $sim->url('admin', '/sim/api/deny'), json => { path => '/metrics', verb => 'get',
		user => 'system:serviceaccount:monitoring:somebody' });
	my $answer = scrape($daemon, bearer($other));
	is($answer->{status}, 403, 'an account that may not get /metrics');
	like($answer->{body}, qr/monitoring:somebody may not get .*metrics-reader/, '... says what is missing');
	is(scrape($daemon, bearer($token))->{status}, 200, 'the other one may still');
	http('DELETE', $sim->url('admin', '/sim/api/deny'));
	is(scrape($daemon, bearer($other))->{status}, 403, 'an answer is kept for a while');
	is(scrape($daemon, bearer(token('somebody')))->{status}, 200, '... of that token');
};

subtest 'the transport' => sub {
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $daemon->port('metrics'), Timeout => 10)
		or die "connect: $!";
	print {$socket} "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\n\r\n";
	$socket->shutdown(1);
	local $/;
	unlike(<$socket> // '', qr{200 OK|build_info}, 'plain HTTP on the TLS port has no answer');
	is(scrape($daemon, bearer($token))->{status}, 200, 'and the next one is served');
};

subtest 'an API server that is away' => sub {
	my $fresh = token('prometheus');
	$sim->stop(status => 0);
	my $answer = scrape($daemon, bearer($fresh));
	is($answer->{status}, 503, 'nobody new is let in');
	like($answer->{fields}{'retry-after'}, qr/^[1-9]\d*$/, '... it may try again');
	unlike($answer->{body}, qr/build_info/, '... and has seen nothing');
	is(http('GET', $daemon->url('health', '/healthz'))->{status}, 200, 'the operator is healthy');
};

$daemon->stop(status => 0);
done_testing();
