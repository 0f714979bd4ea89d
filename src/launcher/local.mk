# SPDX-License-Identifier: Apache-2.0
#
# launcher: what runs inside job Pods; static.

noinst_LIBRARIES += liblauncher.a
liblauncher_a_SOURCES = src/launcher/get.c src/launcher/launcher.h
liblauncher_a_CPPFLAGS = $(AM_CPPFLAGS)
launcher_ldadd = liblauncher.a $(httpfy_ldadd)

# services.o stands before the libraries by itself: from an archive it would come too late, after
# the C library's.
libexec_PROGRAMS += ipu-launcher
ipu_launcher_SOURCES = src/launcher/main.c src/launcher/services.c
ipu_launcher_LDADD = $(launcher_ldadd)
ipu_launcher_LDFLAGS = $(static_ldflags)
