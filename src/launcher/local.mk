# SPDX-License-Identifier: Apache-2.0
#
# launcher: what runs inside job Pods; static.

noinst_LIBRARIES += liblauncher.a
liblauncher_a_SOURCES =
liblauncher_a_CPPFLAGS = $(AM_CPPFLAGS)
launcher_ldadd = liblauncher.a $(httpfy_ldadd)
