# SPDX-License-Identifier: Apache-2.0
#
# proxy: REST end-points.

noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES =
libproxy_a_CPPFLAGS = $(AM_CPPFLAGS)
proxy_ldadd = libproxy.a $(job_ldadd)
