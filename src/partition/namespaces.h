/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that administrators write on Namespaces as annotations, followed by a watch. Of a
 * Namespace nothing else is kept. Owns its store. Private to partition. Uses kube.
 */
#ifndef IPU_PARTITION_NAMESPACES_H
#define IPU_PARTITION_NAMESPACES_H

#include <stdbool.h>

#include "kube/client.h"
#include "partition/policy.h"

struct namespaces;

/* on_change: some limit is another one now, or what is known has become enough to begin. */
struct namespaces *namespaces_new(struct kube_client *kube, void (*on_change)(void *arg),
				  void *arg);
void namespaces_free(struct namespaces *n); /* NULL is fine */

/* They have been read once, or can't be: then the configuration alone holds. */
bool namespaces_known(const struct namespaces *n);
/* What a Namespace's annotations say; NULL: nothing. Borrowed until the loop's next turn. */
const struct partition_policy *namespaces_policy(const struct namespaces *n, const char *ns);

#endif
