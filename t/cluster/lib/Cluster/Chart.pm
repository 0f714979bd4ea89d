# SPDX-License-Identifier: Apache-2.0
#
# Cluster::Chart: the chart as the real helm renders it, without a cluster. YAML is read by helm too: a chart made for that
# prints the documents that are in it as JSON, since Perl's own modules read no YAML of this kind.
package Cluster::Chart;

use v5.36;
use Cluster;
use Exporter qw(import);
use File::Path qw(make_path);
use FindBin;
use IpuTest;
use IpuTree qw(top_srcdir);

our @EXPORT_OK = qw(find);

# By helm (4) or helm3. Skips the test where it can't be built.
sub new ($class, $helm = 'helm') {
	my $self = bless { helm => Cluster->program($helm), chart => top_srcdir() . '/helm/ipu-operator', home => test_dir() . "/$helm" }, $class;
	make_path($self->{home});
	return $self;
}

sub path ($self) { return $self->{chart} }

# helm talks to this cluster from here on.
sub use_cluster ($self, $c) { $self->{kubeconfig} = $c->host_kubeconfig }

# Runs helm: {status}, {out}, {err}.
sub try_helm ($self, @words) {
	return run([ $self->{helm}, @words ], name => 'helm', seconds => 120, env => { HELM_CACHE_HOME => $self->{home},
		HELM_CONFIG_HOME => $self->{home}, HELM_DATA_HOME => $self->{home}, KUBECONFIG => $self->{kubeconfig} // '/dev/null' });
}

# The same, for what must work: its output.
sub helm ($self, @words) {
	my $done = $self->try_helm(@words);
	die "helm @words: $done->{err}$done->{out}\n" if $done->{status};
	return $done->{out};
}

# `helm template` with these arguments.
sub try_render ($self, @words) { return $self->try_helm('template', 'rel', $self->{chart}, '--namespace', 'ops', @words) }

sub render ($self, @words) {
	my $done = $self->try_render(@words);
	die "helm template @words: $done->{err}\n" if $done->{status};
	return $done->{out};
}

my $reader = <<'END';
{{- range $name, $_ := .Files.Glob "texts/*" }}
{{- range splitList "\n---" ($.Files.Get $name) }}
{{- $one := fromYaml . }}
{{- with dig "data" "operator.yaml" "" $one }}{{ $_ := set $one "config" (fromYaml .) }}{{ end }}
{{- if $one }}
---
# {{ base $name }} {{ toJson $one }}
x: 1
{{- end }}
{{- end }}
{{- end }}
END

# The documents of each of these texts, as a list for each. A ConfigMap's operator.yaml is there as {config} too.
sub documents ($self, @texts) {
	my $folder = test_dir() . '/reader';
	make_path("$folder/templates", "$folder/texts");
	unlink glob "$folder/texts/*";
	spit("$folder/Chart.yaml", "apiVersion: v2\nname: reader\nversion: 1.0.0\n");
	spit("$folder/templates/all.yaml", $reader);
	spit(sprintf("$folder/texts/%04d", $_), $texts[$_]) for 0 .. $#texts;
	my $out = $self->helm('template', 'reader', $folder);
	my @read = map { [] } @texts;
	while ($out =~ /^# (\d{4}) (.*)$/mg) {
		my ($n, $one) = ($1, json_decode($2));
		die "text $n isn't YAML: $one->{Error}\n$texts[$n]\n" if keys %$one == 1 && $one->{Error};
		push @{ $read[$n] }, $one;
	}
	return @read;
}

# The same, as Kind/name => object; one of a name twice is an error.
sub objects ($self, @texts) {
	my @all;
	for my $documents ($self->documents(@texts)) {
		my %named;
		for my $one (@$documents) {
			my $name = "$one->{kind}/$one->{metadata}{name}";
			die "$name is there twice\n" if $named{$name};
			$named{$name} = $one;
		}
		push @all, \%named;
	}
	return @all;
}

# The value at KIND/NAME and a path, its steps separated by blanks: a step into a list is an index, or the name of an item.
sub find ($objects, $where) {
	my ($name, @path) = split / /, $where;
	my $at = $objects->{$name};
	for my $step (@path) {
		return undef if !defined $at || !ref $at;
		if (ref $at eq 'ARRAY') {
			$at = $step =~ /^\d+$/ ? $at->[$step] : (grep { ref $_ && $_->{name} eq $step } @$at)[0];
		} else {
			$at = $at->{$step};
		}
	}
	return $at;
}

1;
