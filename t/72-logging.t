#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Log lines of the daemon: the journal's priorities where stderr leads there, JSON, the threshold of slow
# turns; and traces (W3C Trace Context), from a request over log lines to the API server and V-IPU.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(110);
my $dir = test_dir();
my $folder = "$dir/sim";
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4', '--verbose']);
my @settings = ('--kubeconfig', "$folder/kubeconfig", map { ('--set', $_) } 'operatorNamespace=ipu-operator',
	'log.level=5', 'controllers=127.0.0.1:' . $sim->port('vipu0'),
	map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen));

sub ready ($daemon) {
	return wait_until('the daemon is ready', sub { http(GET => $daemon->url('health', '/readyz'))->{status} == 200 });
}

# Stderr as it would lead to the journal: $JOURNAL_STREAM names its device and inode, or others.
sub with_stream ($off, @more) {
	my $code = 'my @s = stat STDERR; $ENV{JOURNAL_STREAM} = "$s[0]:" . ($s[1] + shift @ARGV); exec { $ARGV[0] } @ARGV';
	return start('ipu-operator', path => $^X, args => ['-e', $code, $off, program('ipu-operator'), @settings, @more]);
}

subtest 'the form of lines' => sub {
	for my $row (
		['the journal', 0, [], qr/^<[2-7]>\d{4}-/],
		['another stream', 1, [], qr/^\d{4}-/],
		['the journal, and text asked for', 0, ['--set', 'log.format=text'], qr/^\d{4}-/],
		['the journal, and JSON asked for', 0, ['--set', 'log.format=json'], qr/^\{"time":".*\}$/],
	) {
		my ($what, $off, $more, $pattern) = @$row;
		my $daemon = with_stream($off, @$more);
		ready($daemon);
		my @lines = split /\n/, $daemon->err;
		cmp_ok(scalar @lines, '>', 5, "$what: there are lines");
		is_deeply([grep { !/$pattern/ } @lines], [], '... and all have the form');
		is_deeply([grep { $more->[1] && $more->[1] =~ /json/ && !eval { json_decode($_)->{component} } } @lines], [],
			'... JSON can be read');
		if ($what eq 'the journal') {
			is_deeply([grep { /^<(\d)>\S+ (\w+)/ && $1 != {FATAL => 2, ERROR => 3, WARN => 4, INFO => 6, DEBUG => 7, TRACE => 7}->{$2} }
				@lines], [], '... with the priority of the level');
			ok((grep { /^<7>/ } @lines) && (grep { /^<6>/ } @lines), '... of more than one level');
		}
		$daemon->stop;
	}
};

# Each of these is slow in a process of its own, and told by what it was about.
subtest 'slow turns' => sub {
	my $secret = 'c2VjcmV0';
	my $token = slurp("$folder/token");
	my $job = {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => 'slow-job'},
		spec => {jobInstances => 1, ipusPerJobInstance => '1', workers => {template => {spec => {containers => [{name => 'w', image => 'i'}]}}}}};
	my $jobs = $sim->url('api-plain', '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs');
	is(http(POST => $jobs, headers => {authorization => "Bearer $token"}, json => $job)->{status}, 201, 'a job for them');
	for my $row (
		['timer:health.c:on_tick', qr/longest=timer:health\.c:on_tick longest_ms=\d+\b/],
		['GET:/readyz', qr{longest=\S+ longest_ms=\d+ about="GET /readyz" about_ms=\d+\b}],
		['GET:/partitions', qr{longest=\S+ longest_ms=\d+ about="GET /partitions" about_ms=\d+\b}],
		['work queue:ipujob', qr{longest=work:workqueue\.c:run_ready longest_ms=\d+ about="work queue ipujob default/slow-job" about_ms=\d+\b}],
		['watch:ipujobs', qr{longest=\S+ longest_ms=\d+ about="watch ipujobs" about_ms=\d+\b}],
		['answer to:list', qr{longest=\S+ longest_ms=\d+ about="answer to list \w+" about_ms=\d+\b}],
		['answer to:GetVersion', qr{longest=\S+ longest_ms=\d+ about="answer to GetVersion 127\.0\.0\.1:\d+" about_ms=\d+\b}],
	) {
		my ($place, $pattern) = @$row;
		my $daemon = start('ipu-operator', env => {IPU_FAULT => "slow:$place"}, args => [@settings,
			map { ('--set', $_) } 'leaderElection.enabled=false', 'health.stuckSeconds=2']);
		my $url = $daemon->url('health', '/readyz') =~ s{/readyz\z}{}r;
		ok(eval { wait_until("slow:$place", sub {
			http(GET => "$url/readyz?token=$secret", headers => {authorization => "Bearer $secret"});
			http(GET => $daemon->url('proxy', "/partitions?token=$secret"), headers => {authorization => "Bearer $secret"});
			http(PATCH => "$jobs/slow-job", headers => {authorization => "Bearer $token", 'content-type' => 'application/merge-patch+json'},
				json => {metadata => {annotations => {'example.com/x' => rand()}}});
			grep { /a turn of the event loop took long: .*$pattern/ } split /\n/, $daemon->err;
		}) }, "slow:$place is told with what it was about") or diag(join "\n", grep { /took long/ } split /\n/, $daemon->err);
		unlike($daemon->err, qr/$secret|\Q$token\E/, '... without a token or a query');
		$daemon->stop;
	}
	http(DELETE => "$jobs/slow-job", headers => {authorization => "Bearer $token"});
};

my $traced = '0af7651916cd43dd8448eb211c80319c';
my $parent = "00-$traced-b7ad6b7169203331-01";

# Lines of a program that have the trace.
sub lines_of ($program) { return grep { /trace_id=$traced/ } split /\n/, $program->err }

subtest 'traces' => sub {
	plan skip_all => 'no curl on this machine (./setup --tests)' if !grep { -x "$_/curl" } split /:/, $ENV{PATH};
	my $token = slurp("$folder/token");
	my $api = sub ($method, $path, @json) {
		return http($method, $sim->url('api-plain', $path), headers => {authorization => "Bearer $token"},
			map { (json => $_) } @json);
	};
	$api->(POST => '/api/v1/namespaces', {apiVersion => 'v1', kind => 'Namespace', metadata => {name => 'ipu-operator'}});
	my $accounts = '/api/v1/namespaces/ipu-operator/serviceaccounts';
	my $account = 'ipu-operator-controller-manager';
	$api->(POST => $accounts, {apiVersion => 'v1', kind => 'ServiceAccount', metadata => {name => $account}});
	my $answer = $api->(POST => "$accounts/$account/token", {apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest',
		spec => {audiences => ['ipu-operator-proxy']}});
	my $callers = $answer->{json}{status}{token} or die "no token: $answer->{content}\n";
	my $daemon = start('ipu-operator', args => ['--roles=proxy', @settings]);
	ready($daemon);
	my $secret = wait_until('the authority', sub {
		$api->(GET => '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates')->{json}{data}{'ca.crt'};
	});
	my $ca = spit("$dir/ca.pem", decode_base64($secret));
	my $curl = sub ($method, $path, @more) {
		my $went = run(['curl', qw(-sS --max-time 20 --noproxy * -o /dev/null -w %{http_code}), '-X', $method, '--cacert', $ca,
			'-H', "Authorization: Bearer $callers", '-H', 'Content-Type: application/json', @more,
			'https://localhost:' . $daemon->port('proxy-tls') . $path]);
		return $went->{out} || $went->{err};
	};
	my $ask = sub ($uid) {
		return ('--data', json_encode({owner => {kind => 'IPUJob', namespace => 'default', name => 'x', uid => $uid},
			instance => 0, ipus => 1}));
	};
	is($curl->(POST => '/v1/partitions', $ask->('uid-0')), 201, 'an ask without a trace');
	wait_until('its partition', sub { $sim->err =~ /vipu-sim .*CreatePartition: OK/ });
	is(scalar(grep { /trace_id=/ } map { split /\n/, $_->err } $daemon, $sim), 0, '... nobody speaks of one');
	for my $bad ("00-$traced-b7ad6b7169203331-01-x", '00-' . '0' x 32 . '-b7ad6b7169203331-01', uc $parent, 'nonsense') {
		is($curl->(GET => '/v1/partitions/uid-0/0', '-H', "traceparent: $bad"), 200, "traceparent: $bad");
	}
	is($curl->(GET => '/v1/partitions/uid-0/0', ('-H', "traceparent: $parent") x 2), 200, 'two of them');
	is(scalar(grep { /trace_id=/ } map { split /\n/, $_->err } $daemon, $sim), 0, '... are all left alone');
	is($curl->(POST => '/v1/partitions', $ask->('uid-1'), '-H', "traceparent: $parent", '-H', 'tracestate: vendor=1'), 201,
		'an ask with one');
	wait_until('V-IPU to be asked within it', sub { grep { /vipu-sim .*CreatePartition: / } lines_of($sim) });
	my @of_api = grep { / api / } lines_of($sim);
	ok((grep { /(?:PUT|PATCH|POST) .*configmaps/ } @of_api), '... and the API server to write the tracker')
		or diag(join "\n", @of_api);
	my ($line) = grep { m{proxy .*POST /v1/partitions} } lines_of($daemon);
	like($line // '', qr/trace_id=$traced span_id=[0-9a-f]{16}$/, 'the daemon\'s own line names trace and span')
		or diag(join "\n", lines_of($daemon));
	my ($ours) = ($line // '') =~ /span_id=(\S+)/;
	isnt($ours, 'b7ad6b7169203331', '... a span of its own');
	is($curl->(POST => '/v1/partitions', $ask->('uid-2')), 201, 'the next ask without one');
	wait_until('its partition', sub { 3 <= (() = $sim->err =~ /vipu-sim .*CreatePartition: OK/g) });
	is(scalar(grep { /CreatePartition: / } lines_of($sim)), 1, '... does not belong to it');
	my $other = reverse $traced;
	my $went = run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", '--operator-namespace', 'ipu-operator', 'cordon', '127.0.0.1:1'],
		env => {TRACEPARENT => "00-$other-b7ad6b7169203331-01"});
	ok((grep { / api / && /trace_id=$other/ } split /\n/, $sim->err), 'ipuctl passes on $TRACEPARENT')
		or diag("$went->{out}$went->{err}");
	$daemon->stop;
};

$sim->stop;
done_testing();
