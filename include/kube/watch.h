/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List and watch: a stream of what changes, for ever, whatever happens to connections, servers and
 * resource versions in between. The caller sees each object's life once: ADDED, MODIFIED …,
 * DELETED, also for what came and went while nobody was looking.
 */
#ifndef IPU_KUBE_WATCH_H
#define IPU_KUBE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/client.h"
#include "kube/list.h"

struct kube_watch;

enum kube_event_type { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

struct kube_watch_event {
	enum kube_event_type type;
	const struct json *object; /* NULL for a DELETED that a new list found out */
	struct str ns, name;       /* ns is empty for what has no namespace */
	struct str key;            /* "namespace/name", or "name" */
	struct str uid;
	struct str version; /* resourceVersion; of a DELETED without object, the last one seen */
};

struct kube_watch_opts {
	const struct kube_resource *resource;
	const char *ns; /* NULL or "": all namespaces */
	const char *label_selector, *field_selector;
	unsigned page_limit;     /* 0: KUBE_PAGE_LIMIT */
	size_t max_object_bytes; /* 0: KUBE_MAX_OBJECT_BYTES */
	/* The owner remembers by itself what there is (a store), so that it isn't remembered twice:
	 * events come as they are. What is there is MODIFIED, new or not, changed or not; DELETED
	 * may be of what the owner doesn't have, or has with another UID. Of what was there before
	 * on_relist(false), all that hasn't come until on_relist(true), and isn't said to be bad,
	 * has gone; nothing has, where something bad couldn't even be named. */
	bool bare;
};

/* Callbacks, all borrowed data, any may cancel the watch; NULL ones are left out. */
struct kube_watch_ops {
	/* Types are made consistent: an object that is known is never ADDED again, one that comes
	 * back unchanged isn't reported, one whose UID changed is DELETED and then ADDED, one that
	 * isn't known is never DELETED. */
	void (*on_event)(void *arg, const struct kube_watch_event *event);
	/* All that was there when the list was made has been reported: after each list. */
	void (*on_synced)(void *arg);
	/* A list begins (done false), and has ended whole (done true, with its resourceVersion),
	 * just before on_synced; the DELETED events of what vanished come between the two. */
	void (*on_relist)(void *arg, bool done, struct str version);
	/* One object or line that couldn't be read; the watch goes on. Names as far as known. */
	void (*on_bad)(void *arg, struct str ns, struct str name, const struct err *err);
	/* The state or the last error changed; see kube_watch_status(). Not from within start. */
	void (*on_state)(void *arg);
};

enum kube_watch_state {
	KUBE_WATCH_LISTING,
	KUBE_WATCH_CONNECTING, /* to watch from a resourceVersion that we know */
	KUBE_WATCH_WATCHING,
	KUBE_WATCH_WAITING, /* after an error, until a back-off has passed */
	KUBE_WATCH_ENDED,   /* cancelled */
};

struct kube_watch_status {
	enum kube_watch_state state;
	bool synced;       /* a list was whole at least once: for readiness */
	int64_t since_ms;  /* clock_mono_ms() of the last change of state */
	int64_t heard_ms;  /* clock_mono_ms() when the server last said something; -1: never */
	unsigned failures; /* in a row; 0 when all is well */
	struct err err;    /* of the last failure; kind ERR_NONE when all is well */
	size_t objects;    /* known now; 0 of a bare watch */
	uint64_t lists, bad;
};

/* Endless: ends by kube_watch_cancel or with its scope; memory by the loop's reaper. */
struct kube_watch *kube_watch_start(struct kube_client *client, const struct kube_watch_opts *opts,
				    const struct kube_watch_ops *ops, void *arg,
				    struct scope *scope);
/* From within on_event: the owner had no memory to keep it. After a back-off there's a list anew.
 */
void kube_watch_missed(struct kube_watch *watch);
void kube_watch_cancel(struct kube_watch *watch); /* NULL is fine; otherwise as op_cancel */

void kube_watch_status(const struct kube_watch *watch, struct kube_watch_status *ret);
const char *kube_watch_state_name(enum kube_watch_state state);

#endif
