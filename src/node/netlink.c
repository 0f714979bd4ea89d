/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of rtnetlink's messages. Fields are copied out, never pointed at: a datagram's bytes
 * need not lie as their structs would. Uses core.
 */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#define MAX_PREFIX_BITS 128

/* ---- reading ---- */

/* Copies a fixed header off the front; false: there is less. */
static bool take(struct str *s, void *ret, size_t size, size_t aligned)
{
	if (s->len < size)
		return false;
	memcpy(ret, s->p, size);
	aligned = aligned < s->len ? aligned : s->len;
	s->p += aligned;
	s->len -= aligned;
	return true;
}

/* The next attribute: 1, 0 at the end, -1 where its length is a lie. */
static int next_attr(struct str *attrs, unsigned *ret_type, struct str *ret)
{
	struct rtattr attr;

	if (attrs->len == 0)
		return 0;
	if (attrs->len < sizeof(attr))
		return -1;
	memcpy(&attr, attrs->p, sizeof(attr));
	if (attr.rta_len < RTA_LENGTH(0) || attr.rta_len > attrs->len)
		return -1;
	*ret_type = attr.rta_type & NLA_TYPE_MASK;
	*ret = (struct str){attrs->p + RTA_LENGTH(0), attr.rta_len - RTA_LENGTH(0)};
	size_t whole = RTA_ALIGN((size_t)attr.rta_len);
	whole = whole < attrs->len ? whole : attrs->len;
	attrs->p += whole;
	attrs->len -= whole;
	return 1;
}

static uint32_t as_u32(struct str value)
{
	uint32_t n = 0;

	if (value.len >= sizeof(n))
		memcpy(&n, value.p, sizeof(n));
	return n;
}

/* An index of an interface; what is none is 0. */
static int as_index(struct str value)
{
	uint32_t n = as_u32(value);

	return n <= INT32_MAX ? (int)n : 0;
}

/* A name of the kernel's: up to its NUL, cut, with '?' for what no terminal should see. */
static void as_name(struct str value, char ret[NODE_LINK_SIZE])
{
	size_t n = 0;

	for (; n < value.len && n < NODE_LINK_SIZE - 1 && value.p[n]; n++) {
		unsigned char c = (unsigned char)value.p[n];

		ret[n] = (char)(c > ' ' && c <= '~' ? c : '?');
	}
	ret[n] = '\0';
}

static bool as_ip(int family, struct str value, struct nl_ip *ret)
{
	size_t size = family == AF_INET ? 4 : 16;

	if ((family != AF_INET && family != AF_INET6) || value.len < size)
		return false;
	*ret = (struct nl_ip){.family = family};
	memcpy(ret->bytes, value.p, size);
	return true;
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_PROTOCOL, 0, "the kernel's netlink message of %s can't be read",
		       what);
}

static int read_link_info(struct str attrs, struct nl_link *link)
{
	struct str value;
	unsigned type;
	int more;

	while ((more = next_attr(&attrs, &type, &value)) > 0) {
		if (type == IFLA_INFO_KIND)
			as_name(value, link->kind);
	}
	return more;
}

static int read_link(struct str body, struct nl_message *ret, struct err *err)
{
	struct nl_link link = {0};
	struct ifinfomsg head;
	bool elsewhere = false;
	struct str value;
	unsigned type;
	int more;

	if (!take(&body, &head, sizeof(head), NLMSG_ALIGN(sizeof(head))))
		return bad(err, "a link");
	/* A bridge tells of its ports in messages of its own family, which aren't of the link. */
	if (head.ifi_family != AF_UNSPEC || head.ifi_index <= 0)
		return 0;
	link.index = head.ifi_index;
	link.enabled = head.ifi_flags & IFF_UP;
	link.carrier = (head.ifi_flags & IFF_LOWER_UP) && (head.ifi_flags & IFF_RUNNING);
	link.loopback = head.ifi_flags & IFF_LOOPBACK;
	while ((more = next_attr(&body, &type, &value)) > 0) {
		switch (type) {
		case IFLA_IFNAME:
			as_name(value, link.name);
			break;
		case IFLA_MTU:
			link.mtu_bytes = as_u32(value);
			break;
		case IFLA_LINK:
			link.lower = as_index(value);
			break;
		case IFLA_LINK_NETNSID:
			elsewhere = true;
			break;
		case IFLA_MASTER:
			link.master = as_index(value);
			break;
		case IFLA_LINKINFO:
			if (read_link_info(value, &link) < 0)
				return bad(err, "a link");
			break;
		default:
			break;
		}
	}
	if (more < 0 || !link.name[0])
		return bad(err, "a link");
	/* The index is another namespace's; a tunnel says its own. */
	if (elsewhere || link.lower == link.index)
		link.lower = 0;
	ret->kind = NL_LINK;
	ret->link = link;
	return 0;
}

static int read_addr(struct str body, struct nl_message *ret, struct err *err)
{
	struct nl_addr addr = {0};
	struct ifaddrmsg head;
	struct str value;
	unsigned type;
	int more;

	if (!take(&body, &head, sizeof(head), NLMSG_ALIGN(sizeof(head))))
		return bad(err, "an address");
	if ((head.ifa_family != AF_INET && head.ifa_family != AF_INET6) ||
	    head.ifa_index > INT32_MAX)
		return 0;
	addr.link = (int)head.ifa_index;
	addr.prefix_bits = head.ifa_prefixlen;
	/* IFA_ADDRESS is ours, but on a point-to-point link the other end's, and IFA_LOCAL ours. */
	while ((more = next_attr(&body, &type, &value)) > 0) {
		if (type == IFA_ADDRESS && !as_ip(head.ifa_family, value, &addr.network))
			return bad(err, "an address");
		if (type == IFA_LOCAL && !as_ip(head.ifa_family, value, &addr.ip))
			return bad(err, "an address");
	}
	if (addr.ip.family == 0)
		addr.ip = addr.network;
	if (addr.network.family == 0)
		addr.network = addr.ip;
	if (more < 0 || addr.ip.family == 0 ||
	    addr.prefix_bits > (addr.ip.family == AF_INET ? 32 : MAX_PREFIX_BITS))
		return bad(err, "an address");
	ret->kind = NL_ADDR;
	ret->addr = addr;
	return 0;
}

static bool read_via(struct str value, struct nl_ip *ret)
{
	struct rtvia head;

	if (value.len < sizeof(head))
		return false;
	memcpy(&head, value.p, sizeof(head));
	return as_ip(head.rtvia_family,
		     (struct str){value.p + sizeof(head), value.len - sizeof(head)}, ret);
}

static int read_route(struct str body, struct nl_message *ret, struct err *err)
{
	struct nl_route route = {0};
	struct rtmsg head;
	struct str value;
	bool good = true;
	unsigned type;
	int more;

	if (!take(&body, &head, sizeof(head), NLMSG_ALIGN(sizeof(head))))
		return bad(err, "a route");
	if (head.rtm_family != AF_INET && head.rtm_family != AF_INET6)
		return 0;
	route.type = head.rtm_type;
	while (good && (more = next_attr(&body, &type, &value)) > 0) {
		switch (type) {
		case RTA_DST:
			good = as_ip(head.rtm_family, value, &route.to);
			break;
		case RTA_OIF:
			route.link = as_index(value);
			break;
		case RTA_PREFSRC:
			good = as_ip(head.rtm_family, value, &route.source);
			break;
		case RTA_GATEWAY:
			good = as_ip(head.rtm_family, value, &route.gateway);
			break;
		case RTA_VIA:
			good = read_via(value, &route.gateway);
			break;
		default:
			break;
		}
	}
	if (!good || more < 0)
		return bad(err, "a route");
	ret->kind = NL_ROUTE;
	ret->route = route;
	return 0;
}

/* NLMSG_ERROR, and what NLMSG_DONE may carry: an errno, below zero. */
static int read_error(struct str body, int *ret, struct err *err)
{
	int32_t code;

	if (!take(&body, &code, sizeof(code), sizeof(code)) || code > 0 || code == INT32_MIN)
		return bad(err, "an error");
	*ret = -code;
	return 0;
}

static int read_body(unsigned type, struct str body, struct nl_message *ret, struct err *err)
{
	switch (type) {
	case RTM_NEWLINK:
		return read_link(body, ret, err);
	case RTM_NEWADDR:
		return read_addr(body, ret, err);
	case RTM_NEWROUTE:
		return read_route(body, ret, err);
	case NLMSG_ERROR:
		ret->kind = NL_ERROR;
		return read_error(body, &ret->error, err);
	case NLMSG_DONE:
		ret->kind = NL_DONE;
		return body.len > 0 ? read_error(body, &ret->error, err) : 0;
	default:
		return 0;
	}
}

int nl_next(struct str *datagram, struct nl_message *ret, struct err *err)
{
	struct nl_message message = {0};
	struct nlmsghdr head;

	if (datagram->len == 0)
		return 0;
	if (datagram->len < sizeof(head))
		return bad(err, "something");
	memcpy(&head, datagram->p, sizeof(head));
	if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > datagram->len)
		return bad(err, "something");
	message.seq = head.nlmsg_seq;
	struct str body = {datagram->p + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN};
	if (read_body(head.nlmsg_type, body, &message, err) < 0)
		return -1;
	size_t whole = NLMSG_ALIGN((size_t)head.nlmsg_len);
	whole = whole < datagram->len ? whole : datagram->len;
	datagram->p += whole;
	datagram->len -= whole;
	*ret = message;
	return 1;
}

/* ---- writing ---- */

struct question {
	uint8_t *p;
	size_t len;
};

static void put(struct question *q, const void *p, size_t size, size_t aligned)
{
	memset(q->p + q->len, 0, aligned);
	memcpy(q->p + q->len, p, size);
	q->len += aligned;
}

static struct question begin(uint8_t *p, unsigned type, unsigned flags, uint32_t seq)
{
	struct question q = {.p = p};
	struct nlmsghdr head = {
		.nlmsg_type = (uint16_t)type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
		.nlmsg_seq = seq,
	};

	put(&q, &head, sizeof(head), NLMSG_HDRLEN);
	return q;
}

static void put_attr(struct question *q, unsigned type, const void *value, size_t size)
{
	struct rtattr attr = {.rta_len = (uint16_t)RTA_LENGTH(size), .rta_type = (uint16_t)type};

	put(q, &attr, sizeof(attr), RTA_LENGTH(0));
	put(q, value, size, RTA_ALIGN(size));
}

static void put_attr_u32(struct question *q, unsigned type, uint32_t value)
{
	put_attr(q, type, &value, sizeof(value));
}

static size_t end(const struct question *q)
{
	struct nlmsghdr head;

	memcpy(&head, q->p, sizeof(head));
	head.nlmsg_len = (uint32_t)q->len;
	memcpy(q->p, &head, sizeof(head));
	return q->len;
}

size_t nl_ask_link(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int index)
{
	struct question q = begin(ret, RTM_GETLINK, 0, seq);
	struct ifinfomsg head = {.ifi_family = AF_UNSPEC, .ifi_index = index};

	put(&q, &head, sizeof(head), NLMSG_ALIGN(sizeof(head)));
	put_attr_u32(&q, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	return end(&q);
}

size_t nl_ask_links(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int master)
{
	struct question q = begin(ret, RTM_GETLINK, NLM_F_DUMP, seq);
	struct ifinfomsg head = {.ifi_family = AF_UNSPEC};

	put(&q, &head, sizeof(head), NLMSG_ALIGN(sizeof(head)));
	put_attr_u32(&q, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (master > 0)
		put_attr_u32(&q, IFLA_MASTER, (uint32_t)master);
	return end(&q);
}

size_t nl_ask_addrs(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int family, int link)
{
	struct question q = begin(ret, RTM_GETADDR, NLM_F_DUMP, seq);
	struct ifaddrmsg head = {.ifa_family = (uint8_t)family, .ifa_index = (uint32_t)link};

	put(&q, &head, sizeof(head), NLMSG_ALIGN(sizeof(head)));
	return end(&q);
}

size_t nl_ask_route(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, const struct nl_ip *to, int link)
{
	size_t size = to->family == AF_INET ? 4 : 16;
	struct question q = begin(ret, RTM_GETROUTE, 0, seq);
	struct rtmsg head = {.rtm_family = (uint8_t)to->family, .rtm_dst_len = (uint8_t)(size * 8)};

	put(&q, &head, sizeof(head), NLMSG_ALIGN(sizeof(head)));
	put_attr(&q, RTA_DST, to->bytes, size);
	if (link > 0)
		put_attr_u32(&q, RTA_OIF, (uint32_t)link);
	return end(&q);
}

/* ---- addresses ---- */

bool nl_ip_equal(const struct nl_ip *a, const struct nl_ip *b)
{
	return a->family == b->family &&
	       memcmp(a->bytes, b->bytes, a->family == AF_INET ? 4 : 16) == 0;
}

/* The address with only its first bits. */
static struct nl_ip masked(const struct nl_ip *ip, unsigned prefix_bits)
{
	struct nl_ip net = *ip;

	for (unsigned i = 0; i < sizeof(net.bytes); i++) {
		unsigned bits = prefix_bits > i * 8 ? prefix_bits - i * 8 : 0;

		if (bits < 8)
			net.bytes[i] &= (uint8_t)(0xff00U >> bits);
	}
	return net;
}

bool nl_ip_covers(const struct nl_ip *network, unsigned prefix_bits, const struct nl_ip *ip)
{
	struct nl_ip a = masked(network, prefix_bits), b = masked(ip, prefix_bits);

	return network->family != 0 && nl_ip_equal(&a, &b);
}

void nl_ip_format(const struct nl_ip *ip, char ret_z[NODE_ADDR_SIZE])
{
	if (ip->family == 0 || !inet_ntop(ip->family, ip->bytes, ret_z, NODE_ADDR_SIZE))
		ret_z[0] = '\0';
}

void nl_ip_format_net(const struct nl_ip *ip, unsigned prefix_bits, char ret_z[NODE_ADDR_SIZE + 4])
{
	struct nl_ip net = masked(ip, prefix_bits);
	char text[NODE_ADDR_SIZE];

	nl_ip_format(&net, text);
	if (text[0])
		snprintf(ret_z, NODE_ADDR_SIZE + 4, "%s/%u", text,
			 prefix_bits <= MAX_PREFIX_BITS ? prefix_bits : MAX_PREFIX_BITS);
	else
		ret_z[0] = '\0';
}
