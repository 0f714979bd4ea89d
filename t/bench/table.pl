#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# All benchmarks, one after the other: `make bench` (doc/design/bench.md). Prints one table with each line against its bar, and writes
# bench.json, with all runs and the machine's noise, and bench.svg, how cost grows, which is judged in the table. From the build folder:
#
#     TOP_BUILDDIR=$PWD ../t/bench/table.pl [--out=DIR] [--only=start,rest] [--quick] [--kubeconfig=FILE]
#
# --quick: each as small and short as can be, which shows that it works and measures nothing. --kubeconfig: only what can be measured on
# another API server than ipu-sim, on that one (a cluster of t/cluster: cluster.pl).
# Exit status: 0 when all lines were measured, whether their bars are held or not.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Bench;
use BenchPlot;
use File::Spec ();
use File::Temp ();
use Getopt::Long qw(GetOptions);
use IpuTest qw(json_decode slurp spit watchdog);
use IpuTree qw(top_srcdir);
use POSIX qw(uname);
use Time::HiRes qw(time);

# What is run, in this order: program, how, how with --quick, and where: here (ipu-sim), there (another API server). Those that are here
# alone have to do with no API server, or with Pods of ipu-sim (in real ones: remote.pl).
my @plan = (
	[ 'size', '', '', 'here' ],
	[ 'start', '--runs=7 --jobs=1000', '--runs=1 --jobs=5', 'here there' ],
	[ 'jobs', '--runs=3', '--runs=1 --jobs=2 --workers=2', 'here there' ],
	[ 'memory', '--jobs=10,100,1000,10000', '--jobs=10 --pods=10 --maps=2', 'here' ],
	[ 'memory', '--jobs=10,100,1000', '--jobs=10 --pods=10 --maps=2', 'there' ],
	[ 'watch', '--runs=5 --megabytes=100', '--runs=1 --megabytes=1', 'here' ],
	[ 'grpc', '--runs=5 --calls=100000', '--runs=1 --calls=1000', 'here' ],
	[ 'rest', '--runs=5 --seconds=2', '--runs=1 --seconds=1 --partitions=10 --controllers=1', 'here there' ],
	[ 'webhook', '--runs=3 --seconds=2', '--runs=1 --seconds=1', 'here there' ],
	[ 'handshakes', '--runs=2 --seconds=2', '--runs=1 --seconds=1 --clients=1 --versions=tls1_3', 'here there' ],
	[ 'viewers', '--viewers=500 --runs=2 --seconds=8', '--viewers=5 --runs=1 --seconds=1 --partitions=4 --settle=0.3', 'here there' ],
	[ 'viewers', '--viewers=50 --runs=1 --seconds=4', '', 'here there' ],
	[ 'exec', '--sessions=256 --runs=3', '--sessions=2 --runs=1 --kilobytes=10', 'here' ],
	[ 'exec', '--sessions=16 --runs=1 --kilobytes=8000', '', 'here' ],
	[ 'growth', '--runs=3', '--runs=1 --partitions=2 --controllers=1', 'here there' ],
);

my %opt = (out => '.', only => '', kubeconfig => '');
GetOptions(\%opt, 'out=s', 'only=s', 'quick', 'kubeconfig=s') && !@ARGV or die "see the beginning of $0\n";
$opt{kubeconfig} = File::Spec->rel2abs($opt{kubeconfig}) if $opt{kubeconfig};
my %only = map { $_ => 1 } split /,/, $opt{only};
my $where = $opt{kubeconfig} ? 'there' : 'here';

# ---- running them ----

my $dir = File::Temp->newdir('ipu-bench-XXXXXXXX', TMPDIR => 1);
my ($begin, @failed, $number) = (time);
STDOUT->autoflush(1);
watchdog(7200);
for my $row (@plan) {
	my ($name, $full, $quick, $places) = @$row;
	next if !grep({ $_ eq $where } split ' ', $places) || (%only && !$only{$name}) || ($opt{quick} && !length $quick && $name ne 'size');
	my $out = "$dir/" . ++$number;
	my @argv = ("$FindBin::Bin/$name.pl", "--json=$dir/lines", split(' ', $opt{quick} ? $quick : $full),
		$opt{kubeconfig} ? "--kubeconfig=$opt{kubeconfig}" : ());
	printf "%-10s %s … ", $name, join ' ', grep { !/^--(?:json|kubeconfig)/ } @argv[ 1 .. $#argv ];
	my $at = time;
	my $pid = fork() // die "fork: $!\n";
	if (!$pid) {
		open(STDOUT, '>', $out) && open(STDERR, '>&', \*STDOUT) or POSIX::_exit(126);
		exec $^X, @argv or POSIX::_exit(127);
	}
	local $SIG{INT} = local $SIG{TERM} = sub { kill 'TERM', $pid; waitpid $pid, 0; exit 1 };
	waitpid $pid, 0;
	printf "%.0f s%s\n", time - $at, $? ? ', FAILED' : '';
	if ($?) {
		push @failed, $name;
		print STDERR map { "    $_" } grep { !/^ok / } split /^/, slurp($out);
	}
}

# ---- what came of it ----

sub first_line (@argv) { my $said = eval { open(my $in, '-|', @argv) or return ''; <$in> } // ''; chomp $said; return $said }

my @lines = map { json_decode($_) } split /\n/, slurp("$dir/lines") // '';
my ($model) = (slurp('/proc/cpuinfo') // '') =~ /^model name\s*: (.*)$/m;
my $cores = () = slurp('/proc/cpuinfo') =~ /^processor\s/mg;
my $cc = slurp("$ENV{TOP_BUILDDIR}/Makefile") // '';
my %about = (at => Bench::time_text(), took_s => 0 + sprintf('%.0f', time - $begin), where => $where, quick => $opt{quick} ? JSON::PP::true : JSON::PP::false,
	commit => first_line('git', '-C', top_srcdir(), 'rev-parse', '--short', 'HEAD'), cpu => $model // '', cores => $cores, kernel => (uname())[2],
	compiler => join(' ', map { $cc =~ /^$_ = (.*)$/m ? $1 : () } qw(CC CFLAGS)), noise => noise_of(@lines));

sub noise_of (@all) {
	return { map { my $key = $_; my @of = map { $_->{noise}{$key} } @all; $key => { median => Bench::median(@of ? @of : 0), most => (sort { $b <=> $a } @of, 0)[0] } } qw(steal load) };
}

say "\n$about{at}, commit $about{commit}, $about{cores} x $about{cpu}, $about{compiler}";
printf "load %.1f (at most %.1f), time stolen by the host %.1f %% (at most %.1f %%)\n", map { @$_{qw(median most)} } @{ $about{noise} }{qw(load steal)};
my $section = '';
push @lines, my @growth = BenchPlot::growth(\@lines);
for my $line (@lines) {
	say "\n$line->{bench}" if $line->{bench} ne $section;
	$section = $line->{bench};
	say Bench::row($line);
}
my %sizes;
$sizes{ $_->{series} }++ for grep { $_->{series} } @lines;
delete @sizes{ map { $_->{of} } @growth };
say "$_: of one number only, or too little to tell how it grows" for sort keys %sizes;
my @judged = grep { defined $_->{held} } @lines;
printf "\n%d of %d bars held\n", scalar(grep { $_->{held} } @judged), scalar @judged;
spit("$opt{out}/bench.json", JSON::PP->new->utf8->canonical->pretty->encode({ about => \%about, lines => \@lines }));
spit("$opt{out}/bench.svg", BenchPlot::svg(\%about, \@lines));
say "written: $opt{out}/bench.json, $opt{out}/bench.svg";
exit @failed ? 1 : 0;
