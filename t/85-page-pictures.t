#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The pictures of the live page in doc/pictures: what it shows of a pod after a day's work, in three widths, light and dark. They
# are made anew, and those that are kept must still be of that kind; `make pictures` keeps the new ones. The day is the daemon's
# and ipu-sim's, on a clock that leaps; what it adds up to is known, so the page's hours are checked, too.

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use IpuTree qw(top_srcdir);
use List::Util qw(sum0);
use Scenario;
use Scenario::Sim;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = top_srcdir() . '/doc/pictures';
my @pictures = map { ([ @$_, 0 ], [ @$_, 1 ]) } [ 360, 1500 ], [ 1280, 1000 ], [ 2560, 1100 ];
my $most_bytes = 120 << 10;
my $minutes = 6 * 60;

watchdog(280);
my $browser = Browser->start;

# ---- the clock ----

# So that the day ends at twenty to five, by this clock. Never cut short: it's mapped (core/clock.h).
my $clock = test_dir() . '/clock';
my $ahead_ms = 1000 * ((16 * 3600 + 2400 - 60 * $minutes - time() % 86400) % 86400);

sub set_clock () {
	my $page = pack('a8 q<7', "\0IPUCLK1", int $ahead_ms, (0) x 6);
	return spit($clock, $page) if !-e $clock;
	open(my $out, '+<:raw', $clock) or die "$clock: $!\n";
	print {$out} $page;
	return close($out);
}

set_clock();
$ENV{IPU_CLOCK_PAGE} = $clock;
my $s = Scenario->new(Scenario::Sim->new);
my @namespaces = qw(speech vision graphs chemistry);
$s->start(controllers => 4, agents => 16, create_ms => 40, remove_ms => 40, label => 'ipunode=pod', sim => [ '--nodes=2', '--node-label=ipunode=pod' ],
	set => [ 'proxy.page=full', 'leaderElection.enabled=false', 'vipu.callTimeoutSeconds=300' ]);
$s->wait_ready;
for my $ns (@namespaces) {
	$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $ns, annotations => { $ns eq 'speech' ? ('graphcore.ai/max-ipus' => '40') : () } } });
}

sub live () { return http('GET', $s->operator->url('proxy', '/live'))->{json} // die "/live: no JSON\n" }

sub begin_job ($ns, $name, $ipus, %option) {
	return $s->create('ipujobs', $s->job($name, ns => $ns, ipus => $ipus, %option), $ns);
}

# Until all that was asked for is there, or waits, and what was given back is gone.
sub wait_settled ($partitions, $waiting) {
	return $s->wait_for("$partitions partitions, and $waiting that wait", sub {
		my $live = live();
		return $live if @{ $live->{partitions} } == $partitions && @{ $live->{waiting} } == $waiting
			&& !grep { $_->{state} ne 'active' || !@{ $_->{places} } } @{ $live->{partitions} };
		return undef;
	}, pause => 0.03);
}

# ---- the day ----

# Jobs come and go: namespace, name, IPUs, the minutes of their begin and end (none: they are still there).
my @day = (
	[ 'vision', 'resnet-sweep', 16, 0, 95 ], [ 'graphs', 'link-prediction', 32, 0, 150 ], [ 'speech', 'asr-small', 8, 15, 60 ],
	[ 'chemistry', 'docking-0412', 32, 30, 200 ], [ 'speech', 'asr-large', 32, 60, undef ], [ 'vision', 'segmentation', 16, 95, undef ],
	[ 'vision', 'detector', 8, 110, 275 ], [ 'graphs', 'citations', 16, 150, undef ], [ 'graphs', 'molecules', 32, 165, undef ],
	[ 'chemistry', 'docking-0413', 64, 215, undef ], [ 'vision', 'augment', 4, 230, undef ], [ 'speech', 'vocoder', 4, 290, undef ], [ 'graphs', 'notebook', 2, 335, undef ],
);

# The daemon adds up what it has seen; of a time in which it saw nothing for a minute it says that it doesn't know.
my $away = qr/"reach":\s*"(?:no|unknown)"/;
sub leap ($to_minute, $now_minute) {
	for (my $left_ms = 60_000 * ($to_minute - $now_minute); $left_ms > 0; $left_ms -= 50_000) {
		$ahead_ms += $left_ms < 50_000 ? $left_ms : 50_000;
		set_clock();
		sleep(0.02); # what was asked just before the leap is answered now, not after the next one
		wait_until('the controllers to answer', sub { http('GET', $s->operator->url('proxy', '/live'))->{content} !~ $away });
	}
	return;
}

subtest 'a day' => sub {
	my ($now, $running) = (0, 0);
	$s->wait_for('all controllers to have answered', sub { $s->stats->{total}{available} == 256 });
	my %moments = map { $_ => 1 } $minutes, grep { defined } map { @$_[ 3, 4 ] } @day;
	for my $minute (sort { $a <=> $b } keys %moments) {
		leap($minute, $now);
		$now = $minute;
		# One after another, and before a job gives its place back the next ones have theirs: where they go shows in the pictures.
		for my $job (grep { $_->[3] == $minute } @day) {
			my ($ns, $name, $ipus) = @$job;
			begin_job($ns, $name, $ipus);
			wait_settled(++$running, 0);
		}
		for my $job (grep { ($_->[4] // -1) == $minute } @day) {
			my ($ns, $name) = @$job;
			$s->delete('ipujobs', $name, ns => $ns);
			wait_settled(--$running, 0);
		}
	}
	my %hours;
	$hours{ $_->[0] } += $_->[2] * (($_->[4] // $minutes) - $_->[3]) / 60 for @day;
	my %usage = map { $_->{namespace} => $_->{ipuHours} } @{ live()->{usage} };
	for my $ns (sort keys %hours) {
		ok(abs($usage{$ns} - $hours{$ns}) <= 0.03 * $hours{$ns} + 2, sprintf '%s: %.1f IPU-hours, as added up (%.1f)', $ns, $usage{$ns}, $hours{$ns});
	}
	my @points = grep { defined } @{ live()->{history}{points} };
	cmp_ok(scalar @points, '>=', $minutes - 1, 'a point for each minute');
	my @sums = map { sum0(@$_[ 0, 2, 3 ]) } @points;
	is(scalar(grep { $_ > 256.01 } @sums), 0, '... in none of which there are more IPUs than there are');
	cmp_ok(scalar(grep { abs($_ - 256) < 0.01 } @sums), '>', 0.8 * @sums, '... and in most all of them, since a controller that is away has none that are free');
};

# What a look finds then: a queue, somebody's partition, one that is broken, a controller that doesn't answer, one that is drained.
my $down; # the controller's number, from 0
subtest 'the moment' => sub {
	my $live = live();
	my ($whole) = grep { $_->{name} eq 'docking-0413' } @{ $live->{partitions} };
	my ($away_number) = $whole->{controller} =~ /(\d+)/;
	my ($roomy) = sort { $a->{freeIPUs} <=> $b->{freeIPUs} } grep { $_->{freeIPUs} >= 24 } @{ $live->{controllers} };
	$down = $away_number - 1;
	$s->tell_vipu('partitions', { id => 'maria-debug', size => 8 }, $roomy->{number} - 1);
	$s->tell_vipu('down', undef, $down);
	$away = qr/"reach":\s*"unknown"/; # one is from now on
	leap(2, 0); # the controllers are asked once a minute
	$s->wait_for('what was made by hand, and the controller to be away', sub {
		my $now = live();
		return (grep { $_->{external} } @{ $now->{partitions} }) && $now->{controllers}[$down]{reach} eq 'no';
	});
	for my $row ([ 1, 'chemistry', 'docking-0414', 64 ], [ 2, 'speech', 'asr-eval', 16 ], [ 3, 'vision', 'pretraining', 32 ]) {
		my ($count, @job) = @$row;
		begin_job(@job);
		$live = $s->wait_for("$count to wait, the first with a reservation", sub {
			my $now = live();
			return @{ $now->{waiting} } == $count && $now->{total}{reservedIPUs} > 0 ? $now : undef;
		});
		leap(12 - 3 * $count, 0);
	}
	my ($first) = @{ $live->{waiting} };
	is($first->{name}, 'docking-0414', 'the largest waits first in line');
	ok((grep { $_->{reason} eq 'QuotaExceeded' && $_->{quota}{limit} == 40 } @{ $live->{waiting} }), 'one waits for its quota');
	my $held = $s->job('ablation', ns => 'graphs', ipus => 16);
	$held->{spec}{suspend} = JSON::PP::true;
	$held->{metadata}{labels} = { 'kueue.x-k8s.io/queue-name' => 'graphs' };
	$s->create('ipujobs', $held, 'graphs');
	$s->wait_for('one to be held', sub { live()->{total}{held} });
	$s->tell_sim("/sim/vipu/$_/delays", json => { createMs => 3_600_000, resetMs => 300, removeMs => 40 }) for 0 .. 3;
	begin_job('vision', 'smoke-test', 1);
	$s->wait_for('one to be created', sub { grep { $_->{state} eq 'creating' && @{ $_->{places} } } @{ live()->{partitions} } });
};

# ---- the pictures ----

# How far two pictures are apart, from 0 to 255: the mean over a grid's fields, so that a font of another version makes little of it.
sub distance ($left, $right) {
	my ($x, $y) = map { $_->{colours} } $left, $right;
	return sum0(map { abs($x->[$_] - $y->[$_]) } 0 .. $#$x) / @$x;
}

# The new one takes the place of the one that is kept, with fewer colours.
sub keep ($new, $kept) {
	my $result = run([ program_or_skip('pngquant'), '--quality=60-95', '--speed=1', '--strip', '--force', '--output', $kept, $new ]);
	return is($result->{status}, 0, "$kept is written") || diag($result->{err});
}

sub picture ($width, $height, $dark) {
	my $name = "page-$width-" . ($dark ? 'dark' : 'light') . '.png';
	my $page = $browser->open($s->operator->url('proxy'), width => $width, height => $height, dark => $dark);
	$page->wait_for('all of it to be shown', 'look.connection() === "live" && !look.busy() && look.waiting().length === 3 && look.held().length === 1 && look.partitions().some(p => p.external)');
	my $new = test_dir() . "/$name";
	$page->shot($new);
	is_deeply($page->get('look.too_wide()'), [], "$name: nothing is wider than $width");
	$page->is_clean("$name: no fault");
	$page->close;
	keep($new, "$folder/$name") if $ENV{IPU_KEEP_PICTURES};
	-e "$folder/$name" or return fail("$folder/$name is there (make pictures)");
	my ($made, $kept) = map { $browser->ask('grid', path => $_) } $new, "$folder/$name";
	is("$kept->{width} x $kept->{height}", "$width x $height", "$name is $width x $height");
	is("$made->{width} x $made->{height}", "$width x $height", '... and so is a new one');
	cmp_ok(-s "$folder/$name", '<=', $most_bytes, '... is small');
	my %shades = map { $_ => 1 } @{ $kept->{colours} };
	cmp_ok(scalar keys %shades, '>', 12, '... has something on it');
	my $distance = distance($made, $kept);
	cmp_ok($distance, '<', 6, '... and isn\'t of another page than there is now (make pictures)');
	diag(sprintf '%s: %d bytes, %.1f from a new one', $name, -s "$folder/$name", $distance);
	return;
}

picture(@$_) for @pictures;
my $text = join '', map { slurp(top_srcdir() . "/$_") } 'README.md', 'doc/user-guide.md';
is_deeply([ sort $text =~ m{pictures/(page-[\w-]+\.png)}g ], [ sort map { m{([^/]+)$} } glob "$folder/*.png" ], 'each is shown, once');

$s->tell_vipu('up', undef, $down);
$s->delete('ipujobs', $_->{metadata}{name}, ns => $_->{metadata}{namespace}) for $s->list('ipujobs');
$browser->stop;
$s->finish(1);
done_testing();
