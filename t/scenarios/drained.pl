# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# Workers that leave in order when they're told to, as servers do: one that a drained node or a person has taken away has
# exited with 0, and hasn't done what it was there for. One that had ended before its deletion has.

use v5.36;
use Test::More;

my %patient = (container => { command => [ 'sh', '-c',
	q(trap 'echo leaving; exit 0' TERM; echo >/tmp/serves; while :; do sleep 0.1; done) ] });

sub serve ($s, $name, %spec) {
	$s->create_job($name, ipus => 2, %patient, spec => \%spec);
	$s->wait_job($name, 'Running');
	$s->wait_for("$name to serve", sub {
		return $s->kubectl([ 'exec', "$name-worker-0", '--', 'cat', '/tmp/serves' ])->{status} == 0;
	});
	return $s->get_worker($name);
}

sub ($s) {
	$s->start(run_pods => 1, agents => 4);
	$s->wait_ready;

	my $pod = serve($s, 'once');
	$s->delete('pods', 'once-worker-0');
	my $job = $s->wait_job('once', 'Failed');
	like($job->{status}{lastMessage}, qr/once-worker-0.*deleted before it (had )?ended/,
		'a worker that was deleted and exits with 0: the job has failed, and says why');
	ok(!$job->{status}{workersStatus}{succeeded}, '… no worker has succeeded');

	$pod = serve($s, 'again', restartPolicy => { type => 'OnFailure', backOffLimit => 2 });
	$s->delete('pods', 'again-worker-0');
	$job = $s->wait_for('another run', sub {
		my $now = $s->get_job('again');
		return ($now->{status}{restartCount} // 0) == 1 && $now->{status}{launcherStatus} eq 'Running' ? $now : undef;
	});
	isnt($s->get_worker('again')->{metadata}{uid}, $pod->{metadata}{uid}, 'with OnFailure, another one takes its place');

	$pod = serve($s, 'coded', restartPolicy => { type => 'ExitCode', exitCodes => '137' });
	$s->delete('pods', 'coded-worker-0');
	$s->wait_for('a restart', sub { ($s->get_job('coded')->{status}{restartCount} // 0) == 1 });
	pass('with exit codes, it counts as 137');

	$s->create_job('done');
	$s->wait_job('done', 'Running');
	$s->end_pod('done');
	$s->wait_job('done', 'Completed');
	$s->delete('pods', 'done-worker-0');
	$s->wait_for('its Pod to go', sub { !$s->get_worker('done') });
	$s->settle;
	is($s->get_job('done')->{status}{launcherStatus}, 'Completed', 'what had ended before its deletion has succeeded');
};
