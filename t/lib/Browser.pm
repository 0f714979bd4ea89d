# SPDX-License-Identifier: Apache-2.0
#
# Browser: Debian's Chromium as a test's eyes and hands. Starts t/page/driver.mjs (Node.js, Playwright), which starts
# Chromium without a window, and asks it. Both end with the test, by their process groups; their files are in its folder.
package Browser;

use v5.36;
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use IO::Select;
use IpuTest qw(json_decode json_encode program_or_skip run slurp test_dir wait_until);
use IpuTree qw(top_srcdir);
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(sleep time);

my $owner = $$;
my @started;

# ---- begin and end ----

# The folder with Playwright and axe-core; the whole test is skipped where it can't be had.
sub modules () {
	my $result = run([ top_srcdir() . '/t/page/modules' ], seconds => 110);
	my ($said) = $result->{err} =~ /([^\n]*)\n?\z/;
	plan(skip_all => $said) if $result->{status} == 77;
	die "t/page/modules: $result->{err}\n" if $result->{status};
	return $result->{out} =~ s/\n\z//r;
}

sub start ($class) {
	my $chromium = program_or_skip('chromium');
	my $node = program_or_skip('node');
	my $modules = modules();
	my $home = test_dir() . '/browser-' . @started;
	mkdir $home or die "$home: $!\n";
	my %env = (HOME => $home, TMPDIR => $home, IPU_PAGE_MODULES => $modules, IPU_PAGE_CHROMIUM => $chromium,
		IPU_PAGE_PID => "$home/pid", map({ ($_ => undef) } qw(DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS NODE_OPTIONS)),
		map { (uc "xdg_${_}_home" => "$home/$_") } qw(config cache data));
	my $self = bless { home => $home, last => 0, buffer => '' }, $class;
	$self->_spawn([ $node, top_srcdir() . '/t/page/driver.mjs' ], \%env);
	push @started, $self;
	note('Chromium ' . $self->ask('launch'));
	return $self;
}

sub _spawn ($self, $argv, $env) {
	pipe(my $command_out, my $command_in) && pipe(my $answer_out, my $answer_in) or die "pipe: $!\n";
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0) {
		$SIG{$_} = 'DEFAULT' for qw(ALRM INT TERM PIPE HUP QUIT);
		alarm(0);
		POSIX::setpgid(0, 0);
		for my $name (keys %$env) {
			defined $env->{$name} ? $ENV{$name} = $env->{$name} : delete $ENV{$name};
		}
		open(STDIN, '<&', $command_out) && open(STDOUT, '>&', $answer_in) && open(STDERR, '>', "$self->{home}/err")
			or POSIX::_exit(126);
		exec { $argv->[0] } @$argv or POSIX::_exit(127);
	}
	POSIX::setpgid($pid, $pid); # whoever is first
	close($_) for $command_out, $answer_in;
	fcntl($answer_out, F_SETFL, fcntl($answer_out, F_GETFL, 0) | O_NONBLOCK) or die "fcntl: $!\n";
	$command_in->autoflush(1);
	@$self{qw(pid in out)} = ($pid, $command_in, $answer_out);
	return;
}

# What of it is alive: processes of the driver's group and of Chromium's, and those that name its folder.
sub _processes ($self) {
	my ($browser) = (slurp("$self->{home}/pid") // '') =~ /^(\d+)$/;
	my %group = map { $_ => 1 } grep { defined } $self->{pid}, $browser;
	my @found;
	for my $folder (glob '/proc/[0-9]*') {
		my ($state, $group) = (slurp("$folder/stat") // '') =~ /\) (\S) \d+ (\d+) / or next;
		next if $state eq 'Z';
		push @found, $folder =~ /(\d+)$/ if $group{$group} || index(slurp("$folder/cmdline") // '', $self->{home}) >= 0;
	}
	return grep { $_ != $$ } @found;
}

# Ends what is left of it, and returns how much that was.
sub _end_hard ($self) {
	my $count = 0;
	local $SIG{PIPE} = 'IGNORE';
	for (1 .. 100) {
		waitpid($self->{pid}, WNOHANG);
		my @left = $self->_processes or last;
		$count ||= @left;
		kill('KILL', @left);
		sleep(0.05);
	}
	return $count;
}

# Ends it; one check.
sub stop ($self) {
	@started = grep { $_ != $self } @started;
	close($self->{in});
	my $end = time() + 90;
	while (time() < $end) {
		waitpid($self->{pid}, WNOHANG);
		last if !$self->_processes;
		sleep(0.05);
	}
	return is($self->_end_hard, 0, 'the browser ends, with all of its processes');
}

END {
	if ($$ == $owner && @started) {
		my $status = $?;
		alarm(0);
		$_->_end_hard for splice @started;
		$? = $status;
	}
}

# ---- commands ----

# What the driver answers to one command; dies where it can't do that. Option seconds: until then.
sub ask ($self, $do, %command) {
	my $seconds = delete $command{seconds} // 90;
	my $id = ++$self->{last};
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } json_encode({ %command, do => $do, id => $id, seconds => $seconds }), "\n";
	my $answer = $self->_answer($id, $seconds + 40) // die "the browser's driver gave no answer to $do\n" . $self->_said;
	die "$do: $answer->{error}\n" . $self->_said if exists $answer->{error};
	return $answer->{result};
}

sub _said ($self) {
	my @lines = split /^/, slurp("$self->{home}/err") // '';
	splice(@lines, 0, @lines - 20) if @lines > 20;
	return join '', map { "driver: $_" } @lines;
}

sub _answer ($self, $id, $seconds) {
	my $end = time() + $seconds;
	my $select = IO::Select->new($self->{out});
	while (time() < $end) {
		while ($self->{buffer} =~ s/^([^\n]*)\n//) {
			my $answer = json_decode($1);
			return $answer if $answer->{id} == $id;
		}
		next if !$select->can_read(0.5);
		my $got = sysread($self->{out}, $self->{buffer}, 1 << 16, length $self->{buffer});
		return undef if defined $got && $got == 0;
	}
	return undef;
}

# ---- pages ----

# Opens an address in a page of its own; the one before of that name is closed. Options: name, width, height,
# dark, reduced (motion), script (false: JavaScript is off), clock (leap() moves the page's).
sub open ($self, $url, %option) {
	my $name = delete $option{name} // 'page';
	my $answer = $self->ask('open', page => $name, url => $url, map { ($_ => _plain($_, $option{$_})) } keys %option);
	return bless { browser => $self, name => $name, %$answer }, 'Browser::Page';
}

sub _plain ($name, $value) {
	return $name =~ /^(?:width|height)$/ ? 0 + $value : $value ? JSON::PP::true : JSON::PP::false;
}

# A server that passes on what a daemon says, but for what it's told: answer('/live', body => …).
sub upstream ($self, $from) {
	my $name = 'upstream' . ++$self->{upstreams};
	return bless { browser => $self, name => $name, url => $self->ask('listen', name => $name, from => $from) }, 'Browser::Upstream';
}

package Browser::Page;

use v5.36;
use IpuTest qw(json_encode);
use Test::More;

sub headers ($self) { return $self->{headers} }
sub status ($self) { return $self->{status} }

sub ask ($self, $do, %option) { return $self->{browser}->ask($do, %option, page => $self->{name}) }

# The value of a JavaScript expression; look.… is t/page/look.js.
sub get ($self, $expression) { return $self->ask('eval', expression => $expression) }

# Waits until the expression is true, and returns it; says what the page showed where it never is.
sub wait_for ($self, $what, $expression, %option) {
	my $result = eval { $self->ask('wait', expression => $expression, %option) };
	return $result if $result;
	my $why = $@;
	die $why if $why =~ /^the test's deadline/;
	my $shown = eval { $self->get('document.body.innerText') } // '';
	die "waited for $what: $why--- the page\n" . substr($shown, 0, 3000) . "\n--- its faults\n"
		. join("\n", eval { @{ $self->ask('faults') } }) . "\n";
}

sub press ($self, $key, $times = 1) { return $self->ask('press', key => $key, times => $times) }
sub click ($self, $selector) { return $self->ask('click', selector => $selector) }
sub hover ($self, $selector) { return $self->ask('hover', selector => $selector) }
sub shot ($self, $path, %option) { return $self->ask('shot', path => $path, %option) }
sub leap ($self, $seconds) { return $self->ask('leap', ms => 1000 * $seconds) }
sub reload ($self) { return $self->ask('reload') }
sub size ($self, $width, $height) { return $self->ask('size', width => $width, height => $height) }
sub requests ($self) { return @{ $self->ask('requests') } }
sub close ($self) { return $self->ask('close') }

# What it has done wrong since the last time: console errors, violations of its policy, requests to other
# places, dialogs. Option except: a pattern of what is no fault here.
sub faults ($self, %option) {
	return grep { !$option{except} || $_ !~ $option{except} } @{ $self->ask('faults') };
}

# One check: there are none.
sub is_clean ($self, $name, %option) { return Test::More::is_deeply([ $self->faults(%option) ], [], $name) }

package Browser::Upstream;

use v5.36;
use IpuTest qw(json_encode);

sub url ($self, $path = '') { return $self->{url} . $path }

# From now on, to a path: status, type, body (a hash or list: as JSON), headers; or frames, the texts that an event
# stream begins with. Nothing: the daemon's own again.
sub answer ($self, $path, %answer) {
	$answer{body} = json_encode($answer{body}) if ref $answer{body};
	return $self->{browser}->ask('answer', %answer, name => $self->{name}, path => $path);
}

# One frame of an event stream.
sub frame ($class, $id, $event, $data) { return "id: $id\nevent: $event\ndata: " . json_encode($data) . "\n\n" }

sub push ($self, @frames) { return $self->{browser}->ask('push', name => $self->{name}, frames => \@frames) }
# From now on the daemon is there.
sub move ($self, $from) { return $self->{browser}->ask('move', name => $self->{name}, from => $from) }
sub cut ($self) { return $self->{browser}->ask('cut', name => $self->{name}) }
sub seen ($self) { return @{ $self->{browser}->ask('seen', name => $self->{name}) } }

1;
