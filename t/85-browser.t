#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# That the tests of the live page see what they are for: a page that does wrong, in each of the ways that they look for, is
# found out in the browser that they use, and one that does nothing wrong isn't.

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use Test::More;

watchdog(180);
my $browser = Browser->start;
my $upstream = $browser->upstream('http://127.0.0.1:9/');
my $policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'";
$upstream->answer('/favicon.ico', status => 204);

# A page whose body and module are these.
sub show ($body, $script = '', %option) {
	$upstream->answer('/script.js', type => 'text/javascript', body => $script);
	$upstream->answer('/', type => 'text/html; charset=utf-8', headers => { 'content-security-policy' => $policy },
		body => "<!doctype html><html lang=en><title>A page</title><script type=module src=script.js></script>$body");
	return $browser->open($upstream->url, %option);
}

# Until the page has done a thing that it can be seen to have done.
sub faults_like ($page, $pattern, $name) {
	my @found;
	wait_until($name, sub { push @found, $page->faults; grep { $_ =~ $pattern } @found });
	return ok(1, $name);
}

subtest 'a page that does nothing wrong' => sub {
	my $page = show('<main><h1>Größe &lt;16&gt;</h1><button id=b>Go</button></main>',
		'document.getElementById("b").onclick = event => { event.target.textContent = "Gone" }');
	is($page->status, 200, 'it is there');
	is($page->headers->{'content-security-policy'}, $policy, '... with its policy');
	is($page->get('look.text("h1")'), 'Größe <16>', 'its words');
	$page->press('Tab');
	is($page->get('look.focus().tag'), 'button', 'the keyboard leads to the button');
	$page->press('Enter');
	is($page->wait_for('the button to answer', 'look.text("#b") === "Gone" && look.text("#b")'), 'Gone', 'and it answers');
	is_deeply($page->ask('axe'), [], 'axe-core finds nothing');
	is_deeply($page->get('look.too_wide()'), [], 'nothing is wider than the window');
	$page->is_clean('and nothing is wrong');
	is_deeply([ sort map { s/ HTTP.*//r } $upstream->seen ], [ 'GET /', 'GET /favicon.ico', 'GET /script.js' ],
		'what it asked for');
};

subtest 'pages that do wrong' => sub {
	for my $row (
		[ 'an inline script', '<script>document.title = "taken"</script>', '', qr/^console error: .*inline script violates/ ],
		[ 'an inline style', '<p style="color: red">red</p>', '', qr/^console error: .*inline style violates/ ],
		[ 'an inline handler', '<img src=missing.png onerror="document.title = 1">', '', qr/^console error: .*inline event handler violates/ ],
		[ 'a picture from elsewhere', '<img src="http://198.51.100.7/x.png">', '', qr/^console error: .*violates/ ],
		[ 'a script that asks elsewhere', '', 'fetch("http://127.0.0.1:9/").catch(() => {})', qr/^console error: .*violates/ ],
		[ 'a script that throws', '', 'setTimeout(() => { throw new Error("ouch") })', qr/^uncaught: .*ouch/ ],
		[ 'a promise that nobody awaits', '', 'Promise.reject(new Error("ouch"))', qr/^uncaught: .*ouch/ ],
		[ 'a complaint', '', 'console.error("what is this?")', qr/^console error: what is this/ ],
		[ 'a dialog', '', 'setTimeout(() => alert("look here"))', qr/^dialog: look here/ ],
		[ 'a way out', '', 'location = "http://127.0.0.1:9/"', qr{^request to another place: http://127\.0\.0\.1:9/} ],
	) {
		my ($name, $body, $script, $pattern) = @$row;
		faults_like(show("<main><h1>Wrong</h1>$body</main>", $script), $pattern, "$name is seen");
	}
	my $page = show('<main><h1>Wrong</h1><p>' . 'wide' x 1000 . '</p><input><span tabindex=0 role=slider>x</span></main>');
	my %found = map { $_->{id} => $_->{impact} } @{ $page->ask('axe') };
	is($found{label}, 'critical', 'axe-core: a field without a label');
	isnt(scalar @{ $page->get('look.too_wide()') }, 0, 'what is wider than the window is seen');
};

subtest 'an end' => sub {
	ok(!eval { show('')->wait_for('what never is', 'false', seconds => 0); 1 }, 'waiting has an end');
	like($@, qr/^waited for what never is: .*in vain.*--- the page/s, '... which says what was there');
	ok(!eval { $browser->ask('fly'); 1 }, 'what the driver has never heard of');
	like($@, qr/can't fly/, '... it says so');
};

$browser->stop;
done_testing();
