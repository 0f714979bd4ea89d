#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl node clean: what it takes off Nodes of a simulated cluster and what it says of each, which Nodes it leaves alone, conflicts,
# the wait for the operator's Pods, and somebody who writes again. On real Nodes: t/cluster/24-head-nodes.t and 52-advertise.t.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use POSIX qw(strftime);
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--nodes=0']);
my $token = slurp("$folder/token");

sub ctl_args (@words) { return ('--kubeconfig', "$folder/kubeconfig", qw(node clean), @words) }
my %env = (HOME => test_dir(), IPUCTL_SERVER => undef, KUBECONFIG => undef);
sub ctl (@words) { return run([ program('ipuctl'), ctl_args(@words) ], env => {%env}, seconds => 60) }

sub api ($method, $path, %more) {
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}
sub fault (%what) { return http('POST', $sim->url('admin', '/sim/api/faults'), json => { resource => 'nodes', count => 1, %what })->{status} }
sub node ($name) { return api('GET', "/api/v1/nodes/$name")->{json} }
sub ago ($seconds) { return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time - $seconds)) }

my $taint = 'graphcore.ai/fabric-not-ready';
my $health = { type => 'Ready', status => 'True', lastHeartbeatTime => ago(5), reason => 'KubeletReady', message => '' };

# A Node with all that the operator may have put there, the role's word so many seconds old, and with others' things.
sub make ($name, $age) {
	api('DELETE', "/api/v1/nodes/$name");
	my %labels = ('kubernetes.io/hostname' => $name, 'graphcore.ai/rdma' => 'true', pod => 'a', mine => '1');
	my $made = api('POST', '/api/v1/nodes', json => { apiVersion => 'v1', kind => 'Node', metadata => { name => $name, labels => \%labels,
		annotations => { 'graphcore.ai/node-published' => "head graphcore.ai/rdma=true pod=a taint:$taint", 'graphcore.ai/advertised-ipus' => '16',
			'example.com/x' => 'y' } },
		spec => { taints => [ { key => $taint, effect => 'NoSchedule' }, { key => 'others', effect => 'PreferNoSchedule' } ] } });
	die "$name: $made->{status} $made->{content}\n" if !$made->{success};
	$made->{json}{status} = { capacity => { cpu => '2', 'graphcore.ai/ipu' => '16' }, allocatable => { cpu => '2', 'graphcore.ai/ipu' => '16' },
		conditions => [ $health, { type => 'IPUFabricReady', status => 'False', reason => 'NoRoute', message => '', lastHeartbeatTime => ago($age) } ] };
	my $status = api('PUT', "/api/v1/nodes/$name/status", json => $made->{json});
	die "$name: $status->{status} $status->{content}\n" if !$status->{success};
	return;
}

my $all = "condition IPUFabricReady, resource graphcore.ai/ipu, label graphcore.ai/rdma=true, label pod=a, taint $taint, "
	. 'annotation graphcore.ai/node-published, annotation graphcore.ai/advertised-ipus';
my @labels = qw(kubernetes.io/hostname mine);

sub is_clean ($name, $what) {
	my $node = node($name);
	delete $node->{metadata}{labels}{$_} for @labels;
	is_deeply([ $node->{metadata}{labels}, $node->{metadata}{annotations}, $node->{spec}{taints},
		[ map { $_->{type} } @{ $node->{status}{conditions} } ], @{ $node->{status} }{qw(capacity allocatable)} ],
		[ {}, { 'example.com/x' => 'y' }, [ { key => 'others', effect => 'PreferNoSchedule' } ], ['Ready'], ({ cpu => '2' }) x 2 ],
		"$what: all of the operator's is gone, others' is there");
	return;
}

make('a', 400);
make('b', 400);
my $done = ctl(qw(a --dry-run));
is($done->{out}, "node/a cleaned (server dry run): $all\n", 'a dry run says what it would take') or diag($done->{err});
is(node('a')->{metadata}{labels}{pod}, 'a', '… and takes nothing');
$done = ctl('a');
is("$done->{status} $done->{out}", "0 node/a cleaned: $all\n", 'one Node') or diag($done->{err});
is_clean('a', 'one Node');
is(node('b')->{metadata}{labels}{pod}, 'a', 'the other one is as it was');
$done = ctl('a');
is("$done->{status} $done->{out}", "0 node/a has nothing of the operator's\n", 'once more: nothing to be done');

make('fresh', 60);
$done = ctl('--all');
is($done->{status}, 1, 'a Node of which the role has just spoken: status 1');
like($done->{err}, qr/^ipuctl: node\/fresh: left alone: the role node wrote there 6\d s ago\. .*--force/m, '… which says why');
like($done->{err}, qr/^ipuctl: 1 of 3 Nodes were left alone$/m, '… and how many');
is($done->{out}, "node/b cleaned: $all\n", '… and the others are cleaned all the same');
is(node('fresh')->{metadata}{labels}{pod}, 'a', '… it is as it was');
$done = ctl(qw(fresh --force));
is("$done->{status} $done->{out}", "0 node/fresh cleaned: $all\n", 'unless somebody says that the role is gone') or diag($done->{err});
is_clean('fresh', '--force');
$done = ctl('--all');
is("$done->{status} $done->{out} $done->{err}", "0  No Node has anything of the operator's.\n", 'of all Nodes, none has anything');

subtest 'others write too' => sub {
	make('a', 400);
	is(fault(kind => 'status', status => 409, verb => 'patch', count => 2), 204, 'two conflicts');
	$done = ctl('a');
	is("$done->{status} $done->{out}", "0 node/a cleaned: $all\n", 'behind them') or diag($done->{err});
	is_clean('a', 'behind conflicts');
	make('a', 400);
	fault(kind => 'status', status => 403, verb => 'patch', message => 'no rights on nodes');
	$done = ctl('a');
	is("$done->{status} $done->{err}", "1 ipuctl: node/a: no rights on nodes\n", 'no rights: in the words of the API server');
	my $back = start('ipuctl', ports => 0, env => {%env}, args => [ ctl_args('a') ]);
	wait_until('it to be cleaned', sub { !node('a')->{metadata}{labels}{pod} }, while_alive => []);
	api('PATCH', '/api/v1/nodes/a', json => { metadata => { annotations => { 'graphcore.ai/node-published' => 'head' } } },
		headers => { 'content-type' => 'application/merge-patch+json' });
	wait_until('it to end', sub { !$back->is_alive }, while_alive => []);
	like($back->err, qr/^ipuctl: node\/a: it's there again \(annotation graphcore\.ai\/node-published\): the role node, or an operator/m,
		'one who writes again is noticed');
	$back->stop(status => 1);
};

subtest 'the operator\'s Pods' => sub {
	make('a', 60);
	my %pod = (apiVersion => 'v1', kind => 'Pod', spec => { containers => [ { name => 'c', image => 'i' } ], nodeName => 'a' });
	my $pods = '/api/v1/namespaces/default/pods';
	my $made = api('POST', $pods, json => { %pod, metadata => { name => 'role', labels => { 'app.kubernetes.io/part-of' => 'ipu-operator',
		'app.kubernetes.io/component' => 'node' } } });
	is($made->{status}, 201, 'the role runs in one');
	$done = ctl(qw(a --force --wait 1));
	is($done->{status}, 1, 'it stays: status 1');
	like($done->{err}, qr{^ipuctl: after 1 s Pods of the operator are still there, such as default/role: they write to Nodes$}m, '… says so');
	is(node('a')->{metadata}{labels}{pod}, 'a', '… and nothing was taken');
	my $waits = start('ipuctl', ports => 0, env => {%env}, args => [ ctl_args(qw(a --force --wait 60)) ]);
	api('DELETE', "$pods/role?gracePeriodSeconds=0");
	wait_until('it to end', sub { !$waits->is_alive }, while_alive => []);
	is($waits->out, "node/a cleaned: $all\n", 'when it has gone, the Node is cleaned') or diag($waits->err);
	$waits->stop(status => 0);
};

subtest 'after a release was uninstalled' => sub {
	my @hook = qw(--all --instance mine --wait 1);
	my $pods = '/api/v1/namespaces/default/pods';
	my $pod = sub ($name, $instance, %status) {
		my $made = api('POST', $pods, json => { apiVersion => 'v1', kind => 'Pod', spec => { containers => [ { name => 'c', image => 'i' } ] },
			metadata => { name => $name, labels => { 'app.kubernetes.io/part-of' => 'ipu-operator', 'app.kubernetes.io/component' => 'node',
				'app.kubernetes.io/instance' => $instance } } });
		is($made->{status}, 201, "a Pod of $instance");
		return if !%status;
		is(api('PUT', "$pods/$name/status", json => { %{ $made->{json} }, status => \%status })->{status}, 200, '... which has ended');
	};
	my $end = sub ($name) { is(api('DELETE', "$pods/$name?gracePeriodSeconds=0")->{status}, 200, "$name is gone") };
	make('a', 60);
	$pod->('own', 'mine');
	$done = ctl(@hook, '--force');
	is($done->{status}, 1, 'its own Pods stay: status 1');
	like($done->{err}, qr{^ipuctl: after 1 s Pods of the operator are still there, such as default/own:}m, '... and says so');
	$end->('own');
	$pod->('others', 'theirs');
	$done = ctl(@hook, '--force');
	is("$done->{status} $done->{out}", '0 ', "another release's: nothing is taken, and that's no error");
	like($done->{err}, qr{^ipuctl: Nodes are left alone: Pods of another release .*such as default/others.*ipuctl node clean --all$}m, '... in words');
	is(node('a')->{metadata}{labels}{pod}, 'a', '... it is as it was');
	$end->('others');
	$pod->('ended', 'theirs', phase => 'Failed');
	$done = ctl(@hook);
	my $resource = 'resource graphcore.ai/ipu, annotation graphcore.ai/advertised-ipus';
	is("$done->{status} $done->{out}", "0 node/a cleaned: $resource\n", "of a Node with a living role the release's figure alone, beside one that has ended");
	like($done->{err}, qr/^ipuctl: node\/a: left alone: the role node wrote there .*^ipuctl: 1 of \d+ Nodes were left alone$/ms, '... in words, and no error');
	is(node('a')->{metadata}{labels}{pod}, 'a', '... its labels are there');
	make('a', -60);
	$done = ctl(@hook, '--force');
	is("$done->{status} $done->{out}", "0 node/a cleaned: $resource\n", 'a heartbeat from after its Pods had gone: --force or not');
	like($done->{err}, qr/^ipuctl: node\/a: left alone: a role node that isn't the release's wrote there 0 s ago/m, '... whose it is');
	make('a', 60);
	$done = ctl(@hook, '--force');
	is("$done->{status} $done->{out}", "0 node/a cleaned: $all\n", 'what its own Pods have said goes') or diag($done->{err});
	is_clean('a', 'after its release');
};

subtest 'many Nodes' => sub {
	my $text = 'x' x 4000;
	for my $i (1 .. 600) {
		my $made = api('POST', '/api/v1/nodes', json => { apiVersion => 'v1', kind => 'Node', metadata => { name => sprintf('many-%03d', $i) } });
		die "$made->{status} $made->{content}\n" if !$made->{success};
	}
	make('many-600', 400);
	my $asked = sub { return http('GET', $sim->url('admin', '/sim/state'))->{json}{api}{requests} };
	my $before = $asked->();
	$done = ctl('--all');
	is("$done->{status} $done->{out}", "0 node/many-600 cleaned: $all\n", 'the second page is read too') or diag($done->{err});
	my $after = $asked->();
	is($after->{'list nodes'} - $before->{'list nodes'}, 2, '... in two requests');
	is($after->{'get nodes'} - $before->{'get nodes'}, 2, '... and those that have nothing are not asked for');
	is_clean('many-600', 'of many');
};

for my $wrong ([], [ 'a', '--all' ], ['No_Node'], [ 'a', '--apply' ]) {
	is(ctl(@$wrong)->{status}, 2, "refused: node clean @$wrong");
}
$done = ctl('nobody');
is($done->{status}, 1, 'a Node that isn\'t there: status 1');
like($done->{err}, qr/^ipuctl: node\/nobody: /, '… by its name');
is(run([ program('ipuctl'), qw(help node clean) ])->{status}, 0, 'help');
$sim->stop(status => 0);
done_testing;
