/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP server: listeners, connections and exchanges (one request and its answer). HTTP/1.1, and
 * HTTP/2 where a listener's TLS settings offer "h2" and its peer takes it: then every stream is for
 * itself, and what is said here of a connection that is broken off holds for the stream.
 * The server owns them all; a handler borrows its exchange until it has replied or was told that
 * the peer went away. Uses core/, loop/ and net/.
 */
#ifndef IPU_HTTP_SERVER_H
#define IPU_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "http/codec.h"
#include "http/message.h"
#include "loop/loop.h"

struct net;        /* net/net.h */
struct tls_config; /* net/tls.h */

struct http_server;
struct http_exchange;

/* One answer, told when all of it has been handed over to be sent. handler_arg is the listener's.
 * Borrowed. */
struct http_answered {
	const struct http_exchange *ex;
	const void *handler_arg;
	int status;
	uint64_t body_bytes; /* 0 for HEAD */
	int64_t took_us;     /* since the request was complete; of refusals 0 */
};
typedef void http_answered_fn(const struct http_answered *answered, void *arg);

struct http_server_config {        /* 0 everywhere: the default */
	struct http_limits limits; /* max_body_bytes: 4 MiB here */
	unsigned header_ms; /* from a request's first byte (or accept) to its head's end; 10 s. The
			     * TLS handshake before has as long, at most 10 s */
	unsigned body_ms;   /* from there to the body's end; 30 s */
	unsigned idle_ms;   /* between requests; 60 s */
	unsigned write_ms;  /* without the peer taking a byte of what waits; 30 s */
	unsigned max_connections; /* of a listener; 512; beyond, accepting pauses */
	unsigned max_pipelined;   /* requests of a connection in work at once; 8 */
	size_t max_bodies_bytes;  /* of all requests' bodies that are held at once; what comes
				   * beyond is refused (503); 0: no limit */
	size_t high_water_bytes;  /* of a streamed answer that waits; 256 KiB */
	size_t max_output_bytes;  /* a streamed answer whose producer doesn't heed the high-water
				   * mark is aborted beyond this; 16 MiB */
	const char *name;         /* component in logs; copied; "http" */
	bool date;                /* send a Date field */
	/* For statistics and logs: every answer, the server's own refusals too; it mustn't answer
	 * or close anything. NULL: nobody. */
	http_answered_fn *on_answered;
	void *on_answered_arg;
};

/* One request. The fields live as long as the exchange; change only `user`. */
struct http_exchange {
	struct http_server *server;
	enum http_method method;
	struct str target; /* as sent */
	struct str path;   /* as sent, without the query; its escapes are known to be good */
	struct str query;  /* without the '?'; STR_NULL: none */
	const struct http_headers *headers;
	struct str body;  /* NUL-terminated behind its length; empty if there was none */
	const char *peer; /* "ADDRESS:PORT" */
	bool tls;
	void *user; /* the handler's own */
};

/* Called when a request is complete. It replies (http_reply… below), or sets on_abort and replies
 * later. An exchange that is left with neither is answered with 500. */
typedef void http_handler_fn(struct http_exchange *ex, void *arg);

/* config may be NULL. */
struct http_server *http_server_new(struct net *net, const struct http_server_config *config);
/* Closes everything at once. on_abort is called for the exchanges that are still open. */
void http_server_free(struct http_server *server);

/* addr: "HOST:PORT", numeric, brackets around IPv6, port 0: any; ":PORT": all addresses. tls NULL:
 * plain; a reference is taken. *ret_port may be NULL. Errors: ERR_INVALID, ERR_IO. */
int http_server_listen(struct http_server *server, const char *addr, struct tls_config *tls,
		       http_handler_fn *handler, void *arg, unsigned *ret_port, struct err *err);
/* The same on a listening TCP socket that somebody else has opened; on success it's the server's.
 */
int http_server_listen_fd(struct http_server *server, int fd, struct tls_config *tls,
			  http_handler_fn *handler, void *arg, unsigned *ret_port, struct err *err);
/* A new certificate for the connections to come, on every listener that was opened with from (which
 * may be compared only, so it may be gone); a reference is taken. */
void http_server_switch_tls(struct http_server *server, const struct tls_config *from,
			    struct tls_config *to);

/* Graceful end: takes no new connections but those that the kernel has taken already, closes idle
 * connections, finishes what was accepted (answers then say Connection: close), and after
 * deadline_ms closes what is left. on_stopped is called once, never from within; then only
 * http_server_free remains. Streamed answers that never end are cut at the deadline. */
typedef void http_server_stopped_fn(void *arg);
void http_server_stop(struct http_server *server, unsigned deadline_ms,
		      http_server_stopped_fn *on_stopped, void *arg);

/* Before that, or while it can't serve well: goes on accepting, but every connection ends with its
 * next answer, so that clients go elsewhere and none is closed under a request that is on its way.
 * False: connections stay again; without effect once it's being stopped. */
void http_server_leave(struct http_server *server, bool leaves);

/* Closes connections that are between requests. A request that is on its way there is lost. */
void http_server_drop_idle(struct http_server *server);

/* Who is connected has to connect again, since other peers are let in now: that, and connections
 * where a request has begun end with its answer. */
void http_server_renew(struct http_server *server);

struct http_server_stats {
	unsigned connections; /* now */
	unsigned exchanges;   /* now: accepted and not yet answered */
	uint64_t accepted, requests,
		refused; /* refused: answered by the server itself (4xx, 5xx) */
};
void http_server_stats(const struct http_server *server, struct http_server_stats *ret);

/* The handler has read the body, and what follows takes a while: its memory goes now. */
void http_exchange_drop_body(struct http_exchange *ex);

/* ---- answering at once ---- */

/* The whole answer; the exchange is gone when this returns. content_type NULL: no such field.
 * headers: without the framing fields. body is copied. Bad headers: 500 is sent, and logged. */
void http_reply(struct http_exchange *ex, int status, const char *content_type,
		const struct http_header *headers, size_t n_headers, struct str body);
/* application/problem+json (RFC 9457): {"status":404,"title":"Not Found","detail":…}; without
 * detail when fmt is NULL. */
void http_reply_problem(struct http_exchange *ex, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with 401 and the field that asks for a bearer token for realm; bad: there was one, and
 * it's no good (RFC 6750, 3). */
void http_reply_unauthorized(struct http_exchange *ex, const char *realm, bool bad,
			     const char *detail);
/* The status and Retry-After that fit the error's kind, with its message as the detail. */
void http_reply_err(struct http_exchange *ex, const struct err *err);

/* ---- answering later, or in pieces ---- */

/* fn is called once, if the peer goes away (or the server ends) before the answer was complete; a
 * peer that ends its side of the connection counts as gone. The exchange is gone when fn returns,
 * and nothing may be replied. Never called from within a function of this header but
 * http_server_free. NULL takes it back. */
typedef void http_exchange_fn(struct http_exchange *ex, void *arg);
void http_exchange_on_abort(struct http_exchange *ex, http_exchange_fn *fn, void *arg);

/* Head now, body in pieces. on_abort must be set. Until the end no other request is taken from the
 * connection. */
void http_reply_begin(struct http_exchange *ex, int status, const char *content_type,
		      const struct http_header *headers, size_t n_headers);
/* Copies; every call is one chunk. True: more than the high-water mark waits for the peer, write no
 * more until on_drain. */
bool http_reply_write(struct http_exchange *ex, struct str data);
/* fn is called, never from within http_reply_write, each time that what waits has fallen from
 * above the high-water mark to half of it. */
void http_exchange_on_drain(struct http_exchange *ex, http_exchange_fn *fn, void *arg);
/* From now on the high-water mark of this connection's streams, in the place of the server's: for
 * streams of which there are many. */
void http_exchange_set_high_water(struct http_exchange *ex, size_t bytes);
/* Before http_reply_begin, from within the handler, for an answer that may never end: what was sent
 * behind the request is dropped, and the connection ends behind the answer. Else those bytes would
 * wait for its end, and hide that the peer has gone. Nothing over HTTP/2. */
void http_exchange_be_last(struct http_exchange *ex);
/* Bytes of a streamed answer that wait for the peer, or for its turn. */
size_t http_reply_waiting(const struct http_exchange *ex);
void http_reply_end(struct http_exchange *ex); /* the exchange is gone when this returns */
/* Breaks the answer off: closes the connection, so that the peer can't take what it has for the
 * whole. The exchange is gone; on_abort isn't called. */
void http_reply_abort(struct http_exchange *ex);

/* ---- routing ---- */

struct http_route {
	enum http_method method; /* GET serves HEAD too */
	const char *pattern; /* "/stats", "/apis/{group}/pods/{name}"; "/files/{rest...}" takes all
			      * that follows, slashes included, and may be empty */
	http_handler_fn *handler;
};

/* Calls the first route that fits, with arg. 404 where no pattern does, 405 with Allow where one
 * does with other methods, 501 for methods that nobody knows; OPTIONS has 204 with Allow, of "*"
 * with all methods of the table. routes end with a NULL pattern and outlive the exchange. */
void http_route(struct http_exchange *ex, const struct http_route *routes, void *arg);
/* What {name} matched, decoded; "" if there is none. Lives as long as the exchange. */
const char *http_exchange_param(const struct http_exchange *ex, const char *name);

#endif
