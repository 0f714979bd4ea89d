/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job planner: a pure function from a job, its Pods and its partitions to what is to be done
 * and the status to be shown. doc/design/job-states.md is its table. Allocates only its result.
 */
#ifndef IPU_JOB_PLAN_H
#define IPU_JOB_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "job/files.h"
#include "job/group.h"
#include "job/model.h"
#include "job/pod.h"
#include "partition/types.h"

/* jobs.* of the configuration. */
struct job_timing {
	int64_t backoff_ms,
		backoff_max_ms;    /* before the first counted restart; doubled each time */
	int64_t start_deadline_ms; /* where the job says nothing */
	int64_t unreachable_ms;    /* from a Pod's grace period to its removal by force; 0: never */
	int64_t ranks_end_ms;      /* from a launcher's bad end to that of what it started in its
				    * workers; 0: not waited for */
};

/* A Pod that was there, on this partition and for this run, and has gone. */
struct job_lost {
	uint32_t instance, run;
	char partition[PARTITION_ID_MAX + 1];
};

struct job_view {
	const struct job *job;
	const struct job_timing *timing;
	int64_t now_ms; /* wall */
	/* The status that was to be written last, where that failed, or wasn't answered, and nobody
	 * has seen one since that isn't ours; NULL. */
	const struct job_status *unsure;
	/* All Pods whose name or owner is the job's, in any order. */
	const struct job_pod *const *pods;
	size_t n_pods;
	/* What is known of Pods that have gone, of an instance the last one: by this process. */
	const struct job_lost *lost;
	size_t n_lost;
	/* All ConfigMaps with the job's label, in any order. */
	const struct job_files *const *files;
	size_t n_files;
	/* Where the job wants gang scheduling: whether it's known who does that (NONE: nobody), and
	 * all PodGroups with the job's label, in any order. */
	bool group_known;
	enum job_group_api group_api;
	const struct job_group *const *groups;
	size_t n_groups;
	/* One for each instance, then one for each that a rolling update may have beside them
	 * (none when the job's size isn't known). */
	const struct partition_status *partitions;
	size_t n_partitions;
	/* Instances beyond these that still ask for a partition. */
	const uint32_t *surplus;
	size_t n_surplus;
	/* Graphcore's operator ran it: its Pods aren't ours to see, its status isn't ours to write.
	 */
	bool older;
	bool first;         /* this process hasn't looked at the job before */
	bool configured;    /* what the workers of a launcher need is there: ConfigMap, account */
	uint32_t supported; /* what launchers need is there too, Role and RoleBinding, for so many
			     * instances from the first on */
	size_t held;        /* partitions that are asked for or in the tracker, orphans apart */
	const char *unsupported; /* why this job can't be run here, for people; NULL: it can */
	/* The API server's last word on a Pod or ConfigMap that was to be made, with an Event's
	 * reason; NULL. */
	const char *trouble, *trouble_event;
};

enum job_action_kind {
	JOB_ADD_FINALIZER,
	JOB_REMOVE_FINALIZER,
	JOB_ENSURE,  /* instance */
	JOB_RELEASE, /* instance */
	JOB_RELEASE_ALL,
	JOB_ABANDON,         /* what is held isn't waited for any more */
	JOB_ADOPT,           /* instance, pod: the tracker has lost the partition that it runs on */
	JOB_CLAIM,           /* instance, pod: … that it ran on; it's taken over, not made anew */
	JOB_WRITE_FILES,     /* instance; files: what is replaced, or NULL */
	JOB_DELETE_FILES,    /* files */
	JOB_CREATE_GROUP,    /* instance */
	JOB_DELETE_GROUP,    /* group */
	JOB_WRITE_SUPPORT,   /* instance: how many the Role may cover; 0: no Role yet */
	JOB_CREATE_POD,      /* instance, worker */
	JOB_CREATE_LAUNCHER, /* instance */
	JOB_OPEN_POD,        /* instance, pod: it has waited for its partition */
	JOB_DELETE_WORKLOAD, /* pod: of its group; Kueue lets its Pods go then */
	JOB_DELETE_POD,      /* pod */
	JOB_KILL_POD,        /* pod: removed without its node's word */
	JOB_DELETE_JOB,
};

struct job_action {
	enum job_action_kind kind;
	uint32_t instance, worker;
	const struct job_pod *pod;     /* borrowed from the view */
	const struct job_files *files; /* the same */
	const struct job_group *group; /* the same */
};

struct job_plan {
	struct job_action *actions;
	size_t n_actions;
	bool has_status; /* false: the status is left alone */
	struct job_status status;
	enum partition_why waits; /* what it waits for, when it's the partition layer's reason */
	const char *wait_event;   /* an Event's reason for what it waits for, NULL: none */
	char wait_message[512];
	int64_t next_ms; /* wall: a look is due then, whatever happens; 0: none */
};

void job_plan(const struct job_view *view, struct job_plan *ret);
void job_plan_done(struct job_plan *plan);
const char *job_action_name(enum job_action_kind kind);

#endif
