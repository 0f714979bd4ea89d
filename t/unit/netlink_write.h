/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rtnetlink's messages by hand (rtnetlink(7)), for tests of who reads them.
 */
#ifndef IPU_T_UNIT_NETLINK_WRITE_H
#define IPU_T_UNIT_NETLINK_WRITE_H

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "core/buf.h"
#include "tap.h"

static inline void add(struct buf *b, const void *p, size_t len)
{
	const char zeroes[4] = {0};

	if (buf_append(b, p, len, NULL) < 0 || buf_append(b, zeroes, -len & 3, NULL) < 0)
		bail_out("no memory");
}

static inline void add_attr(struct buf *b, unsigned type, const void *p, size_t len)
{
	struct rtattr attr = {.rta_len = (uint16_t)(4 + len), .rta_type = (uint16_t)type};

	add(b, &attr, sizeof(attr));
	add(b, p, len);
}

static inline void add_attr_u32(struct buf *b, unsigned type, uint32_t n)
{
	add_attr(b, type, &n, sizeof(n));
}

static inline void add_attr_ip(struct buf *b, unsigned type, const char *text)
{
	uint8_t ip[16];
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;

	if (inet_pton(family, text, ip) != 1)
		bail_out("the test's own address is none");
	add_attr(b, type, ip, family == AF_INET ? 4 : 16);
}

static inline void add_message(struct buf *b, unsigned type, const struct buf *body)
{
	struct nlmsghdr head = {
		.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + body->len),
		.nlmsg_type = (uint16_t)type,
		.nlmsg_seq = 7,
	};

	add(b, &head, sizeof(head));
	add(b, body->p, body->len);
}

/* What kind of link it is. */
static inline void add_kind(struct buf *b, const char *kind)
{
	struct buf info = BUF_INIT(256);

	add_attr(&info, IFLA_INFO_KIND, kind, strlen(kind));
	add_attr(&info, IFLA_INFO_DATA, "", 0);
	add_attr(b, IFLA_LINKINFO | NLA_F_NESTED, info.p, info.len);
	buf_done(&info);
}

#endif
