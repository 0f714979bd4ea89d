#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl ui by a real API server: its proxy to a Service passes events on at once, a user needs the role of doc/examples and
# sees the names that he may list, and the page goes on when the API server is back. What is behind the Service is a peer by
# script (t/lib/page_peer.pl); t/65-ipuctl-ui.t has the rest.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster;
use Cluster::Rights;
use IpuTest;
use IpuTree qw(file_text page_text);
use PageTab;
use Test::More;

my $c = Cluster->up('scale', nodes => 1, with => ['helm']);
my $ns = 'ipu-operator';
my $peer = $c->start_program('page', path => $^X, args => [ "$FindBin::Bin/../lib/page_peer.pl", '--listen=' . $c->address ]);

# The peer's own door, from the cluster's network.
sub admin ($what) {
	return $c->command([ $^X, '-MHTTP::Tiny', '-e', 'print HTTP::Tiny->new->get($ARGV[0])->{content}',
		'http://' . $c->address . ':' . $peer->port('page') . "/admin/$what" ])->{out};
}

$c->apply(file_text('crds/graphcore.ai_ipujobs.yaml'), '--server-side');
$c->kubectl('create', 'namespace', $_) for $ns, qw(team-a team-b);
$c->apply(Cluster::Rights::render($c, ['aggregate-ipujobs']));
# The API server goes to Pods alone: one of KWOK's on its node's network has the address at which the peer listens.
$c->apply(json_encode({ apiVersion => 'v1', kind => 'Pod', metadata => { name => 'page', namespace => $ns, labels => { app => 'page' } },
	spec => { hostNetwork => JSON::PP::true(), containers => [ { name => 'c', image => 'x' } ] } }));
$c->apply(json_encode({ apiVersion => 'v1', kind => 'Service', metadata => { name => 'ipu-operator-vipu-proxy', namespace => $ns },
	spec => { selector => { app => 'page' }, ports => [ { name => 'http', port => 80, targetPort => $peer->port('page') + 0 } ] } }));
for my $team (qw(team-a team-b)) {
	$c->kubectl('-n', $team, 'create', 'serviceaccount', 'person');
	$c->apply(json_encode({ apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => "train-$team", namespace => $team },
		spec => { jobInstances => 1, ipusPerJobInstance => '2', workers => { template => { spec => { containers => [ { name => 'c', image => 'x' } ] } } } } }));
}
$c->kubectl(qw(-n team-a create rolebinding person --clusterrole=view --serviceaccount=team-a:person));

# A kubeconfig by which programs on this machine are that account.
sub person ($team) {
	my $config = json_decode($c->kubectl('config', 'view', '--raw', '--flatten', '-o', 'json'));
	$config->{users}[0]{user} = { token => Cluster::Rights::token($c, $team, 'person') };
	$config->{contexts}[0]{context}{namespace} = $team;
	return spit(test_dir() . "/$team.kubeconfig", json_encode($config));
}

my %nowhere = (HOME => test_dir(), KUBECONFIG => undef, IPUCTL_SERVER => undef);
my @words = ('ui', '--no-browser', '--kubeconfig', person('team-a'));
my $refused = run([ program('ipuctl'), @words ], env => \%nowhere);
is($refused->{status}, 1, 'without the role there is no page');
like($refused->{err}, qr/cannot get resource "services\/proxy"/, '... and the API server says why');
$c->apply(file_text('doc/examples/cluster/ipuctl-role.yaml'));
$c->wait_for('the role', sub { $c->kubectl_result([ qw(auth can-i get services/http:ipu-operator-vipu-proxy:80 --subresource=proxy --as=system:serviceaccount:team-a:person),
	qw(--as-group=system:authenticated -n), $ns ])->{status} == 0 });

$c->wait_for('the Service to have its Pod', sub { (($c->get('endpoints', 'ipu-operator-vipu-proxy', '-n', $ns) // {})->{subsets} // [])->[0]{addresses} });
my $ui = start('ipuctl', ports => 0, env => \%nowhere, args => \@words);
my ($url, $port, $key) = (wait_until('its address', sub { ($ui->out // '') =~ m{^(\S+)/\n} ? $1 : undef })) =~ m{^(http://127\.0\.0\.1:(\d+)/(\w+))};

sub events () { return open_tab($port, $key) }

subtest 'the page' => sub {
	ok(http('GET', "$url/")->{content} eq page_text('index.html'), 'HTML, ipuctl\'s own');
	my $data = http('GET', "$url/live", headers => { 'accept-encoding' => 'gzip' });
	is($data->{headers}{'content-encoding'}, 'gzip', 'data, compressed as it was');
	is(http('GET', "$url/live", headers => { 'if-none-match' => '"1-1"' })->{status}, 304, 'nothing new');
	unlike(admin('last'), qr/^authorization:/mi, 'the operator hears nothing of the user\'s token');
	is(http('GET', "$url/stats")->{status}, 404, 'and nothing else');
};

subtest 'events' => sub {
	my $tab = events();
	ok(heard($tab, qr/event: snapshot/), 'begin');
	my @took;
	for my $n (1 .. 15) {
		# The time is the peer's, when it sends; both have the machine's clock.
		admin("later?time-now-$n.");
		my $at = heard($tab, qr/data: time-now-$n\.\n/) or die "word $n\n";
		my ($sent) = $tab->{text} =~ /: sent ([\d.]+)\n(?!.*: sent )/s;
		push @took, $at - $sent;
	}
	@took = sort { $a <=> $b } @took;
	diag(sprintf 'an event through a real API server: median %.1f ms, longest %.1f ms', 1000 * $took[7], 1000 * $took[-1]);
	# An answer of another type is flushed 200 ms after it was written (net/http/httputil, by the API server's wish).
	cmp_ok($took[0], '<', 0.15, 'at once');
	close $tab->{socket};
	$c->wait_for('the tab\'s call to end', sub { admin('streams') eq '0' });
	pass('a closed tab ends its call at the operator');
};

subtest 'names' => sub {
	my $names = http('GET', "$url/names")->{json};
	is_deeply([ map { $_->{name} } @{ $names->{items} } ], ['train-team-a'], 'those of his namespace');
	is($names->{limited}, 'you may not list IPUJobs and Pods of all namespaces: names are those of team-a (-n names another)', '... which is said');
	like($ui->err, qr/names: you may not list/, '... on the terminal too');
};

subtest 'an API server that is away' => sub {
	my $tab = events();
	ok(heard($tab, qr/event: snapshot/), 'a tab looks');
	$c->stop('kube-apiserver');
	ok(!heard($tab, qr/never/), 'its events end');
	is(http('GET', "$url/live", seconds => 30)->{status}, 503, 'there is no answer');
	$c->revive('kube-apiserver');
	$c->wait_for('the page to come back', sub { http('GET', "$url/live", seconds => 30)->{status} == 200 });
	$tab = events();
	ok(heard($tab, qr/event: snapshot/), 'it goes on');
	close $tab->{socket};
};

$ui->stop(signal => 'INT');
$peer->stop;
done_testing();
