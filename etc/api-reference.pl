#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Writes doc/reference/api.md from the resource definition: `make api-reference`. Takes the definition's path, and
# prints the page. t/00-docs.t compares what it prints with the page that is there.

use strict;
use warnings;

use CPAN::Meta::YAML;

my ($path) = @ARGV;
defined $path or die "Usage: api-reference.pl CRD-FILE\n";
my $crd = (CPAN::Meta::YAML->read($path) or die "$path: can't be read\n")->[0];
my $version = $crd->{spec}{versions}[0];
my $kind = $crd->{spec}{names}{kind};
my $schema = $version->{schema}{openAPIV3Schema};
my @undescribed;

# What the definition can't describe (it allows no words on metadata), or needn't.
my %common = (metadata => 'Name, namespace, labels and annotations, as in every object.', name => 'Its name.');

sub cell { return $_[0] =~ s/\|/\\|/gr =~ s/\s+/ /gr }

sub type_of {
	my ($field) = @_;
	return 'number or string' if $field->{'x-kubernetes-int-or-string'};
	my $type = $field->{type} // 'any';
	if ($type eq 'array') {
		return 'list of ' . ($field->{items}{type} eq 'object' ? 'objects' : "$field->{items}{type}s");
	}
	return 'map' if $field->{additionalProperties};
	return 'time' if ($field->{format} // '') eq 'date-time';
	return $type eq 'integer' ? 'whole number' : $type;
}

# A default that is an object stands in its fields' table too.
sub default_of {
	my ($value) = $_[0]{default};
	return '' if !defined $value;
	return 'that of its fields' if ref $value;
	return $value eq '' ? '""' : "`$value`";
}

sub range_of {
	my ($field) = @_;
	my ($from, $to) = @$field{qw(minimum maximum)};
	return "from $from to $to" if defined $from && defined $to;
	return "at least $from" if defined $from;
	return defined $to ? "at most $to" : ();
}

sub limits_of {
	my ($field, $required) = @_;
	my @limits = $required ? 'required' : ();
	push @limits, 'one of ' . join ', ', map { "`$_`" } @{$field->{enum}} if $field->{enum};
	push @limits, range_of($field);
	push @limits, "matches `$field->{pattern}`" if defined $field->{pattern};
	push @limits, "at most $field->{maxLength} characters" if defined $field->{maxLength};
	push @limits, "at least $field->{minItems}" if defined $field->{minItems};
	push @limits, "at most $field->{maxItems}" if defined $field->{maxItems};
	push @limits, map { $_->{message} } grep { !$_->{fieldPath} && $field->{type} ne 'object' }
		@{$field->{'x-kubernetes-validations'} // []};
	return join '; ', @limits;
}

sub slug { return lc($_[0] =~ s/[^\w\- ]//gr) }

# The fields of an object as a table, what is checked across them as a list, then the objects below.
sub object {
	my ($name, $object, $level) = @_;
	my $fields = $object->{properties} // {};
	my %required = map { $_ => 1 } @{$object->{required} // []};
	my @below;
	print "\n", '#' x $level, " $name\n\n" if $level;
	print "$object->{description}\n\n" if $level && $object->{description};
	print "| field | type | default | limits | meaning |\n|---|---|---|---|---|\n";
	for my $field (sort { ($required{$b} // 0) <=> ($required{$a} // 0) || $a cmp $b } keys %$fields) {
		my $inner = $fields->{$field}{items} // $fields->{$field};
		my $full = $name eq $kind ? $field : "$name.$field";
		$full .= '[]' if $fields->{$field}{items};
		my $described = $fields->{$field}{description};
		push @undescribed, $full if !defined $described && !$common{$field};
		my $title = "`$field`";
		if ($inner->{properties} && $full ne 'metadata') {
			push @below, [$full, {%$inner, description => $inner->{description} // $described}];
			$title = "[`$field`](#" . slug($full) . ')';
		}
		print '| ', join(' | ', map { cell($_) } $title, type_of($fields->{$field}),
			default_of($fields->{$field}), limits_of($fields->{$field}, $required{$field}),
			$described // $common{$field} // ''), " |\n";
	}
	print "\nOther fields are kept as they are.\n" if $object->{'x-kubernetes-preserve-unknown-fields'};
	my @rules = @{$object->{'x-kubernetes-validations'} // []};
	print "\nAcross its fields:\n\n" if @rules;
	for my $rule (@rules) {
		my $where = $rule->{fieldPath} ? '`' . $rule->{fieldPath} =~ s/^\.//r . '`: ' : '';
		print "- $where$rule->{message}\n";
	}
	object(@$_, $level + 1 > 4 ? 4 : $level + 1) for @below;
	return;
}

print <<"END";
# $kind: API reference

<!-- Written by `make api-reference` from crds/graphcore.ai_ipujobs.yaml: edit the descriptions there. -->

`$crd->{spec}{group}/$version->{name}`, kind `$kind`, namespaced; `kubectl get $crd->{spec}{names}{plural}`. `kubectl explain` shows the same from the
cluster. What the webhook checks beyond this is in [validation.md](validation.md), and words for the states in [names.md](names.md).

`kubectl scale` changes `@{[$version->{subresources}{scale}{specReplicasPath} =~ s/^\.//r]}`; the status has its own end-point, which only the operator
writes.

| column of `kubectl get` | shows | meaning |
|---|---|---|
END
for my $column (@{$version->{additionalPrinterColumns}}) {
	print '| ', join(' | ', $column->{name}, '`' . $column->{jsonPath} =~ s/^\.//r . '`',
		$column->{description} // 'since when it exists'), " |\n";
}
object($kind, $schema, 2);
die "without a description: @undescribed\n" if @undescribed;
