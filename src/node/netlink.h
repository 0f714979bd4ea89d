/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rtnetlink's messages (linux/rtnetlink.h, rtnetlink(7)) as bytes: questions are written, answers
 * are read. No I/O; whatever the bytes say of lengths, nothing beyond them is read. Uses core.
 */
#ifndef IPU_NODE_NETLINK_H
#define IPU_NODE_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "node/facts.h"

/* An address of either family, as the kernel writes it. */
struct nl_ip {
	int family;        /* AF_INET, AF_INET6; 0: none */
	uint8_t bytes[16]; /* 4 of them count for AF_INET */
};

struct nl_link {
	int index;
	char name[NODE_LINK_SIZE];
	char kind[NODE_LINK_SIZE]; /* "vlan", "bond", "bridge", "macvlan", …; "": hardware, loopback
				    */
	unsigned mtu_bytes;
	bool enabled;  /* administratively up */
	bool carrier;  /* its own, and operational (RFC 2863: up, or unknown to its driver) */
	bool loopback; /* lo */
	int lower;  /* the interface that it lies on (VLAN, MACVLAN), 0: none in this namespace */
	int master; /* the bond or bridge that it is a part of, 0: none */
};

/* One of this machine's addresses. */
struct nl_addr {
	int link;
	struct nl_ip ip;      /* ours */
	struct nl_ip network; /* of the prefix: ours, or the far end's on a point-to-point link */
	unsigned prefix_bits;
};

struct nl_route {
	unsigned char type; /* RTN_UNICAST, RTN_LOCAL, … */
	int link;
	struct nl_ip to, source, gateway; /* family 0: none; a gateway may be of the other family */
};

enum nl_kind {
	NL_OTHER, /* nothing that we read */
	NL_LINK,
	NL_ADDR,
	NL_ROUTE,
	NL_DONE,  /* the end of a list */
	NL_ERROR, /* error, an errno; 0: an acknowledgement */
};

struct nl_message {
	enum nl_kind kind;
	uint32_t seq; /* of the question */
	int error;
	union {
		struct nl_link link;
		struct nl_addr addr;
		struct nl_route route;
	};
};

/* Takes the first message off a datagram. 1: there was one; 0: the end; -1: ERR_PROTOCOL, and what
 * is left can't be read. */
int nl_next(struct str *datagram, struct nl_message *ret, struct err *err);

/* The longest question that the calls below write. */
#define NL_QUESTION_BYTES 128

/* Questions; each returns its length. */
size_t nl_ask_link(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int index);
size_t nl_ask_links(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int master); /* 0: all */
size_t nl_ask_addrs(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, int family,
		    int link); /* 0: any */
/* The way to an address; link: through this one only (a link-local address' zone), 0: any. */
size_t nl_ask_route(uint8_t ret[NL_QUESTION_BYTES], uint32_t seq, const struct nl_ip *to, int link);

/* ---- addresses ---- */

bool nl_ip_equal(const struct nl_ip *a, const struct nl_ip *b);
/* Are the first bits of both the same? False for different families. */
bool nl_ip_covers(const struct nl_ip *network, unsigned prefix_bits, const struct nl_ip *ip);
void nl_ip_format(const struct nl_ip *ip, char ret_z[NODE_ADDR_SIZE]); /* "": none */
/* "10.5.212.0/24": the network of an address. */
void nl_ip_format_net(const struct nl_ip *ip, unsigned prefix_bits, char ret_z[NODE_ADDR_SIZE + 4]);

#endif
