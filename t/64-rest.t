#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Both REST ports against doc/openapi.yaml: every path, method and status of it, each answer's headers
# and body by its schema; no path that it lacks; and what it says in words: who may do what, how often
# something can be asked, what waits and for how long.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use ClockPage;
use IO::Socket::INET ();
use IpuTest;
use IpuTree qw(file_text top_srcdir tree_files);
use MetricNames qw(covers_metrics);
use OpenApi;
use Test::More;
use Time::HiRes qw(time);

watchdog(150);
my $curl = program_or_skip('curl');
my $openssl = program_or_skip('openssl');
my $dir = test_dir();
my $document = OpenApi->load(top_srcdir() . '/doc/openapi.yaml');
my %seen; # "METHOD PATH STATUS"

# Of a follower whose leader misbehaves: t/unit/proxy_test.c.
my %elsewhere = map { ("$_ 502" => 1) } map { "$_->{method} $_->{path}" } $document->operations;

# ---- the paths of the code are those of the document ----

{
	my (%served, %documented);
	for my $path (tree_files(qr{\.c$}, 'src/proxy')) {
		my $text = file_text($path);
		$served{"$1 $2"} = 1 while $text =~ /\{HTTP_METHOD_([A-Z]+),\s*"([^"]+)",/g;
	}
	$documented{"$_->{method} $_->{path}"} = 1 for $document->operations;
	is_deeply([ sort keys %served ], [ sort keys %documented ], 'the document has the paths that are served');
}

# ---- the world ----

sub certificate ($name) {
	my $made = run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2
		-subj /CN=localhost -addext), 'subjectAltName=DNS:localhost,IP:127.0.0.1',
		'-keyout', "$dir/$name-key.pem", '-out', "$dir/$name.pem"], name => 'openssl');
	is($made->{status}, 0, "the certificate $name") or diag($made->{err});
	return ("$dir/$name.pem", "$dir/$name-key.pem");
}

my ($cert, $key) = certificate('server');
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--controllers=2', '--agents=4', '--create-ms=100',
	'--reset-ms=100', '--remove-ms=2000', '--pod-schedule-ms=10', '--pod-start-ms=10', '--pod-run-ms=0']);
my $admin = slurp("$dir/sim/token");
my $controllers = join ',', map { '127.0.0.1:' . $sim->port($_) } qw(vipu0 vipu1);

sub api ($method, $path, $json) {
	my $answer = http($method, $sim->url('api-plain', $path), json => $json,
		headers => { authorization => "Bearer $admin" });
	die "$method $path: $answer->{status} $answer->{content}\n" if $answer->{status} !~ /^20/;
	return $answer->{json};
}

sub operator ($name, @args) {
	return start('ipu-operator', args => ['--set', 'operatorNamespace=ipu-operator', '--roles', 'proxy',
		(map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
		'--set', 'proxy.tlsListen=127.0.0.1:0', '--set', "proxy.tlsCertFile=$cert",
		'--set', "proxy.tlsKeyFile=$key", '--set', "controllers=$controllers", @args]);
}

sub token ($ns, $account, $audience, $pod = undef) {
	my $spec = { audiences => [$audience], expirationSeconds => 3600 };
	$spec->{boundObjectRef} = { apiVersion => 'v1', kind => 'Pod', name => $pod->{metadata}{name},
		uid => $pod->{metadata}{uid} } if $pod;
	return api('POST', "/api/v1/namespaces/$ns/serviceaccounts/$account/token",
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => $spec })->{status}{token};
}

sub pod ($ns, $name) {
	return api('POST', "/api/v1/namespaces/$ns/pods", { apiVersion => 'v1', kind => 'Pod',
		metadata => { name => $name }, spec => { containers => [ { name => 'main', image => 'busybox' } ] } });
}

for my $ns (qw(ipu-operator team-a total)) {
	http('POST', $sim->url('api-plain', '/api/v1/namespaces'), headers => { authorization => "Bearer $admin" },
		json => { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns } });
}
my $manager = 'ipu-operator-controller-manager';
api('POST', '/api/v1/namespaces/ipu-operator/serviceaccounts', { apiVersion => 'v1', kind => 'ServiceAccount',
	metadata => { name => $manager } });
my $trusted = token('ipu-operator', $manager, 'ipu-operator-proxy');
my ($pod, $other_pod) = (pod('team-a', 'mine'), pod('team-a', 'other'));
my $pod_token = token('team-a', 'default', 'ipu-operator-proxy', $pod);
my $pod_uid = $pod->{metadata}{uid};

my $daemon = operator('daemon', '--kubeconfig', "$dir/sim/kubeconfig", '--set', 'log.level=5',
	'--set', 'vipu.idleRefreshSeconds=1');
wait_until('the daemon is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
wait_until('both controllers have answered', sub {
	http('GET', $daemon->url('proxy', '/stats'))->{json}{total}{available} == 32;
});

# ---- requests ----

# By curl, with TLS and the token where the port wants them. Checks the answer against the operation of
# the document: $op is "METHOD /path/{as}/documented".
sub ask ($op, %option) {
	my ($method, $documented) = split / /, $op;
	my $operation = $document->operation($method, $documented);
	my $path = $documented =~ s/\{(\w+)\}/$option{$1} \/\/ die "no $1\n"/ger;
	$path .= "?$option{query}" if defined $option{query};
	my $secure = $documented =~ m{^/v1/};
	my $server = $option{on} // $daemon;
	my $url = $secure ? 'https://localhost:' . $server->port('proxy-tls') . $path : $server->url('proxy', $path);
	my @args = ('--request', $method, '--cacert', $cert);
	my %headers = ('Content-Type' => 'application/json', %{ $option{headers} // {} });
	$headers{Authorization} //= 'Bearer ' . ($option{token} // $trusted) if $secure;
	my $body = exists $option{json} ? json_encode($option{json}) : $option{body};
	delete $headers{'Content-Type'} if !defined $body;
	push @args, '--header', defined $headers{$_} && length $headers{$_} ? "$_: $headers{$_}" : "$_:" for sort keys %headers;
	push @args, '--data-binary', '@' . spit("$dir/body", $body) if defined $body;
	my $answer = curl($url, @args);
	$seen{"$op $answer->{status}"}++;
	my @wrong = $document->check($operation, $answer);
	ok(!@wrong, "$option{name}: as documented") or diag(join "\n", @wrong, $answer->{content});
	is($answer->{status}, $option{status}, "$option{name}: $option{status}") or diag($answer->{content});
	$answer->{json} = eval { json_decode($answer->{content}) };
	like($answer->{json}{detail}, $option{detail}, "$option{name}: what is wrong") if $option{detail};
	return $answer;
}

sub curl ($url, @args) {
	my $done = run([$curl, qw(-sS --http1.1 --max-time 30 --noproxy * --dump-header), "$dir/head",
		'--output', "$dir/answer", @args, $url], name => 'curl');
	is($done->{status}, 0, 'curl has an answer') or diag($done->{err});
	my %headers = map { /^([^:]+):\s*(.*?)\r?$/ ? (lc $1 => $2) : () } split /\n/, (slurp("$dir/head") // '');
	my ($status) = (slurp("$dir/head") // '') =~ m{.*^HTTP/1\.1 (\d+)}ms;
	my $content = $headers{'content-length'} || $headers{'transfer-encoding'} ? slurp("$dir/answer") // '' : '';
	unlink "$dir/answer", "$dir/head";
	return { status => $status // 0, headers => \%headers, content => $content };
}

my @any = (uid => 'owner-1', instance => 0, part => 0);
sub owner ($uid, %more) { return { kind => 'IPUJob', namespace => 'team-a', name => 'train', uid => $uid, %more } }
sub wanted ($uid, %more) { return { owner => owner($uid), instance => 0, ipus => 4, options => {}, %more } }
sub told (@uids) {
	return { held => @uids + 2, items => [ map { { owner => owner($_), ipus => 8, since => '2026-01-01T00:00:00Z', reason => 'Suspended',
		message => 'Suspended by maria', plain => 'it asks for no IPUs' } } @uids ] };
}
sub pods_told () {
	return { items => [ { owner => 'held-1', instance => 0, pods => [ { name => 'train-0', phase => 'Running', node => 'node-1' } ] } ] };
}
sub post (%option) { return ask('POST /v1/partitions', %option) }
sub status_of (%option) { return ask('GET /v1/partitions/{uid}/{instance}', @any, %option) }

# Until the instance is in that state, by long polls, as a client would.
sub until_state ($state, %option) {
	my $answer = status_of(%option, name => "before $state", status => 200);
	for (1 .. 20) {
		return $answer if $answer->{json}{state} eq $state;
		my $etag = $answer->{headers}{etag};
		my $next = curl('https://localhost:' . $daemon->port('proxy-tls') . "/v1/partitions/$option{uid}/0?wait=5",
			'--cacert', $cert, '--header', "Authorization: Bearer $trusted", '--header', "If-None-Match: $etag");
		last if $next->{status} != 200;
		$answer = { %$next, json => json_decode($next->{content}) };
	}
	fail("$option{uid} became $state");
	return $answer;
}

subtest 'the open port' => sub {
	is_deeply(ask('GET /stats', name => 'stats', status => 200)->{json}, { total => { used => 0, available => 32 } }, 'free');
	is(ask('GET /health', name => 'health', status => 200)->{content}, "ok\n", 'health');
	my %query = map { $_ => ask('POST /query', body => $_, name => "query $_", status => 200)->{json} }
		'{"size":2}', '{"size":3}', '{"size":2,"more":[]}';
	is($query{'{"size":2}'}{numOfPartitions}, 16, '... how many');
	is($query{'{"size":3}'}{numOfPartitions}, 0, '... of no power of two');
	ask('POST /query', body => '{"size":2}', headers => { 'Content-Type' => 'application/x-www-form-urlencoded' },
		name => 'query as curl sends it', status => 200);
	for my $body ('{"size":0}', '{"size":-1}', '{"size":"2"}', '{"size":1.5}', '{}', '', '[', '{"size":99999999999999999999}') {
		ask('POST /query', body => $body, name => "query $body", status => 400, detail => qr/size|JSON/);
	}
	is_deeply(ask('GET /query', query => 'size=2', name => 'a query by GET', status => 200)->{json},
		ask('POST /query', body => '{"size":2}', name => 'the same by POST', status => 200)->{json}, 'both say the same');
	ask('GET /query', query => $_, name => "GET /query?$_", status => 400, detail => qr/size/)
		for '', 'size=', 'size=0', 'size=x', 'size=-1';
	ask('POST /query', body => ' ' x 70_000, name => 'a large query', status => 413);
	my $capacity = ask('GET /capacity', name => 'capacity', status => 200)->{json};
	is($capacity->{total}{freeIPUs}, 32, 'capacity: free');
	is_deeply($capacity->{controllers}[0]{domains}, [ { domain => 0, totalIPUs => 16, freeIPUs => 16 } ], '... by domain');
	is_deeply(ask('GET /queue', name => 'queue', status => 200)->{json}, { items => [] }, 'the queue');
	is_deeply(ask('GET /partitions', name => 'partitions', status => 200)->{json}, { items => [] }, 'partitions');
	is(scalar @{ ask('GET /controllers', name => 'controllers', status => 200)->{json}{items} }, 2, 'controllers');
};

# Events have no end: what comes first, checked as ask does.
sub ask_events ($server, $name) {
	unlink "$dir/answer"; # of another
	my $curling = start('curl', path => $curl, ports => 0, args => [ qw(-sSN --http1.1 --noproxy * --dump-header), "$dir/head", '--output', "$dir/answer",
		$server->url('proxy', '/live/events') ]);
	my $text = wait_until("$name: an event", sub { my $is = slurp("$dir/answer") // ''; $is =~ /\n\n\z/ && $is });
	ok($curling->is_alive, "$name: it goes on");
	$curling->stop(status => 143);
	my %headers = map { /^([^:]+):\s*(.*?)\r?$/ ? (lc $1 => $2) : () } split /\n/, slurp("$dir/head");
	$seen{'GET /live/events 200'}++;
	my @wrong = $document->check($document->operation('GET', '/live/events'), { status => 200, headers => \%headers,
		content => $text });
	ok(!@wrong, "$name: as documented") or diag(join "\n", @wrong);
	return $text;
}

subtest 'the page' => sub {
	for my $path (qw(/ /page.css /page.js /icon.svg /live)) {
		my $etag = ask("GET $path", name => $path, status => 200)->{headers}{etag};
		ask("GET $path", headers => { 'If-None-Match' => $etag }, name => "$path again", status => 304);
	}
	is_deeply(ask('GET /names', name => 'names', status => 200)->{json}, { names => json_decode('false'), items => [] }, 'no names');
	ask("GET $_", headers => { Host => 'evil.example' }, name => "$_ under another site's name", status => 403, detail => qr/localhost/)
		for qw(/ /page.css /page.js /icon.svg /live /live/events /names);
	my $events = ask_events($daemon, 'events');
	my ($id, $event, $data) = $events =~ /\Aid: (\S+)\nevent: (\w+)\ndata: ([^\n]+)\n\n/;
	is($event, 'snapshot', 'a snapshot first');
	is_deeply([ $document->invalid({ '$ref' => '#/components/schemas/Live' }, json_decode($data), 'data') ], [], '... as /live has it');
	is(json_decode($data)->{id}, $id, '... with its id');
};

subtest 'methods and paths' => sub {
	for my $op ($document->operations) {
		my $path = $op->{path} =~ s/\{uid\}/u/r =~ s/\{(?:instance|part)\}/0/r;
		my $base = $path =~ m{^/v1/} ? 'https://localhost:' . $daemon->port('proxy-tls') : $daemon->url('proxy', '');
		my @allowed = map { $_->{method} eq 'GET' ? qw(GET HEAD) : $_->{method} }
			grep { $_->{path} eq $op->{path} } $document->operations;
		my $want = join ', ', sort @allowed, 'OPTIONS';
		my $options = curl("$base$path", '--cacert', $cert, '--request', 'OPTIONS');
		is($options->{status}, 204, "OPTIONS $path");
		is(join(', ', sort split /, /, $options->{headers}{allow} // ''), $want, '... what is allowed');
		my $patch = curl("$base$path", '--cacert', $cert, '--request', 'PATCH', '--data', '{}');
		is($patch->{status}, 405, "PATCH $path");
		is($patch->{headers}{'content-type'}, 'application/problem+json', '... as a problem');
		is(join(', ', sort split /, /, $patch->{headers}{allow} // ''), $want, '... and what is');
		next if $op->{method} ne 'GET';
		if ($path eq '/live/events') {
			is(curl("$base$path", '--head')->{status}, 200, "HEAD $path");
			next;
		}
		my $get = curl("$base$path", '--cacert', $cert, '--header', "Authorization: Bearer $trusted");
		my $head = curl("$base$path", '--cacert', $cert, '--header', "Authorization: Bearer $trusted", '--head');
		is($head->{status}, $get->{status}, "HEAD $path");
		is($head->{headers}{'content-length'}, $get->{headers}{'content-length'}, '... of the same length');
	}
	for my $url ($daemon->url('proxy', '/none'), 'https://localhost:' . $daemon->port('proxy-tls') . '/v1/none') {
		my $none = curl($url, '--cacert', $cert);
		is($none->{status}, 404, "nothing at $url");
		is_deeply([ $document->invalid({ '$ref' => '#/components/schemas/Problem' }, json_decode($none->{content}), 'body') ],
			[], '... as a problem');
	}
};

subtest 'who is let in' => sub {
	for my $op (grep { $_->{path} =~ m{^/v1/} } $document->operations) {
		my $name = "$op->{method} $op->{path}";
		my %more = $name eq 'POST /v1/partitions' ? (json => wanted('owner-1'))
			: $name eq 'PUT /v1/held' ? (json => told('held-1')) : $name eq 'PUT /v1/pods/{part}' ? (json => pods_told()) : ();
		my $none = ask($name, @any, %more, headers => { Authorization => '' }, name => "$name without a token", status => 401);
		unlike($none->{headers}{'www-authenticate'}, qr/error/, '... none was sent');
		my $bad = ask($name, @any, %more, token => 'x' x 40, name => "$name with a bad one", status => 401);
		like($bad->{headers}{'www-authenticate'}, qr/error="invalid_token"/, '... it is no good');
		ask($name, @any, %more, token => token('ipu-operator', $manager, 'somebody-else'), status => 401,
			name => "$name with one for another audience");
		ask($name, @any, %more, token => token('team-a', 'default', 'ipu-operator-proxy'), status => 403,
			name => "$name by somebody", detail => qr/system:serviceaccount:team-a:default/);
		ask($name, @any, %more, token => $pod_token, status => 403, name => "$name by another's Pod");
	}
	ask('GET /v1/partitions', headers => { Authorization => 'Basic eDp5' }, name => 'another scheme', status => 401);
};

subtest 'what is held' => sub {
	my $held = sub { my $live = ask('GET /live', name => 'the page\'s data', status => 200)->{json}; return ($live->{total}{held}, $live->{held}) };
	my ($count, $list) = $held->();
	is($count, undef, 'where nobody tells, it isn\'t known');
	ask('PUT /v1/held', json => told('held-1', 'held-2'), name => 'told', status => 204);
	wait_until('it is shown', sub { http('GET', $daemon->url('proxy', '/live'))->{json}{total}{held} });
	($count, $list) = $held->();
	is($count, 4, 'all are counted');
	is_deeply([ map { "$_->{namespace} $_->{ipus} $_->{reason}: $_->{message}" } @$list ], [ ('team-a 8 Suspended: it asks for no IPUs') x 2 ], 'those that are told are listed, without names');
	ask('PUT /v1/held', json => { %{ told('held-1') }, held => 0 }, name => 'one of none', status => 400, detail => qr/held counts all/);
	ask('PUT /v1/held', body => '[', name => 'no JSON', status => 400, detail => qr/JSON/);
	($count) = $held->();
	is($count, 4, 'what is wrong changes nothing');
	ask('PUT /v1/held', json => { held => 0, items => [] }, name => 'nothing is held', status => 204);
	wait_until('it goes', sub { !@{ http('GET', $daemon->url('proxy', '/live'))->{json}{held} } });
	is(($held->())[0], 0, 'none, and that is known');
	ask('PUT /v1/pods/{part}', @any, json => pods_told(), name => 'Pods', status => 204);
	ask('PUT /v1/pods/{part}', part => 16, json => pods_told(), name => 'a part too many', status => 400, detail => qr/from 0 to 15/);
	ask('GET /v1/pods', name => 'Pods, where nothing is named', status => 200);
	ask('GET /v1/held', name => 'what is held, for a replica', status => 200);
	for my $op ('GET /v1/held', 'GET /v1/pods') {
		my $tag = ask($op, name => $op, status => 200)->{headers}{etag};
		ask($op, headers => { 'If-None-Match' => $tag }, name => "$op, again", status => 304);
		ask($op, query => 'x=1', name => "$op of nothing", status => 400, detail => qr/no parameter "x"/);
	}
	ask('PUT /v1/held', json => { same => '0' x 64 }, name => 'that it is the same, which it isn\'t', status => 409, detail => qr/tell all again/);
	my $unseen = operator('unseen', '--kubeconfig', "$dir/sim/kubeconfig", map { ('--set', $_) } 'operatorNamespace=team-a', 'proxy.page=off',
		"proxy.controllerAccounts=system:serviceaccount:ipu-operator:$manager");
	wait_until('another one is ready', sub { http('GET', $unseen->url('health', '/readyz'))->{status} == 200 });
	ask('PUT /v1/held', json => told('held-1'), on => $unseen, name => 'told without a page', status => 404, detail => qr/proxy\.page is off/);
	ask('PUT /v1/pods/{part}', @any, json => pods_told(), on => $unseen, name => 'Pods without a page', status => 404, detail => qr/proxy\.page is off/);
	ask($_, on => $unseen, name => "$_ without a page", status => 404, detail => qr/proxy\.page is off/) for 'GET /v1/held', 'GET /v1/pods';
	$unseen->stop(status => 0);
};

subtest 'an owner' => sub {
	status_of(name => 'nothing yet', status => 404);
	ask('DELETE /v1/partitions/{uid}/{instance}', @any, name => 'nothing to release', status => 204);
	ask('DELETE /v1/partitions/{uid}', @any, name => 'nothing at all', status => 204);
	for my $what ('DELETE /v1/partitions/{uid}/{instance}', 'DELETE /v1/partitions/{uid}') {
		ask($what, @any, query => 'abandon=true', name => 'nothing to abandon', status => 204);
		ask($what, @any, query => 'abandon=1', name => 'neither', status => 400, detail => qr/abandon/);
	}
	ask('POST /v1/partitions/{uid}/{instance}/reset', @any, name => 'nothing to reset', status => 404);
	ask('GET /v1/partitions/{uid}/{instance}/ipuof', @any, name => 'no configuration', status => 404);
	my $made = post(json => wanted('owner-1'), name => 'asked', status => 201);
	is($made->{headers}{location}, '/v1/partitions/owner-1/0', '... where it is');
	is_deeply($made->{json}{owner}, owner('owner-1'), '... whose it is');
	ask('GET /v1/partitions/{uid}/{instance}/ipuof', @any, name => 'no configuration yet', status => 409, detail => qr/wait=/);
	my $active = until_state('active', uid => 'owner-1');
	is($active->{json}{controller}, (split /,/, $controllers)[0], '... on the first controller');
	my $again = post(json => wanted('owner-1'), name => 'asked again', status => 200);
	is($again->{content}, $active->{content}, '... nothing has changed');
	is($again->{headers}{etag}, $active->{headers}{etag}, '... nor has its tag');
	post(json => wanted('owner-1', owner => owner('owner-1', name => 'else')), name => 'as another owner', status => 409);
	my $files = ask('GET /v1/partitions/{uid}/{instance}/ipuof', @any, name => 'its configuration', status => 200)->{json}{files};
	is_deeply([ sort keys %$files ], ['ipuof-0.conf'], '... one GCD, one file');
	ok(json_decode($files->{'ipuof-0.conf'})->{devices}, '... which is JSON');
	is(ask('GET /stats', name => 'used', status => 200)->{json}{'team-a'}{used}, 4, '/stats has it');
	my $shown = ask('GET /partitions', name => 'shown', status => 200)->{json}{items};
	is($shown->[0]{id}, $active->{json}{id}, '/partitions has it');
	is($shown->[0]{state}, 'active', '... active');
	is(ask('GET /capacity', name => 'capacity', status => 200)->{json}{total}{usedIPUs}, 4, '/capacity has it');
	is(ask('GET /v1/partitions', query => 'uid=owner-1', name => 'a list', status => 200)->{json}{held}, 2,
		'held: asked for, and in the record');
	is(scalar @{ ask('GET /v1/partitions', name => 'all', status => 200)->{json}{items} }, 1, 'all owners');
	is_deeply(ask('GET /v1/partitions', query => 'uid=none', name => 'nobody', status => 200)->{json},
		{ items => [], held => 0 }, 'of an owner without any');
};

subtest 'resets' => sub {
	my $reset = ask('POST /v1/partitions/{uid}/{instance}/reset', @any, name => 'reset', status => 202);
	is($reset->{json}{state}, 'resetting', '... at once');
	is(until_state('active', uid => 'owner-1')->{json}{resets}, 1, '... once');
	my $again = post(json => wanted('owner-1'), query => 'reset=true', name => 'asked again with a reset', status => 200);
	is($again->{json}{state}, 'resetting', '... at once');
	is(until_state('active', uid => 'owner-1')->{json}{resets}, 2, '... once more');
	post(json => wanted('owner-1'), query => 'reset=false', name => 'without', status => 200);
	my $held = ask('GET /v1/partitions/{uid}/{instance}', @any, name => 'as it was', status => 200)->{json};
	is("$held->{state} $held->{attempt}", 'active 2', '... two attempts on');
	post(json => { %{ wanted('owner-1') }, attempt => 2 }, name => 'the same attempt', status => 200);
	my $other = post(json => { %{ wanted('owner-1') }, attempt => 9 }, name => 'another attempt', status => 200)->{json};
	is("$other->{state} $other->{wantedAttempt}", 'resetting 9', '... is reset for');
	$held = until_state('active', uid => 'owner-1')->{json};
	is("$held->{attempt} $held->{resets}", '9 3', '... once');
	is($held->{wantedAttempt}, undef, '... and is what is asked for');
	post(json => { %{ wanted('owner-1') }, attempt => 9 }, query => 'reset=true', name => 'both', status => 400,
		detail => qr/attempt/);
	post(json => { %{ wanted('owner-1') }, attempt => -1 }, name => 'a negative attempt', status => 400, detail => qr/attempt/);
	post(json => wanted('owner-1'), query => 'reset=maybe', name => 'neither', status => 400, detail => qr/reset/);
	post(json => wanted('owner-1'), query => 'rest=true', name => 'a slip', status => 400, detail => qr/rest/);
};

subtest 'waiting for a change' => sub {
	my $now = status_of(name => 'now', status => 200);
	my $etag = $now->{headers}{etag};
	my $same = status_of(headers => { 'If-None-Match' => $etag }, name => 'unchanged', status => 304);
	is($same->{headers}{etag}, $etag, '... with its tag');
	status_of(headers => { 'If-None-Match' => '"0123456789abcdef"' }, query => 'wait=30', name => 'another tag', status => 200);
	my $began = time;
	status_of(query => 'wait=1', name => 'a second', status => 200);
	status_of(query => 'wait=1', headers => { 'If-None-Match' => $etag }, name => 'and another', status => 304);
	cmp_ok(time - $began, '>=', 1.9, '... it waited');
	status_of(query => "wait=$_", name => "wait=$_", status => 400, detail => qr/60/) for qw(61 -1 x 1.5);
};

subtest 'another need, and the end' => sub {
	my $before = status_of(name => 'before', status => 200)->{json};
	my $other = post(json => wanted('owner-1', ipus => 8), name => 'a larger one', status => 200)->{json};
	is($other->{ipus}, 8, '... is asked for');
	isnt(until_state('active', uid => 'owner-1')->{json}{id}, $before->{id}, '... and another partition');
	post(json => wanted('owner-1', instance => 1, ipus => 2), name => 'another instance', status => 201);
	post(json => { %{ wanted('owner-1', ipus => 8) }, attempt => 12 }, name => 'its twelfth attempt', status => 200);
	ask('DELETE /v1/partitions/{uid}/{instance}', @any, query => 'attempt=11', name => 'a release that is late', status => 409,
		detail => qr/attempt 12/);
	ask('DELETE /v1/partitions/{uid}/{instance}', @any, query => "attempt=$_", name => "attempt=$_", status => 400,
		detail => qr/attempt/) for qw(x -1 4294967296);
	my $gone = ask('DELETE /v1/partitions/{uid}/{instance}', @any, query => 'attempt=12', name => 'release', status => 202);
	is($gone->{json}{state}, 'releasing', '... on its way');
	ask('POST /v1/partitions/{uid}/{instance}/reset', @any, name => 'too late for a reset', status => 409);
	ask('DELETE /v1/partitions/{uid}/{instance}', @any, name => 'release again', status => 202);
	my $all = ask('DELETE /v1/partitions/{uid}', @any, name => 'release all', status => 202);
	is_deeply([ map { $_->{state} } @{ $all->{json}{items} } ], [ 'releasing', 'releasing' ], '... both');
	wait_until('all to go', sub {
		json_decode(curl('https://localhost:' . $daemon->port('proxy-tls') . '/v1/partitions?uid=owner-1',
			'--cacert', $cert, '--header', "Authorization: Bearer $trusted")->{content})->{held} == 0;
	});
	status_of(name => 'gone', status => 404);
	is_deeply(ask('GET /stats', name => 'free again', status => 200)->{json}, { total => { used => 0, available => 32 } }, 'free');
};

subtest 'the queue' => sub {
	post(json => wanted("big-$_", ipus => 16), name => "big-$_", status => 201) for 0 .. 1;
	until_state('active', uid => "big-$_") for 0 .. 1;
	my $waits = post(json => wanted('late', ipus => 16, priority => 7, deadlineSeconds => 60,
		owner => owner('late', namespace => 'total', name => 'late')), name => 'one too many', status => 201);
	wait_until('it to be in the queue', sub { @{ http('GET', $daemon->url('proxy', '/queue'))->{json}{items} } == 1 });
	my ($item) = @{ ask('GET /queue', name => 'queue', status => 200)->{json}{items} };
	is_deeply([ @$item{qw(position namespace kind name instance ipus priority reason)} ],
		[ 1, 'total', 'IPUJob', 'late', 0, 16, 7, 'WaitingForIPUs' ], 'it waits');
	is(ask('POST /query', body => '{"size":1}', name => 'full', status => 200)->{json}{numOfPartitions}, 0, 'nothing is left');
	ask('DELETE /v1/partitions/{uid}', uid => 'big-0', name => 'one goes', status => 202);
	until_state('active', uid => 'late');
	my $stats = ask('GET /stats', name => 'a namespace called total', status => 200)->{json};
	is($stats->{'namespace/total'}{used}, 16, '... has its own member');
	is($stats->{total}{used}, 32, '... and total is the sum');
	ask('DELETE /v1/partitions/{uid}', uid => $_, name => "$_ goes", status => 202) for qw(big-1 late);
};

subtest 'a Pod for itself' => sub {
	my @self = (uid => $pod_uid, instance => 0, token => $pod_token);
	my $own = { kind => 'Pod', namespace => 'team-a', name => 'mine', uid => $pod_uid };
	my %ask = (owner => $own, instance => 0, ipus => 2);
	post(json => \%ask, @self, name => 'its own', status => 201);
	post(json => \%ask, @self, query => 'reset=true', name => 'its container begins again', status => 200);
	status_of(@self, name => 'its status', status => 200);
	ask('GET /v1/partitions', @self, query => "uid=$pod_uid", name => 'its list', status => 200);
	ask('GET /v1/partitions', @self, name => 'all', status => 403, detail => qr/uid=UID/);
	until_state('active', uid => $pod_uid);
	ask('GET /v1/partitions/{uid}/{instance}/ipuof', @self, name => 'its configuration', status => 200);
	for my $row (
		[ kind => { %ask, owner => { %$own, kind => 'IPUJob' } } ], [ namespace => { %ask, owner => { %$own, namespace => 'default' } } ],
		[ name => { %ask, owner => { %$own, name => 'other' } } ],
		[ uid => { %ask, owner => { %$own, uid => $other_pod->{metadata}{uid} } } ], [ instance => { %ask, instance => 1 } ],
		[ priority => { %ask, priority => 1 } ], [ adopt => { %ask, adopt => 'by-hand' } ], [ legacy => { %ask, legacy => 'p-x-y-0' } ],
		[ onlyAdopt => { %ask, onlyAdopt => JSON::PP::true() } ], [ created => { %ask, created => '2020-01-01T00:00:00Z' } ],
	) {
		post(json => $row->[1], @self, name => "another $row->[0]", status => 403, detail => qr/\S/);
	}
	for my $uid ($other_pod->{metadata}{uid}, 'no-such-owner') {
		status_of(@self, uid => $uid, name => "of $uid", status => 403);
		ask('DELETE /v1/partitions/{uid}', @self, uid => $uid, name => "release of $uid", status => 403);
	}
	ask('DELETE /v1/partitions/{uid}', @self, name => 'it gives them back', status => 202);
};

subtest 'strictly' => sub {
	for my $row (
		[ '', qr/JSON/ ], [ '{', qr/JSON/ ], [ '[]', qr/object/ ], [ 'null', qr/object/ ], [ '{} x', qr/JSON/ ],
		[ '{}', qr/owner is missing/ ], [ { %{ wanted('u') }, more => 1 }, qr/more isn't/ ],
		(map { [ { %{ wanted('u') }, ipus => $_ }, qr/^ipus must/ ] } 0, -4, 3, 131072, 4294967296, '4', 1.5, JSON::PP::true()),
		(map { [ { %{ wanted('u') }, instance => $_ }, qr/^instance must/ ] } -1, 10000, '0', undef),
		(map { [ { %{ wanted('u') }, options => $_ }, qr/^options/ ] } [], { gcds => 0 }, { gcds => '1' }, { colour => 1 },
			{ reconfigurable => 1 }, { allocation => '' }, { allocation => "a\nb" }, { replicas => -1 }),
		(map { [ { %{ wanted('u') }, owner => owner('u', %$_) }, qr/^owner\./ ] } { namespace => 'Team' }, { namespace => '' },
			{ name => '-x' }, { name => 'a' x 254 }, { kind => 'IPU Job' }, { uid => '../x' }, { uid => 'u/x' }, { uid => 'u' x 129 }, { more => 1 }),
		[ { %{ wanted('u') }, owner => [] }, qr/^owner must/ ], [ { %{ wanted('u') }, created => 'now' }, qr/^created/ ],
		[ { %{ wanted('u') }, deadlineSeconds => 0 }, qr/^deadlineSeconds must/ ], [ { %{ wanted('u') }, adopt => 'a' x 37 }, qr/^adopt/ ],
		[ '{"owner":{"kind":"IPUJob","namespace":"n","name":"n","uid":"u"},"instance":0,"ipus":1,"ipus":2}', qr/ipus comes twice/ ],
	) {
		my ($body, $detail) = @$row;
		$body = json_encode($body) if ref $body;
		post(body => $body, name => length $body > 90 ? substr($body, 0, 90) . '…' : $body, status => 400, detail => $detail);
	}
	post(body => '{}', headers => { 'Content-Type' => 'text/plain' }, name => 'as text', status => 415);
	post(json => wanted('u'), headers => { 'Content-Type' => 'Application/JSON; charset=utf-8' }, name => 'as JSON', status => 201);
	post(body => ' ' x 70_000, name => 'a large body', status => 413);
	ask('DELETE /v1/partitions/{uid}', uid => 'u', name => 'away', status => 202);
	for my $op (grep { $_->{path} =~ /\{uid\}/ } $document->operations) {
		my $name = "$op->{method} $op->{path}";
		ask($name, uid => $_, instance => 0, name => "$name of no owner, $_", status => 400, detail => qr/uid/) for qw(%2e%2e%2fx u%2fx);
		ask($name, @any, query => 'more=1', name => "$name with a parameter", status => 400, detail => qr/more/);
		next if $op->{path} !~ /instance/;
		ask($name, uid => 'u', instance => $_, name => "$name of instance $_", status => 400, detail => qr/9999/) for qw(10000 -1 x);
	}
	ask('GET /v1/partitions', query => 'uid=%2f', name => 'a list of no owner', status => 400);
};

subtest 'limits' => sub {
	my $url = 'https://localhost:' . $daemon->port('proxy-tls') . '/v1/partitions';
	my $head = curl($url, '--cacert', $cert, '--header', 'X: ' . 'x' x 20_000);
	is($head->{status}, 431, 'large headers');
	is($head->{headers}{'content-type'}, 'application/problem+json', '... are a problem');
	my $short = operator('short', '--kubeconfig', "$dir/sim/kubeconfig", '--set', 'proxy.readTimeoutSeconds=1',
		'--set', 'limits.connections=3', '--set', 'proxy.details=false');
	my @slow = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . $short->port('proxy-tls')) // die "connect: $@\n" } 1 .. 8;
	my $began = time;
	for my $socket (@slow) {
		my $end = sysread($socket, my $byte, 1);
		ok(!$end, 'a peer that says nothing is let go');
	}
	cmp_ok(time - $began, '<', 60, '... in time');
	my $slow = IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . $short->port('proxy'));
	print {$slow} "POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{";
	like(join('', <$slow>), qr{\AHTTP/1\.1 408 }, 'a body that does not come');
	ask("GET /$_", on => $short, name => "$_, turned off", status => 403, detail => qr/proxy\.details/) for qw(queue partitions controllers);
	ask("GET /$_", on => $short, name => "$_ stays", status => 200) for qw(stats capacity);
	my @viewers = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . $short->port('proxy')) // die "connect: $@\n" } 1 .. 2;
	for my $socket (@viewers) {
		print {$socket} "GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
		like(scalar(<$socket>), qr{\AHTTP/1\.1 200 }, 'a viewer of the page');
	}
	is(ask('GET /live/events', on => $short, name => 'one more than may be', status => 503)->{headers}{'retry-after'}, 10, '... may come back');
	ask('GET /stats', on => $short, name => 'the others go on', status => 200);
	close($_) for @viewers;
	$short->stop(status => 0);
};

subtest 'without the API server' => sub {
	my $dead = spit("$dir/dead", <<~'END');
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
		users: [{name: u, user: {token: t}}]
		contexts: [{name: c, context: {cluster: c, user: u}}]
		current-context: c
		END
	my $lonely = operator('lonely', '--kubeconfig', $dead, '--set', 'proxy.page=off');
	for my $op (grep { $_->{path} =~ m{^/v1/} } $document->operations) {
		my $name = "$op->{method} $op->{path}";
		my %more = $name eq 'POST /v1/partitions' ? (json => wanted('owner-1'))
			: $name eq 'PUT /v1/held' ? (json => told('held-1')) : $name eq 'PUT /v1/pods/{part}' ? (json => pods_told()) : ();
		ask($name, @any, %more, on => $lonely, name => $name, status => 503);
	}
	ask('GET /stats', on => $lonely, name => 'stats', status => 200);
	ask("GET $_", on => $lonely, name => "$_, turned off", status => 404, detail => qr/proxy\.page is off/)
		for qw(/ /page.css /page.js /icon.svg /live /live/events /names);
	$lonely->stop(status => 0);
};

subtest 'a new certificate' => sub {
	my ($page, @new) = (ClockPage->new("$dir/clock"), certificate('renewed'));
	spit("$dir/used.pem", slurp($cert));
	spit("$dir/used-key.pem", slurp($key));
	my $renewing = start('ipu-operator', env => { IPU_CLOCK_PAGE => $page->path }, args => ['--roles', 'proxy',
		'--kubeconfig', "$dir/dead", (map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
		map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.tlsListen=127.0.0.1:0',
		"proxy.tlsCertFile=$dir/used.pem", "proxy.tlsKeyFile=$dir/used-key.pem"]);
	my $url = 'https://localhost:' . $renewing->port('proxy-tls') . '/v1/partitions';
	is(curl($url, '--cacert', $cert)->{status}, 401, 'the first');
	spit("$dir/used.pem", slurp($new[0]));
	$page->set(61_000);
	wait_until('the odd pair to be told', sub { ($renewing->err . $renewing->out) =~ /the present one stays/ });
	is(curl($url, '--cacert', $cert)->{status}, 401, 'with half of another, the first stays');
	ask("GET $_", on => $renewing, name => "$_ before the tracker has been read", status => 503) for '/live', '/live/events';
	spit("$dir/used-key.pem", slurp($new[1]));
	$page->set(122_000);
	wait_until('it to be used', sub { ($renewing->err . $renewing->out) =~ /a new certificate is in use/ });
	is(curl($url, '--cacert', $new[0])->{status}, 401, 'the new one, without a restart');
	$renewing->stop(status => 0);
};

subtest 'what is counted and logged' => sub {
	my $metrics = http('GET', $daemon->url('metrics', '/metrics'))->{content};
	like($metrics, qr/^ipu_operator_proxy_requests_total\{handler="$_->[0]",code="$_->[1]"\} [1-9]/m, "@$_ is counted")
		for [ 'stats', 200 ], [ 'query', 400 ], [ 'ask', 201 ], [ 'ask', 403 ], [ 'status', 304 ], [ 'release', 202 ],
			[ 'other', 404 ], [ 'other', 431 ];
	like($metrics, qr/^ipu_operator_proxy_request_seconds_count\{handler="status"\} [1-9]/m, 'and timed');
	covers_metrics($metrics, qw(ipu_operator_proxy_requests_total ipu_operator_proxy_request_seconds));
	my $log = $daemon->err . $daemon->out;
	like($log, qr{proxy .* GET /v1/partitions/owner-1/0: status=200 bytes=\d+ ms=[\d.]+ caller=system:serviceaccount:ipu-operator:$manager},
		'one line a request at level 5');
	like($log, qr{INFO  proxy team-a/train: .*asked for: owner=IPUJob/team-a/train instance=0 caller=}, 'changes at level 4');
	unlike($log, qr/\Q$_\E/, 'no token is in it') for $trusted, $pod_token;
};

subtest 'a waiting peer and a clean stop' => sub {
	post(json => wanted('owner-1'), name => 'asked', status => 201);
	my $etag = until_state('active', uid => 'owner-1')->{headers}{etag};
	my $waiting = sub { my @found = $daemon->err =~ /a request waits for a change/g; return scalar @found };
	my $before = $waiting->();
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		exec { $curl } $curl, qw(-sS --noproxy * --max-time 60 -o), "$dir/late", '-w', '%{http_code}', '--cacert', $cert,
			'--stderr', "$dir/late-err", '--header', "Authorization: Bearer $trusted", '--header', "If-None-Match: $etag",
			'https://localhost:' . $daemon->port('proxy-tls') . '/v1/partitions/owner-1/0?wait=60';
	}
	wait_until('the request to wait', sub { $waiting->() > $before });
	$daemon->stop(status => 0);
	unlike($daemon->err . $daemon->out, qr/closed at the deadline/, 'it is not waited for');
	waitpid($pid, 0);
	is($?, 0, 'it has its answer');
};

for my $op ($document->operations) {
	my $name = "$op->{method} $op->{path}";
	for my $status ($document->statuses($op)) {
		ok($seen{"$name $status"} || $elsewhere{"$name $status"}, "$name $status was seen");
	}
}

$sim->stop(status => 0);
done_testing();
