#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Writes src/pod/fields_table.h, the names of a Pod's fields, from what an API server says of itself: `make pod-fields`.
# Takes the Kubernetes minor (1.36), reads its OpenAPI v2 document from standard input (`kubectl get --raw /openapi/v2`),
# and prints the file. t/cluster/30-templates.t compares what it prints of a real API server with the file that is there.

use strict;
use warnings;

use JSON::PP;

my $package = 'io.k8s.api.core.v1';
my ($minor) = @ARGV;
($minor // '') =~ /\A\d+\.\d+\z/ or die "Usage: pod-fields.pl MINOR <OPENAPI\n";
my $types = do { local $/; decode_json(<STDIN>)->{definitions} };

# The type of a value, of a list's items or of a map's values; undef: what has no fields, or any.
sub type_of {
	my ($field) = @_;
	my $name = ($field->{'$ref'} // '') =~ s{\A#/definitions/}{}r;
	return $types->{$name}{properties} ? $name : undef if $name;
	my $inner = $field->{items} // $field->{additionalProperties};
	return ref $inner eq 'HASH' ? type_of($inner) : undef;
}

my (%seen, %short);
my @left = map { "$package.$_" } qw(EnvVar Pod PodTemplateSpec);
while (my $name = shift @left) {
	next if $seen{$name}++;
	my $fields = ($types->{$name} or die "$name: the document has no such type\n")->{properties};
	my $last = $name =~ s/.*\.//r;
	die "$last: two types have this name\n" if $short{$last};
	my @words;
	for my $field (sort keys %$fields) {
		# What Kubernetes itself writes, nobody misspells.
		my $type = $last eq 'Pod' && $field eq 'status' || $field eq 'managedFields' ? undef : type_of($fields->{$field});
		push @left, $type // ();
		push @words, $field . ($type ? ':' . $type =~ s/.*\.//r : '');
	}
	$short{$last} = \@words;
}

print <<"END";
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a Pod, by the API of Kubernetes $minor; `make pod-fields` writes this. Of each type
 * the names of its fields, with the type of what is in them where that has fields too. Private to
 * pod/fields.c.
 */
#ifndef IPU_POD_FIELDS_TABLE_H
#define IPU_POD_FIELDS_TABLE_H

/* clang-format off */
#define POD_FIELDS_OF "$minor"

static const struct type types[] = {
END
for my $name (sort keys %short) {
	my @lines = ('');
	for my $word (@{$short{$name}}) {
		push @lines, '' if length($lines[-1]) + length($word) > 84;
		$lines[-1] .= "$word ";
	}
	$lines[-1] =~ s/ \z//;
	print "\t{\"$name\",\n", join("\n", map { "\t \"$_\"" } @lines), "},\n";
}
print "};\n/* clang-format on */\n\n#endif\n";
