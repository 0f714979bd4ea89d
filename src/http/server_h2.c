/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's connection of HTTP/2: every stream is an exchange by itself, whose answer goes out
 * when it's written. The server's connection (server_conn.c) owns the transport. Uses core/, loop/,
 * net/ and h2/.
 */
#include <stdlib.h>

#include "h2/transport.h"
#include "h2_fields.h"
#include "server_impl.h"

#define MAX_FIELDS  60
#define MAX_STREAMS 100 /* as kube-apiserver allows */
#define LINGER_MS   2000
/* A body that is too large is read so far over its limit that it can be answered. */
#define MORE_BODY_BYTES ((size_t)1 << 20)

static struct h2_session *session(const struct sconn *conn)
{
	return conn->h2->session;
}

static struct exchange *find(const struct sconn *conn, int32_t stream)
{
	LIST_FOREACH(i, next, &conn->exchanges) {
		struct exchange *ex = CONTAINER_OF(i, struct exchange, link);
		if (ex->stream == stream)
			return ex;
	}
	return NULL;
}

static void wait_idle(struct sconn *conn)
{
	conn->taken_bytes = net_conn_sent_bytes(conn->net);
	loop_timer_start_in(&conn->timer, conn->server->config.idle_ms);
}

/* An exchange has come or gone. */
static void count(struct sconn *conn)
{
	enum conn_phase phase = conn->n_exchanges > 0 ? PHASE_BUSY : PHASE_IDLE;

	if (conn->server->leaving || conn->leaving)
		h2_session_goaway(session(conn), H2_NO_ERROR);
	if (phase != conn->phase && phase == PHASE_BUSY)
		loop_timer_stop(&conn->timer);
	else if (phase != conn->phase)
		wait_idle(conn);
	conn->phase = phase;
	h2_transport_kick(conn->h2);
	loop_work_post(&conn->step);
}

/* ---- requests ---- */

/* A Host that says what :authority does says nothing (RFC 9113, 8.3.1). */
static int take_fields(struct exchange *ex, const struct h2_message *m, struct str *ret_target,
		       struct err *err)
{
	struct str authority = h2_header_get(m->headers, m->n_headers, ":authority");

	*ret_target = STR_NULL;
	for (size_t i = 0; i < m->n_headers; i++) {
		struct str name = m->headers[i].name, value = m->headers[i].value;
		if (str_eqz(name, ":method")) {
			ex->pub.method = http_method_of(value);
			continue;
		}
		if (str_eqz(name, ":path")) {
			*ret_target = value;
			continue;
		}
		if (str_eqz(name, "host") && str_eq(value, authority))
			continue;
		if (str_eqz(name, ":authority"))
			name = STR("Host");
		if (name.p[0] != ':' && http_headers_add(&ex->headers, name, value, err) < 0)
			return -1;
	}
	return 0;
}

static int take_body(struct sconn *conn, struct exchange *ex)
{
	buf_done(&ex->body);
	h2_session_take_body(session(conn), ex->stream, &ex->body);
	ex->counted = ex->body.len;
	conn->server->bodies.bytes += ex->counted;
	if (buf_append(&ex->body, "", 1, NULL) < 0)
		return -1;
	ex->pub.body = (struct str){ex->body.p, ex->body.len - 1};
	return 0;
}

/* what: MESSAGE, or why its body isn't whole and won't be waited for. */
static void on_request(struct sconn *conn, int32_t stream, enum h2_event_type what)
{
	const struct h2_message *m = h2_session_message(session(conn), stream);
	const struct http_limits *limits = &conn->server->config.limits;
	const char *detail;
	struct err err = ERR_INIT;
	struct str target;
	int status;

	if (!m)
		return;
	struct exchange *ex = exchange_new(conn);
	ex->stream = stream;
	ex->keep_alive = true;
	http_headers_init(&ex->headers, limits->max_headers, limits->max_head_bytes);
	bool bad_fields = take_fields(ex, m, &target, &err) < 0;
	sconn_enlist(conn, ex);
	count(conn);
	if (bad_fields && err_is_no_memory(&err))
		exchange_refuse(ex, 503, err.msg);
	else if (bad_fields)
		exchange_refuse(ex, 431, "too many fields");
	else if ((detail = exchange_check(ex, target, &status)))
		exchange_refuse(ex, status, detail);
	else if ((detail = http_request_check(target, &ex->headers, true)))
		exchange_refuse(ex, 400, detail);
	else if (what == H2_EVENT_LATE)
		exchange_refuse(ex, 408, "the request's body didn't arrive in time");
	else if (what == H2_EVENT_NO_ROOM)
		exchange_refuse(ex, 503, EXCHANGE_NO_ROOM);
	else if (m->body.len > limits->max_body_bytes)
		exchange_refuse(ex, 413, "the body is too large");
	else if (take_body(conn, ex) < 0)
		exchange_refuse(ex, 503, EXCHANGE_NO_MEMORY);
	else
		sconn_dispatch(conn, ex);
}

/* ---- answers ---- */

/* Out of the connection: its stream has ended, or ends by itself. */
static void leave(struct exchange *ex)
{
	struct sconn *conn = ex->conn;

	sconn_drop_exchange(ex);
	count(conn);
}

/* The head as HTTP/1.1 writes it (write.c), and what there is of the body. */
static int begin_answer(struct exchange *ex)
{
	struct h2_session *s = session(ex->conn);
	struct str head = {ex->out.p, ex->head_bytes};
	struct str body = {ex->out.p + ex->head_bytes, ex->out.len - ex->head_bytes};
	struct h2_header fields[MAX_FIELDS] = {
		{.name = STR(":status"), .value = {ex->out.p + sizeof("HTTP/1.1"), 3}}};
	size_t n = h2_fields_of_head(head, fields, 1, MAX_FIELDS);

	ex->head_sent = true;
	if (ex->ended)
		return h2_session_respond(s, ex->stream, fields, n, body, NULL, 0, NULL);
	if (h2_session_respond_begin(s, ex->stream, fields, n, NULL) < 0)
		return -1;
	return h2_session_write(s, ex->stream, body, NULL);
}

/* Pieces of streams go out in the loop's next turn, behind the answers that are complete now: what
 * a watch tells of a change comes to the one who asked for it behind the answer, as it mostly does
 * on connections of their own. */
void sh2_pour(struct loop_timer *timer, void *arg)
{
	struct sconn *conn = arg;

	(void)timer;
	LIST_FOREACH(i, next, &conn->exchanges) {
		struct exchange *ex = CONTAINER_OF(i, struct exchange, link);
		if (!ex->head_sent || ex->out.len == 0)
			continue;
		if (h2_session_write(session(conn), ex->stream, buf_str(&ex->out), NULL) < 0)
			sh2_give_up(ex);
		buf_done(&ex->out);
	}
	h2_transport_kick(conn->h2);
}

void sh2_flush(struct exchange *ex)
{
	struct h2_session *s = session(ex->conn);
	int rc;

	if (ex->head_sent && !ex->ended) {
		if (!loop_timer_active(&ex->conn->pour))
			loop_timer_start_in(&ex->conn->pour, 0);
		return;
	}
	if (!ex->head_sent) {
		rc = begin_answer(ex);
	} else {
		rc = h2_session_write(s, ex->stream, buf_str(&ex->out), NULL);
		if (ex->ended)
			h2_session_finish(s, ex->stream);
	}
	buf_done(&ex->out);
	h2_transport_kick(ex->conn->h2);
	if (ex->ended)
		leave(ex);
	else if (rc < 0)
		sh2_give_up(ex);
}

size_t sh2_waiting(const struct exchange *ex)
{
	return h2_session_waiting(session(ex->conn), ex->stream);
}

void sh2_give_up(struct exchange *ex)
{
	ex->given_up = true;
	loop_work_post(&ex->conn->step);
}

void sh2_reset(struct exchange *ex)
{
	h2_session_reset(session(ex->conn), ex->stream, H2_INTERNAL_ERROR);
	leave(ex);
}

static void abort_given_up(struct sconn *conn)
{
	LIST_FOREACH(i, next, &conn->exchanges) {
		struct exchange *ex = CONTAINER_OF(i, struct exchange, link);
		if (!ex->given_up)
			continue;
		sh2_reset(ex);
		exchange_abort(ex);
		/* Others may have gone with it: from the beginning, in the next turn. */
		loop_work_post(&conn->step);
		return;
	}
}

/* Requests that are coming have a time of their own (h2/session.h); answers that the peer has taken
 * nothing of meanwhile are given up. */
void sh2_timeout(struct sconn *conn)
{
	bool takes = h2_session_streams(session(conn)) > 0 &&
		     net_conn_sent_bytes(conn->net) != conn->taken_bytes;

	if (takes || h2_session_unfinished(session(conn)) > 0)
		wait_idle(conn);
	else
		sconn_abort(conn);
}

void sh2_step(struct sconn *conn)
{
	abort_given_up(conn);
	if (!conn->net || !(conn->server->leaving || conn->leaving))
		return;
	/* It's over with its last stream, whichever way that one goes. */
	h2_session_goaway(session(conn), H2_NO_ERROR);
	h2_transport_kick(conn->h2);
}

/* ---- the connection ---- */

static void on_event(void *arg, const struct h2_event *ev)
{
	struct sconn *conn = arg;
	struct exchange *ex = find(conn, ev->stream);

	switch (ev->type) {
	case H2_EVENT_MESSAGE:
	case H2_EVENT_LATE:
	case H2_EVENT_NO_ROOM:
		on_request(conn, ev->stream, ev->type);
		break;
	case H2_EVENT_RESET:
		if (!ex)
			break;
		leave(ex);
		exchange_abort(ex);
		break;
	case H2_EVENT_DRAINED:
		if (!ex || !ex->above || ex->ended)
			break;
		ex->above = false;
		if (ex->on_drain)
			ex->on_drain(&ex->pub, ex->on_drain_arg);
		break;
	default:
		break;
	}
}

static void on_lost(void *arg, const struct err *why)
{
	(void)why;
	sconn_abort(arg);
}

void sh2_start(struct sconn *conn, struct net_conn *net)
{
	static const struct h2_transport_ops ops = {on_event, on_lost};
	const struct http_limits *config = &conn->server->config.limits;
	const struct h2_limits limits = {
		.header_bytes = config->max_head_bytes,
		.body_bytes = (size_t)config->max_body_bytes + MORE_BODY_BYTES,
		.streams = MAX_STREAMS,
		.room = &conn->server->bodies,
		.head_ms = conn->server->config.header_ms,
		.body_ms = conn->server->config.body_ms,
	};

	conn->h2 = xcalloc(1, sizeof(*conn->h2));
	h2_transport_start(conn->h2, net, h2_session_new(H2_SERVER, &limits), &ops, conn);
}

void sh2_end(struct sconn *conn)
{
	h2_session_goaway(session(conn), H2_NO_ERROR);
	h2_transport_end(conn->h2, conn->h2->lost && !conn->h2->sound ? 0 : LINGER_MS);
}
