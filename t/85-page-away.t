#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page in a browser while its daemon ends, is killed, stands still or gives no events: it says so and since when, and goes on
# by itself; and what it doesn't say where the daemon keeps names to itself. With ipu-sim.

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use Scenario;
use Scenario::Sim;
use Test::More;
use Time::HiRes qw(time);

watchdog(280);
my $browser = Browser->start;
my $s = Scenario->new(Scenario::Sim->new);
$s->start(controllers => 1, agents => 4, create_ms => 50, remove_ms => 50, set => ['proxy.page=full']);
$s->wait_ready;
$s->create_job('stays', ipus => 8);
$s->wait_job('stays', 'Running');

# What the browser itself says of an answer that never comes is no fault of the page's.
my $unanswered = qr/^console error: Failed to load resource: (?:net::ERR_|the server responded with a status of 503)/;

# The daemon's address stays the same for the page, as a Service's does.
my $front = $browser->upstream($s->operator->url('proxy'));

sub open_page (%option) {
	my $page = $browser->open($front->url, clock => 1, %option);
	$page->wait_for('the job to be shown', 'look.connection() === "live" && look.totals().used === 8 && !look.busy()');
	return $page;
}

# Until the page is so; meanwhile its clock leaps, so that what it does every few seconds it does now. Not so fast that it
# gives up on an answer that a slow machine is still at.
sub wait_leaping ($page, $what, $expression) {
	my $next = 0;
	return wait_until($what, sub {
		if (time() >= $next) {
			$page->leap(2);
			$next = time() + 0.25;
		}
		return $page->get($expression);
	}, seconds => 90);
}

sub restart () {
	$s->restart_operator;
	$front->move($s->operator->url('proxy'));
	$s->wait_ready;
	return;
}

sub status_words ($page) { return $page->get('look.text("[data-connection]")') }

subtest 'the daemon ends, and another one comes' => sub {
	my $page = open_page();
	my $key = $page->get('look.partitions()[0].key');
	$s->operator->stop;
	wait_leaping($page, 'the page to say that it is away', 'look.connection() === "away"');
	like(status_words($page), qr/\b\d\d:\d\d|\bs\b|\bmin\b/, 'it says since when');
	is($page->get('look.partitions().length'), 1, 'and what was last known stays');
	restart();
	wait_leaping($page, 'the page to be live by itself', 'look.connection() === "live"');
	$page->wait_for('the job to be there', 'look.partitions().length === 1 && look.totals().used === 8');
	$s->create_job('comes', ipus => 4);
	$page->wait_for('what happens to be shown', 'look.totals().used === 12');
	$s->delete_job('comes');
	$page->wait_for('... and its end', 'look.totals().used === 8');
	$page->is_clean('no fault but answers that never came', except => $unanswered);
};

subtest 'the daemon is killed' => sub {
	my $page = open_page();
	$s->operator->crash;
	wait_leaping($page, 'the page to say that it is away', 'look.connection() === "away"');
	restart();
	wait_leaping($page, 'the page to be live by itself', 'look.connection() === "live"');
	$page->wait_for('the job to be there', 'look.partitions().length === 1 && look.totals().used === 8');
	$page->is_clean('no fault but answers that never came', except => $unanswered);
};

subtest 'the daemon stands still' => sub {
	my $page = open_page();
	my $rectangle = 'JSON.stringify(look.one("[data-details]").getBoundingClientRect())';
	$page->click('[data-partition]');
	my $before = $page->get($rectangle);
	$s->operator->signal('STOP');
	is($page->get('look.connection()'), 'live', 'for the moment nothing is known');
	$page->leap(23);
	$page->wait_for('the page to say that it is away, at once when a beat is missed', 'look.connection() === "away"');
	is($page->get($rectangle), $before, 'details stay where they are');
	$page->press('Escape');
	like(status_words($page), qr/\b\d\d:\d\d|\bs\b|\bmin\b/, 'it says since when');
	$s->operator->signal('CONT');
	wait_leaping($page, 'the page to be live by itself', 'look.connection() === "live"');
	$s->create_job('comes', ipus => 4);
	$page->wait_for('what happens to be shown', 'look.totals().used === 12');
	$s->delete_job('comes');
	$page->wait_for('... and its end', 'look.totals().used === 8');
	$page->is_clean('no fault but answers that never came', except => $unanswered);
};

subtest 'no events' => sub {
	$front->answer('/live/events', status => 503, type => 'text/plain', body => "no\n");
	my $page = $browser->open($front->url, clock => 1);
	wait_leaping($page, 'the page to ask', 'look.connection() === "asking" && look.totals().used === 8');
	$s->create_job('comes', ipus => 4);
	wait_leaping($page, 'what happens to be shown', 'look.totals().used === 12');
	like(status_words($page), qr/\b5 s|seconds/, 'it says how it comes to know');
	$s->delete_job('comes');
	wait_leaping($page, 'the end to be shown', 'look.totals().used === 8');
	$front->answer('/live/events');
	wait_leaping($page, 'the page to be live, once there are events', 'look.connection() === "live"');
	$page->is_clean('no fault but answers that never came', except => $unanswered);
};

subtest 'a daemon that keeps names to itself' => sub {
	$s->operator->stop;
	$s->{settings}{'proxy.page'} = 'usage';
	restart();
	my $page = open_page();
	is_deeply($page->get('look.partitions().map(p => [p.namespace, p.owner.length, p.ipus])'), [ [ 'default', 16, 8 ] ], 'a namespace and a key');
	$page->click('[data-partition]');
	my $text = $page->get('document.documentElement.outerHTML + JSON.stringify(performance.getEntries())');
	ok(index($text, 'stays') < 0, 'no name of a job or a Pod');
	ok(index($text, ':' . $s->sim->port('vipu0')) < 0, 'no address of a controller');
	$page->is_clean('no fault');
	$s->operator->stop;
	$s->{settings}{'proxy.page'} = 'off';
	restart();
	is($browser->open($front->url)->status, 404, 'and one that has no page');
};

$browser->stop;
$s->finish(1);
done_testing();
