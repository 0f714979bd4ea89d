# SPDX-License-Identifier: Apache-2.0
#
# A machine with RDMA devices that aren't there: the preloaded stand-in of t/tools/ibv_standin.c (its
# head has the form of the description), and a sysfs of the test's own beside it. Events are written to
# whoever has a device open. One object a machine, in the folder that it's given.
package RdmaStandin;

use v5.36;

use Fcntl qw(O_NONBLOCK O_WRONLY);
use File::Path qw(make_path);
use IpuTest qw(program spit slurp wait_until);
use POSIX qw(mkfifo);

sub new ($class, $folder) {
	make_path("$folder/sys");
	my $self = bless {folder => $folder, file => "$folder/machine", sys => "$folder/sys"}, $class;
	$self->machine('');
	return $self;
}

# The description, from now on: the stand-in reads it with every call. Its FIFOs are made here, since a program
# that is confined (doc/design/confinement.md) couldn't.
sub machine ($self, $text) {
	for my $path (map { "$self->{file}.$_.events" } $text =~ /^device (\S+)/mg) {
		-p $path or mkfifo($path, 0666) && chmod(0666, $path) or die "$path: $!\n";
	}
	rename(spit("$self->{file}.new", $text), $self->{file}) or die "$self->{file}: $!\n";
	return $self;
}

# What a program has in its environment on this machine.
sub env ($self) {
	my $asan = join ':', grep { length } $ENV{ASAN_OPTIONS} // '', 'verify_asan_link_order=0';
	return (LD_PRELOAD => program('t/tools/ibv-standin.so'), IBV_STANDIN => $self->{file},
		SYSFS_PATH => $self->{sys}, ASAN_OPTIONS => $asan);
}

# Files of its sysfs: 'class/infiniband/mlx5_0/fw_ver' => "1.2\n". A value that is a reference to a
# text is a link to there.
sub sysfs ($self, %file) {
	for my $path (sort keys %file) {
		make_path("$self->{sys}/$path" =~ s{/[^/]+$}{}r);
		ref $file{$path} ? symlink(${$file{$path}}, "$self->{sys}/$path") || die "$path: $!\n"
			: spit("$self->{sys}/$path", $file{$path});
	}
	return $self;
}

sub sysfs_path ($self, $path) { return "$self->{sys}/$path" }

# Events, in one go: event('mlx5_0', port_err => 1, …). Waits until somebody has the device open.
sub event ($self, $device, @events) {
	my $path = "$self->{file}.$device.events";
	my $out;
	wait_until("$device to be opened", sub { sysopen($out, $path, O_WRONLY | O_NONBLOCK) });
	my $text = '';
	$text .= sprintf '%-32s', "@{[splice @events, 0, 2]}" while @events;
	my $wrote = syswrite($out, $text) // die "$path: $!\n";
	$wrote == length $text or die "$path: $wrote bytes of @{[length $text]} had room\n";
	return $self;
}

# Does a program have the device open?
sub is_open ($self, $device) {
	return sysopen(my $out, "$self->{file}.$device.events", O_WRONLY | O_NONBLOCK) ? 1 : 0;
}

1;
