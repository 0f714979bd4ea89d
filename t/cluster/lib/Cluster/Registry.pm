# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Registry: what a registry shows to who pulls (OCI's distribution specification, the part "pull"), of one image's archive, over
# plain HTTP in the cluster's network. The nodes' containerd finds it by another host's name, as a mirror is found (hosts.toml).
# It serves; nothing can be pushed.
package Cluster::Registry;

use v5.36;
use Digest::SHA qw(sha256_hex);
use File::Path qw(make_path);
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use POSIX ();

# Serves the archive as HOST/NAME for all nodes: the object of IpuTest's start(), whose output has a line for each request.
sub start ($c, $archive, $host, $name) {
	require IpuTest; # not in the process that serves, which is no test
	my $folder = IpuTest::test_dir() . '/registry';
	make_path($folder);
	my $done = IpuTest::run([ 'tar', '-C', $folder, '-xf', $archive ]);
	die "$archive: $done->{err}" if $done->{status};
	my $lib = __FILE__ =~ s{/Cluster/Registry\.pm$}{}r;
	my $server = $c->start_program('registry', path => $^X, args => [ "-I$lib", '-MCluster::Registry', '-e',
		'Cluster::Registry::serve(@ARGV)', $folder, $name, $c->address ]);
	my $url = sprintf 'http://%s:%d', $c->address, $server->port('registry');
	make_path($c->dir . "/registries/$host");
	IpuTest::spit($c->dir . "/registries/$host/hosts.toml", qq(server = "$url"\n\n[host."$url"]\ncapabilities = ["pull", "resolve"]\n));
	return $server;
}

# Runs in a process of its own until SIGTERM; the port is written to the file of --ports-file=FILE.
sub serve ($folder, $name, $address, $ports) {
	my $ear = IO::Socket::INET->new(LocalAddr => $address, Listen => 64) or die "$address: $@\n";
	$SIG{CHLD} = 'IGNORE';
	$SIG{TERM} = sub { exit 0 };
	STDOUT->autoflush(1);
	my ($file) = $ports =~ /^--ports-file=(.+)$/ or die "$ports: not --ports-file=FILE\n";
	open(my $out, '>', "$file.part") or die "$file.part: $!\n";
	print($out 'registry ', $ear->sockport, "\n") && close($out) && rename("$file.part", $file) or die "$file: $!\n";
	while (1) {
		my $peer = $ear->accept or next;
		my $pid = fork() // die "fork: $!\n";
		next if $pid;
		$SIG{TERM} = 'DEFAULT';
		alarm(60);
		eval { answer($folder, $name, $peer); 1 } or warn $@;
		POSIX::_exit(0);
	}
}

# One request; then the connection ends.
sub answer ($folder, $name, $peer) {
	my $head = '';
	while (defined(my $line = <$peer>)) {
		last if $line =~ /^\r?\n$/;
		$head .= $line;
	}
	my ($method, $path) = $head =~ m{^([A-Z]+) (\S+) HTTP/1\.1\r\n} or return;
	my ($status, $type, $body, @more) = find($folder, $name, $method, $path);
	print "$method $path $status\n";
	print $peer join("\r\n", "HTTP/1.1 $status", "Content-Type: $type", 'Content-Length: ' . length $body, 'Connection: close', @more, '', ''),
		$method eq 'HEAD' ? '' : $body;
	close($peer);
	return;
}

# What there is at a path: status, type, content, further header lines.
sub find ($folder, $name, $method, $path) {
	return ('405 Method Not Allowed', 'text/plain', '') if $method !~ /^(?:GET|HEAD)$/;
	return ('200 OK', 'application/json', '{}') if $path eq '/v2/';
	my ($kind, $digest) = $path =~ m{^/v2/\Q$name\E/(manifests|blobs)/([^/?]+)(?:\?.*)?$};
	my ($index) = @{ decode_json(content("$folder/index.json"))->{manifests} };
	$digest = $index->{digest} if $kind && $kind eq 'manifests' && $digest eq $index->{annotations}{'org.opencontainers.image.ref.name'};
	my ($hex) = ($digest // '') =~ /^sha256:([0-9a-f]{64})$/;
	my $body = $hex ? content("$folder/blobs/sha256/$hex") : undef;
	return ('404 Not Found', 'application/json', '{"errors":[{"code":"NAME_UNKNOWN"}]}') if !defined $body;
	sha256_hex($body) eq $hex or die "$digest isn't what is called so\n";
	return ('200 OK', $digest eq $index->{digest} ? $index->{mediaType} : 'application/octet-stream', $body, "Docker-Content-Digest: $digest");
}

sub content ($path) {
	open(my $in, '<:raw', $path) or return undef;
	local $/;
	return scalar <$in>;
}

1;
