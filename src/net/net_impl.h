/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this layer share and nobody else sees.
 * The net owns the connections that are saying goodbye; everything else has owners outside.
 */
#ifndef IPU_NET_NET_IMPL_H
#define IPU_NET_NET_IMPL_H

#include "core/list.h"
#include "net/net.h"

struct net {
	struct loop *loop;
	char *dns_servers;     /* for c-ares, or NULL */
	struct list lingering; /* connections after net_conn_finish, by their link */
};

/* ERR_UNAVAILABLE with errnum as the code: "what: strerror". Faults of this process alone (out of
 * descriptors or memory) are ERR_BUSY. Returns -1. */
int net_err_errno(struct err *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
