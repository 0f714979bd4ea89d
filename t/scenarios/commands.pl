# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# Workers' commands run: what they find in their environment and volumes, how they end, a command that
# is run beside one of them, and what is left of it all when the job goes.

use v5.36;
use Test::More;

my $look = <<'END';
echo "partition $IPUOF_VIPU_API_PARTITION_ID"
echo "text $(cat /etc/texts/word)"
echo kept >/data/kept
cat /data/kept
END

sub ($s) {
	$s->start(run_pods => 1, agents => 8);
	$s->wait_ready;
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => 'texts' },
		data => { word => 'hello' } });

	my $job = $s->job('sees', ipus => 4, container => { command => [ 'sh', '-c', $look ], volumeMounts =>
		[ { name => 'texts', mountPath => '/etc/texts' }, { name => 'data', mountPath => '/data' } ] });
	$job->{spec}{workers}{template}{spec}{volumes} =
		[ { name => 'texts', configMap => { name => 'texts' } }, { name => 'data', emptyDir => {} } ];
	$s->create('ipujobs', $job);
	my $partition = $s->wait_for('a partition', sub { ($s->partitions)[0] });
	$s->wait_job('sees', 'Completed');
	is($s->kubectl([ 'logs', 'sees-worker-0' ])->{out}, "partition $partition->{id}\ntext hello\nkept\n",
		'its environment and its volumes');

	$s->create_job('fails', exit => 3, runs => 0, words => 'no such dataset');
	$job = $s->wait_job('fails', 'Failed');
	like($job->{status}{lastMessage}, qr/fails-worker-0.*\b3\b.*no such dataset/, 'an end that is told as it was');

	$s->create_job('waits');
	$s->wait_job('waits', 'Running');
	my $result = $s->kubectl([ 'exec', 'waits-worker-0', '--', 'sh', '-c', 'echo beside it; exit 4' ]);
	is($result->{out}, "beside it\n", 'a command beside it');
	is($result->{status}, 4, '… and its exit code');
	$s->end_pod('waits');
	$s->wait_job('waits', 'Completed');

	$s->create_job('deleted');
	$s->wait_job('deleted', 'Running');
	$s->delete_job('deleted');
	$s->wait_job_gone('deleted');
	$s->delete('configmaps', 'texts');
};
