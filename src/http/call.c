/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call: its request, its deadlines, and the response that its connection's codec reads.
 * The call is its starter's until on_done or a cancel; then the reaper's. Uses core/, loop/, net/.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client_impl.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/trace.h"
#include "net/net.h"

#define DEFAULT_CONNECT_MS     10000
#define DEFAULT_FIRST_BYTE_MS  30000
#define DEFAULT_TOTAL_MS       60000
#define DEFAULT_IDLE_MS        60000
#define DEFAULT_STREAM_IDLE_MS 300000
#define DEFAULT_MAX_BODY_BYTES ((uint64_t)64 << 20)
#define MAX_INTERIM            16 /* 100 Continue and its like, of one call */
#define MAX_REQUEST_BYTES      ((size_t)64 << 20)
#define MAX_HELD_BYTES         ((size_t)1 << 20) /* a stream's window is less */
#define OUTPUT_LOW_BYTES       ((size_t)64 << 10)
#define OUTPUT_HIGH_BYTES      ((size_t)256 << 10)

/* ---- the end ---- */

static void call_free(void *p)
{
	struct call *call = p;
	buf_done(&call->request);
	buf_done(&call->held);
	if (call->head)
		http_headers_done(&call->head->headers);
	free(call->head);
	trace_unref(call->trace);
	free(call);
}

/* The call's memory is there until the reaper runs, whatever a callback does. */
static void tell_done(struct call *call, const struct err *err)
{
	struct trace *before;

	if (!op_end(&call->pub.op) || !call->handler->on_done)
		return;
	before = trace_enter(call->trace);
	call->handler->on_done(call->arg, err);
	trace_leave(before);
}

/* Whether bytes of the request were handed to the socket. */
static bool was_sent(const struct call *call)
{
	const struct conn *conn = call->conn;
	if (call->h2 && call->client->config.h2->was_sent(call))
		return true;
	return call->sent || (conn && net_conn_sent_bytes(conn->net) > conn->sent_before);
}

/* Out of everything that knows it, but a connection of its own, which is the caller's to close or
 * keep. */
static struct conn *call_detach(struct call *call)
{
	struct conn *conn = call->conn;

	if (call->state == CALL_QUEUED)
		call->pool->n_queued[call->kind]--;
	call->state = CALL_ENDED;
	call->conn = NULL;
	if (call->h2)
		call->client->config.h2->drop(call);
	list_unlink(&call->link);
	loop_timer_stop(&call->timer);
	loop_work_cancel(&call->work);
	loop_reap(call->client->loop, call, call_free);
	return conn;
}

static void call_cancel(struct op *op)
{
	struct call *call = CONTAINER_OF(op, struct call, pub.op);
	struct pool *pool = call->pool;
	struct conn *conn = call_detach(call);

	if (conn)
		conn_close(conn);
	if (pool)
		pool_unref(pool);
}

void call_fail(struct call *call, const struct err *why)
{
	struct pool *pool = call->pool;
	struct err err = *why;

	err.maybe_applied = was_sent(call);
	struct conn *conn = call_detach(call);
	if (conn)
		conn_close(conn);
	tell_done(call, &err);
	if (pool)
		pool_unref(pool);
}

/* ---- deadlines ---- */

static int64_t next_deadline(const struct call *call)
{
	int64_t at = call->total_at_ms;
	int64_t other = INT64_MAX;

	if (call->state == CALL_QUEUED)
		other = call->connect_at_ms < call->first_byte_at_ms ? call->connect_at_ms
								     : call->first_byte_at_ms;
	else if (call->state == CALL_SENT)
		other = call->first_byte_at_ms;
	else if (call->state == CALL_BODY && !call->paused)
		other = call->idle_at_ms;
	return other < at ? other : at;
}

static void arm(struct call *call)
{
	int64_t at = next_deadline(call);
	if (at == INT64_MAX)
		loop_timer_stop(&call->timer);
	else
		loop_timer_start_at(&call->timer, at);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct call *call = arg;
	struct pool *pool = call->pool;
	int64_t now = clock_mono_ms();
	struct err err = ERR_INIT;

	(void)timer;
	/* Pieces of a body move the deadline without touching the timer. */
	if (next_deadline(call) > now) {
		arm(call);
		return;
	}
	if (call->state == CALL_QUEUED)
		err_set(&err, ERR_TIMEOUT, 0, "%s: no connection in time%s%.120s%s", pool->name,
			pool->last_timeout.kind ? " (" : "", pool->last_timeout.msg,
			pool->last_timeout.kind ? ")" : "");
	else if (call->state == CALL_SENT)
		err_set(&err, ERR_TIMEOUT, 0, "%s: no response in time", pool->name);
	else if (now >= call->total_at_ms)
		err_set(&err, ERR_TIMEOUT, 0, "%s: the response didn't end in time", pool->name);
	else
		err_set(&err, ERR_TIMEOUT, 0, "%s: the response fell silent for %u ms", pool->name,
			call->idle_ms);
	if (call->h2)
		call->client->config.h2->doubt(call);
	call_fail(call, &err);
}

/* ---- the beginning ---- */

static bool is_ours(struct str name)
{
	return str_ieqz(name, "host") || str_ieqz(name, "content-length") ||
	       str_ieqz(name, "transfer-encoding") || str_ieqz(name, "connection");
}

static bool has_field(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (str_ieqz(req->headers[i].name, name))
			return true;
	return false;
}

static int write_request(struct call *call, const struct http_request *req, struct err *err)
{
	size_t n = 0;
	char parent[TRACE_PARENT_SIZE];
	int64_t length = -1;
	int rc;

	for (size_t i = 0; i < req->n_headers; i++)
		if (is_ours(req->headers[i].name))
			return err_set(err, ERR_INVALID, 0,
				       "the field \"%.*s\" is the client's own to set",
				       STR_ARG(req->headers[i].name));
	struct http_header *headers = xcalloc(req->n_headers + 4, sizeof(*headers));
	if (!has_field(req, "user-agent"))
		headers[n++] = (struct http_header){STR("User-Agent"),
						    str_of(call->client->user_agent)};
	if (!has_field(req, "accept-encoding"))
		headers[n++] = (struct http_header){STR("Accept-Encoding"), STR("identity")};
	if (call->trace && !has_field(req, "traceparent")) {
		trace_write(call->trace, parent);
		headers[n++] = (struct http_header){STR("traceparent"), str_of(parent)};
		if (trace_state(call->trace)[0])
			headers[n++] = (struct http_header){STR("tracestate"),
							    str_of(trace_state(call->trace))};
	}
	for (size_t i = 0; i < req->n_headers; i++)
		headers[n++] = req->headers[i];
	if (req->body.p)
		length = (int64_t)req->body.len;
	else if (req->method == HTTP_METHOD_POST || req->method == HTTP_METHOD_PUT ||
		 req->method == HTTP_METHOD_PATCH)
		length = 0;
	buf_init_secret(&call->request, MAX_REQUEST_BYTES); /* Authorization */
	rc = http_write_request(&call->request, req->method, req->target, call->pool->authority,
				headers, n, length, err);
	call->head_bytes = call->request.len;
	if (rc == 0)
		rc = buf_append_str(&call->request, req->body, err);
	buf_fit(&call->request); /* hundreds of them may wait for their answers */
	free(headers);
	return rc;
}

static int64_t deadline(int64_t now, unsigned ms, unsigned otherwise_ms)
{
	if (ms == 0)
		ms = otherwise_ms;
	return ms == 0 ? INT64_MAX : now + ms;
}

static void set_deadlines(struct call *call, const struct http_request *req)
{
	int64_t now = clock_mono_ms();
	call->connect_at_ms = deadline(now, req->connect_ms, DEFAULT_CONNECT_MS);
	call->first_byte_at_ms = deadline(now, req->first_byte_ms, DEFAULT_FIRST_BYTE_MS);
	call->total_at_ms = deadline(now, req->total_ms, req->streaming ? 0 : DEFAULT_TOTAL_MS);
	call->idle_ms = req->idle_ms     ? req->idle_ms
			: req->streaming ? DEFAULT_STREAM_IDLE_MS
					 : DEFAULT_IDLE_MS;
	call->max_body_bytes = req->max_body_bytes;
	if (call->max_body_bytes == 0 && !req->streaming)
		call->max_body_bytes = DEFAULT_MAX_BODY_BYTES;
}

static int check_origin(const struct http_origin *origin, struct err *err)
{
	if (!origin->host || !*origin->host || strlen(origin->host) > 255)
		return err_set(err, ERR_INVALID, 0, "no host, or one that is too long");
	if (origin->port == 0 || origin->port > 65535)
		return err_set(err, ERR_INVALID, 0, "%u is no port", origin->port);
	return 0;
}

static void queue(struct call *call)
{
	struct pool *pool = call->pool;
	struct list *l = &pool->queue[call->kind];
	/* One that goes again has waited already. */
	list_append(call->retried || call->n_refused ? l->next : l, &call->link);
	pool->n_queued[call->kind]++;
	call->state = CALL_QUEUED;
	arm(call);
	pool_pump(pool);
}

static int begin(struct call *call, const struct http_request *req, struct err *err)
{
	if (check_origin(&req->origin, err) < 0)
		return -1;
	call->pool = pool_get(call->client, &req->origin);
	if (write_request(call, req, err) < 0)
		return -1;
	if (call->pool->n_queued[call->kind] >= call->client->config.max_queued)
		return err_set(err, ERR_BUSY, 0, "%s: %u requests are waiting already",
			       call->pool->name, call->pool->n_queued[call->kind]);
	return 0;
}

static void on_work(struct loop_work *work, void *arg);

struct http_call *http_call_start(struct http_client *client, const struct http_request *req,
				  const struct http_call_handler *handler, void *arg,
				  struct scope *scope)
{
	struct call *call = xcalloc(1, sizeof(*call));

	op_begin(&call->pub.op, scope, call_cancel);
	list_init(&call->link);
	list_init(&call->place);
	buf_init_secret(&call->held, MAX_HELD_BYTES);
	call->client = client;
	call->handler = handler;
	call->arg = arg;
	call->method = req->method;
	call->idempotent = req->idempotent || req->method == HTTP_METHOD_GET ||
			   req->method == HTTP_METHOD_HEAD;
	call->trace = trace_ref(trace_current());
	call->kind = req->streaming ? KIND_STREAMING : req->urgent ? KIND_URGENT : KIND_UNARY;
	loop_timer_init(&call->timer, client->loop, on_timer, call);
	loop_work_init(&call->work, client->loop, on_work, call);
	set_deadlines(call, req);
	if (begin(call, req, &call->refusal) == 0) {
		queue(call);
		return &call->pub;
	}
	call->state = CALL_REFUSED;
	/* So that freeing the client finds it. */
	if (call->pool)
		list_append(&call->pool->calls, &call->link);
	loop_work_post(&call->work);
	return &call->pub;
}

/* ---- over a connection ---- */

/* The connection is of no use any more: the call goes again if that is harmless, else fails. */
static void conn_lost(struct conn *conn, const struct err *why)
{
	struct call *call = conn->call;

	if (!call) {
		conn_close(conn);
		return;
	}
	if (conn->served == 0 || conn->got_bytes || call->retried ||
	    !call_is_safe(call, was_sent(call))) {
		call_fail(call, why);
		return;
	}
	log_debug("http", call->pool->name, "a kept connection was closed: the request goes again");
	call->retried = true;
	call->sent = was_sent(call);
	call->conn = NULL;
	call_again(call);
	conn_close(conn);
}

void call_again(struct call *call)
{
	call->client->stats.retried++;
	list_unlink(&call->link);
	queue(call);
}

void call_begin(struct call *call)
{
	list_unlink(&call->link);
	call->pool->n_queued[call->kind]--;
	list_append(&call->pool->calls, &call->link);
	call->state = CALL_SENT;
	arm(call);
}

void call_send(struct call *call, struct conn *conn)
{
	struct err err = ERR_INIT;
	size_t len = call->request.len;

	call_begin(call);
	call->conn = conn;
	conn->got_bytes = false;
	conn->sent_before = net_conn_sent_bytes(conn->net);
	http_codec_expect(conn->codec, call->method);
	http_codec_set_max_body(conn->codec, call->max_body_bytes);
	net_conn_set_marks(conn->net, OUTPUT_LOW_BYTES, OUTPUT_HIGH_BYTES, len + OUTPUT_HIGH_BYTES);
	if (call->paused)
		net_conn_read_stop(conn->net);
	if (net_conn_write(conn->net, call->request.p, len, &err) < 0)
		conn_lost(conn, &err);
}

void call_complete(struct call *call)
{
	struct pool *pool = call->pool;

	call_detach(call);
	tell_done(call, NULL);
	pool_unref(pool);
}

static void call_finish(struct call *call, bool bytes_left)
{
	struct conn *conn = call->conn;
	struct pool *pool = call->pool;
	const struct http_head *head = http_codec_head(conn->codec);
	/* A server that answers before it has the whole request has lost its place in it. */
	bool reusable = head->keep_alive && !bytes_left && net_conn_queued(conn->net) == 0;

	call_detach(call);
	conn_release(conn, reusable);
	tell_done(call, NULL);
	pool_unref(pool);
}

static void on_head(struct call *call)
{
	const struct http_head *head = http_codec_head(call->conn->codec);
	struct err err = ERR_INIT;

	if (head->status == 101) {
		err_set(&err, ERR_PROTOCOL, 0, "%s: 101 Switching Protocols, unasked",
			call->pool->name);
		call_fail(call, &err);
		return;
	}
	if (head->status < 200) {
		if (++call->n_interim <= MAX_INTERIM)
			return;
		err_set(&err, ERR_PROTOCOL, 0, "%s: more than %d interim responses",
			call->pool->name, MAX_INTERIM);
		call_fail(call, &err);
		return;
	}
	call_on_head(call, head);
}

void call_on_head(struct call *call, const struct http_head *head)
{
	/* It can't go again from here on. */
	buf_done(&call->request);
	call->state = CALL_BODY;
	call->idle_at_ms = clock_mono_ms() + call->idle_ms;
	arm(call);
	if (call->handler->on_head) {
		struct trace *before = trace_enter(call->trace);
		call->handler->on_head(call->arg, head);
		trace_leave(before);
	}
}

void call_on_piece(struct call *call, struct str piece)
{
	call->idle_at_ms = clock_mono_ms() + call->idle_ms;
	if (call->handler->on_body) {
		struct trace *before = trace_enter(call->trace);
		call->handler->on_body(call->arg, piece);
		trace_leave(before);
	}
}

/* Whether the connection still carries the call, which a callback may have ended. */
static bool carries(const struct conn *conn, const struct call *call)
{
	return call->conn == conn && conn->net;
}

/* Feeds the codec until it has no more, or the call pauses or ends. Returns the bytes used. */
static size_t drive(struct conn *conn, struct str s)
{
	struct call *call = conn->call;
	size_t total = 0;

	while (call && carries(conn, call) && !call->paused) {
		enum http_codec_event event;
		struct err err = ERR_INIT;
		struct str body;
		size_t used;

		if (http_codec_feed(conn->codec, s, &used, &event, &body, &err) < 0) {
			err_wrap(&err, "%s: response", call->pool->name);
			call_fail(call, &err);
			break;
		}
		total += used;
		s.p += used;
		s.len -= used;
		if (event == HTTP_CODEC_MORE)
			break;
		if (event == HTTP_CODEC_HEAD) {
			on_head(call);
		} else if (event == HTTP_CODEC_BODY) {
			call_on_piece(call, body);
		} else if (call->state == CALL_BODY) {
			call_finish(call, s.len > 0);
		}
	}
	return total;
}

static size_t conn_on_data(struct net_conn *net, const char *p, size_t len, void *arg)
{
	struct conn *conn = arg;
	struct call *call = conn->call;

	(void)net;
	if (!call) {
		/* Nobody asked for this: whose answer would it be? */
		log_debug("http", conn->pool->name, "bytes on an unused connection: closed");
		conn_close(conn);
		return len;
	}
	conn->got_bytes = true;
	return drive(conn, (struct str){p, len});
}

static void conn_on_eof(struct net_conn *net, void *arg)
{
	struct conn *conn = arg;
	struct call *call = conn->call;
	enum http_codec_event event = HTTP_CODEC_MORE;
	struct err err = ERR_INIT;

	(void)net;
	conn->no_reuse = true;
	if (!call) {
		conn_close(conn);
		return;
	}
	if (http_codec_eof(conn->codec, &event, &err) < 0) {
		/* Cut off, by a server that ends or fails: worth another try. */
		if (err.kind == ERR_PROTOCOL)
			err.kind = ERR_UNAVAILABLE;
		err_wrap(&err, "%s: response", call->pool->name);
		call_fail(call, &err);
	} else if (event == HTTP_CODEC_END) {
		call_finish(call, false);
	} else {
		err_set(&err, ERR_UNAVAILABLE, 0, "%s: closed the connection without an answer",
			call->pool->name);
		conn_lost(conn, &err);
	}
}

static void conn_on_error(struct net_conn *net, const struct err *why, void *arg)
{
	struct conn *conn = arg;
	struct err err = *why;

	(void)net;
	if (err.kind == ERR_IO)
		err.kind = ERR_UNAVAILABLE;
	err_wrap(&err, "%s", conn->pool->name);
	conn_lost(conn, &err);
}

const struct net_conn_handler conn_handler = {
	.on_data = conn_on_data,
	.on_eof = conn_on_eof,
	.on_error = conn_on_error,
};

/* ---- back-pressure ---- */

/* Of a stream of HTTP/2, whose connection goes on being read. */
static void deliver_held(struct call *call)
{
	struct buf held = call->held;

	buf_init_secret(&call->held, MAX_HELD_BYTES);
	if (held.len > 0)
		call_on_piece(call, buf_str(&held));
	if (call->h2 && held.len > 0)
		call->client->config.h2->consume(call, held.len);
	else if (call->state == CALL_BODY && call->complete && !call->paused)
		call_complete(call);
	buf_done(&held);
}

static void on_work(struct loop_work *work, void *arg)
{
	struct call *call = arg;
	struct conn *conn = call->conn;

	(void)work;
	if (call->state == CALL_REFUSED) {
		call_fail(call, &call->refusal);
		return;
	}
	if (call->paused)
		return;
	if (!conn) {
		deliver_held(call);
		return;
	}
	/* What the codec has read already needs no more bytes to come. */
	drive(conn, STR_NULL);
	if (carries(conn, call) && !call->paused)
		net_conn_read_start(conn->net);
}

void http_call_pause(struct http_call *pub)
{
	struct call *call = CONTAINER_OF(pub, struct call, pub);
	if (call->paused || call->state == CALL_ENDED)
		return;
	call->paused = true;
	if (call->conn)
		net_conn_read_stop(call->conn->net);
	if (call->state == CALL_BODY)
		arm(call);
}

void http_call_resume(struct http_call *pub)
{
	struct call *call = CONTAINER_OF(pub, struct call, pub);
	if (!call->paused || call->state == CALL_ENDED)
		return;
	call->paused = false;
	if (call->state == CALL_BODY) {
		call->idle_at_ms = clock_mono_ms() + call->idle_ms;
		arm(call);
	}
	if (call->conn || call->state == CALL_BODY)
		loop_work_post(&call->work);
}
