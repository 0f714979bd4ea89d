/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned blocks of IPUs in domains of 64, a word for each: where one is free, and where a
 * controller would put the next partition. Levels are powers of two: 0 is one IPU, 6 a whole
 * domain, what is above a row of neighbouring domains. Pure. Private to partition.
 */
#ifndef IPU_PARTITION_BLOCK_H
#define IPU_PARTITION_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_DOMAIN_LEVEL 6

struct block {
	size_t domain, n_domains;
	uint64_t mask; /* in each of them */
	uint32_t hole; /* IPUs of the free block that it was found in */
};

uint64_t block_mask_at(unsigned level, unsigned at);

/* Free blocks, none overlapping another. */
unsigned block_count(const uint64_t *taken, size_t n, unsigned level);
/* The first place, and the first one in the smallest hole. False: none. */
bool block_first(const uint64_t *taken, size_t n, unsigned level, struct block *ret);
bool block_best(const uint64_t *taken, size_t n, unsigned level, struct block *ret);

void block_set(uint64_t *set, const struct block *b);
bool block_meets(const uint64_t *set, const struct block *b);

#endif
