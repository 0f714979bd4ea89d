# SPDX-License-Identifier: Apache-2.0
#
# How cost grows, of the benchmarks' figures those that say of which series they are ({series} is its name, {n} the number that grows).
# As a picture: a small plot each with both axes logarithmic, in which a line that rises as the grey one does is linear growth. And
# judged: by the exponent between the two largest numbers, where what doesn't grow weighs least.
package BenchPlot;

use v5.36;

use JSON::PP ();
use POSIX ();

my ($wide, $high, $left, $top) = (300, 200, 56, 40); # of a plot, and of the room for its words
my $columns = 3;
my $bar = 1.1; # of the exponent: each of a tenfold number may cost 26 % more, of a fourfold one 15 %, which noise alone can make of it

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

# The figures of each series by number, of those that have two or more; in the order in which they came. What isn't above 0 has no logarithm.
sub series_of ($lines) {
	my (%of, @order);
	for my $line (grep { $_->{series} && $_->{n} > 0 && $_->{median} > 0 } @$lines) {
		push @order, $line->{series} if !$of{ $line->{series} };
		push @{ $of{ $line->{series} } }, $line;
	}
	return map { [ sort { $a->{n} <=> $b->{n} } @$_ ] } grep { @$_ > 1 } @of{@order};
}

# What all of them cost, of a figure. {growth} says what the figure is: 'each', the cost for each; 'rate', what is done in a second for all
# together, whose cost is the time for as much for each; else the cost of all, of which {without} is there without any.
sub cost ($line, $v) {
	my $kind = $line->{growth} // '';
	return $kind eq 'each' ? $v * $line->{n} : $kind eq 'rate' ? $line->{n} / $v : $v - ($line->{without} // 0);
}

# To which power of the number the cost grows: a figure for each series, 1 being linear; least and most are those of the spreads of its two
# figures. Nothing can be said where these reach down to nothing.
sub growth ($lines) {
	my @growth;
	for my $series (series_of($lines)) {
		my $to = $series->[-1];
		my ($from) = grep { $_->{n} < $to->{n} } reverse @$series or next;
		my ($low, $high) = ($from->{growth} // '') eq 'rate' ? qw(most least) : qw(least most); # by cost
		my @pairs = ([ 'median', 'median' ], [ $high, $low ], [ $low, $high ]);
		next if grep { cost($from, $from->{ $_->[0] }) <= 0 || cost($to, $to->{ $_->[1] }) <= 0 } @pairs;
		my ($median, $least, $most) = map { 0 + sprintf '%.3f', log(cost($to, $to->{ $_->[1] }) / cost($from, $from->{ $_->[0] })) / log($to->{n} / $from->{n}) } @pairs;
		my %line = (bench => 'growth with their number', of => $from->{series}, what => "$from->{series}, from $from->{n} to $to->{n}", unit => 'exponent', id => 'growth-' . lc $from->{series} =~ tr/A-Za-z/-/csr,
			runs => [$median], median => $median, least => $least, most => $most, at => $to->{at},
			noise => { map { my $key = $_; $key => (sort { $b <=> $a } map { $_->{noise}{$key} // 0 } $from, $to)[0] } qw(steal load) });
		push @growth, { %line, bar => "<= $bar", held => $median <= $bar ? JSON::PP::true : JSON::PP::false };
	}
	return @growth;
}

sub svg ($about, $lines) {
	my @series = series_of($lines);
	my $rows = POSIX::ceil(@series / $columns) || 1;
	my ($w, $h) = ($columns * $wide, $rows * $high + 30);
	my $svg = qq{<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" width="$w" height="$h" font-family="sans-serif" font-size="11">\n}
		. qq{<style>.name{font-weight:bold}.unit,.x,.y{fill:#555}.x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#ddd}.linear{stroke:#999;stroke-dasharray:4 3}}
		. qq{.cost{fill:none;stroke:#0b62a8;stroke-width:2}circle{fill:#0b62a8}</style>\n<rect width="$w" height="$h" fill="#fff"/>\n};
	for my $i (0 .. $#series) {
		my @of = @{ $series[$i] };
		$svg .= sprintf qq{<g transform="translate(%d %d)">\n%s</g>\n}, $i % $columns * $wide, int($i / $columns) * $high,
			plot($of[0]{series}, $of[0]{unit}, [ map { [ @$_{qw(n median)} ] } @of ]);
	}
	return $svg . sprintf qq{<text x="%d" y="%d" class="unit">%s, commit %s, %s; dashed: linear growth</text>\n</svg>\n}, $left, $h - 10, map { escape($_) } @$about{qw(at commit cpu)};
}

1;
