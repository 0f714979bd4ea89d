# SPDX-License-Identifier: Apache-2.0
#
# A new version is rolled out, one replica after the other, while jobs are made all the time, as the chart has
# it: behind a Service, only caBundle is the operator's. failurePolicy Fail refuses nothing meanwhile.
# Runs: both (sim, scale)
# Faults: no, because an access review that fails refuses, and nobody may be refused here

use v5.36;
use IpuTest qw(spit test_dir wait_until);
use JSON::PP ();
use POSIX ();
use Test::More;

my $service = 'ipu-operator-webhook-svc';

# Makes the registrations as a chart would, out of those that the operator has made for a URL.
sub register_by_service ($s, @made) {
	for my $object (@made) {
		my $kind = lc "$object->{kind}s";
		delete @{ $object->{metadata} }{qw(uid resourceVersion creationTimestamp generation managedFields)};
		for my $webhook (@{ $object->{webhooks} }) {
			my ($path) = $webhook->{clientConfig}{url} =~ m{^https://[^/]+(/.*)};
			$webhook->{clientConfig} = { service => { name => $service, namespace => 'ipu-operator', path => $path } };
		}
		$s->create($kind, $object);
	}
	return;
}

# Somebody who makes jobs without a pause, in a dry run. Returns a sub that ends it: how many, and what was said else.
sub make_jobs ($s) {
	my ($stop, $result) = map { test_dir() . "/$_" } qw(stop result);
	my $job = $s->job('load', ipus => 2);
	my $pid = fork() // die "fork: $!\n";
	if (!$pid) {
		$SIG{ALRM} = 'DEFAULT';
		alarm(120); # nobody may be left to end it
		my ($count, %other) = (0);
		while (!-e $stop) {
			my $answer = $s->try_create('ipujobs', $job);
			$count++;
			$other{ $answer->{json}{message} // $answer->{content} }++ if $answer->{status} != 201;
		}
		spit($result, JSON::PP->new->canonical->encode({ count => $count, other => \%other }));
		POSIX::_exit(0);
	}
	return sub {
		spit($stop, '');
		waitpid($pid, 0);
		return JSON::PP->new->decode(IpuTest::slurp($result));
	};
}

sub ($s) {
	$s->start(webhook => 1);
	my @made = map { $s->registration($_) } qw(mutatingwebhookconfigurations validatingwebhookconfigurations);
	$s->operator->stop;
	$s->unregister;

	delete $s->{settings}{'webhook.url'};
	# kube-proxy has to hear of it meanwhile.
	my %set = ('webhook.drainSeconds' => $s->is_real ? 5 : 1);
	my @replicas = map { $s->start_replica("replica-$_", %set) } 1, 2;
	$s->wait_ready($_) for @replicas;
	$s->back->serve_webhook($s, $service, map { $_->port('webhook') } @replicas);
	register_by_service($s, @made);
	$s->{operator} = $replicas[0];
	$s->wait_webhook;

	my $end = make_jobs($s);
	for my $n (0, 1) {
		my $new = $s->start_replica('replica-' . (3 + $n), %set);
		$s->wait_ready($new);
		my $old = $replicas[$n];
		$replicas[$n] = $new;
		# As for a Pod that is deleted: SIGTERM, and out of the Service a little later. (A second SIGTERM ends it at once.)
		$s->back->serve_webhook($s, $service, map { $_->port('webhook') } @replicas, $old);
		$old->signal('TERM');
		$s->back->serve_webhook($s, $service, map { $_->port('webhook') } @replicas);
		wait_until('the old replica to end', sub { !$old->is_alive }, while_alive => []);
		$old->stop;
	}
	$s->{operator} = $replicas[0];
	$s->wait_webhook;
	my $load = $end->();
	cmp_ok($load->{count}, '>', 50, "$load->{count} jobs were made meanwhile");
	is_deeply($load->{other}, {}, 'and none was refused');

	$s->back->serve_webhook($s, $service, $replicas[0]->port('webhook'));
	$replicas[1]->stop;
	$s->create_job('after', ipus => 2, runs => 0.1);
	$s->wait_job('after', 'Completed');
	$s->back->serve_webhook($s, $service) if $s->is_real;
};
