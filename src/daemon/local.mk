# SPDX-License-Identifier: Apache-2.0
#
# daemon: wiring and nothing else.

noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES =
libdaemon_a_CPPFLAGS = $(AM_CPPFLAGS)
daemon_ldadd = libdaemon.a $(proxy_ldadd)
