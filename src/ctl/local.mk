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
	src/ctl/complete.c \
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
	src/ctl/node_clean.h \
	src/ctl/node_clean.c \
	src/ctl/options.h \
	src/ctl/options.c \
	src/ctl/rdma.h \
	src/ctl/rdma.c \
	src/ctl/rdma_cluster.c \
	src/ctl/rdma_facts.c \
	src/ctl/rdma_inside.c \
	src/ctl/rdma_macvlan.c \
	src/ctl/rdma_pod.c \
	src/ctl/rdma_pod_rules.c \
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
	src/ctl/top.c \
	src/ctl/ui.h \
	src/ctl/ui.c \
	src/ctl/ui_browser.c \
	src/ctl/ui_guard.c \
	src/ctl/ui_names.c \
	src/ctl/ui_pass.c \
	src/ctl/validate.c \
	src/ctl/views.h \
	src/ctl/views.c
nodist_libctl_a_SOURCES = src/ctl/crd_text.c src/ctl/completion_text.c
CLEANFILES += src/ctl/crd_text.c src/ctl/completion_text.c
libctl_a_CPPFLAGS = $(AM_CPPFLAGS)

# ipuctl always has its own version's CRD.
src/ctl/crd_text.c: crds/graphcore.ai_ipujobs.yaml
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { $(call c_text,$<,ctl_crd_text); } >$@.new && mv $@.new $@

completion_scripts = src/ctl/completion/ipuctl.bash src/ctl/completion/_ipuctl \
	src/ctl/completion/ipuctl.fish
src/ctl/completion_text.c: $(completion_scripts)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		$(call c_text,$(srcdir)/src/ctl/completion/ipuctl.bash,ctl_completion_bash) && \
		$(call c_text,$(srcdir)/src/ctl/completion/_ipuctl,ctl_completion_zsh) && \
		$(call c_text,$(srcdir)/src/ctl/completion/ipuctl.fish,ctl_completion_fish); \
	} >$@.new && mv $@.new $@

# Where the shells, and kubectl, look for completions of other programs.
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = src/ctl/completion/ipuctl.bash
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = src/ctl/completion/_ipuctl
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = src/ctl/completion/ipuctl.fish
dist_bin_SCRIPTS = src/ctl/completion/kubectl_complete-ipu

ctl_ldadd = libctl.a libnode.a libproxy.a $(admission_ldadd) $(IBVERBS_LIBS)

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

check_PROGRAMS += t/unit/ctl_node_test
t_unit_ctl_node_test_SOURCES = t/unit/ctl_node_test.c t/unit/tap.h
t_unit_ctl_node_test_LDADD = $(ctl_ldadd)

check_PROGRAMS += t/unit/ctl_rdma_test
t_unit_ctl_rdma_test_SOURCES = t/unit/ctl_rdma_test.c t/unit/tap.h
t_unit_ctl_rdma_test_LDADD = $(ctl_ldadd)
