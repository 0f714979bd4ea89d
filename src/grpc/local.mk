# SPDX-License-Identifier: Apache-2.0
#
# grpc: unary calls over HTTP/2.

noinst_LIBRARIES += libgrpc.a
libgrpc_a_SOURCES =
libgrpc_a_CPPFLAGS = $(AM_CPPFLAGS) $(NGHTTP2_CFLAGS)
grpc_ldadd = libgrpc.a $(net_ldadd) $(NGHTTP2_LIBS)
