#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What doc/style.md says and a program can see: sizes, first lines, header guards, formatting,
# nothing left for later, no host names of package registries. See doc/HACKING.md.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(top_srcdir tree_files file_text);
use Test::More;

my $max_file_lines = 800;
my $max_function_lines = 80;

my $code = qr{\.(?:c|h|pl|pm|t|py|sh|go|js|mjs|proto|mk|m4|ac|am)$};

# clang-format's versions don't agree on everything: this one decides, both Debians have it.
my $clang_format = 'clang-format-19';

# Functions are what stands between a brace that opens a line and one that closes it; what
# clang-format leaves behind always does. In Perl a sub begins with its name.
sub long_functions {
	my ($path, $text) = @_;
	my @lines = split /\n/, $text;
	my ($begin, $name, @found) = (undef, '');
	for my $i (0 .. $#lines) {
		if ($path =~ /\.[ch]$/) {
			$name = $1 if !defined $begin && $lines[$i] =~ /^\w.*?(\w+)\(/;
			$begin = $i if $lines[$i] =~ /^\{$/;
		} elsif ($lines[$i] =~ /^sub (\w+)|^(\w+)\(\) \{$|^def (\w+)|^(?:export )?(?:async )?function (\w+)/) {
			($begin, $name) = ($i, $1 // $2 // $3 // $4);
		}
		if (defined $begin && $lines[$i] =~ /^\}/) {
			my $size = $i - $begin + 1;
			push @found, "$path:" . ($begin + 1) . ": $name has $size lines: split it"
				if $size >= $max_function_lines;
			$begin = undef;
		}
	}
	return @found;
}

sub too_long {
	my ($path, $text) = @_;
	my $lines = () = $text =~ /\n/g;
	return $lines < $max_file_lines ? () : ("$path has $lines lines: split it");
}

# The licence's line first (behind "#!" where there is one), then a comment of what the file is.
sub bad_head {
	my ($path, $text) = @_;
	$text =~ s/\A#!.*\n//;
	my ($open, $comment) = $path =~ /\.[ch]$/ ? (qr{/\* }, qr{/\*\n \* \S})
		: $path =~ /\.(?:go|proto|m?js)$/ ? (qr{// }, qr{//})
		: $path =~ /\.(?:m4|ac)$/ ? (qr{dnl }, qr{dnl})
		: (qr{\# }, qr{\#|"""});
	return "$path: the first line isn't its SPDX-License-Identifier"
		if $text !~ s{\A$open\QSPDX-License-Identifier: Apache-2.0\E(?: \*/)?\n}{};
	return "$path: no comment says what the file is" if $text !~ /\A\n?$comment/;
	return ();
}

# The guard is the path; a private header whose name begins with its folder's may leave that out.
sub bad_guard {
	my ($path, $text) = @_;
	return () if $path !~ /\.h$/;
	my $short = $path =~ s{^(?:include|src)/}{}r;
	my @guards = map { 'IPU_' . uc(s/[^A-Za-z0-9]/_/gr) } $short, $short =~ m{^([^/]+)/(\1_[^/]+)$} ? $2 : ();
	return () if grep { $text =~ /^#ifndef $_\n#define $_\n/m } @guards;
	return "$path: the guard isn't #ifndef $guards[0]";
}

# The words are put together here, so that this file doesn't hold them.
my $later = join '|', 'TO' . 'DO', 'FIX' . 'ME';

sub left_for_later {
	my ($path, $text) = @_;
	return grep { defined } map {
		$_->[1] =~ /\b($later)\b/ ? "$path:$_->[0]: $1: do it, or make it an issue" : undef
	} numbered($text);
}

# Hosts that hand out packages or images: which one a machine uses is that machine's business.
my @registry = map { join '.', @$_ } (
	['docker', 'io'], ['quay', 'io'], ['gcr', 'io'], ['ghcr', 'io'], ['registry', 'k8s'],
	['dl', 'k8s'], ['proxy', 'golang'], ['sum', 'golang'], ['pypi', 'org'],
	['pythonhosted', 'org'], ['registry', 'npmjs'], ['crates', 'io'], ['deb', 'debian'],
	['security', 'debian'], ['snapshot', 'debian'], ['ftp', 'debian'], ['mirror', 'gcr'],
);
my $registry = join '|', map { quotemeta } @registry;

sub names_registry {
	my ($path, $text) = @_;
	return grep { defined } map {
		$_->[1] =~ /(?<![\w.-])((?:[\w-]+\.)*(?:$registry))\b/
			? "$path:$_->[0]: $1 is a registry's host name" : undef
	} numbered($text);
}

sub numbered {
	my ($text) = @_;
	my $number = 0;
	return map { [++$number, $_] } split /\n/, $text;
}

# The checks find what they are for.
my $long = "int f(void)\n{\n" . "\tg();\n" x 78 . "}\n";
my $head = "/* SPDX-License-Identifier: Apache-2.0 */\n/*\n * What.\n */\n";
my @self_test = (
	['a long function', \&long_functions, 'src/a/a.c', $long, qr/a.c:2: f has 80 lines/],
	['one line less', \&long_functions, 'src/a/a.c', $long =~ s/\tg\(\);\n//r, undef],
	['a long sub', \&long_functions, 't/a.pm', "sub f {\n" . "g();\n" x 78 . "}\n", qr/f has 80/],
	['a long function of JavaScript', \&long_functions, 't/a.mjs', "export async function f() {\n" . "g();\n" x 78 . "}\n", qr/f has 80/],
	['a long file', \&too_long, 'a.c', "\n" x 800, qr/800 lines/],
	['one line less', \&too_long, 'a.c', "\n" x 799, undef],
	['no licence', \&bad_head, 'a.c', "int x;\n", qr/SPDX/],
	['no header comment', \&bad_head, 'a.c', $head =~ s/\n.*/\nint x;\n/sr, qr/what the file is/],
	['a good head', \&bad_head, 'a.c', $head, undef],
	['a script\'s good head', \&bad_head, 'a.sh',
		"#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n#\n# What.\n", undef],
	['a wrong guard', \&bad_guard, 'include/a/b.h', "#ifndef A_H\n#define A_H\n", qr/IPU_A_B_H/],
	['a good guard', \&bad_guard, 'include/a/b.h', "#ifndef IPU_A_B_H\n#define IPU_A_B_H\n", undef],
	['a thing left', \&left_for_later, 'a.c', "/* " . 'TO' . "DO: x */\n", qr/a.c:1: /],
	['nothing left', \&left_for_later, 'a.c', "int to_do;\n", undef],
	['a registry', \&names_registry, 'a.c', "x\nhttps://eu.gcr" . ".io/a\n", qr/a.c:2: eu.gcr/],
	['no registry', \&names_registry, 'a.c', "mydocker" . ".io gcr.iox\n", undef],
);
for my $case (@self_test) {
	my ($name, $check, $path, $text, $want) = @$case;
	my ($got) = $check->($path, $text);
	if ($want) {
		like($got, $want, "self-test: $name");
	} else {
		is($got, undef, "self-test: $name");
	}
}

my @roots = qw(src include t m4 doc etc crds helm .ci setup bootstrap run-tests quickstart
	configure.ac Makefile.am README.md ChangeLog);
my @all = grep { !m{(^|/)go\.(sum|mod)$} } tree_files(qr{}, @roots);
my @code = grep { m{$code} || m{^[^/.]+$} && $_ ne 'ChangeLog' || m{^\.ci/} } @all;
cmp_ok(scalar @code, '>', 20, 'found the code');
for my $check (
	['no file is too long', \&too_long, @code],
	['no function is too long', \&long_functions, @code],
	['every file says what it is', \&bad_head, @code],
	['header guards are named after their files', \&bad_guard, @code],
	['nothing is left for later', \&left_for_later, @code],
	['no registry is named', \&names_registry, @all],
) {
	my ($name, $function, @paths) = @$check;
	my @found = map { $function->($_, file_text($_)) } @paths;
	ok(!@found, $name) or diag(join "\n", @found);
}

SKIP: {
	my ($version) = `$clang_format --version 2>/dev/null`;
	skip("no $clang_format (./setup --tests installs it)", 1) if !$version;
	my @sources = grep { /\.[ch]$/ } @code;
	my $top = top_srcdir();
	my @bad;
	while (my @some = splice @sources, 0, 50) {
		my @said = `cd '$top' && $clang_format --dry-run @some 2>&1`;
		my %seen;
		push @bad, grep { !$seen{$_}++ } map { /^(\S+?):\d+:\d+: / ? $1 : () } @said;
	}
	ok(!@bad, "formatted as .clang-format says") or diag("`make format` mends: @bad");
}

done_testing();
