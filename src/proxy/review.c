/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a TokenReview and reads its status. A token that is good for another audience only isn't
 * good here, whoever it belongs to. Uses kube.
 */
#include "proxy/review.h"

#include <stdlib.h>

#include "core/json.h"
#include "kube/client.h"

#define DEADLINE_MS 10000
#define EXTRA       "authentication.kubernetes.io/"

struct review {
	struct op op;
	struct loop *loop;
	struct scope call;
	proxy_reviewed_fn *cb;
	void *arg;
};

static void cancel(struct op *op)
{
	struct review *r = CONTAINER_OF(op, struct review, op);

	scope_cancel(&r->call);
	loop_reap(r->loop, r, free);
}

static bool has_audience(const struct json *audiences)
{
	struct json_iter it = json_iter(audiences);

	while (json_next(&it)) {
		if (str_eqz(json_str(it.value), PROXY_AUDIENCE))
			return true;
	}
	return false;
}

static const char *extra(const struct json *user, const char *key)
{
	return json_cstr(json_item(json_get(json_get(user, "extra"), key), 0));
}

static int read_status(const struct json *review, struct proxy_token *ret, struct err *err)
{
	const struct json *status = json_get(review, "status"), *user = json_get(status, "user");
	const char *why = json_cstr(json_get(status, "error"));

	if (!json_bool(json_get(status, "authenticated"), false))
		return err_set(err, ERR_DENIED, 0, "%s", why ? why : "not a valid token");
	if (!has_audience(json_get(status, "audiences")))
		return err_set(err, ERR_DENIED, 0, "not for the audience " PROXY_AUDIENCE);
	*ret = (struct proxy_token){
		.account = json_cstr(json_get(user, "username")),
		.pod_name = extra(user, EXTRA "pod-name"),
		.pod_uid = extra(user, EXTRA "pod-uid"),
	};
	return ret->account ? 0 : err_set(err, ERR_DENIED, 0, "a token without a user");
}

static void on_answer(void *arg, const struct err *why, const struct kube_response *response)
{
	struct review *r = arg;
	struct proxy_token token;
	struct err err = ERR_INIT;

	if (!op_end(&r->op))
		return;
	/* That the operator itself may not ask is no word on the token. */
	if (why) {
		err = *why;
		if (err.kind == ERR_DENIED)
			err.kind = ERR_UNAVAILABLE;
		r->cb(r->arg, &err, NULL);
	} else if (read_status(response->json, &token, &err) < 0) {
		r->cb(r->arg, &err, NULL);
	} else {
		r->cb(r->arg, NULL, &token);
	}
	loop_reap(r->loop, r, free);
}

struct op *proxy_review_by_kube(void *review_arg, struct str text, proxy_reviewed_fn *cb, void *arg,
				struct scope *scope)
{
	struct kube_client *kube = review_arg;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *spec = jmut_object(doc), *list = jmut_array(doc);
	struct review *r = xcalloc(1, sizeof(*r));
	const struct kube_request request = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_TOKENREVIEWS,
		.json = root,
		.deadline_ms = DEADLINE_MS,
	};

	jmut_set_str(doc, root, "apiVersion", "authentication.k8s.io/v1");
	jmut_set_str(doc, root, "kind", "TokenReview");
	jmut_set(doc, spec, "token", jmut_str(doc, text));
	jmut_push(doc, list, jmut_strz(doc, PROXY_AUDIENCE));
	jmut_set(doc, spec, "audiences", list);
	jmut_set(doc, root, "spec", spec);
	r->loop = kube_client_loop(kube);
	r->cb = cb;
	r->arg = arg;
	scope_init(&r->call);
	op_begin(&r->op, scope, cancel);
	kube_call_start(kube, &request, on_answer, r, &r->call);
	return &r->op;
}
