# SPDX-License-Identifier: Apache-2.0
#
# node: what a head node knows of its fabric and its IPUs, and tells the cluster.

noinst_LIBRARIES += libnode.a
libnode_a_SOURCES = \
	include/node/checks.h \
	include/node/cidr.h \
	include/node/fabric.h \
	include/node/facts.h \
	include/node/macvlan.h \
	include/node/rdma.h \
	include/node/verdict.h \
	src/node/checks.c \
	src/node/cidr.c \
	src/node/facts.c \
	src/node/files.c \
	src/node/files.h \
	src/node/host.c \
	src/node/host.h \
	src/node/links.c \
	src/node/links.h \
	src/node/netlink.c \
	src/node/netlink.h \
	src/node/reach.c \
	src/node/reach.h \
	src/node/runtimes.c \
	src/node/runtimes.h \
	src/node/units.c \
	src/node/units.h \
	src/node/findings.c \
	src/node/macvlan.c \
	src/node/verdict.c
libnode_a_CPPFLAGS = $(AM_CPPFLAGS) $(IBVERBS_CFLAGS)
node_ldadd = libnode.a $(partition_ldadd) $(IBVERBS_LIBS)

check_PROGRAMS += t/unit/node_verdict_test
t_unit_node_verdict_test_LDADD = $(node_ldadd)

check_PROGRAMS += t/unit/node_checks_test
t_unit_node_checks_test_LDADD = $(node_ldadd)

check_PROGRAMS += t/unit/node_macvlan_test
t_unit_node_macvlan_test_LDADD = $(node_ldadd)
