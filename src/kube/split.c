/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a watch and elements of a list, cut out of a stream of bytes.
 * Owns one buffer each, for what spans chunks. Uses core/.
 */
#include "split.h"

#include <string.h>

#define KEEP_BYTES ((size_t)256 << 10) /* a buffer that grew larger isn't kept */

static void forget(struct buf *b, bool *handed)
{
	if (!*handed)
		return;
	*handed = false;
	if (b->len > KEEP_BYTES)
		buf_done(b);
	else
		buf_clear(b);
}

/* Appends as much as the limit allows; false when it wasn't all. */
static bool keep(struct buf *b, struct str s)
{
	size_t room = b->limit - b->len;
	size_t take = s.len < room ? s.len : room;
	if (take > 0 && buf_append(b, s.p, take, NULL) < 0)
		return false;
	return take == s.len;
}

/* ---- lines ---- */

void kube_lines_init(struct kube_lines *l, size_t max_line_bytes)
{
	*l = (struct kube_lines){.buf = BUF_INIT(max_line_bytes)};
}

void kube_lines_done(struct kube_lines *l)
{
	buf_done(&l->buf);
	l->handed = l->skipping = false;
}

size_t kube_lines_rest(const struct kube_lines *l)
{
	return l->handed ? 0 : l->buf.len;
}

bool kube_lines_next(struct kube_lines *l, struct str *chunk, struct kube_piece *ret)
{
	forget(&l->buf, &l->handed);
	while (chunk->len > 0) {
		const char *nl = memchr(chunk->p, '\n', chunk->len);
		struct str part = {chunk->p, nl ? (size_t)(nl - chunk->p) : chunk->len};
		size_t used = part.len + (nl ? 1 : 0);

		chunk->p += used;
		chunk->len -= used;
		if (nl && l->buf.len == 0 && !l->skipping && part.len <= l->buf.limit) {
			part = str_trim(part);
			if (part.len == 0)
				continue;
			*ret = (struct kube_piece){.bytes = part};
			return true;
		}
		if (!l->skipping && !keep(&l->buf, part))
			l->skipping = true;
		if (!nl)
			continue;
		*ret = (struct kube_piece){.bytes = buf_str(&l->buf), .cut = l->skipping};
		l->skipping = false;
		l->handed = true;
		ret->bytes = str_trim(ret->bytes);
		if (ret->bytes.len > 0)
			return true;
		forget(&l->buf, &l->handed);
	}
	return false;
}

/* ---- lists ---- */

enum items_state {
	BEFORE,     /* the document's '{' */
	FIRST_KEY,  /* a key, or '}' at once */
	KEY,        /* a key */
	IN_KEY,     /* within its quotes */
	COLON,      /* ':' */
	VALUE,      /* a value of the top level */
	AFTER,      /* ',' or '}' */
	FIRST_ITEM, /* an element, or ']' at once */
	ITEM,       /* an element */
	AFTER_ITEM, /* ',' or ']' */
	IN_VALUE,   /* within a value that is handed out or left out as a whole */
	ENDED,      /* nothing but white space */
};

void kube_items_init(struct kube_items *it, size_t max_object_bytes)
{
	*it = (struct kube_items){.buf = BUF_INIT(max_object_bytes), .state = BEFORE};
}

void kube_items_done(struct kube_items *it)
{
	buf_done(&it->buf);
	*it = (struct kube_items){.buf = it->buf, .state = BEFORE};
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static int bad(const char *expected, char got, struct err *err)
{
	return err_set(err, ERR_PROTOCOL, 0,
		       "the API server's answer isn't a list: %s expected, got '%c'", expected,
		       got >= ' ' && got <= '~' ? got : '?');
}

/* The length of the part of s that belongs to the value that has begun; *ret_whole: it ends there.
 */
static size_t scan_value(struct kube_items *it, struct str s, bool *ret_whole)
{
	*ret_whole = true;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		if (it->in_string) {
			if (it->escaped)
				it->escaped = false;
			else if (c == '\\')
				it->escaped = true;
			else if (c == '"') {
				it->in_string = false;
				if (it->depth == 0)
					return i + 1;
			}
			continue;
		}
		switch (c) {
		case '"':
			it->in_string = true;
			break;
		case '{':
		case '[':
			it->depth++;
			break;
		case '}':
		case ']':
			if (it->depth == 0) /* the end of what a bare number or word stands in */
				return i;
			if (--it->depth == 0)
				return i + 1;
			break;
		case ',':
		case ' ':
		case '\n':
		case '\r':
		case '\t':
			if (it->depth == 0)
				return i;
			break;
		default:
			break;
		}
	}
	*ret_whole = false;
	return s.len;
}

static void begin_value(struct kube_items *it, enum kube_items_event capture, enum items_state back)
{
	it->state = IN_VALUE;
	it->back = back;
	it->capture = capture;
	it->depth = 0;
	it->in_string = it->escaped = it->skipping = false;
}

/* True when the value is whole and is to be handed out. */
static bool take_value(struct kube_items *it, struct str *chunk, struct kube_piece *ret)
{
	bool whole;
	struct str part = {chunk->p, scan_value(it, *chunk, &whole)};
	chunk->p += part.len;
	chunk->len -= part.len;
	if (whole)
		it->state = it->back;
	if (it->capture == KUBE_ITEMS_MORE)
		return false;
	if (whole && it->buf.len == 0 && !it->skipping && part.len <= it->buf.limit) {
		*ret = (struct kube_piece){.bytes = part};
		return true;
	}
	if (!it->skipping && !keep(&it->buf, part))
		it->skipping = true;
	if (!whole)
		return false;
	*ret = (struct kube_piece){.bytes = buf_str(&it->buf), .cut = it->skipping};
	it->skipping = false;
	it->handed = true;
	return true;
}

static void begin_top_value(struct kube_items *it, char c, bool *ret_used)
{
	struct str key = {it->key, it->key_len};
	*ret_used = false;
	if (str_eqz(key, "items") && c == '[') {
		it->had_items = true;
		it->state = FIRST_ITEM;
		*ret_used = true;
	} else if (str_eqz(key, "metadata") && c == '{') {
		it->had_metadata = true;
		begin_value(it, KUBE_ITEMS_METADATA, AFTER);
	} else {
		if (str_eqz(key, "items") && c == 'n')
			it->had_items = true; /* null, as Go writes an empty list */
		begin_value(it, KUBE_ITEMS_MORE, AFTER);
	}
}

/* One byte outside values. *ret_used: false where it begins a value. */
static int step(struct kube_items *it, char c, bool *ret_used, struct err *err)
{
	*ret_used = true;
	if (it->state == IN_KEY) {
		if (c == '"')
			it->state = COLON;
		else if (it->key_len < sizeof(it->key))
			it->key[it->key_len++] = c;
		return 0;
	}
	if (is_space(c))
		return 0;
	switch ((enum items_state)it->state) {
	case BEFORE:
		it->state = FIRST_KEY;
		return c == '{' ? 0 : bad("'{'", c, err);
	case FIRST_KEY:
	case KEY:
		if (c == '}' && it->state == FIRST_KEY) {
			it->state = ENDED;
			return 0;
		}
		it->state = IN_KEY;
		it->key_len = 0;
		return c == '"' ? 0 : bad("a key", c, err);
	case COLON:
		it->state = VALUE;
		return c == ':' ? 0 : bad("':'", c, err);
	case VALUE:
		if (c == ',' || c == '}' || c == ']' || c == ':')
			return bad("a value", c, err);
		begin_top_value(it, c, ret_used);
		return 0;
	case AFTER:
		it->state = c == ',' ? KEY : ENDED;
		return c == ',' || c == '}' ? 0 : bad("',' or '}'", c, err);
	case FIRST_ITEM:
	case ITEM:
		if (c == ']' && it->state == FIRST_ITEM) {
			it->state = AFTER;
			return 0;
		}
		if (c == ',' || c == '}' || c == ']' || c == ':')
			return bad("an object", c, err);
		*ret_used = false;
		begin_value(it, KUBE_ITEMS_OBJECT, AFTER_ITEM);
		return 0;
	case AFTER_ITEM:
		it->state = c == ',' ? ITEM : AFTER;
		return c == ',' || c == ']' ? 0 : bad("',' or ']'", c, err);
	default:
		return bad("the end", c, err);
	}
}

int kube_items_next(struct kube_items *it, struct str *chunk, enum kube_items_event *ret_event,
		    struct kube_piece *ret, struct err *err)
{
	forget(&it->buf, &it->handed);
	while (chunk->len > 0) {
		bool used;
		if (it->state == IN_VALUE) {
			if (!take_value(it, chunk, ret))
				continue;
			*ret_event = (enum kube_items_event)it->capture;
			return 0;
		}
		if (step(it, chunk->p[0], &used, err) < 0)
			return -1;
		if (used) {
			chunk->p++;
			chunk->len--;
		}
	}
	*ret_event = it->state == ENDED ? KUBE_ITEMS_END : KUBE_ITEMS_MORE;
	if (it->state == ENDED && !(it->had_items && it->had_metadata))
		return err_set(err, ERR_PROTOCOL, 0,
			       "the API server's answer isn't a list: it has no %s",
			       it->had_items ? "metadata" : "items");
	return 0;
}
