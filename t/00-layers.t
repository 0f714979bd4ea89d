#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# A folder of src/ and include/ uses only folders below it, a library is seen by the one folder that
# wraps it, private headers stay private, and every source file is built. See doc/HACKING.md.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(top_srcdir tree_files file_text layer_of);
use Test::More;

# From the ground up; each may use all before it, but siblings don't know each other.
my @order = qw(core loop net h2 http grpc kube vipu cert partition job pod admission proxy node daemon);
my ($described) = file_text('doc/design/architecture.md') =~ /^## Layers\n(.*?)^## /ms;
my @described = $described =~ /^\| `(\w+)` \| /mg;
is("@described", "@order", 'doc/design/architecture.md has the same layers in the same order');
my %siblings = (http => 'grpc', grpc => 'http', kube => 'vipu', vipu => 'kube');
my %may_use;
for my $i (0 .. $#order) {
	my $layer = $order[$i];
	my $other = $siblings{$layer} // '';
	$may_use{$layer} = {map { $_ => 1 } grep { $_ ne $other } @order[0 .. $i]};
}
# The other programs. The simulator must not share what it is there to test, the launcher must link
# statically and stay small.
$may_use{ctl} = {map { $_ => 1 } 'ctl', grep { $_ ne 'daemon' } @order};
$may_use{sim} = {map { $_ => 1 } qw(sim core loop net h2 http grpc kube vipu cert)};
$may_use{launcher} = {map { $_ => 1 } qw(launcher core loop net http kube)};

# Single headers of a folder that is otherwise out of bounds, with the reason.
my @exceptions = (
	# The simulated API server has no CEL: it applies the CRD's rules by the code of the webhook,
	# which is declared beside the model that it checks.
	[sim => qr{^job/(?:model|valid[a-z_]*)\.h$}],
);

# Which folders may include a library's headers: nothing else sees its types.
my %library = (
	'yyjson.h'    => [qw(core)],
	'libfyaml.h'  => [qw(core)],
	'llhttp.h'    => [qw(http)],
	'nghttp2/'    => [qw(h2)],
	'ares.h'      => [qw(net)],
	'protobuf-c/' => [qw(vipu sim)],
	'infiniband/' => [qw(node)],
);

# Headers made by protoc: the wire's types, for the client and for the simulated server.
my $wire_header = qr{^vipu/[^/]+\.pb-c\.h$};

my %private_headers = map { s{^src/}{}r => 1 } tree_files(qr{\.h$}, 'src');
my %known_headers = map { s{^include/}{}r => 1 } tree_files(qr{\.h$}, 'include');

# What is wrong with one #include line of a file, or nothing.
sub violation {
	my ($path, $quote, $header) = @_;
	my $layer = layer_of($path);
	if ($quote eq '<') {
		for my $prefix (sort keys %library) {
			next if index($header, $prefix) != 0;
			next if grep { $_ eq $layer } @{$library{$prefix}};
			return "<$header> belongs to @{$library{$prefix}} alone";
		}
		return "<$header> is one of ours: write it in quotes" if $known_headers{$header};
		return undef;
	}
	return "\"$header\": no way up" if $header =~ m{(^|/)\.\.?/};
	return undef if $header eq 'config.h';
	if ($header !~ m{/}) {
		return $private_headers{"$layer/$header"} ? undef
			: "\"$header\" is not in src/$layer: name its folder";
	}
	my ($used) = $header =~ m{^([^/]+)/};
	return "\"$header\" isn't a folder of src/" if !$may_use{$used};
	if ($header =~ $wire_header) {
		return $layer eq 'vipu' || $layer eq 'sim' ? undef
			: "\"$header\": the wire's types stay in vipu and sim";
	}
	for my $exception (@exceptions) {
		return undef if $exception->[0] eq $layer && $header =~ $exception->[1];
	}
	return "\"$header\": $layer is not above $used" if !$may_use{$layer}{$used};
	return "\"$header\" is private to src/$used (not in include/$used)"
		if $used ne $layer && !$known_headers{$header};
	return undef;
}

sub violations {
	my ($path, $text) = @_;
	my $layer = layer_of($path);
	return ("$path: src/$layer is not in the list of layers") if !$may_use{$layer};
	my @found;
	my $number = 0;
	for my $line (split /\n/, $text) {
		$number++;
		next if $line !~ /^\s*#\s*include\s*([<"])([^>"]+)[>"]/;
		my $wrong = violation($path, $1, $2);
		push @found, "$path:$number: $wrong" if $wrong;
	}
	return @found;
}

# Every file that belongs to a layer is named in its local.mk, or it would be neither built nor
# shipped.
sub unbuilt {
	my (@paths) = @_;
	my (%makefile, @found);
	for my $path (@paths) {
		my ($layer) = $path =~ m{^(?:src|include)/([^/]+)/} ? $1 : $path =~ m{^t/unit/([a-z0-9]+)_};
		my $file = "src/$layer/local.mk";
		$makefile{$file} //= -e top_srcdir() . "/$file" ? file_text($file) : '';
		(my $name = $path) =~ s{\.c$}{} if $path =~ m{^t/unit/};
		push @found, "$path is not named in $file"
			if $makefile{$file} !~ m{(?<![\w/.-])\Q@{[$name // $path]}\E(?![\w/-])};
	}
	return @found;
}

# The rules find what they are for.
my @self_test = (
	['src/core/x.c', '#include "loop/loop.h"', qr/core is not above loop/],
	['src/http/x.c', '#include "grpc/channel.h"', qr/http is not above grpc/],
	['src/grpc/x.c', '#include "http/client.h"', qr/grpc is not above http/],
	['src/h2/x.c', '#include "http/message.h"', qr/h2 is not above http/],
	['src/http/x.c', '#include <nghttp2/nghttp2.h>', qr/belongs to h2/],
	['include/kube/x.h', '#include "vipu/client.h"', qr/kube is not above vipu/],
	['src/vipu/x.c', '#  include "kube/client.h"', qr/vipu is not above kube/],
	['src/partition/x.c', '#include "job/model.h"', qr/partition is not above job/],
	['src/sim/x.c', '#include "partition/plan.h"', qr/sim is not above partition/],
	['src/sim/x.c', '#include "job/plan.h"', qr/sim is not above job/],
	['src/launcher/x.c', '#include "vipu/client.h"', qr/launcher is not above vipu/],
	['src/ctl/x.c', '#include "daemon/roles.h"', qr/ctl is not above daemon/],
	['src/loop/x.c', '#include "core/no_such_private.h"', qr/private to src\/core/],
	['src/loop/x.c', '#include "../core/err.h"', qr/no way up/],
	['src/loop/x.c', '#include "err.h"', qr/not in src\/loop/],
	['src/loop/x.c', '#include <core/err.h>', qr/in quotes/],
	['src/kube/x.c', '#include <yyjson.h>', qr/belongs to core/],
	['src/kube/x.c', '#include <llhttp.h>', qr/belongs to http/],
	['src/job/x.c', '#include "vipu/virmgrpc.pb-c.h"', qr/wire's types/],
	['src/cloud/x.c', '', qr/not in the list/],
	['src/loop/x.c', "#include \"core/err.h\"\n#include <ev.h>\n#include \"loop/private.h\"", undef],
	['src/sim/x.c', '#include "vipu/virmgrpc.pb-c.h"', undef],
	['src/sim/x.c', '#include "job/validate.h"', undef],
);
for my $case (@self_test) {
	my ($path, $text, $want) = @$case;
	my ($got) = violations($path, $text);
	my $name = "self-test: $path with " . ($text =~ s/\n.*/ …/sr || 'nothing');
	if ($want) {
		like($got, $want, $name);
	} else {
		is($got, undef, $name);
	}
}
like((unbuilt('src/core/no_such_file.c'))[0], qr/not named in/, 'self-test: a file nobody builds');
like((unbuilt('t/unit/core_no_such_test.c'))[0], qr/not named in/, 'self-test: a test nobody runs');

my @sources = tree_files(qr{\.[ch]$}, 'src', 'include');
cmp_ok(scalar @sources, '>', 10, 'found the sources');
for my $path (@sources) {
	my @found = violations($path, file_text($path));
	ok(!@found, "$path keeps to its layer") or diag(join "\n", @found);
}
my @missing = unbuilt(@sources, tree_files(qr{_test\.c$}, 't/unit'));
ok(!@missing, 'every source file and unit test is in a local.mk') or diag(join "\n", @missing);

done_testing();
