/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated controller's rules: where partitions go, which operations there are and when they
 * end. The model owns its partitions; it does no I/O and asks nobody for the time.
 * Uses core and the wire's types.
 */
#include "vipu_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/str.h"

__attribute__((format(printf, 3, 4))) static enum grpc_status
refuse(char why[MODEL_WHY_SIZE], enum grpc_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MODEL_WHY_SIZE, fmt, ap);
	va_end(ap);
	return status;
}

/* ---- IPUs ---- */

unsigned model_total_ipus(const struct model *m)
{
	return m->agents * MODEL_AGENT_IPUS;
}

unsigned model_taken_ipus(const struct model *m)
{
	unsigned n = 0;

	for (size_t i = 0; i < m->n_parts; i++)
		n += m->parts[i].size;
	return n;
}

static bool is_free(const struct model *m, uint32_t first, uint32_t size)
{
	if (first + size > model_total_ipus(m))
		return false;
	for (uint32_t i = first; i < first + size; i++)
		if (m->taken[i / MODEL_DOMAIN_IPUS] >> (i % MODEL_DOMAIN_IPUS) & 1)
			return false;
	return true;
}

static void mark(struct model *m, uint32_t first, uint32_t size, bool taken)
{
	for (uint32_t i = first; i < first + size; i++) {
		uint64_t bit = UINT64_C(1) << (i % MODEL_DOMAIN_IPUS);
		uint64_t *word = &m->taken[i / MODEL_DOMAIN_IPUS];
		if (taken == ((*word & bit) != 0))
			m->broken = true;
		*word = taken ? *word | bit : *word & ~bit;
	}
}

/* The first place that fits: aligned within a domain, or neighbouring whole domains. */
static bool find_place(const struct model *m, uint32_t size, uint32_t *ret_first)
{
	uint32_t step = size < MODEL_DOMAIN_IPUS ? size : MODEL_DOMAIN_IPUS;

	for (uint32_t at = 0; at + size <= model_total_ipus(m); at += step) {
		if (is_free(m, at, size)) {
			*ret_first = at;
			return true;
		}
	}
	return false;
}

/* ---- partitions ---- */

struct model_partition *model_find(struct model *m, const char *id)
{
	for (size_t i = 0; i < m->n_parts; i++)
		if (strcmp(m->parts[i].id, id) == 0)
			return &m->parts[i];
	return NULL;
}

static void partition_done(struct model_partition *p)
{
	free(p->id);
	free(p->allocation);
	free(p->error);
}

void model_drop(struct model *m, struct model_partition *p)
{
	size_t i = (size_t)(p - m->parts);

	mark(m, p->first_ipu, p->size, false);
	partition_done(p);
	memmove(p, p + 1, (m->n_parts - i - 1) * sizeof(*p));
	m->n_parts--;
}

void model_done(struct model *m)
{
	for (size_t i = 0; i < m->n_parts; i++)
		partition_done(&m->parts[i]);
	free(m->fault.state);
	m->fault.state = NULL;
	free(m->parts);
	m->parts = NULL;
	m->n_parts = m->cap_parts = 0;
}

static void set_error(struct model_partition *p, const char *message)
{
	free(p->error);
	p->error = xstrdup(message);
}

/* True if the partition is gone. */
static bool end_operation(struct model *m, struct model_partition *p)
{
	p->ends_ms = 0;
	switch (p->operation) {
	case VIPU_POS_CREATING:
		if (p->fails) {
			p->ready = VIPU_PS_ERROR;
			p->operation = VIPU_POS_FAILED;
			set_error(p, "IPU-Link training failed");
			return false;
		}
		break;
	case VIPU_POS_REMOVING:
		model_drop(m, p);
		return true;
	case VIPU_POS_RESETTING:
		p->resets++;
		break;
	case VIPU_POS_UNDEFINED:
	case VIPU_POS_IDLE:
	case VIPU_POS_FAILED:
		return false;
	}
	p->ready = VIPU_PS_ACTIVE;
	p->operation = VIPU_POS_IDLE;
	set_error(p, NULL);
	return false;
}

int64_t model_step(struct model *m, int64_t now_ms)
{
	int64_t next = 0;

	for (size_t i = 0; i < m->n_parts;) {
		struct model_partition *p = &m->parts[i];
		if (p->ends_ms != 0 && p->ends_ms <= now_ms && end_operation(m, p))
			continue; /* the next one stands in its place now */
		if (p->ends_ms != 0 && (next == 0 || p->ends_ms < next))
			next = p->ends_ms;
		i++;
	}
	return next;
}

static void begin_operation(struct model_partition *p, enum vipu_operation operation,
			    enum vipu_ready ready, int64_t now_ms, unsigned takes_ms)
{
	p->operation = operation;
	p->ready = ready;
	p->ends_ms = now_ms + (takes_ms > 0 ? takes_ms : 1);
}

/* ---- creating ---- */

static enum grpc_status check_create(struct model *m, const struct vipu_create *r,
				     char why[MODEL_WHY_SIZE])
{
	bool is_power = r->size > 0 && (r->size & (r->size - 1)) == 0;
	uint32_t segments = r->segments ? r->segments : 1;

	if (r->id[0] == '\0')
		return refuse(why, GRPC_INVALID_ARGUMENT, "a partition needs an id");
	if (model_find(m, r->id))
		return refuse(why, GRPC_ALREADY_EXISTS, "partition \"%s\" already exists", r->id);
	if (!is_power)
		return refuse(why, GRPC_INVALID_ARGUMENT, "partition size %u is not a power of two",
			      r->size);
	if (r->cluster_id[0] && strcmp(r->cluster_id, m->cluster) != 0)
		return refuse(why, GRPC_INVALID_ARGUMENT, "there is no cluster \"%s\"",
			      r->cluster_id);
	if (r->allocation_id[0] && strcmp(r->allocation_id, m->allocation) != 0)
		return refuse(why, GRPC_PERMISSION_DENIED, "no access to allocation \"%s\"",
			      r->allocation_id);
	if (r->size / segments > MODEL_DOMAIN_IPUS)
		return refuse(why, GRPC_INVALID_ARGUMENT,
			      "%u IPUs don't fit into %u IPU-Link segment(s) of %u", r->size,
			      segments, MODEL_DOMAIN_IPUS);
	if (r->gcds > r->size || (r->gcds > 0 && r->size % r->gcds != 0))
		return refuse(why, GRPC_INVALID_ARGUMENT, "%u IPUs can't be shared by %u GCDs",
			      r->size, r->gcds);
	if (r->reconfigurable && r->sync != VIPU_ST_UNDEFINED && r->sync != VIPU_ST_GS2_DEFAULT)
		return refuse(why, GRPC_INVALID_ARGUMENT,
			      "a reconfigurable partition needs the sync type ST_GS2_DEFAULT");
	if (r->sync == VIPU_ST_GS2_INDEPENDENT_RAILS)
		return refuse(why, GRPC_INVALID_ARGUMENT, "sync type %s isn't supported",
			      vipu_sync_name(r->sync));
	if (r->n_ipus > 0 && (r->cluster_id[0] == '\0' || r->n_ipus != r->size))
		return refuse(why, GRPC_INVALID_ARGUMENT,
			      "a list of IPUs needs a cluster, and as many IPUs as the size says");
	return GRPC_OK;
}

/* These very IPUs, which must be one block. */
static bool place_asked(const struct vipu_create *r, uint32_t *ret_first)
{
	uint32_t first = r->ipus[0].domain_topology_id * MODEL_DOMAIN_IPUS + r->ipus[0].topology_id;

	for (size_t i = 0; i < r->n_ipus; i++)
		if (r->ipus[i].domain_topology_id * MODEL_DOMAIN_IPUS + r->ipus[i].topology_id !=
		    first + i)
			return false;
	*ret_first = first;
	return true;
}

static struct model_partition *new_partition(struct model *m)
{
	if (m->n_parts == m->cap_parts) {
		m->cap_parts = m->cap_parts ? m->cap_parts * 2 : 16;
		m->parts = xrealloc(m->parts, m->cap_parts * sizeof(*m->parts));
	}
	struct model_partition *p = &m->parts[m->n_parts++];
	memset(p, 0, sizeof(*p));
	return p;
}

enum grpc_status model_create(struct model *m, const struct vipu_create *r, bool fails,
			      int64_t now_ms, char why[MODEL_WHY_SIZE])
{
	enum grpc_status status = check_create(m, r, why);
	uint32_t first = 0;

	if (status != GRPC_OK)
		return status;
	if (r->n_ipus > 0) {
		if (!place_asked(r, &first) || !is_free(m, first, r->size))
			return refuse(why, GRPC_RESOURCE_EXHAUSTED,
				      "these IPUs aren't free, or aren't one block");
	} else if (!find_place(m, r->size, &first)) {
		return refuse(why, GRPC_RESOURCE_EXHAUSTED,
			      "no %u contiguous IPUs are free (%u of %u are taken)", r->size,
			      model_taken_ipus(m), model_total_ipus(m));
	}
	mark(m, first, r->size, true);
	struct model_partition *p = new_partition(m);
	p->id = xstrdup(r->id);
	p->size = r->size;
	p->first_ipu = first;
	p->routing = r->routing ? r->routing : r->size > 4 ? VIPU_IRT_SWNC : VIPU_IRT_DNC;
	p->segments = r->segments ? r->segments : 1;
	p->gw_routing = r->gw_routing     ? r->gw_routing
			: p->segments > 1 ? VIPU_GRT_RING
					  : VIPU_GRT_UNDEFINED;
	p->sync = r->sync             ? r->sync
		  : r->reconfigurable ? VIPU_ST_GS2_DEFAULT
				      : VIPU_ST_POD_NATIVE_DEFAULT;
	p->gcds = r->gcds ? r->gcds : 1;
	p->replicas = r->replicas ? r->replicas : p->gcds;
	p->reconfigurable = r->reconfigurable;
	p->auto_reset = !r->disable_auto_reset;
	p->allocation = xstrdup(m->allocation);
	p->fails = fails;
	p->created_ms = now_ms;
	m->created++;
	begin_operation(p, VIPU_POS_CREATING, VIPU_PS_PENDING, now_ms, m->create_ms);
	return GRPC_OK;
}

/* ---- the others ---- */

static enum grpc_status unknown_partition(const char *id, char why[MODEL_WHY_SIZE])
{
	return refuse(why, GRPC_NOT_FOUND, "partition \"%s\" not found", id);
}

enum grpc_status model_remove(struct model *m, const struct vipu_remove *r, int64_t now_ms,
			      char why[MODEL_WHY_SIZE])
{
	struct model_partition *p = model_find(m, r->id);

	if (!p)
		return unknown_partition(r->id, why);
	if (p->in_use && !r->force)
		return refuse(why, GRPC_FAILED_PRECONDITION, "partition \"%s\" is in use", r->id);
	if (p->operation != VIPU_POS_REMOVING)
		begin_operation(p, VIPU_POS_REMOVING, p->ready, now_ms, m->remove_ms);
	return GRPC_OK;
}

enum grpc_status model_reset(struct model *m, const struct vipu_reset *r, int64_t now_ms,
			     char why[MODEL_WHY_SIZE])
{
	struct model_partition *p = model_find(m, r->id);

	if (!p)
		return unknown_partition(r->id, why);
	if (p->ends_ms != 0)
		return refuse(why, GRPC_FAILED_PRECONDITION,
			      "partition \"%s\" has an operation in progress (%s)", r->id,
			      vipu_operation_name(p->operation));
	begin_operation(p, VIPU_POS_RESETTING, VIPU_PS_PENDING, now_ms, m->reset_ms);
	return GRPC_OK;
}

enum grpc_status model_break(struct model *m, const char *id, const char *message, bool auto_reset,
			     int64_t now_ms, char why[MODEL_WHY_SIZE])
{
	struct model_partition *p = model_find(m, id);

	if (!p)
		return unknown_partition(id, why);
	if (p->operation == VIPU_POS_REMOVING)
		return refuse(why, GRPC_FAILED_PRECONDITION, "partition \"%s\" is being removed",
			      id);
	set_error(p, message && message[0] ? message : "IPU error");
	if (auto_reset && p->auto_reset && p->auto_resets < m->max_auto_resets) {
		p->auto_resets++;
		p->last_auto_reset_ms = clock_wall_ms();
		begin_operation(p, VIPU_POS_RESETTING, VIPU_PS_PENDING, now_ms, m->reset_ms);
		return GRPC_OK;
	}
	p->ready = VIPU_PS_ERROR;
	p->operation = VIPU_POS_FAILED;
	p->ends_ms = 0;
	return GRPC_OK;
}

enum grpc_status model_set_agents(struct model *m, unsigned agents, char why[MODEL_WHY_SIZE])
{
	unsigned total = agents * MODEL_AGENT_IPUS;

	if (agents == 0 || agents > MODEL_MAX_AGENTS)
		return refuse(why, GRPC_INVALID_ARGUMENT,
			      "%u isn't a number of agents from 1 to %u", agents, MODEL_MAX_AGENTS);
	for (size_t i = 0; i < m->n_parts; i++)
		if (m->parts[i].first_ipu + m->parts[i].size > total)
			return refuse(why, GRPC_FAILED_PRECONDITION,
				      "partition \"%s\" is on an agent that would go",
				      m->parts[i].id);
	m->agents = agents;
	return GRPC_OK;
}
