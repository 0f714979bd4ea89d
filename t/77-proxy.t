#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The way to the API server through a proxy: by the kubeconfig's proxy-url, or HTTPS_PROXY and NO_PROXY. The proxy takes all names for
# the simulator's address, so the name that is asked for can't be reached without it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

watchdog(120);
my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim"]);

# Notes what it is asked; whom it doesn't know, it refuses.
my $relay = <<'END';
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
my ($to, $log, $port_file) = @ARGV;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 16) or die "listen: $!\n";
$SIG{CHLD} = 'IGNORE';
open(my $out, '>', "$port_file.new") or die "$port_file: $!\n";
print {$out} $listener->sockport, "\n";
close($out);
rename("$port_file.new", $port_file) or die "$port_file: $!\n";
while (1) {
	my $client = $listener->accept or next;
	next if fork;
	$listener->close;
	my $head = '';
	while ($head !~ /\r\n\r\n\z/) { sysread($client, $head, 1, length $head) or exit 0 }
	open(my $note, '>>', $log) or die "$log: $!\n";
	syswrite($note, join(' | ', split /\r\n/, $head) . "\n");
	if ($head !~ /^Proxy-Authorization: Basic bWU6aGVyZQ==\r$/m) {
		syswrite($client, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
		exit 0;
	}
	my $server = IO::Socket::INET->new(PeerAddr => $to) or exit 0;
	syswrite($client, "HTTP/1.1 200 Connection established\r\n\r\n");
	my $both = IO::Select->new($client, $server);
	while (my @ready = $both->can_read) {
		for my $from (@ready) {
			sysread($from, my $bytes, 65536) or exit 0;
			my $other = $from == $client ? $server : $client;
			while (length $bytes) { my $n = syswrite($other, $bytes) or exit 0; substr($bytes, 0, $n) = '' }
		}
	}
	exit 0;
}
END
my ($to) = $sim->url('api', '') =~ m{//([^/]+)};
my $proxy = start('proxy', path => $^X, ports => 0, args => ['-e', $relay, $to, "$dir/asked", "$dir/port"]);
my ($port) = wait_until('the proxy', sub { (slurp("$dir/port") // '') =~ /^(\d+)\n/ ? $1 : undef });

# The simulator's kubeconfig, with a server that nobody finds, and what else is said of it.
sub kubeconfig {
	my ($more) = @_;
	my $text = slurp("$dir/sim/kubeconfig");
	$text =~ s{^( *)server: https://[^\n]*\n}{$1server: https://api.no-such-name.test:6443\n$1tls-server-name: 127.0.0.1\n$1$more\n}m
		or die "what is in the kubeconfig?\n$text\n";
	return spit("$dir/kubeconfig", $text);
}

sub ctl {
	my ($config, %env) = @_;
	unlink "$dir/asked";
	return run([program('ipuctl'), '--kubeconfig', $config, qw(crd apply)], seconds => 60, env => {HOME => $dir, IPUCTL_SERVER => undef,
		KUBECONFIG => undef, HTTPS_PROXY => undef, https_proxy => undef, NO_PROXY => undef, no_proxy => undef, %env});
}

my $asked = 'CONNECT api.no-such-name.test:6443 HTTP/1.1 | Host: api.no-such-name.test:6443 | Proxy-Authorization: Basic bWU6aGVyZQ==';
my $me = "http://me:here\@127.0.0.1:$port";

my $done = ctl(kubeconfig("proxy-url: $me"));
is("$done->{status} $done->{out}", "0 customresourcedefinition/ipujobs.graphcore.ai created\n", 'proxy-url') or diag($done->{err});
is((split /\n/, slurp("$dir/asked"))[0], $asked, 'what the proxy was asked');

my $plain = kubeconfig('insecure-skip-tls-verify: false');
$done = ctl($plain, HTTPS_PROXY => $me);
is("$done->{status} $done->{out}", "0 customresourcedefinition/ipujobs.graphcore.ai unchanged\n", 'HTTPS_PROXY') or diag($done->{err});
is((split /\n/, slurp("$dir/asked"))[0], $asked, 'the same is asked');

for (
	['no proxy', {}, 0, qr/api\.no-such-name\.test:6443: /],
	['NO_PROXY', {HTTPS_PROXY => $me, NO_PROXY => '10.0.0.0/8,.no-such-name.test'}, 0, qr/api\.no-such-name\.test:6443: /],
	['a password that is wrong', {HTTPS_PROXY => $me =~ s/here/hello/r}, 1,
		qr/6443 by the proxy 127\.0\.0\.1:$port: it wants another user and password \(status 407\)/],
	['no proxy where one should be', {HTTPS_PROXY => 'http://127.0.0.1:1'}, 0, qr/by the proxy 127\.0\.0\.1:1: Connection refused/],
	['another kind', {HTTPS_PROXY => 'https://me:here@x'}, 0, qr{HTTPS_PROXY: https://x:? ?.*write http://HOST:PORT}],
) {
	my ($what, $env, $reached, $why) = @$_;
	$done = ctl($plain, %$env);
	isnt($done->{status}, 0, "$what: it fails");
	like($done->{err}, $why, 'and says why');
	unlike($done->{err}, qr/here|hello/, 'without the password');
	is(-e "$dir/asked" ? 1 : 0, $reached, 'was the proxy asked?');
}

$proxy->stop(status => 143);
$sim->stop;
done_testing;
