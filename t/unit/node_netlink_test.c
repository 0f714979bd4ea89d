/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rtnetlink's messages: links, addresses and routes as the kernel writes them, lengths that lie,
 * messages cut at every byte, and the questions. Uses node.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "core/buf.h"
#include "node/netlink.h"
#include "netlink_write.h"

#define FLAGS_UP (IFF_UP | IFF_RUNNING | IFF_LOWER_UP)

/* Reads the only message of a body, from a copy of exactly its size. */
static int read_one(unsigned type, const struct buf *body, struct nl_message *ret, struct err *err)
{
	struct buf b = BUF_INIT(65536);
	int result;

	add_message(&b, type, body);
	char *exact = xcalloc(1, b.len);
	memcpy(exact, b.p, b.len);
	struct str rest = {exact, b.len};
	result = nl_next(&rest, ret, err);
	if (result == 1)
		is_uint(rest.len, 0, "nothing is left");
	free(exact);
	buf_done(&b);
	return result;
}

/* ---- links ---- */

static const struct link_row {
	const char *what, *name, *kind;
	unsigned flags, mtu;
	int lower, netns, master; /* -1: the attribute isn't there */
	bool enabled, carrier;
	int want_lower, want_master;
} links[] = {
	{"hardware", "enp1s0f0", NULL, FLAGS_UP, 9000, -1, -1, -1, true, true, 0, 0},
	{"down", "rnic0", NULL, 0, 1500, -1, -1, -1, false, false, 0, 0},
	{"no carrier", "rnic0", NULL, IFF_UP, 1500, -1, -1, -1, true, false, 0, 0},
	{"carrier, but dormant", "ib0", NULL, IFF_UP | IFF_LOWER_UP, 2044, -1, -1, -1, true, false,
	 0, 0},
	{"a VLAN", "bond0.212", "vlan", FLAGS_UP, 9000, 4, -1, -1, true, true, 4, 0},
	{"part of a bond", "rnic0", NULL, FLAGS_UP, 9000, -1, -1, 8, true, true, 0, 8},
	{"a bridge on itself", "br0", "bridge", FLAGS_UP, 1500, 3, -1, -1, true, true, 0, 0},
	{"a MACVLAN whose link is another namespace's", "net1", "macvlan", FLAGS_UP, 1500, 5, 0, -1,
	 true, true, 0, 0},
	{"the longest name", "a23456789012345", "macvlan", FLAGS_UP, 1500, 5, -1, -1, true, true, 5,
	 0},
};

static void add_link(struct buf *b, const struct link_row *row)
{
	struct ifinfomsg head = {.ifi_index = 3, .ifi_flags = row->flags};

	add(b, &head, sizeof(head));
	add_attr(b, IFLA_IFNAME, row->name, strlen(row->name) + 1);
	add_attr_u32(b, IFLA_MTU, row->mtu);
	if (row->lower >= 0)
		add_attr_u32(b, IFLA_LINK, (uint32_t)row->lower);
	if (row->netns >= 0)
		add_attr_u32(b, IFLA_LINK_NETNSID, (uint32_t)row->netns);
	if (row->master >= 0)
		add_attr_u32(b, IFLA_MASTER, (uint32_t)row->master);
	add_attr(b, 999, "what no one knows", 17);
	if (row->kind)
		add_kind(b, row->kind);
}

static void test_links(void)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		const struct link_row *row = &links[i];
		struct buf body = BUF_INIT(4096);
		struct nl_message m;
		struct err err = ERR_INIT;

		row_begin("%s", row->what);
		add_link(&body, row);
		if (!is_int(read_one(RTM_NEWLINK, &body, &m, &err), 1, "is read: %s", err.msg))
			continue;
		is_int(m.kind, NL_LINK, "is a link");
		is_uint(m.seq, 7, "answers its question");
		is_int(m.link.index, 3, "index");
		is_str(m.link.name, row->name, "name");
		is_str(m.link.kind, row->kind ? row->kind : "", "kind");
		is_uint(m.link.mtu_bytes, row->mtu, "mtu");
		is_int(m.link.enabled, row->enabled, "enabled");
		is_int(m.link.carrier, row->carrier, "carrier");
		is_int(m.link.lower, row->want_lower, "what it lies on");
		is_int(m.link.master, row->want_master, "what it is a part of");
		buf_done(&body);
	}
	row_end();
}

/* A name of any bytes stays within its size and is fit to be seen. */
static void test_wild_name(void)
{
	struct ifinfomsg head = {.ifi_index = 3};
	struct buf body = BUF_INIT(4096);
	struct nl_message m;

	add(&body, &head, sizeof(head));
	add_attr(&body, IFLA_IFNAME, "\x1b[31m\xff \nabcdefghijk", 19);
	is_int(read_one(RTM_NEWLINK, &body, &m, NULL), 1, "a wild name is read");
	is_str(m.link.name, "?[31m???abcdefg", "and made harmless");
	buf_done(&body);
}

/* A bridge's port is told in the bridge's family: that is no link, and its end not the link's. */
static void test_bridge_family(void)
{
	struct ifinfomsg head = {.ifi_family = AF_BRIDGE, .ifi_index = 3, .ifi_flags = FLAGS_UP};
	struct buf body = BUF_INIT(4096);
	struct nl_message m;

	add(&body, &head, sizeof(head));
	add_attr(&body, IFLA_IFNAME, "rnic0", 6);
	is_int(read_one(RTM_NEWLINK, &body, &m, NULL), 1, "a bridge's port is read");
	is_int(m.kind, NL_OTHER, "and is no link");
	buf_done(&body);
}

/* ---- addresses ---- */

static const struct addr_row {
	int family;
	unsigned bits;
	const char *local, *address; /* IFA_LOCAL, IFA_ADDRESS; NULL: not there */
	const char *want, *subnet;   /* want NULL: refused */
} addrs[] = {
	{AF_INET, 24, "10.5.212.7", "10.5.212.7", "10.5.212.7", "10.5.212.0/24"},
	{AF_INET, 24, NULL, "10.5.212.7", "10.5.212.7", "10.5.212.0/24"},
	{AF_INET, 31, "10.0.0.3", "10.0.0.3", "10.0.0.3", "10.0.0.2/31"},
	{AF_INET, 32, "10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.2/32"},
	{AF_INET, 0, "10.9.0.1", "10.9.0.1", "10.9.0.1", "0.0.0.0/0"},
	{AF_INET, 17, "10.9.200.1", "10.9.200.1", "10.9.200.1", "10.9.128.0/17"},
	{AF_INET6, 64, NULL, "fd00:5::7", "fd00:5::7", "fd00:5::/64"},
	{AF_INET6, 128, NULL, "fd00:5::7", "fd00:5::7", "fd00:5::7/128"},
	{AF_INET6, 61, NULL, "fd00:5:0:f::7", "fd00:5:0:f::7", "fd00:5:0:8::/61"},
	{AF_INET, 33, "10.5.212.7", "10.5.212.7", NULL, NULL},
	{AF_INET6, 129, NULL, "fd00::1", NULL, NULL},
	{AF_INET, 24, NULL, NULL, NULL, NULL},
	{AF_INET6, 64, NULL, "10.5.212.7", NULL, NULL}, /* four bytes where 16 should be */
};

static void test_addrs(void)
{
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		const struct addr_row *row = &addrs[i];
		struct ifaddrmsg head = {
			.ifa_family = (uint8_t)row->family,
			.ifa_prefixlen = (uint8_t)row->bits,
			.ifa_index = 5,
		};
		char ip[NODE_ADDR_SIZE], subnet[NODE_ADDR_SIZE + 4];
		struct buf body = BUF_INIT(4096);
		struct err err = ERR_INIT;
		struct nl_message m;

		row_begin("%s/%u", row->address ? row->address : "none", row->bits);
		add(&body, &head, sizeof(head));
		if (row->address)
			add_attr_ip(&body, IFA_ADDRESS, row->address);
		if (row->local)
			add_attr_ip(&body, IFA_LOCAL, row->local);
		int result = read_one(RTM_NEWADDR, &body, &m, &err);
		if (!row->want) {
			is_int(result, -1, "is refused");
			is_int(err.kind, ERR_PROTOCOL, "as the protocol's fault");
		} else if (is_int(result, 1, "is read: %s", err.msg)) {
			nl_ip_format(&m.addr.ip, ip);
			nl_ip_format_net(&m.addr.network, m.addr.prefix_bits, subnet);
			is_str(ip, row->want, "address");
			is_str(subnet, row->subnet, "subnet");
			is_int(m.addr.link, 5, "link");
		}
		buf_done(&body);
	}
	row_end();
}

/* ---- routes ---- */

static void test_routes(void)
{
	struct rtmsg head = {.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_type = RTN_UNICAST};
	struct {
		uint16_t family;
		uint8_t ip[16];
	} via = {.family = AF_INET6, .ip = {0xfd, [15] = 1}};
	struct buf body = BUF_INIT(4096);
	char text[NODE_ADDR_SIZE];
	struct nl_message m;

	add(&body, &head, sizeof(head));
	add_attr_ip(&body, RTA_DST, "10.6.1.1");
	add_attr_u32(&body, RTA_OIF, 4);
	add_attr_ip(&body, RTA_PREFSRC, "10.5.212.7");
	add_attr_ip(&body, RTA_GATEWAY, "10.5.212.1");
	is_int(read_one(RTM_NEWROUTE, &body, &m, NULL), 1, "a route by a gateway is read");
	is_int(m.kind, NL_ROUTE, "as a route");
	is_int(m.route.link, 4, "through its link");
	nl_ip_format(&m.route.source, text);
	is_str(text, "10.5.212.7", "with our address");
	nl_ip_format(&m.route.gateway, text);
	is_str(text, "10.5.212.1", "and its gateway");
	buf_clear(&body);

	add(&body, &head, sizeof(head));
	add_attr_u32(&body, RTA_OIF, 4);
	add_attr(&body, RTA_VIA, &via, sizeof(via));
	is_int(read_one(RTM_NEWROUTE, &body, &m, NULL), 1, "one by a gateway of IPv6 is read");
	nl_ip_format(&m.route.gateway, text);
	is_str(text, "fd00::1", "with that gateway");
	is_int(m.route.source.family, 0, "and no address where none is said");
	buf_clear(&body);

	add(&body, &head, sizeof(head));
	add_attr(&body, RTA_VIA, &via, 5);
	is_int(read_one(RTM_NEWROUTE, &body, &m, NULL), -1, "a gateway that is cut is refused");
	buf_clear(&body);

	add(&body, &head, sizeof(head));
	add_attr(&body, RTA_GATEWAY, "\1\2", 2);
	is_int(read_one(RTM_NEWROUTE, &body, &m, NULL), -1, "an address that is cut is refused");
	buf_clear(&body);

	head.rtm_family = 129; /* RTNL_FAMILY_IPMR's neighbour: none of ours */
	add(&body, &head, sizeof(head));
	is_int(read_one(RTM_NEWROUTE, &body, &m, NULL), 1, "another family's is passed over");
	is_int(m.kind, NL_OTHER, "as something else");
	buf_done(&body);
}

/* ---- errors, ends ---- */

static void test_errors(void)
{
	static const struct {
		unsigned type;
		int32_t code;
		size_t size;
		int want;
		enum nl_kind kind;
		int errnum;
	} rows[] = {
		{NLMSG_ERROR, -ENODEV, 4, 1, NL_ERROR, ENODEV},
		{NLMSG_ERROR, 0, 4, 1, NL_ERROR, 0},
		{NLMSG_ERROR, 5, 4, -1, NL_OTHER, 0},
		{NLMSG_ERROR, INT32_MIN, 4, -1, NL_OTHER, 0},
		{NLMSG_ERROR, -1, 3, -1, NL_OTHER, 0},
		{NLMSG_ERROR, -1, 0, -1, NL_OTHER, 0},
		{NLMSG_DONE, 0, 4, 1, NL_DONE, 0},
		{NLMSG_DONE, 0, 0, 1, NL_DONE, 0},
		{NLMSG_DONE, -EINTR, 4, 1, NL_DONE, EINTR},
		{NLMSG_NOOP, 0, 0, 1, NL_OTHER, 0},
		{RTM_NEWNEIGH, 0, 4, 1, NL_OTHER, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf body = BUF_INIT(64);
		struct nl_message m;

		row_begin("type %u, code %d, %zu bytes", rows[i].type, rows[i].code, rows[i].size);
		if (buf_append(&body, &rows[i].code, rows[i].size, NULL) < 0)
			bail_out("no memory");
		if (is_int(read_one(rows[i].type, &body, &m, NULL), rows[i].want, "is read") &&
		    rows[i].want == 1) {
			is_int(m.kind, rows[i].kind, "as what it is");
			is_int(m.error, rows[i].errnum, "with its errno");
		}
		buf_done(&body);
	}
	row_end();
}

/* ---- lengths ---- */

/* A link, an address and the end, cut at every byte: what came whole is read, the rest is refused,
 * and a sanitizer sees each byte that is read beyond the end. */
static void test_cuts(void)
{
	struct ifaddrmsg addr = {.ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 3};
	struct buf b = BUF_INIT(65536), body = BUF_INIT(4096);
	size_t ends[3];
	unsigned wrong = 0;

	add_link(&body, &links[4]);
	add_message(&b, RTM_NEWLINK, &body);
	ends[0] = b.len;
	buf_clear(&body);
	add(&body, &addr, sizeof(addr));
	add_attr_ip(&body, IFA_ADDRESS, "10.5.212.7");
	add_message(&b, RTM_NEWADDR, &body);
	ends[1] = b.len;
	buf_clear(&body);
	add(&body, "\0\0\0\0", 4);
	add_message(&b, NLMSG_DONE, &body);
	ends[2] = b.len;
	for (size_t cut = 0; cut <= b.len; cut++) {
		char *exact = xcalloc(1, cut + 1);
		unsigned whole = 0, want = 0;
		struct nl_message m;
		struct err err = ERR_INIT;
		int more;

		exact = xrealloc(exact, cut ? cut : 1);
		memcpy(exact, b.p, cut);
		struct str rest = {exact, cut};
		while ((more = nl_next(&rest, &m, &err)) > 0)
			whole++;
		for (size_t i = 0; i < 3; i++)
			want += cut >= ends[i];
		bool at_end = cut == 0 || cut == ends[0] || cut == ends[1] || cut == ends[2];
		if (whole != want || (more == 0) != at_end)
			wrong++;
		free(exact);
	}
	is_uint(wrong, 0, "%zu cuts: what is whole is read, what isn't is refused", b.len);
	buf_done(&b);
	buf_done(&body);
}

/* Every length of a message replaced by others: no more than that is read. */
static void test_lies(void)
{
	static const uint16_t lies[] = {0, 1, 3, 4, 5, 8, 12, 16, 40, 255, 1000, 0x7fff, 0xffff};
	struct buf b = BUF_INIT(65536), body = BUF_INIT(4096);
	unsigned read = 0, refused = 0;

	add_link(&body, &links[4]);
	add_message(&b, RTM_NEWLINK, &body);
	for (size_t at = 0; at + 2 <= b.len; at += 2) {
		for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
			char *exact = xcalloc(1, b.len);
			struct nl_message m;
			int more;

			memcpy(exact, b.p, b.len);
			memcpy(exact + at, &lies[i], 2);
			struct str rest = {exact, b.len};
			while ((more = nl_next(&rest, &m, NULL)) > 0)
				read++;
			refused += more < 0;
			free(exact);
		}
	}
	ok(read > 100, "some of the changed messages are read all the same");
	ok(refused > 50, "some are refused");
	buf_done(&b);
	buf_done(&body);
}

/* ---- questions, addresses ---- */

static void test_questions(void)
{
	uint8_t q[NL_QUESTION_BYTES];
	struct nl_ip ip = {.family = AF_INET6, .bytes = {0xfe, 0x80, [15] = 9}};
	struct nlmsghdr head;
	struct rtmsg route;
	size_t len = nl_ask_route(q, 9, &ip, 3);

	memcpy(&head, q, sizeof(head));
	memcpy(&route, q + NLMSG_HDRLEN, sizeof(route));
	is_uint(len, 16 + 12 + 20 + 8, "a route's question has its attributes");
	is_uint(head.nlmsg_len, len, "says its length");
	is_uint(head.nlmsg_seq, 9, "and number");
	is_uint(head.nlmsg_type, RTM_GETROUTE, "type");
	is_uint(head.nlmsg_flags, NLM_F_REQUEST, "and flags");
	is_uint(route.rtm_dst_len, 128, "the whole address counts");
	len = nl_ask_links(q, 1, 8);
	memcpy(&head, q, sizeof(head));
	is_uint(len, 16 + 16 + 8 + 8, "a bond's parts are asked for by the bond");
	is_uint(head.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP, "as a list");
	is_uint(nl_ask_links(q, 1, 0), 16 + 16 + 8, "all links without");
	is_uint(nl_ask_addrs(q, 1, AF_INET, 3), 16 + 8, "addresses");
	is_uint(nl_ask_link(q, 1, 3), 16 + 16 + 8, "one link");
}

static void test_networks(void)
{
	static const struct {
		const char *net;
		unsigned bits;
		const char *ip;
		bool want;
	} rows[] = {
		{"10.5.212.0", 24, "10.5.212.255", true}, {"10.5.212.0", 24, "10.5.213.0", false},
		{"10.5.212.0", 23, "10.5.213.0", true},   {"10.5.212.0", 0, "1.2.3.4", true},
		{"10.5.212.7", 32, "10.5.212.7", true},   {"10.5.212.7", 32, "10.5.212.6", false},
		{"fd00::", 64, "fd00::1", true},          {"fd00::", 64, "fd00:0:0:1::1", false},
		{"::", 0, "10.5.212.7", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nl_ip net = {.family = strchr(rows[i].net, ':') ? AF_INET6 : AF_INET};
		struct nl_ip ip = {.family = strchr(rows[i].ip, ':') ? AF_INET6 : AF_INET};

		inet_pton(net.family, rows[i].net, net.bytes);
		inet_pton(ip.family, rows[i].ip, ip.bytes);
		is_int(nl_ip_covers(&net, rows[i].bits, &ip), rows[i].want, "%s in %s/%u",
		       rows[i].ip, rows[i].net, rows[i].bits);
	}
}

int main(void)
{
	test_links();
	test_wild_name();
	test_bridge_family();
	test_addrs();
	test_routes();
	test_errors();
	test_cuts();
	test_lies();
	test_questions();
	test_networks();
	return done_testing();
}
