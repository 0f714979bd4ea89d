# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because requests are counted
#
# Annotated Pods from their creation to their end: partition, ConfigMap, gate, node selector; what that costs the API
# server (doc/design/annotated-pods.md, "Writes"); and their IPUs come back however they end.

use v5.36;
use Scenario::Annotated qw(create_pod wait_opened partition_of files_of waiting end_of_all kill_pod);
use Test::More;

my %most = ('patch configmaps' => 4, 'create configmaps' => 1, 'patch pods' => 1, 'create events' => 3);

sub writes ($s) {
	my ($metrics, %n) = ($s->metrics);
	for my $name (keys %$metrics) {
		my ($labels) = $name =~ /^ipu_operator_kube_requests_total\{(.*)\}$/ or next;
		my %label = $labels =~ /(\w+)="([^"]*)"/g;
		next if $label{verb} !~ /^(create|update|patch|delete)$/ || $label{resource} =~ /^(leases|\w+reviews)/;
		$n{"$label{verb} $label{resource}"} += $metrics->{$name};
	}
	return \%n;
}

sub count_writes ($s, $count) {
	my $before = writes($s);
	create_pod($s, "w$count-$_", ipus => 2, runs => 1) for 1 .. $count;
	$s->wait_pod("w$count-$_", 'Succeeded', seconds => 60) for 1 .. $count;
	$s->wait_event("w$count-$_", 'PartitionReleased') for 1 .. $count;
	my $after = writes($s);
	my %n = map { $_ => $after->{$_} - ($before->{$_} // 0) } keys %$after;
	my $all = 0;
	$all += $_ for values %n;
	diag(sprintf '%d Pods: %.1f writes each: %s', $count, $all / $count,
		join ', ', map { "$n{$_} $_" } grep { $n{$_} } sort keys %n);
	cmp_ok($n{$_}, '<=', $count * ($most{$_} // 0) + 1, "$count Pods: $_") for sort keys %n;
	return;
}

sub ($s) {
	$s->start(agents => 8, label => 'kubernetes.io/os=linux', set => ['jobs.unreachableNodeSeconds=2']);
	$s->wait_ready;
	count_writes($s, $_) for 1, 8;

	create_pod($s, 'works', ipus => 4);
	my $pod = $s->wait_pod('works', 'Running');
	my $id = partition_of($pod);
	is_deeply([ map { $_->{id} } $s->partitions ], [$id], 'a Pod that runs names its partition');
	is($pod->{spec}{nodeSelector}{'kubernetes.io/os'}, 'linux', 'it\'s on the nodes of its V-IPU controller');
	is(waiting($pod), '', 'it says that it waits for nothing');
	my $files = files_of($s, $pod);
	is($files->{data}{IPUOF_CONFIG_PATH}, '/etc/ipuof.conf.d/partition.conf', 'its ConfigMap has the path');
	like($files->{data}{'ipuof-0.conf'}, qr/\Q$id\E/, '… and the configuration of that partition');
	is($files->{metadata}{ownerReferences}[0]{uid}, $pod->{metadata}{uid}, '… and belongs to the Pod');
	is($s->stats->{default}{used}, 4, 'its IPUs are counted for its namespace');
	is_deeply([ $s->reasons('works') ], [qw(PartitionRequested PartitionActive)], 'Events tell of each step');
	$s->wait_for('the metrics to count it', sub {
		($s->metrics->{'ipu_operator_annotated_pods{state="served"}'} // 0) == 1
	});

	create_pod($s, $_, ipus => 2) for qw(fails evicted deleted killed);
	$s->wait_pod($_, 'Running') for qw(fails evicted deleted killed);
	$s->finish_pod('works');
	$s->finish_pod('fails', 3, 'no data');
	$s->fail_pod('evicted', 'evicted') if !$s->is_real;
	$s->delete('pods', 'deleted');
	kill_pod($s, $_) for 'killed', $s->is_real ? 'evicted' : ();
	$s->wait_for('the IPUs of all of them', sub { !$s->partitions }, seconds => 40);
	$s->wait_event($_, 'PartitionReleased') for qw(works fails evicted deleted killed);
	pass('IPUs come back, however a Pod ends');

	# A lost node's Pod: its IPUs first, the Pod itself is Kubernetes' own business.
	create_pod($s, 'lost', spec => { terminationGracePeriodSeconds => 1 });
	my $node = $s->wait_pod('lost', 'Running')->{spec}{nodeName};
	$s->lose_node($node);
	$s->delete('pods', 'lost');
	$s->wait_event('lost', 'NodeLost');
	$s->wait_for('the IPUs of the lost one', sub { !$s->partitions });
	ok($s->get('pods', 'lost'), 'the Pod on the lost node is still there');
	$s->return_node($node);
	end_of_all($s);
};
