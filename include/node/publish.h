/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cluster is told of a node's fabric: a pure function from the Node as it is, the verdict
 * and the time to the patches that are due. doc/design/head-node.md, "What is published", has its
 * rules. Allocates only its result. Uses core, kube, vipu.
 */
#ifndef IPU_NODE_PUBLISH_H
#define IPU_NODE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "node/verdict.h"
#include "vipu/address.h"

#define PUBLISH_LABEL_RDMA "graphcore.ai/rdma" /* "true", or it isn't there */
/* What of the Node is ours: labels as "KEY=VALUE" and the taint as "taint:KEY", spaces between; and
 * PUBLISH_HEAD, once the machine has shown itself to be a head node. */
#define PUBLISH_ANNOTATION "graphcore.ai/node-published"
#define PUBLISH_HEAD       "head"
#define PUBLISH_TAINT_WORD "taint:"
#define PUBLISH_TAINT      "graphcore.ai/fabric-not-ready" /* node.taint's default */
#define PUBLISH_EFFECT     "NoSchedule"

#define PUBLISH_HEARTBEAT_MS (5 * 60000)  /* the condition is written again after this */
#define PUBLISH_WORDS_MS     10000        /* … and after this where only its words differ */
#define PUBLISH_STALE_MS     (15 * 60000) /* who reads one that's older knows nothing by it */

/* ---- the Node ---- */

struct publish_condition {
	bool known; /* it's there */
	enum fabric_status status;
	char *reason, *message;
	int64_t heartbeat_ms, transition_ms; /* wall clock; 0: unknown */
};

void publish_condition_decode(const struct json *object, struct publish_condition *ret);
void publish_condition_done(struct publish_condition *c);

/* What the store keeps of it. Owns all. */
struct publish_node {
	char *name, *uid, *version;
	char *published; /* PUBLISH_ANNOTATION's value; "": none */
	struct jmut_doc *doc;
	const struct json *labels, *taints; /* in doc; NULL: none */
	struct publish_condition condition;
};

int publish_node_decode(const struct json *object, struct publish_node **ret, struct err *err);
void publish_node_free(struct publish_node *node); /* NULL is fine */
/* But for the version. */
bool publish_node_equal(const struct publish_node *a, const struct publish_node *b);
struct str publish_node_label(const struct publish_node *node, const char *key); /* or STR_NULL */

/* ---- the plan ---- */

struct publish_settings {
	bool labels;       /* node.labels */
	const char *taint; /* node.taint; "": none */
	int64_t calm_ms;   /* for so long all must be well before it's said again */
};

struct publish_view {
	const struct publish_node *node;
	const struct fabric_verdict *verdict;
	int64_t steady_ms; /* for so long has its status been what it is */
	int64_t rdma_ms;   /* for so long has its rdma been that */
	const struct vipu_address_list *controllers;
	const bool *belongs; /* to it, by what is reached; by controllers' items */
	const struct publish_settings *settings;
	int64_t now_ms; /* wall clock */
};

struct publish_plan {
	/* The status that the Node has when this is done. */
	enum fabric_status status;
	/* NULL: nothing to be done. In this order: */
	struct jmut_doc *condition; /* strategic merge patch of the Node's status */
	struct jmut_doc *meta;      /* merge patch of the Node at its version */
	int64_t next_ms;            /* a look is due in so long, whatever happens; -1: none */
};

/* Whether it's a head node, of which the fabric is expected: it has an RDMA device or a
 * controller's label, or was once known as one, or published as well. Another may be anything: its
 * condition is all that is said of it. */
bool publish_is_head(const struct publish_node *node, const struct fabric_verdict *verdict,
		     const struct vipu_address_list *controllers);

void publish_plan(const struct publish_view *view, struct publish_plan *ret);
void publish_plan_done(struct publish_plan *plan);

#endif
