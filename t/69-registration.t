#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Who registers the webhooks, and by whom they are trusted: the CA bundle in the chart's objects and in the
# operator's own, through a year and an authority's renewal, on one clock for the daemon, the simulated API server
# and OpenSSL; certificate files as cert-manager lays them out; versions of TLS; readiness.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(300);
my $openssl = program_or_skip('openssl');
my $dir = test_dir();
my ($now_ms, $offset_ms) = (time() * 1000, 0);
my $page = "$dir/clock";

# core/clock.h: struct clock_page, which runs on from a later time.
sub later ($ms) {
	$offset_ms += $ms;
	my $text = pack('a8 q< q< q< q< q<3', "\0IPUCLK1", $offset_ms, 0, 0, 0, 0, 0, 0);
	return spit($page, $text) if !-e $page;
	open(my $out, '+<:raw', $page) or die "$page: $!\n";
	syswrite($out, $text) == length $text or die "$page: $!\n";
	return;
}
later(0);
my %clock = (env => { IPU_CLOCK_PAGE => $page });
my $day_ms = 86_400_000;

my $sim = start('ipu-sim', %clock, args => ['--dir', "$dir/sim"]);
my $admin = slurp("$dir/sim/token");
my %resource = (mutating => 'mutatingwebhookconfigurations', validating => 'validatingwebhookconfigurations');
my $ns = 'ipu-operator';
my $service = "ipu-operator-webhook-svc.$ns.svc";

sub api ($method, $path, $json = undef, %headers) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin", %headers },
		$json ? (json => $json) : ());
}

sub path_of ($kind) {
	return "/apis/admissionregistration.k8s.io/v1/$resource{$kind}/ipu-operator-$kind-webhook-configuration";
}

sub stored ($kind) {
	my $answer = api('GET', path_of($kind));
	return $answer->{status} == 200 ? $answer->{json} : undef;
}

sub writes () {
	my $requests = http('GET', $sim->url('admin', '/sim/state'))->{json}{api}{requests};
	my $n = 0;
	$n += $requests->{$_} // 0 for map { my $kind = $_; map { "$_ $resource{$kind}" } qw(create patch update) } keys %resource;
	return $n;
}

# What the chart installs, without a bundle.
sub install ($kind, @names) {
	my $answer = api('POST', path_of($kind) =~ s{/[^/]+$}{}r, {
		apiVersion => 'admissionregistration.k8s.io/v1', kind => ucfirst($kind) . 'WebhookConfiguration',
		metadata => { name => "ipu-operator-$kind-webhook-configuration" },
		webhooks => [ map { { name => $_, sideEffects => 'None', admissionReviewVersions => ['v1'], rules => [],
			clientConfig => { service => { name => 'ipu-operator-webhook-svc', namespace => $ns } } } } @names ] });
	return is($answer->{status}, 201, "$kind: installed") || diag($answer->{content});
}

sub operator (@args) {
	return start('ipu-operator', %clock, args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', 'webhook',
		'--set', "operatorNamespace=$ns", '--set', 'webhook.drainSeconds=0',
		(map { ('--set', "$_=127.0.0.1:0") } qw(webhook.listen health.listen metrics.listen)), @args]);
}

sub readiness ($daemon) { return http('GET', $daemon->url('health', '/readyz')) }
sub ready ($daemon) { return readiness($daemon)->{status} == 200 }

sub bundle ($kind, $n) {
	my $object = stored($kind) or return '';
	return decode_base64($object->{webhooks}[$n]{clientConfig}{caBundle} // '');
}

# OpenSSL connects as the API server does: it trusts the bundle alone, for this name, at this time. Returns its words.
sub connect_to ($daemon, $ca, %more) {
	spit("$dir/bundle.pem", $ca);
	my $done = run([ $openssl, 's_client', '-connect', '127.0.0.1:' . $daemon->port('webhook'), '-CAfile', "$dir/bundle.pem",
		'-no-CApath', '-no-CAstore', '-verify_return_error', '-verify_hostname', $more{name} // $service, '-servername',
		$more{name} // $service, '-attime', int(time() + $offset_ms / 1000 + ($more{skew_s} // 0)), @{ $more{args} // [] } ],
		seconds => 30, stdin => "\n");
	return { ok => $done->{status} == 0 && $done->{out} =~ /Verify return code: 0/, text => $done->{out} . $done->{err} };
}

sub trusts ($daemon, $kind, $n, $what) {
	my $got = connect_to($daemon, bundle($kind, $n));
	return ok($got->{ok}, $what) || diag($got->{text});
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns } });

subtest 'the chart\'s objects, and readiness' => sub {
	install('mutating', qw(mipujob.graphcore.ai mpod.graphcore.ai other.example.org));
	install('validating', 'vipujob.graphcore.ai');
	is(http('POST', $sim->url('admin', '/sim/api/faults'), json => { kind => 'status', status => 403, count => 0, verb => 'patch',
		resource => $resource{validating} })->{status}, 204, 'one of them may not be written');
	my $daemon = operator();
	wait_until('the other is', sub { bundle('mutating', 1) });
	is(bundle('mutating', 0), bundle('mutating', 1), 'in each entry of ours');
	is(bundle('mutating', 2), '', 'and in no other');
	wait_until('it says why it isn\'t ready', sub {
		readiness($daemon)->{content} =~ /webhook: ValidatingWebhookConfiguration .* can't be written/
	});
	is(readiness($daemon)->{status}, 503, 'not ready');
	is(http('DELETE', $sim->url('admin', '/sim/api/faults'))->{status}, 204, 'now it may');
	later(60_000);
	wait_until('ready', sub { ready($daemon) });
	trusts($daemon, 'validating', 0, 'and trusted');

	my $before = writes();
	my $edit = api('PATCH', path_of('mutating'), [ { op => 'replace', path => '/webhooks/0/failurePolicy', value => 'Ignore' } ],
		'content-type' => 'application/json-patch+json');
	is($edit->{status}, 200, 'a person edits another field');
	is(api('PATCH', path_of('mutating'), [ { op => 'add', path => '/webhooks/1/clientConfig/caBundle', value => 'eA==' } ],
		'content-type' => 'application/json-patch+json')->{status}, 200, 'and spoils a bundle');
	wait_until('that is mended', sub { bundle('mutating', 1) eq bundle('mutating', 0) });
	is(stored('mutating')->{webhooks}[0]{failurePolicy}, 'Ignore', 'the edit stays');
	is(writes() - $before, 3, 'two writes were the person\'s');
	$daemon->stop;
};

subtest 'TLS 1.2 and 1.3, and nothing older' => sub {
	my $daemon = operator();
	wait_until('ready', sub { ready($daemon) });
	my $ca = bundle('validating', 0);
	for my $row ([ 'tls1_2', 'TLSv1.2' ], [ 'tls1_3', 'TLSv1.3' ]) {
		my $got = connect_to($daemon, $ca, args => ["-$row->[0]"]);
		ok($got->{ok}, $row->[1]) or diag($got->{text});
		like($got->{text}, qr/^\s*(?:Protocol\s*: |New, )\Q$row->[1]\E/m, 'that very version');
	}
	for my $old (qw(tls1 tls1_1)) {
		my $got = connect_to($daemon, $ca, args => [ "-$old", '-cipher', 'ALL:@SECLEVEL=0' ]);
		like($got->{text}, qr/alert protocol version/, "$old: the server refuses");
	}
	for my $name ("$service.cluster.local", "ipu-operator-webhook-svc.$ns", 'localhost') {
		ok(connect_to($daemon, $ca, name => $name)->{ok}, "the certificate is for $name");
	}
	ok(connect_to($daemon, $ca, skew_s => -3300)->{ok}, 'a client whose clock is almost an hour behind');
	ok(!connect_to($daemon, $ca, name => 'example.org')->{ok}, 'and not for another name');
	$daemon->stop;
};

# Every ten days somebody looks, at the hour of renewal too; what is trusted is what the registration holds then.
sub through ($days, @daemons) {
	my $bad = 0;
	for (my $day = 0; $day < $days; $day += 10) {
		later(10 * $day_ms);
		for my $daemon (@daemons) {
			wait_until('ready after ten days', sub { ready($daemon) });
			wait_until('trusted after ten days', sub {
				my $got = connect_to($daemon, bundle('validating', 0));
				return 1 if $got->{ok};
				# What was served ran out in the jump, and the next is on its way.
				$got->{text} =~ /has expired/ or $bad++;
				return;
			});
		}
	}
	return is($bad, 0, 'trusted all the time');
}

subtest 'a year, with two replicas' => sub {
	my @daemons = (operator(), operator());
	for my $daemon (@daemons) { wait_until('ready', sub { ready($daemon) }) }
	my ($before, $leaf) = (writes(), api('GET', "/api/v1/namespaces/$ns/secrets/ipu-operator-certificates")->{json}{data}{'tls.crt'});
	through(365, @daemons);
	isnt(api('GET', "/api/v1/namespaces/$ns/secrets/ipu-operator-certificates")->{json}{data}{'tls.crt'}, $leaf,
		'the certificate is another one by now');
	is(writes(), $before, 'the authority is the same, and nothing was written');
	$_->stop for @daemons;
};

subtest 'a new authority' => sub {
	my $daemon = operator();
	wait_until('ready', sub { ready($daemon) });
	my $old = bundle('validating', 0);
	later(2040 * $day_ms);
	for (1 .. 20) {
		last if bundle('validating', 0) ne $old;
		through(10, $daemon);
	}
	my $both = bundle('validating', 0);
	isnt($both, $old, 'there is another bundle');
	ok(index($both, $old) > 0, 'that of the new authority and the old one');
	ok(connect_to($daemon, $old)->{ok}, 'who knows only the old one is served');
	ok(connect_to($daemon, substr($both, 0, index($both, $old)))->{ok}, 'and who knows only the new one');
	through(110, $daemon);
	later(60_000);
	wait_until('in the end the old one goes', sub { index(bundle('validating', 0), $old) < 0 });
	ok(index($both, bundle('validating', 0)) == 0, 'and the new one stays');
	trusts($daemon, 'mutating', 0, 'it is trusted');
	$daemon->stop;
};

# ---- files ----

# An authority and a certificate by it, as in a Secret of cert-manager's, mounted by a kubelet: data behind a
# link that is moved in one step.
sub issue ($n) {
	my $folder = "$dir/mount/..$n";
	mkdir "$dir/mount" if !-d "$dir/mount";
	mkdir $folder or die "$folder: $!\n";
	my $must = sub (@argv) {
		my $done = run([ $openssl, @argv ], seconds => 30);
		$done->{status} == 0 or die "@argv: $done->{err}\n";
	};
	my @ec = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);
	$must->('req', '-x509', @ec, '-days', 20_000, '-subj', "/CN=authority $n", '-keyout', "$dir/ca-$n.key", '-out', "$folder/ca.crt");
	$must->('req', @ec, '-subj', '/CN=webhook', '-addext', "subjectAltName=DNS:$service", '-keyout', "$folder/tls.key", '-out', "$dir/$n.csr");
	$must->('x509', '-req', '-in', "$dir/$n.csr", '-CA', "$folder/ca.crt", '-CAkey', "$dir/ca-$n.key", '-CAcreateserial', '-days', 20_000,
		'-copy_extensions', 'copy', '-out', "$folder/tls.crt");
	return;
}

sub mount_secret ($n) {
	symlink("..$n", "$dir/mount/..data.new") && rename("$dir/mount/..data.new", "$dir/mount/..data") or die "link: $!\n";
	for my $file (qw(ca.crt tls.crt tls.key)) {
		symlink("..data/$file", "$dir/mount/$file") if !-l "$dir/mount/$file";
	}
	return;
}

subtest 'certificate files' => sub {
	issue($_) for 1, 2;
	mount_secret(1);
	my @files = map { ('--set', "webhook.$_->[0]=$dir/mount/$_->[1]") } [qw(certFile tls.crt)], [qw(keyFile tls.key)];
	my $daemon = operator(@files, '--set', "webhook.caFile=$dir/mount/ca.crt");
	wait_until('ready', sub { ready($daemon) });
	is(bundle('validating', 0), slurp("$dir/mount/..1/ca.crt"), 'the file\'s authority is written');
	trusts($daemon, 'mutating', 1, 'and trusted');
	mount_secret(2);
	later(61_000);
	wait_until('the next ones are taken', sub { bundle('validating', 0) eq slurp("$dir/mount/..2/ca.crt") });
	wait_until('in both', sub { bundle('mutating', 0) eq slurp("$dir/mount/..2/ca.crt") });
	trusts($daemon, 'mutating', 1, 'and trusted');
	unlink "$dir/mount/tls.key";
	symlink('..1/tls.key', "$dir/mount/tls.key") or die "link: $!\n";
	later(61_000);
	wait_until('a key of another certificate is seen', sub {
		later(5000);
		$daemon->err =~ /can't be read again, the present one stays/;
	});
	trusts($daemon, 'mutating', 1, 'what was there is served');
	ok(ready($daemon), 'and ready');
	unlink "$dir/mount/tls.key";
	symlink('..data/tls.key', "$dir/mount/tls.key") or die "link: $!\n";
	$daemon->stop;

	my $before = writes();
	is(api('PATCH', path_of('validating'), [ { op => 'add', path => '/webhooks/0/clientConfig/caBundle', value => 'eA==' } ],
		'content-type' => 'application/json-patch+json')->{status}, 200, 'the administrator\'s bundle');
	$daemon = operator(@files);
	wait_until('ready', sub { ready($daemon) });
	later(600_000);
	ok(ready($daemon), 'ready');
	is(bundle('validating', 0), 'x', 'is left alone');
	is(writes() - $before, 1, 'nothing is written');
	$daemon->stop;
};

# ---- outside the cluster ----

subtest 'with a URL the objects are made' => sub {
	for my $kind (sort keys %resource) {
		is(api('DELETE', path_of($kind))->{status}, 200, "$kind: the chart's goes");
	}
	# The port that a first process got is the second one's.
	my $probe = operator('--set', 'webhook.url=https://localhost:1/');
	my $port = $probe->port('webhook');
	$probe->stop;
	my $daemon = operator('--set', "webhook.listen=127.0.0.1:$port", '--set', "webhook.url=https://localhost:$port",
		'--set', 'webhook.scope=default,team-a', '--set', 'webhook.timeoutSeconds=7');
	wait_until('ready', sub { ready($daemon) });
	my %names = (mutating => [qw(mipujob.graphcore.ai mpod.graphcore.ai)], validating => ['vipujob.graphcore.ai']);
	for my $kind (sort keys %names) {
		is_deeply([ map { $_->{name} } @{ stored($kind)->{webhooks} } ], $names{$kind}, "$kind: its entries");
		is_deeply([ map { [ @$_{qw(failurePolicy timeoutSeconds sideEffects)} ] } @{ stored($kind)->{webhooks} } ],
			[ map { [ 'Fail', 7, 'None' ] } @{ $names{$kind} } ], "$kind: as configured");
	}
	my $job = sub ($name, $spec, $in = 'default') {
		return api('POST', "/apis/graphcore.ai/v1alpha1/namespaces/$in/ipujobs", { apiVersion => 'graphcore.ai/v1alpha1',
			kind => 'IPUJob', metadata => { name => $name, finalizers => ['example.org/x'] }, spec => { %$spec,
			workers => { template => { spec => { containers => [ { name => 'w', image => 'x' } ] } } } } });
	};
	my $good = $job->('good', { jobInstances => 1, ipusPerJobInstance => '4' });
	is($good->{status}, 201, 'an IPUJob passes') or diag($good->{content});
	my $before = writes();
	is(api('PATCH', path_of('mutating'), [ { op => 'remove', path => '/webhooks/1' } ],
		'content-type' => 'application/json-patch+json')->{status}, 200, 'a person takes an entry away');
	wait_until('it comes back', sub { @{ stored('mutating')->{webhooks} } == 2 });
	is(writes() - $before, 2, 'by one write');

	$daemon->stop;
	my $down = $job->('down', { jobInstances => 1, ipusPerJobInstance => '4' });
	is($down->{status}, 500, 'with the operator down an IPUJob is refused');
	like($down->{json}{message}, qr/failed calling webhook "mipujob\.graphcore\.ai"/, 'and it is said why');
	my $pod = sub ($name, $in, %meta) {
		return api('POST', "/api/v1/namespaces/$in/pods", { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, %meta },
			spec => { containers => [ { name => 'c', image => 'x' } ] } })->{status};
	};
	my %asks = (annotations => { 'graphcore.ai/ipus' => '2' });
	is($pod->('plain', 'default'), 201, 'a Pod without the annotation comes up');
	is($pod->('other', 'default', annotations => { a => 'b' }, labels => { c => 'd' }), 201, 'also with others');
	is($pod->('asks', 'default', %asks), 500, 'one that asks for IPUs waits');
	is($pod->('copy', 'default', labels => { 'graphcore.ai/pod' => 'x' }), 500, 'so does a copy of one');
	is($pod->('system', 'kube-system', %asks), 201, 'not in kube-system');
	is($pod->('own', $ns, %asks), 201, 'nor in the operator\'s namespace');
	my $path = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs/good';
	is(api('DELETE', $path)->{status}, 200, 'a job can be deleted');
	is(api('PATCH', $path, { metadata => { finalizers => undef } }, 'content-type' => 'application/merge-patch+json')->{status}, 200,
		'and let go');
	is(api('GET', $path)->{status}, 404, 'it is gone');
};

$sim->stop;
done_testing();
