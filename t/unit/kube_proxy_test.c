/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of proxies, and lists of hosts that need none.
 */
#include "tap.h"

#include "../../src/kube/config_priv.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))

static void test_urls(void)
{
	static const struct {
		const char *url, *host;
		unsigned port;
		const char *authorization;
	} good[] = {
		{"http://p:3128", "p", 3128, NULL},
		{"http://p.example/", "p.example", 80, NULL},
		{"p.example:3128", "p.example", 3128, NULL},
		{"http://[fd00::1]:8080", "fd00::1", 8080, NULL},
		{"http://Aladdin:open%20sesame@p:1", "p", 1, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		{"http://u@p:1", "p", 1, "Basic dTo="},
		{"http://u:a@b@p:1", "p", 1, "Basic dTphQGI="},
	};
	static const struct {
		const char *url, *why;
	} bad[] = {
		{"https://p:1", "https://p:1: write http://HOST:PORT: proxies are reached by http"},
		{"socks5://p:1", "socks5://p:1: write http://HOST:PORT"},
		{"http://p:0", "http://p:0: write http://HOST:PORT"},
		{"http://p:1/path", "the URL of a proxy has no path"},
		{"http://:secret@:1", "http://:1: write http://HOST:PORT"},
		{"http://u:%zz@p:1", "http://p:1: write http://HOST:PORT: user and password"},
		{"http://u:secret/ss@p:1",
		 "http://p:1: write http://HOST:PORT: user and password: write %2F"},
		{"u:pw/secret@p:1",
		 "http://p:1: write http://HOST:PORT: user and password: write %2F"},
		{"u:secret?x@p:1",
		 "http://p:1: write http://HOST:PORT: user and password: write %2F"},
		{"u:secret://x@p:1",
		 "http://p:1: write http://HOST:PORT: user and password: write %2F"},
		{"http://u:secret@x@p:x", "http://p:x: write http://HOST:PORT"},
		{"", "write http://HOST:PORT"},
	};

	for (size_t i = 0; i < SIZE(good); i++) {
		struct net_proxy *proxy = NULL;
		struct err err = ERR_INIT;

		row_begin("%s", good[i].url);
		if (ok(kube_proxy_parse(good[i].url, &proxy, &err) == 0, "taken: %s", err.msg)) {
			is_str(proxy->host, good[i].host, "host");
			is_uint(proxy->port, good[i].port, "port");
			is_str(proxy->authorization ? proxy->authorization : "-",
			       good[i].authorization ? good[i].authorization : "-", "who we are");
		}
		kube_proxy_free(proxy);
	}
	for (size_t i = 0; i < SIZE(bad); i++) {
		struct net_proxy *proxy = NULL;
		struct err err = ERR_INIT;

		row_begin("%s", bad[i].url);
		is_int(kube_proxy_parse(bad[i].url, &proxy, &err), -1, "refused");
		is_int(err.kind, ERR_INVALID, "for good");
		has_str(err.msg, bad[i].why, "why");
		ok(!strstr(err.msg, "secret") && !strstr(err.msg, "%zz"), "no password in it");
	}
	row_end();
}

static void test_exempt(void)
{
	static const struct {
		const char *list, *host;
		unsigned port;
		bool want;
	} rows[] = {
		{"", "a", 1, false},
		{"*", "a", 1, true},
		{"b, a ,c", "a", 1, true},
		{"example.org", "example.org", 443, true},
		{"example.org", "api.example.org", 443, true},
		{"EXAMPLE.org", "api.example.org", 443, true},
		{"example.org", "badexample.org", 443, false},
		{".example.org", "api.example.org", 443, true},
		{".example.org", "example.org", 443, false},
		{".", "example.org", 443, false},
		{"*.example.org", "api.example.org", 443, true},
		{"*.example.org:443", "api.example.org", 443, true},
		{"*.example.org", "example.org", 443, false},
		{"*.", "example.org", 443, false},
		{"*example.org", "api.example.org", 443, false},
		{"a:443", "a", 443, true},
		{"a:443", "a", 6443, false},
		{"a:x", "a", 443, false},
		{"10.0.0.1", "10.0.0.1", 443, true},
		{"10.0.0.1:443", "10.0.0.1", 443, true},
		{"10.0.0.1:443", "10.0.0.1", 444, false},
		{"10.0.0.1", "10.0.0.2", 443, false},
		{"10.0.0.0/8", "10.1.2.3", 443, true},
		{"10.0.0.0/8", "11.1.2.3", 443, false},
		{"10.96.0.0/13", "10.103.255.255", 443, true},
		{"10.96.0.0/13", "10.104.0.0", 443, false},
		{"0.0.0.0/0", "10.104.0.0", 443, true},
		{"10.0.0.0/33", "10.0.0.0", 443, false},
		{"10.0.0.0/x", "10.0.0.0", 443, false},
		{"10.0.0.0/8", "fd00::1", 443, false},
		{"fd00::/8", "fd12::1", 443, true},
		{"fd00::/8", "fe00::1", 443, false},
		{"fd00::1", "fd00::1", 443, true},
		{"[fd00::1]:443", "fd00::1", 443, true},
		{"[fd00::1]:443", "fd00::1", 80, false},
		{"0.0.1", "10.0.0.1", 443, false},
	};

	for (size_t i = 0; i < SIZE(rows); i++)
		is_int(kube_proxy_is_exempt(str_of(rows[i].list), rows[i].host, rows[i].port),
		       rows[i].want, "\"%s\": %s:%u", rows[i].list, rows[i].host, rows[i].port);
}

int main(void)
{
	test_urls();
	test_exempt();
	return done_testing();
}
