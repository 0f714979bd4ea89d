/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client over loopback, against raw ends that follow a script: what it sends, what it makes of
 * answers good and bad, pausing, and cancelling at every step.
 */
#include "http_client_rig.h"

/* ---- what is sent ---- */

static void test_request_bytes(void)
{
	const struct http_header headers[] = {HTTP_H("Accept", "a/b"), HTTP_H("X", "y")};
	const struct http_header own[] = {HTTP_H("user-agent", "me"),
					  HTTP_H("Accept-Encoding", "gzip")};
	static const struct {
		enum http_method method;
		const char *body;
		bool own;
		const char *want;
	} rows[] = {
		{HTTP_METHOD_GET, NULL, false,
		 "GET /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: test\r\n"
		 "Accept-Encoding: identity\r\nAccept: a/b\r\nX: y\r\n\r\n"},
		{HTTP_METHOD_POST, "abc", false,
		 "POST /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: test\r\n"
		 "Accept-Encoding: identity\r\nAccept: a/b\r\nX: y\r\nContent-Length: "
		 "3\r\n\r\nabc"},
		{HTTP_METHOD_PATCH, NULL, false,
		 "PATCH /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: test\r\n"
		 "Accept-Encoding: identity\r\nAccept: a/b\r\nX: y\r\nContent-Length: 0\r\n\r\n"},
		{HTTP_METHOD_DELETE, NULL, true,
		 "DELETE /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nuser-agent: me\r\n"
		 "Accept-Encoding: gzip\r\n\r\n"},
	};
	const struct http_client_config config = {.user_agent = "test"};
	begin(&config, NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct rec r = REC_INIT;
		struct http_request req = request(rows[i].method);
		char want[400];
		req.body = str_of(rows[i].body);
		req.headers = rows[i].own ? own : headers;
		req.n_headers = 2;
		rec_start(&r, &req);
		got_request(0);
		settle();
		CLEANUP_FREE char *got = raw_text(&ends[0]);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(want, sizeof(want), rows[i].want, origin.port);
#pragma GCC diagnostic pop
		is_str(got, want, "%s", http_method_name(rows[i].method));
		answer(0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		PUMP(r.dones);
		buf_done(&r.text);
	}
	is_uint(n_ends, 1, "over one connection");
	is_uint(stats().reused, 3, "three times used again");
	end();
}

static void test_refused_requests(void)
{
	static const struct http_header bad_value = {STR("X"), STR("a\r\nY: b")};
	static const struct http_header ours = {STR("content-length"), STR("1")};
	begin(NULL, NULL);
	struct http_request rows[6];
	for (int i = 0; i < 6; i++)
		rows[i] = request(HTTP_METHOD_GET);
	rows[0].headers = &bad_value;
	rows[0].n_headers = 1;
	rows[1].headers = &ours;
	rows[1].n_headers = 1;
	rows[2].target = STR("x y");
	rows[3].origin.host = "";
	rows[4].origin.port = 65536;
	rows[5].method = HTTP_METHOD_OTHER;
	for (int i = 0; i < 6; i++) {
		struct rec r = REC_INIT;
		rec_start(&r, &rows[i]);
		is_uint(r.dones, 0, "request %d: not from within", i);
		PUMP(r.dones);
		is_int(r.err.kind, ERR_INVALID, "but refused: %s", r.err.msg);
		buf_done(&r.text);
	}
	struct rec r = REC_INIT;
	rec_start(&r, &rows[0]);
	op_cancel(&r.call->op);
	settle();
	is_uint(r.dones, 0, "cancelled before it's told");
	rec_start(&r, &rows[1]);
	end();
	is_uint(r.dones, 0, "the client went first");
	is_uint(n_ends, 0, "no connection was made");
}

/* ---- what comes back ---- */

#define INTERIM    "HTTP/1.1 100 Continue\r\n\r\n"
#define INTERIM_X4 INTERIM INTERIM INTERIM INTERIM

static const struct {
	const char *name, *in, *want;
	enum http_method method;
	bool close; /* the server closes behind it */
	bool again; /* the connection is used again */
} responses[] = {
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "<200>ab.", HTTP_METHOD_GET,
	 false, true},
	{"chunked",
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: 1\r\n\r\n",
	 "<200>ab.", HTTP_METHOD_POST, false, true},
	{"until close", "HTTP/1.1 200 OK\r\n\r\nabc", "<200>abc.", HTTP_METHOD_GET, true, false},
	{"says close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
	 "<200>a.", HTTP_METHOD_GET, false, false},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "<200>a.", HTTP_METHOD_GET,
	 false, false},
	{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "<200>.", HTTP_METHOD_HEAD,
	 false, true},
	{"204", "HTTP/1.1 204 No Content\r\n\r\n", "<204>.", HTTP_METHOD_DELETE, false, true},
	{"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "<304>.", HTTP_METHOD_GET,
	 false, true},
	{"1xx first",
	 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 500 E\r\nContent-Length: "
	 "1\r\n\r\na",
	 "<500>a.", HTTP_METHOD_PUT, false, true},
	{"no redirects", "HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n",
	 "<302>.", HTTP_METHOD_GET, false, true},
	{"bytes behind the answer", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200",
	 "<200>a.", HTTP_METHOD_GET, false, false},

	{"101", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "!protocol maybe",
	 HTTP_METHOD_GET, false, false},
	{"1xx without an end", INTERIM_X4 INTERIM_X4 INTERIM_X4 INTERIM_X4 INTERIM,
	 "!protocol maybe", HTTP_METHOD_GET, false, false},
	{"garbage", "SSH-2.0-x\r\n", "!protocol maybe", HTTP_METHOD_GET, false, false},
	{"both lengths",
	 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
	 "!protocol maybe", HTTP_METHOD_GET, false, false},
	{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n",
	 "<200>!protocol maybe", HTTP_METHOD_POST, false, false},
	{"closed at once", "", "!unavailable maybe", HTTP_METHOD_POST, true, false},
	{"closed in the head", "HTTP/1.1 200", "!unavailable maybe", HTTP_METHOD_GET, true, false},
	{"closed in a body", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
	 "<200>ab!unavailable maybe", HTTP_METHOD_GET, true, false},
	{"closed in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
	 "<200>ab!unavailable maybe", HTTP_METHOD_GET, true, false},
	{"too long by its length", "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "!limit maybe",
	 HTTP_METHOD_GET, false, false},
	{"too long by its chunks",
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n64\r\n"
	 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
	 "89012345678901234567",
	 "<200>ab!limit maybe", HTTP_METHOD_GET, false, false},
};

static void test_responses(void)
{
	for (unsigned i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
		for (int bytewise = 0; bytewise < 2; bytewise++) {
			struct rec r = REC_INIT;
			row_begin("%s%s", responses[i].name, bytewise ? ", a byte at a time" : "");
			begin(NULL, NULL);
			struct http_request req = request(responses[i].method);
			req.max_body_bytes = 100;
			rec_start(&r, &req);
			got_request(0);
			const char *p = responses[i].in;
			if (!bytewise)
				raw_send(&ends[0], p);
			for (; bytewise && *p && !ends[0].eof && !ends[0].errors; p++) {
				net_conn_write(ends[0].conn, p, 1, NULL);
				settle();
			}
			if (responses[i].close)
				net_conn_shutdown(ends[0].conn);
			ok(PUMP(r.dones == 1), "done");
			settle();
			CLEANUP_FREE char *got = rec_text(&r);
			/* A byte at a time, what is within the limit is handed on first. */
			if (bytewise && strstr(responses[i].want, "ab!limit"))
				ok(strlen(got) <= 5 + 100 + 12 && strstr(got, "!limit maybe"),
				   "ends at the limit");
			else
				is_str(got, responses[i].want, "as it should be");
			/* Bytes behind an answer may come when it's idle again. */
			is_uint(stats().connections, responses[i].again, "connection kept or not");
			end();
			is_uint(r.dones, 1, "once");
			buf_done(&r.text);
			row_end();
		}
	}
}

static void test_unasked_bytes(void)
{
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	begin(NULL, NULL);
	req.origin = origin;
	rec_start(&r, &req);
	got_request(0);
	answer(0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	PUMP(r.dones);
	is_uint(stats().idle, 1, "kept");
	raw_send(&ends[0], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	ok(raw_wait_eof(&ends[0]), "an answer that nobody asked for closes");
	is_uint(stats().connections, 0, "it's gone");
	end();
	buf_done(&r.text);
}

/* ---- pausing ---- */

static void test_pause(void)
{
	static const struct {
		const char *name, *in, *before, *want;
		enum step at;
		enum http_method method;
	} rows[] = {
		{"in the head", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "<200>",
		 "<200>ab.", AT_HEAD, HTTP_METHOD_GET},
		{"in the head, and no body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
		 "<200>", "<200>.", AT_HEAD, HTTP_METHOD_HEAD},
		{"in the last piece", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "<200>ab",
		 "<200>ab.", AT_BODY, HTTP_METHOD_GET},
		{"in the first of two pieces",
		 "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
		 "chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
		 "<200>a", "<200>ab.", AT_BODY, HTTP_METHOD_GET},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		row_begin("%s", rows[i].name);
		begin(NULL, NULL);
		r.pause_at = rows[i].at;
		struct http_request req = request(rows[i].method);
		rec_start(&r, &req);
		got_request(0);
		raw_send(&ends[0], rows[i].in);
		PUMP(r.text.len >= strlen(rows[i].before));
		settle();
		CLEANUP_FREE char *before = rec_text(&r);
		is_str(before, rows[i].before, "paused");
		r.pause_at = AT_NEVER;
		http_call_resume(r.call);
		CLEANUP_FREE char *within = rec_text(&r);
		is_str(within, rows[i].before, "nothing comes from within the resume");
		PUMP(r.dones);
		CLEANUP_FREE char *got = rec_text(&r);
		is_str(got, rows[i].want, "the rest came");
		warm_up(0);
		is_uint(n_ends, 1, "and the connection is used again");
		end();
		buf_done(&r.text);
		row_end();
	}
}

/* ---- cancelling ---- */

static void test_cancel(void)
{
	static const char in[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
				 "chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n";
	/* Steps 0 … 3: from outside; then from within a callback; with and without a pause. */
	for (int where = 0; where < 9; where++) {
		struct rec r = REC_INIT;
		struct scope scope;
		row_begin("place %d", where);
		begin(NULL, NULL);
		if (where == 3)
			warm_up(0);
		scope_init(&scope);
		struct http_request req = request(HTTP_METHOD_GET);
		r.cancel_at = where == 4   ? AT_HEAD
			      : where == 5 ? AT_BODY
			      : where == 6 ? AT_DONE
					   : AT_NEVER;
		if (where == 7 || where == 8)
			r.pause_at = where == 7 ? AT_HEAD : AT_BODY;
		r.call = http_call_start(client, &req, &recorder, &r, &scope);
		struct op *op = &r.call->op;
		if (where == 1)
			loop_turn(loop, 0); /* connecting */
		if (where >= 2) {
			got_request(0);
			settle();
		}
		if (where >= 4) {
			raw_send(&ends[0], in);
			settle();
			PUMP(r.text.len >= (where == 5 || where == 8 ? 6 : 5));
			settle();
		}
		bool over = where == 4 || where == 5 || where == 6;
		if (!over) {
			scope_cancel(&scope);
			op_cancel(op);
		}
		unsigned want = where == 6;
		is_uint(r.dones, want, "not called back by the cancel");
		settle();
		clock_advance(100000);
		settle();
		is_uint(r.dones, want, "nor later");
		ok(list_empty(&scope.ops), "out of its scope");
		is_uint(stats().calls, 0, "no call is left");
		if (where >= 2 && where != 6)
			ok(raw_wait_eof(&ends[0]), "the connection is closed");
		end();
		buf_done(&r.text);
		row_end();
	}
}

/* ---- fetching ---- */

#define TOKEN "of-sixteen-bytes"

struct got {
	unsigned calls;
	int status;
	char *body;
	struct err err;
	struct op *op;
};

static void on_fetched(void *arg, const struct http_response *response, const struct err *err)
{
	struct got *g = arg;
	g->calls++;
	if (err) {
		g->err = *err;
		return;
	}
	g->status = response->head->status;
	if (response->body.p[response->body.len] != '\0')
		bail_out("the body isn't terminated");
	free(g->body);
	g->body = str_dup(response->body);
	g->err = (struct err)ERR_INIT;
	http_response_check(response, HTTP_METHOD_GET, STR("/x?token=y"), STR(TOKEN), &g->err);
}

static const struct {
	const char *name, *in;
	int status;
	enum err_kind kind;
	const char *body, *msg;
} fetch_rows[] = {
	{"ok", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, ERR_NONE, "abc", ""},
	{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ERR_NONE, "", ""},
	{"error with text",
	 "HTTP/1.1 503 S\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 7\r\n"
	 "Content-Length: 9\r\n\r\nnot\nnow\r\n",
	 503, ERR_UNAVAILABLE, "not\nnow\r\n", "GET /x: 503 Service Unavailable: not?now"},
	{"error with our token",
	 "HTTP/1.1 403 F\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\n"
	 "not for " TOKEN,
	 403, ERR_DENIED, "not for " TOKEN, "GET /x: 403 Forbidden: not for"},
	{"error with any token",
	 "HTTP/1.1 403 F\r\nContent-Type: text/html\r\nContent-Length: 23\r\n\r\n"
	 "Authorization: Bearer a",
	 403, ERR_DENIED, "Authorization: Bearer a", "GET /x: 403 Forbidden: Authorization:"},
	{"error without text", "HTTP/1.1 404 N\r\nContent-Length: 2\r\n\r\n\x01\x02", 404,
	 ERR_NOT_FOUND, "\x01\x02", "GET /x: 404 Not Found"},
	{"too long", "HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n", 0, ERR_LIMIT, NULL, NULL},
};

static void test_fetch(void)
{
	begin(NULL, NULL);
	for (unsigned i = 0; i < sizeof(fetch_rows) / sizeof(fetch_rows[0]); i++) {
		struct got g = {0};
		row_begin("%s", fetch_rows[i].name);
		struct http_request req = request(HTTP_METHOD_GET);
		req.max_body_bytes = 30;
		http_fetch_start(client, &req, on_fetched, &g, NULL);
		got_request(0);
		answer(0, fetch_rows[i].in);
		PUMP(g.calls);
		settle();
		is_uint(g.calls, 1, "called once");
		is_int(g.status, fetch_rows[i].status, "status");
		is_int(g.err.kind, fetch_rows[i].kind, "kind");
		is_str(g.body, fetch_rows[i].body, "body");
		if (fetch_rows[i].msg)
			is_str(g.err.msg, fetch_rows[i].msg, "message");
		if (fetch_rows[i].status == 503)
			is_uint(g.err.retry_after_ms, 7000, "Retry-After");
		free(g.body);
		row_end();
	}
	end();

	/* 118 letters, then one of three bytes, of which two would be shown. */
	char letters[119], response[400], msg[200];
	struct got long_one = {0};
	begin(NULL, NULL);
	struct http_request req = request(HTTP_METHOD_GET);
	memset(letters, 'a', 118);
	letters[118] = '\0';
	snprintf(response, sizeof(response),
		 "HTTP/1.1 409 C\r\nContent-Type: text/plain\r\nContent-Length: 123\r\n\r\n%s€??",
		 letters);
	snprintf(msg, sizeof(msg), "GET /x: 409 Conflict: %s", letters);
	http_fetch_start(client, &req, on_fetched, &long_one, NULL);
	got_request(0);
	answer(0, response);
	PUMP(long_one.calls);
	is_str(long_one.err.msg, msg, "no character is cut in two");
	free(long_one.body);
	end();

	struct got g = {0};
	struct scope scope;
	begin(NULL, NULL);
	scope_init(&scope);
	req = request(HTTP_METHOD_GET);
	http_fetch_start(client, &req, on_fetched, &g, &scope);
	got_request(0);
	raw_send(&ends[0], "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
	settle();
	scope_cancel(&scope);
	ok(raw_wait_eof(&ends[0]), "a cancelled fetch closes");
	is_uint(g.calls, 0, "and isn't called back");
	end();
}

int main(void)
{
	test_begin();
	test_request_bytes();
	test_refused_requests();
	test_responses();
	test_unasked_bytes();
	test_pause();
	test_cancel();
	test_fetch();
	test_end();
	return done_testing();
}
