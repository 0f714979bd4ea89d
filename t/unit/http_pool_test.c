/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's pool and its time: kept connections and stale ones, the bounds of pool and queue,
 * and every deadline, by a clock that the test moves.
 */
#include "http_client_rig.h"

/* ---- kept connections ---- */

static void test_stale(void)
{
	static const struct {
		enum http_method method;
		const char *want;
		bool again, idempotent;
	} rows[] = {
		{HTTP_METHOD_GET, "<200>.", true, false},
		{HTTP_METHOD_HEAD, "<200>.", true, false},
		{HTTP_METHOD_PUT, "!unavailable maybe", false, false},
		{HTTP_METHOD_DELETE, "!unavailable maybe", false, false},
		{HTTP_METHOD_POST, "!unavailable maybe", false, false},
		{HTTP_METHOD_POST, "<200>.", true, true},
		{HTTP_METHOD_PATCH, "!unavailable maybe", false, false},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		row_begin("%s", http_method_name(rows[i].method));
		begin(NULL, NULL);
		warm_up(0);
		struct http_request req = request(rows[i].method);
		req.idempotent = rows[i].idempotent;
		rec_start(&r, &req);
		got_request(0);
		end_close(&ends[0]);
		if (rows[i].again) {
			ok(got_request(1), "goes again on another connection");
			answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		}
		PUMP(r.dones);
		settle();
		CLEANUP_FREE char *got = rec_text(&r);
		is_str(got, rows[i].want, "ends");
		is_uint(n_ends, rows[i].again ? 2 : 1, "connections");
		is_uint(stats().retried, rows[i].again, "retried");
		end();
		buf_done(&r.text);
		row_end();
	}
}

static void test_stale_limits(void)
{
	struct rec r = REC_INIT;
	begin(NULL, NULL);
	warm_up(0);
	struct http_request req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got_request(0);
	end_close(&ends[0]);
	got_request(1);
	end_close(&ends[1]);
	PUMP(r.dones);
	settle();
	CLEANUP_FREE char *once = rec_text(&r);
	is_str(once, "!unavailable maybe", "retried once, not twice");
	is_uint(n_ends, 2, "two connections");
	end();
	buf_done(&r.text);

	begin(NULL, NULL);
	warm_up(0);
	req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got_request(0);
	raw_send(&ends[0], "H");
	settle();
	end_close(&ends[0]);
	PUMP(r.dones == 2);
	CLEANUP_FREE char *begun = rec_text(&r);
	is_str(begun, "!unavailable maybe", "not when the answer had begun");
	end();
	buf_done(&r.text);

	/* A kept connection whose end is seen in time isn't used at all. */
	begin(NULL, NULL);
	warm_up(0);
	end_close(&ends[0]);
	PUMP(stats().connections == 0);
	warm_up(1);
	is_uint(stats().retried, 0, "nothing to retry");
	end();
}

static void test_idle_time(void)
{
	const struct http_client_config config = {.idle_ms = 5000};
	begin(&config, NULL);
	warm_up(0);
	clock_advance(4999);
	settle();
	is_uint(stats().idle, 1, "kept so long");
	clock_advance(1);
	ok(raw_wait_eof(&ends[0]), "and no longer");
	warm_up(1);
	http_client_drop_idle(client);
	settle();
	is_uint(stats().connections, 0, "dropped on demand");
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got_request(2);
	http_client_drop_idle(client);
	answer(2, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r.dones);
	settle();
	CLEANUP_FREE char *got = rec_text(&r);
	is_str(got, "<200>.", "a running call isn't disturbed");
	is_uint(stats().connections, 0, "but its connection isn't kept");
	end();
	buf_done(&r.text);
}

/* ---- the pool ---- */

static void test_pool(void)
{
	const struct http_client_config config = {
		.max_unary = 2, .max_streaming = 1, .max_queued = 4};
	struct rec r[8];
	struct http_request req;
	begin(&config, NULL);
	for (int i = 0; i < 8; i++)
		r[i] = (struct rec)REC_INIT;
	req = request(HTTP_METHOD_GET);
	req.streaming = true;
	rec_start(&r[0], &req);
	got_request(0);
	rec_start(&r[1], &req);
	settle();
	is_uint(n_ends, 1, "one stream at a time");
	req.streaming = false;
	for (int i = 2; i < 6; i++)
		rec_start(&r[i], &req);
	got_request(1);
	got_request(2);
	settle();
	is_uint(n_ends, 3, "two others beside it");
	is_uint(stats().queued, 3, "the rest waits");
	is_uint(stats().calls, 6, "six in all");
	answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[2].dones || r[3].dones);
	ok(got_request(1), "the next one on the connection that came free");
	answer(2, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
	ok(got_request(3), "or on a new one in the place of one that closed");
	answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	answer(3, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[2].dones && r[3].dones && r[4].dones && r[5].dones);
	is_uint(r[1].dones, 0, "the second stream still waits");
	answer(0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[0].dones);
	PUMP(stats().queued == 0);
	settle();
	is_uint(stats().queued, 0, "and goes then");
	is_uint(n_ends, 4, "over a kept connection");
	for (int i = 0; i < 8; i++)
		buf_done(&r[i].text);
	end();
}

/* Urgent calls pass by those that wait, and by those that hang. */
static void test_urgent(void)
{
	const struct http_client_config config = {.max_unary = 1, .max_urgent = 1};
	struct rec r[4];
	struct http_request req;

	begin(&config, NULL);
	for (int i = 0; i < 4; i++)
		r[i] = (struct rec)REC_INIT;
	req = request(HTTP_METHOD_GET);
	rec_start(&r[0], &req);
	rec_start(&r[1], &req);
	got_request(0);
	req.urgent = true;
	rec_start(&r[2], &req);
	rec_start(&r[3], &req);
	ok(got_request(1), "an urgent call has a connection of its own");
	settle();
	is_uint(n_ends, 2, "one");
	is_uint(stats().queued, 2, "others wait: one of each kind");
	answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[2].dones);
	ok(got_request(1), "which the next urgent one gets");
	answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[3].dones);
	settle();
	is_uint(r[0].dones + r[1].dones, 0, "while the ordinary ones wait");
	answer(0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r[0].dones);
	settle();
	is_uint(stats().queued, 0, "these share what is kept");
	for (int i = 0; i < 4; i++)
		buf_done(&r[i].text);
	end();
}

static void test_full_queue(void)
{
	const struct http_client_config config = {.max_unary = 1, .max_queued = 2};
	struct rec r[4];
	begin(&config, NULL);
	struct http_request req = request(HTTP_METHOD_GET);
	for (int i = 0; i < 4; i++) {
		r[i] = (struct rec)REC_INIT;
		rec_start(&r[i], &req);
		if (i == 0)
			got_request(0);
	}
	PUMP(r[3].dones);
	CLEANUP_FREE char *got = rec_text(&r[3]);
	is_str(got, "!busy", "more than may wait is refused: %s", r[3].err.msg);
	is_uint(r[0].dones + r[1].dones + r[2].dones, 0, "the others aren't");
	end();
	is_uint(r[0].dones + r[1].dones + r[2].dones, 0, "freeing the client doesn't call back");
	for (int i = 0; i < 4; i++)
		buf_done(&r[i].text);
}

static void test_cannot_connect(void)
{
	struct rec r[3];
	begin(NULL, NULL);
	net_listener_close(listener);
	settle();
	struct http_request req = request(HTTP_METHOD_POST);
	for (int i = 0; i < 3; i++) {
		r[i] = (struct rec)REC_INIT;
		rec_start(&r[i], &req);
	}
	for (int i = 0; i < 3; i++) {
		PUMP(r[i].dones);
		CLEANUP_FREE char *got = rec_text(&r[i]);
		is_str(got, "!unavailable", "refused: %s", r[i].err.msg);
		buf_done(&r[i].text);
	}
	is_uint(stats().connections, 0, "nothing is left");
	http_client_free(client);
	settle();
}

/* ---- time ---- */

static void test_deadlines(void)
{
	static const struct {
		const char *name, *in;
		unsigned connect_ms, first_byte_ms, total_ms, idle_ms;
		int64_t ms;
		const char *want;
	} rows[] = {
		{"no answer", "", 0, 3000, 0, 0, 3000, "!timeout maybe"},
		{"no answer, by default", "", 0, 0, 0, 0, 30000, "!timeout maybe"},
		{"half a head", "HTTP/1.1 2", 0, 3000, 0, 0, 3000, "!timeout maybe"},
		{"only 1xx", "HTTP/1.1 100 C\r\n\r\n", 0, 3000, 0, 0, 3000, "!timeout maybe"},
		{"silence", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", 0, 0, 0, 2000, 2000,
		 "<200>a!timeout maybe"},
		{"in all", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", 0, 0, 2500, 0, 2500,
		 "<200>a!timeout maybe"},
		{"in all, by default", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", 0, 0, 0,
		 3600000, 60000, "<200>a!timeout maybe"},
		{"in all, before an answer", "", 0, 0, 2500, 0, 2500, "!timeout maybe"},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		row_begin("%s", rows[i].name);
		begin(NULL, NULL);
		struct http_request req = request(HTTP_METHOD_GET);
		req.connect_ms = rows[i].connect_ms;
		req.first_byte_ms = rows[i].first_byte_ms;
		req.total_ms = rows[i].total_ms;
		req.idle_ms = rows[i].idle_ms;
		rec_start(&r, &req);
		got_request(0);
		raw_send(&ends[0], rows[i].in);
		settle();
		clock_advance(rows[i].ms - 1);
		settle();
		is_uint(r.dones, 0, "not before");
		clock_advance(1);
		PUMP(r.dones);
		CLEANUP_FREE char *got = rec_text(&r);
		is_str(got, rows[i].want, "ended: %s", r.err.msg);
		ok(raw_wait_eof(&ends[0]), "the connection is closed");
		end();
		buf_done(&r.text);
		row_end();
	}
}

static void test_connect_deadline(struct test_tls *tls)
{
	const struct http_client_config config = {.max_unary = 1};
	struct rec r[3];
	/* TLS towards one that says nothing: the connection never becomes one. */
	begin(&config, NULL);
	origin.tls = tls->for_client;
	for (int i = 0; i < 3; i++) {
		struct http_request req = request(HTTP_METHOD_POST);
		r[i] = (struct rec)REC_INIT;
		req.connect_ms = 2000 + 1000 * (unsigned)i;
		rec_start(&r[i], &req);
	}
	PUMP(n_ends == 1 && ends[0].in.len > 0);
	for (int i = 0; i < 3; i++) {
		clock_advance(i == 0 ? 1999 : 999);
		settle();
		is_uint(r[i].dones, 0, "call %d waits until its own time", i);
		clock_advance(1);
		PUMP(r[i].dones);
		CLEANUP_FREE char *got = rec_text(&r[i]);
		is_str(got, "!timeout", "then ends: %s", r[i].err.msg);
	}
	for (int i = 0; i < 3; i++)
		buf_done(&r[i].text);
	end();
}

/* A stream may last, as long as something comes. */
static void test_stream_time(void)
{
	struct rec r = REC_INIT;
	begin(NULL, NULL);
	struct http_request req = request(HTTP_METHOD_GET);
	req.streaming = true;
	req.idle_ms = 60000;
	rec_start(&r, &req);
	got_request(0);
	raw_send(&ends[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		size_t before = r.text.len;
		raw_send(&ends[0], "1\r\na\r\n");
		if (!PUMP(r.text.len > before))
			break;
		clock_advance(59999);
		settle();
	}
	is_uint(r.dones, 0, "100 minutes, and a byte each");
	is_uint(r.text.len, 105, "all came");
	r.pause_at = AT_BODY;
	raw_send(&ends[0], "1\r\nb\r\n");
	PUMP(r.text.len == 106);
	clock_advance(3600000);
	settle();
	is_uint(r.dones, 0, "the time stands still while it's paused");
	r.pause_at = AT_NEVER;
	http_call_resume(r.call);
	settle();
	clock_advance(59999);
	settle();
	is_uint(r.dones, 0, "and counts from the resume");
	clock_advance(1);
	ok(PUMP(r.dones), "silent for too long");
	is_int(r.err.kind, ERR_TIMEOUT, "is a time-out: %s", r.err.msg);
	end();
	buf_done(&r.text);
}

int main(void)
{
	struct test_tls tls;
	test_begin();
	test_tls_init(&tls);
	test_stale();
	test_stale_limits();
	test_idle_time();
	test_pool();
	test_urgent();
	test_full_queue();
	test_cannot_connect();
	test_deadlines();
	test_connect_deadline(&tls);
	test_stream_time();
	test_tls_done(&tls);
	test_end();
	return done_testing();
}
