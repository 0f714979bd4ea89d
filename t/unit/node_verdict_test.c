/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node/verdict.h: facts for each row of the table in doc/design/head-node.md, and what is said.
 */
#include "node/verdict.h"

#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- a machine: mlx5_0/1 on eth2, mlx5_1/1 on eth3, eth0 without RDMA ---- */

struct world {
	struct fabric_facts facts;
	struct rdma_device devices[2];
	struct rdma_port ports[2];
	struct fabric_reach reach[3];
	struct fabric_runtime runtimes[2];
	bool own[3];
	bool has_own;
	enum fabric_need need;
};

static void add_port(struct world *w, size_t i, const char *device, const char *link)
{
	w->ports[i] = (struct rdma_port){
		.number = 1, .state = RDMA_PORT_ACTIVE, .layer = RDMA_LAYER_ETHERNET};
	snprintf(w->ports[i].netdev, sizeof(w->ports[i].netdev), "%s", link);
	w->devices[i] = (struct rdma_device){.opened = true, .ports = &w->ports[i], .n_ports = 1};
	snprintf(w->devices[i].name, sizeof(w->devices[i].name), "%s", device);
}

static void add_reach(struct world *w, size_t i, const char *controller, const char *link,
		      const char *device)
{
	struct fabric_reach *r = &w->reach[i];

	*r = (struct fabric_reach){.up = true, .mtu_bytes = 1500, .rdma_port = device[0] ? 1 : 0};
	snprintf(r->controller, sizeof(r->controller), "%s", controller);
	snprintf(r->address, sizeof(r->address), "10.5.212.1");
	snprintf(r->link, sizeof(r->link), "%s", link);
	snprintf(r->rdma_device, sizeof(r->rdma_device), "%s", device);
}

/* Two controllers, one on each RDMA interface, and all is well. */
static void make_world(struct world *w)
{
	*w = (struct world){.need = FABRIC_RDMA_ROUTE};
	add_port(w, 0, "mlx5_0", "eth2");
	add_port(w, 1, "mlx5_1", "eth3");
	add_reach(w, 0, "one:8090", "eth2", "mlx5_0");
	add_reach(w, 1, "two:8090", "eth3", "mlx5_1");
	w->facts = (struct fabric_facts){
		.complete = true,
		.rdma = {.status = RDMA_OK, .devices = w->devices, .n_devices = 2},
		.reach = w->reach,
		.n_reach = 2,
		.host = {.known = true, .runtimes = w->runtimes, .n_runtimes = 2},
	};
	w->runtimes[0] = (struct fabric_runtime){
		.name = "containerd", .running = true, .memlock_bytes = FABRIC_UNLIMITED};
	w->runtimes[1] = (struct fabric_runtime){.name = "docker", .memlock_bytes = 65536};
}

/* ---- what happens to it ---- */

static void nothing(struct world *w)
{
	(void)w;
}

static void incomplete(struct world *w)
{
	w->facts.complete = false;
}

static void rdma(struct world *w, enum rdma_status status, const char *words)
{
	w->facts.rdma.status = status;
	w->facts.rdma.n_devices = 0;
	if (words)
		err_set(&w->facts.rdma.error, ERR_IO, 0, "%s", words);
}

static void rdma_unknown(struct world *w)
{
	rdma(w, RDMA_UNKNOWN, NULL);
}

static void rdma_failed(struct world *w)
{
	rdma(w, RDMA_FAILED, "ibv_get_device_list: Out of memory");
}

static void rdma_denied(struct world *w)
{
	rdma(w, RDMA_NO_PERMISSION, NULL);
}

static void no_driver(struct world *w)
{
	rdma(w, RDMA_NO_DRIVER, NULL);
}

static void no_device(struct world *w)
{
	rdma(w, RDMA_NO_DEVICE, NULL);
}

static void no_device_not_wanted(struct world *w)
{
	no_device(w);
	w->need = FABRIC_RDMA_NONE;
	add_reach(w, 0, "one:8090", "eth0", "");
}

static void no_controllers(struct world *w)
{
	w->facts.n_reach = 0;
}

static void nothing_at_all(struct world *w)
{
	no_controllers(w);
	w->need = FABRIC_RDMA_NONE;
}

static void no_controllers_ports_down(struct world *w)
{
	no_controllers(w);
	w->ports[0].state = w->ports[1].state = RDMA_PORT_DOWN;
}

static void has_error(struct world *w, size_t i, bool resolved, const char *words)
{
	if (!resolved)
		w->reach[i].address[0] = '\0';
	err_set(&w->reach[i].error, ERR_NOT_FOUND, 0, "%s", words);
}

static void both_unresolved(struct world *w)
{
	has_error(w, 0, false, "one: no such name");
	has_error(w, 1, false, "two: no such name");
}

static void no_routes(struct world *w)
{
	has_error(w, 0, true, "Network is unreachable");
	has_error(w, 1, true, "Network is unreachable");
}

static void unresolved_or_no_route(struct world *w)
{
	no_routes(w);
	has_error(w, 1, false, "two: no such name");
}

static void second_unresolved(struct world *w)
{
	has_error(w, 1, false, "two: no such name");
}

static void link_down(struct world *w)
{
	w->reach[0].up = false;
	no_routes(w);
	w->reach[0].error = (struct err)ERR_INIT;
}

static void by_default_route(struct world *w)
{
	add_reach(w, 0, "one:8090", "eth0", "");
	add_reach(w, 1, "two:8090", "eth0", "");
}

static void unresolved_or_default_route(struct world *w)
{
	by_default_route(w);
	has_error(w, 0, false, "one: no such name");
}

static void unresolved_or_port_down(struct world *w)
{
	has_error(w, 1, false, "two: no such name");
	w->ports[0].state = RDMA_PORT_DOWN;
}

static void management_network(struct world *w)
{
	by_default_route(w);
	w->need = FABRIC_RDMA_ANY;
	w->ports[0].state = RDMA_PORT_DOWN;
}

static void management_network_down(struct world *w)
{
	management_network(w);
	w->ports[1].state = RDMA_PORT_INIT;
}

static void second_down(struct world *w)
{
	w->ports[1].state = RDMA_PORT_DOWN;
}

static void own(struct world *w, bool first, bool second)
{
	w->has_own = true;
	w->own[0] = first;
	w->own[1] = second;
}

static void second_down_not_own(struct world *w)
{
	second_down(w);
	own(w, true, false);
}

static void second_down_own(struct world *w)
{
	second_down(w);
	own(w, false, true);
}

static void second_of_two_own_down(struct world *w)
{
	second_down(w);
	own(w, true, true);
}

static void own_unresolved_and_down(struct world *w)
{
	has_error(w, 0, false, "one: no such name");
	second_down(w);
	own(w, true, true);
}

static void own_unresolved_and_well(struct world *w)
{
	second_unresolved(w);
	own(w, true, true);
}

static void labelled_for_nobody(struct world *w)
{
	second_down(w);
	own(w, false, false);
}

static void port_and_link_down(struct world *w)
{
	w->ports[0].state = RDMA_PORT_DOWN;
	w->reach[0].up = false;
	own(w, true, false);
}

static void device_failed(struct world *w)
{
	w->devices[0].fatal = true;
	own(w, true, false);
}

static void device_gone(struct world *w)
{
	w->facts.rdma.devices = &w->devices[1];
	w->facts.rdma.n_devices = 1;
	own(w, true, false);
}

static void waiting_port(struct world *w)
{
	w->ports[0].state = RDMA_PORT_ACTIVE_DEFER;
	own(w, true, false);
}

static void own_link_down_without_rdma(struct world *w)
{
	link_down(w);
	w->need = FABRIC_RDMA_NONE;
	own(w, true, false);
}

static void on_this_machine(struct world *w)
{
	add_reach(w, 0, "one:8090", "lo", "");
	w->reach[0].local = true;
	own(w, true, false);
}

static void on_this_machine_ports_down(struct world *w)
{
	on_this_machine(w);
	w->ports[0].state = w->ports[1].state = RDMA_PORT_DOWN;
}

static void memory_low(struct world *w)
{
	w->runtimes[0].memlock_bytes = UINT64_C(8) << 20;
}

static void memory_low_not_wanted(struct world *w)
{
	memory_low(w);
	w->need = FABRIC_RDMA_NONE;
}

static void kubelet_memory_low(struct world *w)
{
	w->runtimes[1] = (struct fabric_runtime){
		.name = "kubelet", .running = true, .memlock_bytes = UINT64_C(8) << 20};
}

static void memory_unknown(struct world *w)
{
	memory_low(w);
	w->facts.host.known = false;
}

static const struct {
	const char *name;
	void (*happens)(struct world *w);
	const char *id, *reason;
	enum fabric_status status;
	const char *message;
} cases[] = {
	{"at the start", incomplete, "incomplete", "FabricNotRead", FABRIC_UNKNOWN,
	 "RDMA devices, links and routes are being read"},
	{"no word of RDMA", rdma_unknown, "rdma-unread", "RDMANotRead", FABRIC_UNKNOWN,
	 "RDMA devices haven't been read"},
	{"RDMA can't be read", rdma_failed, "rdma-unread", "RDMANotRead", FABRIC_UNKNOWN,
	 "ibv_get_device_list: Out of memory"},
	{"no permission", rdma_denied, "rdma-denied", "RDMADenied", FABRIC_UNKNOWN,
	 "RDMA devices may not be opened by this process"},
	{"no driver", no_driver, "no-driver", "NoRDMADriver", FABRIC_FALSE,
	 "the kernel has no RDMA driver loaded (ib_uverbs)"},
	{"no device", no_device, "no-device", "NoRDMADevice", FABRIC_FALSE,
	 "this machine has no RDMA device"},
	{"no device, and none is wanted", no_device_not_wanted, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth0"},
	{"neither controllers nor RDMA", nothing_at_all, "nothing", "NothingToJudge",
	 FABRIC_UNKNOWN, "no V-IPU controller is configured, and RDMA isn't asked for"},
	{"RDMA alone", no_controllers, "ready", "FabricReady", FABRIC_TRUE,
	 "no V-IPU controller is configured, RDMA port mlx5_0/1 is active"},
	{"RDMA alone, and down", no_controllers_ports_down, "port-down", "RDMAPortDown",
	 FABRIC_FALSE, "no RDMA port of this machine is active"},
	{"no controller has an address", both_unresolved, "unresolved", "ControllerNotResolved",
	 FABRIC_UNKNOWN, "V-IPU controller one:8090: one: no such name"},
	{"one has", second_unresolved, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active; 1 other "
	 "isn't reached from here"},
	{"no route", no_routes, "no-route", "NoRoute", FABRIC_FALSE,
	 "V-IPU controller one:8090: Network is unreachable"},
	{"by the default route", by_default_route, "no-rdma-route", "NoRDMARoute", FABRIC_FALSE,
	 "interface eth0, which leads to V-IPU controller one:8090, has no RDMA port"},
	{"one has no address, the other no route", unresolved_or_no_route, "unresolved",
	 "ControllerNotResolved", FABRIC_UNKNOWN, "V-IPU controller two:8090: two: no such name"},
	{"… the other by the default route", unresolved_or_default_route, "unresolved",
	 "ControllerNotResolved", FABRIC_UNKNOWN, "V-IPU controller one:8090: one: no such name"},
	{"… the other by a port that is down", unresolved_or_port_down, "unresolved",
	 "ControllerNotResolved", FABRIC_UNKNOWN, "V-IPU controller two:8090: two: no such name"},
	{"a link is down", link_down, "link-down", "LinkDown", FABRIC_FALSE,
	 "interface eth2, which leads to V-IPU controller one:8090, is down"},
	{"a link is down, and no RDMA wanted", own_link_down_without_rdma, "link-down", "LinkDown",
	 FABRIC_FALSE, "interface eth2, which leads to V-IPU controller one:8090, is down"},
	{"controllers on a management network", management_network, "ready", "FabricReady",
	 FABRIC_TRUE, "V-IPU controller one:8090 is reached by eth0, RDMA port mlx5_1/1 is active"},
	{"… and all ports down", management_network_down, "port-down", "RDMAPortDown", FABRIC_FALSE,
	 "no RDMA port of this machine is active"},
	{"another's port is down", second_down_not_own, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active; 1 other "
	 "isn't reached from here"},
	{"its own port is down", second_down_own, "port-down", "RDMAPortDown", FABRIC_FALSE,
	 "RDMA port mlx5_1/1 (eth3), which leads to V-IPU controller two:8090, is down"},
	{"one of its two ports is down", second_of_two_own_down, "port-down", "RDMAPortDown",
	 FABRIC_FALSE,
	 "RDMA port mlx5_1/1 (eth3), which leads to V-IPU controller two:8090, is down"},
	{"False is worse than Unknown", own_unresolved_and_down, "port-down", "RDMAPortDown",
	 FABRIC_FALSE,
	 "RDMA port mlx5_1/1 (eth3), which leads to V-IPU controller two:8090, is down"},
	{"Unknown is worse than True", own_unresolved_and_well, "unresolved",
	 "ControllerNotResolved", FABRIC_UNKNOWN, "V-IPU controller two:8090: two: no such name"},
	{"its label is no controller's", labelled_for_nobody, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active; 1 other "
	 "isn't reached from here"},
	{"port and link are down", port_and_link_down, "port-down", "RDMAPortDown", FABRIC_FALSE,
	 "RDMA port mlx5_0/1 (eth2), which leads to V-IPU controller one:8090, is down"},
	{"the device has failed", device_failed, "port-down", "RDMAPortDown", FABRIC_FALSE,
	 "RDMA port mlx5_0/1 (eth2), which leads to V-IPU controller one:8090, is of a device that "
	 "has failed"},
	{"the device is gone", device_gone, "port-down", "RDMAPortDown", FABRIC_FALSE,
	 "RDMA port mlx5_0/1 (eth2), which leads to V-IPU controller one:8090, is gone"},
	{"a port that is active and waits", waiting_port, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active"},
	{"the controller is here", on_this_machine, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is on this machine, RDMA port mlx5_0/1 is active"},
	{"… and all ports down", on_this_machine_ports_down, "port-down", "RDMAPortDown",
	 FABRIC_FALSE, "no RDMA port of this machine is active"},
	{"little locked memory", memory_low, "memory-low", "LockedMemoryLow", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active; but "
	 "containers of containerd may lock 8192 KiB of memory only, and RDMA wants it unlimited"},
	{"… for the kubelet alone", kubelet_memory_low, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active"},
	{"… and no RDMA wanted", memory_low_not_wanted, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2"},
	{"… that isn't known", memory_unknown, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active"},
	{"all is well", nothing, "ready", "FabricReady", FABRIC_TRUE,
	 "V-IPU controller one:8090 is reached by eth2, RDMA port mlx5_0/1 is active"},
};

static void judge(struct world *w, struct fabric_verdict *ret)
{
	const struct fabric_question question = {w->need, w->has_own ? w->own : NULL};

	fabric_judge(&w->facts, &question, ret);
}

static void test_rows(void)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fabric_verdict verdict;
		struct world w;

		make_world(&w);
		cases[i].happens(&w);
		judge(&w, &verdict);
		row_begin("%s", cases[i].name);
		is_str(verdict.id, cases[i].id, "row");
		is_str(verdict.reason, cases[i].reason, "reason");
		is_str(fabric_status_name(verdict.status), fabric_status_name(cases[i].status),
		       "status");
		is_str(verdict.message, cases[i].message, "message");
	}
	row_end();
}

static void test_rdma(void)
{
	static const struct {
		enum rdma_status status;
		enum fabric_status want;
	} rows[] = {
		{RDMA_OK, FABRIC_TRUE},         {RDMA_NO_DRIVER, FABRIC_FALSE},
		{RDMA_NO_DEVICE, FABRIC_FALSE}, {RDMA_NO_PERMISSION, FABRIC_UNKNOWN},
		{RDMA_FAILED, FABRIC_UNKNOWN},  {RDMA_UNKNOWN, FABRIC_UNKNOWN},
	};
	struct fabric_verdict verdict;
	struct world w;

	make_world(&w);
	for (size_t i = 0; i < COUNT(rows); i++) {
		w.facts.rdma.status = rows[i].status;
		judge(&w, &verdict);
		is_int(verdict.rdma, rows[i].want, "RDMA with status %d", (int)rows[i].status);
		ok(verdict.has_device, "it has devices all the same");
	}
	w.facts.rdma.n_devices = 0;
	judge(&w, &verdict);
	ok(!verdict.has_device, "until they are gone");
	w.facts.rdma.status = RDMA_NO_DEVICE;
	w.facts.complete = false;
	judge(&w, &verdict);
	is_int(verdict.rdma, FABRIC_UNKNOWN, "RDMA isn't judged before everything has been read");
	ok(!verdict.complete, "which the verdict says");
}

static void test_reaches(void)
{
	struct world w;

	make_world(&w);
	second_down(&w);
	ok(fabric_reaches(&w.facts, FABRIC_RDMA_ROUTE, 0), "a controller is reached");
	ok(!fabric_reaches(&w.facts, FABRIC_RDMA_ROUTE, 1), "another isn't: its port is down");
	ok(fabric_reaches(&w.facts, FABRIC_RDMA_ANY, 1), "it is where any port will do");
	ok(fabric_reaches(&w.facts, FABRIC_RDMA_NONE, 1), "and where none is needed");
}

/* A default route leads to any address: that is no word about IPUs. */
static void test_belongs(void)
{
	static const struct {
		const char *name;
		enum fabric_need need;
		const char *gateway, *device;
		bool local, down, want;
	} rows[] = {
		{"route, on the link", FABRIC_RDMA_ROUTE, "", "mlx5_0", .want = true},
		{"route, by a gateway", FABRIC_RDMA_ROUTE, "10.9.0.1", "mlx5_0", .want = true},
		{"route, without an RDMA port", FABRIC_RDMA_ROUTE, "10.9.0.1", "", .want = false},
		{"any, on the link", FABRIC_RDMA_ANY, "", "", .want = true},
		{"any, by a gateway", FABRIC_RDMA_ANY, "10.9.0.1", "", .want = false},
		{"any, by a gateway through a port", FABRIC_RDMA_ANY, "10.9.0.1", "mlx5_0"},
		{"none, on the link", FABRIC_RDMA_NONE, "", "", .want = true},
		{"none, on a link that is down", FABRIC_RDMA_NONE, "", "", .down = true},
		{"none, by a gateway", FABRIC_RDMA_NONE, "10.9.0.1", "", .want = false},
		{"none, of IPv6", FABRIC_RDMA_NONE, "fe80::1", "", .want = false},
		{"none, on this machine", FABRIC_RDMA_NONE, "", "", .local = true, .want = true},
	};
	struct world w;

	for (size_t i = 0; i < COUNT(rows); i++) {
		make_world(&w);
		add_reach(&w, 0, "one:8090", "eth2", rows[i].device);
		snprintf(w.reach[0].gateway, sizeof(w.reach[0].gateway), "%s", rows[i].gateway);
		w.reach[0].local = rows[i].local;
		w.reach[0].up = !rows[i].down;
		ok(fabric_belongs(&w.facts, rows[i].need, 0) == rows[i].want, "belongs: %s",
		   rows[i].name);
	}
}

/* Longest names everywhere: the message is cut, not overrun. */
static void test_long_names(void)
{
	struct fabric_verdict verdict;
	struct world w;

	make_world(&w);
	memset(w.reach[0].controller, 'c', sizeof(w.reach[0].controller) - 1);
	memset(w.reach[0].link, 'l', sizeof(w.reach[0].link) - 1);
	memset(w.devices[0].name, 'd', sizeof(w.devices[0].name) - 1);
	memset(w.reach[0].rdma_device, 'd', sizeof(w.reach[0].rdma_device) - 1);
	memset(w.runtimes[0].name, 'r', sizeof(w.runtimes[0].name) - 1);
	w.runtimes[0].memlock_bytes = UINT64_MAX - 1;
	w.facts.n_reach = 1;
	judge(&w, &verdict);
	is_str(verdict.id, "memory-low", "long names are judged as others are");
	ok(strlen(verdict.message) < sizeof(verdict.message), "the message fits");
	w.ports[0].state = RDMA_PORT_ACTIVE_DEFER + 1;
	judge(&w, &verdict);
	is_str(verdict.id, "port-down", "a state that isn't known isn't up");
}

int main(void)
{
	test_rows();
	test_rdma();
	test_reaches();
	test_belongs();
	test_long_names();
	return done_testing();
}
