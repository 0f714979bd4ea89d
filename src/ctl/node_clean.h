/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node clean: what is to be taken off a Node, as a pure function of the Node (node_clean.c has the
 * command around it). Uses core, kube and the words of node/publish.h and node/nodes.h.
 */
#ifndef IPU_CTL_NODE_CLEAN_H
#define IPU_CTL_NODE_CLEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/json.h"

/* So long after the role's last word on a Node it's presumed to run there: it writes every five
 * minutes at least. */
#define CTL_NODE_FRESH_MS (6 * 60000)

struct ctl_node_plan {
	/* Merge patches of the Node at its version, in this order; NULL: nothing to be done. The
	 * annotations, which say what is ours, go with the second. */
	struct jmut *status, *meta;
	/* "condition IPUFabricReady, label ipunode=pod001"; empty: nothing of ours is there. */
	struct buf taken;
	int64_t heard_ms; /* since the role's last word; -1: it has said nothing */
};

enum ctl_node_part {
	CTL_NODE_ROLE = 1,     /* condition, labels, taint and their annotation */
	CTL_NODE_RESOURCE = 2, /* graphcore.ai/ipu and its annotations */
};

/* node is borrowed for as long as doc lives; parts: of enum ctl_node_part; now_ms: wall clock. */
void ctl_node_clean_plan(struct jmut_doc *doc, const struct json *node, unsigned parts,
			 int64_t now_ms, struct ctl_node_plan *ret);
void ctl_node_clean_plan_done(struct ctl_node_plan *plan);

#endif
