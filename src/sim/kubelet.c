/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated kubelets. The watcher only notes what has changed; kubelet_step() then looks at one
 * Pod and does the next thing, from deferred work or when the Pod's timer is due. A struct pod is
 * owned by the map of UIDs and refers to its object by key.
 */
#include "sim/kubelet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/kubelet_impl.h"
#include "sim/run.h"

/* ---- watching ---- */

void kubelet_mark(struct pod *p)
{
	list_unlink(&p->link);
	list_append(&p->k->dirty, &p->link);
	loop_work_post(&p->k->work);
}

static void on_timer(struct loop_timer *t, void *arg)
{
	struct pod *p = arg;

	(void)t;
	p->due = true;
	kubelet_step(p);
}

static void on_work(struct loop_work *w, void *arg)
{
	struct sim_kubelet *k = arg;
	struct list now;

	(void)w;
	/* What these steps change is looked at in the next turn. */
	list_init(&now);
	while (!list_empty(&k->dirty)) {
		struct list *first = k->dirty.next;

		list_unlink(first);
		list_append(&now, first);
	}
	while (!list_empty(&now)) {
		struct pod *p = CONTAINER_OF(now.next, struct pod, link);

		list_unlink(&p->link);
		kubelet_step(p);
	}
}

static void free_pod(void *arg)
{
	struct pod *p = arg;

	sim_run_pod_free(p->run);
	free(p->ns);
	free(p->name);
	free(p->uid);
	free(p->node);
	free(p->told);
	free(p);
}

/* What a scheduler counts: a Node's Pods that aren't over. */
static void count(struct pod *p)
{
	struct map *pods_on = p->k->pods_on;

	if (p->counted)
		--*p->counted;
	p->counted = NULL;
	if (!p->node || p->stage == POD_ENDED)
		return;
	p->counted = map_get(pods_on, str_of(p->node));
	if (!p->counted) {
		p->counted = xcalloc(1, sizeof(*p->counted));
		map_put(pods_on, str_of(p->node), p->counted);
	}
	++*p->counted;
}

void kubelet_settle(struct pod *p, char *node)
{
	free(p->node);
	p->node = node;
	count(p);
}

void kubelet_enter(struct pod *p, enum pod_stage stage)
{
	log_debug("kubelet", p->name, "%s to %s", kubelet_stage_name(p->stage),
		  kubelet_stage_name(stage));
	p->k->n_unschedulable -= p->stage == POD_UNSCHEDULABLE;
	p->k->n_unschedulable += stage == POD_UNSCHEDULABLE;
	p->stage = stage;
	p->due = false;
	loop_timer_stop(&p->timer);
	count(p);
}

static void mark_unschedulable(struct sim_kubelet *k)
{
	struct map_iter it = MAP_ITER(k->by_uid);

	while (k->n_unschedulable && map_next(&it)) {
		struct pod *p = it.value;

		if (p->stage == POD_UNSCHEDULABLE)
			kubelet_mark(p);
	}
}

static void see_new(struct sim_kubelet *k, const struct sim_object *o)
{
	struct pod *p = xcalloc(1, sizeof(*p));

	p->k = k;
	p->ns = xstrdup(o->ns);
	p->name = xstrdup(o->name);
	p->uid = xstrdup(o->uid);
	p->b = pod_rules_take(&k->rules, o->ns, o->name);
	list_init(&p->link);
	loop_timer_init(&p->timer, k->loop, on_timer, p);
	loop_timer_start_in(&p->timer, p->b.schedule_ms);
	map_put(k->by_uid, str_of(p->uid), p);
	kubelet_mark(p);
}

/* A step of this very Pod may be what removed it: its memory goes between events. */
static void see_gone(struct sim_kubelet *k, const struct sim_object *o)
{
	struct pod *p = map_del(k->by_uid, str_of(o->uid));

	if (!p)
		return;
	list_unlink(&p->link);
	kubelet_enter(p, POD_ENDED);
	/* Nothing of it may speak up any more. */
	sim_run_pod_free(p->run);
	p->run = NULL;
	loop_reap(k->loop, p, free_pod);
	mark_unschedulable(k);
}

static void on_event(void *arg, const struct sim_event *event)
{
	struct sim_kubelet *k = arg;
	const struct sim_object *o = event->now;
	struct pod *p;

	if (o->resource == k->nodes)
		mark_unschedulable(k);
	if (o->resource != k->pods)
		return;
	p = map_get(k->by_uid, str_of(o->uid));
	if (event->change == SIM_DELETED)
		see_gone(k, o);
	else if (!p)
		see_new(k, o);
	else
		kubelet_mark(p);
	if (kubelet_is_over(sim_object_json(o)) && event->change == SIM_MODIFIED)
		mark_unschedulable(k);
}

/* ---- life ---- */

int sim_kubelet_new(const struct sim_kubelet_config *c, struct sim_kubelet **ret, struct err *err)
{
	struct sim_kubelet *k;
	struct sim_object **pods;
	size_t n;

	if (kubelet_nodes_create(c, err) < 0)
		return -1;
	k = xcalloc(1, sizeof(*k));
	k->loop = c->loop;
	k->objects = c->objects;
	k->api = c->api;
	k->run = c->run;
	k->pods = sim_resource_find(STR(""), STR("pods"));
	k->nodes = sim_resource_find(STR(""), STR("nodes"));
	k->by_uid = map_new();
	k->pods_on = map_new();
	k->lost = map_new();
	pod_rules_init(&k->rules, &c->behaviour);
	list_init(&k->dirty);
	loop_work_init(&k->work, c->loop, on_work, k);
	k->watcher = (struct sim_watcher){.on_event = on_event, .arg = k};
	list_init(&k->watcher.link);
	pods = sim_objects_list(k->objects, k->pods, STR(""), &n);
	for (size_t i = 0; i < n; i++)
		see_new(k, pods[i]);
	free(pods);
	sim_objects_watch(k->objects, &k->watcher);
	*ret = k;
	return 0;
}

void sim_kubelet_free(struct sim_kubelet *k)
{
	struct map_iter it;

	if (!k)
		return;
	sim_objects_unwatch(&k->watcher);
	loop_work_cancel(&k->work);
	it = (struct map_iter)MAP_ITER(k->by_uid);
	while (map_next(&it)) {
		struct pod *p = it.value;

		loop_timer_stop(&p->timer);
		free_pod(p);
	}
	map_free(k->by_uid);
	it = (struct map_iter)MAP_ITER(k->pods_on);
	while (map_next(&it))
		free(it.value);
	map_free(k->pods_on);
	kubelet_lost_done(k);
	pod_rules_clear(&k->rules);
	free(k);
}

int sim_kubelet_set(struct sim_kubelet *k, const struct json *settings, struct err *err)
{
	return pod_rules_set(&k->rules, settings, err);
}

void sim_kubelet_clear_rules(struct sim_kubelet *k)
{
	pod_rules_clear(&k->rules);
}

struct jmut *sim_kubelet_to_json(const struct sim_kubelet *k, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *list = jmut_array(doc);
	size_t n;
	struct sim_object **pods = sim_objects_list(k->objects, k->pods, STR(""), &n);

	for (size_t i = 0; i < n; i++) {
		const struct pod *p = map_get(k->by_uid, str_of(pods[i]->uid));
		struct jmut *item = jmut_object(doc);

		if (!p)
			continue;
		jmut_set_str(doc, item, "namespace", p->ns);
		jmut_set_str(doc, item, "name", p->name);
		jmut_set_str(doc, item, "stage", kubelet_stage_name(p->stage));
		jmut_set_str(doc, item, "node", p->node ? p->node : "");
		jmut_push(doc, list, item);
	}
	free(pods);
	pod_rules_to_json(&k->rules, doc, root);
	jmut_set(doc, root, "nodes", kubelet_nodes_to_json(k, doc));
	jmut_set(doc, root, "pods", list);
	return root;
}
