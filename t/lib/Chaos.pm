# SPDX-License-Identifier: Apache-2.0
#
# A chaos run (doc/design/chaos.md): replicas of the daemon, each behind a fault proxy and with a clock of its own, an ipu-sim,
# and a plan of jobs and of bad luck that is made from a seed alone. Time is simulated: it runs faster than the real one.
package Chaos;

use v5.36;
use ClockPage;
use Digest::MD5 qw(md5);
use Faults;
use IpuTest qw(http start test_dir);
use List::Util qw(max min sum);
use Scenario;
use Scenario::Sim;
use Test::More;
use Time::HiRes qw(sleep time);

my $controllers = 2;
my $agents = 8;
my %launcher = (launcher => { command => ['mpirun'] });

# ---- the plan ----

# By one generator of its own, so that nothing else that draws lots changes it.
sub lots ($seed) {
	my $drawn = 0;
	return sub ($below) { return unpack('N', md5("$seed/" . $drawn++)) % $below };
}

sub job_of ($lot, $number, $seconds) {
	my $at = $lot->($seconds * 8) / 10;
	my $is_gang = $lot->(5) == 0 ? 1 : 0;
	return { at => $at, what => 'create', name => sprintf('job-%03d', $number), ipus => 2**($is_gang + $lot->(3)), runs => 1 + $lot->(15),
		exit => $lot->(5) == 0 ? 3 : 0, gang => $is_gang,
		$lot->(7) == 0 ? (delete_at => $at + 1 + $lot->(20)) : () };
}

# A replica's link to the API server is its own; those to the controllers are of all.
sub link_of ($lot, $plan) {
	my @links = (map({ "$_/api" } 0 .. $plan->{replicas} - 1), map { "0/vipu$_" } 0 .. $controllers - 1);
	return $links[ $lot->(scalar @links) ];
}

# What may go wrong, how often in a hundred, and what is drawn of it.
my @luck = (
	[ 15, kill => sub ($lot, $plan) { (replica => $lot->($plan->{replicas}), for => 1 + $lot->(15), skew => $lot->(121) - 60) } ],
	[ 15, stop => sub ($lot, $plan) { (replica => $lot->($plan->{replicas}), for => 1 + $lot->(25)) } ],
	[ 15, part => sub ($lot, $plan) { (link => link_of($lot, $plan), for => 1 + $lot->(25)) } ],
	[ 10, cut => sub ($lot, $plan) { (link => link_of($lot, $plan)) } ],
	[ 15, jump => sub ($lot, $plan) { (replica => $lot->($plan->{replicas}), by => 1 + $lot->(40)) } ],
	[ 15, failover => sub ($lot, $plan) { (controller => $lot->($controllers), for => 1 + $lot->(8)) } ],
	[ 15, restart => sub ($lot, $plan) { (for => 1 + $lot->(8)) } ],
);

sub luck_of ($lot, $plan) {
	my $place = $lot->(sum(map { $_->[0] } @luck));
	for my $kind (@luck) {
		next if ($place -= $kind->[0]) >= 0;
		return { at => 3 + $lot->(10 * ($plan->{seconds} - 3)) / 10, what => $kind->[1], $kind->[2]->($lot, $plan) };
	}
	return;
}

# Options: seed, jobs, seconds, replicas. The same seed and numbers: the same plan.
sub plan_of (%plan) {
	my $lot = lots($plan{seed});
	$plan{jobs} = [ map { job_of($lot, $_, $plan{seconds}) } 1 .. $plan{jobs} ];
	my @luck = map { luck_of($lot, \%plan) } 1 .. $plan{seconds} / 4;
	my @deletions = map { { at => $_->{delete_at}, what => 'delete', name => $_->{name} } }
		grep { $_->{delete_at} } @{ $plan{jobs} };
	$plan{events} = [ sort { $a->{at} <=> $b->{at} || told($a) cmp told($b) } @{ $plan{jobs} }, @luck, @deletions ];
	return \%plan;
}

sub told ($event) {
	return sprintf('%6.1f s %-8s', $event->{at}, $event->{what})
		. join '', map { " $_=$event->{$_}" } grep { !/^(at|what)$/ } sort keys %$event;
}

# ---- the run ----

# Options: speed, simulated seconds in a real one; faults, SEED[:KIND,…] for the proxies, none without.
sub new ($class, $plan, %option) {
	my $self = bless { plan => $plan, speed => $option{speed}, faults => $option{faults}, began => time, now => 0,
		replicas => [], due => [] }, $class;
	$self->{real} = $self->{began};
	$self->{clock} = ClockPage->new(test_dir() . '/clock');
	local $ENV{IPU_CLOCK_PAGE} = $self->{clock}->path;
	my $s = $self->{s} = Scenario->new(Scenario::Sim->new);
	$s->start_controllers(controllers => $controllers, agents => $agents, create_ms => 500, remove_ms => 300,
		# Workers of gangs that have ended go on, by the default cleanPodPolicy, and a node has room for 110 Pods.
		sim => [ '--reset-ms', 300, '--nodes', 1 + int(@{ $plan->{jobs} } / 50) ]);
	push @{ $self->{replicas} }, $self->replica($_) for 0 .. $plan->{replicas} - 1;
	return $self;
}

sub replica ($self, $number) {
	my $r = { name => "replica-$number", clock => ClockPage->new(test_dir() . "/clock-$number"), skew_ms => 0 };
	my ($seed, $kinds) = split /:/, $self->{faults} // '';
	my $first = $self->{replicas}[0] // $r;
	$r->{proxy} = Faults->before($self->{s}->sim, seed => 1 + ($seed // 0) * 10 + $number, kinds => $kinds, controllers => $controllers,
		gap => max(1, int @{ $self->{plan}{jobs} } / 40));
	$r->{proxy}->calm if !defined $self->{faults};
	$r->{kubeconfig} = $r->{proxy}->kubeconfig($self->{s}->back->kubeconfig, test_dir() . "/kubeconfig-$number");
	# A controller has one address, wherever it's asked from.
	$r->{controllers} = join ',', map { '127.0.0.1:' . $first->{proxy}->port("vipu$_") } 0 .. $controllers - 1;
	push @{ $self->{s}{programs} }, $r->{proxy}->program_of;
	$self->launch($r);
	return $r;
}

sub launch ($self, $r) {
	my %set = (operatorNamespace => 'ipu-operator', 'leaderElection.identity' => $r->{name}, 'launcher.image' => 'localhost/ipu-launcher:test',
		controllers => $r->{controllers},
		'jobs.restartBackoffSeconds' => 1, 'jobs.ranksEndSeconds' => 3, 'vipu.waitingRefreshSeconds' => 1, stopSeconds => 60,
		map({ ($_ => '127.0.0.1:0') } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)));
	$self->set_clocks;
	$r->{daemon} = start('ipu-operator', env => { IPU_CLOCK_PAGE => $r->{clock}->path, KUBECONFIG => $r->{kubeconfig} },
		args => [ map { ('--set', "$_=$set{$_}") } sort keys %set ]);
	return;
}

# Simulated seconds since the beginning.
sub now ($self) { return $self->{now} }

# As far as it has to, and by no more than a second at once where this process was held up: nobody shall lose a Lease by that.
sub set_clocks ($self) {
	my $passed = time - $self->{real};
	$self->{real} += $passed;
	$self->{now} += max($passed, min(1, $passed * $self->{speed}));
	my $ahead_ms = int(1000 * ($self->{now} - ($self->{real} - $self->{began})));
	$self->{clock}->set($ahead_ms);
	$_->{clock}->set($ahead_ms + $_->{skew_ms}) for @{ $self->{replicas} };
	return;
}

# Time goes on until the code returns something true, and what is due comes.
sub wait_for ($self, $what, $code, %option) {
	return IpuTest::wait_until($what, sub {
		$self->set_clocks;
		while (@{ $self->{due} } && $self->{due}[0]{at} <= $self->now) {
			my $due = shift @{ $self->{due} };
			$due->{do}->();
		}
		for my $daemon (map { $_->{daemon} } grep { !$_->{dead} } @{ $self->{replicas} }) {
			$daemon->is_alive or die "a replica ended by itself\n" . $daemon->report;
		}
		return $code->();
	}, seconds => $option{seconds} // 120, while_alive => $self->{s}{programs});
}

sub later ($self, $seconds, $do) {
	@{ $self->{due} } = sort { $a->{at} <=> $b->{at} } @{ $self->{due} }, { at => $self->now + $seconds, do => $do };
	return;
}

# The same, and false where it was in vain, which is told; an interruption isn't.
sub try_for ($self, @wait) {
	return 1 if eval { $self->wait_for(@wait) };
	die $@ if $@ =~ /^(?:interrupted|the test's deadline)/;
	diag($@);
	return 0;
}

# ---- events ----

sub do_create ($self, $event) {
	my $s = $self->{s};
	if ($event->{gang}) {
		my %rule = (name => "default/$event->{name}-launcher", runMs => 1000 * $event->{runs}, exitCode => $event->{exit});
		$s->tell_sim('/sim/pods', json => \%rule);
		return $s->create_job($event->{name}, ipus => $event->{ipus}, spec => { %launcher, workersPerJobInstance => '2' });
	}
	return $s->create_job($event->{name}, %$event{qw(ipus runs exit)});
}

sub do_delete ($self, $event) { return $self->{s}->delete_job($event->{name}) }

# A replica can have one accident of its process at a time; of its links each one. What is done returns true.
sub free_replica ($self, $event) {
	my $r = $self->{replicas}[ $event->{replica} ];
	return $r->{busy} ? undef : $r;
}

sub do_kill ($self, $event) {
	my $r = $self->free_replica($event) // return;
	$r->{daemon}->crash;
	$r->{busy} = $r->{dead} = 1;
	$self->later($event->{for}, sub {
		$r->{skew_ms} = int max(-1000 * $self->now, 1000 * $event->{skew});
		$self->launch($r);
		$r->{busy} = $r->{dead} = 0;
	});
	return 1;
}

sub do_stop ($self, $event) {
	my $r = $self->free_replica($event) // return;
	$r->{daemon}->signal('STOP');
	$r->{busy} = 1;
	$self->later($event->{for}, sub {
		$r->{daemon}->signal('CONT');
		$r->{busy} = 0;
	});
	return 1;
}

# The proxy and the link of "0/api".
sub link_at ($self, $event) {
	my ($number, $link) = split m{/}, $event->{link};
	return ($self->{replicas}[$number]{proxy}, $link);
}

sub do_part ($self, $event) {
	my ($proxy, $link) = $self->link_at($event);
	return if $self->{parted}{ $event->{link} }++;
	$proxy->part($link);
	$self->later($event->{for}, sub {
		$proxy->mend($link);
		delete $self->{parted}{ $event->{link} };
	});
	return 1;
}

sub do_cut ($self, $event) {
	my ($proxy, $link) = $self->link_at($event);
	$proxy->cut($link);
	return 1;
}

# Forward only, as a clock does that wasn't kept (core/clock.h); behind others it is after a start.
sub do_jump ($self, $event) {
	$self->{replicas}[ $event->{replica} ]{skew_ms} += 1000 * $event->{by};
	return 1;
}

# The controller's place is taken by another one that knows the same.
sub do_failover ($self, $event) {
	my $number = $event->{controller};
	return if $self->{down}{$number}++;
	$self->{s}->tell_vipu('cut', undef, $number);
	$self->{s}->tell_vipu('down', undef, $number);
	$self->later($event->{for}, sub {
		$self->{s}->tell_vipu('up', undef, $number);
		delete $self->{down}{$number};
	});
	return 1;
}

# The API server, with its storage kept: what was open breaks, nobody answers, and history is forgotten.
sub do_restart ($self, $event) {
	return if $self->{restarting}++;
	my $port = $self->{s}->sim->port('api-plain');
	for my $r (@{ $self->{replicas} }) {
		$r->{proxy}->aim('api', 1);
		$r->{proxy}->cut('api');
	}
	$self->{s}->tell_sim('/sim/api/cut-watches');
	$self->later($event->{for}, sub {
		$self->{s}->tell_sim('/sim/api/compact');
		$_->{proxy}->aim('api', $port) for @{ $self->{replicas} };
		delete $self->{restarting};
	});
	return 1;
}

# ---- from the beginning to the end ----

sub play ($self) {
	my @coming = map { { %$_, at => $_->{at} + $self->now } } @{ $self->{plan}{events} };
	$self->wait_for('the plan to be played', sub {
		while (@coming && $coming[0]{at} <= $self->now) {
			my $event = shift @coming;
			note(told($event));
			$self->{happened}{ $event->{what} }++ if $self->can("do_$event->{what}")->($self, $event);
		}
		return !@coming && !@{ $self->{due} };
	}, seconds => 60 + 3 * $self->{plan}{seconds});
	return;
}

# Each kind of bad luck has really come: what was drawn for who had his own already was left out.
sub judge_luck ($self) {
	my $happened = $self->{happened};
	diag(join ' ', map { "$_=" . ($happened->{$_} // 0) } map { $_->[1] } @luck);
	return is_deeply([ grep { !$happened->{$_} } map { $_->[1] } @luck ], [], 'each kind of bad luck has come');
}

# The same of what the proxies do.
sub judge_faults ($self) {
	my ($seed, $kinds) = split /:/, $self->{faults} // return;
	Faults::remember($_->{proxy}->counts) for @{ $self->{replicas} };
	diag("IPU_FAULTS=$self->{faults}: " . Faults::told(Faults::remembered()));
	return is_deeply([ Faults::forgotten($kinds) ], [], 'each kind of fault has come');
}

# Every job has its end, and it's the right one. One is asked for after the other: hundreds at once take long to read, and
# time would stand still meanwhile.
sub judge_ends ($self) {
	my %want = map { $_->{name} => $_->{delete_at} ? 'gone' : $_->{exit} ? 'Failed' : 'Completed' } @{ $self->{plan}{jobs} };
	my @waiting = sort keys %want;
	my %got;
	my $there = $self->try_for('all jobs to end', sub {
		my $job = $self->{s}->get_job($waiting[0]);
		my $now = !$job ? 'gone' : $job->{status}{completionTime} && $want{ $waiting[0] } ne 'gone' ? $job->{status}{launcherStatus} : undef;
		$got{ shift @waiting } = $now if $now;
		return !@waiting;
	}, seconds => 60 + $self->{plan}{seconds});
	is_deeply(\%got, \%want, 'every job has its right end, and the deleted ones are gone');
	return $there;
}

sub ours ($s, $kind) {
	return grep { $_ ne 'ipu-operator/' . ($s->tracker_place)[0] } map { "$_->{metadata}{namespace}/$_->{metadata}{name}" } $s->list($kind);
}

# What is there although it shouldn't be.
sub leftovers ($self) {
	my $s = $self->{s};
	my @free = map { my $v = $s->vipu($_); map { "partition $_->{id}" } @{ $v->{partitions} } } 0 .. $controllers - 1;
	return (@free, map({ "tracker $_" } keys %{ $s->tracker_data }), map({ "Pod $_" } ours($s, 'pods')),
		map({ "ConfigMap $_" } ours($s, 'configmaps')));
}

sub judge_rest ($self) {
	my $s = $self->{s};
	$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
	my $jobs = $s->path('ipujobs', 'default') . '?limit=1';
	$self->try_for('nothing to be left', sub { !@{ $s->must('GET', $jobs)->{items} } && !$self->leftovers },
		seconds => 60 + $self->{plan}{seconds} / 2);
	is_deeply([ $self->leftovers ], [], 'no partition, tracker entry, Pod or ConfigMap is left');
	for my $number (0 .. $controllers - 1) {
		my $vipu = $s->vipu($number);
		is($vipu->{ipus}{free}, 4 * $agents, "all IPUs of controller $number are free");
		ok(!$vipu->{broken}, '… and none was ever in two partitions');
	}
	return;
}

sub end ($self) {
	$_->{proxy}->calm for @{ $self->{replicas} };
	for my $r (@{ $self->{replicas} }) {
		$r->{daemon}->signal('TERM');
		$r->{dead} = 1;
		$self->try_for("$r->{name} to end", sub { !$r->{daemon}->is_alive }, seconds => 60);
		$r->{daemon}->stop;
	}
	$_->stop for reverse @{ $self->{s}{programs} };
	return;
}

sub tell ($self) {
	$self->{s}{operator} = $self->{replicas}[0]{daemon};
	$self->{s}->tell_all;
	diag($_->{daemon}->report) for @{ $self->{replicas} }[ 1 .. $#{ $self->{replicas} } ];
	return;
}

1;
