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

/* Why a Pod whose containers are ready isn't, by its readiness gates: false, and message is of the
 * first that is missing. */
static bool gates_open(const struct json *pod, char *ret_message, size_t size)
{
	struct json_iter it = json_iter(json_at(pod, "spec", "readinessGates", NULL));

	while (json_next(&it)) {
		const char *type = json_cstr(json_get(it.value, "conditionType"));
		const struct json *c = find_condition(json_at(pod, "status", "conditions", NULL),
						      type ? type : "");
		struct str status = json_str(json_get(c, "status"));

		if (str_eqz(status, "True"))
			continue;
		if (c)
			snprintf(
				ret_message, size,
				"the status of pod readiness gate \"%s\" is not \"True\", but %.*s",
				type, STR_ARG(status));
		else
			snprintf(ret_message, size,
				 "corresponding condition of pod readiness gate \"%s\" does not "
				 "exist.",
				 type ? type : "");
		return false;
	}
	return true;
}

struct readiness {
	bool sandbox;     /* there is one */
	bool initialized; /* its init containers are done */
	const char *why;  /* its containers aren't ready; NULL: they are */
};

static const char *or_null(const char *z)
{
	return z[0] ? z : NULL;
}

/* The five that a kubelet keeps. */
static void put_readiness(struct jmut_doc *doc, struct jmut *root, const struct readiness *r)
{
	char message[512] = "", init_message[512] = "", gate[512] = "", names[400];
	bool ready = !r->why, open = gates_open(jmut_view(root), gate, sizeof(gate));
	bool completed = r->why && strcmp(r->why, "PodCompleted") == 0;

	list_names(json_get(spec_of(root), "containers"), names, sizeof(names));
	if (r->why && strcmp(r->why, "ContainersNotReady") == 0)
		snprintf(message, sizeof(message), "containers with unready status: [%s]", names);
	list_names(json_get(spec_of(root), "initContainers"), names, sizeof(names));
	if (!r->initialized)
		snprintf(init_message, sizeof(init_message),
			 "containers with incomplete status: [%s]", names);
	put_conditions(doc, root,
		       (struct condition[]){
			       {"PodReadyToStartContainers", r->sandbox, NULL, NULL},
			       {"Initialized", r->initialized,
				!r->initialized ? "ContainersNotInitialized"
				: completed     ? r->why
						: NULL,
				or_null(init_message)},
			       {"Ready", ready && open,
				!ready ? r->why
				: open ? NULL
				       : "ReadinessGatesNotReady",
				or_null(ready ? gate : message)},
			       {"ContainersReady", ready, r->why, or_null(message)},
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
	bool ready;                   /* STEP_RUN, STEP_RUN_AGAIN */
	const char *reason, *message; /* STEP_WAIT, STEP_BACK_OFF */
	const struct pod_end *end;    /* STEP_BACK_OFF, STEP_END */
	bool is_init;                 /* one that has done its work is ready */
};

/* What becomes of a list's containers: of one, of those before it, and of the rest. */
struct changes {
	const struct container_change *before, *at, *after;
	size_t place;
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
	jmut_set_bool(doc, status, "ready",
		      change->ready || (change->step == STEP_END && change->end->exit_code == 0 &&
					change->is_init));
	jmut_set_int(doc, status, "restartCount", restarts);
	jmut_set_bool(doc, status, "started", runs);
	jmut_set(doc, status, "state", state);
	if (runs || (change->step == STEP_END && json_str(json_get(before, "containerID")).len))
		put_identity(doc, status, root, container, restarts);
	return status;
}

static void put_list(struct jmut_doc *doc, struct jmut *root, const char *list_key,
		     const char *status_key, const struct changes *changes)
{
	struct json_iter it = json_iter(json_get(spec_of(root), list_key));
	struct jmut *status = status_of(doc, root), *next = jmut_array(doc);
	const struct json *before = json_get(jmut_view(status), status_key);

	for (size_t i = 0; json_next(&it); i++) {
		struct str name = json_str(json_get(it.value, "name"));
		const struct container_change *change = i < changes->place    ? changes->before
							: i == changes->place ? changes->at
									      : changes->after;

		jmut_push(doc, next,
			  container_status(doc, root, it.value, find_named(before, name), change));
	}
	if (jmut_len(next))
		jmut_set(doc, status, status_key, next);
}

/* All containers alike. */
static void put_containers(struct jmut_doc *doc, struct jmut *root,
			   const struct container_change *change)
{
	put_list(doc, root, "containers", "containerStatuses",
		 &(struct changes){change, change, change, 0});
}

/* Those before a place are done, the one there is as told, the rest wait. */
static void put_init_containers(struct jmut_doc *doc, struct jmut *root, size_t place,
				const struct container_change *at)
{
	static const struct pod_end completed = {.reason = "Completed"};
	static const struct container_change done = {
		.step = STEP_END, .end = &completed, .is_init = true};
	static const struct container_change waits = {.step = STEP_WAIT,
						      .reason = "PodInitializing"};

	put_list(doc, root, "initContainers", "initContainerStatuses",
		 &(struct changes){&done, at ? at : &waits, &waits, place});
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
	put_init_containers(doc, root, creating ? 0 : SIZE_MAX, NULL);
	put_containers(doc, root,
		       &(struct container_change){
			       .step = STEP_WAIT,
			       .reason = creating && initializing ? "PodInitializing" : reason,
			       .message = message,
		       });
	put_readiness(
		doc, root,
		&(struct readiness){!creating, !initializing || !creating, "ContainersNotReady"});
}

void pod_status_initializing(struct jmut_doc *doc, struct jmut *root, size_t at)
{
	put_init_containers(doc, root, at, &(struct container_change){.step = STEP_RUN});
	put_readiness(doc, root, &(struct readiness){true, false, "ContainersNotReady"});
}

void pod_status_init_waiting(struct jmut_doc *doc, struct jmut *root, size_t at, const char *reason,
			     const char *message)
{
	put_init_containers(doc, root, at,
			    &(struct container_change){
				    .step = STEP_WAIT, .reason = reason, .message = message});
	put_readiness(doc, root, &(struct readiness){true, false, "ContainersNotReady"});
}

bool pod_status_one_ended(struct jmut_doc *doc, struct jmut *root, size_t at,
			  const struct pod_end *end)
{
	struct jmut *c = jmut_item(jmut_get(status_of(doc, root), "containerStatuses"), at);

	if (!c || json_at(jmut_view(c), "state", "terminated", NULL))
		return false;
	jmut_set(doc, c, "state", ended_now(doc, jmut_view(c), end));
	jmut_set_bool(doc, c, "ready", false);
	jmut_set_bool(doc, c, "started", false);
	put_readiness(doc, root, &(struct readiness){true, true, "ContainersNotReady"});
	return true;
}

void pod_status_over(struct jmut_doc *doc, struct jmut *root, bool good)
{
	jmut_set_str(doc, status_of(doc, root), "phase", good ? "Succeeded" : "Failed");
	put_readiness(doc, root,
		      &(struct readiness){false, true, good ? "PodCompleted" : "PodFailed"});
}

void pod_status_init_failed(struct jmut_doc *doc, struct jmut *root, size_t at,
			    const struct pod_end *end)
{
	jmut_set_str(doc, status_of(doc, root), "phase", end->phase);
	put_init_containers(
		doc, root, at,
		&(struct container_change){.step = STEP_END, .end = end, .is_init = true});
	put_readiness(doc, root, &(struct readiness){false, false, "PodFailed"});
}

void pod_status_running(struct jmut_doc *doc, struct jmut *root, const char *pod_ip, bool ready)
{
	struct jmut *status = status_of(doc, root);

	jmut_set_str(doc, status, "phase", "Running");
	if (pod_ip[0]) {
		jmut_set_str(doc, status, "podIP", pod_ip);
		jmut_set(doc, status, "podIPs", ip_list(doc, pod_ip));
	}
	put_init_containers(doc, root, SIZE_MAX, NULL);
	put_containers(doc, root, &(struct container_change){.step = STEP_RUN, .ready = ready});
	put_readiness(doc, root,
		      &(struct readiness){true, true, ready ? NULL : "ContainersNotReady"});
}

bool pod_status_is_right(const struct json *pod, bool ready)
{
	const struct json *conditions = json_at(pod, "status", "conditions", NULL);
	const struct json *is = find_condition(conditions, "Ready");
	const struct json *containers = find_condition(conditions, "ContainersReady");
	char gate[512] = "";
	bool open = gates_open(pod, gate, sizeof(gate));

	if (str_eqz(json_str(json_get(containers, "status")), "True") != ready ||
	    str_eqz(json_str(json_get(is, "status")), "True") != (ready && open))
		return false;
	return !ready || open || str_eqz(json_str(json_get(is, "message")), gate);
}

void pod_status_readiness(struct jmut_doc *doc, struct jmut *root, bool ready)
{
	struct jmut *list = jmut_get(status_of(doc, root), "containerStatuses");

	for (size_t i = 0; i < jmut_len(list); i++)
		jmut_set_bool(doc, jmut_item(list, i), "ready", ready);
	put_readiness(doc, root,
		      &(struct readiness){true, true, ready ? NULL : "ContainersNotReady"});
}

void pod_status_backing_off(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end,
			    const char *message)
{
	put_containers(doc, root,
		       &(struct container_change){
			       .step = STEP_BACK_OFF,
			       .reason = "CrashLoopBackOff",
			       .message = message,
			       .end = end,
		       });
	put_readiness(doc, root, &(struct readiness){true, true, "ContainersNotReady"});
}

void pod_status_restarted(struct jmut_doc *doc, struct jmut *root, bool ready)
{
	put_containers(doc, root,
		       &(struct container_change){.step = STEP_RUN_AGAIN, .ready = ready});
	put_readiness(doc, root,
		      &(struct readiness){true, true, ready ? NULL : "ContainersNotReady"});
}

/* Where a container is; SIZE_MAX: there's none of that name. */
static size_t find_place(const struct jmut *root, const char *container)
{
	const struct json *list = json_get(spec_of(root), "containers");

	for (size_t i = 0; i < json_len(list); i++) {
		if (str_eqz(json_str(json_get(json_item(list, i), "name")), container))
			return i;
	}
	return SIZE_MAX;
}

void pod_status_ended(struct jmut_doc *doc, struct jmut *root, const struct pod_end *end)
{
	static const struct pod_end completed = {.reason = "Completed"};
	struct jmut *status = status_of(doc, root);
	struct container_change told = {.step = STEP_END, .end = end};
	struct container_change others = {.step = STEP_END, .end = &completed};
	bool good = strcmp(end->phase, "Succeeded") == 0;

	jmut_set_str(doc, status, "phase", end->phase);
	if (end->pod_reason) {
		jmut_set_str(doc, status, "reason", end->pod_reason);
		jmut_set_str(doc, status, "message", end->message);
	}
	if (end->container)
		put_list(doc, root, "containers", "containerStatuses",
			 &(struct changes){&others, &told, &others,
					   find_place(root, end->container)});
	else
		put_containers(doc, root, &told);
	put_readiness(doc, root,
		      &(struct readiness){false, true, good ? "PodCompleted" : "PodFailed"});
}

void pod_status_unreachable(struct jmut_doc *doc, struct jmut *root)
{
	put_conditions(doc, root, &(struct condition){"Ready", false, NULL, NULL}, 1);
}

void pod_status_disrupted(struct jmut_doc *doc, struct jmut *root, const char *reason,
			  const char *message)
{
	put_conditions(doc, root, &(struct condition){"DisruptionTarget", true, reason, message},
		       1);
}
