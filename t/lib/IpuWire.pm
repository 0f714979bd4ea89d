# SPDX-License-Identifier: Apache-2.0
#
# The near end of remote execution as a test writes it: starts `ipu-launcher session` over pipes and
# exchanges frames with it (doc/design/remote-execution.md). One that goes away ends its session.
package IpuWire;

use strict;
use warnings;

use Exporter qw(import);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use IpuTest;
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wire_frame wire_start_frame %WIRE processes_with);

our %WIRE = (HELLO => 1, START => 2, STARTED => 3, FAILED => 4, DATA => 5, CLOSE => 6, CREDIT => 7, SIGNAL => 8,
	PING => 9, EXITED => 10, LEFT => 11, ENDED => 12, END => 13);
my %name = reverse %WIRE;
my $owner = $$;
my @open;

sub wire_frame {
	my ($type, $payload) = @_;
	$payload //= '';
	return pack('C', $WIRE{$type}) . substr(pack('N', length $payload), 1) . $payload;
}

sub wire_start_frame {
	my ($args, %options) = @_;
	my @env = @{$options{env} // []};
	return wire_frame('START', pack('C N N N n n', 1, $options{ping_ms} // 10_000, $options{silence_ms} // 60_000,
		$options{grace_ms} // 10_000, scalar @$args, scalar @env) . join '', map { "$_\0" } @$args, @env);
}

# Processes whose environment holds that text: what a session started, wherever it went.
sub processes_with {
	my ($text) = @_;
	return grep { (slurp("/proc/$_/environ") // '') =~ /\Q$text\E/ && (slurp("/proc/$_/stat") // '') !~ /\) Z/ }
		map { m{^/proc/(\d+)$} } glob '/proc/[0-9]*';
}

# A session: env => {…}; args => […]; auto_credit => 0: output gets no credit beyond the first.
sub new {
	my ($class, %options) = @_;
	my @args = ('session', @{$options{args} // []});
	pipe(my $far_in, my $to_far) or die "pipe: $!\n";
	pipe(my $from_far, my $far_out) or die "pipe: $!\n";
	my $err = test_dir() . '/session-' . int(time() * 1e6) . '.err';
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		$SIG{$_} = 'DEFAULT' for qw(ALRM INT TERM PIPE);
		alarm(0);
		open(STDIN, '<&', $far_in) && open(STDOUT, '>&', $far_out) && open(STDERR, '>', $err)
			or POSIX::_exit(126);
		$ENV{$_} = $options{env}{$_} for keys %{$options{env} // {}};
		{ no warnings 'exec'; exec { program('ipu-launcher') } 'ipu-launcher', @args; }
		POSIX::_exit(127);
	}
	close($_) for $far_in, $far_out;
	binmode($_) for $to_far, $from_far;
	fcntl($from_far, F_SETFL, fcntl($from_far, F_GETFL, 0) | O_NONBLOCK);
	my $self = bless {pid => $pid, to => $to_far, from => $from_far, err => $err, in => '', seen => [],
		out => ['', '', ''], closed => [0, 0, 0], auto_credit => $options{auto_credit} // 1}, $class;
	push @open, $self;
	return $self;
}

sub pid { return $_[0]{pid} }
sub said { return slurp($_[0]{err}) // '' }

sub write_raw {
	my ($self, $bytes) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $at = 0;
	while ($at < length $bytes) {
		my $n = syswrite($self->{to}, $bytes, length($bytes) - $at, $at) // return 0;
		$at += $n;
	}
	return 1;
}

sub tell_far { my ($self, $type, $payload) = @_; return $self->write_raw(wire_frame($type, $payload)) }
sub start_command { my ($self, $args, %options) = @_; return $self->write_raw(wire_start_frame($args, %options)) }
sub shell { my ($self, $text, %options) = @_; return $self->start_command(['/bin/sh', '-c', $text], %options) }
sub input { my ($self, $bytes) = @_; return $self->tell_far(DATA => pack('C', 0) . $bytes) }
sub end_input { return $_[0]->tell_far(CLOSE => pack('C', 0)) }

# Takes what has come; true if there was something. Frames are [NAME, payload].
sub take {
	my ($self) = @_;
	return undef if !defined fileno $self->{from};
	my $n = sysread($self->{from}, $self->{in}, 1 << 16, length $self->{in});
	$self->{eof} = 1 if defined $n && $n == 0;
	while (length $self->{in} >= 4) {
		my ($type, $length) = (ord $self->{in}, unpack('N', "\0" . substr($self->{in}, 1, 3)));
		last if length $self->{in} < 4 + $length;
		my $payload = substr($self->{in}, 4, $length);
		substr($self->{in}, 0, 4 + $length) = '';
		my $name = $name{$type} // "type $type";
		if ($name eq 'DATA') {
			my $stream = ord $payload;
			$self->{out}[$stream] .= substr($payload, 1);
			$self->tell_far(CREDIT => pack('C N', $stream, length($payload) - 1)) if $self->{auto_credit};
		} elsif ($name eq 'CLOSE') {
			$self->{closed}[ord $payload] = 1;
		}
		push @{$self->{seen}}, [$name, $payload] if $name ne 'DATA';
	}
	return $n;
}

# Waits until such a frame has come; its payload.
sub wait_for {
	my ($self, $name, %options) = @_;
	my $found = wait_until("the far end's $name", sub {
		$self->take;
		my ($frame) = grep { $_->[0] eq $name } @{$self->{seen}};
		die "the far end ended before its $name: " . $self->said if !$frame && $self->{eof};
		return $frame;
	}, while_alive => [], %options);
	return $found->[1];
}

sub saw { my ($self, $name) = @_; return scalar grep { $_->[0] eq $name } @{$self->{seen}} }
sub wait_out {
	my ($self, $stream, $pattern) = @_;
	return wait_until("output like $pattern", sub { $self->take; $self->{out}[$stream] =~ $pattern ? 1 : 0 },
		while_alive => []);
}

# To its end: the exit status that was told and the program's own.
sub finish {
	my ($self, %options) = @_;
	my $told = $self->wait_for('EXITED', %options);
	$self->wait_for('ENDED', %options);
	return (unpack('N', $told), $self->wait_end);
}

# The program's own exit status, once it has ended.
sub wait_end {
	my ($self, %options) = @_;
	wait_until('the session to end', sub { $self->take; waitpid($self->{pid}, WNOHANG) == $self->{pid} ? 1 : 0 },
		while_alive => [], %options);
	my $status = $?;
	$self->take;
	@open = grep { $_ != $self } @open;
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# As if the near end were killed.
sub go_away {
	my ($self) = @_;
	close($self->{to});
	close($self->{from});
	return;
}

END {
	if ($$ == $owner) {
		my $status = $?;
		kill('TERM', $_->{pid}) for @open;
		waitpid($_->{pid}, 0) for @open;
		$? = $status;
	}
}

1;
