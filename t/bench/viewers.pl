#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What readers of the live page cost ipu-operator: processor time and memory with 500 of them while
# partitions come and go, ten changes a second, against the same without any. Not part of make check; from the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/viewers.pl [--viewers=500] [--partitions=100] [--rate=10] [--seconds=20]
#         [--runs=3] [--page=usage]
#
# needs curl 7.84 and openssl. A change is an ask of one IPU, or the release of one; both become several
# changes of a partition's state. Prints for each run what the operator used of one processor and how much it grew.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use EventStream;
use Getopt::Long qw(GetOptions);
use IO::Select ();
use IpuTest;
use Test::More;
use Time::HiRes qw(sleep time);

my %opt = (viewers => 500, partitions => 100, rate => 10, seconds => 20, runs => 3, page => 'usage');
GetOptions(\%opt, 'page=s', map { "$_=i" } grep { $_ ne 'page' } keys %opt) or die "see the beginning of $0\n";
watchdog(180 + 3 * $opt{runs} * ($opt{seconds} + 15));

my %tool = map { $_ => program_or_skip($_) } qw(curl openssl);
my $dir = test_dir();

sub must (@argv) {
	my $done = run([@argv], seconds => 60 + 2 * $opt{seconds});
	$done->{status} == 0 or die "@argv: $done->{err}\n";
	return $done->{out};
}

must($tool{openssl}, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost
	-addext subjectAltName=DNS:localhost -keyout), "$dir/key.pem", '-out', "$dir/cert.pem");
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--controllers=4', '--create-ms=20', '--remove-ms=20']);
my $controllers = join ',', map { '127.0.0.1:' . $sim->port("vipu$_") } 0 .. 3;
my $daemon = start('ipu-operator', args => ['--roles', 'proxy', '--kubeconfig', "$dir/sim/kubeconfig",
	(map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', "controllers=$controllers", "proxy.page=$opt{page}",
	"proxy.tlsCertFile=$dir/cert.pem", "proxy.tlsKeyFile=$dir/key.pem"]);
wait_until('the operator', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });

my $admin = slurp("$dir/sim/token");
my $account = 'ipu-operator-controller-manager';

sub api ($path, $json) {
	return http('POST', $sim->url('api-plain', $path), json => $json, headers => { authorization => "Bearer $admin" })->{json};
}

my $accounts = '/api/v1/namespaces/ipu-operator/serviceaccounts';
api($accounts, { apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $account } });
my $token = api("$accounts/$account/token", { apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest',
	spec => { audiences => ['ipu-operator-proxy'] } })->{status}{token};

# ---- changes ----

# One request of curl's configuration.
sub request ($method, $i) {
	my $url = 'https://localhost:' . $daemon->port('proxy-tls') . '/v1/partitions' . ($method eq 'DELETE' ? "/uid-$i" : '');
	my $text = qq{url = "$url"\nrequest = "$method"\ncacert = "$dir/cert.pem"\nsilent\nshow-error\nfail\noutput = "/dev/null"\n}
		. qq{header = "Authorization: Bearer $token"\nheader = "Content-Type: application/json"\n};
	return $text if $method eq 'DELETE';
	my $body = json_encode({ owner => { kind => 'IPUJob', namespace => 'team-' . $i % 20, name => "job-$i", uid => "uid-$i" },
		instance => 0, ipus => 1 }) =~ s/"/\\"/gr;
	return $text . qq{data = "$body"\n};
}

sub asks ($name, @requests) { return spit("$dir/$name", join "next\n", @requests) }

sub active { return scalar grep { $_->{state} eq 'active' } @{ http('GET', $daemon->url('proxy', '/partitions'))->{json}{items} } }

must($tool{curl}, '--config', asks('first', map { request('POST', $_) } 1 .. $opt{partitions}));
wait_until('the partitions', sub { active() == $opt{partitions} });

my $made = $opt{partitions};

# Ten a second: the oldest is released, another one is asked for.
sub change ($seconds) {
	my @requests;
	for (1 .. $seconds * $opt{rate} / 2) {
		$made++;
		push @requests, request('POST', $made), request('DELETE', $made - $opt{partitions});
	}
	return start('curl', path => $tool{curl}, ports => 0,
		args => ['--rate', $opt{rate} * 60 . '/m', '--config', asks('changes', @requests)]);
}

# ---- measuring ----

sub ticks { my @f = split / /, slurp('/proc/' . $daemon->pid . '/stat') =~ s/^.*\) //sr; return $f[11] + $f[12] }
sub resident { my ($kb) = slurp('/proc/' . $daemon->pid . '/smaps_rollup') =~ /^Rss:\s+(\d+) kB/m; return $kb }

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
	my $curl = change($opt{seconds} + 4);
	read_all($viewers, 2);
	my ($before, $began) = (ticks(), time());
	my $bytes = read_all($viewers, $opt{seconds});
	my $share = (ticks() - $before) / (time() - $began);
	read_all($viewers, 2);
	wait_until('curl', sub { read_all($viewers, 0.1); !$curl->is_alive }, while_alive => [$daemon]);
	$curl->stop(status => 0);
	return ($share, $bytes);
}

my (@alone, @viewed, @grown);
for my $run (1 .. $opt{runs}) {
	my ($alone) = measure([]);
	my $before = resident();
	my @viewers = map { EventStream->new($daemon->port('proxy'), { 'User-Agent' => 'x' x 120, 'Accept-Language' => 'y' x 40,
		'Accept-Encoding' => 'gzip, deflate, br, zstd', Accept => 'text/event-stream', Referer => 'http://localhost:8080/' }) } 1 .. $opt{viewers};
	read_all(\@viewers, 2);
	my $joined = resident();
	my ($viewed, $bytes) = measure(\@viewers);
	my $after = resident();
	printf "run %d: %4.1f %% alone, %4.1f %% with %d viewers, who read %.1f MB in %d s; %d kB before, %d kB with them, %d kB after\n",
		$run, $alone, $viewed, $opt{viewers}, $bytes / 1e6, $opt{seconds}, $before, $joined, $after;
	push @alone, $alone;
	push @viewed, $viewed;
	push @grown, ($after > $joined ? $after : $joined) - $before;
	$_->close for @viewers;
	wait_until('them to leave', sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_page_viewers 0$/m });
}
for my $case ([ 'alone, %', @alone ], [ 'viewed, %', @viewed ], [ 'more, %', map { $viewed[$_] - $alone[$_] } 0 .. $#alone ], [ 'grown, kB', @grown ]) {
	my ($name, @all) = @$case;
	my @sorted = sort { $a <=> $b } @all;
	printf "%-10s median %7.1f, from %7.1f to %7.1f\n", $name, $sorted[ $#sorted / 2 ], @sorted[ 0, -1 ];
}
$daemon->stop(status => 0);
$sim->stop(status => 0);
done_testing();
