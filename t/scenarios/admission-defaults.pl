# SPDX-License-Identifier: Apache-2.0
#
# What the API server stores of a job says everything that has a default, whatever the CRD leaves out, and
# keeps what the user wrote, in either generation's words; who applies the same again changes nothing.
# Runs: both (sim, scale)

use v5.36;
use IpuTest qw(json_encode slurp spit test_dir);
use IpuTree qw(top_srcdir);
use Test::More;

# The CRD without its own defaults: those that are stored come from the webhook.
my ($head, $tail) = slurp(top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml') =~ /\A(.*\n)( +default:\n +launcherStatus:.*)\z/s;
my $crd = $head =~ s/^( +)default:.*\n(?:\1 +.*\n)*//gmr . $tail;

sub defaults ($spec) {
	return { %$spec{qw(cleanPodPolicy restartPolicy)}, strategy => $spec->{workers}{strategy} };
}

my $rolling = { type => 'RollingUpdate', rollingUpdate => { maxSurge => '25%', maxUnavailable => '25%' } };
my $usual = { cleanPodPolicy => 'None', restartPolicy => { type => 'Never', backOffLimit => 3 }, strategy => $rolling };

sub ($s) {
	$s->start(webhook => 1, crd => $crd);

	my $made = $s->create_job('plain', ipus => 2);
	is_deeply(defaults($made->{spec}), $usual, 'what was left out');
	is($made->{spec}{ipusPerJobInstance}, '2', 'a size stays a string where it was one');

	my $own = { type => 'OnFailure', backOffLimit => 0 };
	$made = $s->create_job('own', ipus => 2, spec => { cleanPodPolicy => 'All', restartPolicy => $own,
		workers => { strategy => { type => 'Recreate' } } });
	is_deeply(defaults($made->{spec}), { cleanPodPolicy => 'All', restartPolicy => $own, strategy => { type => 'Recreate' } },
		'what was said');

	my $old = $s->job('old');
	delete @{ $old->{spec} }{qw(jobInstances ipusPerJobInstance)};
	@{ $old->{spec} }{qw(modelReplicas ipusPerModelReplica)} = ('2', '1');
	$made = $s->create('ipujobs', $old);
	is_deeply([ @{ $made->{spec} }{qw(modelReplicas ipusPerModelReplica jobInstances ipusPerJobInstance)} ], [ '2', '1', undef, undef ],
		'the first generation is not rewritten');

	my $before = $s->wait_job('plain', 'Running');
	my $file = spit(test_dir() . '/plain.json', json_encode($s->job('plain', ipus => 2)));
	for my $time (1, 2) {
		my $result = $s->kubectl([ 'apply', '-f', $file ]);
		is($result->{status}, 0, "applied, time $time") or diag($result->{err});
	}
	my $after = $s->get_job('plain');
	is($after->{metadata}{generation}, $before->{metadata}{generation}, 'the same once more changes nothing');
	is_deeply($after->{spec}, $before->{spec}, '… of its spec');

	my $recreate = $s->job('plain', ipus => 2, spec => { workers => { strategy => { type => 'Recreate' } } });
	my $result = $s->kubectl([ 'apply', '-f', spit($file, json_encode($recreate)) ]);
	is($result->{status}, 0, 'another strategy by apply') or diag($result->{err});
	is_deeply($s->get_job('plain')->{spec}{workers}{strategy}, { type => 'Recreate' },
		'… goes without what a default had put beside the old one');
	$s->wait_job($_, 'Running') for qw(own old);
};
