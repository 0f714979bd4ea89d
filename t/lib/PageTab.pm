# SPDX-License-Identifier: Apache-2.0
#
# A browser's tab at ipuctl ui, as far as it reads the events: what has come, as text. Core modules only.
package PageTab;

use v5.36;

use Exporter qw(import);
use IO::Socket::INET;
use Time::HiRes qw(time);

our @EXPORT = qw(open_tab heard);

# open_tab(port, key, FIELD => value…): asks for the events. {socket}, {head} and {text} are the caller's to look at.
sub open_tab ($port, $key, %fields) {
	my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 10) or die "connect: $!";
	$fields{Host} //= "127.0.0.1:$port";
	syswrite $s, join "\r\n", "GET /$key/live/events HTTP/1.1", (map { "$_: $fields{$_}" } sort keys %fields), '', '';
	return { socket => $s, raw => '', head => '', text => '' };
}

# What has come, without the chunks' sizes, which stand anywhere.
sub decode ($tab) {
	$tab->{head} = $1 if !$tab->{head} && $tab->{raw} =~ s/\A(.*?\r\n\r\n)//s;
	if ($tab->{head} !~ /chunked/) {
		$tab->{text} .= $tab->{raw} if $tab->{head};
		return;
	}
	while ($tab->{raw} =~ /\A([0-9a-f]+)\r\n/i && length $tab->{raw} >= $+[0] + hex($1) + 2) {
		$tab->{text} .= substr $tab->{raw}, $+[0], hex $1;
		substr($tab->{raw}, 0, $+[0] + hex($1) + 2) = '';
	}
	return;
}

# Reads until it's there: the time when it was. 0: it hasn't come, or the stream has ended.
sub heard ($tab, $words, $seconds = 90) {
	my $end = time + $seconds;
	while ($tab->{text} !~ $words) {
		vec(my $in = '', fileno $tab->{socket}, 1) = 1;
		return 0 if time > $end;
		next if !select($in, undef, undef, 0.1);
		sysread $tab->{socket}, $tab->{raw}, 262144, length $tab->{raw} or return 0;
		decode($tab);
	}
	return time;
}

1;
