/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of an IPUJob's spec, as the CRD's schema has it: one table of fields, and the lists
 * that a table can't say.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "job/validate.h"

enum field_type {
	FIELD_INT,
	FIELD_SIZE,
	FIELD_ENUM,
	FIELD_OBJECT,
	FIELD_ARRAY,
	FIELD_CODES,
	FIELD_SHARE,
	FIELD_BOOL,
	FIELD_TEXT,
};

struct field {
	const char *path; /* below spec, with dots; a parent that is absent leaves it out */
	enum field_type type;
	bool required;
	int64_t min, max;
	const char *choices; /* "A, B", as they stand in the message */
};

static const struct field fields[] = {
	{"jobInstances", FIELD_INT, false, 1, 10000, NULL},
	{"ipusPerJobInstance", FIELD_SIZE, false, 0, 0, NULL},
	{"workersPerJobInstance", FIELD_SIZE, false, 0, 0, NULL},
	{"modelReplicasPerWorker", FIELD_SIZE, false, 0, 0, NULL},
	{"modelReplicas", FIELD_SIZE, false, 0, 0, NULL},
	{"ipusPerModelReplica", FIELD_SIZE, false, 0, 0, NULL},
	{"workers", FIELD_OBJECT, true, 0, 0, NULL},
	{"workers.replicas", FIELD_INT, false, 1, 10000, NULL},
	{"workers.template", FIELD_OBJECT, true, 0, 0, NULL},
	{"workers.template.metadata", FIELD_OBJECT, false, 0, 0, NULL},
	{"workers.template.spec", FIELD_OBJECT, true, 0, 0, NULL},
	{"workers.template.spec.containers", FIELD_ARRAY, true, 0, 0, NULL},
	{"workers.strategy", FIELD_OBJECT, false, 0, 0, NULL},
	{"workers.strategy.type", FIELD_ENUM, false, 0, 0, "Recreate, RollingUpdate"},
	{"workers.strategy.rollingUpdate", FIELD_OBJECT, false, 0, 0, NULL},
	{"workers.strategy.rollingUpdate.maxSurge", FIELD_SHARE, false, 0, 0, NULL},
	{"workers.strategy.rollingUpdate.maxUnavailable", FIELD_SHARE, false, 0, 0, NULL},
	{"launcher", FIELD_OBJECT, false, 0, 0, NULL},
	{"launcher.command", FIELD_ARRAY, true, 0, 0, NULL},
	{"launcher.env", FIELD_ARRAY, false, 0, 0, NULL},
	{"interactive", FIELD_OBJECT, false, 0, 0, NULL},
	{"interactive.ttl", FIELD_INT, true, 1, INT32_MAX, NULL},
	{"restartPolicy", FIELD_OBJECT, false, 0, 0, NULL},
	{"restartPolicy.type", FIELD_ENUM, true, 0, 0, "Always, OnFailure, Never, ExitCode"},
	{"restartPolicy.backOffLimit", FIELD_INT, false, 0, INT32_MAX, NULL},
	{"restartPolicy.exitCodes", FIELD_CODES, false, 0, 0, NULL},
	{"cleanPodPolicy", FIELD_ENUM, false, 0, 0, "None, All, Workers"},
	{"partition", FIELD_OBJECT, false, 0, 0, NULL},
	{"partition.release", FIELD_ENUM, false, 0, 0, "OnCompletion, OnDeletion"},
	{"partition.reconfigurable", FIELD_BOOL, false, 0, 0, NULL},
	{"partition.gcds", FIELD_INT, false, 1, 10000, NULL},
	{"partition.replicas", FIELD_INT, false, 1, 99999, NULL},
	{"partition.syncType", FIELD_ENUM, false, 0, 0,
	 "GS2_DEFAULT, POD_NATIVE_DEFAULT, POD_NATIVE_REPLICATED_PIPELINE"},
	{"partition.routingType", FIELD_ENUM, false, 0, 0, "DNC, SWNC, BTNC, RINGSWNC"},
	{"partition.allocation", FIELD_TEXT, false, 0, 253, NULL},
};

bool job_has_code_form(struct str s)
{
	bool digit = false, in_range = false;

	if (s.len == 0 || s.len > 256)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (isdigit((unsigned char)s.p[i])) {
			digit = true;
			continue;
		}
		if (!digit || (s.p[i] != ',' && (s.p[i] != '-' || in_range)))
			return false;
		in_range = s.p[i] == '-';
		digit = false;
	}
	return digit;
}

static bool is_choice(struct str s, const char *choices)
{
	struct str rest = str_of(choices), choice;

	while (rest.len) {
		str_cut(rest, ',', &choice, &rest);
		if (str_eq(s, str_trim(choice)))
			return true;
	}
	return false;
}

static bool is_percentage(struct str s)
{
	if (s.len < 2 || s.len > 4 || s.p[s.len - 1] != '%')
		return false;
	for (size_t i = 0; i + 1 < s.len; i++) {
		if (!isdigit((unsigned char)s.p[i]))
			return false;
	}
	return true;
}

/* What the type must be, in words; NULL when it is. */
static const char *wrong_type(const struct field *f, const struct json *v)
{
	enum json_type type = json_type(v);

	switch (f->type) {
	case FIELD_INT:
		return type == JSON_INT ? NULL : "a whole number";
	case FIELD_OBJECT:
		return type == JSON_OBJECT ? NULL : "an object";
	case FIELD_ARRAY:
		return type == JSON_ARRAY ? NULL : "a list";
	case FIELD_BOOL:
		return type == JSON_BOOL ? NULL : "true or false";
	case FIELD_SHARE:
		return type == JSON_INT || type == JSON_STRING ? NULL : "a number or a string";
	default:
		return type == JSON_STRING ? NULL : "a string";
	}
}

static void check_value(struct job_check *c, const struct field *f, const char *path,
			const struct json *v)
{
	const char *wanted = wrong_type(f, v);
	int64_t n = json_int(v, 0);
	struct str s = json_str(v);

	if (wanted)
		job_report(c, "Invalid", path, "must be %s", wanted);
	else if (f->type == FIELD_INT && (n < f->min || n > f->max))
		job_report(c, "Invalid", path, "must be from %" PRId64 " to %" PRId64, f->min,
			   f->max);
	else if (f->type == FIELD_SIZE && s.len > 16)
		job_report(c, "Too long", path, "must be a number of at most 16 digits");
	else if (f->type == FIELD_TEXT && (int64_t)s.len > f->max)
		job_report(c, "Too long", path, "must be at most %" PRId64 " characters", f->max);
	else if (f->type == FIELD_ENUM && !is_choice(s, f->choices))
		job_report(c, "Unsupported", path, "must be one of %s", f->choices);
	else if (f->type == FIELD_CODES && !job_has_code_form(s))
		job_report(c, "Invalid", path,
			   "must be exit codes and ranges, such as \"1,3-5,137\"");
	else if (f->type == FIELD_SHARE && ((json_type(v) == JSON_INT && n < 0) ||
					    (json_type(v) == JSON_STRING && !is_percentage(s))))
		job_report(c, "Invalid", path,
			   "must be a number or a percentage, such as 1 or \"25%%\"");
}

/* The value at a path of dots; *ret_parent says whether the field above it is an object. */
static const struct json *value_at(const struct json *spec, const char *path, bool *ret_parent)
{
	struct str rest = str_of(path), key;
	const struct json *v = spec;

	for (;;) {
		bool more = str_cut(rest, '.', &key, &rest);

		*ret_parent = json_type(v) == JSON_OBJECT;
		v = json_getn(v, key);
		if (!more)
			return v;
	}
}

static void check_names(struct job_check *c, const struct json *list, const char *path)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		char at[128];
		const struct json *name = json_get(it.value, "name");

		snprintf(at, sizeof(at), "%s[%zu]%s", path, it.index,
			 json_type(it.value) == JSON_OBJECT ? ".name" : "");
		if (json_type(it.value) != JSON_OBJECT)
			job_report(c, "Invalid", at, "must be an object");
		else if (!name)
			job_report(c, "Required", at, "is required");
		else if (json_type(name) != JSON_STRING)
			job_report(c, "Invalid", at, "must be a string");
	}
}

static void check_words(struct job_check *c, const struct json *list)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		char at[64];

		if (json_type(it.value) == JSON_STRING)
			continue;
		snprintf(at, sizeof(at), "spec.launcher.command[%zu]", it.index);
		job_report(c, "Invalid", at, "must be a string");
	}
}

static void check_lists(struct job_check *c, const struct json *spec)
{
	const struct json *containers = json_at(spec, "workers", "template", "spec", "containers",
						NULL);
	const struct json *command = json_at(spec, "launcher", "command", NULL);

	if (json_type(containers) == JSON_ARRAY && json_len(containers) == 0)
		job_report(c, "Invalid", "spec.workers.template.spec.containers",
			   "must have at least one container");
	check_names(c, containers, "spec.workers.template.spec.containers");
	if (json_type(command) == JSON_ARRAY && json_len(command) == 0)
		job_report(c, "Invalid", "spec.launcher.command", "must have at least one word");
	check_words(c, command);
	check_names(c, json_at(spec, "launcher", "env", NULL), "spec.launcher.env");
}

void job_check_shape(struct job_check *c, const struct json *spec)
{
	bool given = spec && json_type(spec) != JSON_NULL;

	if (json_type(spec) != JSON_OBJECT) {
		job_report(c, given ? "Invalid" : "Required", "spec", "%s",
			   given ? "must be an object" : "is required");
		return;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];
		char path[128];
		bool parent;
		const struct json *v = value_at(spec, f->path, &parent);

		snprintf(path, sizeof(path), "spec.%s", f->path);
		if (v && json_type(v) != JSON_NULL)
			check_value(c, f, path, v);
		else if (f->required && parent)
			job_report(c, "Required", path, "is required");
	}
	check_lists(c, spec);
	job_check_template(c, json_at(spec, "workers", "template", NULL));
}
