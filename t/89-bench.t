#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The benchmarks work: each is run once, as small as can be, and nothing is asked of its figures but that they are there, with the bars
# of doc/design/bench.md; those that can run on another API server run on one; and how growth is judged and drawn.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use Bench;
use BenchPlot;
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(600);
program_or_skip($_) for qw(curl kubectl openssl taskset);
my $dir = test_dir();
my $made = run([ $^X, "$FindBin::Bin/bench/table.pl", '--quick', "--out=$dir" ], seconds => 280);
is($made->{status}, 0, 'all benchmarks run') or diag("$made->{out}$made->{err}");
my $all = json_decode(slurp("$dir/bench.json"));
ok($all->{about}{quick}, 'and are known as what measures nothing');

# What the page about them says of bars is what they judge by; those of the real cluster and of the full size aside. A number at a
# figure's end is its size.
sub bars (@pairs) { my %seen = map { (($_->[0] =~ s/-\d+$//r) . " $_->[1]" => 1) } @pairs; return [ sort keys %seen ] }
my $page = slurp(top_srcdir() . '/doc/design/bench.md');
my @said = $page =~ /^\| [^|]+ \| `([\w-]+)` \| `([<>=]+ [\d.]+)` \|/mg;
my @pairs = grep { $_->[0] !~ /^(?:remote-|memory-10000|memory-found-10000|exec-256)/ } map { [ @said[ 2 * $_, 2 * $_ + 1 ] ] } 0 .. $#said / 2;
is_deeply(bars(map { [ $_->{id}, $_->{bar} ] } grep { $_->{bar} } @{ $all->{lines} }), bars(@pairs), 'the page about them has their bars');
my %known;
push @{ $known{ $_->{id} } }, $_ for @{ $all->{lines} };
is(scalar keys %known, scalar @{ $all->{lines} }, 'no figure has the name of another');

# Another's API server: nobody but the benchmark starts Pods there, and one line finds what another left.
my $server = start('ipu-sim', args => [ '--dir', "$dir/there", '--pod-schedule-ms=86400000' ]);
mkdir "$dir/away";
$made = run([ $^X, "$FindBin::Bin/bench/table.pl", '--quick', "--out=$dir/away", "--kubeconfig=$dir/there/kubeconfig" ], seconds => 280);
is($made->{status}, 0, 'those of an API server run on another one') or diag("$made->{out}$made->{err}");
my %there = map { $_->{id} => $_->{bar} // '' } @{ json_decode(slurp("$dir/away/bench.json"))->{lines} };
my @here = grep { !/^(?:size|watch|grpc|exec)/ } sort keys %known;
is_deeply([ sort keys %there ], \@here, '… all figures but those that have to do with none');
my %real = $page =~ /^\| [^|]+ \| `([\w-]+)` \| `([<>=]+ [\d.]+)`, on a real API server \|/mg;
ok(%real, 'some bars are meant for a real API server');
is_deeply({ map { $_ => $there{$_} } keys %real }, \%real, '… and bars that are meant for a real one are judged there');
is_deeply([ grep { $there{$_} && !$real{$_} && !grep { $_->{bar} } @{ $known{$_} } } sort keys %there ], [], '… and no others alone');
$server->stop(status => 0);

# ---- growth ----

sub figures ($series, $more, @points) {
	return map { { series => $series, unit => 's', n => $_->[0], median => $_->[1], least => $_->[2] // $_->[1], most => $_->[3] // $_->[1], %$more } } @points;
}
sub judged (@figures) { my ($line, @more) = BenchPlot::growth([@figures]); return $line ? [ @$line{qw(median least most held)}, scalar @more ] : [] }

my ($held, $missed) = (JSON::PP::true, JSON::PP::false);
is_deeply(judged(figures('s', {}, [ 1, 99 ], [ 10, 2 ], [ 100, 20 ])), [ 1, 1, 1, $held, 0 ], 'linear between the two largest');
is_deeply(judged(figures('s', {}, [ 100, 26 ], [ 10, 2 ])), [ 1.114, 1.114, 1.114, $missed, 0 ], 'more than that, in whichever order');
is_deeply(judged(figures('s', { without => 7 }, [ 10, 8 ], [ 100, 107 ])), [ 2, 2, 2, $missed, 0 ], 'what is there without any is no growth');
is_deeply(judged(figures('s', { growth => 'each' }, [ 10, 3 ], [ 100, 3 ])), [ 1, 1, 1, $held, 0 ], 'level for each is linear');
is_deeply(judged(figures('s', { growth => 'rate' }, [ 10, 80, 40, 80 ], [ 100, 80, 8, 80 ])), [ 1, 0.699, 2, $held, 0 ], 'so is the same rate for all; the spreads of both are its own');
is_deeply(judged(figures('s', { without => 7 }, [ 10, 8, 7, 9 ], [ 100, 17 ])), [], 'what may be nothing has no exponent');
is_deeply(judged(figures('s', {}, [ 10, 8 ])), [], 'nor has a single number');

is(Bench::median(3, 1, 2), 2, 'the median of three');
is(Bench::median(4, 1, 2, 3), 2.5, 'of four');
my $svg = BenchPlot::svg({ at => 'then', commit => 'c', cpu => 'a < b' }, [ figures('s', {}, map { [ $_, $_ ] } 1, 10, 100) ]);
like($svg, qr{<polyline points="56\.0,176\.0 170\.0,108\.0 284\.0,40\.0"}, 'what grows linearly is drawn from corner to corner');
like($svg, qr{<line x1="56\.0" y1="176\.0" x2="284\.0" y2="40\.0" class="linear"}, '… and so is linear growth');
unlike(slurp("$dir/bench.svg"), qr/nan|inf/i, 'the picture has numbers only');
done_testing();
