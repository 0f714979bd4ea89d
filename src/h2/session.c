/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/2 session: nghttp2's callbacks record into streams and an event queue, the driver takes
 * events when the library has returned. The session owns its streams; session_stream.c holds what
 * is one stream's. Uses core only.
 */
#include "h2/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <nghttp2/nghttp2.h>

#include "core/clock.h"
#include "core/fault.h"
#include "session_stream.h"

#define DEFAULT_HEADER_BYTES   ((size_t)16 << 10)
#define DEFAULT_BODY_BYTES     (((size_t)4 << 20) + 5)
#define DEFAULT_STREAMS        128
#define DEFAULT_CONTROL_FRAMES 1000
#define STREAM_WINDOW          (256 << 10)
#define CONNECTION_WINDOW      (1 << 20)
#define FIELD_OVERHEAD         32 /* RFC 9113, 6.5.2 */

struct h2_session {
	nghttp2_session *ng;
	enum h2_role role;
	struct h2_limits limits;
	struct h2_streams streams;
	bool running; /* set up: from here on a failing allocation is an error, not the end */

	struct h2_event *events; /* a queue: [first, n) are waiting */
	size_t first_event, n_events, cap_events;

	int64_t tokens_milli; /* what is left of the control frames' budget, in thousandths */
	int64_t tokens_at_ms;
	uint64_t windows_due; /* WINDOW_UPDATEs that answer to DATA of ours */
	bool flooded;
	bool dead; /* a fatal error of the library's: nothing in or out any more */
	bool goaway_sent, goaway_received;
	char reason[128];
};

/* ---- events and the flood budget ---- */

static struct h2_event *push_event(struct h2_session *s, enum h2_event_type type, int32_t stream)
{
	if (s->first_event == s->n_events)
		s->first_event = s->n_events = 0;
	if (s->n_events == s->cap_events) {
		s->cap_events = s->cap_events ? s->cap_events * 2 : 16;
		s->events = xrealloc(s->events, s->cap_events * sizeof(*s->events));
	}
	struct h2_event *ev = &s->events[s->n_events++];
	*ev = (struct h2_event){.type = type, .stream = stream};
	return ev;
}

bool h2_session_next(struct h2_session *s, struct h2_event *ret)
{
	if (s->first_event == s->n_events)
		return false;
	*ret = s->events[s->first_event++];
	return true;
}

/* A copy of a peer's bytes, or of our words, that can be printed. */
static void copy_text(char *z, size_t size, const void *p, size_t len)
{
	const char *from = p;
	size_t n = len < size - 1 ? len : size - 1;

	for (size_t i = 0; i < n; i++)
		z[i] = (char)(from[i] >= 0x20 && from[i] <= 0x7e ? from[i] : '?');
	z[n] = '\0';
}

static void set_reason(struct h2_session *s, const char *text)
{
	if (s->reason[0] == '\0')
		copy_text(s->reason, sizeof(s->reason), text, strlen(text));
}

/* Takes one frame off the budget: a token bucket on core's clock. */
static void spend_control_frame(struct h2_session *s)
{
	int64_t now = clock_mono_ms();
	int64_t full = (int64_t)s->limits.control_frames * 1000;
	int64_t passed = now - s->tokens_at_ms;

	if (passed > 0) {
		/* A tenth of the burst a second: control_frames / 10 thousandths a millisecond. */
		int64_t refill = passed < 20000 ? passed * s->limits.control_frames / 10 : full;
		s->tokens_milli = s->tokens_milli + refill > full ? full : s->tokens_milli + refill;
		s->tokens_at_ms = now;
	}
	s->tokens_milli -= 1000;
	if (s->tokens_milli < 0) {
		s->flooded = true;
		set_reason(s, "the peer floods us with control frames");
	}
}

/* ---- nghttp2's callbacks: they record ---- */

/* What comes for a call that we have given up is passed over by the library, however much it is. */
static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2_session *s = arg;
	(void)ng;

	if (s->role == H2_CLIENT && (hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_DATA) &&
	    !h2_streams_get(&s->streams, hd->stream_id))
		spend_control_frame(s);
	return s->flooded ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2_session *s = arg;
	(void)ng;
	if (s->role == H2_SERVER && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		h2_streams_add(&s->streams, frame->hd.stream_id, s->limits.body_bytes);
	return 0;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);
	(void)ng;
	(void)flags;

	if (!st)
		return 0;
	st->field_bytes += name_len + value_len + FIELD_OVERHEAD;
	if (st->field_bytes > s->limits.header_bytes) {
		st->limit = "header fields larger than the limit";
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	struct h2_fields *fields = st->has_head ? &st->trailers : &st->head;
	if (h2_fields_add(fields, (struct str){(const char *)name, name_len},
			  (struct str){(const char *)value, value_len}) < 0) {
		st->limit = "memory is out";
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return 0;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
		   void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, id);
	(void)ng;
	(void)flags;

	if (!st || st->limit)
		return 0;
	if (s->streams.body_bytes + len > s->limits.connection_bytes)
		st->limit = "more than one connection may receive at once";
	else if (st->body.len + len > s->limits.body_bytes)
		st->limit = "a message larger than the limit";
	else if (buf_append(&st->body, data, len, NULL) < 0)
		st->limit = "memory is out";
	else
		s->streams.body_bytes += len;
	if (st->limit)
		s->streams.n_over++;
	return 0;
}

static void on_half_complete(struct h2_session *s, struct h2_stream *st)
{
	if (st->complete || st->limit)
		return;
	st->complete = true;
	push_event(s, H2_EVENT_MESSAGE, st->id);
}

static void on_headers_end(struct h2_session *s, const nghttp2_frame *frame)
{
	struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);

	if (!st || st->limit)
		return;
	if (!st->has_head) {
		struct str status = STR_NULL;
		h2_fields_settle(&st->head);
		status = h2_header_get(st->head.items, st->head.n, ":status");
		if (status.len == 3 && status.p[0] == '1') { /* 103 and the like: not the answer */
			h2_fields_done(&st->head);
			spend_control_frame(s);
			return;
		}
		st->has_head = true;
	} else {
		h2_fields_settle(&st->trailers);
	}
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		on_half_complete(s, st);
}

static void on_goaway(struct h2_session *s, const nghttp2_goaway *goaway)
{
	struct h2_event *ev = push_event(s, H2_EVENT_GOAWAY, 0);

	ev->code = goaway->error_code;
	ev->by_peer = true;
	ev->last_stream = goaway->last_stream_id;
	copy_text(ev->text, sizeof(ev->text), goaway->opaque_data, goaway->opaque_data_len);
	s->goaway_received = true;
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);
	bool is_ack = frame->hd.flags & NGHTTP2_FLAG_ACK;
	bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	(void)ng;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		on_headers_end(s, frame);
		break;
	case NGHTTP2_DATA:
		if (frame->hd.length <= frame->data.padlen && !is_end)
			spend_control_frame(s);
		if (st && is_end)
			on_half_complete(s, st);
		break;
	case NGHTTP2_RST_STREAM:
		spend_control_frame(s);
		if (st)
			st->reset_by_peer = true;
		break;
	case NGHTTP2_SETTINGS:
		spend_control_frame(s);
		if (!is_ack)
			push_event(s, H2_EVENT_SETTINGS, 0);
		break;
	case NGHTTP2_PING:
		spend_control_frame(s);
		if (is_ack)
			push_event(s, H2_EVENT_PONG, 0);
		break;
	case NGHTTP2_GOAWAY:
		spend_control_frame(s);
		on_goaway(s, &frame->goaway);
		break;
	case NGHTTP2_WINDOW_UPDATE:
		if (s->windows_due > 0)
			s->windows_due--;
		else
			spend_control_frame(s);
		break;
	default:
		spend_control_frame(s);
		break;
	}
	return s->flooded ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int lib_error,
			    void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);
	(void)ng;

	spend_control_frame(s);
	if (st && !st->breach)
		st->breach = nghttp2_strerror(lib_error);
	else if (frame->hd.stream_id == 0)
		set_reason(s, nghttp2_strerror(lib_error));
	return s->flooded ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* Frames of types that nobody knows are passed over (RFC 9113, 5.5), which the library would do in
 * silence. */
static int on_unknown_frame(nghttp2_session *ng, void **payload, const nghttp2_frame_hd *hd,
			    void *arg)
{
	struct h2_session *s = arg;
	(void)ng;
	(void)payload;
	(void)hd;
	spend_control_frame(s);
	return s->flooded ? NGHTTP2_ERR_CALLBACK_FAILURE : NGHTTP2_ERR_CANCEL;
}

static int on_error(nghttp2_session *ng, int lib_error, const char *msg, size_t len, void *arg)
{
	struct h2_session *s = arg;
	(void)ng;
	(void)lib_error;
	if (s->reason[0] == '\0')
		copy_text(s->reason, sizeof(s->reason), msg, len);
	return 0;
}

/* Tells the driver, unless it has what it needs: a client the response, a server's driver its say.
 */
static void report_reset(struct h2_session *s, const struct h2_stream *st, uint32_t code)
{
	bool is_client = s->role == H2_CLIENT;
	const char *text = st->limit ? st->limit : st->breach ? st->breach : "";

	if (is_client ? st->complete : st->answered || !st->complete)
		return;
	struct h2_event *ev = push_event(s, H2_EVENT_RESET, st->id);
	ev->code = st->limit ? H2_ENHANCE_YOUR_CALM : code;
	ev->by_peer = st->reset_by_peer && !st->limit;
	copy_text(ev->text, sizeof(ev->text), text, strlen(text));
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, id);
	(void)ng;

	if (!st)
		return 0;
	st->closed = true;
	s->streams.n_closed++;
	report_reset(s, st, code);
	/* A client's complete response waits for its reader. */
	if (s->role == H2_SERVER || !st->complete)
		h2_streams_remove(&s->streams, st);
	return 0;
}

static int before_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2_session *s = arg;
	(void)ng;
	if (frame->hd.type == NGHTTP2_HEADERS) {
		struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);
		if (st)
			st->sent = true;
	} else if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != 0) {
		set_reason(s, nghttp2_http2_strerror(frame->goaway.error_code));
	}
	return 0;
}

/* A request that nghttp2 couldn't send (a GOAWAY came first): nothing of it left us. */
static int on_frame_not_send(nghttp2_session *ng, const nghttp2_frame *frame, int lib_error,
			     void *arg)
{
	struct h2_session *s = arg;
	(void)ng;
	(void)lib_error;
	if (s->role != H2_CLIENT || frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	struct h2_stream *st = h2_streams_get(&s->streams, frame->hd.stream_id);
	if (st) {
		report_reset(s, st, H2_REFUSED_STREAM);
		h2_streams_remove(&s->streams, st);
	}
	return 0;
}

/* Body bytes of ours; behind the last of them come the trailers, if there are any. */
static ssize_t read_body(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t len,
			 uint32_t *data_flags, nghttp2_data_source *source, void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, id);
	(void)source;

	if (!st)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	size_t n = st->out.len < len ? st->out.len : len;
	if (n > 0)
		memcpy(buf, st->out.p, n);
	buf_consume(&st->out, n);
	s->windows_due += 2; /* the stream's and the connection's */
	if (st->out.len > 0)
		return (ssize_t)n;
	*data_flags |= NGHTTP2_DATA_FLAG_EOF;
	if (st->out_trailers.n > 0) {
		nghttp2_nv nva[H2_MAX_OUT_FIELDS];
		h2_fields_to_nv(st->out_trailers.items, st->out_trailers.n, nva);
		*data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(ng, id, nva, st->out_trailers.n) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	st->all_sent = true;
	return (ssize_t)n;
}

/* ---- setting up ---- */

static void *mem_get(void *p, size_t size, const struct h2_session *s)
{
	return s->running ? fault_realloc(p, size) : xrealloc(p, size ? size : 1);
}

static void *mem_malloc(size_t size, void *arg)
{
	return mem_get(NULL, size, arg);
}

static void mem_free(void *p, void *arg)
{
	(void)arg;
	free(p);
}

static void *mem_calloc(size_t n, size_t size, void *arg)
{
	size_t total;
	if (__builtin_mul_overflow(n, size, &total))
		return NULL;
	void *p = mem_get(NULL, total, arg);
	if (p)
		memset(p, 0, total);
	return p;
}

static void *mem_realloc(void *p, size_t size, void *arg)
{
	return mem_get(p, size, arg);
}

static void new_library_session(struct h2_session *s)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *opt;
	nghttp2_mem mem = {s, mem_malloc, mem_free, mem_calloc, mem_realloc};
	int rc;

	if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&opt) != 0)
		abort();
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_unpack_extension_callback(cb, on_unknown_frame);
	nghttp2_session_callbacks_set_error_callback2(cb, on_error);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	nghttp2_session_callbacks_set_before_frame_send_callback(cb, before_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
	nghttp2_option_set_no_closed_streams(opt, 1);
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
	s->tokens_milli = (int64_t)l->control_frames * 1000;
	s->tokens_at_ms = clock_mono_ms();
	h2_streams_init(&s->streams);
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

	set_reason(s, nghttp2_strerror((int)rc));
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
		if (buf_append(out, p, (size_t)n, err) < 0) {
			/* What was handed out is lost: the peer can't make sense of the rest. */
			s->dead = true;
			set_reason(s, "memory is out");
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

	if (!st || !st->complete || st->answered)
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

int h2_session_request(struct h2_session *s, const struct h2_header *headers, size_t n,
		       struct str body, int32_t *ret_stream, struct err *err)
{
	nghttp2_nv nva[H2_MAX_OUT_FIELDS];
	nghttp2_data_provider provider = {.read_callback = read_body};

	if (n > H2_MAX_OUT_FIELDS)
		return err_set(err, ERR_LIMIT, 0, "too many header fields");
	if (h2_session_room(s) == 0)
		return err_set(err, ERR_BUSY, 0, "no stream is free");
	h2_fields_to_nv(headers, n, nva);
	int32_t id = nghttp2_submit_request(s->ng, NULL, nva, n, &provider, NULL);
	if (id < 0)
		return err_set(err, ERR_LIMIT, 0, "HTTP/2: %s", nghttp2_strerror(id));
	struct h2_stream *st = h2_streams_add(&s->streams, id, s->limits.body_bytes);
	buf_init(&st->out, body.len);
	if (buf_append_str(&st->out, body, err) < 0) {
		h2_session_reset(s, id, H2_CANCEL);
		return -1;
	}
	*ret_stream = id;
	return 0;
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
	nghttp2_data_provider provider = {.read_callback = read_body};
	bool has_body = body.len > 0 || n_trailers > 0;

	if (!st || st->answered)
		return 0;
	if (n_headers > H2_MAX_OUT_FIELDS || n_trailers > H2_MAX_OUT_FIELDS)
		return err_set(err, ERR_LIMIT, 0, "too many header fields");
	st->answered = true;
	h2_streams_drop_message(&s->streams, st);
	buf_init(&st->out, body.len);
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
