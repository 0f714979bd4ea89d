#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The fault proxy itself (t/tools/fault-proxy): each kind of fault really happens, as a client sees it, and by the seed
# alone; links are parted, mended, cut and turned elsewhere.

use v5.36;
use Errno qw(ECONNRESET);
use FindBin;
use lib "$FindBin::Bin/lib";
use Faults;
use IO::Select;
use IO::Socket::INET;
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

watchdog(240);
my $hold_ms = 400;
my $sim = start('ipu-sim', args => [ '--dir', test_dir() . '/sim' ]);
my $token = slurp(test_dir() . '/sim/token');
my $path = '/api/v1/nodes';
my $request = "GET $path HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer $token\r\n\r\n";
my $right = http('GET', $sim->url('api-plain', $path), headers => { authorization => "Bearer $token" })->{content};
like($right, qr/"sim0"/, 'what an unharmed answer says');

# A proxy whose link vipu0 leads to the API without TLS, so that bytes can be told apart.
sub proxy ($seed, $kinds, %option) {
	my $to = { %$sim, ports => { %{ $sim->{ports} }, vipu0 => $sim->port('api-plain') } };
	return Faults->before(bless($to, ref $sim), seed => $seed, kinds => $kinds, controllers => 1, hold => $hold_ms, %option);
}

sub dial ($proxy) {
	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $proxy->port('vipu0'), Blocking => 1) // die "connect: $!\n";
}

# What comes on a connection: {text, pieces, end: "eof", "reset", "silence"}; until the text fits, where there is a pattern.
sub hear ($socket, %option) {
	my %got = (text => '', pieces => 0, end => '');
	my $select = IO::Select->new($socket);
	while (!$option{until} || $got{text} !~ $option{until}) {
		if (!$select->can_read($option{seconds} // 20)) {
			$got{end} = 'silence';
			last;
		}
		my $n = sysread($socket, my $piece, 65536);
		if (!$n) {
			$got{end} = defined $n ? 'eof' : $! == ECONNRESET ? 'reset' : "$!";
			last;
		}
		$got{text} .= $piece;
		$got{pieces}++;
	}
	return \%got;
}

# One request after the other on one connection, until the proxy says that the fault was there: what came of the last one.
sub until_fault ($proxy, $kind) {
	my $all = qr/\r\n\r\n\Q$right\E\z/;
	for my $connection (1 .. 20) {
		my $socket = dial($proxy);
		for (1 .. 60) {
			syswrite($socket, $request);
			my $began = time;
			my $got = hear($socket, until => $all);
			$got->{took} = time - $began;
			return $got if $proxy->counts->{$kind};
			last if $got->{end};
		}
	}
	die "no fault $kind came\n";
}

subtest 'faults of bytes' => sub {
	my %want = (
		delay => sub ($got) { is($got->{end}, '', 'all came, later') },
		drip => sub ($got) {
			is($got->{end}, '', 'all came');
			cmp_ok($got->{pieces}, '>', 3, '… in many pieces');
		},
		reset => sub ($got) { is($got->{end}, 'reset', 'RST') },
		half => sub ($got) { is($got->{end}, 'reset', 'silence, and in the end an RST') },
		hole => sub ($got) { is($got->{end}, 'reset', 'the same, for who doesn\'t write') },
		garbage => sub ($got) {
			is($got->{end}, 'eof', 'the end');
			like($got->{text}, qr/[^\x09\x0a\x0d\x20-\x7e]/, '… after bytes that are no text');
		},
		alert => sub ($got) {
			is($got->{end}, 'eof', 'the end');
			like($got->{text}, qr/\x15\x03\x03\x00\x02\x02\x50\z/, '… after an alert');
		},
	);
	for my $kind (sort keys %want) {
		my $proxy = proxy(7, $kind);
		my $got = until_fault($proxy, $kind);
		subtest "kind $kind" => sub { $want{$kind}->($got) };
		is_deeply([ keys %{ $proxy->counts } ], [$kind], 'no other fault came');
		$proxy->program_of->stop;
	}
};

# The same request so many times, one after the other, by TLS, as the daemon speaks: its answers, each {status, head,
# body, whole: it didn't break off}.
sub ask ($proxy, $times, $query = '', $seconds = 20) {
	my $ca = spit(test_dir() . '/ca.pem', $proxy->faults->{ca});
	my $mark = '=-=-=';
	my $url = 'https://127.0.0.1:' . $proxy->port('api') . "$path?n=[1-$times]$query";
	my $result = run([ 'curl', '-s', '-i', '--cacert', $ca, '-H', "Authorization: Bearer $token", '--max-time', $seconds,
		'-w', "$mark%{exitcode} %{http_code}\n", $url ], seconds => 120);
	my @answers;
	while ($result->{out} =~ /\G(.*?)$mark(\d+) (\d+)\n/gs) {
		my ($text, $exit, $status) = ($1, $2, $3);
		my ($head, $body) = split /\r\n\r\n/, $text, 2;
		push @answers, { status => $status, head => $head // '', body => $body // '', whole => $exit == 0 };
	}
	is(scalar @answers, $times, "curl has asked $times times");
	return @answers;
}

sub harmed ($answer) { return !$answer->{whole} || $answer->{body} ne $right }

subtest 'faults of requests' => sub {
	my %want = (
		truncate => sub ($a) {
			is("$a->{status} $a->{whole}", '200 1', 'an answer in order');
			ok(length $a->{body} && index($right, $a->{body}) == 0, '… of a part of the text');
		},
		garbage => sub ($a) { like($a->{body}, qr/\x7f\x01/, 'bytes that are no JSON') },
		410 => sub ($a) { like("$a->{status} $a->{body}", qr/^410 .*"reason":"Expired"/, 'status and reason') },
		429 => sub ($a) { like("$a->{status} $a->{head}", qr/^429 .*\nRetry-After: 1\b/is, 'with the time to wait') },
		500 => sub ($a) { is($a->{status}, 500, 'status') },
		503 => sub ($a) { is($a->{status}, 503, 'status') },
	);
	for my $kind (sort keys %want) {
		# What breaks off is the doing of bytes: the kind "garbage" has both.
		my $proxy = proxy(5, $kind);
		my @harmed = grep { harmed($_) && $_->{whole} } ask($proxy, 40, '&resourceVersion=1');
		my $count = $proxy->faults->{requests};
		subtest "kind $kind" => sub {
			ok(scalar @harmed, 'it came');
			is_deeply([ keys %$count ], [$kind], '… alone');
			$want{$kind}->($_) for @harmed;
		};
		$proxy->program_of->stop;
	}
};

subtest 'answers that break off' => sub {
	for my $kind (qw(reset half hole)) {
		my $proxy = proxy(3, $kind);
		my @broken = grep { !$_->{whole} } ask($proxy, 40);
		my $count = $proxy->faults;
		ok($count->{requests}{$kind}, "$kind: it came");
		ok(scalar @broken, '… and broke answers off');
		$proxy->program_of->stop;
	}
};

subtest 'gone' => sub {
	my $proxy = proxy(1, '410');
	is(scalar(grep { harmed($_) } ask($proxy, 40)), 0, 'no request meets it that a server couldn\'t answer so');
	my @watch = ask($proxy, 30, '&watch=1&resourceVersion=1', 0.7);
	ok((grep { $_->{status} == 410 } @watch), 'of a watch, as a status');
	ok((grep { $_->{status} == 200 && $_->{body} =~ /\A\{"type":"ERROR".*"code":410/ } @watch), '… and in the stream');
	$proxy->program_of->stop;
};

subtest 'the seed decides' => sub {
	my $play = sub ($seed) {
		my $proxy = proxy($seed, '429,500,503');
		my $said = join ' ', map { $_->{status} } ask($proxy, 40);
		$proxy->program_of->stop;
		return $said;
	};
	my $first = $play->(11);
	is($play->(11), $first, 'the same once more');
	isnt($play->(12), $first, 'another seed, other faults');
	unlike($first, qr/(?:(?:429|500|503) ?){3}/, 'never three in a row');
};

subtest 'both versions of HTTP' => sub {
	my %spoken;
	for my $seed (1 .. 4) {
		my $proxy = proxy($seed, '410');
		my $ca = spit(test_dir() . '/ca.pem', $proxy->faults->{ca});
		my $got = run([ 'curl', '-sS', '--cacert', $ca, '-H', "Authorization: Bearer $token", '-o', '/dev/null', '-w', '%{http_code} %{http_version}',
			'https://127.0.0.1:' . $proxy->port('api') . $path ]);
		my ($status, $version) = split / /, $got->{out};
		is($status, 200, "seed $seed: answered") or diag($got->{err});
		$spoken{$version}++;
		my ($said) = $proxy->program_of->err =~ /API server: (\S+)/;
		is($said, { '1.1' => 'http/1.1', 2 => 'h2' }->{$version}, '… as its log says');
		$proxy->program_of->stop;
	}
	is_deeply([ sort keys %spoken ], [ '1.1', 2 ], 'with one seed by HTTP/2, with another by HTTP/1.1');
};

subtest 'links' => sub {
	my $proxy = proxy(1, '410');
	my $all = qr/\r\n\r\n\Q$right\E\z/;
	my $socket = dial($proxy);
	syswrite($socket, $request);
	is(hear($socket, until => $all)->{end}, '', 'an answer');
	$proxy->part('vipu0');
	syswrite($socket, $request);
	my $late = dial($proxy);
	syswrite($late, $request);
	is(hear($socket, seconds => 0.3)->{end}, 'silence', 'parted: nothing');
	is(hear($late, seconds => 0.3)->{end}, 'silence', '… for a new connection too');
	$proxy->mend('vipu0');
	is(hear($_, until => $all)->{end}, '', 'mended: the answer') for $socket, $late;
	$proxy->cut('vipu0');
	is(hear($socket)->{end}, 'reset', 'cut');
	$proxy->aim('vipu0', $sim->port('admin'));
	$socket = dial($proxy);
	syswrite($socket, "GET /sim/state HTTP/1.0\r\n\r\n");
	like(hear($socket, until => qr/vipu/)->{text}, qr/200 OK/, 'aimed at another port');
	my $wrong = http('POST', $proxy->program_of->url('control', '/links/none/cut'));
	is($wrong->{status}, 404, 'no such link');
	$proxy->program_of->stop;
};

subtest 'a request that is held back' => sub {
	for my $seed (1 .. 4) { # both versions of HTTP are among them, see above
		my $proxy = proxy($seed, '410');
		my $ca = spit(test_dir() . '/ca.pem', $proxy->faults->{ca});
		my $maps = '/api/v1/namespaces/default/configmaps';
		my $make = sub ($name) {
			return run([ 'curl', '-sS', '--cacert', $ca, '-H', "Authorization: Bearer $token", '-H', 'Content-Type: application/json', '-o', '/dev/null',
				'-w', '%{http_code}', '-d', qq({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"$name"}}), 'https://127.0.0.1:' . $proxy->port('api') . $maps ]);
		};
		my $is = sub ($name) { return http('GET', $sim->url('api-plain', "$maps/$name"), headers => { authorization => "Bearer $token" })->{status} };
		ok(!$proxy->held, "seed $seed: none is");
		$proxy->hold_back('POST', $maps);
		my $first = $make->("first-$seed");
		isnt($first->{status}, 0, 'its sender sees it fail') or diag($first->{out});
		ok($proxy->held, 'it is there');
		is($make->("second-$seed")->{out}, 201, 'the next one goes through');
		is_deeply([ $is->("first-$seed"), $is->("second-$seed") ], [ 404, 200 ], '… ahead of the first');
		is($proxy->deliver, 201, 'delivered: with its status');
		is($is->("first-$seed"), 200, '… and its effect');
		ok(!$proxy->held, 'and that is all');
		is(http('POST', $proxy->program_of->url('control', '/deliver'))->{status}, 409, 'once');
		$proxy->program_of->stop;
	}
};

subtest 'what it is told' => sub {
	for my $bad ([ 'seed=x' ], [ 'kinds=none-such' ], [ 'what=1' ], []) {
		my $result = run([ program('t/tools/fault-proxy'), map { ('--set', $_) } @$bad ]);
		is($result->{status}, 2, "refused: @$bad");
		like($result->{err}, qr/^fault-proxy: \S/, '… with words');
	}
};

$sim->stop;
done_testing;
