/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's controllers, requests to them, and what holds at every step. Replies, delays and
 * faults are what the V-IPU API allows (a request without an answer may have been done).
 */
#include "partition_model.h"

#include <stdio.h>
#include <string.h>

#define TOLD_MAX 600 /* lines: the end of an episode may be long */

unsigned long counted[ACTIONS], happened[EVENTS];

const char *const action_names[ACTIONS] = {
	[ACT_TICK] = "a moment passes",
	[ACT_PAUSE] = "seconds pass",
	[ACT_LONG_PAUSE] = "minutes pass",
	[ACT_LAND] = "a request takes effect",
	[ACT_DELIVER] = "an answer arrives",
	[ACT_LOSE_REQUEST] = "a request is lost",
	[ACT_LOSE_REPLY] = "an answer is lost",
	[ACT_OPERATION] = "a controller's operation goes on",
	[ACT_BREAK] = "a partition breaks",
	[ACT_OUTAGE] = "a controller goes down",
	[ACT_UP] = "a controller comes up",
	[ACT_LIE] = "a controller doesn't show what it has",
	[ACT_HONEST] = "a controller shows what it has",
	[ACT_HAND_MAKE] = "somebody makes a partition by hand",
	[ACT_HAND_REMOVE] = "somebody removes theirs",
	[ACT_HAND_REMOVE_OURS] = "somebody removes ours by hand",
	[ACT_HAND_SQUAT] = "somebody makes one under our name",
	[ACT_LEAVE_CONFIG] = "a controller leaves the configuration",
	[ACT_ENTER_CONFIG] = "a controller enters it",
	[ACT_TRACKER_LAND] = "a tracker request takes effect",
	[ACT_TRACKER_DELIVER] = "its answer arrives",
	[ACT_TRACKER_LOSE_REQUEST] = "a tracker request is lost",
	[ACT_TRACKER_LOSE_REPLY] = "its answer is lost",
	[ACT_TRACKER_WATCH] = "the tracker's watch brings news",
	[ACT_TRACKER_TOUCH] = "somebody labels the tracker",
	[ACT_RUN] = "the planner looks at an entry",
	[ACT_SERVE] = "the queue gives an entry",
	[ACT_TRACKER_STEP] = "the tracker is read or written",
	[ACT_REFRESH] = "a controller is listed",
	[ACT_RENEW] = "the lease is renewed",
	[ACT_LEASE_LOST] = "the lease's API falls silent",
	[ACT_TAKE_LEASE] = "a replica takes the lease",
	[ACT_STOP] = "the leader stops cleanly",
	[ACT_CRASH] = "a replica crashes",
	[ACT_START] = "a replica starts",
	[ACT_MIND] = "an owner changes its mind",
	[ACT_RESIZE] = "an owner wants another size",
	[ACT_NEXT_RUN] = "an owner begins another run",
	[ACT_END_USERS] = "Pods end",
	[ACT_SYNC] = "an owner asks",
	[ACT_SEE] = "an owner looks",
	[ACT_LEAVE] = "an owner leaves",
};

const char *const event_names[EVENTS] = {
	[EV_CREATE_LATE] = "create lands late",
	[EV_RESET_LATE] = "reset lands late",
	[EV_REMOVE_LATE] = "remove lands late",
	[EV_TRACKER_LATE] = "tracker write lands late",
	[EV_CREATED] = "created",
	[EV_NO_ROOM] = "RESOURCE_EXHAUSTED",
	[EV_EXISTS] = "ALREADY_EXISTS",
	[EV_REFUSED] = "create denied",
	[EV_RESET] = "reset",
	[EV_REMOVED] = "removed",
	[EV_REMOVE_FAILED] = "remove without effect",
	[EV_FAILED_CREATE] = "create or reset ends in PS_ERROR",
	[EV_TIMEOUT] = "deadline passes",
	[EV_CUT] = "call given up",
	[EV_CONFLICT] = "tracker conflict",
	[EV_LOADED] = "entry loaded",
	[EV_RECORD_CREATING] = "recorded creating again",
	[EV_RECORD_ACTIVE] = "recorded active",
	[EV_RECORD_RESETTING] = "recorded resetting",
	[EV_RECORD_RELEASING] = "recorded releasing",
	[EV_RECORD_ORPHAN] = "recorded orphan",
	[EV_ORPHAN_BACK] = "orphan removed",
	[EV_FORGET] = "forgotten",
	[EV_VANISHED] = "vanished",
	[EV_TAKEN] = "taken",
	[EV_DOOMED] = "doomed",
	[EV_AGAIN] = "create sent again",
	[EV_USERS] = "Pods begin",
	[EV_FRESH] = "Pods begin on one that was reset",
	[EV_GONE] = "owner gone",
	[EV_ABANDONED] = "orphan, as nobody waits",
};

void world_say(const struct world *w, const char *fmt, ...)
{
	static unsigned lines;
	va_list args;

	if (lines++ >= TOLD_MAX)
		return;
	fprintf(stderr, "#   %8.3f  ", (double)(w->now_ms - 1000000) / 1000);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs(lines == TOLD_MAX ? "\n#   and so on\n" : "\n", stderr);
}

void world_fail(struct world *w, enum rule rule, const char *fmt, ...)
{
	va_list args;

	if (w->broken)
		return;
	w->broken = rule;
	va_start(args, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, args);
	va_end(args);
}

/* Nothing of the partition layer may rest on how long a Lease lasts: the operator's times (lease.h)
 * and others. */
static const struct {
	int64_t lasts_ms, renew_ms;
} leases[] = {
	{12000, 8000},
	{4000, 3000},
	{15000, 10000},
	{40000, 30000},
};

void world_init(struct world *w, uint64_t seed)
{
	struct dice d = {seed};
	bool talk = w->talk;

	memset(w, 0, sizeof(*w));
	w->talk = talk;
	w->now_ms = 1000000;
	w->version = 1;
	w->lease_holder = NONE;
	w->lease_lasts_ms = leases[seed % (sizeof(leases) / sizeof(leases[0]))].lasts_ms;
	w->lease_renew_ms = leases[seed % (sizeof(leases) / sizeof(leases[0]))].renew_ms;
	w->tempo = 1U << roll(&d, 4);
	w->slow_calls = 2U << roll(&d, 4);
	w->slow_writes = 3U << roll(&d, 4);
	w->n_ids = STRANGERS;
	for (int i = 0; i < STRANGERS; i++) {
		snprintf(w->ids[i], sizeof(w->ids[i]), "by-hand-%d", i);
		w->uid_of[i] = NONE;
	}
	for (int c = 0; c < CONTROLLERS; c++) {
		w->controllers[c].configured = true;
		w->controllers[c].may_status_lie = roll(&d, 2);
	}
	for (int r = 0; r < REPLICAS; r++)
		w->replicas[r].skew_ms = (int64_t)roll(&d, 2 * SKEW_MS + 1) - SKEW_MS;
	for (int o = 0; o < OWNERS; o++) {
		w->owners[o].uid = (int16_t)w->n_uids++;
		for (int i = 0; i < INSTANCES; i++) {
			w->owners[o].seats[i].users = NONE;
			w->owners[o].seats[i].attempt = 1;
			w->owners[o].seats[i].ipus = (int16_t)(1 << roll(&d, 4));
		}
	}
	for (int u = 0; u < UIDS; u++)
		snprintf(w->uids[u], sizeof(w->uids[u]), "uid-%d", u);
}

/* ---- controllers ---- */

struct part *part_find(struct controller *c, int id)
{
	for (int i = 0; i < c->n; i++) {
		if (c->parts[i].id == id)
			return &c->parts[i];
	}
	return NULL;
}

static void part_delete(struct controller *c, const struct part *p)
{
	c->parts[p - c->parts] = c->parts[--c->n];
}

int part_used(const struct controller *c)
{
	int used = 0;

	for (int i = 0; i < c->n; i++)
		used += c->parts[i].ready == VIPU_PS_REMOVED ? 0 : c->parts[i].ipus;
	return used;
}

static bool part_add(struct world *w, struct controller *c, int id, int ipus, bool ours)
{
	if (c->n == PARTS || part_used(c) + ipus > IPUS)
		return false;
	c->parts[c->n++] = (struct part){
		.id = (int16_t)id,
		.ipus = (int16_t)ipus,
		.ready = ours ? VIPU_PS_PENDING : VIPU_PS_ACTIVE,
		.operation = ours ? VIPU_POS_CREATING : VIPU_POS_IDLE,
		.ours = ours,
		.made_ms = w->now_ms,
	};
	return true;
}

static const char *const ready_names[] = {"undefined", "pending", "active", "removed", "in error"};
static const char *const operation_names[] = {"undefined", "idle",      "creating",
					      "removing",  "resetting", "failed"};

static bool operation_goes_on(struct world *w, struct dice *d)
{
	struct controller *c = &w->controllers[roll(d, CONTROLLERS)];
	struct part *p;
	int id;

	if (c->down || c->n == 0)
		return false;
	p = &c->parts[roll(d, (uint32_t)c->n)];
	id = p->id;
	if (p->ready == VIPU_PS_REMOVED) {
		part_delete(c, p);
	} else if (p->operation == VIPU_POS_CREATING || p->operation == VIPU_POS_RESETTING) {
		p->ready = p->failing ? VIPU_PS_ERROR : VIPU_PS_ACTIVE;
		p->operation = p->failing && roll(d, 2) ? VIPU_POS_FAILED : VIPU_POS_IDLE;
		happened[EV_FAILED_CREATE] += p->failing;
	} else if (p->operation == VIPU_POS_REMOVING && p->failing) {
		p->operation = VIPU_POS_IDLE;
		if (p->ready == VIPU_PS_PENDING)
			p->ready = VIPU_PS_ACTIVE;
		happened[EV_REMOVE_FAILED]++;
	} else if (p->operation == VIPU_POS_REMOVING) {
		happened[EV_REMOVED]++;
		p->ready = VIPU_PS_REMOVED;
		p->operation = VIPU_POS_IDLE;
		if (roll(d, 3))
			part_delete(c, p);
	} else if (p->ready == VIPU_PS_ERROR) { /* auto-reset */
		p->ready = VIPU_PS_PENDING;
		p->operation = VIPU_POS_RESETTING;
	} else {
		return false;
	}
	p->failing = false;
	p = part_find(c, id);
	SAY(w, "c%d: %s is now %s, %s", (int)(c - w->controllers), w->ids[id],
	    p ? ready_names[p->ready] : "gone", p ? operation_names[p->operation] : "at rest");
	return true;
}

static bool sender_waits(const struct world *w, const struct call *c);

/* Somebody may take a name of ours that is being made or released. What no rule covers: that it has
 * just gone, and a remove that its sender gave up comes after that (doc/design/partition-model.md).
 */
static bool may_squat(const struct world *w, int id)
{
	const struct val *v = &w->tracker[id];

	for (int i = 0; i < CALLS; i++) {
		const struct call *c = &w->calls[i];

		if (c->used && c->id == id && !c->landed && !sender_waits(w, c) &&
		    (c->kind == PARTITION_CALL_REMOVE || c->kind == PARTITION_CALL_REMOVE_FORCED))
			return false;
	}
	return v->ipus && (v->phase == PARTITION_CREATING || v->phase == PARTITION_RELEASING);
}

static bool by_hand(struct world *w, enum action action, struct dice *d)
{
	struct controller *c = &w->controllers[roll(d, CONTROLLERS)];
	int id = (int)roll(d, STRANGERS), ipus = 1 << roll(d, 3);
	struct part *p = c->n ? &c->parts[roll(d, (uint32_t)c->n)] : NULL;

	if (c->down)
		return false;
	switch (action) {
	case ACT_HAND_MAKE:
		return !part_find(c, id) && part_add(w, c, id, ipus, false);
	case ACT_HAND_SQUAT:
		id = (int)roll(d, (uint32_t)w->n_ids);
		if (!may_squat(w, id))
			return false;
		c = &w->controllers[w->tracker[id].controller];
		ipus = roll(d, 2) ? w->tracker[id].ipus : ipus;
		if (c->down || w->squatted[id] || part_find(c, id) ||
		    !part_add(w, c, id, ipus, false))
			return false;
		w->squatted[id] = true; /* once is enough */
		SAY(w, "c%d: %s with %d IPUs, by hand", (int)(c - w->controllers), w->ids[id],
		    ipus);
		return true;
	default:
		if (!p || p->ours != (action == ACT_HAND_REMOVE_OURS))
			return false;
		SAY(w, "c%d: %s is removed by hand", (int)(c - w->controllers), w->ids[p->id]);
		part_delete(c, p);
		return true;
	}
}

static bool controller_fault(struct world *w, enum action action, struct dice *d)
{
	struct controller *c = &w->controllers[roll(d, CONTROLLERS)];
	struct part *p = c->n ? &c->parts[roll(d, (uint32_t)c->n)] : NULL;
	bool lies = c->status_lies || c->list_lies;

	switch (action) {
	case ACT_BREAK:
		if (!p || c->down || p->ready != VIPU_PS_ACTIVE || p->operation != VIPU_POS_IDLE)
			return false;
		p->ready = VIPU_PS_ERROR;
		return true;
	case ACT_OUTAGE:
	case ACT_UP:
		if (c->down != (action == ACT_UP))
			return false;
		c->down = action == ACT_OUTAGE;
		return true;
	case ACT_LIE:
		if (lies)
			return false;
		c->status_lies = c->may_status_lie;
		c->list_lies = !c->may_status_lie;
		return true;
	case ACT_HONEST:
		c->status_lies = c->list_lies = false;
		return lies;
	default:
		if (c->configured != (action == ACT_LEAVE_CONFIG))
			return false;
		c->configured = action == ACT_ENTER_CONFIG;
		if (!c->configured && roll(d, 2)) /* it leaves because it's gone */
			c->down = true;
		SAY(w, "c%d", (int)(c - w->controllers));
		return true;
	}
}

/* ---- requests ---- */

bool call_send(struct world *w, int from, int controller, enum partition_step kind, int id,
	       int ipus)
{
	for (int i = 0; i < CALLS; i++) {
		struct call *c = &w->calls[i];

		if (c->used)
			continue;
		memset(c, 0, sizeof(*c));
		c->used = true;
		c->from = (int8_t)from;
		c->controller = (int8_t)controller;
		c->id = (int16_t)id;
		c->ipus = (int16_t)ipus;
		c->kind = (uint8_t)kind;
		c->epoch = w->replicas[from].epoch;
		c->sent_ms = w->now_ms;
		c->slow_ms = w->now_ms;
		if (!w->quiet && kind != PARTITION_CALL_STATUS && kind != PARTITION_CALL_LIST)
			c->slow_ms = slow_until(w->now_ms, (uint64_t)id, w->slow_calls,
						partition_times_default.call_ms + LATE_MS);
		return true;
	}
	return false;
}

static void answer(struct call *c, enum err_kind err, bool maybe)
{
	c->landed = true;
	c->err = err;
	c->maybe = maybe;
}

static bool sender_waits(const struct world *w, const struct call *c)
{
	const struct replica *r = &w->replicas[c->from];

	return !c->cut && r->alive && r->leader && r->epoch == c->epoch;
}

static void land_create(struct world *w, struct call *c, struct dice *d)
{
	struct controller *at = &w->controllers[c->controller];
	struct part *p = part_find(at, c->id);
	uint32_t luck = w->quiet ? 99 : roll(d, 100);

	if (p && p->ready == VIPU_PS_REMOVED) {
		part_delete(at, p);
		p = NULL;
	}
	happened[EV_CREATE_LATE] += !sender_waits(w, c);
	if (p) {
		happened[EV_EXISTS]++;
		answer(c, ERR_EXISTS, false);
	} else if (luck < 4) {
		happened[EV_REFUSED]++;
		answer(c, ERR_DENIED, false);
	} else if (luck < 8) {
		answer(c, ERR_INTERNAL, true);
	} else if (!part_add(w, at, c->id, c->ipus, true)) {
		happened[EV_NO_ROOM]++;
		answer(c, ERR_BUSY, false);
	} else {
		happened[EV_CREATED]++;
		w->was_made[c->id] = true;
		at->parts[at->n - 1].failing = luck < 20;
		if (luck >= 90 && luck < 99)
			answer(c, ERR_INTERNAL, true);
		else
			answer(c, ERR_NONE, false);
		if (w->uid_gone[w->uid_of[c->id]] && w->tracker[c->id].phase != PARTITION_ORPHAN)
			world_fail(w, RULE_HELD, "%s is made for an owner that is gone",
				   w->ids[c->id]);
	}
}

/* What the tracker must say for a reset or a remove to be right. */
static void check_change(struct world *w, int id, bool reset)
{
	int phase = w->tracker[id].ipus ? w->tracker[id].phase : NONE;

	if (id < STRANGERS || (phase != PARTITION_RELEASING && phase != PARTITION_ORPHAN &&
			       !(reset && phase == PARTITION_RESETTING)))
		world_fail(w, RULE_FOREIGN, "%s is %s, and the tracker says %s", w->ids[id],
			   reset ? "reset" : "removed",
			   phase == NONE ? "nothing" : partition_phase_name(phase));
}

static void land_change(struct world *w, struct call *c, struct dice *d)
{
	struct controller *at = &w->controllers[c->controller];
	struct part *p = part_find(at, c->id);
	bool reset = c->kind == PARTITION_CALL_RESET;
	uint32_t luck = w->quiet ? 99 : roll(d, 100);

	if (!p || p->ready == VIPU_PS_REMOVED) {
		answer(c, ERR_NOT_FOUND, false);
		return;
	}
	if (p->operation == VIPU_POS_REMOVING || (reset && p->operation != VIPU_POS_IDLE) ||
	    (c->kind == PARTITION_CALL_REMOVE && luck < 15)) {
		answer(c, ERR_CONFLICT, false);
		return;
	}
	happened[reset ? EV_RESET_LATE : EV_REMOVE_LATE] += !sender_waits(w, c);
	owner_check_use(w, c->id, reset ? "reset" : "removed");
	/* One made under our name where the controller doesn't list it can't be told from ours. */
	if (p->ours || at->may_status_lie || c->id < STRANGERS)
		check_change(w, c->id, reset);
	if (reset) {
		happened[EV_RESET]++;
		p->ready = VIPU_PS_PENDING;
		p->used = 0;
		p->reset_ms = w->now_ms;
	}
	p->operation = reset ? VIPU_POS_RESETTING : VIPU_POS_REMOVING;
	p->failing = luck >= 15 && luck < 27;
	answer(c, luck >= 90 && luck < 95 ? ERR_INTERNAL : ERR_NONE, luck >= 90 && luck < 95);
}

static void land_look(struct world *w, struct call *c)
{
	struct controller *at = &w->controllers[c->controller];
	const struct part *p = part_find(at, c->id);

	if (c->kind == PARTITION_CALL_STATUS) {
		answer(c, p && !at->status_lies ? ERR_NONE : ERR_NOT_FOUND, false);
		c->ready = p ? p->ready : 0;
		c->operation = p ? p->operation : 0;
		return;
	}
	answer(c, ERR_NONE, false);
	for (int i = 0; i < at->n && !at->list_lies; i++) {
		c->list.id[i] = at->parts[i].id;
		c->list.ipus[i] = at->parts[i].ipus;
		c->list.ready[i] = at->parts[i].ready;
		c->list.n = i + 1;
	}
}

static void land(struct world *w, struct call *c, struct dice *d)
{
	if (c->kind == PARTITION_CALL_CREATE)
		land_create(w, c, d);
	else if (c->kind == PARTITION_CALL_STATUS || c->kind == PARTITION_CALL_LIST)
		land_look(w, c);
	else
		land_change(w, c, d);
	SAY(w, "%s of %s from replica %d takes effect on c%d%s: %s", partition_step_name(c->kind),
	    c->id == NONE ? "all" : w->ids[c->id], c->from, c->controller,
	    sender_waits(w, c) ? "" : ", too late for its sender",
	    c->err ? err_kind_name(c->err) : "done");
}

static bool call_act(struct world *w, enum action action, struct dice *d)
{
	struct call *c = NULL;
	uint32_t at = roll(d, CALLS);
	bool landed = action == ACT_DELIVER || action == ACT_LOSE_REPLY;

	for (uint32_t i = 0; i < CALLS && !c; i++) {
		struct call *at_i = &w->calls[(at + i) % CALLS];

		if (at_i->used && at_i->landed == landed &&
		    (action != ACT_LAND || w->now_ms >= at_i->slow_ms))
			c = at_i;
	}
	if (!c)
		return false;
	if (action == ACT_LAND) {
		if (w->controllers[c->controller].down) {
			if (!sender_waits(w, c) || !roll(d, 2))
				return false;
			answer(c, ERR_UNAVAILABLE, false); /* connection refused */
			return true;
		}
		land(w, c, d);
		return true;
	}
	if (action == ACT_DELIVER && sender_waits(w, c)) {
		c->used = false;
		replica_answer(w, c, 500 + roll(d, 4000));
		return true;
	}
	if (!landed && sender_waits(w, c) && roll(d, 2)) { /* given up, and still under way */
		struct call late = *c;

		answer(&late, ERR_UNAVAILABLE, true);
		c->cut = true;
		replica_answer(w, &late, 500 + roll(d, 4000));
		return true;
	}
	/* Lost: its sender hears at the deadline. */
	SAY(w, "%s of %s from replica %d: %s is lost", partition_step_name(c->kind),
	    c->id == NONE ? "all" : w->ids[c->id], c->from, landed ? "the answer" : "it");
	if (sender_waits(w, c)) {
		answer(c, ERR_TIMEOUT, true);
		c->sent_ms -= partition_times_default.call_ms; /* no need to wait for it */
		return true;
	}
	c->used = false;
	return true;
}

void world_expire(struct world *w)
{
	int64_t call_ms = partition_times_default.call_ms;

	replica_expire(w);
	for (int i = 0; i < CALLS; i++) {
		struct call *c = &w->calls[i];

		if (!c->used || w->now_ms < c->sent_ms + call_ms)
			continue;
		if (sender_waits(w, c)) {
			struct call late = *c;

			happened[EV_TIMEOUT]++;
			SAY(w, "%s of %s from replica %d: its deadline passes",
			    partition_step_name(c->kind), c->id == NONE ? "all" : w->ids[c->id],
			    c->from);
			answer(&late, ERR_TIMEOUT, true);
			c->cut = true;
			replica_answer(w, &late, 500);
		}
		if (c->landed || w->now_ms > c->sent_ms + call_ms + LATE_MS)
			c->used = false;
	}
	tracker_expire(w);
}

/* ---- what holds at every step ---- */

static void check_replica(struct world *w, int r)
{
	const struct replica *rep = &w->replicas[r];

	for (int i = 0; i < ITEMS; i++) {
		const struct m_item *a = &rep->items[i];

		if (!a->used || !a->usable || a->forgotten)
			continue;
		for (int k = i + 1; k < ITEMS; k++) {
			const struct m_item *b = &rep->items[k];

			if (b->used && b->usable && !b->forgotten &&
			    w->uid_of[a->id] == w->uid_of[b->id] &&
			    w->instance_of[a->id] == w->instance_of[b->id])
				world_fail(w, RULE_OWN, "%s and %s may both be used by one owner",
					   w->ids[a->id], w->ids[b->id]);
		}
	}
}

void world_check(struct world *w)
{
	for (int c = 0; c < CONTROLLERS; c++) {
		const struct controller *at = &w->controllers[c];

		for (int i = 0; i < at->n; i++) {
			const struct part *p = &at->parts[i];

			if (p->ours && p->ready != VIPU_PS_REMOVED && !w->tracker[p->id].ipus)
				world_fail(w, RULE_TRACKED,
					   "%s is on c%d, and the tracker "
					   "doesn't name it",
					   w->ids[p->id], c);
		}
	}
	for (int r = 0; r < REPLICAS; r++) {
		if (replica_may_act(w, r))
			check_replica(w, r);
	}
}

static bool time_passes(struct world *w, enum action action, struct dice *d)
{
	if (action == ACT_LONG_PAUSE && roll(d, 3))
		return false;
	if (action == ACT_TICK)
		w->now_ms += (20 + (int64_t)roll(d, 600)) * w->tempo;
	else if (action == ACT_PAUSE)
		w->now_ms += 1000 + (int64_t)roll(d, 13000);
	else
		w->now_ms += 30000 + (int64_t)roll(d, 800000);
	/* Meanwhile the leader has renewed its lease, or hasn't. */
	for (int r = 0; r < REPLICAS && (action != ACT_TICK || w->tempo > 1); r++) {
		struct replica *rep = &w->replicas[r];

		if (!rep->alive || !rep->leader || w->lease_holder != r || roll(d, 4) == 0)
			continue;
		w->lease_ms = w->now_ms - (int64_t)roll(d, 2000);
		rep->lease_until_ms = w->lease_ms + w->lease_renew_ms;
	}
	return true;
}

bool world_act(struct world *w, enum action action, struct dice *d)
{
	if (action <= ACT_LONG_PAUSE)
		return time_passes(w, action, d);
	if (action <= ACT_LOSE_REPLY)
		return call_act(w, action, d);
	if (action == ACT_OPERATION)
		return operation_goes_on(w, d);
	if (action >= ACT_HAND_MAKE && action <= ACT_HAND_SQUAT)
		return by_hand(w, action, d);
	if (action < ACT_TRACKER_LAND)
		return controller_fault(w, action, d);
	if (action <= ACT_TRACKER_TOUCH)
		return tracker_act(w, action, d);
	if (action <= ACT_START)
		return replica_act(w, action, d);
	return owner_act(w, action, d);
}
