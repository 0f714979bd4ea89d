# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (nodes): the simulator has no Deployments and Jobs, and starts no container a second time
#
# The annotation in the templates of a Deployment and a Job: each of their Pods has IPUs of its own, and the next one
# gets them when one goes; a container that is restarted within its Pod keeps the partition, which nobody resets.

use v5.36;
use IpuTest qw(json_encode spit test_dir);
use Test::More;

sub apply ($s, $object) {
	my $name = $object->{metadata}{name};
	my $done = $s->kubectl([ 'apply', '-f', spit(test_dir() . "/$name.json", json_encode($object)) ]);
	is($done->{status}, 0, "$object->{kind} $name") or diag($done->{err});
	return;
}

sub template ($s, $name, %option) {
	my $pod = $s->pod('any', %option);
	delete $pod->{metadata}{name};
	$pod->{metadata}{labels}{app} = $name;
	$pod->{spec}{restartPolicy} = $option{restart};
	return { metadata => $pod->{metadata}, spec => $pod->{spec} };
}

sub pods_of ($s, $name) { return grep { !$_->{metadata}{deletionTimestamp} } $s->list('pods', labels => "app=$name") }

sub wait_running ($s, $name, $n) {
	return @{ $s->wait_for("$n Pods of $name to run", sub {
		my @pods = pods_of($s, $name);
		return @pods == $n && !(grep { $_->{status}{phase} ne 'Running' } @pods) ? \@pods : undef;
	}, seconds => 60) };
}

sub partition_of ($pod) { return $pod->{metadata}{annotations}{'graphcore.ai/partition'} }

sub ($s) {
	$s->start(webhook => 1);

	apply($s, { apiVersion => 'apps/v1', kind => 'Deployment', metadata => { name => 'serve' }, spec => { replicas => 2,
		selector => { matchLabels => { app => 'serve' } }, template => template($s, 'serve', ipus => 4, restart => 'Always',
			container => { ports => [ { containerPort => 8123 } ] }) } });
	my @pods = wait_running($s, 'serve', 2);
	my %partition = map { partition_of($_) => 1 } @pods;
	is($pods[0]{spec}{containers}[0]{ports}[0]{hostPort}, 8123, 'a port is one of the host, as with hostNetwork from the start');
	is(scalar keys %partition, 2, 'each Pod of a Deployment has a partition of its own');
	$s->delete('pods', $pods[0]{metadata}{name});
	my ($next) = grep { $_->{metadata}{uid} ne $pods[1]{metadata}{uid} } @{ $s->wait_for('the next one', sub {
		my @now = grep { $_->{metadata}{uid} ne $pods[0]{metadata}{uid} } pods_of($s, 'serve');
		return @now == 2 && !(grep { $_->{status}{phase} ne 'Running' } @now) ? \@now : undef;
	}, seconds => 60) };
	ok(!$partition{ partition_of($next) }, 'the Pod in the place of one that was deleted has another one');

	my $name = $next->{metadata}{name};
	my $before = partition_of($next);
	$s->finish_pod($name, 1);
	my $again = $s->wait_for('its container to be restarted', sub {
		my $pod = $s->get('pods', $name);
		my $status = $pod->{status}{containerStatuses}[0];
		return $status->{restartCount} > 0 && $status->{state}{running} ? $pod : undef;
	}, seconds => 60);
	is(partition_of($again), $before, 'a container that is restarted has the same partition');
	is($s->tracker->{$before}{attempt} // 0, 0, '… which nobody has reset');
	$s->kubectl([ 'delete', 'deployment', 'serve', '--wait=false' ]);
	$s->wait_for('the IPUs of the Deployment to come back', sub { !$s->partitions }, seconds => 60);

	apply($s, { apiVersion => 'batch/v1', kind => 'Job', metadata => { name => 'train' }, spec => { completions => 3, parallelism => 2,
		template => template($s, 'train', ipus => 8, runs => 1, restart => 'OnFailure') } });
	$s->wait_for('a Job of three, two at a time', sub {
		my $done = $s->kubectl([ qw(get job train -o jsonpath={.status.succeeded}) ]);
		return $done->{out} eq '3';
	}, seconds => 90);
	pass('a Job of three Pods with all IPUs two by two has succeeded');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions && !keys %{ $s->tracker } });

	apply($s, { apiVersion => 'batch/v1', kind => 'Job', metadata => { name => 'wrong' }, spec => {
		template => template($s, 'wrong', ipus => 3, restart => 'Never') } });
	$s->wait_for('the refusal of a bad number in a template', sub {
		my $events = $s->kubectl([ qw(get events --field-selector involvedObject.name=wrong -o json) ])->{out};
		return $events =~ /metadata\.annotations\[graphcore\.ai\/ipus\].*must be a power of two/;
	});
	pass('… is in the Events of the Job');
	$s->kubectl([ qw(delete job train wrong) ]);
};
