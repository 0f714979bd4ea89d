/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pods of a job, sorted to the places that it has for them, and looked at instance by instance.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "job/plan_impl.h"

/* ---- one Pod ---- */

bool job_pod_is_ours(const struct work *w, const struct job_pod *pod)
{
	return pod->owner_uid && strcmp(pod->owner_uid, w->job->uid) == 0;
}

bool job_pod_may_run(const struct job_pod *pod)
{
	return pod->phase != JOB_POD_SUCCEEDED && pod->phase != JOB_POD_FAILED;
}

bool job_pod_in_use(const struct work *w, const struct job_pod *pod)
{
	return job_pod_may_run(pod) && (pod->launcher || !job_has_launcher(w->job));
}

bool job_pod_may_have_ranks(struct work *w, const struct job_pod *pod)
{
	return !pod->launcher && job_has_launcher(w->job) && job_pod_is_ours(w, pod) &&
	       (pod->phase == JOB_POD_RUNNING || pod->phase == JOB_POD_UNKNOWN) &&
	       !job_pod_is_stuck(w, pod);
}

int64_t job_plan_ranks_end(const struct work *w, int64_t release_ms)
{
	int64_t latest_ms = (w->v->now_ms + w->v->timing->ranks_end_ms + 999) / 1000 * 1000;

	if (w->v->timing->ranks_end_ms == 0)
		return w->v->now_ms;
	return release_ms && release_ms < latest_ms ? release_ms : latest_ms;
}

bool job_pod_is_stuck(struct work *w, const struct job_pod *pod)
{
	int64_t patience_ms = w->v->timing->unreachable_ms;

	if (!pod->deleting || !pod->deletion_ms || !patience_ms)
		return false;
	job_plan_wake(w, pod->deletion_ms + patience_ms);
	return w->v->now_ms >= pod->deletion_ms + patience_ms;
}

/* ---- places ---- */

static int64_t number_behind(struct str name, struct str word, int64_t max)
{
	int64_t n;

	if (!str_has_prefix(name, word))
		return -1;
	name = (struct str){name.p + word.len, name.len - word.len};
	if ((name.len > 1 && str_has_prefix(name, STR("0"))) ||
	    str_to_int(name, 0, max, &n, NULL) < 0)
		return -1;
	return n;
}

/* Where its name puts it; NULL: nowhere. ret_instance: whose it is then. */
static const struct job_pod **place_of(struct work *w, const struct job_pod *pod,
				       uint32_t *ret_instance)
{
	struct str name = str_of(pod->name), prefix = str_of(w->job->name);
	int64_t n;

	if (!w->n || !str_has_prefix(name, prefix))
		return NULL;
	name = (struct str){name.p + prefix.len, name.len - prefix.len};
	n = number_behind(name, STR("-worker-"), (int64_t)w->n * w->job->workers - 1);
	if (n >= 0) {
		*ret_instance = (uint32_t)n / w->job->workers;
		return &w->places[n];
	}
	if (!job_has_launcher(w->job))
		return NULL;
	n = str_eq(name, STR("-launcher"))
		    ? 0
		    : number_behind(name, STR("-launcher-"), (int64_t)w->n - 1);
	if (n < 0 || (n == 0 && name.len > 9))
		return NULL;
	*ret_instance = (uint32_t)n;
	return &w->gangs[n].launcher;
}

/* By its name; one of ours whose label says another instance was made when the job had other
 * sizes. */
static void place_pod(struct work *w, const struct job_pod *pod)
{
	uint32_t instance = 0;
	const struct job_pod **place = place_of(w, pod, &instance);
	bool ours = job_pod_is_ours(w, pod);

	if (place && !(ours && pod->instance >= 0 && pod->instance != instance))
		*place = pod;
	else if (ours)
		w->misfits[w->n_misfits++] = pod;
}

/* ---- a gang ---- */

/* Made for another partition than the one that is there, or asked for, now. Where nothing is asked
 * for, nothing is known better than by the Pod itself. */
bool job_pod_is_stale(const struct gang *g, const struct job_pod *pod)
{
	const struct partition_status *part = g->part;

	if (part->adopting || part->state == PARTITION_STATE_NONE ||
	    part->state == PARTITION_STATE_RELEASING ||
	    (part->state == PARTITION_STATE_FAILED && !part->id) || !pod->partition)
		return false;
	return !part->id || strcmp(pod->partition, part->id) != 0;
}

/* Of the gang, and not stale. */
static bool look_at(struct work *w, struct gang *g, const struct job_pod *pod)
{
	bool live = job_pod_may_run(pod);

	if (!job_pod_is_ours(w, pod)) {
		g->conflict = g->conflict ? g->conflict : pod;
		return false;
	}
	if (job_pod_is_stale(g, pod)) {
		g->stale++;
		return false;
	}
	g->there++;
	g->live += live;
	if (live && pod->partition)
		g->on = pod;
	g->leaving |= pod->deleting;
	if (live && job_pod_is_stuck(w, pod) && !g->stuck)
		g->stuck = pod;
	if (pod->phase == JOB_POD_FAILED && !g->failed)
		g->failed = pod;
	if (live && pod->phase != JOB_POD_RUNNING && !g->waiting)
		g->waiting = pod;
	g->gated += live && pod->gated;
	g->queued += live && pod->queued;
	if (pod->preempted && !g->preempted)
		g->preempted = pod;
	g->outdated |= pod->template_hash && pod->template_hash != w->job->template_hash;
	return true;
}

static void look_at_gang(struct work *w, struct gang *g)
{
	if (g->launcher)
		look_at(w, g, g->launcher);
	for (uint32_t k = 0; k < w->job->workers; k++) {
		const struct job_pod *pod = g->workers[k];

		if (!pod) {
			g->missing++;
			continue;
		}
		if (!look_at(w, g, pod))
			continue;
		g->running += pod->phase == JOB_POD_RUNNING;
		g->ready += pod->phase == JOB_POD_RUNNING && pod->ready && !pod->deleting;
		g->succeeded += pod->phase == JOB_POD_SUCCEEDED;
		if (pod->phase == JOB_POD_SUCCEEDED && job_has_launcher(w->job) && !g->early)
			g->early = pod;
	}
}

static void look_at_lost(struct work *w)
{
	for (size_t i = 0; i < w->v->n_lost; i++) {
		const struct job_lost *lost = &w->v->lost[i];
		struct gang *g = lost->instance < w->n ? &w->gangs[lost->instance] : NULL;

		if (g && g->mem->run == lost->run && g->part->id &&
		    strcmp(g->part->id, lost->partition) == 0)
			g->lost = true;
	}
}

/* That all its Pods have been there is so, whatever became of the write that was to remember it. */
static void note_complete(const struct work *w, struct gang *g)
{
	const struct job_status *unsure = w->v->unsure;
	const struct job_instance *then;

	if (!unsure || g->instance >= unsure->n_instances)
		return;
	then = &unsure->instances[g->instance];
	g->mem->complete |= then->complete && then->run == g->mem->run && !g->mem->over;
}

void job_plan_gangs(struct work *w)
{
	size_t workers = w->n * w->job->workers;

	w->gangs = xcalloc(w->n + 1, sizeof(*w->gangs));
	w->places = xcalloc(workers + 1, sizeof(*w->places));
	w->misfits = xcalloc(w->v->n_pods + 1, sizeof(*w->misfits));
	for (size_t i = 0; i < w->v->n_pods; i++)
		place_pod(w, w->v->pods[i]);
	for (size_t i = 0; i < w->n; i++) {
		struct gang *g = &w->gangs[i];

		g->instance = (uint32_t)i;
		g->part = &w->v->partitions[i];
		g->mem = &w->out->status.instances[i];
		g->workers = w->places + i * w->job->workers;
		note_complete(w, g);
		look_at_gang(w, g);
	}
	look_at_lost(w);
}

void job_plan_gangs_done(struct work *w)
{
	free(w->gangs);
	free(w->places);
	free(w->misfits);
}

/* ---- stopping ---- */

void job_plan_release(struct work *w, const struct gang *g)
{
	if (g->part->state != PARTITION_STATE_NONE && g->part->state != PARTITION_STATE_RELEASING)
		job_plan_add(w, JOB_RELEASE, g->instance);
}

static void stop_pod(struct work *w, struct gang *g, const struct job_pod *pod)
{
	if (!pod->deleting)
		job_plan_add(w, JOB_DELETE_POD, g->instance)->pod = pod;
	else if (!job_pod_is_stuck(w, pod))
		return;
	else if (g->part->state == PARTITION_STATE_NONE)
		job_plan_add(w, JOB_KILL_POD, g->instance)->pod = pod;
}

size_t job_plan_stop(struct work *w, struct gang *g, job_pod_test *which)
{
	size_t n = 0, stuck = 0;

	for (uint32_t k = 0; k <= w->job->workers; k++) {
		const struct job_pod *pod = k < w->job->workers ? g->workers[k] : g->launcher;

		if (!pod || !job_pod_is_ours(w, pod) || (which && !which(w, pod)))
			continue;
		n++;
		stuck += job_pod_is_stuck(w, pod);
		stop_pod(w, g, pod);
	}
	/* Without IPUs, what runs on a node that nobody reaches does no harm. */
	if (n && n == stuck && !job_plan_misfit_in_use(w, g->instance))
		job_plan_release(w, g);
	return n;
}

void job_plan_stop_stale(struct work *w, struct gang *g)
{
	for (uint32_t k = 0; k <= w->job->workers; k++) {
		const struct job_pod *pod = k < w->job->workers ? g->workers[k] : g->launcher;

		if (!pod || !job_pod_is_ours(w, pod) || !job_pod_is_stale(g, pod))
			continue;
		if (!pod->deleting)
			job_plan_add(w, JOB_DELETE_POD, g->instance)->pod = pod;
		else if (job_pod_is_stuck(w, pod)) /* its partition has gone long ago */
			job_plan_add(w, JOB_KILL_POD, g->instance)->pod = pod;
	}
}

bool job_plan_misfit_in_use(struct work *w, uint32_t instance)
{
	for (size_t i = 0; i < w->n_misfits; i++) {
		const struct job_pod *pod = w->misfits[i];

		if (job_pod_may_run(pod) && !job_pod_is_stuck(w, pod) &&
		    (pod->instance < 0 || pod->instance == instance))
			return true;
	}
	return false;
}
