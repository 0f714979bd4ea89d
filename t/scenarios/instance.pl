# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# One instance of several dies, by itself or by somebody's hand: it is replaced, on a partition that was reset,
# and nobody else notices.

use v5.36;
use Test::More;

sub pods ($s) {
	return map { $_->{metadata}{name} => $_ } $s->list('pods', labels => 'graphcore.ai/job=many');
}

sub ($s) {
	$s->start(agents => 4, set => [ 'jobs.restartBackoffSeconds=1' ]);
	my $job = $s->job('many', ipus => 2, spec => { jobInstances => 3, workersPerJobInstance => '2',
		restartPolicy => { type => 'Always', backOffLimit => 5 } });
	$s->create('ipujobs', $job);
	$s->wait_job('many', 'Running');
	$s->wait_for('six Pods that run', sub {
		my %pods = pods($s);
		return 6 == grep { $_->{status}{phase} eq 'Running' } values %pods;
	});
	my $ids = join ' ', sort map { $_->{id} } $s->partitions;
	for my $end ([ 'a worker that fails', sub { $s->back->end_pod($s, 'many-worker-2', 3, '') } ],
		[ 'a worker that is deleted', sub { $s->delete('pods', 'many-worker-3') } ]) {
		my ($what, $do) = @$end;
		my %old = pods($s);
		$do->();
		$s->wait_for('the instance to be back', sub {
			my %new = pods($s);
			return 6 == grep({ $_->{status}{phase} eq 'Running' && !$_->{metadata}{deletionTimestamp} } values %new)
				&& !grep { $new{$_}{metadata}{uid} eq $old{$_}{metadata}{uid} } qw(many-worker-2 many-worker-3);
		}, seconds => 60);
		my %new = pods($s);
		is($new{"many-worker-$_"}{metadata}{uid}, $old{"many-worker-$_"}{metadata}{uid},
			"$what: worker $_ of another instance runs on") for 0, 1, 4, 5;
		is(join(' ', sort map { $_->{id} } $s->partitions), $ids, '… and the partitions are the same');
		$s->wait_job('many', 'Running');
	}
	is($s->get_job('many')->{status}{restartCount}, 2, 'two restarts were counted');
};
