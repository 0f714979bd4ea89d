/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as text, by tables.
 */
#include "net_test.h"

static void test_split(void)
{
	static const struct {
		const char *text;
		uint16_t def_port;
		const char *host; /* NULL: refused */
		uint16_t port;
		const char *why;
	} rows[] = {
		{"api.example:6443", 0, "api.example", 6443, NULL},
		{"api.example", 443, "api.example", 443, NULL},
		{"api.example", 0, NULL, 0, "a port is missing"},
		{":8080", 0, "", 8080, NULL},
		{"[::1]:8443", 0, "::1", 8443, NULL},
		{"[::1]", 443, "::1", 443, NULL},
		{"[::1]", 0, NULL, 0, "a port is missing"},
		{"fe80::1", 443, "fe80::1", 443, NULL},
		{"[::1", 443, NULL, 0, "\"]\" is missing"},
		{"[::1]8443", 443, NULL, 0, "only \":PORT\" may follow"},
		{"h:65536", 0, NULL, 0, "no number up to 65535"},
		{"h:", 443, NULL, 0, "no number up to 65535"},
		{"h:-1", 443, NULL, 0, "no number up to 65535"},
		{"h:80x", 443, NULL, 0, "no number up to 65535"},
		{"127.0.0.1:0", 0, "127.0.0.1", 0, NULL},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char host[NET_HOST_SIZE] = "untouched";
		uint16_t port = 7;
		struct err err = ERR_INIT;
		int status = net_split_host_port(rows[i].text, rows[i].def_port, host, &port, &err);
		row_begin("%s", rows[i].text);
		if (rows[i].host) {
			is_int(status, 0, "understood");
			is_str(host, rows[i].host, "host");
			is_uint(port, rows[i].port, "port");
		} else {
			is_int(status, -1, "refused");
			is_int(err.kind, ERR_INVALID, "as invalid");
			has_str(err.msg, rows[i].why, "with the reason");
			is_str(host, "untouched", "and nothing is written");
		}
	}
	row_end();
	char longest[400];
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	char host[NET_HOST_SIZE];
	uint16_t port;
	struct err err = ERR_INIT;
	is_int(net_split_host_port(longest, 1, host, &port, &err), -1,
	       "a host too long is refused");
}

static void test_parse_and_format(void)
{
	static const struct {
		const char *host;
		const char *text; /* NULL: it's a name */
	} rows[] = {
		{"10.0.0.1", "10.0.0.1:443"},
		{"::1", "[::1]:443"},
		{"[::1]", "[::1]:443"},
		{"2001:db8:0:0::1", "[2001:db8::1]:443"},
		{"fe80::1%lo", "[fe80::1%lo]:443"},
		{"fe80::1%nosuch0", NULL},
		{"localhost", NULL},
		{"10.0.0", NULL},
		{"10.0.0.256", NULL},
		{"", NULL},
		{"[]", NULL},
		{"1:2:3:4:5:6:7:8:9", NULL},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		 NULL},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_addr addr = {0};
		char text[NET_ADDR_TEXT];
		row_begin("\"%s\"", rows[i].host);
		is_int(net_addr_parse(rows[i].host, 443, &addr), rows[i].text ? 0 : -1, "parse");
		is_str(net_addr_format(&addr, text), rows[i].text ? rows[i].text : "?", "format");
	}
	row_end();
}

int main(void)
{
	test_begin();
	test_split();
	test_parse_and_format();
	struct err err = ERR_INIT;
	is_int(net_set_dns_servers(net, "127.0.0.1:5300,[::1]:53", &err), 0, "DNS servers");
	is_int(net_set_dns_servers(net, "nonsense", &err), -1, "no DNS servers");
	has_str(err.msg, "nonsense", "with the reason");
	test_end();
	return done_testing();
}
