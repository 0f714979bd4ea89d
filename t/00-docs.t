#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Reference pages against what they describe: the CRD's rules, the default configuration, and every
# name that the code gives to the outside (doc/reference/names.md).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(tree_files file_text top_srcdir);
use JSON::PP ();
use Test::More;

# Rows of all tables of a page, as lists of cells, with the heading that they stand under.
sub table_rows {
	my ($path) = @_;
	my ($heading, @rows) = ('');
	for my $line (split /\n/, file_text($path)) {
		$heading = $1 if $line =~ /^#+ (.*)/;
		next if $line !~ /^\|/ || $line =~ /^\|[-| ]+\|$/;
		my @cells = map { s/^ +| +$//gr } split /\|/, $line =~ s/^\||\|$//gr, -1;
		push @rows, {heading => $heading, cells => \@cells};
	}
	return @rows;
}

# The words in backquotes of a cell.
sub quoted { return $_[0] =~ /`([^`]+)`/g }

sub sorted_list {
	my %seen;
	return join "\n", sort grep { !$seen{$_}++ } @_;
}

# Values of a key in the CRD: plain, or folded over the more indented lines that follow.
sub crd_values {
	my ($key) = @_;
	my @lines = split /\n/, file_text('crds/graphcore.ai_ipujobs.yaml');
	my @values;
	for my $i (0 .. $#lines) {
		next if $lines[$i] !~ /^( *(?:- )?)\Q$key\E: (.*)$/;
		my ($indent, $value) = (length $1, $2);
		if ($value eq '>-') {
			my @more;
			for my $line (@lines[$i + 1 .. $#lines]) {
				last if $line !~ /^ {$indent} +(\S.*)$/;
				push @more, $1;
			}
			$value = join ' ', @more;
		}
		push @values, $value;
	}
	return @values;
}

my @validation = table_rows('doc/reference/validation.md');
my @rules = map { $_->{cells} } grep { $_->{heading} =~ /CEL/ && $_->{cells}[0] ne 'id' } @validation;
cmp_ok(scalar @rules, '>', 10, 'validation.md has its rules');
is(sorted_list(map { $_->[-1] } @rules), sorted_list(crd_values('message')),
	"the CRD's messages are those of validation.md");
is(scalar(crd_values('rule')), scalar @rules, 'one row a rule');
my %ids;
$ids{$_->{cells}[0]}++ for @validation;
is_deeply([grep { $_ ne 'id' && $ids{$_} > 1 } sort keys %ids], [], 'no id twice');

# The keys of etc/operator.yaml with their values, as dotted paths; comments aren't keys.
sub default_keys {
	my (%values, $section);
	for my $line (split /\n/, file_text('etc/operator.yaml')) {
		if ($line =~ /^(\w+):\s*$/) {
			$section = $1;
		} elsif ($line =~ /^(\w+): (.+)$/) {
			$values{$1} = $2;
		} elsif ($line =~ /^  (\w+): (.+)$/) {
			$values{"$section.$1"} = $2;
		} elsif ($line =~ /^\s*[^#\s]/) {
			fail("etc/operator.yaml: what is this? $line");
		}
	}
	return %values;
}

my %default = default_keys();
my %documented = map { ((quoted($_->{cells}[0]))[0] => $_->{cells}[2]) }
	grep { $_->{heading} eq 'Keys' && $_->{cells}[0] ne 'key' }
	table_rows('doc/reference/configuration.md');
is(sorted_list(keys %documented), sorted_list(keys %default),
	'configuration.md has the keys of etc/operator.yaml');
for my $key (sort keys %default) {
	my ($want) = map { s/^"|"$//gr } $default{$key};
	next if $want eq '' || $key eq 'roles'; # described in words
	like($documented{$key} // '', qr/^`?\Q$want\E/, "$key: the same default");
}

# The API reference is made from the resource definition, which the chart has a copy of.
my $crd = 'crds/graphcore.ai_ipujobs.yaml';
is(scalar `'$^X' '@{[top_srcdir()]}/etc/api-reference.pl' '@{[top_srcdir()]}/$crd'`, file_text('doc/reference/api.md'),
	'doc/reference/api.md is what make api-reference writes');

# What SIGHUP takes on is the code's list; a word that ends with a dot stands for all that begin so.
my ($list) = file_text('src/daemon/reload.c') =~ /taken_on\[\] = \{(.*?)\};/s;
my $taken_on = join '|', map { /\.$/ ? quotemeta : quotemeta . '$' } $list =~ /"([\w.]+)"/g;
my %reload = map { ((quoted($_->{cells}[0]))[0] => $_->{cells}[3]) }
	grep { $_->{heading} eq 'Keys' && $_->{cells}[0] ne 'key' } table_rows('doc/reference/configuration.md');
is_deeply(\%reload, {map { $_ => /^(?:$taken_on)/ ? 'yes' : 'no' } keys %default},
	"configuration.md says which keys count at SIGHUP");

# The chart's schema takes under operatorConfig what the operator does, so that a mistake is told before anything is installed.
subtest 'operatorConfig in the chart\'s schema' => sub {
	my ($table) = file_text('src/daemon/config.c') =~ /config_keys\[\] = \{\n(.*?)^\};/ms;
	my %wanted;
	while ($table =~ /\{"([\w.]+)", KEY_(\w+), AT\(\w+\),\s*[^,"]*(?:"[^"]*")?,\s*(-?\d+),\s*(\w+),\s*(?:NULL|"(.*?)")\}/g) {
		my ($name, $type, $min, $max, $choices) = ($1, $2, $3, $4 eq 'PARTITION_POLICY_MAX' ? 1_000_000_000 : $4, $5);
		$wanted{$name} = $type eq 'NUMBER' ? "$min to $max" : $type eq 'BOOL' ? 'boolean' : $choices
			// ($type =~ /ROLES|CONTROLLERS|POLICIES/ ? lc $type : 'string');
	}
	is(sorted_list(keys %wanted), sorted_list(keys %default), 'all keys are read');
	my $schema = JSON::PP->new->decode(file_text('helm/ipu-operator/values.schema.json'));
	my $keys = $schema->{properties}{operatorConfig};
	my (%is, @open);
	my $add = sub {
		my ($name, $s) = @_;
		my %seen;
		my ($of) = ($s->{'$ref'} // '') =~ m{([^/]*)$};
		$is{$name} = $s->{enum} ? join('|', grep { !$seen{$_}++ } map { JSON::PP::is_bool($_) ? ($_ ? 'true' : 'false') : $_ } @{ $s->{enum} })
			: $s->{additionalProperties} ? 'policies' : $of ? {list => 'roles', vipuControllers => 'controllers'}->{$of}
			: $s->{type} eq 'integer' ? "$s->{minimum} to $s->{maximum}" : $s->{type};
	};
	for my $key (sort keys %{ $keys->{properties} }) {
		my $s = $keys->{properties}{$key};
		if (!$s->{properties}) {
			$add->($key, $s);
			next;
		}
		push @open, $key if $s->{additionalProperties} // 1;
		$add->("$key.$_", $s->{properties}{$_}) for keys %{ $s->{properties} };
	}
	is_deeply(\%is, \%wanted, 'it takes these, and of each what it may be');
	my $policy = $schema->{definitions}{policy};
	push @open, 'all' if $keys->{additionalProperties} // 1;
	push @open, 'namespaces' if $policy->{additionalProperties} // 1;
	is_deeply(\@open, [], 'and nothing else anywhere');
	is(sorted_list(keys %{ $policy->{properties} }), sorted_list(map { /^policy\.(?!namespaces)(.*)/ } keys %wanted), 'for namespaces neither');
};

# What names.md registers, by the heading of its table.
my %names;
for my $row (table_rows('doc/reference/names.md')) {
	my $column = $row->{heading} =~ /^Conditions/ ? 1 : 0;
	push @{$names{$row->{heading}}}, quoted($row->{cells}[$_]) for 0 .. $column;
}
my %registered = map { $_ => 1 } map { @$_ } values %names;
cmp_ok(scalar keys %registered, '>', 50, 'names.md has its names');

# Names in string literals of the code, by their looks.
my %in_code;
for my $path (tree_files(qr{\.[ch]$}, 'src', 'include')) {
	my $text = file_text($path);
	$text =~ s{/\*.*?\*/}{}gs;
	while ($text =~ /"((?:[^"\\\n]|\\.)*)"/g) {
		$in_code{$1} //= $path;
	}
}
my $looks = qr{^(?:
	(?:[\w.]+\.)?graphcore\.ai/(?!v1)[\w.-]+ |
	app\.kubernetes\.io/[\w-]+ |
	ipu\.finalizers\.[\w.]+ |
	IPUJob[A-Z]\w+ |
	IPUOF_\w+ |
	(?:OMPI|PRTE|HYDRA|POPDIST)_\w+ |
	(?:ipu_operator|workqueue|rest_client|controller_runtime|process)_[a-z_]+
)$}x;
my %not_ours = map { $_ => 1 } qw(IPUJobList);
my @unknown = grep { /$looks/ && !$registered{$_} && !$not_ours{$_} } sort keys %in_code;
is_deeply([map { "$_ in $in_code{$_}" } @unknown], [], 'no name in the code that names.md lacks');

# And no name in names.md that the code lacks: labels and so on stand in string literals, alone or (in
# selectors and in messages) with more; the chart writes some itself.
my $literals = join "\0", keys %in_code, map { file_text($_) } tree_files(qr{\.(?:yaml|tpl)$}, 'helm');
my @stale = grep { index($literals, $_) < 0 }
	map { @{$names{$_}} } grep { !/^Environment that/ } sort keys %names;
is_deeply([grep { !/[ ={:]/ && !/^status\./ } @stale], [], 'no name in names.md that the code lacks');

# Alerting rules and the dashboard ask for metrics that there are.
my %metrics = map { $_ => 1 } map { quoted($_->{cells}[0]) } grep { $_->{heading} eq 'Metrics' } table_rows('doc/reference/names.md');
for my $file (qw(rules.yaml dashboard.json)) {
	my %asked = map { $_ => 1 } file_text("helm/ipu-operator/files/$file")
		=~ /\b((?:ipu_operator|workqueue|rest_client|controller_runtime|process)_[a-z_]+)/g;
	cmp_ok(scalar keys %asked, '>', 15, "$file asks for metrics");
	is_deeply([grep { !$metrics{$_} && !$metrics{s/_(?:bucket|sum|count)$//r} } sort keys %asked], [],
		"... that names.md has");
}

# Each alert has its runbook, a heading of the page on troubleshooting.
my @runbooks = file_text('helm/ipu-operator/files/rules.yaml') =~ m{^ +runbook: doc/alerts\.md#([a-z-]+)$}mg;
is(scalar @runbooks, scalar(() = file_text('helm/ipu-operator/files/rules.yaml') =~ /- alert: /g), 'a runbook for each alert');
my %headings = map { lc($_) =~ tr/ /-/r => 1 } file_text('doc/alerts.md') =~ /^## (.+)$/mg;
is_deeply([sort keys %headings], [sort @runbooks], 'doc/alerts.md has them, and no other');

# Who meets a reason finds in troubleshooting.md what to do, or that it's normal.
my %explained = map { $_ => 1 } file_text('doc/troubleshooting.md') =~ /`(\w+)`/g;
my @reasons = grep { /^[A-Z]\w+$/ } map { @{$names{$_}} } grep { /^Events/ || /^Conditions/ } sort keys %names;
@reasons = grep { !/^(?:Pending|Running|Restarting|Created|Suspended|Succeeded|Failed|Reconciling|Stalled)$/ } @reasons;
cmp_ok(scalar @reasons, '>', 60, 'there are reasons');
is_deeply([grep { !$explained{$_} } @reasons], [], 'troubleshooting.md explains every reason');

# The verdict of a node's fabric: the table and the code's have the same rows, in the same order.
my @verdicts = map { [@{$_->{cells}}[0, 2, 3]] } grep { $_->{heading} =~ /^The verdict/ && $_->{cells}[0] ne 'id' }
	table_rows('doc/design/head-node.md');
my @rules_of_verdict = map { [$_->[0], ucfirst lc $_->[1], $_->[2]] } map { [/\{"([\w-]+)", FABRIC_([A-Z]+), "(\w+)", /] }
	grep { /\{"[\w-]+", FABRIC_/ } split /\n/, file_text('src/node/verdict.c');
cmp_ok(scalar @rules_of_verdict, '>', 10, 'verdict.c has its rows');
is_deeply(\@verdicts, \@rules_of_verdict, '... and doc/design/head-node.md the same, in the same order');

# The options of each program, as its --help lists them, against its manual page.
my ($table) = file_text('src/daemon/daemon.c') =~ /^\t\} ports\[\] = \{\n(.*?)^\t\};/ms;
my ($about_ports) = file_text('doc/man/ipu-operator.8') =~ /^\.It Fl -ports-file(.*?)^\.It /ms;
is_deeply([ $about_ports =~ /^\.Cm (\S+)/mg ], [ $table =~ /^\t\t\{"([^"]+)",/mg ], 'ipu-operator(8) has each listener of --ports-file');

my %pages = ('ipu-operator' => 'doc/man/ipu-operator.8', 'ipu-sim' => 'doc/man/ipu-sim.1',
	'ipuctl' => 'doc/man/ipuctl.1', 'ipu-launcher' => 'doc/man/ipu-launcher.1');
my ($version) = file_text('configure.ac') =~ /^AC_INIT\(\[[^]]*\], \[([^]]+)\]/m;
for my $program (sort keys %pages) {
SKIP: {
		skip "no build: run by make check", 6 unless defined $ENV{TOP_BUILDDIR};
		is(`$ENV{TOP_BUILDDIR}/$program --version 2>&1`, "$program $version\n", "$program --version");
		is($?, 0, '... ends well');
		my $help = `$ENV{TOP_BUILDDIR}/$program --help 2>&1`;
		is($?, 0, "$program --help ends well");
		my @commands = grep { $_ ne 'help' } $help =~ /^  ([a-z][a-z-]*(?: [a-z]+)?)(?= |$)/mg;
		my %in_page = map { s/ (?:Ar|Oo|Fl|Cm \W).*//r =~ s/ Cm / /gr => 1 } file_text($pages{$program}) =~ /^\.It Cm (.*)$/mg;
		is_deeply([grep { !$in_page{$_} } @commands], [], "$pages{$program} has each command of $program --help");
		# Those of one command are in its own help.
		for my $command ($program eq 'ipuctl' ? @commands : ()) {
			my $its = `$ENV{TOP_BUILDDIR}/ipuctl $command --help 2>&1`;
			is("$? $its", '0 ' . `$ENV{TOP_BUILDDIR}/ipuctl help $command`, "ipuctl $command --help");
			$help .= $its;
		}
		my @options = $help =~ /^ +(?:-\w, )?--([a-z-]+)/mg;
		my @described = map { /(?:^\.It Fl |, (?:Fl )?)-([a-z-]{2,})/g } grep { /^\.It/ }
			split /\n/, file_text($pages{$program});
		cmp_ok(scalar @options, '>', 5, "$program --help lists options");
		is(sorted_list(@described), sorted_list(@options), "$pages{$program} has them all");
	}
}

# Every section of the original guides has its successor.
my @sections = grep { $_->{cells}[0] ne 'section' } table_rows('doc/reference/guides.md');
is(scalar @sections, 42, 'guides.md has all sections');
is_deeply([map { $_->{cells}[0] } grep { $_->{cells}[1] !~ /\]\(|^the same, / } @sections], [], '... each leads somewhere');

# The manual pages' own language: groff's warnings, and mandoc's where that is installed.
sub man_complaints {
	my ($text) = @_;
	my ($groff, $mandoc) = map { my $name = $_; (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0] } qw(groff mandoc);
	my $command = $mandoc ? "$mandoc -T lint -W warning" : $groff ? "$groff -mdoc -Tascii -ww -z" : return undef;
	open(my $in, '-|', 'sh', '-c', "$command 2>&1 <<'END_OF_PAGE'\n${text}END_OF_PAGE\n") or die "$command: $!\n";
	local $/;
	return scalar(<$in>) // '';
}

SKIP: {
	my $bad = man_complaints(".Dd January 1, 2026\n.Dt A 1\n.Os\n.Sh NAME\n.Nm a\n.Nd b\n.Foo bar\n");
	skip('neither groff nor mandoc is here (./setup --tests)', 1 + keys %pages) if !defined $bad;
	like($bad, qr/Foo/, 'self-test: an unknown macro');
	is(man_complaints(file_text($_)), '', "$_: as a manual page") for sort values %pages;
}

# The anchors of a page, as the usual renderers make them of its headings.
sub anchors {
	my ($path) = @_;
	my $text = file_text($path) =~ s/^ *```.*?^ *```$//gmsr;
	my (%seen, %anchors);
	for my $heading ($text =~ /^#+ (.*)$/mg) {
		my $slug = lc($heading =~ s/\[([^\]]*)\]\([^)]*\)/$1/gr) =~ s/[^\w\- ]//gr =~ tr/ /-/r;
		$anchors{$seen{$slug}++ ? "$slug-" . ($seen{$slug} - 1) : $slug} = 1;
	}
	$anchors{$_} = 1 for $text =~ /<a id="([^"]+)">/g;
	return \%anchors;
}

# What a comment of the code calls a page is one, by its path, and has the section that is named. Other projects' pages
# have the project's name before them.
sub dead_references {
	my ($text) = @_;
	my @dead;
	$text =~ s{\s*\n\s*(?:\*(?!/)|\#)?\s*}{ }g;
	while ($text =~ m{(?<!grpc/grpc )(?<![\w./%*-])([\w./-]+\.md)\b(?:, "([^"]+)")?}g) {
		my ($path, $section) = ($1, $2);
		if (!-e top_srcdir() . "/$path") {
			push @dead, "$path: no such file";
		} elsif (defined $section && file_text($path) !~ /^#+ \Q$section\E$/m) {
			push @dead, "$path: no section \"$section\"";
		}
	}
	return @dead;
}
for my $case (
	['/* As doc/style.md, "Asynchronous code",
  * has it; grpc/grpc doc/A.md, "B". */', undef],
	['/* By decisions.md. */', qr/^decisions\.md: no such file/],
	["/* doc/style.md, \"Asynchronous\n * poetry\". */", qr/no section "Asynchronous poetry"/],
) {
	my ($text, $want) = @$case;
	my ($got) = dead_references($text);
	defined $want ? like($got, $want, "self-test: $want") : is($got, undef, 'self-test: what is there');
}
my @sources = tree_files(qr{\.(?:c|h|mk|pm|t)$}, qw(src include t/unit t/lib t/tools t/fuzz t/cluster));
cmp_ok(scalar @sources, '>', 500, 'found the sources');
my @dead_references = map { my $path = $_; map { "$path: $_" } dead_references(file_text($path)) } @sources;
is_deeply(\@dead_references, [], 'the pages that comments name are there, with these sections');

# Every link of a page leads to a file of the tree, and its anchor to a heading there.
my %anchors_of;
for my $page (tree_files(qr{\.md$}, 'doc', 'README.md')) {
	my $folder = $page =~ s{[^/]*$}{}r;
	my @dead;
	my $text = file_text($page) =~ s/`[^`\n]*`//gr;
	for my $link (grep { !/^https?:/ } $text =~ /\]\(([^)\s]+)\)/g, $text =~ /<(?:img|source)\b[^>]*?\bsrc(?:set)?="([^"]+)"/g) {
		my ($file, $anchor) = $link =~ /^([^#]*)#?(.*)$/;
		my $path = $file eq '' ? $page : "$folder$file";
		1 while $path =~ s{(^|/)[^/]+/\.\./}{$1};
		if (!-e top_srcdir() . "/$path") {
			push @dead, $link;
		} elsif ($anchor ne '' && !($anchors_of{$path} //= anchors($path))->{$anchor}) {
			push @dead, "$link: no such heading";
		}
	}
	is_deeply(\@dead, [], "$page: its links");
	# What a page lists of its sections at its beginning is all of them.
	my %listed = map { $_ => 1 } $text =~ /^- \[([^\]]*)\]\(#/mg;
	is_deeply([ grep { !$listed{$_} } $text =~ s/^ *```.*?^ *```$//gmsr =~ /^## (.*)$/mg ], [], '... and its list of sections') if %listed;
}

# A merge that went wrong leaves a line twice, or the rest of an entry behind another one's end.
sub changelog_complaints {
	my ($text) = @_;
	my (%seen, @bad);
	my $before = '';
	for my $line (split /\n/, $text) {
		push @bad, "twice: $line" if $line =~ /^\t/ && $seen{$line}++;
		push @bad, "no beginning: $line" if $line =~ /^\t  [a-z]/ && $before =~ /\.$/ || $line =~ /.\t/;
		$before = $line;
	}
	return \@bad;
}
is(scalar @{changelog_complaints("\t* It is.\n\t  and was.\n\t* It is.\n\t* Not.\t* So.\n")}, 3, 'self-test: a broken ChangeLog');
is_deeply(changelog_complaints(file_text('ChangeLog')), [], 'ChangeLog is whole');

done_testing();
