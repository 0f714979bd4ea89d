/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes partitions over: by the name that the owner's Pods have, where it's one that this owner's
 * instance could have been given, and by the name that Graphcore's operator gave it, where the
 * owner is older than our record. What isn't certain is left alone and said.
 */
#include "partition/adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/log.h"
#include "partition/queue.h"

/* Could this owner's instance have been given that identifier? All but the hash is known, which the
 * incarnation is in. */
static bool could_be_its(const struct partition_ask *ask, const char *id)
{
	char other[PARTITION_ID_MAX + 1];
	size_t stem = partition_id_stem(id);

	partition_id_make(&ask->owner, ask->instance, 0, other);
	return stem && stem == partition_id_stem(other) && memcmp(id, other, stem) == 0;
}

/* A partition of that operator's: its owner was there before our record began. */
static bool could_be_older(const struct slot *s)
{
	int64_t began_ms = tracker_began_ms(s->owner->p->tracker);

	return began_ms && s->ask.created_ms && s->ask.created_ms < began_ms &&
	       strlen(s->ask.legacy) <= PARTITION_ID_MAX;
}

static const struct vipu_partition *find_on(const struct vipu_controller *c, const char *id)
{
	const struct vipu_partition *part = c->fresh_ms ? vipu_partitions_find(&c->partitions,
									       str_of(id))
							: NULL;

	return part && part->ready != VIPU_PS_REMOVED ? part : NULL;
}

static void take(struct slot *s, const struct vipu_controller *c, const char *id)
{
	struct partitions *p = s->owner->p;
	struct partition_entry *e = xcalloc(1, sizeof(*e));
	int64_t now_ms = clock_wall_ms();

	snprintf(e->id, sizeof(e->id), "%s", id);
	partition_ask_copy(&e->ask, &s->ask);
	e->controller = intern_z(c->name);
	e->limit_ms = queue_limit_ms(s);
	/* Whoever made it may have asked for more that hasn't taken effect yet. */
	partition_entry_stamp(e, PARTITION_CREATING, false, now_ms, &p->times);
	partition_entry_stamp(e, PARTITION_ACTIVE, false, now_ms, &p->times);
	log_warn("partition", id, "taken over: controller=%s ipus=%u owner=%s/%s", c->name,
		 s->ask.ipus, s->ask.owner.ns, s->ask.owner.name);
	slot_serve(s, e, ITEM_ADOPTED);
}

enum found { FOUND_NOT, FOUND_TAKEN, FOUND_OTHER };

static enum found try_id(struct slot *s, const char *id)
{
	struct partitions *p = s->owner->p;

	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);
		const struct vipu_partition *part = find_on(c, id);

		if (!part)
			continue;
		if (part->n_ipus == s->ask.ipus) {
			take(s, c, id);
			return FOUND_TAKEN;
		}
		log_warn("partition", id,
			 "is on %s with %zu IPUs, and %s/%s asks for %u: left alone", c->name,
			 part->n_ipus, s->ask.owner.ns, s->ask.owner.name, s->ask.ipus);
		return FOUND_OTHER;
	}
	return FOUND_NOT;
}

/* The first configured controller that hasn't been heard since this process began. */
static const struct vipu_controller *first_unheard(const struct partitions *p)
{
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);

		if (c->configured && !c->fresh_ms)
			return c;
	}
	return NULL;
}

/* Until all have been heard, but not for ever. */
static bool must_wait(struct slot *s, const char *id)
{
	struct partitions *p = s->owner->p;
	const struct vipu_controller *c = first_unheard(p);
	char z[256];

	if (!c || clock_wall_ms() >= s->since_ms + p->times.orphan_ms)
		return false;
	snprintf(z, sizeof(z),
		 "its partition %s isn't in the tracker: it may be on %s, which hasn't answered "
		 "yet%s%.100s",
		 id, c->name, c->reason[0] ? ": " : "", c->reason);
	slot_wait_because(s, PARTITION_WHY_UNREACHABLE, z);
	return true;
}

/* Whoever only wants to take over asks no more; true: the slot may be gone. */
static bool nothing_to_take(struct slot *s)
{
	if (!s->ask.only_adopt)
		return false;
	slot_release(s);
	return true;
}

bool adopt_is_due(const struct slot *s)
{
	return !s->looked && s->ask.adopt && could_be_its(&s->ask, s->ask.adopt) &&
	       !map_get(s->owner->p->items, str_of(s->ask.adopt));
}

static bool older_is_due(const struct slot *s)
{
	return !s->looked && s->ask.legacy && could_be_older(s) &&
	       !map_get(s->owner->p->items, str_of(s->ask.legacy));
}

bool adopt_is_looking(const struct slot *s)
{
	return !list_empty(&s->queue) && (adopt_is_due(s) || older_is_due(s));
}

bool adopt_try(struct slot *s)
{
	/* One that the tracker knows is on its way out: it isn't lost. */
	bool due = adopt_is_due(s);
	const char *id = due ? s->ask.adopt : s->ask.legacy;
	enum found found;

	if (!due && !older_is_due(s))
		return nothing_to_take(s);
	found = try_id(s, id);
	if (found == FOUND_NOT && must_wait(s, id))
		return true;
	s->looked = true;
	if (s->leaving) {
		slot_release(s); /* what was found goes with it */
		return true;
	}
	if (found != FOUND_TAKEN && due)
		slot_vanished(s, id);
	return found == FOUND_TAKEN || due || nothing_to_take(s);
}
