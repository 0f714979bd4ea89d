/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated controller lists: partitions, agents with their IPUs, status, and the IPUoF
 * configuration of each GCD. Results are the caller's.
 * Uses core and the wire's types.
 */
#include "vipu_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/intern.h"
#include "core/str.h"

#define IPUOF_VERSION "1.11.0"

static char *agent_name(const struct model *m, unsigned agent)
{
	return xasprintf("%s%02u", m->agent_prefix, agent + 1);
}

static struct vipu_ipu ipu_place(uint32_t ipu, uint32_t index)
{
	return (struct vipu_ipu){
		.domain_topology_id = ipu / MODEL_DOMAIN_IPUS,
		.domain_routing_id = index / MODEL_DOMAIN_IPUS,
		.topology_id = ipu % MODEL_DOMAIN_IPUS,
		.routing_id = index,
	};
}

static void fill_partition(const struct model *m, const struct model_partition *from,
			   struct vipu_partition *to)
{
	*to = (struct vipu_partition){
		.id = xstrdup(from->id),
		.cluster_id = intern_z(m->cluster),
		.allocation_id = intern_z(from->allocation),
		.ipuof_server_version = intern_z(IPUOF_VERSION),
		.ipus = xcalloc(from->size, sizeof(*to->ipus)),
		.n_ipus = from->size,
		.ready = from->ready,
		.routing = from->routing,
		.gw_routing = from->gw_routing,
		.sync = from->sync,
		.gcds = from->gcds,
		.segments = from->segments,
		.replicas = from->replicas,
		.reconfigurable = from->reconfigurable,
	};
	for (uint32_t i = 0; i < from->size; i++)
		to->ipus[i] = ipu_place(from->first_ipu + i, i);
}

void model_partitions(const struct model *m, const char *allocation, struct vipu_partitions *ret)
{
	*ret = (struct vipu_partitions){.items = xcalloc(m->n_parts + 1, sizeof(*ret->items))};
	for (size_t i = 0; i < m->n_parts; i++)
		if (allocation[0] == '\0' || strcmp(allocation, m->parts[i].allocation) == 0)
			fill_partition(m, &m->parts[i], &ret->items[ret->n++]);
}

static struct vipu_pair pair(const char *key, char *value)
{
	struct vipu_pair ret = {intern_z(key), intern_z(value)};

	free(value);
	return ret;
}

/* As gc-info and gcipuinfo write them (Device attributes). */
static void fill_health(const struct model *m, unsigned agent, uint32_t i,
			struct vipu_ipu_attributes *ipu)
{
	bool hot = m->fault.agent == agent + 1;
	double die = hot ? m->fault.celsius : 38 + i;

	ipu->pairs[ipu->n_pairs++] = pair("average die temp", xasprintf("%.1f C", die));
	ipu->pairs[ipu->n_pairs++] = pair("average board temp", xasprintf("%.1f C", die - 10));
	ipu->pairs[ipu->n_pairs++] = pair(
		"ipu error state",
		xstrdup(hot && i == 0 && m->fault.state ? m->fault.state : "no errors"));
}

static void fill_agent(const struct model *m, unsigned agent, struct vipu_agent *to)
{
	to->name = agent_name(m, agent);
	to->n_ipus = MODEL_AGENT_IPUS;
	to->ipus = xcalloc(MODEL_AGENT_IPUS, sizeof(*to->ipus));
	for (uint32_t i = 0; i < MODEL_AGENT_IPUS; i++) {
		struct vipu_ipu_attributes *ipu = &to->ipus[i];
		ipu->id = i;
		ipu->pairs = xcalloc(6, sizeof(*ipu->pairs));
		ipu->pairs[ipu->n_pairs++] = pair("ipu arch", xstrdup("ipu2"));
		ipu->pairs[ipu->n_pairs++] = pair("board serial",
						  xasprintf("%04u.0002.8%06u", agent / 100, agent));
		ipu->pairs[ipu->n_pairs++] = pair("chip id", xasprintf("%u", agent * 16 + i));
		fill_health(m, agent, i, ipu);
	}
}

static bool is_asked_for(const char *name, const char *const *agents, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(agents[i], name) == 0)
			return true;
	return n == 0;
}

enum grpc_status model_agents(const struct model *m, const char *const *agents, size_t n_agents,
			      struct vipu_agents *ret, char why[MODEL_WHY_SIZE])
{
	*ret = (struct vipu_agents){.items = xcalloc(m->agents + 1, sizeof(*ret->items))};
	for (unsigned i = 0; i < m->agents; i++) {
		CLEANUP_FREE char *name = agent_name(m, i);
		if (!is_asked_for(name, agents, n_agents))
			continue;
		fill_agent(m, i, &ret->items[ret->n++]);
		ret->n_ipus += MODEL_AGENT_IPUS;
	}
	if (ret->n < n_agents) {
		vipu_agents_done(ret);
		snprintf(why, MODEL_WHY_SIZE, "an agent of the list isn't there");
		return GRPC_NOT_FOUND;
	}
	return GRPC_OK;
}

enum grpc_status model_status(struct model *m, const char *id, struct vipu_status *ret,
			      char why[MODEL_WHY_SIZE])
{
	const struct model_partition *p = model_find(m, id);

	if (!p) {
		snprintf(why, MODEL_WHY_SIZE, "partition \"%s\" not found", id);
		return GRPC_NOT_FOUND;
	}
	*ret = (struct vipu_status){
		.id = xstrdup(id),
		.ready = p->ready,
		.operation = p->operation,
		.errors = xcalloc(1, sizeof(*ret->errors)),
		.max_auto_resets = p->auto_reset ? m->max_auto_resets : 0,
		.auto_resets = p->auto_resets,
		.last_auto_reset_ms = p->last_auto_reset_ms,
	};
	if (p->error)
		ret->errors[ret->n_errors++] = xstrdup(p->error);
	return GRPC_OK;
}

static void fill_device(const struct model_partition *p, uint32_t index, uint32_t device_id,
			struct vipu_device *to)
{
	uint32_t ipu = p->first_ipu + index, agent = ipu / MODEL_AGENT_IPUS;

	*to = (struct vipu_device){
		.ip = xasprintf("10.1.%u.%u", agent / 250, agent % 250 + 1),
		/* The IPUs' servers start anew at a reset, and listen where they find room. */
		.server_port = 12000 + p->resets % 100 * MODEL_AGENT_IPUS + ipu % MODEL_AGENT_IPUS,
		.rdma_port = 13000 + p->resets % 100 * MODEL_AGENT_IPUS + ipu % MODEL_AGENT_IPUS,
		.device_id = device_id,
		.segment_id = index / MODEL_DOMAIN_IPUS,
		.routing_id = index,
		.arch_id = 2,
		.ipu_id = ipu % MODEL_AGENT_IPUS,
		.chip_id = xasprintf("%u", agent * 16 + ipu % MODEL_AGENT_IPUS),
		.gwsw_version = xstrdup("2.6.0"),
		.ipum_sw_version = xstrdup("2.6.0"),
	};
}

static void fill_gcd(const struct model_partition *p, uint32_t gcd, struct vipu_gcd *to)
{
	uint32_t each = p->size / p->gcds;

	to->devices = xcalloc(each, sizeof(*to->devices));
	to->n_devices = each;
	for (uint32_t i = 0; i < each; i++)
		fill_device(p, gcd * each + i, i, &to->devices[i]);
	to->attributes = xcalloc(4, sizeof(*to->attributes));
	to->attributes[to->n_attributes++] = pair("GCD Id", xasprintf("%u", gcd));
	to->attributes[to->n_attributes++] = pair("Partition Id", xstrdup(p->id));
	to->attributes[to->n_attributes++] = pair("Num GCDs", xasprintf("%u", p->gcds));
	to->attributes[to->n_attributes++] = pair("Replicas", xasprintf("%u", p->replicas));
}

enum grpc_status model_ipuof(struct model *m, const struct vipu_get_ipuof_config *r,
			     struct vipu_ipuof_config *ret, char why[MODEL_WHY_SIZE])
{
	const struct model_partition *p = model_find(m, r->id);

	if (!p) {
		snprintf(why, MODEL_WHY_SIZE, "partition \"%s\" not found", r->id);
		return GRPC_NOT_FOUND;
	}
	if (p->ready != VIPU_PS_ACTIVE) {
		snprintf(why, MODEL_WHY_SIZE, "partition \"%s\" isn't active (%s)", r->id,
			 vipu_ready_name(p->ready));
		return GRPC_FAILED_PRECONDITION;
	}
	if (r->one_gcd && r->gcd >= p->gcds) {
		snprintf(why, MODEL_WHY_SIZE, "partition \"%s\" has no GCD %u", r->id, r->gcd);
		return GRPC_INVALID_ARGUMENT;
	}
	uint32_t first = r->one_gcd ? r->gcd : 0, n = r->one_gcd ? 1 : p->gcds;
	*ret = (struct vipu_ipuof_config){
		.routing = p->routing,
		.gw_routing = p->gw_routing,
		.sync = p->sync,
		.reconfigurable = p->reconfigurable,
		.segments = p->segments,
		.ipuof_server_version = xstrdup(IPUOF_VERSION),
		.gcds = xcalloc(n, sizeof(*ret->gcds)),
		.n_gcds = n,
	};
	for (uint32_t i = 0; i < n; i++)
		fill_gcd(p, first + i, &ret->gcds[i]);
	return GRPC_OK;
}
