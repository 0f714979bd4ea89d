# SPDX-License-Identifier: Apache-2.0
#
# http: HTTP/1.1, both sides.

noinst_LIBRARIES += libhttp.a
libhttp_a_SOURCES = \
	include/http/client.h \
	include/http/codec.h \
	include/http/message.h \
	include/http/server.h \
	include/http/websocket.h \
	src/http/call.c \
	src/http/client.c \
	src/http/client_impl.h \
	src/http/codec.c \
	src/http/exchange.c \
	src/http/fetch.c \
	src/http/h2_conn.c \
	src/http/h2_fields.c \
	src/http/h2_fields.h \
	src/http/headers.c \
	src/http/message.c \
	src/http/route.c \
	src/http/server.c \
	src/http/server_conn.c \
	src/http/server_h2.c \
	src/http/server_impl.h \
	src/http/url.c \
	src/http/write.c \
	src/http/ws.c \
	src/http/ws_accept.c \
	src/http/ws_codec.c \
	src/http/ws_codec.h \
	src/http/ws_connect.c \
	src/http/ws_impl.h
libhttp_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLHTTP_CFLAGS)
http_ldadd = libhttp.a $(h2_ldadd) $(LLHTTP_LIBS)
httpfy_ldadd = libhttp.a $(netfy_ldadd) $(LLHTTP_LIBS)

http_tests = t/unit/http_both_test t/unit/http_client_test t/unit/http_codec_test t/unit/http_h2_test t/unit/http_message_test \
	t/unit/http_pool_test t/unit/http_server_test t/unit/http_stop_test t/unit/http_stream_test \
	t/unit/http_wiped_test t/unit/http_ws_codec_test t/unit/http_ws_flow_test t/unit/http_ws_test
check_PROGRAMS += $(http_tests)
t_unit_http_both_test_SOURCES = t/unit/http_both_test.c t/unit/no_memory.h t/unit/http_test.h \
	t/unit/net_test.h t/unit/tap.h
t_unit_http_both_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_both_test_LDADD = $(http_ldadd)
t_unit_http_wiped_test_SOURCES = t/unit/http_wiped_test.c t/unit/http_test.h t/unit/net_test.h t/unit/tap.h t/unit/wiped.h
t_unit_http_wiped_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_wiped_test_LDADD = $(http_ldadd)
t_unit_http_client_test_SOURCES = t/unit/http_client_test.c t/unit/http_client_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_client_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_client_test_LDADD = $(http_ldadd)
t_unit_http_codec_test_SOURCES = t/unit/http_codec_test.c t/unit/tap.h
t_unit_http_codec_test_LDADD = $(http_ldadd)
t_unit_http_h2_test_SOURCES = t/unit/http_h2_test.c t/unit/http_h2_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_h2_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_h2_test_LDADD = $(http_ldadd)
t_unit_http_message_test_SOURCES = t/unit/http_message_test.c t/unit/tap.h
t_unit_http_message_test_LDADD = $(http_ldadd)
t_unit_http_pool_test_SOURCES = t/unit/http_pool_test.c t/unit/http_client_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_pool_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_pool_test_LDADD = $(http_ldadd)
t_unit_http_server_test_SOURCES = t/unit/http_server_test.c t/unit/http_server_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_server_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_server_test_LDADD = $(http_ldadd)
t_unit_http_stop_test_SOURCES = t/unit/http_stop_test.c t/unit/http_server_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_stop_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_stop_test_LDADD = $(http_ldadd)
t_unit_http_stream_test_SOURCES = t/unit/http_stream_test.c t/unit/http_server_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_stream_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_stream_test_LDADD = $(http_ldadd)
t_unit_http_ws_codec_test_SOURCES = t/unit/http_ws_codec_test.c t/unit/tap.h
t_unit_http_ws_codec_test_LDADD = $(http_ldadd)
t_unit_http_ws_flow_test_SOURCES = t/unit/http_ws_flow_test.c t/unit/http_ws_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_ws_flow_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_ws_flow_test_LDADD = $(http_ldadd)
t_unit_http_ws_test_SOURCES = t/unit/http_ws_test.c t/unit/http_ws_rig.h \
	t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_http_ws_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_http_ws_test_LDADD = $(http_ldadd)

# What t/20-http.t talks to.
noinst_PROGRAMS += t/unit/http_server_prog
t_unit_http_server_prog_SOURCES = t/unit/http_server_prog.c
t_unit_http_server_prog_LDADD = $(http_ldadd)
