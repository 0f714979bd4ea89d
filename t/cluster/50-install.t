#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The operator as an administrator installs it: our image and our chart, by the real helm, on real nodes. One story from the
# first installation to the last: webhooks, statistics and metrics by their Services, jobs and Pods, an upgrade and a rollback while
# people submit jobs, removal, and a new installation that finds what was left, from a mirror: a registry, from which kubelets pull
# the image by its digest.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Install;
use Cluster::Registry;
use IpuTest;
use JSON::PP ();
use MIME::Base64 ();
use Test::More;
use Time::HiRes qw(time);

my $i = Cluster::Install->up;
my ($c, $s) = ($i->c, $i->s);
my $ns = $Cluster::Install::ns;
my $old = $i->previous_version;
my $crd = 'crd/ipujobs.graphcore.ai';
my %webhook = map { $_ => "$_/ipu-operator-" . s/webhookconfiguration//r . '-webhook-configuration' }
	qw(mutatingwebhookconfiguration validatingwebhookconfiguration);

sub part ($name, $code) {
	my $begin = time;
	subtest $name => $code;
	diag(sprintf '%-40s %6.1f s', $name, time - $begin);
	return;
}

sub yes ($value) { return $value ? JSON::PP::true() : JSON::PP::false() }

sub images_of (@pods) {
	my %image = map { $_->{image} => 1 } map { @{ $_->{spec}{containers} }, @{ $_->{spec}{initContainers} // [] } } @pods;
	return join ' ', sort keys %image;
}

# What runs through all upgrades: a job and a Pod that hold IPUs.
sub steady () {
	my $job = $s->get_worker('steady');
	my $pod = $s->get('pods', 'steady-pod');
	return { job => $job->{metadata}{uid}, pod => $pod->{metadata}{uid},
		partitions => [ sort map { $_->{id} } grep { $_->{size} == 8 } $s->partitions ],
		restarts => $s->get_job('steady')->{status}{restartCount} // 0, tracker => tracker_uid() };
}

sub tracker () { return $c->get('configmap', 'ipu-partitions-tracker', '-n', $ns) }

sub tracker_uid () { return tracker()->{metadata}{uid} }

# A job that waits through the upgrade, until its namespace may have IPUs.
sub held () { return $s->get('ipujobs', 'held', 'team') }

part 'the first installation' => sub {
	my $out = $i->install({}, image => $old, chart => $old->{chart});
	like($out, qr/^NOTES:\n.*ipu-operator/ms, 'NOTES are printed');
	for my $deployment (qw(ipu-operator-controller-manager ipu-operator-vipu-proxy)) {
		my @pods = $i->pods($deployment);
		is(scalar @pods, 1, "$deployment has its Pod");
		is($pods[0]{status}{containerStatuses}[0]{restartCount}, 0, '… that ran at once');
		is(images_of(@pods), 'localhost/ipu-operator:0.9.9', '… from our image');
	}
	my $tested = $i->helm('test', 'ipu-operator', '-n', $ns, '--logs');
	like($tested, qr/^Phase:\s+Succeeded$/m, 'helm test');
	unlike($tested, qr/^Phase:\s+(?!\s|Succeeded)/m, '… finds nothing wrong');
};

part 'webhooks by their Service' => sub {
	my $refused = $c->try_apply(json_encode($s->job('bad', ipus => 3)));
	like($refused->{err}, qr/spec\.ipusPerJobInstance: Invalid value: must be a power of two/, 'a job that can\'t be is refused');
	my $tried = $s->try_create('ipujobs', $s->job('plain', ipus => 2));
	is($tried->{status}, 201, 'one that can be isn\'t') or diag($tried->{content});
	is($tried->{json}{spec}{workers}{strategy}{type}, 'RollingUpdate', '… and says what it left out');
	my $pod = $s->try_create('pods', $s->pod('asks', ipus => 2));
	is($pod->{json}{metadata}{annotations}{'graphcore.ai/status'}, 'injected', 'an annotated Pod gets what it needs');
	like($pod->{json}{metadata}{labels}{'graphcore.ai/pod'}, qr/^[0-9a-f]{32}$/, '… and its token');
};

part 'statistics and metrics by their Services' => sub {
	my $stats = $i->curl("http://ipu-operator-vipu-proxy.$ns/stats");
	is($stats->{code}, 200, '/stats') or diag($stats->{err});
	is_deeply(json_decode($stats->{body})->{total}, { used => 0, available => 64 }, '… has the IPUs of the controller');
	$c->kubectl(qw(create namespace monitoring));
	my %bearer;
	for my $name (qw(scraper stranger)) {
		$c->kubectl(qw(-n monitoring create serviceaccount), $name);
		chomp(my $token = $c->kubectl(qw(-n monitoring create token), $name));
		$bearer{$name} = [ '-H', "Authorization: Bearer $token" ];
	}
	$c->kubectl(qw(create clusterrolebinding scraper --clusterrole=ipu-operator-metrics-reader --serviceaccount=monitoring:scraper));
	my $file = spit(test_dir() . '/metrics-ca.pem', MIME::Base64::decode_base64(
		$c->get('secret', 'ipu-operator-certificates', '-n', $ns)->{data}{'ca.crt'} // ''));
	for my $who (qw(controller-manager vipu-proxy)) {
		my $ask = sub (@words) { $i->curl("https://ipu-operator-$who-metrics.$ns.svc:8443/metrics", '--cacert', $file, @words) };
		my $got = $ask->(@{ $bearer{scraper} });
		is($got->{code}, 200, "$who: metrics for an account with the right") or diag($got->{err});
		like($got->{body}, qr/^ipu_operator_build_info\{[^}]*version="0\.9\.9"[^}]*\} 1$/m, '… the old version\'s');
		is($ask->(@{ $bearer{stranger} })->{code}, 403, '… not for another one');
		is($ask->()->{code}, 401, '… nor without a token');
	}
};

part 'a job, a job with a launcher, and an annotated Pod' => sub {
	$s->create_job('job', ipus => 4, runs => 0.5);
	$s->create_pod('pod', ipus => 2, runs => 0.5);
	my $job = $s->job('launched', ipus => 4, spec => { workersPerJobInstance => '2', launcher => { command => [ 'sh', '-c',
		'for host in $(cut -d" " -f1 /etc/mpi/hostfile); do /etc/mpi/kubeexec.sh $host "echo here is $host"; done' ] } });
	$s->create('ipujobs', $job);
	$s->wait_job($_, 'Completed', seconds => 60) for qw(job launched);
	my $log = $s->kubectl([ qw(logs launched-launcher) ])->{out};
	like($log, qr/^here is launched-worker-0\nhere is launched-worker-1$/m, 'the launcher has reached its workers');
	is(images_of(map { { spec => { containers => [], initContainers => $_->{spec}{initContainers} } } } $s->get('pods', 'launched-launcher')),
		'localhost/ipu-operator:0.9.9', 'our image has the launcher too');
	$s->wait_pod('pod', 'Succeeded', seconds => 60);
	$s->wait_for('their IPUs to come back', sub { !$s->partitions });
	is($s->vipu->{created}, 3, 'one partition each was made');
	$s->delete_job($_) for qw(job launched);
};

# ipuctl here, on the way that an administrator's has: the API server's, to whatever the installation is called.
sub ipuctl (@words) {
	return run([ program('ipuctl'), '--kubeconfig', $c->host_kubeconfig, '--operator-namespace', $ns, @words ], seconds => 60,
		env => { HOME => test_dir(), IPUCTL_SERVER => undef, KUBECONFIG => undef });
}

part 'what ipuctl says of it' => sub {
	$s->create_job('runs', ipus => 4);
	$s->wait_job('runs', 'Running');
	$s->create_job('waits', ipus => 64);
	like(ipuctl(qw(explain runs -n default))->{out}, qr{^IPUJob default/runs: Running}, 'a job that runs');
	$s->wait_for('the other one to wait', sub { ipuctl(qw(explain waits -n default))->{out} =~ /^IPUJob default\/waits: Pending.*^Why:.*64 IPUs/ms });
	my $file = test_dir() . '/bundle.tar';
	my $made = ipuctl('support-bundle', '-o', $file);
	is($made->{status}, 0, 'a bundle') or diag($made->{err});
	my $content = sub ($name) { run([ 'tar', '-xOf', $file, '--wildcards', "*/$name" ])->{out} };
	my $manifest = $content->('MANIFEST.txt');
	for my $pod (map { $_->{metadata}{name} } map { $i->pods("ipu-operator-$_") } qw(controller-manager vipu-proxy)) {
		like($content->("logs/$pod/ipu-operator.log"), qr/ INFO /, "… has the log of $pod");
		like($manifest, qr{^\d+\thealth/$pod/$_\.txt\t}m, "… and its $_") for qw(healthz readyz);
	}
	is_deeply([ sort map { $_->{metadata}{name} } @{ json_decode($content->('operator/configmaps.json')) } ],
		[ qw(ipu-operator-config ipu-operator-vipu-controllers ipu-partitions-tracker) ], '… its ConfigMaps, and nobody else\'s');
	unlike($content->('operator/rights.txt'), qr/^(?!yes )/m, '… and that its accounts have their rights');
	my $all = run([ 'tar', '-xOf', $file ])->{out};
	my @secrets = map { my $secret = $_; map { $secret->{data}{$_} } grep { !/\.crt$/ } keys %{ $secret->{data} // {} } }
		@{ $c->get('secrets', '-n', $ns)->{items} };
	cmp_ok(scalar @secrets, '>=', 2, 'the namespace has Secrets');
	my @told = grep { my $value = $_; grep { length >= 16 && index($all, $_) >= 0 } $value, split /\n/,
		MIME::Base64::decode_base64($value) =~ s/^-.*-$//mgr } @secrets;
	is(scalar @told, 0, '… none of which is in it');
	unlike($all, qr/eyJ[\w-]+\.eyJ[\w-]+\./, '… nor any account\'s token');
	$s->delete_job($_) for qw(waits runs);
	$s->wait_for('their IPUs to come back', sub { !$s->partitions });
};

my $before;

part 'an upgrade while jobs run and are submitted' => sub {
	$s->create_job('steady', ipus => 8);
	$s->create_pod('steady-pod', ipus => 8);
	$s->wait_job('steady', 'Running');
	$s->wait_pod('steady-pod', 'Running');
	$before = steady();
	is(scalar @{ $before->{partitions} }, 2, 'both have IPUs');
	$c->kubectl(qw(create namespace team));
	$c->kubectl(qw(annotate namespace team graphcore.ai/max-ipus=0));
	my $waits = $s->create('ipujobs', $s->job('held', ipus => 2, runs => 0.1), 'team');
	$s->wait_for('a job to wait', sub { (held()->{status}{lastMessage} // '') =~ /of its 0 IPUs|may have 0/ });

	# An earlier version's CRD, and a controller that somebody has added by hand.
	$c->kubectl('patch', $crd, '--type=json', '-p',
		'[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/partition"}]');
	my $list = join(',', $i->controllers) . ",127.0.0.1:9:by=hand";
	$c->kubectl('-n', $ns, 'patch', 'configmap', 'ipu-operator-vipu-controllers', '--type=merge', '-p',
		json_encode({ data => { 'controllers.yaml' => $list } }));

	$i->begin_traffic('upgrade');
	$i->upgrade;
	for my $deployment (qw(ipu-operator-controller-manager ipu-operator-vipu-proxy)) {
		$c->kubectl('-n', $ns, 'rollout', 'status', "deployment/$deployment", '--timeout=60s');
		is(images_of($i->pods($deployment)), 'localhost/ipu-operator:' . $i->image->{tag}, "$deployment is the new one");
	}
	$i->end_traffic;
	is_deeply(steady(), $before, 'what ran has kept its Pods and its partitions, and they their tracker');
	my $tracker = json_encode(tracker());
	is(scalar(grep { index($tracker, $_) < 0 } @{ $before->{partitions} }), 0, '… which still has them');
	my $held = held();
	is($held->{metadata}{uid}, $waits->{metadata}{uid}, 'what waited');
	is($held->{status}{launcherStatus}, 'Pending', '… still waits');
	my $created = $s->vipu->{created};
	$c->kubectl(qw(annotate --overwrite namespace team graphcore.ai/max-ipus=2));
	$s->wait_for('it to run to its end', sub { held()->{status}{launcherStatus} eq 'Completed' }, seconds => 60);
	is($s->vipu->{created}, $created + 1, '… and has one partition when it may');
	$c->kubectl(qw(delete namespace team --wait=false));
	ok($c->get($crd)->{spec}{versions}[0]{schema}{openAPIV3Schema}{properties}{spec}{properties}{partition}, 'the CRD is the new one\'s');
	is($c->get('configmap', 'ipu-operator-vipu-controllers', '-n', $ns)->{data}{'controllers.yaml'}, $list, 'the edit is still there');
};

part 'a rollback' => sub {
	$i->begin_traffic('rollback');
	$i->helm('rollback', 'ipu-operator', '1', '-n', $ns, '--wait', '--timeout', '180s');
	is(images_of(map { $i->pods($_) } qw(ipu-operator-controller-manager ipu-operator-vipu-proxy)), 'localhost/ipu-operator:0.9.9',
		'both are what they were');
	$i->end_traffic;
	is_deeply(steady(), $before, 'what ran has kept its Pods and its partitions');
	like($c->get('configmap', 'ipu-operator-vipu-controllers', '-n', $ns)->{data}{'controllers.yaml'}, qr/by=hand/,
		'the edit is still there');
};

part 'removal' => sub {
	$i->uninstall;
	$s->wait_for('its Pods to go', sub { !@{ $c->get('pods', '-n', $ns)->{items} } });
	is_deeply(steady(), $before, 'what ran goes on, with its partitions');
	is($c->get($webhook{$_}), undef, "no $_ is left") for sort keys %webhook;
	is($s->try_create('pods', $s->pod('asks', ipus => 2))->{status}, 201, 'Pods can be made');
	is($s->try_create('ipujobs', $s->job('bad', ipus => 2))->{status}, 201, 'and jobs');
	ok($c->get($crd), 'the CRD is there');
	my @left = map { chomp; $_ } split /^/,
		$c->kubectl('-n', $ns, 'get', 'all,configmaps,secrets,leases,serviceaccounts,roles,rolebindings,networkpolicies,pdb', '-o', 'name');
	is_deeply([ sort grep { !m{^configmap/kube-root-ca\.crt$|^serviceaccount/default$} } @left ], [
		'configmap/ipu-operator-vipu-controllers', 'configmap/ipu-partitions-tracker',
		(map { "lease.coordination.k8s.io/ipu-operator-$_" } qw(controller partitions)), 'secret/ipu-operator-certificates' ],
		'what is left in the namespace');
	my @global = map { chomp; $_ } split /^/, $c->kubectl('get', 'clusterroles,clusterrolebindings', '-o', 'name');
	is_deeply([ grep { /ipu-operator/ && !/scraper/ } @global ], [], '… and in the cluster');
	# Meanwhile the job's Pod comes to its end: nobody is there to see it.
	$s->end_pod('steady');
	$s->wait_worker('steady', 'Succeeded');
};

part 'the next installation, with nothing but the release\'s files, from a mirror, in one Deployment' => sub {
	my ($host, $path) = ('mirror.example.com:5000', 'ipu/ipu-operator');
	my $mirror = $host . '/ipu';
	chomp(my $digest = slurp($i->image->{tar} =~ s/\.tar$/.digest/r));
	$i->remove_image($digest); # their kubelets pull it from here on
	my $registry = Cluster::Registry::start($c, $i->image->{tar}, $host, $path);
	my $chart = $i->package_chart;
	my $values = { topology => 'combined', image => { repository => 'ipu-operator', registry => 'localhost', tag => '', digest => $digest },
		global => { imageRegistry => $mirror } };
	my $shown = $i->helm('template', 'ipu-operator', $chart, '-n', $ns, '-f', $i->values_file($values));
	my %named = map { $_ => 1 } $shown =~ m{\b((?:[\w.-]+(?::\d+)?/)+[\w.-]+(?::[\w.-]+|\@sha256:[0-9a-f]+))\b}g;
	is_deeply([ grep { !m{^graphcore\.ai/} } sort keys %named ], ["$mirror/ipu-operator\@$digest"], 'nothing comes from anywhere else');
	$i->install($values, chart => $chart);
	my @pods = @{ $c->get('pods', '-n', $ns)->{items} };
	is(scalar @pods, 1, 'one Pod has all roles');
	is(images_of(@pods), "$mirror/ipu-operator\@$digest", '… of the image that is named by its digest');
	is($pods[0]{status}{containerStatuses}[0]{imageID}, "$mirror/ipu-operator\@$digest", '… which runs');
	my %pulled = map { $_ => 1 } ($registry->out // '') =~ m{^GET /v2/\Q$path\E/((?:manifests|blobs)/sha256:[0-9a-f]{64})\S* 200}mg;
	is_deeply([ sort keys %pulled ], [ sort "manifests/$digest", map { "blobs/$_" } $i->blobs ],
		'… and was pulled by its node: manifest, configuration and layer, each by its digest') or diag($registry->out);
	$s->wait_job('steady', 'Completed');
	is($s->get('pods', 'steady-pod')->{metadata}{uid}, $before->{pod}, 'the Pod still runs');
	$s->wait_for('one partition to be left', sub { 1 == grep { $_->{size} == 8 } $s->partitions });
	is_deeply([ map { $_->{id} } grep { $_->{size} == 8 } $s->partitions ],
		[ $s->get('pods', 'steady-pod')->{metadata}{annotations}{'graphcore.ai/partition'} ], '… and has its partition');
	$s->wait_for('the new one to count it, and nothing else', sub {
		my $stats = json_decode($i->curl("http://ipu-operator-vipu-proxy.$ns/stats")->{body});
		return ($stats->{default}{used} // 0) == 8;
	});
	my $created = $s->vipu->{created};
	$s->create_job('last', ipus => 4, workers => 1, runs => 0.2);
	$s->wait_job('last', 'Completed', seconds => 60);
	is($s->vipu->{created}, $created + 1, 'a new job gets a new one');
	$s->kubectl([ qw(delete pod steady-pod) ]);
	$s->wait_for('all IPUs to be free', sub { !$s->partitions });
	ok(!$s->vipu->{broken}, 'no IPU was ever in two partitions');
	is($c->get('configmap', 'ipu-operator-vipu-controllers', '-n', $ns)->{data}{'controllers.yaml'} =~ /by=hand/, 1, 'the edit is still there');
	$registry->stop;
};

$i->down;
done_testing;
