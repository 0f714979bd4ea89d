/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of Nodes' condition IPUFabricReady: a controller none of whose Nodes is ready gets
 * no new partitions, and a condition that its own role node doesn't keep any more turns Unknown, by
 * the process that leads. doc/design/head-node.md has both tables. It tells the fleet and patches
 * Nodes' status; all that it's given is borrowed. Uses core, loop, kube, vipu.
 */
#ifndef IPU_NODE_HEED_H
#define IPU_NODE_HEED_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"
#include "loop/loop.h"
#include "node/nodes.h"
#include "vipu/fleet.h"

/* ---- judgements: pure ---- */

/* Whether the Node says that nothing can run there: False, and both by its own clock and by what
 * was seen of it no older than PUBLISH_STALE_MS. */
bool heed_is_not_ready(const struct node_fabric *f, int64_t wall_ms, int64_t mono_ms);
/* In so long that ends by itself; of a Node that says so. */
int64_t heed_left_ms(const struct node_fabric *f, int64_t wall_ms, int64_t mono_ms);

/* Whether its role node has been silent for silent_ms, and nobody has said so yet. */
bool heed_is_silent(const struct node_fabric *f, int64_t silent_ms, int64_t mono_ms);

/* Of a controller's Nodes: all that have its label, and those of them that aren't ready. */
bool heed_closes(unsigned nodes, unsigned not_ready);

/* ---- deeds ---- */

struct heed;

struct heed_opts {
	struct loop *loop;
	struct kube_client *kube;
	struct vipu_fleet *fleet;
	struct nodes *nodes; /* NULL: a store of its own, once there's something to look at */
	bool controllers;    /* partitions.heedNodes */
	int64_t silent_ms;   /* node.silentSeconds; 0: no condition is turned */
	bool leads;          /* false: only the fleet is told, and nothing is written */
	/* The list of controllers is known, and, where it leads, this process still does. */
	bool (*may_act)(void *arg);
	/* Once: what Nodes say of the controllers is known, or can't be had. From the loop. */
	void (*on_known)(void *arg);
	void *arg;
};

struct heed *heed_new(const struct heed_opts *opts);
void heed_free(struct heed *h); /* what it has told the fleet is taken back; NULL is fine */
void heed_look(struct heed *h); /* Nodes or the list have changed; NULL is fine */

#endif
