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
use MetricNames qw(covered_metrics documented_metrics);
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(300);
program_or_skip('curl');
my $dir = test_dir();
my $folder = "$dir/sim";
our $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4', '--pod-run-ms=0']);
our $admin = slurp("$folder/token");

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

# Reads a page as its format's text says (Prometheus 0.0.4, OpenMetrics 1.0): {families => {NAME => TYPE},
# samples => {'NAME{LABELS}' => VALUE}, names => {NAME => 1}}, and dies where it says something else.
sub read_page ($text, $open) {
	my (%families, %samples, %names, $family, $type);
	die "it doesn't end with a line break\n" if $text !~ /\n\z/;
	my @lines = split /\n/, $text;
	if ($open) {
		(pop @lines // '') eq '# EOF' or die "no # EOF at the end\n";
	}
	for (@lines) {
		if (/^# HELP ([a-z_]+) (\S.*)$/) {
			die "HELP of $1 twice\n" if exists $families{$1};
			($family, $type, $families{$1}) = ($1, undef, undef);
			die "HELP: $2\n" if $open ? $2 =~ /(?<!\\)(?:\\\\)*"/ : 0;
		} elsif (/^# TYPE ([a-z_]+) (counter|gauge|histogram)$/) {
			die "TYPE of $1 without its HELP, or twice\n" if $1 ne $family || $type;
			$families{$1} = $type = $2;
			die "a counter's family is $1\n" if $type eq 'counter' && $open == ($1 =~ /_total$/ ? 1 : 0);
		} elsif (/^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\[\\"n])*",?)*)\})? (NaN|[+-]?Inf|-?\d+(?:\.\d+)?(?:e[+-]\d+)?)$/) {
			my ($name, $labels, $value) = ($1, $2 // '', $3);
			my $suffix = $type eq 'histogram' ? qr/_(?:bucket|sum|count)/ : $type eq 'counter' && $open ? qr/_total/ : qr//;
			die "$name within $family\n" if $name !~ /^\Q$family\E$suffix$/;
			die "le=$1\n" if $open && $labels =~ /\ble="(\d+)"/;
			die "$name\{$labels} twice\n" if exists $samples{"$name\{$labels}"};
			$samples{"$name\{$labels}"} = $value;
			$names{$name} = 1;
		} else {
			die "what is this? $_\n";
		}
	}
	for my $sum (grep { /_count\{/ } keys %samples) {
		my ($name, $labels) = $sum =~ /^(.*)_count\{(.*)\}$/;
		next if ($families{$name} // '') ne 'histogram';
		my $all = join ',', (length $labels ? $labels : ()), 'le="+Inf"';
		die "$sum and +Inf differ\n" if $samples{"${name}_bucket{$all}"} ne $samples{$sum};
	}
	return { families => \%families, samples => \%samples, names => \%names };
}

my $open = 'application/openmetrics-text';

sub page ($daemon, $is_open = 0) {
	my $answer = scrape($daemon, bearer($token), $is_open ? ('-H', "Accept: $open;version=1.0.0") : ());
	return read_page($answer->{body}, $is_open);
}

sub value ($page, $series) { return $page->{samples}{ $series =~ /\{/ ? $series : "$series\{}" } }

my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub make_job ($name, $ipus) {
	return api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { jobInstances => 1, ipusPerJobInstance => "$ipus",
			workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
}

sub job_state ($name) { return (api('GET', "$jobs/$name")->{json}{status} // {})->{launcherStatus} // '' }

subtest 'two forms' => sub {
	for my $row (
		[ '*/*', 0 ], [ 'text/plain', 0 ], [ $open, 1 ], [ "$open;version=1.0.0;q=0.5,text/plain;q=0.4", 1 ],
		[ "$open;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.4", 0 ], [ "$open;q=0,*/*", 0 ],
		[ "$open;version=2.0.0,*/*;q=0.1", 0 ], [ "$open;q=1.5x", 0 ], [ 'image/png', 0 ],
		[ "$open;version=1.0.0,$open;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", 1 ],
		[ "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.6,$open;version=1.0.0;escaping=allow-utf-8;q=0.5,"
			. 'text/plain;version=0.0.4;q=0.3,*/*;q=0.2', 1 ],
	) {
		my ($accept, $want) = @$row;
		my $answer = scrape($daemon, bearer($token), '-H', "Accept: $accept");
		my $type = $want ? "$open; version=1.0.0; charset=utf-8" : 'text/plain; version=0.0.4; charset=utf-8';
		is($answer->{fields}{'content-type'}, $type, "Accept: $accept");
		ok(eval { read_page($answer->{body}, $want) }, '... can be read') or diag($@);
	}
};

# Those of roles and events that aren't here: what other tests cover, and of a partition that nobody asks for (partition_adopt_test).
my %covered = covered_metrics();
my %elsewhere = (ipu_operator_partitions_unowned => 1, map { $_ => 1 } keys %covered);

subtest 'what jobs leave behind' => sub {
	make_job('first', 8);
	wait_until('it runs', sub { job_state('first') eq 'Running' });
	make_job('large', 16);
	wait_until('the other waits', sub { (value(page($daemon), 'ipu_operator_partitions_waiting_by_reason{reason="WaitingForIPUs"}') // 0) == 1 });
	my $page = page($daemon);
	my @documented = documented_metrics();
	cmp_ok(scalar @documented, '>', 60, 'names.md has its table');
	is_deeply([ grep { !exists $page->{families}{$_} } grep { !$elsewhere{$_} } map { $_->[0] } @documented ], [],
		'all of them are there, or in another test');
	cmp_ok(scalar keys %covered, '>', 0, '... which are ' . join(', ', sort { $a cmp $b } do { my %t = reverse %covered; keys %t }));
	is_deeply([ grep { exists $page->{families}{ $_->[0] } && $page->{families}{ $_->[0] } ne $_->[1] } @documented ], [], '... of these types');
	my %known = map { $_->[0] => 1 } @documented;
	is_deeply([ grep { !$known{$_} } sort keys %{ $page->{families} } ], [], 'and no others');
	my $vipu = '127.0.0.1:' . $sim->port('vipu0');
	my %want = ('ipu_operator_ipus_held{namespace="default"}' => 8, "ipu_operator_capacity_ipus{controller=\"$vipu\"}" => 16,
		(map { ("ipu_operator_ipus{controller=\"$vipu\",state=\"$_->[0]\"}" => $_->[1]) }
			[ used => 8 ], [ external => 0 ], [ free => 0 ], [ reserved => 8 ]),
		'ipu_operator_partitions{state="active"}' => 1, ipu_operator_partitions_waiting => 1,
		'ipu_operator_jobs{state="Running"}' => 1, 'ipu_operator_jobs{state="Pending"}' => 1,
		ipu_operator_job_partition_active_seconds_count => 1, ipu_operator_job_pods_created_seconds_count => 1,
		ipu_operator_job_running_seconds_count => 1, ipu_operator_loop_stuck => 0,
		"ipu_operator_ipus_faulty{controller=\"$vipu\",agent=\"ag01\"}" => 0,
		"ipu_operator_ipu_die_temperature_celsius{controller=\"$vipu\",agent=\"ag02\"}" => 41,
		"ipu_operator_ipu_board_temperature_celsius{controller=\"$vipu\",agent=\"ag02\"}" => 31);
	$want{"ipu_operator_releases_failed_total{controller=\"$vipu\"}"} = 0;
	$want{"ipu_operator_events_dropped_total{reason=\"$_\"}"} = 0 for qw(refused queue rate);
	$want{'controller_runtime_reconcile_total{controller="pod",result="error"}'} = 0;
	$want{'ipu_operator_kube_watch_restarts_total{resource="ipujobs",reason="unavailable"}'} = 0;
	is(value($page, $_), $want{$_}, $_) for sort keys %want;
	cmp_ok(value($page, 'ipu_operator_job_running_seconds_sum'), '<', 60, 'a job starts within a minute');
	http('POST', $sim->url('admin', '/sim/vipu/0/health'), json => { agent => 2, celsius => 97, state => 'parity error' });
	wait_until('a machine that is ill is seen', sub {
		my $now = page($daemon);
		value($now, "ipu_operator_ipus_faulty{controller=\"$vipu\",agent=\"ag02\"}") == 1
			&& value($now, "ipu_operator_ipu_die_temperature_celsius{controller=\"$vipu\",agent=\"ag02\"}") == 97;
	});
};

subtest 'bounds' => sub {
	my $before = page($daemon);
	api('DELETE', "$jobs/large", {});
	make_job("small-$_", 1) for 1 .. 8;
	wait_until('all of them run', sub { (value(page($daemon), 'ipu_operator_jobs{state="Running"}') // 0) == 9 });
	my $after = page($daemon);
	# Verbs, codes and reasons that haven't been seen before; none has a job's name.
	my @new = grep { !exists $before->{samples}{$_} } sort keys %{ $after->{samples} };
	is_deeply([ grep { !/^(?:ipu_operator_kube_requests_total|rest_client_\w+|ipu_operator_vipu_request\w+|ipu_operator_events_sent_total|ipu_operator_partitions_waiting_by_reason|ipu_operator_kube_watch_restarts_total)\{/ } @new ],
		[], 'more jobs are no more series');
	unlike(join("\n", keys %{ $after->{samples} }), qr/small-\d|first/, 'no job has a series');
	my %counters = map { $_ => 1 } grep { $before->{families}{$_} eq 'counter' } keys %{ $before->{families} };
	my @counted = grep { /^([a-z_]+)\{/ && ($counters{$1} || $1 =~ /_(?:bucket|sum|count)$/) } sort keys %{ $before->{samples} };
	cmp_ok(scalar @counted, '>', 50, 'there are counters');
	is_deeply([ grep { !defined $after->{samples}{$_} || $after->{samples}{$_} < $before->{samples}{$_} } @counted ], [], 'none falls');
	is(value(page($daemon, 1), 'ipu_operator_jobs{state="Running"}'), 9, 'OpenMetrics says the same');
	for my $name ('first', map { "small-$_" } 1 .. 8) { api('DELETE', "$jobs/$name", {}) }
	wait_until('nobody holds anything', sub { value(page($daemon), 'ipu_operator_ipus_held{namespace="default"}') == 0 });
};

subtest 'readiness' => sub {
	my $answer = http('GET', $daemon->url(health => '/readyz?verbose'));
	is($answer->{status}, 200, 'verbose') or diag($answer->{content});
	like($answer->{content}, qr/^\[\+\]$_ ok$/m, "... $_") for qw(process api leadership proxy certificates controller);
	$answer = http('GET', $daemon->url(health => '/readyz'), headers => { accept => 'application/json' });
	ok($answer->{json}{ready}, 'JSON');
	is_deeply([ map { "$_->{name}=$_->{ready}" } @{ $answer->{json}{parts} } ],
		[ map { "$_=1" } qw(process api leadership proxy certificates controller) ], '... has the parts of its roles');
};

# A page that daemon and test share: its clock is so far ahead of the machine's. Never cut short: it's mapped.
sub move_clock ($ms) {
	my $page = pack('a8 q<7', "\0IPUCLK1", $ms, (0) x 6);
	return spit("$dir/clock", $page) if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!";
	print {$out} $page;
	return close($out);
}

# A second cluster, and an operator on that clock. It needs no Lease, which an hour's leap would cost it.
subtest 'IPU-seconds, and a process that gets nowhere' => sub {
	move_clock(0);
	local $sim = start('ipu-sim', args => [ '--dir', "$dir/other", '--agents=4', '--pod-run-ms=0' ]);
	local $admin = slurp("$dir/other/token");
	my $on_clock = sub (%env) {
		return start('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/clock", %env }, args => [ '--kubeconfig', "$dir/other/kubeconfig",
			map { ('--set', $_) } 'operatorNamespace=default', 'leaderElection.enabled=false', 'health.stuckSeconds=1',
			'controllers=127.0.0.1:' . $sim->port('vipu0'), 'proxy.tlsListen=',
			map { "$_=127.0.0.1:0" } qw(proxy.listen health.listen metrics.listen) ]);
	};
	my $timed = $on_clock->();
	my $look = sub ($series) { return value(read_page(http('GET', $timed->url(metrics => '/metrics'))->{content}, 0), $series) };
	my $health = sub ($seconds = 10) { return http('GET', $timed->url(health => '/healthz'), seconds => $seconds) };
	my $used = 'ipu_operator_ipu_seconds_total{namespace="default"}';
	my $idle = 'ipu_operator_idle_ipu_seconds_total{controller="127.0.0.1:' . $sim->port('vipu0') . '"}';
	make_job('timed', 8);
	wait_until('a job runs', sub { job_state('timed') eq 'Running' });
	my ($began, $used_before, $idle_before) = (time, $look->($used), $look->($idle));
	move_clock(3_600_000);
	my ($used_by, $idle_by) = ($look->($used) - $used_before, $look->($idle) - $idle_before);
	my $most = 8 * (3600 + time - $began + 2);
	ok($used_by >= 8 * 3600 && $used_by <= $most, "8 IPUs for an hour: $used_by");
	ok($idle_by >= 8 * 3600 && $idle_by <= $most, "8 others idle for an hour: $idle_by");
	is($health->()->{status}, 200, 'an hour\'s leap is no reason to be started again');

	$timed->signal('STOP');
	is($health->(1)->{status}, 599, 'who doesn\'t run doesn\'t answer');
	$timed->signal('CONT');
	wait_until('it goes on: it\'s healthy', sub { $health->()->{status} == 200 });

	# A tenth of stuckSeconds at a time, so that no tick of the judge's is left out.
	my $now_ms = 3_600_000;
	my $moves = sub ($daemon, $seconds) {
		for (1 .. 10 * $seconds) {
			move_clock($now_ms += 100);
			my $answer = http('GET', $daemon->url(health => '/healthz'));
			return $answer if $answer->{status} != 200;
		}
		return;
	};
	http('POST', $sim->url('admin', '/sim/api/faults'), json => { kind => 'hang', verb => 'patch', count => 0 });
	api('DELETE', "$jobs/timed", {});
	wait_until('a look at the job hangs', sub { $look->('controller_runtime_active_workers{controller="ipujob"}') == 1 });
	is($moves->($timed, 45), undef, 'an API server that hangs is no reason, for longer than a call may take');
	cmp_ok($look->('controller_runtime_reconcile_errors_total{controller="ipujob"}'), '>=', 1, '... a call of which has failed by then');
	http('DELETE', $sim->url('admin', '/sim/api/faults'));
	move_clock($now_ms += 100_000);
	wait_until('it gets on: the job goes', sub { api('GET', "$jobs/timed")->{status} == 404 });
	is($health->()->{status}, 200, '... it was healthy all the time');
	$timed->stop(status => 0);

	my $lost = $on_clock->(IPU_FAULT => 'lose:work queue:ipujob');
	wait_until('one that will lose the end of its looks is ready', sub { http('GET', $lost->url(health => '/readyz'))->{status} == 200 });
	is($moves->($lost, 5), undef, 'it has nothing to do: it\'s healthy');
	make_job('lost', 1);
	wait_until('a look is lost', sub {
		value(read_page(http('GET', $lost->url(metrics => '/metrics'))->{content}, 0), 'controller_runtime_active_workers{controller="ipujob"}') == 1;
	});
	my $stuck = wait_until('a queue that gets nowhere is told', sub { $moves->($lost, 1) });
	like($stuck->{content}, qr/work queue ipujob: nothing has moved there for 31 s/, '... with its name');
	is(value(read_page(http('GET', $lost->url(metrics => '/metrics'))->{content}, 0), 'ipu_operator_loop_stuck'), 1, '... as a metric, too');
	$lost->stop(status => 0);
	$sim->stop(status => 0);
};

# It has no Secret to share: a certificate of its own, or an administrator's.
subtest 'the role node alone' => sub {
	my $node = sub (@sets) {
		return start('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/node-clock" }, args => [ '--kubeconfig', "$dir/sim/kubeconfig", '--roles=node',
			map { ('--set', $_) } 'node.name=sim0', 'metrics.secure=true', 'metrics.listen=127.0.0.1:0', 'health.listen=127.0.0.1:0', @sets ]);
	};
	# curl's end, the status and the body.
	my $get = sub ($of, @words) {
		my $done = run([ qw(curl -sS --max-time 20 --noproxy * -w), '\n%{http_code}', @words, 'https://localhost:' . $of->port('metrics') . '/metrics' ], name => 'curl');
		my ($body, $code) = $done->{out} =~ /\A(.*)\n(\d+)\z/s;
		return { end => $done->{status}, code => $code, body => $body };
	};
	my $set_clock = sub ($seconds) {
		my $page = pack('a8 q<7', "\0IPUCLK1", 1000 * $seconds, (0) x 6);
		return spit("$dir/node-clock", $page) if !-e "$dir/node-clock";
		open(my $out, '+<:raw', "$dir/node-clock") or die "clock: $!";
		print {$out} $page;
		return close($out);
	};
	# What it serves: its fingerprint.
	my $served = sub ($of) {
		my $done = run([ 'sh', '-c', 'openssl s_client -connect 127.0.0.1:' . $of->port('metrics') . ' </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -dates' ]);
		return $done->{out};
	};
	$set_clock->(0);
	my $own = $node->();
	is($get->($own, bearer($token))->{end}, 60, 'nobody can verify what it made for itself');
	my $answer = $get->($own, '-k', bearer($token));
	is($answer->{code}, 200, 'a token that may read, over TLS');
	like($answer->{body}, qr/^ipu_operator_build_info\{/m, '... has them');
	is($get->($own, '-k')->{code}, 401, 'no token');
	is($get->($own, '-k', bearer('x'))->{code}, 401, 'a bad one');
	http('POST', $sim->url('admin', '/sim/api/deny'), json => { path => '/metrics', verb => 'get', user => 'system:serviceaccount:monitoring:somebody' });
	is($get->($own, '-k', bearer(token('somebody')))->{code}, 403, 'an account that may not');
	http('DELETE', $sim->url('admin', '/sim/api/deny'));
	is(http('GET', $own->url('metrics', '/metrics'))->{success}, '', 'nothing without TLS');
	my $before = $served->($own);
	like($before, qr/Fingerprint=/, 'a certificate is served');
	$set_clock->(61 * 86_400);
	wait_until('another one to be served', sub { my $now = $served->($own); $now =~ /Fingerprint/ && $now ne $before });
	pass('it is made anew in time');
	$own->stop(status => 0);
	my $made = run([ qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 400 -subj /CN=localhost -addext subjectAltName=DNS:localhost),
		'-keyout', "$dir/node.key", '-out', "$dir/node.pem" ], name => 'openssl');
	is($made->{status}, 0, 'an administrator\'s') or diag($made->{err});
	my $given = $node->("metrics.certFile=$dir/node.pem", "metrics.keyFile=$dir/node.key");
	is($get->($given, '--cacert', "$dir/node.pem", bearer($token))->{code}, 200, '... can be verified');
	$given->stop(status => 0);
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
