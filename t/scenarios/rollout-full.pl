# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): it takes a minute and more; t/unit/job_controller_test.c has the same in simulated time
#
# A rollout where no IPUs are free for a surge instance: after a minute it goes on without, one instance at
# a time, and once IPUs come free the surge instance takes part.

use v5.36;
use Test::More;
use Time::HiRes qw(time);

sub pods ($s, $name) {
	return map { $_->{metadata}{name} => $_ } $s->list('pods', labels => "graphcore.ai/job=$name");
}

sub version ($pod) {
	my ($env) = grep { $_->{name} eq 'VERSION' } @{ $pod->{spec}{containers}[0]{env} };
	return $env->{value};
}

sub is_available ($pod) {
	return !$pod->{metadata}{deletionTimestamp}
		&& grep { $_->{type} eq 'Ready' && $_->{status} eq 'True' } @{ $pod->{status}{conditions} // [] };
}

sub change ($s, $name, $version) {
	my $containers = $s->get_job($name)->{spec}{workers}{template}{spec}{containers};
	$containers->[0]{env} = [ { name => 'VERSION', value => $version },
		grep { $_->{name} ne 'VERSION' } @{ $containers->[0]{env} // [] } ];
	$s->patch('ipujobs', $name,
		{ spec => { workers => { template => { spec => { containers => $containers } } } } });
	return;
}

sub ($s) {
	$s->start(agents => 2);
	my %job = (container => { env => [ { name => 'VERSION', value => '1' } ] });
	$s->create_job('one', ipus => 4, %job);
	$s->create_job('two', ipus => 2, %job, spec => { jobInstances => 2 });
	$s->wait_job($_, 'Running') for qw(one two);
	is($s->stats->{total}{used}, 8, 'the pod is full');
	my $begin = time;
	change($s, $_, '2') for qw(one two);
	$s->wait_for('both surge instances to wait', sub { 2 == keys %{ $s->tracker_waits } });
	my ($first, $fewest) = (undef, 2);
	$s->wait_for('both jobs to be at version 2', sub {
		my (%one, %two) = ();
		%one = pods($s, 'one');
		%two = pods($s, 'two');
		my $ready = grep { is_available($_) } values %two;
		$fewest = $ready if $ready < $fewest;
		$first //= time - $begin if grep { version($_) eq '2' } values %one, values %two;
		return 1 == grep({ is_available($_) && version($_) eq '2' } values %one)
			&& 2 == grep { is_available($_) && version($_) eq '2' } values %two;
	}, seconds => 100);
	cmp_ok($first, '>=', 55, 'nothing is touched for a minute');
	is($fewest, 1, 'then one instance at a time');
	$s->wait_for('nobody to wait', sub { !%{ $s->tracker_waits } });
	is($s->stats->{total}{used}, 8, 'never more IPUs than there are');

	# Room for one, in the middle of the minute.
	my %old = pods($s, 'two');
	change($s, 'two', '3');
	$s->wait_for('the surge instance to wait', sub { 1 == keys %{ $s->tracker_waits } });
	$s->delete_job('one');
	$fewest = 2;
	$s->wait_for('it to be at version 3', sub {
		my %two = pods($s, 'two');
		my $ready = grep { is_available($_) } values %two;
		$fewest = $ready if $ready < $fewest;
		return keys %two == 2 && 2 == grep { is_available($_) && version($_) eq '3' } values %two;
	});
	is($fewest, 2, 'with room, both are always available');
};
