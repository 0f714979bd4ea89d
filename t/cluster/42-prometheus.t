#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A real Prometheus, as Debian has it: it scrapes the operator over TLS with a ServiceAccount's token,
# loads the chart's alerting rules, and answers all that the chart's dashboard asks; promtool accepts the
# metrics and the rules, and runs the rules' unit tests. The API server is ipu-sim's.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use IpuTest;
use IpuTree qw(top_srcdir file_text);
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(300);
my $made = run([ "$FindBin::Bin/prometheus" ], seconds => 200);
if ($made->{status} == 77 && !$ENV{IPU_REQUIRE_CLUSTER}) {
	my ($why) = $made->{err} =~ /([^\n]*)\n*\z/;
	plan(skip_all => $why);
}
die "t/cluster/prometheus: $made->{err}" if $made->{status};
chomp(my $tools = $made->{out});
my $rules = top_srcdir() . '/helm/ipu-operator/files/rules.yaml';

sub promtool_accepts ($what, @args) {
	my $answer = run([ "$tools/promtool", @args ], seconds => 60);
	return is($answer->{status}, 0, $what) || diag("$answer->{out}$answer->{err}");
}

promtool_accepts('promtool accepts the rules', 'check', 'rules', $rules);
promtool_accepts('each alert fires when it should', 'test', 'rules', top_srcdir() . '/t/prometheus/rules-test.yaml');

my $dir = test_dir();
my $sim = start('ipu-sim', args => [ '--dir', "$dir/sim", '--agents=4', '--pod-run-ms=0' ]);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		map { (json => $_) } @json)->{json};
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $_ } })
	for qw(ipu-operator monitoring);
api('POST', '/api/v1/namespaces/monitoring/serviceaccounts',
	{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => 'prometheus' } });
spit("$dir/token", api('POST', '/api/v1/namespaces/monitoring/serviceaccounts/prometheus/token',
	{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => {} })->{status}{token});

my $daemon = start('ipu-operator', args => [ '--kubeconfig', "$dir/sim/kubeconfig", '--roles=controller,proxy,webhook',
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'metrics.secure=true', 'vipu.idleRefreshSeconds=1',
	'controllers=127.0.0.1:' . $sim->port('vipu0'), map { "$_=127.0.0.1:0" }
	qw(proxy.listen proxy.tlsListen webhook.listen health.listen metrics.listen) ]);
spit("$dir/ca.pem", decode_base64(
	api('GET', '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates')->{data}{'ca.crt'}));
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
my $named = 'ipu-operator-controller-manager-metrics.ipu-operator.svc';

sub make_job ($name, $ipus) {
	return api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { jobInstances => 1, ipusPerJobInstance => "$ipus",
			workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
}

make_job('runs', 16);
wait_until('a job runs', sub { (api('GET', "$jobs/runs")->{status}{launcherStatus} // '') eq 'Running' });
make_job('waits', 8);

subtest 'promtool accepts the metrics' => sub {
	my $scraped = run([ 'curl', qw(-sS --max-time 20 --noproxy *), '--cacert', "$dir/ca.pem", '--connect-to',
		"$named:443:127.0.0.1:" . $daemon->port('metrics'), '-H', 'Authorization: Bearer ' . slurp("$dir/token"),
		"https://$named/metrics" ]);
	like($scraped->{out}, qr/^ipu_operator_ipu_seconds_total\{/m, 'there are metrics') or diag($scraped->{err});
	my $checked = run([ "$tools/promtool", 'check', 'metrics' ], stdin => $scraped->{out}, seconds => 60);
	is($checked->{status}, 0, 'it finds no fault') or diag("$checked->{out}$checked->{err}");
};

# The page's blocks as they are, which promtool accepts; then the first of them with what Kubernetes' discovery (role endpoints) comes
# to: the Service's port, and beside it each other port of the Pods behind it, with the Service's name too.
my @blocks = file_text('doc/metrics.md') =~ /^```yaml\n(scrape_configs:.*?)^```/gms;
is(scalar @blocks, 2, 'the page has scrapes without the Prometheus operator');
for my $n (0 .. $#blocks) {
	my %file = map { $_ => $_ =~ s{.*/}{$dir/page-}r } $blocks[$n] =~ m!_file: (/[^\s,}]+)!g;
	spit($_, slurp("$dir/ca.pem")) for values %file;
	my $text = $blocks[$n] =~ s!_file: \K(/[^\s,}]+)!$file{$1}!gr;
	promtool_accepts("promtool accepts the page's block $n", 'check', 'config', spit("$dir/page-$n.yml", $text));
}
my %meta = (service_name => 'ipu-operator-controller-manager-metrics', endpoint_port_name => 'https');
my @found = ([ $daemon->port('metrics'), %meta ], (map { [ $daemon->port($_), service_name => $meta{service_name} ] } qw(health webhook proxy)),
	[ $daemon->port('webhook'), %meta, service_name => 'ipu-operator-webhook-svc' ]);
my $targets = json_encode([ map {
	my ($port, %labels) = @$_;
	{ targets => ["127.0.0.1:$port"], labels => { map { ("__meta_kubernetes_$_" => $labels{$_}) } keys %labels } };
} @found ]);
my $scrape = $blocks[0] =~ s/^    kubernetes_sd_configs: .*/    static_configs: $targets/mr =~ s{/var/run/\S+/token}{$dir/token}r
	=~ s{ca_file: \K\S+}{$dir/ca.pem}r;
spit("$dir/prometheus.yml", <<"END");
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ['$rules']
$scrape
END
promtool_accepts('promtool accepts the configuration', 'check', 'config', "$dir/prometheus.yml");
my $prometheus = start('prometheus', path => "$tools/prometheus", ports => 0, args => [
	"--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/tsdb", '--web.listen-address=127.0.0.1:0' ]);
$prometheus->{ports}{web} = wait_until('Prometheus to listen', sub {
	($prometheus->err // '') =~ /Listening on" address=127\.0\.0\.1:(\d+)/ ? $1 : 0;
}, seconds => 60);

sub ask ($path) { return http('GET', $prometheus->url(web => $path))->{json} // {} }

sub query ($expr) {
	my $answer = ask('/api/v1/query?query=' . $expr =~ s/([^A-Za-z0-9_])/sprintf('%%%02X', ord $1)/ger);
	return $answer->{status} && $answer->{status} eq 'success' ? $answer->{data}{result} : undef;
}

sub value ($expr) { return ((query($expr) // [])->[0]{value} // [])->[1] }

subtest 'it scrapes' => sub {
	my $all;
	my $targets = wait_until('the target is up', sub {
		$all = ask('/api/v1/targets')->{data};
		my $active = $all->{activeTargets} // [];
		@$active && !(grep { $_->{health} eq 'unknown' } @$active) ? $active : undef;
	}, seconds => 60);
	is(join(' ', map { "$_->{scrapeUrl} $_->{health}" } @$targets), "https://127.0.0.1:@{[ $daemon->port('metrics') ]}/metrics up",
		'the page\'s block finds the metrics, and nothing else') or diag(map { "$_->{lastError}\n" } @$targets);
	is(scalar @{ $all->{droppedTargets} }, $#found, '... of all ports');
	wait_until('what waits is told', sub { (value('ipu_operator_partitions_waiting') // '') eq '1' });
	is(value('sum(ipu_operator_ipus{state="used"})'), 16, 'IPUs in use');
	is(value('ipu_operator_ipus_held{namespace="default"}'), 16, '... by namespace');
	is(value('ipu_operator_leader'), 1, 'who leads');
	is(value('ipu_operator_job_running_seconds_count'), 1, 'a histogram');
	my $first = value('ipu_operator_ipu_seconds_total');
	wait_until('IPU-seconds grow', sub { value('ipu_operator_ipu_seconds_total') > $first });
};

subtest 'the rules are evaluated' => sub {
	my @all;
	wait_until('each has been', sub {
		@all = map { @{ $_->{rules} } } @{ ask('/api/v1/rules')->{data}{groups} // [] };
		@all && !grep { $_->{health} eq 'unknown' } @all;
	}, seconds => 60);
	cmp_ok(scalar @all, '>=', 15, 'alerts') or return;
	is_deeply([ map { "$_->{name}: $_->{lastError}" } grep { $_->{health} ne 'ok' } @all ], [], 'none is in error');
	is_deeply([ map { $_->{name} } grep { $_->{state} eq 'firing' } @all ], [], 'none fires');
};

# As Grafana fills it in.
sub filled ($expr) { return $expr =~ s/\$job/.+/gr =~ s/\$__rate_interval/1m/gr }

subtest 'the dashboard' => sub {
	my $dashboard = json_decode(file_text('helm/ipu-operator/files/dashboard.json'));
	my @asked = map { my $panel = $_; map { [ $panel->{title}, $_->{expr} ] } @{ $panel->{targets} // [] } }
		@{ $dashboard->{panels} };
	cmp_ok(scalar @asked, '>', 30, 'it asks for a lot');
	my @bad = grep { !query(filled($_->[1])) } @asked;
	is_deeply(\@bad, [], 'Prometheus understands all of it');
	# What hasn't happened here has no series; a rate needs two scrapes.
	my @shown = grep { $_->[0] !~ /^(?:Failed calls|Failed releases|Admission reviews|Proxy requests)$/ } @asked;
	http('POST', $sim->url('admin', '/sim/api/cut-watches'), json => {});
	my @empty;
	eval {
		wait_until('each panel to show something', sub {
			@empty = map { "$_->[0]: $_->[1]" } grep { !@{ query(filled($_->[1])) // [] } } @shown;
			return !@empty;
		});
	};
	is_deeply(\@empty, [], 'each panel has something to show');
};

$prometheus->stop(status => 0, seconds => 30);
$daemon->stop(status => 0);
$sim->stop(status => 0);
done_testing();
