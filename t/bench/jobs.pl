#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A hundred jobs of eight workers: how soon the operator has made all their Pods, beside a bare program that only sends the same
# creates; what both need of a processor; and how soon the status of all is right once their Pods are Running.
# From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/jobs.pl [--jobs=100] [--workers=8] [--connections=8] [--runs=3] [--json=FILE] [--kubeconfig=FILE]
#
# on ipu-sim, or on the API server of a kubeconfig, whose user may do everything; there the CustomResourceDefinition is installed, and
# in the namespace default nothing else works with jobs. Pods aren't started: their scheduler is nobody.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s delete_all figure finish job job_requests kubectl note options resident_kb running_patches start_operator
	start_sim tool_end tool_path write_requests);
use IpuTest qw(json_decode start wait_until);
use Test::More;

my $opt = options(1200, jobs => 100, workers => 8, connections => 8);
my $pods = $opt->{jobs} * $opt->{workers};
my $never_ms = 86_400_000;
my $controllers = 1 + int($pods / 64 / 0.75);
my $sim = start_sim(controllers => $controllers, agents => 16, create_ms => 1, remove_ms => 1, pod_schedule_ms => $never_ms, pod_run_ms => 0);

# What the operator holds in the roles that it has here (doc/design/bench.md).
my $job_label = 'graphcore.ai/job';
my @watches = map { "--watch=$_" } 'ipujobs', "pods,$job_label", "configmaps,$job_label", 'pods,graphcore.ai/pod', 'configmaps,graphcore.ai/pod',
	qw(configmaps namespaces priorityclasses nodes), 'configmaps', 'secrets';

# A bar that is meant for a real API server: ipu-sim answers a create in a tenth of the time, so what the operator does besides weighs more.
sub real (%bar) { return $opt->{kubeconfig} ? %bar : () }

sub api ($name, @args) {
	my $program = start("bench-api-$name", path => tool_path('api'), ports => 0, args => [ "--kubeconfig=$sim->{kubeconfig}", @args ]);
	wait_until('its watches', sub { ($program->out // '') =~ /begins/ });
	return $program;
}

sub objects ($kind) { return @{ json_decode(kubectl($sim, 'get', $kind, '-o', 'json'))->{items} } }

# What a create of that object was, but for its owner, who has gone by then.
sub as_sent ($object) {
	my %sent = %$object;
	delete $sent{status};
	$sent{metadata} = { map { $_ => $object->{metadata}{$_} } grep { exists $object->{metadata}{$_} } qw(name namespace labels annotations finalizers) };
	$sent{spec} = { %{ $sent{spec} } } if $sent{spec};
	delete $sent{spec}{nodeName} if $sent{spec};
	return \%sent;
}

my (%made, %spent, @right, @peak, @creates);
for my $run (1 .. $opt->{runs}) {
	my $jobs = job_requests(map { job("bench-$run-$_", ipus => $opt->{workers}, workers => $opt->{workers}) } 1 .. $opt->{jobs});
	tool_end(api('jobs', $jobs));
	my $eyes = api('eyes', "--until=pods,$job_label:$pods");
	my $begin = Time::HiRes::time();
	my $daemon = start_operator($sim, beside => 1, roles => 'controller,proxy');
	push @{ $made{operator} }, tool_end($eyes)->{seen_at} - $begin;
	push @{ $spent{operator} }, cpu_s($daemon->pid);
	push @peak, resident_kb($daemon->pid) / 1000;
	my @pods = objects('pods');
	my @events = grep { ($_->{source}{component} // '') eq 'ipu-operator' } objects('events');
	my $patches = running_patches(map { $_->{metadata}{name} } @pods);
	my $said = tool_end(api('patches', "--until=ipujobs:status.launcherStatus=Running:$opt->{jobs}", $patches));
	push @right, $said->{seen_at} > $said->{last_at} ? $said->{seen_at} - $said->{last_at} : 0;

	delete_all($sim, 'ipujobs');
	$daemon->stop(status => 0);
	delete_all($sim, $_) for qw(pods events);
	@creates = map { [ POST => "/api/v1/namespaces/default/$_->[0]", as_sent($_->[1]) ] } map({ [ pods => $_ ] } @pods), map { [ events => $_ ] } @events;
	my $file = write_requests('creates', @creates);
	$eyes = api('eyes', "--until=pods,$job_label:$pods");
	$begin = Time::HiRes::time();
	$said = tool_end(api('bare', @watches, "--connections=$opt->{connections}", $file));
	push @{ $made{bare} }, tool_end($eyes)->{seen_at} - $begin;
	push @{ $spent{bare} }, $said->{cpu};
	delete_all($sim, $_) for qw(pods events);
}
my $what = "$opt->{jobs} jobs x $opt->{workers}";
note(sprintf '%d creates, %d of them Pods, over %d connections; %s', scalar @creates, $pods, $opt->{connections}, $opt->{kubeconfig} || 'ipu-sim');
figure("$what: all Pods made, from the start", 's', $made{operator}, id => 'jobs-made');
figure("$what: the bare program", 's', $made{bare}, id => 'bare-made');
figure("$what: operator / bare program, time", 'times', [ map { $made{operator}[$_] / $made{bare}[$_] } 0 .. $#right ], real(bar => '<= 1.3'), id => 'jobs-made-ratio');
figure("$what: CPU of the operator", 's', $spent{operator}, id => 'jobs-cpu');
figure("$what: CPU of the bare program with the same watches", 's', $spent{bare}, id => 'bare-cpu');
figure("$what: operator / bare program, CPU", 'times', [ map { $spent{operator}[$_] / $spent{bare}[$_] } 0 .. $#right ], real(bar => '<= 1.5'), id => 'jobs-cpu-ratio');
figure("$what: memory with all Pods made", 'MB', \@peak, id => 'jobs-memory');
figure("$pods Pods patched to Running: all statuses right after the last", 's', \@right, bar => '<= 0.2', id => 'jobs-statuses');
finish($sim);
