#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A daemon at its limits of descriptors and of memory: it says so once, goes on with what it has, and is as before when there is
# room again.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Select ();
use IO::Socket::INET ();
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(120);
my $prlimit = program_or_skip('prlimit');
my $curl = program_or_skip('curl');
my $dir = test_dir();
my $sim = start('ipu-sim', args => [ '--dir', "$dir/sim" ]);
my $daemon = start('ipu-operator', args => [ '--kubeconfig', "$dir/sim/kubeconfig", '--roles=controller,webhook,proxy', map { ('--set', $_) }
	'operatorNamespace=default', 'leaderElection.enabled=false', 'webhook.dryRunPods=false',
	'controllers=127.0.0.1:' . $sim->port('vipu0'),
	map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen webhook.listen health.listen metrics.listen) ]);
wait_until('it is ready', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });

sub limit ($what, $value) {
	my $done = run([ $prlimit, '--pid', $daemon->pid, "--$what=$value:" ]);
	die "prlimit: $done->{err}" if $done->{status};
	return;
}

# A connection that is kept, and what a request on it is answered, "" where nothing comes in time.
sub connect_to ($name) {
	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $daemon->port($name), Timeout => 5) // die "connect: $!\n";
}

sub ask ($socket, $path, $seconds = 5) {
	my ($text, $end) = ('', time + $seconds);
	syswrite($socket, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
	while ($text !~ /\r\n\r\n/ || length($text) < $+[0] + ($text =~ /^Content-Length: (\d+)/mi ? $1 : 0)) {
		return '' if time > $end || !IO::Select->new($socket)->can_read($end - time);
		sysread($socket, $text, 65536, length $text) or return '';
	}
	return $text;
}

sub metric ($text, $name) { return $text =~ /^\Q$name\E (\S+)$/m ? $1 : undef }
sub cpu_s { my @f = split ' ', slurp('/proc/' . $daemon->pid . '/stat') =~ s/.*\) //r; return ($f[11] + $f[12]) / 100 }

subtest 'descriptors' => sub {
	my %kept = map { $_ => connect_to($_) } qw(proxy health metrics);
	like(ask($kept{$_}, '/'), qr{^HTTP/1\.1 }, "a connection to $_") for sort keys %kept;
	my $used = metric(ask($kept{metrics}, '/metrics'), 'process_open_fds');
	limit(nofile => $used + 5);
	my @many = map { connect_to('proxy') } 1 .. 30;
	wait_until('accepting to be paused', sub { $daemon->err =~ /accepting is paused: Too many open files/ });
	my ($began, $cpu) = (time, cpu_s());
	sleep 1;
	cmp_ok((cpu_s() - $cpu) / (time - $began), '<', 0.5, "it doesn't spin");
	is(() = $daemon->err =~ /accepting is paused/g, 1, 'said once');
	like(ask($kept{proxy}, '/stats'), qr{^HTTP/1\.1 200 }, 'who is there already is served');
	like(ask($kept{health}, '/healthz'), qr{^HTTP/1\.1 200 }, "it's healthy");
	my $metrics = ask($kept{metrics}, '/metrics');
	is(metric($metrics, 'process_open_fds'), metric($metrics, 'process_max_fds'), 'the metrics show what is lacking');
	syswrite($_, "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n") for @many;
	my $answered = IO::Select->new(@many);
	my $served = () = wait_until('those with a descriptor to be answered', sub { my @now = $answered->can_read(0.5); @now && \@now })->@*;
	ok($served > 0 && $served < 15, "as many as there were descriptors for are served: $served");

	close $_ for splice @many, 0, 28;
	ok(IO::Select->new($many[-1])->can_read(20), 'the last that waited is served when others have gone');
	is(http('GET', $daemon->url('proxy', '/stats'))->{status}, 200, 'and who comes now');
	limit(nofile => 1024);
};

my $ca = spit("$dir/ca.pem", decode_base64(http('GET', $sim->url('api-plain', '/api/v1/namespaces/default/secrets/ipu-operator-certificates'),
	headers => { authorization => 'Bearer ' . slurp("$dir/sim/token") })->{json}{data}{'ca.crt'}));

sub review ($bytes) {
	my $pod = { apiVersion => 'v1', kind => 'Pod', metadata => { name => 'p', namespace => 'default',
		annotations => { filler => 'x' x $bytes } }, spec => { containers => [ { name => 'c', image => 'i' } ] } };
	spit("$dir/review", json_encode({ apiVersion => 'admission.k8s.io/v1', kind => 'AdmissionReview', request => { uid => 'u',
		kind => { group => '', version => 'v1', kind => 'Pod' }, resource => { group => '', version => 'v1', resource => 'pods' },
		operation => 'CREATE', namespace => 'default', userInfo => { username => 'x' }, object => $pod } }));
	my $host = 'ipu-operator-webhook-svc.default.svc';
	my $done = run([ $curl, qw(-sS -w %{http_code} --max-time 20 --noproxy * -H), 'Content-Type: application/json', '-H', 'Expect:',
		'--cacert', $ca, '--connect-to', "$host:443:127.0.0.1:" . $daemon->port('webhook'),
		'--data-binary', "\@$dir/review", "https://$host/mutate-v1-pod" ]);
	return $done->{out};
}

subtest 'memory' => sub {
	plan skip_all => 'this build takes all addresses for itself (sanitizers)'
		if slurp("$ENV{TOP_BUILDDIR}/config.status") =~ /-fsanitize=\S*address/;
	like(review(2_500_000), qr/200\z/, 'a large review');
	my ($kb) = slurp('/proc/' . $daemon->pid . '/status') =~ /^VmSize:\s+(\d+)/m;
	limit(as => ($kb << 10) + (3 << 20));
	like(review(2_500_000), qr/memory.*503\z/s, 'without memory for it: 503');
	like(review(100), qr/200\z/, 'a small one is answered');
	is(http('GET', $daemon->url('proxy', '/stats'))->{status}, 200, 'and so are others');
	limit(as => 'unlimited');
	like(review(2_500_000), qr/200\z/, 'with memory again: the large one, too');
};

$daemon->stop(status => 0);
$sim->stop;
done_testing();
