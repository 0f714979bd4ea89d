#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Broken kubeconfigs, configurations and command lines of ipu-operator, and broken files of ipu-sim: one
# line that says what is wrong, with file, line and column where there are any, exit status 2, and
# nothing half-done is left. (ipu-sim's own command line: t/52-sim.t.)

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::INET;
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(180);
my $dir = test_dir() . '/here';
mkdir $dir or die "$dir: $!\n";

my $good = <<'END';
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:1"}
users:
- name: u
  user: {token: verysecret}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
END

my @namespace = ('--set', 'operatorNamespace=ops');

# What is there afterwards, besides the test's own files.
sub left (@own) {
	my %own = map { $_ => 1 } @own;
	opendir(my $handle, $dir) or die "$dir: $!\n";
	return grep { !/^\.\.?$/ && !$own{$_} } sort readdir($handle);
}

# One program with bad input: files, a hash of name and text; args; env; says, a pattern for the whole
# line; status (2).
sub refused ($program, $what, %case) {
	my %files = %{ $case{files} // {} };
	spit("$dir/$_", $files{$_}) for keys %files;
	my %env = (KUBECONFIG => undef, HOME => "$dir/nobody", KUBERNETES_SERVICE_HOST => undef,
		KUBERNETES_SERVICE_PORT => undef, %{ $case{env} // {} });
	my $result = run([ program($program), @{ $case{args} // [] } ], cwd => $dir, env => \%env);
	my @lines = grep { !/^\d{4}-\S+ +(?:INFO|WARN) / } split /\n/, $result->{err};
	subtest $what => sub {
		is($result->{status}, $case{status} // 2, 'the exit status');
		like($lines[0] // '', qr/^$program: $case{says}$/, 'the reason');
		is(scalar @lines, 1, 'in one line') or diag($result->{err});
		is($result->{out}, '', 'nothing on standard output');
		unlike($result->{err}, qr/verysecret/, 'no secret is told');
		is_deeply([ left(keys %files) ], [], 'nothing is left');
	};
	unlink("$dir/$_") for keys %files;
	return;
}

# ---- the kubeconfig ----

# A kubeconfig with one thing changed.
sub changed ($from, $to) {
	my $text = $good;
	$text =~ s/\Q$from\E/$to/ or die "no '$from' in the kubeconfig\n";
	return $text;
}

my $user = 'user: {token: verysecret}';
my $server = 'server: "https://127.0.0.1:1"';
my @kubeconfigs = (
	[ 'is cut off', "clusters:\n- name: c\n  cluster: {server: x\n", qr/kube:4:1: \S.*/ ],
	[ 'is no YAML', "a: b: c\n", qr/kube:1:\d+: \S.*/ ],
	[ 'is indented by a tab', "clusters:\n\t- name: c\n", qr/kube:2:\d+: \S.*/ ],
	[ 'is binary', "\x7fELF\0\1\2\xff\xfe", qr/kube:1:\d+: \S.*/ ],
	[ 'is empty', '', qr/kube .*current-context.*/ ],
	[ 'is a list', "[1, 2]\n", qr/kube:1:1: .*object.*array.*/ ],
	[ 'has a key twice', $good . "kind: Config\n", qr/kube:13:1: .*kind.*/ ],
	[ 'is an alias bomb', join('', "a: &a [x, x]\n", map({ sprintf "%s: &%s [*%s, *%s, *%s, *%s]\n", $_,
		$_, (chr(ord($_) - 1)) x 4 } 'b' .. 'z')), qr/kube:\d+:\d+: \S.*/ ],
	# What of YAML begins with these is no text, unless it's in quotes.
	[ 'has a password that is an alias', changed($user, 'user: {password: *verysecret}'), qr/kube:8:\d+: there is no anchor .*/ ],
	[ 'has a token that is a tag', changed($user, 'user: {token: !verysecret x}'), qr/kube:8:\d+: .*tag.*/ ],
	[ 'is too large', '# ' . 'x' x 5_000_000 . "\n", qr/kube\b.*(?:large|limit|bytes).*/ ],
	[ 'names a user that isn\'t there', changed('user: u', 'user: nobody'), qr/kube:11:31: there is no user "nobody"/ ],
	[ 'names a cluster that isn\'t there', changed('cluster: c,', 'cluster: d,'),
		qr/kube:11:22: there is no cluster "d"/ ],
	[ 'names a context that isn\'t there', changed('current-context: x', 'current-context: y'),
		qr/kube:12:18: there is no context "y" \(there are: x\)/ ],
	[ 'has a number for a server', changed($server, 'server: 7'), qr/kube:5:\d+: .*server.*string.*/ ],
	[ 'has no server', changed($server, 'insecure-skip-tls-verify: true'), qr/kube:5:\d+: .*server.*/ ],
	[ 'has a server that is no URL', changed($server, 'server: "what is this"'), qr/kube:5:22: .*https.*/ ],
	[ 'has a server of another scheme', changed($server, 'server: "ftp://127.0.0.1"'), qr/kube:5:22: .*https.*/ ],
	[ 'has CA data that is no base64', changed($server, "$server, certificate-authority-data: '%%%'"),
		qr/kube:5:\d+: .*certificate-authority-data.*/ ],
	[ 'has CA data that is no certificate', changed($server, "$server, certificate-authority-data: aGVsbG8="),
		qr/kube:5:\d+: .*certificate-authority-data.*/ ],
	[ 'has a CA file that isn\'t there', changed($server, "$server, certificate-authority: nowhere.pem"),
		qr/.*nowhere\.pem.*/ ],
	[ 'has a token file that isn\'t there', changed($user, 'user: {tokenFile: nowhere}'), qr/.*nowhere.*/ ],
	[ 'has a certificate without a key', changed($user, 'user: {client-certificate-data: aGVsbG8=}'),
		qr/kube:8:\d+: .*client-.*/ ],
	[ 'has a plugin without a command', changed($user,
		'user: {exec: {apiVersion: client.authentication.k8s.io/v1}}'), qr/kube:8:\d+: .*command.*/ ],
	[ 'has a plugin of an unknown version', changed($user,
		'user: {exec: {apiVersion: client.authentication.k8s.io/v9, command: x}}'), qr/kube:8:\d+: .*v9.*/ ],
);
for my $case (@kubeconfigs) {
	my ($what, $text, $says) = @$case;
	refused('ipu-operator', "a kubeconfig that $what", files => { kube => $text }, says => $says,
		args => [ '--kubeconfig', 'kube', @namespace, '--ports-file', 'ports' ]);
}
refused('ipu-operator', 'a kubeconfig that isn\'t there', args => [ '--kubeconfig', 'nowhere' ],
	says => qr/(?:kubeconfig: )?nowhere: No such file or directory/);
refused('ipu-operator', 'a kubeconfig that is a folder', args => [ '--kubeconfig', '/tmp' ],
	says => qr{(?:kubeconfig: )?/tmp: Is a directory});
refused('ipu-operator', 'a kubeconfig of $KUBECONFIG', env => { KUBECONFIG => 'kube' },
	files => { kube => changed('user: u', 'user: v') }, args => [@namespace], says => qr/kube:11:31: .*"v"/);
refused('ipu-operator', 'no kubeconfig at all', args => [@namespace], says => qr/no Kubernetes configuration: .*KUBECONFIG.*/);
refused('ipu-operator', 'a context of the command line', files => { kube => $good },
	args => [ '--kubeconfig', 'kube', '--context', 'z', @namespace ], says => qr/.*no context "z".*/);
refused('ipu-operator', 'no namespace for the operator', files => { kube => $good },
	args => [ '--kubeconfig', 'kube' ], says => qr/operatorNamespace: must be given.*/);

# ---- the configuration ----

my @configurations = (
	[ "operatorNamespace: ops\nvippu: {}\n", qr/conf:2:1: vippu: .*/ ],
	[ "vipu:\n  callTimeout: 1\n", qr/conf:2:3: vipu\.callTimeout: .*/ ],
	[ "vipu:\n  callTimeoutSeconds: 0\n", qr/conf:2:23: vipu\.callTimeoutSeconds: must be from 1 to 300/ ],
	[ "vipu:\n  callTimeoutSeconds: soon\n", qr/conf:2:23: vipu\.callTimeoutSeconds: .*number.*/ ],
	[ "vipu: 7\n", qr/conf:1:7: vipu: must be a map of keys, not an integer/ ],
	[ "vipu:\n  callTimeoutSeconds: 5\n  callTimeoutSeconds: 6\n", qr/conf:3:3: .*callTimeoutSeconds.*/ ],
	[ "roles: [controller, cook]\n", qr/conf:1:21: roles.*cook.*/ ],
	[ "proxy:\n  listen: everywhere\n", qr/conf:2:11: proxy\.listen: .*/ ],
	[ "health: {listen: ':99999'}\n", qr/conf:1:19: health\.listen: .*/ ],
	[ "worker:\n  hostNetwork: perhaps\n", qr/conf:2:16: worker\.hostNetwork: .*true.*/ ],
	[ "worker:\n  dnsPolicy: Mine\n", qr/conf:2:14: worker\.dnsPolicy: .*/ ],
	[ "tracker:\n  configMap: No Name\n", qr/conf:2:14: tracker\.configMap .*/ ],
	[ "controllers:\n- address: pod001:8090\n- address: 'pod 2'\n", qr/conf:3:3: controllers: "pod 2": .*/ ],
	[ "controllers:\n- address: pod001\n- address: pod001:8090\n", qr/conf:3:3: controllers: .*in the list already.*/ ],
	[ "controllers: 'pod001:8090:a=b,pod001:8090'\n", qr/conf:1:15: controllers: .*in the list already.*/ ],
	[ "controllers:\n- adress: pod001\n", qr/conf:2:3: controllers.*adress.*/ ],
	[ "log:\n  level: 7\n", qr/conf:2:10: log\.level: must be from 1 to 6/ ],
	[ "log: [\n", qr/conf:2:1: \S.*/ ],
	[ "- a\n", qr/conf:1:1: the configuration must be a map.*/ ],
	[ "\xff\xfe", qr/conf:1:\d+: \S.*/ ],
);
for my $case (@configurations) {
	my ($text, $says) = @$case;
	my $what = 'a configuration with ' . ($text =~ /([[:print:]]+)\n*\z/ ? $1 : 'bytes that are no text');
	refused('ipu-operator', $what, files => { conf => $text }, says => $says,
		args => [ '--config', 'conf', '--ports-file', 'ports' ]);
}
refused('ipu-operator', 'a configuration that isn\'t there', args => [ '-c', 'nowhere' ],
	says => qr/nowhere: No such file or directory/);
refused('ipu-operator', 'a variable that stands for no key', env => { IPUOPERATOR_CONTROLLER => 'x' },
	says => qr/environment: IPUOPERATOR_CONTROLLER stands for no key/);
refused('ipu-operator', 'a variable with a bad value', env => { IPUOPERATOR_LOG_LEVEL => 'loud' },
	says => qr/environment: IPUOPERATOR_LOG_LEVEL: log\.level: .*/);

{
	spit("$dir/conf", "log: {level: 9}\nhealth: {lisen: ''}\n");
	my $all = run([ program('ipu-operator'), '--check-config', '-c', "$dir/conf", '--set', 'seccomp=maybe' ]);
	is($all->{status}, 2, '--check-config of what is wrong in three places');
	is($all->{err}, <<"END", '... tells each, with its place');
ipu-operator: $dir/conf:1:14: log.level: must be from 1 to 6
ipu-operator: $dir/conf:2:10: health.lisen: there is no such key: did you mean health.listen?
ipu-operator: --set seccomp=maybe: seccomp: must be one of enforce, log, off
END
	unlink("$dir/conf");
}

# ---- the command line ----

my @lines = (
	[ ['--frob'], qr/--frob: there is no such option; see --help/ ],
	[ ['-x'], qr/-x: there is no such option; see --help/ ],
	[ ['word'], qr/word: not an option; see --help/ ],
	[ ['--set'], qr/--set: needs a value; see --help/ ],
	[ [ '--set', 'log.level' ], qr/--set log\.level: must be KEY=VALUE/ ],
	[ [ '--set', 'log.levle=3' ], qr/--set log\.levle=3: there is no such key: did you mean log\.level\?/ ],
	[ [ '--set', 'log.level=none' ], qr/--set log\.level=none: .*/ ],
	[ [ '--set', 'controllers=a:b:c:d:e' ], qr/--set controllers=.*/ ],
	[ [ '--roles', 'king' ], qr/--set roles=king: .*/ ],
	[ [ '--check-config', '--set', 'health.listen=x' ], qr/--set health\.listen=x: .*/ ],
);
refused('ipu-operator', "the command line @{ $_->[0] }", args => $_->[0], says => $_->[1]) for @lines;

# ---- what is good, and does nothing ----

for my $case ([ [], '' ], [ ['worker.hostNetwork=false'], '' ], [ ['worker.rdmaNetwork=n'], 'worker.rdmaNetwork' ],
	[ ['worker.rdmaResource=rdma/a'], 'worker.rdmaResource' ], [ [ 'worker.rdmaNetwork=n', 'worker.hostNetwork=false' ], '' ],
	[ ['proxy.page=full'], '' ], [ [ 'proxy.page=full', 'proxy.details=false' ], 'proxy.page' ])
{
	my ($sets, $useless) = @$case;
	my $kube = spit(test_dir() . '/good.kubeconfig', $good);
	my $result = run([ program('ipu-operator'), '--kubeconfig', $kube, @namespace, '--check-config', map { ('--set', $_) } @$sets ]);
	is($result->{status}, 0, "--check-config takes '@$sets'");
	is(join(' ', $result->{err} =~ /WARN +daemon: (\S+) has no effect/g), $useless, '... and says what has no effect');
}

for my $case ([ [], '' ], [ ['health.listen=127.0.0.1:8444'], 'health.listen and metrics.listen' ], [ [ 'health.listen=127.0.0.1:9', 'metrics.listen=:9' ],
		'health.listen and metrics.listen' ], [ [ 'health.listen=127.0.0.1:9', 'metrics.listen=127.0.0.2:9' ], '' ],
	[ [ 'health.listen=:0', 'metrics.listen=:0' ], '' ], [ [ 'roles=controller', 'proxy.listen=:8081' ], '' ],
	[ [ 'proxy.listen=:9', 'proxy.tlsListen=:9', 'scheduler.listen=[::1]:9' ],
		'proxy.listen and proxy.tlsListen, proxy.listen and scheduler.listen, proxy.tlsListen and scheduler.listen' ],
	[ [ 'roles=webhook', 'webhook.listen=:8081' ], 'health.listen and webhook.listen' ], [ [ 'health.listen=', 'metrics.listen=' ], '' ],
	[ ['controllersConfigMap='], 'no V-IPU controller can be named' ], [ [ 'controllersConfigMap=', 'controllers=a:1:b=c' ], '' ],
	[ [ 'controllersConfigMap=', 'roles=controller' ], '' ], [ [ 'controllersConfigMap=', 'vipu.serverAddr=a' ], '' ])
{
	my ($sets, $wrong) = @$case;
	my $result = run([ program('ipu-operator'), '--kubeconfig', spit(test_dir() . '/good.kubeconfig', $good), @namespace, '--check-config',
		map { ('--set', $_) } @$sets ]);
	is($result->{status}, 0, "--check-config takes '@$sets'");
	is(join(', ', $result->{err} =~ /WARN +daemon: (\S+ and \S+(?= are the same port)|no V-IPU controller can be named)/g), $wrong,
		'... and says what can\'t work');
}

# ---- what isn't the input's fault: status 1 ----

my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1) or die "$!\n";
my $address = '127.0.0.1:' . $taken->sockport;
my @run = ('--kubeconfig', 'kube', @namespace, map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen));
refused('ipu-operator', 'an address that is in use', files => { kube => $good }, status => 1,
	args => [ @run, '--set', "health.listen=$address", '--ports-file', 'ports' ],
	says => qr/health\.listen: .*\Q$address\E.*in use.*/);
refused('ipu-operator', 'a ports file that can\'t be written', files => { kube => $good }, status => 1,
	args => [ @run, '--set', 'proxy.tlsListen=', '--ports-file', 'nowhere/ports' ], says => qr{nowhere/ports: No such file or directory});

# ---- what is found out when it's used ----

refused('ipu-operator', 'a name that is none', files => { kube => $good }, args => [ @run, '--set', 'certificates.names=a b' ],
	says => qr/certificates\.names.*: "a b" is neither a DNS name nor an address/);
refused('ipu-operator', 'more names than a certificate takes', files => { kube => $good },
	args => [ @run, '--set', 'certificates.names=' . join(',', map { "n$_.example.com" } 1 .. 70) ],
	says => qr/certificates\.names.*: a certificate is for 1 to 64 names, not 7\d/);

my $crd = top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml';
refused('ipu-sim', 'an address that is in use', status => 1, says => qr/--api-listen: .*\Q$address\E.*in use.*/,
	args => [ '--crd', $crd, '--dir', 'sim', '--ports-file', 'ports', '--api-listen', $address ]);
refused('ipu-sim', 'a ports file that can\'t be written', status => 1,
	args => [ '--crd', $crd, '--dir', 'sim', '--ports-file', 'nowhere/ports' ],
	says => qr{nowhere/ports: No such file or directory});
refused('ipu-sim', 'a folder that can\'t be made', status => 1, says => qr{nowhere/sim: No such file or directory},
	args => [ '--crd', $crd, '--dir', 'nowhere/sim', '--ports-file', 'ports' ]);

# ---- the simulator's CRD ----

my @crds = (
	[ 'is cut off', "kind: CustomResourceDefinition\nspec: {versions: [\n", qr/crd:3:1: \S.*/ ],
	[ 'is something else', "kind: Pod\n", qr/crd: not a CustomResourceDefinition.*/ ],
	[ 'is empty', '', qr/crd: not a CustomResourceDefinition.*/ ],
	[ 'is binary', "\0\1\2", qr/crd:1:\d+: \S.*/ ],
);
refused('ipu-sim', "a CRD that $_->[0]", files => { crd => $_->[1] }, says => $_->[2],
	args => [ '--crd', 'crd', '--dir', 'sim', '--ports-file', 'ports' ]) for @crds;

done_testing;
