#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What `make soak` runs (t/soak.pl): it ends by itself when its time is over, and leaves nothing running when it's interrupted.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use List::Util ();
use Test::More;
use Time::HiRes qw(sleep);

watchdog(200);
program('t/unit/partition_model_test');
my $soak = top_srcdir() . '/t/soak.pl';

# Processes of the group that soak.pl puts its runs into: all that have it as their parent's parent, and so on.
sub offspring ($pid) {
	my %parent = map { (slurp("$_/stat") // '') =~ /^(\d+) \(.*\) \S (\d+) /s ? ($1 => $2) : () } glob '/proc/[0-9]*';
	my @found = ($pid);
	for (my $i = 0; $i < @found; $i++) {
		push @found, grep { $parent{$_} == $found[$i] } keys %parent;
	}
	return @found[ 1 .. $#found ];
}

my $short = run([ $^X, $soak, 'model' ], env => { SOAK_SECONDS => 1, SOAK_SEED => 5 }, seconds => 60);
is($short->{status}, 0, 'a second of the model');
like($short->{out}, qr/^soak-model: 1 s, from seed 5 on\n.*^soak-model: \d+ runs ended well, 0 didn't\n\z/ms, '… and what came of it');

my $folder = test_dir();
my $seed = 8801;
my $logs = "$ENV{TOP_BUILDDIR}/soak/faults-$seed";
unlink glob "$logs-*.log";
my $long = start('soak', path => $^X, ports => 0, args => [ $soak, 'faults' ], env => { SOAK_SEED => $seed, SOAK_SECONDS => 150, TMPDIR => $folder });
my @all = wait_until('another scenario to run, after the first', sub {
	return undef if !-e "$logs-1.log";
	my @found = offspring($long->pid);
	return (grep { (slurp("/proc/$_/comm") // '') =~ /^fault-proxy/ } @found) ? \@found : undef;
}, seconds => 120);
@all = @{ $all[0] };
$long->stop(status => 130, seconds => 60);
like($long->out, qr/; interrupted$/, 'interrupted, it says so');
like($long->out, qr/^soak-faults: cut short: IPU_FAULTS=$seed IPU_SCENARIO==\S+ IPU_SEED=$seed TOP_BUILDDIR=\S+ TOP_SRCDIR=\S+ \S+ \S+60-scenarios\.t$/m,
	'… and how a run is played again');
my ($told) = $long->out =~ /^soak-faults: faults: (.+)$/m;
my %came = map { split /=/ } split ' ', $told // '';
is(scalar keys %came, 12, 'it tells of each kind of fault how often it has come') or diag($long->out);
cmp_ok(List::Util::sum0(values %came), '>', 0, '… and some have');
is_deeply([ grep { (slurp("/proc/$_/comm") // '') =~ /^(?:perl|ipu-|fault-)/ } @all ], [], '… and nothing that it started runs on');
is_deeply([ glob "$folder/ipu-test-*" ], [], '… or has left files behind');

is(run([ $^X, $soak, 'what' ])->{status}, 255, 'what there isn\'t is refused');
done_testing;
