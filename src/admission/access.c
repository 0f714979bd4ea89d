/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One review's questions: all are begun at once, each answer wakes step(), which ends the review
 * when nothing is open any more or its time is over. Facts are shared between reviews; dry runs are
 * each review's own, of which only a few run at a time. Uses kube/, job/.
 */
#include "admission/access.h"

#include <stdlib.h>

#include "access_facts.h"
#include "access_pods.h"
#include "core/clock.h"
#include "core/list.h"
#include "core/str.h"
#include "job/model.h"

#define MAX_RUNNING (ADMISSION_ACCESS_CONNECTIONS - 2)
#define MAX_WAITING 64
/* Without a word from the API server for so long this replica alone may have lost it: another one
 * should be asked. A busy one takes 2 or 3 s, and isn't helped by being asked by all replicas in
 * turn. Looked at each LISTEN_MS. */
#define SILENT_MS  4000
#define LISTEN_MS  250
#define MAX_ANSWER ((size_t)4 << 20) /* the Pod comes back */

struct admission_access {
	struct kube_client *client;
	struct admission_access_opts opts;
	struct access_facts *facts;
	struct list askings;
	struct list waiting; /* struct try: dry runs that wait for others to end */
	unsigned running, n_waiting;
};

/* A Pod's dry run. */
struct
try {
	struct asking *asking;
	bool launcher;
	enum { TRY_NONE, TRY_WAITING, TRY_RUNNING, TRY_ENDED } state;
	struct list link; /* while it waits */
	struct op *call;
	enum access_verdict verdict;
	char *why; /* of ACCESS_INSECURE */
};

struct asking {
	struct op op;
	struct list link;
	struct admission_access *a;
	const struct admission_review *r;
	struct admission_findings *out;
	admission_access_fn *cb;
	void *arg;

	struct loop_work work;
	struct loop_timer timer, listen;
	bool late, unheard, wants_exec, has_pods;
	struct access_wait create, exec, levels;
	struct access_pods pods;
	struct try tries[2];              /* the worker's, the launcher's */
	struct admission_findings doubts; /* of dry runs; dropped where the requester may not */
};

/* ---- dry runs ---- */

static void start_waiting(struct admission_access *a);

static void end_try(struct try *t)
{
	struct admission_access *a = t->asking->a;

	if (t->state == TRY_WAITING) {
		list_unlink(&t->link);
		a->n_waiting--;
	}
	if (t->state == TRY_RUNNING)
		a->running--;
	t->state = TRY_ENDED;
	t->call = NULL;
}

static void on_tried(void *arg, const struct err *err, const struct kube_response *response)
{
	struct try *t = arg;
	struct asking *q = t->asking;

	end_try(t);
	t->verdict = access_pods_judge(q->r, &q->pods, t->launcher, err, response, &q->doubts,
				       &t->why);
	loop_work_post(&q->work);
	start_waiting(q->a);
}

static void run_try(struct try *t)
{
	struct asking *q = t->asking;
	int64_t left_ms = q->timer.at_ms - clock_mono_ms();
	struct kube_request req = {
		.verb = KUBE_CREATE,
		.resource = &KUBE_PODS,
		.ns = q->r->ns,
		.json = jmut_root(t->launcher ? q->pods.launcher : q->pods.worker),
		.dry_run = true,
		.deadline_ms = left_ms > 0 ? (unsigned)left_ms : 1,
		.max_response_bytes = MAX_ANSWER,
	};

	t->state = TRY_RUNNING;
	q->a->running++;
	t->call = kube_call_start(q->a->client, &req, on_tried, t, NULL);
}

static void start_waiting(struct admission_access *a)
{
	while (a->running < MAX_RUNNING && !list_empty(&a->waiting)) {
		struct try *t = CONTAINER_OF(a->waiting.next, struct try, link);

		list_unlink(&t->link);
		a->n_waiting--;
		run_try(t);
	}
}

static void begin_try(struct asking *q, bool launcher)
{
	struct try *t = &q->tries[launcher];
	struct admission_access *a = q->a;

	*t = (struct try){.asking = q, .launcher = launcher};
	list_init(&t->link);
	if (a->n_waiting >= MAX_WAITING) {
		t->state = TRY_ENDED;
		admission_warn(&q->doubts, "The job's Pods haven't been tried: too many others are "
					   "being tried now");
		return;
	}
	t->state = TRY_WAITING;
	list_append(&a->waiting, &t->link);
	a->n_waiting++;
}

static void drop_try(struct try *t)
{
	if (t->state == TRY_WAITING || t->state == TRY_RUNNING) {
		op_cancel(t->call);
		end_try(t);
	}
	free(t->why);
	t->why = NULL;
}

/* ---- the end ---- */

static void asking_free(void *p)
{
	struct asking *q = p;

	access_pods_done(&q->pods);
	admission_findings_done(&q->doubts);
	free(q);
}

static void detach(struct asking *q)
{
	struct admission_access *a = q->a;

	access_wait_end(&q->create);
	access_wait_end(&q->exec);
	access_wait_end(&q->levels);
	for (int i = 0; i < 2; i++)
		drop_try(&q->tries[i]);
	loop_work_cancel(&q->work);
	loop_timer_stop(&q->timer);
	loop_timer_stop(&q->listen);
	list_unlink(&q->link);
	start_waiting(a);
	loop_reap(kube_client_loop(a->client), q, asking_free);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct asking, op));
}

/* ---- the judgement ---- */

/* Whether the requester has the right; else it's said. deed: what nobody may let a job do who may
 * not do it himself. */
static bool judge_right(struct asking *q, const struct access_wait *w, const char *deed,
			const char *instead)
{
	const char *user = q->r->user.username;

	if (!w->done)
		admission_deny(q->out, 503,
			       "it couldn't be found out in time whether user \"%s\" may %s in "
			       "namespace %s: try again",
			       user, deed, q->r->ns);
	else if (w->err.kind == ERR_DENIED)
		admission_deny(q->out, 403,
			       "user \"%s\" may not %s in namespace %s, and so may not %s: %s",
			       user, deed, q->r->ns, instead, w->err.msg);
	else if (w->err.kind != ERR_NONE)
		admission_deny(q->out, 503,
			       "it couldn't be found out whether user \"%s\" may %s in namespace "
			       "%s: %s; try again",
			       user, deed, q->r->ns, w->err.msg);
	return w->done && w->err.kind == ERR_NONE;
}

static void take_over(struct admission_findings *out, const struct admission_findings *from)
{
	for (size_t i = 0; i < from->n_problems; i++)
		admission_problem(out, from->problems[i].path, from->problems[i].kind, "%s",
				  from->problems[i].message);
	for (size_t i = 0; i < from->n_warnings; i++)
		admission_warn(out, "%s", from->warnings[i]);
}

static bool is_verdict(const struct asking *q, enum access_verdict verdict)
{
	return q->tries[0].verdict == verdict || q->tries[1].verdict == verdict;
}

static bool all_taken(const struct asking *q)
{
	for (int i = 0; i < 2; i++) {
		if (q->tries[i].state != TRY_NONE && q->tries[i].verdict != ACCESS_TAKEN)
			return false;
	}
	return q->tries[0].state != TRY_NONE;
}

/* What the API server takes in a dry run it takes: it knows more than labels say (exempt users and
 * namespaces, a level for all). What it doesn't take is told by fields, where they're found. */
static void judge_security(struct asking *q)
{
	const struct access_wait *w = &q->levels;
	bool known = w->done && w->err.kind == ERR_NONE;
	const char *why = q->tries[0].why ? q->tries[0].why : q->tries[1].why;
	size_t found = 0;

	if (known && !all_taken(q))
		found = access_pods_secure(q->r, &q->pods, w->enforce, q->out);
	if (!found && is_verdict(q, ACCESS_INSECURE))
		admission_deny(q->out, 403, "the job's Pods wouldn't be taken: %s", why);
	if (known && w->warn > w->enforce)
		access_pods_warn(q->r, &q->pods, w->warn, q->out);
	if (!known && !is_verdict(q, ACCESS_INSECURE) && !all_taken(q))
		admission_warn(q->out,
			       "Pod Security wasn't looked at: the labels of namespace %s couldn't "
			       "be had%s%s",
			       q->r->ns, w->done ? ": " : " in time", w->done ? w->err.msg : "");
}

static void judge(struct asking *q)
{
	for (int i = 0; i < 2; i++) {
		if (q->tries[i].state == TRY_WAITING || q->tries[i].state == TRY_RUNNING)
			admission_warn(&q->doubts,
				       "The job's %s Pod hasn't been tried: the API server didn't "
				       "answer in time",
				       i ? "launcher" : "worker");
	}
	/* Whoever may not learns no more. */
	if (!judge_right(q, &q->create, "create Pods", "have a job make them there"))
		return;
	if (q->wants_exec && !judge_right(q, &q->exec, "exec into Pods (create pods/exec)",
					  "have a job's launcher do it"))
		return;
	take_over(q->out, &q->doubts);
	if (q->has_pods)
		judge_security(q);
}

static bool is_open(const struct try *t)
{
	return t->state == TRY_WAITING || t->state == TRY_RUNNING;
}

static void step(struct asking *q)
{
	bool asked = q->create.wake;

	if (asked && !q->late &&
	    (!q->create.done || !q->levels.done || (q->wants_exec && !q->exec.done) ||
	     is_open(&q->tries[0]) || is_open(&q->tries[1])))
		return;
	if (!op_end(&q->op))
		return;
	if (asked)
		judge(q);
	detach(q);
	q->cb(q->arg, q->unheard);
}

static void on_work(struct loop_work *work, void *arg)
{
	(void)work;
	step(arg);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct asking *q = arg;

	(void)timer;
	q->late = true;
	step(q);
}

static void on_listen(struct loop_timer *timer, void *arg)
{
	struct asking *q = arg;

	if (kube_client_silence_ms(q->a->client) >= SILENT_MS) {
		q->unheard = true;
		on_timer(timer, arg);
	} else {
		loop_timer_start_in(&q->listen, LISTEN_MS);
	}
}

/* ---- the beginning ---- */

/* Whether Pods would be made from something that nobody was asked about yet. */
static bool makes_new_pods(const struct admission_review *r)
{
	static const char *const fields[] = {"launcher", "interactive"};
	const struct json *spec = json_get(r->object, "spec");
	const struct json *before = json_get(r->old_object, "spec");
	struct str manager = json_str(json_get(spec, "managedBy"));

	if (!r->object || (r->operation != ADMISSION_CREATE && r->operation != ADMISSION_UPDATE) ||
	    (manager.len && !str_eqz(manager, JOB_MANAGER)))
		return false;
	if (!r->old_object)
		return true;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!json_equal(json_get(before, fields[i]), json_get(spec, fields[i])))
			return true;
	}
	return !json_equal(json_at(before, "workers", "template", NULL),
			   json_at(spec, "workers", "template", NULL));
}

static bool is_given(const struct json *spec, const char *key)
{
	const struct json *v = json_get(spec, key);

	return v && json_type(v) != JSON_NULL;
}

static void build_pods(struct asking *q)
{
	struct err err = ERR_INIT;

	q->has_pods = access_pods_build(&q->pods, q->r, &q->a->opts.pods, &err) == 0;
	/* The pure checks have told of a template that has no shape. */
	if (!q->has_pods && admission_is_allowed(q->out))
		admission_problem(q->out, "spec.workers.template", "Invalid", "%s", err.msg);
	if (!q->has_pods || !q->a->opts.dry_run_pods)
		return;
	begin_try(q, false);
	if (q->pods.launcher)
		begin_try(q, true);
}

static void ask(struct asking *q)
{
	struct admission_access *a = q->a;
	const struct admission_review *r = q->r;
	const struct json *spec = json_get(r->object, "spec");

	q->wants_exec = is_given(spec, "launcher") || is_given(spec, "interactive");
	q->create.wake = q->exec.wake = q->levels.wake = &q->work;
	access_ask_right(a->facts, &r->user, r->ns, "", &q->create);
	if (q->wants_exec)
		access_ask_right(a->facts, &r->user, r->ns, "exec", &q->exec);
	access_ask_levels(a->facts, r->ns, &q->levels);
	build_pods(q);
	start_waiting(a);
}

struct op *admission_access_start(struct admission_access *a, const struct admission_review *r,
				  struct admission_findings *out, unsigned deadline_ms,
				  admission_access_fn *cb, void *arg, struct scope *scope)
{
	struct loop *loop = kube_client_loop(a->client);
	struct asking *q = xcalloc(1, sizeof(*q));

	q->a = a;
	q->r = r;
	q->out = out;
	q->cb = cb;
	q->arg = arg;
	list_append(&a->askings, &q->link);
	loop_work_init(&q->work, loop, on_work, q);
	loop_timer_init(&q->timer, loop, on_timer, q);
	loop_timer_start_in(&q->timer, deadline_ms);
	loop_timer_init(&q->listen, loop, on_listen, q);
	op_begin(&q->op, scope, on_cancel);
	if (makes_new_pods(r)) {
		admission_template_check(
			&a->opts.templates,
			json_at(r->old_object, "spec", "workers", "template", NULL),
			json_at(r->object, "spec", "workers", "template", NULL), out);
		ask(q);
		loop_timer_start_in(&q->listen, 0);
	}
	if (!q->create.wake)
		loop_work_post(&q->work);
	return &q->op;
}

/* ---- all ---- */

struct admission_access *admission_access_new(struct kube_client *client,
					      const struct admission_access_opts *opts)
{
	struct admission_access *a = xcalloc(1, sizeof(*a));

	a->client = client;
	a->opts = *opts;
	a->facts = access_facts_new(client);
	list_init(&a->askings);
	list_init(&a->waiting);
	return a;
}

void admission_access_set(struct admission_access *a, const struct admission_access_opts *opts)
{
	a->opts = *opts;
}

void admission_access_free(struct admission_access *a)
{
	if (!a)
		return;
	LIST_FOREACH(pos, tmp, &a->askings)
		op_cancel(&CONTAINER_OF(pos, struct asking, link)->op);
	access_facts_free(a->facts);
	free(a);
}
