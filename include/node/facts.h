/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a head node's fabric: RDMA devices, the interfaces that reach the V-IPU
 * controllers, the host's limits. Plain values: who reads them from the system fills them
 * (node/rdma.h, node/links.h, node/host.h), who judges them only reads (node/verdict.h,
 * node/checks.h). Strings in arrays end in NUL and are cut to their size; a peer's or the kernel's
 * odd bytes are '?'. Uses core.
 */
#ifndef IPU_NODE_FACTS_H
#define IPU_NODE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define NODE_NAME_SIZE 64 /* of a device (IBV_SYSFS_NAME_MAX) or a module */
#define NODE_LINK_SIZE 16 /* of an interface (IFNAMSIZ) */
#define NODE_ADDR_SIZE 46 /* a numeric address (INET6_ADDRSTRLEN) */
#define NODE_TEXT_SIZE 128

/* Limits: what a machine may show us of each; more is counted and left out. */
#define RDMA_MAX_DEVICES 64
#define RDMA_MAX_PORTS   8
#define RDMA_MAX_GIDS    64 /* of a port, empty ones left out */

/* ---- RDMA devices (libibverbs) ---- */

enum rdma_layer {
	RDMA_LAYER_UNKNOWN,
	RDMA_LAYER_INFINIBAND,
	RDMA_LAYER_ETHERNET, /* RoCE */
};
enum rdma_gid_type {
	RDMA_GID_IB,
	RDMA_GID_ROCE_V1,
	RDMA_GID_ROCE_V2,
};
/* enum ibv_port_state's values. */
enum rdma_state {
	RDMA_PORT_NOP = 0,
	RDMA_PORT_DOWN,
	RDMA_PORT_INIT,
	RDMA_PORT_ARMED,
	RDMA_PORT_ACTIVE,
	RDMA_PORT_ACTIVE_DEFER,
};
const char *rdma_layer_name(enum rdma_layer layer);      /* "InfiniBand", "Ethernet", "unknown" */
const char *rdma_gid_type_name(enum rdma_gid_type type); /* "IB", "RoCE v1", "RoCE v2" */
const char *rdma_state_name(enum rdma_state state);      /* "down", "active", … */

struct rdma_gid {
	unsigned index;
	enum rdma_gid_type type;
	char text[NODE_ADDR_SIZE];   /* as an IPv6 address */
	char netdev[NODE_LINK_SIZE]; /* "": none */
};

struct rdma_port {
	unsigned number; /* from 1 */
	enum rdma_state state;
	enum rdma_layer layer;
	uint64_t speed_mbps;         /* width × speed, 0: unknown */
	unsigned mtu_bytes;          /* the active one */
	char netdev[NODE_LINK_SIZE]; /* the interface of its GIDs, "": none */
	struct rdma_gid *gids;
	size_t n_gids;
};

struct rdma_device {
	char name[NODE_NAME_SIZE];
	char firmware[NODE_NAME_SIZE]; /* "": unknown */
	char node_guid[24];            /* "0c42:a103:0016:054c" */
	char driver[NODE_NAME_SIZE];   /* the kernel's, "mlx5_core"; "": unknown */
	bool opened; /* else error says why not, and what is below came from sysfs as far as it does
		      */
	bool fatal;  /* IBV_EVENT_DEVICE_FATAL since it was opened */
	struct err error;
	struct rdma_port *ports;
	size_t n_ports;
};

/* Each is a normal state of a machine. */
enum rdma_status {
	RDMA_UNKNOWN,       /* not read yet */
	RDMA_OK,            /* at least one device could be opened */
	RDMA_NO_DRIVER,     /* no InfiniBand in this kernel, or ib_uverbs isn't loaded */
	RDMA_NO_DEVICE,     /* the driver is there, and nothing for it */
	RDMA_NO_PERMISSION, /* devices, and none that we may open */
	RDMA_FAILED,        /* anything else: error */
};

struct rdma_inventory {
	enum rdma_status status;
	struct err error;            /* of every status but OK: one sentence for people */
	struct rdma_device *devices; /* by name */
	size_t n_devices;
	size_t n_left_out; /* beyond the limits */
};
void rdma_inventory_done(struct rdma_inventory *inventory);

/* ---- how a controller is reached (rtnetlink) ---- */

struct fabric_reach {
	char controller[NODE_TEXT_SIZE]; /* its name, "host:port" */
	char address[NODE_ADDR_SIZE];    /* the first that its host resolves to; "": none yet */
	struct err error;                /* kind ERR_NONE: there is a route */
	char link[NODE_LINK_SIZE];       /* the interface that the route leads through */
	char source[NODE_ADDR_SIZE];     /* our address on it */
	char gateway[NODE_ADDR_SIZE];    /* "": on the link itself */
	char subnet[NODE_ADDR_SIZE + 4]; /* of our address there, "10.5.212.0/24" */
	unsigned mtu_bytes;              /* of the interface */
	bool up;                         /* administratively and by carrier */
	bool enabled;                    /* administratively */
	char kind[NODE_LINK_SIZE];       /* "vlan", "bond", "bridge", …; "": hardware */
	bool local;                      /* the controller is on this very machine */
	/* The RDMA port of this interface, or of the one below it (VLAN, bond, bridge, macvlan);
	 * "" and 0: it has none. */
	char rdma_device[NODE_NAME_SIZE];
	unsigned rdma_port;
	char rdma_link[NODE_LINK_SIZE]; /* whose port that is: link, or one below it; "": none */
};

/* ---- the host ---- */

#define FABRIC_UNLIMITED UINT64_MAX

/* Something that starts containers, as far as it's there. */
struct fabric_runtime {
	char name[NODE_NAME_SIZE]; /* "containerd", "k3s", "docker", … */
	bool installed;            /* it has a unit file */
	bool running;
	int pid;
	uint64_t memlock_bytes; /* of the running process, FABRIC_UNLIMITED: no limit */
	bool unit_sets_memlock; /* by LimitMEMLOCK, or docker's default-ulimit */
	uint64_t unit_memlock_bytes;
	/* It is default-ulimit, which containers get whatever the running process has. */
	bool default_ulimit;
	char unit[NODE_TEXT_SIZE]; /* the file that counts, for advice; "": none */
};

struct fabric_module {
	char name[NODE_NAME_SIZE];
	bool loaded; /* or built in */
};

struct fabric_host {
	bool known;
	uint64_t memlock_bytes; /* of this process */
	bool may_lock;          /* it has CAP_IPC_LOCK, so that this limit is nothing to it */
	struct fabric_runtime *runtimes;
	size_t n_runtimes;
	uint64_t hugepages_total, hugepages_free, hugepage_bytes;
	struct fabric_module *modules; /* those that matter for RDMA, loaded or not */
	size_t n_modules;
	/* In the folder that somebody names, that of the runtime here, or /etc/cni/net.d; known: it
	 * could be read. */
	bool cni_known, cni_missing; /* missing: it isn't there */
	bool cni_multus, cni_multus_folder, cni_whereabouts;
	char cni_folder[NODE_TEXT_SIZE];
	const char *cni_of; /* whose own folder that is: "k3s"; NULL: nobody's */
};
void fabric_host_done(struct fabric_host *host);

/* ---- all together ---- */

struct fabric_facts {
	bool complete; /* everything has been looked at once */
	struct rdma_inventory rdma;
	struct fabric_reach *reach; /* of each controller, in the configuration's order */
	size_t n_reach;
	struct fabric_host host;
};
void fabric_facts_done(struct fabric_facts *facts);

/* NULL: no such device or port. */
const struct rdma_port *fabric_port(const struct fabric_facts *facts, const char *device,
				    unsigned port);
/* May the port carry traffic? */
bool rdma_port_is_up(const struct rdma_port *port);

#endif
