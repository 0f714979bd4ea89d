/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: one descriptor, its watchers, TLS or none, queued output, time-outs. It carries
 * bytes between the loop and a driver (HTTP, gRPC), which feeds its codec in on_data and acts.
 * One owner, who ends it with net_conn_close or net_conn_finish; its memory goes by the reaper.
 */
#ifndef IPU_NET_CONN_H
#define IPU_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/op.h"
#include "net/net.h"
#include "net/tls.h"

struct buf; /* core/buf.h */
struct net_conn;

/* All may close the connection, write, stop and start reading. None is called from within a call
 * of ours, none after net_conn_close or net_conn_finish. */
struct net_conn_handler {
	/* Bytes came, len > 0, borrowed until it returns. Returns how many were used up; the others
	 * are offered again: together with what comes next, or after net_conn_read_start if it
	 * stopped reading. At most 64 KiB may be left over in this way, else on_error(ERR_LIMIT).
	 * A driver that must pause in the middle (pipelining, back-pressure) calls
	 * net_conn_read_stop and returns what it took. */
	size_t (*on_data)(struct net_conn *conn, const char *p, size_t len, void *arg);
	/* The peer ended its side in order (close_notify under TLS): no more on_data. Writing is
	 * still possible. Once. What on_data left over is gone. Not NULL. */
	void (*on_eof)(struct net_conn *conn, void *arg);
	/* The connection is dead (reset, TLS fault, time-out, end of file without close_notify:
	 * ERR_UNAVAILABLE, ERR_PROTOCOL, ERR_TIMEOUT, ERR_LIMIT). Once, and nothing after it. The
	 * owner still has to close. Not NULL. */
	void (*on_error)(struct net_conn *conn, const struct err *why, void *arg);
	/* After net_conn_is_full was true: the queue has fallen to the low-water mark. May be NULL.
	 */
	void (*on_drain)(struct net_conn *conn, void *arg);
};

/* --- Outgoing. --- */

/* An HTTP proxy, which is asked for a tunnel (CONNECT, RFC 9110 9.3.6). */
struct net_proxy {
	char host[NET_HOST_SIZE];
	uint16_t port;
	char *authorization; /* the value of Proxy-Authorization; NULL: none */
};

struct net_connect_opts {
	const char *host; /* name or numeric address; copied */
	uint16_t port;
	/* NULL: none. Else it resolves the name. Borrowed until the operation ends. */
	const struct net_proxy *proxy;
	struct tls_config *tls;  /* NULL: none. A reference is taken. */
	const char *server_name; /* to verify and to send as SNI; NULL: host. Copied. */
	int64_t deadline_ms;     /* on clock_mono_ms, for all: names, TCP, TLS handshake */
};

/* conn: the callee's from here on, and reading is stopped: it sets a handler and starts reading.
 * Or conn is NULL and err says why: the last address' error, with host and port. Certificate
 * trouble is ERR_DENIED: "certificate of api.example:6443 has expired (2024-03-01T10:00:00Z)". */
typedef void net_connect_fn(struct net_conn *conn, const struct err *err, void *arg);

/* Happy Eyeballs (RFC 8305): families interleaved, the next address after 250 ms or at once when
 * one fails; the first TCP connection wins, and the TLS handshake is done on it. Never fails at
 * once. */
struct op *net_connect_start(struct net *net, struct scope *scope,
			     const struct net_connect_opts *opts, net_connect_fn *cb, void *arg);

/* Makes a connection of a connected stream socket; takes the descriptor over. No TLS. */
struct net_conn *net_conn_of_fd(struct net *net, int fd);

/* --- Using it. --- */

void net_conn_set_handler(struct net_conn *conn, const struct net_conn_handler *handler, void *arg);

/* Idempotent both; reading is stopped at first. Starting tries first (bytes that TLS or on_data
 * left over), then watches; at most 256 KiB are read a turn, then others have theirs. A stopped
 * connection doesn't see the peer's end either. */
void net_conn_read_start(struct net_conn *conn);
void net_conn_read_stop(struct net_conn *conn);

/* From here on, output that fails while reading is stopped isn't told until it has been started
 * again and what had come was read: for protocols whose peer says its last and closes, and whose
 * reader pauses. */
void net_conn_read_first(struct net_conn *conn);

/* Queues a copy; it is sent later in this turn, together with what else is queued by then.
 * ERR_LIMIT beyond the hard limit (then nothing was queued); ERR_UNAVAILABLE after
 * net_conn_shutdown or once the connection is dead (on_error tells the story, or has told it). */
int net_conn_write(struct net_conn *conn, const void *p, size_t len, struct err *err);
/* The queue itself, to append a message to without a copy in between, then net_conn_write_end, at
 * once. It holds no more than the hard limit. NULL as net_conn_write's ERR_UNAVAILABLE. */
struct buf *net_conn_write_begin(struct net_conn *conn, struct err *err);
void net_conn_write_end(struct net_conn *conn);
size_t net_conn_queued(const struct net_conn *conn);
/* Of the bytes that were queued since the beginning, those that the socket has taken (with TLS: in
 * whole records). Right also after on_error, so that a driver can tell whether a request may have
 * arrived. */
uint64_t net_conn_sent_bytes(const struct net_conn *conn);
/* The queue is above its high-water mark: stop what feeds it until on_drain. Writing is allowed. */
bool net_conn_is_full(const struct net_conn *conn);
/* Defaults: 64 KiB, 256 KiB, 16 MiB. */
void net_conn_set_marks(struct net_conn *conn, size_t low_bytes, size_t high_bytes,
			size_t limit_bytes);

/* idle_ms: no byte in either direction for so long. stall_ms: output is queued, and the peer
 * has taken none of it for so long. 0: off. on_error(ERR_TIMEOUT). Defaults: 0 and 60 000. TCP
 * keep-alive is on in any case (a vanished peer is noticed after about 60 s). */
void net_conn_set_timeouts(struct net_conn *conn, unsigned idle_ms, unsigned stall_ms);

/* Sends what is queued, then close_notify and FIN; reading goes on. */
void net_conn_shutdown(struct net_conn *conn);

/* Ends it now; what is queued is lost. Allowed in any callback, idempotent until the end of the
 * turn; NULL is fine. */
void net_conn_close(struct net_conn *conn);
/* Ends it in order and without the owner: sends what is queued, close_notify and FIN, drops what
 * comes (so that the answer isn't lost to a reset, RFC 9112 9.6) until the peer's end, and closes
 * after linger_ms at the latest. */
void net_conn_finish(struct net_conn *conn, unsigned linger_ms);

/* --- Looking at it. The strings live as long as the connection. --- */

const char *net_conn_peer(const struct net_conn *conn); /* "10.0.0.1:443", for logs */
bool net_conn_is_tls(const struct net_conn *conn);
/* For tests, to which nothing else shows it: "TLSv1.3"; NULL: no TLS. */
const char *net_conn_tls_version(const struct net_conn *conn);
const char *net_conn_alpn(const struct net_conn *conn); /* what was agreed on, or NULL */
/* "O=x, CN=y" of a verified certificate, or NULL. For tests: as whom a client of ours comes. */
const char *net_conn_peer_subject(const struct net_conn *conn);
struct loop *net_conn_loop(const struct net_conn *conn);
int net_conn_fd(const struct net_conn *conn); /* for socket options */

#endif
