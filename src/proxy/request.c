/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the partitions' port: from its token to its end-point's function, and its answer. It
 * lives until it's answered or its peer has gone; its proxy has a list of them. Uses http, auth.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static void free_memory(void *p)
{
	struct request *r = p;

	proxy_caller_done(&r->caller);
	free(r->passed_on);
	free(r);
}

static void request_end(struct request *r)
{
	scope_cancel(&r->calls);
	loop_timer_stop(&r->timer);
	list_unlink(&r->link);
	if (!list_empty(&r->waiting)) {
		list_unlink(&r->waiting);
		r->p->n_waiting--;
	}
	loop_reap(r->p->loop, r, free_memory);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	request_end(arg);
}

/* ---- answers ---- */

void request_reply_type(struct request *r, int status, const char *type,
			const struct http_header *headers, size_t n_headers, struct str body)
{
	http_reply(r->ex, status, type, headers, n_headers, body);
	request_end(r);
}

void request_reply(struct request *r, int status, const struct http_header *headers,
		   size_t n_headers, struct str body)
{
	request_reply_type(r, status, body.p ? "application/json" : NULL, headers, n_headers, body);
}

void request_problem(struct request *r, int status, const char *fmt, ...)
{
	char detail[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	http_reply_problem(r->ex, status, "%s", detail);
	request_end(r);
}

void request_unavailable(struct request *r, unsigned seconds, const char *detail)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_UNAVAILABLE, 0, "%s", detail);
	err.retry_after_ms = seconds * 1000;
	http_reply_err(r->ex, &err);
	request_end(r);
}

void request_refuse(struct request *r, const struct err *err)
{
	if (err_is_no_memory(err))
		request_unavailable(r, 1, err->msg);
	else
		request_problem(r, 400, "%s", err->msg);
}

bool request_param(struct request *r, const char *name, char **ret)
{
	struct err err = ERR_INIT;

	*ret = http_query_get(r->ex->query, name, &err);
	if (*ret || !err_is_no_memory(&err))
		return true;
	request_unavailable(r, 1, err.msg);
	return false;
}

bool request_may(struct request *r, const char *uid)
{
	if (proxy_caller_may(&r->caller, uid))
		return true;
	request_problem(r, 403,
			"%s may not: a Pod's own token is good for its Pod (uid=%s), and an "
			"account of proxy.controllerAccounts for any owner",
			r->caller.account, r->caller.pod_uid ? r->caller.pod_uid : "none");
	return false;
}

bool request_flag(struct request *r, const char *name, bool *ret)
{
	CLEANUP_FREE char *text = NULL;

	if (!request_param(r, name, &text))
		return false;
	*ret = text && strcmp(text, "true") == 0;
	if (!text || *ret || strcmp(text, "false") == 0)
		return true;
	request_problem(r, 400, "%s must be true or false", name);
	return false;
}

/* ---- on the way in ---- */

static bool check_params(struct request *r)
{
	struct http_query_iter it = HTTP_QUERY_ITER(r->ex->query);

	while (http_query_next(&it)) {
		const char *const *known = r->endpoint->params;

		while (known && *known && !str_eqz(it.name, *known))
			known++;
		if (known && *known)
			continue;
		request_problem(r, 400, "there is no parameter \"%.*s\" here",
				it.name.len > 64 ? 64 : (int)it.name.len, it.name.p);
		return false;
	}
	return true;
}

static bool take_path(struct request *r)
{
	const char *uid = http_exchange_param(r->ex, "uid");
	const char *instance = http_exchange_param(r->ex, "instance");
	int64_t n = 0;

	if (r->endpoint->has_uid && !ask_is_uid(str_of(uid))) {
		request_problem(r, 400, "the path's owner must be an object's metadata.uid");
		return false;
	}
	if (r->endpoint->has_instance &&
	    str_to_int(str_of(instance), 0, INSTANCE_MAX, &n, NULL) < 0) {
		request_problem(r, 400, "the path's instance must be a number from 0 to %d",
				INSTANCE_MAX);
		return false;
	}
	snprintf(r->uid, sizeof(r->uid), "%s", uid);
	r->instance = (uint32_t)n;
	return true;
}

static void on_caller(void *arg, const struct err *err, const struct kube_identity *who)
{
	struct request *r = arg;

	if (err && err->kind == ERR_DENIED) {
		http_reply_unauthorized(
			r->ex, PROXY_AUDIENCE, true,
			"the API server doesn't accept this token for the audience " PROXY_AUDIENCE
			": send a current one");
		request_end(r);
		return;
	}
	if (err) {
		unsigned seconds = (err->retry_after_ms + 999) / 1000;
		char detail[sizeof(err->msg) + 64];

		snprintf(detail, sizeof(detail), "the token can't be looked at now: %s", err->msg);
		request_unavailable(r, seconds ? seconds : 1, detail);
		return;
	}
	proxy_caller_init(&r->caller, who, r->p->accounts);
	r->note.caller = r->caller.account;
	if (!check_params(r) || !take_path(r))
		return;
	if (r->endpoint->has_uid && !request_may(r, r->uid))
		return;
	if (!partitions_synced(r->p->partitions)) {
		request_unavailable(r, 1, NOT_READ);
		return;
	}
	r->endpoint->run(r);
}

static void take(struct http_exchange *ex, struct proxy *p, const struct endpoint *endpoint)
{
	struct str token = http_headers_bearer(ex->headers);
	struct request *r;

	if (!token.p) {
		ex->user = (void *)(uintptr_t)&endpoint->note;
		http_reply_unauthorized(
			ex, PROXY_AUDIENCE, false,
			"send a ServiceAccount token for the audience ipu-operator-proxy: "
			"Authorization: Bearer TOKEN");
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->note = endpoint->note;
	r->p = p;
	r->ex = ex;
	r->endpoint = endpoint;
	list_init(&r->waiting);
	list_append(&p->requests, &r->link);
	scope_init(&r->calls);
	loop_timer_init(&r->timer, p->loop, NULL, r);
	ex->user = &r->note;
	http_exchange_on_abort(ex, on_abort, r);
	kube_review_token_start(p->reviewer, token, on_caller, r, &r->calls);
}

/* ---- routes ---- */

static void handle_ask(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_ask);
}

static void handle_list(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_list);
}

static void handle_get(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_get);
}

static void handle_release(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_release);
}

static void handle_release_all(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_release_all);
}

static void handle_reset(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_reset);
}

static void handle_held(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_held);
}

static void handle_get_held(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_get_held);
}

static void handle_pods(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_pods);
}

static void handle_get_pods(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_get_pods);
}

static void handle_ipuof(struct http_exchange *ex, void *arg)
{
	take(ex, arg, &endpoint_ipuof);
}

void proxy_handle_partitions(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_POST, "/v1/partitions", handle_ask},
		{HTTP_METHOD_GET, "/v1/partitions", handle_list},
		{HTTP_METHOD_DELETE, "/v1/partitions/{uid}", handle_release_all},
		{HTTP_METHOD_GET, "/v1/partitions/{uid}/{instance}", handle_get},
		{HTTP_METHOD_DELETE, "/v1/partitions/{uid}/{instance}", handle_release},
		{HTTP_METHOD_POST, "/v1/partitions/{uid}/{instance}/reset", handle_reset},
		{HTTP_METHOD_GET, "/v1/partitions/{uid}/{instance}/ipuof", handle_ipuof},
		{HTTP_METHOD_PUT, "/v1/held", handle_held},
		{HTTP_METHOD_GET, "/v1/held", handle_get_held},
		{HTTP_METHOD_PUT, "/v1/pods/{part}", handle_pods},
		{HTTP_METHOD_GET, "/v1/pods", handle_get_pods},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}
