/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services/proxy: hands a request on to what a Service names, and its answer back. There are no
 * Endpoints here: the Service's clusterIP and its port's targetPort are the address.
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
	struct op *op;
	char *host;
	bool lose; /* a fault */
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

static void on_answer(void *arg, const struct http_response *response, const struct err *why)
{
	struct forward *f = arg;
	struct err err;

	http_exchange_on_abort(f->ex, NULL, NULL);
	if (f->lose) {
		http_reply_abort(f->ex);
	} else if (why) {
		err_copy(&err, why);
		err_wrap(&err, "error trying to reach service");
		reply_status(f->ex, 503, &err);
	} else {
		const char *type = http_headers_get(&response->head->headers, "Content-Type").p;

		http_reply(f->ex, response->head->status, type, NULL, 0, response->body);
	}
	forward_free(f);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	struct forward *f = arg;

	(void)ex;
	op_cancel(f->op);
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
	struct http_header headers[] = {
		{STR("Accept"), http_headers_get(req->ex->headers, "Accept")},
		{STR("Content-Type"), http_headers_get(req->ex->headers, "Content-Type")},
	};
	struct http_request request = {
		.method = req->ex->method,
		.target = str_of(target),
		.headers = headers,
		.n_headers = 2,
		.body = req->ex->body.len > 0 ? req->ex->body : STR_NULL,
		.total_ms = DEADLINE_MS,
	};

	f->ex = req->ex;
	f->lose = req->lose;
	f->host = str_dup(json_str(json_at(service, "spec", "clusterIP", NULL)));
	request.origin.host = f->host;
	request.origin.port = (unsigned)json_int(json_get(port, "targetPort"),
						 json_int(json_get(port, "port"), 0));
	http_exchange_on_abort(f->ex, on_abort, f);
	f->op = http_fetch_start(req->api->http, &request, on_answer, f, NULL);
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
