/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RDMA device through libibverbs: opening it, asking it, taking its events. Plain calls that
 * return at once; who watches and who owns is rdma.c's business. Uses core.
 */
#ifndef IPU_NODE_RDMA_VERBS_H
#define IPU_NODE_RDMA_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"
#include "node/facts.h"

struct ibv_context;
struct ibv_device;

/* Opens without waiting, its events' descriptor too. ERR_DENIED: no permission, with what to do;
 * ERR_NOT_FOUND: its node isn't there; ERR_UNAVAILABLE: it went away, or isn't ready; ERR_IO:
 * anything else. */
int rdma_verbs_open(struct ibv_device *device, struct ibv_context **ret, struct err *err);

/* The same by the node in /dev alone, which need not be there. */
int rdma_verbs_try_node(const char *uverbs, dev_t number, struct err *err);

/* All that can be known of an open device, into a zeroed *device whose name is set. path: its
 * folder in sysfs, for what the verbs don't say. What is beyond the limits adds to *left_out. */
int rdma_verbs_query(struct ibv_context *context, const char *path, struct rdma_device *device,
		     size_t *left_out, struct err *err);

struct rdma_events {
	unsigned n;   /* taken; the budget: there may be more */
	bool changed; /* ports or GIDs: ask again */
	bool fatal;   /* the device failed */
	bool gone;    /* and no more will come */
};
/* Takes and acknowledges what is there, at most budget. */
void rdma_verbs_take_events(struct ibv_context *context, unsigned budget, struct rdma_events *ret);

#endif
