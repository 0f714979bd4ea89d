/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/str.h: slices, numbers, UTF-8, hashes, Base64.
 * Uses core.
 */
#include "core/str.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "core/fault.h"
#include "tap.h"

/* How the compilers say it: gcc by the macro, clang 14 by the feature. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_compare(void)
{
	ok(str_eq(STR(""), STR_NULL), "empty is equal to NULL");
	ok(str_eq(STR("ab"), STR("ab")) && !str_eq(STR("ab"), STR("ac")), "str_eq");
	ok(str_eqz(STR("ab"), "ab") && !str_eqz(STR("ab"), "abc") && str_eqz(STR_NULL, ""),
	   "str_eqz");
	ok(str_ieqz(STR("Content-LENGTH"), "content-length"), "str_ieqz");
	ok(!str_ieqz(STR("a@"), "a`") && !str_ieqz(STR("["), "{"), "only letters have cases");
	ok(str_has_prefix(STR("abc"), STR("ab")) && str_has_prefix(STR("abc"), STR_NULL) &&
		   !str_has_prefix(STR("a"), STR("ab")),
	   "str_has_prefix");
	ok(str_has_suffix(STR("abc"), STR("bc")) && str_has_suffix(STR_NULL, STR_NULL) &&
		   !str_has_suffix(STR("c"), STR("bc")) && !str_has_suffix(STR("abd"), STR("bc")),
	   "str_has_suffix");
}

static void test_trim_and_cut(void)
{
	static const struct {
		struct str s, want;
	} trims[] = {
		{STR(" \t\r\n a b \n"), STR("a b")},
		{STR(" "), STR("")},
		{STR_NULL, STR("")},
		{STR("x"), STR("x")},
	};
	static const struct {
		struct str s, head, tail;
		bool found;
	} cuts[] = {
		{STR("a/b/c"), STR("a"), STR("b/c"), true},
		{STR("abc"), STR("abc"), STR_NULL, false},
		{STR("/"), STR(""), STR(""), true},
		{STR("a/"), STR("a"), STR(""), true},
		{STR_NULL, STR_NULL, STR_NULL, false},
	};

	for (size_t i = 0; i < COUNT(trims); i++) {
		struct str got = str_trim(trims[i].s);
		ok(str_eq(got, trims[i].want), "trim %zu", i);
	}
	for (size_t i = 0; i < COUNT(cuts); i++) {
		struct str head, tail;
		bool found = str_cut(cuts[i].s, '/', &head, &tail);
		ok(found == cuts[i].found && str_eq(head, cuts[i].head) &&
			   str_eq(tail, cuts[i].tail),
		   "cut %zu", i);
	}
}

static void test_list_has(void)
{
	static const struct {
		struct str list, item;
		bool want;
	} rows[] = {
		{STR("a:1"), STR("a:1"), true},
		{STR("a:1, b:1 ,c:1"), STR("b:1"), true},
		{STR("a:1,b:1"), STR("b:1"), true},
		{STR("a:11,b:1"), STR("a:1"), false},
		{STR("a:1,b:1"), STR("a:11"), false},
		{STR("a:1,b:1"), STR("A:1"), false},
		{STR("a:1,b:1"), STR("a:1,b:1"), false},
		{STR("a:1,,b:1, ,"), STR(""), false},
		{STR(""), STR(""), false},
		{STR_NULL, STR("a:1"), false},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		ok(str_list_has(rows[i].list, rows[i].item) == rows[i].want, "list %zu", i);
}

static void test_to_int(void)
{
	static const struct {
		struct str s;
		int64_t min, max, want;
		bool good;
	} rows[] = {
		{STR("0"), 0, 10, 0, true},
		{STR("007"), 0, 10, 7, true},
		{STR("-5"), -5, 5, -5, true},
		{STR("9223372036854775807"), INT64_MIN, INT64_MAX, INT64_MAX, true},
		{STR("-9223372036854775808"), INT64_MIN, INT64_MAX, INT64_MIN, true},
		{STR("9223372036854775808"), INT64_MIN, INT64_MAX, 0, false},
		{STR("-9223372036854775809"), INT64_MIN, INT64_MAX, 0, false},
		{STR("99999999999999999999999999"), INT64_MIN, INT64_MAX, 0, false},
		{STR("11"), 0, 10, 0, false},
		{STR("-1"), 0, 10, 0, false},
		{STR(""), 0, 10, 0, false},
		{STR("-"), -9, 10, 0, false},
		{STR("+1"), 0, 10, 0, false},
		{STR(" 1"), 0, 10, 0, false},
		{STR("1 "), 0, 10, 0, false},
		{STR("0x1"), 0, 10, 0, false},
		{STR("1.0"), 0, 10, 0, false},
		{STR("1\0"), 0, 10, 0, false},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err e = ERR_INIT;
		int64_t n = 4711;
		int r = str_to_int(rows[i].s, rows[i].min, rows[i].max, &n, &e);
		row_begin("\"%.*s\"", STR_ARG(rows[i].s));
		is_int(r, rows[i].good ? 0 : -1, "result");
		is_int(n, rows[i].good ? rows[i].want : 4711, "number");
		is_int(e.kind, rows[i].good ? ERR_NONE : ERR_INVALID, "kind");
	}
	row_end();
}

static void test_distance(void)
{
	static const struct {
		struct str a, b;
		size_t want;
	} rows[] = {
		{STR(""), STR(""), 0},
		{STR(""), STR("abc"), 3},
		{STR("image"), STR("IMAGE"), 0},
		{STR("limit"), STR("limits"), 1},
		{STR("contianers"), STR("containers"), 2},
		{STR("kitten"), STR("sitting"), 3},
		{STR("0123456789012345678901234567890123456789x"), STR(""), 40},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		row_begin("%s, %s", rows[i].a.p, rows[i].b.p);
		is_int(str_distance(rows[i].a, rows[i].b), rows[i].want, "distance");
		is_int(str_distance(rows[i].b, rows[i].a), rows[i].want, "the other way round");
	}
	row_end();
}

static void test_meant(void)
{
	static const struct {
		const char *typed, *want;
	} rows[] = {
		{"limit", "limits"}, {"lmits", "limits"}, {"imagee", "image"},
		{"imag", "image"},   {"images", "image"}, {"nothing", NULL},
	};
	static const char *const names[] = {"image", "limits", "imager", "limitz"};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct str near = STR_NULL;

		row_begin("%s", rows[i].typed);
		for (size_t k = 0; k < COUNT(names); k++)
			str_meant(str_of(rows[i].typed), str_of(names[k]), &near);
		is_mem(near.p, near.len, rows[i].want, rows[i].want ? strlen(rows[i].want) : 0,
		       "what was meant");
	}
	row_end();
}

static void test_utf8(void)
{
	static const struct {
		struct str s;
		size_t want;
	} rows[] = {
		{STR(""), 0},
		{STR("a"), 1},
		{STR("\0"), 1},
		{STR("\x7f"), 1},
		{STR("\x80"), 0},
		{STR("\xc1\xbf"), 0},
		{STR("\xc2\x80"), 2},
		{STR("\xdf\xbf"), 2},
		{STR("\xdf"), 0},
		{STR("\xe0\x9f\xbf"), 0},
		{STR("\xe0\xa0\x80"), 3},
		{STR("\xed\x9f\xbf"), 3},
		{STR("\xed\xa0\x80"), 0},
		{STR("\xef\xbf\xbf"), 3},
		{STR("\xef\xbf"), 0},
		{STR("\xef\xbf\x41"), 0},
		{STR("\xf0\x8f\xbf\xbf"), 0},
		{STR("\xf0\x90\x80\x80"), 4},
		{STR("\xf4\x8f\xbf\xbf"), 4},
		{STR("\xf4\x90\x80\x80"), 0},
		{STR("\xf5\x80\x80\x80"), 0},
		{STR("\xf0\x90\x80"), 0},
		{STR("\xff"), 0},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[32] = "12345678abc";
		size_t len = 11;
		is_uint(str_utf8_first(rows[i].s), rows[i].want, "first sequence of row %zu", i);
		if (rows[i].s.len == 0)
			continue;
		memcpy(text + len, rows[i].s.p, rows[i].s.len);
		len += rows[i].s.len;
		is_int(str_is_utf8((struct str){text, len}), rows[i].want != 0, "whole of row %zu",
		       i);
	}
	is_uint(str_control_first(STR_NULL), 0, "nothing controls nothing");
	is_uint(str_control_first(STR("\0x")), 1, "NUL");
	is_uint(str_control_first(STR("\x1f")), 1, "the last of C0");
	is_uint(str_control_first(STR(" ")), 0, "a space");
	is_uint(str_control_first(STR("\x7f")), 1, "DEL");
	is_uint(str_control_first(STR("\xc2\x80x")), 2, "the first of C1");
	is_uint(str_control_first(STR("\xc2\x9f")), 2, "the last");
	is_uint(str_control_first(STR("\xc2\xa0")), 0, "a space that doesn't break");
	is_uint(str_control_first(STR("\xc2")), 0, "a part");
	is_uint(str_control_first(STR("\xc3\x9b")), 0, "a letter");
	ok(str_is_utf8(STR_NULL), "nothing is UTF-8");
	is_uint(str_utf8_cut(STR("aä€𝄞"), 100), 10, "nothing to cut");
	is_uint(str_utf8_cut(STR("aä€𝄞"), 9), 6, "not within four");
	is_uint(str_utf8_cut(STR("aä€𝄞"), 6), 6, "between");
	is_uint(str_utf8_cut(STR("aä€𝄞"), 2), 1, "not within two");
	is_uint(str_utf8_cut(STR("aä€𝄞"), 0), 0, "all of it");
}

static void test_hash(void)
{
	uint8_t digest[32];
	char hex[65];
	struct str parts[] = {STR("a"), STR_NULL, STR("bc")};

	ok(hash_fnv(HASH_FNV, STR("")) == HASH_FNV, "FNV-1a of nothing");
	ok(hash_fnv(HASH_FNV, STR("foobar")) == UINT64_C(0x85944171f73967e8), "FNV-1a");
	ok(hash_fnv(hash_fnv(HASH_FNV, STR("foo")), STR("bar")) == UINT64_C(0x85944171f73967e8),
	   "in parts");
	hash_sha256(parts, 3, digest);
	hex_encode(digest, sizeof(digest), hex);
	is_str(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	       "SHA-256 of abc (FIPS 180-4's example), in parts");
	hash_sha256(NULL, 0, digest);
	hex_encode(digest, 4, hex);
	is_str(hex, "e3b0c442", "SHA-256 of nothing");
	hash_sha1(parts, 3, digest);
	hex_encode(digest, 20, hex);
	is_str(hex, "a9993e364706816aba3e25717850c26c9cd0d89d",
	       "SHA-1 of abc (FIPS 180-4's example), in parts");
}

static void test_base64(void)
{
	static const struct {
		struct str plain;
		const char *text;
	} rows[] = {
		/* RFC 4648, section 10 */
		{STR(""), ""},
		{STR("f"), "Zg=="},
		{STR("fo"), "Zm8="},
		{STR("foo"), "Zm9v"},
		{STR("foob"), "Zm9vYg=="},
		{STR("fooba"), "Zm9vYmE="},
		{STR("foobar"), "Zm9vYmFy"},
		{STR("\0\xff\xfe"), "AP/+"},
	};
	static const char *const bad[] = {"Z", "Zg", "Zg=", "Z===", "Zm9v!", "Zg==Zg==", "Zm9v-_"};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_FREE char *text = base64_encode(rows[i].plain.p, rows[i].plain.len);
		CLEANUP_FREE uint8_t *plain = NULL;
		size_t len = 99;
		is_str(text, rows[i].text, "encoded");
		is_int(base64_decode(str_of(rows[i].text), &plain, &len, NULL), 0, "decoded");
		is_mem(plain, len, rows[i].plain.p, rows[i].plain.len, "the same");
		ok(plain[len] == 0, "terminated");
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct err e = ERR_INIT;
		uint8_t *plain = NULL;
		size_t len = 99;
		is_int(base64_decode(str_of(bad[i]), &plain, &len, &e), -1, "\"%s\"", bad[i]);
		is_int(e.kind, ERR_INVALID, "kind");
		ok(!plain && len == 99, "results are left alone");
		free(plain);
	}

	CLEANUP_FREE uint8_t *plain = NULL;
	size_t len;
	struct err e = ERR_INIT;
	is_int(base64_decode(STR("Zm9v\nYmFy\r\n"), &plain, &len, NULL), 0, "line breaks");
	is_mem(plain, len, "foobar", 6, "the same");
	fault_alloc_fail_at(1);
	uint8_t *none = NULL;
	is_int(base64_decode(STR("Zm9v"), &none, &len, &e), -1, "without memory");
	is_int(e.kind, ERR_LIMIT, "a limit");
	fault_alloc_fail_at(0);
}

static void test_memory(void)
{
	CLEANUP_FREE char *a = xstrndup("abc", 2);
	CLEANUP_FREE char *b = xasprintf("%d-%s", 7, "x");
	CLEANUP_FREE char *c = str_dup(STR_NULL);
	CLEANUP_FREE char *d = xcalloc(3, 1);
	CLEANUP_FREE char *e = xcalloc(0, 8);
	char secret[8] = "secret!";

	is_str(a, "ab", "xstrndup");
	is_str(b, "7-x", "xasprintf");
	is_str(c, "", "str_dup of nothing");
	is_mem(d, 3, "\0\0\0", 3, "xcalloc clears");
	ok(e != NULL, "xcalloc of nothing is something");
	ok(xstrdup(NULL) == NULL, "xstrdup of NULL");
	str_wipe(secret, sizeof(secret));
	is_mem(secret, sizeof(secret), "\0\0\0\0\0\0\0\0", 8, "wiped");
}

/* The child can't have what it asks for: it must say one line and abort. */
static void test_out_of_memory(void)
{
	int fds[2];
	char line[256];
	int status = 0;

	if (pipe(fds) < 0)
		bail_out("pipe");
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		xcalloc(SIZE_MAX / 2, 4);
		_exit(0);
	}
	close(fds[1]);
	size_t len = 0;
	ssize_t n;
	while (len < sizeof(line) - 1 && (n = read(fds[0], line + len, sizeof(line) - 1 - len)) > 0)
		len += (size_t)n;
	line[len] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
#ifdef HAS_ASAN
	ok(status != 0, "a size that overflows ends the process");
#else
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "a size that overflows aborts");
	ok(strncmp(line, "out of memory: ", 15) == 0 && strchr(line, '\n') == line + len - 1,
	   "after one line");
#endif
}

int main(void)
{
	test_compare();
	test_trim_and_cut();
	test_list_has();
	test_to_int();
	test_distance();
	test_meant();
	test_utf8();
	test_hash();
	test_base64();
	test_memory();
	test_out_of_memory();
	return done_testing();
}
