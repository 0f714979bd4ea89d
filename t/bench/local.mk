# SPDX-License-Identifier: Apache-2.0
#
# What the benchmarks measure with: programs that aren't installed, and `make bench` (doc/design/bench.md).

noinst_PROGRAMS += t/tools/bench-api t/tools/bench-grpc t/tools/bench-load t/tools/bench-watch
t_tools_bench_api_SOURCES = t/tools/bench_api.c
t_tools_bench_api_LDADD = $(kube_ldadd)
t_tools_bench_grpc_SOURCES = t/tools/bench_grpc.c
t_tools_bench_grpc_LDADD = $(grpc_ldadd) $(core_ldadd)
t_tools_bench_load_SOURCES = t/tools/bench_load.c
t_tools_bench_load_LDADD = $(net_ldadd)
t_tools_bench_watch_SOURCES = t/tools/bench_watch.c
t_tools_bench_watch_LDADD = $(sim_ldadd)

CLEANFILES += bench.json bench.svg

# The table, bench.json and bench.svg. BENCHFLAGS: the table's own options, for instance --only=start,rest.
# KUBECONFIG=…, given on the command line: the lines that need no more than an API server are measured on that one.
bench: check-programs
	TOP_SRCDIR="$(abs_top_srcdir)" TOP_BUILDDIR="$(abs_top_builddir)" $(PERL) $(srcdir)/t/bench/table.pl \
		--out=. $(if $(filter command,$(firstword $(origin KUBECONFIG))),--kubeconfig="$(KUBECONFIG)") $(BENCHFLAGS)

.PHONY: bench
