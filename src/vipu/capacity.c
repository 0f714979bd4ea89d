/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimate of what fits: domains of 64 IPUs as one word each, filled from the positions that
 * partitions list, or, where these make no sense, from sizes alone. Pure.
 * Uses core only.
 */
#include "vipu/capacity.h"

#include <stdlib.h>

#define LEVELS 7 /* blocks of 1, 2, 4 … 64 IPUs */

struct pool {
	uint64_t *taken; /* a bit for each IPU of a domain */
	size_t n;
};

bool vipu_is_power_of_two(uint32_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

static bool holds_ipus(const struct vipu_partition *p)
{
	return p->ready != VIPU_PS_REMOVED;
}

/* IPUs beyond the last domain's end count as taken. */
static void pool_clear(struct pool *pool, unsigned total)
{
	for (size_t d = 0; d < pool->n; d++) {
		size_t left = total - d * VIPU_DOMAIN_IPUS;
		pool->taken[d] = left >= VIPU_DOMAIN_IPUS ? 0 : ~UINT64_C(0) << left;
	}
}

/* Marks the partitions where they say they are. False when that can't be: a place outside the pool,
 * or taken twice; then the numbers mean something else. */
static bool fill_by_position(struct pool *pool, const struct vipu_partitions *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		const struct vipu_partition *p = &parts->items[i];
		for (size_t k = 0; holds_ipus(p) && k < p->n_ipus; k++) {
			size_t domain = p->ipus[k].domain_topology_id;
			/* Counted within the domain, or over all of them. */
			uint64_t bit = UINT64_C(1) << (p->ipus[k].topology_id % VIPU_DOMAIN_IPUS);
			if (domain >= pool->n || (pool->taken[domain] & bit))
				return false;
			pool->taken[domain] |= bit;
		}
	}
	return true;
}

static uint64_t block_mask(unsigned size, unsigned at)
{
	return (size >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << size) - 1) << at;
}

/* Puts size IPUs into the first aligned place. */
static void place(struct pool *pool, unsigned size)
{
	for (size_t d = 0; d < pool->n; d++) {
		for (unsigned at = 0; at < VIPU_DOMAIN_IPUS; at += size) {
			uint64_t mask = block_mask(size, at);
			if (!(pool->taken[d] & mask)) {
				pool->taken[d] |= mask;
				return;
			}
		}
	}
}

/* From the largest down, each in the first aligned place: as a controller with luck would have it.
 * Sizes that are no powers of two are rounded up. */
static void fill_by_size(struct pool *pool, const struct vipu_partitions *parts)
{
	size_t of_level[LEVELS] = {0};

	for (size_t i = 0; i < parts->n; i++) {
		const struct vipu_partition *p = &parts->items[i];
		size_t left = holds_ipus(p) ? p->n_ipus : 0;
		of_level[LEVELS - 1] += left / VIPU_DOMAIN_IPUS;
		left %= VIPU_DOMAIN_IPUS;
		unsigned level = 0;
		while (left > ((size_t)1 << level))
			level++;
		if (left > 0)
			of_level[level]++;
	}
	for (unsigned level = LEVELS; level-- > 0;)
		for (size_t i = 0; i < of_level[level] && i < pool->n * VIPU_DOMAIN_IPUS; i++)
			place(pool, 1U << level);
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

static void look(const struct pool *pool, struct vipu_capacity *c)
{
	unsigned run = 0;

	for (size_t d = 0; d < pool->n; d++) {
		count_blocks(pool->taken[d], c->blocks);
		if (pool->taken[d] == 0) {
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

void vipu_capacity_compute(const struct vipu_agents *agents, const struct vipu_partitions *parts,
			   struct vipu_capacity *ret)
{
	const size_t most = (size_t)VIPU_MAX_DOMAINS * VIPU_DOMAIN_IPUS;
	struct vipu_capacity c = {0};
	struct pool pool = {0};
	size_t taken = 0;

	c.total_ipus = (unsigned)(agents->n_ipus < most ? agents->n_ipus : most);
	for (size_t i = 0; i < parts->n; i++)
		if (holds_ipus(&parts->items[i]))
			taken += parts->items[i].n_ipus;
	c.taken_ipus = (unsigned)(taken < UINT32_MAX / 2 ? taken : UINT32_MAX / 2);
	c.free_ipus = c.taken_ipus < c.total_ipus ? c.total_ipus - c.taken_ipus : 0;
	pool.n = (c.total_ipus + VIPU_DOMAIN_IPUS - 1) / VIPU_DOMAIN_IPUS;
	pool.taken = xcalloc(pool.n + 1, sizeof(*pool.taken));
	pool_clear(&pool, c.total_ipus);
	c.by_position = fill_by_position(&pool, parts);
	if (!c.by_position) {
		pool_clear(&pool, c.total_ipus);
		fill_by_size(&pool, parts);
	}
	look(&pool, &c);
	find_largest(&c);
	free(pool.taken);
	*ret = c;
}

unsigned vipu_capacity_fits(const struct vipu_capacity *c, uint32_t size)
{
	unsigned n = 0;

	if (!vipu_is_power_of_two(size))
		return 0;
	if (size > VIPU_DOMAIN_IPUS) {
		for (unsigned i = 0; i < VIPU_WIDE_LEVELS; i++)
			if (size == (uint32_t)VIPU_DOMAIN_IPUS << (i + 1))
				n = c->wide[i];
	} else {
		for (unsigned level = 0; level < LEVELS; level++)
			if ((1U << level) >= size)
				n += c->blocks[level] * ((1U << level) / size);
	}
	return n < c->free_ipus / size ? n : c->free_ipus / size;
}
