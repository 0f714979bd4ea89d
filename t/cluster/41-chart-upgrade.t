#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What helm makes of the chart in a real API server, over the life of a release: everything is accepted; upgrades and rollbacks
# leave alone what isn't the chart's (edits of the list of controllers, the webhooks' caBundle), and what is said again by the values is
# written; what is to stay stays. By helm 3, from that to helm 4, and by helm 4: they merge what is there differently. The Pods are
# KWOK's: nothing of ours runs. And what the Prometheus operator's definitions say of the objects for it. With nodes: 50-install.t.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use Cluster::Chart;
use File::Path qw(make_path);
use IpuTest;
use IpuTree qw(file_text);
use Test::More;

my @helms = qw(helm3 helm);
my $c = Cluster->up('scale', nodes => 1, with => \@helms);
my %chart = map { $_ => Cluster::Chart->new($_) } @helms;
$_->use_cluster($c) for values %chart;
my $chart = $chart{helm};
watchdog(440);

my $ns = 'ops';
my $list = 'ipu-operator-vipu-controllers';
my $crd = 'ipujobs.graphcore.ai';
my %object = (mutating => [ 'mutatingwebhookconfiguration', 'ipu-operator-mutating-webhook-configuration' ],
	validating => [ 'validatingwebhookconfiguration', 'ipu-operator-validating-webhook-configuration' ]);

sub helm ($verb, @words) { return $chart->helm($verb, 'rel', $verb eq 'install' || $verb eq 'upgrade' ? $chart->path : (), '-n', $ns, @words) }
sub the_list { return $c->get('configmap', $list, '-n', $ns) }
sub text { return the_list()->{data}{'controllers.yaml'} }
sub bundles ($kind) { return join ',', map { $_->{clientConfig}{caBundle} // '' } @{ $c->get(@{ $object{$kind} })->{webhooks} } }

# As a person, and as the operator, do it.
sub edit ($text) { $c->kubectl('-n', $ns, 'patch', 'configmap', $list, '--type=merge', '-p', json_encode({ data => { 'controllers.yaml' => $text } })) }
sub write_bundles {
	my $ca = $c->kubectl(qw(config view --raw --flatten -o), 'jsonpath={.clusters[0].cluster.certificate-authority-data}');
	my %n = (mutating => 2, validating => 1);
	for my $kind (keys %n) {
		my @ops = map { { op => 'add', path => "/webhooks/$_/clientConfig/caBundle", value => $ca } } 0 .. $n{$kind} - 1;
		$c->kubectl('patch', @{ $object{$kind} }, '--type=json', '-p', json_encode(\@ops));
	}
	return $ca;
}

# What becomes of an object from now on, an event a line.
sub watch ($kind) {
	my ($resource, $name) = @{ $object{$kind} };
	my $watch = start("watch-$kind", path => $c->programs . '/kubectl', ports => 0, args => [ '--kubeconfig', $c->host_kubeconfig, 'get',
		'--raw', "/apis/admissionregistration.k8s.io/v1/${resource}s?watch=true&fieldSelector=metadata.name=$name" ]);
	$c->wait_for('the watch', sub { ($watch->out // '') =~ /\n/ });
	return $watch;
}

$c->kubectl('create', 'namespace', $ns);
like($chart{$_}->helm('version', '--short'), $_ eq 'helm3' ? qr/^v3\./ : qr/^v4\./, "which is $_") for @helms;

for my $with (@helms) {
	$chart = $chart{$with};
	subtest "$with: an installation" => sub {
		helm('install', '--set', 'vipuControllers=pod001:8090:ipunode=a');
		is(text(), 'pod001:8090:ipunode=a', 'the list');
		is(bundles('mutating'), ',', 'nobody has written a bundle yet');
		my $jobs = $c->get('jobs', '-n', $ns);
		is_deeply($jobs->{items}, [], 'a cluster that hadn\'t the CustomResourceDefinition needs no Job for it');
		ok($c->get('crd', $crd), 'it has it now');
		is_deeply([ sort map { $_->{metadata}{name} } @{ $c->get('deployments', '-n', $ns)->{items} } ],
			[ 'ipu-operator-controller-manager', 'ipu-operator-vipu-proxy' ], 'the Deployments');
	};

	subtest "$with: upgrades and rollbacks" => sub {
		my $bundle = write_bundles();
		my @watches = map { watch($_) } qw(mutating validating);
		edit('pod001:8090:ipunode=a,pod002:8090:ipunode=b');
		$c->kubectl('-n', $ns, 'annotate', 'configmap', $list, 'graphcore.ai/cordon=pod001:8090', 'theirs=x');
		my $edited = the_list();

		helm('upgrade', '--reuse-values', '--set', 'controller.develLogs=true,admissionWebhooks.timeoutSeconds=9');
		is($c->get(@{ $object{mutating} })->{webhooks}[0]{timeoutSeconds}, 9, 'the webhooks are written');
		is_deeply(the_list(), $edited, 'the list as it was edited');

		helm('upgrade', '--reuse-values', '--set', 'vipuControllers=pod009:8090:ipunode=c,admissionWebhooks.timeoutSeconds=8');
		is(text(), 'pod009:8090:ipunode=c', 'another list in the values is written over what was edited');
		is(the_list()->{metadata}{annotations}{'graphcore.ai/cordon'}, 'pod001:8090', 'who is cordoned stays so');
		edit('pod010');
		helm('upgrade', '--reuse-values', '--set', 'admissionWebhooks.timeoutSeconds=7');
		is(text(), 'pod010', 'and what is edited after that stays');

		helm('rollback', '1');
		is($c->get(@{ $object{mutating} })->{webhooks}[0]{timeoutSeconds}, 30, 'a rollback');
		is(text(), 'pod010', 'leaves the list alone');
		helm('upgrade', '--set', 'vipuControllers=pod001:8090:ipunode=a');
		is(text(), 'pod001:8090:ipunode=a', 'values that aren\'t those that it was written from are written');

		edit('pod001:8090:ipunode=a,pod002:8090:ipunode=b');
		my $both = the_list();
		my $out = helm('upgrade', '--set', 'controller.develLogs=true');
		is_deeply(the_list(), $both, 'an upgrade that doesn\'t repeat the list leaves it alone');
		unlike($out, qr/WARNING/, '... and the notes know that there is one');
		edit('');
		like(helm('upgrade', '--set', 'controller.develLogs=false'), qr/WARNING: no V-IPU controller/, 'emptied by hand: they warn');
		helm('upgrade', '--set', 'vipuControllers=pod001:8090:ipunode=a');
		is(text(), '', '... and it stays so until the values change');

		# The last version that a watch shows is one of the test's own.
		$c->kubectl('label', @{ $object{$_} }, 'x=last') for keys %object;
		for my $watch (@watches) {
			my $out = $c->wait_for('the watch', sub { my $out = $watch->out; return $out =~ /"x":"last".*\n/ ? $out : undef });
			my @seen = map { json_decode($_)->{object} } $out =~ /^(.*)\n/mg;
			cmp_ok(scalar @seen, '>', 4, 'versions that there were');
			is_deeply([ grep { ($_->{clientConfig}{caBundle} // '') ne $bundle } map { @{ $_->{webhooks} } } @seen ], [],
				'no moment without the bundle');
			$watch->stop(status => 143);
		}
	};

	subtest "$with: an older CustomResourceDefinition" => sub {
		my $job = qr{^# Source: ipu-operator/templates/crd-upgrade\.yaml}m;
		unlike(helm('upgrade', '--dry-run=server'), $job, 'with the same one nothing is to be done');
		$c->kubectl('patch', 'crd', $crd, '--type=json', '-p',
			'[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/suspend"}]');
		like(helm('upgrade', '--dry-run=server'), $job, 'an older one is brought up to date');
		$c->apply(file_text('crds/graphcore.ai_ipujobs.yaml'), '--server-side', '--force-conflicts');
		unlike(helm('upgrade', '--dry-run=server'), $job, 'once');
	};

	subtest "$with: the end, and another beginning" => sub {
		edit('pod011');
		$c->kubectl('-n', $ns, 'create', 'configmap', 'ipu-partitions-tracker');
		helm('uninstall');
		is(text(), 'pod011', 'the list stays');
		ok($c->get('configmap', 'ipu-partitions-tracker', '-n', $ns), 'the tracker too');
		ok($c->get('crd', $crd), 'and the CustomResourceDefinition');
		is($c->get($_->[0], $_->[1]), undef, $_->[1]) for values %object;
		is_deeply($c->get('deployments,services,serviceaccounts,roles,rolebindings', '-n', $ns, '-l', 'app.kubernetes.io/instance=rel')->{items},
			[], 'nothing else');
		my $mine = sub ($kind) { return grep { $_->{metadata}{name} =~ /^ipu-operator/ } @{ $c->get($kind)->{items} } };
		is_deeply([ map { $_->{metadata}{name} } map { $mine->($_) } 'clusterroles', 'clusterrolebindings' ], [], 'in the whole cluster');

		helm('install', '--set', 'vipuControllers=pod001:8090:ipunode=a');
		is(text(), 'pod011', 'a new installation with the same values takes the list as it is');
		helm('uninstall');
		helm('install');
		is(text(), 'pod011', '... and so does one without');
	};

	next if $with ne 'helm3';
	subtest 'from helm 3 to helm 4' => sub {
		my $bundle = write_bundles();
		edit('pod012');
		$chart = $chart{helm};
		helm('upgrade', '--set', 'admissionWebhooks.timeoutSeconds=9');
		is($c->get(@{ $object{mutating} })->{webhooks}[0]{timeoutSeconds}, 9, 'it writes what the other one has made');
		is(text(), 'pod012', 'and leaves the list');
		is(bundles('mutating') . ' ' . bundles('validating'), "$bundle,$bundle $bundle", '... and the bundles alone');
		helm('rollback', '1');
		is(text() . ' ' . bundles('mutating'), "pod012 $bundle,$bundle", 'to what helm 3 has made, too');
		helm('uninstall');
		$c->kubectl('-n', $ns, 'delete', 'configmap', $list, 'ipu-partitions-tracker');
		$c->kubectl('delete', 'crd', $crd);
	};
}

subtest 'another release' => sub {
	my @other = ('install', 'other', $chart->path, '-n', 'other', '--create-namespace');
	my $same = $chart->try_helm(@other);
	isnt($same->{status}, 0, 'with the same names');
	like($same->{err}, qr/exists and cannot be imported/, 'helm says what is in its way');
	$chart->helm(@other, '--set', 'fullnameOverride=zz,topology=combined,controller.replicas=2,networkPolicy.enabled=true',
		'--set', 'global.vipuControllers[0].address=pod1,vipuServerAddr=vipu.example.com,admissionWebhooks.patch.enabled=false',
		'--set', 'admissionWebhooks.certificate.caBundle=' . (bundles('validating') || write_bundles()));
	is($c->get('configmap', 'zz-vipu-controllers', '-n', 'other')->{data}{'controllers.yaml'}, '- address: pod1', 'with its own');
	$chart->helm('upgrade', 'other', $chart->path, '-n', 'other', '--reuse-values', '--set',
		'topology=split,autoscaling.enabled=true,autoscaling.minReplicas=2,vipuProxy.replicas=2');
	is_deeply([ map { $_->{metadata}{name} } @{ $c->get('pdb', '-n', 'other')->{items} } ], [ 'zz-controller-manager', 'zz-vipu-proxy' ],
		'from combined to split, with all that belongs to several replicas');
	$chart->helm('uninstall', 'other', '-n', 'other');
	ok($c->get('deployment', 'ipu-operator-vipu-proxy', '-n', $ns), 'its end is not the first one\'s');
};

# A release of a chart whose list was an object like the others.
subtest 'from an earlier chart' => sub {
	my $old = test_dir() . '/old';
	make_path("$old/templates");
	spit("$old/Chart.yaml", "apiVersion: v2\nname: ipu-operator\nversion: 0.9.0\n");
	spit("$old/templates/list.yaml", json_encode({ apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => 'old-vipu-controllers' },
		data => { 'controllers.yaml' => 'pod007:8090:ipunode=x' } }));
	$chart->helm('install', 'old', $old, '-n', 'old', '--create-namespace');
	my $list = sub { ($c->get('configmap', 'old-vipu-controllers', '-n', 'old') // {})->{data}{'controllers.yaml'} };
	for my $upgrade (1, 2) {
		$chart->helm('upgrade', 'old', $chart->path, '-n', 'old', '--set', "fullnameOverride=old,controller.podAnnotations.n=$upgrade");
		is($list->(), 'pod007:8090:ipunode=x', "what it said stays, upgrade $upgrade");
	}
	$chart->helm('upgrade', 'old', $chart->path, '-n', 'old', '--set', 'fullnameOverride=old,vipuControllers=pod008');
	is($list->(), 'pod008', 'a list in the values is written');
};

# Whether this API server takes these objects: unknown fields are errors.
sub try_create ($text) {
	return $c->kubectl_result([ qw(create --dry-run=server --validate=strict -f -) ], stdin => $text);
}

subtest 'what the Prometheus operator\'s own definitions say' => sub {
	my $source = run([ "$FindBin::Bin/build", '--source', 'prometheus-operator' ], seconds => 300);
	my ($last) = ($source->{status} ? $source->{err} : $source->{out}) =~ /([^\n]*)\n*\z/;
	plan(skip_all => $last) if $source->{status} == 77 && !$ENV{IPU_REQUIRE_CLUSTER};
	is($source->{status}, 0, 'they are there') or return diag($source->{err});
	my @kinds = qw(servicemonitors podmonitors prometheusrules);
	my $early = $chart->try_helm('upgrade', 'rel', $chart->path, '-n', $ns, '--set', 'metrics.serviceMonitor.enabled=true');
	isnt($early->{status}, 0, 'without them, helm refuses');
	like($early->{err}, qr/no matches for kind "ServiceMonitor" in version "monitoring\.coreos\.com\/v1"/, '... in the words of the page on troubles');
	$c->kubectl('apply', '--server-side', map { ('-f', "$last/example/prometheus-operator-crd/monitoring.coreos.com_$_.yaml") } @kinds);
	$c->kubectl(qw(wait --for=condition=Established --timeout=30s), map { "crd/$_.monitoring.coreos.com" } @kinds);
	my @on = ('-n', $ns, '--set', 'metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,node.enabled=true,node.metricsListen=:8447',
		'--set', 'metrics.serviceMonitor.labels.release=prometheus,metrics.prometheusRule.labels.release=prometheus,metrics.serviceMonitor.interval=1m30s');
	my $monitors = sub (@more) {
		return grep { m{^apiVersion: monitoring\.coreos\.com/}m } split /^---\n/m, $chart->render(@on, @more);
	};
	my %made = ('with TLS, and the nodes without' => [ $monitors->() ],
		'the nodes with TLS too' => [ $monitors->('--set', 'node.metricsSecure=true,node.metricsCertificate=mine') ],
		'all without' => [ $monitors->('--set', 'operatorConfig.metrics.secure=false') ]);
	for my $how (sort keys %made) {
		my @all = @{ $made{$how} };
		is(scalar @all, 3, "$how: the operator's monitor, the nodes', the rules");
		my $done = try_create(join "---\n", @all);
		is($done->{status}, 0, '... are taken, each field') or diag($done->{err});
		is(scalar(() = $done->{out} =~ /created \(server dry run\)/g), 3, '... all three');
	}
	my ($monitor) = grep { /^kind: ServiceMonitor$/m } $monitors->();
	for my $wrong ([ interval => 'intervall: 30s', qr/unknown field "spec\.endpoints\[0\]\.intervall"/ ], [ interval => 'interval: soon', qr/spec\.endpoints\[0\]\.interval/ ]) {
		my ($field, $text, $why) = @$wrong;
		my $done = try_create($monitor =~ s/\b$field: \S+/$text/r);
		isnt($done->{status}, 0, "$text isn't");
		like($done->{err}, $why, '... and it\'s said why');
	}
	helm('upgrade', '--set', 'metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true');
	ok($c->get("$_/ipu-operator", '-n', $ns), "helm makes $_") for 'servicemonitor', 'prometheusrule';
	helm('upgrade', '--reset-values');
	is($c->get("$_/ipu-operator", '-n', $ns), undef, '... and takes it away') for 'servicemonitor', 'prometheusrule';
};

$c->down;
done_testing;
