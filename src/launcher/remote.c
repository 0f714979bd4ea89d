/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt after the other until a session says its hello; nothing has been started before that,
 * so each may be tried again. Then bytes of channel 1 are frames, and those of channel 3 the exec's
 * end (v5.channel.k8s.io). Uses http, net, loop and core.
 */
#include "launcher/remote.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "http/websocket.h"
#include "launcher/remote_status.h"
#include "loop/backoff.h"

#define ATTEMPT_MS    30000 /* connection, upgrade and hello; a busy node's exec takes seconds */
#define RETRY_MS      200
#define RETRY_MAX_MS  5000
#define STATUS_BYTES  ((size_t)64 << 10)
#define WORDS_BYTES   ((size_t)1 << 10)
#define OUT_BYTES     ((size_t)512 << 10)
#define HIGH_BYTES    ((size_t)64 << 10)
#define MESSAGE_BYTES ((size_t)32 << 10)

enum channel { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR, CHANNEL_ERROR, CHANNEL_NONE };

enum remote_state {
	REMOTE_WAITING,    /* for the next attempt's time */
	REMOTE_CONNECTING, /* until the upgrade */
	REMOTE_GREETING,   /* until the hello */
	REMOTE_RUNNING,
	REMOTE_OVER, /* on_over was called, or it is freed */
};

struct remote {
	struct net *net;
	struct remote_opts opts;
	const struct remote_handler *handler;
	void *arg;
	enum remote_state state;
	char *pod;        /* whom this attempt asks */
	bool short_tried; /* the name without what is behind its first dot */
	bool token_refused;
	struct scope scope;
	struct loop_timer timer;
	struct backoff backoff;
	struct err refusal; /* what the last attempt that was answered met */
	int64_t begun_ms;   /* this attempt */
	struct ws *ws;
	enum channel channel; /* of the message that is being read */
	struct wire_reader reader;
	struct buf out, status, words;
};

static void attempt(struct remote *r);

static void over(struct remote *r, const struct err *err, int exit_status)
{
	r->state = REMOTE_OVER;
	loop_timer_stop(&r->timer);
	ws_free(r->ws);
	r->ws = NULL;
	r->handler->on_over(r, err, exit_status, r->arg);
}

/* ---- attempts ---- */

/* A hostfile may have whole domain names, and a Pod's name may have dots: the whole is asked for
 * first. */
static bool try_short_name(struct remote *r, const struct err *why)
{
	char *dot = strchr(r->pod, '.');
	if (r->short_tried || !dot || (why->code != 404 && why->code != 403))
		return false;
	*dot = '\0';
	r->short_tried = true;
	return true;
}

static void attempt_failed(struct remote *r, const struct err *why)
{
	struct err err = *why;
	ws_free(r->ws);
	r->ws = NULL;
	if (try_short_name(r, why)) {
		attempt(r);
		return;
	}
	/* A token that was renewed while we asked: the next attempt reads it anew. And an API
	 * server that has only just come back may not know yet what it allows. */
	bool again = remote_may_retry(why) || (why->code == 401 && !r->token_refused) ||
		     (r->opts.resume && why->kind == ERR_DENIED);
	r->token_refused = r->token_refused || why->code == 401;
	if (why->kind != ERR_TIMEOUT)
		r->refusal = *why;
	remote_explain(&err, r->opts.cluster->ns, r->pod, r->opts.launcher);
	int64_t delay_ms = backoff_next_ms(&r->backoff, why);
	if (r->opts.once || !again || err.kind == ERR_NOT_FOUND ||
	    clock_mono_ms() + delay_ms >= r->opts.deadline_ms) {
		over(r, &err, 0);
		return;
	}
	r->state = REMOTE_WAITING;
	loop_timer_start_in(&r->timer, delay_ms);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct remote *r = arg;
	struct err err = ERR_INIT;
	(void)timer;
	if (r->state == REMOTE_WAITING) {
		attempt(r);
		return;
	}
	/* The time is over: the last answer says more than that there was none. */
	if (r->refusal.kind != ERR_NONE && clock_mono_ms() >= r->opts.deadline_ms)
		err = r->refusal;
	else
		err_set(&err, ERR_TIMEOUT, 0, "no session within %" PRId64 " s",
			(clock_mono_ms() - r->begun_ms + 999) / 1000);
	scope_cancel(&r->scope);
	attempt_failed(r, &err);
}

/* ---- what comes ---- */

static void read_frames(struct remote *r, struct str bytes)
{
	struct err err = ERR_INIT;
	struct wire_frame frame;
	int got = wire_feed(&r->reader, bytes, &err);
	while (got >= 0 && (got = wire_next(&r->reader, &frame, &err)) > 0) {
		if (r->state == REMOTE_RUNNING) {
			r->handler->on_frame(r, &frame, r->arg);
		} else if (frame.type == WIRE_HELLO && frame.n == WIRE_VERSION) {
			r->state = REMOTE_RUNNING;
			loop_timer_stop(&r->timer);
			r->handler->on_hello(r, r->arg);
		} else {
			got = err_set(&err, ERR_PROTOCOL, 0,
				      frame.type == WIRE_HELLO
					      ? "the worker's launcher is of another version"
					      : "what answers isn't a session");
		}
		if (r->state == REMOTE_OVER)
			return;
	}
	if (got < 0) {
		err_wrap(&err, "Pod %s", r->pod);
		over(r, &err, 0);
	}
}

static void on_message(struct ws *ws, const struct ws_piece *piece, void *arg)
{
	struct remote *r = arg;
	struct str data = piece->data;
	(void)ws;
	if (piece->first) {
		uint8_t channel = data.len > 0 ? (uint8_t)data.p[0] : CHANNEL_NONE;
		r->channel = channel < CHANNEL_NONE ? (enum channel)channel : CHANNEL_NONE;
		if (data.len > 0) {
			data.p++;
			data.len--;
		}
	}
	if (data.len == 0)
		return;
	if (r->channel == CHANNEL_STDOUT)
		read_frames(r, data);
	else if (r->channel == CHANNEL_ERROR)
		buf_append_str(&r->status, data, NULL);
	else if (r->channel == CHANNEL_STDERR)
		buf_append_str(&r->words, data, NULL); /* what doesn't fit isn't for people */
}

static void on_drain(struct ws *ws, void *arg)
{
	struct remote *r = arg;
	(void)ws;
	r->handler->on_drain(r, r->arg);
}

static void on_close(struct ws *ws, const struct ws_closed *closed, void *arg)
{
	struct remote *r = arg;
	struct err err = ERR_INIT;
	int exit_status = 0;
	(void)ws;
	bool fine = r->status.len > 0 &&
		    remote_status_decode(buf_str(&r->status), &exit_status, &err) == 0;
	if (fine && r->state == REMOTE_RUNNING) {
		over(r, NULL, exit_status);
		return;
	}
	if (fine)
		err_set(&err, ERR_UNAVAILABLE, 0, "the session ended at once with status %d: %.*s",
			exit_status, STR_ARG(str_trim(buf_str(&r->words))));
	else if (r->status.len == 0 && closed->err)
		err = *closed->err;
	else if (r->status.len == 0)
		err_set(&err, ERR_UNAVAILABLE, 0, "closed with code %d: %.*s", closed->code,
			STR_ARG(closed->reason));
	if (r->state != REMOTE_RUNNING) {
		attempt_failed(r, &err);
		return;
	}
	err_wrap(&err, "the connection to Pod %s is lost", r->pod);
	over(r, &err, 0);
}

/* ---- going there ---- */

static void on_connected(struct ws *ws, const struct err *err, void *arg)
{
	static const struct ws_handler handler = {on_message, on_drain, on_close};
	struct remote *r = arg;
	if (err) {
		loop_timer_stop(&r->timer);
		attempt_failed(r, err);
		return;
	}
	r->ws = ws;
	r->state = REMOTE_GREETING;
	ws_set_handler(ws, &handler, r);
	ws_resume(ws);
}

static int exec_target(const struct remote *r, struct buf *out, struct err *err)
{
	if (buf_printf(out, err, "/api/v1") < 0 ||
	    http_path_append(out, err, "namespaces", r->opts.cluster->ns, "pods", r->pod, "exec",
			     NULL) < 0 ||
	    http_query_append(out, STR("command"), str_of(r->opts.launcher), err) < 0 ||
	    buf_printf(out, err, "&command=session&stdin=true&stdout=true&stderr=true") < 0)
		return -1;
	if (r->opts.resume &&
	    (buf_printf(out, err, "&command=--resume") < 0 ||
	     http_query_append(out, STR("command"), str_of(r->opts.resume), err) < 0))
		return -1;
	if (!r->opts.container)
		return 0;
	return http_query_append(out, STR("container"), str_of(r->opts.container), err);
}

static int connect_ws(struct remote *r, struct err *err)
{
	static const char *const protocols[] = {"v5.channel.k8s.io", NULL};
	const struct cluster *c = r->opts.cluster;
	struct buf target = BUF_INIT(4096);
	char *authorization;
	if (cluster_authorization(c, &authorization, err) < 0)
		return -1;
	int status = exec_target(r, &target, err);
	struct http_header header = {STR("Authorization"), str_of(authorization)};
	struct ws_request request = {
		.origin = {.host = c->host, .port = c->port, .tls = c->tls},
		.target = buf_str(&target),
		.headers = &header,
		.n_headers = 1,
		.protocols = protocols,
		.user_agent = "ipu-launcher/" PACKAGE_VERSION,
		.handshake_ms = ATTEMPT_MS,
		.opts = {.high_water_bytes = HIGH_BYTES},
	};
	if (status == 0)
		ws_connect_start(r->net, &r->scope, &request, on_connected, r);
	buf_done(&target);
	cluster_free_authorization(authorization);
	return status;
}

static void attempt(struct remote *r)
{
	struct err err = ERR_INIT;
	r->begun_ms = clock_mono_ms();
	int64_t end_ms = r->begun_ms + ATTEMPT_MS;
	wire_reader_done(&r->reader);
	wire_reader_init(&r->reader);
	buf_done(&r->status);
	buf_done(&r->words);
	r->state = REMOTE_CONNECTING;
	loop_timer_start_at(&r->timer, end_ms < r->opts.deadline_ms ? end_ms : r->opts.deadline_ms);
	if (connect_ws(r, &err) < 0) {
		loop_timer_stop(&r->timer);
		attempt_failed(r, &err);
	}
}

/* ---- for the owner ---- */

struct remote *remote_new(struct net *net, const struct remote_opts *opts,
			  const struct remote_handler *handler, void *arg)
{
	struct remote *r = xcalloc(1, sizeof(*r));
	*r = (struct remote){.net = net,
			     .opts = *opts,
			     .handler = handler,
			     .arg = arg,
			     .backoff = BACKOFF_INIT(RETRY_MS, RETRY_MAX_MS),
			     .out = BUF_INIT(OUT_BYTES),
			     .status = BUF_INIT(STATUS_BYTES),
			     .words = BUF_INIT(WORDS_BYTES)};
	r->pod = xstrdup(opts->host);
	scope_init(&r->scope);
	wire_reader_init(&r->reader);
	loop_timer_init(&r->timer, net_loop(net), on_timer, r);
	/* The first attempt's time is now, but not within this call. */
	loop_timer_start_in(&r->timer, 0);
	return r;
}

static void free_memory(void *p)
{
	struct remote *r = p;
	wire_reader_done(&r->reader);
	buf_done(&r->out);
	buf_done(&r->status);
	buf_done(&r->words);
	free(r->pod);
	free(r);
}

void remote_free(struct remote *r)
{
	if (!r)
		return;
	r->state = REMOTE_OVER;
	loop_timer_stop(&r->timer);
	scope_cancel(&r->scope);
	if (r->ws)
		ws_close(r->ws, WS_CODE_NORMAL, NULL);
	ws_free(r->ws);
	r->ws = NULL;
	loop_reap(net_loop(r->net), r, free_memory);
}

struct buf *remote_out(struct remote *r)
{
	return &r->out;
}

void remote_send(struct remote *r)
{
	static const char channel = CHANNEL_STDIN;
	while (r->out.len > 0) {
		size_t len = r->out.len < MESSAGE_BYTES ? r->out.len : MESSAGE_BYTES;
		struct str parts[] = {{&channel, 1}, {r->out.p, len}};
		/* A connection that is dead tells its story by on_close. */
		if (!r->ws || ws_send(r->ws, true, parts, 2, NULL) < 0) {
			buf_clear(&r->out);
			return;
		}
		buf_consume(&r->out, len);
	}
}

bool remote_is_full(const struct remote *r)
{
	return r->ws && ws_is_full(r->ws);
}

const char *remote_host(const struct remote *r)
{
	return r->opts.host;
}

struct net *remote_net(const struct remote *r)
{
	return r->net;
}
