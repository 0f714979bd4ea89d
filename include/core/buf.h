/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing run of bytes with a hard limit: for what a peer's size decides.
 * The owner of the struct owns the memory; pointers into it end with the next append.
 */
#ifndef IPU_CORE_BUF_H
#define IPU_CORE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct buf {
	char *p;      /* the first byte that hasn't been consumed; NULL while empty */
	size_t len;   /* bytes from there */
	size_t limit; /* most bytes that it may hold */
	char *base;   /* the allocation, private */
	size_t cap;   /* its size, private */
	size_t dirty; /* bytes of it that were written since it was wiped last, private */
	/* What it holds is wiped before the memory is given away or back: when the buffer is
	 * cleared, consumed to its end, moved or done. Set before the first byte; kept by buf_done.
	 */
	bool secret;
};

#define BUF_INIT(limit_bytes)   {.limit = (limit_bytes)}
#define BUF_SECRET(limit_bytes) {.limit = (limit_bytes), .secret = true}

void buf_init(struct buf *b, size_t limit_bytes);
void buf_init_secret(struct buf *b, size_t limit_bytes);
void buf_done(struct buf *b);  /* frees; the buffer is empty and usable afterwards */
void buf_clear(struct buf *b); /* empty, memory kept */

/* ERR_LIMIT when it would grow over its limit or memory is out; then nothing was appended. */
int buf_append(struct buf *b, const void *p, size_t len, struct err *err);
int buf_append_str(struct buf *b, struct str s, struct err *err);
int buf_printf(struct buf *b, struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int buf_vprintf(struct buf *b, struct err *err, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* Room for len more bytes behind the end; *ret_p points there. buf_commit says how many of them
 * were filled. */
int buf_reserve(struct buf *b, size_t len, char **ret_p, struct err *err);
void buf_commit(struct buf *b, size_t len);

void buf_consume(struct buf *b, size_t len); /* drops from the front, O(1) amortised */

/* Gives back what isn't used, where that's possible: of what is kept and doesn't grow any more. */
void buf_fit(struct buf *b);

/* Hands the bytes out, terminated by a NUL that isn't counted; the caller frees. The buffer is
 * empty afterwards. Never NULL. */
char *buf_steal(struct buf *b, size_t *ret_len);

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){b->p, b->len};
}

#endif
