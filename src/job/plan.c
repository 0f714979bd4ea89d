/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/job-states.md as a function: first the job as a whole, then each
 * instance, then the status that follows from them. Pure: everything it knows comes in the view.
 */
#include "job/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "job/status.h"

enum instance_state { INSTANCE_WAITING, INSTANCE_RUNNING, INSTANCE_SUCCEEDED, INSTANCE_FAILED };

struct work {
	const struct job_view *v;
	const struct job *job;
	struct job_plan *out;
	bool was_there; /* all Pods of the job have existed */
	uint32_t running, succeeded, failed, started;
	bool partition_active;
	char failure[256]; /* of the first instance that failed */
};

/* ---- actions ---- */

static struct job_action *act(struct work *w, enum job_action_kind kind)
{
	struct job_plan *out = w->out;

	/* Doubled at powers of two. */
	if ((out->n_actions & (out->n_actions - 1)) == 0)
		out->actions = xrealloc(out->actions, (out->n_actions ? out->n_actions * 2 : 1) *
							      sizeof(*out->actions));
	out->actions[out->n_actions] = (struct job_action){.kind = kind};
	return &out->actions[out->n_actions++];
}

static void act_instance(struct work *w, enum job_action_kind kind, uint32_t instance)
{
	act(w, kind)->instance = instance;
}

/* What the job waits for: the first reason counts. */
static void waits_for(struct work *w, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void waits_for(struct work *w, const char *event, const char *fmt, ...)
{
	va_list ap;

	if (w->out->wait_message[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->out->wait_message, sizeof(w->out->wait_message), fmt, ap);
	va_end(ap);
	w->out->wait_event = event;
}

/* ---- Pods ---- */

static bool is_ours(const struct work *w, const struct job_pod *pod)
{
	return pod->owner_uid && strcmp(pod->owner_uid, w->job->uid) == 0;
}

static bool may_run(const struct job_pod *pod)
{
	return pod->phase != JOB_POD_SUCCEEDED && pod->phase != JOB_POD_FAILED;
}

/* Deletes those of ours that may run, of one instance or (-1) of all. Returns how many of them
 * there still are, in deletion or not. */
static size_t stop_pods(struct work *w, int64_t instance)
{
	size_t n = 0;

	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];

		if (!is_ours(w, pod) || !may_run(pod) ||
		    (instance >= 0 && pod->instance != instance))
			continue;
		n++;
		if (!pod->deleting)
			act(w, JOB_DELETE_POD)->pod = pod;
	}
	return n;
}

static size_t delete_pods(struct work *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];

		if (!is_ours(w, pod))
			continue;
		n++;
		if (!pod->deleting)
			act(w, JOB_DELETE_POD)->pod = pod;
	}
	return n;
}

static const struct job_pod *find_pod(const struct work *w, const char *name)
{
	for (size_t i = 0; i < w->v->n_pods; i++) {
		if (strcmp(w->v->pods[i]->name, name) == 0)
			return w->v->pods[i];
	}
	return NULL;
}

/* ---- one instance ---- */

struct gang { /* the Pods of one instance, looked at together */
	size_t there, missing, stale, running, succeeded, live;
	bool conflict, leaving;
	const struct job_pod *failed, *waiting;
	const char *conflict_name;
};

static void look_at_pod(struct work *w, const struct job_pod *pod, const char *partition,
			struct gang *g)
{
	if (!is_ours(w, pod)) {
		g->conflict = true;
		return;
	}
	if (partition && pod->partition && strcmp(pod->partition, partition) != 0) {
		g->stale++;
		if (!pod->deleting)
			act(w, JOB_DELETE_POD)->pod = pod;
		return;
	}
	g->there++;
	g->live += may_run(pod);
	if (pod->deleting && may_run(pod))
		g->leaving = true;
	if (pod->phase == JOB_POD_FAILED && !g->failed)
		g->failed = pod;
	g->succeeded += pod->phase == JOB_POD_SUCCEEDED;
	if (pod->phase == JOB_POD_RUNNING)
		g->running++;
	else if (may_run(pod) && !g->waiting)
		g->waiting = pod;
}

static void look_at_gang(struct work *w, uint32_t instance, const char *partition, struct gang *g)
{
	*g = (struct gang){0};
	for (uint32_t k = 0; k < w->job->workers; k++) {
		CLEANUP_FREE char *name = job_worker_name(w->job, instance, k);
		const struct job_pod *pod = find_pod(w, name);
		bool had_conflict = g->conflict;

		if (!pod) {
			g->missing++;
			continue;
		}
		look_at_pod(w, pod, partition, g);
		if (g->conflict && !had_conflict)
			g->conflict_name = pod->name;
	}
}

static enum instance_state fail_instance(struct work *w, uint32_t instance, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum instance_state fail_instance(struct work *w, uint32_t instance, const char *fmt, ...)
{
	va_list ap;

	if (!w->failure[0]) {
		va_start(ap, fmt);
		vsnprintf(w->failure, sizeof(w->failure), fmt, ap);
		va_end(ap);
	}
	/* Its IPUs are in use until the last Pod has ended. */
	if (stop_pods(w, instance) == 0)
		act_instance(w, JOB_RELEASE, instance);
	return INSTANCE_FAILED;
}

static enum instance_state end_by_pods(struct work *w, uint32_t instance, const struct gang *g)
{
	if (g->failed)
		return fail_instance(w, instance, "Pod %s failed: %.150s%s", g->failed->name,
				     g->failed->message ? g->failed->message : "no reason is known",
				     w->job->restart == JOB_RESTART_NEVER
					     ? ""
					     : " (this version doesn't restart jobs)");
	if (g->missing && w->was_there)
		return fail_instance(w, instance,
				     "a worker Pod of instance %" PRIu32
				     " was deleted before it ended",
				     instance);
	act_instance(w, JOB_RELEASE, instance);
	return INSTANCE_SUCCEEDED;
}

static enum instance_state plan_active(struct work *w, uint32_t instance,
				       const struct partition_status *part, const struct gang *g)
{
	if (g->conflict) {
		waits_for(
			w, "NameConflict",
			"Pod %s exists and isn't this job's: remove it, or give the job another name",
			g->conflict_name);
		return INSTANCE_WAITING;
	}
	if (g->stale) {
		waits_for(w, NULL, "waiting for Pods of an earlier partition to end");
		return INSTANCE_WAITING;
	}
	if (g->failed || g->succeeded == w->job->workers ||
	    (g->missing && w->was_there && !g->leaving))
		return end_by_pods(w, instance, g);
	if (g->leaving) {
		waits_for(w, NULL, "waiting for a Pod in deletion to end");
		return g->missing ? INSTANCE_WAITING : INSTANCE_RUNNING;
	}
	if (part->state == PARTITION_STATE_FAILED && g->there == 0) {
		act_instance(w, JOB_RELEASE, instance);
		waits_for(w, "PartitionFailed", "%.240s", part->message);
		return INSTANCE_WAITING;
	}
	if (g->missing) {
		if (w->v->trouble)
			waits_for(w, w->v->trouble_event, "%.240s", w->v->trouble);
		for (uint32_t k = 0; k < w->job->workers; k++) {
			CLEANUP_FREE char *name = job_worker_name(w->job, instance, k);

			if (!find_pod(w, name)) {
				act_instance(w, JOB_CREATE_POD, instance);
				w->out->actions[w->out->n_actions - 1].worker = k;
			}
		}
		return INSTANCE_WAITING;
	}
	if (g->running + g->succeeded < w->job->workers) {
		if (g->waiting && g->waiting->cant_start)
			waits_for(w, "PodNotStarting", "Pod %s: %.200s", g->waiting->name,
				  g->waiting->message ? g->waiting->message : g->waiting->why);
		return INSTANCE_WAITING;
	}
	if (part->state == PARTITION_STATE_FAILED)
		waits_for(w, "PartitionFailed", "%.240s", part->message);
	return INSTANCE_RUNNING;
}

static enum instance_state plan_without_partition(struct work *w, uint32_t instance,
						  const struct partition_status *part,
						  const struct gang *g)
{
	bool vanished = part->state == PARTITION_STATE_FAILED;
	bool gone = part->state == PARTITION_STATE_NONE || part->state == PARTITION_STATE_RELEASING;

	if (vanished && (g->there || w->was_there))
		return fail_instance(w, instance, "%.240s", part->message);
	if (vanished) {
		act_instance(w, JOB_RELEASE, instance);
		waits_for(w, "PartitionVanished", "%.240s", part->message);
		return INSTANCE_WAITING;
	}
	if (gone && g->live == 0 && (g->there || w->was_there))
		return end_by_pods(w, instance, g);
	if (gone) {
		act_instance(w, JOB_ENSURE, instance);
		return INSTANCE_WAITING;
	}
	if (part->message[0])
		waits_for(w, partition_why_name(part->why), "%.240s", part->message);
	w->out->waits = part->why;
	return INSTANCE_WAITING;
}

static void plan_instance(struct work *w, uint32_t instance)
{
	const struct partition_status *part = &w->v->partitions[instance];
	bool usable = part->state == PARTITION_STATE_ACTIVE ||
		      (part->state == PARTITION_STATE_FAILED && part->id);
	enum instance_state state;
	struct gang gang;

	look_at_gang(w, instance, part->id, &gang);
	state = usable ? plan_active(w, instance, part, &gang)
		       : plan_without_partition(w, instance, part, &gang);
	w->partition_active |= usable;
	w->running += state == INSTANCE_RUNNING;
	w->succeeded += state == INSTANCE_SUCCEEDED;
	w->failed += state == INSTANCE_FAILED;
	w->started += gang.there > 0;
}

/* ---- the status ---- */

static void count_workers(const struct work *w, struct job_status *s)
{
	s->active = s->succeeded = s->failed = 0;
	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];

		if (!is_ours(w, pod))
			continue;
		s->succeeded += pod->phase == JOB_POD_SUCCEEDED;
		s->failed += pod->phase == JOB_POD_FAILED;
		s->active += may_run(pod);
	}
}

/* The status that is stored, with what holds whatever happens brought up to date. */
static struct job_status *begin_status(struct work *w)
{
	struct job_status *s = &w->out->status;

	job_status_copy(s, &w->job->status);
	w->out->has_status = true;
	s->observed_generation = w->job->generation;
	s->desired_replicas = (int32_t)w->job->instances;
	free(s->selector);
	s->selector = job_selector(w->job);
	if (!s->start_ms)
		s->start_ms = w->v->now_ms;
	return s;
}

static void status_of_instances(struct work *w)
{
	struct job_status *s = begin_status(w);
	const struct job *job = w->job;
	uint32_t ended = w->succeeded + w->failed;

	count_workers(w, s);
	s->current_replicas = (int32_t)w->running;
	s->partition_created = w->partition_active;
	if (ended == job->instances && w->failed == 0) {
		job_status_set(s, JOB_SUCCEEDED, w->v->now_ms, "IPUJobSucceeded",
			       "IPUJob %s/%s has completed.", job->ns, job->name);
		job_status_end(s, w->v->now_ms, "Completed", "All instances done");
	} else if (ended == job->instances) {
		job_status_set(s, JOB_FAILED, w->v->now_ms, "IPUJobFailed",
			       "IPUJob %s/%s has failed: %s", job->ns, job->name, w->failure);
		job_status_end(s, w->v->now_ms, "Failed", w->failure);
	} else if (w->running + ended == job->instances) {
		job_status_set(s, JOB_RUNNING, w->v->now_ms, "IPUJobRunning",
			       "IPUJob %s/%s is running.", job->ns, job->name);
		job_status_say(s, "Running", "%s",
			       w->out->wait_message[0] ? w->out->wait_message : "Running");
	} else {
		bool known = w->out->wait_message[0] != '\0';

		job_status_set(s, JOB_PENDING, w->v->now_ms, "IPUJobPending",
			       "IPUJob %s/%s is waiting for resources to be ready.%s%s", job->ns,
			       job->name, known ? " " : "", w->out->wait_message);
		job_status_say(s, "Pending", "%s",
			       known ? w->out->wait_message : "Waiting for resources to be ready");
	}
}

/* An end is stored before what it frees is given back: the next pass, which sees it ended, does
 * that. A crash between the two mustn't make the job forget its end. */
static void hold_releases_at_end(struct work *w)
{
	struct job_plan *out = w->out;
	size_t kept = 0;

	if (!out->status.completion_ms)
		return;
	for (size_t i = 0; i < out->n_actions; i++) {
		if (out->actions[i].kind != JOB_RELEASE)
			out->actions[kept++] = out->actions[i];
	}
	out->n_actions = kept;
}

/* ---- the job ---- */

static void plan_deletion(struct work *w)
{
	if (!w->job->has_finalizer)
		return;
	if (delete_pods(w) > 0)
		return;
	if (w->v->held > 0)
		act(w, JOB_RELEASE_ALL);
	else
		act(w, JOB_REMOVE_FINALIZER);
}

static void plan_ended(struct work *w)
{
	if (stop_pods(w, -1) > 0)
		return;
	if (w->job->clean != JOB_CLEAN_NONE)
		delete_pods(w);
	if (w->v->held > 0) {
		act(w, JOB_RELEASE_ALL);
	} else if (w->job->status.partition_created) {
		job_status_copy(&w->out->status, &w->job->status);
		w->out->status.partition_created = false;
		w->out->has_status = true;
	}
}

static void plan_broken(struct work *w)
{
	struct job_status *s = begin_status(w);
	size_t live = 0;

	count_workers(w, s);
	for (size_t i = 0; i < w->v->n_pods; i++)
		live += is_ours(w, w->v->pods[i]) && may_run(w->v->pods[i]);
	if (live == 0 && w->v->held > 0)
		act(w, JOB_RELEASE_ALL);
	job_status_set(s, JOB_FAILED, w->v->now_ms, "InvalidSpec", "%s", w->job->problem);
	job_status_say(s, "Failed", "%s", w->job->problem);
}

static void plan_unsupported(struct work *w)
{
	struct job_status *s = begin_status(w);

	waits_for(w, "NotSupported", "%.240s", w->job->unsupported);
	job_status_set(s, JOB_PENDING, w->v->now_ms, "IPUJobPending",
		       "IPUJob %s/%s is waiting for resources to be ready. %s", w->job->ns,
		       w->job->name, w->job->unsupported);
	job_status_say(s, "Pending", "%s", w->job->unsupported);
}

static bool has_ended(const struct job *job)
{
	return job->status.completion_ms != 0 &&
	       (job->status.conditions[JOB_SUCCEEDED].on || job->status.conditions[JOB_FAILED].on);
}

void job_plan(const struct job_view *view, struct job_plan *ret)
{
	const struct job *job = view->job;
	struct work w = {.v = view, .job = job, .out = ret};

	*ret = (struct job_plan){0};
	w.was_there = job->instances &&
		      job->status.active + job->status.succeeded + job->status.failed >=
			      (int64_t)job->instances * job->workers;
	if (job->deleting) {
		plan_deletion(&w);
	} else if (has_ended(job)) {
		plan_ended(&w);
	} else if (job->problem) {
		plan_broken(&w);
	} else if (job->unsupported) {
		plan_unsupported(&w);
	} else if (!job->has_finalizer) {
		act(&w, JOB_ADD_FINALIZER);
	} else {
		for (uint32_t i = 0; i < job->instances && i < view->n_partitions; i++)
			plan_instance(&w, i);
		status_of_instances(&w);
		hold_releases_at_end(&w);
	}
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
		[JOB_CREATE_POD] = "create-pod",
		[JOB_DELETE_POD] = "delete-pod",
	};
	return names[kind];
}
