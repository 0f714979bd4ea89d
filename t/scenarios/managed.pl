# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# managedBy: a job that another controller runs is left as it is, also when it's deleted.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 2);
	my $made = $s->create_job('theirs', spec => { managedBy => 'kueue.x-k8s.io/multikueue' });
	$s->create_job('ours', runs => 0, spec => { managedBy => 'graphcore.ai/ipu-operator' });
	$s->wait_job('ours', 'Completed');
	$s->settle;
	my $now = $s->get_job('theirs');
	is($now->{metadata}{resourceVersion}, $made->{metadata}{resourceVersion}, 'not a word is written in it');
	is_deeply([ grep { /^theirs-/ } keys %{ $s->pods('theirs') }, map { $_->{id} } $s->partitions ], [], '… nor made for it');
	is_deeply([ $s->events('theirs') ], [], '… nor said of it');

	# Whoever it is writes what they like.
	$s->patch('ipujobs', 'theirs', { status => { launcherStatus => 'Running', lastMessage => 'elsewhere', desiredReplicas => 1 } },
		sub => 'status');
	$s->settle;
	is($s->get_job('theirs')->{status}{lastMessage}, 'elsewhere', 'their status stays');
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;
	$s->settle;
	is($s->get_job('theirs')->{status}{lastMessage}, 'elsewhere', '… whatever happens to the operator');
	$s->delete_job('theirs');
	$s->wait_job_gone('theirs');
	pass('and it goes when it\'s deleted');
};
