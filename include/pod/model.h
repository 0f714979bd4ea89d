/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store keeps of an annotated Pod: what the planner needs to know, and nothing else; and
 * the ConfigMap with its IPUoF configuration. Owns its strings.
 */
#ifndef IPU_POD_MODEL_H
#define IPU_POD_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/files.h"
#include "partition/types.h"
#include "pod/inject.h"

#define POD_KIND                 "Pod"                    /* as an owner of partitions */
#define POD_ANNOTATION_PARTITION JOB_ANNOTATION_PARTITION /* that its gate was opened with */
#define POD_ANNOTATION_WAITING   "graphcore.ai/waiting"   /* reason and words, for people */

struct pod {
	char *ns, *name, *uid, *version;
	char *token;            /* the label's value, whatever it is */
	char *token_key;        /* "namespace/token" */
	char *partition;        /* gated: NULL, whatever a copy brought along; NULL: none */
	char *waiting;          /* NULL: it says nothing */
	char *selector;         /* gated: its node selector, as "key=value\n" each; NULL: none */
	char *other_gate;       /* the first gate that is another's; NULL: there is none */
	char *problem;          /* why it can't be served, for people; NULL: it can */
	uint32_t ipus;          /* 0 with a problem */
	int32_t priority;       /* spec.priority: the API server has looked up its class */
	int64_t deadline_ms;    /* its activeDeadlineSeconds; 0: none */
	int64_t created_ms;     /* wall */
	int64_t start_ms;       /* status.startTime, which its deadline counts from; 0: not yet */
	int64_t deletion_ms;    /* deleting: when its grace period is over, wall clock */
	bool gated;             /* our gate is closed */
	bool deleting, started; /* started: a node has been chosen for it */
	bool ended;             /* Succeeded or Failed */
	bool of_job;            /* a Pod of an IPUJob: that one's controller looks after it */
};

int pod_decode(const struct json *object, struct pod **ret, struct err *err);
void pod_free(struct pod *pod); /* NULL is fine */
/* But for the version. */
bool pod_equal(const struct pod *a, const struct pod *b);

/* What it asks for, by the attempt that's asked for now. Borrows from the Pod: use at once. */
struct partition_ask pod_ask(const struct pod *pod, uint32_t attempt);

/* What its node selector says of a key; STR_NULL: nothing. */
struct str pod_selector_value(const struct pod *pod, const char *key);

/* ---- the ConfigMap: job/files.h has what the store keeps of it ---- */

/* The hash of what is to be in it while the partition is active; 0: that hasn't come yet. */
uint64_t pod_files_wanted(const struct partition_status *part);
/* The object without its data: that's added to *ret_data. before: what it replaces, or NULL. The
 * root of doc. */
void pod_files_build(struct jmut_doc *doc, const struct pod *pod, const char *partition_id,
		     const struct job_files *before, struct jmut **ret_data);

/* ---- patches of the Pod, merge patches; the root of doc ---- */

/* Opens its gate, at this version and no other: with the partition's name, the node selector of its
 * controller, and the namespace's time where the Pod names none. */
void pod_open_patch(struct jmut_doc *doc, const struct pod *pod,
		    const struct partition_status *part);
/* Gives it the namespace's time, counted from when its partition became active. */
void pod_limit_patch(struct jmut_doc *doc, const struct pod *pod,
		     const struct partition_status *part);
/* What it waits for; of this Pod and no other of its name. */
void pod_say_patch(struct jmut_doc *doc, const struct pod *pod, const char *words);

#endif
