/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks by shifting and masking whole domains: no loop over IPUs. Pure.
 */
#include "partition/block.h"

/* Bits at which an aligned block of the level begins that lies wholly in set; level up to 6. */
static uint64_t block_starts(uint64_t set, unsigned level)
{
	static const uint64_t aligned[] = {
		UINT64_C(0xffffffffffffffff), UINT64_C(0x5555555555555555),
		UINT64_C(0x1111111111111111), UINT64_C(0x0101010101010101),
		UINT64_C(0x0001000100010001), UINT64_C(0x0000000100000001),
		UINT64_C(0x0000000000000001),
	};

	for (unsigned l = 0; l < level; l++)
		set &= (set >> (1U << l)) & aligned[l + 1];
	return set;
}

uint64_t block_mask_at(unsigned level, unsigned at)
{
	unsigned size = 1U << level;

	return (size >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << size) - 1) << at;
}

/* ---- rows of whole domains ---- */

/* The next row of free domains from *at on: its length, with *at at its beginning. */
static size_t next_row(const uint64_t *taken, size_t n, size_t *at)
{
	size_t len = 0;

	while (*at < n && taken[*at])
		++*at;
	while (*at + len < n && !taken[*at + len])
		len++;
	return len;
}

static bool find_row(const uint64_t *taken, size_t n, unsigned level, bool smallest,
		     struct block *ret)
{
	size_t want = (size_t)1 << (level - BLOCK_DOMAIN_LEVEL), found = 0, len;

	for (size_t at = 0; (len = next_row(taken, n, &at)) > 0; at += len) {
		if (len < want || (found && len >= found))
			continue;
		found = len;
		*ret = (struct block){at, want, ~UINT64_C(0), (uint32_t)len << BLOCK_DOMAIN_LEVEL};
		if (!smallest)
			break;
	}
	return found > 0;
}

static unsigned count_rows(const uint64_t *taken, size_t n, unsigned level)
{
	unsigned count = 0;
	size_t len;

	for (size_t at = 0; (len = next_row(taken, n, &at)) > 0; at += len)
		count += (unsigned)(len >> (level - BLOCK_DOMAIN_LEVEL));
	return count;
}

/* ---- all of them ---- */

unsigned block_count(const uint64_t *taken, size_t n, unsigned level)
{
	unsigned count = 0;

	if (level > BLOCK_DOMAIN_LEVEL)
		return count_rows(taken, n, level);
	for (size_t d = 0; d < n; d++)
		count += (unsigned)__builtin_popcountll(block_starts(~taken[d], level));
	return count;
}

static struct block in_domain(size_t d, uint64_t starts, unsigned level, unsigned hole_level)
{
	unsigned at = (unsigned)__builtin_ctzll(starts);

	return (struct block){d, 1, block_mask_at(level, at), UINT32_C(1) << hole_level};
}

bool block_first(const uint64_t *taken, size_t n, unsigned level, struct block *ret)
{
	if (level > BLOCK_DOMAIN_LEVEL)
		return find_row(taken, n, level, false, ret);
	for (size_t d = 0; d < n; d++) {
		uint64_t starts = block_starts(~taken[d], level);

		if (starts) {
			*ret = in_domain(d, starts, level, level);
			return true;
		}
	}
	return false;
}

/* Beginnings of the free blocks of this very level: not half of a free one above. */
static uint64_t holes(uint64_t taken, unsigned level)
{
	uint64_t above;

	if (level == BLOCK_DOMAIN_LEVEL)
		return block_starts(~taken, level);
	above = block_starts(~taken, level + 1);
	return block_starts(~taken, level) & ~(above | above << (1U << level));
}

bool block_best(const uint64_t *taken, size_t n, unsigned level, struct block *ret)
{
	if (level > BLOCK_DOMAIN_LEVEL)
		return find_row(taken, n, level, true, ret);
	for (unsigned l = level; l <= BLOCK_DOMAIN_LEVEL; l++) {
		for (size_t d = 0; d < n; d++) {
			uint64_t starts = holes(taken[d], l);

			if (starts) {
				*ret = in_domain(d, starts, level, l);
				return true;
			}
		}
	}
	return false;
}

void block_set(uint64_t *set, const struct block *b)
{
	for (size_t d = b->domain; d < b->domain + b->n_domains; d++)
		set[d] |= b->mask;
}

bool block_meets(const uint64_t *set, const struct block *b)
{
	for (size_t d = b->domain; d < b->domain + b->n_domains; d++) {
		if (set[d] & b->mask)
			return true;
	}
	return false;
}
