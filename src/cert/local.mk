# SPDX-License-Identifier: Apache-2.0
#
# cert: the operator's authority and its serving certificates.

noinst_LIBRARIES += libcert.a
libcert_a_SOURCES = include/cert/cert.h src/cert/cert.c src/cert/own.c src/cert/set.c src/cert/set.h \
	src/cert/x509.c src/cert/x509.h
libcert_a_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)

check_PROGRAMS += t/unit/cert_test
t_unit_cert_test_SOURCES = t/unit/cert_test.c t/unit/no_memory.h t/unit/net_calloc.h t/unit/partition_rig.h t/unit/tap.h
t_unit_cert_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_cert_test_LDADD = libcert.a $(sim_ldadd)

check_PROGRAMS += t/unit/cert_memory_test
t_unit_cert_memory_test_SOURCES = t/unit/cert_memory_test.c t/unit/no_memory.h t/unit/net_calloc.h t/unit/tap.h
t_unit_cert_memory_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_cert_memory_test_LDADD = libcert.a $(sim_ldadd)
