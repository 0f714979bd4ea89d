# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for systemd: a notification socket that keeps what a program says, listening sockets that
# outlive it, and the start of programs with both, as sd_notify(3) and sd_listen_fds(3) describe.
package ServiceManager;

use v5.36;

use Fcntl qw(F_GETFL F_SETFL F_SETFD O_NONBLOCK);
use IO::Socket::INET ();
use IpuTest qw(test_dir program wait_until);
use POSIX ();
use Socket qw(AF_UNIX SOCK_DGRAM pack_sockaddr_un);
use Time::HiRes qw(time);

# Options: abstract => 1: the socket has no path.
sub new ($class, %option) {
	state $count = 0;
	my $path = test_dir() . '/notify-' . ++$count;
	my $address = $option{abstract} ? "\0$path-$$" : $path;
	socket(my $ear, AF_UNIX, SOCK_DGRAM, 0) or die "socket: $!\n";
	bind($ear, pack_sockaddr_un($address)) or die "$path: $!\n";
	fcntl($ear, F_SETFL, fcntl($ear, F_GETFL, 0) | O_NONBLOCK) or die "fcntl: $!\n";
	return bless {ear => $ear, said => [], names => [], listening => {},
		address => $option{abstract} ? "\@$path-$$" : $path}, $class;
}

# Opens a socket for a listener; returns its port. Connections to it wait while nobody serves it.
sub listen_for ($self, $name) {
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 128, ReuseAddr => 1)
		or die "a listening socket: $@\n";
	push @{$self->{names}}, $name;
	$self->{listening}{$name} = $socket;
	push @{$self->{order}}, $socket;
	return $socket->sockport;
}

# As IpuTest's start. Options besides: watchdog_ms, watchdog_pid (whose it is said to be), names (said
# to be those of the sockets), notify => 0.
sub start ($self, $name, %option) {
	my @fds = map { fileno $_ } @{$self->{order} // []};
	my $names = $option{names} // join ':', @{$self->{names}};
	# What systemd does between fork and exec. Above what may be in use first: they could overlap.
	my $code = <<'END';
use POSIX ();
my ($fds, $watchdog_pid) = splice @ARGV, 0, 2;
my @high = map { my $n = 100 + $_; POSIX::dup2((split /,/, $fds)[$_], $n) // die "dup2: $!"; $n } 0 .. split(/,/, $fds) - 1;
for my $i (0 .. $#high) { POSIX::dup2($high[$i], 3 + $i); POSIX::close($high[$i]) }
if (@high) { $ENV{LISTEN_FDS} = @high; $ENV{LISTEN_PID} = $$ }
$ENV{WATCHDOG_PID} = $watchdog_pid || $$ if $ENV{WATCHDOG_USEC};
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!";
END
	fcntl($_, F_SETFD, 0) for @{$self->{order} // []};
	my %env = (%{$option{env} // {}},
		(@fds ? (LISTEN_FDNAMES => $names) : ()),
		(($option{notify} // 1) ? (NOTIFY_SOCKET => $self->{address}) : ()),
		($option{watchdog_ms} ? (WATCHDOG_USEC => 1000 * $option{watchdog_ms}) : ()));
	return IpuTest::start($name, %option, path => $^X, env => \%env, args => ['-e', $code,
		join(',', @fds), $option{watchdog_pid} // 0, program($name), @{$option{args} // []}]);
}

# Takes in what has come; all datagrams so far, each {at, text}.
sub said ($self) {
	while (defined recv($self->{ear}, my $text, 65536, 0)) {
		push @{$self->{said}}, {at => time(), text => $text};
	}
	return @{$self->{said}};
}

# All lines so far, in order.
sub lines ($self) { return map { split /\n/, $_->{text} } $self->said }
sub forget ($self) { $self->said; $self->{said} = []; return }

# Waits until a line matches, and returns it.
sub hear ($self, $pattern, %option) {
	return wait_until("the program to say $pattern", sub { (grep { /$pattern/ } $self->lines)[0] }, %option);
}

1;
