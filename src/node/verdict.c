/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of doc/design/head-node.md: rules about the machine, then about each controller, then
 * what there is to say when all is well. The first that fits is the answer.
 */
#include "node/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a rule looks at. */
struct sight {
	const struct fabric_facts *facts;
	enum fabric_need need;
	const struct fabric_reach *reach; /* of a controller; NULL: of the machine */
};

struct rule {
	const char *id;
	enum fabric_status status;
	const char *reason;
	bool (*fits)(const struct sight *s);
	void (*say)(const struct sight *s, char *z, size_t size);
};

const char *fabric_status_name(enum fabric_status status)
{
	switch (status) {
	case FABRIC_TRUE:
		return "True";
	case FABRIC_FALSE:
		return "False";
	case FABRIC_UNKNOWN:
		break;
	}
	return "Unknown";
}

/* ---- ports ---- */

static const struct rdma_device *find_device(const struct fabric_facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->rdma.n_devices; i++) {
		if (strcmp(facts->rdma.devices[i].name, name) == 0)
			return &facts->rdma.devices[i];
	}
	return NULL;
}

static bool is_usable(const struct rdma_device *device, const struct rdma_port *port)
{
	return device && port && !device->fatal && rdma_port_is_up(port);
}

/* The machine's first port that can carry traffic; false: none. */
static bool find_active(const struct fabric_facts *facts, const struct rdma_device **ret_device,
			const struct rdma_port **ret_port)
{
	for (size_t i = 0; i < facts->rdma.n_devices; i++) {
		const struct rdma_device *device = &facts->rdma.devices[i];

		for (size_t j = 0; j < device->n_ports; j++) {
			if (!is_usable(device, &device->ports[j]))
				continue;
			*ret_device = device;
			*ret_port = &device->ports[j];
			return true;
		}
	}
	return false;
}

static bool has_active(const struct fabric_facts *facts)
{
	const struct rdma_device *device;
	const struct rdma_port *port;

	return find_active(facts, &device, &port);
}

/* Whether the controller's own interface must have a port. Where the controller is on this very
 * machine, none leads to it. */
static bool needs_port_on_route(const struct sight *s)
{
	return s->need == FABRIC_RDMA_ROUTE && s->reach && !s->reach->local;
}

static bool needs_any_port(const struct sight *s)
{
	return s->need != FABRIC_RDMA_NONE && !needs_port_on_route(s);
}

/* ---- the machine ---- */

static bool is_incomplete(const struct sight *s)
{
	return !s->facts->complete;
}

static void say_incomplete(const struct sight *s, char *z, size_t size)
{
	(void)s;
	snprintf(z, size, "RDMA devices, links and routes are being read");
}

static bool is_rdma(const struct sight *s, enum rdma_status status)
{
	return s->need != FABRIC_RDMA_NONE && s->facts->rdma.status == status;
}

static bool is_unread(const struct sight *s)
{
	return is_rdma(s, RDMA_UNKNOWN) || is_rdma(s, RDMA_FAILED);
}

static bool is_denied(const struct sight *s)
{
	return is_rdma(s, RDMA_NO_PERMISSION);
}

static bool has_no_driver(const struct sight *s)
{
	return is_rdma(s, RDMA_NO_DRIVER);
}

static bool has_no_device(const struct sight *s)
{
	return is_rdma(s, RDMA_NO_DEVICE);
}

static void say_rdma(const struct sight *s, char *z, size_t size)
{
	static const char *const otherwise[] = {
		[RDMA_UNKNOWN] = "RDMA devices haven't been read",
		[RDMA_OK] = "",
		[RDMA_NO_DRIVER] = "the kernel has no RDMA driver loaded (ib_uverbs)",
		[RDMA_NO_DEVICE] = "this machine has no RDMA device",
		[RDMA_NO_PERMISSION] = "RDMA devices may not be opened by this process",
		[RDMA_FAILED] = "RDMA devices can't be read",
	};
	const struct rdma_inventory *rdma = &s->facts->rdma;

	snprintf(z, size, "%s", rdma->error.msg[0] ? rdma->error.msg : otherwise[rdma->status]);
}

static bool has_nothing_to_judge(const struct sight *s)
{
	return s->facts->n_reach == 0 && s->need == FABRIC_RDMA_NONE;
}

static void say_nothing_to_judge(const struct sight *s, char *z, size_t size)
{
	(void)s;
	snprintf(z, size, "no V-IPU controller is configured, and RDMA isn't asked for");
}

/* ---- a controller ---- */

static bool is_unresolved(const struct sight *s)
{
	return s->reach && s->reach->error.kind != ERR_NONE && !s->reach->address[0];
}

static bool has_no_route(const struct sight *s)
{
	return s->reach && s->reach->error.kind != ERR_NONE;
}

static void say_error(const struct sight *s, char *z, size_t size)
{
	snprintf(z, size, "V-IPU controller %s: %s", s->reach->controller,
		 s->reach->error.msg[0] ? s->reach->error.msg : "there is no route to it");
}

static bool is_link_down(const struct sight *s)
{
	return s->reach && !s->reach->local && !s->reach->up;
}

static void say_link_down(const struct sight *s, char *z, size_t size)
{
	snprintf(z, size, "interface %s, which leads to V-IPU controller %s, is down",
		 s->reach->link, s->reach->controller);
}

static bool has_no_rdma_route(const struct sight *s)
{
	return needs_port_on_route(s) && !s->reach->rdma_device[0];
}

static void say_no_rdma_route(const struct sight *s, char *z, size_t size)
{
	snprintf(z, size, "interface %s, which leads to V-IPU controller %s, has no RDMA port",
		 s->reach->link, s->reach->controller);
}

static bool is_port_down(const struct sight *s)
{
	if (needs_any_port(s))
		return !has_active(s->facts);
	return needs_port_on_route(s) &&
	       !is_usable(find_device(s->facts, s->reach->rdma_device),
			  fabric_port(s->facts, s->reach->rdma_device, s->reach->rdma_port));
}

static void say_port_down(const struct sight *s, char *z, size_t size)
{
	const struct rdma_device *device;
	const struct rdma_port *port;

	if (!needs_port_on_route(s)) {
		snprintf(z, size, "no RDMA port of this machine is active");
		return;
	}
	device = find_device(s->facts, s->reach->rdma_device);
	port = fabric_port(s->facts, s->reach->rdma_device, s->reach->rdma_port);
	snprintf(z, size, "RDMA port %s/%u (%s), which leads to V-IPU controller %s, is %s",
		 s->reach->rdma_device, s->reach->rdma_port, s->reach->link, s->reach->controller,
		 !device || !port ? "gone"
		 : device->fatal  ? "of a device that has failed"
				  : rdma_state_name(port->state));
}

/* ---- all is well ---- */

static const struct fabric_runtime *low_runtime(const struct fabric_host *host)
{
	for (size_t i = 0; host->known && i < host->n_runtimes; i++) {
		const struct fabric_runtime *runtime = &host->runtimes[i];

		/* No container is a child of a kubelet's. */
		if (runtime->running && strcmp(runtime->name, "kubelet") != 0 &&
		    runtime->memlock_bytes != FABRIC_UNLIMITED)
			return runtime;
	}
	return NULL;
}

static bool is_memory_low(const struct sight *s)
{
	return s->need != FABRIC_RDMA_NONE && low_runtime(&s->facts->host);
}

static size_t count_unreached(const struct sight *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->facts->n_reach; i++)
		n += !fabric_reaches(s->facts, s->need, i);
	return n;
}

static void say_ready(const struct sight *s, char *z, size_t size)
{
	const struct fabric_reach *r = s->reach;
	const struct rdma_device *device;
	const struct rdma_port *port;
	size_t unreached = count_unreached(s), len;

	if (!r)
		snprintf(z, size, "no V-IPU controller is configured");
	else if (r->local)
		snprintf(z, size, "V-IPU controller %s is on this machine", r->controller);
	else
		snprintf(z, size, "V-IPU controller %s is reached by %s", r->controller, r->link);
	len = strlen(z);
	if (r && needs_port_on_route(s))
		len += (size_t)snprintf(z + len, size - len, ", RDMA port %s/%u is active",
					r->rdma_device, r->rdma_port);
	else if (needs_any_port(s) && find_active(s->facts, &device, &port))
		len += (size_t)snprintf(z + len, size - len, ", RDMA port %s/%u is active",
					device->name, port->number);
	if (unreached && len < size)
		snprintf(z + len, size - len, "; %zu other%s reached from here", unreached,
			 unreached == 1 ? " isn't" : "s aren't");
}

static void say_memory(const struct sight *s, char *z, size_t size)
{
	const struct fabric_runtime *runtime = low_runtime(&s->facts->host);
	size_t len;

	say_ready(s, z, size);
	if (!runtime)
		return;
	len = strlen(z);
	snprintf(z + len, size - len,
		 "; but containers of %s may lock %" PRIu64
		 " KiB of memory only, and RDMA wants it unlimited",
		 runtime->name, runtime->memlock_bytes / 1024);
}

/* ---- the tables ---- */

/* clang-format off */
static const struct rule of_machine[] = {
	{"incomplete", FABRIC_UNKNOWN, "FabricNotRead", is_incomplete, say_incomplete},
	{"rdma-unread", FABRIC_UNKNOWN, "RDMANotRead", is_unread, say_rdma},
	{"rdma-denied", FABRIC_UNKNOWN, "RDMADenied", is_denied, say_rdma},
	{"no-driver", FABRIC_FALSE, "NoRDMADriver", has_no_driver, say_rdma},
	{"no-device", FABRIC_FALSE, "NoRDMADevice", has_no_device, say_rdma},
	{"nothing", FABRIC_UNKNOWN, "NothingToJudge", has_nothing_to_judge, say_nothing_to_judge},
};
static const struct rule of_controller[] = {
	{"unresolved", FABRIC_UNKNOWN, "ControllerNotResolved", is_unresolved, say_error},
	{"no-route", FABRIC_FALSE, "NoRoute", has_no_route, say_error},
	{"no-rdma-route", FABRIC_FALSE, "NoRDMARoute", has_no_rdma_route, say_no_rdma_route},
	{"port-down", FABRIC_FALSE, "RDMAPortDown", is_port_down, say_port_down},
	{"link-down", FABRIC_FALSE, "LinkDown", is_link_down, say_link_down},
};
/* What is said where nothing is wrong: nobody asks these whether they fit. */
static const struct rule low_memory = {"memory-low", FABRIC_TRUE, "LockedMemoryLow", NULL, say_memory};
static const struct rule ready = {"ready", FABRIC_TRUE, "FabricReady", NULL, say_ready};
/* clang-format on */
#define N_RULES(rules) (sizeof(rules) / sizeof((rules)[0]))

static const struct rule *first_of(const struct rule *rules, size_t n, const struct sight *s)
{
	for (size_t i = 0; i < n; i++) {
		if (rules[i].fits(s))
			return &rules[i];
	}
	return NULL;
}

static const struct rule *trouble_of(const struct fabric_facts *facts, enum fabric_need need,
				     const struct fabric_reach *reach)
{
	struct sight s = {facts, need, reach};

	return first_of(of_controller, N_RULES(of_controller), &s);
}

bool fabric_reaches(const struct fabric_facts *facts, enum fabric_need need, size_t i)
{
	return !trouble_of(facts, need, &facts->reach[i]);
}

bool fabric_belongs(const struct fabric_facts *facts, enum fabric_need need, size_t i)
{
	const struct fabric_reach *reach = &facts->reach[i];

	return fabric_reaches(facts, need, i) &&
	       (need == FABRIC_RDMA_ROUTE || reach->local || !reach->gateway[0]);
}

/* Of those that the Node belongs to, all must be well: the worst speaks. */
static const struct rule *judge_own(const struct sight *s, const bool *own,
				    const struct fabric_reach **ret_reach)
{
	const struct rule *worst = NULL;

	*ret_reach = NULL;
	for (size_t i = 0; i < s->facts->n_reach; i++) {
		const struct fabric_reach *reach = &s->facts->reach[i];
		const struct rule *rule;

		if (!own[i])
			continue;
		rule = trouble_of(s->facts, s->need, reach);
		if (!*ret_reach || (rule && (!worst || rule->status > worst->status))) {
			worst = rule;
			*ret_reach = reach;
		}
	}
	return worst;
}

/* It belongs to none yet: one that is well is enough; else, while one is unknown, so is the whole,
 * since that one may be well; else the one that comes nearest speaks. */
static const struct rule *judge_any(const struct sight *s, const struct fabric_reach **ret_reach)
{
	const struct rule *nearest = NULL;

	*ret_reach = NULL;
	for (size_t i = 0; i < s->facts->n_reach; i++) {
		const struct fabric_reach *reach = &s->facts->reach[i];
		const struct rule *rule = trouble_of(s->facts, s->need, reach);

		if (rule && nearest &&
		    (rule->status == nearest->status ? rule <= nearest
						     : rule->status != FABRIC_UNKNOWN))
			continue;
		*ret_reach = reach;
		nearest = rule;
		if (!rule)
			break;
	}
	return nearest;
}

static bool has_own(const struct fabric_facts *facts, const bool *own)
{
	for (size_t i = 0; own && i < facts->n_reach; i++) {
		if (own[i])
			return true;
	}
	return false;
}

static enum fabric_status judge_rdma(const struct fabric_facts *facts)
{
	switch (facts->rdma.status) {
	case RDMA_OK:
		return FABRIC_TRUE;
	case RDMA_NO_DRIVER:
	case RDMA_NO_DEVICE:
		return FABRIC_FALSE;
	case RDMA_UNKNOWN:
	case RDMA_NO_PERMISSION:
	case RDMA_FAILED:
		break;
	}
	return FABRIC_UNKNOWN;
}

void fabric_judge(const struct fabric_facts *facts, const struct fabric_question *question,
		  struct fabric_verdict *ret)
{
	struct sight s = {facts, question->need, NULL};
	const struct rule *rule = first_of(of_machine, N_RULES(of_machine), &s);

	if (!rule && facts->n_reach == 0)
		rule = trouble_of(facts, s.need, NULL);
	else if (!rule && has_own(facts, question->own))
		rule = judge_own(&s, question->own, &s.reach);
	else if (!rule)
		rule = judge_any(&s, &s.reach);
	if (!rule)
		rule = is_memory_low(&s) ? &low_memory : &ready;
	*ret = (struct fabric_verdict){
		.status = rule->status,
		.id = rule->id,
		.reason = rule->reason,
		.complete = facts->complete,
		.rdma = facts->complete ? judge_rdma(facts) : FABRIC_UNKNOWN,
		.has_device = facts->rdma.n_devices > 0,
	};
	rule->say(&s, ret->message, sizeof(ret->message));
}
