# SPDX-License-Identifier: Apache-2.0
#
# pod: annotated Pods: what the webhook makes of them, and their IPUs through their lives.

noinst_LIBRARIES += libpod.a
libpod_a_SOURCES = \
	include/pod/inject.h \
	src/pod/annotation.c \
	src/pod/parts.h \
	src/pod/strip.c \
	src/pod/init.c \
	src/pod/inject.c
libpod_a_CPPFLAGS = $(AM_CPPFLAGS)
pod_ldadd = libpod.a $(job_ldadd)

pod_tests = t/unit/pod_inject_test
check_PROGRAMS += $(pod_tests)
t_unit_pod_inject_test_SOURCES = t/unit/pod_inject_test.c t/unit/tap.h
t_unit_pod_inject_test_LDADD = $(pod_ldadd)
