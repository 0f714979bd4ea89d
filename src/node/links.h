/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's links, addresses and routes by NETLINK_ROUTE. Questions are answered at once: the
 * kernel works on one within the call that sends it, and the answer lies in the socket when that
 * returns, as with a file in /proc; nothing here waits. A second socket hears of changes, whose
 * content doesn't matter: who keeps facts asks again, so an event that was lost costs nothing but
 * itself, and that the kernel says (ENOBUFS). Owns its sockets. Uses core, loop.
 */
#ifndef IPU_NODE_LINKS_H
#define IPU_NODE_LINKS_H

#include "core/err.h"
#include "loop/loop.h"
#include "netlink.h"

struct links;

/* Links, addresses, routes or rules have changed, or may have. From the loop, once a turn at most.
 */
typedef void links_changed_fn(void *arg);

/* Never fails: where the sockets can't be had, every question's error says why, and the events'
 * socket is tried again now and then. */
struct links *links_new(struct loop *loop, links_changed_fn *cb, void *arg);
void links_free(struct links *links); /* NULL is fine */

/* ERR_NOT_FOUND: there is no such link. */
int links_get(struct links *links, int index, struct nl_link *ret, struct err *err);
/* Those that are part of a bond or bridge, at most max of them. */
int links_members(struct links *links, int master, struct nl_link *ret, size_t max, size_t *ret_n,
		  struct err *err);
/* Each address of a family, of one link or (0) of all; the callback must not ask anything. */
typedef void links_addr_fn(const struct nl_addr *addr, void *arg);
int links_addrs(struct links *links, int family, int link, links_addr_fn *cb, void *arg,
		struct err *err);
/* Where packets to an address go. ERR_NOT_FOUND: nowhere; the code is the errno that says how
 * (ENETUNREACH, EHOSTUNREACH, EACCES: prohibited, EINVAL: a black hole). */
int links_route(struct links *links, const struct nl_ip *to, int zone, struct nl_route *ret,
		struct err *err);

#endif
