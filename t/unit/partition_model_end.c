/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an episode: no more faults, everything that is under way arrives, and time passes.
 * Then everybody must have what they want, or wait for room that isn't there, and nothing is left
 * over.
 */
#include "partition_model.h"

#include <stdio.h>

#define ROUNDS 900

static int leader_of(const struct world *w)
{
	for (int r = 0; r < REPLICAS; r++) {
		if (replica_may_act(w, r))
			return r;
	}
	return NONE;
}

static bool has_room(const struct world *w, int ipus)
{
	for (int c = 0; c < CONTROLLERS; c++) {
		if (IPUS - part_used(&w->controllers[c]) >= ipus)
			return true;
	}
	return false;
}

/* NULL: this seat has come to rest; else what it lacks. */
static const char *seat_lacks(struct world *w, int r, int o, int i)
{
	const struct owner *who = &w->owners[o];
	const struct seat *seat = &who->seats[i];
	const struct m_slot *s = replica_slot(w, r, who->uid, i);
	int id = owner_told(w, r, o, i);
	const struct part *p;

	if (!seat->wants)
		return s ? "it wants nothing, and isn't rid of what it had" : NULL;
	if (!s || !s->asking || s->ipus != seat->ipus || s->attempt != seat->attempt)
		return "it hasn't asked";
	if (id == NONE)
		return s->serving != NONE || s->failed || has_room(w, seat->ipus)
			       ? "it has nothing, and there is room"
			       : NULL;
	p = part_find(&w->controllers[w->tracker[id].controller], id);
	if (!p || p->ready != VIPU_PS_ACTIVE || p->operation != VIPU_POS_IDLE)
		return "its partition isn't well";
	return NULL;
}

static const char *leftover(struct world *w, int r)
{
	for (int id = STRANGERS; id < w->n_ids; id++) {
		const struct val *v = &w->tracker[id];

		if (v->ipus && v->phase != PARTITION_ACTIVE)
			return "the tracker has an entry at work";
		if (v->ipus && w->uid_gone[v->uid])
			return "the tracker has an entry of an owner that is gone";
		if (!tracker_recorded(w, r, id))
			return "the tracker isn't as it should be";
	}
	for (int c = 0; c < CONTROLLERS; c++) {
		for (int i = 0; i < w->controllers[c].n; i++) {
			const struct part *p = &w->controllers[c].parts[i];

			if (p->ours && p->ready != VIPU_PS_REMOVED && !w->tracker[p->id].ipus)
				return "a partition is nobody's";
		}
	}
	return NULL;
}

static const char *world_lacks(struct world *w, int *ret_o, int *ret_i)
{
	int r = leader_of(w);

	*ret_o = NONE;
	if (r == NONE || !w->replicas[r].synced)
		return "nobody leads";
	for (int o = 0; o < OWNERS; o++) {
		for (int i = 0; i < INSTANCES; i++) {
			const char *lack = seat_lacks(w, r, o, i);

			*ret_o = w->owners[o].uid;
			*ret_i = i;
			if (lack)
				return lack;
		}
	}
	*ret_o = NONE;
	return leftover(w, r);
}

/* Pods that must end do. */
static void end_users(struct world *w)
{
	for (int o = 0; o < OWNERS; o++) {
		for (int i = 0; i < INSTANCES; i++) {
			struct seat *seat = &w->owners[o].seats[i];

			if (seat->users != NONE &&
			    (!seat->wants || seat->users_attempt != seat->attempt ||
			     seat->ipus != w->ipus_of[seat->users]))
				seat->users = NONE;
		}
	}
}

static bool round_of(struct world *w, struct dice *d)
{
	static const struct {
		uint8_t action, times;
	} all[] = {
		{ACT_UP, 4},           {ACT_HONEST, 4},
		{ACT_ENTER_CONFIG, 4}, {ACT_START, 4},
		{ACT_TAKE_LEASE, 4},   {ACT_RENEW, 6},
		{ACT_TRACKER_LAND, 8}, {ACT_TRACKER_DELIVER, 8},
		{ACT_TRACKER_STEP, 2}, {ACT_TRACKER_WATCH, 2},
		{ACT_LAND, 12},        {ACT_DELIVER, 12},
		{ACT_OPERATION, 10},   {ACT_RUN, 14},
		{ACT_SYNC, 10},        {ACT_SEE, 10},
		{ACT_SERVE, 4},        {ACT_REFRESH, 4},
	};
	bool moved = false;

	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		for (int n = 0; n < all[k].times && !w->broken; n++) {
			if (!world_act(w, (enum action)all[k].action, d))
				continue;
			moved = moved || (all[k].action != ACT_SYNC && all[k].action != ACT_RENEW &&
					  all[k].action != ACT_REFRESH);
			world_expire(w);
			world_check(w);
		}
	}
	return moved;
}

void world_settle(struct world *w)
{
	struct dice d = {42};
	const char *lack = NULL;
	int o = NONE, i = NONE;

	w->quiet = true;
	for (int n = 0; n < ROUNDS && !w->broken; n++) {
		lack = world_lacks(w, &o, &i);
		if (!lack)
			return;
		end_users(w);
		w->now_ms += round_of(w, &d) ? 100 : 2000;
		world_expire(w);
	}
	if (o != NONE)
		world_fail(w, RULE_PROGRESS, "uid-%d/%d in the end: %s", o, i, lack);
	else
		world_fail(w, RULE_PROGRESS, "in the end: %s", lack);
}
