/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the webhooks say of an IPUJob without asking anybody: its defaults, all that is wrong with
 * it, and what is legal but unwise. Pure. The tables are in doc/reference/validation.md.
 */
#ifndef IPU_ADMISSION_JOB_H
#define IPU_ADMISSION_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "admission/findings.h"
#include "core/err.h"
#include "core/json.h"
#include "job/pod.h"
#include "partition/policy.h"

/* The root of doc: the object with every default that it doesn't have, and otherwise as it is.
 * Done to its own result, it changes nothing. before: what is stored, NULL on a CREATE; a
 * rollingUpdate that only stayed behind from there, while the strategy became Recreate, goes.
 * Errors: ERR_INVALID (no object). What has no shape to put defaults into is left alone: the check
 * tells. */
int admission_job_default(struct jmut_doc *doc, const struct json *before,
			  const struct json *object, struct err *err);

/* What is known beside the object. Zeroed: nothing. */
struct admission_job_view {
	/* Of the job's namespace (partition_policy_for); NULL: no limits are known. */
	const struct partition_policy *policy;
	/* IPUs of the largest controller, whoever uses them now; 0: not known, and that's as long
	 * as one of the configured ones hasn't answered. */
	uint32_t largest_ipus;
	const struct job_pod_settings *pods; /* NULL: not known */
};

/* Everything that is wrong, each with its field path and what would be right, then what is unwise.
 * The rules are those of job_validate, and those that only a webhook can have. before: what is
 * stored, NULL on a CREATE. Of an update only that is judged which it could have made wrong: one
 * that leaves the spec as it was always passes, so that an object from before a rule can still be
 * labelled, finalized and deleted. */
void admission_job_check(const struct admission_job_view *view, const struct json *before,
			 const struct json *now, struct admission_findings *out);

#endif
