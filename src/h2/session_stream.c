/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of an HTTP/2 session and their header fields. The set owns its streams.
 * Uses core and nghttp2's types.
 */
#include "session_stream.h"

#include <stdlib.h>

#include "core/fault.h"

/* ---- fields ---- */

int h2_fields_add(struct h2_fields *f, struct str name, struct str value)
{
	if (f->text.limit == 0)
		buf_init_secret(&f->text, (size_t)1 << 20); /* the session's own limit is below */
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 16;
		struct h2_header *items = fault_realloc(f->items, cap * sizeof(*items));
		if (!items)
			return -1;
		f->items = items;
		f->cap = cap;
	}
	/* A NUL behind each value would cost nothing, but nobody may rely on one. */
	if (buf_append_str(&f->text, name, NULL) < 0 || buf_append_str(&f->text, value, NULL) < 0)
		return -1;
	f->items[f->n++] = (struct h2_header){{NULL, name.len}, {NULL, value.len}, false};
	return 0;
}

void h2_fields_settle(struct h2_fields *f)
{
	const char *p = f->text.p;

	for (size_t i = 0; i < f->n; i++) {
		f->items[i].name.p = p;
		p += f->items[i].name.len;
		f->items[i].value.p = p;
		p += f->items[i].value.len;
	}
}

void h2_fields_done(struct h2_fields *f)
{
	buf_done(&f->text);
	free(f->items);
	*f = (struct h2_fields){0};
}

void h2_fields_to_nv(const struct h2_header *fields, size_t n, nghttp2_nv *nva)
{
	for (size_t i = 0; i < n; i++) {
		/* nghttp2 takes them without const and only reads. */
		nva[i] = (nghttp2_nv){
			.name = (uint8_t *)(uintptr_t)fields[i].name.p,
			.value = (uint8_t *)(uintptr_t)fields[i].value.p,
			.namelen = fields[i].name.len,
			.valuelen = fields[i].value.len,
			.flags = fields[i].secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
		};
	}
}

struct str h2_header_get(const struct h2_header *headers, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(headers[i].name, name))
			return headers[i].value;
	return STR_NULL;
}

/* ---- streams ---- */

static struct str id_key(const int32_t *id)
{
	return (struct str){(const char *)id, sizeof(*id)};
}

void h2_streams_init(struct h2_streams *set, struct h2_room *room)
{
	*set = (struct h2_streams){.by_id = map_new(), .room = room};
}

void h2_streams_count_body(struct h2_streams *set, size_t len)
{
	set->body_bytes += len;
	if (set->room)
		set->room->bytes += len;
}

static void uncount_body(struct h2_streams *set, const struct h2_stream *st)
{
	set->body_bytes -= st->body.len;
	if (set->room)
		set->room->bytes -= st->body.len;
}

static void free_stream(struct h2_stream *st)
{
	h2_fields_done(&st->head);
	h2_fields_done(&st->trailers);
	h2_fields_done(&st->out_trailers);
	buf_done(&st->body);
	buf_done(&st->out);
	free(st);
}

void h2_streams_done(struct h2_streams *set)
{
	struct map_iter it = MAP_ITER(set->by_id);

	while (map_next(&it)) {
		uncount_body(set, it.value);
		free_stream(it.value);
	}
	map_free(set->by_id);
	set->by_id = NULL;
}

struct h2_stream *h2_streams_get(const struct h2_streams *set, int32_t id)
{
	return map_get(set->by_id, id_key(&id));
}

struct h2_stream *h2_streams_add(struct h2_streams *set, int32_t id, size_t body_limit)
{
	struct h2_stream *st = h2_streams_get(set, id);

	if (st)
		return st;
	st = xcalloc(1, sizeof(*st));
	st->id = id;
	buf_init_secret(&st->body, body_limit);
	map_put(set->by_id, id_key(&st->id), st);
	return st;
}

void h2_streams_set_unfinished(struct h2_streams *set, struct h2_stream *st, bool on)
{
	if (st->unfinished != on)
		set->n_unfinished += on ? 1 : -1U;
	st->unfinished = on;
}

void h2_streams_remove(struct h2_streams *set, struct h2_stream *st)
{
	h2_streams_set_unfinished(set, st, false);
	if (st->closed)
		set->n_closed--;
	uncount_body(set, st);
	map_del(set->by_id, id_key(&st->id));
	free_stream(st);
}

void h2_streams_move_body(struct h2_streams *set, struct h2_stream *st, struct buf *ret)
{
	uncount_body(set, st);
	*ret = st->body;
	buf_init_secret(&st->body, ret->limit);
}

void h2_streams_drop_message(struct h2_streams *set, struct h2_stream *st)
{
	uncount_body(set, st);
	h2_fields_done(&st->head);
	h2_fields_done(&st->trailers);
	buf_done(&st->body);
}
