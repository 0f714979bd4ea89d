# SPDX-License-Identifier: Apache-2.0
#
# net: resolver, TLS, connections.

noinst_LIBRARIES += libnet.a
libnet_a_SOURCES = include/net/conn.h include/net/listen.h include/net/net.h \
	include/net/resolve.h include/net/tls.h \
	src/net/conn.c src/net/conn_impl.h src/net/connect.c src/net/listen.c src/net/net.c \
	src/net/net_impl.h src/net/resolve.c src/net/tls.c src/net/tls_impl.h \
	src/net/tls_suites.c src/net/tls_suites.h \
	src/net/tls_session.c src/net/tls_verify.c src/net/tunnel.c src/net/tunnel.h
libnet_a_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS) $(CARES_CFLAGS)
net_ldadd = libnet.a $(loop_ldadd) $(MBEDTLS_LIBS) $(CARES_LIBS)
netfy_ldadd = libnet.a $(loopfy_ldadd) $(MBEDTLS_LIBS) $(CARES_LIBS)

net_tests = t/unit/net_addr_test t/unit/net_conn_test t/unit/net_connect_test \
	t/unit/net_resolve_test t/unit/net_tls_test t/unit/net_tls_memory_test
check_PROGRAMS += $(net_tests)
t_unit_net_addr_test_SOURCES = t/unit/net_addr_test.c t/unit/net_test.h t/unit/tap.h
t_unit_net_addr_test_LDADD = $(net_ldadd)
t_unit_net_resolve_test_SOURCES = t/unit/net_resolve_test.c t/unit/net_dns.h t/unit/net_test.h t/unit/tap.h
t_unit_net_resolve_test_LDADD = $(net_ldadd)
t_unit_net_conn_test_SOURCES = t/unit/net_conn_test.c t/unit/no_memory.h t/unit/net_test.h t/unit/tap.h
t_unit_net_conn_test_LDADD = $(net_ldadd)
t_unit_net_connect_test_SOURCES = t/unit/net_connect_test.c t/unit/net_dns.h t/unit/net_test.h \
	t/unit/tap.h
t_unit_net_connect_test_LDADD = $(net_ldadd)
t_unit_net_tls_test_SOURCES = t/unit/net_tls_test.c t/unit/net_test.h t/unit/tap.h
t_unit_net_tls_test_LDADD = $(net_ldadd)
t_unit_net_tls_memory_test_SOURCES = t/unit/net_tls_memory_test.c t/unit/no_memory.h t/unit/net_calloc.h \
	t/unit/net_test.h t/unit/tap.h t/unit/wiped.h
t_unit_net_tls_memory_test_LDADD = $(net_ldadd)
