/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rig of the WebSocket tests: ends that write down what happens to them, an HTTP server that
 * upgrades, a raw listener for the test to play the server with. Included once by each test.
 */
#ifndef IPU_T_UNIT_HTTP_WS_RIG_H
#define IPU_T_UNIT_HTTP_WS_RIG_H

#include "http_test.h"

#include "http/websocket.h"
#include "http/ws_codec.h"

static const char *const both_protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", NULL};
static const char *const v4[] = {"v4.channel.k8s.io", NULL};

/* ---- an end that writes down what happens to it ---- */

enum moment { AT_NEVER, AT_OPEN, AT_PIECE, AT_DRAIN, AT_CLOSE };

struct rec {
	struct ws *ws;
	struct op *op;
	struct buf text; /* "b(Hello)t(x)" */
	unsigned opens, pieces, drains, closes;
	int code;
	char reason[128];
	struct err err; /* of connecting, or of the end */
	enum moment free_at, pause_at;
	bool echo;
};
#define REC_INIT {.text = BUF_INIT(64 << 20)}

static inline void moment(struct rec *r, enum moment now)
{
	if (r->pause_at == now)
		ws_pause(r->ws);
	if (r->free_at != now)
		return;
	ws_free(r->ws);
	ws_free(r->ws);
	r->ws = NULL;
}

static inline void on_message(struct ws *ws, const struct ws_piece *piece, void *arg)
{
	struct rec *r = arg;

	r->pieces++;
	if (piece->first)
		buf_append(&r->text, piece->binary ? "b(" : "t(", 2, NULL);
	if (buf_append_str(&r->text, piece->data, NULL) < 0)
		bail_out("the record is full");
	if (piece->last)
		buf_append(&r->text, ")", 1, NULL);
	if (r->echo)
		ws_send(ws, piece->binary, &piece->data, 1, NULL);
	moment(r, AT_PIECE);
}

static inline void on_drain(struct ws *ws, void *arg)
{
	struct rec *r = arg;
	(void)ws;
	r->drains++;
	moment(r, AT_DRAIN);
}

static inline void on_close(struct ws *ws, const struct ws_closed *closed, void *arg)
{
	struct rec *r = arg;
	(void)ws;
	r->closes++;
	r->code = closed->code;
	snprintf(r->reason, sizeof(r->reason), "%.*s", STR_ARG(closed->reason));
	if (closed->err)
		r->err = *closed->err;
	moment(r, AT_CLOSE);
}

static const struct ws_handler recorder = {on_message, on_drain, on_close};

static inline void rec_take(struct rec *r, struct ws *ws)
{
	r->ws = ws;
	r->opens++;
	ws_set_handler(ws, &recorder, r);
	if (r->pause_at != AT_OPEN)
		ws_resume(ws);
	moment(r, AT_OPEN);
}

static inline void on_connected(struct ws *ws, const struct err *err, void *arg)
{
	struct rec *r = arg;

	if (ws) {
		rec_take(r, ws);
		return;
	}
	r->err = *err;
	r->closes++;
}

static inline void rec_done(struct rec *r)
{
	ws_free(r->ws);
	buf_done(&r->text);
	*r = (struct rec)REC_INIT;
}

static inline bool has_text(const struct rec *r, const char *want)
{
	return str_eqz(buf_str(&r->text), want);
}

static inline void is_text(const struct rec *r, const char *want, const char *what)
{
	is_mem(r->text.p ? r->text.p : "", r->text.len, want, strlen(want), "%s", what);
}

static inline int send_text(struct rec *r, const char *text, struct err *err)
{
	const struct str part = str_of(text);
	return ws_send(r->ws, true, &part, 1, err);
}

/* ---- the two rigs: an HTTP server that upgrades, a raw listener ---- */

static struct http_server *server;
static struct rec at_server = REC_INIT, at_client = REC_INIT;
static struct ws_opts server_opts, client_opts;
static struct err accept_err;
static char seen_header[64];
static struct http_exchange *held;

static inline void on_abort(struct http_exchange *ex, void *arg)
{
	(void)ex, (void)arg;
	held = NULL;
}

static inline void handle(struct http_exchange *ex, void *arg)
{
	const char *protocol;
	struct ws *ws;

	(void)arg;
	snprintf(seen_header, sizeof(seen_header), "%.*s",
		 STR_ARG(http_headers_get(ex->headers, "authorization")));
	if (str_eqz(ex->path, "/hold")) {
		held = ex;
		http_exchange_on_abort(ex, on_abort, NULL);
		return;
	}
	accept_err = (struct err)ERR_INIT;
	if (ws_check_upgrade(ex, str_eqz(ex->path, "/none") ? NULL : both_protocols, &protocol,
			     &accept_err) < 0 ||
	    ws_accept(ex, protocol, &server_opts, &ws, &accept_err) < 0) {
		http_reply_problem(ex, accept_err.code, "%s", accept_err.msg);
		return;
	}
	rec_take(&at_server, ws);
}

static struct end peer = END_INIT; /* of the raw listener */
static struct net_listener *listener;
static struct http_origin origin;

static inline void begin_server(struct tls_config *tls)
{
	struct err err = ERR_INIT;
	unsigned port;

	server = http_server_new(net, NULL);
	if (http_server_listen(server, "127.0.0.1:0", tls, handle, NULL, &port, &err) < 0)
		bail_out(err.msg);
	origin = (struct http_origin){.host = "127.0.0.1", .port = port};
	server_opts = client_opts = (struct ws_opts){0};
}

static inline void begin_raw(void)
{
	const struct net_listen_opts opts = {.addr = "127.0.0.1:0"};
	struct err err = ERR_INIT;

	if (net_listener_new(net, &opts, end_accepted, &peer, &listener, &err) < 0)
		bail_out(err.msg);
	origin = (struct http_origin){.host = "127.0.0.1", .port = net_listener_port(listener)};
	server_opts = client_opts = (struct ws_opts){0};
}

static inline void end_rig(void)
{
	op_cancel(at_client.op);
	rec_done(&at_client);
	rec_done(&at_server);
	http_server_free(server);
	server = NULL;
	net_listener_close(listener);
	listener = NULL;
	end_done(&peer);
	peer = (struct end)END_INIT;
	settle();
}

#define TOKEN "of-sixteen-bytes"

static inline void start(const char *target, const char *const *protocols)
{
	static const struct http_header headers[] = {HTTP_H("Authorization", "Bearer " TOKEN)};
	const struct ws_request req = {
		.origin = origin,
		.target = str_of(target),
		.headers = headers,
		.n_headers = 1,
		.protocols = protocols,
		.opts = client_opts,
	};
	at_client.op = ws_connect_start(net, NULL, &req, on_connected, &at_client);
}

/* The operation is over, so it mustn't be cancelled any more. */
static inline bool came(void)
{
	bool done = PUMP(at_client.opens || at_client.closes);
	at_client.op = NULL;
	return done;
}

static inline void open_both(const char *target)
{
	start(target, both_protocols);
	if (!came() || !PUMP(at_server.opens))
		bail_out(at_client.err.msg);
}

static inline bool got_request(void)
{
	return PUMP(peer.conn && peer.in.len > 4 && memmem(peer.in.p, peer.in.len, "\r\n\r\n", 4));
}

/* The answer to the request that came; "%s" in it becomes its Sec-WebSocket-Accept. */
static inline struct buf answer_of(const char *format)
{
	static const char field[] = "Sec-WebSocket-Key: ";
	struct buf out = BUF_INIT(1 << 20);
	char accept[WS_ACCEPT_SIZE];
	const char *key = memmem(peer.in.p, peer.in.len, field, sizeof(field) - 1);

	if (!key)
		bail_out("no key in the request");
	ws_accept_of((struct str){key + sizeof(field) - 1, WS_KEY_SIZE - 1}, accept);
	const char *at = strstr(format, "%s");
	if (at)
		buf_printf(&out, NULL, "%.*s%s%s", (int)(at - format), format, accept, at + 2);
	else
		buf_printf(&out, NULL, "%s", format);
	return out;
}

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\n"
#define GOOD                                                                                       \
	SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"         \
	       "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"

static inline void open_raw(void)
{
	start("/x", v4);
	got_request();
	struct buf answer = answer_of(GOOD);
	buf_clear(&peer.in);
	net_conn_write(peer.conn, answer.p, answer.len, NULL);
	buf_done(&answer);
	if (!came() || !at_client.ws)
		bail_out(at_client.err.msg);
}

static inline void raw_frame(enum ws_opcode opcode, bool fin, struct str payload)
{
	struct buf out = BUF_INIT(64 << 20);
	ws_write_frame(&out, WS_SERVER, opcode, fin, &payload, 1, NULL);
	net_conn_write(peer.conn, out.p, out.len, NULL);
	buf_done(&out);
}

/* What the raw peer has of the client's frames, read by a codec: "ping()close(1002)". */
static inline char *peer_frames(void)
{
	struct buf out = BUF_INIT(1 << 20);
	struct str s = buf_str(&peer.in);
	struct ws_event e = {.type = WS_EVENT_PING};
	struct ws_codec c;
	size_t used;

	ws_codec_init(&c, WS_SERVER, 0);
	while (e.type != WS_EVENT_MORE && ws_codec_feed(&c, s, &used, &e, NULL) == 0) {
		static const char *const names[] = {"", "", "ping", "pong", "close"};
		s.p += used;
		s.len -= used;
		if (e.type == WS_EVENT_CLOSE)
			buf_printf(&out, NULL, "close(%d)", e.code);
		else if (e.type == WS_EVENT_PIECE)
			buf_printf(&out, NULL, "(%zu)", e.piece.data.len);
		else if (e.type != WS_EVENT_MORE)
			buf_printf(&out, NULL, "%s(%.*s)", names[e.type], STR_ARG(e.control));
	}
	ws_codec_done(&c);
	buf_append(&out, "", 1, NULL);
	return buf_steal(&out, NULL);
}

static inline bool peer_has(const char *want)
{
	char *got = peer_frames();
	bool same = strcmp(got, want) == 0;
	free(got);
	return same;
}

static inline void is_peer(const char *want, const char *what)
{
	PUMP(peer_has(want));
	char *got = peer_frames();
	is_str(got, want, "%s", what);
	free(got);
}

#endif
