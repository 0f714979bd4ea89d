# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A V-IPU controller written by somebody else, with habits of its own (t/lib/vipu_other.py): more jobs
# than fit, one that fails, one that is deleted, and the daemon killed once in between.

use v5.36;
use IpuTest qw(json_decode slurp test_dir);
use IpuTree qw(top_srcdir);
use Test::More;

my $python = '/usr/bin/python3';

sub ($s) {
	plan skip_all => 'no grpcio for Python on this machine (./setup --tests)'
		if !-x $python || system("$python -c 'import grpc' 2>/dev/null") != 0;
	my $file = test_dir() . '/other-vipu.json';
	my $seed = $ENV{IPU_SEED} // int(rand 1_000_000);
	diag("IPU_SEED=$seed");
	$s->start_controllers;
	my $other = $s->{back}->launch('other-vipu', path => $python, args => [
		top_srcdir() . '/t/lib/vipu_other.py', '--listen', $s->{back}->address, '--state', $file,
		'--machines', 4, '--seed', $seed ]);
	push @{ $s->{programs} }, $other;
	my $state = sub { json_decode(slurp($file)) };
	$s->{controllers} = [ $s->{back}->address . ':' . $other->port('vipu') ];
	$s->start_operator;
	$s->wait_ready;
	$s->wait_for('its IPUs to be counted', sub { $s->stats->{total}{available} == 16 });

	my @names = map { "job-$_" } 1 .. 10;
	$s->create_job($names[$_], ipus => 2**($_ % 4), runs => 0.3, exit => $_ == 4 ? 3 : 0) for 0 .. $#names;
	$s->create_job('stays', ipus => 4);
	$s->wait_for('half of the jobs to be over', sub {
		return 5 <= grep { $_->{status}{completionTime} } $s->list('ipujobs');
	}, seconds => 60);
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_job($names[$_], $_ == 4 ? 'Failed' : 'Completed', seconds => 60) for 0 .. $#names;
	$s->wait_job('stays', 'Running', seconds => 60);
	$s->wait_for('all but one partition to go', sub { 1 == keys %{ $s->tracker } }, seconds => 40);
	is_deeply([ keys %{ $s->tracker } ], $state->()->{partitions}, 'one is left, here and there');
	is($s->stats->{total}{used}, 4, '… and /stats counts it');
	$s->delete_job('stays');
	$s->wait_job_gone('stays', seconds => 40);

	my $end = $state->();
	is_deeply($end->{partitions}, [], 'all partitions are gone from a controller that isn\'t ours');
	is($end->{doubled}, 0, '… no IPU was held twice');
	cmp_ok($end->{most}, '<=', 16, '… nor more than there are');
	cmp_ok($end->{created}, '>=', 11, '… each job had one');
	note(IpuTest::json_encode($end));
	$s->{controllers} = [];
};
