# SPDX-License-Identifier: Apache-2.0
#
# pod: annotated Pods: what the webhook makes of them, and their IPUs through their lives.

noinst_LIBRARIES += libpod.a
libpod_a_SOURCES = \
	include/pod/inject.h \
	src/pod/annotation.c
libpod_a_CPPFLAGS = $(AM_CPPFLAGS)
pod_ldadd = libpod.a $(job_ldadd)
