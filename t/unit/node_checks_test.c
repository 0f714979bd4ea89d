/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rule of the local checks, by facts made by hand: a machine without fault, and one change a
 * case.
 */
#include "node/checks.h"
#include "tap.h"

/* A machine that a test changes. Big enough for all of them. */
struct world {
	struct fabric_facts facts;
	struct rdma_device device;
	struct rdma_port port;
	struct rdma_gid gids[2];
	struct fabric_reach reach[2];
	struct fabric_runtime runtime;
	struct fabric_module modules[3];
	struct vipu_address_list entries;
};

static void fine_host(struct world *w)
{
	struct fabric_host *h = &w->facts.host;

	w->runtime = (struct fabric_runtime){.name = "containerd",
					     .installed = true,
					     .running = true,
					     .pid = 812,
					     .memlock_bytes = FABRIC_UNLIMITED,
					     .unit = "/usr/lib/systemd/system/containerd.service"};
	strcpy(w->modules[0].name, "ib_uverbs");
	strcpy(w->modules[1].name, "rdma_ucm");
	strcpy(w->modules[2].name, "mlx4_ib");
	w->modules[0].loaded = w->modules[1].loaded = true;
	*h = (struct fabric_host){.known = true,
				  .memlock_bytes = FABRIC_UNLIMITED,
				  .runtimes = &w->runtime,
				  .n_runtimes = 1,
				  .hugepages_total = 64,
				  .hugepages_free = 60,
				  .hugepage_bytes = 2 << 20,
				  .modules = w->modules,
				  .n_modules = 3,
				  .cni_known = true,
				  .cni_multus = true,
				  .cni_multus_folder = true,
				  .cni_whereabouts = true,
				  .cni_folder = "/etc/cni/net.d"};
}

static void fine(struct world *w)
{
	*w = (struct world){
		.device = {.name = "mlx5_0",
			   .firmware = "20.31.1014",
			   .driver = "mlx5_core",
			   .node_guid = "0c42:a103:0016:054c",
			   .opened = true,
			   .n_ports = 1},
		.port = {.number = 1,
			 .state = RDMA_PORT_ACTIVE,
			 .layer = RDMA_LAYER_ETHERNET,
			 .speed_mbps = 100000,
			 .mtu_bytes = 4096,
			 .netdev = "enp65s0f0",
			 .n_gids = 2},
		.gids = {{.index = 0,
			  .type = RDMA_GID_ROCE_V1,
			  .text = "fe80::1",
			  .netdev = "enp65s0f0"},
			 {.index = 3,
			  .type = RDMA_GID_ROCE_V2,
			  .text = "::ffff:10.5.212.200",
			  .netdev = "enp65s0f0"}},
		.reach = {{.controller = "pod001:8090",
			   .address = "10.5.212.116",
			   .link = "enp65s0f0",
			   .source = "10.5.212.200",
			   .subnet = "10.5.212.0/24",
			   .mtu_bytes = 9000,
			   .up = true,
			   .rdma_device = "mlx5_0",
			   .rdma_port = 1}},
	};
	w->device.ports = &w->port;
	w->port.gids = w->gids;
	w->facts = (struct fabric_facts){.complete = true, .reach = w->reach, .n_reach = 1};
	w->facts.rdma = (struct rdma_inventory){
		.status = RDMA_OK, .devices = &w->device, .n_devices = 1};
	fine_host(w);
}

/* ---- changes ---- */

static void no_change(struct world *w)
{
	(void)w;
}
static void status(struct world *w, enum rdma_status s, const char *why)
{
	w->facts.rdma.status = s;
	w->facts.rdma.n_devices = 0;
	err_set(&w->facts.rdma.error, ERR_NOT_FOUND, 0, "%s", why);
}
static void no_module(struct world *w)
{
	w->modules[1].loaded = false;
}
static void no_driver(struct world *w)
{
	status(w, RDMA_NO_DRIVER, "ib_uverbs isn't loaded");
}
static void not_read(struct world *w)
{
	status(w, RDMA_UNKNOWN, "");
}
static void no_device(struct world *w)
{
	status(w, RDMA_NO_DEVICE, "no card");
}
static void denied(struct world *w)
{
	status(w, RDMA_NO_PERMISSION, "not allowed");
}
static void failed(struct world *w)
{
	status(w, RDMA_FAILED, "no provider");
}
static void fatal(struct world *w)
{
	w->device.fatal = true;
}
static void closed(struct world *w)
{
	w->device.opened = false;
	err_set(&w->device.error, ERR_DENIED, 0, "Permission denied");
}
static void left_out(struct world *w)
{
	w->facts.rdma.n_left_out = 3;
}
static void port_down(struct world *w)
{
	w->port.state = RDMA_PORT_DOWN;
}
static void port_unused(struct world *w)
{
	w->port.state = RDMA_PORT_DOWN;
	w->port.speed_mbps = 2500;
	w->facts.n_reach = 0;
}
static void deferred(struct world *w)
{
	w->port.state = RDMA_PORT_ACTIVE_DEFER;
}
static void infiniband(struct world *w)
{
	w->port.layer = RDMA_LAYER_INFINIBAND;
}
static void other_gid(struct world *w)
{
	strcpy(w->gids[1].text, "::ffff:10.9.0.7");
}
static void other_netdev(struct world *w)
{
	strcpy(w->gids[1].netdev, "enp65s0f1");
}
static void no_gid(struct world *w)
{
	w->gids[1].type = RDMA_GID_ROCE_V1;
}
static void six_gid(struct world *w)
{
	strcpy(w->gids[1].text, "fd00::7");
	strcpy(w->reach[0].source, "fd00::7");
}
static void by_gateway(struct world *w)
{
	strcpy(w->reach[0].gateway, "10.5.212.254");
}
static void is_local(struct world *w)
{
	w->reach[0].local = true;
	strcpy(w->reach[0].link, "lo");
}
static void link_down(struct world *w)
{
	w->reach[0].up = false;
}
static void no_carrier(struct world *w)
{
	w->reach[0].up = false;
	w->reach[0].enabled = true;
}
static void no_route(struct world *w)
{
	err_set(&w->reach[0].error, ERR_NOT_FOUND, 0, "Network is unreachable");
}
static void bad_entry(struct world *w)
{
	static char text[] = "pod1:99999", reason[] = "port 99999";
	static struct vipu_address_problem problem = {.text = text, .reason = reason};

	w->entries = (struct vipu_address_list){.problems = &problem, .n_problems = 1};
}

static void no_controller(struct world *w)
{
	w->facts.n_reach = 0;
}
static void not_rdma(struct world *w)
{
	w->reach[0].rdma_device[0] = 0;
}
static void small_mtu(struct world *w)
{
	w->reach[0].mtu_bytes = 1400;
}
static void memlock(struct world *w)
{
	w->facts.host.memlock_bytes = 8 << 20;
}
static void runtime(struct world *w, const char *name, bool unit, uint64_t unit_bytes)
{
	strcpy(w->runtime.name, name);
	w->runtime.memlock_bytes = 65536;
	w->runtime.unit_sets_memlock = unit;
	w->runtime.unit_memlock_bytes = unit_bytes;
	snprintf(w->runtime.unit, sizeof(w->runtime.unit), "/usr/lib/systemd/system/%s.service",
		 name);
}
static void agent(struct world *w)
{
	runtime(w, "k3s", false, 0);
	strcpy(w->runtime.unit, "/etc/systemd/system/k3s-agent.service.d/10-x.conf");
}
static void limited(struct world *w)
{
	runtime(w, "k3s", false, 0);
}
static void limited_by_unit(struct world *w)
{
	runtime(w, "containerd", true, 65536);
}
static void not_restarted(struct world *w)
{
	runtime(w, "containerd", true, FABRIC_UNLIMITED);
}
static void docker(struct world *w)
{
	runtime(w, "docker", false, 0);
}
static void docker_told(struct world *w)
{
	w->runtime.default_ulimit = true;
	runtime(w, "docker", true, FABRIC_UNLIMITED);
}
static void kubelet(struct world *w)
{
	runtime(w, "kubelet", false, 0);
}
static void stopped(struct world *w)
{
	w->runtime.running = false;
}
static void no_runtime(struct world *w)
{
	w->runtime.running = w->runtime.installed = false;
}
static void no_pages(struct world *w)
{
	w->facts.host.hugepages_total = 0;
}
static void no_folder(struct world *w)
{
	w->facts.host.cni_multus_folder = false;
}
static void no_multus(struct world *w)
{
	w->facts.host.cni_multus = false;
}
static void no_whereabouts(struct world *w)
{
	w->facts.host.cni_whereabouts = false;
}
static void no_cni(struct world *w)
{
	w->facts.host.cni_known = false;
	w->facts.host.cni_missing = true;
}
static void closed_cni(struct world *w)
{
	w->facts.host.cni_known = false;
}
static void capable(struct world *w)
{
	w->facts.host.memlock_bytes = 8 << 20;
	w->facts.host.may_lock = true;
}
static void odd_bytes(struct world *w)
{
	strcpy(w->reach[0].controller, "a\033[31m\nb");
}

static const struct {
	void (*change)(struct world *w);
	const char *check, *finding, *subject, *seen;
} cases[] = {
	{no_change, "driver", "loaded", "", "modules"},
	{no_module, "driver", "incomplete", "", "not loaded: rdma_ucm"},
	{no_driver, "driver", "missing", "", "ib_uverbs isn't loaded"},
	{not_read, "driver", "unknown", "", "haven't been read"},
	{no_change, "device", "opened", "mlx5_0", "mlx5_core, firmware 20.31.1014, GUID 0c42"},
	{fatal, "device", "fatal", "mlx5_0", "fatal error"},
	{closed, "device", "closed", "mlx5_0", "Permission denied"},
	{denied, "device", "denied", "", "not allowed"},
	{no_device, "device", "none", "", "no card"},
	{failed, "device", "failed", "", "no provider"},
	{left_out, "device", "left-out", "", "3 more"},
	{no_change, "port", "up", "mlx5_0/1", "active, Ethernet, 100 Gb/s, MTU 4096, enp65s0f0"},
	{deferred, "port", "up", "mlx5_0/1", "active, waiting"},
	{port_down, "port", "down", "mlx5_0/1", "down, Ethernet"},
	{port_unused, "port", "unused", "mlx5_0/1", "2.5 Gb/s, MTU 4096, enp65s0f0; no controller"},
	{no_change, "gid", "roce-v2", "mlx5_0/1", "GID 3 is RoCE v2 of 10.5.212.200 on enp65s0f0"},
	{six_gid, "gid", "roce-v2", "mlx5_0/1", "RoCE v2 of fd00::7"},
	{infiniband, "gid", "infiniband", "mlx5_0/1", "2 GIDs, InfiniBand"},
	{other_gid, "gid", "other", "mlx5_0/1",
	 "no RoCE v2 GID of 10.5.212.200 on enp65s0f0; GID 3 is ::ffff:10.9.0.7"},
	{other_netdev, "gid", "other", "mlx5_0/1", "on enp65s0f1"},
	{no_gid, "gid", "none", "mlx5_0/1", "among 2"},
	{no_change, "route", "there", "pod001:8090",
	 "10.5.212.116 through enp65s0f0, from 10.5.212.200 in 10.5.212.0/24"},
	{by_gateway, "route", "gateway", "pod001:8090", "by gateway 10.5.212.254"},
	{is_local, "route", "local", "pod001:8090", "10.5.212.116 is an address of this machine"},
	{link_down, "route", "link-down", "pod001:8090", "enp65s0f0, which is down"},
	{no_carrier, "route", "link-down", "pod001:8090", "enp65s0f0, which has no carrier"},
	{no_route, "route", "none", "pod001:8090", "Network is unreachable"},
	{bad_entry, "route", "bad-entry", "pod1:99999", "port 99999"},
	{no_controller, "route", "no-controller", "", "no V-IPU controller"},
	{no_change, "rdma-link", "there", "pod001:8090", "enp65s0f0 is mlx5_0/1"},
	{not_rdma, "rdma-link", "none", "pod001:8090", "enp65s0f0 is no interface"},
	{no_change, "mtu", "fine", "enp65s0f0", "9000 bytes"},
	{small_mtu, "mtu", "small", "enp65s0f0", "1400 bytes"},
	{no_change, "memlock", "unlimited", "", "may lock unlimited"},
	{capable, "memlock", "capability", "", "has CAP_IPC_LOCK; its limit of 8 MiB"},
	{memlock, "memlock", "limited", "", "may lock 8 MiB of memory"},
	{no_change, "runtime-memlock", "unlimited", "containerd", "process 812: unlimited"},
	{docker_told, "runtime-memlock", "unlimited", "docker", "unlimited"},
	{not_restarted, "runtime-memlock", "not-restarted", "containerd", "812 has 64 KiB, though"},
	{limited, "runtime-memlock", "limited", "k3s", "has 64 KiB of locked memory"},
	{agent, "runtime-memlock", "limited", "k3s-agent", "10-x.conf"},
	{limited_by_unit, "runtime-memlock", "limited", "containerd", "its unit is /usr/lib"},
	{docker, "runtime-memlock", "limited-docker", "docker", "64 KiB"},
	{stopped, "runtime-memlock", "stopped", "containerd", "doesn't run"},
	{kubelet, "runtime-memlock", "none", "", "no container runtime"},
	{no_runtime, "runtime-memlock", "none", "", "no container runtime"},
	{no_change, "hugepages", "some", "", "60 of 64 free, 2048 KiB each"},
	{no_pages, "hugepages", "none", "", "none are needed"},
	{no_change, "cni-multus", "there", "", "/etc/cni/net.d has"},
	{no_folder, "cni-multus", "no-folder", "", "no multus.d"},
	{no_multus, "cni-multus", "missing", "", "/etc/cni/net.d has no configuration of Multus"},
	{no_cni, "cni-multus", "no-cni", "", "there is no folder /etc/cni/net.d"},
	{closed_cni, "cni-multus", "unreadable", "", "/etc/cni/net.d can't be read"},
	{no_change, "cni-whereabouts", "there", "", "whereabouts.d"},
	{no_whereabouts, "cni-whereabouts", "missing", "", "no whereabouts.d"},
	{no_cni, "cni-whereabouts", "no-cni", "", "there is no folder"},
	{closed_cni, "cni-whereabouts", "unreadable", "", "can't be read"},
	{odd_bytes, "route", "there", "a?[31m b", "10.5.212.116"},
};

static const struct node_finding *find(const struct node_findings *f, const char *check)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->items[i].rule->check, check) == 0)
			return &f->items[i];
	}
	return NULL;
}

static void test_cases(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct node_findings f = {0};
		const struct node_finding *found;
		struct world w;

		row_begin("%zu: %s %s", i, cases[i].check, cases[i].finding);
		fine(&w);
		cases[i].change(&w);
		node_check_entries(&w.entries, &f);
		node_check(&w.facts, &f);
		found = find(&f, cases[i].check);
		/* What isn't the first of its check is the last of all. */
		if (found && strcmp(found->rule->finding, "opened") == 0 &&
		    strcmp(cases[i].finding, "left-out") == 0)
			found = &f.items[2];
		if (ok(found, "the check was made")) {
			is_str(found->rule->finding, cases[i].finding, "the finding");
			is_str(found->subject, cases[i].subject, "of what");
			has_str(found->seen, cases[i].seen, "what was seen");
		}
		node_findings_done(&f);
	}
	row_end();
}

/* Text that is longer than its place ends with a whole character. */
static void test_long(void)
{
	struct node_findings f = {0};
	const char *sized = "ää€€😀😀"; /* of two, three and four bytes */

	for (size_t i = 0; i < strlen(sized); i++) {
		CLEANUP_FREE char *subject = xasprintf("%0*d%s", (int)(NODE_TEXT_SIZE - i), 0,
						       sized);
		CLEANUP_FREE char *seen = xasprintf("%0*d%s", (int)(NODE_SEEN_SIZE - i), 0, sized);

		node_find(&f, &node_rules[0], subject, "%s", seen);
		ok(!strchr(f.items[i].subject, '?') &&
			   strlen(f.items[i].subject) >= NODE_TEXT_SIZE - 4,
		   "a subject: %s", f.items[i].subject + NODE_TEXT_SIZE - 20);
		ok(!strchr(f.items[i].seen, '?') && strlen(f.items[i].seen) >= NODE_SEEN_SIZE - 4,
		   "what was seen: %s", f.items[i].seen + NODE_SEEN_SIZE - 20);
	}
	node_findings_done(&f);
}

/* What must be said once, and what nobody could say. */
static void test_whole(void)
{
	struct node_findings f = {0};
	struct world w;

	fine(&w);
	w.reach[1] = w.reach[0];
	strcpy(w.reach[1].controller, "pod002:8090");
	w.facts.n_reach = 2;
	node_check(&w.facts, &f);
	is_int((long long)node_findings_count(&f, NODE_PASS), (long long)f.n,
	       "a machine without fault passes all");
	is_int((long long)f.n, 14, "the interface of two controllers is judged once");
	node_findings_done(&f);

	w.facts = (struct fabric_facts){.complete = true};
	node_check(&w.facts, &f);
	is_int((long long)node_findings_count(&f, NODE_SKIP), (long long)f.n,
	       "of what isn't known nothing is held against the machine");
	is_int((long long)f.n, 4, "... and it is said");
	node_findings_done(&f);
}

static void test_rules(void)
{
	for (const struct node_rule *r = node_rules; r->check; r++) {
		bool found = false;

		row_begin("%s %s", r->check, r->finding);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			found = found || (strcmp(cases[i].check, r->check) == 0 &&
					  strcmp(cases[i].finding, r->finding) == 0);
		ok(found, "has a case");
		ok((r->result != NODE_FAIL && r->result != NODE_WARN) || r->help[0],
		   "says what to do");
		ok(r->result != NODE_PASS || !r->help[0], "nothing is to be done about a pass");
	}
	row_end();
}

static void test_help(void)
{
	static const struct node_rule rule = {"x", "y", NODE_FAIL, "restart SUBJECT, SUBJECT!"};
	struct node_findings f = {0};
	CLEANUP_FREE char *help = NULL;

	node_find(&f, &rule, "k3s", "%s", "seen");
	help = node_finding_help(&f.items[0]);
	is_str(help, "restart k3s, k3s!", "the subject stands in the advice");
	for (size_t i = 0; i < 2 * NODE_MAX_FINDINGS; i++)
		node_find(&f, &rule, "k3s", "%s", "seen");
	is_int((long long)f.n, NODE_MAX_FINDINGS, "there is a limit");
	is_int((long long)node_findings_left_out(&f), NODE_MAX_FINDINGS + 1,
	       "... and a word of it");
	is_int((long long)node_findings_count(&f, NODE_FAIL), 2 * NODE_MAX_FINDINGS + 1,
	       "... but every failure counts");
	node_findings_done(&f);
}

int main(void)
{
	test_cases();
	test_long();
	test_whole();
	test_rules();
	test_help();
	return done_testing();
}
