/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the job planner's tests: a job, its partitions and its Pods, in words; the plan
 * made of it, in words; and what each action does to it. Included once by each test.
 */
#ifndef IPU_T_UNIT_JOB_PLAN_RIG_H
#define IPU_T_UNIT_JOB_PLAN_RIG_H

#include "core/str.h"
#include "job/plan.h"
#include "job/status.h"
#include "tap.h"

#define MAX_INSTANCES 4
#define MAX_WORKERS   8
#define MAX_PODS      (MAX_WORKERS + MAX_INSTANCES) /* the launchers are the last ones */
#define RUN_OF_JOB    UINT32_MAX
#define NOW           INT64_C(1700000000000)
#define FILES         UINT64_C(42) /* the hash of any partition's files */
#define TEXT(z)       ((char *)(uintptr_t)(z))

struct wpart {
	enum partition_state state;
	bool broken;    /* failed, and still there: PS_ERROR */
	bool otherwise; /* asked for with another size */
	bool adopting;  /* being looked for, or taken over */
	uint32_t run;   /* which it was made or reset for; RUN_OF_JOB: the one that it should be */
	bool draining;
	bool fetched; /* its IPUoF configuration has come, for those who need it as files */
};

struct wfiles { /* the ConfigMap of an instance */
	bool there, foreign, deleting;
	bool other; /* holds another partition's, or somebody has edited it */
};

struct wpod {
	bool there, deleting, stale, foreign, unlabelled, cant_start, nowhere, unready;
	bool stuck;    /* its node has been silent since long after its grace period */
	bool outdated; /* made from another template */
	enum job_pod_phase phase;
	int instance; /* of its label; -1: by its number */
};

struct world {
	unsigned instances, workers;
	bool deleting, deleting_long, finalizer, launcher, interactive, older, keeps, gone, suspend,
		recreate;
	bool unsupported;   /* not run here */
	bool unsupporting;  /* what the workers of a launcher need isn't there */
	unsigned uncovered; /* the last instances that the launchers' Role doesn't cover */
	bool force, deadline, ttl, foreign; /* foreign: managed by another controller */
	unsigned surge, unavailable;
	int64_t later_ms; /* since NOW */
	enum job_clean clean;
	enum job_restart restart;
	unsigned limit;
	int32_t codes; /* the exit code that leads to a restart; 0: none */
	const char *problem;
	const char *trouble;
	bool taken; /* that is that somebody has a name */
	bool first; /* this process hasn't looked at it before */
	bool lost;  /* a Pod of the first instance's run has gone from its partition */
	struct wpart parts[MAX_INSTANCES];
	struct wpod pods[MAX_PODS]; /* by number */
	bool by_file;
	struct wfiles files[MAX_INSTANCES];
	struct job_status status;
};

/* What the planner sees of it: lives until the next look. */
struct sight {
	struct job job;
	struct partition_status parts[MAX_INSTANCES];
	struct partition_ask asks[MAX_INSTANCES];
	uint32_t surplus[MAX_INSTANCES];
	struct job_pod pods[MAX_PODS];
	const struct job_pod *listed[MAX_PODS];
	struct job_lost lost;
	struct job_files files[MAX_INSTANCES];
	const struct job_files *listed_files[MAX_INSTANCES];
	char file_names[MAX_INSTANCES][32];
	char names[MAX_PODS][32], ids[MAX_INSTANCES][8], messages[MAX_INSTANCES][32];
	struct job_view view;
};

static inline bool is_asked(const struct wpart *p)
{
	return p->state != PARTITION_STATE_NONE && p->state != PARTITION_STATE_RELEASING;
}

static inline bool has_id(const struct wpart *p)
{
	return p->state == PARTITION_STATE_CREATING || p->state == PARTITION_STATE_ACTIVE ||
	       p->state == PARTITION_STATE_RESETTING ||
	       (p->state == PARTITION_STATE_FAILED && p->broken);
}

static inline unsigned instance_of_pod(const struct world *w, unsigned number)
{
	const struct wpod *pod = &w->pods[number];

	return pod->instance >= 0      ? (unsigned)pod->instance
	       : number >= MAX_WORKERS ? number - MAX_WORKERS
				       : number / w->workers;
}

static inline bool is_live(const struct wpod *pod)
{
	return pod->there && !pod->foreign && pod->phase != JOB_POD_SUCCEEDED &&
	       pod->phase != JOB_POD_FAILED;
}

static inline bool has_launcher(const struct world *w)
{
	return w->launcher || w->interactive;
}

/* A worker that waits for its launcher's processes uses nothing; nor does what nobody reaches. */
static inline bool is_used(const struct world *w, unsigned instance)
{
	for (unsigned n = has_launcher(w) ? MAX_WORKERS : 0; n < MAX_PODS; n++) {
		if (is_live(&w->pods[n]) && !w->pods[n].stuck && instance_of_pod(w, n) == instance)
			return true;
	}
	return false;
}

static inline void see_pod(const struct world *w, unsigned n, struct sight *s)
{
	const struct wpod *pod = &w->pods[n];
	struct job_pod *out = &s->pods[n];

	if (n == MAX_WORKERS)
		snprintf(s->names[n], sizeof(s->names[n]), "j-launcher");
	else if (n > MAX_WORKERS)
		snprintf(s->names[n], sizeof(s->names[n]), "j-launcher-%u", n - MAX_WORKERS);
	else
		snprintf(s->names[n], sizeof(s->names[n]), "j-worker-%u", n);
	*out = (struct job_pod){
		.ns = TEXT("ns"),
		.name = s->names[n],
		.uid = s->names[n],
		.owner_uid = pod->foreign ? NULL : TEXT("uid-of-j"),
		.partition = pod->stale ? TEXT("old")
					: s->ids[instance_of_pod(w, n) % MAX_INSTANCES],
		.instance = pod->unlabelled ? -1 : (int64_t)instance_of_pod(w, n),
		.phase = pod->phase,
		.deleting = pod->deleting || pod->stuck,
		.deletion_ms = s->view.now_ms - (pod->stuck ? 61000 : 0),
		.launcher = n >= MAX_WORKERS,
		.ready = pod->phase == JOB_POD_RUNNING && !pod->unready,
		.exit_code = pod->phase != JOB_POD_FAILED ? 0
			     : pod->deleting              ? 143
							  : 3,
		.template_hash = pod->outdated ? 1 : 2,
		.fault = pod->cant_start ? JOB_POD_FAULT_OWN
			 : pod->nowhere  ? JOB_POD_FAULT_NODE
					 : JOB_POD_FAULT_NONE,
		.message = pod->cant_start ? TEXT("ImagePullBackOff")
			   : pod->nowhere  ? TEXT("no node takes it")
					   : TEXT("exited with 3"),
	};
	s->listed[s->view.n_pods++] = out;
}

static inline void see_files(const struct world *w, unsigned i, struct sight *s)
{
	const struct wfiles *f = &w->files[i];

	snprintf(s->file_names[i], sizeof(s->file_names[i]), "j-ipuof-%u", i);
	s->files[i] = (struct job_files){
		.name = s->file_names[i],
		.uid = s->file_names[i],
		.owner_uid = f->foreign ? TEXT("somebody") : TEXT("uid-of-j"),
		.partition = s->ids[i],
		.hash = f->other ? FILES + 1 : FILES,
		.deleting = f->deleting,
	};
	s->listed_files[s->view.n_files++] = &s->files[i];
}

static inline void see_part(const struct world *w, unsigned i, struct sight *s)
{
	const struct wpart *p = &w->parts[i];
	struct partition_status *out = &s->parts[i];

	snprintf(s->ids[i], sizeof(s->ids[i]), "p%u", i);
	s->asks[i] = job_ask(&s->job, i);
	s->asks[i].ipus *= p->otherwise ? 2 : 1;
	if (p->run != RUN_OF_JOB)
		s->asks[i].attempt = p->run;
	*out = (struct partition_status){
		.state = p->state,
		.adopting = p->adopting && p->state == PARTITION_STATE_WAITING,
		.draining = p->draining,
		.controller = has_id(p) ? "c:8090" : NULL,
		.adopted = p->adopting && p->state == PARTITION_STATE_CREATING,
		.id = has_id(p) ? s->ids[i] : NULL,
		.by_file = w->by_file && has_id(p),
		.files = w->by_file && p->state == PARTITION_STATE_ACTIVE && p->fetched ? FILES : 0,
		.ask = is_asked(p) ? &s->asks[i] : NULL,
		.deadline_ms = is_asked(p) ? s->asks[i].deadline_ms : 0,
	};
	if (p->state == PARTITION_STATE_WAITING) {
		out->why = PARTITION_WHY_NO_ROOM;
		snprintf(out->message, sizeof(out->message), "no room");
	} else if (p->state == PARTITION_STATE_FAILED) {
		out->why = p->broken ? PARTITION_WHY_ERROR : PARTITION_WHY_VANISHED;
		snprintf(out->message, sizeof(out->message), p->broken ? "in PS_ERROR" : "is gone");
	} else if (p->state == PARTITION_STATE_RELEASING && p->broken) {
		snprintf(out->message, sizeof(out->message), "c:8090 doesn't answer");
	}
	s->view.held += p->state != PARTITION_STATE_NONE;
	if (i >= w->instances + w->surge && is_asked(p))
		s->surplus[s->view.n_surplus++] = i;
}

static const struct job_timing timing = {
	.backoff_ms = 10000,
	.backoff_max_ms = 300000,
	.start_deadline_ms = 900000,
	.unreachable_ms = 60000,
	.ranks_end_ms = 105000,
};

static inline void look(const struct world *w, struct sight *s)
{
	*s = (struct sight){.view.now_ms = NOW + w->later_ms};
	s->job = (struct job){
		.ns = TEXT("ns"),
		.name = TEXT("j"),
		.uid = TEXT("uid-of-j"),
		.generation = 1,
		.deleting = w->deleting,
		.deletion_ms = w->deleting_long ? NOW - 6000
			       : w->deleting    ? NOW
						: 0,
		.has_finalizer = w->finalizer,
		.instances = w->instances,
		.workers = w->workers,
		.ipus = 4,
		.clean = w->clean,
		.keeps_partitions = w->keeps,
		.problem = TEXT(w->problem),
		.launcher = w->launcher,
		.interactive = w->interactive,
		.ttl_ms = w->interactive ? 3600000 : 0,
		.restart = w->restart,
		.backoff_limit = w->limit,
		.suspend = w->suspend,
		.strategy = w->recreate ? JOB_RECREATE : JOB_ROLLING_UPDATE,
		.max_surge = w->surge,
		.max_unavailable = w->unavailable,
		.template_hash = 2,
		.deadline_ms = w->deadline ? 60000 : 0,
		.finished_ttl_ms = w->ttl ? 1000 : -1,
		.managed_by = w->foreign ? TEXT("example.com/other") : NULL,
		.force_release = w->force,
		.status = w->status,
	};
	if (w->codes)
		s->job.restart_codes[w->codes / 8] |= (uint8_t)(1u << (w->codes % 8));
	for (unsigned i = 0; i < MAX_INSTANCES; i++)
		see_part(w, i, s);
	for (unsigned n = 0; n < MAX_PODS; n++) {
		if (w->pods[n].there)
			see_pod(w, n, s);
	}
	for (unsigned i = 0; i < MAX_INSTANCES; i++) {
		if (w->files[i].there)
			see_files(w, i, s);
	}
	s->view.job = &s->job;
	s->view.timing = &timing;
	s->view.configured = !w->unsupporting;
	s->view.supported = w->unsupporting || w->uncovered > w->instances
				    ? 0
				    : w->instances - w->uncovered;
	s->view.unsupported = w->unsupported ? "no launcher here" : NULL;
	s->view.files = s->listed_files;
	s->view.pods = s->listed;
	s->view.partitions = s->parts;
	s->view.n_partitions = w->problem ? 0 : w->instances + w->surge;
	s->view.surplus = s->surplus;
	s->view.older = w->older;
	s->view.trouble = w->trouble;
	s->lost.run = w->status.n_instances ? w->status.instances[0].run : 0;
	memcpy(s->lost.partition, s->ids[0], strlen(s->ids[0]) + 1);
	s->view.lost = &s->lost;
	s->view.n_lost = w->lost;
	s->view.first = w->first;
	s->view.trouble_event = w->taken ? "NameConflict" : w->trouble ? "PodRefused" : NULL;
}

static inline unsigned number_of_action(const struct world *w, const struct job_action *a)
{
	if (a->kind == JOB_CREATE_POD)
		return a->instance * w->workers + a->worker;
	if (a->kind == JOB_DELETE_FILES)
		return (unsigned)strtoul(a->files->name + strlen("j-ipuof-"), NULL, 10);
	if (a->kind == JOB_CREATE_LAUNCHER)
		return MAX_WORKERS + a->instance;
	if (a->pod->launcher)
		return MAX_WORKERS + (unsigned)(a->pod->name[10] ? atoi(a->pod->name + 11) : 0);
	return (unsigned)strtoul(a->pod->name + strlen("j-worker-"), NULL, 10);
}

/* "ensure/0 create-pod/1 delete-pod/L0": instances, and Pods' numbers, those of launchers with L.
 */
static inline void say_plan(const struct world *w, const struct job_plan *plan, char *z,
			    size_t size)
{
	size_t len = 0;

	z[0] = '\0';
	for (size_t i = 0; i < plan->n_actions; i++) {
		const struct job_action *a = &plan->actions[i];
		const char *name = job_action_name(a->kind);

		len += (size_t)snprintf(z + len, size - len, "%s%s", len ? " " : "", name);
		if ((a->kind == JOB_DELETE_POD || a->kind == JOB_KILL_POD) && a->pod->launcher)
			len += (size_t)snprintf(z + len, size - len, "/L%u",
						number_of_action(w, a) - MAX_WORKERS);
		else if (a->kind == JOB_CREATE_POD || a->kind == JOB_DELETE_POD ||
			 a->kind == JOB_KILL_POD || a->kind == JOB_DELETE_FILES)
			len += (size_t)snprintf(z + len, size - len, "/%u", number_of_action(w, a));
		else if (a->kind == JOB_ENSURE || a->kind == JOB_ADOPT || a->kind == JOB_CLAIM ||
			 a->kind == JOB_RELEASE || a->kind == JOB_WRITE_FILES ||
			 a->kind == JOB_WRITE_SUPPORT || a->kind == JOB_CREATE_LAUNCHER)
			len += (size_t)snprintf(z + len, size - len, "/%u", a->instance);
	}
}

/* ---- what actions do ---- */

static inline void release_part(struct wpart *p)
{
	bool here = has_id(p);

	if (is_asked(p))
		*p = (struct wpart){.state = here ? PARTITION_STATE_RELEASING
						  : PARTITION_STATE_NONE};
}

static inline uint32_t run_of(const struct world *w, unsigned instance)
{
	return instance < w->status.n_instances ? w->status.instances[instance].run : 0;
}

/* An active one is reset for another run. */
static inline void ensure_part(struct wpart *p, uint32_t run)
{
	if (!is_asked(p) || p->otherwise)
		*p = (struct wpart){.state = PARTITION_STATE_WAITING};
	else if (p->state == PARTITION_STATE_ACTIVE && p->run != run)
		p->state = PARTITION_STATE_RESETTING;
	p->run = run;
}

static inline void do_action(struct world *w, const struct job_action *a)
{
	struct wpod *pod;

	switch (a->kind) {
	case JOB_ADD_FINALIZER:
		w->finalizer = true;
		break;
	case JOB_REMOVE_FINALIZER:
		w->finalizer = false;
		w->gone = w->deleting;
		break;
	case JOB_ENSURE:
		ensure_part(&w->parts[a->instance], run_of(w, a->instance));
		break;
	case JOB_ADOPT:
	case JOB_CLAIM:
		w->parts[a->instance] = (struct wpart){.state = PARTITION_STATE_WAITING,
						       .adopting = true,
						       .run = run_of(w, a->instance)};
		break;
	case JOB_RELEASE:
		release_part(&w->parts[a->instance]);
		break;
	case JOB_RELEASE_ALL:
		for (unsigned i = 0; i < MAX_INSTANCES; i++)
			release_part(&w->parts[i]);
		break;
	case JOB_ABANDON:
		for (unsigned i = 0; i < MAX_INSTANCES; i++)
			w->parts[i] = (struct wpart){.state = PARTITION_STATE_NONE};
		break;
	case JOB_WRITE_SUPPORT:
		w->unsupporting = false;
		w->uncovered = a->instance < w->instances ? w->instances - a->instance : 0;
		break;
	case JOB_WRITE_FILES:
		w->files[a->instance] = (struct wfiles){.there = true};
		break;
	case JOB_DELETE_FILES:
		w->files[number_of_action(w, a)] = (struct wfiles){.there = false};
		break;
	case JOB_CREATE_POD:
	case JOB_CREATE_LAUNCHER:
		w->pods[number_of_action(w, a)] = (struct wpod){.there = true, .instance = -1};
		break;
	case JOB_DELETE_POD:
		pod = &w->pods[number_of_action(w, a)];
		if (is_live(pod))
			pod->deleting = true;
		else
			*pod = (struct wpod){.instance = -1};
		break;
	case JOB_KILL_POD:
		w->pods[number_of_action(w, a)] = (struct wpod){.instance = -1};
		break;
	case JOB_OPEN_POD:
	case JOB_DELETE_WORKLOAD:
	case JOB_CREATE_GROUP:
	case JOB_DELETE_GROUP:
		break;
	case JOB_DELETE_JOB:
		w->deleting = true;
		w->gone = !w->finalizer;
		break;
	}
}

static inline void take_status(struct world *w, const struct job_plan *plan)
{
	if (!plan->has_status)
		return;
	job_status_done(&w->status);
	job_status_copy(&w->status, &plan->status);
}

/* Another world like it: only the status has memory of its own. */
static inline struct world copy_world(const struct world *w)
{
	struct world copy = *w;

	job_status_copy(&copy.status, &w->status);
	return copy;
}

static inline bool same_pods(const struct wpod *a, const struct wpod *b)
{
	return a->there == b->there &&
	       (!a->there ||
		(a->deleting == b->deleting && a->stale == b->stale && a->phase == b->phase));
}

static inline bool same_world(const struct world *a, const struct world *b)
{
	for (unsigned i = 0; i < MAX_INSTANCES; i++) {
		if (a->parts[i].state != b->parts[i].state ||
		    a->parts[i].otherwise != b->parts[i].otherwise ||
		    a->parts[i].adopting != b->parts[i].adopting ||
		    a->files[i].there != b->files[i].there ||
		    a->files[i].other != b->files[i].other)
			return false;
	}
	for (unsigned n = 0; n < MAX_PODS; n++) {
		if (!same_pods(&a->pods[n], &b->pods[n]))
			return false;
	}
	return a->finalizer == b->finalizer && a->gone == b->gone &&
	       job_status_equal(&a->status, &b->status);
}

#endif
