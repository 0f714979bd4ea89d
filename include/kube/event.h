/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that people see in `kubectl describe`: best effort, never in anybody's way. What repeats
 * is counted in one Event, what comes too often is dropped, the queue is bounded.
 */
#ifndef IPU_KUBE_EVENT_H
#define IPU_KUBE_EVENT_H

#include "core/json.h"
#include "kube/client.h"

struct kube_recorder;

#define KUBE_EVENT_QUEUE        1000         /* most waiting; older ones stay, new ones drop */
#define KUBE_EVENT_AGGREGATE_MS (10 * 60000) /* the same within this time is counted */
#define KUBE_EVENT_SERIES       4096         /* most that are known to be the same */
#define KUBE_EVENT_BURST        25           /* of one object … */
#define KUBE_EVENT_REFILL_MS    (5 * 60000)  /* … and then one more each so long */

enum kube_event_level { KUBE_EVENT_NORMAL, KUBE_EVENT_WARNING };

/* Whom it is about. Copied. */
struct kube_ref {
	const char *api_version, *kind;
	const char *ns; /* NULL or "": a cluster's object; its Events are in "default" */
	const char *name, *uid;
	const char *version;    /* resourceVersion, may be NULL */
	const char *field_path; /* "spec.containers{launcher}", may be NULL */
};

/* component: "ipu-operator"; instance: this replica's name. Both copied. */
struct kube_recorder *kube_recorder_new(struct kube_client *client, const char *component,
					const char *instance);
/* Drops what waits. NULL is fine. */
void kube_recorder_free(struct kube_recorder *recorder);

/* reason: one CamelCase word, from the registry of names; the message is cut at 1024 bytes. */
void kube_event(struct kube_recorder *recorder, const struct kube_ref *about,
		enum kube_event_level level, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Of how many Events it knows what was said, to count what is said again: not those of longer ago
 * than KUBE_EVENT_AGGREGATE_MS and a half, and of at most KUBE_EVENT_SERIES. */
size_t kube_recorder_remembered(const struct kube_recorder *recorder);
size_t kube_recorder_waiting(const struct kube_recorder *recorder); /* 0: all is sent */

#endif
