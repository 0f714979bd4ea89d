/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One API call of a pass, as apply.c, apply_groups.c and support_write.c start it: what its answer
 * belongs to, and the look at what already has a name that is needed. Private to src/job.
 */
#ifndef IPU_JOB_CALL_H
#define IPU_JOB_CALL_H

#include "job/group.h"
#include "job/internal.h"
#include "job/launcher.h"

struct job_call;

/* What to do with an object of the job's own that was found; it must end the call. */
typedef void job_call_own_fn(struct job_call *call, const struct json *object);

/* Counts in ctx->run; freed when its answer comes (job_call_end), or with the scope's end. */
struct job_call {
	struct list link; /* in ctx->pending */
	struct job_ctx *ctx;
	const struct kube_resource *found; /* what job_look_for looks for */
	job_call_own_fn *on_own;
	struct kube_store *store; /* that lacks it; one that is there as long as the controller */
	char *object;             /* its name, for calls about objects */
	bool is_support;          /* about one of a launcher's objects … */
	enum job_support support; /* … this one (support_write.c) */
	enum job_group_api group; /* whose PodGroup it's about (apply_groups.c) */
	struct job_status status; /* that was sent */
	struct job_status before; /* what the job had then */
	bool has_status;
};

struct job_call *job_call_new(struct job_ctx *ctx, const char *object);
void job_call_end(struct job_call *call, const struct err *err); /* err NULL: went well */

/* The job as it is now; NULL if it went meanwhile or is another one of that name. */
const struct job *job_now(const struct job_ctx *ctx);

/* The API server's last word on what was to be made: message is the context's from then on, NULL
 * takes it back. event: static. */
void job_set_trouble(struct job_ctx *ctx, const char *event, char *message);

/* One of the call's name is there, and nobody knew of it: the job's own goes to on_own; another's
 * is a conflict that the job shows, and the call ends with ERR_EXISTS. */
void job_look_for(struct job_call *call, const struct kube_resource *resource,
		  job_call_own_fn *on_own);
/* The same for what the store lacks: the job's own is put into it. */
void job_look_for_stored(struct job_call *call, const struct kube_resource *resource,
			 struct kube_store *store);

#endif
