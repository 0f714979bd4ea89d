# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): what a Pod must be is Kubernetes' own validation, which the simulator hasn't got
#
# What Kubernetes finds wrong with the Pods of a job is told when the job is submitted, as fields of the
# job; what may yet come is a warning.

use v5.36;
use Test::More;

my $pod = 'spec.workers.template.spec';
my $main = "$pod.containers[0]";

# What our own check has no rule for: name, options of job(), the causes' fields, a part of the message
my @refused = (
	[ 'no image', { container => { image => '' } }, ["$main.image"], qr/\Q$main.image\E: Required value/ ],
	[ 'more asked for than allowed', { container => { resources => { requests => { cpu => '2' }, limits => { cpu => '1' } } } },
		["$main.resources.requests"], qr/\Q$main.resources.requests\E: Invalid value: "2": must be less than or equal to cpu limit/ ],
	[ 'several at once', { container => { livenessProbe => { periodSeconds => 5 }, resources =>
			{ requests => { memory => '2Gi' }, limits => { memory => '1Gi' } } },
			template => { spec => { nodeSelector => { 'bad key!' => 'v' } } } },
		[ "$main.livenessProbe", "$main.resources.requests", "$pod.nodeSelector" ],
		qr/\Q$main.livenessProbe\E: Required value: must specify a handler type/ ],
	[ 'the launcher\'s variables', { spec => { launcher => { command => ['mpirun'], env => [ { name => '', value => 'v' } ] } } },
		['spec.launcher.env[0].name'], qr/spec\.launcher\.env\[0\]\.name: Required value/ ],
	[ 'an init container', { template => { spec => { initContainers => [ { name => 'first', image => 'i', readinessProbe => {
				exec => { command => ['true'] } } } ] } }, spec => { launcher => { command => ['mpirun'] } } },
		["$pod.initContainers[0].readinessProbe"], qr/\Q$pod.initContainers[0].readinessProbe\E: (?:Forbidden|Invalid value)/ ],
	[ 'a second container', { template => { spec => { containers => [ { name => 'main', image => 'i' },
				{ name => 'side', image => 'i', livenessProbe => {} } ] } } },
		["$pod.containers[1].livenessProbe"], qr/\Q$pod.containers[1].livenessProbe\E: Required value/ ],
);

# name, what the Pod has, the warning, what the container has
my @warned = (
	[ 'an account that isn\'t there yet', { serviceAccountName => 'nobody' }, qr/service account default\/nobody/ ],
	[ 'a priority that isn\'t there yet', { priorityClassName => 'nope' }, qr/no PriorityClass with name nope/ ],
	[ 'a runtime class that isn\'t there yet', { runtimeClassName => 'nope' }, qr/RuntimeClass \\*"nope\\*" not found/ ],
	[ 'a variable given twice', {}, qr/\Q$main.env[1]\E: hides previous definition of \\*"A\\*"/,
		{ env => [ { name => 'A', value => '1' }, { name => 'A', value => '2' } ] } ],
);

sub ($s) {
	$s->start(webhook => 1, set => ['worker.hostNetwork=false']);
	for my $case (@refused) {
		my ($name, $options, $fields, $words) = @$case;
		my $answer = $s->try_create('ipujobs', $s->job('a', %$options));
		is($answer->{status}, 422, "$name: refused");
		like($answer->{json}{message}, $words, "$name: in words") or diag(explain($answer->{json}));
		my %told = map { $_->{field} => 1 } @{ $answer->{json}{details}{causes} };
		is_deeply([ sort keys %told ], [ sort @$fields ], "$name: by its field") if $fields;
	}
	for my $case (@warned) {
		my ($name, $spec, $words, $container) = @$case;
		my $answer = $s->try_create('ipujobs', $s->job('a', template => { spec => $spec }, container => $container // {}));
		is($answer->{status}, 201, "$name: taken");
		my $warning = $answer->{headers}{warning} // '';
		like(ref $warning ? join("\n", @$warning) : $warning, $words, "$name: with a warning");
	}

	# A quota is full now, and may not be tomorrow.
	$s->must('POST', '/api/v1/namespaces/default/resourcequotas', json => { apiVersion => 'v1', kind => 'ResourceQuota',
		metadata => { name => 'access' }, spec => { hard => { pods => '0' } } });
	$s->wait_for('the quota to count', sub {
		my $answer = $s->try_create('ipujobs', $s->job('a'));
		my $warning = $answer->{headers}{warning} // '';
		return $answer->{success} && (ref $warning ? "@$warning" : $warning) =~ /exceeded quota: access/;
	}, seconds => 60);
	$s->must('DELETE', '/api/v1/namespaces/default/resourcequotas/access', json => {});
};
