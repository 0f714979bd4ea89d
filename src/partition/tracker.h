/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker ConfigMap: what is wanted in it and what is there, brought together by one write at a
 * time that carries all that has gathered (group commit), under its resourceVersion.
 * It knows keys and their JSON, not what they mean. Uses kube.
 */
#ifndef IPU_PARTITION_TRACKER_H
#define IPU_PARTITION_TRACKER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/str.h"
#include "kube/client.h"

struct tracker;

/* All from the loop, never from within a call of the owner's. */
struct tracker_ops {
	/* The ConfigMap has been read (or isn't there yet): once. All on_found came before. */
	void (*on_synced)(void *arg);
	/* A key that the owner hasn't put: at the start, and when somebody adds one. It stays as it
	 * is until the owner puts or drops it. */
	void (*on_found)(void *arg, const char *id, struct str json);
	/* The ConfigMap now has what is wanted for this key (for a drop: hasn't got it). */
	void (*on_recorded)(void *arg, const char *id);
	/* tracker_error() changed between well and not well. */
	void (*on_error)(void *arg);
};

struct tracker *tracker_new(struct kube_client *kube, const char *ns, const char *name,
			    const struct tracker_ops *ops, void *arg);
void tracker_free(struct tracker *t); /* NULL is fine */

bool tracker_is_synced(const struct tracker *t);
/* What keeps it from being read or written; kind ERR_NONE when all is well. */
const struct err *tracker_error(const struct tracker *t);

void tracker_put(struct tracker *t, const char *id, struct str json);
void tracker_drop(struct tracker *t, const char *id);
bool tracker_is_recorded(const struct tracker *t, const char *id);

/* When the tracker of another operator was taken over; 0: never. */
int64_t tracker_taken_over_ms(const struct tracker *t);

/* Writes that the API server took, for tests of the group commit. */
unsigned long tracker_writes(const struct tracker *t);

#endif
