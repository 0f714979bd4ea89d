#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Time passes, on a clock that runs faster: jobs come and go, watches break and are made anew, controllers are lost and come
# back. The daemon doesn't grow by it, neither in memory nor in descriptors. One hour here; `make soak-day` has a whole day
# (IPU_DAY_HOURS).

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use ClockPage;
use IpuTest;
use List::Util qw(min);
use Scenario;
use Scenario::Sim;
use Test::More;
use Time::HiRes qw(sleep time);

my $hours = $ENV{IPU_DAY_HOURS} || 1;
my $round_s = 300;
my $rounds = $hours * 3600 / $round_s;
# Kept connections come and go, up to eight, each with its buffers. A sanitizer keeps what was freed, and where it came from: with it,
# what is lost is told at the end, and only much is growth.
my $is_sanitized = slurp("$ENV{TOP_BUILDDIR}/Makefile") =~ /^IPU_SANITIZE_FLAGS = *\S/m;
my $slack_kb = $is_sanitized ? 16384 : 640;
$ENV{ASAN_OPTIONS} = join ':', grep { length } $ENV{ASAN_OPTIONS} // '', 'quarantine_size_mb=1';
watchdog(300 + 60 * $hours);

my $clock = ClockPage->new(test_dir() . '/clock');
$ENV{IPU_CLOCK_PAGE} = $clock->path;
my $s = Scenario->new(Scenario::Sim->new);
$s->start(agents => 8, create_ms => 2000);

# A simulated second at a time, so that no program sees it jump further than it has to.
sub elapse ($seconds) {
	for (1 .. $seconds) {
		$clock->set($clock->ahead_ms + 1000);
		sleep(0.002);
	}
	return;
}

sub wait_passing ($what, $code) {
	return IpuTest::wait_until($what, sub { elapse(1); $code->() }, seconds => 60);
}

# Memory of its own, in KiB, and descriptors.
sub size_of ($program) {
	my ($kb) = slurp('/proc/' . $program->pid . '/status') =~ /^RssAnon:\s+(\d+) kB$/m;
	my @descriptors = glob '/proc/' . $program->pid . '/fd/*';
	return { kb => $kb, descriptors => scalar @descriptors };
}

sub accident ($round) {
	if ($round % 3 == 0) {
		$s->tell_sim('/sim/api/compact');
		$s->tell_sim('/sim/api/cut-watches');
	}
	$s->tell_vipu('cut') if $round % 4 == 1;
	if ($round % 6 == 5) {
		$s->api_goes;
		elapse(20);
		$s->api_comes;
	}
	return;
}

# Jobs that end well, end badly, and are deleted while they run; then all is as before.
sub round ($round) {
	my @names = map { "round-$round-$_" } qw(good bad gone);
	$s->create_job($names[0], ipus => 4, runs => 30);
	$s->create_job($names[1], ipus => 2, runs => 20, exit => 3, words => "no luck in round $round");
	$s->create_job($names[2], ipus => 8);
	elapse(10);
	accident($round);
	wait_passing('a job to run', sub { ($s->get_job($names[2])->{status}{launcherStatus} // '') eq 'Running' });
	$s->delete_job($names[2]);
	my %want = ($names[0] => 'Completed', $names[1] => 'Failed');
	for my $name (sort keys %want) {
		wait_passing("$name to end", sub { ($s->get_job($name)->{status}{launcherStatus} // '') eq $want{$name} });
	}
	$s->stats;
	$s->metrics;
	$s->delete_job($_) for sort keys %want;
	wait_passing('all jobs to be gone', sub { !$s->list('ipujobs') && !%{ $s->tracker } });
	return;
}

my (@sizes, $began);
$began = time;
for my $round (1 .. $rounds) {
	my $end_ms = $clock->ahead_ms + 1000 * $round_s;
	round($round);
	elapse(1) while $clock->ahead_ms < $end_ms;
	push @sizes, size_of($s->operator);
}
# The least of a quarter of the time: what is in use just then doesn't count.
sub least ($from, $to, $what) { return min(map { $_->{$what} } @sizes[ $from * @sizes / 4 .. $to * @sizes / 4 - 1 ]) }

my ($early, $late) = map { my ($from, $to) = @$_; +{ map { ($_ => least($from, $to, $_)) } qw(kb descriptors) } } [ 1, 2 ], [ 3, 4 ];
diag(sprintf '%g hours in %.0f s: %d KiB, then %d; %d descriptors, then %d', $hours, time - $began, map({ $_->{kb} } $early, $late),
	map { $_->{descriptors} } $early, $late);
note('sizes: ', join ' ', map { "$_->{kb}/$_->{descriptors}" } @sizes);
cmp_ok($late->{kb}, '<=', $early->{kb} + $slack_kb, 'it doesn\'t grow');
cmp_ok($late->{descriptors}, '<=', $early->{descriptors} + 10, '… nor do its descriptors');
$s->finish(1);
done_testing;
