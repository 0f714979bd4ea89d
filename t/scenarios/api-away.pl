# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# The API server goes away at different moments of jobs' lives, and comes back: every job goes on by
# itself, nothing is made twice, and the daemon never ends.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 16, create_ms => 700);
	$s->wait_ready;

	$s->create_job('runs');
	$s->wait_job('runs', 'Running');
	$s->create_job('ends', runs => 2);
	$s->wait_job('ends', 'Running');
	$s->create_job('begins', runs => 0);
	# On a slow way to the controller, the second job may have ended and given its IPUs back before this.
	$s->wait_for('a partition that is made', sub { grep { $_->{id} =~ /^begins-/ } $s->partitions });
	$s->api_goes;

	# The controllers go on meanwhile; nobody can be told.
	$s->wait_for('the partition to be active', sub {
		return grep { $_->{id} =~ /^begins-/ && $_->{readyState} eq 'PS_ACTIVE' } $s->partitions;
	});
	is($s->fetch($s->operator, 'GET', 'health', '/healthz')->{status}, 200,
		'without an API server the operator is alive');
	ok($s->wait_for('/stats to count what is there', sub { $s->stats->{total}{used} == 4 * $s->partitions }), '… and answers /stats from what it knows');
	$s->api_comes;
	$s->wait_job($_, 'Completed', despite_errors => 1, seconds => 60) for qw(begins ends);
	is($s->get_job('runs')->{status}{launcherStatus}, 'Running', 'jobs go on when it is back');
	is($s->vipu->{created}, 3, '… and nothing was made twice');
	$s->wait_for('the partitions of those that ended to go', sub { 1 == $s->partitions });

	# Away while a job is deleted, and while the daemon starts.
	$s->create_job('deleted');
	$s->wait_job('deleted', 'Running');
	$s->delete_job('deleted');
	$s->api_goes;
	$s->operator->stop;
	my $begin = $s->restart_operator;
	my $answer = $s->fetch($begin, 'GET', 'health', '/readyz');
	is($answer->{status}, 503, 'a daemon that starts without an API server isn\'t ready');
	like($answer->{json}{detail} // $answer->{content}, qr/hasn't been read|haven't been read|leadership: \S/, '… and says why');
	is($s->fetch($begin, 'GET', 'health', '/healthz')->{status}, 200, '… but alive');
	$s->api_comes;
	$s->wait_for('the job to go', sub { !$s->get_job('deleted') }, despite_errors => 1, seconds => 60);
	$s->wait_ready;
	is_deeply([ map { $_->{id} =~ /^(\w+)-/ } $s->partitions ], ['runs'], 'what was deleted is gone');

	$s->create_job('later', runs => 0);
	$s->wait_job('later', 'Completed', seconds => 60);
	$s->end_pod('runs');
	$s->wait_job('runs', 'Completed');
	is($s->vipu->{created}, 5, 'five jobs, five partitions');
};
