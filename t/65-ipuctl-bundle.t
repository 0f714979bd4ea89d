#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl support-bundle: what is in the archive, that no secret is, what couldn't be had, and its ends in
# size and time; read by tar and gzip.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=2', '--run-pods']);
my $token = slurp("$folder/token");
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", '--set', 'operatorNamespace=ipu-operator',
	'--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'), map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)]);

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

sub bundle {
	return run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", '--server', $operator->url('proxy', ''), 'support-bundle', @_],
		env => {HOME => test_dir(), IPUCTL_SERVER => undef, KUBECONFIG => undef}, seconds => 60);
}

# A file of the archive, by its name without the archive's folder.
sub content { my ($file, $name) = @_; return run(['tar', '-xOf', $file, '--wildcards', "*/$name"])->{out} }

# What must not get out: in a Secret, in an environment, in an argument, in a ConfigMap, in a log.
my @secrets = map { "hidden$_" } qw(Data Env Arg Map Other Log Jwt);
my $ns = '/api/v1/namespaces/ipu-operator';
is(api('POST', "$ns/secrets", json => {apiVersion => 'v1', kind => 'Secret', metadata => {name => 's'}, stringData => {a => 'hiddenData'}})->{status}, 201, 'a Secret');
is(api('POST', "$ns/configmaps", json => {apiVersion => 'v1', kind => 'ConfigMap', metadata => {name => 'ipu-operator-config',
	annotations => {'kubectl.kubernetes.io/last-applied-configuration' => '{"data":"hiddenMap"}'}},
	data => {'operator.yaml' => "vipu:\n  accessKey: hiddenMap\nproxy:\n  listen: \":8080\"\n"}})->{status}, 201, 'a configuration');
is(api('POST', "$ns/configmaps", json => {apiVersion => 'v1', kind => 'ConfigMap', metadata => {name => 'theirs'}, data => {a => 'hiddenOther'}})->{status}, 201, "another's ConfigMap");
is(api('POST', "$ns/configmaps", json => {apiVersion => 'v1', kind => 'ConfigMap', metadata => {name => 'rel-ipus-vipu-controllers', labels => {'app.kubernetes.io/part-of' => 'ipu-operator'}},
	data => {'controllers.yaml' => '127.0.0.1:8090'}})->{status}, 201, 'one of an installation with another name');
is(api('POST', "$ns/serviceaccounts", json => {apiVersion => 'v1', kind => 'ServiceAccount', metadata => {name => 'rel-ipus-vipu-proxy'}})->{status}, 201, '... and its account');
is(api('POST', "$ns/pods", json => {apiVersion => 'v1', kind => 'Pod', metadata => {name => 'op-1', labels => {'app.kubernetes.io/name' => 'ipus', 'app.kubernetes.io/part-of' => 'ipu-operator', 'app.kubernetes.io/component' => 'vipu-proxy'}},
	spec => {serviceAccountName => 'rel-ipus-vipu-proxy', containers => [{name => 'manager', image => 'x', command => ['bash', '-c', 'echo all is well; echo token=hiddenLog; exec sleep 1000', '--password', 'hiddenArg'], env => [{name => 'X_TOKEN', value => 'hiddenEnv'}, {name => 'LEVEL', value => '2'}]}]}})->{status}, 201, 'a Pod of the operator');
is(api('POST', '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs', json => {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => 'bert'},
	spec => {jobInstances => 1, ipusPerJobInstance => '2', workers => {template => {spec => {containers => [{name => 'c', image => 'x', command => ['sleep', '1000'],
		env => [{name => 'WANDB_API_KEY', value => 'hiddenEnv'}]}]}}}}})->{status}, 201, 'a job');
wait_until('the Pod runs', sub { (api('GET', "$ns/pods/op-1")->{json}{status}{phase} // '') eq 'Running' });
wait_until('the job has a Pod', sub { @{api('GET', '/api/v1/namespaces/default/pods')->{json}{items}} });

wait_until('it has written', sub { api('GET', "$ns/pods/op-1/log")->{content} =~ /hiddenLog/ });

my $file = test_dir() . '/bundle.tar';
my $result = bundle('-o', $file);
is($result->{status}, 0, 'a bundle') or diag($result->{err});
like($result->{err}, qr/^\Q$file\E: \d+ files; \d+ couldn't be had \(MANIFEST\.txt says why\)$/m, '... and what became of it');
is((stat $file)[2] & 0777, 0600, '... for its owner alone');
my $list = run(['tar', '-tvf', $file]);
is("$list->{status} $list->{err}", '0 ', 'tar reads it');
my @names = map { m{ (ipu-support-\d{4}-[^/\s]+)/(\S+)$} ? $2 : () } split /\n/, $list->{out};
my %there = map { $_ => 1 } @names;
is(scalar @names, scalar(() = $list->{out} =~ /\n/g), '... all in one folder');
ok($there{$_}, "... $_ is there") for qw(MANIFEST.txt kubernetes/version.json kubernetes/nodes.json kubernetes/mutating-webhooks.json operator/pods.json operator/configmaps.json
	operator/leases.json operator/events.json operator/rights.txt jobs/ipujobs.json jobs/pods.json proxy/stats.json proxy/queue.json proxy/partitions.json proxy/controllers.json logs/op-1/manager.log);
my $all = run(['tar', '-xOf', $file])->{out};
unlike($all, qr/$_/, "... without $_") for @secrets;
like(content($file, 'operator/configmaps.json'), qr/accessKey: <redacted>\\nproxy:\\n  listen: \\":8080\\"/, 'the configuration, but for its key');
my ($pod) = grep { $_->{metadata}{name} eq 'op-1' } @{json_decode(content($file, 'operator/pods.json'))->{items}};
is_deeply([map { $_->{value} } @{$pod->{spec}{containers}[0]{env}}], ['<redacted>', '<redacted>'], 'people\'s variables have names alone');
is(json_decode(content($file, 'jobs/ipujobs.json'))->{items}[0]{metadata}{name}, 'bert', 'the job');
like(content($file, 'kubernetes/nodes.json'), qr/"labels"/, 'the labels of nodes');
my $manifest = content($file, 'MANIFEST.txt');
for my $name (grep { $_ ne 'MANIFEST.txt' } @names) {
	like($manifest, qr/^\d+\t\Q$name\E\t/m, "the list has $name");
}
is(content($file, 'logs/op-1/manager.log'), "all is well\ntoken=<redacted>\n", 'the log');
is_deeply([sort map { $_->{metadata}{name} } @{json_decode(content($file, 'operator/configmaps.json'))}], [qw(ipu-operator-config ipu-partitions-tracker rel-ipus-vipu-controllers)],
	'its own ConfigMaps alone');
like(content($file, 'operator/rights.txt'), qr{ rel-ipus-vipu-proxy may create authentication\.k8s\.io|rel-ipus-vipu-proxy may create tokenreviews}, 'the rights of the accounts that its Pods have');
like($manifest, qr/^Metrics aren't in it/m, '... and why something is missing');
like($manifest, qr{^-\thealth/op-1/healthz\.txt\t}m, '... of each Pod');

subtest 'other forms' => sub {
	my $zipped = test_dir() . '/bundle.tar.gz';
	is(bundle('-o', $zipped)->{status}, 0, 'compressed');
	is(run(['gzip', '-t', $zipped])->{status}, 0, '... as gzip reads it');
	like(run(['tar', '-tzf', $zipped])->{out}, qr{/MANIFEST\.txt$}m, '... and tar');
	my $out = bundle('-o', '-');
	is(spit(test_dir() . '/out.tar', $out->{out}) && run(['tar', '-tf', test_dir() . '/out.tar'])->{status}, 0, 'to standard output');
	my $here = run(['bash', '-c', 'cd ' . test_dir() . ' && ' . program('ipuctl') . " --kubeconfig $folder/kubeconfig support-bundle && ls ipu-support-*Z.tar"], env => {HOME => test_dir()});
	is($here->{status}, 0, 'by its own name') or diag($here->{err});
	my $none = run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", 'support-bundle', '-o', test_dir() . '/x.tgz'], env => {HOME => test_dir(), PATH => '/nowhere'});
	is($none->{status}, 2, 'without gzip');
	like($none->{err}, qr/gzip: No such file.*\.tar/, '... says what does without');
	ok(!-e test_dir() . '/x.tgz', '... and leaves nothing');
	is(bundle('-o', '/nowhere/x.tar')->{status}, 2, 'a folder that is not there');
};

subtest 'what is no file' => sub {
	my $full = test_dir() . '/full';
	ok(symlink('/dev/full', $full), 'a device that takes nothing');
	$result = bundle('-o', $full);
	is($result->{status}, 1, 'that is an error');
	like($result->{err}, qr{\Q$full\E: .*No space left}, '... which says where');
	ok(-l $full, '... and it is still there');
};

subtest 'a dry run' => sub {
	$result = bundle('--dry-run');
	is($result->{status}, 0, 'status 0');
	like($result->{out}, qr{^proxy/stats\.json +/stats$}m, 'lists what would be taken');
	like($result->{out}, qr{^logs/POD/CONTAINER\.log }m, '... logs too');
	unlike($result->{out}, qr{secrets}, '... and no Secrets');
	ok(!glob(test_dir() . '/*dry*'), '... nothing is written');
};

subtest 'a large cluster' => sub {
	my $large = start('ipu-sim', args => ['--dir', "$folder-large", '--nodes=0']);
	my $its = slurp("$folder-large/token");
	my @bad = grep { http('POST', $large->url('api-plain', '/api/v1/nodes'), headers => {authorization => "Bearer $its"},
		json => {apiVersion => 'v1', kind => 'Node', metadata => {name => "n$_"}})->{status} != 201 } 1 .. 1001;
	is(scalar @bad, 0, 'nodes');
	is(run([program('ipuctl'), '--kubeconfig', "$folder-large/kubeconfig", 'support-bundle', '-o', $file], env => {HOME => test_dir(), IPUCTL_SERVER => undef}, seconds => 60)->{status}, 0, 'a bundle');
	is(scalar @{json_decode(content($file, 'kubernetes/nodes.json'))}, 1000, 'so many nodes');
	like(content($file, 'MANIFEST.txt'), qr{^-\tkubernetes/nodes\.json\t.*\tonly the first 1000 of them$}m, '... and that there are more');
	$large->stop(status => 0);
};

subtest 'without rights' => sub {
	http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 403, resource => 'configmaps', message => 'no rights on these', count => 0});
	is(bundle('-o', $file)->{status}, 0, 'it takes what it can');
	like(content($file, 'MANIFEST.txt'), qr{^-\toperator/configmaps\.json\t.*\tno rights on these$}m, '... and says what it could not');
	http('DELETE', $sim->url('admin', '/sim/api/faults'));
};

$operator->stop(status => 0);
$sim->stop(status => 0);
done_testing();
