/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over all lists. Paths are made only where there is something to say.
 */
#include "admission/bounds.h"

#include <stdio.h>

#include "core/str.h"

/* Where the walk is: names and numbers up to the root. */
struct place {
	const struct place *parent;
	struct str key;
	size_t index;
};

static void print_path(const struct place *at, struct buf *out)
{
	if (!at->parent) {
		buf_append_str(out, at->key, NULL);
		return;
	}
	print_path(at->parent, out);
	if (at->key.p)
		buf_printf(out, NULL, ".%.*s", STR_ARG(at->key));
	else
		buf_printf(out, NULL, "[%zu]", at->index);
}

static void tell(const struct place *at, size_t n, struct admission_findings *out)
{
	struct buf path = BUF_INIT(1024);

	print_path(at, &path);
	buf_append(&path, "", 1, NULL);
	path.p[path.len - 1] = '\0';
	admission_problem(out, path.p, "Too many", "must have at most %d items, not %zu",
			  ADMISSION_MAX_ELEMENTS, n);
	buf_done(&path);
}

/* As deep as JSON_MAX_DEPTH at most. */
static bool walk(const struct json *v, const struct place *at, struct admission_findings *out)
{
	struct json_iter it = json_iter(v);
	bool good = true;

	if (json_type(v) == JSON_ARRAY && json_len(v) > ADMISSION_MAX_ELEMENTS) {
		tell(at, json_len(v), out);
		return false;
	}
	while (json_next(&it)) {
		struct place below = {.parent = at, .key = it.key, .index = it.index};
		enum json_type type = json_type(it.value);

		if (type == JSON_ARRAY || type == JSON_OBJECT)
			good = walk(it.value, &below, out) && good;
	}
	return good;
}

bool admission_bounds_check(const struct json *v, const char *path, struct admission_findings *out)
{
	const struct place root = {.key = str_of(path)};

	return walk(v, &root, out);
}
