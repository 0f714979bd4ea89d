/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client over loopback, against raw ends that follow a script: what it sends, what it makes of
 * answers good and bad, its pool, its deadlines, and cancelling at every step.
 */
#include "http_test.h"

#define MAX_ENDS 32

/* ---- the other side ---- */

static struct net_listener *listener;
static struct end ends[MAX_ENDS]; /* the connections that came, in their order */
static unsigned n_ends;

static void on_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	(void)l, (void)arg;
	if (n_ends == MAX_ENDS)
		bail_out("too many connections");
	ends[n_ends] = (struct end)END_INIT;
	end_take(&ends[n_ends++], conn);
}

static struct http_client *client;
static struct http_origin origin;

static void begin(const struct http_client_config *config, struct tls_config *tls)
{
	const struct net_listen_opts opts = {.addr = "127.0.0.1:0", .tls = tls};
	struct err err = ERR_INIT;
	n_ends = 0;
	if (net_listener_new(net, &opts, on_accept, NULL, &listener, &err) < 0)
		bail_out(err.msg);
	origin = (struct http_origin){.host = "127.0.0.1", .port = net_listener_port(listener)};
	client = http_client_new(net, config);
}

static void end(void)
{
	http_client_free(client);
	net_listener_close(listener);
	for (unsigned i = 0; i < n_ends; i++)
		end_done(&ends[i]);
	settle();
}

static struct http_client_stats stats(void)
{
	struct http_client_stats s;
	http_client_stats(client, &s);
	return s;
}

/* Waits for the n-th connection (from 0) to have sent a whole head. */
static bool got_request(unsigned n)
{
	return PUMP(n_ends > n && ends[n].in.len > 4 &&
		    memmem(ends[n].in.p, ends[n].in.len, "\r\n\r\n", 4));
}

static void answer(unsigned n, const char *text)
{
	buf_clear(&ends[n].in);
	raw_send(&ends[n], text);
}

/* ---- this side ---- */

enum step { AT_NEVER, AT_HEAD, AT_BODY, AT_DONE };

struct rec {
	struct http_call *call;
	struct op *fetch;
	struct buf text; /* "<200>body." or "<200>bo!unavailable" */
	struct err err;
	unsigned dones;
	enum step cancel_at, pause_at;
};

#define REC_INIT {.text = BUF_INIT(64 << 20)}

static void step_done(struct rec *r, enum step step)
{
	if (r->pause_at == step)
		http_call_pause(r->call);
	if (r->cancel_at == step)
		op_cancel(&r->call->op);
}

static void rec_head(void *arg, const struct http_head *head)
{
	struct rec *r = arg;
	buf_printf(&r->text, NULL, "<%d>", head->status);
	step_done(r, AT_HEAD);
}

static void rec_body(void *arg, struct str piece)
{
	struct rec *r = arg;
	if (buf_append_str(&r->text, piece, NULL) < 0)
		bail_out("the record is full");
	step_done(r, AT_BODY);
}

static void rec_done(void *arg, const struct err *err)
{
	struct rec *r = arg;
	r->dones++;
	if (err) {
		r->err = *err;
		buf_printf(&r->text, NULL, "!%s%s", err_kind_name(err->kind),
			   err->maybe_applied ? " maybe" : "");
	} else {
		buf_append(&r->text, ".", 1, NULL);
	}
	step_done(r, AT_DONE);
}

static const struct http_call_handler recorder = {rec_head, rec_body, rec_done};

static struct http_request request(enum http_method method)
{
	return (struct http_request){.origin = origin, .method = method, .target = STR("/x")};
}

static void rec_start(struct rec *r, const struct http_request *req)
{
	r->call = http_call_start(client, req, &recorder, r, NULL);
}

static char *rec_text(const struct rec *r)
{
	return xstrndup(r->text.p ? r->text.p : "", r->text.len);
}

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

/* ---- kept connections ---- */

/* One answer over the connection, so that it's a used one. */
static void warm_up(unsigned n)
{
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	rec_start(&r, &req);
	got_request(n);
	answer(n, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	if (!PUMP(r.dones))
		bail_out("no answer");
	buf_done(&r.text);
}

static void test_stale(void)
{
	static const struct {
		enum http_method method;
		const char *want;
		bool again;
	} rows[] = {
		{HTTP_METHOD_GET, "<200>.", true},
		{HTTP_METHOD_HEAD, "<200>.", true},
		{HTTP_METHOD_PUT, "!unavailable maybe", false},
		{HTTP_METHOD_DELETE, "!unavailable maybe", false},
		{HTTP_METHOD_POST, "!unavailable maybe", false},
		{HTTP_METHOD_PATCH, "!unavailable maybe", false},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		row_begin("%s", http_method_name(rows[i].method));
		begin(NULL, NULL);
		warm_up(0);
		struct http_request req = request(rows[i].method);
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
	http_response_check(response, HTTP_METHOD_GET, STR("/x?token=y"), &g->err);
}

static void test_fetch(void)
{
	static const struct {
		const char *name, *in;
		int status;
		enum err_kind kind;
		const char *body, *msg;
	} rows[] = {
		{"ok", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, ERR_NONE, "abc", ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ERR_NONE, "", ""},
		{"error with text",
		 "HTTP/1.1 503 S\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 7\r\n"
		 "Content-Length: 9\r\n\r\nnot\nnow\r\n",
		 503, ERR_UNAVAILABLE, "not\nnow\r\n", "GET /x: 503 Service Unavailable: not?now"},
		{"error without text", "HTTP/1.1 404 N\r\nContent-Length: 2\r\n\r\n\x01\x02", 404,
		 ERR_NOT_FOUND, "\x01\x02", "GET /x: 404 Not Found"},
		{"too long", "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", 0, ERR_LIMIT, NULL,
		 NULL},
	};
	begin(NULL, NULL);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct got g = {0};
		row_begin("%s", rows[i].name);
		struct http_request req = request(HTTP_METHOD_GET);
		req.max_body_bytes = 10;
		http_fetch_start(client, &req, on_fetched, &g, NULL);
		got_request(0);
		answer(0, rows[i].in);
		PUMP(g.calls);
		settle();
		is_uint(g.calls, 1, "called once");
		is_int(g.status, rows[i].status, "status");
		is_int(g.err.kind, rows[i].kind, "kind");
		is_str(g.body, rows[i].body, "body");
		if (rows[i].msg)
			is_str(g.err.msg, rows[i].msg, "message");
		if (rows[i].status == 503)
			is_uint(g.err.retry_after_ms, 7000, "Retry-After");
		free(g.body);
		row_end();
	}
	end();

	struct got g = {0};
	struct scope scope;
	begin(NULL, NULL);
	scope_init(&scope);
	struct http_request req = request(HTTP_METHOD_GET);
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
	struct test_tls tls;
	test_begin();
	test_tls_init(&tls);
	test_request_bytes();
	test_refused_requests();
	test_responses();
	test_unasked_bytes();
	test_stale();
	test_stale_limits();
	test_idle_time();
	test_pool();
	test_full_queue();
	test_cannot_connect();
	test_deadlines();
	test_connect_deadline(&tls);
	test_stream_time();
	test_pause();
	test_cancel();
	test_fetch();
	test_tls_done(&tls);
	test_end();
	return done_testing();
}
