/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that neither runs nor has ended, by its spec and its status. Owns nothing. Uses the model.
 */
#include "job/held.h"

#include <string.h>

static enum job_condition_type stage_of(const struct job *job)
{
	for (int i = 0; i < JOB_STAGES; i++)
		if (job_condition_on(&job->status, i))
			return (enum job_condition_type)i;
	return JOB_PENDING;
}

static const char *plain_of(const struct job *job)
{
	if (!job->suspend)
		return "it isn't in the queue for IPUs, and its Pods don't run";
	return job->queue_name ? "Kueue hasn't admitted it: until then it asks for no IPUs"
			       : "it asks for no IPUs until it's let go (spec.suspend)";
}

bool job_is_held(const struct job *job, int64_t now_ms, struct job_held *ret)
{
	enum job_condition_type stage = stage_of(job);
	const char *words = job->status.last_message;
	int64_t since_ms = job_condition(&job->status, stage)->transition_ms;

	ret->due_ms = 0;
	if (job->deleting ||
	    (stage != JOB_PENDING && stage != JOB_RESTARTING && stage != JOB_SUSPENDED))
		return false;
	if (!since_ms)
		since_ms = job->created_ms;
	if (!job->suspend && now_ms - since_ms < JOB_HELD_AFTER_MS) {
		ret->due_ms = since_ms + JOB_HELD_AFTER_MS;
		return false;
	}
	ret->reason = !job->suspend ? "NotRunning" : job->queue_name ? "HeldByKueue" : "Suspended";
	ret->plain = plain_of(job);
	/* "Suspended" says no more than the reason. */
	ret->message = words && words[0] && strcmp(words, job_condition_name(stage)) != 0
			       ? words
			       : ret->plain;
	ret->since_ms = since_ms;
	ret->ipus = (int64_t)job->instances * job->ipus;
	return true;
}
