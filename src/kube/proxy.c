/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which proxy leads to the API server: URLs of proxies, and lists of hosts that need none. Pure.
 * Uses core/, net's addresses and http/message.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_priv.h"
#include "core/buf.h"

#define MAX_USER_BYTES ((size_t)1024)

/* "USER:PASSWORD", each percent-encoded (RFC 3986, 3.2.1; RFC 7617). */
static int authorize(struct str user_info, struct net_proxy *proxy, struct err *err)
{
	struct buf plain = BUF_INIT(MAX_USER_BYTES);
	struct str user, password;
	char *encoded;

	for (size_t i = 0; i < user_info.len; i++)
		if (strchr("/?#", user_info.p[i]))
			return err_set(
				err, ERR_INVALID, 0,
				"user and password: write %%2F, %%3F and %%23 for /, ? and #");
	str_cut(user_info, ':', &user, &password);
	if (http_unescape(&plain, user, false, err) < 0 || buf_append(&plain, ":", 1, err) < 0 ||
	    http_unescape(&plain, password, false, err) < 0) {
		buf_done(&plain);
		return err_wrap(err, "user and password");
	}
	encoded = base64_encode(plain.p, plain.len);
	proxy->authorization = xasprintf("Basic %s", encoded);
	str_wipe(plain.p, plain.len);
	str_wipe(encoded, strlen(encoded));
	buf_done(&plain);
	free(encoded);
	return 0;
}

/* url is without user and password. */
static int set_host(const char *url, struct net_proxy *proxy, struct err *err)
{
	struct http_url u;

	if (http_url_parse(str_of(url), &u, err) < 0)
		return -1;
	if (u.tls)
		return err_set(err, ERR_INVALID, 0, "proxies are reached by http only");
	if (!str_eqz(u.target, "/"))
		return err_set(err, ERR_INVALID, 0, "the URL of a proxy has no path");
	snprintf(proxy->host, sizeof(proxy->host), "%s", u.host);
	proxy->port = (uint16_t)u.port;
	return 0;
}

int kube_proxy_parse(const char *url, struct net_proxy **ret, struct err *err)
{
	static const char scheme[] = "http://";
	const char *from = url + strcspn(url, ":/@"), *at;
	struct net_proxy *proxy = xcalloc(1, sizeof(*proxy));
	CLEANUP_FREE char *bare = NULL;
	int rc;

	from = strncmp(from, "://", 3) == 0 ? from + 3 : url;
	at = strrchr(from, '@'); /* nothing ahead of it is ever shown */
	bare = xasprintf("%.*s%s", (int)(from - url), url, at ? at + 1 : from);
	if (from == url) { /* as in an environment: HOST:PORT */
		char *whole = xasprintf("%s%s", scheme, bare);

		free(bare);
		bare = whole;
	}
	rc = at ? authorize((struct str){from, (size_t)(at - from)}, proxy, err) : 0;
	if (rc < 0 || set_host(bare, proxy, err) < 0) {
		kube_proxy_free(proxy);
		return err_wrap(err, "%.100s: write http://HOST:PORT", bare);
	}
	*ret = proxy;
	return 0;
}

void kube_proxy_free(struct net_proxy *proxy)
{
	if (proxy && proxy->authorization)
		str_wipe(proxy->authorization, strlen(proxy->authorization));
	if (proxy)
		free(proxy->authorization);
	free(proxy);
}

/* ---- hosts that need none ---- */

static const uint8_t *bytes_of(const struct net_addr *a, size_t *ret_n)
{
	bool is_ip4 = a->sa.sa_family == AF_INET;

	*ret_n = is_ip4 ? 4 : 16;
	return is_ip4 ? (const uint8_t *)&a->in.sin_addr : (const uint8_t *)&a->in6.sin6_addr;
}

static bool is_in_block(const struct net_addr *host, const struct net_addr *block, unsigned bits)
{
	size_t n, m;
	const uint8_t *a = bytes_of(host, &n), *b = bytes_of(block, &m);

	if (n != m || bits > 8 * n || memcmp(a, b, bits / 8) != 0)
		return false;
	return bits % 8 == 0 || ((a[bits / 8] ^ b[bits / 8]) >> (8 - bits % 8)) == 0;
}

static bool names_address(struct str entry, const struct net_addr *host)
{
	CLEANUP_FREE char *text = NULL;
	struct str addr, bits_text;
	struct net_addr block;
	int64_t bits = -1;
	bool has_bits = str_cut(entry, '/', &addr, &bits_text);

	text = str_dup(addr);
	if (net_addr_parse(text, 0, &block) < 0)
		return false;
	if (!has_bits)
		bits = block.sa.sa_family == AF_INET ? 32 : 128;
	else if (str_to_int(bits_text, 0, 128, &bits, NULL) < 0)
		return false;
	return is_in_block(host, &block, (unsigned)bits);
}

static bool names_host(struct str entry, struct str host)
{
	bool only_below;
	struct str name, tail;

	if (entry.len > 1 && entry.p[0] == '*' && entry.p[1] == '.') /* the same as .example.org */
		entry = (struct str){entry.p + 1, entry.len - 1};
	only_below = entry.len > 0 && entry.p[0] == '.';
	name = only_below ? (struct str){entry.p + 1, entry.len - 1} : entry;
	if (name.len == 0 || name.len > host.len)
		return false;
	tail = (struct str){host.p + host.len - name.len, name.len};
	for (size_t i = 0; i < name.len; i++) {
		char c = name.p[i];

		if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != tail.p[i])
			return false;
	}
	return name.len == host.len ? !only_below : tail.p[-1] == '.';
}

/* Whether the entry is for that port; *entry is without it afterwards. */
static bool names_port(struct str *entry, unsigned port)
{
	char host[NET_HOST_SIZE];
	CLEANUP_FREE char *text = str_dup(*entry);
	struct net_addr whole;
	uint16_t its = 0;

	if (!memchr(entry->p, ':', entry->len) || net_addr_parse(text, 0, &whole) == 0 ||
	    memchr(entry->p, '/', entry->len))
		return true; /* none is given */
	if (net_split_host_port(text, 0, host, &its, NULL) < 0)
		return false;
	while (entry->len > 0 && entry->p[entry->len - 1] != ':')
		entry->len--;
	entry->len--;
	return its == port;
}

bool kube_proxy_is_exempt(struct str list, const char *host, unsigned port)
{
	struct str entry;
	struct net_addr address;
	bool is_address = net_addr_parse(host, 0, &address) == 0;

	while (list.len > 0) {
		str_cut(list, ',', &entry, &list);
		entry = str_trim(entry);
		if (entry.len == 0)
			continue;
		if (str_eqz(entry, "*"))
			return true;
		if (!names_port(&entry, port))
			continue;
		if (is_address ? names_address(entry, &address) : names_host(entry, str_of(host)))
			return true;
	}
	return false;
}
