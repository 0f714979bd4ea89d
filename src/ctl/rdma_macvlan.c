/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma macvlan: the manifest of the Pods' network on this machine's RDMA interface, printed or
 * written to the cluster. Written twice it's the same object: what others have put into its labels
 * and annotations stays.
 */
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/yaml.h"
#include "ctl/commands.h"
#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "kube/object.h"
#include "loop/backoff.h"
#include "node/macvlan.h"

#define MAX_TRIES 5
#define MAX_TEXT  ((size_t)1 << 20)

static const struct kube_resource network_resource = {"mellanox.com", "v1alpha1", "macvlannetworks",
						      "MacvlanNetwork", false};
static const struct kube_resource attachment_resource = {"k8s.cni.cncf.io", "v1",
							 "network-attachment-definitions",
							 "NetworkAttachmentDefinition", true};

struct target {
	struct ctl_link *link;
	const struct ctl_options *o;
	const struct kube_resource *resource;
	const char *ns, *name;
};

/* ---- applying ---- */

static struct jmut *merge(struct jmut_doc *doc, const struct json *ours, const struct json *there)
{
	struct jmut *root = jmut_copy(doc, there ? there : ours);

	if (there) {
		jmut_set(doc, root, "spec", jmut_copy(doc, json_get(ours, "spec")));
		jmut_del(root, "status");
	}
	return root;
}

/* One look and one write. *ret_did: what became of it, as kubectl says it. */
static int write_once(const struct target *t, const struct json *ours, const char **ret_did,
		      struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *there = NULL, *written = NULL;
	struct kube_request r = {
		.verb = KUBE_GET, .resource = t->resource, .ns = t->ns, .name = t->name};

	if (ctl_link_kube(t->link, &r, &there, err) < 0 && err->kind != ERR_NOT_FOUND)
		return -1;
	if (there && json_equal(json_get(json_root(there), "spec"), json_get(ours, "spec"))) {
		*ret_did = "unchanged";
		return 0;
	}
	r.verb = there ? KUBE_UPDATE : KUBE_CREATE;
	r.name = there ? t->name : NULL;
	r.json = merge(doc, ours, there ? json_root(there) : NULL);
	r.field_manager = "ipuctl";
	r.dry_run = t->o->dry_run;
	if (ctl_link_kube(t->link, &r, &written, err) < 0)
		return -1;
	*ret_did = there ? "configured" : "created";
	return 0;
}

/* A 404 of a creation: the cluster doesn't know such objects, or not the namespace. */
static int explain(const struct target *t, struct err *err)
{
	if (err->kind == ERR_NOT_FOUND && t->ns && strstr(err->msg, "namespaces"))
		return err_wrap(err, "--network-namespace");
	if (err->kind == ERR_NOT_FOUND && !t->ns)
		return err_set(err, ERR_NOT_FOUND, err->code,
			       "the cluster doesn't know MacvlanNetworks (mellanox.com/v1alpha1): "
			       "install NVIDIA's network operator, or use --attachment");
	if (err->kind == ERR_NOT_FOUND)
		return err_set(err, ERR_NOT_FOUND, err->code,
			       "the cluster doesn't know NetworkAttachmentDefinitions "
			       "(k8s.cni.cncf.io/v1): install Multus");
	return err_wrap(err, "%s %s", t->resource->kind, t->name);
}

/* Somebody else's change in between is no error: look again, at most so often. */
static int apply(const struct target *t, const struct json *ours, struct err *err)
{
	struct backoff backoff = BACKOFF_INIT(50, 1000);
	CLEANUP_FREE char *line = NULL;
	const char *did = NULL;

	for (int tries = 1; write_once(t, ours, &did, err) < 0; tries++) {
		if ((err->kind != ERR_CONFLICT && err->kind != ERR_EXISTS) || tries == MAX_TRIES)
			return explain(t, err);
		ctl_link_pause(t->link, (unsigned)backoff_next_ms(&backoff, err));
	}
	line = xasprintf("%s/%s %s%s\n",
			 t->ns ? "network-attachment-definition.k8s.cni.cncf.io"
			       : "macvlannetwork.mellanox.com",
			 t->name, did, t->o->dry_run ? " (server dry run)" : "");
	return ctl_write_out(str_of(line), err);
}

/* ---- an interface that no controller tells ---- */

static void take_address(const struct ifaddrs *a, const char *link, struct fabric_reach *ret)
{
	struct ctl_rdma_address address;

	if (ret->source[0] || strcmp(a->ifa_name, link) != 0 || !ctl_rdma_address_of(a, &address) ||
	    address.is_link_local)
		return;
	snprintf(ret->source, sizeof(ret->source), "%s", address.text);
	snprintf(ret->subnet, sizeof(ret->subnet), "%s/%u", address.text, address.prefix);
}

/* With its first address, as if a controller were reached through it. */
static int look_at_link(const struct ctl_rdma *r, const char *link, struct fabric_reach *ret,
			struct err *err)
{
	struct ifaddrs *list;

	if (fabric_look_at(r->fabric, link, ret, err) < 0)
		return -1;
	if (getifaddrs(&list) < 0)
		return 0;
	for (const struct ifaddrs *a = list; a; a = a->ifa_next)
		take_address(a, link, ret);
	freeifaddrs(list);
	return 0;
}

static bool is_reached(const struct fabric_facts *facts, const char *link)
{
	for (size_t i = 0; i < facts->n_reach; i++) {
		if (!facts->reach[i].local && strcmp(facts->reach[i].link, link) == 0)
			return true;
	}
	return false;
}

/* ---- addresses of Nodes ---- */

struct nodes {
	struct jmut_doc *doc;
	struct macvlan_used *used;
	size_t n;
};

static void take_node(struct nodes *all, const struct json *node)
{
	struct json_iter it = json_iter(json_at(node, "status", "addresses", NULL));

	while (json_next(&it)) {
		const char *address = json_cstr(json_get(it.value, "address"));

		if (!str_eqz(json_str(json_get(it.value, "type")), "InternalIP") || !address)
			continue;
		all->used = xrealloc(all->used, (all->n + 1) * sizeof(*all->used));
		all->used[all->n].address = address;
		all->used[all->n++].whose = json_cstr(json_at(node, "metadata", "name", NULL));
	}
}

/* Whoever may not list them, or has no cluster, excludes what he knows himself: a comment says so.
 */
static void ask_nodes(const struct ctl_rdma *r, struct nodes *ret)
{
	struct kube_request list = {.verb = KUBE_LIST, .resource = &KUBE_NODES};
	struct jmut *facts;
	struct json_iter it;

	*ret = (struct nodes){.doc = jmut_doc_new()};
	facts = jmut_object(ret->doc);
	if (!r->link || ctl_fact_list(r->link, ret->doc, facts, "nodes", &list) != ERR_NONE)
		return;
	it = json_iter(json_get(ctl_fact(jmut_view(facts), "nodes"), "items"));
	while (json_next(&it))
		take_node(ret, it.value);
}

static void nodes_done(struct nodes *all)
{
	free(all->used);
	jmut_doc_free(all->doc);
}

/* ---- the command ---- */

/* The comments are part of what is printed; what to be careful of is shown besides, where that goes
 * to a file. */
static int print(const struct macvlan_plan *plan, const struct json *object, struct err *err)
{
	struct buf out = BUF_INIT(MAX_TEXT), warnings = BUF_INIT(MAX_TEXT);
	int result = -1;

	if (macvlan_write_comments(plan, &out, err) == 0 &&
	    macvlan_write_warnings(plan, &warnings, err) == 0 && yaml_write(object, &out, err) == 0)
		result = ctl_write_out(buf_str(&out), err);
	if (result == 0 && !isatty(STDOUT_FILENO))
		fprintf(stderr, "%.*s", STR_ARG(buf_str(&warnings)));
	buf_done(&warnings);
	buf_done(&out);
	return result;
}

static int check_and_apply(const struct target *t, const struct macvlan_plan *plan,
			   const struct json *object, struct err *err)
{
	struct buf comments = BUF_INIT(MAX_TEXT);
	int result = macvlan_write_comments(plan, &comments, err);

	if (result == 0)
		fprintf(stderr, "%.*s", STR_ARG(buf_str(&comments)));
	buf_done(&comments);
	if (result < 0 || macvlan_check_link(plan, err) < 0)
		return -1;
	return apply(t, object, err);
}

/* An interface that is wished for and isn't here may be another machine's, if its subnet is said.
 */
static int add_wish(const struct ctl_options *o, const struct ctl_rdma *r,
		    struct fabric_facts *facts, struct err *err)
{
	struct err why = ERR_INIT;

	if (!o->interface || is_reached(facts, o->interface))
		return 0;
	if (look_at_link(r, o->interface, &facts->reach[facts->n_reach], &why) == 0) {
		facts->n_reach++;
		return 0;
	}
	if (o->subnet)
		return 0;
	*err = why;
	err->kind = ERR_INVALID;
	return err_wrap(err, "--interface");
}

static int run(const struct ctl_options *o, const struct ctl_rdma *r, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct nodes nodes;
	struct macvlan_wishes wishes = {
		.network = o->network,
		.network_namespace = o->network_ns,
		.link = o->interface,
		.subnet = o->subnet,
		.exclude = o->exclude,
		.mtu = o->mtu,
		.mode = o->mode,
		.cni_folder = r->cni_folder,
	};
	struct target t = {.link = r->link,
			   .o = o,
			   .resource = o->attachment ? &attachment_resource : &network_resource,
			   .ns = o->attachment ? ctl_rdma_network_ns(o) : NULL,
			   .name = ctl_rdma_network(o)};
	struct fabric_facts facts = *r->local;
	struct fabric_reach *reach = xcalloc(facts.n_reach + 1, sizeof(*reach));
	struct macvlan_plan plan;
	const struct json *object;
	int result = -1;

	if (facts.n_reach)
		memcpy(reach, facts.reach, facts.n_reach * sizeof(*reach));
	facts.reach = reach;
	ask_nodes(r, &nodes);
	wishes.used = nodes.used;
	wishes.n_used = nodes.n;
	if (add_wish(o, r, &facts, err) == 0 && macvlan_plan(&facts, &wishes, &plan, err) == 0) {
		object = jmut_view(macvlan_object(&plan, o->attachment, doc));
		result = o->apply ? check_and_apply(&t, &plan, object, err)
				  : print(&plan, object, err);
	}
	nodes_done(&nodes);
	free(reach);
	return result;
}

int ctl_run_rdma_macvlan(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct ctl_rdma r;
	int result;

	(void)link;
	if (ctl_rdma_check_network(o, err) < 0)
		return -1;
	if (o->dry_run && !o->apply)
		return err_set(err, ERR_INVALID, 0,
			       "--dry-run: is for --apply; without it nothing is changed anyway");
	if (ctl_rdma_gather(o, &r, err) < 0)
		return -1;
	result = o->apply && !r.link
			 ? err_set(err, ERR_INVALID, 0, "--apply: a kubeconfig is needed for this")
			 : run(o, &r, err);
	ctl_rdma_done(&r);
	return result;
}
