#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The values for the chart in doc/examples/chart, and those that the guides show (blocks "yaml values.yaml"): helm takes them, the
# operator takes the configuration that comes of them, and they have the effect that they are for.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Chart;
use IpuTest;
use IpuTree qw(file_text tree_files);
use Test::More;

watchdog(300);
my $chart = Cluster::Chart->new;
my %values = map { m{([^/]+)$} ? ($1 => file_text($_)) : () } tree_files(qr{\.yaml$}, 'doc/examples/chart');
my $number = 0;
for my $page (qw(doc/admin-guide.md doc/scheduler.md doc/user-guide.md doc/reference/permissions.md)) {
	my $text = file_text($page);
	$values{"$page, values no. " . ++$number} = $1 =~ s/…/00/gr
		while $text =~ /^```yaml values\.yaml\n(.*?)^```$/gms;
}
cmp_ok($number, '>', 1, 'the guides show values');

# A kubeconfig to read; nobody is connected to.
my $kubeconfig = spit(test_dir() . '/kubeconfig', <<'END');
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: a}}]
END

my ($C, $P) = map { "Deployment/ipu-operator-$_" } qw(controller-manager vipu-proxy);
my $digest = '@sha256:' . '0' x 64;
my %effect = (
	'one-controller.yaml' => sub ($o) { is($o->{$C}{spec}{replicas}, 1, '... one replica') },
	'secondary-network.yaml' => sub ($o) {
		my $worker = $o->{'ConfigMap/ipu-operator-config'}{config}{worker};
		ok(!$worker->{hostNetwork}, '... no host network');
		is($worker->{rdmaNetwork}, 'rdma-net', '... but another one');
	},
	'production.yaml' => sub ($o) {
		is($o->{$_}{spec}{replicas}, 2, "... two of $_") for $C, $P;
		for my $kind (qw(ServiceMonitor PrometheusRule NetworkPolicy PodDisruptionBudget)) {
			ok((grep { m{^$kind/} } keys %$o), "... $kind");
		}
		is($o->{'ConfigMap/ipu-operator-config'}{config}{queue}{choice}, 'bestFit', '... the queue');
	},
	'mirror.yaml' => sub ($o) {
		is($o->{$_}{spec}{template}{spec}{containers}[0]{image}, "registry.example:5000/mirror/ipu-operator$digest",
			"... the image of $_") for $C, $P;
		is($o->{'ConfigMap/ipu-operator-config'}{config}{launcher}{image}, "registry.example:5000/mirror/ipu-operator$digest",
			'... and of launchers');
	},
	'combined.yaml' => sub ($o) {
		ok($o->{$C} && !$o->{$P}, '... one Deployment');
		like($o->{'ConfigMap/ipu-operator-vipu-controllers'}{data}{'controllers.yaml'}, qr/secretName: pod003-vipu/, '... the list');
	},
	'head-nodes.yaml' => sub ($o) {
		my $node = $o->{'DaemonSet/ipu-operator-node'};
		is($node->{metadata}{namespace}, 'ipu-node', '... the role node, in a namespace of its own');
		is_deeply($node->{spec}{template}{spec}{nodeSelector}, { 'ipu-head-node' => 'true' }, '... on head nodes alone');
		ok($o->{"$_/ipu-operator-node"}, "... its $_") for qw(ServiceMonitor ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding);
		my $checked = run([program('ipu-operator'), '--roles=node', "--kubeconfig=$kubeconfig", '--check-config', '--config',
			spit(test_dir() . '/node.yaml', $o->{'ConfigMap/ipu-operator-node-config'}{data}{'operator.yaml'})]);
		is($checked->{status}, 0, '... which takes its configuration') or diag($checked->{err});
	},
	'scheduler.yaml' => sub ($o) {
		my $config = $o->{'ConfigMap/ipu-operator-config'}{config};
		is($config->{advertise}{ipus}, 'whole', '... Nodes show IPUs');
		is($config->{scheduler}{listen}, ':8446', '... and the scheduler may ask');
	},
	'own-certificate.yaml' => sub ($o) {
		my $hooks = $o->{'ValidatingWebhookConfiguration/ipu-operator-validating-webhook-configuration'};
		is($hooks->{metadata}{annotations}{'cert-manager.io/inject-ca-from'}, 'ipu-operator/webhook', '... cert-manager');
	},
);
is_deeply([grep { !$effect{$_} } grep { /^[\w-]+\.yaml$/ } sort keys %values], [], 'each example has an effect to look for');

for my $name (sort keys %values) {
	my $file = spit(test_dir() . '/values.yaml', $values{$name});
	my $done = $chart->try_render('-f', $file, '--api-versions', 'monitoring.coreos.com/v1');
	is($done->{status}, 0, "$name: helm takes it") or diag($done->{err}), next;
	my ($objects) = $chart->objects($done->{out});
	my $written = $objects->{'ConfigMap/ipu-operator-config'}{data}{'operator.yaml'};
	my $checked = run([program('ipu-operator'), '--config', spit(test_dir() . '/operator.yaml', $written // ''),
		'--set=operatorNamespace=ops', "--kubeconfig=$kubeconfig", '--check-config']);
	is($checked->{status}, 0, '... the operator takes its configuration') or diag($checked->{err});
	$effect{$name}->($objects) if $effect{$name};
}

done_testing();
