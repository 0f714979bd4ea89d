/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the controllers are, then this machine, then the cluster: each as far as it can be had.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/yaml.h"
#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "kube/object.h"
#include "node/macvlan.h"
#include "partition/controllers.h"

#define MACHINE_MS 10000 /* most time for this machine's facts */
#define PAGE       500
/* Of an operator on this machine (daemon/config.h's, which is above ctl). */
#define CONFIG_PATH "/etc/ipu-operator/operator.yaml"

const char *ctl_rdma_network(const struct ctl_options *o)
{
	return o->network ? o->network : MACVLAN_NETWORK;
}

const char *ctl_rdma_network_ns(const struct ctl_options *o)
{
	return o->network_ns ? o->network_ns : MACVLAN_NAMESPACE;
}

/* ---- the controllers ---- */

#define MAX_PROBLEMS 64 /* of all sources together */

static void merge_problems(struct vipu_address_list *all, struct vipu_address_list *more)
{
	size_t room = MAX_PROBLEMS - all->n_problems;
	size_t n = more->n_problems < room ? more->n_problems : room;

	if (n == 0)
		return;
	all->problems = xrealloc(all->problems, (all->n_problems + n) * sizeof(*all->problems));
	for (size_t i = 0; i < n; i++) {
		all->problems[all->n_problems++] = more->problems[i];
		more->problems[i] = (struct vipu_address_problem){.text = NULL};
	}
}

/* Takes those over that aren't there yet, and all that can't be used. */
static void merge(struct vipu_address_list *all, struct vipu_address_list *more)
{
	for (size_t i = 0; i < more->n; i++) {
		bool known = all->n == VIPU_MAX_CONTROLLERS;

		for (size_t j = 0; j < all->n; j++)
			known = known || strcmp(all->items[j].name, more->items[i].name) == 0;
		if (known)
			continue;
		all->items = xrealloc(all->items, (all->n + 1) * sizeof(*all->items));
		vipu_address_copy(&more->items[i], &all->items[all->n++]);
	}
	merge_problems(all, more);
	vipu_address_list_done(more);
}

static void take_list(const struct json *v, struct vipu_address_list *all)
{
	struct vipu_address_list more = {0};

	vipu_address_from_json(v, &more);
	merge(all, &more);
}

/* The keys of an operator's configuration that name controllers. */
static void take_config(const struct json *root, struct vipu_address_list *all)
{
	const struct json *vipu = json_get(root, "vipu");
	const char *server = json_cstr(json_get(vipu, "serverAddr"));
	struct vipu_address_list more = {0};

	if (server && server[0]) {
		bool is_v6 = strchr(server, ':') && server[0] != '[';
		CLEANUP_FREE char *text = xasprintf(
			"%s%s%s:%d", is_v6 ? "[" : "", server, is_v6 ? "]" : "",
			(int)json_int(json_get(vipu, "serverPort"), 8090));

		vipu_address_parse(str_of(text), &more);
		merge(all, &more);
	}
	take_list(json_get(root, "controllers"), all);
}

static int refuse_problems(const char *option, const struct vipu_address_list *all, struct err *err)
{
	if (all->n_problems)
		return err_set(err, ERR_INVALID, 0, "%s: \"%s\": %s", option, all->problems[0].text,
			       all->problems[0].reason);
	return 0;
}

static int take_option(const char *text, struct vipu_address_list *all, struct err *err)
{
	vipu_address_parse(str_of(text), all);
	if (refuse_problems("--controller", all, err) < 0)
		return -1;
	if (all->n == 0)
		return err_set(err, ERR_INVALID, 0, "--controller: \"%s\" names none", text);
	return 0;
}

/* Controllers are added to those that there are. */
static int take_file(const char *path, struct ctl_rdma *r, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;
	const char *folder;

	if (yaml_load(path, &yaml, err) < 0) {
		err->kind = ERR_INVALID;
		err->code = 0;
		return -1;
	}
	if (yaml_len(yaml) == 0)
		return 0;
	take_config(yaml_doc(yaml, 0), &r->controllers);
	folder = json_cstr(json_at(yaml_doc(yaml, 0), "node", "cniFolder", NULL));
	if (folder && folder[0] == '/' && !r->cni_folder)
		r->cni_folder = xstrdup(folder);
	return 0;
}

/* What the command line says goes before. */
static void take_folder(struct ctl_rdma *r, struct ctl_rdma *found)
{
	if (!r->cni_folder)
		r->cni_folder = found->cni_folder;
	else
		free(found->cni_folder);
}

/* That of this machine's own operator, which needn't be there; nobody has named it, so what is
 * wrong with it stops nothing. */
static void take_own_file(const struct ctl_options *o, struct ctl_rdma *r)
{
	CLEANUP_FREE char *path = xasprintf("%s" CONFIG_PATH, o->root ? o->root : "");
	struct ctl_rdma found = {.link = NULL};
	struct err err = ERR_INIT;

	if (access(path, R_OK) < 0)
		return;
	if (take_file(path, &found, &err) < 0)
		fprintf(stderr, "ipuctl: %s is left out: %s\n", path, err.msg);
	if (r->controllers.n == 0)
		merge(&r->controllers, &found.controllers);
	vipu_address_list_done(&found.controllers);
	take_folder(r, &found);
}

static void take_text(const char *text, bool is_config, struct vipu_address_list *all)
{
	CLEANUP_YAML struct yaml *yaml = NULL;

	if (!text || yaml_parse("it", str_of(text), &yaml, NULL) < 0 || yaml_len(yaml) == 0)
		return;
	if (is_config)
		take_config(yaml_doc(yaml, 0), all);
	else
		take_list(yaml_doc(yaml, 0), all);
}

/* What can't be asked is no error here: the cluster's own checks say so. */
static void take_cluster(struct ctl_link *link, const struct ctl_options *o,
			 struct vipu_address_list *all)
{
	CLEANUP_JSON struct json_doc *configs = NULL, *map = NULL;
	struct kube_request list = {.verb = KUBE_LIST,
				    .resource = &KUBE_CONFIGMAPS,
				    .ns = o->ns,
				    .label_selector = CTL_OPERATOR_PODS,
				    .limit = PAGE};
	struct kube_request get = {
		.verb = KUBE_GET, .resource = &KUBE_CONFIGMAPS, .ns = o->ns, .name = o->config_map};
	struct json_iter it;

	if (ctl_link_kube(link, &list, &configs, NULL) == 0) {
		it = json_iter(json_get(json_root(configs), "items"));
		while (json_next(&it))
			take_text(json_cstr(json_at(it.value, "data", "operator.yaml", NULL)), true,
				  all);
	}
	if (ctl_link_kube(link, &get, &map, NULL) == 0)
		take_text(json_cstr(json_at(json_root(map), "data", CONTROLLERS_KEY, NULL)), false,
			  all);
}

static int find_controllers(const struct ctl_options *o, struct ctl_rdma *r, struct err *err)
{
	struct ctl_rdma named = {.link = NULL};

	if (o->cni_folder && o->cni_folder[0] != '/')
		return err_set(err, ERR_INVALID, 0, "--cni-folder: must be an absolute path");
	if (o->cni_folder)
		r->cni_folder = xstrdup(o->cni_folder);
	if (o->controller && take_option(o->controller, &r->controllers, err) < 0)
		return -1;
	if (o->config) {
		if (take_file(o->config, &named, err) < 0)
			return err_wrap(err, "--config");
		take_folder(r, &named);
		if (!o->controller)
			merge(&r->controllers, &named.controllers);
		vipu_address_list_done(&named.controllers);
		return refuse_problems("--config", &r->controllers, err);
	}
	if (!o->controller && r->link)
		take_cluster(r->link, o, &r->controllers);
	take_own_file(o, r);
	return 0;
}

/* ---- this machine ---- */

static void on_changed(void *arg)
{
	struct ctl_rdma *r = arg;

	r->local = fabric_facts(r->fabric);
	if (r->local->complete)
		loop_stop(r->loop, 0);
}

static void on_late(struct loop_timer *timer, void *arg)
{
	(void)timer;
	loop_stop(((struct ctl_rdma *)arg)->loop, 0);
}

/* The facts stay as they are, since the loop doesn't turn any more. */
static int look_here(const struct ctl_options *o, struct ctl_rdma *r, struct err *err)
{
	struct fabric_opts opts = {
		.controllers = &r->controllers, .root = o->root, .cni_folder = r->cni_folder};
	struct loop_timer late;

	if (loop_new(&r->loop, err) < 0 || net_new(r->loop, &r->net, err) < 0)
		return -1;
	r->fabric = fabric_new(r->net, &opts, on_changed, r);
	r->local = fabric_facts(r->fabric);
	loop_timer_init(&late, r->loop, on_late, r);
	loop_timer_start_in(&late, MACHINE_MS);
	if (!r->local->complete)
		loop_run(r->loop);
	loop_timer_stop(&late);
	r->local = fabric_facts(r->fabric);
	return 0;
}

static int check_root(const char *root, struct err *err)
{
	struct stat st;

	if (!root)
		return 0;
	if (root[0] != '/')
		return err_set(err, ERR_INVALID, 0, "--root: must be an absolute path, not \"%s\"",
			       root);
	if (stat(root, &st) < 0)
		return err_set(err, ERR_INVALID, 0, "--root: %s: %s", root, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "--root: %s is no folder", root);
	return 0;
}

int ctl_rdma_gather(const struct ctl_options *o, struct ctl_rdma *ret, struct err *err)
{
	struct ctl_rdma r = {.link = NULL};

	*ret = r;
	if (check_root(o->root, err) < 0)
		return -1;
	if (ctl_link_new_if_any(o, &ret->link, err) < 0 || find_controllers(o, ret, err) < 0 ||
	    look_here(o, ret, err) < 0) {
		ctl_rdma_done(ret);
		return -1;
	}
	return 0;
}

void ctl_rdma_done(struct ctl_rdma *r)
{
	fabric_free(r->fabric);
	net_free(r->net);
	loop_free(r->loop);
	vipu_address_list_done(&r->controllers);
	ctl_link_free(r->link);
	free(r->cni_folder);
	*r = (struct ctl_rdma){.link = NULL};
}

/* ---- the cluster ---- */

static bool is_answer(enum err_kind kind)
{
	return kind == ERR_NONE || kind == ERR_NOT_FOUND || kind == ERR_DENIED;
}

void ctl_rdma_gather_cluster(struct ctl_link *link, const struct ctl_options *o,
			     struct jmut_doc *doc, struct jmut *facts)
{
	static const struct kube_resource attachments = {"k8s.cni.cncf.io", "v1",
							 "network-attachment-definitions",
							 "NetworkAttachmentDefinition", true};
	static const struct kube_resource networks = {"mellanox.com", "v1alpha1", "macvlannetworks",
						      "MacvlanNetwork", false};
	static const struct kube_resource daemonsets = {"apps", "v1", "daemonsets", "DaemonSet",
							true};
	const struct {
		const char *name;
		struct kube_request request;
	} asked[] = {
		{"version", {.verb = KUBE_GET, .path = "/version"}},
		{"multusApi", {.verb = KUBE_GET, .path = "/apis/k8s.cni.cncf.io/v1"}},
		{"whereaboutsApi",
		 {.verb = KUBE_GET, .path = "/apis/whereabouts.cni.cncf.io/v1alpha1"}},
		{"macvlanApi", {.verb = KUBE_GET, .path = "/apis/mellanox.com/v1alpha1"}},
		{"daemonsets", {.verb = KUBE_LIST, .resource = &daemonsets}},
		{"attachment",
		 {.verb = KUBE_GET,
		  .resource = &attachments,
		  .ns = ctl_rdma_network_ns(o),
		  .name = ctl_rdma_network(o)}},
		{"network", {.verb = KUBE_GET, .resource = &networks, .name = ctl_rdma_network(o)}},
		{"nodes", {.verb = KUBE_LIST, .resource = &KUBE_NODES}},
		{"configs",
		 {.verb = KUBE_LIST,
		  .resource = &KUBE_CONFIGMAPS,
		  .ns = o->ns,
		  .label_selector = CTL_OPERATOR_PODS}},
		{"operatorPods",
		 {.verb = KUBE_LIST,
		  .resource = &KUBE_PODS,
		  .ns = o->ns,
		  .label_selector = CTL_OPERATOR_PODS}},
		{"namespace",
		 {.verb = KUBE_GET,
		  .resource = &KUBE_NAMESPACES,
		  .name = ctl_link_namespace(link)}},
	};

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const struct kube_request *request = &asked[i].request;
		enum err_kind kind =
			request->verb == KUBE_LIST
				? ctl_fact_list(link, doc, facts, asked[i].name, request)
				: ctl_fact_ask(link, doc, facts, asked[i].name, request);

		if (i > 0)
			continue;
		jmut_set_bool(doc, facts, "answers", is_answer(kind));
		if (!is_answer(kind))
			return; /* nobody would answer the others either */
	}
}
