# SPDX-License-Identifier: Apache-2.0
#
# Scenario: one interface for stories about the whole operator, told against the simulated Kubernetes
# (Scenario::Sim) or a real one (Scenario::Real). Each scenario has a daemon and V-IPU controllers of
# its own, and reads what happens from API objects, Events and end-points. t/scenarios/README.md.
package Scenario;

use v5.36;
use Exporter qw(import);
use Faults ();
use IpuTest qw(http json_decode json_encode run slurp watchdog);
use IpuTree qw(top_srcdir);
use JSON::PP ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(run_scenarios);

my $with_faults_s = 900; # a scenario behind the fault proxy, on a machine that does much else

my %collection = (
	ipujobs => '/apis/graphcore.ai/v1alpha1',
	priorityclasses => '/apis/scheduling.k8s.io/v1',
	customresourcedefinitions => '/apis/apiextensions.k8s.io/v1',
	map({ $_ => '/apis/admissionregistration.k8s.io/v1' } qw(mutatingwebhookconfigurations validatingwebhookconfigurations)),
	endpointslices => '/apis/discovery.k8s.io/v1',
	map({ $_ => '/apis/rbac.authorization.k8s.io/v1' } qw(roles rolebindings)),
	map { $_ => '/api/v1' } qw(pods configmaps secrets events nodes namespaces services serviceaccounts),
);
my %is_global = map { $_ => 1 } qw(customresourcedefinitions nodes namespaces priorityclasses
	mutatingwebhookconfigurations validatingwebhookconfigurations);
my %registration = (mutatingwebhookconfigurations => 'ipu-operator-mutating-webhook-configuration',
	validatingwebhookconfigurations => 'ipu-operator-validating-webhook-configuration');
my $tracker_ns = 'ipu-operator';
my $tracker_name = 'ipu-partitions-tracker';

# ---- the files ----

# The scenarios of t/scenarios that say that they run there ("sim", "nodes", "scale", "split", "networks"), in the order of
# their names. With IPU_SCENARIO=WORD[,WORD…] only those whose file name holds one of the words (=NAME: is that). Each is a
# subtest. Options: share, [N, OF]: every OF-th of them, from the N-th on; all that are named, in the first share. only, a list
# of names: those, wherever they run otherwise.
sub run_scenarios ($back, $where, %option) {
	my ($done, $place) = (0, 0);
	my ($share, $of) = @{ $option{share} // [ 1, 1 ] };
	my @words = split /,/, $ENV{IPU_SCENARIO} // '';
	for my $path (sort glob top_srcdir() . '/t/scenarios/*.pl') {
		my ($name) = $path =~ m{([^/]+)\.pl$};
		my $text = slurp($path);
		my $runs = runs_on($name, $text);
		$runs = { $where => (grep { $_ eq $name } @{ $option{only} }) ? 1 : 0 } if $option{only};
		next if $runs->{$where} && !@words && $place++ % $of != $share - 1;
		next if !$runs->{$where} || (@words && !(grep { /^=/ ? $_ eq "=$name" : index($name, $_) >= 0 } @words));
		my $begin = time;
		my $refusal = $ENV{IPU_FAULTS} && Faults::refusal($text);
		$done++;
		watchdog($with_faults_s) if $ENV{IPU_FAULTS}; # the test's own is for scenarios without, and for all of them
		subtest $name => sub { $refusal ? plan(skip_all => "no faults: $refusal") : run_one($back, $path, $text) };
		diag(sprintf '%-28s %6.1f s', $name, time - $begin);
	}
	ok($done, 'there is a scenario to run');
	return;
}

# Where a scenario runs, from its header; dies if that says nothing, or "real" without a reason.
sub runs_on ($name, $text) {
	my ($kind, $places, $reason) = $text =~ /^# Runs: (both|real) \(([a-z, ]+)\)(?:: (\S.*))?$/m
		or die "$name: no line \"# Runs: both (sim, nodes)\" or \"# Runs: real (nodes): reason\"\n";
	my %runs = map { $_ => 1 } split /, /, $places;
	my $real = grep { $_ ne 'sim' } keys %runs;
	die "$name: $_ isn't a place to run\n" for grep { !/^(sim|nodes|scale|split|networks)$/ } keys %runs;
	die "$name: both means the simulator and a real Kubernetes\n"
		if $kind eq 'both' && !($runs{sim} && $real);
	die "$name: real alone needs its reason, and isn't for the simulator\n"
		if $kind eq 'real' && (!$reason || $runs{sim});
	return \%runs;
}

sub run_one ($back, $path, $text) {
	my $name = $path =~ s{.*/|\.pl$|\W}{}gr;
	my $code = eval "package Scenario::File::$name;\n#line 1 \"$path\"\n$text"
		or die $@ || "$path: its last value isn't a sub\n";
	my $s = __PACKAGE__->new($back);
	# Events outlive what they are about: those of another scenario's job may bear the same name.
	my $went = eval { $s->must('DELETE', $s->path('events', 'default')) if $s->is_real; $code->($s); 1 };
	my $why = $@;
	if (!$went) {
		fail('the scenario goes to its end');
		diag($why);
	}
	$s->tell_all if !Test::More->builder->is_passing; # while those who know are there
	eval { $s->finish($went); 1 } or do {
		fail('the end is clean');
		diag($@);
		$s->tell_all;
		$s->abandon;
	};
	return;
}

# ---- the actors ----

# A scenario in which nothing has been started yet.
sub new ($class, $back) { return bless { back => $back, programs => [], controllers => [] }, $class }

# Starts the controllers and the daemon. Options: controllers (how many), agents (of 4 IPUs each),
# create_ms, remove_ms; run_pods, Pods' commands are to run in ipu-sim too, as on real nodes; sim, more of ipu-sim's options; set, a list of KEY=VALUE for the daemon; label, of the controllers' nodes; webhook, the
# daemon has that role too, and the API server asks it; crd, another one's text.
sub start ($s, %option) {
	$s->{back}->use_crd($option{crd});
	$s->start_controllers(%option);
	$s->start_operator(set => $option{set}, label => $option{label}, webhook => $option{webhook});
	$s->wait_webhook if $option{webhook};
	return $s;
}

sub start_controllers ($s, %option) {
	my @args = ('--controllers', $option{controllers} // 1, '--agents', $option{agents} // 4,
		'--create-ms', $option{create_ms} // 100, '--remove-ms', $option{remove_ms} // 50,
		@{ $option{sim} // [] });
	$s->{back}->run_pods($option{run_pods});
	$s->{sim} = $s->{back}->start_sim(@args);
	push @{ $s->{programs} }, $s->{sim}, $s->{back}->between;
	$s->{controllers} = [ map { $s->{back}->controller($s->{sim}, $_) } 0 .. ($option{controllers} // 1) - 1 ];
	return;
}

# Starts the daemon: set, more KEY=VALUE; label, the nodes' label of the controllers (KEY=VALUE); webhook, with that role,
# registered by itself under the address where the API server reaches it.
sub start_operator ($s, %option) {
	my $behind = $option{label} ? ":$option{label}" : '';
	my %set = ('operatorNamespace' => $tracker_ns, 'launcher.image' => 'localhost/ipu-launcher:test', 'leaderElection.identity' => 'scenario', map({ split /=/, $_, 2 } split ' ', $ENV{IPU_SCENARIO_SET} // ''),
		'controllers' => join(',', map { "$_$behind" } @{ $s->{controllers} }),
		'launcher.image' => 'localhost/ipu-launcher:test', 'jobs.restartBackoffSeconds' => 1, 'jobs.ranksEndSeconds' => 3,
		'vipu.callTimeoutSeconds' => 2, 'vipu.waitingRefreshSeconds' => 1,
		map({ ($_ => '127.0.0.1:0') } qw(proxy.listen proxy.tlsListen health.listen metrics.listen)),
		$option{webhook} ? $s->webhook_settings : (),
		map { split /=/, $_, 2 } @{ $option{set} // [] });
	$s->{settings} = \%set;
	return $s->restart_operator;
}

sub webhook_settings ($s) {
	my $address = $s->{back}->address;
	$s->{webhook} = 1;
	return ('roles' => 'controller,proxy,webhook', 'webhook.listen' => "$address:0", 'webhook.url' => "https://$address",
		'webhook.drainSeconds' => 0, 'webhook.timeoutSeconds' => 10);
}

# Until the API server asks the webhooks: both of its registrations are there, and it has heard of them. Option: ns.
sub wait_webhook ($s, %option) {
	my $ns = $option{ns} // 'default';
	my $unwise = $s->job('never-made', template => { spec => { restartPolicy => 'Always' } });
	my $pod = $s->pod('never-made', ipus => 1);
	$s->wait_ready;
	$s->wait_for('the API server to ask the validating webhook', sub {
		my $answer = $s->try_create('ipujobs', $unwise, ns => $ns);
		return $answer->{success} && $answer->{headers}{warning};
	});
	$s->wait_for('the API server to ask the mutating webhook', sub {
		my $answer = $s->try_create('pods', $pod, ns => $ns);
		return $answer->{json}{metadata}{labels}{'graphcore.ai/pod'};
	});
	return;
}

# A dry run: what the API server would answer.
sub try_create ($s, $kind, $object, %option) {
	return $s->request('POST', $s->path($kind, $option{ns} // 'default') . '?dryRun=All', json => $object,
		headers => $option{headers} // {});
}

# A registration, by the plural of its kind.
sub registration ($s, $kind) { return $s->get($kind, $registration{$kind}) }

sub unregister ($s) {
	$s->delete($_, $registration{$_}) for sort keys %registration;
	return;
}

# The daemon once more, as before.
sub restart_operator ($s) {
	$s->{operator} = $s->{back}->start_daemon($s->{settings});
	$s->{logs}{ $s->{operator}->pid } = $s->{operator};
	return $s->{operator};
}

# A second daemon with the same settings, beside the first; the scenario ends it.
sub another_operator ($s) {
	my $first = $s->{operator};
	my $other = $s->restart_operator;
	$s->{operator} = $first;
	return $other;
}

# One more with the same settings but for its name and these; the scenario ends it.
sub start_replica ($s, $name, %set) {
	local $s->{settings} = { %{ $s->{settings} }, 'leaderElection.identity' => $name, %set };
	return $s->another_operator;
}

# The role node, for a Node of the cluster: in that one's network, where Kubernetes is a real one. Options: env; set, KEY=VALUEs.
sub start_node_role ($s, $node, %option) {
	my @set = ("node.name=$node", 'health.listen=127.0.0.1:0', @{ $option{set} // [] });
	my $role = $s->{back}->start_on($node, 'ipu-operator', env => $option{env} // {},
		args => [ '--roles=node', '--kubeconfig', $s->{back}->kubeconfig, map { ('--set', $_) } @set ]);
	push @{ $s->{programs} }, $role;
	return $role;
}

# Ends a program before the scenario does; by a signal, as a crash.
sub end_program ($s, $program, $signal = undef) {
	$s->{programs} = [ grep { $_ != $program } @{ $s->{programs} } ];
	return $signal ? $program->crash : $program->stop(status => 0);
}

sub operator ($s) { return $s->{operator} }
sub sim ($s) { return $s->{sim} }
sub back ($s) { return $s->{back} }
sub is_real ($s) { return $s->{back}->is_real }
sub controllers ($s) { return @{ $s->{controllers} } }

# Waits until the daemon (or another one) says that it's ready.
sub wait_ready ($s, $operator = $s->{operator}) {
	my @parts = $operator->isa('Scenario::Split') ? $operator->parts : $operator;
	return $s->wait_for('the operator to be ready', sub {
		return !grep { $s->fetch($_, 'GET', 'health', '/readyz')->{status} != 200 } @parts;
	});
}

# ---- waiting ----

# Polls until the code returns something true, and returns that. Dies when time is over or a program
# ends. Options: seconds; pause, between two looks; despite_errors, while the API server is away.
sub wait_for ($s, $what, $code, %option) {
	my $seconds = ($option{seconds} // 30) * $s->{back}->patience;
	my $pause = $option{pause} // $s->{back}->poll_s;
	return IpuTest::wait_until($what, sub {
		my $got = $option{despite_errors} ? eval { $code->() } : $code->();
		die $@ if $@ && $@ =~ /^the test's deadline/;
		sleep($pause) if !$got;
		return $got;
	}, seconds => $seconds);
}

# ---- the API ----

sub path ($s, $kind, $ns, $name = undef, $sub = undef) {
	my $base = $collection{$kind} // die "no collection $kind\n";
	$base .= "/namespaces/$ns" if !$is_global{$kind} && defined $ns;
	return join '/', "$base/$kind", grep { defined } $name, $sub;
}

# One request to the API server: {status}, {json}, {content}.
sub request ($s, $method, $path, %option) { return $s->{back}->request($method, $path, %option) }

# What takes an API server long, thousands of objects deleted for instance, is waited for.
sub must ($s, $method, $path, %option) {
	my $answer = $s->request($method, $path, seconds => 120, %option);
	return $answer->{json} if $answer->{success};
	die "$method $path: $answer->{status} " . ($answer->{json}{message} // $answer->{content}) . "\n";
}

# An object by kind (plural) and name; undef if it isn't there.
sub get ($s, $kind, $name, $ns = 'default') {
	my $answer = $s->request('GET', $s->path($kind, $ns, $name));
	return undef if $answer->{status} == 404;
	return $answer->{json} if $answer->{success};
	die "get $kind $name: $answer->{status} $answer->{content}\n";
}

sub list ($s, $kind, %option) {
	my $query = $option{labels} ? '?labelSelector=' . ($option{labels} =~ s/=/%3D/gr) : '';
	return @{ $s->must('GET', $s->path($kind, $option{ns}) . $query)->{items} };
}

# Makes an object. One of that name which is on its way out keeps the name until it has gone: a kubelet takes its time.
sub create ($s, $kind, $object, $ns = 'default') {
	my $path = $s->path($kind, $ns);
	return $s->wait_for("the former $object->{metadata}{name} to be gone", sub {
		my $answer = $s->request('POST', $path, json => $object, seconds => 120);
		return $answer->{json} if $answer->{success};
		my $message = $answer->{json}{message} // $answer->{content};
		return undef if $answer->{status} == 409 && $message =~ /^object is being deleted: /;
		die "POST $path: $answer->{status} $message\n";
	}, seconds => 60);
}

sub patch ($s, $kind, $name, $patch, %option) {
	return $s->must('PATCH', $s->path($kind, $option{ns} // 'default', $name, $option{sub}),
		json => $patch, headers => { 'content-type' => 'application/merge-patch+json' });
}

# Asks for a deletion; that it was gone already is fine.
sub delete ($s, $kind, $name, %option) {
	my $answer = $s->request('DELETE', $s->path($kind, $option{ns} // 'default', $name),
		json => $option{options} // {});
	return if $answer->{success} || $answer->{status} == 404;
	die "delete $kind $name: $answer->{status} $answer->{content}\n";
}

# What `kubectl get` shows: a hash of column and cell, or undef.
sub columns ($s, $kind, $name) {
	my $table = $s->must('GET', $s->path($kind, 'default', $name),
		headers => { accept => 'application/json;as=Table;v=v1;g=meta.k8s.io' });
	my @names = map { $_->{name} } @{ $table->{columnDefinitions} };
	my %row;
	@row{@names} = @{ $table->{rows}[0]{cells} };
	return (\@names, \%row);
}

# ---- jobs ----

# An IPUJob's object. Options: ipus; runs, seconds until its Pods end (default: until end_pod); exit;
# words, its last ones; unready, Pods aren't Ready before set_ready; template, merged into the Pod template (a hash of metadata and spec).
sub job ($s, $name, %option) {
	my $template = $option{template} // {};
	my %container = (name => 'main', image => 'localhost/busybox:test', imagePullPolicy => 'Never',
		%{ $option{container} // {} });
	my $job = {
		apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $name },
		spec => { jobInstances => 1, ipusPerJobInstance => '' . ($option{ipus} // 4),
			%{ $option{spec} // {} },
			workers => { %{ $option{spec}{workers} // {} }, template => { %$template, spec => { containers => [ \%container ],
				%{ $template->{spec} // {} } } } } },
	};
	$s->{back}->shape($job, %option);
	return $job;
}

# An annotated Pod. Options: ipus; ns; annotations, labels; spec, more of it; runs and the others of job().
sub pod ($s, $name, %option) {
	my $template = { metadata => { name => $name, $option{labels} ? (labels => $option{labels}) : (),
			annotations => { defined $option{ipus} ? ('graphcore.ai/ipus' => "$option{ipus}") : (), %{ $option{annotations} // {} } } },
		spec => { restartPolicy => 'Never', containers => [ { name => 'main', image => 'localhost/busybox:test',
			imagePullPolicy => 'Never', %{ $option{container} // {} } } ], %{ $option{spec} // {} } } };
	$s->{back}->shape_template($template, $name, %option);
	return { apiVersion => 'v1', kind => 'Pod', %$template };
}

sub create_pod ($s, $name, %option) {
	return $s->create('pods', $s->pod($name, %option), $option{ns} // 'default');
}

# Makes it, by the options of job().
sub create_job ($s, $name, %option) {
	return $s->create('ipujobs', $s->job($name, %option));
}

# Creates what a manifest holds, by kubectl, as a person does.
sub create_manifest ($s, $path) {
	my $result = $s->kubectl([ 'create', '-f', $path ]);
	die "kubectl create -f $path: $result->{err}" if $result->{status};
	return $result->{out};
}

sub kubectl ($s, $arguments, %option) {
	return $s->{back}->kubectl($arguments, seconds => 30, %option);
}

sub get_job ($s, $name) { return $s->get('ipujobs', $name) }
sub get_worker ($s, $name) { return $s->get('pods', "$name-worker-0") }
sub delete_job ($s, $name) { return $s->delete('ipujobs', $name) }

# The condition of a job that is True: a hash, or undef.
sub condition ($job) {
	return (grep { $_->{status} eq 'True' } @{ $job->{status}{conditions} // [] })[0];
}

# Until the operator has seen what was done before: it has dealt with a job that came later. (One that
# is suspended: it needs no IPUs.)
sub settle ($s) {
	my $name = 'settle-' . ++$s->{settled};
	$s->create_job($name, spec => { suspend => JSON::PP::true });
	$s->wait_job($name, 'Suspended');
	$s->delete_job($name);
	$s->wait_job_gone($name);
	return;
}

# A condition by its type, True or not; undef where it isn't there.
sub condition_of ($job, $type) {
	return (grep { $_->{type} eq $type } @{ $job->{status}{conditions} // [] })[0];
}

sub is_true ($job, $type) {
	my $condition = condition_of($job, $type);
	return $condition && $condition->{status} eq 'True';
}

# Waits until launcherStatus (the STATUS column) says that, and returns the job. Another end is one at
# once.
sub wait_job ($s, $name, $status, %option) {
	return $s->wait_for("job $name to be $status", sub {
		my $job = $s->get_job($name) // return undef;
		my $now = $job->{status}{launcherStatus} // '';
		return $job if $now eq $status && $job->{status}{conditions};
		die "job $name is $now, not $status: $job->{status}{lastMessage}\n"
			if $now =~ /^(Completed|Failed)$/ && !$option{despite_errors};
		return undef;
	}, %option);
}

# Waits until the job's condition or last message says that.
sub wait_message ($s, $name, $pattern, %option) {
	return $s->wait_for("job $name to say $pattern", sub {
		my $job = $s->get_job($name);
		return ($job->{status}{lastMessage} // '') =~ $pattern ? $job : undef;
	}, %option);
}

sub wait_job_gone ($s, $name, %option) {
	return $s->wait_for("job $name to be gone", sub { !$s->get_job($name) }, %option);
}

# Waits for the only worker's phase; returns the Pod.
sub wait_worker ($s, $name, $phase, %option) {
	return $s->wait_for("the Pod of job $name to be $phase", sub {
		my $pod = $s->get_worker($name);
		return $pod && $pod->{status}{phase} eq $phase ? $pod : undef;
	}, %option);
}

# Lets the Pod of a job that runs until it's told so end: with an exit code, and words.
sub end_pod ($s, $name, $code = 0, $words = '') {
	return $s->{back}->end_pod($s, "$name-worker-0", $code, $words);
}

# ---- Pods by their own names ----

# Those of a job: name => Pod.
sub pods ($s, $name) {
	return { map { $_->{metadata}{name} => $_ } $s->list('pods', ns => 'default', labels => "graphcore.ai/job=$name") };
}

# Waits until a Pod is in that phase, and returns it. Options: after, one of an earlier life that has the
# name too; ready, that it is.
sub wait_pod ($s, $pod_name, $phase, %option) {
	my $before = $option{after} ? $option{after}{metadata}{uid} : '';
	return $s->wait_for("Pod $pod_name to be $phase", sub {
		my $pod = $s->get('pods', $pod_name) // return undef;
		return undef if $pod->{metadata}{uid} eq $before || ($pod->{status}{phase} // '') ne $phase;
		return $pod if !$option{ready};
		return (grep { $_->{type} eq 'Ready' && $_->{status} eq 'True' } @{ $pod->{status}{conditions} // [] }) ? $pod : undef;
	}, %option);
}

# Lets one of them end, as end_pod() does.
sub finish_pod ($s, $pod_name, $code = 0, $words = '') {
	return $s->{back}->end_pod($s, $pod_name, $code, $words);
}

# What a kubelet writes of a Pod that ends otherwise: evicted; oom; init => CODE, of its first init container.
sub fail_pod ($s, $pod_name, $how, $code = 137) {
	my $pod = $s->get('pods', $pod_name) // die "no Pod $pod_name\n";
	my %list = (init => 'initContainerStatuses');
	my $list = $list{$how} // 'containerStatuses';
	my %status = (phase => 'Failed');
	my @ended = map { { %$_, ready => JSON::PP::false, started => JSON::PP::false, state => { terminated => {
		exitCode => $code, reason => $how eq 'oom' ? 'OOMKilled' : 'Error' } } } } @{ $pod->{status}{$list} };
	@status{qw(reason message)} = ('Evicted', 'The node was low on resource: memory.') if $how eq 'evicted';
	$s->patch('pods', $pod_name, { status => { %status, $list => \@ended } }, sub => 'status');
	return;
}

# Makes a Pod of a job with the option `unready` Ready, or not again.
sub set_ready ($s, $pod_name, $ready = 1) {
	return $s->{back}->set_ready($s, $pod_name, $ready ? 'True' : 'False');
}

# A Pod's Node goes silent, and comes back. (With KWOK all of them do: there is one program for all.)
sub lose_node ($s, $node) { return $s->{back}->lose_node($s, $node) }
sub return_node ($s, $node) { return $s->{back}->return_node($s, $node) }

# The environment of a Pod's first container, of plain values.
sub environment ($pod) {
	return { map { $_->{name} => $_->{value} } @{ $pod->{spec}{containers}[0]{env} // [] } };
}

# ---- Events ----

# The operator's Events about a job, oldest first.
sub events ($s, $name) {
	my $query = '?fieldSelector=involvedObject.name%3D' . $name;
	my $list = $s->must('GET', $s->path('events', 'default') . $query);
	return sort { $a->{metadata}{name} cmp $b->{metadata}{name} }
		grep { ($_->{source}{component} // '') eq 'ipu-operator' } @{ $list->{items} };
}

sub reasons ($s, $name) { return map { $_->{reason} } $s->events($name) }

sub wait_event ($s, $name, $reason, %option) {
	return $s->wait_for("the Event $reason of job $name", sub {
		return (grep { $_->{reason} eq $reason } $s->events($name))[-1];
	}, %option);
}

# ---- end-points and the record ----

# One request to a listener of a program.
sub fetch ($s, $program, $method, $listener, $path, %option) {
	return $s->{back}->reach(sub { http($method, $program->url($listener, $path), %option) });
}

sub stats ($s) {
	my $answer = $s->fetch($s->{operator}, 'GET', 'proxy', '/stats');
	return $answer->{json} // die "/stats: $answer->{status} $answer->{content}\n";
}

sub query ($s, $size) {
	return $s->fetch($s->{operator}, 'POST', 'proxy', '/query', json => { size => $size })->{json};
}

# The daemon's metrics, by name with labels as they are written.
sub metrics ($s) {
	my $text = $s->fetch($s->{operator}, 'GET', 'metrics', '/metrics')->{content};
	return { $text =~ /^([a-z_]+(?:\{[^\n]*\})?) (\S+)$/mg };
}

# What the V-IPU controller knows (/sim/state), by its number.
sub vipu ($s, $number = 0) {
	my $answer = $s->fetch($s->{sim}, 'GET', 'admin', '/sim/state');
	return $answer->{json}{vipu}[$number] // die "/sim/state: $answer->{status}\n";
}

sub partitions ($s, $number = 0) { return @{ $s->vipu($number)->{partitions} } }

# Tells a controller what a person or bad luck would: tell_vipu('break', { id => … }, 0).
sub tell_vipu ($s, $action, $body = undef, $number = 0) {
	return $s->tell_sim("/sim/vipu/$number/$action", defined $body ? (json => $body) : ());
}

sub tell_sim ($s, $path, %option) {
	my $method = delete $option{method} // 'POST';
	my $answer = $s->fetch($s->{sim}, $method, 'admin', $path, %option);
	die "$method $path: $answer->{status} $answer->{content}\n" if !$answer->{success};
	return;
}

# The tracker's entries: id => entry. Empty if it isn't there.
sub tracker_data ($s) {
	my $map = $s->get('configmaps', $tracker_name, $tracker_ns) // return {};
	return { map { $_ => json_decode($map->{data}{$_}) } keys %{ $map->{data} // {} } };
}

# Entries by partition id; and what waits, by its key.
sub tracker ($s) {
	my $data = $s->tracker_data;
	return { map { $_ => $data->{$_} } grep { !/^ask\./ } keys %$data };
}

sub tracker_waits ($s) {
	my $data = $s->tracker_data;
	return { map { $_ => $data->{$_} } grep { /^ask\./ } keys %$data };
}

sub tracker_place ($s) { return ($tracker_name, $tracker_ns) }

# ---- the API server away ----

sub api_goes ($s) { return $s->{back}->api_goes($s) }
sub api_comes ($s) { return $s->{back}->api_comes($s) }

# ---- the end ----

# What must hold after every scenario: jobs can be deleted, and then nothing of the operator's is left
# on any controller or in the tracker; no IPU was ever held twice; daemon and simulator end well.
sub finish ($s, $went) {
	return $s->abandon if !$went;
	$s->must('DELETE', $s->path('ipujobs', 'default'), json => {});
	$s->wait_for('all jobs to be gone', sub { !$s->list('ipujobs') }, seconds => 60);
	is_deeply([ sort keys %{ $s->tracker } ], [], 'at the end, nothing is in the tracker');
	for my $i ($s->{sim} ? 0 .. $#{ $s->{controllers} } : ()) {
		my $state = $s->vipu($i);
		is_deeply([ map { $_->{id} } grep { !$_->{byHand} } @{ $state->{partitions} } ], [],
			'… and no partition of the operator\'s is left');
		ok(!$state->{broken}, 'no IPU was ever in two partitions');
	}
	$s->{back}->calm;
	$s->{operator}->stop if $s->{operator};
	$s->unregister if $s->{webhook};
	$_->stop for reverse @{ $s->{programs} };
	$s->{back}->use_crd(undef);
	return;
}

# After a failure: ends the programs, and takes jobs away by force, so that the next scenario isn't
# disturbed.
sub abandon ($s) {
	$_->crash for grep { defined } $s->{operator}, @{ $s->{programs} };
	$s->unregister if $s->{webhook} && $s->is_real;
	$s->{back}->sweep($s) if $s->is_real;
	$s->{back}->use_crd(undef);
	return;
}

# For the diagnostics of a failure.
sub tell_all ($s) {
	my $text = '';
	eval {
		for my $job ($s->list('ipujobs')) {
			my $name = $job->{metadata}{name};
			$text .= "job $name: " . json_encode($job->{status} // {}) . "\n";
			$text .= join '', map { "  $_->{reason}: $_->{message}\n" } $s->events($name);
			my $pod = $s->get_worker($name);
			$text .= "  Pod: " . json_encode($pod->{status}) . "\n" if $pod;
		}
		my $metrics = $s->{operator} ? $s->metrics : {};
		$text .= "$_ $metrics->{$_}\n"
			for grep { /workqueue_depth|active_workers|jobs|partitions|waiting/ } sort keys %$metrics;
		$text .= 'tracker: ' . json_encode($s->tracker) . "\n";
		$text .= "controller $_: " . json_encode($s->vipu($_)->{partitions}) . "\n"
			for $s->{sim} ? 0 .. $#{ $s->{controllers} } : ();
	};
	$text .= $@;
	my @lines = split /^/, $text;
	splice(@lines, 60, @lines - 60, "…\n") if @lines > 60;
	$text = join '', @lines;
	$text .= $_->report for grep { defined } $s->{operator}, @{ $s->{programs} };
	diag($text);
	return;
}

1;
