#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The long forms of what make check has short (`make soak`, doc/design/faults.md): one run after the other, from one seed on,
# until SOAK_SECONDS are over. What goes wrong is told with the words that play it again, and its output is kept below
# soak/ in the build folder. At the end it says how often each kind of fault has come, and one that never did is a failure. Interrupted, it ends what it has started.

use v5.36;
use File::Path qw(make_path);
use List::Util qw(shuffle);
use POSIX qw(WNOHANG setpgid);
use Time::HiRes qw(sleep time);

my $grace_s = 30; # for a test that was told to end
my ($kind) = @ARGV;
my $seconds = $ENV{SOAK_SECONDS} || ($kind && $kind eq 'day' ? 1800 : 600);
my $first_seed = $ENV{SOAK_SEED} || time % 1_000_000;
my ($top, $build) = @ENV{qw(TOP_SRCDIR TOP_BUILDDIR)};
my ($stopped, $rounds, %faults);

# A run: the environment that plays it, and the command.
my %runs = (
	model => sub ($seed) {
		return { env => { IPU_MODEL_SEED => $seed * 1_000_000, IPU_MODEL_STEPS => 2_000_000 }, command => [ "$build/t/unit/partition_model_test" ] };
	},
	faults => sub ($seed) {
		srand($seed); # by lot: where there is no time for all, it isn't always the same ones that are left out
		return map { { env => { IPU_FAULTS => $seed, IPU_SEED => $seed, IPU_SCENARIO => "=$_" }, command => [ $^X, "$top/t/60-scenarios.t" ] } }
			shuffle(scenarios());
	},
	chaos => sub ($seed) {
		return { env => { IPU_CHAOS => "$seed:500:600", $seed % 2 ? (IPU_FAULTS => $seed) : () }, command => [ $^X, "$top/t/87-chaos.t" ] };
	},
	day => sub ($seed) { return { env => { IPU_DAY_HOURS => 24 }, command => [ $^X, "$top/t/88-day.t" ] } },
);

# Those that run on ipu-sim, and can have faults.
sub scenarios () {
	my @names;
	for my $path (sort glob "$top/t/scenarios/*.pl") {
		open(my $in, '<', $path) or die "$path: $!\n";
		my $text = do { local $/; <$in> };
		push @names, $path =~ m{([^/]+)\.pl$} if $text =~ /^# Runs: both \(sim/m && $text !~ /^# Faults: no,/m;
	}
	return @names;
}

# In a process group of its own, which goes as a whole.
sub begin ($run, $log) {
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		setpgid(0, 0);
		$SIG{$_} = 'DEFAULT' for qw(INT TERM);
		$ENV{$_} = $run->{env}{$_} for keys %{ $run->{env} };
		open(STDOUT, '>', $log) && open(STDERR, '>&', \*STDOUT) && open(STDIN, '<', '/dev/null') or POSIX::_exit(126);
		exec { $run->{command}[0] } @{ $run->{command} } or POSIX::_exit(127);
	}
	setpgid($pid, $pid); # whoever of the two is first
	return $pid;
}

# The exit status; undef if it had to end before it was through.
sub await ($pid, $until) {
	my $told = 0;
	while (waitpid($pid, WNOHANG) == 0) {
		if (!$told && ($stopped || time >= $until)) {
			kill('TERM', $pid);
			$told = time;
		}
		kill('KILL', -$pid) if $told && time > $told + $grace_s;
		sleep(0.05);
	}
	my $status = $?;
	kill('KILL', -$pid); # what a test forgot
	return $told ? undef : $status;
}

sub words ($run) {
	my %env = (%{ $run->{env} }, TOP_SRCDIR => $top, TOP_BUILDDIR => $build);
	return join ' ', map({ "$_=$env{$_}" } sort keys %env), @{ $run->{command} };
}

# What the run says of its faults: "# IPU_FAULTS=7: delay=3 drip=0 …".
sub count_faults ($log) {
	open(my $in, '<', $log) or die "$log: $!\n";
	while (my $line = <$in>) {
		my ($counts) = $line =~ /^\s*# IPU_FAULTS=\S+: (.+)$/ or next;
		my %count = map { split /=/ } split ' ', $counts;
		$faults{$_} += $count{$_} for keys %count;
	}
	return;
}

$SIG{INT} = $SIG{TERM} = sub { $stopped = 1 };
die "usage: TOP_SRCDIR=… TOP_BUILDDIR=… soak.pl " . join('|', sort keys %runs) . "\n" if !$runs{ $kind // '' } || !$build;
make_path("$build/soak");
my $until = time + $seconds;
my ($good, $bad) = (0, 0);
say "soak-$kind: $seconds s, from seed $first_seed on";
for (my $seed = $first_seed; !$stopped && time < $until; $seed++) {
	my $part = 0;
	for my $run ($runs{$kind}->($seed)) {
		last if $stopped || time >= $until;
		my $log = "$build/soak/$kind-$seed-" . $part++ . '.log';
		my $status = await(begin($run, $log), $until);
		count_faults($log);
		say "soak-$kind: cut short: ", words($run) if !defined $status;
		if ($status) {
			$bad++;
			say "soak-$kind: FAILED: ", words($run), "\n  $log";
			next;
		}
		$good++ if defined $status;
		unlink $log;
	}
	last if $kind eq 'day';
	$rounds++ if time < $until;
}
say "soak-$kind: faults: ", join ' ', map { "$_=$faults{$_}" } sort keys %faults if %faults;
if ($rounds && (my @never = grep { !$faults{$_} } sort keys %faults)) {
	$bad++;
	say "soak-$kind: FAILED: a whole round, and never a fault of the kind @never";
}
say "soak-$kind: $good runs ended well, $bad didn't", $stopped ? '; interrupted' : '';
exit($bad ? 1 : $stopped ? 130 : 0);
