#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl rdma check and ipuctl rdma macvlan: the tables of doc/design/head-node.md against the code's; then a machine of
# the test's own (links in a network namespace, a made-up /proc and /etc, a stand-in for libibverbs) and ipu-sim, from a
# head node without anything to one that passes, with the test Pod. By root, or by whoever may make a user namespace.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);
use IpuTest;
use IpuTree qw(file_text);
use RdmaStandin;
use Test::More;

watchdog(240);

# ---- the tables ----

# The rows of a file's table, as the document has them but for the column "when".
sub code_rows {
	my ($path) = @_;
	my $code = file_text($path);
	my %words = $code =~ /^#define (\w+) +"((?:[^"\\]|\\.)*)"$/mg;
	my @rows;
	while ($code =~ /^\t\[\w+\] = \{"([\w-]+)", "([\w-]+)", NODE_(\w+), (\w+|"(?:[^"\\]|\\.)*")\},$/mg) {
		my ($check, $finding, $result, $help) = ($1, $2, lc $3, $4);
		$help = $help =~ /^"(.*)"$/ ? $1 =~ s/\\"/"/gr : $words{$help};
		push @rows, join ' | ', $check, $finding, $result, $help || '-';
	}
	return @rows;
}

my (%tables, $heading);
for my $line (split /\n/, file_text('doc/design/head-node.md')) {
	$heading = $line =~ /\((src\/\S+\.c), / ? $1 : '' if $line =~ /^#/;
	next if !$heading || $line !~ /^\| [\w-]+ \| / || $line =~ /^\| check /;
	my @cells = split / \| /, $line =~ s/^\| | \|$//gr;
	push @{$tables{$heading}}, join ' | ', @cells[0, 1, 2, 4];
}
for my $path (sort keys %tables) {
	my @code = code_rows($path);
	cmp_ok(scalar @code, '>', 10, "$path has rules");
	is_deeply($tables{$path}, \@code, '... and doc/design/head-node.md the same, in the same order');
}
is_deeply([sort keys %tables], [qw(src/ctl/rdma_cluster.c src/ctl/rdma_pod_rules.c src/node/checks.c)], 'all three have their tables');

# ---- completion ----

sub completes { return run([program('ipuctl'), '__complete', @_], env => {HOME => test_dir() . '', KUBECONFIG => '/nowhere'})->{out} }

is(completes('rdma', ''), "check\nmacvlan\n:4\n", 'the two are completed');
is(completes(qw(rdma macvlan --mode p)), "private\npassthru\n:4\n", 'a mode');
is(completes(qw(rdma macvlan --at)), "--attachment\n:4\n", 'an option');
is(completes(qw(rdma check --at)), ":4\n", '... and none of the other');
is(completes(qw(rdma check --root /)), ":0\n", 'a folder');

# ---- the machine ----

my $ip = program_or_skip('ip');
my $unshare = program_or_skip('unshare');
if (!$ENV{IPU_RDMA_INSIDE}) {
	my @enter = ($unshare, ($> == 0 ? () : qw(--user --map-root-user)), qw(--net --mount));
	SKIP: {
		skip('no network namespace to be had: neither root nor a user namespace', 1) if run([@enter, 'true'])->{status} != 0;
		local $ENV{IPU_RDMA_INSIDE} = 1;
		my $inside = run([@enter, $^X, $0], seconds => 220);
		is($inside->{status}, 0, 'within a network of its own') or diag($inside->{out}, $inside->{err});
	}
	done_testing();
	exit;
}

sub try_ip { return run([$ip, split ' ', $_[0]])->{status} == 0 }
sub ip { my $done = run([$ip, split ' ', $_[0]]); $done->{status} == 0 or die "ip $_[0]: $done->{err}"; return }

sub add_link {
	my ($name, $address, $mtu) = @_;
	if (!try_ip("link add $name type dummy")) {
		ip("link add $name type veth peer name ${name}p");
		ip("link set ${name}p up");
	}
	ip("link set $name mtu $mtu up");
	ip("addr add $address dev $name");
	return;
}

ip('link set lo up');
add_link('rdma0', '10.5.212.200/24', 9000);
add_link('eth0', '192.0.2.7/24', 1500);
ip('route add default via 192.0.2.1');

my $dir = test_dir();
my $root = "$dir/root";
my $machine = RdmaStandin->new("$dir/rdma");
sub put {
	my (%new) = @_;
	for my $path (keys %new) {
		make_path("$root/$path" =~ s{/[^/]+$}{}r);
		spit("$root/$path", $new{$path});
	}
	return;
}

sub limits { return "Limit                     Soft Limit           Hard Limit           Units     \n"
	. sprintf("%-25s %-20s %-20s %-10s\n", 'Max locked memory', $_[0], $_[0], 'bytes') }

put('proc/812/comm' => "containerd\n", 'proc/812/cgroup' => "0::/system.slice/containerd.service\n", 'proc/812/limits' => limits(65536),
	'proc/meminfo' => "HugePages_Total:       0\n", 'etc/systemd/system/containerd.service' => "[Service]\nExecStart=/bin/true\n");

our $controllers = '10.5.212.116:8090';
our @cluster;

sub ctl {
	my (@words) = @_;
	return run([program('ipuctl'), @words], env => {HOME => $dir . '', IPUCTL_SERVER => undef, KUBECONFIG => undef, $machine->env}, seconds => 60);
}

# All that a check finds, by check and subject: finding, result and what was seen.
sub check {
	my (@words) = @_;
	my $done = ctl('rdma', 'check', "--root=$root", "--controller=$controllers", '-o', 'json', @cluster, @words);
	my $said = eval { json_decode($done->{out}) } or do { fail("rdma check @words"); diag($done->{out}, $done->{err}); return {} };
	my %found = map { ("$_->{check} $_->{subject}" =~ s/ $//r => $_) } @{$said->{checks}};
	is($said->{ok} ? 0 : 1, $done->{status}, 'the exit status is what it says');
	is($said->{counts}{fail}, scalar(grep { $_->{result} eq 'fail' } @{$said->{checks}}), '... and so are the counts');
	return \%found;
}

sub finds {
	my ($found, $what, $finding, $seen) = @_;
	is($found->{$what}{finding}, $finding, "$what: $finding") or diag(join ', ', sort keys %$found);
	like($found->{$what}{seen} // '', $seen, '... in words') if $seen;
	return;
}

subtest 'a machine without anything' => sub {
	my $found = check();
	finds($found, 'route 10.5.212.116:8090', 'there', qr/^10\.5\.212\.116 through rdma0, from 10\.5\.212\.200 in 10\.5\.212\.0\/24$/);
	finds($found, 'rdma-link 10.5.212.116:8090', 'none');
	finds($found, 'runtime-memlock containerd', 'limited', qr/^process 812 has 64 KiB/);
	like($found->{'runtime-memlock containerd'}{help}, qr{/etc/systemd/system/containerd\.service\.d/memlock\.conf}, '... and how to mend it');
	finds($found, 'cni-multus', 'no-cni', qr{^there is no folder /etc/cni/net\.d$});
	finds($found, 'cluster', 'none');
	is($found->{driver}{result} // $found->{device}{result}, 'fail', 'there is no device');
};

# The same made right.
put('proc/812/limits' => limits('unlimited'), 'proc/modules' => join('', map { "$_ 1 0 - Live 0x0\n" } qw(ib_core ib_uverbs rdma_cm rdma_ucm)));
put("etc/cni/net.d/$_" => '{}') for qw(00-multus.conf multus.d/multus.kubeconfig whereabouts.d/whereabouts.conf);
$machine->machine(<<'END')->sysfs('class/infiniband/mlx5_0/device/driver' => \'../../../bus/pci/drivers/mlx5_core');
device mlx5_0 guid=0c42:a103:0016:054c firmware=20.31.1014
port 1 state=active layer=ethernet width=2 speed=32 mtu=4096
gid 3 ::ffff:10.5.212.200 type=v2 netdev=rdma0
END

subtest 'a head node' => sub {
	my $found = check();
	finds($found, 'device mlx5_0', 'opened', qr/firmware 20\.31\.1014, GUID 0c42:a103:0016:054c/);
	finds($found, 'port mlx5_0/1', 'up', qr/^active, Ethernet, 100 Gb\/s, MTU 4096, rdma0$/);
	finds($found, 'gid mlx5_0/1', 'roce-v2', qr/^GID 3 is RoCE v2 of 10\.5\.212\.200 on rdma0$/);
	finds($found, 'rdma-link 10.5.212.116:8090', 'there', qr/^rdma0 is mlx5_0\/1$/);
	finds($found, 'mtu rdma0', 'fine', qr/^9000 bytes$/);
	finds($found, $_->[0], $_->[1]) for ['driver', 'loaded'], ['cni-multus', 'there'], ['cni-whereabouts', 'there'],
		['runtime-memlock containerd', 'unlimited'], ['hugepages', 'none'];
	is_deeply([grep { $found->{$_}{result} eq 'fail' } sort keys %$found], [], 'nothing fails');

	my $table = ctl('rdma', 'check', "--root=$root", "--controller=$controllers", '--color', 'always');
	is($table->{status}, 0, 'nor in the table');
	like($table->{out}, qr/^\e\[\d+mpass\e\[0m\s+gid\s+mlx5_0\/1\s+GID 3 is/m, '... with colours');
	unlike(ctl('rdma', 'check', "--root=$root", "--controller=$controllers")->{out}, qr/\e/, '... and without where that is no terminal');
	like(ctl('rdma', 'check', "--root=$root", "--controller=$controllers", '-o', 'yaml')->{out}, qr/^ok: true$/m, '... or as YAML');

	$machine->machine("device mlx5_0\nport 1 state=down layer=ethernet\ngid 3 ::ffff:10.9.0.1 type=v2 netdev=rdma0\n");
	$found = check();
	finds($found, 'port mlx5_0/1', 'down');
	finds($found, 'gid mlx5_0/1', 'other');
	$machine->machine("device mlx5_0 node=EACCES\nport 1 state=active layer=ethernet\n");
	finds(check(), 'device', 'denied');
	$machine->machine("device mlx5_0\nport 1 state=active layer=ethernet width=2 speed=32 mtu=4096\ngid 3 ::ffff:10.5.212.200 type=v2 netdev=rdma0\n");

	for my $wrong (['none', qr/--root: must be an absolute path, not "none"/], ["$dir/none", qr/--root: .*: No such file/], ["$root/proc/meminfo", qr/--root: .* is no folder/]) {
		my $done = ctl('rdma', 'check', '--root', $wrong->[0]);
		is($done->{status}, 2, "--root $wrong->[0] is refused");
		like($done->{err}, $wrong->[1], '... for this reason');
	}
	is(ctl('rdma', 'check', '--controller', ',')->{status}, 2, 'a list of no controller is refused');

	local $controllers = '192.0.2.9,127.0.0.1,nowhere.invalid';
	$found = check();
	finds($found, 'rdma-link 192.0.2.9:8090', 'none', qr/^eth0 is no interface/);
	finds($found, 'route 127.0.0.1:8090', 'local');
	finds($found, 'route nowhere.invalid:8090', 'none');
};

subtest 'the configuration' => sub {
	my $none = ctl('rdma', 'check', "--root=$root");
	like($none->{out}, qr/^skip\s+route\s.*no V-IPU controller is known\n/m, 'no controller is known');
	like($none->{out}, qr/\n-o wide says what to do about what was skipped\.\n\z/, '... and how to see what to do');
	like(ctl('rdma', 'check', "--root=$root", '-o', 'wide')->{out}, qr/Name the V-IPU controllers: --controller/, '... is so');
	put('etc/ipu-operator/operator.yaml' => "controllers: 10.5.212.116:8090:ipunode=a\nnode: {cniFolder: /srv/cni}\n", 'srv/cni/00-multus.conf' => '{}');
	like(ctl('rdma', 'check', "--root=$root")->{out}, qr/^pass\s+route\s+10\.5\.212\.116:8090 /m, 'this machine\'s own file names them');
	finds(check(), 'cni-multus', 'no-folder', qr{^/srv/cni has});
	spit("$dir/other.yaml", "controllers: 192.0.2.9\nnode: {cniFolder: /srv/none}\n");
	my $other = ctl('rdma', 'check', "--root=$root", '--config', "$dir/other.yaml");
	like($other->{out}, qr/ 192\.0\.2\.9:8090 /, 'one that is named does instead');
	unlike($other->{out}, qr/10\.5\.212\.116:8090/, '... alone');
	finds(check('--config', "$dir/other.yaml"), 'cni-multus', 'no-cni', qr{^there is no folder /srv/none$});
	put('etc/ipu-operator/operator.yaml' => "{\n");
	my $broken = ctl('rdma', 'check', "--root=$root");
	like($broken->{err}, qr{operator\.yaml is left out: }, 'what nobody named stops nothing');
	like($broken->{out}, qr/ passed, /, '... indeed');
	is(ctl('rdma', 'check', "--root=$root", '--config', "$root/etc/ipu-operator/operator.yaml")->{status}, 2, '... else it does');
	unlink "$root/etc/ipu-operator/operator.yaml" or die;
};

# ---- the manifest ----

sub macvlan { return ctl('rdma', 'macvlan', "--root=$root", "--controller=$controllers", @cluster, @_) }

subtest 'the manifest' => sub {
	my $first = macvlan();
	is($first->{status}, 0, 'is written');
	is(macvlan()->{out}, $first->{out}, '... and the same again');
	like($first->{out}, qr/^$_$/m, "it has: $_") for 'kind: MacvlanNetwork', '  master: rdma0', '  mtu: 9000', '  mode: bridge',
		'        "range": "10\.5\.212\.0\/24",', '            "10\.5\.212\.0\/25",', '            "10\.5\.212\.200\/32"',
		'# rdma0: the way to controller 10\.5\.212\.116:8090 \(10\.5\.212\.116\) leads through it; it is a port of mlx5_0\.';
	my $own = macvlan(qw(--network ipus --network-namespace a --interface eth0 --exclude 192.0.2.0/26 --mtu 1400 --mode private --attachment));
	is($own->{status}, 0, 'with wishes') or diag($own->{err});
	like($own->{out}, qr/^  namespace: a\nspec:\n  config: \|\n/m, 'an attachment');
	like($own->{out}, qr/"master": "eth0",\s+"mode": "private",\s+"mtu": 1400,/, '... of these');
	for my $wrong ([['--subnet', '10.5.212.4/31'], qr/no address is left/], [['--exclude', '1.2.3.0/24'], qr/nothing in common/],
		[['--interface', 'eth9'], qr/--interface: there is no interface eth9 here/], [['--exclude', 'x'], qr/--exclude: "x" is no/],
		[['--dry-run'], qr/--dry-run: is for --apply/], [['--network', 'A B'], qr/--network/], [['--apply'], qr/--apply: a kubeconfig is needed/],
		[['--mtu', '0'], qr/--mtu: must be/], [['--mtu', '5'], qr/--mtu: must be from 68 to 65535/]) {
		my $done = macvlan(@{$wrong->[0]});
		is($done->{status}, $wrong->[2] // 2, "@{$wrong->[0]} is refused");
		like($done->{err}, $wrong->[1], '... for this reason');
	}
	like(macvlan('--exclude', '')->{out}, qr/"exclude": \[\]/, 'nothing need be excluded');
	like($first->{out}, qr{^# Whereabouts' kubeconfig: below /etc/cni/net\.d \(this machine's\)\.$}m, 'where Whereabouts is told by a comment');
	like($first->{out}, qr{"kubeconfig": "/etc/cni/net\.d/whereabouts\.d/whereabouts\.kubeconfig"}, '... and there it is looked for');
	my $k3s = '/var/lib/rancher/k3s/agent/etc/cni/net.d';
	put('proc/813/limits' => limits('unlimited'), 'proc/813/comm' => "k3s-server\n", 'proc/813/cgroup' => "0::/system.slice/k3s.service\n",
		substr("$k3s/00-multus.conf", 1) => '{}');
	like(macvlan()->{out}, qr{^# Whereabouts' kubeconfig: below \Q$k3s\E \(that of k3s\)\.\n(?:#.*\n)*# Careful: \Q$k3s\E has no whereabouts\.d: .*"kubeconfig": "\Q$k3s\E/}ms,
		'K3s runs here: its own');
	like(macvlan('--cni-folder', '/srv/x')->{out}, qr{^# Whereabouts' kubeconfig: below /srv/x \(as asked for\)\..*"kubeconfig": "/srv/x/}ms, 'another one, by an option');
	is(macvlan('--cni-folder', 'srv')->{status}, 2, '... which is absolute');
	remove_tree(map { "$root/$_" } 'proc/813', 'var/lib/rancher');
	{
		local $controllers = '192.0.2.9';
		my $wish = macvlan('--interface', 'rdma0');
		like($wish->{out}, qr/^# rdma0: no controller that is known is reached through it; it is a port of mlx5_0\.$/m, 'an interface that no controller tells');
		like($wish->{out}, qr/^  mtu: 9000$/m, '... with its MTU');
		unlike($wish->{err}, qr/RDMA port/, '... and nothing to be careful of');
		my $eth0 = macvlan();
		like($eth0->{$_}, qr/^# Careful: eth0 has no RDMA port here\.$/m, "the management network is warned of: $_") for qw(out err);
	}
	my $away = macvlan('--interface', 'eth9', '--subnet', '10.6.0.0/24');
	is($away->{status}, 0, 'another machine\'s interface may be named with its subnet');
	like($away->{out}, qr/^# Careful: this machine has no interface eth9\.$/m, '... and is told of');
	like(macvlan('--subnet', '10.5.0.0/16')->{out}, qr{^# Careful: 10\.5\.0\.0/16 isn't within 10\.5\.212\.0/24}m, 'so is a subnet that isn\'t the interface\'s');
	my $hint = ctl(qw(rdma check --network team/ipus));
	is($hint->{status}, 2, 'a namespace has an option of its own');
	like($hint->{err}, qr/--network ipus --network-namespace team\b/, '... which is named');
	is(ctl(qw(rdma macvlan --test-pod))->{status}, 2, 'another command\'s option is refused');
	is(ctl(qw(rdma sing))->{status}, 2, 'so is what no rdma command is');
};

# ---- the cluster ----

# What the test Pod runs, on this very machine: it has net1 when the test says so.
my $sim_dir = "$dir/sim";
my $sim = start('ipu-sim', env => {TMPDIR => $dir . ''}, args => ['--dir', $sim_dir, '--run-pods', '--pod-schedule-ms=10', '--pod-start-ms=10',
	'--program', '/usr/bin/ipuctl=' . abs_path(program('ipuctl'))]);
my $token = slurp("$sim_dir/token");

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

sub define {
	my ($group, $version, $kind, $plural, $scope) = @_;
	my $done = api('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', json => {apiVersion => 'apiextensions.k8s.io/v1',
		kind => 'CustomResourceDefinition', metadata => {name => "$plural.$group"}, spec => {group => $group, scope => $scope,
			names => {plural => $plural, singular => lc $kind, kind => $kind},
			versions => [{name => $version, served => \1, storage => \1, schema => {openAPIV3Schema => {type => 'object'}}}]}});
	is($done->{status}, 201, "$plural.$group is defined") or diag($done->{content});
	return;
}

@cluster = ('--kubeconfig', "$sim_dir/kubeconfig");

subtest 'a cluster without anything' => sub {
	my $found = check('--node', 'sim0', '--resource', 'rdma/b');
	finds($found, $_->[0], $_->[1]) for ['cluster', 'there'], ['multus', 'missing'], ['whereabouts', 'missing'], ['attachment default/rdma-net', 'missing'],
		['macvlan-network rdma-net', 'none'], ['node sim0', 'there'], ['node-resource rdma/b', 'none'], ['node-taints sim0', 'none'], ['node-fabric sim0', 'none'],
		['pod-security default', 'allows'];
	finds(check('--node', 'sim9'), 'node sim9', 'missing');
	my $applied = macvlan('--apply');
	is($applied->{status}, 1, 'a network can\'t be made');
	like($applied->{err}, qr/doesn't know MacvlanNetworks.*--attachment/, '... in words');
	like(macvlan('--apply', '--attachment')->{err}, qr/doesn't know NetworkAttachmentDefinitions.*Multus/, '... nor an attachment');
	local @cluster = ('--kubeconfig', "$dir/none");
	is(ctl('rdma', 'check', @cluster)->{status}, 2, 'a kubeconfig that is named must be there');
	spit("$dir/dead", slurp("$sim_dir/kubeconfig") =~ s{server: \S+}{server: http://127.0.0.1:9}r);
	@cluster = ('--kubeconfig', "$dir/dead");
	finds(check(), 'cluster', 'unreachable');
};

define(qw(k8s.cni.cncf.io v1 NetworkAttachmentDefinition network-attachment-definitions Namespaced));
define(qw(whereabouts.cni.cncf.io v1alpha1 IPPool ippools Namespaced));
define(qw(mellanox.com v1alpha1 MacvlanNetwork macvlannetworks Cluster));

my $network = '/apis/mellanox.com/v1alpha1/macvlannetworks/rdma-net';
my $attachment = '/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/rdma-net';

subtest 'the manifest is applied' => sub {
	like(macvlan('--apply', '--dry-run')->{out}, qr{^macvlannetwork\.mellanox\.com/rdma-net created \(server dry run\)$}, 'a dry run');
	is(api('GET', $network)->{status}, 404, '... changes nothing');
	{
		local $controllers = '192.0.2.9';
		my $done = macvlan('--apply');
		is($done->{status}, 2, 'the management network isn\'t written unasked');
		like($done->{err}, qr/eth0 leads to controller 192\.0\.2\.9:8090, and has no RDMA port: .*--interface/, '... for this reason');
		is(api('GET', $network)->{status}, 404, '... indeed');
		$controllers = '198.51.100.9';
		like(macvlan('--apply')->{err}, qr/# Careful: 198\.51\.100\.9:8090 is reached by the gateway 192\.0\.2\.1/, 'nor a way by a gateway');
		is(macvlan('--apply', '--dry-run', '--interface', 'eth0')->{status}, 0, 'whoever names it means it');
	}
	like(macvlan('--subnet', '10.0.0.0/24', '--exclude', '10.0.0.128/25')->{out}, qr{^# Not for Pods: 10\.0\.0\.1/32 \(Node sim0\)\.$}m, 'Nodes\' addresses are left out');
	like(macvlan('--apply', '--dry-run')->{err}, qr/^# Of 10\.5\.212\.0\/24 \d+ addresses are left for Pods\.$/m, 'the comments are shown');
	for my $case (['created'], ['unchanged'], ['configured', '--mtu', '1500'], ['unchanged', '--mtu', '1500']) {
		my ($did, @words) = @$case;
		my $done = macvlan('--apply', @words);
		is($done->{out}, "macvlannetwork.mellanox.com/rdma-net $did\n", $did) or diag($done->{err});
	}
	my $spec = api('GET', $network)->{json}{spec};
	is($spec->{master}, 'rdma0', 'it is there');
	is($spec->{mtu}, 1500, '... as it was last written');
	is_deeply(json_decode($spec->{ipam})->{exclude}, ['10.5.212.0/25', '10.5.212.200/32'], '... with what it excludes');
	api('PATCH', $network, json => {metadata => {labels => {whose => 'ours'}}}, headers => {'content-type' => 'application/merge-patch+json'});
	macvlan('--apply', '--mtu', '9000');
	is(api('GET', $network)->{json}{metadata}{labels}{whose}, 'ours', 'others\' labels stay');
	my $fault = sub {
		my (%which) = @_;
		is(http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', resource => 'macvlannetworks', %which})->{status}, 204, 'from now on');
	};
	my $clear = sub { http('DELETE', $sim->url('admin', '/sim/api/faults')) };
	$fault->(verb => 'update', status => 409, count => 2);
	my $done = macvlan('--apply', '--mtu', '4000');
	is($done->{out}, "macvlannetwork.mellanox.com/rdma-net configured\n", 'others\' writes in between are no error') or diag($done->{err});
	is(api('GET', $network)->{json}{spec}{mtu}, 4000, '... and nothing is lost');
	$fault->(verb => 'update', status => 409, count => 0);
	$done = macvlan('--apply');
	is($done->{status}, 1, '... unless they don\'t end');
	like($done->{err}, qr/MacvlanNetwork rdma-net: /, '... which is said');
	$clear->();
	for my $verb (qw(get update)) {
		$fault->(verb => $verb, status => 403, message => 'no rights on these', count => 0);
		$done = macvlan('--apply');
		is($done->{status}, 1, "who may not $verb it is told");
		like($done->{err}, qr/MacvlanNetwork rdma-net: .*no rights on these/, '... by the server\'s own words');
		is(api('GET', $network)->{json}{spec}{mtu}, 4000, '... and nothing is changed') if $verb eq 'update';
		$clear->();
	}
	is(macvlan('--apply')->{out}, "macvlannetwork.mellanox.com/rdma-net configured\n", 'then it is as it was');
	is(macvlan('--apply', '--attachment')->{out}, "network-attachment-definition.k8s.cni.cncf.io/rdma-net created\n", 'an attachment');
	is(json_decode(api('GET', $attachment)->{json}{spec}{config})->{ipam}{range}, '10.5.212.0/24', '... is there');
};

subtest 'a cluster' => sub {
	api('PATCH', '/api/v1/nodes/sim0/status', json => {status => {allocatable => {'rdma/rdma_shared_device_a' => '63'}}},
		headers => {'content-type' => 'application/merge-patch+json'});
	my $found = check('--node', 'sim0');
	finds($found, 'attachment default/rdma-net', 'there', qr/^macvlan on rdma0, 10\.5\.212\.0\/24$/);
	finds($found, "attachment-$_ rdma-net", 'not-here', qr/^this machine isn't the Node sim0$/) for qw(link range);
	my $own = check();
	finds($own, 'attachment-link rdma-net', 'same');
	finds($own, 'attachment-range rdma-net', 'fine');
	finds($found, 'macvlan-network rdma-net', 'not-ready');
	finds($found, 'node-resource rdma/rdma_shared_device_a', 'there', qr/^the node has 63/);
	finds(check('--node', 'sim0', '--network', 'other'), 'attachment default/other', 'missing');
	macvlan('--apply', '--attachment', '--exclude', '10.5.212.0/26', '--subnet', '10.5.0.0/16');
	finds(check(), 'attachment-range rdma-net', 'elsewhere');
	macvlan('--apply', '--attachment', '--exclude', '');
	finds(check(), 'attachment-range rdma-net', 'in-use', qr/^10\.5\.212\.(?:116|200) could be given/);
	macvlan('--apply', '--attachment', '--interface', 'eth0', '--subnet', '10.5.212.0/24');
	finds(check(), 'attachment-link rdma-net', 'other', qr/^it is on eth0; rdma0 leads/);
	macvlan('--apply', '--attachment');
};

# ---- the test Pod ----

sub pods { return map { $_->{metadata}{name} } @{api('GET', '/api/v1/namespaces/default/pods')->{json}{items}} }

subtest 'the test Pod' => sub {
	my @test = ('--node', 'sim0', '--test-pod', '-n', 'default');
	my $found = check(@test);
	my ($pod) = grep { /^pod / } keys %$found;
	is($pod, undef, 'a Pod that wasn\'t made has no name');
	finds($found, 'pod', 'no-image');
	$found = check(@test, '--image', 'any');
	($pod) = grep { /^pod / } keys %$found;
	finds($found, $pod, 'ran', qr/^on node sim0$/);
	finds($found, 'pod-net1 net1', 'none');
	finds($found, 'pod-route 10.5.212.116:8090', 'other', qr{^10\.5\.212\.116: 10\.5\.212\.0/24 through rdma0$});
	finds($found, 'pod-default-route', 'other', qr/^through eth0$/);
	is_deeply([pods()], [], 'it is removed');

	# As Multus would have it.
	ip('addr del 10.5.212.200/24 dev rdma0');
	add_link('net1', '10.5.212.225/24', 1500);
	$found = check(@test, '--image', 'any');
	finds($found, 'pod-net1 net1', 'up', qr/^up, MTU 1500$/);
	finds($found, 'pod-address net1', 'fine', qr{^10\.5\.212\.225/24, in 10\.5\.212\.0/24$});
	finds($found, 'pod-route 10.5.212.116:8090', 'net1');
	ip('link del net1');
	ip('addr add 10.5.212.200/24 dev rdma0');
};

subtest 'a test Pod that doesn\'t start' => sub {
	is(http('POST', $sim->url('admin', '/sim/pods'), json => {startMs => 600_000})->{status}, 204, 'Pods take their time from now on');
	my @words = ('rdma', 'check', "--root=$root", @cluster, '--node', 'sim0', '--test-pod', '--image', 'any', '-n', 'default');
	my $done = ctl(@words, '--wait', '1');
	is($done->{status}, 1, 'it fails');
	like($done->{out}, qr/^fail\s+pod\s+ipuctl-rdma-check-[0-9a-f]{8} /m, '... and says so');
	is_deeply([pods()], [], 'it is removed');

	my $one = start('ipuctl', ports => 0, args => [@words], env => {HOME => $dir . '', $machine->env});
	wait_until('it to be made', sub { scalar(pods()) });
	$one->signal('INT');
	wait_until('it to be removed', sub { !pods() }, while_alive => []);
	wait_until('it to end', sub { !$one->is_alive }, while_alive => []);
	$one->stop(status => 1);
};

subtest 'the list of controllers has an entry that can\'t be used' => sub {
	my $config = {apiVersion => 'v1', kind => 'ConfigMap', metadata => {name => 'op', namespace => 'default',
		labels => {'app.kubernetes.io/part-of' => 'ipu-operator'}},
		data => {'operator.yaml' => "controllers: '10.5.212.116:8090, badentry:999999'\n"}};
	is(api('POST', '/api/v1/namespaces/default/configmaps', json => $config)->{status}, 201, 'there is one');
	my $done = ctl('rdma', 'check', "--root=$root", '-o', 'json', @cluster, '--node', 'sim0', '--operator-namespace', 'default');
	my %found = map { ("$_->{check} $_->{subject}" =~ s/ $//r => $_) } @{json_decode($done->{out})->{checks}};
	finds(\%found, 'route badentry:999999', 'bad-entry', qr/port/);
	finds(\%found, 'route 10.5.212.116:8090', 'there');
	is($done->{status}, 1, 'it fails');
	spit("$dir/operator.yaml", "controllers: 'badentry:999999'\n");
	$done = ctl('rdma', 'check', "--root=$root", "--config=$dir/operator.yaml");
	is($done->{status}, 2, 'in a file it\'s refused');
	like($done->{err}, qr/--config: "badentry:999999": port/, '... in words');
};

# The API server gives 500 at a time; sim0 comes after all of these.
subtest 'a large cluster' => sub {
	my @taint = (taints => [{key => 'node-role.kubernetes.io/control-plane', effect => 'NoSchedule'}]);
	my @made = grep { api('POST', '/api/v1/nodes', json => {apiVersion => 'v1', kind => 'Node', metadata => {name => sprintf 'head%03d', $_},
		spec => {@taint}})->{status} == 201 } 1..500;
	is(scalar @made, 500, 'of 500 Nodes more');
	my $found = check('--node', 'sim0');
	finds($found, 'node sim0', 'there');
	finds($found, 'node-resource rdma/rdma_shared_device_a', 'there');
	finds(check('--node', 'head001'), 'node-taints head001', 'elsewhere');
	finds(check('--node', 'sim9'), 'node sim9', 'missing');
};

$sim->stop;
done_testing();
