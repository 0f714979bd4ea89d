#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl ui, through the API server's way to a Service (ipu-sim) and by a URL: who may ask its listener, what it
# passes on and how soon, a reader that doesn't read, outages, names by rights, the browser, and its end. The page is
# a peer's by script (t/lib/page_peer.pl), and at last the real daemon's.

use v5.36;

use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::Bin/lib";
use ClockPage;
use IO::Socket::INET;
use IpuTest;
use IpuTree qw(page_text);
use PageTab;
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(240);
$SIG{PIPE} = 'IGNORE';
my $dir = test_dir();
my $folder = "$dir/sim";
my $sim = start('ipu-sim', args => [ '--dir', $folder, '--agents=4' ]);
my $token = slurp("$folder/token");
my $peer = start('page', path => $^X, args => ["$FindBin::Bin/lib/page_peer.pl"]);
my $service = '/api/v1/namespaces/ipu-operator/services/ipu-operator-vipu-proxy';

sub api ($method, $path, %more) {
	return http($method, $sim->url('api-plain', $path), %more, headers => { authorization => "Bearer $token" });
}

sub fault (%fault) { return http('POST', $sim->url('admin', '/sim/api/faults'), json => \%fault)->{status} < 300 || die 'a fault' }
sub no_fault () { return http('DELETE', $sim->url('admin', '/sim/api/faults')) }
sub admin ($what) { return http('GET', $peer->url('page', "/admin/$what"), seconds => 60)->{content} }

# The Service leads to this port.
sub lead_to ($port) {
	my $old = api('GET', $service)->{json};
	my %service = (apiVersion => 'v1', kind => 'Service', metadata => $old->{metadata}{uid} ? $old->{metadata} : { name => 'ipu-operator-vipu-proxy' },
		spec => { clusterIP => '127.0.0.1', ports => [ { port => 80, name => 'http', targetPort => $port + 0 } ] });
	my ($method, $path) = $old->{metadata}{uid} ? (PUT => $service) : (POST => $service =~ s{/[^/]+\z}{}r);
	return api($method, $path, json => \%service)->{status} =~ /^20[01]\z/ || die 'the Service';
}

# ---- the command ----

my %nowhere = (HOME => "$dir/nobody", KUBECONFIG => undef, IPUCTL_SERVER => undef, KUBERNETES_SERVICE_HOST => undef,
	BROWSER => undef, DISPLAY => undef, WAYLAND_DISPLAY => undef);

# ui(words…, {environment}): started, its address awaited.
sub ui (@words) {
	my %env = (%nowhere, ref $words[-1] ? %{ pop @words } : ());
	my $ui = start('ipuctl', ports => 0, env => \%env, args => [ 'ui', @words ]);
	wait_until('its address', sub { ($ui->out // '') =~ /\n/ }, while_alive => [$ui]);
	($ui->{address}, $ui->{at}, $ui->{key}) = $ui->out =~ m{\A(http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/)\n\z} or die 'its address: ' . $ui->out;
	return $ui;
}

sub through (@words) { return ui('--kubeconfig', "$folder/kubeconfig", '--no-browser', @words) }
sub get ($ui, $path, %headers) { return http('GET', "$ui->{address}$path", headers => \%headers, seconds => 30) }

# One request as it's written; {status}, {head} and {body} of the answer.
sub raw ($ui, $request) {
	my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ui->{at}", Timeout => 10) or die "connect: $!";
	syswrite $s, $request =~ s/\n/\r\n/gr;
	local $SIG{ALRM} = sub { die "no answer to $request" };
	my $old = alarm 30;
	my $text = '';
	1 while sysread $s, $text, 65536, length $text;
	alarm $old;
	my ($head, $body) = split /\r\n\r\n/, $text, 2;
	return { status => ($head // '') =~ m{\AHTTP/1\.1 (\d+)} ? $1 : 0, head => $head, body => $body };
}

# A GET that others may make too.
sub asked ($ui, $path, %fields) {
	$fields{Host} //= "127.0.0.1:$ui->{at}";
	return raw($ui, join "\n", "GET $path HTTP/1.1", (map { "$_: $fields{$_}" } sort keys %fields), 'Connection: close', '', '');
}

# The events, as a browser reads them.
sub events ($ui, %fields) { return open_tab($ui->{at}, $ui->{key}, %fields) }

# By how much a program's clock is ahead of the real one.
my %clocks;
sub set_clock ($path, $ahead_ms) { return ($clocks{$path} //= ClockPage->new($path))->set($ahead_ms) }

# ---- nobody there ----

sub fails ($result, $status, $words, $name) {
	is($result->{status}, $status, "$name: status $status");
	like($result->{err}, $words, '... says why');
	return is($result->{out}, '', '... and there is no address');
}

sub ctl (@words) { return run([ program('ipuctl'), 'ui', @words ], env => \%nowhere) }

fails(ctl('--kubeconfig', "$folder/kubeconfig"), 1, qr/^ipuctl: services "ipu-operator-vipu-proxy" not found\n.*--operator-namespace/, 'no Service');
fails(ctl('--port', 70000), 2, qr/--port: must be a whole number from 1 to 65535/, 'no port');
fails(ctl('--once'), 2, qr/takes no --once/, 'another command\'s option');
fails(ctl('--server', $peer->url('page', '/nothing')), 1, qr/there is no such path\n.*--server/, 'no operator');
fails(ctl('--server', $peer->url('page', '/older')), 1, qr/this operator has no page .*there is no such path/, 'one without a page');
lead_to($peer->port('page'));
fails(ctl('--kubeconfig', "$folder/kubeconfig", '-n', 'a,B'), 2, qr/--namespace/, 'a namespace that can\'t be');
my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 1) or die;
fails(ctl('--kubeconfig', "$folder/kubeconfig", '--no-browser', '--port', $taken->sockport), 1, qr/in use/, 'a port that is taken');

my $ui = through();

subtest 'the page' => sub {
	# The files are built in: the peer's own say hello.
	for ([ '', 'index.html', 'text/html; charset=utf-8' ], [ 'page.css', 'page.css', 'text/css; charset=utf-8' ],
		[ 'page.js', 'page.js', 'text/javascript; charset=utf-8' ], [ 'icon.svg', 'icon.svg', 'image/svg+xml' ]) {
		my ($path, $file, $type) = @$_;
		my $got = get($ui, $path);
		ok($got->{content} eq page_text($file), "/$path is $file, as the operator serves it");
		is($got->{headers}{'content-type'}, $type, '... its type');
		is(get($ui, $path, 'If-None-Match' => $got->{headers}{etag})->{status}, 304, '... what is known already');
		is(get($ui, $path, 'Accept-Encoding' => 'gzip')->{headers}{'content-encoding'}, 'gzip', '... compressed');
	}
	unlike(admin('last'), qr{^\w+ (?!/live )}, 'the operator isn\'t asked for them');
	for my $path ('', 'live') {
		my $got = get($ui, $path);
		is($got->{headers}{$_}, { 'cache-control' => 'no-cache', 'referrer-policy' => 'no-referrer', 'x-content-type-options' => 'nosniff', 'x-frame-options' => 'DENY',
			'cross-origin-opener-policy' => 'same-origin', 'cross-origin-resource-policy' => 'same-origin' }->{$_}, "/$path: $_")
			for qw(cache-control referrer-policy x-content-type-options x-frame-options cross-origin-opener-policy cross-origin-resource-policy);
		like($got->{headers}{'content-security-policy'}, qr/connect-src 'self'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/, '... one policy, ours');
		ok(!exists $got->{headers}{$_}, "... without $_") for qw(set-cookie access-control-allow-origin x-other);
	}
	is(get($ui, 'live')->{headers}{etag}, '"1-1"', '... with its id');
	unlike(admin('last'), qr/^(?:authorization|cookie|referer|x-mine):/mi, 'the operator gets no credentials');
	get($ui, 'live', 'X-Mine' => 'yes', Cookie => 'a=b', Accept => 'text/html', Referer => $ui->{address}, 'If-None-Match' => '"team-a/train"', 'Last-Event-ID' => 'team-a');
	like(admin('last'), qr/^accept: application\/json\r$/mi, '... but what matters to it');
	unlike(admin('last'), qr/^(?:authorization|cookie|referer|x-mine|if-none-match|last-event-id):|text.html|team/mi, '... and nothing else');
	get($ui, 'live', 'Last-Event-ID' => 'a' x 41);
	unlike(admin('last'), qr/^last-event-id:/mi, '... nor ids that can\'t be');
	is(get($ui, $_)->{status}, 200, $_) for qw(live names);
	my $packed = get($ui, 'live', 'Accept-Encoding' => 'gzip, br');
	is($packed->{headers}{'content-encoding'}, 'gzip', 'compressed as it was');
	like($packed->{content}, qr/\A\x1f\x8b\x08 no gzip/, '... byte by byte');
	my $known = get($ui, 'live', 'If-None-Match' => '"1-1"');
	is($known->{status} . ($known->{content} // ''), '304', 'what is known already');
	my $head = raw($ui, "HEAD /$ui->{key}/live HTTP/1.1\nHost: localhost:$ui->{at}\nConnection: close\n\n");
	is("$head->{status} $head->{body}", '200 ', 'HEAD');
	is(get($ui, 'live?x=/../stats')->{status}, 200, 'a query is left out');
	unlike(admin('last'), qr/stats/, '... and not passed on');
	my $bare = asked($ui, "/$ui->{key}");
	is($bare->{status}, 308, 'the address without its last slash');
	like($bare->{head}, qr{^Location: /$ui->{key}/\r$}m, '... leads to the page');
};

subtest 'who may ask' => sub {
	my $good = "127.0.0.1:$ui->{at}";
	my ($own, $wrong) = ("/$ui->{key}/live", '/' . ($ui->{key} =~ tr/0-9a-f/1-9a-f0/r) . '/live');
	# Host, more fields, path, status.
	my @cases = (
		[ 'localhost', "localhost:$ui->{at}", {}, $own, 200 ],
		[ 'in capitals', "LOCALHOST:$ui->{at}", {}, $own, 200 ],
		[ 'a name that was made to lead here', "evil.example:$ui->{at}", {}, $own, 403 ],
		[ 'its own port', 'evil.example', {}, $own, 403 ],
		[ 'no port', '127.0.0.1', {}, $own, 403 ],
		[ 'another port', '127.0.0.1:1', {}, $own, 403 ],
		[ 'a longer name', "127.0.0.1:$ui->{at}.evil.example", {}, $own, 403 ],
		[ 'another address of loopback', "127.0.0.2:$ui->{at}", {}, $own, 403 ],
		[ 'an empty host', '', {}, $own, 403 ],
		[ 'its own origin', $good, { Origin => "http://$good" }, $own, 200 ],
		[ 'localhost\'s', $good, { Origin => "http://localhost:$ui->{at}" }, $own, 200 ],
		[ 'another origin', $good, { Origin => 'http://evil.example' }, $own, 403 ],
		[ 'another port\'s', $good, { Origin => 'http://127.0.0.1:1' }, $own, 403 ],
		[ 'https', $good, { Origin => "https://$good" }, $own, 403 ],
		[ 'none (a sandbox, a file)', $good, { Origin => 'null' }, $own, 403 ],
		[ 'the user himself', $good, { 'Sec-Fetch-Site' => 'none' }, $own, 200 ],
		[ 'the page', $good, { 'Sec-Fetch-Site' => 'same-origin' }, $own, 200 ],
		[ 'a page of another port', $good, { 'Sec-Fetch-Site' => 'same-site' }, $own, 403 ],
		[ 'a page elsewhere', $good, { 'Sec-Fetch-Site' => 'cross-site' }, $own, 403 ],
		[ 'another token', $good, {}, $wrong, 404 ],
		[ 'a shorter one', $good, {}, $wrong =~ s/.(?=\/live)//r, 404 ],
		[ 'a longer one', $good, {}, "/$ui->{key}0/live", 404 ],
		[ 'in capitals', $good, {}, '/' . uc($ui->{key}) . '/live', $ui->{key} =~ /[a-f]/ ? 404 : 200 ],
		[ 'none', $good, {}, '/live', 404 ],
		[ 'nothing', $good, {}, '/', 404 ],
		[ 'an icon that browsers ask for', $good, {}, '/favicon.ico', 404 ],
		[ 'two slashes first', $good, {}, "/$own", 404 ],
		[ 'an absolute one', $good, {}, "http://$good$own", 404 ],
		(map { [ "the path $_", $good, {}, "/$ui->{key}/$_", 404 ] } qw(stats capacity v1/partitions metrics live/ live/events/ live/../stats live/%2e%2e/stats
			%2e%2e/stats ..%2fstats %2e%2e%2fstats ../stats .%2e/stats /stats //stats live%2fevents l%69ve Live names/ page.css/..), './live', 'live;x', 'live%3fx', '%00', 'live%00'),
	);
	for my $case (@cases) {
		my ($name, $host, $fields, $path, $status) = @$case;
		my $got = asked($ui, $path, %$fields, Host => $host);
		# A path with a NUL is refused as no HTTP.
		like($got->{status}, $path =~ /%00/ ? qr/^40[04]$/ : qr/^$status$/, $name);
		is($got->{body}, '', '... without a hint') if $status != 200 && $path !~ /%00/;
	}
	my $method = sub ($m, $more = "\n") { raw($ui, "$m $own HTTP/1.1\nHost: $good\nConnection: close\n$more")->{status} };
	is($method->($_), 405, $_) for qw(OPTIONS DELETE);
	is($method->($_, "Content-Length: 2\n\n{}"), 405, $_) for qw(POST PUT PATCH);
	like($method->($_), qr/^(?:40[05]|501)$/, $_) for qw(TRACE CONNECT PROPFIND GETS);
	is(raw($ui, "GET $own HTTP/1.1\nHost: $good\nHost: evil.example\nConnection: close\n\n")->{status}, 400, 'two hosts');
	is(raw($ui, "GET $own HTTP/1.0\n\n")->{status}, 403, 'no host at all');
	is(raw($ui, "POST $wrong HTTP/1.1\nHost: $good\nContent-Length: 0\nConnection: close\n\n")->{status}, 404, 'who has no token isn\'t told of methods');
	my @listens = map { /^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) \S+ 0A / && hex $2 == $ui->{at} ? $1 : () } map { split /\n/ } map { slurp($_) // '' } '/proc/net/tcp', '/proc/net/tcp6';
	is("@listens", '0100007F', 'it listens on loopback alone');
	my $second = through();
	isnt($second->{key}, $ui->{key}, 'another one has another token');
	$second->stop;
};

subtest 'events' => sub {
	my @tabs = map { events($ui, 'Last-Event-ID' => "1-$_") } 1 .. 3;
	ok(heard($tabs[$_ - 1], qr/event: snapshot\ndata: after 1-$_\n/), "tab $_ begins where it was") for 1 .. 3;
	like($tabs[0]{head}, qr{^content-type: text/event-stream\r$}mi, 'an event stream');
	is(admin('streams'), 3, 'each has its own');
	my @took;
	for my $n (1 .. 20) {
		my $begun = time;
		admin("push?word-$n.");
		heard($_, qr/data: word-$n\.\n/) || fail("word $n") for @tabs;
		push @took, time - $begun;
	}
	shift @took; # whoever looked from time to time might have looked just then
	@took = sort { $a <=> $b } @took;
	note(sprintf 'from the operator to three tabs: shortest %.1f ms, median %.1f ms, longest %.1f ms', map { 1000 * $_ } @took[ 0, $#took / 2, -1 ]);
	cmp_ok($took[0], '<', 0.5, 'an event is there at once, where nobody else uses the machine');
	close $tabs[0]{socket};
	wait_until('the tab\'s call to end', sub { admin('streams') == 2 });
	pass('a tab that is closed ends its call');
	my @more = map { my $e = events($ui); heard($e, qr/snapshot|tabs/); $e } 1 .. 31;
	like("$more[-1]{head}$more[-1]{text}", qr{\AHTTP/1.1 503.*32 tabs look at once}s, 'no more than 32');
	is((grep { $_->{head} =~ m{\AHTTP/1.1 200} } @more), 30, '... but so many');
	close $_->{socket} for @more;
	wait_until('their calls to end', sub { admin('streams') == 2 });

	# Nobody reads the second tab's, nor does the next in the chain: the operator has to stop.
	close $tabs[1]{socket};
	wait_until('the call to end', sub { admin('streams') == 1 });
	my $sent = admin('flood');
	note(sprintf '%.1f MiB were on their way to a reader that doesn\'t read', $sent / (1 << 20));
	cmp_ok($sent, '<', 64 << 20, 'what nobody reads isn\'t read, and not kept');
	is(get($ui, 'live')->{status}, 200, '... and others are served');
	my $quick = events($ui);
	ok(heard($quick, qr/snapshot/), '... and a new tab');
	admin('push?after-the-flood.');
	ok(heard($quick, qr/data: after-the-flood\.\n/), '... which hears what is new');
	ok(heard($tabs[2], qr/data: after-the-flood\.\n/, 60), 'when it reads again, it gets all of it');
	my $got = () = $tabs[2]{text} =~ /^data: x/mg;
	cmp_ok(65000 * ($got - 1), '<=', $sent, '... and nothing twice');
	cmp_ok(65100 * $got, '>=', $sent, '... nothing is missing');
	close $_->{socket} for $quick, $tabs[2];
	wait_until('their calls to end', sub { admin('streams') == 0 });

	set_clock("$dir/slow", 0);
	my $slow = through({ IPU_CLOCK_PAGE => "$dir/slow" });
	my $asleep = events($slow);
	ok(heard($asleep, qr/snapshot/), 'a tab looks');
	cmp_ok(admin('flood'), '>', 1 << 20, '... and is asleep');
	is(admin('streams'), 1, '... for a while');
	set_clock("$dir/slow", 31_000);
	wait_until('its call to end', sub { admin('streams') == 0 });
	pass('half a minute later it is given up');
	$slow->stop;
};

subtest 'an operator that sends something else' => sub {
	admin('be?hostile');
	for my $path (qw(live live/events)) {
		my $answer = get($ui, $path);
		is($answer->{status}, 502, "a web page as $path");
		is($answer->{headers}{'content-type'}, 'application/problem+json', '... is a problem');
		unlike($answer->{content}, qr/hello/, '... and none of it comes');
	}
	admin('be?endless');
	is(get($ui, 'live')->{status}, 503, 'an error whose words never end');
	admin('be?well');
	is(get($ui, 'live')->{status}, 200, 'all is well');
};

subtest 'an operator that is away' => sub {
	my $events = events($ui);
	ok(heard($events, qr/snapshot/), 'a tab looks');
	$peer->stop;
	ok(!heard($events, qr/never/), 'its events end');
	is(get($ui, '')->{status}, 200, 'the page is there');
	my $away = get($ui, 'live');
	is($away->{status}, 503, 'no answer');
	is($away->{headers}{'content-type'}, 'application/problem+json', '... as a problem');
	like(json_decode($away->{content})->{detail}, qr/error trying to reach service.*(?:refused|connect)/, '... with the reason');
	$peer = start('page', path => $^X, args => ["$FindBin::Bin/lib/page_peer.pl"]);
	lead_to($peer->port('page'));
	is(get($ui, 'live')->{status}, 200, 'it is back');
	fault(kind => 'cut', resource => 'services', count => 0);
	is(get($ui, 'live')->{status}, 503, 'the API server is away');
	no_fault();
	for ([ 403, 403, qr/forbidden/ ], [ 404, 404, qr/not found/ ], [ 500, 503, qr/words/ ], [ 429, 503, qr/words/ ], [ 410, 502, qr/words/ ]) {
		my ($says, $is, $words) = @$_;
		fault(kind => 'status', resource => 'services', status => $says, message => "words: forbidden, not found");
		my $answer = get($ui, 'live');
		is($answer->{status}, $is, "what it says as $says is $is");
		like(json_decode($answer->{content})->{detail}, $words, '... in its words');
	}
	fault(kind => 'garbage', resource => 'services');
	is(get($ui, 'live')->{content}, '{"kind":"Po', 'what looks like the page\'s is passed on as it is');
	fault(kind => 'status', resource => 'services', status => 401);
	is(get($ui, 'live')->{status}, 200, 'credentials are tried anew, once');
	fault(kind => 'status', resource => 'services', status => 401, count => 2);
	is(get($ui, 'live')->{status}, 502, '... and no more than once');
	$events = events($ui);
	ok(heard($events, qr/snapshot/), 'events come again');
	close $events->{socket};
};

subtest 'credentials of a plugin' => sub {
	my $plugin = spit("$dir/plugin", <<~"END");
		#!/bin/sh
		echo run >>$dir/runs
		test ! -e $dir/hangs || exec sleep 60
		test ! -e $dir/fails || exit 1
		until=`date -u -d '+40 seconds' +%Y-%m-%dT%H:%M:%SZ`
		echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"$token","expirationTimestamp":"'\$until'"}}'
		END
	chmod 0755, $plugin;
	spit("$dir/by-plugin", slurp("$folder/kubeconfig") =~ s/^( +)token: .*$/$1exec: {apiVersion: client.authentication.k8s.io\/v1, command: $plugin, interactiveMode: Never}/mr);
	my $runs = sub { scalar(my @lines = split /\n/, slurp("$dir/runs")) };
	set_clock("$dir/plugin-clock", 0);
	my $by = ui('--kubeconfig', "$dir/by-plugin", '--no-browser', { IPU_CLOCK_PAGE => "$dir/plugin-clock" });
	is(get($by, 'live')->{status}, 200, 'they are asked for');
	is($runs->(), 1, '... once');
	set_clock("$dir/plugin-clock", 10_000);
	is(get($by, 'live')->{status}, 200, 'they end soon');
	is($runs->(), 2, '... and are asked for again');
	# The old ones are tried for a while, and the plugin is asked less and less often.
	spit("$dir/fails", '');
	my ($now, $failed) = (10_000);
	for (1 .. 6) {
		set_clock("$dir/plugin-clock", $now += 61_000);
		is(get($by, 'live')->{status}, 200, 'the old ones are tried');
	}
	set_clock("$dir/plugin-clock", $now += 6_000);
	$failed = get($by, 'live');
	is($failed->{status}, 502, 'there are none any more');
	like(json_decode($failed->{content})->{detail}, qr/plugin/, '... and why');
	unlink "$dir/fails";
	spit("$dir/hangs", '');
	my $before = $runs->();
	set_clock("$dir/plugin-clock", $now += 121_000);
	my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$by->{at}") or die;
	syswrite $s, "GET /$by->{key}/live HTTP/1.1\r\nHost: 127.0.0.1:$by->{at}\r\nConnection: close\r\n\r\n";
	wait_until('the plugin to run', sub { $runs->() > $before });
	set_clock("$dir/plugin-clock", $now += 11_000);
	my $late = do { local $/; <$s> };
	like($late, qr/\AHTTP\/1.1 503 .*the credential plugin still runs/s, 'one that doesn\'t end');
	$by->stop;
	unlink "$dir/hangs";
	is(run([ program('ipuctl'), 'partitions', '--kubeconfig', "$dir/by-plugin" ], env => \%nowhere)->{status}, 1, 'other commands end with them, too');
};

# ---- names ----

sub key_of ($object) { return substr sha256_hex("ipu-operator page\n$object->{metadata}{uid}"), 0, 16 }

sub make ($path, $object) {
	my $answer = api('POST', $path, json => $object);
	is($answer->{status}, 201, $object->{metadata}{name}) or diag($answer->{content});
	return $answer->{json};
}

sub job ($ns, $name, %spec) {
	return make("/apis/graphcore.ai/v1alpha1/namespaces/$ns/ipujobs", { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { %spec, jobInstances => 1, ipusPerJobInstance => '2', workers => { template => { spec => { containers => [ { name => 'c', image => 'x' } ] } } } } });
}

sub pod ($ns, $name, $meta, %spec) {
	return make("/api/v1/namespaces/$ns/pods", { apiVersion => 'v1', kind => 'Pod', metadata => { %$meta, name => $name },
		spec => { %spec, containers => [ { name => 'c', image => 'x' } ] } });
}

sub of_job ($job, $instance) {
	return (labels => { 'graphcore.ai/job' => $job->{metadata}{name}, 'graphcore.ai/instance' => "$instance" },
		ownerReferences => [ { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', name => $job->{metadata}{name}, uid => $job->{metadata}{uid}, controller => JSON::PP::true() } ]);
}

# How often they were listed.
sub lists ($resource) {
	return json_encode(http('GET', $sim->url('admin', '/sim/state'))->{json}) =~ /"list $resource":(\d+)/ ? $1 : 0;
}

sub names ($ui, %headers) { return get($ui, 'names', %headers)->{json} }
sub seen ($names) { return join ' ', grep { !m{/many-} } sort map { "$_->{namespace}/$_->{name}" } @{ $names->{items} } }

subtest 'names' => sub {
	for my $ns (qw(team-a team-b)) {
		make('/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns } });
	}
	my ($train, $other) = (job('team-a', 'train'), job('team-b', 'other'));
	my $status = api('GET', '/apis/graphcore.ai/v1alpha1/namespaces/team-a/ipujobs/train')->{json};
	$status->{status} = { lastMessage => 'waits for 2 IPUs', launcherStatus => 'Pending' };
	is(api('PUT', '/apis/graphcore.ai/v1alpha1/namespaces/team-a/ipujobs/train/status', json => $status)->{status}, 200, 'its status');
	pod('team-a', 'train-0', { of_job($train, 0) });
	pod('team-a', 'train-1', { of_job($train, 1) });
	pod('team-b', 'liar', { of_job($train, 0) });
	pod('team-a', 'plain', {});
	my $paused = job('team-a', 'paused', suspend => JSON::PP::true());
	my $asks = pod('team-a', 'asks', { labels => { 'graphcore.ai/pod' => 'a' x 32 }, annotations => { 'graphcore.ai/ipus' => '2', 'graphcore.ai/waiting' => 'NoRoom: later' } },
		schedulingGates => [ { name => 'kueue.x-k8s.io/admission' } ]);
	set_clock("$dir/clock", 0);
	my $named = through({ IPU_CLOCK_PAGE => "$dir/clock" });
	my ($before, $begun) = (lists('ipujobs'), time);
	# One look in five seconds, however long this machine takes for it.
	my $looks = sub { my $n = lists('ipujobs') - $before; return $n >= 1 && $n <= 1 + (time - $begun) / 5 };
	my $names = names($named);
	is($names->{names}, JSON::PP::true(), 'there are names');
	ok(!exists $names->{limited}, '... all of them');
	is(seen($names), 'team-a/asks team-a/paused team-a/train team-b/other', 'owners that may be seen');
	my %item = map { $_->{name} => $_ } @{ $names->{items} };
	is($item{train}{owner}, key_of($train), 'a job\'s key');
	is("@{$item{train}}{qw(kind message)}", 'IPUJob waits for 2 IPUs', '... its kind and words');
	is_deeply([ sort map { "$_->{name} $_->{instance}" } @{ $item{train}{pods} } ], [ 'train-0 0', 'train-1 1' ], '... its Pods, and none of another namespace');
	is("@{ $item{paused}{held} }{qw(ipus reason message)}", '2 Suspended Not seen by the operator yet', 'what is held, and why');
	is("@{ $item{asks}{held} }{qw(ipus reason message)}", '2 HeldByKueue Kueue hasn\'t admitted it: until then it asks for no IPUs', '... of Pods, too');
	like($item{train}{pods}[0]{phase}, qr/^\w+$/, '... with their phase');
	is($item{asks}{owner}, key_of($asks), 'a Pod\'s key');
	is("@{$item{asks}}{qw(kind message)}", 'Pod NoRoom: later', '... its kind and words');
	is_deeply([ map { $_->{name} } @{ $item{asks}{pods} } ], ['asks'], '... and itself');
	my $etag = get($named, 'names')->{headers}{etag};
	is(get($named, 'names', 'If-None-Match' => $etag)->{status}, 304, 'nothing new');
	names($named) for 1 .. 5;
	ok($looks->(), 'within 5 s nobody is asked again');
	job('team-a', 'new');
	set_clock("$dir/clock", 6000);
	like(seen(names($named)), qr{team-a/new}, 'after that, what is new is there');
	my @at_once = map { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$named->{at}") or die } 1 .. 10;
	($before, $begun) = (lists('ipujobs'), time);
	set_clock("$dir/clock", 12000);
	syswrite $_, "GET /$named->{key}/names HTTP/1.1\r\nHost: 127.0.0.1:$named->{at}\r\nConnection: close\r\n\r\n" for @at_once;
	is(scalar(grep { my $t = do { local $/; <$_> }; $t =~ /team-a/ } @at_once), 10, 'many at once');
	ok($looks->(), '... are one look');
	fault(kind => 'status', verb => 'list', resource => 'pods', status => 500);
	set_clock("$dir/clock", 18000);
	my $failed = get($named, 'names');
	is($failed->{status}, 503, 'an API server that doesn\'t answer');
	set_clock("$dir/clock", 24000);
	is(get($named, 'names')->{status}, 200, '... and does again');
	fault(kind => 'hang', verb => 'list', resource => 'ipujobs');
	set_clock("$dir/clock", 30000);
	my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$named->{at}") or die;
	syswrite $s, "GET /$named->{key}/names HTTP/1.1\r\nHost: 127.0.0.1:$named->{at}\r\n\r\n";
	wait_until('it is asked', sub { lists('ipujobs') > $before + 2 });
	close $s;
	no_fault();
	is(get($named, 'names')->{status}, 200, 'who goes away ends his look');
	job('team-b', "many-$_") for 1 .. 520;
	set_clock("$dir/clock", 36000);
	is(scalar @{ names($named)->{items} }, 525, 'lists of several pages');
	$named->stop;
};

subtest 'names by rights' => sub {
	my $denied = sub ($resource, $ns) {
		fault(kind => 'status', verb => 'list', resource => $resource, namespace => $ns, status => 403, count => 0, message => "$resource is forbidden: User \"u\" cannot list")
	};
	set_clock("$dir/clock2", 0);
	$denied->($_, '') for qw(ipujobs pods);
	my $mine = through('-n', 'team-a', { IPU_CLOCK_PAGE => "$dir/clock2" });
	my $names = names($mine);
	is(seen($names), 'team-a/asks team-a/new team-a/paused team-a/train', 'those of the namespace');
	ok(!exists $names->{limited}, '... that was asked for, all of them');
	$mine->stop;
	no_fault();
	$mine = through('-n', 'team-a');
	unlike(seen(names($mine)), qr/team-b/, 'and no others, also where they may be seen');
	$mine->stop;

	$denied->($_, '') for qw(ipujobs pods);
	spit("$dir/in-team-a", slurp("$folder/kubeconfig") =~ s/^( +namespace): .*$/$1: team-a/mr);
	like(slurp("$dir/in-team-a"), qr/namespace: team-a/, 'a kubeconfig with a namespace');
	$mine = ui('--kubeconfig', "$dir/in-team-a", '--no-browser', { IPU_CLOCK_PAGE => "$dir/clock2" });
	$names = names($mine);
	is(seen($names), 'team-a/asks team-a/new team-a/paused team-a/train', 'names of the kubeconfig\'s namespace');
	is($names->{limited}, 'you may not list IPUJobs and Pods of all namespaces: names are those of team-a (-n names another)', '... and it says so');
	unlike(get($mine, 'names')->{content}, qr/team-b|"other"|forbidden/, '... nothing else');
	set_clock("$dir/clock2", 6000);
	names($mine);
	my $told = () = $mine->err =~ /^ipuctl: names: you may not/mg;
	is($told, 1, '... on the terminal, once');
	$denied->('ipujobs', 'team-a');
	set_clock("$dir/clock2", 12000);
	$names = names($mine);
	like($names->{limited}, qr/; you may not list IPUJobs of team-a$/, 'not even there');
	is(seen($names), 'team-a/asks team-a/train', '... what Pods tell');
	$denied->('pods', 'team-a');
	set_clock("$dir/clock2", 18000);
	$names = names($mine);
	is_deeply([ $names->{names}, $names->{items} ], [ JSON::PP::true(), [] ], 'nothing at all');
	like($names->{limited}, qr/; you may not list IPUJobs and Pods of team-a$/, '... and it says so');
	no_fault();
	set_clock("$dir/clock2", 90000);
	like(seen(names($mine)), qr{team-b/other}, 'rights that have come are seen after a while');
	$mine->stop;

	# Who may list Pods but not IPUJobs has jobs' names from Pods, where anybody may name another namespace's job.
	my $train = api('GET', '/apis/graphcore.ai/v1alpha1/namespaces/team-a/ipujobs/train')->{json};
	pod('team-b', 'a-liar', { of_job({ metadata => { %{ $train->{metadata} }, name => 'lie' } }, 0) });
	$denied->('ipujobs', $_) for '', qw(team-a team-b);
	my $by_pods = through('-n', 'team-b,team-a');
	my %said = map { $_->{namespace} => $_ } grep { $_->{owner} eq key_of($train) } @{ names($by_pods)->{items} };
	is_deeply([ $said{'team-a'}{name}, sort map { $_->{name} } @{ $said{'team-a'}{pods} } ], [qw(train train-0 train-1)], 'a job whose namespace\'s Pods tell of it, whatever others tell');
	is_deeply([ sort map { $_->{name} } @{ $said{'team-b'}{pods} } ], [qw(a-liar liar)], '... which stays in their namespace, where the page doesn\'t look for it');
	$by_pods->stop;
	no_fault();
	my $two = through('-n', 'team-a,team-b');
	like(seen(names($two)), qr{team-a/train team-b/other}, 'two namespaces');
	$two->stop;
};

# An API server by script: of the lists it has been told, a name each (what is listed, of which namespace), the next
# answer at each request. One that is cut ends in the middle.
my $lists_code = spit("$dir/lists.pl", <<'END');
use v5.36; use IO::Socket::INET; use JSON::PP;
my ($told, $file) = ($ARGV[0], $ARGV[1] =~ s/^--ports-file=//r);
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 16) or die "listen: $!\n";
my $answers = decode_json(do { open(my $in, '<', $told) or die "$told: $!\n"; local $/; <$in> });
$SIG{TERM} = sub { exit 0 };
open(my $out, '>', "$file.new") or die; print {$out} 'api ' . $listener->sockport . "\n"; close $out; rename "$file.new", $file or die;
while (my $peer = $listener->accept) {
	my $line = <$peer> // '';
	while (defined(my $header = <$peer>)) { last if $header =~ /^\r?\n/ }
	my ($ns) = $line =~ m{/namespaces/([^/]+)/};
	my $name = ($line =~ /ipujobs/ ? 'jobs' : $line =~ /graphcore.ai(?:%2F|\/)job\b/i ? 'pods of jobs' : 'pods') . ($ns ? " in $ns" : '');
	my $next = shift @{ $answers->{$name} } // { status => 404, items => [] };
	my $items = join ',', map { encode_json($_) } @{ $next->{items} };
	my $list = encode_json({ kind => 'List', apiVersion => 'v1', metadata => { resourceVersion => '5', continue => $next->{continue} // '' } }) =~ s/\}\z/,"items":[$items]}/r;
	my $body = $next->{cut} ? $list =~ s/\]\}\z/,/r : $list;
	print {$peer} 'HTTP/1.1 ', $next->{status} // 200, " Whatever\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ", length $list, "\r\n\r\n", $body;
	close $peer;
}
END

# names(told => of them): what each item holds.
sub names_told ($told, @words) {
	state $n = 0;
	my $api = start('lists', path => $^X, args => [ $lists_code, spit("$dir/lists-" . ++$n, json_encode($told)) ]);
	my $kubeconfig = spit("$dir/to-lists-$n", json_encode({ apiVersion => 'v1', kind => 'Config', 'current-context' => 'c', clusters => [ { name => 'c', cluster => { server => $api->url('api', '') } } ],
		users => [ { name => 'u', user => { token => 'of-lists' } } ], contexts => [ { name => 'c', context => { cluster => 'c', user => 'u', namespace => 'a' } } ] }));
	my $named = ui('--server', $peer->url('page', ''), '--no-browser', '--kubeconfig', $kubeconfig, @words);
	my $names = names($named);
	$_->stop for $named, $api;
	return [ map {
		my $item = $_;
		join ' ', "$item->{kind} $item->{name}", (map { "$_->{name}=$_->{phase}" } @{ $item->{pods} // [] }), $item->{message} // (), $item->{held} ? 'held' : (), exists $item->{pods} && !@{ $item->{pods} } ? 'no Pods' : ()
	} @{ $names->{items} } ];
}

subtest 'lists that begin anew' => sub {
	my $object = sub ($kind, $ns, $name, $uid, $status, $meta = {}, $spec = {}) {
		return { apiVersion => $kind eq 'Pod' ? 'v1' : 'graphcore.ai/v1alpha1', kind => $kind, metadata => { %$meta, name => $name, namespace => $ns, uid => $uid, resourceVersion => '4',
			creationTimestamp => '2026-01-01T00:00:00Z' }, spec => $spec, status => $status };
	};
	my $of = sub ($job) { { labels => { 'graphcore.ai/job' => $job, 'graphcore.ai/instance' => '0' },
		ownerReferences => [ { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', name => $job, uid => "of-$job", controller => JSON::PP::true() } ] } };
	my %suspended = (suspend => JSON::PP::true(), jobInstances => 1, ipusPerJobInstance => '2', workers => { template => { spec => { containers => [ { name => 'c', image => 'x' } ] } } });
	my $job = sub ($name, $status, %spec) { $object->('IPUJob', 'a', $name, "of-$name", { launcherStatus => 'Running', %$status }, {}, \%spec) };
	my $worker = sub ($job, $n, $phase, $uid = $n, $ns = 'a') { $object->('Pod', $ns, "$job-$n", "$job-$ns-$uid", { phase => $phase }, $of->($job)) };
	my $own = sub ($uid) { $object->('Pod', 'a', 'asks', $uid, { phase => 'Pending' }, { labels => { 'graphcore.ai/pod' => 'a' x 32 } }, { nodeName => 'n' }) };
	my $cut = sub (@items) { { cut => 1, items => \@items } };
	my $whole = sub (@items) { { items => \@items } };
	my @jobs = $whole->($job->('train', {}));

	is_deeply(names_told({
		jobs => [ $cut->($job->('old', {}), $job->('train', { lastMessage => 'waits', launcherStatus => 'Suspended' }, %suspended)), $whole->($job->('train', {})) ],
		'pods of jobs' => [ $cut->($worker->('train', 0, 'Failed'), $worker->('gone', 0, 'Running')), $whole->($worker->('train', 0, 'Running', 'again')) ],
		pods => [ $cut->($own->('first')), $whole->($own->('second')) ],
	}), [ 'IPUJob train train-0=Running', 'Pod asks asks=Pending' ], 'of each, what the whole list says');
	is_deeply(names_told({
		jobs => \@jobs,
		'pods of jobs' => [ $cut->($worker->('train', 0, 'Failed')), $whole->() ],
		pods => [ $cut->($own->('first')), $whole->() ],
	}), ['IPUJob train'], 'a list that is empty by now');
	is_deeply(names_told({
		jobs => [ { %{ $whole->($job->('old', {})) }, continue => 'more' }, { status => 410, items => [] }, @jobs ],
		'pods of jobs' => [ { %{ $whole->($worker->('train', 0, 'Running')) }, continue => 'more' }, $cut->($worker->('train', 1, 'Running')),
			$whole->(map { $worker->('train', $_, 'Running') } 1, 2) ],
		pods => [ $whole->() ],
	}), ['IPUJob train train-0=Running train-1=Running train-2=Running'], 'a token that has expired; a later page that is asked for again');
	is_deeply(names_told({
		(map { $_ => [ { status => 403, items => [] } ] } 'jobs', 'pods of jobs', 'pods'),
		'jobs in a' => \@jobs, 'jobs in b' => [ { status => 403, items => [] } ],
		'pods of jobs in a' => [ $whole->($worker->('train', 0, 'Running')) ],
		'pods of jobs in b' => [ $cut->($worker->('other', 0, 'Pending', 0, 'b')), $whole->($worker->('other', 0, 'Running', 1, 'b')) ],
		'pods in a' => [ $cut->($own->('first')), $whole->() ], 'pods in b' => [ $whole->() ],
	}, '-n', 'a,b'), [ 'IPUJob train train-0=Running', 'IPUJob other other-0=Running' ], 'another namespace\'s, and other lists\', stay');
};

subtest 'by a URL' => sub {
	my $direct = ui('--server', $peer->url('page', ''), '--no-browser');
	is(get($direct, 'live')->{content}, '{"id":"1-1"}', 'the page');
	my $names = names($direct);
	is_deeply([ $names->{names}, $names->{items} ], [ JSON::PP::false(), [] ], 'without a kubeconfig there are no names');
	like($names->{limited}, qr/kubeconfig|KUBECONFIG/, '... and it says why');
	like($direct->err, qr/^ipuctl: names: .*kubeconfig/mi, '... on the terminal too');
	my $events = events($direct);
	ok(heard($events, qr/snapshot/), 'events');
	$direct->stop;
	my $both = ui('--server', $peer->url('page', ''), '--no-browser', '--kubeconfig', "$folder/kubeconfig", '-n', 'team-a');
	is(seen(names($both)), 'team-a/asks team-a/new team-a/paused team-a/train', 'with one, there are');
	$both->stop;
	fails(ctl('--server', $peer->url('page', ''), '--kubeconfig', '/nowhere'), 2, qr{/nowhere}, 'a kubeconfig that isn\'t there');
	my $broken = ui({ IPUCTL_SERVER => $peer->url('page', ''), KUBECONFIG => spit("$dir/broken", 'kind: [') }, );
	like($broken->err, qr/^ipuctl: names: .*broken/m, 'one that nobody named, and is broken: no names');
	$broken->stop;
};

# ---- the browser, and the end ----

# A program that writes its arguments, one a line.
sub recorder ($name, $status = 0) {
	my $path = spit("$dir/$name", "#!/bin/sh\necho start >>$dir/$name.starts\nprintf '%s\\n' \"\$#\" \"\$@\" >$dir/$name.new\nmv $dir/$name.new $dir/$name.args\nexit $status\n");
	chmod 0755, $path;
	return $path;
}

subtest 'the browser' => sub {
	my @way = ('--kubeconfig', "$folder/kubeconfig");
	my $browser = recorder('browser');
	my $shown = ui(@way, { BROWSER => "/nowhere/at-all:$browser" });
	my $args = wait_until('the browser to start', sub { slurp("$browser.args") });
	my ($n, $address, @rest) = split /\n/, $args;
	is("$n @rest", '1 ', 'it has one argument');
	my ($once) = $address =~ m{\Ahttp://127\.0\.0\.1:$shown->{at}/([0-9a-f]{32})\z};
	ok($once, '... an address here');
	isnt($once, $shown->{key}, '... but not the one that lasts: command lines are everybody\'s to read');
	is(asked($shown, "/$once", Host => 'evil.example')->{status}, 403, 'its visit isn\'t for strangers');
	my $first = asked($shown, "/$once", 'Sec-Fetch-Site' => 'none');
	is($first->{status}, 303, 'its visit');
	like($first->{head}, qr{^Location: /$shown->{key}/\r$}m, '... leads to the page');
	unlike($shown->err, qr/twice/, '... all is well');
	is(asked($shown, "/$once")->{status}, 404, 'a second visit');
	like($shown->err, qr/used twice/, '... is told');
	is(asked($shown, "/$once/live")->{status}, 404, 'nothing is behind it');
	$shown->stop;

	my $failing = ui(@way, { BROWSER => recorder('failing', 3) });
	wait_until('the warning', sub { $failing->err =~ /failing ended with status 3: open the address/ });
	is(get($failing, 'live')->{status}, 200, 'a browser that fails is a warning');
	$failing->stop;
	my $lost = ui(@way, { BROWSER => '/nowhere/at-all' });
	wait_until('another warning', sub { $lost->err =~ m{^ipuctl: /nowhere/at-all: No such file or directory: open the address}m });
	is(get($lost, 'live')->{status}, 200, 'one that isn\'t there, too');
	$lost->stop;

	mkdir "$dir/bin" or die;
	my $xdg = recorder('bin/xdg-open');
	my %path = (PATH => "$dir/bin:$ENV{PATH}");
	ui(@way, {%path})->stop;
	ui(@way, '--no-browser', { %path, DISPLAY => ':9', BROWSER => recorder('never') })->stop;
	my $desk = ui(@way, { %path, DISPLAY => ':9' });
	like(wait_until('xdg-open', sub { slurp("$xdg.args") }), qr{\A1\nhttp://127\.0\.0\.1:$desk->{at}/[0-9a-f]{32}\n\z}, 'xdg-open');
	$desk->stop;
	is(slurp("$xdg.starts"), "start\n", '... which wasn\'t started without a screen, or where no browser is wanted');
	ok(!-e "$dir/never.starts", '... nor another one');
	my $evil = ui(@way, { BROWSER => "$browser;touch $dir/evil" });
	$evil->stop;
	ok(!-e "$dir/evil", 'no shell looks at it');
};

subtest 'the real operator' => sub {
	my $start = sub (@more) {
		return start('ipu-operator', args => [ '--kubeconfig', "$folder/kubeconfig", '--set', 'operatorNamespace=ipu-operator', '--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'),
			@more, map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen) ]);
	};
	my $operator = $start->('--set', 'proxy.page=off');
	lead_to($operator->port('proxy'));
	fails(ctl('--kubeconfig', "$folder/kubeconfig"), 1, qr/this operator has no page .*turned off/, 'its page is off');
	is(get($ui, 'live')->{status}, 404, '... which a tab is told, too');
	$operator->stop;
	$operator = $start->('--set', 'proxy.page=usage');
	lead_to($operator->port('proxy'));
	wait_until('the page\'s data', sub { get($ui, 'live')->{status} == 200 });
	my $at_home = http('GET', $operator->url('proxy', '/'));
	my $here = get($ui, '');
	ok($here->{content} eq $at_home->{content}, 'the page is the operator\'s of the same version');
	is_deeply([ map { $here->{headers}{$_} } qw(content-security-policy etag vary) ], [ map { $at_home->{headers}{$_} } qw(content-security-policy etag vary) ], '... and so are its fields');
	my $tab = events($ui);
	ok(heard($tab, qr/^event: snapshot\r?\n.*\n\n/m), 'events');
	my $job = job('team-a', 'live');
	my $key = key_of($job);
	ok(heard($tab, qr/"owner":"$key"/, 60), '... tell of a job that has just been made, by its key');
	my ($id) = $tab->{text} =~ /^id: (\S+)/m;
	close $tab->{socket};
	$tab = events($ui, 'Last-Event-ID' => $id);
	ok(heard($tab, qr/^event: change\n/m), 'a tab that comes back goes on');
	unlike($tab->{text}, qr/^event: snapshot/m, '... where it was');
	my $live = get($ui, 'live');
	unlike($live->{content}, qr/"live"/, 'in which it has no name');
	my $named = through();
	is_deeply([ map { $_->{name} } grep { $_->{owner} eq $key } @{ names($named)->{items} } ], ['live'], '... but names has it');
	$named->stop;
	$operator->stop;
	ok(!heard($tab, qr/never/), 'the operator\'s end ends the tab\'s events');
	like($tab->{text}, qr/^event: bye/m, '... with a word');
};

subtest 'the end' => sub {
	lead_to($peer->port('page'));
	for my $signal (qw(INT TERM HUP)) {
		my $one = through();
		my $events = events($one);
		ok(heard($events, qr/snapshot/), 'a tab looks');
		$one->stop(signal => $signal, status => 0);
		ok(!heard($events, qr/never/), '... and its events end');
	}
	my $fixed = through('--port', $taken->sockport + 0 && do { my $p = $taken->sockport; close $taken; $p });
	is(get($fixed, 'live')->{status}, 200, 'on the port that was named');
	$fixed->stop;
	$ui->stop;
	$peer->stop;
	$sim->stop;
};
done_testing();
