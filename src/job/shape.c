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
	FIELD_MANAGER,
	FIELD_QUANTITIES,
};

struct field {
	const char *path; /* below spec, with dots; a parent that is absent leaves it out */
	enum field_type type;
	bool required;
	int64_t min, max;
	const char *choices; /* "A, B", as they stand in the message */
};

static const struct field fields[] = {
	{"jobInstances", FIELD_INT, false, INT32_MIN, INT32_MAX, NULL},
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
	{"suspend", FIELD_BOOL, false, 0, 0, NULL},
	{"activeDeadlineSeconds", FIELD_INT, false, 1, INT32_MAX, NULL},
	{"startDeadlineSeconds", FIELD_INT, false, 1, INT32_MAX, NULL},
	{"ttlSecondsAfterFinished", FIELD_INT, false, 0, INT32_MAX, NULL},
	{"managedBy", FIELD_MANAGER, false, 0, 317, NULL},
	{"schedulingPolicy", FIELD_OBJECT, false, 0, 0, NULL},
	{"schedulingPolicy.minAvailable", FIELD_INT, false, 1, 10000, NULL},
	{"schedulingPolicy.queue", FIELD_TEXT, false, 0, 253, NULL},
	{"schedulingPolicy.priorityClass", FIELD_TEXT, false, 0, 253, NULL},
	{"schedulingPolicy.scheduleTimeoutSeconds", FIELD_INT, false, 1, INT32_MAX, NULL},
	{"schedulingPolicy.minResources", FIELD_QUANTITIES, false, 0, 0, NULL},
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

static bool is_one_of(const char *set, char c)
{
	return c && strchr(set, c);
}

/* Letters and digits at both ends, these and others between them. */
static bool is_word(struct str s, bool capitals, const char *others)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool inner = i > 0 && i + 1 < s.len && is_one_of(others, s.p[i]);

		if (!isdigit(c) && !islower(c) && !(capitals && isupper(c)) && !inner)
			return false;
	}
	return s.len > 0;
}

/* "example.com/controller" */
static bool is_manager(struct str s)
{
	struct str domain, name;

	return str_cut(s, '/', &domain, &name) && is_word(domain, false, "-.") &&
	       is_word(name, true, "-_.");
}

static size_t digits_at(struct str s, size_t i)
{
	size_t n = 0;

	while (i + n < s.len && isdigit((unsigned char)s.p[i + n]))
		n++;
	return n;
}

bool job_is_quantity(struct str s)
{
	size_t whole = digits_at(s, 0), i = whole, fraction = 0;

	if (i < s.len && s.p[i] == '.') {
		fraction = digits_at(s, i + 1);
		i += 1 + fraction;
	}
	if (whole + fraction == 0)
		return false;
	if (i == s.len)
		return true;
	if (is_one_of("eE", s.p[i]) && i + 1 < s.len) {
		size_t sign = is_one_of("+-", s.p[i + 1]);
		size_t n = digits_at(s, i + 1 + sign);

		if (n > 0)
			return i + 1 + sign + n == s.len;
	}
	if (i + 1 == s.len)
		return is_one_of("numkMGTPE", s.p[i]);
	return i + 2 == s.len && is_one_of("KMGTPE", s.p[i]) && s.p[i + 1] == 'i';
}

/* What the type must be, in words; NULL when it is. */
static const char *wrong_type(const struct field *f, const struct json *v)
{
	enum json_type type = json_type(v);

	switch (f->type) {
	case FIELD_INT:
		return type == JSON_INT ? NULL : "a whole number";
	case FIELD_OBJECT:
	case FIELD_QUANTITIES:
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

static void check_quantities(struct job_check *c, const char *path, const struct json *map)
{
	struct json_iter it = json_iter(map);

	while (json_next(&it)) {
		enum json_type type = json_type(it.value);
		char at[512];

		snprintf(at, sizeof(at), "%s[%.*s]", path, STR_ARG(it.key));
		if (type != JSON_INT && type != JSON_STRING)
			job_report(c, "Invalid", at, "must be a number or a string");
		else if (type == JSON_INT ? json_int(it.value, 0) < 0
					  : !job_is_quantity(json_str(it.value)))
			job_report(c, "Invalid", at,
				   "must be a quantity, such as 4, \"500m\" or \"8Gi\"");
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
	else if ((f->type == FIELD_TEXT || f->type == FIELD_MANAGER) && (int64_t)s.len > f->max)
		job_report(c, "Too long", path, "must be at most %" PRId64 " characters", f->max);
	else if (f->type == FIELD_ENUM && !str_list_has(str_of(f->choices), s))
		job_report(c, "Unsupported", path, "must be one of %s", f->choices);
	else if (f->type == FIELD_CODES && !job_has_code_form(s))
		job_report(c, "Invalid", path,
			   "must be exit codes and ranges, such as \"1,3-5,137\"");
	else if (f->type == FIELD_SHARE && ((json_type(v) == JSON_INT && n < 0) ||
					    (json_type(v) == JSON_STRING && !is_percentage(s))))
		job_report(c, "Invalid", path,
			   "must be a number or a percentage, such as 1 or \"25%%\"");
	else if (f->type == FIELD_MANAGER && !is_manager(s))
		job_report(c, "Invalid", path,
			   "must be a domain and a name, such as \"example.com/controller\"");
	else if (f->type == FIELD_QUANTITIES)
		check_quantities(c, path, v);
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
		bool given_one = v && json_type(v) != JSON_NULL;

		if (!given_one && !(f->required && parent))
			continue;
		snprintf(path, sizeof(path), "spec.%s", f->path);
		if (given_one)
			check_value(c, f, path, v);
		else
			job_report(c, "Required", path, "is required");
	}
	check_lists(c, spec);
	job_check_template(c, json_at(spec, "workers", "template", NULL));
}

/* ---- fields that there aren't ---- */

/* What the API server has of every object: the table of the spec's fields goes on below. */
static const struct field outer[] = {
	{.path = "apiVersion"},
	{.path = "kind"},
	{.path = "metadata"},
	{.path = "metadata.annotations"},
	{.path = "metadata.creationTimestamp"},
	{.path = "metadata.deletionGracePeriodSeconds"},
	{.path = "metadata.deletionTimestamp"},
	{.path = "metadata.finalizers"},
	{.path = "metadata.generateName"},
	{.path = "metadata.generation"},
	{.path = "metadata.labels"},
	{.path = "metadata.managedFields"},
	{.path = "metadata.name"},
	{.path = "metadata.namespace"},
	{.path = "metadata.ownerReferences"},
	{.path = "metadata.resourceVersion"},
	{.path = "metadata.selfLink"},
	{.path = "metadata.uid"},
	{.path = "spec"},
	{.path = "status"},
};

struct table {
	const struct field *fields;
	size_t n;
};

static const struct table of_object = {outer, sizeof(outer) / sizeof(outer[0])};
static const struct table of_spec = {fields, sizeof(fields) / sizeof(fields[0])};

/* The name of a field right below parent ("workers."); empty: it's elsewhere. */
static struct str name_below(struct str parent, const struct field *f)
{
	if (!str_has_prefix(str_of(f->path), parent) || strchr(f->path + parent.len, '.'))
		return STR_NULL;
	return str_of(f->path + parent.len);
}

/* Whether it's a field; else *ret_near is the one that was meant, or empty. */
static bool is_field(const struct table *t, struct str parent, struct str key, struct str *ret_near)
{
	*ret_near = STR_NULL;
	for (size_t i = 0; i < t->n; i++) {
		struct str name = name_below(parent, &t->fields[i]);

		if (name.len == 0)
			continue;
		if (str_eq(name, key))
			return true;
		str_meant(key, name, ret_near);
	}
	return false;
}

/* at: the object's path with a dot behind it, or "". */
static void check_keys(struct job_check *c, const struct table *t, const char *at,
		       struct str parent, const struct json *obj)
{
	struct json_iter it = json_iter(obj);

	while (json_type(obj) == JSON_OBJECT && json_next(&it)) {
		struct str key = {it.key.p, str_utf8_cut(it.key, 253)}, near;
		char path[512];

		if (is_field(t, parent, it.key, &near))
			continue;
		snprintf(path, sizeof(path), "%s%.*s", at, STR_ARG(key));
		if (near.len)
			job_report(c, "Forbidden", path,
				   "an IPUJob has no such field: did you mean %.*s?",
				   STR_ARG(near));
		else
			job_report(c, "Forbidden", path,
				   "an IPUJob has no such field: the API server drops it");
	}
}

size_t job_unknown_fields(const struct json *object, job_report_fn *report, void *arg)
{
	struct job_check c = {.report = report, .arg = arg};
	const struct json *spec = json_get(object, "spec");

	check_keys(&c, &of_object, "", STR(""), object);
	check_keys(&c, &of_object, "metadata.", STR("metadata."), json_get(object, "metadata"));
	check_keys(&c, &of_spec, "spec.", STR(""), spec);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];
		char at[128], parent[128];
		bool is_there;

		/* A template's are Kubernetes'. */
		if (f->type != FIELD_OBJECT ||
		    str_has_prefix(str_of(f->path), STR("workers.template")))
			continue;
		snprintf(at, sizeof(at), "spec.%s.", f->path);
		snprintf(parent, sizeof(parent), "%s.", f->path);
		check_keys(&c, &of_spec, at, str_of(parent), value_at(spec, f->path, &is_there));
	}
	return c.n;
}
