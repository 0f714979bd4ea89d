/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All facts of this node's fabric, kept current on the loop: RDMA devices (node/rdma.h), links,
 * addresses, routes and hot-plug by netlink (node/links.h), the host's limits (node/host.h). The
 * daemon's node role keeps one, `ipuctl rdma check` waits for it to be complete and judges once.
 * Uses core, loop, net, vipu.
 */
#ifndef IPU_NODE_FABRIC_H
#define IPU_NODE_FABRIC_H

#include "core/err.h"
#include "net/net.h"
#include "node/facts.h"
#include "vipu/address.h"

struct fabric;

/* All copied. */
struct fabric_opts {
	const struct vipu_address_list *controllers; /* whose reach is wanted; may be empty */
	const char *root;       /* before /proc, /sys and /etc; NULL and "": none */
	const char *cni_folder; /* NULL: it's found */
	bool limits_only; /* of the host the limits and huge pages, all below /proc and /sys */
	unsigned host_ms; /* the host's limits are read again after this; 0: a minute */
};

/* Facts have changed, or are complete for the first time. From the loop, at most once a turn. */
typedef void fabric_changed_fn(void *arg);

struct fabric *fabric_new(struct net *net, const struct fabric_opts *opts, fabric_changed_fn *cb,
			  void *arg);
void fabric_set_controllers(struct fabric *f, const struct vipu_address_list *controllers);
void fabric_free(struct fabric *f); /* NULL is fine */
/* Current until the next turn. complete is true after 5 s at most: what isn't known by then says
 * so by its error. */
const struct fabric_facts *fabric_facts(const struct fabric *f);
/* An interface by its name, and the RDMA port that it is or lies on: what a reach has but for
 * controller, address, source and subnet. ERR_NOT_FOUND: there is none. */
int fabric_look_at(const struct fabric *f, const char *link, struct fabric_reach *ret,
		   struct err *err);

#endif
