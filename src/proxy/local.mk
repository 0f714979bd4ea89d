# SPDX-License-Identifier: Apache-2.0
#
# proxy: the REST end-points.

noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES = \
	include/proxy/proxy.h \
	src/proxy/internal.h \
	src/proxy/live.h \
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

check_PROGRAMS += t/unit/proxy_test
t_unit_proxy_test_SOURCES = t/unit/proxy_test.c t/unit/proxy_rig.h \
	t/unit/http_test.h t/unit/net_test.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_remote_test
t_unit_proxy_remote_test_SOURCES = t/unit/proxy_remote_test.c t/unit/proxy_rig.h \
	t/unit/http_test.h \
	t/unit/net_test.h t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_remote_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_remote_test_LDADD = libproxy.a $(sim_ldadd)
