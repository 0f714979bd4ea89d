#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A release's folder on a web server is a chart repository for the real helm: found, pulled byte for byte, rendered as the
# tree's chart is, with the image pinned by the digest that lies beside it.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Chart;
use IpuTest;
use Test::More;

my $chart = Cluster::Chart->new;
my $build = $ENV{TOP_BUILDDIR};
my $made = run([qw(make -s --no-print-directory -C), $build, 'bundle'], name => 'make-bundle', seconds => 300,
	env => { MAKEFLAGS => undef, MAKELEVEL => undef });
is($made->{status}, 0, 'make bundle') or BAIL_OUT($made->{err});
my ($version) = slurp("$build/config.h") =~ /^#define PACKAGE_VERSION "(.*)"$/m;
my $folder = "$build/ipu-operator-$version-bundle";

my $server = start('web-server', path => program_or_skip('python3'), ports => 0,
	args => [ qw(-u -m http.server --bind 127.0.0.1 0 --directory), $folder ]);
my $port = wait_until('the web server to say its port', sub { ($server->out // '') =~ / port (\d+) / ? $1 : undef });

$chart->helm('repo', 'add', 'release', "http://127.0.0.1:$port");
my ($found) = @{ json_decode($chart->helm(qw(search repo release/ipu-operator -o json))) };
is($found->{version}, $version, 'helm finds the version');
is($found->{app_version}, $version, 'and the operator\'s');
$chart->helm('pull', 'release/ipu-operator', '--destination', test_dir());
is(slurp(test_dir() . "/ipu-operator-$version.tgz"), slurp("$folder/ipu-operator-$version.tgz"), 'and pulls the archive');

for my $what (qw(chart values crds)) {
	my $shown = $chart->helm('show', $what, 'release/ipu-operator');
	cmp_ok(length $shown, '>', 100, "show $what says something");
	is($shown, $chart->helm('show', $what, $chart->path), '... which is the tree\'s');
}
my @words = ('--namespace', 'ops', '--include-crds');
my $rendered = $chart->helm('template', 'rel', 'release/ipu-operator', @words);
cmp_ok(length $rendered, '>', 10_000, 'template renders it');
is($rendered, $chart->helm('template', 'rel', $chart->path, @words), 'to what the tree\'s chart gives');
my ($digest) = slurp("$folder/ipu-operator-$version-image.digest") =~ /(\S+)/;
my @images = $chart->helm('template', 'rel', 'release/ipu-operator', '--set', "image.registry=mirror.example,image.digest=$digest")
	=~ /^\s*(?:- )?image: "?([^"\s]+)/mg;
cmp_ok(scalar @images, '>=', 2, 'an image from a mirror');
is_deeply([ grep { !m{^mirror\.example/ipu-operator(?::[\w.]+)?\@\Q$digest\E$} } @images ], [], 'pinned by the digest of the release');

$chart->helm('repo', 'remove', 'release');
$server->stop(signal => 'INT');
done_testing();
