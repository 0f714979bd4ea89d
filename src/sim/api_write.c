/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Create, update and patch as the API server does them: metadata that clients can't choose,
 * defaults and checks, preconditions, the status apart; webhooks are asked between (draft.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/draft.h"
#include "sim/jsonpatch.h"
#include "sim/pod_admit.h"
#include "sim/webhook.h"

#define MOST_TRIES 5 /* as often is an update begun again that was overtaken */

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

static void set_new_metadata(const struct sim_resource *r, struct jmut_doc *doc, struct jmut *meta)
{
	static const char *const not_the_clients[] = {"deletionTimestamp", "selfLink",
						      "deletionGracePeriodSeconds",
						      "resourceVersion", "managedFields"};

	for (size_t i = 0; i < sizeof(not_the_clients) / sizeof(not_the_clients[0]); i++)
		jmut_del(meta, not_the_clients[i]);
	set_uid(doc, meta);
	sim_set_time(doc, meta, "creationTimestamp", clock_wall_ms());
	if (sim_is_kind(r, "IPUJob") || sim_is_kind(r, "Pod") || sim_is_webhook_config(r))
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
	struct sim_draft *d = arg;

	if (buf_printf(&d->unknown, NULL, "%sunknown field \"%s\"", d->n_unknown ? ", " : "",
		       path) == 0)
		d->n_unknown++;
}

/* Refuses the object for one field, with the cause that kubectl shows. */
static int refuse_field(struct sim_draft *d, const char *field, const char *message,
			struct err *err)
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

static int check_webhooks(struct sim_draft *d, struct err *err)
{
	char field[SIM_FIELD_PATH];
	struct err why;

	if (sim_webhook_config_check(d->req->resource, d->doc, d->root, field, &why) < 0)
		return refuse_field(d, field, why.msg, err);
	return 0;
}

static int check_pod(struct sim_draft *d, const struct json *old, struct err *err)
{
	const struct json *pod = jmut_view(d->root);
	char field[SIM_POD_FIELD];
	struct err why;

	if (old && d->req->subresource[0])
		return 0;
	if (sim_pod_check(pod, old, field, &why) < 0)
		return refuse_field(d, field, why.msg, err);
	return 0;
}

/* Defaults, and for what has a schema nothing else than it knows: as the object comes, and again
 * after a webhook's patch. */
static void settle(struct sim_draft *d)
{
	const struct sim_resource *r = d->req->resource;
	struct jmut *meta = jmut_need_object(d->doc, d->root, "metadata");

	if (sim_is_kind(r, "Pod")) {
		sim_pod_default(d->doc, d->root);
	} else if (sim_is_kind(r, "Namespace") && meta) {
		jmut_set(d->doc, jmut_need_object(d->doc, meta, "labels"),
			 "kubernetes.io/metadata.name",
			 jmut_str(d->doc, kube_name(jmut_view(d->root))));
	} else if (sim_is_kind(r, "IPUJob")) {
		sim_schema_prune(d->req->api->schema, d->root, note_unknown, d);
		sim_schema_default(d->req->api->schema, d->doc, d->root);
	}
}

static int check_strict(const struct sim_draft *d, struct err *err)
{
	if (strcmp(d->req->field_validation, "Strict") == 0 && d->n_unknown)
		return err_set(err, ERR_INVALID, 400, "strict decoding error: %.*s",
			       STR_ARG(buf_str(&d->unknown)));
	return 0;
}

/* What the schema and the rules of the kind say of a whole object; old: the one that is written
 * over, NULL: none. A spec that was stored before a rule existed, and isn't changed, is let be
 * (Kubernetes 1.30: CRDValidationRatcheting). */
static int check_kind(struct sim_draft *d, const struct json *old, struct err *err)
{
	bool same_spec = old &&
			 json_equal(json_get(jmut_view(d->root), "spec"), json_get(old, "spec"));
	const struct sim_resource *r = d->req->resource;

	if (sim_is_kind(r, "Pod"))
		return check_pod(d, old, err);
	if (sim_is_webhook_config(r))
		return check_webhooks(d, err);
	if (!sim_is_kind(r, "IPUJob") || same_spec)
		return 0;
	return sim_schema_check(d->req->api->schema, old, jmut_view(d->root), d->doc, &d->causes,
				err);
}

static int check_type(const struct sim_draft *d, struct err *err)
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

static int check_place(struct sim_draft *d, struct err *err)
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

static int check_name(struct sim_draft *d, struct err *err)
{
	struct err why;

	if (kube_check_name("Invalid value: the name", kube_name(jmut_view(d->root)), true, &why) <
	    0)
		return refuse_field(d, "metadata.name", why.msg, err);
	return 0;
}

/* Comes last: an object that is wrong is refused for that, whether there is one of its name or not.
 */
static int check_new(const struct sim_draft *d, struct err *err)
{
	struct str name = kube_name(jmut_view(d->root));
	const struct sim_object *o = sim_objects_get(d->req->api->objects, d->req->resource,
						     str_of(d->req->ns), name);
	char z[SIM_QUALIFIED];

	if (!o)
		return 0;
	return err_set(err, ERR_EXISTS, 409, "%s%s \"%.*s\" already exists",
		       kube_is_deleting(sim_object_json(o)) ? "object is being deleted: " : "",
		       sim_qualified(d->req->resource, z), STR_ARG(name));
}

/* ---- create ---- */

static int read_new(struct sim_draft *d, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;

	if (sim_parse_body(d->req, &body, err) < 0)
		return -1;
	d->root = jmut_copy(d->doc, json_root(body));
	if (check_type(d, err) < 0 || check_place(d, err) < 0)
		return -1;
	if (d->req->resource->has_status)
		jmut_del(d->root, "status");
	settle(d);
	return check_strict(d, err);
}

/* What webhooks have made of it, made whole. */
static int complete_new(struct sim_draft *d, struct err *err)
{
	const struct sim_resource *r = d->req->resource;

	if (check_place(d, err) < 0)
		return -1;
	generate_name(d->doc, jmut_get(d->root, "metadata"));
	if (check_name(d, err) < 0)
		return -1;
	if (r->has_status)
		jmut_del(d->root, "status");
	settle(d);
	if (sim_is_kind(r, "Pod"))
		sim_pod_begin(d->doc, d->root);
	set_new_metadata(r, d->doc, jmut_get(d->root, "metadata"));
	return check_kind(d, NULL, err);
}

static struct sim_object *put_new(struct sim_api *api, const struct sim_resource *r,
				  struct jmut_doc *doc, struct jmut *root)
{
	if (sim_is_kind(r, "CustomResourceDefinition"))
		sim_custom_add(doc, root);
	return sim_objects_put(api->objects, r, doc, root);
}

struct sim_object *sim_api_create(struct sim_api *api, const struct sim_resource *r,
				  struct jmut_doc *doc, struct jmut *root)
{
	set_new_metadata(r, doc, jmut_need_object(doc, root, "metadata"));
	return put_new(api, r, doc, root);
}

/* What is answered and not kept. */
static void create_nothing(struct sim_draft *d)
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
	if (req->ex->body.len && sim_parse_body(req, &body, &err) < 0) {
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

/* A Status names what it's about. */
static void fail_new(struct sim_draft *d, const struct err *err)
{
	free(d->req->name);
	d->req->name = str_dup(kube_name(jmut_view(d->root)));
	sim_draft_fail(d, err);
}

static void on_new_admitted(struct sim_draft *d)
{
	struct sim_request *req = d->req;
	struct err err;

	if (check_new(d, &err) < 0) {
		fail_new(d, &err);
		return;
	}
	if (req->dry_run)
		sim_reply(req, 201, d->root);
	else
		sim_reply_object(req, 201, put_new(req->api, req->resource, d->doc, d->root));
	sim_draft_end(d);
}

/* True: the namespace's Pod Security level doesn't take the Pod, which was the answer. */
static bool is_insecure(struct sim_draft *d)
{
	struct sim_request *req = d->req;
	const struct sim_object *ns = sim_objects_get(
		req->api->objects, sim_resource_find(STR_NULL, STR("namespaces")), STR_NULL,
		str_of(req->ns));
	struct buf why = BUF_INIT(16384);
	bool insecure = ns && sim_is_kind(req->resource, "Pod") &&
			!sim_pod_is_secure(jmut_view(d->root), sim_object_json(ns), &why);

	if (insecure) {
		CLEANUP_FREE char *text = str_dup(buf_str(&why));

		free(req->name);
		req->name = str_dup(kube_name(jmut_view(d->root)));
		sim_reply(req, 403, sim_status_forbidden(d->doc, req, text));
		sim_draft_end(d);
	}
	buf_done(&why);
	return insecure;
}

static void on_new_mutated(struct sim_draft *d)
{
	struct err err;

	if (complete_new(d, &err) < 0)
		fail_new(d, &err);
	else if (!is_insecure(d))
		sim_draft_ask(d, SIM_VALIDATING, "CREATE", NULL, on_new_admitted);
}

static void create(struct sim_draft *d)
{
	struct sim_request *req = d->req;
	struct err err;

	if (req->resource->create_only || req->subresource[0]) {
		create_nothing(d);
		sim_draft_end(d);
		return;
	}
	if (read_new(d, &err) < 0) {
		fail_new(d, &err);
		return;
	}
	free(req->name); /* empty so far */
	req->name = str_dup(kube_name(jmut_view(d->root)));
	sim_draft_ask(d, SIM_MUTATING, "CREATE", settle, on_new_mutated);
}

/* ---- update and patch ---- */

/* What no client changes: taken from the object as it is. */
static void keep_metadata(struct sim_draft *d, const struct json *old)
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
static void keep_member(struct sim_draft *d, const struct json *old, const char *key)
{
	if (json_get(old, key))
		jmut_set(d->doc, d->root, key, jmut_copy(d->doc, json_get(old, key)));
	else
		jmut_del(d->root, key);
}

/* A PUT's UID is a precondition; a patch's is what an object can't be given, unless it's the status
 * of a custom resource, whose metadata nobody looks at. */
static int check_uid(struct sim_draft *d, const struct json *old, struct err *err)
{
	const struct sim_resource *r = d->req->resource;
	struct str uid = kube_uid(jmut_view(d->root));
	CLEANUP_FREE char *words = NULL;
	char z[SIM_QUALIFIED];

	if (!uid.len || str_eq(uid, kube_uid(old)))
		return 0;
	if (d->req->verb != SIM_PATCH)
		return err_set(
			err, ERR_CONFLICT, 409,
			"Operation cannot be fulfilled on %s \"%s\": Precondition failed: UID "
			"in precondition: %.*s, UID in object meta: %.*s",
			sim_qualified(r, z), d->req->name, STR_ARG(uid), STR_ARG(kube_uid(old)));
	if (r->group[0] && strcmp(d->req->subresource, "status") == 0)
		return 0;
	words = xasprintf("Invalid value: \"%.*s\": field is immutable", STR_ARG(uid));
	return refuse_field(d, "metadata.uid", words, err);
}

static int check_version(const struct sim_draft *d, const struct json *old, struct err *err)
{
	struct str version = kube_version(jmut_view(d->root));
	char z[SIM_QUALIFIED];

	if (version.len && !str_eq(version, kube_version(old)))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the object has been "
			       "modified; please apply your changes to the latest version and try "
			       "again",
			       sim_qualified(d->req->resource, z), d->req->name);
	return 0;
}

static int check_identity(struct sim_draft *d, const struct json *old, struct err *err)
{
	if (d->req->verb == SIM_PATCH)
		return check_version(d, old, err) < 0 ? -1 : check_uid(d, old, err);
	return check_uid(d, old, err) < 0 ? -1 : check_version(d, old, err);
}

static void bump_generation(struct sim_draft *d, const struct json *old)
{
	struct jmut *meta = jmut_get(d->root, "metadata");
	bool webhooks = sim_is_webhook_config(d->req->resource);
	const char *counted = webhooks ? "webhooks" : "spec";

	if ((!webhooks && !sim_is_kind(d->req->resource, "IPUJob")) ||
	    json_equal(json_get(jmut_view(d->root), counted), json_get(old, counted)))
		return;
	jmut_set_int(d->doc, meta, "generation", kube_generation(old) + 1);
}

static int replace_parts(struct sim_draft *d, const struct json *old, struct err *err)
{
	const char *sub = d->req->subresource;

	if (check_identity(d, old, err) < 0)
		return -1;
	keep_metadata(d, old);
	if (strcmp(sub, "status") == 0 && sim_is_kind(d->req->resource, "Node")) {
		keep_member(d, old, "spec"); /* its metadata is a kubelet's to change, too */
	} else if (strcmp(sub, "status") == 0) {
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

static void store(struct sim_draft *d)
{
	struct sim_object *old = d->old;
	struct sim_request *req = d->req;
	struct jmut *meta = jmut_get(d->root, "metadata");
	bool leaves = jmut_get(meta, "deletionTimestamp") &&
		      !sim_has_finalizers(jmut_view(d->root)) && !sim_is_kind(req->resource, "Pod");
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

static int apply_patch(struct sim_draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *patch = NULL;
	struct str type = http_headers_get(d->req->ex->headers, "Content-Type"), rest;

	str_cut(type, ';', &type, &rest);
	if (sim_parse_body(d->req, &patch, err) < 0)
		return -1;
	d->root = jmut_copy(d->doc, old);
	if (str_eqz(type, "application/merge-patch+json")) {
		d->root = jmut_merge_patch(d->doc, d->root, json_root(patch));
		return 0;
	}
	if (str_eqz(type, "application/strategic-merge-patch+json") &&
	    !sim_is_kind(d->req->resource, "IPUJob"))
		return sim_strategic_patch(d->doc, d->root, json_root(patch), err);
	if (str_eqz(type, "application/json-patch+json")) {
		if (sim_json_patch(d->doc, &d->root, json_root(patch), err) < 0) {
			err->code = 422;
			return -1;
		}
		return 0;
	}
	return err_set(err, ERR_UNSUPPORTED, 415,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json-patch+json, application/merge-patch+json, "
		       "application/strategic-merge-patch+json of built-in kinds");
}

/* The replicas that a body for the scale subresource asks for, into the job's own field. */
static int apply_scale(struct sim_draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;
	const struct json *replicas;
	struct jmut *spec;

	if (sim_parse_body(d->req, &body, err) < 0)
		return -1;
	replicas = json_at(json_root(body), "spec", "replicas", NULL);
	d->root = jmut_copy(d->doc, old);
	spec = jmut_need_object(d->doc, d->root, "spec");
	jmut_set_int(d->doc, spec, "jobInstances", json_int(replicas, 0));
	jmut_del(jmut_get(d->root, "metadata"), "resourceVersion");
	return 0;
}

static int make_changed(struct sim_draft *d, const struct json *old, struct err *err)
{
	CLEANUP_JSON struct json_doc *body = NULL;

	if (strcmp(d->req->subresource, "scale") == 0) {
		if (apply_scale(d, old, err) < 0)
			return -1;
	} else if (d->req->verb == SIM_PATCH) {
		if (apply_patch(d, old, err) < 0)
			return -1;
	} else {
		if (sim_parse_body(d->req, &body, err) < 0)
			return -1;
		d->root = jmut_copy(d->doc, json_root(body));
		if (check_type(d, err) < 0)
			return -1;
	}
	if (json_type(jmut_view(d->root)) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 400, "the result must be an object");
	settle(d);
	return check_strict(d, err);
}

static void change(struct sim_draft *d);

/* Somebody else was faster while webhooks were asked: once more, from what is there now. */
static bool was_overtaken(struct sim_draft *d)
{
	const struct sim_object *now = sim_objects_get(d->req->api->objects, d->req->resource,
						       str_of(d->req->ns), str_of(d->req->name));

	return now != d->old && d->tries < MOST_TRIES;
}

static void on_change_admitted(struct sim_draft *d)
{
	if (was_overtaken(d)) {
		d->tries++;
		sim_draft_restart(d);
		change(d);
		return;
	}
	store(d);
	sim_draft_end(d);
}

static void on_change_mutated(struct sim_draft *d)
{
	struct err err;

	if (replace_parts(d, sim_object_json(d->old), &err) < 0)
		sim_draft_fail(d, &err);
	else
		sim_draft_ask(d, SIM_VALIDATING, "UPDATE", NULL, on_change_admitted);
}

static void change(struct sim_draft *d)
{
	struct sim_request *req = d->req;
	struct sim_object *old = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
						 str_of(req->name));
	char z[SIM_QUALIFIED];
	struct err err;

	if (!old) {
		err_set(&err, ERR_NOT_FOUND, 404, "%s \"%s\" not found",
			sim_qualified(req->resource, z), req->name);
		sim_draft_fail(d, &err);
		return;
	}
	d->old = sim_object_ref(old);
	if (make_changed(d, sim_object_json(old), &err) < 0)
		sim_draft_fail(d, &err);
	else
		sim_draft_ask(d, SIM_MUTATING, "UPDATE", settle, on_change_mutated);
}

void sim_write(struct sim_request *req)
{
	struct sim_draft *d = sim_draft_new(req);

	if (req->verb == SIM_CREATE)
		create(d);
	else if (req->verb == SIM_DELETE || req->verb == SIM_DELETE_COLLECTION)
		sim_remove(d);
	else
		change(d);
}
