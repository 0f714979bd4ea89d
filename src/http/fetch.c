/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call whose whole body is collected and handed over once. The fetch owns its call and the body;
 * the caller borrows both within the callback. Uses core/, loop/.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client_impl.h"

#define DEFAULT_MAX_BODY_BYTES ((size_t)64 << 20)
#define RESERVE_AT_MOST        ((size_t)1 << 20) /* on the peer's word alone */
#define SHOWN_BYTES            120               /* of a body in a message */

struct fetch {
	struct op op;
	struct http_call *call;
	struct loop *loop;
	http_fetch_fn *cb;
	void *arg;
	const struct http_head
		*head; /* the connection's codec keeps it until on_done has returned */
	struct buf body;
};

static void fetch_free(void *p)
{
	struct fetch *fetch = p;
	buf_done(&fetch->body);
	free(fetch);
}

static void fetch_cancel(struct op *op)
{
	struct fetch *fetch = CONTAINER_OF(op, struct fetch, op);
	op_cancel(&fetch->call->op);
	loop_reap(fetch->loop, fetch, fetch_free);
}

static void fetch_end(struct fetch *fetch, const struct err *err)
{
	struct http_response response = {.head = fetch->head};
	struct err no_memory = ERR_INIT;

	if (!op_end(&fetch->op))
		return;
	response.body.len = fetch->body.len;
	/* The body's limit has room for the NUL. */
	if (!err && buf_append(&fetch->body, "", 1, &no_memory) < 0)
		err = &no_memory;
	response.body.p = fetch->body.p;
	fetch->cb(fetch->arg, err ? NULL : &response, err);
	loop_reap(fetch->loop, fetch, fetch_free);
}

static void on_head(void *arg, const struct http_head *head)
{
	struct fetch *fetch = arg;
	char *room;

	fetch->head = head;
	if (head->has_body && head->content_length > 0) {
		size_t want = (uint64_t)head->content_length < RESERVE_AT_MOST
				      ? (size_t)head->content_length
				      : RESERVE_AT_MOST;
		buf_reserve(&fetch->body, want + 1, &room, NULL);
	}
}

static void on_body(void *arg, struct str piece)
{
	struct fetch *fetch = arg;
	struct err err = ERR_INIT;

	if (buf_append_str(&fetch->body, piece, &err) == 0)
		return;
	err.maybe_applied = true;
	op_cancel(&fetch->call->op);
	fetch_end(fetch, &err);
}

static void on_done(void *arg, const struct err *err)
{
	fetch_end(arg, err);
}

struct op *http_fetch_start(struct http_client *client, const struct http_request *req,
			    http_fetch_fn *cb, void *arg, struct scope *scope)
{
	static const struct http_call_handler handler = {
		.on_head = on_head,
		.on_body = on_body,
		.on_done = on_done,
	};
	struct fetch *fetch = xcalloc(1, sizeof(*fetch));
	struct http_request limited = *req;

	if (limited.max_body_bytes == 0 || limited.max_body_bytes > SIZE_MAX / 4)
		limited.max_body_bytes = DEFAULT_MAX_BODY_BYTES;
	buf_init_secret(&fetch->body, (size_t)limited.max_body_bytes + 1);
	fetch->loop = client->loop;
	fetch->cb = cb;
	fetch->arg = arg;
	op_begin(&fetch->op, scope, fetch_cancel);
	fetch->call = http_call_start(client, &limited, &handler, fetch, NULL);
	return &fetch->op;
}

static bool is_textual(const struct http_headers *headers)
{
	struct str type = http_headers_get(headers, "content-type");
	return str_has_prefix(type, STR("text/")) ||
	       str_has_prefix(type, STR("application/json")) ||
	       str_has_prefix(type, STR("application/problem+json"));
}

int http_response_check(const struct http_response *response, enum http_method method,
			struct str target, struct str token, struct err *err)
{
	int status = response->head->status;
	struct str body = http_without_token(response->body, token), path, query;

	if (status >= 200 && status < 300)
		return 0;
	if (!is_textual(&response->head->headers))
		body = STR_NULL;
	/* The query may be long, and hold what isn't for logs. */
	http_target_split(target, &path, &query);
	err_set(err, http_status_kind(status), status, "%s %.*s: %d %s%s%.*s",
		http_method_name(method), (int)(path.len > 100 ? 100 : path.len), path.p, status,
		http_status_reason(status), body.len > 0 ? ": " : "",
		(int)str_utf8_cut(body, SHOWN_BYTES), body.p ? body.p : "");
	if (err)
		err->retry_after_ms = http_headers_retry_after_ms(&response->head->headers);
	return -1;
}
