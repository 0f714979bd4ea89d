/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server has, as small structs of the owner's own making, found by namespace/name,
 * by UID or by an index. Filled by a watch; a response to an own write may be noted early.
 */
#ifndef IPU_KUBE_STORE_H
#define IPU_KUBE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"
#include "core/list.h"
#include "core/str.h"
#include "kube/client.h"
#include "kube/watch.h"

struct kube_store;

#define KUBE_STORE_MAX_INDEXES 4

struct kube_store_ops {
	/* The log's. An object that can't be read or projected is told there, again whenever it
	 * comes, as with each list; and what the store had of it stays as it was. Where project had
	 * no memory (err_is_no_memory), the watch brings it again after a back-off. */
	const char *component;
	/* The owner's own struct for an object: allocated, never NULL on success. */
	int (*project)(void *arg, const struct json *object, void **ret_item, struct err *err);
	void (*free_item)(void *arg, void *item);
	/* Optional: true if the change isn't worth telling; the new item is kept all the same. */
	bool (*same)(void *arg, const void *old, const void *item);
	/* After the store has it. old NULL: new; item NULL: gone. old is freed when this returns.
	 * An object that was replaced by one of another UID is first gone, then new. May look up,
	 * may not change the store. */
	void (*on_change)(void *arg, struct str key, const void *old, const void *item);
	void (*on_synced)(void *arg); /* after each whole list */
	void (*on_state)(void *arg);  /* as the watch's */
	/* Up to KUBE_STORE_MAX_INDEXES functions, the rest NULL: the value that an item is found
	 * under, borrowed from the item; empty: not in this index. */
	struct str (*index[KUBE_STORE_MAX_INDEXES])(const void *item);
	bool by_uid; /* kube_store_by_uid is called */
};

struct kube_store *kube_store_new(const struct kube_store_ops *ops, void *arg);
/* Stops its watch, frees all items, calls nothing but free_item. Not from within its own
 * callbacks. NULL is fine. */
void kube_store_free(struct kube_store *store);

/* Fills it from now on. Once. */
void kube_store_watch(struct kube_store *store, struct kube_client *client,
		      const struct kube_watch_opts *opts);
const struct kube_watch *kube_store_get_watch(const struct kube_store *store); /* NULL: none yet */
bool kube_store_is_synced(const struct kube_store *store);
/* The same as an error (ERR_UNAVAILABLE) with the watch's own trouble. what: its items, for
 * instance "Pods". */
int kube_store_check_synced(const struct kube_store *store, const char *what, struct err *err);

size_t kube_store_len(const struct kube_store *store);
/* Items are borrowed until the store changes: look up again after any asynchronous gap. */
void *kube_store_get(const struct kube_store *store, struct str key);    /* "namespace/name" */
void *kube_store_by_uid(const struct kube_store *store, struct str uid); /* ops.by_uid only */

/* All items, or those of one index value. The store mustn't change meanwhile. */
struct kube_store_iter {
	const struct kube_store *store;
	const struct list *head_; /* private */
	struct list *next_;
	bool in_index_;
	unsigned index_;
	struct str key, uid;
	void *item;
};
struct kube_store_iter kube_store_iter(const struct kube_store *store);
struct kube_store_iter kube_store_iter_index(const struct kube_store *store, unsigned index,
					     struct str value);
bool kube_store_next(struct kube_store_iter *it);

/* The object as the server answered to a write of ours: taken over at once if it's newer than what
 * the store has; the watch's own, older news of it are then passed over. Calls on_change. */
void kube_store_note(struct kube_store *store, const struct json *object);

/* For tests, and for stores fed by other means: as a bare watch calls them. */
void kube_store_event(struct kube_store *store, const struct kube_watch_event *event);
/* version: of the list that is done; empty: not known. */
void kube_store_relist(struct kube_store *store, bool done, struct str version);
void kube_store_bad(struct kube_store *store, struct str ns, struct str name,
		    const struct err *err);

#endif
