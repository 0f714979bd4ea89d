/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/yaml.h, writing: how it looks, and that it reads back the same.
 * Uses core.
 */
#include "core/yaml.h"

#include "core/rand.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char *as_yaml(const struct json *v)
{
	struct buf out = BUF_INIT(1 << 24);
	struct err e = ERR_INIT;

	if (yaml_write(v, &out, &e) < 0)
		return xasprintf("error: %s", e.msg);
	return buf_steal(&out, NULL);
}

/* Whether yaml says what v is. */
static bool reads_back(const char *yaml, const struct json *v)
{
	CLEANUP_YAML struct yaml *y = NULL;
	struct err e = ERR_INIT;

	if (yaml_parse("written", str_of(yaml), &y, &e) < 0) {
		diag("%s", e.msg);
		return false;
	}
	return yaml_len(y) == 1 && json_equal(yaml_doc(y, 0), v);
}

static void test_style(void)
{
	static const struct {
		const char *json, *yaml;
	} rows[] = {
		{"1", "1\n"},
		{"null", "null\n"},
		{"[]", "[]\n"},
		{"{}", "{}\n"},
		{"\"a\"", "a\n"},
		{"\"a\\nb\"", "|-\n  a\n  b\n"},
		{"{\"a\":1,\"b\":{\"c\":[1,{\"d\":2,\"e\":[]},[3,[4]]],\"f\":{}}}",
		 "a: 1\nb:\n  c:\n  - 1\n  - d: 2\n    e: []\n  - - 3\n    - - 4\n  f: {}\n"},
		{"[{\"a\":{\"b\":1}},{\"a\":[1]}]", "- a:\n    b: 1\n- a:\n  - 1\n"},
		{"{\"a\":\"x\\ny\\n\",\"b\":\"x\\n\\ny\\n\\n\",\"c\":[\"x\\n y\"]}",
		 "a: |\n  x\n  y\nb: |+\n  x\n\n  y\n\nc:\n- |-\n  x\n   y\n"},
		{"[true,1.5,\"true\",\"1\",\"\",\"null\",\"~\"]",
		 "- true\n- 1.5\n- \"true\"\n- \"1\"\n- \"\"\n- \"null\"\n- \"~\"\n"},
		{"[1e30,-1e-9,2.5e+200]", "- 1.0e+30\n- -1.0e-9\n- 2.5e+200\n"},
		{"[\"yes\",\"No\",\"on\",\"y\",\"0x1f\",\"1e3\",\"0644\",\"2024-03-01\",\"1:20\",\"1_0\"]",
		 "- \"yes\"\n- \"No\"\n- \"on\"\n- \"y\"\n- \"0x1f\"\n- \"1e3\"\n- \"0644\"\n"
		 "- \"2024-03-01\"\n- \"1:20\"\n- \"1_0\"\n"},
		{"[\"100m\",\"4Gi\",\"a b\",\"/bin/sh\",\"a:b\",\"a#b\",\"graphcore.ai/v1alpha1\",\"x=1,y\"]",
		 "- 100m\n- 4Gi\n- a b\n- /bin/sh\n- a:b\n- a#b\n- graphcore.ai/v1alpha1\n- x=1,y\n"},
		{"[\"a: b\",\"a #b\",\"a:\",\"a \",\" a\",\"- a\",\"-c\",\"?\",\"!x\",\"&x\",\"*x\",\"%x\",\"@x\"]",
		 "- \"a: b\"\n- \"a #b\"\n- \"a:\"\n- \"a \"\n- \" a\"\n- \"- a\"\n- \"-c\"\n- \"?\"\n"
		 "- \"!x\"\n- \"&x\"\n- \"*x\"\n- \"%x\"\n- \"@x\"\n"},
		{"{\"<<\":1,\"true\":2,\"a b\":3,\"\":4,\"1\":5}",
		 "\"<<\": 1\n\"true\": 2\na b: 3\n\"\": 4\n\"1\": 5\n"},
		{"[\"\\u0000\\u007f\\u0085\\u2028\\ufeff\\uffff\\\"\\\\\",\"ä\"]",
		 "- \"\\u0000\\x7f\\x85\\L\\uFEFF\\uFFFF\\\"\\\\\"\n- \"ä\"\n"},
		{"[\" a\\nb\",\"\\na\",\"a\\rb\\n\",\"a\\tb\\nc\"]",
		 "- \" a\\nb\"\n- \"\\na\"\n- \"a\\rb\\n\"\n- |-\n  a\tb\n  c\n"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		row_begin("row %zu", i);
		if (!ok(json_parse(str_of(rows[i].json), &doc, &e) == 0, "parsed %s", e.msg))
			continue;
		CLEANUP_FREE char *yaml = as_yaml(json_root(doc));
		is_str(yaml, rows[i].yaml, "written");
		ok(reads_back(yaml, json_root(doc)), "reads back");
	}
	row_end();
}

static void test_long_key(void)
{
	for (unsigned len = 990; len <= 1100; len += 10) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *o = jmut_object(doc), *inner = jmut_object(doc);
		CLEANUP_FREE char *key = xcalloc(len + 1, 1);
		memset(key, 'k', len);
		jmut_set_int(doc, inner, key, 1);
		jmut_set(doc, inner, "after", jmut_array(doc));
		jmut_set(doc, o, key, inner);
		jmut_set_str(doc, o, "last", "x\ny\n");
		CLEANUP_FREE char *yaml = as_yaml(jmut_view(o));
		ok(reads_back(yaml, jmut_view(o)), "a key of %u characters", len);
	}
}

static void test_errors(void)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *a = jmut_array(doc);
	struct buf out = BUF_INIT(16);
	struct err e = ERR_INIT;

	jmut_push(doc, a, jmut_strz(doc, "twelve chars"));
	jmut_push(doc, a, jmut_strz(doc, "x"));
	is_int(yaml_write(jmut_view(a), &out, &e), -1, "no room");
	is_int(e.kind, ERR_LIMIT, "kind");
	is_uint(out.len, 0, "nothing was appended");
	is_int(yaml_write(NULL, &out, &e), -1, "nothing to write");
	is_int(e.kind, ERR_INVALID, "kind");
	buf_done(&out);
}

/* Random values, of characters that make trouble, go round. */
static struct jmut *random_value(struct jmut_doc *doc, int depth)
{
	static const char *const pieces[] = {
		"a",   "b",    " ",        "\n", "\n\n", ":",    "#",  "-",   "---",  "...",
		"?",   "|",    ">",        "'",  "\"",   "\\",   "\t", "\r",  "\x7f", "ä",
		"€",   "𝄞",    "1",        "0x", "e",    ".",    "{",  "}",   "[",    "]",
		",",   "&",    "*",        "!",  "%",    "@",    "`",  "=",   "<<",   "null",
		"yes", "\x01", "\xc2\x85", "~",  "_",    "true", "  ", "\n ", "/",
	};
	char text[64] = "";
	size_t n = (size_t)rand_below(6);

	switch (depth > 0 ? rand_below(7) : 2 + rand_below(5)) {
	case 0: {
		struct jmut *a = jmut_array(doc);
		while (n-- > 0)
			jmut_push(doc, a, random_value(doc, depth - 1));
		return a;
	}
	case 1: {
		struct jmut *o = jmut_object(doc);
		while (n-- > 0) {
			struct jmut *key = random_value(doc, 0);
			if (json_type(jmut_view(key)) == JSON_STRING)
				jmut_setn(doc, o, json_str(jmut_view(key)),
					  random_value(doc, depth - 1));
		}
		return o;
	}
	case 2:
		return rand_below(2) ? jmut_bool(doc, rand_below(2)) : jmut_null(doc);
	case 3:
		return rand_below(2) ? jmut_int(doc, (int64_t)rand_u64())
				     : jmut_real(doc, (double)(int64_t)rand_u64() / 1e6);
	default:
		while (n-- > 0)
			strcat(text, pieces[rand_below(COUNT(pieces))]);
		return jmut_strz(doc, text);
	}
}

static void test_random(void)
{
	unsigned wrong = 0;

	rand_seed(11);
	for (int i = 0; i < 5000 && wrong < 5; i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *v = random_value(doc, 4);
		CLEANUP_FREE char *yaml = as_yaml(jmut_view(v));
		if (!reads_back(yaml, jmut_view(v))) {
			struct buf json = BUF_INIT(1 << 20);
			jmut_write(v, JSON_COMPACT, &json, NULL);
			diag("%.*s", STR_ARG(buf_str(&json)));
			buf_done(&json);
			wrong++;
		}
	}
	is_uint(wrong, 0, "5000 random values read back");
}

int main(void)
{
	test_style();
	test_long_key();
	test_errors();
	test_random();
	return done_testing();
}
