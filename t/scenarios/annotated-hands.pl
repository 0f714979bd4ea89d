# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What people do to annotated Pods: copies with an old token, labels that are taken away, ConfigMaps that are deleted or
# edited; and Pods that asked by REST themselves and end without giving their IPUs back.

use v5.36;
use Scenario::Annotated qw(create_pod pod_object wait_waiting partition_of files_of token_of is_gated end_of_all kill_pod);
use Test::More;

sub ($s) {
	$s->start(agents => 4);
	create_pod($s, 'first');
	my $first = $s->wait_pod('first', 'Running');
	create_pod($s, 'copy', token => token_of($first));
	wait_waiting($s, 'copy', qr/^TokenTaken/);
	is($s->wait_event('copy', 'TokenTaken')->{type}, 'Warning', 'a copy is refused');
	is_deeply([ map { $_->{id} } $s->partitions ], [ partition_of($first) ], '… and gets no IPUs');
	$s->delete('pods', 'copy');
	$s->wait_for('the copy to go', sub { !$s->get('pods', 'copy') });
	$s->settle;
	is_deeply([ map { $_->{id} } $s->partitions ], [ partition_of($first) ], '… its end takes none away');

	my $files = files_of($s, $first);
	$s->delete('configmaps', $files->{metadata}{name});
	$s->wait_for('its ConfigMap to be made again', sub {
		my $now = files_of($s, $first);
		return $now && $now->{metadata}{uid} ne $files->{metadata}{uid};
	});
	is_deeply(files_of($s, $first)->{data}, $files->{data}, '… as it was');
	$s->patch('configmaps', $files->{metadata}{name}, { data => { IPUOF_CONFIG_PATH => 'nowhere' } });
	$s->wait_for('it to be put right', sub { files_of($s, $first)->{data}{IPUOF_CONFIG_PATH} ne 'nowhere' });

	$s->patch('pods', 'first', { metadata => { labels => { 'graphcore.ai/pod' => undef } } });
	$s->settle;
	is_deeply([ map { $_->{id} } $s->partitions ], [ partition_of($first) ], 'without its label it keeps its IPUs');
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;
	$s->settle;
	is_deeply([ map { $_->{id} } $s->partitions ], [ partition_of($first) ], '… also for another process');
	$s->operator->crash;
	kill_pod($s, 'first');
	$s->restart_operator;
	$s->wait_for('its IPUs to come back when it has gone', sub { !$s->partitions });

	# Behind a gate that somebody else opens: it's on its own, and what it asked for goes with it.
	create_pod($s, 'large', ipus => 16);
	$s->wait_pod('large', 'Running');
	create_pod($s, 'opened', ipus => 16);
	wait_waiting($s, 'opened', qr/^WaitingForIPUs/);
	$s->patch('pods', 'opened', { spec => { schedulingGates => [] } });
	$s->wait_pod('opened', 'Running');
	$s->finish_pod('opened');
	$s->wait_for('it to wait no more', sub { !%{ $s->tracker_waits } });
	end_of_all($s);
};
