/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces that are counted live as long as the process: their counters only rise, and a
 * restart or another leader begins at 0, as Prometheus' rate() and increase() expect. Uses core.
 */
#include "partition/usage.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/map.h"
#include "core/metrics.h"

struct usage_namespace {
	char *name;
	uint64_t entries;   /* whose time runs */
	int64_t growing_ms; /* mono: when it grew last */
};

static struct {
	struct map *namespaces;
	struct usage_namespace other; /* for those that find no room */
	struct metric *seconds, *held;
} all;

static void open_all(void)
{
	static const char *const labels[] = {"namespace", NULL};

	if (all.namespaces)
		return;
	all.namespaces = map_new();
	all.other.name = xstrdup("(other)"); /* no namespace has such a name */
	all.seconds = metric_new(METRIC_COUNTER, "ipu_operator_ipu_seconds_total",
				 "IPUs times seconds for which partitions of the operator held "
				 "them, by their owners' namespace.",
				 labels, NULL, 0);
	all.held = metric_new(METRIC_GAUGE, "ipu_operator_ipus_held",
			      "IPUs in partitions of the operator, by their owners' namespace.",
			      labels, NULL, 0);
}

static void add(const struct usage_namespace *ns, double seconds, double ipus)
{
	const char *values[] = {ns->name};

	metric_add(all.seconds, values, seconds);
	metric_add(all.held, values, ipus);
}

/* The one that has held nothing for longest goes, with its series. */
static bool make_room(void)
{
	struct map_iter it = MAP_ITER(all.namespaces);
	struct usage_namespace *oldest = NULL;

	if (map_len(all.namespaces) < USAGE_MAX_NAMESPACES)
		return true;
	while (map_next(&it)) {
		struct usage_namespace *ns = it.value;

		if (ns->entries == 0 && (!oldest || ns->growing_ms < oldest->growing_ms))
			oldest = ns;
	}
	if (!oldest)
		return false;
	const char *values[] = {oldest->name};
	metric_drop(all.seconds, values);
	metric_drop(all.held, values);
	map_del(all.namespaces, str_of(oldest->name));
	free(oldest->name);
	free(oldest);
	return true;
}

static struct usage_namespace *need(const char *name)
{
	struct usage_namespace *ns;

	open_all();
	ns = map_get(all.namespaces, str_of(name));
	if (ns)
		return ns;
	if (!make_room())
		return &all.other;
	ns = xcalloc(1, sizeof(*ns));
	ns->name = xstrdup(name);
	map_put(all.namespaces, str_of(name), ns);
	add(ns, 0, 0);
	return ns;
}

void usage_count(struct usage *u, const char *ns, uint32_t ipus, bool holds)
{
	int64_t now_ms = clock_mono_ms();

	if (u->ns && now_ms > u->from_ms)
		add(u->ns, (double)(now_ms - u->from_ms) / 1000 * u->ipus, 0);
	if (u->ns)
		u->ns->growing_ms = now_ms;
	u->from_ms = now_ms;
	if (!u->ns && holds) {
		u->ns = need(ns);
		u->ns->entries++;
		u->ns->growing_ms = now_ms;
		u->ipus = ipus;
		add(u->ns, 0, ipus);
	} else if (u->ns && !holds) {
		u->ns->entries--;
		add(u->ns, 0, -(double)u->ipus);
		u->ns = NULL;
	}
}
