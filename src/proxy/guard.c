/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another site's page may not have a browser ask of the open port: nobody says who he is
 * there, so a port that only this machine reaches is as secret as its browsers are. Uses http.
 */
#include <string.h>

#include "internal.h"
#include "net/net.h"

static bool is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
	       strcmp(host, "::1") == 0;
}

/* "HOST:PORT" of a peer or a Host field; false too where it isn't one. */
static bool names_loopback(const char *text)
{
	char host[NET_HOST_SIZE];
	uint16_t port;

	return net_split_host_port(text, 80, host, &port, NULL) == 0 && is_loopback(host);
}

/* A site may let its own name resolve to 127.0.0.1, but its page can't send another Host. */
static bool is_rebound(const struct http_exchange *ex)
{
	struct str host = http_headers_get(ex->headers, "host");
	CLEANUP_FREE char *text = host.len ? str_dup(host) : NULL;

	return text && names_loopback(ex->peer) && !names_loopback(text);
}

/* Fetch Metadata Request Headers, 2.3: "none" is a person's own doing. */
static bool is_elsewheres(const struct http_exchange *ex)
{
	struct str site = http_headers_get(ex->headers, "sec-fetch-site");

	return site.p && !str_eqz(site, "same-origin") && !str_eqz(site, "none");
}

bool guard_lets_in(struct http_exchange *ex, bool linked)
{
	if (is_rebound(ex)) {
		http_reply_problem(
			ex, 403,
			"on a connection of this machine's own, Host has to be localhost, "
			"127.0.0.1 or [::1], so that no other site's page reads this: a "
			"reverse proxy in front of it sends one of these");
		return false;
	}
	if (!linked && is_elsewheres(ex)) {
		http_reply_problem(ex, 403, "this isn't for other sites' pages");
		return false;
	}
	return true;
}
