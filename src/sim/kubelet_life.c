/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one simulated Pod: step() looks at it and does the next thing, from deferred work or
 * when its timer is due. What it writes is pod_status.c's, its Node's choice kubelet_nodes.c's.
 */
#include "sim/kubelet_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"

#define PULL_BACK_OFF_MS   1000 /* from the first failed pull to ImagePullBackOff */
#define RESTART_BACK_OFF_S 10   /* of the second restart; twice as long each time (Pod Lifecycle) */
#define RESTART_MOST_S     300
#define EXIT_BY_SIGTERM    143
#define EXIT_BY_SIGKILL    137

static const char *const stage_names[] = {"New",          "Unschedulable", "Starting",
					  "Initializing", "CantStart",     "Running",
					  "BackingOff",   "Ended",         "Ending"};

const char *kubelet_stage_name(enum pod_stage stage)
{
	return stage_names[stage];
}

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

/* ---- scheduling ---- */

static void accept_pod(struct pod *p, const struct sim_object *o)
{
	struct edit e = edit_begin(o);
	char ip[64];

	kubelet_nodes_ip(p->k->objects, p->node, ip, sizeof(ip));
	kubelet_enter(p, POD_STARTING);
	loop_timer_start_in(&p->timer, p->b.start_ms);
	pod_status_waiting(e.doc, e.root, ip, "ContainerCreating", NULL);
	edit_end(p, &e);
}

/* A Node that is lost doesn't know of it yet: it's looked at again when the Node comes back. */
static void take(struct pod *p)
{
	if (!kubelet_is_lost(p->k, p->node))
		accept_pod(p, sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
					      str_of(p->name)));
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

	kubelet_enter(p, POD_UNSCHEDULABLE);
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
	char *picked, why[SIM_POD_TEXT];

	if (given.len) {
		kubelet_settle(p, str_dup(given));
		take(p);
	} else if (json_len(json_at(pod, "spec", "schedulingGates", NULL))) {
		cant_schedule(p, o, "SchedulingGated",
			      "Scheduling is blocked due to non-empty scheduling gates");
	} else if ((picked = kubelet_nodes_pick(p->k->objects, pod, p->k->pods_on, why))) {
		kubelet_settle(p, picked);
		bind(p, o);
		take(p);
	} else {
		cant_schedule(p, o, "Unschedulable", why);
	}
}

/* ---- running ---- */

/* The next thing that happens to a Pod that runs. */
static void await_run(struct pod *p)
{
	int64_t next = p->end_ms;

	if (!p->ready && p->b.ready_ms != SIM_NEVER && (next == 0 || p->ready_at_ms < next))
		next = p->ready_at_ms;
	if (next)
		loop_timer_start_at(&p->timer, next);
}

static void begin_run(struct pod *p)
{
	int64_t now = clock_mono_ms();

	kubelet_enter(p, POD_RUNNING);
	p->end_ms = p->b.run_ms ? now + p->b.run_ms : 0;
	p->ready_at_ms = now + p->b.ready_ms;
	p->ready = p->b.ready_ms == 0;
	await_run(p);
}

/* Ready or not, by its containers, and by conditions that others write (readiness gates). */
static void look_at_readiness(struct pod *p, const struct sim_object *o)
{
	struct edit e;

	if (pod_status_is_right(sim_object_json(o), p->ready))
		return;
	e = edit_begin(o);
	pod_status_readiness(e.doc, e.root, p->ready);
	edit_end(p, &e);
}

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
	begin_run(p);
	pod_status_running(e.doc, e.root, ip, p->ready);
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

static void start_containers(struct pod *p, const struct sim_object *o)
{
	if (!p->b.start_error[0]) {
		run(p, o);
		return;
	}
	kubelet_enter(p, POD_CANT_START);
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

/* ---- init containers ---- */

static const struct json *init_containers(const struct sim_object *o)
{
	return json_at(sim_object_json(o), "spec", "initContainers", NULL);
}

/* The one at p->init is that which initExitCode is for: the last one, where none is named. */
static bool init_fails(const struct pod *p, const struct sim_object *o)
{
	const struct json *all = init_containers(o);
	struct str name = json_str(json_get(json_item(all, p->init), "name"));

	if (p->b.init_exit_code == 0)
		return false;
	return p->b.init_container[0] ? str_eqz(name, p->b.init_container)
				      : p->init + 1 == json_len(all);
}

static void fail_init(struct pod *p, const struct sim_object *o)
{
	struct edit e = edit_begin(o);

	kubelet_enter(p, POD_ENDED);
	pod_status_init_failed(e.doc, e.root, p->init,
			       &(struct pod_end){
				       .phase = "Failed",
				       .reason = "Error",
				       .message = p->b.message,
				       .exit_code = (int)p->b.init_exit_code,
			       });
	edit_end(p, &e);
}

/* Runs the init container at p->init; when there are no more, the containers. */
static void init_next(struct pod *p, const struct sim_object *o)
{
	struct edit e;

	if (p->init >= json_len(init_containers(o))) {
		start_containers(p, o);
		return;
	}
	e = edit_begin(o);
	kubelet_enter(p, POD_INITIALIZING);
	loop_timer_start_in(&p->timer, p->b.init_ms);
	pod_status_initializing(e.doc, e.root, p->init);
	edit_end(p, &e);
}

static void end_init(struct pod *p, const struct sim_object *o)
{
	if (init_fails(p, o)) {
		fail_init(p, o);
		return;
	}
	p->init++;
	init_next(p, o);
}

/* Init containers that take no time and don't fail aren't worth a status of their own. */
static void start(struct pod *p, const struct sim_object *o)
{
	if (p->b.run && p->k->run)
		kubelet_run_begin(p, o);
	else if (p->b.init_ms || p->b.init_exit_code)
		init_next(p, o);
	else
		start_containers(p, o);
}

/* ---- ending ---- */

static struct pod_end end_of(const struct pod *p)
{
	const char *container = p->b.container[0] ? p->b.container : NULL;

	if (p->b.evict)
		return (struct pod_end){
			.phase = "Failed",
			.reason = "Error",
			.message = p->b.message[0] ? p->b.message
						   : "The node was low on resource: memory. ",
			.pod_reason = "Evicted",
			.exit_code = EXIT_BY_SIGKILL,
		};
	if (p->b.oom)
		return (struct pod_end){
			.phase = "Failed",
			.reason = "OOMKilled",
			.message = p->b.message,
			.container = container,
			.exit_code = EXIT_BY_SIGKILL,
		};
	return (struct pod_end){
		.phase = p->b.exit_code ? "Failed" : "Succeeded",
		.reason = p->b.exit_code ? "Error" : "Completed",
		.message = p->b.message,
		.container = container,
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
	       (str_eqz(policy, "OnFailure") && (p->b.exit_code != 0 || p->b.oom));
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

	begin_run(p);
	p->restarts++;
	pod_status_restarted(e.doc, e.root, p->ready);
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
	kubelet_enter(p, POD_BACKING_OFF);
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
	kubelet_enter(p, POD_ENDED);
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
	bool alive = p->stage == POD_RUNNING || p->stage == POD_INITIALIZING;

	if (p->stage == POD_NEW || p->stage == POD_UNSCHEDULABLE || p->stage == POD_ENDED) {
		kubelet_enter(p, POD_ENDED);
		sim_api_delete_now(p->k->api, sim_objects_get(p->k->objects, p->k->pods,
							      str_of(p->ns), str_of(p->name)));
		return;
	}
	if (p->run) {
		kubelet_run_end(p, o);
		return;
	}
	kubelet_enter(p, POD_ENDING);
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
	kubelet_enter(p, POD_ENDED);
	edit_end(p, &e);
	sim_api_delete_now(p->k->api, sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
						      str_of(p->name)));
}

/* ---- one look at a Pod ---- */

bool kubelet_is_over(const struct json *pod)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	return str_eqz(phase, "Succeeded") || str_eqz(phase, "Failed");
}

static void step_running(struct pod *p, const struct sim_object *o)
{
	bool due = p->due;

	if (due && p->end_ms && clock_mono_ms() >= p->end_ms) {
		end(p, o);
		return;
	}
	p->due = false;
	if (due) {
		p->ready = p->ready || clock_mono_ms() >= p->ready_at_ms;
		await_run(p);
	}
	look_at_readiness(p, o);
}

static void act(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);

	if (kube_is_deleting(pod) && p->stage != POD_ENDING)
		begin_ending(p, o);
	else if (p->run)
		kubelet_run_step(p, o);
	else if (p->stage == POD_ENDING && p->due)
		finish_ending(p, o);
	else if (p->stage != POD_ENDING && p->stage != POD_ENDED && kubelet_is_over(pod))
		kubelet_enter(p, POD_ENDED); /* somebody else wrote its status */
	else if ((p->stage == POD_NEW && p->due) || p->stage == POD_UNSCHEDULABLE)
		schedule(p, o);
	else if (p->stage == POD_STARTING && p->due)
		start(p, o);
	else if (p->stage == POD_INITIALIZING && p->due)
		end_init(p, o);
	else if (p->stage == POD_CANT_START && p->due)
		step_cant_start(p, o);
	else if (p->stage == POD_RUNNING)
		step_running(p, o);
	else if (p->stage == POD_BACKING_OFF && p->due)
		run_again(p, o);
}

void kubelet_step(struct pod *p)
{
	struct sim_object *o = sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
					       str_of(p->name));

	if (!o || !str_eqz(str_of(o->uid), p->uid))
		return;
	/* What was due is done when its Node is back. */
	if (p->node && kubelet_is_lost(p->k, p->node))
		return;
	sim_object_ref(o);
	act(p, o);
	sim_object_unref(o);
}
