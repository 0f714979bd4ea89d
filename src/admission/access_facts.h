/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What many reviews ask about in a row: what somebody may do in a namespace, and a namespace's Pod
 * Security levels. Answers are kept for seconds, questions that come at the same time are asked
 * once. Private to src/admission.
 */
#ifndef IPU_ADMISSION_ACCESS_FACTS_H
#define IPU_ADMISSION_ACCESS_FACTS_H

#include <stdbool.h>

#include "admission/security.h"
#include "core/err.h"
#include "core/list.h"
#include "kube/client.h"
#include "kube/review.h"
#include "loop/loop.h"

#define ACCESS_FACT_MS      5000 /* a right that was withdrawn meanwhile still counts for so long */
#define ACCESS_REFUSED_MS   1000 /* … and one that was given meanwhile doesn't, for so long */
#define ACCESS_FACT_ENTRIES 1024

struct access_facts;
struct access_fact;

/* One who asks; embedded in its owner, zeroed, with wake set. When the answer is there, or was
 * already, wake is posted; never anything called from within. */
struct access_wait {
	struct loop_work *wake;
	bool done;
	/* ERR_NONE: allowed, or the levels are known. ERR_DENIED: not allowed. Else it couldn't be
	 * found out. */
	struct err err;
	enum admission_level enforce, warn; /* of a namespace */
	struct list link;                   /* private, as is the rest */
	struct access_fact *fact;
};

struct access_facts *access_facts_new(struct kube_client *client);
void access_facts_free(struct access_facts *facts); /* nobody may wait any more; NULL is fine */

/* May who create pods (subresource "") or, say, pods/exec in ns? */
void access_ask_right(struct access_facts *facts, const struct kube_identity *who, const char *ns,
		      const char *subresource, struct access_wait *wait);
void access_ask_levels(struct access_facts *facts, const char *ns, struct access_wait *wait);
/* Harmless where nothing was asked, or the answer has come. A question that nobody waits for any
 * more is cancelled. */
void access_wait_end(struct access_wait *wait);

#endif
