/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy is asked for a tunnel over a connection that is already there (CONNECT, RFC 9110 9.3.6).
 * Belongs to connect.c, whose operation holds the struct and owns the connection throughout.
 */
#ifndef IPU_NET_TUNNEL_H
#define IPU_NET_TUNNEL_H

#include "core/buf.h"
#include "net/conn.h"

/* why NULL: the connection leads to the other end. Else it's of no use any more. */
typedef void tunnel_fn(const struct err *why, void *arg);

struct tunnel {
	struct net_conn *conn;
	struct buf head; /* of the proxy's answer, as far as it has come */
	tunnel_fn *cb;
	void *arg;
};

/* target: "host:port". cb comes once and later, unless the connection is closed before. */
void tunnel_start(struct tunnel *t, struct net_conn *conn, const char *target,
		  const struct net_proxy *proxy, tunnel_fn *cb, void *arg);
void tunnel_done(struct tunnel *t);

/* The answer as far as it has come. Errors: ERR_PROTOCOL, ERR_DENIED, ERR_UNAVAILABLE. */
int tunnel_parse(struct str s, bool *ret_whole, struct err *err);

#endif
