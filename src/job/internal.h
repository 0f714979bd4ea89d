/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What controller.c (stores, queue, the pass over one job), apply.c (actions as API calls) and
 * tell.c (Events) share. A struct job_ctx is what the controller remembers of a job between passes:
 * nothing that it couldn't do without.
 */
#ifndef IPU_JOB_INTERNAL_H
#define IPU_JOB_INTERNAL_H

#include "core/log.h"
#include "core/map.h"
#include "job/classes.h"
#include "job/controller.h"
#include "job/plan.h"
#include "kube/store.h"
#include "kube/workqueue.h"
#include "loop/op.h"

/* What the store keeps of an IPUJob: the model, and the spec as bytes, to make Pods from. Jobs that
 * are made from one template have the same: it's interned. */
struct job_item {
	struct job *job;
	const char *spec;
};

/* What an owner was told of one instance last. */
struct job_told {
	enum partition_state state;
	const char *id, *controller; /* interned */
	bool draining;
	uint32_t attempt; /* which run it was active for */
	bool delayed;     /* that its release takes long */
};

/* Pods of which one Event tells, when the pass ends: a gang of 64 would use up what a job may say.
 */
struct job_tally {
	unsigned n;
	char *first, *message; /* the first one's name, and words about it; owned */
};

/* Which objects of a launcher's are known to be there as they should be, and what for. */
struct job_supported {
	unsigned good;                      /* a bit for each of enum job_support */
	uint32_t instances, workers, slots; /* of the job */
	uint32_t covered; /* the Role names the workers of so many instances, from the first on */
	uint64_t config_hash; /* what the ConfigMap holds: struct job_files */
};

/* A status that was sent, and the one that is weighed against it. */
struct job_sent {
	struct job_status sent, other;
	/* Of unsure: the first, upon the same, of which nobody knows whether it has taken effect.
	 */
	struct job_status first;
	bool has_first;
};

struct job_ctx {
	struct job_controller *c;
	const char *key; /* "namespace/name"; interned */
	const char *uid; /* interned */
	struct job_told *told;
	size_t n_told;
	struct job_tally created, failed;
	const char *told_wait; /* the last Event's reason of waiting; static */
	char *trouble;         /* the API server's last word on what was to be made */
	const char *trouble_event;
	/* Monotonic: counts of Pods alone aren't written before, and the time to the next of them.
	 */
	int64_t counts_at_ms, counts_wait_ms;
	struct job_lost *lost; /* owned: Pods that have gone, of each instance the last one */
	size_t n_lost;
	struct job_supported support;
	struct log_limit class_quiet; /* of a PriorityClass that isn't there */
	struct log_limit quiet;       /* of a pass that fails again and again */
	struct job_sent *kept;        /* other: what the API server made of it; NULL: the same */
	/* Its write failed, and may have taken effect all the same. other: what was there before.
	 */
	struct job_sent *unsure;

	bool warned;         /* of the template */
	bool told_group;     /* that there is nobody for its schedulingPolicy */
	bool looked;         /* at the job, in an earlier pass */
	bool claimed;        /* of a job that another operator ran: its partitions */
	bool looked_at_pods; /* whoever was there before is somebody else's to count */
	bool pods_measured;  /* the time until its Pods were there is counted */

	struct kube_run run;   /* the present pass */
	struct list pending;   /* what its calls belong to (call.c) */
	struct list news;      /* in c->news: its status waits for its turn */
	int64_t news_since_ms; /* since when; 0: it doesn't */
	struct scope scope;
};

struct job_controller {
	struct job_controller_opts opts;
	char *ns;
	struct kube_store *jobs, *pods, *files;
	struct job_classes *classes;
	struct job_groups *groups;
	struct kube_workqueue *queue;
	struct map *ctxs; /* by key */
	bool started;     /* everything has been read: passes run */

	unsigned n_calls, n_statuses; /* of all jobs, not yet answered; how many write a status */
	struct list news;             /* contexts whose status waits for its turn (turn.c) */
	struct loop_timer news_timer; /* the first one's has waited long enough */
};

/* ---- apply.c ---- */

/* Starts what the plan says; ctx->run counts what is under way. */
void job_apply(struct job_ctx *ctx, const struct job_item *item, const struct job_plan *plan,
	       const struct partition_status *partitions);
/* Gives up the calls that are under way. */
void job_apply_cancel(struct job_ctx *ctx);
/* The status that was to be written last, where that failed or nobody knows what became of it, and
 * nobody else has written one since; NULL. */
const struct job_status *job_unsure(const struct job_ctx *ctx, const struct job *job);
/* What was remembered of statuses that were sent. */
void job_apply_forget(struct job_ctx *ctx);

/* ---- turn.c ---- */

void job_turn_init(struct job_controller *c);
void job_turn_done(struct job_controller *c);
/* Whether the status may be written in this pass. If not, another pass comes for it. */
bool job_turn_take(struct job_ctx *ctx, const struct job *job, const struct job_status *want);
/* There is nothing to be written. */
void job_turn_leave(struct job_ctx *ctx);
/* A call has been answered: others may have their turn. */
void job_turn_next(struct job_controller *c);

/* ---- support_write.c ---- */

/* What launchers need, as far as it isn't known to be there. covered: of so many instances, from
 * the first on, the workers are known to be the job's, and the Role may name them; 0: of none, and
 * only what workers need themselves is made. */
void job_support_start(struct job_ctx *ctx, const struct job_item *item, uint32_t covered);
/* What workers need is there. A ConfigMap that was removed or changed since then isn't. */
bool job_is_configured(const struct job_ctx *ctx, const struct job *job);
/* All of it is there, for the launchers of so many instances. */
uint32_t job_supported(const struct job_ctx *ctx, const struct job *job);

/* ---- controller.c ---- */

void job_call_ended(struct job_ctx *ctx, const struct err *err); /* one of ctx->run's */

/* ---- measure.c ---- */

void job_measure_open(void); /* before the others */
void job_measure_status(const struct job *job, const struct job_status *before,
			const struct job_status *stored);
void job_measure_pods(struct job_ctx *ctx, const struct job *job, const struct job_status *now);

/* ---- tell.c: Events ---- */

void job_tell(struct job_ctx *ctx, const struct job *job, enum kube_event_level level,
	      const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void job_tell_partitions(struct job_ctx *ctx, const struct job *job,
			 const struct partition_status *partitions, size_t n);
void job_tell_waiting(struct job_ctx *ctx, const struct job *job, const struct job_plan *plan);
void job_tell_template(struct job_ctx *ctx, const struct job_item *item);
/* After a status was stored: what has changed in it. before: what the status was when the one that
 * is stored now was sent. The job itself may show it already: the watch can be faster than the
 * answer. */
void job_tell_status(struct job_ctx *ctx, const struct job *job, const struct job_status *before,
		     const struct job_status *stored);
/* Counted until job_tell_pods. */
void job_count_created(struct job_ctx *ctx, const char *pod);
void job_count_failed(struct job_ctx *ctx, const struct job_pod *pod);
void job_tell_pods(struct job_ctx *ctx, const struct job *job);
void job_told_free(struct job_ctx *ctx);

#endif
