# SPDX-License-Identifier: Apache-2.0
#
# Scenario::Split: a daemon of a scenario whose roles are in processes of their own, as in the chart's topology split: one
# with the role proxy, one with the others, which asks it. To a scenario they are one program.
package Scenario::Split;

use v5.36;

# $launch: starts the daemon with such settings, as what "controller" or "proxy" says; $settings: as for one process;
# $token: the path of a token for the proxy.
sub new ($class, $launch, $settings, $token) {
	my $proxy = $launch->('proxy', { %$settings, roles => 'proxy' });
	my @others = grep { $_ ne 'proxy' } split /,/, $settings->{roles} // 'controller';
	my $controller = $launch->('controller', { %$settings, roles => join(',', @others), 'proxy.tokenFile' => $token,
		'proxy.url' => 'https://127.0.0.1:' . $proxy->port('proxy-tls') });
	return bless { parts => [ $controller, $proxy ] }, $class;
}

sub parts ($self) { return @{ $self->{parts} } }

# Listeners that both have are the controller's.
sub port ($self, $name) { return (grep { defined } map { $_->{ports}{$name} } $self->parts)[0] // die "no port '$name'\n" }
sub url ($self, $name, $path = '/') { return 'http://127.0.0.1:' . $self->port($name) . $path }
sub pid ($self) { return $self->{parts}[0]->pid }

sub is_alive ($self) { return 2 == grep { $_->is_alive } $self->parts }
sub signal ($self, $name) { return $_->signal($name) for $self->parts }
sub crash ($self) { $_->crash for $self->parts; return }

# The controller first: what it has under way is answered.
sub stop ($self, %option) { return 2 == grep { $_->stop(%option) } $self->parts }

for my $words (qw(out err report)) {
	no strict 'refs';
	*$words = sub ($self) { return join '', map { $_->$words // '' } $self->parts };
}

1;
