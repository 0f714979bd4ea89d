# SPDX-License-Identifier: Apache-2.0
#
# The units, for the folder that configure's summary names.

if INSTALL_UNITS
systemdsystemunitdir = $(SYSTEMD_UNIT_DIR)
nodist_systemdsystemunit_DATA = etc/systemd/ipu-operator.service etc/systemd/ipu-operator-node.service
dist_systemdsystemunit_DATA = \
	etc/systemd/ipu-operator-partitions.socket \
	etc/systemd/ipu-operator-proxy.socket \
	etc/systemd/ipu-operator-webhook.socket
endif
CLEANFILES += etc/systemd/ipu-operator.service etc/systemd/ipu-operator-node.service

etc/systemd/ipu-operator.service: etc/systemd/ipu-operator.service.in Makefile
etc/systemd/ipu-operator-node.service: etc/systemd/ipu-operator-node.service.in Makefile
etc/systemd/ipu-operator.service etc/systemd/ipu-operator-node.service:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed 's|@sbindir[@]|$(sbindir)|' $(srcdir)/$@.in >$@.new && mv $@.new $@
