#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# doc/design/threats.md against the tree: each listener and each file of the configuration is in it, and
# each test that it names is there.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(file_text top_srcdir);
use Test::More;

# Rows of the table under that heading, as lists of cells, without its head.
sub rows ($text, $heading) {
	my ($part) = $text =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms or die "threats.md has no $heading\n";
	my @rows = map { [ map { s/^ +| +$//gr } split /\|/, s/^\||\|$//gr ] } grep { /^\|/ && !/^\|[-|]+$/ } split /\n/, $part;
	return @rows[1 .. $#rows];
}

sub quoted ($text) { return $text =~ /`([^`]+)`/g }

my $page = file_text('doc/design/threats.md');
my ($section, @listeners, @files) = ('');
for my $line (split /\n/, file_text('etc/operator.yaml')) {
	$section = "$1." if $line =~ /^(\w+):\s*$/;
	$section = '' if $line =~ /^\w+: /;
	next if $line !~ /^ *(\w+): /;
	my ($key, $name) = ("$section$1", $1);
	push @listeners, $key if $name =~ /^(?:listen|tlsListen)$/;
	push @files, $key if $name =~ /File$/ || $name eq 'kubeconfig';
}
is_deeply([ sort map { quoted($_->[0]) } rows($page, 'Listeners') ], [ sort @listeners ], 'each listener has a row');
my %said = map { $_ => 1 } map { quoted($_->[0]) } rows($page, 'Files');
is_deeply([ grep { !$said{$_} } @files ], [], 'each file of the configuration has a row');
my ($audience) = file_text('src/proxy/auth.h') =~ /PROXY_AUDIENCE "([^"]+)"/ or die "auth.h names no audience\n";
cmp_ok((grep { /`\Q$audience\E`/ } map { $_->[0] } rows($page, 'Tokens')), '==', 1, 'the audience of its tokens is told');

my @refusals = rows($page, 'Refusals');
cmp_ok(scalar @refusals, '>', 25, 'there are refusals');
for my $row (@refusals) {
	my ($what, undef, $tests) = @$row;
	my @named = $tests =~ /`(t\/[^`]+)`((?:,? "[^"]*")*)/g;
	my @wrong;
	while (my ($path, $words) = splice @named, 0, 2) {
		if (!-e top_srcdir() . "/$path") {
			push @wrong, "there is no $path";
			next;
		}
		for my $name ($words =~ /"([^"]*)"/g) {
			my $pattern = quotemeta($name) =~ s/\\'/\\\\?'/gr; # in Perl's text it may have a backslash
			push @wrong, "$path has no \"$name\"" if file_text($path) !~ /(["'])$pattern\1/;
		}
	}
	ok(@$row == 3 && $tests =~ /^`t\// && !@wrong, "$what: its tests are there") or diag(join "\n", @wrong);
}

done_testing;
