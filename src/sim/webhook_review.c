/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReviews (admission.k8s.io/v1, v1beta1), and the Statuses that come of their answers.
 */
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/webhook.h"

#define GROUP "admission.k8s.io/"

/* ---- the question ---- */

static struct jmut *type_of(struct jmut_doc *doc, const struct sim_resource *r, const char *key,
			    const char *value)
{
	struct jmut *o = jmut_object(doc);

	jmut_set_str(doc, o, "group", r->group);
	jmut_set_str(doc, o, "version", r->version);
	jmut_set_str(doc, o, key, value);
	return o;
}

static struct jmut *options_of(const struct sim_admission *a, struct jmut_doc *doc)
{
	struct jmut *o = jmut_object(doc), *all = jmut_array(doc);
	const char *kind = strcmp(a->operation, "CREATE") == 0   ? "CreateOptions"
			   : strcmp(a->operation, "DELETE") == 0 ? "DeleteOptions"
			   : a->req->verb == SIM_PATCH           ? "PatchOptions"
								 : "UpdateOptions";

	jmut_set_str(doc, o, "kind", kind);
	jmut_set_str(doc, o, "apiVersion", "meta.k8s.io/v1");
	if (a->req->dry_run) {
		jmut_push(doc, all, jmut_strz(doc, "All"));
		jmut_set(doc, o, "dryRun", all);
	}
	return o;
}

struct jmut *sim_review_request(const struct sim_admission *a, struct jmut_doc *doc,
				const char *uid)
{
	const struct sim_request *req = a->req;
	const struct sim_resource *r = req->resource;
	struct jmut *o = jmut_object(doc);
	const struct json *object = *a->root ? jmut_view(*a->root) : NULL;
	bool is_namespace = strcmp(r->kind, "Namespace") == 0;
	struct str name = kube_name(object ? object : a->old);

	jmut_set_str(doc, o, "uid", uid);
	jmut_set(doc, o, "kind", type_of(doc, r, "kind", r->kind));
	jmut_set(doc, o, "resource", type_of(doc, r, "resource", r->plural));
	jmut_set(doc, o, "requestKind", type_of(doc, r, "kind", r->kind));
	jmut_set(doc, o, "requestResource", type_of(doc, r, "resource", r->plural));
	if (req->subresource[0]) {
		jmut_set_str(doc, o, "subResource", req->subresource);
		jmut_set_str(doc, o, "requestSubResource", req->subresource);
	}
	/* That of the request: a name that the server makes up isn't known when it comes. */
	if (req->name[0])
		jmut_set_str(doc, o, "name", req->name);
	if (req->ns[0])
		jmut_set_str(doc, o, "namespace", req->ns);
	else if (is_namespace && name.len)
		jmut_set(doc, o, "namespace", jmut_str(doc, name));
	jmut_set_str(doc, o, "operation", a->operation);
	jmut_set(doc, o, "userInfo", sim_user_info(req, doc));
	jmut_set(doc, o, "object", object ? jmut_copy(doc, object) : jmut_null(doc));
	jmut_set(doc, o, "oldObject", a->old ? jmut_copy(doc, a->old) : jmut_null(doc));
	jmut_set_bool(doc, o, "dryRun", req->dry_run);
	jmut_set(doc, o, "options", options_of(a, doc));
	return o;
}

const char *sim_review_version(const struct json *webhook)
{
	struct json_iter it = json_iter(json_get(webhook, "admissionReviewVersions"));

	while (json_next(&it)) {
		if (str_eqz(json_str(it.value), "v1"))
			return "v1";
		if (str_eqz(json_str(it.value), "v1beta1"))
			return "v1beta1";
	}
	return "v1"; /* a configuration has one that we know: webhook_config.c */
}

/* ---- the answer ---- */

static int check_v1(const struct json *answer, const struct json *response, const char *uid,
		    struct err *err)
{
	struct str version = json_str(json_get(answer, "apiVersion"));
	struct str kind = json_str(json_get(answer, "kind"));
	struct str got = json_str(json_get(response, "uid"));

	if (!str_eqz(got, uid))
		return err_set(err, ERR_PROTOCOL, 0,
			       "received invalid webhook response: expected response.uid=\"%s\", "
			       "got \"%.*s\"",
			       uid, STR_ARG(got));
	if (!str_eqz(version, GROUP "v1") || !str_eqz(kind, "AdmissionReview"))
		return err_set(err, ERR_PROTOCOL, 0,
			       "received invalid webhook response: expected webhook response of "
			       "admission.k8s.io/v1, Kind=AdmissionReview, got %.*s, Kind=%.*s",
			       STR_ARG(version), STR_ARG(kind));
	return 0;
}

/* Of v1 both or none, and none of a validating webhook; of v1beta1 nobody looks at the type. */
static int check_patch(struct str patch, const struct json *type, bool mutating, struct err *err)
{
	const char *what = NULL;

	if (!mutating && patch.len)
		what = "validating webhook may not return response.patch";
	else if (!mutating && type)
		what = "validating webhook may not return response.patchType";
	else if (patch.len && !type)
		what = "webhook returned response.patch but not response.patchType";
	else if (!patch.len && type)
		what = "webhook returned response.patchType but not response.patch";
	else if (patch.len && !str_eqz(json_str(type), "JSONPatch"))
		return err_set(err, ERR_PROTOCOL, 0, "unsupported patch type \"%.*s\"",
			       STR_ARG(json_str(type)));
	return what ? err_set(err, ERR_PROTOCOL, 0, "received invalid webhook response: %s", what)
		    : 0;
}

int sim_review_read(const struct json *answer, const char *version, const char *uid, bool mutating,
		    struct sim_verdict *ret, struct err *err)
{
	const struct json *response = json_get(answer, "response");
	const struct json *type = json_get(response, "patchType");
	struct str patch = json_str(json_get(response, "patch"));
	bool v1 = strcmp(version, "v1") == 0;
	uint8_t *text = NULL;
	size_t len;

	if (json_type(response) != JSON_OBJECT)
		return err_set(err, ERR_PROTOCOL, 0,
			       "received invalid webhook response: webhook response was absent");
	if (v1 &&
	    (check_v1(answer, response, uid, err) < 0 ||
	     check_patch(patch, json_type(type) == JSON_NULL ? NULL : type, mutating, err) < 0))
		return -1;
	if (patch.len && mutating && base64_decode(patch, &text, &len, err) < 0)
		return err_wrap(err, "failed to call webhook: response.patch");
	*ret = (struct sim_verdict){
		.allowed = json_bool(json_get(response, "allowed"), false),
		.status = json_get(response, "status"),
		.warnings = json_get(response, "warnings"),
		.patch = (char *)text,
	};
	return 0;
}

/* ---- what the client gets ---- */

struct jmut *sim_review_denied(struct jmut_doc *doc, const char *webhook, const struct json *status)
{
	struct jmut *root = json_type(status) == JSON_OBJECT ? jmut_copy(doc, status)
							     : jmut_object(doc);
	struct str message = json_str(json_get(status, "message")),
		   reason = json_str(json_get(status, "reason"));
	struct str why = message.len ? message : reason;
	int64_t code = json_int(json_get(status, "code"), 0);

	jmut_set_str(doc, root, "kind", "Status");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "metadata", jmut_object(doc));
	jmut_set_str(doc, root, "status", "Failure");
	jmut_set(doc, root, "message",
		 jmut_strf(doc, "admission webhook \"%s\" denied the request%s%.*s", webhook,
			   why.len ? ": " : " ",
			   STR_ARG(why.len ? why : STR("without explanation"))));
	if (code < 400 || code > 599)
		jmut_set_int(doc, root, "code", 400);
	return root;
}

struct jmut *sim_review_failed(struct jmut_doc *doc, const char *message)
{
	struct jmut *root = jmut_object(doc), *details = jmut_object(doc),
		    *causes = jmut_array(doc), *cause = jmut_object(doc);

	jmut_set_str(doc, root, "kind", "Status");
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set(doc, root, "metadata", jmut_object(doc));
	jmut_set_str(doc, root, "status", "Failure");
	jmut_set(doc, root, "message", jmut_strf(doc, "Internal error occurred: %s", message));
	jmut_set_str(doc, root, "reason", "InternalError");
	jmut_set_str(doc, cause, "message", message);
	jmut_push(doc, causes, cause);
	jmut_set(doc, details, "causes", causes);
	jmut_set(doc, root, "details", details);
	jmut_set_int(doc, root, "code", 500);
	return root;
}
