# SPDX-License-Identifier: Apache-2.0
#
# daemon: wiring and nothing else.

noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	include/daemon/config.h \
	include/daemon/options.h \
	include/daemon/daemon.h \
	src/daemon/internal.h \
	src/daemon/advert.c \
	src/daemon/heed.c \
	src/daemon/certfile.c \
	src/daemon/authority.c \
	src/daemon/config.c \
	src/daemon/config_checks.c \
	src/daemon/config_text.c \
	src/daemon/options.c \
	src/daemon/daemon.c \
	src/daemon/config_keys.h \
	src/daemon/guard.c \
	src/daemon/lead.c \
	src/daemon/logging.c \
	src/daemon/advice.c \
	src/daemon/node.c \
	src/daemon/notify.c \
	src/daemon/health.c \
	src/daemon/observe.c \
	src/daemon/observe_fleet.c \
	src/daemon/register.c \
	src/daemon/reload.c \
	src/daemon/scrape.c \
	src/daemon/sockets.c \
	src/daemon/tell.c \
	src/daemon/webhook.c
libdaemon_a_CPPFLAGS = $(AM_CPPFLAGS)
daemon_ldadd = libdaemon.a libproxy.a libnode.a $(admission_ldadd) $(IBVERBS_LIBS)

sbin_PROGRAMS += ipu-operator
ipu_operator_SOURCES = src/daemon/main.c
ipu_operator_LDADD = $(daemon_ldadd)

check_PROGRAMS += t/unit/daemon_certfile_test t/unit/daemon_config_test t/unit/daemon_guard_test t/unit/daemon_tell_test
t_unit_daemon_tell_test_SOURCES = t/unit/daemon_tell_test.c t/unit/no_memory.h t/unit/tap.h
t_unit_daemon_tell_test_LDADD = $(daemon_ldadd)
t_unit_daemon_certfile_test_SOURCES = t/unit/daemon_certfile_test.c t/unit/tap.h t/unit/wiped.h
t_unit_daemon_certfile_test_LDADD = $(daemon_ldadd)
t_unit_daemon_certfile_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_daemon_guard_test_SOURCES = t/unit/daemon_guard_test.c t/unit/tap.h
t_unit_daemon_guard_test_LDADD = $(daemon_ldadd)
t_unit_daemon_config_test_SOURCES = t/unit/daemon_config_test.c t/unit/tap.h
t_unit_daemon_config_test_LDADD = $(daemon_ldadd)
