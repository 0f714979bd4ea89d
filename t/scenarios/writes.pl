# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
# Faults: no, because requests are counted
#
# What J jobs of W workers cost the API server, from their creation until they have ended and their IPUs are
# free: J × (W + a constant) writes. doc/design/api-writes.md has the constant's parts, and these are its rows.

use v5.36;
use Test::More;

# What a job may write at most beside its Pods, by verb and resource; on a machine where Pods take their time, the
# status is written more often. Of several jobs at once the tracker needs less.
my %most = (
	'patch ipujobs' => 10,
	'create events' => 7,
	'patch configmaps' => 5,
);
# With a launcher: what it needs, and its Pod.
my %with_launcher = (%most,
	'create configmaps' => 1, 'create serviceaccounts' => 1, 'create roles' => 1, 'create rolebindings' => 1,
	'create events' => 8, 'patch ipujobs' => 11,
);

sub writes ($s) {
	my $metrics = $s->metrics;
	my %n;
	for my $name (keys %$metrics) {
		my ($labels) = $name =~ /^ipu_operator_kube_requests_total\{(.*)\}$/ or next;
		my %label = $labels =~ /(\w+)="([^"]*)"/g;
		next if $label{verb} !~ /^(create|update|patch|delete)$/;
		next if $label{resource} =~ /^(leases|subjectaccessreviews|tokenreviews)/;
		$n{"$label{verb} $label{resource}"} += $metrics->{$name};
	}
	return \%n;
}

sub measure ($s, $jobs, $workers, $launcher) {
	my $before = writes($s);
	my @names = map { ($launcher ? 'l' : 'w') . "$workers-of$jobs-$_" } 1 .. $jobs;
	my $spec = { workersPerJobInstance => "$workers",
		$launcher ? (launcher => { command => ['true'] }) : () };
	$s->create_job($_, ipus => $workers, $launcher ? () : (runs => 1), spec => $spec) for @names;
	for my $name ($launcher ? @names : ()) {
		$s->wait_job($name, 'Running', seconds => 90);
		$s->back->end_pod($s, "$name-launcher", 0, '');
	}
	$s->wait_job($_, 'Completed', seconds => 90) for @names;
	$s->wait_event($_, 'PartitionReleased') for @names;
	$s->wait_for('the status to say that nothing is held', sub {
		!grep { $s->get_job($_)->{status}{iPUPartitionCreated} } @names;
	});
	my $after = writes($s);
	my %n = map { $_ => $after->{$_} - ($before->{$_} // 0) } keys %$after;
	my $all = 0;
	$all += $_ for values %n;
	my $text = join ', ', map { "$n{$_} $_" } grep { $n{$_} } sort keys %n;
	my $pods = $workers + !!$launcher;
	my $what = "$jobs x $workers" . ($launcher ? ' and a launcher' : '');
	diag(sprintf '%s: %d writes, a job %.1f beside its Pods: %s', $what, $all, $all / $jobs - $pods, $text);
	is(delete $n{'create pods'}, $jobs * $pods, "$what: each Pod is created once");
	my $most = $launcher ? \%with_launcher : \%most;
	my $slower = $s->is_real ? 2 : 1;
	cmp_ok($n{$_}, '<=', $slower * $jobs * ($most->{$_} // 0), "$what: $_") for sort keys %n;
	$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
	$s->wait_for('the jobs to go', sub { !$s->list('ipujobs') }, seconds => 60);
	return;
}

sub ($s) {
	$s->start(controllers => 4, agents => 16, set => [ 'launcher.image=localhost/ipu-launcher:test' ]);
	$s->wait_ready;
	measure($s, @$_, 0) for [ 1, 1 ], [ 1, 8 ], [ 1, 64 ], [ 8, 8 ], [ 4, 32 ];
	measure($s, @$_, 1) for [ 1, 1 ], [ 1, 8 ], [ 1, 64 ], [ 8, 8 ];
};
