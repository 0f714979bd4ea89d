# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# `kubectl scale` on an IPUJob: more instances, fewer, and more than there are IPUs for. The highest go, the others
# don't notice; the scale subresource tells an autoscaler what it asks for.

use v5.36;
use Test::More;

# Pods of a job by name, those on their way out too.
sub pods ($s, $name) {
	return { map { $_->{metadata}{name} => $_ } $s->list('pods', labels => "graphcore.ai/job=$name") };
}

sub uids ($s, $name) {
	my $pods = pods($s, $name);
	return { map { $_ => $pods->{$_}{metadata}{uid} } keys %$pods };
}

sub scale ($s, @arguments) {
	my $result = $s->kubectl([ 'scale', 'ipujob', @arguments ]);
	is($result->{status}, 0, "kubectl scale @arguments") or diag($result->{err});
	return;
}

sub wait_replicas ($s, $name, $current, $desired) {
	return $s->wait_for("$current of $desired instances", sub {
		my $status = $s->get_job($name)->{status};
		return ($status->{currentReplicas} // -1) == $current
			&& ($status->{desiredReplicas} // -1) == $desired
			&& keys(%{ pods($s, $name) }) == $current ? $status : undef;
	});
}

sub ids ($s) {
	my @ids = sort map { $_->{id} } $s->partitions;
	return @ids;
}

sub ($s) {
	$s->start(agents => 4);
	$s->create_job('web', ipus => 2, spec => { jobInstances => 2 });
	$s->wait_job('web', 'Running');
	wait_replicas($s, 'web', 2, 2);
	my $first = uids($s, 'web');
	my @first_ids = ids($s);

	scale($s, 'web', '--replicas=4');
	wait_replicas($s, 'web', 4, 4);
	$s->wait_job('web', 'Running');
	my $four = uids($s, 'web');
	is_deeply({ map { $_ => $four->{$_} } keys %$first }, $first, 'up: those that were there run on');
	is_deeply([ sort keys %$four ], [ map { "web-worker-$_" } 0 .. 3 ], '… and two are new');
	is(scalar ids($s), 4, '… with partitions of their own');

	my $raw = $s->must('GET', $s->path('ipujobs', 'default', 'web', 'scale'));
	is($raw->{kind}, 'Scale', 'the scale subresource');
	is($raw->{spec}{replicas}, 4, '… has what is wanted');
	is($raw->{status}{replicas}, 4, '… what there is');
	my @selected = $s->list('pods', labels => $raw->{status}{selector} =~ s/,/%2C/gr);
	is_deeply([ sort map { $_->{metadata}{name} } @selected ], [ sort keys %$four ],
		'… and a selector that finds its Pods and no others');
	my (undef, $row) = $s->columns('ipujobs', 'web');
	is("$row->{CURRENT} $row->{DESIRED}", '4 4', '… as the columns say');

	scale($s, 'web', '--replicas=1', '--current-replicas=4');
	wait_replicas($s, 'web', 1, 1);
	is_deeply(uids($s, 'web'), { 'web-worker-0' => $four->{'web-worker-0'} },
		'down: the lowest runs on, the others are gone');
	$s->wait_for('their IPUs to be free', sub { $s->stats->{total}{used} == 2 && ids($s) == 1 });
	ok((grep { $_ eq (ids($s))[0] } @first_ids), '… and its partition is the one that it had');
	is($s->get_job('web')->{status}{launcherStatus}, 'Running', '… and it is still Running');

	my $refused = $s->kubectl([ qw(scale ipujob web --replicas=3 --current-replicas=2) ]);
	isnt($refused->{status}, 0, 'a wrong idea of what there is changes nothing');

	# 16 IPUs: eight instances and no more.
	scale($s, 'web', '--replicas=10');
	$s->wait_for('eight Pods and two that wait', sub {
		keys(%{ pods($s, 'web') }) == 8 && keys(%{ $s->tracker_waits }) == 2;
	});
	like($s->wait_message('web', qr/2 IPUs/)->{status}{lastMessage}, qr/wait/i,
		'too many: the status says what is waited for');
	is($s->stats->{total}{used}, 16, '… no more IPUs than there are');
	my $eight = uids($s, 'web');
	scale($s, 'web', '--replicas=8');
	$s->wait_for('nobody to wait', sub { !%{ $s->tracker_waits } });
	scale($s, 'web', '--replicas=3');
	$s->wait_for('three', sub { keys(%{ pods($s, 'web') }) == 3 && ids($s) == 3 });
	$s->wait_job('web', 'Running');
	my $three = uids($s, 'web');
	is_deeply([ sort keys %$three ], [ map { "web-worker-$_" } 0 .. 2 ], '… the lowest are left');
	is($three->{'web-worker-0'}, $eight->{'web-worker-0'}, '… and run on');

	# While some are starting, and back before they are there.
	scale($s, 'web', "--replicas=$_") for 6, 2, 5, 3;
	$s->wait_for('three again', sub {
		return keys(%{ pods($s, 'web') }) == 3 && ids($s) == 3 && $s->stats->{total}{used} == 6;
	});
	pass('to and fro: what is left over is given back');
};
