/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A contender: observes its Lease by a watch, asks lease_plan.h for the next step, and makes that
 * one call. Owns its watch and call (by its scope); freed by the loop's reaper. Uses core/, loop/.
 */
#include "kube/lease.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "lease_plan.h"
#include "loop/backoff.h"
#include "loop/op.h"

#define MAX_OBJECT_BYTES ((size_t)1 << 20)

struct kube_lease {
	struct kube_client *client;
	char *ns, *name, *address;
	char *label; /* "ns/name" */
	struct kube_lease_ops ops;
	void *arg;
	struct lease_state state;

	struct scope scope;
	struct kube_watch *watch;
	struct op *call; /* NULL: none is under way */
	enum lease_action action;
	int64_t sent_ms;
	struct loop_timer timer;
	struct loop_work work; /* a step that isn't taken within somebody's call */
	struct err err;        /* of the last look or write */
	bool freed;

	/* What the owner was told. */
	bool told_held;
	char told_holder[KUBE_LEASE_WORD_SIZE], told_address[KUBE_LEASE_WORD_SIZE];

	/* The end. */
	bool releasing, released;
	int64_t release_by_ms;
	struct backoff backoff;
	kube_lease_released_fn *on_released;
	void *released_arg;
};

static void lease_free(void *p)
{
	struct kube_lease *l = p;

	free(l->ns);
	free(l->name);
	free(l->address);
	free(l->label);
	free(l);
}

static bool is_live(const struct kube_lease *l)
{
	struct kube_watch_status status;

	if (!l->watch)
		return false;
	kube_watch_status(l->watch, &status);
	return status.state == KUBE_WATCH_WATCHING;
}

/* ---- telling ---- */

static void tell_held(struct kube_lease *l, bool held)
{
	l->told_held = held;
	log_info("kube", l->label,
		 held ? "leads now identity=%s" : "doesn't lead any more identity=%s",
		 l->state.identity);
	if (held && l->ops.on_gained)
		l->ops.on_gained(l->arg);
	else if (!held && l->ops.on_lost)
		l->ops.on_lost(l->arg);
}

static void tell_holder(struct kube_lease *l, const struct lease_record *r)
{
	const char *holder = r ? r->holder : "", *address = r ? r->address : "";

	if (strcmp(holder, l->told_holder) == 0 && strcmp(address, l->told_address) == 0)
		return;
	memcpy(l->told_holder, holder, strlen(holder) + 1);
	memcpy(l->told_address, address, strlen(address) + 1);
	log_info("kube", l->label, "the leader is %s address=%s", holder[0] ? holder : "nobody",
		 address);
	if (l->ops.on_holder)
		l->ops.on_holder(l->arg, l->told_holder, l->told_address);
}

/* What has changed since the owner was told. */
static void tell(struct kube_lease *l)
{
	int64_t now = clock_mono_ms();
	bool held = lease_holds(&l->state, now);

	if (l->releasing)
		return;
	if (held != l->told_held)
		tell_held(l, held);
	if (!l->freed && !l->releasing)
		tell_holder(l, lease_holder(&l->state, now));
}

/* ---- calls ---- */

static void step(struct kube_lease *l);

static void call_ended(struct kube_lease *l, const struct err *err,
		       const struct kube_response *response)
{
	struct lease_record r;
	int64_t now = clock_mono_ms();

	l->call = NULL;
	if (err) {
		lease_failed(&l->state, l->action, err, l->sent_ms, now);
		/* Somebody else was faster, or nobody made it yet: nothing is wrong. */
		if (err->kind != ERR_CONFLICT && err->kind != ERR_EXISTS &&
		    (err->kind != ERR_NOT_FOUND || l->action == LEASE_CREATE)) {
			if (l->err.kind == ERR_NONE)
				log_warn("kube", l->label, "the Lease: %s", err->msg);
			l->err = *err;
		}
		return;
	}
	lease_read(response->json, &r);
	if (l->err.kind != ERR_NONE)
		log_info("kube", l->label, "the Lease can be reached again");
	l->err.kind = ERR_NONE;
	if (l->action == LEASE_LOOK)
		lease_saw(&l->state, &r, now);
	else
		lease_written(&l->state, &r, l->sent_ms, now);
}

static void on_call(void *arg, const struct err *err, const struct kube_response *response)
{
	struct kube_lease *l = arg;

	call_ended(l, err, response);
	step(l);
}

static void start_call(struct kube_lease *l, enum lease_action action, int64_t deadline_ms,
		       kube_call_fn *cb)
{
	static const enum kube_verb verbs[] = {
		[LEASE_WAIT] = KUBE_PATCH, [LEASE_LOOK] = KUBE_GET,    [LEASE_CREATE] = KUBE_CREATE,
		[LEASE_TAKE] = KUBE_PATCH, [LEASE_RENEW] = KUBE_PATCH,
	};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct kube_request req = {
		.verb = verbs[action],
		.resource = &KUBE_LEASES,
		.ns = l->ns,
		.name = action == LEASE_CREATE ? NULL : l->name,
		.patch = KUBE_PATCH_MERGE,
		.deadline_ms = deadline_ms > 0 ? (unsigned)deadline_ms : 1,
		.urgent = true,
		.no_retry = true,
		.max_response_bytes = MAX_OBJECT_BYTES,
	};

	if (action != LEASE_LOOK)
		req.json = lease_write(&l->state, action, l->name, l->ns, l->address,
				       clock_wall_ms(), doc);
	l->action = action;
	l->sent_ms = clock_mono_ms();
	l->call = kube_call_start(l->client, &req, cb, l, &l->scope);
}

/* A call that hangs leaves time for one more. */
static int64_t call_deadline(const struct kube_lease *l, int64_t now)
{
	int64_t half = l->state.renew_ms / 2, left = lease_lost_ms(&l->state) - now;

	return l->state.held && left < half ? left : half;
}

/* With a watch that works again: it says as much as a look; and while somebody else leads, a write
 * of ours that got no answer isn't tried again, and isn't missed. */
static bool is_past(const struct kube_lease *l, int64_t now)
{
	return l->action == LEASE_LOOK ||
	       (!l->state.held && lease_holder(&l->state, now) && err_is_retryable(&l->err));
}

static void step(struct kube_lease *l)
{
	int64_t now = clock_mono_ms();
	struct lease_step next = {LEASE_WAIT, 0};

	if (l->freed || l->releasing)
		return;
	if (!l->call && is_live(l) && now < lease_silent_ms(&l->state) && is_past(l, now))
		l->err.kind = ERR_NONE;
	if (!l->call) {
		next = lease_plan(&l->state, now, is_live(l));
		if (next.action != LEASE_WAIT)
			start_call(l, next.action, call_deadline(l, now), on_call);
	}
	/* While a call is under way, what can happen by itself is that time runs out: ours, or that
	 * of the holder whom we told of. */
	if (l->call)
		next.at_ms = l->state.held ? lease_lost_ms(&l->state) : now + l->state.retry_ms;
	loop_timer_start_at(&l->timer, next.at_ms);
	tell(l);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	step(arg);
}

static void on_work(struct loop_work *work, void *arg)
{
	(void)work;
	step(arg);
}

/* ---- the watch ---- */

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct kube_lease *l = arg;
	struct lease_record r;

	if (!str_eqz(event->name, l->name))
		return;
	if (event->type != KUBE_DELETED) {
		lease_read(event->object, &r);
		lease_saw_by_watch(&l->state, &r, clock_mono_ms());
	} else if (str_eqz(event->uid, l->state.record.uid)) {
		lease_saw_by_watch(&l->state, NULL, clock_mono_ms());
	}
	loop_work_post(&l->work);
}

static void on_synced(void *arg)
{
	struct kube_lease *l = arg;
	struct kube_watch_status status;

	kube_watch_status(l->watch, &status);
	if (status.objects == 0)
		lease_saw_by_watch(&l->state, NULL, clock_mono_ms());
	loop_work_post(&l->work);
}

static void on_state(void *arg)
{
	struct kube_lease *l = arg;

	loop_work_post(&l->work);
}

static void watch_start(struct kube_lease *l)
{
	static const struct kube_watch_ops ops = {
		.on_event = on_event, .on_synced = on_synced, .on_state = on_state};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", l->name);
	struct kube_watch_opts opts = {.resource = &KUBE_LEASES,
				       .ns = l->ns,
				       .field_selector = selector,
				       .max_object_bytes = MAX_OBJECT_BYTES};

	l->watch = kube_watch_start(l->client, &opts, &ops, l, &l->scope);
}

/* ---- the end ---- */

static void release_step(struct kube_lease *l);

static void release_done(struct kube_lease *l, const struct err *err)
{
	l->released = true;
	loop_timer_stop(&l->timer);
	scope_cancel(&l->scope);
	l->call = NULL;
	log_info("kube", l->label,
		 err ? "the Lease wasn't given back: %s" : "the Lease was given back%s",
		 err ? err->msg : "");
	if (l->on_released)
		l->on_released(l->released_arg, err);
}

static bool may_be_ours(const struct kube_lease *l)
{
	return l->state.known == LEASE_THERE &&
	       strcmp(l->state.record.holder, l->state.identity) == 0;
}

static void on_release_call(void *arg, const struct err *err, const struct kube_response *response)
{
	struct kube_lease *l = arg;
	struct lease_record r;

	l->call = NULL;
	if (!err) {
		lease_read(response->json, &r);
		lease_saw(&l->state, &r, clock_mono_ms());
		release_step(l);
		return;
	}
	lease_failed(&l->state, l->action, err, l->sent_ms, clock_mono_ms());
	l->err = *err;
	if (err->kind == ERR_CONFLICT || err->kind == ERR_NOT_FOUND) {
		release_step(l);
	} else {
		int64_t left = l->release_by_ms - clock_mono_ms();
		int64_t wait = backoff_next_ms(&l->backoff, NULL);
		loop_timer_start_in(&l->timer, left < 0 ? 0 : left < wait ? left : wait);
	}
}

static void release_step(struct kube_lease *l)
{
	int64_t left = l->release_by_ms - clock_mono_ms();

	if (l->freed || l->released || l->call)
		return;
	if (!l->state.stale && !may_be_ours(l)) {
		release_done(l, NULL);
	} else if (left <= 0) {
		if (l->err.kind == ERR_NONE)
			err_set(&l->err, ERR_TIMEOUT, 0, "no time was left");
		release_done(l, &l->err);
	} else {
		start_call(l, l->state.stale ? LEASE_LOOK : LEASE_WAIT, left, on_release_call);
	}
}

static void on_release_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	release_step(arg);
}

void kube_lease_release(struct kube_lease *l, unsigned deadline_ms, kube_lease_released_fn *cb,
			void *arg)
{
	if (l->releasing)
		return;
	l->releasing = true;
	l->on_released = cb;
	l->released_arg = arg;
	l->release_by_ms = clock_mono_ms() + deadline_ms;
	l->backoff = (struct backoff)BACKOFF_INIT(100, 1000);
	l->state.held = false;
	/* A write under way may have taken effect, or may yet: what it made is looked at. */
	if (l->call && l->action != LEASE_LOOK)
		l->state.stale = true;
	scope_cancel(&l->scope);
	l->call = NULL;
	l->watch = NULL;
	loop_work_cancel(&l->work);
	loop_timer_stop(&l->timer);
	loop_timer_init(&l->timer, kube_client_loop(l->client), on_release_timer, l);
	loop_timer_start_in(&l->timer, 0);
}

/* ---- life ---- */

static int check_word(const char *what, const char *z, struct err *err)
{
	if (!z || !z[0])
		return err_set(err, ERR_INVALID, 0, "a Lease needs %s", what);
	if (strlen(z) >= KUBE_LEASE_WORD_SIZE)
		return err_set(err, ERR_INVALID, 0, "%s of a Lease may have %d bytes at most", what,
			       KUBE_LEASE_WORD_SIZE - 1);
	return 0;
}

static int check_opts(const struct kube_lease_opts *opts, const struct lease_state *s,
		      struct err *err)
{
	if (check_word("a namespace", opts->ns, err) < 0 ||
	    check_word("a name", opts->name, err) < 0 ||
	    check_word("an identity", opts->identity, err) < 0 ||
	    (opts->address && check_word("an address", opts->address, err) < 0))
		return -1;
	if (s->retry_ms * 2 > s->renew_ms || s->renew_ms * 6 > s->duration_ms * 5)
		return err_set(err, ERR_INVALID, 0,
			       "a Lease's times must be: 2 * retry (%lld ms) <= renew (%lld ms) "
			       "<= duration (%lld ms) * 5 / 6",
			       (long long)s->retry_ms, (long long)s->renew_ms,
			       (long long)s->duration_ms);
	return 0;
}

int kube_lease_start(struct kube_client *client, const struct kube_lease_opts *opts,
		     const struct kube_lease_ops *ops, void *arg, struct kube_lease **ret,
		     struct err *err)
{
	struct lease_state state;

	if (!opts->identity || !opts->identity[0])
		return err_set(err, ERR_INVALID, 0, "a Lease needs an identity");
	lease_init(&state, opts, clock_mono_ms());
	if (check_opts(opts, &state, err) < 0)
		return -1;
	struct kube_lease *l = xcalloc(1, sizeof(*l));
	l->client = client;
	l->ns = xstrdup(opts->ns);
	l->name = xstrdup(opts->name);
	l->address = xstrdup(opts->address);
	l->label = xasprintf("%s/%s", opts->ns, opts->name);
	l->ops = *ops;
	l->arg = arg;
	l->state = state;
	scope_init(&l->scope);
	loop_timer_init(&l->timer, kube_client_loop(client), on_timer, l);
	loop_work_init(&l->work, kube_client_loop(client), on_work, l);
	watch_start(l);
	loop_work_post(&l->work);
	*ret = l;
	return 0;
}

bool kube_lease_held(const struct kube_lease *l)
{
	return l->told_held && !l->releasing && lease_holds(&l->state, clock_mono_ms());
}

const char *kube_lease_holder(const struct kube_lease *l)
{
	return l->told_holder;
}

const struct err *kube_lease_error(const struct kube_lease *l)
{
	return l->err.kind != ERR_NONE ? &l->err : NULL;
}

void kube_lease_free(struct kube_lease *l)
{
	if (!l || l->freed)
		return;
	l->freed = true;
	scope_cancel(&l->scope);
	loop_timer_stop(&l->timer);
	loop_work_cancel(&l->work);
	loop_reap(kube_client_loop(l->client), l, lease_free);
}
