#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# What starting processes in workers costs, by ipu-launcher and by a script that calls kubectl exec, in
# the same Pods on three real nodes: mpirun -np 8 over 4 workers, one command, 64 commands at once, and
# the memory of those that stay open. From the build folder, as root:
#
#     TOP_BUILDDIR=$PWD ../t/bench/remote.pl [--runs=7] [--open=64] [--json=FILE]
#
# needs what t/cluster needs.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../cluster/lib";
use Bench qw(figure finish options);
use IpuTest qw(run spit test_dir wait_until);
use Scenario;
use Scenario::Mpi qw(create_launcher_job);
use Scenario::Real;
use Test::More;

my $opt = options(2400, runs => 7, open => 64);

# Runs in the launcher. Ours and theirs take turns, so that a busy machine is as busy for both.
my $script = <<'END';
ours=/etc/mpi/kubeexec.sh theirs='/bin/sh /tools/kubectl.sh'
many() { for i in $(seq $1); do $2 bench-worker-$((i % 4)) "$3" </dev/null >/dev/null 2>&1 & done; }
for run in $(seq RUNS); do for agent in "$ours" "$theirs"; do
	export OMPI_MCA_plm_rsh_agent=$agent TIMEFORMAT='%R'
	echo "mpirun ${agent##*/} $( { time mpirun -np 8 /mpi_check </dev/null >/dev/null 2>&1; } 2>&1)"
	TIMEFORMAT='%R %U %S'
	for n in 1 OPEN; do
		echo "at-once-$n ${agent##*/} $( { time { many $n "$agent" true; wait; }; } 2>&1)"
	done
done; done
for agent in "$ours" "$theirs"; do
	many OPEN "$agent" 'sleep 15'
	sleep 10
	for f in /proc/[0-9]*; do
		case "$(tr '\0' ' ' <$f/cmdline 2>/dev/null)" in
		*/ipu-launcher\ rsh*|/tools/kubectl\ exec*)
			while read name kb _; do case $name in
			Rss:|Pss:|Private_Dirty:) echo "$name ${agent##*/} $kb" ;;
			esac; done <$f/smaps_rollup ;;
		esac
	done
	wait
done
END
$script =~ s/RUNS/$opt->{runs}/g;
$script =~ s/OPEN/$opt->{open}/g;

my $back = Scenario::Real->new('nodes');
my $s = bless { back => $back, programs => [], controllers => [] }, 'Scenario';
my $image = $back->mpi_image;
my $tools = test_dir() . '/tools';
mkdir($tools);
run([ 'cp', '-L', $back->cluster->programs . '/kubectl', $tools ])->{status} == 0 or die "no kubectl\n";
spit("$tools/kubectl.sh", "pod=\$1; shift; exec /tools/kubectl exec \$pod -- /bin/sh -c \"\$*\"\n");
$s->start(agents => 8);
create_launcher_job($s, 'bench', image => $image, spec => { interactive => { ttl => 3600 } },
	folders => { '/tools' => $tools });
$s->wait_job('bench', 'Running', seconds => 60);
my $result = $s->kubectl([qw(exec -i bench-launcher -- bash)], stdin => $script, seconds => 600);
die $result->{err} if $result->{status};
my %seen;
for my $line (split /\n/, $result->{out}) {
	my ($what, $agent, $first, @cpu) = split ' ', $line;
	push @{ $seen{"$what $agent"} }, $first;
	push @{ $seen{"$what-cpu $agent"} }, $cpu[0] + $cpu[1] if @cpu;
}
sub of ($what, $agent, $per = 1) { return [ map { $_ / $per } @{ $seen{"$what $agent"} // die "nothing of $what $agent\n" } ] }
sub ratio ($what) { my ($ours, $theirs) = (of($what, 'kubeexec.sh'), of($what, 'kubectl.sh')); return [ map { $ours->[$_] / $theirs->[$_] } 0 .. $#$ours ] }

for my $agent (qw(kubeexec.sh kubectl.sh)) {
	my $is_ours = $agent eq 'kubeexec.sh';
	my $name = $is_ours ? 'ipu-launcher' : 'kubectl';
	my @bar = $is_ours ? (bar => '<= 0.5') : ();
	figure("mpirun -np 8 over 4 workers, by $name", 's', of('mpirun', $agent), id => "remote-mpirun-$name");
	figure("one command, by $name", 's', of('at-once-1', $agent), id => "remote-one-$name");
	figure("$opt->{open} at once, by $name", 's', of("at-once-$opt->{open}", $agent), id => "remote-many-$name");
	figure('… CPU of the near ends', 's', of("at-once-$opt->{open}-cpu", $agent), @bar, id => "remote-cpu-$name");
	figure('… resident memory of one that stays open', 'MB', of('Rss:', $agent, 1000), $is_ours ? (bar => '<= 2.5') : (), id => "remote-memory-$name");
}
figure('mpirun: ipu-launcher / kubectl', 'times', ratio('mpirun'), bar => '< 1', id => 'remote-mpirun-ratio');
$s->finish(1);
$back->down;
finish();
