#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The list of controllers as a program sees it: a file that is mounted and swapped, one that isn't
# there, secure controllers with their Secrets, and ipuctl's cordon. The ConfigMap's life beside jobs
# is t/scenarios/list.pl.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MIME::Base64 qw(encode_base64);
use Test::More;

watchdog(180);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--controllers=3', '--agents=1', '--create-ms=50',
	'--remove-ms=50', '--pod-schedule-ms=10', '--pod-start-ms=20', '--pod-run-ms=0', '--pod-term-ms=20',
	'--vipu-secure', '2:{"userId":"me","accessKey":"first-key","clientCert":true}']);
my @vipu = map { '127.0.0.1:' . $sim->port("vipu$_") } 0 .. 2;
my $token = slurp("$folder/token");
my $core = '/api/v1/namespaces/ipu-operator';
my $map = "$core/configmaps/ipu-operator-vipu-controllers";

sub operator {
	my ($name, @sets) = @_;
	return start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", map { ('--set', $_) }
		'operatorNamespace=ipu-operator', map({ "$_=127.0.0.1:0" }
			qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
		'vipu.waitingRefreshSeconds=1', 'vipu.callTimeoutSeconds=2', @sets]);
}

sub api {
	my ($method, $path, $json, $type) = @_;
	return http($method, $sim->url('api-plain', $path), defined $json ? (json => $json) : (),
		headers => {authorization => "Bearer $token", $type ? ('content-type' => $type) : ()});
}

sub patch { my ($path, $patch) = @_; return api('PATCH', $path, $patch, 'application/merge-patch+json') }

sub admin { my ($method, $path, $json) = @_;
	return http($method, $sim->url('admin', $path), defined $json ? (json => $json) : ()) }

sub metric {
	my ($daemon, $name) = @_;
	return http('GET', $daemon->url(metrics => '/metrics'))->{content} =~ /^\Q$name\E (\S+)$/m ? $1 : undef;
}

sub up { my ($daemon, $n) = @_; return metric($daemon, "ipu_operator_controller_up{controller=\"$vipu[$n]\"}") // -1 }

sub wait_up {
	my ($daemon, $n, $want, $what) = @_;
	wait_until("$what: controller $n", sub { up($daemon, $n) == $want });
	return pass($what);
}

sub wait_event {
	my ($reason, $pattern) = @_;
	return wait_until("an Event $reason", sub {
		my ($event) = grep { $_->{reason} eq $reason && $_->{message} =~ $pattern }
			@{api('GET', "$core/events")->{json}{items}};
		return $event;
	});
}

sub job {
	my ($name, $ipus) = @_;
	return {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => $name},
		spec => {jobInstances => 1, ipusPerJobInstance => "$ipus", workers => {template => {spec => {
			containers => [{name => 'main', image => 'i'}]}}}}};
}

my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';

sub wait_job {
	my ($name, $status) = @_;
	return wait_until("job $name to be $status", sub {
		(api('GET', "$jobs/$name")->{json}{status}{launcherStatus} // '') eq $status;
	});
}

subtest 'a file, mounted and swapped' => sub {
	my $mount = test_dir() . '/mount';
	my $n = 0;
	my $swap = sub {
		my ($text) = @_;
		my $old = readlink "$mount/..data";
		my $new = '..' . ++$n;
		mkdir "$mount/$new" or die $!;
		spit("$mount/$new/controllers.yaml", $text);
		symlink $new, "$mount/..data_tmp" or die $!;
		rename "$mount/..data_tmp", "$mount/..data" or die $!;
		unlink "$mount/$old/controllers.yaml" and rmdir "$mount/$old" if defined $old;
	};
	my $daemon = operator('file', "controllersFile=$mount/controllers.yaml");
	my $ready = sub { http('GET', $daemon->url('health', '/readyz')) };
	wait_until('the tracker to be read', sub { $ready->()->{content} =~ /controllersFile/ });
	like(json_decode($ready->()->{content})->{detail}, qr/^proxy: controllersFile: .*there is no such file/,
		'a file that is not there: not ready, and why');
	is($ready->()->{status}, 503, '... with the status for that');
	is(http('GET', $daemon->url('health', '/healthz'))->{status}, 200, '... but it lives');
	mkdir $mount or die $!;
	symlink '..data/controllers.yaml', "$mount/controllers.yaml" or die $!;
	$swap->("- $vipu[0]\n");
	wait_up($daemon, 0, 1, 'the folder is mounted');
	wait_until('it to be ready', sub { $ready->()->{status} == 200 });
	is(up($daemon, 1), -1, 'the other is not known');
	$swap->("- $vipu[0]\n- $vipu[1]\n- host:port\n");
	wait_up($daemon, 1, 1, 'the file is swapped');
	is(metric($daemon, 'ipu_operator_controllers_bad{source="file"}'), 1, '... a bad entry is counted');
	$swap->("controllers: '$vipu[1]'\n");
	wait_until('one to be gone', sub {
		http('POST', $daemon->url('proxy', '/query'), json => {size => 1})->{json}{numOfPartitions} == 4;
	});
	pass('... again');
	like($daemon->err, qr/"host:port": port "port" isn't a number/, 'the log names the bad entry');
	$daemon->stop(status => 0);
};

# What the simulated controller asks for, as a Secret.
sub secret {
	my (%more) = @_;
	my %want = (%{admin('GET', '/sim/vipu/2/secure')->{json}}, %more);
	my %key = (userId => 'userId', accessKey => 'accessKey', 'ca.crt' => 'ca', 'tls.crt' => 'cert', 'tls.key' => 'key');
	return {apiVersion => 'v1', kind => 'Secret', metadata => {name => 'vipu'},
		data => {map { $_ => encode_base64($want{$key{$_}}, '') } keys %key}};
}

subtest 'a secure controller' => sub {
	is(api('POST', "$core/configmaps", {apiVersion => 'v1', kind => 'ConfigMap', metadata => {
		name => 'ipu-operator-vipu-controllers'}, data => {'controllers.yaml' => json_encode([
		{address => $vipu[2], secretName => 'vipu'}])}})->{status}, 201, 'the ConfigMap is made');
	my $daemon = operator('secure');
	wait_event(BadSecret => qr{^Secret ipu-operator/vipu isn't there: \Q$vipu[2]\E isn't called$});
	is(up($daemon, 2), 0, 'without its Secret it is not reachable');
	is(api('POST', $jobs, job('secure', 4))->{status}, 201, 'a job for it');
	wait_until('the job to be told why', sub {
		grep { $_->{reason} eq 'ControllerUnreachable' && $_->{message} =~ /Secret ipu-operator\/vipu isn't there/ }
			@{api('GET', '/api/v1/namespaces/default/events')->{json}{items}};
	});
	is_deeply([grep { $_ } values %{admin('GET', '/sim/state')->{json}{vipu}[2]{calls}}], [],
		'... and was never called');
	is(api('POST', "$core/secrets", secret())->{status}, 201, 'the Secret is made');
	wait_job('secure', 'Running');
	pass('the job runs');
	my %env = map { $_->{name} => $_->{value} } @{api('GET', '/api/v1/namespaces/default/pods/secure-worker-0')
		->{json}{spec}{containers}[0]{env}};
	ok($env{IPUOF_CONFIG_PATH}, 'its Pod has the IPUoF configuration as a file');
	is_deeply([grep { /VIPU_API/ } keys %env], [], '... and no word of the controller');

	is(admin('POST', '/sim/vipu/2/secure', {accessKey => 'second-key'})->{status}, 204, 'the key is rotated there');
	is(patch("$core/secrets/vipu", {data => secret()->{data}})->{status}, 200, '... and here');
	is(admin('POST', '/sim/vipu/2/secure', {newCertificate => JSON::PP::true()})->{status}, 204, 'another CA there');
	is(patch("$core/secrets/vipu", {data => secret()->{data}})->{status}, 200, '... and here');
	is(api('DELETE', "$jobs/secure", {})->{status}, 200, 'the job is deleted');
	wait_until('its partition to go', sub { !@{admin('GET', '/sim/state')->{json}{vipu}[2]{partitions}} });
	pass('... and its partition goes, with the new key and CA');
	patch("$core/secrets/vipu", {data => {'tls.key' => undef}});
	wait_event(BadSecret => qr/it has tls\.crt and no tls\.key: its former version goes on to serve/);
	is(up($daemon, 2), 1, 'a Secret that is half written: the former one serves');
	unlike($daemon->err, qr/(?:first|second)-key|BEGIN/, 'the log has no key');
	$daemon->stop(status => 0);
};

subtest 'ipuctl cordons' => sub {
	patch($map, {data => {'controllers.yaml' => "$vipu[0],$vipu[1]"}});
	my $daemon = operator('cordon');
	wait_up($daemon, $_, 1, 'it answers') for 0, 1;
	my $ipuctl = sub {
		my $result = run([program('ipuctl'), '--kubeconfig', "$folder/kubeconfig", '--server', $daemon->url('proxy', ''),
			@_]);
		is($result->{status}, 0, "ipuctl @_") or diag($result->{err});
	};
	$ipuctl->('controllers', 'cordon', $vipu[0]);
	wait_until('/query to leave it out', sub {
		http('POST', $daemon->url('proxy', '/query'), json => {size => 4})->{json}{numOfPartitions} == 1;
	});
	is(api('POST', $jobs, job('elsewhere', 4))->{status}, 201, 'a job');
	wait_job('elsewhere', 'Running');
	is(scalar @{admin('GET', '/sim/state')->{json}{vipu}[$_]{partitions}}, $_, "controller $_ has $_") for 0, 1;
	$ipuctl->('controllers', 'uncordon', $vipu[0]);
	wait_until('/query to count it again', sub {
		http('POST', $daemon->url('proxy', '/query'), json => {size => 4})->{json}{numOfPartitions} == 1;
	});
	is(api('POST', $jobs, job('here', 4))->{status}, 201, 'another job');
	wait_job('here', 'Running');
	is(scalar @{admin('GET', '/sim/state')->{json}{vipu}[0]{partitions}}, 1, '... goes there');
	api('DELETE', "$jobs/$_", {}) for qw(elsewhere here);
	wait_until('all to go', sub { !map { @{$_->{partitions}} } @{admin('GET', '/sim/state')->{json}{vipu}} });
	$daemon->stop(status => 0);
};

$sim->stop(status => 0);
done_testing();
