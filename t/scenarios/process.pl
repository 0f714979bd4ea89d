# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): the simulator runs no processes, and a process is what is looked at
#
# What a worker's process sees: its partition's environment, the host's network, all privileges, and a
# V-IPU controller that answers at the address it was given. Its end is the job's end.

use v5.36;
use Test::More;

my $look = <<'END';
echo "env $IPUOF_VIPU_API_HOST $IPUOF_VIPU_API_PORT $IPUOF_VIPU_API_PARTITION_ID $IPUOF_VIPU_API_GCD_ID $IPUOF_VIPU_API_TIMEOUT"
echo "own $OWN"
echo "name $(hostname)"
ip -o -4 addr show dev eth0
sed -n 's/^CapEff:\t*/caps /p' /proc/self/status
nc -w 5 "$IPUOF_VIPU_API_HOST" "$IPUOF_VIPU_API_PORT" </dev/null >/dev/null && echo connected
END

sub ($s) {
	$s->start(label => 'ipunode=pod001');
	$s->patch('nodes', 'node2', { metadata => { labels => { ipunode => 'pod001' } } });

	$s->create_job('sees', ipus => 8, container => { command => [ 'sh', '-c', $look ],
		env => [ { name => 'OWN', value => 'partition $(IPUOF_VIPU_API_PARTITION_ID)' } ] });
	my $partition = $s->wait_for('a partition', sub { ($s->partitions)[0] });
	my $job = $s->wait_job('sees', 'Completed');
	is($partition->{size}, 8, 'the partition has the size that was asked for');
	my $log = $s->kubectl([ 'logs', 'sees-worker-0' ])->{out};
	my ($host, $port) = split /:/, ($s->controllers)[0];
	my $id = $partition->{id};
	like($log, qr/^env \Q$host $port $id 0 120\E$/m, 'the process has its partition\'s environment');
	like($log, qr/^own partition \Q$id\E$/m, 'the template\'s own variables may refer to it');
	like($log, qr/^name node2$/m, 'it is on a node that reaches the controller');
	like($log, qr{ inet 10\.150\.0\.12/16 }, '… and on that node\'s network');
	my ($caps) = (IpuTest::slurp('/proc/self/status') // '') =~ /^CapEff:\s*(\w+)/m;
	like($log, qr/^caps $caps$/m, 'it has all privileges');
	like($log, qr/^connected$/m, 'the controller can be reached at the address that it was given');
	is($job->{status}{workersStatus}{succeeded}, 1, 'it ended well, so did the job');

	$s->create_job('fails', exit => 3, runs => 0, words => 'no such dataset');
	$job = $s->wait_job('fails', 'Failed');
	like($job->{status}{lastMessage}, qr/fails-worker-0/, 'a process that fails fails the job: which Pod');
	like($job->{status}{lastMessage}, qr/\b3\b/, '… with which exit code');
	like($job->{status}{lastMessage}, qr/no such dataset/, '… and its own words');
	is(Scenario::condition($job)->{reason}, 'IPUJobFailed', 'the condition');
	like($s->wait_event('fails', 'PodFailed')->{message}, qr/no such dataset/, 'an Event says it too');
	like($s->wait_event('fails', 'JobFailed')->{message}, qr/has failed/, '… and one of the job');
	$s->wait_for('its partition to go', sub { !$s->partitions });

	# Two at a time, on the same node and network.
	$s->create_job($_, runs => 1) for qw(one two);
	$s->wait_job($_, 'Completed') for qw(one two);
	my %ids = map { $s->get_worker($_)->{metadata}{annotations}{'graphcore.ai/partition'} => 1 } qw(one two);
	is(scalar keys %ids, 2, 'two jobs at a time have a partition each');
	$s->patch('nodes', 'node2', { metadata => { labels => { ipunode => undef } } });
};
