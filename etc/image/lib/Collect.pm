# SPDX-License-Identifier: Apache-2.0
#
# What goes into an image or an archive beside our own files: the programs of a build, stripped, and what they load
# from this machine, with the Debian package that each file comes from. Entries are Ustar's.
package Collect;

use v5.36;

use Debian qw(packages_of packages_about merged);
use Exporter qw(import);
use File::Basename qw(basename);
use File::Temp qw(tempdir);
use Ustar qw(read_bytes);

our @EXPORT_OK = qw(program_entry machine_entry libraries_of is_loader verbs_providers find_packages architecture output fail);

sub fail ($text) {
	die basename($0) . ": $text\n";
}

# A command's standard output. ldd ends with 1 for a static program, and says so there.
sub output (@command) {
	open(my $in, '-|', @command) or fail("$command[0]: $!");
	local $/;
	my $text = <$in> // '';
	close($in) or $command[0] eq 'ldd' or fail("$command[0] failed");
	return $text;
}

# A program of ours, stripped, as the file $path.
sub program_entry ($path, $from) {
	my $temp = tempdir('ipu-image-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
	-x $from or fail("$from isn't there: run make first");
	system($ENV{STRIP} // 'strip', '-o', "$temp/stripped", $from) == 0 or fail('strip failed');
	return {path => $path, mode => 0755, bytes => read_bytes("$temp/stripped"), ours => 1};
}

# A file of this machine, where it is looked for by that path in an image too.
sub machine_entry ($path, $mode = 0644) {
	return {path => merged($path) =~ s{^/}{}r, mode => $mode, from => $path, bytes => read_bytes($path)};
}

# The loader and the libraries that ELF files name, and theirs, by the loader itself: {merged path => path}.
sub libraries_of (@paths) {
	my (%found, $path);
	local $ENV{LC_ALL} = 'C';
	for (split /\n/, output('ldd', @paths)) {
		if (/^(\S.*):$/) {
			$path = $1;
		} elsif (!/linux-vdso|statically linked|not a dynamic executable/) {
			/not found/ and fail(($path // $paths[0]) . ": $_");
			my ($library) = m{^\s*(?:\S+ => )?(/\S+) \(0x} or fail(($path // $paths[0]) . ": ldd says '$_'");
			$found{merged($library)} = $library;
		}
	}
	return \%found;
}

sub is_loader ($path) {
	return basename($path) =~ /^ld(?:64)?[-.]/;
}

# What libibverbs loads while it runs: a provider for each kind of network card.
sub verbs_providers () {
	return map { glob("$_/libibverbs/*-rdmav*.so") } grep { -d "$_/libibverbs" } '/usr/lib64', glob('/usr/lib/*-linux-gnu');
}

# Finds the package of each file that came from this machine, and sets it in its entry. Returns what is to know of the
# packages, by their names (Debian::packages_about), and the names of those of the archives (*.a) given.
sub find_packages ($archives, @entries) {
	my $holder = packages_of(@$archives, grep { defined } map { $_->{from} } @entries);
	for my $entry (grep { defined $_->{from} } @entries) {
		$entry->{package} = $holder->{$entry->{from}};
	}
	my %static = map { $_ => 1 } grep { defined } map { $holder->{$_} } @$archives;
	my %all = map { $_ => 1 } values %$holder;
	return (packages_about(sort keys %all), sort keys %static);
}

# The machine by a program's ELF header, as Go calls it.
sub architecture ($program) {
	my %known = (62 => 'amd64', 183 => 'arm64', 243 => 'riscv64', 21 => 'ppc64le', 22 => 's390x');
	my $machine = unpack('x18 v', $program);
	return $known{$machine} // fail("the programs are for an unknown machine, ELF number $machine");
}

1;
