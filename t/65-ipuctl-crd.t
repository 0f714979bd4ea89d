#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl crd: the CustomResourceDefinition that it prints, and what applying it does to one that isn't
# there, is the same, is another version's, or is changed by others meanwhile.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder]);
my $token = slurp("$folder/token");
my $all = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
my $name = 'ipujobs.graphcore.ai';

sub ctl {
	return run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", 'crd', @_],
		env => {HOME => test_dir(), IPUCTL_SERVER => undef, KUBECONFIG => undef}, seconds => 60);
}

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

sub fault { return http('POST', $sim->url('admin', '/sim/api/faults'), json => {resource => 'customresourcedefinitions', count => 1, @_})->{status} }

sub applies {
	my ($did, $what) = @_;
	my $result = ctl('apply');
	is($result->{out}, "customresourcedefinition/$name $did\n", "$what: $did") or diag($result->{err});
	return is("$result->{status} $result->{err}", '0 ', '... and all is well');
}

is(ctl('print')->{out}, slurp(top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml'), 'print: the very file');

is(api('GET', "$all/$name")->{status}, 404, 'there is none');
applies('created', 'where there is none');
my $crd = api('GET', "$all/$name")->{json};
is($crd->{spec}{names}{kind}, 'IPUJob', '... it is ours');
applies('unchanged', 'once more');
is(api('GET', "$all/$name")->{json}{metadata}{resourceVersion}, $crd->{metadata}{resourceVersion}, '... and nothing was written');

# What an older version had, and what helm and people have added.
my $rules = $crd->{spec}{versions}[0]{schema}{openAPIV3Schema};
my $older = json_decode(json_encode($crd));
$older->{spec}{versions}[0]{schema}{openAPIV3Schema}{properties}{spec} = {type => 'object'};
$older->{spec}{versions}[0]{schema}{openAPIV3Schema}{properties}{gone} = {type => 'object'};
$older->{metadata}{labels} = {'app.kubernetes.io/managed-by' => 'Helm'};
$older->{metadata}{annotations} = {'example.com/a' => 'b'};
is(api('PUT', "$all/$name", json => $older)->{status}, 200, 'an older one');
applies('configured', 'over an older one');
my $now = api('GET', "$all/$name")->{json};
is_deeply($now->{spec}{versions}[0]{schema}{openAPIV3Schema}, $rules, '... the schema is whole, without what is gone');
is($now->{metadata}{labels}{'app.kubernetes.io/managed-by'}, 'Helm', '... the labels of others stay');
is_deeply($now->{metadata}{annotations}, {'example.com/a' => 'b'}, '... and their annotations');
is($now->{metadata}{uid}, $crd->{metadata}{uid}, '... and the object, with all jobs');

subtest 'others and faults' => sub {
	is(fault(kind => 'status', status => 409, verb => 'update', count => 2), 204, 'two conflicts');
	applies('unchanged', 'behind them');
	fault(kind => 'status', status => 403, verb => 'update', message => 'no rights on definitions');
	my $result = ctl('apply');
	is($result->{status}, 1, 'no rights: status 1');
	like($result->{err}, qr/^ipuctl: CustomResourceDefinition \Q$name\E: no rights on definitions$/m, '... in the words of the API server');
	my $elsewhere = run([program('ipuctl'), '--kubeconfig', spit(test_dir() . '/nowhere', slurp("$folder/kubeconfig") =~ s/(server: )\S+/$1http:\/\/127.0.0.1:1/r), qw(crd apply)],
		env => {HOME => test_dir(), IPUCTL_SERVER => 'http://127.0.0.1:2', KUBECONFIG => undef}, seconds => 60);
	is($elsewhere->{status}, 3, 'no API server: status 3');
	like($elsewhere->{err}, qr/^ipuctl: CustomResourceDefinition .*127\.0\.0\.1:1\b.*\n\z/, "... and no word of the proxy, which wasn't asked");
	my $waits = $now->{status};
	$now->{status} = {conditions => [{type => 'NamesAccepted', status => 'False', message => 'taken by example.com'}]};
	is(api('PUT', "$all/$name/status", json => $now)->{status}, 200, 'names that are taken');
	$result = ctl('apply');
	is($result->{status}, 1, '... status 1');
	like($result->{err}, qr/doesn't take its names: taken by example.com/, '... says why');
	$now = api('GET', "$all/$name")->{json};
	$now->{status} = {};
	api('PUT', "$all/$name/status", json => $now);
	$result = ctl('apply', '--wait', 1);
	is($result->{status}, 1, 'one that is never served: status 1');
	like($result->{err}, qr/written, but the API server doesn't serve it after 1 s/, '... says so');
	my $slow = start('ipuctl', ports => 0, args => ['--kubeconfig', "$folder/kubeconfig", qw(crd apply --wait 60)]);
	$now = api('GET', "$all/$name")->{json};
	$now->{status} = $waits;
	api('PUT', "$all/$name/status", json => $now);
	wait_until('it ends', sub { !$slow->is_alive }, while_alive => []);
	$slow->stop(status => 0);
};

is(ctl()->{status}, 2, 'neither print nor apply');
like(ctl()->{err}, qr/^ipuctl: crd: /, '... says which');
is(ctl('remove')->{status}, 2, 'something else');
is(run([program('ipuctl'), qw(help crd apply)])->{status}, 0, 'help');
$sim->stop(status => 0);
done_testing();
