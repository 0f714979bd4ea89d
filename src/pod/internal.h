/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What controller.c (stores, queue, the pass over one Pod), apply.c (actions as API calls, and who
 * is gone) and tell.c (Events) share. A struct pod_ctx is what the controller remembers of a
 * Pod between passes: nothing that it couldn't do without.
 */
#ifndef IPU_POD_INTERNAL_H
#define IPU_POD_INTERNAL_H

#include "core/log.h"
#include "core/map.h"
#include "kube/store.h"
#include "kube/workqueue.h"
#include "loop/op.h"
#include "pod/controller.h"

/* What its Events said of its partition last. */
struct pod_told {
	enum partition_state state;
	char *id, *controller; /* owned */
	uint32_t ipus;
	bool draining;
	bool delayed; /* that its release takes long */
};

struct pod_ctx {
	struct pod_controller *c;
	char *ns, *name, *uid;
	char *object; /* "namespace/name", for the log */
	bool looked;  /* at least once by this process */
	struct pod_told told;
	const char *told_event; /* the last reason of the planner's; static */
	bool adopted, fenced;
	/* Held back: until when (monotonic; 0: it isn't), since what was refused, how often so far.
	 */
	int64_t retry_ms;
	unsigned refusals;
	const char *trouble_event; /* static */
	char *trouble;
	bool said;       /* its annotation was written by this process, … */
	int64_t said_ms; /* … then (monotonic) */

	struct kube_run run; /* the present pass */
	struct list pending; /* what its calls belong to (apply.c) */
	struct scope scope;
	struct log_limit quiet; /* of a pass that fails again and again */
};

struct pod_controller {
	struct pod_controller_opts opts;
	char *ns;
	struct kube_store *pods, *files;
	struct kube_workqueue *queue;
	struct map *ctxs; /* by UID */
	bool started;     /* everything has been read: passes run */
};

/* ---- apply.c ---- */

/* Starts what the plan says; ctx->run counts what is under way. */
void pod_apply(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan,
	       const struct partition_status *part, const struct job_files *files);
/* Asks the API server whether the Pod is still there, and releases what is asked for it if not. */
void pod_look_for_owner(struct pod_ctx *ctx);
/* Gives up the calls that are under way. */
void pod_apply_cancel(struct pod_ctx *ctx);

/* ---- controller.c ---- */

void pod_call_ended(struct pod_ctx *ctx, const struct err *err); /* one of ctx->run's */

/* ---- tell.c: Events ---- */

void pod_tell(struct pod_ctx *ctx, enum kube_event_level level, const char *reason, const char *fmt,
	      ...) __attribute__((format(printf, 4, 5)));
/* Of its partition, pod NULL: the Pod is gone. */
void pod_tell_partition(struct pod_ctx *ctx, const struct pod *pod,
			const struct partition_status *part);
void pod_tell_plan(struct pod_ctx *ctx, const struct pod *pod, const struct pod_plan *plan);
void pod_told_free(struct pod_ctx *ctx);

#endif
