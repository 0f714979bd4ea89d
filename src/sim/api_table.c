/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables (Kubernetes API Concepts, "Receiving resources as Tables"): what `kubectl get` prints. The
 * columns of IPUJobs are the CRD's; those of core kinds are the API server's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"

static struct jmut *age_of(struct jmut_doc *doc, struct str time)
{
	int64_t then_ms;
	char z[CLOCK_AGE_SIZE];

	if (clock_parse(time, &then_ms, NULL) < 0)
		return jmut_strz(doc, "<unknown>");
	clock_format_age(clock_wall_ms() - then_ms, z);
	return jmut_strz(doc, z);
}

/* ---- cells of core kinds ---- */

struct column {
	const char *name, *type;
	int priority;
	struct jmut *(*cell)(struct jmut_doc *doc, const struct json *o);
};

static struct jmut *cell_name(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, kube_name(o));
}

static struct jmut *cell_age(struct jmut_doc *doc, const struct json *o)
{
	return age_of(doc, json_str(json_at(o, "metadata", "creationTimestamp", NULL)));
}

static struct jmut *cell_ready(struct jmut_doc *doc, const struct json *o)
{
	size_t all = json_len(json_at(o, "spec", "containers", NULL)), ready = 0;
	struct json_iter it = json_iter(json_at(o, "status", "containerStatuses", NULL));

	while (json_next(&it))
		ready += json_bool(json_get(it.value, "ready"), false);
	return jmut_strf(doc, "%zu/%zu", ready, all);
}

/* As the API server words it: a container's reason, else the phase. */
static struct str pod_status(const struct json *o)
{
	struct str status = json_str(json_at(o, "status", "phase", NULL));
	struct str reason = json_str(json_at(o, "status", "reason", NULL));
	struct json_iter it = json_iter(json_at(o, "status", "containerStatuses", NULL));

	if (reason.len)
		status = reason;
	while (json_next(&it)) {
		struct str waiting = json_str(
			json_at(it.value, "state", "waiting", "reason", NULL));
		struct str ended = json_str(
			json_at(it.value, "state", "terminated", "reason", NULL));

		if (waiting.len)
			status = waiting;
		else if (ended.len)
			status = ended;
	}
	return kube_is_deleting(o) ? STR("Terminating") : status;
}

static struct jmut *cell_pod_status(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, pod_status(o));
}

static struct jmut *cell_restarts(struct jmut_doc *doc, const struct json *o)
{
	struct json_iter it = json_iter(json_at(o, "status", "containerStatuses", NULL));
	int64_t n = 0;

	while (json_next(&it))
		n += json_int(json_get(it.value, "restartCount"), 0);
	return jmut_strf(doc, "%" PRId64, n);
}

static struct jmut *text_or_none(struct jmut_doc *doc, const struct json *v)
{
	return json_str(v).len ? jmut_str(doc, json_str(v)) : jmut_strz(doc, "<none>");
}

static struct jmut *cell_pod_ip(struct jmut_doc *doc, const struct json *o)
{
	return text_or_none(doc, json_at(o, "status", "podIP", NULL));
}

static struct jmut *cell_pod_node(struct jmut_doc *doc, const struct json *o)
{
	return text_or_none(doc, json_at(o, "spec", "nodeName", NULL));
}

static struct jmut *cell_data(struct jmut_doc *doc, const struct json *o)
{
	return jmut_int(doc, (int64_t)(json_len(json_get(o, "data")) +
				       json_len(json_get(o, "binaryData"))));
}

static struct jmut *cell_last_seen(struct jmut_doc *doc, const struct json *o)
{
	struct str last = json_str(json_get(o, "lastTimestamp"));

	return age_of(doc, last.len ? last : json_str(json_get(o, "eventTime")));
}

static struct jmut *cell_event_type(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, json_str(json_get(o, "type")));
}

static struct jmut *cell_event_reason(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, json_str(json_get(o, "reason")));
}

static struct jmut *cell_event_object(struct jmut_doc *doc, const struct json *o)
{
	const struct json *about = json_get(o, "involvedObject");
	CLEANUP_FREE char *kind = str_dup(json_str(json_get(about, "kind")));

	for (char *z = kind; *z; z++)
		*z = (char)(*z >= 'A' && *z <= 'Z' ? *z + ('a' - 'A') : *z);
	return jmut_strf(doc, "%s/%.*s", kind, STR_ARG(json_str(json_get(about, "name"))));
}

static struct jmut *cell_event_message(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, str_trim(json_str(json_get(o, "message"))));
}

static struct jmut *cell_phase(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, json_str(json_at(o, "status", "phase", NULL)));
}

static struct jmut *cell_lease_holder(struct jmut_doc *doc, const struct json *o)
{
	return jmut_str(doc, json_str(json_at(o, "spec", "holderIdentity", NULL)));
}

static struct jmut *cell_node_status(struct jmut_doc *doc, const struct json *o)
{
	struct json_iter it = json_iter(json_at(o, "status", "conditions", NULL));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), "Ready"))
			return jmut_strz(doc,
					 str_eqz(json_str(json_get(it.value, "status")), "True")
						 ? "Ready"
						 : "NotReady");
	}
	return jmut_strz(doc, "Unknown");
}

static struct jmut *cell_webhooks(struct jmut_doc *doc, const struct json *o)
{
	return jmut_int(doc, (int64_t)json_len(json_get(o, "webhooks")));
}

static const struct column pod_columns[] = {
	{"Name", "string", 0, cell_name},         {"Ready", "string", 0, cell_ready},
	{"Status", "string", 0, cell_pod_status}, {"Restarts", "string", 0, cell_restarts},
	{"Age", "string", 0, cell_age},           {"IP", "string", 1, cell_pod_ip},
	{"Node", "string", 1, cell_pod_node},     {NULL, NULL, 0, NULL},
};

static const struct column configmap_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Data", "string", 0, cell_data},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column event_columns[] = {
	{"Last Seen", "string", 0, cell_last_seen},   {"Type", "string", 0, cell_event_type},
	{"Reason", "string", 0, cell_event_reason},   {"Object", "string", 0, cell_event_object},
	{"Message", "string", 0, cell_event_message}, {NULL, NULL, 0, NULL},
};

static const struct column namespace_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Status", "string", 0, cell_phase},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column node_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Status", "string", 0, cell_node_status},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column lease_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Holder", "string", 0, cell_lease_holder},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column webhook_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Webhooks", "integer", 0, cell_webhooks},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column other_columns[] = {
	{"Name", "string", 0, cell_name},
	{"Age", "string", 0, cell_age},
	{NULL, NULL, 0, NULL},
};

static const struct column *columns_of(const struct sim_resource *r)
{
	static const struct {
		const char *kind;
		const struct column *columns;
	} known[] = {
		{"Pod", pod_columns},
		{"ConfigMap", configmap_columns},
		{"Event", event_columns},
		{"Namespace", namespace_columns},
		{"Node", node_columns},
		{"Lease", lease_columns},
		{"MutatingWebhookConfiguration", webhook_columns},
		{"ValidatingWebhookConfiguration", webhook_columns},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(r->kind, known[i].kind) == 0)
			return known[i].columns;
	}
	return other_columns;
}

/* ---- cells of the CRD's columns ---- */

/* ".status.launcherStatus": the simple paths that additionalPrinterColumns use. */
static const struct json *at_path(const struct json *v, struct str path)
{
	struct str key;

	if (path.len && path.p[0] == '.')
		path = (struct str){path.p + 1, path.len - 1};
	while (path.len) {
		str_cut(path, '.', &key, &path);
		v = json_getn(v, key);
	}
	return v;
}

static struct jmut *cell_crd(struct jmut_doc *doc, const struct json *column, const struct json *o)
{
	const struct json *v = at_path(o, json_str(json_get(column, "jsonPath")));

	if (!v)
		return jmut_null(doc);
	if (str_eqz(json_str(json_get(column, "type")), "date"))
		return age_of(doc, json_str(v));
	return jmut_copy(doc, v);
}

/* ---- tables ---- */

static void define(struct jmut_doc *doc, struct jmut *list, const char *name, const char *type,
		   const char *description, int64_t priority)
{
	struct jmut *c = jmut_object(doc);

	jmut_set_str(doc, c, "name", name);
	jmut_set_str(doc, c, "type", type);
	jmut_set_str(doc, c, "format", strcmp(name, "Name") == 0 ? "name" : "");
	jmut_set_str(doc, c, "description", description);
	jmut_set_int(doc, c, "priority", priority);
	jmut_push(doc, list, c);
}

static void define_crd(struct sim_api *api, struct jmut_doc *doc, struct jmut *list)
{
	struct json_iter it = json_iter(sim_schema_columns(api->schema));

	define(doc, list, "Name", "string", "The name of the object.", 0);
	while (json_next(&it)) {
		CLEANUP_FREE char *name = str_dup(json_str(json_get(it.value, "name")));
		CLEANUP_FREE char *type = str_dup(json_str(json_get(it.value, "type")));
		CLEANUP_FREE char *text = str_dup(json_str(json_get(it.value, "description")));

		define(doc, list, name, type, text, json_int(json_get(it.value, "priority"), 0));
	}
}

static bool is_crd(const struct sim_resource *r)
{
	return strcmp(r->kind, "IPUJob") == 0;
}

struct jmut *sim_table(struct sim_api *api, struct jmut_doc *doc, const struct sim_resource *r)
{
	struct jmut *table = jmut_object(doc), *list = jmut_array(doc);

	jmut_set_str(doc, table, "kind", "Table");
	jmut_set_str(doc, table, "apiVersion", "meta.k8s.io/v1");
	jmut_set(doc, table, "metadata", jmut_object(doc));
	if (is_crd(r))
		define_crd(api, doc, list);
	for (const struct column *c = is_crd(r) ? NULL : columns_of(r); c && c->name; c++)
		define(doc, list, c->name, c->type, "", c->priority);
	jmut_set(doc, table, "columnDefinitions", list);
	jmut_set(doc, table, "rows", jmut_array(doc));
	return table;
}

static struct jmut *row_object(struct jmut_doc *doc, const struct json *o, const char *include)
{
	struct jmut *partial;

	if (strcmp(include, "None") == 0)
		return NULL;
	if (strcmp(include, "Object") == 0)
		return jmut_copy(doc, o);
	partial = jmut_object(doc);
	jmut_set_str(doc, partial, "kind", "PartialObjectMetadata");
	jmut_set_str(doc, partial, "apiVersion", "meta.k8s.io/v1");
	jmut_set(doc, partial, "metadata", jmut_copy(doc, json_get(o, "metadata")));
	return partial;
}

void sim_table_add(struct sim_api *api, struct jmut_doc *doc, struct jmut *table,
		   const struct sim_object *object, const char *include_object)
{
	const struct json *o = sim_object_json(object);
	struct jmut *row = jmut_object(doc), *cells = jmut_array(doc), *full;
	struct json_iter it = json_iter(sim_schema_columns(api->schema));
	bool crd = is_crd(object->resource);

	if (crd)
		jmut_push(doc, cells, cell_name(doc, o));
	while (crd && json_next(&it))
		jmut_push(doc, cells, cell_crd(doc, it.value, o));
	for (const struct column *c = crd ? NULL : columns_of(object->resource); c && c->name; c++)
		jmut_push(doc, cells, c->cell(doc, o));
	jmut_set(doc, row, "cells", cells);
	full = row_object(doc, o, include_object);
	if (full)
		jmut_set(doc, row, "object", full);
	jmut_push(doc, jmut_get(table, "rows"), row);
	jmut_set(doc, jmut_get(table, "metadata"), "resourceVersion",
		 jmut_strf(doc, "%" PRIu64, object->version));
}
