# SPDX-License-Identifier: Apache-2.0
#
# loop: libev wrapped.

noinst_LIBRARIES += libloop.a
libloop_a_SOURCES =
libloop_a_CPPFLAGS = $(AM_CPPFLAGS)
loop_ldadd = libloop.a $(core_ldadd) $(EV_LIBS)
loopfy_ldadd = libloop.a $(corefy_ldadd) $(EV_LIBS) -lm
