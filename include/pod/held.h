/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an annotated Pod neither runs nor asks for IPUs: as job/held.h says it of jobs. Pure.
 */
#ifndef IPU_POD_HELD_H
#define IPU_POD_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "job/held.h"
#include "pod/model.h"

/* now_ms: wall. active_ms: since when it may use its partition, 0: it has none, or nobody says.
 * False: it has its node or has ended, is being deleted, is a job's, or was let go just now (then
 * ret->due_ms is when it would be held, else 0). What ret has of the Pod's is borrowed. */
bool pod_is_held(const struct pod *pod, int64_t active_ms, int64_t now_ms, struct job_held *ret);

#endif
