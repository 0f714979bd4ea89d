/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives waiting slots to controllers: in the order of arrival, to the first controller of the list
 * that has room by the fleet's estimate, asked afresh. The controller's answer is the truth.
 */
#include "partition/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "partition/adopt.h"

#define FRESH_MS   1000 /* a view older than this is asked for again before a create */
#define MAX_ASKING 64   /* creates that one controller is asked for at a time */
#define SIZES      17   /* 1 to 65536 IPUs */

/* What was recorded for one controller and isn't in its list yet: it takes room there too. Counted
 * once a pass, and kept up as the pass goes on. */
struct pending {
	unsigned by_size[SIZES]; /* partitions of 1, 2, 4 … IPUs */
	unsigned unanswered;     /* creates that it hasn't answered */
};

static unsigned log2_of(uint32_t size)
{
	unsigned k = 0;

	while (k + 1 < SIZES && (UINT32_C(1) << k) < size)
		k++;
	return k;
}

/* Blocks of size that the pending ones take away, at most. */
static unsigned blocks_pending(const struct pending *pending, uint32_t size)
{
	unsigned j = log2_of(size), n = 0;

	for (unsigned k = 0; k < SIZES; k++)
		n += pending->by_size[k] << (k > j ? k - j : 0);
	return n;
}

static void count_item(struct pending *pending, const struct item *item)
{
	if (item->entry->phase != PARTITION_CREATING || item->forgotten)
		return;
	if (item->facts.listed != PARTITION_PRESENT)
		pending->by_size[log2_of(item->entry->ask.ipus)]++;
	pending->unanswered += item->facts.answer == PARTITION_UNSENT;
}

/* One for each controller of the fleet, in its order; the caller frees. */
static struct pending *count_pending(const struct partitions *p)
{
	size_t n = vipu_fleet_len(p->fleet);
	struct pending *all = xcalloc(n + 1, sizeof(*all));
	struct map *by_name = map_new();
	struct map_iter it = MAP_ITER(p->items);

	for (size_t i = 0; i < n; i++)
		map_put(by_name, str_of(vipu_fleet_at(p->fleet, i)->name), &all[i]);
	while (map_next(&it)) {
		const struct item *item = it.value;
		struct pending *pending = map_get(by_name, str_of(item->entry->controller));

		if (pending)
			count_item(pending, item);
	}
	map_free(by_name);
	return all;
}

void queue_pass_at(struct partitions *p, int64_t mono_ms)
{
	if (!loop_timer_active(&p->pass_timer) || p->pass_timer.at_ms > mono_ms)
		loop_timer_start_at(&p->pass_timer, mono_ms);
}

/* Why nothing has room, in words. */
static void explain(struct slot *s, const struct vipu_fleet_sums *sums, unsigned largest_pod)
{
	char z[256];
	const char *first = NULL;

	for (size_t i = 0; i < vipu_fleet_len(s->owner->p->fleet) && !first; i++) {
		const struct vipu_controller *c = vipu_fleet_at(s->owner->p->fleet, i);

		if (c->configured && c->reason[0])
			first = c->reason;
	}
	if (sums->controllers == 0) {
		slot_wait_because(s, PARTITION_WHY_NO_CONTROLLER,
				  "no V-IPU controller is configured");
	} else if (sums->reachable == 0 && !first) {
		slot_wait_because(s, PARTITION_WHY_STARTING,
				  "the V-IPU controllers haven't been asked to the end yet");
	} else if (sums->reachable == 0) {
		snprintf(z, sizeof(z), "no V-IPU controller answers: %.200s", first);
		slot_wait_because(s, PARTITION_WHY_UNREACHABLE, z);
	} else if (s->ask.ipus > largest_pod && sums->reachable == sums->controllers) {
		snprintf(z, sizeof(z), "%u IPUs asked for, the largest V-IPU controller has %u",
			 s->ask.ipus, largest_pod);
		slot_wait_because(s, PARTITION_WHY_TOO_LARGE, z);
	} else {
		snprintf(z, sizeof(z),
			 "waiting for %u free IPUs side by side: %u of %u are free, at most %u "
			 "together%s%.100s",
			 s->ask.ipus, sums->free_ipus, sums->total_ipus, sums->largest,
			 first ? "; " : "", first ? first : "");
		slot_wait_because(s, PARTITION_WHY_NO_ROOM, z);
	}
}

static void serve(struct slot *s, const struct vipu_controller *c)
{
	struct partitions *p = s->owner->p;
	struct partition_entry *e = xcalloc(1, sizeof(*e));
	static uint64_t last_incarnation;
	uint64_t incarnation = (uint64_t)clock_wall_ms();

	/* A new incarnation has a new identifier, however fast it follows. */
	if (incarnation <= last_incarnation)
		incarnation = last_incarnation + 1;
	last_incarnation = incarnation;
	partition_ask_copy(&e->ask, &s->ask);
	e->controller = xstrdup(c->name);
	partition_id_make(&s->ask.owner, s->ask.instance, incarnation, e->id);
	partition_entry_stamp(e, PARTITION_CREATING, true, clock_wall_ms(), &p->times);
	slot_serve(s, e, ITEM_MADE);
}

/* A look at one controller for the queue's sake. */
struct look {
	struct partitions *p;
	bool asking;
	int64_t answered_ms; /* mono: when the last one that was asked for here came; 0: none */
};

static void on_refreshed(void *arg, const struct err *err, const struct vipu_controller *c)
{
	struct look *look = arg;

	(void)c;
	look->asking = false;
	look->answered_ms = err ? 0 : clock_mono_ms();
	partitions_pass_soon(look->p);
}

/* By when it was asked for, or by when it came: a controller that takes longer to answer than a
 * view is fresh must be believed too. */
static bool is_fresh(struct partitions *p, const struct vipu_controller *c)
{
	int64_t now_ms = clock_mono_ms();
	struct look *look = map_get(p->looks, str_of(c->name));

	if (c->fresh_ms && now_ms - c->fresh_ms < FRESH_MS)
		return true;
	if (look && look->answered_ms && now_ms - look->answered_ms < FRESH_MS)
		return true;
	if (!look) {
		look = xcalloc(1, sizeof(*look));
		look->p = p;
		map_put(p->looks, str_of(c->name), look);
	}
	if (!look->asking) {
		look->asking = true;
		vipu_fleet_refresh_start(p->fleet, c->name, on_refreshed, look, &p->calls);
	}
	return false;
}

/* pending: one for each controller. */
static void consider(struct slot *s, struct pending *pending)
{
	struct partitions *p = s->owner->p;
	struct vipu_fleet_sums sums;
	unsigned largest_pod = 0;

	if (adopt_try(s))
		return;
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);

		if (!c->configured || c->cordoned || c->reach != VIPU_REACH_YES)
			continue;
		if (c->capacity.total_ipus > largest_pod)
			largest_pod = c->capacity.total_ipus;
		if (vipu_capacity_fits(&c->capacity, s->ask.ipus) <=
		    blocks_pending(&pending[i], s->ask.ipus))
			continue;
		/* The pass comes again with the controller's answers. */
		if (pending[i].unanswered >= MAX_ASKING || !is_fresh(p, c))
			return;
		serve(s, c);
		count_item(&pending[i], s->serving);
		return;
	}
	vipu_fleet_sum(p->fleet, &sums);
	explain(s, &sums, largest_pod);
}

static void pass(struct loop_work *work, void *arg)
{
	struct partitions *p = arg;
	int64_t now_ms = clock_mono_ms();
	CLEANUP_FREE struct pending *pending = NULL;
	bool waiting;

	(void)work;
	if (p->following)
		return;
	if (!list_empty(&p->queue))
		pending = count_pending(p);
	LIST_FOREACH(pos, tmp, &p->queue) {
		struct slot *s = CONTAINER_OF(pos, struct slot, queue);

		if (!tracker_is_synced(p->tracker) || !p->fleet_known) {
			slot_wait_because(
				s, PARTITION_WHY_STARTING,
				"the operator is reading the partition tracker and the list "
				"of V-IPU controllers");
		} else if (s->not_before_ms > now_ms) {
			queue_pass_at(p, s->not_before_ms);
		} else {
			consider(s, pending);
		}
	}
	waiting = !list_empty(&p->queue);
	if (waiting && !p->waiting)
		vipu_fleet_wait_begin(p->fleet);
	else if (!waiting && p->waiting)
		vipu_fleet_wait_end(p->fleet);
	p->waiting = waiting;
}

static void on_pass_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	partitions_pass_soon(arg);
}

void partitions_pass_soon(struct partitions *p)
{
	loop_work_post(&p->pass_work);
}

void queue_init(struct partitions *p)
{
	list_init(&p->queue);
	scope_init(&p->calls);
	p->looks = map_new();
	loop_work_init(&p->pass_work, p->loop, pass, p);
	loop_timer_init(&p->pass_timer, p->loop, on_pass_timer, p);
}

void queue_done(struct partitions *p)
{
	struct map_iter it = MAP_ITER(p->looks);

	scope_cancel(&p->calls);
	loop_work_cancel(&p->pass_work);
	loop_timer_stop(&p->pass_timer);
	while (map_next(&it))
		free(it.value);
	map_free(p->looks);
	if (p->waiting)
		vipu_fleet_wait_end(p->fleet);
}

void queue_add(struct slot *s)
{
	if (list_empty(&s->queue))
		list_append(&s->owner->p->queue, &s->queue);
	partitions_pass_soon(s->owner->p);
}

void queue_remove(struct slot *s)
{
	list_unlink(&s->queue);
	partitions_pass_soon(s->owner->p);
}

/* ---- for those who look on ---- */

void partitions_each_waiting(struct partitions *p, partitions_waiting_fn *fn, void *arg)
{
	struct partition_waiting w = {0};

	LIST_FOREACH(pos, tmp, &p->queue) {
		const struct slot *s = CONTAINER_OF(pos, struct slot, queue);

		w.position++;
		w.ask = &s->ask;
		w.since_ms = s->arrived_ms;
		w.why = s->why;
		w.message = s->message;
		fn(&w, arg);
	}
}

unsigned partitions_reserved(struct partitions *p, const char *controller)
{
	(void)p;
	(void)controller;
	return 0;
}

unsigned partitions_count_fits(struct partitions *p, uint32_t size)
{
	return vipu_fleet_count_fits(p->fleet, size);
}
