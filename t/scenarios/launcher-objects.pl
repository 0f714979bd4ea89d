# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What a job with a launcher has beside its workers: made once, narrowed to this job, made again when somebody
# removes or changes it, and never taken from somebody else.

use v5.36;
use Test::More;

my %launcher = (launcher => { command => [ 'mpirun', 'x' ], env => [ { name => 'A', value => 'b' } ] });
my @objects = ([ configmaps => 'config' ], [ serviceaccounts => 'launcher' ], [ roles => 'launcher' ],
	[ rolebindings => 'launcher' ]);

sub config ($s, $name) { return $s->get('configmaps', "$name-config") }

sub made ($s) {
	$s->create('serviceaccounts', { apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => 'puller' },
		imagePullSecrets => [ { name => 'registry' } ] });
	$s->create_job('made', ipus => 4, template => { spec => { serviceAccountName => 'puller' } }, spec => { %launcher, jobInstances => 2, workersPerJobInstance => '2',
		modelReplicasPerWorker => '2' });
	$s->wait_pod("made-$_", 'Running') for qw(launcher launcher-1);
	my $uid = $s->get_job('made')->{metadata}{uid};
	for (@objects) {
		my $object = $s->get($_->[0], "made-$_->[1]");
		is($object->{metadata}{ownerReferences}[0]{uid}, $uid, "$_->[0]: it is the job's");
	}
	is_deeply($s->get('serviceaccounts', 'made-launcher')->{imagePullSecrets}, [ { name => 'registry' } ],
		'its launcher\'s image can be pulled as its workers\' can');
	my $data = config($s, 'made')->{data};
	is_deeply([ sort keys %$data ], [qw(hostfile hostfile-1 kubeexec.sh machinefile machinefile-1)], 'what there is');
	is($data->{hostfile}, "made-worker-0 slots=2\nmade-worker-1 slots=2\n", 'the workers of the first instance');
	is($data->{'hostfile-1'}, "made-worker-2 slots=2\nmade-worker-3 slots=2\n", '… and of the second');
	for my $rule (@{ $s->get('roles', 'made-launcher')->{rules} }) {
		is_deeply($rule->{resourceNames}, [ map { "made-worker-$_" } 0 .. 3 ],
			"@{ $rule->{resources} }: a launcher reaches its job's workers");
	}
	my $pod = $s->get('pods', 'made-launcher-1');
	is($pod->{spec}{serviceAccountName}, 'made-launcher', 'launchers have an account of their own');
	is_deeply($pod->{spec}{containers}[0]{command}, [qw(mpirun x)], '… and the launcher\'s command');
	my %environment = map { $_->{name} => $_->{value} } @{ $pod->{spec}{containers}[0]{env} };
	is($environment{A}, 'b', '… and its environment');
	is($environment{OMPI_MCA_plm_rsh_agent}, '/etc/mpi/kubeexec.sh', '… and what mpirun needs');
	my $worker = $s->get('pods', 'made-worker-3');
	is_deeply($worker->{spec}{containers}[0]{command}, [qw(/.ipu/ipu-launcher init)], 'workers wait');
	my %share = map { $_->{name} => $_->{value} } @{ $worker->{spec}{containers}[0]{env} };
	is($share{POPDIST_REPLICA_INDEX_OFFSET}, '2', '… and know which replicas are theirs');
	$s->delete('serviceaccounts', 'puller');
	return;
}

# Removed, or changed by hand: a launcher that is made later finds it as it should be.
sub mended ($s) {
	my %spec = (%launcher, workersPerJobInstance => '1', restartPolicy => { type => 'OnFailure', backOffLimit => 3 });
	$s->create_job('mended', ipus => 1, spec => \%spec);
	$s->wait_pod('mended-launcher', 'Running');
	$s->delete('configmaps', 'mended-config');
	$s->finish_pod('mended-launcher', 1);
	$s->wait_for('the ConfigMap to be made again', sub { config($s, 'mended') });
	$s->wait_for('the job to run again', sub {
		my $job = $s->get_job('mended');
		($job->{status}{restartCount} // 0) == 1 && $job->{status}{launcherStatus} eq 'Running' });
	$s->patch('configmaps', 'mended-config', { data => { hostfile => 'elsewhere' } });
	$s->finish_pod('mended-launcher', 1);
	$s->wait_for('the hostfile to be put right', sub { config($s, 'mended')->{data}{hostfile} =~ /^mended-worker-0 / });
	$s->wait_for('the job to run once more', sub {
		my $job = $s->get_job('mended');
		($job->{status}{restartCount} // 0) == 2 && $job->{status}{launcherStatus} eq 'Running' });
	$s->finish_pod('mended-launcher');
	$s->wait_job('mended', 'Completed');
	return;
}

# A name that is somebody else's: told, left alone, and the job goes on when it's free.
sub conflicts ($s) {
	my %kind = (configmaps => 'ConfigMap', serviceaccounts => 'ServiceAccount');
	for (@objects[ 0, 1 ]) {
		my ($resource, $end) = @$_;
		my $name = "held-$end";
		my $theirs = $s->create($resource, { apiVersion => 'v1', kind => $kind{$resource},
			metadata => { name => "$name-$end", labels => { mine => 'yes' } } });
		$s->create_job($name, ipus => 1, spec => { %launcher });
		my $event = $s->wait_event($name, 'NameConflict');
		like($event->{message}, qr/$kind{$resource} \Q$name-$end\E exists and isn't this job's/, "$resource: told");
		$s->wait_message($name, qr/\Q$name-$end\E/);
		ok(!$s->get('pods', "$name-launcher"), '… no launcher without it');
		is($s->get($resource, "$name-$end")->{metadata}{resourceVersion}, $theirs->{metadata}{resourceVersion},
			'… and it is as it was');
		$s->delete($resource, "$name-$end");
	}
	return;
}

sub conflicts_are_over ($s) {
	for my $name (map { "held-$_->[1]" } @objects[ 0, 1 ]) {
		$s->wait_pod("$name-launcher", 'Running', seconds => 60);
		pass("$name: it goes on when the name is free");
	}
	return;
}

# Another process finds all of it: nothing is made twice, nothing is left out.
sub found_again ($s) {
	$s->create_job('found', ipus => 1, unready => 1, spec => { %launcher });
	$s->wait_pod('found-worker-0', 'Running');
	$s->wait_for('its objects', sub { $s->get('rolebindings', 'found-launcher') });
	my @before = map { $s->get($_->[0], "found-$_->[1]")->{metadata}{resourceVersion} } @objects;
	$s->operator->crash;
	$s->restart_operator;
	$s->set_ready('found-worker-0');
	$s->wait_pod('found-launcher', 'Running');
	is_deeply([ map { $s->get($_->[0], "found-$_->[1]")->{metadata}{resourceVersion} } @objects ], \@before,
		'what is there as it should be isn\'t written');
	return;
}

sub ($s) {
	$s->start(agents => 4);
	conflicts($s);
	made($s);
	mended($s);
	found_again($s);
	conflicts_are_over($s);
};
