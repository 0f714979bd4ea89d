#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Images in the chart as helm renders it, without a cluster: which names they have and when they are pulled, and what no
# kubelet could get. 50-install.t installs from a mirror by digest.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Chart qw(find);
use IpuTest;
use Test::More;

my $chart = Cluster::Chart->new;
watchdog(300);
my $digest = 'sha256:' . 'ab' x 32;
my $container = 'Deployment/ipu-operator-controller-manager spec template spec containers ipu-operator';
my $launcher = 'ConfigMap/ipu-operator-config config launcher image';

subtest 'registries' => sub {
	for my $row ([ 'localhost/ipu-operator', 'IfNotPresent' ], [ 'ipu-operator', 'IfNotPresent' ], [ 'reg.example/ipu-operator', 'Always' ],
			[ 'myreg:5000/ipu-operator', 'Always' ]) {
		my ($o) = $chart->objects($chart->render('--set', "image.repository=$row->[0]"));
		is(find($o, "$container imagePullPolicy"), $row->[1], "$row->[0]: $row->[1]");
	}
	my ($o) = $chart->objects($chart->render('--set', 'image.repository=myreg:5000/ipu-operator', '--set', 'global.imageRegistry=localhost'));
	is(find($o, "$container imagePullPolicy"), 'IfNotPresent', 'the mirror decides, if there is one');
};

subtest 'digests' => sub {
	for my $case ([ "localhost/ipu-operator\@$digest", 'image.pullPolicy=Never' ], [ "m.example/ipu-operator\@$digest", 'global.imageRegistry=m.example' ],
		[ "r.example/ipu-operator\@$digest", 'image.repository=r.example/ipu-operator' ],
		[ "localhost:5000/ipu-operator\@$digest", 'image.registry=localhost:5000' ]) {
		my ($name, $set) = @$case;
		my ($o) = $chart->objects($chart->render('--set', "image.digest=$digest,$set"));
		is(find($o, "$container image"), $name, "$set: $name");
	}
	my ($o) = $chart->objects($chart->render('--set', "global.launcherImage=localhost/l\@$digest,global.launcherImagePullPolicy=Never"));
	is(find($o, $launcher), "localhost/l\@$digest", 'the launcher\'s, where it is said to be there');
};

subtest 'refused' => sub {
	my $nowhere = qr/image\.digest: .*from localhost nothing can be pulled.*global\.imageRegistry.*image\.pullPolicy: Never/;
	for my $case ([ "image.digest=$digest", $nowhere ], [ "vipuProxy.image.digest=$digest", $nowhere ],
		[ "image.repository=localhost/a,image.registry=r.example,image.digest=$digest", $nowhere ],
		[ "global.imageRegistry=localhost,image.registry=r.example,image.digest=$digest", $nowhere ],
		[ "global.launcherImage=localhost/l\@$digest", qr/global\.launcherImage: .*from localhost nothing.*launcherImagePullPolicy: Never/ ],
		[ 'image.digest=sha256:1', qr{/image/digest} ], [ 'controller.image.architecture=arm64', qr{/controller/image.*'architecture' not allowed} ],
		[ 'image.architecture=x86-64', qr{/image/architecture} ]) {
		my ($set, $why) = @$case;
		my $done = $chart->try_render('--set', $set);
		isnt($done->{status}, 0, $set);
		like($done->{err}, $why, 'why');
	}
};

done_testing();
