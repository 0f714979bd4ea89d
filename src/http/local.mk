# SPDX-License-Identifier: Apache-2.0
#
# http: HTTP/1.1, both sides.

noinst_LIBRARIES += libhttp.a
libhttp_a_SOURCES =
libhttp_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLHTTP_CFLAGS)
http_ldadd = libhttp.a $(net_ldadd) $(LLHTTP_LIBS)
httpfy_ldadd = libhttp.a $(netfy_ldadd) $(LLHTTP_LIBS)
