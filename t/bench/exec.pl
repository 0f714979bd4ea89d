#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What goes through remote execution: 256 sessions at once, each an `ipu-launcher rsh` of its own, whose commands in Pods of ipu-sim
# write as fast as they can; all that they write together in a second, the memory of a near end, and who needs how much of a processor
# for it. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/exec.pl [--sessions=256] [--kilobytes=4000] [--runs=3] [--json=FILE]
#
# The far ends, the commands and the simulator share the machine with the near ends.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(children_cpu_s cpu_s figure finish must note options resident_kb);
use IpuTest qw(http program slurp spit start test_dir wait_until);
use List::Util qw(sum);
use POSIX qw(mkfifo);
use Test::More;
use Time::HiRes qw(time);

my $opt = options(600, sessions => 256, kilobytes => 4000, runs => 3);
my ($dir, $pods) = (test_dir() . '', '/api/v1/namespaces/default/pods');
my $sim = start('ipu-sim', env => { TMPDIR => $dir }, args => [ '--dir', "$dir/sim", '--run-pods', '--pod-schedule-ms=1', '--pod-start-ms=1', '--pod-run-ms=0' ]);
my $token = slurp("$dir/sim/token");
mkdir "$dir/account";
spit("$dir/account/token", $token);
spit("$dir/account/namespace", 'default');
my ($ca) = slurp("$dir/sim/kubeconfig") =~ /certificate-authority-data: (\S+)/ or die "no CA in the kubeconfig\n";
require MIME::Base64;
spit("$dir/account/ca.crt", MIME::Base64::decode_base64($ca));

sub api ($method, $path, %more) { return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $token" }, %more) }

my @names = map { "w-$_" } 0 .. 3;
for my $name (@names) {
	api('POST', $pods, json => { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name }, spec => { restartPolicy => 'Never',
		containers => [ { name => 'main', image => 'none', command => [qw(sleep 3600)] } ] } });
}
wait_until('the Pods', sub { 4 == grep { ($_->{status}{phase} // '') eq 'Running' } @{ api('GET', $pods)->{json}{items} } });

my %env = (KUBERNETES_SERVICE_HOST => '127.0.0.1', KUBERNETES_SERVICE_PORT => $sim->port('api'), IPU_SERVICEACCOUNT_DIR => "$dir/account",
	IPU_LAUNCHER_PATH => program('ipu-launcher'), IPU_WORKER_CONTAINER => undef);

# All sessions open, and wait for somebody to write to the pipe "go".
my (@rate, @sim_cpu, @near_cpu, @near_start, @far_cpu, @near_kb);
for my $run (1 .. $opt->{runs}) {
	my $go = "$dir/go$run";
	mkfifo($go, 0600) or die "$go: $!\n";
	my $bytes = $opt->{kilobytes} * 1000;
	# Each near end's output goes through a pipe of its own, as mpirun has it: one for all would wake all writers with each read. They
	# are children of one shell, which says what they took.
	my $script = join '', map { my $pod = $names[ $_ % @names ];
		qq{"\$LAUNCHER" rsh $pod 'touch $dir/here$run-$_; : <$go; exec head -c $bytes /dev/zero' </dev/null | wc -c &\n} } 1 .. $opt->{sessions};
	my $shell = start('sessions', path => '/bin/bash', ports => 0, env => { %env, LAUNCHER => program('ipu-launcher') },
		args => [ '-c', "$script wait; times >&2" ]);
	wait_until('all sessions', sub { my @here = glob "$dir/here$run-*"; @here == $opt->{sessions} }, seconds => 120);
	my ($begin, $sim_before, $far_before) = (time, cpu_s($sim->pid), children_cpu_s($sim->pid));
	my @near = grep { (slurp("/proc/$_/cmdline") // '') =~ /^[^\0]*ipu-launcher\0rsh\0/ && (slurp("/proc/$_/environ") // '') =~ /\Q$dir\E\/account/ }
		map { m{(\d+)} } glob '/proc/[0-9]*';
	push @near_kb, resident_kb($near[0]) / 1000;
	my $started = sum(map { cpu_s($_) } @near);
	push @near_start, 1000 * $started / @near;
	open(my $pipe, '>', $go) or die "$go: $!\n";
	wait_until('all sessions to end', sub { !$shell->is_alive }, seconds => 300, while_alive => [$sim]);
	my $took = time - $begin;
	my ($m, $s, $m2, $s2) = $shell->err =~ /^.*\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s/m or die $shell->report;
	is(sum(split ' ', $shell->out), $opt->{sessions} * $bytes, 'all came');
	$shell->stop(status => 0);
	push @rate, $opt->{sessions} * $bytes / 1e6 / $took;
	push @sim_cpu, 1000 * (cpu_s($sim->pid) - $sim_before) / ($opt->{sessions} * $bytes / 1e6);
	push @far_cpu, 1000 * (children_cpu_s($sim->pid) - $far_before) / ($opt->{sessions} * $bytes / 1e6);
	push @near_cpu, 1000 * (60 * ($m + $m2) + $s + $s2 - $started) / ($opt->{sessions} * $bytes / 1e6);
}
figure("$opt->{sessions} exec sessions at once, all together", 'MB/s', \@rate, $opt->{sessions} == 256 ? (bar => '>= 200') : (), id => "exec-$opt->{sessions}", series => 'exec sessions: MB/s in all', n => $opt->{sessions}, growth => 'rate');
figure('… CPU of a near end until its command runs', 'ms', \@near_start, id => 'exec-near-start');
figure('… CPU of the near ends, and of what counts their output, for a megabyte, once all commands run', 'ms', \@near_cpu, id => 'exec-near-cpu');
figure('… CPU of ipu-sim for a megabyte', 'ms', \@sim_cpu, id => 'exec-sim-cpu');
figure('… CPU of the far ends and their commands for a megabyte, start and all', 'ms', \@far_cpu, id => 'exec-far-cpu');
figure('… resident memory of a near end', 'MB', \@near_kb, bar => '<= 2.5', id => 'exec-memory');
finish($sim);
