# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# The list of V-IPU controllers is a ConfigMap that people edit while jobs run: a controller comes,
# one goes that still has a partition, one is cordoned, an entry is wrong, all of it is deleted.

use v5.36;
use Test::More;

my ($ns, $name) = ('ipu-operator', 'scenario-controllers');

# What the ConfigMap says from now on: a text, or annotations.
sub edit ($s, %patch) {
	return $s->patch('configmaps', $name, \%patch, ns => $ns);
}

sub list_is ($s, @entries) {
	return edit($s, data => { 'controllers.yaml' => join('', map { "- $_\n" } @entries) });
}

sub wait_told ($s, $reason, $pattern) {
	my $path = $s->path('events', $ns) . "?fieldSelector=involvedObject.name%3D$name";
	return $s->wait_for("the Event $reason of the ConfigMap", sub {
		my @events = @{ $s->must('GET', $path)->{items} };
		return (grep { $_->{reason} eq $reason && $_->{message} =~ $pattern } @events)[0];
	});
}

sub bad_entries ($s) { return $s->metrics->{'ipu_operator_controllers_bad{source="configmap"}'} }

sub ($s) {
	$s->start_controllers(controllers => 2, agents => 1);
	my ($first, $second) = $s->controllers;
	$s->delete('configmaps', $name, ns => $ns);
	$s->start_operator(set => [ 'controllers=', "controllersConfigMap=$name" ]);
	$s->wait_ready;
	pass('there need not be a ConfigMap');
	$s->create_job('early');
	$s->wait_event('early', 'NoController');

	# It's made, and edited.
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => $name },
		data => { 'controllers.yaml' => "$first\n" } }, $ns);
	$s->wait_job('early', 'Running');
	pass('a controller comes: the job that waited runs');
	$s->create_job('late');
	$s->wait_event('late', 'WaitingForIPUs');
	list_is($s, $first, "$second-9");
	my $event = wait_told($s, 'BadController', qr/\Q$second-9\E/);
	is($event->{type}, 'Warning', 'an entry that can\'t be is a Warning of the ConfigMap');
	like($event->{message}, qr/^controllers\.yaml:2:3: .* isn't a number from 1 to 65535$/, '… with its line');
	is(bad_entries($s), 1, '… and counted');
	is($s->get_job('early')->{status}{launcherStatus}, 'Running', '… and the good one serves');
	list_is($s, $first, $second);
	$s->wait_job('late', 'Running');
	is(scalar $s->partitions(1), 1, 'a second controller comes: the next job goes there');
	is(bad_entries($s), 0, '… and nothing is wrong any more');

	# One goes that has a partition.
	my ($held) = $s->partitions(0);
	list_is($s, $second);
	$s->create_job('third');
	$s->wait_event('third', 'WaitingForIPUs');
	$s->restart_operator if $s->operator->stop;
	$s->wait_ready;
	is($s->get_job('early')->{status}{launcherStatus}, 'Running',
		'a controller leaves the list: its job runs on, over a restart too');
	is(($s->partitions(0))[0]{id}, $held->{id}, '… in its partition');
	is_deeply([ map { $_->{resets} } $s->partitions(0) ], [ $held->{resets} ], '… which nobody touched');
	$s->end_pod('early');
	$s->wait_job('early', 'Completed');
	$s->wait_for('its partition to go', sub { !$s->partitions(0) });
	is($s->get_job('third')->{status}{launcherStatus}, 'Pending', '… then it goes, and nothing comes in its place');

	# Cordoned, and not any more.
	edit($s, metadata => { annotations => { 'graphcore.ai/cordon' => $second } });
	$s->end_pod('late');
	$s->wait_job('late', 'Completed');
	$s->wait_for('its partition to go', sub { !$s->partitions(1) });
	edit($s, metadata => { annotations => { 'graphcore.ai/drain' => "$second,nobody:1" } });
	wait_told($s, 'UnknownController', qr/"nobody:1"/);
	wait_told($s, 'ControllerDrained', qr/^\Q$second\E is drained/);
	is(scalar $s->partitions(1), 0, 'a cordoned controller gets nothing new, and is empty in the end');
	edit($s, metadata => { annotations => { 'graphcore.ai/cordon' => undef, 'graphcore.ai/drain' => undef } });
	$s->wait_job('third', 'Running');
	is(scalar $s->partitions(1), 1, 'taken back: the job that waited runs');

	# All of it is deleted: what runs goes on, and goes.
	$s->delete('configmaps', $name, ns => $ns);
	$s->create_job('never');
	$s->wait_event('never', 'NoController');
	is($s->get_job('third')->{status}{launcherStatus}, 'Running', 'the ConfigMap is deleted: what runs goes on');
	$s->end_pod('third');
	$s->wait_job('third', 'Completed');
	$s->wait_for('its partition to go', sub { !$s->partitions(1) });
};
