/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of slots that ask and have nothing: which controller is asked for which of them next
 * (doc/design/queue.md). Private to partition.
 */
#ifndef IPU_PARTITION_QUEUE_H
#define IPU_PARTITION_QUEUE_H

#include "partition/internal.h"

void queue_init(struct partitions *p, struct kube_client *kube,
		const struct partitions_config *config);
void queue_done(struct partitions *p);
void queue_add(struct slot *s); /* at its place, unless it's in there */
/* The same need, another priority or length: it may have another place. */
void queue_move(struct slot *s, const struct partition_ask *ask);
void queue_remove(struct slot *s);                         /* harmless if it isn't */
void queue_pass_at(struct partitions *p, int64_t mono_ms); /* a pass then at the latest */
/* Its entry, in phase was until now, serves it no more; s->why says why. */
void queue_lost(struct slot *s, const struct partition_entry *entry, enum partition_phase was);
/* Policy's default for its namespace, as it is now. */
int64_t queue_limit_ms(const struct slot *s);
void queue_forget(struct slot *s); /* what the queue remembers of it */

#endif
