#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The daemon gives up what it has no use for (doc/design/confinement.md): what the kernel says of its
# processes, with a credential plugin and without; and the document's list against the code's. That nothing is
# refused that is needed is seen by each test that runs the daemon: t/lib/IpuTest.pm.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(file_text);
use Test::More;

my $dir = test_dir();
my $sim = start('ipu-sim', args => ['--dir', "$dir/sim"]);

sub operator (@args) {
	my $daemon = start('ipu-operator', args => [(map { ('--set', $_) } 'operatorNamespace=default', map { "$_=127.0.0.1:0" }
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
	my $daemon = operator('--kubeconfig', $config);
	is(of_daemon($daemon), '2 1', 'the daemon is confined');
	wait_until('the plugin to run', sub { -e $told });
	is(of(slurp($told)), $free, 'the plugin is not');
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
