/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removal as the API server does it: preconditions, finalizers, grace periods, and what goes with
 * its owner; webhooks are asked before (draft.h).
 */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/draft.h"
#include "sim/pod_admit.h"

/* ---- removal ---- */

/* Objects that named the removed one as an owner, and have no other, go too. */
static void collect_garbage(struct sim_api *api, const char *owner_uid)
{
	size_t n;
	struct sim_object **all = sim_objects_owned(api->objects, str_of(owner_uid), &n);

	for (size_t i = 0; i < n; i++)
		sim_object_ref(all[i]);
	for (size_t i = 0; i < n; i++) {
		const struct json *o = sim_object_json(all[i]);

		if (json_len(json_at(o, "metadata", "ownerReferences", NULL)) == 1)
			sim_api_delete(api, all[i], -1);
		sim_object_unref(all[i]);
	}
	free(all);
}

/* The object as it is stored now; NULL when it has been replaced or removed meanwhile. */
static struct sim_object *still_there(struct sim_api *api, const struct sim_object *o)
{
	struct sim_object *now = sim_objects_get(api->objects, o->resource, str_of(o->ns),
						 str_of(o->name));

	return now && strcmp(now->uid, o->uid) == 0 ? now : NULL;
}

static void mark_deleted(struct sim_api *api, struct sim_object *o, int64_t grace_s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, sim_object_json(o));
	struct jmut *meta = jmut_get(root, "metadata");

	if (jmut_get(meta, "deletionTimestamp"))
		return;
	sim_set_time(doc, meta, "deletionTimestamp", clock_wall_ms() + grace_s * 1000);
	jmut_set_int(doc, meta, "deletionGracePeriodSeconds", grace_s);
	sim_objects_put(api->objects, o->resource, doc, root);
}

void sim_api_delete_now(struct sim_api *api, struct sim_object *o)
{
	struct sim_object *now = still_there(api, o);
	CLEANUP_FREE char *uid = xstrdup(o->uid);

	if (!now)
		return;
	if (sim_has_finalizers(sim_object_json(now))) {
		mark_deleted(api, now, 0);
		return;
	}
	if (sim_is_kind(now->resource, "CustomResourceDefinition"))
		sim_custom_remove(api, sim_object_json(now));
	sim_objects_remove(api->objects, now);
	collect_garbage(api, uid);
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
	int64_t grace_s = sim_is_kind(o->resource, "Pod") ? grace_of(sim_object_json(o), asked_s)
							  : 0;

	if (grace_s > 0)
		mark_deleted(api, o, grace_s);
	else
		sim_api_delete_now(api, o);
}

/* ---- delete ---- */

static int check_preconditions(const struct sim_request *req, const struct json *options,
			       const struct sim_object *o, struct err *err)
{
	struct str uid = json_str(json_at(options, "preconditions", "uid", NULL));
	struct str version = json_str(json_at(options, "preconditions", "resourceVersion", NULL));
	char z[SIM_QUALIFIED];

	if (uid.len && !str_eqz(uid, o->uid))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the UID in the "
			       "precondition (%.*s) does not match the UID in record (%s)",
			       sim_qualified(req->resource, z), o->name, STR_ARG(uid), o->uid);
	if (version.len && !str_eq(version, kube_version(sim_object_json(o))))
		return err_set(err, ERR_CONFLICT, 409,
			       "Operation cannot be fulfilled on %s \"%s\": the ResourceVersion in "
			       "the precondition (%.*s) does not match the one in record",
			       sim_qualified(req->resource, z), o->name, STR_ARG(version));
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

/* NULL: err says why not. */
static struct sim_object *find_doomed(struct sim_draft *d, struct err *err)
{
	struct sim_request *req = d->req;
	struct sim_object *o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
					       str_of(req->name));
	char z[SIM_QUALIFIED];

	if (!o) {
		err_set(err, ERR_NOT_FOUND, 404, "%s \"%s\" not found",
			sim_qualified(req->resource, z), req->name);
		return NULL;
	}
	return check_preconditions(req, json_root(d->options), o, err) < 0 ? NULL : o;
}

static void on_admitted(struct sim_draft *d)
{
	struct sim_request *req = d->req;
	struct sim_object *o, *now;
	struct err err;

	o = find_doomed(d, &err);
	if (!o) {
		sim_draft_fail(d, &err);
		return;
	}
	sim_object_ref(o);
	if (!req->dry_run)
		sim_api_delete(req->api, o,
			       json_int(json_get(json_root(d->options), "gracePeriodSeconds"),
					req->grace_s));
	now = still_there(req->api, o);
	if (now || sim_is_kind(req->resource, "Pod"))
		sim_reply_object(req, 200, now ? now : o);
	else
		reply_deleted(req, d->doc, o->uid);
	sim_object_unref(o);
	sim_draft_end(d);
}

static void on_mutated(struct sim_draft *d)
{
	sim_draft_ask(d, SIM_VALIDATING, "DELETE", NULL, on_admitted);
}

static void delete_one(struct sim_draft *d)
{
	struct err err;
	struct sim_object *o = find_doomed(d, &err);

	if (!o) {
		sim_draft_fail(d, &err);
		return;
	}
	d->old = sim_object_ref(o);
	sim_draft_ask(d, SIM_MUTATING, "DELETE", NULL, on_mutated);
}

/* Each object would be a review of its own. */
static bool is_reviewed(struct sim_draft *d)
{
	struct sim_admission a = {.req = d->req, .operation = "DELETE", .root = &d->root};

	return sim_webhooks_want(d->req->api->webhooks, SIM_MUTATING, &a) ||
	       sim_webhooks_want(d->req->api->webhooks, SIM_VALIDATING, &a);
}

static int delete_many(struct sim_draft *d, struct err *err)
{
	struct sim_request *req = d->req;
	const struct json *grace = json_get(json_root(d->options), "gracePeriodSeconds");
	struct sim_selector *selector;
	struct sim_object **all;
	size_t n;

	if (is_reviewed(d))
		return err_set(err, ERR_UNSUPPORTED, 501,
			       "ipu-sim doesn't ask webhooks about the deletion of a collection");
	if (sim_selector_parse(str_of(req->labels), str_of(req->fields), &selector, err) < 0)
		return -1;
	all = sim_objects_list(req->api->objects, req->resource, str_of(req->ns), &n);
	for (size_t i = 0; i < n; i++)
		sim_object_ref(all[i]);
	for (size_t i = 0; i < n; i++) {
		if (sim_selector_matches(selector, sim_object_json(all[i])) && !req->dry_run)
			sim_api_delete(req->api, all[i], json_int(grace, req->grace_s));
		sim_object_unref(all[i]);
	}
	free(all);
	sim_selector_free(selector);
	reply_deleted(req, d->doc, "");
	return 0;
}

void sim_remove(struct sim_draft *d)
{
	struct err err;

	if (d->req->ex->body.len && sim_parse_body(d->req, &d->options, &err) < 0) {
		sim_draft_fail(d, &err);
	} else if (d->req->verb == SIM_DELETE) {
		delete_one(d);
	} else if (delete_many(d, &err) < 0) {
		sim_draft_fail(d, &err);
	} else {
		sim_draft_end(d);
	}
}
