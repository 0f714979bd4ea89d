# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A rollout goes on as fast as instances get Ready, readiness gates included, and no faster: each step waits for
# the one before. A version that never gets Ready stops it; changed back, all goes on as it was.

use v5.36;
use Test::More;

sub pods ($s, $name) {
	return map { $_->{metadata}{name} => $_ } $s->list('pods', labels => "graphcore.ai/job=$name");
}

sub uid ($s, $pod) { return $s->get('pods', $pod)->{metadata}{uid} }

sub condition ($pod, $type) {
	return (grep { $_->{type} eq $type } @{ $pod->{status}{conditions} // [] })[0]{status} // '';
}

sub waits_at_gate ($pod) {
	return $pod->{spec}{readinessGates} && $pod->{status}{phase} eq 'Running' && !$pod->{metadata}{deletionTimestamp}
		&& condition($pod, 'ContainersReady') eq 'True' && condition($pod, 'Ready') ne 'True';
}

# Waits for a Pod of the new version that runs and waits for its gate.
sub wait_at_gate ($s, $name) {
	return $s->wait_for("$name to wait at its gate", sub {
		my $pod = $s->get('pods', $name);
		return $pod && waits_at_gate($pod) ? $pod : undef;
	});
}

sub open_gate ($s, $name) {
	my $pod = wait_at_gate($s, $name);
	my @others = grep { $_->{type} ne 'example.com/warm' } @{ $pod->{status}{conditions} };
	$s->patch('pods', $name, { status => { conditions => [ @others,
		{ type => 'example.com/warm', status => 'True' } ] } }, sub => 'status');
	$s->wait_for("$name to be Ready", sub { condition($s->get('pods', $name), 'Ready') eq 'True' });
	return;
}

sub gates ($s, $list) {
	$s->patch('ipujobs', 'warm',
		{ spec => { workers => { template => { spec => { readinessGates => $list } } } } });
	return;
}

sub ($s) {
	$s->start(agents => 4);
	my $job = $s->job('warm', ipus => 2, spec => { jobInstances => 2 });
	$job->{spec}{workers}{strategy} = { type => 'RollingUpdate',
		rollingUpdate => { maxSurge => 1, maxUnavailable => 0 } };
	$s->create('ipujobs', $job);
	$s->wait_job('warm', 'Running');
	$s->wait_for('both to be Ready', sub {
		my %pods = pods($s, 'warm');
		return 2 == grep { condition($_, 'Ready') eq 'True' } values %pods;
	});
	my %old = map { $_ => uid($s, $_) } qw(warm-worker-0 warm-worker-1);
	gates($s, [ { conditionType => 'example.com/warm' } ]);

	wait_at_gate($s, 'warm-worker-2');
	is(uid($s, $_), $old{$_}, "the surge instance isn't Ready: $_ runs on") for sort keys %old;
	open_gate($s, 'warm-worker-2');
	wait_at_gate($s, 'warm-worker-0');
	isnt(uid($s, 'warm-worker-0'), $old{'warm-worker-0'}, 'it is: the lowest was replaced');
	is(uid($s, 'warm-worker-1'), $old{'warm-worker-1'}, '… the next one runs on until this is Ready');

	# Back: what waits at its gate goes at once, what runs stays.
	gates($s, undef);
	$s->wait_for('the old version everywhere', sub {
		my %pods = pods($s, 'warm');
		return keys %pods == 2 && 2 == grep { !$_->{spec}{readinessGates}
			&& condition($_, 'Ready') eq 'True' } values %pods;
	});
	is(uid($s, 'warm-worker-1'), $old{'warm-worker-1'}, 'changed back: what had not gone runs on');

	gates($s, [ { conditionType => 'example.com/warm' } ]);
	open_gate($s, $_) for map { "warm-worker-$_" } 2, 0, 1;
	$s->wait_for('the surge instance to go', sub {
		my %pods = pods($s, 'warm');
		return join(' ', sort keys %pods) eq 'warm-worker-0 warm-worker-1';
	});
	pass('gate by gate, to the end');
};
