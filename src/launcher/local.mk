# SPDX-License-Identifier: Apache-2.0
#
# launcher: what runs inside job Pods; static.

noinst_LIBRARIES += liblauncher.a
liblauncher_a_SOURCES = src/launcher/child.c src/launcher/child.h src/launcher/cluster.c \
	src/launcher/cluster.h src/launcher/fdio.c src/launcher/fdio.h src/launcher/get.c src/launcher/handover.c src/launcher/handover.h \
	src/launcher/hostfile.c src/launcher/hostfile.h src/launcher/init.c src/launcher/install.c \
	src/launcher/launcher.h src/launcher/near.c src/launcher/near.h src/launcher/partition.c src/launcher/remote.c \
	src/launcher/remote.h src/launcher/remote_status.c src/launcher/remote_status.h \
	src/launcher/rsh.c src/launcher/rsh.h src/launcher/rsh_options.c src/launcher/session.c \
	src/launcher/tree.c src/launcher/tree.h src/launcher/wait.c src/launcher/wire.c \
	src/launcher/wire.h
liblauncher_a_CPPFLAGS = $(AM_CPPFLAGS)
launcher_ldadd = liblauncher.a $(httpfy_ldadd)

# services.o stands before the libraries by itself: from an archive it would come too late, after
# the C library's.
libexec_PROGRAMS += ipu-launcher
ipu_launcher_SOURCES = src/launcher/main.c src/launcher/services.c
ipu_launcher_LDADD = $(launcher_ldadd)
ipu_launcher_LDFLAGS = $(static_ldflags)

launcher_tests = t/unit/launcher_handover_test t/unit/launcher_options_test t/unit/launcher_wire_test
check_PROGRAMS += $(launcher_tests)
t_unit_launcher_handover_test_SOURCES = t/unit/launcher_handover_test.c t/unit/tap.h
t_unit_launcher_handover_test_LDADD = $(launcher_ldadd)
t_unit_launcher_options_test_SOURCES = t/unit/launcher_options_test.c t/unit/tap.h
t_unit_launcher_options_test_LDADD = $(launcher_ldadd)
t_unit_launcher_wire_test_SOURCES = t/unit/launcher_wire_test.c t/unit/no_memory.h t/unit/tap.h
t_unit_launcher_wire_test_LDADD = $(launcher_ldadd)
