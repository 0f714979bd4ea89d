/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that don't answer: what their kubelets would do waits until they are back, and the node
 * controller says so of them and of their Pods (Kubernetes: Node status, Taint based evictions).
 * The kubelet owns each struct lost_node.
 */
#include <stdlib.h>

#include "core/str.h"
#include "kube/object.h"
#include "sim/kubelet_impl.h"

struct lost_node {
	struct sim_kubelet *k;
	char *name;
	struct loop_timer timer;
	unsigned evict_ms;
	bool known; /* the node controller has noticed */
};

static void free_lost(struct lost_node *n)
{
	loop_timer_stop(&n->timer);
	free(n->name);
	free(n);
}

bool kubelet_is_lost(const struct sim_kubelet *k, const char *node)
{
	return map_get(k->lost, str_of(node)) != NULL;
}

void kubelet_lost_done(struct sim_kubelet *k)
{
	struct map_iter it = MAP_ITER(k->lost);

	while (map_next(&it))
		free_lost(it.value);
	map_free(k->lost);
}

/* ---- the node controller ---- */

static void say_unreachable(struct sim_kubelet *k, struct sim_object *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, sim_object_json(o));

	pod_status_unreachable(doc, root);
	sim_objects_put(k->objects, k->pods, doc, root);
}

/* With the Pod's own grace period: which only its kubelet can end. */
static void evict(struct sim_kubelet *k, struct sim_object *o)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, sim_object_json(o));

	if (kube_is_deleting(sim_object_json(o)) || kubelet_nodes_stays(sim_object_json(o)))
		return;
	pod_status_disrupted(doc, root, "DeletionByTaintManager",
			     "Taint manager: deleting due to NoExecute taint");
	sim_api_delete(k->api, sim_objects_put(k->objects, k->pods, doc, root), -1);
}

static void for_each_pod(struct lost_node *n,
			 void (*act)(struct sim_kubelet *k, struct sim_object *o))
{
	struct sim_kubelet *k = n->k;
	size_t count;
	struct sim_object **pods = sim_objects_list(k->objects, k->pods, STR(""), &count);

	for (size_t i = 0; i < count; i++)
		sim_object_ref(pods[i]);
	for (size_t i = 0; i < count; i++) {
		const struct json *pod = sim_object_json(pods[i]);

		if (str_eqz(json_str(json_at(pod, "spec", "nodeName", NULL)), n->name) &&
		    !kubelet_is_over(pod))
			act(k, pods[i]);
		sim_object_unref(pods[i]);
	}
	free(pods);
}

static void on_timer(struct loop_timer *t, void *arg)
{
	struct lost_node *n = arg;

	if (n->known) {
		for_each_pod(n, evict);
		return;
	}
	n->known = true;
	loop_timer_start_in(t, n->evict_ms);
	kubelet_nodes_set_reachable(n->k->objects, n->name, false);
	for_each_pod(n, say_unreachable);
}

/* ---- by hand ---- */

int sim_kubelet_lose_node(struct sim_kubelet *k, const char *node, unsigned not_ready_ms,
			  unsigned evict_ms, struct err *err)
{
	struct lost_node *n;

	if (!sim_objects_get(k->objects, k->nodes, STR(""), str_of(node)))
		return err_set(err, ERR_NOT_FOUND, 404, "there is no node %s", node);
	if (kubelet_is_lost(k, node))
		return err_set(err, ERR_CONFLICT, 409, "node %s is lost already", node);
	n = xcalloc(1, sizeof(*n));
	n->k = k;
	n->name = xstrdup(node);
	n->evict_ms = evict_ms;
	loop_timer_init(&n->timer, k->loop, on_timer, n);
	loop_timer_start_in(&n->timer, not_ready_ms);
	map_put(k->lost, str_of(node), n);
	return 0;
}

int sim_kubelet_return_node(struct sim_kubelet *k, const char *node, struct err *err)
{
	struct lost_node *n = map_del(k->lost, str_of(node));
	struct map_iter it = MAP_ITER(k->by_uid);

	if (!n)
		return err_set(err, ERR_NOT_FOUND, 404, "node %s isn't lost", node);
	if (n->known)
		kubelet_nodes_set_reachable(k->objects, node, true);
	free_lost(n);
	while (map_next(&it)) {
		struct pod *p = it.value;

		if (p->node && str_eqz(str_of(p->node), node))
			kubelet_mark(p);
	}
	return 0;
}
