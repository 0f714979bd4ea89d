/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table "The job" of doc/design/job-states.md as a function: first the job as a whole, then
 * each instance (plan_instance.c), then the status that follows (plan_status.c). Pure: everything
 * it knows comes in the view.
 */
#include "job/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "job/plan_files.h"
#include "job/plan_groups.h"
#include "job/plan_impl.h"
#include "job/rollout.h"
#include "job/status.h"

#define DELETION_SAID_MS 5000             /* of what takes longer */
#define RELEASE_DELAYED  "ReleaseDelayed" /* reason of Stalled, and of an Event */

struct job_action *job_plan_add(struct work *w, enum job_action_kind kind, uint32_t instance)
{
	struct job_action *a = job_plan_act(w->out, kind);

	a->instance = instance;
	return a;
}

void job_plan_wait(struct work *w, const char *event, enum partition_why why, const char *fmt, ...)
{
	char words[1024];
	va_list ap;

	if (w->out->wait_message[0])
		return;
	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	job_status_clean(words, sizeof(w->out->wait_message) - 1);
	memcpy(w->out->wait_message, words, strlen(words) + 1);
	w->out->wait_event = event;
	w->out->waits = why;
}

void job_plan_wake(struct work *w, int64_t at_ms)
{
	if (at_ms > w->v->now_ms && (!w->out->next_ms || at_ms < w->out->next_ms))
		w->out->next_ms = at_ms;
}

/* ---- the whole job's Pods ---- */

/* Those of ours that `which` wants: deleted if they aren't yet. Returns how many there still are;
 * ret_stuck: how many of them nobody will end. */
static size_t stop_pods(struct work *w, job_pod_test *which, size_t *ret_stuck)
{
	size_t n = 0;

	*ret_stuck = 0;
	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];

		if (!job_pod_is_ours(w, pod) || (which && !which(w, pod)))
			continue;
		n++;
		if (!pod->deleting)
			job_plan_add(w, JOB_DELETE_POD, 0)->pod = pod;
		else if (!job_pod_is_stuck(w, pod))
			continue;
		else if (++*ret_stuck && w->v->held == 0)
			job_plan_add(w, JOB_KILL_POD, 0)->pod = pod;
	}
	return n;
}

/* Its IPUs may go: nothing runs on them, or only what nobody reaches. */
static bool may_release(struct work *w, job_pod_test *which)
{
	size_t stuck, n = stop_pods(w, which, &stuck);

	return n == stuck;
}

/* ---- the job is to go, or has ended ---- */

/* The first partition that can't be released, and what is said of it. */
static const struct partition_status *find_delayed(const struct work *w)
{
	for (size_t i = 0; i < w->v->n_partitions; i++) {
		const struct partition_status *part = &w->v->partitions[i];

		if (part->state == PARTITION_STATE_RELEASING && part->message[0])
			return part;
	}
	return NULL;
}

static void plan_release_all(struct work *w)
{
	const struct partition_status *delayed = find_delayed(w);

	job_plan_add(w, w->job->force_release && w->job->deleting ? JOB_ABANDON : JOB_RELEASE_ALL,
		     0);
	if (!delayed)
		return;
	if (!w->out->has_status) {
		job_status_copy(&w->out->status, &w->job->status);
		w->out->has_status = true;
	}
	job_status_mark(&w->out->status, JOB_STALLED, true, w->v->now_ms, RELEASE_DELAYED, "%s",
			delayed->message);
	/* Of a job that has ended, the last word is how. */
	if (w->job->deleting)
		job_status_say(&w->out->status, w->job->status.launcher_status, "%s",
			       delayed->message);
}

/* A deletion that takes longer says what it waits for. */
static void say_deletion(struct work *w)
{
	const struct job *job = w->job;
	const char *first = NULL;
	size_t n = 0;

	if (!job->deletion_ms || find_delayed(w))
		return;
	if (w->v->now_ms < job->deletion_ms + DELETION_SAID_MS) {
		job_plan_wake(w, job->deletion_ms + DELETION_SAID_MS);
		return;
	}
	for (size_t i = 0; i < w->v->n_pods; i++) {
		if (!job_pod_is_ours(w, w->v->pods[i]))
			continue;
		first = n++ ? first : w->v->pods[i]->name;
	}
	if (n > 1)
		job_plan_wait(w, "DeletionWaiting", PARTITION_WHY_NONE,
			      "in deletion; waiting for Pod %s and %zu more to end", first, n - 1);
	else if (n == 1)
		job_plan_wait(w, "DeletionWaiting", PARTITION_WHY_NONE,
			      "in deletion; waiting for Pod %s to end", first);
	else if (w->v->held > 0)
		job_plan_wait(w, "DeletionWaiting", PARTITION_WHY_NONE,
			      "in deletion; waiting for its IPUs to be released");
	else
		return;
	job_status_copy(&w->out->status, &job->status);
	w->out->has_status = true;
	job_status_say(&w->out->status, job->status.launcher_status, "%s", w->out->wait_message);
}

/* It says that it has IPUs, and nobody knows of any: the tracker lost them while nobody was there.
 * What its Pods say they had is looked for, once: then it's held, and goes as it would have gone.
 * True: a claim is made. */
static bool plan_claims(struct work *w)
{
	size_t n = w->v->n_partitions;
	CLEANUP_FREE bool *claimed = NULL;
	size_t before = w->out->n_actions;

	if (!w->v->first || w->v->held > 0 || !w->job->status.partition_created)
		return false;
	claimed = xcalloc(n + 1, sizeof(*claimed));
	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];

		if (!job_pod_is_ours(w, pod) || !pod->partition || pod->instance < 0 ||
		    (size_t)pod->instance >= n || claimed[pod->instance])
			continue;
		claimed[pod->instance] = true;
		job_plan_add(w, JOB_CLAIM, (uint32_t)pod->instance)->pod = pod;
	}
	return w->out->n_actions > before;
}

static void plan_deletion(struct work *w)
{
	bool empty;

	if (!w->job->has_finalizer || plan_claims(w))
		return;
	say_deletion(w);
	if (!may_release(w, NULL))
		return;
	empty = w->out->n_actions == 0; /* of Pods */
	if (w->v->held > 0)
		plan_release_all(w);
	else if (empty)
		job_plan_add(w, JOB_REMOVE_FINALIZER, 0);
}

static bool is_a_worker(const struct work *w, const struct job_pod *pod)
{
	(void)w;
	return !pod->launcher;
}

/* cleanPodPolicy. */
static void clean_pods(struct work *w)
{
	size_t stuck;

	if (w->job->clean == JOB_CLEAN_ALL)
		stop_pods(w, NULL, &stuck);
	else if (w->job->clean == JOB_CLEAN_WORKERS)
		stop_pods(w, is_a_worker, &stuck);
}

/* How the job failed, without what was said of its IPUs. */
static const char *failure_of(const struct job *job)
{
	for (uint32_t i = 0; i < job->status.n_instances; i++) {
		const struct job_instance *mem = job_memory(job, i);

		if (mem->phase == JOB_INSTANCE_FAILED && mem->message)
			return mem->message;
	}
	return "no reason is known";
}

/* What a launcher that has ended badly started in its workers, which are kept, may still be ending:
 * for how long at most is remembered, and said. */
static bool ranks_may_run(struct work *w)
{
	int64_t last_ms = 0;
	char until[CLOCK_RFC3339_SIZE];

	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];
		const struct job_instance *mem;
		int64_t end_ms;

		if (pod->instance < 0 || pod->instance > UINT32_MAX)
			continue;
		mem = job_memory(w->job, (uint32_t)pod->instance);
		if (mem->phase != JOB_INSTANCE_FAILED || !job_pod_may_have_ranks(w, pod))
			continue;
		end_ms = job_plan_ranks_end(w, mem->release_ms);
		last_ms = end_ms > last_ms ? end_ms : last_ms;
		if (end_ms == mem->release_ms || end_ms <= w->v->now_ms)
			continue;
		if (!w->out->has_status)
			job_status_copy(&w->out->status, &w->job->status);
		w->out->has_status = true;
		w->out->status.instances[pod->instance].release_ms = end_ms;
	}
	if (last_ms <= w->v->now_ms)
		return false;
	job_plan_wake(w, last_ms);
	clock_format(last_ms, until);
	if (w->out->has_status)
		job_status_say(&w->out->status, w->job->status.launcher_status,
			       "%s; its IPUs are kept until %s, since what its launcher started in "
			       "its workers may still be ending",
			       failure_of(w->job), until);
	return true;
}

/* Nothing is held any more, and nothing delays that. */
static void say_released(struct work *w)
{
	const struct job_condition *stalled = job_condition(&w->job->status, JOB_STALLED);
	const struct job_condition *failed = job_condition(&w->job->status, JOB_FAILED);
	bool delayed = stalled->on && str_eqz(str_of(stalled->reason), RELEASE_DELAYED);

	if (!w->job->status.partition_created && !delayed)
		return;
	job_status_copy(&w->out->status, &w->job->status);
	w->out->status.partition_created = false;
	w->out->has_status = true;
	if (failed->on && job_has_launcher(w->job))
		job_status_say(&w->out->status, w->job->status.launcher_status, "%s",
			       failure_of(w->job));
	if (delayed)
		job_status_mark(&w->out->status, JOB_STALLED, failed->on, w->v->now_ms,
				failed->on ? failed->reason : "IPUJobSucceeded", "%s",
				w->out->status.last_message ? w->out->status.last_message : "");
}

/* Kept partitions stay, but for what was claimed and isn't there. */
static void release_vanished(struct work *w)
{
	for (size_t i = 0; i < w->v->n_partitions; i++) {
		const struct partition_status *part = &w->v->partitions[i];

		if (part->state == PARTITION_STATE_FAILED && !part->id)
			job_plan_add(w, JOB_RELEASE, (uint32_t)i);
	}
}

static void plan_finished(struct work *w)
{
	const struct job *job = w->job;

	if (plan_claims(w))
		return;
	if (job->finished_ttl_ms >= 0) {
		int64_t due_ms = job->status.completion_ms + job->finished_ttl_ms;

		if (w->v->now_ms >= due_ms) {
			job_plan_add(w, JOB_DELETE_JOB, 0);
			return;
		}
		job_plan_wake(w, due_ms);
	}
	if (!may_release(w, job_pod_in_use))
		return;
	clean_pods(w);
	if (w->v->held > 0) {
		if (job->keeps_partitions)
			release_vanished(w);
		else if (!ranks_may_run(w))
			plan_release_all(w);
	} else {
		say_released(w);
	}
}

/* ---- the job isn't run as it is written ---- */

static bool may_run(const struct work *w, const struct job_pod *pod)
{
	(void)w;
	return job_pod_may_run(pod);
}

/* Pods that there are go on, IPUs that nobody uses are given back: after workers that have no
 * launcher any more. */
static void plan_rest(struct work *w)
{
	size_t live = 0;

	for (size_t i = 0; i < w->v->n_pods; i++)
		live += job_pod_is_ours(w, w->v->pods[i]) && job_pod_in_use(w, w->v->pods[i]);
	if (live == 0 && w->v->held > 0 && may_release(w, may_run))
		job_plan_add(w, JOB_RELEASE_ALL, 0);
	w->out->status.partition_created &= w->v->held > 0;
	w->out->status.current_replicas = 0;
}

static void plan_broken(struct work *w)
{
	job_plan_begin_status(w);
	plan_rest(w);
	job_plan_set_stage(w, JOB_FAILED, "InvalidSpec", w->job->problem);
}

static void plan_unsupported(struct work *w)
{
	job_plan_begin_status(w);
	plan_rest(w);
	job_plan_wait(w, "NotSupported", PARTITION_WHY_NONE, "%s", w->v->unsupported);
	job_plan_set_stage(w, JOB_PENDING, "IPUJobPending", w->v->unsupported);
}

static bool has_ended(const struct job *job)
{
	return job->status.completion_ms != 0 && (job_condition_on(&job->status, JOB_SUCCEEDED) ||
						  job_condition_on(&job->status, JOB_FAILED));
}

/* Its partitions, taken over, stay until it has ended or is deleted. */
static void plan_older(struct work *w)
{
	const char *word = w->job->status.launcher_status;
	bool ended = word && (strcmp(word, job_stage_word(JOB_SUCCEEDED)) == 0 ||
			      strcmp(word, job_stage_word(JOB_FAILED)) == 0);

	if (ended && w->v->held > 0)
		job_plan_add(w, JOB_RELEASE_ALL, 0);
}

/* ---- its instances ---- */

static int64_t starved_since(const struct gang *g)
{
	const struct partition_status *part = g->part;

	if (part->state != PARTITION_STATE_WAITING ||
	    (part->why != PARTITION_WHY_NO_ROOM && part->why != PARTITION_WHY_QUEUED &&
	     part->why != PARTITION_WHY_QUOTA))
		return 0;
	return part->since_ms ? part->since_ms : 1;
}

/* Where processes are started in the workers, a run isn't interrupted for a template, unless the
 * user has written Recreate. */
static bool rolls(const struct job *job)
{
	return !job->suspend && (job->strategy == JOB_RECREATE || !job_has_launcher(job));
}

/* Ends the runs that a changed template replaces now. Returns how many instances there should be.
 */
static size_t plan_rollout(struct work *w)
{
	const struct job *job = w->job;
	struct rollout_instance *items = xcalloc(w->n + 1, sizeof(*items));
	bool *replace = xcalloc(w->n + 1, sizeof(*replace));
	struct rollout_view view = {
		.strategy = job->strategy,
		.wanted = job->instances,
		.max_surge = job->max_surge,
		.max_unavailable = job->max_unavailable,
		.items = items,
		.n = w->n,
		.now_ms = w->v->now_ms,
	};
	struct rollout_plan plan;

	for (size_t i = 0; i < w->n; i++) {
		const struct gang *g = &w->gangs[i];

		items[i] = (struct rollout_instance){
			.ended = g->mem->phase >= JOB_INSTANCE_SUCCEEDED,
			.outdated = g->outdated,
			.going = g->mem->over,
			.available = !g->mem->over && g->ready == job->workers,
			.starved_ms = starved_since(g),
		};
	}
	rollout_plan(&view, replace, &plan);
	w->rolling = plan.going_on || plan.surge > 0;
	if (plan.next_ms)
		job_plan_wake(w, plan.next_ms);
	for (size_t i = 0; i < w->n; i++) {
		if (replace[i])
			job_run_renew(&w->gangs[i], false, "its template has changed");
	}
	free(items);
	free(replace);
	return job->instances + plan.surge;
}

/* Something is held that none of its present instances has. */
static bool holds_more(const struct work *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += w->gangs[i].part->state != PARTITION_STATE_NONE;
	return w->v->held > n;
}

/* Of an instance that the job has no more: as with one that it has outgrown, what is remembered is
 * forgotten first. */
static bool is_remembered(const struct work *w, const struct job_pod *pod)
{
	return pod->instance >= 0 && (size_t)pod->instance >= w->n &&
	       job_memory(w->job, (uint32_t)pod->instance)->complete;
}

/* What the job has outgrown: Pods that it needs no more, then what was asked for them. */
static void plan_surplus(struct work *w, size_t wanted)
{
	for (size_t i = 0; i < w->n_misfits; i++) {
		const struct job_pod *pod = w->misfits[i];

		if (!pod->deleting && !is_remembered(w, pod))
			job_plan_add(w, JOB_DELETE_POD, 0)->pod = pod;
		else if (job_pod_is_stuck(w, pod) && !holds_more(w))
			job_plan_add(w, JOB_KILL_POD, 0)->pod = pod;
	}
	for (size_t i = wanted; i < w->n; i++)
		job_plan_outgrown(w, &w->gangs[i]);
	for (size_t i = 0; i < w->v->n_surplus; i++) {
		if (!job_plan_misfit_in_use(w, w->v->surplus[i]))
			job_plan_add(w, JOB_RELEASE, w->v->surplus[i]);
	}
}

static void plan_instances(struct work *w)
{
	size_t wanted;

	w->n = w->v->n_partitions;
	job_plan_begin_status(w);
	job_plan_gangs(w);
	wanted = rolls(w->job) ? plan_rollout(w) : w->job->instances;
	for (size_t i = 0; i < wanted && i < w->n; i++) {
		/* Whose run ends in this pass is looked at in the next one. */
		if (w->gangs[i].mem->over == job_memory(w->job, (uint32_t)i)->over)
			job_plan_instance(w, &w->gangs[i]);
	}
	plan_surplus(w, wanted);
	job_plan_end_status(w);
	job_plan_gangs_done(w);
}

/* ---- the job ---- */

void job_plan(const struct job_view *view, struct job_plan *ret)
{
	const struct job *job = view->job;
	struct work w = {.v = view, .job = job, .out = ret};

	*ret = (struct job_plan){0};
	if (job->deleting) {
		plan_deletion(&w);
	} else if (view->older || job->managed_by) {
		plan_older(&w);
	} else if (has_ended(job)) {
		plan_finished(&w);
	} else if (job->problem) {
		plan_broken(&w);
	} else if (view->unsupported) {
		plan_unsupported(&w);
	} else if (!job->has_finalizer) {
		job_plan_add(&w, JOB_ADD_FINALIZER, 0);
	} else {
		plan_instances(&w);
	}
	if (!job->deleting && job->has_finalizer) {
		job_plan_clear_files(view, ret);
		job_plan_clear_groups(view, ret);
	}
	job_plan_leave_queue(&w);
}

void job_plan_done(struct job_plan *plan)
{
	free(plan->actions);
	job_status_done(&plan->status);
	*plan = (struct job_plan){0};
}

const char *job_action_name(enum job_action_kind kind)
{
	static const char *const names[] = {
		[JOB_ADD_FINALIZER] = "add-finalizer",
		[JOB_REMOVE_FINALIZER] = "remove-finalizer",
		[JOB_ENSURE] = "ensure",
		[JOB_RELEASE] = "release",
		[JOB_RELEASE_ALL] = "release-all",
		[JOB_ABANDON] = "abandon",
		[JOB_ADOPT] = "adopt",
		[JOB_CLAIM] = "claim",
		[JOB_WRITE_FILES] = "write-files",
		[JOB_DELETE_FILES] = "delete-files",
		[JOB_CREATE_GROUP] = "create-group",
		[JOB_DELETE_GROUP] = "delete-group",
		[JOB_WRITE_SUPPORT] = "write-support",
		[JOB_CREATE_POD] = "create-pod",
		[JOB_CREATE_LAUNCHER] = "create-launcher",
		[JOB_OPEN_POD] = "open-pod",
		[JOB_DELETE_WORKLOAD] = "delete-workload",
		[JOB_DELETE_POD] = "delete-pod",
		[JOB_KILL_POD] = "kill-pod",
		[JOB_DELETE_JOB] = "delete-job",
	};
	return names[kind];
}
