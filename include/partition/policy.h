/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A site's policy: how many IPUs a namespace and a job may have, and for how long
 * (doc/design/queue.md, "Quota and policy"). Rules come from the configuration and from annotations
 * on Namespaces. Pure.
 */
#ifndef IPU_PARTITION_POLICY_H
#define IPU_PARTITION_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "partition/types.h"

#define PARTITION_UNLIMITED  (-1)
#define PARTITION_UNSET      (-2) /* of an annotation: there is none */
#define PARTITION_POLICY_MAX 1000000000

#define PARTITION_ANNOTATION_MAX_IPUS         "graphcore.ai/max-ipus"
#define PARTITION_ANNOTATION_MAX_JOB_IPUS     "graphcore.ai/max-job-ipus"
#define PARTITION_ANNOTATION_MAX_DEADLINE     "graphcore.ai/max-deadline-seconds"
#define PARTITION_ANNOTATION_DEFAULT_DEADLINE "graphcore.ai/default-deadline-seconds"
#define PARTITION_ANNOTATION_MAX_INTERACTIVE  "graphcore.ai/max-interactive-seconds"

struct partition_policy {
	int64_t max_ipus;           /* of a namespace at a time */
	int64_t max_job_ipus;       /* of one job, all instances that it asks for */
	int64_t max_deadline_s;     /* the longest use that a job may name */
	int64_t default_deadline_s; /* of a job that names none; 0: none either */
	int64_t max_interactive_s;  /* the longest interactive session */
};

struct partition_policy_of_ns {
	char *ns; /* owned */
	struct partition_policy policy;
};

struct partition_rules {
	struct partition_policy fallback;
	struct partition_policy_of_ns *named; /* owned */
	size_t n;
};
extern const struct partition_policy partition_policy_none;  /* no limits */
extern const struct partition_policy partition_policy_unset; /* nothing is said */

void partition_rules_copy(struct partition_rules *to, const struct partition_rules *from);
void partition_rules_done(struct partition_rules *rules);

/* What a Namespace's annotations say, PARTITION_UNSET for what they don't. Returns false if one
 * isn't a number: it's unset, and err names it. */
bool partition_policy_is_unset(const struct partition_policy *policy);
bool partition_policy_read(const struct json *annotations, struct partition_policy *ret,
			   struct err *err);
/* What holds in a namespace. annotated: what its annotations say, NULL: nothing. */
struct partition_policy partition_policy_for(const struct partition_rules *rules, const char *ns,
					     const struct partition_policy *annotated);

/* Does the policy let a job of this size (of all its asks) with this ask be served at all? If not:
 * false, and why, for people. */
bool partition_policy_allows(const struct partition_policy *policy, uint64_t job_ipus,
			     const struct partition_ask *ask, char *ret_message, size_t size);
/* How long a job that names no deadline may use its partitions, in milliseconds; 0: no limit. */
int64_t partition_policy_default_ms(const struct partition_policy *policy);

#endif
