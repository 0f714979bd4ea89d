# SPDX-License-Identifier: Apache-2.0
#
# Cluster: a real Kubernetes for a test. `Cluster->up('nodes')` brings one up that lives as long as
# the test does, however that ends, or skips the test where the machine can't; the rest talks to it.
# Waiting and programs are IpuTest's; a failed test gets the cluster's state in its diagnostics.
package Cluster;

use v5.36;
use Cluster::Run qw(keep_open);
use FindBin;
use IpuTest qw(watchdog run start wait_until json_decode slurp);
use Test::More ();
use Time::HiRes qw(sleep);

my $here = (__FILE__ =~ m{^(.*)/lib/Cluster\.pm$})[0] // $FindBin::Bin;
my $poll_s = 0.25;
my $build_s = 3600;
my $owner = $$;
my $counter = 0;
my @all;

# Brings a cluster up: up('nodes') or up('scale', nodes => 20). Skips the whole test, with the reason,
# where something of the machine is missing; dies when it should work and doesn't. Options: nodes;
# networks, Pods get those that they name; timeout (seconds, 180); with, a list of further modules to build ('helm').
sub up ($class, $shape, %option) {
	$class->check($shape, @{ $option{with} // [] });
	my $timeout = $option{timeout} // 180;
	pipe(my $held, my $mine) or die "pipe: $!\n";
	my $dir = '/var/tmp/ipu-operator-cluster-' . $$ . ($counter++ ? "-$counter" : '');
	my $self = bless { dir => $dir, life => $mine, shape => $shape }, $class;
	my @nodes = ($option{nodes} ? ('--nodes', $option{nodes}) : (), $option{networks} ? '--networks' : ());
	push @all, $self;
	my $result = run([ "$here/cluster", 'up', $shape, '--dir', $dir, '--timeout', $timeout, @nodes,
		'--hold-fd', keep_open($held) ], seconds => $timeout + 60, name => 'cluster-up');
	_refuse($result);
	Test::More::note($result->{out});
	$self->{about} = json_decode(slurp("$dir/cluster.json"));
	return $self;
}

# Skips the whole test where a cluster can't be; builds its programs if that hasn't been done.
sub check ($class, $shape, @modules) {
	watchdog($build_s);
	_refuse(run([ "$here/build", @modules ], seconds => $build_s)) if @modules;
	_refuse(run([ "$here/cluster", 'check', $shape ], seconds => $build_s));
	watchdog(2400);
}

# A program of t/cluster/build by itself, without a cluster: its path. Skips the test where it can't be built.
sub program ($class, $name) {
	watchdog($build_s);
	my $built = run([ "$here/build", $name ], seconds => $build_s);
	_refuse($built);
	watchdog(900);
	my ($folder) = $built->{out} =~ /([^\n]+)\n*\z/ or die "t/cluster/build printed no folder\n";
	return "$folder/$name";
}

sub _refuse ($result) {
	return if $result->{status} == 0;
	my ($why) = $result->{err} =~ /([^\n]*)\n*\z/;
	if ($result->{status} == 77 && !$ENV{IPU_REQUIRE_CLUSTER}) {
		@all = ();
		Test::More::plan(skip_all => $why);
	}
	die "$result->{err}$result->{out}";
}

# The cluster's folder, the folder of its programs (kubectl, helm …), the address at which its Pods
# reach what runs in its network (start, command), and the names of its real nodes.
sub dir ($self) { return $self->{dir} }
sub programs ($self) { return $self->{about}{bin} }
sub address ($self) { return $self->{about}{address} }
sub nodes ($self) { return @{ $self->{about}{nodes} } }

# The administrator's kubeconfig, for programs in the cluster's network, and for any on the machine.
sub kubeconfig ($self) { return "$self->{dir}/inside.kubeconfig" }
sub host_kubeconfig ($self) { return "$self->{dir}/kubeconfig" }

# Runs kubectl to its end: kubectl_result([qw(get pods)], stdin => '…', seconds => 60). Returns
# {status}, {out}, {err}.
sub kubectl_result ($self, $arguments, %option) {
	return run([ $self->programs . '/kubectl', '--kubeconfig', $self->host_kubeconfig, @$arguments ],
		name => 'kubectl', seconds => 60, %option);
}

# The same, for what must work: its output. Dies with what kubectl said.
sub kubectl ($self, @arguments) {
	my $result = $self->kubectl_result(\@arguments);
	die "kubectl @arguments: $result->{err}" if $result->{status};
	return $result->{out};
}

# Objects: get('pod', 'x', '-n', 'y') is one, get('pods', '-A')->{items} many. undef if not there.
sub get ($self, @arguments) {
	my $result = $self->kubectl_result([ 'get', '-o', 'json', @arguments ]);
	return json_decode($result->{out}) if $result->{status} == 0;
	return undef if $result->{err} =~ /\(NotFound\)/;
	die "kubectl get @arguments: $result->{err}";
}

# Applies manifests (YAML or JSON text). Dies if they are refused.
sub apply ($self, $text, @arguments) {
	my $result = $self->try_apply($text, @arguments);
	die "kubectl apply: $result->{err}" if $result->{status};
	return $result->{out};
}

# The same without dying: {status}, {out}, {err}.
sub try_apply ($self, $text, @arguments) {
	return $self->kubectl_result([ 'apply', '-f', '-', @arguments ], stdin => $text);
}

# Polls until the code returns something true, and returns that; dies when time is over, with the
# cluster's state in the diagnostics. $what: the words for "waited for …".
sub wait_for ($self, $what, $code, %option) {
	my $result = eval {
		wait_until($what, sub {
			my $got = $code->();
			sleep($poll_s) unless $got;
			return $got;
		}, seconds => 60, %option);
	};
	return $result if $result;
	my $why = $@;
	$self->dump;
	die $why;
}

# Waits for a Pod's phase, and returns the Pod.
sub wait_for_phase ($self, $pod, $phase, %option) {
	my @space = $option{namespace} ? ('-n', delete $option{namespace}) : ();
	return $self->wait_for("Pod $pod to be $phase", sub {
		my $object = $self->get('pod', $pod, @space) // return undef;
		my $now = $object->{status}{phase} // '';
		return $object if $now eq $phase;
		return undef unless $now =~ /^(Succeeded|Failed)$/;
		my $log = $self->kubectl_result([ 'logs', '--all-containers', $pod, @space ]);
		die "Pod $pod is $now, not $phase; its log:\n$log->{out}$log->{err}\n";
	}, %option);
}

# The words in front of a command that lead it into the cluster's network, with KUBECONFIG, PATH and
# the cluster's DNS. Its process id stays, and it dies with the test.
sub entrance ($self, %option) {
	return ("$here/cluster", 'exec', '--dir', $self->{dir}, '--tied',
		$option{node} ? ('--node', $option{node}) : (), $option{inside} ? '--inside' : ());
}

# Runs a command in the cluster's network to its end: {status}, {out}, {err}.
sub command ($self, $arguments, %option) {
	my @where = map { $_ => delete $option{$_} } grep { exists $option{$_} } qw(node inside);
	return run([ $self->entrance(@where), @$arguments ], name => $arguments->[0] =~ s{.*/}{}r,
		seconds => 60, %option);
}

# Starts a program of the build in the cluster's network, as IpuTest's start does: same options, same
# object. Pods reach its ports at $c->address, if it listens there.
sub start_program ($self, $name, %option) {
	my $path = delete $option{path} // IpuTest::program($name);
	my ($entrance, @words) = $self->entrance;
	return start($name, %option, path => $entrance,
		args => [ @words, $path, @{ $option{args} // [] } ]);
}

# Makes an image of a folder and loads it on all nodes. Pods name it as given ("localhost/x:test")
# and must not pull: imagePullPolicy Never or IfNotPresent.
sub load_image ($self, $name, $folder) {
	my $result = run([ "$here/cluster", 'load', '--dir', $self->{dir}, $name, $folder ],
		name => 'cluster-load', seconds => 300);
	die "$result->{err}$result->{out}" if $result->{status};
	return;
}

# Kills one of the cluster's own programs, as a failure would, and starts it again: kube-apiserver,
# kube-scheduler, node2-kubelet … (the names of the logs in dir()/log).
sub stop ($self, $program) { return $self->_do('stop', $program) }
sub revive ($self, $program) { return $self->_do('start', $program) }

# Starts one again that has ended by itself, as a kubelet does.
sub keep ($self, $program) {
	my $result = run([ "$here/cluster", 'start', '--dir', $self->{dir}, $program ], name => 'cluster-start');
	die "$result->{err}" if $result->{status} && $result->{err} !~ /runs already/;
	return;
}

sub _do ($self, $what, $program) {
	my $result = run([ "$here/cluster", $what, '--dir', $self->{dir}, $program ],
		name => "cluster-$what");
	die "$result->{err}" if $result->{status};
	return;
}

# Tells the diagnostics what the cluster looks like, once.
sub dump ($self) {
	return if $self->{is_dumped}++;
	for my $arguments ([ 'get', 'nodes,pods,services,configmaps', '-A', '-o', 'wide' ],
		[qw(get events -A --sort-by=.lastTimestamp)], [qw(get ipujobs -A -o yaml)])
	{
		my $result = eval { $self->kubectl_result($arguments, seconds => 20) } // next;
		my @lines = split /^/, $result->{out};
		splice(@lines, 0, @lines - 60, "…\n") if @lines > 60;
		Test::More::diag("--- kubectl @$arguments\n", @lines);
	}
	for my $path (sort glob "$self->{dir}/log/*.log") {
		my @bad = grep { /^[EF]\d{4} |level=(error|fatal)|panic/ } split /^/, slurp($path) // '';
		splice(@bad, 0, @bad - 5) if @bad > 5;
		Test::More::diag("--- $path\n", @bad) if @bad;
	}
	return;
}

# Takes the cluster down. The end of the test does it too.
sub down ($self) {
	return if $self->{is_down}++;
	close($self->{life});
	my $result = run([ "$here/cluster", 'down', '--dir', $self->{dir} ], name => 'cluster-down',
		seconds => 60);
	die "cluster down: $result->{err}" if $result->{status};
	return;
}

END {
	if ($$ == $owner) {
		my $status = $?;
		my $failed = $status || !Test::More->builder->is_passing;
		for my $cluster (grep { !$_->{is_down} } @all) {
			eval { $cluster->dump } if $failed && $cluster->{about};
			eval { $cluster->down; 1 } or do {
				Test::More::diag($@);
				$status ||= 1;
			};
		}
		$? = $status;
	}
}

1;
