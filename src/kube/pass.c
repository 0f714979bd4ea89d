/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is passed on: credentials, the second try after a 401, and else the HTTP client's
 * call as it is. Owns copies of target and headers; freed by the reaper.
 */
#include "kube/pass.h"

#include <stdlib.h>

#include "core/clock.h"
#include "client_priv.h"
#include "path.h"

#define MAX_TARGET ((size_t)16 << 10)

struct passing {
	struct kube_pass pub;
	struct kube_client *client;
	const struct http_call_handler *handler;
	void *arg;
	enum http_method method;
	char *target;
	struct http_headers headers;
	unsigned idle_ms;

	struct scope scope;      /* the call, or the wait for credentials */
	struct loop_work step;   /* looks for credentials, and sends */
	struct loop_timer timer; /* holds the deadline while the plugin runs */
	int64_t deadline_at_ms;  /* for the beginning of the answer */
	struct http_call *call;  /* NULL: none */
	struct err early;        /* why it can't be sent */
	unsigned generation;
	bool was_denied; /* by a 401, which gets one more attempt */
	bool is_paused;
};

static void passing_free(void *arg)
{
	struct passing *p = arg;

	http_headers_done(&p->headers);
	free(p->target);
	free(p);
}

static void detach(struct passing *p)
{
	p->call = NULL;
	loop_work_cancel(&p->step);
	loop_timer_stop(&p->timer);
	scope_cancel(&p->scope);
	loop_reap(p->client->loop, p, passing_free);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct passing, pub.op));
}

static void finish(struct passing *p, const struct err *err)
{
	if (!op_end(&p->pub.op))
		return;
	detach(p);
	p->handler->on_done(p->arg, err);
}

/* ---- the call ---- */

static void on_head(void *arg, const struct http_head *head)
{
	struct passing *p = arg;

	if (head->status == 401 && !p->was_denied) {
		p->was_denied = true;
		p->call = NULL;
		scope_cancel(&p->scope);
		kube_cred_refused(p->client->cred, p->generation);
		loop_work_post(&p->step);
		return;
	}
	p->handler->on_head(p->arg, head);
}

static void on_body(void *arg, struct str piece)
{
	struct passing *p = arg;

	p->handler->on_body(p->arg, piece);
}

static void on_done(void *arg, const struct err *err)
{
	struct passing *p = arg;

	finish(p, err);
}

static void send_request(struct passing *p, const struct kube_auth *auth, unsigned left_ms)
{
	static const struct http_call_handler handler = {on_head, on_body, on_done};
	const struct kube_config *cfg = p->client->config;
	struct http_header *headers = xcalloc(p->headers.len + 1, sizeof(*headers));
	size_t n = 0;
	struct http_request req = {
		.origin = {.host = cfg->url.host,
			   .port = cfg->url.port,
			   .tls = auth->tls,
			   .server_name = cfg->server_name,
			   .proxy = cfg->proxy},
		.method = p->method,
		.target = str_of(p->target),
		.headers = headers,
		.connect_ms = left_ms,
		.first_byte_ms = left_ms,
		.idle_ms = p->idle_ms,
		.streaming = true,
	};

	for (; n < p->headers.len; n++)
		headers[n] = http_headers_at(&p->headers, n);
	if (auth->authorization.len > 0)
		headers[n++] = (struct http_header){STR("Authorization"), auth->authorization};
	req.n_headers = n;
	p->generation = auth->generation;
	p->call = http_call_start(p->client->http, &req, &handler, p, &p->scope);
	if (p->is_paused)
		http_call_pause(p->call);
	free(headers);
}

static void on_credential(void *arg)
{
	struct passing *p = arg;

	loop_timer_stop(&p->timer);
	loop_work_post(&p->step);
}

static void on_step(struct loop_work *work, void *arg)
{
	struct passing *p = arg;
	int64_t left_ms = p->deadline_at_ms - clock_mono_ms();
	struct kube_auth auth;
	struct err err = ERR_INIT;

	(void)work;
	if (p->early.kind != ERR_NONE) {
		finish(p, &p->early);
		return;
	}
	switch (kube_cred_get(p->client->cred, &auth, &err)) {
	case KUBE_CRED_READY:
		send_request(p, &auth, left_ms > 0 ? (unsigned)left_ms : 1);
		break;
	case KUBE_CRED_PENDING:
		loop_timer_start_at(&p->timer, p->deadline_at_ms);
		kube_cred_wait_start(p->client->cred, on_credential, p, &p->scope);
		break;
	case KUBE_CRED_FAILED:
		finish(p, &err);
		break;
	}
}

static void on_late(struct loop_timer *timer, void *arg)
{
	struct passing *p = arg;
	struct err err = ERR_INIT;

	(void)timer;
	err_set(&err, ERR_TIMEOUT, 0,
		"no answer from the API server in time: the credential plugin still runs");
	finish(p, &err);
}

/* ---- for others ---- */

static int prepare(struct passing *p, const struct kube_pass_request *r, struct err *err)
{
	struct kube_request path = {.verb = KUBE_GET, .path = r->path};
	struct buf target = BUF_INIT(MAX_TARGET);

	if (kube_path_build(p->client->config->prefix, &path, &target, err) < 0) {
		buf_done(&target);
		return -1;
	}
	p->target = buf_steal(&target, NULL);
	for (size_t i = 0; i < r->n_headers; i++) {
		if (http_headers_add(&p->headers, r->headers[i].name, r->headers[i].value, err) < 0)
			return -1;
	}
	return 0;
}

struct kube_pass *kube_pass_start(struct kube_client *client, const struct kube_pass_request *r,
				  const struct http_call_handler *handler, void *arg,
				  struct scope *scope)
{
	struct passing *p = xcalloc(1, sizeof(*p));

	p->client = client;
	p->handler = handler;
	p->arg = arg;
	p->method = r->method;
	p->idle_ms = r->idle_ms;
	p->deadline_at_ms = clock_mono_ms() + r->begin_ms;
	http_headers_init(&p->headers, 0, 0);
	scope_init(&p->scope);
	loop_work_init(&p->step, client->loop, on_step, p);
	loop_timer_init(&p->timer, client->loop, on_late, p);
	op_begin(&p->pub.op, scope, on_cancel);
	(void)prepare(p, r, &p->early);
	loop_work_post(&p->step);
	return &p->pub;
}

void kube_pass_pause(struct kube_pass *pass, bool pauses)
{
	struct passing *p = CONTAINER_OF(pass, struct passing, pub);

	p->is_paused = pauses;
	if (p->call && pauses)
		http_call_pause(p->call);
	else if (p->call)
		http_call_resume(p->call);
}
