# SPDX-License-Identifier: Apache-2.0
#
# An operator's page by script: page_peer.pl [--listen=ADDRESS] --ports-file=FILE. Its events are what a test says by
# /admin/push?WORDS, or half a second after /admin/later?WORDS; /admin/streams is how many read them, /admin/last the last
# request's head; after /admin/be?hostile what should be data is a web page, after /admin/be?endless an error whose words
# never end; /admin/flood sends them all that they take until nothing more has gone for a second, and answers how many
# bytes that was. Core modules only.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

$SIG{PIPE} = 'IGNORE';
$SIG{TERM} = sub { exit 0 };
my ($file) = map { /^--ports-file=(.*)/ ? $1 : () } @ARGV;
my ($address) = map { /^--listen=(.*)/ ? $1 : () } @ARGV;
my $listener = IO::Socket::INET->new(LocalAddr => ($address // '127.0.0.1') . ':0', Listen => 64) or die "listen: $!\n";
open(my $out, '>', "$file.new") or die "$file: $!\n";
print {$out} 'page ' . $listener->sockport . "\n";
close $out or die;
rename "$file.new", $file or die;

my $select = IO::Select->new($listener);
my (%input, %stream, %rest, @later, $last);
my $be = '';
my $packed = "\x1f\x8b\x08 no gzip at all, but nobody here looks";
my %page = ('/' => ['text/html; charset=utf-8', '<!DOCTYPE html>hello'], '/page.js' => ['text/javascript', 'hello()'],
	'/live' => ['application/json', '{"id":"1-1"}'], '/stats' => ['application/json', '{"secret":true}'], '/older/stats' => ['application/json', '{}']);

sub forget { my ($c) = @_; $select->remove($c); delete $input{$c}; delete $stream{$c}; delete $rest{$c}; close $c; return }

sub reply {
	my ($c, $status, $fields, $body) = @_;
	syswrite $c, "HTTP/1.1 $status Whatever\r\nContent-Length: " . length($body) . "\r\n" . join('', map { "$_\r\n" } @$fields)
		. "\r\n" . ($last =~ /^HEAD / || $status == 304 ? '' : $body);
	return;
}

sub chunk { return sprintf("%x\r\n%s\r\n", length $_[0], $_[0]) }

# What streams haven't taken yet is in %rest; they never block.
sub send_to {
	my ($c, $text) = @_;
	$rest{$c} .= $text;
	my $n = syswrite($c, $rest{$c}) // 0;
	substr($rest{$c}, 0, $n) = '';
	return $n;
}

sub push_all {
	my ($words) = @_;
	send_to($_, chunk(': sent ' . time . "\nid: 1-2\nevent: change\ndata: $words\n\n")) for values %stream;
	return;
}

sub flood {
	my ($sent, $quiet_since) = (0, time);
	while (time - $quiet_since < 1 && $sent < 512 << 20) {
		my $went = 0;
		for my $c (values %stream) {
			$went += send_to($c, length $rest{$c} ? '' : chunk("id: 1-2\nevent: change\ndata: " . 'x' x 65000 . "\n\n"));
		}
		$quiet_since = time if $went;
		$sent += $went;
		select(undef, undef, undef, 0.01) if !$went;
	}
	return $sent;
}

sub admin {
	my ($c, $what, $words) = @_;
	my $text = $what eq 'last' ? $last : $what eq 'streams' ? scalar keys %stream : $what eq 'flood' ? flood() : 'done';
	push_all($words) if $what eq 'push';
	$be = $words if $what eq 'be';
	push @later, [ time + 0.5, $words ] if $what eq 'later';
	syswrite $c, "HTTP/1.1 200 OK\r\nContent-Length: " . length($text) . "\r\nConnection: close\r\n\r\n$text";
	return forget($c);
}

sub answer {
	my ($c, $path) = @_;
	if ($be eq 'hostile' && $path =~ m{^/live}) {
		reply($c, 200, ['Content-Type: text/html'], '<!DOCTYPE html>hello');
	} elsif ($be eq 'endless') {
		syswrite $c, "HTTP/1.1 500 Whatever\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" . chunk('x' x 70_000);
	} elsif ($path eq '/live/events') {
		my ($id) = $last =~ /^last-event-id: (\S+)/mi;
		syswrite $c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
			. chunk("id: 1-1\nevent: snapshot\ndata: after " . ($id // 'nothing') . "\n\n");
		$stream{$c} = $c;
		$rest{$c} = '';
		$c->blocking(0);
	} elsif ($path eq '/live' && $last =~ /^if-none-match: "1-1"\r$/mi) {
		reply($c, 304, ['ETag: "1-1"'], '');
	} elsif ($path eq '/live' && $last =~ /^accept-encoding:.*gzip/mi) {
		reply($c, 200, ['Content-Type: application/json', 'Content-Encoding: gzip', 'Vary: Accept-Encoding'], $packed);
	} elsif ($page{$path}) {
		reply($c, 200, ["Content-Type: $page{$path}[0]", 'ETag: "1-1"', 'Cache-Control: no-cache', "Content-Security-Policy: default-src 'none'",
			'Set-Cookie: a=b', 'Access-Control-Allow-Origin: *', 'X-Other: thing'], $page{$path}[1]);
	} else {
		reply($c, 404, ['Content-Type: application/problem+json'], '{"status":404,"title":"Not Found","detail":"there is no such path"}');
	}
	return;
}

sub take {
	my ($c) = @_;
	return forget($c) if !sysread $c, $input{$c}, 65536, length $input{$c};
	while ($input{$c} =~ s/\A(.*?\r\n\r\n)//s) {
		my $head = $1;
		my ($path, $query) = $head =~ m{\A\S+ ([^\s?]+)\??(\S*)};
		return admin($c, $1, $query) if $path =~ m{^/admin/(\w+)};
		$last = $head;
		answer($c, $path);
	}
	return;
}

while (1) {
	my ($readable, $writable) = IO::Select->select($select, IO::Select->new(grep { length $rest{$_} } values %stream), undef, @later ? 0.01 : undef);
	push_all((shift @later)->[1]) while @later && $later[0][0] <= time;
	send_to($_, '') for @$writable;
	for my $c (@$readable) {
		if ($c != $listener) {
			take($c);
		} elsif (my $new = $listener->accept) {
			$select->add($new);
			$input{$new} = '';
		}
	}
}
