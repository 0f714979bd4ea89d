# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# When IPUs come back: with the job's end, or, where the job says so, when it is deleted.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 2);
	my $kept = $s->job('kept', runs => 0);
	$kept->{spec}{partition} = { release => 'OnDeletion', gcds => 2, reconfigurable => JSON::PP::false };
	$s->create('ipujobs', $kept);
	$s->create_job('given-back', runs => 0);
	$s->wait_job($_, 'Completed') for qw(kept given-back);
	$s->wait_for('the IPUs of the one to come back', sub { 1 == $s->partitions });
	my ($partition) = $s->partitions;
	like($partition->{id}, qr/^kept-/, 'those of the other stay');
	$s->wait_for('them alone to be counted', sub { ($s->stats->{default}{used} // 0) == 4 });
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;
	is_deeply([ map { $_->{id} } $s->partitions ], [ $partition->{id} ], '… whatever happens to the operator');
	$s->delete_job('kept');
	$s->wait_for('them to come back with its deletion', sub { !$s->partitions });
	$s->wait_job_gone('kept');
	is($s->vipu->{ipus}{free}, 8, 'all are free');
};
