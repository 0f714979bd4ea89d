/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec's half of job_decode. Private to job.
 */
#ifndef IPU_JOB_MODEL_SPEC_H
#define IPU_JOB_MODEL_SPEC_H

#include "job/model.h"

/* What an IPUJob asks for: its spec, and the labels and annotations that say more. job is zeroed
 * there. What breaks a rule is read as if it weren't there, as far as that can be. */
void job_decode_spec(struct job *job, const struct json *object);

#endif
