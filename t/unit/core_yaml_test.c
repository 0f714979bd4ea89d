/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/yaml.h, reading: values, what a plain scalar is, places, errors, aliases and their bounds.
 * Uses core.
 */
#include "core/yaml.h"

#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void row_of(const char *text)
{
	char *name = xstrndup(text, strlen(text) > 60 ? 60 : strlen(text));

	for (char *c = name; *c; c++) {
		if (*c < ' ' || *c > '~' || *c == '#')
			*c = '|';
	}
	row_begin("%s", name);
	free(name);
}

static char *as_json(const struct json *v)
{
	struct buf out = BUF_INIT(1 << 24);

	if (json_write(v, JSON_COMPACT, &out, NULL) < 0)
		return xstrdup("nothing");
	return buf_steal(&out, NULL);
}

/* ---- values ---- */

static const struct {
	const char *yaml, *json;
} scalars[] = {
	{"null", "null"},
	{"~", "null"},
	{"Null", "null"},
	{"nULL", "\"nULL\""},
	{"true", "true"},
	{"False", "false"},
	{"TRUE", "true"},
	{"tRUE", "\"tRUE\""},
	{"yes", "\"yes\""},
	{"no", "\"no\""},
	{"On", "\"On\""},
	{"off", "\"off\""},
	{"y", "\"y\""},
	{"0", "0"},
	{"-0", "0"},
	{"+12", "12"},
	{"-19", "-19"},
	{"0644", "420"},
	{"-010", "-8"},
	{"0o644", "420"},
	{"089", "89"},
	{"0x1F", "31"},
	{"0x", "\"0x\""},
	{"0xG", "\"0xG\""},
	{"0o8", "\"0o8\""},
	{"0b101", "5"},
	{"1_000", "\"1_000\""},
	{"1,000", "\"1,000\""},
	{"9223372036854775807", "9223372036854775807"},
	{"-9223372036854775808", "-9223372036854775808"},
	{"9223372036854775808", "9223372036854776000.0"},
	{"1.5", "1.5"},
	{"1.", "1.0"},
	{".5", "0.5"},
	{"-.5", "-0.5"},
	{"+1.5e3", "1500.0"},
	{"1e3", "1000.0"},
	{"1e", "\"1e\""},
	{"e3", "\"e3\""},
	{".", "\".\""},
	{"-", "[null]"},
	{"+", "\"+\""},
	{"1.2.3", "\"1.2.3\""},
	{"12e03", "12000.0"},
	{"1:20", "\"1:20\""},
	{"2024-03-01", "\"2024-03-01\""},
	{"2024-03-01T10:00:00Z", "\"2024-03-01T10:00:00Z\""},
	{"100m", "\"100m\""},
	{"4Gi", "\"4Gi\""},
	{"\"1\"", "\"1\""},
	{"'true'", "\"true\""},
	{"''", "\"\""},
	{"\"\"", "\"\""},
	{"'it''s'", "\"it's\""},
	{"\"a\\tb\\x41\\u20ac\\n\"", "\"a\\tbA€\\n\""},
	{"!!str 1", "\"1\""},
	{"!!str null", "\"null\""},
	{"! 1", "\"1\""},
	{"!!int \"7\"", "7"},
	{"!!float 7", "7.0"},
	{"!!bool 'true'", "true"},
	{"!!null ''", "null"},
	{"|\n  a\n   b\n\n  c\n\n", "\"a\\n b\\n\\nc\\n\""},
	{"|-\n  a\n", "\"a\""},
	{"|+\n  a\n\n", "\"a\\n\\n\""},
	{">\n  a\n  b\n\n  c\n", "\"a b\\nc\\n\""},
	{"|2\n   a\n  b\n", "\" a\\nb\\n\""},
	{"a\n b\n c", "\"a b c\""},
	{"http://x:80/y#z", "\"http://x:80/y#z\""},
	{"a # comment", "\"a\""},
	{"größe", "\"größe\""},
	{"k:\t|\n  a\n", "{\"k\":\"a\\n\"}"},
	{"k:\tv", "{\"k\":\"v\"}"},
};

static void test_scalars(void)
{
	for (size_t i = 0; i < COUNT(scalars); i++) {
		CLEANUP_YAML struct yaml *y = NULL;
		struct err e = ERR_INIT;
		row_of(scalars[i].yaml);
		if (!ok(yaml_parse("t", str_of(scalars[i].yaml), &y, &e) == 0, "parsed %s", e.msg))
			continue;
		is_uint(yaml_len(y), 1, "one document");
		CLEANUP_FREE char *json = as_json(yaml_doc(y, 0));
		is_str(json, scalars[i].json, "value");
	}
	row_end();
}

static void test_documents(void)
{
	static const struct {
		const char *yaml;
		const char *json; /* of all documents, one behind the other */
		size_t n;
	} rows[] = {
		{"", "", 0},
		{"# nothing\n", "", 0},
		{"---\n---\n# c\n---\n...\n", "", 0},
		{"a: 1\n---\n---\nb: 2\n", "{\"a\":1}{\"b\":2}", 2},
		{"%YAML 1.2\n---\na\n...\n---\nb\n", "\"a\"\"b\"", 2},
		{"--- null\n", "null", 1},
		{"--- ''\n", "\"\"", 1},
		{"{\"a\": [1, 2.5, \"x\", null, true]}", "{\"a\":[1,2.5,\"x\",null,true]}", 1},
		{"a: {b: c, d: [e, 'f']}\n", "{\"a\":{\"b\":\"c\",\"d\":[\"e\",\"f\"]}}", 1},
		{"a:\n- b\n- c: 1\n  d: 2\n- - e\n", "{\"a\":[\"b\",{\"c\":1,\"d\":2},[\"e\"]]}",
		 1},
		{"a:\nb:\n  -\n", "{\"a\":null,\"b\":[null]}", 1},
		{"1: a\ntrue: b\n1.0: c\n.inf: d\n",
		 "{\"1\":\"a\",\"true\":\"b\",\"1.0\":\"c\",\".inf\":\"d\"}", 1},
		{"? a\n: b\n? |\n  c\n: d\n", "{\"a\":\"b\",\"c\\n\":\"d\"}", 1},
		{"\xef\xbb\xbf"
		 "a: b\r\nc: |\r\n  d\r\n  e\r\n",
		 "{\"a\":\"b\",\"c\":\"d\\ne\\n\"}", 1},
		{"a: []\nb: {}\n", "{\"a\":[],\"b\":{}}", 1},
		{"!!map {a: !!seq [1]}", "{\"a\":[1]}", 1},
		{"args:\n- >-\n  python3 train.py\n  --batch 16\n- --x=1\n",
		 "{\"args\":[\"python3 train.py --batch 16\",\"--x=1\"]}", 1},
		{"a: &x [1, {b: 2}]\nc: *x\nd: *x\n",
		 "{\"a\":[1,{\"b\":2}],\"c\":[1,{\"b\":2}],\"d\":[1,{\"b\":2}]}", 1},
		{"a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}", 1},
		{"&x a: 1\nb: *x\n*x : 2\n", NULL, 0},
		{"- &x a\n- *x : 2\n", "[\"a\",{\"a\":2}]", 1},
		{"- &x\n- *x\n", "[null,null]", 1},
		{"- &a {x: 1, y: 2}\n- <<: *a\n  y: 3\n", "[{\"x\":1,\"y\":2},{\"y\":3,\"x\":1}]",
		 1},
		{"- &a {x: 1}\n- &b {x: 2, z: 3}\n- y: 4\n  <<: [*a, *b]\n",
		 "[{\"x\":1},{\"x\":2,\"z\":3},{\"y\":4,\"x\":1,\"z\":3}]", 1},
		{"<<: {a: 1}\n", "{\"a\":1}", 1},
		{"'<<': {a: 1}\n", "{\"<<\":{\"a\":1}}", 1},
		{"a: &x\n  b: &x 1\n  c: *x\nd: *x\n", NULL, 0},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_YAML struct yaml *y = NULL;
		struct err e = ERR_INIT;
		char all[256] = "";
		row_of(rows[i].yaml);
		int r = yaml_parse("t", str_of(rows[i].yaml), &y, &e);
		if (!rows[i].json) {
			/* It's enough that it ends well: libraries differ on these. */
			ok(r == 0 || e.kind == ERR_INVALID, "ends: %s", e.msg);
			continue;
		}
		if (!ok(r == 0, "parsed %s", e.msg))
			continue;
		is_uint(yaml_len(y), rows[i].n, "documents");
		for (size_t k = 0; k < yaml_len(y); k++) {
			CLEANUP_FREE char *json = as_json(yaml_doc(y, k));
			strncat(all, json, sizeof(all) - strlen(all) - 1);
		}
		is_str(all, rows[i].json, "values");
		ok(yaml_doc(y, yaml_len(y)) == NULL, "no more");
	}
	row_end();
}

/* ---- errors ---- */

static void test_errors(void)
{
	static const struct {
		const char *yaml, *want;
	} rows[] = {
		{"a: [1\nb: 2\n", "t:3:1: "},
		{"a: b: c\n", "t:1:5: "},
		{"a: \"x", "t:1:5: "},
		{"\ta: b", "t:1:1: "},
		{"a: 1\nb: 2\n a: 3\n", "t:2:4: "},
		{"a: *nope", "t:1:4: there is no anchor of this alias's name"},
		{"a: &x 1\n---\nb: *x\n", "t:3:4: there is no anchor of this alias's name"},
		{"a: &x [1, *x]", "t:1:11: this alias is inside of what it refers to"},
		{"a: 1\nb: 2\na: 3\n", "t:3:1: key \"a\" is there already, in line 1"},
		{"x: {a: 1, \"a\": 3}\n", "t:1:12: key \"a\" is there already, in line 1"},
		{"- &a b\n- *a : 1\n  b: 2\n", "t:3:3: key \"b\" is there already, in line 2"},
		{"x:\n  - .inf\n", "t:2:5: this isn't a finite number"},
		{"x: -.INF", "t:1:4: this isn't a finite number"},
		{"x: .nan", "t:1:4: this isn't a finite number"},
		{"x: 1e999", "t:1:4: this isn't a finite number"},
		{"!!float .nan", "t:1:9: this isn't a finite number"},
		{"a: !foo b", "t:1:9: this tag isn't understood"},
		{"a: !!binary aGk=", "t:1:13: this tag isn't understood"},
		{"a: !!set {x}", "isn't understood"},
		{"!!int x", "t:1:7: the value doesn't fit its tag"},
		{"!!bool 1", "doesn't fit its tag"},
		{"!!null x", "doesn't fit its tag"},
		{"? {a: b}\n: c\n", "t:1:3: a key must be a string, not a mapping"},
		{"? [a]\n: c\n", "t:1:3: a key must be a string, not a list"},
		{"[a]: c\n", "t:1:1: a key must be a string, not a list"},
		{"~: c\n", "t:1:1: a key must be a string, not null"},
		{"- &a 1\n- *a : x\n", "t:2:3: a key must be a string, and this alias isn't"},
		{"<<: 1\n", "t:1:5: << needs a mapping"},
		{"<<: [{}, 1]\n", "t:1:5: << needs a list of mappings"},
		{"a: b\n\x01", "t:2:1: control character 0x01"},
		{"a: b\xff", "t:1:5: a byte that isn't UTF-8"},
		{"ä: \x7f", "t:1:4: control character 0x7f"},
		{"a: 'ä' 'b'", "t:1:8: "},
		{"%YAML 3.0\n---\na\n", "t:1:"},
		{"a: |\n\tb\n", "t:2:"},
		{"{a: 1", "t:"},
		{"]", "t:1:1: "},
		{"a: 1\n- b\n", "t:2:1: "},
		{"@x", "t:1:1: "},
		{"1: \n? k:\t?", "t:2:4: a tab can't stand between this and '?'"},
		{"? ä: \t- b", "t:1:4: a tab can't stand between this and '-'"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct yaml *y = NULL;
		struct err e = ERR_INIT;
		row_of(rows[i].yaml);
		ok(yaml_parse("t", str_of(rows[i].yaml), &y, &e) == -1, "refused");
		is_int(e.kind, ERR_INVALID, "kind");
		has_str(e.msg, rows[i].want, "message");
		ok(y == NULL, "nothing is returned");
		yaml_free(y);
	}
	row_end();
	struct err e = ERR_INIT;
	struct yaml *y = NULL;
	is_int(yaml_parse("t", STR("a: b\0c"), &y, &e), -1, "a NUL");
	has_str(e.msg, "t:1:5: control character 0x00", "message");
}

static int parse_buf(struct buf *b, struct err *err)
{
	struct yaml *y = NULL;
	int r = yaml_parse("t", buf_str(b), &y, err);

	yaml_free(y);
	buf_done(b);
	return r;
}

static void test_merges_of_merges(void)
{
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT((size_t)8 << 20);

	/* Each level holds a copy of what is merged into it, and all of them are of one text. */
	buf_printf(&b, NULL, "x: ");
	for (int i = 0; i < 100; i++)
		buf_printf(&b, NULL, "{<<: ");
	buf_printf(&b, NULL, "{");
	for (int i = 0; i < 5000; i++)
		buf_printf(&b, NULL, "m%d: 1, ", i);
	buf_printf(&b, NULL, "}");
	for (int i = 0; i < 100; i++)
		buf_printf(&b, NULL, "}");
	is_int(parse_buf(&b, &e), -1, "a merge of a merge of a merge …");
	is_int(e.kind, ERR_LIMIT, "kind");

	/* What merging leaves behind isn't in the value that an alias then stands for. */
	buf_printf(&b, NULL, "a0: &a0 {k: v}\n");
	for (int i = 1; i < 100; i++)
		buf_printf(&b, NULL, "a%d: &a%d {<<: *a%d}\n", i, i, i - 1);
	is_int(parse_buf(&b, &e), 0, "a hundred that each begin with the one before: %s", e.msg);
}

static void test_bounds(void)
{
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT((size_t)8 << 20);

	/* A billion laughs, by lists and by merges. */
	buf_printf(&b, NULL, "a0: &a0 [ha, ha]\n");
	for (int i = 1; i < 40; i++)
		buf_printf(&b, NULL, "a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
	is_int(parse_buf(&b, &e), -1, "an alias bomb");
	is_int(e.kind, ERR_LIMIT, "kind");
	has_str(e.msg, "aliases and merges stand for more than", "message");
	note("%s", e.msg);

	buf_printf(&b, NULL, "x: &x \"%0100000d\"\n", 1);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, NULL, "k%d: *x\n", i);
	is_int(parse_buf(&b, &e), -1, "a long text many times");
	is_int(e.kind, ERR_LIMIT, "kind");

	buf_printf(&b, NULL, "x: &x {");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, NULL, "m%d: 1, ", i);
	buf_printf(&b, NULL, "}\n");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, NULL, "k%d: {<<: *x}\n", i);
	is_int(parse_buf(&b, &e), -1, "a large merge many times");
	is_int(e.kind, ERR_LIMIT, "kind");

	buf_printf(&b, NULL, "a0: &a0 [1]\n");
	for (int i = 1; i < 200; i++)
		buf_printf(&b, NULL, "a%d: &a%d [*a%d]\n", i, i, i - 1);
	is_int(parse_buf(&b, &e), -1, "deep by aliases");
	is_int(e.kind, ERR_LIMIT, "kind");
	has_str(e.msg, "t:128:14: nested deeper than 128 levels", "message");

	for (int depth = 127; depth <= 130; depth++) {
		for (int i = 0; i < depth; i++)
			buf_printf(&b, NULL, "[");
		for (int i = 0; i < depth; i++)
			buf_printf(&b, NULL, "]");
		is_int(parse_buf(&b, &e), depth <= 128 ? 0 : -1, "%d levels of flow", depth);
	}
	for (int depth = 127; depth <= 130; depth++) {
		for (int i = 0; i < depth; i++)
			buf_printf(&b, NULL, "%*sa:\n", i, "");
		is_int(parse_buf(&b, &e), depth <= 128 ? 0 : -1, "%d levels of block", depth);
	}
	for (int i = 0; i < 100000; i++)
		buf_printf(&b, NULL, "[");
	is_int(parse_buf(&b, &e), -1, "100000 levels");
	is_int(e.kind, ERR_LIMIT, "kind");

	for (int i = 0; i < 20000; i++)
		buf_printf(&b, NULL, "key-%d: value\n", i);
	is_int(parse_buf(&b, &e), 0, "a large mapping");
	for (int i = 0; i < 20000; i++)
		buf_printf(&b, NULL, "--- x\n");
	is_int(parse_buf(&b, &e), 0, "many documents");

	for (size_t len = 0; len <= YAML_MAX_BYTES; len += 64)
		buf_printf(&b, NULL, "# %061d\n", 1);
	is_int(parse_buf(&b, &e), -1, "too long");
	is_int(e.kind, ERR_LIMIT, "kind");
}

/* ---- places ---- */

static const char manifest[] = "# a comment\n"                       /* 1 */
			       "apiVersion: graphcore.ai/v1alpha1\n" /* 2 */
			       "spec:\n"                             /* 3 */
			       "  workers:\n"                        /* 4 */
			       "    replicas: 2\n"                   /* 5 */
			       "    args:\n"                         /* 6 */
			       "    - a\n"                           /* 7 */
			       "    - {x: 1, 'y/~z': 2}\n"           /* 8 */
			       "    empty:\n"                        /* 9 */
			       "  base: &b\n"                        /* 10 */
			       "    k: v\n"                          /* 11 */
			       "  copy: *b\n"                        /* 12 */
			       "  merged:\n"                         /* 13 */
			       "    <<: *b\n"                        /* 14 */
			       "    größe: ä\n"                      /* 15 */
			       "---\n"                               /* 16 */
			       "x: y\n";                             /* 17 */

static void test_places(void)
{
	static const struct {
		size_t doc;
		const char *pointer;
		unsigned line, column, key_line, key_column;
	} rows[] = {
		{0, "", 2, 1, 2, 1},
		{0, "/apiVersion", 2, 13, 2, 1},
		{0, "/spec", 4, 3, 3, 1},
		{0, "/spec/workers", 5, 5, 4, 3},
		{0, "/spec/workers/replicas", 5, 15, 5, 5},
		{0, "/spec/workers/args", 7, 5, 6, 5},
		{0, "/spec/workers/args/0", 7, 7, 7, 7},
		{0, "/spec/workers/args/1", 8, 7, 8, 7},
		{0, "/spec/workers/args/1/x", 8, 11, 8, 8},
		{0, "/spec/workers/args/1/y~1~0z", 8, 22, 8, 15},
		{0, "/spec/workers/args/2", 7, 5, 7, 5},
		{0, "/spec/workers/args/x", 7, 5, 7, 5},
		{0, "/spec/workers/none", 5, 5, 5, 5},
		{0, "/spec/workers/none/deeper", 5, 5, 5, 5},
		{0, "/spec/workers/replicas/x", 5, 15, 5, 15},
		{0, "/spec/base/k", 11, 8, 11, 5},
		{0, "/spec/copy", 12, 9, 12, 3},
		{0, "/spec/copy/k", 12, 9, 12, 9},
		{0, "/spec/merged/k", 14, 5, 14, 5},
		{0, "/spec/merged/größe", 15, 12, 15, 5},
		{1, "", 17, 1, 17, 1},
		{1, "/x", 17, 4, 17, 1},
		{1, "x", 17, 1, 17, 1},
		{2, "/x", 1, 1, 1, 1},
	};
	CLEANUP_YAML struct yaml *y = NULL;
	struct err e = ERR_INIT;
	unsigned line, column;

	if (yaml_parse("m.yaml", STR(manifest), &y, &e) < 0)
		bail_out(e.msg);
	for (size_t i = 0; i < COUNT(rows); i++) {
		row_begin("%zu %s", rows[i].doc, rows[i].pointer);
		yaml_pos(y, rows[i].doc, rows[i].pointer, &line, &column);
		ok(line == rows[i].line && column == rows[i].column, "value at %u:%u", line,
		   column);
		yaml_key_pos(y, rows[i].doc, rows[i].pointer, &line, &column);
		ok(line == rows[i].key_line && column == rows[i].key_column, "key at %u:%u", line,
		   column);
	}
	row_end();
	yaml_pos(y, 0, "/spec/workers/empty", &line, &column);
	is_uint(line, 9, "a value that isn't written stands near its key");

	is_int(yaml_error(y, 0, "/spec/workers/replicas", &e, "must be %d", 1), -1, "yaml_error");
	is_str(e.msg, "m.yaml:5:15: must be 1", "message");
	is_int(e.kind, ERR_INVALID, "kind");
	is_int(yaml_key_error(y, 0, "/spec/workers", &e, "unknown key"), -1, "yaml_key_error");
	is_str(e.msg, "m.yaml:4:3: unknown key", "message");
}

static void test_load(void)
{
	char path[] = "/tmp/core-yaml-XXXXXX";
	struct err e = ERR_INIT;
	struct yaml *y = NULL;
	int fd = mkstemp(path), saved = dup(0);

	if (fd < 0 || saved < 0 || write(fd, "a: [\n", 5) != 5)
		bail_out("mkstemp");
	is_int(yaml_load(path, &y, &e), -1, "a broken file");
	ok(strncmp(e.msg, path, strlen(path)) == 0 && e.msg[strlen(path)] == ':', "its name: %s",
	   e.msg);
	is_int(ftruncate(fd, 0), 0, "emptied");
	is_int(yaml_load(path, &y, &e), 0, "an empty file");
	is_uint(yaml_len(y), 0, "no documents");
	yaml_free(y);
	y = NULL;
	is_int((int)pwrite(fd, "a: 1\n", 5, 0), 5, "written");
	is_int(yaml_load(path, &y, &e), 0, "a good file");
	is_int(json_int(json_get(yaml_doc(y, 0), "a"), 0), 1, "value");
	yaml_free(y);
	y = NULL;
	lseek(fd, 0, SEEK_SET);
	dup2(fd, 0);
	is_int(yaml_load("-", &y, &e), 0, "standard input");
	is_uint(yaml_len(y), 1, "one document");
	yaml_free(y);
	dup2(saved, 0);
	close(saved);
	close(fd);
	is_int(truncate(path, (off_t)YAML_MAX_BYTES + 2), 0, "a large file");
	is_int(yaml_load(path, &y, &e), -1, "too large");
	is_int(e.kind, ERR_LIMIT, "kind");
	unlink(path);
	is_int(yaml_load(path, &y, &e), -1, "a missing file");
	is_int(e.kind, ERR_NOT_FOUND, "kind");
	has_str(e.msg, "No such file", "message");
	is_int(yaml_load("/tmp", &y, &e), -1, "a folder");
	is_int(e.kind, ERR_IO, "kind");
	yaml_free(NULL);
}

int main(void)
{
	test_scalars();
	test_documents();
	test_errors();
	test_bounds();
	test_merges_of_merges();
	test_places();
	test_load();
	return done_testing();
}
