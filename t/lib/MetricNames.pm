# SPDX-License-Identifier: Apache-2.0
#
# The metrics of doc/reference/names.md, and which test looks at those that only some roles have: each of
# these tests names its own in a call of covers_metrics, and t/73-metrics.t excuses no others.
package MetricNames;

use v5.36;

use Exporter qw(import);
use IpuTree qw(file_text tree_files);
use Test::More ();

our @EXPORT_OK = qw(documented_metrics covers_metrics covered_metrics);

# [NAME, TYPE] each, in the table's order.
sub documented_metrics () {
	my ($section) = file_text('doc/reference/names.md') =~ /^## Metrics\n(.*)/ms;
	return map { my ($type) = /^\|[^|]*\| (\w+) \|/; map { [ $_, $type ] } /^\|([^|]*)\|/ ? $1 =~ /`([a-z_]+)`/g : () }
		grep { /^\| `/ } split /\n/, $section;
}

# The page, in the text form, has each of them, of the documented type and with a value.
sub covers_metrics ($page, @names) {
	my %types = map { @$_ } documented_metrics();
	for my $name (@names) {
		my ($type) = $page =~ /^# TYPE \Q$name\E (\w+)$/m;
		Test::More::is($type, $types{$name} // 'in doc/reference/names.md', "metric: $name is what doc/reference/names.md says");
		my $suffix = ($type // '') eq 'histogram' ? '_count' : '';
		Test::More::like($page, qr/^\Q$name$suffix\E(?:\{[^}]*\})? \S+$/m, '... and has a value');
	}
	return;
}

# NAME => the test that covers it, of all tests beside this folder.
sub covered_metrics () {
	my %covered;
	for my $file (tree_files(qr{^t/[^/]+\.t$}, 't')) {
		for my $list (file_text($file) =~ /\bcovers_metrics\([^;]*?\bqw\(([^)]*)\)/gs) {
			$covered{$_} = $file for split ' ', $list;
		}
	}
	return %covered;
}

1;
