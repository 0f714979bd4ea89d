/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of slots that ask and have nothing: which controller is asked for which of them next.
 * Private to partition.
 */
#ifndef IPU_PARTITION_QUEUE_H
#define IPU_PARTITION_QUEUE_H

#include "partition/internal.h"

void queue_init(struct partitions *p);
void queue_done(struct partitions *p);
void queue_add(struct slot *s);                            /* at the end, unless it's in there */
void queue_pass_at(struct partitions *p, int64_t mono_ms); /* a pass then at the latest */
void queue_remove(struct slot *s);                         /* harmless if it isn't */

#endif
