#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Faults put on purpose into the partition planner, and into what the model has of the protocols around
# it: the model (doc/design/partition-model.md) must catch each of them, or it proves nothing.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(600);

my $steps = 1_000_000; # at most; a mutant that survives them isn't caught
my $at_a_time = 2;

my ($plan, $facts) = ('src/partition/plan.c', 'src/partition/facts.c');
my ($replica, $tracker) = map { "t/unit/partition_model_$_.c" } qw(replica tracker);
my @sources = ($plan, $facts, map { "t/unit/partition_model_$_.c" }
		qw(test end owner replica tracker world));

# Name, file, then pairs: what is there exactly once, and what replaces it.
my @mutants = (
	['the tracker is written after the create', $plan,
		"\tif (!facts->recorded)\n" => "\tif (!facts->recorded && entry->phase != PARTITION_CREATING)\n"],
	['a reset is sent without a record', $plan,
		"\tif (is_stale(v))\n" => "\tif (is_stale(v))\n\t\treturn call(v, PARTITION_CALL_RESET);\n\tif (is_stale(v))\n"],
	['a reset is skipped: another run just takes the partition', $facts,
		"\tif (takes_attempt(entry->phase, phase))\n"
		=> "\tif (phase == PARTITION_RESETTING)\n\t\tphase = PARTITION_ACTIVE, entry->ask.attempt = f->attempt;\n\tif (takes_attempt(entry->phase, phase))\n"],
	['a reset is forgotten', $plan,
		"\tif (is_stale(v))\n\t\treturn record(PARTITION_RESETTING, PARTITION_WHY_NONE);\n" => ''],
	['a reset for an earlier run counts for a later one', $facts,
		'(to == PARTITION_ACTIVE && from == PARTITION_CREATING)' => 'to == PARTITION_ACTIVE'],
	['a reset never counts', $facts,
		'to == PARTITION_CREATING || to == PARTITION_RESETTING ||' => 'to == PARTITION_CREATING ||'],
	['a run is recorded while an earlier reset is under way', $plan,
		'if (is_stale(v) && reset_not_begun(v))' => 'if (is_stale(v))'],
	['released under its Pods: its controller left', $plan,
		"active(const struct view *v)\n{\n\tconst struct partition_facts *f = v->f;\n\n\tif (!f->wanted)"
		=> "active(const struct view *v)\n{\n\tconst struct partition_facts *f = v->f;\n\n\tif (!f->wanted || !f->configured)"],
	['released under its Pods: it is in error', $plan,
		"\t\treturn poll_status_every(v, v->t->broken_ms);"
		=> "\t\treturn record(PARTITION_RELEASING, PARTITION_WHY_ERROR);"],
	['NOT_FOUND is believed too early', $plan,
		'v->f->status == PARTITION_NOT_FOUND && v->f->status_asked_ms >= v->e->settle_ms'
		=> 'v->f->status == PARTITION_NOT_FOUND',
		'v->f->listed == PARTITION_NOT_FOUND && v->f->listed_asked_ms >= v->e->settle_ms'
		=> 'v->f->listed == PARTITION_NOT_FOUND'],
	['a status of before the settling is believed', $plan,
		'v->f->status == PARTITION_NOT_FOUND && v->f->status_asked_ms >= v->e->settle_ms'
		=> 'v->f->status == PARTITION_NOT_FOUND'],
	['a list of before the settling is believed', $plan,
		'v->f->listed == PARTITION_NOT_FOUND && v->f->listed_asked_ms >= v->e->settle_ms'
		=> 'v->f->listed == PARTITION_NOT_FOUND'],
	['absence is believed from a list alone', $plan,
		'return status_says_absent(v) && list_says_absent(v);' => 'return list_says_absent(v);'],
	['absence is believed from a status alone', $plan,
		'return status_says_absent(v) && list_says_absent(v);' => 'return status_says_absent(v);'],
	['ALREADY_EXISTS is taken for ours', $plan,
		'if (f->answer == PARTITION_EXISTS && !unknown)' => 'if (false)'],
	['another size is taken for ours', $plan,
		' && (!unknown || f->listed == PARTITION_PRESENT))' => ')'],
	['another size is forgotten while a create may land', $plan,
		'return unknown || f->busy ?' => 'return false ?'],
	['another size listed before the create succeeded counts', $plan,
		'if (is_foreign_yet(v))' => 'if (has_other_size(v))'],
	['another size is removed', $plan,
		"\tif (has_other_size(v))\n\t\treturn plan_foreign(v, PARTITION_WHY_NONE);\n" => ''],
	['a create is sent after its window', $plan,
		"\tif (in_window(v))\n\t\treturn call(v, PARTITION_CALL_CREATE);"
		=> "\tif (true)\n\t\treturn call(v, PARTITION_CALL_CREATE);"],
	['a create is sent again after its window', $plan,
		"\tif (!in_window(v))\n\t\treturn record(PARTITION_RELEASING, PARTITION_WHY_ERROR);\n" => ''],
	['settling is not carried over', $plan,
		'if (certain || settle_ms > entry->settle_ms)' => 'if (true)'],
	['an unknown reset is not waited for', $plan,
		'if (f->answer == PARTITION_UNKNOWN && !settled(v))' => 'if (false)'],
	['an orphan is forgotten', $plan,
		'return record(PARTITION_ORPHAN, PARTITION_WHY_UNREACHABLE);'
		=> 'return forget(PARTITION_WHY_UNREACHABLE);'],
	['what nobody waits for is forgotten', $plan,
		'return record(v->f->abandoned ? PARTITION_ORPHAN : PARTITION_RELEASING, PARTITION_WHY_NONE);'
		=> 'return v->f->abandoned ? forget(PARTITION_WHY_NONE) : record(PARTITION_RELEASING, PARTITION_WHY_NONE);'],
	['an orphan stays for ever', $plan,
		'if (orphan && !f->configured)' => 'if (orphan)'],
	["a remove's OK is taken for gone", $plan,
		"\tif (f->answer == PARTITION_OK && f->now_ms < f->answered_ms + v->t->remove_ms)\n\t\treturn poll_status(v);"
		=> "\tif (f->answer == PARTITION_OK)\n\t\treturn forget(PARTITION_WHY_NONE);"],
	['one that vanished is reset for ever', $plan,
		"\tif (f->status == PARTITION_NOT_FOUND || f->listed == PARTITION_NOT_FOUND)\n\t\treturn settled(v) ? prove_absent(v) : wait_until(v->e->settle_ms);\n\tif (in_window(v))"
		=> "\tif (in_window(v))"],
	['a lost reply is taken for a refusal', $facts,
		'return err->maybe_applied ? PARTITION_UNKNOWN : PARTITION_REFUSED;'
		=> 'return PARTITION_REFUSED;'],
	["a loaded entry's requests are taken for unsent", $facts,
		'.was_unknown = loaded,' => '.was_unknown = false,',
		'if (loaded && (phase' => 'if (false && (phase'],
	['an unknown create is forgotten by the next answer', $facts,
		"\tif (f->answer == PARTITION_UNKNOWN)\n\t\tf->was_unknown = true;\n\tf->answer = answer_of(err);"
		=> "\tf->answer = answer_of(err);"],
	['an unknown create is forgotten by the next record', $facts,
		"\tif (f->answer == PARTITION_UNKNOWN)\n\t\tf->was_unknown = true;\n\tif (takes_attempt"
		=> "\tif (takes_attempt"],
	['a call that was given up is taken for unsent', $facts,
		'if (f->calling == PARTITION_CALL_CREATE || f->calling == PARTITION_CALL_RESET)' => 'if (false)'],
	['looks that contradict each other both count', $facts,
		'if (f->status == PARTITION_NOT_FOUND && f->status_asked_ms <= asked_ms)' => 'if (false)'],
	['a resource version is ignored', $tracker,
		'q->ok = q->is_read || q->version == w->version;' => 'q->ok = true;'],
	['a new leader believes what it reads before it has written', $tracker,
		'	rep->was_read = true;' => "\trep->was_read = rep->synced = true;"],
	['an owner is served twice', $replica,
		'!s->asking || s->serving != NONE || s->failed' => '!s->asking || s->failed'],
	['a leader acts on after its lease', $replica,
		'return rep->alive && rep->leader && w->now_ms < rep->lease_until_ms;'
		=> 'return rep->alive && rep->leader && w->now_ms < rep->lease_until_ms + 20000;'],
);

sub commands {
	delete local @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
	my $said = run([$ENV{MAKE} // 'make', '-s', '--no-print-directory', '-C', $ENV{TOP_BUILDDIR},
		'model-commands']);
	my ($compile, $libraries) = split /\n/, $said->{out};
	is($said->{status}, 0, 'the build says how it compiles') or BAIL_OUT($said->{err});
	return ($compile, $libraries);
}

my ($compile, $libraries) = commands();

# The source with a fault, or undef: what should be replaced isn't there, or more than once.
sub mutate {
	my ($text, @pairs) = @_;
	while (my ($from, $to) = splice @pairs, 0, 2) {
		my $parts = () = $text =~ /\Q$from\E/g;
		return if $parts != 1;
		$text =~ s/\Q$from\E/$to/;
	}
	return $text;
}

# Builds the model in a folder of its own, and plays it. Run in a child process: its exit status is 0
# when the model says that all is well, 1 when it caught something, another when it couldn't be told.
sub play {
	my ($dir, $changed) = @_;
	my $input = join ' ', map {
		my $object = s/\.c$/.o/r;
		!$changed->{$_} && /^t/ ? $object : $changed->{$_} // top_srcdir() . "/$_";
	} @sources;
	chdir $ENV{TOP_BUILDDIR} or die "$ENV{TOP_BUILDDIR}: $!\n";
	open(STDOUT, '>', "$dir/out") or die "$dir/out: $!\n";
	open(STDERR, '>&', \*STDOUT) or die "stderr: $!\n";
	system("$compile -Wno-error -o $dir/model $input $libraries") == 0 or exit 99;
	$ENV{IPU_MODEL_STEPS} = $steps;
	exec "$dir/model", '--brief' or exit 98;
}

my %playing;

sub reap {
	my $pid = wait;
	my $run = delete $playing{$pid} or return;
	my $said = slurp("$run->{dir}/out");
	chomp $said;
	my $status = $?;
	my ($verdict) = $said =~ /^((?:broken|well) after .*)\z/m;
	is($status, $run->{want} << 8, "$run->{name}: " . ($verdict // 'nothing is said')) or diag($said);
	return;
}

sub begin {
	my ($name, $want, $file, @pairs) = @_;
	my $dir = test_dir() . '/' . (1000 + begin_count());
	my %changed;
	mkdir $dir or die "$dir: $!\n";
	if ($file) {
		my $text = mutate(slurp(top_srcdir() . "/$file"), @pairs);
		if (!defined $text) {
			fail("$name: what is to be replaced is in $file once");
			return;
		}
		($changed{$file}) = map { "$dir/" . s{.*/}{}r } $file;
		spit($changed{$file}, $text);
	}
	reap() while keys %playing >= $at_a_time;
	my $pid = fork() // die "fork: $!\n";
	play($dir, \%changed) if !$pid;
	$playing{$pid} = {name => $name, want => $want, dir => $dir};
	return;
}

{
	my $count = 0;
	sub begin_count { return $count++ }
}

begin('the program as it is', 0);
begin($_->[0], 1, @{$_}[1 .. $#$_]) for @mutants;
reap() while %playing;
done_testing();
