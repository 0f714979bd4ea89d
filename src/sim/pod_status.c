/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scheduler and kubelet write of a Pod (Kubernetes: Pod Lifecycle), in the order and words of
 * the real ones, so that kubectl shows the same. Pure: edits a tree that its caller stores.
 */
#include "sim/kubelet_impl.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/str.h"
#include "kube/object.h"

/* ---- conditions ---- */

struct condition {
	const char *type;
	bool on;
	const char *reason, *message; /* NULL: none */
};

static const struct json *find_condition(const struct json *conditions, const char *type)
{
	struct json_iter it = json_iter(conditions);

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), type))
			return it.value;
	}
	return NULL;
}

static struct jmut *time_now(struct jmut_doc *doc)
{
	char z[CLOCK_RFC3339_SIZE];

	clock_format(clock_wall_ms(), z);
	return jmut_strz(doc, z);
}

/* before: the same condition until now, whose time stays while its status does. */
static struct jmut *make_condition(struct jmut_doc *doc, const struct condition *c,
				   const struct json *before)
{
	const char *status = c->on ? "True" : "False";
	struct jmut *obj = jmut_object(doc);
	bool same = str_eqz(json_str(json_get(before, "status")), status);

	jmut_set_str(doc, obj, "type", c->type);
	jmut_set_str(doc, obj, "status", status);
	jmut_set(doc, obj, "lastProbeTime", jmut_null(doc));
	jmut_set(doc, obj, "lastTransitionTime",
		 same ? jmut_copy(doc, json_get(before, "lastTransitionTime")) : time_now(doc));
	if (c->reason)
		jmut_set_str(doc, obj, "reason", c->reason);
	if (c->message)
		jmut_set_str(doc, obj, "message", c->message);
	return obj;
}

static struct jmut *status_of(struct jmut_doc *doc, struct jmut *root)
{
	return jmut_need_object(doc, root, "status");
}

/* These first, then those that others have put there (readiness gates, DisruptionTarget). */
static void put_conditions(struct jmut_doc *doc, struct jmut *root, const struct condition *list,
			   size_t n)
{
	struct jmut *status = status_of(doc, root), *next = jmut_array(doc);
	const struct json *before = json_get(jmut_view(status), "conditions");
	struct json_iter it = json_iter(before);

	for (size_t i = 0; i < n; i++)
		jmut_push(doc, next,
			  make_condition(doc, &list[i], find_condition(before, list[i].type)));
	while (json_next(&it)) {
		const char *type = json_cstr(json_get(it.value, "type"));

		if (type && !find_condition(jmut_view(next), type))
			jmut_push(doc, next, jmut_copy(doc, it.value));
	}
	jmut_set(doc, status, "conditions", next);
}

static void list_names(const struct json *containers, char *ret_z, size_t size)
{
	struct json_iter it = json_iter(containers);
	size_t used = 0;

	ret_z[0] = '\0';
	while (json_next(&it) && used < size) {
		struct str name = json_str(json_get(it.value, "name"));

		used += (size_t)snprintf(ret_z + used, size - used, "%s%.*s", used ? " " : "",
					 STR_ARG(name));
	}
}

static const struct json *spec_of(const struct jmut *root)
{
	return json_get(jmut_view(root), "spec");
}

/* The five that a kubelet keeps. why NULL: all is ready. */
static void put_readiness(struct jmut_doc *doc, struct jmut *root, bool sandbox, bool initialized,
			  const char *why)
{
	char message[512] = "", names[400];
	bool ready = why == NULL;
	const char *words;

	list_names(json_get(spec_of(root), "containers"), names, sizeof(names));
	if (why && strcmp(why, "ContainersNotReady") == 0)
		snprintf(message, sizeof(message), "containers with unready status: [%s]", names);
	words = message[0] ? message : NULL;
	put_conditions(
		doc, root,
		(struct condition[]){
			{"PodReadyToStartContainers", sandbox, NULL, NULL},
			{"Initialized", initialized,
			 initialized && why && strcmp(why, "PodCompleted") == 0 ? why : NULL, NULL},
			{"Ready", ready, why, words},
			{"ContainersReady", ready, why, words},
			{"PodScheduled", true, NULL, NULL},
		},
		5);
}

/* ---- containers ---- */

static struct jmut *running_since_now(struct jmut_doc *doc)
{
	struct jmut *state = jmut_object(doc), *running = jmut_object(doc);

	jmut_set(doc, running, "startedAt", time_now(doc));
	jmut_set(doc, state, "running", running);
	return state;
}

static struct jmut *waiting_for(struct jmut_doc *doc, const char *reason, const char *message)
{
	struct jmut *state = jmut_object(doc), *waiting = jmut_object(doc);

	if (message && message[0])
		jmut_set_str(doc, waiting, "message", message);
	jmut_set_str(doc, waiting, "reason", reason);
	jmut_set(doc, state, "waiting", waiting);
	return state;
}

/* before: the container's status until now, which knows when it began and what its id is. */
static struct jmut *ended_now(struct jmut_doc *doc, const struct json *before,
			      const struct pod_end *end)
{
	struct jmut *state = jmut_object(doc), *ended = jmut_object(doc);
	const struct json *since = json_at(before, "state", "running", "startedAt", NULL);

	jmut_set(doc, ended, "containerID", jmut_copy(doc, json_get(before, "containerID")));
	jmut_set_int(doc, ended, "exitCode", end->exit_code);
	jmut_set(doc, ended, "finishedAt", time_now(doc));
	if (end->message && end->message[0])
		jmut_set_str(doc, ended, "message", end->message);
	jmut_set_str(doc, ended, "reason", end->reason);
	jmut_set(doc, ended, "startedAt", since ? jmut_copy(doc, since) : time_now(doc));
	jmut_set(doc, state, "terminated", ended);
	return state;
}

static void digest_of(struct str a, struct str b, struct str c, char ret_z[65])
{
	struct str parts[] = {a, STR("/"), b, STR("/"), c};
	uint8_t digest[32];

	hash_sha256(parts, sizeof(parts) / sizeof(parts[0]), digest);
	hex_encode(digest, sizeof(digest), ret_z);
}

static struct jmut *container_id(struct jmut_doc *doc, const struct jmut *root, struct str name,
				 int64_t restarts)
{
	char number[24], id[65];

	snprintf(number, sizeof(number), "%lld", (long long)restarts);
	digest_of(kube_uid(jmut_view(root)), name, str_of(number), id);
	return jmut_strf(doc, "containerd://%s", id);
}

static const struct json *find_named(const struct json *list, struct str name)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it)) {
		if (str_eq(json_str(json_get(it.value, "name")), name))
			return it.value;
	}
	return NULL;
}

enum container_step {
	STEP_WAIT,
	STEP_RUN,
	STEP_BACK_OFF, /* has ended, and waits for being started again */
	STEP_RUN_AGAIN,
	STEP_END,
};

struct container_change {
	enum container_step step;
	const char *reason, *message; /* STEP_WAIT, STEP_BACK_OFF */
	const struct pod_end *end;    /* STEP_BACK_OFF, STEP_END */
};

static void put_identity(struct jmut_doc *doc, struct jmut *status, const struct jmut *root,
			 const struct json *container, int64_t restarts)
{
	struct str image = json_str(json_get(container, "image"));
	char id[65];

	digest_of(image, STR_NULL, STR_NULL, id);
	jmut_set(doc, status, "containerID",
		 container_id(doc, root, json_str(json_get(container, "name")), restarts));
	jmut_set(doc, status, "imageID", jmut_strf(doc, "%.*s@sha256:%s", STR_ARG(image), id));
}

static struct jmut *container_status(struct jmut_doc *doc, const struct jmut *root,
				     const struct json *container, const struct json *before,
				     const struct container_change *change)
{
	struct jmut *status = jmut_object(doc), *state, *last = NULL;
	bool runs = change->step == STEP_RUN || change->step == STEP_RUN_AGAIN;
	int64_t restarts = json_int(json_get(before, "restartCount"), 0);

	if (change->step == STEP_BACK_OFF)
		last = ended_now(doc, before, change->end);
	else if (change->step == STEP_RUN_AGAIN || change->step == STEP_END)
		last = jmut_copy(doc, json_get(before, "lastState"));
	restarts += change->step == STEP_RUN_AGAIN;
	state = runs                       ? running_since_now(doc)
		: change->step == STEP_END ? ended_now(doc, before, change->end)
					   : waiting_for(doc, change->reason, change->message);
	jmut_set(doc, status, "image", jmut_copy(doc, json_get(container, "image")));
	jmut_set_str(doc, status, "imageID", "");
	jmut_set(doc, status, "lastState", last ? last : jmut_object(doc));
	jmut_set(doc, status, "name", jmut_copy(doc, json_get(container, "name")));
	jmut_set_bool(doc, status, "ready", runs);
	jmut_set_int(doc, status, "restartCount", restarts);
	jmut_set_bool(doc, status, "started", runs);
	jmut_set(doc, status, "state", state);
	if (runs || (change->step == STEP_END && json_str(json_get(before, "containerID")).len))
		put_identity(doc, status, root, container, restarts);
	return status;
}

static void put_containers(struct jmut_doc *doc, struct jmut *root, const char *list_key,
			   const char *status_key, const struct container_change *change)
{
	struct json_iter it = json_iter(json_get(spec_of(root), list_key));
	struct jmut *status = status_of(doc, root), *next = jmut_array(doc);
	const struct json *before = json_get(jmut_view(status), status_key);

	while (json_next(&it)) {
		struct str name = json_str(json_get(it.value, "name"));

		jmut_push(doc, next,
			  container_status(doc, root, it.value, find_named(before, name), change));
	}
	if (jmut_len(next))
		jmut_set(doc, status, status_key, next);
}

/* Init containers have nothing to do here: they are done when the others run. */
static void put_init_containers(struct jmut_doc *doc, struct jmut *root, bool done)
{
	static const struct pod_end completed = {.reason = "Completed"};

	put_containers(doc, root, "initContainers", "initContainerStatuses",
		       &(struct container_change){
			       .step = done ? STEP_END : STEP_WAIT,
			       .reason = "PodInitializing",
			       .end = &completed,
		       });
}

/* ---- what is written ---- */

void pod_status_scheduled(struct jmut_doc *doc, struct jmut *root, const char *node)
{
	jmut_set_str(doc, jmut_need_object(doc, root, "spec"), "nodeName", node);
	put_conditions(doc, root, &(struct condition){"PodScheduled", true, NULL, NULL}, 1);
}

void pod_status_unscheduled(struct jmut_doc *doc, struct jmut *root, const char *reason,
			    const char *message)
{
	jmut_set_str(doc, status_of(doc, root), "phase", "Pending");
	put_conditions(doc, root, &(struct condition){"PodScheduled", false, reason, message}, 1);
}

/* Quality of service, by requests and limits of CPU and memory (Kubernetes: Pod Quality of
 * Service Classes). */
static const char *qos_of(const struct json *spec)
{
	struct json_iter it = json_iter(json_get(spec, "containers"));
	bool any = false, all = true;

	while (json_next(&it)) {
		const struct json *limits = json_at(it.value, "resources", "limits", NULL);
		const struct json *requests = json_at(it.value, "resources", "requests", NULL);

		for (int i = 0; i < 2; i++) {
			const char *name = i ? "memory" : "cpu";
			const struct json *asked = json_get(requests, name);
			const struct json *limit = json_get(limits, name);

			any = any || asked || limit;
			all = all && limit && (!asked || json_equal(asked, limit));
		}
	}
	return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

static struct jmut *ip_list(struct jmut_doc *doc, const char *ip)
{
	struct jmut *list = jmut_array(doc), *item = jmut_object(doc);

	jmut_set_str(doc, item, "ip", ip);
	jmut_push(doc, list, item);
	return list;
}

void pod_status_waiting(struct jmut_doc *doc, struct jmut *root, const char *host_ip,
			const char *reason, const char *message)
{
	struct jmut *status = status_of(doc, root);
	bool initializing = json_len(json_get(spec_of(root), "initContainers")) > 0;
	bool creating = strcmp(reason, "ContainerCreating") == 0;

	jmut_set_str(doc, status, "phase", "Pending");
	if (!jmut_get(status, "startTime"))
		jmut_set(doc, status, "startTime", time_now(doc));
	jmut_set_str(doc, status, "qosClass", qos_of(spec_of(root)));
	if (host_ip[0]) {
		jmut_set_str(doc, status, "hostIP", host_ip);
		jmut_set(doc, status, "hostIPs", ip_list(doc, host_ip));
	}
	put_init_containers(doc, root, !creating);
	put_containers(doc, root, "containers", "containerStatuses",
		       &(struct container_change){
			       .step = STEP_WAIT,
			       .reason = creating && initializing ? "PodInitializing" : reason,
			       .message = message,
		       });
	put_readiness(doc, root, !creating, !initializing || !creating, "ContainersNotReady");
}

void pod_status_running(struct jmut_doc *doc, struct jmut *root, const char *pod_ip)
{
	struct jmut *status = status_of(doc, root);

	jmut_set_str(doc, status, "phase", "Running");
	if (pod_ip[0]) {
		jmut_set_str(doc, status, "podIP", pod_ip);
		jmut_set(doc, status, "podIPs", ip_list(doc, pod_ip));
	}
	put_init_containers(doc, root, true);
	put_containers(doc, root, "containers", "containerStatuses",
		       &(struct container_change){.step = STEP_RUN});
	put_readiness(doc, root, true, true, NULL);
}

void pod_status_backing_off(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end,
			    const char *message)
{
	put_containers(doc, root, "containers", "containerStatuses",
		       &(struct container_change){
			       .step = STEP_BACK_OFF,
			       .reason = "CrashLoopBackOff",
			       .message = message,
			       .end = end,
		       });
	put_readiness(doc, root, true, true, "ContainersNotReady");
}

void pod_status_restarted(struct jmut_doc *doc, struct jmut *root)
{
	put_containers(doc, root, "containers", "containerStatuses",
		       &(struct container_change){.step = STEP_RUN_AGAIN});
	put_readiness(doc, root, true, true, NULL);
}

void pod_status_ended(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end)
{
	struct jmut *status = status_of(doc, root);
	bool good = strcmp(end->phase, "Succeeded") == 0;

	jmut_set_str(doc, status, "phase", end->phase);
	if (end->pod_reason) {
		jmut_set_str(doc, status, "reason", end->pod_reason);
		jmut_set_str(doc, status, "message", end->message);
	}
	put_containers(doc, root, "containers", "containerStatuses",
		       &(struct container_change){.step = STEP_END, .end = end});
	put_readiness(doc, root, false, true, good ? "PodCompleted" : "PodFailed");
}
