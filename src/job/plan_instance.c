/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table "An instance" of doc/design/job-states.md: what its partition, its Pods and what is
 * remembered of it lead to. A pass either changes what is remembered, or acts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/str.h"
#include "job/plan_files.h"
#include "job/plan_groups.h"
#include "job/plan_impl.h"

#define KILLED           137 /* 128 + SIGKILL: of what ended without a word */
#define TERMINATED       143 /* 128 + SIGTERM: as a kubelet begins */
#define CONFLICT_LOOK_MS 30000
#define TTL_GRACE_MS     30000 /* an interactive launcher ends by itself; later it's ended */

void job_plan_say_broken(struct work *w, const struct gang *g)
{
	job_plan_wait(w, partition_why_name(g->part->why), g->part->why, "%s", g->part->message);
}

/* ---- it has ended, or its run has ---- */

/* What a launcher that has ended badly started in its workers ends within a time that is known, if
 * the workers are kept. */
static bool keeps_ipus(struct work *w, struct gang *g)
{
	char until[CLOCK_RFC3339_SIZE];
	bool ranks = false;

	if (g->mem->phase != JOB_INSTANCE_FAILED || g->part->state == PARTITION_STATE_NONE ||
	    g->part->state == PARTITION_STATE_RELEASING)
		return false;
	for (uint32_t k = 0; k < w->job->workers; k++)
		ranks |= g->workers[k] && job_pod_may_have_ranks(w, g->workers[k]);
	if (!ranks)
		return false;
	g->mem->release_ms = job_plan_ranks_end(w, g->mem->release_ms);
	if (w->v->now_ms >= g->mem->release_ms)
		return false;
	job_plan_wake(w, g->mem->release_ms);
	clock_format(g->mem->release_ms, until);
	job_plan_wait(w, NULL, PARTITION_WHY_NONE,
		      "instance %" PRIu32 " has failed; its IPUs are kept until %s, since what its "
		      "launcher started in its workers may still be ending",
		      g->instance, until);
	return true;
}

static void plan_ended(struct work *w, struct gang *g)
{
	if (job_plan_stop(w, g, job_pod_in_use) > 0 || w->job->keeps_partitions ||
	    job_plan_misfit_in_use(w, g->instance) || keeps_ipus(w, g))
		return;
	job_plan_release(w, g);
}

/* Which one it is, where there are several, and how its run has ended: "instance 1: WHY; ". */
static void say_end(const struct work *w, const struct gang *g, char *z, size_t size)
{
	const char *why = g->mem->message ? g->mem->message : "";

	z[0] = '\0';
	if (w->job->instances > 1 || w->rolling)
		snprintf(z, size, "instance %" PRIu32 ": ", g->instance);
	if (why[0])
		snprintf(z + strlen(z), size - strlen(z), "%s; ", why);
}

static void plan_over(struct work *w, struct gang *g)
{
	char end[640];

	say_end(w, g, end, sizeof(end));
	if (job_plan_stop(w, g, NULL) > 0 || job_plan_misfit_in_use(w, g->instance)) {
		job_plan_wait(w, NULL, PARTITION_WHY_NONE, "%swaiting for its Pods to end", end);
		return;
	}
	if ((g->mem->yields || w->job->suspend) && g->part->state != PARTITION_STATE_NONE) {
		job_plan_release(w, g);
		job_plan_wait(w, NULL, PARTITION_WHY_NONE, "%swaiting for its IPUs to be released",
			      end);
		return;
	}
	if (!w->job->suspend)
		job_run_next(g);
}

static void plan_suspended(struct work *w, struct gang *g)
{
	if (g->there || g->stale || g->mem->complete) {
		job_run_renew(g, true, NULL);
		g->mem->start_ms = 0;
		return;
	}
	g->mem->phase = JOB_INSTANCE_WAITING;
	g->mem->retry_ms = g->mem->start_ms = g->mem->since_ms = 0;
	g->mem->tries = 0;
	if (job_plan_misfit_in_use(w, g->instance))
		job_plan_wait(w, NULL, PARTITION_WHY_NONE, "waiting for its Pods to end");
	else
		job_plan_release(w, g);
}

void job_plan_outgrown(struct work *w, struct gang *g)
{
	/* If the job had it again, that its Pods are gone would be its failure: forgotten first. */
	g->mem->complete = false;
	if (job_memory(w->job, g->instance)->complete && g->there)
		return;
	if (job_plan_stop(w, g, NULL) > 0 || job_plan_misfit_in_use(w, g->instance))
		return;
	job_plan_release(w, g);
	intern_drop(g->mem->message);
	*g->mem = (struct job_instance){0};
}

/* ---- how its run ends ---- */

static void end_by_pod(struct work *w, struct gang *g)
{
	const struct job_pod *pod = g->failed;

	/* A kubelet ends what is deleted before it goes; how it ended is only what followed. */
	if (pod->deleting && pod->exit_code == TERMINATED)
		job_run_failed(w, g, pod->exit_code, false, "Pod %s was deleted before it ended",
			       pod->name);
	else
		job_run_failed(w, g, pod->exit_code, false, "Pod %s failed: %s", pod->name,
			       pod->message ? pod->message : "no reason is known");
}

static void end_by_loss(struct work *w, struct gang *g)
{
	CLEANUP_FREE char *name = NULL;
	uint32_t k = 0;

	if (job_has_launcher(w->job) && !g->launcher) {
		name = job_launcher_name(w->job, g->instance);
		job_run_failed(w, g, KILLED, false, "launcher Pod %s was deleted before it ended",
			       name);
		return;
	}
	while (k + 1 < w->job->workers && g->workers[k])
		k++;
	name = job_worker_name(w->job, g->instance, k);
	if (g->missing > 1)
		job_run_failed(w, g, KILLED, false,
			       "worker Pod %s and %" PRIu32 " more were deleted before they ended",
			       name, g->missing - 1);
	else
		job_run_failed(w, g, KILLED, false, "worker Pod %s was deleted before it ended",
			       name);
}

/* Its Pods say that the run is over. True: it's remembered now. */
static bool find_end(struct work *w, struct gang *g)
{
	bool has_launcher = job_has_launcher(w->job);
	const struct job_pod *launcher = g->launcher;

	if (has_launcher && launcher && job_pod_is_ours(w, launcher) &&
	    launcher->phase == JOB_POD_SUCCEEDED)
		job_run_succeeded(w, g);
	else if (g->preempted && g->mem->complete)
		job_run_renew(g, true, "Kueue needs its place for others");
	else if (g->failed)
		end_by_pod(w, g);
	else if (g->early)
		job_run_failed(w, g, 0, false, "Pod %s has ended before its launcher",
			       g->early->name);
	else if (!has_launcher && g->succeeded == w->job->workers)
		job_run_succeeded(w, g);
	else if (g->stuck)
		job_run_failed(w, g, KILLED, true,
			       "Pod %s is in deletion, and its node doesn't answer",
			       g->stuck->name);
	else if (g->mem->complete && !g->stale && (g->missing || (has_launcher && !launcher)))
		end_by_loss(w, g);
	else
		return false;
	return true;
}

/* A session's time counts from Running: for the queue its partition was asked for with its ttl as
 * deadline, which isn't one to fail by. */
static int64_t deadline_of(const struct work *w, const struct gang *g)
{
	int64_t own_ms = w->job->deadline_ms, policy_ms = g->part->deadline_ms;

	if (!own_ms && w->job->interactive)
		return 0;
	return own_ms ? own_ms : policy_ms;
}

/* Its time is up. True: it's remembered now. */
static bool find_time_out(struct work *w, struct gang *g)
{
	int64_t deadline_ms = deadline_of(w, g), now_ms = w->v->now_ms;
	int64_t ttl_ms = w->job->interactive ? w->job->ttl_ms + TTL_GRACE_MS : 0;

	if (deadline_ms && g->mem->start_ms) {
		if (now_ms >= g->mem->start_ms + deadline_ms) {
			job_run_given_up(w, g,
					 "DeadlineExceeded: it has had its IPUs for %" PRId64
					 " seconds, the longest time that it may",
					 deadline_ms / 1000);
			return true;
		}
		job_plan_wake(w, g->mem->start_ms + deadline_ms);
	}
	if (ttl_ms && g->mem->running_ms) {
		if (now_ms >= g->mem->running_ms + ttl_ms) {
			job_run_succeeded(w, g);
			return true;
		}
		job_plan_wake(w, g->mem->running_ms + ttl_ms);
	}
	return false;
}

/* Who may be restarted moves away from a controller that is being emptied. */
static bool find_move(struct work *w, struct gang *g)
{
	char why[512];

	if (!g->part->draining ||
	    (w->job->restart != JOB_RESTART_ALWAYS && w->job->restart != JOB_RESTART_ON_FAILURE))
		return false;
	snprintf(why, sizeof(why), "V-IPU controller %s is being emptied: it moves to another",
		 g->part->controller ? g->part->controller : "");
	job_run_renew(g, true, why);
	return true;
}

/* ---- Pods that don't start ---- */

static void await_start(struct work *w, struct gang *g, bool counts, const char *event,
			const char *why)
{
	int64_t patience_ms = w->job->start_deadline_ms ? w->job->start_deadline_ms
							: w->v->timing->start_deadline_ms;

	job_plan_wait(w, event, PARTITION_WHY_NONE, "%s", why);
	if (!g->mem->since_ms || !patience_ms)
		return;
	if (w->v->now_ms >= g->mem->since_ms + patience_ms)
		job_run_unstartable(w, g, counts, why);
	else
		job_plan_wake(w, g->mem->since_ms + patience_ms);
}

/* What the API server has said no to. Nobody tells when a name that is taken comes free. */
void job_plan_await_mending(struct work *w, struct gang *g)
{
	if (w->v->trouble_event && strcmp(w->v->trouble_event, "NameConflict") == 0) {
		w->unwell = true;
		job_plan_wake(w, w->v->now_ms + CONFLICT_LOOK_MS);
	}
	await_start(w, g, true, w->v->trouble_event, w->v->trouble);
}

static void await_pod(struct work *w, struct gang *g, const struct job_pod *pod)
{
	char why[512];

	snprintf(why, sizeof(why), "Pod %s: %s", pod->name,
		 pod->message ? pod->message : "it doesn't start");
	if (pod->deleting)
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "waiting for Pod %s, in deletion, to end", pod->name);
	else if (pod->fault)
		await_start(w, g, pod->fault == JOB_POD_FAULT_OWN, "PodNotStarting", why);
	else if (pod->phase == JOB_POD_UNKNOWN)
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "Pod %s: its node doesn't answer, and it may run", pod->name);
}

/* ---- Pods are wanted ---- */

bool job_plan_is_for_this_run(const struct gang *g)
{
	return g->part->ask && g->part->ask->attempt == g->mem->run;
}

/* What was asked for isn't what the job wants now: only where no Pod uses it. */
bool job_plan_wants_otherwise(const struct work *w, const struct gang *g)
{
	struct partition_ask ask = job_ask(w->job, g->instance);

	return g->part->ask &&
	       (!partition_ask_same_need(g->part->ask, &ask) || !job_plan_is_for_this_run(g));
}

/* Before Pods: the ConfigMap that they mount. True: they find what they need. */
bool job_plan_files(struct work *w, const struct gang *g)
{
	const struct job_files *files;

	switch (job_files_look_at(w->v, g->instance, &files)) {
	case JOB_FILES_READY:
		return true;
	case JOB_FILES_COMING:
		job_plan_wait(w, g->part->why ? partition_why_name(g->part->why) : NULL,
			      g->part->why, "%s",
			      g->part->message[0] ? g->part->message
						  : "waiting for the IPUoF configuration");
		return false;
	case JOB_FILES_CONFLICT:
		job_plan_wait(w, "NameConflict", PARTITION_WHY_NONE,
			      "ConfigMap %s exists and isn't this job's: remove it, or give the "
			      "job another name",
			      files->name);
		return false;
	default:
		job_plan_add(w, JOB_WRITE_FILES, g->instance)->files = files;
		return false;
	}
}

/* Before Pods: the PodGroup that they belong to. True: it's there, or there is to be none. */
static bool plan_group(struct work *w, const struct gang *g)
{
	const struct job_group *group;

	switch (job_group_look_at(w->v, g->instance, &group)) {
	case JOB_GROUP_READY:
		return true;
	case JOB_GROUP_COMING:
		job_plan_wait(w, NULL, PARTITION_WHY_NONE, "waiting for its PodGroup");
		return false;
	case JOB_GROUP_CONFLICT:
		w->unwell = true;
		job_plan_wait(w, "NameConflict", PARTITION_WHY_NONE,
			      "PodGroup %s exists and isn't this job's: remove it, or give the "
			      "job another name",
			      group->name);
		return false;
	case JOB_GROUP_OLD:
		job_plan_add(w, JOB_DELETE_GROUP, g->instance)->group = group;
		return false;
	default:
		job_plan_add(w, JOB_CREATE_GROUP, g->instance);
		return false;
	}
}

static void create_launcher(struct work *w, struct gang *g)
{
	if (g->ready < w->job->workers) {
		if (g->waiting)
			await_pod(w, g, g->waiting);
		job_plan_wait(w, NULL, PARTITION_WHY_NONE, "waiting for its workers to be Ready");
	} else if (w->v->configured && w->v->supported > g->instance) {
		job_plan_add(w, JOB_CREATE_LAUNCHER, g->instance);
	}
}

/* A Role for Pods that might be somebody else's would be a way into them: it names the workers of
 * instances only that have had all of them. */
static uint32_t count_covered(const struct work *w)
{
	uint32_t n = 0;

	while (n < w->job->instances) {
		const struct gang *g = &w->gangs[n];
		bool had = g->mem->run || g->mem->complete ||
			   g->mem->phase >= JOB_INSTANCE_SUCCEEDED;

		if (g->conflict || (g->missing && !had))
			break;
		n++;
	}
	return n;
}

static void plan_support(struct work *w, struct gang *g)
{
	uint32_t covered = g->missing ? 0 : count_covered(w);

	if (!w->v->configured || (covered > g->instance && w->v->supported <= g->instance))
		job_plan_add(w, JOB_WRITE_SUPPORT, covered);
	else if (!g->missing && covered <= g->instance)
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "instance %" PRIu32 " waits with its launcher for the workers of "
			      "instance %" PRIu32,
			      g->instance, covered);
}

/* It backs off. */
static void await_retry(struct work *w, const struct gang *g)
{
	char at[CLOCK_RFC3339_SIZE];

	job_plan_wake(w, g->mem->retry_ms);
	clock_format(g->mem->retry_ms, at);
	job_plan_wait(w, NULL, PARTITION_WHY_NONE, "the next try begins at %s", at);
}

/* The partition is active, and some Pod hasn't been made. */
static void plan_missing(struct work *w, struct gang *g)
{
	if (g->there == 0 && job_plan_wants_otherwise(w, g)) {
		job_plan_add(w, JOB_ENSURE, g->instance);
		return;
	}
	if (w->v->now_ms < g->mem->retry_ms) {
		await_retry(w, g);
		return;
	}
	if (w->v->trouble)
		job_plan_await_mending(w, g);
	/* Patience is at an end: what follows from it is the next pass's. */
	if (g->mem->over || g->mem->phase == JOB_INSTANCE_FAILED)
		return;
	if (!job_plan_files(w, g) || !plan_group(w, g))
		return;
	if (job_has_launcher(w->job))
		plan_support(w, g);
	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (!g->workers[k])
			job_plan_add(w, JOB_CREATE_POD, g->instance)->worker = k;
	}
	if (!g->missing)
		create_launcher(w, g);
}

/* All are there, and none has failed. */
static void plan_going_on(struct work *w, struct gang *g)
{
	struct job_instance *mem = g->mem;

	if (g->part->state == PARTITION_STATE_FAILED && g->part->id)
		job_plan_say_broken(w, g);
	else if (g->part->draining)
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "V-IPU controller %s is being emptied: this job should end or move",
			      g->part->controller ? g->part->controller : "");
	if (g->waiting) {
		await_pod(w, g, g->waiting);
		return;
	}
	g->running_now = true;
	mem->phase = JOB_INSTANCE_RUNNING;
	mem->retry_ms = mem->since_ms = 0;
	mem->tries = 0;
	if (!mem->running_ms)
		mem->running_ms = w->v->now_ms;
}

static bool is_missing_some(const struct work *w, const struct gang *g)
{
	return g->missing || (job_has_launcher(w->job) && !g->launcher);
}

void job_plan_note_start(const struct work *w, struct gang *g)
{
	struct job_instance *mem = g->mem;

	mem->start_ms = mem->start_ms ? mem->start_ms : w->v->now_ms;
	if (mem->since_ms || mem->running_ms || w->v->now_ms < mem->retry_ms)
		return;
	mem->since_ms = w->v->now_ms;
	mem->retry_ms = 0;
}

static void note_start(const struct work *w, struct gang *g)
{
	if (job_plan_is_for_this_run(g) || g->there)
		job_plan_note_start(w, g);
}

static void plan_active(struct work *w, struct gang *g)
{
	note_start(w, g);
	if (is_missing_some(w, g)) {
		plan_missing(w, g);
		return;
	}
	g->mem->complete = true;
	plan_going_on(w, g);
}

/* In PS_ERROR: nobody starts on it; who runs goes on until its Pods end by themselves. */
static void plan_broken(struct work *w, struct gang *g)
{
	if (!is_missing_some(w, g)) {
		g->mem->complete = true;
		plan_going_on(w, g);
		return;
	}
	if (job_plan_stop(w, g, NULL) == 0 && !job_plan_misfit_in_use(w, g->instance))
		job_plan_release(w, g);
	job_plan_say_broken(w, g);
}

/* Nothing is asked for: it hasn't begun, or the tracker has lost it. */
static void plan_unasked(struct work *w, struct gang *g)
{
	if (g->missing && g->there) {
		job_plan_stop(w, g, NULL);
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "waiting for Pods of an earlier partition to end");
		return;
	}
	if (g->missing) {
		if (w->v->now_ms >= g->mem->retry_ms)
			job_plan_add(w, JOB_ENSURE, g->instance);
		else
			await_retry(w, g);
		return;
	}
	if (g->on && g->part->state == PARTITION_STATE_NONE)
		job_plan_add(w, JOB_ADOPT, g->instance)->pod = g->on;
	if (!is_missing_some(w, g)) {
		g->mem->complete = true;
		plan_going_on(w, g);
	}
}

static void plan_vanished(struct work *w, struct gang *g)
{
	if (g->there || g->mem->complete) {
		job_run_failed(w, g, KILLED, true, "%s", g->part->message);
		return;
	}
	job_plan_release(w, g);
	job_plan_wait(w, "PartitionVanished", g->part->why, "%s", g->part->message);
}

/* Asked for, and not to be had yet. */
static void plan_waiting(struct work *w, struct gang *g)
{
	const struct partition_status *part = g->part;

	if (g->there == 0 && (job_plan_wants_otherwise(w, g) ||
			      (part->ask && part->ask->priority != w->job->priority)))
		job_plan_add(w, JOB_ENSURE, g->instance);
	if (part->adopted && g->live && !is_missing_some(w, g)) {
		plan_going_on(w, g); /* its Pods run while it's being recorded */
		return;
	}
	if (part->message[0])
		job_plan_wait(w, partition_why_name(part->why), part->why, "%s", part->message);
	else if (part->state == PARTITION_STATE_RESETTING)
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "waiting for partition %s to have been reset",
			      part->id ? part->id : "");
}

static void plan_by_partition(struct work *w, struct gang *g)
{
	switch (g->part->state) {
	case PARTITION_STATE_NONE:
	case PARTITION_STATE_RELEASING:
		plan_unasked(w, g);
		break;
	case PARTITION_STATE_FAILED:
		if (g->part->id)
			plan_broken(w, g);
		else
			plan_vanished(w, g);
		break;
	case PARTITION_STATE_ACTIVE:
		plan_active(w, g);
		break;
	default:
		if (g->part->adopting)
			plan_unasked(w, g);
		else
			plan_waiting(w, g);
	}
}

/* Somebody else's Pod has a name that it needs; IPUs aren't held for ever because of that. */
static void plan_conflict(struct work *w, struct gang *g)
{
	char why[512];

	if (find_time_out(w, g))
		return;
	if (g->mem->complete) {
		job_run_failed(w, g, KILLED, false, "the name of Pod %s is somebody else's now",
			       g->conflict->name);
		return;
	}
	w->unwell = true;
	snprintf(why, sizeof(why),
		 "Pod %s exists and isn't this job's: remove it, or give the job another name",
		 g->conflict->name);
	if (g->part->state == PARTITION_STATE_ACTIVE)
		note_start(w, g);
	await_start(w, g, false, "NameConflict", why);
}

/* Until all have been there, one in deletion is nobody's failure, but in the way; and if it had its
 * IPUs, they are reset before others use them. */
static void plan_leaving(struct work *w, struct gang *g)
{
	job_plan_wait(w, NULL, PARTITION_WHY_NONE, "waiting for a Pod in deletion to end");
	if (g->part->state == PARTITION_STATE_ACTIVE)
		job_run_renew(g, false, "a Pod of it was deleted before all of them were there");
}

/* The same, and nobody saw it in deletion. */
static bool has_lost(const struct gang *g)
{
	return !g->mem->complete && g->lost && g->part->state == PARTITION_STATE_ACTIVE &&
	       job_plan_is_for_this_run(g);
}

static void plan_living(struct work *w, struct gang *g)
{
	if (g->conflict) {
		plan_conflict(w, g);
		return;
	}
	if (!g->mem->complete && g->leaving && !g->stuck) {
		plan_leaving(w, g);
		return;
	}
	if (has_lost(g)) {
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "a Pod has gone before all of them were there");
		job_run_renew(g, false, "a Pod of it was deleted before all of them were there");
		return;
	}
	if (find_end(w, g) || find_time_out(w, g) || find_move(w, g))
		return;
	if (g->stale) {
		job_plan_stop_stale(w, g);
		job_plan_wait(w, NULL, PARTITION_WHY_NONE,
			      "waiting for Pods of an earlier partition to end");
		return;
	}
	if (!w->job->queue_name || !job_plan_queue(w, g))
		plan_by_partition(w, g);
}

void job_plan_instance(struct work *w, struct gang *g)
{
	struct job_instance *mem = g->mem;

	if (mem->phase == JOB_INSTANCE_SUCCEEDED || mem->phase == JOB_INSTANCE_FAILED) {
		plan_ended(w, g);
		return;
	}
	if (mem->over) {
		plan_over(w, g);
		return;
	}
	if (w->job->suspend) {
		plan_suspended(w, g);
		return;
	}
	plan_living(w, g);
	if (!g->running_now && mem->phase == JOB_INSTANCE_RUNNING)
		mem->phase = JOB_INSTANCE_WAITING;
}
