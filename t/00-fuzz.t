#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What reads bytes, text or objects that others wrote is called by a fuzz target, or it's said here
# why not. By names: a function that a header declares and that parses, decodes, loads or peeks. See
# doc/design/fuzzing.md.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IpuTree qw(tree_files file_text top_srcdir);
use Test::More;

my %answered = (
	ctl_options_parse => 'the command line of who starts the program',
	ctl_settings_load => 'a file whose text is yaml and config',
	job_decode_spec => 'a part of job_decode',
	job_hash_parse => 'a word of job_pod_decode and of a PodGroup',
	json_parse_secret => 'json_parse, wiped afterwards',
	kube_config_load_in_cluster => 'files of a token and an authority, whole',
	kube_kubeconfig_load => 'what kube_config_load has of files, in kubeconfig',
	kube_parse => 'json_parse with a name in its errors',
	options_parse => 'the command line of who starts the program',
	partition_ask_decode_member => 'a part of what partition_entry, partition_list and proxy_ask read',
	partition_entry_loaded => 'an entry that has been read',
	partition_phase_parse => 'a word of partition_entry_decode',
	partition_why_parse => 'a word of partition_wait_decode',
	sim_options_parse => 'the command line of who starts the program',
	sim_parse_body => 'json_parse, and the TokenRequest of sim_token',
	sim_schema_load => "the project's own CustomResourceDefinition",
	tls_parse_key => 'a part of cert_pair_read',
	vipu_routing_parse => 'a word of job_decode',
	vipu_sync_parse => 'a word of job_decode',
	yaml_impl_load => 'yaml_parse behind its face',
	yaml_load => 'yaml_parse of a file',
);

my $targets = join '', map { file_text($_) } tree_files(qr{_fuzz\.c$}, 't/fuzz');
$targets =~ s/\bTRY\((\w+),/$1_decode(/g; # watched_fuzz.c
my %declared;
for my $header (tree_files(qr{\.h$}, 'include', 'src')) {
	my $text = file_text($header) =~ s{/\*.*?\*/}{}gsr;
	$declared{$1} //= $header while $text =~ /\b([a-z][a-z0-9_]*_(?:parse|decode|load|peek)[a-z0-9_]*)\(/g;
}
cmp_ok(scalar keys %declared, '>', 50, 'found what reads');
for my $name (sort keys %declared) {
	my $is_fuzzed = $targets =~ /\b\Q$name\E\b/;
	next if $is_fuzzed && !$answered{$name};
	ok(!$is_fuzzed, "$name is fuzzed: its answer can go") if $answered{$name};
	ok($answered{$name}, "$name ($declared{$name}) is called by a target in t/fuzz, or answered here") if !$is_fuzzed;
}
is(join(' ', grep { !$declared{$_} } sort keys %answered), '', 'no answer for what is gone');

# Who has bytes of a connection handed to him, and the target of what reads them.
my %heard = (
	'src/h2/transport.c' => 'h2_session',
	'src/http/call.c' => 'http_codec',
	'src/http/server_conn.c' => 'http_codec',
	'src/http/ws.c' => 'ws_codec',
	'src/http/ws_connect.c' => 'http_codec',
	'src/net/conn.c' => '', # drops them: the connection ends
	'src/net/tunnel.c' => 'net_tunnel',
);
is(join(' ', sort grep { file_text($_) =~ /struct net_conn_handler \w+ = \{/ } tree_files(qr{\.c$}, 'src')), join(' ', sort keys %heard),
	'each file that hears a connection names a target');
ok(-e top_srcdir() . "/t/fuzz/${_}_fuzz.c", "... $_, which is there") for sort grep { length } values %heard;

done_testing();
