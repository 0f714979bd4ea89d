# SPDX-License-Identifier: Apache-2.0
#
# Which Debian package a file of this machine comes from, and what the package says of itself. On a
# machine without dpkg all answers are "none".
package Debian;

use v5.36;

use Cwd qw(realpath);
use Exporter qw(import);

our @EXPORT_OK = qw(packages_of packages_about package_copyright merged);

# Debian's short names of licences (copyright-format 1.0) that SPDX has too, under its own names.
my %spdx_name = (
	'Expat' => 'MIT', 'MIT' => 'MIT', 'ISC' => 'ISC', 'Zlib' => 'Zlib',
	'Apache-2.0' => 'Apache-2.0', 'MPL-2.0' => 'MPL-2.0',
	'BSD-2-clause' => 'BSD-2-Clause', 'BSD-3-clause' => 'BSD-3-Clause',
	'GPL-2' => 'GPL-2.0-only', 'GPL-2+' => 'GPL-2.0-or-later', 'GPL-3+' => 'GPL-3.0-or-later',
	'LGPL-2' => 'LGPL-2.0-only', 'LGPL-2.1' => 'LGPL-2.1-only', 'LGPL-2.1+' => 'LGPL-2.1-or-later',
);
my %spdx_by_case = map { lc($_) => $spdx_name{$_} } keys %spdx_name;

# What a command prints, whatever its status; undef where it can't be started.
sub command_output (@command) {
	open(my $null, '>', '/dev/null') or return undef;
	open(my $saved, '>&', \*STDERR) or return undef;
	open(STDERR, '>&', $null) or return undef;
	local $ENV{LC_ALL} = 'C';
	my $text;
	if (open(my $in, '-|', @command)) {
		local $/;
		$text = <$in>;
		close($in); # 1: some of them are unknown
	}
	open(STDERR, '>&', $saved) or die "standard error: $!\n";
	return $text;
}

# A path as it is where /lib is a link to /usr/lib, on machines where it isn't one too.
sub merged ($path) {
	return $path =~ s{^/(lib\w*|s?bin)/}{/usr/$1/}r;
}

# The packages that hold these files, {path => 'libev4'}. dpkg knows a file by the path in its package,
# which may lack the /usr, and may be a link's.
sub packages_of (@paths) {
	my %tries = map {
		my $real = realpath($_) // $_;
		($_ => [map { ($_, s{^/usr/}{/}r) } merged($_), merged($real)])
	} @paths;
	my $text = @paths ? command_output('dpkg-query', '-S', map { @$_ } values %tries) // '' : '';
	my %holder = map { /^([^\s,:]+)[^ ]*(?:, \S+)*: (.*)$/ ? ($2 => $1) : () } split /\n/, $text;
	return {map {
		my ($package) = grep { defined } map { $holder{$_} } @{ $tries{$_} };
		$package ? ($_ => $package) : ()
	} @paths};
}

# {name, version, arch, source, maintainer, license, status} of each; status is the package's paragraph
# in dpkg's list.
sub packages_about (@names) {
	return {} if !@names;
	my @fields = qw(name version arch source maintainer);
	my $format = join('\t', map { "\${$_}" } qw(Package Version Architecture source:Package Maintainer)) . '\n';
	my %about;
	for my $line (split /\n/, command_output('dpkg-query', '-W', '-f', $format, @names) // '') {
		my %one;
		@one{@fields} = split /\t/, $line;
		$one{license} = license_of($one{name});
		$about{$one{name}} = \%one;
	}
	for my $paragraph (split /\n\n/, command_output('dpkg-query', '-s', @names) // '') {
		my ($name) = $paragraph =~ /^Package: (\S+)$/m;
		$about{$name}{status} = $paragraph =~ s/\n*\z/\n/r;
	}
	return \%about;
}

sub package_copyright ($name) {
	my $path = "/usr/share/doc/$name/copyright";
	return -e $path ? $path : undef;
}

# The licence that the package declares for most of its files, in SPDX's words; NOASSERTION where that
# can't be read by a program.
sub license_of ($name) {
	my $path = package_copyright($name) // return 'NOASSERTION';
	open(my $in, '<', $path) or return 'NOASSERTION';
	local $/ = '';
	my @paragraphs = <$in>;
	return 'NOASSERTION' if $paragraphs[0] !~ m{^Format: .*copyright-format/1\.0}m;
	my ($main) = grep { /^Files:\s*\*\s*$/m } @paragraphs;
	my ($words) = ($main // '') =~ /^License:\s*(.+?)\s*$/m or return 'NOASSERTION';
	my @names = map { $spdx_by_case{lc $_} } split / or /, $words;
	return (grep { !defined } @names) || !@names ? 'NOASSERTION' : join(' OR ', @names);
}

1;
