# SPDX-License-Identifier: Apache-2.0
#
# The image's bill of materials as an SPDX 2.3 document in JSON: each file with its checksums, the
# operator's own package, and each Debian package that a file comes from or is linked from.
package Spdx;

use v5.36;

use Digest::SHA qw(sha1_hex sha256_hex);
use Exporter qw(import);
use JSON::PP;
use POSIX qw(strftime);

our @EXPORT_OK = qw(spdx_document);

# Arguments: name, version, time, digest (the image's manifest), entries (Ustar's; of each file
# "package", a Debian package's name, where it comes from one; "ours" where we made it), packages
# (Debian::package_about by name), static (names of those that are linked into our programs).
sub spdx_document (%image) {
	my @files = grep { defined $_->{bytes} } @{ $image{entries} };
	my @packages = map { debian_package($_) } sort { $a->{name} cmp $b->{name} } values %{ $image{packages} };
	my %document = (
		spdxVersion => 'SPDX-2.3',
		dataLicense => 'CC0-1.0',
		SPDXID => 'SPDXRef-DOCUMENT',
		name => "$image{name}-$image{version}-image",
		documentNamespace => "https://spdx.org/spdxdocs/$image{name}-$image{version}-"
			. substr($image{digest}, 7),
		creationInfo => {
			created => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $image{time}),
			creators => ["Tool: $image{name}-make-image-$image{version}"],
		},
		packages => [image_package(\%image, @files), own_package(\%image), @packages],
		files => [map { file($_) } @files],
		relationships => [relationships(\%image, @files)],
	);
	return JSON::PP->new->utf8->canonical->pretty->encode(\%document);
}

# SPDX identifiers hold letters, digits, dots and hyphens only.
sub package_id ($name) {
	return 'SPDXRef-Package-' . ($name =~ s/[^A-Za-z0-9.]/-/gr);
}

sub file_id ($file) {
	return 'SPDXRef-File-' . sha1_hex($file->{path});
}

sub image_package ($image, @files) {
	return {
		SPDXID => 'SPDXRef-Image',
		name => "$image->{name}-image",
		versionInfo => $image->{version},
		primaryPackagePurpose => 'CONTAINER',
		downloadLocation => 'NOASSERTION',
		filesAnalyzed => JSON::PP::true,
		packageVerificationCode => {packageVerificationCodeValue => verification_code(@files)},
		checksums => [{algorithm => 'SHA256', checksumValue => substr($image->{digest}, 7)}],
		licenseConcluded => 'NOASSERTION',
		licenseInfoFromFiles => ['NOASSERTION'],
		licenseDeclared => 'NOASSERTION',
		copyrightText => 'NOASSERTION',
		comment => 'The checksum is the digest of the image manifest.',
	};
}

sub own_package ($image) {
	return {
		SPDXID => package_id($image->{name}),
		name => $image->{name},
		versionInfo => $image->{version},
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

sub relationships ($image, @files) {
	my $own = package_id($image->{name});
	my @all = (['SPDXRef-DOCUMENT', 'DESCRIBES', 'SPDXRef-Image'], ['SPDXRef-Image', 'CONTAINS', $own]);
	push @all, map { ['SPDXRef-Image', 'CONTAINS', package_id($_)] } sort keys %{ $image->{packages} };
	push @all, map { [$own, 'STATIC_LINK', package_id($_)] } sort @{ $image->{static} };
	for my $file (@files) {
		push @all, ['SPDXRef-Image', 'CONTAINS', file_id($file)];
		my $from = $file->{ours} ? $own : $file->{package} ? package_id($file->{package}) : next;
		push @all, [file_id($file), 'GENERATED_FROM', $from];
	}
	return map {
		{spdxElementId => $_->[0], relationshipType => $_->[1], relatedSpdxElement => $_->[2]}
	} @all;
}

1;
