# SPDX-License-Identifier: Apache-2.0
#
# What a release says of itself: its date, its revision and what stands in its texts, from the tree alone, so that the same
# tree gives the same bytes on any day.
package Release;

use v5.36;

use Exporter qw(import);
use Time::Local qw(timegm);

our @EXPORT_OK = qw(release_time release_revision release_record with_words);

# The file that `make dist` leaves in the tarball, where there is no git: "HASH SECONDS".
my $record = 'etc/release/revision';

# Seconds since 1970: SOURCE_DATE_EPOCH; else the date behind the version in ChangeLog; else the
# commit's.
sub release_time ($source, $version) {
	if (defined $ENV{SOURCE_DATE_EPOCH}) {
		$ENV{SOURCE_DATE_EPOCH} =~ /^\d{1,11}$/
			or die "SOURCE_DATE_EPOCH isn't a number of seconds: $ENV{SOURCE_DATE_EPOCH}\n";
		return 0 + $ENV{SOURCE_DATE_EPOCH};
	}
	open(my $in, '<', "$source/ChangeLog") or die "$source/ChangeLog: $!\n";
	while (<$in>) {
		return timegm(0, 0, 0, $3, $2 - 1, $1) if /^\Q$version\E \((\d{4})-(\d\d)-(\d\d)\)/;
	}
	my (undef, $time) = commit($source);
	return $time // die "no date for release $version: ChangeLog has none, and there is no git;"
		. " set SOURCE_DATE_EPOCH\n";
}

# The commit, with "-dirty" behind it where the tree was changed since; undef where nothing tells.
sub release_revision ($source) {
	my ($revision) = commit($source);
	return $revision;
}

# What the distribution keeps of that: the file's path, and its text, undef where nothing tells.
sub release_record ($source) {
	my ($revision, $time) = commit($source);
	return ($record, defined $revision ? "$revision $time\n" : undef);
}

# The text of a file in which @NAME@ stands for a word.
sub with_words ($file, %word) {
	open(my $in, '<:raw', $file) or die "$file: $!\n";
	local $/;
	return <$in> =~ s/\@([A-Z]+)\@/$word{$1} \/\/ die "$file: what is \@$1\@?\n"/ger;
}

sub commit ($source) {
	if (-e "$source/.git") {
		my $text = git($source, 'log', '-1', '--format=%H %ct') // return;
		my ($hash, $time) = $text =~ /^([0-9a-f]{40,64}) (\d+)$/ or return;
		my $changes = git($source, 'status', '--porcelain', '--untracked-files=no') // '';
		return ($hash . ($changes eq '' ? '' : '-dirty'), $time);
	}
	open(my $in, '<', "$source/$record") or return;
	return (<$in> // '') =~ /^(\S+) (\d+)$/ ? ($1, $2) : ();
}

# Whoever owns the tree: it is only read.
sub git ($source, @words) {
	open(my $in, '-|', 'git', '-c', "safe.directory=*", '-C', $source, @words) or return undef;
	local $/;
	my $text = <$in> // '';
	chomp $text;
	return close($in) ? $text : undef;
}

1;
