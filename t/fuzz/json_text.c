/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See json_text.h. Uses core/json.h alone, so that either back-end does.
 */
#include "json_text.h"

#include "core/json.h"
#include "fuzz.h"

static void add_value(struct buf *out, const struct json *v)
{
	struct json_iter it = json_iter(v);
	enum json_type type = json_type(v);
	size_t n = 0;

	if (type == JSON_BOOL)
		fuzz_add(out, "%s", json_bool(v, false) ? "true" : "false");
	else if (type == JSON_INT)
		fuzz_add(out, "%lld", (long long)json_int(v, 0));
	else if (type == JSON_REAL)
		fuzz_add(out, "%.17g", json_real(v, 0));
	else if (type == JSON_STRING)
		MUST(json_write_str(json_str(v), out, NULL) == 0);
	else
		fuzz_add(out, "%s", type == JSON_OBJECT ? "{" : type == JSON_ARRAY ? "[" : "null");
	while (json_next(&it)) {
		MUST(type == JSON_OBJECT || json_item(v, n) == it.value);
		n++;
		if (type == JSON_OBJECT) {
			MUST(json_getn(v, it.key) != NULL);
			MUST(json_write_str(it.key, out, NULL) == 0);
			fuzz_add(out, ":");
		}
		add_value(out, it.value);
		fuzz_add(out, ",");
	}
	MUST(n == json_len(v));
	if (type == JSON_OBJECT || type == JSON_ARRAY)
		fuzz_add(out, "%s", type == JSON_OBJECT ? "}" : "]");
}

static void try_written(const struct json *v, enum json_write_flags flags, struct buf *out)
{
	CLEANUP_JSON struct json_doc *again = NULL;

	MUST(json_write(v, flags, out, NULL) == 0);
	MUST(json_parse(buf_str(out), &again, NULL) == 0);
	MUST(json_equal(v, json_root(again)) && json_equal(json_root(again), v));
}

void json_text(struct str s, struct buf *out, struct buf *ret_written)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	CLEANUP_JMUT struct jmut_doc *copies = jmut_doc_new();
	struct buf pretty = FUZZ_TEXT, copied = FUZZ_TEXT;
	struct err err = ERR_INIT;

	if (json_parse(s, &doc, &err) < 0) {
		/* Which kind may differ: what is too deep may also be broken further on. */
		fuzz_add(out, "!");
		MUST(!doc && err.msg[0] && (err.kind == ERR_INVALID || err.kind == ERR_LIMIT));
		return;
	}
	const struct json *root = json_root(doc);
	MUST(json_equal(root, root));
	add_value(out, root);
	try_written(root, JSON_COMPACT, ret_written);
	try_written(root, JSON_PRETTY, &pretty);
	buf_done(&pretty);

	struct jmut *copy = jmut_copy(copies, root);
	MUST(json_equal(jmut_view(copy), root));
	MUST(jmut_write(copy, JSON_COMPACT, &copied, NULL) == 0);
	MUST(str_eq(buf_str(&copied), buf_str(ret_written)));
	buf_done(&copied);
}
