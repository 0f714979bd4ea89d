# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A template that changes: instances are replaced one after the other, in place, with a surge instance beside
# them, and enough of them are always available; Recreate replaces all at once. What happens in between (the
# operator is killed, the template changes again, the job is scaled) changes nothing of that.

use v5.36;
use Test::More;

# Pods of a job by name; those of another job with the same name's beginning aren't meant.
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

sub container ($version) { return { env => [ { name => 'VERSION', value => $version } ] } }

sub create ($s, $name, $instances, %option) {
	my $job = $s->job($name, ipus => 2, container => container('1'),
		spec => { jobInstances => $instances }, %option);
	$job->{spec}{workers}{strategy} = $option{strategy} if $option{strategy};
	$s->create('ipujobs', $job);
	$s->wait_job($name, 'Running');
	$s->wait_for("$instances available", sub {
		my %pods = pods($s, $name);
		return $instances == grep { is_available($_) } values %pods;
	});
	return;
}

# A merge patch replaces lists as a whole, as `kubectl apply` with an edited manifest would.
sub change ($s, $name, $version) {
	my $containers = $s->get_job($name)->{spec}{workers}{template}{spec}{containers};
	$containers->[0]{env}[0]{value} = $version;
	$s->patch('ipujobs', $name,
		{ spec => { workers => { template => { spec => { containers => $containers } } } } });
	return;
}

# Watches until all instances are available with that version and nothing else is there. Returns the
# fewest that were available and the most Pods that there were at a time.
sub watch_update ($s, $name, $instances, $version, $meanwhile = sub { }) {
	my ($fewest, $most, %seen) = ($instances, 0);
	$s->wait_for("$name to be at version $version", sub {
		my %pods = pods($s, $name);
		my $available = grep { is_available($_) } values %pods;
		$fewest = $available if $available < $fewest;
		$most = keys %pods if keys %pods > $most;
		$seen{$_}++ for keys %pods;
		$meanwhile->(\%pods);
		return join(' ', sort keys %pods) eq join(' ', map { "$name-worker-$_" } 0 .. $instances - 1)
			&& $instances == grep { is_available($_) && version($_) eq $version } values %pods;
	}, seconds => 60);
	my %left = pods($s, $name);
	return ($fewest, $most, \%seen, \%left);
}

sub ids ($s, $name) { return join ' ', sort grep { /^\Q$name\E-/ } map { $_->{id} } $s->partitions }

sub rolls ($s) {
	create($s, 'four', 4);
	my $ids = ids($s, 'four');
	change($s, 'four', '2');
	my ($fewest, $most, $seen) = watch_update($s, 'four', 4, '2');
	cmp_ok($fewest, '>=', 3, 'of four, three are always available');
	cmp_ok($most, '<=', 5, '… and there are five at most');
	ok($seen->{'four-worker-4'}, '… a surge instance was there');
	$s->wait_for('its IPUs to be given back', sub { ids($s, 'four') eq $ids });
	pass('the others have kept their partitions');
	my %before = pods($s, 'four');
	$s->patch('ipujobs', 'four', { metadata => { labels => { any => 'thing' } } });
	$s->patch('ipujobs', 'four', { spec => { cleanPodPolicy => 'All' } });
	$s->patch('ipujobs', 'four', { spec => { jobInstances => 3 } });
	$s->wait_for('three', sub { my %now = pods($s, 'four'); return 3 == keys %now });
	my %after = pods($s, 'four');
	is($after{$_}{metadata}{uid}, $before{$_}{metadata}{uid}, "what isn't in the template replaces nothing: $_")
		for sort keys %after;
	return;
}

sub one_by_one ($s) {
	create($s, 'safe', 2, strategy => { type => 'RollingUpdate',
		rollingUpdate => { maxSurge => 1, maxUnavailable => 0 } });
	change($s, 'safe', '2');
	my ($fewest, $most) = watch_update($s, 'safe', 2, '2');
	is($fewest, 2, 'with maxUnavailable 0, both are always available');
	cmp_ok($most, '<=', 3, '… with one beside them at most');
	# It may come and go between two looks.
	$s->wait_for('the Event of it', sub { grep { $_->{reason} eq 'PodCreated' && $_->{message} =~ /\bsafe-worker-2\b/ } $s->events('safe') });
	create($s, 'tight', 3, strategy => { type => 'RollingUpdate',
		rollingUpdate => { maxSurge => 0, maxUnavailable => 1 } });
	change($s, 'tight', '2');
	($fewest, $most) = watch_update($s, 'tight', 3, '2');
	is($fewest, 2, 'with maxSurge 0, one goes at a time');
	is($most, 3, '… and there are never more than three');
	return;
}

sub recreates ($s) {
	create($s, 'all', 3, strategy => { type => 'Recreate' });
	my $ids = ids($s, 'all');
	change($s, 'all', '2');
	my $mixed = 0;
	my (undef, $most) = watch_update($s, 'all', 3, '2', sub ($pods) {
		my %versions = map { version($_) => 1 } grep { is_available($_) } values %$pods;
		$mixed++ if keys %versions > 1;
	});
	is($mixed, 0, 'Recreate: old and new are never available together');
	is($most, 3, '… and there are no others');
	is(ids($s, 'all'), $ids, '… on the same partitions');
	return;
}

# What there is to see of a job: which Pods, of which version, available or not.
sub look ($s, $name) {
	my %pods = pods($s, $name);
	return join ' ', map { "$_=" . version($pods{$_}) . (is_available($pods{$_}) ? '' : '?') } sort keys %pods;
}

# Killed and started again whenever there is something new to see. Several things may happen at once: then it ends sooner.
sub survives ($s) {
	create($s, 'killed', 4);
	my $state = look($s, 'killed');
	change($s, 'killed', '2');
	my ($fewest, $kills) = (4, 0);
	my $is_done = sub {
		my %pods = pods($s, 'killed');
		return keys %pods == 4 && !grep { version($_) ne '2' || !is_available($_) } values %pods;
	};
	for (1 .. 6) {
		$s->wait_for('something to happen', sub { look($s, 'killed') ne $state || $is_done->() });
		last if $is_done->();
		$s->operator->crash;
		$kills++;
		$state = look($s, 'killed');
		my $ready = grep { !/\?/ } split ' ', $state;
		$fewest = $ready if $ready < $fewest;
		$s->restart_operator;
	}
	my ($then, $others) = watch_update($s, 'killed', 4, '2');
	cmp_ok($kills, '>=', 3, 'killed at every step');
	cmp_ok($fewest, '>=', 3, '… three of four were always available');
	cmp_ok($then, '>=', 3, '… and afterwards');
	cmp_ok($others, '<=', 5, '… and there were five at most');
	$s->wait_ready;
	return;
}

sub changes_again ($s) {
	create($s, 'twice', 4);
	change($s, 'twice', '2');
	$s->wait_for('the first new one', sub {
		my %pods = pods($s, 'twice');
		return grep { version($_) eq '2' } values %pods;
	});
	change($s, 'twice', '3');
	my ($fewest, $most) = watch_update($s, 'twice', 4, '3');
	cmp_ok($fewest, '>=', 3, 'changed once more: three of four are always available');
	cmp_ok($most, '<=', 5, '… and there are five at most');
	change($s, 'twice', '4');
	$s->wait_for('the first new one', sub {
		my %pods = pods($s, 'twice');
		return grep { version($_) eq '4' } values %pods;
	});
	my %before = pods($s, 'twice');
	change($s, 'twice', '3');
	($fewest, $most, undef, my $left) = watch_update($s, 'twice', 4, '3');
	cmp_ok($fewest, '>=', 3, 'changed back: three of four are always available');
	my $same = grep { $before{$_} && $before{$_}{metadata}{uid} eq $left->{$_}{metadata}{uid} } keys %$left;
	cmp_ok($same, '>=', 1, "… and those that hadn't gone yet run on: $same");
	return;
}

sub is_scaled ($s) {
	create($s, 'sized', 3);
	change($s, 'sized', '2');
	$s->patch('ipujobs', 'sized', { spec => { jobInstances => 5 } });
	watch_update($s, 'sized', 5, '2');
	pass('scaled up meanwhile');
	change($s, 'sized', '3');
	$s->wait_for('the first new one', sub {
		my %pods = pods($s, 'sized');
		return grep { version($_) eq '3' } values %pods;
	});
	$s->patch('ipujobs', 'sized', { spec => { jobInstances => 2 } });
	watch_update($s, 'sized', 2, '3');
	pass('scaled down meanwhile');
	$s->wait_for('what is left over to be given back', sub { 2 == split ' ', ids($s, 'sized') });
	return;
}

sub ($s) {
	$s->start(agents => 16);
	for my $story (\&rolls, \&one_by_one, \&recreates, \&survives, \&changes_again, \&is_scaled) {
		$story->($s);
		$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
		$s->wait_for('the jobs to go', sub { !$s->list('ipujobs') });
	}
};
