/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's insides, shared by client.c (pools and connections), call.c (calls) and h2_conn.c.
 * A pool is kept by its calls and connections; a connection carries one call at a time, one of
 * HTTP/2 (struct h2_conn) many.
 */
#ifndef IPU_HTTP_CLIENT_IMPL_H
#define IPU_HTTP_CLIENT_IMPL_H

#include "core/buf.h"
#include "core/list.h"
#include "http/client.h"
#include "net/conn.h"

enum { KIND_URGENT, KIND_UNARY, KIND_STREAMING, N_KINDS }; /* served in this order */

struct pool;
struct call;

struct http_client {
	struct net *net;
	struct loop *loop;
	struct http_client_config config;
	char *user_agent;
	struct list pools;
	struct http_client_stats stats; /* the totals; the rest is counted on demand */
};

/* What HTTP/2 does for a pool and its calls; a client without it has no such calls. */
struct h2_conn;
struct http_h2 {
	/* Takes over a new connection. */
	void (*start)(struct pool *pool, struct net_conn *net);
	/* Begins the first call of that queue, or fails it; false: no connection has room. */
	bool (*send)(struct pool *pool, struct call *call);
	/* Takes the call off its connection: resets its stream, unless that has ended. */
	void (*drop)(struct call *call);
	bool (*was_sent)(const struct call *call);
	void (*consume)(struct call *call, size_t len);
	/* The call got no answer in time: is the server still there? */
	void (*doubt)(struct call *call);
	/* No connection takes another call; those without any end. */
	void (*leave)(struct pool *pool);
};

/* What an origin last agreed on. */
enum protocol { PROTOCOL_UNKNOWN, PROTOCOL_HTTP1, PROTOCOL_HTTP2 };

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
	bool may_be_h2; /* what is offered to the server */
	enum protocol protocol;
	struct list h2;      /* struct h2_conn */
	unsigned n_h2;       /* of these */
	unsigned n_h2_idle;  /* … without a call */
	unsigned n_h2_calls; /* of n_busy */
	int64_t opened_ms;   /* when the last attempt at a connection began */
	struct loop_timer patience;
	struct err last_timeout; /* of a connection, for the messages of calls that waited for it */
	struct loop_work pump;
};

struct conn {
	struct list link; /* in one of the pool's three lists */
	struct pool *pool;
	int kind;                 /* whose slot it takes, while it connects or is busy */
	struct op *connecting;    /* or NULL */
	struct net_conn *net;     /* or NULL */
	struct http_codec *codec; /* NULL while it's connecting */
	struct call *call;        /* or NULL: connecting or idle */
	uint64_t served;          /* responses that came over it */
	uint64_t sent_before;     /* bytes that it had sent when the call got it */
	bool got_bytes;           /* of the call's response */
	bool no_reuse;            /* close it when the call has ended */
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
	struct conn *conn; /* NULL: none yet, or HTTP/2 */
	struct h2_conn *h2;
	int32_t stream;         /* of it */
	struct list place;      /* in it */
	struct http_head *head; /* of its response */
	struct buf held;        /* pieces that came while it was paused */
	uint64_t body_bytes;    /* that have come */
	unsigned n_refused;
	bool complete; /* the response has come, but for what is held */
	int kind;
	enum http_method method;
	const struct http_call_handler *handler;
	void *arg;
	struct buf request; /* head and body as HTTP/1.1 sends them, kept for a second time */
	size_t head_bytes;  /* of it */
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

/* Out of the queue, and on its way over the connection that the caller has given it. */
void call_begin(struct call *call);
void call_send(struct call *call, struct conn *conn);
/* Ends it with an error: detaches, calls back. */
void call_fail(struct call *call, const struct err *why);
/* The connection is lost, or the stream is, which is off the call already: back into the queue. */
void call_again(struct call *call);
/* What a response brings; each may end the call. */
void call_on_head(struct call *call, const struct http_head *head);
void call_on_piece(struct call *call, struct str piece);
void call_complete(struct call *call);
static inline bool call_is_safe(const struct call *call, bool was_sent)
{
	return !was_sent || call->idempotent;
}
extern const struct net_conn_handler conn_handler; /* arg: struct conn */

#endif
