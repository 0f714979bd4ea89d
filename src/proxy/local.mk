# SPDX-License-Identifier: Apache-2.0
#
# proxy: the REST end-points.

noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES = \
	include/proxy/proxy.h \
	src/proxy/internal.h \
	src/proxy/auth.h \
	src/proxy/ask.c \
	src/proxy/auth.c \
	src/proxy/forward.c \
	src/proxy/ipuof.c \
	src/proxy/proxy.c \
	src/proxy/request.c \
	src/proxy/rest.c \
	src/proxy/status.c \
	src/proxy/view.c
libproxy_a_CPPFLAGS = $(AM_CPPFLAGS)
proxy_ldadd = libproxy.a $(partition_ldadd)
