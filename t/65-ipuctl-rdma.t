#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl rdma check and ipuctl rdma macvlan: the tables of doc/design/head-node.md against the code's.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(file_text);
use Test::More;

watchdog(240);

# ---- the tables ----

# The rows of a file's table, as the document has them but for the column "when".
sub code_rows {
	my ($path) = @_;
	my $code = file_text($path);
	my %words = $code =~ /^#define (\w+) +"((?:[^"\\]|\\.)*)"$/mg;
	my @rows;
	while ($code =~ /^\t\[\w+\] = \{"([\w-]+)", "([\w-]+)", NODE_(\w+), (\w+|"(?:[^"\\]|\\.)*")\},$/mg) {
		my ($check, $finding, $result, $help) = ($1, $2, lc $3, $4);
		$help = $help =~ /^"(.*)"$/ ? $1 =~ s/\\"/"/gr : $words{$help};
		push @rows, join ' | ', $check, $finding, $result, $help || '-';
	}
	return @rows;
}

my (%tables, $heading);
for my $line (split /\n/, file_text('doc/design/head-node.md')) {
	$heading = $line =~ /\((src\/\S+\.c), / ? $1 : '' if $line =~ /^#/;
	next if !$heading || $line !~ /^\| [\w-]+ \| / || $line =~ /^\| check /;
	my @cells = split / \| /, $line =~ s/^\| | \|$//gr;
	push @{$tables{$heading}}, join ' | ', @cells[0, 1, 2, 4];
}
for my $path (sort keys %tables) {
	my @code = code_rows($path);
	cmp_ok(scalar @code, '>', 10, "$path has rules");
	is_deeply($tables{$path}, \@code, '... and doc/design/head-node.md the same, in the same order');
}
ok($tables{'src/node/checks.c'}, 'the machine has its table');

done_testing();
