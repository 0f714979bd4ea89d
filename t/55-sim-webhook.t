#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipu-sim and admission webhooks: their configurations, and how it calls them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

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

$sim->stop;
done_testing();
