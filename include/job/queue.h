/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs in a queue of Kueue's: the workers of a run are a plain Pod group of Kueue's, made before
 * there is a partition, behind Kueue's scheduling gate and one of ours. doc/design/kueue.md.
 */
#ifndef IPU_JOB_QUEUE_H
#define IPU_JOB_QUEUE_H

#include <stdint.h>

#include "core/json.h"
#include "job/model.h"
#include "job/pod.h"
#include "kube/client.h"

#define JOB_GATE        "graphcore.ai/partition" /* ours: until there is one */
#define JOB_QUEUE_GROUP "kueue.x-k8s.io/pod-group-name"

/* What Kueue makes for a group, under its name. */
extern const struct kube_resource JOB_WORKLOADS;

/* Makes the worker Pod in doc (its root) a member of its run's group, and puts our gate before it.
 * Kueue's own webhook adds Kueue's. */
void job_queue_mark(struct jmut_doc *doc, const struct job *job, uint32_t instance);

/* The merge patch that opens our gate, the last one: the partition's name and the node selector of
 * its controller come with it. The root of doc. */
void job_queue_open(struct jmut_doc *doc, const struct job_pod *pod, const struct job_ipus *ipus);

#endif
