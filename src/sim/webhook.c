/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls admission webhooks. A phase (struct phase) asks those that want to see a write: mutating
 * ones one after the other, each seeing what the ones before have made of it; validating ones at
 * the same time. It holds the configurations as they were when it began. Who answers with a status
 * and Retry-After is asked again, as client-go does it for the API server.
 */
#include "sim/webhook.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/map.h"
#include "core/rand.h"
#include "core/str.h"
#include "http/client.h"
#include "kube/object.h"
#include "net/net.h"
#include "net/tls.h"
#include "sim/api_internal.h"
#include "sim/jsonpatch.h"

#define MAX_BUNDLES 16 /* so many CAs are kept ready */
#define UID_SIZE    37
#define MAX_AGAIN   10

struct sim_webhooks {
	struct loop *loop;
	struct sim_objects *objects;
	struct http_client *http;
	struct map *bundles; /* struct tls_config by caBundle, as it is written */
};

struct target {
	char host[256];
	unsigned port;
	char server_name[256]; /* "": the host's */
	char *path;            /* owned */
	char *shown;           /* owned: as it's named in messages */
};

struct call {
	struct phase *phase;
	const struct json *webhook; /* in the phase's configurations */
	const char *version;
	char uid[UID_SIZE];
	struct op *fetch; /* NULL: not running */
	struct target target;
	struct tls_config *tls;
	struct buf body;
	int64_t timeout_s, until_ms;
	unsigned tries;
	struct loop_timer again;
};

struct phase {
	struct op op;
	struct sim_webhooks *w;
	enum sim_phase kind;
	struct sim_admission a;
	sim_admitted_fn *cb;
	void *arg;
	struct sim_object **configs;
	size_t n_configs;
	struct call *calls; /* those whose rules name the write, in order; never moves */
	size_t n, next;     /* next: of the mutating ones, who is asked next */
	size_t running;
	struct loop_work work;
	struct jmut_doc *doc; /* of status */
	struct jmut *status;  /* what the write fails with; NULL: nothing yet */
};

/* ---- who ---- */

static const struct sim_resource *configs_of(enum sim_phase kind)
{
	return sim_resource_find(STR("admissionregistration.k8s.io"),
				 kind == SIM_MUTATING ? STR("mutatingwebhookconfigurations")
						      : STR("validatingwebhookconfigurations"));
}

bool sim_webhooks_want(const struct sim_webhooks *w, enum sim_phase phase,
		       const struct sim_admission *a)
{
	size_t n;
	struct sim_object **all;
	bool wanted = false;

	/* Nobody is asked about what says who is asked. */
	if (!w || sim_is_webhook_config(a->req->resource))
		return false;
	all = sim_objects_list(w->objects, configs_of(phase), STR_NULL, &n);
	for (size_t i = 0; i < n && !wanted; i++) {
		struct json_iter it = json_iter(json_get(sim_object_json(all[i]), "webhooks"));

		while (json_next(&it))
			wanted = wanted || sim_webhook_has_rule(it.value, a);
	}
	free(all);
	return wanted;
}

static void add_call(struct phase *p, const struct json *webhook)
{
	p->calls = xrealloc(p->calls, (p->n + 1) * sizeof(*p->calls));
	p->calls[p->n++] = (struct call){
		.phase = p,
		.webhook = webhook,
		.version = sim_review_version(webhook),
	};
}

static void find_calls(struct phase *p)
{
	p->configs = sim_objects_list(p->w->objects, configs_of(p->kind), STR_NULL, &p->n_configs);
	for (size_t i = 0; i < p->n_configs; i++) {
		struct json_iter it;

		sim_object_ref(p->configs[i]);
		it = json_iter(json_get(sim_object_json(p->configs[i]), "webhooks"));
		while (json_next(&it)) {
			if (sim_webhook_has_rule(it.value, &p->a))
				add_call(p, it.value);
		}
	}
}

/* ---- the end ---- */

static void free_phase(void *arg)
{
	struct phase *p = arg;

	for (size_t i = 0; i < p->n_configs; i++)
		sim_object_unref(p->configs[i]);
	free(p->configs);
	for (size_t i = 0; i < p->n; i++) {
		free(p->calls[i].target.path);
		free(p->calls[i].target.shown);
		tls_config_unref(p->calls[i].tls);
		buf_done(&p->calls[i].body);
	}
	free(p->calls);
	jmut_doc_free(p->doc);
	free(p);
}

static void stop_phase(struct phase *p)
{
	loop_work_cancel(&p->work);
	for (size_t i = 0; i < p->n; i++) {
		op_cancel(p->calls[i].fetch);
		p->calls[i].fetch = NULL;
		loop_timer_stop(&p->calls[i].again);
	}
	loop_reap(p->w->loop, p, free_phase);
}

static void on_cancel(struct op *op)
{
	stop_phase(CONTAINER_OF(op, struct phase, op));
}

static void end_phase(struct phase *p)
{
	if (!op_end(&p->op))
		return;
	p->cb(p->arg, p->status ? jmut_view(p->status) : NULL);
	stop_phase(p);
}

/* The first one that says no counts. */
static void fail_with(struct phase *p, struct jmut *status)
{
	if (!p->status)
		p->status = status;
}

static const char *name_of(const struct call *c)
{
	return json_cstr(json_get(c->webhook, "name"));
}

/* It couldn't be asked, or its answer is none. */
static void fail_call(struct call *c, const struct err *err)
{
	struct phase *p = c->phase;
	CLEANUP_FREE char *message = NULL;

	if (str_eqz(json_str(json_get(c->webhook, "failurePolicy")), "Ignore"))
		return;
	message = xasprintf("failed calling webhook \"%s\": %s", name_of(c), err->msg);
	fail_with(p, sim_review_failed(p->doc, message));
}

/* ---- an answer ---- */

static int apply_patch(struct call *c, const char *text, struct err *err)
{
	struct sim_admission *a = &c->phase->a;
	CLEANUP_JSON struct json_doc *patch = NULL;
	struct jmut *root;

	if (json_parse(str_of(text), &patch, err) < 0)
		return err_wrap(err, "received undecodable patch in webhook response");
	if (json_len(json_root(patch)) == 0)
		return 0;
	if (!*a->root) {
		err_set(err, ERR_PROTOCOL, 500,
			"admission webhook \"%s\" attempted to modify the object, which is not "
			"supported for this operation",
			name_of(c));
		return -1;
	}
	root = jmut_clone(a->doc, *a->root);
	if (sim_json_patch(a->doc, &root, json_root(patch), err) < 0) {
		err->code = 500;
		return -1;
	}
	*a->root = root;
	a->settle(a->arg);
	return 0;
}

/* A patch that can't be applied fails the write whatever failurePolicy says; one that is no patch
 * at all is a bad answer. */
static void take_patch(struct call *c, const char *text)
{
	struct phase *p = c->phase;
	struct err err = ERR_INIT;

	if (apply_patch(c, text, &err) == 0)
		return;
	if (err.code == 500)
		fail_with(p, sim_review_failed(p->doc, err.msg));
	else
		fail_call(c, &err);
}

static void take_answer(struct call *c, const struct json *answer)
{
	struct phase *p = c->phase;
	struct sim_verdict verdict;
	struct json_iter it;
	struct err err;

	if (sim_review_read(answer, c->version, c->uid, p->kind == SIM_MUTATING, &verdict, &err) <
	    0) {
		fail_call(c, &err);
		return;
	}
	it = json_iter(verdict.warnings);
	while (json_next(&it))
		sim_warn(p->a.req, json_str(it.value));
	if (!verdict.allowed)
		fail_with(p, sim_review_denied(p->doc, name_of(c), verdict.status));
	else if (verdict.patch)
		take_patch(c, verdict.patch);
	free(verdict.patch);
}

static void step(struct phase *p);

static void read_response(struct call *c, const struct http_response *response)
{
	CLEANUP_JSON struct json_doc *answer = NULL;
	struct err err;
	int status = response->head->status;

	if (status < 200 || status > 206) {
		err_set(&err, ERR_PROTOCOL, 0,
			"failed to call webhook: the server responded with the status code %d but "
			"did not return more information",
			status);
		fail_call(c, &err);
	} else if (json_parse(response->body, &answer, &err) < 0) {
		err_wrap(&err,
			 "failed to call webhook: couldn't get version/kind; json parse error");
		fail_call(c, &err);
	} else {
		take_answer(c, json_root(answer));
	}
}

static void fail_post(struct call *c, const struct err *why)
{
	bool late = why->kind == ERR_TIMEOUT;
	struct err err;

	err_set(&err, why->kind, why->code,
		"failed to call webhook: Post \"%s?timeout=%" PRId64 "s\": %s%s", c->target.shown,
		c->timeout_s, late ? "context deadline exceeded: " : "", why->msg);
	fail_call(c, &err);
}

/* In whole seconds alone, as Go reads it. */
static bool wants_again(const struct call *c, const struct http_head *head, int64_t *ret_s)
{
	return (head->status == 429 || head->status >= 500) && c->tries <= MAX_AGAIN &&
	       str_to_int(http_headers_get(&head->headers, "retry-after"), 0, 3600, ret_s, NULL) ==
		       0;
}

static void on_answer(void *arg, const struct http_response *response, const struct err *why)
{
	struct call *c = arg;
	struct phase *p = c->phase;
	int64_t pause_s, left_ms = c->until_ms - clock_mono_ms();

	c->fetch = NULL;
	if (response && wants_again(c, response->head, &pause_s)) {
		loop_timer_start_in(&c->again, pause_s * 1000 < left_ms ? pause_s * 1000 : left_ms);
		return;
	}
	p->running--;
	if (response)
		read_response(c, response);
	else
		fail_post(c, why);
	step(p);
}

static void send_review(struct call *c)
{
	static const struct http_header headers[] = {
		HTTP_H("Content-Type", "application/json"),
		HTTP_H("Accept", "application/json"),
	};
	const struct target *t = &c->target;
	CLEANUP_FREE char *target = xasprintf("%s?timeout=%" PRId64 "s", t->path, c->timeout_s);
	unsigned ms = (unsigned)(c->until_ms - clock_mono_ms());

	c->tries++;
	c->fetch = http_fetch_start(c->phase->w->http,
				    &(struct http_request){
					    .origin = {t->host, t->port, c->tls,
						       t->server_name[0] ? t->server_name : NULL},
					    .method = HTTP_METHOD_POST,
					    .target = str_of(target),
					    .headers = headers,
					    .n_headers = 2,
					    .body = buf_str(&c->body),
					    .connect_ms = ms,
					    .first_byte_ms = ms,
					    .total_ms = ms,
				    },
				    on_answer, c, NULL);
}

static void on_again(struct loop_timer *timer, void *arg)
{
	struct call *c = arg;
	struct err late;

	(void)timer;
	if (clock_mono_ms() < c->until_ms) {
		send_review(c);
		return;
	}
	err_set(&late, ERR_TIMEOUT, 0, "its time passed while we waited to ask again");
	c->phase->running--;
	fail_post(c, &late);
	step(c->phase);
}

/* ---- a question ---- */

static struct tls_config *need_tls(struct sim_webhooks *w, struct str bundle, struct err *err)
{
	struct tls_config *tls = map_get(w->bundles, bundle);
	struct tls_client_opts opts = {0};
	CLEANUP_FREE uint8_t *pem = NULL;

	if (tls)
		return tls;
	if (bundle.len) {
		if (base64_decode(bundle, &pem, &opts.ca_pem.len, err) < 0)
			return NULL;
		opts.ca_pem.p = (const char *)pem;
	}
	if (tls_config_new_client(&opts, &tls, err) < 0) {
		err_wrap(err, "unable to load root certificates");
		return NULL;
	}
	if (map_len(w->bundles) >= MAX_BUNDLES) {
		struct map_iter it = MAP_ITER(w->bundles);

		while (map_next(&it))
			tls_config_unref(it.value);
		map_free(w->bundles);
		w->bundles = map_new();
	}
	map_put(w->bundles, bundle, tls);
	return tls;
}

/* As services/proxy does: the Service's clusterIP, and its port's targetPort. */
static int find_service(struct sim_webhooks *w, const struct json *ref, struct target *t,
			struct err *err)
{
	struct str ns = json_str(json_get(ref, "namespace")),
		   name = json_str(json_get(ref, "name")), path = json_str(json_get(ref, "path"));
	int64_t port = json_int(json_get(ref, "port"), 443);
	const struct sim_object *o = sim_objects_get(
		w->objects, sim_resource_find(STR_NULL, STR("services")), ns, name);
	struct json_iter it = json_iter(o ? json_at(sim_object_json(o), "spec", "ports", NULL)
					  : NULL);
	struct str ip = o ? json_str(json_at(sim_object_json(o), "spec", "clusterIP", NULL))
			  : STR_NULL;

	if (!o)
		return err_set(err, ERR_NOT_FOUND, 0,
			       "failed to call webhook: service \"%.*s\" not found", STR_ARG(name));
	snprintf(t->host, sizeof(t->host), "%.*s", STR_ARG(ip));
	snprintf(t->server_name, sizeof(t->server_name), "%.*s.%.*s.svc", STR_ARG(name),
		 STR_ARG(ns));
	while (json_next(&it)) {
		if (json_int(json_get(it.value, "port"), -1) == port)
			t->port = (unsigned)json_int(json_get(it.value, "targetPort"), port);
	}
	if (!ip.len || !t->port)
		return err_set(err, ERR_UNAVAILABLE, 0,
			       "failed to call webhook: no service port %" PRId64
			       " found for service \"%.*s\"",
			       port, STR_ARG(name));
	t->path = path.len ? str_dup(path) : xstrdup("/");
	t->shown = xasprintf("https://%s:%" PRId64 "%s", t->server_name, port, t->path);
	return 0;
}

static int find_target(struct call *c, struct target *t, struct err *err)
{
	const struct json *client = json_get(c->webhook, "clientConfig");
	struct str text = json_str(json_get(client, "url"));
	struct http_url url;

	if (!text.len)
		return find_service(c->phase->w, json_get(client, "service"), t, err);
	if (http_url_parse(text, &url, err) < 0)
		return -1;
	snprintf(t->host, sizeof(t->host), "%s", url.host);
	t->port = url.port;
	t->path = str_dup(url.target);
	t->shown = str_dup(text);
	return 0;
}

static void write_review(struct call *c, struct jmut_doc *doc, struct jmut *request,
			 struct buf *out)
{
	struct jmut *root = jmut_object(doc);

	jmut_set_str(doc, root, "kind", "AdmissionReview");
	jmut_set(doc, root, "apiVersion", jmut_strf(doc, "admission.k8s.io/%s", c->version));
	jmut_set(doc, root, "request", request);
	jmut_write(root, JSON_COMPACT, out, NULL);
}

static int start_call(struct call *c, struct jmut_doc *doc, struct jmut *request, struct err *err)
{
	struct sim_webhooks *w = c->phase->w;
	struct str bundle = json_str(json_at(c->webhook, "clientConfig", "caBundle", NULL));

	c->tls = tls_config_ref(need_tls(w, bundle, err));
	if (!c->tls || find_target(c, &c->target, err) < 0)
		return -1;
	c->timeout_s = json_int(json_get(c->webhook, "timeoutSeconds"), 10);
	c->until_ms = clock_mono_ms() + c->timeout_s * 1000;
	buf_init(&c->body, (size_t)64 << 20);
	write_review(c, doc, request, &c->body);
	c->phase->running++;
	send_review(c);
	return 0;
}

static void make_uid(char ret[UID_SIZE])
{
	uint8_t b[16];
	char hex[33];

	rand_bytes(b, sizeof(b));
	hex_encode(b, sizeof(b), hex);
	snprintf(ret, UID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
		 hex + 20);
}

/* Asks one, if it wants to see the write as it is now. */
static void ask(struct call *c)
{
	struct phase *p = c->phase;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct sim_admission *a = &p->a;
	struct jmut *request;
	enum sim_match match;
	struct err err = ERR_INIT;

	make_uid(c->uid);
	request = sim_review_request(a, doc, c->uid);
	match = sim_webhook_matches(c->webhook, a, jmut_view(request), &err);
	if (match == SIM_MATCH && start_call(c, doc, request, &err) < 0)
		fail_call(c, &err);
	else if (match == SIM_MATCH_UNKNOWN)
		fail_with(p, sim_status_forbidden(p->doc, a->req, err.msg));
}

static void step(struct phase *p)
{
	while (p->running == 0 && !p->status && p->next < p->n)
		ask(&p->calls[p->next++]);
	if (p->running == 0)
		end_phase(p);
}

static void begin(struct loop_work *work, void *arg)
{
	struct phase *p = arg;

	(void)work;
	if (p->kind == SIM_VALIDATING) {
		for (p->next = 0; p->next < p->n; p->next++)
			ask(&p->calls[p->next]);
	}
	step(p);
}

struct op *sim_webhooks_start(struct sim_webhooks *w, enum sim_phase phase,
			      const struct sim_admission *a, sim_admitted_fn *cb, void *arg)
{
	struct phase *p = xcalloc(1, sizeof(*p));

	p->w = w;
	p->kind = phase;
	p->a = *a;
	p->cb = cb;
	p->arg = arg;
	p->doc = jmut_doc_new();
	find_calls(p);
	for (size_t i = 0; i < p->n; i++)
		loop_timer_init(&p->calls[i].again, w->loop, on_again, &p->calls[i]);
	op_begin(&p->op, NULL, on_cancel);
	loop_work_init(&p->work, w->loop, begin, p);
	loop_work_post(&p->work);
	return &p->op;
}

/* ---- life ---- */

struct sim_webhooks *sim_webhooks_new(struct loop *loop, struct sim_objects *objects,
				      struct net *net)
{
	struct sim_webhooks *w = xcalloc(1, sizeof(*w));

	w->loop = loop;
	w->objects = objects;
	w->http = http_client_new(
		net, &(struct http_client_config){.user_agent = "kube-apiserver-admission"});
	w->bundles = map_new();
	return w;
}

void sim_webhooks_free(struct sim_webhooks *w)
{
	struct map_iter it;

	if (!w)
		return;
	http_client_free(w->http);
	it = (struct map_iter)MAP_ITER(w->bundles);
	while (map_next(&it))
		tls_config_unref(it.value);
	map_free(w->bundles);
	free(w);
}
