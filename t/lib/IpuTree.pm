# SPDX-License-Identifier: Apache-2.0
#
# The source tree as the style and layer tests see it: which files there are, and their text. Works
# in a checkout and in an unpacked release tarball, so it walks folders and never asks git.
package IpuTree;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Find qw(find);

our @EXPORT_OK = qw(top_srcdir tree_files file_text layer_of page_text);

# Where the tree is: as the build says, else beside this file.
sub top_srcdir {
	return $ENV{TOP_SRCDIR} // abs_path(dirname(__FILE__) . '/../..');
}

# All files below the given folders (or files) whose path matches, relative to the tree's top.
# Build folders, generated files and anything hidden that isn't ours are left out.
sub tree_files {
	my ($pattern, @roots) = @_;
	my $top = top_srcdir();
	my @found;
	my $wanted = sub {
		my $path = $File::Find::name;
		$path =~ s{^\Q$top\E/}{};
		if (-d $_ && $path =~ m{(^|/)(\.git|\.cache|autom4te\.cache|build[^/]*|\.deps|_build)$}) {
			$File::Find::prune = 1;
			return;
		}
		push @found, $path if -f $_ && -T _ && $path =~ $pattern;
	};
	for my $root (@roots) {
		find($wanted, "$top/$root") if -e "$top/$root";
	}
	my %seen;
	return sort grep { !$seen{$_}++ } @found;
}

sub file_text {
	my ($path) = @_;
	open(my $in, '<', top_srcdir() . "/$path") or die "$path: $!\n";
	local $/;
	return scalar <$in>;
}

# A file of the live page as it's served (src/proxy/local.mk).
sub page_text {
	my ($name) = @_;
	my ($kind) = map { s/svg/html/r } $name =~ /(\w+)$/;
	my @files = ($name eq 'page.js' ? qw(hours.js queue.js) : (), $name);
	my $folder = top_srcdir() . '/src/proxy/page';
	my @filter = $kind eq 'js' ? qw(awk -f js.awk) : ('sed', '-f', "$kind.sed");
	open(my $in, '-|', 'sh', '-c', 'cd "$1" && shift && filter="$1 $2 $3" && shift 3 && cat "$@" | LC_ALL=C $filter', 'sh', $folder, @filter, @files)
		or die "$filter[0]: $!\n";
	local $/;
	return scalar <$in>;
}

# The layer that a file of src/ or include/ belongs to.
sub layer_of {
	my ($path) = @_;
	return $path =~ m{^(?:src|include)/([^/]+)/} ? $1 : undef;
}

1;
