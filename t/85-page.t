#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page in a browser, on a daemon with ipu-sim: a job's life as the page shows it, and the page against /live, /stats and
# the V-IPU controllers, number by number, while jobs come and go as chance has it (IPU_SEED=N: once more the same).

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use List::Util qw(sum0);
use Scenario;
use Scenario::Annotated;
use Scenario::Sim;
use Test::More;
use Time::HiRes qw(sleep time);

watchdog(280);
my $browser = Browser->start;
my $s = Scenario->new(Scenario::Sim->new);
$s->start_controllers(controllers => 2, agents => 4, create_ms => 150, remove_ms => 150);
$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => 'the-pod' }, data => { 'controllers.yaml' => join '', map { "- $_\n" } $s->controllers } }, 'ipu-operator');
$s->start_operator(set => [ 'controllers=', 'controllersConfigMap=the-pod', 'proxy.page=full', 'vipu.idleRefreshSeconds=1' ]);
$s->wait_ready;
$s->wait_for('both controllers to have answered', sub { $s->stats->{total}{available} == 32 });
my $page = $browser->open($s->operator->url('proxy'));

sub live () { return http('GET', $s->operator->url('proxy', '/live'))->{json} // die "/live: no JSON\n" }

sub delays ($ms) { $s->tell_sim("/sim/vipu/$_/delays", json => { createMs => $ms, resetMs => 300, removeMs => $ms }) for 0, 1 }

# The block of a job, by the name that /live has for its owner.
sub block ($name) {
	my ($partition) = grep { ($_->{name} // '') eq $name } @{ live()->{partitions} };
	return $partition && $partition->{key};
}

sub wait_block ($name, $state) {
	my $key = $s->wait_for("$name to have a partition", sub { block($name) });
	$page->wait_for("its block to be $state", qq{look.partitions().find(p => p.key === "$key")?.state === "$state"});
	return $key;
}

subtest 'the life of a job' => sub {
	$page->wait_for('the page to be live, and drawn', 'look.connection() === "live" && look.totals().total === 32 && !look.busy()');
	is_deeply($page->get('look.totals()'), { total => 32, used => 0, external => 0, free => 32, reserved => 0, waiting => 0 }, 'a pod that nobody uses');
	is_deeply($page->get('look.controllers()'), [ map { { key => $_, reach => 'yes', marks => [] } } qw(c1 c2) ], 'its controllers');
	$page->get('look.watch()');
	$s->create_job($_, ipus => 16) for qw(first second);
	$s->wait_job($_, 'Running') for qw(first second);
	wait_block($_, 'active') for qw(first second);
	$page->wait_for('all IPUs to be in use', 'look.totals().free === 0');

	$s->create_job('lives', ipus => 8);
	my $row = $page->wait_for('it to wait', 'look.waiting()[0]');
	is($row->{position}, 1, 'it waits, first in line');
	is($row->{reason}, 'WaitingForIPUs', '... for room');
	like($row->{text}, qr/lives/, '... by its name');
	like($row->{text}, qr/\b8 IPUs/, '... with its size');
	my $job = $s->wait_message('lives', qr/waiting for 8 IPUs/);
	my ($why) = $job->{status}{lastMessage} =~ /place \d+ in the queue: (.*)/;
	like($row->{text}, qr/\Q$why\E/, '... and in the words of its status');

	delays(3000); # so that a page that is late sees the states between, too
	$s->end_pod('first');
	my $key = wait_block('lives', 'active');
	$page->wait_for('the queue to be empty', 'look.waiting().length === 0');
	is_deeply($page->get("look.states['$key']"), [qw(creating active)], 'its partition was seen being created, then active');
	$s->wait_worker('lives', 'Running');
	$page->click(qq{[data-partition="$key"]});
	my $details = $page->wait_for('its Pod to run', qq{/Running/.test(look.text('[data-details="$key"]')) && look.text('[data-details="$key"]')});
	like($details, qr/\Q$_\E/, "its details tell: $_") for 'default/lives', '8 IPUs', 'active', 'lives-worker-0', 'sim0', (grep { /^lives/ } map { $_->{id} } map { $s->partitions($_) } 0, 1);
	$page->press('Escape');

	$s->end_pod('lives');
	$s->wait_job('lives', 'Completed');
	$page->wait_for('its block to go', qq{!look.one('[data-partition="$key"]')});
	is_deeply($page->get("look.states['$key']"), [qw(creating active releasing)], 'it was seen being released');
	my $steps = $page->get('look.steps().map(step => step.text).filter(text => text.includes("lives")).reverse()');
	is(join(' ', map { /\b(made|active|released|refused|failed|reset)\b/ } @$steps), 'made active released', 'what happened to it');
	delays(150);
	$s->end_pod('second');
	$page->wait_for('all to be free', 'look.totals().free === 32 && look.partitions().length === 0');
	$page->is_clean('no fault');
};

subtest 'held, and not in the queue' => sub {
	my $row = sub ($name) { return qq{look.held().find(row => row.text.includes("default/$name") && !row.text.includes("Not seen by the operator yet"))} };
	for my $case ([ 'paused', {}, 'Suspended' ], [ 'kueued', { 'kueue.x-k8s.io/queue-name' => 'team' }, 'HeldByKueue' ]) {
		my ($name, $labels, $reason) = @$case;
		my $job = $s->job($name, ipus => 8);
		$job->{spec}{suspend} = JSON::PP::true;
		$job->{metadata}{labels} = $labels;
		$s->create('ipujobs', $job);
		my $shown = $page->wait_for("$name to be shown", $row->($name));
		is($shown->{reason}, $reason, "$name: $reason");
		like($shown->{text}, qr/^– .* 8 IPUs .*asks for no IPUs.* not in the queue · waits/, '... its size, why, and that it has no place in the queue');
	}
	$page->wait_for('their number', 'look.text("#held") === "2 held, not in the queue"');
	is_deeply($page->get('[look.waiting().length, look.totals().waiting]'), [ 0, 0 ], 'nobody waits');
	$s->patch('ipujobs', 'paused', { spec => { suspend => JSON::PP::false } });
	my $key = wait_block('paused', 'active');
	$page->wait_for('it to be held no more', "look.held().length === 1 && look.text('#held').startsWith('1 ')");
	$s->delete_job($_) for qw(paused kueued);
	my $misfit = $s->job('misfit', ipus => 2);
	$misfit->{spec}{workers}{template}{spec}{nodeSelector} = { zone => 'elsewhere' };
	$s->create('ipujobs', $misfit);
	wait_block('misfit', 'active');
	my $shown = $page->wait_for('one that has its IPUs, and whose Pods don\'t run', $row->('misfit'));
	is($shown->{reason}, 'NotRunning', 'is held, too');
	$page->click('[data-held]');
	like($page->wait_for('its details', 'look.text("[data-details]")'), qr/IPUJob default\/misfit.*Place not in the queue.*Not running yet – /, '... with the words of its status in the details');
	$page->press('Escape');
	$s->delete_job('misfit');
	$page->wait_for('nothing to be held', '!look.held().length && look.text("#held") === "" && look.totals().free === 32');
	$page->is_clean('no fault');
};

subtest 'annotated Pods that are held' => sub {
	my $ours = { name => 'graphcore.ai/partition' };
	my %cases = (
		checked => [ { spec => { schedulingGates => [ { name => 'example.com/checked' } ] } }, 'OtherGates', qr/other scheduling gates/ ],
		kueued => [ { spec => { schedulingGates => [ { name => 'kueue.x-k8s.io/admission' } ] } }, 'HeldByKueue', qr/Kueue hasn't admitted it/ ],
		three => [ { ipus => 3 }, 'InvalidAnnotation', qr/power of two/ ],
	);
	for my $name (sort keys %cases) {
		my ($option, $reason, $words) = @{ $cases{$name} };
		my $pod = Scenario::Annotated::pod_object($s, $name, %$option);
		unshift @{ $pod->{spec}{schedulingGates} }, $option->{spec}{schedulingGates}[0] if $option->{spec};
		$s->create('pods', $pod);
		my $shown = $page->wait_for("$name to be shown", qq{look.held().find(row => row.text.includes("default/$name"))});
		is($shown->{reason}, $reason, "$name: $reason");
		like($shown->{text}, $words, '... in words');
	}
	$page->wait_for('their number', 'look.text("#held") === "3 held, not in the queue"');
	$s->patch('pods', 'checked', { spec => { schedulingGates => [$ours] } });
	wait_block('checked', 'active');
	$s->delete('pods', $_) for sort keys %cases;
	$page->wait_for('none to be held', '!look.held().length && look.totals().free === 32 && look.partitions().length === 0');
	$page->is_clean('no fault');
};

subtest 'nothing jumps' => sub {
	$page->get('scrollTo(0, 0); look.watch()');
	my @jobs = map { "jumps-$_" } 1 .. 6;
	for my $job (@jobs) {
		$s->create_job($job, ipus => 16); # from the third on they wait
		$page->wait_for('it to be seen', qq{look.partitions().length + look.waiting().length > 0 && look.words(look.one("main")).includes("$job")});
	}
	for my $job (@jobs) {
		$s->wait_job($job, 'Running');
		wait_block($job, 'active');
		$s->end_pod($job);
		$s->wait_job($job, 'Completed');
	}
	$page->wait_for('all to be free', 'look.totals().free === 32 && look.partitions().length === 0');
	my $moved = $page->get('look.moved');
	cmp_ok($moved, '<', 0.01, sprintf 'layout shifts of %.4f while six jobs come, wait and go', $moved) or diag(join "\n", @{ $page->get('look.movers') });
	$page->is_clean('no fault');
};

subtest 'by hand, broken, away' => sub {
	$s->tell_vipu('partitions', { id => 'by-hand', size => 4 }, 1);
	my $shown = $page->wait_for('what was made by hand', '!look.busy() && look.partitions()[0]');
	is_deeply([ @$shown{qw(external ipus controller owner)} ], [ JSON::PP::true, 4, 'c2', '' ], 'is external, and has no owner');
	is_deeply($page->get('look.totals()'), { total => 32, used => 0, external => 4, free => 28, reserved => 0, waiting => 0 }, 'and counts as that');
	$s->tell_vipu('break', { id => 'by-hand', message => 'a cable' }, 1);
	$page->wait_for('its error', 'look.partitions()[0].state === "error"');
	$s->tell_vipu('down', undef, 1);
	$page->wait_for('its controller to be away', 'look.controllers()[1].reach === "no"');
	$s->tell_vipu('up', undef, 1);
	$page->wait_for('it to be back', 'look.controllers()[1].reach === "yes"');
	$s->tell_sim('/sim/vipu/1/partitions/by-hand', method => 'DELETE');
	$page->wait_for('it to go', 'look.partitions().length === 0');
	$page->is_clean('no fault');
};

subtest 'cordoned' => sub {
	my $cordon = sub ($value) { return $s->patch('configmaps', 'the-pod', { metadata => { annotations => { 'graphcore.ai/cordon' => $value } } }, ns => 'ipu-operator') };
	my $rack = 'look.text("[data-controller=c2]")';
	is_deeply($page->get('look.controllers()[1].marks'), [], 'a controller as any');
	$cordon->(($s->controllers)[1]);
	$page->wait_for('its mark', 'look.controllers()[1].marks.join() === "cordoned"');
	like($page->wait_for('its words', "/cordoned/.test($rack) && $rack"), qr/\bcordoned\b/, 'the rack says so, not by a colour alone');
	is_deeply($page->get('look.controllers()[0].marks'), [], '... and the other one doesn\'t');
	$page->click('[data-size="16"]');
	like($page->wait_for('the answer', '/1 place/.test(look.text("[data-answer]")) && look.text("[data-answer]")'), qr/on controller 1\b/, 'a job of 16 fits on the other one');
	is($page->get('look.all("[data-controller=c2] [data-fit]").length'), 0, '... and nowhere here');
	$page->click('[data-table=racks]');
	like($page->wait_for('the table', '!look.busy() && look.text("#racks-table")'), qr/cordoned/, 'the table says it, too');
	$page->click('[data-table=racks]');
	$cordon->(undef);
	$page->wait_for('it to take jobs again', "!look.controllers()[1].marks.length && !/cordoned/.test($rack)");
	$page->is_clean('no fault');
};

# ---- number by number ----

my @namespaces = qw(default speech vision);
my (%jobs, %by_hand, $made);

# One thing that people do, by chance.
sub something_happens () {
	my $dice = rand;
	my @there = sort keys %jobs;
	if ($dice < 0.55 && @there < 25) {
		my ($name, $ns) = ('job-' . ++$made, $namespaces[ rand @namespaces ]);
		$s->create('ipujobs', $s->job($name, ns => $ns, ipus => 1 << int rand 5, runs => rand() < 0.7 ? 0.2 + rand 3 : undef), $ns);
		$jobs{$name} = $ns;
	} elsif ($dice < 0.85 && @there) {
		my $name = $there[ rand @there ];
		$s->delete('ipujobs', $name, ns => delete $jobs{$name});
	} elsif ($dice < 0.93) {
		my ($id, $controller) = ('hand-' . ++$made, int rand 2);
		my $answer = $s->fetch($s->sim, 'POST', 'admin', "/sim/vipu/$controller/partitions", json => { id => $id, size => 1 << int rand 3 });
		$by_hand{$id} = $controller if $answer->{success}; # else there's no room
	} elsif (my ($id) = keys %by_hand) {
		$s->tell_sim('/sim/vipu/' . delete($by_hand{$id}) . "/partitions/$id", method => 'DELETE');
	}
	return;
}

# A partition that its controller has no more, and that is kept until that's certain, has no IPUs.
sub holds ($partition) { return !($partition->{unplaced} && $partition->{state} eq 'releasing') }

# What a page shows must agree with itself, whenever one looks.
sub disagrees_with_itself ($shown) {
	my ($totals, $partitions) = @$shown{qw(totals partitions)};
	return '' if $shown->{busy};
	return 'in use, by hand and free are not all' if $totals->{used} + $totals->{external} + $totals->{free} != $totals->{total};
	return 'the queue has another length' if $totals->{waiting} != @{ $shown->{waiting} };
	return 'places in the queue' if "@{[ map { $_->{position} } @{ $shown->{waiting} } ]}" ne "@{[ 1 .. @{ $shown->{waiting} } ]}";
	my ($used, $external) = map { my $by_hand = $_; sum0(map { $_->{ipus} } grep { !$_->{external} == !$by_hand } grep { holds($_) } @$partitions) } 0, 1;
	return "blocks of $used IPUs in use: " . json_encode($shown) if $used != $totals->{used};
	# What a controller has taken and isn't asked for by us is by hand: until it lists what it was asked for, that's less than the blocks.
	my $sure = !grep { $_->{unplaced} } @$partitions;
	return "blocks of $external IPUs by hand: " . json_encode($shown) if $sure ? $external != $totals->{external} : $external < $totals->{external};
	return '';
}

# How what the page shows differs from what the daemon and the controllers say; '' where it doesn't.
sub differs ($shown, $live, $stats, $vipu) {
	my $line = sub ($p) { join ' ', map { $_ // '' } @$p{qw(controller key state ipus namespace owner)}, $p->{external} ? 'by hand' : '' };
	my ($left, $right) = map { join "\n", sort map { $line->($_) } @$_ } $shown->{partitions}, $live->{partitions};
	return "blocks, on the page:\n$left\nof the daemon:\n$right" if $left ne $right;
	($left, $right) = map { join ' ', map { "$_->{key}:$_->{reason}" } @$_ } $shown->{waiting}, $live->{waiting};
	return "queue, on the page: $left, of the daemon: $right" if $left ne $right;
	my $totals = $shown->{totals};
	for my $name (qw(total used external free reserved)) {
		return "$name: $totals->{$name} on the page, $live->{total}{\"${name}IPUs\"} of the daemon" if $totals->{$name} != $live->{total}{"${name}IPUs"};
	}
	return "in use: $totals->{used}, /stats: $stats->{total}{used}" if $totals->{used} != $stats->{total}{used};
	return 'all: not as /stats' if $totals->{total} != $stats->{total}{used} + $stats->{total}{available};
	for my $ns (@namespaces) {
		my $used = sum0(map { $_->{ipus} } grep { $_->{namespace} eq $ns && holds($_) } @{ $shown->{partitions} });
		return "$ns: blocks of $used, /stats: " . ($stats->{$ns}{used} // 0) if $used != ($stats->{$ns}{used} // 0);
	}
	my %id = map { $_->{key} => $_->{id} } @{ $live->{partitions} };
	for my $c (0, 1) {
		($left, $right) = map { join ', ', sort @$_ } [ map { "$id{ $_->{key} } $_->{ipus}" } grep { $_->{controller} eq 'c' . ($c + 1) } @{ $shown->{partitions} } ],
			[ map { "$_->{id} $_->{size}" } @{ $vipu->[$c]{partitions} } ];
		return "controller " . ($c + 1) . ", on the page: $left; itself: $right" if $left ne $right;
	}
	return '';
}

# The IPUs that partitions are at, by the controllers and by /live.
sub places_differ ($live, $vipu) {
	my %place = map { $_->{id} => $_->{places} } @{ $live->{partitions} };
	for my $partition (map { @{ $_->{partitions} } } @$vipu) {
		my $mask = sprintf '%016x', ((1 << $partition->{size}) - 1) << $partition->{firstIpu};
		my $places = $place{ $partition->{id} } // [];
		return "$partition->{id}: at $mask, not " . json_encode($places) if @$places != 1 || $places->[0]{mask} ne $mask;
	}
	return '';
}

subtest 'number by number' => sub {
	my $seed = $ENV{IPU_SEED} // int rand 1_000_000;
	note("IPU_SEED=$seed");
	srand $seed;
	$s->create('namespaces', { apiVersion => 'v1', kind => 'Namespace', metadata => { name => $_ } }) for grep { !$s->get('namespaces', $_) } @namespaces;
	my ($rounds, $looks, $end) = (0, 0, time() + 12);
	$page->get('look.watch()');
	while ($rounds < 5 || (time() < $end && $rounds < 40)) {
		something_happens() for 0 .. rand 4;
		my ($last, $odd) = ('', '');
		my $agree = eval {
			$s->wait_for('page, daemon and controllers to agree', sub {
				my $shown = $page->get('({ busy: look.busy(), totals: look.totals(), partitions: look.partitions(), waiting: look.waiting() })');
				$looks++;
				$odd = disagrees_with_itself($shown) and return 1;
				my ($live, $stats, $state) = (live(), $s->stats, $s->fetch($s->sim, 'GET', 'admin', '/sim/state')->{json});
				$last = differs($shown, $live, $stats, $state->{vipu}) || places_differ($live, $state->{vipu});
				return $last eq '';
			}, pause => 0.05);
		};
		my $why = $odd || (!$agree && "$last\n$@");
		ok(!$why, 'round ' . ++$rounds) or diag($why) or last;
	}
	diag("$rounds rounds of a random load, $looks looks at the page");
	my $states = $page->get('Object.values(look.states).map(states => states.join(" "))');
	is_deeply([ grep { !/^(?:active ?)?(?:creating ?)?(?:active ?)?(?:releasing)?$/ } @$states ], [], 'no partition went through other states than it can');
	my %moved = map { $_ => 1 } @{ $page->get('look.shifts') };
	is(join("\n", sort keys %moved), "", 'rows come and go, and no part of the page moves');
	$page->is_clean('no fault');
	$s->tell_sim("/sim/vipu/$by_hand{$_}/partitions/$_", method => 'DELETE') for keys %by_hand;
	$s->delete('ipujobs', $_, ns => $jobs{$_}) for keys %jobs;
	$page->wait_for('all to be free', 'look.totals().free === 32 && look.partitions().length === 0 && look.waiting().length === 0');
	my $rows = q{look.all('[data-usage]').map(row => row.dataset.usage).sort().join()};
	is($page->get($rows), join(',', sort map { $_->{namespace} } @{ live()->{usage} }), 'the namespaces that had IPUs are listed');
};

$browser->stop;
$s->finish(1);
done_testing();
