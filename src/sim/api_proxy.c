/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services/proxy: hands a request on to what a Service names, and its answer back as it comes.
 * There are no Endpoints here: the Service's clusterIP and its port's targetPort are the address.
 */
#include <stdlib.h>

#include "http/client.h"
#include "kube/object.h"
#include "net/net.h"
#include "sim/api_internal.h"
#include "sim/webhook.h"

#define DEADLINE_MS 30000

/* One request that is on its way; freed by its end, either end's. */
struct forward {
	struct http_exchange *ex;
	struct http_call *call;
	char *host;
	bool lose; /* a fault */
	bool is_begun;
};

void sim_api_use_net(struct sim_api *api, struct net *net)
{
	api->http = http_client_new(net, NULL);
	api->webhooks = sim_webhooks_new(api->loop, api->objects, net);
}

static void forward_free(struct forward *f)
{
	free(f->host);
	free(f);
}

static void reply_status(struct http_exchange *ex, int code, const struct err *why)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct err err = *why;

	err.code = code;
	sim_reply_json(ex, code, sim_status(doc, NULL, &err, NULL));
}

/* Those of the connection (RFC 9110, 7.6.1), those that are made anew, and the caller's
 * credentials, which kube-apiserver takes out. */
static bool is_passed(struct str name)
{
	static const char *const others[] = {"Authorization",
					     "Connection",
					     "Content-Length",
					     "Expect",
					     "Host",
					     "Keep-Alive",
					     "Proxy-Authorization",
					     "TE",
					     "Trailer",
					     "Transfer-Encoding",
					     "Upgrade"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (str_ieqz(name, others[i]))
			return false;
	}
	return true;
}

/* *ret: the caller's to free. */
static size_t pick_headers(const struct http_headers *from, struct http_header **ret)
{
	struct http_header *to = xcalloc(from->len + 1, sizeof(*to));
	size_t n = 0;

	for (size_t i = 0; i < from->len; i++) {
		to[n] = http_headers_at(from, i);
		n += is_passed(to[n].name);
	}
	*ret = to;
	return n;
}

static void on_drain(struct http_exchange *ex, void *arg)
{
	struct forward *f = arg;

	(void)ex;
	http_call_resume(f->call);
}

static void on_head(void *arg, const struct http_head *head)
{
	struct forward *f = arg;
	struct http_header *headers;
	size_t n;

	if (f->lose)
		return;
	n = pick_headers(&head->headers, &headers);
	f->is_begun = true;
	http_exchange_on_drain(f->ex, on_drain, f);
	http_reply_begin(f->ex, head->status, NULL, headers, n);
	free(headers);
}

static void on_body(void *arg, struct str piece)
{
	struct forward *f = arg;

	if (f->is_begun && http_reply_write(f->ex, piece))
		http_call_pause(f->call);
}

static void on_done(void *arg, const struct err *why)
{
	struct forward *f = arg;
	struct err err;

	http_exchange_on_abort(f->ex, NULL, NULL);
	if (f->lose || (f->is_begun && why)) {
		http_reply_abort(f->ex);
	} else if (why) {
		err_copy(&err, why);
		err_wrap(&err, "error trying to reach service");
		reply_status(f->ex, 503, &err);
	} else {
		http_reply_end(f->ex);
	}
	forward_free(f);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	struct forward *f = arg;

	(void)ex;
	op_cancel(&f->call->op);
	forward_free(f);
}

/* By its number or its name; without one, the first. */
static const struct json *port_of(const struct json *service, struct str wanted)
{
	struct json_iter it = json_iter(json_at(service, "spec", "ports", NULL));
	int64_t number;

	if (str_to_int(wanted, 1, 65535, &number, NULL) < 0)
		number = 0;
	while (json_next(&it)) {
		if (wanted.len == 0 || json_int(json_get(it.value, "port"), -1) == number ||
		    str_eq(json_str(json_get(it.value, "name")), wanted))
			return it.value;
	}
	return NULL;
}

/* "[SCHEME:]NAME[:PORT]" */
static void split_name(struct str text, struct str *ret_name, struct str *ret_port)
{
	struct str first, rest;

	*ret_port = STR_NULL;
	if (!str_cut(text, ':', &first, &rest)) {
		*ret_name = text;
	} else if (memchr(rest.p, ':', rest.len)) {
		str_cut(rest, ':', ret_name, ret_port);
	} else {
		*ret_name = first;
		*ret_port = rest;
	}
}

/* What follows ".../proxy", as it was sent. */
static char *target_of(const struct http_exchange *ex)
{
	struct http_path_iter it = HTTP_PATH_ITER(ex->path);

	for (int i = 0; i < 7; i++) /* api v1 namespaces NS services NAME proxy */
		http_path_next(&it);
	return xasprintf("%.*s%s%.*s", STR_ARG(it.rest.len ? it.rest : STR("/")),
			 ex->query.p ? "?" : "", STR_ARG(ex->query));
}

static void start(struct sim_request *req, const struct json *service, const struct json *port)
{
	struct forward *f = xcalloc(1, sizeof(*f));
	CLEANUP_FREE char *target = target_of(req->ex);
	static const struct http_call_handler handler = {on_head, on_body, on_done};
	struct http_header *headers;
	size_t n = pick_headers(req->ex->headers, &headers);
	struct http_request request = {
		.method = req->ex->method,
		.target = str_of(target),
		.headers = headers,
		.n_headers = n,
		.body = req->ex->body.len > 0 ? req->ex->body : STR_NULL,
		.first_byte_ms = DEADLINE_MS,
		.streaming = true,
	};

	f->ex = req->ex;
	f->lose = req->lose;
	f->host = str_dup(json_str(json_at(service, "spec", "clusterIP", NULL)));
	request.origin.host = f->host;
	request.origin.port = (unsigned)json_int(json_get(port, "targetPort"),
						 json_int(json_get(port, "port"), 0));
	http_exchange_on_abort(f->ex, on_abort, f);
	f->call = http_call_start(req->api->http, &request, &handler, f, NULL);
	free(headers);
}

void sim_forward(struct sim_request *req)
{
	struct str name, port_name;
	struct sim_object *o;
	const struct json *port = NULL;
	struct err err;

	split_name(str_of(req->name), &name, &port_name);
	o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns), name);
	if (o)
		port = port_of(sim_object_json(o), port_name);
	if (!o)
		err_set(&err, ERR_NOT_FOUND, 404, "services \"%.*s\" not found", STR_ARG(name));
	else if (!port)
		err_set(&err, ERR_UNAVAILABLE, 503,
			"no service port \"%.*s\" found for service \"%.*s\"", STR_ARG(port_name),
			STR_ARG(name));
	if (port)
		start(req, sim_object_json(o), port);
	else
		reply_status(req->ex, err.code, &err);
}
