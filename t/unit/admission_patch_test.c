/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches: what they say, and that they lead from the one document to the other. They are applied
 * here by the simulator's own code; t/68-webhook.t has them applied by Debian's python3-jsonpatch.
 */
#include "admission/patch.h"
#include "core/buf.h"
#include "core/rand.h"
#include "sim/jsonpatch.h"
#include "tap.h"

static const struct {
	const char *name, *before, *after, *want; /* NULL: no patch */
} rows[] = {
	{"equal", "{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}", NULL},
	{"the same number", "{\"a\":1}", "{\"a\":1.0}", NULL},
	{"a member more", "{\"a\":1}", "{\"a\":1,\"b\":{\"c\":[]}}",
	 "[{\"op\":\"add\",\"path\":\"/b\",\"value\":{\"c\":[]}}]"},
	{"a member less", "{\"a\":1,\"b\":2}", "{\"b\":2}",
	 "[{\"op\":\"remove\",\"path\":\"/a\"}]"},
	{"a member otherwise", "{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":3,\"c\":2}}",
	 "[{\"op\":\"replace\",\"path\":\"/a/b\",\"value\":3}]"},
	{"null is a value", "{\"a\":null}", "{\"a\":{}}",
	 "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":{}}]"},
	{"to null", "{}", "{\"a\":null}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":null}]"},
	{"escapes", "{\"a/b\":{\"m~n\":1}}", "{\"a/b\":{\"m~n\":2,\"\":3}}",
	 "[{\"op\":\"replace\",\"path\":\"/a~1b/m~0n\",\"value\":2},"
	 "{\"op\":\"add\",\"path\":\"/a~1b/\",\"value\":3}]"},
	{"the root", "[]", "{}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]"},
	{"appended", "[1,2]", "[1,2,3,4]",
	 "[{\"op\":\"add\",\"path\":\"/2\",\"value\":3},{\"op\":\"add\",\"path\":\"/3\",\"value\":4}]"},
	{"in front", "[1,2]", "[0,1,2]", "[{\"op\":\"add\",\"path\":\"/0\",\"value\":0}]"},
	{"out of the middle", "[1,2,3,4]", "[1,4]",
	 "[{\"op\":\"remove\",\"path\":\"/1\"},{\"op\":\"remove\",\"path\":\"/1\"}]"},
	{"one put in, one changed", "[{\"name\":\"a\",\"x\":1},{\"name\":\"b\"}]",
	 "[{\"name\":\"i\"},{\"name\":\"a\",\"x\":2},{\"name\":\"b\",\"y\":1}]",
	 "[{\"op\":\"add\",\"path\":\"/0\",\"value\":{\"name\":\"i\"}},"
	 "{\"op\":\"replace\",\"path\":\"/1/x\",\"value\":2},"
	 "{\"op\":\"add\",\"path\":\"/2/y\",\"value\":1}]"},
	{"another name is another thing", "[{\"name\":\"a\",\"x\":1}]",
	 "[{\"name\":\"b\",\"x\":1}]",
	 "[{\"op\":\"remove\",\"path\":\"/0\"},"
	 "{\"op\":\"add\",\"path\":\"/0\",\"value\":{\"name\":\"b\",\"x\":1}}]"},
	{"nested arrays", "{\"a\":[[1,2],[3]]}", "{\"a\":[[1,2],[3,4]]}",
	 "[{\"op\":\"add\",\"path\":\"/a/1/1\",\"value\":4}]"},
	{"a pod", "{\"metadata\":{},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}",
	 "{\"metadata\":{\"annotations\":{\"graphcore.ai/status\":\"injected\"}},"
	 "\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"A\"}]}],\"hostNetwork\":true}}",
	 "[{\"op\":\"add\",\"path\":\"/metadata/annotations\",\"value\":{\"graphcore.ai/"
	 "status\":\"injected\"}},"
	 "{\"op\":\"add\",\"path\":\"/spec/containers/0/env\",\"value\":[{\"name\":\"A\"}]},"
	 "{\"op\":\"add\",\"path\":\"/spec/hostNetwork\",\"value\":true}]"},
};

/* Whether the patch makes after of before. */
static bool leads_to(const struct json *before, const struct json *after, const struct jmut *ops)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, before);
	struct err err;

	if (ops && sim_json_patch(doc, &root, jmut_view(ops), &err) < 0) {
		diag("%s", err.msg);
		return false;
	}
	return json_equal(jmut_view(root), after);
}

static void test_row(size_t i)
{
	CLEANUP_JSON struct json_doc *before = NULL, *after = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf text = BUF_INIT(1 << 16);
	struct jmut *ops = NULL;
	struct err err = ERR_INIT;

	row_begin("%s", rows[i].name);
	if (json_parse(str_of(rows[i].before), &before, &err) < 0 ||
	    json_parse(str_of(rows[i].after), &after, &err) < 0) {
		fail("parsed: %s", err.msg);
		return;
	}
	is_int(admission_patch_make(doc, json_root(before), json_root(after), &ops, &err), 0,
	       "made");
	if (ops && jmut_write(ops, JSON_COMPACT, &text, &err) == 0)
		buf_append(&text, "", 1, NULL);
	is_str(text.p, rows[i].want, "operations");
	ok(leads_to(json_root(before), json_root(after), ops), "applied");
	buf_done(&text);
	row_end();
}

/* ---- by chance ---- */

static struct jmut *random_value(struct jmut_doc *doc, unsigned depth)
{
	static const char *const keys[] = {"name", "a", "b/c", "d~e", "env", "", "~1"};
	struct jmut *v;

	switch (depth == 4 ? 4 + rand_below(3) : rand_below(depth ? 7 : 4)) {
	case 0:
		return jmut_int(doc, (int64_t)rand_below(3));
	case 1:
		return jmut_strz(doc, rand_below(2) ? "x" : "y");
	case 2:
		return jmut_null(doc);
	case 3:
		return jmut_bool(doc, rand_below(2));
	case 4:
		v = jmut_array(doc);
		for (uint64_t n = rand_below(5); n; n--)
			jmut_push(doc, v, random_value(doc, depth - 1));
		return v;
	default:
		v = jmut_object(doc);
		for (uint64_t n = rand_below(5); n; n--)
			jmut_set(doc, v, keys[rand_below(7)], random_value(doc, depth - 1));
		return v;
	}
}

static void test_random(void)
{
	unsigned wrong = 0, equal = 0, several = 0;

	rand_seed(6);
	for (unsigned i = 0; i < 20000; i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		const struct json *before = jmut_view(random_value(doc, 4));
		const struct json *after = jmut_view(random_value(doc, 4));
		struct jmut *ops = NULL;
		struct err err;

		if (admission_patch_make(doc, before, after, &ops, &err) < 0 ||
		    !leads_to(before, after, ops) || !ops != json_equal(before, after))
			wrong++;
		equal += !ops;
		several += jmut_len(ops) > 3;
	}
	is_uint(wrong, 0, "each of 20000 pairs by its patch");
	ok(equal > 100, "some of them equal");
	ok(several > 1000, "many of them far apart");
}

static void test_large(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *before = jmut_object(doc), *after = jmut_object(doc), *ops = NULL;
	struct err err = ERR_INIT;
	char key[32];

	for (unsigned i = 0; i < 200000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		jmut_add(doc, before, str_of(key), jmut_int(doc, i));
		snprintf(key, sizeof(key), "k%u", 199999 - i);
		jmut_add(doc, after, str_of(key), jmut_int(doc, 199999 - i));
	}
	jmut_add(doc, after, STR("more"), jmut_int(doc, 1));
	is_int(admission_patch_make(doc, jmut_view(before), jmut_view(after), &ops, &err), 0,
	       "200000 members in another order");
	is_uint(jmut_len(ops), 1, "one operation");
	is_int(admission_patch_make(doc, jmut_view(before), jmut_view(jmut_object(doc)), &ops,
				    &err),
	       -1, "too many operations are refused");
	is_int(err.kind, ERR_LIMIT, "as a limit");
}

static void test_long_arrays(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *before = jmut_array(doc), *after = jmut_array(doc), *ops = NULL;
	struct err err = ERR_INIT;

	for (unsigned i = 0; i < 300; i++) {
		jmut_push(doc, before, jmut_int(doc, i));
		jmut_push(doc, after, jmut_int(doc, 1000 + i));
	}
	jmut_push(doc, after, jmut_int(doc, 1));
	is_int(admission_patch_make(doc, jmut_view(before), jmut_view(after), &ops, &err), 0,
	       "arrays too long to align");
	is_uint(jmut_len(ops), 301, "place by place");
	ok(leads_to(jmut_view(before), jmut_view(after), ops), "applied");
	is_int(admission_patch_make(doc, jmut_view(after), jmut_view(before), &ops, &err), 0,
	       "and the other way");
	ok(leads_to(jmut_view(after), jmut_view(before), ops), "applied");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		test_row(i);
	test_random();
	test_large();
	test_long_arrays();
	return done_testing();
}
