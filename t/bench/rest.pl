#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many requests a second the proxy's open port answers on one core: wrk against ipu-operator on
# ipu-sim, with many partitions, /stats and /query. Not part of make check; from the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/rest.pl [--partitions=1000] [--controllers=16] [--connections=64]
#         [--seconds=5] [--runs=5]
#
# needs wrk, curl, openssl and two processors: the operator is on the first, wrk on the second, and the
# simulator, idle by then, wherever there is room. Prints each run, the median and the spread, and
# requests for each second of the operator's processor time, which a busy machine falsifies less.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Getopt::Long qw(GetOptions);
use IpuTest;
use Test::More;

my %opt = (partitions => 1000, controllers => 16, connections => 64, seconds => 5, runs => 5);
GetOptions(\%opt, map { "$_=i" } keys %opt) or die "see the beginning of $0\n";
watchdog(120 + 4 * $opt{runs} * ($opt{seconds} + 5));

my %tool = map { $_ => program_or_skip($_) } qw(wrk curl openssl taskset);
my $dir = test_dir();

sub must (@argv) {
	my $done = run([@argv], seconds => 60 + $opt{seconds});
	$done->{status} == 0 or die "@argv: $done->{err}\n";
	return $done->{out};
}

must($tool{openssl}, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost
	-addext subjectAltName=DNS:localhost -keyout), "$dir/key.pem", '-out', "$dir/cert.pem");
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", "--controllers=$opt{controllers}", '--create-ms=20']);
my $controllers = join ',', map { '127.0.0.1:' . $sim->port("vipu$_") } 0 .. $opt{controllers} - 1;
my $daemon = start('ipu-operator', path => $tool{taskset}, args => [qw(-c 0), program('ipu-operator'), '--roles', 'proxy',
	'--kubeconfig', "$dir/sim/kubeconfig", (map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.tlsListen=127.0.0.1:0', "controllers=$controllers",
	"proxy.tlsCertFile=$dir/cert.pem", "proxy.tlsKeyFile=$dir/key.pem"]);
wait_until('the operator', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });

# ---- partitions, asked for by the controller's account ----

my $admin = slurp("$dir/sim/token");
my $account = 'ipu-operator-controller-manager';

sub api ($path, $json) {
	my $answer = http('POST', $sim->url('api-plain', $path), json => $json, headers => { authorization => "Bearer $admin" });
	return $answer->{json};
}

api('/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'ipu-operator' } });
my $accounts = '/api/v1/namespaces/ipu-operator/serviceaccounts';
api($accounts, { apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $account } });
my $token = api("$accounts/$account/token", { apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest',
	spec => { audiences => ['ipu-operator-proxy'] } })->{status}{token};
my $config = '';
for my $i (1 .. $opt{partitions}) {
	my $body = json_encode({ owner => { kind => 'IPUJob', namespace => 'team-' . $i % 20, name => "job-$i", uid => "uid-$i" },
		instance => 0, ipus => 1 }) =~ s/"/\\"/gr;
	$config .= "next\n" if $i > 1;
	$config .= sprintf qq{url = "https://localhost:%d/v1/partitions"\ndata = "%s"\ncacert = "%s"\nsilent\nshow-error\nfail\n}
		. qq{output = "/dev/null"\nheader = "Authorization: Bearer %s"\nheader = "Content-Type: application/json"\n},
		$daemon->port('proxy-tls'), $body, "$dir/cert.pem", $token;
}
must($tool{curl}, '--config', spit("$dir/asks", $config));
wait_until('the partitions', sub {
	my $items = http('GET', $daemon->url('proxy', '/partitions'))->{json}{items};
	return $opt{partitions} == grep { $_->{state} eq 'active' } @$items;
});

# ---- wrk ----

sub cpu_ticks { return eval { my @f = split / /, slurp('/proc/' . $daemon->pid . '/stat') =~ s/^.*\) //sr; $f[11] + $f[12] } }

sub measure ($path, @more) {
	my $before = cpu_ticks();
	my $out = must($tool{taskset}, qw(-c 1), $tool{wrk}, '-t1', "-c$opt{connections}", "-d$opt{seconds}", @more,
		$daemon->url('proxy', $path));
	my $ticks = cpu_ticks() - $before;
	die "$path: $out\n" if $out =~ /Non-2xx|Socket errors/;
	my ($requests) = $out =~ /^\s*(\d+) requests in/m;
	my ($rate) = $out =~ m{^Requests/sec:\s+([\d.]+)}m;
	return ($rate, $requests * 100 / ($ticks || 1));
}

my $script = spit("$dir/query.lua", qq{wrk.method = "POST"\nwrk.body = '{"size":2}'\nwrk.headers["Content-Type"] = "application/json"\n});
my %runs;
for my $run (1 .. $opt{runs}) {
	for my $case ([ '/stats' ], [ '/query', '-s', $script ]) {
		my ($path, @more) = @$case;
		my ($rate, $per_cpu) = measure($path, @more);
		printf "%-7s run %d: %7.0f requests/s, %7.0f for each second of its processor\n", $path, $run, $rate, $per_cpu;
		push @{ $runs{$path}{wall} }, $rate;
		push @{ $runs{$path}{processor} }, $per_cpu;
	}
}
for my $path (sort keys %runs) {
	for my $kind (qw(wall processor)) {
		my @sorted = sort { $a <=> $b } @{ $runs{$path}{$kind} };
		printf "%-7s %-9s: median %7.0f, from %7.0f to %7.0f\n", $path, $kind, $sorted[ $#sorted / 2 ], @sorted[ 0, -1 ];
	}
}
$daemon->stop(status => 0);
$sim->stop(status => 0);
done_testing();
