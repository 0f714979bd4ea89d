#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The fuzz targets run over their corpora: hand-made inputs, and every one that once broke something
# (doc/design/fuzzing.md). A target says what is wrong by ending badly.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(top_srcdir);
use Test::More;

my $corpora = top_srcdir() . '/t/fuzz/corpus';
my $programs = ($ENV{TOP_BUILDDIR} // '.') . '/t/fuzz';
my $watchdog_s = 600;

sub names {
	my ($pattern) = @_;
	my %seen;
	return grep { !$seen{$_}++ } sort map { m{([^/]+?)(?:_fuzz\.c)?$} } glob $pattern;
}

# One input after the other, so that the last line names the one that ended it.
sub replay {
	my ($program, @inputs) = @_;
	my $pid = open(my $out, '-|') // die "fork: $!\n";
	if (!$pid) {
		open(STDIN, '<', '/dev/null');
		open(STDERR, '>&', \*STDOUT);
		exec $program, @inputs or die "$program: $!\n";
	}
	local $SIG{ALRM} = sub { kill 'KILL', $pid };
	alarm $watchdog_s;
	my @said = <$out>;
	close $out;
	alarm 0;
	return ($?, @said);
}

my @targets = names(top_srcdir() . '/t/fuzz/*_fuzz.c');
cmp_ok(scalar @targets, '>', 15, 'found the targets');
is(join(' ', names("$corpora/*")), join(' ', @targets), 'each has a corpus, each corpus a target');
for my $target (@targets) {
	my $program = "$programs/${target}_fuzz";
	my @inputs = sort grep { -f } glob "$corpora/$target/*";
	if (!-x $program) {
		fail("$target: $program isn't there: make check-programs");
		next;
	}
	my ($status, @said) = replay($program, @inputs);
	cmp_ok(scalar @inputs, '>=', 5, "$target has a corpus worth the name");
	ok($status == 0, "$target runs over its corpus")
		or diag("status $status\n", @said > 40 ? @said[-40 .. -1] : @said);
}

done_testing();
