# SPDX-License-Identifier: Apache-2.0
#
# Writes tar archives (POSIX ustar) in which nothing depends on the machine, the user, the clock or
# the umask: owner 0, one time for all, modes and order as the caller says. Core modules only.
package Ustar;

use v5.36;

use Exporter qw(import);
use IO::Compress::Gzip qw(gzip $GzipError);

our @EXPORT_OK = qw(ustar_bytes gzip_bytes write_archive tree_entries read_bytes write_bytes);

# The archive of the entries, in their order: {path => 'a/b', mode => 0644, bytes => '…'} is a file,
# {path => 'a', mode => 0755} a folder, {path => 'a/c', target => 'b'} a symbolic link.
sub ustar_bytes ($time, @entries) {
	my $out = '';
	for my $entry (@entries) {
		$out .= header($time, $entry);
		if (defined $entry->{bytes}) {
			$out .= $entry->{bytes} . "\0" x (-length($entry->{bytes}) % 512);
		}
	}
	return $out . "\0" x 1024;
}

sub header ($time, $entry) {
	my $file = defined $entry->{bytes};
	my $link = defined $entry->{target};
	my ($prefix, $name) = split_path($entry->{path} . ($file || $link ? '' : '/'));
	my $target = $entry->{target} // '';
	length($target) <= 100 or die "tar: a link's target is longer than 100 bytes: $target\n";
	my $header = pack('a100 a8 a8 a8 a12 a12 A8 a1 a100 a6 a2 a32 a32 a8 a8 a155 a12',
		$name, octal(7, $link ? 0777 : $entry->{mode}), octal(7, 0), octal(7, 0),
		octal(11, $file ? length($entry->{bytes}) : 0), octal(11, $time), '',
		$file ? '0' : $link ? '2' : '5', $target, "ustar\0", '00', '', '', octal(7, 0), octal(7, 0),
		$prefix, '');
	substr($header, 148, 8) = sprintf("%06o\0 ", unpack('%32C*', $header));
	return $header;
}

sub octal ($digits, $value) {
	my $text = sprintf("%0*o", $digits, $value);
	length($text) == $digits or die "tar: $value doesn't fit into the header\n";
	return "$text\0";
}

# ustar keeps a path of more than 100 bytes in two fields, parted at a slash.
sub split_path ($path) {
	return ('', $path) if length($path) <= 100;
	$path =~ m{^(.{1,155})/(.{1,100})$}s or die "tar: the path is too long: $path\n";
	return ($1, $2);
}

# No name and no time in the header; the bytes depend on zlib's version and nothing else.
sub gzip_bytes ($bytes) {
	my $out;
	gzip(\$bytes => \$out, -Level => 9, -Minimal => 1) or die "gzip: $GzipError\n";
	return $out;
}

# Writes the entries as $base.tar.xz, whose bytes depend on xz's version and nothing else.
sub write_archive ($base, $time, @entries) {
	write_bytes("$base.tar", ustar_bytes($time, @entries));
	system('xz', '--force', '--threads=1', "$base.tar") == 0 or die "xz failed; $base.tar isn't packed\n";
	return;
}

# The entries of a folder under another name, sorted, folders before what is in them. Modes become
# 0755 where the owner may execute, and 0644.
sub tree_entries ($folder, $as) {
	my @entries = ({path => $as, mode => 0755});
	opendir(my $handle, $folder) or die "$folder: $!\n";
	for my $name (sort grep { $_ ne '.' && $_ ne '..' } readdir $handle) {
		my $path = "$folder/$name";
		if (-l $path) {
			push @entries, {path => "$as/$name", target => readlink($path)};
		} elsif (-d _) {
			push @entries, tree_entries($path, "$as/$name");
		} else {
			push @entries, {path => "$as/$name", mode => -x _ ? 0755 : 0644, bytes => read_bytes($path)};
		}
	}
	return @entries;
}

sub read_bytes ($path) {
	open(my $in, '<:raw', $path) or die "$path: $!\n";
	local $/;
	my $bytes = <$in>;
	close($in) or die "$path: $!\n";
	return $bytes // '';
}

# Replaces the file in one step.
sub write_bytes ($path, $bytes) {
	open(my $out, '>:raw', "$path.part") or die "$path.part: $!\n";
	print {$out} $bytes;
	close($out) or die "$path.part: $!\n";
	rename("$path.part", $path) or die "$path: $!\n";
	return;
}

1;
