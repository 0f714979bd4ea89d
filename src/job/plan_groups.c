/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which PodGroups there have to be: one for each instance of a job with a schedulingPolicy, before
 * its Pods, where somebody in the cluster goes by them; and none that nobody needs. Pure.
 */
#include "job/plan_groups.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "job/plan_files.h"

static bool is_ours(const struct job_view *v, const struct job_group *g)
{
	return g->owner_uid && strcmp(g->owner_uid, v->job->uid) == 0;
}

static const struct job_group *find(const struct job_view *v, uint32_t instance)
{
	CLEANUP_FREE char *name = job_group_name(v->job, instance);

	for (size_t i = 0; i < v->n_groups; i++) {
		if (v->groups[i]->api == v->group_api && strcmp(v->groups[i]->name, name) == 0)
			return v->groups[i];
	}
	return NULL;
}

static bool has_pods(const struct job_view *v, uint32_t instance)
{
	for (size_t i = 0; i < v->n_pods; i++) {
		const struct job_pod *pod = v->pods[i];

		if (pod->instance == instance && pod->owner_uid &&
		    strcmp(pod->owner_uid, v->job->uid) == 0 && pod->phase != JOB_POD_SUCCEEDED &&
		    pod->phase != JOB_POD_FAILED)
			return true;
	}
	return false;
}

enum job_group_look job_group_look_at(const struct job_view *v, uint32_t instance,
				      const struct job_group **ret)
{
	const struct job_group *g = *ret = NULL;

	if (v->job->group_hash == 0)
		return JOB_GROUP_READY;
	if (!v->group_known)
		return JOB_GROUP_COMING;
	if (v->group_api == JOB_GROUP_NONE)
		return JOB_GROUP_READY;
	*ret = g = find(v, instance);
	if (!g)
		return JOB_GROUP_LACKING;
	if (!is_ours(v, g))
		return JOB_GROUP_CONFLICT;
	if (g->deleting)
		return JOB_GROUP_COMING;
	return g->hash == v->job->group_hash || has_pods(v, instance) ? JOB_GROUP_READY
								      : JOB_GROUP_OLD;
}

void job_plan_clear_groups(const struct job_view *v, struct job_plan *plan)
{
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct job_group *g = v->groups[i];

		if (is_ours(v, g) && !g->deleting && g->instance >= 0 &&
		    !job_plan_is_used(v, g->instance))
			job_plan_act(plan, JOB_DELETE_GROUP)->group = g;
	}
}
