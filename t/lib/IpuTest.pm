# SPDX-License-Identifier: Apache-2.0
#
# Runs the project's programs in tests: started on ports that they choose themselves, waited for by
# polling with a deadline, ended by process id, and judged by exit status and what a sanitizer says.
# Core modules only. A test that dies leaves no process behind; one that hangs is ended.
package IpuTest;

use strict;
use warnings;

use Exporter qw(import);
use File::Temp ();
use HTTP::Tiny;
use IPC::Open3 ();
use JSON::PP ();
use POSIX qw(WNOHANG);
use Test::More ();
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
	watchdog test_dir program program_or_skip start run wait_until
	http json_decode json_encode slurp spit
);

my $poll_s = 0.02;
# All seconds that a test gives anything to happen in are those of a machine of its own, generously; others may use it. Waiting costs
# nothing where it's quick, so this only makes failures slower. What a test judges as too slow it must measure otherwise.
my $slower = 3;
my $default_wait_s = 30;
my $deadline_s = 0;
my $deadline = 0;
my $owner = $$;
my $dir;
my @running;

# ---- time ----

# The test ends as a failure after so many seconds of a machine of its own. 120 unless a test says otherwise.
sub watchdog {
	my ($seconds) = @_;
	$deadline_s = $slower * $seconds;
	$deadline = time() + $deadline_s;
	$SIG{ALRM} = sub { die "the test's deadline of $deadline_s s passed\n" };
	alarm($deadline_s);
	return;
}

# Polls until the code returns something true, and returns that. Dies when the time is over, or when
# one of the programs given ends meanwhile. What: the words for "waited for …".
sub wait_until {
	my ($what, $code, %options) = @_;
	my $seconds = $slower * ($options{seconds} // $default_wait_s);
	my $end = time() + $seconds;
	my @programs = @{$options{while_alive} // \@running};
	while (1) {
		my $result = $code->();
		return $result if $result;
		for my $program (@programs) {
			$program->is_alive
				or die "$program->{name} ended while the test waited for $what\n" . $program->report;
		}
		if (time() > $end) {
			die "waited $seconds s in vain for $what\n" . join '', map { $_->report } @programs;
		}
		sleep($poll_s);
	}
}

# ---- files ----

# This test's own folder; goes when the test ends, unless IPU_TEST_KEEP is set.
sub test_dir {
	if (!$dir) {
		$dir = File::Temp->newdir('ipu-test-XXXXXXXX', TMPDIR => 1, CLEANUP => !$ENV{IPU_TEST_KEEP});
		Test::More::note("files are in $dir") if $ENV{IPU_TEST_KEEP};
	}
	return "$dir";
}

sub slurp {
	my ($path) = @_;
	open(my $in, '<:raw', $path) or return undef;
	local $/;
	my $text = <$in>;
	return $text // '';
}

sub spit {
	my ($path, $text) = @_;
	open(my $out, '>:raw', $path) or die "$path: $!\n";
	print {$out} $text;
	close($out) or die "$path: $!\n";
	return $path;
}

# ---- JSON and HTTP ----

sub json_decode { return JSON::PP->new->utf8->allow_nonref->decode($_[0]) }
sub json_encode { return JSON::PP->new->utf8->allow_nonref->canonical->encode($_[0]) }

# One request: http('GET', $url), http('POST', $url, json => {…}, headers => {…}, seconds => 5).
# Returns HTTP::Tiny's answer with {json} added where the body is JSON. Status 599: no answer came.
sub http {
	my ($method, $url, %options) = @_;
	my %request = (headers => {%{$options{headers} // {}}});
	if (exists $options{json}) {
		$request{content} = json_encode($options{json});
		$request{headers}{'content-type'} //= 'application/json';
	} elsif (exists $options{content}) {
		$request{content} = $options{content};
	}
	my $answer = HTTP::Tiny->new(timeout => $slower * ($options{seconds} // 10), keep_alive => 0,
		($options{ca_file} ? (verify_SSL => 1, SSL_options => {SSL_ca_file => $options{ca_file}}) : ()))
		->request($method, $url, \%request);
	if (($answer->{headers}{'content-type'} // '') =~ m{^application/json}) {
		$answer->{json} = eval { json_decode($answer->{content}) };
	}
	return $answer;
}

# ---- programs ----

# Where a program of this build is.
sub program {
	my ($name) = @_;
	my $top = $ENV{TOP_BUILDDIR} or die "TOP_BUILDDIR isn't set: run tests with make check\n";
	-x "$top/$name" or die "$top/$name isn't there: it wasn't built\n";
	return "$top/$name";
}

# A command of the system that a test can't do without, or the whole test is skipped.
sub program_or_skip {
	my ($name) = @_;
	for my $folder (split(/:/, $ENV{PATH}), '/usr/sbin', '/sbin') {
		return "$folder/$name" if -x "$folder/$name" && !-d _;
	}
	Test::More::plan(skip_all => "no $name on this machine (./setup --tests)");
	return;
}

# Runs a command to its end: run([…], stdin => '…', seconds => 20, env => {…}). Returns {status}
# (exit status; 128 + n for signal n), {out} and {err}. Dies when it takes longer.
sub run {
	my ($argv, %options) = @_;
	my $name = $options{name} // ($argv->[0] =~ m{([^/]+)$} ? $1 : $argv->[0]);
	my $self = _spawn($name, $argv, %options);
	my $end = time() + $slower * ($options{seconds} // $default_wait_s);
	while ($self->is_alive) {
		if (time() > $end) {
			my $report = $self->report;
			$self->_give_up;
			die "$name didn't end by itself in time\n$report";
		}
		sleep($poll_s);
	}
	@running = grep { $_ != $self } @running;
	$self->_refuse_sanitizer_report;
	return {status => $self->{status}, out => $self->out, err => $self->err};
}

# Starts a program: start('ipu-sim', args => […], env => {…}). With ports => 0 it isn't given a
# --ports-file; else start returns when the program has written it, which programs do once all their
# listeners are open: a line a listener, "NAME PORT". Methods: see below.
sub start {
	my ($name, %options) = @_;
	my @argv = ($options{path} // program($name), @{$options{args} // []});
	my $file;
	if ($options{ports} // 1) {
		$file = test_dir() . "/$name-" . (0 + time()) . '.ports';
		push @argv, "--ports-file=$file";
	}
	my $self = _spawn($name, \@argv, %options);
	if ($file) {
		my $text = eval {
			wait_until("$name to open its ports",
				sub { my $got = slurp($file); defined $got && $got =~ /\n\z/ ? $got : undef },
				while_alive => [$self]);
		};
		if (!defined $text) {
			my $why = $@;
			$self->_give_up;
			die $why;
		}
		$self->{ports}{$1} = $2 while $text =~ /^(\S+) (\d+)$/mg;
	}
	return $self;
}

sub _spawn {
	my ($name, $argv, %options) = @_;
	watchdog(120) if !$deadline;
	my $base = test_dir() . "/$name-" . (scalar(@running) + 1) . '-' . int(time() * 1000);
	my $stdin = defined $options{stdin} ? spit("$base.in", $options{stdin}) : '/dev/null';
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		$SIG{$_} = 'DEFAULT' for qw(ALRM INT TERM PIPE HUP QUIT);
		alarm(0);
		open(STDIN, '<', $stdin) && open(STDOUT, '>', "$base.out") && open(STDERR, '>', "$base.err")
			&& (!$options{cwd} || chdir($options{cwd})) or POSIX::_exit(126);
		my %env = %{$options{env} // {}};
		defined $env{$_} ? $ENV{$_} = $env{$_} : delete $ENV{$_} for keys %env;
		{ no warnings 'exec'; exec { $argv->[0] } @$argv; }
		print STDERR "$argv->[0]: $!\n";
		POSIX::_exit(127);
	}
	my $self = bless {name => $name, pid => $pid, base => $base, ports => {}}, __PACKAGE__;
	push @running, $self;
	return $self;
}

sub pid { return $_[0]{pid} }
sub out { return slurp("$_[0]{base}.out") }
sub err { return slurp("$_[0]{base}.err") }

# The port of the listener with that name.
sub port {
	my ($self, $name) = @_;
	return $self->{ports}{$name}
		// die "$self->{name} has no port '$name', only: @{[sort keys %{$self->{ports}}]}\n";
}

sub url {
	my ($self, $name, $path) = @_;
	return "http://127.0.0.1:" . $self->port($name) . ($path // '/');
}

sub is_alive {
	my ($self) = @_;
	return 0 if defined $self->{status};
	my $pid = waitpid($self->{pid}, WNOHANG);
	return 1 if $pid == 0;
	$self->{status} = $? & 127 ? 128 + ($? & 127) : $? >> 8;
	return 0;
}

# The exit status of a program that has ended, else undef.
sub status { my ($self) = @_; $self->is_alive; return $self->{status} }

# What the program said last, for messages.
sub report {
	my ($self) = @_;
	my $alive = $self->is_alive ? 'alive' : "ended with status $self->{status}";
	my $text = "--- $self->{name} (pid $self->{pid}), $alive\n";
	for my $kind (qw(out err)) {
		my @lines = split /^/, $self->$kind // '';
		splice(@lines, 0, @lines - 40, "…\n") if @lines > 40;
		$text .= join '', map { "$kind: $_" } @lines;
	}
	return $text =~ s/\n?\z/\n/r;
}

sub signal { my ($self, $name) = @_; return kill($name, $self->{pid}) }

# Ends the program and checks how: stop() sends TERM and wants status 0; stop(signal => 'INT',
# status => 130, seconds => 10). A program that already ended must have ended that way. One check.
sub stop {
	my ($self, %options) = @_;
	my $want = $options{status} // 0;
	my $seconds = $slower * ($options{seconds} // 10);
	$self->signal($options{signal} // 'TERM') if $self->is_alive;
	my $end = time() + $seconds;
	sleep($poll_s) while $self->is_alive && time() < $end;
	@running = grep { $_ != $self } @running;
	if (!defined $self->{status}) {
		my $report = $self->report;
		$self->_kill_hard;
		Test::More::fail("$self->{name} ends within $seconds s");
		Test::More::diag($report);
		return 0;
	}
	$self->_refuse_sanitizer_report;
	my $good = Test::More::is($self->{status}, $want, "$self->{name} ends with status $want");
	Test::More::diag($self->report) if !$good;
	return $good;
}

# SIGKILL, as a machine's failure would; no check.
sub crash { return $_[0]->_give_up }

sub _give_up {
	my ($self) = @_;
	$self->_kill_hard;
	@running = grep { $_ != $self } @running;
	$self->_refuse_sanitizer_report;
	return;
}

sub _kill_hard {
	my ($self) = @_;
	return if !$self->is_alive;
	kill('KILL', $self->{pid});
	my $pid = waitpid($self->{pid}, 0);
	$self->{status} = 137 if $pid == $self->{pid};
	return;
}

sub _refuse_sanitizer_report {
	my ($self) = @_;
	my $err = $self->err // '';
	if ($err =~ /^(.*(?:ERROR: \w+Sanitizer|: runtime error: |SUMMARY: \w+Sanitizer).*)$/m) {
		Test::More::fail("$self->{name} is clean for the sanitizers");
		Test::More::diag($err);
	}
	if ($err =~ /^(.*the seccomp filter has refused.*)$/m) {
		Test::More::fail("$self->{name} makes no system call that its filter refuses");
		Test::More::diag($1);
	}
	return;
}

# Whatever still runs when a test ends was forgotten, or is left from a die: it goes, and the test
# fails.
END {
	if ($$ == $owner) {
		my $status = $?;
		alarm(0);
		for my $program (splice @running) {
			my $forgotten = $program->is_alive;
			$program->_kill_hard;
			$program->_refuse_sanitizer_report;
			if ($forgotten || $program->{status} != 0) {
				Test::More::diag(($forgotten ? "left running:\n" : "ended unnoticed:\n")
					. $program->report);
				$status ||= 1;
			}
		}
		$? = $status;
	}
}

$SIG{INT} = $SIG{TERM} = sub { die "interrupted\n" };
watchdog(120);

1;
