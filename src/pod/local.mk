# SPDX-License-Identifier: Apache-2.0
#
# pod: annotated Pods: what the webhook makes of them, and their IPUs through their lives.

noinst_LIBRARIES += libpod.a
libpod_a_SOURCES = \
	include/pod/inject.h \
	include/pod/fields.h \
	include/pod/model.h \
	include/pod/plan.h \
	include/pod/controller.h \
	include/pod/held.h \
	src/pod/internal.h \
	src/pod/annotation.c \
	src/pod/fields.c \
	src/pod/fields_table.h \
	src/pod/parts.h \
	src/pod/strip.c \
	src/pod/init.c \
	src/pod/inject.c \
	src/pod/held.c \
	src/pod/model.c \
	src/pod/plan.c \
	src/pod/tell.c \
	src/pod/apply.c \
	src/pod/controller.c
libpod_a_CPPFLAGS = $(AM_CPPFLAGS)
pod_ldadd = libpod.a $(job_ldadd)

pod_tests = t/unit/pod_fields_test t/unit/pod_inject_test t/unit/pod_rdma_test t/unit/pod_plan_test \
	t/unit/pod_plan_all_test t/unit/pod_controller_test
check_PROGRAMS += $(pod_tests)
t_unit_pod_fields_test_SOURCES = t/unit/pod_fields_test.c t/unit/tap.h
t_unit_pod_fields_test_LDADD = $(pod_ldadd)
t_unit_pod_inject_test_SOURCES = t/unit/pod_inject_test.c t/unit/tap.h
t_unit_pod_inject_test_LDADD = $(pod_ldadd)
t_unit_pod_rdma_test_SOURCES = t/unit/pod_rdma_test.c t/unit/tap.h
t_unit_pod_rdma_test_LDADD = $(pod_ldadd)
t_unit_pod_plan_test_SOURCES = t/unit/pod_plan_test.c t/unit/pod_plan_rig.h t/unit/tap.h
t_unit_pod_plan_test_LDADD = $(pod_ldadd)
t_unit_pod_controller_test_SOURCES = t/unit/pod_controller_test.c t/unit/pod_rig.h \
	t/unit/partition_rig.h t/unit/tap.h
t_unit_pod_controller_test_LDADD = libpod.a $(sim_ldadd)
t_unit_pod_plan_all_test_SOURCES = t/unit/pod_plan_all_test.c t/unit/pod_plan_rig.h t/unit/tap.h
t_unit_pod_plan_all_test_LDADD = $(pod_ldadd)
