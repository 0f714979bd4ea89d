/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who in the cluster schedules gangs, and the PodGroups that are there: asked for once a job wants
 * one, so that a cluster without them costs nothing. Private to src/job.
 */
#ifndef IPU_JOB_GROUPS_H
#define IPU_JOB_GROUPS_H

#include <stdbool.h>

#include "core/str.h"
#include "job/group.h"

struct job_groups;

struct job_groups_ops {
	void (*on_known)(void *arg);                       /* who schedules gangs: news */
	void (*on_change)(void *arg, const char *job_key); /* a PodGroup of that job's */
};

/* ns NULL: of all namespaces. Borrows kube, ns and ops. */
struct job_groups *job_groups_new(struct kube_client *kube, const char *ns,
				  const struct job_groups_ops *ops, void *arg);
void job_groups_free(struct job_groups *g); /* NULL is fine */

/* The job wants one: asks the API server who has them, and some minutes later again where nobody
 * schedules the job's Pods that way. */
void job_groups_want(struct job_groups *g, const struct job *job);
/* The API server said that there is no such API, or no more: what was known isn't. */
void job_groups_doubt(struct job_groups *g);

bool job_groups_known(const struct job_groups *g);
/* Who would schedule the job's Pods; NONE also while that isn't known. */
enum job_group_api job_groups_api(const struct job_groups *g, const struct job *job);
/* Those with the job's label: an array for the caller to free, of what is borrowed until the stores
 * change. */
const struct job_group **job_groups_of(const struct job_groups *g, struct str job_key,
				       size_t *ret_n);
struct kube_store *job_groups_store(struct job_groups *g, enum job_group_api api); /* or NULL */

/* ---- apply_groups.c ---- */

struct job_ctx;
struct job_item;

void job_group_create(struct job_ctx *ctx, const struct job_item *item, uint32_t instance);
void job_group_delete(struct job_ctx *ctx, const struct job_group *group);
/* An Event, once: nobody schedules the job's Pods together, as it wants. */
void job_group_tell(struct job_ctx *ctx, const struct job *job);

#endif
