# SPDX-License-Identifier: Apache-2.0
#
# kube: the Kubernetes client.

noinst_LIBRARIES += libkube.a
libkube_a_SOURCES = include/kube/client.h include/kube/config.h include/kube/file.h include/kube/event.h \
	include/kube/exec_helper.h include/kube/lease.h include/kube/list.h include/kube/object.h \
	include/kube/pass.h include/kube/review.h include/kube/store.h \
	include/kube/watch.h include/kube/workqueue.h \
	src/kube/client.c src/kube/client_priv.h src/kube/config.c src/kube/config_priv.h \
	src/kube/cred.c src/kube/cred.h src/kube/event.c src/kube/exec_child.c \
	src/kube/exec_child.h src/kube/exec_config.c src/kube/exec_config.h \
	src/kube/exec_helper.c src/kube/known.c src/kube/known.h src/kube/kubeconfig.c \
	src/kube/kubeconfig.h src/kube/lease.c src/kube/lease_plan.c src/kube/lease_plan.h \
	src/kube/list.c src/kube/object.c src/kube/pass.c src/kube/path.h src/kube/peek.c src/kube/proxy.c \
	src/kube/resource.c src/kube/review.c src/kube/split.c src/kube/split.h src/kube/status.c src/kube/store.c \
	src/kube/warning.c src/kube/warning.h src/kube/watch.c src/kube/workqueue.c src/kube/xfer.c src/kube/xfer.h
libkube_a_CPPFLAGS = $(AM_CPPFLAGS)
kube_ldadd = libkube.a $(http_ldadd)

kube_tests = t/unit/kube_client_test t/unit/kube_config_test t/unit/kube_cred_test \
	t/unit/kube_event_test t/unit/kube_exec_test t/unit/kube_lease_model_test \
	t/unit/kube_lease_test t/unit/kube_object_test t/unit/kube_proxy_test \
	t/unit/kube_review_test t/unit/kube_split_test t/unit/kube_store_test t/unit/kube_warning_test \
	t/unit/kube_watch_test t/unit/kube_watch_memory_test t/unit/kube_workqueue_test
check_PROGRAMS += $(kube_tests)
t_unit_kube_client_test_SOURCES = t/unit/kube_client_test.c t/unit/no_memory.h t/unit/kube_server.h t/unit/net_test.h t/unit/tap.h
t_unit_kube_client_test_LDADD = $(kube_ldadd)
t_unit_kube_client_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_kube_config_test_SOURCES = t/unit/kube_config_test.c t/unit/tap.h
t_unit_kube_config_test_LDADD = $(kube_ldadd)
t_unit_kube_cred_test_SOURCES = t/unit/kube_cred_test.c t/unit/kube_server.h t/unit/net_test.h t/unit/tap.h t/unit/wiped.h
t_unit_kube_cred_test_LDADD = $(kube_ldadd)
t_unit_kube_cred_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_kube_event_test_SOURCES = t/unit/kube_event_test.c t/unit/kube_server.h t/unit/net_test.h t/unit/tap.h
t_unit_kube_event_test_LDADD = $(kube_ldadd)
t_unit_kube_event_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_kube_exec_test_SOURCES = t/unit/kube_exec_test.c t/unit/tap.h
t_unit_kube_exec_test_LDADD = $(kube_ldadd)
t_unit_kube_lease_model_test_SOURCES = t/unit/kube_lease_model_test.c t/unit/tap.h
t_unit_kube_lease_model_test_LDADD = $(kube_ldadd)
t_unit_kube_lease_test_SOURCES = t/unit/kube_lease_test.c t/unit/partition_rig.h t/unit/tap.h
t_unit_kube_lease_test_LDADD = $(sim_ldadd)
t_unit_kube_object_test_SOURCES = t/unit/kube_object_test.c t/unit/tap.h
t_unit_kube_object_test_LDADD = $(kube_ldadd)
t_unit_kube_proxy_test_SOURCES = t/unit/kube_proxy_test.c t/unit/tap.h
t_unit_kube_proxy_test_LDADD = $(kube_ldadd)
t_unit_kube_review_test_SOURCES = t/unit/kube_review_test.c t/unit/partition_rig.h t/unit/tap.h
t_unit_kube_review_test_LDADD = $(sim_ldadd)
t_unit_kube_split_test_SOURCES = t/unit/kube_split_test.c t/unit/tap.h
t_unit_kube_split_test_LDADD = $(kube_ldadd)
t_unit_kube_store_test_SOURCES = t/unit/kube_store_test.c t/unit/tap.h
t_unit_kube_store_test_LDADD = $(kube_ldadd)
t_unit_kube_warning_test_SOURCES = t/unit/kube_warning_test.c t/unit/tap.h
t_unit_kube_warning_test_LDADD = $(kube_ldadd)
t_unit_kube_watch_memory_test_SOURCES = t/unit/kube_watch_memory_test.c t/unit/no_memory.h t/unit/kube_watch_rig.h t/unit/kube_server.h \
	t/unit/net_test.h t/unit/tap.h
t_unit_kube_watch_memory_test_LDADD = $(kube_ldadd)
t_unit_kube_watch_memory_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_kube_watch_test_SOURCES = t/unit/kube_watch_test.c t/unit/kube_watch_rig.h t/unit/kube_server.h t/unit/net_test.h \
	t/unit/tap.h
t_unit_kube_watch_test_LDADD = $(kube_ldadd)
t_unit_kube_watch_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_kube_workqueue_test_SOURCES = t/unit/kube_workqueue_test.c t/unit/tap.h
t_unit_kube_workqueue_test_LDADD = $(kube_ldadd)
