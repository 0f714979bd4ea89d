#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The commands of the documentation, run in their order, most on the simulated cluster of ./quickstart --stay; where a page
# shows what a command prints, it's compared. doc/HACKING.md, "Write documentation", says how a block is marked.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use DocPage qw(pages blocks marks bad_form is_manifest is_run commands);
use IpuTest;
use IpuTree qw(file_text top_srcdir);
use Test::More;

my $kubectl = program_or_skip('kubectl');
program_or_skip($_) for qw(curl jq);
watchdog(600);

my @all = pages();
my @pages = grep { !$ENV{IPU_PAGE} || index($_, $ENV{IPU_PAGE}) >= 0 } @all;
# What runs the commands of a page that can't be run here.
my %elsewhere = ('etc/release/RELEASE.md.in' => 't/76-bundle.t');
# Pages for developers, in the build folder; and those whose commands start what they need.
my $in_build = qr{^doc/(?:HACKING\.md$|design/)};
my $alone = qr{$in_build|\bipu-sim\.};
my $top = top_srcdir();
my $build = $ENV{TOP_BUILDDIR};

# ---- judging by the form ----

# What the operator says of a block of its configuration.
sub check_configuration {
	my ($where, $block) = @_;
	my $kubeconfig = spit(test_dir() . '/kubeconfig', <<'END');
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: a}}]
END
	my $result = run([program('ipu-operator'), '--config', spit(test_dir() . '/operator.yaml', $block->{text}),
		"--kubeconfig=$kubeconfig", '--set=operatorNamespace=ipu-operator', '--check-config']);
	is($result->{status}, 0, "$where: the operator takes this configuration") or diag($result->{err});
	return;
}

# ---- comparing ----

# A line that is shown, as a pattern: blanks count as one, times and long identifiers for any, and "…" for anything.
sub pattern {
	my ($line) = @_;
	my $pattern = join '\s+', map { join '.*', map { word($_) } split /…/, $_, -1 } split ' ', $line;
	return qr/^\s*$pattern\s*$/;
}

sub word {
	my ($word) = @_;
	return '(?:\d+[smhd])+' if $word =~ /^(?:\d+[smhd])+$/;
	return join '[0-9a-f]{10,}', map { quotemeta } split /[0-9a-f]{10,}/, $word, -1;
}

# The first line shown that the output doesn't have behind those before it, or undef.
sub missing {
	my ($shown, $out) = @_;
	my @out = split /\n/, $out;
	for my $line (@$shown) {
		next if $line =~ /^\s*(?:…)?\s*$/;
		my $pattern = pattern($line);
		while (1) {
			return $line if !@out;
			last if shift(@out) =~ $pattern;
		}
	}
	return undef;
}

is(missing(['A   B', 'x-0123456789   5m'], "A B\nother\nx-abcdef012345 17s\n"), undef, 'self-test: shown');
is(missing(['A   C'], "A B\n"), 'A   C', 'self-test: not shown');
is(missing(['B', 'A'], "A\nB\n"), 'A', 'self-test: shown in another order');
is(missing(['a…e 1'], "abcde 1\n"), undef, 'self-test: dots');
ok(bad_form({language => 'sh', marks => marks('no-run: why'), text => ''}), 'self-test: a reason that is none');
ok(bad_form({language => 'yaml', marks => {}, text => "kubectl get x\n"}), 'self-test: a command among values');
ok(!bad_form({language => 'sh', marks => marks('no-run: needs a browser'), text => "x\n"}), 'self-test: a reason');
is_deeply([map { "$_->{line} $_->{language}" } blocks('a.md', <<'END')], ['3 indented', '7 sh', '13 indented'], 'self-test: code in Markdown');
# A

    code
    more
- a

  ```sh
  x
  ```

    none: a paragraph of the list's

          code
END
is_deeply([map { [@$_{qw(language marks text)}] } blocks('a.1', <<'END')],
.\" test: x
.\" until: it's there
.Bd -literal -offset indent
a \e
    b
.Ed
.Bd -literal
$ c
.Ed
.Dl d
END
	[['hidden', {}, "x\n"], ['sh', {until => "it's there"}, "a \\\n    b\n"], ['console', {}, "\$ c\n"], ['indented', {}, ".Dl d\n"]],
	'self-test: displays of a manual page');
cmp_ok(scalar @all, '>', 60, 'there are pages');

# ---- running ----

# What a page calls by a name that can't be known, here.
sub substituted {
	my ($text, $world) = @_;
	for my $pair (@{$world->{substitutions}}) {
		my ($from, $to) = @$pair;
		$text =~ s/(?<![\w.-])$from(?![\w-])/$to/g;
	}
	return $text;
}

# Everything that a page's commands find: a folder with what the project's folder holds, and a cluster unless they do without.
sub world {
	my ($page) = @_;
	my $folder = test_dir() . '/' . $page =~ s/\W/-/gr;
	mkdir $_ or die "$_: $!\n" for $folder, "$folder/bin", "$folder/tmp", "$folder/project", "$folder/steps";
	symlink "$top/$_", "$folder/project/$_" or die "$_: $!\n" for qw(crds doc etc helm README.md);
	symlink "$build/ipuctl", "$folder/bin/kubectl-ipu" or die "kubectl-ipu: $!\n";
	my $any_port = join ' ', map { "--set $_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen health.listen metrics.listen webhook.listen);
	my $world = {
		folder => $folder, cwd => $page =~ $in_build ? $build : "$folder/project",
		env => {
			HOME => $folder, TMPDIR => "$folder/tmp", PATH => "$folder/bin:$build:$ENV{PATH}", STEPS => "$folder/steps",
			KUBECONFIG => undef, IPUCTL_SERVER => undef, KUBECTL_REMOTE_COMMAND_WEBSOCKETS => 'true', http_proxy => undef,
			map { $_ => undef } qw(MAKEFLAGS MAKELEVEL PROVEFLAGS),
		},
		substitutions => [['\.\./t', "$top/t"], ['ipu-operator --set', "ipu-operator $any_port --set"], ['0\.0\.0\.0:8090', '127.0.0.1:0']],
	};
	add_cluster($world) if $page !~ $alone;
	return $world;
}

sub add_cluster {
	my ($world) = @_;
	my @fast = map { ('--sim-arg', $_) } qw(--create-ms=50 --reset-ms=50 --remove-ms=50 --pod-start-ms=50
		--pod-run-ms=300 --nodes=2), "--program=/ipu-launcher=$build/ipu-launcher";
	my @operator = map { ('--operator-arg', $_) } qw(--set=launcher.image=ipu-operator --set=proxy.tlsListen=127.0.0.1:0
		--set=vipu.idleRefreshSeconds=1);
	my @quickstart = ("$top/quickstart", '--build', $build, @fast);
	my $program = start('quickstart', path => shift(@quickstart), ports => 0, env => {TMPDIR => "$world->{folder}/tmp"},
		args => [@quickstart, @operator, '--stay']);
	wait_until('the cluster to be up', sub { ($program->out // '') =~ m{/sim/state\n} });
	my ($kubeconfig) = $program->out =~ /The kubeconfig: (\S+)/;
	my $state = $kubeconfig =~ s{/[^/]*$}{}r;
	my %port = map { /^(\S+) (\d+)$/mg } slurp("$state/sim.ports"), slurp("$state/operator.ports");
	$world->{program} = $program;
	$world->{env} = {%{$world->{env}}, KUBECONFIG => $kubeconfig, IPUCTL_SERVER => "http://127.0.0.1:$port{proxy}",
		ADMIN => "http://127.0.0.1:$port{admin}"};
	push @{$world->{substitutions}},
		['\./quickstart', join ' ', "$top/quickstart", @quickstart],
		['http://(?:HOST|127\.0\.0\.1):8080', "http://127.0.0.1:$port{proxy}"],
		['http://(?:HOST|127\.0\.0\.1):8081', "http://127.0.0.1:$port{health}"],
		['http://(?:HOST|127\.0\.0\.1):8444', "http://127.0.0.1:$port{metrics}"],
		['10\.5\.212\.116:8090', "127.0.0.1:$port{vipu0}"],
		['https://ipu-operator-vipu-proxy\.ipu-operator\.svc', "https://localhost:$port{'proxy-tls'}"],
		['NODE', 'sim1'];
	return;
}

# The page as one script for bash: a command's output goes to N.out, and what of it failed to N.failed.
sub script {
	my ($world, @commands) = @_;
	my $text = <<'END';
set -E +m
trap 'printf "%s\n" "$BASH_COMMAND" >>"$STEPS/$step.failed"' ERR
trap 'trap - ERR; kill $(jobs -p) 2>/dev/null' EXIT
# until_shown FILE TEXT: runs the commands until they have printed this.
until_shown() {
	setsid bash "$1" >"$STEPS/$step.out" 2>&1 &
	local pid=$! i
	for ((i = 0; i < 600; i++)); do
		if grep -qsF -- "$2" "$STEPS/$step.out"; then break; fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	kill -- -"$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	for ((i = 0; i < 200; i++)); do
		kill -0 -- -"$pid" 2>/dev/null || break
		sleep 0.05
	done
	kill -KILL -- -"$pid" 2>/dev/null
	grep -qF -- "$2" "$STEPS/$step.out"
}
# pods JSON: how the simulated Pods go.
pods() { curl -sSf -X POST --data "$1" "$ADMIN/sim/pods"; }
# eventually COMMAND…: again and again until it succeeds.
eventually() {
	local i
	for ((i = 0; i < 300; i++)); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		sleep 0.1
	done
	"$@"
}
END
	my $number = 0;
	for my $command (@commands) {
		my $file = "$world->{folder}/steps/" . ++$number;
		spit($file, substituted($command->{text}, $world));
		$text .= "step=$number\n" . (defined $command->{marks}{until}
			? "until_shown '$file' '$command->{marks}{until}' || echo 'not shown in time' >>\"\$STEPS/$number.failed\"\n"
			: "source '$file' >'$file.out' 2>&1 </dev/null\necho \$? >'$file.status'\n");
	}
	return $text;
}

sub judge_command {
	my ($world, $command, $number, $where) = @_;
	my $file = "$world->{folder}/steps/$number";
	my $out = slurp("$file.out") // return fail("$where: it was never reached");
	my $failed = (slurp("$file.failed") // '') =~ s/^source .*\n//gmr;
	my $wanted = $command->{marks}{status} // 0;
	my $status = defined $command->{marks}{until} ? ($failed eq '' ? 0 : 1) : (slurp("$file.status") // 255) + 0;
	my $missing = missing([map { substituted($_, $world) } @{$command->{shown} // []}], $out);
	my $good = ($wanted ? $status == $wanted : $status == 0 && $failed eq '') && !defined $missing;
	note("$where: $command->{text}$out") if $ENV{IPU_SHOW};
	my $name = $command->{language} eq 'hidden' ? 'prepared' : 'runs' . ($command->{shown} ? ' and shows that' : '');
	ok($good, "$where: $name")
		or diag("command: $command->{text}status: $status, wanted $wanted\n",
			$failed ne '' ? "failed: $failed" : (), defined $missing ? "not shown: $missing\n" : (), "output:\n$out");
	return;
}

sub run_page {
	my ($page, @blocks) = @_;
	my @commands;
	for my $block (grep { $_->{language} eq 'hidden' || is_run($_) || is_manifest($_) } @blocks) {
		push @commands, map { {%$_, %$block{qw(line language marks)}} } commands($block);
	}
	return if !@commands;
	my $world = world($page);
	spit("$world->{folder}/script", script($world, @commands));
	my $result = eval { run(['bash', "$world->{folder}/script"], name => 'page', seconds => 120, cwd => $world->{cwd},
		env => $world->{env}) } // {err => $@};
	is($result->{err}, '', "$page: the script itself");
	my $number = 0;
	judge_command($world, $_, ++$number, "$page:$_->{line}") for @commands;
	$world->{program}->stop(signal => 'INT', status => 0) if $world->{program};
	return;
}

for my $page (@pages) {
	my @blocks = blocks($page, file_text($page));
	my @bad = map { my $why = bad_form($_); defined $why ? "$page:$_->{line}: $why" : () } @blocks;
	is_deeply(\@bad, [], "$page: the form of its blocks");
	if ($elsewhere{$page}) {
		like(file_text($elsewhere{$page}), qr/\bDocPage\b/, "$page: its commands are run by $elsewhere{$page}");
		next;
	}
	my @tests = map { ($_->{marks}{'no-run'} // '') =~ m{\b(t/\S+\.t)\b}g } @blocks;
	is_deeply([grep { !-e "$top/$_" } @tests], [], "$page: the tests that it names for what isn't run here") if @tests;
	my @skipped = grep { defined $_->{marks}{'no-run'} } @blocks;
	note("$page:$_->{line}: not run: $_->{marks}{'no-run'}") for @skipped;
	my $run = grep { is_run($_) } @blocks;
	note("$page: $run blocks of commands are run, @{[scalar @skipped]} aren't") if $run || @skipped;
	check_configuration("$page:$_->{line}", $_) for grep { ($_->{marks}{what} // '') eq 'operator.yaml' } @blocks;
	run_page($page, @blocks);
}

done_testing();
