/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses without blocking: c-ares on our loop, sorted by RFC 6724; /etc/hosts,
 * search domains and ndots as in /etc/resolv.conf, which is read anew for each resolution (small
 * local files; connections are pooled, so this is rare, and a changed file counts at once).
 */
#ifndef IPU_NET_RESOLVE_H
#define IPU_NET_RESOLVE_H

#include "loop/op.h"
#include "net/net.h"

#define NET_RESOLVE_MAX 32 /* addresses of one name; more are dropped */

/* addrs is borrowed, n > 0; or addrs NULL and err says why: ERR_NOT_FOUND (no such name, no
 * address), ERR_TIMEOUT (our deadline), ERR_UNAVAILABLE (no server answered, or with a failure). */
typedef void net_resolve_fn(const struct net_addr *addrs, size_t n, const struct err *err,
			    void *arg);

/* host: a name, or a numeric address, which is answered without DNS. deadline_ms: on
 * clock_mono_ms. Never fails at once and never calls back before it returns. host is copied. */
struct op *net_resolve_start(struct net *net, struct scope *scope, const char *host, uint16_t port,
			     int64_t deadline_ms, net_resolve_fn *cb, void *arg);

#endif
