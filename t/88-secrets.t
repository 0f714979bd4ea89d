#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Tokens after their use: the daemon's own memory is searched for those that callers came with, and for its own one from before
# it was renewed; so is its log, at its most talkative. And it leaves no core dump.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;

watchdog(120);
program_or_skip('curl');
my $dir = test_dir();

# A page that daemon and test share: its clock is so far ahead of the machine's. Never cut short: it's mapped.
sub move_clock ($ms) {
	my $page = pack('a8 q<7', "\0IPUCLK1", $ms, (0) x 6);
	return spit("$dir/clock", $page) if !-e "$dir/clock";
	open(my $out, '+<:raw', "$dir/clock") or die "clock: $!";
	print {$out} $page;
	return close($out);
}

my $sim = start('ipu-sim', args => [ '--dir', "$dir/sim", '--pod-run-ms=0' ]);
my $admin = slurp("$dir/sim/token");

sub api ($method, $path, @json) {
	return http($method, $sim->url('api-plain', $path), headers => { authorization => "Bearer $admin" },
		map { (json => $_) } @json);
}

sub token ($account) {
	return api('POST', "/api/v1/namespaces/monitoring/serviceaccounts/$account/token",
		{ apiVersion => 'authentication.k8s.io/v1', kind => 'TokenRequest', spec => {} })->{json}{status}{token};
}

api('POST', '/api/v1/namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $_ } })
	for qw(ipu-operator monitoring);
api('POST', '/api/v1/namespaces/monitoring/serviceaccounts',
	{ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $_ } }) for qw(operator prometheus);

my @own = map { token('operator') } 1, 2;
spit("$dir/token", $own[0]);
spit("$dir/kubeconfig", slurp("$dir/sim/kubeconfig") =~ s/^    token: .*/    tokenFile: $dir\/token/mr);
move_clock(0);
my $daemon = start('ipu-operator', env => { IPU_CLOCK_PAGE => "$dir/clock" }, args => [ '--kubeconfig', "$dir/kubeconfig",
	map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'metrics.secure=true', 'log.level=6', 'leaderElection.enabled=false',
	map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen) ]);
my $ca = spit("$dir/ca.pem", decode_base64(
	api('GET', '/api/v1/namespaces/ipu-operator/secrets/ipu-operator-certificates')->{json}{data}{'ca.crt'}));

# Where a token's own part, which none of the others has, stands in all that the process may write.
sub places ($token) {
	my $part = substr($token, -40);
	my @found;
	open(my $mem, '<:raw', '/proc/' . $daemon->pid . '/mem') or return;
	for my $line (split /\n/, slurp('/proc/' . $daemon->pid . '/maps')) {
		my ($from, $to, $name) = $line =~ /^([0-9a-f]+)-([0-9a-f]+) rw\S+ \S+ \S+ \S+\s*(.*)$/ or next;
		no warnings 'portable'; # of 64 bits
		my ($at, $size) = (hex $from, hex($to) - hex $from);
		sysseek($mem, $at, 0);
		my $text = '';
		while ($size > length $text) {
			last if !sysread($mem, $text, $size - length $text, length $text);
		}
		for (my $i = -1; ($i = index($text, $part, $i + 1)) >= 0;) {
			push @found, sprintf('%s+%x %s', $from, $i, substr($text, $i > 160 ? $i - 160 : 0, 220) =~ s/[^ -~]/./gr);
		}
	}
	return @found;
}

sub gone ($token, $what) {
	my @left;
	my $over = eval { wait_until("$what to be gone", sub { !(@left = places($token)) }, seconds => 15); 1 };
	ok($over, "$what isn't in memory any more") or diag(join "\n", @left);
	unlike($daemon->err, qr/\Q$token\E/, '... and never was in the log');
	return;
}

sub scrape ($token) {
	my $host = 'ipu-operator-controller-manager-metrics.ipu-operator.svc';
	my $answer = run([ 'curl', qw(-sS -o /dev/null -w %{http_code} --max-time 20 --noproxy *), '--cacert', $ca, '--connect-to',
		"$host:443:127.0.0.1:" . $daemon->port('metrics'), '-H', "Authorization: Bearer $token", "https://$host/metrics" ]);
	return $answer->{out};
}

subtest 'memory' => sub {
	plan skip_all => "only root reads another process's memory" if $> != 0;
	plan skip_all => 'this build keeps what was freed (sanitizers)' if slurp("$ENV{TOP_BUILDDIR}/config.status") =~ /-fsanitize=\S*address/;
	ok(scalar places($own[0]), 'what is in use is found');

	my $caller = token('prometheus');
	is(scrape($caller), 200, 'a caller that may');
	gone($caller, 'its token');
	my $stranger = 'x' . join '', map { sprintf '%04x', $_ * 7919 % 65536 } 1 .. 16;
	is(scrape($stranger), 401, 'one that is nobody');
	gone($stranger, "a stranger's token");

	spit("$dir/token", $own[1]);
	# By all that speak to the API server, each when it does: watches, and those that review callers' tokens.
	move_clock(700_000);
	is(scrape(token('prometheus')), 200, 'a scrape');
	run([ 'curl', qw(-ksS -o /dev/null --max-time 20 --noproxy *), '-H', 'Authorization: Bearer ' . token('prometheus'),
		'https://127.0.0.1:' . $daemon->port('proxy-tls') . '/v1/partitions/x/0' ]);
	wait_until('the new token to be read', sub { $daemon->err =~ /credentials changed and were read again/ });
	gone($own[0], "the operator's own token from before");
	ok(scalar places($own[1]), 'the new one is in use');
};

subtest 'dumps' => sub {
	my ($limit) = slurp('/proc/' . $daemon->pid . '/limits') =~ /^Max core file size +(\S+ +\S+)/m;
	is($limit =~ s/ +/ /r, '0 0', 'no core file may be written');
	plan skip_all => 'root reads everything' if $> == 0;
	ok(!open(my $mem, '<', '/proc/' . $daemon->pid . '/mem'), "nor may the same user read its memory");
};

$daemon->stop(status => 0);
$sim->stop;
done_testing();
