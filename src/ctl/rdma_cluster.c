/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the cluster: rules, and one function for each. Pure. Whoever changes a row changes
 * doc/design/head-node.md and t/unit/ctl_rdma_test.c.
 */
#include <stdio.h>
#include <string.h>

#include "core/yaml.h"
#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "kube/object.h"
#include "node/cidr.h"

#define USUAL_RESOURCE "rdma/rdma_shared_device_a"

enum {
	CLUSTER_THERE,
	CLUSTER_NONE,
	CLUSTER_UNREACHABLE,
	MULTUS_READY,
	MULTUS_NOT_READY,
	MULTUS_UNSEEN,
	MULTUS_NO_PODS,
	MULTUS_MISSING,
	MULTUS_UNKNOWN,
	WHEREABOUTS_READY,
	WHEREABOUTS_NOT_READY,
	WHEREABOUTS_UNSEEN,
	WHEREABOUTS_NO_PODS,
	WHEREABOUTS_OTHER,
	WHEREABOUTS_MISSING,
	WHEREABOUTS_UNKNOWN,
	NETWORK_READY,
	NETWORK_NOT_READY,
	NETWORK_NONE,
	NETWORK_UNKNOWN,
	ATTACHMENT_THERE,
	ATTACHMENT_MISSING,
	ATTACHMENT_BROKEN,
	ATTACHMENT_UNKNOWN,
	LINK_SAME,
	LINK_OTHER,
	LINK_UNKNOWN,
	LINK_NOT_HERE,
	RANGE_FINE,
	RANGE_ELSEWHERE,
	RANGE_IN_USE,
	RANGE_UNKNOWN,
	RANGE_NOT_HERE,
	NODE_THERE,
	NODE_MISSING,
	NODE_NOT_HERE,
	NODE_UNKNOWN,
	RESOURCE_THERE,
	RESOURCE_EMPTY,
	RESOURCE_NONE,
	TAINT_NONE,
	TAINT_FABRIC,
	TAINT_CONTROL_PLANE,
	TAINT_ELSEWHERE,
	TAINT_CORDONED,
	TAINT_OTHER,
	FABRIC_IS_READY,
	FABRIC_NOT_READY,
	FABRIC_IS_UNKNOWN,
	FABRIC_NONE,
	OPERATOR_SECONDARY,
	OPERATOR_OTHER,
	OPERATOR_TEMPLATES,
	OPERATOR_HOST,
	OPERATOR_UNKNOWN,
	SECURITY_ALLOWS,
	SECURITY_FORBIDS,
	SECURITY_UNKNOWN,
	N_RULES,
};

/* clang-format off */
#define RIGHTS "Look with an account that may."
#define THERE "Run this on that node: its interfaces and addresses count."
const struct node_rule ctl_rdma_cluster_rules[N_RULES + 1] = {
	[CLUSTER_THERE] = {"cluster", "there", NODE_PASS, ""},
	[CLUSTER_NONE] = {"cluster", "none", NODE_SKIP, "Name a kubeconfig by --kubeconfig or KUBECONFIG, for the checks of the cluster."},
	[CLUSTER_UNREACHABLE] = {"cluster", "unreachable", NODE_FAIL, "See whether the API server runs and can be reached from here, and whether the kubeconfig is right."},
	[MULTUS_READY] = {"multus", "ready", NODE_PASS, ""},
	[MULTUS_NOT_READY] = {"multus", "not-ready", NODE_WARN, "Look at the Pods of DaemonSet SUBJECT that aren't ready: on their nodes Pods get no second network."},
	[MULTUS_UNSEEN] = {"multus", "unseen", NODE_SKIP, RIGHTS},
	[MULTUS_NO_PODS] = {"multus", "no-pods", NODE_WARN, "Nothing, if Multus was put onto the nodes in another way: --test-pod shows whether it works. Else install it, by NVIDIA's network operator or by itself."},
	[MULTUS_MISSING] = {"multus", "missing", NODE_FAIL, "Install Multus: NVIDIA's network operator with secondaryNetwork.multus, or by itself."},
	[MULTUS_UNKNOWN] = {"multus", "unknown", NODE_SKIP, RIGHTS},
	[WHEREABOUTS_READY] = {"whereabouts", "ready", NODE_PASS, ""},
	[WHEREABOUTS_NOT_READY] = {"whereabouts", "not-ready", NODE_WARN, "Look at the Pods of DaemonSet SUBJECT that aren't ready: on their nodes Pods get no address."},
	[WHEREABOUTS_UNSEEN] = {"whereabouts", "unseen", NODE_SKIP, RIGHTS},
	[WHEREABOUTS_NO_PODS] = {"whereabouts", "no-pods", NODE_WARN, "Nothing, if Whereabouts was put onto the nodes in another way: --test-pod shows whether it works. Else install it, by NVIDIA's network operator or by itself."},
	[WHEREABOUTS_OTHER] = {"whereabouts", "other", NODE_SKIP, ""},
	[WHEREABOUTS_MISSING] = {"whereabouts", "missing", NODE_FAIL, "Install Whereabouts: NVIDIA's network operator with secondaryNetwork.ipamPlugin, or by itself."},
	[WHEREABOUTS_UNKNOWN] = {"whereabouts", "unknown", NODE_SKIP, RIGHTS},
	[NETWORK_READY] = {"macvlan-network", "ready", NODE_PASS, ""},
	[NETWORK_NOT_READY] = {"macvlan-network", "not-ready", NODE_FAIL, "Look at its status and at the network operator's log: kubectl describe macvlannetwork SUBJECT."},
	[NETWORK_NONE] = {"macvlan-network", "none", NODE_SKIP, ""},
	[NETWORK_UNKNOWN] = {"macvlan-network", "unknown", NODE_SKIP, RIGHTS},
	[ATTACHMENT_THERE] = {"attachment", "there", NODE_PASS, ""},
	[ATTACHMENT_MISSING] = {"attachment", "missing", NODE_FAIL, "Make it on a head node: ipuctl rdma macvlan --apply; without NVIDIA's network operator with --attachment. Or name another one by --network."},
	[ATTACHMENT_BROKEN] = {"attachment", "broken", NODE_FAIL, "Correct its spec.config, or write it anew: ipuctl rdma macvlan --apply."},
	[ATTACHMENT_UNKNOWN] = {"attachment", "unknown", NODE_SKIP, RIGHTS},
	[LINK_SAME] = {"attachment-link", "same", NODE_PASS, ""},
	[LINK_OTHER] = {"attachment-link", "other", NODE_FAIL, "Let the network use the interface that leads to the IPUs: ipuctl rdma macvlan --apply on this machine. Where head nodes' interfaces differ, give them one name, or each kind a network of its own."},
	[LINK_UNKNOWN] = {"attachment-link", "unknown", NODE_SKIP, ""},
	[LINK_NOT_HERE] = {"attachment-link", "not-here", NODE_SKIP, THERE},
	[RANGE_FINE] = {"attachment-range", "fine", NODE_PASS, ""},
	[RANGE_ELSEWHERE] = {"attachment-range", "elsewhere", NODE_FAIL, "Give Pods addresses of the IPUs' own subnet: ipuctl rdma macvlan --apply on this machine."},
	[RANGE_IN_USE] = {"attachment-range", "in-use", NODE_FAIL, "Exclude addresses that are in use: ipuctl rdma macvlan --apply on this machine, or --exclude."},
	[RANGE_UNKNOWN] = {"attachment-range", "unknown", NODE_SKIP, ""},
	[RANGE_NOT_HERE] = {"attachment-range", "not-here", NODE_SKIP, THERE},
	[NODE_THERE] = {"node", "there", NODE_PASS, ""},
	[NODE_MISSING] = {"node", "missing", NODE_FAIL, "Name one that is there: kubectl get nodes."},
	[NODE_NOT_HERE] = {"node", "not-here", NODE_SKIP, "Name the Node by --node, for the checks of it."},
	[NODE_UNKNOWN] = {"node", "unknown", NODE_SKIP, RIGHTS},
	[RESOURCE_THERE] = {"node-resource", "there", NODE_PASS, ""},
	[RESOURCE_EMPTY] = {"node-resource", "empty", NODE_FAIL, "Look at the RDMA device plugin's Pod on this node: it finds no device for SUBJECT, by its selectors and the node's drivers."},
	[RESOURCE_NONE] = {"node-resource", "none", NODE_FAIL, "Install NVIDIA's RDMA shared device plugin, and see that its Pod runs on this node and its selectors (drivers: mlx5_core) fit the card."},
	[TAINT_NONE] = {"node-taints", "none", NODE_PASS, ""},
	[TAINT_FABRIC] = {"node-taints", "fabric", NODE_FAIL, "See to the node's fabric: the operator's node role takes the taint away when the condition IPUFabricReady is True again."},
	[TAINT_CONTROL_PLANE] = {"node-taints", "control-plane", NODE_FAIL, "All nodes are the control plane's alone: kubectl taint node SUBJECT node-role.kubernetes.io/control-plane-"},
	[TAINT_ELSEWHERE] = {"node-taints", "elsewhere", NODE_SKIP, "Nothing, where IPU work runs on other nodes; else kubectl taint node SUBJECT node-role.kubernetes.io/control-plane-"},
	[TAINT_CORDONED] = {"node-taints", "cordoned", NODE_WARN, "kubectl uncordon SUBJECT, when it may have work again."},
	[TAINT_OTHER] = {"node-taints", "other", NODE_WARN, "Have Pods tolerate it, or take it away: kubectl describe node SUBJECT."},
	[FABRIC_IS_READY] = {"node-fabric", "ready", NODE_PASS, ""},
	[FABRIC_NOT_READY] = {"node-fabric", "not-ready", NODE_FAIL, "Mend what the condition's message names."},
	[FABRIC_IS_UNKNOWN] = {"node-fabric", "unknown", NODE_WARN, "See whether the operator's node role runs on this node, and what its log says."},
	[FABRIC_NONE] = {"node-fabric", "none", NODE_SKIP, ""},
	[OPERATOR_SECONDARY] = {"operator-network", "secondary", NODE_PASS, ""},
	[OPERATOR_OTHER] = {"operator-network", "other", NODE_WARN, "Set worker.rdmaNetwork to the network that was looked at, or look at that one by --network."},
	[OPERATOR_TEMPLATES] = {"operator-network", "templates", NODE_SKIP, "Set worker.rdmaNetwork and worker.rdmaResource, or have each template name the network, the resource and IPC_LOCK."},
	[OPERATOR_HOST] = {"operator-network", "host", NODE_WARN, "Set worker.hostNetwork to false, if Pods are to use the second network: with true they're privileged on the node's own."},
	[OPERATOR_UNKNOWN] = {"operator-network", "unknown", NODE_SKIP, ""},
	[SECURITY_ALLOWS] = {"pod-security", "allows", NODE_PASS, ""},
	[SECURITY_FORBIDS] = {"pod-security", "forbids", NODE_FAIL, "Run IPU work in a namespace whose label pod-security.kubernetes.io/enforce is privileged: IPC_LOCK isn't allowed by the others; or set worker.ipcLock to false where locked memory is unlimited."},
	[SECURITY_UNKNOWN] = {"pod-security", "unknown", NODE_SKIP, RIGHTS},
};
/* clang-format on */

#define FIND(f, rule, subject, ...)                                                                \
	node_find(f, &ctl_rdma_cluster_rules[rule], subject, __VA_ARGS__)

struct look {
	const struct json *facts;
	const struct fabric_facts *local;
	const struct ctl_rdma_question *q;
	struct node_findings *f;
	/* The attachment's configuration, where there is one. */
	struct json_doc *config_doc;
	const struct json *config;
	struct err config_error;
};

const char *ctl_rdma_z(const struct json *object, const char *key)
{
	const char *z = json_cstr(json_get(object, key));

	return z ? z : "";
}

/* ---- Multus and Whereabouts ---- */

/* The DaemonSet whose name, or one of whose images, has the word in it. */
static const struct json *daemonset(const struct json *facts, const char *word)
{
	struct json_iter it = json_iter(json_get(ctl_fact(facts, "daemonsets"), "items"));

	while (json_next(&it)) {
		struct json_iter c = json_iter(
			json_at(it.value, "spec", "template", "spec", "containers", NULL));

		if (strstr(ctl_rdma_z(json_get(it.value, "metadata"), "name"), word))
			return it.value;
		while (json_next(&c)) {
			if (strstr(ctl_rdma_z(c.value, "image"), word))
				return it.value;
		}
	}
	return NULL;
}

/* rules: the first of ready, not-ready, unseen and no-pods, which follow one another. */
static void check_daemonset(struct look *l, const char *word, int rules)
{
	const struct json *set = daemonset(l->facts, word);
	int64_t wanted = json_int(json_at(set, "status", "desiredNumberScheduled", NULL), 0);
	int64_t ready = json_int(json_at(set, "status", "numberReady", NULL), 0);
	char key[KUBE_KEY_SIZE];

	if (!ctl_fact(l->facts, "daemonsets")) {
		struct str why = ctl_fact_error(l->facts, "daemonsets");

		FIND(l->f, rules + 2, "", "its API is served; its DaemonSet can't be seen: %.*s",
		     STR_ARG(why));
		return;
	}
	if (!set) {
		FIND(l->f, rules + 3, "", "its API is served, and no DaemonSet has %s in its name",
		     word);
		return;
	}
	kube_object_key(set, key);
	FIND(l->f, ready > 0 && ready == wanted ? rules : rules + 1, key,
	     "%lld of %lld Pods are ready", (long long)ready, (long long)wanted);
}

static void check_multus(struct look *l)
{
	if (ctl_fact(l->facts, "multusApi"))
		check_daemonset(l, "multus", MULTUS_READY);
	else if (ctl_fact_code(l->facts, "multusApi") == 404)
		FIND(l->f, MULTUS_MISSING, "",
		     "the cluster has no network-attachment-definitions.k8s.cni.cncf.io");
	else
		FIND(l->f, MULTUS_UNKNOWN, "", "%.*s",
		     STR_ARG(ctl_fact_error(l->facts, "multusApi")));
}

static void check_whereabouts(struct look *l)
{
	const char *ipam = ctl_rdma_z(json_get(l->config, "ipam"), "type");

	if (ipam[0] && strcmp(ipam, "whereabouts") != 0)
		FIND(l->f, WHEREABOUTS_OTHER, "", "%s gives the network's addresses", ipam);
	else if (ctl_fact(l->facts, "whereaboutsApi"))
		check_daemonset(l, "whereabouts", WHEREABOUTS_READY);
	else if (ctl_fact_code(l->facts, "whereaboutsApi") == 404)
		FIND(l->f, WHEREABOUTS_MISSING, "",
		     "the cluster has no ippools.whereabouts.cni.cncf.io");
	else
		FIND(l->f, WHEREABOUTS_UNKNOWN, "", "%.*s",
		     STR_ARG(ctl_fact_error(l->facts, "whereaboutsApi")));
}

/* ---- the network ---- */

static void check_network(struct look *l)
{
	const struct json *network = ctl_fact(l->facts, "network");
	const struct json *status = json_get(network, "status");

	if (network && strcmp(ctl_rdma_z(status, "state"), "ready") == 0)
		FIND(l->f, NETWORK_READY, l->q->network, "on %s",
		     ctl_rdma_z(json_get(network, "spec"), "master"));
	else if (network)
		FIND(l->f, NETWORK_NOT_READY, l->q->network, "its state is %s%s%s",
		     ctl_rdma_z(status, "state")[0] ? ctl_rdma_z(status, "state") : "empty",
		     ctl_rdma_z(status, "reason")[0] ? ": " : "", ctl_rdma_z(status, "reason"));
	else if (ctl_fact_code(l->facts, "network") == 404)
		FIND(l->f, NETWORK_NONE, l->q->network, "%s",
		     ctl_fact(l->facts, "macvlanApi")
			     ? "there is no MacvlanNetwork of that name"
			     : "the cluster has no macvlannetworks.mellanox.com");
	else
		FIND(l->f, NETWORK_UNKNOWN, l->q->network, "%.*s",
		     STR_ARG(ctl_fact_error(l->facts, "network")));
}

/* What gives its addresses is of interest before it is judged itself. */
static void read_attachment(struct look *l)
{
	const struct json *attachment = ctl_fact(l->facts, "attachment");
	struct str text = json_str(json_at(attachment, "spec", "config", NULL));

	if (attachment && json_parse(text, &l->config_doc, &l->config_error) == 0 &&
	    json_type(json_root(l->config_doc)) == JSON_OBJECT)
		l->config = json_root(l->config_doc);
}

static void check_attachment(struct look *l)
{
	const struct json *attachment = ctl_fact(l->facts, "attachment");
	char key[KUBE_KEY_SIZE];

	kube_key(str_of(l->q->network_ns), str_of(l->q->network), key);
	if (!attachment) {
		bool missing = ctl_fact_code(l->facts, "attachment") == 404;

		FIND(l->f, missing ? ATTACHMENT_MISSING : ATTACHMENT_UNKNOWN, key, "%.*s",
		     STR_ARG(missing ? STR("there is no such NetworkAttachmentDefinition")
				     : ctl_fact_error(l->facts, "attachment")));
		return;
	}
	if (!l->config) {
		FIND(l->f, ATTACHMENT_BROKEN, key, "its spec.config is no JSON object%s%s",
		     l->config_error.kind ? ": " : "", l->config_error.msg);
		return;
	}
	FIND(l->f, ATTACHMENT_THERE, key, "%s on %s, %s", ctl_rdma_z(l->config, "type"),
	     ctl_rdma_z(l->config, "master"),
	     ctl_rdma_z(json_get(l->config, "ipam"), "range")[0]
		     ? ctl_rdma_z(json_get(l->config, "ipam"), "range")
		     : "no range");
}

/* The way of this machine that the network should take: of a controller that isn't on it. */
static const struct fabric_reach *way(const struct fabric_facts *local)
{
	for (size_t i = 0; i < local->n_reach; i++) {
		if (local->reach[i].link[0] && !local->reach[i].local)
			return &local->reach[i];
	}
	return NULL;
}

static bool is_way(const struct fabric_facts *local, const char *link)
{
	for (size_t i = 0; i < local->n_reach; i++) {
		if (!local->reach[i].local && strcmp(local->reach[i].link, link) == 0)
			return true;
	}
	return false;
}

/* Only where this machine is the node that is looked at: elsewhere interfaces may be others. */
static void check_link(struct look *l)
{
	const struct fabric_reach *r = way(l->local);
	const char *master = ctl_rdma_z(l->config, "master");

	if (!l->config)
		return;
	if (l->q->elsewhere)
		FIND(l->f, LINK_NOT_HERE, l->q->network, "this machine isn't the Node %s",
		     l->q->node);
	else if (!r || !master[0])
		FIND(l->f, LINK_UNKNOWN, l->q->network, "%s",
		     master[0] ? "no controller tells which interface it should be"
			       : "it names no interface");
	else if (is_way(l->local, master))
		FIND(l->f, LINK_SAME, l->q->network, "%s leads to controller %s", master,
		     r->controller);
	else
		FIND(l->f, LINK_OTHER, l->q->network, "it is on %s; %s leads to controller %s",
		     master, r->link, r->controller);
}

static bool is_excluded(const struct json *ipam, const struct cidr *address)
{
	struct json_iter it = json_iter(json_get(ipam, "exclude"));
	struct cidr c;

	while (json_next(&it)) {
		if (cidr_parse(json_str(it.value), &c, NULL) == 0 && cidr_contains(&c, address))
			return true;
	}
	return false;
}

static const char *in_use(const struct fabric_facts *local, const struct json *ipam,
			  const struct cidr *range)
{
	for (size_t i = 0; i < local->n_reach; i++) {
		const char *used[] = {local->reach[i].address, local->reach[i].source};

		for (size_t j = 0; j < 2; j++) {
			struct cidr c;

			if (used[j][0] && cidr_parse(str_of(used[j]), &c, NULL) == 0 &&
			    cidr_contains(range, &c) && !is_excluded(ipam, &c))
				return used[j];
		}
	}
	return NULL;
}

static bool range_of(const struct json *config, struct cidr *ret)
{
	const struct json *ipam = json_get(config, "ipam");
	struct str range = json_str(json_get(ipam, "range"));

	if (!range.len)
		range = json_str(json_get(json_item(json_get(ipam, "ipRanges"), 0), "range"));
	return range.len && cidr_parse(range, ret, NULL) == 0;
}

bool ctl_rdma_range(const struct json *facts, struct cidr *ret)
{
	const struct json *attachment = ctl_fact(facts, "attachment");
	CLEANUP_JSON struct json_doc *doc = NULL;

	return json_parse(json_str(json_at(attachment, "spec", "config", NULL)), &doc, NULL) == 0 &&
	       range_of(json_root(doc), ret);
}

static void check_range(struct look *l)
{
	const struct json *ipam = json_get(l->config, "ipam");
	const struct fabric_reach *r = way(l->local);
	char z[CIDR_TEXT_SIZE];
	struct cidr range, subnet;
	const char *used;

	if (!l->config)
		return;
	if (l->q->elsewhere) {
		FIND(l->f, RANGE_NOT_HERE, l->q->network, "this machine isn't the Node %s",
		     l->q->node);
		return;
	}
	if (!range_of(l->config, &range) || !r ||
	    cidr_parse(str_of(r->subnet), &subnet, NULL) < 0) {
		FIND(l->f, RANGE_UNKNOWN, l->q->network, "%s",
		     r ? "its range can't be read here"
		       : "no controller tells which subnet it should be");
		return;
	}
	cidr_format(&range, z);
	/* A part of it between two addresses is somebody's own choice. */
	used = json_get(ipam, "range_start") || json_get(ipam, "range_end")
		       ? NULL
		       : in_use(l->local, ipam, &range);
	if (!cidr_contains(&subnet, &range))
		FIND(l->f, RANGE_ELSEWHERE, l->q->network, "%s isn't within %s of %s", z, r->subnet,
		     r->link);
	else if (used)
		FIND(l->f, RANGE_IN_USE, l->q->network, "%s could be given to a Pod, and is in use",
		     used);
	else
		FIND(l->f, RANGE_FINE, l->q->network, "%s is within %s of %s", z, r->subnet,
		     r->link);
}

/* ---- the node ---- */

const struct json *ctl_rdma_node(const struct json *facts, const struct ctl_rdma_question *q)
{
	struct json_iter it = json_iter(json_get(ctl_fact(facts, "nodes"), "items"));

	while (json_next(&it)) {
		if (q->node ? str_eqz(kube_name(it.value), q->node)
			    : str_eqz(kube_name(it.value), q->host) ||
				      str_eqz(kube_label(it.value, "kubernetes.io/hostname"),
					      q->host))
			return it.value;
	}
	return NULL;
}

bool ctl_rdma_is_elsewhere(const struct json *facts, const struct ctl_rdma_question *q)
{
	const struct json *node = q->node ? ctl_rdma_node(facts, q) : NULL;
	struct json_iter it = json_iter(json_at(node, "status", "addresses", NULL));

	if (!q->node || strcmp(q->node, q->host) == 0 ||
	    (node && str_eqz(kube_label(node, "kubernetes.io/hostname"), q->host)))
		return false;
	while (json_next(&it)) {
		if (ctl_rdma_has_address(ctl_rdma_z(it.value, "address")))
			return false;
	}
	return true;
}

struct str ctl_rdma_resource(const struct json *node, const struct ctl_rdma_question *q)
{
	const struct json *all = json_at(node, "status", "allocatable", NULL);
	struct json_iter it = json_iter(all);

	if (q->resource)
		return str_of(q->resource);
	if (json_get(all, USUAL_RESOURCE))
		return STR(USUAL_RESOURCE);
	while (json_next(&it)) {
		if (str_has_prefix(it.key, STR("rdma/")))
			return it.key;
	}
	return STR_NULL;
}

static void check_resource(struct look *l, const struct json *node)
{
	struct str name = ctl_rdma_resource(node, l->q);
	struct str n = json_str(json_getn(json_at(node, "status", "allocatable", NULL), name));
	char z[NODE_TEXT_SIZE];

	snprintf(z, sizeof(z), "%.*s", STR_ARG(name));
	if (!name.len || !n.p)
		FIND(l->f, RESOURCE_NONE, z, "the node has no such resource%s",
		     name.len ? "" : " as rdma/rdma_shared_device_a");
	else if (str_eqz(n, "0"))
		FIND(l->f, RESOURCE_EMPTY, z, "the node has 0 of it to allocate");
	else
		FIND(l->f, RESOURCE_THERE, z, "the node has %.*s of it to allocate", STR_ARG(n));
}

static bool is_control_plane_taint(const struct json *taint)
{
	struct str key = json_str(json_get(taint, "key"));

	return str_eqz(key, "node-role.kubernetes.io/control-plane") ||
	       str_eqz(key, "node-role.kubernetes.io/master");
}

static bool keeps_away(const struct json *taint)
{
	return !str_eqz(json_str(json_get(taint, "effect")), "PreferNoSchedule");
}

/* Is there a node without the control plane's taint? */
static bool has_workers(const struct json *facts)
{
	struct json_iter it = json_iter(json_get(ctl_fact(facts, "nodes"), "items"));

	while (json_next(&it)) {
		struct json_iter taints = json_iter(json_at(it.value, "spec", "taints", NULL));
		bool away = false;

		while (json_next(&taints))
			away = away ||
			       (is_control_plane_taint(taints.value) && keeps_away(taints.value));
		if (!away)
			return true;
	}
	return false;
}

static int rule_of_taint(const struct look *l, const struct json *taint)
{
	struct str key = json_str(json_get(taint, "key"));

	if (str_has_prefix(key, STR("graphcore.ai/")))
		return TAINT_FABRIC;
	if (is_control_plane_taint(taint))
		return has_workers(l->facts) ? TAINT_ELSEWHERE : TAINT_CONTROL_PLANE;
	return str_eqz(key, "node.kubernetes.io/unschedulable") ? TAINT_CORDONED : TAINT_OTHER;
}

static void check_taints(struct look *l, const struct json *node, const char *name)
{
	struct json_iter it = json_iter(json_at(node, "spec", "taints", NULL));
	bool found = false;

	while (json_next(&it)) {
		if (!keeps_away(it.value))
			continue;
		found = true;
		FIND(l->f, rule_of_taint(l, it.value), name, "%s:%s", ctl_rdma_z(it.value, "key"),
		     ctl_rdma_z(it.value, "effect"));
	}
	if (!found)
		FIND(l->f, TAINT_NONE, name, "no taint keeps Pods away");
}

static void check_fabric(struct look *l, const struct json *node, const char *name)
{
	const struct json *c = ctl_condition(node, "IPUFabricReady");
	struct str status;

	if (!c) {
		FIND(l->f, FABRIC_NONE, name,
		     "no condition IPUFabricReady: the operator's node role isn't used here");
		return;
	}
	status = json_str(json_get(c, "status"));
	FIND(l->f,
	     str_eqz(status, "True")    ? FABRIC_IS_READY
	     : str_eqz(status, "False") ? FABRIC_NOT_READY
					: FABRIC_IS_UNKNOWN,
	     name, "%s: %s", ctl_rdma_z(c, "reason"), ctl_rdma_z(c, "message"));
}

static void check_node(struct look *l)
{
	const struct json *node = ctl_rdma_node(l->facts, l->q);
	const char *name = l->q->node ? l->q->node : l->q->host;
	const struct json *info = json_at(node, "status", "nodeInfo", NULL);

	if (!ctl_fact(l->facts, "nodes")) {
		FIND(l->f, NODE_UNKNOWN, name, "%.*s", STR_ARG(ctl_fact_error(l->facts, "nodes")));
		return;
	}
	if (!node) {
		FIND(l->f, l->q->node ? NODE_MISSING : NODE_NOT_HERE, name, "%s",
		     l->q->node ? "the cluster has no such Node"
				: "this machine is no Node of the cluster");
		return;
	}
	name = json_cstr(json_at(node, "metadata", "name", NULL));
	FIND(l->f, NODE_THERE, name, "%s, kubelet %s", ctl_rdma_z(info, "containerRuntimeVersion"),
	     ctl_rdma_z(info, "kubeletVersion"));
	check_resource(l, node);
	check_taints(l, node, name);
	check_fabric(l, node, name);
}

/* ---- the operator, and the namespace of jobs ---- */

/* The configuration of an operator in the cluster, as the chart writes it. */
static struct yaml *operator_config(const struct json *facts)
{
	struct json_iter it = json_iter(json_get(ctl_fact(facts, "configs"), "items"));
	struct yaml *yaml = NULL;

	while (json_next(&it)) {
		struct str text = json_str(json_at(it.value, "data", "operator.yaml", NULL));

		if (text.len && yaml_parse("it", text, &yaml, NULL) == 0 && yaml_len(yaml) > 0)
			return yaml;
		yaml_free(yaml);
		yaml = NULL;
	}
	return NULL;
}

char *ctl_rdma_worker_resource(const struct json *facts)
{
	CLEANUP_YAML struct yaml *yaml = operator_config(facts);
	const struct json *worker = yaml ? json_get(yaml_doc(yaml, 0), "worker") : NULL;
	const char *name = ctl_rdma_z(worker, "rdmaResource");

	return name[0] && !json_bool(json_get(worker, "hostNetwork"), true) ? xstrdup(name) : NULL;
}

/* "[NAMESPACE/]NAME[@INTERFACE]" against the network that is looked at. */
static bool is_network(const struct ctl_rdma_question *q, struct str text)
{
	struct str ns, name, rest;

	str_cut(text, '@', &text, &rest);
	if (!str_cut(text, '/', &ns, &name)) {
		name = text;
		ns = STR("default");
	}
	return str_eqz(name, q->network) && str_eqz(ns, q->network_ns);
}

static void check_operator(struct look *l)
{
	CLEANUP_YAML struct yaml *yaml = operator_config(l->facts);
	const struct json *worker = yaml ? json_get(yaml_doc(yaml, 0), "worker") : NULL;
	struct str network = json_str(json_get(worker, "rdmaNetwork"));

	if (!yaml)
		FIND(l->f, OPERATOR_UNKNOWN, "", "no operator's configuration is seen here");
	else if (json_bool(json_get(worker, "hostNetwork"), true))
		FIND(l->f, OPERATOR_HOST, "", "worker.hostNetwork is true");
	else if (!network.len)
		FIND(l->f, OPERATOR_TEMPLATES, "",
		     "worker.hostNetwork is false, and no worker."
		     "rdmaNetwork is set");
	else
		FIND(l->f, is_network(l->q, network) ? OPERATOR_SECONDARY : OPERATOR_OTHER, "",
		     "Pods get the network %.*s%s%s", STR_ARG(network),
		     ctl_rdma_z(worker, "rdmaResource")[0] ? " and " : "",
		     ctl_rdma_z(worker, "rdmaResource"));
}

static void check_security(struct look *l)
{
	const struct json *ns = ctl_fact(l->facts, "namespace");
	struct str level = kube_label(ns, "pod-security.kubernetes.io/enforce");

	if (!ns)
		FIND(l->f, SECURITY_UNKNOWN, l->q->ns, "%.*s",
		     STR_ARG(ctl_fact_error(l->facts, "namespace")));
	else if (!level.len || str_eqz(level, "privileged"))
		FIND(l->f, SECURITY_ALLOWS, l->q->ns, "its label allows IPC_LOCK");
	else
		FIND(l->f, SECURITY_FORBIDS, l->q->ns, "it enforces the level %.*s",
		     STR_ARG(level));
}

/* ---- all of it ---- */

void ctl_rdma_judge_cluster(const struct json *facts, const struct fabric_facts *local,
			    const struct ctl_rdma_question *q, struct node_findings *f)
{
	struct look l = {.facts = facts, .local = local, .q = q, .f = f};

	if (!facts) {
		FIND(f, CLUSTER_NONE, "", "there is no kubeconfig");
		return;
	}
	if (!json_bool(json_get(facts, "answers"), false)) {
		FIND(f, CLUSTER_UNREACHABLE, "", "%.*s", STR_ARG(ctl_fact_error(facts, "version")));
		return;
	}
	FIND(f, CLUSTER_THERE, "", "Kubernetes %s",
	     ctl_rdma_z(ctl_fact(facts, "version"), "gitVersion")[0]
		     ? ctl_rdma_z(ctl_fact(facts, "version"), "gitVersion")
		     : "of a version that it doesn't tell");
	read_attachment(&l);
	check_multus(&l);
	check_whereabouts(&l);
	check_network(&l);
	check_attachment(&l);
	check_link(&l);
	check_range(&l);
	check_node(&l);
	check_operator(&l);
	check_security(&l);
	json_doc_free(l.config_doc);
}
