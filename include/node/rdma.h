/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's RDMA devices through libibverbs, kept current: devices are opened, and their
 * asynchronous events read from each context's descriptor on the loop. Owns the contexts and the
 * inventory. The one place that sees <infiniband/verbs.h>. Uses core, loop.
 */
#ifndef IPU_NODE_RDMA_H
#define IPU_NODE_RDMA_H

#include "core/err.h"
#include "loop/loop.h"
#include "node/facts.h"

struct rdma;

/* Something of the inventory has changed (a port's state, GIDs, a device that came, went or
 * failed). From the loop; the inventory is current already. */
typedef void rdma_changed_fn(void *arg);

/* Reads at once: opening devices is a few system calls each, and none waits. A machine without
 * devices, driver or permission is no error: the inventory says so. */
struct rdma *rdma_new(struct loop *loop, rdma_changed_fn *cb, void *arg);
void rdma_free(struct rdma *rdma); /* NULL is fine */
/* Until the callback says that it is another one. */
const struct rdma_inventory *rdma_inventory(const struct rdma *rdma);
/* Looks for devices that came or went, soon: not within the call. It happens by itself with
 * hot-plug messages and twice a minute. */
void rdma_rescan(struct rdma *rdma);

#endif
