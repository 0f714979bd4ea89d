#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page in a browser, and peers that mean it ill: whatever somebody can make stand in a text stays text, and in its
# place. Its files and their headers are the daemon's, what it's told is the test's.

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use IpuTree qw(page_text);
use PagePod qw(replaced small_pod strings);
use Test::More;

watchdog(280);
my $browser = Browser->start;
my $world = PagePod->new($browser);

subtest 'the headers of its files' => sub {
	$world->say(small_pod());
	my $page = $world->open();
	is($page->status, 200, 'the page is there');
	my $headers = $page->headers;
	my ($policy) = $headers->{'content-security-policy'} // '';
	like($policy, qr/default-src 'none'/, 'nothing is allowed but what is named');
	unlike($policy, qr/unsafe|\*|data:|https?:/, '... neither inline code nor another place');
	like($policy, qr/frame-ancestors 'none'/, '... nor a frame around it');
	is($headers->{'x-content-type-options'}, 'nosniff', 'nosniff');
	ok(!exists $headers->{'set-cookie'}, 'no cookie');
	$page->is_clean('no fault');
	is($page->get('document.cookie + localStorage.length + sessionStorage.length'), '00', 'nothing is kept in the browser');
	is_deeply([ grep { !m{^GET /(?:page\.css|page\.js|icon\.svg|live|live/events|names)?(?: |$)} } $world->upstream->seen ], [], 'it asks for what is documented');
	my @sizes = map { length page_text($_) } qw(index.html page.css page.js icon.svg);
	my $sum = 0;
	$sum += $_ for @sizes;
	diag("the page's files have $sum bytes");
	cmp_ok($sum, '<', 60 * 1024, 'all of its files are less than 60 KB');
	is_deeply($page->get('performance.getEntriesByType("resource").filter(r => r.encodedBodySize >= r.decodedBodySize && r.name.match(/page|icon/)).map(r => r.name)'),
		[], '... and come compressed');
};

# ---- hostile texts ----

my $markup = q{"'><img src=x onerror="pwned=1"><script>pwned=2</script><svg onload=pwned=3></svg><a href="javascript:pwned=4">k</a>&lt;b&gt;};
my @hostile = ($markup, 'javascript:pwned=5', '__proto__', 'constructor', "\x{202e}txt.exe\x{0}\x{7}\n\t ", "\x{1F4A5}" x 50, 'w' x 20_000, '', '-1', 'url(http://198.51.100.7/)');

# What a page is made of: which elements, which attributes with an address or code, whatever is in its texts.
my $made_of = <<'END';
(() => {
	const found = new Set();
	for (const element of document.querySelectorAll('*')) {
		found.add(element.localName);
		for (const { name, value } of element.attributes)
			if (!(name === 'style' && /^(--(at|n): -?\d+; ?)+$/.test(value)) && /^on|^(src|srcdoc|href|action|formaction|style|xlink:href|data|ping|manifest)$/i.test(name))
				found.add(`${element.localName} ${name}=${value}`);
	}
	return [...found].sort();
})()
END

# All that a person would open is open.
my $open_all = <<'END';
(() => {
	const block = look.one('[data-partition]');
	block?.dispatchEvent(new MouseEvent('click', { bubbles: true }));
	block?.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
	return true;
})()
END

# Whatever it is, this must be so after it.
sub harmless ($page, $name, $before) {
	my $now = $page->get("({ made: $made_of, pwned: typeof pwned, wide: look.too_wide(), polluted: ({}).state ?? Object.keys(Object.prototype).join() })");
	my @faults = $page->faults;
	my %known = map { $_ => 1 } @$before;
	my @new = grep { !$known{$_} } @{ $now->{made} };
	return ok(!@faults && !@new && $now->{pwned} eq 'undefined' && !@{ $now->{wide} } && $now->{polluted} eq '', $name)
		|| diag(explain({ %$now, made => \@new, faults => \@faults }));
}

for my $form ('blocks', 'tables') {
	subtest "hostile texts, in $form" => sub {
		my $pod = $world->say(small_pod());
		my $page = $world->open();
		if ($form eq 'tables') {
			$page->click(qq{[data-table="$_"]}) for qw(racks hours);
		}
		$page->get($open_all) if $form eq 'blocks';
		my $before = $page->get($made_of);
		my @texts = strings($pod);
		cmp_ok(scalar @texts, '>', 40, 'there are texts');
		for my $text ($form eq 'blocks' ? @texts : ()) {
			$world->event($page, 'snapshot', replaced($pod, { $text => $markup }));
			$page->get($open_all);
			harmless($page, "in the place of $text", $before);
		}
		for my $hostile (@hostile) {
			my $short = substr($hostile, 0, 20) =~ s/[^ -~]/?/gr;
			for my $row ([ 'everywhere', @texts ], [ 'wherever a peer has a say', peer_texts($pod) ]) {
				my ($where, @there) = @$row;
				$world->event($page, 'snapshot', replaced($pod, { map { $_ => $hostile } @there }));
				$page->get($open_all) if $form eq 'blocks';
				harmless($page, "$where: $short", $before);
			}
		}
		$world->event($page, 'snapshot', $pod);
		is(scalar @{ $page->get('look.partitions()') }, 4, 'and it goes on as if nothing had been');
	};
}

# Texts that somebody else than this daemon writes: names, identifiers and messages.
sub peer_texts ($pod) {
	my @texts;
	for my $item (map { @{ $pod->{$_} } } qw(controllers partitions waiting held steps usage)) {
		push @texts, grep { defined && length } @$item{qw(name label reason id message namespace kind)};
		push @texts, map { @$_{qw(name phase node)} } @{ $item->{pods} // [] };
	}
	return @texts;
}

subtest 'a hostile change' => sub {
	my $pod = $world->say(small_pod());
	my $page = $world->open();
	my $before = $page->get($made_of);
	my $partition = { %{ $pod->{partitions}[0] }, key => $markup, owner => $markup, namespace => $markup, name => $markup, id => $markup };
	$world->event($page, 'change', { time => $pod->{time}, put => { partitions => [$partition] }, steps => [ { %{ $pod->{steps}[0] }, n => 2, message => $markup, name => $markup } ],
		usage => [ { namespace => $markup, ipuHours => 1 } ] });
	is($page->get('look.partitions().length'), 5, 'is one more');
	is($page->get('look.partitions().filter(p => p.key.includes("onerror")).length'), 1, '... with that key');
	$page->get($open_all);
	harmless($page, '... and text', $before);
	$world->event($page, 'change', { drop => { partitions => [ $markup, '__proto__', 'never-was' ], waiting => ['toString'] }, order => ['__proto__'] });
	is($page->get('look.partitions().length'), 4, 'and gone');
	for my $frame ("event: change\ndata: {\n\n", "event: change\ndata: null\n\n", "event: $markup\ndata: {}\n\n", "nonsense\n\n", "data: []\n\n", ": a comment\n\n") {
		$world->upstream->push($frame);
	}
	$page->wait_for('the page to be live', 'look.connection() === "live"');
	harmless($page, 'frames that are none', $before);
};

subtest 'hostile names' => sub {
	my $pod = small_pod();
	delete @$_{qw(id kind name reason pods)} for @{ $pod->{partitions} };
	delete @$_{qw(kind name)} for @{ $pod->{waiting} }, @{ $pod->{steps} };
	$pod->{mode} = 'usage';
	my $seen = sub ($item, $namespace, $words) {
		return { owner => $item->{owner} // '__proto__', kind => $words, namespace => $namespace // '__proto__', name => $words, message => $words,
			pods => [ { name => $words, phase => $words, node => $words, instance => 0 } ] };
	};
	my @items = (@{ $pod->{waiting} }, @{ $pod->{partitions} });
	my %held = (held => { ipus => 8, since => $markup, reason => $markup, message => $markup });
	$world->say($pod, names => [ (map { { %{ $seen->($_, $_->{namespace}, $markup) }, %held } } @items), map { $seen->($_, 'another', 'a lie') } @items ]);
	my $page = $world->open();
	$page->wait_for('names to be in', 'document.body.innerHTML.includes("onerror")');
	$page->get($open_all);
	my @made = grep { /^(?:img|script|a) / && !/^script src=page\.js$|^a href=#/ || /^(?:img|iframe)$/ } @{ $page->get($made_of) };
	is_deeply([ grep { $_ ne 'a href=live' } @made ], [], 'nothing of it is an element');
	is($page->get('typeof pwned'), 'undefined', '... or has run');
	like($page->get('look.text("[data-waiting]")'), qr/<img src=x onerror=/, 'it stands there as text');
	unlike($page->get('document.body.textContent'), qr/a lie/, 'what is told of an owner in another namespace than the operator has it in is nowhere');
	$page->is_clean('no fault');
};

$browser->stop;
$world->stop;
done_testing();
