/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-sim: a simulated Kubernetes and V-IPU controllers in one process, wired together here.
 * Its files appear when everything listens.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/rand.h"
#include "core/str.h"
#include "net/net.h"
#include "net/tls.h"
#include "sim/admin.h"
#include "sim/api.h"
#include "sim/certificate.h"
#include "sim/files.h"
#include "sim/kubelet.h"
#include "sim/options.h"
#include "sim/run.h"
#include "sim/schema.h"
#include "sim/vipu_sim.h"

#define SLOW_TURN_MS    100
#define HELD_BYTES      (8 << 20) /* of free memory; less of it isn't given back */
#define EXIT_CANT_GO_ON 1
#define EXIT_BAD_INPUT  2

struct program {
	const struct sim_options *options;
	struct loop *loop;
	struct net *net;
	struct sim_objects *objects;
	struct sim_schema *schema;
	struct sim_api *api;
	struct sim_run *run;
	struct sim_kubelet *kubelet;
	struct vipu_sim **vipu;
	size_t n_vipu;
	struct http_server *server;
	struct sim_admin admin;
	struct tls_config *tls;
	struct loop_signal sigterm, sigint;
	char api_host[NET_HOST_SIZE]; /* for the kubeconfig */
	char token[65];
	char *cert_pem;
	unsigned api_port, plain_port, admin_port;
};

/* ---- V-IPU controllers ---- */

/* The i-th one's address: the ports follow one another, where one is given. */
static int vipu_address(const char *first, unsigned i, char ret_z[NET_HOST_SIZE + 16],
			struct err *err)
{
	char host[NET_HOST_SIZE];
	uint16_t port;

	if (net_split_host_port(first, 0, host, &port, err) < 0)
		return err_wrap(err, "--vipu-listen");
	if (port && port + i > UINT16_MAX)
		return err_set(err, ERR_INVALID, 0,
			       "--vipu-listen: there are no %u ports behind %u", i, port);
	snprintf(ret_z, NET_HOST_SIZE + 16, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		 port ? port + i : 0);
	return 0;
}

static int set_faults(struct vipu_sim *vipu, const struct sim_texts *faults, struct err *err)
{
	for (size_t i = 0; i < faults->n; i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;

		if (json_parse(str_of(faults->items[i]), &doc, err) < 0 ||
		    vipu_sim_inject_json(vipu, json_root(doc), err) < 0)
			return err_wrap(err, "--vipu-fault");
	}
	return 0;
}

/* "[N:]JSON": without N, for all. */
static int set_secure(const struct program *p, struct str text, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct str head, rest;
	int64_t only = -1;

	if (!str_has_prefix(text, STR("{")) && str_cut(text, ':', &head, &rest)) {
		if (str_to_int(head, 0, (int64_t)p->n_vipu - 1, &only, NULL) < 0)
			return err_set(err, ERR_INVALID, 0, "there is no controller %.*s",
				       STR_ARG(head));
		text = rest;
	}
	if (json_parse(text, &doc, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_vipu; i++)
		if ((only < 0 || (size_t)only == i) &&
		    vipu_sim_secure(p->vipu[i], json_root(doc), err) < 0)
			return -1;
	return 0;
}

static int make_vipu(struct program *p, struct err *err)
{
	const struct sim_options *o = p->options;

	p->vipu = xcalloc(o->controllers, sizeof(struct vipu_sim *));
	for (unsigned i = 0; i < o->controllers; i++) {
		char addr[NET_HOST_SIZE + 16];
		struct vipu_sim_config c = {.addr = addr, .agents = o->agents};

		if (vipu_address(o->vipu_listen, i, addr, err) < 0)
			return -1;
		if (vipu_sim_new(p->net, &c, &p->vipu[i], err) < 0)
			return err_wrap(err, "V-IPU controller %u", i);
		vipu_sim_set_delays(p->vipu[i], o->create_ms, o->reset_ms, o->remove_ms);
		p->n_vipu++;
		if (set_faults(p->vipu[i], &o->vipu_faults, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < o->vipu_secure.n; i++)
		if (set_secure(p, str_of(o->vipu_secure.items[i]), err) < 0)
			return err_wrap(err, "--vipu-secure");
	return 0;
}

/* ---- Kubernetes ---- */

static void make_namespace(struct sim_api *api, const char *name)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *status = jmut_object(doc);
	struct jmut *labels = jmut_object(doc);

	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "Namespace");
	jmut_set_str(doc, labels, "kubernetes.io/metadata.name", name);
	jmut_set_str(doc, meta, "name", name);
	jmut_set(doc, meta, "labels", labels);
	jmut_set(doc, root, "metadata", meta);
	jmut_set_str(doc, status, "phase", "Active");
	jmut_set(doc, root, "status", status);
	sim_api_create(api, sim_resource_find(STR(""), STR("namespaces")), doc, root);
}

static void make_token(char ret_z[65])
{
	uint8_t bytes[32];

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret_z);
}

static int load_schema(struct program *p, struct err *err)
{
	CLEANUP_FREE char *found = NULL;

	if (!p->options->crd && sim_crd_find(&found, err) < 0)
		return -1;
	return sim_schema_load(p->options->crd ? p->options->crd : found, &p->schema, err);
}

static int set_pods(struct program *p, struct err *err)
{
	const struct sim_texts *list = &p->options->pod_settings;

	for (size_t i = 0; i < list->n; i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;

		if (json_parse(str_of(list->items[i]), &doc, err) < 0 ||
		    sim_kubelet_set(p->kubelet, json_root(doc), err) < 0)
			return err_wrap(err, "--pods");
	}
	return 0;
}

static int make_kubernetes(struct program *p, struct err *err)
{
	const struct sim_options *o = p->options;
	struct sim_kubelet_config kc = {
		.loop = p->loop,
		.nodes = o->nodes,
		.node_labels = o->node_labels.items,
		.n_node_labels = o->node_labels.n,
		.behaviour = o->pods,
	};
	struct sim_run_config rc = {
		.loop = p->loop,
		.programs = o->programs.items,
		.n_programs = o->programs.n,
	};

	if (load_schema(p, err) < 0)
		return -1;
	make_token(p->token);
	p->objects = sim_objects_new();
	p->api = sim_api_new(p->loop, p->objects, p->schema, p->token);
	sim_api_use_net(p->api, p->net);
	make_namespace(p->api, "default");
	make_namespace(p->api, "kube-system");
	make_namespace(p->api, "ipu-operator");
	rc.objects = p->objects;
	rc.api = p->api;
	if (sim_run_new(&rc, &p->run, err) < 0)
		return err_wrap(err, "--program");
	sim_api_use_run(p->api, p->run);
	kc.run = p->run;
	kc.objects = p->objects;
	kc.api = p->api;
	if (sim_kubelet_new(&kc, &p->kubelet, err) < 0)
		return err_wrap(err, "--node-label");
	return set_pods(p, err);
}

/* ---- listeners and files ---- */

/* A host that clients on this machine reach: that of the option, or loopback for "all". */
static int client_host(const char *listen, char ret_host[NET_HOST_SIZE], struct err *err)
{
	uint16_t port;

	if (net_split_host_port(listen, 0, ret_host, &port, err) < 0)
		return err_wrap(err, "--api-listen");
	if (!ret_host[0] || strcmp(ret_host, "0.0.0.0") == 0)
		snprintf(ret_host, NET_HOST_SIZE, "127.0.0.1");
	else if (strcmp(ret_host, "::") == 0)
		snprintf(ret_host, NET_HOST_SIZE, "::1");
	return 0;
}

static int make_tls(struct program *p, struct err *err)
{
	/* As kube-apiserver has it. */
	static const char *const alpn[] = {"h2", "http/1.1", NULL};
	char *key = NULL;
	struct tls_server_opts opts = {.alpn = alpn};
	int result;

	if (client_host(p->options->api_listen, p->api_host, err) < 0 ||
	    sim_certificate_make(p->api_host, &p->cert_pem, &key, err) < 0)
		return -1;
	opts.cert_pem = str_of(p->cert_pem);
	opts.key_pem = str_of(key);
	result = tls_config_new_server(&opts, &p->tls, err);
	str_wipe(key, strlen(key));
	free(key);
	return result;
}

static int listen_on(struct program *p, const char *option, const char *addr,
		     struct tls_config *tls, http_handler_fn *handler, void *arg,
		     unsigned *ret_port, struct err *err)
{
	if (http_server_listen(p->server, addr, tls, handler, arg, ret_port, err) < 0)
		return err_wrap(err, "%s", option);
	return 0;
}

static int make_listeners(struct program *p, struct err *err)
{
	const struct sim_options *o = p->options;
	struct http_server_config config = {.name = "sim"};

	p->server = http_server_new(p->net, &config);
	p->admin = (struct sim_admin){
		.objects = p->objects,
		.api = p->api,
		.kubelet = p->kubelet,
		.vipu = p->vipu,
		.n_vipu = p->n_vipu,
	};
	if (p->api && (make_tls(p, err) < 0 ||
		       listen_on(p, "--api-listen", o->api_listen, p->tls, sim_api_handle, p->api,
				 &p->api_port, err) < 0 ||
		       listen_on(p, "--api-plain-listen", o->plain_listen, NULL, sim_api_handle,
				 p->api, &p->plain_port, err) < 0))
		return -1;
	if (p->run)
		sim_run_set_api(p->run, p->api_host, p->api_port, p->cert_pem);
	return listen_on(p, "--admin-listen", o->admin_listen, NULL, sim_admin_handle, &p->admin,
			 &p->admin_port, err);
}

static int write_json(const struct program *p, struct err *err)
{
	struct buf b = BUF_INIT(16384);
	int result;

	buf_printf(&b, NULL, "{\"api\":%u,\"api-plain\":%u,\"admin\":%u,\"vipu\":[", p->api_port,
		   p->plain_port, p->admin_port);
	for (size_t i = 0; i < p->n_vipu; i++)
		buf_printf(&b, NULL, "%s%u", i ? "," : "", vipu_sim_port(p->vipu[i]));
	buf_printf(&b, NULL, "]}\n");
	result = sim_file_write(p->options->dir, "ports.json", buf_str(&b), err);
	buf_done(&b);
	return result;
}

static int write_lines(const struct program *p, struct err *err)
{
	struct buf b = BUF_INIT(16384);
	int result;

	if (p->api)
		buf_printf(&b, NULL, "api %u\napi-plain %u\n", p->api_port, p->plain_port);
	buf_printf(&b, NULL, "admin %u\n", p->admin_port);
	for (size_t i = 0; i < p->n_vipu; i++)
		buf_printf(&b, NULL, "vipu%zu %u\n", i, vipu_sim_port(p->vipu[i]));
	result = sim_file_write(NULL, p->options->ports_file, buf_str(&b), err);
	buf_done(&b);
	return result;
}

/* What a controller's callers need, as files: the end-point that shows it, cut into its parts. */
static int write_secure(const struct program *p, size_t i, struct err *err)
{
	static const struct {
		const char *key, *file;
	} parts[] = {{"ca", "ca"}, {"cert", "client"}, {"key", "client-key"}};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const struct json *v = jmut_view(vipu_sim_secure_to_json(p->vipu[i], doc));

	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		CLEANUP_FREE char *name = xasprintf("vipu%zu-%s.pem", i, parts[k].file);
		struct str pem = json_str(json_get(v, parts[k].key));

		if (pem.p && sim_file_write(p->options->dir, name, pem, err) < 0)
			return -1;
	}
	return 0;
}

static int write_dir(const struct program *p, struct err *err)
{
	const char *dir = p->options->dir;
	CLEANUP_FREE char *text = sim_kubeconfig_text(p->api_host, p->api_port, p->cert_pem,
						      p->token);

	if (sim_dir_make(dir, err) < 0 ||
	    sim_file_write(dir, "kubeconfig", str_of(text), err) < 0 ||
	    sim_file_write(dir, "token", str_of(p->token), err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_vipu; i++)
		if (write_secure(p, i, err) < 0)
			return -1;
	return write_json(p, err);
}

/* Nothing half-done stays: a folder that holds other things does. */
static void remove_dir(const char *dir, size_t n_vipu)
{
	static const char *const names[] = {"kubeconfig", "token", "ports.json"};
	static const char *const parts[] = {"ca", "client", "client-key"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", dir, names[i]);

		(void)unlink(path);
	}
	for (size_t i = 0; i < 3 * n_vipu; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/vipu%zu-%s.pem", dir, i / 3, parts[i % 3]);

		(void)unlink(path);
	}
	(void)rmdir(dir);
}

static int write_files(const struct program *p, struct err *err)
{
	const struct sim_options *o = p->options;

	if ((!o->dir || write_dir(p, err) == 0) && (!o->ports_file || write_lines(p, err) == 0))
		return 0;
	if (o->dir)
		remove_dir(o->dir, p->n_vipu);
	return -1;
}

/* ---- life ---- */

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	struct program *p = arg;

	(void)s;
	log_info("sim", NULL, "stopping: signal=%d", signum);
	loop_stop(p->loop, 0);
}

static int begin(struct program *p, struct err *err)
{
	if (loop_new(&p->loop, err) < 0 || net_new(p->loop, &p->net, err) < 0 ||
	    make_vipu(p, err) < 0)
		return -1;
	loop_set_slow_turn_ms(p->loop, SLOW_TURN_MS);
	if (!p->options->vipu_only && make_kubernetes(p, err) < 0)
		return -1;
	if (make_listeners(p, err) < 0)
		return -1;
	loop_signal_start(&p->sigterm, p->loop, SIGTERM, on_signal, p);
	loop_signal_start(&p->sigint, p->loop, SIGINT, on_signal, p);
	if (write_files(p, err) < 0)
		return -1;
	log_info("sim", NULL, "running: api=%u admin=%u controllers=%zu nodes=%u", p->api_port,
		 p->admin_port, p->n_vipu, p->api ? p->options->nodes : 0);
	return 0;
}

static void end(struct program *p)
{
	if (p->sigterm.loop)
		loop_signal_stop(&p->sigterm);
	if (p->sigint.loop)
		loop_signal_stop(&p->sigint);
	if (p->server)
		http_server_free(p->server);
	sim_kubelet_free(p->kubelet);
	sim_api_free(p->api);
	sim_run_free(p->run);
	sim_objects_free(p->objects);
	sim_schema_free(p->schema);
	for (size_t i = 0; i < p->n_vipu; i++)
		vipu_sim_free(p->vipu[i]);
	free(p->vipu);
	tls_config_unref(p->tls);
	free(p->cert_pem);
	net_free(p->net);
	loop_free(p->loop);
}

static int complain(int status, const struct err *err)
{
	fprintf(stderr, "ipu-sim: %s\n", err->msg);
	return status;
}

static int run(const struct sim_options *o)
{
	const char *page = getenv("IPU_CLOCK_PAGE");
	struct program p = {.options = o};
	struct err err;
	int status;

	/* Connections have no room for output while there is none: with many execs it came from the
	 * kernel and went back there with every message, a page fault for each of its pages. */
	mallopt(M_MMAP_THRESHOLD, HELD_BYTES);
	mallopt(M_TRIM_THRESHOLD, HELD_BYTES);
	if (page && clock_use_page(page, &err) < 0)
		return complain(EXIT_BAD_INPUT, &err);
	log_init(o->verbose ? LOG_DEBUG : LOG_INFO, LOG_TEXT, STDERR_FILENO);
	if (begin(&p, &err) < 0)
		status = complain(err.kind == ERR_INVALID || err.kind == ERR_NOT_FOUND
					  ? EXIT_BAD_INPUT
					  : EXIT_CANT_GO_ON,
				  &err);
	else
		status = loop_run(p.loop);
	end(&p);
	return status;
}

int main(int argc, char **argv)
{
	struct sim_options o;
	struct err err;
	int status = 0;

	if (sim_options_parse(argc, argv, &o, &err) < 0)
		return complain(EXIT_BAD_INPUT, &err);
	if (o.help)
		sim_options_print_help();
	else if (o.version)
		printf("ipu-sim %s\n", PACKAGE_VERSION);
	else
		status = run(&o);
	sim_options_done(&o);
	return status;
}
