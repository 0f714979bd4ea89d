# SPDX-License-Identifier: Apache-2.0
#
# loop: libev wrapped.

noinst_LIBRARIES += libloop.a
libloop_a_SOURCES = include/loop/backoff.h include/loop/loop.h include/loop/op.h \
	include/loop/pulse.h src/loop/pulse.c src/loop/backoff.c src/loop/loop.c src/loop/loop_heap.c src/loop/loop_heap.h src/loop/op.c
libloop_a_CPPFLAGS = $(AM_CPPFLAGS)
loop_ldadd = libloop.a $(core_ldadd) $(EV_LIBS)
loopfy_ldadd = libloop.a $(corefy_ldadd) $(EV_LIBS) -lm

loop_tests = t/unit/loop_op_test t/unit/loop_pulse_test t/unit/loop_timer_test t/unit/loop_work_test
check_PROGRAMS += $(loop_tests)
t_unit_loop_op_test_SOURCES = t/unit/loop_op_test.c t/unit/tap.h
t_unit_loop_op_test_LDADD = $(loop_ldadd)
t_unit_loop_pulse_test_SOURCES = t/unit/loop_pulse_test.c t/unit/tap.h
t_unit_loop_pulse_test_LDADD = $(loop_ldadd)
t_unit_loop_timer_test_SOURCES = t/unit/loop_timer_test.c t/unit/tap.h
t_unit_loop_timer_test_LDADD = $(loop_ldadd)
t_unit_loop_work_test_SOURCES = t/unit/loop_work_test.c t/unit/tap.h
t_unit_loop_work_test_LDADD = $(loop_ldadd)
