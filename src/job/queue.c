/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kueue's plain Pod groups (kueue.sigs.k8s.io, "Run Plain Pods"): labels and annotations of their
 * members, and our gate.
 */
#include "job/queue.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/str.h"

#define GROUP_COUNT "kueue.x-k8s.io/pod-group-total-count"
/* "false": when all have ended, the group is done, and Kueue lets go of the Pods. A restart is
 * another group. */
#define RETRIABLE "kueue.x-k8s.io/retriable-in-group"

const struct kube_resource JOB_WORKLOADS = {"kueue.x-k8s.io", "v1beta1", "workloads", "Workload",
					    true};

void job_queue_mark(struct jmut_doc *doc, const struct job *job, uint32_t instance)
{
	struct jmut *root = jmut_root(doc), *meta = jmut_need_object(doc, root, "metadata");
	struct jmut *labels = jmut_need_object(doc, meta, "labels");
	struct jmut *annotations = jmut_need_object(doc, meta, "annotations");

	jmut_set_str(doc, labels, JOB_LABEL_QUEUE, job->queue_name);
	jmut_set(doc, labels, JOB_QUEUE_GROUP,
		 jmut_strf(doc, "%s-%" PRIu32 "-%" PRIu32, job->name, instance,
			   job_memory(job, instance)->run));
	jmut_set(doc, annotations, GROUP_COUNT, jmut_strf(doc, "%" PRIu32, job->workers));
	jmut_set_str(doc, annotations, RETRIABLE, "false");
	job_gate_close(doc, jmut_need_object(doc, root, "spec"));
}

void job_gate_close(struct jmut_doc *doc, struct jmut *pod_spec)
{
	struct jmut *gates = jmut_need_array(doc, pod_spec, "schedulingGates");
	struct jmut *gate = jmut_object(doc);

	jmut_set_str(doc, gate, "name", JOB_GATE);
	jmut_push(doc, gates, gate);
}

void job_gate_open(struct jmut_doc *doc, const char *pod_uid, const char *partition_id,
		   const char *label_key, const char *label_value)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *spec = jmut_object(doc);
	struct jmut *annotations = jmut_object(doc), *selector = jmut_object(doc);

	jmut_set_str(doc, annotations, JOB_ANNOTATION_PARTITION, partition_id);
	jmut_set_str(doc, meta, "uid", pod_uid);
	jmut_set(doc, meta, "annotations", annotations);
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, spec, "schedulingGates", jmut_array(doc));
	if (label_key) {
		jmut_set_str(doc, selector, label_key, label_value);
		jmut_set(doc, spec, "nodeSelector", selector);
	}
	jmut_set(doc, root, "spec", spec);
	jmut_set_root(doc, root);
}
