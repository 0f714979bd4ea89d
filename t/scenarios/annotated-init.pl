# SPDX-License-Identifier: Apache-2.0
#
# Pods that get their IPUs by an init container: it waits on the Pod's node, tells what for, and leaves the
# IPUoF configuration to the Pod's own containers. What a Pod has asked for goes back when it ends, whether
# it ran, or never got so far.
# Runs: both (sim, nodes)

use v5.36;
use Test::More;

# The proxy's port has to be known before the webhook tells Pods of it.
sub start ($s) {
	my $address = $s->back->address;
	my @set = ('certificates.names=localhost,127.0.0.1,' . $address, 'vipu.waitingRefreshSeconds=1');
	$s->start_controllers(run_pods => 1);
	$s->start_operator(set => [ @set, "proxy.tlsListen=$address:0" ]);
	$s->wait_ready;
	my $port = $s->operator->port('proxy-tls');
	$s->operator->stop;
	$s->start_operator(webhook => 1, set => [ @set, "proxy.tlsListen=$address:$port",
		"pods.proxyUrl=https://$address:$port", 'pods.mode=init' ]);
	$s->wait_webhook;
	return;
}

sub init_log ($s, $name) {
	my $result = $s->kubectl([ 'logs', $name, '-c', 'ipu-partition' ]);
	return $result->{status} ? '' : $result->{out};
}

sub wait_log ($s, $name, $pattern) {
	return $s->wait_for("the init container of $name to say $pattern", sub { init_log($s, $name) =~ $pattern });
}

sub held ($s) { return scalar $s->partitions }

my $look = 'echo "path $IPUOF_CONFIG_PATH"; cat "$IPUOF_CONFIG_PATH" && printf "\nread all of it\n"';

sub ($s) {
	start($s);

	my $pod = $s->create_pod('plain', ipus => 2, container => { command => [ 'sh', '-c', $look ] });
	is($pod->{metadata}{annotations}{'graphcore.ai/status'}, 'injected', 'the webhook has seen it');
	like($pod->{metadata}{labels}{'graphcore.ai/pod'}, qr/^[0-9a-f]{32}$/, '… and given it a token');
	ok(!$pod->{spec}{schedulingGates}, 'no gate is before it');
	is($pod->{spec}{initContainers}[0]{name}, 'ipu-partition', 'but an init container in it');
	$s->wait_pod('plain', 'Succeeded');
	like(init_log($s, 'plain'), qr/^ipu-launcher: 2 IPUs: partition plain-default-0-\S+ on /m, 'which tells what it got');
	my $log = $s->kubectl([ 'logs', 'plain', '-c', 'main' ])->{out};
	like($log, qr{^path /\S+/partition\.conf$}m, 'the main container knows the file');
	like($log, qr/^read all of it$/m, '… and can read it');
	like($log, qr/"ipu_id"/, '… and it names the IPUs');
	$s->wait_for('the IPUs to come back at its end', sub { held($s) == 0 });

	$s->create_pod('big', ipus => 16);
	$s->wait_pod('big', 'Running');
	$s->create_pod($_, ipus => 8) for qw(second third);
	wait_log($s, $_, qr/place \d in the queue/) for qw(second third);
	is($s->get('pods', 'second')->{status}{phase}, 'Pending', 'a Pod waits while others have the IPUs');
	is(held($s), 1, 'and has none');
	$s->delete('pods', 'third');
	$s->wait_for('what the deleted one had asked for to go', sub { scalar keys %{ $s->tracker_waits } == 1 });
	$s->finish_pod('big');
	$s->wait_pod('second', 'Running');
	like(init_log($s, 'second'), qr/^ipu-launcher: 8 IPUs: partition second-default-0-/m, 'then it gets them');
	$s->delete('pods', 'second');
	$s->wait_for('the IPUs to come back at its deletion', sub { held($s) == 0 && !keys %{ $s->tracker } });

	my $refused = $s->try_create('pods', $s->pod('three', ipus => 3));
	is($refused->{status}, 422, 'a number that is no power of two');
	like($refused->{json}{message}, qr/metadata\.annotations\[graphcore\.ai\/ipus\]: .*power of two/, '… is refused in words');
	$s->delete('pods', $_) for qw(plain big);
};
