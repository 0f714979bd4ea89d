/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/2 session: bytes in and out of nghttp2, whose callbacks (record.c) write down what
 * comes; the driver takes events when the library has returned. The session owns its streams;
 * session_stream.c holds what is one stream's. Uses core only.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fault.h"
#include "session_impl.h"

#define DEFAULT_HEADER_BYTES   ((size_t)16 << 10)
#define DEFAULT_BODY_BYTES     (((size_t)4 << 20) + 5)
#define DEFAULT_STREAMS        128
#define DEFAULT_CONTROL_FRAMES 1000
#define DEFAULT_HEAD_MS        10000
#define DEFAULT_BODY_MS        30000
#define STREAM_WINDOW          (256 << 10)
#define CONNECTION_WINDOW      (1 << 20)

/* ---- setting up ---- */

/* The library copies fields and bodies, tokens among them, and wipes nothing: its memory is wiped
 * when it's given back. */
static void *mem_malloc(size_t size, void *arg)
{
	const struct h2_session *s = arg;

	return s->running ? fault_realloc(NULL, size) : xcalloc(1, size ? size : 1);
}

static void mem_free(void *p, void *arg)
{
	(void)arg;
	if (p)
		str_wipe(p, malloc_usable_size(p));
	free(p);
}

static void *mem_calloc(size_t n, size_t size, void *arg)
{
	size_t total;
	if (__builtin_mul_overflow(n, size, &total))
		return NULL;
	void *p = mem_malloc(total, arg);
	if (p)
		memset(p, 0, total);
	return p;
}

static void *mem_realloc(void *p, size_t size, void *arg)
{
	size_t held = p ? malloc_usable_size(p) : 0;
	void *fresh = mem_malloc(size, arg);

	if (!fresh)
		return NULL;
	if (held > 0)
		memcpy(fresh, p, held < size ? held : size);
	mem_free(p, arg);
	return fresh;
}

static void new_library_session(struct h2_session *s)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *opt;
	nghttp2_mem mem = {s, mem_malloc, mem_free, mem_calloc, mem_realloc};
	int rc;

	if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&opt) != 0)
		abort();
	h2_set_callbacks(cb);
	nghttp2_option_set_no_closed_streams(opt, 1);
	nghttp2_option_set_no_auto_window_update(opt, 1);
	for (unsigned type = NGHTTP2_CONTINUATION + 1; type <= UINT8_MAX; type++)
		nghttp2_option_set_user_recv_extension_type(opt, (uint8_t)type);
	if (s->role == H2_CLIENT)
		rc = nghttp2_session_client_new3(&s->ng, cb, s, opt, &mem);
	else
		rc = nghttp2_session_server_new3(&s->ng, cb, s, opt, &mem);
	if (rc != 0)
		abort();
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(opt);
}

static void submit_settings(struct h2_session *s)
{
	nghttp2_settings_entry entries[4];
	size_t n = 0;

	entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
						STREAM_WINDOW};
	entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
						(uint32_t)s->limits.header_bytes};
	if (s->role == H2_CLIENT)
		entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
	else
		entries[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
							s->limits.streams};
	if (nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, entries, n) != 0 ||
	    nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) !=
		    0)
		abort();
}

struct h2_session *h2_session_new(enum h2_role role, const struct h2_limits *limits)
{
	struct h2_session *s = xcalloc(1, sizeof(*s));

	s->role = role;
	if (limits)
		s->limits = *limits;
	struct h2_limits *l = &s->limits;
	l->header_bytes = l->header_bytes ? l->header_bytes : DEFAULT_HEADER_BYTES;
	l->body_bytes = l->body_bytes ? l->body_bytes : DEFAULT_BODY_BYTES;
	l->streams = l->streams ? l->streams : DEFAULT_STREAMS;
	l->control_frames = l->control_frames ? l->control_frames : DEFAULT_CONTROL_FRAMES;
	l->connection_bytes = l->connection_bytes ? l->connection_bytes : 4 * l->body_bytes;
	l->head_ms = l->head_ms ? l->head_ms : DEFAULT_HEAD_MS;
	l->body_ms = l->body_ms ? l->body_ms : DEFAULT_BODY_MS;
	s->due_ms = INT64_MAX;
	s->tokens_milli = (int64_t)l->control_frames * 1000;
	s->tokens_at_ms = clock_mono_ms();
	h2_streams_init(&s->streams, l->room);
	new_library_session(s);
	submit_settings(s);
	s->running = true;
	return s;
}

void h2_session_free(struct h2_session *s)
{
	if (!s)
		return;
	nghttp2_session_del(s->ng);
	h2_streams_done(&s->streams);
	free(s->events);
	free(s);
}

/* ---- bytes in and out ---- */

static int fail_library(struct h2_session *s, ssize_t rc, struct err *err)
{
	enum err_kind kind = rc == NGHTTP2_ERR_NOMEM || rc == NGHTTP2_ERR_FLOODED || s->flooded
				     ? ERR_LIMIT
				     : ERR_PROTOCOL;

	h2_set_reason(s, nghttp2_strerror((int)rc));
	s->dead = rc == NGHTTP2_ERR_NOMEM || rc == NGHTTP2_ERR_BAD_CLIENT_MAGIC;
	return err_set(err, kind, 0, "HTTP/2: %s", s->reason);
}

/* Streams that went over a limit while bytes came in are reset now that the library has returned.
 */
static void reset_over_limit(struct h2_session *s)
{
	struct map_iter it = MAP_ITER(s->streams.by_id);

	if (s->streams.n_over == 0)
		return;
	s->streams.n_over = 0;
	while (map_next(&it)) {
		struct h2_stream *st = it.value;
		if (!st->limit || st->closed)
			continue;
		nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_CANCEL);
	}
}

int h2_session_feed(struct h2_session *s, const void *p, size_t len, struct err *err)
{
	if (s->dead || s->flooded)
		return err_set(err, ERR_PROTOCOL, 0, "HTTP/2: %s", s->reason);
	ssize_t rc = nghttp2_session_mem_recv(s->ng, p, len);
	if (s->flooded)
		nghttp2_session_terminate_session(s->ng, NGHTTP2_ENHANCE_YOUR_CALM);
	if (rc < 0)
		return fail_library(s, rc, err);
	reset_over_limit(s);
	if (s->streams.n_unfinished == 0)
		s->due_ms = INT64_MAX;
	return 0;
}

int h2_session_output(struct h2_session *s, struct buf *out, size_t max, struct err *err)
{
	while (!s->dead && out->len < max) {
		const uint8_t *p;
		ssize_t n = nghttp2_session_mem_send(s->ng, &p);
		if (n == 0)
			break;
		if (n < 0)
			return fail_library(s, n, err);
		int rc = buf_append(out, p, (size_t)n, err);
		/* It would stay there until other frames are written over it. */
		str_wipe((void *)(uintptr_t)p, (size_t)n);
		if (rc < 0) {
			/* What was handed out is lost: the peer can't make sense of the rest. */
			s->dead = true;
			h2_set_reason(s, "memory is out");
			return -1;
		}
	}
	return 0;
}

bool h2_session_wants_write(const struct h2_session *s)
{
	return !s->dead && nghttp2_session_want_write(s->ng);
}

bool h2_session_is_over(const struct h2_session *s)
{
	return s->dead || (!nghttp2_session_want_read(s->ng) && !nghttp2_session_want_write(s->ng));
}

const char *h2_session_reason(const struct h2_session *s)
{
	return s->reason;
}

/* ---- streams ---- */

const struct h2_message *h2_session_message(const struct h2_session *s, int32_t stream)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (!st || !(st->in_pieces ? st->has_head : st->complete || st->cut) || st->answered)
		return NULL;
	st->message = (struct h2_message){
		.headers = st->head.items,
		.n_headers = st->head.n,
		.trailers = st->trailers.items,
		.n_trailers = st->trailers.n,
		.body = buf_str(&st->body),
	};
	return &st->message;
}

void h2_session_take_body(struct h2_session *s, int32_t stream, struct buf *ret)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (st && st->complete)
		h2_streams_move_body(&s->streams, st, ret);
}

unsigned h2_session_unfinished(const struct h2_session *s)
{
	return s->streams.n_unfinished;
}

int64_t h2_session_due_ms(const struct h2_session *s)
{
	return s->due_ms;
}

unsigned h2_session_room(const struct h2_session *s)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
	unsigned open = h2_session_streams(s);

	if (s->dead || s->role != H2_CLIENT || s->goaway_sent || s->goaway_received ||
	    !nghttp2_session_check_request_allowed(s->ng) || open >= most)
		return 0;
	return most - open;
}

static int begin_request(struct h2_session *s, bool in_pieces, const struct h2_header *headers,
			 size_t n, struct str body, int32_t *ret_stream, struct err *err)
{
	bool has_body = body.len > 0 || !in_pieces;
	nghttp2_nv nva[H2_MAX_OUT_FIELDS];
	nghttp2_data_provider provider = {.read_callback = h2_read_body};

	if (n > H2_MAX_OUT_FIELDS)
		return err_set(err, ERR_LIMIT, 0, "too many header fields");
	if (h2_session_room(s) == 0)
		return err_set(err, ERR_BUSY, 0, "no stream is free");
	h2_fields_to_nv(headers, n, nva);
	int32_t id = nghttp2_submit_request(s->ng, NULL, nva, n, has_body ? &provider : NULL, NULL);
	if (id < 0)
		return err_set(err, ERR_LIMIT, 0, "HTTP/2: %s", nghttp2_strerror(id));
	struct h2_stream *st = h2_streams_add(&s->streams, id, s->limits.body_bytes);
	st->in_pieces = in_pieces;
	st->all_sent = !has_body;
	buf_init_secret(&st->out, body.len);
	if (buf_append_str(&st->out, body, err) < 0) {
		h2_session_reset(s, id, H2_CANCEL);
		return -1;
	}
	*ret_stream = id;
	return 0;
}

int h2_session_request(struct h2_session *s, const struct h2_header *headers, size_t n,
		       struct str body, int32_t *ret_stream, struct err *err)
{
	return begin_request(s, false, headers, n, body, ret_stream, err);
}

int h2_session_open(struct h2_session *s, const struct h2_header *headers, size_t n,
		    struct str body, int32_t *ret_stream, struct err *err)
{
	return begin_request(s, true, headers, n, body, ret_stream, err);
}

void h2_session_consume(struct h2_session *s, int32_t stream, size_t len)
{
	/* Without memory for the frame the peer waits; the next of them says it all. */
	if (!s->dead && h2_streams_get(&s->streams, stream))
		nghttp2_session_consume_stream(s->ng, stream, len);
}

bool h2_session_was_sent(const struct h2_session *s, int32_t stream)
{
	const struct h2_stream *st = h2_streams_get(&s->streams, stream);

	return st && st->sent;
}

int h2_session_respond(struct h2_session *s, int32_t stream, const struct h2_header *headers,
		       size_t n_headers, struct str body, const struct h2_header *trailers,
		       size_t n_trailers, struct err *err)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);
	nghttp2_nv nva[H2_MAX_OUT_FIELDS];
	nghttp2_data_provider provider = {.read_callback = h2_read_body};
	bool has_body = body.len > 0 || n_trailers > 0;

	if (!st || st->answered)
		return 0;
	if (n_headers > H2_MAX_OUT_FIELDS || n_trailers > H2_MAX_OUT_FIELDS)
		return err_set(err, ERR_LIMIT, 0, "too many header fields");
	st->answered = true;
	h2_streams_drop_message(&s->streams, st);
	buf_init_secret(&st->out, body.len);
	for (size_t i = 0; i < n_trailers; i++)
		if (h2_fields_add(&st->out_trailers, trailers[i].name, trailers[i].value) < 0)
			goto no_memory;
	h2_fields_settle(&st->out_trailers);
	if (buf_append_str(&st->out, body, NULL) < 0)
		goto no_memory;
	h2_fields_to_nv(headers, n_headers, nva);
	int rc = nghttp2_submit_response(s->ng, stream, nva, n_headers,
					 has_body ? &provider : NULL);
	if (rc == 0)
		return 0;
no_memory:
	h2_session_reset(s, stream, H2_INTERNAL_ERROR);
	return err_set(err, ERR_LIMIT, 0, "memory for a response is out");
}

int h2_session_respond_begin(struct h2_session *s, int32_t stream, const struct h2_header *headers,
			     size_t n_headers, struct err *err)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);
	nghttp2_nv nva[H2_MAX_OUT_FIELDS];
	nghttp2_data_provider provider = {.read_callback = h2_read_body};

	if (!st || st->answered)
		return 0;
	if (n_headers > H2_MAX_OUT_FIELDS)
		return err_set(err, ERR_LIMIT, 0, "too many header fields");
	st->answered = true;
	st->open = true;
	h2_streams_drop_message(&s->streams, st);
	buf_init_secret(&st->out, SIZE_MAX / 2);
	h2_fields_to_nv(headers, n_headers, nva);
	if (nghttp2_submit_response(s->ng, stream, nva, n_headers, &provider) == 0)
		return 0;
	h2_session_reset(s, stream, H2_INTERNAL_ERROR);
	return err_set(err, ERR_LIMIT, 0, "memory for a response is out");
}

static void resume(struct h2_session *s, struct h2_stream *st)
{
	if (!st->deferred)
		return;
	st->deferred = false;
	nghttp2_session_resume_data(s->ng, st->id);
}

int h2_session_write(struct h2_session *s, int32_t stream, struct str data, struct err *err)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (!st || !st->open || data.len == 0)
		return 0;
	if (buf_append_str(&st->out, data, err) < 0) {
		h2_session_reset(s, stream, H2_INTERNAL_ERROR);
		return -1;
	}
	resume(s, st);
	return 0;
}

void h2_session_finish(struct h2_session *s, int32_t stream)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (!st || !st->open)
		return;
	st->open = false;
	resume(s, st);
}

size_t h2_session_waiting(const struct h2_session *s, int32_t stream)
{
	const struct h2_stream *st = h2_streams_get(&s->streams, stream);

	return st ? st->out.len : 0;
}

void h2_session_reset(struct h2_session *s, int32_t stream, uint32_t code)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (!st)
		return;
	if (!st->closed)
		nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, stream, code);
	h2_streams_remove(&s->streams, st);
}

void h2_session_release(struct h2_session *s, int32_t stream)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (!st)
		return;
	if (st->all_sent || st->closed) {
		/* nghttp2 closes it by itself once the last of our frames is out. */
		h2_streams_remove(&s->streams, st);
		return;
	}
	h2_session_reset(s, stream, H2_CANCEL);
}

unsigned h2_session_streams(const struct h2_session *s)
{
	return (unsigned)(map_len(s->streams.by_id) - s->streams.n_closed);
}

/* ---- the connection ---- */

void h2_session_ping(struct h2_session *s)
{
	static const uint8_t opaque[8] = "ipu-ping";

	if (!s->dead)
		nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, opaque);
}

void h2_session_goaway(struct h2_session *s, uint32_t code)
{
	if (s->dead || s->goaway_sent)
		return;
	s->goaway_sent = true;
	nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(s->ng), code, NULL, 0);
}
