#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The benchmarks work: each is run once, as small as can be, and nothing is asked of its figures but that they are there, with the bars
# of doc/design/bench.md; and the picture of what grows.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use Bench;
use BenchPlot;
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(300);
program_or_skip($_) for qw(curl kubectl openssl taskset);
my $dir = test_dir();
my $made = run([ $^X, "$FindBin::Bin/bench/table.pl", '--quick', "--out=$dir" ], seconds => 280);
is($made->{status}, 0, 'all benchmarks run') or diag("$made->{out}$made->{err}");
my $all = json_decode(slurp("$dir/bench.json"));
ok($all->{about}{quick}, 'and are known as what measures nothing');

# What the page about them says of bars is what they judge by; those of the real cluster and of the full size aside. A number at a
# figure's end is its size.
sub bars (@pairs) { my %seen = map { (($_->[0] =~ s/-\d+$//r) . " $_->[1]" => 1) } @pairs; return [ sort keys %seen ] }
my @said = slurp(top_srcdir() . '/doc/design/bench.md') =~ /^\| [^|]+ \| `([\w-]+)` \| `([<>=]+ [\d.]+)` \|/mg;
my @pairs = grep { $_->[0] !~ /^(?:remote-|memory-10000|memory-found-10000|exec-256)/ } map { [ @said[ 2 * $_, 2 * $_ + 1 ] ] } 0 .. $#said / 2;
is_deeply(bars(map { [ $_->{id}, $_->{bar} ] } grep { $_->{bar} } @{ $all->{lines} }), bars(@pairs), 'the page about them has their bars');
my %known = map { $_ => 1 } map { $_->{id} } @{ $all->{lines} };
is(scalar keys %known, scalar @{ $all->{lines} }, 'no figure has the name of another');

is(Bench::median(3, 1, 2), 2, 'the median of three');
is(Bench::median(4, 1, 2, 3), 2.5, 'of four');
my $svg = BenchPlot::svg({ at => 'then', commit => 'c', cpu => 'a < b' }, [ map { { series => 's', unit => 'ms', n => $_, median => $_ } } 1, 10, 100 ]);
like($svg, qr{<polyline points="56\.0,176\.0 170\.0,108\.0 284\.0,40\.0"}, 'what grows linearly is drawn from corner to corner');
like($svg, qr{<line x1="56\.0" y1="176\.0" x2="284\.0" y2="40\.0" class="linear"}, '… and so is linear growth');
unlike(slurp("$dir/bench.svg"), qr/nan|inf/i, 'the picture has numbers only');
done_testing();
