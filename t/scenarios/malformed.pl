# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because it has to be ready at each moment
#
# Jobs that no API server with our CRD would take, stored all the same, as by an older CRD: each is told
# what is wrong with it, can be mended or deleted, and disturbs nobody.

use v5.36;
use Test::More;

my $anything = <<'END';
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ipujobs.graphcore.ai
spec:
  group: graphcore.ai
  scope: Namespaced
  names: {kind: IPUJob, listKind: IPUJobList, plural: ipujobs, singular: ipujob}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {x-kubernetes-preserve-unknown-fields: true}
          status: {x-kubernetes-preserve-unknown-fields: true}
END

my %pod = (template => { spec => { containers => [ { name => 'main', image => 'x' } ] } });
my %sized = (jobInstances => 1, ipusPerJobInstance => '4');

# Name, spec (undef: none), a word of the reason.
my @cases = (
	[ 'odd-ipus', { %sized, ipusPerJobInstance => '3', workers => \%pod }, qr/power of two/ ],
	[ 'negative', { %sized, ipusPerJobInstance => '-4', workers => \%pod }, qr/power of two/ ],
	[ 'endless', { %sized, ipusPerJobInstance => '9' x 400, workers => \%pod }, qr/16 digits|power of two/ ],
	[ 'number', { %sized, ipusPerJobInstance => 4, workers => \%pod }, qr/ipusPerJobInstance.*string/ ],
	[ 'words', { %sized, jobInstances => 'one', workers => \%pod }, qr/jobInstances.*whole number/ ],
	[ 'too-many', { %sized, jobInstances => 2_000_000_000, workers => \%pod }, qr/1 to 2000/ ],
	[ 'none', { %sized, jobInstances => 0, workers => \%pod }, qr/1 to 2000/ ],
	[ 'both-sizes', { %sized, modelReplicas => '1', ipusPerModelReplica => '4', workers => \%pod },
		qr/given twice/ ],
	[ 'unsized', { workers => \%pod }, qr/no size/ ],
	[ 'workerless', {%sized}, qr/workers.*required/ ],
	[ 'bare', { %sized, workers => { template => {} } }, qr/template\.spec.*required/ ],
	[ 'empty', { %sized, workers => { template => { spec => { containers => [] } } } },
		qr/at least one container/ ],
	[ 'mapped', { %sized, workers => { template => { spec => { containers => { name => 'x' } } } } },
		qr/containers.*list/ ],
	[ 'texts', { %sized, workers => { template => { spec => { containers => [ 'x', 7 ] } } } },
		qr/containers/ ],
	[ 'listed', [ 1, 2 ], qr/spec.*object/ ],
	[ 'text', 'run my job', qr/spec.*object/ ],
	[ 'specless', undef, qr/spec.*required/ ],
);

sub malformed ($name, $spec) {
	return { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		defined $spec ? (spec => $spec) : () };
}

sub ($s) {
	$s->start(crd => $anything);
	my $path = $s->path('ipujobs', 'default');
	$s->wait_for('the API server to take anything', sub {
		return $s->request('POST', "$path?dryRun=All", json => malformed('probe', 'x'))->{success};
	});
	$s->create_job('good');
	$s->wait_job('good', 'Running');

	$s->create('ipujobs', malformed(@$_[ 0, 1 ])) for @cases;
	for my $case (@cases) {
		my ($name, $spec, $why) = @$case;
		my $job = $s->wait_job($name, 'Failed');
		my $condition = Scenario::condition($job);
		is_deeply([ @$condition{qw(type reason)} ], [qw(Failed InvalidSpec)], "$name: Failed, InvalidSpec");
		like($condition->{message}, $why, '… the reason, in the condition');
		like($job->{status}{lastMessage}, $why, '… and where kubectl get shows it');
	}
	like($s->wait_event('odd-ipus', 'InvalidSpec')->{message}, qr/power of two/, 'an Event says it too');
	is(scalar $s->list('pods', ns => 'default', labels => 'graphcore.ai/job'), 1, 'no Pods were made for them');
	is($s->vipu->{created}, 1, '… and no partitions');

	# What is mended runs; what is broken while it runs goes on.
	$s->patch('ipujobs', 'odd-ipus', { spec => { ipusPerJobInstance => '2' } });
	$s->wait_for('the mended job to run', sub {
		return $s->get_job('odd-ipus')->{status}{launcherStatus} eq 'Running';
	});
	pass('a job that is mended runs');
	$s->patch('ipujobs', 'good', { spec => { ipusPerJobInstance => '5' } });
	$s->wait_message('good', qr/power of two/);
	is($s->get_worker('good')->{status}{phase}, 'Running', 'a job that is broken while it runs keeps its Pod');
	is(scalar $s->partitions, 2, '… and its partition');
	$s->end_pod('good');
	$s->wait_for('its partition to come back', sub { 1 == $s->partitions });

	# Nonsense in a status.
	$s->create_job('muddled');
	$s->wait_job('muddled', 'Running');
	$s->patch('ipujobs', 'muddled', { status => { conditions => 'none', workersStatus => [],
		startTime => 12 } }, sub => 'status');
	$s->end_pod('muddled');
	$s->wait_for('the job to be done', sub {
		my $status = $s->get_job('muddled')->{status};
		return ref $status->{conditions} && $status->{launcherStatus} eq 'Completed';
	});
	pass('nonsense in a status is written over');
	is($s->fetch($s->operator, 'GET', 'health', '/readyz')->{status}, 200, 'the operator is ready all the time');
};
