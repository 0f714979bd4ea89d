# SPDX-License-Identifier: Apache-2.0
#
# How cost grows, as a picture: of the benchmarks' figures those that say of which series they are ({series} is its name, {n} the
# number that grows), a small plot each with both axes logarithmic. A line that rises as the grey ones do is linear growth.
package BenchPlot;

use v5.36;

use POSIX ();

my ($wide, $high, $left, $top) = (300, 200, 56, 40); # of a plot, and of the room for its words
my $columns = 3;

sub log10 ($n) { return log($n) / log(10) }
sub escape ($text) { return $text =~ s/&/&amp;/gr =~ s/</&lt;/gr }

# The decades that these numbers lie in.
sub range (@all) {
	my ($least, $most) = map { log10($_) } (sort { $a <=> $b } @all)[ 0, -1 ];
	my ($low, $high_end) = (POSIX::floor($least + 1e-9), POSIX::ceil($most - 1e-9));
	return ($low, $high_end > $low ? $high_end : $low + 1);
}

sub tick ($power) { return $power >= 6 ? "1e$power" : $power >= -3 ? 10**$power : "1e$power" }

sub plot ($series, $unit, $points) {
	my ($x0, $x1) = range(map { $_->[0] } @$points);
	my ($y0, $y1) = range(map { $_->[1] } @$points);
	my $x = sub ($v) { sprintf '%.1f', $left + ($v - $x0) / ($x1 - $x0) * ($wide - $left - 16) };
	my $y = sub ($v) { sprintf '%.1f', $high - 24 - ($v - $y0) / ($y1 - $y0) * ($high - 24 - $top) };
	my $svg = sprintf qq{<text x="%d" y="16" class="name">%s</text><text x="%d" y="31" class="unit">%s</text>\n}, $left, escape($series), $left, escape($unit);
	$svg .= sprintf qq{<line x1="%s" y1="%s" x2="%s" y2="%s" class="grid"/><text x="%s" y="%d" class="x">%s</text>\n}, $x->($_), $y->($y0), $x->($_), $y->($y1), $x->($_), $high - 8, tick($_)
		for $x0 .. $x1;
	$svg .= sprintf qq{<line x1="%s" y1="%s" x2="%s" y2="%s" class="grid"/><text x="%d" y="%s" class="y">%s</text>\n}, $x->($x0), $y->($_), $x->($x1), $y->($_), $left - 6, $y->($_) + 4, tick($_)
		for $y0 .. $y1;
	# Linear growth through the last point, as far as it's within the plot.
	my ($n, $v) = map { log10($_) } @{ $points->[-1] };
	my $from = $n - $v + $y0 > $x0 ? $n - $v + $y0 : $x0;
	$svg .= sprintf qq{<line x1="%s" y1="%s" x2="%s" y2="%s" class="linear"/>\n}, $x->($from), $y->($v - $n + $from), $x->($n), $y->($v);
	$svg .= sprintf qq{<polyline points="%s" class="cost"/>\n}, join ' ', map { $x->(log10($_->[0])) . ',' . $y->(log10($_->[1])) } @$points;
	$svg .= sprintf qq{<circle cx="%s" cy="%s" r="3"><title>%s: %s</title></circle>\n}, $x->(log10($_->[0])), $y->(log10($_->[1])), @$_ for @$points;
	return $svg;
}

sub svg ($about, $lines) {
	my (%points, %unit, @order);
	for my $line (grep { $_->{series} && $_->{n} > 0 && $_->{median} > 0 } @$lines) {
		push @order, $line->{series} if !$points{ $line->{series} };
		push @{ $points{ $line->{series} } }, [ $line->{n}, $line->{median} ];
		$unit{ $line->{series} } = $line->{unit};
	}
	@order = grep { @{ $points{$_} } > 1 } @order;
	my $rows = POSIX::ceil(@order / $columns) || 1;
	my ($w, $h) = ($columns * $wide, $rows * $high + 30);
	my $svg = qq{<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" width="$w" height="$h" font-family="sans-serif" font-size="11">\n}
		. qq{<style>.name{font-weight:bold}.unit,.x,.y{fill:#555}.x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#ddd}.linear{stroke:#999;stroke-dasharray:4 3}}
		. qq{.cost{fill:none;stroke:#0b62a8;stroke-width:2}circle{fill:#0b62a8}</style>\n<rect width="$w" height="$h" fill="#fff"/>\n};
	for my $i (0 .. $#order) {
		my $name = $order[$i];
		$svg .= sprintf qq{<g transform="translate(%d %d)">\n%s</g>\n}, $i % $columns * $wide, int($i / $columns) * $high, plot($name, $unit{$name}, [ sort { $a->[0] <=> $b->[0] } @{ $points{$name} } ]);
	}
	return $svg . sprintf qq{<text x="%d" y="%d" class="unit">%s, commit %s, %s; dashed: linear growth</text>\n</svg>\n}, $left, $h - 10, map { escape($_) } @$about{qw(at commit cpu)};
}

1;
