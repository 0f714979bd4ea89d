#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# ipuctl against the operator: in place, by a URL with a path as kubectl's proxy has it, and through the
# API server's way to the Service; what it prints of each answer, cordoning, and its exit status.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::INET;
use IpuTest;
use MIME::Base64 qw(decode_base64);
use Test::More;
use Time::HiRes qw(sleep);

watchdog(120);
my $folder = test_dir() . '/sim';
my $sim = start('ipu-sim', args => ['--dir', $folder, '--agents=4']);
my @listeners = map { ('--set', "$_=127.0.0.1:0") }
	qw(proxy.listen proxy.tlsListen health.listen metrics.listen);
my $operator = start('ipu-operator', args => ['--kubeconfig', "$folder/kubeconfig", '--set',
	'operatorNamespace=ipu-operator', '--set', 'controllers=127.0.0.1:' . $sim->port('vipu0'), @listeners]);
my $token = slurp("$folder/token");
my $configmap = '/api/v1/namespaces/ipu-operator/configmaps/ipu-operator-vipu-controllers';
wait_until('the controller has answered', sub {
	(http('GET', $operator->url('proxy', '/stats'))->{json}{total}{available} // 0) == 16;
});

# An operator that says what the files of its folder say: FILE for /…/FILE, its status in the first line.
# It writes what it was asked to "requests"; "hang" is never answered.
my $answers = test_dir() . '/answers';
mkdir $answers or die "$answers: $!\n";
my $stub_code = spit(test_dir() . '/stub.pl', <<'END');
use strict; use warnings; use IO::Socket::INET;
my ($folder, $file) = ($ARGV[0], $ARGV[1] =~ s/^--ports-file=//r);
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 16) or die "listen: $!\n";
sub write_file { my ($path, $text) = @_; open(my $out, '>', "$path.new") or die; print {$out} $text; close $out;
	rename "$path.new", $path or die }
sub read_file { open(my $in, '<', $_[0]) or return undef; local $/; return scalar <$in> }
$SIG{TERM} = sub { exit 0 };
write_file($file, 'stub ' . $listener->sockport . "\n");
my (@hung, $requests);
while (my $peer = $listener->accept) {
	my ($line, $length) = (scalar(<$peer>) // '', 0);
	while (defined(my $header = <$peer>)) { $length = $1 if $header =~ /^content-length: (\d+)/i; last if $header =~ /^\r?\n/ }
	read($peer, my $body, $length) if $length;
	my ($name) = $line =~ m{^\S+ \S*?/([\w.]*)(?:\?\S*)? HTTP};
	$requests .= $line =~ s/ HTTP.*\r\n//r . "\n";
	write_file("$folder/requests", $requests);
	if (($name // '') eq 'hang') { push @hung, $peer; next }
	my ($status, $text) = split /\n/, read_file("$folder/" . ($name // '')) // "404\n" . '{"detail":"not here"}', 2;
	print {$peer} "HTTP/1.1 $status Whatever\r\nContent-Type: application/json\r\nContent-Length: ",
		length($text), "\r\nConnection: close\r\n\r\n$text";
	close $peer;
}
END
my $stub = start('stub', path => $^X, args => [$stub_code, $answers]);

# Runs ipuctl; no HOME, no kubeconfig but those given.
my %nowhere = (HOME => test_dir() . '/nobody', KUBECONFIG => undef, IPUCTL_SERVER => undef,
	KUBERNETES_SERVICE_HOST => undef);
sub ctl { my ($words, %env) = @_; return run([program('ipuctl'), @$words], env => {%nowhere, %env}, seconds => 30) }
sub in_place { return ctl(['--server', $operator->url('proxy', ''), @_]) }
sub through { return ctl(['--kubeconfig', "$folder/kubeconfig", @_]) }
sub stubbed { return ctl(['--server', $stub->url('stub', '/a/path/'), @_]) }
sub both { return ctl(['--server', $stub->url('stub', ''), '--kubeconfig', "$folder/kubeconfig", @_]) }

# What it prints, and that nothing is wrong.
sub prints {
	my ($result, $want, $name) = @_;
	is($result->{out}, $want, $name);
	is($result->{status}, 0, '... all is well') or diag($result->{err});
	return is($result->{err}, '', '... and nothing else is said');
}

# How it fails: status, and words on standard error; nothing on standard output.
sub fails {
	my ($result, $status, $words, $name) = @_;
	is($result->{status}, $status, "$name: status $status");
	like($result->{err}, $words, '... says why');
	return is($result->{out}, '', '... and prints nothing');
}

sub api {
	my ($method, $path, %more) = @_;
	$more{headers}{authorization} = "Bearer $token";
	return http($method, $sim->url('api-plain', $path), %more);
}

sub annotations { return api('GET', $configmap)->{json}{metadata}{annotations} // {} }

sub answer {
	my ($name, $content, $status) = @_;
	my $text = ref $content ? json_encode($content) : $content;
	rename(spit("$answers/$name.new", ($status // 200) . "\n$text"), "$answers/$name") or die "$answers/$name: $!\n";
	return;
}

my $stats = "NAMESPACE   USED   AVAILABLE\nTOTAL       0      16\n";

subtest 'in place' => sub {
	prints(in_place('stats'), $stats, 'stats');
	prints(in_place('stats', '--no-headers'), "TOTAL   0   16\n", 'stats without heads');
	prints(in_place('stats', '-o', 'yaml'), "total:\n  used: 0\n  available: 16\n", 'stats as YAML');
	is_deeply(json_decode(in_place('-ojson', 'stats')->{out}), {total => {used => 0, available => 16}}, 'stats as JSON');
	prints(in_place('query', '4'), "AVAILABLE   PARTITIONS   MESSAGE\nyes         4            <none>\n", 'query');
	like(in_place('query', 3)->{out}, qr/^yes +0 +the size .* power of two/m, 'a size that cannot be');
	prints(ctl(['stats'], IPUCTL_SERVER => $operator->url('proxy', '')), $stats, 'the server by IPUCTL_SERVER');
};

subtest 'through the API server' => sub {
	fails(through('stats'), 1, qr/services "ipu-operator-vipu-proxy" not found\n.*--operator-namespace and --service/, 'without a Service');
	my %service = (apiVersion => 'v1', kind => 'Service', metadata => {name => 'ipu-operator-vipu-proxy'},
		spec => {clusterIP => '127.0.0.1', ports => [{port => 80, name => 'http', targetPort => $operator->port('proxy') + 0}]});
	is(api('POST', '/api/v1/namespaces/ipu-operator/services', json => \%service)->{status}, 201, 'the Service');
	prints(through('stats'), $stats, 'stats');
	like(through('query', 8)->{out}, qr/^yes +2 /m, 'query');
	prints(ctl(['stats', '--service=ipu-operator-vipu-proxy:http'], KUBECONFIG => "$folder/kubeconfig"), $stats, 'a port by its name');
	fails(through('stats', '--operator-namespace', 'default'), 1, qr/not found/, 'in another namespace');
	fails(through('stats', '--service', 'x:80:80'), 2, qr/--service/, 'a name that is none');
	fails(through('stats', '--service', 'ipu-operator-vipu-proxy:81'), 3, qr/no service port/, 'a port that is none');
	spit(test_dir() . '/stranger', slurp("$folder/kubeconfig") =~ s/token: \S+/token: "wrong"/r);
	fails(ctl(['stats', '--kubeconfig', test_dir() . '/stranger']), 1, qr/Unauthorized|credentials/, 'a stranger');
	http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'lose', resource => 'services', count => 0});
	fails(through('stats'), 3, qr/reset the stream/, 'an answer that is lost');
	http('DELETE', $sim->url('admin', '/sim/api/faults'));
	$service{metadata}{name} = 'gone';
	$service{spec}{ports}[0]{targetPort} = closed_port();
	api('POST', '/api/v1/namespaces/ipu-operator/services', json => \%service);
	fails(through('stats', '--service=gone'), 3, qr/error trying to reach service/, 'nobody behind the Service');
};

subtest 'a controller out of service' => sub {
	my $name = '127.0.0.1:' . $sim->port('vipu0');
	like(through('controllers')->{out}, qr/^\Q$name\E +Ready +16 +0 +0 +16 +0 +<none>$/m, 'controllers');
	like(through('capacity', '-o', 'wide')->{out}, qr/^TOTAL +- +16 +0 +0 +0 +16 +16 +-$/m, 'capacity');
	is(through($_)->{status}, 0, $_) for qw(queue partitions);
	prints(through('controllers', 'cordon', $name), "controller/$name cordoned\n", 'cordon');
	wait_until('the operator to see it', sub { through('controllers')->{out} =~ /^\Q$name\E +Ready,Cordoned /m });
	like(through('query', 1)->{out}, qr/^yes +0 /m, '... and nothing can be made there');
	is(through('drain', $name, '--wait', 30)->{out}, "controller/$name draining\ncontroller/$name drained\n", 'drain an empty one');
	prints(through('uncordon', $name), "controller/$name uncordoned\n", 'uncordon');
	wait_until('the operator to use it again', sub { through('query', 1)->{out} =~ /^yes +16 /m });
	is(api('DELETE', $configmap)->{status}, 200, 'the ConfigMap goes');
};

# A port on which nobody listens: a socket is bound there and doesn't, for as long as the test runs.
my @bound;
sub closed_port {
	require IO::Socket::INET;
	push @bound, IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Proto => 'tcp') || die "bind: $!\n";
	return $bound[-1]->sockport;
}

subtest 'kubectl proxy' => sub {
	my ($kubectl) = grep { -x } map { "$_/kubectl" } split /:/, $ENV{PATH};
	plan skip_all => 'no kubectl on this machine (./setup --tests)' if !$kubectl;
	my $proxy = start('kubectl', path => $kubectl, ports => 0, args => ['proxy', '--port=0', '--kubeconfig', "$folder/kubeconfig"]);
	my $port = wait_until('kubectl proxy to begin', sub { ($proxy->out // '') =~ /127\.0\.0\.1:(\d+)/ ? $1 : undef });
	my $url = "http://127.0.0.1:$port/api/v1/namespaces/ipu-operator/services/ipu-operator-vipu-proxy:80/proxy";
	prints(ctl(['stats', '--server', $url]), $stats, 'stats');
	like(ctl(['query', 16, '--server', "$url/"])->{out}, qr/^yes +1 /m, 'query');
	fails(ctl(['stats', '--server', $url =~ s/:80/:9/r]), 3, qr/no service port/, "the API server's words come through");
	$proxy->stop(status => 143);
};

subtest 'what is printed' => sub {
	answer(queue => {items => []});
	my $empty = stubbed('queue');
	is_deeply([@$empty{qw(status out err)}], [0, '', "Nobody waits for IPUs.\n"], 'an empty queue');
	like(stubbed('queue', '-o', 'json')->{out}, qr/^\{\s+"items": \[\]\s+\}\n\z/, '... as JSON');
	my %wait = (position => 1, namespace => 'default', kind => 'IPUJob', name => 'bert', instance => 0, ipus => 64,
		priority => 5, since => '2020-01-01T00:00:00Z', reason => 'WaitingForIPUs', message => 'all in use');
	answer(queue => {items => [\%wait]});
	like(stubbed('queue')->{out}, qr/^POSITION .* REASON\n1 +default +ipujob\/bert +0 +64 +5 +\d+y\d*d? +WaitingForIPUs\n\z/, 'queue');
	like(stubbed('queue', '-o', 'wide')->{out}, qr/ MESSAGE\n.* all in use\n/, '... with its messages');
	like(slurp("$answers/requests"), qr{^GET /a/path/queue$}m, "the server's path stands in front");
	answer(query => {available => JSON::PP::true, numOfPartitions => 7, message => ''});
	like(stubbed('query', '4')->{out}, qr/^yes +7 /m, 'query of a server that answers GET');
	like(slurp("$answers/requests"), qr{/queue\nGET /a/path/query\?size=4\n\z}, '... which needs no POST');
	answer(controllers => {items => [controller('a:1'), controller('b:1', reachable => JSON::PP::false)]});
	answer(capacity => {controllers => [{name => 'a:1', usedIPUs => 3, externalIPUs => 1, freeIPUs => 12}], total => {}});
	like(stubbed('controllers')->{out}, qr/^a:1 +Ready +16 +3 +1 +12 +2 +<none>\nb:1 +Unreachable +16 +<none> +<none> +<none> +2 +/m, 'controllers');
	is(scalar @{json_decode(stubbed('controllers', '-o', 'json')->{out})->{items}}, 2, '... as JSON');
	my $checked = stubbed('controllers', '--check');
	is($checked->{status}, 1, 'one that doesn\'t answer');
	like($checked->{out}, qr/^b:1 +Unreachable /m, '... is shown');
	is($checked->{err}, "ipuctl: 1 of 2 V-IPU controllers can't be reached\n", '... and told');
	answer(controllers => {items => [controller('a:1')]});
	is(stubbed('controllers', '--check', '-o', 'json')->{status}, 0, 'all answer');
	answer(controllers => {items => []});
	fails(stubbed('controllers', '--check'), 1, qr/^ipuctl: there is no V-IPU controller\n\z/, 'there is none');
	is(stubbed('controllers')->{status}, 0, '... which is well unless it is checked');
	fails(stubbed('capacity', '--check'), 2, qr/takes no --check/, 'what can\'t be checked');
	like(stubbed('capacity')->{out}, qr/^a:1 +Unreachable +<none> +3 /m, 'capacity');
	my %much = (ipus => 0 + '9223372036854775807', since => '2020-01-01T00:00:00Z', owner => {kind => 'IPUJob', namespace => 'default', name => 'bert'});
	answer(partitions => {items => [\%much, {%much}, {%much, ipus => -1}]});
	answer(queue => {items => [{%wait, ipus => $much{ipus}}, \%wait]});
	my $sums = json_decode(stubbed('top', '--once', '-o', 'json')->{out});
	is_deeply([map { "$_->{ipus} $_->{ipuSeconds}" } $sums->{jobs}[0]], ['9223372036854775807 9223372036854775'], 'sums over numbers that no machine has end at the most there is');
	is("$sums->{namespaces}[0]{waitingIPUs}", '9223372036854775807', '... those who wait');
};

sub controller {
	my ($name, %more) = @_;
	return {name => $name, reachable => JSON::PP::true, reason => '', cordoned => JSON::PP::false, draining => JSON::PP::false,
		configured => JSON::PP::true, version => '1', ipus => 16, partitions => 2, label => '', %more};
}

subtest 'watching' => sub {
	answer(partitions => {items => [partition('one')]});
	my $watch = start('ipuctl', ports => 0, env => \%nowhere,
		args => ['--server', $stub->url('stub', ''), 'partitions', '-w', '--no-headers']);
	wait_until('the first partition', sub { ($watch->out // '') =~ / one\n/ });
	answer(partitions => {items => [partition('two')]});
	wait_until('the second one', sub { ($watch->out // '') =~ / one\n\n.* two\n/ });
	$watch->stop(status => 143);
};

sub partition {
	my ($id) = @_;
	return {id => $id, state => 'active', controller => 'a:1', ipus => 4, since => '2020-01-01T00:00:00Z', reason => '',
		owner => {kind => 'IPUJob', namespace => 'default', name => 'mnist', uid => 'u'}, instance => 0};
}

subtest 'cordon, drain and uncordon' => sub {
	answer(controllers => {items => [controller('a:1'), controller('[::1]:8090')]});
	fails(both('cordon', 'c:1'), 1, qr/has no controller c:1.*it has a:1, \[::1\]:8090/, 'an unknown name');
	fails(both('cordon', 'a:1,b:1'), 2, qr/no controller's name/, 'a list is no name');
	is(api('GET', $configmap)->{status}, 404, 'nothing has been made');
	prints(both('controllers', 'cordon', 'a:1'), "controller/a:1 cordoned\n", 'cordon makes the ConfigMap');
	is_deeply(annotations(), {'graphcore.ai/cordon' => 'a:1'}, '... with the annotation');
	my $version = api('GET', $configmap)->{json}{metadata}{resourceVersion};
	prints(both('cordon', 'a:1'), "controller/a:1 already cordoned\n", 'once more');
	is(api('GET', $configmap)->{json}{metadata}{resourceVersion}, $version, '... writes nothing');
	is(http('POST', $sim->url('admin', '/sim/api/faults'),
		json => {kind => 'status', status => 409, verb => 'patch', resource => 'configmaps', count => 2})->{status}, 204, 'conflicts');
	prints(both('drain', '[::1]:8090', 'a:1'), "controller/[::1]:8090 draining\ncontroller/a:1 draining\n", 'drain, behind two conflicts');
	is_deeply(annotations(), {'graphcore.ai/cordon' => 'a:1', 'graphcore.ai/drain' => '[::1]:8090,a:1'}, '... both are there');
	prints(both('uncordon', 'a:1', 'x:1'), "controller/a:1 uncordoned\ncontroller/x:1 isn't cordoned\n", 'uncordon');
	is_deeply(annotations(), {'graphcore.ai/drain' => '[::1]:8090'}, '... takes it out of both');
	prints(both('cordon', 'c:1', '--force'), "controller/c:1 cordoned\n", 'an unknown name by force');
	answer(controllers => {detail => 'denied: Authorization: Bearer abc'}, 403);
	fails(both('cordon', 'a:1'), 1, qr/: denied: Authorization:$/m, 'an answer that says a token');
	http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 403, verb => 'patch', resource => 'configmaps', message => "not for $token"});
	fails(both('cordon', 'd:1', '--force'), 1, qr/: not for$/m, '... and one of the API server\'s that says ours');
	answer(controllers => {detail => 'details are off'}, 403);
	fails(both('cordon', 'a:1'), 1, qr/--force.*details are off/, 'names that cannot be checked');
	fails(ctl(['cordon', 'a:1', '--server', $stub->url('stub', '')]), 2, qr/Kubernetes API is needed/, 'without a kubeconfig');
	http('POST', $sim->url('admin', '/sim/api/faults'), json => {kind => 'status', status => 409, verb => 'patch', resource => 'configmaps', count => 0});
	fails(both('cordon', 'd:1', '--force'), 1, qr/ConfigMap ipu-operator\/ipu-operator-vipu-controllers/, 'conflicts without end');
	http('DELETE', $sim->url('admin', '/sim/api/faults'));
};

# How often the stub was asked for something.
sub requests { return scalar(() = (slurp("$answers/requests") // '') =~ /\n/g) }

# Writes the page that ipuctl's clock stands still at (core/clock.h: struct clock_page).
sub set_clock {
	my ($ms) = @_;
	my $page = pack('a8 q<7', "\0IPUCLK1", 0, 1, $ms, 1_700_000_000_000 + $ms, 0, 0, 0);
	return spit("$folder/clock", $page) if !-e "$folder/clock";
	open(my $out, '+<:raw', "$folder/clock") or die "clock: $!\n";
	syswrite($out, $page) == length $page or die "clock: $!\n";
	return close($out);
}

# ipuctl waits for ten seconds of its clock, which passes while it's looked on: what it says.
sub wait_in_vain {
	my @more = @_;
	my $now = 1_000_000;
	my $asked = requests();
	set_clock($now);
	my $drain = start('ipuctl', ports => 0, env => {%nowhere, IPU_CLOCK_PAGE => "$folder/clock"},
		args => ['--server', $stub->url('stub', ''), '--kubeconfig', "$folder/kubeconfig", 'drain', 'a:1', '--wait', 10, @more]);
	wait_until('it ends', sub {
		sleep(0.3);
		set_clock($now += 1000) if requests() >= $asked + (@more ? 1 : 2); # for the name, unless by force, and for what is left
		return !$drain->is_alive;
	}, while_alive => []);
	cmp_ok($now, '>=', 1_009_000, 'it ends when its time is over');
	cmp_ok(requests(), '>=', $asked + (@more ? 2 : 3), '... and has looked again meanwhile');
	$drain->stop(status => 1);
	return $drain->err;
}

subtest 'waiting for a drained controller' => sub {
	answer(controllers => {items => [controller('a:1')]});
	like(wait_in_vain(), qr/\A\S+ 2 partitions to go\n.*after 10 s partitions are left/s, 'in vain: status 1, with those that there are');
	answer(controllers => {items => [controller('a:1', partitions => 0)]});
	like(wait_in_vain(), qr/\A\S+ after 10 s the operator hasn't begun to drain/, '... and one that is empty and may get some yet');
	answer(controllers => {items => []});
	like(wait_in_vain('--force'), qr/\A\S+ after 10 s the operator has no controller a:1$/, '... and one that the operator does not know (yet)');
	my $lies = sub { answer(controllers => {items => [map { controller($_->[0], draining => JSON::PP::true, partitions => 0 + $_->[1]) } @_]}) };
	$lies->(['a:1', -2], ['[::1]:8090', 2]);
	like(wait_in_vain('[::1]:8090', '--force'), qr/\A\S+ 2 partitions to go\n.*after 10 s partitions are left/s, '... and what one says less than none of');
	$lies->(map { [$_, '9223372036854775807'] } 'a:1', '[::1]:8090');
	like(wait_in_vain('[::1]:8090', '--force'), qr/\A\S+ 9223372036854775807 partitions to go\n.*after 10 s partitions are left/s, '... and more than can be counted');
	answer(controllers => {items => [controller('a:1')]});
	my $drain = start('ipuctl', ports => 0, env => \%nowhere, args => ['--server', $stub->url('stub', ''),
		'--kubeconfig', "$folder/kubeconfig", 'drain', 'a:1', '--wait', 60]);
	wait_until('it waits', sub { ($drain->err // '') =~ /2 partitions to go/ });
	answer(controllers => {detail => 'a new version is coming'}, 503);
	my $asked = requests();
	wait_until('it has asked twice', sub { requests() >= $asked + 2 });
	answer(controllers => {items => [controller('b:1')]}); # an operator that has just started
	$asked = requests();
	wait_until('it goes on without a word of its controller', sub { requests() >= $asked + 2 });
	answer(controllers => {items => [controller('a:1', draining => JSON::PP::true, partitions => 1)]});
	wait_until('one is left', sub { ($drain->err // '') =~ /1 partition to go/ });
	answer(controllers => {items => [controller('a:1', draining => JSON::PP::true, partitions => 0)]});
	wait_until('it ends', sub { !$drain->is_alive }, while_alive => []);
	is($drain->out, "controller/a:1 already draining\ncontroller/a:1 drained\n", 'drained');
	$drain->stop(status => 0);
};

subtest 'exit status' => sub {
	fails(ctl([]), 2, qr/a command is needed/, 'no command');
	fails(ctl(['stats', '--kubeconfig', '/nowhere/config']), 2, qr{/nowhere/config}, 'no such kubeconfig');
	SKIP: {
		skip 'somebody is there', 2 if IO::Socket::INET->new('127.0.0.1:8080');
		fails(ctl(['stats']), 3, qr/since there is no kubeconfig: set KUBECONFIG, or say by --server/, 'no kubeconfig, and nobody here');
		fails(ctl(['stats'], KUBECONFIG => '/nowhere/config'), 3, qr/since no file that KUBECONFIG names is there: correct it, or say by --server/, '... one that is not there');
	}
	fails(ctl(['stats', '--server', 'ftp://x']), 2, qr/neither http/, 'another scheme');
	fails(in_place('query', 0), 2, qr/above 0/, 'no size');
	fails(ctl(['stats', '--server', 'http://127.0.0.1:' . closed_port()]), 3, qr/refused\n.*from --server/, 'nobody there');
	fails(ctl(['stats', '--server', $operator->url('health', '')]), 1, qr/nothing at .*\n.*from --server/, 'the wrong port');
	answer(stats => 'hello');
	fails(stubbed('stats'), 3, qr/isn't JSON: is this the operator/, 'something else there');
	answer(queue => {detail => 'details are off'}, 403);
	fails(stubbed('queue'), 1, qr/^ipuctl: details are off$/m, 'a no, in its own words');
	fails(ctl(['stats', '--timeout=1', '--server', $stub->url('stub', '/hang?')]), 2, qr/query/, 'a URL with a query');
	answer(partitions => {items => [map { partition("p$_") } 1 .. 5000]});
	my $url = $stub->url('stub', '');
	my $pipe = run(['bash', '-c', program('ipuctl') . " --server $url partitions | head -c 1 >/dev/null; exit \${PIPESTATUS[0]}"], env => \%nowhere);
	is_deeply([@$pipe{qw(status err)}], [141, ''], 'a reader that has gone');
	my $full = run(['bash', '-c', program('ipuctl') . " --server $url partitions >/dev/full"], env => \%nowhere);
	is($full->{status}, 1, 'no room for the output');
	like($full->{err}, qr/standard output: No space/, '... is said');
	like(ctl(['--version'])->{out}, qr/^ipuctl \d/, '--version');
	like(ctl(['help', 'drain'])->{out}, qr/^Usage: ipuctl drain NAME.*--wait SECONDS/s, 'help of a command');
	is(ctl(['drain', '--help'])->{out}, ctl(['help', 'drain'])->{out}, '... either way');
	like(ctl(['drain', '--help'])->{out}, qr/--force\b/, '... with the options that change something');
	fails(ctl(['help', 'frain']), 2, qr/no such command/, 'help of none');
};

subtest 'time and trust' => sub {
	spit(test_dir() . '/ca', decode_base64((slurp("$folder/kubeconfig") =~ /certificate-authority-data: "?([^"\s]+)/)[0]));
	my $https = 'https://127.0.0.1:' . $sim->port('api');
	fails(ctl(['stats', '--server', $https]), 3, qr/certificate/i, 'a certificate of nobody that we know');
	fails(ctl(['stats', '--server', $https, '--ca-file', test_dir() . '/ca']), 1, qr/Unauthorized/, 'with its CA: an answer');
	fails(ctl(['stats', '--server', $https, '--ca-file', '/nowhere/ca']), 2, qr{/nowhere/ca}, 'no such file');
	fails(ctl(['stats', '-t1', '--server', silent()]), 3, qr/time|deadline/i, 'no answer in time');
};

# A listener that takes connections and never answers.
sub silent {
	require IO::Socket::INET;
	push @bound, IO::Socket::INET->new(LocalAddr => '127.0.0.1:0', Listen => 4) || die "listen: $!\n";
	return 'http://127.0.0.1:' . $bound[-1]->sockport;
}

$operator->stop(status => 0);
$sim->stop(status => 0);
$stub->stop(status => 0);
done_testing();
