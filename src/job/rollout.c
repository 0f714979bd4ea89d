/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rolling updates, the table of doc/design/rollout.md as a function: how many surge instances there
 * should be, then which instances are replaced without going below what must stay available. Pure;
 * keeps nothing between calls, so all that it goes by is what is seen.
 */
#include "job/rollout.h"

/* So long a surge instance waits for a partition before one old instance may go without it. */
#define STARVED_MS 60000

struct count {
	uint32_t outdated;  /* wanted ones */
	uint32_t live;      /* wanted ones that haven't ended */
	uint32_t available; /* wanted ones */
	uint32_t waiting;   /* wanted ones without a partition */
	uint32_t starved;   /* of these, for longer than STARVED_MS */
};

static bool is_available(const struct rollout_instance *i)
{
	return i->available && !i->going && !i->ended;
}

static bool is_outdated(const struct rollout_instance *i)
{
	return i->outdated && !i->ended;
}

static bool is_waiting(const struct rollout_instance *i)
{
	return i->starved_ms && !i->ended;
}

static bool is_starved(const struct rollout_view *v, const struct rollout_instance *i)
{
	return is_waiting(i) && v->now_ms - i->starved_ms >= STARVED_MS;
}

static void count(const struct rollout_view *v, struct count *ret)
{
	*ret = (struct count){0};
	for (uint32_t i = 0; i < v->wanted; i++) {
		const struct rollout_instance *item = &v->items[i];

		ret->outdated += is_outdated(item);
		ret->live += !item->ended;
		ret->available += is_available(item);
		ret->waiting += is_waiting(item);
		ret->starved += is_starved(v, item);
	}
}

/* What must be available when so many of the wanted ones can't be, for want of IPUs. */
static uint32_t least(const struct count *c, uint32_t cannot, uint32_t max_unavailable)
{
	uint32_t could = c->live - cannot;

	return could > max_unavailable ? could - max_unavailable : 0;
}

/* Surge instances that are available and that the wanted ones can't be without yet: those of them
 * with the lowest indices, and what lies below them. One that waits for a partition isn't waited
 * for: the surge instance may hold the very IPUs. */
static uint32_t surge_needed(const struct rollout_view *v, const struct count *c)
{
	uint32_t floor = least(c, c->waiting, v->max_unavailable), there = c->available, n = 0;

	for (uint32_t i = 0; i < v->max_surge && v->wanted + i < v->n && there < floor; i++) {
		if (is_available(&v->items[v->wanted + i])) {
			there++;
			n = i + 1;
		}
	}
	return n;
}

static uint32_t surge(const struct rollout_view *v, const struct count *c)
{
	uint32_t n = c->outdated < v->max_surge ? c->outdated : v->max_surge;
	uint32_t needed = surge_needed(v, c);

	if (v->strategy != JOB_ROLLING_UPDATE)
		return 0;
	return n > needed ? n : needed;
}

/* There should be surge instances, and each of them has waited too long or has ended. */
static bool surge_is_starved(const struct rollout_view *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct rollout_instance *item = &v->items[v->wanted + i];

		if (v->wanted + i >= v->n || (!item->ended && !is_starved(v, item)))
			return false;
	}
	return n > 0;
}

static void look_again(const struct rollout_view *v, uint32_t total, struct rollout_plan *ret)
{
	for (uint32_t i = 0; i < total && i < v->n; i++) {
		const struct rollout_instance *item = &v->items[i];
		int64_t due = item->starved_ms + STARVED_MS;

		if (is_waiting(item) && !is_starved(v, item) &&
		    (ret->next_ms == 0 || due < ret->next_ms))
			ret->next_ms = due;
	}
}

/* Marks those that go now, the lowest first. A surge instance that is available isn't replaced
 * even if the template has changed since it was made: it serves until the wanted ones are done. */
static void mark(const struct rollout_view *v, uint32_t total, uint32_t spare, bool *replace)
{
	for (uint32_t i = 0; i < total && i < v->n; i++) {
		const struct rollout_instance *item = &v->items[i];

		if (!is_outdated(item) || item->going)
			continue;
		if (!item->available || v->strategy == JOB_RECREATE) {
			replace[i] = true;
		} else if (i < v->wanted && spare > 0) {
			replace[i] = true;
			spare--;
		}
	}
}

void rollout_plan(const struct rollout_view *v, bool *replace, struct rollout_plan *ret)
{
	struct count c;
	uint32_t total, floor, available, unavailable = v->max_unavailable;

	for (size_t i = 0; i < v->n; i++)
		replace[i] = false;
	*ret = (struct rollout_plan){0};
	count(v, &c);
	ret->surge = surge(v, &c);
	ret->going_on = c.outdated > 0;
	if (!ret->going_on)
		return;

	total = v->wanted + ret->surge;
	available = c.available;
	for (uint32_t i = v->wanted; i < total && i < v->n; i++)
		available += is_available(&v->items[i]);
	if (unavailable == 0 && surge_is_starved(v, ret->surge))
		unavailable = 1;
	floor = least(&c, c.starved, unavailable);
	mark(v, total, available > floor ? available - floor : 0, replace);
	if (v->strategy == JOB_ROLLING_UPDATE)
		look_again(v, total, ret);
}
