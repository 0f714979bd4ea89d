/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The V-IPU API's names, and the ends of its owned replies. Tables and free functions.
 * Uses core only.
 */
#include "vipu/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/intern.h"
#include "core/json.h"

/* ---- methods ---- */

static const struct {
	const char *name, *path;
} methods[VIPU_METHODS] = {
	[VIPU_GET_VERSION] = {"GetVersion", "/virmgrpc.VersionService/GetVersion"},
	[VIPU_LIST_PARTITIONS] = {"ListPartitions", "/virmgrpc.UserService/ListPartitions"},
	[VIPU_LIST_IPU_ATTRIBUTES] = {"ListIPUAttributes",
				      "/virmgrpc.UserService/ListIPUAttributes"},
	[VIPU_CREATE_PARTITION] = {"CreatePartition", "/virmgrpc.UserService/CreatePartition"},
	[VIPU_REMOVE_PARTITION] = {"RemovePartition", "/virmgrpc.UserService/RemovePartition"},
	[VIPU_RESET_PARTITION] = {"ResetPartition", "/virmgrpc.UserService/ResetPartition"},
	[VIPU_GET_IPUOF_CONFIG] = {"GetPartitionIpuofConfig",
				   "/virmgrpc.UserService/GetPartitionIpuofConfig"},
	[VIPU_GET_PARTITION_STATUS] = {"GetPartitionStatus",
				       "/virmgrpc.UserService/GetPartitionStatus"},
};

const char *vipu_method_name(enum vipu_method method)
{
	return methods[method].name;
}

const char *vipu_method_path(enum vipu_method method)
{
	return methods[method].path;
}

int vipu_method_from_path(struct str path)
{
	for (int i = 0; i < VIPU_METHODS; i++)
		if (str_eqz(path, methods[i].path))
			return i;
	return -1;
}

/* ---- enums ---- */

struct enum_name {
	int value;
	const char *name;
};

static const struct enum_name routings[] = {
	{VIPU_IRT_UNDEFINED, "IRT_UNDEFINED"}, {VIPU_IRT_DNC, "IRT_DNC"},
	{VIPU_IRT_SWNC, "IRT_SWNC"},           {VIPU_IRT_BTNC, "IRT_BTNC"},
	{VIPU_IRT_RINGSWNC, "IRT_RINGSWNC"},   {0, NULL},
};
static const struct enum_name syncs[] = {
	{VIPU_ST_UNDEFINED, "ST_UNDEFINED"},
	{VIPU_ST_GS2_DEFAULT, "ST_GS2_DEFAULT"},
	{VIPU_ST_GS2_INDEPENDENT_RAILS, "ST_GS2_INDEPENDENT_RAILS"},
	{VIPU_ST_POD_NATIVE_DEFAULT, "ST_POD_NATIVE_DEFAULT"},
	{VIPU_ST_POD_NATIVE_REPLICATED_PIPELINE, "ST_POD_NATIVE_REPLICATED_PIPELINE"},
	{0, NULL},
};
static const struct enum_name readies[] = {
	{VIPU_PS_UNDEFINED, "PS_UNDEFINED"}, {VIPU_PS_PENDING, "PS_PENDING"},
	{VIPU_PS_ACTIVE, "PS_ACTIVE"},       {VIPU_PS_REMOVED, "PS_REMOVED"},
	{VIPU_PS_ERROR, "PS_ERROR"},         {0, NULL},
};
static const struct enum_name operations[] = {
	{VIPU_POS_UNDEFINED, "POS_UNDEFINED"},
	{VIPU_POS_IDLE, "POS_IDLE"},
	{VIPU_POS_CREATING, "POS_CREATING"},
	{VIPU_POS_REMOVING, "POS_REMOVING"},
	{VIPU_POS_RESETTING, "POS_RESETTING"},
	{VIPU_POS_FAILED, "POS_FAILED"},
	{0, NULL},
};

static const char *enum_name(const struct enum_name *names, int value)
{
	for (; names->name; names++)
		if (names->value == value)
			return names->name;
	return "?";
}

static int enum_parse(const struct enum_name *names, const char *what, struct str s, int *ret,
		      struct err *err)
{
	char known[160] = "";
	size_t used = 0;
	int64_t number;
	bool is_number = str_to_int(s, 0, 1000, &number, NULL) == 0;

	for (const struct enum_name *n = names; n->name; n++) {
		const char *bare = strchr(n->name, '_') + 1;
		if (str_ieqz(s, n->name) || str_ieqz(s, bare) ||
		    (is_number && number == n->value)) {
			*ret = n->value;
			return 0;
		}
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", bare);
	}
	return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no %s: there are %s", STR_ARG(s), what,
		       known);
}

const char *vipu_sync_name(enum vipu_sync v)
{
	return enum_name(syncs, (int)v);
}

const char *vipu_ready_name(enum vipu_ready v)
{
	return enum_name(readies, (int)v);
}

const char *vipu_operation_name(enum vipu_operation v)
{
	return enum_name(operations, (int)v);
}

int vipu_routing_parse(struct str s, enum vipu_routing *ret, struct err *err)
{
	int value;
	if (enum_parse(routings, "IPU-Link routing type", s, &value, err) < 0)
		return -1;
	*ret = (enum vipu_routing)value;
	return 0;
}

int vipu_sync_parse(struct str s, enum vipu_sync *ret, struct err *err)
{
	int value;
	if (enum_parse(syncs, "sync type", s, &value, err) < 0)
		return -1;
	*ret = (enum vipu_sync)value;
	return 0;
}

/* ---- ends ---- */

void vipu_partitions_done(struct vipu_partitions *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct vipu_partition *part = &p->items[i];
		free(part->id);
		intern_drop(part->cluster_id);
		intern_drop(part->allocation_id);
		intern_drop(part->ipuof_server_version);
		free(part->ipus);
	}
	free(p->items);
	*p = (struct vipu_partitions){0};
}

static int compare_ids(struct str a, struct str b)
{
	size_t common = a.len < b.len ? a.len : b.len;
	int order = common ? memcmp(a.p, b.p, common) : 0;

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

const struct vipu_partition *vipu_partitions_find(const struct vipu_partitions *p, struct str id)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_ids(id, str_of(p->items[middle].id));

		if (order == 0)
			return &p->items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int by_id(const void *a, const void *b)
{
	return compare_ids(str_of(((const struct vipu_partition *)a)->id),
			   str_of(((const struct vipu_partition *)b)->id));
}

void vipu_partitions_sort(struct vipu_partitions *p)
{
	if (p->n > 1)
		qsort(p->items, p->n, sizeof(*p->items), by_id);
}

static void free_pairs(struct vipu_pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		intern_drop(pairs[i].key);
		intern_drop(pairs[i].value);
	}
	free(pairs);
}

void vipu_agents_done(struct vipu_agents *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct vipu_agent *agent = &a->items[i];
		for (size_t k = 0; k < agent->n_ipus; k++)
			free_pairs(agent->ipus[k].pairs, agent->ipus[k].n_pairs);
		free(agent->ipus);
		free(agent->name);
	}
	free(a->items);
	*a = (struct vipu_agents){0};
}

void vipu_status_done(struct vipu_status *s)
{
	for (size_t i = 0; i < s->n_errors; i++)
		free(s->errors[i]);
	free(s->errors);
	free(s->id);
	*s = (struct vipu_status){0};
}

void vipu_ipuof_config_done(struct vipu_ipuof_config *c)
{
	for (size_t i = 0; i < c->n_gcds; i++) {
		struct vipu_gcd *gcd = &c->gcds[i];
		for (size_t k = 0; k < gcd->n_devices; k++) {
			free(gcd->devices[k].ip);
			free(gcd->devices[k].chip_id);
			free(gcd->devices[k].gwsw_version);
			free(gcd->devices[k].ipum_sw_version);
		}
		free(gcd->devices);
		free_pairs(gcd->attributes, gcd->n_attributes);
	}
	free(c->gcds);
	free(c->ipuof_server_version);
	*c = (struct vipu_ipuof_config){0};
}

/* ---- the configuration file of a GCD ---- */

static struct jmut *device_json(struct jmut_doc *doc, const struct vipu_device *d)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_str(doc, obj, "ip", d->ip);
	jmut_set_int(doc, obj, "server_port", d->server_port);
	jmut_set_int(doc, obj, "rdma_port", d->rdma_port);
	jmut_set_int(doc, obj, "device_id", d->device_id);
	jmut_set_int(doc, obj, "ipulink_segment_id", d->segment_id);
	jmut_set_int(doc, obj, "routing_id", d->routing_id);
	jmut_set_int(doc, obj, "ipu_arch_id", d->arch_id);
	jmut_set_int(doc, obj, "ipu_id", d->ipu_id);
	jmut_set_str(doc, obj, "chip_id", d->chip_id);
	jmut_set_str(doc, obj, "gwsw_version", d->gwsw_version);
	jmut_set_str(doc, obj, "ipum_sw_version", d->ipum_sw_version);
	return obj;
}

int vipu_gcd_write(const struct vipu_gcd *gcd, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	struct jmut *attributes = jmut_object(doc), *devices = jmut_array(doc);

	jmut_set_root(doc, root);
	for (size_t i = 0; i < gcd->n_attributes; i++)
		jmut_set_str(doc, attributes, gcd->attributes[i].key, gcd->attributes[i].value);
	for (size_t i = 0; i < gcd->n_devices; i++)
		jmut_push(doc, devices, device_json(doc, &gcd->devices[i]));
	jmut_set(doc, root, "attributes", attributes);
	jmut_set(doc, root, "devices", devices);
	return jmut_write(root, JSON_PRETTY, out, err);
}
