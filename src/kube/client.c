/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client and its single calls: a request in, one answer with its JSON out.
 * Owns the connections and the credentials; borrows loop, net and configuration.
 */
#include "kube/client.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "client_priv.h"
#include "path.h"
#include "warning.h"
#include "xfer.h"

#define MAX_QUEUED 65536 /* calls that wait for a connection: no limit of ours in practice */
#define MAX_TARGET ((size_t)16 << 10)

/* ---- the client ---- */

/* By resource, which is more use to us, and as client-go names them. */
static void metrics_open(struct kube_client_metrics *m)
{
	static const char *const by_resource[] = {"verb", "resource", "code", NULL};
	static const char *const by_method[] = {"code", "method", "host", NULL};
	static const char *const by_verb[] = {"verb", "host", NULL};
	static const double bounds[] = {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};

	m->requests = metric_new(METRIC_COUNTER, "ipu_operator_kube_requests_total",
				 "Requests to the Kubernetes API server, by HTTP status.",
				 by_resource, NULL, 0);
	m->rest = metric_new(METRIC_COUNTER, "rest_client_requests_total",
			     "Requests to the Kubernetes API server, by method and host.",
			     by_method, NULL, 0);
	m->seconds = metric_new(METRIC_HISTOGRAM, "rest_client_request_duration_seconds",
				"From a request to the head of its answer.", by_verb, bounds,
				sizeof(bounds) / sizeof(bounds[0]));
}

/* "https://host:port/prefix" without what isn't the host's. */
static char *host_of(const char *server)
{
	const char *p = strstr(server, "://");

	p = p ? p + 3 : server;
	return xstrndup(p, strcspn(p, "/"));
}

/* Whoever gave up asks again within that time, or doesn't care any more. */
#define FORGET_MS 5000

static bool is_forgotten(const struct kube_reach *r)
{
	return !r->unheard || (!r->asked && clock_mono_ms() - r->ended_ms > FORGET_MS);
}

void kube_reach_ask(struct kube_reach *r)
{
	if (is_forgotten(r))
		r->since_ms = clock_mono_ms();
	r->unheard = true;
	r->asked++;
}

/* Of requests still owed too: a server that speaks is there, however long one of them takes. */
void kube_reach_heard(struct kube_reach *r)
{
	r->unheard = false;
}

void kube_reach_end(struct kube_reach *r)
{
	r->asked--;
	r->ended_ms = clock_mono_ms();
}

int64_t kube_client_silence_ms(const struct kube_client *c)
{
	return is_forgotten(c->reach) ? 0 : clock_mono_ms() - c->reach->since_ms;
}

int kube_client_new(const struct kube_client_opts *opts, struct kube_client **ret, struct err *err)
{
	struct kube_cred *cred;
	if (kube_cred_new(opts->loop, opts->config, opts->helper, &cred, err) < 0)
		return -1;
	struct http_client_config http = {
		.h2 = &http_h2,
		.max_unary = opts->max_connections ? opts->max_connections : KUBE_MAX_CONNECTIONS,
		.max_queued = MAX_QUEUED,
		.user_agent = opts->user_agent ? opts->user_agent : "ipu-operator/" PACKAGE_VERSION,
	};
	struct kube_client *c = xcalloc(1, sizeof(*c));
	c->loop = opts->loop;
	c->config = opts->config;
	c->cred = cred;
	c->http = http_client_new(opts->net, &http);
	c->reach = opts->hears_with ? opts->hears_with->reach : &c->own_reach;
	c->host = host_of(kube_config_server(opts->config));
	metrics_open(&c->metrics);
	*ret = c;
	return 0;
}

void kube_client_free(struct kube_client *c)
{
	if (!c)
		return;
	http_client_free(c->http);
	kube_cred_free(c->cred);
	free(c->host);
	free(c);
}

struct loop *kube_client_loop(const struct kube_client *c)
{
	return c->loop;
}

const struct kube_config *kube_client_config(const struct kube_client *c)
{
	return c->config;
}

/* ---- what is sent ---- */

static int write_delete_options(const struct kube_request *r, struct buf *out, struct err *err)
{
	static const char *const policies[] = {
		[KUBE_PROPAGATION_BACKGROUND] = "Background",
		[KUBE_PROPAGATION_FOREGROUND] = "Foreground",
		[KUBE_PROPAGATION_ORPHAN] = "Orphan",
	};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	bool has_uid = r->uid && r->uid[0], has_version = r->if_version && r->if_version[0];
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "DeleteOptions");
	if (r->has_grace)
		jmut_set_int(doc, root, "gracePeriodSeconds", r->grace_seconds);
	if (r->propagation != KUBE_PROPAGATION_DEFAULT)
		jmut_set_str(doc, root, "propagationPolicy", policies[r->propagation]);
	if (has_uid || has_version) {
		struct jmut *pre = jmut_need_object(doc, root, "preconditions");
		if (has_uid)
			jmut_set_str(doc, pre, "uid", r->uid);
		if (has_version)
			jmut_set_str(doc, pre, "resourceVersion", r->if_version);
	}
	return jmut_write(root, JSON_COMPACT, out, err);
}

static int write_body(const struct kube_request *r, struct buf *out, struct err *err)
{
	int rc = 0;
	if (r->verb == KUBE_DELETE)
		rc = write_delete_options(r, out, err);
	else if (r->json)
		rc = jmut_write(r->json, JSON_COMPACT, out, err);
	else if (r->body.len > 0)
		rc = buf_append_str(out, r->body, err);
	else if (r->verb != KUBE_GET && r->verb != KUBE_LIST)
		return err_set(err, ERR_INVALID, 0, "the request has no body");
	return rc < 0 ? err_wrap(err, "the request's body") : 0;
}

/* It changes nothing, so it may be sent again. */
static bool only_reads(const struct kube_request *r)
{
	return r->verb == KUBE_GET || r->verb == KUBE_LIST || r->dry_run || r->asks;
}

static const char *content_type(const struct kube_request *r)
{
	static const char *const of_patch[] = {
		[KUBE_PATCH_MERGE] = "application/merge-patch+json",
		[KUBE_PATCH_JSON] = "application/json-patch+json",
		[KUBE_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
	};

	return r->verb == KUBE_PATCH ? of_patch[r->patch] : "application/json";
}

static enum http_method method_of(enum kube_verb verb)
{
	switch (verb) {
	case KUBE_CREATE:
		return HTTP_METHOD_POST;
	case KUBE_UPDATE:
		return HTTP_METHOD_PUT;
	case KUBE_PATCH:
		return HTTP_METHOD_PATCH;
	case KUBE_DELETE:
		return HTTP_METHOD_DELETE;
	default:
		return HTTP_METHOD_GET;
	}
}

/* ---- calls ---- */

struct call {
	struct op op;
	struct kube_client *client;
	struct scope scope;
	struct loop_work work; /* for a request that can't be sent */
	struct err early;
	struct buf body;
	int status;
	bool is_path, reads;
	struct kube_warning_list *warnings; /* NULL: nobody wants them */
	const struct kube_resource *of;     /* NULL: a path */
	const char *verb, *resource;
	kube_call_fn *cb;
	void *arg;
};

static void call_free(void *p)
{
	struct call *c = p;
	buf_done(&c->body);
	if (c->warnings)
		kube_warnings_clear(c->warnings);
	free(c->warnings);
	free(c);
}

static void detach(struct call *c)
{
	scope_cancel(&c->scope);
	loop_work_cancel(&c->work);
	loop_reap(c->client->loop, c, call_free);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct call, op));
}

static void finish(struct call *c, const struct err *err, const struct kube_response *response)
{
	if (!op_end(&c->op))
		return;
	detach(c);
	c->cb(c->arg, err, response);
}

static void on_head(void *arg, const struct http_headers *headers)
{
	struct call *c = arg;
	buf_clear(&c->body);
	if (!c->warnings)
		return;
	kube_warnings_clear(c->warnings);
	kube_warnings_add(c->warnings, headers);
}

static void on_body(void *arg, struct str piece)
{
	struct call *c = arg;
	struct err err = ERR_INIT;
	if (buf_append_str(&c->body, piece, &err) == 0)
		return;
	if (err_is_no_memory(&err))
		err_wrap(&err, "the API server's answer");
	else
		err_set(&err, ERR_LIMIT, 0, "the API server's answer is larger than %zu bytes",
			c->body.limit);
	err.maybe_applied = !c->reads;
	finish(c, &err, NULL);
}

static void on_done(void *arg, const struct err *err, int status, struct str body,
		    const struct json *json)
{
	struct call *c = arg;
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct kube_response r = {.status = status, .json = json, .raw = body};
	struct err why = ERR_INIT;
	loop_about(c->client->loop, "answer to", c->verb, c->resource);
	if (err) {
		finish(c, err, status > 0 && status / 100 != 2 ? &r : NULL);
		return;
	}
	r.raw = buf_str(&c->body);
	if (str_trim(r.raw).len > 0 && kube_parse(c->of, r.raw, &doc, &why) < 0 && !c->is_path) {
		if (err_is_no_memory(&why)) {
			err_wrap(&why, "the API server's answer");
		} else {
			why.kind = ERR_PROTOCOL;
			err_wrap(&why, "the API server's answer isn't JSON");
		}
		why.maybe_applied = !c->reads;
		finish(c, &why, NULL);
		return;
	}
	r.json = doc ? json_root(doc) : NULL;
	r.warnings = c->warnings ? c->warnings->items : NULL;
	r.n_warnings = c->warnings ? c->warnings->n : 0;
	finish(c, NULL, &r);
}

static void on_early(struct loop_work *work, void *arg)
{
	struct call *c = arg;
	(void)work;
	finish(c, &c->early, NULL);
}

/* As the metrics have it. */
static const char *resource_name(const struct kube_request *r)
{
	return r->resource ? r->resource->plural : "other";
}

static int prepare(struct kube_client *client, const struct kube_request *r,
		   struct kube_xfer_req *ret, struct err *err)
{
	struct buf target = BUF_INIT(MAX_TARGET), body = BUF_INIT(KUBE_MAX_REQUEST_BYTES);
	body.secret = kube_is_secret(r->resource);
	size_t len;
	if (kube_path_build(client->config->prefix, r, &target, err) < 0 ||
	    write_body(r, &body, err) < 0) {
		buf_done(&target);
		buf_done(&body);
		return -1;
	}
	*ret = (struct kube_xfer_req){
		.verb = kube_verb_name(r->verb),
		.resource = resource_name(r),
		.method = method_of(r->verb),
		.target = buf_steal(&target, &len),
		.content_type = body.len > 0 ? content_type(r) : NULL,
		.reads = only_reads(r),
		.secret = kube_is_secret(r->resource),
		.urgent = r->urgent,
		.no_retry = r->no_retry,
		.slow = r->verb == KUBE_LIST || r->dry_run,
		.deadline_ms = r->deadline_ms,
	};
	if (body.len > 0)
		ret->body = buf_steal(&body, &ret->body_len);
	buf_done(&body);
	return 0;
}

struct op *kube_call_start(struct kube_client *client, const struct kube_request *r,
			   kube_call_fn *cb, void *arg, struct scope *scope)
{
	static const struct kube_xfer_handler handler = {on_head, on_body, on_done};
	struct kube_xfer_req req;
	struct call *c = xcalloc(1, sizeof(*c));
	c->client = client;
	c->cb = cb;
	c->arg = arg;
	c->verb = kube_verb_name(r->verb);
	c->resource = resource_name(r);
	c->is_path = r->path && r->path[0];
	c->reads = only_reads(r);
	c->of = r->resource;
	c->warnings = r->dry_run ? xcalloc(1, sizeof(*c->warnings)) : NULL;
	buf_init(&c->body, r->max_response_bytes ? r->max_response_bytes : KUBE_MAX_RESPONSE_BYTES);
	c->body.secret = kube_is_secret(r->resource);
	scope_init(&c->scope);
	loop_work_init(&c->work, client->loop, on_early, c);
	op_begin(&c->op, scope, on_cancel);
	if (prepare(client, r, &req, &c->early) < 0)
		loop_work_post(&c->work);
	else
		kube_xfer_start(client, &req, &handler, c, &c->scope);
	return &c->op;
}
