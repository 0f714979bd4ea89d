/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rules, and one function for each check, which picks a row of it. Whoever changes a
 * row changes doc/design/head-node.md and t/unit/node_checks_test.c.
 */
#include "node/checks.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "node/cidr.h"

#define SMALL_MTU 1500

enum {
	DRIVER_LOADED,
	DRIVER_INCOMPLETE,
	DRIVER_MISSING,
	DRIVER_UNKNOWN,
	DEVICE_OPENED,
	DEVICE_FATAL,
	DEVICE_CLOSED,
	DEVICE_DENIED,
	DEVICE_NONE,
	DEVICE_FAILED,
	DEVICE_LEFT_OUT,
	PORT_UP,
	PORT_DOWN,
	PORT_UNUSED,
	GID_ROCE,
	GID_INFINIBAND,
	GID_OTHER,
	GID_NONE,
	ROUTE_THERE,
	ROUTE_GATEWAY,
	ROUTE_LOCAL,
	ROUTE_LINK_DOWN,
	ROUTE_NONE,
	ROUTE_NO_CONTROLLER,
	ROUTE_BAD_ENTRY,
	RDMA_LINK_THERE,
	RDMA_LINK_NONE,
	MTU_FINE,
	MTU_SMALL,
	MEMLOCK_UNLIMITED,
	MEMLOCK_CAPABLE,
	MEMLOCK_LIMITED,
	RUNTIME_UNLIMITED,
	RUNTIME_OLD,
	RUNTIME_LIMITED,
	RUNTIME_DOCKER,
	RUNTIME_STOPPED,
	RUNTIME_NONE,
	HUGEPAGES_SOME,
	HUGEPAGES_NONE,
	MULTUS_THERE,
	MULTUS_NO_FOLDER,
	MULTUS_MISSING,
	MULTUS_NO_CNI,
	MULTUS_UNREADABLE,
	WHEREABOUTS_THERE,
	WHEREABOUTS_MISSING,
	WHEREABOUTS_NO_CNI,
	WHEREABOUTS_UNREADABLE,
	N_RULES,
};

/* clang-format off */
#define AS_ROOT "Run this as root on the node itself, or with --root where its file system is seen."
#define NO_CNI "Name the folder by --cni-folder, or by node.cniFolder in a file for --config, if it's elsewhere; a machine without one is no Kubernetes node, or has no network plugin yet."
const struct node_rule node_rules[N_RULES + 1] = {
	[DRIVER_LOADED] = {"driver", "loaded", NODE_PASS, ""},
	[DRIVER_INCOMPLETE] = {"driver", "incomplete", NODE_WARN, "Load what is missing (modprobe), and name it in a file of /etc/modules-load.d, so that it's there after the next boot."},
	[DRIVER_MISSING] = {"driver", "missing", NODE_FAIL, "Name the modules in a file of /etc/modules-load.d as well, so that they're there after the next boot; install the kernel's package of extra modules or the card's driver where there are none."},
	[DRIVER_UNKNOWN] = {"driver", "unknown", NODE_SKIP, AS_ROOT},
	[DEVICE_OPENED] = {"device", "opened", NODE_PASS, ""},
	[DEVICE_FATAL] = {"device", "fatal", NODE_FAIL, "Look at the kernel's log (dmesg), then restart the card's driver or the machine: SUBJECT says that it's broken."},
	[DEVICE_CLOSED] = {"device", "closed", NODE_WARN, "See to the owner and mode of SUBJECT's file in /dev/infiniband, if it's one that is needed."},
	[DEVICE_DENIED] = {"device", "denied", NODE_FAIL, "Run this as root, or let its user use /dev/infiniband/uverbs* (group or mode by a udev rule). Pods get the devices by their rdma resource."},
	[DEVICE_NONE] = {"device", "none", NODE_FAIL, "See whether the card is there (lspci) and its driver is bound to it; from within a container run it where /dev/infiniband and /sys are the machine's."},
	[DEVICE_FAILED] = {"device", "failed", NODE_FAIL, "Look at the kernel's log (dmesg), and whether libibverbs has the card's provider (the package ibverbs-providers)."},
	[DEVICE_LEFT_OUT] = {"device", "left-out", NODE_WARN, "Nothing need be done: there are more devices than are looked at."},
	[PORT_UP] = {"port", "up", NODE_PASS, ""},
	[PORT_DOWN] = {"port", "down", NODE_FAIL, "See to the cable, the switch and the interface (ip link set INTERFACE up): IPUs are reached through this port."},
	[PORT_UNUSED] = {"port", "unused", NODE_SKIP, ""},
	[GID_ROCE] = {"gid", "roce-v2", NODE_PASS, ""},
	[GID_INFINIBAND] = {"gid", "infiniband", NODE_PASS, ""},
	[GID_OTHER] = {"gid", "other", NODE_WARN, "Give the interface that leads to the controller the address in the port's own network, or correct the route: RoCE traffic leaves by the addresses that are there as GIDs."},
	[GID_NONE] = {"gid", "none", NODE_FAIL, "Give the port's interface an IPv4 address, and see that the card's firmware has RoCE v2 on."},
	[ROUTE_THERE] = {"route", "there", NODE_PASS, ""},
	[ROUTE_GATEWAY] = {"route", "gateway", NODE_WARN, "Check that this is meant: Pods on the additional network have no route through a gateway unless the network's definition gives them one."},
	[ROUTE_LOCAL] = {"route", "local", NODE_SKIP, "Name by --controller the address under which other machines know it, or an IPU-Machine's, for the checks of the interface."},
	[ROUTE_LINK_DOWN] = {"route", "link-down", NODE_FAIL, "Bring the interface up (ip link set INTERFACE up), and see to its cable."},
	[ROUTE_NONE] = {"route", "none", NODE_FAIL, "Correct the controller's address, the name service, or this machine's routes (ip route get ADDRESS)."},
	[ROUTE_NO_CONTROLLER] = {"route", "no-controller", NODE_SKIP, "Name the V-IPU controllers: --controller HOST:PORT, or --config with the operator's configuration."},
	[ROUTE_BAD_ENTRY] = {"route", "bad-entry", NODE_FAIL, "Correct this entry of the operator's list of controllers: the operator leaves it out too."},
	[RDMA_LINK_THERE] = {"rdma-link", "there", NODE_PASS, ""},
	[RDMA_LINK_NONE] = {"rdma-link", "none", NODE_FAIL, "Reach the IPUs' network through the interface of an RDMA port: cabling, addresses or routes lead elsewhere."},
	[MTU_FINE] = {"mtu", "fine", NODE_PASS, ""},
	[MTU_SMALL] = {"mtu", "small", NODE_WARN, "Set the interface's MTU to 1500 or more, as the switch allows, and the network's definition to the same."},
	[MEMLOCK_UNLIMITED] = {"memlock", "unlimited", NODE_PASS, ""},
	[MEMLOCK_CAPABLE] = {"memlock", "capability", NODE_PASS, ""},
	[MEMLOCK_LIMITED] = {"memlock", "limited", NODE_WARN, "Where IPU programs are run from this shell, have memlock unlimited by a file in /etc/security/limits.d (\"* - memlock unlimited\"), and log in again. Pods have their runtime's."},
	[RUNTIME_UNLIMITED] = {"runtime-memlock", "unlimited", NODE_PASS, ""},
	[RUNTIME_OLD] = {"runtime-memlock", "not-restarted", NODE_FAIL, "Restart it, which its unit asks for: systemctl daemon-reload && systemctl restart SUBJECT. Containers that run keep their limit until they are made anew."},
	[RUNTIME_LIMITED] = {"runtime-memlock", "limited", NODE_FAIL, "Write the lines [Service] and LimitMEMLOCK=infinity into /etc/systemd/system/SUBJECT.service.d/memlock.conf, then systemctl daemon-reload && systemctl restart SUBJECT; a file of one's own stays when the package is renewed."},
	[RUNTIME_DOCKER] = {"runtime-memlock", "limited-docker", NODE_FAIL, "Put \"default-ulimits\": {\"memlock\": {\"Name\": \"memlock\", \"Soft\": -1, \"Hard\": -1}} into /etc/docker/daemon.json, then systemctl restart docker."},
	[RUNTIME_STOPPED] = {"runtime-memlock", "stopped", NODE_SKIP, ""},
	[RUNTIME_NONE] = {"runtime-memlock", "none", NODE_SKIP, AS_ROOT},
	[HUGEPAGES_SOME] = {"hugepages", "some", NODE_PASS, ""},
	[HUGEPAGES_NONE] = {"hugepages", "none", NODE_SKIP, ""},
	[MULTUS_THERE] = {"cni-multus", "there", NODE_PASS, ""},
	[MULTUS_NO_FOLDER] = {"cni-multus", "no-folder", NODE_WARN, "See whether Multus' Pod on this node runs: it writes the folder multus.d with its way to the API server when it begins."},
	[MULTUS_MISSING] = {"cni-multus", "missing", NODE_FAIL, "Install NVIDIA's network operator with secondaryNetwork.multus, or Multus by itself, and see that its Pod runs on this node."},
	[MULTUS_NO_CNI] = {"cni-multus", "no-cni", NODE_SKIP, NO_CNI},
	[MULTUS_UNREADABLE] = {"cni-multus", "unreadable", NODE_SKIP, AS_ROOT},
	[WHEREABOUTS_THERE] = {"cni-whereabouts", "there", NODE_PASS, ""},
	[WHEREABOUTS_MISSING] = {"cni-whereabouts", "missing", NODE_FAIL, "Install NVIDIA's network operator with secondaryNetwork.ipamPlugin, or Whereabouts by itself, and see that its Pod runs on this node."},
	[WHEREABOUTS_NO_CNI] = {"cni-whereabouts", "no-cni", NODE_SKIP, NO_CNI},
	[WHEREABOUTS_UNREADABLE] = {"cni-whereabouts", "unreadable", NODE_SKIP, AS_ROOT},
};
/* clang-format on */

#define FIND(f, rule, subject, ...) node_find(f, &node_rules[rule], subject, __VA_ARGS__)

/* ---- the driver and its devices ---- */

/* Cards' own modules and what other uses of RDMA need may be missing. */
static bool is_needed(const char *module)
{
	static const char *const needed[] = {"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm"};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (strcmp(module, needed[i]) == 0)
			return true;
	}
	return false;
}

static void check_driver(const struct fabric_facts *facts, struct node_findings *f)
{
	char missing[NODE_SEEN_SIZE] = "";
	size_t len = 0;

	if (facts->rdma.status == RDMA_UNKNOWN) {
		FIND(f, DRIVER_UNKNOWN, "", "the devices haven't been read");
		return;
	}
	if (facts->rdma.status == RDMA_NO_DRIVER) {
		FIND(f, DRIVER_MISSING, "", "%s", facts->rdma.error.msg);
		return;
	}
	for (size_t i = 0; i < facts->host.n_modules; i++) {
		const struct fabric_module *m = &facts->host.modules[i];

		if (m->loaded || !is_needed(m->name) || len >= sizeof(missing))
			continue;
		len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s",
					len ? ", " : "", m->name);
	}
	if (missing[0])
		FIND(f, DRIVER_INCOMPLETE, "", "not loaded: %s", missing);
	else
		FIND(f, DRIVER_LOADED, "", "the kernel has its RDMA modules");
}

static void check_device(const struct rdma_device *d, struct node_findings *f)
{
	if (d->fatal)
		FIND(f, DEVICE_FATAL, d->name, "the device has reported a fatal error");
	else if (d->opened)
		FIND(f, DEVICE_OPENED, d->name, "%s, firmware %s, GUID %s",
		     d->driver[0] ? d->driver : "driver unknown",
		     d->firmware[0] ? d->firmware : "unknown",
		     d->node_guid[0] ? d->node_guid : "unknown");
	else
		FIND(f, DEVICE_CLOSED, d->name, "it couldn't be opened: %s", d->error.msg);
}

static void check_devices(const struct fabric_facts *facts, struct node_findings *f)
{
	const struct rdma_inventory *r = &facts->rdma;

	switch (r->status) {
	case RDMA_UNKNOWN:
	case RDMA_NO_DRIVER:
		return; /* said by the driver's check */
	case RDMA_NO_DEVICE:
		FIND(f, DEVICE_NONE, "", "%s", r->error.msg);
		return;
	case RDMA_NO_PERMISSION:
		FIND(f, DEVICE_DENIED, "", "%s", r->error.msg);
		return;
	case RDMA_FAILED:
		FIND(f, DEVICE_FAILED, "", "%s", r->error.msg);
		return;
	case RDMA_OK:
		break;
	}
	for (size_t i = 0; i < r->n_devices; i++)
		check_device(&r->devices[i], f);
	if (r->n_left_out)
		FIND(f, DEVICE_LEFT_OUT, "", "%zu more devices or ports", r->n_left_out);
}

/* ---- ports and their GIDs ---- */

static bool leads_to_controller(const struct fabric_facts *facts, const char *device, unsigned port)
{
	for (size_t i = 0; i < facts->n_reach; i++) {
		if (facts->reach[i].rdma_port == port &&
		    strcmp(facts->reach[i].rdma_device, device) == 0)
			return true;
	}
	return false;
}

static void format_speed(uint64_t mbps, char ret_z[32])
{
	if (mbps == 0)
		snprintf(ret_z, 32, "speed unknown");
	else if (mbps % 1000 == 0)
		snprintf(ret_z, 32, "%" PRIu64 " Gb/s", mbps / 1000);
	else
		snprintf(ret_z, 32, "%" PRIu64 ".%" PRIu64 " Gb/s", mbps / 1000, mbps % 1000 / 100);
}

static void check_port(const struct fabric_facts *facts, const struct rdma_device *d,
		       const struct rdma_port *p, struct node_findings *f)
{
	char name[NODE_TEXT_SIZE], speed[32];
	bool is_used = leads_to_controller(facts, d->name, p->number);

	snprintf(name, sizeof(name), "%s/%u", d->name, p->number);
	format_speed(p->speed_mbps, speed);
	FIND(f,
	     rdma_port_is_up(p) ? PORT_UP
	     : is_used          ? PORT_DOWN
				: PORT_UNUSED,
	     name, "%s, %s, %s, MTU %u, %s%s", rdma_state_name(p->state), rdma_layer_name(p->layer),
	     speed, p->mtu_bytes, p->netdev[0] ? p->netdev : "no interface",
	     rdma_port_is_up(p) || is_used ? "" : "; no controller is reached through it");
}

/* The IPv4 address that a GID stands for. */
static bool is_v4_gid(const struct rdma_gid *gid, char ret_z[INET_ADDRSTRLEN])
{
	struct in6_addr a;

	return gid->type == RDMA_GID_ROCE_V2 && inet_pton(AF_INET6, gid->text, &a) == 1 &&
	       IN6_IS_ADDR_V4MAPPED(&a) &&
	       inet_ntop(AF_INET, a.s6_addr + 12, ret_z, INET_ADDRSTRLEN) != NULL;
}

static bool is_gid_of(const struct rdma_gid *gid, const char *address)
{
	char z[INET_ADDRSTRLEN];

	if (is_v4_gid(gid, z))
		return strcmp(z, address) == 0;
	return gid->type == RDMA_GID_ROCE_V2 && strcmp(gid->text, address) == 0;
}

/* Of the port that a controller is reached through, for the address that is used to it. */
static void check_gids(const struct fabric_facts *facts, const struct fabric_reach *r,
		       struct node_findings *f)
{
	const struct rdma_port *p = fabric_port(facts, r->rdma_device, r->rdma_port);
	const struct rdma_gid *any = NULL;
	char name[NODE_TEXT_SIZE], z[INET_ADDRSTRLEN];

	if (!p)
		return;
	snprintf(name, sizeof(name), "%s/%u", r->rdma_device, r->rdma_port);
	if (p->layer != RDMA_LAYER_ETHERNET) {
		FIND(f, GID_INFINIBAND, name, "%zu GIDs, %s", p->n_gids, rdma_layer_name(p->layer));
		return;
	}
	for (size_t i = 0; i < p->n_gids; i++) {
		const struct rdma_gid *gid = &p->gids[i];

		if (is_gid_of(gid, r->source) &&
		    (!gid->netdev[0] || strcmp(gid->netdev, r->link) == 0 ||
		     strcmp(gid->netdev, r->rdma_link) == 0)) {
			FIND(f, GID_ROCE, name, "GID %u is RoCE v2 of %s on %s", gid->index,
			     r->source, r->link);
			return;
		}
		if (!any && is_v4_gid(gid, z))
			any = gid;
	}
	if (any)
		FIND(f, GID_OTHER, name, "no RoCE v2 GID of %s on %s; GID %u is %s on %s",
		     r->source[0] ? r->source : "an address", r->link, any->index, any->text,
		     any->netdev[0] ? any->netdev : "no interface");
	else
		FIND(f, GID_NONE, name, "no RoCE v2 GID with an IPv4 address among %zu", p->n_gids);
}

/* ---- the way to the controllers ---- */

/* Whether a controller before this one is reached in the same way: what there is to say of the
 * interface has been said. */
static bool is_said(const struct fabric_facts *facts, const struct fabric_reach *r)
{
	for (const struct fabric_reach *e = facts->reach; e < r; e++) {
		if (!e->error.kind && !e->local && strcmp(e->link, r->link) == 0 &&
		    strcmp(e->source, r->source) == 0)
			return true;
	}
	return false;
}

static void check_link(const struct fabric_facts *facts, const struct fabric_reach *r,
		       struct node_findings *f)
{
	if (r->rdma_device[0])
		FIND(f, RDMA_LINK_THERE, r->controller, "%s is %s/%u", r->link, r->rdma_device,
		     r->rdma_port);
	else
		FIND(f, RDMA_LINK_NONE, r->controller, "%s is no interface of an RDMA port",
		     r->link);
	if (is_said(facts, r))
		return;
	check_gids(facts, r, f);
	FIND(f, r->mtu_bytes < SMALL_MTU ? MTU_SMALL : MTU_FINE, r->link, "%u bytes", r->mtu_bytes);
}

static void check_reach(const struct fabric_facts *facts, const struct fabric_reach *r,
			struct node_findings *f)
{
	if (r->error.kind) {
		FIND(f, ROUTE_NONE, r->controller, "%s", r->error.msg);
		return;
	}
	if (r->local) {
		FIND(f, ROUTE_LOCAL, r->controller, "%s is an address of this machine", r->address);
		return;
	}
	if (!r->up) {
		FIND(f, ROUTE_LINK_DOWN, r->controller, "the way leads through %s, which %s",
		     r->link, r->enabled ? "has no carrier" : "is down");
	} else if (r->gateway[0]) {
		FIND(f, ROUTE_GATEWAY, r->controller, "%s through %s, by gateway %s, from %s",
		     r->address, r->link, r->gateway, r->source);
	} else {
		FIND(f, ROUTE_THERE, r->controller, "%s through %s, from %s in %s", r->address,
		     r->link, r->source, r->subnet[0] ? r->subnet : "no known subnet");
	}
	check_link(facts, r, f);
}

/* ---- the host ---- */

static void format_bytes(uint64_t bytes, char ret_z[32])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	size_t unit = 0;

	if (bytes == FABRIC_UNLIMITED) {
		snprintf(ret_z, 32, "unlimited");
		return;
	}
	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	snprintf(ret_z, 32, "%" PRIu64 " %s", bytes, units[unit]);
}

/* What systemctl calls it: of k3s it's k3s or k3s-agent, which the unit's file or drop-in tells. */
static void unit_of(const struct fabric_runtime *r, char ret_z[NODE_TEXT_SIZE])
{
	const char *end = strstr(r->unit, ".service"), *begin = end;

	while (begin && begin > r->unit && begin[-1] != '/')
		begin--;
	if (begin && begin < end)
		snprintf(ret_z, NODE_TEXT_SIZE, "%.*s", (int)(end - begin), begin);
	else
		snprintf(ret_z, NODE_TEXT_SIZE, "%s", r->name);
}

static void check_runtime(const struct fabric_runtime *r, struct node_findings *f)
{
	bool is_docker = strcmp(r->name, "docker") == 0;
	bool unit_fine = r->unit_sets_memlock && r->unit_memlock_bytes == FABRIC_UNLIMITED;
	uint64_t bytes = r->default_ulimit ? r->unit_memlock_bytes : r->memlock_bytes;
	char limit[32], name[NODE_TEXT_SIZE];

	unit_of(r, name);
	if (!r->running) {
		if (r->installed)
			FIND(f, RUNTIME_STOPPED, name, "it doesn't run");
		return;
	}
	format_bytes(bytes, limit);
	if (bytes == FABRIC_UNLIMITED)
		FIND(f, RUNTIME_UNLIMITED, name, "process %d: %s%s%s", r->pid, limit,
		     r->unit_sets_memlock ? ", by " : "", r->unit_sets_memlock ? r->unit : "");
	else if (unit_fine)
		FIND(f, RUNTIME_OLD, name, "process %d has %s, though %s says unlimited", r->pid,
		     limit, r->unit[0] ? r->unit : "its unit");
	else
		FIND(f, is_docker ? RUNTIME_DOCKER : RUNTIME_LIMITED, name,
		     "process %d has %s of locked memory%s%s", r->pid, limit,
		     r->unit[0] ? "; its unit is " : "", r->unit);
}

static void check_limits(const struct fabric_host *h, struct node_findings *f)
{
	size_t before;
	char limit[32];

	format_bytes(h->memlock_bytes, limit);
	if (h->memlock_bytes != FABRIC_UNLIMITED && h->may_lock)
		FIND(f, MEMLOCK_CAPABLE, "",
		     "this process has CAP_IPC_LOCK; its limit of %s is for others", limit);
	else
		FIND(f, h->memlock_bytes == FABRIC_UNLIMITED ? MEMLOCK_UNLIMITED : MEMLOCK_LIMITED,
		     "", "this process may lock %s%s", limit,
		     h->memlock_bytes == FABRIC_UNLIMITED ? "" : " of memory");
	before = f->n;
	for (size_t i = 0; i < h->n_runtimes; i++) {
		/* No container is a child of a kubelet's. */
		if (strcmp(h->runtimes[i].name, "kubelet") != 0)
			check_runtime(&h->runtimes[i], f);
	}
	if (f->n == before)
		FIND(f, RUNTIME_NONE, "", "no container runtime is seen here");
	if (h->hugepages_total)
		FIND(f, HUGEPAGES_SOME, "", "%" PRIu64 " of %" PRIu64 " free, %" PRIu64 " KiB each",
		     h->hugepages_free, h->hugepages_total, h->hugepage_bytes / 1024);
	else
		FIND(f, HUGEPAGES_NONE, "", "none are set aside, and none are needed");
}

static void check_cni(const struct fabric_host *h, struct node_findings *f)
{
	const char *folder = h->cni_folder[0] ? h->cni_folder : "the CNI folder";

	if (!h->cni_known && h->cni_missing) {
		FIND(f, MULTUS_NO_CNI, "", "there is no folder %s", folder);
		FIND(f, WHEREABOUTS_NO_CNI, "", "there is no folder %s", folder);
		return;
	}
	if (!h->cni_known) {
		FIND(f, MULTUS_UNREADABLE, "", "%s can't be read", folder);
		FIND(f, WHEREABOUTS_UNREADABLE, "", "%s can't be read", folder);
		return;
	}
	if (!h->cni_multus)
		FIND(f, MULTUS_MISSING, "", "%s has no configuration of Multus", folder);
	else if (!h->cni_multus_folder)
		FIND(f, MULTUS_NO_FOLDER, "", "%s has Multus' configuration, and no multus.d",
		     folder);
	else
		FIND(f, MULTUS_THERE, "", "%s has its configuration and multus.d", folder);
	if (h->cni_whereabouts)
		FIND(f, WHEREABOUTS_THERE, "", "%s has whereabouts.d", folder);
	else
		FIND(f, WHEREABOUTS_MISSING, "", "%s has no whereabouts.d", folder);
}

/* ---- all of it ---- */

void node_check_entries(const struct vipu_address_list *list, struct node_findings *f)
{
	for (size_t i = 0; i < list->n_problems; i++)
		FIND(f, ROUTE_BAD_ENTRY, list->problems[i].text, "%s", list->problems[i].reason);
}

void node_check(const struct fabric_facts *facts, struct node_findings *f)
{
	check_driver(facts, f);
	check_devices(facts, f);
	for (size_t i = 0; i < facts->rdma.n_devices; i++) {
		const struct rdma_device *d = &facts->rdma.devices[i];

		for (size_t j = 0; j < d->n_ports; j++)
			check_port(facts, d, &d->ports[j], f);
	}
	for (size_t i = 0; i < facts->n_reach; i++)
		check_reach(facts, &facts->reach[i], f);
	if (facts->n_reach == 0)
		FIND(f, ROUTE_NO_CONTROLLER, "", "no V-IPU controller is known");
	if (facts->host.known)
		check_limits(&facts->host, f);
	check_cni(&facts->host, f);
}
