/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of simulated Pods. The watcher only notes what has changed; step() then looks at one
 * Pod and does the next thing, from deferred work or when the Pod's timer is due. A struct pod is
 * owned by the map of UIDs and refers to its object by key.
 */
#include "sim/kubelet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/kubelet_impl.h"

#define PULL_BACK_OFF_MS   1000 /* from the first failed pull to ImagePullBackOff */
#define RESTART_BACK_OFF_S 10   /* of the second restart; twice as long each time (Pod Lifecycle) */
#define RESTART_MOST_S     300
#define EXIT_BY_SIGTERM    143
#define EXIT_BY_SIGKILL    137

enum pod_stage {
	POD_NEW,           /* until schedule_ms have passed */
	POD_UNSCHEDULABLE, /* no Node takes it, or it's gated; looked at when that may have changed
			    */
	POD_STARTING,      /* bound; until start_ms have passed */
	POD_CANT_START,    /* its start error shows */
	POD_RUNNING,       /* until run_ms have passed, or for ever */
	POD_BACKING_OFF,   /* its containers have ended; until they start again */
	POD_ENDED,         /* Succeeded or Failed */
	POD_ENDING,        /* in deletion; until its containers have had their time */
};

static const char *const stage_names[] = {"New",     "Unschedulable", "Starting", "CantStart",
					  "Running", "BackingOff",    "Ended",    "Ending"};

struct pod {
	struct sim_kubelet *k;
	struct list link; /* in dirty, or alone */
	char *ns, *name, *uid, *node;
	char *told; /* the last reason for which it wasn't scheduled, to say it once */
	enum pod_stage stage;
	struct sim_pod_behaviour b;
	struct loop_timer timer;
	int64_t error_since_ms;
	unsigned restarts;
	bool due; /* the timer has run, and nobody has acted on it */
	bool backing_off;
};

struct sim_kubelet {
	struct loop *loop;
	struct sim_objects *objects;
	struct sim_api *api;
	const struct sim_resource *pods, *nodes;
	struct pod_rules rules;
	struct map *by_uid;
	struct list dirty;
	struct loop_work work;
	struct sim_watcher watcher;
	unsigned next_ip;
};

/* ---- telling ---- */

static const char *host_of(const struct pod *p)
{
	return p->node ? p->node : "";
}

static void tell(const struct pod *p, const struct json *pod, const char *type, const char *reason,
		 const char *message)
{
	kubelet_event(p->k->api, pod,
		      &(struct kubelet_event){.type = type, .reason = reason, .host = host_of(p)},
		      "%s", message);
}

static void tell_scheduler(const struct pod *p, const struct json *pod, const char *type,
			   const char *reason, const char *message)
{
	kubelet_event(p->k->api, pod, &(struct kubelet_event){.type = type, .reason = reason}, "%s",
		      message);
}

/* An Event for each container; words makes its message, which is freed here. */
static void tell_each(const struct pod *p, const struct json *pod, const char *reason,
		      char *(*words)(const char *name, const char *image))
{
	struct json_iter it = json_iter(json_at(pod, "spec", "containers", NULL));

	while (json_next(&it)) {
		const char *name = json_cstr(json_get(it.value, "name"));
		const char *image = json_cstr(json_get(it.value, "image"));
		CLEANUP_FREE char *message = words(name ? name : "", image ? image : "");

		kubelet_event(p->k->api, pod,
			      &(struct kubelet_event){"Normal", reason, name, host_of(p)}, "%s",
			      message);
	}
}

static char *say_pulled(const char *name, const char *image)
{
	(void)name;
	return xasprintf("Container image \"%s\" already present on machine", image);
}

static char *say_created(const char *name, const char *image)
{
	(void)image;
	return xasprintf("Created container: %s", name);
}

static char *say_started(const char *name, const char *image)
{
	(void)image;
	return xasprintf("Started container %s", name);
}

static char *say_killing(const char *name, const char *image)
{
	(void)image;
	return xasprintf("Stopping container %s", name);
}

static char *say_back_off(const char *name, const char *image)
{
	(void)name;
	return xasprintf("Back-off pulling image \"%s\"", image);
}

/* ---- writing ---- */

struct edit {
	struct jmut_doc *doc;
	struct jmut *root;
};

static struct edit edit_begin(const struct sim_object *o)
{
	struct edit e = {.doc = jmut_doc_new()};

	e.root = jmut_copy(e.doc, sim_object_json(o));
	return e;
}

static void edit_end(struct pod *p, struct edit *e)
{
	sim_objects_put(p->k->objects, p->k->pods, e->doc, e->root);
	jmut_doc_free(e->doc);
}

static void enter(struct pod *p, enum pod_stage stage)
{
	log_debug("kubelet", p->name, "%s to %s", stage_names[p->stage], stage_names[stage]);
	p->stage = stage;
	p->due = false;
	loop_timer_stop(&p->timer);
}

/* ---- scheduling ---- */

static size_t pods_on(void *arg, const char *node)
{
	const struct sim_kubelet *k = arg;
	struct map_iter it = MAP_ITER(k->by_uid);
	size_t n = 0;

	while (map_next(&it)) {
		const struct pod *p = it.value;

		n += p->node && p->stage != POD_ENDED && strcmp(p->node, node) == 0;
	}
	return n;
}

static void accept_pod(struct pod *p, const struct sim_object *o)
{
	struct edit e = edit_begin(o);
	char ip[64];

	kubelet_nodes_ip(p->k->objects, p->node, ip, sizeof(ip));
	enter(p, POD_STARTING);
	loop_timer_start_in(&p->timer, p->b.start_ms);
	pod_status_waiting(e.doc, e.root, ip, "ContainerCreating", NULL);
	edit_end(p, &e);
}

static void bind(struct pod *p, const struct sim_object *o)
{
	struct edit e = edit_begin(o);
	char message[512];

	snprintf(message, sizeof(message), "Successfully assigned %s/%s to %s", p->ns, p->name,
		 p->node);
	pod_status_scheduled(e.doc, e.root, p->node);
	edit_end(p, &e);
	tell_scheduler(p, sim_object_json(o), "Normal", "Scheduled", message);
}

static void cant_schedule(struct pod *p, const struct sim_object *o, const char *reason,
			  const char *why)
{
	bool news = !p->told || strcmp(p->told, why) != 0;
	struct edit e;

	enter(p, POD_UNSCHEDULABLE);
	if (!news)
		return;
	free(p->told);
	p->told = xstrdup(why);
	e = edit_begin(o);
	pod_status_unscheduled(e.doc, e.root, reason, why);
	edit_end(p, &e);
	if (strcmp(reason, "Unschedulable") == 0)
		tell_scheduler(p, sim_object_json(o), "Warning", "FailedScheduling", why);
}

static void schedule(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);
	struct str given = json_str(json_at(pod, "spec", "nodeName", NULL));
	char why[SIM_POD_TEXT];

	if (given.len) {
		p->node = str_dup(given);
		accept_pod(p, o);
	} else if (json_len(json_at(pod, "spec", "schedulingGates", NULL))) {
		cant_schedule(p, o, "SchedulingGated",
			      "Scheduling is blocked due to non-empty scheduling gates");
	} else if ((p->node = kubelet_nodes_pick(p->k->objects, pod, pods_on, p->k, why))) {
		bind(p, o);
		o = sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns), str_of(p->name));
		accept_pod(p, o);
	} else {
		cant_schedule(p, o, "Unschedulable", why);
	}
}

/* ---- running ---- */

static void run(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);
	bool host = json_bool(json_at(pod, "spec", "hostNetwork", NULL), false);
	struct edit e = edit_begin(o);
	unsigned n = host ? 0 : p->k->next_ip++;
	char ip[64];

	if (host)
		kubelet_nodes_ip(p->k->objects, p->node, ip, sizeof(ip));
	else
		snprintf(ip, sizeof(ip), "10.244.%u.%u", n / 250 % 250, n % 250 + 2);
	enter(p, POD_RUNNING);
	if (p->b.run_ms > 0)
		loop_timer_start_in(&p->timer, p->b.run_ms);
	pod_status_running(e.doc, e.root, ip);
	edit_end(p, &e);
	tell_each(p, pod, "Pulled", say_pulled);
	tell_each(p, pod, "Created", say_created);
	tell_each(p, pod, "Started", say_started);
}

static bool is_pull_error(const struct pod *p)
{
	return strcmp(p->b.start_error, "ErrImagePull") == 0;
}

static void show_start_error(struct pod *p, const struct sim_object *o, const char *reason)
{
	struct str image = json_str(json_get(
		json_item(json_at(sim_object_json(o), "spec", "containers", NULL), 0), "image"));
	CLEANUP_FREE char *words = NULL;
	struct edit e = edit_begin(o);

	words = p->b.message[0] ? xstrdup(p->b.message)
		: is_pull_error(p)
			? xasprintf("failed to pull and unpack image \"%.*s\": not found",
				    STR_ARG(image))
			: xasprintf("simulated: %s", reason);
	if (p->backing_off) {
		char *back_off = xasprintf("Back-off pulling image \"%.*s\": ErrImagePull: %s",
					   STR_ARG(image), words);
		free(words);
		words = back_off;
	}
	pod_status_waiting(e.doc, e.root, "", reason, words);
	edit_end(p, &e);
	if (p->backing_off)
		tell_each(p, sim_object_json(o), "BackOff", say_back_off);
	else
		tell(p, sim_object_json(o), "Warning", "Failed", words);
}

static void await_mending(struct pod *p)
{
	if (is_pull_error(p) && !p->backing_off)
		loop_timer_start_in(&p->timer, PULL_BACK_OFF_MS);
	else if (p->b.start_error_ms > 0)
		loop_timer_start_at(&p->timer, p->error_since_ms + p->b.start_error_ms);
}

static void start(struct pod *p, const struct sim_object *o)
{
	if (!p->b.start_error[0]) {
		run(p, o);
		return;
	}
	enter(p, POD_CANT_START);
	p->error_since_ms = clock_mono_ms();
	show_start_error(p, o, p->b.start_error);
	await_mending(p);
}

static void step_cant_start(struct pod *p, const struct sim_object *o)
{
	bool over = p->b.start_error_ms > 0 &&
		    clock_mono_ms() >= p->error_since_ms + p->b.start_error_ms;

	p->due = false;
	if (over) {
		run(p, o);
	} else {
		p->backing_off = true;
		show_start_error(p, o, "ImagePullBackOff");
		await_mending(p);
	}
}

/* ---- ending ---- */

static struct pod_end end_of(const struct pod *p)
{
	if (p->b.evict)
		return (struct pod_end){
			.phase = "Failed",
			.reason = "Error",
			.message = p->b.message[0] ? p->b.message
						   : "The node was low on resource: memory. ",
			.pod_reason = "Evicted",
			.exit_code = EXIT_BY_SIGKILL,
		};
	return (struct pod_end){
		.phase = p->b.exit_code ? "Failed" : "Succeeded",
		.reason = p->b.exit_code ? "Error" : "Completed",
		.message = p->b.message,
		.exit_code = (int)p->b.exit_code,
	};
}

/* By the Pod's restartPolicy; the API's default is Always. */
static bool starts_again(const struct pod *p, const struct json *pod)
{
	struct str policy = json_str(json_at(pod, "spec", "restartPolicy", NULL));

	if (p->b.evict)
		return false;
	return policy.len == 0 || str_eqz(policy, "Always") ||
	       (str_eqz(policy, "OnFailure") && p->b.exit_code != 0);
}

static unsigned restart_back_off_s(const struct pod *p)
{
	unsigned s = RESTART_BACK_OFF_S;

	for (unsigned i = 1; i < p->restarts && s < RESTART_MOST_S; i++)
		s *= 2;
	return p->restarts == 0 ? 0 : s < RESTART_MOST_S ? s : RESTART_MOST_S;
}

static void run_again(struct pod *p, const struct sim_object *o)
{
	struct edit e = edit_begin(o);

	enter(p, POD_RUNNING);
	loop_timer_start_in(&p->timer, p->b.run_ms);
	p->restarts++;
	pod_status_restarted(e.doc, e.root);
	edit_end(p, &e);
	tell_each(p, sim_object_json(o), "Started", say_started);
}

static void back_off(struct pod *p, const struct sim_object *o, const struct pod_end *end)
{
	unsigned seconds = restart_back_off_s(p);
	struct edit e = edit_begin(o);
	char message[512];

	snprintf(message, sizeof(message),
		 "back-off %us restarting failed containers of pod %s_%s(%s)", seconds, p->name,
		 p->ns, p->uid);
	enter(p, POD_BACKING_OFF);
	loop_timer_start_in(&p->timer, (int64_t)seconds * 1000);
	pod_status_backing_off(e.doc, e.root, end, message);
	edit_end(p, &e);
	if (seconds > 0)
		tell(p, sim_object_json(o), "Warning", "BackOff", message);
}

static void end(struct pod *p, const struct sim_object *o)
{
	struct pod_end end = end_of(p);
	struct edit e;

	if (starts_again(p, sim_object_json(o))) {
		back_off(p, o, &end);
		return;
	}
	e = edit_begin(o);
	enter(p, POD_ENDED);
	pod_status_ended(e.doc, e.root, &end);
	edit_end(p, &e);
	if (p->b.evict)
		tell(p, sim_object_json(o), "Warning", "Evicted", end.message);
}

/* ---- deletion ---- */

static int64_t grace_ms(const struct json *pod)
{
	return json_int(json_at(pod, "metadata", "deletionGracePeriodSeconds", NULL), 30) * 1000;
}

static void begin_ending(struct pod *p, const struct sim_object *o)
{
	int64_t grace = grace_ms(sim_object_json(o));
	bool alive = p->stage == POD_RUNNING;

	if (p->stage == POD_NEW || p->stage == POD_UNSCHEDULABLE || p->stage == POD_ENDED) {
		enter(p, POD_ENDED);
		sim_api_delete_now(p->k->api, sim_objects_get(p->k->objects, p->k->pods,
							      str_of(p->ns), str_of(p->name)));
		return;
	}
	enter(p, POD_ENDING);
	loop_timer_start_in(&p->timer, p->b.term_ms < grace ? p->b.term_ms : grace);
	if (alive)
		tell_each(p, sim_object_json(o), "Killing", say_killing);
}

static void finish_ending(struct pod *p, const struct sim_object *o)
{
	bool patient = p->b.term_ms <= grace_ms(sim_object_json(o));
	struct pod_end end = {
		.phase = "Failed",
		.reason = "Error",
		.exit_code = patient ? EXIT_BY_SIGTERM : EXIT_BY_SIGKILL,
	};
	struct edit e = edit_begin(o);

	pod_status_ended(e.doc, e.root, &end);
	enter(p, POD_ENDED);
	edit_end(p, &e);
	sim_api_delete_now(p->k->api, sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
						      str_of(p->name)));
}

/* ---- one look at a Pod ---- */

static bool is_over(const struct json *pod)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	return str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
}

static void step(struct pod *p)
{
	struct sim_object *o = sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
					       str_of(p->name));

	if (!o || !str_eqz(str_of(o->uid), p->uid))
		return;
	sim_object_ref(o);
	if (kube_is_deleting(sim_object_json(o)) && p->stage != POD_ENDING)
		begin_ending(p, o);
	else if (p->stage == POD_ENDING && p->due)
		finish_ending(p, o);
	else if (p->stage != POD_ENDING && p->stage != POD_ENDED && is_over(sim_object_json(o)))
		enter(p, POD_ENDED); /* somebody else wrote its status */
	else if ((p->stage == POD_NEW && p->due) || p->stage == POD_UNSCHEDULABLE)
		schedule(p, o);
	else if (p->stage == POD_STARTING && p->due)
		start(p, o);
	else if (p->stage == POD_CANT_START && p->due)
		step_cant_start(p, o);
	else if (p->stage == POD_RUNNING && p->due)
		end(p, o);
	else if (p->stage == POD_BACKING_OFF && p->due)
		run_again(p, o);
	sim_object_unref(o);
}

/* ---- watching ---- */

static void mark(struct pod *p)
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
	step(p);
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
		step(p);
	}
}

static void free_pod(void *arg)
{
	struct pod *p = arg;

	free(p->ns);
	free(p->name);
	free(p->uid);
	free(p->node);
	free(p->told);
	free(p);
}

static void mark_unschedulable(struct sim_kubelet *k)
{
	struct map_iter it = MAP_ITER(k->by_uid);

	while (map_next(&it)) {
		struct pod *p = it.value;

		if (p->stage == POD_UNSCHEDULABLE)
			mark(p);
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
	mark(p);
}

/* A step of this very Pod may be what removed it: its memory goes between events. */
static void see_gone(struct sim_kubelet *k, const struct sim_object *o)
{
	struct pod *p = map_del(k->by_uid, str_of(o->uid));

	if (!p)
		return;
	list_unlink(&p->link);
	loop_timer_stop(&p->timer);
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
		mark(p);
	if (is_over(sim_object_json(o)) && event->change == SIM_MODIFIED)
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
	k->pods = sim_resource_find(STR(""), STR("pods"));
	k->nodes = sim_resource_find(STR(""), STR("nodes"));
	k->by_uid = map_new();
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
		jmut_set_str(doc, item, "stage", stage_names[p->stage]);
		jmut_set_str(doc, item, "node", host_of(p));
		jmut_push(doc, list, item);
	}
	free(pods);
	pod_rules_to_json(&k->rules, doc, root);
	jmut_set(doc, root, "nodes", kubelet_nodes_to_json(k->objects, doc));
	jmut_set(doc, root, "pods", list);
	return root;
}
