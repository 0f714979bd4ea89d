/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects a watch has told of, with UID and resourceVersion: what makes its events consistent
 * and finds out what vanished between two lists. Owned by the watch.
 */
#ifndef IPU_KUBE_KNOWN_H
#define IPU_KUBE_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/str.h"

struct kube_known;

enum kube_change {
	KUBE_CHANGE_NONE, /* the same resourceVersion as before */
	KUBE_CHANGE_ADDED,
	KUBE_CHANGE_MODIFIED,
	KUBE_CHANGE_REPLACED, /* another UID under the same key: old_uid and old_version say whose
			       */
};

struct kube_known_old {
	char uid[64], version[32]; /* of what was replaced or removed; cut when longer */
};

struct kube_known *kube_known_new(void);
void kube_known_free(struct kube_known *k); /* NULL is fine */
size_t kube_known_len(const struct kube_known *k);

/* The object is there, with this resourceVersion. ret_old: for REPLACED. */
enum kube_change kube_known_see(struct kube_known *k, struct str key, struct str uid,
				struct str version, struct kube_known_old *ret_old);
/* It's gone. False: it wasn't known, or is known with another UID. */
bool kube_known_remove(struct kube_known *k, struct str key, struct str uid);

/* A list: begin, see each object (or mark those that can't be read), then take out, one after the
 * other, what wasn't seen. ret_key is valid until the next call. */
void kube_known_begin_list(struct kube_known *k);
void kube_known_mark(struct kube_known *k, struct str key);
bool kube_known_next_unseen(struct kube_known *k, struct str *ret_key,
			    struct kube_known_old *ret_old);

#endif
