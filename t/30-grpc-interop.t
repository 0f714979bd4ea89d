#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Our V-IPU client against a controller by the reference gRPC implementation (grpcio), and a client by
# it against our simulated controller: every method and field, errors, large and slow replies,
# deadlines, many calls at once, TLS with ALPN, credentials. The stubs come from our .proto.

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(270);
my $top = $ENV{TOP_SRCDIR} // "$FindBin::Bin/..";
my $python = '/usr/bin/python3';
-x $python && system("$python -c 'import grpc, grpc_tools' 2>/dev/null") == 0
	or plan skip_all => 'no grpcio for Python on this machine (./setup --tests)';
my $openssl = program_or_skip('openssl');
my $peer = program('t/tools/vipu-peer');
my $dir = test_dir();
my $stubs = "$dir/stubs";
mkdir $stubs or die "$stubs: $!\n";

my $made = run([$python, '-m', 'grpc_tools.protoc', "-I$top/src/vipu", "--python_out=$stubs",
	"--grpc_python_out=$stubs", 'vipu.proto'], name => 'protoc');
is($made->{status}, 0, 'our .proto is a valid proto3 with its services') or diag($made->{err});

# ---- certificates ----

sub openssl_run {
	my (@args) = @_;
	my $done = run([$openssl, @args], name => 'openssl');
	$done->{status} == 0 or die "openssl @args: $done->{err}\n";
	return;
}

openssl_run(qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=ca),
	'-keyout', "$dir/ca.key", '-out', "$dir/ca.pem");
openssl_run(qw(req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=vipu.test),
	'-keyout', "$dir/tls.key", '-out', "$dir/tls.csr");
spit("$dir/ext", "subjectAltName=DNS:vipu.test\n");
openssl_run(qw(x509 -req -days 30 -CAcreateserial), '-in', "$dir/tls.csr", '-CA', "$dir/ca.pem", '-CAkey',
	"$dir/ca.key", '-extfile', "$dir/ext", '-out', "$dir/tls.pem");

# ---- both directions ----

sub lines_of { return join '', map { json_encode($_) . "\n" } @_ }

# Our client's answers, in the order of the calls. What must be answered has a minute for it.
sub ask_with_ours {
	my ($address, $options, @calls) = @_;
	@calls = map { +{deadlineMs => 60_000, %$_} } @calls;
	my $done = run([$peer, @$options, $address], stdin => lines_of(@calls), name => 'vipu-peer', seconds => 120);
	is($done->{status}, 0, 'our client ends well') or diag($done->{err});
	my @answers = sort { $a->{call} <=> $b->{call} } map { json_decode($_) } split /\n/, $done->{out};
	is(@answers, @calls, 'every call is answered');
	return @answers;
}

sub ask_with_grpcio {
	my ($address, $options, @calls) = @_;
	my $done = run([$python, "$FindBin::Bin/lib/vipu_client.py", '--stubs', $stubs, @$options, $address],
		stdin => lines_of(@calls), name => 'vipu_client.py', seconds => 120);
	is($done->{status}, 0, "grpcio's client ends well") or diag($done->{err});
	my @answers = map { json_decode($_) } split /\n/, $done->{out};
	is(@answers, @calls, 'every call is answered');
	return @answers;
}

my $servers = 0;
sub start_grpcio {
	my (@options) = @_;
	my $log = "$dir/requests-" . ++$servers;
	my $server = start('vipu_server.py', path => $python,
		args => ["$FindBin::Bin/lib/vipu_server.py", '--stubs', $stubs, '--log', $log, @options]);
	return ($server, '127.0.0.1:' . $server->port('vipu'), $log);
}

# On a clock that stands still (core/clock.h: struct clock_page).
my $clock = "$dir/clock";
sub start_ours {
	my (@options) = @_;
	spit($clock, pack('a8 q<7', "\0IPUCLK1", 0, 1, 1_000_000, 1_700_000_000_000, 0, 0, 0));
	my $server = start('vipu-peer', path => $peer, args => \@options, env => {IPU_CLOCK_PAGE => $clock});
	return ($server, '127.0.0.1:' . $server->port('vipu'));
}

sub requests { return map { json_decode($_) } split /\n/, slurp($_[0]) }

my %partition = (cluster => 'c1', allocation => 'a1', ipuof => '1.11', ready => 'PS_ACTIVE',
	routing => 4, gw => 3, sync => 'ST_POD_NATIVE_DEFAULT', gcds => 2,
	segments => 1, replicas => 3, reconfigurable => JSON::PP::true);
my %bare = (cluster => '', allocation => '', ipuof => '', ready => 'PS_UNDEFINED',
	routing => 0, gw => 0, sync => 'ST_UNDEFINED', gcds => 0, segments => 0,
	replicas => 0, reconfigurable => JSON::PP::false, ipus => [], id => 'bare');
my %device = (ip => '10.0.0.1', server_port => 1, rdma_port => 2, device_id => 3, ipulink_segment_id => 4,
	routing_id => 5, ipu_arch_id => 6, ipu_id => 7, chip_id => '8', gwsw_version => '9',
	ipum_sw_version => '10');

sub gcd { return {attributes => {'GCD Id' => "$_[0]"}, devices => [\%device]} }

subtest 'our client: every method and field' => sub {
	my ($server, $address, $log) = start_grpcio();
	my @answers = ask_with_ours($address, [],
		{method => 'GetVersion'},
		{method => 'ListPartitions'},
		{method => 'ListPartitions', allocation => 'none'},
		{method => 'ListIPUAttributes'},
		{method => 'ListIPUAttributes', agents => ['ag9']},
		{method => 'CreatePartition', id => 'p-1', size => 16, cluster => 'c1', routing => 3, segments => 2,
			gw => 2, sync => 1, gcds => 4, reconfigurable => JSON::PP::true, replicas => 8,
			allocation => 'pool', ipus => [5, 9], disableAutoReset => JSON::PP::true,
			relocatable => JSON::PP::true},
		{method => 'CreatePartition', id => 'p-2', size => 1},
		{method => 'RemovePartition', id => 'p-1', force => JSON::PP::true},
		{method => 'RemovePartition', id => 'p-2'},
		{method => 'ResetPartition', id => 'p-1', relocatable => JSON::PP::true},
		{method => 'GetPartitionStatus', id => 'p-1'},
		{method => 'GetPartitionIpuofConfig', id => 'p-1'},
		{method => 'GetPartitionIpuofConfig', id => 'p-1', gcd => 0},
		{method => 'GetPartitionIpuofConfig', id => 'p-1', gcd => 7});
	my @reply = map { $_->{reply} } @answers;
	is($reply[0], '1.18.0-пи', 'GetVersion');
	is_deeply($reply[1], [\%bare, map { my $n = $_; +{%partition, id => "p-$n",
		ipus => [map { "$n/1/$_/" . ($_ + 100) } 0 .. 3]} } 0, 1],
		'ListPartitions: by their ids, whatever order the server has');
	is_deeply($reply[2], [\%bare], 'ListPartitions of an allocation');
	my $attributes = sub { my ($agent) = @_;
		+{map { $_ => {board => "$agent.$_", empty => ''} } 0, 3, 4000000000} };
	is_deeply($reply[3], {map { $_ => $attributes->($_) } 'ag1', 'ag2'}, 'ListIPUAttributes');
	is_deeply($reply[4], {ag9 => $attributes->('ag9')}, 'ListIPUAttributes of some agents');
	is($reply[5], 'p-1', 'CreatePartition');
	is_deeply($reply[$_], {}, "an empty reply ($_)") for 7, 8, 9;
	is_deeply($reply[10], {id => 'p-1', ready => 'PS_ERROR', operation => 'POS_FAILED',
		errors => ['first', 'zweite Ü'], maxAutoResets => 3, autoResets => 2,
		lastAutoResetMs => 1700000000123}, 'GetPartitionStatus');
	is_deeply($reply[11], {routing => 1, gw => 2, sync => 'ST_GS2_DEFAULT',
		reconfigurable => JSON::PP::true, segments => 2, ipuof => '1.11', gcds => [gcd(0), gcd(1)]},
		'GetPartitionIpuofConfig');
	is_deeply($reply[12]{gcds}, [gcd(0)], 'of GCD 0 only');
	is_deeply($reply[13]{gcds}, [gcd(7)], 'of GCD 7 only');

	my @asked = requests($log);
	is_deeply($asked[5]{request}, {
		requirements => {id => 'p-1', size => 16, cluster_id => 'c1', ipulink_routing_type => 'IRT_BTNC',
			num_ipulink_segments => 2, gw_routing_type => 'GRT_RING', sync_type => 'ST_GS2_DEFAULT',
			num_gcds => 4, reconfigurable => JSON::PP::true, num_replicas => 8,
			allocation_id => 'pool', ipus => [map { +{ipulink_domain_topology_id => $_,
				ipulink_domain_routing_id => $_ + 1, topology_id => $_ + 2, routing_id => $_ + 3} }
				5, 9]},
		disable_auto_reset => JSON::PP::true, relocatable => JSON::PP::true},
		'the server read all of CreatePartition');
	is_deeply($asked[6]{request}, {requirements => {id => 'p-2', size => 1}}, 'and what was left out');
	is_deeply($asked[7]{request}, {partition_id => 'p-1', force => JSON::PP::true}, 'RemovePartition');
	is_deeply($asked[8]{request}, {partition_id => 'p-2'}, 'without force');
	is_deeply($asked[9]{request}, {partition_id => 'p-1', relocatable => JSON::PP::true}, 'ResetPartition');
	is_deeply($asked[11]{request}, {partition_id => 'p-1'}, 'no GCD asked for');
	is_deeply($asked[12]{request}, {partition_id => 'p-1', gcd_id => {}}, 'GCD 0 is one asked for');
	ok((grep { $_->{deadline} > 30 && $_->{deadline} <= 60 } @asked) == @asked, 'deadlines came along');
	like($asked[0]{metadata}{'user-agent'}, qr/ipu-operator/, 'and who we are');
	$server->stop;
};

subtest 'our client: errors' => sub {
	my ($server, $address) = start_grpcio();
	my %want = (1 => ['internal', 1], 2 => ['internal', 1], 3 => ['invalid', 0], 4 => ['timeout', 1],
		5 => ['not-found', 0], 6 => ['exists', 0], 7 => ['denied', 0], 8 => ['busy', 0], 9 => ['busy', 0],
		10 => ['conflict', 1], 11 => ['invalid', 0], 12 => ['unsupported', 0], 13 => ['internal', 1],
		14 => ['unavailable', 1], 15 => ['internal', 1], 16 => ['denied', 0]);
	my @codes = sort { $a <=> $b } keys %want;
	my @answers = ask_with_ours($address, [],
		map { +{method => 'CreatePartition', id => "code-$_", size => 4} } @codes);
	for my $i (0 .. $#codes) {
		my ($code, $error) = ($codes[$i], $answers[$i]{error});
		is($error->{kind}, $want{$code}[0], "code $code is $want{$code}[0]");
		is($error->{maybeApplied} ? 1 : 0, $want{$code}[1], "code $code: applied or not");
		is($error->{message}, "100 % „code-$code“ ☃?line two ($error->{status})",
			"code $code: its words, percent-decoded");
	}
	my ($died, $slow, $after, $foreign, $large, $huge) = ask_with_ours($address, [],
		{method => 'ResetPartition', id => 'die'},
		{method => 'ResetPartition', id => 'slow-8000', deadlineMs => 2000},
		{method => 'GetPartitionStatus', id => 'slow-50'},
		{method => 'ListPartitions', allocation => 'foreign'},
		{method => 'ListPartitions', allocation => 'large'},
		{method => 'ListPartitions', allocation => 'huge'});
	is($died->{error}{status}, 'UNKNOWN', 'an exception in the server is UNKNOWN');
	ok($died->{error}{maybeApplied}, 'and may have taken effect');
	is($slow->{error}{status}, 'DEADLINE_EXCEEDED', 'a slow answer: the deadline passes');
	is($slow->{error}{kind}, 'timeout', 'which is a time-out');
	ok($slow->{error}{maybeApplied}, 'and may have taken effect');
	is($after->{reply}{id}, 'slow-50', 'the connection goes on');
	is($foreign->{error}{kind}, 'denied', 'another allocation is denied');
	is(@{$large->{reply}}, 10001, 'a reply of more than a megabyte');
	is($huge->{error}{kind}, 'limit', 'one over the limit is refused');
	is($huge->{error}{status}, 'RESOURCE_EXHAUSTED', 'with the status for it');
	$server->stop;
};

subtest 'our client: many at once over ten streams' => sub {
	my ($server, $address, $log) = start_grpcio();
	my @answers = ask_with_ours($address, ['--parallel'],
		map { +{method => 'GetPartitionStatus', id => "slow-" . (5 + $_ % 7)} } 1 .. 300);
	is(scalar(grep { ($_->{reply}{ready} // '') eq 'PS_ERROR' } @answers), 300, 'all 300 are answered');
	is(scalar(requests($log)), 300, 'none was sent twice');
	$server->stop;
};

subtest 'our client: TLS and credentials' => sub {
	my ($server, $address) = start_grpcio('--cert', "$dir/tls.pem", '--key', "$dir/tls.key",
		'--user', 'me', '--access', 'secret');
	my @tls = ('--ca', "$dir/ca.pem", '--server-name', 'vipu.test');
	my ($answer) = ask_with_ours($address, [@tls, '--user', 'me', '--access', 'secret'],
		{method => 'GetVersion'});
	is($answer->{reply}, '1.18.0-пи', 'with both');
	($answer) = ask_with_ours($address, \@tls, {method => 'GetVersion'});
	is($answer->{error}{status}, 'UNAUTHENTICATED', 'without credentials');
	($answer) = ask_with_ours($address, [@tls, '--user', 'me', '--access', 'wrong'], {method => 'GetVersion'});
	is($answer->{error}{status}, 'PERMISSION_DENIED', 'with a wrong key');
	($answer) = ask_with_ours($address, ['--ca', "$dir/ca.pem", '--server-name', 'other.test'],
		{method => 'CreatePartition', id => 'p', size => 1});
	is($answer->{error}{status}, 'UNAVAILABLE', 'another name in the certificate');
	ok(!$answer->{error}{maybeApplied}, 'then nothing was applied');
	like($answer->{error}{message}, qr/other\.test/, 'and the message names it');
	($answer) = ask_with_ours($address, [], {method => 'CreatePartition', id => 'p', size => 1});
	is($answer->{error}{status}, 'UNAVAILABLE', 'no TLS at all');
	ok(!$answer->{error}{maybeApplied}, 'nothing was applied either');
	$server->stop;
	($answer) = ask_with_ours($address, [], {method => 'CreatePartition', id => 'p', size => 1});
	is($answer->{error}{status}, 'UNAVAILABLE', 'nobody listens');
	ok(!$answer->{error}{maybeApplied}, 'nothing was applied');
};

subtest "grpcio's client and our controller" => sub {
	my ($server, $address) = start_ours('--create-ms', 50);
	my @answers = ask_with_grpcio($address, [],
		{method => 'GetVersion'},
		{method => 'ListIPUAttributes'},
		{method => 'ListIPUAttributes', request => {agents => ['ag07']}},
		{method => 'ListIPUAttributes', request => {agents => ['nobody']}},
		{method => 'CreatePartition', request => {requirements => {id => 'p1', size => 8, num_gcds => 2,
			reconfigurable => JSON::PP::true}}},
		{method => 'GetPartitionStatus', request => {partition_id => 'p1'}},
		{clock => $clock, ms => 49},
		{method => 'GetPartitionStatus', request => {partition_id => 'p1'}},
		{clock => $clock, ms => 1},
		{method => 'GetPartitionStatus', request => {partition_id => 'p1'}},
		{method => 'ListPartitions'},
		{method => 'ListPartitions', request => {allocation_id => 'other'}},
		{method => 'GetPartitionIpuofConfig', request => {partition_id => 'p1'}},
		{method => 'GetPartitionIpuofConfig', request => {partition_id => 'p1', gcd_id => {id => 1}}},
		{method => 'CreatePartition', request => {requirements => {id => 'p1', size => 8}}},
		{method => 'CreatePartition', request => {requirements => {id => 'p3', size => 3}}},
		{method => 'CreatePartition', request => {requirements => {id => 'p256', size => 256,
			num_ipulink_segments => 4}}},
		{method => 'ResetPartition', request => {partition_id => 'p1'}},
		{method => 'ResetPartition', request => {partition_id => 'p1'}},
		{method => 'RemovePartition', request => {partition_id => 'p1'}},
		{clock => $clock, ms => 600},
		{method => 'GetPartitionStatus', request => {partition_id => 'p1'}});
	my @reply = map { $_->{reply} } @answers;
	is($reply[0]{version}, '1.18.0', 'GetVersion');
	is(@{$reply[1]{entries}}, 32, 'ListIPUAttributes: 32 agents');
	is_deeply([sort keys %{$reply[1]{entries}[0]{ipu_attributes}}], [0 .. 3], 'with 4 IPUs each');
	is_deeply([map { $_->{agent} } @{$reply[2]{entries}}], ['ag07'], 'one agent only');
	is($answers[3]{status}, 'NOT_FOUND', 'an unknown agent');
	is($reply[4]{partition_id}, 'p1', 'CreatePartition');
	is($reply[5]{status}{ready_state}, 'PS_PENDING', 'is pending at first');
	is($reply[5]{status}{operation_state}, 'POS_CREATING', 'being created');
	is($reply[7]{status}{ready_state}, 'PS_PENDING', 'until its time has come');
	is($reply[9]{status}{ready_state}, 'PS_ACTIVE', 'then active');
	my $spec = $reply[10]{partitions}[0]{spec};
	is(@{$spec->{ipus}}, 8, 'ListPartitions: its IPUs');
	is($spec->{num_gcds}, 2, 'its GCDs');
	is($spec->{sync_type}, 'ST_GS2_DEFAULT', 'the sync type that goes with reconfigurable');
	is_deeply($reply[11], {}, 'another allocation has none');
	my $gcds = $reply[12]{ipuof_config}{gcd_configs};
	is_deeply([map { $_->{attributes}{'GCD Id'} } @$gcds], ['0', '1'], 'the configuration of both GCDs');
	is_deeply([map { scalar @{$_->{devices}} } @$gcds], [4, 4], 'with 4 devices each');
	is_deeply([map { $_->{attributes}{'GCD Id'} } @{$reply[13]{ipuof_config}{gcd_configs}}], ['1'],
		'and of one of them');
	is($answers[14]{status}, 'ALREADY_EXISTS', 'the same id again');
	is($answers[15]{status}, 'INVALID_ARGUMENT', 'no power of two');
	is($answers[16]{status}, 'RESOURCE_EXHAUSTED', 'no room');
	is_deeply($reply[17], {}, 'ResetPartition');
	is($answers[18]{status}, 'FAILED_PRECONDITION', 'not while it is being reset');
	is_deeply($reply[19], {}, 'RemovePartition');
	is($answers[21]{status}, 'NOT_FOUND', 'then it is gone');
	like($answers[21]{message}, qr/^partition "p1" not found$/, 'in words');

	@answers = ask_with_grpcio($address, ['--parallel'],
		map { +{method => 'CreatePartition', request => {requirements => {id => "q$_", size => 1}}} } 1 .. 140);
	is(scalar(grep { $_->{reply} } @answers), 128, '128 of 140 at once find their IPU');
	is(scalar(grep { ($_->{status} // '') eq 'RESOURCE_EXHAUSTED' } @answers), 12, '12 do not');
	$server->stop;
};

subtest "grpcio's client: faults, TLS and credentials of our controller" => sub {
	my ($server, $address) = start_ours('--cert', "$dir/tls.pem", '--key', "$dir/tls.key", '--user', 'me',
		'--access', 'secret', '--fault', json_encode([
			{kind => 'status', method => 'CreatePartition', status => 'RESOURCE_EXHAUSTED',
				message => 'voll: 100 % ☃'},
			{kind => 'hang', method => 'GetPartitionStatus'},
			{kind => 'cut', method => 'ResetPartition'},
			{kind => 'lose-reply', method => 'CreatePartition'}]));
	my @secure = ('--ca', "$dir/ca.pem");
	my @key = ('--metadata', 'api-user-id=me', '--metadata', 'api-access-key=secret');
	my $create = {method => 'CreatePartition', request => {requirements => {id => 'p', size => 4}}, timeout => 60};
	my @answers = ask_with_grpcio($address, [@secure, @key], $create,
		{method => 'GetPartitionStatus', request => {partition_id => 'p'}, timeout => 0.3},
		{method => 'ResetPartition', request => {partition_id => 'p'}},
		{%$create, timeout => 4}, {method => 'ListPartitions'});
	is_deeply([map { $_->{status} // 'OK' } @answers],
		['RESOURCE_EXHAUSTED', 'DEADLINE_EXCEEDED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED', 'OK'], 'as injected');
	is($answers[0]{message}, 'voll: 100 % ☃', 'the message, percent-decoded');
	is($answers[4]{reply}{partitions}[0]{id}, 'p', 'the lost reply was of a partition that was made');
	my ($answer) = ask_with_grpcio($address, \@secure, {method => 'GetVersion'});
	is($answer->{status}, 'UNAUTHENTICATED', 'without credentials');
	$server->stop;
};

subtest "grpcio's client and ipu-sim's secure controllers" => sub {
	my $sim = start('ipu-sim', args => ['--vipu-only', '--controllers=3', '--create-ms=10',
		'--vipu-secure', '0:' . json_encode({clientCert => JSON::PP::true, userId => 'me', accessKey => 'first',
			userIdMetadata => 'x-who', accessKeyMetadata => 'x-what'}),
		'--vipu-secure', '1:{"userId":"you","accessKey":"other"}']);
	my ($first, $second, $plain) = map { '127.0.0.1:' . $sim->port("vipu$_") } 0 .. 2;
	my $secure = sub { my ($n, @json) = @_;
		return http(@json ? 'POST' : 'GET', $sim->url('admin', "/sim/vipu/$n/secure"), map { (json => $_) } @json) };
	my $shown = $secure->(0)->{json};
	my @mine = ('--server-name', 'localhost', '--ca', spit("$dir/sim-ca.pem", $shown->{ca}));
	my @cert = ('--cert', spit("$dir/sim-client.pem", $shown->{cert}), '--key', spit("$dir/sim-client.key", $shown->{key}));
	my $metadata = sub { my %pairs = @_; return map { ('--metadata', "$_=$pairs{$_}") } sort keys %pairs };
	my @key = $metadata->('x-who' => 'me', 'x-what' => 'first');
	my $ask = sub { my ($address, @options) = @_;
		my ($answer) = ask_with_grpcio($address, \@options, {method => 'GetVersion'});
		return $answer->{status} // 'OK' };

	is($ask->($first, @mine, @cert, @key), 'OK', 'with CA, client certificate, user id and access key');
	is($ask->($first, @mine, @key), 'UNAVAILABLE', 'without a client certificate');
	is($ask->($first, @mine, @cert), 'UNAUTHENTICATED', 'without user id and key');
	is($ask->($first, @mine, @cert, $metadata->('x-who' => 'me')), 'UNAUTHENTICATED', 'without the key');
	is($ask->($first, @mine, @cert, $metadata->('api-user-id' => 'me', 'api-access-key' => 'first')),
		'UNAUTHENTICATED', 'under the usual names, which aren\'t its own');
	is($ask->($first, @mine, @cert, $metadata->('x-who' => 'me', 'x-what' => 'second')), 'PERMISSION_DENIED',
		'with a wrong key');
	is($secure->(0, {accessKey => 'second'})->{status}, 204, 'another key');
	is($ask->($first, @mine, @cert, @key), 'PERMISSION_DENIED', '… and the old one is refused');
	is($ask->($first, @mine, @cert, $metadata->('x-who' => 'me', 'x-what' => 'second')), 'OK', '… the new one isn\'t');

	my @yours = $metadata->('api-user-id' => 'you', 'api-access-key' => 'other');
	is($ask->($second, @mine, @yours), 'UNAVAILABLE', 'the second controller has a CA of its own');
	@mine[2, 3] = ('--ca', spit("$dir/sim-ca-1.pem", $secure->(1)->{json}{ca}));
	is($ask->($second, @mine, @yours), 'OK', '… and users, and wants no client certificate');
	is($secure->(1, {newCertificate => JSON::PP::true})->{status}, 204, 'another certificate');
	is($ask->($second, @mine, @yours), 'UNAVAILABLE', '… which the old CA hasn\'t signed');
	is($ask->($plain), 'OK', 'the third one asks for nothing');
	is($secure->(2)->{json}{tls}, JSON::PP::false, '… and says so');

	for my $bad ({tsl => JSON::PP::true}, {tls => 'yes'}, {cert => 'x'}, {cert => 'x', key => 'y'}) {
		is($secure->(2, $bad)->{status}, 400, 'not ' . json_encode($bad));
	}
	is($ask->($plain), 'OK', 'what was refused changed nothing');
	$sim->stop;
};

done_testing();
