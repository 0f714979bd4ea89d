/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an address is reached: the route, its interface with our address there, and the RDMA port of
 * that interface or of one below it. Asks the kernel anew each time. Uses core, node/links.h.
 */
#ifndef IPU_NODE_REACH_H
#define IPU_NODE_REACH_H

#include "links.h"
#include "node/facts.h"

/* Fills everything but the controller's name. zone: an address' %zone as an index, 0: none.
 * ret_link: the interface's index. On an error ret->error says it, and the rest of ret is empty
 * but for the address. */
int reach_find(struct links *links, const struct nl_ip *to, int zone,
	       const struct rdma_inventory *rdma, struct fabric_reach *ret, int *ret_link);
/* The same of an interface by itself: neither controller, address nor source. */
void reach_look(struct links *links, const struct nl_link *link, const struct rdma_inventory *rdma,
		struct fabric_reach *ret);
bool reach_equal(const struct fabric_reach *a, const struct fabric_reach *b);

#endif
