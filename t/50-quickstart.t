#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ./quickstart: the story is the objects' own. With other delays, a refusal, a partition in error or a
# Pod that fails it is another one; however it ends, no process and no file is left.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(300);
my $top = top_srcdir();
my $quickstart = "$top/quickstart";
my $folder = test_dir() . '/tmp';
mkdir $folder or die "$folder: $!\n";
my %env = (TMPDIR => $folder);
my @fast = map { (sim => $_) } qw(--create-ms=100 --remove-ms=100 --pod-start-ms=100 --pod-run-ms=300);

# Pairs: sim => ARG, operator => ARG, anything else an option of its own.
sub arguments {
	my @arguments = ('--build', $ENV{TOP_BUILDDIR});
	while (my ($key, $value) = splice @_, 0, 2) {
		push @arguments, $key eq 'sim' ? ('--sim-arg', $value)
			: $key eq 'operator' ? ('--operator-arg', $value) : ($key, $value // ());
	}
	return @arguments;
}

# Processes that have the folder in their command line: ipu-sim, ipu-operator and the story.
sub processes {
	my @found;
	for my $file (glob '/proc/[0-9]*/cmdline') {
		my $text = slurp($file) // next;
		push @found, $file =~ /(\d+)/ if index($text, "$folder/ipu-quickstart-") >= 0;
	}
	return @found;
}

sub nothing_left {
	my ($name) = @_;
	is_deeply([processes()], [], "$name: no process is left");
	is_deeply([glob "$folder/*"], [], "$name: no file is left");
	return;
}

# The lines of a story: {at, subject, words}, and the rest of the output as {text}.
sub lines {
	my ($out) = @_;
	return map {
		/^ *([\d.]+) s  (\S+(?: \S+)*) +(\S.*)$/ ? {at => $1, subject => $2, words => $3} : {text => $_}
	} split /\n/, $out;
}

# One whole story. Returns what run() does, with {lines}.
sub story {
	my ($name, @options) = @_;
	my $result = run([$quickstart, arguments(@options)], env => \%env, seconds => 60);
	$result->{lines} = [lines($result->{out})];
	nothing_left($name);
	return $result;
}

# The first line of a subject with these words, behind another one.
sub find {
	my ($result, $subject, $words, $behind) = @_;
	my $begin = defined $behind ? $behind->{number} + 1 : 0;
	for my $number ($begin .. $#{$result->{lines}}) {
		my $line = $result->{lines}[$number];
		$line->{number} = $number;
		return $line if ($line->{subject} // '') =~ $subject && $line->{words} =~ $words;
	}
	return undef;
}

# That these lines come, in this order. Returns the last one, or those of the list.
sub in_order {
	my ($name, $result, @wanted) = @_;
	my ($line, @found);
	for my $want (@wanted) {
		$line = find($result, @$want, $line);
		ok($line, "$name: $want->[0] says $want->[1]")
			or diag($result->{out}, $result->{err}) && return ();
		push @found, $line;
	}
	return @found;
}

sub last_line { return $_[0]{lines}[-1]{text} // '' }

my $id = qr/mnist-training-default-0-[0-9a-f]{10}/;
my $event = qr{^event/mnist-training$};
my $job = qr{^ipujob/mnist-training$};
my $pod = qr{^pod/mnist-training-worker-0$};
my $stats = qr{^GET /stats$};
my @begin = ([$stats, qr/^\{"total":\{"used":0,"available":64\}\}$/], [qr/^in a browser$/, qr{^http://127\.0\.0\.1:\d+/$}], [$job, qr/^created/],
	[$event, qr/^PartitionRequested/]);
my @runs = ([$event, qr/^PartitionActive/], [$event, qr/^PodCreated/], [$pod, qr/^Running  sim0/]);
my @completes = ([$pod, qr/^Succeeded .*Completed/], [$job, qr/^Completed  All instances done/],
	[$event, qr/^PartitionReleased/], $begin[0]);

subtest 'the story' => sub {
	my $result = story('as it is', @fast);
	is($result->{status}, 0, 'exit status') or diag($result->{err});
	is($result->{err}, '', 'nothing on standard error');
	my @lines = in_order('as it is', $result, @begin, @runs, [$job, qr/^Running/], @completes);
	like($lines[4]{words} // '', qr/^PartitionActive  Partition $id with 1 IPU on 127.0.0.1:\d+ is active$/,
		'the partition with id, size and controller');
	is(last_line($result),
		'ipujob/mnist-training Completed: All instances done; 0 IPUs used, 64 available',
		'the last line says so');
	my %seen;
	my @twice = grep { $seen{$_}++ } map { "$_->{subject} $_->{words}" }
		grep { $_->{subject} && $_->{subject} !~ $stats } @{$result->{lines}};
	is_deeply(\@twice, [], 'nothing is said twice');
};

# The line before may be shown late on a busy machine: so they show by two thirds of what they are.
subtest 'other delays' => sub {
	for my $case (
		['a slow controller', '--create-ms=1500', 1.0, [$event, qr/^PartitionRequested/], $runs[0]],
		['a slow start', '--pod-start-ms=1500', 1.0, [$event, qr/^PodCreated/], $runs[2]],
		['a long run', '--pod-run-ms=1500', 1.0, $runs[2], $completes[0]],
		['a slow removal', '--remove-ms=1500', 1.0, $completes[1], $completes[2]],
	) {
		my ($name, $argument, $least, $from, $to) = @$case;
		my $result = story($name, @fast, sim => $argument);
		is($result->{status}, 0, "$name: exit status") or diag($result->{err});
		my ($first, $second) = in_order($name, $result, $from, $to);
		cmp_ok($second->{at} - $first->{at}, '>=', $least, "$name shows") if $second;
	}
};

subtest 'another job' => sub {
	my $file = spit(test_dir() . '/big.yaml',
		slurp("$top/doc/examples/mnist-training.yaml") =~ s/ipusPerJobInstance: "1"/ipusPerJobInstance: "8"/r);
	my $result = story('8 IPUs', @fast, '--job' => $file);
	is($result->{status}, 0, 'exit status') or diag($result->{err});
	in_order('8 IPUs', $result, [$event, qr/^PartitionActive  Partition $id with 8 IPUs/]);
	$result = story('too large', @fast, '--job' => $file, sim => '--agents=1');
	is($result->{status}, 1, 'more IPUs than there are: exit status');
	in_order('too large', $result, [$stats, qr/"available":4\}/]);
	like($result->{err}, qr/is invalid: spec\.ipusPerJobInstance: .*has 8 IPUs .*the largest has 4/, 'the webhook refuses it');
	$result = story('no end', @fast, '--seconds' => 6, sim => '--vipu-fault', sim =>
		'{"kind":"status","method":"CreatePartition","status":"RESOURCE_EXHAUSTED","count":0}');
	is($result->{status}, 1, 'a job that gets no IPUs: exit status');
	like($result->{err}, qr/^quickstart: 6 s have passed.*ipujob\/mnist-training is Pending: ./m,
		'the deadline says what the job waits for');
};

subtest 'a refusal' => sub {
	my $result = story('refusal', @fast, sim => '--vipu-fault', sim =>
		'{"kind":"status","method":"CreatePartition","status":"RESOURCE_EXHAUSTED","message":"all taken"}');
	is($result->{status}, 0, 'exit status') or diag($result->{err});
	# Who is refused at once may be told of the refusal alone.
	in_order('refusal', $result, @begin[0, 1], [$event, qr/^PartitionRefused  .*all taken/],
		[$event, qr/^PartitionRequested/], @runs, @completes);
	ok(find($result, $job, qr/^Pending  .*all taken/), 'the status says it too');
};

subtest 'a partition in error' => sub {
	my $result = story('PS_ERROR', @fast, sim => '--vipu-fault', sim =>
		'{"kind":"end-in-error","method":"CreatePartition"}');
	is($result->{status}, 0, 'exit status') or diag($result->{err});
	my @lines = in_order('PS_ERROR', $result, @begin, [$event, qr/^PartitionFailed/],
		[$event, qr/^PartitionRequested/], @runs, @completes);
	my @ids = map { /($id)/ } map { $_->{words} } @lines[2, 4];
	isnt($ids[0], $ids[1], 'another one is made');
};

subtest 'a Pod that fails' => sub {
	my $result = story('failure', @fast, sim => '--pod-exit-code=3');
	is($result->{status}, 1, 'exit status');
	in_order('failure', $result, @begin, @runs, [$pod, qr/^Failed .*exit code 3/],
		[$event, qr/^PodFailed/], [$event, qr/^PartitionReleased/], $begin[0]);
	like($result->{err}, qr/^quickstart: ipujob\/mnist-training Failed: .*exited with 3/, 'the reason');
	unlike($result->{out}, qr/Completed/, 'nothing says Completed');
};

subtest 'a Pod that does not start' => sub {
	my $result = story('no image', @fast, '--seconds' => 3, sim => '--pods', sim =>
		'{"startError":"ErrImagePull","message":"no such image"}');
	is($result->{status}, 1, 'exit status');
	in_order('no image', $result, [$pod, qr/^Pending  sim0  ErrImagePull  no such image/],
		[$pod, qr/^Pending  sim0  ImagePullBackOff/]);
	ok(find($result, $event, qr/^PodNotStarting  .*no such image/), 'the Event');
	like($result->{err}, qr/is Pending: .*no such image/, 'the reason');
};

subtest 'bad manifests and command lines' => sub {
	my $bad = spit(test_dir() . '/bad.yaml',
		slurp("$top/doc/examples/mnist-training.yaml") =~ s/ipusPerJobInstance: "1"/ipusPerJobInstance: "3"/r);
	my $result = story('a broken rule', '--job' => $bad);
	is($result->{status}, 1, 'a broken rule: exit status');
	like($result->{err}, qr/spec\.ipusPerJobInstance: .*must be a power of two/, 'the rule is named');
	for my $case (
		[['--frob'], qr/^quickstart: --frob: there is no such option/],
		[['--job'], qr/^quickstart: --job: needs a value/],
		[['--job', '/no/such/file'], qr{^quickstart: /no/such/file: can't be read}],
		[['--seconds', 'soon'], qr/^quickstart: --seconds: must be a number/],
	) {
		my ($arguments, $words) = @$case;
		my $got = run([$quickstart, @$arguments], env => \%env);
		is($got->{status}, 2, "@$arguments: exit status");
		like($got->{err}, qr/$words[^\n]*\n\z/, "@$arguments: one line says why");
	}
	is(run([$quickstart, '--help'])->{status}, 0, '--help');
};

# PATH without kubectl: the manifest goes to the API server as it is.
subtest 'without kubectl' => sub {
	my $bin = test_dir() . '/bin';
	mkdir $bin or die "$bin: $!\n";
	for my $name (qw(bash env perl dirname mktemp sed sleep tail rm cat)) {
		symlink(program_or_skip($name), "$bin/$name") or die "$bin/$name: $!\n";
	}
	local $env{PATH} = $bin;
	my $result = story('without kubectl', @fast);
	is($result->{status}, 0, 'exit status') or diag($result->{err});
	in_order('without kubectl', $result, @begin, @runs, @completes);
};

# Starts a story that doesn't end, and waits until a line has come.
sub start_story {
	my ($line, @options) = @_;
	my $program = start('quickstart', path => $quickstart, ports => 0, env => \%env,
		args => [arguments(@fast, sim => '--pod-run-ms=0', @options)]);
	wait_until("the story to say $line", sub { ($program->out // '') =~ $line });
	return $program;
}

subtest 'signals' => sub {
	for my $case (['INT', 130], ['TERM', 143], ['HUP', 129]) {
		my ($signal, $status) = @$case;
		my $program = start_story(qr/JobRunning/);
		is(scalar processes(), 3, "$signal: three programs run");
		$program->stop(signal => $signal, status => $status);
		nothing_left($signal);
	}
	my $terminal = start('quickstart', path => program_or_skip('setsid'), ports => 0, env => \%env,
		args => [$quickstart, arguments(@fast, sim => '--pod-run-ms=0')]);
	wait_until('the story to say JobRunning', sub { ($terminal->out // '') =~ /JobRunning/ });
	kill('INT', -$terminal->pid);
	wait_until('the quickstart to end', sub { !$terminal->is_alive }, while_alive => []);
	unlike($terminal->err, qr/ended by itself/, 'Ctrl-C in a terminal: nobody is blamed');
	$terminal->stop(status => 130);
	nothing_left('Ctrl-C in a terminal');
	my $early = start('quickstart', path => $quickstart, ports => 0, env => \%env,
		args => [arguments(@fast)]);
	wait_until('the first program to run', sub { processes() });
	$early->stop(signal => 'INT', status => 130);
	nothing_left('INT at the beginning');
};

subtest 'a program that dies' => sub {
	for my $name (qw(ipu-operator ipu-sim)) {
		my $program = start_story(qr/JobRunning/);
		my ($victim) = grep { (slurp("/proc/$_/cmdline") // '') =~ m{^[^\0]*/$name\0} } processes();
		ok($victim, "$name runs") or next;
		kill('KILL', $victim);
		wait_until("the quickstart to end", sub { !$program->is_alive }, while_alive => []);
		like($program->err, qr/^quickstart: $name ended by itself, with status 137/m, "$name is named");
		$program->stop(status => 1);
		nothing_left("$name dies");
	}
	my $program = start_story(qr/JobRunning/);
	$program->crash;
	wait_until('the others to end', sub { !processes() });
	is_deeply([processes()], [], 'the quickstart itself is killed: no process is left');
	system('rm', '-rf', glob "$folder/*");
	my $result = story('a wrong option', operator => '--frob');
	is($result->{status}, 1, 'a program that ends at once: exit status');
	like($result->{err}, qr/ipu-operator: --frob: there is no such option/, 'its own words are shown');
};

subtest 'to stay' => sub {
	my $program = start('quickstart', path => $quickstart, ports => 0, env => \%env,
		args => [arguments(@fast, '--stay')]);
	wait_until('the kubeconfig to be named', sub { ($program->out // '') =~ m{kubectl wait [^\n]*\n} });
	like($program->out, qr/^ipujob\/mnist-training Completed/m, 'after the story');
	my ($kubeconfig) = $program->out =~ /The kubeconfig: (\S+)/;
	ok(-r $kubeconfig, 'the kubeconfig is there');
	my ($url) = $program->out =~ m{curl (http://\S+/sim/state)};
	is(http('GET', $url)->{status}, 200, 'the simulator answers');
	my ($proxy) = $program->out =~ m{curl (http://\S+/stats)};
	is(http('GET', $proxy)->{status}, 200, 'the operator answers');
	my ($page) = $program->out =~ m{^The pod in a browser: (http://\S+/)$}m;
	like(http('GET', $page)->{content}, qr/<!DOCTYPE html>/i, 'the live page is there');
	is(http('GET', $page . 'live')->{json}{mode}, 'full', '... with names');
	my ($exports, $try) = $program->out =~ /^    (export [^\n]*)\n.*^To look at a job that waits: [^\n]*\n\n(.*)/ms;
	my @commands = map { s/^    //r } split /\n/, $try;
	is(scalar @commands, 5, 'the commands to try');
	SKIP: {
		skip('without kubectl', 6) if !grep { -x "$_/kubectl" } split /:/, $ENV{PATH};
		my $queue = '';
		for my $command (@commands) {
			my $asks = $command =~ /queue$/;
			my $result = run(['sh', '-ec', "$exports\n" . ($asks ? "until $command | grep WaitingForIPUs; do sleep 0.1; done" : $command)],
				seconds => 60);
			is($result->{status}, 0, $command) or diag($result->{out}, $result->{err});
			$queue .= $result->{out} if $asks;
		}
		like($queue, qr/\bfirst\b.*WaitingForIPUs/, 'the job waits, and the queue says so');
	}
	$program->stop(signal => 'INT', status => 0);
	nothing_left('to stay');
};

done_testing();
