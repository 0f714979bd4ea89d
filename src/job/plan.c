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
#include "job/plan_files.h"
#include "job/status.h"

enum instance_state { INSTANCE_WAITING, INSTANCE_RUNNING, INSTANCE_SUCCEEDED, INSTANCE_FAILED };

struct work {
	const struct job_view *v;
	const struct job *job;
	struct job_plan *out;
	const struct job_pod **places; /* by number: who has the name of each worker */
	size_t n_places;
	bool was_there;            /* all Pods of the job have existed */
	size_t cleared, forgotten; /* Pods that are gone, by the status: succeeded, failed */
	size_t kept, lost;         /* Pods that are gone: counted as succeeded, as failed */
	uint32_t running, succeeded, failed;
	bool partition_active;
	char failure[256]; /* of the first instance that failed */
};

/* ---- actions ---- */

static struct job_action *act(struct work *w, enum job_action_kind kind)
{
	return job_plan_act(w->out, kind);
}

static void act_instance(struct work *w, enum job_action_kind kind, uint32_t instance)
{
	act(w, kind)->instance = instance;
}

/* What the job waits for: the first reason counts. */
static void waits_for(struct work *w, const char *event, enum partition_why why, const char *fmt,
		      ...) __attribute__((format(printf, 4, 5)));

static void waits_for(struct work *w, const char *event, enum partition_why why, const char *fmt,
		      ...)
{
	va_list ap;

	if (w->out->wait_message[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->out->wait_message, sizeof(w->out->wait_message), fmt, ap);
	va_end(ap);
	w->out->wait_event = event;
	w->out->waits = why;
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

static void delete_pod(struct work *w, const struct job_pod *pod)
{
	if (!pod->deleting)
		act(w, JOB_DELETE_POD)->pod = pod;
}

/* The N of "NAME-worker-N", all instances counted through; -1: no such name. */
static int64_t number_of(const struct work *w, const struct job_pod *pod)
{
	struct str name = str_of(pod->name), prefix = str_of(w->job->name);
	int64_t n;

	if (!str_has_prefix(name, prefix))
		return -1;
	name = (struct str){name.p + prefix.len, name.len - prefix.len};
	if (!str_has_prefix(name, STR("-worker-")))
		return -1;
	name = (struct str){name.p + 8, name.len - 8};
	if ((name.len > 1 && name.p[0] == '0') ||
	    str_to_int(name, 0, (int64_t)w->n_places - 1, &n, NULL) < 0)
		return -1;
	return n;
}

/* Its label says so; of one whose label was tampered with, its name. -1: can't be said. */
static int64_t instance_of(const struct work *w, const struct job_pod *pod)
{
	int64_t n;

	if (pod->instance >= 0)
		return pod->instance;
	n = number_of(w, pod);
	return n < 0 ? -1 : n / w->job->workers;
}

static void place_pods(struct work *w)
{
	w->n_places = (size_t)w->job->instances * w->job->workers;
	w->places = xcalloc(w->n_places + 1, sizeof(*w->places));
	for (size_t i = 0; i < w->v->n_pods; i++) {
		int64_t n = number_of(w, w->v->pods[i]);

		if (n >= 0)
			w->places[n] = w->v->pods[i];
	}
}

/* Deletes those of ours that may run, of one instance or (-1) of all; one that can't be told
 * apart counts for each. Returns how many of them there still are, in deletion or not. */
static size_t stop_pods(struct work *w, int64_t instance)
{
	size_t n = 0;

	for (size_t i = 0; i < w->v->n_pods; i++) {
		const struct job_pod *pod = w->v->pods[i];
		int64_t its = instance_of(w, pod);

		if (!is_ours(w, pod) || !may_run(pod) ||
		    (instance >= 0 && its >= 0 && its != instance))
			continue;
		n++;
		delete_pod(w, pod);
	}
	return n;
}

/* Deletes all of ours, ended or not. Returns how many there still are. */
static size_t delete_pods(struct work *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->v->n_pods; i++) {
		if (!is_ours(w, w->v->pods[i]))
			continue;
		n++;
		delete_pod(w, w->v->pods[i]);
	}
	return n;
}

/* ---- one instance ---- */

struct gang { /* the Pods of one instance, looked at together */
	uint32_t instance;
	const struct partition_status *part;
	size_t there, missing, stale, running, succeeded, live;
	bool leaving;
	const struct job_pod *failed, *waiting, *conflict;
	const struct job_pod *on; /* one that may run and says on which partition */
};

/* Made for another partition than the one that is there, or asked for, now. Where nothing is asked
 * for, nothing is known better than by the Pod itself. */
static bool is_stale(const struct gang *g, const struct job_pod *pod)
{
	const struct partition_status *part = g->part;

	if (part->adopting || part->state == PARTITION_STATE_NONE ||
	    part->state == PARTITION_STATE_RELEASING ||
	    (part->state == PARTITION_STATE_FAILED && !part->id) || !pod->partition)
		return false;
	return !part->id || strcmp(pod->partition, part->id) != 0;
}

static void look_at_pod(struct work *w, const struct job_pod *pod, struct gang *g)
{
	if (!is_ours(w, pod)) {
		g->conflict = g->conflict ? g->conflict : pod;
		return;
	}
	if (is_stale(g, pod)) {
		g->stale++;
		return;
	}
	g->there++;
	g->live += may_run(pod);
	if (may_run(pod) && pod->partition)
		g->on = pod;
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

static void look_at_gang(struct work *w, struct gang *g)
{
	const struct job_pod *const *places = w->places + (size_t)g->instance * w->job->workers;

	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (places[k])
			look_at_pod(w, places[k], g);
		else
			g->missing++;
	}
}

/* Deletes those that have the gang's names, or only the stale ones among them. */
static void clear_gang(struct work *w, const struct gang *g, bool stale_only)
{
	const struct job_pod *const *places = w->places + (size_t)g->instance * w->job->workers;

	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (places[k] && is_ours(w, places[k]) && (!stale_only || is_stale(g, places[k])))
			delete_pod(w, places[k]);
	}
}

static void release(struct work *w, const struct gang *g)
{
	if (g->part->state != PARTITION_STATE_NONE && g->part->state != PARTITION_STATE_RELEASING)
		act_instance(w, JOB_RELEASE, g->instance);
}

static enum instance_state fail_instance(struct work *w, const struct gang *g, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum instance_state fail_instance(struct work *w, const struct gang *g, const char *fmt, ...)
{
	va_list ap;

	if (!w->failure[0]) {
		va_start(ap, fmt);
		vsnprintf(w->failure, sizeof(w->failure), fmt, ap);
		va_end(ap);
	}
	if (w->was_there)
		w->lost += g->missing;
	/* Its IPUs are in use until the last Pod has ended. */
	if (stop_pods(w, g->instance) == 0 && !w->job->keeps_partitions)
		release(w, g);
	return INSTANCE_FAILED;
}

static enum instance_state succeed_instance(struct work *w, const struct gang *g)
{
	if (!w->job->keeps_partitions)
		release(w, g);
	return INSTANCE_SUCCEEDED;
}

static enum instance_state fail_by_pod(struct work *w, const struct gang *g)
{
	return fail_instance(
		w, g, "Pod %s failed: %.150s%s", g->failed->name,
		g->failed->message ? g->failed->message : "no reason is known",
		w->job->restart == JOB_RESTART_NEVER ? "" : " (this version doesn't restart jobs)");
}

/* Some were there and aren't any more. How an instance ended is in the status before its partition
 * goes back: what was counted as succeeded then was cleared away after its end. */
static enum instance_state plan_lost(struct work *w, const struct gang *g, bool usable)
{
	if (!usable && g->live == 0 && w->forgotten == 0 && g->missing <= w->cleared) {
		w->cleared -= g->missing;
		w->kept += g->missing;
		return INSTANCE_SUCCEEDED;
	}
	w->forgotten -= g->missing < w->forgotten ? g->missing : w->forgotten;
	return fail_instance(w, g,
			     "a worker Pod of instance %" PRIu32 " was deleted before it ended",
			     g->instance);
}

static void say_broken(struct work *w, const struct gang *g)
{
	waits_for(w, partition_why_name(g->part->why), g->part->why, "%.240s", g->part->message);
}

/* What was asked for isn't what the job wants now: only where no Pod uses it. */
static bool wants_otherwise(const struct work *w, const struct gang *g)
{
	struct partition_ask ask = job_ask(w->job, g->instance);

	return g->part->ask && !partition_ask_same_need(g->part->ask, &ask);
}

/* Before Pods: the ConfigMap that they mount. True: they find what they need. */
static bool plan_files(struct work *w, const struct gang *g)
{
	const struct job_files *files;

	switch (job_files_look_at(w->v, g->instance, &files)) {
	case JOB_FILES_READY:
		return true;
	case JOB_FILES_COMING:
		waits_for(w, g->part->why ? partition_why_name(g->part->why) : NULL, g->part->why,
			  "%.240s",
			  g->part->message[0] ? g->part->message
					      : "waiting for the IPUoF configuration");
		return false;
	case JOB_FILES_CONFLICT:
		waits_for(w, "NameConflict", PARTITION_WHY_NONE,
			  "ConfigMap %s exists and isn't this job's: remove it, or give the job "
			  "another name",
			  files->name);
		return false;
	default:
		act_instance(w, JOB_WRITE_FILES, g->instance);
		w->out->actions[w->out->n_actions - 1].files = files;
		return false;
	}
}

static enum instance_state plan_missing(struct work *w, const struct gang *g)
{
	if (g->part->state == PARTITION_STATE_FAILED) {
		/* Nobody starts on a broken partition: another one, once it's free. */
		clear_gang(w, g, false);
		if (g->there == 0)
			release(w, g);
		say_broken(w, g);
		return INSTANCE_WAITING;
	}
	if (g->there == 0 && wants_otherwise(w, g)) {
		act_instance(w, JOB_ENSURE, g->instance);
		return INSTANCE_WAITING;
	}
	if (w->v->trouble)
		waits_for(w, w->v->trouble_event, PARTITION_WHY_NONE, "%.240s", w->v->trouble);
	if (!plan_files(w, g))
		return INSTANCE_WAITING;
	for (uint32_t k = 0; k < w->job->workers; k++) {
		if (w->places[(size_t)g->instance * w->job->workers + k])
			continue;
		act_instance(w, JOB_CREATE_POD, g->instance);
		w->out->actions[w->out->n_actions - 1].worker = k;
	}
	return INSTANCE_WAITING;
}

/* All are there, and none has failed. */
static enum instance_state plan_going_on(struct work *w, const struct gang *g)
{
	const struct job_pod *pod = g->waiting;

	if (g->part->state == PARTITION_STATE_FAILED && g->part->id)
		say_broken(w, g);
	else if (g->part->draining)
		waits_for(w, NULL, PARTITION_WHY_NONE,
			  "V-IPU controller %s is being emptied: this job should end or move",
			  g->part->controller ? g->part->controller : "");
	if (!pod)
		return INSTANCE_RUNNING;
	if (pod->deleting) {
		waits_for(w, NULL, PARTITION_WHY_NONE, "waiting for Pod %s, in deletion, to end",
			  pod->name);
	} else if (pod->fault) {
		waits_for(w, "PodNotStarting", PARTITION_WHY_NONE, "Pod %s: %.200s", pod->name,
			  pod->message ? pod->message : pod->why);
	} else if (pod->phase == JOB_POD_UNKNOWN) {
		waits_for(w, NULL, PARTITION_WHY_NONE,
			  "Pod %s: its node doesn't answer, and it may run", pod->name);
	}
	return INSTANCE_WAITING;
}

static enum instance_state plan_usable(struct work *w, const struct gang *g)
{
	if (g->failed)
		return fail_by_pod(w, g);
	if (g->succeeded == w->job->workers)
		return succeed_instance(w, g);
	if (g->missing && w->was_there)
		return plan_lost(w, g, true);
	if (g->missing && g->leaving) {
		waits_for(w, NULL, PARTITION_WHY_NONE, "waiting for a Pod in deletion to end");
		return INSTANCE_WAITING;
	}
	if (g->missing)
		return plan_missing(w, g);
	return plan_going_on(w, g);
}

/* Nothing is asked for: it hasn't begun, it's over, or the tracker has lost it. */
static enum instance_state plan_unasked(struct work *w, const struct gang *g)
{
	if (g->failed)
		return fail_by_pod(w, g);
	if (g->missing && w->was_there)
		return plan_lost(w, g, false);
	if (g->missing && g->there) {
		clear_gang(w, g, false);
		waits_for(w, NULL, PARTITION_WHY_NONE,
			  "waiting for Pods of an earlier partition to end");
		return INSTANCE_WAITING;
	}
	if (g->missing) {
		act_instance(w, JOB_ENSURE, g->instance);
		return INSTANCE_WAITING;
	}
	if (g->live == 0)
		return succeed_instance(w, g);
	if (g->on && g->part->state == PARTITION_STATE_NONE) {
		act_instance(w, JOB_ADOPT, g->instance);
		w->out->actions[w->out->n_actions - 1].pod = g->on;
	}
	return plan_going_on(w, g);
}

static enum instance_state plan_vanished(struct work *w, const struct gang *g)
{
	if (g->missing == 0 && g->live == 0)
		return g->failed ? fail_by_pod(w, g) : succeed_instance(w, g);
	if (g->there || w->was_there)
		return fail_instance(w, g, "%.240s", g->part->message);
	release(w, g);
	waits_for(w, "PartitionVanished", g->part->why, "%.240s", g->part->message);
	return INSTANCE_WAITING;
}

/* Asked for, and not to be had yet. */
static enum instance_state plan_waiting(struct work *w, const struct gang *g)
{
	const struct partition_status *part = g->part;

	if (g->there == 0 &&
	    (wants_otherwise(w, g) || (part->ask && part->ask->priority != w->job->priority)))
		act_instance(w, JOB_ENSURE, g->instance);
	if (part->adopted && g->live && g->missing == 0)
		return plan_going_on(w, g); /* its Pods run while it's being recorded */
	if (part->message[0])
		waits_for(w, partition_why_name(part->why), part->why, "%.240s", part->message);
	return INSTANCE_WAITING;
}

static enum instance_state plan_gang(struct work *w, const struct gang *g)
{
	if (g->conflict) {
		waits_for(
			w, "NameConflict", PARTITION_WHY_NONE,
			"Pod %s exists and isn't this job's: remove it, or give the job another name",
			g->conflict->name);
		return INSTANCE_WAITING;
	}
	if (g->stale) {
		clear_gang(w, g, true);
		waits_for(w, NULL, PARTITION_WHY_NONE,
			  "waiting for Pods of an earlier partition to end");
		return INSTANCE_WAITING;
	}
	switch (g->part->state) {
	case PARTITION_STATE_NONE:
	case PARTITION_STATE_RELEASING:
		return plan_unasked(w, g);
	case PARTITION_STATE_FAILED:
		return g->part->id ? plan_usable(w, g) : plan_vanished(w, g);
	case PARTITION_STATE_ACTIVE:
		return plan_usable(w, g);
	default:
		return g->part->adopting ? plan_unasked(w, g) : plan_waiting(w, g);
	}
}

static void plan_instance(struct work *w, uint32_t instance)
{
	struct gang gang = {.instance = instance, .part = &w->v->partitions[instance]};
	enum instance_state state;

	look_at_gang(w, &gang);
	state = plan_gang(w, &gang);
	w->partition_active |= gang.part->id && (gang.part->state == PARTITION_STATE_ACTIVE ||
						 gang.part->state == PARTITION_STATE_FAILED);
	w->running += state == INSTANCE_RUNNING;
	w->succeeded += state == INSTANCE_SUCCEEDED;
	w->failed += state == INSTANCE_FAILED;
}

/* What the job has outgrown: Pods that it needs no more, then what was asked for them. */
static void plan_surplus(struct work *w)
{
	for (size_t i = 0; i < w->v->n_pods; i++) {
		if (is_ours(w, w->v->pods[i]) && number_of(w, w->v->pods[i]) < 0)
			delete_pod(w, w->v->pods[i]);
	}
	for (size_t i = 0; i < w->v->n_surplus; i++) {
		bool in_use = false;

		for (size_t k = 0; k < w->v->n_pods && !in_use; k++) {
			const struct job_pod *pod = w->v->pods[k];

			in_use = is_ours(w, pod) && may_run(pod) &&
				 (pod->instance < 0 || pod->instance == w->v->surplus[i]);
		}
		if (!in_use)
			act_instance(w, JOB_RELEASE, w->v->surplus[i]);
	}
}

/* Whether all Pods of the job have existed; and of those that had ended when their partition went
 * back, how many are gone. */
static void look_back(struct work *w)
{
	const struct job_status *s = &w->job->status;
	size_t succeeded = 0, failed = 0;

	w->was_there = s->desired_replicas == (int64_t)w->job->instances &&
		       (int64_t)s->active + s->succeeded + s->failed >= (int64_t)w->n_places;
	for (size_t i = 0; i < w->n_places; i++) {
		const struct job_pod *pod = w->places[i];

		if (!pod || !is_ours(w, pod) || w->v->partitions[i / w->job->workers].ask)
			continue;
		succeeded += pod->phase == JOB_POD_SUCCEEDED;
		failed += pod->phase == JOB_POD_FAILED;
	}
	if ((size_t)s->succeeded > succeeded)
		w->cleared = (size_t)s->succeeded - succeeded;
	if ((size_t)s->failed > failed)
		w->forgotten = (size_t)s->failed - failed;
}

/* ---- the status ---- */

/* The Pods that the job has names for, and those that it had. Stale ones are on their way out. */
static void count_workers(const struct work *w, struct job_status *s)
{
	s->active = 0;
	s->succeeded = (int32_t)w->kept;
	s->failed = (int32_t)w->lost;
	for (uint32_t i = 0; i < w->n_places; i++) {
		const struct job_pod *pod = w->places[i];
		struct gang g = {.part = &w->v->partitions[i / w->job->workers]};

		if (!pod || !is_ours(w, pod) || is_stale(&g, pod))
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
	if (!w->job->problem) /* else nobody knows */
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

/* How a Pod ended is stored before what it frees is given back: the next pass does that. A crash
 * between the two mustn't make the job forget it. */
static void hold_releases(struct work *w)
{
	const struct job_status *now = &w->out->status, *before = &w->job->status;
	struct job_plan *out = w->out;
	size_t kept = 0;

	if (!now->completion_ms && now->active == before->active &&
	    now->succeeded == before->succeeded && now->failed == before->failed)
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
		if (!w->job->keeps_partitions)
			act(w, JOB_RELEASE_ALL);
	} else if (w->job->status.partition_created) {
		job_status_copy(&w->out->status, &w->job->status);
		w->out->status.partition_created = false;
		w->out->has_status = true;
	}
}

/* A job that isn't run as it is written: Pods that there are go on, IPUs that nobody uses are
 * given back. */
static void plan_rest(struct work *w)
{
	size_t live = 0;

	for (size_t i = 0; i < w->v->n_pods; i++)
		live += is_ours(w, w->v->pods[i]) && may_run(w->v->pods[i]);
	if (live == 0 && w->v->held > 0)
		act(w, JOB_RELEASE_ALL);
	w->out->status.partition_created &= w->v->held > 0;
	w->out->status.current_replicas = 0;
}

static void plan_broken(struct work *w)
{
	struct job_status *s = begin_status(w);

	plan_rest(w);
	job_status_set(s, JOB_FAILED, w->v->now_ms, "InvalidSpec", "%s", w->job->problem);
	job_status_say(s, "Failed", "%s", w->job->problem);
}

static void plan_unsupported(struct work *w)
{
	struct job_status *s = begin_status(w);

	plan_rest(w);
	waits_for(w, "NotSupported", PARTITION_WHY_NONE, "%.240s", w->job->unsupported);
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

/* Its partitions, taken over, stay until it has ended or is deleted. */
static void plan_older(struct work *w)
{
	const char *word = w->job->status.launcher_status;
	bool ended = word && (strcmp(word, "Completed") == 0 || strcmp(word, "Failed") == 0);

	if (ended && w->v->held > 0)
		act(w, JOB_RELEASE_ALL);
}

static void plan_instances(struct work *w)
{
	place_pods(w);
	look_back(w);
	for (uint32_t i = 0; i < w->job->instances; i++)
		plan_instance(w, i);
	plan_surplus(w);
	status_of_instances(w);
	hold_releases(w);
	free(w->places);
}

void job_plan(const struct job_view *view, struct job_plan *ret)
{
	const struct job *job = view->job;
	struct work w = {.v = view, .job = job, .out = ret};

	*ret = (struct job_plan){0};
	if (job->deleting) {
		plan_deletion(&w);
	} else if (view->older) {
		plan_older(&w);
	} else if (has_ended(job)) {
		plan_ended(&w);
	} else if (job->problem) {
		plan_broken(&w);
	} else if (job->unsupported) {
		plan_unsupported(&w);
	} else if (!job->has_finalizer) {
		act(&w, JOB_ADD_FINALIZER);
	} else {
		plan_instances(&w);
	}
	if (!job->deleting && job->has_finalizer)
		job_plan_clear_files(view, ret);
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
		[JOB_ADOPT] = "adopt",
		[JOB_WRITE_FILES] = "write-files",
		[JOB_DELETE_FILES] = "delete-files",
		[JOB_CREATE_GROUP] = "create-group",
		[JOB_DELETE_GROUP] = "delete-group",
		[JOB_ABANDON] = "abandon",
		[JOB_WRITE_SUPPORT] = "write-support",
		[JOB_CREATE_POD] = "create-pod",
		[JOB_CREATE_LAUNCHER] = "create-launcher",
		[JOB_KILL_POD] = "kill-pod",
		[JOB_DELETE_JOB] = "delete-job",
		[JOB_DELETE_POD] = "delete-pod",
	};
	return names[kind];
}
