#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-operator as a program: its listeners against /stats and /query as they are documented, health
# and readiness, metrics, and its end.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--controllers=2', '--agents=4']);
my @listeners = map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen);

sub controllers { return join ',', map { '127.0.0.1:' . $sim->port($_) } qw(vipu0 vipu1) }

sub operator {
	my ($name, @args) = @_;
	return start('ipu-operator', args => ['--set', 'operatorNamespace=ipu-operator', @listeners, @args]);
}

sub ask { my ($daemon, $listener, $method, $path, %more) = @_; return http($method, $daemon->url($listener, $path), %more) }

my $daemon = operator('daemon', '--kubeconfig', "$folder/kubeconfig", '--set', 'controllers=' . controllers(),
	'--set', 'vipu.idleRefreshSeconds=1');
wait_until('the daemon is ready', sub { ask($daemon, health => 'GET', '/readyz')->{status} == 200 });
wait_until('both controllers have answered', sub {
	ask($daemon, proxy => 'GET', '/stats')->{json}{total}{available} == 32;
});

subtest 'health' => sub {
	is(ask($daemon, health => 'GET', '/healthz')->{content}, "ok\n", '/healthz');
	is(ask($daemon, health => 'GET', '/readyz')->{content}, "ok\n", '/readyz');
	is(ask($daemon, health => 'GET', '/stats')->{status}, 404, 'a listener serves its own paths only');
	is(ask($daemon, proxy => 'GET', '/health')->{status}, 200, '/health');
	is(ask($daemon, proxy => 'GET', '/metrics')->{status}, 404, 'no metrics on the open listener');
};

subtest 'statistics' => sub {
	is_deeply(ask($daemon, proxy => 'GET', '/stats')->{json}, {total => {used => 0, available => 32}},
		'/stats of a free pod');
	my $wrong = ask($daemon, proxy => 'POST', '/stats', content => '{}');
	is($wrong->{status}, 405, 'POST of /stats');
	like($wrong->{headers}{allow}, qr/GET/, '... says what is allowed');
	for my $row (
		['{"size":1}', 200, 32, qr/^$/], ['{"size":2}', 200, 16, qr/^$/], ['{"size":16}', 200, 2, qr/^$/],
		['{"size":64}', 200, 0, qr/^$/], ['{"size":3}', 200, 0, qr/power of two/],
		['{"size":4294967296}', 200, 0, qr/power|^$/], ['{"size":2,"more":1}', 200, 16, qr/^$/],
		['{"size":0}', 400], ['{"size":-2}', 400], ['{"size":"2"}', 400], ['{"size":1.5}', 400],
		['{}', 400], ['[]', 400], ['', 400], ['{"size":', 400],
	) {
		my ($body, $status, $number, $message) = @$row;
		my $answer = ask($daemon, proxy => 'POST', '/query', content => $body,
			headers => {'content-type' => 'application/json'});
		is($answer->{status}, $status, "/query $body");
		if ($status == 200) {
			is($answer->{json}{numOfPartitions}, $number, '... numOfPartitions');
			ok($answer->{json}{available}, '... available');
			like($answer->{json}{message}, $message, '... message');
		} else {
			like(json_decode($answer->{content})->{detail}, qr/size|JSON/, '... says what is wrong');
		}
	}
	is(ask($daemon, proxy => 'POST', '/query', content => ' ' x 70_000)->{status}, 413, 'a body that is too large');
};

subtest 'partitions made by hand' => sub {
	is(http('POST', $sim->url('admin', '/sim/vipu/0/partitions'), json => {id => 'by-hand', size => 16})->{status}, 204,
		'somebody makes one');
	wait_until('the next look sees it', sub {
		ask($daemon, proxy => 'POST', '/query', content => '{"size":16}')->{json}{numOfPartitions} == 1;
	});
	is_deeply(ask($daemon, proxy => 'GET', '/stats')->{json}, {total => {used => 0, available => 32}},
		'... and it is not in /stats');
};

subtest 'metrics' => sub {
	my $answer = ask($daemon, metrics => 'GET', '/metrics');
	like($answer->{headers}{'content-type'}, qr{^text/plain; version=0\.0\.4}, 'the type of the text');
	my (%type, %value);
	for (split /\n/, $answer->{content}) {
		if (/^# TYPE (\S+) (\S+)$/) { $type{$1} = $2 }
		elsif (/^# HELP /) { next }
		elsif (/^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/) { $value{defined $2 ? "$1 $2" : $1} = $3 }
		else { fail("a line that can't be read: $_") }
	}
	my ($first, $second) = split /,/, controllers();
	is($value{"ipu_operator_controller_up controller=\"$first\""}, 1, 'the controller is up');
	is($value{"ipu_operator_ipus controller=\"$first\",state=\"external\""}, 16, 'IPUs taken by hand');
	is($value{"ipu_operator_ipus controller=\"$second\",state=\"free\""}, 16, 'free IPUs');
	is($type{ipu_operator_ipus}, 'gauge', 'type of a gauge');
	is($type{process_cpu_seconds_total}, 'counter', 'type of a counter');
	cmp_ok($value{process_resident_memory_bytes}, '>', 1_000_000, 'memory');
	is($value{'ipu_operator_jobs state="Pending"'}, 0, 'jobs');
};

subtest 'the end' => sub {
	$daemon->stop(status => 0);
	my $lonely = operator('lonely', '--kubeconfig', dead_kubeconfig());
	is(ask($lonely, health => 'GET', '/healthz')->{status}, 200, 'without an API server: it lives');
	my $ready = ask($lonely, health => 'GET', '/readyz');
	is($ready->{status}, 503, '... is not ready');
	like(json_decode($ready->{content})->{detail}, qr/hasn't been read|haven't been read|leadership: \S/, '... and says why');
	is(ask($lonely, proxy => 'POST', '/query', content => '{"size":1}')->{json}{available}, JSON::PP::false(),
		'/query without controllers');
	$lonely->stop(status => 0);
};

sub dead_kubeconfig {
	return spit(test_dir() . '/dead', <<'END');
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
}

$sim->stop(status => 0);
done_testing();
