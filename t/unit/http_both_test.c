/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client and server against each other, in one loop: plain, over TLS, and by HTTP/2; large bodies,
 * streams with back-pressure from end to end, many calls at once, a stop under load, and failing
 * allocations.
 */
#include "http_test.h"
#include "no_memory.h"

#include "core/clock.h"
#include "h2/session.h"

static struct http_server *server;
static struct http_client *client;
static struct http_origin origin;
static struct test_tls tls;
static bool h2; /* by HTTP/2 */
static struct tls_config *h2_server, *h2_client;

/* ---- the server's side ---- */

struct source { /* a stream of numbered lines, as fast as the peer takes them */
	struct http_exchange *ex;
	unsigned next, n;
	bool aborted, ended;
};
static struct source source;

static void pour(struct source *s)
{
	char line[1000];
	while (s->next < s->n) {
		int len = snprintf(line, sizeof(line), "%0990u\n", s->next++);
		if (http_reply_write(s->ex, (struct str){line, (size_t)len}))
			return;
	}
	s->ended = true;
	http_reply_end(s->ex);
}

static void on_drain(struct http_exchange *ex, void *arg)
{
	(void)ex;
	pour(arg);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	struct source *s = arg;
	(void)ex;
	s->aborted = true;
	s->ex = NULL;
}

static void get_lines(struct http_exchange *ex, void *arg)
{
	(void)arg;
	source.ex = ex;
	http_exchange_on_abort(ex, on_abort, &source);
	http_exchange_on_drain(ex, on_drain, &source);
	http_reply_begin(ex, 200, "text/plain", NULL, 0);
	pour(&source);
}

static void post_echo(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "application/octet-stream", NULL, 0, ex->body);
}

static struct http_exchange *late[64];
static unsigned n_late;

static void forget(struct http_exchange *ex, void *arg)
{
	(void)ex, (void)arg;
}

static void get_late(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_exchange_on_abort(ex, forget, NULL);
	late[n_late++ % 64] = ex;
}

static void get_hello(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, NULL, NULL, 0, ex->tls ? STR("secure") : STR("plain"));
}

#define LARGE_BYTES ((size_t)2 << 20)

static void get_large(struct http_exchange *ex, void *arg)
{
	CLEANUP_FREE char *body = pattern(LARGE_BYTES);
	(void)arg;
	http_reply(ex, 200, NULL, NULL, 0, (struct str){body, LARGE_BYTES});
}

static const struct http_route routes[] = {
	{HTTP_METHOD_GET, "/lines", get_lines}, {HTTP_METHOD_POST, "/echo", post_echo},
	{HTTP_METHOD_GET, "/late", get_late},   {HTTP_METHOD_GET, "/hello", get_hello},
	{HTTP_METHOD_GET, "/large", get_large}, {HTTP_METHOD_NONE, NULL, NULL},
};

static void handle(struct http_exchange *ex, void *arg)
{
	http_route(ex, routes, arg);
}

static void begin(bool secure, const struct http_server_config *sc,
		  const struct http_client_config *cc)
{
	struct tls_config *ours = h2 ? h2_server : secure ? tls.for_server : NULL;
	struct tls_config *theirs = h2 ? h2_client : secure ? tls.for_client : NULL;
	struct http_client_config config = cc ? *cc : (struct http_client_config){0};
	struct err err = ERR_INIT;
	unsigned port;
	config.h2 = &http_h2;
	server = http_server_new(net, sc);
	if (http_server_listen(server, "127.0.0.1:0", ours, handle, NULL, &port, &err) < 0)
		bail_out(err.msg);
	client = http_client_new(net, &config);
	origin = (struct http_origin){.host = "127.0.0.1", .port = port, .tls = theirs};
	source = (struct source){0};
	n_late = 0;
}

static void end(void)
{
	http_client_free(client);
	http_server_free(server);
	settle();
}

/* ---- the client's side ---- */

struct got {
	unsigned calls;
	int status;
	struct buf body;
	struct err err;
};

static void on_fetched(void *arg, const struct http_response *response, const struct err *err)
{
	struct got *g = arg;
	g->calls++;
	if (err)
		g->err = *err;
	else
		g->status = response->head->status;
	if (!err && buf_append_str(&g->body, response->body, NULL) < 0)
		g->status = -1;
}

static struct got fetch(enum http_method method, const char *target, struct str body)
{
	struct got g = {.body = BUF_INIT(64 << 20)};
	const struct http_request req = {
		.origin = origin, .method = method, .target = str_of(target), .body = body};
	http_fetch_start(client, &req, on_fetched, &g, NULL);
	PUMP(g.calls);
	return g;
}

static struct http_client_stats stats(void)
{
	struct http_client_stats s;
	http_client_stats(client, &s);
	return s;
}

/* ---- tests ---- */

static void test_echo(bool secure)
{
	static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 100000, 4 << 20};
	char *body = pattern(4 << 20);
	begin(secure, NULL, NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct got g = fetch(HTTP_METHOD_POST, "/echo", (struct str){body, sizes[i]});
		is_int(g.status, 200, "%zu bytes%s: %s", sizes[i], secure ? " over TLS" : "",
		       g.err.msg);
		ok(g.body.len == sizes[i] && (!sizes[i] || !memcmp(g.body.p, body, sizes[i])),
		   "come back as they were");
		buf_done(&g.body);
	}
	is_uint(stats().opened, 1, "over one connection");
	struct got g = fetch(HTTP_METHOD_POST, "/echo", (struct str){body, (4 << 20) + 1});
	ok(g.status == 413 || g.err.kind == ERR_UNAVAILABLE, "one more is too much: %d %s",
	   g.status, g.err.msg);
	buf_done(&g.body);
	free(body);
	end();
}

static void test_trust(void)
{
	const struct cert_spec spec = {.subject = "CN=other", .is_ca = true};
	struct test_cert *other = cert_new(&spec, NULL);
	const struct tls_client_opts opts = {.ca_pem = str_of(other->cert_pem)};
	struct tls_config *distrusts;
	struct err err = ERR_INIT;
	if (tls_config_new_client(&opts, &distrusts, &err) < 0)
		bail_out(err.msg);

	begin(true, NULL, NULL);
	struct got g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.status, 200, "the right authority");
	ok(str_eqz(buf_str(&g.body), "secure"), "and the server knows that it's TLS");
	buf_done(&g.body);
	origin.tls = distrusts;
	g = fetch(HTTP_METHOD_POST, "/echo", STR("x"));
	is_int(g.err.kind, ERR_DENIED, "another authority: %s", g.err.msg);
	ok(!g.err.maybe_applied, "nothing was sent");
	buf_done(&g.body);
	origin.tls = tls.for_client;
	origin.server_name = "wrong.example";
	g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.err.kind, ERR_DENIED, "another name: %s", g.err.msg);
	buf_done(&g.body);
	origin.server_name = "localhost";
	g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.status, 200, "a name that the certificate has");
	buf_done(&g.body);
	is_uint(stats().connections, 2, "connections aren't shared between names");
	origin.tls = NULL;
	origin.server_name = NULL;
	g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	ok(g.err.kind == ERR_UNAVAILABLE || g.err.kind == ERR_PROTOCOL,
	   "plain HTTP to TLS fails: %s", g.err.msg);
	buf_done(&g.body);
	end();
	tls_config_unref(distrusts);
	cert_free(other);
}

static void test_new_certificate(void)
{
	const struct cert_spec spec = {
		.subject = "CN=next", .dns = {"next.example"}, .ip4 = {127, 0, 0, 1}};
	struct test_cert *next = cert_new(&spec, tls.ca);
	const struct tls_server_opts opts = {.cert_pem = str_of(next->cert_pem),
					     .key_pem = str_of(next->key_pem)};
	struct tls_config *config;
	struct err err = ERR_INIT;
	if (tls_config_new_server(&opts, &config, &err) < 0)
		bail_out(err.msg);

	begin(true, NULL, NULL);
	origin.server_name = "next.example";
	struct got g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.err.kind, ERR_DENIED, "the first certificate has another name");
	buf_done(&g.body);
	http_server_switch_tls(server, config, tls.for_server);
	g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.err.kind, ERR_DENIED, "switching what isn't there changes nothing");
	buf_done(&g.body);
	http_server_switch_tls(server, tls.for_server, config);
	tls_config_unref(config);
	g = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
	is_int(g.status, 200, "the next one has it: %s", g.err.msg);
	buf_done(&g.body);
	end();
	cert_free(next);
}

struct sink {
	struct http_call *call;
	struct buf text;
	unsigned dones;
	struct err err;
};

static void sink_body(void *arg, struct str piece)
{
	struct sink *s = arg;
	if (buf_append_str(&s->text, piece, NULL) < 0)
		bail_out("the sink is full");
}

static void sink_done(void *arg, const struct err *err)
{
	struct sink *s = arg;
	s->dones++;
	if (err)
		s->err = *err;
}

static const struct http_call_handler sink_handler = {.on_body = sink_body, .on_done = sink_done};

static bool lines_are_right(const struct sink *s, unsigned n)
{
	char line[1000];
	if (s->text.len != (size_t)n * 991)
		return false;
	for (unsigned i = 0; i < n; i++) {
		snprintf(line, sizeof(line), "%0990u\n", i);
		if (memcmp(s->text.p + (size_t)i * 991, line, 991) != 0)
			return false;
	}
	return true;
}

/* 20 MB through a paused reader: the producer stops, nothing is lost, nothing grows. */
static void test_back_pressure(bool secure)
{
	const unsigned n = 20000;
	struct sink s = {.text = BUF_INIT(64 << 20)};
	begin(secure, NULL, NULL);
	source.n = n;
	const struct http_request req = {.origin = origin,
					 .method = HTTP_METHOD_GET,
					 .target = STR("/lines"),
					 .streaming = true};
	s.call = http_call_start(client, &req, &sink_handler, &s, NULL);
	http_call_pause(s.call);
	unsigned before = 0, still = 0;
	while (still < 100) {
		loop_turn(loop, 0);
		still = source.next == before && source.next > 0 ? still + 1 : 0;
		before = source.next;
	}
	ok(source.next < n, "the producer waits at line %u", source.next);
	is_uint(s.text.len, 0, "nothing comes while paused");
	unsigned rounds = 0;
	for (; rounds < 1000 && !s.dones; rounds++) {
		http_call_resume(s.call);
		loop_turn(loop, 0);
		loop_turn(loop, 0);
		if (s.dones)
			break;
		http_call_pause(s.call);
		settle();
	}
	ok(rounds > 10, "it took %u resumes", rounds);
	if (!s.dones)
		http_call_resume(s.call);
	ok(PUMP(s.dones), "the end");
	is_int(s.err.kind, ERR_NONE, "in order: %s", s.err.msg);
	ok(source.ended && lines_are_right(&s, n), "every line came, in its place");
	buf_done(&s.text);

	/* A reader that goes ends its producer. */
	source = (struct source){.n = n};
	struct scope scope;
	scope_init(&scope);
	s = (struct sink){.text = BUF_INIT(64 << 20)};
	s.call = http_call_start(client, &req, &sink_handler, &s, &scope);
	http_call_pause(s.call);
	PUMP(source.next > 0);
	settle();
	scope_cancel(&scope);
	ok(PUMP(source.aborted), "the producer learns that the reader has gone");
	is_uint(s.dones, 0, "the reader isn't called back");
	buf_done(&s.text);
	end();
}

static void test_many(void)
{
	enum { N = 300 };
	const struct http_client_config config = {.max_unary = 4};
	static struct got g[N];
	begin(true, NULL, &config);
	const struct http_request req = {
		.origin = origin, .method = HTTP_METHOD_GET, .target = STR("/hello")};
	for (int i = 0; i < N; i++) {
		g[i] = (struct got){.body = BUF_INIT(100)};
		http_fetch_start(client, &req, on_fetched, &g[i], NULL);
	}
	unsigned most = 0, good = 0;
	for (int turns = 0; turns < 20000 && stats().calls > 0; turns++) {
		loop_turn(loop, 5);
		if (stats().connections > most)
			most = stats().connections;
	}
	for (int i = 0; i < N; i++) {
		good += g[i].calls == 1 && g[i].status == 200;
		buf_done(&g[i].body);
	}
	is_uint(good, N, "all of them were answered");
	ok(most <= 4, "over at most 4 connections (%u)", most);
	ok(stats().reused >= N - 4, "which were used again (%u times)", (unsigned)stats().reused);
	end();
}

static void on_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void count_stop(void *arg)
{
	++*(unsigned *)arg;
}

static void test_stop_under_load(void)
{
	bool stopped = false;
	static struct got g[10];
	begin(false, NULL, NULL);
	for (int i = 0; i < 5; i++) {
		struct got warm = fetch(HTTP_METHOD_GET, "/hello", STR_NULL);
		buf_done(&warm.body);
	}
	const struct http_request req = {
		.origin = origin, .method = HTTP_METHOD_GET, .target = STR("/late")};
	for (int i = 0; i < 10; i++) {
		g[i] = (struct got){.body = BUF_INIT(100)};
		http_fetch_start(client, &req, on_fetched, &g[i], NULL);
	}
	PUMP(n_late == 8);
	settle();
	is_uint(n_late, 8, "eight at once");
	http_server_stop(server, 60000, on_stopped, &stopped);
	settle();
	clock_advance(100); /* what the kernel had taken has been accepted by then */
	settle();
	for (int i = 0; i < 8; i++)
		http_reply(late[i], 200, NULL, NULL, 0, STR("x"));
	unsigned good = 0, refused = 0;
	for (int i = 0; i < 10; i++) {
		PUMP(g[i].calls);
		good += g[i].status == 200;
		refused += g[i].err.kind == ERR_UNAVAILABLE && !g[i].err.maybe_applied;
		buf_done(&g[i].body);
	}
	is_uint(good, 8, "what was accepted is answered");
	is_uint(refused, 2, "the others weren't, and nothing of them was sent");
	ok(PUMP(stopped), "stopped");
	end();
}

/* ---- requests that don't end, over HTTP/2 ---- */

struct half { /* a client that may hold back what it has to say */
	struct end end;
	struct h2_session *session;
	struct buf rest;
};

static void half_open(struct half *h)
{
	raw_open(&h->end, origin.port, h2_client);
	h->session = h2_session_new(H2_CLIENT, NULL);
	buf_init(&h->rest, 1 << 20);
}

/* All but the last bytes, which wait in rest. */
static void half_send(struct half *h, size_t but)
{
	h2_session_output(h->session, &h->rest, h->rest.limit, NULL);
	net_conn_write(h->end.conn, h->rest.p, h->rest.len - but, NULL);
	buf_consume(&h->rest, h->rest.len - but);
	settle();
}

static void half_ask(struct half *h, const char *method, const char *path, struct str body,
		     size_t but)
{
	const struct h2_header headers[] = {{STR(":method"), str_of(method)},
					    {STR(":scheme"), STR("https")},
					    {STR(":path"), str_of(path)},
					    {STR(":authority"), STR("localhost")}};
	int32_t stream;
	if (h2_session_request(h->session, headers, 4, body, &stream, NULL) < 0)
		bail_out("no request");
	half_send(h, but);
}

/* The next event of that type that the server sends; 0: none. Returns its stream. */
static int32_t half_hears(struct half *h, enum h2_event_type type)
{
	struct h2_event ev = {0};
	settle();
	h2_session_feed(h->session, h->end.in.p, h->end.in.len, NULL);
	buf_clear(&h->end.in);
	while (h2_session_next(h->session, &ev))
		if (ev.type == type)
			return ev.stream ? ev.stream : -1;
	return 0;
}

static void half_is(struct half *h, int32_t stream, const char *status, const char *body)
{
	const struct h2_message *m = h2_session_message(h->session, stream);
	ok(m && str_eqz(h2_header_get(m->headers, m->n_headers, ":status"), status) &&
		   memmem(m->body.p, m->body.len, body, strlen(body)),
	   "stream %d: %s, %s", stream, status, body);
}

static void half_close(struct half *h)
{
	end_done(&h->end);
	h2_session_free(h->session);
	buf_done(&h->rest);
	end();
}

static void test_unfinished_requests(void)
{
	CLEANUP_FREE char *body = pattern(1000);
	struct half h;

	row_begin("a body that doesn't end, beside a request that waits for its answer");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/late", STR_NULL, 0);
	half_ask(&h, "POST", "/echo", (struct str){body, 1000}, 1);
	clock_advance(29999);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 0, "has 30 s");
	clock_advance(1);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 3, "then it's answered");
	half_is(&h, 3, "408", "the request's body didn't arrive in time");
	http_reply(late[0], 200, NULL, NULL, 0, STR("here"));
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 1, "and so is the other, in its own time");
	half_is(&h, 1, "200", "here");
	half_ask(&h, "GET", "/hello", STR_NULL, 0);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 5, "the connection goes on");
	half_close(&h);

	row_begin("a body that ends in time, on a connection that was idle");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "POST", "/echo", (struct str){body, 1000}, 1);
	clock_advance(29999);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 0, "not closed as a fresh one");
	half_send(&h, 0);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 1, "answered");
	half_is(&h, 1, "200", "");
	clock_advance(59000);
	half_ask(&h, "POST", "/echo", (struct str){body, 1000}, 1);
	clock_advance(29999);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 0, "not closed as an idle one");
	half_send(&h, 0);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 3, "answered");
	clock_advance(61000);
	ok(PUMP(h.end.eof || h.end.errors), "closed once it's idle");
	half_close(&h);

	row_begin("a head that doesn't end");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/late", STR_NULL, 0);
	half_ask(&h, "GET", "/hello", STR_NULL, 10); /* behind it is an empty DATA frame */
	clock_advance(9999);
	is_int(half_hears(&h, H2_EVENT_GOAWAY), 0, "has 10 s");
	clock_advance(1);
	is_int(half_hears(&h, H2_EVENT_GOAWAY), -1, "then the connection ends");
	ok(PUMP(h.end.eof || h.end.errors), "and is closed");
	half_close(&h);
	row_end();
}

/* What HTTP/1.1 refuses (http_codec_test), and nghttp2 lets through. */
static void test_bad_requests(void)
{
	static const struct {
		const char *path, *authority, *host, *status, *body;
	} rows[] = {
		{"/hello#part", "localhost", NULL, "400", "bad character in the request's target"},
		{"/h\xc3\xa9llo", "localhost", NULL, "400",
		 "bad character in the request's target"},
		{"/hello", "localhost", "elsewhere", "400", "not exactly one Host field"},
		{"/hello", "localhost", "localhost", "200", "secure"},
		{"/hello", "a,b", NULL, "400", "bad Host field"},
	};
	struct half h;

	begin(true, NULL, NULL);
	half_open(&h);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct h2_header headers[] = {
			{STR(":method"), STR("GET")},
			{STR(":scheme"), STR("https")},
			{STR(":path"), str_of(rows[i].path)},
			{STR(":authority"), str_of(rows[i].authority)},
			{STR("host"), str_of(rows[i].host)},
		};
		int32_t stream;
		row_begin("%s %s %s", rows[i].path, rows[i].authority,
			  rows[i].host ? rows[i].host : "alone");
		if (h2_session_request(h.session, headers, rows[i].host ? 5 : 4, STR_NULL, &stream,
				       NULL) < 0)
			bail_out("no request");
		half_send(&h, 0);
		is_int(half_hears(&h, H2_EVENT_MESSAGE), stream, "answered");
		half_is(&h, stream, rows[i].status, rows[i].body);
	}
	row_end();
	half_close(&h);
}

/* What all requests of all connections together may hold. */
static void test_many_bodies(void)
{
	const struct http_server_config config = {.max_bodies_bytes = 100000};
	CLEANUP_FREE char *body = pattern(60000);
	struct http_server_stats s;
	struct half first, second;

	row_begin("bodies of two connections");
	begin(true, &config, NULL);
	half_open(&first);
	half_open(&second);
	half_ask(&first, "POST", "/echo", (struct str){body, 60000}, 1);
	half_ask(&second, "POST", "/echo", (struct str){body, 60000}, 1);
	is_int(half_hears(&second, H2_EVENT_MESSAGE), 1, "the second is too much");
	half_is(&second, 1, "503", "too much is being received at once: try again");
	http_server_stats(server, &s);
	is_uint(s.refused, 1, "and counted as refused");
	half_send(&second, 0);
	half_ask(&second, "POST", "/echo", (struct str){body, 1000}, 0);
	is_int(half_hears(&second, H2_EVENT_MESSAGE), 3, "its connection goes on");
	half_is(&second, 3, "200", "");
	half_send(&first, 0);
	is_int(half_hears(&first, H2_EVENT_MESSAGE), 1, "the first is whole");
	half_is(&first, 1, "200", "");
	half_ask(&first, "POST", "/echo", (struct str){body, 60000}, 1);
	end_done(&first.end); /* and takes what it holds with it */
	h2_session_free(first.session);
	buf_done(&first.rest);
	settle();
	half_ask(&second, "POST", "/echo", (struct str){body, 60000}, 0);
	is_int(half_hears(&second, H2_EVENT_MESSAGE), 5, "then there is room again");
	half_is(&second, 5, "200", "");
	half_close(&second);
	row_end();
}

/* ---- ends of connections of HTTP/2, none of which cuts anything off ---- */

/* Reads on and lets the server go on. True: all of the large answer has come. */
static bool half_takes_large(struct half *h)
{
	int32_t stream;
	while (!(stream = half_hears(h, H2_EVENT_MESSAGE)) && !h->end.eof && !h->end.errors)
		half_send(h, 0);
	return stream && h2_session_message(h->session, stream)->body.len == LARGE_BYTES;
}

static void test_stops(void)
{
	CLEANUP_FREE char *body = pattern(20000);
	unsigned stopped = 0;
	struct half h;

	row_begin("a stop, and an answer that is being taken");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/large", STR_NULL, 0);
	http_server_stop(server, 5000, count_stop, &stopped);
	clock_advance(100);
	settle();
	is_uint(stopped, 0, "is waited for");
	ok(half_takes_large(&h), "it comes whole");
	ok(PUMP(stopped == 1), "then that was all");
	half_close(&h);

	row_begin("a stop, and a request that isn't complete");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/hello", STR_NULL, 0);
	half_hears(&h, H2_EVENT_MESSAGE);
	half_ask(&h, "POST", "/echo", (struct str){body, 1000}, 1);
	http_server_stop(server, 5000, count_stop, &stopped);
	clock_advance(100);
	settle();
	is_uint(stopped, 1, "is waited for");
	half_send(&h, 0);
	is_int(half_hears(&h, H2_EVENT_MESSAGE), 3, "answered");
	half_is(&h, 3, "200", "");
	ok(PUMP(stopped == 2), "then that was all");
	half_close(&h);

	row_begin("a stop, and a request that its client gives up");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/hello", STR_NULL, 0);
	half_hears(&h, H2_EVENT_MESSAGE);
	half_ask(&h, "POST", "/echo", (struct str){body, 20000}, 20000 - 16384 + 9);
	http_server_stop(server, 5000, count_stop, &stopped);
	clock_advance(100);
	settle();
	is_uint(stopped, 2, "its second frame is waited for");
	buf_clear(&h.rest);
	h2_session_reset(h.session, 3, H2_CANCEL);
	half_send(&h, 0);
	ok(PUMP(stopped == 3), "and not any more");
	half_close(&h);
	row_end();
}

static void test_idle(void)
{
	struct half h;

	row_begin("idle connections are dropped");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/large", STR_NULL, 0);
	http_server_drop_idle(server);
	ok(half_takes_large(&h), "not one whose answer is being taken");
	ok(PUMP(h.end.eof || h.end.errors), "it's closed behind that");
	half_close(&h);

	row_begin("a peer that reads slowly");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/large", STR_NULL, 0);
	for (int i = 0; i < 3; i++) {
		clock_advance(59000);
		half_hears(&h, H2_EVENT_NONE);
		half_send(&h, 0);
	}
	ok(half_takes_large(&h), "has its answer");
	half_close(&h);

	row_begin("a peer that doesn't read");
	begin(true, NULL, NULL);
	half_open(&h);
	half_ask(&h, "GET", "/large", STR_NULL, 0);
	clock_advance(60000);
	settle();
	clock_advance(60000);
	ok(PUMP(h.end.eof || h.end.errors), "is closed when it has taken nothing for a while");
	half_close(&h);
	row_end();
}

/* The n-th allocation of a size that the peer decides fails, for every n: an error, or nothing
 * noticed, but an end in any case. */
static void test_failing_allocations(void)
{
	unsigned done = 0, failed = 0;
	struct no_memory m = {0};
	char *body = pattern(200000);
	while (no_memory_next(&m)) {
		begin(false, NULL, NULL);
		no_memory_begin(&m);
		struct got g = fetch(HTTP_METHOD_POST, "/echo", (struct str){body, 200000});
		no_memory_end(&m);
		done += g.calls == 1;
		failed += g.status != 200;
		buf_done(&g.body);
		end();
	}
	no_memory_ok(&m, 1);
	is_uint(done, m.tries, "%u runs, each with its end", m.tries);
	ok(failed > 0 && failed < m.tries, "%u of them with an error", failed);
	free(body);
}

int main(void)
{
	test_begin();
	test_tls_init(&tls);
	test_echo(false);
	test_echo(true);
	test_trust();
	test_new_certificate();
	test_back_pressure(false);
	test_back_pressure(true);
	test_many();
	test_stop_under_load();
	test_failing_allocations();

	static const char *const alpn[] = {"h2", NULL};
	const struct tls_server_opts so = {.cert_pem = str_of(tls.server->cert_pem),
					   .key_pem = str_of(tls.server->key_pem),
					   .alpn = alpn};
	const struct tls_client_opts co = {.ca_pem = str_of(tls.ca->cert_pem), .alpn = alpn};
	struct err err = ERR_INIT;
	if (tls_config_new_server(&so, &h2_server, &err) < 0 ||
	    tls_config_new_client(&co, &h2_client, &err) < 0)
		bail_out(err.msg);
	h2 = true;
	row_begin("HTTP/2");
	test_echo(true);
	test_back_pressure(true);
	test_many();
	test_stop_under_load();
	test_unfinished_requests();
	test_bad_requests();
	test_many_bodies();
	test_stops();
	test_idle();
	test_failing_allocations();
	row_end();
	tls_config_unref(h2_server);
	tls_config_unref(h2_client);
	test_tls_done(&tls);
	test_end();
	return done_testing();
}
