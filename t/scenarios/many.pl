# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): what is measured is the work that a real API server makes
#
# Two hundred jobs at once on eight controllers with 64 IPUs each: all of them end well, the record of
# partitions is written far less often than it changes, and the daemon stays small.

use v5.36;
use Test::More;
use Time::HiRes qw(time);

my $jobs = 200;

sub ($s) {
	$s->start(controllers => 8, agents => 16, create_ms => 500, remove_ms => 300);
	$s->wait_ready;
	my $before = $s->metrics;
	my $begin = time;
	$s->create_job(sprintf('many-%03d', $_), ipus => 2**($_ % 4), runs => 1) for 1 .. $jobs;
	my $created = time - $begin;
	my $most = 0;
	$s->wait_for('all jobs to be done', sub {
		$most = $s->stats->{total}{used} if $s->stats->{total}{used} > $most;
		my $done = $s->metrics->{'ipu_operator_jobs{state="Completed"}'};
		return $done == $jobs;
	}, seconds => 90);
	my $took = time - $begin;
	cmp_ok($most, '<=', 512, '/stats never tells of more IPUs than there are');
	is(scalar(grep { $_->{status}{launcherStatus} eq 'Completed' } $s->list('ipujobs')), $jobs,
		'all are Completed');
	$s->wait_for('all partitions to go', sub { !%{ $s->tracker } });
	my $released = time - $begin;
	my $after = $s->metrics;
	my $sum = sub ($pattern) {
		my $n = 0;
		$n += $after->{$_} - ($before->{$_} // 0) for grep { $_ =~ $pattern } keys %$after;
		return $n;
	};
	my $made = 0;
	$made += $s->vipu($_)->{created} for 0 .. 7;
	is($made, $jobs, 'one partition each');
	my $writes = $sum->(qr/^ipu_operator_kube_requests_total\{verb="(?:create|update|patch)",resource="configmaps"/);
	cmp_ok($writes, '>', 0, 'the record was written');
	cmp_ok($writes, '<', 2 * $jobs, '… less than half as often as it changed (four times a job)');
	my $memory = $after->{process_resident_memory_bytes} / 2**20;
	cmp_ok($memory, '<', 100, 'the daemon stays small');
	cmp_ok($after->{ipu_operator_loop_longest_turn_seconds}, '<', 0.5, '… and its loop isn\'t blocked');
	diag(sprintf '%d jobs: created in %.1f s, done after %.1f s, IPUs free after %.1f s, at most %d of 512 '
		. 'used at a time; %d writes of the tracker, %d requests to the API server in all; daemon: '
		. '%.2f s of CPU, %.1f MB', $jobs, $created, $took, $released, $most, $writes,
		$sum->(qr/^ipu_operator_kube_requests_total/), $sum->(qr/^process_cpu_seconds_total/), $memory);
};
