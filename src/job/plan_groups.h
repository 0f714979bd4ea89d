/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's part about PodGroups. Private to src/job.
 */
#ifndef IPU_JOB_PLAN_GROUPS_H
#define IPU_JOB_PLAN_GROUPS_H

#include "job/plan.h"

/* What an instance's Pods would belong to, were they made now. */
enum job_group_look {
	JOB_GROUP_READY,    /* the PodGroup that they need; also where they need none */
	JOB_GROUP_COMING,   /* who has PodGroups isn't known yet, or a former one is going */
	JOB_GROUP_LACKING,  /* there's none */
	JOB_GROUP_OLD,      /* it's made from what the job said before, and nobody uses it */
	JOB_GROUP_CONFLICT, /* one of that name isn't the job's */
};
/* *ret: the PodGroup that has the name, or NULL. */
enum job_group_look job_group_look_at(const struct job_view *view, uint32_t instance,
				      const struct job_group **ret);

/* Deletes the PodGroups of instances that have no partition and no Pod that may run: one that
 * waits would take room in its scheduler's queue. */
void job_plan_clear_groups(const struct job_view *view, struct job_plan *plan);

#endif
