#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A status that was written, and never answered: what the operator has seen is so nevertheless. A job whose worker is deleted
# after all of them were there has failed, also where the operator can't know that its "Running" is stored.

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
my $job = $s->job('many', ipus => 2, spec => { workersPerJobInstance => '2' });
$s->create('ipujobs', $job);
$s->wait_for('its partition to be made', sub { 1 == $s->partitions });

# From now on what is written of jobs takes effect, and the operator isn't told.
$s->tell_sim('/sim/api/faults', json => { kind => 'cut', verb => $_, resource => 'ipujobs', count => 0 }) for qw(watch list);
$s->tell_sim('/sim/api/faults', json => { kind => 'lose', verb => 'patch', resource => 'ipujobs', count => 0 });
$s->tell_sim('/sim/api/cut-watches');
$s->wait_job('many', 'Running');
is($s->metrics->{'ipu_operator_jobs{state="Running"}'}, 0, 'the operator doesn\'t know that it has written Running');

$s->delete('pods', 'many-worker-1');
$s->wait_for('the operator to judge', sub { $s->get_job('many')->{status}{launcherStatus} ne 'Running' });
my $status = $s->get_job('many')->{status};
is($status->{launcherStatus}, 'Failed', 'a worker that is deleted then is the end of the job');
like($status->{lastMessage}, qr/many-worker-1 was deleted/, '… which says why');
$s->api_comes;
$s->wait_job('many', 'Failed', despite_errors => 1);
is($s->vipu->{created}, 1, 'nothing was begun anew');
$s->finish(1);
done_testing;
