/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the server: reads requests within limits and deadlines, hands them to the handler
 * and sends the answers in the order of the requests. It owns its exchanges. Uses core/, loop/,
 * net/.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/trace.h"
#include "server_impl.h"

#define FRESH_GRACE_MS 300 /* of a stop */

#define LINGER_MS 2000

static void conn_free(void *p)
{
	struct sconn *conn = p;
	http_codec_free(conn->codec);
	free(conn->h2);
	free(conn);
}

/* Out of the server; the connection to the peer is the caller's. */
static struct net_conn *conn_detach(struct sconn *conn)
{
	struct net_conn *net = conn->net;

	conn->net = NULL;
	list_unlink(&conn->link);
	loop_timer_stop(&conn->timer);
	loop_timer_stop(&conn->pour);
	loop_work_cancel(&conn->step);
	loop_reap(conn->server->loop, conn, conn_free);
	return net;
}

/* The connection to the peer is closed, or left to say goodbye by itself. */
static void conn_end(struct sconn *conn, bool in_order)
{
	if (conn->h2) {
		sh2_end(conn);
		conn_detach(conn);
	} else if (in_order)
		net_conn_finish(conn_detach(conn), LINGER_MS);
	else
		net_conn_close(conn_detach(conn));
}

/* What it holds doesn't count any more: the reaper has it soon. */
static void uncount(struct exchange *ex)
{
	ex->conn->server->bodies.bytes -= ex->counted;
	ex->counted = 0;
}

void sconn_drop_exchange(struct exchange *ex)
{
	uncount(ex);
	list_unlink(&ex->link);
	ex->conn->n_exchanges--;
	ex->conn->server->stats.exchanges--;
	loop_reap(ex->conn->server->loop, ex, exchange_free);
}

static void drop_reading(struct sconn *conn)
{
	if (!conn->reading)
		return;
	uncount(conn->reading);
	loop_reap(conn->server->loop, conn->reading, exchange_free);
	conn->reading = NULL;
}

static void abort_exchanges(struct sconn *conn)
{
	while (!list_empty(&conn->exchanges)) {
		struct exchange *ex = CONTAINER_OF(conn->exchanges.next, struct exchange, link);
		sconn_drop_exchange(ex);
		exchange_abort(ex);
	}
}

void sconn_abort(struct sconn *conn)
{
	if (!conn->net)
		return;
	conn_end(conn, false);
	drop_reading(conn);
	abort_exchanges(conn);
	server_conn_gone(conn->server);
}

struct net_conn *sconn_release(struct sconn *conn)
{
	struct net_conn *net = conn_detach(conn);

	conn->released = true;
	while (!list_empty(&conn->exchanges)) {
		struct exchange *ex = CONTAINER_OF(conn->exchanges.next, struct exchange, link);
		ex->ended = true;
		sconn_drop_exchange(ex);
	}
	server_conn_gone(conn->server);
	return net;
}

/* Closes in order, when the output has gone: what the peer takes slowly isn't cut off by the time
 * that a goodbye may take. One of HTTP/2 ends with its last stream. */
static void conn_finish(struct sconn *conn)
{
	if (!conn->net)
		return;
	if (conn->h2) {
		sconn_renew(conn);
		return;
	}
	conn->last_read = true;
	drop_reading(conn);
	loop_timer_stop(&conn->timer);
	if (net_conn_queued(conn->net) > 0) {
		/* With marks of 0, on_drain tells of the empty queue. */
		if (!conn->closing) {
			net_conn_set_marks(conn->net, 0, 0, SIZE_MAX / 2);
			net_conn_write(conn->net, "", 0, NULL);
		}
		conn->closing = true;
		return;
	}
	conn_end(conn, true);
	abort_exchanges(conn);
	server_conn_gone(conn->server);
}

/* ---- deadlines ---- */

static void set_phase(struct sconn *conn)
{
	const struct http_server_config *config = &conn->server->config;
	enum conn_phase phase;

	if (conn->reading)
		phase = PHASE_BODY;
	else if (!conn->last_read && !http_codec_idle(conn->codec))
		phase = PHASE_HEAD;
	else if (conn->n_exchanges > 0)
		phase = PHASE_BUSY;
	else
		phase = conn->phase == PHASE_FRESH ? PHASE_FRESH : PHASE_IDLE;
	if (phase == conn->phase)
		return;
	/* What a fresh connection was given covers its first head too. */
	bool goes_on = conn->phase == PHASE_FRESH && phase == PHASE_HEAD;
	conn->phase = phase;
	if (phase == PHASE_BUSY)
		loop_timer_stop(&conn->timer);
	else if (phase == PHASE_BODY)
		loop_timer_start_in(&conn->timer, config->body_ms);
	else if (phase == PHASE_IDLE)
		loop_timer_start_in(&conn->timer, config->idle_ms);
	else if (!goes_on)
		loop_timer_start_in(&conn->timer, config->header_ms);
}

static void refuse(struct sconn *conn, int status, const char *detail);

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct sconn *conn = arg;
	(void)timer;
	if (conn->h2)
		sh2_timeout(conn);
	else if (conn->phase == PHASE_HEAD)
		refuse(conn, 408, "the request's head didn't arrive in time");
	else if (conn->phase == PHASE_BODY)
		refuse(conn, 408, "the request's body didn't arrive in time");
	else
		conn_finish(conn);
}

/* ---- requests ---- */

/* The open exchanges allow another one to be worked on (RFC 9110, 9.3.3: safe ones at once). */
static bool may_dispatch(const struct sconn *conn, const struct exchange *ex)
{
	LIST_FOREACH(i, next, &conn->exchanges) {
		const struct exchange *other = CONTAINER_OF(i, struct exchange, link);
		if (other == ex)
			break;
		if (!other->ended && !(http_method_is_safe(other->pub.method) &&
				       http_method_is_safe(ex->pub.method)))
			return false;
	}
	return true;
}

void sconn_dispatch(struct sconn *conn, struct exchange *ex)
{
	struct trace *before;

	conn->parked = NULL;
	ex->dispatched = true;
	if (conn->server->config.on_answered)
		ex->began_us = clock_mono_us();
	conn->server->stats.requests++;
	if (http_headers_count(&ex->headers, "traceparent") == 1)
		ex->trace = trace_parse(http_headers_get(&ex->headers, "traceparent"),
					http_headers_count(&ex->headers, "tracestate") == 1
						? http_headers_get(&ex->headers, "tracestate")
						: STR_NULL);
	before = trace_enter(ex->trace);
	conn->handler(&ex->pub, conn->handler_arg);
	trace_leave(before);
	if (ex->ended || ex->on_abort)
		return;
	log_error(conn->server->name, ex->pub.peer,
		  "%s %.*s: its handler left it without an answer",
		  http_method_name(ex->pub.method), STR_ARG(ex->pub.path));
	if (ex->begun)
		http_reply_abort(&ex->pub);
	else
		http_reply_problem(&ex->pub, 500, NULL);
}

void sconn_enlist(struct sconn *conn, struct exchange *ex)
{
	list_append(&conn->exchanges, &ex->link);
	conn->n_exchanges++;
	conn->server->stats.exchanges++;
}

static void request_complete(struct sconn *conn)
{
	struct exchange *ex = conn->reading;

	conn->reading = NULL;
	/* So that the next head gets its own time. */
	conn->phase = PHASE_BUSY;
	loop_timer_stop(&conn->timer);
	if (!ex->keep_alive || conn->server->leaving || conn->leaving)
		conn->last_read = true;
	sconn_enlist(conn, ex);
	if (buf_append(&ex->body, "", 1, NULL) < 0) {
		exchange_refuse(ex, 503, EXCHANGE_NO_MEMORY);
		return;
	}
	ex->pub.body = (struct str){ex->body.p, ex->body.len - 1};
	if (may_dispatch(conn, ex))
		sconn_dispatch(conn, ex);
	else
		conn->parked = ex;
}

/* The answer to what can't be taken; nothing is read any more. */
static void refuse(struct sconn *conn, int status, const char *detail)
{
	struct exchange *ex = conn->reading ? conn->reading : exchange_new(conn);

	conn->reading = NULL;
	conn->last_read = true;
	conn->phase = PHASE_BUSY;
	loop_timer_stop(&conn->timer);
	sconn_enlist(conn, ex);
	exchange_refuse(ex, status, detail);
}

static void on_head(struct sconn *conn)
{
	const struct http_head *head = http_codec_head(conn->codec);
	struct exchange *ex = exchange_new(conn);
	int status;

	conn->reading = ex;
	ex->minor = head->minor;
	ex->keep_alive = head->keep_alive;
	ex->pub.method = head->method;
	http_codec_take_headers(conn->codec, &ex->headers);
	const char *detail = exchange_check(ex, head->target, &status);
	if (detail)
		refuse(conn, status, detail);
	else if (head->expect_continue && head->has_body)
		exchange_continue(ex);
}

static void on_body(struct sconn *conn, struct str piece)
{
	struct http_server *server = conn->server;

	if (!conn->reading)
		return;
	if (!h2_room_has(&server->bodies, piece.len)) {
		refuse(conn, 503, EXCHANGE_NO_ROOM);
	} else if (piece.len > conn->reading->body.limit - conn->reading->body.len) {
		refuse(conn, 413, "the body is too large");
	} else if (buf_append_str(&conn->reading->body, piece, NULL) < 0) {
		refuse(conn, 503, EXCHANGE_NO_MEMORY);
	} else {
		conn->reading->counted += piece.len;
		server->bodies.bytes += piece.len;
	}
}

/* The last request came by HTTP/1.0, and its answer may have to end with the connection. */
static bool is_behind_old(const struct sconn *conn)
{
	return !list_empty(&conn->exchanges) &&
	       CONTAINER_OF(conn->exchanges.prev, struct exchange, link)->minor == 0;
}

/* An answer goes out in pieces: those behind it would wait for its end, however far that is. A
 * request that has begun is read to its own end. */
static bool is_behind_stream(const struct sconn *conn)
{
	if (conn->reading || !http_codec_idle(conn->codec))
		return false;
	LIST_FOREACH(i, next, &conn->exchanges) {
		const struct exchange *ex = CONTAINER_OF(i, struct exchange, link);

		if (ex->begun && !ex->ended)
			return true;
	}
	return false;
}

/* No request can be taken now: too many are in work, or the peer doesn't read its answers. */
static bool is_blocked(const struct sconn *conn)
{
	return conn->parked || is_behind_old(conn) || is_behind_stream(conn) ||
	       conn->n_exchanges >= conn->server->config.max_pipelined ||
	       (net_conn_is_full(conn->net) && !conn->reading);
}

/* Takes requests out of s as long as it may. Returns the bytes used; the connection may be closed
 * then. */
static size_t drive(struct sconn *conn, struct str s)
{
	size_t total = 0;

	while (conn->net && !conn->broken && !conn->last_read && !is_blocked(conn)) {
		enum http_codec_event event;
		struct err err = ERR_INIT;
		struct str body;
		size_t used;

		if (http_codec_feed(conn->codec, s, &used, &event, &body, &err) < 0) {
			refuse(conn, err.code ? err.code : 400, err.msg);
			break;
		}
		total += used;
		s.p += used;
		s.len -= used;
		if (event == HTTP_CODEC_MORE)
			break;
		if (event == HTTP_CODEC_HEAD)
			on_head(conn);
		else if (event == HTTP_CODEC_BODY)
			on_body(conn, body);
		else if (conn->reading)
			request_complete(conn);
	}
	if (conn->released)
		return total;
	if (!conn->net || conn->last_read)
		return total + s.len;
	set_phase(conn);
	/* The rest waits where it is. Without anything left reading goes on, to see the peer's end.
	 */
	if (is_blocked(conn) && s.len > 0)
		net_conn_read_stop(conn->net);
	return total;
}

static size_t on_data(struct net_conn *net, const char *p, size_t len, void *arg)
{
	struct sconn *conn = arg;
	(void)net;
	return drive(conn, (struct str){p, len});
}

static void on_eof(struct net_conn *net, void *arg)
{
	struct sconn *conn = arg;
	(void)net;
	/* A peer that has closed takes no answer that isn't there yet; one that only ended its own
	 * side can't be told from it. What has been answered is sent. */
	LIST_FOREACH(i, next, &conn->exchanges) {
		if (!CONTAINER_OF(i, struct exchange, link)->ended) {
			sconn_abort(conn);
			return;
		}
	}
	conn_finish(conn);
}

static void on_error(struct net_conn *net, const struct err *why, void *arg)
{
	struct sconn *conn = arg;
	log_debug(conn->server->name, net_conn_peer(net), "connection lost: %s", why->msg);
	sconn_abort(conn);
}

static void on_drain(struct net_conn *net, void *arg)
{
	struct sconn *conn = arg;
	(void)net;
	loop_work_post(&conn->step);
}

/* ---- answers ---- */

/* Hands the first exchange's output to the connection. */
static void send_out(struct sconn *conn, struct exchange *ex)
{
	struct err err = ERR_INIT;

	if (ex->out.len > 0 && net_conn_write(conn->net, ex->out.p, ex->out.len, &err) < 0) {
		/* Dead, or no memory. */
		conn->broken = true;
		loop_work_post(&conn->step);
	}
	buf_done(&ex->out);
}

void sconn_flush(struct sconn *conn)
{
	bool closes = false;

	/* Behind an answer that was lost none may go out: it would be taken for that one. */
	while (conn->net && !conn->broken && !list_empty(&conn->exchanges) && !closes) {
		struct exchange *ex = CONTAINER_OF(conn->exchanges.next, struct exchange, link);
		send_out(conn, ex);
		if (!ex->ended)
			break;
		closes = ex->closes;
		sconn_drop_exchange(ex);
	}
	if (!conn->net || conn->broken || conn->closing)
		return;
	if (closes)
		conn_finish(conn);
	else
		loop_work_post(&conn->step);
}

static void drain_first(struct sconn *conn)
{
	if (list_empty(&conn->exchanges) || net_conn_is_full(conn->net))
		return;
	struct exchange *ex = CONTAINER_OF(conn->exchanges.next, struct exchange, link);
	if (!ex->above || ex->ended)
		return;
	ex->above = false;
	if (ex->on_drain)
		ex->on_drain(&ex->pub, ex->on_drain_arg);
}

/* Looks at what has become possible. */
static void on_step(struct loop_work *work, void *arg)
{
	struct sconn *conn = arg;

	(void)work;
	if (conn->broken) {
		sconn_abort(conn);
		return;
	}
	if (conn->h2) {
		sh2_step(conn);
		return;
	}
	if (conn->closing) {
		conn_finish(conn);
		return;
	}
	drain_first(conn);
	if (conn->net && !conn->broken && conn->parked && may_dispatch(conn, conn->parked))
		sconn_dispatch(conn, conn->parked);
	if (conn->net && !conn->broken)
		drive(conn, STR_NULL);
	if (!conn->net || conn->broken || conn->closing)
		return;
	/* Stopping may have come between an answer and now. */
	if (conn->server->stopping && conn->n_exchanges == 0 && !conn->reading &&
	    http_codec_idle(conn->codec)) {
		conn_finish(conn);
		return;
	}
	set_phase(conn);
	if (!is_blocked(conn))
		net_conn_read_start(conn->net);
}

void sconn_drop_idle(struct sconn *conn)
{
	if (conn->net && conn->phase == PHASE_IDLE)
		conn_finish(conn);
}

void sconn_renew(struct sconn *conn)
{
	conn->leaving = true;
	if (conn->h2)
		loop_work_post(&conn->step);
	else
		sconn_drop_idle(conn);
}

/* A connection that was only just accepted may have its first request on the way, which no client
 * repeats by itself as it would on one that was idle. */
void sconn_stop(struct sconn *conn)
{
	if (conn->phase == PHASE_FRESH)
		loop_timer_start_in(&conn->timer, FRESH_GRACE_MS);
	else
		loop_work_post(&conn->step);
}

static const struct net_conn_handler handler = {
	.on_data = on_data,
	.on_eof = on_eof,
	.on_error = on_error,
	.on_drain = on_drain,
};

void sconn_set_high_water(struct sconn *conn, size_t bytes)
{
	conn->high_bytes = bytes;
	if (conn->h2)
		return;
	/* An answer given at once may be of any size; streams are limited in http_reply_write. */
	net_conn_set_marks(conn->net, bytes / 2, bytes, SIZE_MAX / 2);
}

void sconn_start(struct http_server *server, struct listener *listener, struct net_conn *net)
{
	struct sconn *conn = xcalloc(1, sizeof(*conn));

	conn->server = server;
	conn->handler = listener->handler;
	conn->handler_arg = listener->arg;
	conn->net = net;
	list_init(&conn->exchanges);
	loop_timer_init(&conn->timer, server->loop, on_timer, conn);
	loop_work_init(&conn->step, server->loop, on_step, conn);
	loop_timer_init(&conn->pour, server->loop, sh2_pour, conn);
	list_append(&server->conns, &conn->link);
	conn->phase = PHASE_FRESH;
	loop_timer_start_in(&conn->timer, server->config.header_ms);
	net_conn_set_timeouts(net, 0, server->config.write_ms);
	if (net_conn_alpn(net) && strcmp(net_conn_alpn(net), "h2") == 0)
		sh2_start(conn, net);
	else
		conn->codec = http_codec_new(HTTP_CODEC_REQUESTS, &server->config.limits);
	sconn_set_high_water(conn, server->config.high_water_bytes);
	if (!conn->h2) {
		net_conn_set_handler(net, &handler, conn);
		net_conn_read_start(net);
	}
	if (server->stopping)
		sconn_stop(conn);
}
