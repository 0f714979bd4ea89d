#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl explain: the table of doc/design/explain.md against the code's, and the ways from a cluster
# without anything to a job that runs, on ipu-sim.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(file_text);
use Test::More;

watchdog(120);

# ---- the table ----

my $code = file_text('src/ctl/explain_rules.c');
my %words = $code =~ /^#define (\w+) +"((?:[^"\\]|\\.)*)"$/mg;
my @code_rows;
while ($code =~ /^\t\{"([\w-]+)", \w+, \S+, (\w+|"(?:[^"\\]|\\.)*"), "((?:[^"\\]|\\.)*)"\},$/mg) {
	my ($id, $next, $help) = ($1, $2, $3);
	$next = $next =~ /^"(.*)"$/ ? $1 : $words{$next};
	push @code_rows, join ' | ', $id, map { s/\\"/"/gr } $next, $help;
}
my @doc_rows = map { my @cells = split / \| /, s/^\| | \|$//gr; join ' | ', @cells[0, 2, 3] }
	grep { /^\| [\w-]+ \| / && !/^\| id / } split /\n/, file_text('doc/design/explain.md');
cmp_ok(scalar @code_rows, '>', 50, 'the code has rows');
is_deeply(\@doc_rows, \@code_rows, 'doc/design/explain.md has the same, in the same order');

# ---- a cluster ----

my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=2', '--node-label=ipunode=a', '--pod-run-ms=0']);
my $token = slurp("$folder/token");
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

my @server;
sub ctl { return run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", @server, @_], env => {HOME => test_dir(), IPUCTL_SERVER => undef, KUBECONFIG => undef}, seconds => 30) }

like(ctl(qw(explain --help))->{out}, qr/--config-map\b/, 'explain --help has its options');
unlike(ctl(qw(explain --help))->{out}, qr/--force\b/, '... and none that means nothing there');

# Until what it says of the object is this cause, and these words are among it.
sub explains {
	my ($name, $cause, $words, $what) = @_;
	my $said;
	eval {
		wait_until($what, sub {
			my $result = ctl('explain', $name, '-n', 'default', '-o', 'json');
			$said = eval { json_decode($result->{out}) } // {cause => $result->{err}, why => ''};
			$said->{cause} eq $cause && $said->{why} =~ $words;
		});
	};
	is($said->{cause}, $cause, "$what: $cause");
	like($said->{why}, $words, '... in words');
	return $said;
}

sub create_job {
	my ($name, $ipus, %spec) = @_;
	my $pod = {containers => [{name => 'main', image => 'x'}], %{delete $spec{pod} // {}}};
	return is(api('POST', $jobs, json => {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => $name, namespace => 'default'},
		spec => {jobInstances => 1, ipusPerJobInstance => "$ipus", workers => {template => {spec => $pod}}, %spec}})->{status}, 201, "job $name");
}

my $result = ctl('explain', 'bert', '-n', 'default');
is($result->{status}, 1, 'without the job: status 1');
like($result->{out}, qr/^IPUJob default\/bert: Unknown\nWhy: +There is no IPUJob bert in namespace default\./, '... which is what is wrong: IPUJobs are served, though nobody has brought their definition');
http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 404, resource => 'ipujobs', message => 'no such resource', count => 0});
like(ctl('explain', 'bert', '-n', 'default')->{out}, qr/^IPUJob default\/bert: Unknown\nWhy: +The cluster doesn't know IPUJobs.*ipuctl crd\s+apply/s, 'where they are not served it says what to do');
http('DELETE', $sim->url('admin', '/sim/api/faults'));
is(ctl(qw(crd apply))->{status}, 0, 'the definition comes');
explains('bert', 'not-there', qr/no IPUJob bert in namespace default/, 'no job');
create_job('bert', 8);
explains('bert', 'no-operator', qr/namespace ipu-operator has no Pods of it/, 'no operator');
my $far = json_decode(ctl('explain', 'bert', '-n', 'default', '-ojson')->{out});
ok(scalar(grep { /mipujob\.graphcore\.ai\) isn't registered/ } @{$far->{remarks}}), 'the webhook that is missing is a remark');

my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", '--set', 'operatorNamespace=ipu-operator', map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)]);
@server = ('--server', $operator->url('proxy', ''));
explains('bert', 'NoController', qr/There is no ConfigMap with controllers/, 'no controller');
is(api('POST', '/api/v1/namespaces/ipu-operator/configmaps', json => {apiVersion => 'v1', kind => 'ConfigMap',
	metadata => {name => 'ipu-operator-vipu-controllers'}, data => {'controllers.yaml' => '127.0.0.1:' . $sim->port('vipu0') . ':ipunode=a'}})->{status}, 201, 'a controller is named');
explains('bert', 'running', qr/1 of 1 instances/, 'with a controller');
create_job('large', 64);
explains('large', 'TooLarge', qr/64/, 'too large');
create_job('second', 8);
my $said = explains('second', 'WaitingForIPUs', qr/place \d in the queue: (?!.*at place).*default\/bert has 8/s, 'no room');
like($said->{help}, qr/ask for fewer IPUs/, '... with what helps');
like($said->{since}, qr/^\d{4}-/, '... and since when');
$result = ctl('explain', 'ipujob/second', '-n', 'default', '--color', 'always');
like($result->{out}, qr/^IPUJob default\/second: \e\[33mPending\e\[0m, for \d.*\n\e\[1mWhy: .*\n\e\[1mNext: .*\n\e\[1mYou can:/s, 'for people, in colours');
is($result->{status}, 0, '... status 0');
cmp_ok((sort { $b <=> $a } map { length } split /\n/, ctl('explain', 'second', '-n', 'default')->{out})[0], '<', 100, '... in lines of a width');
api('DELETE', "$jobs/$_") for qw(bert large);
explains('second', 'running', qr/1 of 1/, 'when they are free');
api('DELETE', "$jobs/second");
create_job('elsewhere', 2, pod => {nodeSelector => {disk => 'fast'}});
explains('elsewhere', 'no-node-label', qr/disk=fast/, 'no node has its labels');
# The API server lists 500 at a time.
my $node = sub { api('POST', '/api/v1/nodes', json => {apiVersion => 'v1', kind => 'Node', metadata => {name => $_[0], labels => $_[1]},
	spec => {taints => [{key => 'x', effect => 'NoSchedule'}]}})->{status} };
is(scalar(grep { $node->(sprintf('n%03d', $_), {}) != 201 } 1 .. 500), 0, '500 nodes more');
explains('elsewhere', 'no-node-label', qr/disk=fast/, '... without these labels');
is($node->('z', {disk => 'fast', ipunode => 'a'}), 201, '... and one with them');
explains('elsewhere', 'unschedulable', qr/No node takes it/, '... which is seen, whatever is listed before it');
# Whoever may make Events there may write to who reads them.
my $forged = api('POST', '/api/v1/namespaces/default/events', json => {apiVersion => 'v1', kind => 'Event', metadata => {name => 'forged', namespace => 'default'},
	involvedObject => {kind => 'IPUJob', name => 'elsewhere', namespace => 'default'}, source => {component => 'ipu-operator'}, type => 'Normal', reason => 'WaitingForKueue',
	message => "a\e[2J\x{9b}2Jb\nc", lastTimestamp => '2100-01-01T00:00:00Z'});
is($forged->{status}, 201, 'an Event of somebody');
like(ctl('explain', 'elsewhere', '-n', 'default')->{out}, qr/^Why: +The operator says: a\?\[2J\?2Jb c\.$/m, '... whose words move no terminal');
is(api('DELETE', '/api/v1/namespaces/default/events/forged')->{status}, 200, '... and which goes');
api('PATCH', "$jobs/elsewhere", content => '{"spec":{"suspend":true}}', headers => {'content-type' => 'application/merge-patch+json'});
explains('elsewhere', 'suspended', qr/suspend is true/, 'suspended');

# ---- a Pod ----

api('POST', '/api/v1/namespaces/default/pods', json => {apiVersion => 'v1', kind => 'Pod', metadata => {name => 'asks', annotations => {'graphcore.ai/ipus' => '2'}},
	spec => {containers => [{name => 'main', image => 'x'}]}});
explains('pod/asks', 'no-pod-webhook', qr/mpod\.graphcore\.ai\) isn't registered/, 'a Pod that no webhook has seen');
like(explains('pod/none', 'pod-not-there', qr/no Pod none/, 'a Pod that is not there')->{help}, qr/`kubectl get pods -A` lists all/, '... with what lists Pods');
explains('Pod/none', 'pod-not-there', qr/no Pod none/, '... by its kind');
like(explains('IPUJob/none', 'not-there', qr/no IPUJob none/, '... a job')->{help}, qr/`kubectl get ipujobs -A` lists all/, '... with what lists jobs');

# ---- what can't be asked ----

is(ctl('explain', 'service/x', '-n', 'default')->{status}, 2, 'another kind');
is(ctl('explain', 'Bert', '-n', 'default')->{status}, 2, 'a name that is none');
is(ctl('explain')->{status}, 2, 'no name');
http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 403, resource => 'events', message => 'no rights', count => 0});
http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 403, resource => 'nodes', message => 'no rights', count => 0});
$said = json_decode(ctl('explain', 'elsewhere', '-n', 'default', '-ojson')->{out});
is($said->{cause}, 'suspended', 'without all rights it says what it can');
like(join("\n", @{$said->{remarks}}), qr/couldn't be asked: events \(no rights\)/, '... and what was left out');
http('DELETE', $sim->url('admin', '/sim/api/faults'));

$operator->stop(status => 0);
$sim->stop(status => 0);
done_testing();
