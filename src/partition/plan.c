/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/partition-states.md as a function: each phase is one function, each line
 * of the table one statement, in the table's order. Pure: everything it knows comes as arguments.
 */
#include "partition/plan.h"

const struct partition_times partition_times_default = {
	.window_ms = 10 * 1000,
	.call_ms = 10 * 1000,
	.margin_ms = 5 * 1000,
	.active_ms = 300 * 1000,
	.grace_ms = 30 * 1000,
	.orphan_ms = 600 * 1000,
	.poll_ms = 500,
	.broken_ms = 3 * 1000,
	.remove_ms = 5 * 1000,
};

struct view {
	const struct partition_entry *e;
	const struct partition_facts *f;
	const struct partition_times *t;
};

static struct partition_plan wait_until(int64_t at_ms)
{
	return (struct partition_plan){.step = PARTITION_WAIT, .again_ms = at_ms};
}

static struct partition_plan record(enum partition_phase phase, enum partition_why why)
{
	return (struct partition_plan){.step = PARTITION_RECORD, .phase = phase, .why = why};
}

static struct partition_plan forget(enum partition_why why)
{
	return (struct partition_plan){.step = PARTITION_FORGET, .why = why};
}

/* Its owner wants it no more. */
static struct partition_plan give_up(const struct view *v)
{
	return record(v->f->abandoned ? PARTITION_ORPHAN : PARTITION_RELEASING, PARTITION_WHY_NONE);
}

/* A call, unless one is in flight or its back-off still runs. */
static struct partition_plan call(const struct view *v, enum partition_step step)
{
	if (v->f->busy)
		return wait_until(0);
	if (v->f->now_ms < v->f->not_before_ms)
		return wait_until(v->f->not_before_ms);
	return (struct partition_plan){.step = step};
}

static struct partition_plan poll_status_every(const struct view *v, int64_t every_ms)
{
	int64_t next_ms = v->f->status_asked_ms + every_ms;

	if (v->f->status != PARTITION_UNSEEN && v->f->now_ms < next_ms)
		return wait_until(next_ms);
	return call(v, PARTITION_CALL_STATUS);
}

static struct partition_plan poll_status(const struct view *v)
{
	return poll_status_every(v, v->t->poll_ms);
}

/* One that doesn't say what was asked isn't asked for again at once. */
static struct partition_plan call_list(const struct view *v)
{
	int64_t next_ms = v->f->list_called_ms + v->t->poll_ms;

	if (v->f->list_called_ms && v->f->now_ms < next_ms)
		return wait_until(v->f->busy ? 0 : next_ms);
	return call(v, PARTITION_CALL_LIST);
}

static bool in_window(const struct view *v)
{
	return v->f->now_ms < v->e->since_ms + v->t->window_ms;
}

static bool settled(const struct view *v)
{
	return v->f->now_ms >= v->e->settle_ms;
}

static bool status_says_absent(const struct view *v)
{
	return v->f->status == PARTITION_NOT_FOUND && v->f->status_asked_ms >= v->e->settle_ms;
}

static bool list_says_absent(const struct view *v)
{
	return v->f->listed == PARTITION_NOT_FOUND && v->f->listed_asked_ms >= v->e->settle_ms;
}

static bool absent(const struct view *v)
{
	return status_says_absent(v) && list_says_absent(v);
}

/* It's for another run than its owner asks for. */
static bool is_stale(const struct view *v)
{
	return v->f->attempt != v->e->ask.attempt;
}

/* No reset of this phase can have taken effect. */
static bool reset_not_begun(const struct view *v)
{
	return !v->f->busy &&
	       (v->f->answer == PARTITION_UNSENT || v->f->answer == PARTITION_REFUSED);
}

/* Asks for the half of the proof of absence that is missing. */
static struct partition_plan prove_absent(const struct view *v)
{
	if (!status_says_absent(v))
		return poll_status(v);
	return call_list(v);
}

static bool has_other_size(const struct view *v)
{
	return v->f->listed == PARTITION_PRESENT && v->f->listed_ipus != 0 &&
	       v->f->listed_ipus != v->e->ask.ipus;
}

/* A create of ours that succeeded since says whose it is now: who had the name has gone. */
static bool is_foreign_yet(const struct view *v)
{
	return has_other_size(v) &&
	       (v->f->answer != PARTITION_OK || v->f->listed_asked_ms >= v->f->answered_ms);
}

static bool list_follows_status(const struct view *v)
{
	return v->f->listed != PARTITION_UNSEEN && v->f->listed_asked_ms >= v->f->status_asked_ms;
}

static bool present_as(const struct view *v, enum partition_health health)
{
	return v->f->status == PARTITION_PRESENT && v->f->health == health;
}

/* From then on nothing that was sent for it takes effect any more, removes included. */
static int64_t quiet_ms(const struct view *v)
{
	int64_t end_ms = v->f->unsure_ms ? v->f->unsure_ms + v->t->call_ms + v->t->margin_ms : 0;

	return end_ms > v->e->settle_ms ? end_ms : v->e->settle_ms;
}

/* A partition of another size under this name is somebody else's: it's left alone. The entry goes
 * when nothing that was sent for it can take effect any more, and it's still so. */
static struct partition_plan plan_foreign(const struct view *v, enum partition_why why)
{
	if (v->f->busy || v->f->now_ms < quiet_ms(v))
		return wait_until(v->f->busy ? 0 : quiet_ms(v));
	if (v->f->listed_asked_ms < quiet_ms(v))
		return call_list(v);
	return forget(why);
}

/* The create's answer leaves open whether the partition exists. */
static struct partition_plan plan_unknown_create(const struct view *v)
{
	const struct partition_facts *f = v->f;

	if (f->status != PARTITION_NOT_FOUND)
		return poll_status(v);
	if (!in_window(v))
		return record(PARTITION_RELEASING, PARTITION_WHY_ERROR);
	return call(v, PARTITION_CALL_CREATE);
}

static struct partition_plan plan_creating(const struct view *v)
{
	const struct partition_facts *f = v->f;
	bool unknown = f->was_unknown || f->answer == PARTITION_UNKNOWN;

	if (f->answer == PARTITION_REFUSED && !unknown)
		return forget(PARTITION_WHY_REFUSED);
	if (f->answer == PARTITION_EXISTS && !unknown)
		return forget(PARTITION_WHY_TAKEN);
	if (is_foreign_yet(v))
		return unknown || f->busy ? record(PARTITION_RELEASING, PARTITION_WHY_TAKEN)
					  : forget(PARTITION_WHY_TAKEN);
	if ((!f->wanted || !f->configured) && f->answer == PARTITION_UNSENT && !unknown && !f->busy)
		return forget(f->wanted ? PARTITION_WHY_UNREACHABLE : PARTITION_WHY_NONE);
	if (!f->wanted)
		return give_up(v);
	if (!f->configured)
		return record(PARTITION_RELEASING, PARTITION_WHY_UNREACHABLE);
	if (present_as(v, PARTITION_BROKEN))
		return record(PARTITION_RELEASING, PARTITION_WHY_ERROR);
	if (present_as(v, PARTITION_LEAVING))
		return record(PARTITION_RELEASING, PARTITION_WHY_VANISHED);
	if (present_as(v, PARTITION_HEALTHY) && (!unknown || f->listed == PARTITION_PRESENT))
		return record(PARTITION_ACTIVE, PARTITION_WHY_NONE);
	if (f->answer == PARTITION_OK && absent(v))
		return forget(PARTITION_WHY_VANISHED);
	if (f->now_ms >= v->e->since_ms + v->t->active_ms)
		return record(PARTITION_RELEASING, PARTITION_WHY_ERROR);
	if (f->answer == PARTITION_OK && f->status == PARTITION_NOT_FOUND && settled(v))
		return prove_absent(v);
	if (present_as(v, PARTITION_HEALTHY) && !list_follows_status(v))
		return call_list(v);
	if (f->status == PARTITION_PRESENT)
		return poll_status(v);
	if (unknown)
		return plan_unknown_create(v);
	if (f->answer != PARTITION_UNSENT)
		return poll_status(v);
	if (in_window(v))
		return call(v, PARTITION_CALL_CREATE);
	return f->busy ? wait_until(0) : record(PARTITION_CREATING, PARTITION_WHY_NONE);
}

static struct partition_plan plan_active(const struct view *v)
{
	const struct partition_facts *f = v->f;

	if (!f->wanted)
		return give_up(v);
	if (absent(v))
		return forget(PARTITION_WHY_VANISHED);
	if (has_other_size(v))
		return plan_foreign(v, PARTITION_WHY_VANISHED);
	if (f->status == PARTITION_NOT_FOUND || f->listed == PARTITION_NOT_FOUND)
		return settled(v) ? prove_absent(v) : wait_until(v->e->settle_ms);
	if (is_stale(v))
		return record(PARTITION_RESETTING, PARTITION_WHY_NONE);
	if (f->listed_broken || (f->status == PARTITION_PRESENT && f->health != PARTITION_HEALTHY))
		return poll_status_every(v, v->t->broken_ms);
	return wait_until(0);
}

static struct partition_plan plan_resetting(const struct view *v)
{
	const struct partition_facts *f = v->f;

	if (!f->wanted)
		return give_up(v);
	if (absent(v))
		return forget(PARTITION_WHY_VANISHED);
	if (has_other_size(v))
		return plan_foreign(v, PARTITION_WHY_VANISHED);
	if (is_stale(v) && reset_not_begun(v))
		return record(PARTITION_RESETTING, PARTITION_WHY_NONE);
	if (f->answer == PARTITION_OK) {
		if (present_as(v, PARTITION_HEALTHY))
			return record(PARTITION_ACTIVE, PARTITION_WHY_NONE);
		if (present_as(v, PARTITION_BROKEN))
			return record(PARTITION_RELEASING, PARTITION_WHY_ERROR);
		if (f->now_ms >= v->e->since_ms + v->t->active_ms)
			return record(PARTITION_RELEASING, PARTITION_WHY_ERROR);
		if (f->status == PARTITION_NOT_FOUND && settled(v))
			return prove_absent(v);
		return poll_status(v);
	}
	if (f->answer == PARTITION_UNKNOWN && !settled(v))
		return wait_until(v->e->settle_ms);
	if (f->status == PARTITION_NOT_FOUND || f->listed == PARTITION_NOT_FOUND)
		return settled(v) ? prove_absent(v) : wait_until(v->e->settle_ms);
	if (in_window(v))
		return call(v, PARTITION_CALL_RESET);
	return f->busy ? wait_until(0) : record(PARTITION_RESETTING, PARTITION_WHY_NONE);
}

/* Nobody waits for an orphan, and what takes its controller away doesn't change it: it's removed
 * where its controller is one of the configuration's. */
static struct partition_plan plan_leaving(const struct view *v)
{
	const struct partition_facts *f = v->f;
	bool orphan = v->e->phase == PARTITION_ORPHAN;

	if (absent(v))
		return forget(PARTITION_WHY_NONE);
	if (orphan && !f->configured)
		return wait_until(0);
	if (f->abandoned && !orphan)
		return give_up(v);
	if (!orphan && !f->configured && f->unreachable_since_ms &&
	    f->now_ms >= f->unreachable_since_ms + v->t->orphan_ms)
		return record(PARTITION_ORPHAN, PARTITION_WHY_UNREACHABLE);
	if (has_other_size(v))
		return plan_foreign(v, PARTITION_WHY_NONE);
	if (f->status == PARTITION_NOT_FOUND)
		return settled(v) ? prove_absent(v) : wait_until(v->e->settle_ms);
	if (f->was_unknown && !v->e->active_ms && f->listed == PARTITION_UNSEEN)
		return call_list(v);
	if (present_as(v, PARTITION_LEAVING))
		return poll_status(v);
	if (f->answer == PARTITION_OK && f->now_ms < f->answered_ms + v->t->remove_ms)
		return poll_status(v);
	if (f->now_ms >= v->e->since_ms + v->t->grace_ms)
		return call(v, PARTITION_CALL_REMOVE_FORCED);
	return call(v, PARTITION_CALL_REMOVE);
}

struct partition_plan partition_plan(const struct partition_entry *entry,
				     const struct partition_facts *facts,
				     const struct partition_times *times)
{
	struct view v = {entry, facts, times};

	if (!facts->recorded)
		return wait_until(0);
	switch (entry->phase) {
	case PARTITION_CREATING:
		return plan_creating(&v);
	case PARTITION_ACTIVE:
		return plan_active(&v);
	case PARTITION_RESETTING:
		return plan_resetting(&v);
	case PARTITION_RELEASING:
	case PARTITION_ORPHAN:
		return plan_leaving(&v);
	}
	return wait_until(0);
}

void partition_entry_stamp(struct partition_entry *entry, enum partition_phase phase, bool certain,
			   int64_t now_ms, const struct partition_times *times)
{
	int64_t settle_ms = now_ms;

	if (phase == PARTITION_CREATING || phase == PARTITION_RESETTING)
		settle_ms += times->window_ms + times->call_ms + times->margin_ms;
	if (certain || settle_ms > entry->settle_ms)
		entry->settle_ms = settle_ms;
	if (phase == PARTITION_ACTIVE && !entry->active_ms)
		entry->active_ms = now_ms;
	entry->phase = phase;
	entry->since_ms = now_ms;
}

void partition_entry_loaded(struct partition_entry *entry, int64_t now_ms)
{
	int64_t ahead_ms = entry->since_ms - now_ms;

	if (ahead_ms <= 0)
		return;
	entry->since_ms -= ahead_ms;
	entry->settle_ms -= ahead_ms;
	if (entry->active_ms > now_ms)
		entry->active_ms = now_ms;
}

const char *partition_step_name(enum partition_step step)
{
	static const char *const names[] = {
		[PARTITION_WAIT] = "wait",
		[PARTITION_RECORD] = "record",
		[PARTITION_FORGET] = "forget",
		[PARTITION_CALL_CREATE] = "create",
		[PARTITION_CALL_STATUS] = "status",
		[PARTITION_CALL_LIST] = "list",
		[PARTITION_CALL_RESET] = "reset",
		[PARTITION_CALL_REMOVE] = "remove",
		[PARTITION_CALL_REMOVE_FORCED] = "remove-forced",
	};
	return names[step];
}
