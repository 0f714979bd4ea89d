# SPDX-License-Identifier: Apache-2.0
#
# The bill of materials of an image or an archive as an SPDX 2.3 document in JSON: each file with its checksums, our
# own package, and each Debian package that a file comes from or is linked from.
package Spdx;

use v5.36;

use Digest::SHA qw(sha1_hex sha256_hex);
use Exporter qw(import);
use JSON::PP;
use POSIX qw(strftime);

our @EXPORT_OK = qw(spdx_document);

# Arguments: name, version, time, whole (what holds the files: name, SPDX's purpose, sha256, comment), entries (Ustar's; of each file
# "package", a Debian package's name, where it comes from one; "ours" where we made it), packages
# (Debian::package_about by name), static (names of those that are linked into our programs).
sub spdx_document (%about) {
	my @files = grep { defined $_->{bytes} } @{ $about{entries} };
	my @packages = map { debian_package($_) } sort { $a->{name} cmp $b->{name} } values %{ $about{packages} };
	my %document = (
		spdxVersion => 'SPDX-2.3',
		dataLicense => 'CC0-1.0',
		SPDXID => 'SPDXRef-DOCUMENT',
		name => "$about{name}-$about{version}-$about{whole}{name}",
		documentNamespace => "https://spdx.org/spdxdocs/$about{name}-$about{version}-"
			. $about{whole}{sha256},
		creationInfo => {
			created => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $about{time}),
			creators => ["Tool: $about{name}-make-$about{whole}{name}-$about{version}"],
		},
		packages => [whole_package(\%about, @files), own_package(\%about), @packages],
		files => [map { file($_) } @files],
		relationships => [relationships(\%about, @files)],
	);
	return JSON::PP->new->utf8->canonical->pretty->encode(\%document);
}

# SPDX identifiers hold letters, digits, dots and hyphens only.
sub package_id ($name) {
	return 'SPDXRef-Package-' . ($name =~ s/[^A-Za-z0-9.]/-/gr);
}

sub whole_id ($about) {
	return 'SPDXRef-' . ucfirst $about->{whole}{name};
}

sub file_id ($file) {
	return 'SPDXRef-File-' . sha1_hex($file->{path});
}

sub whole_package ($about, @files) {
	return {
		SPDXID => whole_id($about),
		name => "$about->{name}-$about->{whole}{name}",
		versionInfo => $about->{version},
		primaryPackagePurpose => $about->{whole}{purpose},
		downloadLocation => 'NOASSERTION',
		filesAnalyzed => JSON::PP::true,
		packageVerificationCode => {packageVerificationCodeValue => verification_code(@files)},
		checksums => [{algorithm => 'SHA256', checksumValue => $about->{whole}{sha256}}],
		licenseConcluded => 'NOASSERTION',
		licenseInfoFromFiles => ['NOASSERTION'],
		licenseDeclared => 'NOASSERTION',
		copyrightText => 'NOASSERTION',
		comment => $about->{whole}{comment},
	};
}

sub own_package ($about) {
	return {
		SPDXID => package_id($about->{name}),
		name => $about->{name},
		versionInfo => $about->{version},
		primaryPackagePurpose => 'APPLICATION',
		downloadLocation => 'NOASSERTION',
		filesAnalyzed => JSON::PP::false,
		licenseConcluded => 'Apache-2.0',
		licenseDeclared => 'Apache-2.0',
		copyrightText => 'NOASSERTION',
	};
}

sub debian_package ($about) {
	my %quoted = map { $_ => $about->{$_} =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ger }
		qw(name version arch);
	return {
		SPDXID => package_id($about->{name}),
		name => $about->{name},
		versionInfo => $about->{version},
		supplier => supplier($about->{maintainer}),
		sourceInfo => "built from the Debian source package $about->{source}",
		downloadLocation => 'NOASSERTION',
		filesAnalyzed => JSON::PP::false,
		licenseConcluded => 'NOASSERTION',
		licenseDeclared => $about->{license},
		copyrightText => 'NOASSERTION',
		externalRefs => [{
			referenceCategory => 'PACKAGE-MANAGER',
			referenceType => 'purl',
			referenceLocator => "pkg:deb/debian/$quoted{name}\@$quoted{version}?arch=$quoted{arch}",
		}],
	};
}

sub supplier ($maintainer) {
	return $maintainer =~ /^(.*\S)\s*<(\S+@\S+)>$/ ? "Organization: $1 ($2)" : 'NOASSERTION';
}

sub file ($entry) {
	my $program = $entry->{bytes} =~ /^\x7fELF/;
	return {
		SPDXID => file_id($entry),
		fileName => "./$entry->{path}",
		fileTypes => [$program ? 'BINARY' : 'TEXT'],
		checksums => [
			{algorithm => 'SHA1', checksumValue => sha1_hex($entry->{bytes})},
			{algorithm => 'SHA256', checksumValue => sha256_hex($entry->{bytes})},
		],
		licenseConcluded => $entry->{ours} ? 'Apache-2.0' : 'NOASSERTION',
		licenseInfoInFiles => ['NOASSERTION'],
		copyrightText => 'NOASSERTION',
	};
}

# SPDX 2.3, section 7.9: the SHA-1 of all files' SHA-1 values, sorted and put in a row.
sub verification_code (@files) {
	return sha1_hex(join '', sort map { sha1_hex($_->{bytes}) } @files);
}

sub relationships ($about, @files) {
	my ($whole, $own) = (whole_id($about), package_id($about->{name}));
	my @all = (['SPDXRef-DOCUMENT', 'DESCRIBES', $whole], [$whole, 'CONTAINS', $own]);
	push @all, map { [$whole, 'CONTAINS', package_id($_)] } sort keys %{ $about->{packages} };
	push @all, map { [$own, 'STATIC_LINK', package_id($_)] } sort @{ $about->{static} };
	for my $file (@files) {
		push @all, [$whole, 'CONTAINS', file_id($file)];
		my $from = $file->{ours} ? $own : $file->{package} ? package_id($file->{package}) : next;
		push @all, [file_id($file), 'GENERATED_FROM', $from];
	}
	return map {
		{spdxElementId => $_->[0], relationshipType => $_->[1], relatedSpdxElement => $_->[2]}
	} @all;
}

1;
