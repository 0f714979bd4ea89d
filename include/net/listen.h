/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket: accepts within a budget, does the TLS handshake, hands out connections that
 * are ready. Its owner closes it, at once or in order; connections that were handed out live on.
 */
#ifndef IPU_NET_LISTEN_H
#define IPU_NET_LISTEN_H

#include "net/conn.h"
#include "net/net.h"
#include "net/tls.h"

struct net_listener;

struct net_listen_opts {
	const char *addr; /* "127.0.0.1:0", "[::]:8443", ":8080" (both families); numeric */
	bool use_fd; /* a listening socket from outside (systemd) instead of addr; taken over */
	int fd;
	struct tls_config *tls; /* a server's; NULL: none. A reference is taken. */
	unsigned max_conns;     /* alive at once, handshakes counted; 0: 1024. Beyond it nothing is
				 * accepted until one has ended. */
	unsigned handshake_ms;  /* 0: 10 000 */
};

/* conn is the callee's: it sets a handler and starts reading (or closes). The handshake is done. */
typedef void net_accept_fn(struct net_listener *l, struct net_conn *conn, void *arg);

/* Errors: ERR_INVALID (addr), ERR_IO (bind, listen; with addr in the message). */
int net_listener_new(struct net *net, const struct net_listen_opts *opts, net_accept_fn *cb,
		     void *arg, struct net_listener **ret, struct err *err);
/* Stops accepting, drops connections in their handshake. Idempotent until the end of the turn, NULL
 * is fine. */
void net_listener_close(struct net_listener *l);
/* Ends in order: nobody begins a connection any more, but those that the kernel has taken are
 * accepted, and handshakes finished, as closing the socket would reset them. Then on_gone is
 * called, never from within; without max_conns in the way that takes 100 ms and what the handshakes
 * take. Closing it goes at any time, and is needed then. A socket from outside is left at once:
 * whoever comes next has what waits there. */
typedef void net_listener_gone_fn(void *arg);
void net_listener_leave(struct net_listener *l, net_listener_gone_fn *on_gone, void *arg);
uint16_t net_listener_port(const struct net_listener *l);
/* Alive now, those in their handshake too. For tests: nothing else shows that one is given up. */
unsigned net_listener_conns(const struct net_listener *l);
/* For connections accepted from now on. NULL: without TLS. */
void net_listener_set_tls(struct net_listener *l, struct tls_config *tls);

#endif
