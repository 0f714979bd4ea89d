/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing into a job's status in memory: one of Pending, Running, Succeeded and Failed is True at a
 * time, and a condition's transition time moves only when it does. Used by the planner.
 */
#ifndef IPU_JOB_STATUS_H
#define IPU_JOB_STATUS_H

#include <stdint.h>

#include "job/model.h"

/* Makes one condition True with reason and message; those of the others that are present become
 * False and keep their words. Times move only for what changes. */
void job_status_set(struct job_status *s, enum job_condition_type on, int64_t now_ms,
		    const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A condition beside the stages: one that was never True and isn't now isn't written. */
void job_status_mark(struct job_status *s, enum job_condition_type type, bool on, int64_t now_ms,
		     const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* launcherStatus and lastMessage: the columns that people see. */
void job_status_say(struct job_status *s, const char *launcher_status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As the API will give it back: whole UTF-8 characters, one line; at most max bytes, with … if it
 * was cut. In place. */
void job_status_clean(char *z, size_t max);

/* Cuts the instances' messages so that the status of the largest job fits what etcd takes:
 * doc/design/job-states.md, "How large it gets". */
void job_status_bound(struct job_status *s);

#endif
