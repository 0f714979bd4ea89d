/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection and the HTTP/2 session on it, for client and server alike: bytes go to and fro, and
 * events come out. Embedded in its owner; it owns connection and session. Uses core, loop and net.
 */
#ifndef IPU_H2_TRANSPORT_H
#define IPU_H2_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "h2/session.h"
#include "loop/loop.h"
#include "net/conn.h"

/* Both are called from the loop, never from within a call of ours, and may end the transport. */
struct h2_transport_ops {
	void (*on_event)(void *arg, const struct h2_event *ev);
	/* The connection is gone or of no use any more; h2_transport_end is still to be called. why
	 * is ERR_UNAVAILABLE where the peer closed in order. Once. */
	void (*on_lost)(void *arg, const struct err *why);
};

struct h2_transport {
	struct net_conn *conn;
	struct h2_session *session;
	const struct h2_transport_ops *ops;
	void *arg;
	struct loop *loop;
	struct loop_work work; /* flushes what was queued from outside */
	struct loop_timer due; /* of a server's: requests that don't come whole */
	int64_t last_recv_ms;  /* monotonic: when the peer was last heard */
	bool lost;
	bool sound; /* lost by what was said, not by the connection: what is queued can go out */
	bool ended;
};

/* Takes conn and session over, and starts to read and write. */
void h2_transport_start(struct h2_transport *t, struct net_conn *conn, struct h2_session *session,
			const struct h2_transport_ops *ops, void *arg);
/* Something was queued in the session: it is sent later in this turn. */
void h2_transport_kick(struct h2_transport *t);
/* Idempotent. linger_ms 0: closed at once; else what is queued is still sent. No callback after
 * it. Session and connection go by the reaper: messages stay readable until the turn ends. */
void h2_transport_end(struct h2_transport *t, unsigned linger_ms);

#endif
