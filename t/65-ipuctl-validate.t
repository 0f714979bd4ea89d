#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl validate: what it says of manifests, where, and its exit status. Nobody is there to be asked.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest;
use IpuTree qw(top_srcdir);
use Test::More;

watchdog(120);

my %nowhere = (HOME => test_dir() . '/nobody', KUBECONFIG => undef, IPUCTL_SERVER => undef,
	KUBERNETES_SERVICE_HOST => undef);
sub validate { return run([program('ipuctl'), 'validate', @_], env => \%nowhere, seconds => 30) }

# A manifest, by its name without the folder.
my $n = 0;
sub manifest {
	my ($text) = @_;
	return spit(test_dir() . '/' . ++$n . '.yaml', $text);
}

my $good = <<'END';
apiVersion: graphcore.ai/v1alpha1
kind: IPUJob
metadata:
  name: good
spec:
  jobInstances: 1
  ipusPerJobInstance: "4"
  workers:
    template:
      spec:
        containers:
        - name: main
          image: pytorch
END

subtest 'what is right' => sub {
	my @examples = sort glob(top_srcdir() . '/doc/examples/*.yaml');
	my $result = validate(@examples);
	is($result->{status}, 0, 'the examples are') or diag($result->{out}, $result->{err});
	is(scalar(() = $result->{out} =~ /: IPUJob \S+ is valid$/mg), scalar @examples, '... each of them');
	is($result->{out} =~ s/.*: IPUJob \S+ is valid\n//gr, '', '... without a warning');
	is($result->{err}, '', '... and nothing else is said');

	my $file = manifest($good =~ s/(?=  workers:)/  ttlSecondsAfterFinished: 0\n/r);
	$result = validate($file);
	is($result->{status}, 0, 'a warning is no error');
	is($result->{out}, "$file:8:3: warning: spec.ttlSecondsAfterFinished: 0 deletes the job in the moment that "
		. "it ends, with its status and its logs\n$file: IPUJob good is valid\n", '... but is told');
};

# What replaces what in the good one; line and column, and what is said there.
my @wrong = (
	['no power of two', 's/"4"/"3"/', '7:3', 'spec.ipusPerJobInstance: Invalid value: must be a power of two'],
	['a number that is to be a string', 's/"4"/4/', '7:3', 'spec.ipusPerJobInstance: Invalid value: must be a string'],
	['both generations', 's/(?=  workers:)/  modelReplicas: "4"\n/', '5:1', 'spec: Forbidden: the size is given twice'],
	['a field that is misspelt', 's/jobInstances/jobInstance/', '6:3',
		'spec.jobInstance: Forbidden: an IPUJob has no such field: did you mean jobInstances?'],
	['... further in', 's/(?=  workers:)/  restartPolicy: {type: Never, backofflimit: 1}\n/', '8:32',
		'spec.restartPolicy.backofflimit: Forbidden: an IPUJob has no such field: did you mean backOffLimit?'],
	['a field of something else', 's/(?=  workers:)/  parallelism: 2\n/', '8:3',
		'spec.parallelism: Forbidden: an IPUJob has no such field: the API server drops it'],
	['launcher and interactive', 's/(?=  workers:)/  launcher: {command: [x]}\n  interactive: {ttl: 60}\n/', '9:3',
		'spec.interactive: Forbidden: a job has a launcher or is interactive'],
	['a negative ttl', 's/(?=  workers:)/  interactive:\n    ttl: -1\n/', '9:5', 'spec.interactive.ttl: Invalid value: must be from 1'],
	['a bad exit code', 's/(?=  workers:)/  restartPolicy: {type: ExitCode, exitCodes: "300"}\n/', '8:35',
		'spec.restartPolicy.exitCodes: Invalid value: each code'],
	['no containers', 's/containers:\n.*/containers: []/s', '11:9',
		'spec.workers.template.spec.containers: Invalid value: must have at least one'],
	['a container twice', 's/\z/        - name: main\n          image: x\n/', '14:11',
		'spec.workers.template.spec.containers[1].name: Duplicate value: the container main is there twice'],
	['workers that share nothing', 's/(?=  workers:)/  workersPerJobInstance: "3"\n/', '8:3',
		"spec.workersPerJobInstance: Invalid value: 3 workers can't have equally many of the 4 IPUs"],
	['a label', 's/(?=      spec:)/      metadata: {labels: {example.com\/a.b: x y}}\n/', '10:27',
		'spec.workers.template.metadata.labels[example.com/a.b]: Invalid value: must be at most 63'],
	['a name', 's/good/Good/', '4:3', 'metadata.name: Invalid value: must be small letters'],
	['another version', 's/v1alpha1/v1/', '1:1', 'apiVersion: Unsupported value: must be graphcore.ai/v1alpha1'],
);

subtest 'what is wrong' => sub {
	for my $case (@wrong) {
		my ($what, $change, $place, $words) = @$case;
		my $text = $good;
		eval "\$text =~ $change; 1" or die $@;
		isnt($text, $good, "$what is another manifest");
		my $file = manifest($text);
		my $result = validate($file);
		like($result->{out}, qr/^\Q$file:$place: error: $words\E/m, '... its place and words') or diag($result->{out});
		unlike($result->{out}, qr/is valid/, '... is not valid');
		is($result->{status}, 1, '... status 1');
		is($result->{err}, "ipuctl: 1 of 1 can't be accepted\n", '... said in one line');
	}
};

subtest 'several objects and files' => sub {
	my $others = manifest("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n---\n$good---\n" . ($good =~ s/"4"/"5"/r));
	my $list = manifest("apiVersion: v1\nkind: List\nitems:\n- " . ($good =~ s/\n(?=.)/\n  /gr =~ s/: good/: in-list/r));
	my $result = validate($others, $list);
	is($result->{status}, 1, 'one that is wrong decides');
	like($result->{out}, qr/^\Q$others\E: IPUJob good is valid\n\Q$others:25:3\E: error: /m, 'by its document');
	like($result->{out}, qr/^\Q$list\E: IPUJob in-list is valid$/m, 'a list is looked into');
	is($result->{err}, "$others:1:1: Service isn't an IPUJob, and not looked at\nipuctl: 1 of 3 can't be accepted\n",
		'what was left out is said');
	is(validate($list)->{status}, 0, 'the list alone is right');
};

subtest 'no manifest' => sub {
	my $result = validate(test_dir() . '/none.yaml');
	is($result->{status}, 2, 'a file that is not there');
	like($result->{err}, qr/none\.yaml: No such file/, '... is named');
	$result = validate(manifest("spec: [\n"));
	is($result->{status}, 1, 'no YAML');
	like($result->{out}, qr/\.yaml:2:1: /, '... with its place');
	$result = validate(manifest("kind: Pod\n"));
	is($result->{status}, 1, 'no IPUJob at all');
	like($result->{err}, qr/there is no IPUJob/, '... says so');
	$result = validate();
	is($result->{status}, 2, 'no file');
};

done_testing();
