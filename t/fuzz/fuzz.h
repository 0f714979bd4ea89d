/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share: a check that ends the process, transcripts of what a parser said,
 * and pieces to feed a parser with. Every piece is a copy of exactly its size, so that a sanitizer
 * sees what is read beyond it. Uses core.
 */
#ifndef IPU_T_FUZZ_FUZZ_H
#define IPU_T_FUZZ_FUZZ_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

/* libFuzzer's and replay.c's. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

/* An invariant. The fuzzer keeps the input that broke it. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fuzz_fail(__FILE__, __LINE__, #condition);                                 \
	} while (0)

static inline void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: this must hold: %s\n", file, line, what);
	abort();
}

static inline struct str fuzz_str(const uint8_t *p, size_t len)
{
	return (struct str){len ? (const char *)p : "", len};
}

/* Takes the first byte off; otherwise when there is none. */
static inline char fuzz_take(struct str *s, char otherwise)
{
	if (s->len == 0)
		return otherwise;
	s->len--;
	return *s->p++;
}

/* Takes a line off, without its end. */
static inline struct str fuzz_line(struct str *s)
{
	struct str line;

	str_cut(*s, '\n', &line, s);
	return line;
}

/* ---- transcripts ---- */

#define FUZZ_TEXT_BYTES ((size_t)32 << 20)
#define FUZZ_TEXT       BUF_INIT(FUZZ_TEXT_BYTES)

static inline void fuzz_add(struct buf *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static inline void fuzz_add(struct buf *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	MUST(buf_vprintf(out, NULL, fmt, ap) == 0);
	va_end(ap);
}

static inline void fuzz_add_str(struct buf *out, struct str s)
{
	MUST(buf_append_str(out, s, NULL) == 0);
}

/* Both are the same, and are freed. */
static inline void fuzz_same(struct buf *a, struct buf *b)
{
	if (!str_eq(buf_str(a), buf_str(b)))
		fprintf(stderr, "one:   %.*s\nother: %.*s\n", STR_ARG(buf_str(a)),
			STR_ARG(buf_str(b)));
	MUST(str_eq(buf_str(a), buf_str(b)));
	buf_done(a);
	buf_done(b);
}

static inline int fuzz_compare_lines(const void *a, const void *b)
{
	const struct str *x = a, *y = b;
	size_t least = x->len < y->len ? x->len : y->len;
	int order = least > 0 ? memcmp(x->p, y->p, least) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Sorts a transcript's lines, where their order may differ. */
static inline void fuzz_sort_lines(struct buf *text)
{
	struct buf sorted = FUZZ_TEXT;
	struct str rest = buf_str(text), *lines = xcalloc(text->len + 1, sizeof(*lines));
	size_t n = 0;

	while (rest.len > 0)
		lines[n++] = fuzz_line(&rest);
	qsort(lines, n, sizeof(*lines), fuzz_compare_lines);
	for (size_t i = 0; i < n; i++) {
		fuzz_add_str(&sorted, lines[i]);
		fuzz_add(&sorted, "\n");
	}
	free(lines);
	buf_done(text);
	*text = sorted;
}

/* ---- pieces ---- */

enum { FUZZ_WHOLE = -1, FUZZ_BYTES = 0 }; /* other ways: a seed for pieces of changing sizes */

struct fuzz_pieces {
	struct str rest;
	int way;
	uint32_t state;
	char *exact;
};
#define FUZZ_PIECES(s, way_) {.rest = (s), .way = (way_), .state = (uint32_t)(way_) * 2 + 1}

/* The next piece, borrowed until the next call; false at the end, and nothing is left to free. */
static inline bool fuzz_pieces_next(struct fuzz_pieces *it, struct str *ret)
{
	size_t n = it->rest.len;

	free(it->exact);
	it->exact = NULL;
	if (n == 0)
		return false;
	if (it->way == FUZZ_BYTES) {
		n = 1;
	} else if (it->way != FUZZ_WHOLE) {
		it->state = it->state * 1664525U + 1013904223U;
		size_t most = (size_t)1 << (it->state >> 28);
		size_t size = 1 + (it->state >> 8) % most;
		n = size < n ? size : n;
	}
	it->exact = malloc(n);
	MUST(it->exact);
	memcpy(it->exact, it->rest.p, n);
	*ret = (struct str){it->exact, n};
	it->rest.p += n;
	it->rest.len -= n;
	return true;
}

/* ---- what is read from a file ---- */

struct fuzz_file {
	int fd;
	char path[32];
};

/* A file that holds s and has a path, in memory. */
static inline void fuzz_file_open(struct fuzz_file *f, struct str s)
{
	f->fd = memfd_create("fuzz", MFD_CLOEXEC);
	MUST(f->fd >= 0);
	MUST(write(f->fd, s.p, s.len) == (ssize_t)s.len);
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
}

static inline void fuzz_file_close(struct fuzz_file *f)
{
	close(f->fd);
}

#endif
