/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of core/json.h share.
 * Uses core.
 */
#ifndef IPU_T_UNIT_CORE_JSON_H
#define IPU_T_UNIT_CORE_JSON_H

#include "core/json.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The document of a text that is JSON. */
static inline struct json_doc *parse(const char *text)
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
static inline void row_of(const char *text)
{
	char *name = xstrdup(text);

	for (char *c = name; *c; c++) {
		if (*c < ' ' || *c > '~' || *c == '#')
			*c = '?';
	}
	row_begin("%s", name);
	free(name);
}

static inline char *write_json(const struct json *v, enum json_write_flags flags)
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

#endif
