/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Create, update, patch and delete as the API server does them: metadata that clients can't choose,
 * preconditions, the status apart, finalizers, grace periods, and what goes with its owner.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"
#include "core/str.h"
#include "core/yaml.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/jsonpatch.h"
#include "sim/pod_admit.h"
#include "sim/webhook.h"

/* A write under way: the tree that is being made, and what came of it. */
struct draft {
	struct sim_request *req;
	struct jmut_doc *doc;
	struct jmut *root;
	struct jmut *causes;
	struct buf unknown; /* fields that the schema doesn't know, for a strict client */
	size_t n_unknown;
};

static bool is_kind(const struct sim_resource *r, const char *kind)
{
	return strcmp(r->kind, kind) == 0;
}

/* "ipujobs.graphcore.ai", "pods" */
static const char *qualified(const struct sim_resource *r, char z[128])
{
	snprintf(z, 128, "%s%s%s", r->plural, r->group[0] ? "." : "", r->group);
	return z;
}

/* ---- metadata ---- */

static void set_uid(struct jmut_doc *doc, struct jmut *meta)
{
	uint8_t b[16];
	char hex[33];

	rand_bytes(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* RFC 9562: version 4, variant 10 */
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	hex_encode(b, sizeof(b), hex);
	jmut_set(doc, meta, "uid",
		 jmut_strf(doc, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
			   hex + 20));
}

static void set_time(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t wall_ms)
{
	char z[CLOCK_RFC3339_SIZE];

	clock_format(wall_ms, z);
	jmut_set_str(doc, obj, key, z);
}

static void set_new_metadata(const struct sim_resource *r, struct jmut_doc *doc, struct jmut *meta)
{
	static const char *const not_the_clients[] = {"deletionTimestamp", "selfLink",
						      "deletionGracePeriodSeconds",
						      "resourceVersion", "managedFields"};

	for (size_t i = 0; i < sizeof(not_the_clients) / sizeof(not_the_clients[0]); i++)
		jmut_del(meta, not_the_clients[i]);
	set_uid(doc, meta);
	set_time(doc, meta, "creationTimestamp", clock_wall_ms());
	if (is_kind(r, "IPUJob") || is_kind(r, "Pod") || sim_is_webhook_config(r))
		jmut_set_int(doc, meta, "generation", 1);
}

static void generate_name(struct jmut_doc *doc, struct jmut *meta)
{
	static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
	const char *prefix = json_cstr(json_get(jmut_view(meta), "generateName"));
	char suffix[6] = {0};

	if (!prefix || json_get(jmut_view(meta), "name"))
		return;
	for (int i = 0; i < 5; i++)
		suffix[i] = letters[rand_below(sizeof(letters) - 1)];
	jmut_set(doc, meta, "name", jmut_strf(doc, "%s%s", prefix, suffix));
}

/* ---- checks ---- */

static void note_unknown(void *arg, const char *path)
{
	struct draft *d = arg;

	if (buf_printf(&d->unknown, NULL, "%sunknown field \"%s\"", d->n_unknown ? ", " : "",
		       path) == 0)
		d->n_unknown++;
}

/* Refuses the object for one field, with the cause that kubectl shows. */
static int refuse_field(struct draft *d, const char *field, const char *message, struct err *err)
{
	const struct sim_resource *r = d->req->resource;
	struct jmut *cause = jmut_object(d->doc);

	d->causes = jmut_array(d->doc);
	jmut_set_str(d->doc, cause, "reason", "FieldValueInvalid");
	jmut_set_str(d->doc, cause, "message", message);
	jmut_set_str(d->doc, cause, "field", field);
	jmut_push(d->doc, d->causes, cause);
	return err_set(err, ERR_INVALID, 422, "%s%s%s \"%.*s\" is invalid: %s: %s", r->kind,
		       r->group[0] ? "." : "", r->group, STR_ARG(kube_name(jmut_view(d->root))),
		       field, message);
}

static int check_webhooks(struct draft *d, struct err *err)
{
	char field[SIM_FIELD_PATH];
	struct err why;

	if (sim_webhook_config_check(d->req->resource, d->doc, d->root, field, &why) < 0)
		return refuse_field(d, field, why.msg, err);
	return 0;
}

static int check_pod(struct draft *d, struct err *err)
{
	const struct json *list = json_at(jmut_view(d->root), "spec", "containers", NULL);
	struct json_iter it = json_iter(list);

	if (json_len(list) == 0)
		return refuse_field(d, "spec.containers", "Required value", err);
	while (json_next(&it)) {
		char field[64];

		snprintf(field, sizeof(field), "spec.containers[%zu].image", it.index);
		if (!json_str(json_get(it.value, "image")).len)
			return refuse_field(d, field, "Required value", err);
	}
	return 0;
}

/* What the schema and the rules of the kind say of a whole object; old: the one that is written
 * over, NULL: none. A spec that was stored before a rule existed, and isn't changed, is let be
 * (Kubernetes 1.30: CRDValidationRatcheting). */
static int check_kind(struct draft *d, const struct json *old, struct err *err)
{
	bool same_spec = old &&
			 json_equal(json_get(jmut_view(d->root), "spec"), json_get(old, "spec"));

	const struct sim_resource *r = d->req->resource;
	bool strict = strcmp(d->req->field_validation, "Strict") == 0;

	if (is_kind(r, "Pod"))
		return check_pod(d, err);
	if (sim_is_webhook_config(r))
		return check_webhooks(d, err);
	if (!is_kind(r, "IPUJob"))
		return 0;
	sim_schema_prune(d->req->api->schema, d->root, note_unknown, d);
	if (strict && d->n_unknown)
		return err_set(err, ERR_INVALID, 400, "strict decoding error: %.*s",
			       STR_ARG(buf_str(&d->unknown)));
	sim_schema_default(d->req->api->schema, d->doc, d->root);
	if (same_spec)
		return 0;
	return sim_schema_check(d->req->api->schema, old, jmut_view(d->root), d->doc, &d->causes,
				err);
}

static int check_type(const struct draft *d, struct err *err)
{
	const struct sim_resource *r = d->req->resource;
	const struct json *o = jmut_view(d->root);
	CLEANUP_FREE char *version = xasprintf("%s%s%s", r->group, r->group[0] ? "/" : "",
					       r->version);
	struct str given = json_str(json_get(o, "apiVersion")),
		   kind = json_str(json_get(o, "kind"));

	if (json_type(o) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 400, "the body must be a JSON object");
	if (!str_eqz(given, version) || !str_eqz(kind, r->kind))
		return err_set(err, ERR_INVALID, 400,
			       "the object is %.*s %.*s, and what is asked for is %s %s",
			       STR_ARG(given), STR_ARG(kind), version, r->kind);
	return 0;
}

static int check_place(struct draft *d, struct err *err)
{
	struct sim_request *req = d->req;
	struct jmut *meta = jmut_need_object(d->doc, d->root, "metadata");
	struct str ns, namespaces = STR("namespaces");

	if (!meta)
		return err_set(err, ERR_INVALID, 400, "metadata must be an object");
	ns = json_str(json_get(jmut_view(meta), "namespace"));
	if (!req->resource->namespaced)
		return 0;
	if (ns.len && !str_eqz(ns, req->ns))
		return err_set(err, ERR_INVALID, 400,
			       "the namespace of the provided object does not match the namespace "
			       "sent on the request");
	jmut_set_str(d->doc, meta, "namespace", req->ns);
	if (!sim_objects_get(req->api->objects, sim_resource_find(STR_NULL, namespaces), STR_NULL,
			     str_of(req->ns)))
		return err_set(err, ERR_NOT_FOUND, 404, "namespaces \"%s\" not found", req->ns);
	return 0;
}

static int check_name(struct draft *d, struct err *err)
{
	struct err why;

	if (kube_check_name("Invalid value: the name", kube_name(jmut_view(d->root)), true, &why) <
	    0)
		return refuse_field(d, "metadata.name", why.msg, err);
	return 0;
}

/* Comes last: an object that is wrong is refused for that, whether there is one of its name or not.
 */
static int check_new(const struct draft *d, struct err *err)
{
	struct str name = kube_name(jmut_view(d->root));
	char z[128];

	if (sim_objects_get(d->req->api->objects, d->req->resource, str_of(d->req->ns), name))
		return err_set(err, ERR_EXISTS, 409, "%s \"%.*s\" already exists",
			       qualified(d->req->resource, z), STR_ARG(name));
	return 0;
}

/* ---- create ---- */

/* Clients may send YAML too, as the real API server takes it. */
static int parse_yaml(struct str text, struct json_doc **ret, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;
	struct buf json = BUF_INIT(YAML_MAX_BYTES);
	int result;

	if (yaml_parse("the body", text, &yaml, err) < 0)
		return -1;
	if (yaml_len(yaml) != 1)
		return err_set(err, ERR_INVALID, 0, "one document is wanted, not %zu",
			       yaml_len(yaml));
	result = json_write(yaml_doc(yaml, 0), JSON_COMPACT, &json, err);
	if (result == 0)
		result = json_parse(buf_str(&json), ret, err);
	buf_done(&json);
	return result;
}

static int parse_body(struct sim_request *req, struct json_doc **ret, struct err *err)
{
	struct str type = http_headers_get(req->ex->headers, "Content-Type"), rest;
	bool yaml;

	str_cut(type, ';', &type, &rest);
	yaml = str_eqz(type, "application/yaml");
	if (type.len && !yaml && !str_has_suffix(type, STR("json")))
		return err_set(err, ERR_UNSUPPORTED, 415,
			       "the body of the request was in an unknown format - accepted media "
			       "types include: application/json, application/yaml");
	if ((yaml ? parse_yaml(req->ex->body, ret, err) : json_parse(req->ex->body, ret, err)) <
	    0) {
		err->code = 400;
		return yaml ? -1 : err_wrap(err, "the body");
	}
	return 0;
}

static int make_new(struct draft *d, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;
	const struct sim_resource *r = d->req->resource;

	if (parse_body(d->req, &body, err) < 0)
		return -1;
	d->root = jmut_copy(d->doc, json_root(body));
	if (check_type(d, err) < 0 || check_place(d, err) < 0)
		return -1;
	generate_name(d->doc, jmut_get(d->root, "metadata"));
	if (check_name(d, err) < 0)
		return -1;
	if (r->has_status)
		jmut_del(d->root, "status");
	if (is_kind(r, "Pod"))
		sim_pod_default(d->doc, d->root);
	return check_kind(d, NULL, err) < 0 ? -1 : check_new(d, err);
}

struct sim_object *sim_api_create(struct sim_api *api, const struct sim_resource *r,
				  struct jmut_doc *doc, struct jmut *root)
{
	set_new_metadata(r, doc, jmut_need_object(doc, root, "metadata"));
	if (is_kind(r, "CustomResourceDefinition"))
		sim_custom_add(jmut_view(root));
	return sim_objects_put(api->objects, r, doc, root);
}

/* What is answered and not kept. */
static void create_nothing(struct draft *d)
{
	static const char protobuf[] = "application/vnd.kubernetes.protobuf";
	CLEANUP_JSON struct json_doc *body = NULL;
	struct sim_request *req = d->req;
	struct err err;
	bool asks = req->subresource[0];

	if (asks && str_eqz(http_headers_get(req->ex->headers, "Content-Type"), protobuf)) {
		if (sim_token_request_decode(req->ex->body, d->doc, &d->root, &err) < 0)
			sim_reply_err(req, d->doc, &err, NULL);
		else
			sim_token_request(req, d->doc, jmut_view(d->root));
		return;
	}
	if (req->ex->body.len && parse_body(req, &body, &err) < 0) {
		sim_reply_err(req, d->doc, &err, NULL);
		return;
	}
	d->root = jmut_copy(d->doc, json_root(body));
	if (!asks && check_type(d, &err) < 0)
		sim_reply_err(req, d->doc, &err, NULL);
	else if (asks)
		sim_token_request(req, d->doc, json_root(body));
	else
		sim_review(req, d->doc, json_root(body));
}

static void create(struct draft *d)
{
	struct sim_request *req = d->req;
	struct err err;

	if (req->resource->create_only || req->subresource[0]) {
		create_nothing(d);
		return;
	}
	if (make_new(d, &err) < 0) {
		free(req->name); /* empty so far; a Status names what it's about */
		req->name = str_dup(kube_name(jmut_view(d->root)));
		sim_reply_err(req, d->doc, &err, d->causes);
	} else if (req->dry_run) {
		set_new_metadata(req->resource, d->doc, jmut_get(d->root, "metadata"));
		sim_reply(req, 201, d->root);
	} else {
		sim_reply_object(req, 201,
				 sim_api_create(req->api, req->resource, d->doc, d->root));
	}
}

/* ---- removal ---- */

static bool has_finalizers(const struct json *o)
{
	return json_len(json_at(o, "metadata", "finalizers", NULL)) > 0;
}

/* Objects that named the removed one as an owner, and have no other, go too. */
static void collect_garbage(struct sim_api *api, const char *owner_uid)
{
	for (const struct sim_resource *r = sim_resources; r->plural; r++) {
		size_t n;
		struct sim_object **all = sim_objects_list(api->objects, r, STR_NULL, &n);

		for (size_t i = 0; i < n; i++)
			sim_object_ref(all[i]);
		for (size_t i = 0; i < n; i++) {
			const struct json *o = sim_object_json(all[i]);

			if (kube_is_owned_by(o, str_of(owner_uid)) &&
			    json_len(json_at(o, "metadata", "ownerReferences", NULL)) == 1)
				sim_api_delete(api, all[i], -1);
			sim_object_unref(all[i]);
		}
		free(all);
	}
}

/* The object as it is stored now; NULL when it has been replaced or removed meanwhile. */
static struct sim_object *still_there(struct sim_api *api, const struct sim_object *o)
{
	struct sim_object *now = sim_objects_get(api->objects, o->resource, str_of(o->ns),
						 str_of(o->name));

	return now && strcmp(now->uid, o->uid) == 0 ? now : NULL;
}

void sim_api_delete_now(struct sim_api *api, struct sim_object *o)
{
	struct sim_object *now = still_there(api, o);
	CLEANUP_FREE char *uid = xstrdup(o->uid);

	if (!now)
		return;
	if (has_finalizers(sim_object_json(now))) {
		sim_api_mark_deleted(api, now, 0);
		return;
	}
	if (is_kind(now->resource, "CustomResourceDefinition"))
		sim_custom_remove(api, sim_object_json(now));
	sim_objects_remove(api->objects, now);
	collect_garbage(api, uid);
}

void sim_api_mark_deleted(struct sim_api *api, struct sim_object *o, int64_t grace_s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, sim_object_json(o));
	struct jmut *meta = jmut_get(root, "metadata");

	if (jmut_get(meta, "deletionTimestamp"))
		return;
	set_time(doc, meta, "deletionTimestamp", clock_wall_ms() + grace_s * 1000);
	jmut_set_int(doc, meta, "deletionGracePeriodSeconds", grace_s);
	sim_objects_put(api->objects, o->resource, doc, root);
}

/* A Pod's grace period: what was asked for, else the Pod's own; none for one that runs nowhere. */
static int64_t grace_of(const struct json *pod, int64_t asked_s)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	if (!json_str(json_at(pod, "spec", "nodeName", NULL)).len || str_eqz(phase, "Succeeded") ||
	    str_eqz(phase, "Failed"))
		return 0;
	return asked_s >= 0 ? asked_s
			    : json_int(json_at(pod, "spec", "terminationGracePeriodSeconds", NULL),
				       SIM_POD_GRACE_S);
}

void sim_api_delete(struct sim_api *api, struct sim_object *o, int64_t asked_s)
{
	int64_t grace_s = is_kind(o->resource, "Pod") ? grace_of(sim_object_json(o), asked_s) : 0;

	if (grace_s > 0)
		sim_api_mark_deleted(api, o, grace_s);
	else
		sim_api_delete_now(api, o);
}

/* ---- delete ---- */

static int check_preconditions(const struct sim_request *req, const struct json *options,
			       const struct sim_object *o, struct err *err)
{
	struct str uid = json_str(json_at(options, "preconditions", "uid", NULL));
	struct str version = json_str(json_at(options, "preconditions", "resourceVersion", NULL));
	char z[128];

	if (uid.len && !str_eqz(uid, o->uid))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the UID in the "
			       "precondition (%.*s) does not match the UID in record (%s)",
			       qualified(req->resource, z), o->name, STR_ARG(uid), o->uid);
	if (version.len && !str_eq(version, kube_version(sim_object_json(o))))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the ResourceVersion in "
			       "the precondition (%.*s) does not match the one in record",
			       qualified(req->resource, z), o->name, STR_ARG(version));
	return 0;
}

static void reply_deleted(struct sim_request *req, struct jmut_doc *doc, const char *uid)
{
	struct jmut *root = jmut_object(doc), *details = jmut_object(doc);

	jmut_set_str(doc, root, "kind", "Status");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "metadata", jmut_object(doc));
	jmut_set_str(doc, root, "status", "Success");
	jmut_set_str(doc, details, "name", req->name);
	jmut_set_str(doc, details, "group", req->resource->group);
	jmut_set_str(doc, details, "kind", req->resource->plural);
	jmut_set_str(doc, details, "uid", uid);
	jmut_set(doc, root, "details", details);
	sim_reply(req, 200, root);
}

static void delete_one(struct draft *d, const struct json *options)
{
	struct sim_request *req = d->req;
	struct sim_object *o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
					       str_of(req->name));
	struct sim_object *now;
	struct err err;
	char z[128];

	if (!o) {
		err_set(&err, ERR_NOT_FOUND, 404, "%s \"%s\" not found",
			qualified(req->resource, z), req->name);
		sim_reply_err(req, d->doc, &err, NULL);
		return;
	}
	if (check_preconditions(req, options, o, &err) < 0) {
		sim_reply_err(req, d->doc, &err, NULL);
		return;
	}
	sim_object_ref(o);
	if (!req->dry_run)
		sim_api_delete(req->api, o,
			       json_int(json_get(options, "gracePeriodSeconds"), req->grace_s));
	now = still_there(req->api, o);
	if (now || is_kind(req->resource, "Pod"))
		sim_reply_object(req, 200, now ? now : o);
	else
		reply_deleted(req, d->doc, o->uid);
	sim_object_unref(o);
}

static void delete_many(struct draft *d, const struct json *options)
{
	struct sim_request *req = d->req;
	struct sim_selector *selector;
	struct sim_object **all;
	struct err err;
	size_t n;

	if (sim_selector_parse(str_of(req->labels), str_of(req->fields), &selector, &err) < 0) {
		sim_reply_err(req, d->doc, &err, NULL);
		return;
	}
	all = sim_objects_list(req->api->objects, req->resource, str_of(req->ns), &n);
	for (size_t i = 0; i < n; i++)
		sim_object_ref(all[i]);
	for (size_t i = 0; i < n; i++) {
		if (sim_selector_matches(selector, sim_object_json(all[i])) && !req->dry_run)
			sim_api_delete(
				req->api, all[i],
				json_int(json_get(options, "gracePeriodSeconds"), req->grace_s));
		sim_object_unref(all[i]);
	}
	free(all);
	sim_selector_free(selector);
	reply_deleted(req, d->doc, "");
}

static void delete(struct draft *d)
{
	CLEANUP_JSON struct json_doc *body = NULL;
	struct err err;

	if (d->req->ex->body.len && parse_body(d->req, &body, &err) < 0)
		sim_reply_err(d->req, d->doc, &err, NULL);
	else if (d->req->verb == SIM_DELETE)
		delete_one(d, json_root(body));
	else
		delete_many(d, json_root(body));
}

/* ---- update and patch ---- */

/* What no client changes: taken from the object as it is. */
static void keep_metadata(struct draft *d, const struct json *old)
{
	static const char *const kept[] = {"name",
					   "namespace",
					   "uid",
					   "generation",
					   "creationTimestamp",
					   "deletionTimestamp",
					   "deletionGracePeriodSeconds"};
	struct jmut *meta = jmut_need_object(d->doc, d->root, "metadata");
	const struct json *from = json_get(old, "metadata");

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (json_get(from, kept[i]))
			jmut_set(d->doc, meta, kept[i], jmut_copy(d->doc, json_get(from, kept[i])));
		else
			jmut_del(meta, kept[i]);
	}
	jmut_del(meta, "managedFields");
}

/* One member of the new tree is the old object's. */
static void keep_member(struct draft *d, const struct json *old, const char *key)
{
	if (json_get(old, key))
		jmut_set(d->doc, d->root, key, jmut_copy(d->doc, json_get(old, key)));
	else
		jmut_del(d->root, key);
}

static int check_versions(const struct draft *d, const struct json *old, struct err *err)
{
	const struct json *o = jmut_view(d->root);
	struct str version = kube_version(o), uid = kube_uid(o);
	char z[128];

	if (uid.len && !str_eq(uid, kube_uid(old)))
		return err_set(
			err, ERR_CONFLICT, 409,
			"Operation cannot be fulfilled on %s \"%s\": Precondition failed: UID "
			"in precondition: %.*s, UID in object meta: %.*s",
			qualified(d->req->resource, z), d->req->name, STR_ARG(uid),
			STR_ARG(kube_uid(old)));
	if (version.len && !str_eq(version, kube_version(old)))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the object has been "
			       "modified; please apply your changes to the latest version and try "
			       "again",
			       qualified(d->req->resource, z), d->req->name);
	return 0;
}

static void bump_generation(struct draft *d, const struct json *old)
{
	struct jmut *meta = jmut_get(d->root, "metadata");
	bool webhooks = sim_is_webhook_config(d->req->resource);
	const char *counted = webhooks ? "webhooks" : "spec";

	if ((!webhooks && !is_kind(d->req->resource, "IPUJob")) ||
	    json_equal(json_get(jmut_view(d->root), counted), json_get(old, counted)))
		return;
	jmut_set_int(d->doc, meta, "generation", kube_generation(old) + 1);
}

static int replace_parts(struct draft *d, const struct json *old, struct err *err)
{
	const char *sub = d->req->subresource;

	if (check_versions(d, old, err) < 0)
		return -1;
	keep_metadata(d, old);
	if (strcmp(sub, "status") == 0) {
		struct jmut *status = jmut_get(d->root, "status"), *whole = jmut_copy(d->doc, old);

		if (status)
			jmut_set(d->doc, whole, "status", jmut_clone(d->doc, status));
		else
			jmut_del(whole, "status");
		d->root = whole;
	} else if (d->req->resource->has_status) {
		keep_member(d, old, "status");
	}
	if (check_kind(d, old, err) < 0)
		return -1;
	bump_generation(d, old);
	return 0;
}

static void store(struct draft *d, struct sim_object *old)
{
	struct sim_request *req = d->req;
	struct jmut *meta = jmut_get(d->root, "metadata");
	bool leaves = jmut_get(meta, "deletionTimestamp") && !has_finalizers(jmut_view(d->root)) &&
		      !is_kind(req->resource, "Pod");
	struct sim_object *o = old;

	jmut_set(d->doc, meta, "resourceVersion",
		 jmut_str(d->doc, kube_version(sim_object_json(old))));
	if (req->dry_run) {
		sim_reply(req, 200, d->root);
		return;
	}
	/* A write that changes nothing makes no new version. */
	if (!json_equal(jmut_view(d->root), sim_object_json(old)))
		o = sim_objects_put(req->api->objects, req->resource, d->doc, d->root);
	sim_object_ref(o);
	if (leaves)
		sim_api_delete_now(req->api, o);
	if (strcmp(req->subresource, "scale") == 0)
		sim_reply_scale(req, o);
	else
		sim_reply_object(req, 200, o);
	sim_object_unref(o);
}

static int apply_patch(struct draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *patch = NULL;
	struct str type = http_headers_get(d->req->ex->headers, "Content-Type"), rest;

	str_cut(type, ';', &type, &rest);
	if (parse_body(d->req, &patch, err) < 0)
		return -1;
	d->root = jmut_copy(d->doc, old);
	if (str_eqz(type, "application/merge-patch+json") ||
	    (str_eqz(type, "application/strategic-merge-patch+json") &&
	     sim_patch_is_plain(json_root(patch)))) {
		d->root = jmut_merge_patch(d->doc, d->root, json_root(patch));
		return 0;
	}
	if (str_eqz(type, "application/json-patch+json")) {
		if (sim_json_patch(d->doc, &d->root, json_root(patch), err) < 0) {
			err->code = 422;
			return -1;
		}
		return 0;
	}
	return err_set(err, ERR_UNSUPPORTED, 415,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json-patch+json, application/merge-patch+json (and "
		       "application/strategic-merge-patch+json without lists)");
}

/* The replicas that a body for the scale subresource asks for, into the job's own field. */
static int apply_scale(struct draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;
	const struct json *replicas;
	struct jmut *spec;

	if (parse_body(d->req, &body, err) < 0)
		return -1;
	replicas = json_at(json_root(body), "spec", "replicas", NULL);
	d->root = jmut_copy(d->doc, old);
	spec = jmut_need_object(d->doc, d->root, "spec");
	jmut_set_int(d->doc, spec, "jobInstances", json_int(replicas, 0));
	jmut_del(jmut_get(d->root, "metadata"), "resourceVersion");
	return 0;
}

static int make_changed(struct draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;

	if (strcmp(d->req->subresource, "scale") == 0) {
		if (apply_scale(d, old, err) < 0)
			return -1;
	} else if (d->req->verb == SIM_PATCH) {
		if (apply_patch(d, old, err) < 0)
			return -1;
	} else {
		if (parse_body(d->req, &body, err) < 0)
			return -1;
		d->root = jmut_copy(d->doc, json_root(body));
		if (check_type(d, err) < 0)
			return -1;
	}
	if (json_type(jmut_view(d->root)) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 400, "the result must be an object");
	return replace_parts(d, old, err);
}

static void change(struct draft *d)
{
	struct sim_request *req = d->req;
	struct sim_object *old = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
						 str_of(req->name));
	struct err err;
	char z[128];

	if (!old) {
		err_set(&err, ERR_NOT_FOUND, 404, "%s \"%s\" not found",
			qualified(req->resource, z), req->name);
		sim_reply_err(req, d->doc, &err, NULL);
	} else if (make_changed(d, sim_object_json(old), &err) < 0) {
		sim_reply_err(req, d->doc, &err, d->causes);
	} else {
		store(d, old);
	}
}

void sim_write(struct sim_request *req)
{
	struct draft d = {.req = req, .doc = jmut_doc_new(), .unknown = BUF_INIT(16384)};

	if (req->verb == SIM_CREATE)
		create(&d);
	else if (req->verb == SIM_DELETE || req->verb == SIM_DELETE_COLLECTION)
		delete (&d);
	else
		change(&d);
	buf_done(&d.unknown);
	jmut_doc_free(d.doc);
}
