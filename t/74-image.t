#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# `make image`: what is in the container image, by another reader than its writer; that its programs
# run in it, that the same input gives the same bytes, and that its bill of materials names each file.

use v5.36;
use Digest::SHA qw(sha1_hex);
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(600);
my $top = top_srcdir();
my $build = $ENV{TOP_BUILDDIR};
my $python = program_or_skip('python3');
my $dir = test_dir();
my $limit = 20_000_000;
my @own = ('ipu-launcher', 'usr/bin/ipuctl', 'usr/sbin/ipu-operator');

# `make image` into a folder of its own; returns run()'s answer.
sub make_image ($folder, %options) {
	mkdir "$dir/$folder" or die "$dir/$folder: $!\n" if !-d "$dir/$folder";
	my %env = (MAKEFLAGS => undef, SOURCE_DATE_EPOCH => undef, %{ $options{env} // {} });
	return run([@{ $options{before} // [] }, 'make', '-s', '-C', $build, 'image',
		"IMAGE_OUTPUT=$dir/$folder", @{ $options{args} // [] }], env => \%env, seconds => 400);
}

my $first = make_image('first');
if (slurp("$build/Makefile") =~ /^IPU_SANITIZE_FLAGS = *\S/m) {
	isnt($first->{status}, 0, 'a build with sanitizers makes no image');
	like($first->{err}, qr/with sanitizers/, 'and says why');
	done_testing();
	exit;
}
is($first->{status}, 0, 'make image') or BAIL_OUT($first->{err});
my ($tar) = glob("$dir/first/ipu-operator-*-image.tar");
my ($version) = $tar =~ m{/ipu-operator-([^/]+)-image\.tar$};
my $root = "$dir/root";
mkdir $root or die "$root: $!\n";
my $read = run([$python, "$top/t/lib/image_reader.py", $tar, $root]);
is($read->{status}, 0, 'another reader finds every blob, with its size and digest') or BAIL_OUT($read->{err});
my $image = json_decode($read->{out});
my %member = map { $_->{path} => $_ } @{ $image->{members} };

subtest 'the archive' => sub {
	cmp_ok(-s $tar, '<', $limit, 'the archive is smaller than 20 MB');
	cmp_ok($image->{layer_bytes}, '<', $limit, 'and so is what it unpacks to');
	is(@{ $image->{blobs} }, 3, 'no blob that nothing names');
	is($image->{layout}{imageLayoutVersion}, '1.0.0', 'an OCI layout');
	is($image->{index}{manifests}[0]{annotations}{'io.containerd.image.name'},
		"localhost/ipu-operator:$version", 'its name for containerd');
	is_deeply($image->{docker_tags}, ["localhost/ipu-operator:$version"], 'its name for docker load');
	is(slurp($tar =~ s/tar$/digest/r), "$image->{digest}\n", 'the digest is in a file beside it');
	is($first->{out} =~ /(sha256:\w+)$/m ? $1 : '', $image->{digest}, 'and is what make said');
};

subtest 'the configuration' => sub {
	my $config = $image->{config}{config};
	is($config->{User}, '65532:65532', 'not root');
	is_deeply($config->{Entrypoint}, ['/usr/sbin/ipu-operator'], 'entrypoint');
	is($config->{WorkingDir}, '/', 'working directory');
	my %label = map { s/^org\.opencontainers\.image\.//r => $config->{Labels}{$_} } keys %{ $config->{Labels} };
	is($label{title}, 'ipu-operator', 'title');
	is($label{version}, $version, 'version');
	is($label{licenses}, 'Apache-2.0', 'licence');
	is($label{created}, $image->{config}{created}, 'created, twice the same');
	is($image->{config}{os}, 'linux', 'for Linux');
	my ($machine) = run(['uname', '-m'])->{out} =~ /(\S+)/;
	my %go = (x86_64 => 'amd64', aarch64 => 'arm64');
	is($image->{config}{architecture}, $go{$machine} // $machine, 'for this machine');
};

subtest 'the files' => sub {
	my @members = values %member;
	is(scalar @members, scalar @{ $image->{members} }, 'each path once');
	is_deeply([grep { $_->{type} eq 'other' } @members], [], 'files, folders and links only');
	is_deeply([grep { $_->{uid} || $_->{gid} || $_->{owner} ne '' } @members], [], 'all are root\'s');
	is_deeply([map { $_->{path} } grep { $_->{type} ne 'link' && $_->{mode} & 07022 } @members], [],
		'no setuid, nothing that others may write');
	my ($time) = run(['date', '-u', '-d', $image->{config}{created}, '+%s'])->{out} =~ /(\d+)/;
	is_deeply([grep { $_->{mtime} != $time } @members], [], 'all have the image\'s date');
	for my $member (grep { $_->{type} eq 'link' } @members) {
		my $target = $member->{path} =~ s{[^/]+$}{}r . $member->{target};
		1 while $target =~ s{(?:^|(?<=/))[^/]+/\.\./}{};
		ok($member{$target}, "$member->{path} leads to something");
	}
	my @folderless = grep { m{^(.*)/} && ($member{$1}{type} // '') ne 'folder' } keys %member;
	is_deeply(\@folderless, [], 'each file\'s folder is there');
	my @programs = sort grep {
		$member{$_}{type} eq 'file' && $member{$_}{mode} & 0111 && $_ !~ m{^usr/lib}
	} keys %member;
	is_deeply(\@programs, \@own, 'our three programs, no shell and no other');
	is_deeply([grep { m{(?:^|/)(?:ba|da|a)?sh$|busybox|perl|python} } keys %member], [], 'no shell by any name');
	ok($member{$_}, "$_ is there") for 'usr/share/ipu-operator/crds/graphcore.ai_ipujobs.yaml',
		'etc/ssl/certs/ca-certificates.crt', 'etc/group';
	like(slurp("$root/etc/passwd"), qr/^[^:]+:x:65532:65532:/m, 'the user has a name');
	is(slurp("$root/usr/share/ipu-operator/crds/graphcore.ai_ipujobs.yaml"),
		slurp("$top/crds/graphcore.ai_ipujobs.yaml"), 'the CRD is the tree\'s');
};

# What each ELF file needs is in one of the two folders that the loader searches by itself.
subtest 'the libraries' => sub {
	my @elf = grep { $member{$_}{type} eq 'file' && (slurp("$root/$_") // '') =~ /^\x7fELF/ } sort keys %member;
	my %there = map { m{^usr/lib(?:64|/[^/]+)?/([^/]+)$} ? ($1 => 1) : () } keys %member;
	my @missing;
	for my $path (@elf) {
		for my $name (run(['readelf', '-d', "$root/$path"])->{out} =~ /\(NEEDED\).*\[(.+)\]/g) {
			push @missing, "$path needs $name" if !$there{$name};
		}
	}
	is_deeply(\@missing, [], 'every library that something needs is there');
	my @drivers = map { slurp($_) =~ /^driver (\S+)/m ? $1 : () } glob("$root/etc/libibverbs.d/*.driver");
	cmp_ok(scalar @drivers, '>', 3, 'libibverbs knows network cards');
	my @providers = grep { m{/libibverbs/} } keys %member;
	my @without = grep { my $driver = $_; !grep { m{/lib\Q$driver\E-rdmav\d+\.so$} } @providers } @drivers;
	is_deeply(\@without, [], 'and has each one\'s provider');
	unlike(run(['readelf', '-l', "$root/ipu-launcher"])->{out}, qr/INTERP/, 'the launcher is static');
};

# In the unpacked image as the root folder; where a user may not do that, by the image's own loader.
my $may_unshare = run(['unshare', '-r', 'chroot', $root, '/usr/bin/ipuctl', '--version'])->{status} == 0;
my ($loader) = grep { m{/ld-linux[^/]*$} } sort keys %member;
sub in_image ($program, @args) {
	return run(['unshare', '-r', 'chroot', $root, "/$program", @args], env => {KUBECONFIG => undef}) if $may_unshare;
	return run(["$root/$program", @args], env => {KUBECONFIG => undef}) if $program eq 'ipu-launcher';
	my ($libraries) = map { s{/[^/]+$}{}r } grep { m{/libc\.so\.6$} } sort keys %member;
	return run(["$root/$loader", '--library-path', "$root/$libraries", "$root/$program", @args],
		env => {KUBECONFIG => undef});
}

subtest 'the programs run' => sub {
	note($may_unshare ? 'in the image' : 'by its loader');
	for my $program (@own) {
		my $answer = in_image($program, '--version');
		is($answer->{status}, 0, "$program --version") or diag($answer->{err});
		like($answer->{out}, qr/ \Q$version\E$/m, 'and it is this version');
	}
	spit("$root/etc/kubeconfig", <<"END_CONFIG");
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
END_CONFIG
	my $place = $may_unshare ? '' : $root;
	my $check = in_image('usr/sbin/ipu-operator', '--check-config', "--kubeconfig=$place/etc/kubeconfig",
		'--set', 'operatorNamespace=ops');
	is($check->{status}, 0, '--check-config') or diag($check->{err});
	mkdir "$root/etc/job" or die "$root/etc/job: $!\n";
	spit("$root/etc/job/job.yaml", slurp("$top/doc/examples/mnist-training.yaml"));
	my $valid = in_image('usr/bin/ipuctl', 'validate', "$place/etc/job/job.yaml");
	is($valid->{status}, 0, 'ipuctl validate') or diag($valid->{err} . $valid->{out});
};

subtest 'the same bytes again' => sub {
	my $bytes = slurp($tar);
	my $again = make_image('again', before => ['sh', '-c', 'umask 077; exec "$@"', 'sh'],
		env => {TZ => 'Pacific/Chatham', LC_ALL => 'C.UTF-8', PERL_HASH_SEED => 7});
	is($again->{status}, 0, 'another umask, time zone and locale') or diag($again->{err});
	ok(slurp("$dir/again/ipu-operator-$version-image.tar") eq $bytes, 'give the same archive');
	ok(slurp("$dir/again/ipu-operator-$version.spdx.json") eq slurp("$dir/first/ipu-operator-$version.spdx.json"),
		'and the same bill of materials');
	for my $program (map { s{.*/}{}r } @own) {
		my $text = slurp("$build/$program");
		ok(index($text, $build) < 0 && index($text, $top) < 0,
			"$program doesn't know where it was built, not even for a debugger");
	}
	if ($ENV{IPU_IMAGE_DIGEST}) {
		is($image->{digest}, $ENV{IPU_IMAGE_DIGEST}, 'as another build made it, in another folder');
	}
	my $dated = make_image('dated', env => {SOURCE_DATE_EPOCH => 1_000_000_000});
	is($dated->{status}, 0, 'SOURCE_DATE_EPOCH') or diag($dated->{err});
	like($dated->{out}, qr/sha256:/, 'is taken');
	my $other = json_decode(run([$python, "$top/t/lib/image_reader.py",
		"$dir/dated/ipu-operator-$version-image.tar"])->{out});
	is($other->{config}{created}, '2001-09-09T01:46:40Z', 'and is the date then');
	my $wrong = make_image('dated', env => {SOURCE_DATE_EPOCH => 'today'});
	isnt($wrong->{status}, 0, 'a date that is none');
	like($wrong->{err}, qr/SOURCE_DATE_EPOCH isn't a number/, 'is refused');
};

subtest 'the bill of materials' => sub {
	my $spdx = json_decode(slurp("$dir/first/ipu-operator-$version.spdx.json"));
	is($spdx->{spdxVersion}, 'SPDX-2.3', 'SPDX 2.3');
	like($spdx->{documentNamespace}, qr{^https://\S+$}, 'a namespace');
	is($spdx->{creationInfo}{created}, $image->{config}{created}, 'the image\'s date');
	my %element = map { $_->{SPDXID} => $_ } $spdx, @{ $spdx->{packages} }, @{ $spdx->{files} };
	is(scalar keys %element, 1 + @{ $spdx->{packages} } + @{ $spdx->{files} }, 'each identifier once');
	is_deeply([grep { !/^SPDXRef-[A-Za-z0-9.-]+$/ } keys %element], [], 'identifiers as SPDX wants them');
	my @loose = grep { !$element{$_->{spdxElementId}} || !$element{$_->{relatedSpdxElement}} }
		@{ $spdx->{relationships} };
	is_deeply(\@loose, [], 'relationships are between things that are there');
	my %want = map { ("./$_->{path}" => [$_->{sha1}, $_->{sha256}]) } grep { $_->{type} eq 'file' } values %member;
	my %got = map { ($_->{fileName} => [map { $_->{checksumValue} } @{ $_->{checksums} }]) } @{ $spdx->{files} };
	is_deeply(\%got, \%want, 'every file, with its checksums, and no other');
	my ($whole) = grep { $_->{SPDXID} eq 'SPDXRef-Image' } @{ $spdx->{packages} };
	is($whole->{packageVerificationCode}{packageVerificationCodeValue},
		sha1_hex(join '', sort map { $_->[0] } values %want), 'the verification code of all files');
	is('sha256:' . $whole->{checksums}[0]{checksumValue}, $image->{digest}, 'the image\'s digest');
	my %from = map { $_->{spdxElementId} => $_->{relatedSpdxElement} }
		grep { $_->{relationshipType} eq 'GENERATED_FROM' } @{ $spdx->{relationships} };
	my @nowhere = grep { !m{^\./var/lib/dpkg/} } map { $_->{fileName} } grep { !$from{ $_->{SPDXID} } } @{ $spdx->{files} };
	SKIP: {
		skip('no dpkg, so nobody knows what the libraries are from', 2) if !-d '/var/lib/dpkg/info';
		is_deeply(\@nowhere, [], 'every file is from a package');
		my ($libc) = grep { $_->{name} eq 'libc6' } @{ $spdx->{packages} };
		is($libc->{versionInfo}, run(['dpkg-query', '-W', '-f', '${Version}', 'libc6'])->{out}, 'of the version that is here');
	}
};

done_testing();
