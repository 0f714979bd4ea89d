#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The daemon gives up what it has no use for (doc/design/confinement.md): what the kernel says of its
# processes, with a credential plugin and without; what only changes long after its start; and the document's
# list against the code's. That nothing is refused that is needed is seen by each test that runs the daemon:
# t/lib/IpuTest.pm.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use ClockPage;
use IO::Select ();
use IO::Socket::INET ();
use IpuTest;
use IpuTree qw(file_text);
use Test::More;
use Time::Local qw(timegm);

my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim", '--controllers=2']);

sub operator (@args) {
	my %options = ref $args[0] ? %{ shift @args } : ();
	my $daemon = start('ipu-operator', %options, args => [ @{ $options{args} // [] }, (map { ('--set', $_) } 'operatorNamespace=default', map { "$_=127.0.0.1:0" }
		qw(proxy.listen proxy.tlsListen webhook.listen health.listen metrics.listen)), @args]);
	wait_until('it is ready', sub { http('GET', $daemon->url('health', '/healthz'))->{status} == 200 });
	return $daemon;
}

# What the kernel says of a process: how it's filtered, and whether it may gain privileges.
sub of ($status) { return join ' ', map { $status =~ /^$_:\s*(\d+)$/m ? $1 : '?' } qw(Seccomp NoNewPrivs) }
sub of_daemon ($daemon) { return of(slurp('/proc/' . $daemon->pid . '/status')) }

my $free = of(slurp('/proc/self/status')); # what is around us may have a filter of its own
my @kubeconfig = ('--kubeconfig', "$dir/sim/kubeconfig");

subtest 'each role' => sub {
	for my $roles (qw(controller proxy webhook node), 'controller,proxy,webhook,node') {
		my $daemon = operator(@kubeconfig, '--roles', $roles);
		is(of_daemon($daemon), '2 1', $roles);
		# Without root nobody else reads it.
		my $maps = slurp('/proc/' . $daemon->pid . '/maps');
		unlike($maps, qr/^\S+ .wx/m, '... no memory is written and executed') if length($maps // '');
		my $metrics = http('GET', $daemon->url('metrics', '/metrics'))->{content};
		like($metrics, qr/^ipu_operator_refused_calls_total 0$/m, '... and nothing was refused');
		$daemon->stop;
	}
};

subtest 'as the configuration says' => sub {
	my $logs = operator(@kubeconfig, '--set', 'seccomp=log');
	is(of_daemon($logs), '2 1', 'log: a filter, too');
	$logs->stop;
	my $off = operator(@kubeconfig, '--set', 'seccomp=off');
	is(of_daemon($off), $free, 'off: as it was started');
	$off->stop;
};

# A name server that never answers: its address, and what waits until it's asked for a name. The address is our own: no other
# test has it.
sub name_server ($n) {
	my $address = join '.', 127, $n, 1 + ($$ >> 8) % 254, 1 + $$ % 254;
	my $socket = IO::Socket::INET->new(Proto => 'udp', LocalAddr => $address, LocalPort => 53) or return;
	return ($address, sub ($name) {
		my $labels = join '', map { pack 'C/a*', $_ } split /\./, $name;
		wait_until("$address to be asked for $name", sub {
			IO::Select->new($socket)->can_read(0.1) or return;
			defined $socket->recv(my $query, 512) or return;
			return index($query, $labels) >= 0;
		});
	});
}

sub certificate ($name) {
	my $made = run([ qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost),
		'-keyout', "$dir/$name.key", '-out', "$dir/$name.pem" ], name => 'openssl');
	is($made->{status}, 0, "a certificate: $name") or diag($made->{err});
	return;
}

# Its configuration, certificate, time zone and name servers are files, which others replace.
subtest 'what is read while it runs' => sub {
	program_or_skip('openssl');
	my @unshare = (program_or_skip('unshare'), $> == 0 ? '--mount' : qw(--user --map-root-user --mount));
	my @inside = (@unshare, 'sh', '-c', 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"', 'sh', "$dir/resolv.conf");
	my ($server, $is_asked) = name_server(53) or plan skip_all => 'no name server of ours: port 53 is root\'s';
	my ($later, $later_is_asked) = name_server(54);
	spit("$dir/resolv.conf", "nameserver $server\n");
	my $possible = run([ @inside, 'true' ], name => 'unshare');
	plan skip_all => "no mount namespace here: $possible->{err}" if $possible->{status} != 0;

	certificate($_) for qw(served renewed);
	my ($first, $second) = map { '127.0.0.1:' . $sim->port($_) } qw(vipu0 vipu1);
	my $write = sub ($controllers) { spit("$dir/operator.yaml", "operatorNamespace: default\ncontrollers: '$controllers'\n") };
	my $clock = ClockPage->new("$dir/clock");
	$write->($first);
	my $daemon = operator({ path => $inside[0], args => [ @inside[ 1 .. $#inside ], program('ipu-operator'), '--config', "$dir/operator.yaml" ],
		env => { IPU_CLOCK_PAGE => $clock->path, TZ => 'Pacific/Kiritimati' } }, @kubeconfig,
		map { ('--set', $_) } "proxy.tlsCertFile=$dir/served.pem", "proxy.tlsKeyFile=$dir/served.key");
	is(of_daemon($daemon), '2 1', 'it is confined');
	my $again = 0;
	my $reload = sub ($controllers) {
		$write->($controllers);
		$daemon->signal('HUP');
		$again++;
		wait_until('the configuration to be read again', sub { (() = $daemon->err =~ /read again: changed=controllers/g) == $again });
	};
	$reload->("$first,$second,pod.example:1");
	ok($is_asked->('pod.example'), 'a name server is asked');
	my ($second_of, $minute, $hour, $day, $month, $year) = reverse $daemon->err =~ /^(\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d+Z INFO /m;
	cmp_ok(abs(timegm($second_of, $minute, $hour, $day, $month - 1, $year) - time), '<', 3600, 'its log keeps to UTC');
	spit("$dir/resolv.conf", "nameserver $later\n");
	$reload->("$first,later.example:1");
	ok($later_is_asked->('later.example'), 'another that came later, too');
	spit("$dir/served.$_", slurp("$dir/renewed.$_")) for qw(key pem);
	$clock->set(61_000);
	wait_until('the certificate', sub { $daemon->err =~ /a new certificate is in use/ });
	like(http('GET', $daemon->url('metrics', '/metrics'))->{content}, qr/^ipu_operator_refused_calls_total 0$/m, 'nothing was refused');
	$daemon->stop;
};

subtest 'a credential plugin' => sub {
	my $text = slurp("$dir/sim/kubeconfig");
	my $told = "$dir/told";
	my $plugin = spit("$dir/plugin", "#!/bin/sh\ncat /proc/self/status >$told.new; mv $told.new $told\n"
		. "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'\n");
	chmod 0755, $plugin;
	my ($server) = $text =~ /server: "?([^"\s]+)/ or die "no server in the simulator's kubeconfig\n";
	my ($ca) = $text =~ /^\s+(certificate-authority\S*: .*)$/m;
	my $config = spit("$dir/exec", <<"END");
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster:
    server: "$server"
    $ca
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: $plugin, interactiveMode: Never}
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
	my $clock = ClockPage->new("$dir/plugin-clock");
	my $daemon = operator({ env => { IPU_CLOCK_PAGE => $clock->path } }, '--kubeconfig', $config);
	is(of_daemon($daemon), '2 1', 'the daemon is confined');
	wait_until('the plugin to run', sub { -e $told });
	is(of(slurp($told)), $free, 'the plugin is not');
	unlink $told;
	$clock->set(3_600_000);
	wait_until('the plugin to run again', sub { -e $told });
	is(of(slurp($told)), $free, '... long after the start neither');
	like(http('GET', $daemon->url('metrics', '/metrics'))->{content}, qr/^ipu_operator_refused_calls_total 0$/m, '... and nothing was refused');
	$daemon->stop;
};

# CALL(name) stands for a call: in the list for one that is let pass, in the program for one whose arguments are looked at.
subtest 'the list' => sub {
	my $code = file_text('src/core/confine.c') =~ s{/\*.*?\*/}{}gsr;
	my $page = file_text('doc/design/confinement.md') =~ s/.*^## The list\n//msr;
	my ($sanitized) = $code =~ /^#if IS_SANITIZED\s*\n(\s.*?)^\};/ms or die "no calls of sanitized builds\n";
	my %extra = map { $_ => 1 } $sanitized =~ /\bCALL\((\w+)\)/g;
	my %called = map { $_ => 1 } grep { $_ ne 'name' } $code =~ /\bCALL\((\w+)\)/g;
	my ($table, $rest) = $page =~ /\A(.*?)(?=^In a build)(.*)\z/ms or die "no calls of sanitized builds in the document\n";
	my %said = map { $_ => 1 } map { /^\| (`.*?) \|/ ? $1 =~ /`(\w+)`/g : () } split /\n/, $table;
	is_deeply([ sort keys %said ], [ sort grep { !$extra{$_} } keys %called ], 'the document has the calls of the code');
	is_deeply([ sort $rest =~ /`(\w+)`/g ], [ sort keys %extra ], '... and those of sanitized builds');
	is_deeply([ grep { $called{$_} && !$extra{$_} } qw(execve execveat clone clone3 fork vfork ptrace bpf unshare mount init_module io_uring_setup
		memfd_create pkey_mprotect userfaultfd process_vm_writev keyctl symlinkat mknodat fchmodat setuid) ], [], 'none of those that matter most');
};

$sim->stop;
done_testing;
