/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions that look like the operator's and that nobody asks for: left by a lost tracker, or
 * another cluster's on the same controller. They are reported, once each, and left alone.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/metrics.h"
#include "partition/internal.h"

#define OWNERS_TIME_MS 60000 /* after the tracker was read: then all owners have asked */

static struct metric *gauge;

/* One that has been reported, as long as its controller lists it. */
struct reported {
	char *controller;
	uint64_t look; /* that saw it last */
};

static void free_reported(struct reported *r)
{
	free(r->controller);
	free(r);
}

/* "…-<digits>" before the end: where the instance stands. */
static bool ends_in_number(const char *id, size_t len)
{
	size_t end = len;

	while (len > 0 && isdigit((unsigned char)id[len - 1]))
		len--;
	return len < end && len > 0 && id[len - 1] == '-';
}

/* "<what fits>-<instance>-<ten hex digits>", or what Graphcore's operator wrote. */
static bool looks_like_ours(const char *id)
{
	size_t stem = partition_id_stem(id);

	if (stem > 2 && id[stem - 1] == '-')
		return ends_in_number(id, stem - 1);
	return strncmp(id, "p-", 2) == 0 && ends_in_number(id, strlen(id));
}

static void report(struct partitions *p, const struct vipu_controller *c,
		   const struct vipu_partition *part)
{
	struct reported *r = map_get(p->unowned, str_of(part->id));
	char z[400];

	if (r) {
		r->look = p->unowned_looks;
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->controller = xstrdup(c->name);
	r->look = p->unowned_looks;
	map_put(p->unowned, str_of(part->id), r);
	snprintf(z, sizeof(z),
		 "partition %.60s with %zu IPU%s on %.80s has a name of the operator's, is in no "
		 "tracker and nobody asks for it: it's left alone. If no other cluster uses that "
		 "controller, remove it there",
		 part->id, part->n_ipus, part->n_ipus == 1 ? "" : "s", c->name);
	log_warn("partition", part->id, "%s", z);
	if (p->on_report)
		p->on_report("PartitionUnowned", p->tracker_name,
			     tracker_uid(p->tracker, p->tracker_name), z, p->arg);
}

/* What this controller doesn't list any more. */
static void forget_gone(struct partitions *p, const struct vipu_controller *c)
{
	struct map_iter it = MAP_ITER(p->unowned);

	while (map_next(&it)) {
		struct reported *r = it.value;

		if (r->look == p->unowned_looks || strcmp(r->controller, c->name) != 0)
			continue;
		map_del(p->unowned, it.key);
		free_reported(r);
	}
}

static void look_at(struct partitions *p, const struct vipu_controller *c)
{
	const char *values[] = {c->name};
	unsigned n = 0;

	if (!c->fresh_ms)
		return;
	p->unowned_looks++;
	for (size_t i = 0; i < c->partitions.n; i++) {
		const struct vipu_partition *part = &c->partitions.items[i];

		if (part->ready == VIPU_PS_REMOVED || map_get(p->items, str_of(part->id)) ||
		    !looks_like_ours(part->id))
			continue;
		report(p, c, part);
		n++;
	}
	forget_gone(p, c);
	metric_set(gauge, values, n);
}

static void look_at_all(struct partitions *p)
{
	for (size_t i = 0; i < vipu_fleet_len(p->fleet); i++)
		look_at(p, vipu_fleet_at(p->fleet, i));
}

static void on_owners_time(struct loop_timer *timer, void *arg)
{
	struct partitions *p = arg;

	(void)timer;
	p->owners_have_asked = true;
	look_at_all(p);
}

void unowned_synced(struct partitions *p)
{
	if (!p->following)
		loop_timer_start_in(&p->owners_timer, OWNERS_TIME_MS);
}

void unowned_init(struct partitions *p)
{
	static const char *const labels[] = {"controller", NULL};

	p->unowned = map_new();
	loop_timer_init(&p->owners_timer, p->loop, on_owners_time, p);
	if (!gauge)
		gauge = metric_new(METRIC_GAUGE, "ipu_operator_partitions_unowned",
				   "Partitions with a name of the operator's that nobody asks for.",
				   labels, NULL, 0);
}

void unowned_done(struct partitions *p)
{
	struct map_iter it = MAP_ITER(p->unowned);

	loop_timer_stop(&p->owners_timer);
	while (map_next(&it))
		free_reported(it.value);
	map_free(p->unowned);
	metric_clear(gauge); /* who follows knows nothing of it */
}

/* A controller has left the list, and what was reported there with it. */
static void forget_controllers(struct partitions *p)
{
	struct map_iter it = MAP_ITER(p->unowned);

	while (map_next(&it)) {
		struct reported *r = it.value;

		if (vipu_fleet_find(p->fleet, r->controller))
			continue;
		map_del(p->unowned, it.key);
		free_reported(r);
	}
	metric_clear(gauge);
	look_at_all(p);
}

void unowned_look(struct partitions *p, const char *name)
{
	const struct vipu_controller *c = name ? vipu_fleet_find(p->fleet, name) : NULL;

	if (!p->owners_have_asked)
		return;
	if (!name)
		forget_controllers(p);
	else if (c)
		look_at(p, c);
}
