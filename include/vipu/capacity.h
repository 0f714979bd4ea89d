/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much room a controller has: total, taken and free IPUs as it lists them, and an estimate of
 * the blocks that still fit (aligned powers of two in IPU-Link domains of 64;
 * doc/design/decisions.md, "What capacity is"). Pure; uses core only.
 */
#ifndef IPU_VIPU_CAPACITY_H
#define IPU_VIPU_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipu/api.h"

#define VIPU_DOMAIN_IPUS 64
#define VIPU_MAX_DOMAINS 1024
#define VIPU_WIDE_LEVELS 10

struct vipu_capacity {
	unsigned total_ipus;
	unsigned taken_ipus; /* of all partitions that aren't gone; may exceed what is listed */
	unsigned free_ipus;
	unsigned largest; /* the largest power of two that should fit, 0: none */
	/* Free aligned blocks of 1, 2, 4 … 64 IPUs, none inside another: like a buddy allocator's
	 * lists. blocks[6] counts whole domains. */
	unsigned blocks[7];
	/* Runs of 2, 4, 8 … 1024 neighbouring domains that are wholly free, each kind counted on
	 * its own. */
	unsigned wide[VIPU_WIDE_LEVELS];
	bool by_position; /* from the positions listed; else from the sizes alone, and hopeful */
};

/* Where partitions are, as far as it can be known: a word for each domain, a bit for each IPU. */
struct vipu_place {
	uint32_t partition; /* index in the list */
	uint32_t domain;
	uint64_t mask;
};
struct vipu_layout {
	uint64_t *taken; /* owned; what lies beyond the last IPU is taken, by nothing */
	size_t n_domains;
	struct vipu_place *places; /* owned; a partition has one in each of its domains */
	size_t n_places;
	bool by_position; /* as in vipu_capacity */
};
/* n_ipus: how many the controller lists. */
void vipu_layout_make(size_t n_ipus, const struct vipu_partitions *parts, struct vipu_layout *ret);
void vipu_layout_done(struct vipu_layout *layout);

/* The same, where the layout is there already. */
void vipu_capacity_of_layout(size_t n_ipus, const struct vipu_partitions *parts,
			     const struct vipu_layout *layout, struct vipu_capacity *ret);

bool vipu_is_power_of_two(uint32_t n);

#endif
