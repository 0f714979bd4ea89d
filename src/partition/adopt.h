/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitions that are an owner's and that the tracker doesn't know: after a tracker was lost, and
 * after Graphcore's own operator. Private to partition.
 */
#ifndef IPU_PARTITION_ADOPT_H
#define IPU_PARTITION_ADOPT_H

#include <stdbool.h>

#include "partition/internal.h"

/* For a slot that is about to be given a partition. True: it has one now, or must wait until the
 * controllers have been heard (the slot says so); false: there is none to take over. */
bool adopt_try(struct slot *s);
/* Its Pods name a partition that hasn't been looked for to the end. */
bool adopt_is_due(const struct slot *s);
/* It waits, and what could be taken over for it hasn't been looked for to the end: who releases it
 * now must not lose that. */
bool adopt_is_looking(const struct slot *s);

#endif
