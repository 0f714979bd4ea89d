/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's owners: each instance asks for a partition, lets Pods use it while it is told that it
 * may, and asks for a reset, another size, or no more only when its Pods have ended.
 */
#include "partition_model.h"

void owner_check_use(struct world *w, int id, const char *what)
{
	for (int o = 0; o < OWNERS; o++) {
		for (int i = 0; i < INSTANCES; i++) {
			if (w->owners[o].seats[i].users == id)
				world_fail(w, RULE_OWN, "%s is %s under its running Pods",
					   w->ids[id], what);
		}
	}
}

static bool is_failed(const struct m_slot *s, const struct m_item *it)
{
	if (!it)
		return s->failed;
	return it->entry.phase == PARTITION_ACTIVE &&
	       it->entry.ask.attempt == (uint32_t)s->attempt &&
	       it->facts.status == PARTITION_PRESENT && it->facts.health != PARTITION_HEALTHY;
}

int owner_told(struct world *w, int r, int o, int i)
{
	const struct m_slot *s = replica_slot(w, r, w->owners[o].uid, i);
	const struct m_item *it = s && s->serving != NONE ? replica_item(w, r, s->serving) : NULL;

	if (!s || !s->asking || !it || is_failed(s, it) || it->entry.phase != PARTITION_ACTIVE ||
	    it->entry.ask.attempt != (uint32_t)w->owners[o].seats[i].attempt || !it->usable)
		return NONE;
	return s->serving;
}

/* Asks anew, as an owner does after every change and to every new leader. */
static bool sync_owner(struct world *w, int r, int o, int i)
{
	struct owner *who = &w->owners[o];
	struct seat *seat = &who->seats[i];
	const struct m_slot *s = replica_slot(w, r, who->uid, i);

	if (!seat->wants) {
		if (seat->users != NONE || !s || !s->asking)
			return false;
		replica_release(w, r, who->uid, i);
		SAY(w, "uid-%d/%d asks replica %d no more", who->uid, i, r);
		return true;
	}
	if (seat->users != NONE &&
	    (w->ipus_of[seat->users] != seat->ipus || seat->users_attempt != seat->attempt))
		return false; /* its Pods must end first */
	if (seat->asked_attempt != seat->attempt) {
		seat->asked_attempt = seat->attempt;
		seat->asked_ms = w->now_ms;
	}
	replica_ensure(w, r, who->uid, i, seat->ipus, seat->attempt);
	SAY(w, "uid-%d/%d asks replica %d for %d IPUs, run %d", who->uid, i, r, seat->ipus,
	    seat->attempt);
	return true;
}

/* Asks of owners that are gone: they are looked for, and given up. */
static bool sweep_gone(struct world *w, int r)
{
	for (int i = 0; i < ITEMS; i++) {
		const struct m_slot *s = &w->replicas[r].slots[i];

		if (s->used && s->asking && w->uid_gone[s->uid]) {
			replica_release(w, r, s->uid, s->instance);
			return true;
		}
	}
	return false;
}

static bool is_there(struct world *w, int id)
{
	for (int c = 0; c < CONTROLLERS; c++) {
		const struct part *p = part_find(&w->controllers[c], id);

		if (p && p->ours && p->ready != VIPU_PS_REMOVED)
			return true;
	}
	return false;
}

/* What Pods of an earlier run have used must have been reset since, and after the ask for this one.
 */
static void check_fresh(struct world *w, int id, const struct seat *seat)
{
	for (int c = 0; c < CONTROLLERS; c++) {
		struct part *p = part_find(&w->controllers[c], id);

		if (!p)
			continue;
		if (p->used && p->used != seat->attempt)
			world_fail(w, RULE_OWN, "%s is for run %d, and is as run %d left it",
				   w->ids[id], seat->attempt, p->used);
		if (p->reset_ms && p->reset_ms < seat->asked_ms)
			world_fail(w, RULE_OWN, "%s is for run %d, and was reset before its ask",
				   w->ids[id], seat->attempt);
		happened[EV_FRESH] += p->reset_ms && !p->used;
		p->used = seat->attempt;
	}
}

static bool see(struct world *w, int r, int o, int i)
{
	struct owner *who = &w->owners[o];
	struct seat *seat = &who->seats[i];
	const struct m_slot *s = replica_slot(w, r, who->uid, i);
	const struct m_item *it = s && s->serving != NONE ? replica_item(w, r, s->serving) : NULL;
	int id = owner_told(w, r, o, i);

	if (s && s->asking && is_failed(s, it) && seat->wants) {
		if (s->attempt != seat->attempt && seat->users == NONE)
			return false;
		seat->users = NONE;
		seat->attempt++;
		return true;
	}
	if (id == NONE)
		return false;
	if (w->uid_of[id] != who->uid || w->instance_of[id] != i)
		world_fail(w, RULE_OWN, "uid-%d/%d is told to use %s", who->uid, i, w->ids[id]);
	if (seat->users != NONE && seat->users != id && is_there(w, seat->users))
		world_fail(w, RULE_OWN, "uid-%d/%d is told to use %s while its Pods use %s",
			   who->uid, i, w->ids[id], w->ids[seat->users]);
	if (seat->users != NONE && seat->users != id) {
		seat->users = NONE;
		return true;
	}
	if (!seat->wants || seat->users != NONE || seat->ipus != w->ipus_of[id])
		return false;
	seat->users = (int16_t)id;
	seat->users_attempt = seat->attempt;
	check_fresh(w, id, seat);
	happened[EV_USERS]++;
	SAY(w, "uid-%d/%d: Pods use %s", who->uid, i, w->ids[id]);
	return true;
}

/* ---- the end of an owner ---- */

static void check_gone(struct world *w, int uid)
{
	for (int id = STRANGERS; id < w->n_ids; id++) {
		if (w->uid_of[id] != uid)
			continue;
		if (w->tracker[id].ipus && w->tracker[id].phase != PARTITION_ORPHAN)
			world_fail(w, RULE_HELD,
				   "uid-%d is told that it holds nothing, and the "
				   "tracker names %s",
				   uid, w->ids[id]);
		if (is_there(w, id) && !w->tracker[id].ipus)
			world_fail(w, RULE_HELD,
				   "uid-%d is told that it holds nothing, and %s "
				   "is there",
				   uid, w->ids[id]);
	}
}

static bool leave(struct world *w, int r, int o, struct dice *d)
{
	struct owner *who = &w->owners[o];

	if (!who->leaving) {
		if (roll(d, 12))
			return false;
		who->leaving = true;
		for (int i = 0; i < INSTANCES; i++)
			who->seats[i].wants = false;
		return true;
	}
	for (int i = 0; i < INSTANCES; i++) {
		if (who->seats[i].users != NONE)
			return false;
	}
	if (roll(d, 8) == 0 && w->replicas[r].synced) { /* it doesn't wait */
		for (int i = 0; i < INSTANCES; i++)
			replica_abandon(w, r, who->uid, i);
	}
	if (!w->replicas[r].synced || replica_held(w, r, who->uid) || w->n_uids == UIDS)
		return false;
	SAY(w, "uid-%d is gone", who->uid);
	check_gone(w, who->uid);
	happened[EV_GONE]++;
	w->uid_gone[who->uid] = true;
	*who = (struct owner){.uid = (int16_t)w->n_uids++};
	for (int i = 0; i < INSTANCES; i++)
		who->seats[i] = (struct seat){.ipus = 2, .users = NONE, .attempt = 1};
	return true;
}

bool owner_act(struct world *w, enum action action, struct dice *d)
{
	int r = (int)roll(d, REPLICAS), o = (int)roll(d, OWNERS), i = (int)roll(d, INSTANCES);
	struct seat *seat = &w->owners[o].seats[i];

	if (action >= ACT_SYNC && !replica_may_act(w, r))
		return false;
	switch (action) {
	case ACT_MIND:
		if (w->owners[o].leaving || (seat->wants && roll(d, 3)))
			return false;
		seat->wants = !seat->wants;
		SAY(w, "uid-%d/%d %s", w->owners[o].uid, i, seat->wants ? "wants" : "gives up");
		return true;
	case ACT_RESIZE:
		seat->ipus = (int16_t)(1 << roll(d, 4));
		return true;
	case ACT_NEXT_RUN:
		if (!seat->wants ||
		    ((seat->users == NONE || seat->users_attempt != seat->attempt) && roll(d, 8)))
			return false; /* seldom before the present one has begun */
		seat->attempt++;
		return true;
	case ACT_END_USERS:
		if (seat->users == NONE)
			return false;
		SAY(w, "uid-%d/%d: Pods end", w->owners[o].uid, i);
		seat->users = NONE;
		return true;
	case ACT_SYNC:
		return roll(d, 8) ? sync_owner(w, r, o, i) : sweep_gone(w, r);
	case ACT_SEE:
		return see(w, r, o, i);
	default:
		return leave(w, r, o, d);
	}
}
