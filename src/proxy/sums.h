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
 * external and what is left add up. */
struct sums sums_of(struct partitions *partitions, const struct vipu_controller *c, int64_t used);
void sums_add(struct sums *all, const struct sums *one);

#endif
