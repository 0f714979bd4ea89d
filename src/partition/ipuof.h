/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IPUoF configuration of one active entry, for Pods that get it as a file: fetched from its
 * controller, kept as texts by GCD while the entry is active. Private to partition.
 */
#ifndef IPU_PARTITION_IPUOF_H
#define IPU_PARTITION_IPUOF_H

#include <stdbool.h>

#include "partition/internal.h"

struct ipuof;

/* Whether what it's asked for gets the configuration of this controller's partitions as files. */
bool ipuof_is_by_file(const struct vipu_address *controller, const struct partition_ask *ask);

/* NULL, here and below: there was no need of files yet. It touches its item when there is news. */
void ipuof_free(struct ipuof *u);

/* To be called at each look at an active entry that is recorded and wanted: fetches into
 * item->ipuof what is needed and isn't there. True: nothing is lacking, also where its controller
 * needs no files. */
bool ipuof_step(struct item *item, const struct vipu_controller *controller);
/* What was fetched counts no more: the partition is reset, or goes. */
void ipuof_drop(struct ipuof *u);

const char *ipuof_trouble(const struct ipuof *u); /* why it isn't there; "" */
uint64_t ipuof_hash(const struct ipuof *u);       /* 0: no files, or not yet */
size_t ipuof_each(const struct ipuof *u, partition_file_fn *fn, void *arg);

#endif
