/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pods that would come of an IPUJob: built, held against a Pod Security level, and what the API
 * server said of them in a dry run, told as findings about the IPUJob. Pure: the calls are
 * access.c's. Private to src/admission.
 */
#ifndef IPU_ADMISSION_ACCESS_PODS_H
#define IPU_ADMISSION_ACCESS_PODS_H

#include <stdbool.h>

#include "admission/findings.h"
#include "admission/review.h"
#include "admission/security.h"
#include "core/err.h"
#include "core/json.h"
#include "job/pod.h"
#include "kube/client.h"

/* The first worker and launcher as the controller would make them, but for what they can't have
 * yet: names (generateName instead), the partition, the launcher's account. */
struct access_pods {
	struct jmut_doc *worker, *launcher; /* launcher NULL: there's none */
};

/* Errors: ERR_INVALID, as job_pod_build. */
int access_pods_build(struct access_pods *pods, const struct admission_review *r,
		      const struct job_pod_settings *settings, struct err *err);
void access_pods_done(struct access_pods *pods);

/* What a dry run said. */
enum access_verdict {
	ACCESS_NOT_TRIED, /* off, or no answer came in time */
	ACCESS_TAKEN,
	ACCESS_REFUSED,  /* what no later object can mend: said as problems */
	ACCESS_INSECURE, /* by the namespace's Pod Security level */
	ACCESS_DOUBTFUL, /* something else: said as a warning */
};

/* Reads the answer of one dry run (err and response as of kube_call_fn) into findings, the API
 * server's own warnings among them. With ACCESS_INSECURE nothing has been said yet, and *ret_why,
 * to be freed, has the API server's own words. */
enum access_verdict access_pods_judge(const struct admission_review *r,
				      const struct access_pods *pods, bool launcher,
				      const struct err *err, const struct kube_response *response,
				      struct admission_findings *out, char **ret_why);

/* Fields of both Pods that the level forbids, as problems of the IPUJob's fields; those that the
 * operator itself sets, as a refusal. Returns how many there were. */
size_t access_pods_secure(const struct admission_review *r, const struct access_pods *pods,
			  enum admission_level level, struct admission_findings *out);
/* The same as one warning, of a level that isn't enforced. */
void access_pods_warn(const struct admission_review *r, const struct access_pods *pods,
		      enum admission_level level, struct admission_findings *out);

#endif
