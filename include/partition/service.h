/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an owner's keeper (the job controller) asks of whoever decides about partitions: the manager
 * in this process (partitions_service), or the proxy of another one (partition_remote_service).
 * The functions mean what those of the same name in manager.h say.
 */
#ifndef IPU_PARTITION_SERVICE_H
#define IPU_PARTITION_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "partition/types.h"

/* Over all owners that ask for or hold something, in no particular order; fn mustn't change them.
 */
typedef void partitions_each_fn(const struct partition_ask *ask,
				const struct partition_status *status, void *arg);
/* An owner's state changed (its serving entry, its reason, or what it still holds): look again.
 * Called from the loop, never from within a call of the owner's. */
typedef void partitions_change_fn(const struct partition_owner *owner, void *arg);
/* All that is asked for and held has been read, and the list of controllers: what is told of it is
 * true, how Pods are to reach their controllers included. Once. */
typedef void partitions_synced_fn(void *arg);

struct partition_service; /* embedded in its implementation */

struct partition_service_ops {
	bool (*synced)(const struct partition_service *s);
	void (*ensure)(struct partition_service *s, const struct partition_ask *ask);
	void (*release)(struct partition_service *s, const char *owner_uid, uint32_t instance);
	void (*release_all)(struct partition_service *s, const char *owner_uid);
	/* What can't be released now isn't waited for any more: it's kept as orphans, which are
	 * removed when their controller answers again. */
	void (*abandon)(struct partition_service *s, const char *owner_uid);
	void (*get_status)(const struct partition_service *s, const char *owner_uid,
			   uint32_t instance, struct partition_status *ret);
	size_t (*held)(const struct partition_service *s, const char *owner_uid);
	size_t (*asked_from)(const struct partition_service *s, const char *owner_uid,
			     uint32_t from, uint32_t *ret, size_t max);
	size_t (*ipuof_files)(const struct partition_service *s, const char *owner_uid,
			      uint32_t instance, partition_file_fn *fn, void *arg);
	/* Since when there is a record of partitions, wall clock; 0: not known. What is older may
	 * be of Graphcore's operator. */
	int64_t (*began_ms)(const struct partition_service *s);
	void (*each)(const struct partition_service *s, partitions_each_fn *fn, void *arg);
};

struct partition_service {
	const struct partition_service_ops *ops;
};

#endif
