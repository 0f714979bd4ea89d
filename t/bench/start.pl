#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# From the operator's start to the moment at which it takes up its first job: by itself, and with a thousand jobs. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/start.pl [--jobs=1000] [--runs=7] [--json=FILE] [--kubeconfig=FILE]
#
# The moment is that of its own word "job: ready"; before it are all lists that it needs, and the Lease.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s delete_all figure finish job job_requests options start_operator start_sim tool);
use IpuTest qw(wait_until);
use Test::More;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my $opt = options(600, jobs => 1000, runs => 7);
my $sim = start_sim();

# Its log's own time of a line.
sub at ($daemon, $words) {
	my ($y, $mo, $d, $h, $mi, $s) = ($daemon->err // '') =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):([\d.]+)Z \S+ +\Q$words\E/m or return;
	return timegm(0, $mi, $h, $d, $mo - 1, $y) + $s;
}

sub measure ($ms, $cpu) {
	my $begin = time;
	my $daemon = start_operator($sim, beside => 1, set => { 'log.format' => 'text' });
	my $ready = wait_until('it to be ready', sub { at($daemon, 'job: ready') });
	push @$cpu, 1000 * cpu_s($daemon->pid);
	push @$ms, 1000 * ($ready - $begin);
	$daemon->stop(status => 0);
	return;
}

# Jobs that nobody can give anything: they wait, as they are.
for my $jobs (0, $opt->{jobs}) {
	my (@ms, @cpu);
	tool('api', "--kubeconfig=$sim->{kubeconfig}", job_requests(map { job("bench-$_", ipus => 64, workers => 1, pod => { nodeSelector => { no => 'node' } }) } 1 .. $jobs)) if $jobs;
	measure(\@ms, \@cpu) for 1 .. $opt->{runs};
	figure("start to the first reconcile, $jobs jobs", 'ms', \@ms, bar => $jobs ? '<= 1000' : '<= 50', id => "start-$jobs");
	figure("CPU until then, $jobs jobs", 'ms', \@cpu, id => "start-cpu-$jobs");
}
if ($opt->{kubeconfig}) {
	my $daemon = start_operator($sim, beside => 1);
	delete_all($sim, 'ipujobs');
	$daemon->stop(status => 0);
}
finish($sim);
