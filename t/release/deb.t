#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# `make deb`: the three Debian packages hold what they should where the FHS has it, and their programs run. It builds the
# sources anew, so it is no part of `make check`; ./run-tests runs it.

use v5.36;
use Digest::SHA qw(sha256_hex);
use File::Path qw(make_path remove_tree);
use FindBin;
use lib "$FindBin::Bin/../lib";
use IpuTest;
use Test::More;

watchdog(900);
my $build = $ENV{TOP_BUILDDIR};
program_or_skip('dpkg-buildpackage');
my $made = run([qw(make -s --no-print-directory -C), $build, 'deb'], name => 'make-deb', seconds => 800,
	env => {MAKEFLAGS => undef, MAKELEVEL => undef, SOURCE_DATE_EPOCH => undef});
is($made->{status}, 0, 'make deb') or BAIL_OUT($made->{err} . $made->{out});
my ($version) = slurp("$build/config.h") =~ /^#define PACKAGE_VERSION "(.*)"$/m;
my %file = map { m{^(\S+?)_\Q$version\E-1_\w+\.deb$} ? ($1 => "$build/$_") : () } split /\n/, $made->{out};
is_deeply([sort keys %file], [qw(ipu-operator ipu-sim ipuctl)], 'three packages');

my %holder;
for my $package (sort keys %file) {
	my $root = test_dir() . "/$package";
	is(run(['dpkg-deb', '--extract', $file{$package}, $root])->{status}, 0, "$package: a package");
	is(run(['dpkg-deb', '--control', $file{$package}, "$root.control"])->{status}, 0, 'with its control files');
	my @lines = split /\n/, run(['dpkg-deb', '--contents', $file{$package}])->{out};
	is_deeply([grep { !m{^\S+ root/root } } @lines], [], 'all is root\'s');
	is_deeply([grep { /^-..s|^-.....s|^-.......w/ } @lines], [], 'nothing is setuid, nothing writable by others');
	my @paths = map { m{ \./(\S*[^/\s])(?: -> \S+)?$} ? $1 : () } grep { !/^d/ } @lines;
	push @{ $holder{$_} }, $package for @paths;
	is_deeply([grep { !m{^usr/(?:s?bin|libexec|lib/systemd/system|share/(?:doc|man/man[18]|ipu-operator|bash-completion|zsh|fish))/} } @paths],
		[], 'where the FHS has it');
	is(run([qw(md5sum --check --quiet --strict), "$root.control/md5sums"], cwd => $root)->{status}, 0, 'md5sums');
	ok(-s "$root/usr/share/doc/$package/copyright", 'copyright');
	my $spdx = json_decode(slurp("$file{$package}.spdx.json"));
	is_deeply([sort map { $_->{fileName} } @{ $spdx->{files} }], [sort map { m{ \./(\S*[^/\s])$} ? "./$package/$1" : () } grep { /^-/ } @lines],
		'its bill of materials names each file');
	is($spdx->{packages}[0]{checksums}[0]{checksumValue}, sha256_hex(slurp($file{$package})), '... and the package\'s checksum');
	my $depends = run(['dpkg-deb', '--field', $file{$package}, 'Depends'])->{out};
	my @missing = grep { !/^ipu-/ && run(['dpkg-query', '-W', $_])->{status} } $depends =~ /(?:^|, )([^\s,]+)/g;
	is_deeply(\@missing, [], 'what it depends on is what it was linked with');
}
is_deeply([grep { @{ $holder{$_} } > 1 } sort keys %holder], [], 'no file is in two packages');
is_deeply($holder{'usr/bin/kubectl_complete-ipu'}, ['ipuctl'], 'what completes for kubectl goes with ipuctl');
my %program = ('ipu-operator' => ['usr/sbin/ipu-operator', 'usr/libexec/ipu-launcher'],
	'ipuctl' => ['usr/bin/ipuctl', 'usr/bin/kubectl-ipu'], 'ipu-sim' => ['usr/bin/ipu-sim']);
for my $package (sort keys %program) {
	for my $path (@{ $program{$package} }) {
		like(run([test_dir() . "/$package/$path", '--version'])->{out}, qr/ \Q$version\E$/m, "$path runs");
	}
}
my $root = test_dir() . '/ipu-operator';
like(slurp("$root/usr/lib/systemd/system/ipu-operator.service"), qr{^ExecStart=/usr/sbin/ipu-operator\b}m,
	'the unit starts the program');
is(run(['sh', '-n', "$root.control/$_"])->{status}, 0, "$_ is a shell script") for qw(postinst prerm postrm);

# The scripts on the packages' tree in place of /, as dpkg --root runs them.
SKIP: {
	skip 'no deb-systemd-helper, so no Debian', 5 if run([qw(sh -c), 'command -v deb-systemd-helper'])->{status};
	my $script = sub ($name, @words) {
		return run(['sh', "$root.control/$name", @words],
			env => {DPKG_ROOT => $root, DPKG_MAINTSCRIPT_PACKAGE => 'ipu-operator'})->{status};
	};
	is($script->('postinst', 'configure', ''), 0, 'postinst');
	make_path("$root/etc/systemd/system/$_.target.wants") for qw(multi-user sockets);
	my @links = map { "$root/etc/systemd/system/$_" } 'multi-user.target.wants/ipu-operator.service',
		map { "sockets.target.wants/ipu-operator-$_.socket" } qw(partitions proxy webhook);
	symlink '/usr/lib/systemd/system/' . s{.*/}{}r, $_ or die "$_: $!\n" for @links;
	remove_tree("$root/usr/lib/systemd");
	is($script->('postrm', 'remove'), 0, 'removed');
	is(scalar(grep { -l } @links), 4, '... what was enabled is so again when it comes back');
	is($script->('postrm', 'purge'), 0, 'purged');
	is_deeply([grep { -l } @links], [], '... no unit is enabled any more');
}
done_testing();
