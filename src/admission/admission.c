/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler: each review through its states, by step(). Nothing is written anywhere on the way,
 * so a dry run is handled like any other review.
 */
#include "admission/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admission/away.h"
#include "admission/bounds.h"
#include "admission/patch.h"
#include "admission/review.h"
#include "core/list.h"
#include "core/log.h"
#include "core/metrics.h"
#include "kube/object.h"

#define ANSWER_LIMIT ((size_t)24 << 20)
#define LOG_EVERY_MS 1000 /* of what is no review: anybody may send that */

/* Whoever is asked keeps the deadline; this is for the case that he doesn't. */
#define LATE_MS 200

/* The API server's time, less this: it rounds up what it has left to whole seconds, and the answer
 * must get back. */
#define MARGIN_MS           1250
#define DEFAULT_DEADLINE_MS 10000
#define MAX_DEADLINE_MS     60000

enum webhook { MUTATE_JOB, VALIDATE_JOB, MUTATE_POD, WEBHOOKS };

static const struct {
	const char *path;
	const char *name; /* in metrics */
	const char *group, *resource;
} webhooks[WEBHOOKS] = {
	[MUTATE_JOB] = {ADMISSION_PATH_MUTATE_JOB, "mutate-ipujob", "graphcore.ai", "ipujobs"},
	[VALIDATE_JOB] = {ADMISSION_PATH_VALIDATE_JOB, "validate-ipujob", "graphcore.ai",
			  "ipujobs"},
	[MUTATE_POD] = {ADMISSION_PATH_MUTATE_POD, "mutate-pod", "", "pods"},
};

struct admission {
	struct admission_config config;
	struct log_limit unreadable, sent_away;
	struct away away;
	bool left; /* config.leave has been told so */
};

enum state {
	STATE_JUDGE,  /* read: what pure code has to say of it */
	STATE_ASK,    /* the API server is being asked */
	STATE_ANSWER, /* the findings are complete */
};

/* One review under way. */
struct pending {
	struct admission *a;
	struct http_exchange *ex;
	enum state state;
	unsigned deadline_ms; /* from its arrival */
	struct scope scope;
	struct loop_timer late;
	enum webhook webhook;
	struct admission_review review;
	struct admission_findings findings;
	struct jmut_doc *doc;
	struct jmut *patch; /* in doc; NULL: none */
};

static struct {
	struct metric *reviews, *seconds;
} m;

/* ---- deadlines ---- */

/* One part of a duration, "1.5s", in microseconds; false: it's none. */
static bool take_part(struct str *s, int64_t *us)
{
	static const struct {
		const char *unit;
		int64_t us;
	} units[] = {{"ms", 1000}, {"us", 1}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}};
	double n = 0, scale = 0;
	size_t digits = 0;

	for (; s->len && digits < 12 && (*s->p == '.' || (*s->p >= '0' && *s->p <= '9'));
	     s->p++, s->len--) {
		if (*s->p == '.') {
			if (scale > 0)
				return false;
			scale = 1;
			continue;
		}
		n = n * 10 + (*s->p - '0');
		scale *= 10;
		digits++;
	}
	for (size_t i = 0; digits && i < sizeof(units) / sizeof(units[0]); i++) {
		if (!str_has_prefix(*s, str_of(units[i].unit)))
			continue;
		s->p += strlen(units[i].unit);
		s->len -= strlen(units[i].unit);
		n = n / (scale > 0 ? scale : 1) * (double)units[i].us;
		*us += n < MAX_DEADLINE_MS * 1000.0 ? (int64_t)n : MAX_DEADLINE_MS * 1000;
		return true;
	}
	return false;
}

unsigned admission_deadline_ms(struct str query)
{
	CLEANUP_FREE char *text = http_query_get(query, "timeout", NULL);
	struct str rest = str_of(text);
	int64_t us = 0, ms, most = MAX_DEADLINE_MS;

	while (rest.len && us <= most * 1000) {
		if (!take_part(&rest, &us)) {
			us = 0;
			break;
		}
	}
	ms = us > 0 ? us / 1000 : DEFAULT_DEADLINE_MS;
	if (ms > most)
		ms = most;
	return (unsigned)(ms - MARGIN_MS > ms / 2 ? ms - MARGIN_MS : ms / 2);
}

/* ---- answers ---- */

static void count(enum webhook webhook, const char *result)
{
	const char *values[] = {webhooks[webhook].name, result};

	metric_add(m.reviews, values, 1);
}

static void pending_free(struct pending *p)
{
	scope_cancel(&p->scope);
	loop_timer_stop(&p->late);
	admission_review_done(&p->review);
	admission_findings_done(&p->findings);
	jmut_doc_free(p->doc);
	loop_reap(p->a->config.loop, p, free);
}

static void log_refusal(const struct pending *p)
{
	const struct admission_review *r = &p->review;
	const struct admission_findings *f = &p->findings;
	char key[KUBE_KEY_SIZE];

	log_info("admission", kube_key(str_of(r->ns), str_of(r->name), key).p,
		 "refused: kind=%s operation=%s user=%s problems=%zu path=%s first=%s", r->kind,
		 admission_operation_name(r->operation), r->user.username,
		 f->n_problems + f->n_more, f->denied ? "" : f->problems[0].path,
		 f->denied ? f->denied : f->problems[0].message);
}

static void answer(struct pending *p)
{
	struct buf text = BUF_INIT(ANSWER_LIMIT);
	struct err err = ERR_INIT;

	if (admission_review_answer(&p->review, &p->findings, p->patch, &text, &err) < 0) {
		log_error("admission", NULL, "an answer can't be written: %s", err.msg);
		count(p->webhook, "failed");
		http_reply_err(p->ex, &err);
	} else {
		if (!admission_is_allowed(&p->findings))
			log_refusal(p);
		count(p->webhook, !admission_is_allowed(&p->findings) ? "refused"
				  : p->patch                          ? "patched"
								      : "allowed");
		http_reply(p->ex, 200, "application/json", NULL, 0, buf_str(&text));
	}
	buf_done(&text);
	pending_free(p);
}

/* ---- judging ---- */

/* The patch that makes what the root of p->doc is. */
static void make_patch(struct pending *p)
{
	struct err err;

	if (admission_patch_make(p->doc, p->review.object, jmut_view(jmut_root(p->doc)), &p->patch,
				 &err) < 0)
		admission_deny(&p->findings, 500, "%s", err.msg);
}

/* The schema is asked between the two webhooks, and where it says no, the second one isn't: all
 * that is wrong can only be told here. What is unwise is for the second one to tell. */
static void mutate_job(struct pending *p)
{
	const struct admission_review *r = &p->review;
	struct admission_site site = {0};
	struct err err;

	p->a->config.site(p->a->config.arg, r->ns, &site);
	p->doc = jmut_doc_new();
	if (admission_job_default(p->doc, r->old_object, r->object, &err) < 0) {
		admission_deny(&p->findings, 422, "%s", err.msg);
		return;
	}
	admission_job_check(&site.job, r->old_object, jmut_view(jmut_root(p->doc)), &p->findings);
	if (!admission_is_allowed(&p->findings))
		return;
	admission_findings_done(&p->findings);
	make_patch(p);
}

static void validate_job(struct pending *p)
{
	struct admission_site site = {0};

	p->a->config.site(p->a->config.arg, p->review.ns, &site);
	admission_job_check(&site.job, p->review.old_object, p->review.object, &p->findings);
}

static void on_pod_warning(void *arg, const char *warning)
{
	admission_warn(arg, "%s", warning);
}

/* "metadata.annotations[graphcore.ai/ipus]: must be …" is a field's problem, and so told. */
static void refuse_pod(struct admission_findings *f, const struct err *err)
{
	struct str path, words;

	if (err->kind == ERR_INVALID && str_cut(str_of(err->msg), ':', &path, &words)) {
		CLEANUP_FREE char *at = str_dup(path), *what = str_dup(str_trim(words));

		admission_problem(f, at, "Invalid", "%s", what);
	} else {
		admission_deny(f, err->kind == ERR_UNAVAILABLE ? 503 : 403, "%s", err->msg);
	}
}

static void mutate_pod(struct pending *p)
{
	struct admission_site site = {0};
	char token[POD_TOKEN_SIZE];
	struct err err = ERR_INIT;
	int rc;

	p->a->config.site(p->a->config.arg, p->review.ns, &site);
	pod_token_make(token);
	p->doc = jmut_doc_new();
	rc = pod_inject(p->doc, p->review.object, token, &site.pods, on_pod_warning, &p->findings,
			&err);
	if (rc < 0)
		refuse_pod(&p->findings, &err);
	else if (rc > 0)
		make_patch(p);
}

/* Whether this review is about something that isn't for us to judge: it passes. */
static bool passes(struct pending *p)
{
	const struct admission_review *r = &p->review;

	if (strcmp(r->resource_group, webhooks[p->webhook].group) != 0 ||
	    strcmp(r->resource, webhooks[p->webhook].resource) != 0) {
		admission_warn(&p->findings,
			       "the webhook at %s is for %s, not for %s: look at its registration",
			       webhooks[p->webhook].path, webhooks[p->webhook].resource,
			       r->resource);
		return true;
	}
	/* Of a Pod that is there nothing can be changed that we would. */
	return r->subresource[0] ||
	       (r->operation != ADMISSION_CREATE &&
		(r->operation != ADMISSION_UPDATE || p->webhook == MUTATE_POD)) ||
	       admission_review_is_deleting(r);
}

/* Judging takes time that grows with the square of a list's length, and everybody waits for it: no
 * list longer than anybody needs is judged. What is stored may stay as it is. */
static bool is_bounded(struct pending *p)
{
	const struct admission_review *r = &p->review;
	const struct json *spec = json_get(r->object, "spec");

	if (p->webhook == MUTATE_POD && !pod_is_annotated(r->object))
		return true;
	if (admission_bounds_check(spec, "spec", &p->findings))
		return true;
	if (r->old_object && json_equal(spec, json_get(r->old_object, "spec")))
		admission_findings_done(&p->findings);
	return false;
}

static void judge(struct pending *p)
{
	p->state = STATE_ANSWER;
	if (passes(p) || !is_bounded(p))
		return;
	switch (p->webhook) {
	case MUTATE_JOB:
		mutate_job(p);
		break;
	case MUTATE_POD:
		mutate_pod(p);
		break;
	default:
		validate_job(p);
		if (p->a->config.access)
			p->state = STATE_ASK;
	}
}

/* ---- asking ---- */

static void step(struct pending *p);

/* As no review but an HTTP status with a time, on which the API server tries again by itself; a
 * connection of its own leads it to any replica. */
static void send_away(struct pending *p, unsigned pause_s)
{
	char seconds[16];
	const struct http_header again = {STR("Retry-After"), {seconds, 1}};

	snprintf(seconds, sizeof(seconds), "%u", pause_s);
	if (log_limit_ok(&p->a->sent_away, LOG_EVERY_MS))
		log_info("admission", p->ex->peer,
			 "sent to another replica: no word from the API server here");
	count(p->webhook, "elsewhere");
	http_reply(p->ex, 503, "text/plain; charset=utf-8", &again, 1,
		   STR("this replica has no word from the API server: ask another one\n"));
	pending_free(p);
}

static void on_asked(void *arg, bool unheard)
{
	struct pending *p = arg;
	const struct admission_config *c = &p->a->config;
	unsigned pause_s;

	p->state = STATE_ANSWER;
	if (!unheard && p->a->left)
		p->a->left = c->leave(c->arg, false);
	if (unheard && c->leave && away_may(&p->a->away, p->review.uid, p->deadline_ms, &pause_s) &&
	    c->leave(c->arg, true)) {
		p->a->left = true;
		send_away(p, pause_s);
	} else {
		step(p);
	}
}

static void on_late(struct loop_timer *timer, void *arg)
{
	struct pending *p = arg;

	(void)timer;
	scope_cancel(&p->scope);
	admission_deny(&p->findings, 504, "the API server hasn't answered in time; try again");
	p->state = STATE_ANSWER;
	step(p);
}

/* The API server has given up. */
static void on_abort(struct http_exchange *ex, void *arg)
{
	struct pending *p = arg;

	(void)ex;
	count(p->webhook, "abandoned");
	pending_free(p);
}

static void ask(struct pending *p)
{
	http_exchange_on_abort(p->ex, on_abort, p);
	http_exchange_drop_body(p->ex);
	loop_timer_start_in(&p->late, p->deadline_ms + LATE_MS);
	admission_access_start(p->a->config.access, &p->review, &p->findings, p->deadline_ms,
			       on_asked, p, &p->scope);
}

static void step(struct pending *p)
{
	if (p->state == STATE_JUDGE)
		judge(p);
	if (p->state == STATE_ASK)
		ask(p);
	else
		answer(p);
}

/* ---- reading ---- */

static bool is_json(const struct http_exchange *ex)
{
	struct str type = http_headers_get(ex->headers, "content-type"), rest;

	if (!type.p)
		return true;
	str_cut(type, ';', &type, &rest);
	return str_ieqz(str_trim(type), "application/json");
}

static void refuse(struct http_exchange *ex, struct admission *a, enum webhook webhook, int status,
		   const char *why)
{
	if (log_limit_ok(&a->unreadable, LOG_EVERY_MS))
		log_warn("admission", ex->peer, "%s: a request can't be read: %s",
			 webhooks[webhook].path, why);
	count(webhook, "unreadable");
	http_reply_problem(ex, status, "%s", why);
}

static void review(struct http_exchange *ex, struct admission *a, enum webhook webhook)
{
	struct admission_review r;
	struct pending *p;
	struct err err;

	if (!is_json(ex)) {
		refuse(ex, a, webhook, 415,
		       "the body must be JSON: Content-Type: application/json");
		return;
	}
	if (admission_review_decode(ex->body, &r, &err) < 0) {
		refuse(ex, a, webhook, err_is_no_memory(&err) ? 503 : 400, err.msg);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	*p = (struct pending){
		.a = a,
		.ex = ex,
		.webhook = webhook,
		.review = r,
		.deadline_ms = admission_deadline_ms(ex->query),
	};
	scope_init(&p->scope);
	loop_timer_init(&p->late, a->config.loop, on_late, p);
	step(p);
}

static void handle_mutate_job(struct http_exchange *ex, void *arg)
{
	review(ex, arg, MUTATE_JOB);
}

static void handle_validate_job(struct http_exchange *ex, void *arg)
{
	review(ex, arg, VALIDATE_JOB);
}

static void handle_mutate_pod(struct http_exchange *ex, void *arg)
{
	review(ex, arg, MUTATE_POD);
}

void admission_handle(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_POST, ADMISSION_PATH_MUTATE_JOB, handle_mutate_job},
		{HTTP_METHOD_POST, ADMISSION_PATH_VALIDATE_JOB, handle_validate_job},
		{HTTP_METHOD_POST, ADMISSION_PATH_MUTATE_POD, handle_mutate_pod},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- life ---- */

void admission_on_answered(const struct http_answered *answered, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < WEBHOOKS; i++) {
		if (!str_eqz(answered->ex->path, webhooks[i].path))
			continue;
		if (answered->status == 413)
			count((enum webhook)i, "unreadable");
		metric_observe(m.seconds, &webhooks[i].name, (double)answered->took_us / 1e6);
	}
}

static void register_metrics(void)
{
	static const char *const labels[] = {"webhook", "result", NULL};
	static const char *const by_webhook[] = {"webhook", NULL};
	static const double buckets[] = {0.0002, 0.0005, 0.001, 0.002, 0.005,
					 0.02,   0.1,    0.5,   2,     10};

	m.reviews = metric_new(METRIC_COUNTER, "ipu_operator_admission_reviews_total",
			       "Reviews by what became of them.", labels, NULL, 0);
	m.seconds = metric_new(METRIC_HISTOGRAM, "ipu_operator_admission_review_seconds",
			       "From a whole request to its answer.", by_webhook, buckets,
			       sizeof(buckets) / sizeof(buckets[0]));
}

struct admission *admission_new(const struct admission_config *config)
{
	struct admission *a = xcalloc(1, sizeof(*a));

	a->config = *config;
	register_metrics();
	return a;
}

void admission_free(struct admission *a)
{
	free(a);
}
