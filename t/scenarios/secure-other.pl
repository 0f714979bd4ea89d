# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A secure V-IPU controller written by somebody else (t/lib/vipu_other.py, by reference gRPC): TLS with a
# client certificate, metadata of its own names, GCDs in an order of its own, and answers that get lost.

use v5.36;
use IpuTest qw(json_decode json_encode run slurp test_dir);
use IpuTree qw(top_srcdir);
use MIME::Base64 qw(encode_base64);
use Test::More;

my $python = '/usr/bin/python3';
my $list = 'secure-other-controllers';
my $key = 'other-key-' . int(rand 1e9);

# A certificate signed by itself, for a name and an address.
sub certificate ($name, $address) {
	my @files = map { test_dir() . "/$name.$_" } qw(pem key);
	my $done = run([ 'openssl', qw(req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1),
		'-subj', "/CN=$name", '-addext', "subjectAltName=DNS:$name,IP:$address", '-out', $files[0],
		'-keyout', $files[1] ]);
	die "openssl: $done->{err}" if $done->{status};
	return @files;
}

sub ($s) {
	plan skip_all => 'no grpcio for Python, or no openssl, on this machine (./setup --tests)'
		if !-x $python || system("$python -c 'import grpc' 2>/dev/null; openssl version >/dev/null 2>&1") != 0;
	my $file = test_dir() . '/secure-other.json';
	my $address = $s->back->address;
	my ($ca, $ca_key) = certificate('vipu', $address);
	my ($client, $client_key) = certificate('client', $address);
	my $seed = $ENV{IPU_SEED} // int(rand 1_000_000);
	diag("IPU_SEED=$seed");
	$s->start_controllers;
	my $other = $s->back->launch('secure-other', path => $python, args => [
		top_srcdir() . '/t/lib/vipu_other.py', '--listen', $address, '--state', $file, '--machines', 4,
		'--seed', $seed, '--cert', $ca, '--key', $ca_key, '--client-ca', $client,
		'--metadata', 'vipu-user=operator', '--metadata', "vipu-key=$key" ]);
	push @{ $s->{programs} }, $other;
	$s->{controllers} = [ "$address:" . $other->port('vipu') ];
	my %secret = (userId => 'operator', accessKey => $key, 'ca.crt' => slurp($ca), 'tls.crt' => slurp($client),
		'tls.key' => slurp($client_key));
	$s->create('secrets', { apiVersion => 'v1', kind => 'Secret', metadata => { name => 'other' },
		data => { map { $_ => encode_base64($secret{$_}, '') } keys %secret } }, 'ipu-operator');
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => $list },
		data => { 'controllers.yaml' => json_encode([ { address => ($s->controllers)[0], secretName => 'other' } ]) } },
		'ipu-operator');
	$s->start_operator(set => [ 'controllers=', "controllersConfigMap=$list", 'vipu.userKey=vipu-user',
		'vipu.accessKey=vipu-key' ]);
	$s->wait_ready;
	$s->wait_for('its IPUs to be counted', sub { $s->stats->{total}{available} == 16 });

	my @names = map { "job-$_" } 1 .. 4;
	$s->create_job($_, ipus => 4, runs => 0.3) for @names;
	$s->create_job('wide', ipus => 8, spec => { workersPerJobInstance => '2' });
	$s->wait_job($_, 'Completed', seconds => 60) for @names;
	$s->wait_job('wide', 'Running', seconds => 60);
	my $data = $s->get('configmaps', 'wide-ipuof-0')->{data};
	is_deeply([ sort keys %$data ], [ 'ipuof-0.conf', 'ipuof-1.conf' ], 'two workers: a file for each GCD');
	my @ipus;
	for my $gcd (0, 1) {
		my $config = json_decode($data->{"ipuof-$gcd.conf"});
		is($config->{attributes}{'GCD Id'}, $gcd, "… GCD $gcd in its own, in whatever order they came");
		push @ipus, map { $_->{chip_id} } @{ $config->{devices} };
		my $pod = $s->get('pods', "wide-worker-$gcd");
		my ($volume) = grep { $_->{name} eq 'ipuof-config' } @{ $pod->{spec}{volumes} };
		is($volume->{configMap}{items}[0]{key}, "ipuof-$gcd.conf", "… worker $gcd has it");
	}
	my %once = map { $_ => 1 } @ipus;
	is(scalar keys %once, 8, '… and each IPU is in one of them');
	my $words = join "\n", map { json_encode([ $s->list($_) ]) } qw(ipujobs pods configmaps events);
	ok(index($words . ($s->operator->err // ''), $key) < 0, 'the key is nowhere to be read');
	$s->delete_job('wide');
	$s->wait_job_gone('wide', seconds => 40);
	my $end = json_decode(slurp($file));
	is_deeply($end->{partitions}, [], 'all partitions are gone from it');
	is($end->{denied}, 0, '… it turned nobody away');
	cmp_ok($end->{configs}, '>=', 5, '… and gave its configuration for each partition');
	note(json_encode($end));
	$s->{controllers} = [];
};
