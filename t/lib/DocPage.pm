# SPDX-License-Identifier: Apache-2.0
#
# The pages of the documentation, Markdown and mdoc: which there are, their blocks of code with what is said of each, and the
# commands in them. doc/HACKING.md, "Write documentation", has the marks. It runs nothing.
package DocPage;

use strict;
use warnings;

use Exporter qw(import);
use IpuTree qw(tree_files);

our @EXPORT_OK = qw(pages blocks marks bad_form is_manifest is_run commands);

my $command_words = qr{^(?:\$ |(?:[A-Z_]+=\S* )*(?:sudo )?(?:(?:kubectl|helm|ipuctl|curl|docker|ctr|skopeo|systemctl|ipu-operator|ipu-sim|ipu-launcher
	|make|prove|sha256sum|gpg|minisign)\b|\.{0,2}/\w|t/))}x;

# Every page that may have commands: none is left out because nobody thought of it.
sub pages {
	return tree_files(qr{(?:\.md(?:\.in)?|\.[1-8])$}, qw(README.md doc etc t/scenarios));
}

# The blocks of a page in their order: {line, language, marks, text}; hidden ones have the language "hidden".
sub blocks {
	my ($page, $text) = @_;
	return $page =~ /\.[1-8]$/ ? man_blocks($page, $text) : markdown_blocks($page, $text);
}

sub markdown_blocks {
	my ($page, $text) = @_;
	my (@blocks, $open);
	my ($number, $before, $item) = (0, '', 0); # $item: where a list's text begins, 0 outside of lists
	for my $line (split /\n/, $text) {
		$number++;
		if ($open && $line =~ ($open->{language} eq 'hidden' ? qr/^\s*-->\s*$/ : qr/^\s*```\s*$/)) {
			push @blocks, $open;
			undef $open;
			$line = '';
		} elsif ($open) {
			$open->{text} .= $line =~ s/^ {0,$open->{indent}}//r . "\n";
		} elsif ($line =~ /^( *)```(\w*) ?(.*)$/) {
			$open = {line => $number, indent => length $1, language => $2, marks => marks($3), text => ''};
		} elsif ($line =~ /^<!-- test:\s*(.*?)\s*-->$/) {
			push @blocks, {line => $number, language => 'hidden', marks => {}, text => "$1\n"};
		} elsif ($line =~ /^<!-- test:$/) {
			$open = {line => $number, indent => 0, language => 'hidden', marks => {}, text => ''};
		} elsif ($line =~ /^( *(?:[-*]|\d+\.) +)\S/ && length $1 < $item + 4) {
			$item = length $1;
		} elsif ($line =~ /^\S/) {
			$item = 0;
		} elsif ($line =~ /^ {4}/ && $line =~ /^ {@{[$item + 4]}}/ && $before =~ /^(?:\s*$|#)/) {
			push @blocks, {line => $number, language => 'indented', marks => {}, text => "$line\n"};
		}
		$before = $line;
	}
	die "$page:$open->{line}: a block that doesn't end\n" if $open;
	return @blocks;
}

# Literal displays; what Markdown has behind ``` is a comment in the line before.
sub man_blocks {
	my ($page, $text) = @_;
	my (@blocks, $open);
	my ($number, $marks) = (0, {});
	for my $line (split /\n/, $text) {
		$number++;
		if ($open && $line eq '.Ed') {
			$open->{language} = 'console' if $open->{text} =~ /\A\$ /;
			push @blocks, $open;
			undef $open;
		} elsif ($open) {
			die "$page:$number: only text in a literal display\n" if $line =~ /^\./;
			$open->{text} .= $line =~ s{\\(\(aq|.)}{{e => '\\', '-' => '-', '&' => '', '(aq' => "'"}->{$1} // die "$page:$number: what is \\$1?\n"}ger . "\n";
		} elsif ($line =~ /^\.\\" test:\s*(.*)$/) {
			push @blocks, {line => $number, language => 'hidden', marks => {}, text => "$1\n"};
		} elsif ($line =~ /^\.Bd -literal\b/) {
			$open = {line => $number, language => 'sh', marks => $marks, text => ''};
		} elsif ($line =~ /^\.(?:D[1l]|Bd -unfilled)\b/) {
			push @blocks, {line => $number, language => 'indented', marks => {}, text => "$line\n"};
		}
		$marks = $line =~ /^\.\\" ((?:no-run|until|status): .*)$/ ? marks($1) : {};
	}
	die "$page:$open->{line}: a display that doesn't end\n" if $open;
	return @blocks;
}

# "no-run: REASON", "until: TEXT", "status: N", or nothing.
sub marks {
	my ($text) = @_;
	return {} if $text eq '';
	return $text =~ /^(no-run|until|status): (\S.*)$/ ? {$1 => $2} : {what => $text};
}

# What is wrong with the form of a block, or undef.
sub bad_form {
	my ($block) = @_;
	my ($language, $marks) = @$block{qw(language marks)};
	return 'code stands in a block of its own, which names its language: ```sh, say; in a manual page .Bd -literal' if $language eq 'indented';
	return "a block names its language" if $language eq '';
	return "no such language here: $language" if $language !~ /^(?:sh|console|yaml|text|c|perl|make|hidden)$/;
	return "what is \"$marks->{what}\"?"
		if defined $marks->{what} && "$language $marks->{what}" !~ /^yaml (?:operator|values)\.yaml$/;
	return "a reason has some words" if defined $marks->{'no-run'} && $marks->{'no-run'} !~ /\w+ \w+/;
	return "commands in a block that isn't run" if $language !~ /^(?:sh|console|hidden)$/ && $block->{text} =~ /$command_words/m;
	return "a command begins with \"\$ \"" if $language eq 'console' && $block->{text} !~ /\A\$ /;
	return undef;
}

# A whole manifest of something that the operator runs.
sub is_manifest {
	my ($block) = @_;
	return $block->{language} eq 'yaml' && $block->{text} =~ /\AapiVersion: .*^kind: (?:IPUJob|Pod)$/ms
		&& $block->{text} !~ /…/;
}

# Has it commands that a test runs?
sub is_run {
	my ($block) = @_;
	return $block->{language} =~ /^(?:sh|console)$/ && !defined $block->{marks}{'no-run'};
}

# The commands of a block, each {text, shown}: a "console" block has several, and what they print.
sub commands {
	my ($block) = @_;
	return {text => "kubectl apply --dry-run=server -f - <<'MANIFEST'\n$block->{text}MANIFEST\n"} if is_manifest($block);
	return {text => $block->{text}} if $block->{language} ne 'console';
	my @commands;
	for my $line (split /\n/, $block->{text}) {
		if ($line =~ /^\$ (.*)$/) {
			push @commands, {text => "$1\n", shown => [], more => scalar($line =~ /\\$/)};
		} elsif ($commands[-1]{more}) {
			$commands[-1]{text} .= "$line\n";
			$commands[-1]{more} = $line =~ /\\$/;
		} else {
			push @{$commands[-1]{shown}}, $line;
		}
	}
	return @commands;
}

1;
