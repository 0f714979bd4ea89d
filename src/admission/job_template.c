/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pod template by its fields: what every Kubernetes version refuses in a Pod, said at the
 * template's path. No field is asked for that Kubernetes doesn't ask for, and none is unknown: what
 * isn't in these tables is the server-side dry run's. And the labels of the job itself.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "admission/job_check.h"
#include "core/str.h"

enum part_type {
	PART_BOOL,
	PART_INT,
	PART_TEXT,
	PART_ENUM,
	PART_OBJECT,
	PART_LIST,  /* of objects */
	PART_WORDS, /* a list of strings */
	PART_LABEL, /* a name, RFC 1123 */
	PART_PORT_NAME,
	PART_ENV_NAME,
	PART_IMAGE,
};

struct part {
	const char *key;
	enum part_type type;
	bool required;
	int64_t min, max;
	const char *choices;
};

static const struct part pod_parts[] = {
	{.key = "restartPolicy", .type = PART_ENUM, .choices = "Always, OnFailure, Never"},
	{.key = "dnsPolicy",
	 .type = PART_ENUM,
	 .choices = "ClusterFirst, ClusterFirstWithHostNet, Default, None"},
	{.key = "activeDeadlineSeconds", .type = PART_INT, .min = 1, .max = INT_MAX},
	{.key = "terminationGracePeriodSeconds",
	 .type = PART_INT,
	 .min = INT64_MIN,
	 .max = INT64_MAX},
	{.key = "hostNetwork", .type = PART_BOOL},
	{.key = "hostPID", .type = PART_BOOL},
	{.key = "hostIPC", .type = PART_BOOL},
	{.key = "shareProcessNamespace", .type = PART_BOOL},
	{.key = "automountServiceAccountToken", .type = PART_BOOL},
	{.key = "enableServiceLinks", .type = PART_BOOL},
	{.key = "nodeName", .type = PART_TEXT},
	{.key = "serviceAccountName", .type = PART_TEXT},
	{.key = "schedulerName", .type = PART_TEXT},
	{.key = "priorityClassName", .type = PART_TEXT},
	{.key = "runtimeClassName", .type = PART_TEXT},
	{.key = "hostname", .type = PART_TEXT},
	{.key = "subdomain", .type = PART_TEXT},
	{.key = "initContainers", .type = PART_LIST},
	{.key = "imagePullSecrets", .type = PART_LIST},
	{.key = "tolerations", .type = PART_LIST},
	{.key = "affinity", .type = PART_OBJECT},
	{.key = "securityContext", .type = PART_OBJECT},
	{0},
};

static const struct part container_parts[] = {
	{.key = "name", .type = PART_LABEL},
	{.key = "image", .type = PART_IMAGE, .required = true},
	{.key = "imagePullPolicy", .type = PART_ENUM, .choices = "Always, IfNotPresent, Never"},
	{.key = "workingDir", .type = PART_TEXT},
	{.key = "command", .type = PART_WORDS},
	{.key = "args", .type = PART_WORDS},
	{.key = "stdin", .type = PART_BOOL},
	{.key = "tty", .type = PART_BOOL},
	{.key = "ports", .type = PART_LIST},
	{.key = "envFrom", .type = PART_LIST},
	{.key = "resources", .type = PART_OBJECT},
	{.key = "livenessProbe", .type = PART_OBJECT},
	{.key = "readinessProbe", .type = PART_OBJECT},
	{.key = "startupProbe", .type = PART_OBJECT},
	{.key = "lifecycle", .type = PART_OBJECT},
	{.key = "terminationMessagePolicy",
	 .type = PART_ENUM,
	 .choices = "File, FallbackToLogsOnError"},
	{0},
};

static const struct part env_parts[] = {
	{.key = "name", .type = PART_ENV_NAME, .required = true},
	{.key = "value", .type = PART_TEXT},
	{.key = "valueFrom", .type = PART_OBJECT},
	{0},
};

static const struct part port_parts[] = {
	{.key = "name", .type = PART_PORT_NAME},
	{.key = "containerPort", .type = PART_INT, .required = true, .min = 1, .max = 65535},
	{.key = "hostPort", .type = PART_INT, .min = 0, .max = 65535},
	{.key = "protocol", .type = PART_ENUM, .choices = "TCP, UDP, SCTP"},
	{0},
};

static const struct part mount_parts[] = {
	{.key = "name", .type = PART_TEXT, .required = true},
	{.key = "mountPath", .type = PART_TEXT, .required = true},
	{.key = "subPath", .type = PART_TEXT},
	{.key = "readOnly", .type = PART_BOOL},
	{0},
};

static const struct part volume_parts[] = {
	{.key = "name", .type = PART_LABEL, .required = true},
	{0},
};

/* ---- forms ---- */

static bool is_label(struct str s)
{
	return s.len <= 63 && !memchr(s.p, '.', s.len) && job_look_is_subdomain(s);
}

/* IANA's service names: at most 15 of small letters, digits and "-", a letter among them. */
static bool is_port_name(struct str s)
{
	bool letter = false;

	for (size_t i = 0; i < s.len; i++) {
		letter = letter || islower((unsigned char)s.p[i]);
		if (s.p[i] == '-' && i > 0 && s.p[i - 1] == '-')
			return false;
	}
	return letter && s.len <= 15 && is_label(s);
}

/* As newer API servers have it; older ones want letters, digits, "_", "-" and ".". */
static bool is_env_name(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '=' || s.p[i] < ' ' || s.p[i] > '~')
			return false;
	}
	return true;
}

/* ---- one field ---- */

static bool is_absent(const struct json *v)
{
	return !v || json_type(v) == JSON_NULL;
}

/* What a value of this type is called; NULL: it's of it. */
static const char *wrong_type(enum part_type part, enum json_type type)
{
	switch (part) {
	case PART_BOOL:
		return type == JSON_BOOL ? NULL : "must be true or false, without quotes";
	case PART_INT:
		return type == JSON_INT ? NULL : "must be a whole number, without quotes";
	case PART_OBJECT:
		return type == JSON_OBJECT ? NULL : "must be an object";
	case PART_LIST:
		return type == JSON_ARRAY ? NULL : "must be a list";
	case PART_WORDS:
		return type == JSON_ARRAY ? NULL
					  : "must be a list of strings, such as [\"a\", \"b\"]";
	default:
		if (type == JSON_STRING)
			return NULL;
		return type == JSON_ARRAY || type == JSON_OBJECT || part != PART_TEXT
			       ? "must be a string"
			       : "must be a string: write it in quotes";
	}
}

static void check_words(const struct job_look *l, const char *path, const struct json *list)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		char at[JOB_LOOK_PATH];
		const char *wrong = wrong_type(PART_TEXT, json_type(it.value));

		job_look_path(at, "%s[%zu]", path, it.index);
		if (wrong)
			admission_problem(l->out, at, "Invalid", "%s", wrong);
	}
}

static void check_members(const struct job_look *l, const char *path, const struct json *list)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s[%zu]", path, it.index);
		if (json_type(it.value) != JSON_OBJECT)
			admission_problem(l->out, at, "Invalid", "must be an object");
	}
}

static void check_text(const struct job_look *l, const struct part *p, const char *path,
		       struct str s)
{
	/* An empty string is none in Kubernetes' typed objects. */
	if (s.len == 0) {
		if (p->required)
			admission_problem(l->out, path, "Required", "is required");
		return;
	}
	if (p->type == PART_ENUM && !str_list_has(str_of(p->choices), s))
		admission_problem(l->out, path, "Unsupported", "must be one of %s", p->choices);
	else if (p->type == PART_LABEL && !is_label(s))
		admission_problem(
			l->out, path, "Invalid",
			"must be at most 63 small letters, digits and \"-\", and begin and "
			"end with a letter or digit");
	else if (p->type == PART_PORT_NAME && !is_port_name(s))
		admission_problem(l->out, path, "Invalid",
				  "must be at most 15 small letters, digits and single \"-\" "
				  "between them, at least one letter");
	else if (p->type == PART_ENV_NAME && !is_env_name(s))
		admission_problem(l->out, path, "Invalid",
				  "must be printable ASCII characters without \"=\"");
	else if (p->type == PART_IMAGE && str_trim(s).len != s.len)
		admission_problem(l->out, path, "Invalid", "must not begin or end with blanks");
}

static void check_part(const struct job_look *l, const struct part *p, const char *path,
		       const struct json *v)
{
	const char *wrong = is_absent(v) ? NULL : wrong_type(p->type, json_type(v));
	int64_t n = json_int(v, p->min);

	if (is_absent(v) && p->required)
		admission_problem(l->out, path, "Required", "is required");
	else if (wrong)
		admission_problem(l->out, path, "Invalid", "%s", wrong);
	else if (p->type == PART_INT && (n < p->min || n > p->max))
		admission_problem(l->out, path, "Invalid", "must be from %" PRId64 " to %" PRId64,
				  p->min, p->max);
	else if (p->type == PART_WORDS)
		check_words(l, path, v);
	else if (p->type == PART_LIST)
		check_members(l, path, v);
	else if (json_type(v) == JSON_STRING)
		check_text(l, p, path, json_str(v));
}

static void check_parts(const struct job_look *l, const struct part *parts, const char *path,
			const struct json *obj)
{
	for (const struct part *p = parts; p->key; p++) {
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s.%s", path, p->key);
		check_part(l, p, at, json_get(obj, p->key));
	}
}

/* ---- lists of objects ---- */

typedef void check_fn(const struct job_look *l, const char *path, const struct json *item);

static void check_list(const struct job_look *l, const char *path, const struct json *list,
		       const struct part *parts, check_fn *more)
{
	struct json_iter it = json_iter(list);

	if (json_type(list) != JSON_ARRAY)
		return;
	while (json_next(&it)) {
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s[%zu]", path, it.index);
		if (json_type(it.value) != JSON_OBJECT) {
			admission_problem(l->out, at, "Invalid", "must be an object");
			continue;
		}
		check_parts(l, parts, at, it.value);
		if (more)
			more(l, at, it.value);
	}
}

static void check_env(const struct job_look *l, const char *path, const struct json *env)
{
	char at[JOB_LOOK_PATH];

	job_look_path(at, "%s.valueFrom", path);
	if (json_str(json_get(env, "value")).len && !is_absent(json_get(env, "valueFrom")))
		admission_problem(l->out, at, "Invalid",
				  "goes without value only; leave one of the two out");
}

static void check_port(const struct job_look *l, const char *path, const struct json *port)
{
	int64_t own = json_int(json_get(port, "containerPort"), 0);
	int64_t host = json_int(json_get(port, "hostPort"), 0);
	char at[JOB_LOOK_PATH];

	job_look_path(at, "%s.hostPort", path);
	if (l->host_network && own && host && own != host)
		admission_problem(l->out, at, "Invalid",
				  "must be the containerPort where Pods use the host's network; "
				  "leave it out");
}

static void check_volume(const struct job_look *l, const char *path, const struct json *volume)
{
	static const char *const sources[] = {
		"emptyDir",      "hostPath",  "persistentVolumeClaim",
		"configMap",     "secret",    "projected",
		"downwardAPI",   "nfs",       "csi",
		"ephemeral",     "iscsi",     "cephfs",
		"glusterfs",     "rbd",       "fc",
		"flexVolume",    "image",     "gitRepo",
		"cinder",        "azureFile", "azureDisk",
		"vsphereVolume",
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		const struct json *source = json_get(volume, sources[i]);
		char at[JOB_LOOK_PATH];

		n += !is_absent(source);
		job_look_path(at, "%s.%s", path, sources[i]);
		if (!is_absent(source) && json_type(source) != JSON_OBJECT)
			admission_problem(l->out, at, "Invalid", "must be an object");
	}
	if (n > 1)
		admission_problem(l->out, path, "Forbidden",
				  "must have one kind of volume, not %zu", n);
}

/* "64GB" is none: units are G and Gi. */
static void check_amounts(const struct job_look *l, const char *path, const struct json *map)
{
	struct json_iter it = json_iter(map);

	if (!is_absent(map) && json_type(map) != JSON_OBJECT)
		admission_problem(l->out, path, "Invalid", "must be an object");
	while (json_type(map) == JSON_OBJECT && json_next(&it)) {
		struct str s = json_str(it.value), key = {it.key.p, str_utf8_cut(it.key, 253)};
		enum json_type type = json_type(it.value);
		char at[JOB_LOOK_PATH];

		if (s.len && s.p[0] == '+')
			s = (struct str){s.p + 1, s.len - 1};
		job_look_path(at, "%s[%.*s]", path, STR_ARG(key));
		if (type == JSON_STRING                     ? !job_is_quantity(s)
		    : type == JSON_INT || type == JSON_REAL ? json_real(it.value, 0) < 0
							    : type != JSON_NULL)
			admission_problem(l->out, at, "Invalid",
					  "must be a quantity, such as 4, \"500m\" or \"8Gi\"");
	}
}

static void check_container(const struct job_look *l, const char *path,
			    const struct json *container)
{
	char at[JOB_LOOK_PATH];

	job_look_path(at, "%s.env", path);
	check_list(l, at, json_get(container, "env"), env_parts, check_env);
	job_look_path(at, "%s.ports", path);
	check_list(l, at, json_get(container, "ports"), port_parts, check_port);
	job_look_path(at, "%s.resources.limits", path);
	check_amounts(l, at, json_at(container, "resources", "limits", NULL));
	job_look_path(at, "%s.resources.requests", path);
	check_amounts(l, at, json_at(container, "resources", "requests", NULL));
	job_look_path(at, "%s.volumeMounts", path);
	check_list(l, at, json_get(container, "volumeMounts"), mount_parts, NULL);
}

/* ---- labels and annotations ---- */

/* Letters, digits, "-", "_" and ".", the first and last a letter or digit. */
static bool is_name_part(struct str s)
{
	if (s.len == 0 || s.len > 63 || !isalnum((unsigned char)s.p[0]) ||
	    !isalnum((unsigned char)s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '-' && s.p[i] != '_' &&
		    s.p[i] != '.')
			return false;
	}
	return true;
}

/* Kubernetes makes an annotation's key small before it looks at it, and a label's not. */
static bool is_qualified(struct str key, bool label)
{
	struct str domain, name;
	char small[256];

	if (!str_cut(key, '/', &domain, &name))
		return is_name_part(key);
	if (domain.len >= sizeof(small))
		return false;
	for (size_t i = 0; i < domain.len; i++)
		small[i] = (char)(label ? domain.p[i] : tolower((unsigned char)domain.p[i]));
	domain.p = small;
	return job_look_is_subdomain(domain) && is_name_part(name);
}

static void check_map(const struct job_look *l, const char *path, const struct json *map,
		      bool labels)
{
	struct json_iter it = json_iter(map);

	if (!is_absent(map) && json_type(map) != JSON_OBJECT)
		admission_problem(l->out, path, "Invalid", "must be an object");
	if (json_type(map) != JSON_OBJECT)
		return;
	while (json_next(&it)) {
		struct str key = {it.key.p, str_utf8_cut(it.key, 253)};
		struct str value = json_str(it.value);
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s[%.*s]", path, STR_ARG(key));
		if (!is_qualified(it.key, labels))
			admission_problem(
				l->out, at, "Invalid",
				"must be a name of at most 63 letters, digits, \"-\", "
				"\"_\" and \".\", with a domain and \"/\" before it or not, "
				"such as \"app\" or \"example.com/app\"");
		if (json_type(it.value) != JSON_STRING)
			admission_problem(l->out, at, "Invalid", "must be a string");
		if (labels && value.len && !is_name_part(value))
			admission_problem(l->out, at, "Invalid",
					  "must be at most 63 letters, digits, \"-\", \"_\" and "
					  "\".\", and begin and end with a letter or digit");
	}
}

void job_look_at_metadata(const struct job_look *l)
{
	const struct json *meta = json_get(l->object, "metadata");

	check_map(l, "metadata.labels", json_get(meta, "labels"), true);
	check_map(l, "metadata.annotations", json_get(meta, "annotations"), false);
}

void job_look_at_template(const struct job_look *l)
{
	const struct json *pod = job_look_pod(l);
	const struct json *meta = json_at(l->spec, "workers", "template", "metadata", NULL);

	check_list(l, "spec.launcher.env", json_at(l->spec, "launcher", "env", NULL), env_parts,
		   check_env);
	check_map(l, POD_META ".labels", json_get(meta, "labels"), true);
	check_map(l, POD_META ".annotations", json_get(meta, "annotations"), false);
	if (json_type(pod) != JSON_OBJECT)
		return;
	check_parts(l, pod_parts, POD_SPEC, pod);
	check_list(l, POD_SPEC ".containers", json_get(pod, "containers"), container_parts,
		   check_container);
	check_list(l, POD_SPEC ".initContainers", json_get(pod, "initContainers"), container_parts,
		   check_container);
	check_list(l, POD_SPEC ".volumes", json_get(pod, "volumes"), volume_parts, check_volume);
	if (json_len(json_get(pod, "ephemeralContainers")))
		admission_problem(l->out, POD_SPEC ".ephemeralContainers", "Forbidden",
				  "can't be in a template: `kubectl debug` adds one to a Pod that "
				  "runs");
}
