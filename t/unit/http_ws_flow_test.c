/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open WebSockets: back-pressure and pauses, pings and deadlines, limits, peers that break the
 * rules, the ways to end, and freeing within every callback.
 */
#include "http_ws_rig.h"

/* ---- back-pressure ---- */

/* Megabytes both ways, with readers that pause. */
static void test_flow(void)
{
	size_t len = 20 << 20, sent = 0; /* more than the kernel takes */
	char *text = pattern(len);
	struct buf want = BUF_INIT(32 << 20);

	row_begin("flow");
	begin_server(NULL);
	open_both("/x");
	ws_pause(at_server.ws);
	while (sent < len && !ws_is_full(at_client.ws)) {
		const struct str part = {text + sent, len - sent < 50000 ? len - sent : 50000};
		ws_send(at_client.ws, true, &part, 1, NULL);
		sent += part.len;
		settle();
	}
	ok(sent < len, "it's full before all is sent");
	ok(ws_queued_bytes(at_client.ws) > (size_t)256 << 10, "over the high-water mark");
	is_uint(at_server.pieces, 0, "nothing comes while paused");
	while (sent < len) {
		const struct str part = {text + sent, len - sent < 50000 ? len - sent : 50000};
		ws_resume(at_server.ws);
		if (!PUMP(!ws_is_full(at_client.ws)))
			break;
		ws_send(at_client.ws, true, &part, 1, NULL);
		sent += part.len;
	}
	ok(at_client.drains > 0, "drained");
	for (size_t at = 0; at < len; at += 50000) {
		buf_append(&want, "b(", 2, NULL);
		buf_append(&want, text + at, len - at < 50000 ? len - at : 50000, NULL);
		buf_append(&want, ")", 1, NULL);
	}
	PUMP(at_server.text.len >= want.len);
	ok(str_eq(buf_str(&at_server.text), buf_str(&want)), "all came, in order");
	ok(at_server.pieces > len / 50000 * 2, "in pieces");
	free(text);
	buf_done(&want);
	end_rig();
	row_end();
}

/* ---- time ---- */

static void test_deadlines(void)
{
	row_begin("handshake");
	begin_raw();
	start("/x", NULL);
	got_request();
	clock_advance(29999);
	settle();
	is_uint(at_client.closes, 0, "it waits");
	clock_advance(2);
	ok(came(), "for 30 s");
	is_int(at_client.err.kind, ERR_TIMEOUT, "kind");
	end_rig();

	row_begin("pings");
	begin_raw();
	open_raw();
	clock_advance(30000);
	is_peer("ping()", "after 30 s of silence");
	raw_frame(WS_OP_PONG, true, STR_NULL);
	settle();
	clock_advance(29999);
	settle();
	is_uint(at_client.closes, 0, "a pong is life");
	clock_advance(1);
	is_peer("ping()ping()", "the next silence");
	clock_advance(29999);
	settle();
	is_uint(at_client.closes, 0, "30 s for an answer");
	clock_advance(1);
	ok(PUMP(at_client.closes), "and no longer");
	is_int(at_client.err.kind, ERR_TIMEOUT, "kind");
	is_int(at_client.code, WS_CODE_ABNORMAL, "without a Close");
	end_rig();
	row_end();
}

static void test_deadlines_of_ends(void)
{
	row_begin("no pings while paused");
	begin_raw();
	open_raw();
	ws_pause(at_client.ws);
	ws_pause(at_client.ws);
	clock_advance(300000);
	settle();
	is_uint(at_client.closes + peer.in.len, 0, "nothing is sent or judged");
	ws_resume(at_client.ws);
	settle();
	is_uint(at_client.closes + peer.in.len, 0, "time counts from the resume");
	clock_advance(30000);
	is_peer("ping()", "then it does");
	end_rig();

	row_begin("no answer to a Close");
	begin_raw();
	open_raw();
	ws_pause(at_client.ws);
	ws_close(at_client.ws, WS_CODE_GOING_AWAY, NULL);
	is_peer("close(1001)", "sent");
	raw_frame(WS_OP_BINARY, true, STR("too late"));
	settle();
	clock_advance(4999);
	settle();
	is_uint(at_client.closes, 0, "it waits");
	clock_advance(1);
	ok(PUMP(at_client.closes), "for 5 s");
	is_int(at_client.err.kind, ERR_TIMEOUT, "kind");
	is_text(&at_client, "", "what still came was dropped");
	end_rig();

	row_begin("stall");
	begin_raw();
	open_raw();
	net_conn_read_stop(peer.conn);
	char *text = pattern(4 << 20);
	const struct str part = {text, 4 << 20};
	ws_send(at_client.ws, true, &part, 1, NULL);
	free(text);
	settle();
	ws_pause(at_client.ws);
	clock_advance(60000);
	ok(PUMP(at_client.closes), "a peer that takes nothing is given up");
	is_int(at_client.err.kind, ERR_TIMEOUT, "kind");
	end_rig();
	row_end();
}

/* ---- limits, and peers that break the rules ---- */

static void test_output(void)
{
	char *text = pattern(1 << 20);
	const struct str part = {text, 1 << 20};
	struct err err = ERR_INIT;
	int n = 0;

	row_begin("output");
	begin_raw();
	client_opts.max_output_bytes = 5 << 20;
	open_raw();
	net_conn_read_stop(peer.conn);
	while (n < 64 && ws_send(at_client.ws, true, &part, 1, &err) == 0) {
		n++;
		settle();
	}
	is_int(err.kind, ERR_LIMIT, "has a limit");
	ok(n >= 4 && n < 64, "after %d MiB", n);
	/* Pings, and nobody who takes the pongs. */
	size_t before = ws_queued_bytes(at_client.ws);
	for (int i = 0; i < 1000; i++) {
		char ping[16];
		snprintf(ping, sizeof(ping), "%d", i);
		raw_frame(WS_OP_PING, true, str_of(ping));
	}
	raw_frame(WS_OP_BINARY, true, STR("end"));
	ok(PUMP(has_text(&at_client, "b(end)")), "pings are read");
	is_uint(ws_queued_bytes(at_client.ws), before, "and cost nothing while output waits");
	is_uint(at_client.closes, 0, "nor the connection");
	net_conn_read_start(peer.conn);
	PUMP(ws_queued_bytes(at_client.ws) == 0);
	ok(at_client.drains > 0, "drained");
	free(text);
	ws_close(at_client.ws, WS_CODE_NORMAL, NULL);
	/* The frames' payloads are masked: the last two are a pong and a Close. */
	PUMP(peer.in.len > (size_t)n << 20 && (uint8_t)peer.in.p[peer.in.len - 8] == 0x88);
	settle();
	size_t tail = 2 + 4 + 3 + 2 + 4 + 2;
	struct str last = {peer.in.p + peer.in.len - tail, tail};
	ok((size_t)n * ((1 << 20) + 14) + tail == peer.in.len, "one pong alone has come");
	buf_consume(&peer.in, peer.in.len - last.len);
	is_peer("pong(999)close(1000)", "the last ping's");
	end_rig();
	row_end();
}

static void test_breaches(void)
{
	static const struct {
		const char *name;
		struct str bytes;
		enum err_kind kind;
		const char *told;
	} rows[] = {
		{"reserved bit", STR("\xc1\x01x"), ERR_PROTOCOL, "close(1002)"},
		{"masked", STR("\x81\x81xxxxx"), ERR_PROTOCOL, "close(1002)"},
		{"no UTF-8", STR("\x81\x01\xff"), ERR_PROTOCOL, "close(1007)"},
		{"too big", STR("\x82\x7f\0\0\0\0\x7f\0\0\0"), ERR_LIMIT, "close(1009)"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		begin_raw();
		open_raw();
		at_client.free_at = i % 2 ? AT_CLOSE : AT_NEVER;
		net_conn_write(peer.conn, rows[i].bytes.p, rows[i].bytes.len, NULL);
		ok(PUMP(at_client.closes), "ends it");
		is_int(at_client.err.kind, rows[i].kind, "kind");
		is_int(at_client.code, WS_CODE_ABNORMAL, "without a Close of the peer's");
		is_peer(rows[i].told, "the peer is told");
		end_rig();
	}
	row_begin("end without a Close");
	begin_raw();
	open_raw();
	raw_frame(WS_OP_BINARY, false, STR("half"));
	net_conn_shutdown(peer.conn);
	ok(PUMP(at_client.closes), "ends it");
	is_int(at_client.err.kind, ERR_UNAVAILABLE, "kind");
	is_text(&at_client, "b(half", "the beginning was handed over");
	end_rig();
	row_end();
}

/* The peer says its last and goes while we are paused, and something of ours meets a closed door.
 */
static void test_last_words(void)
{
	char *text = pattern(100000);

	row_begin("last words");
	begin_raw();
	open_raw();
	ws_pause(at_client.ws);
	raw_frame(WS_OP_BINARY, true, (struct str){text, 100000});
	raw_frame(WS_OP_CLOSE, true, STR("\x03\xe8"));
	PUMP(net_conn_queued(peer.conn) == 0);
	/* With bytes of ours unread there, the end is a reset. */
	net_conn_read_stop(peer.conn);
	send_text(&at_client, "unread", NULL);
	settle();
	end_close(&peer);
	for (int i = 0; i < 20; i++) {
		send_text(&at_client, "to nobody", NULL);
		settle();
	}
	is_uint(at_client.closes, 0, "not told while paused");
	ws_resume(at_client.ws);
	ok(PUMP(at_client.closes), "told");
	is_int(at_client.code, 1000, "with the peer's Close");
	is_uint(at_client.text.len, 100003, "behind all that it had said");
	free(text);
	end_rig();
	row_end();
}

/* ---- freeing ---- */

static void test_free(void)
{
	static const enum moment moments[] = {AT_OPEN, AT_PIECE, AT_DRAIN, AT_CLOSE};

	for (size_t i = 0; i < 4; i++) {
		row_begin("free at %zu", i);
		begin_raw();
		at_client.free_at = moments[i];
		start("/x", v4);
		got_request();
		struct buf answer = answer_of(GOOD);
		net_conn_write(peer.conn, answer.p, answer.len, NULL);
		buf_done(&answer);
		came();
		if (moments[i] == AT_DRAIN) {
			char *text = pattern(2 << 20);
			const struct str part = {text, 2 << 20};
			ws_send(at_client.ws, true, &part, 1, NULL);
			free(text);
			PUMP(!at_client.ws);
		}
		raw_frame(WS_OP_BINARY, true, STR("a"));
		raw_frame(WS_OP_BINARY, true, STR("b"));
		raw_frame(WS_OP_CLOSE, true, STR_NULL);
		ok(PUMP(peer.eof || peer.errors), "the peer sees the end");
		ok(!at_client.ws, "freed");
		is_uint(at_client.closes, moments[i] == AT_CLOSE, "told of the end at most then");
		is_uint(at_client.pieces, i == 1 ? 1 : i == 3 ? 2 : 0, "pieces until then");
		end_rig();
	}
	row_begin("pause at a piece");
	begin_raw();
	open_raw();
	at_client.pause_at = AT_PIECE;
	raw_frame(WS_OP_BINARY, true, STR("a"));
	raw_frame(WS_OP_BINARY, true, STR("b"));
	PUMP(at_client.pieces == 1);
	settle();
	is_text(&at_client, "b(a)", "one comes");
	ws_resume(at_client.ws);
	is_text(&at_client, "b(a)", "not from within the resume");
	PUMP(at_client.pieces == 2);
	is_text(&at_client, "b(a)b(b)", "then the next");
	end_rig();
	row_begin("dead before it has a handler");
	begin_raw();
	at_client.pause_at = AT_OPEN;
	open_raw();
	ws_close(at_client.ws, WS_CODE_NORMAL, "\xff");
	end_close(&peer);
	ok(PUMP(at_client.closes), "told");
	end_rig();
	row_end();
}

int main(void)
{
	test_begin();
	test_flow();
	test_deadlines();
	test_deadlines_of_ends();
	test_output();
	test_breaches();
	test_last_words();
	test_free();
	test_end();
	return done_testing();
}
