# SPDX-License-Identifier: Apache-2.0
#
# vipu: the V-IPU client.

noinst_LIBRARIES += libvipu.a
libvipu_a_SOURCES =
libvipu_a_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
vipu_ldadd = libvipu.a $(grpc_ldadd) $(PROTOBUF_C_LIBS)
