#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# doc/examples: each file says what it shows, is valid, and comes as far on a simulated cluster as it should.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(file_text top_srcdir tree_files);
use Test::More;

my $kubectl = program_or_skip('kubectl');
watchdog(400);
my $examples = top_srcdir() . '/doc/examples';
my @files = tree_files(qr{\.yaml$}, 'doc/examples');
my %text = map { s{^doc/examples/}{}r => file_text($_) } @files;
cmp_ok(scalar @files, '>', 20, 'there are examples');

for my $name (sort keys %text) {
	like($text{$name}, qr/\A# \S.{40}/, "$name begins by saying what it shows");
}

# In the guide's table, each file that isn't in a folder of its own.
my $guide = file_text('doc/user-guide.md');
is_deeply([grep { !m{/} && index($guide, "`$_`") < 0 } sort keys %text], [], 'the user guide lists them');

subtest 'offline' => sub {
	my @offline = grep { !m{^(?:chart|cluster)/|rdma-test} } sort keys %text;
	my $result = run([program('ipuctl'), 'validate', map { "$examples/$_" } @offline]);
	is($result->{status}, 0, 'ipuctl validate takes them') or diag($result->{out}, $result->{err});
	unlike($result->{out}, qr/warning/, '... without a warning');
	my @seen = $result->{out} =~ / is valid$/mg;
	is(scalar @seen, scalar @offline, '... each of them');
};

# ---- on a simulated cluster ----

my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--nodes=2', '--node-label=ipunode=sim0', '--create-ms=50',
	'--reset-ms=50', '--remove-ms=50', '--pod-start-ms=50', '--pod-run-ms=300', '--agents=64']);
my $controller = '127.0.0.1:' . $sim->port('vipu0');
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig",
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'roles=controller,proxy,webhook',
	'webhook.url=https://127.0.0.1', 'webhook.drainSeconds=0', 'launcher.image=ipu-operator',
	(map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen webhook.listen)),
	"controllers=$controller:ipunode=sim0"]);
my %env = (HOME => test_dir() . '', KUBECONFIG => "$folder/kubeconfig");
wait_until('the operator to be ready', sub { http('GET', $operator->url('health', '/readyz'))->{status} == 200 });

sub kubectl { return run([$kubectl, @_], env => \%env, seconds => 60) }

sub set_pods {
	my ($settings) = @_;
	is(http('POST', $sim->url('admin', '/sim/pods'), json => $settings)->{status}, 204, 'how Pods go');
	return;
}

sub good {
	my ($result, $what) = @_;
	return ok($result->{status} == 0, $what) || diag($result->{out}, $result->{err});
}

# Servers run on, and so do workers that wait for a launcher.
my @jobs = grep { !m{/} } sort keys %text;
for my $text (grep { /^  (?:launcher|interactive):/m } @text{@jobs}, '') {
	my ($job) = $text =~ /^  name: (\S+)/m;
	set_pods({name => "default/$job-worker-*", runMs => 0});
	set_pods({name => "default/$job-launcher", runMs => 0}) if $text =~ /^  interactive:/m;
}
set_pods({name => "default/$_-worker-*", runMs => 0}) for qw(mnist-inference ranking);
# The condition that a job of this file reaches here.
my %reaches = ('interactive.yaml' => 'Running', 'interactive-1.0.yaml' => 'Running', 'inference-rollout.yaml' => 'Running', 'recreate.yaml' => 'Running', 'suspended.yaml' => 'Suspended');
my %name;
for my $file (@jobs) {
	my $result = kubectl('create', '-o', 'name', '-f', "$examples/$file");
	good($result, "$file is taken");
	unlike($result->{err}, qr/Warning/, '... without a warning');
	($name{$file}) = $result->{out} =~ m{^(ipujob\.graphcore\.ai/\S+)$}m;
}
for my $file (@jobs) {
	my $condition = $reaches{$file} // 'Succeeded';
	good(kubectl('wait', $name{$file}, "--for=condition=$condition", '--timeout=20s'), "$file reaches $condition")
		or diag(kubectl('describe', $name{$file})->{out} =~ s/.*(?=Events:)//sr);
}
good(kubectl('delete', 'ipujobs', '--all'), 'they go');

subtest 'annotated Pods' => sub {
	for my $file (qw(annotated-pod.yaml annotated-containers.yaml annotated-rdma.yaml)) {
		my $result = kubectl('create', '-o', 'name', '-f', "$examples/pods/$file");
		good($result, "$file is taken");
		my ($pod) = $result->{out} =~ m{^(pod/\S+)$}m;
		good(kubectl('wait', $pod, '--for=jsonpath={.status.phase}=Succeeded', '--timeout=20s'), '... and runs to its end')
			or diag(kubectl('describe', $pod)->{out});
	}
	good(kubectl('apply', '--dry-run=server', '-f', "$examples/pods/rdma-test.yaml"), 'rdma-test.yaml is taken');
	like($text{"pods/$_"}, qr/^ {4,}graphcore\.ai\/ipus: "\d"$/m, "$_ asks in its template")
		for qw(annotated-deployment.yaml annotated-job.yaml);
};

subtest 'for administrators' => sub {
	good(kubectl('apply', '-f', "$examples/cluster/$_"), "$_ is taken") for qw(quota.yaml secure-controller.yaml controllers.yaml);
	my $names;
	my $seen = eval { wait_until('the controllers of the list to be known', sub {
		$names = http('GET', $operator->url('proxy', '/controllers'))->{content};
		3 == grep { index($names, "\"pod00$_:8090\"") >= 0 } 1 .. 3;
	}) };
	ok($seen, 'all three controllers of the list are known') or diag($names);
	my $events = kubectl('get', 'events', '-n', 'ipu-operator', '-o', 'custom-columns=R:.reason,M:.message')->{out};
	unlike($events, qr/BadController/, '... and none is bad') or diag($events);
	my $refused = kubectl('create', '-n', 'team-a', '-f', "$examples/launcher.yaml");
	like($refused->{err}, qr/16.* 8\b|\b8\b.*16/, 'a job of 16 IPUs is too large for the namespace of quota.yaml')
		or diag($refused->{out}, $refused->{err});
};

# The chart's values, by the first two levels of their keys.
subtest 'values of the chart' => sub {
	my %known = map { $_ => 1 } value_keys(file_text('helm/ipu-operator/values.yaml'));
	cmp_ok(scalar keys %known, '>', 30, 'the chart has values');
	for my $file (grep { m{^chart/} } sort keys %text) {
		is_deeply([grep { !$known{$_} } value_keys($text{$file})], [], "$file has no other keys");
	}
};

sub value_keys {
	my ($text) = @_;
	my ($top, @keys) = ('');
	for my $line (split /\n/, $text) {
		if ($line =~ /^(\w+):/) {
			push @keys, $top = $1;
		} elsif ($line =~ /^  (\w+):/ && $top ne 'operatorConfig') {
			push @keys, "$top.$1";
		}
	}
	return @keys;
}

$operator->stop;
$sim->stop;
done_testing();
