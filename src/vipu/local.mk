# SPDX-License-Identifier: Apache-2.0
#
# vipu: the V-IPU client.

noinst_LIBRARIES += libvipu.a
libvipu_a_SOURCES = \
	include/vipu/address.h \
	include/vipu/api.h \
	include/vipu/capacity.h \
	include/vipu/client.h \
	include/vipu/codec.h \
	include/vipu/fleet.h \
	include/vipu/machines.h \
	src/vipu/address.c \
	src/vipu/api.c \
	src/vipu/capacity.c \
	src/vipu/client.c \
	src/vipu/codec.c \
	src/vipu/codec_reply.c \
	src/vipu/codec_server.c \
	src/vipu/codec_wire.h \
	src/vipu/fleet.c \
	src/vipu/fleet_member.h \
	src/vipu/fleet_refresh.c \
	src/vipu/machines.c \
	src/vipu/vipu.proto \
	src/vipu/wire.c
libvipu_a_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
vipu_ldadd = libvipu.a $(grpc_ldadd) $(PROTOBUF_C_LIBS)

# wire.c includes what protoc makes, so it must be there before anything is compiled.
BUILT_SOURCES += src/vipu/vipu.pb-c.c src/vipu/vipu.pb-c.h
CLEANFILES += src/vipu/vipu.pb-c.c src/vipu/vipu.pb-c.h
libvipu_a_wire = src/vipu/libvipu_a-wire.$(OBJEXT) src/vipu/libvipu_a-codec.$(OBJEXT) \
	src/vipu/libvipu_a-codec_reply.$(OBJEXT) src/vipu/libvipu_a-codec_server.$(OBJEXT)
$(libvipu_a_wire): src/vipu/vipu.pb-c.c

# The interoperability test's program: our client and our simulated controller.
noinst_PROGRAMS += t/tools/vipu-peer
t_tools_vipu_peer_SOURCES = t/tools/vipu_peer.c
t_tools_vipu_peer_LDADD = libsim.a $(vipu_ldadd)

vipu_tests = t/unit/vipu_address_test t/unit/vipu_capacity_test t/unit/vipu_codec_test t/unit/vipu_machines_test
check_PROGRAMS += $(vipu_tests)
t_unit_vipu_address_test_SOURCES = t/unit/vipu_address_test.c t/unit/tap.h
t_unit_vipu_address_test_LDADD = $(vipu_ldadd)
t_unit_vipu_capacity_test_SOURCES = t/unit/vipu_capacity_test.c t/unit/tap.h
t_unit_vipu_capacity_test_LDADD = $(vipu_ldadd)
t_unit_vipu_codec_test_SOURCES = t/unit/vipu_codec_test.c t/unit/tap.h
t_unit_vipu_codec_test_LDADD = $(vipu_ldadd)
t_unit_vipu_machines_test_SOURCES = t/unit/vipu_machines_test.c t/unit/tap.h
t_unit_vipu_machines_test_LDADD = $(vipu_ldadd)

# These run against the simulated controller.
check_PROGRAMS += t/unit/vipu_fleet_test t/unit/vipu_sim_test
t_unit_vipu_fleet_test_SOURCES = t/unit/vipu_fleet_test.c t/unit/tap.h
t_unit_vipu_fleet_test_LDADD = libsim.a $(vipu_ldadd)
t_unit_vipu_sim_test_SOURCES = t/unit/vipu_sim_test.c t/unit/tap.h
t_unit_vipu_sim_test_LDADD = libsim.a $(vipu_ldadd)
