# SPDX-License-Identifier: Apache-2.0
#
# The page of shared memory by which programs take their time (core/clock.h: struct clock_page): so far ahead of the real
# clocks. A program gets it by IPU_CLOCK_PAGE.
package ClockPage;

use v5.36;
use IpuTest qw(spit);

sub new ($class, $path, $ahead_ms = 0) {
	return bless { path => spit($path, text($ahead_ms)), ahead_ms => $ahead_ms }, $class;
}

sub text ($ahead_ms) { return pack('a8 q<7', "\0IPUCLK1", $ahead_ms, (0) x 6) }

sub path ($self) { return $self->{path} }
sub ahead_ms ($self) { return $self->{ahead_ms} }

# In place, since it's mapped.
sub set ($self, $ahead_ms) {
	open(my $out, '+<:raw', $self->{path}) or die "$self->{path}: $!\n";
	syswrite($out, text($ahead_ms)) == 64 or die "$self->{path}: $!\n";
	close($out) or die "$self->{path}: $!\n";
	return $self->{ahead_ms} = $ahead_ms;
}

1;
