/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one controller's IPUs come to, for all who show it: /capacity and the live page say the
 * same. Pure; uses partition and vipu.
 */
#ifndef IPU_PROXY_SUMS_H
#define IPU_PROXY_SUMS_H

#include <stdint.h>

#include "partition/manager.h"
#include "vipu/fleet.h"

struct sums {
	int64_t total, used, external, left, reserved, largest;
};

/* used: IPUs that entries hold there. What is asked for and isn't listed yet is used already: used,
 * external and what is left add up. A controller has as many as it said last, and no fewer than are
 * held there: one that hasn't answered this process yet has those. */
struct sums sums_of(struct partitions *partitions, const struct vipu_controller *c, int64_t used);
/* Of IPUs that entries hold where no controller is known: they are in use, so they are there. */
struct sums sums_elsewhere(int64_t used);
void sums_add(struct sums *all, const struct sums *one);

#endif
