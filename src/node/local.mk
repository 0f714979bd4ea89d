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
	src/node/fabric.c \
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

check_PROGRAMS += t/unit/node_host_test t/unit/node_links_test t/unit/node_netlink_test
t_unit_node_links_test_LDADD = $(node_ldadd)
t_unit_node_host_test_LDADD = $(node_ldadd)
t_unit_node_netlink_test_SOURCES = t/unit/node_netlink_test.c t/unit/netlink_write.h t/unit/tap.h
t_unit_node_netlink_test_LDADD = $(node_ldadd)
# Its own links.h in place of links.c.
check_PROGRAMS += t/unit/node_reach_test
t_unit_node_reach_test_SOURCES = t/unit/node_reach_test.c t/unit/netlink_write.h t/unit/tap.h
t_unit_node_reach_test_LDADD = $(node_ldadd)

check_PROGRAMS += t/unit/node_verdict_test
t_unit_node_verdict_test_LDADD = $(node_ldadd)

# What is published of them.
libnode_a_SOURCES += \
	include/node/publish.h \
	include/node/publisher.h \
	src/node/publish.c \
	src/node/publisher.c
check_PROGRAMS += t/unit/node_publish_test t/unit/node_publisher_test
t_unit_node_publish_test_LDADD = $(node_ldadd)
t_unit_node_publisher_test_LDADD = libnode.a $(sim_ldadd)

check_PROGRAMS += t/unit/node_checks_test
t_unit_node_checks_test_LDADD = $(node_ldadd)

check_PROGRAMS += t/unit/node_macvlan_test
t_unit_node_macvlan_test_LDADD = $(node_ldadd)

# The cluster's side: advertised IPUs, and the scheduler's extender. Their tests need the simulated API.
libnode_a_SOURCES += \
	include/node/advertise.h \
	include/node/extender.h \
	include/node/heed.h \
	include/node/nodes.h \
	src/node/advertise.c \
	src/node/advertiser.c \
	src/node/extender.c \
	src/node/extender_http.c \
	src/node/heed.c \
	src/node/nodes.c
advert_ldadd = libnode.a $(pod_ldadd)

advert_tests = t/unit/node_advertise_test t/unit/node_advertiser_test t/unit/node_extender_test \
	t/unit/node_heed_test
check_PROGRAMS += $(advert_tests)
t_unit_node_advertise_test_SOURCES = t/unit/node_advertise_test.c t/unit/tap.h
t_unit_node_advertise_test_LDADD = $(advert_ldadd)
t_unit_node_advertiser_test_SOURCES = t/unit/node_advertiser_test.c t/unit/partition_rig.h t/unit/tap.h
t_unit_node_advertiser_test_LDADD = libnode.a libpod.a $(sim_ldadd)
t_unit_node_heed_test_SOURCES = t/unit/node_heed_test.c t/unit/partition_rig.h t/unit/tap.h
t_unit_node_heed_test_LDADD = libnode.a libpod.a $(sim_ldadd)
t_unit_node_extender_test_SOURCES = t/unit/node_extender_test.c t/unit/no_memory.h t/unit/http_test.h t/unit/net_test.h \
	t/unit/tap.h
t_unit_node_extender_test_CPPFLAGS = $(AM_CPPFLAGS) $(MBEDTLS_CFLAGS)
t_unit_node_extender_test_LDADD = $(advert_ldadd)

# RDMA devices.
libnode_a_SOURCES += \
	src/node/pause.h src/node/rdma.c src/node/rdma_sysfs.c src/node/rdma_sysfs.h \
	src/node/rdma_verbs.c src/node/rdma_verbs.h \
	src/node/uevent.c src/node/uevent.h
check_PROGRAMS += t/unit/node_rdma_test
t_unit_node_rdma_test_LDADD = $(node_ldadd)

# Shows the facts of a node's fabric as they change, for the tests.
noinst_PROGRAMS += t/tools/fabric-watch
t_tools_fabric_watch_SOURCES = t/tools/fabric_watch.c
t_tools_fabric_watch_LDADD = $(node_ldadd)

# Shows the inventory of RDMA devices, for the tests.
noinst_PROGRAMS += t/tools/rdma-watch
t_tools_rdma_watch_SOURCES = t/tools/rdma_watch.c
t_tools_rdma_watch_LDADD = $(node_ldadd)

# A stand-in for libibverbs that tests preload: without sanitizers, whose runtime is the program's.
noinst_PROGRAMS += t/tools/ibv-standin.so
t_tools_ibv_standin_so_SOURCES = t/tools/ibv_standin.c
t_tools_ibv_standin_so_CPPFLAGS = $(AM_CPPFLAGS) $(IBVERBS_CFLAGS)
t_tools_ibv_standin_so_CFLAGS = $(IPU_STD_CFLAGS) $(IPU_WARN_CFLAGS) $(IPU_WERROR_CFLAGS) \
	$(IPU_PATH_CFLAGS) -fPIC
t_tools_ibv_standin_so_LDFLAGS = -shared
t_tools_ibv_standin_so_LDADD =
