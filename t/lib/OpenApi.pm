# SPDX-License-Identifier: Apache-2.0
#
# An OpenAPI 3.1 document, and whether answers are what it says: statuses, headers, content types, and
# bodies by their schemas. Core modules only, so the document is in the part of YAML that
# CPAN::Meta::YAML reads, and a keyword that isn't known here is an error, not a silent pass.
package OpenApi;

use v5.36;
use CPAN::Meta::YAML ();
use JSON::PP ();

my @methods = qw(get put post delete options head patch trace);
my %known = map { $_ => 1 } qw(type properties required additionalProperties propertyNames minProperties items enum
	const minimum maximum minLength maxLength pattern format description default $ref);

sub load ($class, $path) {
	open(my $in, '<:encoding(UTF-8)', $path) or die "$path: $!\n";
	my $text = do { local $/; <$in> };
	my $yaml = CPAN::Meta::YAML->read_string($text) or die "$path: " . CPAN::Meta::YAML->errstr . "\n";
	my $self = bless { doc => $yaml->[0], path => $path }, $class;
	die "$path: isn't OpenAPI 3.1\n" if ($self->{doc}{openapi} // '') !~ /^3\.1\./;
	return $self;
}

# What a $ref stands for; members beside it are the referrer's own and come on top.
sub resolve ($self, $node) {
	my %beside;
	while (ref $node eq 'HASH' && exists $node->{'$ref'}) {
		my ($ref, %more) = (undef, %$node);
		$ref = delete $more{'$ref'};
		%beside = (%more, %beside);
		$ref =~ m{^#/(.+)$} or die "$ref: not in this document\n";
		$node = $self->{doc};
		for my $part (split m{/}, $1) {
			$node = $node->{ $part =~ s{~1}{/}gr =~ s{~0}{~}gr } // die "$ref: there is none\n";
		}
	}
	return %beside ? { %$node, %beside } : $node;
}

# Every operation: {path, method, node, parameters}.
sub operations ($self) {
	my @found;
	for my $path (sort keys %{ $self->{doc}{paths} }) {
		my $item = $self->{doc}{paths}{$path};
		for my $method (grep { $item->{$_} } @methods) {
			my $node = $item->{$method};
			push @found, { path => $path, method => uc $method, node => $node,
				parameters => [ map { $self->resolve($_) } @{ $item->{parameters} // [] },
					@{ $node->{parameters} // [] } ] };
		}
	}
	return @found;
}

sub operation ($self, $method, $path) {
	my ($found) = grep { $_->{path} eq $path && $_->{method} eq $method } $self->operations;
	return $found // die "$method $path: not in $self->{path}\n";
}

sub statuses ($self, $op) { return sort keys %{ $op->{node}{responses} } }

# What of an answer isn't as the document says; nothing: all is. $answer: {status, headers => {lower-case
# name => value}, content}.
sub check ($self, $op, $answer) {
	my $declared = $op->{node}{responses}{ $answer->{status} };
	return "status $answer->{status} isn't declared" if !$declared;
	my $response = $self->resolve($declared);
	my @wrong;
	for my $name (sort keys %{ $response->{headers} // {} }) {
		my $header = $self->resolve($response->{headers}{$name});
		my $value = $answer->{headers}{ lc $name };
		if (!defined $value) {
			push @wrong, "header $name is missing" if ($header->{required} // '') eq 'true';
			next;
		}
		my $schema = $self->resolve($header->{schema});
		$value = 0 + $value if $schema->{type} eq 'integer' && $value =~ /^\d+$/;
		push @wrong, $self->invalid($schema, $value, "header $name");
	}
	return (@wrong, $self->wrong_content($response->{content}, $answer));
}

sub wrong_content ($self, $content, $answer) {
	my $type = $answer->{headers}{'content-type'};
	if (!$content) {
		return "a body where none is declared" if length $answer->{content};
		return "a Content-Type where no body is declared" if defined $type;
		return;
	}
	return "no Content-Type" if !defined $type;
	$type =~ s/\s*;.*//;
	return "Content-Type $type isn't declared" if !$content->{$type};
	my $value = $answer->{content};
	if ($type =~ m{[/+]json$}) {
		$value = eval { JSON::PP->new->utf8->allow_nonref->decode($value) };
		return "the body isn't JSON: $@" if $@;
	}
	return $self->invalid($content->{$type}{schema}, $value, 'body');
}

# ---- schemas ----

sub type_of ($value) {
	return 'null' if !defined $value;
	return 'boolean' if JSON::PP::is_bool($value);
	return { HASH => 'object', ARRAY => 'array' }->{ ref $value } if ref $value;
	my $text = JSON::PP->new->allow_nonref->encode($value);
	return $text =~ /^"/ ? 'string' : $text =~ /^-?\d+$/ ? 'integer' : 'number';
}

sub unquoted ($text) { return $text eq '""' ? '' : $text }

# What is wrong with a value, each with its place.
sub invalid ($self, $schema, $value, $at) {
	$schema = $self->resolve($schema);
	for my $keyword (keys %$schema) {
		die "$self->{path}: the keyword $keyword isn't known to t/lib/OpenApi.pm\n" if !$known{$keyword};
	}
	my $type = type_of($value);
	if (my $want = $schema->{type}) {
		return "$at is $type, not $want" if $type ne $want && !($want eq 'number' && $type eq 'integer');
	}
	my @wrong;
	push @wrong, "$at is \"$value\", not one of its values"
		if $schema->{enum} && !grep { unquoted($_) eq $value } @{ $schema->{enum} };
	push @wrong, "$at is \"$value\", not its constant" if exists $schema->{const} && $schema->{const} ne $value;
	push @wrong, wrong_size($schema, $type, $value, $at);
	push @wrong, $self->wrong_members($schema, $value, $at) if $type eq 'object';
	if ($type eq 'array' && $schema->{items}) {
		push @wrong, $self->invalid($schema->{items}, $value->[$_], "$at\[$_]") for 0 .. $#$value;
	}
	return @wrong;
}

sub wrong_size ($schema, $type, $value, $at) {
	my @wrong;
	if ($type eq 'integer' || $type eq 'number') {
		push @wrong, "$at is $value, below $schema->{minimum}" if $value < ($schema->{minimum} // $value);
		push @wrong, "$at is $value, above $schema->{maximum}" if $value > ($schema->{maximum} // $value);
	} elsif ($type eq 'string') {
		my $length = length $value;
		push @wrong, "$at has $length characters" if $length < ($schema->{minLength} // 0)
			|| $length > ($schema->{maxLength} // $length);
		push @wrong, "$at is \"$value\", not like $schema->{pattern}"
			if defined $schema->{pattern} && $value !~ /$schema->{pattern}/;
	}
	return @wrong;
}

sub wrong_members ($self, $schema, $value, $at) {
	my @wrong = map { "$at lacks $_" } grep { !exists $value->{$_} } @{ $schema->{required} // [] };
	push @wrong, "$at has too few members" if keys %$value < ($schema->{minProperties} // 0);
	for my $key (sort keys %$value) {
		push @wrong, $self->invalid($schema->{propertyNames}, $key, "the name $at.$key") if $schema->{propertyNames};
		if (my $inner = ($schema->{properties} // {})->{$key}) {
			push @wrong, $self->invalid($inner, $value->{$key}, "$at.$key");
		} elsif (ref($schema->{additionalProperties} // '')) {
			push @wrong, $self->invalid($schema->{additionalProperties}, $value->{$key}, "$at.$key");
		} elsif (($schema->{additionalProperties} // 'true') eq 'false') {
			push @wrong, "$at.$key isn't a member of it";
		}
	}
	return @wrong;
}

1;
