#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page's colours, computed from its styles: words on each namespace's colour, in each shade, state and scheme, have a
# contrast of 4.5 (WCAG 1.4.3), an error's frame has 3 on what is around it (1.4.11). axe-core can't say it of words in drawings.

use v5.36;
use FindBin;
use Test::More;

my $file = "$FindBin::Bin/../src/proxy/page/page.css";
open(my $handle, '<', $file) or die("$file: $!\n");
my $css = do { local $/ = undef; <$handle> };
close($handle);

# "#9ec1ec" and "#fff" as three numbers from 0 to 1.
sub rgb ($hex) {
	$hex =~ s/^#(.)(.)(.)\z/#$1$1$2$2$3$3/;
	return map { hex($_) / 255 } $hex =~ /[0-9a-f]{2}/g;
}

sub linear ($value) { return $value <= 0.04045 ? $value / 12.92 : (($value + 0.055) / 1.055)**2.4 }
sub curved ($value) { return $value <= 0.0031308 ? 12.92 * $value : 1.055 * $value**(1 / 2.4) - 0.055 }

sub contrast ($one, $other) {
	my ($low, $high) = sort { $a <=> $b } map { 0.2126 * linear($_->[0]) + 0.7152 * linear($_->[1]) + 0.0722 * linear($_->[2]) + 0.05 } $one, $other;
	return $high / $low;
}

# The colour over the ground, as much of it as its opacity says.
sub over ($colour, $opacity, $ground) {
	return [ map { $opacity * $colour->[$_] + (1 - $opacity) * $ground->[$_] } 0 .. 2 ];
}

# color-mix(in oklab, colour, #fff part)
sub paler ($colour, $part) {
	my ($r, $g, $b) = map { linear($_) } @$colour;
	my ($l, $m, $s) = map { $_**(1 / 3) } 0.4122214708 * $r + 0.5363325363 * $g + 0.0514459929 * $b,
		0.2119034982 * $r + 0.6806995451 * $g + 0.1073969566 * $b, 0.0883024619 * $r + 0.2817188376 * $g + 0.6299787005 * $b;
	($l, $m, $s) = map { ((1 - $part) * $_ + $part)**3 } $l, $m, $s; # white is 1, 1, 1, and what lies between is linear
	return [ map { curved($_ < 0 ? 0 : $_ > 1 ? 1 : $_) } 4.0767416621 * $l - 3.3077115913 * $m + 0.2309699292 * $s,
		-1.2684380046 * $l + 2.6097574011 * $m - 0.3413193965 * $s, -0.0041960863 * $l - 0.7034186147 * $m + 1.7076147010 * $s ];
}

my %fill = $css =~ /^[ ]*\.(c\d|nobody)[ ]\{[ ]--fill:[ ](\#\w+)/gmx;
%fill = (%fill, $css =~ /[ ]\.(c\d|nobody)[ ]\{[ ]--fill:[ ](\#\w+)/gx);
my @parts = (0, map { $_ / 100 } $css =~ /--pale: (\d+)%/g);
my ($words) = $css =~ /^\.block, \.tag \{.*color: (#\w+);/m;
my ($bad, $bad_words) = $css =~ /^\.block\[data-state=error\] \{ --colour: (#\w+); color: (#\w+) \}/m;
my %opacity = $css =~ /^\[data-state=(\w+)\] path \{[^}]*fill-opacity: ([.\d]+)/gm;
my %scheme;
@scheme{qw(light dark)} = map { { /--([\w-]+): (#\w+)/g } } $css =~ /:root \{(.*?)\}/sg;

is(scalar keys %fill, 9, 'eight colours of namespaces, and that of an owner who is not known');
is(scalar @parts, 3, 'three shades of each');
is_deeply([ sort keys %opacity ], [qw(creating releasing)], 'the states that let the ground through');
is_deeply([ map { scalar keys %{ $scheme{$_} } } qw(light dark) ], [ 17, 17 ], 'each scheme has all of its colours');

for my $name (qw(light dark)) {
	my %is = map { $_ => [ rgb($scheme{$name}{$_}) ] } keys %{ $scheme{$name} };
	for my $class (sort keys %fill) {
		my @shades = map { paler([ rgb($fill{$class}) ], $_) } @parts;
		my ($least) = sort { $a <=> $b } map { contrast([ rgb($words) ], $_) } @shades;
		cmp_ok($least, '>=', 4.5, "$name: words on $class");
		for my $state (sort keys %opacity) {
			($least) = sort { $a <=> $b }
				map { my $shade = $_; map { contrast($is{ink}, over($shade, $opacity{$state}, $is{$_})) } qw(cell card) } @shades;
			cmp_ok($least, '>=', 4.5, "$name: words on $class that is $state");
		}
	}
	cmp_ok(contrast([ rgb($bad_words) ], [ rgb($bad) ]), '>=', 4.5, "$name: words of an error");
	cmp_ok(contrast($is{ink}, [ rgb($bad) ]), '>=', 3, "$name: an error's frame on its colour");
	cmp_ok(contrast($is{ink}, $is{$_}), '>=', 3, "$name: an error's frame on $_") for qw(cell card);
	for my $pair (qw(ink/card ink/ground soft/card soft/ground link/card good/card good/good-2 warn/warn-2 bad/card bad/bad-2 ink/hatch-2)) {
		my ($front, $back) = split(qr{/}, $pair);
		cmp_ok(contrast($is{$front}, $is{$back}), '>=', 4.5, "$name: $front on $back");
	}
}
done_testing();
