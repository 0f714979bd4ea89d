/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML: what was read is written as JSON and as YAML and reads the same; places lie in the text;
 * JSON that is accepted as YAML has JSON's value.
 * Input: the text.
 */
#include "core/json.h"
#include "core/yaml.h"
#include "fuzz.h"
#include "json_text.h"

/* And one: an empty block scalar stands behind the end of the text. */
static size_t count_lines(struct str s)
{
	size_t n = 2;

	for (size_t i = 0; i < s.len; i++)
		n += s.p[i] == '\n' || s.p[i] == '\r';
	return n;
}

static void try_places(const struct yaml *y, size_t doc, struct str s)
{
	struct json_iter it = json_iter(yaml_doc(y, doc));
	size_t lines = count_lines(s);

	while (json_next(&it)) {
		unsigned line = 0, column = 0;
		CLEANUP_FREE char *pointer = it.key.p ? xasprintf("/%.*s", STR_ARG(it.key))
						      : xasprintf("/%zu", it.index);
		yaml_pos(y, doc, pointer, &line, &column);
		MUST(line >= 1 && line <= lines && column >= 1 && column <= s.len + 2);
		yaml_key_pos(y, doc, pointer, &line, &column);
		MUST(line >= 1 && line <= lines && column >= 1 && column <= s.len + 2);
	}
}

static void try_written(const struct json *v)
{
	struct buf text = FUZZ_TEXT;
	CLEANUP_JSON struct json_doc *doc = NULL;
	CLEANUP_YAML struct yaml *again = NULL;

	MUST(json_write(v, JSON_COMPACT, &text, NULL) == 0);
	MUST(json_parse(buf_str(&text), &doc, NULL) == 0);
	MUST(json_equal(v, json_root(doc)));
	buf_clear(&text);
	MUST(yaml_write(v, &text, NULL) == 0);
	MUST(yaml_parse("written", buf_str(&text), &again, NULL) == 0);
	if (yaml_len(again) != 1 || !json_equal(v, yaml_doc(again, 0)))
		fprintf(stderr, "%.*s\n", STR_ARG(buf_str(&text)));
	MUST(yaml_len(again) == 1 && json_equal(v, yaml_doc(again, 0)));
	buf_done(&text);
}

/* Compared as transcripts: of numbers that only a double holds, YAML doesn't keep the digits. */
static void try_json(const struct yaml *y, struct str s)
{
	struct buf want = FUZZ_TEXT, got = FUZZ_TEXT, text = FUZZ_TEXT, written = FUZZ_TEXT;

	json_text(s, &want, &written);
	if (written.len > 0) {
		MUST(yaml_len(y) == 1);
		MUST(json_write(yaml_doc(y, 0), JSON_COMPACT, &text, NULL) == 0);
		buf_clear(&written);
		json_text(buf_str(&text), &got, &written);
		fuzz_same(&want, &got);
	}
	buf_done(&want);
	buf_done(&text);
	buf_done(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	CLEANUP_YAML struct yaml *y = NULL;
	struct err err = ERR_INIT;

	if (yaml_parse("input", s, &y, &err) < 0) {
		MUST(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		MUST(err.msg[0] && !y);
		return 0;
	}
	for (size_t i = 0; i < yaml_len(y); i++) {
		try_places(y, i, s);
		try_written(yaml_doc(y, i));
	}
	try_json(y, s);
	return 0;
}
