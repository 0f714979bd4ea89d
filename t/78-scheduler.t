#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The daemon beside a simulated cluster of 1,000 Nodes: what they show of two V-IPU controllers, and the scheduler's extender on
# its TLS port: what it answers, before and after a partition, whom it tells that it can't, how long that takes, and who may ask, where
# certificates are asked for. With the real scheduler: t/cluster/52-advertise.t.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MetricNames qw(covers_metrics);
use IPC::Open2 qw(open2);
use IO::Handle;
use Test::More;

watchdog(240);
my $curl = program_or_skip('curl');
my $openssl = program_or_skip('openssl');
my $dir = test_dir();
my $n_nodes = 1000;

my $made = run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext),
	'subjectAltName=DNS:localhost', '-keyout', "$dir/key.pem", '-out', "$dir/cert.pem"], name => 'openssl');
is($made->{status}, 0, 'a certificate') or diag($made->{err});

my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--controllers=2', '--agents=4', '--create-ms=10', '--reset-ms=10', '--remove-ms=10',
	'--nodes=0']);
my @entry = map { '127.0.0.1:' . $sim->port("vipu$_") . ':ipunode=' . qw(a b)[$_] } 0, 1;
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, %option) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin", %{ delete $option{headers} // {} } }, %option);
}
api('POST', '/api/v1/namespaces', json => { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'ipu-operator' } });
for my $i (0 .. $n_nodes - 1) {
	my %labels = ('kubernetes.io/hostname' => "sim$i", $i < $n_nodes - 1 ? (ipunode => $i < 500 ? 'a' : 'b') : ());
	my $answer = api('POST', '/api/v1/nodes', json => { apiVersion => 'v1', kind => 'Node', metadata => { name => "sim$i", labels => \%labels } });
	die "sim$i: $answer->{status} $answer->{content}\n" if !$answer->{success};
}

my %set = (operatorNamespace => 'ipu-operator', 'proxy.tlsCertFile' => "$dir/cert.pem", 'proxy.tlsKeyFile' => "$dir/key.pem",
	(map { ($_ => '127.0.0.1:0') } qw(proxy.listen proxy.tlsListen health.listen metrics.listen scheduler.listen)),
	'advertise.ipus' => 'share', 'vipu.idleRefreshSeconds' => 1, controllersFile => spit("$dir/controllers.yaml", join(',', @entry)));
my $daemon = start('ipu-operator', args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', 'proxy', map { ('--set', "$_=$set{$_}") } sort keys %set]);
wait_until('the daemon is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
wait_until('Nodes to have been read', sub { http('GET', $daemon->url('health', '/readyz?verbose'))->{content} =~ /^\[\+\]nodes ok$/m });

# By curl, over TLS, as often as asked; returns the last answer, and the times in milliseconds.
sub ask ($verb, $body, $times = 1) {
	spit("$dir/body", json_encode($body));
	my $url = 'https://localhost:' . $daemon->port('scheduler') . "/scheduler/$verb";
	my $done = run([$curl, qw(-sS --http1.1 --max-time 30 --noproxy *), '--cacert', "$dir/cert.pem", '--data-binary', "\@$dir/body",
		'-H', 'Content-Type: application/json', '-w', '%{http_code} %{time_pretransfer} %{time_total}\n',
		map { ('-o', "$dir/answer", $url) } 1 .. $times], name => 'curl');
	die "curl: $done->{err}\n" if $done->{status};
	my @lines = map { [ split / / ] } split /\n/, $done->{out};
	my $text = slurp("$dir/answer");
	return { status => $lines[-1][0], text => $text, json => eval { json_decode($text) }, times => [ map { 1000 * ($_->[2] - $_->[1]) } @lines ] };
}

sub pod ($ipus, %spec) {
	return { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'p', namespace => 'default', annotations => { 'graphcore.ai/ipus' => "$ipus" } },
		spec => { containers => [ { name => 'c', image => 'i' } ], %spec } };
}
my @names = map { "sim$_" } 0 .. $n_nodes - 1;
my $label = 'node\(s\) that reach no V-IPU controller';

# What a person makes there by hand.
sub take_by_hand ($controller, $size) {
	my $answer = http('POST', $sim->url('admin', "/sim/vipu/$controller/partitions"), json => { id => 'by-hand', size => $size });
	return $answer->{status};
}

my $got = wait_until('the controllers to have answered', sub {
	my $answer = ask('filter', { Pod => pod(16), Nodes => undef, NodeNames => \@names });
	return $answer->{json} && !$answer->{json}{Error} && @{ $answer->{json}{NodeNames} } == $n_nodes - 1 && $answer;
});
is($got->{status}, 200, 'filter answers');
is_deeply([ keys %{ $got->{json}{FailedAndUnresolvableNodes} } ], [ 'sim' . ($n_nodes - 1) ], 'a Node without the label is left out');
like($got->{json}{FailedAndUnresolvableNodes}{ 'sim' . ($n_nodes - 1) }, qr/^$label/, '… with the reason');

cmp_ok(take_by_hand(0, 8), '<', 300, 'somebody makes a partition by hand');
$got = wait_until('the operator to see it', sub {
	my $answer = ask('filter', { Pod => pod(16), NodeNames => \@names });
	return @{ $answer->{json}{NodeNames} // [] } == 499 && $answer;
});
is($got->{json}{NodeNames}[0], 'sim500', 'only Nodes whose controller has room');
like($got->{json}{FailedAndUnresolvableNodes}{sim0}, qr/^node\(s\) whose V-IPU controller 127\.0\.0\.1:\d+ has no room for 16 IPUs now$/, 'the others with the reason');
my %score = map { $_->{Host} => $_->{Score} } @{ ask('prioritize', { Pod => pod(8), NodeNames => [qw(sim0 sim500)] })->{json} };
cmp_ok($score{sim0}, '>', $score{sim500}, 'prioritize: where the hole has just this size, rather than where a whole one would be cut');
is(@{ ask('filter', { Pod => pod(16, nodeSelector => { ipunode => 'a' }), NodeNames => \@names })->{json}{NodeNames} }, $n_nodes,
	'who names a controller\'s Nodes is let through');
is(ask('filter', { NodeNames => [] })->{status}, 400, 'what is no request is 400');
is(ask('prioritize', { Pod => {}, NodeNames => [ ('a') x 10_001 ] })->{status}, 413, 'too many Nodes are 413, whosever Pod it is');
is(ask('filter', { Pod => pod(16), NodeNames => [ 'a' x (2 << 20) ] })->{status}, 413, 'so is too large a body');
is(ask('bind', {})->{status}, 404, 'there is nothing else');

# ---- how long it takes ----

for my $verb (qw(filter prioritize)) {
	my $all = ask($verb, { Pod => pod(8), NodeNames => \@names }, 60);
	my @times = sort { $a <=> $b } @{ $all->{times} };
	diag(sprintf '%s of %d Nodes over TLS: quickest %.2f ms, median %.2f ms, 90 %% under %.2f ms', $verb, $n_nodes, @times[ 0, @times / 2, @times * 0.9 ]);
	cmp_ok($times[0], '<', 100, "$verb: in time, where nobody else uses the machine");
}

# ---- what Nodes show ----

sub shown () {
	my %shown;
	for my $node (@{ api('GET', '/api/v1/nodes')->{json}{items} }) {
		my $ipus = $node->{status}{allocatable}{'graphcore.ai/ipu'} // 0;
		$shown{ $node->{metadata}{labels}{ipunode} // '' } += $ipus;
		return {} if ($node->{status}{capacity}{'graphcore.ai/ipu'} // 0) ne $ipus;
	}
	return \%shown;
}
wait_until('the IPUs to be dealt out', sub { my $s = shown(); return ($s->{a} // 0) == 16 && ($s->{b} // 0) == 16 });
is(shown()->{''}, 0, 'those of each controller to its Nodes, and none to others');
spit("$dir/controllers.yaml", $entry[1]);
wait_until('those of one that goes to be taken away', sub { my $s = shown(); return ($s->{a} // 1) == 0 && ($s->{b} // 0) == 16 });
pass('those of a controller that goes go');
wait_until('the Nodes that show some to be counted', sub { http('GET', $daemon->url('metrics', '/metrics'))->{content} =~ /^ipu_operator_advertising_nodes 16$/m });
my $metrics = http('GET', $daemon->url('metrics', '/metrics'))->{content};
like($metrics, qr/^ipu_operator_advertise_writes_total\{result="ok"\} 48$/m, 'one write for each change');
like($metrics, qr/^ipu_operator_extender_requests_total\{handler="filter",code="200"\} [1-9]/m, 'answers are counted');
like($metrics, qr/^ipu_operator_extender_request_seconds_count\{handler="prioritize"\} 6[1-9]$/m, 'and timed');
covers_metrics($metrics, qw(ipu_operator_advertising_nodes ipu_operator_advertise_writes_total ipu_operator_extender_requests_total
	ipu_operator_extender_request_seconds));

# ---- who may ask ----

spit("$dir/openssl.cnf", "[req]\ndistinguished_name = dn\n[dn]\n");

# A certificate and its key at $dir/NAME.pem and NAME.key: by whom (undef: an authority of its own), as whom, and for how many days.
sub make_cert ($name, $by, $subject, $days, $usage = 'clientAuth') {
	my $made = run([$openssl, qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes), '-config', "$dir/openssl.cnf", '-days', $days,
		'-subj', $subject, '-keyout', "$dir/$name.key", '-out', "$dir/$name.pem",
		$by ? ('-CA', "$dir/$by.pem", '-CAkey', "$dir/$by.key", '-addext', "extendedKeyUsage=$usage")
		: ('-addext', 'basicConstraints=critical,CA:TRUE')], name => 'openssl');
	die "openssl: $made->{err}\n" if $made->{status};
	return;
}

# core's clock of a program: so many seconds after the real one.
sub set_clock ($path, $offset_s) {
	my $text = pack('a8 q< q<6', "\0IPUCLK1", 1000 * $offset_s, (0) x 6);
	return spit($path, $text) if !-e $path;
	open(my $out, '+<:raw', $path) or die "$path: $!\n";
	syswrite($out, $text) == length $text or die "$path: $!\n";
	return;
}

subtest 'who may ask' => sub {
	my ($page, $now) = ("$dir/clock", 0);
	make_cert('clients', undef, '/CN=clients', 30);
	make_cert('others', undef, '/CN=others', 30);
	make_cert('scheduler', 'clients', '/O=system:kube-scheduler/CN=system:kube-scheduler', 20);
	make_cert('short', 'clients', '/CN=system:kube-scheduler', 3);
	make_cert('person', 'clients', '/O=team/CN=somebody', 20);
	make_cert('server', 'clients', '/CN=system:kube-scheduler', 20, 'serverAuth');
	make_cert('foreign', 'others', '/CN=system:kube-scheduler', 20);
	api('POST', '/api/v1/namespaces', json => { apiVersion => 'v1', kind => 'Namespace', metadata => { name => 'guarded' } });
	spit("$dir/asked.pem", slurp("$dir/clients.pem"));
	set_clock($page, 0);
	my %of = (%set, 'scheduler.clientCAFile' => "$dir/asked.pem", 'scheduler.clientNames' => 'ipu-scheduler, system:kube-scheduler',
		operatorNamespace => 'guarded', 'advertise.ipus' => 'none');
	my $guarded = start('ipu-operator', env => { IPU_CLOCK_PAGE => $page }, args => ['--kubeconfig', "$dir/sim/kubeconfig", '--roles', 'proxy',
		map { ('--set', "$_=$of{$_}") } sort keys %of]);
	my $base = 'https://localhost:' . $guarded->port('scheduler');
	spit("$dir/body", json_encode({ Pod => pod(0), NodeNames => [] }));

	# curl's end and status: 0 and 200 where it was let in. With two requests the second one finds the connection of the first.
	my $ask = sub ($as) {
		my $done = run([$curl, qw(-sS --http1.1 --max-time 30 --noproxy *), '--cacert', "$dir/cert.pem", '--data-binary', "\@$dir/body",
			$as ? ('--cert', "$dir/$as.pem", '--key', "$dir/$as.key") : (), '-o', "$dir/answer", '-w', '%{http_code}', "$base/scheduler/filter"],
			name => 'curl');
		return ($done->{status}, $done->{out});
	};
	my $may = sub ($as, $what) { is_deeply([ $ask->($as) ], [ 0, 200 ], "$what: let in"); return };
	my $may_not = sub ($as, $why, $what) {
		set_clock($page, $now += 61); # so that its line isn't one too many
		my ($status, $code) = $ask->($as);
		ok($status != 0 && $code eq '000', "$what: refused before anything is read of it");
		wait_until("the log to say why: $why", sub { $guarded->err =~ $why });
		return;
	};
	$may->('scheduler', 'the scheduler\'s own');
	$may->('short', 'another of that name');
	$may_not->('', qr/TLS handshake failed: the client has no certificate peer=127/, 'no certificate');
	$may_not->('foreign', qr/certificate of client \S+ is signed by an unknown authority \(CN=others\)/, 'another authority\'s');
	$may_not->('person', qr/certificate of client \S+ has a common name that isn't let in \(O=team, CN=somebody\)/, 'another name');
	$may_not->('server', qr/certificate of client \S+ isn't acceptable: /, 'one for servers');

	my @stays = ($openssl, qw(s_client -quiet -verify_quiet), '-connect', '127.0.0.1:' . $guarded->port('scheduler'), '-CAfile', "$dir/cert.pem",
		'-cert', "$dir/scheduler.pem", '-key', "$dir/scheduler.key");
	my $pid = open2(my $from, my $to, @stays);
	print {$to} "POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n{\"Pod\":{},\"NodeNames\":[]}";
	$to->flush;
	like(scalar <$from>, qr{^HTTP/1\.1 200 }, 'a connection that stays');
	spit("$dir/asked.pem", '');
	set_clock($page, $now += 61);
	wait_until('the empty file to be told', sub { $guarded->err =~ /the present one stays: \S+asked\.pem: is empty/ });
	$may->('scheduler', 'while the file is empty');
	spit("$dir/asked.pem", slurp("$dir/others.pem"));
	set_clock($page, $now += 61);
	wait_until('the other authority to count', sub { $guarded->err =~ /other authorities count now/ });
	my $rest = do { local $/; <$from> };
	unlike($rest // '', qr/^HTTP/m, 'the connection of one whom the other authority doesn\'t know ends');
	close $to;
	close $from;
	waitpid $pid, 0;
	$may->('foreign', 'by the authority that is new in the file');
	$may_not->('scheduler', qr/unknown authority \(CN=clients\)/, 'by the one before');
	spit("$dir/asked.pem", slurp("$dir/clients.pem") . slurp("$dir/others.pem"));
	set_clock($page, $now += 61);
	wait_until('both to count', sub { (() = $guarded->err =~ /other authorities count now/g) == 2 });
	$may->($_, "by both in the file, $_") for qw(scheduler foreign);
	$now = 4 * 86_400;
	$may_not->('short', qr/certificate of client \S+ has expired/, 'one that has run out');
	$may->('scheduler', 'one that hasn\'t');
	$guarded->stop(status => 0);
	my $bad = run([ program('ipu-operator'), '--check-config', map { ('--set', $_) } 'operatorNamespace=x', 'scheduler.clientNames=a' ], name => 'check');
	like($bad->{err}, qr/scheduler\.clientNames: are of certificates: give scheduler\.clientCAFile/, 'names without an authority guard nothing: refused');
};

# ---- a clean end ----

# A request of which half is there: the server's 100 says that it has the head.
my $body = json_encode({ Pod => pod(8), NodeNames => ['sim0'] });
my $pid = open2(my $from, my $to, $openssl, 's_client', '-quiet', '-verify_quiet', '-connect', '127.0.0.1:' . $daemon->port('scheduler'), '-CAfile',
	"$dir/cert.pem");
$to->autoflush(1);
print {$to} "POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n",
	'Content-Length: ', length($body), "\r\n\r\n";
my $line = <$from> // '';
like($line, qr{^HTTP/1\.1 100 }, 'a request has begun');
$daemon->signal('TERM');
wait_until('the Lease to be given back', sub {
	my @leases = @{ api('GET', '/apis/coordination.k8s.io/v1/namespaces/ipu-operator/leases')->{json}{items} };
	return @leases && !grep { ($_->{spec}{holderIdentity} // '') ne '' } @leases;
}, while_alive => []);
# Whoever doesn't wait for this request ends now: half a second for that; the request has five.
for (1 .. 10) {
	last if !$daemon->is_alive;
	select undef, undef, undef, 0.05;
}
ok($daemon->is_alive, '… is waited for');
local $SIG{PIPE} = 'IGNORE';
print {$to} $body;
$line = <$from> // '' until $line =~ /^HTTP\S+ [2-5]/ || eof $from;
like($line, qr{^HTTP/1\.1 200 }, 'a process that ends answers the scheduler\'s requests that it has taken');
close $to;
close $from;
waitpid $pid, 0;
wait_until('the process to end', sub { !$daemon->is_alive }, while_alive => []);
$daemon->stop;
$sim->stop;
done_testing;
