# SPDX-License-Identifier: Apache-2.0
#
# net: resolver, TLS, connections.

noinst_LIBRARIES += libnet.a
libnet_a_SOURCES =
libnet_a_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS) $(CARES_CFLAGS)
net_ldadd = libnet.a $(loop_ldadd) $(MBEDTLS_LIBS) $(CARES_LIBS)
netfy_ldadd = libnet.a $(loopfy_ldadd) $(MBEDTLS_LIBS) $(CARES_LIBS)
