/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tracker says becomes slots and items: once, of a process that leads and keeps it from
 * then on; again and again, of one that follows.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "partition/internal.h"
#include "partition/queue.h"

/* A follower: what the owner asks for now. */
static void take_ask(struct slot *s, const struct partition_ask *ask)
{
	struct partitions *p = s->owner->p;

	if (!p->following)
		return;
	p->queue_mixed = p->queue_mixed || s->ask.priority != ask->priority;
	partition_ask_done(&s->ask);
	partition_ask_copy(&s->ask, ask);
}

/* ---- waits ---- */

static void take_wait(struct slot *s, const struct partition_wait *w)
{
	if (s->serving)
		return;
	if (!s->asking || s->owner->p->following) {
		s->asking = true; /* its owner asked, and may ask otherwise now */
		s->failed = w->failed;
		s->why = w->why;
		s->arrived_ms = w->since_ms;
	}
	if (w->since_ms < s->arrived_ms)
		s->arrived_ms = w->since_ms;
	if (s->failed)
		queue_remove(s);
	else
		queue_add(s);
}

/* What can't be read is kept as it is, but what there is no memory for is told again. */
static int unread(struct partitions *p, const char *key, const struct err *why, struct err *err)
{
	if (err_is_no_memory(why))
		return err_copy(err, why);
	tracker_reject(p->tracker, key, why);
	return 0;
}

static int on_found_wait(struct partitions *p, const char *key, struct str json, struct err *err)
{
	struct partition_wait w;
	struct slot *s;
	struct err why;

	if (partition_wait_decode(json, &w, &why) < 0)
		return unread(p, key, &why, err);
	s = slot_need(p, &w.ask);
	free(s->wait);
	s->wait = str_dup(json);
	if (p->following)
		map_put(p->waits, str_of(key), s);
	else
		tracker_put(p->tracker, key, w.ask.owner.uid, json);
	if (!s->serving)
		take_ask(s, &w.ask);
	take_wait(s, &w);
	partition_wait_done(&w);
	slot_changed(s);
	return 0;
}

static void forget_wait(struct partitions *p, const char *key)
{
	struct slot *s = map_del(p->waits, str_of(key));

	if (!s)
		return;
	free(s->wait);
	s->wait = NULL;
	queue_remove(s);
	s->failed = false;
	s->asking = s->serving != NULL;
	slot_changed(s);
	slot_sweep(s);
}

/* ---- entries ---- */

/* A follower: the entry has changed, or left. */
static void forget_item(struct item *item, bool for_good)
{
	struct slot *s = item->slot;

	if (s->serving == item) {
		s->serving = NULL;
		s->asking = s->wait != NULL;
	}
	item_free(item);
	slot_changed(s);
	if (for_good)
		slot_sweep(s);
}

/* A follower asks no controller for anything, and so hears of no change from it: what's free there
 * would be as it was at the last look, with room where partitions are by now. */
static void look_anew(struct partitions *p, const struct partition_entry *e)
{
	if (p->following && tracker_is_synced(p->tracker))
		vipu_fleet_refresh(p->fleet, e->controller);
}

static bool may_serve(const struct slot *s, const struct partition_entry *e)
{
	return !s->serving && e->phase != PARTITION_RELEASING && e->phase != PARTITION_ORPHAN &&
	       (!s->asking || s->owner->p->following || partition_ask_same_need(&s->ask, &e->ask));
}

static void take_entry(struct partitions *p, struct partition_entry *e)
{
	struct slot *s = slot_need(p, &e->ask);
	bool serves = may_serve(s, e);
	struct item *item = item_new(s, e, ITEM_READ);

	if (serves) {
		take_ask(s, &e->ask);
		/* The owner may ask for another run now. What an older wait says is older. */
		s->ask.attempt = e->ask.attempt;
		s->serving = item;
		s->asking = true; /* its owner asked, and may ask otherwise now */
		s->failed = false;
		s->arrived_ms = e->since_ms;
		queue_remove(s);
	}
	slot_changed(s);
}

static int on_found(void *arg, const char *id, struct str json, struct err *err)
{
	struct partitions *p = arg;
	struct item *known = map_get(p->items, str_of(id));
	struct partition_entry *e;
	struct err why;

	if (partition_is_wait_key(str_of(id)))
		return on_found_wait(p, id, json, err);
	if (known && !p->following)
		return 0;
	if (partition_entry_decode(id, json, &e, &why) < 0)
		return unread(p, id, &why, err);
	if (!known || known->entry->phase != e->phase)
		look_anew(p, e);
	if (known)
		forget_item(known, false);
	/* From now on it's ours to keep there, whoever takes it out. */
	if (!p->following) {
		tracker_put(p->tracker, id, e->ask.owner.uid, json);
		log_info("partition", id, "found in the tracker: %s, controller=%s owner=%s/%s",
			 partition_phase_name(e->phase), e->controller, e->ask.owner.ns,
			 e->ask.owner.name);
	}
	take_entry(p, e);
	return 0;
}

static void on_gone(void *arg, const char *key)
{
	struct partitions *p = arg;
	struct item *item = map_get(p->items, str_of(key));

	if (!p->following)
		return; /* of what couldn't be read: nothing hangs on it */
	if (partition_is_wait_key(str_of(key))) {
		forget_wait(p, key);
	} else if (item) {
		look_anew(p, item->entry);
		forget_item(item, true);
	}
}

/* ---- the rest of what it tells ---- */

/* An entry is written from what it's kept as. */
static bool on_again(void *arg, const char *id, struct buf *out, struct err *err)
{
	const struct partitions *p = arg;
	const struct item *item = map_get(p->items, str_of(id));

	return item && !item->forgotten && partition_entry_encode(item->entry, out, err) == 0;
}

static void on_recorded(void *arg, const char *id)
{
	struct partitions *p = arg;
	struct item *item = map_get(p->items, str_of(id));

	if (item)
		item_touch(item);
}

static void on_synced(void *arg)
{
	struct partitions *p = arg;

	unowned_synced(p);
	partitions_pass_soon(p);
	if (p->fleet_known)
		p->on_synced(p->arg);
}

static void on_error(void *arg)
{
	struct partitions *p = arg;
	struct map_iter it = MAP_ITER(p->owners);

	if (tracker_is_superseded(p->tracker) && p->on_superseded)
		p->on_superseded(p->arg);
	while (map_next(&it)) {
		const struct owner *o = it.value;

		for (size_t i = 0; i < o->n_slots; i++)
			slot_changed(o->slots[i]);
	}
}

static void on_report(void *arg, const char *reason, const char *object, const char *uid,
		      const char *message)
{
	struct partitions *p = arg;

	if (p->on_report)
		p->on_report(reason, object, uid, message, p->arg);
}

static bool is_ours(void *arg, const char *key, struct str json, struct err *err)
{
	struct partition_entry *e = NULL;
	struct partition_wait w;
	bool ours;

	(void)arg;
	if (partition_is_wait_key(str_of(key))) {
		ours = partition_wait_decode(json, &w, err) == 0;
		if (ours)
			partition_wait_done(&w);
		return ours;
	}
	ours = partition_entry_decode(key, json, &e, err) == 0;
	partition_entry_free(e);
	return ours;
}

const struct tracker_ops found_ops = {
	.on_synced = on_synced,
	.on_found = on_found,
	.on_gone = on_gone,
	.on_recorded = on_recorded,
	.on_again = on_again,
	.on_error = on_error,
	.on_report = on_report,
	.is_ours = is_ours,
};
