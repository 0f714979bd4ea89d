# SPDX-License-Identifier: Apache-2.0
#
# h2: HTTP/2 sessions and their connections, for http and grpc.

noinst_LIBRARIES += libh2.a
libh2_a_SOURCES = \
	include/h2/session.h \
	include/h2/transport.h \
	src/h2/record.c \
	src/h2/session.c \
	src/h2/session_impl.h \
	src/h2/session_stream.c \
	src/h2/session_stream.h \
	src/h2/transport.c
libh2_a_CPPFLAGS = $(AM_CPPFLAGS) $(NGHTTP2_CFLAGS)
h2_ldadd = libh2.a $(net_ldadd) $(NGHTTP2_LIBS)

check_PROGRAMS += t/unit/h2_session_test
t_unit_h2_session_test_SOURCES = t/unit/h2_session_test.c t/unit/tap.h
t_unit_h2_session_test_LDADD = $(h2_ldadd)
