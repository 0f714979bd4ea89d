/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer's context, and addresses as text. Numeric addresses only: names are resolve.c's.
 * Uses core and loop.
 */
#include "net/net.h"

#include <arpa/inet.h>
#include <ares.h>
#include <errno.h>
#include <net/if.h>
#include <psa/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn_impl.h"
#include "core/str.h"
#include "net_impl.h"

int net_err_errno(struct err *err, int errnum, const char *fmt, ...)
{
	bool ours = errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS || errnum == ENOMEM;
	char what[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(err, ours ? ERR_BUSY : ERR_UNAVAILABLE, errnum, "%s: %s", what,
		       strerror(errnum));
}

int net_new(struct loop *loop, struct net **ret, struct err *err)
{
	int status = ares_library_init(ARES_LIB_INIT_ALL);
	if (status != ARES_SUCCESS)
		return err_set(err, ERR_INTERNAL, status, "name resolution can't start: %s",
			       ares_strerror(status));
	psa_status_t psa = psa_crypto_init();
	if (psa != PSA_SUCCESS) {
		ares_library_cleanup();
		return err_set(err, ERR_INTERNAL, psa, "TLS can't start: PSA error %d", (int)psa);
	}
	signal(SIGPIPE, SIG_IGN);
	struct net *net = xcalloc(1, sizeof(*net));
	net->loop = loop;
	list_init(&net->lingering);
	*ret = net;
	return 0;
}

void net_free(struct net *net)
{
	if (!net)
		return;
	while (!list_empty(&net->lingering))
		net_conn_close(CONTAINER_OF(net->lingering.next, struct net_conn, link));
	ares_library_cleanup();
	free(net->dns_servers);
	free(net);
}

struct loop *net_loop(struct net *net)
{
	return net->loop;
}

int net_set_dns_servers(struct net *net, const char *csv, struct err *err)
{
	if (csv) {
		ares_channel channel;
		int status = ares_init_options(&channel, NULL, 0);
		if (status == ARES_SUCCESS) {
			status = ares_set_servers_ports_csv(channel, csv);
			ares_destroy(channel);
		}
		if (status != ARES_SUCCESS)
			return err_set(err, ERR_INVALID, status, "DNS servers \"%s\": %s", csv,
				       ares_strerror(status));
	}
	free(net->dns_servers);
	net->dns_servers = xstrdup(csv);
	return 0;
}

const char *net_addr_format(const struct net_addr *addr, char ret_z[NET_ADDR_TEXT])
{
	char host[INET6_ADDRSTRLEN], zone[IF_NAMESIZE + 1] = "";
	switch (addr->len > 0 ? addr->sa.sa_family : AF_UNSPEC) {
	case AF_INET:
		inet_ntop(AF_INET, &addr->in.sin_addr, host, sizeof(host));
		snprintf(ret_z, NET_ADDR_TEXT, "%s:%u", host, ntohs(addr->in.sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &addr->in6.sin6_addr, host, sizeof(host));
		if (addr->in6.sin6_scope_id != 0) {
			char name[IF_NAMESIZE];
			if (if_indextoname(addr->in6.sin6_scope_id, name))
				snprintf(zone, sizeof(zone), "%%%s", name);
			else
				snprintf(zone, sizeof(zone), "%%%u", addr->in6.sin6_scope_id);
		}
		snprintf(ret_z, NET_ADDR_TEXT, "[%s%s]:%u", host, zone, ntohs(addr->in6.sin6_port));
		break;
	case AF_UNIX:
		snprintf(ret_z, NET_ADDR_TEXT, "unix");
		break;
	default:
		snprintf(ret_z, NET_ADDR_TEXT, "?");
	}
	return ret_z;
}

static int parse_v6(const char *host, size_t len, uint16_t port, struct net_addr *ret)
{
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
	struct net_addr addr = {.in6.sin6_family = AF_INET6, .in6.sin6_port = htons(port)};
	addr.len = sizeof(addr.in6);
	if (len >= sizeof(text))
		return -1;
	memcpy(text, host, len);
	text[len] = '\0';
	char *zone = strchr(text, '%');
	if (zone) {
		*zone++ = '\0';
		int64_t index;
		addr.in6.sin6_scope_id = if_nametoindex(zone);
		if (addr.in6.sin6_scope_id == 0) {
			if (str_to_int(str_of(zone), 1, INT32_MAX, &index, NULL) < 0)
				return -1;
			addr.in6.sin6_scope_id = (uint32_t)index;
		}
	}
	if (inet_pton(AF_INET6, text, &addr.in6.sin6_addr) != 1)
		return -1;
	*ret = addr;
	return 0;
}

int net_addr_parse(const char *host, uint16_t port, struct net_addr *ret)
{
	size_t len = strlen(host);
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']')
		return parse_v6(host + 1, len - 2, port, ret);
	struct net_addr addr = {.in.sin_family = AF_INET, .in.sin_port = htons(port)};
	addr.len = sizeof(addr.in);
	if (inet_pton(AF_INET, host, &addr.in.sin_addr) == 1) {
		*ret = addr;
		return 0;
	}
	return parse_v6(host, len, port, ret);
}

static bool is_ip6(struct str host)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;
	struct str plain, zone;

	bool has_zone = str_cut(host, '%', &plain, &zone);
	if (plain.len >= sizeof(text) || (has_zone && zone.len == 0))
		return false;
	for (size_t i = 0; i < zone.len; i++)
		if ((unsigned char)zone.p[i] <= ' ' || strchr("[]:%/", zone.p[i]))
			return false;
	snprintf(text, sizeof(text), "%.*s", STR_ARG(plain));
	return inet_pton(AF_INET6, text, &addr) == 1;
}

int net_split_host_port(const char *text, uint16_t def_port, char ret_host[NET_HOST_SIZE],
			uint16_t *ret_port, struct err *err)
{
	struct str host = str_of(text), port = STR_NULL;
	const char *end = NULL;
	int64_t number = def_port;
	if (text[0] == '[') {
		end = strchr(text, ']');
		if (!end)
			return err_set(err, ERR_INVALID, 0, "\"%.200s\": \"]\" is missing", text);
		host = (struct str){text + 1, (size_t)(end - text) - 1};
		if (!is_ip6(host))
			return err_set(err, ERR_INVALID, 0,
				       "\"%.200s\": no IPv6 address stands in the brackets", text);
		if (end[1] == ':')
			port = str_of(end + 2);
		else if (end[1] != '\0')
			return err_set(err, ERR_INVALID, 0,
				       "\"%.200s\": behind \"]\" only \":PORT\" may follow", text);
	} else {
		const char *first = strchr(text, ':');
		/* Two colons and no brackets: an IPv6 address without port. */
		if (first && !strchr(first + 1, ':')) {
			host.len = (size_t)(first - text);
			port = str_of(first + 1);
		} else if (first && !is_ip6(host)) {
			return err_set(err, ERR_INVALID, 0,
				       "\"%.200s\": neither HOST:PORT nor an IPv6 address", text);
		}
	}
	if (!port.p && def_port == 0)
		return err_set(err, ERR_INVALID, 0, "\"%.200s\": a port is missing (HOST:PORT)",
			       text);
	if (port.p && str_to_int(port, 0, 65535, &number, NULL) < 0)
		return err_set(err, ERR_INVALID, 0, "\"%.200s\": the port is no number up to 65535",
			       text);
	if (host.len >= NET_HOST_SIZE)
		return err_set(err, ERR_INVALID, 0, "\"%.60s…\": the host is too long", text);
	if (host.len > 0)
		memcpy(ret_host, host.p, host.len);
	ret_host[host.len] = '\0';
	*ret_port = (uint16_t)number;
	return 0;
}
