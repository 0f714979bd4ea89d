/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job controller: watches IPUJobs and their Pods, asks the planner, and carries out what it
 * says as API calls and as asks of the partition layer. One key of the work queue is one job.
 */
#ifndef IPU_JOB_CONTROLLER_H
#define IPU_JOB_CONTROLLER_H

#include <stdbool.h>

#include "core/err.h"
#include "job/held.h"
#include "job/plan.h"
#include "job/pod.h"
#include "kube/client.h"
#include "kube/event.h"
#include "loop/loop.h"
#include "partition/service.h"

struct job_controller;

/* Borrowed until job_controller_free. */
struct job_controller_opts {
	struct loop *loop;
	struct kube_client *kube;
	struct kube_recorder *recorder;
	struct partition_service *partitions;
	const char *ns; /* only jobs of this namespace; NULL: of all */
	struct job_pod_settings pods;
	struct job_timing timing;
	/* A job, or one of its Pods, has come, changed or gone: for those who show them. From
	 * within a store's change, so it only takes notice. uid: the job's, NULL: of any. NULL:
	 * nobody. */
	void (*on_change)(void *arg, const char *uid, bool of_pod);
	void *on_change_arg;
};

struct job_controller *job_controller_new(const struct job_controller_opts *opts);
void job_controller_free(struct job_controller *c); /* NULL is fine */
/* Others from now on: all jobs are looked at. Strings are borrowed as those of the opts. */
void job_controller_set(struct job_controller *c, const struct job_pod_settings *pods,
			const struct job_timing *timing);

/* To be called by the partition layer: its on_synced and its on_change. */
void job_controller_partitions_synced(struct job_controller *c);
void job_controller_partition_changed(struct job_controller *c,
				      const struct partition_owner *owner);

/* Jobs and Pods have been read; otherwise ret_why says what is missing (may be NULL). */
bool job_controller_ready(const struct job_controller *c, struct err *ret_why);

/* The Pods of an instance of the job with that UID, as far as they are known; borrowed. */
typedef void job_pod_fn(const struct job_pod *pod, void *arg);
void job_controller_each_pod(const struct job_controller *c, const struct partition_owner *job,
			     uint32_t instance, job_pod_fn *fn, void *arg);

/* The jobs that are held (job/held.h), also those that wait for IPUs; borrowed until control
 * returns to the loop. False: they haven't been read yet. *due_ms, if it's later or 0, becomes the
 * time (wall) at which one is held if nothing else happens. */
typedef void job_held_fn(const struct job *job, const struct job_held *held, void *arg);
bool job_controller_each_held(const struct job_controller *c, job_held_fn *fn, void *arg,
			      int64_t *due_ms);

/* How many jobs there are by stage, which is what launcherStatus says. */
void job_controller_count(const struct job_controller *c, size_t ret[JOB_STAGES]);

#endif
