#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How clusters end: asked to, by the end of their test, by a kill -9 at the worst moment, by a timeout;
# and what the command refuses. Nothing may run on, and the next cluster must not mind what is left.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use Cluster::Run qw(keep_open read_file);
use Cluster::Sandbox;
use IpuTest;
use Test::More;
use Traces;

my $command = "$FindBin::Bin/cluster";
my $dir = "/var/tmp/ipu-operator-cluster-life-$$";
Cluster->check('scale');
my $before = Traces::machine();

sub cluster (@arguments) {
	my $name = shift @arguments;
	return run([ $command, $name, '--dir', $dir, @arguments ], name => "cluster-$name", seconds => 120);
}

# Starts `cluster up` and returns when its init runs, long before it is up.
sub begin_up {
	my $program = start('cluster-up', path => $command, ports => 0,
		args => [ 'up', 'scale', '--dir', $dir, '--nodes', 2 ]);
	wait_until('the API server to be started', sub { -e "$dir/pids/kube-apiserver" });
	return $program;
}

sub nothing_runs ($cluster, $why) {
	wait_until('all processes to be gone', sub {
		return !grep { !/^\Q$dir\E$/ } Traces::left($cluster);
	}, seconds => 15, while_alive => []);
	pass("$why: nothing of it runs");
	is_deeply([ Traces::changes($before) ], [], '… and the machine is as it was');
}

subtest 'refusals' => sub {
	is(run([ $command, 'up', 'sideways' ])->{status}, 2, 'an unknown shape');
	is(run([ $command, 'dance' ])->{status}, 2, 'an unknown command');
	is(run([ $command, 'up', 'scale', '--nodes', 0 ])->{status}, 2, 'no nodes');
	my $other = IpuTest::test_dir();
	IpuTest::spit("$other/precious", "mine\n");
	my $result = run([ $command, 'up', 'scale', '--dir', $other ]);
	is($result->{status}, 1, 'a folder with something else in it');
	like($result->{err}, qr/isn't empty/, '… with the reason');
	is(read_file("$other/precious"), "mine\n", '… which stays');
	run([ $command, 'down', '--dir', $other ]);
	is(read_file("$other/precious"), "mine\n", '… also when it is to be taken down');
	SKIP: {
		my @nobody = qw(setpriv --reuid 65534 --clear-groups);
		skip('others can\'t read this tree', 2) if run([ @nobody, 'test', '-r', $command ])->{status};
		my $result = run([ @nobody, $command, 'up', 'scale' ]);
		is($result->{status}, 77, 'someone who isn\'t root');
		like($result->{err}, qr/root\n\z/, '… with one clear line');
	}
	is(cluster('status')->{status}, 1, 'the status of nothing');
	is(cluster('down')->{status}, 0, 'nothing can be taken down');
};

subtest 'up is interrupted' => sub {
	my $up = begin_up();
	my $cluster = Traces::of_cluster($dir);
	$up->stop(signal => 'INT', status => 1, seconds => 30);
	nothing_runs($cluster, 'Ctrl-C');
};

subtest 'up is killed' => sub {
	my $up = begin_up();
	my $cluster = Traces::of_cluster($dir);
	$up->crash;
	nothing_runs($cluster, 'SIGKILL');
};

subtest 'up takes too long' => sub {
	my $result = cluster('up', 'scale', '--nodes', 2, '--timeout', 1);
	is($result->{status}, 1, 'it gives up');
	like($result->{err}, qr/not within the time allowed/, '… and says what it waited for');
	ok(!Cluster::Sandbox->new($dir)->is_up, '… and nothing is up');
};

subtest 'the test that wanted it ends' => sub {
	pipe(my $held, my $mine) or die "pipe: $!\n";
	my $up = cluster('up', 'scale', '--nodes', 2, '--hold-fd', keep_open($held));
	close($held);
	is($up->{status}, 0, 'it comes up over what dead ones left') or diag($up->{err}, $up->{out});
	like(cluster('up', 'scale')->{err}, qr/already up/, 'a second one in the same folder is refused');
	is(cluster('status')->{status}, 0, 'its status is good');

	is(cluster('stop', 'kube-scheduler')->{status}, 0, 'one of its programs is killed');
	my $status = cluster('status');
	is($status->{status}, 1, '… its status isn\'t good any more');
	like($status->{out}, qr/^kube-scheduler +ended/m, '… and names the one that ended');
	is(cluster('start', 'kube-scheduler')->{status}, 0, 'started again');
	is(cluster('status')->{status}, 0, '… it runs');
	my $cluster = Traces::of_cluster($dir);
	close($mine);
	nothing_runs($cluster, 'the end of its test');
	is(cluster('down')->{status}, 0, 'what is left can be removed');
	is_deeply([ Traces::left($cluster) ], [], '… all of it');
};
done_testing;
