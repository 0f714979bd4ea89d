/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a Pod that runs (setting "run"): what its processes do becomes its status. The other
 * stages, until it has a Node, are kubelet_life.c's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"
#include "sim/kubelet_impl.h"
#include "sim/run.h"

#define RETRY_MS  1000
#define LOCALHOST "127.0.0.1" /* where its processes listen */

struct edit {
	struct jmut_doc *doc;
	struct jmut *root;
};

static struct edit edit_begin(const struct pod *p)
{
	struct edit e = {.doc = jmut_doc_new()};
	struct sim_object *o = sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
					       str_of(p->name));

	e.root = jmut_copy(e.doc, sim_object_json(o));
	return e;
}

static void edit_end(struct pod *p, struct edit *e)
{
	sim_objects_put(p->k->objects, p->k->pods, e->doc, e->root);
	jmut_doc_free(e->doc);
}

/* An Event of a container, or of the Pod where container is NULL. */
static void tell(const struct pod *p, const struct json *pod, const char *container,
		 const char *type, const char *reason, const char *message)
{
	kubelet_event(p->k->api, pod,
		      &(struct kubelet_event){type, reason, container, p->node ? p->node : ""},
		      "%s", message);
}

/* The same words once. */
static bool is_news(struct pod *p, const char *words)
{
	if (p->told && strcmp(p->told, words) == 0)
		return false;
	free(p->told);
	p->told = xstrdup(words);
	return true;
}

static void on_changed(void *arg)
{
	kubelet_mark(arg);
}

/* ---- starting ---- */

static const struct json *container_at(const struct json *pod, bool init, size_t place)
{
	return json_item(json_at(pod, "spec", init ? "initContainers" : "containers", NULL), place);
}

static size_t count_of(const struct json *pod, bool init)
{
	return json_len(json_at(pod, "spec", init ? "initContainers" : "containers", NULL));
}

static const char *name_of(const struct json *container)
{
	const char *name = json_cstr(json_get(container, "name"));

	return name ? name : "";
}

/* It's tried again: what is missing may come. */
static void cant_start(struct pod *p, const struct json *pod, bool init, size_t place,
		       const struct err *why)
{
	const char *reason = why->kind == ERR_NOT_FOUND || why->kind == ERR_UNSUPPORTED
				     ? "CreateContainerConfigError"
				     : "CreateContainerError";
	struct edit e;

	kubelet_enter(p, POD_CANT_START);
	loop_timer_start_in(&p->timer, RETRY_MS);
	if (!is_news(p, why->msg))
		return;
	e = edit_begin(p);
	if (init)
		pod_status_init_waiting(e.doc, e.root, place, reason, why->msg);
	else
		pod_status_waiting(e.doc, e.root, "", reason, why->msg);
	edit_end(p, &e);
	CLEANUP_FREE char *words = xasprintf("Error: %s", why->msg);
	tell(p, pod, name_of(container_at(pod, init, place)), "Warning", "Failed", words);
}

static void tell_started(const struct pod *p, const struct json *pod, bool init, size_t place)
{
	const struct json *container = container_at(pod, init, place);
	const char *name = name_of(container);
	CLEANUP_FREE char *pulled = xasprintf("Container image \"%.*s\" already present on machine",
					      STR_ARG(json_str(json_get(container, "image"))));
	CLEANUP_FREE char *created = xasprintf("Created container: %s", name);
	CLEANUP_FREE char *started = xasprintf("Started container %s", name);

	tell(p, pod, name, "Normal", "Pulled", pulled);
	tell(p, pod, name, "Normal", "Created", created);
	tell(p, pod, name, "Normal", "Started", started);
}

static bool start_one(struct pod *p, const struct json *pod, bool init, size_t place)
{
	struct err err = ERR_INIT;

	if (sim_run_pod_start(p->run, pod, init, place, &err) == 0) {
		tell_started(p, pod, init, place);
		return true;
	}
	cant_start(p, pod, init, place, &err);
	return false;
}

static void start_containers(struct pod *p, const struct json *pod)
{
	int64_t now = clock_mono_ms();
	struct edit e;

	/* Those that have started already go on when one of them has to wait. */
	for (; p->started < count_of(pod, false); p->started++)
		if (!start_one(p, pod, false, p->started))
			return;
	kubelet_enter(p, POD_RUNNING);
	p->ready_at_ms = now + p->b.ready_ms;
	p->ready = p->b.ready_ms == 0;
	if (!p->ready && p->b.ready_ms != SIM_NEVER)
		loop_timer_start_at(&p->timer, p->ready_at_ms);
	e = edit_begin(p);
	pod_status_running(e.doc, e.root, LOCALHOST, p->ready);
	edit_end(p, &e);
}

static void start_next(struct pod *p, const struct json *pod)
{
	struct edit e;

	if (p->init == count_of(pod, true)) {
		start_containers(p, pod);
		return;
	}
	if (!start_one(p, pod, true, p->init))
		return;
	kubelet_enter(p, POD_INITIALIZING);
	e = edit_begin(p);
	pod_status_initializing(e.doc, e.root, p->init);
	edit_end(p, &e);
}

void kubelet_run_begin(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);
	struct err err = ERR_INIT;

	if (!p->run && sim_run_pod_new(p->k->run, pod, on_changed, p, &p->run, &err) < 0) {
		kubelet_enter(p, POD_STARTING);
		loop_timer_start_in(&p->timer, RETRY_MS);
		if (is_news(p, err.msg))
			tell(p, pod, NULL, "Warning", "FailedMount", err.msg);
		return;
	}
	/* Fields of its own that its environment names. */
	struct edit e = edit_begin(p);
	jmut_set_str(e.doc, jmut_need_object(e.doc, e.root, "status"), "podIP", LOCALHOST);
	edit_end(p, &e);
	start_next(p, sim_object_json(sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
						      str_of(p->name))));
}

/* ---- ends ---- */

static struct pod_end end_of(const struct sim_ended *ended)
{
	return (struct pod_end){
		.phase = ended->code ? "Failed" : "Succeeded",
		.reason = !ended->started ? "StartError"
			  : ended->code   ? "Error"
					  : "Completed",
		.message = ended->message,
		.exit_code = ended->code,
	};
}

static void end_init(struct pod *p, const struct json *pod)
{
	struct sim_ended ended;
	struct edit e;

	if (!sim_run_pod_ended(p->run, true, p->init, &ended))
		return;
	if (ended.code == 0) {
		p->init++;
		start_next(p, pod);
		return;
	}
	struct pod_end end = end_of(&ended);
	kubelet_enter(p, POD_ENDED);
	e = edit_begin(p);
	pod_status_init_failed(e.doc, e.root, p->init, &end);
	edit_end(p, &e);
}

/* Those that have ended since the last look; returns whether all have. *ret_bad: one of them with
 * another status than 0. */
static bool write_ends(struct pod *p, const struct json *pod, struct edit *e, bool *ret_news,
		       bool *ret_bad)
{
	bool all = true;

	for (size_t i = 0; i < count_of(pod, false); i++) {
		struct sim_ended ended;
		if (!sim_run_pod_ended(p->run, false, i, &ended)) {
			all = false;
			continue;
		}
		struct pod_end end = end_of(&ended);
		*ret_news = pod_status_one_ended(e->doc, e->root, i, &end) || *ret_news;
		*ret_bad = *ret_bad || ended.code != 0;
	}
	return all;
}

static void look_at_ends(struct pod *p, const struct json *pod)
{
	struct edit e = edit_begin(p);
	bool news = false, bad = false;

	if (write_ends(p, pod, &e, &news, &bad)) {
		kubelet_enter(p, POD_ENDED);
		pod_status_over(e.doc, e.root, !bad);
	} else if (!news) {
		jmut_doc_free(e.doc);
		return;
	}
	edit_end(p, &e);
}

static void look_at_readiness(struct pod *p, const struct json *pod)
{
	struct edit e;

	if (p->due && p->b.ready_ms != SIM_NEVER && clock_mono_ms() >= p->ready_at_ms)
		p->ready = true;
	p->due = false;
	for (size_t i = 0; i < count_of(pod, false); i++) {
		struct sim_ended ended;
		if (sim_run_pod_ended(p->run, false, i, &ended))
			return;
	}
	if (pod_status_is_right(pod, p->ready))
		return;
	e = edit_begin(p);
	pod_status_readiness(e.doc, e.root, p->ready);
	edit_end(p, &e);
}

/* ---- deletion ---- */

void kubelet_run_end(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);
	int64_t grace = json_int(json_at(pod, "metadata", "deletionGracePeriodSeconds", NULL), 30);
	struct json_iter it = json_iter(json_at(pod, "spec", "containers", NULL));

	kubelet_enter(p, POD_ENDING);
	while (sim_run_pod_runs(p->run) && json_next(&it)) {
		CLEANUP_FREE char *words = xasprintf("Stopping container %s", name_of(it.value));
		tell(p, pod, name_of(it.value), "Normal", "Killing", words);
	}
	sim_run_pod_terminate(p->run);
	loop_timer_start_in(&p->timer, grace * 1000);
	kubelet_mark(p);
}

/* A deletion may be repeated with a shorter grace period, which counts from then. */
static void step_ending(struct pod *p, const struct json *pod)
{
	int64_t grace = json_int(json_at(pod, "metadata", "deletionGracePeriodSeconds", NULL), 30);
	bool news = false, bad = false;

	if (sim_run_pod_runs(p->run)) {
		if (p->due || grace == 0)
			sim_run_pod_kill(p->run);
		p->due = false;
		return;
	}
	struct edit e = edit_begin(p);
	bool all = write_ends(p, pod, &e, &news, &bad);
	kubelet_enter(p, POD_ENDED);
	pod_status_over(e.doc, e.root, all && !bad);
	edit_end(p, &e);
	sim_api_delete_now(p->k->api, sim_objects_get(p->k->objects, p->k->pods, str_of(p->ns),
						      str_of(p->name)));
}

/* ---- one look at it ---- */

void kubelet_run_step(struct pod *p, const struct sim_object *o)
{
	const struct json *pod = sim_object_json(o);

	if (p->stage == POD_ENDING)
		step_ending(p, pod);
	else if (p->stage != POD_ENDED && kubelet_is_over(pod)) {
		/* Somebody else wrote its status: a kubelet ends what runs. */
		kubelet_enter(p, POD_ENDED);
		sim_run_pod_kill(p->run);
	} else if (p->stage == POD_INITIALIZING)
		end_init(p, pod);
	else if (p->stage == POD_CANT_START && p->due)
		start_next(p, pod);
	else if (p->stage == POD_RUNNING) {
		look_at_readiness(p, pod);
		look_at_ends(p, pod);
	}
}
