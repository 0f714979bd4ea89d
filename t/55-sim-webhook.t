#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-sim and admission webhooks: their configurations, and how it calls them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use JSON::PP ();
use MIME::Base64 qw(encode_base64);
use POSIX ();
use Test::More;

my $openssl = program_or_skip('openssl');
my $python = program_or_skip('python3');
watchdog(180);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder]);
my $token = slurp("$folder/token");
my %paths = (mutating => '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
	validating => '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations');
my %kinds = (mutating => 'MutatingWebhookConfiguration', validating => 'ValidatingWebhookConfiguration');

sub api {
	my ($method, $path, %options) = @_;
	return http($method, $sim->url('api-plain', $path),
		headers => {authorization => "Bearer $token", %{delete $options{headers} // {}}}, %options);
}

# One webhook with what it must have; %more goes over it, undef takes away.
sub webhook {
	my ($name, %more) = @_;
	my %w = (name => $name, clientConfig => {url => 'https://127.0.0.1:1/x'}, sideEffects => 'None',
		admissionReviewVersions => ['v1'],
		rules => [{apiGroups => [''], apiVersions => ['v1'], resources => ['pods'], operations => ['CREATE']}], %more);
	return {map { ($_ => $w{$_}) } grep { defined $w{$_} } keys %w};
}

sub register {
	my ($kind, $name, @webhooks) = @_;
	return api('POST', $paths{$kind}, json => {apiVersion => 'admissionregistration.k8s.io/v1', kind => $kinds{$kind},
		metadata => {name => $name}, webhooks => \@webhooks});
}

subtest 'configurations are kept, with the defaults of the API' => sub {
	for my $kind (sort keys %paths) {
		my $made = register($kind, 'keep', webhook('a.example.com'));
		is($made->{status}, 201, "$kind: made") or diag($made->{content});
		my $w = api('GET', "$paths{$kind}/keep")->{json}{webhooks}[0];
		is_deeply([@$w{qw(failurePolicy matchPolicy timeoutSeconds namespaceSelector objectSelector)}],
			['Fail', 'Equivalent', 10, {}, {}], "$kind: defaults");
		is($w->{rules}[0]{scope}, '*', "$kind: scope");
		is($w->{reinvocationPolicy}, $kind eq 'mutating' ? 'Never' : undef, "$kind: reinvocationPolicy");
		my $patched = api('PATCH', "$paths{$kind}/keep", headers => {'content-type' => 'application/json-patch+json'},
			json => [{op => 'replace', path => '/webhooks/0/clientConfig/caBundle', value => 'aGVsbG8='},
				{op => 'add', path => '/webhooks/0/timeoutSeconds', value => 3}]);
		is($patched->{status}, 422, "$kind: replacing what isn't there");
		$patched = api('PATCH', "$paths{$kind}/keep", headers => {'content-type' => 'application/json-patch+json'},
			json => [{op => 'add', path => '/webhooks/0/clientConfig/caBundle', value => 'aGVsbG8='}]);
		is_deeply([$patched->{status}, $patched->{json}{metadata}{generation}, $patched->{json}{webhooks}[0]{clientConfig}{caBundle}],
			[200, 2, 'aGVsbG8='], "$kind: patched");
		is(scalar @{api('GET', $paths{$kind})->{json}{items}}, 1, "$kind: listed");
		is(api('DELETE', "$paths{$kind}/keep")->{status}, 200, "$kind: removed");
	}
};

subtest 'configurations that the API refuses' => sub {
	my @rows = (
		['a name of two labels', webhook('a.example'), 'webhooks[0].name', qr/at least three segments/],
		['no client', webhook('a.b.c', clientConfig => {}), 'webhooks[0].clientConfig', qr/exactly one of url or service/],
		['both', webhook('a.b.c', clientConfig => {url => 'https://x', service => {name => 'a', namespace => 'b'}}),
			'webhooks[0].clientConfig', qr/exactly one of/],
		['http', webhook('a.b.c', clientConfig => {url => 'http://x/'}), 'webhooks[0].clientConfig.url', qr/only allowed URL scheme/],
		['a query', webhook('a.b.c', clientConfig => {url => 'https://x/?a'}), 'webhooks[0].clientConfig.url', qr/not permitted/],
		['a nameless service', webhook('a.b.c', clientConfig => {service => {name => 'a'}}),
			'webhooks[0].clientConfig.service', qr/required/],
		['side effects', webhook('a.b.c', sideEffects => 'Some'), 'webhooks[0].sideEffects', qr/Unsupported value: "Some"/],
		['no side effects said', webhook('a.b.c', sideEffects => undef), 'webhooks[0].sideEffects', qr/Required/],
		['versions', webhook('a.b.c', admissionReviewVersions => ['v2']), 'webhooks[0].admissionReviewVersions', qr/v1beta1/],
		['no versions', webhook('a.b.c', admissionReviewVersions => []), 'webhooks[0].admissionReviewVersions', qr/Required/],
		['a timeout', webhook('a.b.c', timeoutSeconds => 31), 'webhooks[0].timeoutSeconds', qr/between 1 and 30/],
		['a policy', webhook('a.b.c', failurePolicy => 'Maybe'), 'webhooks[0].failurePolicy', qr/"Maybe"/],
		['a rule without operations', webhook('a.b.c', rules => [{apiGroups => [''], apiVersions => ['v1'], resources => ['pods']}]),
			'webhooks[0].rules[0].operations', qr/Required/],
		['a bundle', webhook('a.b.c', clientConfig => {url => 'https://x', caBundle => '*'}),
			'webhooks[0].clientConfig.caBundle', qr/base64/],
	);
	for my $row (@rows) {
		my ($name, $webhook, $field, $words) = @$row;
		my $answer = register('mutating', 'bad', $webhook);
		is_deeply([$answer->{status}, $answer->{json}{reason}, $answer->{json}{details}{causes}[0]{field}],
			[422, 'Invalid', $field], "$name: refused for its field") or diag($answer->{content});
		like($answer->{json}{message} // '', $words, "$name: why");
	}
	my $twice = register('validating', 'bad', webhook('a.b.c'), webhook('a.b.c'));
	like($twice->{json}{message}, qr/\Qwebhooks[1].name: Duplicate value: "a.b.c"\E/, 'a name twice');
};

# ---- webhooks that are called ----

# A certificate for localhost, 127.0.0.1 and a Service; returns what a configuration says of its CA.
sub certificate {
	my ($name) = @_;
	my $dir = test_dir();
	my $made = run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2
		-subj), "/CN=$name", '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:hook.default.svc',
		'-keyout', "$dir/$name-key.pem", '-out', "$dir/$name.pem"]);
	$made->{status} == 0 or die $made->{err};
	return encode_base64(slurp("$dir/$name.pem"), '');
}

my %bundle = map { ($_ => certificate($_)) } qw(hook other);
my $hook = start('webhook_peer', path => $python, args => ["$FindBin::Bin/lib/webhook_peer.py",
	'--cert', test_dir() . '/hook.pem', '--key', test_dir() . '/hook-key.pem']);
my $port = $hook->port('https');

sub client { my ($path) = @_; return {url => "https://127.0.0.1:$port$path", caBundle => $bundle{hook}} }
sub reviews { return map { json_decode($_) } split /\n/, $hook->out }
sub patch { my (@operations) = @_; return client('/patch/' . uri(json_encode(\@operations))) }
sub uri { return $_[0] =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger }

# Runs the code with these webhooks registered, one configuration each kind.
sub with {
	my ($code, %webhooks) = @_;
	for my $kind (sort keys %webhooks) {
		my $made = register($kind, 'with', @{$webhooks{$kind}});
		is($made->{status}, 201, "$kind: registered") or diag($made->{content});
	}
	my @before = reviews();
	my @result = $code->();
	my @after = reviews();
	api('DELETE', "$paths{$_}/with") for sort keys %webhooks;
	return {answer => $result[0], reviews => [@after[@before .. $#after]]};
}

my $n = 0;
sub pod { my (%meta) = @_; return {apiVersion => 'v1', kind => 'Pod', metadata => {name => 'pod-' . ++$n, %meta},
	spec => {containers => [{name => 'main', image => 'busybox'}]}} }
sub create { my ($pod, $query, %options) = @_; return api('POST', '/api/v1/namespaces/default/pods' . ($query // ''), json => $pod, %options) }

subtest 'what a webhook is asked' => sub {
	my $seen = with(sub { create(pod(annotations => {a => 'b'})) },
		mutating => [webhook('a.b.c', clientConfig => client('/allow'))],
		validating => [webhook('v.b.c', clientConfig => client('/allow'), timeoutSeconds => 7)]);
	is($seen->{answer}{status}, 201, 'made') or diag($seen->{answer}{content});
	my ($first, $second) = @{$seen->{reviews}};
	is_deeply([map { $_->{path} } @{$seen->{reviews}}], ['/allow?timeout=10s', '/allow?timeout=7s'],
		'mutating, then validating, each with its deadline');
	my $q = $first->{review}{request};
	is_deeply([@{$first->{review}}{qw(apiVersion kind)}], ['admission.k8s.io/v1', 'AdmissionReview'], 'type');
	is_deeply([$q->{kind}, $q->{resource}], [{group => '', version => 'v1', kind => 'Pod'},
		{group => '', version => 'v1', resource => 'pods'}], 'kind and resource');
	is_deeply([@$q{qw(name namespace operation oldObject)}], ["pod-$n", 'default', 'CREATE', undef], 'place');
	ok(!$q->{dryRun}, 'no dry run');
	is_deeply($q->{userInfo}, {username => 'admin', groups => ['system:masters', 'system:authenticated']}, 'who');
	is($q->{object}{spec}{restartPolicy}, 'Always', 'the object has its defaults');
	is($q->{object}{metadata}{uid}, undef, 'and no UID yet');
	like($second->{review}{request}{object}{metadata}{uid} // '', qr/^[0-9a-f-]{36}$/, 'which a validating one sees');
	isnt($q->{uid}, $second->{review}{request}{uid}, 'each review has an id of its own');
};

subtest 'who asks' => sub {
	my $seen = with(sub { create(pod(), '', headers => {'impersonate-user' => 'system:serviceaccount:default:bob',
			'impersonate-group' => 'devs'}) },
		mutating => [webhook('a.b.c', clientConfig => client('/allow'))]);
	is_deeply($seen->{reviews}[0]{review}{request}{userInfo}, {username => 'system:serviceaccount:default:bob',
		groups => ['devs', 'system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated']}, 'impersonated');
	my $bob = api('POST', '/api/v1/namespaces/default/serviceaccounts/default/token', json => {})->{json}{status}{token};
	$seen = with(sub { create(pod(), '', headers => {authorization => "Bearer $bob"}) },
		mutating => [webhook('a.b.c', clientConfig => client('/allow'))]);
	is($seen->{reviews}[0]{review}{request}{userInfo}{username}, 'system:serviceaccount:default:default', 'a token');
};

subtest 'mutating webhooks change what is made' => sub {
	my $seen = with(sub { create({%{pod()}, metadata => {generateName => 'made-'}}) },
		mutating => [webhook('a.b.c', clientConfig => patch({op => 'add', path => '/metadata/labels', value => {one => '1'}})),
			webhook('b.b.c', clientConfig => patch({op => 'add', path => '/metadata/labels/two', value => '2'},
				{op => 'remove', path => '/spec/dnsPolicy'})),
			webhook('c.b.c', clientConfig => patch())]);
	my $made = $seen->{answer}{json};
	is_deeply($made->{metadata}{labels}, {one => '1', two => '2'}, 'each sees what the ones before have made of it');
	is($made->{spec}{dnsPolicy}, 'ClusterFirst', 'what is removed gets its default again');
	my $q = $seen->{reviews}[0]{review}{request};
	ok(!exists $q->{name} && !exists $q->{object}{metadata}{name}, 'a name that will be generated is not known');
	like($made->{metadata}{name}, qr/^made-.{5}$/, 'then it is');
	$seen = with(sub { create(pod()) }, mutating => [webhook('a.b.c', failurePolicy => 'Ignore',
		clientConfig => patch({op => 'remove', path => '/metadata/labels/none'}))]);
	is($seen->{answer}{status}, 500, 'a patch that does not fit fails the write, in any case');
	$seen = with(sub { create(pod()) }, mutating => [webhook('a.b.c',
		clientConfig => patch({op => 'remove', path => '/spec/containers/0'}))]);
	is_deeply([$seen->{answer}{status}, $seen->{answer}{json}{details}{causes}[0]{field}], [422, 'spec.containers'],
		'what comes of it is checked');
};

subtest 'a refusal is passed on' => sub {
	my $seen = with(sub { create(pod()) }, validating => [webhook('no.b.c', clientConfig => client('/deny'))]);
	my $status = $seen->{answer}{json};
	is_deeply([$seen->{answer}{status}, @$status{qw(kind status reason code message)}], [422, qw(Status Failure Invalid 422),
		'admission webhook "no.b.c" denied the request: two things are wrong'], 'with its status');
	is_deeply([map { $_->{field} } @{$status->{details}{causes}}], ['spec.a', 'spec.b'], 'and causes');
	is(api('GET', "/api/v1/namespaces/default/pods/pod-$n")->{status}, 404, 'nothing was made');
	$seen = with(sub { create(pod()) }, mutating => [webhook('no.b.c', clientConfig => client('/bare')),
		webhook('later.b.c', clientConfig => client('/allow'))]);
	is_deeply([$seen->{answer}{status}, $seen->{answer}{json}{message}],
		[400, 'admission webhook "no.b.c" denied the request without explanation'], 'without a word');
	is(scalar @{$seen->{reviews}}, 1, 'those behind are not asked');
};

subtest 'warnings' => sub {
	my $seen = with(sub { create(pod()) }, validating => [webhook('w.b.c', clientConfig => client('/warn'))]);
	is_deeply($seen->{answer}{headers}{warning}, ['299 - "this is \\"unwise\\""', '299 - "so is this"'],
		'each once, quoted, and none that a header cannot carry');
	$seen = with(sub { create({%{pod()}, spec => {}}) }, mutating => [webhook('w.b.c', clientConfig => client('/warn'))]);
	is_deeply([$seen->{answer}{status}, scalar @{$seen->{answer}{headers}{warning}}], [422, 2], 'a refusal carries them too');
};

subtest 'v1beta1' => sub {
	my $seen = with(sub { create(pod()) }, mutating => [webhook('a.b.c', clientConfig => patch({op => 'add', path => '/metadata/labels',
			value => {beta => 'yes'}}), admissionReviewVersions => ['v9', 'v1beta1', 'v1'])]);
	is($seen->{reviews}[0]{review}{apiVersion}, 'admission.k8s.io/v1beta1', 'is spoken where it comes first');
	is($seen->{answer}{json}{metadata}{labels}{beta}, 'yes', 'and its answer taken');
};

subtest 'dry runs' => sub {
	my $seen = with(sub { create(pod(), '?dryRun=All') }, mutating => [webhook('a.b.c', clientConfig => client('/allow'))]);
	ok($seen->{reviews}[0]{review}{request}{dryRun}, 'a webhook is told');
	is_deeply($seen->{reviews}[0]{review}{request}{options}{dryRun}, ['All'], 'in the options too');
	is($seen->{answer}{status}, 201, 'answered as if it were made');
	is(api('GET', "/api/v1/namespaces/default/pods/pod-$n")->{status}, 404, 'and it is not');
	$seen = with(sub { create(pod(), '?dryRun=All') }, validating => [webhook('a.b.c', clientConfig => client('/deny'))]);
	is($seen->{answer}{status}, 422, 'refused like the real thing');
};

sub rule { my (%rule) = @_; return {apiGroups => [''], apiVersions => ['v1'], resources => ['pods'], operations => ['*'], %rule} }

subtest 'updates and deletions' => sub {
	create(pod());
	my $path = "/api/v1/namespaces/default/pods/pod-$n";
	my $seen = with(sub { api('PATCH', $path, headers => {'content-type' => 'application/merge-patch+json'},
			json => {metadata => {labels => {x => 'y'}}}) },
		mutating => [webhook('a.b.c', rules => [rule()], clientConfig => patch({op => 'add', path => '/metadata/labels/z', value => 'z'}))],
		validating => [webhook('v.b.c', rules => [rule()], clientConfig => client('/allow'))]);
	my ($first, $second) = map { $_->{review}{request} } @{$seen->{reviews}};
	is_deeply([$first->{operation}, $first->{oldObject}{metadata}{labels}, $first->{object}{metadata}{labels}],
		['UPDATE', undef, {x => 'y'}], 'an update carries both');
	is_deeply($second->{object}{metadata}{labels}, {x => 'y', z => 'z'}, 'and validating ones what will be');
	is_deeply($seen->{answer}{json}{metadata}{labels}, {x => 'y', z => 'z'}, 'as it is stored');
	$seen = with(sub { api('DELETE', $path) }, validating => [webhook('v.b.c', rules => [rule()], clientConfig => client('/deny'))]);
	is_deeply([$seen->{answer}{status}, $seen->{reviews}[0]{review}{request}{operation},
		$seen->{reviews}[0]{review}{request}{object}], [422, 'DELETE', undef], 'a deletion may be refused');
	is($seen->{reviews}[0]{review}{request}{oldObject}{metadata}{name}, "pod-$n", 'and carries what goes');
	is(api('GET', $path)->{status}, 200, 'it is still there');
	$seen = with(sub { api('DELETE', '/api/v1/namespaces/default/pods') },
		validating => [webhook('v.b.c', rules => [rule()], clientConfig => client('/allow'))]);
	is($seen->{answer}{status}, 501, 'deletions of collections are not ours');
};

subtest 'who is asked' => sub {
	my %ns = (matchExpressions => [{key => 'kubernetes.io/metadata.name', operator => 'NotIn', values => ['default']}]);
	my @rows = (
		['another resource', {rules => [rule(resources => ['services'])]}, 0],
		['a subresource', {rules => [rule(resources => ['pods/status'])]}, 0],
		['all subresources too', {rules => [rule(resources => ['pods/*'])]}, 1],
		['everything', {rules => [rule(apiGroups => ['*'], apiVersions => ['*'], resources => ['*/*'])]}, 1],
		['another group', {rules => [rule(apiGroups => ['apps'])]}, 0],
		['another version', {rules => [rule(apiVersions => ['v2'])]}, 0],
		['another operation', {rules => [rule(operations => ['UPDATE'])]}, 0],
		['the scope of clusters', {rules => [rule(scope => 'Cluster')]}, 0],
		['the scope of namespaces', {rules => [rule(scope => 'Namespaced')]}, 1],
		['another namespace', {namespaceSelector => {%ns}}, 0],
		['this namespace', {namespaceSelector => {matchLabels => {'kubernetes.io/metadata.name' => 'default'}}}, 1],
		['other labels', {objectSelector => {matchLabels => {app => 'b'}}}, 0],
		['these labels', {objectSelector => {matchExpressions => [{key => 'app', operator => 'Exists'}]}}, 1],
		(map { ["the condition $_->[0]", {matchConditions => [{name => 'c', expression => $_->[0]}]}, $_->[1]] }
			[q{'x/y' in object.metadata.annotations}, 1], [q{'x/z' in object.metadata.annotations}, 0],
			[q{has(object.metadata.annotations) && ("x/y" in object.metadata.annotations || 'q' in object.metadata.none)}, 1],
			[q{has(object.metadata.none) && 'a' in object.metadata.none}, 0],
			[q{!has(object.metadata.deletionTimestamp)}, 1], [q{request.operation == 'CREATE' && oldObject == null}, 1],
			[q{!(request.namespace in ['kube-system', 'default'])}, 0], [q{request.namespace != "kube-system"}, 1],
			[q{object.metadata.?annotations["x/y"].hasValue()}, 1], [q{object.metadata.?none[?'x'].hasValue()}, 0],
			[q{object.metadata.?annotations['x/y'].orValue('') == '1'}, 1], [q{'a' in object.metadata.?none.orValue({})}, 0],
			[q{object.metadata.labels['app'] == "a" && true}, 1]),
	);
	for my $row (@rows) {
		my ($name, $more, $asked) = @$row;
		my $seen = with(sub { create(pod(labels => {app => 'a'}, annotations => {'x/y' => '1'})) },
			validating => [webhook('m.b.c', clientConfig => client('/allow'), %$more)]);
		is_deeply([$seen->{answer}{status}, scalar @{$seen->{reviews}}], [201, $asked], $name) or diag($seen->{answer}{content});
	}
};

subtest 'conditions that cannot be told, and that nobody understands' => sub {
	for my $row (['Fail', 403], ['Ignore', 201]) {
		my $seen = with(sub { create(pod()) }, validating => [webhook('m.b.c', clientConfig => client('/allow'), failurePolicy => $row->[0],
			matchConditions => [{name => 'c', expression => "'a' in object.metadata.annotations"}])]);
		is_deeply([$seen->{answer}{status}, scalar @{$seen->{reviews}}], [$row->[1], 0], "$row->[0]: the webhook isn't asked");
		like($seen->{answer}{json}{message}, qr/is forbidden: expression .* no such key: annotations/, 'and why') if $row->[1] == 403;
	}
	for my $bad (q{object.metadata.name.startsWith('a')}, q{size(object.spec) > 1}, q{'a' in}, q{(true}, q{params == null}, q{has(object)}, q{}) {
		my $made = register('validating', 'bad', webhook('m.b.c', matchConditions => [{name => 'c', expression => $bad}]));
		is_deeply([$made->{status}, $made->{json}{details}{causes}[0]{field}], [422, 'webhooks[0].matchConditions[0].expression'],
			"refused: $bad");
	}
};

subtest 'webhooks that fail' => sub {
	my @rows = (
		['away', {clientConfig => {%{client('/')}, url => 'https://127.0.0.1:1/'}}, qr{failed to call webhook: Post "https://127.0.0.1:1/\?timeout=10s": .*refused}i],
		['a name that nobody has', {clientConfig => {%{client('/')}, url => 'https://nobody.invalid/'}}, qr/failed to call webhook: Post/],
		['slow', {clientConfig => client('/silent'), timeoutSeconds => 1}, qr/context deadline exceeded/],
		['garbage', {clientConfig => client('/garbage')}, qr/couldn't get version\/kind/],
		['cut', {clientConfig => client('/cut')}, qr/failed to call webhook: Post/],
		['a status', {clientConfig => client('/status/404')}, qr/the server responded with the status code 404/],
		["another review's answer", {clientConfig => client('/other-uid')}, qr/received invalid webhook response: expected response\.uid="/],
		['another kind', {clientConfig => client('/other-kind')}, qr/expected webhook response of admission\.k8s\.io\/v1, Kind=AdmissionReview/],
		['a validating patch', {clientConfig => client('/patch/[]')}, qr/validating webhook may not return response\.patch/],
		['another CA', {clientConfig => {%{client('/allow')}, caBundle => $bundle{other}}}, qr/failed to call webhook: Post/],
		["the system's CAs", {clientConfig => {url => "https://127.0.0.1:$port/allow"}}, qr/failed to call webhook: Post/],
		['a bundle of nothing', {clientConfig => {%{client('/allow')}, caBundle => encode_base64('nothing', '')}}, qr/unable to load root certificates/],
		['a Service that is not there', {clientConfig => {service => {name => 'none', namespace => 'default'}}}, qr/service "none" not found/],
	);
	for my $row (@rows) {
		my ($name, $more, $words) = @$row;
		my $seen = with(sub { create(pod()) }, validating => [webhook('f.b.c', %$more)]);
		my $status = $seen->{answer}{json};
		is_deeply([$seen->{answer}{status}, $status->{reason}], [500, 'InternalError'], "$name: fails the write");
		like($status->{message} // '', qr/^Internal error occurred: failed calling webhook "f\.b\.c": .*$words/, "$name: why");
		next if $name eq 'slow';
		$seen = with(sub { create(pod()) }, validating => [webhook('f.b.c', %$more, failurePolicy => 'Ignore')]);
		is($seen->{answer}{status}, 201, "$name: unless it may be ignored");
	}
	my $seen = with(sub { create(pod()) }, mutating => [webhook('f.b.c', clientConfig => client('/no-type'))]);
	like($seen->{answer}{json}{message}, qr/response\.patch but not response\.patchType/, 'a patch without its type');
};

# What client-go does for the API server: up to ten times more, within the webhook's time.
subtest 'webhooks that want to be asked again' => sub {
	my @rows = (
		['at once', '/again/503/3/0', 10, 201, 4],
		['in a second', '/again/503/1/1', 10, 201, 2],
		['it is too busy', '/again/429/1/0', 10, 201, 2],
		['ten times', '/again/500/10/0', 10, 201, 11],
		['once too often', '/again/503/11/0', 10, 500, 11, qr/status code 503/],
		['later than there is time', '/again/503/1/60', 1, 500, 1, qr/context deadline exceeded/],
		['a date', '/again/503/1/Sat, 21 Nov 2026 20:00:00 GMT' =~ tr/ /_/r, 10, 500, 1, qr/status code 503/],
		['another status', '/again/404/1/0', 10, 500, 1, qr/status code 404/],
	);
	for my $row (@rows) {
		my ($name, $path, $timeout, $status, $asked, $words) = @$row;
		for my $kind (qw(mutating validating)) {
			my $seen = with(sub { create(pod()) }, $kind => [webhook('a.b.c', clientConfig => client($path), timeoutSeconds => $timeout)]);
			my %uids = map { $_->{review}{request}{uid} => 1 } @{$seen->{reviews}};
			is_deeply([$seen->{answer}{status}, scalar @{$seen->{reviews}}, scalar keys %uids], [$status, $asked, 1], "$name: $kind")
				or diag($seen->{answer}{content});
			like($seen->{answer}{json}{message} // '', $words, '… and why not') if $words;
		}
	}
};

subtest 'by a Service' => sub {
	my $made = api('POST', '/api/v1/namespaces/default/services', json => {apiVersion => 'v1', kind => 'Service', metadata => {name => 'hook'},
		spec => {clusterIP => '127.0.0.1', ports => [{port => 443, targetPort => 0 + $port}]}});
	is($made->{status}, 201, 'a Service');
	my %client = (caBundle => $bundle{hook}, service => {name => 'hook', namespace => 'default', path => '/allow'});
	my $seen = with(sub { create(pod()) }, mutating => [webhook('s.b.c', clientConfig => \%client)]);
	is_deeply([$seen->{answer}{status}, scalar @{$seen->{reviews}}], [201, 1], 'called by the Service\'s name') or diag($seen->{answer}{content});
	$client{service} = {%{$client{service}}, port => 444};
	$seen = with(sub { create(pod()) }, mutating => [webhook('s.b.c', clientConfig => \%client)]);
	like($seen->{answer}{json}{message}, qr/no service port 444 found for service "hook"/, 'a port that it hasn\'t');
};

subtest 'writes meanwhile' => sub {
	create(pod());
	my $path = "/api/v1/namespaces/default/pods/pod-$n";
	my %w = (rules => [rule(operations => ['UPDATE'])], timeoutSeconds => 1, failurePolicy => 'Ignore');
	register('validating', 'slow', webhook('slow.b.c', %w, clientConfig => client('/silent'),
		objectSelector => {matchLabels => {slow => 'yes'}}));
	my $merge = {headers => {'content-type' => 'application/merge-patch+json'}};
	my $pid = fork() // die "fork: $!\n";
	if (!$pid) {
		my $answer = api('PATCH', $path, %$merge, json => {metadata => {labels => {slow => 'yes'}}});
		POSIX::_exit($answer->{status} == 200 ? 0 : 1);
	}
	wait_until('the slow review', sub { grep { ($_->{review}{request}{object}{metadata}{labels}{slow} // '') eq 'yes' } reviews() });
	is(api('PATCH', $path, headers => {'content-type' => 'application/merge-patch+json'},
		json => {metadata => {labels => {quick => 'yes'}}})->{status}, 200, 'others write while it waits');
	waitpid($pid, 0);
	is($?, 0, 'the slow one goes on');
	is_deeply(api('GET', $path)->{json}{metadata}{labels}, {slow => 'yes', quick => 'yes'}, 'and writes over nothing of theirs');
	api('DELETE', "$paths{validating}/slow");
};

# ---- what the API server itself looks at ----

sub merge { my ($path, $patch) = @_; return api('PATCH', $path, headers => {'content-type' => 'application/merge-patch+json'}, json => $patch) }

subtest 'scheduling gates' => sub {
	my $pod = pod();
	my $path = "/api/v1/namespaces/default/pods/pod-$n";
	$pod->{spec}{schedulingGates} = [{name => 'a/b'}, {name => 'c/d'}];
	is(create($pod)->{status}, 201, 'a Pod with two');
	is(merge($path, {spec => {nodeSelector => {pool => 'a'}}})->{status}, 200, 'a selector is added');
	like(merge($path, {spec => {nodeSelector => {pool => 'b'}}})->{json}{message}, qr/spec\.nodeSelector: .*only additions/, 'not changed');
	like(merge($path, {spec => {schedulingGates => [{name => 'e/f'}]}})->{json}{message}, qr/spec\.schedulingGates: .*only deletion/, 'no gate is new');
	is(merge($path, {spec => {nodeSelector => {disk => 'x'}, schedulingGates => [{name => 'c/d'}]}})->{status}, 200, 'one goes, a selector comes');
	is(merge($path, {spec => {schedulingGates => undef}})->{status}, 200, 'the last one goes');
	like(merge($path, {spec => {nodeSelector => {late => 'y'}}})->{json}{message}, qr/spec: Forbidden: pod updates may not change/, 'then no selector comes');
	like(merge($path, {spec => {hostNetwork => JSON::PP::true()}})->{json}{message}, qr/spec: Forbidden/, 'nor anything else');
	is(merge($path, {metadata => {labels => {a => 'b'}}, spec => {containers => [{name => 'main', image => 'new'}]}})->{status}, 200, 'but labels and images');
	$pod = pod();
	@{$pod->{spec}}{qw(schedulingGates nodeName)} = ([{name => 'a/b'}], 'sim0');
	like(create($pod)->{json}{message}, qr/spec\.nodeName: Forbidden/, 'bound and gated at once');
	$pod = pod();
	$pod->{spec}{schedulingGates} = [{name => 'a/b'}, {name => 'a/b'}];
	is(create($pod)->{status}, 422, 'the same gate twice');
};

subtest 'Pod Security' => sub {
	my $make = sub {
		my ($level, %spec) = @_;
		api('POST', '/api/v1/namespaces', json => {apiVersion => 'v1', kind => 'Namespace', metadata => {name => $level,
			labels => {'pod-security.kubernetes.io/enforce' => $level}}});
		my $pod = pod();
		$pod->{spec} = {%{$pod->{spec}}, %spec};
		return api('POST', "/api/v1/namespaces/$level/pods?dryRun=All", json => $pod);
	};
	my %main = (name => 'main', image => 'x');
	my ($yes, $no) = (JSON::PP::true(), JSON::PP::false());
	my %safe = (containers => [{%main, securityContext => {allowPrivilegeEscalation => $no, capabilities => {drop => ['ALL']}}}],
		securityContext => {runAsNonRoot => $yes, seccompProfile => {type => 'RuntimeDefault'}});
	is($make->('privileged', hostNetwork => $yes)->{status}, 201, 'privileged takes all');
	is($make->('baseline')->{status}, 201, 'baseline takes a plain Pod');
	is($make->('restricted', %safe)->{status}, 201, 'restricted takes a careful one');
	my $answer = $make->('baseline', hostNetwork => $yes, hostPID => $yes, volumes => [{name => 'v', hostPath => {path => '/'}}],
		containers => [{%main, securityContext => {privileged => $yes}}]);
	is_deeply([$answer->{status}, $answer->{json}{reason}, $answer->{json}{message}], [403, 'Forbidden', "pods \"pod-$n\" is forbidden: "
		. 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume "v"), '
		. 'privileged (container "main" must not set securityContext.privileged=true)'], 'baseline, in the API server\'s words');
	$answer = $make->('baseline', containers => [{%main, securityContext => {capabilities => {add => ['NET_BIND_SERVICE', 'IPC_LOCK']}}}]);
	is($answer->{json}{message}, "pods \"pod-$n\" is forbidden: " . 'violates PodSecurity "baseline:latest": non-default capabilities '
		. '(container "main" must not include "IPC_LOCK" in securityContext.capabilities.add)', 'capabilities too');
	$answer = $make->('restricted');
	like($answer->{json}{message}, qr/allowPrivilegeEscalation != false \(container "main" must .*unrestricted capabilities .*runAsNonRoot != true .*seccompProfile/,
		'restricted says all that it wants');
};

$hook->crash;
$sim->stop;
done_testing();
