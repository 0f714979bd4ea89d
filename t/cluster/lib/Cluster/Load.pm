# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Load: a client of a test that makes the same request over and over until SIGTERM, each on a connection of its own, and
# writes a line for each: when it began, how long it took, its HTTP status (599: no answer), that of a second try at once
# where the first failed (0: none was needed), and what was said. It runs as a process of its own: Cluster::Install::start_load.
package Cluster::Load;

use v5.36;
use HTTP::Tiny;
use Time::HiRes qw(sleep time);

# $pause: seconds between two; $path: a file with the JSON body, in which %d becomes the request's number, or ''.
sub go ($pause, $method, $url, $path) {
	my $template = $path eq '' ? undef : do { local (@ARGV, $/) = ($path); <> };
	my $ends = 0;
	local $SIG{TERM} = sub { $ends = 1 };
	STDOUT->autoflush(1);
	for (my $n = 1; !$ends; $n++) {
		my $begin = time;
		my $body = defined $template ? $template =~ s/%d/$n/gr : undef;
		my $answer = ask($method, $url, $body);
		my $took = time - $begin;
		my $again = $answer->{success} ? 0 : ask($method, $url, $body)->{status};
		printf "%.3f %.3f %d %d %s\n", $begin, $took, $answer->{status}, $again,
			$answer->{success} ? '' : substr($answer->{content}, 0, 500) =~ s/\s+/ /gr;
		my $left = $pause - (time - $begin);
		sleep($left) if $left > 0 && !$ends;
	}
	return;
}

sub ask ($method, $url, $body) {
	return HTTP::Tiny->new(timeout => 40, keep_alive => 0)->request($method, $url,
		defined $body ? { content => $body, headers => { 'content-type' => 'application/json' } } : {});
}

1;
