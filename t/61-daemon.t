#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-operator as a program: its listeners against /stats and /query as they are documented, health
# and readiness, metrics, its end; and what it says of wrong input, line by line.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--controllers=2', '--agents=4']);
my @listeners = map { ('--set', "$_.listen=127.0.0.1:0") } qw(proxy health metrics);

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
	like(json_decode($ready->{content})->{detail}, qr/hasn't been read|haven't been read/, '... and says why');
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

# Each: what is wrong; what the files hold; arguments; what the one line says.
subtest 'wrong input' => sub {
	my $good = "apiVersion: v1\nkind: Config\n";
	for my $row (
		['an unknown option', {}, ['--frobnicate'], qr/^ipu-operator: --frobnicate: there is no such option/],
		['an argument', {}, ['serve'], qr/^ipu-operator: serve: not an option/],
		['a missing value', {}, ['--config'], qr/^ipu-operator: --config: needs a value/],
		['a missing file', {}, ['--config', '/nonexistent/operator.yaml'], qr{/nonexistent/operator\.yaml}],
		['an unknown key', {c => "proxy:\n  lisen: x\n"}, ['--config', 'c'], qr/c:2:3: proxy\.lisen: there is no such key/],
		['a wrong number', {c => "vipu:\n  callTimeoutSeconds: 0\n"}, ['--config', 'c'],
			qr/c:2:23: vipu\.callTimeoutSeconds: must be from 1 to 300/],
		['broken YAML', {c => "proxy: [\n"}, ['--config', 'c'], qr/c:\d+:\d+: /],
		['a key that comes twice', {c => "roles: [proxy]\nroles: [proxy]\n"}, ['--config', 'c'], qr/c:2:1: .*roles/],
		['a wrong controller', {c => "controllers: pod:99999\n"}, ['--config', 'c'], qr/c:1:\d+: .*99999/],
		['no namespace', {k => slurp(dead_kubeconfig())}, ['--kubeconfig', 'k', '--set', 'operatorNamespace='],
			qr/operatorNamespace: must be given outside a cluster/],
		['no such context', {k => slurp(dead_kubeconfig())}, ['--kubeconfig', 'k', '--context', 'other'], qr/k:?.*other/],
		['a kubeconfig without clusters', {k => $good}, ['--kubeconfig', 'k'], qr/k/],
		['a broken kubeconfig', {k => "clusters:\n- name: c\n   cluster: x\n"}, ['--kubeconfig', 'k'], qr/k:\d+:\d+: /],
		['a missing certificate', {k => slurp(dead_kubeconfig()) =~ s/server: "[^"]*"/server: "https:\/\/127.0.0.1:9", certificate-authority: nothing.pem/r},
			['--kubeconfig', 'k'], qr/nothing\.pem/],
	) {
		my ($what, $files, $args, $says) = @$row;
		my $here = test_dir() . '/wrong';
		mkdir $here;
		spit("$here/$_", $files->{$_}) for keys %$files;
		my @args = map { exists $files->{$_} ? "$here/$_" : $_ } @$args;
		my $ran = run([program('ipu-operator'), '--set', 'operatorNamespace=x', '--ports-file', "$here/ports", @args],
			env => {KUBECONFIG => undef, HOME => $here});
		is($ran->{status}, 2, "$what: exit status 2");
		like($ran->{err}, $says, '... one clear line') or diag($ran->{err});
		is(scalar(() = $ran->{err} =~ /\n/g), 1, '... and one only');
		is($ran->{out}, '', '... nothing else');
		ok(!-e "$here/ports", '... and nothing was begun');
	}
};

$sim->stop(status => 0);
done_testing();
