/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gang scheduling: the PodGroup of an instance, for Volcano or for the coscheduling of
 * scheduler-plugins, how a Pod names its group, and what the store keeps of one. Pure.
 */
#ifndef IPU_JOB_GROUP_H
#define IPU_JOB_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/model.h"
#include "kube/client.h"

/* Whose PodGroups. */
enum job_group_api {
	JOB_GROUP_NONE,
	JOB_GROUP_VOLCANO,      /* scheduling.volcano.sh/v1beta1 */
	JOB_GROUP_COSCHEDULING, /* scheduling.x-k8s.io/v1alpha1 */
	JOB_GROUP_APIS,         /* how many there are */
};

const struct kube_resource *job_group_resource(enum job_group_api api); /* not of NONE */

/* Which of those that are there schedules the job's Pods: the one that the template's schedulerName
 * means; where it has none, Volcano before scheduler-plugins. */
enum job_group_api job_group_choose(const struct job *job, const bool there[JOB_GROUP_APIS]);

/* What the store keeps. */
struct job_group {
	char *ns, *name, *uid;
	char *job_key;   /* "namespace/job", from the label graphcore.ai/job */
	char *owner_uid; /* controller reference; NULL: none */
	enum job_group_api api;
	int64_t instance; /* label graphcore.ai/instance; -1: none, or not a number */
	uint64_t hash;    /* annotation graphcore.ai/template: struct job.group_hash; 0: none */
	bool deleting;
};

/* Errors: ERR_INVALID (no PodGroup of an API that is known here, or no identity). */
int job_group_decode(const struct json *object, struct job_group **ret, struct err *err);
void job_group_free(struct job_group *g); /* NULL is fine */
bool job_group_equal(const struct job_group *a, const struct job_group *b);

char *job_group_name(const struct job *job, uint32_t instance); /* the caller frees */

/* spec is the IPUJob's. The root of doc is the PodGroup. */
void job_group_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		     uint32_t instance, enum job_group_api api);

/* Makes the worker Pod in doc (its root) a member; nothing with NONE. Where the template names no
 * scheduler, Volcano's Pods get Volcano's; for scheduler-plugins nobody knows what it's called. */
void job_group_mark(struct jmut_doc *doc, const struct job *job, uint32_t instance,
		    enum job_group_api api);

#endif
