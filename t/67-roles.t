#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The roles in processes of their own: the controller asks the proxy for partitions over TLS with its
# ServiceAccount's token, hears of them by the tracker, and both are killed and started again. They share
# the operator's own certificate authority by a Secret.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MetricNames qw(covers_metrics);
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(110);
program_or_skip('curl');
my $dir = test_dir();
my $folder = "$dir/sim";
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=8', '--pod-run-ms=0']);
my $token = slurp("$folder/token");
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
my $account = 'ipu-operator-controller-manager';

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $token" },
		map { (json => $_) } @json);
}

sub make_job ($name, %spec) {
	my $answer = api('POST', $jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob',
		metadata => { name => $name }, spec => { jobInstances => 1, ipusPerJobInstance => '4', %spec,
			workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
	return is($answer->{status}, 201, "job $name");
}

sub job_status ($name) {
	my $answer = api('GET', "$jobs/$name");
	return $answer->{status} == 200 ? $answer->{json}{status} // {} : undef;
}
sub job_state ($name) { return (job_status($name) // {})->{launcherStatus} // '' }
sub job_says ($name) { return (job_status($name) // {})->{lastMessage} // '' }
sub used ($proxy) { return http('GET', $proxy->url('proxy', '/stats'))->{json}{total}{used} // -1 }

# A token for the proxy, as a kubelet projects it.
sub project ($name, $audience) {
	my $answer = api('POST', "/api/v1/namespaces/ipu-operator/serviceaccounts/$name/token",
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => { audiences => [$audience] } });
	is($answer->{status}, 201, "a token of $name for $audience") or diag($answer->{content});
	return spit("$dir/$name-$audience.token", $answer->{json}{status}{token} // '');
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'ipu-operator' } });
for my $name ($account, 'somebody') {
	api('POST', '/api/v1/namespaces/ipu-operator/serviceaccounts',
		{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $name } });
}
my @both = ('--kubeconfig', "$folder/kubeconfig", '--set', 'operatorNamespace=ipu-operator',
	map { ('--set', "$_.listen=127.0.0.1:0") } qw(health metrics));

sub proxy_process ($port = 0, @more) {
	return start('ipu-operator', args => ['--roles=proxy', @both, '--set', 'proxy.listen=127.0.0.1:0',
		'--set', "proxy.tlsListen=127.0.0.1:$port", '--set', 'leaderElection.identity=proxy',
		'--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'), @more]);
}

sub controller_process ($proxy, $token_file, $roles = 'controller', @more) {
	return start('ipu-operator', args => ["--roles=$roles", @both, '--set', 'webhook.listen=',
		'--set', 'proxy.url=https://127.0.0.1:' . $proxy->port('proxy-tls'), '--set', "proxy.tokenFile=$token_file",
		'--set', 'leaderElection.identity=controller', @more]);
}

sub proxy_up ($daemon) {
	return http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_proxy_up (\d)$/m ? $1 : -1;
}

sub ready ($daemon) { return http('GET', $daemon->url('health', '/readyz'))->{status} == 200 }

my $good = project($account, 'ipu-operator-proxy');
my $proxy = proxy_process();
wait_until('the proxy is ready', sub { ready($proxy) });
my $controller = controller_process($proxy, $good);
wait_until('the controller is ready', sub { ready($controller) });

subtest 'a job\'s life' => sub {
	make_job('a', ipusPerJobInstance => '32');
	wait_until('it runs', sub { job_state('a') eq 'Running' });
	my ($pod) = @{ api('GET', '/api/v1/namespaces/default/pods')->{json}{items} };
	my %env = map { $_->{name} => $_->{value} } @{ $pod->{spec}{containers}[0]{env} };
	is("$env{IPUOF_VIPU_API_HOST}:$env{IPUOF_VIPU_API_PORT}", '127.0.0.1:' . $sim->port('vipu0'),
		'its Pod knows its controller');
	is(used($proxy), 32, 'all IPUs are used');
	make_job('large', ipusPerJobInstance => '16');
	wait_until('the next one waits, and knows for what', sub {
		job_says('large') =~ /16 .*IPUs/
	});
	is(api('DELETE', "$jobs/a", {})->{status}, 200, 'the first is deleted');
	wait_until('the next one runs', sub { job_state('large') eq 'Running' }, seconds => 30);
	wait_until('the first is gone', sub { !job_status('a') });
};

# An annotated Pod, as the webhook leaves it; until its gate is open.
sub make_pod ($name, $token) {
	my $path = '/api/v1/namespaces/default/pods';
	my $made = api('POST', $path, { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name,
		labels => { 'graphcore.ai/pod' => $token }, annotations => { 'graphcore.ai/ipus' => '2' } },
		spec => { schedulingGates => [ { name => 'graphcore.ai/partition' } ], containers => [ { name => 'c', image => 'i' } ] } });
	is($made->{status}, 201, "Pod $name");
	wait_until('its gate is open', sub { !@{ api('GET', "$path/$name")->{json}{spec}{schedulingGates} // [] } }, seconds => 30);
	return "$path/$name";
}

subtest 'an annotated Pod\'s life' => sub {
	my $path = make_pod('annotated', '0' x 31 . 'a');
	my $files = api('GET', '/api/v1/namespaces/default/configmaps/ipuof-' . '0' x 31 . 'a')->{json};
	like($files->{data}{'ipuof-0.conf'} // '', qr/\S/, 'its configuration is there');
	is(api('DELETE', $path, { gracePeriodSeconds => 0 })->{status}, 200, 'it goes');
	wait_until('and its IPUs with it', sub {
		!grep { $_->{id} =~ /^annotated-/ } @{ http('GET', $sim->url('admin', '/sim/state'))->{json}{vipu}[0]{partitions} }
	}, seconds => 30);
};

# The newest of what is held, as the proxy's page knows it.
sub held ($proxy) {
	my $live = http('GET', $proxy->url('proxy', '/live'))->{json} // {};
	return join ' ', $live->{total}{held} // 'unknown', map { "$_->{ipus} $_->{reason}: $_->{message}" } @{ $live->{held} // [] };
}

subtest 'what is held' => sub {
	wait_until('the proxy knows that there is none', sub { held($proxy) eq '0' });
	make_job('stays', ipusPerJobInstance => '8', suspend => JSON::PP::true);
	wait_until('the proxy\'s page shows a suspended job', sub { held($proxy) eq '1 8 Suspended: it asks for no IPUs until it\'s let go (spec.suspend)' });
	make_job('another', ipusPerJobInstance => '32');
	wait_until('one that waits for IPUs', sub { @{ http('GET', $proxy->url('proxy', '/live'))->{json}{waiting} } == 1 });
	like(held($proxy), qr/^1 8 /, '... isn\'t held');
	api('DELETE', "$jobs/$_", {}) for qw(stays another);
	wait_until('they go', sub { held($proxy) eq '0' && !job_status('stays') && !job_status('another') });
};

subtest 'the tracker can\'t be written' => sub {
	my $fault = http('POST', $sim->url('admin', '/sim/api/faults'), json => { kind => 'status', status => 403, verb => 'patch',
		resource => 'configmaps', count => 0, message => 'exceeded quota: configmaps' });
	is($fault->{status}, 204, 'somebody\'s quota') or diag($fault->{content});
	make_job('unwritten', ipusPerJobInstance => '1');
	my $event;
	wait_until('an Event about the tracker', sub {
		($event) = grep { $_->{reason} eq 'TrackerUnwritable' && $_->{involvedObject}{kind} eq 'ConfigMap' }
			@{ api('GET', '/api/v1/namespaces/ipu-operator/events')->{json}{items} };
	});
	like($event->{message}, qr/can't be written.*exceeded quota/, '… which says why');
	http('DELETE', $sim->url('admin', '/sim/api/faults'));
	wait_until('it goes on', sub { job_state('unwritten') eq 'Running' }, seconds => 45);
	api('DELETE', "$jobs/unwritten", {});
	wait_until('and goes', sub { !job_status('unwritten') }, seconds => 30);
};

subtest 'the certificate' => sub {
	my $secret = api('GET', '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates')->{json};
	is_deeply([ sort keys %{ $secret->{data} } ], [qw(ca.crt ca.key tls.crt tls.key)], 'the Secret holds it');
	my $answer = run([ 'curl', qw(-sS --max-time 20 --noproxy * -o /dev/null -w %{http_code}), '--cacert',
		spit("$dir/ca.pem", decode_base64($secret->{data}{'ca.crt'})),
		'https://localhost:' . $proxy->port('proxy-tls') . '/v1/partitions/nobody/0' ]);
	is($answer->{out}, 401, 'its authority is good for the proxy') or diag($answer->{err});
};

subtest 'the controller is killed' => sub {
	my $path = make_pod('meanwhile', '0' x 31 . 'b');
	$controller->crash;
	is(api('DELETE', "$jobs/large", {})->{status}, 200, 'a job is deleted meanwhile');
	is(api('DELETE', $path, { gracePeriodSeconds => 0 })->{status}, 200, 'and a Pod');
	make_job('b');
	$controller = controller_process($proxy, $good, 'controller,webhook');
	wait_until('the other one runs', sub { job_state('b') eq 'Running' }, seconds => 30);
	wait_until('what was deleted has given its IPUs back', sub { used($proxy) == 4 });
};

subtest 'the proxy is killed' => sub {
	my $port = $proxy->port('proxy-tls');
	$proxy->crash;
	make_job('c');
	wait_until('the job hears that the proxy is away', sub {
		job_says('c') =~ /proxy can't be asked/
	});
	is(job_state('b'), 'Running', 'what runs goes on');
	wait_until('a metric says so', sub { proxy_up($controller) == 0 });
	my $said = http('GET', $controller->url('health', '/readyz?verbose'));
	is($said->{status}, 200, 'who has webhooks, too, stays ready');
	like($said->{content}, qr/^\[!\]proxy degraded: \S/m, '... and says what is missing');
	my ($part) = grep { $_->{name} eq 'proxy' } @{ http('GET', $controller->url('health', '/readyz'),
		headers => { accept => 'application/json' })->{json}{parts} };
	ok($part->{ready} && $part->{reason}, '... in JSON, too');
	$proxy = proxy_process($port);
	wait_until('it\'s back: the job runs', sub { job_state('c') eq 'Running' }, seconds => 40);
	wait_until('what is held is known again', sub { held($proxy) eq '0' }, seconds => 40);
	is(used($proxy), 8, 'nothing was lost');
	is(proxy_up($controller), 1, 'the metric says so');
	covers_metrics(http('GET', $controller->url('metrics', '/metrics'))->{content}, qw(ipu_operator_proxy_up));
	is(proxy_up($proxy), -1, 'who asks no proxy has none');
	like(http('GET', $controller->url('health', '/readyz?verbose'))->{content}, qr/^\[\+\]proxy ok$/m, 'nor is anything missing');
	is(api('DELETE', "$jobs/$_", {})->{status}, 200, "$_ is deleted") for qw(b c);
	wait_until('all IPUs come back', sub { used($proxy) == 0 }, seconds => 30);
	wait_until('both are gone', sub { !job_status('b') && !job_status('c') }, seconds => 30);
};
$controller->stop;

for my $row ([ 'somebody else\'s token', 'somebody', 'ipu-operator-proxy' ],
	[ 'a token for another audience', $account, 'another' ])
{
	my ($what, $name, $audience) = @$row;
	subtest $what => sub {
		my $denied = controller_process($proxy, project($name, $audience));
		make_job('denied');
		wait_until('the job says that it\'s refused', sub {
			job_says('denied') =~ /proxy (?:refuses|can't be asked): \S/
		});
		is(used($proxy), 0, 'nothing was made');
		is(api('DELETE', "$jobs/denied", {})->{status}, 200, 'it\'s deleted');
		$denied->stop;
		my $after = controller_process($proxy, $good);
		wait_until('a process with the right token lets it go', sub { !job_status('denied') }, seconds => 30);
		$after->stop;
	};
}

subtest 'a replica that follows passes asks on' => sub {
	my $port = $proxy->port('proxy-tls');
	$proxy->stop;
	$proxy = proxy_process($port, '--set', "proxy.advertise=127.0.0.1:$port");
	wait_until('it leads again', sub { ready($proxy) });
	my $follower = proxy_process(0, '--set', 'leaderElection.identity=another');
	wait_until('the other one follows', sub { ready($follower) });
	my $ask = json_encode({ owner => { kind => 'IPUJob', namespace => 'default', name => 'x', uid => 'uid-1' },
		instance => 0, ipus => 2 });
	my $curl = sub ($method, $path, @more) {
		my $answer = run([ 'curl', qw(-sS --max-time 20 --noproxy * -w \n%{http_code}), '-X', $method,
			'--cacert', "$dir/ca.pem", '-H', 'Authorization: Bearer ' . slurp($good),
			'-H', 'Content-Type: application/json', @more,
			'https://localhost:' . $follower->port('proxy-tls') . $path ]);
		my ($body, $status) = $answer->{out} =~ /^(.*)\n(\d+)\z/s;
		return ($status, $body, $answer->{err});
	};
	my ($status, $body, $err) = $curl->('POST', '/v1/partitions', '--data', $ask);
	is($status, 201, 'an ask') or diag("$body$err");
	wait_until('the partition to be active', sub {
		(json_decode(($curl->('GET', '/v1/partitions/uid-1/0'))[1]) // {})->{state} eq 'active';
	});
	is(used($proxy), 2, 'the leader made it');
	($status) = $curl->('DELETE', '/v1/partitions/uid-1');
	is($status, 202, 'its release');
	wait_until('it\'s gone', sub { used($proxy) == 0 && ($curl->('DELETE', '/v1/partitions/uid-1'))[0] == 204 });
	$follower->stop;
};

# What a proxy's page has of Pods, and of what is held; and the names in it.
sub pods_and_held ($proxy) {
	my $live = http('GET', $proxy->url('proxy', '/live'))->{json} // {};
	my @pods = map { my $p = $_; map { ($p->{name} // '') . ": $_->{name} $_->{phase}" . ($_->{node} ? '' : ' nowhere') } @{ $p->{pods} // [] } } @{ $live->{partitions} // [] };
	return join ', ', @pods, map { ($_->{name} // 'nobody') . ": $_->{message}" } @{ $live->{held} // [] };
}

subtest 'Pods and what is held, at each replica' => sub {
	my $port = $proxy->port('proxy-tls');
	my @full = ('--set', 'proxy.page=full');
	my $suspended = 'asks for no IPUs until it\'s let go (spec.suspend)';
	my $told = sub ($proxy) { return http('GET', $proxy->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_proxy_requests_total\{handler="pods",code="204"\} (\d+)/m ? $1 : 0 };
	my $controller = controller_process($proxy, $good);
	make_job('shown');
	make_job('idle', ipusPerJobInstance => '8', suspend => JSON::PP::true);
	wait_until('where nothing is named, that something is held is told', sub { pods_and_held($proxy) eq "nobody: it $suspended" });
	wait_until('the job runs', sub { job_state('shown') eq 'Running' });
	is($told->($proxy), 0, '... and of Pods nothing');
	$proxy->stop;
	$controller->stop;

	$proxy = proxy_process($port, '--set', "proxy.advertise=127.0.0.1:$port", '--set', "proxy.tokenFile=$good", @full);
	wait_until('a proxy that names them leads', sub { ready($proxy) });
	$controller = controller_process($proxy, $good, 'controller', @full);
	my ($pod) = map { "shown: $_->{metadata}{name} Running" } @{ api('GET', '/api/v1/namespaces/default/pods')->{json}{items} };
	my $all = "$pod, idle: it $suspended";
	wait_until('it knows them', sub { pods_and_held($proxy) eq $all }) or diag(pods_and_held($proxy));
	my $second = proxy_process(0, '--set', 'leaderElection.identity=another', '--set', "proxy.tokenFile=$good", @full);
	wait_until('another one follows', sub { ready($second) });
	wait_until('it knows them, too', sub { pods_and_held($second) eq $all }) or diag(pods_and_held($second));
	my $stranger = proxy_process(0, '--set', 'leaderElection.identity=third', '--set', 'proxy.tokenFile=' . project('somebody', 'ipu-operator-proxy'), @full);
	wait_until('a third one has another account', sub { ready($stranger) });
	pods_and_held($stranger) for 1 .. 3;
	wait_until('it asks', sub { http('GET', $proxy->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_proxy_requests_total\{handler="held",code="403"\} [1-9]/m });
	is(pods_and_held($stranger), '', '... and hears nothing');
	$stranger->stop;
	api('DELETE', "$jobs/idle", {});
	wait_until('what changes is told', sub { pods_and_held($proxy) eq $pod });
	wait_until('to all', sub { pods_and_held($second) eq $pod });
	# What was on its way may still come.
	wait_until('three seconds without a word', sub { my $before = $told->($proxy); sleep 3; return $told->($proxy) == $before });
	pass('what doesn\'t change isn\'t');
	api('DELETE', "$jobs/shown", {});
	wait_until('they go', sub { pods_and_held($proxy) eq '' && pods_and_held($second) eq '' && !job_status('shown') }, seconds => 30);
	$_->stop for $second, $controller;
};

$proxy->stop;
$sim->stop;
done_testing;
