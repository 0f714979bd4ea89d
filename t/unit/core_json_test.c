/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/json.h, linked once to each back-end: what is JSON, readers, views, building, merge patch
 * (RFC 7386), writing, limits, every allocation failing.
 * Uses core.
 */
#include "core/json.h"

#include <float.h>
#include <math.h>

#include "core/fault.h"
#include "core/rand.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The document of a text that is JSON. */
static struct json_doc *parse(const char *text)
{
	struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (json_parse(str_of(text), &doc, &e) < 0) {
		diag("%s: %s", text, e.msg);
		bail_out("a test's own document doesn't parse");
	}
	return doc;
}

/* Names the checks that follow by the text that they are about. */
static void row_of(const char *text)
{
	char *name = xstrdup(text);

	for (char *c = name; *c; c++) {
		if (*c < ' ' || *c > '~' || *c == '#')
			*c = '?';
	}
	row_begin("%s", name);
	free(name);
}

static char *write_json(const struct json *v, enum json_write_flags flags)
{
	struct buf out = BUF_INIT(1 << 24);
	struct err e = ERR_INIT;

	if (json_write(v, flags, &out, &e) < 0) {
		buf_done(&out);
		return xasprintf("error: %s", e.msg);
	}
	return buf_steal(&out, NULL);
}

#define is_json(v, want, ...)                                                                      \
	do {                                                                                       \
		char *got_ = write_json((v), JSON_COMPACT);                                        \
		is_str(got_, want, __VA_ARGS__);                                                   \
		free(got_);                                                                        \
	} while (0)

#define is_buf(b, literal, ...) is_mem((b).p, (b).len, literal, sizeof(literal) - 1, __VA_ARGS__)

/* ---- what is JSON ---- */

static void test_good(void)
{
	static const struct {
		const char *text;
		const char *want; /* NULL: as it came */
	} rows[] = {
		{"null", NULL},
		{" true\r\n\t", "true"},
		{"false", NULL},
		{"0", NULL},
		{"-1", NULL},
		{"9223372036854775807", NULL},
		{"-9223372036854775808", NULL},
		{"9223372036854775808", NULL},
		{"18446744073709551615", NULL},
		{"123456789012345678901234567890", NULL},
		{"1.5", NULL},
		{"1.0", NULL},
		{"-0.25", NULL},
		{"\"\"", NULL},
		{"\"a\\u0000b\"", NULL},
		{"\"\\u20ac\\ud834\\udd1e\"", "\"€𝄞\""},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
		{"\"\\u001F\x7f\"", NULL},
		{"\"\xf4\x8f\xbf\xbf\"", NULL},
		{"[]", NULL},
		{"{}", NULL},
		{"[1,[2,{\"a\":[]}],{}]", NULL},
		{" { \"a\" : [ 1 , 2 ] , \"b\" : { } } ", "{\"a\":[1,2],\"b\":{}}"},
		{"{\"\":0}", NULL},
		{"{\"a\":1,\"a\":2}", NULL},
		{"{\"a: b # c\":\"- x\\n--- &a *a !t %\"}", NULL},
		{"[\"true\",\"null\",\"1\",\"~\",\"\"]", NULL},
		{"{\"x\":\"multi\\n\\n  line \\n\"}", NULL},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		row_of(rows[i].text);
		if (!ok(json_parse(str_of(rows[i].text), &doc, &e) == 0, "parsed %s", e.msg))
			continue;
		is_json(json_root(doc), rows[i].want ? rows[i].want : rows[i].text, "written");
		CLEANUP_JMUT struct jmut_doc *mut = jmut_doc_new();
		struct jmut *copy = jmut_copy(mut, json_root(doc));
		is_json(jmut_view(copy), rows[i].want ? rows[i].want : rows[i].text, "a copy");
		ok(strncmp(rows[i].text, "{\"a\":1,\"a\"", 10) == 0 ||
			   json_equal(jmut_view(copy), json_root(doc)),
		   "equal");
	}
	row_end();
}

static void test_bad(void)
{
	static const struct {
		struct str text;
		const char *where; /* NULL: not looked at */
	} rows[] = {
		{STR(""), "line 1, column 1: "},
		{STR("  \n "), NULL},
		{STR("nul"), NULL},
		{STR("nullx"), NULL},
		{STR("True"), NULL},
		{STR("NaN"), NULL},
		{STR("Infinity"), NULL},
		{STR("-Infinity"), NULL},
		{STR("01"), NULL},
		{STR("-01"), NULL},
		{STR("+1"), NULL},
		{STR("-"), NULL},
		{STR("1."), NULL},
		{STR(".5"), NULL},
		{STR("1e"), NULL},
		{STR("1e+"), NULL},
		{STR("0x10"), NULL},
		{STR("1_000"), NULL},
		{STR("1 2"), "line 1, column 3: "},
		{STR("{} {}"), "line 1, column 4: "},
		{STR("[1,]"), NULL},
		{STR("[,1]"), NULL},
		{STR("[1,,2]"), NULL},
		{STR("[1 2]"), NULL},
		{STR("[1"), NULL},
		{STR("["), NULL},
		{STR("]"), NULL},
		{STR("[1}"), NULL},
		{STR("{\"a\":1,}"), NULL},
		{STR("{\"a\"}"), NULL},
		{STR("{\"a\":}"), NULL},
		{STR("{\"a\" 1}"), NULL},
		{STR("{a:1}"), NULL},
		{STR("{1:1}"), NULL},
		{STR("{null:1}"), NULL},
		{STR("{[]:1}"), NULL},
		{STR("{'a':1}"), NULL},
		{STR("{\"a\":1 \"b\":2}"), NULL},
		{STR("{\n \"ä\": x}"), "line 2, column 7: "},
		{STR("{\"a\":1"), NULL},
		{STR("{\"a\""), NULL},
		{STR("{"), NULL},
		{STR("}"), NULL},
		{STR("{,}"), NULL},
		{STR("{:1}"), NULL},
		{STR("{\"a\"::1}"), NULL},
		{STR("\""), NULL},
		{STR("\"abc"), NULL},
		{STR("'abc'"), NULL},
		{STR("abc"), NULL},
		{STR("a: b"), NULL},
		{STR("- a"), NULL},
		{STR("--- 1"), NULL},
		{STR("---\n1\n"), NULL},
		{STR("1\n...\n"), NULL},
		{STR("%YAML 1.2\n---\n1"), NULL},
		{STR("&a 1"), NULL},
		{STR("!!str 1"), NULL},
		{STR("[&a 1, *a]"), NULL},
		{STR("# c\n1"), NULL},
		{STR("1 # c"), NULL},
		{STR("[1 // c\n]"), NULL},
		{STR("/* c */ 1"), NULL},
		{STR("| \n a"), NULL},
		{STR("\"a\nb\""), NULL},
		{STR("\"a\tb\""), NULL},
		{STR("\"a\0b\""), NULL},
		{STR("\"\\x41\""), NULL},
		{STR("\"\\a\""), NULL},
		{STR("\"\\'\""), NULL},
		{STR("\"\\e\""), NULL},
		{STR("\"\\\n\""), NULL},
		{STR("\"\\u12\""), NULL},
		{STR("\"\\u12g4\""), NULL},
		{STR("\"\\U00000041\""), NULL},
		{STR("\"\\ud834\""), NULL},
		{STR("\"\\udd1e\""), NULL},
		{STR("\"\\ud834\\u0041\""), NULL},
		{STR("\"\\udd1e\\ud834\""), NULL},
		{STR("\"\xff\""), NULL},
		{STR("\"\xc0\x80\""), NULL},
		{STR("\"\xed\xa0\x80\""), NULL},
		{STR("\"\xe2\x82\""), NULL},
		{STR("\xef\xbb\xbf{}"), NULL},
		{STR("[1]\0"), NULL},
		{STR("\0"), NULL},
		{STR("[1,\v2]"), NULL},
		{STR("[\xc2\xa0]"), NULL},
		{STR("[1]\xe2\x80\xa8"), NULL},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		/* A block of its own size, so that a read behind it is seen. */
		char *text = xstrndup(rows[i].text.p, rows[i].text.len);
		char *exact = malloc(rows[i].text.len ? rows[i].text.len : 1);
		struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		memcpy(exact, text, rows[i].text.len);
		row_of(text);
		ok(json_parse((struct str){exact, rows[i].text.len}, &doc, &e) == -1, "refused");
		is_int(e.kind, ERR_INVALID, "kind");
		has_str(e.msg, rows[i].where ? rows[i].where : "line ", "place");
		ok(doc == NULL, "nothing is returned");
		json_doc_free(doc);
		free(exact);
		free(text);
	}
	row_end();
}

/* Each good document cut anywhere is refused or, a number or white space, still good; nothing is
 * read behind the end. */
static void test_cut(void)
{
	static const char text[] =
		" {\"a\\n\":[1.5e3,true,null,\"\\ud834\\udd1e€\"],\"b\":{\"c\":-1}}";
	unsigned good = 0;

	for (size_t len = 0; len < sizeof(text); len++) {
		char *exact = malloc(len ? len : 1);
		struct json_doc *doc = NULL;
		memcpy(exact, text, len);
		good += json_parse((struct str){exact, len}, &doc, NULL) == 0;
		json_doc_free(doc);
		free(exact);
	}
	is_uint(good, 1, "only the whole document is one");
}

static void test_depth(void)
{
	static const int depths[] = {1, 127, 128, 129, 1000, 100000};
	static const char *const open[] = {"[", "{\"a\":", "[{\"a\":"};
	static const char *const close[] = {"]", "}", "}]"};

	for (size_t i = 0; i < COUNT(depths); i++) {
		for (size_t kind = 0; kind < COUNT(open); kind++) {
			struct buf b = BUF_INIT(1 << 24);
			struct json_doc *doc = NULL;
			struct err e = ERR_INIT;
			int n = kind == 2 ? (depths[i] + 1) / 2 : depths[i];
			for (int k = 0; k < n; k++)
				buf_printf(&b, NULL, "%s", open[kind]);
			if (kind == 1)
				buf_printf(&b, NULL, "1");
			for (int k = 0; k < n; k++)
				buf_printf(&b, NULL, "%s", close[kind]);
			bool good = kind == 2 ? 2 * n <= JSON_MAX_DEPTH : n <= JSON_MAX_DEPTH;
			if (kind == 2)
				b.p[n * 6 - 1] = ' '; /* the innermost ':' … */
			if (kind == 2) {
				/* … becomes {"a" }: write the innermost as an empty object. */
				memcpy(b.p + n * 6 - 5, "{    ", 5);
			}
			int r = json_parse(buf_str(&b), &doc, &e);
			is_int(r, good ? 0 : -1, "%s %d deep: %s", open[kind], depths[i], e.msg);
			if (!good)
				is_int(e.kind, ERR_LIMIT, "kind");
			json_doc_free(doc);
			buf_done(&b);
		}
	}
	/* Width isn't depth. */
	struct buf b = BUF_INIT(1 << 20);
	buf_printf(&b, NULL, "[[]");
	for (int k = 0; k < 1000; k++)
		buf_printf(&b, NULL, ",[[],{\"a\":[]}]");
	buf_printf(&b, NULL, "]");
	struct json_doc *doc = NULL;
	is_int(json_parse(buf_str(&b), &doc, NULL), 0, "a wide document");
	is_uint(json_len(json_root(doc)), 1001, "of that many");
	json_doc_free(doc);
	buf_done(&b);
}

/* ---- readers ---- */

static void check_readers(const struct json *v, const char *what)
{
	row_begin("%s", what);
	is_int(json_type(v), JSON_OBJECT, "an object");
	is_uint(json_len(v), 9, "of nine");
	is_int(json_type(json_get(v, "n")), JSON_NULL, "null");
	is_int(json_type(json_get(v, "t")), JSON_BOOL, "a boolean");
	is_int(json_type(json_get(v, "i")), JSON_INT, "an integer");
	is_int(json_type(json_get(v, "r")), JSON_REAL, "a real");
	is_int(json_type(json_get(v, "big")), JSON_REAL, "an integer that doesn't fit");
	is_int(json_type(json_get(v, "s")), JSON_STRING, "a string");
	is_int(json_type(json_get(v, "a")), JSON_ARRAY, "an array");
	is_int(json_type(json_get(v, "none")), JSON_NONE, "absent");
	ok(json_get(v, "none") == NULL && json_get(json_get(v, "a"), "x") == NULL, "NULL");
	ok(json_bool(json_get(v, "t"), false) && !json_bool(json_get(v, "f"), true) &&
		   json_bool(json_get(v, "i"), true) && !json_bool(NULL, false),
	   "booleans");
	is_int(json_int(json_get(v, "i"), 0), -42, "an integer's value");
	is_int(json_int(json_get(v, "r"), 7), 7, "not a real's");
	is_int(json_int(json_get(v, "big"), 7), 7, "not what doesn't fit");
	is_int(json_int(json_get(v, "s"), 7), 7, "not a string's");
	is_int(json_int(NULL, 7), 7, "not of nothing");
	ok(json_real(json_get(v, "i"), 0) == -42 && json_real(json_get(v, "r"), 0) == 1.5 &&
		   json_real(json_get(v, "big"), 0) == 18446744073709551615.0 &&
		   json_real(json_get(v, "s"), 9) == 9 && json_real(NULL, 9) == 9,
	   "reals");
	is_str(json_cstr(json_get(v, "s")), "a€", "a string");
	ok(str_eq(json_str(json_get(v, "s")), STR("a€")), "its slice");
	ok(json_cstr(json_get(v, "i")) == NULL && json_str(json_get(v, "i")).p == NULL &&
		   json_cstr(NULL) == NULL && json_str(NULL).p == NULL,
	   "no string");
	is_uint(json_len(json_get(v, "a")), 3, "an array's length");
	is_uint(json_len(json_get(v, "s")), 0, "a string has none");
	is_uint(json_len(NULL), 0, "nothing has none");
	is_int(json_int(json_item(json_get(v, "a"), 1), 0), 2, "an element");
	ok(json_item(json_get(v, "a"), 3) == NULL && json_item(v, 0) == NULL &&
		   json_item(NULL, 0) == NULL,
	   "no element");
	is_int(json_int(json_at(v, "o", "p", "q", NULL), 0), 5, "a walk");
	ok(json_at(v, "o", "x", "q", NULL) == NULL && json_at(NULL, "o", NULL) == NULL &&
		   json_at(v, NULL) == v,
	   "walks that end early");
	ok(json_getn(v, (struct str){"ixyz", 1}) == json_get(v, "i") && !json_getn(v, STR_NULL),
	   "by slice");
	row_end();
}

static void check_iteration(const struct json *v, const char *what)
{
	struct json_iter it = json_iter(v);
	char keys[64] = "";

	row_begin("%s", what);
	while (json_next(&it)) {
		strncat(keys, it.key.p, it.key.len);
		strcat(keys, ",");
		ok(it.value == json_getn(v, it.key), "%s's value", keys);
	}
	is_str(keys, "n,t,f,i,r,big,s,a,o,", "members in order");
	ok(!json_next(&it), "it stays at the end");
	int sum = 0;
	it = json_iter(json_get(v, "a"));
	while (json_next(&it)) {
		sum = sum * 10 + (int)json_int(it.value, 9);
		ok(it.key.p == NULL, "no key in an array");
		is_uint(it.index + 1, (uintmax_t)json_int(it.value, 9), "index");
	}
	is_int(sum, 123, "elements in order");
	static const char *const others[] = {"n", "t", "i", "s", "none"};
	for (size_t i = 0; i < COUNT(others); i++) {
		it = json_iter(json_get(v, others[i]));
		ok(!json_next(&it), "nothing in %s", others[i]);
	}
	row_end();
}

static void test_readers(void)
{
	CLEANUP_JSON struct json_doc *doc = parse(
		"{\"n\":null,\"t\":true,\"f\":false,\"i\":-42,\"r\":1.5,"
		"\"big\":18446744073709551615,\"s\":\"a€\",\"a\":[1,2,3],"
		"\"o\":{\"p\":{\"q\":5}}}");
	CLEANUP_JMUT struct jmut_doc *mut = jmut_doc_new();
	struct jmut *copy = jmut_copy(mut, json_root(doc));
	struct jmut *clone = jmut_clone(mut, copy);

	check_readers(json_root(doc), "parsed");
	check_iteration(json_root(doc), "parsed");
	check_readers(jmut_view(copy), "a copy's view");
	check_iteration(jmut_view(copy), "a copy's view");
	check_readers(jmut_view(clone), "a clone's view");
	check_iteration(jmut_view(clone), "a clone's view");
	ok(json_equal(json_root(doc), jmut_view(clone)), "equal");

	CLEANUP_JSON struct json_doc *twice = parse("{\"a\":1,\"b\":0,\"a\":2}");
	is_int(json_int(json_get(json_root(twice), "a"), 0), 1, "of a key twice, the first");
	CLEANUP_JSON struct json_doc *nul = parse("{\"a\\u0000b\":\"c\\u0000d\"}");
	const struct json *v = json_getn(json_root(nul), STR("a\0b"));
	is_mem(json_str(v).p, json_str(v).len, "c\0d", 3, "NULs in key and string");
	ok(json_get(json_root(nul), "a") == NULL, "such a key isn't its beginning");

	static const char *const names[] = {"nothing",  "null",     "a boolean", "an integer",
					    "a number", "a string", "an array",  "an object"};
	for (unsigned i = 0; i < COUNT(names); i++)
		is_str(json_type_name((enum json_type)i), names[i], "a type's name");
}

static void test_numbers(void)
{
	static const struct {
		const char *text;
		enum json_type type;
		double want;
	} rows[] = {
		{"0", JSON_INT, 0},
		{"-0", JSON_INT, 0},
		{"1e2", JSON_REAL, 100},
		{"1E-2", JSON_REAL, 0.01},
		{"1.0", JSON_REAL, 1},
		{"9223372036854775807", JSON_INT, 9223372036854775807.0},
		{"-9223372036854775808", JSON_INT, -9223372036854775808.0},
		{"9223372036854775808", JSON_REAL, 9223372036854775808.0},
		{"-9223372036854775809", JSON_REAL, -9223372036854775809.0},
		{"1e308", JSON_REAL, 1e308},
		{"1e999", JSON_REAL, DBL_MAX},
		{"-1e999", JSON_REAL, -DBL_MAX},
		{"1e-999", JSON_REAL, 0},
		{"123456789012345678901234567890", JSON_REAL, 123456789012345678901234567890.0},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = parse(rows[i].text);
		row_of(rows[i].text);
		if (strcmp(rows[i].text, "-0") != 0) /* an integer or a real: both are right */
			is_int(json_type(json_root(doc)), rows[i].type, "type");
		double d = json_real(json_root(doc), 9);
		ok(d == rows[i].want, "value %g", d);
	}
	row_end();
}

static void test_equal(void)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} rows[] = {
		{"1", "1", true},
		{"1", "2", false},
		{"1", "1.0", true},
		{"100", "1e2", true},
		{"1", "1.5", false},
		{"1", "true", false},
		{"1", "\"1\"", false},
		{"null", "null", true},
		{"null", "false", false},
		{"true", "true", true},
		{"true", "false", false},
		{"9223372036854775807", "9223372036854775808", false},
		{"9223372036854775807", "9223372036854775807.0", false},
		{"9007199254740993", "9007199254740992.0", false},
		{"9007199254740992", "9007199254740992.0", true},
		{"18446744073709551615", "18446744073709551614", false},
		{"18446744073709551615", "18446744073709551615", true},
		{"123456789012345678901234567890", "123456789012345678901234567891", false},
		{"\"a\"", "\"\\u0061\"", true},
		{"\"a\"", "\"b\"", false},
		{"[]", "[]", true},
		{"[]", "{}", false},
		{"[1,2]", "[1,2]", true},
		{"[1,2]", "[2,1]", false},
		{"[1,2]", "[1]", false},
		{"{\"a\":1,\"b\":[{}]}", "{\"b\":[{}],\"a\":1}", true},
		{"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
		{"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
		{"{\"a\":null}", "{}", false},
		{"{\"a\":1,\"a\":2}", "{\"a\":1}", true},
		{"{\"a\":1,\"a\":2}", "{\"a\":2}", false},
		{"{\"a\":1,\"b\":1}", "{\"a\":1,\"a\":1}", false},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JSON struct json_doc *a = parse(rows[i].a);
		CLEANUP_JSON struct json_doc *b = parse(rows[i].b);
		CLEANUP_JMUT struct jmut_doc *mut = jmut_doc_new();
		const struct json *view = jmut_view(jmut_copy(mut, json_root(a)));
		row_begin("%s and %s", rows[i].a, rows[i].b);
		is_int(json_equal(json_root(a), json_root(b)), rows[i].equal, "compared");
		is_int(json_equal(json_root(b), json_root(a)), rows[i].equal, "turned round");
		is_int(json_equal(view, json_root(b)), rows[i].equal, "by a view");
		ok(json_equal(json_root(a), json_root(a)), "equal to itself");
	}
	row_end();
	ok(json_equal(NULL, NULL), "nothing and nothing");
	CLEANUP_JSON struct json_doc *null = parse("null");
	ok(!json_equal(NULL, json_root(null)), "nothing isn't null");
}

/* A peer's large objects in opposite orders mustn't cost a walk for each member. */
static void test_equal_large(void)
{
	enum { N = 60000 };
	CLEANUP_JMUT struct jmut_doc *mut = jmut_doc_new();
	struct jmut *a = jmut_object(mut), *b = jmut_object(mut);

	for (int i = 0; i < N; i++) {
		char key[32];
		struct str k = {key, (size_t)snprintf(key, sizeof(key), "key-%d", i)};
		jmut_add(mut, a, k, jmut_int(mut, i));
		k.len = (size_t)snprintf(key, sizeof(key), "key-%d", N - 1 - i);
		jmut_add(mut, b, k, jmut_int(mut, N - 1 - i));
	}
	ok(json_equal(jmut_view(a), jmut_view(b)), "equal in the opposite order");
	jmut_set_int(mut, b, "key-0", 1);
	ok(!json_equal(jmut_view(a), jmut_view(b)), "not with another value at the end");
}

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
	unsigned long n = 1;

	for (; n < 1000; n++) {
		struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		struct buf out = BUF_INIT(1000);
		fault_alloc_fail_at(n);
		int r = json_parse(STR(text), &doc, &e);
		if (r == 0)
			r = json_write(json_root(doc), JSON_COMPACT, &out, &e);
		bool enough = fault_alloc_count() < n;
		fault_alloc_fail_at(0);
		if (enough)
			is_mem(out.p, out.len, text, sizeof(text) - 1, "none failed");
		else
			ok(r == -1 && e.kind == ERR_LIMIT && out.len == 0, "allocation %lu fails",
			   n);
		json_doc_free(doc);
		buf_done(&out);
		if (enough)
			break;
	}
	ok(n > 2 && n < 1000, "there were %lu allocations", n - 1);
}

/* Random bytes that look like JSON: whatever is accepted is written and read again the same. */
static void test_noise(void)
{
	static const char *const pieces[] = {
		"{",  "}",    "[",    "]", ",",  ":",    "\"a\"", "\"",     "1", "-",     "e5",
		".5", "null", "true", " ", "\n", "\\",   "\\u12", "\\ud83", "#", "'",     "- ",
		"? ", "&",    "*",    "!", "|",  "\xc3", "\xa4",  "\t",     "0", "false", "\"b\":"};
	unsigned good = 0, wrong = 0;

	rand_seed(7);
	for (int i = 0; i < 20000; i++) {
		char text[128];
		size_t len = 0;
		size_t want = (size_t)rand_below(12) + 1;
		for (size_t k = 0; k < want; k++) {
			const char *piece = pieces[rand_below(COUNT(pieces))];
			memcpy(text + len, piece, strlen(piece));
			len += strlen(piece);
		}
		struct json_doc *doc = NULL, *again = NULL;
		if (json_parse((struct str){text, len}, &doc, NULL) < 0)
			continue;
		good++;
		char *written = write_json(json_root(doc), JSON_COMPACT);
		if (json_parse(str_of(written), &again, NULL) < 0 ||
		    !json_equal(json_root(doc), json_root(again)))
			wrong++;
		json_doc_free(doc);
		json_doc_free(again);
		free(written);
	}
	is_uint(wrong, 0, "what is accepted goes round");
	ok(good > 100, "some of it was JSON: %u", good);
}

int main(void)
{
	test_good();
	test_bad();
	test_cut();
	test_depth();
	test_readers();
	test_numbers();
	test_equal();
	test_equal_large();
	test_build();
	test_arrays();
	test_need();
	test_strings();
	test_lifetimes();
	test_merge_patch();
	test_write();
	test_fault();
	test_noise();
	return done_testing();
}
