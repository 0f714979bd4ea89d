/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a review of an IPUJob asks the API server, side by side and within one deadline: may the
 * requester do by Pods of his own what the job would do for him (SubjectAccessReview), does the
 * namespace's Pod Security level take the job's Pods, and does the API server itself (dry run).
 * doc/design/admission.md, "What the API server is asked". Uses kube/, job/.
 */
#ifndef IPU_ADMISSION_ACCESS_H
#define IPU_ADMISSION_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "admission/findings.h"
#include "admission/review.h"
#include "admission/template.h"
#include "job/pod.h"
#include "kube/client.h"
#include "loop/op.h"

/* For the kube_client of its own that it should be given (kube_client_opts.max_connections): dry
 * runs use all but two of them, which stay for the shorter questions. */
#define ADMISSION_ACCESS_CONNECTIONS 6

struct admission_access;

struct admission_access_opts {
	struct job_pod_settings pods; /* as the controller has them; strings are borrowed */
	struct admission_template_rules templates;
	bool dry_run_pods; /* webhook.dryRunPods */
};

struct admission_access *admission_access_new(struct kube_client *client,
					      const struct admission_access_opts *opts);
/* Others from now on, also for what is under way. Strings are borrowed as those of the first. */
void admission_access_set(struct admission_access *a, const struct admission_access_opts *opts);
/* Cancels what is under way; callbacks don't run. NULL is fine. */
void admission_access_free(struct admission_access *a);

/*
 * To be asked for a CREATE or UPDATE of an IPUJob in the validating webhook, when all defaults are
 * in and the pure checks have been made, whatever they found. On an UPDATE nothing is asked unless
 * Pods would be made from something new: template, launcher or interactive.
 *
 * cb runs once, never before this returns, with out appended to: refused as a whole (403) where the
 * requester may not, (503) where that can't be found out; problems of single fields; warnings. r
 * and out are borrowed until cb has run or the operation was cancelled. deadline_ms: cb has run by
 * then, or where the API server has been silent for 4 s (unheard); what wasn't answered in time is
 * a warning, but for the requester's rights.
 */
typedef void admission_access_fn(void *arg, bool unheard);
struct op *admission_access_start(struct admission_access *a, const struct admission_review *r,
				  struct admission_findings *out, unsigned deadline_ms,
				  admission_access_fn *cb, void *arg, struct scope *scope);

#endif
