# SPDX-License-Identifier: Apache-2.0
#
# grpc: unary calls over HTTP/2.

noinst_LIBRARIES += libgrpc.a
libgrpc_a_SOURCES = \
	include/grpc/channel.h \
	include/grpc/server.h \
	include/grpc/status.h \
	src/grpc/channel.c \
	src/grpc/channel_link.c \
	src/grpc/channel_link.h \
	src/grpc/reply.c \
	src/grpc/reply.h \
	src/grpc/server.c \
	src/grpc/status.c
libgrpc_a_CPPFLAGS = $(AM_CPPFLAGS)
grpc_ldadd = libgrpc.a $(h2_ldadd)

check_PROGRAMS += t/unit/grpc_status_test t/unit/grpc_channel_test
t_unit_grpc_status_test_SOURCES = t/unit/grpc_status_test.c t/unit/tap.h
t_unit_grpc_status_test_LDADD = $(grpc_ldadd)
t_unit_grpc_channel_test_SOURCES = t/unit/grpc_channel_test.c t/unit/tap.h
t_unit_grpc_channel_test_LDADD = $(grpc_ldadd)
