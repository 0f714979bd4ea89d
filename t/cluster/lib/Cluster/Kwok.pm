# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Kwok: nodes that only exist in the API server, their Pods' states made by KWOK. Runs inside
# the cluster's namespaces.
package Cluster::Kwok;

use v5.36;
use Cluster::Layout qw(CONTROL_ADDRESS);

# Starts KWOK and makes $count nodes. $stages: the file that says how Pods change.
sub start ($control, $count, $stages) {
	my $keys = "$control->{dir}/keys";
	$control->start('kwok', 'kwok', "--kubeconfig=$control->{dir}/inside.kubeconfig",
		"--config=$stages", '--manage-all-nodes=true', '--node-ip=' . CONTROL_ADDRESS,
		'--node-port=10247', '--node-lease-duration-seconds=40', '--cidr=10.152.0.0/16',
		"--tls-cert-file=$keys/server.crt", "--tls-private-key-file=$keys/server.key");
	$control->create('nodes', map { {
		apiVersion => 'v1',
		kind => 'Node',
		metadata => {
			name => $_,
			labels => { 'kubernetes.io/hostname' => $_, 'kubernetes.io/os' => 'linux',
				type => 'kwok' },
			annotations => { 'kwok.x-k8s.io/node' => 'fake' },
		},
	} } names($count));
}

sub names ($count) {
	return map { sprintf('kwok-%04d', $_) } 1 .. $count;
}

1;
