# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# What the process keeps: nothing of Pods that aren't its jobs', no metric series for a job, and nothing of jobs that
# are gone.

use v5.36;
use IpuTest ();
use Test::More;

my %size = (sim => { pods => 1000, jobs => 40 }, real => { pods => 400, jobs => 40 });

sub memory_kb ($s, $field) {
	my ($kb) = IpuTest::slurp('/proc/' . $s->operator->pid . '/status') =~ /^$field:\s*(\d+)/m;
	return $kb;
}

sub rss_kb ($s) { return memory_kb($s, 'VmRSS') }

# AddressSanitizer maps terabytes, and keeps what was freed: its build says nothing of the operator's memory.
sub has_grown_less ($s, $before, $most, $what) {
	my $grown = rss_kb($s) - $before;
	SKIP: {
		skip("$what: not in a build with AddressSanitizer", 1) if memory_kb($s, 'VmSize') > 2**30;
		cmp_ok($grown, '<', $most, "$what: $grown kB more");
	}
	return;
}

sub unrelated ($name) {
	return { apiVersion => 'v1', kind => 'Pod', metadata => { name => $name, labels => { app => 'other' },
		annotations => { 'example.com/long' => 'x' x 4096 } },
		spec => { schedulingGates => [ { name => 'test/never' } ], containers => [ { name => 'main', image => 'localhost/busybox:test' } ] } };
}

sub run_jobs ($s, $word, $n) {
	my @names = map { "$word-$_" } 1 .. $n;
	$s->create_job($_, ipus => 1, runs => 0) for @names;
	$s->wait_job($_, 'Completed', seconds => 60) for @names;
	return @names;
}

# Without those by answer and by verb: one that hasn't come before (503, say) is another one. Nor those of partitions that nobody
# asks for: they come a minute after the start, which may be in the middle of this.
sub series ($s) {
	my $metrics = $s->metrics;
	return join "\n", grep { !/[{,](?:code|verb)="|_partitions_unowned/ } sort keys %$metrics;
}

sub ($s) {
	my $n = $size{ $s->is_real ? 'real' : 'sim' };
	$s->start(agents => 16, create_ms => 10, remove_ms => 10);
	run_jobs($s, 'trace-warm', 5);
	$s->wait_for('its IPUs to come back', sub { !$s->partitions });

	my $before = rss_kb($s);
	$s->create('pods', unrelated("other-$_")) for 1 .. $n->{pods};
	run_jobs($s, 'trace-beside', 5);
	has_grown_less($s, $before, 1024, "$n->{pods} Pods of others, 4 kB each");

	my $series = series($s);
	my @names = run_jobs($s, 'trace-many', $n->{jobs});
	unlike(join("\n", keys %{ $s->metrics }), qr/trace-/, 'no metric names a job');
	is(series($s), $series, '… and there are no more series than before');
	$s->delete_job($_) for @names;
	$s->wait_job_gone($_, seconds => 60) for @names;
	$before = rss_kb($s);
	for my $round (1 .. 3) {
		@names = run_jobs($s, "trace-round$round", $n->{jobs});
		$s->delete_job($_) for @names;
		$s->wait_job_gone($_, seconds => 60) for @names;
	}
	# The last 4096 kinds of Events are remembered, so that repeats are counted.
	has_grown_less($s, $before, 2048, 3 * $n->{jobs} . ' jobs that came and went');
	$s->must('DELETE', $s->path('pods', 'default') . '?labelSelector=app%3Dother&gracePeriodSeconds=0', json => {});
};
