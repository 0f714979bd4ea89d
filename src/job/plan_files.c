/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ConfigMaps with IPUoF configuration there have to be: one for each instance on a controller
 * whose Pods get it as a file, as it is now, before its Pods; and none that nobody needs. Pure.
 */
#include "job/plan_files.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "job/files.h"

struct job_action *job_plan_act(struct job_plan *plan, enum job_action_kind kind)
{
	/* Doubled at powers of two. */
	if ((plan->n_actions & (plan->n_actions - 1)) == 0)
		plan->actions = xrealloc(plan->actions,
					 (plan->n_actions ? plan->n_actions * 2 : 1) *
						 sizeof(*plan->actions));
	plan->actions[plan->n_actions] = (struct job_action){.kind = kind};
	return &plan->actions[plan->n_actions++];
}

static bool is_ours(const struct job_view *v, const struct job_files *f)
{
	return f->owner_uid && strcmp(f->owner_uid, v->job->uid) == 0;
}

enum job_files_look job_files_look_at(const struct job_view *v, uint32_t instance,
				      const struct job_files **ret)
{
	const struct partition_status *part = &v->partitions[instance];
	CLEANUP_FREE char *name = job_files_name(v->job, instance);
	uint64_t hash = job_files_wanted(v->job, part);
	const struct job_files *f = NULL;

	for (size_t i = 0; i < v->n_files && !f; i++)
		f = strcmp(v->files[i]->name, name) == 0 ? v->files[i] : NULL;
	*ret = f;
	if (!job_files_needed(v->job, part))
		return JOB_FILES_READY;
	if (f && !is_ours(v, f))
		return JOB_FILES_CONFLICT;
	if (!hash || (f && f->deleting))
		return JOB_FILES_COMING;
	return f && f->hash == hash && f->partition && part->id &&
			       strcmp(f->partition, part->id) == 0
		       ? JOB_FILES_READY
		       : JOB_FILES_LACKING;
}

/* The N of "NAME-ipuof-N"; -1: no such name. */
static int64_t instance_of(const struct job_view *v, const struct job_files *f)
{
	struct str name = str_of(f->name), prefix = str_of(v->job->name);
	int64_t n;

	if (!str_has_prefix(name, prefix))
		return -1;
	name = (struct str){name.p + prefix.len, name.len - prefix.len};
	if (!str_has_prefix(name, STR("-ipuof-")))
		return -1;
	name = (struct str){name.p + 7, name.len - 7};
	return str_to_int(name, 0, UINT32_MAX, &n, NULL) < 0 ? -1 : n;
}

bool job_plan_is_used(const struct job_view *v, int64_t instance)
{
	for (size_t i = 0; i < v->n_pods; i++) {
		const struct job_pod *pod = v->pods[i];
		bool ended = pod->phase == JOB_POD_SUCCEEDED || pod->phase == JOB_POD_FAILED;

		if (!ended && pod->owner_uid && strcmp(pod->owner_uid, v->job->uid) == 0 &&
		    (pod->instance < 0 || pod->instance == instance))
			return true;
	}
	return (uint64_t)instance < v->n_partitions && v->partitions[instance].id;
}

void job_plan_clear_files(const struct job_view *v, struct job_plan *plan)
{
	for (size_t i = 0; i < v->n_files; i++) {
		const struct job_files *f = v->files[i];
		int64_t instance = instance_of(v, f);

		if (is_ours(v, f) && !f->deleting && instance >= 0 &&
		    !job_plan_is_used(v, instance))
			job_plan_act(plan, JOB_DELETE_FILES)->files = f;
	}
}
