/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies from Protocol Buffers into owned structs: the client's half. Strings move over, and are
 * checked; the unpacked message is freed here.
 * Uses core and the code that protoc made.
 */
#include "codec_wire.h"
#include "vipu/codec.h"

#include <errno.h>
#include <stdlib.h>

#include "core/fault.h"
#include "core/intern.h"

struct unpacked {
	struct wire_budget budget;
	ProtobufCMessage *msg;
	bool bad_text, no_memory;
};

static int begin(struct unpacked *u, const ProtobufCMessageDescriptor *type, struct str bytes,
		 struct err *err)
{
	u->bad_text = u->no_memory = false;
	u->msg = wire_unpack(&u->budget, type, bytes, err);
	return u->msg ? 0 : -1;
}

/* As many as the peer sent, at least one; without memory none, which finish() tells. */
static void *take_array(struct unpacked *u, size_t *n, size_t size)
{
	size_t room = (*n ? *n : 1) * size;
	void *p = fault_realloc(NULL, room);

	if (p)
		return memset(p, 0, room);
	u->no_memory = true;
	*n = 0;
	return NULL;
}

/* Interned; the message keeps its own. */
static const char *take_word(const char *z, struct unpacked *u)
{
	const char *word = intern_try(str_of(z));

	u->bad_text = u->bad_text || !str_is_utf8(str_of(z));
	u->no_memory = u->no_memory || !word;
	return word;
}

/* Frees the message; -1 if a string in it was bad, or memory was out. */
static int finish(struct unpacked *u, struct err *err)
{
	const ProtobufCMessageDescriptor *type = u->msg->descriptor;

	protobuf_c_message_free_unpacked(u->msg, &u->budget.allocator);
	if (u->no_memory)
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory for the %s", type->short_name);
	return u->bad_text ? wire_bad_text(type, err) : 0;
}

void wire_put_ipu(Virmgrpc__PartitionIpu *to, const struct vipu_ipu *from)
{
	to->ipulink_domain_topology_id = from->domain_topology_id;
	to->ipulink_domain_routing_id = from->domain_routing_id;
	to->topology_id = from->topology_id;
	to->routing_id = from->routing_id;
}

struct vipu_ipu *wire_get_ipus(Virmgrpc__PartitionIpu *const *from, size_t n)
{
	struct vipu_ipu *ipus = n > 0 ? fault_realloc(NULL, n * sizeof(*ipus)) : NULL;

	for (size_t i = 0; ipus && i < n; i++)
		ipus[i] = (struct vipu_ipu){
			.domain_topology_id = from[i]->ipulink_domain_topology_id,
			.domain_routing_id = from[i]->ipulink_domain_routing_id,
			.topology_id = from[i]->topology_id,
			.routing_id = from[i]->routing_id,
		};
	return ipus;
}

int vipu_decode_version(struct str bytes, char **ret, struct err *err)
{
	struct unpacked u;

	if (begin(&u, &virmgrpc__version_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__VersionReply *msg = (void *)u.msg;
	char *version = wire_take(&msg->version, &u.bad_text);
	if (finish(&u, err) < 0) {
		free(version);
		return -1;
	}
	*ret = version;
	return 0;
}

int vipu_decode_created(struct str bytes, char **ret, struct err *err)
{
	struct unpacked u;

	if (begin(&u, &virmgrpc__create_partition_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__CreatePartitionReply *msg = (void *)u.msg;
	char *id = wire_take(&msg->partition_id, &u.bad_text);
	if (finish(&u, err) < 0) {
		free(id);
		return -1;
	}
	*ret = id;
	return 0;
}

static void take_partition(struct vipu_partition *p, Virmgrpc__Partition *msg, struct unpacked *u)
{
	Virmgrpc__PartitionSpec none, *spec = msg->spec;
	bool *bad = &u->bad_text;

	if (!spec) {
		virmgrpc__partition_spec__init(&none);
		spec = &none;
	}
	*p = (struct vipu_partition){
		.id = wire_take(&msg->id, bad),
		.cluster_id = take_word(spec->cluster_id, u),
		.allocation_id = take_word(spec->allocation_id, u),
		.ipuof_server_version = take_word(msg->ipuof_server_version, u),
		.ipus = wire_get_ipus(spec->ipus, spec->n_ipus),
		.ready = (enum vipu_ready)msg->ready_state,
		.routing = (enum vipu_routing)spec->ipulink_routing_type,
		.gw_routing = (enum vipu_gw_routing)spec->gw_routing_type,
		.sync = (enum vipu_sync)spec->sync_type,
		.gcds = spec->num_gcds,
		.segments = spec->num_ipulink_segments,
		.replicas = spec->num_replicas,
		.reconfigurable = spec->reconfigurable,
	};
	p->n_ipus = p->ipus ? spec->n_ipus : 0;
	u->no_memory = u->no_memory || p->n_ipus < spec->n_ipus;
}

int vipu_decode_partitions(struct str bytes, struct vipu_partitions *ret, struct err *err)
{
	struct unpacked u;
	struct vipu_partitions got = {0};

	if (begin(&u, &virmgrpc__list_partitions_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__ListPartitionsReply *msg = (void *)u.msg;
	got.n = msg->n_partitions;
	got.items = take_array(&u, &got.n, sizeof(*got.items));
	for (size_t i = 0; i < got.n; i++)
		take_partition(&got.items[i], msg->partitions[i], &u);
	if (finish(&u, err) < 0) {
		vipu_partitions_done(&got);
		return -1;
	}
	vipu_partitions_sort(&got);
	*ret = got;
	return 0;
}

static void take_agent(struct vipu_agent *agent, Virmgrpc__ListIPUAttributesReply__Entry *msg,
		       struct unpacked *u)
{
	bool *bad = &u->bad_text;
	agent->name = wire_take(&msg->agent, bad);
	agent->n_ipus = msg->n_ipu_attributes;
	agent->ipus = take_array(u, &agent->n_ipus, sizeof(*agent->ipus));
	for (size_t i = 0; i < agent->n_ipus; i++) {
		struct vipu_ipu_attributes *ipu = &agent->ipus[i];
		Virmgrpc__ListIPUAttributesReply__Attributes *value = msg->ipu_attributes[i]->value;
		ipu->id = msg->ipu_attributes[i]->key;
		ipu->n_pairs = value ? value->n_attributes : 0;
		ipu->pairs = take_array(u, &ipu->n_pairs, sizeof(*ipu->pairs));
		for (size_t k = 0; k < ipu->n_pairs; k++) {
			ipu->pairs[k].key = take_word(value->attributes[k]->key, u);
			ipu->pairs[k].value = take_word(value->attributes[k]->value, u);
		}
	}
}

int vipu_decode_agents(struct str bytes, struct vipu_agents *ret, struct err *err)
{
	struct unpacked u;
	struct vipu_agents got = {0};

	if (begin(&u, &virmgrpc__list_ipuattributes_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__ListIPUAttributesReply *msg = (void *)u.msg;
	got.n = msg->n_entries;
	got.items = take_array(&u, &got.n, sizeof(*got.items));
	for (size_t i = 0; i < got.n; i++) {
		take_agent(&got.items[i], msg->entries[i], &u);
		got.n_ipus += got.items[i].n_ipus;
	}
	if (finish(&u, err) < 0) {
		vipu_agents_done(&got);
		return -1;
	}
	*ret = got;
	return 0;
}

/* Milliseconds of a timestamp that a peer may have made up. */
static int64_t timestamp_ms(const Virmgrpc__Timestamp *ts)
{
	const int64_t most = INT64_C(253402300799); /* the year 9999 */

	if (!ts || ts->seconds < 0 || ts->seconds > most || ts->nanos < 0 || ts->nanos > 999999999)
		return 0;
	return ts->seconds * 1000 + ts->nanos / 1000000;
}

static void take_status(struct vipu_status *s, Virmgrpc__PartitionStatus *msg, struct unpacked *u)
{
	bool *bad = &u->bad_text;
	s->id = wire_take(&msg->partition_id, bad);
	s->ready = (enum vipu_ready)msg->ready_state;
	s->operation = (enum vipu_operation)msg->operation_state;
	s->n_errors = msg->n_errors;
	s->errors = take_array(u, &s->n_errors, sizeof(*s->errors));
	for (size_t i = 0; i < s->n_errors; i++)
		s->errors[i] = wire_take(&msg->errors[i], bad);
	s->max_auto_resets = msg->max_auto_reset_retries;
	s->auto_resets = msg->auto_reset_retry_count;
	s->last_auto_reset_ms = timestamp_ms(msg->last_auto_reset_time);
}

int vipu_decode_status(struct str bytes, struct vipu_status *ret, struct err *err)
{
	struct unpacked u;
	struct vipu_status got = {0};

	if (begin(&u, &virmgrpc__get_partition_status_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__GetPartitionStatusReply *msg = (void *)u.msg;
	bool is_there = msg->status != NULL;
	if (is_there)
		take_status(&got, msg->status, &u);
	if (finish(&u, err) < 0) {
		vipu_status_done(&got);
		return -1;
	}
	if (!is_there)
		return err_set(err, ERR_PROTOCOL, 0, "the GetPartitionStatusReply has no status");
	*ret = got;
	return 0;
}

static void take_device(struct vipu_device *d, Virmgrpc__IpuofDevice *msg, bool *bad)
{
	*d = (struct vipu_device){
		.ip = wire_take(&msg->ip, bad),
		.server_port = msg->server_port,
		.rdma_port = msg->rdma_port,
		.device_id = msg->device_id,
		.segment_id = msg->ipulink_segment_id,
		.routing_id = msg->routing_id,
		.arch_id = msg->ipu_arch_id,
		.ipu_id = msg->ipu_id,
		.chip_id = wire_take(&msg->chip_id, bad),
		.gwsw_version = wire_take(&msg->gwsw_version, bad),
		.ipum_sw_version = wire_take(&msg->ipum_sw_version, bad),
	};
}

static void take_gcd(struct vipu_gcd *gcd, Virmgrpc__PartitionConfig__Gcd *msg, struct unpacked *u)
{
	bool *bad = &u->bad_text;
	gcd->n_devices = msg->n_devices;
	gcd->devices = take_array(u, &gcd->n_devices, sizeof(*gcd->devices));
	for (size_t i = 0; i < gcd->n_devices; i++)
		take_device(&gcd->devices[i], msg->devices[i], bad);
	gcd->n_attributes = msg->n_attributes;
	gcd->attributes = take_array(u, &gcd->n_attributes, sizeof(*gcd->attributes));
	for (size_t i = 0; i < gcd->n_attributes; i++) {
		gcd->attributes[i].key = take_word(msg->attributes[i]->key, u);
		gcd->attributes[i].value = take_word(msg->attributes[i]->value, u);
	}
}

static void take_config(struct vipu_ipuof_config *c, Virmgrpc__PartitionConfig *msg,
			struct unpacked *u)
{
	bool *bad = &u->bad_text;
	c->routing = (enum vipu_routing)msg->ipulink_routing_type;
	c->gw_routing = (enum vipu_gw_routing)msg->gw_routing_type;
	c->sync = (enum vipu_sync)msg->sync_type;
	c->reconfigurable = msg->reconfigurable;
	c->segments = msg->num_ipulink_segments;
	c->ipuof_server_version = wire_take(&msg->ipuof_server_version, bad);
	c->n_gcds = msg->n_gcd_configs;
	c->gcds = take_array(u, &c->n_gcds, sizeof(*c->gcds));
	for (size_t i = 0; i < c->n_gcds; i++)
		take_gcd(&c->gcds[i], msg->gcd_configs[i], u);
}

int vipu_decode_ipuof_config(struct str bytes, struct vipu_ipuof_config *ret, struct err *err)
{
	struct unpacked u;
	struct vipu_ipuof_config got = {0};

	if (begin(&u, &virmgrpc__get_partition_ipuof_config_reply__descriptor, bytes, err) < 0)
		return -1;
	Virmgrpc__GetPartitionIpuofConfigReply *msg = (void *)u.msg;
	bool is_there = msg->ipuof_config != NULL;
	if (is_there)
		take_config(&got, msg->ipuof_config, &u);
	if (finish(&u, err) < 0) {
		vipu_ipuof_config_done(&got);
		return -1;
	}
	if (!is_there)
		return err_set(err, ERR_PROTOCOL, 0, "the reply has no ipuof_config");
	*ret = got;
	return 0;
}
