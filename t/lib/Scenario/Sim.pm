# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Sim: the back-end of scenarios where ipu-sim is Kubernetes, its nodes and the V-IPU
# controllers, all on loopback; a new one for each scenario.
package Scenario::Sim;

use v5.36;
use IpuTest qw(http run slurp spit start test_dir);
use IpuTree qw(top_srcdir);

my $count = 0;
my $ready_gate = 'test/ready';

sub new ($class) { return bless {}, $class }

sub is_real ($self) { return 0 }
sub patience ($self) { return 1 }
sub poll_s ($self) { return 0.01 }
sub address ($self) { return '127.0.0.1' }
sub kubeconfig ($self) { return "$self->{dir}/kubeconfig" }

# Programs are where the test is.
sub reach ($self, $code) { return $code->() }
sub launch ($self, $name, %option) { return start($name, %option) }

# Another CRD from the next start on; undef: the project's own.
sub use_crd ($self, $text) { return $self->{crd} = $text }

sub start_sim ($self, @args) {
	$self->{dir} = test_dir() . '/sim-' . ++$count;
	my $crd = defined $self->{crd} ? spit("$self->{dir}.crd", $self->{crd})
		: top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml';
	$self->{sim} = start('ipu-sim', args => [ '--dir', $self->{dir}, '--pod-schedule-ms', 10,
		'--pod-start-ms', 50, '--pod-run-ms', 0, '--pod-term-ms', 50,
		'--crd', $crd, @args ]);
	$self->{token} = slurp("$self->{dir}/token");
	return $self->{sim};
}

sub request ($self, $method, $path, %option) {
	my $headers = { %{ $option{headers} // {} }, authorization => "Bearer $self->{token}" };
	return http($method, $self->{sim}->url('api-plain', $path), %option, headers => $headers);
}

sub kubectl ($self, $arguments, %option) {
	return run([ 'kubectl', '--kubeconfig', $self->kubeconfig, @$arguments ], %option);
}

# How the Pods of a job go is a rule of the simulated kubelet's.
sub shape ($self, $job, %option) {
	push @{ $job->{spec}{workers}{template}{spec}{readinessGates} }, { conditionType => $ready_gate } if $option{unready};
	my $run_ms = defined $option{runs} ? 1 + int(1000 * $option{runs}) : 0;
	my %rule = (name => "default/$job->{metadata}{name}-worker-*", exitCode => $option{exit} // 0,
		message => $option{words} // '', runMs => $run_ms, %{ $option{kubelet} // {} });
	my $answer = http('POST', $self->{sim}->url('admin', '/sim/pods'), json => \%rule);
	die "/sim/pods: $answer->{content}\n" if !$answer->{success};
	return;
}

# The kubelet's own words, written in its place.
sub end_pod ($self, $s, $name, $code, $words) {
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

# Nobody answers, and what was open breaks.
sub api_goes ($self, $s) {
	$s->tell_sim('/sim/api/faults', json => { kind => 'cut', count => 0 });
	$s->tell_sim('/sim/api/cut-watches');
	return;
}

sub api_comes ($self, $s) { return $s->tell_sim('/sim/api/faults', method => 'DELETE') }

1;
