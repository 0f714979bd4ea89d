/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the live page's events who are slow, who never read, and of whom there are many: what
 * they are told, and what may wait for them. The page's data is made up here, frame by frame.
 */
#include "http_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/metrics.h"
#include "proxy/stream.h"

/* ---- the data ---- */

#define SNAPSHOT_BYTES                                                                             \
	((size_t)5 << 20) /* more than the kernel takes for a peer that doesn't read */
#define KEPT 8

struct live {
	struct live_watch *watch;
	uint64_t n; /* the last frame's number */
	size_t frame_bytes, snapshot_bytes;
	uint64_t fetched; /* frames that were asked for */
	uint64_t jump;    /* so much changes behind the next request, and isn't kept */
	unsigned snapshots;
	char *text;
};

static struct live data;

static void id_of(uint64_t n, char z[LIVE_ID_SIZE])
{
	snprintf(z, LIVE_ID_SIZE, "e-%" PRIu64, n);
}

int live_snapshot(struct live *l, struct str *ret_json, char ret_id[LIVE_ID_SIZE], struct err *err)
{
	(void)err;
	l->snapshots++;
	id_of(l->n, ret_id);
	*ret_json = (struct str){l->text, l->snapshot_bytes};
	return 0;
}

bool live_resume(const struct live *l, const char *last_id, uint64_t *ret_next)
{
	char z[LIVE_ID_SIZE];

	for (uint64_t n = l->n > KEPT ? l->n - KEPT : 0; n <= l->n; n++) {
		id_of(n, z);
		*ret_next = n + 1;
		if (strcmp(z, last_id) == 0)
			return true;
	}
	return false;
}

bool live_next(const struct live *l, uint64_t *next, struct live_frame *ret, bool *ret_gone)
{
	*ret_gone = *next + KEPT <= l->n;
	if (*ret_gone || *next > l->n)
		return false;
	data.fetched++;
	id_of(*next, ret->id);
	ret->json = (struct str){l->text, l->frame_bytes};
	++*next;
	return true;
}

void live_watch_start(struct live *l, struct live_watch *w, void (*fn)(void *arg), void *arg)
{
	*w = (struct live_watch){.fn = fn, .arg = arg};
	l->watch = w;
}

void live_watch_stop(struct live_watch *w)
{
	(void)w;
	data.watch = NULL;
}

static void frame(void)
{
	data.n++;
	data.watch->fn(data.watch->arg);
}

/* ---- a server with nothing else ---- */

#define MAX_VIEWERS 12

static struct stream *stream;
static struct http_server *server;
static unsigned port;
static struct http_exchange *last;

static void handle(struct http_exchange *ex, void *arg)
{
	(void)arg;
	last = ex;
	if (str_eqz(ex->path, "/live"))
		stream_reply_snapshot(stream, ex);
	else
		stream_reply_events(stream, ex);
	data.n += data.jump;
	data.jump = 0;
}

static void begin(size_t frame_bytes, size_t snapshot_bytes)
{
	struct err err = ERR_INIT;

	data = (struct live){.n = 1, .frame_bytes = frame_bytes, .snapshot_bytes = snapshot_bytes};
	data.text = xcalloc(SNAPSHOT_BYTES + 1, 1);
	memset(data.text, 'x', SNAPSHOT_BYTES);
	stream = stream_new(loop, &data, MAX_VIEWERS);
	server = http_server_new(net, NULL);
	if (http_server_listen(server, "127.0.0.1:0", NULL, handle, NULL, &port, &err) < 0)
		bail_out(err.msg);
}

static void end(void)
{
	http_server_free(server);
	settle();
	stream_free(stream);
	free(data.text);
	settle();
}

static void view(struct end *e, const char *fields)
{
	CLEANUP_FREE char *request = xasprintf("GET /live/events HTTP/1.1\r\nHost: x\r\n%s\r\n",
					       fields);

	raw_open(e, port, NULL);
	raw_send(e, request);
}

/* One that takes nothing beyond what the kernel takes for it. */
static void view_deaf(struct end *e)
{
	view(e, "");
	net_conn_read_stop(e->conn);
	last = NULL;
	if (!PUMP(last))
		bail_out("the request didn't arrive");
}

static unsigned count(const struct end *e, const char *what)
{
	CLEANUP_FREE char *text = raw_text(e);
	unsigned n = 0;

	for (const char *p = strstr(text, what); p; p = strstr(p + 1, what))
		n++;
	return n;
}

static bool ends_with(const struct end *e, const char *tail)
{
	return str_has_suffix(buf_str(&e->in), str_of(tail));
}

static double metric(const char *name)
{
	return metric_value(metric_new(strstr(name, "viewers") ? METRIC_GAUGE : METRIC_COUNTER,
				       name, "", NULL, NULL, 0),
			    NULL);
}

/* ---- the tests ---- */

static void test_fast(void)
{
	struct end e;
	CLEANUP_FREE char *text = NULL;

	begin(10, 20);
	ok(!data.watch, "nobody looks: nothing is watched");
	view(&e, "");
	ok(PUMP(count(&e, "\n\n") == 1), "a snapshot");
	frame();
	frame();
	ok(PUMP(count(&e, "event: change\n") == 2), "then what changes");
	text = raw_text(&e);
	ok(strstr(text, "id: e-1\nevent: snapshot\ndata: xxxxxxxxxxxxxxxxxxxx\n\n") &&
		   strstr(text, "id: e-3\nevent: change\ndata: xxxxxxxxxx\n\n"),
	   "as an event stream has it");
	is_uint(data.snapshots, 1, "one snapshot was made");
	end_done(&e);

	view(&e, "Last-Event-ID: e-1\r\n");
	ok(PUMP(count(&e, "event: change\n") == 2), "who comes back gets what it lacks");
	is_uint(count(&e, "snapshot"), 0, "and no snapshot");
	end_done(&e);
	view(&e, "Last-Event-ID: e-3\r\n");
	ok(PUMP(count(&e, "\r\n:\n\n") == 1), "who lacks nothing hears a comment at once");
	is_uint(count(&e, "event:"), 0, "and no event");
	end_done(&e);
	ok(PUMP(!data.watch), "when the last one has gone, nothing is watched any more");
	end();
}

/* All that come at the same time have one text. */
static void test_shared(void)
{
	struct end e[MAX_VIEWERS], more;

	begin(10, 200000);
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		view(&e[i], "");
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		ok(PUMP(count(&e[i], "\n\n") == 1), "viewer %zu has its snapshot", i);
	is_uint(data.snapshots, 1, "which was made once");
	frame();
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		ok(PUMP(count(&e[i], "change") == 1), "viewer %zu has the frame", i);
	is_uint(data.fetched, 1, "which was made once");
	view(&more, "");
	ok(PUMP(count(&more, "HTTP/1.1 503 ") == 1) && count(&more, "Retry-After: 10\r\n") == 1,
	   "one more is too many");
	end_done(&more);
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		end_done(&e[i]);
	end();
}

static void test_slow(void)
{
	struct end e;
	CLEANUP_FREE char *tail = NULL;
	uint64_t fetched, before;
	double skips;

	begin(8000, 100);
	skips = metric("ipu_operator_page_skips_total");
	view_deaf(&e);
	/* Until what the kernel keeps for it is full. */
	do {
		before = data.fetched;
		for (int i = 0; i < 4; i++) {
			frame();
			settle();
		}
	} while (data.fetched > before && data.n < 10000);
	fetched = data.fetched;
	ok(data.n < 10000, "it isn't told any more after %" PRIu64 " frames", fetched);
	ok(http_reply_waiting(last) > 0 && http_reply_waiting(last) <= 32 << 10,
	   "little waits for it: %zu bytes", http_reply_waiting(last));
	for (int i = 0; i < 1000; i++)
		frame();
	settle();
	is_uint(data.fetched, fetched, "a thousand frames later nothing more");
	tail = xasprintf("id: e-%" PRIu64 "\nevent: snapshot\ndata: %.100s\n\n\r\n", data.n,
			 data.text);
	net_conn_read_start(e.conn);
	ok(PUMP(ends_with(&e, tail)) && count(&e, "event: snapshot\n") == 2,
	   "when it reads again, a snapshot");
	frame();
	ok(PUMP(count(&e, "event: change\n") == fetched + 1), "and what changes then");
	ok(metric("ipu_operator_page_skips_total") == skips + 1, "that it was skipped is counted");
	end_done(&e);
	end();
}

static void test_never(void)
{
	struct end e[MAX_VIEWERS];
	unsigned n = 0;

	begin(10, SNAPSHOT_BYTES);
	for (size_t i = 0; i < MAX_VIEWERS; i++) {
		view_deaf(&e[i]);
		settle();
		ok(http_reply_waiting(last) <= 32 << 10,
		   "of five megabytes little waits: %zu bytes", http_reply_waiting(last));
		frame(); /* the next one gets a snapshot of its own */
		settle();
	}
	PUMP(metric("ipu_operator_page_viewers") < MAX_VIEWERS);
	n = (unsigned)metric("ipu_operator_page_viewers");
	ok(n >= 1 && n <= 2, "those in the middle of old snapshots are let go: %u are left", n);
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		end_done(&e[i]);
	end();
}

/* A frame that was sent to all stays for those to come. It's the oldest text then, and nobody is in
 * the middle of it: those who never read what came after it are limited all the same. */
static void test_never_behind(void)
{
	struct end e[MAX_VIEWERS];
	unsigned n;

	begin(10, SNAPSHOT_BYTES);
	data.snapshot_bytes = 10;
	view(&e[0], "");
	ok(PUMP(count(&e[0], "snapshot") == 1), "one who reads");
	frame();
	ok(PUMP(count(&e[0], "change") == 1), "has a frame, and nothing changes then");
	data.snapshot_bytes = SNAPSHOT_BYTES;
	for (size_t i = 1; i < MAX_VIEWERS; i++) {
		clock_advance(1100);
		data.n++; /* the next one gets a snapshot of its own, and no frame is made */
		view_deaf(&e[i]);
		settle();
	}
	PUMP(metric("ipu_operator_page_viewers") < MAX_VIEWERS);
	n = (unsigned)metric("ipu_operator_page_viewers");
	ok(n >= 2 && n <= 3, "of those who don't read two are left at most: %u viewers", n);
	frame();
	ok(PUMP(count(&e[0], "snapshot") == 2), "who reads is still there");
	for (size_t i = 0; i < MAX_VIEWERS; i++)
		end_done(&e[i]);
	end();
}

/* What is sent behind a request for events would wait for ever, and its answers with it. */
static void test_pipelined(void)
{
#define GET "GET /live/events HTTP/1.1\r\nHost: x\r\n\r\n"
	static const char eight[] = GET GET GET GET GET GET GET GET;
	struct http_server_stats stats;
	struct end e;

	begin(10, 200000);
	raw_open(&e, port, NULL);
	raw_send(&e, eight);
	ok(PUMP(count(&e, "\n\n") == 1), "eight requests for events at once: one is answered");
	ok(count(&e, "Connection: close\r\n") == 1, "and says that it's the last one");
	http_server_stats(server, &stats);
	is_uint(stats.exchanges, 1, "nothing is in work but that");
	ok(metric("ipu_operator_page_viewers") == 1, "it is one viewer");
	ok(http_reply_waiting(last) <= 32 << 10, "little waits for it: %zu bytes",
	   http_reply_waiting(last));
	raw_send(&e, eight);
	frame();
	ok(PUMP(count(&e, "event: change\n") == 1), "it hears what changes");
	http_server_stats(server, &stats);
	is_uint(stats.exchanges, 1, "what comes later isn't taken either");
	stream_stop(stream);
	ok(raw_wait_eof(&e) && count(&e, "\r\n0\r\n\r\n") == 1 && count(&e, "HTTP/1.1") == 1,
	   "at the end the connection ends");
	end_done(&e);
	end();

	begin(10, 200000);
	raw_open(&e, port, NULL);
	raw_send(&e, eight);
	ok(PUMP(count(&e, "\n\n") == 1), "once more");
	settle();
	is_int((int)metric("ipu_operator_page_viewers"), 1, "one viewer");
	end_done(&e);
	ok(PUMP(metric("ipu_operator_page_viewers") == 0),
	   "who goes is missed, whatever he has sent behind the request");
	end();
}

#define GET_LIVE "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"

/* However many ask for a snapshot and don't read it, they share its text. */
static void test_snapshot(void)
{
	struct end e[2 * MAX_VIEWERS];
	struct http_server_stats stats;
	size_t most = 0, got;

	begin(10, SNAPSHOT_BYTES);
	for (size_t i = 0; i < 2 * MAX_VIEWERS; i++) {
		raw_open(&e[i], port, NULL);
		raw_send(&e[i], GET_LIVE GET_LIVE);
		net_conn_read_stop(e[i].conn);
		last = NULL;
		if (!PUMP(last))
			bail_out("the request didn't arrive");
		settle();
		if (http_reply_waiting(last) > most)
			most = http_reply_waiting(last);
	}
	ok(most > 0 && most <= 32 << 10, "of five megabytes little waits for one: %zu bytes", most);
	http_server_stats(server, &stats);
	is_uint(stats.exchanges, 2 * MAX_VIEWERS, "what was sent behind it isn't taken yet");
	ok(metric("ipu_operator_page_viewers") == 0 && !data.watch, "they are no viewers");
	net_conn_read_start(e[0].conn);
	ok(PUMP(e[0].in.len > 2 * SNAPSHOT_BYTES && ends_with(&e[0], "x\r\n0\r\n\r\n")),
	   "who reads gets both answers");
	got = e[0].in.len;
	ok(got < 2 * (SNAPSHOT_BYTES + (64 << 10)), "in full: %zu bytes", got);
	ok(count(&e[0], "ETag: \"e-1\"\r\n") == 2, "with their tags");
	for (size_t i = 0; i < 2 * MAX_VIEWERS; i++)
		end_done(&e[i]);
	end();
}

static void ask(const char *request, const char *want, const char *name)
{
	struct end e;

	raw_open(&e, port, NULL);
	raw_send(&e, request);
	ok(PUMP(count(&e, want) == 1), "%s", name);
	end_done(&e);
	settle();
}

/* Nobody says that something has changed where nobody watches. */
static void test_unwatched(void)
{
	begin(10, 20);
	ask(GET_LIVE, "ETag: \"e-1\"\r\n", "a snapshot");
	data.n++;
	ask(GET_LIVE, "ETag: \"e-2\"\r\n", "the next one is what is there then");
	ask("GET /live HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"e-2\"\r\n\r\n", "HTTP/1.1 304 ",
	    "nothing new");
	ask("HEAD /live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", "HEAD");
	ask("GET /live HTTP/1.0\r\n\r\n", "\r\n\r\nxxxxxxxxxxxxxxxxxxxx", "HTTP/1.0");
	end();
}

/* A frame that is too large to be kept comes between a request and its snapshot. */
static void test_overtaken(void)
{
	struct end e;

	begin(10, 20);
	data.jump = 2 * KEPT;
	view(&e, "");
	ok(PUMP(count(&e, "id: e-17\nevent: snapshot\n") == 1), "a snapshot of what is there now");
	frame();
	ok(PUMP(count(&e, "id: e-18\nevent: change\n") == 1), "and what changes then");
	end_done(&e);
	end();
}

static void test_beat(void)
{
	struct end e, deaf;

	begin(10, 10);
	view(&e, "");
	ok(PUMP(count(&e, "\n\n") == 1), "a viewer");
	clock_advance(14000);
	frame();
	PUMP(count(&e, "change") == 1);
	clock_advance(14000);
	settle();
	is_uint(count(&e, "\n:\n\n"), 0, "no comment within 15 s of an event");
	clock_advance(1100);
	ok(PUMP(count(&e, "\r\n:\n\n") == 1), "then one");
	clock_advance(15100);
	ok(PUMP(count(&e, "\r\n:\n\n") == 2), "and another");
	data.snapshot_bytes = SNAPSHOT_BYTES;
	frame();
	view_deaf(&deaf);
	settle();
	stream_stop(stream);
	ok(PUMP(count(&e, "event: bye\ndata: {}\n\n") == 1 && count(&e, "\r\n0\r\n\r\n") == 1),
	   "goodbye, and an end in order");
	ok(metric("ipu_operator_page_viewers") == 0, "also of one that doesn't read");
	end_done(&e);
	view(&e, "");
	ok(PUMP(count(&e, "HTTP/1.1 503 ") == 1), "nobody comes after that");
	end_done(&e);
	end_done(&deaf);
	end();
}

int main(void)
{
	test_begin();
	test_fast();
	test_shared();
	test_slow();
	test_never();
	test_never_behind();
	test_pipelined();
	test_snapshot();
	test_unwatched();
	test_overtaken();
	test_beat();
	test_end();
	return done_testing();
}
