/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing by a table of patterns, a segment at a time; what a {name} matched is decoded and kept in
 * the exchange. Uses core/.
 */
#include <stdlib.h>

#include "server_impl.h"

static void clear_params(struct exchange *ex)
{
	for (size_t i = 0; i < ex->n_params; i++)
		free(ex->params[i].value);
	ex->n_params = 0;
}

static bool keep_param(struct exchange *ex, struct str name, struct str value, struct err *err)
{
	struct buf text = BUF_INIT(value.len + 1);

	if (ex->n_params == ROUTE_MAX_PARAMS || http_unescape(&text, value, false, err) < 0) {
		buf_done(&text);
		return false;
	}
	ex->params[ex->n_params].name = name;
	ex->params[ex->n_params].value = buf_steal(&text, NULL);
	ex->n_params++;
	return true;
}

/* "{name}" → name, "{name...}" → name and *ret_rest; else false. */
static bool is_param(struct str segment, struct str *ret_name, bool *ret_rest)
{
	if (segment.len < 3 || segment.p[0] != '{' || segment.p[segment.len - 1] != '}')
		return false;
	*ret_name = (struct str){segment.p + 1, segment.len - 2};
	*ret_rest = str_has_suffix(*ret_name, STR("..."));
	if (*ret_rest)
		ret_name->len -= 3;
	return true;
}

static bool matches(struct exchange *ex, const char *pattern, struct err *err)
{
	struct http_path_iter want = HTTP_PATH_ITER(str_of(pattern));
	struct http_path_iter have = HTTP_PATH_ITER(ex->pub.path);

	clear_params(ex);
	for (;;) {
		struct str name, rest = have.rest;
		bool takes_all = false;
		if (!http_path_next(&want))
			return !http_path_next(&have);
		bool param = is_param(want.segment, &name, &takes_all);
		if (takes_all) {
			/* Without its slash; nothing at all fits too. */
			if (rest.len > 0)
				rest = (struct str){rest.p + 1, rest.len - 1};
			return keep_param(ex, name, rest, err);
		}
		if (!http_path_next(&have))
			return false;
		if (param ? have.segment.len == 0 || !keep_param(ex, name, have.segment, err)
			  : !str_eq(want.segment, have.segment))
			return false;
	}
}

static bool serves(const struct http_route *route, enum http_method method)
{
	return route->method == method ||
	       (route->method == HTTP_METHOD_GET && method == HTTP_METHOD_HEAD);
}

/* The methods of a resource; HEAD comes with GET, OPTIONS with any. */
struct allowed {
	bool any;
	bool of[HTTP_METHOD_OTHER];
};

static void allow(struct allowed *a, enum http_method method)
{
	a->any = a->of[method] = a->of[HTTP_METHOD_OPTIONS] = true;
	if (method == HTTP_METHOD_GET)
		a->of[HTTP_METHOD_HEAD] = true;
}

/* OPTIONS is told what is possible here, any other method that it isn't. */
static void reply_allowed(struct http_exchange *pub, const struct allowed *a)
{
	struct buf list = BUF_INIT(256), body = BUF_INIT(1024);

	for (int m = HTTP_METHOD_GET; m < HTTP_METHOD_OTHER; m++)
		if (a->of[m])
			buf_printf(&list, NULL, "%s%s", list.len > 0 ? ", " : "",
				   http_method_name((enum http_method)m));
	const struct http_header field = {STR("Allow"), buf_str(&list)};
	if (pub->method == HTTP_METHOD_OPTIONS) {
		http_reply(pub, 204, NULL, &field, 1, STR_NULL);
	} else {
		buf_printf(&body, NULL,
			   "{\"status\":405,\"title\":\"Method Not Allowed\",\"detail\":\"%s isn't "
			   "possible here, only %.*s\"}\n",
			   http_method_name(pub->method), STR_ARG(buf_str(&list)));
		http_reply(pub, 405, "application/problem+json", &field, 1, buf_str(&body));
	}
	buf_done(&list);
	buf_done(&body);
}

void http_route(struct http_exchange *pub, const struct http_route *routes, void *arg)
{
	struct exchange *ex = CONTAINER_OF(pub, struct exchange, pub);
	bool whole = str_eqz(pub->path, "*"); /* of OPTIONS: the server as such */
	struct allowed allowed = {0};

	for (const struct http_route *r = routes; r->pattern; r++) {
		struct err err = ERR_INIT;

		if (!whole && !matches(ex, r->pattern, &err)) {
			if (!err_is_no_memory(&err))
				continue;
			http_reply_err(pub, &err); /* there may be something there */
			return;
		}
		if (!whole && serves(r, pub->method)) {
			loop_about(pub->server->loop, http_method_name(pub->method), r->pattern,
				   NULL);
			r->handler(pub, arg);
			return;
		}
		allow(&allowed, r->method);
	}
	if (allowed.any)
		reply_allowed(pub, &allowed);
	else
		http_reply_problem(pub, 404, "nothing at %.*s",
				   (int)(pub->path.len > 200 ? 200 : pub->path.len), pub->path.p);
}

const char *http_exchange_param(const struct http_exchange *pub, const char *name)
{
	/* The public part is the first member. */
	const struct exchange *ex = (const struct exchange *)(const void *)pub;

	for (size_t i = 0; i < ex->n_params; i++)
		if (str_eqz(ex->params[i].name, name))
			return ex->params[i].value;
	return "";
}
