/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Viewers of the live page. A viewer is a connection and a few numbers: the text of an event is
 * made once, and all are sent from it. One that reads slowly gets nothing more until it has taken
 * what waits; then it goes on with the frames that are kept, or with a snapshot. Who asks for
 * a snapshot alone is sent it in the same way.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "proxy/page.h"

#define BEAT_MS 15000
#define TURN_BYTES                                                                                 \
	((size_t)128 << 10)           /* told in one turn: what is queued is sent in the next one */
#define HIGH_BYTES ((size_t)16 << 10) /* that wait for one viewer */
#define TEXTS_BYTES                                                                                \
	((size_t)8 << 20) /* of events that are kept, or that viewers are in the middle of */
#define TEXT_LIMIT    ((size_t)64 << 20)
#define SNAPSHOT_MS   1000 /* so long one is good for all who come, unless something changes */
#define BUSY_RETRY_MS 10000

/* An event as it's sent. One of viewers and the two places in struct stream hold it. */
struct text {
	struct list link; /* in texts, the oldest first */
	struct stream *s;
	unsigned refs;
	char id[LIVE_ID_SIZE];
	struct buf buf;
	struct str data; /* of buf: the JSON */
};

struct stream {
	struct loop *loop;
	struct live *live;
	struct live_watch watch;
	struct loop_timer beat;
	struct loop_work tell;
	struct list viewers; /* those of a snapshot alone too */
	struct list due;     /* of them, who may be told something */
	unsigned n, max;     /* of events */
	bool stopping;
	struct list texts;
	size_t texts_bytes;

	/* NULL, or the last one; not older than the last frame while there are viewers. Without
	 * anybody who is sent something, nothing is kept. */
	struct text *snapshot;
	int64_t snapshot_ms;
	struct text
		*frame; /* NULL, or the one that was sent last: before and after it, as live_next */
	uint64_t frame_at, frame_next;
};

struct viewer {
	struct list link, due;
	struct stream *s;
	struct http_exchange *ex;
	struct text *text; /* that it's in the middle of; NULL: between events */
	size_t sent;       /* of it */
	uint64_t next;     /* the frame that it needs */
	bool needs_all;    /* a snapshot is next, not a frame */
	bool once;         /* the answer is the text's JSON, and ends with it */
	bool full;         /* nothing more until it has taken what waits */
};

static struct {
	struct metric *viewers, *events, *skips;
} m;

static void register_metrics(void)
{
	m.viewers = metric_new(METRIC_GAUGE, "ipu_operator_page_viewers",
			       "Readers of the live page's events.", NULL, NULL, 0);
	m.events = metric_new(METRIC_COUNTER, "ipu_operator_page_events_total",
			      "Events sent to readers of the live page.", NULL, NULL, 0);
	m.skips = metric_new(METRIC_COUNTER, "ipu_operator_page_skips_total",
			     "Times that a reader of the live page was too slow for its frames and "
			     "was given a snapshot, or was let go.",
			     NULL, NULL, 0);
	metric_set(m.viewers, NULL, 0);
	metric_add(m.events, NULL, 0);
	metric_add(m.skips, NULL, 0);
}

/* ---- texts ---- */

static struct text *text_ref(struct text *t)
{
	t->refs++;
	return t;
}

static void text_unref(struct text *t)
{
	if (!t || --t->refs > 0)
		return;
	list_unlink(&t->link);
	t->s->texts_bytes -= t->buf.len;
	buf_done(&t->buf);
#ifndef __clang_analyzer__ /* it doesn't believe that there are as many references as holders */
	free(t);
#endif
}

/* The caller's reference is the only one. */
static struct text *text_new(struct stream *s, const char *event, const char *id, struct str json,
			     struct err *err)
{
	struct text *t = xcalloc(1, sizeof(*t));
	size_t head = 0;

	t->s = s;
	t->refs = 1;
	snprintf(t->id, sizeof(t->id), "%s", id);
	buf_init(&t->buf, TEXT_LIMIT);
	list_append(&s->texts, &t->link);
	if (buf_printf(&t->buf, err, "id: %s\nevent: %s\ndata: ", id, event) == 0) {
		head = t->buf.len;
		if (buf_append_str(&t->buf, json, err) == 0 &&
		    buf_append(&t->buf, "\n\n", 2, err) == 0) {
			t->data = (struct str){t->buf.p + head, json.len};
			s->texts_bytes += t->buf.len;
			return t;
		}
	}
	buf_done(&t->buf);
	text_unref(t);
	return NULL;
}

static void forget(struct text **t)
{
	text_unref(*t);
	*t = NULL;
}

static void forget_unused(struct stream *s)
{
	if (list_empty(&s->viewers))
		forget(&s->snapshot);
}

/* ---- viewers ---- */

static void viewer_free(struct viewer *v)
{
	struct stream *s = v->s;

	list_unlink(&v->link);
	list_unlink(&v->due);
	text_unref(v->text);
	if (!v->once)
		metric_set(m.viewers, NULL, --s->n);
#ifndef __clang_analyzer__ /* it doesn't see that no list leads here any more */
	free(v);
#endif
	if (s->n == 0) {
		live_watch_stop(&s->watch);
		loop_timer_stop(&s->beat);
		forget(&s->frame);
	}
	forget_unused(s);
}

static void on_gone(struct http_exchange *ex, void *arg)
{
	(void)ex;
	viewer_free(arg);
}

static void let_go(struct viewer *v)
{
	struct http_exchange *ex = v->ex;

	viewer_free(v);
	http_reply_abort(ex);
}

static struct viewer *reader_of(const struct stream *s, const struct text *t)
{
	LIST_FOREACH(pos, tmp, &s->viewers) {
		struct viewer *v = CONTAINER_OF(pos, struct viewer, link);

		if (v->text == t)
			return v;
	}
	return NULL;
}

/* Texts don't take more than so much between them, but for the last one. Of the oldest, what the
 * stream keeps for those to come is given up, since it can be made again, and its readers are let
 * go: who is comes back, and goes on or gets a snapshot. */
static void limit_texts(struct stream *s)
{
	while (s->texts_bytes > TEXTS_BYTES && s->texts.next != s->texts.prev) {
		const struct text *oldest = CONTAINER_OF(s->texts.next, struct text, link);
		struct viewer *v = reader_of(s, oldest);

		if (v) {
			log_debug("proxy", v->ex->peer,
				  "a reader of the live page is too slow: let go");
			metric_add(m.skips, NULL, 1);
			let_go(v);
		} else if (s->frame == oldest) {
			forget(&s->frame);
		} else {
			forget(&s->snapshot);
		}
	}
}

/* Sees to it that there is one. Without viewers nobody says that something has changed. */
static int need_snapshot(struct stream *s, struct err *err)
{
	char id[LIVE_ID_SIZE];
	struct str json;
	struct text *t;

	if (!s->snapshot || s->n == 0 || clock_mono_ms() - s->snapshot_ms >= SNAPSHOT_MS) {
		if (live_snapshot(s->live, &json, id, err) < 0)
			return -1;
		if (!s->snapshot || strcmp(s->snapshot->id, id) != 0) {
			t = text_new(s, "snapshot", id, json, err);
			if (!t)
				return -1;
			forget(&s->snapshot);
			s->snapshot = t;
		}
		s->snapshot_ms = clock_mono_ms();
	}
	return 0;
}

/* What v begins with: a snapshot that frames follow. A frame that was too large to be kept may have
 * come behind the one that is there. */
static int get_all(struct viewer *v, struct err *err)
{
	struct stream *s = v->s;

	for (int i = 0; i < 2; i++) {
		if (need_snapshot(s, err) < 0)
			return -1;
		if (live_resume(s->live, s->snapshot->id, &v->next)) {
			v->text = text_ref(s->snapshot);
			return 0;
		}
		forget(&s->snapshot);
	}
	return err_set(err, ERR_UNAVAILABLE, 0, "what there is changes while it's taken");
}

/* The frame that v needs, and moves on; NULL: there is none yet, or v needs a snapshot. */
static struct text *get_frame(struct viewer *v)
{
	struct stream *s = v->s;
	struct live_frame frame;
	uint64_t at = v->next;
	struct text *t;
	bool gone = false;

	if (!s->frame || s->frame_at != at) {
		if (!live_next(s->live, &v->next, &frame, &gone)) {
			if (gone) {
				v->needs_all = true;
				metric_add(m.skips, NULL, 1);
			}
			return NULL;
		}
		t = text_new(s, "change", frame.id, frame.json, NULL);
		if (!t) { /* no memory for it: as if it weren't kept */
			v->needs_all = true;
			return NULL;
		}
		forget(&s->frame);
		s->frame = t;
		s->frame_at = at;
		s->frame_next = v->next;
	}
	v->next = s->frame_next;
	return text_ref(s->frame);
}

/* Sees to it that v has a text. False: there is nothing to tell it now, or it has gone. */
static bool take_text(struct viewer *v)
{
	struct err err = ERR_INIT;

	if (v->text)
		return true;
	if (!v->needs_all)
		v->text = get_frame(v);
	if (!v->needs_all)
		return v->text != NULL;
	if (get_all(v, &err) < 0) {
		log_debug("proxy", v->ex->peer, "the live page has no snapshot: let go: %s",
			  err.msg);
		let_go(v);
		return false;
	}
	v->needs_all = false;
	return true;
}

/* What v is sent of its text. */
static struct str wanted(const struct viewer *v)
{
	return v->once ? v->text->data : buf_str(&v->text->buf);
}

static void end_once(struct viewer *v)
{
	struct http_exchange *ex = v->ex;

	viewer_free(v);
	http_reply_end(ex);
}

/* Sends v what there is, as far as it takes it. Returns how many bytes that were; v may be gone. */
static size_t pump(struct viewer *v)
{
	size_t n = 0;

	while (!v->full && take_text(v)) {
		struct str all = wanted(v);
		size_t left = all.len - v->sent;
		struct str piece = {all.p + v->sent, left < HIGH_BYTES ? left : HIGH_BYTES};

		v->full = http_reply_write(v->ex, piece);
		v->sent += piece.len;
		n += piece.len;
		if (v->sent < all.len)
			continue;
		if (v->once) {
			end_once(v);
			break;
		}
		forget(&v->text);
		v->sent = 0;
		metric_add(m.events, NULL, 1);
	}
	return n;
}

/* Few at a time, so that what all are told isn't queued for all of them at once. */
static void on_tell(struct loop_work *work, void *arg)
{
	struct stream *s = arg;
	size_t n = 0;

	while (n < TURN_BYTES && !list_empty(&s->due)) {
		struct viewer *v = CONTAINER_OF(s->due.next, struct viewer, due);

		list_unlink(&v->due);
		n += pump(v);
	}
	if (!list_empty(&s->due))
		loop_work_post(work);
	limit_texts(s);
}

static void tell_soon(struct viewer *v)
{
	list_unlink(&v->due);
	list_append(&v->s->due, &v->due);
	loop_work_post(&v->s->tell);
}

static void on_drain(struct http_exchange *ex, void *arg)
{
	struct viewer *v = arg;

	(void)ex;
	v->full = false;
	tell_soon(v);
}

static void on_frame(void *arg)
{
	struct stream *s = arg;

	forget(&s->snapshot);
	LIST_FOREACH(pos, tmp, &s->viewers)
		tell_soon(CONTAINER_OF(pos, struct viewer, link));
	if (s->n > 0)
		loop_timer_start_in(&s->beat, BEAT_MS);
}

/* A comment, so that both ends, and what is between them, see that the other one is there. */
static void on_beat(struct loop_timer *timer, void *arg)
{
	struct stream *s = arg;

	LIST_FOREACH(pos, tmp, &s->viewers) {
		struct viewer *v = CONTAINER_OF(pos, struct viewer, link);

		if (!v->text && !v->full)
			v->full = http_reply_write(v->ex, STR(":\n\n"));
	}
	loop_timer_start_in(timer, BEAT_MS);
}

/* ---- what is asked ---- */

static void reply_busy(struct http_exchange *ex, unsigned retry_ms, const char *why)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_UNAVAILABLE, 0, "%s", why);
	err.retry_after_ms = retry_ms;
	http_reply_err(ex, &err);
}

/* The tracker is being read: it doesn't take long. */
static void reply_not_yet(struct http_exchange *ex, struct err *err)
{
	if (err->kind == ERR_UNAVAILABLE && !err->retry_after_ms)
		err->retry_after_ms = 1000;
	http_reply_err(ex, err);
}

static struct viewer *viewer_new(struct stream *s, struct http_exchange *ex)
{
	struct viewer *v = xcalloc(1, sizeof(*v));

	v->s = s;
	v->ex = ex;
	list_append(&s->viewers, &v->link);
	list_init(&v->due);
	http_exchange_on_abort(ex, on_gone, v);
	http_exchange_on_drain(ex, on_drain, v);
	http_exchange_set_high_water(ex, HIGH_BYTES);
	return v;
}

/* In pieces, all from one text: who doesn't read it has little of it waiting. */
static void reply_once(struct stream *s, struct http_exchange *ex, struct text *t,
		       const struct http_header *fields)
{
	struct viewer *v = viewer_new(s, ex);

	v->once = true;
	v->text = t;
	http_reply_begin(ex, 200, "application/json", fields, PAGE_FIELDS + 1);
	if (ex->method == HTTP_METHOD_HEAD)
		end_once(v);
	else
		tell_soon(v);
}

void stream_reply_snapshot(struct stream *s, struct http_exchange *ex)
{
	struct http_header fields[PAGE_FIELDS + 1];
	char etag[LIVE_ID_SIZE + 2];
	struct err err = ERR_INIT;

	if (need_snapshot(s, &err) < 0) {
		reply_not_yet(ex, &err);
		return;
	}
	snprintf(etag, sizeof(etag), "\"%s\"", s->snapshot->id);
	memcpy(fields, page_fields, sizeof(page_fields));
	fields[PAGE_FIELDS] = (struct http_header){STR("ETag"), str_of(etag)};
	if (!http_headers_has_tag(ex->headers, etag)) {
		reply_once(s, ex, text_ref(s->snapshot), fields);
		return;
	}
	http_reply(ex, 304, NULL, fields, PAGE_FIELDS + 1, STR_NULL);
	forget_unused(s);
}

static void begin(struct http_exchange *ex)
{
	struct http_header fields[PAGE_FIELDS + 1];

	memcpy(fields, page_fields, sizeof(page_fields));
	/* Proxies that keep answers until they are whole would keep this one for ever. */
	fields[PAGE_FIELDS] = (struct http_header)HTTP_H("X-Accel-Buffering", "no");
	http_reply_begin(ex, 200, "text/event-stream", fields, PAGE_FIELDS + 1);
}

void stream_reply_events(struct stream *s, struct http_exchange *ex)
{
	struct str last = http_headers_get(ex->headers, "last-event-id");
	struct err err = ERR_INIT;
	uint64_t next = 0;
	struct viewer *v;
	bool comes_back;

	if (s->stopping) {
		reply_busy(ex, 1000, "this process ends: come back, and another one answers");
		return;
	}
	if (s->n >= s->max) {
		reply_busy(ex, BUSY_RETRY_MS,
			   "as many look at the live page as limits.connections allows: ask /live "
			   "every few seconds, or come back");
		return;
	}
	comes_back = last.p && live_resume(s->live, last.p, &next);
	/* It's kept for a moment, for all who come now. */
	if (!comes_back && need_snapshot(s, &err) < 0) {
		reply_not_yet(ex, &err);
		return;
	}
	v = viewer_new(s, ex);
	v->next = next;
	v->needs_all = !comes_back;
	metric_set(m.viewers, NULL, ++s->n);
	if (s->n == 1) /* nothing is written for nobody */
		live_watch_start(s->live, &s->watch, on_frame, s);
	if (ex->method == HTTP_METHOD_HEAD) {
		begin(ex);
		viewer_free(v);
		http_reply_end(ex);
		return;
	}
	http_exchange_be_last(ex);
	begin(ex);
	if (!loop_timer_active(&s->beat))
		loop_timer_start_in(&s->beat, BEAT_MS);
	if (comes_back) /* there may be nothing to tell, and it has to see that it's heard */
		v->full = http_reply_write(ex, STR(":\n\n"));
	tell_soon(v);
}

/* ---- beginning and end ---- */

struct stream *stream_new(struct loop *loop, struct live *live, unsigned max)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->live = live;
	s->max = max;
	list_init(&s->viewers);
	list_init(&s->due);
	list_init(&s->texts);
	loop_timer_init(&s->beat, loop, on_beat, s);
	loop_work_init(&s->tell, loop, on_tell, s);
	register_metrics();
	return s;
}

void stream_forget(struct stream *s)
{
	forget(&s->snapshot);
}

void stream_stop(struct stream *s)
{
	s->stopping = true;
	LIST_FOREACH(pos, tmp, &s->viewers) {
		struct viewer *v = CONTAINER_OF(pos, struct viewer, link);
		struct http_exchange *ex = v->ex;

		if (v->once) /* its answer has an end */
			continue;
		/* One that doesn't read isn't waited for. */
		if (v->text || http_reply_waiting(ex) > 0) {
			let_go(v);
			continue;
		}
		viewer_free(v);
		http_reply_write(ex, STR("event: bye\ndata: {}\n\n"));
		http_reply_end(ex);
	}
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	live_watch_stop(&s->watch);
	loop_timer_stop(&s->beat);
	loop_work_cancel(&s->tell);
	forget(&s->snapshot);
	forget(&s->frame);
	free(s);
}
