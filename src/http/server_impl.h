/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's insides. A connection (server_conn.c) reads requests and keeps the exchanges in the
 * order of their arrival; only the first of them writes to it, the others into their own buffers
 * (exchange.c).
 */
#ifndef IPU_HTTP_SERVER_IMPL_H
#define IPU_HTTP_SERVER_IMPL_H

#include "core/buf.h"
#include "core/list.h"
#include "h2/session.h"
#include "http/server.h"
#include "net/conn.h"
#include "net/listen.h"

#define ROUTE_MAX_PARAMS 8

struct http_server {
	struct net *net;
	struct loop *loop;
	struct http_server_config config;
	char *name;
	struct list listeners;
	struct list conns;
	struct http_server_stats stats; /* totals, and the exchanges of now */
	struct h2_room bodies;          /* held by all exchanges, and what is coming for them */
	bool leaving, stopping;         /* stopping: leaving too */
	struct loop_timer deadline;     /* of the stop */
	struct loop_work stopped;
	http_server_stopped_fn *on_stopped;
	void *on_stopped_arg;
};

struct listener {
	struct list link;
	struct http_server *server;
	struct net_listener *net;
	const struct tls_config *tls; /* to compare */
	http_handler_fn *handler;
	void *arg;
};

enum conn_phase {
	PHASE_FRESH, /* accepted, and nothing has come */
	PHASE_HEAD,  /* within a request's head */
	PHASE_BODY,  /* within its body */
	PHASE_BUSY,  /* exchanges are in work, and no other request has begun */
	PHASE_IDLE,  /* between requests */
};

struct h2_transport; /* h2/transport.h */

struct sconn {
	struct list link;
	struct http_server *server;
	http_handler_fn *handler; /* the listener's, which may go before */
	void *handler_arg;
	struct net_conn *net;     /* NULL: closed or handed out, the reaper has it */
	bool released;            /* handed out: the bytes left over are the new owner's */
	struct h2_transport *h2;  /* NULL: HTTP/1.1 */
	struct http_codec *codec; /* of HTTP/1.1 */
	struct list exchanges;    /* in the order of the requests */
	unsigned n_exchanges;
	struct exchange *reading; /* its body is being read: not in the list yet */
	struct exchange *parked;  /* complete, in the list, not handed to the handler yet */
	enum conn_phase phase;
	struct loop_timer timer; /* of the phase */
	size_t high_bytes;       /* of a streamed answer that waits */
	struct loop_work step;
	struct loop_timer pour; /* of HTTP/2: pieces of streams that wait */
	uint64_t taken_bytes;   /* of HTTP/2: by the peer, when the timer began */
	bool leaving;           /* it ends with its next answer, whatever the others do */
	bool last_read;         /* no more requests are taken from it */
	bool broken;            /* to be closed at once, by the step */
	bool closing;           /* to be closed in order, when its output has been sent */
};

struct exchange {
	struct http_exchange pub; /* first */
	struct list link;
	struct sconn *conn;
	struct http_headers headers;
	char *target;
	struct buf body;
	size_t counted;    /* of it, in the server's bodies */
	struct buf out;    /* what waits for its turn */
	int32_t stream;    /* of HTTP/2 */
	size_t head_bytes; /* of out, until it's sent */
	bool head_sent;
	bool given_up; /* to be aborted by the step, and its stream reset */
	int minor;
	bool keep_alive;
	bool dispatched; /* the handler has it */
	bool begun;      /* the answer's head is written */
	bool chunked;    /* the answer is */
	bool no_body;    /* HEAD, 204: pieces are dropped */
	bool ended;      /* answered, aborted: the handler has lost it */
	bool closes;     /* the connection ends behind the answer */
	bool above;      /* the producer waits for on_drain */
	int status;      /* of the answer, once it's begun */
	uint64_t body_bytes;
	struct trace *trace; /* the peer's; NULL: none */
	int64_t began_us;    /* when the handler got it; 0: never */
	http_exchange_fn *on_abort, *on_drain;
	void *on_abort_arg, *on_drain_arg;
	struct {
		struct str name;
		char *value;
	} params[ROUTE_MAX_PARAMS];
	size_t n_params;
};

/* ---- server.c ---- */

/* A connection has gone. */
void server_conn_gone(struct http_server *server);

/* ---- server_conn.c ---- */

void sconn_start(struct http_server *server, struct listener *listener, struct net_conn *net);
/* Closes at once; tells the handlers of what is open. */
void sconn_abort(struct sconn *conn);
/* Sends what may be sent now, ends what has ended. */
void sconn_flush(struct sconn *conn);
/* For its streams from now on. */
void sconn_set_high_water(struct sconn *conn, size_t bytes);
/* Hands the connection to the peer out and ends without telling anybody; the exchanges are gone. */
struct net_conn *sconn_release(struct sconn *conn);
/* Closes it if it's between requests. */
void sconn_drop_idle(struct sconn *conn);
/* The same, and otherwise it ends with its next answer. */
void sconn_renew(struct sconn *conn);
/* For a graceful stop: no more requests. */
void sconn_stop(struct sconn *conn);

/* Into the connection's list, and out of it: the reaper has it then. */
void sconn_enlist(struct sconn *conn, struct exchange *ex);
void sconn_drop_exchange(struct exchange *ex);
/* Hands it to the handler, and sees that it's answered. */
void sconn_dispatch(struct sconn *conn, struct exchange *ex);

/* ---- server_h2.c: the connection has one of HTTP/2 ---- */

void sh2_start(struct sconn *conn, struct net_conn *net);
void sh2_end(struct sconn *conn);
void sh2_step(struct sconn *conn);
void sh2_timeout(struct sconn *conn); /* nobody asked for anything for a while */
void sh2_pour(struct loop_timer *timer, void *conn);
/* Sends what there is of the answer; it's gone when it has ended. */
void sh2_flush(struct exchange *ex);
size_t sh2_waiting(const struct exchange *ex);
void sh2_give_up(struct exchange *ex);
void sh2_reset(struct exchange *ex); /* gone; calls nobody back */

/* ---- exchange.c ---- */

struct exchange *exchange_new(struct sconn *conn);
void exchange_free(void *p);
/* Takes the request's target, and judges what is known with its head: NULL, or why it can't be
 * taken, and the status to say so with. */
const char *exchange_check(struct exchange *ex, struct str target, int *ret_status);
#define EXCHANGE_NO_ROOM   "too much is being received at once: try again"
#define EXCHANGE_NO_MEMORY "no memory for the body: try again"
/* Answers on the server's own behalf, and lets the connection end behind it. */
void exchange_refuse(struct exchange *ex, int status, const char *detail);
/* For another protocol: ends the exchange, and its connection is the caller's, who answers with
 * status. ERR_INVALID (400) where other requests are before or behind it. */
int exchange_take_conn(struct http_exchange *ex, int status, struct net_conn **ret,
		       struct err *err);
void exchange_continue(struct exchange *ex); /* 100 */
void exchange_abort(struct exchange *ex);    /* out of the list already; calls on_abort */

#endif
