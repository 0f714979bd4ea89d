# SPDX-License-Identifier: Apache-2.0
#
# Runs: real (scale): the simulator has no autoscaler, and what is looked at is Kubernetes' own
#
# A HorizontalPodAutoscaler on an IPUJob finds the scale subresource, counts the instances, and changes
# them. There are no metrics here: it's the bounds that make it scale.

use v5.36;
use Test::More;

sub conditions ($hpa) {
	return { map { $_->{type} => "$_->{status} $_->{reason}" } @{ $hpa->{status}{conditions} // [] } };
}

sub ($s) {
	$s->start(agents => 4);
	$s->create_job('served', ipus => 2, spec => { jobInstances => 2 });
	$s->wait_job('served', 'Running');
	my $made = $s->kubectl([ qw(autoscale ipujob served --min=1 --max=5 --cpu=50%) ]);
	is($made->{status}, 0, 'kubectl autoscale takes an IPUJob') or diag($made->{err});
	my $path = '/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/served';
	my $hpa = sub { return $s->must('GET', $path) };
	my $patch = sub ($spec) {
		$s->must('PATCH', $path, json => { spec => $spec },
			headers => { 'content-type' => 'application/merge-patch+json' });
	};
	$s->wait_for('the autoscaler to find the job', sub {
		return (conditions($hpa->())->{AbleToScale} // '') =~ /^True/;
	}, seconds => 60);
	is($hpa->()->{status}{currentReplicas}, 2, 'it counts the instances');
	unlike(conditions($hpa->())->{ScalingActive} // '', qr/InvalidSelector/, '… and can use the selector');
	my $uid = $s->get_worker('served')->{metadata}{uid};

	$patch->({ minReplicas => 4 });
	my $replicas = sub ($n) {
		return $s->wait_for("$n instances", sub {
			return $s->list('pods', labels => 'graphcore.ai/job=served') == $n
				&& $s->get_job('served')->{status}{currentReplicas} == $n;
		}, seconds => 60);
	};
	$replicas->(4);
	is($s->get_job('served')->{spec}{jobInstances}, 4, 'it asks for more');
	$patch->({ minReplicas => 1, maxReplicas => 1 });
	$replicas->(1);
	is($s->get_worker('served')->{metadata}{uid}, $uid, 'and for fewer: the first runs on');
	$s->wait_for('their IPUs to be free', sub { 1 == $s->partitions });
	$s->must('DELETE', $path);
};
