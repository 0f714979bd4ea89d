/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/err.h: filling, wrapping, cutting, judging.
 * Uses core.
 */
#include "core/err.h"

#include <errno.h>

#include "tap.h"

static void test_set(void)
{
	struct err e = {.kind = ERR_BUSY, .retry_after_ms = 7, .maybe_applied = true};

	is_int(err_set(&e, ERR_NOT_FOUND, 404, "no %s here", "job"), -1, "err_set returns -1");
	is_int(e.kind, ERR_NOT_FOUND, "kind");
	is_int(e.code, 404, "code");
	is_uint(e.retry_after_ms, 0, "what was there before is gone");
	ok(!e.maybe_applied, "that too");
	is_str(e.msg, "no job here", "message");

	err_set(&e, ERR_INVALID, 0, "was: %s", e.msg);
	is_str(e.msg, "was: no job here", "an argument may point into the old message");
	err_set(&e, ERR_INVALID, 0, "a\nb\x1b[1mc\x7f\td");
	is_str(e.msg, "a?b?[1mc??d", "control bytes");
	err_set(&e, ERR_INVALID, 0,
		"a\xc2\x9b"
		"2J\xc2\xa0\xc3\x9f\x9b");
	is_str(e.msg, "a??2J\xc2\xa0\xc3\x9f\x9b", "and controls of two bytes, such as CSI");
	is_int(err_set(NULL, ERR_INVALID, 0, "x"), -1, "NULL is accepted");
	is_int(err_errno(NULL, EIO, "x"), -1, "by err_errno too");
	is_int(err_wrap(NULL, "x"), -1, "by err_wrap too");
}

static void test_errno(void)
{
	struct err e = ERR_INIT;

	is_int(err_errno(&e, ENOENT, "open %s", "/x"), -1, "err_errno returns -1");
	is_int(e.kind, ERR_IO, "kind");
	is_int(e.code, ENOENT, "code");
	is_str(e.msg, "open /x: No such file or directory", "message");
}

static void test_wrap(void)
{
	struct err e = ERR_INIT, to = ERR_INIT;

	err_set(&e, ERR_BUSY, 429, "slow down");
	e.retry_after_ms = 1500;
	e.maybe_applied = true;
	is_int(err_wrap(&e, "list %s", "pods"), -1, "err_wrap returns -1");
	is_str(e.msg, "list pods: slow down", "context in front");
	is_int(e.kind, ERR_BUSY, "kind stays");
	is_int(e.code, 429, "code stays");
	is_uint(e.retry_after_ms, 1500, "retry after stays");
	ok(e.maybe_applied, "maybe_applied stays");

	is_int(err_copy(&to, &e), -1, "err_copy returns -1");
	ok(memcmp(&to, &e, sizeof(e)) == 0, "a copy");
	is_int(err_copy(NULL, &e), -1, "err_copy to NULL");
	is_int(err_copy(&to, NULL), -1, "err_copy of NULL");
	is_int(to.kind, ERR_BUSY, "leaves the error");
}

static void test_cut(void)
{
	struct err e = ERR_INIT;
	char text[400];

	for (int shift = 0; shift < 5; shift++) {
		for (const char *const *c = (const char *const[]){"x", "ä", "€", "𝄞", NULL}; *c;
		     c++) {
			size_t len = (size_t)shift;
			memset(text, '.', sizeof(text));
			while (len + strlen(*c) < sizeof(text)) {
				memcpy(text + len, *c, strlen(*c));
				len += strlen(*c);
			}
			text[len] = '\0';
			err_set(&e, ERR_INVALID, 0, "%s", text);
			size_t got = strlen(e.msg);
			ok(got > 251 && got <= 255 && (got - (size_t)shift) % strlen(*c) == 0,
			   "cut between characters of %zu bytes, %d in front: %zu", strlen(*c),
			   shift, got);
		}
	}
	err_set(&e, ERR_INVALID, 0, "%s", text);
	err_wrap(&e, "context");
	ok(strncmp(e.msg, "context: ....", 13) == 0 && strlen(e.msg) <= 255, "wrapped when full");
}

static void test_kinds(void)
{
	static const struct {
		enum err_kind kind;
		int code;
		bool retryable;
		const char *name;
	} rows[] = {
		{ERR_NONE, 0, false, "none"},
		{ERR_INVALID, 400, false, "invalid"},
		{ERR_NOT_FOUND, 404, false, "not-found"},
		{ERR_EXISTS, 409, false, "exists"},
		{ERR_CONFLICT, 409, false, "conflict"},
		{ERR_GONE, 410, false, "gone"},
		{ERR_DENIED, 403, false, "denied"},
		{ERR_LIMIT, 413, false, "limit"},
		{ERR_LIMIT, ENOMEM, true, "limit"},
		{ERR_BUSY, 429, true, "busy"},
		{ERR_UNAVAILABLE, 503, true, "unavailable"},
		{ERR_TIMEOUT, 0, true, "timeout"},
		{ERR_PROTOCOL, 0, true, "protocol"},
		{ERR_IO, ECONNRESET, true, "io"},
		{ERR_IO, EMFILE, true, "io"},
		{ERR_IO, ENOENT, false, "io"},
		{ERR_IO, EACCES, false, "io"},
		{ERR_UNSUPPORTED, 0, false, "unsupported"},
		{ERR_CANCELLED, 0, false, "cancelled"},
		{ERR_INTERNAL, 500, true, "internal"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {.kind = rows[i].kind, .code = rows[i].code};
		is_int(err_is_retryable(&e), rows[i].retryable, "%s %d retryable", rows[i].name,
		       rows[i].code);
		is_str(err_kind_name(rows[i].kind), rows[i].name, "name of %s", rows[i].name);
	}
	ok(err_is_no_memory(&(struct err){.kind = ERR_LIMIT, .code = ENOMEM}), "no memory");
	ok(!err_is_no_memory(&(struct err){.kind = ERR_LIMIT, .code = 413}),
	   "too large for a peer");
	ok(!err_is_no_memory(&(struct err){.kind = ERR_IO, .code = ENOMEM}), "the kernel's");
	is_str(err_kind_name((enum err_kind)99), "unknown", "a kind that isn't one");
}

int main(void)
{
	test_set();
	test_errno();
	test_wrap();
	test_cut();
	test_kinds();
	return done_testing();
}
