/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: shows what a node knows of its fabric, a JSON line at each change, until it is told to
 * end; with --once only when all has been looked at. SIGHUP reads the list of controllers again.
 * With --to=ADDRESS it shows once how that is reached by a machine whose RDMA ports are those named
 * by --port=DEVICE/NUMBER=LINK, with "!" behind one that is down.
 * Owns everything it starts. Uses core, loop, net, vipu, node.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "loop/loop.h"
#include "net/net.h"
#include "node/fabric.h"
#include "node/reach.h"

#define LINE_BYTES ((size_t)16 << 20)
#define LIST_BYTES ((size_t)1 << 20)
#define MAX_PORTS  16

struct options {
	const char *list_file; /* a file with the flat list of controllers */
	const char *dns;
	const char *to;
	bool once;
	struct rdma_device devices[MAX_PORTS];
	size_t n_devices;
	struct fabric_opts fabric;
};

struct watch {
	struct loop *loop;
	struct fabric *fabric;
	const struct options *options;
	struct loop_signal term, hup;
};

__attribute__((noreturn)) static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "fabric-watch: %s%s%s\n", what, err ? ": " : "", err ? err->msg : "");
	exit(2);
}

static void set_limit(struct jmut_doc *doc, struct jmut *obj, const char *key, uint64_t bytes)
{
	if (bytes == FABRIC_UNLIMITED)
		jmut_set_str(doc, obj, key, "unlimited");
	else
		jmut_set_int(doc, obj, key, (int64_t)bytes);
}

static struct jmut *reach_json(struct jmut_doc *doc, const struct fabric_reach *r)
{
	struct jmut *o = jmut_object(doc);

	jmut_set_str(doc, o, "controller", r->controller);
	jmut_set_str(doc, o, "address", r->address);
	if (r->error.kind != ERR_NONE) {
		jmut_set_str(doc, o, "error", r->error.msg);
		jmut_set_str(doc, o, "kind", err_kind_name(r->error.kind));
		return o;
	}
	jmut_set_str(doc, o, "link", r->link);
	jmut_set_str(doc, o, "link_kind", r->kind);
	jmut_set_str(doc, o, "source", r->source);
	jmut_set_str(doc, o, "gateway", r->gateway);
	jmut_set_str(doc, o, "subnet", r->subnet);
	jmut_set_int(doc, o, "mtu", r->mtu_bytes);
	jmut_set_bool(doc, o, "up", r->up);
	jmut_set_bool(doc, o, "enabled", r->enabled);
	jmut_set_bool(doc, o, "local", r->local);
	jmut_set_str(doc, o, "rdma_device", r->rdma_device);
	jmut_set_int(doc, o, "rdma_port", r->rdma_port);
	jmut_set_str(doc, o, "rdma_link", r->rdma_link);
	return o;
}

static struct jmut *runtime_json(struct jmut_doc *doc, const struct fabric_runtime *r)
{
	struct jmut *o = jmut_object(doc);

	jmut_set_bool(doc, o, "installed", r->installed);
	jmut_set_bool(doc, o, "running", r->running);
	if (r->running) {
		jmut_set_int(doc, o, "pid", r->pid);
		set_limit(doc, o, "memlock", r->memlock_bytes);
	}
	if (r->unit_sets_memlock) {
		set_limit(doc, o, "unit_memlock", r->unit_memlock_bytes);
		jmut_set_bool(doc, o, "default_ulimit", r->default_ulimit);
	}
	jmut_set_str(doc, o, "unit", r->unit);
	return o;
}

static struct jmut *host_json(struct jmut_doc *doc, const struct fabric_host *h)
{
	struct jmut *o = jmut_object(doc), *runtimes = jmut_object(doc), *modules, *cni;

	modules = jmut_array(doc);
	cni = jmut_object(doc);
	set_limit(doc, o, "memlock", h->memlock_bytes);
	jmut_set_int(doc, o, "hugepages_total", (int64_t)h->hugepages_total);
	jmut_set_int(doc, o, "hugepages_free", (int64_t)h->hugepages_free);
	jmut_set_int(doc, o, "hugepage_bytes", (int64_t)h->hugepage_bytes);
	for (size_t i = 0; i < h->n_runtimes; i++)
		jmut_set(doc, runtimes, h->runtimes[i].name, runtime_json(doc, &h->runtimes[i]));
	jmut_set(doc, o, "runtimes", runtimes);
	for (size_t i = 0; i < h->n_modules; i++) {
		if (h->modules[i].loaded)
			jmut_push(doc, modules, jmut_strz(doc, h->modules[i].name));
	}
	jmut_set(doc, o, "modules", modules);
	jmut_set_bool(doc, cni, "known", h->cni_known);
	jmut_set_bool(doc, cni, "multus", h->cni_multus);
	jmut_set_bool(doc, cni, "multus_folder", h->cni_multus_folder);
	jmut_set_bool(doc, cni, "whereabouts", h->cni_whereabouts);
	jmut_set_str(doc, cni, "folder", h->cni_folder);
	jmut_set(doc, o, "cni", cni);
	return o;
}

static void print_facts(const struct fabric_facts *facts)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *reach = jmut_array(doc);
	struct buf out = BUF_INIT(LINE_BYTES);

	jmut_set_int(doc, root, "at_ms", clock_wall_ms());
	jmut_set_bool(doc, root, "complete", facts->complete);
	for (size_t i = 0; i < facts->n_reach; i++)
		jmut_push(doc, reach, reach_json(doc, &facts->reach[i]));
	jmut_set(doc, root, "reach", reach);
	jmut_set_int(doc, root, "rdma_status", facts->rdma.status);
	if (facts->host.known)
		jmut_set(doc, root, "host", host_json(doc, &facts->host));
	if (jmut_write(root, JSON_COMPACT, &out, NULL) < 0)
		die("a line is too long", NULL);
	printf("%.*s\n", STR_ARG(buf_str(&out)));
	fflush(stdout);
	buf_done(&out);
}

static void on_changed(void *arg)
{
	struct watch *w = arg;
	const struct fabric_facts *facts = fabric_facts(w->fabric);

	if (w->options->once && !facts->complete)
		return;
	print_facts(facts);
	if (w->options->once)
		loop_stop(w->loop, 0);
}

static void on_term(struct loop_signal *s, int signum, void *arg)
{
	struct watch *w = arg;

	(void)s;
	(void)signum;
	loop_stop(w->loop, 0);
}

static void read_list(const char *path, struct vipu_address_list *ret)
{
	struct buf text = BUF_INIT(LIST_BYTES);
	FILE *in = path ? fopen(path, "re") : NULL;
	char piece[4096];
	size_t n;

	while (in && (n = fread(piece, 1, sizeof(piece), in)) > 0)
		(void)buf_append(&text, piece, n, NULL);
	if (in)
		fclose(in);
	vipu_address_parse(buf_str(&text), ret);
	buf_done(&text);
}

static void on_hup(struct loop_signal *s, int signum, void *arg)
{
	struct watch *w = arg;
	struct vipu_address_list list;

	(void)s;
	(void)signum;
	read_list(w->options->list_file, &list);
	fabric_set_controllers(w->fabric, &list);
	vipu_address_list_done(&list);
}

/* "mlx5_0/1=eth1", "mlx5_0/1=eth1!": a device of its own for each. */
static void add_port(struct options *o, const char *text)
{
	struct str device, rest, number, link;
	struct rdma_device *d = &o->devices[o->n_devices++];
	int64_t n;

	if (o->n_devices > MAX_PORTS || !str_cut(str_of(text), '/', &device, &rest) ||
	    !str_cut(rest, '=', &number, &link) || str_to_int(number, 1, 255, &n, NULL) < 0)
		die("bad usage", NULL);
	d->ports = xcalloc(1, sizeof(*d->ports));
	d->n_ports = 1;
	d->ports->number = (unsigned)n;
	d->ports->state = str_has_suffix(link, STR("!")) ? RDMA_PORT_DOWN : RDMA_PORT_ACTIVE;
	link.len -= d->ports->state == RDMA_PORT_DOWN;
	snprintf(d->name, sizeof(d->name), "%.*s", STR_ARG(device));
	snprintf(d->ports->netdev, sizeof(d->ports->netdev), "%.*s", STR_ARG(link));
}

static void on_links(void *arg)
{
	(void)arg;
}

static int print_reach(struct loop *loop, struct options *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct rdma_inventory rdma = {.devices = o->devices, .n_devices = o->n_devices};
	struct links *links = links_new(loop, on_links, NULL);
	struct buf out = BUF_INIT(LINE_BYTES);
	struct fabric_reach reach;
	struct net_addr addr;
	struct nl_ip to = {.family = AF_INET};
	int link;

	if (net_addr_parse(o->to, 0, &addr) < 0 || addr.sa.sa_family != AF_INET)
		die("bad usage", NULL);
	memcpy(to.bytes, &addr.in.sin_addr, 4);
	(void)reach_find(links, &to, 0, &rdma, &reach, &link);
	if (jmut_write(reach_json(doc, &reach), JSON_COMPACT, &out, NULL) < 0)
		die("a line is too long", NULL);
	printf("%.*s\n", STR_ARG(buf_str(&out)));
	buf_done(&out);
	links_free(links);
	for (size_t i = 0; i < o->n_devices; i++)
		free(o->devices[i].ports);
	loop_free(loop);
	return 0;
}

static void parse_options(int argc, char **argv, struct options *ret)
{
	static const struct option names[] = {
		{"list", required_argument, NULL, 'l'},
		{"root", required_argument, NULL, 'r'},
		{"cni", required_argument, NULL, 'c'},
		{"dns", required_argument, NULL, 'd'},
		{"host-ms", required_argument, NULL, 'h'},
		{"once", no_argument, NULL, 'o'},
		{"to", required_argument, NULL, 't'},
		{"port", required_argument, NULL, 'p'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'l':
			ret->list_file = optarg;
			break;
		case 'r':
			ret->fabric.root = optarg;
			break;
		case 'c':
			ret->fabric.cni_folder = optarg;
			break;
		case 'd':
			ret->dns = optarg;
			break;
		case 'h':
			ret->fabric.host_ms = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'o':
			ret->once = true;
			break;
		case 't':
			ret->to = optarg;
			break;
		case 'p':
			add_port(ret, optarg);
			break;
		default:
			die("bad usage", NULL);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct watch w = {.options = &options};
	struct vipu_address_list list;
	struct net *net;
	struct err err;

	parse_options(argc, argv, &options);
	log_init(LOG_DEBUG, LOG_TEXT, STDERR_FILENO);
	if (getenv("IPU_CLOCK_PAGE") && clock_use_page(getenv("IPU_CLOCK_PAGE"), &err) < 0)
		die("starting", &err);
	if (options.to && loop_new(&w.loop, &err) == 0)
		return print_reach(w.loop, &options);
	if (loop_new(&w.loop, &err) < 0 || net_new(w.loop, &net, &err) < 0 ||
	    net_set_dns_servers(net, options.dns, &err) < 0)
		die("starting", &err);
	loop_signal_start(&w.term, w.loop, SIGTERM, on_term, &w);
	loop_signal_start(&w.hup, w.loop, SIGHUP, on_hup, &w);
	read_list(options.list_file, &list);
	options.fabric.controllers = &list;
	w.fabric = fabric_new(net, &options.fabric, on_changed, &w);
	vipu_address_list_done(&list);
	int status = loop_run(w.loop);
	fabric_free(w.fabric);
	loop_signal_stop(&w.term);
	loop_signal_stop(&w.hup);
	net_free(net);
	loop_free(w.loop);
	return status;
}
