/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The V-IPU controller's user API as plain C: what its eight methods take and give. Requests are
 * values that borrow their strings; replies own theirs and end with their _done.
 * Enums carry the numbers of the wire; 0 is always "undefined", in a request "you choose".
 */
#ifndef IPU_VIPU_API_H
#define IPU_VIPU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

enum vipu_method {
	VIPU_GET_VERSION,
	VIPU_LIST_PARTITIONS,
	VIPU_LIST_IPU_ATTRIBUTES,
	VIPU_CREATE_PARTITION,
	VIPU_REMOVE_PARTITION,
	VIPU_RESET_PARTITION,
	VIPU_GET_IPUOF_CONFIG,
	VIPU_GET_PARTITION_STATUS,
	VIPU_METHODS,
};
const char *vipu_method_name(enum vipu_method method); /* "CreatePartition" */
const char *vipu_method_path(enum vipu_method method); /* "/virmgrpc.UserService/CreatePartition" */
/* By path; -1 when it's none. */
int vipu_method_from_path(struct str path);

enum vipu_routing { /* IpuLinkRoutingType */
		    VIPU_IRT_UNDEFINED = 0,
		    VIPU_IRT_DNC = 1,
		    VIPU_IRT_SWNC = 2,     /* sliding window */
		    VIPU_IRT_BTNC = 3,     /* Barley twist */
		    VIPU_IRT_RINGSWNC = 4, /* sliding window with loop links */
};

enum vipu_gw_routing { /* GatewayRoutingType */
		       VIPU_GRT_UNDEFINED = 0,
		       VIPU_GRT_RING = 2,
		       VIPU_GRT_SWRING = 3,
};

enum vipu_sync { /* SyncType */
		 VIPU_ST_UNDEFINED = 0,
		 VIPU_ST_GS2_DEFAULT =
			 1, /* "c2-compatible" of the V-IPU guide: reconfigurable partitions */
		 VIPU_ST_GS2_INDEPENDENT_RAILS = 2,
		 VIPU_ST_POD_NATIVE_DEFAULT = 3,
		 VIPU_ST_POD_NATIVE_REPLICATED_PIPELINE = 4,
};

enum vipu_ready { /* PartitionReadyState */
		  VIPU_PS_UNDEFINED = 0,
		  VIPU_PS_PENDING = 1,
		  VIPU_PS_ACTIVE = 2,
		  VIPU_PS_REMOVED = 3,
		  VIPU_PS_ERROR = 4,
};

enum vipu_operation { /* PartitionOperationState */
		      VIPU_POS_UNDEFINED = 0,
		      VIPU_POS_IDLE = 1,
		      VIPU_POS_CREATING = 2,
		      VIPU_POS_REMOVING = 3,
		      VIPU_POS_RESETTING = 4,
		      VIPU_POS_FAILED = 5,
};

/* The names of the wire ("PS_ACTIVE"); "?" for a number without one. The parsers take them with or
 * without their prefix and in any case ("btnc"), and the number; ERR_INVALID lists what there is.
 */
const char *vipu_sync_name(enum vipu_sync v);
const char *vipu_ready_name(enum vipu_ready v);
const char *vipu_operation_name(enum vipu_operation v);
int vipu_routing_parse(struct str s, enum vipu_routing *ret, struct err *err);
int vipu_sync_parse(struct str s, enum vipu_sync *ret, struct err *err);

/* Where an IPU of a partition sits: numbers of the controller's topology, not of the hardware. */
struct vipu_ipu {
	uint32_t domain_topology_id;
	uint32_t domain_routing_id;
	uint32_t topology_id;
	uint32_t routing_id;
};

/* ---- requests: strings are borrowed, NULL is "" ---- */

/* PartitionRequirements and the two switches of CreatePartitionRequest. Zero: not set. */
struct vipu_create {
	const char *id;
	uint32_t size; /* IPUs */
	const char *cluster_id;
	enum vipu_routing routing;
	enum vipu_gw_routing gw_routing;
	enum vipu_sync sync;
	uint32_t segments; /* IPU-Link segments */
	uint32_t gcds;
	uint32_t replicas;
	bool reconfigurable;
	const char *allocation_id;
	const struct vipu_ipu *ipus; /* these very ones; cluster_id is required then */
	size_t n_ipus;
	bool disable_auto_reset;
	bool relocatable;
};

struct vipu_remove {
	const char *id;
	bool force; /* although it's in use */
};

struct vipu_reset {
	const char *id;
	bool relocatable; /* false keeps what was set at creation */
};

struct vipu_get_ipuof_config {
	const char *id;
	bool one_gcd; /* else all of them */
	uint32_t gcd;
};

/* ---- replies: owned, strings are never NULL ---- */

struct vipu_partition {
	char *id;
	const char *cluster_id, *allocation_id, *ipuof_server_version; /* interned */
	struct vipu_ipu *ipus;
	size_t n_ipus; /* the partition's size */
	enum vipu_ready ready;
	enum vipu_routing routing;
	enum vipu_gw_routing gw_routing;
	enum vipu_sync sync;
	uint32_t gcds, segments, replicas;
	bool reconfigurable;
};

struct vipu_partitions {
	struct vipu_partition *items;
	size_t n;
};
void vipu_partitions_done(struct vipu_partitions *p);
/* By their ids, as a decoded reply has them: the find below needs it. */
void vipu_partitions_sort(struct vipu_partitions *p);
const struct vipu_partition *vipu_partitions_find(const struct vipu_partitions *p, struct str id);

struct vipu_pair { /* of a map<string,string>, in the order of the wire */
	const char *key,
		*value; /* interned: all IPUs have the same keys, and most the same words */
};

struct vipu_ipu_attributes {
	uint32_t id; /* of the IPU on its machine */
	struct vipu_pair *pairs;
	size_t n_pairs;
};

struct vipu_agent { /* one IPU-Machine's agent */
	char *name;
	struct vipu_ipu_attributes *ipus;
	size_t n_ipus;
};

struct vipu_agents {
	struct vipu_agent *items;
	size_t n;
	size_t n_ipus; /* of all of them */
};
void vipu_agents_done(struct vipu_agents *a);

struct vipu_status { /* PartitionStatus */
	char *id;
	enum vipu_ready ready;
	enum vipu_operation operation;
	char **errors;
	size_t n_errors;
	uint32_t max_auto_resets;
	uint32_t auto_resets;
	int64_t last_auto_reset_ms; /* wall clock, 0: never */
};
void vipu_status_done(struct vipu_status *s);

struct vipu_device { /* IpuofDevice */
	char *ip;
	uint32_t server_port, rdma_port;
	uint32_t device_id, segment_id, routing_id, arch_id, ipu_id;
	char *chip_id;
	char *gwsw_version;
	char *ipum_sw_version;
};

struct vipu_gcd {
	struct vipu_device *devices;
	size_t n_devices;
	struct vipu_pair *attributes; /* "GCD Id" among them */
	size_t n_attributes;
};

struct vipu_ipuof_config { /* PartitionConfig */
	enum vipu_routing routing;
	enum vipu_gw_routing gw_routing;
	enum vipu_sync sync;
	bool reconfigurable;
	uint32_t segments;
	char *ipuof_server_version;
	struct vipu_gcd *gcds;
	size_t n_gcds;
};
void vipu_ipuof_config_done(struct vipu_ipuof_config *c);
/* One GCD as the JSON file that IPUOF_CONFIG_PATH names: {"attributes": {…}, "devices": […]}. */
int vipu_gcd_write(const struct vipu_gcd *gcd, struct buf *out, struct err *err);

#endif
