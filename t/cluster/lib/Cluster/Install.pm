# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Install: the operator on real nodes as an administrator has it: our image, our chart, the real helm. Makes and
# loads the image, starts simulated V-IPU controllers that Pods reach, runs helm with folders of its own, and tells
# what the operator's Pods say when a test fails. {s} is a Scenario without a daemon of its own: jobs, Pods, controllers.
package Cluster::Install;

use v5.36;
use Cluster::Sandbox;
use File::Path qw(make_path);
use IpuTest;
use IpuTree qw(top_srcdir);
use POSIX ();
use Scenario;
use Scenario::Real;
use Test::More ();
use Time::HiRes qw(sleep time);

our $ns = 'ipu-operator';
our $helm_s = 180;
my $owner = $$;
my @all;

# Brings the cluster up (or skips the test), with the operator's namespace, which enforces Pod Security's level
# restricted. Nothing of the operator is there yet, but its image on all nodes, and the controllers. Options: controllers,
# agents, as of a scenario; nodes.
sub up ($class, %option) {
	my $back = Scenario::Real->new('nodes', with => ['helm'], bare => 1,
		$option{nodes} ? (nodes => $option{nodes}) : ());
	my $self = bless { back => $back, c => $back->cluster, s => Scenario->new($back) }, $class;
	push @all, $self;
	$self->{image} = $self->make_image;
	$self->load($self->{image}{tar});
	$self->make_namespace($ns);
	$self->{s}->start_controllers(create_ms => 50, remove_ms => 20, agents => 16, %option);
	return $self;
}

sub c ($self) { return $self->{c} }
sub s ($self) { return $self->{s} }
sub back ($self) { return $self->{back} }
sub image ($self) { return $self->{image} }

sub make_namespace ($self, $name) {
	$self->{c}->kubectl('create', 'namespace', $name);
	$self->{c}->kubectl('label', 'namespace', $name, map { "pod-security.kubernetes.io/$_=restricted" } qw(enforce warn audit));
	return;
}

# ---- images ----

# `make image`, into the test's own folder, since others may be at it: {tar}, {version}, {name}, {tag}.
sub make_image ($self) {
	my $build = $ENV{TOP_BUILDDIR};
	my $made = run([ qw(make -s --no-print-directory -C), $build, 'image', 'IMAGE_OUTPUT=' . test_dir() ], seconds => 300, name => 'make-image',
		env => { MAKEFLAGS => undef, MFLAGS => undef, MAKELEVEL => undef });
	die "make image: $made->{err}$made->{out}\n" if $made->{status};
	my ($version) = (slurp("$build/config.h") // '') =~ /^#define PACKAGE_VERSION "([^"]+)"/m
		or die "no version in $build/config.h\n";
	my $tar = test_dir() . "/ipu-operator-$version-image.tar";
	-s $tar or die "$tar: make image didn't make it\n";
	return { tar => $tar, version => $version, name => 'localhost/ipu-operator', tag => $version };
}

# An archive onto all nodes.
sub load ($self, $tar) {
	$self->ctr($_, 'images', 'import', '--snapshotter', $self->snapshotter, $tar) for $self->{c}->nodes;
	return;
}

sub snapshotter ($self) { return $self->{snapshotter} //= json_decode(slurp($self->{c}->dir . '/cluster.json'))->{snapshotter} }

# An image of this digest is on no node any more, nor what it consists of: under its names, and by the one that containerd's CRI gives it.
sub remove_image ($self, $digest) {
	for my $node ($self->{c}->nodes) {
		my @names = map { my ($name, undef, $of) = split; $of eq $digest ? $name : () } split /^/, $self->ctr($node, 'images', 'list');
		@names or die "$node has no image $digest\n";
		# A container that is over keeps its image's layers until the kubelet, which looks once a minute, removes it.
		my %of = map { $_ => 1 } @names;
		$self->{s}->wait_for("$node to remove its containers of $digest",
			sub { !grep { $of{ (split)[1] } } split /^/, $self->ctr($node, 'containers', 'list') }, seconds => 120);
		$self->ctr($node, 'images', 'remove', '--sync', @names);
	}
	return;
}

# The digests of what the manifest of `make image` names.
sub blobs ($self) {
	my $dir = test_dir() . '/layout';
	make_path($dir);
	run_well('tar', '-C', $dir, '-xf', $self->{image}{tar});
	my ($of) = json_decode(slurp("$dir/index.json"))->{manifests}[0]{digest} =~ /^sha256:(\w+)$/;
	my $manifest = json_decode(slurp("$dir/blobs/sha256/$of"));
	return map { $_->{digest} } $manifest->{config}, @{ $manifest->{layers} };
}

# containerd's own client on a node: its output.
sub ctr ($self, $node, @words) {
	my $done = $self->{c}->command([ $self->{c}->programs . '/ctr', '-a', "/run/$node/containerd.sock", '-n', 'k8s.io', @words ],
		node => $node, inside => 1, seconds => 120);
	die "ctr @words on $node: $done->{err}$done->{out}\n" if $done->{status};
	return $done->{out};
}

# The version that people upgrade from: the image and the {chart} of the commit in t/cluster/etc/previous. Where the history
# lacks it (a tarball, a shallow clone), it's today's with another number, and that is said: nothing old is tested then, which
# IPU_REQUIRE_CLUSTER makes a failure.
sub previous_version ($self) {
	my $made = run([ top_srcdir() . '/t/cluster/previous' ], seconds => 1800, name => 'previous');
	if ($made->{status} == 77 && !$ENV{IPU_REQUIRE_CLUSTER}) {
		Test::More::diag("NOT AN UPGRADE FROM AN EARLIER VERSION: $made->{err}The earlier version is today's with another number.");
		return { %{ $self->make_other_version('0.9.9') }, chart => $self->chart };
	}
	die "t/cluster/previous: $made->{err}\n" if $made->{status};
	my ($folder) = $made->{out} =~ /(\S+)\s*\z/;
	$self->load("$folder/image.tar");
	return { tar => "$folder/image.tar", version => '0.9.9', name => 'localhost/ipu-operator', tag => '0.9.9', chart => "$folder/ipu-operator" };
}

# The same image as of another version: the number is another one in the programs too. Its length must be the same.
sub make_other_version ($self, $version) {
	my $now = $self->{image}{version};
	length $version == length $now or die "'$version' and '$now' differ in length\n";
	my $dir = test_dir() . "/image-$version";
	make_path("$dir/image", "$dir/root");
	run_well('tar', '-C', "$dir/image", '-xf', $self->{image}{tar});
	run_well('tar', '-C', "$dir/root", '-xf', $_) for layers("$dir/image");
	my $changed = 0;
	for my $program ("$dir/root/usr/sbin/ipu-operator", "$dir/root/usr/bin/ipuctl", "$dir/root/ipu-launcher") {
		my $text = slurp($program) // die "$program: $!\n";
		$changed += $text =~ s/(?:(?:ipu-operator|ipuctl|ipu-launcher)[\/ ]|\0)\K\Q$now\E(?=\0)/$version/g;
		spit($program, $text);
	}
	$changed or die "no program in the image says that it is $now\n";
	run_well(top_srcdir() . '/t/cluster/image', '--name', "localhost/ipu-operator:$version", '--entrypoint',
		'/usr/sbin/ipu-operator', "$dir/root", "$dir/image.tar");
	$self->load("$dir/image.tar");
	run_well('rm', '-rf', "$dir/image", "$dir/root");
	return { tar => "$dir/image.tar", version => $version, name => 'localhost/ipu-operator', tag => $version };
}

# The layers of an unpacked archive, lowest first: `docker load` reads the same file.
sub layers ($dir) {
	return map { "$dir/$_" } @{ json_decode(slurp("$dir/manifest.json"))->[0]{Layers} };
}

sub run_well (@command) {
	my $done = run(\@command, seconds => 120);
	die "@command: $done->{err}\n" if $done->{status};
	return $done->{out};
}

# ---- helm ----

# Runs helm: {status}, {out}, {err}.
sub try_helm ($self, @words) {
	my $home = test_dir() . '/helm';
	my $begin = time;
	my $done = run([ $self->{c}->programs . '/helm', @words ], name => 'helm', seconds => $helm_s + 60, env => {
		KUBECONFIG => $self->{c}->host_kubeconfig, map { ("HELM_${_}_HOME" => "$home/$_") } qw(CACHE CONFIG DATA) });
	$done->{seconds} = time - $begin;
	return $done;
}

# The same, for what must work: its output.
sub helm ($self, @words) {
	my $done = $self->try_helm(@words);
	die "helm @words: $done->{err}$done->{out}\n" if $done->{status};
	return $done->{out};
}

sub chart ($self) { return top_srcdir() . '/helm/ipu-operator' }

# The chart as a file.
sub package_chart ($self) {
	my $dir = test_dir() . '/chart';
	$self->helm('package', $self->chart, '--destination', $dir);
	my ($file) = glob "$dir/*.tgz";
	return $file;
}

# What every installation here says of itself: the image and the controllers. More values go over them, member by member.
sub values_file ($self, $more = {}, $image = $self->{image}) {
	my $values = {
		image => { registry => '', repository => $image->{name}, tag => $image->{tag}, pullPolicy => 'IfNotPresent' },
		vipuControllers => join(',', $self->controllers), vipuProxy => { logLevel => 4 },
	};
	merge($values, $more);
	return spit(test_dir() . '/values-' . ++$self->{values} . '.json', json_encode($values));
}

sub merge ($into, $from) {
	for my $key (keys %$from) {
		if (ref $from->{$key} eq 'HASH' && ref $into->{$key} eq 'HASH') { merge($into->{$key}, $from->{$key}) }
		else { $into->{$key} = $from->{$key} }
	}
	return;
}

sub controllers ($self) { return @{ $self->{s}{controllers} } }

# install($values, image => …, chart => …, release => …); upgrade likewise. They return when all is ready.
sub install ($self, $values = {}, %option) { return $self->deploy('install', $values, %option) }
sub upgrade ($self, $values = {}, %option) { return $self->deploy('upgrade', $values, %option) }

sub deploy ($self, $what, $values, %option) {
	my $begin = time;
	my $out = $self->helm($what, $option{release} // 'ipu-operator', $option{chart} // $self->chart, '-n', $ns,
		'-f', $self->values_file($values, $option{image} // $self->{image}), '--wait', '--timeout', "${helm_s}s",
		@{ $option{words} // [] });
	Test::More::diag(sprintf 'helm %s %.1f s', $what, time - $begin);
	return $out;
}

sub uninstall ($self, $release = 'ipu-operator') {
	my $begin = time;
	my $out = $self->helm('uninstall', $release, '-n', $ns, '--wait', '--timeout', "${helm_s}s");
	Test::More::diag(sprintf 'helm uninstall %.1f s', time - $begin);
	return $out;
}

# ---- what runs ----

# The operator's Pods of a Deployment (…-controller-manager, …-vipu-proxy) that aren't being deleted.
sub pods ($self, $deployment) {
	my $object = $self->{c}->get('deployment', $deployment, '-n', $ns) // return ();
	my $labels = $object->{spec}{selector}{matchLabels};
	my $list = $self->{c}->get('pods', '-n', $ns, '-l', join ',', map { "$_=$labels->{$_}" } sort keys %$labels);
	return grep { !$_->{metadata}{deletionTimestamp} } @{ $list->{items} };
}

sub lease ($self, $name) {
	my $answer = $self->{s}->request('GET', "/apis/coordination.k8s.io/v1/namespaces/$ns/leases/$name");
	return $answer->{json}{spec} if $answer->{success};
	return {};
}

sub leader ($self, $lease) { return $self->lease($lease)->{holderIdentity} // '' }

# The address of a Service, for requests from the cluster's network (reach).
sub cluster_ip ($self, $service) {
	return $self->{c}->get('service', $service, '-n', $ns)->{spec}{clusterIP};
}

# One request to a Service or Pod, made in the cluster's network.
sub fetch ($self, $method, $url, %option) {
	return $self->{back}->reach(sub { http($method, $url, %option) });
}

# curl there: {code}, {body}, {err}. For what needs TLS.
sub curl ($self, $url, @words) {
	my $done = $self->{c}->command([ qw(curl -sS --max-time 20 -w), "\n%{http_code}", @words, $url ]);
	my ($body, $code) = $done->{out} =~ /\A(.*)\n(\d+)\z/s;
	return { code => $code // 0, body => $body // '', err => $done->{err} };
}

# ---- load ----

# Starts a client that makes one request after the other until it is ended (Cluster/Load.pm): where, 'api' or the base of
# a URL in the cluster's network; path; method; body, a structure in which %d is the request's number; every, seconds.
sub start_load ($self, $name, %option) {
	my $lib = top_srcdir() . '/t/cluster/lib';
	my $body = defined $option{body} ? spit(test_dir() . "/load-$name.json", json_encode($option{body})) : '';
	my $base = $option{where} eq 'api' ? $self->{back}{url} : $option{where};
	my @args = ("-I$lib", '-MCluster::Load', '-e', 'Cluster::Load::go(@ARGV)', $option{every} // 0.1,
		$option{method} // 'GET', "$base$option{path}", $body);
	return start("load-$name", path => $^X, args => \@args, ports => 0) if $option{where} eq 'api';
	return $self->{c}->start_program("load-$name", path => $^X, args => \@args, ports => 0);
}

# Ends it, and says what became of its requests: a list of {at}, {took} (seconds), {status}, {text}, {again} (the status of the
# second try of a request that failed).
sub end_load ($self, $load) {
	$load->stop;
	return $self->answers($load);
}

# The same so far.
sub answers ($self, $load) {
	return map {
		my ($at, $took, $status, $again, $text) = split ' ', $_, 5;
		{ at => $at, took => $took, status => $status, again => $again, text => $text }
	} grep { /\n\z/ } split /^/, $load->out // '';
}

# What people do all the time: jobs and annotated Pods are made, tried by dry runs, and statistics and queries asked for.
# $phase is how what is made is called, with a number behind it.
sub begin_traffic ($self, $phase) {
	my $s = $self->{s};
	my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
	my $pods = '/api/v1/namespaces/default/pods';
	my $proxy = 'http://' . $self->cluster_ip('ipu-operator-vipu-proxy');
	my %request = (
		# Several at once: the API server then has connections to several replicas.
		map({ ("job reviews $_" => { where => 'api', method => 'POST', path => "$jobs?dryRun=All",
			body => $s->job("tried-$_-%d", ipus => 2), every => 0.3 }) } 1 .. 3),
		'Pod reviews' => { where => 'api', method => 'POST', path => "$pods?dryRun=All", body => $s->pod('tried-%d', ipus => 2) },
		'jobs' => { where => 'api', method => 'POST', path => $jobs, body => $s->job("$phase-%d", ipus => 1, runs => 0.2), every => 2 },
		'Pods' => { where => 'api', method => 'POST', path => $pods, body => $s->pod("$phase-pod-%d", ipus => 1, runs => 0.2), every => 4 },
		'statistics' => { where => $proxy, path => '/stats' },
		'queries' => { where => $proxy, method => 'POST', path => '/query', body => { size => 2 }, every => 0.3 },
	);
	$self->use_fresh_ports;
	$self->{traffic} = { phase => $phase, created => $s->vipu->{created}, others => 0,
		load => { map { $_ => $self->start_load($_ =~ tr/ /-/r, %{ $request{$_} }) } sort keys %request } };
	$s->wait_for('the traffic to begin', sub { !grep { !$self->answers($_) } values %{ $self->{traffic}{load} } });
	return;
}

# Connections that begin from now on have ports that those of earlier traffic didn't have: for two minutes the kernel remembers
# (conntrack) which Pod a port's connection to a Service went to, and sends a new one there, also when that Pod is gone.
sub use_fresh_ports ($self) {
	my $from = 16000 + 12000 * ($self->{port_ranges}++ % 4);
	my $done = $self->{c}->command([ qw(sysctl -q -w), sprintf 'net.ipv4.ip_local_port_range=%d %d', $from, $from + 11999 ]);
	die "sysctl: $done->{err}\n" if $done->{status};
	return;
}

# A partition that the test has made meanwhile.
sub count_other ($self) { return $self->{traffic}{others}++ }

# Ends it, and sees that each request was answered: but those that excuse (code) excuses, and of these no larger share of all than most;
# within so many seconds where that's said. And that each job and Pod that was made has come to its end, in one run and with one partition.
sub end_traffic ($self, %o) {
	my $s = $self->{s};
	my $excuse = $o{excuse} // sub ($answer) { 0 };
	my ($phase, $created, $others, $load) = @{ delete $self->{traffic} }{qw(phase created others load)};
	my %made;
	for my $name (sort keys %$load) {
		my @answers = $self->end_load($load->{$name});
		my @bad = grep { $_->{status} >= 300 } @answers;
		my @by_time = sort { $a->{took} <=> $b->{took} } @answers;
		my @took = map { $_->{took} } @by_time;
		Test::More::diag(sprintf '%-13s %4d requests, %d not answered, median %.0f ms, longest %.0f ms, begun at %s', $name, scalar @answers,
			scalar @bad, 1000 * $took[ @took / 2 ], 1000 * $took[-1], POSIX::strftime('%H:%M:%S', gmtime $by_time[-1]{at}));
		my @worse = grep { !$excuse->($_) } @bad;
		Test::More::is(scalar @worse, 0, "$name: each request was answered")
			or Test::More::diag(map { sprintf "at %.3f: %d, again: %d, %s\n", @$_{qw(at status again text)} } @worse);
		Test::More::cmp_ok(scalar @bad, '<=', 1 + $o{most} * @answers, "$name: … and nearly all of them at once") if defined $o{most};
		Test::More::cmp_ok($took[-1], '<', $o{within}, "$name: … soon enough") if defined $o{within};
		$made{$name} = grep { $_->{status} < 300 || $_->{again} =~ /^(?:2..|409)$/ } @answers;
	}
	my @jobs = sort grep { /^$phase-\d+$/ } map { $_->{metadata}{name} } $s->list('ipujobs', ns => 'default');
	my @restarted = grep { $s->wait_job($_, 'Completed', seconds => 60)->{status}{restartCount} } @jobs;
	Test::More::is_deeply(\@restarted, [], 'each job ran once');
	my @pods = grep { /^$phase-pod-\d+$/ } map { $_->{metadata}{name} } $s->list('pods', ns => 'default');
	$s->wait_pod($_, 'Succeeded', seconds => 60) for @pods;
	Test::More::is_deeply([ scalar @jobs, scalar @pods ], [ @made{qw(jobs Pods)} ], 'none was lost');
	Test::More::is($s->vipu->{created} - $created - $others, @jobs + @pods, 'each had one partition');
	my %lives;
	$lives{ $_->{involvedObject}{name} }{ $_->{involvedObject}{uid} } = 1
		for grep { $_->{reason} eq 'Scheduled' && $_->{involvedObject}{name} =~ /^$phase-/ } $s->list('events', ns => 'default');
	Test::More::is_deeply([ grep { keys %{ $lives{$_} } > 1 } sort keys %lives ], [], 'no Pod was made twice');
	$self->{c}->kubectl('delete', '--wait=false', 'ipujobs', @jobs) if @jobs;
	$self->{c}->kubectl('delete', '--wait=false', 'pods', @pods) if @pods;
	$s->wait_for('their IPUs to come back', sub { !grep { $_->{size} == 1 } $s->partitions });
	return;
}

# ---- the end ----

# What the operator's Pods say, what became of them and of the release.
sub tell ($self) {
	return if $self->{is_told}++;
	for my $words ([ 'get', 'pods,deployments,replicasets,jobs,leases,endpointslices', '-o', 'wide' ],
		[ 'describe', 'pods' ], [ 'get', 'events', '--sort-by=.lastTimestamp' ], [ 'get', 'configmaps', '-o', 'yaml' ])
	{
		my $done = eval { $self->{c}->kubectl_result([ '-n', $ns, @$words ], seconds => 20) } // next;
		Test::More::diag("--- kubectl @$words\n", last_lines($done->{out}, 120));
	}
	my $pods = eval { $self->{c}->get('pods', '-n', $ns) } // { items => [] };
	for my $object (@{ $pods->{items} }) {
		my $pod = $object->{metadata}{name};
		my $answer = eval { $self->fetch('GET', "http://$object->{status}{podIP}:8081/readyz", seconds => 5) } // {};
		Test::More::diag("--- $pod says of its readiness: ", $answer->{content} // $@);
		for my $previous ([], ['--previous']) {
			my $done = eval { $self->{c}->kubectl_result([ '-n', $ns, 'logs', $pod, '--all-containers', @$previous ]) } // next;
			Test::More::diag("--- the log of $pod @$previous\n", last_lines($done->{out}, 60)) if $done->{status} == 0;
		}
	}
	eval { $self->{s}->tell_all };
	return;
}

sub last_lines ($text, $count) {
	my @lines = split /^/, $text;
	splice(@lines, 0, @lines - $count, "…\n") if @lines > $count;
	return @lines;
}

# Ends the controllers and the cluster.
sub down ($self) {
	$_->stop for reverse @{ $self->{s}{programs} };
	$self->{back}->down;
	@all = grep { $_ != $self } @all;
	return;
}

END {
	if ($$ == $owner && @all) {
		my $status = $?;
		$_->tell for $status || !Test::More->builder->is_passing ? @all : ();
		$? = $status;
	}
}

1;
