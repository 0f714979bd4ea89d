#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What configure's hardening has come to, read from the programs themselves: flags that a linker passes over, or
# that a local.mk forgets for one program, are seen here.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use Test::More;

my $readelf = program_or_skip('readelf');
my $makefile = slurp("$ENV{TOP_BUILDDIR}/Makefile") // die "no Makefile in TOP_BUILDDIR\n";

sub flags ($name) { return $makefile =~ /^\Q$name\E =(.*)$/m ? $1 : '' }

plan skip_all => 'built with --disable-hardening' if flags('IPU_HARDEN_CFLAGS') !~ /stack-protector/;
my $is_fortified = flags('IPU_HARDEN_CPPFLAGS') =~ /_FORTIFY_SOURCE=[23]/;

sub elf ($what, $path) { return run([ $readelf, $what, '-W', $path ], name => 'readelf')->{out} }

for my $name (qw(ipu-operator ipuctl ipu-launcher ipu-sim)) {
	subtest $name => sub {
		my $path = program($name);
		my ($segments, $dynamic, $symbols) = map { elf($_, $path) } qw(-l -d -s);
		like(elf('-h', $path), qr/Type:\s+DYN/, 'it may be loaded anywhere');
		like($dynamic, qr/FLAGS_1.*\bPIE\b/, '... as a program');
		like($segments, qr/GNU_RELRO/, 'what is settled at the start can\'t be written');
		like($dynamic, qr/\bBIND_NOW\b|FLAGS_1.*\bNOW\b/, '... and all is settled then');
		like($segments, qr/GNU_STACK.* RW  ?0x/, 'no code on the stack');
		unlike($segments, qr/^\s+LOAD.* RWE /m, 'nothing that can be written is code');
		unlike($dynamic, qr/TEXTREL/, 'no code is written at the start');
		unlike($dynamic, qr/RPATH|RUNPATH/, 'libraries are searched where the system has them');
		like($symbols, qr/\b__stack_chk_fail\b/, 'stacks are guarded');
		SKIP: {
			skip 'not optimised, or for sanitizers', 1 if !$is_fortified;
			my %checked = map { $_ => 1 } $symbols =~ /\b(__\w+_chk)\b/g;
			cmp_ok(scalar(grep { !/^__longjmp|^__fdelt/ } keys %checked), '>', 3, 'copies and prints are checked') or diag(join ' ', sort keys %checked);
		}
	};
}

# The linker says so of a program only where each of its parts does, the system's start-up code too, which Debian 12's doesn't.
subtest 'indirect jumps and returns' => sub {
	plan skip_all => 'this compiler has no -fcf-protection here' if flags('IPU_HARDEN_CFLAGS') !~ /-fcf-protection/;
	for my $library (sort glob "$ENV{TOP_BUILDDIR}/lib*.a") {
		my $notes = elf('-n', $library);
		my ($name) = $library =~ m{([^/]+)$};
		my @without = map { /^\S*\(([^)]*)\)/ && !/IBT, SHSTK/ ? $1 : () } split /^File: /m, $notes;
		my @all = $notes =~ /^File: /mg;
		ok(@all && !@without, "$name: each object is made for them") or diag("@without");
	}
	my ($start) = run([qw(cc -print-file-name=Scrt1.o)], name => 'cc')->{out} =~ /^(\S+)$/m;
	if (elf('-n', $start // '/') =~ /IBT, SHSTK/) {
		like(elf('-n', program('ipu-operator')), qr/IBT, SHSTK/, 'and so is the whole program');
	} else {
		note('the system\'s start-up code isn\'t made for them');
	}
};

done_testing;
