#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The cluster of KWOK's nodes itself: hundreds of Pods that run, end and go as real ones would.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use IpuTest;
use Test::More;
use Time::HiRes qw(time);
use Traces;

my $before = Traces::machine();
my $c = Cluster->up('scale', nodes => 20);
is(scalar @{ $c->get('nodes')->{items} }, 20, 'twenty nodes');

my @pods = map { {
	apiVersion => 'v1', kind => 'Pod',
	metadata => { name => "pod-$_", labels => { app => 'many' },
		annotations => { $_ % 20 == 1 ? ('test.kwok/runs-for' => '1s',
			'test.kwok/exit-code' => $_ % 40 == 1 ? '3' : '0') : () } },
	spec => { restartPolicy => 'Never', containers => [ { name => 'main', image => 'x',
		resources => { requests => { cpu => '1', memory => '1Gi' } } } ],
		initContainers => [ { name => 'first', image => 'x' } ] },
} } 1 .. 200;

sub phases {
	my %count;
	$count{ $_->{status}{phase} }++ for @{ $c->get('pods', '-l', 'app=many')->{items} };
	return \%count;
}

my $start = time;
my $made = $c->kubectl_result([ 'create', '-f', '-' ], stdin => IpuTest::json_encode({
	apiVersion => 'v1', kind => 'List', items => \@pods }));
is($made->{status}, 0, '200 Pods are made') or diag($made->{err});
note(sprintf '200 Pods were made in %.1f s', time - $start);
$c->wait_for('all Pods to run or end', sub {
	my $now = phases();
	return ($now->{Running} // 0) == 190 && ($now->{Succeeded} // 0) == 5 && ($now->{Failed} // 0) == 5;
});
note(sprintf '200 Pods ran, or ended as asked, in %.1f s', time - $start);

my $running = $c->get('pod', 'pod-2');
like($running->{status}{podIP}, qr/^10\.152\./, 'one that runs has an address');
ok($running->{status}{containerStatuses}[0]{ready}, '… and is ready');
my %on = map { $_->{spec}{nodeName} => 1 } @{ $c->get('pods', '-l', 'app=many')->{items} };
is(scalar keys %on, 20, 'they are on all nodes');
is($c->get('pod', 'pod-1')->{status}{containerStatuses}[0]{state}{terminated}{exitCode}, 3,
	'one that fails has its exit code');

$c->kubectl(qw(delete pods -l app=many --wait=false));
$c->wait_for('all Pods to go', sub { !%{ phases() } });
pass('deleted Pods go');

my $cluster = Traces::of_cluster($c->dir);
$c->down;
is_deeply([ Traces::left($cluster) ], [], 'afterwards no process, namespace, mount or file is left');
is_deeply([ Traces::changes($before) ], [], 'and the machine is as it was');
done_testing;
