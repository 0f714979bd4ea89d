/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nghttp2's callbacks: they record into streams and the event queue, and count what carries nothing
 * against a budget. Uses core.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "session_impl.h"

#define FEW_EVENTS     32
#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */

/* ---- events and the flood budget ---- */

static struct h2_event *push_event(struct h2_session *s, enum h2_event_type type, int32_t stream)
{
	if (s->n_events == s->cap_events) {
		s->cap_events = s->cap_events ? s->cap_events * 2 : 16;
		s->events = xrealloc(s->events, s->cap_events * sizeof(*s->events));
	}
	struct h2_event *ev = &s->events[s->n_events++];
	*ev = (struct h2_event){.type = type, .stream = stream};
	return ev;
}

/* A stream that ended before its head was told stayed for that. */
static void remove_closed(struct h2_session *s, int32_t stream)
{
	struct h2_stream *st = h2_streams_get(&s->streams, stream);

	if (st && st->closed)
		h2_streams_remove(&s->streams, st);
}

bool h2_session_next(struct h2_session *s, struct h2_event *ret)
{
	if (s->first_event == s->n_events)
		return false;
	*ret = s->events[s->first_event++];
	if (ret->type == H2_EVENT_RESET)
		remove_closed(s, ret->stream);
	if (s->first_event == s->n_events) {
		s->first_event = s->n_events = 0;
		if (s->cap_events > FEW_EVENTS) { /* many small pieces came at once */
			free(s->events);
			s->events = NULL;
			s->cap_events = 0;
		}
	}
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

void h2_set_reason(struct h2_session *s, const char *text)
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
		h2_set_reason(s, "the peer floods us with control frames");
	}
}

/* ---- requests that don't end ---- */

static void expect(struct h2_session *s, struct h2_stream *st, unsigned within_ms)
{
	st->due_ms = clock_mono_ms() + within_ms;
	if (st->due_ms < s->due_ms)
		s->due_ms = st->due_ms;
}

static void cut(struct h2_session *s, struct h2_stream *st, enum h2_event_type why)
{
	h2_streams_set_unfinished(&s->streams, st, false);
	st->cut = true;
	push_event(s, why, st->id);
}

static void give_up_if_late(struct h2_session *s, struct h2_stream *st, int64_t now_ms)
{
	if (!st->unfinished)
		return;
	if (st->due_ms > now_ms) {
		s->due_ms = st->due_ms < s->due_ms ? st->due_ms : s->due_ms;
		return;
	}
	h2_streams_set_unfinished(&s->streams, st, false);
	if (st->limit || st->closed)
		return; /* that has been told, or will be */
	if (st->has_head) {
		cut(s, st, H2_EVENT_LATE);
		return;
	}
	h2_set_reason(s, "a request's head didn't arrive in time");
	nghttp2_session_terminate_session(s->ng, NGHTTP2_ENHANCE_YOUR_CALM);
}

void h2_session_expire(struct h2_session *s)
{
	struct map_iter it = MAP_ITER(s->streams.by_id);
	int64_t now_ms = clock_mono_ms();

	s->due_ms = INT64_MAX;
	while (!s->dead && map_next(&it))
		give_up_if_late(s, it.value, now_ms);
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
	if (s->role != H2_SERVER || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct h2_stream *st = h2_streams_add(&s->streams, frame->hd.stream_id,
					      s->limits.body_bytes);
	h2_streams_set_unfinished(&s->streams, st, true);
	expect(s, st, s->limits.head_ms);
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

/* Bytes that came no longer count against the windows: the connection's never, so that a stream
 * that isn't read holds up no other; the stream's, unless its driver says when
 * (h2_session_consume). */
static int take_window(struct h2_session *s, const struct h2_stream *st, size_t len)
{
	int rc = !st || st->in_pieces ? nghttp2_session_consume_connection(s->ng, len)
				      : nghttp2_session_consume(s->ng, st->id, len);
	return rc == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
		   void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, id);
	(void)ng;
	(void)flags;

	if (!st || st->limit || st->cut)
		return take_window(s, st, len);
	if (st->in_pieces) {
		push_event(s, H2_EVENT_DATA, id)->piece = (struct str){(const char *)data, len};
		return take_window(s, st, len);
	}
	if (s->streams.room && !h2_room_has(s->streams.room, len)) {
		cut(s, st, H2_EVENT_NO_ROOM);
		return take_window(s, st, len);
	}
	if (s->streams.body_bytes + len > s->limits.connection_bytes)
		st->limit = "more than one connection may receive at once";
	else if (st->body.len + len > s->limits.body_bytes)
		st->limit = "a message larger than the limit";
	else if (buf_append(&st->body, data, len, NULL) < 0)
		st->limit = "memory is out";
	else
		h2_streams_count_body(&s->streams, len);
	if (st->limit)
		s->streams.n_over++;
	return take_window(s, st, len);
}

static void on_half_complete(struct h2_session *s, struct h2_stream *st)
{
	if (st->complete || st->limit || st->cut)
		return;
	st->complete = true;
	h2_streams_set_unfinished(&s->streams, st, false);
	push_event(s, st->in_pieces ? H2_EVENT_END : H2_EVENT_MESSAGE, st->id);
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
		if (st->unfinished)
			expect(s, st, s->limits.body_ms);
		if (st->in_pieces)
			push_event(s, H2_EVENT_HEAD, st->id);
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
		h2_set_reason(s, nghttp2_strerror(lib_error));
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

	if (is_client ? st->complete : (st->answered && !st->open) || !(st->complete || st->cut))
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
	/* A client's response waits for its reader: a complete one until it's released, another
	 * until RESET is told, which may be behind its HEAD. */
	if (s->role == H2_SERVER || !(st->complete || st->in_pieces))
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
		h2_set_reason(s, nghttp2_http2_strerror(frame->goaway.error_code));
	}
	return 0;
}

/* The answer to a request that was cut has gone: its rest is of no use (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2_session *s = arg;
	bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	int32_t id = frame->hd.stream_id;

	if (!ends || s->role != H2_SERVER || nghttp2_session_get_stream_remote_close(ng, id) != 0)
		return 0;
	const struct h2_stream *st = h2_streams_get(&s->streams, id);
	if (st && st->cut)
		nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
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
ssize_t h2_read_body(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t len,
		     uint32_t *data_flags, nghttp2_data_source *source, void *arg)
{
	struct h2_session *s = arg;
	struct h2_stream *st = h2_streams_get(&s->streams, id);
	(void)source;

	if (!st)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	size_t n = st->out.len < len ? st->out.len : len;
	if (n == 0 && st->open) {
		st->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n > 0)
		memcpy(buf, st->out.p, n);
	buf_consume(&st->out, n);
	s->windows_due += 2; /* the stream's and the connection's */
	if (st->out.len > 0)
		return (ssize_t)n;
	if (st->open) {
		push_event(s, H2_EVENT_DRAINED, id);
		return (ssize_t)n;
	}
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

void h2_set_callbacks(nghttp2_session_callbacks *cb)
{
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
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
}
