#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page as it's served (doc/design/page.md): the files with their codings, tags and headers; the
# snapshot and the events against /stats, /capacity, /queue and doc/openapi.yaml, number by number,
# while jobs come and go; readers that come back, that don't read, and that are too many; what each
# mode of proxy.page tells; and a clean stop, which nobody's reading delays.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use EventStream;
use IO::Socket::INET ();
use IO::Uncompress::Gunzip qw(gunzip $GunzipError);
use IpuTest;
use IpuTree qw(page_text top_srcdir);
use MetricNames qw(covers_metrics);
use OpenApi;
use Test::More;

watchdog(170);
my $dir = test_dir();
my $document = OpenApi->load(top_srcdir() . '/doc/openapi.yaml');
my %file = ('/' => 'index.html', '/page.css' => 'page.css', '/page.js' => 'page.js', '/icon.svg' => 'icon.svg');
my %type = ('/' => 'text/html; charset=utf-8', '/page.css' => 'text/css; charset=utf-8',
	'/page.js' => 'text/javascript; charset=utf-8', '/icon.svg' => 'image/svg+xml');

# ---- the world ----

my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--controllers=2', '--agents=4', '--create-ms=600',
	'--reset-ms=50', '--remove-ms=100', '--pod-schedule-ms=10', '--pod-start-ms=10', '--pod-run-ms=0']);
my $admin = slurp("$dir/sim/token");
my $controllers = join ',', map { '127.0.0.1:' . $sim->port($_) } qw(vipu0 vipu1);

sub operator (@sets) {
	my $daemon = start('ipu-operator', args => [ '--roles', 'controller,proxy', '--kubeconfig', "$dir/sim/kubeconfig",
		map { ('--set', $_) } 'operatorNamespace=ipu-operator', "controllers=$controllers", 'proxy.listen=127.0.0.1:0',
		'health.listen=127.0.0.1:0', 'metrics.listen=127.0.0.1:0', 'proxy.tlsListen=', 'leaderElection.enabled=false',
		'vipu.idleRefreshSeconds=1', 'vipu.waitingRefreshSeconds=1', @sets ]);
	wait_until('the daemon is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
	wait_until('both controllers', sub { get($daemon, '/capacity')->{json}{total}{totalIPUs} == 32 });
	return $daemon;
}

sub get ($daemon, $path, %headers) { return http('GET', $daemon->url('proxy', $path), headers => \%headers) }
sub reader ($daemon, $headers = {}, %option) { return EventStream->new($daemon->port('proxy'), $headers, %option) }

sub api ($method, $path, $json = undef) {
	my $answer = http($method, $sim->url('api-plain', $path), (defined $json ? (json => $json) : ()),
		headers => { authorization => "Bearer $admin" });
	die "$method $path: $answer->{status} $answer->{content}\n" if $answer->{status} !~ /^20/;
	return $answer->{json};
}

# HTTP::Tiny sends a Host of its own.
sub raw_status ($port, $path, $field, $value) {
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 10) or die "$port: $!\n";
	my $host = $field eq 'host' ? '' : "Host: 127.0.0.1:$port\r\n";
	print {$socket} "GET $path HTTP/1.1\r\n$host$field: $value\r\nConnection: close\r\n\r\n";
	my ($status) = (<$socket> // '') =~ /^HTTP\S+ (\d+)/;
	close($socket);
	return $status;
}

my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/team-a/ipujobs';
sub job_like ($name, $ipus) {
	return { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { jobInstances => 1, ipusPerJobInstance => "$ipus", workers => { template => { spec => {
			containers => [ { name => 'job', image => 'busybox', command => ['work'] } ] } } } } };
}
sub job ($name, $ipus) { return api('POST', $jobs, job_like($name, $ipus)) }

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'team-a' } });
my $daemon = operator();

# Whether all that the events have told adds up to what the other resources say, number by number.
sub disagreement ($daemon, $reader) {
	$reader->catch_up;
	my $known = $reader->known // return 'nothing is known';
	my ($stats, $capacity, $queue) = map { get($daemon, $_)->{json} } qw(/stats /capacity /queue);
	my %used;
	for my $p ($reader->list('partitions')) {
		$used{ $p->{namespace} } += $p->{ipus} if !$p->{external} && $p->{state} ne 'orphan';
	}
	my @pairs = ([ 'used by /stats', $known->{total}{usedIPUs}, $stats->{total}{used} ],
		[ 'waiting', $known->{total}{waiting}, scalar @{ $queue->{items} } ],
		[ 'the queue', join(' ', map { "$_->{namespace} $_->{ipus} $_->{reason}" } $reader->list('waiting')),
			join(' ', map { "$_->{namespace} $_->{ipus} $_->{reason}" } @{ $queue->{items} }) ],
		map { my $ns = $_; [ "used in $ns", $used{$ns} // 0, ($stats->{$ns} // { used => 0 })->{used} ] } 'team-a');
	my @sums = qw(totalIPUs usedIPUs externalIPUs freeIPUs reservedIPUs largest);
	push @pairs, map { [ $_, $known->{total}{$_}, $capacity->{total}{$_} ] } @sums;
	for my $i (0, 1) {
		my ($mine, $theirs) = (($reader->list('controllers'))[$i], $capacity->{controllers}[$i]);
		push @pairs, map { [ "$_ of controller $i", $mine->{$_}, $theirs->{$_} ] } @sums;
		push @pairs, [ "reached $i", $mine->{reach}, $theirs->{reachable} ? 'yes' : 'no' ];
	}
	my @wrong = map { "$_->[0]: $_->[1], not $_->[2]" } grep { "$_->[1]" ne "$_->[2]" } @pairs;
	return @wrong ? join '; ', @wrong : '';
}

sub agrees ($daemon, $reader, $when) {
	my $why;
	my $good = eval { wait_until("both to say the same: $when", sub { !($why = disagreement($daemon, $reader)) }, seconds => 30) };
	ok($good, "$when: events, /stats, /capacity and /queue say the same") or diag($why);
	return;
}

# As the document says?
sub fits_schema ($event) {
	my $schema = { snapshot => 'Live', change => 'LiveChange' }->{ $event->{event} };
	my @wrong = $document->invalid({ '$ref' => "#/components/schemas/$schema" }, $event->{data}, $event->{event});
	ok(!@wrong, "$event->{event} $event->{id}: as documented") or diag(join "\n", @wrong);
	return;
}

# ---- the files ----

subtest 'files' => sub {
	my $sum = 0;
	for my $path (sort keys %file) {
		my $bytes = page_text($file{$path});
		$sum += length $bytes;
		my $plain = get($daemon, $path);
		is($plain->{content}, $bytes, "$path: its file, without comments and indentation");
		is($plain->{headers}{'content-type'}, $type{$path}, '... its type');
		is($plain->{headers}{'content-encoding'}, undef, '... and no coding');
		my $packed = get($daemon, $path, 'Accept-Encoding' => 'gzip, deflate, br');
		is($packed->{headers}{'content-encoding'}, 'gzip', '... compressed');
		gunzip(\$packed->{content}, \my $unpacked) or die "$path: $GunzipError\n";
		is($unpacked, $bytes, '... is the same');
		my %tag = map { $_->{headers}{etag} => 1 } $plain, $packed;
		is(scalar keys %tag, 2, '... each with a tag of its own');
		for my $answer ($plain, $packed) {
			like($answer->{headers}{etag}, qr/^"[0-9a-f]{16}"$/, '... a strong one');
			is($answer->{headers}{vary}, 'Accept-Encoding', '... by Accept-Encoding');
			is($answer->{headers}{'cache-control'}, 'no-cache', '... to be asked for again');
			is($answer->{headers}{'set-cookie'}, undef, '... without cookies');
		}
		my %gzip = ('Accept-Encoding' => 'gzip');
		for my $case ([ $plain, {}, 304 ], [ $packed, \%gzip, 304 ], [ $plain, \%gzip, 200 ], [ $packed, {}, 200 ]) {
			my ($of, $headers, $status) = @$case;
			is(get($daemon, $path, %$headers, 'If-None-Match' => qq("x", W/$of->{headers}{etag}))->{status}, $status, "... again: $status");
		}
		my $head = http('HEAD', $daemon->url('proxy', $path));
		is("$head->{status} $head->{headers}{'content-length'} $head->{headers}{etag}",
			"200 @{[ length $bytes ]} $plain->{headers}{etag}", '... HEAD');
	}
	cmp_ok($sum, '<', 60 << 10, "$sum bytes in all are under 60 KB");
};

# What js.awk leaves out says nothing: each row is a script, and what is served of it.
subtest 'what is left out of a script' => sub {
	for my $row (
		[ q{const a = "x  y // z" + 'it\\'s  so'; // this}, q{const a="x  y // z"+'it\\'s  so'} ],
		[ q{b = `a  ${ c + `d  ${ { e: 1 }.e }  //` }  {f}`;}, q{b=`a  ${c+`d  ${{e:1}.e}  //`}  {f}`} ],
		[ q{s.replace(/a  [/ "]\/b/g, c / d / e);}, q{s.replace(/a  [/ "]\/b/g,c/d/e)} ],
		[ 'a = b + +c - -d + e++ - 1;', 'a=b+ +c- -d+e++-1' ],
		[ 'const f = async (x) => { await x; }, g = (y) => y, h = (x, y) => x in y;', 'const f=async x=>{await x},g=y=>y,h=(x,y)=>x in y' ],
		[ "for (;;) {\n\tf();\n}\n(g)();\n[h] = i;", "for(;;){f()}(g)();[h]=i" ],
		[ "const a = b\n\t? c\n\t: d;\nlet e = [\n\tf,\n\tg];\nif (a)\n\te();\nelse return `x`;", "const a=b?c:d\nlet e=[f,g]\nif(a)e()\nelse return`x`" ],
		[ 'über = "–" + é;', 'über="–"+é' ],
	) {
		my ($script, $served) = @$row;
		my $out = run([ 'awk', '-f', top_srcdir() . '/src/proxy/page/js.awk' ], stdin => "$script\n", env => { LC_ALL => 'C' })->{out};
		is($out, "$served\n", $script =~ s/\s+/ /gr);
	}
};

subtest 'codings' => sub {
	for my $case ([ 'gzip', 1 ], [ 'GZIP;q=0.5', 1 ], [ 'x-gzip', 1 ], [ '*', 1 ], [ '*;q=0.1, identity;q=0', 1 ], [ 'gzip;q=1.0, identity;q=1', 1 ],
		[ '', 0 ], [ 'identity', 0 ], [ 'gzip;q=0', 0 ], [ 'gzip;q=0, *', 0 ], [ 'gzip;q=0.2, identity;q=0.8', 0 ], [ 'br, deflate', 0 ],
		[ 'gzip;q=x', 0 ], [ 'gzipped', 0 ], [ '*;q=0', 0 ]) {
		my ($accept, $packed) = @$case;
		my $answer = get($daemon, '/page.css', 'Accept-Encoding' => $accept);
		is($answer->{headers}{'content-encoding'} ? 1 : 0, $packed, "Accept-Encoding: $accept");
	}
};

subtest 'headers' => sub {
	my %want = ('x-content-type-options' => 'nosniff', 'x-frame-options' => 'DENY', 'referrer-policy' => 'no-referrer',
		'cross-origin-opener-policy' => 'same-origin', 'cross-origin-resource-policy' => 'same-origin', 'set-cookie' => undef);
	for my $path (sort(keys %file), qw(/live /names)) {
		my $answer = get($daemon, $path);
		is($answer->{headers}{$_}, $want{$_}, "$path: $_") for sort keys %want;
		my $policy = $answer->{headers}{'content-security-policy'};
		like($policy, qr/\Adefault-src 'none'; /, '... its policy');
		unlike($policy, qr/unsafe|\*|https?:|data:/, '... without exceptions');
	}
};

# ---- a job's life ----

my ($first_id, $witness);
subtest 'a job\'s life' => sub {
	my $reader = reader($daemon);
	my $snapshot = $reader->next_event;
	is($snapshot->{event}, 'snapshot', 'first a snapshot');
	fits_schema($snapshot);
	like($reader->head, qr/^Content-Type: text\/event-stream\r$/m, '... as an event stream');
	like($reader->head, qr/^X-Accel-Buffering: no\r$/m, '... which no proxy is to keep');
	$first_id = $reader->last_id;
	agrees($daemon, $reader, 'nothing is used');

	my $uid = job('hush-large', 16)->{metadata}{uid};
	job('hush-other', 16);
	my (@events, %states);
	my $states = sub { join ' ', sort map { $_->{state} } $reader->list('partitions') };
	my $watch = sub ($what, $done) {
		wait_until($what, sub {
			for my $event ($reader->catch_up) {
				push @events, $event;
				$states{ $states->() } = 1;
			}
			return $done->();
		});
		agrees($daemon, $reader, $what);
	};
	api('POST', $jobs, { %{ job_like('hush-paused', 4) }, spec => { %{ job_like('hush-paused', 4)->{spec} }, suspend => JSON::PP::true() } });
	$watch->('one is held', sub { scalar($reader->list('held')) });
	my ($held) = $reader->list('held');
	is("$held->{namespace} $held->{ipus} $held->{reason} $held->{key}", "team-a 4 Suspended $held->{owner}", 'what is held, by its key');
	is($reader->known->{total}{held}, 1, '... is counted');
	api('DELETE', "$jobs/hush-paused");
	$watch->('none is held', sub { !$reader->list('held') });
	is($reader->known->{total}{held}, 0, '... is counted, too');
	$watch->('both are active', sub { $states->() eq 'active active' });
	is($reader->known->{total}{freeIPUs}, 0, 'all is used');
	ok((grep { /creating/ } keys %states), 'they were seen creating');
	for my $p ($reader->list('partitions')) {
		is($p->{ipus}, 16, 'its size');
		my $bits = 0;
		$bits += () = sprintf('%b', hex $_->{mask}) =~ /1/g for @{ $p->{places} };
		is($bits, 16, 'so many places');
	}
	job('hush-next', 8);
	$watch->('the third waits', sub { scalar($reader->list('waiting')) });
	my ($waiting) = $reader->list('waiting');
	is($waiting->{ipus}, 8, 'its size');
	unlike($waiting->{message}, qr/hush|127\.0\.0\.1/, '... why, in words without names');
	api('DELETE', "$jobs/hush-large");
	$watch->('the third is active', sub { !$reader->list('waiting') && $states->() eq 'active active' });
	api('DELETE', "$jobs/$_") for qw(hush-other hush-next);
	$watch->('all are gone', sub { !$reader->list('partitions') });
	is($reader->known->{total}{freeIPUs}, 32, 'all is free');
	fits_schema($_) for @events;
	ok(!(grep { $_->{event} ne 'change' } @events), 'nothing but changes');
	my %steps;
	$steps{ $_->{step} }++ for @{ $reader->known->{steps} };
	is_deeply(\%steps, { made => 3, active => 3, released => 3 }, 'three made, active and released');
	is_deeply([ map { $_->{n} } @{ $reader->known->{steps} } ], [ map { $_->{n} } @{ get($daemon, '/live')->{json}{steps} } ], '... as /live says');
	unlike($_->{raw_data}, qr/hush|\Q$uid\E|127\.0\.0\.1|IPUJob|vipu/, "$_->{event} $_->{id} names nobody") for $snapshot, @events;
	$witness = $reader; # as long as there is one, frames are kept
};

# ---- coming back ----

subtest 'the snapshot' => sub {
	my $live = get($daemon, '/live');
	is($live->{headers}{etag}, qq("$live->{json}{id}"), 'its tag is its id');
	fits_schema({ event => 'snapshot', id => $live->{json}{id}, data => $live->{json} });
	is($live->{json}{mode}, 'usage', 'by default without names');
	my $again = get($daemon, '/live', 'If-None-Match' => $live->{headers}{etag});
	is("$again->{status} @{[ $again->{content} // q() ]}", '304 ', 'again: nothing new');
	is(get($daemon, '/names')->{content}, qq({"names":false,"items":[]}\n), 'no names here');
};

subtest 'coming back' => sub {
	my $reader = reader($daemon, { 'Last-Event-ID' => $first_id });
	my $event = $reader->{events};
	$reader->{known} = { map { $_ => {} } qw(controllers partitions waiting held) }; # it had the first snapshot
	$reader->{known}{order} = [];
	$reader->{known}{steps} = [];
	$event = $reader->next_event;
	is($event->{event}, 'change', 'who comes back gets what has changed');
	$reader->catch_up;
	is_deeply([ $reader->list('partitions') ], [], '... to the end');
	is($reader->last_id, get($daemon, '/live')->{json}{id}, '... which is where /live is');
	job('back', 2);
	ok($reader->next_event, '... and goes on');
	api('DELETE', "$jobs/back");
	$_->close for $reader, $witness;
	for my $id ('0-0', 'x', "$first_id-", '', 'x' x 500, $first_id =~ s/-.*/-999999999/r) {
		my $other = reader($daemon, { 'Last-Event-ID' => $id });
		is($other->next_event->{event}, 'snapshot', 'one that isn\'t known gets a snapshot: ' . substr($id, 0, 20));
		$other->close;
	}
};

# ---- other readers ----

subtest 'HTTP/1.0, HEAD, and one after another' => sub {
	my $old = reader($daemon, {}, version => '1.0');
	is($old->next_event->{event}, 'snapshot', 'HTTP/1.0: a snapshot');
	unlike($old->head, qr/chunked/i, '... without chunks');
	$old->close;
	my $head = http('HEAD', $daemon->url('proxy', '/live/events'));
	is("$head->{status} $head->{headers}{'content-type'}", '200 text/event-stream', 'HEAD ends');
	my $gauge = sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_page_viewers (\d+)$/m ? $1 : undef };
	wait_until('those who left to be forgotten', sub { $gauge->() == 0 });
	my @many = map { reader($daemon) } 1 .. 20;
	is($_->next_event->{event}, 'snapshot', 'one of many') for @many;
	is($gauge->(), 20, 'they are counted');
	$_->close for @many;
	wait_until('them to be forgotten', sub { $gauge->() == 0 });
	my $metrics = http('GET', $daemon->url('metrics', '/metrics'))->{content};
	like($metrics, qr/^ipu_operator_page_events_total [1-9]/m, 'events are counted');
	covers_metrics($metrics, qw(ipu_operator_page_viewers ipu_operator_page_events_total ipu_operator_page_skips_total));
};

# ---- the end, and a new beginning ----

subtest 'the end' => sub {
	my $reader = reader($daemon);
	$reader->next_event;
	my $id = $reader->last_id;
	my @deaf = map { reader($daemon, {}, receive => 2048) } 1 .. 5;
	wait_until('all to be there', sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_page_viewers 6$/m });
	$daemon->stop;
	unlike($daemon->err, qr/closed at the deadline/, 'a clean stop waits for nobody\'s reading');
	my @rest = $reader->catch_up;
	is($rest[-1]{event}, 'bye', 'it says goodbye');
	ok($reader->ended && $reader->{whole}, '... and ends the stream in order');
	$_->close for $reader, @deaf;
	$daemon = operator();
	my $back = reader($daemon, { 'Last-Event-ID' => $id });
	is($back->next_event->{event}, 'snapshot', 'another process: a snapshot');
	isnt($back->last_id =~ s/-.*//r, $id =~ s/-.*//r, '... of another epoch');
	$back->close;
	$daemon->stop;
};

subtest 'full' => sub {
	my $full = operator('proxy.page=full');
	my $reader = reader($full);
	fits_schema($reader->next_event);
	is($reader->known->{mode}, 'full', 'the mode');
	is_deeply([ map { $_->{name} } $reader->list('controllers') ], [ split /,/, $controllers ], 'controllers by name');
	my $uid = job('named', 4)->{metadata}{uid};
	my $pod;
	wait_until('its Pod to run', sub {
		fits_schema($_) for $reader->catch_up;
		my ($p) = $reader->list('partitions');
		$pod = $p->{pods}[0] if $p;
		return $pod && $pod->{phase} eq 'Running';
	});
	my ($p) = $reader->list('partitions');
	is("$p->{kind} $p->{namespace} $p->{name}", 'IPUJob team-a named', 'whose it is');
	my $there = api('GET', '/api/v1/namespaces/team-a/pods')->{items}[0];
	is("$pod->{name} $pod->{node}", "$there->{metadata}{name} $there->{spec}{nodeName}", '... and its Pod');
	is($p->{id}, get($full, '/partitions')->{json}{items}[0]{id}, '... by its name at the controller');
	$reader->close;
	$full->stop;
	my $secret = operator('proxy.page=full', 'proxy.details=false');
	like($secret->err . $secret->out, qr/proxy\.page has no effect beyond usage/, 'where nothing may be named that is said');
	my $told = get($secret, '/live');
	is($told->{json}{mode}, 'usage', '... and nothing is named');
	unlike($told->{content}, qr/named|\Q$uid\E|127\.0\.0\.1/, '... really');
	$secret->stop;
	api('DELETE', "$jobs/named");
};

subtest 'what another site has a browser ask' => sub {
	my $shown = operator('proxy.page=full');
	my $port = $shown->port('proxy');
	for my $row ([ 200, host => "localhost:$port" ], [ 200, host => "[::1]:$port" ], [ 403, host => "evil.example:$port" ], [ 403, host => 'evil.example' ],
		[ 200, 'sec-fetch-site' => 'same-origin' ], [ 200, 'sec-fetch-site' => 'none' ], [ 403, 'sec-fetch-site' => 'cross-site' ],
		[ 403, 'sec-fetch-site' => 'same-site' ]) {
		my ($status, $field, $value) = @$row;
		for my $path (qw(/live /names /page.js)) {
			is(raw_status($port, $path, $field, $value), $status, "$path, $field: $value: $status");
		}
		my $linked = $field eq 'host' ? $status : 200;
		is(raw_status($port, $_, $field, $value), $linked, "$_, $field: $value: $linked") for qw(/ /queue /partitions /controllers);
		is(raw_status($port, '/stats', $field, $value), 200, "/stats, $field: $value: it names nobody");
	}
	is(raw_status($port, '/live/events', host => 'evil.example'), 403, 'and no events');
	$shown->stop;
};

subtest 'off, and too many' => sub {
	my $off = operator('proxy.page=off');
	for my $path (sort(keys %file), qw(/live /live/events /names)) {
		my $answer = get($off, $path);
		is("$answer->{status} $answer->{headers}{'content-type'}", '404 application/problem+json', "off: $path");
		like($answer->{content}, qr/proxy\.page is off/, '... why');
	}
	is(get($off, '/stats')->{status}, 200, 'the others are there');
	$off->stop;
	my $small = operator('limits.connections=8');
	my @readers = map { reader($small) } 1 .. 6;
	is($_->next_event->{event}, 'snapshot', 'one of six') for @readers;
	my $busy = get($small, '/live/events');
	is("$busy->{status} $busy->{headers}{'retry-after'}", '503 10', 'the seventh may come back');
	like(json_decode($busy->{content})->{detail}, qr/limits\.connections/, '... and is told why');
	is(get($small, '/live')->{status}, 200, '... and may ask now and then');
	is(get($small, '/stats')->{status}, 200, 'the others go on');
	shift(@readers)->close;
	my $next;
	wait_until('a place', sub { $next = reader($small); $next->next_event; ($next->status // 0) == 200 });
	$_->close for @readers, $next;
	$small->stop;
};

$sim->stop;
done_testing();
