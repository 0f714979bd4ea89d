# SPDX-License-Identifier: Apache-2.0
#
# ctl: ipuctl, which is kubectl's plugin kubectl-ipu too.

noinst_LIBRARIES += libctl.a
libctl_a_SOURCES = \
	src/ctl/bundle.c \
	src/ctl/gzip.c \
	src/ctl/commands.h \
	src/ctl/commands.c \
	src/ctl/cordon.h \
	src/ctl/cordon.c \
	src/ctl/crd.c \
	src/ctl/explain.h \
	src/ctl/explain.c \
	src/ctl/explain_rules.c \
	src/ctl/facts.h \
	src/ctl/facts.c \
	src/ctl/link.h \
	src/ctl/link.c \
	src/ctl/manifest.h \
	src/ctl/manifest.c \
	src/ctl/options.h \
	src/ctl/options.c \
	src/ctl/redact.h \
	src/ctl/redact.c \
	src/ctl/render.c \
	src/ctl/settings.h \
	src/ctl/settings.c \
	src/ctl/status.h \
	src/ctl/table.h \
	src/ctl/table.c \
	src/ctl/tar.h \
	src/ctl/tar.c \
	src/ctl/term.h \
	src/ctl/term.c \
	src/ctl/validate.c \
	src/ctl/views.h \
	src/ctl/views.c
nodist_libctl_a_SOURCES = src/ctl/crd_text.c
CLEANFILES += src/ctl/crd_text.c
libctl_a_CPPFLAGS = $(AM_CPPFLAGS)

# The CRD as a string, so that ipuctl always has its own version's.
src/ctl/crd_text.c: crds/graphcore.ai_ipujobs.yaml
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { echo 'extern const char ctl_crd_text[];' && \
		echo 'const char ctl_crd_text[] = {' && \
		od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' && echo '0};'; } >$@.new && mv $@.new $@

ctl_ldadd = libctl.a $(admission_ldadd)

bin_PROGRAMS += ipuctl
ipuctl_SOURCES = src/ctl/main.c
ipuctl_LDADD = $(ctl_ldadd)

check_PROGRAMS += t/unit/ctl_table_test
t_unit_ctl_table_test_SOURCES = t/unit/ctl_table_test.c t/unit/tap.h
t_unit_ctl_table_test_LDADD = $(ctl_ldadd)

check_PROGRAMS += t/unit/ctl_explain_test
t_unit_ctl_explain_test_SOURCES = t/unit/ctl_explain_test.c t/unit/tap.h
t_unit_ctl_explain_test_LDADD = $(ctl_ldadd)

check_PROGRAMS += t/unit/ctl_bundle_test
t_unit_ctl_bundle_test_SOURCES = t/unit/ctl_bundle_test.c t/unit/tap.h
t_unit_ctl_bundle_test_LDADD = $(ctl_ldadd)
