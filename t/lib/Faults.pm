# SPDX-License-Identifier: Apache-2.0
#
# The fault proxy (t/tools/fault-proxy, doc/design/faults.md) between the daemon and ipu-sim: what a seed says goes wrong
# between them. IPU_FAULTS=SEED[:KIND,…] in the environment puts it there for scenarios, which know nothing of it.
package Faults;

use v5.36;
use IpuTest qw(http program slurp spit start);
use MIME::Base64 qw(encode_base64);

# All kinds that there are (doc/design/faults.md).
my @kinds = qw(delay drip reset half hole garbage alert truncate 410 429 500 503);
my %happened;

# What IPU_FAULTS asks for: (seed, kinds), or nothing.
sub wanted () {
	my $text = $ENV{IPU_FAULTS} // '';
	return if $text eq '';
	my ($seed, $kinds) = $text =~ /^(\d+)(?::([a-z0-9,]+))?$/ or die "IPU_FAULTS=$text: not SEED[:KIND,…]\n";
	return ($seed, $kinds // '');
}

# Why a scenario can't have faults, by its header; undef if it can.
sub refusal ($text) {
	return $text =~ /^# Faults: no, because (\S.*)$/m ? $1 : undef;
}

# Starts it between the daemon and an ipu-sim. Options: seed; kinds, names with commas between; controllers, how many;
# secure, they speak TLS; hold, most milliseconds of a silence; gap, so many times as many bytes between two faults of a connection; env.
sub before ($class, $sim, %option) {
	my $link = $option{secure} ? 'secure' : 'plain';
	my @sets = ("seed=$option{seed}", $option{kinds} ? "kinds=$option{kinds}" : (), $option{hold} ? "hold=$option{hold}" : (), $option{gap} ? "gap=$option{gap}" : (),
		'api=' . $sim->port('api-plain'), map { "$link=vipu$_:" . $sim->port("vipu$_") } 0 .. $option{controllers} - 1);
	my $self = bless {}, $class;
	$self->{program} = start('fault-proxy', path => program('t/tools/fault-proxy'), env => $option{env} // {},
		args => [ map { ('--set', $_) } @sets ]);
	return $self;
}

sub program_of ($self) { return $self->{program} }
sub port ($self, $link) { return $self->{program}->port($link) }

# A kubeconfig like that one, which leads here.
sub kubeconfig ($self, $from, $to) {
	my $ca = encode_base64($self->faults->{ca}, '');
	my $text = slurp($from);
	$text =~ s/server: .*/'server: https:\/\/127.0.0.1:' . $self->port('api')/e && $text =~ s/(certificate-authority-data: ).*/$1$ca/
		or die "$from: neither server nor authority\n";
	return spit($to, $text);
}

# What has happened: {bytes => {LINK => {KIND => times}}, requests => {KIND => times}}.
sub faults ($self) { return $self->_ask('GET', '/faults')->{json} }

# How often in all, by kind.
sub counts ($self) {
	my $all = $self->faults;
	my %count;
	for my $part ($all->{requests}, values %{ $all->{bytes} }) {
		$count{$_} += $part->{$_} for keys %$part;
	}
	return \%count;
}

# Counts in words, with what hasn't come; t/soak.pl reads them.
sub told ($count) { return join ' ', map { "$_=" . ($count->{$_} // 0) } @kinds }

# Keeps counts for the end of this test, where forgotten() are the kinds that none of them had, of all or of those asked for
# (KIND,…).
sub remember ($count) { $happened{$_} += $count->{$_} for keys %$count; return }
sub remembered () { return \%happened }
sub forgotten ($asked = '') { return grep { !$happened{$_} } $asked ? split(/,/, $asked) : @kinds }

# Nothing goes wrong any more.
sub calm ($self) { return $self->_ask('POST', '/calm') }

# A link ("api", "vipu0"): nothing passes, it passes again, all its connections are reset.
sub part ($self, $link) { return $self->_ask('POST', "/links/$link/part") }
sub mend ($self, $link) { return $self->_ask('POST', "/links/$link/mend") }
sub cut ($self, $link) { return $self->_ask('POST', "/links/$link/cut") }

# The next request of this method and path to the API server is held back: its sender sees it broken off. held: one is, since
# then; deliver hands it on, and returns the status that it got.
sub hold_back ($self, $method, $path) { return $self->_ask('POST', '/hold', content => "$method $path") }
sub held ($self) { return $self->faults->{held} }
sub deliver ($self) { return $self->_ask('POST', '/deliver')->{content} }

# It leads to another port from now on.
sub aim ($self, $link, $port) { return $self->_ask('POST', "/links/$link/aim", content => $port) }

sub _ask ($self, $method, $path, %option) {
	my $answer = http($method, $self->{program}->url('control', $path), %option);
	die "fault-proxy: $method $path: $answer->{status} $answer->{content}\n" if !$answer->{success};
	return $answer;
}

1;
