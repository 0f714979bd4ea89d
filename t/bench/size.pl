#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How large the programs are, stripped. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/size.pl [--json=FILE]

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(figure finish must options);
use IpuTest qw(program program_or_skip test_dir);
use Test::More;

options(60);
my $strip = program_or_skip('strip');
for my $name (qw(ipu-operator ipu-launcher ipuctl ipu-sim)) {
	my $to = test_dir() . "/$name";
	must([ $strip, '-o', $to, program($name) ]);
	figure("$name, stripped", 'MB', [ (-s $to) / 1e6 ], $name eq 'ipu-operator' ? (bar => '<= 3') : (), id => "size-$name");
}
finish();
