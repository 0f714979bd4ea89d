/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's longer stories: streams and their back-pressure, peers that don't read or go away,
 * and the graceful end.
 */
#include "core/fault.h"
#include "http_server_rig.h"

/* A peer that sends requests and reads no answers makes the server stop reading, not grow. */
static void test_deaf_peer(void)
{
	static const char request[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n";
	struct end e;
	char body[1000];
	size_t sent = 0;
	begin(NULL);
	raw_open(&e, port, NULL);
	net_conn_read_stop(e.conn);
	memset(body, 'x', sizeof(body));
	unsigned before = 0, still = 0;
	while (still < 50 && sent < 200000) {
		if (net_conn_queued(e.conn) < 100000) {
			net_conn_write(e.conn, request, sizeof(request) - 1, NULL);
			net_conn_write(e.conn, body, sizeof(body), NULL);
			sent++;
		}
		loop_turn(loop, 0);
		still = n_called == before ? still + 1 : 0;
		before = n_called;
	}
	ok(n_called < sent, "the server stopped taking requests: %u of %zu", n_called, sent);
	unsigned stopped_at = n_called;
	net_conn_read_start(e.conn);
	PUMP(n_called == sent);
	is_uint(n_called, sent, "and took the rest when answers were read (from %u)", stopped_at);
	ok(PUMP(e.in.len ==
		sent * (sizeof("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") - 1 + 1000)),
	   "all answers came");
	end_done(&e);
	end();
}

/* ---- streams and aborts ---- */

static void test_stream(void)
{
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	ok(!http_reply_write(held[0], STR("abc")), "below the mark");
	ok(!http_reply_write(held[0], STR("")), "nothing");
	settle();
	ok(!http_reply_write(held[0], STR("0123456789")), "still below");
	settle();
	http_reply_end(held[0]);
	static const char want[] =
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n" HELLO;
	raw_wait(&e, sizeof(want) - 1);
	CLEANUP_FREE char *got = raw_text(&e);
	is_str(got, want, "chunks, then the next answer");
	end_done(&e);

	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	PUMP(n_held == 2);
	http_reply_write(held[1], STR("abc"));
	http_reply_end(held[1]);
	ok(raw_wait_eof(&e), "HTTP/1.0: ends with the connection");
	CLEANUP_FREE char *old = raw_text(&e);
	is_str(old, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nabc",
	       "without chunks");
	end_done(&e);

	raw_open(&e, port, NULL);
	raw_send(&e, "HEAD /stream HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 3);
	http_reply_write(held[2], STR("abc"));
	http_reply_end(held[2]);
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
				   "Transfer-Encoding: chunked\r\n\r\n" HELLO;
	raw_wait(&e, sizeof(head) - 1);
	settle();
	CLEANUP_FREE char *none = raw_text(&e);
	is_str(none, head, "HEAD: no body");
	is_uint(n_aborted, 0, "nothing was aborted");
	end_done(&e);
	end();
}

/* An answer that ends with the connection, or says that it does, has nothing behind it. */
static void test_nothing_behind(void)
{
	static const char get[] = "GET /hello HTTP/1.1\r\n" H "\r\n";
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
		     "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	PUMP(n_held == 1);
	settle();
	is_uint(n_called, 1, "HTTP/1.0: the second waits");
	http_reply_end(held[0]);
	ok(raw_wait_eof(&e), "closed behind the stream");
	is_uint(n_called, 1, "without it");
	end_done(&e);
	end();

	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	http_server_stop(server, 1000, NULL, NULL);
	settle();
	http_reply_begin(held[0], 200, NULL, NULL, 0);
	raw_send(&e, get);
	settle();
	is_uint(n_called, 1, "stopping: none is taken behind the last one");
	http_reply_end(held[0]);
	ok(raw_wait_eof(&e), "closed");
	CLEANUP_FREE char *got = raw_text(&e);
	is_str(got,
	       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
	       "as it said");
	end_done(&e);
	end();

	/* Broken off, and the peer goes in the same moment. */
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\nGET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 2);
	net_conn_close(e.conn);
	http_reply_abort(held[0]);
	PUMP(stats().connections == 0);
	is_uint(n_aborted, 1, "only the other one is told");
	is_uint(stats().exchanges, 0, "none is left");
	e.conn = NULL;
	end_done(&e);
	end();
}

static void test_stream_back_pressure(void)
{
	const struct http_server_config config = {.high_water_bytes = 100000};
	char *piece = pattern(50000);
	struct end e;
	size_t written = 0;
	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.0\r\n\r\n");
	PUMP(n_held == 1);
	net_conn_read_stop(e.conn);
	bool above = false;
	for (int i = 0; i < 1000 && !above; i++) {
		above = http_reply_write(held[0], (struct str){piece, 50000});
		written += 50000;
		settle();
	}
	ok(above, "the mark is reached after %zu bytes", written);
	settle();
	is_uint(n_drained, 0, "no drain while the peer doesn't read");
	net_conn_read_start(e.conn);
	ok(PUMP(n_drained == 1), "a drain when it does");
	http_reply_end(held[0]);
	ok(raw_wait_eof(&e), "the end");
	const char *body = e.in.p ? memmem(e.in.p, e.in.len, "\r\n\r\n", 4) : NULL;
	bool same = body && e.in.len - (size_t)(body + 4 - e.in.p) == written;
	for (size_t at = 0; same && at < written; at += 50000)
		same = memcmp(body + 4 + at, piece, 50000) == 0;
	ok(same, "every byte came");
	end_done(&e);
	free(piece);
	end();
}

static void test_heedless_producer(void)
{
	const struct http_server_config config = {.max_output_bytes = 1000000};
	char *piece = pattern(100000);
	struct end e;
	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	net_conn_read_stop(e.conn);
	for (int i = 0; i < 1000 && held[0]; i++) {
		http_reply_write(held[0], (struct str){piece, 100000});
		settle();
	}
	is_uint(n_aborted, 1, "who writes on and on is aborted");
	is_uint(stats().connections, 0, "the connection is gone");
	end_done(&e);
	free(piece);
	end();
}

/* What was broken off has no end: a peer that saw one would take a part for the whole. */
static void test_broken_off(void)
{
	const struct http_server_config config = {.max_output_bytes = 1000};
	char *piece = pattern(2000);
	struct end e;

	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	http_reply_write(held[0], STR("abc"));
	ok(http_reply_write(held[0], (struct str){piece, 2000}), "more than may wait");
	http_reply_end(held[0]);
	ok(raw_wait_eof(&e), "the connection ends");
	CLEANUP_FREE char *got = raw_text(&e);
	ok(!strstr(got, "\r\n0\r\n"), "without the answer's end");
	is_uint(n_aborted, 0, "who has ended it isn't told");
	is_uint(stats().exchanges, 0, "none is left");
	end_done(&e);
	free(piece);
	end();
}

static int fetched; /* the status; -1: an error, 0: nothing yet */

static void on_fetched(void *arg, const struct http_response *response, const struct err *err)
{
	(void)arg;
	fetched = err ? -1 : response->head->status;
}

static void test_broken_off_h2(void)
{
	static const char *const alpn[] = {"h2", NULL};
	const struct http_server_config config = {.max_output_bytes = 1000};
	const struct http_client_config cc = {.h2 = &http_h2};
	struct http_request req = {.method = HTTP_METHOD_GET, .target = STR("/stream")};
	struct tls_config *ours, *theirs;
	char *piece = pattern(2000);
	struct test_tls tls;
	struct err err = ERR_INIT;

	test_tls_init(&tls);
	const struct tls_server_opts so = {.cert_pem = str_of(tls.server->cert_pem),
					   .key_pem = str_of(tls.server->key_pem),
					   .alpn = alpn};
	const struct tls_client_opts co = {.ca_pem = str_of(tls.ca->cert_pem), .alpn = alpn};
	begin(&config);
	if (tls_config_new_server(&so, &ours, &err) < 0 ||
	    tls_config_new_client(&co, &theirs, &err) < 0 ||
	    http_server_listen(server, "127.0.0.1:0", ours, route, NULL, &port, &err) < 0)
		bail_out(err.msg);
	struct http_client *client = http_client_new(net, &cc);
	req.origin = (struct http_origin){.host = "127.0.0.1", .port = port, .tls = theirs};
	http_fetch_start(client, &req, on_fetched, NULL, NULL);
	PUMP(n_held == 1);
	http_reply_write(held[0], STR("abc"));
	ok(http_reply_write(held[0], (struct str){piece, 2000}), "HTTP/2: more than may wait");
	http_reply_end(held[0]);
	ok(PUMP(fetched) && fetched == -1, "the peer sees an answer without an end");
	is_uint(n_aborted, 0, "who has ended it isn't told");
	http_client_free(client);
	end();
	tls_config_unref(ours);
	tls_config_unref(theirs);
	test_tls_done(&tls);
	free(piece);
}

/* No memory for the end of an answer, or for handing it to the connection. */
static void test_no_memory(void)
{
	unsigned closed = 0;

	for (unsigned n = 1; n <= 4; n++) {
		struct end e;
		begin(NULL);
		raw_open(&e, port, NULL);
		raw_send(&e, "GET /stream HTTP/1.1\r\n" H "\r\n");
		PUMP(n_held == 1);
		settle();
		fault_alloc_fail_at(n);
		http_reply_end(held[0]);
		fault_alloc_fail_at(0);
		settle();
		CLEANUP_FREE char *got = raw_text(&e);
		closed += e.eof || e.errors;
		ok(e.eof || e.errors || strstr(got, "0\r\n\r\n"), "it has an end (%u)", n);
		end_done(&e);
		end();
	}
	ok(closed > 0, "that of the connection where there's no other (%u)", closed);

	/* One of three answers that go out together. */
	char *large = pattern(2000);
	for (unsigned n = 1; n <= 4; n++) {
		struct end e;
		begin(NULL);
		raw_open(&e, port, NULL);
		for (unsigned i = 0; i < 3; i++)
			raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\n");
		PUMP(n_held == 3);
		http_reply(held[2], 200, NULL, NULL, 0, STR("third"));
		settle();
		http_reply(held[0], 200, NULL, NULL, 0, STR("first"));
		fault_alloc_fail_at(n);
		http_reply(held[1], 200, NULL, NULL, 0, (struct str){large, 2000});
		fault_alloc_fail_at(0);
		settle();
		CLEANUP_FREE char *got = raw_text(&e);
		ok(!strstr(got, "third") || strstr(got, "HTTP/1.1 503") ||
			   memmem(got, strlen(got), large, 2000),
		   "no answer takes another's place (%u)", n);
		end_done(&e);
		end();
	}
	free(large);
}

static void test_aborts(void)
{
	static const char *const requests[] = {
		"GET /late HTTP/1.1\r\n" H "\r\n",
		"GET /stream HTTP/1.1\r\n" H "\r\n",
		"GET /late HTTP/1.1\r\n" H "\r\nGET /late HTTP/1.1\r\n" H "\r\n",
	};
	static const unsigned n[] = {1, 1, 2};
	for (size_t i = 0; i < 3; i++) {
		struct end e;
		begin(NULL);
		raw_open(&e, port, NULL);
		raw_send(&e, requests[i]);
		PUMP(n_held == n[i]);
		is_uint(stats().exchanges, n[i], "open");
		end_done(&e);
		PUMP(n_aborted == n[i]);
		is_uint(n_aborted, n[i], "the peer goes: aborted (%zu)", i);
		is_uint(stats().connections, 0, "gone");
		is_uint(stats().exchanges, 0, "nothing is left");
		end();
		is_uint(n_aborted, n[i], "once");
	}
	/* The server goes first. */
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, requests[2]);
	PUMP(n_held == 2);
	http_server_free(server);
	is_uint(n_aborted, 2, "freeing the server aborts");
	settle();
	end_done(&e);

	/* The handler breaks off. */
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, requests[1]);
	PUMP(n_held == 1);
	http_reply_write(held[0], STR("abc"));
	settle();
	http_reply_abort(held[0]);
	ok(raw_wait_eof(&e), "breaking off closes");
	is_uint(n_aborted, 0, "without telling the one who did it");
	CLEANUP_FREE char *got = raw_text(&e);
	ok(!strstr(got, "\r\n0\r\n"), "and without a last chunk");
	end_done(&e);
	end();
}

static void test_write_stall(void)
{
	const struct http_server_config config = {.write_ms = 4000, .high_water_bytes = 10000};
	char *piece = pattern(100000);
	struct end e;
	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /stream HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	net_conn_read_stop(e.conn);
	for (int i = 0; i < 1000; i++) {
		bool above = http_reply_write(held[0], (struct str){piece, 100000});
		settle();
		if (above && i > 50)
			break;
	}
	clock_advance(3999);
	settle();
	is_uint(n_aborted, 0, "a peer that doesn't read has time");
	clock_advance(1);
	ok(PUMP(n_aborted == 1), "and then no more");
	end_done(&e);
	free(piece);
	end();
}

static void on_stopped(void *arg)
{
	++*(unsigned *)arg;
}

static void test_graceful_stop(void)
{
	struct end idle, busy, partial, streaming;
	unsigned stopped = 0;
	begin(NULL);
	raw_open(&idle, port, NULL);
	raw_send(&idle, "GET /hello HTTP/1.1\r\n" H "\r\n");
	raw_wait(&idle, strlen(HELLO));
	raw_open(&busy, port, NULL);
	raw_send(&busy, "GET /late HTTP/1.1\r\n" H "\r\n");
	raw_open(&partial, port, NULL);
	raw_send(&partial, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\na");
	raw_open(&streaming, port, NULL);
	raw_send(&streaming, "GET /stream HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 2);
	settle();
	http_server_stop(server, 5000, on_stopped, &stopped);
	is_uint(stopped, 0, "not from within");
	ok(raw_wait_eof(&idle), "the idle one is closed");
	raw_send(&partial, "bc");
	ok(raw_wait_eof(&partial), "the partial one is finished");
	CLEANUP_FREE char *got = raw_text(&partial);
	is_str(got, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
	       "with its answer");
	ok(!busy.eof && !streaming.eof, "the others go on");
	struct http_exchange *late = held[0]->path.p[1] == 'l' ? held[0] : held[1];
	http_reply(late, 200, NULL, NULL, 0, STR("x"));
	ok(raw_wait_eof(&busy), "answered and closed");
	CLEANUP_FREE char *answer = raw_text(&busy);
	has_str(answer, "Connection: close", "and said so");
	settle();
	is_uint(stopped, 0, "a stream goes on");
	clock_advance(4999);
	settle();
	is_uint(n_aborted, 0, "until the deadline");
	clock_advance(1);
	ok(PUMP(stopped == 1), "then it's over");
	is_uint(n_aborted, 1, "and the stream was aborted");
	end_done(&idle);
	end_done(&busy);
	end_done(&partial);
	end_done(&streaming);
	end();
	is_uint(stopped, 1, "told once");

	begin(NULL);
	http_server_stop(server, 5000, on_stopped, &stopped);
	clock_advance(100);
	ok(PUMP(stopped == 2), "nothing to wait for but what the kernel has taken");
	end();
}

/* A large answer on a connection that closes arrives whole, however slowly it's taken. */
static void test_large_answer_then_close(void)
{
	char *body = pattern(8000000);
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.0\r\n\r\n");
	PUMP(n_held == 1);
	net_conn_read_stop(e.conn);
	http_reply(held[0], 200, NULL, NULL, 0, (struct str){body, 8000000});
	for (int i = 0; i < 20; i++) {
		settle();
		clock_advance(1000);
	}
	net_conn_read_start(e.conn);
	ok(raw_wait_eof(&e), "the end");
	ok(e.in.len > 8000000 && memcmp(e.in.p + e.in.len - 8000000, body, 8000000) == 0,
	   "all of %zu bytes came", e.in.len);
	ok(PUMP(stats().connections == 0), "the connection is gone");
	end_done(&e);
	free(body);
	end();
}

int main(void)
{
	test_begin();
	test_deaf_peer();
	test_stream();
	test_nothing_behind();
	test_stream_back_pressure();
	test_heedless_producer();
	test_broken_off();
	test_broken_off_h2();
	test_no_memory();
	test_aborts();
	test_write_stall();
	test_graceful_stop();
	test_large_answer_then_close();
	test_end();
	return done_testing();
}
