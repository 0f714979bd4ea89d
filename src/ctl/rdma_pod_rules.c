/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from a test Pod: from how it went, and from what it saw (ipuctl rdma check
 * --inside). Pure. Whoever changes a row changes doc/design/head-node.md and
 * t/unit/ctl_rdma_test.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "node/cidr.h"

#define LINK         "net1" /* what Multus calls the first network that it adds */
#define CAP_IPC_LOCK 14     /* linux/capability.h */

enum {
	POD_RAN,
	POD_NO_IMAGE,
	POD_REFUSED,
	POD_UNSCHEDULED,
	POD_IMAGE,
	POD_NOT_STARTED,
	POD_SILENT,
	POD_INTERRUPTED,
	DEVICES_THERE,
	DEVICES_NONE,
	NET1_UP,
	NET1_DOWN,
	NET1_NONE,
	ADDRESS_FINE,
	ADDRESS_ELSEWHERE,
	ADDRESS_NONE,
	ADDRESS_UNKNOWN,
	ROUTE_NET1,
	ROUTE_OTHER,
	ROUTE_NONE,
	ROUTE_UNKNOWN,
	DEFAULT_OTHER,
	DEFAULT_NET1,
	DEFAULT_NONE,
	IPC_LOCK_HAS,
	IPC_LOCK_NOT_ROOT,
	IPC_LOCK_NONE,
	MEMLOCK_UNLIMITED,
	MEMLOCK_ROOT,
	MEMLOCK_LIMITED,
	N_RULES,
};

/* clang-format off */
const struct node_rule ctl_rdma_pod_rules[N_RULES + 1] = {
	[POD_RAN] = {"pod", "ran", NODE_PASS, ""},
	[POD_NO_IMAGE] = {"pod", "no-image", NODE_FAIL, "Name an image that has ipuctl, such as the operator's, by --image."},
	[POD_REFUSED] = {"pod", "refused", NODE_FAIL, "Mend what the API server names: rights, a quota, Pod Security, another webhook's rule."},
	[POD_UNSCHEDULED] = {"pod", "unscheduled", NODE_FAIL, "Mend what the scheduler names: the node's RDMA resource, taints, room."},
	[POD_IMAGE] = {"pod", "image", NODE_FAIL, "See whether the node can pull the image; name another one by --image."},
	[POD_NOT_STARTED] = {"pod", "not-started", NODE_FAIL, "Look at the Events that are shown, and on the node at the kubelet's log: usually Multus or Whereabouts can't give it its network."},
	[POD_SILENT] = {"pod", "silent", NODE_FAIL, "See whether the image has this version's ipuctl at /usr/bin/ipuctl."},
	[POD_INTERRUPTED] = {"pod", "interrupted", NODE_SKIP, ""},
	[DEVICES_THERE] = {"pod-device", "there", NODE_PASS, ""},
	[DEVICES_NONE] = {"pod-device", "none", NODE_FAIL, "Have Pods ask for the RDMA device plugin's resource, and see what the plugin gives: its Pod's log on that node."},
	[NET1_UP] = {"pod-net1", "up", NODE_PASS, ""},
	[NET1_DOWN] = {"pod-net1", "down", NODE_FAIL, "See to the node's interface that the network is on: it must be up."},
	[NET1_NONE] = {"pod-net1", "none", NODE_FAIL, "See that Multus runs on that node and comes first in /etc/cni/net.d (00-multus.conf): the annotation of Pods is nothing to other plugins."},
	[ADDRESS_FINE] = {"pod-address", "fine", NODE_PASS, ""},
	[ADDRESS_ELSEWHERE] = {"pod-address", "elsewhere", NODE_FAIL, "See what gives the network its addresses (ipam of its definition)."},
	[ADDRESS_NONE] = {"pod-address", "none", NODE_FAIL, "See what gives the network its addresses (ipam of its definition), and Whereabouts' log on that node."},
	[ADDRESS_UNKNOWN] = {"pod-address", "unknown", NODE_SKIP, ""},
	[ROUTE_NET1] = {"pod-route", "net1", NODE_PASS, ""},
	[ROUTE_OTHER] = {"pod-route", "other", NODE_FAIL, "Give the network the IPUs' own subnet as its range, so that SUBJECT is on net1's link; or add a route to the network's ipam."},
	[ROUTE_NONE] = {"pod-route", "none", NODE_FAIL, "Give the network the IPUs' own subnet as its range, so that SUBJECT is on net1's link; or add a route to the network's ipam."},
	[ROUTE_UNKNOWN] = {"pod-route", "unknown", NODE_SKIP, "Name the V-IPU controllers by --controller."},
	[DEFAULT_OTHER] = {"pod-default-route", "other", NODE_PASS, ""},
	[DEFAULT_NET1] = {"pod-default-route", "net1", NODE_FAIL, "Take the default route or the gateway out of the network's definition: the cluster and the Internet aren't there."},
	[DEFAULT_NONE] = {"pod-default-route", "none", NODE_WARN, "See to the cluster's own network: Pods have no way out of it."},
	[IPC_LOCK_HAS] = {"pod-ipc-lock", "has", NODE_PASS, ""},
	[IPC_LOCK_NOT_ROOT] = {"pod-ipc-lock", "not-root", NODE_SKIP, ""},
	[IPC_LOCK_NONE] = {"pod-ipc-lock", "none", NODE_FAIL, "See which policy or webhook takes the capability IPC_LOCK from Pods."},
	[MEMLOCK_UNLIMITED] = {"pod-memlock", "unlimited", NODE_PASS, ""},
	[MEMLOCK_ROOT] = {"pod-memlock", "root-only", NODE_WARN, "Let the node's container runtime lock any amount (runtime-memlock tells how), for Pods whose user isn't root: IPC_LOCK helps root alone."},
	[MEMLOCK_LIMITED] = {"pod-memlock", "limited", NODE_FAIL, "Let the node's container runtime lock any amount (runtime-memlock tells how), or give root's Pods IPC_LOCK."},
};
/* clang-format on */

#define FIND(f, rule, subject, ...) node_find(f, &ctl_rdma_pod_rules[rule], subject, __VA_ARGS__)

/* ---- how it went ---- */

static const struct json *container_state(const struct json *pod, const char *state)
{
	const struct json *all = json_at(pod, "status", "containerStatuses", NULL);

	return json_get(json_get(json_item(all, 0), "state"), state);
}

/* Whether it ran, and what it saw can be judged. */
static bool judge_run(const struct json *facts, const char *name, struct node_findings *f)
{
	const struct json *pod = json_get(facts, "pod"), *inside = json_get(facts, "inside");
	const struct json *waiting = container_state(pod, "waiting");
	const struct json *ended = container_state(pod, "terminated");
	const struct json *placed = ctl_condition(pod, "PodScheduled");
	const char *reason = ctl_rdma_z(facts, "reason"), *why = ctl_rdma_z(facts, "error");

	if (strcmp(reason, "no-image") == 0)
		FIND(f, POD_NO_IMAGE, "", "%s", why); /* it was never made */
	else if (strcmp(reason, "refused") == 0)
		FIND(f, POD_REFUSED, "", "%s", why);
	else if (strcmp(reason, "interrupted") == 0)
		FIND(f, POD_INTERRUPTED, name, "interrupted");
	else if (json_type(inside) == JSON_OBJECT)
		FIND(f, POD_RAN, name, "on node %s", ctl_rdma_z(json_get(pod, "spec"), "nodeName"));
	else if (!ended && placed && !str_eqz(json_str(json_get(placed, "status")), "True"))
		FIND(f, POD_UNSCHEDULED, name, "%s", ctl_rdma_z(placed, "message"));
	else if (!ended && strstr(ctl_rdma_z(waiting, "reason"), "Image"))
		FIND(f, POD_IMAGE, name, "%s: %s", ctl_rdma_z(waiting, "reason"),
		     ctl_rdma_z(waiting, "message"));
	else if (!ended)
		FIND(f, POD_NOT_STARTED, name, "%s%s%s", ctl_rdma_z(waiting, "reason"),
		     why[0] ? ": " : "", why);
	else
		FIND(f, POD_SILENT, name, "exit status %lld, and no list of what it has: %s",
		     (long long)json_int(json_get(ended, "exitCode"), -1),
		     ctl_rdma_z(ended, "message")[0] ? ctl_rdma_z(ended, "message") : why);
	return json_type(inside) == JSON_OBJECT;
}

/* ---- what it saw ---- */

static const struct json *interface(const struct json *inside)
{
	struct json_iter it = json_iter(json_get(inside, "interfaces"));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "name")), LINK))
			return it.value;
	}
	return NULL;
}

static void judge_addresses(const struct json *net1, const struct json *cluster,
			    struct node_findings *f)
{
	struct json_iter it = json_iter(json_get(net1, "addresses"));
	struct cidr range, address;
	struct str first = STR_NULL;
	char z[CIDR_TEXT_SIZE];
	bool knows = ctl_rdma_range(cluster, &range);

	while (json_next(&it)) {
		struct str text = json_str(it.value), alone, length;

		str_cut(text, '/', &alone, &length);
		/* IPv6's own address of every link is nobody's gift. */
		if (cidr_parse(alone, &address, NULL) < 0 ||
		    (address.bits == 128 && str_has_prefix(text, STR("fe80:"))))
			continue;
		if (knows && cidr_contains(&range, &address)) {
			FIND(f, ADDRESS_FINE, LINK, "%.*s, in %s", STR_ARG(text),
			     cidr_format(&range, z));
			return;
		}
		first = first.len ? first : text;
	}
	if (!first.len)
		FIND(f, ADDRESS_NONE, LINK, "it has no address");
	else if (!knows)
		FIND(f, ADDRESS_UNKNOWN, LINK, "%.*s; which it should be isn't known",
		     STR_ARG(first));
	else
		FIND(f, ADDRESS_ELSEWHERE, LINK, "%.*s isn't in %s", STR_ARG(first),
		     cidr_format(&range, z));
}

/* The route that the kernel takes: the longest prefix, then the lowest metric. */
static const struct json *route_to(const struct json *inside, const struct cidr *to)
{
	struct json_iter it = json_iter(json_get(inside, "routes"));
	const struct json *best = NULL;
	struct cidr c, best_c = {.bits = 0};
	int64_t best_metric = 0;

	while (json_next(&it)) {
		int64_t metric = json_int(json_get(it.value, "metric"), 0);

		if (cidr_parse(json_str(json_get(it.value, "to")), &c, NULL) < 0 ||
		    !cidr_contains(&c, to))
			continue;
		if (best && (c.prefix < best_c.prefix ||
			     (c.prefix == best_c.prefix && metric >= best_metric)))
			continue;
		best = it.value;
		best_c = c;
		best_metric = metric;
	}
	return best;
}

static void judge_route(const struct json *inside, const struct fabric_reach *r,
			struct node_findings *f)
{
	const struct json *route;
	struct cidr to;

	if (cidr_parse(str_of(r->address), &to, NULL) < 0 || r->local) {
		FIND(f, ROUTE_UNKNOWN, r->controller, "%s",
		     r->local ? "the controller is on this machine" : "its address isn't known");
		return;
	}
	route = route_to(inside, &to);
	if (!route)
		FIND(f, ROUTE_NONE, r->controller, "the Pod has no route to %s", r->address);
	else
		FIND(f, strcmp(ctl_rdma_z(route, "device"), LINK) == 0 ? ROUTE_NET1 : ROUTE_OTHER,
		     r->controller, "%s: %s through %s", r->address, ctl_rdma_z(route, "to"),
		     ctl_rdma_z(route, "device"));
}

static void judge_default(const struct json *inside, struct node_findings *f)
{
	static const char *const all[] = {"0.0.0.0/0", "::/0"};
	struct json_iter it = json_iter(json_get(inside, "routes"));
	const char *device = "";

	while (json_next(&it)) {
		bool is_default = strcmp(ctl_rdma_z(it.value, "to"), all[0]) == 0 ||
				  strcmp(ctl_rdma_z(it.value, "to"), all[1]) == 0;

		if (is_default && strcmp(device, LINK) != 0)
			device = ctl_rdma_z(it.value, "device");
	}
	if (!device[0])
		FIND(f, DEFAULT_NONE, "", "the Pod has no default route");
	else
		FIND(f, strcmp(device, LINK) == 0 ? DEFAULT_NET1 : DEFAULT_OTHER, "", "through %s",
		     device);
}

static void judge_memory(const struct json *inside, struct node_findings *f)
{
	int64_t limit = json_int(json_get(inside, "memlock"), 0);
	int64_t uid = json_int(json_get(inside, "uid"), 0);
	unsigned long long caps = strtoull(ctl_rdma_z(inside, "capEff"), NULL, 16);
	bool has = caps >> CAP_IPC_LOCK & 1;

	FIND(f,
	     has   ? IPC_LOCK_HAS
	     : uid ? IPC_LOCK_NOT_ROOT
		   : IPC_LOCK_NONE,
	     "", "user %lld, capabilities in effect %s%s", (long long)uid,
	     ctl_rdma_z(inside, "capEff"), uid && !has ? ": given to root alone" : "");
	if (limit < 0)
		FIND(f, MEMLOCK_UNLIMITED, "", "unlimited");
	else
		FIND(f, has ? MEMLOCK_ROOT : MEMLOCK_LIMITED, "", "%lld bytes%s", (long long)limit,
		     has ? "; root may lock more by IPC_LOCK" : "");
}

static void judge_devices(const struct json *inside, struct node_findings *f)
{
	struct json_iter it = json_iter(json_get(inside, "devices"));
	char names[NODE_SEEN_SIZE] = "";
	size_t len = 0;

	while (json_next(&it) && len < sizeof(names))
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%.*s", len ? ", " : "",
					STR_ARG(json_str(it.value)));
	if (strstr(names, "uverbs"))
		FIND(f, DEVICES_THERE, "", "/dev/infiniband has %s", names);
	else
		FIND(f, DEVICES_NONE, "", "no uverbs device in /dev/infiniband");
}

void ctl_rdma_judge_pod(const struct json *pod_facts, const struct json *facts,
			const struct fabric_facts *local, struct node_findings *f)
{
	const struct json *inside = json_get(pod_facts, "inside");
	const struct json *net1 = interface(inside);

	if (!judge_run(pod_facts, ctl_rdma_z(pod_facts, "name"), f))
		return;
	judge_devices(inside, f);
	if (net1) {
		bool up = json_bool(json_get(net1, "up"), false);

		FIND(f, up ? NET1_UP : NET1_DOWN, LINK, "%s, MTU %lld", up ? "up" : "down",
		     (long long)json_int(json_get(net1, "mtu"), 0));
		judge_addresses(net1, facts, f);
	} else {
		FIND(f, NET1_NONE, LINK, "the Pod has no such interface");
	}
	for (size_t i = 0; i < local->n_reach; i++)
		judge_route(inside, &local->reach[i], f);
	if (local->n_reach == 0)
		FIND(f, ROUTE_UNKNOWN, "", "no V-IPU controller is known");
	judge_default(inside, f);
	judge_memory(inside, f);
}
