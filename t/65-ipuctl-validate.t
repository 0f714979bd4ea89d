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
my $asan = slurp("$ENV{TOP_BUILDDIR}/config.status") =~ /-fsanitize=\S*address/;
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
	['a label of the job', 's/(?=  name:)/  labels: {team: a b}\n/', '4:12', 'metadata.labels[team]: Invalid value: must be at most 63'],
	['... its key', 's/(?=  name:)/  labels: {a b: c}\n/', '4:12', 'metadata.labels[a b]: Invalid value: must be a name of at most 63'],
	['... no string', 's/(?=  name:)/  labels:\n    n: 1\n/', '5:5', 'metadata.labels[n]: Invalid value: must be a string'],
	['an annotation of the job', 's/(?=  name:)/  annotations: {a\/b\/c: any thing}\n/', '4:17', 'metadata.annotations[a/b/c]: Invalid value: must be a name'],
	['a name', 's/good/Good/', '4:3', 'metadata.name: Invalid value: must be small letters'],
	['a field at the top that is misspelt', 's/spec:/x: 1\nspecs: {}\nspec:/', '5:1', 'x: Forbidden: an IPUJob has no such field: the API server drops it'],
	['... the next', 's/spec:/x: 1\nspecs: {}\nspec:/', '6:1', 'specs: Forbidden: an IPUJob has no such field: did you mean spec?'],
	['one of metadata', 's/(?=  name:)/  label: {a: b}\n/', '4:3', 'metadata.label: Forbidden: an IPUJob has no such field: did you mean labels?'],
	['another kind of the group', 's/IPUJob/IPUjob/', '2:1', 'kind: Unsupported value: must be IPUJob'],
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

# Legal, since a newer Kubernetes may have the field: change, place, field and words.
my $no_such = 'a Pod of Kubernetes \d\.\d+ has no such field: ';
my @doubtful = (
	['in the template', 's/(?=      spec:)/      metdata: {}\n/', '10:7', 'spec.workers.template.metdata', 'did you mean metadata?'],
	['in the Pod', 's/(?=        containers)/        hostnetwork: true\n/', '11:9', 'spec.workers.template.spec.hostnetwork', 'did you mean hostNetwork?'],
	['in a container', 's/\z/          imagePullPolciy: Never\n/', '14:11', 'spec.workers.template.spec.containers[0].imagePullPolciy', 'did you mean imagePullPolicy?'],
	['deeper', 's/\z/          resources: {limit: {cpu: 4}}\n/', '14:23', 'spec.workers.template.spec.containers[0].resources.limit', 'did you mean limits?'],
	['that no other is like', 's/(?=        containers)/        parallelism: 2\n/', '11:9', 'spec.workers.template.spec.parallelism', "an API server that doesn't know it drops it"],
	["in the launcher's variables", 's/(?=  workers:)/  launcher: {command: [x], env: [{name: a, vaule: b}]}\n/', '8:44', 'spec.launcher.env[0].vaule', 'did you mean value?'],
);

subtest 'fields that no Pod has' => sub {
	for my $case (@doubtful) {
		my ($what, $change, $place, $path, $words) = @$case;
		my $text = $good;
		eval "\$text =~ $change; 1" or die $@;
		my $file = manifest($text);
		my $result = validate($file);
		like($result->{out}, qr/\A\Q$file:$place\E: warning: \Q$path\E: $no_such\Q$words\E\n\Q$file\E: IPUJob good is valid\n\z/, "$what: a warning with its place")
			or diag($result->{out});
		is($result->{status}, 0, '... and no error');
	}
	my $file = manifest($good =~ s/containers/contianers/r);
	my $result = validate($file);
	is($result->{status}, 1, 'one that was needed');
	like($result->{out}, qr/error: \Qspec.workers.template.spec.containers: Required value: is required\E$/m, '... is missing');
	like($result->{out}, qr/^\Q$file:11:9: warning: spec.workers.template.spec.contianers\E: $no_such\Qdid you mean containers?\E$/m, '... and there by another name');
};

subtest 'of another version or kind' => sub {
	for my $header ("apiVersion: graphcore.ai/v1\nkind: IPUJob\n", "apiVersion: graphcore.ai/v1alpha1\nkind: IPUjob\n") {
		my $file = manifest("$header# that's all\n");
		is(scalar(() = validate($file)->{out} =~ /^/mg), 1, 'one error, and none that only follows from it');
	}
	my $result = validate(manifest($good . "---\n" . ($good =~ s/kind: IPUJob/kind: IPUjob/r)));
	is("$result->{status} $result->{err}", "1 ipuctl: 1 of 2 can't be accepted\n", 'beside one that is right');
	my $all = join '', map { "  $_\n" } 'generateName: x-', 'namespace: team', 'labels: {a: b}', 'annotations: {a: b}', 'finalizers: [a.b/c]', 'ownerReferences: []',
		'uid: x', 'resourceVersion: "1"', 'generation: 1', 'creationTimestamp: null', 'managedFields: []', 'selfLink: x';
	is(validate(manifest($good =~ s/(?=spec:)/${all}status: {}\n/r))->{status}, 0, 'what `kubectl get -o yaml` shows is right');
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

subtest 'what would play with the terminal' => sub {
	my $escapes = '"\e]0;x\a\u009b2J\n"';
	my $control = qr/[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]/;
	my @texts = map { $good =~ s/\Q$_\E/$escapes/r } 'good', 'IPUJob', 'jobInstances', '"4"', 'main';
	for my $text (@texts, $texts[1] =~ s/graphcore\S+/v1/r) {
		my $file = manifest($text);
		my $result = validate($file);
		unlike($result->{out} . $result->{err}, $control, "no escape sequence of a manifest gets to it");
		$result = run([program('ipuctl'), 'render', $file], env => \%nowhere, seconds => 30);
		unlike($result->{err}, $control, '... nor by render');
	}
};

subtest 'an alias bomb' => sub {
	# 4^25 times an x, in some 800 bytes.
	my $bomb = join('', "a: &a [x, x]\n", map({ my $c = chr(ord($_) - 1); "$_: &$_ [*$c, *$c, *$c, *$c]\n" } 'b' .. 'z'));
	my $file = manifest($good . "---\n$bomb");
	for my $command (['validate', $file], ['render', '-f', $file]) {
		# With room for what is bounded, not for what it stands for.
		my $result = run(['sh', '-c', $asan ? 'exec "$@"' : 'ulimit -v 1000000; exec "$@"', 'sh', program('ipuctl'), @$command], env => \%nowhere, seconds => 30);
		ok($result->{status} == 1 || $result->{status} == 2, "ipuctl $command->[0]: refused") or diag("status $result->{status}");
		like($result->{out} . $result->{err}, qr/\Q$file\E:\d+:\d+: .*aliases and merges stand for more than \d+ bytes/, '... for what it stands for, and where');
	}
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
	like($result->{err}, qr/a manifest is needed: -f FILE/, '... is said');
};

subtest 'files as kubectl takes them' => sub {
	my $folder = test_dir() . '/folder';
	mkdir $folder or die;
	spit("$folder/b.yml", $good =~ s/: good/: b/r);
	spit("$folder/a.json", '{"apiVersion": "graphcore.ai/v1alpha1", "kind": "IPUJob"}');
	spit("$folder/.hidden.yaml", 'x');
	spit("$folder/notes.txt", 'x: [');
	my $result = validate('-f', $folder);
	is($result->{status}, 1, 'a folder');
	like($result->{out}, qr{\A\Q$folder/a.json\E:1:1: error: metadata.*^\Q$folder/b.yml\E: IPUJob b is valid\n\z}ms, '... in order, nothing else of it');
	my $first = manifest($good =~ s/: good/: first/r);
	my $second = manifest($good =~ s/: good/: second/r);
	is(validate('-f', $first, '--filename', $second)->{out}, "$first: IPUJob first is valid\n$second: IPUJob second is valid\n", 'several -f');
	is(validate('-f', $first, $second)->{status}, 0, '... and operands');
	$result = run(['bash', '-c', program('ipuctl') . " validate -f - <$first"], env => \%nowhere);
	is($result->{out}, "standard input: IPUJob first is valid\n", 'standard input');
	like(validate('-f', '-', '-f', '-')->{err}, qr/once only/, '... only once');
	mkdir "$folder/empty" or die;
	$result = validate('-f', "$folder/empty");
	is($result->{status}, 2, 'an empty folder');
	like($result->{err}, qr/the folder has no/, '... is named');
};

# Pods that ask by annotation: change of the good one, place and words.
my $pod = <<'END';
apiVersion: v1
kind: Pod
metadata:
  name: asks
  annotations:
    graphcore.ai/ipus: "2"
spec:
  containers:
  - name: main
    image: pytorch
END
(my $deployment = $pod) =~ s/^/    /mg;
$deployment =~ s/^    apiVersion.*\n.*\n//;
$deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many}\nspec:\n  template:\n$deployment";

subtest 'annotated Pods' => sub {
	my $file = manifest($pod);
	is(validate($file)->{out}, "$file: Pod asks is valid\n", 'a Pod');
	$file = manifest($pod =~ s/"2"/"3"/r);
	my $result = validate($file);
	like($result->{out}, qr/^\Q$file:6:5: error: metadata.annotations[graphcore.ai\/ipus]: Invalid value: \E/m, 'a size that is none, with its place');
	is($result->{status}, 1, '... is wrong');
	$file = manifest($deployment);
	is(validate($file)->{out}, "$file: Deployment many is valid\n", 'the template of a Deployment');
	$file = manifest($deployment =~ s/"2"/"3"/r);
	like(validate($file)->{out}, qr/^\Q$file:9:9: error: spec.template.metadata.annotations[graphcore.ai\/ipus]: \E/m, '... with its place');
	$file = manifest($pod =~ s/image:/iamge:/r);
	like(validate($file)->{out}, qr/^\Q$file:10:5: warning: spec.containers[0].iamge\E: $no_such\Qdid you mean image?\E$/m, 'a field that no Pod has');
	$file = manifest($deployment =~ s/image:/iamge:/r);
	like(validate($file)->{out}, qr/^\Q$file\E:\d+:\d+: warning: \Qspec.template.spec.containers[0].iamge\E: $no_such/m, '... in a template');
	$file = manifest($deployment =~ s/ipus: "2"/other: "2"/r);
	is(validate($file)->{status}, 1, 'one that asks for none is not looked at');
};

subtest 'for programs' => sub {
	my $file = manifest(($good =~ s/"4"/"3"/r) . "---\n" . ($good =~ s/(?=  workers:)/  ttlSecondsAfterFinished: 0\n/r =~ s/: good/: second/r));
	my $result = validate('-o', 'json', '-f', $file);
	is($result->{status}, 1, 'the status is the same');
	my $said = json_decode($result->{out});
	is_deeply($said->{objects}, [
		{file => $file, line => 1, kind => 'IPUJob', name => 'good', valid => JSON::PP::false},
		{file => $file, line => 15, kind => 'IPUJob', name => 'second', valid => JSON::PP::true}], 'the objects');
	is_deeply([map { [@$_{qw(line column severity path)}] } @{$said->{findings}}],
		[[7, 3, 'error', 'spec.ipusPerJobInstance'], [22, 3, 'warning', 'spec.ttlSecondsAfterFinished']], 'the findings');
	ok(!$said->{valid}, '... and all of it together');
	my $broken = manifest("spec: [\n");
	$said = json_decode(validate('-ojson', $broken)->{out});
	is_deeply([@{$said->{findings}[0]}{qw(file line column severity)}], [$broken, 2, 1, 'error'], 'no YAML');
	unlike($said->{findings}[0]{message}, qr/\Q$broken/, '... the place is not in the words again');
	like(validate('-o', 'xml', $file)->{err}, qr/--output: must be json/, 'another format');
	like(validate('--wait', 1, $file)->{err}, qr/validate: takes no --wait/, 'an option of others');
};

subtest 'colours' => sub {
	my $file = manifest($good =~ s/"4"/"3"/r);
	unlike(validate($file)->{out}, qr/\e/, 'none in a file');
	like(validate('--color', 'always', $file)->{out}, qr/: \e\[1;31merror\e\[0m: /, '--color always');
	like(validate('--color', 'never', $file)->{out}, qr/: error: /, '--color never');
	is(validate('--color', 'red', $file)->{status}, 2, 'another');
};

done_testing();
