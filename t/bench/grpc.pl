#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# How many unary gRPC calls a second one connection to a local server carries, 100 at a time; client and server have a core each.
# From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/grpc.pl [--calls=200000] [--at-once=100] [--runs=5] [--json=FILE]

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench qw(figure finish options tool);
use Test::More;

my $opt = options(300, calls => 200_000, 'at-once' => 100, runs => 5);
my (@wall, @client, @server);
for (1 .. $opt->{runs}) {
	my $said = tool('grpc', $opt->{calls}, $opt->{'at-once'});
	push @wall, $said->{calls} / $said->{seconds};
	push @client, $said->{calls} / $said->{cpu};
	push @server, $said->{calls} / $said->{server_cpu};
}
figure("gRPC calls on one connection, $opt->{'at-once'} at a time", '/s', \@wall, bar => '>= 40000', id => 'grpc');
figure('… for a second of the client\'s core', 'calls', \@client, id => 'grpc-cpu');
figure('… for a second of the server\'s core', 'calls', \@server, id => 'grpc-server-cpu');
finish();
