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

# name, options of job(), the causes' fields, a part of the message
my @refused = (
	[ 'no image', { container => { image => '' } }, ["$main.image"], qr/\Q$main.image\E: Required value/ ],
	[ 'a variable\'s name', { container => { env => [ { name => 'GOOD', value => 1 }, { name => 'x=y', value => '1' } ] } },
		undef, qr/cannot unmarshal number/ ],
	[ 'a variable\'s name, in text', { container => { env => [ { name => 'GOOD', value => '1' }, { name => 'x=y', value => '1' } ] } },
		["$main.env[1].name"], qr/\Q$main.env[1].name\E: Invalid value: "x=y"/ ],
	[ 'several at once', { container => { imagePullPolicy => 'Sometimes', volumeMounts => [ { name => 'none', mountPath => '/a' } ],
			ports => [ { containerPort => 99999 } ] }, template => { spec => { nodeSelector => { 'bad key!' => 'v' } } } },
		[ "$main.imagePullPolicy", "$main.volumeMounts[0].name", "$main.ports[0].containerPort", "$pod.nodeSelector" ],
		qr/Unsupported value: "Sometimes": supported values: "Always"/ ],
	[ 'the launcher\'s variables', { spec => { launcher => { command => ['mpirun'], env => [ { name => '', value => 'v' } ] } } },
		['spec.launcher.env[0].name'], qr/spec\.launcher\.env\[0\]\.name: Required value/ ],
	[ 'an init container', { template => { spec => { initContainers => [ { name => 'Bad_Name', image => 'i' } ] } },
			spec => { launcher => { command => ['mpirun'] } } },
		["$pod.initContainers[0].name"], qr/\Q$pod.initContainers[0].name\E: Invalid value: "Bad_Name"/ ],
	[ 'a second container', { template => { spec => { containers => [ { name => 'main', image => 'i' }, { name => 'main', image => 'i' } ] } } },
		["$pod.containers[1].name"], qr/Duplicate value: "main"/ ],
	[ 'the operator\'s own volume', { template => { spec => { volumes => [ { name => 'ipu-launcher', emptyDir => {} } ] } },
			spec => { launcher => { command => ['mpirun'] } } },
		undef, qr/doesn't go with what the operator makes of it: spec\.volumes\[\d+\]\.name/ ],
);

# name, options, the warning
my @warned = (
	[ 'an account', { serviceAccountName => 'nobody' }, qr/service account default\/nobody/ ],
	[ 'a priority', { priorityClassName => 'nope' }, qr/no PriorityClass with name nope/ ],
	[ 'a runtime class', { runtimeClassName => 'nope' }, qr/RuntimeClass \\*"nope\\*" not found/ ],
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
		my ($name, $spec, $words) = @$case;
		my $answer = $s->try_create('ipujobs', $s->job('a', template => { spec => $spec }));
		is($answer->{status}, 201, "$name that isn't there yet: taken");
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
