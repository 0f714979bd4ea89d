/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's connections of HTTP/2: each carries the calls of a pool as streams, looks after the
 * peer's being there, and ends when it takes no more calls and the last has gone. A pool keeps
 * them; a connection owns its transport. Uses core/, loop/, net/ and h2/.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "client_impl.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/map.h"
#include "h2/transport.h"
#include "h2_fields.h"

#define MAX_FIELDS 60
#define CONTROL_FRAMES                                                                             \
	10000 /* what watches may still bring that were given up, in small pieces                  \
	       */
#define MAX_REFUSED   3
#define SILENCE_MS    30000 /* then the peer is asked whether it's there */
#define PONG_MS       15000 /* so long it may take to say so */
#define DOUBT_PONG_MS 5000  /* the same where it has already owed an answer for too long */
#define LINGER_MS     1000

struct h2_conn {
	struct list link; /* in the pool */
	struct pool *pool;
	struct h2_transport transport;
	struct list calls; /* by their place */
	struct map *by_stream;
	unsigned n_calls;
	uint64_t served; /* responses that have begun to come */
	bool leaving;    /* takes no more calls */
	bool doubtful;   /* takes none until the peer answers a PING */
	bool ended;
	int64_t idle_since_ms;
	int64_t pong_by_ms; /* 0: none is awaited */
	struct loop_timer timer;
};

static struct h2_session *session(const struct h2_conn *c)
{
	return c->transport.session;
}

/* ---- the end ---- */

static void conn_free(void *p)
{
	struct h2_conn *c = p;
	map_free(c->by_stream);
	free(c);
}

/* The calls are off it. */
static void end(struct h2_conn *c)
{
	struct pool *pool = c->pool;

	if (c->ended)
		return;
	c->ended = true;
	h2_session_goaway(session(c), H2_NO_ERROR);
	h2_transport_end(&c->transport, c->transport.lost && !c->transport.sound ? 0 : LINGER_MS);
	loop_timer_stop(&c->timer);
	list_unlink(&c->link);
	pool->n_h2--;
	pool->n_h2_idle--;
	loop_reap(pool->client->loop, c, conn_free);
	pool_pump(pool);
	pool_unref(pool);
}

static void end_if_done(struct h2_conn *c)
{
	if (c->leaving && c->n_calls == 0)
		end(c);
}

/* ---- calls on it ---- */

static struct str key_of(const struct call *call)
{
	return (struct str){(const char *)&call->stream, sizeof(call->stream)};
}

static struct call *find_call(const struct h2_conn *c, int32_t stream)
{
	return map_get(c->by_stream, (struct str){(const char *)&stream, sizeof(stream)});
}

static void take(struct h2_conn *c, struct call *call, int32_t stream)
{
	call->h2 = c;
	call->stream = stream;
	map_put(c->by_stream, key_of(call), call);
	list_append(&c->calls, &call->place);
	if (c->n_calls++ == 0)
		c->pool->n_h2_idle--;
	c->pool->n_busy[call->kind]++;
	c->pool->n_h2_calls++;
}

/* Off the connection, whose session is told by the caller. */
static void detach(struct h2_conn *c, struct call *call)
{
	map_del(c->by_stream, key_of(call));
	list_unlink(&call->place);
	call->h2 = NULL;
	c->pool->n_busy[call->kind]--;
	c->pool->n_h2_calls--;
	if (--c->n_calls == 0) {
		c->pool->n_h2_idle++;
		c->idle_since_ms = clock_mono_ms();
	}
	pool_pump(c->pool);
}

static void arm(struct h2_conn *c);

/* The one way in which calls leave while the connection goes on. */
static void after_call(struct h2_conn *c)
{
	h2_transport_kick(&c->transport);
	end_if_done(c);
	if (!c->ended && c->n_calls == 0)
		arm(c);
}

static void drop(struct call *call)
{
	struct h2_conn *c = call->h2;

	h2_session_reset(session(c), call->stream, H2_CANCEL);
	detach(c, call);
	after_call(c);
}

static bool was_sent(const struct call *call)
{
	return h2_session_was_sent(session(call->h2), call->stream);
}

static void consume(struct call *call, size_t len)
{
	h2_session_consume(session(call->h2), call->stream, len);
	h2_transport_kick(&call->h2->transport);
}

/* ---- the connection is lost ---- */

/* Each call goes again or fails; what they call back may end others of them. */
static void lose(struct h2_conn *c, const struct err *why)
{
	struct pool *pool = c->pool;
	struct err err = *why;

	if (c->ended)
		return;
	if (err.kind == ERR_IO)
		err.kind = ERR_UNAVAILABLE;
	err_wrap(&err, "%s", pool->name);
	log_debug("http", pool->name, "HTTP/2 connection lost with %u calls: %s", c->n_calls,
		  why->msg);
	pool->refs++;
	c->leaving = true;
	while (!list_empty(&c->calls)) {
		struct call *call = CONTAINER_OF(c->calls.next, struct call, place);
		bool sent = call->sent || was_sent(call);
		call->sent = sent;
		detach(c, call);
		if (call->state == CALL_SENT && c->served > 0 && !call->retried &&
		    call_is_safe(call, sent)) {
			call->retried = true;
			call_again(call);
		} else {
			call_fail(call, &err);
		}
	}
	end(c);
	pool_unref(pool);
}

static void on_lost(void *arg, const struct err *why)
{
	lose(arg, why);
}

/* ---- time ---- */

static void arm(struct h2_conn *c)
{
	int64_t at = c->pong_by_ms ? c->pong_by_ms : c->transport.last_recv_ms + SILENCE_MS;

	if (c->n_calls == 0) {
		int64_t idle_at = c->idle_since_ms + c->pool->client->config.idle_ms;
		at = c->pong_by_ms && c->pong_by_ms < idle_at ? c->pong_by_ms : idle_at;
	}
	loop_timer_start_at(&c->timer, at);
}

static void ask(struct h2_conn *c, int64_t pong_by_ms)
{
	if (!c->pong_by_ms) {
		h2_session_ping(session(c));
		h2_transport_kick(&c->transport);
	}
	if (!c->pong_by_ms || pong_by_ms < c->pong_by_ms)
		c->pong_by_ms = pong_by_ms;
	arm(c);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct h2_conn *c = arg;
	int64_t now = clock_mono_ms();
	struct err why = ERR_INIT;

	(void)timer;
	if (c->pong_by_ms && c->pong_by_ms <= now) {
		err_set(&why, ERR_UNAVAILABLE, 0, "the server doesn't answer a PING");
		lose(c, &why);
	} else if (c->n_calls == 0 && c->idle_since_ms + c->pool->client->config.idle_ms <= now) {
		end(c);
	} else if (c->n_calls > 0 && !c->pong_by_ms &&
		   c->transport.last_recv_ms + SILENCE_MS <= now) {
		ask(c, now + PONG_MS);
	} else {
		arm(c);
	}
}

static void doubt(struct call *call)
{
	struct h2_conn *c = call->h2;

	c->doubtful = true;
	ask(c, clock_mono_ms() + DOUBT_PONG_MS);
}

/* ---- what the server says ---- */

/* Takes the call off and fails it; the stream is reset if it's still there. */
static void fail_call(struct h2_conn *c, struct call *call, const struct err *why)
{
	call->sent = true;
	h2_session_reset(session(c), call->stream, H2_CANCEL);
	detach(c, call);
	call_fail(call, why);
	if (!c->ended)
		after_call(c);
}

static int read_head(const struct h2_conn *c, struct call *call, struct err *err)
{
	const struct h2_message *msg = h2_session_message(session(c), call->stream);
	struct http_head *head = xcalloc(1, sizeof(*head));
	int64_t n;

	call->head = head;
	*head = (struct http_head){
		.minor = 1, .keep_alive = true, .has_body = true, .content_length = -1};
	http_headers_init(&head->headers, 0, c->pool->client->config.max_head_bytes);
	for (size_t i = 0; i < msg->n_headers; i++) {
		const struct h2_header *h = &msg->headers[i];
		if (str_eqz(h->name, ":status")) {
			/* Three digits: nghttp2 has looked. */
			if (str_to_int(h->value, 100, 999, &n, err) < 0)
				return -1;
			head->status = (int)n;
			continue;
		}
		if (str_eqz(h->name, "content-length") &&
		    str_to_int(h->value, 0, INT64_MAX, &n, NULL) == 0)
			head->content_length = n;
		if (http_headers_add(&head->headers, h->name, h->value, err) < 0)
			return -1;
	}
	if (head->content_length == 0 || call->method == HTTP_METHOD_HEAD || head->status == 204 ||
	    head->status == 304)
		head->has_body = false;
	return 0;
}

static void on_head(struct h2_conn *c, struct call *call)
{
	struct err err = ERR_INIT;

	c->served++;
	if (read_head(c, call, &err) < 0) {
		err_wrap(&err, "%s: response", c->pool->name);
		fail_call(c, call, &err);
		return;
	}
	call_on_head(call, call->head);
}

static void on_piece(struct h2_conn *c, struct call *call, struct str piece)
{
	int32_t stream = call->stream;
	struct err err = ERR_INIT;

	call->body_bytes += piece.len;
	if (call->max_body_bytes > 0 && call->body_bytes > call->max_body_bytes) {
		err_set(&err, ERR_LIMIT, 0, "%s: response: a body of more than %" PRIu64 " bytes",
			c->pool->name, call->max_body_bytes);
		fail_call(c, call, &err);
		return;
	}
	if (call->paused || call->held.len > 0) {
		if (buf_append_str(&call->held, piece, &err) < 0)
			fail_call(c, call, &err);
		return;
	}
	call_on_piece(call, piece);
	h2_session_consume(session(c), stream, piece.len);
}

static void on_complete(struct h2_conn *c, struct call *call)
{
	h2_session_release(session(c), call->stream);
	detach(c, call);
	call->complete = call->sent = true;
	if (!call->paused && call->held.len == 0)
		call_complete(call);
	if (!c->ended)
		after_call(c);
}

static void on_reset(struct h2_conn *c, struct call *call, const struct h2_event *ev)
{
	struct err err = ERR_INIT;
	bool is_refused = ev->code == H2_REFUSED_STREAM && call->state == CALL_SENT;

	if (is_refused && call->n_refused++ < MAX_REFUSED) {
		detach(c, call);
		call_again(call);
		after_call(c);
		return;
	}
	if (is_refused)
		err_set(&err, ERR_UNAVAILABLE, 0, "%s: the server refuses the request's stream",
			c->pool->name);
	else if (ev->by_peer)
		err_set(&err, ERR_UNAVAILABLE, 0,
			"%s: response: the server reset the stream (code %" PRIu32 ")",
			c->pool->name, ev->code);
	else
		err_set(&err, ev->code == H2_ENHANCE_YOUR_CALM ? ERR_LIMIT : ERR_PROTOCOL, 0,
			"%s: response: %s", c->pool->name,
			ev->text[0] ? ev->text : "a breach of HTTP/2");
	call->sent = call->sent || !is_refused;
	detach(c, call);
	call_fail(call, &err);
	if (!c->ended)
		after_call(c);
}

static void on_goaway(struct h2_conn *c, const struct h2_event *ev)
{
	log_debug("http", c->pool->name, "GOAWAY with %u calls: code=%" PRIu32 " last_stream=%d %s",
		  c->n_calls, ev->code, ev->last_stream, ev->text);
	c->leaving = true;
	pool_pump(c->pool);
	end_if_done(c);
}

static void on_event(void *arg, const struct h2_event *ev)
{
	struct h2_conn *c = arg;
	struct call *call = find_call(c, ev->stream);

	switch (ev->type) {
	case H2_EVENT_HEAD:
		if (call)
			on_head(c, call);
		break;
	case H2_EVENT_DATA:
		if (call)
			on_piece(c, call, ev->piece);
		break;
	case H2_EVENT_END:
		if (call)
			on_complete(c, call);
		break;
	case H2_EVENT_RESET:
		if (call)
			on_reset(c, call, ev);
		break;
	case H2_EVENT_GOAWAY:
		on_goaway(c, ev);
		break;
	case H2_EVENT_PONG:
		c->pong_by_ms = 0;
		c->doubtful = false;
		arm(c);
		pool_pump(c->pool);
		break;
	default: /* SETTINGS: there may be room */
		pool_pump(c->pool);
		break;
	}
}

/* ---- requests ---- */

/* Of the request as HTTP/1.1 writes it (write.c), which is changed. */
static size_t read_fields(struct str text, bool tls, struct h2_header fields[MAX_FIELDS])
{
	struct str method, target, rest;

	str_cut(text, ' ', &method, &rest);
	str_cut(rest, ' ', &target, &rest);
	fields[0] = (struct h2_header){.name = STR(":method"), .value = method};
	fields[1] = (struct h2_header){.name = STR(":scheme"),
				       .value = tls ? STR("https") : STR("http")};
	fields[2] = (struct h2_header){.name = STR(":path"), .value = target};
	return h2_fields_of_head(text, fields, 3, MAX_FIELDS);
}

static int open_stream(struct h2_conn *c, struct call *call, int32_t *ret_stream, struct err *err)
{
	struct h2_header fields[MAX_FIELDS];
	struct buf head = BUF_SECRET(call->head_bytes);
	struct str body = {call->request.p + call->head_bytes,
			   call->request.len - call->head_bytes};
	int rc = -1;

	if (buf_append(&head, call->request.p, call->head_bytes, err) == 0) {
		size_t n = read_fields(buf_str(&head), c->pool->tls != NULL, fields);
		rc = n < MAX_FIELDS ? h2_session_open(session(c), fields, n, body, ret_stream, err)
				    : err_set(err, ERR_LIMIT, 0, "too many header fields");
	}
	buf_done(&head);
	return rc;
}

static struct h2_conn *find_room(const struct pool *pool)
{
	LIST_FOREACH(i, next, &pool->h2) {
		struct h2_conn *c = CONTAINER_OF(i, struct h2_conn, link);
		if (!c->leaving && !c->doubtful && h2_session_room(session(c)) > 0)
			return c;
	}
	return NULL;
}

static bool start_call(struct pool *pool, struct call *call)
{
	struct h2_conn *c = find_room(pool);
	struct err err = ERR_INIT;
	int32_t stream;

	if (!c)
		return false;
	if (open_stream(c, call, &stream, &err) < 0) {
		call_fail(call, &err);
		return true;
	}
	if (c->served > 0)
		pool->client->stats.reused++;
	take(c, call, stream);
	call_begin(call);
	h2_transport_kick(&c->transport);
	if (c->n_calls == 1)
		arm(c);
	return true;
}

/* ---- the pool's ---- */

static void start(struct pool *pool, struct net_conn *net)
{
	static const struct h2_transport_ops ops = {on_event, on_lost};
	const struct http_client_config *config = &pool->client->config;
	const struct h2_limits limits = {
		.header_bytes = config->max_head_bytes ? config->max_head_bytes
						       : HTTP_MAX_HEAD_BYTES,
		.control_frames = CONTROL_FRAMES,
	};
	struct h2_conn *c = xcalloc(1, sizeof(*c));

	c->pool = pool;
	pool->refs++;
	c->by_stream = map_new();
	list_init(&c->calls);
	c->idle_since_ms = clock_mono_ms();
	loop_timer_init(&c->timer, pool->client->loop, on_timer, c);
	list_append(&pool->h2, &c->link);
	pool->n_h2++;
	pool->n_h2_idle++;
	log_debug("http", pool->name, "connected: HTTP/2");
	h2_transport_start(&c->transport, net, h2_session_new(H2_CLIENT, &limits), &ops, c);
	arm(c);
}

static void leave(struct pool *pool)
{
	LIST_FOREACH(i, next, &pool->h2) {
		struct h2_conn *c = CONTAINER_OF(i, struct h2_conn, link);
		c->leaving = true;
		end_if_done(c);
	}
}

const struct http_h2 http_h2 = {
	.start = start,
	.send = start_call,
	.drop = drop,
	.was_sent = was_sent,
	.consume = consume,
	.doubt = doubt,
	.leave = leave,
};
