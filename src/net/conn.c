/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection: tries first, then watches; reads and writes within a budget a turn; ends in one
 * of three ways (close, finish, error). Callbacks come from the loop's events and posted work
 * alone. Uses core and loop.
 */
#include "conn_impl.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/str.h"
#include "net_impl.h"

#define READ_CHUNK_BYTES   (64 << 10)
#define READ_BUDGET_BYTES  (256 << 10)
#define WRITE_BUDGET_BYTES (1 << 20)
#define LEFT_OVER_BYTES    (64 << 10)
#define TLS_RECORD_BYTES   (16 << 10)
#define LOW_BYTES          (64 << 10)
#define HIGH_BYTES         (256 << 10)
#define LIMIT_BYTES        (16 << 20)
#define STALL_MS           60000
#define LINGER_DROP_BYTES  (1 << 20)
#define KEEPALIVE_IDLE_S   30
#define KEEPALIVE_EVERY_S  10
#define KEEPALIVE_PROBES   3

/* One loop, one thread, and reads don't nest: all connections read into the same bytes. */
static char scratch[READ_CHUNK_BYTES];

static void do_read(struct net_conn *conn);

static void watch(struct net_conn *conn)
{
	int events = conn->write_wait;
	if (conn->reading || conn->handshake_cb)
		events |= conn->read_wait;
	loop_io_watch(&conn->io, events);
}

/* --- Time. --- */

static int64_t next_timeout_ms(const struct net_conn *conn)
{
	int64_t at_ms = INT64_MAX;
	if (conn->end_ms > 0)
		at_ms = conn->end_ms;
	if (conn->idle_ms > 0 && conn->last_io_ms + conn->idle_ms < at_ms)
		at_ms = conn->last_io_ms + conn->idle_ms;
	if (conn->stall_ms > 0 && conn->out.len > 0 && conn->last_write_ms + conn->stall_ms < at_ms)
		at_ms = conn->last_write_ms + conn->stall_ms;
	return at_ms;
}

/* Progress only moves the times that the timer looks at when it fires, not the timer. */
static void arm_timer(struct net_conn *conn)
{
	int64_t at_ms = next_timeout_ms(conn);
	if (at_ms == INT64_MAX)
		loop_timer_stop(&conn->timer);
	else if (!loop_timer_active(&conn->timer) || conn->timer.at_ms > at_ms)
		loop_timer_start_at(&conn->timer, at_ms);
}

static void fail(struct net_conn *conn, const struct err *why)
{
	if (conn->failed || conn->closed)
		return;
	conn->failed = true;
	conn->reading = false;
	conn->read_wait = conn->write_wait = 0;
	loop_io_stop(&conn->io);
	loop_timer_stop(&conn->timer);
	loop_work_cancel(&conn->read_work);
	loop_work_cancel(&conn->write_work);
	buf_done(&conn->out);
	buf_done(&conn->in);
	if (conn->handshake_cb) {
		net_handshake_fn *cb = conn->handshake_cb;
		conn->handshake_cb = NULL;
		cb(conn, why, conn->handshake_arg);
	} else if (conn->handler) {
		conn->handler->on_error(conn, why, conn->arg);
	}
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct net_conn *conn = arg;
	struct err err = ERR_INIT;
	int64_t now_ms = clock_mono_ms();
	(void)timer;
	if (next_timeout_ms(conn) > now_ms) {
		arm_timer(conn);
		return;
	}
	if (conn->end_ms > 0 && conn->end_ms <= now_ms)
		err_set(&err, ERR_TIMEOUT, 0, "the TLS handshake took too long");
	else if (conn->stall_ms > 0 && conn->out.len > 0 &&
		 conn->last_write_ms + conn->stall_ms <= now_ms)
		err_set(&err, ERR_TIMEOUT, 0, "the peer took no data for %u s",
			conn->stall_ms / 1000);
	else
		err_set(&err, ERR_TIMEOUT, 0, "no data for %u s", conn->idle_ms / 1000);
	fail(conn, &err);
}

/* --- Reading. --- */

static enum io_status read_some(struct net_conn *conn, size_t *ret_len, struct err *err)
{
	if (conn->tls)
		return tls_session_read(conn->tls, scratch, sizeof(scratch), ret_len, err);
	for (;;) {
		ssize_t n = recv(conn->fd, scratch, sizeof(scratch), 0);
		if (n > 0) {
			*ret_len = (size_t)n;
			return IO_OK;
		}
		if (n == 0)
			return IO_EOF;
		if (errno == EAGAIN)
			return IO_WANT_READ;
		if (errno != EINTR) {
			net_err_errno(err, errno, "connection lost");
			return IO_FAILED;
		}
	}
}

static void keep_left_over(struct net_conn *conn, const char *p, size_t len)
{
	struct err err = ERR_INIT;
	if (conn->in.len + len > LEFT_OVER_BYTES || buf_append(&conn->in, p, len, &err) < 0) {
		err_set(&err, ERR_LIMIT, 0, "more than %d bytes came that can't be used yet",
			LEFT_OVER_BYTES);
		fail(conn, &err);
	}
}

static bool is_done(const struct net_conn *conn)
{
	return conn->closed || conn->failed;
}

/* Offers what was left over, with len new bytes behind it. */
static void deliver(struct net_conn *conn, const char *p, size_t len)
{
	if (conn->in.len == 0) {
		size_t used = conn->handler->on_data(conn, p, len, conn->arg);
		if (!is_done(conn) && used < len)
			keep_left_over(conn, p + used, len - used);
		return;
	}
	struct err err = ERR_INIT;
	if (len > 0 && buf_append(&conn->in, p, len, &err) < 0) {
		fail(conn, &err);
		return;
	}
	size_t used = conn->handler->on_data(conn, conn->in.p, conn->in.len, conn->arg);
	if (is_done(conn))
		return;
	buf_consume(&conn->in, used < conn->in.len ? used : conn->in.len);
	if (conn->in.len == 0)
		buf_done(&conn->in);
	else if (conn->in.len > LEFT_OVER_BYTES)
		keep_left_over(conn, NULL, 0);
}

static void end_of_input(struct net_conn *conn)
{
	conn->eof = true;
	conn->read_wait = 0;
	buf_done(&conn->in);
	conn->handler->on_eof(conn, conn->arg);
}

static void do_read(struct net_conn *conn)
{
	struct err err = ERR_INIT;
	size_t budget = READ_BUDGET_BYTES, len, most = 0;
	conn->read_wait = 0;
	if (conn->offer && conn->reading) {
		conn->offer = false;
		if (conn->in.len > 0)
			deliver(conn, NULL, 0);
	}
	while (!is_done(conn) && conn->reading && !conn->eof) {
		if (budget == 0) {
			loop_work_post(&conn->read_work);
			break;
		}
		enum io_status status = read_some(conn, &len, &err);
		if (status == IO_OK) {
			conn->last_io_ms = clock_mono_ms();
			budget -= len < budget ? len : budget;
			most = len > most ? len : most;
			deliver(conn, scratch, len);
			/* A short read emptied the socket; TLS may hold more. */
			if (!conn->tls && len < sizeof(scratch) && !is_done(conn)) {
				conn->read_wait = EV_READ;
				break;
			}
		} else if (conn->write_dead) {
			/* Nothing more comes. A fault that TLS was told is the better story. */
			fail(conn, status == IO_FAILED && conn->tls ? &err : &conn->write_err);
		} else if (status == IO_EOF) {
			end_of_input(conn);
		} else if (status == IO_FAILED) {
			fail(conn, &err);
		} else {
			conn->read_wait = status == IO_WANT_READ ? EV_READ : EV_WRITE;
			break;
		}
	}
	str_wipe(scratch, most);
	if (!is_done(conn))
		watch(conn);
}

void net_conn_read_start(struct net_conn *conn)
{
	if (is_done(conn) || conn->reading)
		return;
	conn->reading = true;
	conn->offer = true;
	if (!conn->eof)
		loop_work_post(&conn->read_work);
}

void net_conn_read_stop(struct net_conn *conn)
{
	if (is_done(conn) || !conn->reading)
		return;
	conn->reading = false;
	loop_work_cancel(&conn->read_work);
	watch(conn);
}

/* --- Writing. --- */

static enum io_status write_some(struct net_conn *conn, size_t *ret_len, struct err *err)
{
	if (conn->tls) {
		if (conn->tls_len == 0)
			conn->tls_len = conn->out.len < TLS_RECORD_BYTES ? conn->out.len
									 : TLS_RECORD_BYTES;
		enum io_status status = tls_session_write(conn->tls, conn->out.p, conn->tls_len,
							  conn->out.len > conn->tls_len, ret_len,
							  err);
		if (status == IO_OK)
			conn->tls_len = 0;
		return status;
	}
	for (;;) {
		ssize_t n = send(conn->fd, conn->out.p, conn->out.len, MSG_NOSIGNAL);
		if (n >= 0) {
			*ret_len = (size_t)n;
			return IO_OK;
		}
		if (errno == EAGAIN)
			return IO_WANT_WRITE;
		if (errno != EINTR) {
			net_err_errno(err, errno, "connection lost");
			return IO_FAILED;
		}
	}
}

/* The peer may have said why before it closed (a refusal, a TLS alert): that is read first. */
static void write_failed(struct net_conn *conn, const struct err *why)
{
	if (conn->eof || (!conn->reading && !conn->read_first)) {
		fail(conn, why);
		return;
	}
	conn->write_dead = true;
	conn->write_err = *why;
	buf_done(&conn->out);
	do_read(conn);
}

static void close_if_finished(struct net_conn *conn)
{
	if (conn->finishing && conn->eof && conn->shutdown_done)
		net_conn_close(conn);
}

/* The queue is empty and our side is to end. */
static void send_end(struct net_conn *conn)
{
	struct err err = ERR_INIT;
	if (conn->tls) {
		enum io_status status = tls_session_notify_end(conn->tls, &err);
		if (status == IO_WANT_READ || status == IO_WANT_WRITE) {
			conn->write_wait = status == IO_WANT_READ ? EV_READ : EV_WRITE;
			watch(conn);
			return;
		}
		if (status == IO_FAILED) {
			write_failed(conn, &err);
			return;
		}
	}
	/* A peer that has gone makes this fail; reading tells that better. */
	shutdown(conn->fd, SHUT_WR);
	conn->shutdown_done = true;
	close_if_finished(conn);
}

static void do_write(struct net_conn *conn)
{
	struct err err = ERR_INIT;
	size_t budget = WRITE_BUDGET_BYTES, len;
	conn->write_wait = 0;
	while (conn->out.len > 0) {
		if (budget == 0) {
			loop_work_post(&conn->write_work);
			break;
		}
		enum io_status status = write_some(conn, &len, &err);
		if (status == IO_FAILED) {
			write_failed(conn, &err);
			return;
		}
		if (status != IO_OK) {
			conn->write_wait = status == IO_WANT_READ ? EV_READ : EV_WRITE;
			break;
		}
		conn->last_io_ms = conn->last_write_ms = clock_mono_ms();
		buf_consume(&conn->out, len);
		conn->sent_bytes += len;
		budget -= len < budget ? len : budget;
	}
	if (conn->out.len == 0)
		buf_done(&conn->out); /* idle connections hold no memory for output */
	if (conn->full && conn->out.len <= conn->low_bytes) {
		conn->full = false;
		if (conn->handler && conn->handler->on_drain)
			conn->handler->on_drain(conn, conn->arg);
		if (is_done(conn))
			return;
	}
	watch(conn);
	if (conn->out.len > 0 || !conn->shutdown_wanted)
		return;
	if (!conn->shutdown_done)
		send_end(conn);
	else
		close_if_finished(conn);
}

struct buf *net_conn_write_begin(struct net_conn *conn, struct err *err)
{
	if (is_done(conn) || conn->shutdown_wanted || conn->write_dead) {
		err_set(err, ERR_UNAVAILABLE, 0, "the connection has ended");
		return NULL;
	}
	conn->was_empty = conn->out.len == 0;
	return &conn->out;
}

void net_conn_write_end(struct net_conn *conn)
{
	if (conn->out.len > conn->high_bytes)
		conn->full = true;
	if (conn->was_empty && conn->out.len > 0) {
		conn->last_write_ms = clock_mono_ms();
		arm_timer(conn);
	}
	if (conn->write_wait == 0)
		loop_work_post(&conn->write_work);
}

int net_conn_write(struct net_conn *conn, const void *p, size_t len, struct err *err)
{
	struct buf *out = net_conn_write_begin(conn, err);

	if (!out)
		return -1;
	if (buf_append(out, p, len, err) < 0)
		return err_wrap(err, "output to %s", conn->peer);
	net_conn_write_end(conn);
	return 0;
}

void net_conn_read_first(struct net_conn *conn)
{
	conn->read_first = true;
}

size_t net_conn_queued(const struct net_conn *conn)
{
	return conn->out.len;
}

uint64_t net_conn_sent_bytes(const struct net_conn *conn)
{
	return conn->sent_bytes;
}

bool net_conn_is_full(const struct net_conn *conn)
{
	return conn->full;
}

void net_conn_set_marks(struct net_conn *conn, size_t low_bytes, size_t high_bytes,
			size_t limit_bytes)
{
	conn->low_bytes = low_bytes;
	conn->high_bytes = high_bytes;
	conn->out.limit = limit_bytes;
}

void net_conn_set_timeouts(struct net_conn *conn, unsigned idle_ms, unsigned stall_ms)
{
	if (is_done(conn))
		return;
	conn->idle_ms = idle_ms;
	conn->stall_ms = stall_ms;
	conn->last_io_ms = clock_mono_ms();
	arm_timer(conn);
}

void net_conn_shutdown(struct net_conn *conn)
{
	if (is_done(conn) || conn->shutdown_wanted)
		return;
	conn->shutdown_wanted = true;
	if (conn->write_wait == 0)
		loop_work_post(&conn->write_work);
}

/* --- The handshake. --- */

static void do_handshake(struct net_conn *conn)
{
	struct err err = ERR_INIT;
	conn->read_wait = conn->write_wait = 0;
	switch (tls_session_handshake(conn->tls, &err)) {
	case IO_OK: {
		net_handshake_fn *cb = conn->handshake_cb;
		conn->handshake_cb = NULL;
		conn->end_ms = 0;
		arm_timer(conn);
		watch(conn);
		cb(conn, NULL, conn->handshake_arg);
		break;
	}
	case IO_WANT_READ:
		conn->read_wait = EV_READ;
		watch(conn);
		break;
	case IO_WANT_WRITE:
		conn->write_wait = EV_WRITE;
		watch(conn);
		break;
	default:
		fail(conn, &err);
	}
}

int net_conn_handshake(struct net_conn *conn, struct tls_config *config, const char *server_name,
		       const char *label, int64_t deadline_ms, net_handshake_fn *cb, void *arg,
		       struct err *err)
{
	if (tls_session_new(config, conn->fd, server_name, label, &conn->tls, err) < 0)
		return -1;
	conn->handshake_cb = cb;
	conn->handshake_arg = arg;
	conn->end_ms = deadline_ms;
	arm_timer(conn);
	loop_work_post(&conn->read_work);
	return 0;
}

/* --- Events. --- */

static void on_io(struct loop_io *io, int revents, void *arg)
{
	struct net_conn *conn = arg;
	(void)io;
	if (conn->handshake_cb) {
		do_handshake(conn);
		return;
	}
	bool read_now = conn->reading && (conn->read_wait & revents);
	if (conn->write_wait & revents)
		do_write(conn);
	if (read_now && !is_done(conn))
		do_read(conn);
}

static void on_read_work(struct loop_work *work, void *arg)
{
	struct net_conn *conn = arg;
	(void)work;
	if (conn->handshake_cb)
		do_handshake(conn);
	else
		do_read(conn);
}

static void on_write_work(struct loop_work *work, void *arg)
{
	(void)work;
	do_write(arg);
}

/* --- Beginning and end. --- */

static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
	};
	/* None of them is vital, and a socketpair has none of TCP's. */
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

struct net_conn *net_conn_of_fd(struct net *net, int fd)
{
	struct net_conn *conn = xcalloc(1, sizeof(*conn));
	struct net_addr addr = {.len = sizeof(addr.ss)};
	conn->net = net;
	conn->fd = fd;
	list_init(&conn->link);
	set_options(fd);
	loop_io_init(&conn->io, net->loop, fd, on_io, conn);
	loop_work_init(&conn->read_work, net->loop, on_read_work, conn);
	loop_work_init(&conn->write_work, net->loop, on_write_work, conn);
	loop_timer_init(&conn->timer, net->loop, on_timer, conn);
	/* Tokens and keys pass here; who reads them wipes them, and so do we. */
	buf_init_secret(&conn->in, LEFT_OVER_BYTES + READ_CHUNK_BYTES);
	buf_init_secret(&conn->out, LIMIT_BYTES);
	conn->low_bytes = LOW_BYTES;
	conn->high_bytes = HIGH_BYTES;
	conn->stall_ms = STALL_MS;
	conn->last_io_ms = conn->last_write_ms = clock_mono_ms();
	if (getpeername(fd, &addr.sa, &addr.len) < 0)
		addr.len = 0;
	net_addr_format(&addr, conn->peer);
	return conn;
}

void net_conn_set_handler(struct net_conn *conn, const struct net_conn_handler *handler, void *arg)
{
	if (conn->finishing || conn->closed)
		return;
	conn->handler = handler;
	conn->arg = arg;
}

static void free_conn(void *p)
{
	struct net_conn *conn = p;
	tls_session_free(conn->tls);
	tls_session_free(conn->retired_tls);
	buf_done(&conn->in);
	buf_done(&conn->out);
	free(conn);
}

void net_conn_close(struct net_conn *conn)
{
	struct err ignored;
	if (!conn || conn->closed)
		return;
	conn->closed = true;
	loop_io_stop(&conn->io);
	loop_timer_stop(&conn->timer);
	loop_work_cancel(&conn->read_work);
	loop_work_cancel(&conn->write_work);
	list_unlink(&conn->link);
	/* A goodbye says that all was sent, so it isn't said when something is left. */
	if (conn->tls && !conn->failed && !conn->handshake_cb && !conn->shutdown_done &&
	    !conn->write_dead && conn->out.len == 0)
		tls_session_notify_end(conn->tls, &ignored);
	close(conn->fd);
	if (conn->on_closed)
		conn->on_closed(conn->on_closed_arg);
	loop_reap(conn->net->loop, conn, free_conn);
}

static size_t drop_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	(void)p, (void)arg;
	conn->dropped_bytes += len;
	if (conn->dropped_bytes > LINGER_DROP_BYTES)
		net_conn_close(conn);
	return len;
}

static void drop_eof(struct net_conn *conn, void *arg)
{
	(void)arg;
	close_if_finished(conn);
}

static void drop_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)why, (void)arg;
	net_conn_close(conn);
}

void net_conn_finish(struct net_conn *conn, unsigned linger_ms)
{
	static const struct net_conn_handler dropping = {
		.on_data = drop_data, .on_eof = drop_eof, .on_error = drop_error};
	if (!conn || conn->closed || conn->finishing)
		return;
	if (conn->failed && conn->tls) {
		/* mbedTLS sent its alert, if it had one; a plain end follows, and a reset mustn't
		 * overtake it. */
		conn->retired_tls = conn->tls;
		conn->tls = NULL;
		conn->failed = false;
	} else if (conn->failed) {
		net_conn_close(conn);
		return;
	}
	conn->handler = &dropping;
	conn->finishing = true;
	conn->idle_ms = 0;
	conn->end_ms = clock_mono_ms() + linger_ms;
	list_unlink(&conn->link);
	list_append(&conn->net->lingering, &conn->link);
	net_conn_shutdown(conn);
	net_conn_read_start(conn);
	if (conn->shutdown_done && conn->eof)
		loop_work_post(&conn->write_work);
	arm_timer(conn);
}

/* --- Looking at it. --- */

const char *net_conn_peer(const struct net_conn *conn)
{
	return conn->peer;
}

bool net_conn_is_tls(const struct net_conn *conn)
{
	return conn->tls != NULL;
}

const char *net_conn_tls_version(const struct net_conn *conn)
{
	return conn->tls ? mbedtls_ssl_get_version(&conn->tls->ssl) : NULL;
}

const char *net_conn_alpn(const struct net_conn *conn)
{
	return conn->tls ? mbedtls_ssl_get_alpn_protocol(&conn->tls->ssl) : NULL;
}

const char *net_conn_peer_subject(const struct net_conn *conn)
{
	return conn->tls ? conn->tls->subject : NULL;
}

struct loop *net_conn_loop(const struct net_conn *conn)
{
	return conn->net->loop;
}

int net_conn_fd(const struct net_conn *conn)
{
	return conn->fd;
}
