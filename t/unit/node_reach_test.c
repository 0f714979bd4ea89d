/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an address is reached over links that a test's kernel may lack (VLAN, bond, team, IPoIB):
 * each machine is the messages that a kernel would send of it (RTM_NEWLINK, RTM_NEWADDR,
 * RTM_NEWROUTE), composed here and read by the codec. This file stands in for links.c, which asks
 * the kernel for them.
 */
#include "tap.h"

#include <linux/if.h>

#include "netlink_write.h"
#include "node/reach.h"

#define UP      (IFF_UP | IFF_RUNNING | IFF_LOWER_UP)
#define N_LINKS 12
#define N_ADDRS 3
#define N_PORTS 2

struct machine {
	const char *what;
	struct {
		const char *name, *kind;
		int lower, master;
		bool elsewhere; /* lower is another namespace's */
		unsigned mtu;
	} links[N_LINKS]; /* their indices begin with 1 */
	struct {
		int link;
		const char *ip;
		unsigned prefix;
	} addrs[N_ADDRS];
	struct {
		unsigned char type;
		int link;
		const char *source, *gateway; /* NULL: none */
	} route;
	struct {
		const char *link;
		bool up;
	} ports[N_PORTS];
	/* What is found. */
	const char *link, *subnet, *source, *gateway, *rdma_link;
	unsigned mtu;
	bool local;
};

static const struct machine machines[] = {
	{"a VLAN over a bond of two ports, one of them down",
	 {{"rnic0", NULL, 0, 3, false, 9000},
	  {"rnic1", NULL, 0, 3, false, 9000},
	  {"bond0", "bond", 0, 0, false, 9000},
	  {"bond0.212", "vlan", 3, 0, false, 4200}},
	 {{3, "10.9.0.7", 24}, {4, "10.5.212.7", 24}},
	 {RTN_UNICAST, 4, "10.5.212.7", NULL},
	 {{"rnic0", false}, {"rnic1", true}},
	 "bond0.212",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic1",
	 4200,
	 false},
	{"a bond, both of whose ports are down: the first",
	 {{"rnic0", NULL, 0, 3, false, 9000},
	  {"rnic1", NULL, 0, 3, false, 9000},
	  {"bond0", "bond", 0, 0, false, 9000}},
	 {{3, "10.5.212.7", 24}},
	 {RTN_UNICAST, 3, "10.5.212.7", NULL},
	 {{"rnic0", false}, {"rnic1", false}},
	 "bond0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic0",
	 9000,
	 false},
	{"a bond, one of whose parts is no RDMA port",
	 {{"eth0", NULL, 0, 3, false, 1500},
	  {"rnic1", NULL, 0, 3, false, 1500},
	  {"bond0", "bond", 0, 0, false, 1500}},
	 {{3, "10.5.212.7", 24}},
	 {RTN_UNICAST, 3, "10.5.212.7", NULL},
	 {{"rnic1", true}},
	 "bond0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic1",
	 1500,
	 false},
	{"a port beside a bond isn't below it",
	 {{"eth0", NULL, 0, 3, false, 1500},
	  {"rnic1", NULL, 0, 0, false, 1500},
	  {"bond0", "bond", 0, 0, false, 1500}},
	 {{3, "10.5.212.7", 24}},
	 {RTN_UNICAST, 3, "10.5.212.7", NULL},
	 {{"rnic1", true}},
	 "bond0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1500,
	 false},
	{"MACVLAN over a VLAN over a team",
	 {{"rnic0", NULL, 0, 2, false, 9000},
	  {"team0", "team", 0, 0, false, 9000},
	  {"team0.5", "vlan", 2, 0, false, 9000},
	  {"m0", "macvlan", 3, 0, false, 8000}},
	 {{4, "10.5.212.7", 24}},
	 {RTN_UNICAST, 4, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "m0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic0",
	 8000,
	 false},
	{"a bridge with a VLAN over a bond in it",
	 {{"rnic0", NULL, 0, 2, false, 1500},
	  {"bond0", "bond", 0, 0, false, 1500},
	  {"bond0.7", "vlan", 2, 5, false, 1500},
	  {"veth0", "veth", 1, 5, false, 1500},
	  {"br0", "bridge", 0, 0, false, 1500}},
	 {{5, "10.5.212.7", 24}},
	 {RTN_UNICAST, 5, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "br0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic0",
	 1500,
	 false},
	{"an IPoIB child",
	 {{"ib0", NULL, 0, 0, false, 2044}, {"ib0.8001", "ipoib", 1, 0, false, 2044}},
	 {{2, "10.5.212.7", 24}},
	 {RTN_UNICAST, 2, "10.5.212.7", NULL},
	 {{"ib0", true}},
	 "ib0.8001",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "ib0",
	 2044,
	 false},
	{"a VLAN whose link is in another namespace",
	 {{"rnic0", NULL, 0, 0, false, 1500}, {"v0", "vlan", 1, 0, true, 1500}},
	 {{2, "10.5.212.7", 24}},
	 {RTN_UNICAST, 2, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "v0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1500,
	 false},
	{"a VLAN whose link has gone meanwhile",
	 {{"v0", "vlan", 9, 0, false, 1500}},
	 {{1, "10.5.212.7", 24}},
	 {RTN_UNICAST, 1, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "v0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1500,
	 false},
	{"the other end of a veth, and a tunnel's link, aren't below",
	 {{"rnic0", NULL, 0, 0, false, 1500}, {"vx0", "vxlan", 1, 0, false, 1450}},
	 {{2, "10.5.212.7", 24}},
	 {RTN_UNICAST, 2, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "vx0",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1450,
	 false},
	{"VLANs on each other without end",
	 {{"a", "vlan", 2, 0, false, 1500}, {"b", "vlan", 1, 0, false, 1500}},
	 {{1, "10.5.212.7", 24}},
	 {RTN_UNICAST, 1, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "a",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1500,
	 false},
	{"VLANs to the depth that is looked at",
	 {{"rnic0", NULL, 0, 0, false, 1500},
	  {"v1", "vlan", 1, 0, false, 1500},
	  {"v2", "vlan", 2, 0, false, 1500},
	  {"v3", "vlan", 3, 0, false, 1500},
	  {"v4", "vlan", 4, 0, false, 1500},
	  {"v5", "vlan", 5, 0, false, 1500},
	  {"v6", "vlan", 6, 0, false, 1500},
	  {"v7", "vlan", 7, 0, false, 1500}},
	 {{8, "10.5.212.7", 24}},
	 {RTN_UNICAST, 8, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "v7",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "rnic0",
	 1500,
	 false},
	{"… and one more",
	 {{"rnic0", NULL, 0, 0, false, 1500},
	  {"v1", "vlan", 1, 0, false, 1500},
	  {"v2", "vlan", 2, 0, false, 1500},
	  {"v3", "vlan", 3, 0, false, 1500},
	  {"v4", "vlan", 4, 0, false, 1500},
	  {"v5", "vlan", 5, 0, false, 1500},
	  {"v6", "vlan", 6, 0, false, 1500},
	  {"v7", "vlan", 7, 0, false, 1500},
	  {"v8", "vlan", 8, 0, false, 1500}},
	 {{9, "10.5.212.7", 24}},
	 {RTN_UNICAST, 9, "10.5.212.7", NULL},
	 {{"rnic0", true}},
	 "v8",
	 "10.5.212.0/24",
	 "10.5.212.7",
	 "",
	 "",
	 1500,
	 false},
	{"by a gateway on the VLAN's network, from an address on lo",
	 {{"lo", NULL, 0, 0, false, 65536},
	  {"rnic0", NULL, 0, 0, false, 9000},
	  {"rnic0.5", "vlan", 2, 0, false, 9000}},
	 {{1, "192.0.2.7", 32}, {3, "10.9.0.7", 16}},
	 {RTN_UNICAST, 3, "192.0.2.7", "10.9.0.1"},
	 {{"rnic0", true}},
	 "rnic0.5",
	 "10.9.0.0/16",
	 "192.0.2.7",
	 "10.9.0.1",
	 "rnic0",
	 9000,
	 false},
	{"an address of the bond's own",
	 {{"lo", NULL, 0, 0, false, 65536},
	  {"rnic0", NULL, 0, 3, false, 9000},
	  {"bond0", "bond", 0, 0, false, 9000}},
	 {{3, "10.5.212.116", 24}},
	 {RTN_LOCAL, 1, "10.5.212.116", NULL},
	 {{"rnic0", true}},
	 "bond0",
	 "10.5.212.0/24",
	 "10.5.212.116",
	 "",
	 "rnic0",
	 9000,
	 true},
};

/* ---- what the kernel would say ---- */

static const struct machine *m;

static struct nl_message read_back(unsigned type, const struct buf *body)
{
	struct buf b = BUF_INIT(65536);
	struct nl_message message;
	struct err err;
	struct str rest;

	add_message(&b, type, body);
	rest = buf_str(&b);
	if (nl_next(&rest, &message, &err) != 1)
		bail_out("the test's own message can't be read");
	buf_done(&b);
	return message;
}

static struct nl_link link_at(int index)
{
	struct ifinfomsg head = {.ifi_index = index, .ifi_flags = UP};
	struct buf b = BUF_INIT(4096);
	struct nl_message message;
	int i = index - 1;

	add(&b, &head, sizeof(head));
	add_attr(&b, IFLA_IFNAME, m->links[i].name, strlen(m->links[i].name) + 1);
	add_attr_u32(&b, IFLA_MTU, m->links[i].mtu);
	if (m->links[i].lower)
		add_attr_u32(&b, IFLA_LINK, (uint32_t)m->links[i].lower);
	if (m->links[i].elsewhere)
		add_attr_u32(&b, IFLA_LINK_NETNSID, 0);
	if (m->links[i].master)
		add_attr_u32(&b, IFLA_MASTER, (uint32_t)m->links[i].master);
	if (m->links[i].kind)
		add_kind(&b, m->links[i].kind);
	message = read_back(RTM_NEWLINK, &b);
	buf_done(&b);
	return message.link;
}

int links_get(struct links *links, int index, struct nl_link *ret, struct err *err)
{
	(void)links;
	if (index < 1 || index > N_LINKS || !m->links[index - 1].name)
		return err_set(err, ERR_NOT_FOUND, 0, "no such link");
	*ret = link_at(index);
	return 0;
}

int links_members(struct links *links, int master, struct nl_link *ret, size_t max, size_t *ret_n,
		  struct err *err)
{
	(void)links, (void)err;
	*ret_n = 0;
	for (int i = 0; i < N_LINKS && m->links[i].name && *ret_n < max; i++) {
		if (m->links[i].master == master)
			ret[(*ret_n)++] = link_at(i + 1);
	}
	return 0;
}

int links_addrs(struct links *links, int family, int link, links_addr_fn *cb, void *arg,
		struct err *err)
{
	(void)links, (void)family, (void)err;
	for (int i = 0; i < N_ADDRS && m->addrs[i].ip; i++) {
		struct ifaddrmsg head = {.ifa_family = AF_INET,
					 .ifa_prefixlen = (unsigned char)m->addrs[i].prefix,
					 .ifa_index = (unsigned)m->addrs[i].link};
		struct buf b = BUF_INIT(4096);
		struct nl_message message;

		if (link && link != m->addrs[i].link)
			continue;
		add(&b, &head, sizeof(head));
		add_attr_ip(&b, IFA_ADDRESS, m->addrs[i].ip);
		add_attr_ip(&b, IFA_LOCAL, m->addrs[i].ip);
		message = read_back(RTM_NEWADDR, &b);
		buf_done(&b);
		cb(&message.addr, arg);
	}
	return 0;
}

int links_route(struct links *links, const struct nl_ip *to, int zone, struct nl_route *ret,
		struct err *err)
{
	struct rtmsg head = {.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_type = m->route.type};
	struct buf b = BUF_INIT(4096);
	struct nl_message message;

	(void)links, (void)zone, (void)err;
	add(&b, &head, sizeof(head));
	add_attr(&b, RTA_DST, to->bytes, 4);
	add_attr_u32(&b, RTA_OIF, (uint32_t)m->route.link);
	add_attr_ip(&b, RTA_PREFSRC, m->route.source);
	if (m->route.gateway)
		add_attr_ip(&b, RTA_GATEWAY, m->route.gateway);
	message = read_back(RTM_NEWROUTE, &b);
	buf_done(&b);
	*ret = message.route;
	return 0;
}

/* ---- the table ---- */

static void look(const struct machine *machine)
{
	static const struct nl_ip to = {.family = AF_INET, .bytes = {10, 5, 212, 116}};
	struct rdma_port ports[N_PORTS];
	struct rdma_device devices[N_PORTS];
	struct rdma_inventory rdma = {.devices = devices};
	struct fabric_reach reach;
	int link;

	m = machine;
	for (size_t i = 0; i < N_PORTS && m->ports[i].link; i++) {
		ports[i] = (struct rdma_port){
			.number = 1, .state = m->ports[i].up ? RDMA_PORT_ACTIVE : RDMA_PORT_DOWN};
		snprintf(ports[i].netdev, sizeof(ports[i].netdev), "%s", m->ports[i].link);
		devices[i] = (struct rdma_device){.ports = &ports[i], .n_ports = 1};
		snprintf(devices[i].name, sizeof(devices[i].name), "mlx5_%zu", i);
		rdma.n_devices++;
	}
	row_begin("%s", m->what);
	is_int(reach_find(NULL, &to, 0, &rdma, &reach, &link), 0, "it is reached");
	is_str(reach.link, m->link, "by the interface");
	is_str(reach.subnet, m->subnet, "the subnet there");
	is_str(reach.source, m->source, "our address");
	is_str(reach.gateway, m->gateway, "the gateway");
	is_uint(reach.mtu_bytes, m->mtu, "the MTU");
	is_str(reach.rdma_link, m->rdma_link, "the RDMA port's interface");
	ok(!reach.rdma_device[0] == !m->rdma_link[0], "a device's, or none");
	ok(reach.local == m->local, "whether it's this machine");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		look(&machines[i]);
	row_end();
	return done_testing();
}
