/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rtnetlink's messages: what is read is within its bounds and can be shown, and every message takes
 * something off the datagram. A route or link that was read is asked for again in few bytes.
 * Input: a datagram.
 */
#include <arpa/inet.h>

#include "fuzz.h"
#include "node/netlink.h"

static void try_name(const char *name)
{
	size_t len = strnlen(name, NODE_LINK_SIZE);

	MUST(len < NODE_LINK_SIZE);
	for (size_t i = 0; i < len; i++)
		MUST(name[i] > ' ' && name[i] <= '~');
}

static void try_ip(const struct nl_ip *ip, unsigned prefix_bits)
{
	char text[NODE_ADDR_SIZE], net[NODE_ADDR_SIZE + 4];
	uint8_t question[NL_QUESTION_BYTES], back[16];

	nl_ip_format(ip, text);
	nl_ip_format_net(ip, prefix_bits, net);
	MUST((ip->family == 0) == (text[0] == '\0') && (text[0] == '\0') == (net[0] == '\0'));
	if (ip->family == 0)
		return;
	MUST(inet_pton(ip->family, text, back) == 1);
	MUST(memcmp(back, ip->bytes, ip->family == AF_INET ? 4 : 16) == 0);
	MUST(nl_ip_covers(ip, prefix_bits, ip));
	MUST(nl_ask_route(question, 1, ip, 7) <= sizeof(question));
}

static void try_message(const struct nl_message *message)
{
	switch (message->kind) {
	case NL_LINK:
		MUST(message->link.index > 0 && message->link.name[0]);
		MUST(message->link.lower >= 0 && message->link.lower != message->link.index);
		MUST(message->link.master >= 0);
		try_name(message->link.name);
		try_name(message->link.kind);
		break;
	case NL_ADDR:
		MUST(message->addr.link >= 0 && message->addr.ip.family != 0);
		MUST(message->addr.ip.family == message->addr.network.family);
		MUST(message->addr.prefix_bits <= (message->addr.ip.family == AF_INET ? 32 : 128));
		try_ip(&message->addr.ip, message->addr.prefix_bits);
		try_ip(&message->addr.network, message->addr.prefix_bits);
		break;
	case NL_ROUTE:
		MUST(message->route.link >= 0);
		try_ip(&message->route.to, 24);
		try_ip(&message->route.source, 0);
		try_ip(&message->route.gateway, 128);
		break;
	case NL_ERROR:
	case NL_DONE:
		MUST(message->error >= 0);
		break;
	case NL_OTHER:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str rest = fuzz_str(p, len);
	struct nl_message message;
	struct err err = ERR_INIT;
	size_t before;
	int more;

	do {
		before = rest.len;
		more = nl_next(&rest, &message, &err);
		if (more > 0) {
			MUST(rest.len + 16 <= before || rest.len == 0);
			try_message(&message);
		}
	} while (more > 0);
	MUST(more < 0 ? err.kind == ERR_PROTOCOL && err.msg[0] : rest.len == 0);
	return 0;
}
