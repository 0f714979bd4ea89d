/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a job neither runs nor has ended: for those who show what isn't in the queue for IPUs
 * (doc/design/page.md). Pure. Whether it's in the queue, the partition layer knows.
 */
#ifndef IPU_JOB_HELD_H
#define IPU_JOB_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "job/model.h"

/* What isn't suspended is given so long to get running. */
#define JOB_HELD_AFTER_MS 10000

struct job_held {
	const char *reason;  /* "Suspended", "HeldByKueue", "NotRunning" */
	const char *message; /* its status's words; the job's, or static */
	const char *plain;   /* words in which nothing is named */
	int64_t since_ms;    /* wall; 0: unknown */
	int64_t ipus;        /* of all its instances */
	int64_t due_ms;      /* where it isn't held */
};

/* now_ms: wall. False: it runs, has ended, is being deleted, or was let go just now: then
 * ret->due_ms is when it would be held (wall), else 0. */
bool job_is_held(const struct job *job, int64_t now_ms, struct job_held *ret);

#endif
