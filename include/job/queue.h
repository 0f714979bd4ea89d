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

#define JOB_QUEUE_GROUP "kueue.x-k8s.io/pod-group-name"

/* What Kueue makes for a group, under its name. */
extern const struct kube_resource JOB_WORKLOADS;

/* Makes the worker Pod in doc (its root) a member of its run's group, and puts our gate before it.
 * Kueue's own webhook adds Kueue's. */
void job_queue_mark(struct jmut_doc *doc, const struct job *job, uint32_t instance);

/* ---- our gate, before annotated Pods too ---- */

#define JOB_GATE "graphcore.ai/partition" /* until there is one */

void job_gate_close(struct jmut_doc *doc, struct jmut *pod_spec);
/* The merge patch that opens it, the last one, of the Pod with that UID alone: the partition's name
 * comes with it, and the node selector of its controller (label_key NULL: none). The root of doc.
 */
void job_gate_open(struct jmut_doc *doc, const char *pod_uid, const char *partition_id,
		   const char *label_key, const char *label_value);

#endif
