/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's replicas: what manager.c and item.c do around the planner, without their I/O. What is
 * believed and what is done next is the program's own code: facts.c and plan.c.
 */
#include "partition_model.h"

#include <stdio.h>
#include <string.h>

#include "core/buf.h"

bool replica_may_act(const struct world *w, int r)
{
	const struct replica *rep = &w->replicas[r];

	return rep->alive && rep->leader && w->now_ms < rep->lease_until_ms;
}

void replica_reset(struct world *w, int r)
{
	struct replica *rep = &w->replicas[r], fresh;

	memset(&fresh, 0, sizeof(fresh));
	fresh.alive = rep->alive;
	fresh.epoch = rep->epoch + 1;
	fresh.skew_ms = rep->skew_ms;
	*rep = fresh;
}

/* ---- slots and items ---- */

struct m_item *replica_item(struct world *w, int r, int id)
{
	for (int i = 0; i < ITEMS; i++) {
		struct m_item *it = &w->replicas[r].items[i];

		if (it->used && it->id == id)
			return it;
	}
	return NULL;
}

struct m_slot *replica_slot(struct world *w, int r, int uid, int instance)
{
	for (int i = 0; i < ITEMS; i++) {
		struct m_slot *s = &w->replicas[r].slots[i];

		if (s->used && s->uid == uid && s->instance == instance)
			return s;
	}
	return NULL;
}

static struct m_slot *need_slot(struct world *w, int r, int uid, int instance, int ipus)
{
	struct m_slot *s = replica_slot(w, r, uid, instance);

	for (int i = 0; i < ITEMS && !s; i++) {
		s = &w->replicas[r].slots[i];
		if (s->used) {
			s = NULL;
			continue;
		}
		*s = (struct m_slot){.used = true,
				     .uid = (int16_t)uid,
				     .instance = (int16_t)instance,
				     .ipus = (int16_t)ipus,
				     .serving = NONE};
	}
	if (!s)
		world_fail(w, RULE_PROGRESS, "the model has too few slots");
	return s;
}

static struct m_slot *slot_of(struct world *w, int r, const struct m_item *it)
{
	return replica_slot(w, r, w->uid_of[it->id], w->instance_of[it->id]);
}

static void sweep_slot(struct world *w, int r, struct m_slot *s)
{
	if (s->asking)
		return;
	for (int i = 0; i < ITEMS; i++) {
		const struct m_item *it = &w->replicas[r].items[i];

		if (it->used && slot_of(w, r, it) == s)
			return;
	}
	s->used = false;
}

static struct m_item *new_item(struct world *w, int r, int id)
{
	for (int i = 0; i < ITEMS; i++) {
		struct m_item *it = &w->replicas[r].items[i];

		if (it->used)
			continue;
		memset(it, 0, sizeof(*it));
		it->used = true;
		it->id = (int16_t)id;
		memcpy(it->entry.id, w->ids[id], sizeof(it->entry.id));
		return it;
	}
	world_fail(w, RULE_PROGRESS, "the model has too few items");
	return NULL;
}

static char kind_z[] = "IPUJob", ns_z[] = "default", name_z[] = "job";
static char controller_z[CONTROLLERS][8] = {"c0:8090", "c1:8090"};

static void fill_entry(struct world *w, struct partition_entry *e, const struct val *v)
{
	e->ask.owner = (struct partition_owner){kind_z, ns_z, name_z, w->uids[v->uid]};
	e->ask.instance = (uint32_t)v->instance;
	e->ask.ipus = (uint32_t)v->ipus;
	e->ask.attempt = (uint32_t)v->attempt;
	e->controller = controller_z[v->controller];
	e->phase = (enum partition_phase)v->phase;
	e->since_ms = v->since_ms;
	e->settle_ms = v->settle_ms;
	e->active_ms = v->active_ms;
}

/* An entry is read as it was written: by the program's own coder. */
static void load_entry(struct world *w, struct partition_entry *e, const struct val *v)
{
	struct buf json = BUF_INIT(16384);
	struct partition_entry *got;
	struct err err = ERR_INIT;
	struct val back;

	fill_entry(w, e, v);
	if (partition_entry_encode(e, &json, &err) < 0 ||
	    partition_entry_decode(e->id, buf_str(&json), &got, &err) < 0) {
		world_fail(w, RULE_TRACKED, "%s: %s", e->id, err.msg);
	} else {
		back = val_of(w, got);
		if (memcmp(&back, v, sizeof(back)) != 0)
			world_fail(w, RULE_TRACKED, "%s isn't read as it was written", e->id);
		fill_entry(w, e, &back);
		partition_entry_free(got);
	}
	buf_done(&json);
}

void replica_found(struct world *w, int r, int id, const struct val *v)
{
	struct m_slot *s = need_slot(w, r, v->uid, v->instance, v->ipus);
	struct m_item *it = new_item(w, r, id);

	if (!s || !it)
		return;
	happened[EV_LOADED]++;
	load_entry(w, &it->entry, v);
	partition_entry_loaded(&it->entry, clock_of(w, r));
	partition_facts_init(&it->facts, it->entry.phase, clock_of(w, r));
	it->usable = it->entry.phase == PARTITION_ACTIVE;
	SAY(w, "replica %d reads %s, %s", r, w->ids[id], partition_phase_name(it->entry.phase));
	if (s->serving == NONE && v->phase != PARTITION_RELEASING && v->phase != PARTITION_ORPHAN &&
	    (!s->asking || s->ipus == v->ipus)) {
		s->serving = (int16_t)id;
		s->asking = true;
		s->failed = false;
		s->ipus = (int16_t)v->ipus;
		s->attempt = v->attempt;
	}
}

/* ---- what owners ask ---- */

void replica_ensure(struct world *w, int r, int uid, int instance, int ipus, int attempt)
{
	struct m_slot *s = need_slot(w, r, uid, instance, ipus);
	const struct m_item *it;

	if (!s)
		return;
	if (!s->asking || s->attempt != attempt)
		s->failed = false;
	s->abandoned = s->abandoned && s->asking;
	s->attempt = attempt;
	if (s->asking && s->ipus == ipus)
		return;
	it = s->serving == NONE ? NULL : replica_item(w, r, s->serving);
	if (it && it->entry.ask.ipus != (uint32_t)ipus)
		s->serving = NONE;
	s->ipus = (int16_t)ipus;
	s->asking = true;
}

void replica_release(struct world *w, int r, int uid, int instance)
{
	struct m_slot *s = replica_slot(w, r, uid, instance);

	if (!s || !s->asking)
		return;
	s->asking = s->failed = false;
	s->serving = NONE;
	sweep_slot(w, r, s);
}

void replica_abandon(struct world *w, int r, int uid, int instance)
{
	struct m_slot *s = replica_slot(w, r, uid, instance);

	if (!s)
		return;
	s->abandoned = true;
	replica_release(w, r, uid, instance);
}

int replica_held(const struct world *w, int r, int uid)
{
	const struct replica *rep = &w->replicas[r];
	int n = 0;

	for (int i = 0; i < ITEMS; i++) {
		n += rep->slots[i].used && rep->slots[i].uid == uid && rep->slots[i].asking;
		n += rep->items[i].used && w->uid_of[rep->items[i].id] == uid &&
		     !(rep->items[i].entry.phase == PARTITION_ORPHAN &&
		       tracker_recorded(w, r, rep->items[i].id));
	}
	return n;
}

/* ---- what is known ---- */

static void gather(struct world *w, int r, struct m_item *it)
{
	struct partition_facts *f = &it->facts;
	const struct m_slot *s = slot_of(w, r, it);
	int c = it->entry.controller[1] - '0';
	const struct view *v = &w->replicas[r].views[c];
	struct vipu_partition part = {0}, *found = NULL;

	f->now_ms = clock_of(w, r);
	f->recorded = tracker_recorded(w, r, it->id);
	f->wanted = s->serving == it->id && s->asking;
	if (it->entry.phase == PARTITION_ACTIVE && f->recorded)
		it->usable = true;
	f->attempt = (uint32_t)s->attempt;
	f->abandoned = s->abandoned;
	f->configured = w->controllers[c].configured;
	f->unreachable_since_ms = v->unreach ? v->failing_since_ms : 0;
	for (int i = 0; i < v->list.n && !found; i++) {
		if (v->list.id[i] == it->id) {
			found = &part;
			part.ready = (enum vipu_ready)v->list.ready[i];
			part.n_ipus = (size_t)v->list.ipus[i];
		}
	}
	partition_facts_listed(f, &it->entry, found, v->has ? v->asked_ms - 2 : 0);
}

static void note_view(struct world *w, struct call *c)
{
	struct view *v = &w->replicas[c->from].views[c->controller];
	int64_t asked_ms = c->sent_ms + w->replicas[c->from].skew_ms;

	v->asking = false;
	v->unreach = c->err != ERR_NONE;
	v->reach = !v->unreach;
	if (v->unreach) {
		if (!v->failing_since_ms)
			v->failing_since_ms = clock_of(w, c->from);
		return;
	}
	v->failing_since_ms = 0;
	if (v->has && v->asked_ms > asked_ms)
		return;
	v->has = true;
	v->asked_ms = asked_ms;
	v->list = c->list;
}

void replica_answer(struct world *w, struct call *c, uint32_t backoff_ms)
{
	struct m_item *it = c->id == NONE ? NULL : replica_item(w, c->from, c->id);
	struct vipu_status status = {.ready = (enum vipu_ready)c->ready,
				     .operation = (enum vipu_operation)c->operation};
	struct err err = {.kind = c->err, .maybe_applied = c->maybe};
	bool failed;

	SAY(w, "replica %d hears of %s of %s: %s", c->from, partition_step_name(c->kind),
	    c->id == NONE ? "all" : w->ids[c->id], c->err ? err_kind_name(c->err) : "done");
	if (c->kind == PARTITION_CALL_LIST)
		note_view(w, c);
	if (!it)
		return;
	if (c->kind == PARTITION_CALL_CREATE && c->err == ERR_EXISTS && !it->facts.was_unknown &&
	    it->facts.answer != PARTITION_UNKNOWN)
		it->knew_foreign = true;
	failed = partition_facts_answered(&it->facts, c->err ? &err : NULL, &status,
					  clock_of(w, c->from));
	if (failed)
		it->facts.not_before_ms = clock_of(w, c->from) + backoff_ms;
}

/* ---- steps of the planner ---- */

static void slot_lost(struct world *w, int r, const struct m_item *it, enum partition_phase was,
		      enum partition_why why)
{
	struct m_slot *s = slot_of(w, r, it);

	if (s->serving != it->id)
		return;
	s->serving = NONE;
	if (!s->asking)
		return;
	if (why == PARTITION_WHY_VANISHED && was != PARTITION_CREATING)
		s->failed = true;
	else if (why)
		s->not_before_ms = w->now_ms + 1000;
}

static void cut(struct world *w, int r, const struct m_item *it)
{
	for (int i = 0; i < CALLS; i++) {
		struct call *c = &w->calls[i];

		if (c->used && !c->cut && c->from == r && c->id == it->id &&
		    c->epoch == w->replicas[r].epoch) {
			c->cut = true;
			happened[EV_CUT]++;
		}
	}
}

/* A partition is taken for ours only where that may be so: its create's answer got lost, and the
 * size agrees. */
static void check_active(struct world *w, int r, const struct m_item *it)
{
	struct controller *c = &w->controllers[it->entry.controller[1] - '0'];
	const struct part *p = part_find(c, it->id);
	int64_t asked_ms = it->facts.status_asked_ms - w->replicas[r].skew_ms;

	if (it->knew_foreign)
		world_fail(w, RULE_FOREIGN, "%s was somebody else's", w->ids[it->id]);
	if (p && !p->ours && p->ipus != (int)it->entry.ask.ipus && p->made_ms < asked_ms &&
	    it->facts.was_unknown && !w->was_made[it->id] && it->facts.listed != PARTITION_PRESENT)
		world_fail(w, RULE_FOREIGN, "%s with %d IPUs is taken for ours", w->ids[it->id],
			   p->ipus);
}

static void step_record(struct world *w, int r, struct m_item *it, struct partition_plan plan)
{
	static const enum event events[] = {
		[PARTITION_CREATING] = EV_RECORD_CREATING,
		[PARTITION_ACTIVE] = EV_RECORD_ACTIVE,
		[PARTITION_RESETTING] = EV_RECORD_RESETTING,
		[PARTITION_RELEASING] = EV_RECORD_RELEASING,
		[PARTITION_ORPHAN] = EV_RECORD_ORPHAN,
	};
	enum partition_phase from = it->entry.phase;

	happened[events[plan.phase]]++;
	happened[EV_ABANDONED] += plan.phase == PARTITION_ORPHAN && it->facts.abandoned;
	happened[EV_DOOMED] += from == PARTITION_CREATING && plan.phase == PARTITION_RELEASING &&
			       it->facts.answer == PARTITION_UNKNOWN;
	cut(w, r, it);
	it->usable = false;
	partition_facts_record(&it->facts, &it->entry, plan.phase, clock_of(w, r),
			       &partition_times_default);
	tracker_put(w, r, it);
	if (plan.phase == PARTITION_ACTIVE && from == PARTITION_CREATING)
		check_active(w, r, it);
	if (plan.phase == PARTITION_RELEASING || plan.phase == PARTITION_ORPHAN)
		slot_lost(w, r, it, from, plan.why);
}

static void step_forget(struct world *w, int r, struct m_item *it, enum partition_why why)
{
	happened[EV_ORPHAN_BACK] += it->entry.phase == PARTITION_ORPHAN;
	happened[EV_FORGET]++;
	happened[EV_VANISHED] += why == PARTITION_WHY_VANISHED;
	happened[EV_TAKEN] += why == PARTITION_WHY_TAKEN;
	cut(w, r, it);
	partition_facts_cut(&it->facts);
	it->forgotten = true;
	tracker_drop(w, r, it->id);
	slot_lost(w, r, it, it->entry.phase, why);
}

static bool step_call(struct world *w, int r, struct m_item *it, enum partition_step step)
{
	const struct partition_facts *f = &it->facts;
	bool looks = step == PARTITION_CALL_STATUS || step == PARTITION_CALL_LIST;
	bool other = f->listed == PARTITION_PRESENT && f->listed_ipus != it->entry.ask.ipus;

	if (!call_send(w, r, it->entry.controller[1] - '0', step, it->id, (int)it->entry.ask.ipus))
		return false;
	if (!looks && step != PARTITION_CALL_CREATE && (it->knew_foreign || other))
		world_fail(w, RULE_FOREIGN, "%s of %s, which isn't ours: %s",
			   partition_step_name(step), w->ids[it->id],
			   other ? "its size is another" : "the create said so");
	happened[EV_AGAIN] += step == PARTITION_CALL_CREATE && f->answer == PARTITION_UNKNOWN;
	partition_facts_sent(&it->facts, step, clock_of(w, r));
	return true;
}

bool replica_run(struct world *w, int r, int item)
{
	struct m_item *it = &w->replicas[r].items[item];
	struct partition_plan plan;
	struct m_slot *s;

	if (!it->used)
		return false;
	if (it->forgotten) {
		if (!tracker_recorded(w, r, it->id))
			return false;
		s = slot_of(w, r, it);
		it->used = false;
		sweep_slot(w, r, s);
		return true;
	}
	gather(w, r, it);
	plan = partition_plan(&it->entry, &it->facts, &partition_times_default);
	if (plan.step == PARTITION_WAIT)
		return false;
	SAY(w, "replica %d, %s (%s): %s%s%s%s%s", r, w->ids[it->id],
	    partition_phase_name(it->entry.phase), partition_step_name(plan.step),
	    plan.step == PARTITION_RECORD ? " " : "",
	    plan.step == PARTITION_RECORD ? partition_phase_name(plan.phase) : "",
	    plan.why ? ", " : "", partition_why_name(plan.why));
	if (plan.step == PARTITION_RECORD)
		step_record(w, r, it, plan);
	else if (plan.step == PARTITION_FORGET)
		step_forget(w, r, it, plan.why);
	else
		return step_call(w, r, it, plan.step);
	return true;
}

/* ---- the queue ---- */

static int room(const struct world *w, int r, int controller)
{
	const struct replica *rep = &w->replicas[r];
	const struct view *v = &rep->views[controller];
	int room = IPUS;

	for (int i = 0; i < v->list.n; i++)
		room -= v->list.ready[i] == VIPU_PS_REMOVED ? 0 : v->list.ipus[i];
	for (int i = 0; i < ITEMS; i++) {
		const struct m_item *it = &rep->items[i];

		if (it->used && !it->forgotten && it->entry.phase == PARTITION_CREATING &&
		    it->entry.controller[1] - '0' == controller &&
		    it->facts.listed != PARTITION_PRESENT)
			room -= (int)it->entry.ask.ipus;
	}
	return room;
}

/* A new identifier, or NONE: the episode has none left. */
static int new_id(struct world *w, int r, const struct m_slot *s)
{
	struct partition_owner owner = {kind_z, ns_z, name_z, w->uids[s->uid]};
	struct replica *rep = &w->replicas[r];
	uint64_t incarnation = (uint64_t)clock_of(w, r);
	char id[PARTITION_ID_MAX + 1];

	if (incarnation <= rep->incarnation)
		incarnation = rep->incarnation + 1;
	rep->incarnation = incarnation;
	partition_id_make(&owner, (uint32_t)s->instance, incarnation, id);
	for (int i = 0; i < w->n_ids; i++) {
		if (strcmp(w->ids[i], id) == 0)
			return NONE;
	}
	if (w->n_ids == IDS)
		return NONE;
	memcpy(w->ids[w->n_ids], id, sizeof(id));
	w->uid_of[w->n_ids] = s->uid;
	w->instance_of[w->n_ids] = s->instance;
	w->ipus_of[w->n_ids] = s->ipus;
	return w->n_ids++;
}

bool replica_serve(struct world *w, int r, int slot)
{
	struct replica *rep = &w->replicas[r];
	struct m_slot *s = &rep->slots[slot];
	struct m_item *it;
	struct val v = {0};
	int used = 0, id;

	if (!s->used || !s->asking || s->serving != NONE || s->failed || !rep->synced ||
	    w->now_ms < s->not_before_ms)
		return false;
	for (int i = 0; i < ITEMS; i++)
		used += rep->items[i].used;
	for (int c = 0; c < CONTROLLERS && used < ITEMS - 6; c++) {
		if (!w->controllers[c].configured || !rep->views[c].has || !rep->views[c].reach ||
		    room(w, r, c) < s->ipus)
			continue;
		id = new_id(w, r, s);
		it = id == NONE ? NULL : new_item(w, r, id);
		if (!it)
			return false;
		v = (struct val){s->ipus, s->uid, s->instance, c, 0, s->attempt, 0, 0, 0};
		fill_entry(w, &it->entry, &v);
		partition_entry_stamp(&it->entry, PARTITION_CREATING, true, clock_of(w, r),
				      &partition_times_default);
		partition_facts_init(&it->facts, PARTITION_CREATING, 0);
		s->serving = (int16_t)id;
		tracker_put(w, r, it);
		SAY(w, "replica %d gives uid-%d/%d %s on c%d", r, s->uid, s->instance, w->ids[id],
		    c);
		return true;
	}
	return false;
}

/* ---- the lease ---- */

static bool lease_act(struct world *w, enum action action, int r, struct dice *d)
{
	struct replica *rep = &w->replicas[r];
	int64_t back_ms;

	switch (action) {
	case ACT_RENEW:
		if (!replica_may_act(w, r) || w->lease_holder != r)
			return false;
		w->lease_ms = w->now_ms;
		if (w->quiet || roll(d, 8)) /* else the answer is lost */
			rep->lease_until_ms = w->now_ms + w->lease_renew_ms;
		return true;
	case ACT_LEASE_LOST: /* it hasn't been answered for a while */
		if (!replica_may_act(w, r) || w->lease_holder != r)
			return false;
		back_ms = 4000 + (int64_t)roll(d, 8000);
		w->lease_ms -= back_ms;
		rep->lease_until_ms -= back_ms;
		return true;
	case ACT_TAKE_LEASE:
		if (!rep->alive || rep->leader ||
		    (w->lease_holder != NONE && w->lease_holder != r &&
		     w->now_ms < w->lease_ms + w->lease_lasts_ms))
			return false;
		replica_reset(w, r);
		rep->leader = true;
		w->lease_holder = r;
		w->lease_ms = w->now_ms;
		rep->lease_until_ms = w->now_ms + w->lease_renew_ms;
		SAY(w, "replica %d leads", r);
		return true;
	case ACT_STOP:
		if (!replica_may_act(w, r) || w->lease_holder != r)
			return false;
		replica_reset(w, r);
		w->lease_holder = NONE;
		SAY(w, "replica %d leads no more", r);
		return true;
	default:
		if (rep->alive != (action == ACT_CRASH))
			return false;
		rep->alive = action == ACT_START;
		replica_reset(w, r);
		SAY(w, "replica %d", r);
		return true;
	}
}

static bool refresh(struct world *w, int r, int c)
{
	struct view *v = &w->replicas[r].views[c];

	if (!replica_may_act(w, r) || v->asking)
		return false;
	if (!call_send(w, r, c, PARTITION_CALL_LIST, NONE, 0))
		return false;
	v->asking = true;
	return true;
}

bool replica_act(struct world *w, enum action action, struct dice *d)
{
	int r = (int)roll(d, REPLICAS), first = (int)roll(d, ITEMS);

	if (action >= ACT_RENEW)
		return lease_act(w, action, r, d);
	if (action == ACT_TRACKER_STEP)
		return tracker_act(w, action, d);
	if (action == ACT_REFRESH)
		return refresh(w, r, (int)roll(d, CONTROLLERS));
	if (!replica_may_act(w, r))
		return false;
	for (int i = 0; i < ITEMS; i++) {
		int at = (first + i) % ITEMS;

		if (action == ACT_RUN ? replica_run(w, r, at) : replica_serve(w, r, at))
			return true;
	}
	return false;
}

/* A leader whose lease ran out stops: what it sent is still under way. */
void replica_expire(struct world *w)
{
	for (int r = 0; r < REPLICAS; r++) {
		if (w->replicas[r].leader && !replica_may_act(w, r)) {
			SAY(w, "replica %d has lost the lease", r);
			replica_reset(w, r);
		}
	}
}
