/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the webhook configurations: for each a level-triggered state machine over what a watch
 * shows of it, with at most one write under way. Owns its watches, calls and what it has seen;
 * freed by the loop's reaper. Uses core/, loop/, kube/.
 */
#include "admission/registration.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/log.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "loop/op.h"

#define CALL_MS          10000
#define LOOK_MS          5000 /* while the bundle isn't shared, or known: nobody tells of that */
#define AGAIN_MS         1000 /* what there was no memory for */
#define MAX_OBJECT_BYTES ((size_t)1 << 20)

enum known { UNKNOWN, ABSENT, THERE };

struct side {
	struct admission_registration *r;
	enum admission_kind kind;
	const struct kube_resource *resource;
	char *name;

	struct kube_watch *watch;
	struct op *call;
	struct loop_timer timer;
	struct backoff backoff;
	int64_t try_at_ms; /* monotonic, as all here */

	bool unread; /* there was no memory for what the watch showed: it begins anew */
	enum known known;
	struct json_doc *seen; /* with THERE */
	enum admission_match match;
	bool ours_is_newer; /* no other has written a bundle since this one is ours */
	int64_t since_ms;   /* how long it has been right; or not */
	struct err err, said;
};

struct admission_registration {
	struct kube_client *client;
	struct admission_webhooks webhooks; /* with these: */
	char *url, *ns, *namespaces, *failure_policy;
	admission_bundle_fn *bundle;
	void *bundle_arg;
	int64_t lag_ms;
	struct scope scope;
	struct loop_work work;
	bool freed;
	struct side sides[ADMISSION_KINDS];
};

static void free_registration(void *p)
{
	struct admission_registration *r = p;

	for (size_t i = 0; i < ADMISSION_KINDS; i++) {
		json_doc_free(r->sides[i].seen);
		free(r->sides[i].name);
	}
	free(r->url);
	free(r->ns);
	free(r->namespaces);
	free(r->failure_policy);
	free(r);
}

static bool makes_objects(const struct admission_registration *r)
{
	return r->webhooks.url && r->webhooks.url[0];
}

static const struct json *object(const struct side *s)
{
	return s->known == THERE ? json_root(s->seen) : NULL;
}

static struct admission_bundle bundle(const struct admission_registration *r)
{
	struct admission_bundle b = {0};

	r->bundle(r->bundle_arg, &b);
	return b;
}

/* ---- what is wrong ---- */

static void trouble(struct side *s, const struct err *err, const char *what)
{
	s->err = *err;
	err_wrap(&s->err, "%s %s %s", s->resource->kind, s->name, what);
	if (strcmp(s->err.msg, s->said.msg) != 0)
		log_warn("admission", s->name, "%s", s->err.msg);
	s->said = s->err;
}

static void no_trouble(struct side *s)
{
	s->err.kind = ERR_NONE;
	s->said.msg[0] = '\0';
}

/* ---- what is there ---- */

/* It won't be told of once more by itself. Until it is, nothing is known: what was written by what
 * stood there before would be a conflict. */
static void read_again(struct side *s)
{
	op_cancel(s->call);
	s->call = NULL;
	s->known = UNKNOWN;
	s->unread = true;
	loop_timer_start_in(&s->timer, AGAIN_MS);
}

static void saw(struct side *s, const struct json *object)
{
	struct buf text = BUF_INIT(MAX_OBJECT_BYTES);
	struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (object && (json_write(object, JSON_COMPACT, &text, &err) < 0 ||
		       json_parse(buf_str(&text), &doc, &err) < 0)) {
		trouble(s, &err, "can't be read");
		buf_done(&text);
		if (err_is_no_memory(&err))
			read_again(s);
		return;
	}
	buf_done(&text);
	json_doc_free(s->seen);
	s->seen = doc;
	s->known = object ? THERE : ABSENT;
	s->unread = false;
}

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct side *s = arg;

	if (!str_eqz(event->name, s->name))
		return;
	if (event->type == KUBE_DELETED) {
		if (s->known != THERE || str_eq(event->uid, kube_uid(object(s))))
			saw(s, NULL);
	} else if (s->known != THERE ||
		   kube_version_cmp(event->version, kube_version(object(s))) > 0) {
		saw(s, event->object);
	}
	loop_work_post(&s->r->work);
}

static void on_synced(void *arg)
{
	struct side *s = arg;
	struct kube_watch_status status;

	kube_watch_status(s->watch, &status);
	if (status.objects == 0 && s->known == UNKNOWN)
		saw(s, NULL);
	loop_work_post(&s->r->work);
}

static void on_state(void *arg)
{
	struct side *s = arg;
	struct kube_watch_status status;

	kube_watch_status(s->watch, &status);
	if (s->known == UNKNOWN && status.err.kind != ERR_NONE)
		trouble(s, &status.err, "can't be read");
}

/* ---- writing ---- */

static void step(struct side *s);

static void on_call(void *arg, const struct err *err, const struct kube_response *response)
{
	struct side *s = arg;

	s->call = NULL;
	/* Also after success: who undoes it is met at ever longer intervals. */
	s->try_at_ms = clock_mono_ms() + backoff_next_ms(&s->backoff, err);
	if (!err) {
		log_info("admission", s->name, "the webhook registration is written");
		saw(s, response->json);
	} else if (err->kind != ERR_CONFLICT && err->kind != ERR_EXISTS) {
		trouble(s, err, "can't be written");
	} /* else: another was faster, and the watch shows what it did */
	step(s);
}

static void start(struct side *s, struct kube_request *req)
{
	req->resource = s->resource;
	req->deadline_ms = CALL_MS;
	req->no_retry = true;
	s->call = kube_call_start(s->r->client, req, on_call, s, &s->r->scope);
}

static void create(struct side *s, struct str ca_pem)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct kube_request req = {.verb = KUBE_CREATE};

	req.json = admission_registration_make(doc, s->kind, s->name, &s->r->webhooks, ca_pem,
					       NULL);
	start(s, &req);
}

static void patch(struct side *s, const struct jmut *ops)
{
	struct kube_request req = {
		.verb = KUBE_PATCH, .patch = KUBE_PATCH_JSON, .name = s->name, .json = ops};

	start(s, &req);
}

/* ---- the next step ---- */

/* When it may be written, by what is wrong with it; monotonic. */
static int64_t due_ms(const struct side *s)
{
	int64_t lag = s->ours_is_newer ? 0 : s->r->lag_ms;

	if (s->match == ADMISSION_MATCH_EMPTY)
		return 0;
	if (s->match == ADMISSION_MATCH_LATER && lag < ADMISSION_SETTLE_MS)
		lag = ADMISSION_SETTLE_MS;
	return lag ? s->since_ms + lag : 0;
}

static void set_match(struct side *s, enum admission_match match)
{
	bool was_right = s->match == ADMISSION_MATCH_RIGHT;
	bool is_right = match == ADMISSION_MATCH_RIGHT;

	s->match = match;
	if (was_right != is_right || !s->since_ms)
		s->since_ms = clock_mono_ms();
	if (is_right)
		s->ours_is_newer = false;
}

static void step_right(struct side *s, int64_t *wake_ms)
{
	int64_t calm = s->since_ms + ADMISSION_CALM_MS;

	no_trouble(s);
	if (clock_mono_ms() >= calm)
		backoff_reset(&s->backoff);
	else if (s->backoff.tries)
		*wake_ms = calm;
}

/* It's there, and not as it should be. */
static void step_wrong(struct side *s, const struct admission_bundle *b, const struct jmut *ops,
		       int64_t *wake_ms)
{
	int64_t now = clock_mono_ms(), due = due_ms(s);
	struct err err = ERR_INIT;

	if (b->ca_pem.len && !b->shared && s->match != ADMISSION_MATCH_EMPTY) {
		err_set(&err, ERR_UNAVAILABLE, 0,
			"the certificates' Secret can't be had, and other replicas may trust "
			"another authority");
		trouble(s, &err, "isn't written");
		*wake_ms = now + LOOK_MS;
		return;
	}
	if (due < s->try_at_ms)
		due = s->try_at_ms;
	if (due > now)
		*wake_ms = due;
	else
		patch(s, ops);
}

static void step_there(struct side *s, const struct admission_bundle *b, int64_t *wake_ms)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	enum admission_match match;
	struct jmut *ops;
	struct err err = ERR_INIT;

	if (admission_registration_compare(doc, object(s), s->kind, &s->r->webhooks, b->ca_pem,
					   &match, &ops, &err) < 0) {
		trouble(s, &err, "can't be compared");
		*wake_ms = clock_mono_ms() + AGAIN_MS;
		return;
	}
	set_match(s, match);
	if (s->match == ADMISSION_MATCH_RIGHT)
		step_right(s, wake_ms);
	else
		step_wrong(s, b, ops, wake_ms);
}

static void step(struct side *s)
{
	struct admission_bundle b = bundle(s->r);
	int64_t wake = -1, now = clock_mono_ms();

	if (s->r->freed || s->call || s->known == UNKNOWN)
		return;
	if (!b.known) {
		wake = now + LOOK_MS;
	} else if (s->known == THERE) {
		step_there(s, &b, &wake);
	} else if (!makes_objects(s->r)) {
		no_trouble(s);
	} else if (s->try_at_ms > now) {
		wake = s->try_at_ms;
	} else {
		create(s, b.ca_pem);
	}
	if (wake >= 0)
		loop_timer_start_at(&s->timer, wake);
}

static void start_watch(struct side *s)
{
	static const struct kube_watch_ops ops = {
		.on_event = on_event, .on_synced = on_synced, .on_state = on_state};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", s->name);
	struct kube_watch_opts opts = {.resource = s->resource, .field_selector = selector};

	s->unread = false;
	s->watch = kube_watch_start(s->r->client, &opts, &ops, s, &s->r->scope);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct side *s = arg;

	(void)timer;
	if (s->unread) {
		kube_watch_cancel(s->watch);
		start_watch(s);
	}
	step(s);
}

static void on_work(struct loop_work *work, void *arg)
{
	struct admission_registration *r = arg;

	(void)work;
	for (size_t i = 0; i < ADMISSION_KINDS; i++)
		step(&r->sides[i]);
}

void admission_registration_changed(struct admission_registration *r)
{
	for (size_t i = 0; i < ADMISSION_KINDS; i++)
		r->sides[i].ours_is_newer = true;
	loop_work_post(&r->work);
}

/* ---- readiness ---- */

static bool side_ready(const struct side *s, const struct admission_bundle *b, struct err *why)
{
	enum admission_match match = ADMISSION_MATCH_RIGHT;

	if (s->known == THERE && b->known) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *ops;

		if (admission_registration_compare(doc, object(s), s->kind, &s->r->webhooks,
						   b->ca_pem, &match, &ops, why) < 0) {
			err_wrap(why, "%s %s can't be compared", s->resource->kind, s->name);
			return false;
		}
	}
	if (s->known != UNKNOWN && b->known && match < ADMISSION_MATCH_UNTRUSTED &&
	    (s->known == THERE || !makes_objects(s->r)))
		return true;
	if (!b->known)
		err_set(why, ERR_UNAVAILABLE, 0, "the webhooks have no certificate yet");
	else if (s->err.kind != ERR_NONE)
		err_copy(why, &s->err);
	else
		err_set(why, ERR_UNAVAILABLE, 0, "%s %s %s", s->resource->kind, s->name,
			s->known == UNKNOWN  ? "hasn't been read yet"
			: s->known == ABSENT ? "isn't made yet"
					     : "doesn't trust our certificate yet");
	return false;
}

bool admission_registration_ready(const struct admission_registration *r, struct err *why)
{
	struct admission_bundle b = bundle(r);
	struct err unused;

	for (size_t i = 0; i < ADMISSION_KINDS; i++) {
		if (!side_ready(&r->sides[i], &b, why ? why : &unused))
			return false;
	}
	return true;
}

bool admission_registration_fails_closed(const struct admission_registration *r)
{
	const struct json *o = object(&r->sides[ADMISSION_VALIDATING]);
	struct json_iter it = json_iter(json_get(o, "webhooks"));
	bool any = false;

	while (json_next(&it)) {
		if (!str_eqz(json_str(json_get(it.value, "name")), ADMISSION_WEBHOOK_VALIDATE_JOB))
			continue;
		if (!str_eqz(json_str(json_get(it.value, "failurePolicy")), "Fail"))
			return false;
		any = true;
	}
	return any;
}

/* ---- life ---- */

static void begin_side(struct admission_registration *r, enum admission_kind kind, const char *name)
{
	struct side *s = &r->sides[kind];

	s->r = r;
	s->kind = kind;
	s->resource = kind == ADMISSION_MUTATING ? &KUBE_MUTATINGWEBHOOKS
						 : &KUBE_VALIDATINGWEBHOOKS;
	s->name = xstrdup(name);
	s->ours_is_newer = true;
	s->backoff = (struct backoff)BACKOFF_INIT(1000, ADMISSION_BACKOFF_MS);
	loop_timer_init(&s->timer, kube_client_loop(r->client), on_timer, s);
	start_watch(s);
}

struct admission_registration *
admission_registration_new(struct kube_client *client,
			   const struct admission_registration_opts *opts)
{
	struct admission_registration *r = xcalloc(1, sizeof(*r));
	const struct admission_webhooks *w = &opts->webhooks;

	r->client = client;
	r->webhooks = *w;
	r->webhooks.url = r->url = xstrdup(w->url);
	r->webhooks.ns = r->ns = xstrdup(w->ns);
	r->webhooks.scope = r->namespaces = xstrdup(w->scope);
	r->webhooks.failure_policy = r->failure_policy = xstrdup(w->failure_policy);
	r->bundle = opts->bundle;
	r->bundle_arg = opts->bundle_arg;
	r->lag_ms = opts->lag_ms;
	scope_init(&r->scope);
	loop_work_init(&r->work, kube_client_loop(client), on_work, r);
	begin_side(r, ADMISSION_MUTATING, opts->mutating);
	begin_side(r, ADMISSION_VALIDATING, opts->validating);
	return r;
}

void admission_registration_free(struct admission_registration *r)
{
	if (!r || r->freed)
		return;
	r->freed = true;
	scope_cancel(&r->scope);
	loop_work_cancel(&r->work);
	for (size_t i = 0; i < ADMISSION_KINDS; i++)
		loop_timer_stop(&r->sides[i].timer);
	loop_reap(kube_client_loop(r->client), r, free_registration);
}
