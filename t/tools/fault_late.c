/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request at a time: wanted, held, on its way, and nothing of it any more. Uses http/.
 */
#include "fault_late.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/str.h"

struct fault_late {
	struct http_client *client;
	enum http_method method; /* NONE: nothing is wanted */
	char *target;
	struct http_headers headers; /* of the one that is held */
	char *body;                  /* NULL: none is held */
	size_t body_len;
	struct http_exchange *asker; /* who waits for its delivery */
	struct http_call *call;      /* NULL: it isn't on its way */
	int status;
};

struct fault_late *fault_late_new(struct http_client *client)
{
	struct fault_late *l = xcalloc(1, sizeof(*l));

	l->client = client;
	return l;
}

static void forget(struct fault_late *l)
{
	if (l->call)
		op_cancel(&l->call->op);
	l->call = NULL;
	l->method = HTTP_METHOD_NONE;
	http_headers_done(&l->headers);
	free(l->target);
	free(l->body);
	l->target = l->body = NULL;
}

void fault_late_free(struct fault_late *l)
{
	if (!l)
		return;
	forget(l);
	free(l);
}

int fault_late_want(struct fault_late *l, struct str request, struct err *err)
{
	struct str method, target;

	str_cut(request, ' ', &method, &target);
	if (http_method_of(method) == HTTP_METHOD_NONE || target.len == 0)
		return err_set(err, ERR_INVALID, 0, "METHOD /path is wanted");
	forget(l);
	l->method = http_method_of(method);
	l->target = str_dup(target);
	return 0;
}

bool fault_late_take(struct fault_late *l, struct http_exchange *ex)
{
	static const char *const kept[] = {"Authorization", "Content-Type", "Accept"};

	if (l->body || ex->method != l->method || !str_eqz(ex->target, l->target))
		return false;
	log_info("fault", "api", "held back: %s %s", http_method_name(l->method), l->target);
	http_headers_init(&l->headers, 0, 0);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct str value = http_headers_get(ex->headers, kept[i]);

		if (value.len)
			http_headers_add(&l->headers, str_of(kept[i]), value, NULL);
	}
	l->body = str_dup(ex->body);
	l->body_len = ex->body.len;
	http_reply_abort(ex);
	return true;
}

bool fault_late_holds(const struct fault_late *l)
{
	return l->body != NULL;
}

static void on_head(void *arg, const struct http_head *head)
{
	struct fault_late *l = arg;

	l->status = head->status;
}

static void on_body(void *arg, struct str piece)
{
	(void)arg;
	(void)piece;
}

static void on_done(void *arg, const struct err *why)
{
	struct fault_late *l = arg;
	struct http_exchange *asker = l->asker;
	char status[16];

	snprintf(status, sizeof(status), "%d", why ? 0 : l->status);
	log_info("fault", "api", "delivered: %s %s: %s", http_method_name(l->method), l->target,
		 why ? why->msg : status);
	l->call = NULL;
	l->asker = NULL;
	forget(l);
	if (asker)
		http_reply(asker, 200, "text/plain", NULL, 0, str_of(status));
}

/* Nobody waits for it; it comes all the same. */
static void on_abort(struct http_exchange *ex, void *arg)
{
	struct fault_late *l = arg;

	(void)ex;
	l->asker = NULL;
}

void fault_late_deliver(struct fault_late *l, uint16_t port, struct http_exchange *ex)
{
	static const struct http_call_handler handler = {on_head, on_body, on_done};
	struct http_header fields[3];
	struct http_request req = {
		.origin = {.host = "127.0.0.1", .port = port},
		.method = l->method,
		.target = str_of(l->target),
		.headers = fields,
		.n_headers = l->headers.len,
		.body = {l->body, l->body_len},
	};

	if (!l->body || l->call) {
		http_reply_problem(ex, 409, "nothing is held back");
		return;
	}
	for (size_t i = 0; i < l->headers.len; i++)
		fields[i] = http_headers_at(&l->headers, i);
	l->asker = ex;
	l->status = 0;
	http_exchange_on_abort(ex, on_abort, l);
	l->call = http_call_start(l->client, &req, &handler, l, NULL);
}
