# SPDX-License-Identifier: Apache-2.0
#
# A reader of the live page's events (doc/design/page.md): takes them from /live/events as they come,
# and keeps what a page would know. Core modules only.
package EventStream;

use v5.36;

use IO::Select ();
use IO::Socket::INET ();
use JSON::PP ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Time::HiRes qw(time);

# new($port, 'Last-Event-ID' => …): connects and asks. `receive` of %option: bytes of the socket's own
# buffer; `version`: HTTP's.
sub new ($class, $port, $headers = {}, %option) {
	my $socket = IO::Socket::INET->new(Proto => 'tcp') or die "socket: $!\n";
	$socket->setsockopt(SOL_SOCKET, SO_RCVBUF, $option{receive}) if $option{receive};
	connect($socket, Socket::pack_sockaddr_in($port, Socket::inet_aton('127.0.0.1'))) or die "127.0.0.1:$port: $!\n";
	my $version = $option{version} // '1.1';
	my $request = "GET /live/events HTTP/$version\r\nHost: localhost\r\n" . join('', map { "$_: $headers->{$_}\r\n" } sort keys %$headers);
	syswrite($socket, "$request\r\n") // die "127.0.0.1:$port: $!\n";
	$socket->blocking(0);
	return bless { socket => $socket, raw => '', text => '', known => undef, comments => 0, events => [] }, $class;
}

sub head ($self) { return $self->{head} }
sub status ($self) { return ($self->{head} // '') =~ m{\AHTTP/1\.1 (\d+)} ? $1 : undef }
sub ended ($self) { return $self->{ended} }
sub comments ($self) { return $self->{comments} }
sub last_id ($self) { return $self->{last_id} }

# What the events told so far add up to: as /live's answer, items by their keys.
sub known ($self) { return $self->{known} }
sub list ($self, $kind) {
	my $known = $self->{known} // return;
	return @{ $known->{waiting} }{ @{ $known->{order} } } if $kind eq 'waiting';
	return map { $known->{$kind}{$_} } sort keys %{ $known->{$kind} };
}

# The next event, {id, event, data}, or nothing when none has come by then. It's taken account of.
sub next_event ($self, $seconds = 60) {
	my $end = time() + $seconds;
	while (!@{ $self->{events} }) {
		return if $self->{ended};
		$self->read_some($end - time());
		return if !@{ $self->{events} } && time() >= $end;
	}
	return $self->take(shift @{ $self->{events} });
}

# All that has come by now.
sub catch_up ($self) {
	my @all;
	while (my $event = $self->next_event(0)) { push @all, $event }
	return @all;
}

sub close ($self) { close($self->{socket}); return }

sub read_some ($self, $seconds) {
	IO::Select->new($self->{socket})->can_read($seconds > 0 ? $seconds : 0) or return;
	my $n = sysread($self->{socket}, $self->{raw}, 1 << 16, length $self->{raw});
	$self->{ended} = 1 if defined $n ? $n == 0 : !$!{EAGAIN};
	if (!defined $self->{head}) {
		$self->{raw} =~ s/\A(.*?\r\n)\r\n//s or return;
		$self->{head} = $1;
	}
	if ($self->{head} =~ /^Transfer-Encoding: chunked\r$/mi) {
		while ($self->{raw} =~ /\A([0-9a-f]+)\r\n/i) {
			my ($head, $length) = (length $&, hex $1);
			last if length $self->{raw} < $head + $length + 2;
			$self->{text} .= substr($self->{raw}, $head, $length);
			substr($self->{raw}, 0, $head + $length + 2) = '';
			$self->{whole} = 1 if !$length;
		}
	} else {
		$self->{text} .= $self->{raw};
		$self->{raw} = '';
	}
	while ($self->{text} =~ s/\A(.*?)\n\n//s) {
		my %event;
		for my $line (split /\n/, $1) {
			if ($line =~ /^:/) { $self->{comments}++ }
			elsif ($line =~ /^(id|event|data): (.*)$/) { $event{$1} = $2 }
			else { die "what is this in an event stream? $line\n" }
		}
		push @{ $self->{events} }, \%event if %event;
	}
	return;
}

sub by_key ($items) { return { map { $_->{key} => $_ } @$items } }

sub take ($self, $event) {
	my $data = $event->{data} = JSON::PP->new->utf8->decode($event->{raw_data} = $event->{data});
	$self->{last_id} = $event->{id} if defined $event->{id};
	if ($event->{event} eq 'snapshot') {
		$self->{known} = { %$data, order => [ map { $_->{key} } @{ $data->{waiting} } ],
			map { $_ => by_key($data->{$_}) } qw(controllers partitions waiting held) };
	} elsif ($event->{event} eq 'change') {
		$self->take_change($data);
	}
	return $event;
}

sub take_change ($self, $data) {
	my $known = $self->{known} // die "a change before a snapshot\n";
	$known->{$_} = $data->{$_} for grep { exists $data->{$_} } qw(time total usage);
	for my $kind (qw(controllers partitions waiting held)) {
		for my $key (@{ $data->{drop}{$kind} // [] }) {
			delete $known->{$kind}{$key} // die "a drop of what isn't there: $kind $key\n";
			@{ $known->{order} } = grep { $_ ne $key } @{ $known->{order} } if $kind eq 'waiting';
		}
		for my $item (@{ $data->{put}{$kind} // [] }) {
			push @{ $known->{order} }, $item->{key} if $kind eq 'waiting' && !$known->{waiting}{ $item->{key} };
			$known->{$kind}{ $item->{key} } = $item;
		}
	}
	$known->{order} = $data->{order} if $data->{order};
	push @{ $known->{steps} }, @{ $data->{steps} // [] };
	splice @{ $known->{steps} }, 0, @{ $known->{steps} } - 200 if @{ $known->{steps} } > 200;
	return;
}

1;
