/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of annotated Pods: watches those with the label graphcore.ai/pod and their
 * ConfigMaps, asks the planner, and carries out what it says. It also finds out which owners of
 * partitions that are Pods have gone. One key of the work queue is one Pod's UID.
 */
#ifndef IPU_POD_CONTROLLER_H
#define IPU_POD_CONTROLLER_H

#include <stdbool.h>

#include "core/err.h"
#include "kube/client.h"
#include "kube/event.h"
#include "loop/loop.h"
#include "partition/service.h"
#include "pod/held.h"
#include "pod/plan.h"

struct pod_controller;

/* Borrowed until pod_controller_free. */
struct pod_controller_opts {
	struct loop *loop;
	struct kube_client *kube;
	struct kube_recorder *recorder;
	struct partition_service *partitions;
	const char *ns;         /* only Pods of this namespace; NULL: of all */
	int64_t unreachable_ms; /* from a Pod's grace period to its IPUs' release; 0: never */
	/* One has come, changed or gone, as job_controller_opts has it. NULL: nobody. */
	void (*on_change)(void *arg);
	void *on_change_arg;
};

struct pod_controller *pod_controller_new(const struct pod_controller_opts *opts);
/* Another figure from now on: all Pods are looked at. */
void pod_controller_set(struct pod_controller *c, int64_t unreachable_ms);
void pod_controller_free(struct pod_controller *c); /* NULL is fine */

/* To be called by the partition layer: its on_synced and its on_change. */
void pod_controller_partitions_synced(struct pod_controller *c);
void pod_controller_partition_changed(struct pod_controller *c,
				      const struct partition_owner *owner);

/* Pods have been read; otherwise ret_why says what is missing (may be NULL). */
bool pod_controller_ready(const struct pod_controller *c, struct err *ret_why);

/* Those that are held, also those that wait for IPUs; borrowed until control returns to the loop.
 * False: they haven't been read yet. due_ms: as of job_controller_each_held. */
typedef void pod_held_fn(const struct pod *pod, const struct job_held *held, void *arg);
bool pod_controller_each_held(const struct pod_controller *c, pod_held_fn *fn, void *arg,
			      int64_t *due_ms);

/* How many there are by stage. */
void pod_controller_count(const struct pod_controller *c, size_t ret[POD_STAGES]);

#endif
