# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Sim: the back-end of scenarios where ipu-sim is Kubernetes, its nodes and the V-IPU
# controllers, all on loopback; a new one for each scenario.
package Scenario::Sim;

use v5.36;
use Faults;
use IpuTest qw(http program run slurp spit start test_dir);
use IpuTree qw(top_srcdir);
use Test::More;

my $count = 0;
my $ready_gate = 'test/ready';

sub new ($class) { return bless {}, $class }

sub is_real ($self) { return 0 }
sub patience ($self) { return $self->{faults} ? 4 : 1 }
sub poll_s ($self) { return 0.01 }
sub address ($self) { return '127.0.0.1' }
sub kubeconfig ($self) { return "$self->{dir}/kubeconfig" }

# Programs are where the test is.
sub reach ($self, $code) { return $code->() }
sub launch ($self, $name, %option) { return start($name, %option) }

# Nodes are no machines here.
sub start_on ($self, $node, $name, %option) { return $self->launch($name, %option) }
sub node_link ($self) { return 'lo' }

# What a person's shell has in its environment.
sub shell_env ($self) { return (KUBECONFIG => $self->kubeconfig) }

sub start_daemon ($self, $settings) {
	return $self->launch('ipu-operator', env => { KUBECONFIG => $self->{behind} // $self->kubeconfig },
		args => [ map { ('--set', "$_=$settings->{$_}") } sort keys %$settings ]);
}

# Another CRD from the next start on; undef: the project's own.
sub use_crd ($self, $text) { return $self->{crd} = $text }

# Whether Pods' commands run, as processes of this machine, from the next start on.
sub run_pods ($self, $on) { return $self->{runs} = $on }

sub start_sim ($self, @args) {
	push @args, '--run-pods', '--program', '/ipu-launcher=' . program('ipu-launcher') if $self->{runs};
	$self->{dir} = test_dir() . '/sim-' . ++$count;
	my $crd = defined $self->{crd} ? spit("$self->{dir}.crd", $self->{crd})
		: top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml';
	$self->{sim} = start('ipu-sim', args => [ '--dir', $self->{dir}, '--pod-schedule-ms', 10,
		'--pod-start-ms', 50, '--pod-run-ms', 0, '--pod-term-ms', 50,
		'--crd', $crd, @args ]);
	$self->{token} = slurp("$self->{dir}/token");
	$self->stand_between(@args);
	return $self->{sim};
}

# Where IPU_FAULTS asks for it, the daemon reaches what it speaks to through the fault proxy; nobody else does.
sub stand_between ($self, @args) {
	my ($seed, $kinds) = Faults::wanted();
	my ($controllers) = map { $args[ $_ + 1 ] } grep { $args[$_] eq '--controllers' } 0 .. $#args;
	delete @$self{qw(faults behind)};
	return if !defined $seed;
	$self->{faults} = Faults->before($self->{sim}, seed => $seed, kinds => $kinds, controllers => $controllers // 1,
		secure => scalar grep { $_ eq '--vipu-secure' } @args);
	$self->{behind} = $self->{faults}->kubeconfig($self->kubeconfig, "$self->{dir}/behind");
	return;
}

# What stands between, as a program that somebody has to end.
sub between ($self) { return $self->{faults} ? $self->{faults}->program_of : () }

# A controller, as the daemon reaches it.
sub controller ($self, $sim, $number) {
	return $self->address . ':' . ($self->{faults} // $sim)->port("vipu$number");
}

# Says what has gone wrong, and ends that: the daemon shall end in order.
sub calm ($self) {
	my $faults = $self->{faults} // return;
	my $count = $faults->counts;
	Faults::remember($count);
	diag("IPU_FAULTS=$ENV{IPU_FAULTS}: ", Faults::told($count)) if $ENV{IPU_FAULTS}; # else they are the test's own
	return $faults->calm;
}

sub request ($self, $method, $path, %option) {
	my $headers = { %{ $option{headers} // {} }, authorization => "Bearer $self->{token}" };
	return http($method, $self->{sim}->url('api-plain', $path), %option, headers => $headers);
}

sub kubectl ($self, $arguments, %option) {
	return run([ 'kubectl', '--kubeconfig', $self->kubeconfig, @$arguments ], %option);
}

# A job without a command gets one that does what is asked for. All Pods have one /tmp here: what ends
# it is in its own folder, where it begins.
sub shape_process ($spec, %option) {
	my ($code, $words) = ($option{exit} // 0, $option{words} // '');
	$spec->{terminationGracePeriodSeconds} //= 1;
	return if $spec->{containers}[0]{command};
	my $wait = defined $option{runs} ? "sleep $option{runs} & wait \$!"
		: 'while [ ! -e end ]; do sleep 0.05; done; . ./end';
	$spec->{containers}[0]{command} = [ 'sh', '-c',
		"trap 'exit 143' TERM; code=$code; $wait; printf %s '$words' >>/dev/termination-log; exit \$code" ];
	return;
}

sub shape ($self, $job, %option) {
	return $self->shape_template($job->{spec}{workers}{template}, "$job->{metadata}{name}-worker-*", %option);
}

# How Pods go is a rule of the simulated kubelet's.
sub shape_template ($self, $template, $name, %option) {
	push @{ $template->{spec}{readinessGates} }, { conditionType => $ready_gate } if $option{unready};
	return shape_process($template->{spec}, %option) if $self->{runs};
	my $run_ms = defined $option{runs} ? 1 + int(1000 * $option{runs}) : 0;
	my %rule = (name => ($option{ns} // 'default') . "/$name", exitCode => $option{exit} // 0,
		message => $option{words} // '', runMs => $run_ms, %{ $option{kubelet} // {} });
	my $answer = http('POST', $self->{sim}->url('admin', '/sim/pods'), json => \%rule);
	die "/sim/pods: $answer->{content}\n" if !$answer->{success};
	return;
}

# The kubelet's own words, written in its place.
sub end_pod ($self, $s, $name, $code, $words) {
	if ($self->{runs}) {
		my $script = "printf %s '$words' >/dev/termination-log; echo code=$code >end.new; mv end.new end";
		my $result = $self->kubectl([ 'exec', $name, '--', 'sh', '-c', $script ]);
		# 137: the container that it ends may end first, and takes the command along.
		die "kubectl exec $name: $result->{err}\n" if $result->{status} && $result->{status} != 137;
		return;
	}
	my $pod = $s->get('pods', $name) // die "no Pod $name\n";
	my @ended = map { { %$_, ready => JSON::PP::false, started => JSON::PP::false,
		state => { terminated => { exitCode => $code, reason => $code ? 'Error' : 'Completed',
			message => $words } } } } @{ $pod->{status}{containerStatuses} };
	$s->patch('pods', $name, { status => { phase => $code ? 'Failed' : 'Succeeded',
		containerStatuses => \@ended } }, sub => 'status');
	return;
}

# By the condition of the readiness gate that shape() put there.
sub set_ready ($self, $s, $name, $status) {
	my $pod = $s->get('pods', $name) // die "no Pod $name\n";
	my @others = grep { $_->{type} ne $ready_gate } @{ $pod->{status}{conditions} };
	$s->patch('pods', $name, { status => { conditions => [ @others, { type => $ready_gate, status => $status } ] } },
		sub => 'status');
	return;
}

sub lose_node ($self, $s, $node) {
	return $s->tell_sim("/sim/nodes/$node/lose", json => { notReadyMs => 1000, evictMs => 3_600_000 });
}

sub return_node ($self, $s, $node) { return $s->tell_sim("/sim/nodes/$node/return") }

# The webhook's Service leads to these ports of this machine: here, to the last one.
sub serve_webhook ($self, $s, $service, @ports) {
	my %spec = (clusterIP => '127.0.0.1', ports => [ { port => 443, targetPort => 0 + $ports[-1] } ]);
	return $s->get('services', $service, 'ipu-operator') ? $s->patch('services', $service, { spec => \%spec }, ns => 'ipu-operator')
		: $s->create('services', { apiVersion => 'v1', kind => 'Service', metadata => { name => $service }, spec => \%spec }, 'ipu-operator');
}

# Nobody answers, and what was open breaks.
sub api_goes ($self, $s) {
	$s->tell_sim('/sim/api/faults', json => { kind => 'cut', count => 0 });
	$s->tell_sim('/sim/api/cut-watches');
	return;
}

sub api_comes ($self, $s) { return $s->tell_sim('/sim/api/faults', method => 'DELETE') }

1;
