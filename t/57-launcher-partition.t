#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-launcher partition, the init container of an annotated Pod, against ipu-operator's proxy and
# simulated controllers: what it asks, waits for, writes and says; the proxy's restart in between; and
# that a Pod that gives up keeps no IPUs.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MIME::Base64 ();
use Test::More;

watchdog(180);
my $curl = program_or_skip('curl');
my $launcher = program('ipu-launcher');
my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--agents=4', '--create-ms=100', '--reset-ms=100',
	'--remove-ms=100', '--pod-run-ms=0']);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, $json = undef) {
	my $answer = http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		$json ? (json => $json) : ());
	die "$method $path: $answer->{status} $answer->{content}\n" if $answer->{status} !~ /^20/;
	return $answer->{json};
}

sub token ($ns, $account, $pod = undef, $audience = 'ipu-operator-proxy') {
	my $spec = { audiences => [$audience], expirationSeconds => 3600 };
	$spec->{boundObjectRef} = { apiVersion => 'v1', kind => 'Pod', name => $pod->{metadata}{name},
		uid => $pod->{metadata}{uid} } if $pod;
	return api('POST', "/api/v1/namespaces/$ns/serviceaccounts/$account/token",
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => $spec })->{status}{token};
}

sub pod ($name) {
	return api('POST', '/api/v1/namespaces/default/pods', { apiVersion => 'v1', kind => 'Pod',
		metadata => { name => $name }, spec => { containers => [ { name => 'main', image => 'busybox' } ] } });
}

sub operator ($name, $port) {
	my $daemon = start('ipu-operator', args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', 'proxy',
		'--set', 'vipu.waitingRefreshSeconds=1',
		'--set', 'operatorNamespace=ipu-operator', '--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'),
		'--set', "leaderElection.identity=$name", '--set', 'certificates.names=localhost,127.0.0.1',
		(map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen health.listen metrics.listen)),
		'--set', "proxy.tlsListen=127.0.0.1:$port"]);
	wait_until('the operator is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
	return $daemon;
}

my $daemon = operator('one', 0);
my $port = $daemon->port('proxy-tls');
my $manager = 'ipu-operator-controller-manager';
api('POST', '/api/v1/namespaces/ipu-operator/serviceaccounts',
	{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $manager } });
my $trusted = token('ipu-operator', $manager);
my $secret = api('GET', '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates');
my $ca = MIME::Base64::decode_base64($secret->{data}{'ca.crt'});
spit("$dir/ca.pem", $ca);

# As the operator's own account.
sub ask ($method, $path, $json = undef) {
	my @body = $json ? ('--header', 'Content-Type: application/json', '--data-binary', json_encode($json)) : ();
	my $done = run([$curl, qw(-sS --max-time 20 --noproxy * --write-out), "\n%{http_code}", '--cacert', "$dir/ca.pem",
		'--header', "Authorization: Bearer $trusted", '--request', $method, @body, "https://localhost:$port$path"]);
	my ($body, $status) = $done->{out} =~ /\A(.*)\n(\d+)\z/s or die "curl: $done->{err}";
	return { status => $status, content => $body, json => eval { json_decode($body) } };
}

sub status_of ($pod) { return ask('GET', "/v1/partitions/$pod->{metadata}{uid}/0") }

# What the webhook writes into a Pod.
sub args_of ($pod, %option) {
	my $name = $pod->{metadata}{name};
	spit("$dir/$name.token", ($option{token} // token('default', 'default', $pod)) . "\n");
	my @args = ('partition', '--ipus', $option{ipus} // 2, '--output', $option{output} // "$dir/$name.conf",
		'--token-file', "$dir/$name.token", @{ $option{more} // [] }, "https://localhost:$port");
	my %env = (IPU_POD_NAMESPACE => 'default', IPU_POD_NAME => $name, IPU_POD_UID => $pod->{metadata}{uid},
		IPU_PROXY_CA => $ca, %{ $option{env} // {} });
	return (args => \@args, env => \%env);
}

sub launch ($pod, %option) {
	my %how = args_of($pod, %option);
	return run([$launcher, @{ $how{args} }], env => $how{env}, name => 'ipu-launcher');
}

sub begin ($pod, %option) {
	return start('ipu-launcher', ports => 0, args_of($pod, %option));
}

sub is_gone ($pod, $name) {
	my $uid = $pod->{metadata}{uid};
	wait_until("$name has nothing", sub { ask('GET', "/v1/partitions?uid=$uid")->{json}{held} == 0 });
	pass("$name has nothing, and asks for nothing");
}

my $pod = pod('first');

subtest 'IPUs that are there' => sub {
	my $done = launch($pod);
	is($done->{status}, 0, 'it ends well') or diag($done->{err});
	is($done->{out}, '', 'it prints nothing');
	like($done->{err}, qr/^ipu-launcher: 2 IPUs: partition first-default-\S+ on 127\.0\.0\.1:\d+, after \d+\.\d s$/m,
		'it says which it has');
	my $status = status_of($pod)->{json};
	is($status->{state}, 'active', 'the partition is active');
	is_deeply($status->{owner}, { kind => 'Pod', namespace => 'default', name => 'first', uid => $pod->{metadata}{uid} },
		'the Pod owns it');
	is_deeply($status->{options}, { gcds => 1, reconfigurable => JSON::PP::true() }, 'one GCD, reconfigurable');
	my $files = ask('GET', "/v1/partitions/$pod->{metadata}{uid}/0/ipuof")->{json}{files};
	is(slurp("$dir/first.conf"), $files->{'ipuof-0.conf'}, 'its configuration is written');
	is((stat "$dir/first.conf")[2] & 07777, 0644, 'for everybody to read');
	is_deeply([ glob "$dir/first.conf.*" ], [], 'and nothing beside it');
};

subtest 'the same Pod once more' => sub {
	my $before = status_of($pod)->{json};
	my $done = launch($pod, more => [ '--deadline', 3600 ]);
	is($done->{status}, 0, 'it ends well') or diag($done->{err});
	my $now = status_of($pod)->{json};
	is($now->{id}, $before->{id}, 'the same partition');
	is($now->{resets}, $before->{resets} + 1, 'reset');
	is($now->{attempt}, ($before->{attempt} // 0) + 1, 'for another run');
	is($now->{deadlineSeconds}, 3600, 'with its deadline');
	like($done->{err}, qr/^ipu-launcher: 2 IPUs: resetting$/m, 'as it says');
};

# All the others' IPUs.
sub occupy {
	my $answer = ask('POST', '/v1/partitions', { owner => { kind => 'IPUJob', namespace => 'default', name => 'big',
		uid => 'big' }, instance => 0, ipus => 8, options => {} });
	like($answer->{status}, qr/^20[01]$/, 'somebody else asks') or diag($answer->{content});
	wait_until('that one to have its IPUs', sub { ask('GET', '/v1/partitions/big/0')->{json}{state} eq 'active' });
}

subtest 'a full pod' => sub {
	occupy();
	my $waiting = pod('waiting');
	my $one = begin($waiting, ipus => 8);
	wait_until('it to say what it waits for', sub { ($one->err // '') =~ /^ipu-launcher: waiting for 8 IPUs, place 1 in the queue: \S/m });
	is(status_of($waiting)->{json}{position}, 1, 'it is in the queue');
	$daemon->stop;
	wait_until('it to say that nobody answers', sub { $one->err =~ /the operator can't be asked: .*localhost/ });
	ok($one->is_alive, 'the proxy has gone: it waits');
	$daemon = operator('two', $port);
	wait_until('it to be told again', sub { $one->err =~ /can't be asked.*\n.*place 1 in the queue.*\n\z/ }, seconds => 60);
	is(status_of($waiting)->{json}{state}, 'waiting', 'it has kept its place');
	ok(!-e "$dir/waiting.conf", 'there is no configuration yet');
	is(ask('DELETE', '/v1/partitions/big/0')->{status}, 202, 'room is made');
	wait_until('it to end', sub { !$one->is_alive }, while_alive => [ $sim, $daemon ]);
	like($one->err, qr/8 IPUs: partition waiting-default-\S+ on/, 'it has its IPUs');
	$one->stop(status => 0);
	ok(-s "$dir/waiting.conf", 'and their configuration');
	is(ask('DELETE', "/v1/partitions/$waiting->{metadata}{uid}/0")->{status}, 202, 'they are given back');
	is_gone($waiting, 'the Pod');
};

subtest 'giving up' => sub {
	occupy();
	my $ended = pod('ended');
	my $one = begin($ended, ipus => 8);
	wait_until('it to wait', sub { ($one->err // '') =~ /waiting for 8 IPUs/ });
	$one->stop(status => 143);
	like($one->err, qr/ended by signal 15: what was asked for is given back$/, 'it says so');
	is(status_of($ended)->{status}, 404, 'a Pod that is ended asks no more');

	my $late = pod('late');
	my $done = launch($late, ipus => 8, more => [ '--timeout', 5 ]);
	is($done->{status}, 1, 'a time that is over');
	like($done->{err}, qr/after 5 s there are no IPUs, and none are asked for any more: waiting for 8 IPUs/, '… is told');
	is(status_of($late)->{status}, 404, '… and nothing is asked for any more');

	is(ask('DELETE', '/v1/partitions/big/0')->{status}, 202, 'there is room');
	is_gone({ metadata => { uid => 'big' } }, 'the other');
	my $full = pod('full');
	$done = launch($full, output => "$dir/nowhere/x");
	is($done->{status}, 1, 'a volume that can\'t be written');
	like($done->{err}, qr{partition: \Q$dir\E/nowhere/x: No such file or directory$}, '… is told');
	is_gone($full, 'the Pod');
};

subtest 'a configuration that takes longer' => sub {
	my $slow = pod('slow');
	my $fault = http('POST', $sim->url('admin', '/sim/vipu/0/faults'),
		json => { kind => 'status', method => 'GetPartitionIpuofConfig', status => 'UNAVAILABLE', message => 'not now', count => 2 });
	is($fault->{status}, 204, 'the controller says no twice') or diag($fault->{content});
	my $done = launch($slow);
	is($done->{status}, 0, 'it waits for that') or diag($done->{err});
	ok(-s "$dir/slow.conf", '… until it has it');
	ask('DELETE', "/v1/partitions/$slow->{metadata}{uid}/0");
	is_gone($slow, 'the Pod');
};

subtest 'who may not' => sub {
	my ($mine, $other) = (pod('mine'), pod('other'));
	my $done = launch($mine, token => token('default', 'default', $other));
	is($done->{status}, 1, 'another Pod\'s token');
	like($done->{err}, qr/^ipu-launcher: 403 Forbidden: system:serviceaccount:default:default may not ask for this owner/m,
		'… is refused at once');
	$done = launch($mine, token => token('default', 'default'));
	like($done->{err}, qr/403 Forbidden/, 'a token that is bound to no Pod');
	$done = launch($mine, token => token('default', 'default', $mine, 'elsewhere'));
	is($done->{status}, 1, 'a token for others');
	like($done->{err}, qr/401 Unauthorized: .*for the audience ipu-operator-proxy/, '… is told');
	is(status_of($mine)->{status}, 404, 'nothing was asked for');
};

subtest 'whom it trusts' => sub {
	my $pod = pod('careful');
	my $openssl = program_or_skip('openssl');
	run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=another),
		'-keyout', "$dir/another.key", '-out', "$dir/another.pem"]);
	my $done = launch($pod, env => { IPU_PROXY_CA => slurp("$dir/another.pem") });
	is($done->{status}, 1, 'another authority');
	like($done->{err}, qr/certificate of localhost:$port is signed by an unknown authority[^\n]*\n\z/, '… is told');
	is(status_of($pod)->{status}, 404, '… and gets no token');
	is(launch($pod, env => { IPU_PROXY_CA => slurp("$dir/another.pem") . $ca })->{status}, 0,
		'one of several authorities, as while the operator renews its own');
	ask('DELETE', "/v1/partitions/$pod->{metadata}{uid}/0");
	is_gone($pod, 'the Pod');
	is(launch($pod, env => { IPU_PROXY_CA => undef }, more => [ '--ca', "$dir/ca.pem" ])->{status}, 0, 'one in a file');
	ask('DELETE', "/v1/partitions/$pod->{metadata}{uid}/0");
};

subtest 'used wrongly' => sub {
	my %env = (IPU_POD_NAMESPACE => 'default', IPU_POD_NAME => 'p', IPU_POD_UID => 'u', IPU_PROXY_CA => $ca);
	my @good = ('--ipus', 2, '--output', "$dir/x", '--token-file', "$dir/first.token");
	for my $row (
		[[ @good ], qr/exactly one URL is wanted/],
		[[ @good, 'http://localhost:1' ], qr/over https only/],
		[[ @good, 'https://localhost:1/path' ], qr{must be https://HOST:PORT}],
		[[ @good, '--ipus', 3, 'https://localhost:1' ], qr/--ipus: must be a power of two/],
		[[ @good, '--ipus', 0, 'https://localhost:1' ], qr/--ipus: /],
		[[ @good, '--timeout', 'x', 'https://localhost:1' ], qr/--timeout: /],
		[[ @good, '--nonsense', 'https://localhost:1' ], qr/no option --nonsense/],
		[[ @good, '--ca' ], qr/--ca needs a value/],
		[[ @good[0 .. 3], 'https://localhost:1' ], qr/--token-file is missing/],
		[[ @good[2 .. 5], 'https://localhost:1' ], qr/--ipus is missing/],
		[[ @good[0, 1, 4, 5], 'https://localhost:1' ], qr/--output is missing/],
		[[ @good, '--token-file', "$dir/none", 'https://localhost:1' ], qr/--token-file: .*No such file/],
		[[ @good, 'https://localhost:1' ], qr/IPU_POD_UID isn't set/, { IPU_POD_UID => '' }],
		[[ @good, 'https://localhost:1' ], qr/IPU_POD_UID: that is no UID/, { IPU_POD_UID => '../x' }],
		[[ @good, 'https://localhost:1' ], qr/IPU_PROXY_CA: /, { IPU_PROXY_CA => 'x' }],
	) {
		my ($args, $message, $more) = @$row;
		my $done = run([$launcher, 'partition', @$args], env => { %env, %{ $more // {} } });
		is($done->{status}, 2, "status 2: $message");
		like($done->{err}, $message, '… as it says');
	}
	my $refused = run([$launcher, 'partition', @good, '--timeout', 1, 'https://localhost:1'], env => \%env);
	is($refused->{status}, 1, 'nobody there, until its time is over');
	like($refused->{err}, qr/after 1 s there are no IPUs.*can't be asked: localhost:1 .*: Connection refused/, '… as it says');
};

$daemon->stop;
$sim->stop;
done_testing;
