/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process that runs the jobs tells the one that shows the page (doc/design/page.md), and a
 * proxy that leads those that follow: the newest of what is held, and the Pods of partitions
 * (doc/openapi.yaml: /v1/held, /v1/pods). What is taken is borrowed. Pure; uses core.
 */
#ifndef IPU_PROXY_HELD_H
#define IPU_PROXY_HELD_H

#include "core/buf.h"
#include "core/json.h"
#include "proxy/proxy.h"

#define PROXY_HELD_NEWEST  200
#define PROXY_HELD_WORDS   256   /* bytes of a message that are told to another process */
#define PROXY_HELD_TOLD_MS 45000 /* what isn't told again isn't known any more */

struct proxy_newest {
	struct proxy_held items[PROXY_HELD_NEWEST]; /* once it's full, the oldest is the first */
	size_t n;                                   /* all that were taken */
};

void proxy_newest_take(struct proxy_newest *newest, const struct proxy_held *held);
size_t proxy_newest_len(const struct proxy_newest *newest); /* how many of them are there */
/* The newest first, as many as there is room for; there are so many more. It takes no more of them
 * after that. Without names nothing that names somebody is in it. -1: there's no memory. */
int proxy_newest_write(struct proxy_newest *newest, bool names, size_t more, size_t max_bytes,
		       struct buf *out, struct err *err);

/* The Pods of partitions. Zeroed memory is fine. */
struct proxy_pods {
	struct jmut_doc *doc;
	struct jmut *root, *items, *pods; /* pods: of the partition that is being taken */
	size_t bytes, max_bytes;
	const char *uid;
	uint32_t instance;
};
void proxy_pods_begin(struct proxy_pods *to, size_t max_bytes);
/* From now on proxy_pods_take takes those of this owner's instance: as many as there is room for.
 */
void proxy_pods_of(struct proxy_pods *to, const char *uid, uint32_t instance);
void proxy_pods_take(void *to, const struct proxy_pod *pod); /* a proxy_pod_fn */
/* Ends it; are there any? -1: there's no memory. */
int proxy_pods_write(struct proxy_pods *to, struct buf *out, bool *ret_any, struct err *err);

#endif
