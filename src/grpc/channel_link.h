/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a channel: its calls, and its links, which are one HTTP/2 connection each. The channel
 * owns links and queued calls; a call in progress is on one link's list. Private to src/grpc.
 */
#ifndef IPU_GRPC_CHANNEL_LINK_H
#define IPU_GRPC_CHANNEL_LINK_H

#include "core/list.h"
#include "grpc/channel.h"
#include "loop/backoff.h"
#include "h2/transport.h"

struct grpc_link;

struct grpc_call {
	struct op op;      /* first: the caller holds it */
	struct list place; /* in one of the channel's lists, or in its link's */
	struct grpc_channel *ch;
	struct grpc_link *on; /* NULL while it's queued */
	int32_t stream;
	char *path;
	char *frame; /* the message with its header; kept until the end for another attempt */
	size_t frame_len;
	int64_t deadline_ms;
	struct loop_timer timer;
	unsigned attempts;
	uint64_t seq;        /* of its start, among the channel's */
	struct trace *trace; /* for whose sake it began; cb runs with that */
	grpc_call_fn *cb;
	void *arg;
};

struct grpc_channel {
	struct net *net;
	struct loop *loop;
	char *host;
	char *server_name; /* or NULL */
	char *authority;   /* "host:port", for :authority and logs */
	char *user_agent;
	struct grpc_metadata *metadata;
	size_t n_metadata;
	struct grpc_channel_config config; /* its pointers aren't used, except tls (a reference) */

	struct list queue;   /* waiting for a connection or a stream */
	struct list refused; /* beyond max_queued: fail in the next turn */
	struct list failing; /* being told that there's no connection */
	unsigned n_queued;
	uint64_t n_started;

	struct list links;
	struct grpc_link *current; /* where calls start; NULL: none */
	struct backoff backoff;
	struct loop_timer backoff_timer; /* active: the channel backs off */
	struct err last_error;           /* why it does */
	struct loop_work work;
	bool freed;
};

/*
 * A link's life:
 *   CONNECTING  resolving, TCP, TLS
 *   GREETING    connected; the server's SETTINGS haven't come yet
 *   READY       calls may start
 *   DRAINING    a GOAWAY came, or other TLS settings: calls finish, none start
 *   ENDED       closed; its memory is the reaper's
 */
enum grpc_link_state {
	GRPC_LINK_CONNECTING,
	GRPC_LINK_GREETING,
	GRPC_LINK_READY,
	GRPC_LINK_DRAINING,
	GRPC_LINK_ENDED,
};

struct grpc_link {
	struct list place; /* in its channel's links */
	struct grpc_channel *ch;
	enum grpc_link_state state;
	struct op *connect;
	struct h2_transport transport;
	struct list calls;
	struct loop_timer timer; /* greeting, keepalive, idleness */
	int64_t greet_by_ms;
	int64_t idle_since_ms;
	int64_t ping_at_ms; /* 0: no PING is waiting for its answer */
	bool answered;      /* a response has come: the server works */
};

/* channel_link.c: never call back into users before they return. */
struct grpc_link *grpc_link_new(struct grpc_channel *ch);           /* begins to connect */
bool grpc_link_submit(struct grpc_link *l, struct grpc_call *call); /* false: no stream is free */
void grpc_link_drop(struct grpc_link *l, struct grpc_call *call);   /* resets its stream */
void grpc_link_drain(struct grpc_link *l);
void grpc_link_end(struct grpc_link *l, unsigned linger_ms);
bool grpc_link_was_sent(const struct grpc_link *l, const struct grpc_call *call);
/* Ready and without a call, and still none may start: out of stream numbers, or not let. */
bool grpc_link_is_stuck(const struct grpc_link *l);

/* channel_link.c, may call users back: the link is of no use. */
void grpc_link_lose(struct grpc_link *l, const struct err *why);

/* channel.c, called by links. All may call users back, except where it says otherwise. */
void grpc_channel_on_ready(struct grpc_channel *ch);                          /* doesn't */
void grpc_channel_on_failure(struct grpc_channel *ch, const struct err *why); /* doesn't */
void grpc_channel_on_answer(struct grpc_channel *ch);                         /* doesn't */
void grpc_call_requeue(struct grpc_call *call);                               /* doesn't */
void grpc_call_finish(struct grpc_call *call, const struct err *err, struct str reply);
/* All calls of a link's list. */
void grpc_channel_fail_calls(struct grpc_channel *ch, struct list *calls, const struct err *err);

#endif
