/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pods/eviction (Kubernetes: API-initiated Eviction): a deletion that says why in the Pod's
 * conditions. There are no disruption budgets here, so it's never refused.
 */
#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/kubelet_impl.h"

static struct sim_object *tell_why(struct sim_request *req, struct jmut_doc *doc,
				   struct sim_object *o)
{
	struct jmut *root = jmut_copy(doc, sim_object_json(o));

	pod_status_disrupted(doc, root, "EvictionByEvictionAPI", "Eviction API: evicting");
	return sim_objects_put(req->api->objects, req->resource, doc, root);
}

static void reply_evicted(struct sim_request *req, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc);

	jmut_set_str(doc, root, "kind", "Status");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "metadata", jmut_object(doc));
	jmut_set_str(doc, root, "status", "Success");
	jmut_set_int(doc, root, "code", 201);
	sim_reply(req, 201, root);
}

void sim_evict(struct sim_request *req)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *body = NULL;
	struct sim_object *o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
					       str_of(req->name));
	const struct json *grace;
	struct err err;

	if (!o) {
		err_set(&err, ERR_NOT_FOUND, 404, "pods \"%s\" not found", req->name);
		sim_reply_err(req, doc, &err, NULL);
		return;
	}
	if (json_parse(req->ex->body, &body, &err) < 0) {
		err.code = 400;
		sim_reply_err(req, doc, &err, NULL);
		return;
	}
	grace = json_at(json_root(body), "deleteOptions", "gracePeriodSeconds", NULL);
	if (!req->dry_run) {
		if (!kube_is_deleting(sim_object_json(o)))
			o = tell_why(req, doc, o);
		sim_api_delete(req->api, o, json_int(grace, -1));
	}
	reply_evicted(req, doc);
}
