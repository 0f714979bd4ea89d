/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address to an interface, our address and subnet there, and its RDMA port. Uses core.
 */
#include "reach.h"

#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Interfaces on top of each other, and parts of one bond or bridge, that are looked at. */
#define MAX_DEPTH   8
#define MAX_MEMBERS 256

/* ---- our address ---- */

struct search {
	struct nl_ip ip;      /* the address that we look for */
	struct nl_ip near[2]; /* or else one whose network holds one of these */
	bool exact, found;
	struct nl_addr addr;
};

static void on_addr(const struct nl_addr *addr, void *arg)
{
	struct search *s = arg;
	bool exact = nl_ip_equal(&addr->ip, &s->ip);

	if (!exact && !nl_ip_covers(&addr->network, addr->prefix_bits, &s->near[0]) &&
	    !nl_ip_covers(&addr->network, addr->prefix_bits, &s->near[1]))
		return;
	if (s->exact || (s->found && !exact))
		return;
	s->found = true;
	s->exact = exact;
	s->addr = *addr;
}

/* The address that packets leave with. It usually stands on the route's own interface; one that a
 * routing daemon put on lo says nothing of the network there, and then the interface's own does,
 * if it has one. */
static int find_subnet(struct links *links, const struct nl_route *route, const struct nl_ip *to,
		       struct fabric_reach *ret)
{
	struct search s = {.ip = route->source, .near = {route->gateway, *to}};

	if (links_addrs(links, to->family, route->link, on_addr, &s, &ret->error) < 0)
		return -1;
	if (s.found)
		nl_ip_format_net(&s.addr.network, s.addr.prefix_bits, ret->subnet);
	nl_ip_format(route->source.family ? &route->source : &s.addr.ip, ret->source);
	return 0;
}

/* A route to one of our own addresses leads through lo: the interface that has it says more. */
static int find_owner(struct links *links, const struct nl_ip *to, struct nl_route *route,
		      struct err *err)
{
	struct search s = {.ip = *to};

	if (links_addrs(links, to->family, 0, on_addr, &s, err) < 0)
		return -1;
	if (s.exact)
		route->link = s.addr.link;
	route->source = *to;
	return 0;
}

/* ---- the RDMA port ---- */

static const struct rdma_port *port_of(const struct rdma_inventory *rdma, const char *link,
				       const struct rdma_device **ret_device)
{
	for (size_t i = 0; i < rdma->n_devices; i++) {
		const struct rdma_device *device = &rdma->devices[i];

		for (size_t j = 0; j < device->n_ports; j++) {
			if (link[0] && strcmp(device->ports[j].netdev, link) == 0) {
				*ret_device = device;
				return &device->ports[j];
			}
		}
	}
	return NULL;
}

/* A port that is up is preferred; false: go on looking. */
static bool take_port(const struct rdma_inventory *rdma, const struct nl_link *link,
		      struct fabric_reach *ret)
{
	const struct rdma_device *device = NULL;
	const struct rdma_port *port = port_of(rdma, link->name, &device);

	if (!port)
		return false;
	bool up = rdma_port_is_up(port);
	if (!ret->rdma_device[0] || up) {
		snprintf(ret->rdma_device, sizeof(ret->rdma_device), "%s", device->name);
		snprintf(ret->rdma_link, sizeof(ret->rdma_link), "%s", link->name);
		ret->rdma_port = port->number;
	}
	return up;
}

static bool is_one_of(const char *kind, const char *const *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	}
	return false;
}

/* IFLA_LINK is what a link lies on for these; for a veth it's the other end, for a tunnel the link
 * that its packets happen to leave by. */
static bool lies_on_another(const struct nl_link *link)
{
	static const char *const kinds[] = {"vlan",   "macvlan", "macvtap", "ipvlan",
					    "ipvtap", "ipoib",   "macsec"};

	return link->lower > 0 && is_one_of(link->kind, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

static bool has_parts(const struct nl_link *link)
{
	static const char *const kinds[] = {"bond", "bridge", "team"};

	return is_one_of(link->kind, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

struct walk {
	struct links *links;
	const struct rdma_inventory *rdma;
	struct fabric_reach *ret;
	unsigned budget;
};

/* True: done. An interface that is gone meanwhile is none; its event makes us look again. */
static bool walk_down(struct walk *w, const struct nl_link *link, unsigned depth)
{
	struct nl_link *members, lower;
	size_t n = 0;
	bool done = false;

	if (depth == MAX_DEPTH || w->budget == 0)
		return true;
	w->budget--;
	if (take_port(w->rdma, link, w->ret))
		return true;
	if (lies_on_another(link))
		return links_get(w->links, link->lower, &lower, NULL) == 0 &&
		       walk_down(w, &lower, depth + 1);
	if (!has_parts(link))
		return false;
	members = xcalloc(MAX_MEMBERS, sizeof(*members));
	if (links_members(w->links, link->index, members, MAX_MEMBERS, &n, NULL) == 0) {
		for (size_t i = 0; i < n && !done; i++)
			done = walk_down(w, &members[i], depth + 1);
	}
	free(members);
	return done;
}

/* ---- all of it ---- */

void reach_look(struct links *links, const struct nl_link *link, const struct rdma_inventory *rdma,
		struct fabric_reach *ret)
{
	struct walk w = {links, rdma, ret, MAX_MEMBERS};

	snprintf(ret->link, sizeof(ret->link), "%s", link->name);
	snprintf(ret->kind, sizeof(ret->kind), "%s", link->kind);
	ret->mtu_bytes = link->mtu_bytes;
	ret->enabled = link->enabled;
	ret->up = link->enabled && link->carrier;
	if (rdma->n_devices > 0)
		(void)walk_down(&w, link, 0);
}

static int find(struct links *links, const struct nl_ip *to, int zone,
		const struct rdma_inventory *rdma, struct fabric_reach *ret, int *ret_link)
{
	struct nl_route route;
	struct nl_link link;

	if (links_route(links, to, zone, &route, &ret->error) < 0)
		return -1;
	ret->local = route.type == RTN_LOCAL;
	if (ret->local && find_owner(links, to, &route, &ret->error) < 0)
		return -1;
	if (links_get(links, route.link, &link, &ret->error) < 0)
		return -1;
	if (find_subnet(links, &route, to, ret) < 0)
		return -1;
	nl_ip_format(&route.gateway, ret->gateway);
	reach_look(links, &link, rdma, ret);
	*ret_link = link.index;
	return 0;
}

int reach_find(struct links *links, const struct nl_ip *to, int zone,
	       const struct rdma_inventory *rdma, struct fabric_reach *ret, int *ret_link)
{
	struct fabric_reach reach = {0};
	int result = find(links, to, zone, rdma, &reach, ret_link);

	if (result < 0)
		reach = (struct fabric_reach){.error = reach.error};
	nl_ip_format(to, reach.address);
	*ret = reach;
	return result;
}

bool reach_equal(const struct fabric_reach *a, const struct fabric_reach *b)
{
	return strcmp(a->controller, b->controller) == 0 && strcmp(a->address, b->address) == 0 &&
	       a->error.kind == b->error.kind && strcmp(a->error.msg, b->error.msg) == 0 &&
	       strcmp(a->link, b->link) == 0 && strcmp(a->kind, b->kind) == 0 &&
	       strcmp(a->source, b->source) == 0 && strcmp(a->gateway, b->gateway) == 0 &&
	       strcmp(a->subnet, b->subnet) == 0 && a->mtu_bytes == b->mtu_bytes &&
	       a->up == b->up && a->enabled == b->enabled && a->local == b->local &&
	       strcmp(a->rdma_device, b->rdma_device) == 0 && a->rdma_port == b->rdma_port &&
	       strcmp(a->rdma_link, b->rdma_link) == 0;
}
