/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "host:port" in all its forms, and numeric addresses.
 * Input: the text.
 */
#include "fuzz.h"
#include "net/net.h"

static void try_numeric(const char *host)
{
	struct net_addr addr, again;
	char z[NET_ADDR_TEXT], back[NET_HOST_SIZE];
	uint16_t port;

	if (net_addr_parse(host, 8090, &addr) < 0)
		return;
	net_addr_format(&addr, z);
	MUST(net_split_host_port(z, 0, back, &port, NULL) == 0);
	MUST(port == 8090 && net_addr_parse(back, port, &again) == 0);
	MUST(again.len == addr.len && memcmp(&again.ss, &addr.ss, addr.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_FREE char *text = str_dup(fuzz_str(p, len));
	char host[NET_HOST_SIZE], again[NET_HOST_SIZE];
	uint16_t port, same;
	struct err err = ERR_INIT;

	try_numeric(text);
	for (uint16_t def_port = 0; def_port <= 443; def_port += 443) {
		if (net_split_host_port(text, def_port, host, &port, &err) < 0) {
			MUST(err.kind == ERR_INVALID && err.msg[0]);
			continue;
		}
		bool brackets = strchr(host, ':') != NULL;
		CLEANUP_FREE char *joined = xasprintf("%s%s%s:%u", brackets ? "[" : "", host,
						      brackets ? "]" : "", port);
		MUST(net_split_host_port(joined, 0, again, &same, NULL) == 0);
		MUST(strcmp(host, again) == 0 && same == port);
		try_numeric(host);
	}
	return 0;
}
