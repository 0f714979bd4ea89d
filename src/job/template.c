/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of what the operator itself writes into in a Pod template: the CRD keeps these fields
 * as they come, and one that can't be built upon must be told before IPUs are asked for.
 */
#include <stdio.h>

#include "core/str.h"
#include "job/validate.h"

#define SPEC "spec.workers.template.spec"

static void check_type(struct job_check *c, const struct json *v, enum json_type type,
		       const char *path)
{
	if (v && json_type(v) != JSON_NULL && json_type(v) != type)
		job_report(c, "Invalid", path, "must be %s",
			   type == JSON_OBJECT ? "an object" : "a list");
}

/* Labels, annotations, a node selector: strings by name. */
static void check_strings(struct job_check *c, const struct json *v, const char *path)
{
	struct json_iter it = json_iter(v);

	check_type(c, v, JSON_OBJECT, path);
	if (json_type(v) != JSON_OBJECT)
		return;
	while (json_next(&it)) {
		char at[512];

		if (json_type(it.value) == JSON_STRING)
			continue;
		snprintf(at, sizeof(at), "%s[%.*s]", path, STR_ARG(it.key));
		job_report(c, "Invalid", at, "must be a string");
	}
}

static void check_container(struct job_check *c, const struct json *container, size_t i)
{
	static const struct {
		const char *key;
		enum json_type type;
	} fields[] = {
		{"env", JSON_ARRAY},
		{"volumeMounts", JSON_ARRAY},
		{"securityContext", JSON_OBJECT},
	};

	for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
		char path[128];

		snprintf(path, sizeof(path), SPEC ".containers[%zu].%s", i, fields[k].key);
		check_type(c, json_get(container, fields[k].key), fields[k].type, path);
	}
}

void job_check_template(struct job_check *c, const struct json *template)
{
	const struct json *meta = json_get(template, "metadata"),
			  *spec = json_get(template, "spec");
	struct json_iter it = json_iter(json_get(spec, "containers"));

	check_strings(c, json_get(meta, "labels"), "spec.workers.template.metadata.labels");
	check_strings(c, json_get(meta, "annotations"),
		      "spec.workers.template.metadata.annotations");
	check_strings(c, json_get(spec, "nodeSelector"), SPEC ".nodeSelector");
	check_type(c, json_get(spec, "volumes"), JSON_ARRAY, SPEC ".volumes");
	while (json_next(&it))
		check_container(c, it.value, it.index);
}
