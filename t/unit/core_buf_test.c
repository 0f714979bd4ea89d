/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/buf.h: a model run against a plain array, the limit, and every allocation failing.
 * Uses core.
 */
#include "core/buf.h"

#include "core/rand.h"
#include "no_memory.h"
#include "tap.h"

static void test_basics(void)
{
	struct buf b = BUF_INIT(100);
	struct err e = ERR_INIT;
	size_t len;
	char *p;

	ok(b.p == NULL && b.len == 0, "empty");
	is_int(buf_append(&b, NULL, 0, &e), 0, "appending nothing");
	is_int(buf_append_str(&b, STR("hello"), &e), 0, "a slice");
	is_int(buf_printf(&b, &e, ", %s %d", "world", 1), 0, "a format");
	is_mem(b.p, b.len, "hello, world 1", 14, "bytes");
	buf_consume(&b, 7);
	is_mem(b.p, b.len, "world 1", 7, "after consuming");
	is_int(buf_reserve(&b, 3, &p, &e), 0, "room");
	memcpy(p, "23", 2);
	buf_commit(&b, 2);
	ok(str_eq(buf_str(&b), STR("world 123")), "committed");
	p = buf_steal(&b, &len);
	is_str(p, "world 123", "stolen after consuming");
	is_uint(len, 9, "length");
	ok(b.p == NULL && b.len == 0 && b.limit == 100, "empty afterwards");
	free(p);
	buf_append_str(&b, STR("x"), NULL);
	p = buf_steal(&b, NULL);
	is_str(p, "x", "stolen from the front");
	free(p);
	p = buf_steal(&b, &len);
	is_str(p, "", "stolen when empty");
	free(p);

	buf_fit(&b);
	ok(b.p == NULL, "nothing to give back");
	buf_append_str(&b, STR("abcdef"), NULL);
	buf_consume(&b, 2);
	buf_fit(&b);
	is_mem(b.p, b.len, "cdef", 4, "kept when the rest is given back");
	is_uint(b.cap, 4, "and no more than that");
	is_int(buf_append_str(&b, STR("gh"), &e), 0, "it grows again");
	is_mem(b.p, b.len, "cdefgh", 6, "behind what it had");
	buf_done(&b);

	buf_append_str(&b, STR("abc"), NULL);
	buf_consume(&b, 3);
	is_uint(b.len, 0, "all consumed");
	buf_append_str(&b, STR("def"), NULL);
	buf_consume(&b, 99);
	is_uint(b.len, 0, "more consumed than there is");
	buf_append_str(&b, STR("def"), NULL);
	buf_clear(&b);
	is_uint(b.len, 0, "cleared");
	buf_done(&b);
	buf_append_str(&b, STR("again"), NULL);
	is_mem(b.p, b.len, "again", 5, "usable after buf_done");
	buf_done(&b);
}

static void test_limit(void)
{
	struct buf b = BUF_INIT(10);
	struct err e = ERR_INIT;
	char *p = NULL;

	is_int(buf_append(&b, "0123456789", 10, &e), 0, "up to the limit");
	is_int(buf_append(&b, "x", 1, &e), -1, "one more");
	is_int(e.kind, ERR_LIMIT, "kind");
	is_mem(b.p, b.len, "0123456789", 10, "nothing was appended");
	is_int(buf_reserve(&b, SIZE_MAX, &p, NULL), -1, "a size that would overflow");
	ok(p == NULL, "left alone");
	buf_consume(&b, 4);
	is_int(buf_append(&b, "abcd", 4, &e), 0, "room by consuming");
	is_mem(b.p, b.len, "456789abcd", 10, "bytes");
	is_int(buf_printf(&b, &e, "%d", 1), -1, "a format over the limit");
	is_int(buf_printf(&b, &e, "%0400d", 1), -1, "a long one");
	is_uint(b.len, 10, "nothing was appended");
	buf_done(&b);

	struct buf none = BUF_INIT(0);
	is_int(buf_append(&none, "x", 1, &e), -1, "a limit of 0");
	buf_done(&none);

	struct buf large = BUF_INIT(1000);
	is_int(buf_printf(&large, &e, "%0600d", 1), 0, "longer than the small buffer");
	is_uint(large.len, 600, "length");
	buf_done(&large);
}

/* Random appends and consumes against an array that keeps everything. */
static void test_model(void)
{
	enum { LIMIT = 5000, STEPS = 20000 };
	static char all[STEPS * 300];
	size_t from = 0, to = 0, wrong = 0, refused = 0;
	struct buf b = BUF_INIT(LIMIT);

	rand_seed(1);
	for (int i = 0; i < STEPS; i++) {
		size_t n = (size_t)rand_below(300);
		if (rand_below(2)) {
			rand_bytes(all + to, n);
			bool fits = to - from + n <= LIMIT;
			if ((buf_append(&b, all + to, n, NULL) == 0) != fits)
				wrong++;
			if (fits)
				to += n;
			else
				refused++;
		} else {
			buf_consume(&b, n);
			from = n > to - from ? to : from + n;
		}
		if (b.len != to - from || (b.len && memcmp(b.p, all + from, b.len) != 0) ||
		    b.cap > LIMIT)
			wrong++;
	}
	is_uint(wrong, 0, "%d random steps", STEPS);
	note("%zu appends were over the limit", refused);
	buf_done(&b);
}

static void test_fault(void)
{
	struct no_memory m = {0};

	while (no_memory_next(&m)) {
		struct buf b = BUF_INIT(100000);
		struct err e = ERR_INIT;
		size_t want = 0;
		int r = 0;
		no_memory_begin(&m);
		for (int i = 0; i < 100 && r == 0; i++) {
			r = i % 2 ? buf_append(&b, "0123456789", 10, &e)
				  : buf_printf(&b, &e, "%0500d", i);
			if (r == 0)
				want += i % 2 ? 10 : 500;
		}
		no_memory_end(&m);
		if (m.whole) {
			is_int(r, 0, "no allocation failed");
			buf_done(&b);
			break;
		}
		ok(r == -1 && e.kind == ERR_LIMIT && b.len == want, "allocation %lu fails", m.n);
		is_int(buf_append(&b, "x", 1, &e), 0, "the next append goes well");
		buf_done(&b);
	}
	no_memory_ok(&m, 50);
}

int main(void)
{
	test_basics();
	test_limit();
	test_model();
	test_fault();
	return done_testing();
}
