# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, scale)
#
# A job that people change at every step of its life comes to its end all the same, and with what they have changed: the
# operator's statuses name the version that they were made of, and the API server takes none that is made of an older one.

use v5.36;
use Test::More;

my $other_uid = '00000000-0000-4000-8000-000000000000';

# What the API server answers to a patch like the operator's: a merge patch, tried only.
sub try_patch ($s, $path, %patch) {
	return $s->request('PATCH', "$path?dryRun=All", json => \%patch, headers => { 'content-type' => 'application/merge-patch+json' });
}

sub try_status ($s, $name, %metadata) {
	my $answer = try_patch($s, $s->path('ipujobs', 'default', $name, 'status'), metadata => \%metadata, status => { lastMessage => 'tried' });
	return join ' ', grep { defined } $answer->{status}, $answer->{success} ? $answer->{json}{status}{lastMessage} : $answer->{json}{reason};
}

# Of another object's UID.
sub try_uid ($s, $resource, $name) {
	my $answer = try_patch($s, $s->path($resource, 'default', $name), metadata => { uid => $other_uid, annotations => { note => 'tried' } });
	return join ' ', $answer->{status}, $answer->{json}{reason}, map { $_->{field} } $answer->{json}{details}{causes}[0];
}

sub annotate ($s, $name, $words) { return $s->patch('ipujobs', $name, { metadata => { annotations => { note => "$words" } } }) }

sub ($s) {
	$s->start(agents => 2);
	$s->create_job('edited', spec => { suspend => JSON::PP::true });
	my ($uid, $version) = @{ $s->wait_job('edited', 'Suspended')->{metadata} }{qw(uid resourceVersion)};
	my $now = annotate($s, 'edited', 'seen')->{metadata}{resourceVersion};
	isnt($now, $version, 'a change makes another version');
	is(try_status($s, 'edited', resourceVersion => $version), '409 Conflict', 'a status upon the former one is refused');
	is(try_status($s, 'edited', uid => $uid, resourceVersion => $version), '409 Conflict', '… with the UID, too');
	is(try_status($s, 'edited', uid => $uid, resourceVersion => $now), '200 tried', 'upon this one it is taken');
	is(try_status($s, 'edited', uid => $other_uid, resourceVersion => $now), '200 tried', '… whatever its UID: the version alone tells another job of its name');
	is(try_uid($s, 'ipujobs', 'edited'), '422 Invalid metadata.uid', 'elsewhere another UID is refused');

	$s->patch('ipujobs', 'edited', { spec => { suspend => JSON::PP::false } });
	my $times = 0;
	$s->wait_for('it to run', sub { annotate($s, 'edited', $times++)->{status}{launcherStatus} eq 'Running' });
	is(try_uid($s, 'pods', 'edited-worker-0'), '422 Invalid metadata.uid', '… of a Pod, too');
	$s->end_pod('edited', 0);
	$s->wait_for('its end', sub { annotate($s, 'edited', $times++)->{status}{launcherStatus} eq 'Completed' });
	$s->settle;
	my $job = $s->get_job('edited');
	is($job->{status}{launcherStatus}, 'Completed', 'it has ended');
	is($job->{metadata}{annotations}{note}, $times - 1, '… with the last of all changes');
}
