# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# Jobs without a launcher at their end: cleanPodPolicy says which Pods stay, the IPUs come back in any case, and
# nothing that happens to what is left changes the verdict.

use v5.36;
use Test::More;

sub ($s) {
	$s->start(agents => 4);
	my %code = (well => 0, badly => 1);
	my @jobs;
	for my $policy (qw(None All Workers)) {
		for my $end (sort keys %code) {
			my $name = lc "end-$policy-$end";
			push @jobs, { name => $name, policy => $policy, end => $end };
			$s->create_job($name, ipus => 2, spec => { cleanPodPolicy => $policy, workersPerJobInstance => '2' });
		}
	}
	$s->wait_job($_->{name}, 'Running') for @jobs;
	for my $job (@jobs) {
		$s->finish_pod("$job->{name}-worker-0", $code{ $job->{end} });
		$s->finish_pod("$job->{name}-worker-1") if $job->{end} eq 'well';
	}
	for my $job (@jobs) {
		my $is = $s->wait_job($job->{name}, $job->{end} eq 'well' ? 'Completed' : 'Failed');
		ok($is->{status}{completionTime}, "cleanPodPolicy $job->{policy}, it ends $job->{end}: completionTime");
	}
	$s->wait_for('all IPUs to come back', sub { !$s->partitions });
	$s->settle;
	my %ended;
	for my $job (@jobs) {
		my ($name, $stays) = @$job{qw(name policy)};
		my $is = $ended{$name} = $s->wait_for("$name to say that it has no partition", sub {
			my $now = $s->get_job($name);
			return $now->{status}{iPUPartitionCreated} ? undef : $now;
		});
		$s->wait_for('its Pods to go', sub { !%{ $s->pods($name) } }) if $stays ne 'None';
		# Those that hadn't ended when the job failed are never left running.
		my @want = $stays ne 'None' ? () : $job->{end} eq 'well' ? map { "$name-worker-$_" } 0, 1 : "$name-worker-0";
		is_deeply([ sort keys %{ $s->pods($name) } ], \@want, "cleanPodPolicy $stays, it has ended $job->{end}: its Pods");
		is(Scenario::condition($is)->{type}, $job->{end} eq 'well' ? 'Succeeded' : 'Failed', '… its condition');
		is($is->{status}{workersStatus}{active} // 0, 0, '… none is active');
	}

	# What is left is nobody's business any more; nor is another size, or another template.
	for my $name (map { $_->{name} } @jobs) {
		$s->delete('pods', $_) for keys %{ $s->pods($name) };
		$s->patch('ipujobs', $name, { spec => { ipusPerJobInstance => '4' } });
	}
	$s->settle;
	for my $name (map { $_->{name} } @jobs) {
		my $now = $s->get_job($name);
		is_deeply([ map { @$_{qw(launcherStatus completionTime lastMessage workersStatus restartCount)} } $now->{status} ],
			[ map { @$_{qw(launcherStatus completionTime lastMessage workersStatus restartCount)} } $ended{$name}{status} ],
			"$name: what happens later changes nothing");
		is_deeply([ keys %{ $s->pods($name) } ], [], '… and begins nothing');
	}
	is_deeply([ map { $_->{id} } $s->partitions ], [], 'nor are there new partitions');
};
