/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/kueue.md: workers are made first, behind Kueue's gate and ours; when
 * Kueue has let all of them go, the instance asks for its partition; when it has that, our gate
 * opens.
 */
#include <inttypes.h>
#include <string.h>

#include "job/plan_files.h"
#include "job/plan_impl.h"

static void create_missing(struct work *w, struct gang *g)
{
	if (w->v->now_ms < g->mem->retry_ms) {
		job_plan_wake(w, g->mem->retry_ms);
		return;
	}
	if (w->v->trouble)
		job_plan_wait(w, w->v->trouble_event, PARTITION_WHY_NONE, "%s", w->v->trouble);
	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (!g->workers[k])
			job_plan_add(w, JOB_CREATE_POD, g->instance)->worker = k;
	}
	job_plan_wait(w, NULL, PARTITION_WHY_NONE, "waiting for its Pods to be in Kueue's queue %s",
		      w->job->queue_name);
}

/* All gated ones of the gang, which the active partition is for. */
static void open_gates(struct work *w, struct gang *g)
{
	struct job_instance *mem = g->mem;

	job_plan_note_start(w, g);
	if (w->v->trouble)
		job_plan_await_mending(w, g);
	if (mem->over || mem->phase == JOB_INSTANCE_FAILED || !job_plan_files(w, g))
		return;
	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (g->workers[k]->gated)
			job_plan_add(w, JOB_OPEN_POD, g->instance)->pod = g->workers[k];
	}
}

/* Kueue has let them go, and some are behind our gate. */
static void await_partition(struct work *w, struct gang *g)
{
	const struct partition_status *part = g->part;

	switch (part->state) {
	case PARTITION_STATE_NONE:
	case PARTITION_STATE_RELEASING:
		if (g->on && part->state == PARTITION_STATE_NONE)
			job_plan_add(w, JOB_ADOPT, g->instance)->pod = g->on;
		else
			job_plan_add(w, JOB_ENSURE, g->instance);
		return;
	case PARTITION_STATE_FAILED:
		job_plan_release(w, g);
		job_plan_say_broken(w, g);
		return;
	case PARTITION_STATE_ACTIVE:
		if (job_plan_is_for_this_run(g) || g->on) {
			open_gates(w, g);
			return;
		}
		break;
	default:
		break;
	}
	if (!part->adopting && !g->on &&
	    (job_plan_wants_otherwise(w, g) ||
	     (part->ask && part->ask->priority != w->job->priority)))
		job_plan_add(w, JOB_ENSURE, g->instance);
	if (part->message[0])
		job_plan_wait(w, partition_why_name(part->why), part->why, "%s", part->message);
}

bool job_plan_queue(struct work *w, struct gang *g)
{
	if (g->mem->complete)
		return false;
	if (g->missing) {
		create_missing(w, g);
		return true;
	}
	if (g->queued) {
		/* Nobody uses the IPUs of an earlier run, and others may come first. */
		if (g->gated == w->job->workers && !job_plan_misfit_in_use(w, g->instance))
			job_plan_release(w, g);
		job_plan_wait(w, "WaitingForKueue", PARTITION_WHY_NONE,
			      "waiting for Kueue to let its Pods go (queue %s)",
			      w->job->queue_name);
		return true;
	}
	if (!g->gated)
		return false;
	await_partition(w, g);
	return true;
}

static bool is_held(const struct work *w, const struct job_pod *pod)
{
	return pod->deleting && (pod->gated || pod->queued) && pod->queue_group &&
	       job_pod_is_ours(w, pod);
}

void job_plan_leave_queue(struct work *w)
{
	const struct job_view *v = w->v;

	for (size_t i = 0; i < v->n_pods; i++) {
		bool done = false;

		if (!is_held(w, v->pods[i]))
			continue;
		for (size_t k = 0; k < i && !done; k++)
			done = is_held(w, v->pods[k]) &&
			       strcmp(v->pods[k]->queue_group, v->pods[i]->queue_group) == 0;
		if (!done)
			job_plan_act(w->out, JOB_DELETE_WORKLOAD)->pod = v->pods[i];
	}
}
