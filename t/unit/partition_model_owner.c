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
	return it->entry.phase == PARTITION_ACTIVE && it->facts.status == PARTITION_PRESENT &&
	       it->facts.health != PARTITION_HEALTHY;
}

int owner_told(struct world *w, int r, int o, int i)
{
	const struct m_slot *s = replica_slot(w, r, w->owners[o].uid, i);
	const struct m_item *it = s && s->serving != NONE ? replica_item(w, r, s->serving) : NULL;

	if (!s || !s->asking || s->reset_wanted || !it || is_failed(s, it) ||
	    it->entry.phase != PARTITION_ACTIVE || !it->usable)
		return NONE;
	return s->serving;
}

static void ask_reset(struct world *w, int r, struct seat *seat, struct m_slot *s)
{
	uint32_t epoch = w->replicas[r].epoch * REPLICAS + (uint32_t)r;

	if (!seat->wants_reset || seat->users != NONE)
		return;
	if (s->failed || s->serving == NONE) { /* the next one is fresh */
		s->failed = false;
		seat->wants_reset = false;
	} else if (seat->reset_id != s->serving || seat->reset_epoch != epoch) {
		seat->reset_id = s->serving;
		seat->reset_epoch = epoch;
		seat->resets_before = s->resets;
		s->reset_wanted = true;
	}
}

/* Asks anew, as an owner does after every change and to every new leader. */
static bool sync(struct world *w, int r, int o, int i)
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
	if (seat->users != NONE && w->ipus_of[seat->users] != seat->ipus)
		return false; /* its Pods must end first */
	replica_ensure(w, r, who->uid, i, seat->ipus);
	SAY(w, "uid-%d/%d asks replica %d for %d IPUs%s", who->uid, i, r, seat->ipus,
	    seat->wants_reset ? ", and a reset" : "");
	ask_reset(w, r, seat, replica_slot(w, r, who->uid, i));
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

static bool see(struct world *w, int r, int o, int i)
{
	struct owner *who = &w->owners[o];
	struct seat *seat = &who->seats[i];
	const struct m_slot *s = replica_slot(w, r, who->uid, i);
	const struct m_item *it = s && s->serving != NONE ? replica_item(w, r, s->serving) : NULL;
	int id = owner_told(w, r, o, i);

	if (s && s->asking && is_failed(s, it) && seat->wants) {
		if (seat->wants_reset && seat->users == NONE)
			return false;
		seat->users = NONE;
		seat->wants_reset = true;
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
	if (seat->wants_reset &&
	    (seat->reset_id == NONE || (seat->reset_id == id && s->resets == seat->resets_before) ||
	     seat->reset_epoch != w->replicas[r].epoch * REPLICAS + (uint32_t)r))
		return false;
	seat->wants_reset = false;
	seat->reset_id = NONE;
	if (!seat->wants || seat->users != NONE || seat->ipus != w->ipus_of[id])
		return false;
	seat->users = (int16_t)id;
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
	if (!w->replicas[r].synced || replica_held(w, r, who->uid) || w->n_uids == UIDS)
		return false;
	SAY(w, "uid-%d is gone", who->uid);
	check_gone(w, who->uid);
	happened[EV_GONE]++;
	w->uid_gone[who->uid] = true;
	*who = (struct owner){.uid = (int16_t)w->n_uids++};
	for (int i = 0; i < INSTANCES; i++)
		who->seats[i] = (struct seat){.ipus = 2, .users = NONE, .reset_id = NONE};
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
	case ACT_WANT_RESET:
		if (!seat->wants || seat->wants_reset)
			return false;
		seat->wants_reset = true;
		seat->reset_id = NONE;
		return true;
	case ACT_END_USERS:
		if (seat->users == NONE)
			return false;
		SAY(w, "uid-%d/%d: Pods end", w->owners[o].uid, i);
		seat->users = NONE;
		return true;
	case ACT_SYNC:
		return roll(d, 8) ? sync(w, r, o, i) : sweep_gone(w, r);
	case ACT_SEE:
		return see(w, r, o, i);
	default:
		return leave(w, r, o, d);
	}
}
