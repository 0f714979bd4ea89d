# SPDX-License-Identifier: Apache-2.0
#
# Runs: both (sim, nodes)
#
# A secure V-IPU controller: TLS with a CA, a client certificate, a user id and an access key, all from
# a Secret. Keys and certificates are wrong and are rotated; jobs wait, say what to do, and go on. Pods
# get the IPUoF configuration as a file, and the key is nowhere to be read.

use v5.36;
use IpuTest qw(json_decode json_encode slurp);
use MIME::Base64 qw(encode_base64);
use Test::More;

my %key = map { $_ => "scenario-key-$_-" . int(rand 1e9) } qw(wrong first second);
my $list = 'secure-controllers';

# What the controller shows of itself, for the Secret.
sub shown ($s) { return $s->fetch($s->sim, 'GET', 'admin', '/sim/vipu/0/secure')->{json} }

sub data_of (%values) { return { map { $_ => encode_base64($values{$_}, '') } keys %values } }

sub change_secret ($s, %values) {
	return $s->patch('secrets', 'pod', { data => data_of(%values) }, ns => 'ipu-operator');
}

# A job whose Pod looks at its file, where Pods are processes.
sub create_job ($s, $name, %option) {
	my $script = 'grep -q \'"GCD Id": "0"\' "$IPUOF_CONFIG_PATH" && grep -q server_port "$IPUOF_CONFIG_PATH" || exit 9;'
		. ' while [ ! -e /tmp/end ]; do sleep 0.1; done; . /tmp/end; exit $code';
	return $s->create_job($name, %option,
		$s->is_real ? (container => { command => [ 'sh', '-c', $script ] }) : ());
}

sub files ($s, $name) { return $s->get('configmaps', "$name-ipuof-0") }

# What the Pod of a job gets.
sub looks_right ($s, $name) {
	my $pod = $s->get_worker($name);
	my $partition = $pod->{metadata}{annotations}{'graphcore.ai/partition'};
	my $files = files($s, $name);
	my $env = Scenario::environment($pod);
	is_deeply([ grep { /^IPUOF/ } sort keys %$env ], ['IPUOF_CONFIG_PATH'],
		"$name: its Pod is told a path, and no controller");
	is($env->{IPUOF_CONFIG_PATH}, "/etc/ipuof.conf.d/$partition.conf", '… that of its partition');
	my ($volume) = grep { $_->{name} eq 'ipuof-config' } @{ $pod->{spec}{volumes} };
	is($volume->{configMap}{name}, "$name-ipuof-0", '… mounted from a ConfigMap');
	is_deeply($volume->{configMap}{items}, [ { key => 'ipuof-0.conf', path => "$partition.conf" } ], '… its GCD\'s key');
	my ($mount) = grep { $_->{name} eq 'ipuof-config' } @{ $pod->{spec}{containers}[0]{volumeMounts} };
	is($mount->{mountPath}, '/etc/ipuof.conf.d', '… there');
	is($files->{metadata}{annotations}{'graphcore.ai/partition'}, $partition, 'the ConfigMap is of that partition');
	is($files->{metadata}{ownerReferences}[0]{uid}, $s->get_job($name)->{metadata}{uid}, '… and the job\'s');
	my $config = json_decode($files->{data}{'ipuof-0.conf'});
	is($config->{attributes}{'GCD Id'}, '0', '… with the GCD\'s attributes');
	is(scalar @{ $config->{devices} }, 4, '… and devices');
	return;
}

# Everything that anybody but the keeper of Secrets may read.
sub all_words ($s) {
	my $words = join "\n", map { json_encode([ $s->list($_) ]) } qw(ipujobs pods configmaps events);
	$words .= $s->fetch($s->operator, 'GET', 'proxy', $_)->{content} for qw(/stats /health);
	$words .= $s->fetch($s->operator, 'GET', 'metrics', '/metrics')->{content};
	return $words . join '', map { ($_->out // '') . ($_->err // '') } values %{ $s->{logs} };
}

sub ($s) {
	$s->start_controllers(sim => [ '--vipu-secure', json_encode({ clientCert => JSON::PP::true, userId => 'operator',
		accessKey => $key{first}, userIdMetadata => 'x-who', accessKeyMetadata => 'x-what' }) ]);
	my $shown = shown($s);
	$s->create('secrets', { apiVersion => 'v1', kind => 'Secret', metadata => { name => 'pod' },
		data => data_of(userId => 'operator', accessKey => $key{wrong}, 'ca.crt' => $shown->{ca},
			'tls.crt' => $shown->{cert}, 'tls.key' => $shown->{key}) }, 'ipu-operator');
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => $list },
		data => { 'controllers.yaml' => json_encode([ { address => ($s->controllers)[0], secretName => 'pod' } ]) } },
		'ipu-operator');
	$s->start_operator(set => [ 'controllers=', "controllersConfigMap=$list", 'vipu.userKey=x-who',
		'vipu.accessKey=x-what', 'vipu.idleRefreshSeconds=1', 'log.level=5' ]);
	$s->wait_ready;

	# A wrong key.
	create_job($s, 'first');
	# An Event tells a reason once, and behind faults the first one may be that the Secret can't be read; the status has the last.
	my $event = qr/wrong user id or access key.*userId and accessKey of Secret pod/;
	$event = qr/$event|Secret ipu-operator\/pod can't be read/ if $ENV{IPU_FAULTS};
	like($s->wait_event('first', 'ControllerUnreachable')->{message}, $event, 'a wrong key: the job\'s Event says where to look');
	$s->wait_message('first', qr/wrong user id or access key.*userId and accessKey of Secret pod/);
	change_secret($s, accessKey => $key{first});
	$s->wait_job('first', 'Running');
	pass('the right key, while the job waits: it runs');
	looks_right($s, 'first');

	# The key is rotated; what runs goes on.
	$s->tell_vipu('secure', { accessKey => $key{second} });
	create_job($s, 'second');
	$s->wait_message('second', qr/userId and accessKey of Secret pod/);
	is($s->get_job('first')->{status}{launcherStatus}, 'Running', 'the controller\'s key was rotated: what runs goes on');
	change_secret($s, accessKey => $key{second});
	$s->wait_job('second', 'Running');
	looks_right($s, 'second');

	# Another certificate, by another CA.
	$s->tell_vipu('secure', { newCertificate => JSON::PP::true });
	create_job($s, 'third');
	$s->wait_message('third', qr/certificate.*ca\.crt of Secret pod/);
	change_secret($s, 'ca.crt' => shown($s)->{ca});
	$s->wait_job('third', 'Running');
	pass('another CA: the job says so, and goes on once it\'s in the Secret');

	# A restart writes nothing anew.
	my @before = map { files($s, $_)->{metadata}{resourceVersion} } qw(first second third);
	$s->operator->crash;
	$s->restart_operator;
	$s->wait_ready;
	create_job($s, 'fourth');
	$s->wait_job('fourth', 'Running');
	is_deeply([ map { files($s, $_)->{metadata}{resourceVersion} } qw(first second third) ], \@before,
		'a restart of the operator leaves ConfigMaps alone');
	is($s->get_job('first')->{status}{launcherStatus}, 'Running', '… and what runs');

	# They go with their partitions.
	$s->end_pod('first');
	$s->wait_job('first', 'Completed');
	$s->wait_for('its ConfigMap to go', sub { !files($s, 'first') });
	$s->delete_job('second');
	$s->wait_job_gone('second');
	$s->wait_for('its ConfigMap to go', sub { !files($s, 'second') });

	# Somebody else's ConfigMap.
	$s->create('configmaps', { apiVersion => 'v1', kind => 'ConfigMap', metadata => { name => 'fifth-ipuof-0' },
		data => { mine => 'hands off' } });
	create_job($s, 'fifth');
	like($s->wait_event('fifth', 'NameConflict')->{message}, qr/ConfigMap fifth-ipuof-0 exists and isn't this job's/,
		'a ConfigMap of that name that isn\'t the job\'s: it says so');
	is_deeply(files($s, 'fifth')->{data}, { mine => 'hands off' }, '… and leaves it alone');
	$s->delete('configmaps', 'fifth-ipuof-0');
	$s->wait_job('fifth', 'Running', seconds => 60);

	my $words = all_words($s);
	like($words, qr/ipuof-0\.conf/, 'among all that can be read are the configurations');
	ok(index($words, $key{$_}) < 0, "… but not the key: $_") for sort keys %key;
	ok(index($words, encode_base64($key{second}, '')) < 0, '… nor in base64');
};
