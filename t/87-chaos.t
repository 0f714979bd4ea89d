#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Chaos in a short form: two replicas, forty jobs, a minute of simulated time in which processes are killed and stopped,
# networks parted, clocks moved, controllers and the API server replaced. Then every job has its right end, and nothing is
# left. `make soak-chaos` is the long form; IPU_CHAOS=SEED[:JOBS:SECONDS] plays a seed once more.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use Chaos;
use IpuTest;
use Test::More;
use Time::HiRes qw(time);

my ($seed, $jobs, $seconds) = split /:/, $ENV{IPU_CHAOS} // '';
$jobs ||= 40;
$seconds ||= 60;
my %numbers = (seed => $seed || 26, jobs => $jobs, seconds => $seconds, replicas => $jobs > 100 ? 3 : 2);
watchdog(400 + 5 * $seconds);

my $plan = Chaos::plan_of(%numbers);
is_deeply(Chaos::plan_of(%numbers), $plan, 'a plan is of its seed alone');
diag("IPU_CHAOS=$numbers{seed}:$jobs:$seconds: " . @{ $plan->{events} } . ' events');
note(map { Chaos::told($_) . "\n" } @{ $plan->{events} });

my $began = time;
my $chaos = Chaos->new($plan, speed => 5, faults => $ENV{IPU_FAULTS});
$chaos->play;
$chaos->judge_luck if !$seed || $seconds >= 300; # another short plan may lack a kind
my $good = $chaos->judge_ends;
$chaos->judge_faults if $seconds >= 300;
$chaos->tell if !$good;
$chaos->judge_rest;
diag(sprintf 'after %.0f simulated seconds, %.0f real ones', $chaos->now, time - $began);
$chaos->end;
done_testing;
