/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of advertised IPUs. Pure.
 */
#include "node/advertise.h"

#include <stdlib.h>

#include "core/str.h"

int64_t advertise_ipus(const struct vipu_controller *c, int64_t now_ms)
{
	if (!c->configured || c->cordoned)
		return 0;
	if (c->reach == VIPU_REACH_YES)
		return c->capacity.total_ipus;
	if (now_ms - c->since_ms >= ADVERTISE_UNREACHABLE_MS)
		return 0;
	return c->fresh_ms ? (int64_t)c->capacity.total_ipus : ADVERTISE_UNKNOWN;
}

/* ---- what a Node should show ---- */

struct share {
	int64_t each, rest; /* the first Nodes get one of the rest each */
};

static bool takes_part(const struct advertise_node *node, bool on_control_plane)
{
	return !node->item->deleting && (on_control_plane || !node->item->control_plane);
}

static void deal_out(const struct advertise_node *nodes, size_t n_nodes, bool on_control_plane,
		     const int64_t *ipus, size_t n_controllers, struct share *ret)
{
	int64_t *n = xcalloc(n_controllers + 1, sizeof(*n));

	for (size_t k = 0; k < n_nodes; k++) {
		for (size_t i = 0; takes_part(&nodes[k], on_control_plane) && i < n_controllers;
		     i++)
			n[i] += reach_has(&nodes[k].item->reach, i);
	}
	for (size_t i = 0; i < n_controllers; i++) {
		if (n[i] > 0 && ipus[i] > 0)
			ret[i] = (struct share){ipus[i] / n[i], ipus[i] % n[i]};
	}
	free(n);
}

/* The sum over the controllers that it reaches; ADVERTISE_UNKNOWN where one can't be told. */
static int64_t sum_up(const struct node_item *item, const int64_t *ipus, struct share *shares,
		      size_t n_controllers)
{
	int64_t sum = 0;
	bool unknown = false;

	for (size_t i = 0; i < n_controllers; i++) {
		if (!reach_has(&item->reach, i))
			continue;
		unknown = unknown || ipus[i] == ADVERTISE_UNKNOWN;
		if (!shares) {
			sum += ipus[i];
		} else {
			sum += shares[i].each + (shares[i].rest > 0);
			shares[i].rest -= shares[i].rest > 0;
		}
	}
	return unknown ? ADVERTISE_UNKNOWN : sum;
}

/* ---- what is done about it ---- */

static struct advertise_decision decide(const struct node_item *item, int64_t wanted)
{
	bool shows = item->shown != -1 || item->allocatable != -1;
	bool ours = item->noted != -1;

	if (item->deleting)
		return (struct advertise_decision){ADVERTISE_LEAVE, 0};
	if (shows && !ours)
		return (struct advertise_decision){wanted > 0 ? ADVERTISE_FOREIGN : ADVERTISE_LEAVE,
						   0};
	if (wanted == ADVERTISE_UNKNOWN)
		return (struct advertise_decision){ADVERTISE_LEAVE, 0};
	if (wanted == 0)
		return (struct advertise_decision){ours ? ADVERTISE_REMOVE : ADVERTISE_LEAVE, 0};
	if (item->shown == wanted && item->allocatable == wanted && item->noted == wanted)
		return (struct advertise_decision){ADVERTISE_LEAVE, 0};
	return (struct advertise_decision){ADVERTISE_WRITE, wanted};
}

void advertise_plan(enum advertise_mode mode, bool on_control_plane, const int64_t *ipus,
		    size_t n_controllers, const struct advertise_node *nodes, size_t n_nodes,
		    struct advertise_decision *ret)
{
	struct share *shares = NULL;

	if (mode == ADVERTISE_SHARE) {
		shares = xcalloc(n_controllers + 1, sizeof(*shares));
		deal_out(nodes, n_nodes, on_control_plane, ipus, n_controllers, shares);
	}
	for (size_t k = 0; k < n_nodes; k++) {
		int64_t wanted = 0;

		if (mode != ADVERTISE_OFF && takes_part(&nodes[k], on_control_plane))
			wanted = sum_up(nodes[k].item, ipus, shares, n_controllers);
		ret[k] = decide(nodes[k].item, wanted);
	}
	free(shares);
}
