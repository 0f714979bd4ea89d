/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status that a pass arrives at: computed from what was observed and from what is remembered of
 * the instances, so that it's right after a restart too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/intern.h"
#include "core/str.h"
#include "job/plan_impl.h"
#include "job/status.h"

#define CLOCKS_MS 60000 /* so much those of two nodes may differ */

/* Room for each instance; of those that the job doesn't have any more nothing needs to be known. */
static void size_memory(struct job_status *s, size_t n)
{
	for (size_t i = n; i < s->n_instances; i++)
		intern_drop(s->instances[i].message);
	s->instances = xrealloc(s->instances, n * sizeof(*s->instances));
	if (n > s->n_instances)
		memset(s->instances + s->n_instances, 0,
		       (n - s->n_instances) * sizeof(*s->instances));
	s->n_instances = n;
}

/* A clock that was ahead when they were written, or a hand, mustn't make an instance wait for years
 * with its IPUs. */
static void mend_times(const struct work *w, struct job_instance *mem)
{
	int64_t now_ms = w->v->now_ms, latest_ms = now_ms + w->v->timing->backoff_max_ms;
	int64_t *const past[] = {&mem->start_ms, &mem->since_ms, &mem->running_ms};

	if (mem->retry_ms > latest_ms)
		mem->retry_ms = latest_ms;
	for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
		if (*past[i] > now_ms + CLOCKS_MS)
			*past[i] = now_ms;
	}
}

/* What counts of a run's times is the last one: a list of thousands has no room for the others,
 * whoever has written them. */
static void forget_times(struct job_instance *mem)
{
	bool ended = mem->phase >= JOB_INSTANCE_SUCCEEDED;

	if (mem->over || ended)
		mem->since_ms = mem->running_ms = 0;
	if (mem->running_ms)
		mem->since_ms = 0;
	if (mem->since_ms || mem->running_ms || ended)
		mem->retry_ms = 0;
}

struct job_status *job_plan_begin_status(struct work *w)
{
	struct job_status *s = &w->out->status;
	const struct job *job = w->job;
	bool resumes = !job->suspend && job_condition_on(&job->status, JOB_SUSPENDED);

	job_status_copy(s, &job->status);
	w->out->has_status = true;
	s->observed_generation = job->generation;
	if (!job->problem) /* else nobody knows */
		s->desired_replicas = (int32_t)job->instances;
	s->selects = true; /* from the next write on */
	if (!job->suspend && (!s->start_ms || resumes))
		s->start_ms = w->v->now_ms;
	if (!job_condition_present(s, JOB_CREATED))
		job_status_mark(s, JOB_CREATED, true, w->v->now_ms, "IPUJobCreated",
				"IPUJob %s/%s is created.", job->ns, job->name);
	if (w->n)
		size_memory(s, w->n);
	for (size_t i = 0; i < w->n; i++) {
		mend_times(w, &s->instances[i]);
		forget_times(&s->instances[i]);
	}
	return s;
}

/* ---- stages ---- */

/* kstatus: whether it gets where it should be, and by itself. */
static void mark_progress(struct work *w, enum job_condition_type stage, const char *message)
{
	struct job_status *s = &w->out->status;
	bool going = stage == JOB_PENDING || stage == JOB_RESTARTING || w->rolling;
	bool stalled = stage == JOB_FAILED || w->unwell;
	const char *reason = job_condition(s, stage)->reason;

	job_status_mark(s, JOB_RECONCILING, going && !stalled, w->v->now_ms, reason, "%s", message);
	job_status_mark(s, JOB_STALLED, stalled, w->v->now_ms,
			stage == JOB_FAILED || !w->out->wait_event ? reason : w->out->wait_event,
			"%s", message);
}

void job_plan_set_stage(struct work *w, enum job_condition_type stage, const char *reason,
			const char *message)
{
	static const char *const frames[JOB_STAGES] = {
		[JOB_PENDING] = "is waiting for resources to be ready",
		[JOB_RUNNING] = "is running.",
		[JOB_RESTARTING] = "is restarting",
		[JOB_SUSPENDED] = "is suspended.",
		[JOB_SUCCEEDED] = "has completed.",
		[JOB_FAILED] = "has failed",
	};
	struct job_status *s = &w->out->status;
	const struct job *job = w->job;
	bool more = stage == JOB_PENDING || stage == JOB_RESTARTING || stage == JOB_FAILED;

	if (w->job->problem)
		job_status_set(s, stage, w->v->now_ms, reason, "%s", message);
	else
		job_status_set(s, stage, w->v->now_ms, reason, "IPUJob %s/%s %s%s%s", job->ns,
			       job->name, frames[stage],
			       !more        ? ""
			       : message[0] ? ": "
					    : ".",
			       more ? message : "");
	job_status_say(s, job_stage_word(stage), "%s",
		       message[0] ? message : "Waiting for resources to be ready");
	mark_progress(w, stage, s->last_message);
}

/* ---- from the instances ---- */

struct sums {
	uint32_t running, ended, failed, restarting, active_partitions;
	const char *failure, *restart; /* of the first instance that has one */
};

static struct sums sum_up(struct work *w)
{
	struct sums sums = {0};

	for (size_t i = 0; i < w->n; i++) {
		const struct gang *g = &w->gangs[i];
		const struct job_instance *mem = g->mem;

		w->partition_active |= g->part->id && (g->part->state == PARTITION_STATE_ACTIVE ||
						       g->part->state == PARTITION_STATE_FAILED);
		if (i >= w->job->instances)
			continue;
		sums.running += g->running_now;
		sums.ended += mem->phase >= JOB_INSTANCE_SUCCEEDED;
		sums.failed += mem->phase == JOB_INSTANCE_FAILED;
		sums.restarting += mem->phase == JOB_INSTANCE_RESTARTING;
		if (mem->phase == JOB_INSTANCE_FAILED && !sums.failure)
			sums.failure = mem->message;
		if (mem->phase == JOB_INSTANCE_RESTARTING && !sums.restart)
			sums.restart = mem->message;
	}
	return sums;
}

/* Of an instance that has ended well, all have succeeded, also those that only waited for their
 * launcher, and those that were cleared away. */
static void count_workers(const struct work *w, struct job_status *s)
{
	uint32_t workers = w->job->workers;
	uint64_t restarts = 0;

	s->active = s->succeeded = s->failed = 0;
	for (size_t i = 0; i < w->n; i++) {
		const struct gang *g = &w->gangs[i];

		if (i < w->job->instances)
			restarts += g->mem->restarts;
		if (g->mem->phase == JOB_INSTANCE_SUCCEEDED) {
			s->succeeded += (int32_t)workers;
			continue;
		}
		if (g->mem->phase == JOB_INSTANCE_FAILED)
			s->failed += (int32_t)g->missing;
		for (uint32_t k = 0; k < workers; k++) {
			const struct job_pod *pod = g->workers[k];

			if (!pod || !job_pod_is_ours(w, pod) || job_pod_is_stale(g, pod))
				continue;
			s->succeeded += pod->phase == JOB_POD_SUCCEEDED;
			s->failed += pod->phase == JOB_POD_FAILED;
			s->active += job_pod_may_run(pod);
		}
	}
	s->restart_count = restarts < INT32_MAX ? (int32_t)restarts : INT32_MAX;
}

static void end(struct work *w, const struct sums *sums)
{
	struct job_status *s = &w->out->status;

	s->completion_ms = w->v->now_ms;
	s->active = 0; /* what may still run is ended now, or waits for a launcher that is gone */
	w->out->wait_event = NULL;
	w->unwell = w->rolling = false;
	if (sums->failed == 0)
		job_plan_set_stage(w, JOB_SUCCEEDED, "IPUJobSucceeded", "All instances done");
	else
		job_plan_set_stage(w, JOB_FAILED, "IPUJobFailed",
				   sums->failure ? sums->failure : "no reason is known");
}

void job_plan_end_status(struct work *w)
{
	struct job_status *s = &w->out->status;
	struct sums sums = sum_up(w);
	const char *wait = w->out->wait_message;
	char message[2048];

	job_status_bound(s);
	count_workers(w, s);
	s->current_replicas = (int32_t)sums.running;
	s->partition_created = w->partition_active;
	if (sums.ended == w->job->instances) {
		end(w, &sums);
	} else if (w->job->suspend) {
		job_plan_set_stage(w, JOB_SUSPENDED, "IPUJobSuspended",
				   wait[0] ? wait : "Suspended");
	} else if (sums.restarting) {
		const char *why = sums.restart ? sums.restart : "";
		bool said = !wait[0] || strstr(wait, why) != NULL;

		snprintf(message, sizeof(message), "%s%s%s", said && wait[0] ? wait : why,
			 said ? "" : "; ", said ? "" : wait);
		job_plan_set_stage(w, JOB_RESTARTING, "IPUJobRestarting", message);
	} else if (sums.running + sums.ended == w->job->instances || (w->rolling && sums.running)) {
		job_plan_set_stage(w, JOB_RUNNING, "IPUJobRunning",
				   wait[0] ? wait
				   : w->rolling
					   ? "Running; the changed template is being rolled out"
					   : "Running");
	} else {
		job_plan_set_stage(w, JOB_PENDING, "IPUJobPending", wait);
	}
}
