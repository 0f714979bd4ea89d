/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP client: calls over pooled keep-alive connections, unary or streamed; by HTTP/1.1, or all of
 * an origin over one connection by HTTP/2. The client owns its connections and calls; it borrows
 * the net, which outlives it. Uses core/, loop/, net/ and h2/. No redirects, cookies or
 * compression.
 */
#ifndef IPU_HTTP_CLIENT_H
#define IPU_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "http/codec.h"
#include "http/message.h"
#include "loop/loop.h"
#include "loop/op.h"

struct net;        /* net/net.h */
struct net_proxy;  /* net/conn.h */
struct tls_config; /* net/tls.h */

struct http_client;

/* HTTP/2 (RFC 9113): used where the client has it and a TLS handshake agrees on "h2", which the
 * origin's TLS settings have to offer. Who doesn't name it has none of it linked. */
struct http_h2;
extern const struct http_h2 http_h2;

struct http_client_config {
	const struct http_h2 *h2; /* &http_h2; NULL: HTTP/1.1 alone */
	/* The first three bound how many calls of an origin run at once; with HTTP/1.1 each has a
	 * connection of its own. */
	unsigned max_unary;     /* ordinary calls; 0: 8 */
	unsigned max_streaming; /* streaming calls, counted apart; 0: 64 */
	unsigned max_urgent;    /* urgent ones, counted apart; 0: 2 */
	unsigned max_queued;    /* calls of an origin that wait for a connection; 0: 1024 */
	unsigned idle_ms;       /* how long an unused connection is kept; 0: 60 s */
	const char *user_agent; /* copied; NULL: "ipu-operator" */
	size_t max_head_bytes;  /* of responses; 0: 64 KiB */
};

/* config may be NULL. */
struct http_client *http_client_new(struct net *net, const struct http_client_config *config);
/* Cancels what still runs, without calling back, and closes all connections. NULL is fine. */
void http_client_free(struct http_client *client);
/* Closes the idle connections, and lets none of the others take another call: after credentials
 * that belong to a connection (a client certificate) were renewed. Running calls go on. */
void http_client_drop_idle(struct http_client *client);

struct http_client_stats {
	unsigned connections, idle;       /* now; idle ones are counted in both */
	unsigned calls, queued;           /* running (queued ones too), waiting for a connection */
	uint64_t opened, reused, retried; /* since the beginning: connections, calls, calls */
};
void http_client_stats(const struct http_client *client, struct http_client_stats *ret);

/* Where a call goes. Connections are shared between calls whose host, port, tls (by pointer)
 * and server_name are the same. */
struct http_origin {
	const char *host; /* name or address; IPv6 without brackets; copied */
	unsigned port;
	struct tls_config *tls;  /* a client's; NULL: http. A reference is held while it's used. */
	const char *server_name; /* to verify and to send as SNI; NULL: host. Copied. */
	/* By which the connection is made (net/conn.h); NULL: none. Borrowed until the client ends,
	 * and compared by pointer like tls. */
	const struct net_proxy *proxy;
};

struct http_request {
	struct http_origin origin;
	enum http_method method;
	struct str target;                 /* "/path?query", escaped already (message.h); copied */
	const struct http_header *headers; /* copied; Host, User-Agent, Accept-Encoding and the */
	size_t n_headers;                  /* framing are added */
	struct str body; /* copied; p NULL: none. POST, PUT and PATCH without one send length 0 */

	/* Deadlines in milliseconds, all counted from http_call_start (the wait in the queue is
	 * included); 0: the default. */
	unsigned connect_ms;     /* until a connection is there; 10 s */
	unsigned first_byte_ms;  /* until the response's head is there; 30 s */
	unsigned total_ms;       /* until the end; 60 s; streaming calls: none */
	unsigned idle_ms;        /* the longest silence within a body; 60 s; streaming: 5 min.
				  * It stands still while the call is paused. */
	uint64_t max_body_bytes; /* ERR_LIMIT beyond; 0: 64 MiB; streaming calls: none */
	bool streaming;          /* an answer that takes long by its nature (watch, log) */
	bool urgent;             /* doesn't wait behind ordinary calls */
	bool idempotent;         /* like GET and HEAD, whatever the method is: it may go again */
};

/* Any may be NULL. What they get is borrowed for the call. Each may cancel the call, start others
 * and free anything but the client. */
struct http_call_handler {
	void (*on_head)(void *arg, const struct http_head *head); /* not for 1xx */
	void (*on_body)(void *arg, struct str piece);
	/* Last, once: err NULL when the response is complete. Statuses are no errors here.
	 * err->kind: ERR_UNAVAILABLE (can't connect, refused, closed before an answer),
	 * ERR_TIMEOUT, ERR_PROTOCOL, ERR_LIMIT, ERR_BUSY (the queue is full), ERR_DENIED (TLS),
	 * ERR_INVALID. err->maybe_applied: bytes of the request were handed to the socket and no
	 * complete response came. */
	void (*on_done)(void *arg, const struct err *err);
};

struct http_call {
	struct op op; /* cancel by op_cancel(&call->op) */
};

/* Never calls back before it has returned. Errors in the request too come by on_done, so that
 * there is one way for them. The handler struct is borrowed while the call lives (static).
 * A kept connection on which the peer closes before any byte of a response is no error where the
 * call can go again: on a fresh connection, once, if nothing was sent, the method is GET or HEAD,
 * or the request says that it's idempotent (RFC 9110, 9.2.2). With HTTP/2 any call goes again, up
 * to three times, that the server says it hasn't looked at (RFC 9113, 8.7 and 6.8). Leaving a
 * scope, or op_cancel, closes the connection if the response isn't complete; with HTTP/2 it resets
 * the call's stream. */
struct http_call *http_call_start(struct http_client *client, const struct http_request *req,
				  const struct http_call_handler *handler, void *arg,
				  struct scope *scope);

/* Back-pressure, of this call alone: after a pause no piece and no on_done comes until the resume
 * (an error may still, also a deadline). From a resume on pieces come again, never from within it.
 * Idempotent. */
void http_call_pause(struct http_call *call);
void http_call_resume(struct http_call *call);

/* ---- the whole response at once ---- */

struct http_response {
	const struct http_head *head; /* status, headers */
	struct str body;              /* NUL-terminated behind its length */
};

/* Once: response is NULL where err isn't, and the other way round. Both are borrowed. */
typedef void http_fetch_fn(void *arg, const struct http_response *response, const struct err *err);

/* A call whose body is collected, up to req->max_body_bytes. Cancel by op_cancel. */
struct op *http_fetch_start(struct http_client *client, const struct http_request *req,
			    http_fetch_fn *cb, void *arg, struct scope *scope);

/* A response with another status than 2xx as an error of the kind of http_status_kind, the code
 * being the status, retry_after_ms from its headers, and the message "METHOD TARGET: 404 Not
 * Found: " with the beginning of a textual body, without token: ours, or empty. Returns 0 for 2xx,
 * else -1. */
int http_response_check(const struct http_response *response, enum http_method method,
			struct str target, struct str token, struct err *err);

#endif
