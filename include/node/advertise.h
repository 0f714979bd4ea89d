/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Nodes are to show how many IPUs as an extended resource: a pure function from controllers
 * and Nodes to what is to be written (doc/design/advertising.md has its table), and the advertiser,
 * which watches both and writes. The latter borrows what it's given. Uses kube, vipu.
 */
#ifndef IPU_NODE_ADVERTISE_H
#define IPU_NODE_ADVERTISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/client.h"
#include "node/nodes.h"
#include "vipu/fleet.h"

/* A controller that doesn't answer for so long has no IPUs any more that could be advertised. */
#define ADVERTISE_UNREACHABLE_MS 300000

enum advertise_mode {
	ADVERTISE_OFF,   /* what was advertised is taken away */
	ADVERTISE_WHOLE, /* each Node shows all of its controllers' IPUs */
	ADVERTISE_SHARE, /* a controller's IPUs are dealt out to its Nodes */
};

/* What of a controller counts. */
#define ADVERTISE_UNKNOWN INT64_C(-1) /* nobody can say yet: its Nodes stay as they are */
int64_t advertise_ipus(const struct vipu_controller *c, int64_t now_ms /* monotonic */);

struct advertise_node {
	const char *name;
	const struct node_item *item;
};

enum advertise_action {
	ADVERTISE_LEAVE,
	ADVERTISE_FOREIGN, /* left alone as well: somebody else's figure is there */
	ADVERTISE_WRITE,
	ADVERTISE_REMOVE,
};
struct advertise_decision {
	enum advertise_action action;
	int64_t ipus; /* of WRITE */
};

/* ipus: by controller, from advertise_ipus; n_controllers at most VIPU_MAX_CONTROLLERS. nodes:
 * sorted by name. Fills ret, one for each Node. Pure. */
void advertise_plan(enum advertise_mode mode, bool on_control_plane, const int64_t *ipus,
		    size_t n_controllers, const struct advertise_node *nodes, size_t n_nodes,
		    struct advertise_decision *ret);

/* ---- the advertiser ---- */

struct advertiser;

struct advertiser_opts {
	struct loop *loop;
	struct kube_client *kube;
	struct vipu_fleet *fleet;
	struct nodes *nodes;
	enum advertise_mode mode;
	bool on_control_plane;
	/* The scheduler asks us: when IPUs come free, a Node is written to (NODES_FREED), which
	 * makes it look again at Pods that found no room. again_ms later once more, when other
	 * replicas of us, which it may ask, have seen them too. 0: it doesn't. */
	unsigned again_ms;
	/* Asked before every write: false, and there's none. NULL: always. */
	bool (*may_act)(void *arg);
	void *arg;
};

/* From now on, in the process that leads. */
struct advertiser *advertiser_new(const struct advertiser_opts *opts);
void advertiser_free(struct advertiser *a); /* what it has written stays; NULL is fine */
/* Nodes have changed. NULL is fine. */
void advertiser_look(struct advertiser *a);

#endif
