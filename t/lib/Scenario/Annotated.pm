# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Annotated: annotated Pods as the webhook leaves them (gate, token, label, what refers to
# their ConfigMap), for scenarios about what the operator does with them from then on.
package Scenario::Annotated;

use v5.36;
use Exporter qw(import);
use Test::More;

our @EXPORT_OK = qw(pod_object create_pod token_of wait_opened wait_waiting waiting partition_of files_of
	is_gated end_of_all kill_pod);

my $tokens = 0;
my @env = qw(IPUOF_CONFIG_PATH IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PORT IPUOF_VIPU_API_PARTITION_ID);

# The object. Options: ipus; runs, exit, words as of a job; token; open, without the gate; spec and
# annotations, merged in.
sub pod_object ($s, $name, %option) {
	my $token = $option{token} // sprintf '%032x', ++$tokens + $$ * 4096;
	my $config = "ipuof-$token";
	my %container = (name => 'main', image => 'localhost/busybox:test', imagePullPolicy => 'Never',
		env => [ map { { name => $_, valueFrom => { configMapKeyRef => { name => $config, key => $_,
			optional => JSON::PP::true } } } } @env ],
		volumeMounts => [ { name => 'ipuof', mountPath => '/etc/ipuof.conf.d', readOnly => JSON::PP::true } ]);
	my $template = { spec => { restartPolicy => 'Never', containers => [ \%container ], %{ $option{spec} // {} } } };
	$s->back->shape({ metadata => { name => $name }, spec => { workers => { template => $template } } }, %option,
		kubelet => { name => "default/$name" });
	my $spec = $template->{spec};
	push @{ $spec->{volumes} }, { name => 'ipuof', configMap => { name => $config, optional => JSON::PP::true,
		items => [ { key => 'ipuof-0.conf', path => 'partition.conf' } ] } };
	$spec->{schedulingGates} = [ { name => 'graphcore.ai/partition' } ] if !$option{open};
	return { apiVersion => 'v1', kind => 'Pod', spec => $spec, metadata => { name => $name,
		labels => { 'graphcore.ai/pod' => $token },
		annotations => { %{ $template->{metadata}{annotations} // {} }, 'graphcore.ai/status' => 'injected',
			'graphcore.ai/ipus' => '' . ($option{ipus} // 4), %{ $option{annotations} // {} } } } };
}

sub create_pod ($s, $name, %option) { return $s->create('pods', pod_object($s, $name, %option)) }

sub token_of ($pod) { return $pod->{metadata}{labels}{'graphcore.ai/pod'} }
sub partition_of ($pod) { return $pod->{metadata}{annotations}{'graphcore.ai/partition'} // '' }
sub waiting ($pod) { return $pod->{metadata}{annotations}{'graphcore.ai/waiting'} // '' }
sub is_gated ($pod) { return !!@{ $pod->{spec}{schedulingGates} // [] } }
sub files_of ($s, $pod) { return $s->get('configmaps', 'ipuof-' . token_of($pod)) }

# Waits until its gate is open, and returns it.
sub wait_opened ($s, $name, %option) {
	return $s->wait_for("the gate of $name to open", sub {
		my $pod = $s->get('pods', $name);
		return $pod && !is_gated($pod) ? $pod : undef;
	}, %option);
}

# Waits until it says that it waits for that.
sub wait_waiting ($s, $name, $pattern, %option) {
	return $s->wait_for("$name to say $pattern", sub {
		my $pod = $s->get('pods', $name);
		return $pod && waiting($pod) =~ $pattern ? $pod : undef;
	}, %option);
}

# Away at once, without its node's word.
sub kill_pod ($s, $name) {
	return $s->delete('pods', $name, options => { gracePeriodSeconds => 0 });
}

# Deletes all of them, and waits until nothing of theirs is left.
sub end_of_all ($s) {
	$s->delete('pods', $_->{metadata}{name}) for $s->list('pods', ns => 'default', labels => 'graphcore.ai/pod');
	$s->wait_for('all annotated Pods to be gone', sub {
		!$s->list('pods', ns => 'default', labels => 'graphcore.ai/pod')
	}, seconds => 60);
	$s->wait_for('all IPUs to come back', sub { !%{ $s->tracker } && !%{ $s->tracker_waits } }, seconds => 60);
	is_deeply([ map { map { $_->{id} } grep { !$_->{byHand} } $s->partitions($_) } 0 .. $s->controllers - 1 ], [],
		'when all Pods have gone, no partition is left');
	return;
}

1;
