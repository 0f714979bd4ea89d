#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# The live page at a user's desk, in a real Chromium: by the address that ipuctl ui starts a browser with, through the API
# server's way to the Service, with the names that the operator doesn't tell; it outlives an operator that is away.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";
use Browser;
use IpuTest;
use Test::More;

watchdog(240);
my $dir = test_dir();
my $browser = Browser->start;
my $folder = "$dir/sim";
my $sim = start('ipu-sim', args => [ '--dir', $folder, '--agents=4', '--pod-run-ms=0' ]);
my $token = slurp("$folder/token");
my @operator = ('--kubeconfig', "$folder/kubeconfig", map { ('--set', $_) } 'operatorNamespace=ipu-operator', 'proxy.page=usage',
	'controllers=127.0.0.1:' . $sim->port('vipu0'), map { "$_=127.0.0.1:0" } qw(proxy.tlsListen health.listen metrics.listen));
my $operator = start('ipu-operator', args => [ @operator, '--set', 'proxy.listen=127.0.0.1:0' ]);

sub api ($method, $path, %more) { return http($method, $sim->url('api-plain', $path), %more, headers => { authorization => "Bearer $token" }) }
sub make ($path, $object) { return is(api('POST', $path, json => $object)->{status}, 201, $object->{metadata}{name}) }

make('/api/v1/namespaces/ipu-operator/services', { apiVersion => 'v1', kind => 'Service', metadata => { name => 'ipu-operator-vipu-proxy' },
	spec => { clusterIP => '127.0.0.1', ports => [ { port => 80, name => 'http', targetPort => $operator->port('proxy') + 0 } ] } });
my $jobs = '/apis/graphcore.ai/v1alpha1/namespaces/default/ipujobs';
for my $job ([ train => 8 ], [ bert => 16 ]) {
	make($jobs, { apiVersion => 'graphcore.ai/v1alpha1', kind => 'IPUJob', metadata => { name => $job->[0] },
		spec => { jobInstances => 1, ipusPerJobInstance => "$job->[1]", workers => { template => { spec => { containers => [ { name => 'c', image => 'x' } ] } } } } });
	wait_until("$job->[0] to have its words", sub { (api('GET', "$jobs/$job->[0]")->{json}{status}{launcherStatus} // '') eq ($job->[0] eq 'train' ? 'Running' : 'Pending') });
}

# What stands for the user's browser says where it was sent.
my $sent = spit("$dir/browser", "#!/bin/sh\necho \"\$1\" >$dir/address.new\nmv $dir/address.new $dir/address\n");
chmod 0755, $sent;
my $ui = start('ipuctl', ports => 0, args => ['ui'], env => { HOME => $dir, BROWSER => $sent, KUBECONFIG => "$folder/kubeconfig", IPUCTL_SERVER => undef });
my $address = wait_until('the browser to be started', sub { slurp("$dir/address") }) =~ s/\n\z//r;

my $page = $browser->open($address);
my $is = sub ($state) { $page->wait_for("the page to be $state", "document.querySelector('[data-connection=$state]') !== null") };
$is->('live');
my ($token_path) = $ui->out =~ m{\Ahttp://127\.0\.0\.1:\d+(/\w+/)\n\z};
is($page->get('location.pathname'), $token_path, 'one visit leads to the address that lasts');
$page->wait_for('the job that waits, by its name', q{document.querySelector('[data-waiting]')?.textContent.includes('bert') === true});
$page->wait_for('the job that runs, by its name', q{document.body.textContent.includes('train')});
pass('jobs have the names that the user may see');
unlike(http('GET', $operator->url('proxy', '/live'))->{content}, qr/train|bert/, '... of which the operator tells nothing');
is_deeply($page->ask('faults'), [], 'nothing that a page must not do');

my $port = $operator->port('proxy');
$operator->stop;
$is->('away');
$operator = start('ipu-operator', args => [ @operator, '--set', "proxy.listen=127.0.0.1:$port" ]);
$is->('live');
pass('an operator that is away for a while');
$page->reload;
$is->('live');
pass('the page, loaded again');

$browser->stop;
$ui->stop(signal => 'INT');
$operator->stop;
$sim->stop;
done_testing();
