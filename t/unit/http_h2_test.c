/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client over HTTP/2, against servers that the test plays: many calls on one connection,
 * back-pressure of one, ends of streams and of connections, silence, limits.
 */
#include "http_h2_rig.h"

/* ---- requests and responses ---- */

static void test_request(void)
{
	const struct http_header headers[] = {HTTP_H("Authorization", "Bearer x"),
					      HTTP_H("Content-Type", "application/json")};
	static const struct {
		const char *name, *value;
	} want[] = {
		{":method", "POST"},
		{":scheme", "https"},
		{":path", "/x?y=z"},
		{"authorization", "Bearer x"},
		{"content-type", "application/json"},
		{"content-length", "4"},
		{"user-agent", "ipu-operator"},
		{"accept-encoding", "identity"},
	};
	struct rec r = REC_INIT;
	char authority[32];

	begin(NULL);
	struct http_request req = request(HTTP_METHOD_POST);
	req.headers = headers;
	req.n_headers = 2;
	req.body = STR("{  }");
	rec_start(&r, &req);
	ok(got(0, 0), "a request comes");
	const struct h2_message *m = h2_session_message(of(0), peers[0].streams[0]);
	is_mem(m->body.p, m->body.len, "{  }", 4, "its body");
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct str v = h2_header_get(m->headers, m->n_headers, want[i].name);
		is_mem(v.p ? v.p : "", v.len, want[i].value, strlen(want[i].value), "%s",
		       want[i].name);
	}
	snprintf(authority, sizeof(authority), "127.0.0.1:%u", origin.port);
	struct str v = h2_header_get(m->headers, m->n_headers, ":authority");
	is_mem(v.p ? v.p : "", v.len, authority, strlen(authority), ":authority");
	ok(!h2_header_get(m->headers, m->n_headers, "host").p &&
		   !h2_header_get(m->headers, m->n_headers, "connection").p,
	   "nothing of HTTP/1.1's own");
	reply(0, 0, "201", STR("made"));
	PUMP(r.dones);
	rec_is(&r, "<201>made.", "the response");
	end();
	buf_done(&r.text);
}

static void test_many(void)
{
	struct rec r[20];
	const unsigned n = sizeof(r) / sizeof(r[0]);

	begin(NULL);
	for (unsigned i = 0; i < n; i++) {
		struct http_request req = request(HTTP_METHOD_GET);
		r[i] = (struct rec)REC_INIT;
		req.streaming = i < 10;
		req.urgent = i == 19;
		rec_start(&r[i], &req);
	}
	ok(got(0, 18), "ten streams, eight calls and an urgent one");
	settle();
	is_uint(peers[0].n_streams, 19, "the one beyond max_unary waits");
	is_uint(stats().queued, 1, "in the queue");
	is_uint(stats().connections, 1, "one connection");
	is_uint(stats().opened, 1, "opened once");
	for (unsigned i = 0; i < 19; i++)
		reply(0, i, "200", STR("ok"));
	ok(got(0, 19), "the last one comes");
	reply(0, 19, "200", STR("ok"));
	for (unsigned i = 0; i < n; i++) {
		PUMP(r[i].dones);
		rec_is(&r[i], "<200>ok.", "each has its response");
		buf_done(&r[i].text);
	}
	is_uint(stats().idle, 1, "then it's idle");
	clock_advance(60000);
	ok(PUMP(peers[0].lost), "and closed after its time");
	is_uint(stats().connections, 0, "gone");
	end();
}

static void test_falls_back(void)
{
	static const char *const old[] = {"http/1.1", NULL};
	const struct tls_server_opts so = {.cert_pem = str_of(certs.server->cert_pem),
					   .key_pem = str_of(certs.server->key_pem),
					   .alpn = old};
	struct tls_config *servers[2] = {NULL, certs.for_server};
	struct err err = ERR_INIT;

	if (tls_config_new_server(&so, &servers[0], &err) < 0)
		bail_out(err.msg);
	for (unsigned i = 0; i < 2; i++) {
		struct rec r[3] = {REC_INIT, REC_INIT, REC_INIT};
		row_begin("%s", i == 0 ? "http/1.1 alone" : "no ALPN");
		begin_with(NULL, servers[i]);
		for (unsigned k = 0; k < 3; k++) {
			struct http_request req = request(HTTP_METHOD_GET);
			rec_start(&r[k], &req);
		}
		ok(PUMP(stats().connections == 3), "a connection for each");
		ok(PUMP(n_peers == 3 && peers[0].lost),
		   "and what comes isn't HTTP/2 to an HTTP/2 server");
		end();
		for (unsigned k = 0; k < 3; k++)
			buf_done(&r[k].text);
		row_end();
	}
	tls_config_unref(servers[0]);
}

static void test_pause(void)
{
	const size_t len = (size_t)2 << 20;
	struct rec slow = REC_INIT, quick = REC_INIT;
	struct http_request req;
	CLEANUP_FREE char *body = pattern(len);

	begin(NULL);
	req = request(HTTP_METHOD_GET);
	req.streaming = true;
	slow.pause_at = AT_HEAD;
	slow.counts = quick.counts = true;
	rec_start(&slow, &req);
	rec_start(&quick, &req);
	got(0, 1);
	begin_reply(0, 0, (struct str){body, len});
	end_reply(0, 0);
	begin_reply(0, 1, (struct str){body, len});
	end_reply(0, 1);
	ok(PUMP(quick.dones), "the other stream isn't held up");
	is_uint(quick.body_bytes, len, "all of it came");
	settle();
	is_uint(slow.body_bytes, 0, "nothing of the paused one");
	is_uint(h2_session_waiting(of(0), peers[0].streams[0]), len - (256 << 10),
		"the server holds what is beyond a window");
	http_call_resume(slow.call);
	is_uint(slow.body_bytes, 0, "a resume calls nobody back");
	ok(PUMP(slow.dones), "then it goes on to its end");
	is_uint(slow.body_bytes, len, "whole");
	end();

	/* Complete, but paused. */
	begin(NULL);
	buf_clear(&slow.text);
	slow = (struct rec){.text = slow.text, .pause_at = AT_BODY};
	req = request(HTTP_METHOD_GET);
	req.streaming = true;
	rec_start(&slow, &req);
	got(0, 0);
	begin_reply(0, 0, STR("abc"));
	write_reply(0, 0, STR("def"));
	end_reply(0, 0);
	PUMP(stats().idle == 1);
	rec_is(&slow, "<200>abc", "one piece, and no end");
	h2_transport_end(&peers[0].t, 0);
	settle();
	is_uint(slow.dones, 0, "the connection's end is nothing to it");
	slow.pause_at = AT_NEVER;
	http_call_resume(slow.call);
	PUMP(slow.dones);
	rec_is(&slow, "<200>abcdef.", "all of it");
	end();
	buf_done(&slow.text);
	buf_done(&quick.text);
}

static void test_cancel(void)
{
	static const enum step at[] = {AT_NEVER, AT_HEAD, AT_BODY};
	for (unsigned i = 0; i < 3; i++) {
		struct rec r = REC_INIT, other = REC_INIT;
		struct http_request req = request(HTTP_METHOD_GET);
		row_begin("cancel %u", i);
		begin(NULL);
		r.cancel_at = at[i];
		req.streaming = true;
		rec_start(&r, &req);
		rec_start(&other, &req);
		got(0, 1);
		if (i == 0)
			op_cancel(&r.call->op);
		else
			begin_reply(0, 0, STR("body"));
		begin_reply(0, 1, STR("x"));
		ok(PUMP(other.text.len == 6), "the other call's response comes");
		ok(PUMP(h2_session_streams(of(0)) == 1), "the stream is gone at the server's too");
		write_reply(0, 1, STR("y"));
		end_reply(0, 1);
		PUMP(other.dones);
		rec_is(&other, "<200>xy.", "the other goes on");
		is_uint(r.dones, 0, "never called back");
		is_uint(stats().connections, 1, "over the same connection");
		end();
		buf_done(&r.text);
		buf_done(&other.text);
		row_end();
	}
}

/* ---- streams that end early ---- */

/* A test, or a row of one, with a call that has ended. */
static void ends(struct rec *r, const char *want)
{
	PUMP(r->dones);
	rec_is(r, want, "ends");
	end();
	buf_done(&r->text);
}

/* A test with a stream whose answer has begun to come. */
static void begin_with_stream(struct rec *r, struct str first)
{
	struct http_request req = request(HTTP_METHOD_GET);

	begin(NULL);
	req.streaming = true;
	rec_start(r, &req);
	got(0, 0);
	begin_reply(0, 0, first);
	PUMP(r->text.len == strlen("<200>") + first.len);
}

static void test_resets(void)
{
	static const struct {
		enum http_method method;
		uint32_t code;
		unsigned times; /* that the server does it */
		const char *want;
	} rows[] = {
		{HTTP_METHOD_POST, H2_REFUSED_STREAM, 1, "<200>."},
		{HTTP_METHOD_POST, H2_REFUSED_STREAM, 3, "<200>."},
		{HTTP_METHOD_POST, H2_REFUSED_STREAM, 4, "!unavailable"},
		{HTTP_METHOD_POST, H2_INTERNAL_ERROR, 1, "!unavailable maybe"},
		{HTTP_METHOD_GET, H2_CANCEL, 1, "!unavailable maybe"},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		struct http_request req = request(rows[i].method);
		unsigned n = 0;
		row_begin("%s, code %u, %u times", http_method_name(rows[i].method), rows[i].code,
			  rows[i].times);
		begin(NULL);
		rec_start(&r, &req);
		for (; n < rows[i].times && got(0, n); n++) {
			h2_session_reset(of(0), peers[0].streams[n], rows[i].code);
			send_now(0);
		}
		if (PUMP(r.dones || peers[0].n_streams > n) && !r.dones)
			reply(0, n, "200", STR_NULL);
		PUMP(r.dones);
		is_uint(stats().connections, 1, "the connection stays");
		ends(&r, rows[i].want);
		row_end();
	}
	struct rec r = REC_INIT;
	row_begin("in the middle");
	begin_with_stream(&r, STR("half"));
	h2_session_reset(of(0), peers[0].streams[0], H2_INTERNAL_ERROR);
	send_now(0);
	ends(&r, "<200>half!unavailable maybe");
	row_end();
}

/* All of it comes in one piece: the stream is gone before its head is told. */
static void test_head_and_reset_at_once(void)
{
	const struct h2_header headers[] = {{STR(":status"), STR("200")}};
	struct http_request req = request(HTTP_METHOD_GET);
	struct rec r = REC_INIT;
	struct buf out = BUF_INIT(1 << 16);

	row_begin("a head and a reset at once");
	begin(NULL);
	rec_start(&r, &req);
	got(0, 0);
	h2_session_respond_begin(of(0), peers[0].streams[0], headers, 1, NULL);
	h2_session_write(of(0), peers[0].streams[0], STR("half"), NULL);
	h2_session_output(of(0), &out, 1 << 16, NULL);
	h2_session_reset(of(0), peers[0].streams[0], H2_INTERNAL_ERROR);
	h2_session_output(of(0), &out, 1 << 16, NULL);
	net_conn_write(peers[0].t.conn, out.p, out.len, NULL);
	buf_done(&out);
	ends(&r, "<200>half!unavailable maybe");
	row_end();
}

/* ---- connections that end ---- */

static void test_goaway(void)
{
	struct rec stream = REC_INIT, late = REC_INIT, next = REC_INIT;

	begin_with_stream(&stream, STR("a"));
	/* A request that the server hasn't looked at when it says goodbye. */
	net_conn_read_stop(peers[0].t.conn);
	struct http_request post = request(HTTP_METHOD_POST);
	rec_start(&late, &post);
	settle();
	h2_session_goaway(of(0), H2_NO_ERROR);
	send_now(0);
	ok(got(1, 0), "goes to another connection");
	net_conn_read_start(peers[0].t.conn);
	rec_start(&next, &post);
	ok(got(1, 1), "and so do new ones");
	reply(1, 0, "200", STR_NULL);
	reply(1, 1, "200", STR_NULL);
	PUMP(late.dones && next.dones);
	rec_is(&late, "<200>.", "the refused POST is answered");
	rec_is(&next, "<200>.", "the new one too");
	is_uint(stats().connections, 2, "two connections");
	write_reply(0, 0, STR("b"));
	end_reply(0, 0);
	PUMP(stream.dones);
	rec_is(&stream, "<200>ab.", "the running stream ends by itself");
	ok(PUMP(stats().connections == 1), "then its connection is closed");
	end();
	buf_done(&stream.text);
	buf_done(&late.text);
	buf_done(&next.text);
}

static void test_lost(void)
{
	static const struct {
		enum http_method method;
		bool used, begun;
		const char *want;
	} rows[] = {
		{HTTP_METHOD_GET, true, false, "<200>."},
		{HTTP_METHOD_POST, true, false, "!unavailable maybe"},
		{HTTP_METHOD_GET, false, false, "!unavailable maybe"},
		{HTTP_METHOD_GET, true, true, "<200>x!unavailable maybe"},
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rec r = REC_INIT;
		struct http_request req = request(rows[i].method);
		row_begin("%s %s %s", http_method_name(rows[i].method), rows[i].used ? "used" : "",
			  rows[i].begun ? "begun" : "");
		begin(NULL);
		if (rows[i].used)
			warm_up();
		rec_start(&r, &req);
		got(0, rows[i].used);
		if (rows[i].begun)
			begin_reply(0, rows[i].used, STR("x"));
		settle();
		h2_transport_end(&peers[0].t, 0);
		PUMP(r.dones || (n_peers == 2 && peers[1].n_streams));
		if (!r.dones)
			reply(1, 0, "200", STR_NULL);
		ends(&r, rows[i].want);
		row_end();
	}
}

static void test_max_streams(void)
{
	struct rec r[5];

	peer_limits = (struct h2_limits){.streams = 2};
	begin_with(NULL, h2_server);
	warm_up();
	for (unsigned i = 0; i < 5; i++) {
		struct http_request req = request(HTTP_METHOD_POST);
		r[i] = (struct rec)REC_INIT;
		rec_start(&r[i], &req);
	}
	ok(got(0, 2) && got(1, 1) && got(2, 0), "two on each of as many connections as it takes");
	settle();
	is_uint(n_peers, 3, "and no more");
	reply(0, 1, "200", STR_NULL);
	reply(0, 2, "200", STR_NULL);
	reply(1, 0, "200", STR_NULL);
	reply(1, 1, "200", STR_NULL);
	reply(2, 0, "200", STR_NULL);
	for (unsigned i = 0; i < 5; i++) {
		PUMP(r[i].dones);
		rec_is(&r[i], "<200>.", "answered");
		buf_done(&r[i].text);
	}
	end();
}

static void test_drop_idle(void)
{
	struct rec r = REC_INIT, next = REC_INIT, third = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);

	begin(NULL);
	rec_start(&r, &req);
	got(0, 0);
	http_client_drop_idle(client);
	rec_start(&next, &req);
	ok(got(1, 0), "a new call has a new connection");
	/* Other settings (a renewed client certificate) are another connection by themselves. */
	req.origin.tls = h2_client2;
	rec_start(&third, &req);
	ok(got(2, 0), "and so has one with other credentials");
	reply(0, 0, "200", STR_NULL);
	reply(1, 0, "200", STR_NULL);
	reply(2, 0, "401", STR("no"));
	PUMP(r.dones && next.dones && third.dones);
	rec_is(&r, "<200>.", "a running call isn't disturbed");
	rec_is(&third, "<401>no.", "a status is no error");
	ok(PUMP(stats().connections == 2), "but its connection isn't kept");
	http_client_drop_idle(client);
	ok(PUMP(stats().connections == 0), "idle ones go at once");
	end();
	buf_done(&r.text);
	buf_done(&next.text);
	buf_done(&third.text);
}

/* ---- time ---- */

static void test_silence(void)
{
	struct rec r = REC_INIT;

	begin_with_stream(&r, STR("x"));
	for (unsigned i = 0; i < 3; i++) {
		clock_advance(30000);
		settle();
	}
	is_uint(r.dones, 0, "a server that answers PINGs may be silent");
	is_uint(stats().connections, 1, "and keeps its connection");
	net_conn_read_stop(peers[0].t.conn);
	clock_advance(30000);
	settle();
	clock_advance(14999);
	settle();
	is_uint(r.dones, 0, "one that doesn't has 15 s");
	clock_advance(1);
	ok(PUMP(r.dones), "and no more");
	has_str(r.err.msg, "PING", "says why");
	is_uint(stats().connections, 0, "its connection is given up");
	ends(&r, "<200>x!unavailable maybe");
}

static void test_doubt(void)
{
	struct rec watch = REC_INIT, r = REC_INIT, next = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);

	begin(NULL);
	req.streaming = true;
	rec_start(&watch, &req);
	req.streaming = false;
	req.first_byte_ms = 1000;
	rec_start(&r, &req);
	got(0, 1);
	begin_reply(0, 1, STR("x")); /* ordinary calls go first */
	clock_advance(1000);
	PUMP(r.dones);
	rec_is(&r, "!timeout maybe", "a deadline");
	ok(PUMP(h2_session_streams(of(0)) == 1), "resets the stream");
	settle();
	rec_start(&next, &req);
	ok(got(0, 2), "the connection lives, by its PONG, and is used");
	/* What comes may still come, but what goes is lost. */
	net_conn_read_stop(peers[0].t.conn);
	clock_advance(1000);
	PUMP(next.dones);
	write_reply(0, 1, STR("y"));
	buf_clear(&r.text);
	rec_start(&r, &req);
	ok(got(1, 0), "in doubt the next call has another connection at once");
	reply(1, 0, "200", STR_NULL);
	PUMP(r.dones == 2);
	rec_is(&r, "<200>.", "and its answer");
	is_uint(watch.dones, 0, "the stream has its time");
	clock_advance(5000);
	PUMP(watch.dones);
	rec_is(&watch, "<200>xy!unavailable maybe", "until the PONG is overdue");
	end();
	buf_done(&watch.text);
	buf_done(&r.text);
	buf_done(&next.text);
}

/* The first attempt answers nothing, not even to TLS. */
static void test_patience(void)
{
	struct rec r[4];

	begin_with(NULL, NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct http_request req = request(HTTP_METHOD_GET);
		r[i] = (struct rec)REC_INIT;
		req.connect_ms = 5000;
		req.urgent = i == 0;
		rec_start(&r[i], &req);
	}
	PUMP(n_peers == 1);
	settle();
	is_uint(n_peers, 1, "one attempt for all");
	clock_advance(2000);
	ok(PUMP(n_peers == 2), "and a second one when that takes long");
	settle();
	is_uint(n_peers, 2, "but one at a time");
	end();
	for (unsigned i = 0; i < 4; i++)
		buf_done(&r[i].text);
}

static void test_refused_connection(void)
{
	struct rec r[3];

	begin(NULL);
	net_listener_close(listener);
	listener = NULL;
	for (unsigned i = 0; i < 3; i++) {
		struct http_request req = request(HTTP_METHOD_POST);
		r[i] = (struct rec)REC_INIT;
		req.streaming = i == 1;
		req.urgent = i == 2;
		rec_start(&r[i], &req);
	}
	for (unsigned i = 0; i < 3; i++) {
		PUMP(r[i].dones);
		rec_is(&r[i], "!unavailable", "nobody is there, for all that it was for");
		buf_done(&r[i].text);
	}
	end();
}

/* ---- limits ---- */

static void test_limits(void)
{
	const struct http_client_config config = {.max_head_bytes = 1000};
	struct rec big = REC_INIT, wide = REC_INIT, fine = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);
	char value[1001];

	memset(value, 'v', 1000);
	value[1000] = '\0';
	begin(&config);
	req.max_body_bytes = 10;
	rec_start(&big, &req);
	rec_start(&wide, &req);
	rec_start(&fine, &req);
	got(0, 2);
	reply(0, 0, "200", STR("eleven char"));
	const struct h2_header headers[] = {{STR(":status"), STR("200")},
					    {STR("x"), str_of(value)}};
	h2_session_respond(of(0), peers[0].streams[1], headers, 2, STR("b"), NULL, 0, NULL);
	send_now(0);
	reply(0, 2, "200", STR("ten chars."));
	PUMP(big.dones && wide.dones && fine.dones);
	rec_is(&big, "<200>!limit maybe", "a body over its limit");
	rec_is(&wide, "!limit maybe", "a head over its limit");
	rec_is(&fine, "<200>ten chars..", "one within, on the same connection");
	is_uint(stats().connections, 1, "which stays");
	end();
	buf_done(&big.text);
	buf_done(&wide.text);
	buf_done(&fine.text);
}

static void test_flood(void)
{
	struct rec r = REC_INIT;
	struct http_request req = request(HTTP_METHOD_GET);

	peer_limits = (struct h2_limits){.control_frames = 1000000}; /* our answers */
	begin_with(NULL, h2_server);
	rec_start(&r, &req);
	got(0, 0);
	for (unsigned i = 0; i < 15000 && !r.dones; i++) {
		h2_session_ping(of(0));
		if (i % 500 == 0)
			send_now(0);
	}
	send_now(0);
	PUMP(r.dones);
	rec_is(&r, "!limit maybe", "a flood ends the connection");
	ok(PUMP(stats().connections == 0), "at once");
	end();
	buf_done(&r.text);
}

int main(void)
{
	static const char *const both[] = {"h2", "http/1.1", NULL};
	struct err err = ERR_INIT;

	test_begin();
	test_tls_init(&certs);
	const struct tls_server_opts so = {.cert_pem = str_of(certs.server->cert_pem),
					   .key_pem = str_of(certs.server->key_pem),
					   .alpn = both};
	const struct tls_client_opts co = {.ca_pem = str_of(certs.ca->cert_pem), .alpn = both};
	if (tls_config_new_server(&so, &h2_server, &err) < 0 ||
	    tls_config_new_client(&co, &h2_client, &err) < 0 ||
	    tls_config_new_client(&co, &h2_client2, &err) < 0)
		bail_out(err.msg);
	test_request();
	test_many();
	test_falls_back();
	test_pause();
	test_cancel();
	test_resets();
	test_head_and_reset_at_once();
	test_goaway();
	test_lost();
	test_max_streams();
	test_drop_idle();
	test_silence();
	test_doubt();
	test_patience();
	test_refused_connection();
	test_limits();
	test_flood();
	tls_config_unref(h2_server);
	tls_config_unref(h2_client);
	tls_config_unref(h2_client2);
	test_tls_done(&certs);
	test_end();
	return done_testing();
}
