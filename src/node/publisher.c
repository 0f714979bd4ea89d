/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller around the planner of what is published: stores of the own Node and of the Pods
 * on it, one key in a work queue, patches and Events.
 */
#include "node/publisher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/map.h"
#include "core/metrics.h"
#include "core/str.h"
#include "job/model.h"
#include "kube/object.h"
#include "kube/store.h"
#include "kube/workqueue.h"
#include "loop/op.h"
#include "pod/inject.h"

#define KEY        STR("node") /* the only one in the queue */
#define MAX_STEPS  4 /* writes of one run: more isn't due unless somebody answers us back */
#define CALL_MS    10000
#define BACKOFF_MS 250 /* of the first failure: a port that is down is news */

enum { OF_JOBS, ANNOTATED, POD_STORES };

/* A Pod of this node that uses IPUs. */
struct guest {
	char *ns, *name, *uid;
	char *owner_api, *owner_kind, *owner_name, *owner_uid; /* its controller; "" without */
	bool ended;
};

struct publisher {
	struct publisher_opts opts;
	char *node_name, *taint;
	struct publish_settings settings;
	struct vipu_address_list controllers;
	bool controllers_known;
	struct kube_store *nodes, *pods[POD_STORES];
	struct kube_workqueue *queue;
	struct scope scope;

	struct fabric_verdict verdict;
	bool judged;
	int64_t since_ms; /* mono: the verdict's status has been what it is */
	int64_t rdma_since_ms;
	unsigned steps;   /* of the present run */
	struct err error; /* of the last write that failed; kind ERR_NONE: the last went well */
	struct log_limit quiet;

	enum fabric_status told; /* the last status that an Event told of: True or False */
	bool told_known;
	enum fabric_status said; /* the last that the log told of */
	bool said_known;
	bool untold; /* Pods haven't been read: they are told when they are */
	struct metric *turns;
};

static const struct publish_node *own_node(const struct publisher *p)
{
	return kube_store_get(p->nodes, str_of(p->node_name));
}

/* ---- the verdict ---- */

static const struct vipu_address *find_controller(const struct publisher *p, const char *name)
{
	for (size_t i = 0; i < p->controllers.n; i++) {
		if (strcmp(p->controllers.items[i].name, name) == 0)
			return &p->controllers.items[i];
	}
	return NULL;
}

/* Which of the controllers the Node belongs to, by its labels. */
static void find_own(const struct publisher *p, const struct publish_node *node,
		     const struct fabric_facts *facts, bool *ret_own)
{
	for (size_t i = 0; i < facts->n_reach; i++) {
		const struct vipu_address *a = find_controller(p, facts->reach[i].controller);

		ret_own[i] = a && a->label[0] &&
			     str_eqz(publish_node_label(node, a->label), a->value) &&
			     json_get(node->labels, a->label);
	}
}

static void find_belonging(const struct publisher *p, const struct fabric_facts *facts,
			   bool *ret_belongs)
{
	for (size_t i = 0; i < facts->n_reach; i++) {
		const struct vipu_address *a = find_controller(p, facts->reach[i].controller);

		if (a)
			ret_belongs[a - p->controllers.items] = fabric_belongs(facts, p->opts.need,
									       i);
	}
}

static void judge(struct publisher *p)
{
	const struct fabric_facts *facts = p->opts.facts(p->opts.arg);
	const struct publish_node *node = own_node(p);
	enum fabric_status before = p->verdict.status;
	enum fabric_status rdma_before = p->verdict.rdma;
	bool was_complete = p->judged && p->verdict.complete;
	bool *own = xcalloc(facts->n_reach + 1, sizeof(*own));
	struct fabric_question question = {p->opts.need, NULL};

	if (node) {
		find_own(p, node, facts, own);
		question.own = own;
	}
	fabric_judge(facts, &question, &p->verdict);
	free(own);
	p->judged = true;
	if (!was_complete || p->verdict.rdma != rdma_before)
		p->rdma_since_ms = clock_mono_ms();
	if (was_complete && p->verdict.status == before)
		return;
	p->since_ms = clock_mono_ms();
	if (p->verdict.complete) {
		const char *values[] = {fabric_status_name(p->verdict.status)};

		metric_add(p->turns, values, 1);
	}
}

/* What the Node says, not each turn before that: a port that flaps doesn't fill the log. */
static void say(struct publisher *p, const struct publish_plan *plan)
{
	const struct fabric_verdict *v = &p->verdict;

	if (!v->complete || v->status != plan->status || (p->said_known && v->status == p->said))
		return;
	p->said_known = true;
	p->said = v->status;
	log_msg(v->status == FABRIC_TRUE ? LOG_INFO : LOG_WARN, "node", p->node_name,
		"fabric ready: %s: %s reason=%s", fabric_status_name(v->status), v->message,
		v->reason);
}

static bool is_head(const struct publisher *p, const struct publish_node *node)
{
	return publish_is_head(node, &p->verdict, &p->controllers);
}

/* ---- Events ---- */

static void tell_one(struct publisher *p, const struct kube_ref *about, bool ready,
		     const char *message)
{
	if (ready)
		kube_event(p->opts.recorder, about, KUBE_EVENT_NORMAL, "IPUFabricReady",
			   "Node %s is on its IPUs' fabric again: %s", p->node_name, message);
	else
		kube_event(p->opts.recorder, about, KUBE_EVENT_WARNING, "IPUFabricNotReady",
			   "Node %s isn't on its IPUs' fabric: %s", p->node_name, message);
}

static void tell_node(struct publisher *p, const struct publish_node *node, bool ready)
{
	const struct kube_ref about = {
		.api_version = "v1", .kind = "Node", .name = node->name, .uid = node->uid};

	tell_one(p, &about, ready, p->verdict.message);
}

static char told_mark; /* what a map of those told has of each */

/* The Pod, and its job the first time that one of its Pods is met. */
static void tell_guest(struct publisher *p, const struct guest *g, struct map *jobs, bool ready)
{
	const struct kube_ref pod = {
		.api_version = "v1", .kind = "Pod", .ns = g->ns, .name = g->name, .uid = g->uid};
	const struct kube_ref job = {.api_version = g->owner_api,
				     .kind = g->owner_kind,
				     .ns = g->ns,
				     .name = g->owner_name,
				     .uid = g->owner_uid};

	tell_one(p, &pod, ready, p->verdict.message);
	if (strcmp(g->owner_kind, KUBE_IPUJOBS.kind) != 0 || map_get(jobs, str_of(g->owner_uid)))
		return;
	map_put(jobs, str_of(g->owner_uid), &told_mark);
	tell_one(p, &job, ready, p->verdict.message);
}

static bool pods_synced(const struct publisher *p)
{
	for (size_t i = 0; i < POD_STORES; i++) {
		if (!kube_store_is_synced(p->pods[i]))
			return false;
	}
	return true;
}

static void tell_guests(struct publisher *p)
{
	bool ready = p->told == FABRIC_TRUE;
	struct map *jobs = map_new();

	for (size_t i = 0; i < POD_STORES; i++) {
		struct kube_store_iter it = kube_store_iter(p->pods[i]);

		while (kube_store_next(&it)) {
			const struct guest *g = it.item;
			bool twice = i != OF_JOBS && kube_store_by_uid(p->pods[OF_JOBS], it.uid);

			if (!g->ended && !twice)
				tell_guest(p, g, jobs, ready);
		}
	}
	map_free(jobs);
	p->untold = false;
}

/* What the Node's condition turns to, before it's written: dying in between costs an Event that
 * comes twice, never one that doesn't come. */
static void tell(struct publisher *p, const struct publish_node *node,
		 const struct publish_plan *plan)
{
	if (!p->told_known) {
		p->told_known = true;
		p->told = node->condition.known && node->condition.status == FABRIC_FALSE
				  ? FABRIC_FALSE
				  : FABRIC_TRUE;
	}
	if (!plan->condition || plan->status == FABRIC_UNKNOWN || plan->status == p->told)
		return;
	/* It has lost nothing. */
	if (plan->status == FABRIC_FALSE && !is_head(p, node))
		return;
	p->told = plan->status;
	tell_node(p, node, p->told == FABRIC_TRUE);
	if (pods_synced(p))
		tell_guests(p);
	else
		p->untold = true;
}

/* ---- a run ---- */

static void step(struct publisher *p);

static void end_run(struct publisher *p, const struct err *err)
{
	/* A conflict is news, not trouble. */
	bool trouble = err && err->kind != ERR_CONFLICT;

	if (!err || trouble)
		p->error = err ? *err : (struct err)ERR_INIT;
	if (trouble && log_limit_ok(&p->quiet, 60000))
		log_warn("node", p->node_name, "the Node can't be written: %s", err->msg);
	kube_workqueue_done(p->queue, KEY, err);
}

static void on_written(void *arg, const struct err *err, const struct kube_response *response)
{
	struct publisher *p = arg;

	if (err) {
		end_run(p, err);
		return;
	}
	kube_workqueue_step(p->queue); /* a slow API server isn't a stuck queue */
	if (response->json)
		kube_store_note(p->nodes, response->json);
	step(p);
}

static void write_node(struct publisher *p, const struct publish_plan *plan)
{
	struct kube_request req = {
		.verb = KUBE_PATCH,
		.resource = &KUBE_NODES,
		.name = p->node_name,
		.deadline_ms = CALL_MS,
		.urgent = true,
	};

	if (plan->condition) {
		req.subresource = "status";
		req.patch = KUBE_PATCH_STRATEGIC;
		req.json = jmut_root(plan->condition);
	} else {
		req.patch = KUBE_PATCH_MERGE;
		req.json = jmut_root(plan->meta);
	}
	kube_call_start(p->opts.kube, &req, on_written, p, &p->scope);
}

/* The next write that is due, or the run's end. */
static void step(struct publisher *p)
{
	const struct publish_node *node = own_node(p);
	bool *belongs = xcalloc(p->controllers.n + 1, sizeof(*belongs));
	struct publish_view view = {
		.node = node,
		.verdict = &p->verdict,
		.controllers = &p->controllers,
		.belongs = belongs,
		.settings = &p->settings,
		.now_ms = clock_wall_ms(),
	};
	struct publish_plan plan;

	if (!node || !p->controllers_known) {
		free(belongs);
		end_run(p, NULL);
		return;
	}
	judge(p);
	view.steady_ms = clock_mono_ms() - p->since_ms;
	view.rdma_ms = clock_mono_ms() - p->rdma_since_ms;
	find_belonging(p, p->opts.facts(p->opts.arg), belongs);
	publish_plan(&view, &plan);
	free(belongs);
	say(p, &plan);
	if ((plan.condition || plan.meta) && p->steps++ < MAX_STEPS) {
		tell(p, node, &plan);
		write_node(p, &plan);
	} else {
		if (plan.next_ms >= 0)
			kube_workqueue_add_after(p->queue, KEY, plan.next_ms);
		end_run(p, NULL);
	}
	publish_plan_done(&plan);
}

static void run(void *arg, struct str key)
{
	struct publisher *p = arg;

	(void)key;
	p->steps = 0;
	step(p);
}

/* ---- the Node ---- */

static int project_node(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct publish_node *node;

	(void)arg;
	if (publish_node_decode(object, &node, err) < 0)
		return -1;
	*ret_item = node;
	return 0;
}

static void free_node(void *arg, void *item)
{
	(void)arg;
	publish_node_free(item);
}

static bool same_node(void *arg, const void *old, const void *item)
{
	(void)arg;
	return publish_node_equal(old, item);
}

static void on_node(void *arg, struct str key, const void *old, const void *item)
{
	struct publisher *p = arg;

	(void)key, (void)old, (void)item;
	kube_workqueue_add(p->queue, KEY);
}

static void on_node_synced(void *arg)
{
	struct publisher *p = arg;

	if (!own_node(p))
		log_warn("node", p->node_name,
			 "there is no Node of this name: set node.name to one of those that "
			 "\"kubectl get nodes\" lists");
	kube_workqueue_add(p->queue, KEY);
}

/* ---- the Pods ---- */

static int project_pod(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	const struct json *owner = kube_controller_ref(object);
	struct str phase = json_str(json_at(object, "status", "phase", NULL));
	struct guest *g = xcalloc(1, sizeof(*g));

	(void)arg, (void)err;
	g->ns = str_dup(kube_namespace(object));
	g->name = str_dup(kube_name(object));
	g->uid = str_dup(kube_uid(object));
	g->owner_api = str_dup(json_str(json_get(owner, "apiVersion")));
	g->owner_kind = str_dup(json_str(json_get(owner, "kind")));
	g->owner_name = str_dup(json_str(json_get(owner, "name")));
	g->owner_uid = str_dup(json_str(json_get(owner, "uid")));
	g->ended = str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
	*ret_item = g;
	return 0;
}

static void free_pod(void *arg, void *item)
{
	struct guest *g = item;

	(void)arg;
	free(g->ns);
	free(g->name);
	free(g->uid);
	free(g->owner_api);
	free(g->owner_kind);
	free(g->owner_name);
	free(g->owner_uid);
	free(g);
}

static void on_pods_synced(void *arg)
{
	struct publisher *p = arg;

	if (p->untold && pods_synced(p))
		tell_guests(p);
}

/* ---- for the outside ---- */

void publisher_look(struct publisher *p)
{
	/* At once, and not in a run that may wait for another's end: how long it has lasted counts.
	 */
	judge(p);
	kube_workqueue_add(p->queue, KEY);
}

static void take_controllers(struct publisher *p, const struct vipu_address_list *list)
{
	vipu_address_list_done(&p->controllers);
	p->controllers.items = xcalloc(list->n + 1, sizeof(*list->items));
	for (size_t i = 0; i < list->n; i++)
		vipu_address_copy(&list->items[i], &p->controllers.items[i]);
	p->controllers.n = list->n;
	p->controllers_known = true;
}

void publisher_set_controllers(struct publisher *p, const struct vipu_address_list *controllers)
{
	take_controllers(p, controllers);
	publisher_look(p);
}

static void take_settings(struct publisher *p, const struct publish_settings *settings)
{
	char *taint = xstrdup(settings->taint);

	free(p->taint);
	p->taint = taint;
	p->settings = *settings;
	p->settings.taint = taint;
}

void publisher_set(struct publisher *p, enum fabric_need need,
		   const struct publish_settings *settings)
{
	p->opts.need = need;
	take_settings(p, settings);
	publisher_look(p);
}

bool publisher_ready(const struct publisher *p, struct err *ret_why)
{
	const struct kube_store *stores[] = {p->nodes, p->pods[OF_JOBS], p->pods[ANNOTATED]};
	struct kube_watch_status st;

	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		if (kube_store_is_synced(stores[i]))
			continue;
		kube_watch_status(kube_store_get_watch(stores[i]), &st);
		err_set(ret_why, ERR_UNAVAILABLE, 0, "%s read yet%s%s",
			i == 0 ? "the Node hasn't been" : "the Pods here haven't been",
			st.err.kind ? ": " : "", st.err.kind ? st.err.msg : "");
		return false;
	}
	if (!own_node(p))
		err_set(ret_why, ERR_NOT_FOUND, 0, "there is no Node %s", p->node_name);
	else if (!p->controllers_known)
		err_set(ret_why, ERR_UNAVAILABLE, 0, "the list of controllers isn't known yet");
	else if (!p->judged || !p->verdict.complete)
		err_set(ret_why, ERR_UNAVAILABLE, 0, "the fabric hasn't been read yet");
	else if (p->error.kind != ERR_NONE)
		err_set(ret_why, ERR_UNAVAILABLE, 0, "the Node can't be written: %s", p->error.msg);
	else
		return true;
	return false;
}

const struct fabric_verdict *publisher_verdict(const struct publisher *p)
{
	return &p->verdict;
}

bool publisher_is_head(const struct publisher *p)
{
	const struct publish_node *node = own_node(p);

	return node && is_head(p, node);
}

enum fabric_need publisher_need(const struct publisher *p)
{
	return p->opts.need;
}

/* ---- life ---- */

static void watch_node(struct publisher *p)
{
	static const struct kube_store_ops ops = {
		.component = "node",
		.project = project_node,
		.free_item = free_node,
		.same = same_node,
		.on_change = on_node,
		.on_synced = on_node_synced,
	};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", p->node_name);

	p->nodes = kube_store_new(&ops, p);
	kube_store_watch(
		p->nodes, p->opts.kube,
		&(struct kube_watch_opts){.resource = &KUBE_NODES, .field_selector = selector});
}

/* Two watches, since a selector knows no "or". */
static void watch_pods(struct publisher *p)
{
	static const struct kube_store_ops ops = {
		.component = "node",
		.project = project_pod,
		.free_item = free_pod,
		.on_synced = on_pods_synced,
		.by_uid = true,
	};
	static const char *const labels[POD_STORES] = {
		[OF_JOBS] = JOB_LABEL_JOB, [ANNOTATED] = POD_LABEL};
	CLEANUP_FREE char *selector = xasprintf("spec.nodeName=%s", p->node_name);

	for (size_t i = 0; i < POD_STORES; i++) {
		p->pods[i] = kube_store_new(&ops, p);
		kube_store_watch(p->pods[i], p->opts.kube,
				 &(struct kube_watch_opts){.resource = &KUBE_PODS,
							   .field_selector = selector,
							   .label_selector = labels[i]});
	}
}

struct publisher *publisher_new(const struct publisher_opts *opts)
{
	static const char *const by_status[] = {"status", NULL};
	struct kube_workqueue_opts queue_opts = {
		.loop = opts->loop,
		.name = "node",
		.backoff_base_ms = BACKOFF_MS,
		.backoff_max_ms = 60000,
		.step_s = CALL_MS / 1000,
	};
	struct publisher *p = xcalloc(1, sizeof(*p));

	p->opts = *opts;
	p->node_name = xstrdup(opts->node);
	take_settings(p, &opts->settings);
	if (opts->controllers)
		take_controllers(p, opts->controllers);
	scope_init(&p->scope);
	p->turns = metric_new(METRIC_COUNTER, "ipu_operator_fabric_turns_total",
			      "How often this node's fabric has turned to a status.", by_status,
			      NULL, 0);
	p->queue = kube_workqueue_new(&queue_opts, run, p);
	watch_node(p);
	watch_pods(p);
	return p;
}

void publisher_free(struct publisher *p)
{
	if (!p)
		return;
	scope_cancel(&p->scope);
	kube_workqueue_free(p->queue);
	for (size_t i = 0; i < POD_STORES; i++)
		kube_store_free(p->pods[i]);
	kube_store_free(p->nodes);
	vipu_address_list_done(&p->controllers);
	free(p->node_name);
	free(p->taint);
	free(p);
}
