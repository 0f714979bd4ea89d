# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because who refuses a connection must be the controller itself
#
# Annotated Pods that have to wait: what is said at the Pod, who is first, deletion while they wait, V-IPU controllers
# that are away, that are emptied, or whose nodes the Pod doesn't want.

use v5.36;
use Scenario::Annotated qw(create_pod wait_opened wait_waiting partition_of waiting is_gated end_of_all);
use IpuTest qw(program run);
use Test::More;

# ipuctl shows Pods among the owners.
sub is_listed ($s, $view, $name) {
	my $shown = run([ program('ipuctl'), $view, '--server', $s->operator->url('proxy', '') ]);
	like($shown->{out}, qr{^.*\bdefault\b.*\bpod/$name\b}m, "ipuctl $view shows Pod $name") or diag($shown->{err});
	return;
}

sub ($s) {
	$s->start(agents => 2, label => 'kubernetes.io/os=linux');
	create_pod($s, 'first', ipus => 8);
	$s->wait_pod('first', 'Running');
	create_pod($s, $_, ipus => 8) for qw(second third);
	my $pod = wait_waiting($s, 'second', qr/^WaitingForIPUs: waiting for 8 IPUs, place \d in the queue: 0 of 8 are free/);
	ok(is_gated($pod), 'a Pod that waits is behind its gate');
	wait_waiting($s, 'third', qr/place \d in the queue/);
	is($s->wait_event('second', 'WaitingForIPUs')->{type}, 'Normal', 'an Event says so too');
	is(scalar $s->partitions, 1, 'nothing is made for it');
	$s->wait_for('the metrics to count them', sub {
		($s->metrics->{'ipu_operator_annotated_pods{state="waiting"}'} // 0) == 2
	});

	is_listed($s, 'queue', 'second') if !$s->is_real;
	is_listed($s, 'partitions', 'first') if !$s->is_real;

	# One that goes while it waits, and a job beside them: one queue.
	$s->create_job('job', ipus => 8, runs => 0.2);
	$s->wait_message('job', qr/place 3 in the queue/);
	$s->delete('pods', 'second');
	$s->wait_message('job', qr/place 2 in the queue/, seconds => 90) if !$s->is_real;
	$s->finish_pod('first');
	$s->wait_pod('third', 'Running');
	is(waiting($s->get('pods', 'third')), '', 'the next one in the queue waits no more');
	$s->finish_pod('third');
	$s->wait_job('job', 'Completed');

	# An annotation that can't be, and a Pod for other nodes.
	create_pod($s, 'three', ipus => 3);
	like(waiting(wait_waiting($s, 'three', qr/^InvalidAnnotation/)), qr/power of two/, 'what is wrong is said');
	$s->patch('pods', 'three', { metadata => { annotations => { 'graphcore.ai/ipus' => '4' } } });
	$s->wait_pod('three', 'Running');
	$s->finish_pod('three');
	create_pod($s, 'elsewhere', spec => { nodeSelector => { 'kubernetes.io/os' => 'plan9' } });
	wait_waiting($s, 'elsewhere', qr/^NodeSelectorConflict: .*plan9/);
	$s->wait_for('its IPUs to be given back meanwhile', sub { !$s->partitions });
	ok(is_gated($s->get('pods', 'elsewhere')), '… and it stays behind its gate');
	$s->delete('pods', 'elsewhere');

	# The V-IPU controller is away.
	$s->tell_vipu('down');
	create_pod($s, 'patient');
	wait_waiting($s, 'patient', qr/^(?:ControllerUnreachable|PartitionRefused): .*Connection refused/);
	$s->tell_vipu('up');
	$s->wait_pod('patient', 'Running', seconds => 60);

	# It goes away under a Pod that runs (while one waits, the controllers are looked at each second), and its partition with it.
	my $id = partition_of($s->get('pods', 'patient'));
	create_pod($s, 'large', ipus => 8);
	wait_waiting($s, 'large', qr/^WaitingForIPUs/);
	$s->tell_sim("/sim/vipu/0/partitions/$id", method => 'DELETE');
	is($s->wait_event('patient', 'PartitionVanished', seconds => 60)->{type}, 'Warning', 'a lost partition is told');
	is($s->get('pods', 'patient')->{status}{phase}, 'Running', '… and its Pod is left to itself');
	$s->wait_pod('large', 'Running');
	is(scalar $s->partitions, 1, '… and gets no other under it');
	end_of_all($s);
};
