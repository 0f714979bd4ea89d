/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For interoperability tests: our V-IPU client as a program (a JSON line in for each call, a JSON
 * line out for each answer), and our simulated controller as one. Owns everything it starts.
 * Uses core, loop, net, grpc, vipu and the simulator.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "grpc/status.h"
#include "loop/loop.h"
#include "net/net.h"
#include "net/tls.h"
#include "sim/vipu_sim.h"
#include "vipu/client.h"

struct options {
	const char *ports_file, *ca, *cert, *key, *server_name, *user, *access;
	const char *fault;
	unsigned create_ms;
	bool parallel;
};

struct peer {
	struct loop *loop;
	struct net *net;
	struct vipu_client *client;
	struct json_doc **lines;
	size_t n_lines, next, answered;
	bool parallel;
};

struct question {
	struct peer *peer;
	size_t index;
	const char *ids[8];
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "vipu-peer: %s: %s\n", what, err ? err->msg : "bad usage");
	exit(2);
}

/* ---- answers as JSON lines ---- */

static void step(struct peer *p);

static void print_answer(struct question *q, const struct err *err, struct jmut_doc *doc,
			 struct jmut *reply)
{
	struct jmut *root = jmut_object(doc);
	struct buf out = BUF_INIT((size_t)64 << 20);
	struct peer *p = q->peer;

	jmut_set_int(doc, root, "call", (int64_t)q->index);
	if (err) {
		struct jmut *e = jmut_object(doc);
		jmut_set_str(doc, e, "kind", err_kind_name(err->kind));
		jmut_set_str(doc, e, "status", grpc_status_name(err->code));
		jmut_set_str(doc, e, "message", err->msg);
		jmut_set_bool(doc, e, "maybeApplied", err->maybe_applied);
		jmut_set(doc, root, "error", e);
	} else {
		jmut_set(doc, root, "reply", reply);
	}
	if (jmut_write(root, JSON_COMPACT, &out, NULL) == 0)
		printf("%.*s\n", (int)out.len, out.p);
	fflush(stdout);
	buf_done(&out);
	jmut_doc_free(doc);
	free(q);
	p->answered++;
	if (p->answered == p->n_lines)
		loop_stop(p->loop, 0);
	else if (!p->parallel)
		step(p);
}

static void on_done(void *arg, const struct err *err)
{
	struct jmut_doc *doc = jmut_doc_new();
	print_answer(arg, err, doc, jmut_object(doc));
}

static void on_text(void *arg, const struct err *err, const char *text)
{
	struct jmut_doc *doc = jmut_doc_new();
	print_answer(arg, err, doc, jmut_strz(doc, text ? text : ""));
}

static void on_partitions(void *arg, const struct err *err, struct vipu_partitions *got)
{
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *arr = jmut_array(doc);

	for (size_t i = 0; got && i < got->n; i++) {
		const struct vipu_partition *p = &got->items[i];
		struct jmut *obj = jmut_object(doc), *ipus = jmut_array(doc);
		jmut_set_str(doc, obj, "id", p->id);
		jmut_set_str(doc, obj, "cluster", p->cluster_id);
		jmut_set_str(doc, obj, "allocation", p->allocation_id);
		jmut_set_str(doc, obj, "ipuof", p->ipuof_server_version);
		jmut_set_str(doc, obj, "ready", vipu_ready_name(p->ready));
		jmut_set_int(doc, obj, "routing", p->routing);
		jmut_set_int(doc, obj, "gw", p->gw_routing);
		jmut_set_str(doc, obj, "sync", vipu_sync_name(p->sync));
		jmut_set_int(doc, obj, "gcds", p->gcds);
		jmut_set_int(doc, obj, "segments", p->segments);
		jmut_set_int(doc, obj, "replicas", p->replicas);
		jmut_set_bool(doc, obj, "reconfigurable", p->reconfigurable);
		for (size_t k = 0; k < p->n_ipus; k++)
			jmut_push(doc, ipus,
				  jmut_strf(doc, "%u/%u/%u/%u", p->ipus[k].domain_topology_id,
					    p->ipus[k].domain_routing_id, p->ipus[k].topology_id,
					    p->ipus[k].routing_id));
		jmut_set(doc, obj, "ipus", ipus);
		jmut_push(doc, arr, obj);
	}
	print_answer(arg, err, doc, arr);
}

static struct jmut *pairs_json(struct jmut_doc *doc, const struct vipu_pair *pairs, size_t n)
{
	struct jmut *obj = jmut_object(doc);

	for (size_t i = 0; i < n; i++)
		jmut_set_str(doc, obj, pairs[i].key, pairs[i].value);
	return obj;
}

static void on_agents(void *arg, const struct err *err, struct vipu_agents *got)
{
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);

	for (size_t i = 0; got && i < got->n; i++) {
		struct jmut *ipus = jmut_object(doc);
		for (size_t k = 0; k < got->items[i].n_ipus; k++) {
			const struct vipu_ipu_attributes *ipu = &got->items[i].ipus[k];
			char id[16];
			snprintf(id, sizeof(id), "%u", ipu->id);
			jmut_set(doc, ipus, id, pairs_json(doc, ipu->pairs, ipu->n_pairs));
		}
		jmut_set(doc, root, got->items[i].name, ipus);
	}
	print_answer(arg, err, doc, root);
}

static void on_status(void *arg, const struct err *err, struct vipu_status *got)
{
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *obj = jmut_object(doc), *errors = jmut_array(doc);

	if (got) {
		for (size_t i = 0; i < got->n_errors; i++)
			jmut_push(doc, errors, jmut_strz(doc, got->errors[i]));
		jmut_set_str(doc, obj, "id", got->id);
		jmut_set_str(doc, obj, "ready", vipu_ready_name(got->ready));
		jmut_set_str(doc, obj, "operation", vipu_operation_name(got->operation));
		jmut_set(doc, obj, "errors", errors);
		jmut_set_int(doc, obj, "maxAutoResets", got->max_auto_resets);
		jmut_set_int(doc, obj, "autoResets", got->auto_resets);
		jmut_set_int(doc, obj, "lastAutoResetMs", got->last_auto_reset_ms);
	}
	print_answer(arg, err, doc, obj);
}

static void on_ipuof(void *arg, const struct err *err, struct vipu_ipuof_config *got)
{
	struct jmut_doc *doc = jmut_doc_new();
	struct jmut *obj = jmut_object(doc), *gcds = jmut_array(doc);

	if (got) {
		jmut_set_int(doc, obj, "routing", got->routing);
		jmut_set_int(doc, obj, "gw", got->gw_routing);
		jmut_set_str(doc, obj, "sync", vipu_sync_name(got->sync));
		jmut_set_bool(doc, obj, "reconfigurable", got->reconfigurable);
		jmut_set_int(doc, obj, "segments", got->segments);
		jmut_set_str(doc, obj, "ipuof", got->ipuof_server_version);
	}
	for (size_t i = 0; got && i < got->n_gcds; i++) {
		CLEANUP_JSON struct json_doc *file = NULL;
		struct buf out = BUF_INIT((size_t)16 << 20);
		if (vipu_gcd_write(&got->gcds[i], &out, NULL) == 0 &&
		    json_parse(buf_str(&out), &file, NULL) == 0)
			jmut_push(doc, gcds, jmut_copy(doc, json_root(file)));
		buf_done(&out);
	}
	jmut_set(doc, obj, "gcds", gcds);
	print_answer(arg, err, doc, obj);
}

/* ---- questions from JSON lines ---- */

static uint32_t number(const struct json *v, const char *key)
{
	return (uint32_t)json_int(json_get(v, key), 0);
}

static void create(struct peer *p, const struct json *v, unsigned deadline_ms, struct question *q)
{
	struct vipu_ipu ipus[4];
	const struct json *list = json_get(v, "ipus");
	struct vipu_create req = {
		.id = json_cstr(json_get(v, "id")),
		.size = number(v, "size"),
		.cluster_id = json_cstr(json_get(v, "cluster")),
		.routing = (enum vipu_routing)number(v, "routing"),
		.gw_routing = (enum vipu_gw_routing)number(v, "gw"),
		.sync = (enum vipu_sync)number(v, "sync"),
		.segments = number(v, "segments"),
		.gcds = number(v, "gcds"),
		.replicas = number(v, "replicas"),
		.reconfigurable = json_bool(json_get(v, "reconfigurable"), false),
		.allocation_id = json_cstr(json_get(v, "allocation")),
		.ipus = ipus,
		.n_ipus = json_len(list) < 4 ? json_len(list) : 4,
		.disable_auto_reset = json_bool(json_get(v, "disableAutoReset"), false),
		.relocatable = json_bool(json_get(v, "relocatable"), false),
	};
	for (size_t i = 0; i < req.n_ipus; i++) {
		uint32_t n = (uint32_t)json_int(json_item(list, i), 0);
		ipus[i] = (struct vipu_ipu){n, n + 1, n + 2, n + 3};
	}
	vipu_create_partition_start(p->client, &req, deadline_ms, on_text, q, NULL);
}

static void ask(struct peer *p, size_t index)
{
	const struct json *v = json_root(p->lines[index]);
	const char *id = json_cstr(json_get(v, "id")), *method = json_cstr(json_get(v, "method"));
	unsigned deadline_ms = (unsigned)json_int(json_get(v, "deadlineMs"), 5000);
	bool force = json_bool(json_get(v, "force"), false);
	bool relocatable = json_bool(json_get(v, "relocatable"), false);
	const struct json *gcd = json_get(v, "gcd"), *agents = json_get(v, "agents");
	struct question *q = xcalloc(1, sizeof(*q));
	size_t n_agents = 0;
	struct err err = ERR_INIT;

	q->peer = p;
	q->index = index;
	if (!method)
		die("a line has no method", NULL);
	for (; n_agents < json_len(agents) && n_agents < 8; n_agents++)
		q->ids[n_agents] = json_cstr(json_item(agents, n_agents));
	if (strcmp(method, "GetVersion") == 0)
		vipu_get_version_start(p->client, deadline_ms, on_text, q, NULL);
	else if (strcmp(method, "ListPartitions") == 0)
		vipu_list_partitions_start(p->client, json_cstr(json_get(v, "allocation")),
					   deadline_ms, on_partitions, q, NULL);
	else if (strcmp(method, "ListIPUAttributes") == 0)
		vipu_list_ipu_attributes_start(p->client, q->ids, n_agents, deadline_ms, on_agents,
					       q, NULL);
	else if (strcmp(method, "CreatePartition") == 0)
		create(p, v, deadline_ms, q);
	else if (strcmp(method, "RemovePartition") == 0)
		vipu_remove_partition_start(p->client, &(struct vipu_remove){id, force},
					    deadline_ms, on_done, q, NULL);
	else if (strcmp(method, "ResetPartition") == 0)
		vipu_reset_partition_start(p->client, &(struct vipu_reset){id, relocatable},
					   deadline_ms, on_done, q, NULL);
	else if (strcmp(method, "GetPartitionIpuofConfig") == 0)
		vipu_get_ipuof_config_start(p->client,
					    &(struct vipu_get_ipuof_config){
						    id, gcd != NULL, (uint32_t)json_int(gcd, 0)},
					    deadline_ms, on_ipuof, q, NULL);
	else if (strcmp(method, "GetPartitionStatus") == 0)
		vipu_get_partition_status_start(p->client, id, deadline_ms, on_status, q, NULL);
	else {
		err_set(&err, ERR_INVALID, 0, "%s", method);
		die("no such method", &err);
	}
}

static void step(struct peer *p)
{
	do
		ask(p, p->next++);
	while (p->parallel && p->next < p->n_lines);
}

static void read_lines(struct peer *p)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	struct err err = ERR_INIT;

	while ((len = getline(&line, &cap, stdin)) > 0) {
		p->lines = xrealloc(p->lines, (p->n_lines + 1) * sizeof(struct json_doc *));
		if (json_parse((struct str){line, (size_t)len}, &p->lines[p->n_lines], &err) < 0)
			die("a line isn't JSON", &err);
		p->n_lines++;
	}
	free(line);
}

/* ---- TLS ---- */

static char *read_file(const char *path)
{
	char *text = xcalloc(1, 65536);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = ERR_INIT;

	err_set(&err, ERR_IO, 0, "can't be read");
	if (fd < 0 || read(fd, text, 65535) <= 0)
		die(path, &err);
	close(fd);
	return text;
}

static struct tls_config *client_tls(const struct options *o)
{
	static const char *const alpn[] = {"h2", NULL};
	struct tls_client_opts opts = {.ca_file = o->ca, .alpn = alpn};
	struct tls_config *tls = NULL;
	struct err err = ERR_INIT;

	if (o->ca && tls_config_new_client(&opts, &tls, &err) < 0)
		die("TLS", &err);
	return tls;
}

static struct tls_config *server_tls(const struct options *o)
{
	static const char *const alpn[] = {"h2", NULL};
	struct tls_config *tls = NULL;
	struct err err = ERR_INIT;

	if (!o->cert)
		return NULL;
	CLEANUP_FREE char *cert = read_file(o->cert);
	CLEANUP_FREE char *key = read_file(o->key);
	struct tls_server_opts opts = {
		.cert_pem = str_of(cert), .key_pem = str_of(key), .alpn = alpn};
	if (tls_config_new_server(&opts, &tls, &err) < 0)
		die("TLS", &err);
	return tls;
}

/* ---- the two programs ---- */

static int run_calls(struct peer *p, const struct options *o, const char *address)
{
	struct vipu_client_config config = {
		.tls = client_tls(o),
		.server_name = o->server_name,
		.user = o->user,
		.access = o->access,
	};
	char host[NET_HOST_SIZE];
	struct err err = ERR_INIT;
	int status = 0;

	if (net_split_host_port(address, VIPU_DEFAULT_PORT, host, &config.port, &err) < 0)
		die(address, &err);
	config.host = host;
	read_lines(p);
	p->parallel = o->parallel;
	p->client = vipu_client_new(p->net, &config);
	tls_config_unref(config.tls);
	if (p->n_lines > 0) {
		step(p);
		status = loop_run(p->loop);
	}
	vipu_client_free(p->client);
	for (size_t i = 0; i < p->n_lines; i++)
		json_doc_free(p->lines[i]);
	free(p->lines);
	return status;
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	(void)s;
	(void)signum;
	loop_stop(arg, 0);
}

static int run_server(struct peer *p, const struct options *o)
{
	struct vipu_sim_config config = {
		.tls = server_tls(o),
		.user = o->user,
		.access = o->access,
		.create_ms = o->create_ms,
		.agents = 32,
		.allocation = "pool",
	};
	struct vipu_sim *sim = NULL;
	struct loop_signal term;
	struct err err = ERR_INIT;

	if (vipu_sim_new(p->net, &config, &sim, &err) < 0)
		die("the simulator", &err);
	tls_config_unref(config.tls);
	if (o->fault) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		if (json_parse(str_of(o->fault), &doc, &err) < 0)
			die("--fault", &err);
		struct json_iter it = json_iter(json_root(doc));
		while (json_next(&it))
			if (vipu_sim_inject_json(sim, it.value, &err) < 0)
				die("--fault", &err);
	}
	FILE *ports = fopen(o->ports_file, "w");
	if (!ports)
		die("--ports-file", NULL);
	fprintf(ports, "vipu %u\n", vipu_sim_port(sim));
	fclose(ports);
	loop_signal_start(&term, p->loop, SIGTERM, on_signal, p->loop);
	int status = loop_run(p->loop);
	loop_signal_stop(&term);
	vipu_sim_free(sim);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"ports-file", required_argument, NULL, 'p'},
		{"ca", required_argument, NULL, 'C'},
		{"cert", required_argument, NULL, 'c'},
		{"key", required_argument, NULL, 'k'},
		{"server-name", required_argument, NULL, 'n'},
		{"user", required_argument, NULL, 'u'},
		{"access", required_argument, NULL, 'a'},
		{"fault", required_argument, NULL, 'f'},
		{"create-ms", required_argument, NULL, 'm'},
		{"parallel", no_argument, NULL, 'P'},
		{NULL, 0, NULL, 0},
	};
	struct options o = {.create_ms = 100};
	struct peer p = {0};
	struct err err = ERR_INIT;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			o.ports_file = optarg;
			break;
		case 'C':
			o.ca = optarg;
			break;
		case 'c':
			o.cert = optarg;
			break;
		case 'k':
			o.key = optarg;
			break;
		case 'n':
			o.server_name = optarg;
			break;
		case 'u':
			o.user = optarg;
			break;
		case 'a':
			o.access = optarg;
			break;
		case 'f':
			o.fault = optarg;
			break;
		case 'm':
			o.create_ms = (unsigned)atoi(optarg);
			break;
		case 'P':
			o.parallel = true;
			break;
		default:
			die("options", NULL);
		}
	}
	const char *page = getenv("IPU_CLOCK_PAGE");
	log_init(LOG_WARN, LOG_TEXT, 2);
	if ((page && clock_use_page(page, &err) < 0) || loop_new(&p.loop, &err) < 0 ||
	    net_new(p.loop, &p.net, &err) < 0)
		die("start", &err);
	int status = o.ports_file    ? run_server(&p, &o)
		     : optind < argc ? run_calls(&p, &o, argv[optind])
				     : 2;
	net_free(p.net);
	loop_free(p.loop);
	return status;
}
