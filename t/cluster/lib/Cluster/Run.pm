# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Run: what every part of the cluster command needs of the system: files, programs that run
# to their end or stay, waiting with a deadline, and a TCP port's or socket's readiness.
package Cluster::Run;

use v5.36;
use Exporter 'import';
use Fcntl qw(F_SETFD F_GETFD FD_CLOEXEC);
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(fail now read_file write_file write_json run capture spawn wait_until port_open
	socket_open tail keep_open);

# Ends the command with one line for the user.
sub fail ($message) {
	chomp $message;
	die "cluster: $message\n";
}

# Seconds on the monotonic clock.
sub now {
	return Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC());
}

sub read_file ($path) {
	open(my $in, '<:raw', $path) or return undef;
	local $/;
	my $text = <$in>;
	close($in);
	return $text // '';
}

# Replaces a file in one step. $mode: its permissions (default 0644).
sub write_file ($path, $text, $mode = 0644) {
	open(my $out, '>:raw', "$path.part") or fail("$path: $!");
	chmod($mode, $out) or fail("$path: $!");
	print $out $text;
	close($out) or fail("$path: $!");
	rename("$path.part", $path) or fail("$path: $!");
}

sub write_json ($path, $value) {
	write_file($path, JSON::PP->new->canonical->pretty->encode($value));
}

# Runs a program to its end, its output where ours goes; fails if it does. (Not by system(), which
# would keep an interrupt from us until then.)
sub run (@command) {
	my $pid = fork() // fail("can't fork: $!");
	if ($pid == 0) {
		$SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
		no warnings 'exec';
		exec { $command[0] } @command;
		POSIX::_exit(127);
	}
	waitpid($pid, 0);
	fail("'@command' failed with status " . ($? >> 8 || $?)) if $?;
}

# Runs a program to its end: (exit status, standard output and error together). A status above 255
# is a signal; 256 means that it couldn't be started or that $seconds have passed.
sub capture ($seconds, @command) {
	my $pid = open(my $out, '-|') // fail("can't fork: $!");
	if ($pid == 0) {
		open(STDERR, '>&', \*STDOUT);
		open(STDIN, '<', '/dev/null');
		no warnings 'exec';
		exec('timeout', '-k', 5, $seconds, @command);
		POSIX::_exit(127);
	}
	local $/;
	my $text = <$out> // '';
	close($out);
	return ($? & 127 ? 256 + ($? & 127) : $? >> 8, $text);
}

# Starts a program that stays: in a session of its own, its output to $log. Returns its process id.
sub spawn ($log, $environment, @command) {
	my $pid = fork() // fail("can't fork: $!");
	return $pid if $pid;
	POSIX::setsid();
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>>', $log) or POSIX::_exit(126);
	open(STDERR, '>&', \*STDOUT);
	$ENV{$_} = $environment->{$_} for keys %$environment;
	no warnings 'exec';
	exec { $command[0] } @command;
	print STDOUT "can't run $command[0]: $!\n";
	POSIX::_exit(127);
}

# Calls $test every $pause seconds until it returns something true, which is returned, or until
# $deadline (on now()'s clock) has passed: then undef.
sub wait_until ($deadline, $test, $pause = 0.05) {
	while (1) {
		my $value = $test->();
		return $value if $value;
		return undef if now() >= $deadline;
		sleep($pause);
	}
}

sub port_open ($address, $port) {
	return defined IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Timeout => 1);
}

sub socket_open ($path) {
	return defined IO::Socket::UNIX->new(Peer => $path);
}

# The last $lines lines of a file.
sub tail ($path, $lines) {
	my @all = split /^/m, read_file($path) // return '';
	splice(@all, 0, @all - $lines) if @all > $lines;
	return join '', @all;
}

# Lets a descriptor live on in programs that we start.
sub keep_open ($handle) {
	my $flags = fcntl($handle, F_GETFD, 0) or fail("fcntl: $!");
	fcntl($handle, F_SETFD, $flags & ~FD_CLOEXEC) or fail("fcntl: $!");
	return fileno($handle);
}

1;
