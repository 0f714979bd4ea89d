/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses, and the manifest of the Pods' network on this machine's RDMA interface.
 */
#include <inttypes.h>

#include "core/buf.h"
#include "core/yaml.h"
#include "node/cidr.h"
#include "node/macvlan.h"
#include "tap.h"

static const struct {
	const char *in, *out; /* out NULL: no range */
} texts[] = {
	{"10.5.212.0/24", "10.5.212.0/24"},
	{"10.5.212.116/24", "10.5.212.0/24"},
	{"10.5.212.116/25", "10.5.212.0/25"},
	{"10.5.212.200/25", "10.5.212.128/25"},
	{"10.5.212.116", "10.5.212.116/32"},
	{"255.255.255.255/31", "255.255.255.254/31"},
	{"1.2.3.4/0", "0.0.0.0/0"},
	{"FD00::17:1/64", "fd00::/64"},
	{"fd00::1", "fd00::1/128"},
	{"::ffff:10.0.0.1", "::ffff:10.0.0.1/128"},
	{"", NULL},
	{"/24", NULL},
	{"10.5.212.0/", NULL},
	{"10.5.212.0/33", NULL},
	{"10.5.212.0/-1", NULL},
	{"10.5.212.0/24/1", NULL},
	{"fd00::/129", NULL},
	{"10.5.212/24", NULL},
	{"10.5.212.256", NULL},
	{"pod001", NULL},
	{"10.5.212.0 /24", NULL},
	{"1111:2222:3333:4444:5555:6666:7777:8888:9999", NULL},
};

static struct cidr range(const char *z)
{
	struct cidr c = {.bits = 0};
	struct err err = ERR_INIT;

	if (cidr_parse(str_of(z), &c, &err) < 0)
		fail("%s: %s", z, err.msg);
	return c;
}

static void test_texts(void)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct err err = ERR_INIT;
		char z[CIDR_TEXT_SIZE];
		struct cidr c;
		int result = cidr_parse(str_of(texts[i].in), &c, &err);

		row_begin("\"%s\"", texts[i].in);
		is_int(result, texts[i].out ? 0 : -1, "is it a range");
		if (result == 0 && texts[i].out)
			is_str(cidr_format(&c, z), texts[i].out, "which one");
		else
			is_int(err.kind, ERR_INVALID, "why not");
	}
	row_end();
}

static const struct {
	const char *range, *others[4];
	uint64_t left;
} counts[] = {
	{"10.0.0.0/24", {NULL}, 256},
	{"10.0.0.0/24", {"10.0.0.0/25"}, 128},
	{"10.0.0.0/24", {"10.0.0.0/25", "10.0.0.0/25"}, 128},
	{"10.0.0.0/24", {"10.0.0.0/25", "10.0.0.64/26"}, 128},
	{"10.0.0.0/24", {"10.0.0.0/25", "10.0.0.255"}, 127},
	{"10.0.0.0/24", {"10.0.0.0/25", "10.0.0.128/25"}, 0},
	{"10.0.0.0/24", {"10.0.0.0/16"}, 0},
	{"10.0.0.0/24", {"10.0.1.0/24", "fd00::/8"}, 256},
	{"10.0.0.4/31", {"10.0.0.4"}, 1},
	{"10.0.0.4/32", {NULL}, 1},
	{"10.0.0.4/32", {"10.0.0.4"}, 0},
	{"0.0.0.0/0", {"128.0.0.0/1"}, UINT64_C(1) << 31},
	{"fd00::/64", {NULL}, UINT64_MAX},
	{"fd00::/64", {"fd00::/65"}, UINT64_C(1) << 63},
	{"fd00::/65", {"fd00::1"}, (UINT64_C(1) << 63) - 1},
	{"::/0", {"::1"}, UINT64_MAX},
};

static void test_counts(void)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct cidr whole = range(counts[i].range), others[4];
		size_t n = 0;

		row_begin("%zu: %s", i, counts[i].range);
		for (; n < 4 && counts[i].others[n]; n++)
			others[n] = range(counts[i].others[n]);
		is_uint(cidr_count_left(&whole, others, n), counts[i].left, "what is left");
	}
	row_end();
}

/* ---- plans ---- */

#define REACH(controller_, address_, source_, subnet_)                                             \
	{.controller = controller_,                                                                \
	 .address = address_,                                                                      \
	 .link = "enp65s0f0",                                                                      \
	 .source = source_,                                                                        \
	 .subnet = subnet_,                                                                        \
	 .mtu_bytes = 9000,                                                                        \
	 .up = true,                                                                               \
	 .rdma_device = "mlx5_0",                                                                  \
	 .rdma_port = 1}

static struct fabric_reach usual[] = {
	REACH("pod001:8090", "10.5.212.116", "10.5.212.200", "10.5.212.0/24"),
};
static struct fabric_reach outside[] = {
	REACH("pod001:8090", "10.5.212.216", "10.5.212.200", "10.5.212.0/24"),
	REACH("pod002:8090", "10.5.212.217", "10.5.212.200", "10.5.212.0/24"),
};
static struct fabric_reach wide[] = {
	REACH("pod001:8090", "10.5.200.1", "10.5.203.9", "10.5.200.0/22"),
};
static struct fabric_reach small[] = {
	REACH("pod001:8090", "10.5.212.129", "10.5.212.130", "10.5.212.128/28"),
};
static struct fabric_reach tiny[] = {
	REACH("pod001:8090", "10.5.212.4", "10.5.212.5", "10.5.212.4/31"),
};
static struct fabric_reach alone[] = {
	REACH("pod001:8090", "10.5.212.4", "10.5.212.5", "10.5.212.5/32"),
};
static struct fabric_reach four[] = {
	REACH("pod001:8090", "10.5.212.5", "10.5.212.5", "10.5.212.4/30"),
};
static struct fabric_reach six[] = {
	REACH("[fd00::1]:8090", "fd00::1", "fd00::a:1", "fd00::/64"),
};
static struct fabric_reach local[] = {
	{.controller = "localhost:8090", .address = "127.0.0.1", .link = "lo", .local = true},
};
static struct fabric_reach lost[] = {
	{.controller = "pod009:8090", .error = {.kind = ERR_NOT_FOUND, .msg = "no such host"}},
};
static struct fabric_reach routed[] = {
	{.controller = "pod001:8090",
	 .address = "10.9.0.1",
	 .link = "eno1",
	 .source = "10.5.212.200",
	 .gateway = "10.5.212.254",
	 .subnet = "10.5.212.0/24",
	 .mtu_bytes = 1500,
	 .up = true},
};

static const struct macvlan_used nodes[] = {
	{"10.5.212.200", "here"}, {"10.5.212.9", "head1"},  {"10.5.212.201", "head2"},
	{"192.0.2.7", "away"},    {"10.5.212.0/24", "odd"}, {"head9", "odd"},
};

#define FACTS(reach_)                                                                              \
	{.complete = true, .reach = reach_, .n_reach = sizeof(reach_) / sizeof((reach_)[0])}

static const struct plan_case {
	const char *name;
	struct fabric_facts facts;
	struct macvlan_wishes wishes;
	const char *link, *subnet, *excludes; /* with commas */
	unsigned mtu;
	uint64_t left;
	const char *error; /* instead */
} plans[] = {
	{"a /24",
	 FACTS(usual),
	 {0},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "10.5.212.0/25,10.5.212.200/32",
	 9000,
	 126,
	 NULL},
	{"controllers behind the first 128",
	 FACTS(outside),
	 {0},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "10.5.212.0/25,10.5.212.216/32,10.5.212.200/32,10.5.212.217/32",
	 9000,
	 124,
	 NULL},
	{"a /22: the first 128 again",
	 FACTS(wide),
	 {0},
	 "enp65s0f0",
	 "10.5.200.0/22",
	 "10.5.200.0/25,10.5.203.9/32",
	 9000,
	 1024 - 128 - 2,
	 NULL},
	{"a /28: its first half",
	 FACTS(small),
	 {0},
	 "enp65s0f0",
	 "10.5.212.128/28",
	 "10.5.212.128/29",
	 9000,
	 7,
	 NULL},
	{"a /25",
	 FACTS(usual),
	 {.subnet = "10.5.212.128/25"},
	 "enp65s0f0",
	 "10.5.212.128/25",
	 "10.5.212.128/26,10.5.212.200/32",
	 9000,
	 62,
	 NULL},
	{"a /30", FACTS(four), {0}, "enp65s0f0", "10.5.212.4/30", "10.5.212.4/31", 9000, 1, NULL},
	{"a /31", FACTS(tiny), {0}, .error = "no address is left"},
	{"a /32", FACTS(alone), {0}, .error = "no address is left"},
	{"IPv6",
	 FACTS(six),
	 {0},
	 "enp65s0f0",
	 "fd00::/64",
	 "fd00::/121,fd00::a:1/128",
	 9000,
	 UINT64_MAX - 129,
	 NULL},
	{"a gateway in the subnet",
	 FACTS(routed),
	 {0},
	 "eno1",
	 "10.5.212.0/24",
	 "10.5.212.0/25,10.5.212.200/32,10.5.212.254/32",
	 1500,
	 125,
	 NULL},
	{"wishes for all",
	 FACTS(usual),
	 {.link = "ens1",
	  .subnet = "10.7.0.9/16",
	  .exclude = "10.7.0.0/17, 10.7.255.0/24",
	  .mtu = 4200},
	 "ens1",
	 "10.7.0.0/16",
	 "10.7.0.0/17,10.7.255.0/24",
	 4200,
	 32768 - 256,
	 NULL},
	{"an exclude of one's own keeps what is in use apart",
	 FACTS(usual),
	 {.exclude = "10.5.212.240/28"},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "10.5.212.240/28,10.5.212.116/32,10.5.212.200/32",
	 9000,
	 256 - 16 - 2 - 1,
	 NULL},
	{"overlapping excludes",
	 FACTS(usual),
	 {.exclude = "10.5.212.0/25,10.5.212.0/26,10.5.212.192/26"},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "10.5.212.0/25,10.5.212.192/26",
	 9000,
	 64,
	 NULL},
	{"an exclude larger than the subnet",
	 FACTS(usual),
	 {.exclude = "10.5.0.0/16"},
	 .error = "no address is left"},
	{"nothing excluded",
	 FACTS(usual),
	 {.exclude = ""},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "",
	 9000,
	 254,
	 NULL},
	{"an exclude elsewhere",
	 FACTS(usual),
	 {.exclude = "10.6.0.0/24"},
	 .error = "--exclude: 10.6.0.0/24 has nothing in common with the subnet 10.5.212.0/24"},
	{"an exclude of the other family",
	 FACTS(usual),
	 {.exclude = "fd00::/64"},
	 .error = "has nothing in common"},
	{"no exclude", FACTS(usual), {.exclude = "all"}, .error = "--exclude: \"all\" is no"},
	{"no subnet", FACTS(usual), {.subnet = "10.5"}, .error = "--subnet: \"10.5\" is no"},
	{"an interface that is not known, without a subnet",
	 FACTS(usual),
	 {.link = "ens9"},
	 .error = "the subnet on ens9 isn't known: name it by --subnet"},
	{"an interface that is not known, with one",
	 FACTS(usual),
	 {.link = "ens9", .subnet = "10.9.0.0/24"},
	 "ens9",
	 "10.9.0.0/24",
	 "10.9.0.0/25",
	 1500,
	 127,
	 NULL},
	{"no interface at all", FACTS(usual), {.link = "a/b"}, .error = "can't be an interface"},
	{"too long", FACTS(usual), {.link = "abcdefghijklmnop"}, .error = "can't be an interface"},
	{"Nodes in the subnet, elsewhere, and odd",
	 FACTS(usual),
	 {.used = nodes, .n_used = sizeof(nodes) / sizeof(nodes[0])},
	 "enp65s0f0",
	 "10.5.212.0/24",
	 "10.5.212.0/25,10.5.212.200/32,10.5.212.201/32",
	 9000,
	 125,
	 NULL},
	{"an MTU that no link has", FACTS(usual), {.mtu = 5}, .error = "--mtu: must be from 68"},
	{"one that IPv6 can't have",
	 FACTS(six),
	 {.mtu = 1279},
	 .error = "--mtu: must be from 1280"},
	{"one too large", FACTS(usual), {.mtu = 65536}, .error = "to 65535, not 65536"},
	{"a mode that isn't one", FACTS(usual), {.mode = "l3"}, .error = "--mode: must be"},
	{"a controller on this machine", FACTS(local), {0}, .error = "is on this very machine"},
	{"no way", FACTS(lost), {0}, .error = "no way to controller pod009:8090: no such host"},
	{"no controller", {.complete = true}, {0}, .error = "no V-IPU controller is known"},
};

static void join_excludes(const struct macvlan_plan *p, char *ret, size_t size)
{
	char z[CIDR_TEXT_SIZE];
	size_t len = 0;

	ret[0] = 0;
	for (size_t i = 0; i < p->n_excludes && len < size; i++)
		len += (size_t)snprintf(ret + len, size - len, "%s%s", i ? "," : "",
					cidr_format(&p->excludes[i].range, z));
}

static void test_plans(void)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		const struct plan_case *c = &plans[i];
		struct macvlan_plan p;
		struct err err = ERR_INIT;
		char z[CIDR_TEXT_SIZE], excludes[512];

		row_begin("%s", c->name);
		if (macvlan_plan(&c->facts, &c->wishes, &p, &err) < 0) {
			has_str(err.msg, c->error ? c->error : "no error", "why not");
			continue;
		}
		if (!ok(!c->error, "is refused"))
			continue;
		join_excludes(&p, excludes, sizeof(excludes));
		is_str(p.link, c->link, "the interface");
		is_str(cidr_format(&p.subnet, z), c->subnet, "the subnet");
		is_str(excludes, c->excludes, "what Pods don't get");
		is_int(p.mtu, c->mtu, "the MTU");
		is_uint(p.left, c->left, "what is left");
	}
	row_end();
}

/* ---- manifests ---- */

static char *manifest(const struct macvlan_wishes *wishes, bool attachment)
{
	struct fabric_facts facts = FACTS(usual);
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct macvlan_plan p;
	struct buf out = BUF_INIT(65536);
	struct err err = ERR_INIT;
	size_t len;

	if (macvlan_plan(&facts, wishes, &p, &err) < 0 ||
	    macvlan_write_comments(&p, &out, &err) < 0 ||
	    yaml_write(jmut_view(macvlan_object(&p, attachment, doc)), &out, &err) < 0)
		fail("%s", err.msg);
	return buf_steal(&out, &len);
}

/* Where Whereabouts' kubeconfig is looked for, and why there. */
static void test_folder(void)
{
#define K3S "/var/lib/rancher/k3s/agent/etc/cni/net.d"
	static const struct {
		const char *what;
		struct fabric_host host;
		const char *wish, *folder, *says, *careful;
	} rows[] = {
		{"nothing is known", {0}, NULL, "/etc/cni/net.d", "none is seen here", NULL},
		{"none is there",
		 {.known = true, .cni_missing = true, .cni_folder = "/etc/cni/net.d"},
		 NULL,
		 "/etc/cni/net.d",
		 "none is seen here",
		 NULL},
		{"K3s",
		 {.known = true,
		  .cni_known = true,
		  .cni_whereabouts = true,
		  .cni_folder = K3S,
		  .cni_of = "k3s"},
		 NULL,
		 K3S,
		 "(that of k3s)",
		 NULL},
		{"K3s, without Whereabouts",
		 {.known = true, .cni_known = true, .cni_folder = K3S, .cni_of = "k3s"},
		 NULL,
		 K3S,
		 "(that of k3s)",
		 "# Careful: " K3S " has no whereabouts.d"},
		{"closed",
		 {.known = true, .cni_folder = "/etc/cni/net.d"},
		 NULL,
		 "/etc/cni/net.d",
		 "(this machine's)",
		 NULL},
		{"a wish",
		 {.known = true,
		  .cni_known = true,
		  .cni_whereabouts = true,
		  .cni_folder = "/srv/cni"},
		 "/srv/cni",
		 "/srv/cni",
		 "(as asked for)",
		 NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fabric_facts facts = FACTS(usual);
		struct macvlan_wishes wishes = {.cni_folder = rows[i].wish};
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_FREE char *text = NULL, *path = NULL;
		struct buf out = BUF_INIT(65536);
		struct err err = ERR_INIT;
		struct macvlan_plan p;
		size_t len;

		row_begin("the CNI folder: %s", rows[i].what);
		facts.host = rows[i].host;
		if (macvlan_plan(&facts, &wishes, &p, &err) < 0 ||
		    macvlan_write_comments(&p, &out, &err) < 0 ||
		    yaml_write(jmut_view(macvlan_object(&p, true, doc)), &out, &err) < 0)
			fail("%s", err.msg);
		text = buf_steal(&out, &len);
		path = xasprintf("\"%s/whereabouts.d/whereabouts.kubeconfig\"", rows[i].folder);
		has_str(text, path, "in the manifest");
		has_str(text, rows[i].says, "the comment says why");
		if (rows[i].careful)
			has_str(text, rows[i].careful, "a caution");
		else
			ok(!strstr(text, "has no whereabouts.d"), "no caution");
	}
	row_end();
}

static void test_network(void)
{
	CLEANUP_FREE char *text = manifest(&(struct macvlan_wishes){0}, false);

	is_str(text,
	       "# enp65s0f0: the way to controller pod001:8090 (10.5.212.116) leads through it; it "
	       "is a port of mlx5_0.\n"
	       "# Not for Pods: 10.5.212.0/25 (the first 128 addresses: usually IPU-Machines, "
	       "their controllers and head nodes).\n"
	       "# Not for Pods: 10.5.212.200/32 (this machine, on enp65s0f0).\n"
	       "# Of 10.5.212.0/24 126 addresses are left for Pods.\n"
	       "# Whereabouts' kubeconfig: below /etc/cni/net.d (the usual one: none is seen "
	       "here).\n"
	       "# Careful: other machines in it aren't known: name their addresses by --exclude.\n"
	       "apiVersion: mellanox.com/v1alpha1\n"
	       "kind: MacvlanNetwork\n"
	       "metadata:\n"
	       "  name: rdma-net\n"
	       "spec:\n"
	       "  networkNamespace: default\n"
	       "  master: enp65s0f0\n"
	       "  mode: bridge\n"
	       "  mtu: 9000\n"
	       "  ipam: |\n"
	       "    {\n"
	       "        \"type\": \"whereabouts\",\n"
	       "        \"datastore\": \"kubernetes\",\n"
	       "        \"kubernetes\": {\n"
	       "            \"kubeconfig\": "
	       "\"/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig\"\n"
	       "        },\n"
	       "        \"log_file\": \"/var/log/whereabouts.log\",\n"
	       "        \"log_level\": \"info\",\n"
	       "        \"range\": \"10.5.212.0/24\",\n"
	       "        \"exclude\": [\n"
	       "            \"10.5.212.0/25\",\n"
	       "            \"10.5.212.200/32\"\n"
	       "        ]\n"
	       "    }\n",
	       "the whole manifest");
}

static void test_attachment(void)
{
	struct macvlan_wishes wishes = {
		.network = "ipus", .network_namespace = "team-a", .exclude = ""};
	CLEANUP_FREE char *text = manifest(&wishes, true);
	CLEANUP_YAML struct yaml *yaml = NULL;
	CLEANUP_JSON struct json_doc *config = NULL;
	struct err err = ERR_INIT;
	const struct json *o;

	has_str(text, "# Careful: in use, and not excluded: 10.5.212.116, 10.5.212.200.\n",
		"what could be given twice is told");
	is_int(yaml_parse("it", str_of(text), &yaml, &err), 0, "it is YAML");
	o = yaml_doc(yaml, 0);
	is_str(json_cstr(json_get(o, "kind")), "NetworkAttachmentDefinition", "its kind");
	is_str(json_cstr(json_at(o, "metadata", "namespace", NULL)), "team-a", "its namespace");
	is_int(json_parse(json_str(json_at(o, "spec", "config", NULL)), &config, &err), 0,
	       "its configuration is JSON");
	o = json_root(config);
	is_str(json_cstr(json_get(o, "type")), "macvlan", "of a macvlan");
	is_str(json_cstr(json_get(o, "master")), "enp65s0f0", "... on the interface");
	is_str(json_cstr(json_at(o, "ipam", "range", NULL)), "10.5.212.0/24", "... in its subnet");
	is_int((long long)json_len(json_at(o, "ipam", "exclude", NULL)), 0,
	       "... without exclusions");
}

/* ---- what to be careful of ---- */

static struct fabric_reach plain[] = {
	{.controller = "pod001:8090",
	 .address = "10.5.212.116",
	 .link = "eno1",
	 .source = "10.5.212.200",
	 .subnet = "10.5.212.0/24",
	 .mtu_bytes = 1500,
	 .up = true},
};
/* An interface that somebody knows. */
static struct fabric_reach known[] = {
	{.link = "rdma0", .subnet = "10.5.212.0/24", .mtu_bytes = 9000, .rdma_device = "mlx5_0"},
};
static struct fabric_reach no_port[] = {
	{.link = "eno2", .subnet = "10.5.212.0/24", .mtu_bytes = 9000},
};

static const struct {
	const char *name;
	struct fabric_facts facts;
	struct macvlan_wishes wishes;
	const char *has, *not; /* of the comments; not NULL: anything */
	const char *refused;   /* for --apply; NULL: isn't */
} words[] = {
	{"a port", FACTS(usual), {0}, "it is a port of mlx5_0.\n", "Careful: enp", NULL},
	{"a port that is wished for",
	 FACTS(known),
	 {.link = "rdma0"},
	 "# rdma0: no controller that is known is reached through it; it is a port of mlx5_0.\n",
	 "controller  (",
	 NULL},
	{"none that is wished for",
	 FACTS(no_port),
	 {.link = "eno2"},
	 "# Careful: eno2 has no RDMA port here.\n",
	 "controller  (",
	 NULL},
	{"none",
	 FACTS(plain),
	 {0},
	 "# Careful: eno1 has no RDMA port here.\n",
	 NULL,
	 "eno1 leads to controller pod001:8090, and has no RDMA port"},
	{"a gateway",
	 FACTS(routed),
	 {0},
	 "reached by the gateway 10.5.212.254, to which",
	 NULL,
	 "name it by --interface"},
	{"a gateway that is meant", FACTS(routed), {.link = "eno1"}, "by the gateway", NULL, NULL},
	{"another machine's",
	 FACTS(usual),
	 {.link = "ens9", .subnet = "10.9.0.0/24"},
	 "# Careful: this machine has no interface ens9.\n",
	 NULL,
	 NULL},
	{"a subnet that is too wide",
	 FACTS(usual),
	 {.subnet = "10.5.0.0/16"},
	 "# Careful: 10.5.0.0/16 isn't within 10.5.212.0/24, this machine's subnet on enp65s0f0.\n",
	 NULL,
	 NULL},
	{"a part of it", FACTS(usual), {.subnet = "10.5.212.128/25"}, "left", "isn't within", NULL},
	{"an MTU that is too large",
	 FACTS(usual),
	 {.mtu = 9001},
	 "the MTU 9001 is larger than that of enp65s0f0, 9000",
	 NULL,
	 NULL},
	{"others", FACTS(usual), {0}, "# Careful: other machines in it aren't known", NULL, NULL},
	{"others, told",
	 FACTS(usual),
	 {.exclude = "10.5.212.0/26"},
	 "left",
	 "other machines",
	 NULL},
};

static void test_words(void)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct buf out = BUF_INIT(65536);
		struct err err = ERR_INIT;
		struct macvlan_plan p;
		size_t len;

		row_begin("%s", words[i].name);
		if (macvlan_plan(&words[i].facts, &words[i].wishes, &p, &err) < 0 ||
		    macvlan_write_comments(&p, &out, &err) < 0)
			fail("%s", err.msg);
		CLEANUP_FREE char *text = buf_steal(&out, &len);
		has_str(text, words[i].has, "what is said");
		ok(!words[i].not|| !strstr(text, words[i].not), "... and isn't");
		is_int(macvlan_check_link(&p, &err), words[i].refused ? -1 : 0, "may be applied");
		has_str(err.msg, words[i].refused ? words[i].refused : "", "... or why not");
	}
	row_end();
}

/* More Nodes than a network lists: the rest is told of, and nothing is refused. */
static void test_many_nodes(void)
{
	static char addresses[300][16];
	struct macvlan_used used[300];
	struct fabric_facts facts = FACTS(wide);
	struct macvlan_wishes wishes = {.used = used, .n_used = 300};
	struct buf out = BUF_INIT(65536);
	struct err err = ERR_INIT;
	struct macvlan_plan p;
	size_t len;

	for (unsigned i = 0; i < 300; i++) {
		snprintf(addresses[i], sizeof(addresses[i]), "10.5.%u.%u", 201 + i / 250, i % 250);
		used[i] = (struct macvlan_used){addresses[i], "head"};
	}
	is_int(macvlan_plan(&facts, &wishes, &p, &err), 0, "many Nodes are no error");
	is_int((long long)p.n_excludes, MACVLAN_MAX_EXCLUDES,
	       "as many as there may be are left out");
	if (macvlan_write_warnings(&p, &out, &err) < 0)
		fail("%s", err.msg);
	CLEANUP_FREE char *text = buf_steal(&out, &len);
	has_str(text, "and not excluded: 10.5.201.62, ", "the others are told");
	has_str(text, " more.\n", "... by their number");
}

int main(void)
{
	test_texts();
	test_counts();
	test_plans();
	test_network();
	test_folder();
	test_attachment();
	test_words();
	test_many_nodes();
	return done_testing();
}
