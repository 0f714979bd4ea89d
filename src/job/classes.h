/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster's PriorityClasses, which order the queue of jobs that wait (scheduling.k8s.io/v1).
 * Owns its store. Private to job. Uses kube.
 */
#ifndef IPU_JOB_CLASSES_H
#define IPU_JOB_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "kube/client.h"

struct job_classes;

/* on_change: a value is another one now, or they have become known. */
struct job_classes *job_classes_new(struct kube_client *kube, void (*on_change)(void *arg),
				    void *arg);
void job_classes_free(struct job_classes *c); /* NULL is fine */
/* They have been read once, or can't be: then every priority is 0. */
bool job_classes_known(const struct job_classes *c);
/* The value of a class; name NULL or "": of the one that is the default. 0 for one that isn't
 * there, and ret_known (may be NULL) is false. */
int32_t job_classes_value(const struct job_classes *c, const char *name, bool *ret_known);

#endif
