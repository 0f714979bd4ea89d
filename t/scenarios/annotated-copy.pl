# SPDX-License-Identifier: Apache-2.0
#
# What people do with `kubectl get pod -o yaml`: a copy of a Pod that has IPUs, made while that one runs, gets a
# token, a ConfigMap and IPUs of its own, and nothing twice; a copy without the annotation is a Pod without IPUs.
# What a Pod's author has decided stays, and is told.
# Runs: both (sim, nodes)

use v5.36;
use IpuTest qw(json_decode json_encode spit test_dir);
use Test::More;

sub wait_running ($s, $name) {
	my $pod = $s->wait_pod($name, 'Running');
	my $token = $pod->{metadata}{labels}{'graphcore.ai/pod'};
	ok($s->get('configmaps', "ipuof-$token"), "$name: its ConfigMap is there");
	return ($pod, $token);
}

# As a person does it: everything that the API server shows, under another name.
sub copy ($s, $from, $to, $change = sub { }) {
	my $object = json_decode($s->kubectl([ 'get', 'pod', $from, '-o', 'json' ])->{out});
	$object->{metadata}{name} = $to;
	delete $object->{metadata}{uid};
	delete $object->{metadata}{resourceVersion};
	$change->($object);
	my $made = $s->kubectl([ 'create', '-o', 'json', '-f', spit(test_dir() . "/$to.json", json_encode($object)) ]);
	is($made->{status}, 0, "$to, a copy of $from, is taken") or diag($made->{err});
	return (json_decode($made->{out}), $made->{err});
}

sub names ($list) { return join ' ', sort map { $_->{name} } grep { $_->{name} =~ /ipu/i } @{ $list // [] } }

sub ($s) {
	$s->start(webhook => 1, run_pods => 1, label => 'ipunode=a');
	$s->patch('nodes', ($s->list('nodes', ns => undef))[0]{metadata}{name}, { metadata => { labels => { ipunode => 'a' } } });
	$s->create_pod('one', ipus => 2);
	my ($one, $token) = wait_running($s, 'one');
	is($one->{spec}{nodeSelector}{ipunode}, 'a', 'one: it is where its IPUs are reached from');

	my ($made) = copy($s, 'one', 'two');
	isnt($made->{metadata}{labels}{'graphcore.ai/pod'}, $token, 'the copy has a token of its own');
	unlike(json_encode($made->{spec}), qr/\Q$token\E/, '… and nothing of the other');
	is_deeply($made->{spec}{schedulingGates}, [ { name => 'graphcore.ai/partition' } ], '… and waits by itself');
	ok(!$made->{spec}{nodeSelector}, '… for any controller');
	ok(!$made->{metadata}{annotations}{'graphcore.ai/partition'}, '… for a partition of its own');
	my ($two) = wait_running($s, 'two');
	isnt($two->{metadata}{annotations}{'graphcore.ai/partition'}, $one->{metadata}{annotations}{'graphcore.ai/partition'},
		'… which it gets');
	my ($first, $second) = map { $_->{spec}{containers}[0] } $one, $two;
	is(names($second->{env}), names($first->{env}), 'no variable twice');
	is(names($second->{volumeMounts}), 'ipuof-config', 'no mount twice');
	is(names($two->{spec}{volumes}), 'ipuof-config', 'no volume twice');
	is($s->get('pods', 'one')->{status}{phase}, 'Running', 'the one that was copied has noticed nothing');

	my ($plain, $said) = copy($s, 'two', 'plain', sub ($object) { delete $object->{metadata}{annotations}{'graphcore.ai/ipus'} });
	like($said, qr/Warning: metadata\.labels\[graphcore\.ai\/pod\]: removed/, 'a copy without the annotation: that is told');
	ok(!$plain->{metadata}{labels}{'graphcore.ai/pod'}, '… it has no label');
	is(names($plain->{spec}{volumes}) . names($plain->{spec}{containers}[0]{env}), '', '… and nothing else of ours');
	$s->wait_pod('plain', 'Running');
	is(scalar $s->partitions, 2, '… and no IPUs');

	my $own = $s->pod('own', ipus => 1, container => { securityContext => { privileged => JSON::PP::false },
		env => [ { name => 'IPUOF_VIPU_API_PARTITION_ID', value => 'of-another' } ] }, spec => { dnsPolicy => 'Default' });
	my $answer = $s->try_create('pods', $own);
	is($answer->{status}, 201, 'a Pod that says how it wants to be run') or diag($answer->{content});
	my @warnings = ref $answer->{headers}{warning} ? @{ $answer->{headers}{warning} } : $answer->{headers}{warning};
	my $words = join "\n", @warnings;
	like($words, qr/spec\.dnsPolicy: Default is kept/, 'what stays is told');
	like($words, qr/spec\.containers\[0\]\.securityContext\.privileged: false is kept/, '… container by container');
	like($words, qr/spec\.containers\[0\]\.env\[IPUOF_VIPU_API_PARTITION_ID\]: replaced/, 'and what can not stay');
	is($answer->{json}{spec}{dnsPolicy}, 'Default', 'and so it is');

	$s->delete('pods', $_) for qw(one two plain);
	$s->wait_for('all IPUs to come back', sub { !$s->partitions && !keys %{ $s->tracker } });
};
