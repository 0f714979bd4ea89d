/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls, and what they may on the partitions' port. Pure. Uses core, kube's identities.
 */
#ifndef IPU_PROXY_AUTH_H
#define IPU_PROXY_AUTH_H

#include <stdbool.h>

#include "core/str.h"
#include "kube/review.h"
#include "partition/types.h"

#define PROXY_AUDIENCE "ipu-operator-proxy"

/* Owned; NULL where there is none. */
struct proxy_caller {
	char *account;            /* "system:serviceaccount:NS:NAME" */
	char *ns;                 /* of that ServiceAccount */
	char *pod_name, *pod_uid; /* that the token is bound to */
	char *node_name;          /* that this Pod is on */
	bool trusted;             /* one of the configured accounts: any owner */
};
/* accounts: those that are trusted, separated by commas. */
void proxy_caller_init(struct proxy_caller *c, const struct kube_identity *who,
		       const char *accounts);
void proxy_caller_done(struct proxy_caller *c);

/* Whether this caller may know of, reset and release what that owner has. */
bool proxy_caller_may(const struct proxy_caller *c, const char *owner_uid);
/* Whether it may ask for this: ERR_DENIED says why not. */
int proxy_caller_check_ask(const struct proxy_caller *c, const struct partition_ask *ask,
			   struct err *err);

#endif
