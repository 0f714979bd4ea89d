#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Nodes that show the IPUs that they reach, and Kubernetes' own scheduler that asks the operator where there's room: two V-IPU
# controllers, each with a node of its own, on real nodes with real kubelets. The scheduler's configuration is what NOTES print, its
# certificate is had by the administrator's guide's commands, and what is on Nodes goes when the operator is uninstalled.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Install;
use IpuTest;
use IpuTree qw(file_text);
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

my $i = Cluster::Install->up(controllers => 2, agents => 4);
my ($c, $s) = ($i->c, $i->s);
my $ns = $Cluster::Install::ns;
my ($first, $second, $other) = sort $c->nodes;
my $resource = 'graphcore.ai/ipu';
my @entry = map { [ $i->controllers ]->[$_] . ':pod=' . qw(a b)[$_] } 0, 1;
my $notes;

sub part ($name, $code) {
	my $begin = time;
	subtest $name => $code;
	diag(sprintf '%-40s %6.1f s', $name, time - $begin);
	return;
}

sub node ($name) { return $c->get('node', $name) }
sub shown ($name) { return node($name)->{status}{allocatable}{$resource} }
sub shows ($name, $ipus) {
	my $status = node($name)->{status};
	return !grep { ($status->{$_}{$resource} // '') ne $ipus } qw(capacity allocatable);
}
sub wait_shown ($name, $ipus) {
	return $s->wait_for("$name to show " . ($ipus || 'no') . ' IPUs', sub { shows($name, $ipus) }, seconds => 60);
}

# A Pod that holds IPUs until it's told to end; init mode's.
sub make ($name, %option) {
	return $s->create_pod($name, %option);
}

sub place ($name) { return ($s->get('pods', $name) // {})->{spec}{nodeName} }
sub wait_place ($name) { return $s->wait_for("a node for $name", sub { place($name) }, seconds => 60) }

# Which of the controllers has a partition of that Pod's.
sub holder ($name) {
	my @has = grep { grep { $_->{id} =~ /^\Q$name\E-/ } $s->partitions($_) } 0, 1;
	return join ' ', map { qw(a b)[$_] } @has;
}

sub why_pending ($name) {
	my $events = $c->get('events', '--field-selector', "involvedObject.kind=Pod,involvedObject.name=$name,reason=FailedScheduling");
	return join ' ', map { $_->{message} } @{ $events->{items} };
}

# A script of the guide's, in the folder of the cluster's keys.
sub run_guide ($script) {
	return run([ 'sh', '-ec', $script ], seconds => 90, env => { KUBECONFIG => $c->host_kubeconfig, PATH => $c->programs . ":$ENV{PATH}" });
}

# The scheduler goes on with this configuration.
sub schedule_by ($yaml) {
	my $file = $c->dir . '/keys/scheduler.yaml';
	my $pid_file = $c->dir . '/pids/kube-scheduler';
	spit($file, $yaml);
	$c->stop('kube-scheduler');
	my $written = json_decode(slurp($pid_file));
	$written->{command} = [ (grep { !/^--(?:kubeconfig|leader-elect|kube-api-|config)/ } @{ $written->{command} }), "--config=$file" ];
	spit($pid_file, json_encode($written));
	$c->revive('kube-scheduler');
	return;
}

# A kubelet that has just started may not know its Pods' logs yet.
sub said ($pattern) {
	return join '', map { $c->kubectl_result([ '-n', $ns, 'logs', $_->{metadata}{name} ])->{out} =~ /^(.*$pattern.*)$/mg } $i->pods('ipu-operator-vipu-proxy');
}

part 'the scheduler\'s certificate' => sub {
	my ($script) = file_text('doc/scheduler.md') =~ /^(openssl req -new .*?)^```$/ms or die "no commands\n";
	my $keys = $c->dir . '/keys';
	$script =~ s{/etc/kubernetes/pki/ca\.crt}{ca.crt} or fail('no authority in it');
	my $done = run_guide("cd $keys\n$script");
	is($done->{status}, 0, 'by the guide\'s commands') or diag($done->{err});
	like(run([ qw(openssl x509 -noout -subject -issuer -in), "$keys/ipu-scheduler.crt" ])->{out}, qr/CN ?= ?ipu-scheduler\n.*CN ?= ?test-ca/, 'signed by the cluster');
};

part 'the installation' => sub {
	$c->kubectl('label', 'node', $first, 'pod=a');
	$c->kubectl('label', 'node', $second, 'pod=b');
	$notes = $i->install({ vipuControllers => join(',', @entry), ipuVisibility => { advertise => 'whole' },
		extendedScheduler => { enabled => JSON::PP::true(), clientCASecret => 'ipu-scheduler-clients', clientNames => ['ipu-scheduler'] },
		operatorConfig => { pods => { mode => 'init' } } });
	like($notes, qr/^ +kind: KubeSchedulerConfiguration$/m, 'NOTES have the scheduler\'s configuration');
};

part 'what nodes show' => sub {
	wait_shown($first, 16);
	wait_shown($second, 16);
	ok(shows($other, ''), 'a node without a label shows nothing');
	is(node($first)->{metadata}{annotations}{'graphcore.ai/advertised-ipus'}, '16', 'it is noted that the operator wrote it');
	$c->kubectl('label', 'node', $other, 'pod=b', 'node-role.kubernetes.io/control-plane=');
	$s->settle;
	ok(shows($other, ''), 'one of the control plane shows none');
	$c->kubectl('label', 'node', $other, 'node-role.kubernetes.io/control-plane-');
	wait_shown($other, 16);
	$c->kubectl('label', 'node', $other, 'pod-');
	wait_shown($other, '');
	$c->stop("$first-kubelet");
	$c->kubectl('patch', 'node', $first, '--subresource=status', '--type=merge', '-p',
		"{\"status\":{\"capacity\":{\"$resource\":\"0\"},\"allocatable\":{\"$resource\":\"0\"}}}");
	wait_shown($first, 16);
	$c->revive("$first-kubelet");
	pass('as after a node\'s reboot: it is written again');
};

# As NOTES have it, but for where this cluster's scheduler has its kubeconfig.
part 'the scheduler asks' => sub {
	my ($yaml) = $notes =~ /^( +apiVersion: kubescheduler.*?)\n\n/ms or die "NOTES: $notes\n";
	my ($indent) = $yaml =~ /^( +)/;
	$yaml =~ s/^$indent//mg;
	my %value;
	for my $line ($notes =~ /^ +(kubectl .* # (?:CLUSTER_IP|CA_DATA))$/mg) {
		my ($words, $what) = $line =~ /^kubectl (.*?) +# (\w+)$/;
		$value{$what} = $c->kubectl(map { s/^'|'$//gr =~ s/='/=/r } split ' ', $words);
	}
	is_deeply([ sort keys %value ], [qw(CA_DATA CLUSTER_IP)], 'NOTES say where its two values are from');
	$yaml =~ s/\b$_\b/$value{$_}/ or fail("no $_ in it") for sort keys %value;
	my $keys = $c->dir . '/keys';
	$yaml =~ s{/etc/kubernetes/scheduler\.conf}{$keys/scheduler.kubeconfig} or fail('no kubeconfig in it');
	$yaml =~ s{/etc/kubernetes/pki/ipu-scheduler\.(crt|key)$}{$keys/ipu-scheduler.$1}mg == 2 or fail('no certificate in it');
	schedule_by($yaml =~ s/^ +(?:cert|key)File: .*\n?//mgr);
	make('unknown', ipus => 1, spec => { nodeSelector => {} });
	wait_place('unknown');
	ok($s->wait_for('the operator to say why it doesn\'t answer', sub { said(qr/TLS handshake failed: the client has no certificate/) }),
		'a scheduler without a certificate is refused, and goes on by itself');
	$s->delete('pods', 'unknown');
	$s->wait_for('all IPUs to come back', sub { !$s->partitions(0) && !$s->partitions(1) });
	schedule_by($yaml);
	make('small', ipus => 1, spec => { nodeSelector => {} });
	wait_place('small');
	like(place('small'), qr/^(?:$first|$second)$/, 'a Pod with IPUs is on a node that reaches some');
	$s->wait_pod('small', 'Running', seconds => 90);
	is(holder('small'), place('small') eq $first ? 'a' : 'b', 'and has them from that node\'s controller');
	$s->finish_pod('small');
	$s->wait_for('its IPUs to come back', sub { !$s->partitions(0) && !$s->partitions(1) });
};

part 'only where there is room' => sub {
	make('elsewhere', ipus => 1, spec => { nodeSelector => { pod => 'b' } });
	is(wait_place('elsewhere'), $second, 'a Pod that names a controller\'s nodes goes there');
	$s->wait_pod('elsewhere', 'Running', seconds => 90);
	is(holder('elsewhere'), 'b', 'and its IPUs are from there, although the first controller has room');
	make('large', ipus => 16);
	is(wait_place('large'), $first, 'the only one with room for 16');
	$s->wait_pod('large', 'Running', seconds => 90);
	is(holder('large'), 'a', 'whose IPUs it has');
	make("half-$_", ipus => 4) for 1 .. 3;
	is(wait_place("half-$_"), $second, 'the other has room for more') for 1 .. 3;
	$s->wait_pod("half-$_", 'Running', seconds => 90) for 1 .. 3;
	make('late', ipus => 4);
	my $why = $s->wait_for('the reason for which it waits', sub { why_pending('late') }, seconds => 60);
	like($why, qr{0/3 nodes are available: .*node\(s\) whose V-IPU controller \S+ has no room for 4 IPUs now}, 'a full pod keeps it Pending, and says why');
	like($why, qr{1 node\(s\) that reach no V-IPU controller's IPUs}, 'of each kind of node');
	my $named = $s->pod('named');
	$named->{spec}{containers}[0]{resources} = { limits => { $resource => 3 } };
	$s->create('pods', $named);
	like($s->wait_for('the reason of the other', sub { why_pending('named') }, seconds => 60), qr/has no room for 4 IPUs now/,
		'so does one that asks by the resource, for the next size');
	make('plain');
	wait_place('plain');
	pass('a Pod without IPUs goes anywhere');
	$s->finish_pod('half-1');
	is(wait_place('late'), $second, 'when a Pod ends, it gets its place');
	$s->wait_pod('late', 'Running', seconds => 90);
	$s->delete('pods', $_) for qw(small elsewhere large named plain late), map { "half-$_" } 1 .. 3;
	$s->wait_for('all IPUs to come back', sub { !$s->partitions(0) && !$s->partitions(1) });
};

part 'a controller goes' => sub {
	$s->patch('configmaps', 'ipu-operator-vipu-controllers', { data => { 'controllers.yaml' => $entry[0] } }, ns => $ns);
	wait_shown($second, '');
	ok(shows($first, 16), 'the other\'s node shows what it did');
	is(node($second)->{metadata}{annotations}{'graphcore.ai/advertised-ipus'}, undef, 'and no note is left');
	$s->patch('configmaps', 'ipu-operator-vipu-controllers', { data => { 'controllers.yaml' => join(',', @entry) } }, ns => $ns);
	wait_shown($second, 16);
	$c->kubectl('-n', $ns, 'annotate', 'configmap', 'ipu-operator-vipu-controllers', 'graphcore.ai/cordon=' . [ $i->controllers ]->[1]);
	wait_shown($second, '');
	pass('so does a cordon');
};

part 'without the operator' => sub {
	$i->uninstall;
	my %at = map { $_ => node($_) } $first, $second, $other;
	ok(shows($_, ''), "$_ shows nothing any more") for sort keys %at;
	is_deeply([ grep { m{^graphcore\.ai/} } map { keys %{ $_->{metadata}{annotations} // {} } } values %at ], [], 'and has no note of it');
	is_deeply([ map { "$_->{metadata}{name}" } grep { $_->{metadata}{name} =~ /clean-nodes/ }
		map { @{ $c->get($_, '-A')->{items} } } qw(jobs pods serviceaccounts clusterroles clusterrolebindings) ], [], 'nothing is left of who took it away');
	make('ordinary');
	wait_place('ordinary');
	pass('Pods are scheduled while nobody answers the scheduler');
};

$i->down;
done_testing;
