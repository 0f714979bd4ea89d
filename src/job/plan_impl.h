/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the planner's files share: plan.c (the job), plan_gang.c (the Pods of an instance, looked at
 * together), plan_instance.c (the table of an instance), plan_run.c (how a run ends) and
 * plan_status.c. Everything here lives for one call of job_plan.
 */
#ifndef IPU_JOB_PLAN_IMPL_H
#define IPU_JOB_PLAN_IMPL_H

#include "job/plan.h"

struct work;

struct gang { /* one instance, and its Pods */
	uint32_t instance;
	const struct partition_status *part;
	struct job_instance *mem;       /* of the status that is being made */
	const struct job_pod **workers; /* by number: who has the name */
	const struct job_pod *launcher; /* the same */
	uint32_t there, missing, stale, running, ready, succeeded, live;
	bool leaving;                        /* one of them is in deletion */
	const struct job_pod *failed;        /* the launcher before a worker */
	const struct job_pod *early;         /* a worker that has ended before its launcher */
	const struct job_pod *waiting;       /* the first one that neither runs nor has ended */
	const struct job_pod *stuck;         /* in deletion, and its node says nothing */
	const struct job_pod *preempted;     /* Kueue takes its place away */
	uint32_t gated, queued;              /* workers behind our gate; behind Kueue's */
	const struct job_pod *conflict, *on; /* on: may run, and says on which partition */
	bool lost;     /* a Pod of this run was on this partition, and has gone */
	bool outdated; /* a Pod is made from another template than the job has now */
	bool running_now;
};

struct work {
	const struct job_view *v;
	const struct job *job;
	struct job_plan *out;
	struct gang *gangs; /* n of them: the wanted ones, then the surge ones */
	size_t n;
	const struct job_pod **places;  /* of all gangs' workers */
	const struct job_pod **misfits; /* ours, and the job has no place for them */
	size_t n_misfits;
	bool partition_active, rolling, unwell;
};

/* ---- plan.c ---- */

struct job_action *job_plan_add(struct work *w, enum job_action_kind kind, uint32_t instance);
/* What the job waits for: the first reason counts. event: an Event's reason or NULL. */
void job_plan_wait(struct work *w, const char *event, enum partition_why why, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void job_plan_wake(struct work *w, int64_t at_ms); /* a look is due then */

/* ---- plan_gang.c ---- */

void job_plan_gangs(struct work *w); /* fills w->gangs, ->places, ->misfits */
void job_plan_gangs_done(struct work *w);
bool job_pod_may_run(const struct job_pod *pod);
/* While it may run, the instance's partition is in use: a worker that only waits for its launcher's
 * processes doesn't count. */
bool job_pod_in_use(const struct work *w, const struct job_pod *pod);
bool job_pod_is_ours(const struct work *w, const struct job_pod *pod);
bool job_pod_is_stale(const struct gang *g, const struct job_pod *pod);
/* In deletion, and not ended long after its grace period. */
bool job_pod_is_stuck(struct work *w, const struct job_pod *pod);
/* A worker in which processes of a launcher that has ended may still be ending. */
bool job_pod_may_have_ranks(struct work *w, const struct job_pod *pod);
/* When the last of them has, whatever happens: release_ms as it's remembered, or as it is to be. */
int64_t job_plan_ranks_end(const struct work *w, int64_t release_ms);
/* Of the gang's own Pods, those that `which` wants: deleted if they aren't yet. Stuck ones are
 * removed without their node's word when the partition is gone; until then that is released.
 * Returns how many there still are. */
typedef bool job_pod_test(const struct work *w, const struct job_pod *pod);
size_t job_plan_stop(struct work *w, struct gang *g, job_pod_test *which);
/* Of the stale ones. */
void job_plan_stop_stale(struct work *w, struct gang *g);
/* A misfit may still run on this instance's partition. */
bool job_plan_misfit_in_use(struct work *w, uint32_t instance);
void job_plan_release(struct work *w, const struct gang *g);

/* ---- plan_run.c: changes of what is remembered; what follows from them is the next pass's ---- */

/* The run has ended badly (exit code 137 where there is none): restarted or failed, as the policy
 * says. */
void job_run_failed(struct work *w, struct gang *g, int exit_code, bool yields, const char *fmt,
		    ...) __attribute__((format(printf, 5, 6)));
void job_run_succeeded(struct work *w, struct gang *g);
/* The instance fails, whatever its policy is. */
void job_run_given_up(struct work *w, struct gang *g, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Its Pods can't start, for too long. counts: against backOffLimit. */
void job_run_unstartable(struct work *w, struct gang *g, bool counts, const char *why);
/* It goes on with another run, and that is nobody's fault. */
void job_run_renew(struct gang *g, bool yields, const char *message);
void job_run_next(struct gang *g); /* over, and nothing is left of it */

/* ---- plan_instance.c ---- */

void job_plan_instance(struct work *w, struct gang *g);
void job_plan_outgrown(struct work *w, struct gang *g); /* the job doesn't have it any more */

/* Before Pods: the ConfigMap that they mount. True: they find what they need. */
bool job_plan_files(struct work *w, const struct gang *g);
/* Asked for otherwise than the job wants it now, or for another run. */
bool job_plan_wants_otherwise(const struct work *w, const struct gang *g);
bool job_plan_is_for_this_run(const struct gang *g);
/* It has its IPUs: its time runs. Of the times of a run (retry, since, running) one is remembered.
 */
void job_plan_note_start(const struct work *w, struct gang *g);
void job_plan_say_broken(struct work *w, const struct gang *g);
/* There is trouble with what was to be made: for startDeadlineSeconds, then the run is over. */
void job_plan_await_mending(struct work *w, struct gang *g);

/* ---- plan_queue.c ---- */

/* The gang of a job in a queue of Kueue's, until its gates are open. False: they are, and it's like
 * any other. */
bool job_plan_queue(struct work *w, struct gang *g);

/* Pods that never started, and are to go: Kueue holds them until their group's Workload goes. */
void job_plan_leave_queue(struct work *w);

/* ---- plan_status.c ---- */

struct job_status *job_plan_begin_status(struct work *w);
void job_plan_end_status(struct work *w); /* from the instances */
/* A stage that isn't the instances': launcherStatus and lastMessage go with it. */
void job_plan_set_stage(struct work *w, enum job_condition_type stage, const char *reason,
			const char *message);

#endif
