/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange is a level-triggered state machine: step() looks and starts at most one thing.
 * Owns its strings and the body of an error; freed by the reaper. Uses core/, loop/, http/.
 */
#include "xfer.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "client_priv.h"
#include "loop/backoff.h"

#define MAX_ATTEMPTS    5
#define MAX_ERROR_BYTES ((size_t)1 << 20)

enum state {
	LOOKING,    /* for credentials, on the way to the next attempt */
	CREDENTIAL, /* the plugin runs; the timer holds the deadline */
	REQUEST,    /* sent, the answer's head hasn't come */
	ANSWER,     /* within a 2xx answer */
	REFUSAL,    /* within another answer, which is collected */
	PAUSE,      /* until the timer says when to try again */
	ENDED,
};

struct xfer {
	struct op op;
	struct kube_client *client;
	struct kube_xfer_req req;
	const struct kube_xfer_handler *handler;
	void *arg;

	enum state state;
	struct scope scope; /* the running attempt, or the wait for credentials */
	struct loop_timer timer;
	struct backoff backoff;
	int64_t deadline_at_ms;
	unsigned attempts, generation;
	bool is_asked;               /* it's known to wait for the server */
	bool was_denied, was_broken; /* 401, a failed connection: each gets one more attempt */

	int64_t sent_us; /* this attempt; 0: not yet */
	int status;      /* of this attempt; 0: none yet */
	unsigned retry_after_ms;
	struct buf refusal;
};

static void xfer_free(void *p)
{
	struct xfer *x = p;
	free(x->req.target);
	if (x->req.secret)
		str_wipe(x->req.body, x->req.body_len);
	free(x->req.body);
	buf_done(&x->refusal);
	free(x);
}

static void asks(struct xfer *x, bool asked)
{
	if (x->is_asked == asked || x->req.slow || x->req.streaming)
		return;
	x->is_asked = asked;
	if (asked)
		kube_reach_ask(x->client->reach);
	else
		kube_reach_end(x->client->reach);
}

static void detach(struct xfer *x)
{
	asks(x, false);
	x->state = ENDED;
	loop_timer_stop(&x->timer);
	scope_cancel(&x->scope);
	loop_reap(x->client->loop, x, xfer_free);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct xfer, op));
}

static void finish(struct xfer *x, const struct err *err, const struct json *json)
{
	if (!op_end(&x->op))
		return;
	detach(x);
	x->handler->on_done(x->arg, err, x->status, buf_str(&x->refusal), json);
}

static void count(const struct xfer *x)
{
	char code[16] = "error";
	if (x->status > 0)
		snprintf(code, sizeof(code), "%d", x->status);
	const struct kube_client_metrics *m = &x->client->metrics;
	const char *const values[] = {x->req.verb, x->req.resource, code};
	const char *const by_method[] = {code, http_method_name(x->req.method), x->client->host};
	const char *const by_verb[] = {x->req.verb, x->client->host};

	metric_add(m->requests, values, 1);
	metric_add(m->rest, by_method, 1);
	if (x->sent_us)
		metric_observe(m->seconds, by_verb, (double)(clock_mono_us() - x->sent_us) / 1e6);
}

/* ---- what comes after a failed attempt ---- */

static bool wants_retry(struct xfer *x, const struct err *err)
{
	if (x->req.no_retry || x->attempts >= MAX_ATTEMPTS)
		return false;
	if (x->status == 429)
		return true;
	if (x->status == 503)
		return err->retry_after_ms > 0;
	/* The connection: refused, reset, closed. Not TLS, not a deadline, not a limit. */
	if (x->was_broken || err->code == 503 ||
	    (err->kind != ERR_UNAVAILABLE && err->kind != ERR_PROTOCOL && err->kind != ERR_IO))
		return false;
	if (x->status != 0 && x->status / 100 != 2)
		return false;
	if (err->maybe_applied && !x->req.reads)
		return false;
	x->was_broken = true;
	return true;
}

static void step(struct xfer *x);

static void attempt_failed(struct xfer *x, struct err *err, const struct json *json)
{
	asks(x, false);
	if (x->status / 100 != 2) /* else it was counted when its answer began */
		count(x);
	scope_cancel(&x->scope);
	if (x->status == 401 && !x->was_denied) {
		x->was_denied = true;
		kube_cred_refused(x->client->cred, x->generation);
		x->state = LOOKING;
		step(x);
		return;
	}
	if (x->status == 401)
		err_wrap(err, "the API server doesn't accept our credentials (%s)",
			 x->client->config->source);
	err->maybe_applied = err->maybe_applied && !x->req.reads;
	if (wants_retry(x, err)) {
		int64_t delay = backoff_next_ms(&x->backoff, err);
		if (clock_mono_ms() + delay < x->deadline_at_ms) {
			log_debug("kube", NULL, "%s %s: tried again in %lld ms: %s", x->req.verb,
				  x->req.resource, (long long)delay, err->msg);
			x->state = PAUSE;
			loop_timer_start_in(&x->timer, delay);
			return;
		}
	}
	finish(x, err, json);
}

/* ---- the attempt ---- */

static void on_head(void *arg, const struct http_head *head)
{
	struct xfer *x = arg;
	kube_reach_heard(x->client->reach);
	asks(x, false);
	x->status = head->status;
	x->retry_after_ms = http_headers_retry_after_ms(&head->headers);
	buf_clear(&x->refusal);
	if (head->status / 100 != 2) {
		x->state = REFUSAL;
		return;
	}
	x->state = ANSWER;
	count(x);
	if (x->handler->on_head)
		x->handler->on_head(x->arg, &head->headers);
}

static void on_body(void *arg, struct str piece)
{
	struct xfer *x = arg;
	/* What a watch still brings says nothing of the way there. */
	if (!x->req.streaming)
		kube_reach_heard(x->client->reach);
	if (x->state == ANSWER) {
		x->handler->on_body(x->arg, piece);
		return;
	}
	/* What is too long isn't a Status of ours; its status code still counts. */
	if (buf_append_str(&x->refusal, piece, NULL) < 0)
		buf_clear(&x->refusal);
}

static void on_refusal(struct xfer *x)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	if (x->refusal.len > 0 && json_parse(buf_str(&x->refusal), &doc, NULL) < 0)
		doc = NULL;
	const struct json *json = doc ? json_root(doc) : NULL;
	kube_status_decode(x->status, json, x->retry_after_ms, kube_cred_token(x->client->cred),
			   &err);
	attempt_failed(x, &err, json);
}

static void on_done(void *arg, const struct err *failure)
{
	struct xfer *x = arg;
	if (x->state == REFUSAL) {
		on_refusal(x); /* also where its body broke off */
		return;
	}
	if (!failure) {
		finish(x, NULL, NULL);
		return;
	}
	struct err err = *failure;
	if (x->status != 0) {
		err.maybe_applied = !x->req.reads;
		if (x->req.no_retry || !x->req.reads || x->was_broken) {
			finish(x, &err, NULL);
			return;
		}
	}
	attempt_failed(x, &err, NULL);
}

static const struct http_call_handler http_handler = {
	.on_head = on_head,
	.on_body = on_body,
	.on_done = on_done,
};

static void send_request(struct xfer *x, const struct kube_auth *auth, unsigned left_ms)
{
	const struct kube_config *cfg = x->client->config;
	struct http_header headers[3] = {HTTP_H("Accept", "application/json")};
	size_t n = 1;
	if (auth->authorization.len > 0)
		headers[n++] = (struct http_header){STR("Authorization"), auth->authorization};
	if (x->req.content_type)
		headers[n++] = (struct http_header){STR("Content-Type"),
						    str_of(x->req.content_type)};
	struct http_request req = {
		.origin = {.host = cfg->url.host,
			   .port = cfg->url.port,
			   .tls = auth->tls,
			   .server_name = cfg->server_name,
			   .proxy = cfg->proxy},
		.method = x->req.method,
		.target = str_of(x->req.target),
		.headers = headers,
		.n_headers = n,
		.body = {x->req.body, x->req.body_len},
		.connect_ms = left_ms,
		.first_byte_ms = left_ms,
		.idle_ms = x->req.streaming ? x->req.silent_ms : left_ms,
		.total_ms = x->req.streaming ? x->req.stream_ms : left_ms,
		.max_body_bytes = x->req.max_body_bytes ? x->req.max_body_bytes : UINT64_MAX,
		.streaming = x->req.streaming,
		.urgent = x->req.urgent,
		.idempotent = x->req.reads,
	};
	x->state = REQUEST;
	x->sent_us = clock_mono_us();
	x->status = 0;
	x->attempts++;
	x->generation = auth->generation;
	asks(x, true);
	http_call_start(x->client->http, &req, &http_handler, x, &x->scope);
}

static void on_credential(void *arg)
{
	struct xfer *x = arg;
	loop_timer_stop(&x->timer);
	x->state = LOOKING;
	step(x);
}

static void too_late(struct xfer *x, const char *what)
{
	struct err err = ERR_INIT;
	x->status = 0;
	err_set(&err, ERR_TIMEOUT, 0, "no answer from the API server in time: %s", what);
	count(x);
	finish(x, &err, NULL);
}

static void step(struct xfer *x)
{
	struct kube_auth auth;
	struct err err = ERR_INIT;
	int64_t left_ms = x->deadline_at_ms - clock_mono_ms();
	if (x->state != LOOKING)
		return;
	switch (kube_cred_get(x->client->cred, &auth, &err)) {
	case KUBE_CRED_READY:
		if (left_ms <= 0)
			too_late(x, "its deadline passed while we waited for credentials");
		else
			send_request(x, &auth, (unsigned)left_ms);
		break;
	case KUBE_CRED_PENDING:
		x->state = CREDENTIAL;
		loop_timer_start_at(&x->timer, x->deadline_at_ms);
		kube_cred_wait_start(x->client->cred, on_credential, x, &x->scope);
		break;
	case KUBE_CRED_FAILED:
		x->status = 0;
		count(x);
		finish(x, &err, NULL);
		break;
	}
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct xfer *x = arg;
	(void)timer;
	if (x->state == CREDENTIAL) {
		too_late(x, "the credential plugin still runs");
		return;
	}
	/* The beginning, or the end of a pause. */
	x->state = LOOKING;
	step(x);
}

struct op *kube_xfer_start(struct kube_client *client, const struct kube_xfer_req *req,
			   const struct kube_xfer_handler *handler, void *arg, struct scope *scope)
{
	struct xfer *x = xcalloc(1, sizeof(*x));
	struct kube_auth auth;
	x->client = client;
	x->req = *req;
	x->handler = handler;
	x->arg = arg;
	x->backoff = (struct backoff)BACKOFF_INIT(200, 5000);
	x->deadline_at_ms = clock_mono_ms() +
			    (req->deadline_ms ? req->deadline_ms : KUBE_DEADLINE_MS);
	buf_init(&x->refusal, MAX_ERROR_BYTES);
	scope_init(&x->scope);
	op_begin(&x->op, scope, on_cancel);
	loop_timer_init(&x->timer, client->loop, on_timer, x);
	/* Straight away where the credentials are there; else by the loop, since it may fail. */
	if (kube_cred_get(client->cred, &auth, NULL) == KUBE_CRED_READY) {
		send_request(x, &auth, (unsigned)(x->deadline_at_ms - clock_mono_ms()));
	} else {
		x->state = PAUSE;
		loop_timer_start_in(&x->timer, 0);
	}
	return &x->op;
}
