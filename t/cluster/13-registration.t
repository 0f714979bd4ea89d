#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A real API server calls the webhooks by their registration: through a Service with two replicas, while their
# authority is renewed under it; with the operator down; and by a URL, with objects that the operator makes.
# The certificates grow old on the operator's clock, which the test moves; the API server's is the real one.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;

my $c = Cluster->up('scale', nodes => 1);
my $dir = test_dir();
my $ns = 'ipu-operator';
my $service = 'ipu-operator-webhook-svc';
my %resource = (mutating => 'mutatingwebhookconfiguration', validating => 'validatingwebhookconfiguration');
my $top = "$FindBin::Bin/../..";

# core/clock.h: struct clock_page. The operator's clocks go with the real one, so many days beside it, and the monotonic
# one never goes back; a page that runs by itself would make that one negative.
my $ticking = <<'END';
use strict;
use warnings;
use Time::HiRes qw(time sleep);
my ($page, $days_file) = @ARGV;
my ($begin, $first, $days, $out);
while (1) {
	if (open(my $in, '<', $days_file)) { my $line = <$in>; $days = $1 if ($line // '') =~ /^(-?\d+)\n/ }
	($begin, $first) = (time, $days) if !defined $begin;
	my $mono = (time - $begin + 1000) * 1000 + ($days - $first) * 86_400_000;
	my $text = pack('a8 q< q< q< q< q<3', "\0IPUCLK1", 0, 1, $mono, time() * 1000 + $days * 86_400_000, 0, 0, 0);
	if (!$out) {
		open($out, '>:raw', "$page.new") && syswrite($out, $text) && rename("$page.new", $page) or die "$page: $!\n";
	}
	sysseek($out, 0, 0) && syswrite($out, $text) or die "$page: $!\n";
	sleep(0.01);
}
END

sub set_clock ($days) {
	spit("$dir/days.new", "$days\n");
	rename("$dir/days.new", "$dir/days") or die "days: $!\n";
	return;
}
# It begins so many days ago.
set_clock(-2470);
my $ticker = start('ticker', path => $^X, ports => 0, args => [ '-e', $ticking, "$dir/clock", "$dir/days" ]);
wait_until('the clock', sub { -e "$dir/clock" });

sub config () {
	my $done = $c->command([ $c->programs . '/kubectl', '--kubeconfig', $c->kubeconfig, qw(config view --raw --flatten -o json) ]);
	return json_decode($done->{out});
}
sub cluster_ca () { return config()->{clusters}[0]{cluster}{'certificate-authority-data'} }

# Years ago the API server's certificate wasn't valid yet: the operator doesn't look at it here.
sub credulous_kubeconfig {
	my $config = config();
	for my $cluster (map { $_->{cluster} } @{ $config->{clusters} }) {
		delete $cluster->{'certificate-authority-data'};
		$cluster->{'insecure-skip-tls-verify'} = JSON::PP::true();
	}
	return spit("$dir/kubeconfig", json_encode($config));
}

sub operator (@more) {
	return $c->start_program('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/clock" }, args => [
		'--roles', 'webhook', '--kubeconfig', credulous_kubeconfig(), '--set', "operatorNamespace=$ns", '--set',
		'webhook.drainSeconds=1', '--set', 'webhook.listen=' . $c->address . ':0',
		(map { ('--set', "$_=127.0.0.1:0") } qw(health.listen metrics.listen)), @more ]);
}

sub readiness ($daemon) {
	return $c->command([ qw(curl -sS --max-time 10), 'http://127.0.0.1:' . $daemon->port('health') . '/readyz' ])->{out};
}
sub wait_ready ($daemon) { return $c->wait_for('ready', sub { readiness($daemon) eq "ok\n" }) }

sub stored ($kind) { return $c->get($resource{$kind}, "ipu-operator-$kind-webhook-configuration") }
sub bundle ($kind) { return decode_base64(stored($kind)->{webhooks}[0]{clientConfig}{caBundle} // '') }
sub names ($kind) { return map { $_->{name} } @{ stored($kind)->{webhooks} } }

sub job_text ($name, %more) {
	return json_encode({ apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name, %{ $more{meta} // {} } },
		spec => { jobInstances => 1, ipusPerJobInstance => $more{ipus} // '4', workers => { template => { spec => {
		containers => [ { name => 'w', image => 'x' } ] } } } } });
}

sub pod_text ($name, $in, %annotations) {
	return json_encode({ apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, namespace => $in, annotations => \%annotations },
		spec => { containers => [ { name => 'c', image => 'x' } ] } });
}

# All webhooks are asked, and nothing is kept.
sub tried ($name) { return $c->try_apply(job_text($name), '--dry-run=server') }

$c->apply(slurp("$top/crds/graphcore.ai_ipujobs.yaml"));
$c->kubectl('create', 'namespace', $ns);
$c->wait_for('IPUJobs', sub { tried('first')->{status} == 0 });

# ---- as the chart registers them ----

sub install ($kind, @entries) {
	$c->apply(json_encode({ apiVersion => 'admissionregistration.k8s.io/v1', kind => ucfirst($kind) . 'WebhookConfiguration',
		metadata => { name => "ipu-operator-$kind-webhook-configuration" }, webhooks => [ map { {
			name => $_->[0], sideEffects => 'None', admissionReviewVersions => [ 'v1', 'v1beta1' ], timeoutSeconds => 10,
			clientConfig => { service => { name => $service, namespace => $ns, path => $_->[1] } },
			rules => [ { apiGroups => ['graphcore.ai'], apiVersions => ['v1alpha1'], operations => [ 'CREATE', 'UPDATE' ],
				resources => ['ipujobs'] } ] } } @entries ] }));
	return;
}

# The Service that the chart has; who is behind it is said by hand, since they aren't Pods.
sub behind_service (@daemons) {
	$c->apply(json_encode({ apiVersion => 'v1', kind => 'Service', metadata => { name => $service, namespace => $ns },
		spec => { ports => [ { name => 'https', port => 443 } ] } }));
	$c->apply(json_encode({ apiVersion => 'discovery.k8s.io/v1', kind => 'EndpointSlice', addressType => 'IPv4',
		metadata => { name => "$service-$_", namespace => $ns, labels => { 'kubernetes.io/service-name' => $service } },
		ports => [ { name => 'https', port => 0 + $daemons[$_]->port('webhook') } ],
		endpoints => [ { addresses => [ $c->address ], conditions => { ready => JSON::PP::true() } } ] })) for 0 .. $#daemons;
	return;
}

subtest 'an authority is renewed while the API server calls' => sub {
	install('mutating', [ 'mipujob.graphcore.ai', '/mutate-graphcore-ai-v1alpha1-ipujob' ]);
	install('validating', [ 'vipujob.graphcore.ai', '/validate-graphcore-ai-v1alpha1-ipujob' ]);
	# It makes an authority that is 2470 days old by now, and to be renewed at the age of 2433.
	my @daemons = (operator());
	wait_ready($daemons[0]);
	push @daemons, operator();
	wait_ready($daemons[1]);
	behind_service(@daemons);
	set_clock(-40);
	$c->wait_for('a certificate that is valid now', sub { tried('old')->{status} == 0 }, seconds => 120);
	my $refused = $c->try_apply(job_text('bad', ipus => '3'));
	like($refused->{err}, qr/spec\.ipusPerJobInstance: Invalid value: must be a power of two/, 'what the webhook refuses');
	my $old = bundle('mutating');
	my $other_ca = decode_base64(cluster_ca());
	my @failed;
	for my $n (1 .. 40) {
		set_clock(0) if $n == 10;
		my $done = tried("job-$n");
		push @failed, "$n: $done->{err}" if $done->{status};
	}
	is_deeply(\@failed, [], 'every review is answered, before, while and after');
	$c->wait_for('the new authority', sub { bundle('mutating') ne $old && bundle('validating') ne $old });
	like(bundle('mutating'), qr/\A.+\Q$old\E\z/s, 'the old one is trusted beside it');
	wait_ready($_) for @daemons;
	is(tried('after')->{status}, 0, 'a review after that');
	# Go's TLS, with the old authority alone, accepts what is served now.
	for my $daemon (@daemons) {
		my $answer = sub ($ca) {
			return $c->command([ $c->programs . '/kubectl', '--kubeconfig', '/dev/null', '--token=nobody', '--server',
				'https://' . $c->address . ':' . $daemon->port('webhook'), '--tls-server-name', "$service.$ns.svc",
				'--certificate-authority', spit("$dir/ca.pem", $ca), qw(get --raw /nothing) ])->{err};
		};
		like($answer->($old), qr/could not find the requested resource/, 'who knows the old one only gets an answer');
		like($answer->(substr(bundle('mutating'), 0, -length $old)), qr/could not find/, 'who knows the new one only, too');
		like($answer->($other_ca), qr/x509/, 'who knows another one doesn\'t');
	}
	$_->stop(seconds => 40) for @daemons;
};

# ---- with the operator down ----

subtest 'with a URL the operator makes the objects' => sub {
	$c->kubectl('delete', $resource{$_}, "ipu-operator-$_-webhook-configuration") for keys %resource;
	my $probe = operator();
	my $port = $probe->port('webhook');
	$probe->stop(seconds => 40);
	my $daemon = operator('--set', 'webhook.listen=' . $c->address . ":$port", '--set', 'webhook.url=https://' . $c->address . ":$port",
		'--set', 'certificates.names=' . $c->address);
	wait_ready($daemon);
	is_deeply([ names('mutating'), names('validating') ], [ map { "$_.graphcore.ai" } qw(mipujob mpod vipujob) ], 'they are there');
	$c->wait_for('reviews', sub { $c->try_apply(job_text('bad', ipus => '3'))->{err} =~ /must be a power of two/ });
	$c->apply(job_text('good', meta => { finalizers => ['example.org/x'] }));
	my $made = $c->try_apply(pod_text('asks', 'default', 'graphcore.ai/ipus' => '2'));
	is($made->{status}, 0, 'a Pod that asks for IPUs') or diag($made->{err});
	is($c->get('pod', 'asks')->{metadata}{annotations}{'graphcore.ai/status'}, 'injected', 'is made one that gets them');
	$c->kubectl('patch', $resource{validating}, 'ipu-operator-validating-webhook-configuration', '--type=json', '-p',
		'[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]');
	$c->wait_for('an edit to be undone', sub { stored('validating')->{webhooks}[0]{failurePolicy} eq 'Fail' });
	$daemon->stop(seconds => 40);
	my $written = () = $daemon->err =~ /the webhook registration is written/g;
	is($written, 3, 'the API server\'s defaults are no difference: two creates, and the edit');

	my $down = $c->try_apply(job_text('down'));
	like($down->{err}, qr/failed calling webhook "mipujob\.graphcore\.ai"/, 'down: an IPUJob waits');
	like($c->try_apply(pod_text('asks-2', 'default', 'graphcore.ai/ipu' => '2'))->{err},
		qr/failed calling webhook "mpod\.graphcore\.ai"/, 'and a Pod that asks for IPUs');
	is($c->try_apply(pod_text('plain', 'default', 'a' => 'b'))->{status}, 0, 'other Pods don\'t');
	is($c->try_apply(pod_text('asks', $_, 'graphcore.ai/ipus' => '2'))->{status}, 0, "nor those of $_") for 'kube-system', $ns;
	$c->kubectl(qw(delete ipujob good --wait=false));
	$c->kubectl(qw(patch ipujob good --type=merge -p {"metadata":{"finalizers":null}}));
	is($c->get('ipujob', 'good'), undef, 'a job can be deleted');
};

$ticker->stop(status => 143);
$c->down;
done_testing;
