#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The operator's resident memory: idle, with 5,000 Pods and 1,000 ConfigMaps that have nothing to do with it, and with jobs that run,
# 10, 100, 1,000 and 10,000 of them with two workers each; and what a job more costs in memory and processor time. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/memory.pl [--jobs=10,100,1000,10000] [--pods=5000] [--maps=1000] [--json=FILE] [--kubeconfig=FILE]
#
# on ipu-sim, whose Pods run at once, or on the API server of a kubeconfig: there each job's Pods are Running once those of all jobs are
# there, by patches, so that what is said of time has the wait for that in it, and at each step's end all IPUJobs, Pods and Events of the
# namespace default are deleted. All roles but node are in one process, connected; each job is as `kubectl apply` and an API server leave it
# (managedFields, last-applied), and has its partition. It takes about a minute.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s delete_all figure finish job job_requests names options resident_kb running_patches start_operator start_sim tool tool_end
	tool_path wait_ready write_requests);
use IpuTest qw(http start wait_until);
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);

my $opt = options(900, jobs => '10,100,1000,10000', pods => 5000, maps => 1000, runs => 1);
my $workers = 2;
my @steps = split /,/, $opt->{jobs};
my $split = min(5000, $steps[-1]); # jobs, of which one Pod and one job are told apart
my $crowd = 4;                     # … by as many workers as this, and by one
my $most = max($steps[-1] * $workers, $split * $crowd);
my $controllers = 1 + int($most / 1000);
my %sim_opt = (nodes => min(200, 1 + int($most / 100)), pod_schedule_ms => 0, pod_start_ms => 0, pod_run_ms => 0, create_ms => 1, remove_ms => 1, agents => 256);
my ($sim, $daemon);

# Of resident memory, what it settles at: the same twice in a row.
sub settled () {
	my ($last, $same) = (0, 0);
	return wait_until('its memory to settle', sub {
		my $now = resident_kb($daemon->pid);
		$same = $now == $last ? $same + 1 : 0;
		$last = $now;
		return $same == 10 && $now;
	}, seconds => 60) / 1000;
}

sub begin (%more) {
	$sim = start_sim(%sim_opt, %more);
	run_operator();
	return settled();
}

sub run_operator () {
	$daemon = start_operator($sim, beside => 1, roles => 'controller,proxy,webhook', set => { 'webhook.dryRunPods' => 'false' });
	wait_ready($daemon);
	wait_until('all controllers', sub { http('GET', $daemon->url('proxy', '/stats'))->{json}{total}{available} });
	return;
}

sub end () {
	if ($opt->{kubeconfig}) {
		delete_all($sim, $_) for qw(ipujobs pods events);
		delete_all($sim, 'configmaps', 'app=other');
	}
	$_->stop(status => 0) for $daemon, $sim;
	return;
}

# Ends when so many objects are as that says; what it sends meanwhile.
sub api ($until, @requests) {
	return start('bench-api', path => tool_path('api'), ports => 0, args => [ "--kubeconfig=$sim->{kubeconfig}", '--connections=4', "--until=$until", @requests ]);
}

sub container () { return { name => 'main', image => 'registry.example/other:1', env => [ map { { name => "SETTING_$_", value => "value $_" } } 1 .. 8 ] } }

# ---- what has nothing to do with it ----

my (@idle, @unrelated);
for my $run (1 .. $opt->{runs}) {
	my $idle = begin();
	push @idle, $idle;
	tool('api', "--kubeconfig=$sim->{kubeconfig}", write_requests('unrelated',
		map({ [ POST => '/api/v1/namespaces/default/pods', { apiVersion => 'v1', kind => 'Pod', metadata => { name => "other-$_", labels => { app => 'other' } },
			spec => { schedulerName => 'nobody', containers => [ container() ] } } ] } 1 .. $opt->{pods}),
		map { [ POST => '/api/v1/namespaces/default/configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => "other-$_", labels => { app => 'other' } },
			data => { settings => 'x' x 2000 } } ] } 1 .. $opt->{maps}));
	push @unrelated, settled() - $idle;
	end();
}
figure('resident memory, idle, all roles, connected', 'MB', \@idle, bar => '<= 8', id => 'memory-idle');
figure("growth by $opt->{pods} unrelated Pods and $opt->{maps} ConfigMaps", 'MB', \@unrelated, bar => '< 1', id => 'memory-unrelated');

# ---- jobs ----

# Until all of them run, in seconds.
sub run_jobs ($jobs, $workers, $ipus) {
	my $pods = $jobs * $workers;
	my $file = job_requests(map { job("training-$_", ipus => $ipus, workers => $workers, kept => 1) } 1 .. $jobs);
	my $begin = time;
	my @running = ("ipujobs:status.launcherStatus=Running:$jobs", $file);
	if ($opt->{kubeconfig}) {
		tool_end(api("pods,graphcore.ai/job:$pods", $file));
		$running[1] = running_patches(names($sim, 'pods'));
	}
	return tool_end(api(@running))->{seen_at} - $begin;
}

# The memory of a process that finds them there, in MB.
sub found ($jobs) {
	$daemon->stop(status => 0);
	run_operator();
	wait_until('it to know all', sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_jobs\{state="Running"\} $jobs$/m });
	return settled();
}

# What an idle one has is taken off: the least that was seen, since what lists leave free at a start differs by megabytes, and jobs then use it.
my $idle;
for my $jobs (@steps) {
	my $now = begin(controllers => $controllers);
	$idle = min($now, $idle // $now);
	my $cpu = cpu_s($daemon->pid);
	my $pods = $jobs * $workers;
	my $took = run_jobs($jobs, $workers, $workers);
	$cpu = cpu_s($daemon->pid) - $cpu;
	my $all = settled();
	my $is_last = $jobs == 10_000;
	figure("memory with $jobs jobs and $pods Pods, all Running", 'MB', [$all], $is_last ? (bar => '<= 60') : (), id => "memory-$jobs", series => 'jobs: memory', n => $jobs, without => $idle);
	figure('… and of one that finds them there', 'MB', [ found($jobs) ], $is_last ? (bar => '<= 60') : (), id => "memory-found-$jobs");
	figure("… for a job and its $workers Pods", 'bytes', [ ($all - $idle) * 1e6 / $jobs ], id => "memory-job-$jobs") if $jobs >= 100;
	figure("… CPU of the operator for each, until they run", 'ms', [ 1000 * $cpu / $jobs ], id => "cpu-job-$jobs", series => 'jobs: CPU for each', n => $jobs, growth => 'each');
	figure('… time for each', 'ms', [ 1000 * $took / $jobs ], id => "time-job-$jobs", series => 'jobs: time for each', n => $jobs, growth => 'each');
	end();
}

# A Pod more, by jobs with more of them and the same partition; what is left of such a job is its own.
my %with;
for my $n (1, $crowd) {
	begin(controllers => $controllers);
	run_jobs($split, $n, $crowd);
	$with{$n} = found($split);
	end();
}
my $pod = ($with{$crowd} - $with{1}) / ($crowd - 1);
figure("memory for a Pod, by $split jobs of $crowd and of 1", 'bytes', [ $pod * 1e6 / $split ], id => 'memory-of-a-Pod');
figure('… and for a job with its partition', 'bytes', [ ($with{1} - $idle - $pod) * 1e6 / $split ], id => 'memory-of-a-job');
finish();
