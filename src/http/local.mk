# SPDX-License-Identifier: Apache-2.0
#
# http: HTTP/1.1, both sides.

noinst_LIBRARIES += libhttp.a
libhttp_a_SOURCES = \
	include/http/codec.h \
	include/http/message.h \
	src/http/codec.c \
	src/http/headers.c \
	src/http/message.c \
	src/http/url.c \
	src/http/write.c
libhttp_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLHTTP_CFLAGS)
http_ldadd = libhttp.a $(net_ldadd) $(LLHTTP_LIBS)
httpfy_ldadd = libhttp.a $(netfy_ldadd) $(LLHTTP_LIBS)
