/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of the controllers, their IPUs, the partitions and the queue. Series of controllers and
 * IPU-Machines that are gone go with them: each scrape says anew what there is. Only idle time is
 * kept, by controller, and counted at each change of the fleet.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/map.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"

#define PHASES       5
#define MAX_MACHINES 1000 /* IPU-Machines that have series of their own */

static struct {
	struct metric *up, *no_node, *capacity, *ipus, *partitions, *ages, *waiting, *oldest,
		*reasons;
	struct metric *die, *board, *faulty, *idle;
} m;

static const char *const phase_labels[PHASES] = {"creating", "active", "resetting", "releasing",
						 "orphan"};

/* ---- idle time ---- */

/* Until from_ms it's counted; since then, so many IPUs are in no partition. */
struct idle {
	unsigned ipus;
	int64_t from_ms; /* mono */
};

struct observe_fleet {
	struct daemon *d;
	struct vipu_fleet_watch watch;
	struct map *idle; /* by controller */
};

/* Those of a process that leads: one that follows would count the same time again. */
static void count_idle(struct observe_fleet *o, const struct vipu_controller *c)
{
	struct idle *idle = map_get(o->idle, str_of(c->name));
	int64_t now_ms = clock_mono_ms();
	const char *values[] = {c->name};

	if (!idle) {
		idle = xcalloc(1, sizeof(*idle));
		idle->from_ms = now_ms;
		map_put(o->idle, str_of(c->name), idle);
		metric_add(m.idle, values, 0);
	}
	if (now_ms > idle->from_ms)
		metric_add(m.idle, values, (double)(now_ms - idle->from_ms) / 1000 * idle->ipus);
	idle->from_ms = now_ms;
	idle->ipus = o->d->leading && c->configured && c->reach == VIPU_REACH_YES
			     ? c->capacity.free_ipus
			     : 0;
}

static void count_all_idle(struct observe_fleet *o)
{
	struct map_iter it = MAP_ITER(o->idle);

	for (size_t i = 0; i < vipu_fleet_len(o->d->fleet); i++)
		count_idle(o, vipu_fleet_at(o->d->fleet, i));
	while (map_next(&it)) {
		CLEANUP_FREE char *name = str_dup(it.key);
		const char *values[] = {name};

		if (vipu_fleet_find(o->d->fleet, name))
			continue;
		metric_drop(m.idle, values);
		free(it.value);
		map_del(o->idle, str_of(name));
	}
}

static void on_fleet_change(void *arg, const char *name)
{
	struct observe_fleet *o = arg;
	const struct vipu_controller *c = name ? vipu_fleet_find(o->d->fleet, name) : NULL;

	if (c)
		count_idle(o, c);
	else
		count_all_idle(o);
}

/* ---- what the controllers say of their IPUs ---- */

static void collect_machine(const char *controller, const struct vipu_machine *machine)
{
	const char *values[] = {controller, machine->name};

	if (!isnan(machine->die_celsius))
		metric_set(m.die, values, machine->die_celsius);
	if (!isnan(machine->board_celsius))
		metric_set(m.board, values, machine->board_celsius);
	if (machine->has_state)
		metric_set(m.faulty, values, machine->faulty);
}

/* ---- controllers, partitions ---- */

struct sums {
	const struct partitions *partitions;
	struct map *used; /* by controller: int64_t */
	unsigned phases[PHASES];
	int64_t since_ms[PHASES]; /* wall: of the one that has been in it longest; 0: none is */
};

static void add_entry(const struct partition_entry *e, void *arg)
{
	struct sums *s = arg;
	int64_t *used = map_get(s->used, str_of(e->controller));

	s->phases[e->phase]++;
	if (!s->since_ms[e->phase] || e->since_ms < s->since_ms[e->phase])
		s->since_ms[e->phase] = e->since_ms;
	if (used && partition_holds_ipus(s->partitions, e))
		*used += e->ask.ipus;
}

static void set_ipus(const char *controller, const char *state, int64_t n)
{
	const char *values[] = {controller, state};

	metric_set(m.ipus, values, n > 0 ? (double)n : 0);
}

static void collect_controller(struct daemon *d, const struct vipu_controller *c, int64_t used,
			       size_t *room)
{
	const char *values[] = {c->name};
	int64_t reserved = partitions_reserved(d->partitions, c->name);

	/* By the queue's last pass: some of them may have gone since. */
	if (reserved > c->capacity.free_ipus)
		reserved = c->capacity.free_ipus;
	metric_set(m.up, values, c->reach == VIPU_REACH_YES);
	metric_set(m.no_node, values, c->no_node);
	metric_set(m.capacity, values, c->capacity.total_ipus);
	set_ipus(c->name, "used", used);
	set_ipus(c->name, "external", partitions_external(d->partitions, c));
	set_ipus(c->name, "free", (int64_t)c->capacity.free_ipus - reserved);
	set_ipus(c->name, "reserved", reserved);
	for (size_t i = 0; i < c->machines.n && *room > 0; i++, (*room)--)
		collect_machine(c->name, &c->machines.items[i]);
}

static void collect_controllers(struct daemon *d)
{
	struct sums s = {.partitions = d->partitions, .used = map_new()};
	size_t n = vipu_fleet_len(d->fleet), room = MAX_MACHINES;
	CLEANUP_FREE int64_t *used = xcalloc(n + 1, sizeof(*used));
	struct metric *const anew[] = {m.up,  m.no_node, m.capacity, m.ipus,
				       m.die, m.board,   m.faulty};

	for (size_t i = 0; i < sizeof(anew) / sizeof(anew[0]); i++)
		metric_clear(anew[i]);
	for (size_t i = 0; i < n; i++)
		map_put(s.used, str_of(vipu_fleet_at(d->fleet, i)->name), &used[i]);
	partitions_each_entry(d->partitions, add_entry, &s);
	for (size_t i = 0; i < n; i++)
		collect_controller(d, vipu_fleet_at(d->fleet, i), used[i], &room);
	for (size_t i = 0; i < PHASES; i++) {
		int64_t age_ms = s.since_ms[i] ? clock_wall_ms() - s.since_ms[i] : 0;

		metric_set(m.partitions, &phase_labels[i], s.phases[i]);
		metric_set(m.ages, &phase_labels[i], age_ms > 0 ? (double)age_ms / 1000 : 0);
	}
	map_free(s.used);
}

/* ---- the queue ---- */

struct queue_sums {
	int64_t oldest_ms; /* wall; 0: nothing waits */
	size_t n;
};

static void add_waiting(const struct partition_waiting *w, void *arg)
{
	struct queue_sums *s = arg;
	/* Not looked at yet: that's for the next pass of the queue. */
	const char *values[] = {w->why == PARTITION_WHY_NONE ? "New" : partition_why_name(w->why)};

	s->n++;
	if (!s->oldest_ms || w->since_ms < s->oldest_ms)
		s->oldest_ms = w->since_ms;
	metric_add(m.reasons, values, 1);
}

static void collect_queue(struct daemon *d)
{
	struct queue_sums s = {0};
	int64_t waited_ms;

	metric_clear(m.reasons);
	partitions_each_waiting(d->partitions, add_waiting, &s);
	waited_ms = s.oldest_ms ? clock_wall_ms() - s.oldest_ms : 0;
	metric_set(m.waiting, NULL, (double)s.n);
	metric_set(m.oldest, NULL, waited_ms > 0 ? (double)waited_ms / 1000 : 0);
}

/* ---- life ---- */

static struct metric *gauge(const char *name, const char *help, const char *const *labels)
{
	return metric_new(METRIC_GAUGE, name, help, labels, NULL, 0);
}

static void register_metrics(void)
{
	static const char *const by_controller[] = {"controller", NULL};
	static const char *const by_place[] = {"controller", "state", NULL};
	static const char *const by_agent[] = {"controller", "agent", NULL};
	static const char *const by_state[] = {"state", NULL};
	static const char *const by_reason[] = {"reason", NULL};

	m.up = gauge("ipu_operator_controller_up", "1: the controller answered the last call.",
		     by_controller);
	m.no_node = gauge("ipu_operator_controller_no_ready_node",
			  "1: none of its nodes is ready, and it gets no new partitions.",
			  by_controller);
	m.capacity = gauge("ipu_operator_capacity_ipus", "IPUs that the controller lists.",
			   by_controller);
	m.ipus = gauge("ipu_operator_ipus",
		       "IPUs in partitions of the operator, in others, free, and in none but "
		       "reserved.",
		       by_place);
	m.partitions = gauge("ipu_operator_partitions", "Entries of the tracker.", by_state);
	m.ages = gauge("ipu_operator_partition_oldest_seconds",
		       "How long the entry that has been in this state longest has been in it.",
		       by_state);
	m.waiting = gauge("ipu_operator_partitions_waiting", "Instances that wait for a partition.",
			  NULL);
	m.reasons = gauge("ipu_operator_partitions_waiting_by_reason",
			  "Instances that wait for a partition, by what they wait for.", by_reason);
	m.oldest = gauge("ipu_operator_queue_oldest_wait_seconds",
			 "How long the instance that waits longest has waited.", NULL);
	m.die = gauge("ipu_operator_ipu_die_temperature_celsius",
		      "The hottest IPU's die on this IPU-Machine.", by_agent);
	m.board = gauge("ipu_operator_ipu_board_temperature_celsius",
			"The hottest board on this IPU-Machine.", by_agent);
	m.faulty = gauge("ipu_operator_ipus_faulty",
			 "IPUs of this IPU-Machine whose error state isn't \"no errors\".",
			 by_agent);
	m.idle = metric_new(METRIC_COUNTER, "ipu_operator_idle_ipu_seconds_total",
			    "IPUs times seconds for which they were in no partition.",
			    by_controller, NULL, 0);
}

void observe_fleet_collect(struct observe_fleet *o)
{
	if (!o || !o->d->partitions)
		return;
	count_all_idle(o);
	partitions_count_usage(o->d->partitions);
	collect_controllers(o->d);
	collect_queue(o->d);
}

void observe_fleet_led(struct observe_fleet *o)
{
	if (o)
		count_all_idle(o);
}

struct observe_fleet *observe_fleet_new(struct daemon *d)
{
	struct observe_fleet *o;

	if (!d->fleet)
		return NULL;
	o = xcalloc(1, sizeof(*o));
	register_metrics();
	o->d = d;
	o->idle = map_new();
	vipu_fleet_watch_start(d->fleet, &o->watch, on_fleet_change, o);
	return o;
}

void observe_fleet_free(struct observe_fleet *o)
{
	struct map_iter it;

	if (!o)
		return;
	vipu_fleet_watch_stop(&o->watch);
	it = (struct map_iter)MAP_ITER(o->idle);
	while (map_next(&it))
		free(it.value);
	map_free(o->idle);
	free(o);
}
