/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's part about the ConfigMaps with IPUoF configuration. Private to src/job.
 */
#ifndef IPU_JOB_PLAN_FILES_H
#define IPU_JOB_PLAN_FILES_H

#include "job/plan.h"

struct job_action *job_plan_act(struct job_plan *plan, enum job_action_kind kind);

/* Whether an instance has a partition or Pods of the job's that may run. */
bool job_plan_is_used(const struct job_view *view, int64_t instance);

/* What an instance's Pods would find mounted, were they made now. */
enum job_files_look {
	JOB_FILES_READY,    /* what they need; also where they need none */
	JOB_FILES_COMING,   /* the configuration isn't there yet, or an older ConfigMap is going */
	JOB_FILES_LACKING,  /* no ConfigMap, or another content */
	JOB_FILES_CONFLICT, /* a ConfigMap of that name that isn't the job's */
};
/* *ret: the ConfigMap that has the name, or NULL. */
enum job_files_look job_files_look_at(const struct job_view *view, uint32_t instance,
				      const struct job_files **ret);

/* Deletes the ConfigMaps of instances that have no partition and no Pod that may run. */
void job_plan_clear_files(const struct job_view *view, struct job_plan *plan);

#endif
