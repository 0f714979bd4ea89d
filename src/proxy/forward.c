/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing a request on to the process that decides, with its caller's own token, and the answer
 * back. A request that was passed on already goes no further. Uses http's client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "internal.h"
#include "net/net.h"

#define DEADLINE_MS 20000
#define CONNECT_MS  2000 /* a leader that died says nothing; the caller asks again */
#define MAX_BODY    ((uint64_t)8 << 20)

/* What of the leader's answer is the caller's. */
static size_t take_fields(const struct http_head *head, struct http_header *ret)
{
	static const char *const names[] = {"ETag", "Location", "Retry-After", "WWW-Authenticate"};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct str value = http_headers_get(&head->headers, names[i]);

		if (value.p)
			ret[n++] = (struct http_header){str_of(names[i]), value};
	}
	return n;
}

static void on_answer(void *arg, const struct http_response *response, const struct err *err)
{
	struct request *r = arg;
	struct http_header fields[4];
	size_t n;

	if (err) {
		log_warn("proxy", r->p->leader, "a request couldn't be passed on: %s", err->msg);
		if (err->maybe_applied)
			request_problem(
				r, 502,
				"the leading replica gave no answer: %.200s. The request may "
				"have taken effect; it may be sent again",
				err->msg);
		else
			request_unavailable(r, 1,
					    "the leading replica can't be reached: ask again");
		return;
	}
	n = take_fields(response->head, fields);
	if (response->head->status < 200 || response->head->status == 304)
		request_problem(r, 502, "the leading replica answered with %d",
				response->head->status);
	else if (response->body.len)
		request_reply_type(r, response->head->status,
				   http_headers_get(&response->head->headers, "content-type").p,
				   fields, n, response->body);
	else
		request_reply_type(r, response->head->status, NULL, fields, n, STR_NULL);
}

/* One that leads no more because it died never answers. While nobody leads, it may yet. */
void forward_look(struct request *r)
{
	const struct proxy *p = r->p;
	bool others = p->leading || p->leader;

	if (!r->passed_on || !others || (p->leader && strcmp(p->leader, r->passed_on) == 0))
		return;
	scope_cancel(&r->calls);
	if (r->ex->method == HTTP_METHOD_GET)
		request_unavailable(r, 1, "another replica leads now: ask again");
	else
		request_problem(r, 502,
				"another replica leads now, and the one before gave no answer. The "
				"request may have taken effect; it may be sent again");
}

/* Path and query stand one behind the other, whatever form the target came in. */
static struct str own_target(const struct http_exchange *ex)
{
	const char *end = ex->query.p ? ex->query.p + ex->query.len : ex->path.p + ex->path.len;

	return (struct str){ex->path.p, (size_t)(end - ex->path.p)};
}

bool forward(struct request *r)
{
	struct proxy *p = r->p;
	const struct http_headers *h = r->ex->headers;
	struct http_header fields[] = {
		{STR("Authorization"), http_headers_get(h, "authorization")},
		{STR(FORWARD_MARK), STR("1")},
		{STR("Content-Type"), STR("application/json")},
	};
	struct http_request request = {
		.origin = {.tls = p->peer_tls, .server_name = p->peer_name},
		.method = r->ex->method,
		.target = own_target(r->ex),
		.headers = fields,
		.n_headers = r->ex->body.len ? 3 : 2,
		.body = r->ex->body.len ? r->ex->body : STR_NULL,
		.max_body_bytes = MAX_BODY,
	};
	char host[NET_HOST_SIZE];
	struct err err = ERR_INIT;
	uint16_t port;

	if (p->leading)
		return false;
	if (http_headers_has(h, FORWARD_MARK) || !p->leader || !p->http || !p->peer_tls ||
	    net_split_host_port(p->leader, 0, host, &port, &err) < 0) {
		request_unavailable(r, 1, "no replica leads at the moment: ask again");
		return true;
	}
	request.origin.host = host;
	request.origin.port = port;
	request.connect_ms = CONNECT_MS;
	/* A GET may wait for a change there. */
	request.total_ms = DEADLINE_MS + (r->ex->method == HTTP_METHOD_GET ? p->wait_ms : 0);
	request.first_byte_ms = request.total_ms;
	r->passed_on = xstrdup(p->leader);
	http_fetch_start(p->http, &request, on_answer, r, &r->calls);
	return true;
}
