/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/json.h, linked once to each back-end: what is JSON and what isn't, limits, readers, views,
 * comparison.
 * Uses core.
 */
#include "core/json.h"

#include <float.h>
#include <math.h>

#include "core/rand.h"
#include "core_json.h"
#include "tap.h"

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

static const struct {
	struct str text;
	const char *where; /* NULL: not looked at */
} bad[] = {
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
	{STR("1 2"), NULL},
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
	{STR("{\"a\":#c\r1}"), NULL},
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

static void test_bad(void)
{
	for (size_t i = 0; i < COUNT(bad); i++) {
		/* A block of its own size, so that a read behind it is seen. */
		char *text = xstrndup(bad[i].text.p, bad[i].text.len);
		char *exact = malloc(bad[i].text.len ? bad[i].text.len : 1);
		struct json_doc *doc = NULL;
		struct err e = ERR_INIT;
		memcpy(exact, text, bad[i].text.len);
		row_of(text);
		ok(json_parse((struct str){exact, bad[i].text.len}, &doc, &e) == -1, "refused");
		is_int(e.kind, ERR_INVALID, "kind");
		has_str(e.msg, bad[i].where ? bad[i].where : "line ", "place");
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
	static const int depths[] = {2, 127, 128, 129, 130, 1000, 100000};
	static const char *const open[] = {"[", "{\"a\":", "[{\"a\":"};
	static const char *const close[] = {"]", "}", "}]"};
	static const int levels[] = {1, 1, 2};

	for (size_t i = 0; i < COUNT(depths); i++) {
		for (size_t kind = 0; kind < COUNT(open); kind++) {
			struct buf b = BUF_INIT(1 << 24);
			struct json_doc *doc = NULL;
			struct err e = ERR_INIT;
			int n = depths[i] / levels[kind];
			for (int k = 0; k < n; k++)
				buf_printf(&b, NULL, "%s", open[kind]);
			buf_printf(&b, NULL, "1");
			for (int k = 0; k < n; k++)
				buf_printf(&b, NULL, "%s", close[kind]);
			bool good = n * levels[kind] <= JSON_MAX_DEPTH;
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
	test_noise();
	return done_testing();
}
