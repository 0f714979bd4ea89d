/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies into Protocol Buffers: the server's half, for the simulator. Everything is borrowed while
 * it's packed.
 * Uses core and the code that protoc made.
 */
#include "codec_wire.h"
#include "vipu/codec.h"

#include <stdlib.h>

/* protobuf-c wants arrays of pointers: one block of n messages, and pointers into it. The first
 * member of a message is its base. */
static void **make_list(size_t n, size_t size, char **ret_block)
{
	void **list = xcalloc(n + 1, sizeof(*list));
	char *block = xcalloc(n + 1, size);

	for (size_t i = 0; i < n; i++) {
		/* Byte by byte: the list is read as one of another pointer type. */
		void *at = block + i * size;
		memcpy(&list[i], &at, sizeof(at));
	}
	*ret_block = block;
	return list;
}

int vipu_encode_version(const char *version, struct buf *out, struct err *err)
{
	Virmgrpc__VersionReply msg;

	virmgrpc__version_reply__init(&msg);
	msg.version = wire_text(version);
	return wire_pack(&msg.base, out, err);
}

int vipu_encode_created(const char *id, struct buf *out, struct err *err)
{
	Virmgrpc__CreatePartitionReply msg;

	virmgrpc__create_partition_reply__init(&msg);
	msg.partition_id = wire_text(id);
	return wire_pack(&msg.base, out, err);
}

static void put_spec(Virmgrpc__PartitionSpec *spec, const struct vipu_partition *p,
		     char **ret_block)
{
	virmgrpc__partition_spec__init(spec);
	spec->cluster_id = wire_text(p->cluster_id);
	spec->n_ipus = p->n_ipus;
	spec->ipus = (Virmgrpc__PartitionIpu **)make_list(p->n_ipus, sizeof(**spec->ipus),
							  ret_block);
	for (size_t i = 0; i < p->n_ipus; i++) {
		virmgrpc__partition_ipu__init(spec->ipus[i]);
		wire_put_ipu(spec->ipus[i], &p->ipus[i]);
	}
	spec->ipulink_routing_type = (Virmgrpc__IpuLinkRoutingType)p->routing;
	spec->sync_type = (Virmgrpc__SyncType)p->sync;
	spec->num_gcds = p->gcds;
	spec->num_ipulink_segments = p->segments;
	spec->reconfigurable = p->reconfigurable;
	spec->gw_routing_type = (Virmgrpc__GatewayRoutingType)p->gw_routing;
	spec->num_replicas = p->replicas;
	spec->allocation_id = wire_text(p->allocation_id);
}

int vipu_encode_partitions(const struct vipu_partitions *p, struct buf *out, struct err *err)
{
	Virmgrpc__ListPartitionsReply msg;
	Virmgrpc__PartitionSpec *specs = xcalloc(p->n + 1, sizeof(*specs));
	char *block, **ipu_blocks = xcalloc(p->n + 1, sizeof(*ipu_blocks));

	virmgrpc__list_partitions_reply__init(&msg);
	msg.n_partitions = p->n;
	msg.partitions = (Virmgrpc__Partition **)make_list(p->n, sizeof(**msg.partitions), &block);
	for (size_t i = 0; i < p->n; i++) {
		const struct vipu_partition *from = &p->items[i];
		Virmgrpc__Partition *to = msg.partitions[i];
		virmgrpc__partition__init(to);
		to->id = wire_text(from->id);
		to->ready_state = (Virmgrpc__PartitionReadyState)from->ready;
		to->ipuof_server_version = wire_text(from->ipuof_server_version);
		put_spec(&specs[i], from, &ipu_blocks[i]);
		to->spec = &specs[i];
	}
	int rc = wire_pack(&msg.base, out, err);
	for (size_t i = 0; i < p->n; i++) {
		free(specs[i].ipus);
		free(ipu_blocks[i]);
	}
	free(ipu_blocks);
	free(specs);
	free(msg.partitions);
	free(block);
	return rc;
}

/* The messages of one agent, kept until they're packed. */
struct agent_lists {
	Virmgrpc__ListIPUAttributesReply__Attributes *values;
	char *ipu_block;
	char **pair_blocks;
};

static void put_agent(Virmgrpc__ListIPUAttributesReply__Entry *to, const struct vipu_agent *from,
		      struct agent_lists *lists)
{
	virmgrpc__list_ipuattributes_reply__entry__init(to);
	to->agent = wire_text(from->name);
	to->n_ipu_attributes = from->n_ipus;
	to->ipu_attributes = (Virmgrpc__ListIPUAttributesReply__Entry__IpuAttributesEntry **)
		make_list(from->n_ipus, sizeof(**to->ipu_attributes), &lists->ipu_block);
	lists->values = xcalloc(from->n_ipus + 1, sizeof(*lists->values));
	lists->pair_blocks = xcalloc(from->n_ipus + 1, sizeof(*lists->pair_blocks));
	for (size_t i = 0; i < from->n_ipus; i++) {
		const struct vipu_ipu_attributes *ipu = &from->ipus[i];
		Virmgrpc__ListIPUAttributesReply__Attributes *value = &lists->values[i];
		virmgrpc__list_ipuattributes_reply__entry__ipu_attributes_entry__init(
			to->ipu_attributes[i]);
		virmgrpc__list_ipuattributes_reply__attributes__init(value);
		to->ipu_attributes[i]->key = ipu->id;
		to->ipu_attributes[i]->value = value;
		value->n_attributes = ipu->n_pairs;
		value->attributes =
			(Virmgrpc__ListIPUAttributesReply__Attributes__AttributesEntry **)make_list(
				ipu->n_pairs, sizeof(**value->attributes), &lists->pair_blocks[i]);
		for (size_t k = 0; k < ipu->n_pairs; k++) {
			virmgrpc__list_ipuattributes_reply__attributes__attributes_entry__init(
				value->attributes[k]);
			value->attributes[k]->key = wire_text(ipu->pairs[k].key);
			value->attributes[k]->value = wire_text(ipu->pairs[k].value);
		}
	}
}

static void free_agent_lists(const struct vipu_agent *from, struct agent_lists *lists)
{
	for (size_t i = 0; i < from->n_ipus; i++) {
		free(lists->values[i].attributes);
		free(lists->pair_blocks[i]);
	}
	free(lists->values);
	free(lists->pair_blocks);
	free(lists->ipu_block);
}

int vipu_encode_agents(const struct vipu_agents *a, struct buf *out, struct err *err)
{
	Virmgrpc__ListIPUAttributesReply msg;
	struct agent_lists *lists = xcalloc(a->n + 1, sizeof(*lists));
	char *block;

	virmgrpc__list_ipuattributes_reply__init(&msg);
	msg.n_entries = a->n;
	msg.entries = (Virmgrpc__ListIPUAttributesReply__Entry **)make_list(
		a->n, sizeof(**msg.entries), &block);
	for (size_t i = 0; i < a->n; i++)
		put_agent(msg.entries[i], &a->items[i], &lists[i]);
	int rc = wire_pack(&msg.base, out, err);
	for (size_t i = 0; i < a->n; i++) {
		free(msg.entries[i]->ipu_attributes);
		free_agent_lists(&a->items[i], &lists[i]);
	}
	free(lists);
	free(msg.entries);
	free(block);
	return rc;
}

int vipu_encode_status(const struct vipu_status *s, struct buf *out, struct err *err)
{
	Virmgrpc__GetPartitionStatusReply msg;
	Virmgrpc__PartitionStatus status;
	Virmgrpc__Timestamp ts;

	virmgrpc__get_partition_status_reply__init(&msg);
	virmgrpc__partition_status__init(&status);
	virmgrpc__timestamp__init(&ts);
	status.partition_id = wire_text(s->id);
	status.ready_state = (Virmgrpc__PartitionReadyState)s->ready;
	status.operation_state = (Virmgrpc__PartitionOperationState)s->operation;
	status.n_errors = s->n_errors;
	status.errors = s->errors;
	status.max_auto_reset_retries = s->max_auto_resets;
	status.auto_reset_retry_count = s->auto_resets;
	if (s->last_auto_reset_ms > 0) {
		ts.seconds = s->last_auto_reset_ms / 1000;
		ts.nanos = (int32_t)(s->last_auto_reset_ms % 1000) * 1000000;
		status.last_auto_reset_time = &ts;
	}
	msg.status = &status;
	return wire_pack(&msg.base, out, err);
}

static void put_device(Virmgrpc__IpuofDevice *to, const struct vipu_device *from)
{
	virmgrpc__ipuof_device__init(to);
	to->ip = wire_text(from->ip);
	to->server_port = from->server_port;
	to->rdma_port = from->rdma_port;
	to->device_id = from->device_id;
	to->ipulink_segment_id = from->segment_id;
	to->routing_id = from->routing_id;
	to->ipu_arch_id = from->arch_id;
	to->ipu_id = from->ipu_id;
	to->chip_id = wire_text(from->chip_id);
	to->gwsw_version = wire_text(from->gwsw_version);
	to->ipum_sw_version = wire_text(from->ipum_sw_version);
}

static void put_gcd(Virmgrpc__PartitionConfig__Gcd *to, const struct vipu_gcd *from,
		    char *ret_blocks[2])
{
	virmgrpc__partition_config__gcd__init(to);
	to->n_devices = from->n_devices;
	to->devices = (Virmgrpc__IpuofDevice **)make_list(from->n_devices, sizeof(**to->devices),
							  &ret_blocks[0]);
	for (size_t i = 0; i < from->n_devices; i++)
		put_device(to->devices[i], &from->devices[i]);
	to->n_attributes = from->n_attributes;
	to->attributes = (Virmgrpc__PartitionConfig__Gcd__AttributesEntry **)make_list(
		from->n_attributes, sizeof(**to->attributes), &ret_blocks[1]);
	for (size_t i = 0; i < from->n_attributes; i++) {
		virmgrpc__partition_config__gcd__attributes_entry__init(to->attributes[i]);
		to->attributes[i]->key = wire_text(from->attributes[i].key);
		to->attributes[i]->value = wire_text(from->attributes[i].value);
	}
}

int vipu_encode_ipuof_config(const struct vipu_ipuof_config *c, struct buf *out, struct err *err)
{
	Virmgrpc__GetPartitionIpuofConfigReply msg;
	Virmgrpc__PartitionConfig config;
	char *block, *(*blocks)[2] = xcalloc(c->n_gcds + 1, sizeof(*blocks));

	virmgrpc__get_partition_ipuof_config_reply__init(&msg);
	virmgrpc__partition_config__init(&config);
	config.ipulink_routing_type = (Virmgrpc__IpuLinkRoutingType)c->routing;
	config.sync_type = (Virmgrpc__SyncType)c->sync;
	config.reconfigurable = c->reconfigurable;
	config.gw_routing_type = (Virmgrpc__GatewayRoutingType)c->gw_routing;
	config.num_ipulink_segments = c->segments;
	config.ipuof_server_version = wire_text(c->ipuof_server_version);
	config.n_gcd_configs = c->n_gcds;
	config.gcd_configs = (Virmgrpc__PartitionConfig__Gcd **)make_list(
		c->n_gcds, sizeof(**config.gcd_configs), &block);
	for (size_t i = 0; i < c->n_gcds; i++)
		put_gcd(config.gcd_configs[i], &c->gcds[i], blocks[i]);
	msg.ipuof_config = &config;
	int rc = wire_pack(&msg.base, out, err);
	for (size_t i = 0; i < c->n_gcds; i++) {
		free(config.gcd_configs[i]->devices);
		free(config.gcd_configs[i]->attributes);
		free(blocks[i][0]);
		free(blocks[i][1]);
	}
	free(blocks);
	free(config.gcd_configs);
	free(block);
	return rc;
}
