#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The rules on Pod templates against a real API server: what `ipuctl validate` refuses in a template, and so
# does the webhook, Kubernetes refuses in a Pod; what Kubernetes takes though it looks odd, they take too. And the
# table of a Pod's fields is what this Kubernetes' own description gives.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use IpuTest;
use IpuTree qw(file_text top_srcdir);
use Test::More;

my $c = Cluster->up('scale', nodes => 1);

sub container (%more) { return { name => 'c', image => 'i', %more } }
sub main_with (%more) { return { containers => [ container(%more) ] } }
sub ports (@ports) { return main_with(ports => \@ports) }
sub mounting ($volumes, @mounts) {
	return { volumes => $volumes, containers => [ container(volumeMounts => \@mounts) ] };
}
my $v = { name => 'v', emptyDir => {} };

# A Pod's spec, its metadata, and the path that is told, below spec.workers.template.
my @refused = (
	[ { %{ main_with() }, hostIPC => 'true' }, {}, 'spec.hostIPC' ],
	[ main_with(tty => 1), {}, 'spec.containers[0].tty' ],
	[ { %{ main_with() }, terminationGracePeriodSeconds => '30' }, {}, 'spec.terminationGracePeriodSeconds' ],
	[ { %{ main_with() }, activeDeadlineSeconds => 0 }, {}, 'spec.activeDeadlineSeconds' ],
	[ { %{ main_with() }, schedulerName => 7 }, {}, 'spec.schedulerName' ],
	[ { %{ main_with() }, restartPolicy => 'ExitCode' }, {}, 'spec.restartPolicy' ],
	[ { %{ main_with() }, dnsPolicy => 'default' }, {}, 'spec.dnsPolicy' ],
	[ { %{ main_with() }, initContainers => {} }, {}, 'spec.initContainers' ],
	[ { %{ main_with() }, tolerations => 'all' }, {}, 'spec.tolerations' ],
	[ { %{ main_with() }, affinity => [] }, {}, 'spec.affinity' ],
	[ { %{ main_with() }, ephemeralContainers => [ container(name => 'e') ] }, {}, 'spec.ephemeralContainers' ],
	[ main_with(env => [ { name => 'A', value => 1 } ]), {}, 'spec.containers[0].env[0].value' ],
	[ main_with(env => [ { value => '1' } ]), {}, 'spec.containers[0].env[0].name' ],
	[ main_with(env => [ { name => 'A=B' } ]), {}, 'spec.containers[0].env[0].name' ],
	[ main_with(env => [ { name => 'A', value => '1', valueFrom => { fieldRef => { fieldPath => 'metadata.name' } } } ]), {},
		'spec.containers[0].env[0].valueFrom' ],
	[ main_with(args => [ '-n', 4 ]), {}, 'spec.containers[0].args[1]' ],
	[ main_with(command => 'python3 train.py'), {}, 'spec.containers[0].command' ],
	[ main_with(resources => []), {}, 'spec.containers[0].resources' ],
	[ main_with(resources => { limits => { memory => '64GB' } }), {}, 'spec.containers[0].resources.limits[memory]' ],
	[ main_with(resources => { limits => { cpu => -1 } }), {}, 'spec.containers[0].resources.limits[cpu]' ],
	[ { %{ main_with() }, imagePullSecrets => ['regcred'] }, {}, 'spec.imagePullSecrets[0]' ],
	[ { %{ main_with() }, volumes => [ { name => 'v', configMap => 'c' } ] }, {}, 'spec.volumes[0].configMap' ],
	[ main_with(image => ''), {}, 'spec.containers[0].image' ],
	[ main_with(image => 'i '), {}, 'spec.containers[0].image' ],
	[ main_with(imagePullPolicy => 'never'), {}, 'spec.containers[0].imagePullPolicy' ],
	[ main_with(terminationMessagePolicy => 'Log'), {}, 'spec.containers[0].terminationMessagePolicy' ],
	[ main_with(name => 'My_App'), {}, 'spec.containers[0].name' ],
	[ main_with(name => 'a.b'), {}, 'spec.containers[0].name' ],
	[ { containers => [ container(), container() ] }, {}, 'spec.containers[1].name' ],
	[ { %{ main_with() }, initContainers => [ container() ] }, {}, 'spec.initContainers[0].name' ],
	[ { %{ main_with() }, initContainers => [ { name => 'a' } ] }, {}, 'spec.initContainers[0].image' ],
	[ ports(80), {}, 'spec.containers[0].ports[0]' ],
	[ ports({ name => 'a' }), {}, 'spec.containers[0].ports[0].containerPort' ],
	[ ports({ containerPort => '80' }), {}, 'spec.containers[0].ports[0].containerPort' ],
	[ ports({ containerPort => 65536 }), {}, 'spec.containers[0].ports[0].containerPort' ],
	[ ports({ containerPort => 80, protocol => 'tcp' }), {}, 'spec.containers[0].ports[0].protocol' ],
	[ ports({ containerPort => 80, name => '123' }), {}, 'spec.containers[0].ports[0].name' ],
	[ ports({ containerPort => 80, name => 'a--b' }), {}, 'spec.containers[0].ports[0].name' ],
	[ ports({ containerPort => 80, name => 'abcdefghijklmnop' }), {}, 'spec.containers[0].ports[0].name' ],
	[ ports({ containerPort => 80, name => 'a' }, { containerPort => 81, name => 'a' }), {}, 'spec.containers[0].ports[1].name' ],
	[ ports({ containerPort => 80, hostPort => 9 }, { containerPort => 81, hostPort => 9 }), {},
		'spec.containers[0].ports[1].hostPort' ],
	[ { hostNetwork => JSON::PP::true, %{ ports({ containerPort => 80, hostPort => 81 }) } }, {}, 'spec.containers[0].ports[0].hostPort' ],
	[ { hostNetwork => JSON::PP::true, containers => [ container(ports => [ { containerPort => 80 } ]),
		container(name => 'd', ports => [ { containerPort => 80 } ]) ] }, {}, 'spec.containers[1].ports[0].containerPort' ],
	[ { %{ main_with() }, volumes => [ { emptyDir => {} } ] }, {}, 'spec.volumes[0].name' ],
	[ { %{ main_with() }, volumes => [ { name => 'a b', emptyDir => {} } ] }, {}, 'spec.volumes[0].name' ],
	[ { %{ main_with() }, volumes => [ $v, $v ] }, {}, 'spec.volumes[1].name' ],
	[ { %{ main_with() }, volumes => [ { %$v, hostPath => { path => '/' } } ] }, {}, 'spec.volumes[0]' ],
	[ mounting([$v], { name => 'w', mountPath => '/a' }), {}, 'spec.containers[0].volumeMounts[0].name' ],
	[ mounting([$v], { mountPath => '/a' }), {}, 'spec.containers[0].volumeMounts[0].name' ],
	[ mounting([$v], { name => 'v' }), {}, 'spec.containers[0].volumeMounts[0].mountPath' ],
	[ mounting([$v], { name => 'v', mountPath => '/a' }, { name => 'v', mountPath => '/a' }), {},
		'spec.containers[0].volumeMounts[1].mountPath' ],
	[ mounting([$v], { name => 'v', mountPath => '/a', readOnly => 'yes' }), {}, 'spec.containers[0].volumeMounts[0].readOnly' ],
	[ main_with(), { labels => { 'a b' => 'c' } }, 'metadata.labels[a b]' ],
	[ main_with(), { labels => { a => 'b c' } }, 'metadata.labels[a]' ],
	[ main_with(), { labels => { a => '-b' } }, 'metadata.labels[a]' ],
	[ main_with(), { annotations => { 'a/b/c' => 'd' } }, 'metadata.annotations[a/b/c]' ],
	[ main_with(), { labels => { 'A_b/c' => 'd' } }, 'metadata.labels[A_b/c]' ],
);

my @taken = (
	[ { %{ main_with() }, dnsPolicy => '', hostNetwork => undef, terminationGracePeriodSeconds => -1 }, {} ],
	[ { %{ main_with() }, volumes => [ { name => 'v' }, { name => 'w', emptyDir => {}, hostPath => undef } ] }, {} ],
	[ main_with(env => [ { name => 'A' }, { name => 'A', value => 'twice' }, { name => 'a.b-c', value => '' },
		{ name => 'B', value => '', valueFrom => { fieldRef => { fieldPath => 'metadata.name' } } } ]), {} ],
	[ ports({ containerPort => 80, name => 'http' }, { containerPort => 80, protocol => 'UDP', name => 'quic' }), {} ],
	[ ports({ containerPort => 80, hostPort => 80 }, { containerPort => 80, hostPort => 80, protocol => 'UDP' },
		{ containerPort => 80, hostPort => 80, hostIP => '10.0.0.1' }), {} ],
	[ { initContainers => [ container(name => 'i', ports => [ { containerPort => 80, hostPort => 80 } ]) ],
		%{ ports({ containerPort => 80, hostPort => 80 }) } }, {} ],
	[ main_with(imagePullPolicy => '', terminationMessagePolicy => undef), {} ],
	[ main_with(resources => { limits => { cpu => 0.5, memory => '64Gi' }, requests => { cpu => '+.5', memory => '1e3' } }), {} ],
	[ mounting([$v], { name => 'v', mountPath => 'a' }, { name => 'v', mountPath => '/a/' }), {} ],
	[ main_with(), { labels => { app => '', 'example.com/a.b_c' => 'A-b.c_9' }, annotations => { 'Example.com/A' => 'any thing' } } ],
);

sub on_cluster ($spec, $meta) {
	my $pod = { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'p', %$meta }, spec => $spec };
	return $c->kubectl_result([ qw(create --dry-run=server --validate=false -f -) ], stdin => IpuTest::json_encode($pod));
}

my %nowhere = (KUBECONFIG => undef, HOME => test_dir());

sub by_ipuctl ($spec, $meta) {
	my $job = { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => 'j' }, spec => {
		jobInstances => 1, ipusPerJobInstance => '4', workers => { template => { metadata => $meta, spec => $spec } } } };
	my $file = spit(test_dir() . '/job.json', IpuTest::json_encode($job));
	return run([ program('ipuctl'), 'validate', $file ], env => \%nowhere, seconds => 30);
}

for my $case (@refused) {
	my ($spec, $meta, $path) = @$case;
	my $here = by_ipuctl($spec, $meta);
	is($here->{status}, 1, "$path: refused here");
	is(scalar(() = $here->{out} =~ /: error: /g), 1, '… by one message') or diag($here->{out});
	like($here->{out}, qr/: error: \Qspec.workers.template.$path\E: /, '… at its path') or diag($here->{out});
	my $there = on_cluster($spec, $meta);
	isnt($there->{status}, 0, '… and by Kubernetes') or diag(IpuTest::json_encode($spec));
	like($there->{err}, qr/is invalid|cannot unmarshal|cannot be handled as a Pod|must be/, '… as a Pod that can not be') or diag($there->{err});
}
for my $case (@taken) {
	my ($spec, $meta) = @$case;
	my $text = IpuTest::json_encode([ $spec, $meta ]);
	my ($here, $there) = (by_ipuctl($spec, $meta), on_cluster($spec, $meta));
	is($there->{status}, 0, "$text: taken by Kubernetes") or diag($there->{err});
	is($here->{status}, 0, '… and here') or diag($here->{out});
}

# Fields that there aren't: both warn, and take the rest.
for my $case ([ { %{ main_with() }, hostnetwork => JSON::PP::true }, 'spec.hostnetwork' ],
	[ main_with(imagePullPolciy => 'Never'), 'spec.containers[0].imagePullPolciy' ],
	[ main_with(resources => { limit => { cpu => 1 } }), 'spec.containers[0].resources.limit' ]) {
	my ($spec, $path) = @$case;
	my $here = by_ipuctl($spec, {});
	like($here->{out}, qr/: warning: \Qspec.workers.template.$path\E: /, "$path: a warning here") or diag($here->{out});
	my $there = $c->kubectl_result([ qw(create --dry-run=server --validate=warn -f -) ], stdin => IpuTest::json_encode(
		{ apiVersion => 'v1', kind => 'Pod', metadata => { name => 'p' }, spec => $spec }));
	is("$here->{status} $there->{status}", '0 0', '… and taken, by both');
	like($there->{err}, qr/unknown field "\Q$path\E"/, '… with a warning by Kubernetes');
}

my $version = IpuTest::json_decode($c->kubectl_result([ qw(get --raw /version) ])->{out});
my $minor = "$version->{major}." . $version->{minor} =~ s/\D.*//r;
my $table = file_text('src/pod/fields_table.h');
SKIP: {
	skip "the table of a Pod's fields is of another Kubernetes than $minor", 1 unless $table =~ /^#define POD_FIELDS_OF "\Q$minor\E"$/m;
	my $described = spit(test_dir() . '/openapi.json', $c->kubectl_result([ qw(get --raw /openapi/v2) ])->{out});
	is(run([ 'sh', '-c', "$^X " . top_srcdir() . "/etc/pod-fields.pl $minor <$described" ], seconds => 60)->{out}, $table,
		'src/pod/fields_table.h is what make pod-fields writes of this Kubernetes');
}
$c->down;
done_testing;
