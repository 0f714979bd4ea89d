/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster's Nodes, cut down to what advertising, the scheduler's extender and the partition
 * layer need, and which V-IPU controllers' IPUs each of them reaches, by the labels of the list of
 * controllers. Owns its store; the fleet is borrowed. Uses kube, vipu.
 */
#ifndef IPU_NODE_NODES_H
#define IPU_NODE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"
#include "core/str.h"
#include "kube/client.h"
#include "node/verdict.h"
#include "vipu/fleet.h"

/* The extended resource, and what the advertiser has written of it last (status.capacity alone
 * could be another program's). */
#define NODES_RESOURCE   "graphcore.ai/ipu"
#define NODES_ANNOTATION "graphcore.ai/advertised-ipus"
/* When IPUs that it reaches came free last: news for the scheduler. */
#define NODES_FREED "graphcore.ai/ipus-freed"

/* An amount of the resource: a whole number from 0 to max in the API server's notation of
 * quantities, which writes 1000 as "1k" and leaves "1Ki" and "1e3" as they came. False: it's none,
 * and *ret stays as it was. */
bool nodes_amount(const struct json *quantity, int64_t max, int64_t *ret);

/* A bit for each controller, by its place in the fleet; those beyond have none. */
struct reach {
	uint64_t bits[VIPU_MAX_CONTROLLERS / 64];
};
static inline bool reach_has(const struct reach *r, size_t i)
{
	return i < VIPU_MAX_CONTROLLERS && (r->bits[i / 64] >> (i % 64) & 1);
}
bool reach_is_empty(const struct reach *r);

/* Its condition FABRIC_CONDITION. */
struct node_fabric {
	bool known;  /* it's there */
	bool silent; /* it's FABRIC_SILENT that it has been given */
	enum fabric_status status;
	int64_t heartbeat_ms; /* wall clock of the node; 0: unknown */
	int64_t seen_ms; /* monotonic: since when that has been its heartbeat, seen from here */
};
/* The reason of a condition that its own role node doesn't keep any more (node/heed.h). */
#define FABRIC_SILENT "NodeRoleSilent"

struct node_item {
	uint64_t *labels; /* a hash of each "key=value", in their order */
	size_t n_labels;
	int64_t shown, allocatable; /* of the resource, as its status says; -1: nothing */
	int64_t noted;              /* NODES_ANNOTATION; -1: none */
	bool control_plane, deleting;
	struct node_fabric fabric;
	char version[24]; /* resourceVersion; "" where it's longer */

	struct reach reach; /* as of the labels' version below */
	uint64_t reach_version;
};

/* What the store makes of an object. For tests, too. */
struct node_item *node_item_decode(const struct json *object);
void node_item_free(struct node_item *item); /* NULL is fine */

struct nodes;

/* A Node that matters here is another one now, or they have all been read, or can't be.
 * fabric_only: but for its condition it's the same. */
typedef void nodes_change_fn(void *arg, bool fabric_only);

/* kube NULL: nothing is watched, nodes_note alone fills it (for tests). */
struct nodes *nodes_new(struct kube_client *kube, struct vipu_fleet *fleet,
			nodes_change_fn *on_change, void *arg);
void nodes_free(struct nodes *n); /* NULL is fine */
bool nodes_synced(const struct nodes *n);
/* Why they haven't been read, for readiness; kind ERR_NONE: there's no reason yet. */
void nodes_error(const struct nodes *n, struct err *ret);
size_t nodes_len(const struct nodes *n);

/* Looks at the fleet's list; before nodes_get and nodes_each in each turn of the loop. */
void nodes_look(struct nodes *n);
/* Borrowed until control returns to the loop; NULL: there's no such Node. */
const struct node_item *nodes_get(struct nodes *n, struct str name);
typedef void nodes_fn(struct str name, const struct node_item *item, void *arg);
void nodes_each(struct nodes *n, nodes_fn *fn, void *arg); /* in no order */
/* Of a Node that isn't in the store: by its object. */
void nodes_reach(const struct nodes *n, const struct json *labels, struct reach *ret);
/* Is this the key of a label by which some controller's Nodes are known? */
bool nodes_is_key(const struct nodes *n, struct str key);

/* Of a Node, those labels that are some controller's, with commas between them; NULL: none. The
 * caller's. */
char *nodes_labels(struct nodes *n, struct str name);

/* The answer to a write of ours. */
void nodes_note(struct nodes *n, const struct json *object);

#endif
