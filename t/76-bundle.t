#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# `make bundle`: a release's folder is complete, its checksums are right, the chart in it is the tree's, its sources are
# what git knows, its ipuctl runs where nothing else is, and the same tree gives the same bytes. The real helm reads it in
# t/cluster/41-bundle.t.

use v5.36;
use Cwd qw(realpath);
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::Bin/lib";
use DocPage qw(blocks is_run);
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(900);
my $top = top_srcdir();
my $build = $ENV{TOP_BUILDDIR};
my $dir = test_dir();

sub make_bundle (%options) {
	return run([@{ $options{before} // [] }, 'make', '-s', '--no-print-directory', '-C', $build, 'bundle'], seconds => 600,
		name => 'make', env => {MAKEFLAGS => undef, MAKELEVEL => undef, SOURCE_DATE_EPOCH => undef,
			%{ $options{env} // {} }});
}

# All files below a folder, by their paths in it.
sub files_in ($folder) {
	return sort map { substr($_, 2) } split /\n/, run(['find', '.', '-type', 'f'], cwd => $folder)->{out};
}

sub unpack_into ($archive, $name) {
	mkdir "$dir/$name" or die "$dir/$name: $!\n";
	my $answer = run(['tar', '-C', "$dir/$name", '-xf', $archive], seconds => 60);
	is($answer->{status}, 0, "tar unpacks $name") or diag($answer->{err});
	return "$dir/$name";
}

my $first = make_bundle();
if (slurp("$build/Makefile") =~ /^IPU_SANITIZE_FLAGS = *\S/m) {
	isnt($first->{status}, 0, 'a build with sanitizers makes no release');
	done_testing();
	exit;
}
is($first->{status}, 0, 'make bundle') or BAIL_OUT($first->{err});
my ($version) = slurp("$build/config.h") =~ /^#define PACKAGE_VERSION "(.*)"$/m;
my $base = "ipu-operator-$version";
my $folder = "$build/$base-bundle";
my @files = files_in($folder);
my ($ipuctl) = map { /^(ipuctl-\Q$version\E-linux-\w+)\.tar\.xz$/ ? $1 : () } @files;

subtest 'complete' => sub {
	my %there = map { $_ => 1 } @files;
	ok($there{$_}, $_) for "$base-image.tar", "$base-image.digest", "$base.spdx.json", "$base.tgz", "$base.tar.xz",
		qw(index.yaml graphcore.ai_ipujobs.yaml README.md RELEASE.md ChangeLog COPYING SHA256SUMS);
	ok(defined $ipuctl && $there{"$ipuctl.spdx.json"}, 'ipuctl and its bill of materials') or return;
	my @doc = map { "doc/$_" } files_in("$top/doc");
	is_deeply([grep { !$there{$_} } @doc], [], 'all of the documentation');
	unlike(slurp("$folder/RELEASE.md"), qr/\@VERSION\@/, 'RELEASE.md knows the version');
	my @named = map { /`(\S+?)`/g } slurp("$folder/RELEASE.md") =~ /^(\| `.*?) \|/mg;
	cmp_ok(scalar @named, '>', 8, 'RELEASE.md names files');
	is_deeply([grep { !-e "$folder/$_" } @named], [], '... which are there');
	is(slurp("$folder/graphcore.ai_ipujobs.yaml"), slurp("$top/crds/graphcore.ai_ipujobs.yaml"), 'the tree\'s CRD');
};

subtest 'checksums' => sub {
	my $check = run([qw(sha256sum --check --strict --quiet SHA256SUMS)], cwd => $folder);
	is($check->{status}, 0, 'sha256sum finds them right') or diag($check->{out} . $check->{err});
	my @named = slurp("$folder/SHA256SUMS") =~ /^[0-9a-f]{64}  (.+)$/mg;
	is_deeply([sort @named], [grep { $_ ne 'SHA256SUMS' } @files], 'every file has one');
	my $whole = unpack_into("$folder.tar.xz", 'whole');
	my $same = run(['diff', '-r', $folder, "$whole/$base-bundle"]);
	is($same->{status}, 0, 'the archive holds the folder') or diag($same->{out});
};

subtest 'reading it' => sub {
	my $readme = slurp("$folder/README.md");
	like($readme, qr/\A# .*?^This is a release: \[RELEASE\.md\]\(RELEASE\.md\)/ms, 'README.md begins with where to begin');
	unlike($readme, qr{^\./(?:quickstart|run-tests)}m, '... and has no commands that only the sources have');
	my ($links, @dead) = (0);
	for my $page (grep { /\.md$/ } @files) {
		my $text = slurp("$folder/$page") =~ s/^```.*?^```//gmsr =~ s/`[^`\n]*`//gr;
		my $here = $page =~ m{^(.*/)} ? $1 : '';
		for my $link ($text =~ /\]\(([^)\s#]+)[^)]*\)/g, $text =~ /(?:src|srcset|href)="([^"#]+)/g) {
			next if $link =~ m{^[a-z]+:};
			$links++;
			my $to = realpath("$folder/$here$link") // '';
			push @dead, "$page: $link" if !-e $to || index("$to/", realpath($folder) . '/') != 0;
		}
	}
	cmp_ok($links, '>', 100, 'the pages have links');
	is_deeply(\@dead, [], '... none of which is dead');
};

# Of what make deb writes, t/release/deb.t knows more.
subtest 'Debian packages' => sub {
	my $output = "$dir/output";
	mkdir $output or die "$output: $!\n";
	for my $file (grep { !m{/} && /^ipu(?:-operator|ctl)-\Q$version\E/ && !/\.tgz$/ } @files) {
		link("$folder/$file", "$output/$file") || spit("$output/$file", slurp("$folder/$file")) or die "$file: $!\n";
	}
	symlink("$build/ipuctl", "$output/ipuctl") or die "ipuctl: $!\n";
	my $pack = sub { run(["$top/etc/release/make-bundle", "--version=$version", "--source=$top", "--output=$output"], seconds => 300, env => {SOURCE_DATE_EPOCH => 0}) };
	my @debs = map { "${_}_$version-1_some.deb" } qw(ipu-operator ipu-sim ipuctl);
	spit("$output/$debs[0]", 'a package');
	like($pack->()->{err}, qr/there are only ipu-operator_\S+: run make deb again/, 'one alone is too few');
	spit("$output/$_", "package $_") for @debs;
	like($pack->()->{err}, qr/\Q$debs[0]\E\.spdx\.json isn't there: run make deb again/, 'a bill of materials that is missing');
	spit("$output/$_.spdx.json", '{}') for @debs;
	my $packed = $pack->();
	is($packed->{status}, 0, 'with all of them') or return diag($packed->{err});
	my $there = "$output/$base-bundle";
	for my $deb (@debs) {
		is(slurp("$there/$deb"), "package $deb", $deb);
		like(slurp("$there/SHA256SUMS"), qr/^[0-9a-f]{64}  \Q$_\E$/m, "... the checksum of $_") for $deb, "$deb.spdx.json";
		like(slurp("$there/RELEASE.md"), qr/^\| `\Q$deb\E` \| Debian package of .*`\Q$deb\E\.spdx\.json`/m, '... and in RELEASE.md');
	}
	unlike(slurp("$folder/RELEASE.md"), qr/\.deb/, 'without them RELEASE.md names none') if !grep { /\.deb$/ } @files;
};

subtest 'the commands of RELEASE.md' => sub {
	my @blocks = grep { is_run($_) } blocks('RELEASE.md', slurp("$folder/RELEASE.md"));
	cmp_ok(scalar @blocks, '>', 0, 'there are some');
	for my $block (@blocks) {
		my $result = run(['bash', '-e', '-c', $block->{text}], cwd => $folder);
		is($result->{status}, 0, "RELEASE.md:$block->{line} runs") or diag($block->{text}, $result->{out}, $result->{err});
	}
};

subtest 'the chart' => sub {
	my $unpacked = unpack_into("$folder/$base.tgz", 'chart');
	my $same = run(['diff', '-r', "--exclude=*.swp", "--exclude=*~", "$top/helm/ipu-operator", "$unpacked/ipu-operator"]);
	is($same->{status}, 0, 'the archive holds the tree\'s chart') or diag($same->{out});
	my $index = slurp("$folder/index.yaml");
	is($index =~ /^    digest: (\S+)$/m ? $1 : '', sha256_hex(slurp("$folder/$base.tgz")), 'the index has its digest');
	is($index =~ /^    urls: \[(.+)\]$/m ? $1 : '', "$base.tgz", 'and where it is, relative to the index');
	is($index =~ /^    version: (\S+)$/m ? $1 : '', $version, 'and its version');
	my $wrong = run(["$top/etc/release/make-bundle", '--version=9.9.9', "--source=$top", "--output=$dir"],
		env => {SOURCE_DATE_EPOCH => 0});
	isnt($wrong->{status}, 0, 'a chart of another version');
	like($wrong->{err}, qr/Chart\.yaml: version is \Q$version\E, not 9\.9\.9/, 'is refused');
};

# On a system that has /bin/sh, readlink and nothing else of what ipuctl needs: its own loader says where each library is from,
# and runs it where the root folder has no other library.
subtest 'ipuctl' => sub {
	my $unpacked = unpack_into("$folder/$ipuctl.tar.xz", 'ipuctl') . "/$ipuctl";
	my $run = sub (@command) { run([@command], env => {KUBECONFIG => undef, IPUCTL_SERVER => undef, HOME => $dir}) };
	for my $name (qw(ipuctl kubectl-ipu)) {
		is($run->("$unpacked/bin/$name", '--version')->{out}, "ipuctl $version\n", "bin/$name --version");
	}
	symlink("$unpacked/bin/ipuctl", "$dir/elsewhere") or die "$dir/elsewhere: $!\n";
	my $good = $run->("$dir/elsewhere", 'validate', "$top/doc/examples/first.yaml");
	is($good->{status}, 0, 'by a link from elsewhere, it takes a good manifest') or diag($good->{err});
	spit("$dir/bad.yaml", slurp("$top/doc/examples/first.yaml") =~ s{ipusPerJobInstance: "\d+"}{ipusPerJobInstance: "3"}r);
	my $bad = $run->("$unpacked/bin/ipuctl", 'validate', "$dir/bad.yaml");
	is($bad->{status}, 1, '... refuses a bad one');
	like($bad->{out} . $bad->{err}, qr{ipusPerJobInstance}, '... says why');
	my $words = run(["$unpacked/bin/kubectl_complete-ipu", 'que'], env => {PATH => "$unpacked/bin:$ENV{PATH}"});
	like($words->{out}, qr/^queue\b/m, 'kubectl\'s completion');

	mkdir "$dir/home" or die "$dir/home: $!\n";
	mkdir "$dir/home/$_", 0700 or die "$dir/home/$_: $!\n" for qw(bin share);
	chmod 0700, "$dir/home";
	my $into = run(['tar', '-xf', "$folder/$ipuctl.tar.xz", '--strip-components=1', '-C', "$dir/home"]);
	is($into->{status}, 0, 'unpacked into folders that are there') or diag($into->{err});
	is_deeply([map { sprintf '%o', (stat)[2] & 07777 } map { "$dir/home$_" } '', qw(/bin /share)], [(700) x 3], '... they stay as they are');
	is($run->("$dir/home/bin/ipuctl", '--version')->{out}, "ipuctl $version\n", '... and it runs there');

	my ($loader) = glob "$unpacked/lib/ipuctl/ld*";
	my @from = $run->($loader, '--library-path', "$unpacked/lib/ipuctl", '--list', "$unpacked/lib/ipuctl/ipuctl")->{out} =~ m{=> (\S+)}g;
	cmp_ok(scalar @from, '>', 8, 'it loads libraries');
	is_deeply([grep { !m{^\Q$unpacked\E/lib/ipuctl/} } @from], [], '... its own alone');
	my @alone = ("/lib/ipuctl/" . $loader =~ s{.*/}{}r, qw(--library-path /lib/ipuctl /lib/ipuctl/ipuctl));
	my $inside = sub (@words) { $run->(qw(unshare -r chroot), $unpacked, @alone, @words) };
	is($inside->('--version')->{out}, "ipuctl $version\n", 'it runs where the system has no library') if $> == 0;

	# The authorities that the system trusts, where Red Hat's keeps them.
	if ($> == 0) {
		run(['mkdir', '-p', "$unpacked/etc/pki/tls/certs"]);
		spit("$unpacked/etc/pki/tls/certs/ca-bundle.crt", "not a certificate\n");
		like($inside->('stats', '--server', 'https://127.0.0.1:1')->{err}, qr{/etc/pki/tls/certs/ca-bundle\.crt}, 'it reads Red Hat\'s authorities');
		run(['rm', '-r', "$unpacked/etc"]);
	}

	my %of_tree = ('share/man/man1/ipuctl.1' => 'doc/man/ipuctl.1', 'share/zsh/site-functions/_ipuctl' => 'src/ctl/completion/_ipuctl',
		'share/bash-completion/completions/kubectl-ipu' => 'src/ctl/completion/ipuctl.bash', 'share/doc/ipuctl/COPYING' => 'COPYING',
		'share/fish/vendor_completions.d/ipuctl.fish' => 'src/ctl/completion/ipuctl.fish');
	is(slurp("$unpacked/$_"), slurp("$top/$of_tree{$_}"), $_) for sort keys %of_tree;
	unlike(slurp("$unpacked/$_"), qr/\@[A-Z]+\@/, "$_ has its words") for qw(bin/ipuctl share/doc/ipuctl/README.md);

	my $spdx = json_decode(slurp("$folder/$ipuctl.spdx.json"));
	is_deeply([sort map { $_->{fileName} } @{ $spdx->{files} }], [sort map { "./$ipuctl/$_" } files_in($unpacked)],
		'its bill of materials names each file');
	my %element = map { $_->{SPDXID} => $_ } $spdx, @{ $spdx->{packages} }, @{ $spdx->{files} };
	my $whole = $element{ $spdx->{relationships}[0]{relatedSpdxElement} };
	is($whole->{checksums}[0]{checksumValue}, sha256_hex(slurp("$folder/$ipuctl.tar.xz")), '... and the archive\'s checksum');
	is_deeply([grep { !$element{$_->{spdxElementId}} || !$element{$_->{relatedSpdxElement}} } @{ $spdx->{relationships} }], [],
		'... relationships are between things that are there');
	SKIP: {
		skip('no dpkg, so nobody knows what the libraries are from', 2) if !-d '/var/lib/dpkg/info';
		my @libraries = grep { $_->{fileName} =~ m{/lib/ipuctl/(?!ipuctl$)} } @{ $spdx->{files} };
		my %from = map { $_->{spdxElementId} => $_->{relatedSpdxElement} } grep { $_->{relationshipType} eq 'GENERATED_FROM' } @{ $spdx->{relationships} };
		is_deeply([map { $_->{fileName} } grep { !$from{$_->{SPDXID}} } @libraries], [], '... each library\'s package');
		my @packages = map { $element{$_}{name} } values %{ {map { $from{$_->{SPDXID}} => $from{$_->{SPDXID}} } @libraries} };
		is_deeply([grep { !-s "$unpacked/share/doc/ipuctl/licences/$_" } @packages], [], '... whose licence is there');
	}
};

# Beside what git knows, only what autotools make and the commit's name.
subtest 'the sources' => sub {
	plan(skip_all => 'this tree is no git checkout') if !-e "$top/.git";
	my $unpacked = unpack_into("$folder/$base.tar.xz", 'sources');
	my @there = files_in("$unpacked/$base");
	my @known = grep { !m{^\.gitignore$} && -e "$top/$_" }
		split /\n/, run(['git', '-c', 'safe.directory=*', '-C', $top, 'ls-files', '--cached', '--others', '--exclude-standard'])->{out};
	my %there = map { $_ => 1 } @there;
	my %known = map { $_ => 1 } @known;
	is_deeply([grep { !$there{$_} } @known], [], 'every file that git knows');
	my @more = grep { !$known{$_} && !m{^build-aux/} } @there;
	is_deeply(\@more, [qw(Makefile.in aclocal.m4 config.h.in configure etc/release/revision)], 'and no other');
	like(slurp("$unpacked/$base/etc/release/revision"), qr/^[0-9a-f]{40}(?:-dirty)? \d+$/, 'the commit is in it');
	my @old = run(['tar', '--utc', '--full-time', '--numeric-owner', '-tvf', "$folder/$base.tar.xz"])->{out}
		=~ m{^\S+ (\d+/\d+) +\d+ (\S+ \S+) }mg;
	my %different = (@old);
	is_deeply([keys %different], ['0/0'], 'nobody in particular owns them');
	my %seen = map { $_ => 1 } grep { !m{^0/0$} } @old;
	is(scalar keys %seen, 1, 'all have the release\'s date');
};

subtest 'the same bytes again' => sub {
	my %bytes = map { $_ => sha256_hex(slurp("$folder/$_")) } @files;
	my $whole = sha256_hex(slurp("$folder.tar.xz"));
	my $again = make_bundle(before => ['sh', '-c', 'umask 077; exec "$@"', 'sh'],
		env => {TZ => 'Pacific/Chatham', LC_ALL => 'C.UTF-8', PERL_HASH_SEED => 7});
	is($again->{status}, 0, 'another umask, time zone and locale') or diag($again->{err});
	my @files_again = files_in($folder);
	is_deeply({map { $_ => sha256_hex(slurp("$folder/$_")) } @files_again}, \%bytes, 'give the same files');
	is(sha256_hex(slurp("$folder.tar.xz")), $whole, 'and the same archive');
};

done_testing();
