/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of node/facts.h: their names, and their end. Uses core.
 */
#include "node/facts.h"

#include <stdlib.h>
#include <string.h>

const char *rdma_layer_name(enum rdma_layer layer)
{
	switch (layer) {
	case RDMA_LAYER_INFINIBAND:
		return "InfiniBand";
	case RDMA_LAYER_ETHERNET:
		return "Ethernet";
	case RDMA_LAYER_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *rdma_gid_type_name(enum rdma_gid_type type)
{
	switch (type) {
	case RDMA_GID_ROCE_V1:
		return "RoCE v1";
	case RDMA_GID_ROCE_V2:
		return "RoCE v2";
	case RDMA_GID_IB:
		break;
	}
	return "IB";
}

const char *rdma_state_name(enum rdma_state state)
{
	static const char *const names[] = {
		[RDMA_PORT_NOP] = "unknown",       [RDMA_PORT_DOWN] = "down",
		[RDMA_PORT_INIT] = "initialising", [RDMA_PORT_ARMED] = "armed",
		[RDMA_PORT_ACTIVE] = "active",     [RDMA_PORT_ACTIVE_DEFER] = "active, waiting",
	};

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

bool rdma_port_is_up(const struct rdma_port *port)
{
	return port->state == RDMA_PORT_ACTIVE || port->state == RDMA_PORT_ACTIVE_DEFER;
}

void rdma_inventory_done(struct rdma_inventory *inventory)
{
	for (size_t i = 0; i < inventory->n_devices; i++) {
		struct rdma_device *device = &inventory->devices[i];

		for (size_t j = 0; j < device->n_ports; j++)
			free(device->ports[j].gids);
		free(device->ports);
	}
	free(inventory->devices);
	*inventory = (struct rdma_inventory){0};
}

void fabric_host_done(struct fabric_host *host)
{
	free(host->runtimes);
	free(host->modules);
	*host = (struct fabric_host){0};
}

void fabric_facts_done(struct fabric_facts *facts)
{
	rdma_inventory_done(&facts->rdma);
	free(facts->reach);
	fabric_host_done(&facts->host);
	*facts = (struct fabric_facts){0};
}

const struct rdma_port *fabric_port(const struct fabric_facts *facts, const char *device,
				    unsigned port)
{
	for (size_t i = 0; i < facts->rdma.n_devices; i++) {
		const struct rdma_device *d = &facts->rdma.devices[i];

		if (strcmp(d->name, device) != 0)
			continue;
		for (size_t j = 0; j < d->n_ports; j++) {
			if (d->ports[j].number == port)
				return &d->ports[j];
		}
	}
	return NULL;
}
