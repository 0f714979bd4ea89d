/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimate of what fits: domains of 64 IPUs as one word each, filled from the positions that
 * partitions list, or, where these make no sense, from sizes alone. Pure.
 * Uses core only.
 */
#include "vipu/capacity.h"

#include <stdlib.h>

#define LEVELS 7 /* blocks of 1, 2, 4 … 64 IPUs */

bool vipu_is_power_of_two(uint32_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

static bool holds_ipus(const struct vipu_partition *p)
{
	return p->ready != VIPU_PS_REMOVED;
}

static unsigned count_total(size_t n_ipus)
{
	const size_t most = (size_t)VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS;

	return (unsigned)(n_ipus < most ? n_ipus : most);
}

/* IPUs beyond the last domain's end count as taken. */
static void layout_clear(struct vipu_layout *l, unsigned total)
{
	l->n_places = 0;
	for (size_t d = 0; d < l->n_domains; d++) {
		size_t left = total - d * VIPU_DOMAIN_IPUS;
		l->taken[d] = left >= VIPU_DOMAIN_IPUS ? 0 : ~UINT64_C(0) << left;
	}
}

/* from: the partition's first place, or where it will be. */
static void take(struct vipu_layout *l, size_t partition, size_t from, size_t domain, uint64_t mask)
{
	l->taken[domain] |= mask;
	for (size_t i = l->n_places; i-- > from;) {
		if (l->places[i].domain == domain) {
			l->places[i].mask |= mask;
			return;
		}
	}
	if ((l->n_places & (l->n_places - 1)) == 0)
		l->places = xrealloc(l->places,
				     (l->n_places ? l->n_places * 2 : 1) * sizeof(*l->places));
	l->places[l->n_places++] = (struct vipu_place){(uint32_t)partition, (uint32_t)domain, mask};
}

/* Marks the partitions where they say they are. False when that can't be: a place outside the
 * domains, or taken twice; then the numbers mean something else. */
static bool fill_by_position(struct vipu_layout *l, const struct vipu_partitions *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		const struct vipu_partition *p = &parts->items[i];
		size_t from = l->n_places;
		for (size_t k = 0; holds_ipus(p) && k < p->n_ipus; k++) {
			size_t domain = p->ipus[k].domain_topology_id;
			/* Counted within the domain, or over all of them. */
			uint64_t bit = UINT64_C(1) << (p->ipus[k].topology_id % VIPU_DOMAIN_IPUS);
			if (domain >= l->n_domains || (l->taken[domain] & bit))
				return false;
			take(l, i, from, domain, bit);
		}
	}
	return true;
}

static uint64_t block_mask(unsigned size, unsigned at)
{
	return (size >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << size) - 1) << at;
}

/* Where a block of one size fits next: blocks of that size alone, which take and never give back,
 * find nothing before it. */
struct cursor {
	size_t domain;
	unsigned at;
};

/* Puts size IPUs into the first aligned place; where there is none, nowhere. */
static void place(struct vipu_layout *l, size_t partition, unsigned size, struct cursor *from)
{
	for (; from->domain < l->n_domains; from->domain++, from->at = 0) {
		for (; from->at < VIPU_DOMAIN_IPUS; from->at += size) {
			uint64_t mask = block_mask(size, from->at);
			if (!(l->taken[from->domain] & mask)) {
				take(l, partition, l->n_places, from->domain, mask);
				return;
			}
		}
	}
}

static unsigned level_of(size_t n_ipus)
{
	unsigned level = 0;

	while (n_ipus > ((size_t)1 << level))
		level++;
	return level;
}

/* From the largest down, each in the first aligned place: as a controller with luck would have it.
 * Sizes that are no powers of two are rounded up. */
static void fill_by_size(struct vipu_layout *l, const struct vipu_partitions *parts)
{
	struct cursor domains = {0};

	for (size_t i = 0; i < parts->n; i++) {
		const struct vipu_partition *p = &parts->items[i];
		size_t whole = holds_ipus(p) ? p->n_ipus / VIPU_DOMAIN_IPUS : 0;
		for (size_t k = 0; k < whole && domains.domain < l->n_domains; k++)
			place(l, i, VIPU_DOMAIN_IPUS, &domains);
	}
	for (unsigned level = LEVELS; level-- > 0;) {
		struct cursor from = {0};
		for (size_t i = 0; i < parts->n; i++) {
			const struct vipu_partition *p = &parts->items[i];
			size_t rest = holds_ipus(p) ? p->n_ipus % VIPU_DOMAIN_IPUS : 0;
			if (rest > 0 && level_of(rest) == level)
				place(l, i, 1U << level, &from);
		}
	}
}

void vipu_layout_make(size_t n_ipus, const struct vipu_partitions *parts, struct vipu_layout *ret)
{
	unsigned total = count_total(n_ipus);
	struct vipu_layout l = {0};

	l.n_domains = (total + VIPU_DOMAIN_IPUS - 1) / VIPU_DOMAIN_IPUS;
	l.taken = xcalloc(l.n_domains + 1, sizeof(*l.taken));
	layout_clear(&l, total);
	l.by_position = fill_by_position(&l, parts);
	if (!l.by_position) {
		layout_clear(&l, total);
		fill_by_size(&l, parts);
	}
	*ret = l;
}

void vipu_layout_done(struct vipu_layout *l)
{
	free(l->taken);
	free(l->places);
	*l = (struct vipu_layout){0};
}

/* Free aligned blocks of a domain, the largest first. */
static void count_blocks(uint64_t taken, unsigned blocks[LEVELS])
{
	for (unsigned level = LEVELS; level-- > 0;) {
		unsigned size = 1U << level;
		for (unsigned at = 0; at < VIPU_DOMAIN_IPUS; at += size) {
			uint64_t mask = block_mask(size, at);
			if (!(taken & mask)) {
				blocks[level]++;
				taken |= mask;
			}
		}
	}
}

static void count_run(unsigned run, struct vipu_capacity *c)
{
	for (unsigned i = 0; i < VIPU_WIDE_LEVELS; i++)
		c->wide[i] += run >> (i + 1);
}

static void look(const struct vipu_layout *l, struct vipu_capacity *c)
{
	unsigned run = 0;

	for (size_t d = 0; d < l->n_domains; d++) {
		count_blocks(l->taken[d], c->blocks);
		if (l->taken[d] == 0) {
			run++;
			continue;
		}
		count_run(run, c);
		run = 0;
	}
	count_run(run, c);
}

/* No block may be larger than what is free by the count of IPUs, whatever the positions say. */
static void find_largest(struct vipu_capacity *c)
{
	for (unsigned level = 0; level < LEVELS; level++)
		if (c->blocks[level] > 0 && (1U << level) <= c->free_ipus)
			c->largest = 1U << level;
	for (unsigned i = 0; i < VIPU_WIDE_LEVELS; i++)
		if (c->wide[i] > 0 && (unsigned)VIPU_DOMAIN_IPUS << (i + 1) <= c->free_ipus)
			c->largest = (unsigned)VIPU_DOMAIN_IPUS << (i + 1);
}

void vipu_capacity_of_layout(size_t n_ipus, const struct vipu_partitions *parts,
			     const struct vipu_layout *layout, struct vipu_capacity *ret)
{
	struct vipu_capacity c = {0};
	size_t taken = 0;

	c.total_ipus = count_total(n_ipus);
	for (size_t i = 0; i < parts->n; i++)
		if (holds_ipus(&parts->items[i]))
			taken += parts->items[i].n_ipus;
	c.taken_ipus = (unsigned)(taken < UINT32_MAX / 2 ? taken : UINT32_MAX / 2);
	c.free_ipus = c.taken_ipus < c.total_ipus ? c.total_ipus - c.taken_ipus : 0;
	c.by_position = layout->by_position;
	look(layout, &c);
	find_largest(&c);
	*ret = c;
}
