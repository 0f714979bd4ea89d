# SPDX-License-Identifier: Apache-2.0
#
# sim: the simulated Kubernetes and V-IPU.

noinst_LIBRARIES += libsim.a
libsim_a_SOURCES = \
	src/sim/selector.h \
	src/sim/selector.c \
	src/sim/objects.h \
	src/sim/objects.c \
	src/sim/schema.h \
	src/sim/schema.c \
	src/sim/jsonpatch.h \
	src/sim/jsonpatch.c \
	src/sim/api.h \
	src/sim/api_internal.h \
	src/sim/api.c \
	src/sim/api_read.c \
	src/sim/api_write.c \
	src/sim/api_evict.c \
	src/sim/api_exec.c \
	src/sim/api_log.c \
	src/sim/api_proxy.c \
	src/sim/api_table.c \
	src/sim/api_discovery.c \
	src/sim/api_auth.c \
	src/sim/custom.c \
	src/sim/token_wire.c \
	src/sim/api_delete.c \
	src/sim/draft.h \
	src/sim/draft.c \
	src/sim/condition.h \
	src/sim/condition.c \
	src/sim/webhook.h \
	src/sim/webhook.c \
	src/sim/webhook_match.c \
	src/sim/webhook_review.c \
	src/sim/webhook_config.c \
	src/sim/kubelet.h \
	src/sim/kubelet_impl.h \
	src/sim/kubelet.c \
	src/sim/kubelet_life.c \
	src/sim/kubelet_lost.c \
	src/sim/kubelet_nodes.c \
	src/sim/kubelet_run.c \
	src/sim/path_map.h \
	src/sim/path_map.c \
	src/sim/pod_admit.h \
	src/sim/pod_admit.c \
	src/sim/pod_security.c \
	src/sim/pod_env.h \
	src/sim/pod_env.c \
	src/sim/pod_files.h \
	src/sim/pod_files.c \
	src/sim/pod_rules.c \
	src/sim/run.h \
	src/sim/run.c \
	src/sim/supervisor.h \
	src/sim/supervisor.c \
	src/sim/task.h \
	src/sim/task.c \
	src/sim/pod_status.c \
	src/sim/admin.h \
	src/sim/admin.c \
	src/sim/certificate.h \
	src/sim/certificate.c \
	src/sim/vipu_model.c \
	src/sim/vipu_model.h \
	src/sim/vipu_model_list.c \
	src/sim/vipu_sim.c \
	src/sim/vipu_sim.h \
	src/sim/vipu_sim_fault.c \
	src/sim/vipu_sim_secure.c \
	src/sim/vipu_sim_impl.h
libsim_a_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
sim_ldadd = libsim.a libjob.a $(partition_ldadd)

bin_PROGRAMS += ipu-sim
ipu_sim_SOURCES = src/sim/main.c src/sim/options.h src/sim/options.c src/sim/files.h src/sim/files.c
ipu_sim_CPPFLAGS = $(AM_CPPFLAGS) -DIPU_DATA_DIR='"$(pkgdatadir)"' \
	-DIPU_BUILD_DIR='"$(abs_top_builddir)"' -DIPU_SOURCE_DIR='"$(abs_top_srcdir)"'
ipu_sim_LDADD = $(sim_ldadd)

check_PROGRAMS += t/unit/sim_path_map_test
t_unit_sim_path_map_test_SOURCES = t/unit/sim_path_map_test.c t/unit/tap.h
t_unit_sim_path_map_test_LDADD = $(sim_ldadd)

# Between the daemon and its peers in tests: doc/design/faults.md.
noinst_PROGRAMS += t/tools/fault-proxy
t_tools_fault_proxy_SOURCES = t/tools/fault_http.c t/tools/fault_http.h t/tools/fault_late.c \
	t/tools/fault_late.h t/tools/fault_plan.c t/tools/fault_plan.h t/tools/fault_proxy.c \
	t/tools/fault_relay.c t/tools/fault_relay.h
t_tools_fault_proxy_LDADD = libsim.a libjob.a $(daemon_ldadd)
