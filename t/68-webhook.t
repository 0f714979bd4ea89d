#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The webhooks of a running daemon: reviews of IPUJobs and Pods over TLS by Python's ssl, patches
# applied by jsonpatch, what a peer may do wrong, the limits of the listener, and a stop in the middle.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Open2 qw(open2);
use IpuTest;
use MetricNames qw(covers_metrics);
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(200);
my $python = '/usr/bin/python3';
-x $python && system("$python -c 'import jsonpatch' 2>/dev/null") == 0
	or plan skip_all => 'no jsonpatch for Python on this machine (./setup --tests)';
my $dir = test_dir();
my %path = (mutate => '/mutate-graphcore-ai-v1alpha1-ipujob', validate => '/validate-graphcore-ai-v1alpha1-ipujob',
	pod => '/mutate-v1-pod');

my $sim = start('ipu-sim', args => ['--dir', "$dir/sim"]);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, $json = undef) {
	my $answer = http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		$json ? (json => $json) : ());
	die "$method $path: $answer->{status} $answer->{content}\n" if $answer->{status} !~ /^20/;
	return $answer->{json};
}

sub operator (@args) {
	return start('ipu-operator', args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', 'webhook',
		'--set', 'operatorNamespace=default', (map { ('--set', "$_=127.0.0.1:0") }
		qw(webhook.listen health.listen metrics.listen)), @args]);
}

my $daemon = operator('--set', 'webhook.drainSeconds=0', '--set', 'launcher.image=registry/launcher');
wait_until('the daemon is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
my $secret = api('GET', '/api/v1/namespaces/default/secrets/ipu-operator-certificates');
spit("$dir/ca.pem", decode_base64($secret->{data}{'ca.crt'}));

# ---- the client ----

my $client_pid = open2(my $from_client, my $to_client, $python, "$FindBin::Bin/lib/webhook_client.py", '--ca', "$dir/ca.pem");
$to_client->autoflush(1);

sub client (%command) {
	print {$to_client} json_encode(\%command) . "\n";
	my $line = <$from_client> // die "the client has ended\n";
	return json_decode($line);
}

sub connect_to ($name, $program = $daemon, %more) {
	my $answer = client(do => 'open', as => $name, port => 0 + $program->port('webhook'), %more);
	die "$name: $answer->{error}\n" if $answer->{error} && !$more{may_fail};
	return $answer;
}

sub request_text ($path, $body, %more) {
	my $length = $more{length} // length $body;
	my $type = exists $more{type} ? $more{type} : 'application/json';
	return ($more{method} // 'POST') . " $path?timeout=10s HTTP/1.1\r\nHost: x\r\n"
		. (defined $type ? "Content-Type: $type\r\n" : '') . "Content-Length: $length\r\n\r\n$body";
}

sub post ($path, $body, %more) {
	client(do => 'send', as => 'main', text => request_text($path, $body, %more), piece => $more{piece} // 0);
	return client(do => 'read', as => 'main');
}

# ---- reviews ----

my %resource = (IPUJob => { group => 'graphcore.ai', version => 'v1alpha1', resource => 'ipujobs' },
	Pod => { group => '', version => 'v1', resource => 'pods' });
my $number = 0;

sub review_of ($operation, $object, %more) {
	my $some = $object // $more{old};
	my $resource = $more{resource} // $resource{ $some->{kind} };
	return {
		apiVersion => $more{version} // 'admission.k8s.io/v1', kind => 'AdmissionReview',
		request => {
			uid => 'review-' . ++$number, operation => $operation, namespace => 'default',
			name => $some->{metadata}{name} // '', resource => $resource,
			kind => { group => $resource->{group}, version => $resource->{version}, kind => $some->{kind} },
			userInfo => { username => 'jane', groups => ['system:authenticated'] },
			object => $object, oldObject => $more{old}, %{ $more{request} // {} },
		},
	};
}

# The response; checks what every answer must be.
sub review ($webhook, $operation, $object, %more) {
	my $review = review_of($operation, $object, %more);
	my $answer = post($path{$webhook}, json_encode($review), %more);
	my $name = $more{name} // "$webhook $operation";
	is($answer->{status}, 200, "$name: answered") or diag(explain($answer));
	my $document = json_decode($answer->{body});
	is_deeply([@$document{qw(apiVersion kind)}, $document->{response}{uid}],
		[@$review{qw(apiVersion kind)}, $review->{request}{uid}], "$name: with its version and uid");
	return $document->{response};
}

sub patch_of ($response) { return $response->{patch} ? json_decode(decode_base64($response->{patch})) : [] }

# The object as the patch makes it, by jsonpatch.
sub patched ($object, $response) {
	my $answer = client(do => 'patch', document => $object, patch => patch_of($response));
	die "$answer->{error}\n" if $answer->{error};
	return $answer->{document};
}

sub job ($name, %spec) {
	return { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name, namespace => 'default' },
		spec => { workers => { template => { spec => { containers => [ { name => 'main', image => 'busybox' } ] } } }, %spec } };
}

sub pod ($name, %annotations) {
	return { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, namespace => 'default',
		%annotations ? (annotations => \%annotations) : () },
		spec => { containers => [ { name => 'main', image => 'busybox' } ] } };
}

connect_to('main');
my %one = (jobInstances => 1, ipusPerJobInstance => '2');

subtest 'defaults of IPUJobs' => sub {
	my %jobs = (
		'1.1' => job('new', %one),
		'1.0' => job('old', modelReplicas => '2', ipusPerModelReplica => '1', workers => { replicas => 2,
			template => { spec => { containers => [ { name => 'main', image => 'busybox' } ] } } }),
		launcher => job('launcher', %one, launcher => { command => [qw(mpirun true)] },
			restartPolicy => { type => 'OnFailure' }),
		interactive => job('session', %one, interactive => { ttl => 60 }, cleanPodPolicy => 'Workers'),
		'all is given' => job('full', %one, cleanPodPolicy => 'All', restartPolicy => { type => 'Always', backOffLimit => 1 }),
	);
	for my $name (sort keys %jobs) {
		my $job = $jobs{$name};
		my $response = review('mutate', 'CREATE', $job, name => $name);
		ok($response->{allowed}, "$name: allowed");
		is($response->{patchType}, 'JSONPatch', "$name: a JSON Patch");
		my $full = patched($job, $response);
		ok($full->{spec}{cleanPodPolicy} && defined $full->{spec}{restartPolicy}{backOffLimit}, "$name: defaults are in");
		is($full->{spec}{cleanPodPolicy}, $job->{spec}{cleanPodPolicy} // 'None', "$name: what was given stays");
		for my $op (@{ patch_of($response) }) {
			is($op->{op}, 'add', "$name: $op->{path} is only added");
		}
		my $again = review('mutate', 'CREATE', $full, name => "$name again");
		ok($again->{allowed} && !exists $again->{patch}, "$name: nothing the second time");
		my $update = review('mutate', 'UPDATE', $full, old => $full, name => "$name, update");
		ok($update->{allowed} && !exists $update->{patch}, "$name: nor in an update");
		my $dry = review('mutate', 'CREATE', $job, name => "$name, dry run", request => { dryRun => JSON::PP::true });
		is($dry->{patch}, $response->{patch}, "$name: a dry run has the same patch");
		my $beta = review('mutate', 'CREATE', $job, name => "$name, v1beta1", version => 'admission.k8s.io/v1beta1');
		is($beta->{patch}, $response->{patch}, "$name: v1beta1 too");
	}
};

subtest 'checks of IPUJobs' => sub {
	my $good = review('validate', 'CREATE', job('good', %one), name => 'good');
	ok($good->{allowed}, 'a good one passes') or diag(explain($good));
	ok(!exists $good->{patch}, 'the validating webhook patches nothing');
	my $bad = review('validate', 'CREATE', job('bad', jobInstances => 1, ipusPerJobInstance => '3', cleanPodPolicy => 'Some'),
		name => 'bad');
	ok(!$bad->{allowed}, 'a bad one is refused');
	is_deeply([@{ $bad->{status} }{qw(status reason code)}], ['Failure', 'Invalid', 422], 'as invalid');
	my @fields = sort map { $_->{field} } @{ $bad->{status}{details}{causes} };
	is_deeply(\@fields, [qw(spec.cleanPodPolicy spec.ipusPerJobInstance)], 'with all causes');
	like($bad->{status}{message}, qr/^IPUJob\.graphcore\.ai "bad" is invalid: \[.*, .*\]$/, 'and all of them in words');
};

subtest 'what passes' => sub {
	my $bad = job('bad', jobInstances => 1, ipusPerJobInstance => '3');
	my $going = job('bad', jobInstances => 1, ipusPerJobInstance => '3');
	$going->{metadata}{deletionTimestamp} = '2026-01-01T00:00:00Z';
	for my $webhook (qw(mutate validate)) {
		ok(review($webhook, 'DELETE', undef, old => $bad, name => "$webhook delete")->{allowed}, "$webhook: DELETE");
		my $response = review($webhook, 'UPDATE', $going, old => $going, name => "$webhook in deletion");
		ok($response->{allowed} && !$response->{patch}, "$webhook: an object in deletion");
		$response = review($webhook, 'UPDATE', $bad, old => $bad, name => "$webhook of a subresource",
			request => { subResource => 'status' });
		ok($response->{allowed} && !$response->{patch}, "$webhook: a subresource");
		$response = review($webhook, 'CREATE', pod('p', 'graphcore.ai/ipus' => '3'), name => "$webhook of a Pod");
		ok($response->{allowed}, "$webhook: what it isn't for");
		like($response->{warnings}[0], qr/is for ipujobs, not for pods/, "$webhook: with a warning");
	}
};

subtest 'annotated Pods' => sub {
	my $plain = review('pod', 'CREATE', pod('plain'), name => 'plain');
	ok($plain->{allowed} && !exists $plain->{patch}, 'a Pod without annotation is untouched');
	my $pod = pod('wants', 'graphcore.ai/ipus' => '2');
	my $response = review('pod', 'CREATE', $pod, name => 'annotated');
	my $full = patched($pod, $response);
	is($full->{metadata}{annotations}{'graphcore.ai/status'}, 'injected', 'an annotated one is injected');
	like($full->{metadata}{labels}{'graphcore.ai/pod'}, qr/^[0-9a-f]{32}$/, 'with a token');
	is_deeply($full->{spec}{schedulingGates}, [ { name => 'graphcore.ai/partition' } ], 'behind the gate');
	my $again = patched($full, review('pod', 'CREATE', $full, name => 'a copy'));
	isnt($again->{metadata}{labels}{'graphcore.ai/pod'}, $full->{metadata}{labels}{'graphcore.ai/pod'},
		'a copy gets a token of its own');
	my ($one, $other) = map { json_encode($_) =~ s/[0-9a-f]{32}/TOKEN/gr } $full, $again;
	is($other, $one, 'and is otherwise the same');
	my $bad = review('pod', 'CREATE', pod('bad', 'graphcore.ai/ipus' => 'many'), name => 'bad');
	is($bad->{status}{code}, 422, 'a bad number is refused');
	is($bad->{status}{details}{causes}[0]{field}, 'metadata.annotations[graphcore.ai/ipus]', 'by its path');
	ok(review('pod', 'UPDATE', pod('bad', 'graphcore.ai/ipus' => 'many'), old => pod('bad'), name => 'update')->{allowed},
		'a Pod that is there is left alone');
};

subtest 'what is no review' => sub {
	my $review = json_encode(review_of('CREATE', job('good', %one)));
	my @rows = (
		['garbage', 400, $path{mutate}, "\x01\x02 not JSON"],
		['nothing', 400, $path{mutate}, ''],
		['half of one', 400, $path{validate}, substr($review, 0, 200)],
		['another kind', 400, $path{pod}, '{"apiVersion":"v1","kind":"Pod"}'],
		['deep', 400, $path{mutate}, '[' x 100000],
		['another content type', 415, $path{mutate}, $review, type => 'application/yaml'],
		['another path', 404, '/mutate', $review],
		['another method', 405, $path{mutate}, $review, method => 'PUT'],
		['JSON with a character set', 200, $path{mutate}, $review, type => 'Application/JSON; charset=utf-8'],
		['no content type', 200, $path{mutate}, $review, type => undef],
	);
	for my $row (@rows) {
		my ($name, $status, $path, $body, %more) = @$row;
		my $answer = post($path, $body, %more);
		is($answer->{status}, $status, "$name: $status") or diag(explain($answer));
		if ($status != 200) {
			is($answer->{headers}{'content-type'}, 'application/problem+json', "$name: says why")
				or diag(explain($answer));
		}
		if (lc($answer->{headers}{connection} // '') eq 'close') {
			client(do => 'close', as => 'main');
			connect_to('main');
		}
	}
};

subtest 'sizes' => sub {
	my $mib = 1 << 20;
	my $limit = 7 * $mib;
	my $job = job('large', %one);
	my $filled = sub ($size) {
		my $review = review_of('UPDATE', $job, old => $job);
		my $text = json_encode($review);
		# Spread over both objects, as an update's bytes are.
		my $some = int(($size - length $text) / 2);
		my @fill = ($some, $size - length($text) - $some);
		for my $which (qw(object oldObject)) {
			my $copy = json_decode(json_encode($review->{request}{$which}));
			$copy->{metadata}{annotations}{x} = 'y' x ((shift @fill) - length ',"annotations":{"x":""}');
			$review->{request}{$which} = $copy;
		}
		return json_encode($review);
	};
	my $body = $filled->($limit);
	is(length $body, $limit, 'a review of 7 MiB');
	my $answer = post($path{validate}, $body);
	is($answer->{status}, 200, 'is answered');
	ok(json_decode($answer->{body})->{response}{allowed}, 'and allowed');
	$answer = post($path{mutate}, $body);
	ok(json_decode($answer->{body})->{response}{patch}, 'and defaulted');
	client(do => 'close', as => 'main');
	connect_to('main');
	client(do => 'send', as => 'main', text => request_text($path{validate}, '', length => $limit + 1));
	is(client(do => 'read', as => 'main')->{status}, 413, 'a larger one is refused before it is sent');
	client(do => 'close', as => 'main');
	connect_to('main');
};

subtest 'long lists' => sub {
	my $with = sub ($n) {
		my $job = job('long', %one);
		$job->{spec}{workers}{template}{spec}{volumes} = [map { { name => "v$_", emptyDir => {} } } 1 .. $n];
		return $job;
	};
	my $long = $with->(2001);
	for my $webhook (qw(mutate validate)) {
		my $response = review($webhook, 'CREATE', $long, name => "$webhook a long list");
		is_deeply([map { "$_->{field} $_->{message}" } @{ $response->{status}{details}{causes} }],
			['spec.workers.template.spec.volumes Too many: must have at most 2000 items, not 2001'], "$webhook: refused");
		ok(review($webhook, 'CREATE', $with->(2000), name => "$webhook as long as may be")->{allowed}, "$webhook: one less isn't");
		ok(review($webhook, 'UPDATE', $long, old => $long, name => "$webhook a long list that is stored")->{allowed},
			"$webhook: what is stored may stay");
	}
	my $pod = pod('long');
	$pod->{spec}{volumes} = $long->{spec}{workers}{template}{spec}{volumes};
	my $response = review('pod', 'CREATE', $pod, name => 'a Pod without annotation');
	ok($response->{allowed} && !$response->{patch}, 'is none of ours');
	$pod->{metadata}{annotations}{'graphcore.ai/ipus'} = '1';
	is(review('pod', 'CREATE', $pod, name => 'an annotated one')->{status}{code}, 422, 'is');
};

subtest 'by the byte' => sub {
	my $response = review('mutate', 'CREATE', job('bytes', %one), name => 'one byte at a time', piece => 1);
	ok($response->{patch}, 'the same answer');
	my @reviews = map { json_encode(review_of('CREATE', job("job-$_", %one))) } 1 .. 20;
	client(do => 'send', as => 'main', text => join '', map { request_text($path{validate}, $_) } @reviews);
	my @got = map { json_decode(client(do => 'read', as => 'main')->{body})->{response}{uid} } @reviews;
	is_deeply(\@got, [map { json_decode($_)->{request}{uid} } @reviews], '20 of them in one go, answered in order');
};

subtest 'TLS' => sub {
	for my $version ('1.2', '1.3') {
		is(connect_to("tls$version", $daemon, tls => $version)->{tls}, "TLSv$version", "TLS $version");
		client(do => 'close', as => "tls$version");
	}
	my $handshake = '';
	for (1 .. 3) {
		connect_to('half');
		client(do => 'send', as => 'half', text => substr(request_text($path{mutate}, '{}'), 0, 30 * $_));
		client(do => 'close', as => 'half');
	}
	ok(review('validate', 'CREATE', job('after', %one))->{allowed}, 'connections that break off disturb nobody');
};

subtest 'metrics' => sub {
	my $text = http('GET', $daemon->url('metrics', '/metrics'))->{content};
	for my $series ('mutate-ipujob",result="patched', 'mutate-ipujob",result="allowed', 'validate-ipujob",result="refused',
		'mutate-ipujob",result="unreadable', 'validate-ipujob",result="unreadable', 'mutate-pod",result="patched') {
		like($text, qr/^ipu_operator_admission_reviews_total\{webhook="\Q$series\E"\} [1-9]/m, $series);
	}
	like($text, qr/^ipu_operator_admission_review_seconds_count\{webhook="mutate-pod"\} [1-9]/m, 'times');
	covers_metrics($text, qw(ipu_operator_admission_reviews_total ipu_operator_admission_review_seconds));
};

subtest 'a stop in the middle' => sub {
	my $body = json_encode(review_of('CREATE', job('late', %one)));
	my $text = request_text($path{mutate}, $body);
	client(do => 'send', as => 'main', text => substr($text, 0, length($text) - 5));
	connect_to('idle');
	$daemon->signal('TERM');
	wait_until('the listener closes', sub {
		return connect_to('new', $daemon, may_fail => 1)->{error} || !client(do => 'close', as => 'new');
	});
	is(client(do => 'read', as => 'idle')->{end}, JSON::PP::true, 'an idle connection is closed');
	ok($daemon->is_alive, 'but the daemon waits for what it has begun to read');
	client(do => 'send', as => 'main', text => substr($text, -5));
	my $answer = client(do => 'read', as => 'main');
	is($answer->{status}, 200, 'which is answered');
	ok(json_decode($answer->{body})->{response}{patch}, 'in full');
	is(lc $answer->{headers}{connection}, 'close', 'as the last');
	wait_until('it ends', sub { !$daemon->is_alive }, while_alive => []);
	$daemon->stop;
};

subtest 'a drain' => sub {
	my $second = operator('--set', 'webhook.drainSeconds=300');
	wait_until('the second daemon is ready', sub { http('GET', $second->url('health', '/readyz'))->{status} == 200 });
	connect_to('kept', $second);
	$second->signal('TERM');
	wait_until('it is going', sub { ($second->err // '') =~ /stopping: signal=15/ });
	connect_to('main', $second);
	ok(review('validate', 'CREATE', job('drain', %one))->{allowed}, 'new connections are served while others take over');
	is(client(do => 'read', as => 'main')->{end}, JSON::PP::true, 'one review each');
	client(do => 'send', as => 'kept', text => request_text($path{mutate}, json_encode(review_of('CREATE', job('kept', %one)))));
	my $last = client(do => 'read', as => 'kept');
	is_deeply([$last->{status}, lc $last->{headers}{connection}], [200, 'close'], 'those that are kept are told to go');
	$second->signal('TERM');
	wait_until('asked twice, it goes at once', sub { !$second->is_alive }, while_alive => []);
	$second->stop;
};

close $to_client;
waitpid($client_pid, 0);
is($?, 0, 'the client ends well');
$sim->stop;
done_testing();
