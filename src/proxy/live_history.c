/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was: means over a minute for a day, and the IPU-hours of namespaces over the same time, in
 * memory that doesn't grow. What is seen at one look holds until the next. Pure; uses core only.
 */
#include <stdlib.h>
#include <string.h>

#include "live_impl.h"

#define PERIODS_AN_HOUR (3600000 / HISTORY_PERIOD_MS)

_Static_assert(HISTORY_HOURS *PERIODS_AN_HOUR == LIVE_POINTS, "both look back as far");

void history_init(struct history *h, int64_t mono_ms, int64_t wall_ms)
{
	*h = (struct history){.at_ms = mono_ms, .period_ms = mono_ms, .end_ms = wall_ms};
}

/* ---- time ---- */

static size_t hour_of(uint64_t period)
{
	return period / PERIODS_AN_HOUR % HISTORY_HOURS;
}

static void count(struct history *h, int64_t ms)
{
	size_t hour = hour_of(h->periods);

	for (size_t i = 0; i < LIVE_N_SERIES; i++)
		h->sum[i] += (double)h->now[i] * (double)ms;
	h->sum_ms += ms;
	for (size_t i = 0; i < HISTORY_SPACES; i++)
		h->spaces[i].hours[hour] += (double)h->spaces[i].ipus * (double)ms / 3600000;
	h->rest.hours[hour] += (double)h->rest.ipus * (double)ms / 3600000;
}

/* The hour that begins takes the place of the one a day ago. */
static void begin_hour(struct history *h)
{
	size_t hour = hour_of(h->periods);

	for (size_t i = 0; i < HISTORY_SPACES; i++)
		h->spaces[i].hours[hour] = 0;
	h->rest.hours[hour] = 0;
}

static void end_period(struct history *h)
{
	struct history_point *p = &h->points[h->periods % LIVE_POINTS];

	p->known = h->sum_ms > 0;
	for (size_t i = 0; i < LIVE_N_SERIES; i++) {
		p->mean[i] = p->known ? (float)(h->sum[i] / (double)h->sum_ms) : 0;
		h->sum[i] = 0;
	}
	h->sum_ms = 0;
	h->period_ms += HISTORY_PERIOD_MS;
	h->periods++;
	if (h->periods % PERIODS_AN_HOUR == 0)
		begin_hour(h);
}

void history_pass(struct history *h, int64_t mono_ms, int64_t wall_ms)
{
	bool known = h->known && mono_ms - h->at_ms <= HISTORY_GAP_MS;
	uint64_t before = h->periods;

	while (h->at_ms < mono_ms) {
		int64_t end_ms = h->period_ms + HISTORY_PERIOD_MS;
		int64_t until_ms = end_ms < mono_ms ? end_ms : mono_ms;

		if (known)
			count(h, until_ms - h->at_ms);
		h->at_ms = until_ms;
		if (until_ms == end_ms)
			end_period(h);
	}
	if (h->periods != before)
		h->end_ms = wall_ms - (mono_ms - h->period_ms);
}

/* ---- what is seen ---- */

void history_see(struct history *h, const int64_t *values)
{
	h->known = values != NULL;
	for (size_t i = 0; i < LIVE_N_SERIES; i++)
		h->now[i] = values ? values[i] : 0;
	for (size_t i = 0; i < HISTORY_SPACES; i++)
		h->spaces[i].ipus = 0;
	h->rest.ipus = 0;
}

static double sum_of(const struct history_space *space)
{
	double sum = 0;

	for (size_t i = 0; i < HISTORY_HOURS; i++)
		sum += space->hours[i];
	return sum;
}

/* Its own place, else one that nobody needs any more, else among the rest. */
static struct history_space *need_space(struct history *h, const char *ns)
{
	struct history_space *unused = NULL;

	if (!ns[0] || strlen(ns) >= LIVE_NS_SIZE)
		return &h->rest;
	for (size_t i = 0; i < HISTORY_SPACES; i++) {
		struct history_space *space = &h->spaces[i];

		if (strcmp(space->name, ns) == 0)
			return space;
		if (!unused && space->ipus == 0 && (!space->name[0] || sum_of(space) <= 0))
			unused = space;
	}
	if (!unused)
		return &h->rest;
	*unused = (struct history_space){.ipus = 0};
	memcpy(unused->name, ns, strlen(ns));
	return unused;
}

void history_hold(struct history *h, const char *ns, int64_t ipus)
{
	need_space(h, ns)->ipus += ipus;
}

/* ---- what is told ---- */

size_t history_first(const struct history *h)
{
	return h->periods > LIVE_POINTS ? h->periods - LIVE_POINTS : 0;
}

const struct history_point *history_at(const struct history *h, uint64_t period)
{
	return period < h->periods && period >= history_first(h) ? &h->points[period % LIVE_POINTS]
								 : NULL;
}

static int by_hours(const void *a, const void *b)
{
	const struct history_usage *x = a, *y = b;

	if (x->ipu_hours != y->ipu_hours)
		return x->ipu_hours > y->ipu_hours ? -1 : 1;
	return strcmp(x->ns, y->ns);
}

size_t history_usage(const struct history *h, struct history_usage ret[HISTORY_SHOWN + 1])
{
	struct history_usage all[HISTORY_SPACES];
	double rest = sum_of(&h->rest);
	size_t n = 0, shown;

	for (size_t i = 0; i < HISTORY_SPACES; i++) {
		double sum = sum_of(&h->spaces[i]);

		if (sum > 0)
			all[n++] = (struct history_usage){h->spaces[i].name, sum};
	}
	/* cppcheck-suppress uninitvar ; the first n are set */
	qsort(all, n, sizeof(all[0]), by_hours);
	shown = n < HISTORY_SHOWN ? n : HISTORY_SHOWN;
	for (size_t i = shown; i < n; i++)
		rest += all[i].ipu_hours;
	memcpy(ret, all, shown * sizeof(all[0]));
	if (rest > 0)
		ret[shown++] = (struct history_usage){"", rest};
	return shown;
}
