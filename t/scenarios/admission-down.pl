# SPDX-License-Identifier: Apache-2.0
#
# The operator is away, and the API server starts from cold: Pods that don't ask for IPUs, and those of the
# cluster's own namespace, are made and run as ever; those that do and IPUJobs are refused, with the webhook's
# name, and nothing waits for it. When the operator comes back they're taken.
# Runs: both (sim, nodes)

use v5.36;
use Test::More;
use Time::HiRes qw(time);

sub ($s) {
	$s->start(webhook => 1);
	$s->operator->crash;
	$s->api_goes;
	$s->api_comes;
	my $first = $s->job('first');
	$s->wait_for('the API server to know its webhooks', sub {
		return ($s->try_create('ipujobs', $first)->{json}{message} // '') =~ /failed calling webhook/;
	}, despite_errors => 1);

	my $begin = time;
	for my $n (1 .. 5) {
		my $answer = $s->request('POST', $s->path('pods', 'default'), json => $s->pod("other-$n", runs => 0.1));
		is($answer->{status}, 201, 'a Pod that asks for nothing is made') or diag($answer->{content});
	}
	cmp_ok(time - $begin, '<', 30, '… without waiting five times for the webhook');
	$s->wait_pod("other-$_", 'Succeeded') for 1 .. 5;
	my $system = $s->create_pod('system', ipus => 2, ns => 'kube-system', runs => 0.1);
	ok(!exists $system->{metadata}{labels}{'graphcore.ai/pod'}, 'kube-system is left alone');
	my $pod = $s->create_pod('labelled', labels => { app => 'x' }, annotations => { 'example.com/ipus' => '2' });
	ok(!exists $pod->{metadata}{labels}{'graphcore.ai/pod'}, 'also with labels and annotations of its own');

	my $refused = $s->request('POST', $s->path('ipujobs', 'default'), json => $s->job('early'));
	is($refused->{status}, 500, 'a job is refused');
	like($refused->{json}{message}, qr/failed calling webhook "mipujob\.graphcore\.ai"/, '… and by whom');
	$refused = $s->request('POST', $s->path('pods', 'default'), json => $s->pod('wants', ipus => 2));
	is($refused->{status}, 500, 'so is a Pod that asks for IPUs');
	like($refused->{json}{message}, qr/failed calling webhook "mpod\.graphcore\.ai"/, '… and by whom');

	$s->restart_operator;
	$s->wait_webhook;
	$s->create_job('early', runs => 0.1);
	$s->wait_job('early', 'Completed');
	$s->delete('pods', 'system', ns => 'kube-system', options => { gracePeriodSeconds => 0 });
	$s->delete('pods', $_, options => { gracePeriodSeconds => 0 }) for 'labelled', map { "other-$_" } 1 .. 5;
};
