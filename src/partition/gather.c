/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From views and entries to the scheduler's words: which IPUs are taken, by what that is expected
 * to end when, what isn't listed yet, and how much each namespace holds.
 */
#include "partition/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "partition/namespaces.h"

#define MAX_ASKING 64 /* creates that one controller is asked for at a time */

struct unlisted {
	const char *id;
	int64_t since_ms;
	struct schedule_return what;
};

struct pod_facts {
	char *label; /* of its nodes */
	struct schedule_hold *holds;
	struct unlisted *unlisted;
	size_t n_unlisted;
	struct schedule_return *pending; /* the same, in their order */
};

static void *grow(void *items, size_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? xrealloc(items, (n ? n * 2 : 1) * size) : items;
}

/* When its IPUs are expected back. */
static int64_t end_of(const struct item *item)
{
	const struct partition_entry *e = item->entry;
	/* The owner may have said so later than it asked. */
	const struct slot *s = item->slot;
	int64_t deadline_ms = s->serving == item ? s->ask.deadline_ms : e->ask.deadline_ms;
	int64_t from_ms = e->active_ms ? e->active_ms : e->since_ms;

	if (item->forgotten || e->phase == PARTITION_RELEASING || e->phase == PARTITION_ORPHAN)
		return 0;
	if (!deadline_ms)
		deadline_ms = e->limit_ms;
	return deadline_ms > 0 && deadline_ms < SCHEDULE_NEVER - from_ms ? from_ms + deadline_ms
									 : SCHEDULE_NEVER;
}

int64_t partitions_entry_end(const struct partitions *p, const struct partition_entry *entry)
{
	const struct item *item = map_get(p->items, str_of(entry->id));
	bool runs = entry->active_ms &&
		    (entry->phase == PARTITION_ACTIVE || entry->phase == PARTITION_RESETTING);

	return item && runs ? end_of(item) : SCHEDULE_NEVER;
}

/* ---- controllers ---- */

static void find_holds(const struct partitions *p, const struct vipu_controller *c,
		       struct schedule_controller *ret, struct pod_facts *facts)
{
	const struct vipu_layout *l = &c->layout;
	const struct item *item = NULL;

	facts->holds = xcalloc(l->n_places + 1, sizeof(*facts->holds));
	for (size_t i = 0; i < l->n_places; i++) {
		const struct vipu_place *at = &l->places[i];

		if (i == 0 || at->partition != l->places[i - 1].partition)
			item = map_get(p->items, str_of(c->partitions.items[at->partition].id));
		if (item)
			facts->holds[ret->n_holds++] = (struct schedule_hold){at->domain, at->mask,
									      end_of(item)};
	}
	ret->holds = facts->holds;
}

/* "a:8090 is cordoned", "a:8090 and 2 more are cordoned or drained". */
static void note_closed(const struct vipu_controller *c, bool no_node, struct gathered *g)
{
	g->n_closed++;
	g->n_no_node += no_node;
	if (g->n_closed == 1) {
		g->first_closed = c->name;
		snprintf(g->closed, sizeof(g->closed), "%.60s %s", c->name,
			 c->draining   ? "is being drained"
			 : c->cordoned ? "is cordoned"
				       : "has no ready node");
		return;
	}
	snprintf(g->closed, sizeof(g->closed), "%.40s and %u more are cordoned%s drained%s",
		 g->first_closed, g->n_closed - 1, g->n_no_node ? "," : " or",
		 g->n_no_node ? " or without a ready node" : "");
}

static void gather_controller(const struct partitions *p, const struct vipu_controller *c,
			      struct gathered *g, size_t i)
{
	struct schedule_controller *ret = &g->controllers[i];
	bool answers = c->configured && c->reach == VIPU_REACH_YES;
	bool may = answers && !c->cordoned && !c->draining;

	*ret = (struct schedule_controller){
		.open = may && !c->no_node,
		.no_node = may && c->no_node,
		.allocation = c->address.allocation,
		.total_ipus = c->capacity.total_ipus,
		.free_ipus = c->capacity.free_ipus,
		.taken = c->layout.taken,
		.n_domains = c->layout.n_domains,
		.max_unanswered = MAX_ASKING,
	};
	if (c->address.label[0])
		g->pods[i].label = xasprintf("%s=%s", c->address.label, c->address.value);
	ret->label = g->pods[i].label;
	find_holds(p, c, ret, &g->pods[i]);
	g->configured += c->configured;
	g->reachable += answers;
	/* How many it has it said once, and it has no more while it's away. */
	g->sized += c->configured && c->capacity.total_ipus > 0;
	if (c->configured && c->capacity.total_ipus > g->largest_pod)
		g->largest_pod = c->capacity.total_ipus;
	if (c->configured && c->reason[0] && !g->reason)
		g->reason = c->reason;
	if (answers && !ret->open)
		note_closed(c, ret->no_node, g);
	if (!ret->open)
		return;
	g->open++;
	g->free_ipus += c->capacity.free_ipus;
	g->total_ipus += c->capacity.total_ipus;
	if (c->capacity.largest > g->largest)
		g->largest = c->capacity.largest;
}

/* ---- entries ---- */

static void add_unlisted(struct pod_facts *facts, const struct item *item)
{
	facts->unlisted = grow(facts->unlisted, facts->n_unlisted, sizeof(*facts->unlisted));
	facts->unlisted[facts->n_unlisted++] = (struct unlisted){
		item->entry->id, item->entry->since_ms, {end_of(item), item->entry->ask.ipus}};
}

void gather_take(struct gathered *g, uint32_t ipus)
{
	g->free_ipus -= ipus < g->free_ipus ? ipus : g->free_ipus;
	while (g->largest > g->free_ipus)
		g->largest /= 2;
}

/* What was recorded for a controller and isn't in its list yet takes room there too. */
static void gather_item(const struct partitions *p, struct gathered *g, struct map *by_name,
			const struct item *item)
{
	const struct partition_entry *e = item->entry;
	bool creating = e->phase == PARTITION_CREATING && !item->forgotten;
	struct schedule_controller *c = creating ? map_get(by_name, str_of(e->controller)) : NULL;
	struct space *space;

	if (c) {
		if (item->facts.listed != PARTITION_PRESENT) {
			add_unlisted(&g->pods[c - g->controllers], item);
			if (c->open)
				gather_take(g, e->ask.ipus);
		}
		c->unanswered += item->facts.answer == PARTITION_UNSENT;
	}
	if (!partition_holds_ipus(p, e))
		return;
	/* Owners' names are interned: those of one namespace that follow each other are the same.
	 */
	if (g->last_ns != e->ask.owner.ns)
		g->last = gather_space(p, g, e->ask.owner.ns);
	g->last_ns = e->ask.owner.ns;
	space = g->last;
	space->held_ipus += e->ask.ipus;
	space->quota.used_ipus += e->ask.ipus;
	if (space->quota.max_ipus < 0)
		return;
	space->quota.returns = grow(space->quota.returns, space->quota.n_returns,
				    sizeof(*space->quota.returns));
	space->quota.returns[space->quota.n_returns++] = (struct schedule_return){end_of(item),
										  e->ask.ipus};
}

static int compare_unlisted(const void *a, const void *b)
{
	const struct unlisted *x = a, *y = b;

	if (x->since_ms != y->since_ms)
		return x->since_ms < y->since_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

static void order_pending(struct schedule_controller *c, struct pod_facts *facts)
{
	size_t n = facts->n_unlisted;

	if (n == 0)
		return;
	qsort(facts->unlisted, n, sizeof(*facts->unlisted), compare_unlisted);
	facts->pending = xcalloc(n, sizeof(*facts->pending));
	for (size_t i = 0; i < n; i++)
		facts->pending[i] = facts->unlisted[i].what;
	c->pending = facts->pending;
	c->n_pending = n;
}

/* ---- all of it ---- */

size_t gather_index(const struct partitions *p, const char *controller)
{
	size_t n = vipu_fleet_len(p->fleet);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(vipu_fleet_at(p->fleet, i)->name, controller) == 0)
			return i;
	}
	return n;
}

struct space *gather_space(const struct partitions *p, struct gathered *g, const char *ns)
{
	struct space *space = map_get(g->spaces, str_of(ns));

	if (space)
		return space;
	space = xcalloc(1, sizeof(*space));
	space->policy = partitions_policy(p, ns);
	space->quota.max_ipus = space->policy.max_ipus;
	map_put(g->spaces, str_of(ns), space);
	return space;
}

void gather(const struct partitions *p, struct gathered *ret)
{
	size_t n = vipu_fleet_len(p->fleet);
	struct map *by_name = map_new();
	struct map_iter it = MAP_ITER(p->items);

	*ret = (struct gathered){
		.n = n,
		.controllers = xcalloc(n + 1, sizeof(*ret->controllers)),
		.pods = xcalloc(n + 1, sizeof(*ret->pods)),
		.spaces = map_new(),
	};
	for (size_t i = 0; i < n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);

		gather_controller(p, c, ret, i);
		map_put(by_name, str_of(c->name), &ret->controllers[i]);
	}
	while (map_next(&it))
		gather_item(p, ret, by_name, it.value);
	for (size_t i = 0; i < n; i++)
		order_pending(&ret->controllers[i], &ret->pods[i]);
	map_free(by_name);
}

/* "hand", "hand, test", "hand, test and 3 more". */
static void note_foreign(char *z, size_t size, const char *id, unsigned n)
{
	size_t len = strlen(z);

	if (n <= 2)
		snprintf(z + len, size - len, "%s%.24s", n == 2 ? ", " : "", id);
}

const char *gather_foreign(const struct partitions *p, struct gathered *g)
{
	char ids[64] = "", more[24] = "";
	uint64_t ipus = 0;
	unsigned n = 0;

	if (g->foreign_known)
		return g->foreign;
	g->foreign_known = true;
	for (size_t i = 0; i < g->n; i++) {
		const struct vipu_controller *c = vipu_fleet_at(p->fleet, i);

		for (size_t k = 0; g->controllers[i].open && k < c->partitions.n; k++) {
			const struct vipu_partition *listed = &c->partitions.items[k];

			if (!partitions_is_external(p, listed))
				continue;
			ipus += listed->n_ipus;
			note_foreign(ids, sizeof(ids), listed->id, ++n);
		}
	}
	if (n > 2)
		snprintf(more, sizeof(more), " and %u more", n - 2);
	if (n)
		snprintf(g->foreign, sizeof(g->foreign),
			 "%" PRIu64 " are in partitions that aren't the operator's (%s%s)", ipus,
			 ids, more);
	return g->foreign;
}

void gather_done(struct gathered *g)
{
	struct map_iter it = MAP_ITER(g->spaces);

	while (map_next(&it)) {
		struct space *space = it.value;

		free(space->quota.returns);
		free(space);
	}
	map_free(g->spaces);
	for (size_t i = 0; i < g->n; i++) {
		free(g->pods[i].label);
		free(g->pods[i].holds);
		free(g->pods[i].unlisted);
		free(g->pods[i].pending);
	}
	free(g->pods);
	free(g->controllers);
}
