/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which instances a changed template replaces now, and how many there are beside the wanted ones
 * meanwhile: a pure function. Instances from `wanted` on are the surge ones. doc/design/rollout.md.
 */
#ifndef IPU_JOB_ROLLOUT_H
#define IPU_JOB_ROLLOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/model.h"

struct rollout_instance {
	bool ended;         /* for good */
	bool outdated;      /* its Pods are made from another template than the job has now */
	bool going;         /* its run is over, its Pods are on their way out */
	bool available;     /* all its Pods run and are Ready */
	int64_t starved_ms; /* waits for a partition since; 0: it doesn't */
};

struct rollout_view {
	enum job_strategy strategy;
	uint32_t wanted;                     /* jobInstances */
	uint32_t max_surge, max_unavailable; /* instances, not both 0 */
	const struct rollout_instance *items;
	size_t n; /* wanted and what there may be of surge ones, at least `wanted` */
	int64_t now_ms;
};

struct rollout_plan {
	uint32_t surge;  /* instances from `wanted` on that there should be */
	bool going_on;   /* some instance isn't made from the present template yet */
	int64_t next_ms; /* a look is due then; 0: none */
};

/* replace has n entries, the caller's: true for those whose run ends now. */
void rollout_plan(const struct rollout_view *v, bool *replace, struct rollout_plan *ret);

#endif
