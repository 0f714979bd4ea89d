# SPDX-License-Identifier: Apache-2.0
#
# cert: the operator's own CA and certificates.

noinst_LIBRARIES += libcert.a
libcert_a_SOURCES =
libcert_a_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
cert_ldadd = libcert.a $(kube_ldadd) $(MBEDTLS_LIBS)
