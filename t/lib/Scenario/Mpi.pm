# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Mpi: what scenarios of jobs with a launcher have in common: the job in either generation's
# spelling, the launcher's log, and the processes of a run of mpirun. Each function gets a Scenario.
package Scenario::Mpi;

use v5.36;
use Exporter qw(import);
use Test::More;

our @EXPORT_OK = qw(create_launcher_job launcher_log wait_log wait_ranks no_rank_is_left is_checked);

# Every process that a run of mpirun has anywhere: itself, its helpers here and there, the ranks.
our $any_of_mpi = qr{^(?:/mpi_check|orted|mpirun|mpiexec|hydra_pmi_proxy|/\.ipu/ipu-launcher (?:rsh|session))\b};
our $rank = qr{^/mpi_check\b};

# Makes a job whose launcher runs a command. Options: command, its words; workers (4), slots, ranks a
# worker (2), an IPU each; old, in the first generation's spelling; image; folders of
# the node's, by where they are mounted; spec, more of the job's.
sub create_launcher_job ($s, $name, %option) {
	my ($workers, $slots) = ($option{workers} // 4, $option{slots} // 2);
	my $job = $s->job($name, template => {
		metadata => { labels => { gang => $name } },
		spec => { topologySpreadConstraints => [ { maxSkew => 1, topologyKey => 'kubernetes.io/hostname',
			whenUnsatisfiable => 'ScheduleAnyway', labelSelector => { matchLabels => { gang => $name } } } ] } });
	my $spec = $job->{spec};
	$spec->{workers}{template}{spec}{containers}[0] = { name => 'main', imagePullPolicy => 'Never',
		image => $option{image} // 'localhost/busybox:test' };
	mount($spec->{workers}{template}{spec}, $option{folders} // {});
	delete @$spec{qw(jobInstances ipusPerJobInstance)};
	if ($option{old}) {
		@$spec{qw(modelReplicas ipusPerModelReplica)} = ('' . $workers * $slots, '1');
		$spec->{workers}{replicas} = $workers;
	} else {
		@$spec{qw(jobInstances ipusPerJobInstance workersPerJobInstance modelReplicasPerWorker)}
			= (1, '' . $workers * $slots, "$workers", "$slots");
	}
	$spec->{launcher}{command} = $option{command} if $option{command};
	$spec->{$_} = $option{spec}{$_} for keys %{ $option{spec} // {} };
	return $s->create('ipujobs', $job);
}

sub mount ($pod, $folders) {
	my @paths = sort keys %$folders;
	return if !@paths;
	$pod->{volumes} = [ map { { name => "folder-$_", hostPath => { path => $folders->{ $paths[$_] } } } } 0 .. $#paths ];
	$pod->{containers}[0]{volumeMounts} = [ map { { name => "folder-$_", mountPath => $paths[$_] } } 0 .. $#paths ];
	return;
}

# What the launcher has written so far; '' before it runs.
sub launcher_log ($s, $name) {
	my $result = $s->kubectl([ 'logs', "$name-launcher" ]);
	return $result->{status} ? '' : $result->{out};
}

# Waits for words in the launcher's log, and returns the log.
sub wait_log ($s, $name, $pattern, %option) {
	return $s->wait_for("the launcher of $name to say $pattern", sub {
		my $log = launcher_log($s, $name);
		return $log =~ $pattern ? $log : undef;
	}, %option);
}

# Waits until so many ranks run and have found each other; returns their process ids on this machine.
sub wait_ranks ($s, $name, $count) {
	wait_log($s, $name, qr/^checked $count ranks/m);
	my @ranks = $s->back->processes($rank);
	is(scalar @ranks, $count, "$count ranks run");
	return @ranks;
}

# Waits until nothing of any run of mpirun is left on any node.
sub no_rank_is_left ($s, $why) {
	$s->wait_for("no process to be left ($why)", sub { !$s->back->processes($any_of_mpi) });
	pass("$why: no process of the run is left on any node");
	return;
}

# A log of mpi_check that found all right, and whose ranks were on several nodes.
sub is_checked ($log, $count, $why) {
	like($log, qr/^checked $count ranks: ring and allreduce are right$/m, $why);
	my %nodes = map { $_ => 1 } $log =~ /^rank \d+ of $count on (\S+)/mg;
	my @ranks = sort { $a <=> $b } $log =~ /^rank (\d+) of $count /mg;
	is_deeply(\@ranks, [ 0 .. $count - 1 ], '… every rank once');
	cmp_ok(scalar keys %nodes, '>=', 3, '… on three nodes');
	return;
}

1;
