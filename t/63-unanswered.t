#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Statuses that were sent, and never answered: what the operator has seen is so nevertheless. A job whose worker is deleted
# after all of them were there has failed, also where the write that says so was refused, since an earlier one, whose answer was
# lost, has taken effect.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTest qw(watchdog);
use Scenario;
use Scenario::Sim;
use Test::More;

watchdog(200);
my $s = Scenario->new(Scenario::Sim->new);
$s->start(create_ms => 4000); # time for faults, before there are Pods
$s->wait_ready;
$s->create('ipujobs', $s->job('many', ipus => 2, unready => 1, spec => { workersPerJobInstance => '2' }));
$s->wait_for('its partition to be made', sub { 1 == $s->partitions });

# From now on the first status that is written of the job takes effect, and the operator isn't told; so those that come later are
# refused. The second Pod comes some seconds later, so that the first one says nothing of it.
sub fault (%fault) { return $s->tell_sim('/sim/api/faults', json => \%fault) }
fault(kind => 'cut', verb => $_, resource => 'ipujobs', count => 0) for qw(watch list);
fault(kind => 'lose', verb => 'patch', resource => 'ipujobs', count => 0);
fault(kind => 'status', verb => 'create', resource => 'pods', skip => 1, count => 5);
$s->tell_sim('/sim/api/cut-watches');
sub refused () { return $s->metrics->{'ipu_operator_kube_requests_total{verb="patch",resource="ipujobs",code="409"}'} // 0 }
$s->wait_for('all Pods to have been seen', sub { $s->metrics->{ipu_operator_job_pods_created_seconds_count} }, seconds => 60, pause => 0.1);
my $before = refused();
$s->back->set_ready($s, 'many-worker-0', 'True'); # a change, so that it looks at once
$s->wait_for('a status that says so', sub { refused() > $before }, pause => 0.1);
my $status = $s->get_job('many')->{status};
is("$status->{launcherStatus} $status->{workersStatus}{active}", 'Pending 1', 'a status from before took effect');
ok(!grep({ $_->{complete} } @{ $status->{instances} // [] }), '… which says nothing of all Pods');

$s->delete('pods', 'many-worker-1');
$s->wait_for('it to be gone', sub { !$s->get('pods', 'many-worker-1') });
$s->api_comes;
$status = $s->wait_job('many', 'Failed', despite_errors => 1)->{status};
like($status->{lastMessage}, qr/many-worker-1 was deleted/, 'a worker that is deleted then is the end of the job, which says why');
is($s->vipu->{created}, 1, 'nothing was begun anew');
ok(!$s->get('pods', 'many-worker-1'), '… no Pod either');
$s->finish(1);
done_testing;
