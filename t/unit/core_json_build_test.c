/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/json.h, linked once to each back-end: building, merge patch (RFC 7386), writing, every
 * allocation failing.
 * Uses core.
 */
#include "core/json.h"

#include <math.h>

#include "core_json.h"
#include "no_memory.h"
#include "tap.h"

/* ---- building ---- */

static void test_build(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *o = jmut_object(doc), *a = jmut_array(doc);

	ok(jmut_root(doc) == NULL, "no root yet");
	jmut_set_root(doc, o);
	ok(jmut_root(doc) == o, "the root");
	jmut_set_str(doc, o, "s", "x\"y");
	jmut_set_int(doc, o, "i", INT64_MIN);
	jmut_set_bool(doc, o, "b", true);
	jmut_set(doc, o, "n", jmut_null(doc));
	jmut_set(doc, o, "r", jmut_real(doc, 0.5));
	jmut_set(doc, o, "nan", jmut_real(doc, NAN));
	jmut_set(doc, o, "inf", jmut_real(doc, -INFINITY));
	jmut_set(doc, o, "f", jmut_strf(doc, "%d-%s", 7, "z"));
	jmut_set(doc, o, "a", a);
	const struct json *view = jmut_view(o);
	is_json(view,
		"{\"s\":\"x\\\"y\",\"i\":-9223372036854775808,\"b\":true,\"n\":null,\"r\":0.5,"
		"\"nan\":null,\"inf\":null,\"f\":\"7-z\",\"a\":[]}",
		"built");
	is_int(json_int(json_get(view, "i"), 0), INT64_MIN, "an integer's view");

	static const char *const all[] = {"s", "i", "b", "n", "r", "nan", "inf", "f"};
	jmut_set_int(doc, o, "n", 2);
	jmut_set_int(doc, o, "s", 1);
	jmut_set_int(doc, o, "a", 3);
	is_json(view,
		"{\"s\":1,\"i\":-9223372036854775808,\"b\":true,\"n\":2,\"r\":0.5,\"nan\":null,"
		"\"inf\":null,\"f\":\"7-z\",\"a\":3}",
		"replaced in place, first, middle and last; the view shows it");
	for (size_t i = 0; i < COUNT(all); i++)
		jmut_del(o, all[i]);
	jmut_del(o, "none");
	is_json(view, "{\"a\":3}", "deleted");
	jmut_set_int(doc, o, "z", 1);
	jmut_deln(o, STR("a"));
	is_json(view, "{\"z\":1}", "the last is another");
	jmut_set_int(doc, o, "y", 2);
	jmut_del(o, "y");
	jmut_del(o, "z");
	is_json(view, "{}", "empty");
	jmut_set_int(doc, o, "x", 1);
	is_json(view, "{\"x\":1}", "and filled again");
	is_int(json_int(jmut_view(jmut_get(o, "x")), 0), 1, "jmut_get");
	ok(jmut_getn(o, STR("x")) == jmut_get(o, "x") && !jmut_get(o, "none") &&
		   !jmut_get(a, "x") && !jmut_get(NULL, "x"),
	   "jmut_getn");
	ok(json_get(view, "x") == jmut_view(jmut_get(o, "x")), "the same value by both ways");

	jmut_set(doc, o, "x", NULL);
	jmut_set(doc, NULL, "x", jmut_null(doc));
	jmut_set(doc, a, "x", jmut_null(doc));
	jmut_add(doc, o, STR("x"), NULL);
	jmut_del(a, "x");
	jmut_del(NULL, "x");
	is_json(view, "{\"x\":1}", "what makes no sense does nothing");
	ok(jmut_view(NULL) == NULL && jmut_copy(doc, NULL) == NULL && jmut_clone(doc, NULL) == NULL,
	   "NULL stays NULL");
}

static void test_arrays(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *a = jmut_array(doc);
	const struct json *view = jmut_view(a);

	jmut_insert(doc, a, 0, jmut_int(doc, 2));
	jmut_push(doc, a, jmut_int(doc, 4));
	jmut_insert(doc, a, 0, jmut_int(doc, 1));
	jmut_insert(doc, a, 2, jmut_int(doc, 3));
	jmut_insert(doc, a, 4, jmut_int(doc, 5));
	jmut_insert(doc, a, 6, jmut_int(doc, 9));
	is_json(view, "[1,2,3,4,5]", "pushed and inserted");
	jmut_remove(a, 5);
	jmut_remove(a, 4);
	jmut_remove(a, 0);
	jmut_remove(a, 1);
	is_json(view, "[2,4]", "removed at the end, the front and between");
	jmut_push(doc, a, jmut_strz(doc, "x"));
	is_json(view, "[2,4,\"x\"]", "pushed again");
	is_uint(jmut_len(a), 3, "length");
	is_int(json_int(jmut_view(jmut_item(a, 1)), 0), 4, "an element");
	ok(jmut_item(a, 3) == NULL && jmut_item(NULL, 0) == NULL, "no element");
	jmut_remove(a, 0);
	jmut_remove(a, 0);
	jmut_remove(a, 0);
	jmut_remove(a, 0);
	is_json(view, "[]", "all removed");
	jmut_push(doc, a, jmut_int(doc, 1));
	jmut_push(doc, a, NULL);
	jmut_push(doc, NULL, jmut_null(doc));
	jmut_push(doc, jmut_object(doc), jmut_null(doc));
	is_json(view, "[1]", "pushed when empty");
}

static bool is_odd(const struct json *item, void *arg)
{
	(*(int *)arg)++;
	return json_int(item, 0) % 2 == 1;
}

static void test_remove_if(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *a = jmut_array(doc);
	int asked = 0;

	is_uint(jmut_remove_if(a, is_odd, &asked), 0, "nothing of nothing");
	for (int i = 1; i <= 7; i++)
		jmut_push(doc, a, jmut_int(doc, i));
	is_uint(jmut_remove_if(a, is_odd, &asked), 4, "at both ends and between");
	is_int(asked, 7, "each asked about once");
	is_json(jmut_view(a), "[2,4,6]", "the others stay");
	jmut_push(doc, a, jmut_int(doc, 9));
	is_uint(jmut_remove_if(a, is_odd, &asked), 1, "the last one");
	jmut_push(doc, a, jmut_int(doc, 8));
	is_json(jmut_view(a), "[2,4,6,8]", "pushed behind it");
	jmut_remove(a, 0);
	jmut_remove(a, 0);
	jmut_push(doc, a, jmut_int(doc, 1));
	jmut_remove(a, 0);
	jmut_remove(a, 0);
	is_uint(jmut_remove_if(a, is_odd, &asked), 1, "the only one");
	jmut_push(doc, a, jmut_int(doc, 3));
	is_json(jmut_view(a), "[3]", "and pushed into what was emptied");
	is_uint(jmut_remove_if(NULL, is_odd, &asked), 0, "of no array");
	is_uint(jmut_remove_if(jmut_object(doc), is_odd, &asked), 0, "of an object");
	ok(jmut_of(jmut_view(a)) == a && !jmut_of(NULL), "back from a view");
	ok(jmut_of(json_item(jmut_view(a), 0)) == jmut_item(a, 0), "an element, from its view");
}

static void test_need(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *from = parse(
		"{\"s\":1,\"n\":null,\"o\":{\"x\":1},\"a\":[1]}");
	struct jmut *o = jmut_copy(doc, json_root(from));

	jmut_set_int(doc, jmut_need_object(doc, o, "new"), "k", 1);
	jmut_set_int(doc, jmut_need_object(doc, o, "n"), "k", 2);
	jmut_set_int(doc, jmut_need_object(doc, o, "o"), "k", 3);
	ok(jmut_need_object(doc, o, "s") == NULL && jmut_need_object(doc, o, "a") == NULL &&
		   jmut_need_array(doc, o, "o") == NULL && jmut_need_array(doc, NULL, "x") == NULL,
	   "something else is there");
	jmut_push(doc, jmut_need_array(doc, o, "a"), jmut_int(doc, 2));
	jmut_push(doc, jmut_need_array(doc, o, "b"), jmut_int(doc, 3));
	is_json(jmut_view(o),
		"{\"s\":1,\"n\":{\"k\":2},\"o\":{\"x\":1,\"k\":3},\"a\":[1,2],\"new\":{\"k\":1},"
		"\"b\":[3]}",
		"made where it wasn't");
}

static void test_strings(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *a = jmut_array(doc), *o = jmut_object(doc);
	char text[] = "copied";

	jmut_push(doc, a, jmut_strz(doc, text));
	text[0] = 'X';
	jmut_push(doc, a, jmut_str(doc, STR_NULL));
	jmut_push(doc, a, jmut_strz(doc, NULL));
	jmut_push(doc, a, jmut_str(doc, STR("a\0b")));
	jmut_push(doc, a, jmut_str(doc, STR("bad \xff\xe2\x82 end")));
	is_json(jmut_view(a),
		"[\"copied\",\"\",\"\",\"a\\u0000b\",\"bad \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd end\"]",
		"strings");
	is_uint(json_str(jmut_view(jmut_item(a, 3))).len, 3, "with a NUL");
	char key[] = "key";
	jmut_set_int(doc, o, key, 1);
	key[0] = 'X';
	jmut_setn(doc, o, STR("\xff"), jmut_int(doc, 2));
	jmut_add(doc, o, STR("a\0b"), jmut_int(doc, 3));
	jmut_setn(doc, o, STR_NULL, jmut_int(doc, 4));
	is_json(jmut_view(o), "{\"key\":1,\"\xef\xbf\xbd\":2,\"a\\u0000b\":3,\"\":4}", "keys");

	struct buf out = BUF_INIT(1000);
	json_write_str(STR("\x01\x1f\"\\\b\f\n\r\t/€\x7f\xff"), &out, NULL);
	is_buf(out, "\"\\u0001\\u001F\\\"\\\\\\b\\f\\n\\r\\t/€\x7f\xef\xbf\xbd\"",
	       "json_write_str");
	buf_clear(&out);
	json_write_str(STR_NULL, &out, NULL);
	is_buf(out, "\"\"", "of nothing");
	buf_done(&out);
}

/* The copies live on when what they came from is gone. */
static void test_lifetimes(void)
{
	CLEANUP_JMUT struct jmut_doc *to = jmut_doc_new();
	struct jmut_doc *between = jmut_doc_new();
	struct json_doc *from = parse("{\"a\":[\"some string that is longer than a word\",1e999,"
				      "123456789012345678901234567890]}");
	struct jmut *copy = jmut_copy(between, json_root(from));

	json_doc_free(from);
	struct jmut *clone = jmut_clone(to, copy);
	struct jmut *second = jmut_copy(to, jmut_view(copy));
	jmut_doc_free(between);
	is_json(jmut_view(clone),
		"{\"a\":[\"some string that is longer than a word\",1e999,"
		"123456789012345678901234567890]}",
		"a clone");
	ok(json_equal(jmut_view(clone), jmut_view(second)), "a copy of a view");
	jmut_set_int(to, clone, "b", 1);
	is_uint(jmut_len(second), 1, "copies don't share");
	jmut_doc_free(NULL);
	json_doc_free(NULL);
}

/* RFC 7386, appendix A, and some of our own. */
static void test_merge_patch(void)
{
	static const struct {
		const char *target, *patch, *want;
	} rows[] = {
		{"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
		{"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
		{"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
		{"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
		{"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
		{"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
		{"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}",
		 "{\"a\":{\"b\":\"d\"}}"},
		{"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
		{"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
		{"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
		{"{\"a\":\"foo\"}", "null", "null"},
		{"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
		{"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
		{"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
		{"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
		{NULL, "{\"a\":{\"b\":null,\"c\":1}}", "{\"a\":{\"c\":1}}"},
		{NULL, "1", "1"},
		{"{\"a\":1,\"b\":{\"x\":1,\"y\":2},\"c\":3}", "{\"b\":{\"x\":null,\"z\":9}}",
		 "{\"a\":1,\"b\":{\"y\":2,\"z\":9},\"c\":3}"},
		{"{\"a\":{\"b\":1}}", "{}", "{\"a\":{\"b\":1}}"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct json_doc *target = rows[i].target ? parse(rows[i].target) : NULL;
		struct json_doc *patch = parse(rows[i].patch);
		struct jmut *t = target ? jmut_copy(doc, json_root(target)) : NULL;
		CLEANUP_JMUT struct jmut_doc *other = jmut_doc_new();
		struct jmut *by_view = jmut_merge_patch(
			other, target ? jmut_copy(other, json_root(target)) : NULL,
			jmut_view(jmut_copy(doc, json_root(patch))));
		struct jmut *got = jmut_merge_patch(doc, t, json_root(patch));
		json_doc_free(target);
		json_doc_free(patch);
		row_begin("%s with %s", rows[i].target ? rows[i].target : "nothing", rows[i].patch);
		is_json(jmut_view(got), rows[i].want, "merged");
		is_json(jmut_view(by_view), rows[i].want, "merged from a view");
	}
	row_end();
}

/* ---- writing ---- */

static void test_write(void)
{
	CLEANUP_JSON struct json_doc *doc = parse("{\"a\":[1,{}],\"b\":{\"c\":\"d\"},\"e\":[]}");
	struct buf out = BUF_INIT(1000), small = BUF_INIT(10);
	struct err e = ERR_INIT;

	buf_append_str(&out, STR("x="), NULL);
	is_int(json_write(json_root(doc), JSON_COMPACT, &out, &e), 0, "written");
	is_buf(out, "x={\"a\":[1,{}],\"b\":{\"c\":\"d\"},\"e\":[]}", "appended");
	char *pretty = write_json(json_root(doc), JSON_PRETTY);
	is_str(pretty,
	       "{\n    \"a\": [\n        1,\n        {}\n    ],\n    \"b\": {\n        \"c\": \"d\"\n"
	       "    },\n    \"e\": []\n}",
	       "pretty");
	free(pretty);
	is_int(json_write(json_root(doc), JSON_COMPACT, &small, &e), -1, "no room");
	is_int(e.kind, ERR_LIMIT, "kind");
	is_uint(small.len, 0, "nothing was appended");
	is_int(json_write_str(STR("0123456789"), &small, &e), -1, "a string without room");
	is_uint(small.len, 0, "nothing was appended");
	is_int(json_write(NULL, JSON_COMPACT, &out, &e), -1, "nothing can't be written");
	is_int(e.kind, ERR_INVALID, "kind");
	is_int(jmut_write(NULL, JSON_COMPACT, &out, &e), -1, "nor this");
	buf_done(&out);
	buf_done(&small);
}

static void test_fault(void)
{
	static const char text[] = "{\"a\":[1,2,3,\"some text\",{\"b\":null}],\"c\":\"d\"}";
	struct no_memory m = {0};

	while (no_memory_next(&m)) {
		struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		struct buf out = BUF_INIT(1000);
		no_memory_begin(&m);
		int r = json_parse(STR(text), &doc, &e);
		if (r == 0)
			r = json_write(json_root(doc), JSON_COMPACT, &out, &e);
		no_memory_end(&m);
		if (m.whole)
			is_mem(out.p, out.len, text, sizeof(text) - 1, "none failed");
		else
			ok(r == -1 && e.kind == ERR_LIMIT && out.len == 0, "allocation %lu fails",
			   m.n);
		json_doc_free(doc);
		buf_done(&out);
	}
	no_memory_ok(&m, 2);
}

int main(void)
{
	test_build();
	test_arrays();
	test_remove_if();
	test_need();
	test_strings();
	test_lifetimes();
	test_merge_patch();
	test_write();
	test_fault();
	return done_testing();
}
