/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting lists and watch lines out of a stream: tables, each in one piece, byte by byte and at
 * every place in two; limits; and the names of what can't be parsed.
 */
#include "kube/split.h"

#include "core/json.h"
#include "core/rand.h"
#include "tap.h"

#define OUT_SIZE 4096

static void put(char *out, const char *mark, struct str s)
{
	size_t used = strlen(out);
	snprintf(out + used, OUT_SIZE - used, "%s%.*s|", mark, STR_ARG(s));
}

/* ---- lines ---- */

static void feed_lines(struct kube_lines *l, struct str chunk, char *out)
{
	/* A copy of exactly that size, so that a sanitizer sees reads beyond it. */
	CLEANUP_FREE char *copy = chunk.len ? xstrndup(chunk.p, chunk.len) : NULL;
	struct str left = {copy, chunk.len};
	struct kube_piece piece;
	while (kube_lines_next(l, &left, &piece))
		put(out, piece.cut ? "CUT " : "", piece.bytes);
}

static const struct {
	const char *name, *in, *want;
	size_t limit, rest;
} line_rows[] = {
	{"one line", "{}\n", "{}|", 100, 0},
	{"two", "{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}|{\"b\":2}|", 100, 0},
	{"CRLF", "{}\r\n{}\r\n", "{}|{}|", 100, 0},
	{"empty lines", "\n\n{}\n\r\n", "{}|", 100, 0},
	{"no end", "{}\n{\"a\"", "{}|", 100, 4},
	{"at the limit", "0123456789\nab\n", "0123456789|ab|", 10, 0},
	{"over the limit", "0123456789x\nab\n", "CUT 0123456789|ab|", 10, 0},
	{"far over it", "0123456789xxxxxxxxxxxxxxxxxxxxxxxxxxx\nab\n", "CUT 0123456789|ab|", 10, 0},
	{"two over it", "0123456789x\n0123456789y\nab\n", "CUT 0123456789|CUT 0123456789|ab|", 10,
	 0},
	{"nothing", "", "", 10, 0},
};

static void test_lines(void)
{
	for (size_t i = 0; i < sizeof(line_rows) / sizeof(line_rows[0]); i++) {
		struct str in = str_of(line_rows[i].in);
		bool same = true;
		size_t rest = 0;
		row_begin("lines, %s", line_rows[i].name);
		for (size_t cut = 0; cut <= in.len; cut++) {
			char out[OUT_SIZE] = "";
			struct kube_lines l;
			kube_lines_init(&l, line_rows[i].limit);
			feed_lines(&l, (struct str){in.p, cut}, out);
			feed_lines(&l, (struct str){in.p + cut, in.len - cut}, out);
			if (cut == 0)
				is_str(out, line_rows[i].want, "in one piece");
			same = same && strcmp(out, line_rows[i].want) == 0;
			rest = kube_lines_rest(&l);
			kube_lines_done(&l);
		}
		ok(same, "cut in two anywhere");
		(void)rest;
		char out[OUT_SIZE] = "";
		struct kube_lines l;
		kube_lines_init(&l, line_rows[i].limit);
		for (size_t at = 0; at < in.len; at++)
			feed_lines(&l, (struct str){in.p + at, 1}, out);
		is_str(out, line_rows[i].want, "byte by byte");
		is_uint(kube_lines_rest(&l), line_rows[i].rest, "what is left of a line");
		kube_lines_done(&l);
	}
	row_end();
}

/* ---- lists ---- */

static int feed_items(struct kube_items *it, struct str chunk, char *out, struct err *err)
{
	CLEANUP_FREE char *copy = chunk.len ? xstrndup(chunk.p, chunk.len) : NULL;
	struct str left = {copy, chunk.len};
	struct kube_piece piece;
	enum kube_items_event event;
	for (;;) {
		if (kube_items_next(it, &left, &event, &piece, err) < 0)
			return -1;
		if (event == KUBE_ITEMS_MORE)
			return 0;
		if (event == KUBE_ITEMS_END)
			return 1;
		if (event == KUBE_ITEMS_METADATA)
			put(out, piece.cut ? "CUT META " : "META ", piece.bytes);
		else
			put(out, piece.cut ? "CUT " : "", piece.bytes);
	}
}

#define WANT_MORE 0
#define WANT_END  1
#define WANT_BAD  -1

static const struct {
	const char *name, *in, *want;
	int end;
	size_t limit;
} item_rows[] = {
	{"empty", "{\"kind\":\"PodList\",\"metadata\":{\"a\":1},\"items\":[]}", "META {\"a\":1}|",
	 WANT_END, 100},
	{"null items", "{\"metadata\":{},\"items\":null}\n", "META {}|", WANT_END, 100},
	{"two", "{\"metadata\":{},\"items\":[{\"a\":[1,{}]},{\"b\":2}]}",
	 "META {}|{\"a\":[1,{}]}|{\"b\":2}|", WANT_END, 100},
	{"metadata last", "{\"items\":[{\"a\":1}],\"kind\":\"L\",\"metadata\":{\"x\":\"y\"}}",
	 "{\"a\":1}|META {\"x\":\"y\"}|", WANT_END, 100},
	{"white space", " {\n \"metadata\" : { } ,\r\n\t\"items\" : [ {} , { } ] } \n",
	 "META { }|{}|{ }|", WANT_END, 100},
	{"brackets in strings", "{\"metadata\":{},\"items\":[{\"a\":\"]}\\\"}{[\\\\\"},{}]}",
	 "META {}|{\"a\":\"]}\\\"}{[\\\\\"}|{}|", WANT_END, 100},
	{"items that aren't objects", "{\"metadata\":{},\"items\":[1,\"x,]\",true,[2],null]}",
	 "META {}|1|\"x,]\"|true|[2]|null|", WANT_END, 100},
	{"members that don't matter",
	 "{\"a\":{\"items\":[1]},\"b\":[{}],\"c\":1,\"d\":\"x\",\"e\":null,"
	 "\"aVeryLongKeyIndeedIsThis\":1,"
	 "\"metadata\":{},\"items\":[{}]}",
	 "META {}|{}|", WANT_END, 100},
	{"over the limit", "{\"metadata\":{},\"items\":[{\"a\":\"0123456789\"},{\"b\":1}]}",
	 "META {}|CUT {\"a\":\"0123|{\"b\":1}|", WANT_END, 10},
	{"cut short", "{\"metadata\":{},\"items\":[{\"a\":1},{\"b\"", "META {}|{\"a\":1}|",
	 WANT_MORE, 100},
	{"not begun", "", "", WANT_MORE, 100},
	{"no items", "{\"metadata\":{}}", "META {}|", WANT_BAD, 100},
	{"no metadata", "{\"items\":[{}]}", "{}|", WANT_BAD, 100},
	{"empty object", "{}", "", WANT_BAD, 100},
	{"an array", "[]", "", WANT_BAD, 100},
	{"HTML", "<html>", "", WANT_BAD, 100},
	{"trailing bytes", "{\"metadata\":{},\"items\":[]}x", "META {}|", WANT_BAD, 100},
	{"missing comma", "{\"metadata\":{},\"items\":[{}{}]}", "META {}|{}|", WANT_BAD, 100},
	{"missing element", "{\"metadata\":{},\"items\":[{},]}", "META {}|{}|", WANT_BAD, 100},
	{"missing value", "{\"metadata\":,\"items\":[]}", "", WANT_BAD, 100},
	{"missing colon", "{\"metadata\"{},\"items\":[]}", "", WANT_BAD, 100},
	{"a key without quotes", "{metadata:{}}", "", WANT_BAD, 100},
};

static void test_items(void)
{
	for (size_t i = 0; i < sizeof(item_rows) / sizeof(item_rows[0]); i++) {
		struct str in = str_of(item_rows[i].in);
		struct err err = ERR_INIT;
		bool same = true;
		row_begin("items, %s", item_rows[i].name);
		for (size_t cut = 0; cut <= in.len; cut++) {
			char out[OUT_SIZE] = "";
			struct kube_items it;
			kube_items_init(&it, item_rows[i].limit);
			int rc = feed_items(&it, (struct str){in.p, cut}, out, &err);
			if (rc >= 0)
				rc = feed_items(&it, (struct str){in.p + cut, in.len - cut}, out,
						&err);
			if (cut == 0) {
				is_str(out, item_rows[i].want, "in one piece");
				is_int(rc, item_rows[i].end, "how it ends");
				if (rc < 0)
					is_int(err.kind, ERR_PROTOCOL, "the error's kind");
			}
			same = same && strcmp(out, item_rows[i].want) == 0 &&
			       rc == item_rows[i].end;
			kube_items_done(&it);
		}
		ok(same, "cut in two anywhere");
		char out[OUT_SIZE] = "";
		struct kube_items it;
		int rc = 0;
		kube_items_init(&it, item_rows[i].limit);
		for (size_t at = 0; at < in.len && rc >= 0; at++)
			rc = feed_items(&it, (struct str){in.p + at, 1}, out, &err);
		is_str(out, item_rows[i].want, "byte by byte");
		is_int(rc, item_rows[i].end, "how it ends, byte by byte");
		kube_items_done(&it);
	}
	row_end();
}

/* ---- names of what can't be parsed ---- */

static const struct {
	const char *name, *in;
	bool in_event;
	const char *want; /* ns/name uid version */
} peek_rows[] = {
	{"a list's element",
	 "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"
	 "\"7\"}}",
	 false, "n/a u 7"},
	{"a watch's event",
	 "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\","
	 "\"namespace\":\"n\"",
	 true, "n/a  "},
	{"the object's, not its owner's",
	 "{\"metadata\":{\"ownerReferences\":[{\"name\":\"o\",\"uid\":\"ou\"}],\"labels\":{"
	 "\"name\":\"l\"},\"name\":\"a\"",
	 false, "/a  "},
	{"not the template's",
	 "{\"spec\":{\"template\":{\"metadata\":{\"name\":\"t\"}}},\"metadata\":{\"name\":\"a\"}}",
	 false, "/a  "},
	{"not the list's own",
	 "{\"metadata\":{\"name\":\"m\"},\"object\":{\"metadata\":{\"name\":\"a\"}}}", true,
	 "/a  "},
	{"a value called name", "{\"metadata\":{\"x\":\"name\",\"y\":\"z\",\"name\":\"a\"}}", false,
	 "/a  "},
	{"after brackets in strings", "{\"a\":\"}{\\\"]\",\"metadata\":{\"name\":\"a\"}}", false,
	 "/a  "},
	{"cut within the name", "{\"metadata\":{\"namespace\":\"n\",\"name\":\"abc", false, "n/  "},
	{"no object", "[1,2,{\"name\":\"a\"}]", false, "/  "},
	{"garbage", "\"]}}}]{{\\", false, "/  "},
	{"nothing", "", false, "/  "},
	{"an escape in the name", "{\"metadata\":{\"name\":\"a\\u0062\"}}", false, "/  "},
};

static void test_peek(void)
{
	for (size_t i = 0; i < sizeof(peek_rows) / sizeof(peek_rows[0]); i++) {
		struct kube_peek seen;
		char got[500];
		CLEANUP_FREE char *copy = xstrdup(peek_rows[i].in);
		kube_peek((struct str){copy, strlen(copy)}, peek_rows[i].in_event, &seen);
		snprintf(got, sizeof(got), "%s/%s %s %s", seen.ns, seen.name, seen.uid,
			 seen.version);
		is_str(got, peek_rows[i].want, "peek, %s", peek_rows[i].name);
	}
}

/* A long line and a long object leave no large buffer behind. */
static void test_memory(void)
{
	size_t len = 4 << 20;
	char *big = xcalloc(1, len + 2);
	memset(big, 'x', len);
	big[len] = '\n';
	struct kube_lines l;
	struct kube_piece piece;
	struct str half = {big, len / 2}, rest = {big + len / 2, len / 2 + 1};
	kube_lines_init(&l, 8 << 20);
	ok(!kube_lines_next(&l, &half, &piece), "half a line");
	ok(kube_lines_next(&l, &rest, &piece), "the whole line");
	is_uint(piece.bytes.len, len, "all of it");
	ok(!kube_lines_next(&l, &rest, &piece), "no more");
	is_uint(l.buf.cap, 0, "the large buffer is gone");
	kube_lines_done(&l);
	free(big);
}

/* Broken input of all kinds: what comes doesn't depend on how it's cut, and nothing is read
 * beyond its end. */
static void test_mutations(void)
{
	unsigned differ = 0;
	rand_seed(99);
	for (int round = 0; round < 20000; round++) {
		const char *text =
			item_rows[rand_below(sizeof(item_rows) / sizeof(item_rows[0]))].in;
		CLEANUP_FREE char *bytes = xstrdup(text);
		struct str in = str_of(bytes);
		char whole[OUT_SIZE] = "", pieces[OUT_SIZE] = "";
		struct kube_items a, b;
		struct err err = ERR_INIT;
		struct kube_peek seen;
		for (uint64_t n = rand_below(4); n > 0 && in.len > 0; n--)
			bytes[rand_below(in.len)] = "{}[]\",:\\ x\n1"[rand_below(12)];
		kube_items_init(&a, 10);
		kube_items_init(&b, 10);
		int rc = feed_items(&a, in, whole, &err), rc2 = 0;
		for (size_t at = 0; at < in.len && rc2 >= 0;) {
			size_t n = 1 + rand_below(in.len - at);
			rc2 = feed_items(&b, (struct str){in.p + at, n}, pieces, &err);
			at += n;
		}
		differ += strcmp(whole, pieces) != 0 || (rc < 0) != (rc2 < 0);
		kube_peek(in, rand_below(2) == 0, &seen);
		kube_items_done(&a);
		kube_items_done(&b);
	}
	is_uint(differ, 0, "20000 broken lists");
}

int main(void)
{
	test_lines();
	test_items();
	test_peek();
	test_mutations();
	test_memory();
	return done_testing();
}
