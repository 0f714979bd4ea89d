/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that want a look, each at most once in the queue and at most one run of each at a time;
 * failures come again with back-off. A turn of the loop runs a few and yields.
 */
#ifndef IPU_KUBE_WORKQUEUE_H
#define IPU_KUBE_WORKQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "loop/loop.h"

struct kube_workqueue;

/* Runs of a controller whose requests may wait at the same time: more than all connections can
 * carry (an API server takes 100 over one of HTTP/2), few enough that what ten thousand new jobs
 * ask for isn't held in memory at once, nor leaves its holes there. */
#define KUBE_RUNS_AT_ONCE 128

struct kube_workqueue_opts {
	struct loop *loop;
	const char *name;         /* the metrics' label; a static string */
	unsigned budget;          /* keys a turn; 0: 32 */
	unsigned max_running;     /* keys at the same time; 0: no limit */
	unsigned backoff_base_ms; /* 0: 500 */
	unsigned backoff_max_ms;  /* 0: 5 minutes */
	unsigned step_s; /* so long a step of a run may take, by the deadlines of what it calls */
};

/*
 * One run: looks at the key and starts what is to be done; kube_workqueue_done() ends it, from
 * within or later. key is borrowed until the run has ended. It's never called from within add.
 */
typedef void kube_work_fn(void *arg, struct str key);

struct kube_workqueue *kube_workqueue_new(const struct kube_workqueue_opts *opts, kube_work_fn *run,
					  void *arg);
/* Not from within run. Runs that haven't ended are forgotten. NULL is fine. */
void kube_workqueue_free(struct kube_workqueue *q);

/* A look as soon as possible. Added while it runs: once more, after that run. A wait by back-off
 * or add_after is cut short (news beat waiting), but not the failures' count. */
void kube_workqueue_add(struct kube_workqueue *q, struct str key);
/* A look in so long, unless an earlier one is due: the earliest wins. */
void kube_workqueue_add_after(struct kube_workqueue *q, struct str key, int64_t delay_ms);
/* A look when the failures' back-off has passed, at once where there were none: for what mustn't
 * cut a back-off short. */
void kube_workqueue_add_polite(struct kube_workqueue *q, struct str key);

/* The run of key has ended. err NULL: well, the failures are forgotten. Else it comes again after
 * its back-off (or after err.retry_after_ms, if that's longer). Returns the delay, 0 when well. */
int64_t kube_workqueue_done(struct kube_workqueue *q, struct str key, const struct err *err);

/* A run got on: one of several calls that it waits for has ended. Without it, a run that makes its
 * calls one after the other would look stuck (loop/pulse.h). */
void kube_workqueue_step(struct kube_workqueue *q);

/* A run that several calls belong to: it ends with the last of them, and by the first error of any.
 * All 0: there's none. */
struct kube_run {
	unsigned calls;  /* not yet answered */
	struct err *err; /* the first one; owned, NULL: none */
};
/* It counts as a call of its own, so that it can't end before all are started. */
void kube_run_begin(struct kube_run *run);
/* One of its calls has ended. True: that was the last; then *ret is the first error, NULL if all
 * went well, and the caller's. */
bool kube_run_call_ended(struct kube_run *run, struct kube_workqueue *q, const struct err *err,
			 struct err **ret);
/* Its calls are given up. */
void kube_run_cancel(struct kube_run *run);

unsigned kube_workqueue_failures(const struct kube_workqueue *q, struct str key);
size_t kube_workqueue_depth(const struct kube_workqueue *q); /* ready, not running */
size_t kube_workqueue_running(const struct kube_workqueue *q);
size_t kube_workqueue_waiting(const struct kube_workqueue *q); /* for a time to come */

/* Stops starting runs (a lost lease, the end), and goes on. Keys are still taken. */
void kube_workqueue_pause(struct kube_workqueue *q);
void kube_workqueue_resume(struct kube_workqueue *q);

#endif
