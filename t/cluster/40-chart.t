#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The chart as helm renders it, without a cluster. doc/reference/chart.md is the table of its parameters: each row's default
# changes nothing, and each name in it, older ones too, has the effect that is looked for here. 40-chart-images.t has what
# becomes of images' names; what needs an API server is in 41-chart-upgrade.t, and what needs nodes in 50-install.t.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Chart qw(find);
use IpuTest;
use IpuTree qw(file_text);
use JSON::PP ();
use Test::More;

my $chart = Cluster::Chart->new;
watchdog(600);
my ($yes, $no) = (JSON::PP::true(), JSON::PP::false());
my $there = sub ($v) { defined $v };
my $digest = 'sha256:' . 'ab' x 32;

# ---- what each parameter does ----
#
# Name => [ value, where => what, … ]; where is KIND/NAME and a path, its steps separated by blanks; a step into a list is an index,
# or the name of an item. what: a value, undef (nothing is there), or a sub. {…}: what else has to be given.

my ($C, $P) = map { "Deployment/ipu-operator-$_" } qw(controller-manager vipu-proxy);
my ($cp, $pp) = map { "$_ spec template spec" } $C, $P;
my ($cc, $pc) = map { "$_ containers ipu-operator" } $cp, $pp;
my $config = 'ConfigMap/ipu-operator-config config';
my $hooks = 'MutatingWebhookConfiguration/ipu-operator-mutating-webhook-configuration webhooks mipujob.graphcore.ai';
my $pods = 'MutatingWebhookConfiguration/ipu-operator-mutating-webhook-configuration webhooks mpod.graphcore.ai';
my $checks = 'ValidatingWebhookConfiguration/ipu-operator-validating-webhook-configuration';
my $own = { 'admissionWebhooks.patch.enabled' => $no };
my ($monitor, $rules, $board) = map { { "metrics.$_.enabled" => $yes } } qw(serviceMonitor prometheusRule dashboard);
my $policy = { 'networkPolicy.enabled' => $yes };
my $scaled = { 'autoscaling.enabled' => $yes };
my $hpa = 'HorizontalPodAutoscaler/ipu-operator-vipu-proxy spec';
my $noded = { 'node.enabled' => $yes };
my $daemons = 'DaemonSet/ipu-operator-node spec template';
my $daemon = "$daemons spec containers ipu-operator";
my @peer = ({ podSelector => { matchLabels => { a => 'b' } } });
my $ours = { podSelector => { matchLabels => { 'app.kubernetes.io/name' => 'ipu-operator', 'app.kubernetes.io/instance' => 'rel' } } };

# A value that isn't $v, of its kind.
sub other ($v) {
	return JSON::PP::is_bool($v) ? ($v ? $no : $yes) : ref $v eq 'HASH' ? { other => '1' } : ref $v ? [ { name => 'other' } ]
		: $v =~ /^\d+$/ ? $v - 1 : $v eq 'Never' ? 'Always' : $v eq 'NodePort' ? 'LoadBalancer' : "${v}x";
}

my %effect = (
	'topology' => [ 'combined', $P => undef, "$cc args 0" => '--roles=controller,webhook,proxy',
		'Service/ipu-operator-vipu-proxy spec selector app.kubernetes.io/component' => 'controller-manager',
		'ServiceAccount/ipu-operator-vipu-proxy' => undef, 'Service/ipu-operator-vipu-proxy-metrics' => undef ],
	'fullnameOverride' => [ 'gc', 'Deployment/gc-vipu-proxy' => $there, $P => undef ],
	'nameOverride' => [ 'ipus', 'Deployment/rel-ipus-vipu-proxy metadata labels app.kubernetes.io/name' => 'ipus' ],

	'global.vipuControllers' => [ 'pod001:8090:ipunode=a',
		'ConfigMap/ipu-operator-vipu-controllers data controllers.yaml' => 'pod001:8090:ipunode=a' ],
	'vipuServerAddr' => [ 'vipu.example.com', "$config vipu serverAddr" => 'vipu.example.com',
		'Service/ipu-operator-vipu-controller spec externalName' => 'vipu.example.com' ],
	'vipuServerPort' => [ 8191, "$config vipu serverPort" => 8191 ],
	'vipuClusterName' => [ 'test', "$config vipu clusterName" => 'test' ],
	'vipuProxy.proxyPartitionTrackerConfigMap' => [ 'mine', "$config tracker configMap" => 'mine' ],

	'image.registry' => [ 'reg.example:5000', map { $_ => 'reg.example:5000/ipu-operator:1.0.0' } "$cc image", "$pc image",
		"$config launcher image" ],
	'image.repository' => [ 'a/b', "$cc image" => 'localhost/a/b:1.0.0', "$pc image" => 'localhost/a/b:1.0.0' ],
	'image.tag' => [ 'v18', "$cc image" => 'localhost/ipu-operator:v18', "$pc image" => 'localhost/ipu-operator:v18' ],
	'image.digest' => [ $digest, { 'image.registry' => 'r.example' }, "$cc image" => "r.example/ipu-operator\@$digest", "$pc imagePullSecrets" => undef ],
	'image.architecture' => [ 'arm64', { 'node.enabled' => $yes, 'controller.nodeSelector' => { 'kubernetes.io/arch' => 'mine' } },
		"$cp nodeSelector kubernetes.io/arch" => 'mine', "$pp nodeSelector kubernetes.io/arch" => 'arm64', "$daemons spec nodeSelector kubernetes.io/arch" => 'arm64',
		'Pod/ipu-operator-test-stats spec nodeSelector kubernetes.io/arch' => 'mine' ],
	'image.pullPolicy' => [ 'Never', "$cc imagePullPolicy" => 'Never', "$pc imagePullPolicy" => 'Never' ],
	'global.imageRegistry' => [ 'm.example/x', map { $_ => 'm.example/x/ipu-operator:1.0.0' } "$cc image", "$pc image",
		"$config launcher image", 'Pod/ipu-operator-test-stats spec containers ipuctl image',
		'Job/ipu-operator-crd-upgrade spec template spec containers ipuctl image' ],
	'global.imagePullSecrets' => [ [ { name => 's' } ], "$cp imagePullSecrets 0 name" => 's', "$pp imagePullSecrets 0 name" => 's',
		'Job/ipu-operator-crd-upgrade spec template spec imagePullSecrets 0 name' => 's' ],
	'global.launcherImage' => [ 'reg.example/l:2', "$config launcher image" => 'reg.example/l:2' ],
	'global.launcherImageTag' => [ 'v7', "$config launcher image" => 'localhost/ipu-operator:v7' ],
	'global.launcherImagePullPolicy' => [ 'Never', "$config launcher imagePullPolicy" => 'Never' ],

	'controller.replicas' => [ 2, "$C spec replicas" => 2, 'PodDisruptionBudget/ipu-operator-controller-manager spec maxUnavailable' => 1,
		'PodDisruptionBudget/ipu-operator-controller-manager spec unhealthyPodEvictionPolicy' => 'AlwaysAllow',
		"$cp topologySpreadConstraints 0 topologyKey" => 'kubernetes.io/hostname',
		"$cp topologySpreadConstraints 0 matchLabelKeys" => ['pod-template-hash'] ],
	'controller.hostNetwork' => [ $yes, "$cp hostNetwork" => $yes, "$cp dnsPolicy" => 'ClusterFirstWithHostNet',
		"$C spec strategy rollingUpdate maxSurge" => 0, "$pp hostNetwork" => undef ],
	'controller.dnsPolicy' => [ 'Default', "$cp dnsPolicy" => 'Default' ],
	'controller.service.type' => [ 'NodePort', 'Service/ipu-operator-controller-manager-metrics spec type' => 'NodePort' ],
	'controller.service.port' => [ 9443, 'Service/ipu-operator-controller-manager-metrics spec ports https port' => 9443 ],
	'controller.develLogs' => [ $yes, "$cc env IPUOPERATOR_LOG_LEVEL value" => '5' ],
	'controller.topologySpreadConstraints' => [ [ { maxSkew => 2 } ], "$cp topologySpreadConstraints 0 maxSkew" => 2 ],
	'controller.rbac.create' => [ $no, 'ClusterRole/ipu-operator-controller-manager' => undef ],
	'vipuProxy.rbac.create' => [ $no, 'ClusterRole/ipu-operator-vipu-proxy' => undef ],

	'vipuProxy.replicas' => [ 3, "$P spec replicas" => 3, 'PodDisruptionBudget/ipu-operator-vipu-proxy spec maxUnavailable' => 1,
		'PodDisruptionBudget/ipu-operator-vipu-proxy spec unhealthyPodEvictionPolicy' => 'AlwaysAllow' ],
	'vipuProxy.proxyPort' => [ 9080, "$config proxy listen" => ':9080', "$pc ports http containerPort" => 9080 ],
	'vipuProxy.proxyReadTimeoutSeconds' => [ 31, "$config proxy readTimeoutSeconds" => 31 ],
	'vipuProxy.proxyWriteTimeoutSeconds' => [ 32, "$config proxy writeTimeoutSeconds" => 32 ],
	'vipuProxy.proxyIdleTimeoutSeconds' => [ 33, "$config proxy idleTimeoutSeconds" => 33 ],
	'vipuProxy.page' => [ 'full', "$config proxy page" => 'full' ],
	'vipuProxy.logLevel' => [ 6, "$pc env IPUOPERATOR_LOG_LEVEL value" => '6', "$cc env IPUOPERATOR_LOG_LEVEL value" => '4' ],
	'vipuProxy.service.type' => [ 'NodePort', 'Service/ipu-operator-vipu-proxy spec type' => 'NodePort' ],
	'vipuProxy.service.port' => [ 8081, 'Service/ipu-operator-vipu-proxy spec ports http port' => 8081 ],
	'vipuProxy.topologySpreadConstraints' => [ [ { maxSkew => 2 } ], "$pp topologySpreadConstraints 0 maxSkew" => 2 ],
	'autoscaling.enabled' => [ $yes, "$hpa scaleTargetRef name" => 'ipu-operator-vipu-proxy', "$P spec replicas" => undef,
		'PodDisruptionBudget/ipu-operator-vipu-proxy' => $there ],
	'autoscaling.minReplicas' => [ 2, $scaled, "$hpa minReplicas" => 2 ],
	'autoscaling.maxReplicas' => [ 9, $scaled, "$hpa maxReplicas" => 9 ],
	'autoscaling.targetCPUUtilizationPercentage' => [ 60, $scaled, "$hpa metrics 0 resource target averageUtilization" => 60 ],

	'admissionWebhooks.scope' => [ 'team-a, team-b', "$hooks namespaceSelector matchExpressions" =>
		[ { key => 'kubernetes.io/metadata.name', operator => 'In', values => [ 'team-a', 'team-b' ] } ],
		"$pods namespaceSelector matchExpressions 1 values 1" => 'team-b',
		"$checks webhooks vipujob.graphcore.ai namespaceSelector matchExpressions 0 operator" => 'In' ],
	'admissionWebhooks.timeoutSeconds' => [ 7, "$hooks timeoutSeconds" => 7, "$pods timeoutSeconds" => 7,
		"$checks webhooks vipujob.graphcore.ai timeoutSeconds" => 7 ],
	'admissionWebhooks.failurePolicy' => [ 'Ignore', "$hooks failurePolicy" => 'Ignore', "$pods failurePolicy" => 'Ignore',
		"$checks webhooks vipujob.graphcore.ai failurePolicy" => 'Ignore' ],
	'admissionWebhooks.port' => [ 9443, "$cc ports webhook containerPort" => 9443, "$config webhook listen" => ':9443' ],
	'admissionWebhooks.service.annotations' => [ { a => 'b' }, 'Service/ipu-operator-webhook-svc metadata annotations a' => 'b' ],
	'admissionWebhooks.service.servicePort' => [ 444, 'Service/ipu-operator-webhook-svc spec ports https port' => 444,
		"$hooks clientConfig service port" => 444 ],
	'admissionWebhooks.service.type' => [ 'NodePort', 'Service/ipu-operator-webhook-svc spec type' => 'NodePort' ],
	'admissionWebhooks.patch.enabled' => [ $no, "$config webhook certFile" => '/etc/ipu-operator-webhook/tls.crt',
		"$config webhook caFile" => '/etc/ipu-operator-webhook/ca.crt',
		"$cp volumes webhook-certificate secret secretName" => 'ipu-operator-webhook-certificate' ],
	'admissionWebhooks.certificate.secretName' => [ 'mine', $own, "$cp volumes webhook-certificate secret secretName" => 'mine' ],
	'admissionWebhooks.certificate.caBundle' => [ 'QUJD', $own, "$hooks clientConfig caBundle" => 'QUJD',
		"$config webhook caFile" => undef ],
	'admissionWebhooks.certificate.annotations' => [ { 'cert-manager.io/inject-ca-from' => 'x/y' }, $own,
		"$checks metadata annotations cert-manager.io/inject-ca-from" => 'x/y', "$config webhook caFile" => undef ],

	'worker.hostNetwork' => [ $no, "$config worker hostNetwork" => $no ],
	'worker.rdmaNetwork' => [ 'fabric/rdma-net', "$config worker rdmaNetwork" => 'fabric/rdma-net' ],
	'worker.rdmaResource' => [ 'rdma/a', "$config worker rdmaResource" => 'rdma/a' ],
	'worker.rdmaResourceCount' => [ 2, "$config worker rdmaResourceCount" => 2 ],
	'worker.ipcLock' => [ $no, "$config worker ipcLock" => $no ],
	'operatorConfig' => [ { queue => { choice => 'bestFit' }, proxy => { details => $no }, log => { level => 6 }, partitions => { heedNodes => $no } },
		'ClusterRole/ipu-operator-vipu-proxy rules' => sub ($rules) { !grep { "@{ $_->{resources} }" =~ /^nodes/ } @$rules },
		"$config queue choice" => 'bestFit', "$config proxy details" => $no, "$config proxy readTimeoutSeconds" => 30,
		"$pc env IPUOPERATOR_LOG_LEVEL" => undef ],
	'proxyEnv.httpProxy' => [ 'http://p:1', "$cc env HTTP_PROXY value" => 'http://p:1', "$pc env NO_PROXY value" => $there ],
	'proxyEnv.httpsProxy' => [ 'http://p:2', "$cc env HTTPS_PROXY value" => 'http://p:2', "$pc env HTTPS_PROXY value" => 'http://p:2' ],
	'proxyEnv.noProxy' => [ 'a.example,10.0.0.0/8', { 'proxyEnv.httpsProxy' => 'http://p:2' }, "$cc env NO_PROXY value" =>
		'a.example,10.0.0.0/8,localhost,127.0.0.1,::1,.svc,.cluster.local,$(KUBERNETES_SERVICE_HOST)' ],
	'crds.upgrade' => [ $no, 'Job/ipu-operator-crd-upgrade' => undef, 'ClusterRole/ipu-operator-crd-upgrade' => undef ],
	'uninstall.cleanNodes' => [ $no, { 'node.enabled' => $yes }, 'DaemonSet/ipu-operator-node kind' => 'DaemonSet', 'Job/ipu-operator-clean-nodes' => undef, 'ClusterRole/ipu-operator-clean-nodes' => undef ],
	'rbac.aggregate' => [ $no, 'ClusterRole/ipu-operator-ipujobs-view' => undef, 'ClusterRole/ipu-operator-ipujobs-edit' => undef ],
	'rbac.secretNames' => [ ['pod1'], 'Role/ipu-operator-vipu-proxy rules' => sub ($rules) {
		my @secrets = grep { "@{ $_->{resources} }" eq 'secrets' && "@{ $_->{verbs} }" =~ /list/ } @$rules;
		return @secrets && !grep { !$_->{resourceNames} } @secrets;
	} ],
	'metrics.serviceMonitor.enabled' => [ $yes, 'ServiceMonitor/ipu-operator spec endpoints 0 port' => 'https' ],
	'metrics.serviceMonitor.interval' => [ '5s', $monitor, 'ServiceMonitor/ipu-operator spec endpoints 0 interval' => '5s' ],
	'metrics.serviceMonitor.labels' => [ { a => 'b' }, $monitor, 'ServiceMonitor/ipu-operator metadata labels a' => 'b' ],
	'metrics.prometheusRule.enabled' => [ $yes, 'PrometheusRule/ipu-operator spec groups 0 rules 0' => $there ],
	'metrics.prometheusRule.labels' => [ { a => 'b' }, $rules, 'PrometheusRule/ipu-operator metadata labels a' => 'b' ],
	'metrics.dashboard.enabled' => [ $yes, 'ConfigMap/ipu-operator-dashboard data ipu-operator.json' =>
		sub ($text) { @{ (eval { json_decode($text) } // {})->{panels} // [] } > 3 } ],
	'metrics.dashboard.labels' => [ { a => 'b' }, $board, 'ConfigMap/ipu-operator-dashboard metadata labels a' => 'b' ],
	'ipuVisibility.advertise' => [ 'share', "$config advertise ipus" => 'share', "$config advertise onControlPlane" => $no,
		'ClusterRole/ipu-operator-vipu-proxy rules' => sub ($rules) { grep { "@{ $_->{resources} }" eq 'nodes/status' } @$rules } ],
	'ipuVisibility.advertiseOnMaster' => [ $yes, "$config advertise onControlPlane" => $yes, "$config advertise ipus" => 'whole' ],
	'extendedScheduler.enabled' => [ $yes, "$config scheduler listen" => ':8446', "$pc ports scheduler containerPort" => 8446,
		'Service/ipu-operator-vipu-proxy spec ports scheduler port' => 8446,
		'ClusterRole/ipu-operator-vipu-proxy rules' => sub ($rules) {
			my @nodes = grep { "@{ $_->{resources} }" =~ /^nodes/ } @$rules;
			return join(' ', map { @{ $_->{verbs} } } @nodes) eq 'list watch patch';
		} ],
	'extendedScheduler.clientCASecret' => [ 'clients', { 'extendedScheduler.enabled' => $yes },
		"$config scheduler clientCAFile" => '/etc/ipu-operator-scheduler/ca.crt', "$config scheduler clientNames" => undef,
		"$pc volumeMounts scheduler-clients mountPath" => '/etc/ipu-operator-scheduler', "$pp volumes scheduler-clients secret secretName" => 'clients',
		"$cp volumes scheduler-clients" => undef ],
	'extendedScheduler.clientNames' => [ [qw(a b)], { 'extendedScheduler.enabled' => $yes, 'extendedScheduler.clientCASecret' => 'clients' },
		"$config scheduler clientNames" => 'a,b' ],
	'node.enabled' => [ $yes, "$daemons spec hostNetwork" => $yes, "$daemons spec enableServiceLinks" => $no, "$daemon args 0" => '--roles=node', "$daemon securityContext privileged" => $yes,
		"$daemon env NODE_NAME valueFrom fieldRef fieldPath" => 'spec.nodeName',
		"$daemons spec volumes" => sub ($list) { join(' ', sort map { $_->{hostPath} ? $_->{hostPath}{path} : () } @$list) eq '/dev/infiniband /proc /sys' },
		'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^node:\n  root: /host$}m },
		'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^controllersConfigMap: ipu-operator-vipu-controllers$}m },
		'Role/ipu-operator-node rules 0 resourceNames' => ['ipu-operator-vipu-controllers'], "$config node silentSeconds" => undef,
		'ClusterRole/ipu-operator-vipu-proxy rules' => sub ($rules) { grep { "@{ $_->{resources} }" eq 'nodes/status' } @$rules },
		'ClusterRole/ipu-operator-node rules' => sub ($rules) { !grep { "@{ $_->{verbs} }" =~ /get|update|delete|\*/ } @$rules } ],
	'node.namespace' => [ 'heads', $noded, 'DaemonSet/ipu-operator-node metadata namespace' => 'heads',
		'ServiceAccount/ipu-operator-node metadata namespace' => 'heads', 'ConfigMap/ipu-operator-node-config metadata namespace' => 'heads',
		'ClusterRoleBinding/ipu-operator-node subjects 0 namespace' => 'heads', 'RoleBinding/ipu-operator-node subjects 0 namespace' => 'heads' ],
	'node.privileged' => [ $no, $noded, "$daemon securityContext allowPrivilegeEscalation" => $no, "$daemon securityContext privileged" => undef ],
	'node.nodeSelector' => [ { a => 'b' }, $noded, "$daemons spec nodeSelector a" => 'b' ],
	'node.tolerations' => [ [ { key => 'a' } ], $noded, "$daemons spec tolerations 0 key" => 'a' ],
	'node.resources' => [ { limits => { x => 1 } }, $noded, "$daemon resources limits x" => 1, "$daemon resources requests cpu" => '10m' ],
	'node.metricsListen' => [ ':8447', $noded, 'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^metrics:\n  listen: :8447$}m },
		"$daemon ports metrics containerPort" => 8447 ],
	'node.metricsSecure' => [ $yes, { 'node.enabled' => $yes, 'node.metricsListen' => ':8447' },
		'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^metrics:\n  listen: :8447\n  secure: true$}m },
		'ClusterRole/ipu-operator-node rules' => sub ($rules) { grep { "@{ $_->{resources} }" eq 'tokenreviews' } @$rules } ],
	'node.metricsCertificate' => [ 'own', { 'node.enabled' => $yes, 'node.metricsListen' => ':8447', 'node.metricsSecure' => $yes },
		'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^metrics:\n  certFile: (/etc/ipu-operator-metrics)/tls\.crt\n  keyFile: \g1/tls\.key$}m },
		"$daemon volumeMounts metrics-certificate mountPath" => '/etc/ipu-operator-metrics' ],
	'node.priorityClassName' => [ 'system-node-critical', $noded, "$daemons spec priorityClassName" => 'system-node-critical' ],
	'node.policy' => [ $yes, $noded, 'ValidatingAdmissionPolicy/ipu-operator-node spec matchConditions 0 expression' =>
		sub ($text) { ($text // '') eq 'request.userInfo.username == "system:serviceaccount:ops:ipu-operator-node"' },
		'ValidatingAdmissionPolicyBinding/ipu-operator-node spec policyName' => 'ipu-operator-node' ],
	'node.healthPort' => [ 9082, $noded, "$daemon livenessProbe httpGet port" => 9082, "$daemon readinessProbe httpGet port" => 9082,
		'ConfigMap/ipu-operator-node-config data operator.yaml' => sub ($t) { $t =~ m{^health:\n  listen: 127\.0\.0\.1:9082$}m } ],
	'networkPolicy.schedulerFrom' => [ [@peer], { 'networkPolicy.enabled' => $yes, 'extendedScheduler.enabled' => $yes },
		'NetworkPolicy/ipu-operator-vipu-proxy spec ingress 2 from' => [@peer] ],
	'networkPolicy.enabled' => [ $yes, 'NetworkPolicy/ipu-operator-vipu-proxy spec policyTypes' => ['Ingress'] ],
	'networkPolicy.apiServerCidrs' => [ ['10.0.0.0/24'], $policy,
		'NetworkPolicy/ipu-operator-controller-manager spec ingress 0 from 0 ipBlock cidr' => '10.0.0.0/24' ],
	'networkPolicy.partitionsFrom' => [ [@peer], $policy, 'NetworkPolicy/ipu-operator-vipu-proxy spec ingress 1 from' => [ @peer, $ours ] ],
	'networkPolicy.statisticsFrom' => [ [@peer], $policy, 'NetworkPolicy/ipu-operator-vipu-proxy spec ingress 0 from' => [ @peer, $ours ] ],
	'networkPolicy.metricsFrom' => [ [@peer], $policy, 'NetworkPolicy/ipu-operator-controller-manager spec ingress 1 from' => [@peer] ],
	'networkPolicy.egress' => [ [ { to => [@peer] } ], $policy,
		'NetworkPolicy/ipu-operator-controller-manager spec egress 0 to' => [@peer] ],
);

# What both Deployments have.
for my $of ([ 'controller', 'controller-manager', $C, $cp, $cc ], [ 'vipuProxy', 'vipu-proxy', $P, $pp, $pc ]) {
	my ($key, $name, $deployment, $pod, $container) = @$of;
	my $account = "ServiceAccount/ipu-operator-$name";
	my %same = (
		'image.registry' => [ 'r.example', "$container image" => 'r.example/ipu-operator:1.0.0', "$container imagePullPolicy" => 'Always' ],
		'image.repository' => [ 'r.example/x/y', "$container image" => 'r.example/x/y:1.0.0' ],
		'image.tag' => [ 'v9', "$container image" => 'localhost/ipu-operator:v9' ],
		'image.digest' => [ $digest, { 'image.registry' => 'r.example' }, "$container image" => "r.example/ipu-operator\@$digest" ],
		'image.pullPolicy' => [ 'Never', "$container imagePullPolicy" => 'Never' ],
		'serviceAccount.create' => [ $no, $account => undef, "$pod serviceAccountName" => 'default' ],
		'serviceAccount.annotations' => [ { a => 'b' }, "$account metadata annotations a" => 'b' ],
		'serviceAccount.name' => [ 'joe', 'ServiceAccount/joe' => $there, "$pod serviceAccountName" => 'joe' ],
		'podAnnotations' => [ { a => 'b' }, "$deployment spec template metadata annotations a" => 'b' ],
		'podLabels' => [ { a => 'b' }, "$deployment spec template metadata labels a" => 'b' ],
		'podSecurityContext' => [ { runAsUser => 7 }, "$pod securityContext runAsUser" => 7, "$pod securityContext runAsNonRoot" => $yes ],
		'securityContext' => [ { runAsUser => 7 }, "$container securityContext runAsUser" => 7,
			"$container securityContext readOnlyRootFilesystem" => $yes ],
		'resources' => [ { limits => { memory => '1Gi' } }, "$container resources limits memory" => '1Gi',
			"$container resources requests cpu" => '50m' ],
		'nodeSelector' => [ { a => 'b' }, "$pod nodeSelector a" => 'b' ],
		'tolerations' => [ [ { operator => 'Exists' } ], "$pod tolerations 0 operator" => 'Exists' ],
		'affinity' => [ { nodeAffinity => { x => 1 } }, "$pod affinity nodeAffinity x" => 1 ],
		'priorityClassName' => [ 'high', "$pod priorityClassName" => 'high' ],
		'extraArgs' => [ ['--set=queue.choice=bestFit'], "$container args 1" => '--set=queue.choice=bestFit' ],
		'extraEnv' => [ [ { name => 'A', value => 'b' } ], "$container env A value" => 'b' ],
	);
	$effect{"$key.$_"} //= $same{$_} for keys %same;
}

# Values for those that are accepted and do nothing.
my %without_effect = ('global.kubectlVersion' => 'v1.30.0', (map { ("admissionWebhooks.patch.image.$_->[0]" => $_->[1]) } [ repository => 'a' ],
	[ tag => 'v1.3.0' ], [ pullPolicy => 'Never' ]), 'admissionWebhooks.patch.priorityClassName' => 'a',
	'admissionWebhooks.patch.podAnnotations' => { a => 'b' }, 'admissionWebhooks.patch.nodeSelector' => { a => 'b' },
	'admissionWebhooks.patch.tolerations' => [], 'admissionWebhooks.patch.runAsUser' => 2000);

# ---- the page, the values, the schema ----

my (%row, %older);
for my $line (split /\n/, file_text('doc/reference/chart.md')) {
	my ($name, $old, $default, $effect) = $line =~ /^\| `([\w.]+)` \| (.*?) ?\| (.*?) ?\| (.*?) ?\|$/ or next;
	die "two rows for $name\n" if $row{$name};
	my ($quoted) = $default =~ /^`(.*)`$/;
	$row{$name} = { default => $quoted, older => [ $old =~ /`([^`]+)`/g ], none => $effect =~ /^No effect/ ? 1 : 0 };
	push @{ $older{$_} }, $name for @{ $row{$name}{older} };
}

sub sorted_list { return join "\n", sort @_ }

sub leaves ($v, @path) {
	return join '.', @path if ref $v ne 'HASH' || !%$v || @path && exists $row{ join '.', @path };
	return map { leaves($v->{$_}, @path, $_) } keys %$v;
}

my $values = ($chart->documents(file_text('helm/ipu-operator/values.yaml')))[0][0];
is(sorted_list(grep { !$row{$_} } leaves($values)), '', 'every value of values.yaml has a row');

my $schema = json_decode(file_text('helm/ipu-operator/values.schema.json'));
sub schema_leaves ($s, @path) {
	$s = $schema->{definitions}{$1} if ($s->{'$ref'} // '') =~ m{^#/definitions/(.*)};
	return join '.', @path if !$s->{properties} || $s->{additionalProperties} || @path && exists $row{ join '.', @path };
	return map { schema_leaves($s->{properties}{$_}, @path, $_) } keys %{ $s->{properties} };
}
is(sorted_list(grep { !$row{$_} && !$older{$_} } schema_leaves($schema)), '', 'what the schema takes has a row');
my %taken = map { $_ => 1 } schema_leaves($schema);
is(sorted_list(grep { !$taken{$_} } keys %row, keys %older), '', 'and it takes what has one');
is(sorted_list(grep { !$row{$_}{none} } keys %row), sorted_list(keys %effect), 'each effect is looked for here');
is(sorted_list(grep { $row{$_}{none} } keys %row), sorted_list(keys %without_effect), 'or there is none, and the page says so');

# What the guides and the published charts name.
my @guides = (qw(nameOverride fullnameOverride fullNameOverride global.imagePullSecrets imagePullSecrets image.repository image.tag
	image.pullPolicy serviceAccount.create serviceAccount.annotations serviceAccount.name rbac.create controllers.serviceAccount.name
	podSecurityPolicyContext admissionWebhooks.image.repository admissionWebhooks.image.tag admissionWebhooks.image.pullPolicy
	global.vipuControllers vipuControllers vipuServerAddr vipuServerPort vipuClusterName vipuCLusterName global.launcherImage
	global.launcherImageTag global.launcherImagePullPolicy laucherImagePullPolicy global.kubectlVersion controller.hostNetwork
	controller.dnsPolicy controller.develLogs vipuProxy.proxyPartitionTrackerConfigMap vipuProxy.proxyPort proxyPort controllerPort
	vipuProxy.proxyReadTimeoutSeconds vipuProxy.proxyWriteTimeoutSeconds vipuProxy.proxyIdleTimeoutSeconds vipuProxy.logLevel
	service.type service.port resources podAnnotations podSecurityContext securityContext nodeSelector tolerations affinity
	admissionWebhooks.scope admissionWebhooks.timeoutSeconds admissionWebhooks.failurePolicy admissionWebhooks.port
	admissionWebhooks.service.annotations admissionWebhooks.service.servicePort admissionWebhooks.service.type
	admissionWebhooks.patch.enabled vipuProxy.page worker.hostNetwork ipuVisibility.advertiseOnMaster extendedScheduler.enabled
	autoscaling.enabled), map { my $of = $_; map { "$of.$_" } qw(image.repository image.tag image.pullPolicy serviceAccount.create
	serviceAccount.annotations serviceAccount.name rbac.create service.type service.port resources podAnnotations podSecurityContext
	securityContext nodeSelector tolerations affinity) } qw(controller vipuProxy));
is(sorted_list(grep { !$row{$_} && !$older{$_} } @guides), '', 'what the guides name is there');

# ---- each parameter, by each of its names ----

sub nested (%flat) {
	my %all;
	for my $name (sort keys %flat) {
		my @path = split /\./, $name;
		my $last = pop @path;
		my $at = \%all;
		$at = $at->{$_} //= {} for @path;
		$at->{$last} = $flat{$name};
	}
	return \%all;
}

my $n = 0;
sub values_file (%flat) { return ('-f', spit(test_dir() . '/values-' . $n++ . '.json', json_encode(nested(%flat)))) }

# As a person gives it.
sub set ($name, $v) {
	return ('--set-json', "$name=" . json_encode($v)) if ref $v && !JSON::PP::is_bool($v);
	return ('--set', "$name=" . (JSON::PP::is_bool($v) ? ($v ? 'true' : 'false') : $v =~ s/,/\\,/gr));
}

sub has_effect ($objects, $what, @pairs) {
	while (my ($where, $want) = splice(@pairs, 0, 2)) {
		my $got = find($objects, $where);
		if (ref $want eq 'CODE') {
			ok($want->($got), "$what: $where") or diag(json_encode($got));
		} else {
			is(defined $got ? json_encode($got) =~ s/^"(.*)"$/$1/r : undef,
				defined $want ? json_encode($want) =~ s/^"(.*)"$/$1/r : undef, "$what: $where");
		}
	}
}

my $plain = $chart->render;
my ($default) = $chart->objects($plain);

subtest 'defaults' => sub {
	my %default;
	for my $name (grep { defined $row{$_}{default} } keys %row) {
		my $v = eval { json_decode($row{$name}{default}) } // $row{$name}{default};
		my @is = grep { $_ eq $name } leaves($values);
		my $is = $values;
		$is = ref $is ? $is->{$_} : undef for split /\./, $name;
		is(json_encode($is), json_encode($v), "$name in values.yaml") if defined $is;
		$default{$name} = $v;
	}
	cmp_ok(scalar keys %default, '>', 70, 'the page has them');
	is($chart->render(values_file(%default)), $plain, 'said again, they change nothing');
};

# What `vipuProxy:` with all below it commented out is; helm then forgets the default too.
sub emptied ($v, $depth) { return !$depth || ref $v ne 'HASH' || !%$v ? undef : { map { $_ => emptied($v->{$_}, $depth - 1) } keys %$v } }

subtest 'keys without a value' => sub {
	my @on = qw(node.enabled networkPolicy.enabled autoscaling.enabled metrics.prometheusRule.enabled extendedScheduler.enabled);
	my $wanted = $chart->render(map { set($_, $yes) } @on);
	for my $depth (1 .. 3) {
		my $file = emptied($values, $depth);
		is($chart->render(values_file(%$file)), $plain, "$depth deep: they have their defaults");
		next if $depth == 1; # with what is on, none would be empty
		for (@on) {
			my @path = split /\./;
			my $at = $file;
			$at = $at->{$_} //= {} for @path[ 0 .. $#path - 1 ];
			$at->{ $path[-1] } = $yes;
		}
		is($chart->render(values_file(%$file)), $wanted, '... and so have those beside what is set');
	}
	is($chart->render(values_file('operatorConfig' => { queue => undef, log => undef })), $plain, 'operatorConfig, too');
};

subtest 'each by each of its names' => sub {
	my (@what, @texts);
	for my $name (sort keys %effect) {
		my ($v, @pairs) = @{ $effect{$name} };
		my $with = ref $pairs[0] ? shift @pairs : {};
		for my $as ($name, @{ $row{$name}{older} }) {
			push @texts, $chart->render((map { set($_, $with->{$_}) } sort keys %$with), set($as, $v));
			push @what, [ $as eq $name ? $name : "$as ($name)", @pairs ];
			is(find($default, $pairs[0]) // 'nothing', 'nothing', "$name: it isn't there anyway")
				if ref $pairs[1] eq 'CODE' && $pairs[1] == $there;
		}
	}
	my @objects = $chart->objects(@texts);
	has_effect($objects[$_], @{ $what[$_] }) for 0 .. $#what;
	for (sort keys %effect) {
		my ($v, @pairs) = @{ $effect{$_} };
		shift @pairs if ref $pairs[0];
		next if ref $pairs[1];
		isnt(json_encode(find($default, $pairs[0])), json_encode($pairs[1]), "$_: the test sees a change");
	}
};

subtest 'the newest name counts' => sub {
	my (@what, @texts);
	for my $name (sort grep { @{ $row{$_}{older} } } keys %effect) {
		my ($v, @pairs) = @{ $effect{$name} };
		for my $as (@{ $row{$name}{older} }) {
			push @texts, $chart->render(set($name, $v), set($as, other($v)));
			push @what, [ "$name beside $as", @pairs ];
		}
	}
	cmp_ok(scalar @texts, '>', 30, 'there are many');
	my @objects = $chart->objects(@texts);
	has_effect($objects[$_], @{ $what[$_] }) for 0 .. $#what;
};

is($chart->render(values_file(%without_effect)), $plain, 'what is accepted without effect has none');

# ---- what holds for whatever is rendered ----

sub pod_specs ($objects) {
	return map { [ $_, $objects->{$_}{spec}{template}{spec} // $objects->{$_}{spec},
		$objects->{$_}{spec}{template}{metadata} // $objects->{$_}{metadata} ] } sort grep { m{^(Deployment|Job|Pod)/} } keys %$objects;
}

sub is_sound ($objects, $what, %other) {
	my @deployments = grep { $_->[0] =~ /^Deployment/ } pod_specs($objects);
	my $ns = $other{ns} // 'ops';
	for my $name (sort grep { m{^Service/} } keys %$objects) {
		my $service = $objects->{$name}{spec};
		next if ($service->{type} // '') eq 'ExternalName';
		my @behind = grep {
			my $labels = $_->[2]{labels};
			!grep { ($labels->{$_} // '') ne $service->{selector}{$_} } keys %{ $service->{selector} };
		} @deployments;
		is(scalar @behind, 1, "$what: one Deployment is behind $name") or next;
		my %port = map { $_->{name} => 1 } @{ $behind[0][1]{containers}[0]{ports} };
		ok($port{ $_->{targetPort} }, "$what: $name: port $_->{targetPort}") for @{ $service->{ports} };
	}
	for (pod_specs($objects)) {
		my ($name, $spec) = @$_;
		my ($container) = @{ $spec->{containers} };
		my @bad = grep { !$spec->{securityContext}{runAsNonRoot} || $spec->{securityContext}{seccompProfile}{type} ne 'RuntimeDefault'
			|| $_->{securityContext}{allowPrivilegeEscalation} || "@{ $_->{securityContext}{capabilities}{drop} }" ne 'ALL'
			|| !$_->{securityContext}{readOnlyRootFilesystem} } @{ $spec->{containers} };
		is($spec->{enableServiceLinks}, $no, "$what: $name gets no variables of a Service ipuoperator-…, which stand for no key");
		is(scalar @bad, 0, "$what: $name is as Pod Security's level restricted wants it");
		for my $volume (@{ $spec->{volumes} // [] }) {
			ok($objects->{"ConfigMap/$volume->{configMap}{name}"}, "$what: $name: $volume->{name}") if $volume->{configMap};
		}
		my $account = $spec->{serviceAccountName} // 'default';
		ok($account eq 'default' || $other{account} || $objects->{"ServiceAccount/$account"}, "$what: $name: account $account");
	}
	for my $name (sort keys %$objects) {
		my $is_cluster = $name =~ m{^(ClusterRole(Binding)?|(Mutating|Validating)WebhookConfiguration)/};
		is($objects->{$name}{metadata}{namespace}, $is_cluster ? undef : $ns, "$what: $name: where it is");
	}
	for my $binding (grep { m{Binding/} } sort keys %$objects) {
		my $of = $objects->{$binding};
		ok($objects->{"$of->{roleRef}{kind}/$of->{roleRef}{name}"}, "$what: $binding has a role");
		for my $subject (@{ $of->{subjects} }) {
			ok($other{account} || $objects->{"ServiceAccount/$subject->{name}"}, "$what: $binding: account $subject->{name}");
			is($subject->{namespace}, $ns, "$what: $binding: its namespace");
		}
	}
	return;
}

my @full = values_file('global.vipuControllers' => [ 'pod001:8090:ipunode=a', { address => 'pod002', tls => $yes, secretName => 's' } ],
	'vipuServerAddr' => 'vipu.example.com', 'controller.replicas' => 2, 'vipuProxy.replicas' => 3, %$scaled, %$own, %$monitor, %$rules,
	%$board, %$policy, 'operatorConfig' => { pods => { mode => 'init' }, policy => { namespaces => { a => { maxIpus => 4 } } } });
my %renders = (split => [], combined => [ set('topology', 'combined') ], full => \@full,
	'full, combined' => [ @full, set('topology', 'combined'), set('autoscaling.enabled', $no) ], named => [ set('fullnameOverride', 'zz') ],
	'an account of theirs' => [ map { set("serviceAccount.$_->[0]", $_->[1]) } [ create => $no ], [ name => 'joe' ] ],
	'one account for both' => [ set('serviceAccount.name', 'joe') ]);
my @renders = sort keys %renders;
my %text = map { $_ => $chart->render(@{ $renders{$_} }) } @renders;
my %objects;
@objects{@renders} = $chart->objects(map { $text{$_} } @renders);

# Where nobody answers.
my $kubeconfig = spit(test_dir() . '/kubeconfig', json_encode({ apiVersion => 'v1', kind => 'Config', 'current-context' => 'c',
	clusters => [ { name => 'c', cluster => { server => 'https://127.0.0.1:1' } } ], users => [ { name => 'u', user => {} } ],
	contexts => [ { name => 'c', context => { cluster => 'c', user => 'u' } } ] }));

subtest 'it holds together' => sub {
	is_sound($objects{$_}, $_, account => scalar(/theirs/)) for @renders;
	my @left = grep { /ipu-operator-/ && !m{ipu-operator-1\.0\.0|audience: ipu-operator-proxy|/etc/ipu-operator-webhook} } split /\n/,
		$text{named};
	is_deeply(\@left, [], 'with another name, none of the usual ones is left');
	my ($heads) = $chart->objects($chart->render(values_file('node.enabled' => $yes, 'operatorConfig' =>
		{ node => { rdma => 'any', cniFolder => '/var/cni' }, log => { level => 5 }, queue => { choice => 'bestFit' } })));
	my $file = spit(test_dir() . '/node.yaml', $heads->{'ConfigMap/ipu-operator-node-config'}{data}{'operator.yaml'});
	like(slurp($file), qr/^  rdma: any$/m, "the role node has what operatorConfig.node says");
	unlike(slurp($file), qr/bestFit|secure|tracker/, '... and nothing of the others');
	is(run([ program('ipu-operator'), '--check-config', '--roles=node', '--config', $file ], env => { KUBECONFIG => $kubeconfig })->{status}, 0,
		'... which it takes');
	is(find($heads, "$daemon volumeMounts cni mountPath"), undef, '... and mounts nothing of it: the role doesn\'t read it');
	my ($quiet) = $chart->objects($chart->render(set('topology', 'combined'), set('controller.image.tag', 'v2'),
		set('operatorConfig', { proxy => { details => $no } })));
	is(find($quiet, 'Pod/ipu-operator-test-controllers'), undef, 'what isn\'t answered isn\'t tested');
	is(find($quiet, 'Pod/ipu-operator-test-stats spec containers ipuctl image'), 'localhost/ipu-operator:v2', 'tests have the image that runs');
	my ($one, $two) = $chart->objects(map { $chart->render('--namespace', $_, set('fullnameOverride', $_)) } qw(one two));
	is_sound($one, 'one', ns => 'one');
	is_sound($two, 'two', ns => 'two');
	is_deeply([ grep { $two->{$_} } keys %$one ], [], 'two releases have no object of one name');
};

subtest 'the ServiceMonitor does as the configuration says' => sub {
	my $endpoint = sub (%config) {
		my ($objects) = $chart->objects($chart->render(values_file(%$monitor, 'operatorConfig' => \%config)));
		return find($objects, 'ServiceMonitor/ipu-operator spec endpoints 0');
	};
	my $tls = { serverName => 'ipu-operator-controller-manager-metrics.ops.svc', ca => { secret => { name => 'mine', key => 'ca.crt' } } };
	my $secure = $endpoint->(certificates => { secret => 'mine' });
	is_deeply($secure->{tlsConfig}, $tls, 'the Secret with the authority');
	is($secure->{scheme}, 'https', '... with TLS');
	is_deeply($endpoint->(metrics => { secure => $no }), { port => 'https', scheme => 'http', interval => '30s' }, 'without TLS nobody shows a token');
};

subtest 'metrics of head nodes' => sub {
	my @on = (values_file('node.enabled' => $yes, 'node.namespace' => 'heads', 'node.metricsListen' => ':8447', %$monitor));
	my ($with, $without) = $chart->objects($chart->render(@on), $chart->render(@on, '--set', 'node.metricsListen='));
	my $pods = $with->{'PodMonitor/ipu-operator-node'};
	is($pods->{metadata}{namespace}, 'heads', 'a PodMonitor is beside the Pods');
	my ($wanted, $labels) = ($pods->{spec}{selector}{matchLabels}, find($with, "$daemons metadata labels"));
	is_deeply({ map { $_ => $labels->{$_} } keys %$wanted }, $wanted, '... and selects them');
	ok(find($with, "$daemon ports $pods->{spec}{podMetricsEndpoints}[0]{port} containerPort"), '... by a port that they have');
	is($without->{'PodMonitor/ipu-operator-node'}, undef, 'without metrics, none');
	my ($secure) = $chart->objects($chart->render(@on, '--set', 'node.metricsSecure=true,node.metricsCertificate=mine'));
	my ($service, $scrape) = @$secure{qw(Service/ipu-operator-node-metrics ServiceMonitor/ipu-operator-node)};
	is($secure->{'PodMonitor/ipu-operator-node'}, undef, 'with TLS there is a ServiceMonitor instead');
	is_deeply([ map { $_->{metadata}{namespace} } $service, $scrape ], [qw(heads heads)], '... beside the Pods');
	is_deeply({ map { $_ => $service->{metadata}{labels}{$_} } keys %{ $scrape->{spec}{selector}{matchLabels} } }, $scrape->{spec}{selector}{matchLabels},
		'... which selects its Service');
	is_deeply({ map { $_ => $labels->{$_} } keys %{ $service->{spec}{selector} } }, $service->{spec}{selector}, '... and that the Pods');
	is($scrape->{spec}{endpoints}[0]{port}, $service->{spec}{ports}[0]{name}, '... by its port');
	is($service->{spec}{ports}[0]{port}, 8447, '... which is the nodes\'');
	is_deeply($scrape->{spec}{endpoints}[0]{tlsConfig}, { serverName => 'ipu-operator-node-metrics', ca => { secret => { name => 'mine', key => 'ca.crt' } } },
		'... and shows its token to those alone whose certificate it has verified');
	my ($own) = $chart->objects($chart->render(values_file('node.enabled' => $yes, 'node.metricsListen' => ':8447', 'node.metricsSecure' => $yes)));
	is_deeply([ grep { /Monitor|node-metrics/ } keys %$own ], [], 'certificates of the nodes\' own are for other scrape configurations');
};

subtest 'Nodes are cleaned after it all' => sub {
	my $command = sub (%values) {
		my ($objects) = $chart->objects($chart->render(values_file(%values)));
		return join ' ', @{ find($objects, 'Job/ipu-operator-clean-nodes spec template spec containers ipuctl command') // [] };
	};
	my $clean = '/usr/bin/ipuctl node clean --all --instance rel --wait 90';
	is($command->('node.enabled' => $yes), "$clean --force", 'the DaemonSet has gone: its last word counts for nothing');
	is($command->('ipuVisibility.advertise' => 'whole'), $clean, 'without one, a role that has just written is another\'s');
};

subtest 'the policy is that of the examples' => sub {
	my ($got) = $chart->objects($chart->render(values_file('node.enabled' => $yes, 'node.namespace' => 'ipu-node', 'node.policy' => $yes)));
	my ($want) = $chart->objects(file_text('doc/examples/cluster/node-policy.yaml'));
	is_deeply($got->{"$_/ipu-operator-node"}{spec}, $want->{"$_/ipu-operator-node"}{spec}, $_) for sort map { s{/.*}{}r } keys %$want;
};

subtest 'an account for ipu-operator-node.service' => sub {
	my ($chart_s) = $chart->objects($chart->render(set('node.enabled', $yes), set('fullnameOverride', 'ipu-operator')));
	my ($example) = $chart->objects(file_text('doc/examples/cluster/head-node-account.yaml'));
	for my $kind (qw(ClusterRole Role)) {
		my ($want, $got) = ($chart_s->{"$kind/ipu-operator-node"}{rules}, $example->{"$kind/ipu-operator-head-node"}{rules});
		ok($want && @$want, "$kind: the chart has rules");
		is_deeply($got, $want, '... and the example the same');
	}
};

subtest 'the daemon takes the configuration' => sub {
	for my $name (@renders) {
		my ($map) = grep { $_->{config} } values %{ $objects{$name} };
		my $file = spit(test_dir() . '/operator.yaml', $map->{data}{'operator.yaml'});
		for (grep { $_->[0] =~ /^Deployment/ } pod_specs($objects{$name})) {
			my ($container) = @{ $_->[1]{containers} };
			my %env = map { $_->{name} => $_->{value} =~ s/\$\(POD_IP\)/fd00::1/r } grep { defined $_->{value} } @{ $container->{env} };
			my $done = run([ program('ipu-operator'), '--config', $file, '--check-config', @{ $container->{args} } ],
				env => { KUBECONFIG => $kubeconfig, IPUOPERATOR_LEADER_ELECTION_IDENTITY => 'pod', %env });
			is($done->{status}, 0, "$name, $_->[0]") or diag($done->{err});
		}
	}
};

subtest 'webhooks are those of the reference' => sub {
	my @rows = map { [ split /\s*\|\s*/, $_ ] } grep { /^\| `\w+\.graphcore\.ai` \|/ } split /\n/, file_text('doc/reference/names.md');
	my %hook = map { $_->{name} => $_ } map { @{ $default->{$_}{webhooks} } } grep { /WebhookConfiguration/ } sort keys %$default;
	is(sorted_list(map { "`$_`" } keys %hook), sorted_list(map { $_->[1] } @rows), 'their names');
	for (@rows) {
		my ($name, $path) = map { s/`//gr } @$_[ 1, 2 ];
		my $hook = $hook{$name};
		is($hook->{clientConfig}{service}{path}, $path, "$name: path");
		is($hook->{clientConfig}{caBundle}, undef, "$name: caBundle is the operator's");
		is_deeply([ @$hook{qw(sideEffects admissionReviewVersions reinvocationPolicy)} ],
			[ 'None', [ 'v1', 'v1beta1' ], $name =~ /^v/ ? undef : 'Never' ], "$name: how it is called");
		my $condition = $hook->{matchConditions}[0];
		my ($want) = file_text('include/admission/registration.h') =~
			/CONDITION_\w+_NAME "\Q$condition->{name}\E"\n#define ADMISSION_CONDITION_\w+((?:.*\\\n)*.*)/;
		is($condition->{expression}, join('', ($want // '') =~ /"([^"]*)"/g), "$name: when");
	}
	my ($names) = grep { $_->{operator} eq 'NotIn' } @{ $hook{'mpod.graphcore.ai'}{namespaceSelector}{matchExpressions} };
	is_deeply($names->{values}, [ 'kube-system', 'ops' ], 'Pods that the cluster and the operator need aren\'t looked at');
};

# ---- what is refused ----

subtest 'bad values' => sub {
	for (
		[ [qw(--set vipuserveraddr=a)], qr/'vipuserveraddr' not allowed/ ],
		[ [qw(--set global.vipuController=a)], qr{/global.*'vipuController' not allowed} ],
		[ [ '--set', 'vipuControllers=a:1:x=y,b:2:x=z' ], qr/'b:2:x' not allowed/ ],
		[ [qw(--set controller.replica=2)], qr{/controller.*'replica' not allowed} ],
		[ [qw(--set vipuServerPort=http)], qr{/vipuServerPort.*want integer} ],
		[ [qw(--set vipuServerPort=0)], qr{/vipuServerPort} ],
		[ [qw(--set vipuServerAddr=http://a)], qr{/vipuServerAddr} ],
		[ [qw(--set vipuServerAddr=bad_name)], qr{/vipuServerAddr} ],
		[ [qw(--set vipuServerAddr=a:8090)], qr{/vipuServerAddr} ],
		[ [qw(--set image.repository=reg:5000/a/b:tag)], qr{/image/repository} ],
		[ [qw(--set controller.image.repository=a:b)], qr{/controller/image/repository} ],
		[ [qw(--set image.repository=)], qr/image\.repository: is empty/ ],
		(map { [ [ '--set', "$_=https://m.example" ], qr{/@{[ tr/./\//r ]}'} ] } qw(global.imageRegistry image.registry vipuProxy.image.registry global.launcherImage)),
		[ [ '--set', 'controller.extraEnv[0].name=A,controller.extraEnv[0].value=5' ], qr{/controller/extraEnv/0/value} ],
		[ [ '--set', 'autoscaling.enabled=true,autoscaling.minReplicas=6' ], qr/autoscaling\.minReplicas: 6 is more than autoscaling\.maxReplicas, 5/ ],
		[ [qw(--set operatorConfig.queue.choise=x)], qr{/operatorConfig/queue.*'choise' not allowed} ],
		[ [qw(--set operatorConfig.policy.namespaces.a.maxIpu=3)], qr{/namespaces/a.*'maxIpu' not allowed} ],
		[ [qw(--set operatorConfig.leaderElection.enabled=false)], qr/operatorConfig\.leaderElection\.enabled: can't be false: in an upgrade/ ],
		(map { [ [ '--set', "admissionWebhooks.certificate.$_" ], qr/admissionWebhooks\.certificate: is used for nothing while.*patch\.enabled to false/ ] }
			qw(secretName=a caBundle=QUJD annotations.a=b)),
		[ [qw(--set topology=both)], qr/'split', 'combined'/ ],
		[ [qw(--set image.pullPolicy=Sometimes)], qr/'IfNotPresent'/ ],
		[ [qw(--set image.digest=sha256:1)], qr{/image/digest} ],
		[ [qw(--set vipuProxy.logLevel=7)], qr/want 6/ ],
		[ [qw(--set vipuProxy.page=all)], qr/'usage'/ ],
		[ [qw(--set admissionWebhooks.timeoutSeconds=31)], qr/want 30/ ],
		[ [qw(--set admissionWebhooks.failurePolicy=Retry)], qr/'Ignore'/ ],
		[ [qw(--set admissionWebhooks.scope=Team_A)], qr{/admissionWebhooks/scope} ],
		[ [qw(--set vipuProxy.service.type=ExternalName)], qr/'NodePort'/ ],
		[ [qw(--set fullnameOverride=GC)], qr{/fullnameOverride} ],
		[ [ '--set', 'global.vipuControllers[0].addres=a' ], qr{/global/vipuControllers/0.*'addres' not allowed}s ],
		[ [ '--kube-version', '1.29.0' ], qr/kubeVersion/ ],
		(map { [ [ '--set', "proxyPort=$_" ], qr/vipuProxy\.proxyPort: $_ is taken/ ] } 8081, 8444 .. 8446),
		(map { [ [ '--set', "admissionWebhooks.port=$_" ], qr/admissionWebhooks\.port: $_ is taken/ ] } 8081, 8444),
		[ [ '--set', 'topology=combined,admissionWebhooks.port=8445' ], qr/admissionWebhooks\.port: 8445 is taken/ ],
		[ [ '--set', 'topology=combined,admissionWebhooks.port=8080' ], qr/8080 is vipuProxy\.proxyPort too/ ],
		[ [qw(--set service.port=443)], qr/vipuProxy\.service\.port: 443 is that Service's port for partitions/ ],
		[ [ '--set', 'topology=combined,autoscaling.enabled=true' ], qr/autoscaling\.enabled: .*combined; set controller\.replicas/ ],
		[ [qw(--set extendedScheduler.clientCASecret=s)], qr/extendedScheduler\.clientCASecret: nobody is asked for a certificate/ ],
		[ [ '--set', 'extendedScheduler.enabled=true', '--set', 'extendedScheduler.clientNames={a}' ], qr/extendedScheduler\.clientNames: are of certificates/ ],
		[ [ '--set', 'extendedScheduler.clientNames={a,}' ], qr{/extendedScheduler/clientNames/1} ],
		(map { [ [ '--set', "worker.rdmaNetwork=$_" ], qr{/worker/rdmaNetwork} ] } 'Bad Name', 'a/b/c', 'a@', 'a.b', 'a@' . 'b' x 16),
		(map { [ [ '--set', "worker.rdmaResource=$_" ], qr{/worker/rdmaResource} ] } 'foo', 'a/', '/a', 'a/b c'),
		[ [qw(--set operatorConfig.node.rdma=foo)], qr{/operatorConfig/node/rdma} ],
		[ [qw(--set operatorConfig.node.name=foo)], qr/operatorConfig\.node\.name: can't be set: each of the DaemonSet's Pods/ ],
		[ [qw(--set operatorConfig.node.root=/x)], qr/operatorConfig\.node\.root: can't be set: .*at \/host/ ],
		[ [qw(--set node.metricsSecure=true)], qr/node\.metricsSecure: the nodes give no metrics/ ],
		[ [ '--set', 'node.enabled=true,node.metricsListen=:8447,node.metricsSecure=true,metrics.serviceMonitor.enabled=true' ],
			qr/node\.metricsSecure: Prometheus would show its token to whoever answers.*set node\.metricsCertificate/ ],
		[ [qw(--set node.metricsCertificate=s)], qr/node\.metricsCertificate: is used for nothing/ ],
		[ [qw(--set node.metricsListen=:9000 --set node.healthPort=9000)], qr/node\.metricsListen: 9000 is node\.healthPort too/ ],
		(map { [ [ '--set', "operatorConfig.$_->[0]=:9999" ], qr/operatorConfig\.\Q$_->[0]\E: the Pods' ports.*; $_->[1]/ ] }
			[ 'proxy.listen', 'set vipuProxy\.proxyPort' ], [ 'proxy.tlsListen', 'its port' ], [ 'health.listen', 'its port' ],
			[ 'webhook.listen', 'set admissionWebhooks\.port' ], [ 'metrics.listen', 'its port' ], [ 'scheduler.listen', 'set extendedScheduler' ]),
	) {
		my ($arguments, $why) = @$_;
		my $done = $chart->try_render(@$arguments);
		isnt($done->{status}, 0, "@$arguments");
		like($done->{err}, $why, 'why');
	}
};

subtest 'spelt otherwise' => sub {
	my ($one) = $chart->objects($chart->render('--set', 'service.type=clusterIP', '--set', 'vipuProxy.page=off', '--set',
		'image.tag=18', '--set', 'imagePullSecrets.name=s', '--set', 'vipuServerAddr=10.1.1.1', '--set', 'nodeSelector.x=true',
		'--set', 'controller.podAnnotations.n=1', '--set', 'vipuControllers=a:1:x=y\,b:2:x=z', '--set', 'fullnameOverride='));
	my $proxy = 'Deployment/rel-ipu-operator-vipu-proxy';
	is(find($one, 'Service/rel-ipu-operator-vipu-proxy spec type'), 'ClusterIP', 'the guides\' clusterIP');
	is(find($one, "$proxy spec template spec containers ipu-operator image"), 'localhost/ipu-operator:18', 'a tag that is a number');
	my ($dated) = $chart->objects($chart->render('--set', 'image.tag=20250101', '--set', 'global.launcherImageTag=20250102'));
	is(find($dated, "$cc image"), 'localhost/ipu-operator:20250101', '... or a date');
	like(find($dated, 'ConfigMap/ipu-operator-config data operator.yaml'), qr{^  image: localhost/ipu-operator:20250102$}m, '... the launcher\'s too');
	is(find($one, "$proxy spec template spec imagePullSecrets 0 name"), 's', 'one pull secret as a map');
	is(find($one, "$proxy spec template spec nodeSelector x"), 'true', 'text that helm takes for something else');
	like(find($one, 'ConfigMap/rel-ipu-operator-config data operator.yaml'), qr/^  page: "off"$/m, 'off, which helm takes for false');
	is(find($one, 'Service/rel-ipu-operator-vipu-controller'), undef, 'an address needs no name');
	is(find($one, 'ConfigMap/rel-ipu-operator-vipu-controllers data controllers.yaml'), 'a:1:x=y,b:2:x=z', 'a list with commas');
};

subtest 'the Pods of hooks and tests' => sub {
	my ($o) = $chart->objects($chart->render('--set', 'controller.resources.limits.cpu=1,controller.priorityClassName=high',
		'--set-string', 'controller.podAnnotations.sidecar=no,controller.podLabels.team=a', '--set', 'node.enabled=true'));
	for my $job (qw(crd-upgrade clean-nodes)) {
		my $of = "Job/ipu-operator-$job spec template";
		is_deeply(find($o, "$of spec containers ipuctl resources"), { limits => { cpu => 1 }, requests => { cpu => '50m', memory => '32Mi' } }, "$job has the controller's resources");
		is(find($o, "$of spec priorityClassName"), 'high', '... its priority');
		is(find($o, "$of metadata annotations sidecar"), 'no', '... its annotations');
		is(find($o, "$of metadata labels team"), 'a', '... and labels');
	}
	my $test = 'Pod/ipu-operator-test-stats';
	is(find($o, "$test spec containers ipuctl resources limits cpu"), 1, 'so has a test');
	is_deeply([ map { find($o, "$test metadata $_") } 'annotations sidecar', 'labels team' ], [qw(no a)], '... its annotations and labels');
};

subtest 'a policy for a controller on its node\'s network' => sub {
	my $from = 'NetworkPolicy/ipu-operator-vipu-proxy spec ingress 1 from';
	my @set = ('--set', 'networkPolicy.enabled=true');
	my ($usual, $host) = $chart->objects(map { $chart->render(@set, '--set', "controller.hostNetwork=$_") } qw(false true));
	ok(find($usual, $from), 'the operator\'s Pods alone ask for partitions');
	is(find($host, $from), undef, 'it comes from its node\'s address: everybody may');
};

# Without a cluster, which helm template is, nobody knows whether one is there.
subtest 'the list of controllers, unseen' => sub {
	my $list = 'ConfigMap/ipu-operator-vipu-controllers';
	my ($none, $some) = $chart->objects($chart->render, $chart->render('--set', 'global.vipuControllers=pod1:8090:ipunode=a'));
	is(find($none, $list), undef, 'no list of the values: none is written over one that may be there');
	is(find($some, "$list data controllers.yaml"), 'pod1:8090:ipunode=a', 'one of the values is');
};

subtest 'the list of controllers as a list' => sub {
	my $map = $objects{full}{'ConfigMap/ipu-operator-vipu-controllers'};
	like($map->{data}{'controllers.yaml'}, qr/\A- pod001:8090:ipunode=a\n- address: pod002\n  secretName: s\n  tls: true\z/, 'is one there');
};

# ---- the chart itself ----

is(file_text('helm/ipu-operator/crds/graphcore.ai_ipujobs.yaml'), file_text('crds/graphcore.ai_ipujobs.yaml'),
	'the CustomResourceDefinition is the project\'s');
my $lint = $chart->try_helm('lint', '--strict', $chart->path);
is($lint->{status}, 0, 'helm lint --strict') or diag($lint->{out} . $lint->{err});
my $full = $chart->try_helm('lint', '--strict', $chart->path, @full);
is($full->{status}, 0, 'with all that can be on') or diag($full->{out} . $full->{err});

subtest 'notes' => sub {
	my $notes = sub (@words) {
		my $done = $chart->try_helm('install', 'rel', $chart->path, '--dry-run=client', '--namespace', 'ops', @words);
		return ($done->{out} =~ /^NOTES:\n(.*)/ms)[0] // die $done->{err};
	};
	like($notes->(), qr/WARNING: no V-IPU controller/, 'no controller: a warning');
	unlike($notes->(qw(--set vipuServerAddr=a)), qr/WARNING/, 'with one, none');
	my @combined = qw(--set vipuServerAddr=a --set topology=combined --set);
	like($notes->(@combined, 'vipuProxy.replicas=3'), qr/^WARNING: vipuProxy\.replicas has no effect with topology combined: controller\.replicas counts\.$/m, 'replicas that there are not');
	unlike($notes->(@combined, 'controller.replicas=3'), qr/WARNING/, '... those that there are');
	like($notes->(qw(--set image.pullPolicy=Always)), qr/^WARNING: with image\.pullPolicy Always nodes ask the registry localhost/m, 'an image that nobody can get');
	unlike($notes->(qw(--set image.pullPolicy=Always --set vipuServerAddr=a --set image.registry=r.example)), qr/WARNING/, '... or can');
	my $more = $notes->(qw(--set extendedScheduler.enabled=true --set vipuProxy.page=full --set ipuVisibility.advertise=share --set fullnameOverride=zz));
	like($more, qr/reads the\nnames of jobs there: vipuProxy\.page\):\n\n +kubectl -n ops port-forward service\/zz-vipu-proxy 8080:80$/m, 'where the page is');
	like($notes->(), qr/\(by namespace, without names: vipuProxy\.page\)/, '... and what it shows');
	unlike($notes->(qw(--set vipuProxy.page=off)), qr/browser/, '... or nothing of it');
	like($more, qr/show them as graphcore\.ai\/ipu \(share\)/, 'what Nodes show');
	like($more, qr/^ +kind: KubeSchedulerConfiguration\n.*serverName: zz-vipu-proxy\.ops\.svc\n/ms, 'how the scheduler is told');
	unlike($more, qr/certFile/, 'which shows nobody who it is');
	my @asked = ('--set', 'extendedScheduler.enabled=true,extendedScheduler.clientCASecret=s,extendedScheduler.clientNames={a,b}');
	like($notes->(@asked), qr{caData: CA_DATA\n +certFile: /etc/kubernetes/pki/ipu-scheduler\.crt\n +keyFile: \S+\n\n.*the Secret s, for a or b, and the\nkey,}s,
		'or does');
	unlike($notes->(), qr/KubeScheduler|graphcore\.ai\/ipu\b/, 'or nothing of both');
	like($notes->(), qr/Pods are on their nodes' network, and privileged/, 'how Pods reach RDMA devices');
	my @off = qw(--set worker.hostNetwork=false);
	like($notes->(@off), qr/^   Jobs' Pods aren't on their nodes' network, and get no other one/m, '… or don\'t');
	like($notes->(@off, qw(--set worker.rdmaNetwork=f/n)), qr/^   Jobs' Pods reach RDMA devices by the network f\/n, which must be there:$/m, '… by a network');
	like($notes->(@off, qw(--set worker.rdmaNetwork=f/n --set worker.rdmaResource=rdma/a)),
		qr/by the network f\/n and the resource rdma\/a, which must be there:\n\n     kubectl get network/, '… and a device');
	like($notes->(@off, qw(--set worker.rdmaResource=rdma/a)), qr/by the resource rdma\/a, which/, '… or by that alone');
	like($notes->(qw(--set worker.rdmaNetwork=n)), qr/^   WARNING: worker\.rdmaNetwork has no effect beside it\.$/m, '... and what has no effect');
	like($notes->(qw(--set worker.rdmaNetwork=n --set worker.rdmaResource=rdma/a)), qr/worker\.rdmaNetwork and worker\.rdmaResource have no effect/, '... both');
	my $by_hand = qr/kubectl label nodes NODE KEY=VALUE/;
	my @noded = qw(--set node.enabled=true);
	like($notes->(), qr/^2\. Label the nodes .*\n\n +$by_hand\n/m, 'labels are set by hand');
	like($notes->(@noded), qr/^2\. Nodes .* from the role node\. Nothing\n   is to be done by hand/m, '... or not');
	unlike($notes->(@noded), $by_hand, '... at all');
	like($notes->(@noded, qw(--set operatorConfig.node.rdma=any)), qr/With node\.rdma: any those alone .*\n\n +$by_hand\n/, '... or some');
	like($notes->(@noded, qw(--set operatorConfig.node.labels=false)), qr/^2\. Label the nodes/m, "... or all, where the role node doesn't");
	unlike($notes->(@noded), qr/taint goes on keeping Pods away/, 'nothing stays on Nodes');
	like($notes->(@noded, '--set', 'uninstall.cleanNodes=false'), qr/taint goes on keeping Pods away, until `ipuctl node clean --all`/, 'unless it is to');
	unlike($notes->(), qr/\btaint/, '... unless there is nothing');
	unlike($more, qr/ipu-operator-(vipu|controller)/, 'names are those of the release');
	my @lines = $more =~ /^ +ipuctl (.*?) +#/mg;
	cmp_ok(scalar @lines, '>', 0, 'ipuctl is named');
	is(run([ program('ipuctl'), split ' ' ], env => { KUBECONFIG => $kubeconfig, IPUCTL_SERVER => undef })->{status}, 3,
		"ipuctl $_: takes it, and finds nobody here") for @lines;
	like($notes->('--set', 'global.vipuControllers= '), qr/WARNING/, 'a list of nothing is none');
};

done_testing;
