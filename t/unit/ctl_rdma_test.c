/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipuctl rdma check: facts of a cluster and of a test Pod for each rule, and what must be said of
 * them.
 */
#include "ctl/rdma.h"
#include "tap.h"

/* ---- a machine, and a cluster without fault ---- */

static struct fabric_reach reach[] = {
	{.controller = "pod001:8090",
	 .address = "10.5.212.116",
	 .link = "enp65s0f0",
	 .source = "10.5.212.200",
	 .subnet = "10.5.212.0/24",
	 .up = true,
	 .rdma_device = "mlx5_0",
	 .rdma_port = 1},
};
static struct fabric_reach at_home[] = {
	{.controller = "localhost:8090", .address = "127.0.0.1", .link = "lo", .local = true},
};
static const struct fabric_facts here = {.complete = true, .reach = reach, .n_reach = 1};
static const struct fabric_facts home = {.complete = true, .reach = at_home, .n_reach = 1};
static const struct fabric_facts nowhere = {.complete = true};

#define CONFIG(master, range, exclude)                                                             \
	"{\\\"type\\\":\\\"macvlan\\\",\\\"master\\\":\\\"" master                                 \
	"\\\",\\\"ipam\\\":{\\\"type\\\":\\\"whereabouts\\\",\\\"range\\\":\\\"" range             \
	"\\\",\\\"exclude\\\":[" exclude "]}}"
#define ATTACHMENT(config)                                                                               \
	"\"attachment\":{\"value\":{\"metadata\":{\"name\":\"rdma-net\"},\"spec\":{\"config\":\"" config \
	"\"}}},"
#define FINE CONFIG("enp65s0f0", "10.5.212.0/24", "\\\"10.5.212.0/25\\\",\\\"10.5.212.200/32\\\"")
#define SET(name, wanted, ready)                                                                   \
	"{\"metadata\":{\"namespace\":\"nvidia\",\"name\":\"" name                                 \
	"\"},\"status\":{\"desiredNumberScheduled\":" wanted ",\"numberReady\":" ready "}}"
#define SETS(items) "\"daemonsets\":{\"value\":{\"items\":[" items "]}},"
#define NODE(name, allocatable, taints, conditions)                                                \
	"{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"kubernetes.io/hostname\":\"" name      \
	"\"}},\"spec\":{\"taints\":[" taints "]},\"status\":{\"allocatable\":{" allocatable        \
	"},\"conditions\":[" conditions                                                            \
	"],\"nodeInfo\":{\"kubeletVersion\":\"v1.33.0\",\"containerRuntimeVersion\":"              \
	"\"containerd://2.0\"}}}"
#define NODES(items)       "\"nodes\":{\"value\":{\"items\":[" items "]}},"
#define RDMA               "\"cpu\":\"8\",\"rdma/rdma_shared_device_a\":\"63\""
#define TAINT(key, effect) "{\"key\":\"" key "\",\"effect\":\"" effect "\"}"
#define MASTER             TAINT("node-role.kubernetes.io/control-plane", "NoSchedule")
#define READY(status, reason)                                                                      \
	"{\"type\":\"IPUFabricReady\",\"status\":\"" status "\",\"reason\":\"" reason              \
	"\",\"message\":\"its message\"}"
#define OPERATOR(config)                                                                           \
	"\"configs\":{\"value\":{\"items\":[{\"data\":{}},{\"data\":{\"operator.yaml\":\"" config  \
	"\"}}]}},"
#define MISSING(name) "\"" name "\":{\"error\":{\"code\":404,\"message\":\"not found\"}},"
#define DENIED(name)  "\"" name "\":{\"error\":{\"code\":403,\"message\":\"not allowed\"}},"

/* Of a key that comes twice readers see the first: a case's own goes before this. */
#define CLUSTER                                                                                                                                           \
	"\"answers\":true,\"version\":{\"value\":{\"gitVersion\":\"v1.33.0\"}},"                                                                          \
	"\"multusApi\":{\"value\":{}},\"whereaboutsApi\":{\"value\":{}},"                                                                                 \
	"\"macvlanApi\":{\"value\":{}}," ATTACHMENT(FINE) SETS(                                                                                           \
		SET("kube-multus-ds", "3", "3") "," SET("whereabouts", "3", "3"))                                                                         \
		NODES(NODE("head1", RDMA, "", READY("True", "Ready"))) OPERATOR(                                                                          \
			"worker: {hostNetwork: false, rdmaNetwork: rdma-net,"                                                                             \
			" rdmaResource: rdma/rdma_shared_device_a}") "\"network\":{\"value\":{\"spec\":{\"master\":\"enp65s0f0\"},\"status\":{\"state\":" \
								     "\"ready\"}}},"                                                                      \
								     "\"namespace\":{\"value\":{\"metadata\":{\"name\":\"default\"}}}"

struct cluster_case {
	const char *facts; /* before CLUSTER */
	const char *check, *finding, *subject, *seen;
	const struct fabric_facts *local; /* NULL: here */
	struct ctl_rdma_question q;       /* members that differ */
};

static const struct cluster_case cluster_cases[] = {
	{"", "cluster", "there", "", "Kubernetes v1.33.0"},
	{"\"answers\":false,\"version\":{\"error\":{\"code\":111,\"message\":\"refused\"}},",
	 "cluster", "unreachable", "", "refused"},
	{DENIED("version"), "cluster", "there", "", "a version that it doesn't tell"},
	{"", "multus", "ready", "nvidia/kube-multus-ds", "3 of 3 Pods are ready"},
	{SETS("{\"metadata\":{\"namespace\":\"kube-system\",\"name\":\"cni\"},\"spec\":{\"template\":{"
	      "\"spec\":{\"containers\":[{\"image\":\"a/multus-cni:v4\"}]}}},\"status\":{"
	      "\"desiredNumberScheduled\":1,\"numberReady\":1}}"),
	 "multus", "ready", "kube-system/cni", "1 of 1"},
	{SETS(SET("kube-multus-ds", "3", "2")), "multus", "not-ready", "nvidia/kube-multus-ds",
	 "2 of 3"},
	{SETS(SET("kube-multus-ds", "0", "0")), "multus", "not-ready", "nvidia/kube-multus-ds",
	 "0 of 0"},
	{DENIED("daemonsets"), "multus", "unseen", "", "not allowed"},
	{SETS(""), "multus", "no-pods", "", "has multus in its name"},
	{MISSING("multusApi"), "multus", "missing", "", "network-attachment-definitions"},
	{DENIED("multusApi"), "multus", "unknown", "", "not allowed"},
	{"", "whereabouts", "ready", "nvidia/whereabouts", "3 of 3"},
	{SETS(SET("whereabouts", "3", "1")), "whereabouts", "not-ready", "nvidia/whereabouts",
	 "1 of 3"},
	{DENIED("daemonsets"), "whereabouts", "unseen", "", "not allowed"},
	{SETS(""), "whereabouts", "no-pods", "", "has whereabouts in its name"},
	{ATTACHMENT("{\\\"ipam\\\":{\\\"type\\\":\\\"host-local\\\"}}"), "whereabouts", "other", "",
	 "host-local gives"},
	{MISSING("whereaboutsApi"), "whereabouts", "missing", "", "ippools"},
	{DENIED("whereaboutsApi"), "whereabouts", "unknown", "", "not allowed"},
	{"", "macvlan-network", "ready", "rdma-net", "on enp65s0f0"},
	{"\"network\":{\"value\":{\"status\":{\"state\":\"error\",\"reason\":\"no master\"}}},",
	 "macvlan-network", "not-ready", "rdma-net", "its state is error: no master"},
	{"\"network\":{\"value\":{}},", "macvlan-network", "not-ready", "rdma-net",
	 "its state is empty"},
	{MISSING("network"), "macvlan-network", "none", "rdma-net", "of that name"},
	{MISSING("network") MISSING("macvlanApi"), "macvlan-network", "none", "rdma-net",
	 "has no macvlannetworks"},
	{DENIED("network"), "macvlan-network", "unknown", "rdma-net", "not allowed"},
	{"", "attachment", "there", "default/rdma-net", "macvlan on enp65s0f0, 10.5.212.0/24"},
	{MISSING("attachment"), "attachment", "missing", "default/rdma-net", "there is no such"},
	{ATTACHMENT("{"), "attachment", "broken", "default/rdma-net", "no JSON object"},
	{ATTACHMENT("[]"), "attachment", "broken", "default/rdma-net", "no JSON object"},
	{DENIED("attachment"), "attachment", "unknown", "default/rdma-net", "not allowed"},
	{"", "attachment-link", "same", "rdma-net", "enp65s0f0 leads to controller pod001:8090"},
	{ATTACHMENT(CONFIG("eno1", "10.5.212.0/24", "")), "attachment-link", "other", "rdma-net",
	 "it is on eno1; enp65s0f0 leads"},
	{"", "attachment-link", "unknown", "rdma-net", "no controller tells", .local = &nowhere},
	{"", "attachment-link", "unknown", "rdma-net", "no controller tells", .local = &home},
	{ATTACHMENT("{}"), "attachment-link", "unknown", "rdma-net", "names no interface"},
	{"", "attachment-range", "fine", "rdma-net", "10.5.212.0/24 is within 10.5.212.0/24"},
	{ATTACHMENT(CONFIG("enp65s0f0", "10.9.0.0/24", "")), "attachment-range", "elsewhere",
	 "rdma-net", "10.9.0.0/24 isn't within"},
	{ATTACHMENT(CONFIG("enp65s0f0", "10.5.0.0/16", "")), "attachment-range", "elsewhere",
	 "rdma-net", "10.5.0.0/16 isn't within"},
	{ATTACHMENT(CONFIG("enp65s0f0", "10.5.212.0/24", "\\\"10.5.212.200/32\\\"")),
	 "attachment-range", "in-use", "rdma-net", "10.5.212.116 could be given"},
	{ATTACHMENT(CONFIG("enp65s0f0", "10.5.212.0/24", "\\\"10.5.212.0/25\\\"")),
	 "attachment-range", "in-use", "rdma-net", "10.5.212.200 could be given"},
	{ATTACHMENT("{\\\"ipam\\\":{\\\"range\\\":\\\"10.5.212.0/"
		    "24\\\",\\\"range_start\\\":\\\"10.5.212.220\\\"}}"),
	 "attachment-range", "fine", "rdma-net", "is within"},
	{ATTACHMENT("{\\\"ipam\\\":{\\\"ipRanges\\\":[{\\\"range\\\":\\\"10.5.212.224/28\\\"}]}}"),
	 "attachment-range", "fine", "rdma-net", "10.5.212.224/28 is within"},
	{ATTACHMENT(CONFIG("enp65s0f0", "10.5.212.1-10.5.212.9/24", "")), "attachment-range",
	 "unknown", "rdma-net", "can't be read"},
	{"", "attachment-range", "unknown", "rdma-net", "no controller tells", .local = &nowhere},
	{"", "attachment-link", "not-here", "rdma-net", "this machine isn't the Node head1",
	 .q = {.node = "head1", .elsewhere = true}},
	{"", "attachment-range", "not-here", "rdma-net", "this machine isn't the Node head1",
	 .q = {.node = "head1", .elsewhere = true}},
	{"", "node", "there", "head1", "containerd://2.0, kubelet v1.33.0"},
	{"", "node", "missing", "head9", "no such Node", .q = {.node = "head9"}},
	{"", "node", "not-here", "laptop", "this machine is no Node", .q = {.host = "laptop"}},
	{DENIED("nodes"), "node", "unknown", "head1", "not allowed"},
	{"", "node-resource", "there", "rdma/rdma_shared_device_a", "63 of it"},
	{NODES(NODE("head1", "\"rdma/other\":\"1\"", "", "")), "node-resource", "there",
	 "rdma/other", "1 of it"},
	{"", "node-resource", "none", "rdma/b", "no such resource", .q = {.resource = "rdma/b"}},
	{NODES(NODE("head1", "\"cpu\":\"8\"", "", "")), "node-resource", "none", "",
	 "as rdma/rdma_shared_device_a"},
	{NODES(NODE("head1", "\"rdma/rdma_shared_device_a\":\"0\"", "", "")), "node-resource",
	 "empty", "rdma/rdma_shared_device_a", "has 0"},
	{"", "node-taints", "none", "head1", "no taint"},
	{NODES(NODE("head1", RDMA, TAINT("a/b", "PreferNoSchedule"), "")), "node-taints", "none",
	 "head1", "no taint"},
	{NODES(NODE("head1", RDMA, TAINT("graphcore.ai/x", "NoSchedule"), "")), "node-taints",
	 "fabric", "head1", "graphcore.ai/x:NoSchedule"},
	{NODES(NODE("head1", RDMA, MASTER, "")), "node-taints", "control-plane", "head1",
	 "control-plane:NoSchedule"},
	{NODES(NODE("head1", RDMA, MASTER, "") "," NODE("head2", RDMA, "", "")), "node-taints",
	 "elsewhere", "head1", "control-plane:NoSchedule"},
	{NODES(NODE("head1", RDMA, TAINT("node.kubernetes.io/unschedulable", "NoSchedule"), "")),
	 "node-taints", "cordoned", "head1", "unschedulable"},
	{NODES(NODE("head1", RDMA, TAINT("gpu", "NoExecute"), "")), "node-taints", "other", "head1",
	 "gpu:NoExecute"},
	{"", "node-fabric", "ready", "head1", "Ready: its message"},
	{NODES(NODE("head1", RDMA, "", READY("False", "RDMAPortDown"))), "node-fabric", "not-ready",
	 "head1", "RDMAPortDown: its message"},
	{NODES(NODE("head1", RDMA, "", READY("Unknown", "Gone"))), "node-fabric", "unknown",
	 "head1", "Gone"},
	{NODES(NODE("head1", RDMA, "", "")), "node-fabric", "none", "head1", "isn't used here"},
	{"", "operator-network", "secondary", "",
	 "the network rdma-net and rdma/rdma_shared_device_a"},
	{OPERATOR("worker: {hostNetwork: false, rdmaNetwork: default/rdma-net@net1}"),
	 "operator-network", "secondary", "", "default/rdma-net@net1"},
	{OPERATOR("worker: {hostNetwork: false, rdmaNetwork: a/rdma-net}"), "operator-network",
	 "other", "", "the network a/rdma-net"},
	{OPERATOR("worker: {hostNetwork: false}"), "operator-network", "templates", "",
	 "no worker.rdmaNetwork"},
	{OPERATOR("roles: [proxy]"), "operator-network", "host", "", "worker.hostNetwork is true"},
	{DENIED("configs"), "operator-network", "unknown", "", "no operator's configuration"},
	{"", "pod-security", "allows", "default", "allows IPC_LOCK"},
	{"\"namespace\":{\"value\":{\"metadata\":{\"labels\":{"
	 "\"pod-security.kubernetes.io/enforce\":\"baseline\"}}}},",
	 "pod-security", "forbids", "default", "level baseline"},
	{DENIED("namespace"), "pod-security", "unknown", "default", "not allowed"},
};

static struct json_doc *parse(const char *own, const char *rest)
{
	CLEANUP_FREE char *text = xasprintf("{%s%s}", own, rest);
	struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), &doc, &err) < 0) {
		fail("%s: %s", err.msg, text);
		exit(done_testing());
	}
	return doc;
}

static void judge_cluster(const struct cluster_case *c, struct node_findings *f)
{
	CLEANUP_JSON struct json_doc *doc = parse(c->facts, CLUSTER);
	struct ctl_rdma_question q = {.network = "rdma-net",
				      .network_ns = "default",
				      .node = c->q.node,
				      .elsewhere = c->q.elsewhere,
				      .host = c->q.host ? c->q.host : "head1",
				      .ns = "default",
				      .resource = c->q.resource};

	ctl_rdma_judge_cluster(json_root(doc), c->local ? c->local : &here, &q, f);
}

static void is_found(const struct node_findings *f, const char *check, const char *finding,
		     const char *subject, const char *seen)
{
	const struct node_finding *found = NULL;

	for (size_t i = 0; i < f->n && !found; i++) {
		if (strcmp(f->items[i].rule->check, check) == 0)
			found = &f->items[i];
	}
	if (!ok(found, "the check was made"))
		return;
	is_str(found->rule->finding, finding, "the finding");
	is_str(found->subject, subject, "of what");
	has_str(found->seen, seen, "what was seen");
}

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void test_cluster(void)
{
	for (size_t i = 0; i < N(cluster_cases); i++) {
		const struct cluster_case *c = &cluster_cases[i];
		struct node_findings f = {0};

		row_begin("%zu: %s %s", i, c->check, c->finding);
		judge_cluster(c, &f);
		is_found(&f, c->check, c->finding, c->subject, c->seen);
		node_findings_done(&f);
	}
	row_end();
}

static void test_no_cluster(void)
{
	struct ctl_rdma_question q = {.network = "rdma-net", .network_ns = "default"};
	struct node_findings f = {0};

	ctl_rdma_judge_cluster(NULL, &here, &q, &f);
	is_int((long long)f.n, 1, "without a cluster one thing is said of it");
	is_found(&f, "cluster", "none", "", "no kubeconfig");
	node_findings_done(&f);

	judge_cluster(&cluster_cases[0], &f);
	is_int((long long)node_findings_count(&f, NODE_PASS), (long long)f.n,
	       "a cluster without fault passes all");
	is_int((long long)f.n, 13, "... each");
	node_findings_done(&f);
}

/* The order is that of the cause: without Multus there is no attachment. */
static void test_order(void)
{
	static const struct cluster_case bare = {
		.facts = MISSING("multusApi") MISSING("whereaboutsApi") MISSING("attachment")};
	struct node_findings f = {0};

	judge_cluster(&bare, &f);
	is_str(f.items[1].rule->check, "multus", "first what everything needs");
	is_str(f.items[2].rule->check, "whereabouts", "... then what gives addresses");
	is_str(f.items[4].rule->check, "attachment", "... then the network");
	node_findings_done(&f);
}

static void test_elsewhere(void)
{
#define AT(address)                                                                                \
	"\"nodes\":{\"value\":{\"items\":[{\"metadata\":{\"name\":\"n1\",\"labels\":{"             \
	"\"kubernetes.io/hostname\":\"h1\"}},\"status\":{\"addresses\":[{\"type\":\"InternalIP\"," \
	"\"address\":\"" address "\"}]}}]}},"
	static const struct {
		const char *node, *host, *address;
		bool want;
	} rows[] = {
		{NULL, "laptop", AT("192.0.2.77"), false}, {"n1", "n1", AT("192.0.2.77"), false},
		{"n1", "h1", AT("192.0.2.77"), false},     {"n1", "laptop", AT("192.0.2.77"), true},
		{"n1", "laptop", AT("127.0.0.1"), true},   {"n1", "laptop", AT("odd"), true},
		{"n9", "laptop", AT("192.0.2.77"), true},
	};

	for (size_t i = 0; i < N(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = parse(rows[i].address, CLUSTER);
		struct ctl_rdma_question q = {.node = rows[i].node, .host = rows[i].host};

		is_int(ctl_rdma_is_elsewhere(json_root(doc), &q), rows[i].want,
		       "%zu: another machine", i);
	}
}

static void test_resource(void)
{
	static const struct {
		const char *facts, *want;
	} rows[] = {
		{"", "rdma/rdma_shared_device_a"},
		{OPERATOR("worker: {hostNetwork: false}"), NULL},
		{OPERATOR("worker: {hostNetwork: true, rdmaResource: rdma/a}"), NULL},
		{OPERATOR("{"), NULL},
		{DENIED("configs"), NULL},
	};

	for (size_t i = 0; i < N(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = parse(rows[i].facts, CLUSTER);
		CLEANUP_FREE char *got = ctl_rdma_worker_resource(json_root(doc));

		is_str(got, rows[i].want, "the operator's resource, %zu", i);
	}
}

/* ---- the test Pod ---- */

#define POD(status)                                                                                \
	"\"name\":\"p\",\"pod\":{\"spec\":{\"nodeName\":\"head1\"},\"status\":{" status "}},"
#define ENDED                                                                                      \
	POD("\"phase\":\"Succeeded\",\"containerStatuses\":[{\"state\":{\"terminated\":{"          \
	    "\"exitCode\":0}}}]")
#define WAITING(reason)                                                                            \
	POD("\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"" reason                 \
	    "\",\"message\":\"its words\"}}}]")
#define NET(name, up, addresses)                                                                   \
	"{\"name\":\"" name "\",\"up\":" up ",\"mtu\":1500,\"addresses\":[" addresses "]}"
#define GIVEN          "\"fe80::1/64\",\"10.5.212.225/24\""
#define TO(to, device) "{\"to\":\"" to "\",\"device\":\"" device "\",\"metric\":0}"
#define WAYS           TO("0.0.0.0/0", "eth0") "," TO("10.5.212.0/24", "net1")
#define INSIDE(interfaces, routes, more)                                                           \
	ENDED "\"inside\":{\"interfaces\":[" NET("lo", "true", "\"127.0.0.1/8\"") interfaces       \
		"],\"routes\":[" routes "]," more "},"
#define HAS                                                                                        \
	"\"uid\":0,\"memlock\":-1,\"capEff\":\"0000000000004000\",\"devices\":[\"rdma_cm\","       \
	"\"uverbs0\"]"
#define WELL         INSIDE("," NET("net1", "true", GIVEN), WAYS, HAS)
#define LIMITS(more) INSIDE("", "", more)

static const struct {
	const char *facts;
	const char *check, *finding, *subject, *seen;
	const char *attachment;           /* NULL: fine */
	const struct fabric_facts *local; /* NULL: here */
} pod_cases[] = {
	{WELL, "pod", "ran", "p", "on node head1"},
	{"\"name\":\"p\",\"reason\":\"no-image\",\"error\":\"none\",", "pod", "no-image", "",
	 "none"},
	{"\"name\":\"p\",\"reason\":\"refused\",\"error\":\"forbidden\",", "pod", "refused", "",
	 "forbidden"},
	{"\"reason\":\"interrupted\"," WAITING("ContainerCreating"), "pod", "interrupted", "p",
	 "interrupted"},
	{POD("\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"message\":"
	     "\"0/1 nodes\"}]"),
	 "pod", "unscheduled", "p", "0/1 nodes"},
	{WAITING("ImagePullBackOff"), "pod", "image", "p", "ImagePullBackOff: its words"},
	{WAITING("ContainerCreating") "\"error\":\"failed to set up sandbox\",", "pod",
	 "not-started", "p", "ContainerCreating: failed to set up sandbox"},
	{"\"name\":\"p\",\"reason\":\"gone\",\"error\":\"not found\",", "pod", "not-started", "p",
	 "not found"},
	{ENDED "\"error\":\"not JSON\",", "pod", "silent", "p", "exit status 0"},
	{WELL, "pod-device", "there", "", "rdma_cm, uverbs0"},
	{LIMITS("\"devices\":[\"rdma_cm\"]"), "pod-device", "none", "", "no uverbs device"},
	{WELL, "pod-net1", "up", "net1", "up, MTU 1500"},
	{INSIDE("," NET("net1", "false", GIVEN), WAYS, HAS), "pod-net1", "down", "net1", "down"},
	{INSIDE("", WAYS, HAS), "pod-net1", "none", "net1", "no such interface"},
	{WELL, "pod-address", "fine", "net1", "10.5.212.225/24, in 10.5.212.0/24"},
	{INSIDE("," NET("net1", "true", "\"10.9.0.1/24\""), WAYS, HAS), "pod-address", "elsewhere",
	 "net1", "10.9.0.1/24 isn't in 10.5.212.0/24"},
	{INSIDE("," NET("net1", "true", "\"fe80::1/64\""), WAYS, HAS), "pod-address", "none",
	 "net1", "no address"},
	{WELL, "pod-address", "unknown", "net1", "10.5.212.225/24; which it should be",
	 .attachment = "{}"},
	{WELL, "pod-route", "net1", "pod001:8090", "10.5.212.116: 10.5.212.0/24 through net1"},
	{INSIDE("," NET("net1", "true", GIVEN), TO("0.0.0.0/0", "eth0"), HAS), "pod-route", "other",
	 "pod001:8090", "0.0.0.0/0 through eth0"},
	{INSIDE("," NET("net1", "true", GIVEN),
		TO("10.5.212.0/24", "net1") "," TO("10.5.212.116/32", "eth0"), HAS),
	 "pod-route", "other", "pod001:8090", "10.5.212.116/32 through eth0"},
	{INSIDE("," NET("net1", "true", GIVEN), "", HAS), "pod-route", "none", "pod001:8090",
	 "no route to 10.5.212.116"},
	{WELL, "pod-route", "unknown", "", "no V-IPU controller", .local = &nowhere},
	{WELL, "pod-route", "unknown", "localhost:8090", "on this machine", .local = &home},
	{WELL, "pod-default-route", "other", "", "through eth0"},
	{INSIDE("", TO("0.0.0.0/0", "eth0") "," TO("::/0", "net1"), HAS), "pod-default-route",
	 "net1", "", "through net1"},
	{INSIDE("", "", HAS), "pod-default-route", "none", "", "no default route"},
	{WELL, "pod-ipc-lock", "has", "", "user 0, capabilities in effect 0000000000004000"},
	{LIMITS("\"uid\":1000,\"capEff\":\"0000000000000000\",\"memlock\":-1"), "pod-ipc-lock",
	 "not-root", "", "given to root alone"},
	{LIMITS("\"uid\":0,\"capEff\":\"00000000a80425fb\",\"memlock\":-1"), "pod-ipc-lock", "none",
	 "", "a80425fb"},
	{WELL, "pod-memlock", "unlimited", "", "unlimited"},
	{LIMITS("\"uid\":0,\"capEff\":\"4000\",\"memlock\":65536"), "pod-memlock", "root-only", "",
	 "65536 bytes; root"},
	{LIMITS("\"uid\":9,\"capEff\":\"0\",\"memlock\":65536"), "pod-memlock", "limited", "",
	 "65536 bytes"},
};

static void test_pods(void)
{
	for (size_t i = 0; i < N(pod_cases); i++) {
		CLEANUP_JSON struct json_doc *pod = parse(pod_cases[i].facts, "\"x\":0");
		CLEANUP_JSON struct json_doc *cluster = parse(
			pod_cases[i].attachment ? ATTACHMENT("{}") : "", CLUSTER);
		struct node_findings f = {0};

		row_begin("%zu: %s %s", i, pod_cases[i].check, pod_cases[i].finding);
		ctl_rdma_judge_pod(json_root(pod), json_root(cluster),
				   pod_cases[i].local ? pod_cases[i].local : &here, &f);
		is_found(&f, pod_cases[i].check, pod_cases[i].finding, pod_cases[i].subject,
			 pod_cases[i].seen);
		node_findings_done(&f);
	}
	row_end();
}

/* ---- both ---- */

static bool has_case(const struct node_rule *r)
{
	for (size_t i = 0; i < N(cluster_cases); i++) {
		if (strcmp(cluster_cases[i].check, r->check) == 0 &&
		    strcmp(cluster_cases[i].finding, r->finding) == 0)
			return true;
	}
	for (size_t i = 0; i < N(pod_cases); i++) {
		if (strcmp(pod_cases[i].check, r->check) == 0 &&
		    strcmp(pod_cases[i].finding, r->finding) == 0)
			return true;
	}
	return strcmp(r->finding, "none") == 0 && strcmp(r->check, "cluster") == 0;
}

static void test_rules(const struct node_rule *rules)
{
	for (const struct node_rule *r = rules; r->check; r++) {
		row_begin("%s %s", r->check, r->finding);
		ok(has_case(r), "has a case");
		ok((r->result != NODE_FAIL && r->result != NODE_WARN) || r->help[0],
		   "says what to do");
		ok(r->result != NODE_PASS || !r->help[0], "nothing is to be done about a pass");
	}
	row_end();
}

/* ---- routes as the kernel lists them ---- */

static const struct {
	const char *text;
	bool v6;
	const char *want;
} route_cases[] = {
	{"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	 "eth0\t00000000\t0101FEA9\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	 "net1\t00D4050A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
	 "eth1\t00D4060A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
	 false,
	 "[{\"to\":\"0.0.0.0/0\",\"device\":\"eth0\",\"metric\":0},"
	 "{\"to\":\"10.5.212.0/24\",\"device\":\"net1\",\"metric\":100}]"},
	{"fd000000000000000000000000000000 40 00000000000000000000000000000000 00 "
	 "00000000000000000000000000000000 00000100 00000001 00000000 00000001     net1\n"
	 "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
	 "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
	 true, "[{\"to\":\"fd00::/64\",\"device\":\"net1\",\"metric\":256}]"},
	{"", false, "[]"},
	{"\n\n \t\neth0\neth0 0 0 1 0 0 x 0\neth0 xyz 0 1 0 0 0 0\neth0 111111111 0 1 0 0 0 0\n",
	 false, "[]"},
	{"fd00 40\nfd000000000000000000000000000000 81 0 0 0 0 0 0 1 net1", true, "[]"},
	{"no end of a line", true, "[]"},
};

static void test_routes(void)
{
	for (size_t i = 0; i < N(route_cases); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *routes = jmut_array(doc);
		struct buf out = BUF_INIT(65536);
		CLEANUP_FREE char *got = NULL;
		size_t len;

		row_begin("%zu", i);
		ctl_rdma_read_routes(str_of(route_cases[i].text), route_cases[i].v6, doc, routes);
		jmut_write(routes, JSON_COMPACT, &out, NULL);
		got = buf_steal(&out, &len);
		is_str(got, route_cases[i].want, "the routes");
	}
	row_end();
}

int main(void)
{
	test_cluster();
	test_no_cluster();
	test_order();
	test_elsewhere();
	test_resource();
	test_pods();
	test_rules(ctl_rdma_cluster_rules);
	test_rules(ctl_rdma_pod_rules);
	test_routes();
	return done_testing();
}
