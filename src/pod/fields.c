/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields that no Pod has: a walk along the table of Kubernetes' types.
 */
#include "pod/fields.h"

#include <stdio.h>
#include <string.h>

#include "core/str.h"

struct type {
	const char *name;
	const char *fields; /* "args env:EnvVar": with the type of what is in them, or none */
};

#include "fields_table.h"

#define MAX_PATH 512

struct walk {
	job_report_fn *report;
	void *arg;
	size_t n;
};

static const struct type *type_named(struct str name)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (str_eqz(name, types[i].name))
			return &types[i];
	}
	return NULL;
}

/* Whether it's a field, with the type of what is in it (NULL: whatever); else *ret_near is the one
 * that was meant, or empty. */
static bool find_field(const struct type *type, struct str key, const struct type **ret_type,
		       struct str *ret_near)
{
	struct str rest = str_of(type->fields), word, name, inner;

	*ret_near = STR_NULL;
	while (rest.len) {
		str_cut(rest, ' ', &word, &rest);
		str_cut(word, ':', &name, &inner);
		if (str_eq(name, key)) {
			*ret_type = type_named(inner);
			return true;
		}
		str_meant(key, name, ret_near);
	}
	return false;
}

static void tell(struct walk *w, const char *path, struct str near)
{
	char words[160];

	if (near.len)
		snprintf(words, sizeof(words),
			 "a Pod of Kubernetes " POD_FIELDS_OF " has no such field: did you mean "
			 "%.*s?",
			 STR_ARG(near));
	else
		snprintf(words, sizeof(words),
			 "a Pod of Kubernetes " POD_FIELDS_OF " has no such field: an API server "
			 "that doesn't know it drops it");
	w->n++;
	w->report(w->arg, path, "Unknown", words);
}

/* As deep as the types go: none has one of its own kind in it. */
static void walk(struct walk *w, const struct json *v, const struct type *type, const char *path)
{
	struct json_iter it = json_iter(v);
	bool list = json_type(v) == JSON_ARRAY;

	if (!type || (!list && json_type(v) != JSON_OBJECT))
		return;
	while (json_next(&it)) {
		struct str key = {it.key.p, str_utf8_cut(it.key, 200)}, near;
		const struct type *inner = type;
		char at[MAX_PATH];

		if (list)
			snprintf(at, sizeof(at), "%s[%zu]", path, it.index);
		else
			snprintf(at, sizeof(at), "%s%s%.*s", path, path[0] ? "." : "",
				 STR_ARG(key));
		if (!list && !find_field(type, it.key, &inner, &near))
			tell(w, at, near);
		else if (!list || json_type(it.value) == JSON_OBJECT)
			walk(w, it.value, inner, at);
	}
}

size_t pod_unknown_fields(const struct json *v, const char *type, const char *path,
			  job_report_fn *report, void *arg)
{
	struct walk w = {.report = report, .arg = arg};

	walk(&w, v, type_named(str_of(type)), path);
	return w.n;
}
