/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of annotated Pods: a pure function from a Pod, its partition and its ConfigMap to
 * what is to be done. doc/design/annotated-pods.md is its table. No I/O, no memory, no allocation.
 */
#ifndef IPU_POD_PLAN_H
#define IPU_POD_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "partition/types.h"
#include "pod/model.h"

struct pod_view {
	const struct pod *pod;
	int64_t now_ms;                           /* wall */
	int64_t unreachable_ms;                   /* jobs.unreachableNodeSeconds; 0: never */
	const struct partition_status *partition; /* of its only instance */
	const struct job_files *files;            /* of its ConfigMap's name; NULL: none */
	bool copy;                                /* another Pod with its token comes before it */
	bool adopted; /* this process has tried that already, or has seen its partition */
	bool fenced;  /* no opening that this process doesn't know of can take effect any more */
	/* Held back until then, since this was refused; 0: it isn't. */
	int64_t retry_ms;
	const char *trouble_event, *trouble;
};

enum pod_action {
	POD_NOTHING,
	POD_ENSURE,
	POD_ADOPT, /* the tracker has lost the partition that it runs on */
	POD_RELEASE,
	POD_WRITE_FILES,
	POD_OPEN,
	POD_FENCE,     /* plan.message is written at the Pod, so that its version changes */
	POD_LIMIT,     /* the namespace's time becomes the Pod's */
	POD_HOLD_BACK, /* plan.event and plan.message say why */
};

struct pod_plan {
	enum pod_action action;
	/* An Event's reason for what it waits for, or what has gone wrong; NULL: there's nothing to
	 * say. */
	const char *event;
	bool warning;      /* it's no news of the ordinary kind */
	bool waits;        /* and is shown at the Pod too, in words */
	char message[320]; /* for people */
	int64_t next_ms;   /* wall: a look is due then, whatever happens; 0: none */
};

void pod_plan(const struct pod_view *view, struct pod_plan *ret);
const char *pod_action_name(enum pod_action action);

/* What it does, for a count of them. */
enum pod_stage {
	POD_STAGE_WAITING, /* behind our gate */
	POD_STAGE_REFUSED, /* the same, and can't be served */
	POD_STAGE_SERVED,  /* its containers may run */
	POD_STAGE_ENDED,
	POD_STAGES,
};
enum pod_stage pod_stage(const struct pod *pod);
const char *pod_stage_name(enum pod_stage stage);

#endif
