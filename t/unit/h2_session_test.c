/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/2 session without I/O: a client and a server talk through two buffers, a byte at a time
 * and at once; limits, floods, resets, GOAWAY, and memory that runs out. Uses core and h2.
 */
#include "tap.h"

#include "core/clock.h"
#include "core/fault.h"
#include "h2/session.h"

struct pair {
	struct h2_session *client, *server;
	size_t chunk; /* bytes that are fed at once */
	struct err client_err, server_err;
};

static void pair_open(struct pair *p, size_t chunk, const struct h2_limits *client,
		      const struct h2_limits *server)
{
	*p = (struct pair){.chunk = chunk};
	p->client = h2_session_new(H2_CLIENT, client);
	p->server = h2_session_new(H2_SERVER, server);
}

static void pair_close(struct pair *p)
{
	h2_session_free(p->client);
	h2_session_free(p->server);
}

/* Carries what one has to say to the other. Returns how many bytes it was. */
static size_t carry(struct h2_session *from, struct h2_session *to, size_t chunk, struct err *err)
{
	struct buf out = BUF_INIT((size_t)32 << 20);
	size_t len;

	h2_session_output(from, &out, out.limit, NULL);
	len = out.len;
	while (out.len > 0) {
		size_t n = out.len < chunk ? out.len : chunk;
		if (h2_session_feed(to, out.p, n, err) < 0)
			break;
		buf_consume(&out, n);
	}
	buf_done(&out);
	return len;
}

static void talk(struct pair *p)
{
	for (int i = 0; i < 1000; i++) {
		size_t n = carry(p->client, p->server, p->chunk, &p->server_err);
		n += carry(p->server, p->client, p->chunk, &p->client_err);
		if (n == 0)
			return;
	}
	fail("the two never come to rest");
}

/* The next event of that type, others are dropped. */
static bool await(struct h2_session *s, enum h2_event_type type, struct h2_event *ret)
{
	while (h2_session_next(s, ret))
		if (ret->type == type)
			return true;
	*ret = (struct h2_event){0};
	return false;
}

static int32_t ask(struct pair *p, struct str body)
{
	const struct h2_header headers[] = {
		{STR(":method"), STR("POST")}, {STR(":scheme"), STR("http")},
		{STR(":path"), STR("/a.B/C")}, {STR(":authority"), STR("localhost:1")},
		{STR("te"), STR("trailers")},  {STR("content-type"), STR("application/grpc")},
	};
	int32_t stream = -1;
	struct err err = ERR_INIT;

	if (h2_session_request(p->client, headers, 6, body, &stream, &err) < 0)
		return err.kind == ERR_BUSY ? -2 : -1;
	return stream;
}

static void answer(struct pair *p, int32_t stream, struct str body)
{
	const struct h2_header headers[] = {{STR(":status"), STR("200")},
					    {STR("content-type"), STR("application/grpc")}};
	const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}};

	is_int(h2_session_respond(p->server, stream, headers, 2, body, trailers, 1, NULL), 0,
	       "the server responds");
}

static void test_exchange(void)
{
	static const struct {
		size_t chunk, len;
	} rows[] = {{1, 0},           {1, 10},      {1, 40000},   {7, 100000},       {9, 3},
		    {16393, 4 << 20}, {1 << 20, 0}, {1 << 20, 1}, {1 << 20, 4 << 20}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair p;
		struct h2_event ev;
		char *body = malloc(rows[i].len + 1);
		memset(body, 'b', rows[i].len + 1);
		struct str text = {body, rows[i].len};
		row_begin("%zu bytes, %zu at once", rows[i].len, rows[i].chunk);
		pair_open(&p, rows[i].chunk, NULL, NULL);
		talk(&p);
		ok(await(p.client, H2_EVENT_SETTINGS, &ev), "the server's settings came");
		int32_t stream = ask(&p, text);
		ok(!h2_session_was_sent(p.client, stream), "nothing was sent yet");
		is_int(stream, 1, "the first stream");
		talk(&p);
		ok(h2_session_was_sent(p.client, stream), "then it was");
		ok(await(p.server, H2_EVENT_MESSAGE, &ev), "a request came");
		const struct h2_message *msg = h2_session_message(p.server, ev.stream);
		is_mem(msg->body.p ? msg->body.p : "", msg->body.len, text.p, text.len, "its body");
		struct str path = h2_header_get(msg->headers, msg->n_headers, ":path");
		is_mem(path.p, path.len, "/a.B/C", 6, "its path");
		ok(h2_header_get(msg->headers, msg->n_headers, "nope").p == NULL, "no such field");
		answer(&p, ev.stream, text);
		ok(h2_session_message(p.server, ev.stream) == NULL, "the request is gone then");
		talk(&p);
		ok(await(p.client, H2_EVENT_MESSAGE, &ev), "the response came");
		is_int(ev.stream, stream, "on its stream");
		msg = h2_session_message(p.client, stream);
		is_mem(msg->body.p ? msg->body.p : "", msg->body.len, text.p, text.len, "its body");
		is_uint(msg->n_trailers, 1, "its trailers");
		h2_session_release(p.client, stream);
		talk(&p);
		ok(!await(p.server, H2_EVENT_RESET, &ev), "the server hears of no reset");
		is_uint(h2_session_streams(p.client), 0, "the client has no stream left");
		is_uint(h2_session_streams(p.server), 0, "nor has the server");
		pair_close(&p);
		free(body);
	}
	row_end();
}

static void test_trailers_only(void)
{
	struct pair p;
	struct h2_event ev;
	const struct h2_header headers[] = {{STR(":status"), STR("200")},
					    {STR("content-type"), STR("application/grpc")},
					    {STR("grpc-status"), STR("5")}};

	pair_open(&p, 1, NULL, NULL);
	talk(&p);
	int32_t stream = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	h2_session_respond(p.server, ev.stream, headers, 3, STR_NULL, NULL, 0, NULL);
	talk(&p);
	ok(await(p.client, H2_EVENT_MESSAGE, &ev), "trailers only are a response");
	const struct h2_message *msg = h2_session_message(p.client, stream);
	is_uint(msg->n_headers, 3, "three fields");
	is_uint(msg->n_trailers, 0, "and no trailers");
	pair_close(&p);
}

/* A secret is spelt out each time; what isn't one shrinks to a byte or two. */
static void test_secrets(void)
{
	size_t bytes[2][3];

	for (int secret = 0; secret < 2; secret++) {
		struct pair p;
		const struct h2_header headers[] = {
			{STR(":method"), STR("POST"), false},
			{STR(":scheme"), STR("http"), false},
			{STR(":path"), STR("/"), false},
			{STR("x-key"), STR("0123456789012345678901234567890123456789"), secret},
		};
		pair_open(&p, 4096, NULL, NULL);
		talk(&p);
		for (int i = 0; i < 3; i++) {
			int32_t stream;
			h2_session_request(p.client, headers, 4, STR_NULL, &stream, NULL);
			bytes[secret][i] = carry(p.client, p.server, 4096, &p.server_err);
		}
		pair_close(&p);
	}
	ok(bytes[0][1] + 25 < bytes[0][0], "a field that isn't secret is sent once");
	is_uint(bytes[1][2], bytes[1][1], "a secret is never indexed");
	ok(bytes[1][2] > bytes[0][2] + 20, "and so is sent each time");
}

static void test_resets(void)
{
	struct pair p;
	struct h2_event ev;

	pair_open(&p, 1, NULL, NULL);
	talk(&p);
	int32_t stream = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	h2_session_reset(p.server, ev.stream, H2_REFUSED_STREAM);
	talk(&p);
	ok(await(p.client, H2_EVENT_RESET, &ev), "the server's reset is heard");
	ok(ev.by_peer && ev.code == H2_REFUSED_STREAM && ev.stream == stream, "with its code");
	is_uint(h2_session_streams(p.client), 0, "the stream is gone");

	stream = ask(&p, STR("x"));
	talk(&p);
	h2_session_reset(p.client, stream, H2_CANCEL);
	h2_session_reset(p.client, stream, H2_CANCEL);
	talk(&p);
	ok(await(p.server, H2_EVENT_MESSAGE, &ev), "the server had it");
	ok(await(p.server, H2_EVENT_RESET, &ev) && ev.code == H2_CANCEL, "then it's cancelled");
	ok(h2_session_message(p.server, ev.stream) == NULL, "and nothing is left of it");
	answer(&p, ev.stream, STR("too late"));
	talk(&p);
	ok(!await(p.client, H2_EVENT_MESSAGE, &ev), "a late answer goes nowhere");

	stream = ask(&p, STR("x"));
	h2_session_reset(p.client, stream, H2_CANCEL);
	talk(&p);
	ok(!await(p.server, H2_EVENT_MESSAGE, &ev), "cancelled before it was sent: never sent");
	is_int(p.client_err.kind, ERR_NONE, "the connection is sound");
	is_int(p.server_err.kind, ERR_NONE, "at both ends");
	pair_close(&p);
}

static void test_goaway(void)
{
	struct pair p;
	struct h2_event ev;

	pair_open(&p, 1, NULL, NULL);
	talk(&p);
	int32_t first = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	int32_t second = ask(&p, STR("y"));
	h2_session_goaway(p.server, H2_NO_ERROR);
	h2_session_goaway(p.server, H2_NO_ERROR);
	/* The GOAWAY crosses the second request. */
	struct buf request = BUF_INIT(4096);
	h2_session_output(p.client, &request, 4096, NULL);
	carry(p.server, p.client, 1, &p.client_err);
	ok(await(p.client, H2_EVENT_GOAWAY, &ev), "GOAWAY came");
	is_int(ev.last_stream, first, "with the last stream");
	ok(await(p.client, H2_EVENT_RESET, &ev), "the second stream is refused");
	ok(ev.stream == second && ev.code == H2_REFUSED_STREAM && !ev.by_peer, "by the GOAWAY");
	is_uint(h2_session_room(p.client), 0, "no more requests");
	is_int(ask(&p, STR("z")), -2, "which is said so");
	h2_session_feed(p.server, request.p, request.len, NULL);
	answer(&p, first, STR("done"));
	talk(&p);
	ok(await(p.client, H2_EVENT_MESSAGE, &ev) && ev.stream == first, "the first one finishes");
	h2_session_release(p.client, first);
	talk(&p);
	ok(h2_session_is_over(p.server), "the server is done");
	ok(h2_session_is_over(p.client), "the client too");
	buf_done(&request);
	pair_close(&p);
}

/* A GOAWAY that comes while a request is queued and not sent. */
static void test_goaway_unsent(void)
{
	struct pair p;
	struct h2_event ev;

	pair_open(&p, 4096, NULL, NULL);
	talk(&p);
	h2_session_goaway(p.server, H2_NO_ERROR);
	int32_t stream = ask(&p, STR("x"));
	carry(p.server, p.client, 4096, NULL);
	talk(&p);
	ok(await(p.client, H2_EVENT_RESET, &ev), "the request is given back");
	ok(ev.stream == stream && ev.code == H2_REFUSED_STREAM && !ev.by_peer, "as not processed");
	pair_close(&p);
}

static void test_room(void)
{
	struct pair p;
	struct h2_event ev;
	struct h2_limits limits = {.streams = 3};

	pair_open(&p, 4096, NULL, &limits);
	talk(&p);
	is_uint(h2_session_room(p.client), 3, "room as the server says");
	for (int i = 0; i < 3; i++)
		ok(ask(&p, STR("x")) > 0, "request %d", i);
	is_uint(h2_session_room(p.client), 0, "no room left");
	is_int(ask(&p, STR("x")), -2, "the fourth has to wait");
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	answer(&p, ev.stream, STR("x"));
	talk(&p);
	is_uint(h2_session_room(p.client), 1, "one is free again");
	pair_close(&p);
}

static void test_limits(void)
{
	static char big[9000];
	struct pair p;
	struct h2_event ev;
	struct h2_limits small_body = {.body_bytes = 1000};
	struct h2_limits small_sum = {.body_bytes = 5000, .connection_bytes = 6000};
	struct h2_limits small_head = {.header_bytes = 500};

	memset(big, 'x', sizeof(big));
	pair_open(&p, 100, &small_body, NULL);
	talk(&p);
	int32_t stream = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	answer(&p, ev.stream, (struct str){big, 1001});
	talk(&p);
	ok(await(p.client, H2_EVENT_RESET, &ev), "a body over the limit ends its stream");
	ok(!ev.by_peer && ev.code == H2_ENHANCE_YOUR_CALM && ev.stream == stream, "by our limit");
	has_str(ev.text, "limit", "in words");
	stream = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	answer(&p, ev.stream, (struct str){big, 1000});
	talk(&p);
	ok(await(p.client, H2_EVENT_MESSAGE, &ev) && ev.stream == stream,
	   "the next one, of just the limit, comes through");
	pair_close(&p);

	pair_open(&p, 100, NULL, &small_sum);
	talk(&p);
	int32_t one = ask(&p, (struct str){big, 4000}), two = ask(&p, (struct str){big, 4000});
	talk(&p);
	ok(await(p.server, H2_EVENT_MESSAGE, &ev) && ev.stream == one, "the first fits");
	ok(await(p.client, H2_EVENT_RESET, &ev) && ev.stream == two, "two of them don't");
	answer(&p, one, STR("ok"));
	two = ask(&p, (struct str){big, 4000});
	talk(&p);
	ok(await(p.server, H2_EVENT_MESSAGE, &ev) && ev.stream == two, "later it does");
	pair_close(&p);

	pair_open(&p, 100, &small_head, NULL);
	talk(&p);
	stream = ask(&p, STR("x"));
	talk(&p);
	await(p.server, H2_EVENT_MESSAGE, &ev);
	const struct h2_header wide[] = {{STR(":status"), STR("200")}, {STR("x"), {big, 600}}};
	h2_session_respond(p.server, ev.stream, wide, 2, STR_NULL, NULL, 0, NULL);
	talk(&p);
	ok(await(p.client, H2_EVENT_RESET, &ev), "too large a header block ends its stream");
	ok(!ev.by_peer && ev.code == H2_ENHANCE_YOUR_CALM && ev.stream == stream, "by our limit");
	is_int(p.client_err.kind, ERR_NONE, "the connection is sound");
	pair_close(&p);
}

/* Frames by hand: type, flags, stream, payload. */
static size_t frame(uint8_t *at, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
		    size_t len)
{
	uint8_t head[9] = {(uint8_t)(len >> 16),
			   (uint8_t)(len >> 8),
			   (uint8_t)len,
			   type,
			   flags,
			   (uint8_t)(stream >> 24),
			   (uint8_t)(stream >> 16),
			   (uint8_t)(stream >> 8),
			   (uint8_t)stream};
	memcpy(at, head, 9);
	if (len > 0)
		memcpy(at + 9, payload, len);
	return 9 + len;
}

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/* :method POST, :scheme http, :path /, :authority a, by HPACK's static table. */
static const uint8_t block[] = {0x83, 0x86, 0x84, 0x01, 0x01, 'a'};

static void test_floods(void)
{
	static const char *const names[] = {"rapid reset",   "PING",        "SETTINGS",
					    "empty DATA",    "PRIORITY",    "PING answers",
					    "WINDOW_UPDATE", "unknown type"};
	clock_freeze(1000, 1000);
	for (int kind = 0; kind < 8; kind++) {
		struct h2_limits limits = {.control_frames = 50, .streams = 1000};
		struct h2_session *s = h2_session_new(H2_SERVER, &limits);
		struct buf out = BUF_INIT(1 << 20);
		struct err err = ERR_INIT;
		uint8_t at[64];
		int rc = 0, n = 0;
		uint32_t stream = 1;
		row_begin("%s", names[kind]);
		h2_session_feed(s, preface, 24, NULL);
		h2_session_feed(s, at, frame(at, 4, 0, 0, NULL, 0), NULL);
		if (kind == 3)
			h2_session_feed(s, at, frame(at, 1, 4, 1, block, sizeof(block)), NULL);
		for (; n < 500 && rc == 0; n++) {
			size_t len = 0;
			switch (kind) {
			case 0:
				len = frame(at, 1, 5, stream, block, sizeof(block));
				len += frame(at + len, 3, 0, stream, "\0\0\0\10", 4);
				stream += 2;
				break;
			case 1:
				len = frame(at, 6, 0, 0, "12345678", 8);
				break;
			case 2:
				len = frame(at, 4, 0, 0, NULL, 0);
				break;
			case 3:
				len = frame(at, 0, 0, 1, NULL, 0);
				break;
			case 4:
				len = frame(at, 2, 0, 1, "\0\0\0\0\20", 5);
				break;
			case 5:
				len = frame(at, 6, 1, 0, "12345678", 8);
				break;
			case 6:
				len = frame(at, 8, 0, 0, "\0\0\0\1", 4);
				break;
			default:
				len = frame(at, 0x77, 0, 0, "12345678", 8);
				break;
			}
			rc = h2_session_feed(s, at, len, &err);
			buf_clear(&out);
			h2_session_output(s, &out, out.limit, NULL);
			if (n == 40)
				is_int(rc, 0, "forty of them are fine");
		}
		is_int(rc, -1, "a flood ends the connection");
		is_int(err.kind, ERR_LIMIT, "by a limit");
		ok(n <= 52, "after about fifty (%d)", n);
		buf_clear(&out);
		h2_session_output(s, &out, out.limit, NULL);
		is_int(h2_session_feed(s, at, 9, NULL), -1, "and it stays ended");
		h2_session_free(s);
		buf_done(&out);
	}
	row_end();
	clock_unfreeze();
}

static void test_slow_frames(void)
{
	clock_freeze(1000, 1000);
	row_begin("slowly");
	struct h2_limits limits = {.control_frames = 50};
	struct h2_session *s = h2_session_new(H2_SERVER, &limits);
	struct buf out = BUF_INIT(1 << 20);
	uint8_t at[64];
	int rc = 0;
	h2_session_feed(s, preface, 24, NULL);
	h2_session_feed(s, at, frame(at, 4, 0, 0, NULL, 0), NULL);
	for (int n = 0; n < 500 && rc == 0; n++) {
		rc = h2_session_feed(s, at, frame(at, 6, 0, 0, "12345678", 8), NULL);
		h2_session_output(s, &out, out.limit, NULL);
		buf_clear(&out);
		clock_advance(250);
	}
	is_int(rc, 0, "four PINGs a second may come for ever");
	h2_session_free(s);
	buf_done(&out);
	row_end();
	clock_unfreeze();
}

/* What the client has to say but for its last bytes, which stay in the buffer. */
static void carry_but(struct pair *p, size_t last, struct buf *ret_rest)
{
	buf_init(ret_rest, (size_t)1 << 20);
	h2_session_output(p->client, ret_rest, ret_rest->limit, NULL);
	is_int(h2_session_feed(p->server, ret_rest->p, ret_rest->len - last, NULL), 0, "taken");
	buf_consume(ret_rest, ret_rest->len - last);
}

static void test_late(void)
{
	static const char body[1000];
	static const struct {
		const char *name;
		size_t len, missing; /* of the request's last bytes */
		unsigned due_ms;     /* 0: never */
		bool has_head;
	} rows[] = {
		{"whole", 1000, 0, 0, true},
		{"without its last byte", 1000, 1, 30, true},
		{"without its body", 1000, 1009, 30, true},
		{"without the end of its head", 1000, 1010, 10, false},
	};

	clock_freeze(1000, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct h2_limits limits = {.head_ms = 10, .body_ms = 30};
		struct h2_event ev;
		struct buf rest;
		struct pair p;
		row_begin("a request %s", rows[i].name);
		pair_open(&p, SIZE_MAX, NULL, &limits);
		talk(&p);
		ask(&p, (struct str){body, rows[i].len});
		carry_but(&p, rows[i].missing, &rest);
		is_uint(h2_session_unfinished(p.server), rows[i].due_ms > 0, "unfinished");
		int64_t due_ms = h2_session_due_ms(p.server);
		ok(rows[i].due_ms
			   ? due_ms > clock_mono_ms() && due_ms <= clock_mono_ms() + rows[i].due_ms
			   : due_ms == INT64_MAX,
		   "due");
		clock_advance(rows[i].due_ms ? rows[i].due_ms - 1 : 60000);
		h2_session_expire(p.server);
		ok(!await(p.server, H2_EVENT_LATE, &ev), "not late before its time");
		clock_advance(1);
		h2_session_expire(p.server);
		is_int(await(p.server, H2_EVENT_LATE, &ev), rows[i].due_ms && rows[i].has_head,
		       "then it is");
		is_int(h2_session_due_ms(p.server), INT64_MAX, "once");
		is_uint(h2_session_unfinished(p.server), 0, "and isn't waited for");
		if (ev.stream) {
			const struct h2_message *m = h2_session_message(p.server, ev.stream);
			ok(m && str_eqz(h2_header_get(m->headers, m->n_headers, ":path"), "/a.B/C"),
			   "its head can be read");
			answer(&p, ev.stream, STR("too late"));
			carry(p.server, p.client, SIZE_MAX, NULL);
			ok(await(p.client, H2_EVENT_MESSAGE, &ev), "the client has an answer");
			is_uint(h2_session_streams(p.server), 0, "the stream is over");
		} else if (!rows[i].has_head) {
			carry(p.server, p.client, SIZE_MAX, NULL);
			ok(h2_session_is_over(p.server), "the connection is over");
			is_str(h2_session_reason(p.server),
			       "a request's head didn't arrive in time", "since");
			ok(await(p.client, H2_EVENT_GOAWAY, &ev), "the client hears of it");
			is_uint(ev.code, H2_ENHANCE_YOUR_CALM, "with this code");
		}
		is_int(h2_session_feed(p.server, rest.p, rest.len, NULL), 0, "what comes then");
		ok(rows[i].due_ms == 0 || !await(p.server, H2_EVENT_MESSAGE, &ev), "is nothing");
		buf_done(&rest);
		pair_close(&p);
	}
	row_end();
	clock_unfreeze();
}

/* It ends in time, is reset by its peer, or is over a limit: then nothing is late. */
static void test_not_late(void)
{
	static const char body[1000];

	clock_freeze(1000, 1000);
	for (int how = 0; how < 3; how++) {
		const struct h2_limits limits = {
			.head_ms = 10, .body_ms = 30, .body_bytes = how == 2 ? 9 : 0};
		struct h2_event ev;
		struct buf rest;
		struct pair p;
		row_begin("%s", how == 0 ? "in time" : how == 1 ? "reset" : "over a limit");
		pair_open(&p, SIZE_MAX, NULL, &limits);
		talk(&p);
		int32_t stream = ask(&p, (struct str){body, sizeof(body)});
		carry_but(&p, how == 1 ? 1009 : 1, &rest);
		clock_advance(29);
		if (how == 1) {
			h2_session_reset(p.client, stream, H2_CANCEL);
			talk(&p);
		} else if (how == 0) {
			h2_session_feed(p.server, rest.p, rest.len, NULL);
			ok(await(p.server, H2_EVENT_MESSAGE, &ev), "the request is there");
			is_int(h2_session_due_ms(p.server), INT64_MAX, "nothing is due");
		}
		clock_advance(60000);
		h2_session_expire(p.server);
		ok(!await(p.server, H2_EVENT_LATE, &ev), "nothing is late");
		is_uint(h2_session_unfinished(p.server), 0, "or waited for");
		buf_done(&rest);
		pair_close(&p);
	}
	row_end();
	clock_unfreeze();
}

static void test_breaches(void)
{
	static const struct {
		const char *name;
		enum h2_role role;
		struct str bytes;
	} rows[] = {
		{"HTTP/1.1 request", H2_SERVER, {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 26}},
		{"HTTP/1.1 answer", H2_CLIENT, {"HTTP/1.1 400 Bad Request\r\n\r\n", 28}},
		{"TLS record", H2_SERVER, {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11}},
		{"oversized frame",
		 H2_CLIENT,
		 {"\xff\xff\xff\x00\x00\x00\x00\x00\x01xxxxxxxxx", 18}},
		{"SETTINGS of a bad size", H2_CLIENT, {"\0\0\1\4\0\0\0\0\0x", 10}},
		{"DATA on stream 0", H2_CLIENT, {"\0\0\1\0\0\0\0\0\0x", 10}},
		{"PUSH_PROMISE", H2_CLIENT, {"\0\0\5\5\4\0\0\0\1\0\0\0\2\x88", 14}},
		{"broken HPACK", H2_CLIENT, {"\0\0\0\4\0\0\0\0\0\0\0\2\1\4\0\0\0\1\xff\xff", 20}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct h2_session *s = h2_session_new(rows[i].role, NULL);
		struct buf out = BUF_INIT(1 << 20);
		int rc = 0;
		row_begin("%s", rows[i].name);
		h2_session_output(s, &out, out.limit, NULL);
		for (size_t n = 0; n < rows[i].bytes.len && rc == 0; n++)
			rc = h2_session_feed(s, rows[i].bytes.p + n, 1, NULL);
		h2_session_output(s, &out, out.limit, NULL);
		ok(rc < 0 || h2_session_is_over(s), "the connection is over");
		ok(h2_session_reason(s)[0] != '\0', "with a reason: %s", h2_session_reason(s));
		h2_session_free(s);
		buf_done(&out);
	}
	row_end();
}

/* One whole exchange; whether it came to its end. */
static bool exchange(void)
{
	struct pair p;
	struct h2_event ev;
	bool done = false;

	pair_open(&p, 4096, NULL, NULL);
	const struct h2_header headers[] = {{STR(":status"), STR("200")}};
	const struct h2_header trailers[] = {{STR("grpc-status"), STR("0")}};
	talk(&p);
	int32_t stream = ask(&p, STR("question"));
	talk(&p);
	if (stream > 0 && await(p.server, H2_EVENT_MESSAGE, &ev)) {
		h2_session_respond(p.server, ev.stream, headers, 1, STR("answer"), trailers, 1,
				   NULL);
		talk(&p);
		done = await(p.client, H2_EVENT_MESSAGE, &ev);
		h2_session_release(p.client, stream);
		talk(&p);
	}
	pair_close(&p);
	return done;
}

static void test_memory(void)
{
	unsigned long total, failed = 0;

	fault_alloc_fail_at(0);
	ok(exchange(), "an exchange with memory enough");
	total = fault_alloc_count();
	for (unsigned long n = 1; n <= total; n++) {
		fault_alloc_fail_at(n);
		if (!exchange())
			failed++;
	}
	fault_alloc_fail_at(0);
	ok(total > 20, "it takes %lu allocations", total);
	ok(failed > total / 3, "without the n-th one it mostly fails (%lu), and never crashes",
	   failed);
}

int main(void)
{
	test_exchange();
	test_trailers_only();
	test_secrets();
	test_resets();
	test_goaway();
	test_goaway_unsent();
	test_room();
	test_limits();
	test_floods();
	test_slow_frames();
	test_late();
	test_not_late();
	test_breaches();
	test_memory();
	return done_testing();
}
