/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners and their slots: takes asks, reads the tracker back after a start, tells owners what
 * changed. Entries at work are item.c's, the choice of a controller is queue.c's. Owns both.
 */
#include "partition/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/log.h"
#include "partition/adopt.h"
#include "partition/internal.h"
#include "partition/ipuof.h"
#include "partition/queue.h"

#define SLOT_BACKOFF_MS     1000
#define SLOT_BACKOFF_MAX_MS 60000
#define SAY_AGAIN_MS        60000
#define SAY_OTHERWISE_MS    5000
#define SAY_AT_ONCE_TO      10 /* the first places in the queue */

/* ---- owners and slots ---- */

static struct owner *need_owner(struct partitions *p, const struct partition_owner *who)
{
	struct owner *o = map_get(p->owners, str_of(who->uid));

	if (o)
		return o;
	o = xcalloc(1, sizeof(*o));
	o->p = p;
	partition_owner_copy(&o->who, who);
	list_init(&o->changed);
	map_put_borrowed(p->owners, str_of(o->who.uid), o);
	return o;
}

/* Where an instance's slot is among its owner's, or would go. */
static size_t place_of(const struct owner *o, uint32_t instance)
{
	size_t from = 0, to = o->n_slots;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (o->slots[middle]->ask.instance < instance)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static struct slot *find_slot(const struct partitions *p, const char *uid, uint32_t instance)
{
	const struct owner *o = map_get(p->owners, str_of(uid));
	size_t at = o ? place_of(o, instance) : 0;

	return o && at < o->n_slots && o->slots[at]->ask.instance == instance ? o->slots[at] : NULL;
}

static void insert_slot(struct owner *o, struct slot *s)
{
	size_t at = place_of(o, s->ask.instance), n = o->n_slots++;

	if ((n & (n - 1)) == 0)
		o->slots = xrealloc(o->slots, (n ? 2 * n : 1) * sizeof(struct slot *));
	memmove(&o->slots[at + 1], &o->slots[at], (n - at) * sizeof(struct slot *));
	o->slots[at] = s;
}

static void take_out_slot(struct owner *o, const struct slot *s)
{
	size_t at = place_of(o, s->ask.instance), n = --o->n_slots;

	memmove(&o->slots[at], &o->slots[at + 1], (n - at) * sizeof(struct slot *));
}

struct slot *slot_need(struct partitions *p, const struct partition_ask *ask)
{
	struct slot *s = find_slot(p, ask->owner.uid, ask->instance);

	if (s)
		return s;
	s = xcalloc(1, sizeof(*s));
	s->owner = need_owner(p, &ask->owner);
	partition_ask_copy(&s->ask, ask);
	s->since_ms = s->arrived_ms = clock_wall_ms();
	s->backoff = (struct backoff)BACKOFF_INIT(SLOT_BACKOFF_MS, SLOT_BACKOFF_MAX_MS);
	list_init(&s->queue);
	list_init(&s->items);
	insert_slot(s->owner, s);
	return s;
}

static void free_slot(struct slot *s)
{
	LIST_FOREACH(pos, tmp, &s->items)
		item_free(CONTAINER_OF(pos, struct item, link));
	take_out_slot(s->owner, s);
	s->owner->p->generation++;
	list_unlink(&s->queue);
	partition_ask_done(&s->ask);
	queue_forget(s);
	free(s->wait);
	free(s->message);
	free(s);
}

static void free_owner(struct owner *o)
{
	while (o->n_slots > 0)
		free_slot(o->slots[o->n_slots - 1]);
	free(o->slots);
	list_unlink(&o->changed);
	partition_owner_done(&o->who);
	free(o);
}

/* What is neither asked for nor held is forgotten; the owner is told once more, by a notice. */
void slot_sweep(struct slot *s)
{
	struct owner *o = s->owner;

	if (s->asking || !list_empty(&s->items))
		return;
	free_slot(s);
	if (list_empty(&o->changed))
		list_append(&o->p->changed, &o->changed);
	loop_work_post(&o->p->notify_work);
}

/* ---- what an owner sees ---- */

static bool is_failed(const struct slot *s)
{
	const struct item *it = s->serving;

	if (!it)
		return s->failed;
	return it->entry->phase == PARTITION_ACTIVE && it->facts.status == PARTITION_PRESENT &&
	       it->facts.health != PARTITION_HEALTHY;
}

static bool is_wanted(const struct slot *s)
{
	return s->asking && !s->leaving;
}

static enum partition_state state_of(const struct slot *s)
{
	if (!is_wanted(s))
		return PARTITION_STATE_RELEASING;
	/* An owner that begins another run must not take what is there for a fresh one. */
	if (s->serving && s->serving->entry->phase == PARTITION_ACTIVE &&
	    s->serving->entry->ask.attempt != s->ask.attempt)
		return PARTITION_STATE_RESETTING;
	if (is_failed(s))
		return PARTITION_STATE_FAILED;
	if (!s->serving)
		return PARTITION_STATE_WAITING;
	switch (s->serving->entry->phase) {
	case PARTITION_ACTIVE:
		/* Its Pods may use it once the tracker says so. */
		return s->serving->usable ? PARTITION_STATE_ACTIVE : PARTITION_STATE_CREATING;
	case PARTITION_RESETTING:
		return PARTITION_STATE_RESETTING;
	default:
		return PARTITION_STATE_CREATING;
	}
}

static const char *releasing_message(const struct slot *s)
{
	LIST_FOREACH(pos, tmp, &s->items) {
		const struct item *it = CONTAINER_OF(pos, struct item, link);

		if (it->message)
			return it->message;
	}
	return s->leaving ? str_kept(s->message) : "";
}

/* What is asked for, as it's served: one that is there may still be for an earlier run. */
static const struct partition_ask *told_ask(const struct slot *s)
{
	return s->serving ? &s->serving->entry->ask : &s->ask;
}

/* When the present state was recorded: its entry's phase, or its arrival in the queue. */
static int64_t since_of(const struct slot *s)
{
	int64_t since_ms = 0;

	if (s->serving)
		return s->serving->entry->since_ms;
	if (s->asking)
		return s->failed || !s->arrived_ms ? s->since_ms : s->arrived_ms;
	LIST_FOREACH(pos, tmp, &s->items) {
		const struct partition_entry *e = CONTAINER_OF(pos, struct item, link)->entry;

		if (e->phase == PARTITION_RELEASING && (!since_ms || e->since_ms < since_ms))
			since_ms = e->since_ms;
	}
	return since_ms ? since_ms : s->since_ms;
}

static void fill_status(const struct slot *s, struct partition_status *ret)
{
	const struct err *tracker = tracker_error(s->owner->p->tracker);
	const struct vipu_controller *c;
	const char *message = str_kept(s->message);

	*ret = (struct partition_status){
		.state = state_of(s),
		.why = s->why,
		.ask = is_wanted(s) ? told_ask(s) : NULL,
		.wanted_attempt = is_wanted(s) ? s->ask.attempt : 0,
		.resets = s->resets,
		.since_ms = since_of(s),
		.position = list_empty(&s->queue) ? 0 : s->place.position,
	};
	if (ret->ask)
		ret->deadline_ms = ret->ask->deadline_ms ? ret->ask->deadline_ms
				   : s->serving          ? s->serving->entry->limit_ms
							 : queue_limit_ms(s);
	ret->adopting = ret->state == PARTITION_STATE_WAITING && adopt_is_due(s);
	ret->adopted = s->serving && s->adopted;
	if (ret->state == PARTITION_STATE_RELEASING)
		message = releasing_message(s);
	if (s->serving) {
		ret->id = s->serving->entry->id;
		ret->controller = s->serving->entry->controller;
		c = vipu_fleet_find(s->owner->p->fleet, ret->controller);
		if (c) {
			ret->host = c->address.host;
			ret->port = c->address.port;
			ret->label_key = c->address.label[0] ? c->address.label : NULL;
			ret->label_value = c->address.label[0] ? c->address.value : NULL;
			ret->by_file = ipuof_is_by_file(&c->address, &s->serving->entry->ask);
			ret->draining = c->draining;
		}
		ret->why = is_failed(s) ? PARTITION_WHY_ERROR : PARTITION_WHY_NONE;
		ret->files = ipuof_hash(s->serving->ipuof);
		message = str_kept(s->serving->message);
		if (!ret->why && !message[0] && ipuof_trouble(s->serving->ipuof)[0]) {
			ret->why = PARTITION_WHY_CONFIG;
			message = ipuof_trouble(s->serving->ipuof);
		}
	}
	snprintf(ret->message, sizeof(ret->message), "%s", message);
	if (tracker->kind != ERR_NONE && ret->state != PARTITION_STATE_ACTIVE) {
		ret->why = PARTITION_WHY_TRACKER;
		snprintf(ret->message, sizeof(ret->message),
			 "the partition tracker can't be read or written: %.180s", tracker->msg);
	}
}

static size_t slot_held(const struct slot *s)
{
	size_t n = s->asking && !(s->leaving && s->abandoned);

	LIST_FOREACH(pos, tmp, &s->items)
		n += !item_is_orphan(CONTAINER_OF(pos, struct item, link));
	return n;
}

static uint64_t digest_of(const struct partition_status *st, size_t held)
{
	uint64_t h = HASH_FNV;
	const char *texts[] = {st->id ? st->id : "", st->message};
	uint64_t numbers[] = {(uint64_t)st->deadline_ms,
			      st->state,
			      st->why,
			      st->resets,
			      st->draining,
			      st->files,
			      st->ask ? st->ask->attempt : 0,
			      held};

	for (size_t i = 0; i < 2; i++)
		h = hash_fnv(h, str_of(texts[i]));
	return hash_fnv(h, (struct str){(const char *)numbers, sizeof(numbers)});
}

/* While it waits, the tracker says so: a successor keeps its place, and other processes hear of it.
 * When it's served, the record goes with the write that brings its entry. */
static void record_wait(struct slot *s)
{
	struct partitions *p = s->owner->p;
	struct partition_wait w = {s->ask, s->arrived_ms ? s->arrived_ms : s->since_ms, s->failed,
				   s->why};
	bool waits = s->asking && !s->serving && s->why && s->why != PARTITION_WHY_STARTING;
	struct buf json = BUF_INIT(16384);
	char key[PARTITION_WAIT_KEY_SIZE];
	struct err err;

	if (p->following || !tracker_is_synced(p->tracker) || (!waits && !s->wait))
		return;
	partition_wait_key(s->ask.owner.uid, s->ask.instance, key);
	if (!waits) {
		tracker_drop(p->tracker, key);
		free(s->wait);
		s->wait = NULL;
	} else if (partition_wait_encode(&w, &json, &err) < 0) {
		log_error("partition", key, "can't be written down: %s", err.msg);
		if (err_is_no_memory(&err))
			loop_timer_start_in(&p->unwritten, PARTITION_UNWRITTEN_MS);
	} else if (!s->wait || !str_eqz(buf_str(&json), s->wait)) {
		free(s->wait);
		s->wait = str_dup(buf_str(&json));
		tracker_put(p->tracker, key, s->ask.owner.uid, buf_str(&json));
	}
	buf_done(&json);
}

static void on_unwritten(struct loop_timer *timer, void *arg)
{
	const struct partitions *p = arg;
	struct map_iter it = MAP_ITER(p->owners);

	(void)timer;
	while (map_next(&it)) {
		const struct owner *o = it.value;

		for (size_t i = 0; i < o->n_slots; i++)
			record_wait(o->slots[i]);
	}
}

void slot_changed(struct slot *s)
{
	struct partition_status st;
	uint64_t digest;

	s->owner->p->generation++;
	record_wait(s);
	fill_status(s, &st);
	digest = digest_of(&st, slot_held(s));
	if (digest == s->told)
		return;
	s->told = digest;
	if (list_empty(&s->owner->changed))
		list_append(&s->owner->p->changed, &s->owner->changed);
	loop_work_post(&s->owner->p->notify_work);
}

static void notify(struct loop_work *work, void *arg)
{
	struct partitions *p = arg;
	struct list now = LIST_INIT(now); /* what changes from here on is the next turn's */

	(void)work;
	LIST_FOREACH(pos, tmp, &p->changed) {
		list_unlink(pos);
		list_append(&now, pos);
	}
	while (!list_empty(&now)) {
		struct owner *o = CONTAINER_OF(now.next, struct owner, changed);
		struct partition_owner who;

		list_unlink(&o->changed);
		if (o->n_slots > 0) {
			p->on_change(&o->who, p->arg);
			continue;
		}
		who = o->who;
		o->who = (struct partition_owner){0};
		map_del(p->owners, str_of(who.uid));
		free_owner(o);
		p->on_change(&who, p->arg);
		partition_owner_done(&who);
	}
}

/* ---- what the queue tells ---- */

/* Room that isn't there and room that is kept for others may take turns with every partition that
 * comes or goes. */
static bool is_for_room(enum partition_why why)
{
	return why == PARTITION_WHY_NO_ROOM || why == PARTITION_WHY_QUEUED;
}

/* For how long what was said last has to do. Every change of words is a write of the owner's
 * status, and with many waiting, figures change all the time. */
static int64_t quiet_ms(const struct slot *s, enum partition_why why)
{
	bool among_first = s->place.position <= SAY_AT_ONCE_TO;

	if (!s->message || (among_first && s->place.position != s->place.said_position))
		return 0;
	if (s->why == why)
		return SAY_AGAIN_MS;
	if (!is_for_room(s->why) || !is_for_room(why))
		return 0;
	return among_first ? SAY_OTHERWISE_MS : SAY_AGAIN_MS;
}

bool slot_wait_because(struct slot *s, enum partition_why why, const char *message)
{
	int64_t now_ms = clock_mono_ms(), from_ms = s->said_ms + quiet_ms(s, why);
	bool same = s->why == why && strcmp(str_kept(s->message), message) == 0;
	bool outdated = !same && now_ms < from_ms;

	s->owner->p->generation += s->outdated != outdated;
	s->outdated = outdated;
	if (same)
		return false;
	if (outdated) {
		queue_pass_at(s->owner->p, from_ms);
		return false;
	}
	s->said_ms = now_ms;
	s->words_ms = clock_wall_ms();
	s->place.said_position = s->place.position;
	s->why = why;
	str_keep(&s->message, message);
	slot_changed(s);
	return true;
}

void slot_serve(struct slot *s, struct partition_entry *e, enum item_origin origin)
{
	queue_remove(s);
	s->why = PARTITION_WHY_NONE;
	str_keep(&s->message, NULL);
	s->outdated = false;
	s->since_ms = clock_wall_ms();
	s->adopted = origin == ITEM_ADOPTED;
	s->serving = item_new(s, e, origin);
	slot_changed(s);
}

void slot_vanished(struct slot *s, const char *id)
{
	queue_remove(s);
	s->failed = true;
	s->since_ms = clock_wall_ms();
	s->why = PARTITION_WHY_VANISHED;
	str_keepf(&s->message,
		  "partition %s, which it uses, is neither in the tracker nor, with its size, on a "
		  "V-IPU controller that answers",
		  id);
	slot_changed(s);
}

/* ---- what items tell ---- */

void slot_lost_item(struct slot *s, struct item *item, enum partition_phase was,
		    enum partition_why why)
{
	if (s->serving != item)
		return;
	s->serving = NULL;
	s->since_ms = clock_wall_ms();
	s->why = why;
	queue_lost(s, item->entry, was);
	str_keep(&s->message, why ? item->message : NULL);
	if (!s->asking)
		return;
	if (why == PARTITION_WHY_VANISHED && was != PARTITION_CREATING) {
		s->failed = true;
		str_keepf(&s->message, "partition %s is gone from %s without the operator's doing",
			  item->entry->id, item->entry->controller);
		return;
	}
	if (why)
		s->not_before_ms = clock_mono_ms() + backoff_next_ms(&s->backoff, NULL);
	queue_add(s);
}

void slot_item_gone(struct slot *s, struct item *item)
{
	struct partitions *p = s->owner->p;

	item_free(item);
	slot_changed(s);
	slot_sweep(s); /* may free it */
	partitions_pass_soon(p);
}

/* ---- the fleet ---- */

static void on_fleet_change(void *arg, const char *name)
{
	struct partitions *p = arg;
	const char *controller = intern_z(name); /* as the entries' are: one word, one pointer */
	struct map_iter it = MAP_ITER(p->items);

	while (map_next(&it)) {
		struct item *item = it.value;

		if (!name || item->entry->controller == controller)
			item_touch(item);
	}
	intern_drop(controller);
	unowned_look(p, name);
	partitions_pass_soon(p);
}

/* ---- the interface ---- */

struct partitions *partitions_new(struct loop *loop, struct kube_client *kube,
				  struct vipu_fleet *fleet, const struct partitions_config *config,
				  partitions_synced_fn *on_synced, partitions_change_fn *on_change,
				  void *arg)
{
	struct tracker_opts tracker = {
		.ns = config->ns, .name = config->tracker_name, .follow = config->follow};
	struct partitions *p = xcalloc(1, sizeof(*p));

	p->loop = loop;
	p->fleet = fleet;
	p->times = config->times;
	p->following = config->follow;
	p->fleet_known = !config->fleet_pending;
	p->nodes_known = !config->nodes_pending;
	p->tracker_name = xstrdup(config->tracker_name);
	p->on_synced = on_synced;
	p->on_change = on_change;
	p->on_report = config->on_report;
	p->may_act = config->may_act;
	p->on_superseded = config->on_superseded;
	p->arg = arg;
	p->owners = map_new();
	p->items = map_new();
	p->waits = map_new();
	unowned_init(p);
	list_init(&p->changed);
	queue_init(p, kube, config);
	loop_work_init(&p->notify_work, loop, notify, p);
	loop_timer_init(&p->unwritten, loop, on_unwritten, p);
	p->tracker = tracker_new(kube, &tracker, &found_ops, p);
	vipu_fleet_watch_start(fleet, &p->fleet_watch, on_fleet_change, p);
	return p;
}

void partitions_free(struct partitions *p)
{
	struct map_iter it;

	if (!p)
		return;
	vipu_fleet_watch_stop(&p->fleet_watch);
	loop_work_cancel(&p->notify_work);
	loop_timer_stop(&p->unwritten);
	it = (struct map_iter)MAP_ITER(p->owners);
	while (map_next(&it))
		free_owner(it.value);
	queue_done(p);
	map_free(p->owners);
	map_free(p->items);
	map_free(p->waits);
	unowned_done(p);
	free(p->tracker_name);
	tracker_free(p->tracker);
	free(p);
}

bool partitions_synced(const struct partitions *p)
{
	return p->fleet_known && tracker_is_synced(p->tracker);
}

void partitions_fleet_known(struct partitions *p)
{
	if (p->fleet_known)
		return;
	p->fleet_known = true;
	on_fleet_change(p, NULL);
	if (tracker_is_synced(p->tracker))
		p->on_synced(p->arg);
}

void partitions_nodes_known(struct partitions *p)
{
	if (p->nodes_known)
		return;
	p->nodes_known = true;
	partitions_pass_soon(p);
}

/* Its owner begins another run. What waits just takes it, what is served is seen to by its item,
 * and what vanished has waited for this word. */
static void take_attempt(struct slot *s, uint32_t attempt)
{
	if (s->ask.attempt == attempt)
		return;
	s->ask.attempt = attempt;
	if (s->serving) {
		item_touch(s->serving);
	} else if (s->failed) {
		s->failed = false;
		queue_add(s);
	}
	slot_changed(s);
}

void partition_ensure(struct partitions *p, const struct partition_ask *ask)
{
	struct slot *s;
	bool news;

	if (p->following)
		return;
	s = slot_need(p, ask);
	if (s->leaving) /* its owner asks again when that has ended */
		return;
	news = !s->asking;
	if (s->asking && partition_ask_same_need(&s->ask, ask)) {
		take_attempt(s, ask->attempt);
		queue_move(s, ask);
		return;
	}
	if (s->serving && !partition_ask_same_need(&s->serving->entry->ask, ask)) {
		struct item *old = s->serving;

		s->serving = NULL;
		s->arrived_ms = 0;
		item_touch(old);
	}
	s->abandoned = s->abandoned && !news;
	if (news || s->ask.attempt != ask->attempt)
		s->failed = false;
	p->queue_mixed = p->queue_mixed || s->ask.priority != ask->priority;
	partition_ask_done(&s->ask);
	partition_ask_copy(&s->ask, ask);
	s->asking = true;
	s->looked = false;
	str_keep(&s->message, NULL); /* it was about another need */
	if (news) {
		s->why = PARTITION_WHY_NONE;
		s->since_ms = clock_wall_ms();
		s->arrived_ms = 0;
	}
	if (s->serving)
		item_touch(s->serving);
	else if (!s->failed)
		queue_add(s);
	slot_changed(s);
}

void partition_reset(struct partitions *p, const char *owner_uid, uint32_t instance)
{
	struct slot *s = find_slot(p, owner_uid, instance);

	if (s && s->asking && !p->following)
		take_attempt(s, s->ask.attempt + 1);
}

void slot_release(struct slot *s)
{
	struct item *item = s->serving;

	if (!s->asking || s->owner->p->following)
		return;
	if (adopt_is_looking(s)) {
		s->leaving = s->ask.only_adopt = true;
		slot_changed(s);
		return;
	}
	s->asking = s->failed = s->leaving = false;
	s->since_ms = clock_wall_ms();
	queue_remove(s);
	s->serving = NULL;
	if (item)
		item_touch(item);
	slot_changed(s);
	slot_sweep(s);
}

void partition_release(struct partitions *p, const char *owner_uid, uint32_t instance)
{
	struct slot *s = find_slot(p, owner_uid, instance);

	if (s)
		slot_release(s);
}

void partition_release_all(struct partitions *p, const char *owner_uid)
{
	const struct owner *o = map_get(p->owners, str_of(owner_uid));

	if (!o)
		return;
	for (size_t i = o->n_slots; i-- > 0;) /* each may go */
		slot_release(o->slots[i]);
}

static void abandon(struct slot *s)
{
	if (s->owner->p->following)
		return;
	s->abandoned = true;
	LIST_FOREACH(pos, tmp, &s->items)
		item_touch(CONTAINER_OF(pos, struct item, link));
	slot_release(s); /* it may be gone */
}

void partition_abandon(struct partitions *p, const char *owner_uid, uint32_t instance)
{
	struct slot *s = find_slot(p, owner_uid, instance);

	if (s)
		abandon(s);
}

void partition_abandon_all(struct partitions *p, const char *owner_uid)
{
	const struct owner *o = map_get(p->owners, str_of(owner_uid));

	if (!o)
		return;
	for (size_t i = o->n_slots; i-- > 0;) /* each may go */
		abandon(o->slots[i]);
}

void partition_get_status(const struct partitions *p, const char *owner_uid, uint32_t instance,
			  struct partition_status *ret)
{
	const struct slot *s = find_slot(p, owner_uid, instance);

	if (s)
		fill_status(s, ret);
	else
		*ret = (struct partition_status){.state = PARTITION_STATE_NONE};
}

size_t partition_ipuof_files(const struct partitions *p, const char *owner_uid, uint32_t instance,
			     partition_file_fn *fn, void *arg)
{
	const struct slot *s = find_slot(p, owner_uid, instance);

	return s && s->serving ? ipuof_each(s->serving->ipuof, fn, arg) : 0;
}

size_t partition_held(const struct partitions *p, const char *owner_uid)
{
	const struct owner *o = map_get(p->owners, str_of(owner_uid));
	size_t n = 0;

	for (size_t i = 0; o && i < o->n_slots; i++)
		n += slot_held(o->slots[i]);
	return n;
}

size_t partition_asked_from(const struct partitions *p, const char *owner_uid, uint32_t from,
			    uint32_t *ret, size_t max)
{
	const struct owner *o = map_get(p->owners, str_of(owner_uid));
	size_t n = 0;

	if (!o)
		return 0;
	for (size_t i = place_of(o, from); n < max && i < o->n_slots; i++) {
		const struct slot *s = o->slots[i];

		if (is_wanted(s))
			ret[n++] = s->ask.instance;
	}
	return n;
}

void partitions_each(const struct partitions *p, partitions_each_fn *fn, void *arg)
{
	struct map_iter it = MAP_ITER(p->owners);

	while (map_next(&it)) {
		const struct owner *o = it.value;

		for (size_t i = 0; i < o->n_slots; i++) {
			const struct slot *s = o->slots[i];
			struct partition_status st;

			fill_status(s, &st);
			fn(told_ask(s), &st, arg);
		}
	}
}

bool partition_holds_ipus(const struct partitions *p, const struct partition_entry *entry)
{
	const struct item *item;
	const struct vipu_controller *c;

	if (entry->phase != PARTITION_RELEASING && entry->phase != PARTITION_ORPHAN)
		return true; /* most of them, and asked for each in every pass */
	item = map_get(p->items, str_of(entry->id));
	c = vipu_fleet_find(p->fleet, entry->controller);
	if (entry->phase == PARTITION_ORPHAN && (!c || !c->configured))
		return false;
	return !item || !item_is_unlisted(item);
}
