/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection from the inside, for connect.c and listen.c, which make them.
 * The connection owns its descriptor, TLS session and buffers.
 */
#ifndef IPU_NET_CONN_IMPL_H
#define IPU_NET_CONN_IMPL_H

#include "core/buf.h"
#include "core/list.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "tls_impl.h"

/* err NULL: done. On failure the callee closes the connection, best by net_conn_finish: so that the
 * peer gets our alert. */
typedef void net_handshake_fn(struct net_conn *conn, const struct err *err, void *arg);

struct net_conn {
	struct net *net;
	struct list link; /* in the net's lingering ones, or in the listener's handshakes */
	int fd;
	struct loop_io io;
	struct tls_session *tls;         /* NULL: none */
	struct tls_session *retired_tls; /* of a handshake that failed; freed with the connection */
	const struct net_conn_handler *handler;
	void *arg;

	net_handshake_fn *handshake_cb; /* not NULL: the handshake is under way */
	void *handshake_arg;
	void (*on_closed)(void *arg); /* the listener counts, or NULL */
	void *on_closed_arg;

	/* Reading. */
	struct buf in; /* what on_data left over */
	struct loop_work read_work;
	bool reading;
	bool offer;    /* what is left over is to be offered before more is read */
	bool eof;      /* the peer's side has ended */
	int read_wait; /* what the descriptor has to become before reading is tried again */

	/* Writing. */
	struct buf out;
	uint64_t sent_bytes; /* that left out for the socket */
	struct loop_work write_work;
	size_t tls_len; /* what an unfinished TLS write was given; it's given the same again */
	size_t low_bytes, high_bytes;
	bool full;
	bool was_empty; /* before what is being appended */
	bool shutdown_wanted, shutdown_done;
	int write_wait;
	bool read_first; /* net_conn_read_first */
	bool write_dead; /* sending failed; what the peer said before that is still read */
	struct err write_err;

	/* Time. */
	struct loop_timer timer;
	unsigned idle_ms, stall_ms;
	int64_t last_io_ms, last_write_ms;
	int64_t end_ms; /* of the handshake or of the lingering; 0: none */

	bool failed; /* on_error has been told, or there is nobody to tell */
	bool closed;
	bool finishing;
	size_t dropped_bytes; /* while finishing */
	char peer[NET_ADDR_TEXT];
};

/* Makes a TLS connection of a plain one that nothing was read from or written to; takes a reference
 * to config. server_name: as a client's, NULL as a server's. label: for messages. Never
 * calls back at once. A handler is set afterwards. Closing the connection cancels. */
int net_conn_handshake(struct net_conn *conn, struct tls_config *config, const char *server_name,
		       const char *label, int64_t deadline_ms, net_handshake_fn *cb, void *arg,
		       struct err *err);

#endif
