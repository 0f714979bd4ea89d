/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries bytes between a connection and an HTTP/2 session, and its events to the driver. It owns
 * both until its end.
 * Uses core, loop, net.
 */
#include "h2/transport.h"

#include "core/clock.h"

#define FLUSH_BYTES ((size_t)64 << 10)
/* nghttp2 hands out a frame at a time: at most this much comes on top. */
#define FLUSH_LIMIT (FLUSH_BYTES + ((size_t)32 << 10))

static void report_lost(struct h2_transport *t, const struct err *why)
{
	if (t->lost || t->ended)
		return;
	t->lost = true;
	t->ops->on_lost(t->arg, why);
}

static void report_over(struct h2_transport *t)
{
	const char *reason = h2_session_reason(t->session);
	struct err why = ERR_INIT;

	if (reason[0])
		err_set(&why, ERR_PROTOCOL, 0, "HTTP/2 connection to %s ended: %s",
			net_conn_peer(t->conn), reason);
	else
		err_set(&why, ERR_UNAVAILABLE, 0, "HTTP/2 connection to %s was closed",
			net_conn_peer(t->conn));
	t->sound = true;
	report_lost(t, &why);
}

static void drain_events(struct h2_transport *t)
{
	struct h2_event ev;

	while (!t->ended && !t->lost && h2_session_next(t->session, &ev))
		t->ops->on_event(t->arg, &ev);
}

/* Moves what the session has to say to the connection, as far as that takes it. */
static int move_output(struct h2_transport *t, struct err *err)
{
	struct buf out = BUF_SECRET(FLUSH_LIMIT);
	int rc = 0;

	while (rc == 0 && !net_conn_is_full(t->conn) && h2_session_wants_write(t->session)) {
		buf_clear(&out);
		rc = h2_session_output(t->session, &out, FLUSH_BYTES, err);
		if (out.len == 0)
			break;
		struct err write_err = ERR_INIT;
		if (net_conn_write(t->conn, out.p, out.len, &write_err) < 0 && rc == 0)
			rc = err_copy(err, &write_err);
	}
	buf_done(&out);
	return rc;
}

static void flush(struct h2_transport *t)
{
	struct err err = ERR_INIT;

	if (t->ended || t->lost)
		return;
	if (move_output(t, &err) < 0) {
		report_lost(t, &err);
		return;
	}
	drain_events(t); /* sending can end streams too */
	if (!t->ended && !t->lost && h2_session_is_over(t->session))
		report_over(t);
}

static void on_work(struct loop_work *work, void *arg)
{
	(void)work;
	flush(arg);
}

static void arm(struct h2_transport *t)
{
	int64_t due_ms = h2_session_due_ms(t->session);

	if (due_ms < INT64_MAX && (!loop_timer_active(&t->due) || t->due.at_ms > due_ms))
		loop_timer_start_at(&t->due, due_ms);
}

static void on_due(struct loop_timer *timer, void *arg)
{
	struct h2_transport *t = arg;

	(void)timer;
	h2_session_expire(t->session);
	arm(t);
	flush(t);
}

static size_t on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct h2_transport *t = arg;
	struct err err = ERR_INIT;
	(void)conn;

	if (t->lost)
		return len;
	t->last_recv_ms = clock_mono_ms();
	int rc = h2_session_feed(t->session, p, len, &err);
	arm(t);
	drain_events(t);
	if (t->ended || t->lost)
		return len;
	if (rc < 0) {
		move_output(t, NULL); /* the GOAWAY that says why */
		t->sound = true;
		report_lost(t, &err);
		return len;
	}
	flush(t);
	return len;
}

static void on_eof(struct net_conn *conn, void *arg)
{
	struct err why = ERR_INIT;

	err_set(&why, ERR_UNAVAILABLE, 0, "%s closed the connection", net_conn_peer(conn));
	report_lost(arg, &why);
}

static void on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)conn;
	report_lost(arg, why);
}

static void on_drain(struct net_conn *conn, void *arg)
{
	(void)conn;
	flush(arg);
}

void h2_transport_start(struct h2_transport *t, struct net_conn *conn, struct h2_session *session,
			const struct h2_transport_ops *ops, void *arg)
{
	static const struct net_conn_handler handler = {on_data, on_eof, on_error, on_drain};

	*t = (struct h2_transport){
		.conn = conn,
		.session = session,
		.ops = ops,
		.arg = arg,
		.loop = net_conn_loop(conn),
		.last_recv_ms = clock_mono_ms(),
	};
	loop_work_init(&t->work, t->loop, on_work, t);
	loop_timer_init(&t->due, t->loop, on_due, t);
	net_conn_set_handler(conn, &handler, t);
	net_conn_read_start(conn);
	loop_work_post(&t->work);
}

void h2_transport_kick(struct h2_transport *t)
{
	if (!t->ended && !t->lost)
		loop_work_post(&t->work);
}

static void free_session(void *session)
{
	h2_session_free(session);
}

void h2_transport_end(struct h2_transport *t, unsigned linger_ms)
{
	if (t->ended || !t->conn)
		return;
	t->ended = true;
	loop_work_cancel(&t->work);
	loop_timer_stop(&t->due);
	if (linger_ms > 0) {
		move_output(t, NULL);
		net_conn_finish(t->conn, linger_ms);
	} else {
		net_conn_close(t->conn);
	}
	loop_reap(t->loop, t->session, free_session);
}
