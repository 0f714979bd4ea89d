/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may read /metrics: whoever's bearer token the API server accepts, and who may get that
 * non-resource URL. What it said is kept for a few seconds, so that a scrape costs it nothing.
 * Nothing is open while it can't be asked. Owns the requests that wait for it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "kube/review.h"

#define REALM       "ipu-operator-metrics"
#define PATH        "/metrics"
#define KEEP_MS     10000
#define KEY_SIZE    32
#define MAX_ANSWERS 64 /* more callers than that at a time are asked about anew */

/* What the API server said of a token's owner and PATH. */
struct answer {
	uint8_t key[KEY_SIZE]; /* the token's SHA-256 */
	int64_t until_ms;      /* 0: none */
	struct err err;        /* ERR_NONE: may */
};

struct scrape {
	struct daemon *d;
	struct certfile *files;
	struct cert_own *own;     /* NULL: of the files, or shared with other processes */
	struct kube_client *kube; /* whoever asks for metrics keeps nobody's Pod waiting */
	struct kube_reviewer *reviewer;
	struct answer answers[MAX_ANSWERS];
	struct list requests;
};

struct request {
	struct list link;
	struct scrape *s;
	struct http_exchange *ex;
	struct scope scope;
	uint8_t key[KEY_SIZE];
	char *username;
};

/* ---- answers that are kept ---- */

static const struct answer *recall(const struct scrape *s, const uint8_t key[KEY_SIZE])
{
	for (size_t i = 0; i < MAX_ANSWERS; i++) {
		const struct answer *a = &s->answers[i];

		if (a->until_ms > clock_mono_ms() && memcmp(a->key, key, KEY_SIZE) == 0)
			return a;
	}
	return NULL;
}

/* In the place of the one that ends first. */
static void keep(struct scrape *s, const uint8_t key[KEY_SIZE], const struct err *err)
{
	struct answer *place = &s->answers[0];

	for (size_t i = 1; i < MAX_ANSWERS; i++) {
		if (s->answers[i].until_ms < place->until_ms)
			place = &s->answers[i];
	}
	memcpy(place->key, key, KEY_SIZE);
	place->until_ms = clock_mono_ms() + KEEP_MS;
	place->err = err ? *err : (struct err)ERR_INIT;
}

/* ---- requests ---- */

static void request_free(void *p)
{
	struct request *r = p;

	free(r->username);
	free(r);
}

static void request_end(struct request *r)
{
	scope_cancel(&r->scope);
	list_unlink(&r->link);
	loop_reap(r->s->d->loop, r, request_free);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	request_end(arg);
}

static void reply(struct http_exchange *ex, const struct err *err)
{
	if (err->kind == ERR_NONE)
		observe_reply_metrics(ex);
	else
		http_reply_problem(ex, 403, "%s", err->msg);
}

/* It couldn't be found out: closed, and worth another try. */
static void reply_unknown(struct http_exchange *ex, const struct err *err)
{
	struct err why = *err;

	why.kind = ERR_UNAVAILABLE;
	if (why.retry_after_ms == 0)
		why.retry_after_ms = 1000;
	http_reply_err(ex, &why);
}

static void on_access(void *arg, const struct err *err)
{
	struct request *r = arg;
	struct err why = ERR_INIT;

	if (err && err->kind != ERR_DENIED) {
		reply_unknown(r->ex, err);
		request_end(r);
		return;
	}
	if (err)
		err_set(&why, ERR_DENIED, 403,
			"%s may not get the non-resource URL " PATH
			": bind a ClusterRole that allows it, such as …-metrics-reader",
			r->username);
	keep(r->s, r->key, &why);
	reply(r->ex, &why);
	request_end(r);
}

static void on_token(void *arg, const struct err *err, const struct kube_identity *who)
{
	static const struct kube_access access = {.verb = "get", .path = PATH};
	struct request *r = arg;

	if (!err) {
		r->username = xstrdup(who->username);
		kube_review_access_start(r->s->kube, who, &access, 0, on_access, r, &r->scope);
		return;
	}
	if (err->kind == ERR_DENIED)
		http_reply_unauthorized(r->ex, REALM, true,
					"the API server doesn't accept this token");
	else
		reply_unknown(r->ex, err);
	request_end(r);
}

static void handle_metrics(struct http_exchange *ex, void *arg)
{
	const struct daemon *d = arg;
	struct scrape *s = d->scrape;
	struct str token = http_headers_bearer(ex->headers);
	const struct answer *known;
	struct request *r;

	if (!s) {
		observe_reply_metrics(ex);
		return;
	}
	if (!token.p) {
		http_reply_unauthorized(ex, REALM, false,
					"send a token that the API server accepts: "
					"Authorization: Bearer TOKEN");
		return;
	}
	r = xcalloc(1, sizeof(*r));
	hash_sha256(&token, 1, r->key);
	known = recall(s, r->key);
	if (known) {
		reply(ex, &known->err);
		free(r);
		return;
	}
	r->s = s;
	r->ex = ex;
	list_append(&s->requests, &r->link);
	scope_init(&r->scope);
	http_exchange_on_abort(ex, on_abort, r);
	kube_review_token_start(s->reviewer, token, on_token, r, &r->scope);
}

void scrape_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, PATH, handle_metrics},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- its certificate ---- */

/* The role node alone may not see the operator's Secret. Whoever scrapes reaches it by the node's
 * address, and can't verify what it has; an administrator's files he can. */
static int make_own(struct scrape *s, struct err *err)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "::1", NULL};

	if (s->d->config->roles != ROLE_NODE)
		return 0;
	return cert_own_new(s->d->loop, names, &s->own, err);
}

struct tls_config *scrape_tls(const struct scrape *s)
{
	if (s->files)
		return certfile_tls(s->files);
	return s->own ? cert_own_tls(s->own) : NULL;
}

void scrape_follow(struct scrape *s, certfile_fn *on_change, void *arg)
{
	if (s->files)
		certfile_follow(s->files, on_change, arg);
	else if (s->own)
		cert_own_follow(s->own, on_change, arg);
}

/* ---- life ---- */

int scrape_start(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;
	/* Any token that the API server itself takes, as kube-rbac-proxy does. */
	const struct kube_reviewer_opts opts = {.cache_ms = KEEP_MS};
	struct kube_client_opts ko = {
		.loop = d->loop,
		.net = d->net,
		.config = d->kube_config,
		.helper = d->helper,
		.max_connections = 1,
		.hears_with = d->kube,
	};
	struct scrape *s = xcalloc(1, sizeof(*s));

	d->scrape = s;
	s->d = d;
	list_init(&s->requests);
	if (kube_client_new(&ko, &s->kube, err) < 0)
		return -1;
	s->reviewer = kube_reviewer_new(s->kube, &opts);
	if (!c->metrics_cert[0])
		return make_own(s, err);
	if (certfile_new(d->loop, c->metrics_cert, c->metrics_key, NULL, &s->files, err) < 0)
		return err_wrap(err, "metrics.certFile");
	return 0;
}

struct certfile *scrape_files(const struct scrape *s)
{
	return s->files;
}

/* After its server: no request waits any more. */
void scrape_stop(struct daemon *d)
{
	struct scrape *s = d->scrape;

	if (!s)
		return;
	d->scrape = NULL;
	kube_reviewer_free(s->reviewer);
	kube_client_free(s->kube);
	certfile_free(s->files);
	cert_own_free(s->own);
	free(s);
}
