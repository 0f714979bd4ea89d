# SPDX-License-Identifier: Apache-2.0
#
# PagePod: a live page that is told by the test what the pod is (doc/design/page.md), so that it can be any. The page's files
# and their headers are a daemon's. Snapshots of any size, in which every field is there that there can be.
package PagePod;

use v5.36;
use Exporter qw(import);
use IpuTest qw(spit start test_dir);
use JSON::PP ();

our @EXPORT_OK = qw(mask replaced small_pod snapshot strings);

my $epoch = 1_800_000_000;

# ---- telling it ----

# A daemon that has no cluster, and a server in front of it that says about the pod what the test wants.
sub new ($class, $browser) {
	my $nowhere = spit(test_dir() . '/nowhere', <<'END');
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
	my $daemon = start('ipu-operator', args => [ '--kubeconfig', $nowhere, '--roles', 'proxy', map { ('--set', $_) } 'proxy.page=full',
		'operatorNamespace=ipu-operator', 'proxy.tlsListen=', 'metrics.listen=', map { "$_.listen=127.0.0.1:0" } qw(proxy health) ]);
	return bless { browser => $browser, daemon => $daemon, upstream => $browser->upstream($daemon->url('proxy')), turn => 1 }, $class;
}

sub upstream ($self) { return $self->{upstream} }

sub stop ($self) { return $self->{daemon}->stop }

# What those hear who come from now on. Option names: a list, as /names gives it.
sub say ($self, $pod, %option) {
	my $upstream = $self->{upstream};
	$upstream->answer('/live', body => $pod, headers => { etag => "\"$pod->{id}\"" });
	$upstream->answer('/live/events', frames => [ $upstream->frame($pod->{id}, 'snapshot', $pod) ]);
	$upstream->answer('/names', body => { names => json_bool($option{names}), items => $option{names} // [] });
	return $pod;
}

# A page that has the first snapshot. Options: as Browser::open.
sub open ($self, %option) {
	my $page = $self->{browser}->open($self->{upstream}->url, %option);
	$page->wait_for('the first snapshot', 'look.connection() === "live" && typeof look.totals().waiting === "number" && !look.busy()');
	return $page;
}

# One more event; the number of those that wait is another one with each, so that it's known when the page has drawn it.
sub tell ($self, $event, $data) {
	my $turn = ++$self->{turn};
	my %total = (totalIPUs => 64, usedIPUs => 8, externalIPUs => 0, freeIPUs => 56, reservedIPUs => 0, largest => 32, fits => fits(56), %{ $data->{total} // {} });
	$self->{upstream}->push($self->{upstream}->frame("e1-$turn", $event, { %$data, total => { %total, waiting => $turn } }));
	return $turn;
}

sub event ($self, $page, $event, $data) {
	my $turn = $self->tell($event, $data);
	return $page->wait_for("event $turn to be shown", "look.totals().waiting === $turn");
}

# ---- pods ----

sub time_of ($seconds) {
	my ($s, $m, $h, $day, $month, $year) = gmtime($epoch + $seconds);
	return sprintf '%04d-%02d-%02dT%02d:%02d:%02dZ', $year + 1900, $month + 1, $day, $h, $m, $s;
}

# A mask of so many IPUs from the first on.
sub mask ($first, $count) {
	return join '', reverse map {
		my $digit = 0;
		for my $bit (0 .. 3) {
			my $ipu = 4 * $_ + $bit;
			$digit |= 1 << $bit if $ipu >= $first && $ipu < $first + $count;
		}
		sprintf '%x', $digit;
	} 0 .. 15;
}

sub json_bool ($value) { return $value ? JSON::PP::true : JSON::PP::false }

sub fits ($free) { return { map { $_ => int($free / $_) } grep { $_ <= $free } map { 1 << $_ } 0 .. 6 } }

sub controller ($number, $used) {
	my $free = 64 - $used;
	return { key => "c$number", number => $number, name => "vipu$number.example:8090", label => "pod$number", reach => 'yes', reason => 'it answers',
		since => time_of(-86400), cordoned => json_bool(0), draining => json_bool(0), configured => json_bool(1), exact => json_bool(1),
		totalIPUs => 64, usedIPUs => $used, externalIPUs => 0, freeIPUs => $free, reservedIPUs => 0, largest => $free, fits => fits($free), domains => [64],
		reserved => [] };
}

sub partition ($number, $controller, $first, $ipus, $state = 'active') {
	my $team = qw(speech vision graphs chem)[$number % 4];
	return { key => "p$number", controller => "c$controller", ipus => $ipus, state => $state, external => json_bool(0), since => time_of(-$number),
		endsBy => time_of(3600), places => [ { domain => 0, mask => mask($first, $ipus) } ], namespace => $team, owner => sprintf('%016x', 0xabc0 + $number), instance => 0,
		id => "ipu-$number", kind => 'IPUJob', name => "train-$number", reason => 'as asked', pods => [ { name => "train-$number-worker-0", phase => 'Running', node => "node$number" } ] };
}

# A pod with so many controllers of 64 IPUs, and on each that many partitions of so many IPUs. One waits; the last hour is known.
sub snapshot (%option) {
	my ($controllers, $each, $ipus) = @option{qw(controllers partitions ipus)};
	my $number = 0;
	my @partitions = map { my $c = $_; map { partition(++$number, $c, $ipus * $_, $ipus) } 0 .. $each - 1 } 1 .. $controllers;
	my $used = $ipus * @partitions;
	my $total = 64 * $controllers;
	return { id => 'e1-1', mode => 'full', version => "1.0.0-test", time => time_of(0), since => time_of(-3600),
		total => { totalIPUs => $total, usedIPUs => $used, externalIPUs => 0, freeIPUs => $total - $used, reservedIPUs => 0, largest => 64 - $each * $ipus, waiting => 1, fits => fits($total - $used) },
		controllers => [ map { controller($_, $each * $ipus) } 1 .. $controllers ], partitions => \@partitions,
		waiting => [ { key => '00000000000000aa/0', namespace => 'speech', owner => '00000000000000aa', instance => 0, ipus => 16, priority => 5, since => time_of(-60), startsBy => time_of(1200),
			reason => 'Quota', message => 'its namespace has as much as it may', quota => { limit => 16, used => 16 }, kind => 'IPUJob', name => 'asks' } ],
		held => [],
		steps => [ { n => 1, time => time_of(-5), step => 'made', namespace => 'vision', owner => '00000000000000bb', instance => 0, ipus => 4, controller => 'c1',
			kind => 'IPUJob', name => 'was-made', id => 'ipu-was-made', message => 'made in 2 s' } ],
		history => { period => 60, end => time_of(0), points => [ map { [ $_, 0, 0, $total - $_, 1 ] } map { $used * $_ / 60 } 1 .. 60 ] },
		usage => [ { namespace => 'speech', ipuHours => 12.25 } ] };
}

# A small one in which all that the page knows how to show is there.
sub small_pod () {
	my $pod = snapshot(controllers => 1, partitions => 2, ipus => 4);
	$pod->{id} = 'e1-0';
	push @{ $pod->{partitions} }, { key => 'phand', controller => 'c1', ipus => 4, state => 'error', external => json_bool(1), id => 'hand-made',
			since => time_of(-7200), reason => 'PS_ERROR', places => [ { domain => 0, mask => mask(8, 4) } ] },
		{ key => 'pnew', controller => 'c1', ipus => 8, state => 'creating', external => json_bool(0), id => 'is-new', since => time_of(-1), places => [],
			namespace => 'graphs', owner => '00000000000000cc', instance => 1, kind => 'Pod', name => 'notebook', reason => 'it was asked for', pods => [] };
	push @{ $pod->{held} }, { key => '00000000000000dd', namespace => 'chem', owner => '00000000000000dd', ipus => 8, since => time_of(-90), reason => 'HeldByKueue',
		message => 'Kueue keeps it', kind => 'IPUJob', name => 'is-held' };
	$pod->{total}{held} = 1;
	push @{ $pod->{controllers} }, { %{ $pod->{controllers}[0] }, key => 'c2', number => 2, reach => 'no', name => 'gone.example:8090', reason => 'connection refused',
		label => 'pod2', cordoned => json_bool(1), reserved => [ { domain => 0, mask => mask(16, 16) } ], reservedIPUs => 16 };
	return $pod;
}

# Every text that stands in there as a value, once.
sub strings ($value) {
	my %seen;
	my @left = ($value);
	while (@left) {
		my $one = shift @left;
		if (ref $one eq 'HASH') { push @left, map { $one->{$_} } sort keys %$one }
		elsif (ref $one eq 'ARRAY') { push @left, @$one }
		elsif (!ref $one && defined $one && $one !~ /^-?[\d.]+$/) { $seen{$one} = 1 }
	}
	return sort keys %seen;
}

# A copy with other texts in the place of some, wherever they stand: text => other text.
sub replaced ($value, $texts) {
	return { map { $_ => replaced($value->{$_}, $texts) } keys %$value } if ref $value eq 'HASH';
	return [ map { replaced($_, $texts) } @$value ] if ref $value eq 'ARRAY';
	return defined $value && !ref $value && exists $texts->{$value} ? $texts->{$value} : $value;
}

1;
