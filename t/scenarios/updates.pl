# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What can't be changed in a job that is there, and what can: every rule on updates of validation.md has a
# case here, and comes with the words that it has there.

use v5.36;
use IpuTree qw(file_text);
use Test::More;

my %by_models = (jobInstances => undef, ipusPerJobInstance => undef, modelReplicas => '4',
	ipusPerModelReplica => '1');
my %launcher = (launcher => { command => ['mpirun'] });
my %interactive = (interactive => { ttl => 60 });

# Rule, what the job has beside its size and template, the change.
my @refused = (
	[ 'workers-per-instance-fixed', { workersPerJobInstance => '2' }, { workersPerJobInstance => '3' } ],
	[ 'workers-per-instance-fixed', {}, { workersPerJobInstance => '2' } ],
	[ 'workers-fixed', {}, { workers => { replicas => 2 } } ],
	[ 'model-replicas-fixed', \%by_models, { modelReplicas => '8' } ],
	[ 'replica-ipus-fixed', \%by_models, { ipusPerModelReplica => '2' } ],
	[ 'generation-fixed', {}, \%by_models ],
	[ 'launcher-fixed', {}, \%launcher ],
	[ 'launcher-fixed', \%launcher, { launcher => undef } ],
	[ 'interactive-fixed', {}, \%interactive ],
	[ 'interactive-fixed', \%interactive, { interactive => undef } ],
	[ 'manager-fixed', {}, { managedBy => 'example.com/other' } ],
	[ 'manager-fixed', { managedBy => 'example.com/one' }, { managedBy => 'example.com/other' } ],
	[ 'manager-fixed', { managedBy => 'example.com/one' }, { managedBy => undef } ],
);
my @taken = (
	[ 'as many workers, said otherwise', {}, { workersPerJobInstance => '1', workers => { replicas => 7 } } ],
	[ 'instances and their size', {}, { jobInstances => 2, ipusPerJobInstance => '8' } ],
	[ 'the launcher\'s command', \%launcher, { launcher => { command => ['poprun'] } } ],
	[ 'the session\'s length', \%interactive, { interactive => { ttl => 61 } } ],
	[ 'times and policies', {}, { activeDeadlineSeconds => 60, ttlSecondsAfterFinished => 0,
		startDeadlineSeconds => 5, schedulingPolicy => { minAvailable => 1, queue => 'a',
		minResources => { cpu => 4, memory => '8Gi' } }, cleanPodPolicy => 'All' } ],
);

# By id: field path, kind and message.
sub rules () {
	my ($table) = file_text('doc/reference/validation.md') =~ /^## Rules on updates.*?\n(.*?)^## /ms;
	my %rules;
	for my $line (grep { /^\| [a-z]/ && !/^\| id/ } split /\n/, $table) {
		my ($id, $path, $kind, undef, $message) = map { s/^ +| +$//gr } split /\|/, $line =~ s/^\|//r;
		$rules{$id} = { path => $path =~ s/`//gr, kind => $kind, message => $message };
	}
	return %rules;
}

# A job that waits for ever, so that nothing is going on while it is changed.
sub make ($s, $name, $has) {
	my $job = $s->job($name, ipus => 64);
	$job->{spec}{$_} = $has->{$_} for keys %$has;
	delete @{ $job->{spec} }{ grep { !defined $has->{$_} } keys %$has };
	$s->create('ipujobs', $job);
}

sub change ($s, $name, $spec) {
	return $s->request('PATCH', $s->path('ipujobs', 'default', $name), json => { spec => $spec },
		headers => { 'content-type' => 'application/merge-patch+json' });
}

sub ($s) {
	my %rule = rules();
	my %seen;
	my $n = 0;

	$s->start(agents => 2);
	for my $case (@refused) {
		my ($id, $has, $to) = @$case;
		my $name = 'refused-' . ++$n;
		make($s, $name, $has);
		my $answer = change($s, $name, $to);
		is($answer->{status}, 422, "$id: refused") or diag($answer->{content});
		like($answer->{content}, qr/\Q$rule{$id}{path}: $rule{$id}{kind}: \E/, '… at its field, by its kind');
		like($answer->{content}, qr/\Q$rule{$id}{message}\E/, '… in its words');
		$seen{$id} = 1;
	}
	is_deeply([ sort keys %seen ], [ sort keys %rule ], 'all the rules there are');
	for my $case (@taken) {
		my ($what, $has, $to) = @$case;
		my $name = 'taken-' . ++$n;
		make($s, $name, $has);
		is(change($s, $name, $to)->{status}, 200, "$what can be changed");
	}
};
