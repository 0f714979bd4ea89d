# SPDX-License-Identifier: Apache-2.0
#
# What the benchmarks of t/bench share: their options, figures with median, spread and bar, the machine's noise beside them, and
# the programs that they start, in pairs of processors where there are two. doc/design/bench.md. Core modules and IpuTest only.
package Bench;

use v5.36;

use BenchPlot;
use Exporter qw(import);
use IO::Handle ();
use File::Spec ();
use Getopt::Long qw(GetOptionsFromArray);
use IpuTest qw(http json_decode json_encode program program_or_skip run slurp spit start test_dir wait_until watchdog);
use IpuTree qw(top_srcdir);
use Time::HiRes qw(time);

our @EXPORT_OK = qw(options figure row note finish noise children_cpu_s cpu_s resident_kb tool tool_on tool_end tool_path must start_sim start_operator
	start_proxy wait_ready partition_request partitions kubectl delete_all names running_patches job job_requests write_requests on_first on_second);

STDOUT->autoflush(1);
my (%opt, @lines, %noise_at);
my $job_path = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
my $processors = () = (slurp('/proc/cpuinfo') // '') =~ /^processor\s/mg;

# ---- options ----

# The options of a benchmark: its own with their defaults, which also say whether they are numbers or words, and those of all: runs; json,
# the file to which each figure is appended; kubeconfig, where the line can be measured on another API server than ipu-sim.
# $seconds: how long it may take at most.
sub options ($seconds, %own) {
	%opt = (runs => 3, json => '', kubeconfig => '', %own);
	my @argv = @ARGV;
	GetOptionsFromArray(\@argv, \%opt, map { $_ . ($opt{$_} =~ /^\d+$/ ? (/^(?:seconds|settle)$/ ? '=f' : '=i') : '=s') } keys %opt) && !@argv
		or die "see the beginning of $0\n";
	$opt{kubeconfig} = File::Spec->rel2abs($opt{kubeconfig}) if $opt{kubeconfig};
	watchdog($seconds);
	%noise_at = noise_now();
	return \%opt;
}

# ---- figures ----

sub median (@all) {
	my @sorted = sort { $a <=> $b } @all;
	return @sorted % 2 ? $sorted[ $#sorted / 2 ] : ($sorted[ @sorted / 2 - 1 ] + $sorted[ @sorted / 2 ]) / 2;
}

# One line of the table: what was measured, in which unit, and each run's figure. Option bar: '<= 50', '>= 2000', or '< 1'; of the
# median. Options: id, a name that stays, for programs; series and n, of which plot it is, and at which number; growth and without, how that's
# judged (BenchPlot). Printed at once, and kept for --json.
sub figure ($what, $unit, $runs, %option) {
	my ($least, $most) = (sort { $a <=> $b } @$runs)[ 0, -1 ];
	my %line = (bench => $0 =~ s{.*/|\.pl$}{}gr, what => $what, unit => $unit, runs => [ map { 0 + sprintf '%.6g', $_ } @$runs ],
		median => 0 + sprintf('%.6g', median(@$runs)), least => 0 + sprintf('%.6g', $least), most => 0 + sprintf('%.6g', $most),
		at => time_text(), noise => noise(), %option);
	if (my ($sign, $bar) = ($option{bar} // '') =~ /^(<=|>=|<) ([\d.]+)$/) {
		my $m = median(@$runs);
		$line{held} = ($sign eq '<=' ? $m <= $bar : $sign eq '>=' ? $m >= $bar : $m < $bar) ? JSON::PP::true : JSON::PP::false;
	} elsif (exists $option{bar}) {
		die "$what: no such bar: $option{bar}\n";
	}
	push @lines, \%line;
	say row(\%line);
	return;
}

# A figure as a row, by the same code in each benchmark and in the table of all.
sub row ($line) {
	my $bar = $line->{bar} ? "  $line->{bar} " . ($line->{held} ? 'held' : 'MISSED') : '';
	return sprintf '%-62s %10s %-12s %2d runs, %s to %s%s%s', $line->{what}, text($line->{median}), $line->{unit},
		scalar @{ $line->{runs} }, text($line->{least}), text($line->{most}), $bar,
		$line->{noise}{steal} > 1 ? sprintf('  (stolen: %.0f %%)', $line->{noise}{steal}) : '';
}

sub text ($n) { return abs($n) >= 1000 ? sprintf('%.0f', $n) : abs($n) >= 100 ? sprintf('%.1f', $n) : abs($n) >= 1 ? sprintf('%.2f', $n) : sprintf('%.4f', $n) }

sub note ($words) { say "  $words"; return }

# Ends the programs that are given, and the benchmark: says how what it measured grows, and writes the figures (the table judges the
# growth of all by itself).
sub finish (@programs) {
	$_->stop(status => 0) for @programs;
	say row($_) for BenchPlot::growth(\@lines);
	if ($opt{json}) {
		open(my $out, '>>', $opt{json}) or die "$opt{json}: $!\n";
		print {$out} map { json_encode($_) . "\n" } @lines;
		close($out) or die "$opt{json}: $!\n";
	}
	Test::More::ok(@lines > 0, scalar(@lines) . ' figures');
	Test::More::done_testing();
	return;
}

# ---- the machine ----

sub time_text () { my @t = gmtime; return sprintf '%04d-%02d-%02dT%02d:%02d:%02dZ', $t[5] + 1900, $t[4] + 1, @t[ 3, 2, 1, 0 ] }

sub noise_now () {
	my @f = (slurp('/proc/stat') // '') =~ /^cpu +(.*)$/m ? split / /, $1 : ();
	my $all = 0;
	$all += $_ for @f[ 0 .. 7 ];
	return (steal => $f[7], idle => $f[3] + $f[4], all => $all);
}

# Since the last question: of all processors' time, what the host gave to others (stolen) and what was left over, in per cent; and the
# load of one minute.
sub noise () {
	my %now = noise_now();
	my $all = $now{all} - $noise_at{all} || 1;
	my %noise = map { $_ => 0 + sprintf '%.1f', 100 * ($now{$_} - $noise_at{$_}) / $all } qw(steal idle);
	%noise_at = %now;
	$noise{load} = 0 + (split / /, slurp('/proc/loadavg'))[0];
	return \%noise;
}

# Of a process: processor time until now, in seconds to the nanosecond where the kernel counts so; resident memory.
sub cpu_s ($pid) {
	my ($ns) = (slurp("/proc/$pid/schedstat") // '') =~ /^(\d+)/;
	return $ns / 1e9 if defined $ns;
	my @f = split / /, slurp("/proc/$pid/stat") =~ s/^.*\) //sr;
	return ($f[11] + $f[12]) / 100;
}

# Of the children that it has waited for, and theirs.
sub children_cpu_s ($pid) {
	my @f = split / /, slurp("/proc/$pid/stat") =~ s/^.*\) //sr;
	return ($f[13] + $f[14]) / 100;
}

sub resident_kb ($pid) { return slurp("/proc/$pid/smaps_rollup") =~ /^Rss:\s+(\d+) kB/m ? $1 : 0 }

# The words before a command that give it the first or the second processor to itself.
sub on_first () { return $processors > 1 ? (program_or_skip('taskset'), '-c', '0') : () }
sub on_second () { return $processors > 1 ? (program_or_skip('taskset'), '-c', '1') : () }

# ---- programs ----

sub must ($argv, %more) {
	my $done = run($argv, seconds => 300, %more);
	$done->{status} == 0 or die "@$argv: $done->{out}$done->{err}\n";
	return $done->{out};
}

# A measuring program of t/tools: where it is; to its end, and what it says; what one that was started says once it has ended.
sub tool_path ($name) { return program("t/tools/bench-$name") }
sub tool ($name, @args) { return tool_on([], $name, @args) }
sub tool_on ($before, $name, @args) { return last_line(must([ @$before, tool_path($name), @args ])) }
sub tool_end ($program) {
	wait_until("$program->{name} to end", sub { !$program->is_alive }, seconds => 300, while_alive => []);
	die $program->report if $program->status;
	my $said = last_line($program->out);
	$program->stop(status => 0);
	return $said;
}
sub last_line ($text) { return json_decode((split /\n/, $text)[-1]) }

sub openssl_pair ($dir) {
	must([ program_or_skip('openssl'), qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost
		-addext subjectAltName=DNS:localhost -keyout), "$dir/key.pem", '-out', "$dir/cert.pem" ]);
	return ("$dir/cert.pem", "$dir/key.pem");
}

# ipu-sim with these options; on another's API server its V-IPU controllers alone, and there the CustomResourceDefinition is installed
# and what is recorded of partitions forgotten, which were of other controllers. {kubeconfig} is where Kubernetes is.
sub start_sim (%option) {
	my $dir = test_dir() . '/sim' . (0 + time());
	my @where = $opt{kubeconfig} ? '--vipu-only' : ('--dir', $dir);
	my $sim = start('ipu-sim', args => [ @where, map { my $v = $option{$_}; '--' . tr/_/-/r . "=$v" }
		grep { !$opt{kubeconfig} || /^(controllers|agents|create_ms|remove_ms)$/ } sort keys %option ]);
	$sim->{kubeconfig} = $opt{kubeconfig} || "$dir/kubeconfig";
	$sim->{controllers} = join ',', map { '127.0.0.1:' . $sim->port("vipu$_") } 0 .. ($option{controllers} // 1) - 1;
	if ($opt{kubeconfig}) {
		kubectl($sim, 'apply', '-f', top_srcdir() . '/crds/graphcore.ai_ipujobs.yaml');
		kubectl($sim, qw(delete configmaps -l app.kubernetes.io/component=partition-tracker));
	}
	return $sim;
}

# The operator's settings on that: KEY => VALUE.
sub settings ($sim, %more) {
	return map { ('--set', $_) } (map { "$_=127.0.0.1:0" } qw(proxy.listen proxy.tlsListen webhook.listen health.listen metrics.listen)),
		'operatorNamespace=default', 'launcher.image=registry/launcher', 'webhook.drainSeconds=0', "controllers=$sim->{controllers}",
		map { "$_=$more{$_}" } sort keys %more;
}

# The operator, on the first processor unless beside => 1 says that it isn't what is measured alone; roles, set => {…}, before => [words in front].
sub start_operator ($sim, %option) {
	my @before = $option{beside} ? () : on_first();
	my @argv = (@before, @{ $option{before} // [] }, program('ipu-operator'), '--kubeconfig', $sim->{kubeconfig},
		$option{roles} ? ('--roles', $option{roles}) : (), settings($sim, %{ $option{set} // {} }));
	return start('ipu-operator', path => shift @argv, args => \@argv);
}

sub wait_ready ($daemon) {
	return wait_until('the operator', sub { http('GET', $daemon->url('health', '/readyz'))->{status} == 200 });
}

# The proxy with its own certificate, and what a client needs to change partitions there.
sub start_proxy ($sim, %option) {
	my ($cert, $key) = openssl_pair(test_dir());
	my $daemon = start_operator($sim, roles => 'proxy', %option,
		set => { 'proxy.tlsCertFile' => $cert, 'proxy.tlsKeyFile' => $key, %{ $option{set} // {} } });
	wait_ready($daemon);
	return { daemon => $daemon, cert => $cert, token => account_token($sim) };
}

# A request about partition number $i, for curl: POST asks for it, of one IPU; DELETE releases it.
sub partition_request ($proxy, $method, $i) {
	my $url = 'https://localhost:' . $proxy->{daemon}->port('proxy-tls') . '/v1/partitions' . ($method eq 'DELETE' ? "/uid-$i" : '');
	my $text = qq{url = "$url"\nrequest = "$method"\ncacert = "$proxy->{cert}"\nsilent\nshow-error\nfail\noutput = "/dev/null"\n}
		. qq{header = "Authorization: Bearer $proxy->{token}"\nheader = "Content-Type: application/json"\n};
	return $text if $method eq 'DELETE';
	my $body = json_encode({ owner => { kind => $proxy->{kind} // 'IPUJob', namespace => 'team-' . $i % 20, name => "job-$i", uid => "uid-$i" },
		instance => 0, ipus => 1 }) =~ s/"/\\"/gr;
	return $text . qq{data = "$body"\n};
}

# Asks for these, and waits until all that there are are active.
sub partitions ($proxy, @numbers) {
	my $file = spit(test_dir() . '/asks', join "next\n", map { partition_request($proxy, 'POST', $_) } @numbers);
	must([ program_or_skip('curl'), '--config', $file ]);
	return wait_until('the partitions', sub {
		my $items = http('GET', $proxy->{daemon}->url('proxy', '/partitions'))->{json}{items};
		return @numbers <= grep { $_->{state} eq 'active' } @$items;
	}, seconds => 120);
}

# A token of the controller's account, for the proxy.
sub account_token ($sim) {
	my $name = 'ipu-operator-controller-manager';
	kubectl($sim, 'apply', '-f', spit(test_dir() . '/account.json',
		json_encode({ apiVersion => 'v1', kind => 'ServiceAccount', metadata => { name => $name, namespace => 'default' } })));
	return kubectl($sim, 'create', 'token', $name, '--audience=ipu-operator-proxy') =~ s/\s+\z//r;
}

# ---- Kubernetes ----

sub kubectl ($sim, @words) { return must([ program_or_skip('kubectl'), '--kubeconfig', $sim->{kubeconfig}, '--namespace=default', @words ]) }

# All objects of these in the namespace, or those with a label (KEY=VALUE), and waits until they are gone. IPUJobs go while the operator runs.
sub delete_all ($sim, $plural, $label = '') {
	my $path = ($plural eq 'ipujobs' ? $job_path : "/api/v1/namespaces/default/$plural") . '?labelSelector=' . $label =~ s/=/%3D/r;
	kubectl($sim, 'delete', '--raw', "$path&gracePeriodSeconds=0");
	return wait_until("$plural to be gone", sub { !@{ json_decode(kubectl($sim, 'get', '--raw', "$path&limit=1"))->{items} } }, seconds => 300);
}

sub names ($sim, $plural) { return map { s{.*/}{}r } split /\n/, kubectl($sim, 'get', $plural, '-o', 'name') }

# Patches for bench-api that make these Pods Running, as a kubelet does.
sub running_patches (@names) {
	my $at = '2026-11-21T10:00:00Z';
	my $running = { phase => 'Running', podIP => '10.1.2.3', hostIP => '10.1.2.1', startTime => $at,
		conditions => [ map { { type => $_, status => 'True', lastTransitionTime => $at } } qw(PodScheduled Initialized ContainersReady Ready) ],
		containerStatuses => [ { name => 'main', image => 'registry.example/ml/mnist:3', imageID => 'sha256:0', ready => JSON::PP::true, restartCount => 0,
			started => JSON::PP::true, state => { running => { startedAt => $at } } } ] };
	return write_requests('patches', map { [ PATCH => "/api/v1/namespaces/default/pods/$_/status", { status => $running } ] } @names);
}

# An IPUJob as people write it: what kubectl apply leaves in it, and the API server, is in it too when kept => 1.
sub job ($name, %option) {
	my $job = { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name, namespace => $option{ns} // 'default' },
		spec => { jobInstances => 1, ipusPerJobInstance => '' . ($option{ipus} // 1), workersPerJobInstance => '' . ($option{workers} // 1),
			workers => { template => { metadata => { labels => { app => 'bench' } }, spec => { schedulerName => 'nobody', %{ $option{pod} // {} },
				containers => [ { name => 'main', image => 'registry.example/ml/mnist:3', command => [ 'python3', 'train.py' ],
					env => [ { name => 'IPUOF_LOG_LEVEL', value => 'WARN' } ], %{ $option{container} // {} },
					resources => { limits => { cpu => '1', memory => '2Gi' } } } ] } } } } };
	return $job if !$option{kept};
	$job->{metadata}{annotations} = { 'kubectl.kubernetes.io/last-applied-configuration' => json_encode($job) . "\n" };
	$job->{metadata}{managedFields} = [ { manager => 'kubectl-client-side-apply', operation => 'Update', apiVersion => 'graphcore.ai/v1alpha1',
		time => '2026-11-21T10:00:00Z', fieldsType => 'FieldsV1', fieldsV1 => fields_of($job) } ];
	return $job;
}

sub fields_of ($v) {
	return {} if ref $v ne 'HASH';
	return { map { ("f:$_" => fields_of($v->{$_})) } keys %$v };
}

# A file for bench-api that makes these IPUJobs.
sub job_requests (@jobs) { return write_requests('jobs', map { [ POST => $job_path, $_ ] } @jobs) }

# A file for bench-api: [METHOD, PATH, body] each.
sub write_requests ($name, @requests) {
	return spit(test_dir() . "/$name.requests", join '', map { "$_->[0] $_->[1] " . json_encode($_->[2]) . "\n" } @requests);
}

1;
