/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server over loopback, against raw bytes: what it answers, in which order, when it closes, and
 * that its deadlines and limits do what they say.
 */
#include "http_server_rig.h"

#include "core/fault.h"

/* ---- tables ---- */

/* want: all that comes, or its beginning where it ends within a head; closes: and then the server
 * ends the connection. */
static const struct {
	const char *name, *in, *want;
	bool closes;
} rows[] = {
	{"hello", "GET /hello HTTP/1.1\r\n" H "\r\n", HELLO, false},
	{"close", "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n", HELLO_CLOSE, true},
	{"HTTP/1.0", "GET /hello HTTP/1.0\r\n\r\n", HELLO_CLOSE, true},
	{"HTTP/1.0 kept alive", "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n"
	 "Content-Length: 6\r\n\r\nhello\n",
	 false},
	{"HEAD", "HEAD /hello HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n" HELLO, false},
	{"two in a row", "GET /hello HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n",
	 HELLO HELLO, false},
	{"what follows close isn't read",
	 "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\nGET /hello HTTP/1.1\r\n" H "\r\n",
	 HELLO_CLOSE, true},
	{"echo", "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc",
	 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false},
	{"echo, chunked",
	 "POST /echo HTTP/1.1\r\n" H
	 "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false},
	{"expect", "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\na",
	 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false},
	{"204", "GET /no-content HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 204 No Content\r\n\r\n", false},
	{"absolute form", "GET http://other:80/target?q HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\npath=/target query=q peer=127.0.0.1: tls=0",
	 false},
	{"parameters", "GET /ns/a%2Fb/pods/c HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\nns=a/b name=c rest= none=", false},
	{"the rest of a path", "GET /files/a/b HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\nns= name= rest=a/b none=", false},
	{"404", "GET /none HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\nContent-Length: "
	 "63\r\n\r\n{\"status\":404,\"title\":\"Not Found\",\"detail\":\"nothing at /none\"}\n",
	 false},
	{"an empty parameter is no match", "GET /ns//pods/c HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 404 Not Found\r\n", false},
	{"405", "PUT /ns/a/pods/b HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
	 "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/problem+json\r\n"
	 "Allow: GET, HEAD, DELETE, OPTIONS\r\nContent-Length: 112\r\n\r\n"
	 "{\"status\":405,\"title\":\"Method Not Allowed\",\"detail\":\"PUT isn't possible here, "
	 "only GET, HEAD, DELETE, OPTIONS\"}\n",
	 false},
	{"OPTIONS", "OPTIONS /ns/a/pods/b HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, DELETE, OPTIONS\r\n\r\n", false},
	{"OPTIONS of nothing", "OPTIONS /none HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 404 Not Found\r\n",
	 false},
	{"an error", "GET /err HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
	 "Retry-After: 2\r\nContent-Length: 68\r\n\r\n"
	 "{\"status\":429,\"title\":\"Too Many Requests\",\"detail\":\"come \\\"back\\\"\"}\n",
	 false},
	{"left without an answer", "GET /nothing HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 500 Internal Server Error\r\n", false},
	{"a header that breaks out", "GET /bad-header HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", false},

	{"bad request", "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
	 "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n", true},
	{"bad escape", "GET /a%zz HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400 Bad Request\r\n", true},
	{"NUL in the path", "GET /a%00 HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400 Bad Request\r\n",
	 true},
	{"asterisk for GET", "GET * HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400 Bad Request\r\n", true},
	{"smuggling",
	 "POST /echo HTTP/1.1\r\n" H
	 "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	 "HTTP/1.1 400 Bad Request\r\n", true},
	{"413", "POST /echo HTTP/1.1\r\n" H "Content-Length: 1001\r\n\r\n",
	 "HTTP/1.1 413 Content Too Large\r\n", true},
	{"413 instead of 100",
	 "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
	 "HTTP/1.1 413 Content Too Large\r\n", true},
	{"414", "GET /0123456789012345678901234567890123456789 HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 414 URI Too Long\r\n", true},
	{"431",
	 "GET / HTTP/1.1\r\n" H "A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: "
	 "1\r\n\r\n",
	 "HTTP/1.1 431 Request Header Fields Too Large\r\n", true},
	{"415 for an encoded body",
	 "POST /echo HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
	 "HTTP/1.1 415 Unsupported Media Type\r\n", true},
	{"identity",
	 "POST /echo HTTP/1.1\r\n" H "Content-Encoding: Identity\r\nContent-Length: 3\r\n\r\nabc",
	 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false},
	{"501 for a method", "FROB / HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 501 Not Implemented\r\n",
	 true},
	{"501 for a known but odd method", "MKCOL / HTTP/1.1\r\n" H "\r\n",
	 "HTTP/1.1 501 Not Implemented\r\n", true},
	{"501 for CONNECT", "CONNECT a:1 HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 501 Not Implemented\r\n",
	 true},
	{"505", "GET / HTTP/2.0\r\n" H "\r\n", "HTTP/1.1 505 HTTP Version Not Supported\r\n", true},
	{"good, then bad", "GET /hello HTTP/1.1\r\n" H "\r\nGARBAGE\r\n\r\n",
	 HELLO "HTTP/1.1 501 Not Implemented\r\n", true},
};

/* The last answer isn't written out to the end of its head: the rest may be anything. */
static bool is_beginning(const char *want)
{
	const char *last = want;
	for (const char *p = want; (p = strstr(p, "HTTP/1.1 ")); p++)
		last = p;
	return !strstr(last, "\r\n\r\n");
}

static void test_table(void)
{
	const struct http_server_config config = {
		.limits = {.max_body_bytes = 1000, .max_headers = 8, .max_target_bytes = 40}};
	begin(&config);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct end e;
		row_begin("%s", rows[i].name);
		raw_open(&e, port, NULL);
		raw_send(&e, rows[i].in);
		if (rows[i].closes)
			ok(raw_wait_eof(&e), "closed");
		else
			raw_wait(&e, strlen(rows[i].want));
		settle();
		CLEANUP_FREE char *got = raw_text(&e);
		if (is_beginning(rows[i].want) && strlen(got) > strlen(rows[i].want))
			got[strlen(rows[i].want)] = '\0';
		is_str(got, rows[i].want, "answered");
		is_int(e.eof, rows[i].closes, "closed or not");
		is_uint(e.errors, 0, "in order");
		end_done(&e);
		row_end();
	}
	PUMP(stats().connections == 0);
	is_uint(stats().exchanges, 0, "no exchange is left");
	end();
}

static void test_byte_at_a_time(void)
{
	static const char in[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
				 "GET /hello HTTP/1.1\r\n" H "\r\n";
	static const char want[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" HELLO;
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	for (const char *p = in; *p; p++) {
		net_conn_write(e.conn, p, 1, NULL);
		settle();
	}
	raw_wait(&e, sizeof(want) - 1);
	CLEANUP_FREE char *got = raw_text(&e);
	is_str(got, want, "fed a byte at a time");
	end_done(&e);
	end();
}

/* ---- order ---- */

static void test_pipelining(void)
{
	const struct http_server_config config = {.max_pipelined = 3};
	struct end e;
	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\nGET /late HTTP/1.1\r\n" H "\r\n"
		     "GET /late HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 3);
	settle();
	is_uint(n_held, 3, "three at once");
	is_uint(n_called, 3, "the fourth waits");
	http_reply(held[2], 200, NULL, NULL, 0, STR("three"));
	settle();
	is_uint(e.in.len, 0, "the third's answer waits for the others");
	is_uint(n_called, 3, "and keeps its place");
	http_reply(held[0], 200, NULL, NULL, 0, STR("one"));
	PUMP(n_called == 4);
	is_uint(n_called, 4, "the fourth is taken when there's room");
	CLEANUP_FREE char *first = raw_text(&e);
	is_str(first, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
	       "the first's answer is out");
	http_reply(held[1], 200, NULL, NULL, 0, STR("two"));
	raw_wait(&e, 41 + 41 + 43 + strlen(HELLO));
	settle();
	CLEANUP_FREE char *got = raw_text(&e);
	is_str(got,
	       "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
	       "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"
	       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthree" HELLO,
	       "all in order");
	end_done(&e);
	end();
}

static void test_unsafe_wait(void)
{
	struct end e;
	begin(NULL);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\n"
		     "POST /late HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"
		     "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	settle();
	is_uint(n_held, 1, "a POST waits for what is before it");
	http_reply(held[0], 200, NULL, NULL, 0, STR("1"));
	PUMP(n_held == 2);
	settle();
	is_uint(n_held, 2, "then it goes, alone");
	http_reply(held[1], 200, NULL, NULL, 0, STR("2"));
	PUMP(n_held == 3);
	is_uint(n_held, 3, "and the next after it");
	http_reply(held[2], 200, NULL, NULL, 0, STR("3"));
	raw_wait(&e, 3 * 39);
	settle();
	is_uint(e.in.len, 3 * 39, "three answers");
	end_done(&e);
	end();
}

/* ---- time ---- */

static void test_deadlines(void)
{
	const struct http_server_config config = {
		.header_ms = 1000, .body_ms = 2000, .idle_ms = 3000, .write_ms = 4000};
	static const struct {
		const char *name, *in, *want;
		int ms;
	} rows_[] = {
		{"nothing came", "", "", 1000},
		{"half a head", "GET /hello HTTP/1.1\r\nHo", "HTTP/1.1 408 Request Timeout\r\n",
		 1000},
		{"half a body", "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\na",
		 "HTTP/1.1 408 Request Timeout\r\n", 2000},
		{"idle", "GET /hello HTTP/1.1\r\n" H "\r\n", HELLO, 3000},
		{"half a second head", "GET /hello HTTP/1.1\r\n" H "\r\nGET ",
		 HELLO "HTTP/1.1 408 Request Timeout\r\n", 1000},
	};
	begin(&config);
	for (size_t i = 0; i < sizeof(rows_) / sizeof(rows_[0]); i++) {
		struct end e;
		row_begin("%s", rows_[i].name);
		raw_open(&e, port, NULL);
		raw_send(&e, rows_[i].in);
		settle();
		PUMP(stats().connections == 1);
		settle();
		clock_advance(rows_[i].ms - 1);
		settle();
		ok(!e.eof, "waits until then");
		clock_advance(1);
		ok(raw_wait_eof(&e), "closed");
		CLEANUP_FREE char *got = raw_text(&e);
		ok(strncmp(got, rows_[i].want, strlen(rows_[i].want)) == 0 &&
			   (*rows_[i].want || !*got),
		   "answered: %.60s", got);
		end_done(&e);
		row_end();
	}
	end();
}

/* A byte now and then doesn't buy time. */
static void test_slow_loris(void)
{
	const struct http_server_config config = {.header_ms = 1000};
	struct end e;
	begin(&config);
	raw_open(&e, port, NULL);
	unsigned bytes = 0;
	while (bytes < 50 && !e.eof && !e.errors) {
		raw_send(&e, bytes == 0 ? "GET /" : "a");
		bytes++;
		settle();
		clock_advance(100);
		settle();
	}
	ok(raw_wait_eof(&e), "closed");
	ok(bytes <= 11, "after %u bytes", bytes);
	CLEANUP_FREE char *got = raw_text(&e);
	has_str(got, "408", "with 408");
	end_done(&e);
	end();
}

static void test_pending_has_no_deadline(void)
{
	const struct http_server_config config = {
		.header_ms = 1000, .body_ms = 1000, .idle_ms = 1000};
	struct end e;
	begin(&config);
	raw_open(&e, port, NULL);
	raw_send(&e, "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	settle();
	clock_advance(3600000);
	settle();
	http_reply(held[0], 200, NULL, NULL, 0, STR("x"));
	ok(raw_wait(&e, 39), "an answer may take its time");
	clock_advance(1000);
	ok(raw_wait_eof(&e), "then the idle time counts");
	end_done(&e);
	end();
}

/* ---- limits, listening ---- */

static void test_flood(void)
{
	const struct http_server_config config = {.max_connections = 5, .header_ms = 1000};
	struct end e[20];
	begin(&config);
	for (int i = 0; i < 20; i++) {
		e[i] = (struct end)END_INIT;
		e[i].close_on = CLOSE_ON_EOF;
		end_connect(&e[i], "127.0.0.1", (uint16_t)port, NULL, NULL);
	}
	for (int i = 0; i < 20; i++)
		PUMP(e[i].conn);
	settle();
	is_uint(stats().connections, 5, "five of twenty are let in");
	for (int i = 0; i < 20; i++)
		raw_send(&e[i], "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
	for (int i = 0; i < 20; i++)
		ok(raw_wait_eof(&e[i]) && e[i].in.len == strlen(HELLO_CLOSE),
		   "number %d gets its turn", i);
	ok(stats().connections <= 5, "never more");
	is_uint(stats().requests, 20, "all were served");
	for (int i = 0; i < 20; i++)
		end_done(&e[i]);
	end();
}

/* What all requests together may hold. */
static void test_many_bodies(void)
{
	const struct http_server_config config = {.max_bodies_bytes = 100};
	struct end e[4];
	char body[61];

	begin(&config);
	memset(body, 'x', 60);
	body[60] = '\0';
	for (int i = 0; i < 3; i++) {
		raw_open(&e[i], port, NULL);
		raw_send(&e[i], "POST /late HTTP/1.1\r\n" H "Content-Length: 60\r\n\r\n");
		raw_send(&e[i], body + 20);
		settle();
	}
	CLEANUP_FREE char *refused = raw_text(&e[2]);
	has_str(refused, "HTTP/1.1 503 ", "the third is too much");
	has_str(refused, "try again", "says what to do");
	is_uint(e[0].in.len + e[1].in.len, 0, "the two before go on");
	end_done(&e[0]); /* goes away in the middle: its room is free */
	settle();
	raw_send(&e[1], body + 40);
	PUMP(n_held == 1);
	is_uint(held[0]->body.len, 60, "one is whole");
	http_exchange_drop_body(held[0]);
	is_uint(held[0]->body.len, 0, "and read");
	raw_open(&e[3], port, NULL);
	raw_send(&e[3], "POST /echo HTTP/1.1\r\n" H "Content-Length: 100\r\n\r\n");
	raw_send(&e[3], body + 20);
	raw_send(&e[3], body);
	ok(raw_wait(&e[3], 140), "then there's room again");
	CLEANUP_FREE char *got = raw_text(&e[3]);
	has_str(got, "HTTP/1.1 200 OK", "for a large one");
	http_reply(held[0], 200, NULL, NULL, 0, STR("x"));
	for (int i = 1; i < 4; i++)
		end_done(&e[i]);
	settle();
	end();
}

/* A body that fills its buffer, and no memory for what stands behind it. */
static void test_no_memory(void)
{
	unsigned refused = 0;
	char half[129];

	memset(half, 'x', 128);
	half[128] = '\0';
	for (unsigned n = 1; n <= 4; n++) {
		struct end e;
		begin(NULL);
		raw_open(&e, port, NULL);
		raw_send(&e, "POST /echo HTTP/1.1\r\n" H "Content-Length: 256\r\n\r\n");
		raw_send(&e, half);
		settle();
		raw_send(&e, half);
		fault_alloc_fail_at(n);
		settle();
		fault_alloc_fail_at(0);
		CLEANUP_FREE char *text = raw_text(&e);
		refused += strstr(text, "HTTP/1.1 503 ") && strstr(text, "try again");
		ok(!strstr(text, "HTTP/1.1 4"), "it's no fault of the client's (%u)", n);
		end_done(&e);
		settle();
		end();
	}
	ok(refused > 0, "refused with what to do (%u)", refused);
}

static void test_leave(void)
{
	struct end kept, fresh;

	begin(NULL);
	raw_open(&kept, port, NULL);
	raw_send(&kept, "GET /hello HTTP/1.1\r\n" H "\r\n");
	raw_wait(&kept, strlen(HELLO));
	http_server_leave(server, true);
	settle();
	is_int(kept.eof, 0, "an idle connection stays");
	raw_send(&kept, "GET /hello HTTP/1.1\r\n" H "\r\n");
	ok(raw_wait_eof(&kept), "until its next answer");
	CLEANUP_FREE char *both = raw_text(&kept);
	is_str(both, HELLO HELLO_CLOSE, "which says so");
	raw_open(&fresh, port, NULL);
	raw_send(&fresh, "GET /hello HTTP/1.1\r\n" H "\r\n");
	ok(raw_wait_eof(&fresh), "a new one is taken");
	CLEANUP_FREE char *one = raw_text(&fresh);
	is_str(one, HELLO_CLOSE, "for one answer");
	http_server_leave(server, false);
	end_done(&fresh);
	raw_open(&fresh, port, NULL);
	raw_send(&fresh, "GET /hello HTTP/1.1\r\n" H "\r\n");
	raw_wait(&fresh, strlen(HELLO));
	settle();
	is_int(fresh.eof, 0, "taken back: connections stay");
	end_done(&kept);
	end_done(&fresh);
	settle();
	end();
}

static void test_drop_idle(void)
{
	struct end idle, fresh, busy;

	begin(NULL);
	raw_open(&idle, port, NULL);
	raw_send(&idle, "GET /hello HTTP/1.1\r\n" H "\r\n");
	raw_wait(&idle, strlen(HELLO));
	raw_open(&fresh, port, NULL);
	raw_open(&busy, port, NULL);
	raw_send(&busy, "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	settle();
	http_server_drop_idle(server);
	ok(raw_wait_eof(&idle), "one that is between requests is closed");
	settle();
	ok(!fresh.eof && !busy.eof, "others aren't");
	http_reply(held[0], 200, NULL, NULL, 0, STR("x"));
	raw_send(&fresh, "GET /hello HTTP/1.1\r\n" H "\r\n");
	ok(raw_wait(&fresh, strlen(HELLO)), "one without a request has its first one answered");
	end_done(&idle);
	end_done(&fresh);
	end_done(&busy);
	settle();
	end();
}

static void test_renew(void)
{
	CLEANUP_FREE char *text = NULL;
	struct end idle, busy, after;

	begin(NULL);
	raw_open(&idle, port, NULL);
	raw_send(&idle, "GET /hello HTTP/1.1\r\n" H "\r\n");
	raw_wait(&idle, strlen(HELLO));
	raw_open(&busy, port, NULL);
	raw_send(&busy, "GET /late HTTP/1.1\r\n" H "\r\n");
	PUMP(n_held == 1);
	settle();
	http_server_renew(server);
	ok(raw_wait_eof(&idle), "one that is between requests is closed");
	http_reply(held[0], 200, NULL, NULL, 0, STR("x"));
	ok(raw_wait_eof(&busy), "one with a request ends with its answer");
	text = raw_text(&busy);
	has_str(text, "Connection: close", "which says so");
	raw_open(&after, port, NULL);
	raw_send(&after, "GET /hello HTTP/1.1\r\n" H "\r\n");
	ok(raw_wait(&after, strlen(HELLO)), "one that comes later is served");
	settle();
	ok(!after.eof, "and stays");
	end_done(&idle);
	end_done(&busy);
	end_done(&after);
	settle();
	end();
}

static void test_listen(void)
{
	struct err err = ERR_INIT;
	unsigned second = 0;
	char addr[32];
	begin(NULL);
	snprintf(addr, sizeof(addr), "127.0.0.1:%u", port);
	is_int(http_server_listen(server, addr, NULL, route, NULL, NULL, &err), -1, "taken");
	is_int(err.kind, ERR_IO, "is an I/O error: %s", err.msg);
	is_int(http_server_listen(server, "nonsense", NULL, route, NULL, NULL, &err), -1, "bad");
	is_int(http_server_listen(server, "[::1]:0", NULL, get_hello, NULL, &second, &err), 0,
	       "a second listener, over IPv6");
	struct end e = END_INIT;
	end_connect(&e, "::1", (uint16_t)second, NULL, NULL);
	PUMP(e.conn);
	raw_send(&e, "GET /any HTTP/1.1\r\n" H "\r\n");
	ok(raw_wait(&e, strlen(HELLO)), "has its own handler");
	end_done(&e);
	end();
}

int main(void)
{
	test_begin();
	test_table();
	test_byte_at_a_time();
	test_pipelining();
	test_unsafe_wait();
	test_deadlines();
	test_slow_loris();
	test_pending_has_no_deadline();
	test_flood();
	test_many_bodies();
	test_no_memory();
	test_leave();
	test_drop_idle();
	test_renew();
	test_listen();
	test_end();
	return done_testing();
}
