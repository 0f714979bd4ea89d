#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl at a terminal: completion as bash, zsh, fish and kubectl ask for it, the live view, colours, and the
# line that shows a slow answer. script(1) makes the terminals.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::INET;
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(120);
$SIG{PIPE} = 'IGNORE';
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4', '--pod-run-ms=0']);
my $token = slurp("$folder/token");
my $controller = '127.0.0.1:' . $sim->port('vipu0');
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", '--set', 'operatorNamespace=ipu-operator',
	'--set', "controllers=$controller", map { ('--set', "$_=127.0.0.1:0") } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)]);

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

for my $job (['team', 'large', 8], ['team', 'small', 2], ['other', 'single', 2], ['other', 'waits', 8]) {
	my ($ns, $name, $ipus) = @$job;
	api('POST', '/api/v1/namespaces', json => {apiVersion => 'v1', kind => 'Namespace', metadata => {name => $ns}});
	is(api('POST', "/apis/graphcore.ai/v1alpha1/namespaces/$ns/ipujobs", json => {apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => {name => $name},
		spec => {jobInstances => 1, ipusPerJobInstance => "$ipus", workers => {template => {spec => {containers => [{name => 'c', image => 'x'}]}}}}})->{status}, 201, "job $name");
	if ($name ne 'waits') {
		wait_until("job $name to run", sub { (api('GET', "/apis/graphcore.ai/v1alpha1/namespaces/$ns/ipujobs/$name")->{json}{status}{launcherStatus} // '') eq 'Running' });
	}
}

# The commands as they are installed, by their names.
my $bin = test_dir() . '/bin';
mkdir $bin or die;
symlink program('ipuctl'), "$bin/$_" or die for qw(ipuctl kubectl-ipu);
symlink top_srcdir() . '/src/ctl/completion/kubectl_complete-ipu', "$bin/kubectl_complete-ipu" or die;
my %env = (HOME => test_dir(), KUBECONFIG => "$folder/kubeconfig", IPUCTL_SERVER => $operator->url('proxy', ''), PATH => "$bin:$ENV{PATH}", TERM => 'xterm',
	NO_COLOR => undef, KUBERNETES_SERVICE_HOST => undef, PS1 => '$ ', SHELL => '/bin/sh');
sub ctl { return run([program('ipuctl'), @_], env => \%env, seconds => 30) }

# ---- help ----

# Which options each command has of its own, beside those of all and those that say whom to ask.
my %own = (
	'stats' => '--output --no-headers', 'query' => '--output --no-headers', 'capacity' => '--output --no-headers',
	'partitions' => '--output --no-headers --watch', 'queue' => '--output --no-headers --watch', 'controllers' => '--output --no-headers --check',
	'cordon' => '--force --config-map', 'uncordon' => '--force --config-map', 'drain' => '--force --config-map --wait',
	'validate' => '--output --no-headers --filename', 'render' => '--output --no-headers --filename --namespace --controller --config',
	'explain' => '--output --no-headers --namespace --config-map', 'top' => '--output --no-headers --namespace --once --interval',
	'ui' => '--namespace --port --no-browser', 'support-bundle' => '--output --dry-run --log-mib',
	'rdma check' => '--output --no-headers --namespace --network --network-namespace --root --cni-folder --node --resource --test-pod --image --user --inside'
		. ' --controller --config --config-map --wait',
	'rdma macvlan' => '--network --network-namespace --root --cni-folder --interface --subnet --exclude --mtu --mode --attachment --apply --controller --config'
		. ' --dry-run --config-map',
	'node clean' => '--dry-run --all --force --instance --wait', 'crd print' => '', 'crd apply' => '--wait', 'completion' => '',
);
my @to_ask = qw(--server --ca-file --kubeconfig --context --operator-namespace --service --timeout);
my @of_all = qw(--color --version --help);
my %is_offline = map { $_ => 1 } 'validate', 'render', 'crd print', 'completion';

sub options_in { return [$_[0] =~ /^ {2,6}(?:-\w, )?(--[a-z-]+)/mg] }
my $overview = ctl('--help')->{out};
is_deeply([sort $overview =~ /^  ([a-z-]+(?: [a-z]+)?) /mg], [sort 'help', keys %own], '--help names each command');
is_deeply(options_in($overview), [@to_ask, @of_all], '... and the options of all of them');
is(join(' ', grep { length > 100 } split /\n/, $overview), '', '... in lines that a terminal has room for');
for my $command (sort keys %own) {
	is_deeply(options_in(ctl('help', split / /, $command)->{out}), [split(/ /, $own{$command}), $is_offline{$command} ? () : @to_ask, @of_all], "help $command: its options");
}
for my $group (qw(crd rdma node)) {
	my @theirs = grep { /^$group / } sort keys %own;
	for my $said (ctl($group, '--help'), ctl('help', $group)) {
		is_deeply([$said->{status}, sort $said->{out} =~ /^  ($group [a-z]+)/mg], [0, @theirs], "help of $group names what there is");
	}
	like(ctl($group)->{err}, qr/there is no $group alone; see $group --help/, '... to which it leads');
}

# ---- completion ----

# What is typed, and what may come; undef: files.
my @lines = (
	['ipuctl ex', ['explain']],
	['ipuctl c', [qw(capacity controllers cordon crd completion)]],
	['ipuctl crd ', [qw(print apply)]],
	['ipuctl completion ', [qw(bash zsh fish)]],
	['ipuctl help que', [qw(query queue)]],
	['ipuctl stats --out', ['--output']],
	['ipuctl controllers --ch', ['--check']],
	['ipuctl stats --once', []],
	['ipuctl top --once', ['--once']],
	['ipuctl u', [qw(uncordon ui)]],
	['ipuctl ui --no', ['--no-browser']],
	['ipuctl ui --a', []],
	['ipuctl node clean --p', []],
	['ipuctl validate --s', []],
	['ipuctl ui -n tea', ['team']],
	['ipuctl stats -o j', ['json']],
	['ipuctl stats --color a', [qw(auto always)]],
	['ipuctl --color never render --controller ', [qw(api file)]],
	['ipuctl explain -n tea', ['team']],
	['ipuctl explain -n team ', [qw(large small)]],
	['ipuctl -n other explain w', ['waits']],
	['ipuctl explain -n nowhere ', []],
	['ipuctl validate ', undef],
	['ipuctl validate -f ', undef],
	['ipuctl support-bundle -o ', undef],
	['ipuctl nothing ', []],
);
for my $line (@lines) {
	my ($typed, $want) = @$line;
	my ($command, @words) = split / /, $typed, -1;
	my $said = run([program('ipuctl'), '__complete', @words], env => \%env);
	is($said->{out}, join('', map { "$_\n" } @{$want // []}, $want ? ':4' : ':0'), "\"$typed\"");
}
is(run([program('ipuctl'), '__complete', 'stats', '--output=y'], env => \%env)->{out}, "--output=yaml\n:4\n", 'a value behind =');
is(run([program('ipuctl'), '__complete', 'cordon', ''], env => \%env)->{out}, "$controller\n:4\n", 'names of controllers');
is(run([program('ipuctl'), '__complete', 'explain', ''], env => {%env, KUBECONFIG => '/nowhere'})->{out}, ":4\n", 'without a cluster: nothing');
is(run([program('ipuctl'), '__complete'], env => \%env)->{out}, ":4\n", 'without a word: nothing');

my %script;
for my $shell (qw(bash zsh fish)) {
	$script{$shell} = spit(test_dir() . "/completion.$shell", ctl('completion', $shell)->{out});
	my $file = {bash => 'ipuctl.bash', zsh => '_ipuctl', fish => 'ipuctl.fish'}->{$shell};
	is(slurp($script{$shell}), slurp(top_srcdir() . "/src/ctl/completion/$file"), "completion $shell prints what is installed");
}
is(ctl('completion', 'ksh')->{status}, 2, 'another shell');

subtest 'bash' => sub {
	# By its own readline, at a terminal: TAB is typed.
	my $type = sub {
		my ($keys) = @_;
		my $input = spit(test_dir() . '/keys', "bind 'set bell-style none'\nsource $script{bash}\n$keys\nexit\n");
		return run(['bash', '-c', "script -qec 'bash --norc --noprofile -i' /dev/null <'$input'"], env => \%env, seconds => 60)->{out};
	};
	like($type->("ipuctl sta\t-o js\t--no-headers >" . test_dir() . "/typed"), qr/ipuctl stats -o json --no-headers/, 'words are completed');
	is(json_decode(slurp(test_dir() . '/typed'))->{total}{used}, 12, '... and it runs');
	like($type->("ipuctl cordon 127.0\t --help"), qr/ipuctl cordon \Q$controller\E/, 'a name with a colon');
	spit(test_dir() . '/only-one.yaml', 'x');
	like($type->('cd ' . test_dir() . "\nipuctl validate only-\t"), qr/validate only-one\.yaml/, 'files');
};

subtest 'zsh' => sub {
	plan skip_all => 'no zsh on this machine (./setup --tests)' if !grep { -x "$_/zsh" } split /:/, $ENV{PATH};
	is(run(['zsh', '-n', $script{zsh}])->{status}, 0, 'its syntax');
	my $said = run(['zsh', '-fc', "compdef() { }; _files() { print files }; compadd() { print -rl -- \"\${(\@P)2}\" }; source $script{zsh};"
		. ' words=(ipuctl explain -n team ""); CURRENT=5; _ipuctl; words=(ipuctl validate ""); CURRENT=3; _ipuctl'], env => \%env);
	is($said->{out}, "large\nsmall\nfiles\n", 'its function') or diag($said->{err});
};

subtest 'fish' => sub {
	plan skip_all => 'no fish on this machine (./setup --tests)' if !grep { -x "$_/fish" } split /:/, $ENV{PATH};
	is(run(['fish', '-n', $script{fish}])->{status}, 0, 'its syntax');
	my $said = run(['fish', '-c', "source $script{fish}; complete -C 'ipuctl explain -n team '; complete -C 'ipuctl sta'"], env => \%env, seconds => 60);
	is($said->{out}, "large\nsmall\nstats\n", 'its own completion') or diag($said->{err});
};

subtest 'kubectl' => sub {
	plan skip_all => 'no kubectl on this machine (./setup --tests)' if !grep { -x "$_/kubectl" } split /:/, $ENV{PATH};
	is(run(['kubectl', '__complete', 'ipu', 'explain', '-n', 'team', ''], env => \%env, seconds => 60)->{out}, "large\nsmall\n:4\n", 'kubectl ipu is completed');
	like(run(['kubectl', 'ipu', 'top', '--once', '-n', 'team'], env => \%env, seconds => 60)->{out}, qr/^team +ipujob\/large +8 /m, '... and runs');
};

# ---- top ----

my $top = ctl('top');
is("$top->{status} $top->{err}", '0 ', 'top where there is no terminal') or diag($top->{err});
like($top->{out}, qr/^CONTROLLER .*\n\Q$controller\E +Ready +16 +12 .*\n\nNAMESPACE +IPUS +JOBS .*\nteam +10 +2 +2 +0 .*\nother +2 +1 +1 +8 .*\n\nNAMESPACE +OWNER .*\nteam +ipujob\/large +8 +1 .*\n(?:team|other) .*\n(?:team|other) .*\n\z/ms,
	'controllers, namespaces, jobs, those with most IPUs first');
my $json = json_decode(ctl('top', '-o', 'json', '-n', 'other')->{out});
is_deeply([map { [@$_{qw(namespace ipus jobs waitingIPUs)}] } @{$json->{namespaces}}], [['other', 2, 1, 8]], 'as JSON, of one namespace');
is_deeply([map { $_->{name} } @{$json->{jobs}}], ['single'], '... its jobs');
cmp_ok($json->{jobs}[0]{ipuSeconds}, '>=', 2 * $json->{jobs}[0]{heldSeconds}, '... and IPU-seconds');
is($json->{total}{usedIPUs}, 12, '... the sums stay all');

# Runs at a terminal what types itself by and by: a pipe is the keyboard. What is shown, then the keys that
# are typed upon it, and again.
sub at_terminal {
	my ($command, @typed) = @_;
	my $out = test_dir() . '/terminal';
	spit($out, '');
	my $fifo = test_dir() . '/keyboard';
	system('mkfifo', $fifo) if !-p $fifo;
	my $shell = start('script', path => '/bin/bash', ports => 0, env => \%env, args => ['-c', "exec script -qefc '$command' $out <$fifo >/dev/null"]);
	open(my $keyboard, '>', $fifo) or die;
	while (my ($until, $keys) = splice @typed, 0, 2) {
		wait_until('the terminal to show it', sub { (slurp($out) // '') =~ $until });
		syswrite $keyboard, $keys;
	}
	wait_until('it ends', sub { !$shell->is_alive }, while_alive => []);
	close $keyboard;
	$shell->stop(status => 0);
	return slurp($out);
}

my $live = at_terminal(program('ipuctl') . ' top --interval 1', qr/(?:ipuctl top.*?){2}/s, 'q');
like($live, qr/\e\[\?1049h\e\[\?25l\e\[H.*every 1 s, q quits/s, 'the live view has a screen of its own');
like($live, qr/\e\[\?25h\e\[\?1049l/, '... gives it back');
like($live, qr/\e\[1mCONTROLLER/, '... in colours');
$live = at_terminal('bash -mc "' . program('ipuctl') . ' top --interval 1; echo stopped by \$?; fg"', qr/every 1 s/, "\cZ", qr/stopped by \d+.*every 1 s/s, 'q');
like($live, qr/\e\[\?1049h.*\e\[\?25h\e\[\?1049l.*stopped by 148.*\e\[\?1049h\e\[\?25l.*\e\[\?25h\e\[\?1049l/s, '... while it is stopped by ^Z, too');
unlike(at_terminal("NO_COLOR=1 " . program('ipuctl') . ' stats; read key', qr/TOTAL/, "\n"), qr/\e\[1m/, 'none with NO_COLOR');

# ---- slow answers ----

my $silent = IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 4) or die "listen: $!\n";
my $slow = at_terminal(program('ipuctl') . ' stats -t 2 -s http://127.0.0.1:' . $silent->sockport . '; read key', qr/ipuctl: .*\n/, "\n");
like($slow, qr/\r\e\[Kwaiting for an answer, 1 of 2 s.*\r\e\[K.*ipuctl: /s, 'a line that shows a slow answer comes and goes');
unlike(ctl('stats', '-t', 2, '-s', 'http://127.0.0.1:' . $silent->sockport)->{err}, qr/waiting/, '... and never where there is no terminal');

$operator->stop(status => 0);
$sim->stop(status => 0);
done_testing();
