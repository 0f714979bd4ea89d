# SPDX-License-Identifier: Apache-2.0
#
# proxy: the REST end-points.

noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES = include/proxy/proxy.h src/proxy/proxy.c
libproxy_a_CPPFLAGS = $(AM_CPPFLAGS)
proxy_ldadd = libproxy.a $(partition_ldadd)
