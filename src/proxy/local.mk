# SPDX-License-Identifier: Apache-2.0
#
# proxy: the REST end-points.

noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES = \
	include/proxy/held.h \
	include/proxy/page.h \
	include/proxy/proxy.h \
	src/proxy/internal.h \
	src/proxy/live.h \
	src/proxy/live_impl.h \
	src/proxy/sums.h \
	src/proxy/stream.h \
	src/proxy/auth.h \
	src/proxy/ask.c \
	src/proxy/auth.c \
	src/proxy/etag.c \
	src/proxy/follow.c \
	src/proxy/forward.c \
	src/proxy/guard.c \
	src/proxy/held.c \
	src/proxy/ipuof.c \
	src/proxy/live.c \
	src/proxy/live_frames.c \
	src/proxy/live_hand.c \
	src/proxy/live_held.c \
	src/proxy/live_history.c \
	src/proxy/live_render.c \
	src/proxy/live_steps.c \
	src/proxy/page.c \
	src/proxy/proxy.c \
	src/proxy/request.c \
	src/proxy/rest.c \
	src/proxy/status.c \
	src/proxy/sums.c \
	src/proxy/stream.c \
	src/proxy/told.c \
	src/proxy/view.c
nodist_libproxy_a_SOURCES = src/proxy/page_text.c
libproxy_a_CPPFLAGS = $(AM_CPPFLAGS)
proxy_ldadd = libproxy.a $(partition_ldadd)

# The page's files as they are served, and these compressed ahead of time: page.js is hours.js, queue.js and page.js, one behind
# the other; what *.sed and js.awk say is left out.
page_folder = src/proxy/page
page_files = $(page_folder)/index.html $(page_folder)/page.css $(page_folder)/hours.js $(page_folder)/queue.js \
	$(page_folder)/page.js $(page_folder)/icon.svg $(page_folder)/html.sed $(page_folder)/css.sed $(page_folder)/js.awk
dist_noinst_DATA = $(page_files)
CLEANFILES += src/proxy/page_text.c
page_bytes = (cd $(srcdir)/$(page_folder) && cat $(2) | LC_ALL=C $(if $(filter js,$(1)),$(AWK) -f js.awk,sed -f $(1).sed)) >$@.text && gzip -9 -n -c $@.text >$@.gz && \
	$(call c_bytes,$@.text,page_$(3)) && $(call c_bytes,$@.gz,page_$(3)_gz)
src/proxy/page_text.c: $(page_files) src/proxy/local.mk
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		$(call page_bytes,html,index.html,html) && $(call page_bytes,css,page.css,css) && \
		$(call page_bytes,js,hours.js queue.js page.js,js) && $(call page_bytes,html,icon.svg,svg); \
	} >$@.new && rm -f $@.gz $@.text && mv $@.new $@

check_PROGRAMS += t/unit/proxy_test
t_unit_proxy_test_SOURCES = t/unit/proxy_test.c t/unit/no_memory.h t/unit/proxy_rig.h \
	t/unit/http_test.h t/unit/net_test.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_follow_test
t_unit_proxy_follow_test_SOURCES = t/unit/proxy_follow_test.c t/unit/no_memory.h t/unit/proxy_rig.h t/unit/http_test.h \
	t/unit/net_test.h t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_follow_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_follow_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_remote_test
t_unit_proxy_remote_test_SOURCES = t/unit/proxy_remote_test.c t/unit/no_memory.h t/unit/proxy_remote_rig.h t/unit/proxy_rig.h \
	t/unit/http_test.h \
	t/unit/net_test.h t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_remote_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_remote_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_remote_much_test
t_unit_proxy_remote_much_test_SOURCES = t/unit/proxy_remote_much_test.c t/unit/proxy_remote_rig.h t/unit/proxy_rig.h \
	t/unit/http_test.h \
	t/unit/net_test.h t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_remote_much_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_remote_much_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_held_test
t_unit_proxy_held_test_SOURCES = t/unit/proxy_held_test.c t/unit/tap.h
t_unit_proxy_held_test_LDADD = $(proxy_ldadd)

check_PROGRAMS += t/unit/proxy_live_steps_test
t_unit_proxy_live_steps_test_SOURCES = t/unit/proxy_live_steps_test.c t/unit/tap.h
t_unit_proxy_live_steps_test_LDADD = $(proxy_ldadd)

check_PROGRAMS += t/unit/proxy_live_history_test
t_unit_proxy_live_history_test_SOURCES = t/unit/proxy_live_history_test.c t/unit/tap.h
t_unit_proxy_live_history_test_LDADD = $(proxy_ldadd)

check_PROGRAMS += t/unit/proxy_stream_test
t_unit_proxy_stream_test_SOURCES = t/unit/proxy_stream_test.c t/unit/http_test.h t/unit/net_test.h t/unit/tap.h
t_unit_proxy_stream_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_proxy_stream_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_live_test
t_unit_proxy_live_test_SOURCES = t/unit/proxy_live_test.c t/unit/proxy_live_rig.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_live_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_live_speed_test
t_unit_proxy_live_speed_test_SOURCES = t/unit/proxy_live_speed_test.c t/unit/proxy_live_rig.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_live_speed_test_LDADD = libproxy.a $(sim_ldadd)

check_PROGRAMS += t/unit/proxy_live_edges_test
t_unit_proxy_live_edges_test_SOURCES = t/unit/proxy_live_edges_test.c t/unit/proxy_live_rig.h \
	t/unit/partition_manager_rig.h t/unit/partition_rig.h t/unit/tap.h
t_unit_proxy_live_edges_test_LDADD = libproxy.a $(sim_ldadd)
