/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of a controller, from its view and from what the partition layer holds there
 * (doc/design/decisions.md, "What capacity is"). Owns nothing.
 */
#include "sums.h"

struct sums sums_of(struct partitions *partitions, const struct vipu_controller *c, int64_t used)
{
	struct sums s = {.total = c->capacity.total_ipus, .used = used};
	bool reachable = c->reach == VIPU_REACH_YES;
	int64_t rest;

	s.external = partitions_external(partitions, c);
	/* What is held there is known before it has said how many it has. */
	if (s.total < s.used + s.external)
		s.total = s.used + s.external;
	rest = s.total - s.used - s.external;
	if (reachable && c->configured)
		s.left = rest < 0 ? 0 : rest < c->capacity.free_ipus ? rest : c->capacity.free_ipus;
	if (reachable && c->configured && !c->cordoned && !c->no_node)
		s.largest = c->capacity.largest;
	while (s.largest > s.left)
		s.largest /= 2;
	s.reserved = partitions_reserved(partitions, c->name);
	if (s.reserved > s.left)
		s.reserved = s.left;
	return s;
}

struct sums sums_elsewhere(int64_t used)
{
	return (struct sums){.total = used, .used = used};
}

void sums_add(struct sums *all, const struct sums *one)
{
	all->total += one->total;
	all->used += one->used;
	all->external += one->external;
	all->left += one->left;
	all->reserved += one->reserved;
	if (one->largest > all->largest)
		all->largest = one->largest;
}
