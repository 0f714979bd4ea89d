/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's insides, shared by client.c (pools and connections) and call.c (calls).
 * A pool is kept by its calls and connections; a connection carries one call at a time.
 */
#ifndef IPU_HTTP_CLIENT_IMPL_H
#define IPU_HTTP_CLIENT_IMPL_H

#include "core/buf.h"
#include "core/list.h"
#include "http/client.h"
#include "net/conn.h"

enum { KIND_URGENT, KIND_UNARY, KIND_STREAMING, N_KINDS }; /* served in this order */

struct http_client {
	struct net *net;
	struct loop *loop;
	struct http_client_config config;
	char *user_agent;
	struct list pools;
	struct http_client_stats stats; /* the totals; the rest is counted on demand */
};

struct pool {
	struct list link; /* in the client */
	struct http_client *client;
	char *host, *server_name; /* server_name may be NULL */
	unsigned port;
	struct tls_config *tls;
	const struct net_proxy *proxy;
	char authority[300];
	char name[300];             /* "host:port", for messages */
	unsigned refs;              /* calls and connections */
	struct list calls;          /* those that have a connection */
	struct list queue[N_KINDS]; /* those that wait for one */
	unsigned n_queued[N_KINDS];
	unsigned n_connecting[N_KINDS];
	unsigned n_busy[N_KINDS];
	struct list connecting, idle, busy; /* connections; idle: the last used in front */
	unsigned n_idle;
	struct err last_timeout; /* of a connection, for the messages of calls that waited for it */
	struct loop_work pump;
};

struct conn {
	struct list link; /* in one of the pool's three lists */
	struct pool *pool;
	int kind;              /* whose slot it takes, while it connects or is busy */
	struct op *connecting; /* or NULL */
	struct net_conn *net;  /* or NULL */
	struct http_codec *codec;
	struct call *call;    /* or NULL: connecting or idle */
	uint64_t served;      /* responses that came over it */
	uint64_t sent_before; /* bytes that it had sent when the call got it */
	bool got_bytes;       /* of the call's response */
	bool no_reuse;        /* close it when the call has ended */
	struct loop_timer idle_timer;
};

enum call_state {
	CALL_REFUSED, /* never began: on_done is posted */
	CALL_QUEUED,  /* waits for a connection */
	CALL_SENT,    /* the request was written, the response's head isn't there */
	CALL_BODY,    /* the head has come */
	CALL_ENDED,   /* called back or cancelled; the reaper has it */
};

struct call {
	struct http_call pub; /* first: the operation */
	struct list link;     /* in the pool: a queue, or calls */
	enum call_state state;
	struct http_client *client;
	struct pool *pool; /* NULL: refused before there was one */
	struct conn *conn; /* NULL: none yet */
	int kind;
	enum http_method method;
	const struct http_call_handler *handler;
	void *arg;
	struct buf request; /* head and body as they're sent, kept for a second time */
	uint64_t max_body_bytes;
	int64_t connect_at_ms, first_byte_at_ms, total_at_ms, idle_at_ms; /* INT64_MAX: none */
	unsigned idle_ms;
	bool paused;
	bool idempotent;
	bool retried;       /* it goes over a connection that nobody has used */
	bool sent;          /* bytes of it were sent over a connection that is gone */
	unsigned n_interim; /* 1xx answers so far */
	struct err refusal;
	struct trace *trace; /* for whose sake it began; its callbacks run with that */
	struct loop_timer timer;
	struct loop_work work; /* resume, or the refusal */
};

/* ---- client.c ---- */

struct pool *pool_get(struct http_client *client,
		      const struct http_origin *origin); /* a reference */
void pool_unref(struct pool *pool);
void pool_pump(struct pool *pool);                   /* later in this turn */
void conn_close(struct conn *conn);                  /* detached from its call by the caller */
void conn_release(struct conn *conn, bool reusable); /* after its call has ended */

/* ---- call.c ---- */

void call_send(struct call *call, struct conn *conn);
/* Ends it with an error: detaches, calls back. */
void call_fail(struct call *call, const struct err *why);
extern const struct net_conn_handler conn_handler; /* arg: struct conn */

#endif
