/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to and from Protocol Buffers, and what both directions share: a bounded allocator, and
 * strings that are checked. Replies are in codec_reply.c.
 * Uses core and the code that protoc made.
 */
#include "vipu/codec.h"

#include <stdlib.h>

#include "codec_wire.h"
#include "core/fault.h"

/* ---- a bounded allocator: unpacked, a message may be a hundred times its size on the wire ---- */

static void *budget_alloc(void *arg, size_t size)
{
	struct wire_budget *b = arg;

	if (size > b->left) {
		b->exceeded = true;
		return NULL;
	}
	b->left -= size;
	void *p = fault_realloc(NULL, size);
	if (!p)
		b->exceeded = true;
	return p;
}

static void budget_free(void *arg, void *p)
{
	(void)arg;
	free(p);
}

void wire_budget_init(struct wire_budget *b)
{
	*b = (struct wire_budget){
		.allocator = {budget_alloc, budget_free, b},
		.left = WIRE_UNPACKED_BYTES,
	};
}

ProtobufCMessage *wire_unpack(struct wire_budget *b, const ProtobufCMessageDescriptor *type,
			      struct str bytes, struct err *err)
{
	static const uint8_t nothing[1];
	const uint8_t *p = bytes.p ? (const uint8_t *)bytes.p : nothing;

	wire_budget_init(b);
	ProtobufCMessage *msg = protobuf_c_message_unpack(type, &b->allocator, bytes.len, p);
	if (!msg && b->exceeded)
		err_set(err, ERR_LIMIT, 0, "the %s needs too much memory", type->short_name);
	else if (!msg)
		err_set(err, ERR_PROTOCOL, 0, "the bytes aren't a %s", type->short_name);
	return msg;
}

int wire_pack(const ProtobufCMessage *msg, struct buf *out, struct err *err)
{
	size_t len = protobuf_c_message_get_packed_size(msg);
	char *at;

	if (len == 0)
		return 0;
	if (buf_reserve(out, len, &at, err) < 0)
		return -1;
	protobuf_c_message_pack(msg, (uint8_t *)at);
	buf_commit(out, len);
	return 0;
}

char *wire_take(char **from, bool *ret_bad)
{
	char *z = *from;

	if (!z || z == protobuf_c_empty_string)
		return xstrdup("");
	if (!str_is_utf8(str_of(z)))
		*ret_bad = true;
	*from = NULL;
	return z;
}

char *wire_text(const char *z)
{
	/* protobuf-c takes strings without const and only reads. */
	return (char *)(uintptr_t)(z ? z : "");
}

int wire_bad_text(const ProtobufCMessageDescriptor *type, struct err *err)
{
	return err_set(err, ERR_PROTOCOL, 0, "a string of the %s isn't UTF-8", type->short_name);
}

/* ---- encoding ---- */

static int encode_create(const struct vipu_create *c, struct buf *out, struct err *err)
{
	Virmgrpc__CreatePartitionRequest msg;
	Virmgrpc__PartitionRequirements need;
	Virmgrpc__PartitionIpu *ipus = xcalloc(c->n_ipus + 1, sizeof(*ipus));
	Virmgrpc__PartitionIpu **ipu_list = xcalloc(c->n_ipus + 1, sizeof(*ipu_list));

	virmgrpc__create_partition_request__init(&msg);
	virmgrpc__partition_requirements__init(&need);
	need.id = wire_text(c->id);
	need.size = c->size;
	need.cluster_id = wire_text(c->cluster_id);
	need.ipulink_routing_type = (Virmgrpc__IpuLinkRoutingType)c->routing;
	need.num_ipulink_segments = c->segments;
	need.gw_routing_type = (Virmgrpc__GatewayRoutingType)c->gw_routing;
	need.sync_type = (Virmgrpc__SyncType)c->sync;
	need.num_gcds = c->gcds;
	need.reconfigurable = c->reconfigurable;
	need.num_replicas = c->replicas;
	need.allocation_id = wire_text(c->allocation_id);
	for (size_t i = 0; i < c->n_ipus; i++) {
		virmgrpc__partition_ipu__init(&ipus[i]);
		wire_put_ipu(&ipus[i], &c->ipus[i]);
		ipu_list[i] = &ipus[i];
	}
	need.n_ipus = c->n_ipus;
	need.ipus = ipu_list;
	msg.requirements = &need;
	msg.disable_auto_reset = c->disable_auto_reset;
	msg.relocatable = c->relocatable;
	int rc = wire_pack(&msg.base, out, err);
	free(ipus);
	free(ipu_list);
	return rc;
}

static int encode_ipuof(const struct vipu_get_ipuof_config *r, struct buf *out, struct err *err)
{
	Virmgrpc__GetPartitionIpuofConfigRequest msg;
	Virmgrpc__GetPartitionIpuofConfigRequest__GcdID gcd;

	virmgrpc__get_partition_ipuof_config_request__init(&msg);
	virmgrpc__get_partition_ipuof_config_request__gcd_id__init(&gcd);
	gcd.id = r->gcd;
	msg.partition_id = wire_text(r->id);
	msg.gcd_id = r->one_gcd ? &gcd : NULL;
	return wire_pack(&msg.base, out, err);
}

static int encode_agents(const struct vipu_request *r, struct buf *out, struct err *err)
{
	Virmgrpc__ListIPUAttributesRequest msg;
	char **agents = xcalloc(r->n_agents + 1, sizeof(*agents));

	virmgrpc__list_ipuattributes_request__init(&msg);
	for (size_t i = 0; i < r->n_agents; i++)
		agents[i] = wire_text(r->agents[i]);
	msg.n_agents = r->n_agents;
	msg.agents = agents;
	int rc = wire_pack(&msg.base, out, err);
	free(agents);
	return rc;
}

int vipu_request_encode(const struct vipu_request *r, struct buf *out, struct err *err)
{
	Virmgrpc__ListPartitionsRequest list;
	Virmgrpc__RemovePartitionRequest remove;
	Virmgrpc__ResetPartitionRequest reset;
	Virmgrpc__GetPartitionStatusRequest status;

	switch (r->method) {
	case VIPU_LIST_PARTITIONS:
		virmgrpc__list_partitions_request__init(&list);
		list.allocation_id = wire_text(r->allocation_id);
		return wire_pack(&list.base, out, err);
	case VIPU_LIST_IPU_ATTRIBUTES:
		return encode_agents(r, out, err);
	case VIPU_CREATE_PARTITION:
		return encode_create(&r->create, out, err);
	case VIPU_REMOVE_PARTITION:
		virmgrpc__remove_partition_request__init(&remove);
		remove.partition_id = wire_text(r->remove.id);
		remove.force = r->remove.force;
		return wire_pack(&remove.base, out, err);
	case VIPU_RESET_PARTITION:
		virmgrpc__reset_partition_request__init(&reset);
		reset.partition_id = wire_text(r->reset.id);
		reset.relocatable = r->reset.relocatable;
		return wire_pack(&reset.base, out, err);
	case VIPU_GET_IPUOF_CONFIG:
		return encode_ipuof(&r->ipuof, out, err);
	case VIPU_GET_PARTITION_STATUS:
		virmgrpc__get_partition_status_request__init(&status);
		status.partition_id = wire_text(r->id);
		return wire_pack(&status.base, out, err);
	case VIPU_GET_VERSION:
	case VIPU_METHODS:
		break;
	}
	return 0;
}

/* ---- decoding: the strings stay the message's, which the request holds ---- */

struct held_request {
	struct wire_budget budget;
	ProtobufCMessage *msg;
	struct vipu_ipu *ipus;
};

static const ProtobufCMessageDescriptor *request_type(enum vipu_method method)
{
	switch (method) {
	case VIPU_LIST_PARTITIONS:
		return &virmgrpc__list_partitions_request__descriptor;
	case VIPU_LIST_IPU_ATTRIBUTES:
		return &virmgrpc__list_ipuattributes_request__descriptor;
	case VIPU_CREATE_PARTITION:
		return &virmgrpc__create_partition_request__descriptor;
	case VIPU_REMOVE_PARTITION:
		return &virmgrpc__remove_partition_request__descriptor;
	case VIPU_RESET_PARTITION:
		return &virmgrpc__reset_partition_request__descriptor;
	case VIPU_GET_IPUOF_CONFIG:
		return &virmgrpc__get_partition_ipuof_config_request__descriptor;
	case VIPU_GET_PARTITION_STATUS:
		return &virmgrpc__get_partition_status_request__descriptor;
	case VIPU_GET_VERSION:
	case VIPU_METHODS:
		break;
	}
	return &virmgrpc__version_request__descriptor;
}

static void view_create(struct held_request *held, struct vipu_create *c)
{
	const Virmgrpc__CreatePartitionRequest *msg = (const void *)held->msg;
	const Virmgrpc__PartitionRequirements *need = msg->requirements;

	*c = (struct vipu_create){
		.disable_auto_reset = msg->disable_auto_reset,
		.relocatable = msg->relocatable,
		.id = "",
		.cluster_id = "",
		.allocation_id = "",
	};
	if (!need)
		return;
	c->id = need->id;
	c->size = need->size;
	c->cluster_id = need->cluster_id;
	c->routing = (enum vipu_routing)need->ipulink_routing_type;
	c->segments = need->num_ipulink_segments;
	c->gw_routing = (enum vipu_gw_routing)need->gw_routing_type;
	c->sync = (enum vipu_sync)need->sync_type;
	c->gcds = need->num_gcds;
	c->reconfigurable = need->reconfigurable;
	c->replicas = need->num_replicas;
	c->allocation_id = need->allocation_id;
	held->ipus = wire_get_ipus(need->ipus, need->n_ipus);
	c->ipus = held->ipus;
	c->n_ipus = held->ipus ? need->n_ipus : 0;
}

static void view_request(struct held_request *held, struct vipu_request *r)
{
	const void *msg = held->msg;

	switch (r->method) {
	case VIPU_LIST_PARTITIONS:
		r->allocation_id = ((const Virmgrpc__ListPartitionsRequest *)msg)->allocation_id;
		break;
	case VIPU_LIST_IPU_ATTRIBUTES: {
		const Virmgrpc__ListIPUAttributesRequest *m = msg;
		r->agents = (const char *const *)m->agents;
		r->n_agents = m->n_agents;
		break;
	}
	case VIPU_CREATE_PARTITION:
		view_create(held, &r->create);
		break;
	case VIPU_REMOVE_PARTITION: {
		const Virmgrpc__RemovePartitionRequest *m = msg;
		r->remove = (struct vipu_remove){m->partition_id, m->force};
		break;
	}
	case VIPU_RESET_PARTITION: {
		const Virmgrpc__ResetPartitionRequest *m = msg;
		r->reset = (struct vipu_reset){m->partition_id, m->relocatable};
		break;
	}
	case VIPU_GET_IPUOF_CONFIG: {
		const Virmgrpc__GetPartitionIpuofConfigRequest *m = msg;
		r->ipuof = (struct vipu_get_ipuof_config){m->partition_id, m->gcd_id != NULL,
							  m->gcd_id ? m->gcd_id->id : 0};
		break;
	}
	case VIPU_GET_PARTITION_STATUS:
		r->id = ((const Virmgrpc__GetPartitionStatusRequest *)msg)->partition_id;
		break;
	case VIPU_GET_VERSION:
	case VIPU_METHODS:
		break;
	}
}

int vipu_request_decode(enum vipu_method method, struct str bytes, struct vipu_request *ret,
			struct err *err)
{
	struct held_request *held = xcalloc(1, sizeof(*held));

	held->msg = wire_unpack(&held->budget, request_type(method), bytes, err);
	if (!held->msg) {
		free(held);
		return -1;
	}
	struct vipu_request r = {.method = method, .hold = held};
	view_request(held, &r);
	*ret = r;
	return 0;
}

void vipu_request_done(struct vipu_request *req)
{
	struct held_request *held = req->hold;

	if (held) {
		free(held->ipus);
		protobuf_c_message_free_unpacked(held->msg, &held->budget.allocator);
		free(held);
	}
	*req = (struct vipu_request){0};
}
