# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Forward: passes TCP connections from a listening socket, which may be of another network
# namespace, to the API server. Half-closed connections stay so; what a slow side hasn't taken yet
# stops its other side. Ends with its process.
package Cluster::Forward;

use v5.36;
use IO::Select;
use IO::Socket::INET;
use POSIX qw(EAGAIN EINTR);
use Socket qw(IPPROTO_TCP TCP_NODELAY);

my $target_port = 6443;
my $chunk = 65536;

# Never returns. A link is one direction of one connection: from, to, the bytes that wait, whether
# its source has ended, whether that was passed on, and the link of the other direction.
sub serve ($door) {
	local $SIG{PIPE} = 'IGNORE';
	my (%link_from, %link_to);
	$door->blocking(0);
	while (1) {
		my @links = values %link_from;
		my $readers = IO::Select->new($door,
			map { $_->{from} } grep { !$_->{end} && $_->{wait} eq '' } @links);
		my $writers = IO::Select->new(map { $_->{to} } grep { $_->{wait} ne '' } @links);
		my ($readable, $writable) = IO::Select->select($readers, $writers, undef, undef);
		my @work = map { [ $_, $link_to{ fileno($_) }, \&push_out ] } @{ $writable // [] };
		push @work, map { [ $_, $link_from{ fileno($_) }, \&pull_in ] }
			grep { $_ != $door } @{ $readable // [] };
		for my $item (@work) {
			my ($socket, $link, $step) = @$item;
			next unless defined fileno($socket);
			next if $step->($link) && !($link->{done} && $link->{other}{done});
			for my $end ($link->{from}, $link->{to}) {
				delete $link_from{ fileno($end) };
				delete $link_to{ fileno($end) };
				close($end);
			}
		}
		for my $link (add_connection($door)) {
			$link_from{ fileno($link->{from}) } = $link;
			$link_to{ fileno($link->{to}) } = $link;
		}
	}
}

# The two links of a connection that waits at the door, if one does.
sub add_connection ($door) {
	my $near = $door->accept // return;
	my $far = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $target_port,
		Timeout => 2) // return;
	for my $socket ($near, $far) {
		$socket->blocking(0);
		$socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
	}
	my @links = map { { from => $_->[0], to => $_->[1], wait => '', end => 0, done => 0 } }
		[ $near, $far ], [ $far, $near ];
	$links[0]{other} = $links[1];
	$links[1]{other} = $links[0];
	return @links;
}

# Both return false when the connection is lost.
sub pull_in ($link) {
	my $count = sysread($link->{from}, $link->{wait}, $chunk);
	if (!defined $count) {
		return $! == EAGAIN || $! == EINTR;
	}
	$link->{end} = 1 if $count == 0;
	return push_out($link);
}

sub push_out ($link) {
	while ($link->{wait} ne '') {
		my $count = syswrite($link->{to}, $link->{wait});
		if (!defined $count) {
			return $! == EAGAIN || $! == EINTR;
		}
		substr($link->{wait}, 0, $count, '');
	}
	if ($link->{end} && !$link->{done}) {
		shutdown($link->{to}, 1);
		$link->{done} = 1;
	}
	return 1;
}

1;
