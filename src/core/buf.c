/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing buffer. Consumed bytes stay in front until an append needs their room, so that
 * consuming costs nothing and bytes move at most once for each time the buffer fills.
 * Uses err, fault and str.
 */
#include "core/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fault.h"
#include "core/str.h"

#define MIN_CAP 256

void buf_init(struct buf *b, size_t limit_bytes)
{
	*b = (struct buf)BUF_INIT(limit_bytes);
}

void buf_init_secret(struct buf *b, size_t limit_bytes)
{
	*b = (struct buf)BUF_SECRET(limit_bytes);
}

/* Only what was written: a buffer of 64 KB that carries 300 bytes at a time costs no more than
 * they do. */
static void wipe(struct buf *b)
{
	if (b->secret)
		str_wipe(b->base, b->dirty);
	b->dirty = 0;
}

void buf_done(struct buf *b)
{
	wipe(b);
	free(b->base);
	*b = (struct buf){.limit = b->limit, .secret = b->secret};
}

void buf_clear(struct buf *b)
{
	wipe(b);
	b->p = b->base;
	b->len = 0;
}

int buf_reserve(struct buf *b, size_t len, char **ret_p, struct err *err)
{
	if (b->len > b->limit || len > b->limit - b->len)
		return err_set(err, ERR_LIMIT, 0, "more than the limit of %zu bytes", b->limit);

	size_t need = b->len + len;
	size_t front = b->base ? (size_t)(b->p - b->base) : 0;

	if (!b->base || b->cap - front < need) {
		/* Moving down is paid for by what was consumed, if that is at least half. */
		if (b->base && need <= b->cap && front >= b->len) {
			memmove(b->base, b->p, b->len);
		} else {
			size_t cap = b->cap > MIN_CAP / 2 ? b->cap : MIN_CAP / 2;
			if (cap < need)
				cap = need;
			cap = cap > SIZE_MAX / 2 ? cap : cap * 2;
			if (cap > b->limit)
				cap = b->limit; /* not under need: that was looked at above */
			char *base = fault_realloc(NULL, cap);
			if (!base)
				return err_set(err, ERR_LIMIT, ENOMEM, "no memory for %zu bytes",
					       cap);
			if (b->len)
				memcpy(base, b->p, b->len);
			wipe(b);
			free(b->base);
			b->base = base;
			b->cap = cap;
			b->dirty = b->len;
		}
		b->p = b->base;
	}
	*ret_p = b->p + b->len;
	return 0;
}

void buf_commit(struct buf *b, size_t len)
{
	b->len += len;
	size_t end = (size_t)(b->p - b->base) + b->len;
	if (end > b->dirty)
		b->dirty = end;
}

int buf_append(struct buf *b, const void *p, size_t len, struct err *err)
{
	char *to;

	if (len == 0)
		return 0;
	if (buf_reserve(b, len, &to, err) < 0)
		return -1;
	memcpy(to, p, len);
	buf_commit(b, len);
	return 0;
}

int buf_append_str(struct buf *b, struct str s, struct err *err)
{
	return buf_append(b, s.p, s.len, err);
}

int buf_printf(struct buf *b, struct err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vprintf(b, err, fmt, ap);
	va_end(ap);
	return r;
}

int buf_vprintf(struct buf *b, struct err *err, const char *fmt, va_list ap)
{
	char small[256];
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(small, sizeof(small), fmt, ap);
	int r = -1;
	if (n < 0) {
		err_set(err, ERR_INTERNAL, 0, "a text couldn't be formatted");
	} else if ((size_t)n < sizeof(small)) {
		r = buf_append(b, small, (size_t)n, err);
	} else {
		char *large = fault_realloc(NULL, (size_t)n + 1);
		if (large) {
			vsnprintf(large, (size_t)n + 1, fmt, again);
			r = buf_append(b, large, (size_t)n, err);
			if (b->secret)
				str_wipe(large, (size_t)n);
			free(large);
		} else {
			err_set(err, ERR_LIMIT, ENOMEM, "no memory for %d bytes", n);
		}
	}
	va_end(again);
	if (b->secret)
		str_wipe(small, sizeof(small));
	return r;
}

void buf_consume(struct buf *b, size_t len)
{
	if (len >= b->len) {
		buf_clear(b);
		return;
	}
	b->p += len;
	b->len -= len;
}

void buf_fit(struct buf *b)
{
	char *base = b->len && b->len < b->cap ? malloc(b->len) : NULL;

	if (!base)
		return;
	memcpy(base, b->p, b->len);
	wipe(b); /* realloc could leave a copy behind */
	free(b->base);
	b->base = b->p = base;
	b->cap = b->dirty = b->len;
}

char *buf_steal(struct buf *b, size_t *ret_len)
{
	size_t len = b->len;
	char *p;

	/* Shrinking may move it, and leave a copy behind. */
	if (b->base && b->p == b->base && !b->secret) {
		p = xrealloc(b->base, len + 1);
		b->base = NULL;
		b->dirty = 0;
	} else {
		p = xrealloc(NULL, len + 1);
		if (len)
			memcpy(p, b->p, len);
	}
	p[len] = '\0';
	buf_done(b);
	if (ret_len)
		*ret_len = len;
	return p;
}
