/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracker: keys and their JSON in ConfigMaps NAME, NAME-1 …, what is wanted in them and what is
 * there brought together by writes that carry all that has gathered, one at a time for each
 * ConfigMap, under its resourceVersion. doc/design/tracker.md is its protocol. It doesn't know what
 * the JSON means. Uses kube.
 */
#ifndef IPU_PARTITION_TRACKER_H
#define IPU_PARTITION_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"
#include "kube/client.h"

struct tracker;

/* All from the loop, never from within a call of the owner's; all may call any function of the
 * tracker but tracker_free(). Those marked "may be NULL" may. */
struct tracker_ops {
	/* All that there is has been read, newer than anything that an earlier writer wrote or may
	 * yet write: once. All on_found came before. */
	void (*on_synced)(void *arg);
	/* A key that the owner hasn't put is new or has another value: at the start, and when
	 * somebody else wrote it. It stays as it is until the owner puts or drops it. -1: there
	 * was no memory to read it; it's told again after a while. */
	int (*on_found)(void *arg, const char *key, struct str json, struct err *err);
	/* Such a key is no longer there. May be NULL. */
	void (*on_gone)(void *arg, const char *key);
	/* The ConfigMap now has what is wanted for this key (for a drop: hasn't got it). May be
	 * NULL when following. */
	void (*on_recorded)(void *arg, const char *key);
	/* tracker_error() changed between well and not well, or the tracker is superseded. */
	void (*on_error)(void *arg);
	/* Something that people should hear of, once each: reason is an Event's
	 * (doc/reference/names.md), object the ConfigMap's name, uid its metadata.uid ("": not
	 * known). It has been logged. May be NULL. */
	void (*on_report)(void *arg, const char *reason, const char *object, const char *uid,
			  const char *message);
	/* What was put last for this key, or found and not rejected, once more, byte by byte: what
	 * is recorded isn't kept here too where the owner has it. False: it hasn't, or (then
	 * err_is_no_memory()) can't say it now. May be NULL. */
	bool (*on_again)(void *arg, const char *key, struct buf *out, struct err *err);
	/* Is this a value that the owner may have written? Asked about a ConfigMap that has lost
	 * its annotations. Where err_is_no_memory() afterwards nobody knows: it's asked again after
	 * a while. NULL: none is. */
	bool (*is_ours)(void *arg, const char *key, struct str json, struct err *err);
};

struct tracker_opts {
	const char *ns, *name;
	/* Only look: for a replica that doesn't lead. Nothing is written, on_found and on_gone tell
	 * every change, put and drop mustn't be called. Becoming the leader: free it, make a new
	 * one once the Lease is held. */
	bool follow;
};

/* Starts reading at once; everything is copied. */
struct tracker *tracker_new(struct kube_client *kube, const struct tracker_opts *opts,
			    const struct tracker_ops *ops, void *arg);
void tracker_free(struct tracker *t); /* NULL is fine; what is recorded stays so */

bool tracker_is_synced(const struct tracker *t);
/* What keeps it from being read or written; kind ERR_NONE when all is well. */
const struct err *tracker_error(const struct tracker *t);
/* Another process has taken the tracker since: nothing is written any more and nothing counts as
 * recorded, for good. The owner ends, or makes a new tracker if the Lease is still its own. */
bool tracker_is_superseded(const struct tracker *t);
/* The metadata.uid of one of the tracker's ConfigMaps, as it was seen last; "": it never was. */
const char *tracker_uid(const struct tracker *t, const char *name);
/* Since when there is this record: contents that weren't ours (Graphcore's 1.2) were put aside
 * then, or it was made anew, because it had been lost or had never been. What is older may be
 * another's. 0: not known.
 */
int64_t tracker_began_ms(const struct tracker *t);

/* What is wanted for this key. owner_uid spreads new keys over the ConfigMaps. */
void tracker_put(struct tracker *t, const char *key, const char *owner_uid, struct str json);
void tracker_drop(struct tracker *t, const char *key);
/* Is the last word about this key (put or drop) what the API server has? An unknown key: yes. */
bool tracker_is_recorded(const struct tracker *t, const char *key);
/* The value that on_found told can't be understood: it's kept as it is, and reported. A later
 * put, or another value, ends that. */
void tracker_reject(struct tracker *t, const char *key, const struct err *why);

/* Writes that the API server took. */
unsigned long tracker_writes(const struct tracker *t);

#endif
