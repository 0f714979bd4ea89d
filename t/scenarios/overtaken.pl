# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A job that people change at every step of its life comes to its end all the same, and with what they have changed: the
# operator's statuses name the version that they were made of, and the API server takes none that is made of an older one.

use v5.36;
use Test::More;

# What the API server answers to a status like the operator's: a merge patch, tried only.
sub try_status ($s, $name, %metadata) {
	my $answer = $s->request('PATCH', $s->path('ipujobs', 'default', $name, 'status') . '?dryRun=All',
		json => { metadata => \%metadata, status => { lastMessage => 'tried' } }, headers => { 'content-type' => 'application/merge-patch+json' });
	return join ' ', grep { defined } $answer->{status}, $answer->{success} ? $answer->{json}{status}{lastMessage} : $answer->{json}{reason};
}

sub note ($s, $name, $words) { return $s->patch('ipujobs', $name, { metadata => { annotations => { note => $words } } }) }

sub ($s) {
	$s->start(agents => 2);
	$s->create_job('edited', spec => { suspend => JSON::PP::true });
	my ($uid, $version) = @{ $s->wait_job('edited', 'Suspended')->{metadata} }{qw(uid resourceVersion)};
	my $now = note($s, 'edited', 'seen')->{metadata}{resourceVersion};
	isnt($now, $version, 'a change makes another version');
	is(try_status($s, 'edited', resourceVersion => $version), '409 Conflict', 'a status upon the former one is refused');
	is(try_status($s, 'edited', uid => $uid, resourceVersion => $version), '409 Conflict', '… with the UID, too');
	is(try_status($s, 'edited', uid => $uid, resourceVersion => $now), '200 tried', 'upon this one it is taken');
	is(try_status($s, 'edited', uid => '00000000-0000-4000-8000-000000000000', resourceVersion => $now), '409 Conflict', '… of this job alone');

	$s->patch('ipujobs', 'edited', { spec => { suspend => JSON::PP::false } });
	my $times = 0;
	$s->wait_for('it to run', sub { note($s, 'edited', $times++)->{status}{launcherStatus} eq 'Running' });
	$s->end_pod('edited', 0);
	$s->wait_for('its end', sub { note($s, 'edited', $times++)->{status}{launcherStatus} eq 'Completed' });
	$s->settle;
	my $job = $s->get_job('edited');
	is($job->{status}{launcherStatus}, 'Completed', 'it has ended');
	is($job->{metadata}{annotations}{note}, $times - 1, '… with the last of all changes');
}
