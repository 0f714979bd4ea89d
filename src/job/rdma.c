/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotation is read as Multus reads it: a list with commas of [NAMESPACE/]NAME[@INTERFACE],
 * or, where one of the characters [ { " is in it, a JSON list of objects with name, namespace and
 * interface. A name without a namespace is of the Pod's own.
 */
#include "job/rdma.h"

#include <string.h>

#include "kube/object.h"

#define DEFAULT_NS    "default"
#define MAX_INTERFACE 15                   /* ip-link(8) */
#define MAX_NAME      63                   /* of a qualified name, without its domain */
#define MAX_TEXT      ((size_t)512 * 1024) /* the API server takes 256 KiB of annotations */

/* ---- the configuration ---- */

static const char *text_or_null(const char *z)
{
	return z && z[0] ? z : NULL;
}

struct job_rdma job_rdma_of(bool host_network, const char *network, const char *resource,
			    int64_t amount, const char *ipc_lock)
{
	struct job_rdma rdma = {
		.network = text_or_null(network),
		.resource = text_or_null(resource),
		.amount = amount,
	};

	if (host_network)
		return (struct job_rdma){0};
	rdma.ipc_lock = strcmp(ipc_lock, "auto") == 0 ? rdma.network || rdma.resource
						      : strcmp(ipc_lock, "true") == 0;
	return rdma;
}

struct network {
	struct str ns, name, interface; /* ns, interface: p NULL where none is named */
};

/* Spaces around the whole and around its name are nothing to Multus. */
static struct network parse(struct str text)
{
	struct network n = {.ns = STR_NULL};
	struct str head, tail;

	text = str_trim(text);
	if (str_cut(text, '/', &head, &tail)) {
		n.ns = str_trim(head);
		text = tail;
	}
	if (str_cut(text, '@', &head, &tail)) {
		n.interface = str_trim(tail);
		text = head;
	}
	n.name = str_trim(text);
	return n;
}

/* Multus takes no dots: they would do in a NetworkAttachmentDefinition's name alone. */
bool job_rdma_is_network(struct str text)
{
	struct network n = parse(text);

	return str_eq(text, str_trim(text)) && kube_is_dns1123_label(n.name) &&
	       (!n.ns.p || kube_is_dns1123_label(n.ns)) &&
	       (!n.interface.p ||
		(kube_is_dns1123_label(n.interface) && n.interface.len <= MAX_INTERFACE));
}

static bool is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Kubernetes, "Extended resources": a qualified name whose domain isn't kubernetes.io or below it.
 */
bool job_rdma_is_resource(struct str text)
{
	struct str domain, name;

	if (!str_cut(text, '/', &domain, &name) || !kube_is_dns1123_subdomain(domain) ||
	    name.len == 0 || name.len > MAX_NAME || str_eqz(domain, "kubernetes.io") ||
	    str_has_suffix(domain, STR(".kubernetes.io")) || str_has_prefix(text, STR("requests.")))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		bool is_end = i == 0 || i + 1 == name.len;

		if (!is_alphanumeric(name.p[i]) &&
		    (is_end || !strchr("-_.", name.p[i]) || !name.p[i]))
			return false;
	}
	return true;
}

/* ---- a Pod's networks ---- */

static bool is_json(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.p[i] == '[' || text.p[i] == '{' || text.p[i] == '"')
			return true;
	}
	return false;
}

static bool is_same(struct str ns, struct str name, const struct network *wanted)
{
	return str_eq(ns, wanted->ns) && str_eq(name, wanted->name);
}

/* list: one that json_parse has read. */
static enum job_network look_json(const struct json *list, const char *ns,
				  const struct network *wanted)
{
	struct json_iter it = json_iter(list);
	bool there = false;

	if (json_type(list) != JSON_ARRAY)
		return JOB_NETWORK_BROKEN;
	while (json_next(&it)) {
		struct str own = json_str(json_get(it.value, "namespace"));

		if (json_type(it.value) != JSON_OBJECT)
			return JOB_NETWORK_BROKEN;
		there |= is_same(own.len ? own : str_of(ns), json_str(json_get(it.value, "name")),
				 wanted);
	}
	return there ? JOB_NETWORK_THERE : JOB_NETWORK_ADDED;
}

static enum job_network look_text(struct str rest, const char *ns, const struct network *wanted)
{
	struct str one;

	while (rest.len) {
		struct network n;

		str_cut(rest, ',', &one, &rest);
		n = parse(one);
		if (n.name.len && !kube_is_dns1123_label(n.name))
			return JOB_NETWORK_BROKEN;
		if (is_same(n.ns.len ? n.ns : str_of(ns), n.name, wanted))
			return JOB_NETWORK_THERE;
	}
	return JOB_NETWORK_ADDED;
}

/* ret_list: of the JSON form, the caller's to free; else NULL. */
static enum job_network look(const struct json *pod, const char *ns, const struct network *wanted,
			     struct json_doc **ret_list)
{
	const struct json *now = json_at(pod, "metadata", "annotations", JOB_ANNOTATION_NETWORKS,
					 NULL);
	struct str text = str_trim(json_str(now));

	*ret_list = NULL;
	if (now && json_type(now) != JSON_STRING && json_type(now) != JSON_NULL)
		return JOB_NETWORK_BROKEN;
	if (!is_json(text))
		return look_text(text, ns, wanted);
	if (json_parse(text, ret_list, NULL) < 0)
		return JOB_NETWORK_BROKEN;
	return look_json(json_root(*ret_list), ns, wanted);
}

static bool has_none(const struct json *pod, const struct job_rdma *rdma, struct network *ret)
{
	if (!rdma->network || json_bool(json_at(pod, "spec", "hostNetwork", NULL), false))
		return true;
	*ret = parse(str_of(rdma->network));
	if (!ret->ns.p)
		ret->ns = STR(DEFAULT_NS);
	return false;
}

enum job_network job_network_look(const struct json *pod, const char *ns,
				  const struct job_rdma *rdma)
{
	CLEANUP_JSON struct json_doc *list = NULL;
	struct network wanted;

	return has_none(pod, rdma, &wanted) ? JOB_NETWORK_NONE : look(pod, ns, &wanted, &list);
}

static struct jmut *add_to_json(struct jmut_doc *doc, const struct json *list,
				const struct network *n)
{
	struct jmut *all = jmut_copy(doc, list), *one = jmut_object(doc), *text = NULL;
	struct buf out = BUF_INIT(MAX_TEXT);

	jmut_set(doc, one, "name", jmut_str(doc, n->name));
	jmut_set(doc, one, "namespace", jmut_str(doc, n->ns));
	if (n->interface.p)
		jmut_set(doc, one, "interface", jmut_str(doc, n->interface));
	jmut_push(doc, all, one);
	if (jmut_write(all, JSON_COMPACT, &out, NULL) == 0)
		text = jmut_str(doc, buf_str(&out));
	buf_done(&out);
	return text;
}

/* The namespace is left out where it's the Pod's. */
static struct jmut *add_to_text(struct jmut_doc *doc, struct str text, const char *ns,
				const struct network *n)
{
	bool is_own = str_eqz(n->ns, ns);

	text = str_trim(text);
	while (text.len && text.p[text.len - 1] == ',')
		text = str_trim((struct str){text.p, text.len - 1});
	return jmut_strf(doc, "%.*s%s%.*s%s%.*s%s%.*s", STR_ARG(text), text.len ? "," : "",
			 is_own ? 0 : (int)n->ns.len, n->ns.p, is_own ? "" : "/", STR_ARG(n->name),
			 n->interface.p ? "@" : "", STR_ARG(n->interface));
}

enum job_network job_network_add(struct jmut_doc *doc, struct jmut *pod, const char *ns,
				 const struct job_rdma *rdma)
{
	CLEANUP_JSON struct json_doc *list = NULL;
	enum job_network found;
	struct jmut *annotations, *text;
	struct network n;

	if (has_none(jmut_view(pod), rdma, &n))
		return JOB_NETWORK_NONE;
	found = look(jmut_view(pod), ns, &n, &list);
	if (found != JOB_NETWORK_ADDED)
		return found;
	annotations = jmut_need_object(doc, jmut_get(pod, "metadata"), "annotations");
	if (!annotations)
		return JOB_NETWORK_BROKEN;
	text = list ? add_to_json(doc, json_root(list), &n)
		    : add_to_text(
			      doc,
			      json_str(jmut_view(jmut_get(annotations, JOB_ANNOTATION_NETWORKS))),
			      ns, &n);
	if (!text)
		return JOB_NETWORK_BROKEN;
	jmut_set(doc, annotations, JOB_ANNOTATION_NETWORKS, text);
	return JOB_NETWORK_ADDED;
}

/* ---- a container ---- */

static bool names_lock(const struct json *capabilities, const char *key, bool or_all)
{
	struct json_iter it = json_iter(json_get(capabilities, key));

	while (json_next(&it)) {
		struct str name = json_str(it.value);

		if (str_ieqz(name, "IPC_LOCK") || (or_all && str_ieqz(name, "ALL")))
			return true;
	}
	return false;
}

static const char *add_lock(struct jmut_doc *doc, struct jmut *container)
{
	struct jmut *security = jmut_need_object(doc, container, "securityContext");
	struct jmut *capabilities, *add;

	if (!security)
		return "securityContext";
	capabilities = jmut_need_object(doc, security, "capabilities");
	if (!capabilities)
		return "securityContext.capabilities";
	if (names_lock(jmut_view(capabilities), "add", true) ||
	    names_lock(jmut_view(capabilities), "drop", false))
		return NULL;
	add = jmut_need_array(doc, capabilities, "add");
	if (!add)
		return "securityContext.capabilities.add";
	jmut_push(doc, add, jmut_strz(doc, "IPC_LOCK"));
	return NULL;
}

/* Of an extended resource, requests and limits must be alike. */
static const char *add_resource(struct jmut_doc *doc, struct jmut *container,
				const struct job_rdma *rdma)
{
	const struct json *now = json_get(jmut_view(container), "resources");
	struct jmut *resources, *limits, *requests;

	if (json_at(now, "limits", rdma->resource, NULL) ||
	    json_at(now, "requests", rdma->resource, NULL))
		return NULL;
	resources = jmut_need_object(doc, container, "resources");
	if (!resources)
		return "resources";
	limits = jmut_need_object(doc, resources, "limits");
	if (!limits)
		return "resources.limits";
	requests = jmut_need_object(doc, resources, "requests");
	if (!requests)
		return "resources.requests";
	jmut_set(doc, limits, rdma->resource, jmut_int(doc, rdma->amount));
	jmut_set(doc, requests, rdma->resource, jmut_int(doc, rdma->amount));
	return NULL;
}

const char *job_rdma_apply(struct jmut_doc *doc, struct jmut *container,
			   const struct job_rdma *rdma)
{
	const char *wrong = rdma->ipc_lock ? add_lock(doc, container) : NULL;

	return wrong || !rdma->resource ? wrong : add_resource(doc, container, rdma);
}
