#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The chart's NetworkPolicies against the Pods that the chart makes, by the rules of networking.k8s.io/v1: each connection that the
# parts of an installation need is open, and others aren't. No network plugin is asked: what the labels, names and numbers
# in the rendered objects come to is worked out here.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Cluster::Chart;
use IpuTest;
use IpuTree qw(file_text);
use Test::More;

my $chart = Cluster::Chart->new;
watchdog(300);

# ---- networking.k8s.io/v1 ----

sub selects ($selector, $labels) {
	my ($match, @others) = ($selector->{matchLabels} // {}, grep { $_ ne 'matchLabels' } keys %$selector);
	die "a selector has @others, which this test doesn't know\n" if @others;
	return !grep { ($labels->{$_} // '') ne $match->{$_} } keys %$match;
}

sub number ($address) { return unpack 'N', pack 'C4', split /\./, $address }

sub is_within ($address, $cidr) {
	my ($net, $bits) = split m{/}, $cidr;
	return number($address) >> 32 - $bits == number($net) >> 32 - $bits;
}

# An end is a Pod, {ns, labels, ports}, or an address outside, {ip}. Of a namespace the one label is known that all have.
sub is_peer ($peer, $ns, $end) {
	return $end->{ip} && is_within($end->{ip}, $peer->{ipBlock}{cidr}) if $peer->{ipBlock};
	return 0 if !$end->{ns};
	my $there = $peer->{namespaceSelector} ? selects($peer->{namespaceSelector}, { 'kubernetes.io/metadata.name' => $end->{ns} }) : $end->{ns} eq $ns;
	return $there && selects($peer->{podSelector} // {}, $end->{labels});
}

# Whether rules let a connection to that port of $to pass, whose other end is $other.
sub passes ($rules, $peers, $ns, $other, $to, $port, $protocol) {
	for my $rule (@{ $rules // [] }) {
		next if $rule->{ports} && !grep {
			my $at = $_->{port} // $port;
			$at = ($to->{ports} // {})->{$at} // -1 if $at =~ /\D/;
			$at == $port && ($_->{protocol} // 'TCP') eq $protocol;
		} @{ $rule->{ports} };
		return 1 if !@{ $rule->{$peers} // [] } || grep { is_peer($_, $ns, $other) } @{ $rule->{$peers} };
	}
	return 0;
}

sub is_open ($policies, $from, $to, $port, $protocol = 'TCP') {
	for my $way ([ $from, 'Egress', 'egress', 'to', $to ], [ $to, 'Ingress', 'ingress', 'from', $from ]) {
		my ($pod, $type, $rules, $peers, $other) = @$way;
		my @about = grep { my $p = $_; $pod->{ns} && $p->{metadata}{namespace} eq $pod->{ns} && selects($p->{spec}{podSelector}, $pod->{labels})
			&& grep { $_ eq $type } @{ $p->{spec}{policyTypes} } } @$policies;
		return 0 if @about && !grep { passes($_->{spec}{$rules}, $peers, $pod->{ns}, $other, $to, $port, $protocol) } @about;
	}
	return 1;
}

# ---- an installation ----

my %elsewhere = (stranger => { ns => 'team', labels => { app => 'x' } }, prometheus => { ns => 'monitoring', labels => { app => 'prometheus' } },
	dns => { ns => 'kube-system', labels => { 'k8s-app' => 'kube-dns' } }, neighbour => { ns => 'ops', labels => { app => 'x' } },
	api => { ip => '10.0.0.10' }, node => { ip => '10.0.1.7' }, vipu => { ip => '10.5.212.116' }, internet => { ip => '192.0.2.1' });

# By name: what is elsewhere, and the Pods that are rendered. Of another release in the namespace: with "other" before it.
sub render (@words) {
	my @texts = ($chart->render(@words), $chart->helm('template', 'other', $chart->path, '-n', 'ops', '--set', 'fullnameOverride=other'));
	my ($objects, $others) = $chart->objects(@texts);
	my %end = %elsewhere;
	for my $of ([ '', $objects ], [ 'other ', $others ]) {
		for my $o (values %{ $of->[1] }) {
			my $pod = $o->{kind} eq 'Pod' ? $o : $o->{kind} =~ /^(?:Deployment|Job)$/ ? $o->{spec}{template} : next;
			my %port = map { $_->{name} => $_->{containerPort} } map { @{ $_->{ports} // [] } } @{ $pod->{spec}{containers} };
			$end{ $of->[0] . ($o->{metadata}{name} =~ s/^(?:ipu-operator|other)-//r) } =
				{ ns => $o->{metadata}{namespace}, labels => $pod->{metadata}{labels}, ports => \%port };
		}
	}
	return ([ grep { $_->{kind} eq 'NetworkPolicy' } values %$objects ], \%end);
}

# Lines "who -> whom port": open; with "x>" for the arrow: closed.
sub check ($what, $words, $lines) {
	return subtest $what => sub {
		my ($policies, $end) = render('--set', 'networkPolicy.enabled=true', @$words);
		for my $line (grep { length } map { s/^\s+|\s+$//gr } split /\n/, $lines) {
			my ($from, $arrow, $to, $ports) = $line =~ /^(.+?) ([-x])> (.+?) (\d[\d UDP]*)$/ or die "'$line'?\n";
			my @missing = grep { !$end->{$_} } $from, $to;
			die "'$line': no @missing among: @{[ sort keys %$end ]}\n" if @missing;
			for my $port (split ' ', $ports) {
				my $protocol = $port =~ s/UDP$// ? 'UDP' : 'TCP';
				is(is_open($policies, $end->{$from}, $end->{$to}, $port, $protocol) ? 'open' : 'closed', $arrow eq '-' ? 'open' : 'closed',
					"$from to $to, $protocol $port");
			}
		}
	};
}

my ($open, $named) = render();
is_deeply($open, [], 'without networkPolicy.enabled there is none');
ok(is_open($open, $named->{stranger}, $named->{'vipu-proxy'}, 8445), '... and all is open');

my $own = <<'END';
	controller-manager -> vipu-proxy 8445
	vipu-proxy -> vipu-proxy 8445
	test-stats -> vipu-proxy 8080
	test-controllers -> vipu-proxy 8080
	controller-manager -> api 6443
	vipu-proxy -> api 6443
	controller-manager -> dns 53 53UDP
	vipu-proxy -> dns 53 53UDP
	vipu-proxy -> vipu 8090
	api -> controller-manager 8443
	prometheus -> controller-manager 8444
	prometheus -> vipu-proxy 8444
	stranger x> vipu-proxy 8445 8081 8446
	neighbour x> vipu-proxy 8445
	other controller-manager x> vipu-proxy 8445
	node x> vipu-proxy 8445 8444
	stranger x> controller-manager 8080 8081 8445
	internet x> controller-manager 8444 8081
END

check('by default', [], $own . <<'END');
	stranger -> vipu-proxy 8080
	stranger -> controller-manager 8443 8444
	node -> vipu-proxy 8080
	controller-manager -> internet 443
	crd-upgrade -> api 6443
END

check('everything told', [ '--set-json', 'networkPolicy=' . json_encode({ apiServerCidrs => ['10.0.0.0/28'],
	map { $_ => [ { namespaceSelector => { matchLabels => { 'kubernetes.io/metadata.name' => 'monitoring' } } } ] } qw(statisticsFrom metricsFrom partitionsFrom) }) ],
	$own . <<'END');
	prometheus -> vipu-proxy 8080 8445
	stranger x> vipu-proxy 8080 8444
	stranger x> controller-manager 8443 8444
	node x> controller-manager 8443
	node x> vipu-proxy 8080
END

my ($page) = file_text('doc/reference/permissions.md') =~ /^```yaml values\.yaml\n(networkPolicy:.*?)^```/ms or die "the page shows no egress\n";
check('what goes out, as the page has it', [ '-f', spit(test_dir() . '/egress.yaml', $page) ], $own . <<'END');
	vipu-proxy x> vipu 443
	vipu-proxy x> internet 443
	controller-manager x> internet 443
	controller-manager x> stranger 8080
	controller-manager x> node 10250
	test-stats -> dns 53UDP
END

check('in one Deployment', [ '--set', 'topology=combined' ], <<'END');
	api -> controller-manager 8443
	stranger -> controller-manager 8080 8444
	test-stats -> controller-manager 8080
	controller-manager -> controller-manager 8445
	stranger x> controller-manager 8445 8081 8446
	other vipu-proxy x> controller-manager 8445
END

check('Pods that ask by themselves', [ '--set', 'operatorConfig.pods.mode=init' ], <<'END');
	stranger -> vipu-proxy 8445
	node -> vipu-proxy 8445
	stranger x> controller-manager 8081
END

check('the scheduler\'s extender', [ '--set', 'extendedScheduler.enabled=true', '--set-json',
	'networkPolicy.schedulerFrom=[{"ipBlock": {"cidr": "10.0.0.10/32"}}]' ], $own =~ s/ 8446$//mr . <<'END');
	api -> vipu-proxy 8446
	node x> vipu-proxy 8446
	stranger x> vipu-proxy 8446
END

check('other ports', [ '--set', 'vipuProxy.proxyPort=9000,admissionWebhooks.port=9443' ], <<'END');
	api -> controller-manager 9443
	stranger -> vipu-proxy 9000
	stranger x> vipu-proxy 8080
	stranger x> controller-manager 8443
END

# The rules above can say no: without one of them, or with another label, what they were for is closed.
subtest 'what is missing is seen' => sub {
	my ($policies, $end) = render('--set', 'networkPolicy.enabled=true');
	my ($proxy) = grep { $_->{metadata}{name} =~ /vipu-proxy$/ } @$policies;
	my %other = (%{ $end->{'controller-manager'} }, labels => { %{ $end->{'controller-manager'}{labels} }, 'app.kubernetes.io/instance' => 'x' });
	ok(!is_open($policies, \%other, $end->{'vipu-proxy'}, 8445), 'another label');
	$proxy->{spec}{ingress} = [ grep { $_->{ports}[0]{port} ne 'partitions' } @{ $proxy->{spec}{ingress} } ];
	ok(!is_open($policies, $end->{'controller-manager'}, $end->{'vipu-proxy'}, 8445), 'no rule');
};

done_testing();
