/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role node: facts of this machine's fabric, told to the cluster, and as metrics. It needs
 * neither Lease nor certificates, and connects to no V-IPU controller.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "node/fabric.h"
#include "node/publisher.h"

#define NAME_ENV "NODE_NAME"

struct node_role {
	struct daemon *d;
	struct fabric *fabric; /* NULL: whose reach is wanted isn't known yet */
	struct publisher *publisher;
	struct metric *ready, *head, *reached, *ports, *memlock, *hugepages;
};

/* ---- settings ---- */

static enum fabric_need need_of(const struct config *c)
{
	if (strcmp(c->node_rdma, "any") == 0)
		return FABRIC_RDMA_ANY;
	return strcmp(c->node_rdma, "none") == 0 ? FABRIC_RDMA_NONE : FABRIC_RDMA_ROUTE;
}

static struct publish_settings settings_of(const struct config *c)
{
	return (struct publish_settings){
		.labels = c->node_labels,
		.taint = c->node_taint,
		.calm_ms = c->node_calm_s * 1000,
	};
}

/* As the kubelet makes it of the host's: without space around it, in lower case. */
static char *node_name(const struct config *c)
{
	const char *given = getenv(NAME_ENV);
	char host[256] = "", *name;

	if (c->node_name[0])
		return xstrdup(c->node_name);
	if (given && given[0])
		return xstrdup(given);
	(void)gethostname(host, sizeof(host) - 1);
	name = str_dup(str_trim(str_of(host)));
	for (char *p = name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return name;
}

/* ---- metrics ---- */

static void collect_ports(const struct node_role *n, const struct rdma_inventory *rdma)
{
	enum { ACTIVE, DOWN, OTHER, FAILED, STATES };
	static const char *const names[STATES] = {"active", "down", "other", "failed"};
	size_t counts[STATES] = {0};

	for (size_t i = 0; i < rdma->n_devices; i++) {
		const struct rdma_device *device = &rdma->devices[i];

		for (size_t j = 0; j < device->n_ports; j++) {
			const struct rdma_port *port = &device->ports[j];

			counts[device->fatal                   ? FAILED
			       : rdma_port_is_up(port)         ? ACTIVE
			       : port->state == RDMA_PORT_DOWN ? DOWN
							       : OTHER]++;
		}
	}
	for (size_t i = 0; i < STATES; i++)
		metric_set(n->ports, &names[i], (double)counts[i]);
}

static void collect_host(const struct node_role *n, const struct fabric_host *host)
{
	static const char *const total[] = {"total"}, *const free_pages[] = {"free"};

	metric_clear(n->memlock);
	if (!host->known)
		return;
	metric_set(n->hugepages, total,
		   (double)host->hugepages_total * (double)host->hugepage_bytes);
	metric_set(n->hugepages, free_pages,
		   (double)host->hugepages_free * (double)host->hugepage_bytes);
	for (size_t i = 0; i < host->n_runtimes; i++) {
		const struct fabric_runtime *r = &host->runtimes[i];
		const char *values[] = {r->name};

		if (r->running)
			metric_set(n->memlock, values,
				   r->memlock_bytes == FABRIC_UNLIMITED ? (double)INFINITY
									: (double)r->memlock_bytes);
	}
}

static const struct fabric_facts *give_facts(void *arg)
{
	static const struct fabric_facts none;
	const struct node_role *n = arg;

	return n->fabric ? fabric_facts(n->fabric) : &none;
}

static void collect(void *arg)
{
	struct node_role *n = arg;
	const struct fabric_facts *facts = give_facts(n);
	const struct fabric_verdict *verdict = publisher_verdict(n->publisher);

	metric_clear(n->ready);
	metric_clear(n->head);
	metric_clear(n->reached);
	if (!facts->complete)
		return;
	if (verdict->reason && verdict->status != FABRIC_UNKNOWN)
		metric_set(n->ready, NULL, verdict->status == FABRIC_TRUE);
	metric_set(n->head, NULL, publisher_is_head(n->publisher));
	for (size_t i = 0; i < facts->n_reach; i++) {
		const char *values[] = {facts->reach[i].controller};

		metric_set(n->reached, values,
			   fabric_reaches(facts, publisher_need(n->publisher), i));
	}
	collect_ports(n, &facts->rdma);
	collect_host(n, &facts->host);
}

static void register_metrics(struct node_role *n)
{
	static const char *const by_controller[] = {"controller", NULL};
	static const char *const by_state[] = {"state", NULL};
	static const char *const by_runtime[] = {"runtime", NULL};

	n->ready = metric_new(METRIC_GAUGE, "ipu_operator_fabric_ready",
			      "1: this node is on its IPUs' fabric, 0: it isn't.", NULL, NULL, 0);
	n->head = metric_new(METRIC_GAUGE, "ipu_operator_fabric_expected",
			     "1: this is a head node, whose fabric is expected to be there.", NULL,
			     NULL, 0);
	n->reached = metric_new(METRIC_GAUGE, "ipu_operator_fabric_controller_reached",
				"1: this node is on the controller's fabric.", by_controller, NULL,
				0);
	n->ports = metric_new(METRIC_GAUGE, "ipu_operator_rdma_ports",
			      "RDMA ports of this node by state.", by_state, NULL, 0);
	n->memlock = metric_new(METRIC_GAUGE, "ipu_operator_memlock_limit_bytes",
				"Memory that a container runtime's process may lock.", by_runtime,
				NULL, 0);
	n->hugepages = metric_new(METRIC_GAUGE, "ipu_operator_hugepages_bytes",
				  "Huge pages of this node.", by_state, NULL, 0);
	metrics_on_collect(collect, n);
}

/* ---- parts ---- */

static void on_facts(void *arg)
{
	const struct node_role *n = arg;

	publisher_look(n->publisher);
}

/* Complete facts are those with the whole list. */
static void make_fabric(struct node_role *n, const struct vipu_address_list *list)
{
	const struct config *c = n->d->config;
	const struct fabric_opts opts = {
		.controllers = list,
		.root = c->node_root,
		.limits_only = true, /* the verdict asks for no more */
	};

	n->fabric = fabric_new(n->d->net, &opts, on_facts, n);
}

void node_list(void *arg, const struct vipu_address_list *list)
{
	const struct daemon *d = arg;
	struct node_role *n = d->node;

	if (n->fabric)
		fabric_set_controllers(n->fabric, list);
	else
		make_fabric(n, list);
	publisher_set_controllers(n->publisher, list);
}

/* Outside a cluster a context's namespace is a person's, not the operator's. */
static bool knows_ns(const struct daemon *d)
{
	return d->config->operator_ns[0] || (d->ns[0] && kube_config_is_in_cluster(d->kube_config));
}

/* Without the role proxy it's nobody else's. */
static void follow_list(struct daemon *d)
{
	const struct config *c = d->config;
	struct controllers_config list = {
		.ns = d->ns,
		.server = &c->server,
		.list = &c->controllers,
		.file = c->controllers_file,
		.config_map = knows_ns(d) ? c->controllers_config_map : NULL,
		.on_list = node_list,
		.on_list_arg = d,
	};

	d->controllers = controllers_new(d->kube, NULL, NULL, &list, NULL, NULL);
}

bool node_ready(const struct daemon *d, struct err *why)
{
	if (!(d->config->roles & ROLE_PROXY) && controllers_check(d->controllers, why) < 0)
		return false;
	return publisher_ready(d->node->publisher, why);
}

void node_reload(struct daemon *d)
{
	struct publish_settings settings = settings_of(d->config);

	if (d->node)
		publisher_set(d->node->publisher, need_of(d->config), &settings);
}

/* ---- life ---- */

void node_start(struct daemon *d)
{
	const struct config *c = d->config;
	struct node_role *n = xcalloc(1, sizeof(*n));
	CLEANUP_FREE char *name = node_name(c);
	const struct publisher_opts opts = {
		.loop = d->loop,
		.kube = d->kube,
		.recorder = d->recorder,
		.node = name,
		.facts = give_facts,
		.arg = n,
		.need = need_of(c),
		.settings = settings_of(c),
	};

	d->node = n;
	n->d = d;
	n->publisher = publisher_new(&opts);
	register_metrics(n);
	log_info("node", name, "this node");
	if (!(c->roles & ROLE_PROXY))
		follow_list(d);
}

void node_stop(struct daemon *d)
{
	struct node_role *n = d->node;

	if (!n)
		return;
	metrics_off_collect(collect, n);
	publisher_free(n->publisher);
	fabric_free(n->fabric);
	free(n);
	d->node = NULL;
}
