/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated Nodes, the choice of one for a Pod as kube-scheduler's filters make it (cordon, node
 * selector, taints, room for Pods), and Events about Pods.
 */
#include "sim/kubelet_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"

#define PODS_PER_NODE "110"

/* ---- making ---- */

static void put_label(struct jmut_doc *doc, struct jmut *labels, struct str text)
{
	struct str key, value;

	str_cut(text, '=', &key, &value);
	jmut_setn(doc, labels, key, jmut_str(doc, value));
}

/* "KEY=VALUE" or "NODE:KEY=VALUE" into its parts; of all Nodes: no node. */
static void split_label(const char *text, struct str *ret_node, struct str *ret_label)
{
	struct str all = str_of(text), head, tail;

	if (str_cut(all, ':', &head, &tail) && memchr(head.p, '=', head.len) == NULL) {
		*ret_node = head;
		*ret_label = tail;
	} else {
		*ret_node = STR_NULL;
		*ret_label = all;
	}
}

static int check_labels(const struct sim_kubelet_config *c, struct err *err)
{
	for (size_t i = 0; i < c->n_node_labels; i++) {
		struct str node, label, key, value;
		unsigned n = 0;
		char name[16];

		split_label(c->node_labels[i], &node, &label);
		if (!str_cut(label, '=', &key, &value) || !kube_is_label_key(key) ||
		    !kube_is_label_value(value))
			return err_set(err, ERR_INVALID, 0,
				       "%s: a label is KEY=VALUE, or NODE:KEY=VALUE for one node",
				       c->node_labels[i]);
		for (; node.len && n < c->nodes; n++) {
			snprintf(name, sizeof(name), "sim%u", n);
			if (str_eqz(node, name))
				break;
		}
		if (node.len && n == c->nodes)
			return err_set(err, ERR_INVALID, 0, "%s: there is no node %.*s",
				       c->node_labels[i], STR_ARG(node));
	}
	return 0;
}

static struct jmut *labels_of(struct jmut_doc *doc, const struct sim_kubelet_config *c,
			      const char *name)
{
	struct jmut *labels = jmut_object(doc);

	jmut_set_str(doc, labels, "kubernetes.io/arch", "amd64");
	jmut_set_str(doc, labels, "kubernetes.io/hostname", name);
	jmut_set_str(doc, labels, "kubernetes.io/os", "linux");
	for (size_t i = 0; i < c->n_node_labels; i++) {
		struct str node, label;

		split_label(c->node_labels[i], &node, &label);
		if (!node.len || str_eqz(node, name))
			put_label(doc, labels, label);
	}
	return labels;
}

static struct jmut *resources(struct jmut_doc *doc)
{
	struct jmut *r = jmut_object(doc);

	jmut_set_str(doc, r, "cpu", "64");
	jmut_set_str(doc, r, "ephemeral-storage", "1Ti");
	jmut_set_str(doc, r, "memory", "512Gi");
	jmut_set_str(doc, r, "pods", PODS_PER_NODE);
	jmut_set_str(doc, r, "rdma/rdma_shared_device_a", "1k");
	return r;
}

static const struct node_condition {
	const char *type, *status, *reason, *message;
} node_conditions[] = {
	{"MemoryPressure", "False", "KubeletHasSufficientMemory",
	 "kubelet has sufficient memory available"},
	{"DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	{"PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
	{"Ready", "True", "KubeletReady", "kubelet is posting ready status"},
};
static const struct node_condition silent = {NULL, "Unknown", "NodeStatusUnknown",
					     "Kubelet stopped posting node status."};

/* words: status, reason and message. */
static void add_condition(struct jmut_doc *doc, struct jmut *list, const char *type,
			  const struct node_condition *words)
{
	struct jmut *obj = jmut_object(doc);
	char now[CLOCK_RFC3339_SIZE];

	clock_format(clock_wall_ms(), now);
	jmut_set_str(doc, obj, "type", type);
	jmut_set_str(doc, obj, "status", words->status);
	jmut_set_str(doc, obj, "lastHeartbeatTime", now);
	jmut_set_str(doc, obj, "lastTransitionTime", now);
	jmut_set_str(doc, obj, "reason", words->reason);
	jmut_set_str(doc, obj, "message", words->message);
	jmut_push(doc, list, obj);
}

static struct jmut *conditions(struct jmut_doc *doc, bool reachable)
{
	struct jmut *list = jmut_array(doc);

	for (size_t i = 0; i < sizeof(node_conditions) / sizeof(node_conditions[0]); i++)
		add_condition(doc, list, node_conditions[i].type,
			      reachable ? &node_conditions[i] : &silent);
	return list;
}

static void add_address(struct jmut_doc *doc, struct jmut *list, const char *type,
			const char *address)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_str(doc, obj, "type", type);
	jmut_set_str(doc, obj, "address", address);
	jmut_push(doc, list, obj);
}

static struct jmut *node_status(struct jmut_doc *doc, const char *name, unsigned index)
{
	struct jmut *status = jmut_object(doc), *info = jmut_object(doc), *list = jmut_array(doc);
	char ip[32];

	snprintf(ip, sizeof(ip), "10.0.0.%u", index + 1);
	add_address(doc, list, "InternalIP", ip);
	add_address(doc, list, "Hostname", name);
	jmut_set_str(doc, info, "architecture", "amd64");
	jmut_set_str(doc, info, "containerRuntimeVersion", "ipu-sim://" PACKAGE_VERSION);
	jmut_set_str(doc, info, "kernelVersion", "simulated");
	jmut_set_str(doc, info, "kubeletVersion", "v" PACKAGE_VERSION "-ipu-sim");
	jmut_set_str(doc, info, "operatingSystem", "linux");
	jmut_set_str(doc, info, "osImage", "ipu-sim");
	jmut_set(doc, status, "addresses", list);
	jmut_set(doc, status, "allocatable", resources(doc));
	jmut_set(doc, status, "capacity", resources(doc));
	jmut_set(doc, status, "conditions", conditions(doc, true));
	jmut_set(doc, status, "nodeInfo", info);
	return status;
}

static void create_node(const struct sim_kubelet_config *c, unsigned index)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *spec = jmut_object(doc);
	char name[16];

	snprintf(name, sizeof(name), "sim%u", index);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "Node");
	jmut_set_str(doc, meta, "name", name);
	jmut_set(doc, meta, "labels", labels_of(doc, c, name));
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, spec, "podCIDR", jmut_strf(doc, "10.244.%u.0/24", index));
	jmut_set(doc, root, "spec", spec);
	jmut_set(doc, root, "status", node_status(doc, name, index));
	sim_api_create(c->api, sim_resource_find(STR(""), STR("nodes")), doc, root);
}

int kubelet_nodes_create(const struct sim_kubelet_config *c, struct err *err)
{
	if (c->nodes > SIM_MAX_NODES)
		return err_set(err, ERR_INVALID, 0, "there can be at most %d nodes", SIM_MAX_NODES);
	if (check_labels(c, err) < 0)
		return -1;
	for (unsigned i = 0; i < c->nodes; i++)
		create_node(c, i);
	return 0;
}

/* ---- choosing ---- */

enum why_not { FITS, CORDONED, TAINTED, WRONG_LABELS, FULL, WHY_NOTS };

/* In kube-scheduler's words; it sorts them, and so they stand here. */
static const struct {
	enum why_not why;
	const char *words;
} why_not_words[] = {
	{FULL, "Too many pods"},
	{WRONG_LABELS, "node(s) didn't match Pod's node affinity/selector"},
	{TAINTED, "node(s) had untolerated taint(s)"},
	{CORDONED, "node(s) were unschedulable"},
};

static bool selects(const struct json *selector, const struct json *node)
{
	struct json_iter it = json_iter(selector);
	const struct json *labels = json_at(node, "metadata", "labels", NULL);

	while (json_next(&it)) {
		const struct json *value = json_getn(labels, it.key);

		if (!value || !str_eq(json_str(value), json_str(it.value)))
			return false;
	}
	return true;
}

/* An empty key or effect of a toleration stands for all of them. */
static bool tolerates(const struct json *toleration, const struct json *taint)
{
	struct str key = json_str(json_get(toleration, "key"));
	struct str effect = json_str(json_get(toleration, "effect"));
	bool exists = str_eqz(json_str(json_get(toleration, "operator")), "Exists");

	if ((key.len || !exists) && !str_eq(key, json_str(json_get(taint, "key"))))
		return false;
	if (effect.len && !str_eq(effect, json_str(json_get(taint, "effect"))))
		return false;
	return exists ||
	       str_eq(json_str(json_get(toleration, "value")), json_str(json_get(taint, "value")));
}

static bool is_tolerated(const struct json *pod, const struct json *taint)
{
	struct json_iter it = json_iter(json_at(pod, "spec", "tolerations", NULL));

	if (str_eqz(json_str(json_get(taint, "effect")), "PreferNoSchedule"))
		return true;
	while (json_next(&it)) {
		if (tolerates(it.value, taint))
			return true;
	}
	return false;
}

static bool keeps_off(const struct json *pod, const struct json *node)
{
	struct json_iter it = json_iter(json_at(node, "spec", "taints", NULL));

	while (json_next(&it)) {
		if (!is_tolerated(pod, it.value))
			return true;
	}
	return false;
}

static enum why_not look_at(const struct json *pod, const struct json *node, size_t pods)
{
	struct str most = json_str(json_at(node, "status", "allocatable", "pods", NULL));
	int64_t room;

	if (json_bool(json_at(node, "spec", "unschedulable", NULL), false))
		return CORDONED;
	if (keeps_off(pod, node))
		return TAINTED;
	if (!selects(json_at(pod, "spec", "nodeSelector", NULL), node))
		return WRONG_LABELS;
	if (str_to_int(most, 0, INT32_MAX, &room, NULL) == 0 && (int64_t)pods >= room)
		return FULL;
	return FITS;
}

/* "0/2 nodes are available: 2 node(s) were unschedulable. preemption: …" */
static void explain(const size_t counts[WHY_NOTS], size_t nodes, char ret_why[SIM_POD_TEXT])
{
	size_t used, helpless;
	const char *before = ": ";

	helpless = counts[CORDONED] + counts[TAINTED] + counts[WRONG_LABELS];
	if (nodes == 0) {
		snprintf(ret_why, SIM_POD_TEXT, "no nodes available to schedule pods");
		return;
	}
	used = (size_t)snprintf(ret_why, SIM_POD_TEXT, "0/%zu nodes are available", nodes);
	for (size_t i = 0; i < sizeof(why_not_words) / sizeof(why_not_words[0]); i++) {
		size_t n = counts[why_not_words[i].why];

		if (n == 0)
			continue;
		used += (size_t)snprintf(ret_why + used, SIM_POD_TEXT - used, "%s%zu %s", before, n,
					 why_not_words[i].words);
		before = ", ";
	}
	if (helpless)
		snprintf(ret_why + used, SIM_POD_TEXT - used,
			 ". preemption: 0/%zu nodes are available: %zu Preemption is not helpful "
			 "for scheduling.",
			 nodes, helpless);
	else
		snprintf(ret_why + used, SIM_POD_TEXT - used,
			 ". preemption: 0/%zu nodes are available: %zu No preemption victims found "
			 "for incoming pod.",
			 nodes, nodes);
}

char *kubelet_nodes_pick(const struct sim_objects *objects, const struct json *pod,
			 const struct map *pods_on, char ret_why[SIM_POD_TEXT])
{
	size_t n, counts[WHY_NOTS] = {0}, fewest = SIZE_MAX;
	struct sim_object **nodes = sim_objects_list(
		objects, sim_resource_find(STR(""), STR("nodes")), STR(""), &n);
	const char *best = NULL;
	char *name;

	for (size_t i = 0; i < n; i++) {
		const size_t *on = map_get(pods_on, str_of(nodes[i]->name));
		size_t pods = on ? *on : 0;
		enum why_not why = look_at(pod, sim_object_json(nodes[i]), pods);

		counts[why]++;
		if (why == FITS && pods < fewest) {
			fewest = pods;
			best = nodes[i]->name;
		}
	}
	if (!best)
		explain(counts, n, ret_why);
	name = xstrdup(best);
	free(nodes);
	return name;
}

static const struct json *get_node(const struct sim_objects *objects, const char *name)
{
	struct sim_object *o = sim_objects_get(objects, sim_resource_find(STR(""), STR("nodes")),
					       STR(""), str_of(name));

	return o ? sim_object_json(o) : NULL;
}

void kubelet_nodes_ip(const struct sim_objects *objects, const char *node, char *ret_z, size_t size)
{
	struct json_iter it = json_iter(
		json_at(get_node(objects, node), "status", "addresses", NULL));

	ret_z[0] = '\0';
	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), "InternalIP"))
			snprintf(ret_z, size, "%.*s",
				 STR_ARG(json_str(json_get(it.value, "address"))));
	}
}

#define UNREACHABLE "node.kubernetes.io/unreachable"

static void add_taint(struct jmut_doc *doc, struct jmut *taints, const char *effect)
{
	struct jmut *taint = jmut_object(doc);
	char now[CLOCK_RFC3339_SIZE];

	clock_format(clock_wall_ms(), now);
	jmut_set_str(doc, taint, "key", UNREACHABLE);
	jmut_set_str(doc, taint, "effect", effect);
	jmut_set_str(doc, taint, "timeAdded", now);
	jmut_push(doc, taints, taint);
}

bool kubelet_nodes_stays(const struct json *pod)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct json_iter it = json_iter(json_at(pod, "spec", "tolerations", NULL));
	struct jmut *taint = jmut_array(doc);

	add_taint(doc, taint, "NoExecute");
	while (json_next(&it)) {
		if (!json_get(it.value, "tolerationSeconds") &&
		    tolerates(it.value, jmut_view(jmut_item(taint, 0))))
			return true;
	}
	return false;
}

void kubelet_nodes_set_reachable(struct sim_objects *objects, const char *node, bool reachable)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, get_node(objects, node));
	struct jmut *taints = jmut_array(doc), *spec;
	struct json_iter it;

	if (!root)
		return;
	spec = jmut_need_object(doc, root, "spec");
	it = json_iter(json_get(jmut_view(spec), "taints"));
	while (json_next(&it)) {
		if (!str_eqz(json_str(json_get(it.value, "key")), UNREACHABLE))
			jmut_push(doc, taints, jmut_copy(doc, it.value));
	}
	if (!reachable) {
		add_taint(doc, taints, "NoSchedule");
		add_taint(doc, taints, "NoExecute");
	}
	if (jmut_len(taints))
		jmut_set(doc, spec, "taints", taints);
	else
		jmut_del(spec, "taints");
	jmut_set(doc, jmut_need_object(doc, root, "status"), "conditions",
		 conditions(doc, reachable));
	sim_objects_put(objects, sim_resource_find(STR(""), STR("nodes")), doc, root);
}

struct jmut *kubelet_nodes_to_json(const struct sim_kubelet *k, struct jmut_doc *doc)
{
	size_t n;
	struct sim_object **nodes = sim_objects_list(k->objects, k->nodes, STR(""), &n);
	struct jmut *list = jmut_array(doc);

	for (size_t i = 0; i < n; i++) {
		struct jmut *item = jmut_object(doc);
		const struct json *node = sim_object_json(nodes[i]);

		jmut_set_str(doc, item, "name", nodes[i]->name);
		jmut_set(doc, item, "labels",
			 jmut_copy(doc, json_at(node, "metadata", "labels", NULL)));
		jmut_set_bool(doc, item, "lost", kubelet_is_lost(k, nodes[i]->name));
		jmut_push(doc, list, item);
	}
	free(nodes);
	return list;
}

/* ---- Events ---- */

static struct jmut *involved(struct jmut_doc *doc, const struct json *pod, const char *container)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_str(doc, obj, "apiVersion", "v1");
	if (container)
		jmut_set(doc, obj, "fieldPath", jmut_strf(doc, "spec.containers{%s}", container));
	jmut_set_str(doc, obj, "kind", "Pod");
	jmut_set(doc, obj, "name", jmut_str(doc, kube_name(pod)));
	jmut_set(doc, obj, "namespace", jmut_str(doc, kube_namespace(pod)));
	jmut_set(doc, obj, "resourceVersion", jmut_str(doc, kube_version(pod)));
	jmut_set(doc, obj, "uid", jmut_str(doc, kube_uid(pod)));
	return obj;
}

static void put_source(struct jmut_doc *doc, struct jmut *root, const char *host)
{
	const char *component = host ? "kubelet" : "default-scheduler";
	struct jmut *source = jmut_object(doc);

	jmut_set_str(doc, source, "component", component);
	if (host)
		jmut_set_str(doc, source, "host", host);
	jmut_set(doc, root, "source", source);
	jmut_set_str(doc, root, "reportingComponent", component);
	jmut_set_str(doc, root, "reportingInstance", host ? host : "");
}

void kubelet_event(struct sim_api *api, const struct json *pod, const struct kubelet_event *event,
		   const char *fmt, ...)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc);
	static unsigned count; /* with one clock for all, not even two Pods' names meet */
	char now[CLOCK_RFC3339_SIZE], message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	clock_format(clock_wall_ms(), now);
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "Event");
	/* Lists are in the order of names: that of time, for Events of one Pod. */
	jmut_set(doc, meta, "name",
		 jmut_strf(doc, "%.*s.%016" PRIx64, STR_ARG(kube_name(pod)),
			   (uint64_t)clock_wall_ms() * 1000000 + count++ % 1000000));
	jmut_set(doc, meta, "namespace", jmut_str(doc, kube_namespace(pod)));
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "involvedObject", involved(doc, pod, event->container));
	jmut_set_str(doc, root, "reason", event->reason);
	jmut_set_str(doc, root, "message", message);
	jmut_set_str(doc, root, "type", event->type);
	jmut_set(doc, root, "eventTime", jmut_null(doc));
	jmut_set_str(doc, root, "firstTimestamp", now);
	jmut_set_str(doc, root, "lastTimestamp", now);
	jmut_set_int(doc, root, "count", 1);
	put_source(doc, root, event->host);
	sim_api_create(api, sim_resource_find(STR(""), STR("events")), doc, root);
}
