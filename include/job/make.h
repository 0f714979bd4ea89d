/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's Pods as they are created, with all that makes them what they are: the template, the
 * values of their partition, the queue and the gang that they belong to. Pure.
 */
#ifndef IPU_JOB_MAKE_H
#define IPU_JOB_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/group.h"
#include "job/model.h"
#include "job/pod.h"
#include "partition/types.h"

/* A worker, or the launcher of an instance: spec is the IPUJob's, part what its instance has (a
 * worker in a queue is made before it has anything), api who schedules gangs here. The root of doc
 * is the Pod. Errors: ERR_INVALID where the template can't be made a Pod. */
int job_make_pod(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		 uint32_t instance, uint32_t worker, bool launcher,
		 const struct partition_status *part, enum job_group_api api,
		 const struct job_pod_settings *settings, struct err *err);

#endif
