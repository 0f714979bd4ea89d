# SPDX-License-Identifier: Apache-2.0
#
# partition: records, planner, tracker, manager.

noinst_LIBRARIES += libpartition.a
libpartition_a_SOURCES =
libpartition_a_CPPFLAGS = $(AM_CPPFLAGS)
partition_ldadd = libpartition.a libcert.a libvipu.a libgrpc.a $(kube_ldadd) $(NGHTTP2_LIBS) $(PROTOBUF_C_LIBS)
