/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open WebSocket: pieces of messages in, frames out, pings, and the end. It owns its connection;
 * its memory goes by the reaper. Uses core/, loop/, net/.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "ws_impl.h"

#define DEFAULT_MESSAGE_BYTES ((uint64_t)16 << 20)
#define DEFAULT_PING_MS       30000
#define DEFAULT_PONG_MS       30000
#define DEFAULT_STALL_MS      60000
#define DEFAULT_CLOSE_MS      5000
#define DEFAULT_HIGH_BYTES    ((size_t)256 << 10)
#define DEFAULT_OUTPUT_BYTES  ((size_t)16 << 20)
#define CONTROL_ROOM          1024 /* for what isn't the owner's to send, beyond its limit */

struct ws {
	struct net_conn *net;
	struct loop *loop;
	struct ws_codec codec;
	struct ws_opts opts;
	char *protocol;
	const struct ws_handler *handler; /* NULL at first */
	void *arg;
	bool paused;
	bool freed;
	bool close_sent;
	bool over; /* how is in what follows; on_close has been called if told */
	bool told;
	int code; /* of the peer's Close */
	char reason[WS_CONTROL_BYTES];
	size_t reason_len;
	struct err why;  /* kind 0: in order */
	bool pong_waits; /* for room */
	uint8_t pong[WS_CONTROL_BYTES];
	size_t pong_len;
	struct loop_timer timer;
	struct loop_work tell;
	int64_t heard_ms; /* the last bytes of the peer's */
	int64_t ping_ms;  /* when the ping was sent that nothing has followed; 0: none */
	int64_t close_by_ms;
};

static void ws_reap(void *p)
{
	struct ws *ws = p;
	ws_codec_done(&ws->codec);
	free(ws->protocol);
	free(ws);
}

/* ---- the end ---- */

static void tell(struct ws *ws)
{
	const struct ws_closed closed = {
		.code = ws->code,
		.reason = {ws->reason, ws->reason_len},
		.err = ws->why.kind ? &ws->why : NULL,
	};

	if (!ws->over || ws->told || ws->freed || !ws->handler)
		return;
	ws->told = true;
	ws->handler->on_close(ws, &closed, ws->arg);
}

static void on_tell(struct loop_work *work, void *arg)
{
	(void)work;
	tell(arg);
}

/* From events of the connection and the timer only: tells at once. why NULL: in order. */
static void end(struct ws *ws, const struct err *why)
{
	if (ws->over)
		return;
	ws->over = true;
	if (why)
		ws->why = *why;
	loop_timer_stop(&ws->timer);
	net_conn_read_stop(ws->net);
	tell(ws);
}

static void lose(struct ws *ws, enum err_kind kind, const char *what)
{
	struct err err = ERR_INIT;
	err_set(&err, kind, 0, "%s: %s", net_conn_peer(ws->net), what);
	end(ws, &err);
}

/* ---- output ---- */

static int send_frame(struct ws *ws, enum ws_opcode opcode, const struct str *parts, size_t n,
		      struct err *err)
{
	struct buf *out = net_conn_write_begin(ws->net, err);

	if (!out)
		return -1;
	if (ws_write_frame(out, ws->codec.role, opcode, true, parts, n, err) < 0)
		return err_wrap(err, "output to %s", net_conn_peer(ws->net));
	net_conn_write_end(ws->net);
	return 0;
}

static void send_close(struct ws *ws, int code, struct str reason)
{
	if (ws->close_sent)
		return;
	ws->close_sent = true;
	ws->pong_waits = false;
	/* A connection that is dead tells so by itself. */
	struct buf *out = net_conn_write_begin(ws->net, NULL);
	if (out && ws_write_close(out, ws->codec.role, code, reason, NULL) == 0)
		net_conn_write_end(ws->net);
}

int ws_send(struct ws *ws, bool binary, const struct str *parts, size_t n_parts, struct err *err)
{
	size_t len = 0, queued = net_conn_queued(ws->net);

	if (ws->over || ws->close_sent)
		return err_set(err, ERR_UNAVAILABLE, 0, "%s: the WebSocket has been closed",
			       net_conn_peer(ws->net));
	for (size_t i = 0; i < n_parts; i++)
		len += parts[i].len;
	if (queued > ws->opts.max_output_bytes || len > ws->opts.max_output_bytes - queued)
		return err_set(err, ERR_LIMIT, 0, "%s: more than %zu bytes of output wait",
			       net_conn_peer(ws->net), ws->opts.max_output_bytes);
	return send_frame(ws, binary ? WS_OP_BINARY : WS_OP_TEXT, parts, n_parts, err);
}

bool ws_is_full(const struct ws *ws)
{
	return net_conn_is_full(ws->net);
}

size_t ws_queued_bytes(const struct ws *ws)
{
	return net_conn_queued(ws->net);
}

/* Of the pings of a peer that takes no output only the last is answered (RFC 6455, 5.5.3). */
static void answer_ping(struct ws *ws, struct str payload)
{
	if (ws->close_sent)
		return;
	if (!net_conn_is_full(ws->net)) {
		send_frame(ws, WS_OP_PONG, &payload, 1, NULL);
		return;
	}
	ws->pong_waits = true;
	ws->pong_len = payload.len;
	if (payload.len > 0)
		memcpy(ws->pong, payload.p, payload.len);
}

static void on_drain(struct net_conn *net, void *arg)
{
	struct ws *ws = arg;
	const struct str pong = {(const char *)ws->pong, ws->pong_len};

	(void)net;
	if (ws->pong_waits)
		send_frame(ws, WS_OP_PONG, &pong, 1, NULL);
	ws->pong_waits = false;
	if (!ws->close_sent && !ws->over && ws->handler && ws->handler->on_drain)
		ws->handler->on_drain(ws, ws->arg);
}

/* ---- time ---- */

static bool pings(const struct ws *ws)
{
	return !ws->paused && !ws->close_sent;
}

static int64_t next_ms(const struct ws *ws)
{
	if (ws->over)
		return INT64_MAX;
	if (ws->close_sent)
		return ws->close_by_ms;
	if (!pings(ws))
		return INT64_MAX;
	return ws->ping_ms ? ws->ping_ms + ws->opts.pong_ms : ws->heard_ms + ws->opts.ping_ms;
}

/* What comes moves the times that the timer looks at when it fires, not the timer. */
static void arm(struct ws *ws)
{
	int64_t at_ms = next_ms(ws);
	if (at_ms == INT64_MAX)
		loop_timer_stop(&ws->timer);
	else if (!loop_timer_active(&ws->timer) || ws->timer.at_ms > at_ms)
		loop_timer_start_at(&ws->timer, at_ms);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct ws *ws = arg;
	int64_t now_ms = clock_mono_ms();

	(void)timer;
	/* A peer that takes output slowly can't have seen our Close yet; one that takes none is the
	 * stall time-out's. */
	if (ws->close_sent && net_conn_queued(ws->net) > 0)
		ws->close_by_ms = now_ms + ws->opts.close_ms;
	if (next_ms(ws) > now_ms) {
		arm(ws);
	} else if (ws->close_sent) {
		lose(ws, ERR_TIMEOUT, "no answer to our Close");
	} else if (ws->ping_ms) {
		lose(ws, ERR_TIMEOUT, "no answer to a ping: the peer has gone");
	} else {
		ws->ping_ms = now_ms;
		send_frame(ws, WS_OP_PING, NULL, 0, NULL);
		arm(ws);
	}
}

static void heard(struct ws *ws)
{
	ws->heard_ms = clock_mono_ms();
	ws->ping_ms = 0;
}

/* ---- input ---- */

/* The peer broke the rules: it's told, and nothing of it is read any more (RFC 6455, 7.1.7). */
static void refuse(struct ws *ws, const struct err *why)
{
	struct err err = *why;

	log_debug("websocket", net_conn_peer(ws->net), "%s", why->msg);
	send_close(ws, (int)ws->codec.failure_code, STR_NULL);
	err_wrap(&err, "%s", net_conn_peer(ws->net));
	end(ws, &err);
}

static void closed_by_peer(struct ws *ws, const struct ws_event *event)
{
	ws->code = event->code;
	ws->reason_len = event->control.len;
	if (event->control.len > 0)
		memcpy(ws->reason, event->control.p, event->control.len);
	send_close(ws, event->code, STR_NULL);
	end(ws, NULL);
}

static void act(struct ws *ws, const struct ws_event *event)
{
	if (event->type == WS_EVENT_PING)
		answer_ping(ws, event->control);
	else if (event->type == WS_EVENT_CLOSE)
		closed_by_peer(ws, event);
	else if (event->type == WS_EVENT_PIECE && !ws->close_sent)
		ws->handler->on_message(ws, &event->piece, ws->arg);
}

static size_t on_data(struct net_conn *net, const char *p, size_t len, void *arg)
{
	struct ws *ws = arg;
	struct str s = {p, len};

	(void)net;
	heard(ws);
	while (!ws->freed && !ws->over && (!ws->paused || ws->close_sent)) {
		struct err err = ERR_INIT;
		struct ws_event event;
		size_t used;

		if (ws_codec_feed(&ws->codec, s, &used, &event, &err) < 0) {
			refuse(ws, &err);
			break;
		}
		s.p += used;
		s.len -= used;
		if (event.type == WS_EVENT_MORE)
			break;
		act(ws, &event);
	}
	return ws->freed || ws->over ? len : len - s.len;
}

static void on_eof(struct net_conn *net, void *arg)
{
	(void)net;
	lose(arg, ERR_UNAVAILABLE, "the peer ended the connection without a Close");
}

static void on_error(struct net_conn *net, const struct err *why, void *arg)
{
	struct ws *ws = arg;
	struct err err = *why;

	if (err.kind == ERR_IO)
		err.kind = ERR_UNAVAILABLE;
	err_wrap(&err, "%s", net_conn_peer(net));
	end(ws, &err);
}

/* ---- the owner's side ---- */

static void set_defaults(struct ws_opts *o)
{
	if (o->max_message_bytes == 0)
		o->max_message_bytes = DEFAULT_MESSAGE_BYTES;
	if (o->ping_ms == 0)
		o->ping_ms = DEFAULT_PING_MS;
	if (o->pong_ms == 0)
		o->pong_ms = DEFAULT_PONG_MS;
	if (o->stall_ms == 0)
		o->stall_ms = DEFAULT_STALL_MS;
	if (o->close_ms == 0)
		o->close_ms = DEFAULT_CLOSE_MS;
	if (o->high_water_bytes == 0)
		o->high_water_bytes = DEFAULT_HIGH_BYTES;
	if (o->max_output_bytes == 0)
		o->max_output_bytes = DEFAULT_OUTPUT_BYTES;
}

struct ws *ws_new(struct net_conn *net, enum ws_role role, const char *protocol,
		  const struct ws_opts *opts)
{
	static const struct net_conn_handler handler = {
		.on_data = on_data, .on_eof = on_eof, .on_error = on_error, .on_drain = on_drain};
	struct ws *ws = xcalloc(1, sizeof(*ws));
	struct ws_opts *o = &ws->opts;

	if (opts)
		*o = *opts;
	set_defaults(o);
	ws->net = net;
	ws->loop = net_conn_loop(net);
	ws->protocol = xstrdup(protocol);
	ws->paused = true;
	ws->code = WS_CODE_ABNORMAL;
	ws_codec_init(&ws->codec, role, o->max_message_bytes);
	loop_timer_init(&ws->timer, ws->loop, on_timer, ws);
	loop_work_init(&ws->tell, ws->loop, on_tell, ws);
	net_conn_read_stop(net);
	net_conn_read_first(net);
	/* Frames' heads come on top of what ws_send counts. */
	net_conn_set_marks(net, o->high_water_bytes / 4, o->high_water_bytes,
			   o->max_output_bytes + 2 * (size_t)CONTROL_ROOM);
	net_conn_set_timeouts(net, 0, o->stall_ms);
	net_conn_set_handler(net, &handler, ws);
	heard(ws);
	return ws;
}

void ws_set_handler(struct ws *ws, const struct ws_handler *handler, void *arg)
{
	ws->handler = handler;
	ws->arg = arg;
	if (ws->over && !ws->told)
		loop_work_post(&ws->tell);
}

void ws_pause(struct ws *ws)
{
	if (ws->paused || ws->freed)
		return;
	ws->paused = true;
	if (ws->over || ws->close_sent)
		return;
	net_conn_read_stop(ws->net);
	arm(ws);
}

void ws_resume(struct ws *ws)
{
	if (!ws->paused || ws->freed)
		return;
	ws->paused = false;
	if (ws->over || ws->close_sent)
		return;
	heard(ws);
	net_conn_read_start(ws->net);
	arm(ws);
}

void ws_close(struct ws *ws, enum ws_code code, const char *reason)
{
	struct str text = str_of(reason);

	if (ws->freed || ws->over || ws->close_sent)
		return;
	send_close(ws, (int)code, str_is_utf8(text) ? text : STR_NULL);
	ws->close_by_ms = clock_mono_ms() + ws->opts.close_ms;
	net_conn_read_start(ws->net);
	arm(ws);
}

void ws_free(struct ws *ws)
{
	if (!ws || ws->freed)
		return;
	ws->freed = true;
	loop_timer_stop(&ws->timer);
	loop_work_cancel(&ws->tell);
	if (ws->close_sent)
		net_conn_finish(ws->net, ws->opts.close_ms);
	else
		net_conn_close(ws->net);
	loop_reap(ws->loop, ws, ws_reap);
}

const char *ws_protocol(const struct ws *ws)
{
	return ws->protocol;
}

const char *ws_peer(const struct ws *ws)
{
	return net_conn_peer(ws->net);
}
