#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What readers of the live page cost ipu-operator: processor time and memory with 500 of them while
# partitions come and go, ten changes a second, against the same without any. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/viewers.pl [--viewers=500] [--partitions=100] [--rate=10] [--seconds=10]
#         [--runs=3] [--page=usage] [--held=0] [--settle=2] [--json=FILE] [--kubeconfig=FILE]
#
# With --held the operator runs jobs, too, and so many are suspended there.
#
# needs curl 7.84 and openssl. A change is an ask of one IPU, or the release of one; both become several
# changes of a partition's state. Prints for each run what the operator used of one processor and how much it grew.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(cpu_s delete_all figure finish job_requests note options partition_request partitions resident_kb start_proxy start_sim tool);
use EventStream;
use IO::Select ();
use IpuTest qw(http program_or_skip spit start test_dir wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $opt = options(900, viewers => 500, partitions => 100, rate => 10, seconds => 10, runs => 3, page => 'usage', settle => 2, held => 0);
my $sim = start_sim(controllers => 4, create_ms => 20, remove_ms => 20);
suspended_jobs($opt->{held});
my $proxy = start_proxy($sim, beside => 1, roles => $opt->{held} ? 'controller,proxy' : 'proxy', set => { 'proxy.page' => $opt->{page} });
my $daemon = $proxy->{daemon};
my $dir = test_dir();
$proxy->{kind} = 'Workload' if $opt->{held}; # a job that isn't there would have its partition taken away
wait_until('what is held', sub { (http('GET', $daemon->url('proxy', '/live'))->{json}{total}{held} // 0) == $opt->{held} }, seconds => 120) if $opt->{held};

# ---- what is held ----

sub suspended_jobs ($count) {
	tool('api', "--kubeconfig=$sim->{kubeconfig}", job_requests(map { +{ apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => "held-$_" },
		spec => { suspend => JSON::PP::true, jobInstances => 1, ipusPerJobInstance => '4',
			workers => { template => { spec => { containers => [ { name => 'c', image => 'x' } ] } } } } } } 1 .. $count)) if $count;
	return;
}

# ---- changes ----

partitions($proxy, 1 .. $opt->{partitions});

my $made = $opt->{partitions};

# Ten a second: the oldest is released, another one is asked for.
sub change ($seconds) {
	my @requests;
	for (1 .. $seconds * $opt->{rate} / 2) {
		$made++;
		push @requests, map { partition_request($proxy, @$_) } [ POST => $made ], [ DELETE => $made - $opt->{partitions} ];
	}
	return start('curl', path => program_or_skip('curl'), ports => 0,
		args => ['--rate', $opt->{rate} * 60 . '/m', '--config', spit("$dir/changes", join "next\n", @requests)]);
}

# ---- measuring ----

# Reads what comes, as fast as it comes.
sub read_all ($viewers, $seconds) {
	my ($end, $bytes) = (time() + $seconds, 0);
	my $select = IO::Select->new(map { $_->{socket} } @$viewers);
	while ((my $left = $end - time()) > 0) {
		if (!@$viewers) { sleep($left); next }
		for my $socket ($select->can_read($left)) {
			my $n = sysread($socket, my $text, 1 << 16);
			die "a viewer was let go\n" if !$n;
			$bytes += $n;
		}
	}
	return $bytes;
}

# The operator's share of a processor, in per cent, over the seconds.
sub measure ($viewers) {
	my $curl = change($opt->{seconds} + 2 * $opt->{settle});
	read_all($viewers, $opt->{settle});
	my ($before, $began) = (cpu_s($daemon->pid), time());
	my $bytes = read_all($viewers, $opt->{seconds});
	my $share = 100 * (cpu_s($daemon->pid) - $before) / (time() - $began);
	read_all($viewers, $opt->{settle});
	wait_until('curl', sub { read_all($viewers, 0.1); !$curl->is_alive }, while_alive => [$daemon]);
	$curl->stop(status => 0);
	return ($share, $bytes);
}

my (@alone, @viewed, @grown);
for my $run (1 .. $opt->{runs}) {
	my ($alone) = measure([]);
	my $before = resident_kb($daemon->pid);
	my @viewers = map { EventStream->new($daemon->port('proxy'), { 'User-Agent' => 'x' x 120, 'Accept-Language' => 'y' x 40,
		'Accept-Encoding' => 'gzip, deflate, br, zstd', Accept => 'text/event-stream', Referer => 'http://localhost:8080/' }) } 1 .. $opt->{viewers};
	read_all(\@viewers, $opt->{settle});
	my $joined = resident_kb($daemon->pid);
	my ($viewed, $bytes) = measure(\@viewers);
	my $after = resident_kb($daemon->pid);
	note(sprintf 'run %d: %.1f MB read in %d s; %d kB before, %d kB with them, %d kB after', $run, $bytes / 1e6, $opt->{seconds}, $before, $joined, $after);
	push @alone, $alone;
	push @viewed, $viewed;
	push @grown, ($after > $joined ? $after : $joined) - $before;
	$_->close for @viewers;
	wait_until('them to leave', sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_page_viewers 0$/m });
}
figure("the live page, $opt->{rate} changes a second, no viewers", '% of a core', \@alone, id => 'viewers-alone');
figure("… more for $opt->{viewers} viewers", '% of a core', [ map { $viewed[$_] - $alone[$_] } 0 .. $#alone ], bar => '<= 5', id => "viewers-cpu-$opt->{viewers}", series => 'viewers: CPU', n => $opt->{viewers});
figure("… memory for the first $opt->{viewers} viewers", 'MB', [ $grown[0] / 1000 ], bar => '<= 4', id => "viewers-memory-$opt->{viewers}", series => 'viewers: memory', n => $opt->{viewers});
delete_all($sim, 'ipujobs') if $opt->{held};
finish($daemon, $sim);
