/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSockets' handshakes: what both sides send, what each refuses, bytes that come one by one,
 * and cancelling at every step. The other side is ours or a raw end.
 */
#include "http_ws_rig.h"

/* ---- both sides ours ---- */

static void test_echo(struct tls_config *for_server, struct tls_config *for_client)
{
	row_begin(for_server ? "over TLS" : "plain");
	begin_server(for_server);
	origin.tls = for_client;
	at_server.echo = true;
	open_both("/x?command=sh");
	is_str(seen_header, "Bearer " TOKEN, "the caller's fields are sent");
	is_str(ws_protocol(at_client.ws), "v5.channel.k8s.io", "the client's subprotocol");
	is_str(ws_protocol(at_server.ws), "v5.channel.k8s.io", "the server's subprotocol");
	const struct str parts[] = {STR("\1"), STR("Hello")};
	is_int(ws_send(at_client.ws, true, parts, 2, NULL), 0, "sent");
	is_int(ws_send(at_client.ws, false, NULL, 0, NULL), 0, "an empty one is sent");
	ok(PUMP(has_text(&at_client, "b(\1Hello)t()")), "both came back");
	ws_close(at_client.ws, WS_CODE_NORMAL, "bye");
	ws_close(at_client.ws, WS_CODE_INTERNAL, "again");
	is_int(send_text(&at_client, "x", NULL), -1, "nothing is sent behind a Close");
	ok(PUMP(at_client.closes && at_server.closes), "both are told of the end");
	is_int(at_server.code, 1000, "the server has the code");
	is_str(at_server.reason, "bye", "and the reason");
	is_int(at_client.code, 1000, "the client has it back");
	is_int(at_client.err.kind, ERR_NONE, "without an error");
	is_int(at_server.err.kind, ERR_NONE, "at the server too");
	settle();
	is_uint(at_client.closes + at_server.closes, 2, "once");
	end_rig();
	row_end();
}

static void test_outlives_server(void)
{
	row_begin("server's end");
	begin_server(NULL);
	at_server.echo = true;
	open_both("/x");
	struct http_server_stats stats;
	http_server_stats(server, &stats);
	is_uint(stats.connections, 0, "the server has let it go");
	is_uint(stats.exchanges, 0, "the exchange too");
	http_server_free(server);
	server = NULL;
	settle();
	send_text(&at_client, "still there", NULL);
	ok(PUMP(has_text(&at_client, "b(still there)")), "the WebSocket lives on");
	end_rig();
	row_end();
}

/* ---- what a client refuses ---- */

static const struct {
	const char *name, *answer;
	enum err_kind kind;
	int code;
	const char *words;
} answers[] = {
	{"a Kubernetes Status",
	 "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n"
	 "{\"kind\":\"Status\",\"message\":\"pods \\\"x\\\" is forbidden: no\"}    ",
	 ERR_DENIED, 403, "GET /x: 403 Forbidden: pods \"x\" is forbidden: no"},
	{"a Status with our token",
	 "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n"
	 "{\"message\":\"not for " TOKEN "\"}",
	 ERR_DENIED, 403, "GET /x: 403 Forbidden: not for"},
	{"text with our token",
	 "HTTP/1.1 403 Forbidden\r\nContent-Length: 24\r\n\r\nnot for " TOKEN, ERR_DENIED, 403,
	 "GET /x: 403 Forbidden: not for"},
	{"text with any token",
	 "HTTP/1.1 403 Forbidden\r\nContent-Length: 18\r\n\r\nhas Bearer another", ERR_DENIED, 403,
	 "GET /x: 403 Forbidden: has"},
	{"plain text", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nno such\r\n",
	 ERR_NOT_FOUND, 404, "404 Not Found: no such"},
	{"busy", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
	 ERR_BUSY, 429, "429"},
	{"until the end", "HTTP/1.1 500 X\r\n\r\nended", ERR_INTERNAL, 500,
	 "500 Internal Server Error: ended"},
	{"success", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ERR_PROTOCOL, 200, "200 OK"},
	{"no HTTP", "SSH-2.0-x\r\n", ERR_PROTOCOL, 0, "GET /x: "},
	{"a wrong accept",
	 SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
	 ERR_PROTOCOL, 0, "Accept"},
	{"no accept", SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", ERR_PROTOCOL, 0,
	 "Accept"},
	{"another protocol",
	 SWITCH "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
	 ERR_PROTOCOL, 0, "another protocol"},
	{"no Connection", SWITCH "Upgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
	 ERR_PROTOCOL, 0, "Connection"},
	{"no subprotocol",
	 SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
	 ERR_PROTOCOL, 0, "none of the subprotocols"},
	{"a subprotocol that wasn't offered",
	 SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
		"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
	 ERR_PROTOCOL, 0, "none of the subprotocols"},
	{"an extension",
	 SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
		"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n"
		"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
	 ERR_PROTOCOL, 0, "extension"},
};

static void test_answers(void)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		row_begin("%s", answers[i].name);
		begin_raw();
		start("/x?secret", v4);
		got_request();
		struct buf answer = answer_of(answers[i].answer);
		for (size_t j = 0; j < answer.len && !at_client.closes; j++) {
			net_conn_write(peer.conn, answer.p + j, 1, NULL);
			settle();
		}
		net_conn_shutdown(peer.conn);
		buf_done(&answer);
		ok(came() && !at_client.ws, "refused");
		is_int(at_client.err.kind, answers[i].kind, "kind");
		is_int(at_client.err.code, answers[i].code, "code");
		has_str(at_client.err.msg, answers[i].words, "message");
		ok(!strstr(at_client.err.msg, "secret"), "without the query");
		ok(!strstr(at_client.err.msg, TOKEN) && !strstr(at_client.err.msg, "Bearer"),
		   "without a token");
		if (answers[i].code == 429)
			is_uint(at_client.err.retry_after_ms, 3000, "when to come back");
		end_rig();
	}
	row_end();
}

static void test_large_refusal(void)
{
	char text[2000];

	row_begin("endless refusal");
	begin_raw();
	start("/x", NULL);
	got_request();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	raw_send(&peer, "HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 100 && !at_client.closes; i++) {
		raw_send(&peer, "7cf\r\n");
		raw_send(&peer, text);
		raw_send(&peer, "\r\n");
		settle();
	}
	ok(came(), "it ends at the limit");
	is_int(at_client.err.code, 503, "with the status");
	is_int(at_client.err.kind, ERR_UNAVAILABLE, "and its kind");
	end_rig();
	row_end();
}

/* The frames that follow the head are read, however both were cut. */
static void test_bytes(void)
{
	static const char frames[] = "\x01\x03Hel\x89\x01p\x80\x02lo\x82\x01z\x88\x02\x03\xe8";

	for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
		row_begin(one_by_one ? "one byte at a time" : "all at once");
		begin_raw();
		start("/x", v4);
		got_request();
		struct buf bytes = answer_of(GOOD);
		buf_clear(&peer.in);
		buf_append(&bytes, frames, sizeof(frames) - 1, NULL);
		for (size_t i = 0; i < bytes.len; i++) {
			net_conn_write(peer.conn, bytes.p + i, 1, NULL);
			if (one_by_one)
				settle();
		}
		buf_done(&bytes);
		ok(came() && at_client.opens, "open");
		ok(PUMP(at_client.closes), "and closed by the peer");
		is_text(&at_client, "t(Hello)b(z)", "with all that it said");
		is_int(at_client.code, 1000, "and its code");
		is_peer("pong(p)close(1000)", "pong and Close were sent");
		end_rig();
	}
	row_end();
}

/* ---- requests that can't be made ---- */

static void test_bad_requests(void)
{
	static const char *const bad_protocols[] = {"a b", NULL};
	static const struct http_header own[] = {HTTP_H("Sec-WebSocket-Key", "x")};
	static const struct http_header broken[] = {HTTP_H("X", "a\r\nY: b")};
	static const struct {
		const char *name;
		struct ws_request req;
	} rows[] = {
		{"no host", {.origin = {.port = 1}, .target = STR("/")}},
		{"no port", {.origin = {.host = "x"}, .target = STR("/")}},
		{"bad target", {.origin = {.host = "127.0.0.1", .port = 1}, .target = STR("a b")}},
		{"no token",
		 {.origin = {.host = "127.0.0.1", .port = 1},
		  .target = STR("/"),
		  .protocols = bad_protocols}},
		{"a field of the handshake",
		 {.origin = {.host = "127.0.0.1", .port = 1},
		  .target = STR("/"),
		  .headers = own,
		  .n_headers = 1}},
		{"a broken field",
		 {.origin = {.host = "127.0.0.1", .port = 1},
		  .target = STR("/"),
		  .headers = broken,
		  .n_headers = 1}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		at_client.op = ws_connect_start(net, NULL, &rows[i].req, on_connected, &at_client);
		is_uint(at_client.closes, 0, "not told at once");
		ok(came(), "told");
		is_int(at_client.err.kind, ERR_INVALID, "kind");
		rec_done(&at_client);
	}
	row_begin("refused connection");
	begin_raw();
	net_listener_close(listener);
	listener = NULL;
	settle();
	start("/x", NULL);
	ok(came(), "told");
	is_int(at_client.err.kind, ERR_UNAVAILABLE, "kind");
	ok(!at_client.err.maybe_applied, "nothing was sent");
	end_rig();
	row_begin("closed without an answer");
	begin_raw();
	start("/x", NULL);
	got_request();
	end_close(&peer);
	ok(came(), "told");
	is_int(at_client.err.kind, ERR_UNAVAILABLE, "kind");
	ok(at_client.err.maybe_applied, "the request had been sent");
	end_rig();
	row_end();
}

/* ---- what a server refuses ---- */

#define ASK                                                                                        \
	"GET /x HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"
#define V4  "Sec-WebSocket-Protocol: foo,v4.channel.k8s.io\r\n"

static void test_requests(void)
{
	static const struct {
		const char *name, *request, *want;
	} rows[] = {
		{"good", ASK KEY V13 V4 "\r\n",
		 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		 "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
		 "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"},
		{"no upgrade", "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 "},
		{"another upgrade",
		 "GET /x HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		 "HTTP/1.1 400 "},
		{"POST",
		 "POST /x HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		 "Content-Length: 0\r\n" KEY V13 V4 "\r\n",
		 "HTTP/1.1 405 "},
		{"HTTP/1.0",
		 "GET /x HTTP/1.0\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" KEY
			 V13 V4 "\r\n",
		 "HTTP/1.1 400 "},
		{"version 8", ASK KEY "Sec-WebSocket-Version: 8\r\n" V4 "\r\n", "HTTP/1.1 426 "},
		{"no version", ASK KEY V4 "\r\n", "HTTP/1.1 426 "},
		{"no key", ASK V13 V4 "\r\n", "HTTP/1.1 400 "},
		{"a short key", ASK "Sec-WebSocket-Key: eA==\r\n" V13 V4 "\r\n", "HTTP/1.1 400 "},
		{"two keys", ASK KEY KEY V13 V4 "\r\n", "HTTP/1.1 400 "},
		{"no subprotocol", ASK KEY V13 "\r\n", "HTTP/1.1 400 "},
		{"others' subprotocol", ASK KEY V13 "Sec-WebSocket-Protocol: soap\r\n\r\n",
		 "HTTP/1.1 400 "},
		{"a request behind it", ASK KEY V13 V4 "\r\nGET /y HTTP/1.1\r\n", "HTTP/1.1 101 "},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct end raw;
		row_begin("%s", rows[i].name);
		begin_server(NULL);
		raw_open(&raw, origin.port, NULL);
		raw_send(&raw, rows[i].request);
		raw_wait(&raw, strlen(rows[i].want));
		is_mem(raw.in.p,
		       raw.in.len < strlen(rows[i].want) ? raw.in.len : strlen(rows[i].want),
		       rows[i].want, strlen(rows[i].want), "answer");
		if (!strncmp(rows[i].want, "HTTP/1.1 101", 12))
			ok(PUMP(at_server.opens), "open");
		else
			is_uint(at_server.opens, 0, "not open");
		end_done(&raw);
		end_rig();
	}
	/* What comes behind an upgrade can only be frames: those of HTTP aren't any. */
	row_begin("HTTP behind an upgrade");
	struct end raw;
	begin_server(NULL);
	raw_open(&raw, origin.port, NULL);
	raw_send(&raw, ASK KEY V13 V4 "\r\nGET /y HTTP/1.1\r\n\r\n");
	ok(PUMP(at_server.closes), "closed");
	is_int(at_server.err.kind, ERR_PROTOCOL, "as a breach of the protocol");
	end_done(&raw);
	end_rig();
	row_end();
}

/* Another request before or behind it makes the upgrade impossible; the exchange is answered. */
static void test_pipelined(void)
{
	struct end raw;
	struct ws *ws;

	row_begin("pipelined");
	begin_server(NULL);
	raw_open(&raw, origin.port, NULL);
	raw_send(&raw, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n" ASK KEY V13 V4 "\r\n");
	PUMP(held && accept_err.kind);
	is_int(accept_err.code, 400, "behind another request it's refused");
	http_reply(held, 200, NULL, NULL, 0, STR("first"));
	held = NULL;
	static const char second[] = "HTTP/1.1 400 ";
	ok(PUMP(raw.in.len > 0 && memmem(raw.in.p, raw.in.len, second, sizeof(second) - 1)),
	   "both are answered");
	end_done(&raw);
	raw_open(&raw, origin.port, NULL);
	raw_send(
		&raw,
		"GET /hold HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" KEY
			V13 V4 "\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n");
	PUMP(held);
	settle();
	is_int(ws_accept(held, "v4.channel.k8s.io", NULL, &ws, &accept_err), -1,
	       "with one behind it, it's refused");
	is_int(accept_err.code, 400, "as the peer's mistake");
	http_reply(held, 400, NULL, NULL, 0, STR(""));
	held = NULL;
	end_done(&raw);
	end_rig();
	row_end();
}

/* ---- cancelling ---- */

static void test_cancel(void)
{
	row_begin("cancel");
	for (int step = 0; step < 4; step++) {
		begin_raw();
		start("/x", v4);
		if (step > 0)
			got_request();
		if (step > 1) {
			struct buf answer = answer_of(GOOD);
			net_conn_write(peer.conn, answer.p, step == 2 ? 5 : answer.len - 1, NULL);
			buf_done(&answer);
			settle();
		}
		op_cancel(at_client.op);
		op_cancel(at_client.op);
		at_client.op = NULL;
		settle();
		is_uint(at_client.opens + at_client.closes, 0, "at step %d", step);
		end_rig();
	}
	begin_raw();
	struct scope scope;
	scope_init(&scope);
	const struct ws_request req = {.origin = origin, .target = STR("/")};
	ws_connect_start(net, &scope, &req, on_connected, &at_client);
	scope_cancel(&scope);
	settle();
	is_uint(at_client.opens + at_client.closes, 0, "with its scope");
	const struct ws_request bad = {.origin = origin, .target = STR("")};
	op_cancel(ws_connect_start(net, NULL, &bad, on_connected, &at_client));
	settle();
	is_uint(at_client.opens + at_client.closes, 0, "one that was refused and not told");
	end_rig();
	row_end();
}

int main(void)
{
	struct test_tls tls;

	test_begin();
	test_tls_init(&tls);
	test_echo(NULL, NULL);
	test_echo(tls.for_server, tls.for_client);
	test_outlives_server();
	test_answers();
	test_large_refusal();
	test_bytes();
	test_bad_requests();
	test_requests();
	test_pipelined();
	test_cancel();
	test_tls_done(&tls);
	test_end();
	return done_testing();
}
