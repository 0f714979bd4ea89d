/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks one thing after the other; what is refused or missing is a fact too.
 */
#include "ctl/facts.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "kube/object.h"

#define CRD       "ipujobs.graphcore.ai"
#define PAGE      500
#define MAX_PAGES 40 /* of one list */
#define NO_ANSWER (-1)

struct gathering {
	struct ctl_link *link;
	struct jmut_doc *doc;
	struct jmut *facts;
};

static void put(struct gathering *g, const char *name, const struct json *value)
{
	struct jmut *fact = jmut_object(g->doc);

	jmut_set(g->doc, fact, "value", jmut_copy(g->doc, value));
	jmut_set(g->doc, g->facts, name, fact);
}

static void put_error(struct gathering *g, const char *name, const struct err *why)
{
	struct jmut *fact = jmut_object(g->doc), *error = jmut_object(g->doc);

	jmut_set_int(g->doc, error, "code", why->code ? why->code : NO_ANSWER);
	jmut_set_str(g->doc, error, "message", why->msg);
	jmut_set(g->doc, fact, "error", error);
	jmut_set(g->doc, g->facts, name, fact);
}

enum err_kind ctl_fact_ask(struct ctl_link *link, struct jmut_doc *facts_doc, struct jmut *facts,
			   const char *name, const struct kube_request *request)
{
	struct gathering g = {link, facts_doc, facts};
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (ctl_link_kube(link, request, &doc, &err) < 0) {
		put_error(&g, name, &err);
		return err.kind;
	}
	put(&g, name, json_root(doc));
	return ERR_NONE;
}

static struct jmut *lean_part(struct jmut_doc *doc, const struct json *part)
{
	struct jmut *lean = jmut_object(doc);
	struct json_iter it = json_iter(part);

	while (json_next(&it)) {
		if (!str_eqz(it.key, "managedFields") && !str_eqz(it.key, "images"))
			jmut_setn(doc, lean, it.key, jmut_copy(doc, it.value));
	}
	return lean;
}

static struct jmut *lean_item(struct jmut_doc *doc, const struct json *item)
{
	struct jmut *lean = jmut_object(doc);
	struct json_iter it = json_iter(item);

	while (json_next(&it)) {
		bool is_long = str_eqz(it.key, "metadata") || str_eqz(it.key, "status");

		jmut_setn(doc, lean, it.key,
			  is_long ? lean_part(doc, it.value) : jmut_copy(doc, it.value));
	}
	return lean;
}

enum err_kind ctl_fact_list(struct ctl_link *link, struct jmut_doc *facts_doc, struct jmut *facts,
			    const char *name, const struct kube_request *request)
{
	struct gathering g = {link, facts_doc, facts};
	struct kube_request r = *request;
	struct jmut *value = jmut_object(facts_doc);
	struct jmut *items = jmut_need_array(facts_doc, value, "items");
	CLEANUP_FREE char *token = NULL;
	struct err err = ERR_INIT;

	r.limit = PAGE;
	for (unsigned page = 0; page < MAX_PAGES; page++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct json_iter it;
		struct str more;

		r.continue_token = token;
		if (ctl_link_kube(link, &r, &doc, &err) < 0)
			break;
		it = json_iter(json_get(json_root(doc), "items"));
		while (json_next(&it))
			jmut_push(facts_doc, items, lean_item(facts_doc, it.value));
		more = json_str(json_at(json_root(doc), "metadata", "continue", NULL));
		free(token);
		token = more.len ? xstrndup(more.p, more.len) : NULL;
		if (!token) {
			put(&g, name, jmut_view(value));
			return ERR_NONE;
		}
	}
	if (err.kind == ERR_NONE)
		err_set(&err, ERR_LIMIT, 0, "there are more than %d of them", PAGE * MAX_PAGES);
	put_error(&g, name, &err);
	return err.kind;
}

static enum err_kind get(struct gathering *g, const char *name, const struct kube_resource *what,
			 const char *ns, const char *object)
{
	struct kube_request r = {.verb = KUBE_GET, .resource = what, .ns = ns, .name = object};

	return ctl_fact_ask(g->link, g->doc, g->facts, name, &r);
}

static void list(struct gathering *g, const char *name, const struct kube_resource *what,
		 const char *ns, const char *labels, const char *fields)
{
	struct kube_request r = {
		.verb = KUBE_LIST,
		.resource = what,
		.ns = ns,
		.label_selector = labels,
		.field_selector = fields,
	};

	(void)ctl_fact_list(g->link, g->doc, g->facts, name, &r);
}

static void ask_operator(struct gathering *g, const char *name, const char *path)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (ctl_link_ask(g->link, path, STR_NULL, &doc, &err) < 0)
		put_error(g, name, &err);
	else
		put(g, name, json_root(doc));
}

static void gather_job(struct gathering *g, const char *ns, const char *name)
{
	CLEANUP_FREE char *labels = xasprintf("graphcore.ai/job=%s", name);

	list(g, "pods", &KUBE_PODS, ns, labels, NULL);
}

static void gather_operator(struct gathering *g, const struct ctl_options *o)
{
	list(g, "operatorPods", &KUBE_PODS, o->ns, CTL_OPERATOR_PODS, NULL);
	get(g, "configMap", &KUBE_CONFIGMAPS, o->ns, o->config_map);
	ask_operator(g, "queue", "/queue");
	ask_operator(g, "capacity", "/capacity");
	ask_operator(g, "partitions", "/partitions");
	ask_operator(g, "controllers", "/controllers");
}

static void gather_cluster(struct gathering *g, const char *ns)
{
	static const struct kube_resource quotas = {"", "v1", "resourcequotas", "ResourceQuota",
						    true};

	list(g, "nodes", &KUBE_NODES, NULL, NULL, NULL);
	list(g, "mutating", &KUBE_MUTATINGWEBHOOKS, NULL, NULL, NULL);
	list(g, "validating", &KUBE_VALIDATINGWEBHOOKS, NULL, NULL, NULL);
	list(g, "quotas", &quotas, ns, NULL, NULL);
}

int ctl_facts_gather(struct ctl_link *link, const struct ctl_options *o, const char *ns,
		     const char *name, bool is_pod, struct jmut_doc *doc, struct err *err)
{
	struct gathering g = {link, doc, jmut_object(doc)};
	CLEANUP_FREE char *fields = NULL;
	char now[CLOCK_RFC3339_SIZE];
	enum err_kind kind;

	jmut_set_root(doc, g.facts);
	clock_format(clock_wall_ms(), now);
	jmut_set_str(doc, g.facts, "now", now);
	jmut_set_str(doc, g.facts, "kind", is_pod ? "Pod" : "IPUJob");
	jmut_set_str(doc, g.facts, "namespace", ns);
	jmut_set_str(doc, g.facts, "name", name);
	jmut_set_str(doc, g.facts, "operatorNamespace", o->ns);
	kind = get(&g, "object", is_pod ? &KUBE_PODS : &KUBE_IPUJOBS, ns, name);
	if (kind != ERR_NONE && kind != ERR_NOT_FOUND) {
		const struct json *f = jmut_view(g.facts);

		return err_set(err, kind,
			       ctl_fact_code(f, "object") > 0 ? ctl_fact_code(f, "object") : 0,
			       "%.*s", STR_ARG(ctl_fact_error(f, "object")));
	}
	if (!is_pod)
		get(&g, "crd", &KUBE_CRDS, NULL, CRD);
	if (kind == ERR_NOT_FOUND) {
		fields = xasprintf("metadata.name=%s", name);
		list(&g, "others", is_pod ? &KUBE_PODS : &KUBE_IPUJOBS, NULL, NULL, fields);
		return 0;
	}
	if (!is_pod)
		gather_job(&g, ns, name);
	fields = xasprintf("involvedObject.name=%s", name);
	list(&g, "events", &KUBE_EVENTS, ns, NULL, fields);
	gather_operator(&g, o);
	gather_cluster(&g, ns);
	return 0;
}

const struct json *ctl_fact(const struct json *facts, const char *name)
{
	return json_at(facts, name, "value", NULL);
}

int ctl_fact_code(const struct json *facts, const char *name)
{
	return (int)json_int(json_at(facts, name, "error", "code", NULL), 0);
}

struct str ctl_fact_error(const struct json *facts, const char *name)
{
	return json_str(json_at(facts, name, "error", "message", NULL));
}

const struct json *ctl_condition(const struct json *object, const char *type)
{
	struct json_iter it = json_iter(json_at(object, "status", "conditions", NULL));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), type))
			return it.value;
	}
	return NULL;
}

bool ctl_is_on(const struct json *object, const char *type)
{
	return str_eqz(json_str(json_get(ctl_condition(object, type), "status")), "True");
}
